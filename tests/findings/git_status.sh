# The state of a working tree of 8,000 files.
# first: metadata
# never: syncs reading small_reads
# needs: git

prepare() {
    mkdir tree
    for d in $(seq 40); do
        mkdir tree/$d
        for f in $(seq 200); do echo "$d $f" > tree/$d/$f; done
    done
    cd tree && git init -q && git add . && git -c user.name=a -c user.email=a@b commit -qm all && git status > /dev/null
}

run() {
    cd tree && for n in 1 2 3 4 5; do git -c core.preloadIndex=false status > /dev/null; done
}

"$1"
