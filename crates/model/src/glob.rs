//! Shell patterns for paths.

/// Returns true if `pattern` matches all of `text`. `*` matches any bytes (slashes too), `?` one
/// byte, `[abc]`, `[a-z]` and `[!a-z]` one byte of a set. A backslash quotes the next byte.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    // Positions to resume from if the rest after the last star does not match.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        if p < pattern.len() && pattern[p] == b'*' {
            retry = Some((p + 1, t));
            p += 1;
            continue;
        }
        if t == text.len() && p == pattern.len() {
            return true;
        }
        let step = if t < text.len() { one(&pattern[p..], text[t]) } else { None };
        match (step, retry) {
            (Some(used), _) => {
                p += used;
                t += 1;
            }
            (None, Some((after, from))) if from < text.len() => {
                retry = Some((after, from + 1));
                p = after;
                t = from + 1;
            }
            (None, _) => return false,
        }
    }
}

/// Returns a pattern that matches this text alone.
pub fn quoted(text: &[u8]) -> Vec<u8> {
    let is_special = |byte: &u8| b"*?[\\".contains(byte);
    let bytes =
        text.iter().flat_map(|byte| is_special(byte).then_some(b'\\').into_iter().chain([*byte]));
    bytes.collect()
}

/// Returns the length of the pattern's first element if it matches `byte`.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match *pattern.first()? {
        b'?' => Some(1),
        b'[' => set(pattern, byte),
        b'\\' if pattern.len() > 1 => (pattern[1] == byte).then_some(2),
        literal => (literal == byte).then_some(1),
    }
}

fn set(pattern: &[u8], byte: u8) -> Option<usize> {
    let negated = matches!(pattern.get(1), Some(b'!' | b'^'));
    let first = if negated { 2 } else { 1 };
    // A closing bracket that comes first is a member of the set.
    let close = pattern.iter().skip(first + 1).position(|&c| c == b']').map(|at| at + first + 1);
    let Some(close) = close else { return (byte == b'[').then_some(1) };
    let members = &pattern[first..close];
    let mut found = false;
    let mut at = 0;
    while at < members.len() {
        if at + 2 < members.len() && members[at + 1] == b'-' {
            found |= (members[at]..=members[at + 2]).contains(&byte);
            at += 3;
        } else {
            found |= members[at] == byte;
            at += 1;
        }
    }
    (found != negated).then_some(close + 1)
}

#[cfg(test)]
mod tests {
    use super::{matches, quoted};

    #[track_caller]
    fn check(pattern: &str, text: &str, expected: bool) {
        assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
    }

    #[test]
    fn what_is_quoted_matches_itself_alone() {
        let text = br"socket:[7]/*.t?p\";
        assert!(matches(&quoted(text), text));
        assert!(!matches(&quoted(b"/*.tmp"), b"/a.tmp"));
    }

    #[test]
    fn patterns() {
        check("/etc/*", "/etc/ssl/cert.pem", true);
        check("*.log", "/var/log/a.log", true);
        check("*.log", "/var/log/a.log.1", false);
        check("/tmp/?", "/tmp/a", true);
        check("/tmp/?", "/tmp/", false);
        check("*[0-9].db", "/x/a7.db", true);
        check("*[!0-9].db", "/x/a7.db", false);
        check("[]]", "]", true);
        check("[", "[", true);
        check("a\\*", "a*", true);
        check("a\\*", "ab", false);
        check("", "", true);
        check("*", "", true);
        check("a*b*c", "aXbXbXc", true);
        check("a*b*c", "aXbXbX", false);
        check("abc", "ab", false);
        check("ab", "abc", false);
    }

    #[test]
    fn many_stars_take_no_long_time() {
        let pattern = "*a".repeat(50) + "b";
        check(&pattern, &"a".repeat(10_000), false);
    }
}
