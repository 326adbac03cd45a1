# Mails are delivered safely: written, synced, renamed, and the directory synced.
# first: syncs
# may: metadata
# never: unsafe_renames churn computes
# needs: python3

prepare() {
    mkdir tmp new
}

run() {
    /usr/bin/python3 -c '
import os
directory = os.open("new", os.O_RDONLY)
for n in range(150):
    fd = os.open(f"tmp/{n}", os.O_CREAT | os.O_WRONLY)
    os.write(fd, b"mail %d" % n * 1500)
    os.fsync(fd)
    os.close(fd)
    os.rename(f"tmp/{n}", f"new/{n}")
    os.fsync(directory)
'
}

"$1"
