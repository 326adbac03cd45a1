//! Paths as text: joined and tidied without looking at a file system.

/// `path` seen from `base`. `.` and empty components vanish and `..` takes its parent away, which
/// is only right where no symbolic link is in between; the file system is not here to be asked.
pub fn resolve(base: &[u8], path: &[u8]) -> Vec<u8> {
    if path.is_empty() {
        return base.to_vec();
    }
    let start: &[u8] = if path[0] == b'/' { b"" } else { base };
    let mut out: Vec<u8> = Vec::with_capacity(start.len() + path.len() + 1);
    for component in start.split(|&c| c == b'/').chain(path.split(|&c| c == b'/')) {
        match component {
            b"" | b"." => {}
            b".." => out.truncate(out.iter().rposition(|&c| c == b'/').unwrap_or(0)),
            name => {
                out.push(b'/');
                out.extend_from_slice(name);
            }
        }
    }
    if out.is_empty() { b"/".to_vec() } else { out }
}

/// The descriptor that an absolute path names, as a process's links to its own ones do: below
/// `/proc`, or in their short forms.
pub fn own_descriptor(path: &[u8], pid: u32) -> Option<i32> {
    let number = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<i32>().ok();
    let parts: Vec<&[u8]> = path.strip_prefix(b"/")?.split(|&c| c == b'/').collect();
    match parts[..] {
        [b"dev", b"stdin"] => Some(0),
        [b"dev", b"stdout"] => Some(1),
        [b"dev", b"stderr"] => Some(2),
        [b"dev", b"fd", fd] | [b"proc", b"thread-self", b"fd", fd] => number(fd),
        [b"proc", process, b"fd", fd] | [b"proc", process, b"task", _, b"fd", fd]
            if process == b"self" || number(process).is_some_and(|n| n as u32 == pid) =>
        {
            number(fd)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{own_descriptor, resolve};

    #[test]
    fn own_descriptors_are_known_by_all_their_names() {
        for path in [
            "/dev/fd/7",
            "/proc/self/fd/7",
            "/proc/thread-self/fd/7",
            "/proc/41/fd/7",
            "/proc/self/task/42/fd/7",
        ] {
            assert_eq!(own_descriptor(path.as_bytes(), 41), Some(7), "{path}");
        }
        assert_eq!(own_descriptor(b"/dev/stdout", 41), Some(1));
        for path in
            ["/proc/42/fd/7", "/dev/fd/x", "/dev/fd", "/dev/null", "fd/7", "/proc/self/fd/7/a"]
        {
            assert_eq!(own_descriptor(path.as_bytes(), 41), None, "{path}");
        }
    }

    fn check(base: &str, path: &str, expected: &str) {
        let got = resolve(base.as_bytes(), path.as_bytes());
        assert_eq!(String::from_utf8(got).unwrap(), expected, "{base} + {path}");
    }

    #[test]
    fn joins_and_tidies() {
        check("/home/me", "a.txt", "/home/me/a.txt");
        check("/home/me", "/etc/passwd", "/etc/passwd");
        check("/home/me", "./x//y/../z", "/home/me/x/z");
        check("/home/me", "..", "/home");
        check("/", "../../..", "/");
        check("/home/me", "", "/home/me");
        check("/home/me/", ".", "/home/me");
    }
}
