#!/usr/bin/env python3
"""Records a program that maps files and touches some of their pages, and holds what `stat pages` says
against what it did.

Usage: pages.py REENACT FOLDER
"""

import json
import mmap
import os
import subprocess
import sys

PAGE = 4096
PAGES = 2000
# Pages that are touched: far from each other, so that none is mapped around another.
STEP = 50
DIRTY = 64


def program():
    with open("mapped", "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as memory:
        memory.madvise(mmap.MADV_RANDOM)
        assert sum(memory[at * PAGE] for at in range(0, PAGES, STEP)) == PAGES // STEP
    with open("read", "rb") as file:
        assert len(file.read(PAGES * PAGE)) == PAGES * PAGE
    with open("written", "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        for at in range(DIRTY):
            memory[at * PAGE] = 2
        memory.flush()


def main():
    reenact, folder = sys.argv[1:3]
    os.chdir(folder)
    for name in ["mapped", "read", "written"]:
        with open(name, "wb") as out:
            out.write(b"\1" * PAGES * PAGE)
            out.flush()
            os.fsync(out.fileno())
            os.posix_fadvise(out.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    command = [reenact, "record", "--quiet", "-o", "pages.rnt", "--kernel=fs", "--", sys.executable, "-B",
               os.path.abspath(__file__), "--program"]
    subprocess.run(command, check=True)
    said = subprocess.run([reenact, "stat", "pages", "pages.rnt", "--json"], capture_output=True, check=True)
    found = json.loads(said.stdout)
    files = {os.path.basename(row["file"]): row for row in found["file_pages"]}
    kind = subprocess.run(["stat", "-f", "-c", "%T", "."], stdout=subprocess.PIPE, check=True, text=True)
    if kind.stdout.strip() not in ("ext2/ext3", "xfs"):
        # The kernel names files by other devices than programs see.
        return print("nothing to compare on", kind.stdout.strip())
    mapped, read, written = (files[name] for name in ["mapped", "read", "written"])
    print(mapped, read, written, sep="\n")
    assert mapped["touched_pages"] == PAGES // STEP, mapped
    assert mapped["cached_pages"] >= PAGES // STEP, mapped
    # What memory had no room for may have come in twice.
    assert read["cached_pages"] >= PAGES and read["touched_pages"] == 0, read
    if os.path.exists("/sys/kernel/tracing/events/filemap/mm_filemap_get_pages"):
        assert read["read_pages"] == PAGES and read["unused_pages"] == 0, read
    assert written["touched_pages"] >= DIRTY // 16, written
    if kind.stdout.startswith("ext"):
        assert written["written_pages"] >= DIRTY, written
    total = sum(row["touched_pages"] for row in found["file_pages"])
    assert found["touched_page_count"] == total, (found["touched_page_count"], total)


if "--program" in sys.argv:
    program()
else:
    main()
