//! Streaming JSON writer.

use std::fmt::Write as _;
use std::io::{self, Write};

use model::decode::symbols;
use model::{Contents, Value};
use syscalls::abi::signals;
use trace::event::Content;

/// Largest number that every JSON reader keeps exactly; larger ones are written as strings.
const EXACT_MAX: u64 = 1 << 53;

/// Size at which text is written out: base64 of a buffer may be longer than memory.
const KEPT_BYTES: usize = 1 << 16;

/// A JSON text being written. Inserts commas itself.
pub struct Json<'a> {
    out: String,
    /// True if the next value or key needs no comma before it.
    first: bool,
    sink: &'a mut dyn Write,
    result: io::Result<()>,
}

/// Returns the text that `fill` writes.
pub fn text(fill: impl FnOnce(&mut Json<'_>)) -> String {
    let mut bytes = Vec::new();
    let mut json = Json::new(&mut bytes);
    fill(&mut json);
    json.finish().expect("memory takes everything");
    String::from_utf8(bytes).expect("JSON is text")
}

impl<'a> Json<'a> {
    /// Makes a writer to `sink`.
    pub fn new(sink: &'a mut dyn Write) -> Json<'a> {
        Json { out: String::new(), first: true, sink, result: Ok(()) }
    }

    /// Writes the rest. Returns the first error.
    pub fn finish(mut self) -> io::Result<()> {
        self.write();
        self.result
    }

    fn write(&mut self) {
        if self.result.is_ok() {
            self.result = self.sink.write_all(self.out.as_bytes());
        }
        self.out.clear();
    }

    fn write_if_long(&mut self) {
        if self.out.len() >= KEPT_BYTES {
            self.write();
        }
    }

    fn comma(&mut self) {
        if !self.first {
            self.out.push(',');
        }
        self.first = false;
    }

    /// Begins a member of an object; a value must follow.
    pub fn key(&mut self, name: &str) -> &mut Json<'a> {
        self.comma();
        self.string(name);
        self.out.push(':');
        self.first = true;
        self
    }

    /// Writes an object with members written by `fill`.
    pub fn object(&mut self, fill: impl FnOnce(&mut Json<'_>)) {
        self.nested('{', '}', fill);
    }

    /// Writes an array with items written by `fill`.
    pub fn array(&mut self, fill: impl FnOnce(&mut Json<'_>)) {
        self.nested('[', ']', fill);
    }

    fn nested(&mut self, open: char, close: char, fill: impl FnOnce(&mut Json<'_>)) {
        self.comma();
        self.out.push(open);
        self.first = true;
        fill(self);
        self.out.push(close);
        self.first = false;
    }

    /// Writes `null`.
    pub fn null(&mut self) {
        self.comma();
        self.out.push_str("null");
    }

    /// Writes `true` or `false`.
    pub fn bool(&mut self, value: bool) {
        self.comma();
        self.out.push_str(if value { "true" } else { "false" });
    }

    /// Writes a number, as a string if JSON readers might not keep it exactly.
    pub fn uint(&mut self, value: u64) {
        self.comma();
        let quote = if value > EXACT_MAX { "\"" } else { "" };
        let _ = write!(self.out, "{quote}{value}{quote}");
    }

    /// Writes a number with six decimals, 0 if it is not finite.
    pub fn float(&mut self, value: f64) {
        self.comma();
        let value = if value.is_finite() { value } else { 0.0 };
        let _ = write!(self.out, "{value:.6}");
    }

    /// Writes a signed number, as a string if JSON readers might not keep it exactly.
    pub fn int(&mut self, value: i64) {
        self.comma();
        let quote = if value.unsigned_abs() > EXACT_MAX { "\"" } else { "" };
        let _ = write!(self.out, "{quote}{value}{quote}");
    }

    /// Writes a number with up to six decimals, null if it is not finite.
    pub fn number(&mut self, value: f64) {
        if !value.is_finite() {
            return self.null();
        }
        self.comma();
        let text = format!("{value:.6}");
        self.out.push_str(text.trim_end_matches('0').trim_end_matches('.'));
    }

    /// Writes a string.
    pub fn str(&mut self, value: &str) {
        self.comma();
        self.string(value);
    }

    /// Writes bytes: as a string if they are UTF-8, else as `{"base64": ...}`.
    pub fn bytes(&mut self, value: &[u8]) {
        match std::str::from_utf8(value) {
            Ok(text) => self.str(text),
            Err(_) => self.object(|json| {
                let mut encoder = json.key("base64").base64();
                encoder.push(value);
                encoder.finish();
            }),
        }
    }

    /// Writes a string or null.
    pub fn optional_str(&mut self, value: Option<&str>) {
        match value {
            Some(value) => self.str(value),
            None => self.null(),
        }
    }

    /// Writes a number or null.
    pub fn optional_uint(&mut self, value: Option<u64>) {
        match value {
            Some(value) => self.uint(value),
            None => self.null(),
        }
    }

    /// Begins a string in base64, with bytes added piece by piece.
    pub fn base64<'b>(&'b mut self) -> Base64<'b, 'a> {
        self.comma();
        self.out.push('"');
        Base64 { json: self, rest: [0; 3], held: 0 }
    }

    fn string(&mut self, text: &str) {
        self.out.push('"');
        // Most strings are names, which need nothing.
        if text.bytes().all(|byte| matches!(byte, b' ' | b'!' | b'#'..=b'[' | b']'..=b'~')) {
            self.out.push_str(text);
        } else {
            text.chars().for_each(|c| self.char(c));
        }
        self.out.push('"');
    }

    fn char(&mut self, c: char) {
        match c {
            '"' => self.out.push_str("\\\""),
            '\\' => self.out.push_str("\\\\"),
            '\n' => self.out.push_str("\\n"),
            // Escape control characters and marks of direction, so that they stay visible.
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') || is_bidi(c) => {
                let _ = write!(self.out, "\\u{:04x}", c as u32);
            }
            c => self.out.push(c),
        }
    }

    /// Writes a decoded value.
    pub fn value(&mut self, value: &Value) {
        match value {
            Value::Int(n) => self.int(*n),
            Value::Uint(n) | Value::Hex(n) | Value::Dev(n) | Value::Address(n) => self.uint(*n),
            Value::Mode(mode) => self.uint((*mode).into()),
            Value::Port(port) => self.uint((*port).into()),
            Value::Signal(number) => {
                let name = signals::name(*number);
                self.named(i64::from(*number), name);
            }
            Value::SigSet(set) => {
                let names = (1..=64).filter(|n| set >> (n - 1) & 1 != 0).filter_map(signals::name);
                self.symbols(*set, names);
            }
            Value::Fd { fd, .. } => self.int((*fd).into()),
            Value::Flags { value, set } => {
                let (names, _) = symbols::split(set, *value);
                self.symbols(*value, names.into_iter());
            }
            Value::Enum { value, set } => {
                self.symbols(*value, symbols::name(set, *value).into_iter());
            }
            Value::Named { value, name } => self.named(*value, Some(name)),
            Value::Text { bytes, cut: false, .. } => self.bytes(bytes),
            Value::Text { bytes, cut: true, .. } => self.object(|json| {
                json.key("cut").bool(true);
                json.key("text").bytes(bytes);
            }),
            // The bytes of an argument are under `data`; those of a struct field are only here.
            Value::Bytes(bytes) if bytes.at != 0 => self.uint(bytes.at),
            Value::Bytes(bytes) => self.bytes(&bytes.head),
            Value::Array { items, more, .. } => self.array(|json| {
                items.iter().for_each(|item| json.value(item));
                if *more > 0 {
                    json.object(|json| json.key("more").uint(*more));
                }
            }),
            Value::Struct { fields, cut } => self.object(|json| {
                for (name, value) in fields {
                    json.key(name).value(value);
                }
                if *cut {
                    json.key("cut").bool(true);
                }
            }),
            Value::FdSet(fds) => {
                self.array(|json| fds.iter().for_each(|fd| json.int((*fd).into())))
            }
            Value::WaitStatus(status) => self.wait_status(*status),
            Value::Ip(ip) => self.str(&ip.to_string()),
            Value::Changed(before, after) => self.object(|json| {
                json.key("before").value(before);
                json.key("after").value(after);
            }),
            Value::Fault(at) => self.object(|json| {
                json.key("address").uint(*at);
                json.key("fault").bool(true);
            }),
            Value::Damaged(at, why) => self.object(|json| {
                json.key("address").uint(*at);
                json.key("damaged").str(why);
            }),
        }
    }

    /// Writes a decoded wait status.
    pub fn wait_status(&mut self, status: i32) {
        let signal =
            |number: i32| signals::name(number).map_or_else(|| number.to_string(), str::to_owned);
        self.object(|json| {
            json.key("value").int(status.into());
            match (status & 0x7f, status >> 8 & 0xff) {
                _ if status == 0xffff => json.key("continued").bool(true),
                (0, code) => json.key("exited").int(code.into()),
                (0x7f, stop) => json.key("stopped").str(&signal(stop)),
                (number, _) => {
                    json.key("killed").str(&signal(number));
                    json.key("core").bool(status & 0x80 != 0);
                }
            }
        });
    }

    fn named(&mut self, value: i64, name: Option<&str>) {
        self.object(|json| {
            json.key("value").int(value);
            json.key("names").array(|json| name.into_iter().for_each(|name| json.str(name)));
        });
    }

    fn symbols<'n>(&mut self, value: u64, names: impl Iterator<Item = &'n str>) {
        self.object(|json| {
            json.key("value").uint(value);
            json.key("names").array(|json| names.for_each(|name| json.str(name)));
        });
    }
}

fn is_bidi(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A base64 string being written.
pub struct Base64<'b, 'a> {
    json: &'b mut Json<'a>,
    rest: [u8; 3],
    held: usize,
}

impl Base64<'_, '_> {
    /// Adds bytes.
    pub fn push(&mut self, mut bytes: &[u8]) {
        while self.held > 0 && !bytes.is_empty() {
            self.rest[self.held] = bytes[0];
            bytes = &bytes[1..];
            self.held += 1;
            if self.held == 3 {
                self.json.out.extend(encode(self.rest).map(char::from));
                self.held = 0;
            }
        }
        let (groups, rest) = bytes.as_chunks::<3>();
        for groups in groups.chunks(GROUPS) {
            let mut text = [0; GROUPS * 4];
            for (group, text) in groups.iter().zip(text.as_chunks_mut::<4>().0) {
                *text = encode(*group);
            }
            let text = str::from_utf8(&text[..groups.len() * 4]);
            self.json.out.push_str(text.expect("base64 is ASCII"));
            self.json.write_if_long();
        }
        self.rest[self.held..self.held + rest.len()].copy_from_slice(rest);
        self.held += rest.len();
    }

    /// Ends the string.
    pub fn finish(mut self) {
        if self.held > 0 {
            self.rest[self.held..].fill(0);
            let used = self.held + 1;
            self.json.out.extend(encode(self.rest)[..used].iter().map(|&c| char::from(c)));
            for _ in used..4 {
                self.json.out.push('=');
            }
        }
        self.json.out.push('"');
    }
}

/// Number of 3-byte groups encoded at a time.
const GROUPS: usize = 256;

fn encode([a, b, c]: [u8; 3]) -> [u8; 4] {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bits = u32::from(a) << 16 | u32::from(b) << 8 | u32::from(c);
    [18, 12, 6, 0].map(|shift| ALPHABET[(bits >> shift & 63) as usize])
}

/// Writes the stored bytes of several contents as one base64 string. Returns the first error.
pub fn stored_base64<'a>(
    json: &mut Json<'_>,
    stored: impl Iterator<Item = &'a Content>,
    contents: &mut dyn Contents,
    also: &mut dyn FnMut(&[u8]),
) -> Result<(), String> {
    let mut encoder = json.base64();
    let mut result = Ok(());
    for content in stored {
        result = result.and(contents.each(content, &mut |bytes| {
            encoder.push(bytes);
            also(bytes);
            true
        }));
    }
    encoder.finish();
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(write: impl FnOnce(&mut Json<'_>), expected: &str) {
        let text = text(write);
        assert_eq!(text, expected);
        serde_json::from_str::<serde_json::Value>(&text).expect("valid JSON");
    }

    #[test]
    fn large_integers_are_strings() {
        check(|j| j.uint(1 << 53), "9007199254740992");
        check(|j| j.uint((1 << 53) + 1), "\"9007199254740993\"");
        check(|j| j.int(-(1 << 53) - 1), "\"-9007199254740993\"");
        check(|j| j.int(-1), "-1");
    }

    #[test]
    fn bytes_that_are_no_text() {
        check(|j| j.bytes(b"a\"\\\n\x1b"), r#""a\"\\\n\u001b""#);
        check(|j| j.bytes(b"\xff\x00"), r#"{"base64":"/wA="}"#);
        check(|j| j.bytes("\u{202e}x".as_bytes()), r#""\u202ex""#);
    }

    #[test]
    fn base64_in_pieces() {
        for (pieces, expected) in [
            (&[&b""[..]][..], "\"\""),
            (&[b"f"], "\"Zg==\""),
            (&[b"f", b"o"], "\"Zm8=\""),
            (&[b"f", b"oo", b"", b"bar"], "\"Zm9vYmFy\""),
            (&[b"fo", b"ob", b"a"], "\"Zm9vYmE=\""),
        ] {
            check(
                |json| {
                    let mut encoder = json.base64();
                    pieces.iter().for_each(|piece| encoder.push(piece));
                    encoder.finish();
                },
                expected,
            );
        }
    }

    #[test]
    fn values() {
        let json = r#"{"a":1,"b":[2,{"more":1}],"c":null}"#;
        check(
            |j| {
                j.object(|j| {
                    j.key("a").value(&Value::Int(1));
                    let items = vec![Value::Int(2)];
                    j.key("b").value(&Value::Array { items, more: 1, at: 0 });
                    j.key("c").null();
                });
            },
            json,
        );
        check(|j| j.value(&Value::Signal(2)), r#"{"value":2,"names":["SIGINT"]}"#);
        check(|j| j.value(&Value::SigSet(3)), r#"{"value":3,"names":["SIGHUP","SIGINT"]}"#);
        check(|j| j.value(&Value::WaitStatus(256)), r#"{"value":256,"exited":1}"#);
        check(|j| j.value(&Value::WaitStatus(9)), r#"{"value":9,"killed":"SIGKILL","core":false}"#);
    }
}
