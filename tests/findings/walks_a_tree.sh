# Sizes of all files.
# first: metadata
# never: syncs reading computes

prepare() {
    mkdir tree
    for d in $(seq 40); do
        mkdir tree/$d
        for f in $(seq 200); do echo "$d $f" > tree/$d/$f; done
    done
}

run() {
    for n in 1 2 3 4 5; do du -s tree > /dev/null; done
}

"$1"
