# The same settings, which lie deep, are read 20,000 times.
# first: churn metadata
# also: churn
# may: metadata rereads computes reading
# never: syncs
# needs: python3

prepare() {
    deep=$(printf 'settings.d/%.0s' $(seq 40))
    mkdir -p "$deep"
    echo 'key = value' > "${deep}settings"
}

run() {
    /usr/bin/python3 -c '
import os
path = "settings.d/" * 40 + "settings"
for n in range(20000):
    fd = os.open(path, os.O_RDONLY)
    os.read(fd, 4096)
    os.close(fd)
'
}

"$1"
