# An archive is compressed: one end of the pipe is far slower.
# first: computes slow_pipe
# also: slow_pipe
# may: computes
# never: syncs small_reads reading writing

prepare() {
    /usr/bin/python3 -c "import random; random.seed(1); print(''.join(random.choice('abcdefgh ') for _ in range(12000000)))" > big
}

run() {
    tar cf - big | gzip -9 > big.tgz
}

"$1"
