# A file is waited for by sleeping and looking.
# first: sleeps
# may: missing_files
# never: syncs computes
# needs: python3

prepare() {
    :
}

run() {
    /usr/bin/python3 -c '
import os, time
end = time.monotonic() + 1.5
while time.monotonic() < end:
    os.path.exists("done")
    time.sleep(0.01)
'
}

"$1"
