# The same settings are read 20,000 times.
# first: churn metadata
# also: churn
# may: metadata rereads computes reading
# never: syncs
# needs: python3

prepare() {
    echo 'key = value' > settings
}

run() {
    /usr/bin/python3 -c '
import os
for n in range(20000):
    fd = os.open("settings", os.O_RDONLY)
    os.read(fd, 4096)
    os.close(fd)
'
}

"$1"
