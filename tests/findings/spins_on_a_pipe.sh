# A pipe is asked all the time whether there is something in it.
# first: polling
# may: computes
# never: syncs sleeps slow_pipe
# needs: python3

prepare() {
    :
}

run() {
    /usr/bin/python3 -c '
import os
r, w = os.pipe2(os.O_NONBLOCK)
n = 0
while n < 300000:
    try:
        os.read(r, 1)
    except BlockingIOError:
        n += 1
'
}

"$1"
