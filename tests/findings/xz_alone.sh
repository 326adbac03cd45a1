# One thread compresses, and the other processors rest.
# first: computes
# never: syncs reading small_reads slow_pipe

prepare() {
    /usr/bin/python3 -c "import random; random.seed(1); print(''.join(random.choice('abcdefgh ') for _ in range(3000000)))" > big
}

run() {
    xz -k -T1 big
}

"$1"
