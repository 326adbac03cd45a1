"""Writes and reads 1,200 files, as scripts do; for `cargo xtask bench record`."""

import os
import sys

top = sys.argv[1]
os.makedirs(top, exist_ok=True)
for number in range(1200):
    folder = os.path.join(top, str(number % 40))
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, f"{number}.txt"), "w", encoding="utf-8") as out:
        for line in range(200):
            out.write(f"line {line} of file {number}: {line * number}\n")

total = 0
for folder, _, names in os.walk(top):
    for name in sorted(names):
        with open(os.path.join(folder, name), encoding="utf-8") as text:
            total += sum(len(line) for line in text)
print(total)
