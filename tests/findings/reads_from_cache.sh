# A file is copied out of the cache in large pieces: no read waits for the disk.
# first: reading
# may: rereads
# never: cold_reads syncs computes small_reads

prepare() {
    head -c 200000000 /dev/zero > data && cat data > /dev/null
}

run() {
    for n in 1 2 3 4 5 6; do dd if=data of=/dev/null bs=8M status=none; done
}

"$1"
