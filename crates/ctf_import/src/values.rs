//! Values of a stream, bit by bit, as types describe them.

use std::rc::Rc;

use crate::types::{ELEMENTS_MAX, Int, Type, Typed};

/// Bytes of a text.
const TEXT_BYTES_MAX: usize = 1 << 16;
/// Values by which others are chosen, that are remembered.
const SEEN_MAX: usize = 256;

/// Why a value cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Unread {
    /// More bytes are needed.
    Short,
    /// It makes no sense.
    Wrong(String),
}

/// A value.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// A number.
    Unsigned(u64),
    /// A signed number.
    Signed(i64),
    /// Characters.
    Text(Vec<u8>),
    /// Bytes.
    Bytes(Vec<u8>),
}

impl Value {
    /// The value as a number, if it is one.
    pub fn number(&self) -> Option<i64> {
        match self {
            Value::Unsigned(number) => Some(*number as i64),
            Value::Signed(number) => Some(*number),
            _ => None,
        }
    }
}

/// A number by which lengths and variants are chosen.
#[derive(Clone, Debug)]
struct Seen {
    name: String,
    number: i128,
    label: Option<String>,
}

/// The value of a clock, as far as numbers of it were read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ticks(pub u64);

impl Ticks {
    /// A number of so many bits was read: the clock goes on to where it has these as its last.
    pub fn read(&mut self, number: u64, bits: u32) {
        if bits >= 64 {
            self.0 = number;
            return;
        }
        let mask = (1u64 << bits) - 1;
        let next = (self.0 & !mask) | (number & mask);
        self.0 = if next < self.0 { next.wrapping_add(mask + 1) } else { next };
    }
}

/// Reads values out of a stretch of a packet.
pub struct Bits<'a> {
    bytes: &'a [u8],
    /// Where the stretch begins in the packet, in bits.
    base: u64,
    /// The place in the packet, in bits.
    at: u64,
    /// The end of the packet's content, in bits.
    end: u64,
    seen: Vec<Seen>,
    /// Structs that are chosen are handed over field by field.
    pub is_flat: bool,
}

impl<'a> Bits<'a> {
    /// Begins at a place in the packet. All are in bits; the stretch begins at a whole byte.
    pub fn new(bytes: &'a [u8], base: u64, at: u64, end: u64) -> Bits<'a> {
        Bits { bytes, base, at, end, seen: Vec::new(), is_flat: false }
    }

    /// The place in the packet, in bits.
    pub fn at(&self) -> u64 {
        self.at
    }

    fn align(&mut self, align: u32) {
        self.at = self.at.next_multiple_of(u64::from(align.max(1)));
    }

    /// Makes sure that so many bits are there.
    fn need(&self, bits: u64) -> Result<(), Unread> {
        let end = self.at.saturating_add(bits);
        if end > self.end {
            return Err(Unread::Wrong("an event is longer than its packet".into()));
        }
        if end > self.base + 8 * self.bytes.len() as u64 { Err(Unread::Short) } else { Ok(()) }
    }

    /// The number of a type, as bits.
    fn raw(&mut self, int: &Int) -> Result<u64, Unread> {
        self.align(int.align);
        self.need(int.bits.into())?;
        let from = (self.at - self.base) as usize;
        self.at += u64::from(int.bits);
        let bits = int.bits as usize;
        if from.is_multiple_of(8) && bits.is_multiple_of(8) {
            let bytes = &self.bytes[from / 8..(from + bits) / 8];
            let add = |number: u64, byte: &u8| (number << 8) | u64::from(*byte);
            return Ok(if int.is_big_endian {
                bytes.iter().fold(0, add)
            } else {
                bytes.iter().rev().fold(0, add)
            });
        }
        let mut number = 0;
        for step in 0..bits {
            let place = from + step;
            let byte = self.bytes[place / 8];
            if int.is_big_endian {
                number = (number << 1) | u64::from((byte >> (7 - place % 8)) & 1);
            } else {
                number |= u64::from((byte >> (place % 8)) & 1) << step;
            }
        }
        Ok(number)
    }

    fn int(&mut self, int: &Int) -> Result<Value, Unread> {
        let raw = self.raw(int)?;
        Ok(if int.is_signed {
            let free = 64 - int.bits;
            Value::Signed(((raw << free) as i64) >> free)
        } else {
            Value::Unsigned(raw)
        })
    }

    fn text(&mut self) -> Result<Vec<u8>, Unread> {
        self.align(8);
        self.need(8)?;
        let rest = &self.bytes[((self.at - self.base) / 8) as usize..];
        let room = ((self.end - self.at) / 8) as usize;
        let rest = &rest[..rest.len().min(room)];
        match rest.iter().position(|byte| *byte == 0) {
            Some(length) if length <= TEXT_BYTES_MAX => {
                self.at += 8 * (length as u64 + 1);
                Ok(rest[..length].to_vec())
            }
            None if rest.len() < room && rest.len() <= TEXT_BYTES_MAX => Err(Unread::Short),
            _ => Err(Unread::Wrong("a text has no end".into())),
        }
    }

    fn see(&mut self, name: &str, value: &Value, label: Option<String>) {
        let Some(number) = value.number() else { return };
        let number = match value {
            Value::Unsigned(number) => i128::from(*number),
            _ => i128::from(number),
        };
        if self.seen.len() >= SEEN_MAX {
            self.seen.remove(0);
        }
        self.seen.push(Seen { name: name.into(), number, label });
    }

    /// The value of a name, of which only the last part counts.
    fn find(&self, name: &str) -> Result<&Seen, Unread> {
        let last = name.rsplit('.').next().unwrap_or(name);
        let found = self.seen.iter().rev().find(|seen| seen.name == last);
        found.ok_or_else(|| Unread::Wrong(format!("there is no value '{name}'")))
    }

    /// Reads a value of a type, which is handed over with its name; of a struct, each field. Numbers
    /// of a clock go to `ticks`.
    pub fn read(
        &mut self,
        name: &str,
        of: &Typed,
        ticks: &mut Ticks,
        take: &mut dyn FnMut(&str, Value),
    ) -> Result<(), Unread> {
        self.align(of.align);
        let value = match &of.of {
            Type::Int(int) => {
                let value = self.int(int)?;
                if int.clock.is_some()
                    && let Some(number) = value.number()
                {
                    ticks.read(number as u64, int.bits);
                }
                self.see(name, &value, None);
                value
            }
            Type::Enum(int, labels) => {
                let value = self.int(int)?;
                let number = value.number().map_or(0, |number| match value {
                    Value::Unsigned(number) => i128::from(number),
                    _ => i128::from(number),
                });
                let label = labels.iter().find(|(_, from, to)| (*from..=*to).contains(&number));
                self.see(name, &value, label.map(|(label, ..)| label.clone()));
                value
            }
            Type::Float(int) => {
                let raw = self.raw(int)?;
                let number = match int.bits {
                    32 => f64::from(f32::from_bits(raw as u32)),
                    _ => f64::from_bits(raw),
                };
                Value::Text(number.to_string().into_bytes())
            }
            Type::Text => Value::Text(self.text()?),
            Type::Struct(fields, _) => {
                for (field, of) in fields {
                    self.read(field, of, ticks, take)?;
                }
                return Ok(());
            }
            Type::Array(element, count) => self.elements(element, *count, ticks)?,
            Type::Sequence(element, length) => {
                let count = u64::try_from(self.find(length)?.number).ok();
                let fits = count.filter(|count| *count <= ELEMENTS_MAX);
                let count = fits.ok_or_else(|| Unread::Wrong("a sequence is too long".into()))?;
                self.elements(element, count, ticks)?
            }
            Type::Variant(selector, options) => {
                let of = self.option(selector, options)?;
                if self.is_flat {
                    return self.read(name, &of, ticks, take);
                }
                self.one(&of, ticks)?
            }
        };
        take(name, value);
        Ok(())
    }

    fn option(&self, selector: &str, options: &[(String, Rc<Typed>)]) -> Result<Rc<Typed>, Unread> {
        let seen = self.find(selector)?;
        let label = seen.label.as_deref().unwrap_or("");
        // Names that begin with an underscore stand for those without.
        let is_it = |name: &str| name == label || name.strip_prefix('_') == Some(label);
        let found = options.iter().find(|(name, _)| is_it(name)).map(|(_, of)| Rc::clone(of));
        found.ok_or_else(|| {
            Unread::Wrong(format!("no variant is chosen by {} of '{selector}'", seen.number))
        })
    }

    /// One value, of whatever type, as one.
    fn one(&mut self, of: &Typed, ticks: &mut Ticks) -> Result<Value, Unread> {
        let mut found = Vec::new();
        self.read("", of, ticks, &mut |_, value| found.push(value))?;
        Ok(match found.len() {
            1 => found.remove(0),
            _ => Value::Text(shown(&found).into_bytes()),
        })
    }

    fn elements(&mut self, of: &Typed, count: u64, ticks: &mut Ticks) -> Result<Value, Unread> {
        if let Some(is_text) = of.is_byte() {
            self.align(of.align.max(8));
            self.need(8 * count)?;
            let from = ((self.at - self.base) / 8) as usize;
            self.at += 8 * count;
            let bytes = self.bytes[from..from + count as usize].to_vec();
            return Ok(if is_text {
                let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
                Value::Text(bytes[..end].to_vec())
            } else {
                Value::Bytes(bytes)
            });
        }
        if count.saturating_mul(of.values) > ELEMENTS_MAX {
            return Err(Unread::Wrong("an array has too many values".into()));
        }
        let mut text = String::from("[");
        for place in 0..count {
            let value = self.one(of, ticks)?;
            if text.len() < TEXT_BYTES_MAX {
                if place > 0 {
                    text.push_str(", ");
                }
                text.push_str(&shown(&[value]));
            }
        }
        text.push(']');
        Ok(Value::Text(text.into_bytes()))
    }
}

/// Values as a text.
fn shown(values: &[Value]) -> String {
    let each = values.iter().map(|value| match value {
        Value::Unsigned(number) => number.to_string(),
        Value::Signed(number) => number.to_string(),
        Value::Text(text) => String::from_utf8_lossy(text).into_owned(),
        Value::Bytes(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
    });
    each.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn int(bits: u32, align: u32, is_big_endian: bool) -> Int {
        Int { bits, align, is_big_endian, ..Int::default() }
    }

    #[test]
    fn bits_come_in_either_order() {
        let bytes = [0b1010_0110, 0b0000_0001, 0x12, 0x34];
        let mut little = Bits::new(&bytes, 0, 0, 32);
        assert_eq!(little.raw(&int(5, 1, false)), Ok(0b00110));
        assert_eq!(little.raw(&int(4, 1, false)), Ok(0b1101));
        assert_eq!(little.raw(&int(16, 8, false)), Ok(0x3412));
        assert!(matches!(little.raw(&int(1, 1, false)), Err(Unread::Wrong(_))));
        let mut big = Bits::new(&bytes, 0, 0, 64);
        assert_eq!(big.raw(&int(5, 1, true)), Ok(0b10100));
        assert_eq!(big.raw(&int(4, 1, true)), Ok(0b1100));
        assert_eq!(big.raw(&int(16, 8, true)), Ok(0x1234));
        assert_eq!(big.raw(&int(8, 8, true)), Err(Unread::Short));
    }

    #[test]
    fn clocks_of_few_bits_go_on() {
        let mut ticks = Ticks(0x1_fff0);
        ticks.read(0xfff8, 16);
        assert_eq!(ticks.0, 0x1_fff8);
        ticks.read(2, 16);
        assert_eq!(ticks.0, 0x2_0002);
        ticks.read(9, 64);
        assert_eq!(ticks.0, 9);
    }

    #[test]
    fn texts_end() {
        let mut bits = Bits::new(b"ab\0cd", 0, 0, 40);
        assert_eq!(bits.text(), Ok(b"ab".to_vec()));
        assert!(matches!(bits.text(), Err(Unread::Wrong(_))));
        assert_eq!(Bits::new(b"ab", 0, 0, 40).text(), Err(Unread::Short));
    }
}
