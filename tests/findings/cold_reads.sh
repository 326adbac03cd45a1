# A file is read that is not in the cache, here and there.
# first: cold_reads
# may: metadata
# never: syncs computes small_reads rereads
# needs: python3

prepare() {
    head -c 200000000 /dev/urandom > data && sync data
}

run() {
    /usr/bin/python3 -c '
import os, random
random.seed(1)
fd = os.open("data", os.O_RDONLY)
os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
blocks = list(range(48000))
random.shuffle(blocks)
for block in blocks[:9000]:
    os.pread(fd, 4096, block * 4096)
'
}

"$1"
