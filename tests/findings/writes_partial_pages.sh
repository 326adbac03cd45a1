# Records of 1.5 KiB are written here and there.
# first: writing unaligned_writes
# also: unaligned_writes
# may: writing computes duplicate_content
# never: syncs small_writes
# needs: python3

prepare() {
    head -c 100000000 /dev/urandom > data && sync data
}

run() {
    /usr/bin/python3 -c '
import os, random
random.seed(1)
fd = os.open("data", os.O_RDWR)
os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
record = os.urandom(1500)
for n in range(20000):
    os.pwrite(fd, record[n % 100:] + record[:n % 100], random.randrange(60000) * 1600)
'
}

"$1"
