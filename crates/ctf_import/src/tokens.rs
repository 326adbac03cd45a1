//! Words and signs of CTF's own language.

use crate::error::Wrong;

/// Bytes of a text in quotes.
const TEXT_BYTES_MAX: usize = 1 << 16;

/// A word or a sign.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Token {
    /// A name or a keyword.
    Word(String),
    /// A number.
    Number(i128),
    /// A text in quotes.
    Text(String),
    /// `:=`, `...`, `->`, or a character.
    Sign(&'static str),
}

/// Signs, those of several characters first.
const SIGNS: &[&str] = &[
    ":=", "...", "->", "{", "}", "[", "]", "(", ")", "<", ">", ";", ",", ":", "=", ".", "*", "-",
    "+",
];

/// Takes a text apart; each token has the number of its line.
pub fn tokens(text: &str) -> Result<Vec<(Token, u32)>, Wrong> {
    let mut found = Vec::new();
    let (mut rest, mut line) = (text, 1u32);
    loop {
        let blank = rest.len() - rest.trim_start().len();
        line += rest[..blank].matches('\n').count() as u32;
        rest = &rest[blank..];
        let Some(first) = rest.chars().next() else { return Ok(found) };
        let wrong = |what: &str| Wrong::metadata(line, what);
        if let Some(comment) = rest.strip_prefix("/*") {
            let end = comment.find("*/").ok_or_else(|| wrong("a comment has no end"))?;
            line += comment[..end].matches('\n').count() as u32;
            rest = &comment[end + 2..];
        } else if let Some(comment) = rest.strip_prefix("//") {
            rest = &comment[comment.find('\n').unwrap_or(comment.len())..];
        } else if first == '"' {
            let (text, after) =
                quoted(&rest[1..]).ok_or_else(|| wrong("a text has no end, or is too long"))?;
            found.push((Token::Text(text), line));
            rest = after;
        } else if first.is_ascii_digit() {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
            let number = number(&rest[..end]).ok_or_else(|| wrong("a number makes no sense"))?;
            found.push((Token::Number(number), line));
            rest = &rest[end..];
        } else if first.is_ascii_alphabetic() || first == '_' {
            let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let end = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
            found.push((Token::Word(rest[..end].into()), line));
            rest = &rest[end..];
        } else if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            found.push((Token::Sign(sign), line));
            rest = &rest[sign.len()..];
        } else {
            return Err(wrong(&format!("{first:?} has no meaning here")));
        }
    }
}

/// A text up to its quote, and what follows.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut out = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((out, &text[at + 1..])),
            '\\' => match chars.next()?.1 {
                'n' => out.push('\n'),
                't' => out.push('\t'),
                other => out.push(other),
            },
            other => out.push(other),
        }
        if out.len() > TEXT_BYTES_MAX {
            return None;
        }
    }
    None
}

fn number(text: &str) -> Option<i128> {
    let text = text.trim_end_matches(['u', 'U', 'l', 'L']);
    let (digits, base) = match text.as_bytes() {
        [b'0', b'x' | b'X', ..] => (&text[2..], 16),
        [b'0', b'b' | b'B', ..] => (&text[2..], 2),
        [b'0', _, ..] => (&text[1..], 8),
        _ => (text, 10),
    };
    i128::from_str_radix(digits, base).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_taken_apart() {
        let text = "a.b := 0x1F; /* c\n*/ \"d\\\"e\" 010 0 // f\n 7ULL";
        let found: Vec<Token> = tokens(text).unwrap().into_iter().map(|(token, _)| token).collect();
        let word = |text: &str| Token::Word(text.into());
        let expected = [
            word("a"),
            Token::Sign("."),
            word("b"),
            Token::Sign(":="),
            Token::Number(31),
            Token::Sign(";"),
            Token::Text("d\"e".into()),
            Token::Number(8),
            Token::Number(0),
            Token::Number(7),
        ];
        assert_eq!(found, expected);
        for bad in ["\"a", "/* a", "9z", "\u{1}"] {
            assert!(tokens(bad).is_err(), "{bad}");
        }
    }
}
