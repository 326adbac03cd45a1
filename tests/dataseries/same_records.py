"""Tells whether two files have the same records of the SNIA schema: same_records.py A B

Bits that may not be null are left out: the writers of known traces set all of them. Times in A that
are seconds with a fraction count as nanoseconds.
"""

import sys

from read_dataseries import File

SNIA = "IOTTAFSL::Trace::Syscall::"


def records(path):
    file = File(path)
    found = {}
    for name, record in file.records:
        if name.startswith(SNIA):
            kinds = {f["name"]: f for f in file.types[name].fields}
            kept = {}
            for field, value in record.items():
                kind = kinds[field]
                if kind["type"] == "bool" and kind.get("opt_nullable") != "yes":
                    continue
                if kind["type"] == "double" and value is not None:
                    value = int(value * 1e9)
                kept[field] = value
            found.setdefault(name, []).append(kept)
    for all in found.values():
        all.sort(key=lambda record: record["unique_id"])
    return found


def main():
    a, b = records(sys.argv[1]), records(sys.argv[2])
    if a.keys() != b.keys():
        sys.exit(f"types: {sorted(a)} and {sorted(b)}")
    count = 0
    for name in a:
        if len(a[name]) != len(b[name]):
            sys.exit(f"{name}: {len(a[name])} and {len(b[name])} records")
        for left, right in zip(a[name], b[name]):
            for field in left:
                near = field.startswith("time_") and left[field] is not None
                same = left[field] == right.get(field)
                if not same and not (near and abs(left[field] - (right[field] or 0)) < 1000 and "full" not in field):
                    sys.exit(f"{name}: {field}: {left[field]} and {right.get(field)}")
            count += 1
    print(f"{count} records")


if __name__ == "__main__":
    main()
