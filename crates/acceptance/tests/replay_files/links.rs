//! Symbolic and hard links.

use crate::{BOTH, Work};

pub const WORKS: &[Work] = &[
    Work {
        name: "links_whose_texts_nobody_read",
        who: BOTH,
        needs: &["bash"],
        given: "echo 1 > python3.11; ln -s python3.11 python3; ln -s python3 python; ln -s nowhere dangling",
        script: "exec bash -c '[ -e python3 ] && [ -h python3 ] && [ -h python ] && cat python && [ -h dangling ]'",
        left_out: &[],
    },
    Work {
        name: "a_working_directory_that_is_removed",
        who: BOTH,
        needs: &["bash"],
        given: "echo 1 > other",
        script: "mkdir d; cd d; rmdir ../d; ls; ls ..; bash -c 'ls ..; cat ../other 2>/dev/null || true'",
        left_out: &[],
    },
    Work {
        name: "numbers_of_terminals_closed_by_an_exec",
        who: BOTH,
        needs: &["python3"],
        given: "echo 1 > file",
        script: r#"exec python3 -S -c 'import fcntl, os, pty, socket
FIONCLEX, FIOCLEX = 0x5450, 0x5451
for fd in [*pty.openpty(), socket.socket().detach(), os.open("file", os.O_RDONLY)]:
    for request in [FIONCLEX, FIOCLEX]:
        fcntl.ioctl(fd, request)
        assert fcntl.fcntl(fd, fcntl.F_GETFD) == (request == FIOCLEX)'"#,
        left_out: &[],
    },
    Work {
        name: "paths_in_a_root_of_their_own",
        who: BOTH,
        needs: &["python3"],
        given: "mkdir -p root/etc; echo inside > root/etc/passwd; ln -s /etc/passwd root/link; ln -s /etc root/absent",
        script: r#"exec python3 -S - <<'END'
import ctypes, os, struct
kernel = ctypes.CDLL(None, use_errno=True)
OPENAT2, IN_ROOT = 437, 16
root = os.open("root", os.O_PATH)
def inside(path):
    how = struct.pack("QQQ", os.O_RDONLY, 0, IN_ROOT)
    fd = kernel.syscall(OPENAT2, root, path, how, len(how))
    return os.read(fd, 100) if fd >= 0 else ctypes.get_errno()
assert inside(b"/etc/passwd") == inside(b"link") == inside(b"../../etc/passwd") == b"inside" + bytes([10])
assert inside(b"/etc/group") == inside(b"absent/group") == inside(b"../../etc/hostname") == 2
for name in ["/etc/passwd", "/etc/group"]:
    open(name).read()
END"#,
        left_out: &[],
    },
    Work {
        name: "links_whose_own_attributes_change",
        who: BOTH,
        needs: &["python3"],
        given: "
            for i in 1 2 3 4 5; do echo $i > file$i; ln -s file$i link$i; done; ln -s nowhere dangling
        ",
        // No other call looks at the links or their targets.
        script: r#"exec python3 -S - <<'END'
import ctypes, os
kernel = ctypes.CDLL(None, use_errno=True)
FCHMODAT2, SETXATTRAT, REMOVEXATTRAT, AT_FDCWD, NOFOLLOW = 452, 463, 466, -100, 0x100
class Value(ctypes.Structure):
    _fields_ = [("value", ctypes.c_uint64), ("size", ctypes.c_uint32), ("flags", ctypes.c_uint32)]
bytes = ctypes.create_string_buffer(b"value")
value = ctypes.byref(Value(ctypes.addressof(bytes), 5, 0))
os.utime("link1", (1000, 2000), follow_symlinks=False)
os.utime("dangling", (1000, 2000), follow_symlinks=False)
os.chown("link2", os.getuid(), os.getgid(), follow_symlinks=False)
# Kernels and file systems differ in what they say to these.
kernel.syscall(FCHMODAT2, AT_FDCWD, b"link3", 0o600, NOFOLLOW)
kernel.syscall(SETXATTRAT, AT_FDCWD, b"link4", 0, b"user.name", value, 16)
kernel.syscall(REMOVEXATTRAT, AT_FDCWD, b"link4", 0, b"user.name")
kernel.syscall(REMOVEXATTRAT, AT_FDCWD, b"link5", NOFOLLOW, b"user.name")
END"#,
        left_out: &[],
    },
];
