# A word in 8,000 small files.
# first: metadata
# may: reading cold_reads
# never: syncs computes

prepare() {
    mkdir tree
    for d in $(seq 40); do
        mkdir tree/$d
        for f in $(seq 200); do echo "$d $f" > tree/$d/$f; done
    done
}

run() {
    for n in 1 2 3; do grep -r nothing tree || :; done
}

"$1"
