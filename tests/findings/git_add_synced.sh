# New objects of git, each of which is synced.
# first: syncs
# may: unsafe_renames
# never: computes duplicate_content
# needs: git

prepare() {
    mkdir from && cd from && git init -q && for n in $(seq 300); do echo "$n" > $n; done
}

run() {
    cd from && git -c core.fsync=loose-object add .
}

"$1"
