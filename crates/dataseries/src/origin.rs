//! Values of an imported call's records that the call itself does not have. They are kept with the
//! call, so that an export writes the same records again.

use model::Contents;
use syscalls::record::{RESULT, part};
use trace::event::{Call, Content, Data, Preamble};

use crate::export::Collected;
use crate::file::types::{FieldType, Type};
use crate::file::writer::Filling;
use crate::schema::SNIA;

/// Stands among the options of a recording that was made of a DataSeries file.
pub const IMPORTED: &str = "(imported from DataSeries)";
/// Stands for the version of reenact where another program made the records.
pub const ANOTHER_RECORDER: &str = "(another recorder)";

/// Most bytes read per call.
const BYTES_MAX: usize = 16 << 20;
/// Tags of stored values.
const NULL: u8 = 0;
const BOOL: u8 = 1;
const INT: u8 = 2;
const BYTES: u8 = 3;

/// Fields of a call's records whose values differ from those that the call gives.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Origin {
    fields: Vec<(u32, usize, Collected)>,
}

/// Returns true if a trace was made of another program's records: those say who made a call, as far as
/// that is known.
pub fn is_of_another_recorder(preamble: &Preamble) -> bool {
    preamble.recorder_version == ANOTHER_RECORDER && preamble.options.contains(IMPORTED)
}

/// Reads the values that a call carries.
pub fn of(call: &Call, contents: &mut dyn Contents) -> Origin {
    let piece = call.data.iter().find(|data| data.part == part::ORIGIN);
    let bytes = piece.and_then(|data| contents.read(&data.content, BYTES_MAX).ok());
    bytes.and_then(|bytes| Origin::parse(&bytes)).unwrap_or_default()
}

impl Origin {
    /// Returns whether there are no such fields.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Adds the fields in which a record differs from what would be written. Bits that cannot be
    /// null are left out: the writers of known traces got all of them wrong.
    pub fn compare(&mut self, number: u32, written: &[Collected], found: &[Collected], of: &Type) {
        for (at, field) in of.fields.iter().enumerate() {
            let (Some(written), Some(found)) = (written.get(at), found.get(at)) else { continue };
            let told = match found {
                Collected::Absent => false,
                Collected::Null => field.null.is_some(),
                _ => field.kind != FieldType::Bool || field.null.is_some(),
            };
            if told && found != written {
                self.fields.push((number, at, found.clone()));
            }
        }
    }

    /// Sets the differing fields in a record of a call.
    pub fn apply(&self, number: u32, record: &mut Filling<'_>) {
        if !record.of.name.starts_with(SNIA) {
            return;
        }
        let from = self.fields.partition_point(|(of, ..)| *of < number);
        for (_, field, value) in self.fields[from..].iter().take_while(|(of, ..)| *of == number) {
            let Some(kind) = record.of.fields.get(*field).map(|field| field.kind) else { continue };
            match (value, kind) {
                (Collected::Absent | Collected::Null, _) => record.null(*field),
                (Collected::Bool(value), FieldType::Bool) => record.bool(*field, *value),
                (Collected::Int(value), FieldType::Byte | FieldType::Int32 | FieldType::Int64) => {
                    record.int(*field, *value);
                }
                (Collected::Bytes(bytes), FieldType::Variable) => record.bytes(*field, bytes),
                _ => {}
            }
        }
    }

    /// Encodes the fields as a piece of the call's data; `None` if there are none.
    pub fn piece(&self) -> Option<Data> {
        let mut bytes = Vec::new();
        for (number, field, value) in &self.fields {
            bytes.extend_from_slice(&number.to_le_bytes());
            bytes.extend_from_slice(&(*field as u16).to_le_bytes());
            match value {
                Collected::Absent | Collected::Null => bytes.push(NULL),
                Collected::Bool(value) => bytes.extend([BOOL, u8::from(*value)]),
                Collected::Int(value) => {
                    bytes.push(INT);
                    bytes.extend_from_slice(&value.to_le_bytes());
                }
                Collected::Bytes(value) => {
                    bytes.push(BYTES);
                    bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
                    bytes.extend_from_slice(value);
                }
            }
        }
        if bytes.is_empty() || bytes.len() > BYTES_MAX {
            return None;
        }
        Some(Data {
            // The argument number of the result, so that it is not taken for memory of an argument.
            arg: RESULT,
            part: part::ORIGIN,
            index: 0,
            flags: 0,
            true_len: bytes.len() as u64,
            hash: None,
            content: Content::Inline(bytes),
        })
    }

    fn parse(mut bytes: &[u8]) -> Option<Origin> {
        let mut origin = Origin::default();
        let mut take = |len: usize| {
            let (taken, rest) = bytes.split_at_checked(len)?;
            bytes = rest;
            Some(taken)
        };
        while let Some(head) = take(7) {
            let number = u32::from_le_bytes(head[..4].try_into().ok()?);
            let field = usize::from(u16::from_le_bytes(head[4..6].try_into().ok()?));
            let value = match head[6] {
                NULL => Collected::Null,
                BOOL => Collected::Bool(take(1)? != [0]),
                INT => Collected::Int(i64::from_le_bytes(take(8)?.try_into().ok()?)),
                BYTES => {
                    let len = u32::from_le_bytes(take(4)?.try_into().ok()?);
                    Collected::Bytes(take(len as usize)?.to_vec())
                }
                _ => return None,
            };
            origin.fields.push((number, field, value));
        }
        origin.fields.sort_by_key(|(number, ..)| *number);
        Some(origin)
    }
}
