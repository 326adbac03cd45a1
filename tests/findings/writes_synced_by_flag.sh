# A file opened with O_DSYNC.
# first: writing syncs
# may: duplicate_content
# never: computes reading small_writes

prepare() {
    :
}

run() {
    dd if=/dev/zero of=out bs=4k count=400 oflag=dsync 2> dd.log
}

"$1"
