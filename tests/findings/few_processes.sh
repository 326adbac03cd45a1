# A script of a few lines starts a program in each.
# first: spawns
# never: syncs reading small_reads

prepare() {
    :
}

run() {
    for n in $(seq 40); do /bin/true; done
}

"$1"
