//! The metadata: the language in which CTF 1.8 describes streams and events.

use std::collections::HashMap;
use std::rc::Rc;

use crate::error::Wrong;
use crate::tokens::{Token, tokens};
use crate::types::{DEPTH_MAX, ELEMENTS_MAX, Fields, Int, Labels, Type, Typed};

/// Kinds of events and streams.
const EVENTS_MAX: usize = 1 << 16;
const STREAMS_MAX: usize = 1 << 10;
/// Fields of a struct, names of a number.
const FIELDS_MAX: usize = 1 << 14;
/// What a kind of event is called, and what is in it.
#[derive(Clone, Debug, Default)]
pub struct EventClass {
    /// Its name.
    pub name: String,
    /// Its number in its stream.
    pub id: u64,
    /// Its stream.
    pub stream: u64,
    /// What stands before the fields, for this kind alone.
    pub context: Option<Rc<Typed>>,
    /// The fields.
    pub fields: Option<Rc<Typed>>,
}

/// What is common to the packets and events of streams.
#[derive(Clone, Debug, Default)]
pub struct StreamClass {
    /// What stands at the beginning of a packet, behind the trace's header.
    pub packet_context: Option<Rc<Typed>>,
    /// What stands at the beginning of an event.
    pub header: Option<Rc<Typed>>,
    /// What follows.
    pub context: Option<Rc<Typed>>,
}

/// A clock.
#[derive(Clone, Debug)]
pub struct Clock {
    /// Ticks per second.
    pub frequency: u64,
    /// Its beginning in seconds since 1970.
    pub offset_s: i64,
    /// And so many ticks.
    pub offset: i64,
}

impl Default for Clock {
    fn default() -> Clock {
        Clock { frequency: 1_000_000_000, offset_s: 0, offset: 0 }
    }
}

/// All of it.
#[derive(Clone, Debug, Default)]
pub struct Metadata {
    /// What stands at the beginning of all packets.
    pub packet_header: Option<Rc<Typed>>,
    /// Streams by number.
    pub streams: HashMap<u64, StreamClass>,
    /// Kinds of events.
    pub events: Vec<EventClass>,
    /// Clocks by name.
    pub clocks: HashMap<String, Clock>,
    /// What is said of the machine.
    pub environment: HashMap<String, String>,
}

/// Reads metadata.
pub fn parse(text: &str) -> Result<Metadata, Wrong> {
    let tokens = tokens(text)?;
    let mut parser = Parser {
        tokens,
        at: 0,
        depth: 0,
        is_big_endian: false,
        aliases: vec![HashMap::new()],
        found: Metadata::default(),
    };
    // Native byte order is told by the trace, which may come after types that have it.
    parser.is_big_endian = parser.byte_order();
    while parser.at < parser.tokens.len() {
        parser.declaration()?;
    }
    Ok(parser.found)
}

/// A value of a setting.
#[derive(Clone, Debug)]
enum Setting {
    Number(i128),
    Text(String),
    Type(Rc<Typed>),
}

type Settings = HashMap<String, Setting>;

struct Parser {
    tokens: Vec<(Token, u32)>,
    at: usize,
    depth: usize,
    is_big_endian: bool,
    /// Names of types, by scope.
    aliases: Vec<HashMap<String, Rc<Typed>>>,
    found: Metadata,
}

impl Parser {
    fn wrong(&self, what: &str) -> Wrong {
        let place = self.at.min(self.tokens.len().saturating_sub(1));
        Wrong::metadata(self.tokens.get(place).map_or(1, |(_, line)| *line), what)
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|(token, _)| token)
    }

    fn next(&mut self) -> Result<Token, Wrong> {
        let token = self.peek().cloned().ok_or_else(|| self.wrong("the text ends too soon"))?;
        self.at += 1;
        Ok(token)
    }

    fn is_next(&self, sign: &str) -> bool {
        matches!(self.peek(), Some(Token::Sign(found)) if *found == sign)
    }

    fn take(&mut self, sign: &str) -> bool {
        let is_there = self.is_next(sign);
        self.at += usize::from(is_there);
        is_there
    }

    fn expect(&mut self, sign: &str) -> Result<(), Wrong> {
        if self.take(sign) { Ok(()) } else { Err(self.wrong(&format!("'{sign}' is missing"))) }
    }

    fn word(&mut self) -> Result<String, Wrong> {
        match self.next()? {
            Token::Word(word) => Ok(word),
            _ => Err(self.wrong("a name is missing")),
        }
    }

    fn is_word(&self, wanted: &str) -> bool {
        matches!(self.peek(), Some(Token::Word(word)) if word == wanted)
    }

    fn byte_order(&self) -> bool {
        let is_order =
            |at: usize| matches!(&self.tokens[at].0, Token::Word(word) if word == "byte_order");
        let value = (0..self.tokens.len().saturating_sub(2))
            .find(|&at| is_order(at) && self.tokens[at + 1].0 == Token::Sign("="))
            .map(|at| &self.tokens[at + 2].0);
        matches!(value, Some(Token::Word(word)) if word == "be" || word == "network")
    }

    fn declaration(&mut self) -> Result<(), Wrong> {
        if self.take(";") || self.alias()? {
            return Ok(());
        }
        let word = self.word()?;
        self.expect("{")?;
        self.aliases.push(HashMap::new());
        let settings = self.settings();
        self.aliases.pop();
        let settings = settings?;
        self.expect(";")?;
        match word.as_str() {
            "trace" => self.found.packet_header = of_type(&settings, "packet.header"),
            "stream" => self.stream(&settings)?,
            "event" => self.event(&settings)?,
            "clock" => self.clock(&settings),
            "env" => {
                for (key, value) in settings {
                    let value = match value {
                        Setting::Text(text) => text,
                        Setting::Number(number) => number.to_string(),
                        Setting::Type(_) => continue,
                    };
                    self.found.environment.insert(key, value);
                }
            }
            "callsite" => {}
            other => return Err(self.wrong(&format!("'{other}' is not a declaration"))),
        }
        Ok(())
    }

    fn stream(&mut self, settings: &Settings) -> Result<(), Wrong> {
        let class = StreamClass {
            packet_context: of_type(settings, "packet.context"),
            header: of_type(settings, "event.header"),
            context: of_type(settings, "event.context"),
        };
        self.found.streams.insert(of_number(settings, "id").unwrap_or(0) as u64, class);
        if self.found.streams.len() > STREAMS_MAX {
            return Err(self.wrong("there are too many kinds of streams"));
        }
        Ok(())
    }

    fn event(&mut self, settings: &Settings) -> Result<(), Wrong> {
        let name = match settings.get("name") {
            Some(Setting::Text(name)) => name.clone(),
            _ => return Err(self.wrong("an event has no name")),
        };
        if self.found.events.len() >= EVENTS_MAX {
            return Err(self.wrong("there are too many kinds of events"));
        }
        self.found.events.push(EventClass {
            name,
            id: of_number(settings, "id").unwrap_or(0) as u64,
            stream: of_number(settings, "stream_id").unwrap_or(0) as u64,
            context: of_type(settings, "context"),
            fields: of_type(settings, "fields"),
        });
        Ok(())
    }

    fn clock(&mut self, settings: &Settings) {
        let Some(Setting::Text(name)) = settings.get("name") else { return };
        let small = |key| of_number(settings, key).and_then(|number| i64::try_from(number).ok());
        let clock = Clock {
            frequency: small("freq").filter(|hz| *hz > 0).map_or(1_000_000_000, |hz| hz as u64),
            offset_s: small("offset_s").unwrap_or(0),
            offset: small("offset").unwrap_or(0),
        };
        self.found.clocks.insert(name.clone(), clock);
    }

    /// Settings up to the bracket that ends them.
    fn settings(&mut self) -> Result<Settings, Wrong> {
        let mut settings = Settings::new();
        while !self.take("}") {
            if self.take(";") || self.alias()? {
                continue;
            }
            let mut key = match self.next()? {
                Token::Word(word) | Token::Text(word) => word,
                _ => return Err(self.wrong("the name of a setting is missing")),
            };
            while self.take(".") {
                key = format!("{key}.{}", self.word()?);
            }
            let value = if self.take(":=") {
                Setting::Type(self.type_of(&mut Vec::new())?)
            } else {
                self.expect("=")?;
                self.value()?
            };
            self.expect(";")?;
            if settings.len() >= FIELDS_MAX {
                return Err(self.wrong("there are too many settings"));
            }
            settings.insert(key, value);
        }
        Ok(settings)
    }

    fn value(&mut self) -> Result<Setting, Wrong> {
        Ok(match self.next()? {
            Token::Number(number) => Setting::Number(number),
            Token::Sign("-") => match self.next()? {
                Token::Number(number) => Setting::Number(-number),
                _ => return Err(self.wrong("a number is missing")),
            },
            Token::Sign("+") => self.value()?,
            Token::Text(text) => Setting::Text(text),
            Token::Word(mut word) => {
                while self.take(".") || self.take("->") {
                    word = format!("{word}.{}", self.word()?);
                }
                Setting::Text(word)
            }
            Token::Sign(sign) => return Err(self.wrong(&format!("'{sign}' is not a value"))),
        })
    }

    fn number(&mut self) -> Result<i128, Wrong> {
        match self.value()? {
            Setting::Number(number) => Ok(number),
            _ => Err(self.wrong("a number is missing")),
        }
    }

    /// Takes a declaration of a type with a name, if it is one.
    fn alias(&mut self) -> Result<bool, Wrong> {
        if self.is_word("typealias") {
            self.at += 1;
            let of = self.type_of(&mut Vec::new())?;
            self.expect(":=")?;
            let mut words = Vec::new();
            while !self.is_next(";") {
                words.push(self.word()?);
            }
            self.name(words.join(" "), of);
        } else if self.is_word("typedef") {
            self.at += 1;
            let (name, of) = self.declared()?;
            self.name(name, of);
        } else if self.is_word("struct") || self.is_word("variant") || self.is_word("enum") {
            self.type_of(&mut Vec::new())?;
        } else {
            return Ok(false);
        }
        self.expect(";")?;
        Ok(true)
    }

    fn name(&mut self, name: String, of: Rc<Typed>) {
        if let Some(scope) = self.aliases.last_mut() {
            scope.insert(name, of);
        }
    }

    fn find(&self, name: &str) -> Option<Rc<Typed>> {
        self.aliases.iter().rev().find_map(|scope| scope.get(name)).cloned()
    }

    /// A type with the name of a field.
    fn declared(&mut self) -> Result<(String, Rc<Typed>), Wrong> {
        let mut words = Vec::new();
        let mut of = self.type_of(&mut words)?;
        // Of a type that has a name in words, the last one is the field's.
        let name = match words.pop() {
            Some(name) => name,
            None => self.word()?,
        };
        let mut lengths = Vec::new();
        while self.take("[") {
            lengths.push(self.value()?);
            self.expect("]")?;
        }
        for length in lengths.into_iter().rev() {
            let array = match length {
                Setting::Number(count) => {
                    let fits = u64::try_from(count).ok().filter(|count| *count <= ELEMENTS_MAX);
                    Type::Array(of, fits.ok_or_else(|| self.wrong("an array is too long"))?)
                }
                Setting::Text(name) => Type::Sequence(of, name),
                Setting::Type(_) => return Err(self.wrong("an array has no length")),
            };
            of = self.made(array)?;
        }
        Ok((name, of))
    }

    /// A type. If it has a name in words, and a field's name follows, that is left in `words`.
    fn type_of(&mut self, words: &mut Vec<String>) -> Result<Rc<Typed>, Wrong> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.wrong("types are nested too deeply"));
        }
        let of = self.type_within(words);
        self.depth -= 1;
        of
    }

    fn type_within(&mut self, words: &mut Vec<String>) -> Result<Rc<Typed>, Wrong> {
        let first = self.word()?;
        let of = match first.as_str() {
            "integer" => Type::Int(self.integer()?),
            "floating_point" => {
                self.expect("{")?;
                let settings = self.settings()?;
                let digits = |key| of_number(&settings, key).unwrap_or(0);
                let int = Int {
                    bits: match digits("exp_dig") + digits("mant_dig") {
                        32 => 32,
                        64 => 64,
                        _ => return Err(self.wrong("numbers with a fraction have 32 or 64 bits")),
                    },
                    ..self.int_of(&settings)?
                };
                Type::Float(int)
            }
            "string" => {
                if self.take("{") {
                    self.settings()?;
                }
                Type::Text
            }
            "struct" => return self.structure(),
            "variant" => return self.variant(),
            "enum" => return self.enumeration(),
            "const" => return self.type_within(words),
            _ => {
                words.push(first);
                while matches!(self.peek(), Some(Token::Word(_))) {
                    words.push(self.word()?);
                }
                return self.named(words);
            }
        };
        self.made(of)
    }

    fn made(&self, of: Type) -> Result<Rc<Typed>, Wrong> {
        of.made().map_err(|what| self.wrong(what))
    }

    /// The type that words name; what is left over of them is a field's name.
    fn named(&mut self, words: &mut Vec<String>) -> Result<Rc<Typed>, Wrong> {
        for count in (1..=words.len()).rev() {
            if let Some(of) = self.find(&words[..count].join(" ")) {
                words.drain(..count);
                if words.len() > 1 {
                    return Err(self.wrong("a field has several names"));
                }
                return Ok(of);
            }
        }
        Err(self.wrong(&format!("'{}' is not a known type", words.join(" "))))
    }

    fn integer(&mut self) -> Result<Int, Wrong> {
        self.expect("{")?;
        let settings = self.settings()?;
        let bits = of_number(&settings, "size").and_then(|size| u32::try_from(size).ok());
        let bits = bits.filter(|bits| (1..=64).contains(bits));
        let bits = bits.ok_or_else(|| self.wrong("a number has 1 to 64 bits"))?;
        let int = self.int_of(&settings)?;
        let align = if settings.contains_key("align") {
            int.align
        } else if bits.is_multiple_of(8) {
            8
        } else {
            1
        };
        Ok(Int { bits, align, ..int })
    }

    fn int_of(&self, settings: &Settings) -> Result<Int, Wrong> {
        let text = |key| match settings.get(key) {
            Some(Setting::Text(text)) => Some(text.as_str()),
            _ => None,
        };
        let is_signed = match settings.get("signed") {
            Some(Setting::Number(number)) => *number != 0,
            Some(Setting::Text(text)) => matches!(text.as_str(), "true" | "TRUE"),
            _ => false,
        };
        let align = of_number(settings, "align").unwrap_or(1);
        let align = u32::try_from(align).ok().filter(|align| align.is_power_of_two());
        let clock = text("map").and_then(|map| map.strip_prefix("clock."));
        Ok(Int {
            bits: 0,
            align: align.ok_or_else(|| self.wrong("an alignment is a power of two"))?,
            is_signed,
            is_big_endian: match text("byte_order") {
                Some("be" | "network") => true,
                Some("le") => false,
                _ => self.is_big_endian,
            },
            is_text: matches!(text("encoding"), Some("UTF8" | "utf8" | "ASCII" | "ascii")),
            clock: clock.map(|clock| clock.strip_suffix(".value").unwrap_or(clock).into()),
        })
    }

    /// The name of a struct, variant or enum, if it has one.
    fn tag(&mut self, kind: &str) -> Result<Option<String>, Wrong> {
        match self.peek() {
            Some(Token::Word(_)) => Ok(Some(format!("{kind} {}", self.word()?))),
            _ => Ok(None),
        }
    }

    fn fields(&mut self) -> Result<Fields, Wrong> {
        self.aliases.push(HashMap::new());
        let mut fields = Fields::new();
        let found = loop {
            if self.take("}") {
                break Ok(());
            }
            let is_alias = self.is_word("typealias") || self.is_word("typedef");
            let one = if is_alias { self.alias().map(|_| None) } else { self.declared().map(Some) };
            match one {
                Ok(None) => {}
                Ok(Some(field)) => {
                    fields.push(field);
                    if let Err(wrong) = self.expect(";") {
                        break Err(wrong);
                    }
                }
                Err(wrong) => break Err(wrong),
            }
            if fields.len() > FIELDS_MAX {
                break Err(self.wrong("there are too many fields"));
            }
        };
        self.aliases.pop();
        found.map(|()| fields)
    }

    fn structure(&mut self) -> Result<Rc<Typed>, Wrong> {
        let tag = self.tag("struct")?;
        if !self.take("{") {
            let tag = tag.unwrap_or_default();
            return self.find(&tag).ok_or_else(|| self.wrong(&format!("'{tag}' is not known")));
        }
        let fields = self.fields()?;
        let mut align = 1;
        if self.is_word("align") {
            self.at += 1;
            self.expect("(")?;
            let wanted = u32::try_from(self.number()?).ok().filter(|align| align.is_power_of_two());
            align = wanted.ok_or_else(|| self.wrong("an alignment is a power of two"))?;
            self.expect(")")?;
        }
        let of = self.made(Type::Struct(fields, align))?;
        if let Some(tag) = tag {
            self.name(tag, Rc::clone(&of));
        }
        Ok(of)
    }

    fn variant(&mut self) -> Result<Rc<Typed>, Wrong> {
        let tag = self.tag("variant")?;
        let mut selector = String::new();
        if self.take("<") {
            selector = match self.value()? {
                Setting::Text(name) => name,
                _ => return Err(self.wrong("a variant is chosen by a name")),
            };
            self.expect(">")?;
        }
        if !self.take("{") {
            let tag = tag.unwrap_or_default();
            let found = self.find(&tag);
            let Some(Type::Variant(_, fields)) = found.as_deref().map(|of| &of.of) else {
                return Err(self.wrong(&format!("'{tag}' is not known")));
            };
            let fields = fields.clone();
            return self.made(Type::Variant(selector, fields));
        }
        let fields = self.fields()?;
        let of = self.made(Type::Variant(selector, fields))?;
        if let Some(tag) = tag {
            self.name(tag, Rc::clone(&of));
        }
        Ok(of)
    }

    fn enumeration(&mut self) -> Result<Rc<Typed>, Wrong> {
        let tag = self.tag("enum")?;
        let mut int = None;
        if self.take(":") {
            let mut words = Vec::new();
            int = Some(self.type_of(&mut words)?);
        }
        if !self.take("{") {
            let tag = tag.unwrap_or_default();
            return self.find(&tag).ok_or_else(|| self.wrong(&format!("'{tag}' is not known")));
        }
        let int = int.or_else(|| self.find("int"));
        let Some(Type::Int(int)) = int.map(|int| int.of.clone()) else {
            return Err(self.wrong("names are given to numbers that are not known"));
        };
        let mut labels = Labels::new();
        let mut next = 0;
        while !self.take("}") {
            let label = match self.next()? {
                Token::Word(word) | Token::Text(word) => word,
                _ => return Err(self.wrong("the name of a number is missing")),
            };
            let (mut from, mut to) = (next, next);
            if self.take("=") {
                from = self.number()?;
                to = if self.take("...") { self.number()? } else { from };
            }
            next = to.saturating_add(1);
            labels.push((label, from, to));
            if labels.len() > FIELDS_MAX {
                return Err(self.wrong("a number has too many names"));
            }
            if !self.take(",") && !self.is_next("}") {
                return Err(self.wrong("',' is missing"));
            }
        }
        let of = self.made(Type::Enum(int, labels))?;
        if let Some(tag) = tag {
            self.name(tag, Rc::clone(&of));
        }
        Ok(of)
    }
}

fn of_type(settings: &Settings, key: &str) -> Option<Rc<Typed>> {
    match settings.get(key) {
        Some(Setting::Type(of)) => Some(Rc::clone(of)),
        _ => None,
    }
}

fn of_number(settings: &Settings, key: &str) -> Option<i128> {
    match settings.get(key) {
        Some(Setting::Number(number)) => Some(*number),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"/* CTF 1.8 */
typealias integer { size = 5; align = 1; signed = false; } := uint5_t;
typealias integer { size = 64; align = 8; } := unsigned long;
trace { major = 1; minor = 8; byte_order = be;
    packet.header := struct { unsigned long magic; }; };
clock { name = "monotonic"; freq = 1000; offset_s = 7; offset = -3; };
struct header { enum : uint5_t { compact = 0 ... 30, extended = 31 } id;
    variant <id> { struct { uint5_t t; } compact; struct { unsigned long t; } extended; } v; } align(8);
stream { id = 2; event.header := struct header; };
event { name = "a:b"; id = 4; stream_id = 2; fields := struct {
    integer { size = 8; align = 8; encoding = UTF8; map = clock.monotonic.value; } _c[3];
    unsigned long _n; string s[_n]; }; };
"#;

    #[test]
    fn metadata_are_read() {
        let found = parse(TEXT).unwrap();
        let clock = &found.clocks["monotonic"];
        assert_eq!((clock.frequency, clock.offset_s, clock.offset), (1000, 7, -3));
        let Some(Type::Struct(fields, 8)) = found.streams[&2].header.as_deref().map(|of| &of.of)
        else {
            panic!()
        };
        let (Type::Enum(int, labels), Type::Variant(tag, options)) =
            (&fields[0].1.of, &fields[1].1.of)
        else {
            panic!()
        };
        assert_eq!((int.bits, int.is_big_endian, labels.len()), (5, true, 2));
        assert_eq!((tag.as_str(), options.len()), ("id", 2));
        let event = &found.events[0];
        assert_eq!((event.name.as_str(), event.id, event.stream), ("a:b", 4, 2));
        let Some(Type::Struct(fields, _)) = event.fields.as_deref().map(|of| &of.of) else {
            panic!()
        };
        let Type::Array(of, 3) = &fields[0].1.of else { panic!("{fields:?}") };
        assert_eq!(of.is_byte(), Some(true));
        assert!(matches!(&fields[2].1.of, Type::Sequence(_, name) if name == "_n"));
    }

    #[test]
    fn what_makes_no_sense_is_said() {
        for (bad, expected) in [
            ("trace {", "ends too soon"),
            ("nothing { };", "not a declaration"),
            ("event { id = 1; };", "no name"),
            ("typealias unknown := x;", "not a known type"),
            ("typealias integer { size = 65; } := x;", "1 to 64"),
            ("typealias integer { size = 8; align = 3; } := x;", "power of two"),
        ] {
            let said = parse(bad).unwrap_err().to_string();
            assert!(said.contains(expected), "{bad}: {said}");
        }
        let deep = "struct { ".repeat(40);
        assert!(parse(&deep).unwrap_err().to_string().contains("deeply"));
    }

    #[test]
    fn every_beginning_of_a_text_ends() {
        for end in 0..TEXT.len() {
            let _ = parse(&TEXT[..end]);
        }
    }
}
