# A shell starts a program for each line.
# first: spawns
# may: computes
# never: syncs reading

prepare() {
    :
}

run() {
    for n in $(seq 600); do /bin/expr $n + 1 > /dev/null; done
}

"$1"
