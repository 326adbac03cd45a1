# The kernel makes random numbers: a call that neither moves data of files nor waits.
# first: other_calls
# never: syncs computes reading mapping_memory
# needs: python3

prepare() {
    :
}

run() {
    /usr/bin/python3 -c '
import os
for _ in range(150):
    os.getrandom(4 << 20)
'
}

"$1"
