# A log whose every line is synced.
# first: syncs
# may: small_writes
# never: computes
# needs: python3

prepare() {
    :
}

run() {
    /usr/bin/python3 -c '
import os
log = open("log", "w")
for n in range(300):
    log.write(f"line {n} of a log\n")
    log.flush()
    os.fdatasync(log.fileno())
'
}

"$1"
