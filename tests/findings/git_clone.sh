# A clone through git's own protocol: packing, sending, unpacking.
# first: computes
# may: metadata unsafe_renames
# never: syncs
# needs: git

prepare() {
    mkdir from && cd from && git init -q
    for n in $(seq 60); do
        /usr/bin/python3 -c "import random; random.seed($n); print('\n'.join(str(random.random()) for _ in range(6000)))" > file
        git add file && git -c user.name=a -c user.email=a@b commit -qm $n
    done
}

run() {
    git clone -q file://$PWD/from to
}

"$1"
