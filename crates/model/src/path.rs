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

#[cfg(test)]
mod tests {
    use super::resolve;

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
