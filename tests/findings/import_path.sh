# A module is searched along 200 directories, again and again.
# first: missing_files metadata
# also: missing_files
# may: metadata computes
# never: syncs
# needs: python3

prepare() {
    for n in $(seq 200); do mkdir -p d$n/usr/lib/modules/of/all; done
}

run() {
    /usr/bin/python3 -S -E -c '
import os
names = [f"d{n}/usr/lib/modules/of/all/lib{m}.so" for m in range(60) for n in range(200)]
for time in range(10):
    list(map(os.access, names, [os.R_OK] * len(names)))
'
}

"$1"
