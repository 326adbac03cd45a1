//! Paths as text: joined and normalized without access to a file system.

/// Limit for the length of a path, as in the kernel.
pub const BYTES_MAX: usize = 4096;
/// Replaces the first directories of a path that would be too long.
pub const CUT: &[u8] = b"/[...]";

/// Returns true if the beginning of a path was cut off.
pub fn is_cut(path: &[u8]) -> bool {
    path.strip_prefix(CUT).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

/// Resolves `path` relative to `base`. Removes `.` and empty components, and `..` with its parent.
/// This is wrong after a symbolic link, but there is no file system to ask.
pub fn resolve(base: &[u8], path: &[u8]) -> Vec<u8> {
    if path.is_empty() {
        return base.to_vec();
    }
    let start: &[u8] = if path[0] == b'/' { b"" } else { base };
    if let Some(plain) = put_together(start, path) {
        return plain;
    }
    let mut out: Vec<u8> = Vec::with_capacity(start.len() + path.len() + 1);
    for component in start.split(|&c| c == b'/').chain(path.split(|&c| c == b'/')) {
        match component {
            b"" | b"." => {}
            // The parent of a cut-off part is unknown.
            b".." if out == CUT => {}
            b".." => out.truncate(out.iter().rposition(|&c| c == b'/').unwrap_or(0)),
            name => {
                out.push(b'/');
                out.extend_from_slice(name);
            }
        }
    }
    if out.len() > BYTES_MAX {
        let end = &out[out.len() - (BYTES_MAX - CUT.len())..];
        // Keep whole components only.
        let whole = end.iter().position(|&c| c == b'/').unwrap_or(end.len());
        out = [CUT, &end[whole..]].concat();
    }
    if out.is_empty() { b"/".to_vec() } else { out }
}

/// Returns a path relative to a directory, if nothing of them needs to be removed.
fn put_together(start: &[u8], path: &[u8]) -> Option<Vec<u8>> {
    let is_plain = is_plain(path) && is_plain(start) && start.len() + path.len() < BYTES_MAX;
    is_plain.then(|| match path.first() {
        None => start.to_vec(),
        Some(b'/') => path.to_vec(),
        Some(_) if start == b"/" => [b"/", path].concat(),
        Some(_) if start.is_empty() || start[0] == b'/' => [start, b"/", path].concat(),
        Some(_) => [b"/", start, b"/", path].concat(),
    })
}

/// Returns `path` relative to `base` as they are spelt: `..` stays, because only the file system knows
/// where it leads after a symbolic link.
pub fn join(base: &[u8], path: &[u8]) -> Vec<u8> {
    let start: &[u8] = if path.first() == Some(&b'/') { b"" } else { base };
    if let Some(plain) = put_together(start, path).filter(|plain| !plain.is_empty()) {
        return plain;
    }
    let mut out = Vec::with_capacity(start.len() + path.len() + 1);
    for name in start.split(|&c| c == b'/').chain(path.split(|&c| c == b'/')) {
        let is_above_all = name == b".." && out.is_empty();
        if !name.is_empty() && name != b"." && !is_above_all {
            out.push(b'/');
            out.extend_from_slice(name);
        }
    }
    match out.len() {
        0 => b"/".to_vec(),
        1..=BYTES_MAX => out,
        _ => resolve(base, path),
    }
}

/// Returns true if no component of a path is empty or begins with a dot.
fn is_plain(path: &[u8]) -> bool {
    let Some((_, rest)) = path.split_first() else { return true };
    // All of it is looked at, in steps of many bytes, which is faster than to stop early.
    let odd = path.iter().zip(rest).fold(0u8, |odd, (one, next)| {
        odd | (u8::from(*one == b'/') & (u8::from(*next == b'/') | u8::from(*next == b'.')))
    });
    let is_odd = odd != 0;
    !is_odd && path.first() != Some(&b'.') && (path.last() != Some(&b'/') || path.len() == 1)
}

/// Target of a process's /proc link to what it has open, or of a short form like /dev/stdin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Own {
    /// A descriptor.
    Descriptor(i32),
    /// The working directory.
    Cwd,
    /// The root.
    Root,
}

/// Returns false for most paths that go through no own link.
pub(crate) fn may_be_own(path: &[u8]) -> bool {
    path.starts_with(b"/proc/") || path.starts_with(b"/dev/")
}

/// Returns the own link that an absolute path goes through, and the rest of the path.
pub fn own_link(path: &[u8], pid: u32) -> Option<(Own, &[u8])> {
    let mut parts = path.strip_prefix(b"/")?.splitn(2, |&c| c == b'/');
    let (first, rest) = (parts.next()?, parts.next()?);
    let (name, below) = split(rest);
    let (own, below) = match (first, name) {
        (b"dev", b"stdin") => (Own::Descriptor(0), below),
        (b"dev", b"stdout") => (Own::Descriptor(1), below),
        (b"dev", b"stderr") => (Own::Descriptor(2), below),
        (b"dev", b"fd") => numbered(below)?,
        (b"proc", b"thread-self") => of_process(below)?,
        (b"proc", process) if process == b"self" || number(process) == i32::try_from(pid).ok() => {
            match split(below) {
                (b"task", tasks) => of_process(split(tasks).1)?,
                _ => of_process(below)?,
            }
        }
        _ => return None,
    };
    Some((own, below))
}

/// Splits off the first component.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().position(|&c| c == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (path, b""),
    }
}

fn number(text: &[u8]) -> Option<i32> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn numbered(path: &[u8]) -> Option<(Own, &[u8])> {
    let (name, below) = split(path);
    Some((Own::Descriptor(number(name)?), below))
}

fn of_process(path: &[u8]) -> Option<(Own, &[u8])> {
    match split(path) {
        (b"fd", below) => numbered(below),
        (b"cwd", below) => Some((Own::Cwd, below)),
        (b"root", below) => Some((Own::Root, below)),
        _ => None,
    }
}

/// Returns the own descriptor that an absolute path names by its /proc link.
pub fn own_descriptor(path: &[u8], pid: u32) -> Option<i32> {
    match own_link(path, pid)? {
        (Own::Descriptor(fd), b"") => Some(fd),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{BYTES_MAX, CUT, Own, is_cut, join, own_descriptor, own_link, resolve};

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

    #[test]
    fn own_links_lead_on() {
        let check = |path: &str, own: Option<(Own, &str)>| {
            let found = own_link(path.as_bytes(), 41);
            let own = own.map(|(own, below)| (own, below.as_bytes()));
            assert_eq!(found, own, "{path}");
        };
        check("/proc/self/fd/7/a/b", Some((Own::Descriptor(7), "a/b")));
        check("/dev/fd/7/a", Some((Own::Descriptor(7), "a")));
        check("/proc/41/cwd", Some((Own::Cwd, "")));
        check("/proc/thread-self/cwd/a/b", Some((Own::Cwd, "a/b")));
        check("/proc/self/task/42/root/etc", Some((Own::Root, "etc")));
        for none in
            ["/proc/42/cwd/a", "/proc/self", "/proc", "/proc/self/exe", "/dev/fd", "/a/b", "/"]
        {
            check(none, None);
        }
    }

    #[test]
    fn of_long_paths_the_end_is_kept() {
        let mut path = b"/".to_vec();
        for number in 0..10_000 {
            path = resolve(&path, format!("directory-{number}").as_bytes());
            assert!(path.len() <= BYTES_MAX);
        }
        assert!(is_cut(&path) && path.ends_with(b"/directory-9998/directory-9999"));
        for _ in 0..10_000 {
            path = resolve(&path, b"..");
        }
        assert_eq!((&path[..], resolve(&path, b"x")), (CUT, [CUT, b"/x"].concat()));
        assert!(!is_cut(b"/[...]x") && !is_cut(b"/a"));
        assert_eq!(resolve(b"/", &[b'x'; 5000]), CUT);
    }

    #[test]
    fn joined_paths_keep_what_only_the_file_system_knows() {
        let check = |base: &str, path: &str, expected: &str| {
            let joined = join(base.as_bytes(), path.as_bytes());
            assert_eq!(String::from_utf8_lossy(&joined), expected, "{base} + {path}");
        };
        check("/a", "b//./c/", "/a/b/c");
        check("/a", "../b", "/a/../b");
        check("/a/../b", "c", "/a/../b/c");
        check("/a/../b", "/c", "/c");
        check("/a", "", "/a");
        check("", "/../..", "/");
        check("", "/x/..", "/x/..");
        check("/a", &"x/../".repeat(2000), "/a");
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
        check("", "a/b", "/a/b");
        check("relative", "a", "/relative/a");
        check("/home", ".hidden/..x", "/home/.hidden/..x");
        check("/home/", "a/", "/home/a");
        check("/home", "a/./b/.", "/home/a/b");
        check("/home", "/", "/");
    }
}
