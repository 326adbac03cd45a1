# Four processes take turns under a lock, and compute while they hold it.
# first: computes lock_waits
# also: lock_waits
# may: single_threaded computes
# never: syncs sleeps
# needs: python3

prepare() {
    : > lock
}

run() {
    /usr/bin/python3 -c '
import fcntl, os
for p in range(4):
    if os.fork() == 0:
        fd = os.open("lock", os.O_RDWR)
        for n in range(40):
            fcntl.flock(fd, fcntl.LOCK_EX)
            sum(range(300000))
            fcntl.flock(fd, fcntl.LOCK_UN)
        os._exit(0)
for p in range(4):
    os.wait()
'
}

"$1"
