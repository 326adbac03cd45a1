//! Parses arguments into a tree, regardless of their meaning.

use super::error::{Wrong, shown};
use crate::spelling::WORKING_DIRECTORY;

/// A node of the text between the parentheses of a call.
#[derive(Debug, PartialEq)]
pub enum Node<'a> {
    /// A string in quotes.
    Text {
        /// Its bytes.
        bytes: Vec<u8>,
        /// True if dots follow: the string was cut.
        cut: bool,
    },
    /// A number, a name, or several joined by operators.
    Word(&'a str),
    /// A descriptor annotated with what it refers to.
    Labelled(&'a str, Vec<u8>),
    /// Items in square brackets.
    List {
        /// The items.
        items: Vec<Node<'a>>,
        /// True if the list names what is not in the set.
        inverted: bool,
        /// True if dots stand for items left out.
        cut: bool,
    },
    /// Fields in braces.
    Struct {
        /// Named fields: name and value.
        fields: Vec<(&'a str, Node<'a>)>,
        /// Fields without a name.
        plain: Vec<Node<'a>>,
        /// True if dots stand for fields left out.
        cut: bool,
    },
    /// A name with arguments.
    Call(&'a str, Vec<Node<'a>>),
    /// A value before and after the call.
    Changed(Box<Node<'a>>, Box<Node<'a>>),
    /// An argument with its name.
    Named(&'a str, Box<Node<'a>>),
    /// Several nodes separated by blanks.
    Several(Vec<Node<'a>>),
}

/// Deepest nesting of brackets.
const DEPTH_MAX: u32 = 16;
/// Most nodes of one call.
const NODES_MAX: usize = 1 << 18;

/// Read position in a text.
pub struct Cursor<'a> {
    rest: &'a [u8],
    nodes: usize,
}

impl<'a> Cursor<'a> {
    /// Starts at the beginning of a text.
    pub fn new(text: &'a [u8]) -> Cursor<'a> {
        Cursor { rest: text, nodes: 0 }
    }

    /// The text not yet read.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Reads items up to and including a closing bracket. Returns whether dots were among them too.
    pub fn items(&mut self, close: u8) -> Result<(Vec<Node<'a>>, bool), Wrong> {
        self.items_at(close, 0)
    }

    /// Reads one item.
    pub fn item(&mut self) -> Result<Node<'a>, Wrong> {
        self.value(0)
    }

    fn items_at(&mut self, close: u8, depth: u32) -> Result<(Vec<Node<'a>>, bool), Wrong> {
        if depth > DEPTH_MAX {
            return Err(format!("more than {DEPTH_MAX} brackets within each other"));
        }
        let (mut items, mut cut) = (Vec::new(), false);
        loop {
            self.blanks()?;
            match self.rest {
                [c, rest @ ..] if *c == close => {
                    self.rest = rest;
                    return Ok((items, cut));
                }
                [b',', rest @ ..] => self.rest = rest,
                [b'.', b'.', b'.', rest @ ..] => {
                    self.rest = rest;
                    cut = true;
                }
                [] => {
                    let close = char::from(close);
                    return Err(format!("the line ends where '{close}' was expected"));
                }
                [b')' | b']' | b'}', ..] => {
                    let (found, close) = (char::from(self.rest[0]), char::from(close));
                    return Err(format!("'{found}' where '{close}' was expected"));
                }
                _ => items.push(self.value(depth)?),
            }
        }
    }

    /// Skips blanks and comments.
    fn blanks(&mut self) -> Result<(), Wrong> {
        loop {
            self.rest = self.rest.trim_ascii_start();
            let Some(comment) = self.rest.strip_prefix(b"/*") else { return Ok(()) };
            let end = comment.windows(2).position(|pair| pair == b"*/");
            self.rest = &comment[end.ok_or("a comment that is not closed")? + 2..];
        }
    }

    /// Reads a value: atoms separated by blanks, or a change.
    fn value(&mut self, depth: u32) -> Result<Node<'a>, Wrong> {
        let mut atoms = Vec::new();
        loop {
            self.blanks()?;
            match self.rest {
                [] | [b',' | b')' | b']' | b'}', ..] | [b'.', b'.', b'.', ..] => break,
                [b'=', b'>', rest @ ..] => {
                    self.rest = rest;
                    let before = together(atoms);
                    if depth > DEPTH_MAX {
                        return Err(format!("more than {DEPTH_MAX} changes in a row"));
                    }
                    let after = self.value(depth + 1)?;
                    return Ok(Node::Changed(Box::new(before), Box::new(after)));
                }
                _ => atoms.push(self.atom(depth)?),
            }
        }
        Ok(together(atoms))
    }

    fn atom(&mut self, depth: u32) -> Result<Node<'a>, Wrong> {
        self.nodes += 1;
        if self.nodes > NODES_MAX {
            return Err(format!("more than {NODES_MAX} values in one call"));
        }
        match self.rest {
            [b'"', rest @ ..] => {
                self.rest = rest;
                let bytes = self.string()?;
                let cut = self.dots();
                Ok(Node::Text { bytes, cut })
            }
            // An abstract socket address begins with a NUL.
            [b'@', b'"', rest @ ..] => {
                self.rest = rest;
                let mut bytes = vec![0];
                bytes.extend(self.string()?);
                let cut = self.dots();
                Ok(Node::Text { bytes, cut })
            }
            [b'[', rest @ ..] => {
                self.rest = rest;
                let (items, cut) = self.items_at(b']', depth + 1)?;
                Ok(Node::List { items: flat(items), inverted: false, cut })
            }
            [b'~', b'[', rest @ ..] => {
                self.rest = rest;
                let (items, cut) = self.items_at(b']', depth + 1)?;
                Ok(Node::List { items: flat(items), inverted: true, cut })
            }
            [b'{', rest @ ..] => {
                self.rest = rest;
                let (items, cut) = self.items_at(b'}', depth + 1)?;
                let (mut fields, mut plain) = (Vec::new(), Vec::new());
                for item in items {
                    match item {
                        Node::Named(name, value) => fields.push((name, *value)),
                        other => plain.push(other),
                    }
                }
                Ok(Node::Struct { fields, plain, cut })
            }
            [b'(', rest @ ..] => {
                self.rest = rest;
                let (items, _) = self.items_at(b')', depth + 1)?;
                Ok(Node::Call("", items))
            }
            _ => self.word(depth),
        }
    }

    fn dots(&mut self) -> bool {
        match self.rest.strip_prefix(b"...") {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn word(&mut self, depth: u32) -> Result<Node<'a>, Wrong> {
        let ends = |c: u8| c.is_ascii_whitespace() || b",()[]{}\"<=".contains(&c);
        let end = self.rest.iter().position(|&c| ends(c)).unwrap_or(self.rest.len());
        // Operators form words: '==', '<<'.
        let end = if end == 0 {
            let signs = self.rest.iter().take_while(|c| b"<=".contains(c)).count();
            signs.clamp(1, 2)
        } else {
            end
        };
        let (word, rest) = self.rest.split_at(end.min(self.rest.len()));
        let word = std::str::from_utf8(word).map_err(|_| format!("{} is not text", shown(word)))?;
        self.rest = rest;
        match rest {
            [b'(', rest @ ..] => {
                self.rest = rest;
                let (items, _) = self.items_at(b')', depth + 1)?;
                Ok(Node::Call(word, items))
            }
            [b'=', after @ ..] if !matches!(after, [b'=' | b'>', ..]) && is_name(word) => {
                self.rest = after;
                if depth > DEPTH_MAX {
                    return Err(format!("more than {DEPTH_MAX} names in a row"));
                }
                Ok(Node::Named(word, Box::new(self.value(depth + 1)?)))
            }
            [b'<', after @ ..] if is_descriptor(word) && !after.starts_with(b"<") => {
                self.rest = after;
                Ok(Node::Labelled(word, self.label()?))
            }
            _ => Ok(Node::Word(word)),
        }
    }

    /// Reads what a descriptor refers to, up to the closing '>'.
    fn label(&mut self) -> Result<Vec<u8>, Wrong> {
        let mut depth = 0u32;
        let mut before = 0;
        for (index, &c) in self.rest.iter().enumerate() {
            match c {
                b'<' => depth += 1,
                // The arrow between two addresses is no closing bracket.
                b'>' if before != b'-' && depth == 0 => {
                    let inside = &self.rest[..index];
                    self.rest = &self.rest[index + 1..];
                    return unescaped(inside);
                }
                b'>' if before != b'-' => depth -= 1,
                _ => {}
            }
            before = c;
        }
        Err("the line ends where '>' was expected".into())
    }

    /// Reads a string up to its closing quote.
    fn string(&mut self) -> Result<Vec<u8>, Wrong> {
        let mut at = 0;
        loop {
            match self.rest.get(at) {
                None => return Err("the line ends within a string".into()),
                Some(b'"') => break,
                Some(b'\\') => at += 2,
                Some(_) => at += 1,
            }
        }
        let inside = &self.rest[..at];
        self.rest = &self.rest[at + 1..];
        unescaped(inside)
    }
}

fn together(mut atoms: Vec<Node<'_>>) -> Node<'_> {
    match atoms.len() {
        1 => atoms.remove(0),
        _ => Node::Several(atoms),
    }
}

/// Flattens items that are separated by blanks.
fn flat(items: Vec<Node<'_>>) -> Vec<Node<'_>> {
    items.into_iter().fold(Vec::new(), |mut all, item| {
        match item {
            Node::Several(parts) => all.extend(parts),
            one => all.push(one),
        }
        all
    })
}

fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && word.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_')
}

fn is_descriptor(word: &str) -> bool {
    word == WORKING_DIRECTORY || !word.is_empty() && word.bytes().all(|c| c.is_ascii_digit())
}

/// Replaces the escape sequences of C.
pub fn unescaped(text: &[u8]) -> Result<Vec<u8>, Wrong> {
    let mut bytes = Vec::with_capacity(text.len() / 4 + 1);
    let mut at = 0;
    while let Some(&c) = text.get(at) {
        at += 1;
        if c != b'\\' {
            bytes.push(c);
            continue;
        }
        let escape = *text.get(at).ok_or("a string ends with '\\'")?;
        at += 1;
        bytes.push(match escape {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'v' => 0x0b,
            b'f' => 0x0c,
            b'x' => {
                let digits = text.get(at..at + 2).and_then(|d| std::str::from_utf8(d).ok());
                let value = digits.and_then(|d| u8::from_str_radix(d, 16).ok());
                at += 2;
                value.ok_or("'\\x' without two digits in a string")?
            }
            b'0'..=b'7' => {
                let more = text[at..].iter().take(2).take_while(|c| (b'0'..=b'7').contains(c));
                let digits = std::iter::once(&escape).chain(more);
                let (value, count) =
                    digits.fold((0u32, 0), |(v, n), d| (v * 8 + u32::from(d - b'0'), n + 1));
                at += count - 1;
                u8::try_from(value).map_err(|_| "a number above 255 in a string")?
            }
            other => other,
        });
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn items(text: &str) -> Vec<Node<'_>> {
        let (items, _) = Cursor::new(text.as_bytes()).items(b')').expect("arguments");
        items
    }

    fn text(bytes: &[u8], cut: bool) -> Node<'static> {
        Node::Text { bytes: bytes.to_vec(), cut }
    }

    #[test]
    fn strings() {
        assert_eq!(items(r#""a\n\x41\0\1011\"")"#), [text(b"a\nA\0A1\"", false)]);
        assert_eq!(items(r#""\x61"..., 5)"#), [text(b"a", true), Node::Word("5")]);
        assert_eq!(items(r#"@"ab")"#), [text(b"\0ab", false)]);
    }

    #[test]
    fn structs_and_lists() {
        let list = |items| Node::List { items, inverted: false, cut: false };
        assert_eq!(items("[3 4])"), [list(vec![Node::Word("3"), Node::Word("4")])]);
        let fields =
            vec![("a", Node::Word("1|2")), ("b", Node::Call("f", vec![Node::Word("0x1")]))];
        let both = Node::Struct { fields, plain: Vec::new(), cut: true };
        assert_eq!(items("{a=1|2 /* x */, b=f(0x1), ...})"), [both]);
        let changed = Node::Changed(Box::new(Node::Word("128")), Box::new(Node::Word("16")));
        assert_eq!(items("[128 => 16])"), [list(vec![changed])]);
        let named = Node::Named("flags", Box::new(Node::Word("A|B")));
        assert_eq!(items("flags=A|B)"), [named]);
    }

    #[test]
    fn labels() {
        let socket = Node::Labelled("3", b"TCP:[1.2.3.4:5->6.7.8.9:10]".to_vec());
        assert_eq!(items("3<TCP:[1.2.3.4:5->6.7.8.9:10]>)"), [socket]);
        assert_eq!(
            items("1</dev/null<char 1:3>>)"),
            [Node::Labelled("1", b"/dev/null<char 1:3>".to_vec())]
        );
    }

    #[test]
    fn what_is_not_closed() {
        for bad in ["", "\"a", "[1", "{a=", "3</x", "/* a", "\"\\x4\")", "\"\\", "\"\\777\")"] {
            assert!(Cursor::new(bad.as_bytes()).items(b')').is_err(), "{bad}");
        }
        let deep = "[".repeat(100_000);
        assert!(Cursor::new(deep.as_bytes()).items(b')').is_err());
        let changes = "a=>".repeat(100_000);
        assert!(Cursor::new(changes.as_bytes()).items(b')').is_err());
        let names = "a=".repeat(100_000);
        assert!(Cursor::new(names.as_bytes()).items(b')').is_err());
    }
}
