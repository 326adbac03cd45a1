# Memory is mapped and filled at once, and given back, again and again.
# first: mapping_memory
# never: syncs computes reading other_calls
# needs: python3

prepare() {
    :
}

run() {
    /usr/bin/python3 -c '
import mmap
for _ in range(60):
    mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE).close()
'
}

"$1"
