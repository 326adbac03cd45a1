# Much data is written in large pieces.
# first: writing
# may: duplicate_content compressible reading
# never: syncs computes small_writes unaligned_writes

prepare() {
    :
}

run() {
    dd if=/dev/zero of=out bs=1M count=800 2> dd.log
}

"$1"
