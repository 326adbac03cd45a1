"""Runs what a document shows: every ```sql block with DuckDB, or every ```python block.

    python3 documented.py DOCUMENT sql|python

in the directory that the document speaks of. Each must work, and each query must find something.
"""

import re
import sys


def blocks(document, language):
    with open(document, encoding="utf-8") as lines:
        return re.findall(rf"^```{language}\n(.*?)^```$", lines.read(), re.MULTILINE | re.DOTALL)


def main():
    document, language, *wanted = sys.argv[1:]
    found = [block for block in blocks(document, language) if all(word in block for word in wanted)]
    if not found:
        sys.exit(f"{document} shows no {language}")
    for block in found:
        if language == "python":
            exec(compile(block, document, "exec"), {})
            continue
        import duckdb

        rows = duckdb.sql(block.strip().removesuffix(";")).fetchall()
        if not rows:
            sys.exit(f"nothing is found by\n{block}")
        print(rows[0])
    print(f"{len(found)} blocks of {language}")


main()
