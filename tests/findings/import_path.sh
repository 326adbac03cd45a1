# A module is searched along 200 directories, again and again.
# first: missing_files metadata
# also: missing_files
# may: metadata computes
# never: syncs
# needs: python3

prepare() {
    for n in $(seq 200); do mkdir d$n; done
}

run() {
    /usr/bin/python3 -S -E -c '
import os
names = [f"d{n}/lib{m}.so" for m in range(300) for n in range(200)]
for name in names:
    try:
        os.open(name, os.O_RDONLY)
    except FileNotFoundError:
        pass
'
}

"$1"
