# A tree of small files is copied by rsync.
# first: metadata
# may: event_waits unsafe_renames small_writes missing_files
# never: syncs
# needs: rsync

prepare() {
    mkdir tree
    for d in $(seq 40); do
        mkdir tree/$d
        for f in $(seq 150); do echo "$d $f" > tree/$d/$f; done
    done
}

run() {
    rsync -a tree/ to/
}

"$1"
