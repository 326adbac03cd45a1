//! Calls that C libraries make in the place of others: `open` in a program is `openat` in the kernel.
//! Who asks for the calls of one name usually means all of its family.

/// The names of families, each with its calls.
const FAMILIES: &[(&str, &[&str])] = &[
    ("accept", &["accept", "accept4"]),
    ("access", &["access", "faccessat", "faccessat2"]),
    ("chmod", &["chmod", "fchmodat", "fchmodat2"]),
    ("chown", &["chown", "fchownat"]),
    ("creat", &["creat", "open", "openat", "openat2"]),
    ("epoll_create", &["epoll_create", "epoll_create1"]),
    ("epoll_wait", &["epoll_wait", "epoll_pwait", "epoll_pwait2"]),
    ("eventfd", &["eventfd", "eventfd2"]),
    ("exec", &["execve", "execveat"]),
    ("exit", &["exit", "exit_group"]),
    ("fork", &["fork", "vfork", "clone", "clone3"]),
    ("fstat", &["fstat", "newfstatat", "statx"]),
    ("getdents", &["getdents", "getdents64"]),
    ("inotify_init", &["inotify_init", "inotify_init1"]),
    ("lchown", &["lchown", "fchownat"]),
    ("link", &["link", "linkat"]),
    ("lstat", &["lstat", "newfstatat", "statx"]),
    ("mkdir", &["mkdir", "mkdirat"]),
    ("mknod", &["mknod", "mknodat"]),
    ("open", &["open", "openat", "openat2"]),
    ("pipe", &["pipe", "pipe2"]),
    ("poll", &["poll", "ppoll"]),
    ("pread", &["pread64"]),
    ("pwrite", &["pwrite64"]),
    ("readlink", &["readlink", "readlinkat"]),
    ("rename", &["rename", "renameat", "renameat2"]),
    ("rmdir", &["rmdir", "unlinkat"]),
    ("select", &["select", "pselect6"]),
    ("signalfd", &["signalfd", "signalfd4"]),
    ("stat", &["stat", "newfstatat", "statx"]),
    ("symlink", &["symlink", "symlinkat"]),
    ("umount", &["umount2"]),
    ("unlink", &["unlink", "unlinkat"]),
    ("utime", &["utime", "utimes", "futimesat", "utimensat"]),
    ("wait", &["wait4", "waitid"]),
    ("waitpid", &["wait4"]),
];

/// Returns the calls of the family that a name stands for, if it stands for one.
pub fn of(name: &str) -> Option<&'static [&'static str]> {
    FAMILIES.iter().find(|(family, _)| *family == name).map(|(_, calls)| *calls)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::by_name;

    #[test]
    fn families_are_of_calls_that_exist() {
        assert!(FAMILIES.is_sorted_by_key(|(family, _)| family));
        for (family, calls) in FAMILIES {
            assert!(calls.iter().all(|call| by_name(call).is_some()), "{family}");
            // A name that is itself a call's selects that as well.
            assert!(by_name(family).is_none() || calls.contains(family), "{family}");
        }
        assert_eq!(of("open"), Some(&["open", "openat", "openat2"][..]));
        assert_eq!(of("read"), None);
    }
}
