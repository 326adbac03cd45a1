# A log that is written line by line.
# first: small_writes writing computes
# also: small_writes
# may: writing computes
# never: syncs
# needs: python3

prepare() {
    :
}

run() {
    /usr/bin/python3 -c '
import os
log = os.open("log", os.O_CREAT | os.O_WRONLY)
for n in range(300000):
    os.write(log, b"a line of a log\n")
'
}

"$1"
