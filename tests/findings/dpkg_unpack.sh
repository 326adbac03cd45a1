# A Debian package of 300 files is unpacked: each new file is synced, and renamed, which takes longer on a fast
# disk.
# first: syncs metadata
# also: syncs
# may: missing_files metadata
# never: computes unsafe_renames
# needs: dpkg-source

prepare() {
    mkdir -p p/DEBIAN p/share root/var/lib/dpkg/updates root/var/lib/dpkg/info
    : > root/var/lib/dpkg/status
    for n in $(seq 300); do echo "$n" > p/share/$n; done
    printf 'Package: p\nVersion: 1\nArchitecture: all\nMaintainer: a <a@b>\nDescription: p\n' > p/DEBIAN/control
    dpkg-deb -Znone --build p p.deb > build.log
}

run() {
    PATH=$PATH:/usr/sbin:/sbin dpkg --log=dpkg.log --force-not-root --refuse-unsafe-io --root=$PWD/root --unpack p.deb > unpack.log
}

"$1"
