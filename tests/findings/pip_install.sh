# A wheel of 600 modules is installed.
# first: computes
# may: metadata writing reading cold_reads missing_files unsafe_renames
# never: syncs
# needs: pip3

prepare() {
    mkdir -p w/big w/big-1.dist-info
    for n in $(seq 600); do echo "x = $n" > w/big/m$n.py; done
    printf 'Metadata-Version: 2.1\nName: big\nVersion: 1\n' > w/big-1.dist-info/METADATA
    printf 'Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n' > w/big-1.dist-info/WHEEL
    : > w/big-1.dist-info/RECORD
    cd w && /usr/bin/python3 -m zipfile -c ../big-1-py3-none-any.whl big big-1.dist-info
    # What is measured is a second install: pip itself is in memory then.
    cd .. && install before
}

install() {
    /usr/bin/python3 -m pip install -q --no-index --no-deps --target "$1" big-1-py3-none-any.whl
}

run() {
    install to
}

"$1"
