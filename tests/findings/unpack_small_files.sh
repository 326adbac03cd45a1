# An archive of 8,000 small files is unpacked.
# first: metadata
# may: small_writes
# never: syncs small_reads computes

prepare() {
    mkdir tree
    for d in $(seq 40); do
        mkdir tree/$d
        for f in $(seq 200); do echo "$d $f" > tree/$d/$f; done
    done
    tar cf tree.tar tree
}

run() {
    mkdir to && tar xf tree.tar -C to
}

"$1"
