# A file in the cache is read 40 times.
# first: reading rereads
# also: rereads
# may: reading writing
# never: syncs computes small_reads

prepare() {
    head -c 40000000 /dev/urandom > data
}

run() {
    for n in 1 2 3 4 5 6 7 8 9 10; do cat data data data data > /dev/null; done
}

"$1"
