# Files are saved by a new one that is renamed, not synced.
# first: metadata unsafe_renames computes
# also: unsafe_renames
# may: metadata small_writes computes writing
# never: syncs
# needs: python3

prepare() {
    :
}

run() {
    /usr/bin/python3 -c '
import os
for n in range(5000):
    with open("new", "w") as file:
        file.write(f"state {n}\n" * 20)
    os.rename("new", "state")
'
}

"$1"
