//! What several processes do to the same files at a time.

use crate::{BOTH, Work};

pub const WORKS: &[Work] = &[
    Work {
        name: "fifo_that_others_write",
        who: BOTH,
        needs: &["bash", "mkfifo"],
        given: "",
        script: r#"exec bash -c 'mkfifo p
            for i in {1..60}; do (echo $i > p) & read -r line < p; wait; done; echo $line > last'"#,
        left_out: &[],
    },
    Work {
        name: "directory_that_is_listed_while_files_are_made",
        who: BOTH,
        needs: &["seq", "xargs"],
        given: "",
        script: r#"seq 60 | xargs -P 4 -n 3 sh -c \
            'for n; do echo $n > f$n; done; cat f* > /dev/null' sh || test $? = 123"#,
        left_out: &[],
    },
    Work {
        name: "pipe_that_is_opened_by_its_name",
        who: BOTH,
        needs: &["bash", "seq", "sort", "tee"],
        given: "",
        script: r#"exec bash -c 'seq 3000 | tee >(sort -r > sorted) | tail -n 1 > last
            until test -s sorted; do sleep 0.01; done'"#,
        left_out: &[],
    },
    Work {
        name: "file_that_is_sent_over_a_socket",
        who: BOTH,
        needs: &["python3"],
        given: "",
        script: r#"exec python3 -S - <<'END'
import os, socket
here = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
here.bind("socket")
if os.fork() == 0:
    there = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    there.connect("socket")
    file = os.open("sent", os.O_CREAT | os.O_RDWR, 0o600)
    os.write(file, b"hello")
    socket.send_fds(there, [b"x"], [file])
    os._exit(0)
_, files, _, _ = socket.recv_fds(here, 100, 1)
os.write(files[0], b" world")
os.wait()
END"#,
        left_out: &[],
    },
];
