# Small tools look at small files, one after the other.
# first: spawns
# may: computes small_writes
# never: syncs

prepare() {
    :
}

run() {
    for n in $(seq 150); do
        echo "#define HAVE_$n 1" > try.c
        sed -e 's/HAVE/HAS/' try.c > out.c
        grep -q HAS out.c
        rm -f try.c out.c
    done
}

"$1"
