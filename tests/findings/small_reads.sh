# A file is read without a buffer, 64 bytes at a time.
# first: small_reads reading computes
# also: small_reads
# may: reading computes
# never: syncs rereads
# needs: python3

prepare() {
    head -c 16000000 /dev/urandom > data
}

run() {
    /usr/bin/python3 -c '
import os
fd = os.open("data", os.O_RDONLY)
while os.read(fd, 64):
    pass
'
}

"$1"
