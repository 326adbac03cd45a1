# Random writes with a sync after each fourth.
# first: syncs
# may: writing reading duplicate_content
# never: computes
# needs: fio

prepare() {
    :
}

run() {
    fio --name=j --filename=f --size=16M --bs=4k --rw=randwrite --fsync=4 --ioengine=psync --thread > fio.log
}

"$1"
