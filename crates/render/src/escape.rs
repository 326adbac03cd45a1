//! Escapes bytes from recorded programs, so that they cannot send control sequences to the user's
//! terminal.

use std::fmt::Write as _;

/// Appends `bytes` in double quotes, with escapes as in C.
pub fn quote(out: &mut String, bytes: &[u8]) {
    out.push('"');
    escape(out, bytes, &['"']);
    out.push('"');
}

/// Returns a command line in which a shell would find these words.
pub fn in_shell<W: AsRef<[u8]>>(words: impl IntoIterator<Item = W>) -> Vec<u8> {
    let plain = |c: &u8| c.is_ascii_alphanumeric() || b"-_./=:,+%@".contains(c);
    let mut line = Vec::new();
    for (number, word) in words.into_iter().enumerate() {
        let word = word.as_ref();
        if number > 0 {
            line.push(b' ');
        }
        if !word.is_empty() && word.iter().all(plain) {
            line.extend_from_slice(word);
            continue;
        }
        line.push(b'\'');
        for byte in word {
            match byte {
                b'\'' => line.extend_from_slice(b"'\\''"),
                byte => line.push(*byte),
            }
        }
        line.push(b'\'');
    }
    line
}

/// Returns a command line quoted for a shell and escaped for a terminal.
pub fn command_line<W: AsRef<[u8]>>(words: impl IntoIterator<Item = W>) -> String {
    let line = in_shell(words.into_iter().map(|word| escaped(word.as_ref())));
    String::from_utf8_lossy(&line).into_owned()
}

/// Returns `bytes` with escapes.
pub fn escaped(bytes: &[u8]) -> String {
    let mut out = String::new();
    escape(&mut out, bytes, &[]);
    out
}

/// Appends `bytes` with escapes; `special` are further characters to escape.
pub fn escape(out: &mut String, bytes: &[u8], special: &[char]) {
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\n' => out.push_str("\\n"),
                '\t' => out.push_str("\\t"),
                '\r' => out.push_str("\\r"),
                '\\' => out.push_str("\\\\"),
                '"' if special.contains(&'"') => out.push_str("\\\""),
                c if special.contains(&c) => octal(out, c),
                ' '..='~' => out.push(c),
                c if c.is_alphanumeric() => out.push(c),
                c => octal(out, c),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(out, "\\{byte:03o}");
        }
    }
}

fn octal(out: &mut String, c: char) {
    for byte in c.encode_utf8(&mut [0; 4]).bytes() {
        let _ = write!(out, "\\{byte:03o}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], expected: &str) {
        let mut out = String::new();
        quote(&mut out, bytes);
        assert_eq!(out, expected);
    }

    #[test]
    fn words_stay_words_in_a_shell() {
        let line = in_shell(["sh", "-c", "tar cf - a | gzip", "", "it's", "a.db"]);
        assert_eq!(line, br"sh -c 'tar cf - a | gzip' '' 'it'\''s' a.db");
        assert_eq!(in_shell([b"a\xff\n"]), b"'a\xff\n'");
    }

    #[test]
    fn hostile_bytes_cannot_reach_the_terminal() {
        check(b"plain text", "\"plain text\"");
        check(b"a\nb\t\"c\"\\", r#""a\nb\t\"c\"\\""#);
        check(b"\x1b[31mred\x07", r#""\033[31mred\007""#);
        check(b"\xff\xfe\x80", r#""\377\376\200""#);
        check("Größe 文".as_bytes(), "\"Größe 文\"");
        check("\u{202e}gpj".as_bytes(), r#""\342\200\256gpj""#);
        check("\u{9b}31m".as_bytes(), r#""\302\23331m""#);
    }

    #[test]
    fn labels_keep_their_brackets_apart() {
        let mut out = String::new();
        escape(&mut out, b"/a>b<\n", &['<', '>']);
        assert_eq!(out, "/a\\076b\\074\\n");
    }
}
