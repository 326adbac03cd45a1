//! Fills the fields of a record from a call.

use model::Contents;
use model::contents::{is_fault, latest};
use syscalls::abi::errno;
use syscalls::record::part;
use trace::event::{Call, Data};

use super::plan::{Plan, element, strings};
use crate::calls::{Form, Source};
use crate::error::Error;
use crate::file::types::{FieldType, Type};
use crate::file::writer::Filling;
use crate::schema::common;
use crate::times::tfrac;

/// Longest value of a field. Longer ones are only stored in our own records, in pieces.
pub const VALUE_BYTES_MAX: u64 = 16 << 20;
/// Most bytes read of a struct.
const STRUCT_BYTES_MAX: usize = 256;
const NS_PER_US: i64 = 1000;

/// Receives the values of a record.
pub trait Sink {
    /// Sets a boolean.
    fn bool(&mut self, field: usize, value: bool);
    /// Sets an integer.
    fn int(&mut self, field: usize, value: i64);
    /// Sets the bytes of a piece, followed by `end`.
    fn piece(
        &mut self,
        field: usize,
        data: &Data,
        end: &[u8],
        contents: &mut dyn Contents,
    ) -> Result<(), Error>;
}

impl Sink for Filling<'_> {
    fn bool(&mut self, field: usize, value: bool) {
        Filling::bool(self, field, value);
    }

    fn int(&mut self, field: usize, value: i64) {
        Filling::int(self, field, value);
    }

    fn piece(
        &mut self,
        field: usize,
        data: &Data,
        end: &[u8],
        contents: &mut dyn Contents,
    ) -> Result<(), Error> {
        let mut value = self.pieces(field);
        let read = contents.each(&data.content, &mut |bytes| {
            value.push(bytes);
            true
        });
        value.push(end);
        value.finish();
        read.map_err(Error::Trace)
    }
}

/// The value of a field.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Collected {
    /// The record has no such field.
    Absent,
    /// The field is null.
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// Bytes.
    Bytes(Vec<u8>),
}

/// Collects the values of a record by field.
struct Collector<'a> {
    of: &'a Type,
    values: Vec<Collected>,
}

impl Sink for Collector<'_> {
    fn bool(&mut self, field: usize, value: bool) {
        self.values[field] = Collected::Bool(value);
    }

    fn int(&mut self, field: usize, value: i64) {
        self.values[field] = Collected::Int(match self.of.fields[field].kind {
            FieldType::Byte => i64::from(value as u8),
            FieldType::Int32 => i64::from(value as i32),
            _ => value,
        });
    }

    fn piece(
        &mut self,
        field: usize,
        data: &Data,
        end: &[u8],
        contents: &mut dyn Contents,
    ) -> Result<(), Error> {
        let mut bytes = contents.read(&data.content, usize::MAX).map_err(Error::Trace)?;
        bytes.extend_from_slice(end);
        self.values[field] = Collected::Bytes(bytes);
        Ok(())
    }
}

/// Returns the values of record number `record` of a call, without its unique_id.
pub fn collect(
    plan: &Plan,
    of: &Type,
    record: u32,
    known: &Known<'_>,
    contents: &mut dyn Contents,
) -> Result<Vec<Collected>, Error> {
    let empty = of.fields.iter().map(|field| match (field.null, field.kind) {
        (Some(_), _) => Collected::Null,
        (None, FieldType::Bool) => Collected::Bool(false),
        (None, FieldType::Variable) => Collected::Bytes(Vec::new()),
        (None, _) => Collected::Int(0),
    });
    let mut collector = Collector { of, values: empty.collect() };
    plan.fill(record, known, &mut Structs::default(), contents, &mut collector)?;
    Ok(collector.values)
}

/// Ids of who made a call, each if it is known.
#[derive(Clone, Copy, Default)]
pub struct Caller {
    /// Process id.
    pub pid: Option<u32>,
    /// Thread id.
    pub tid: Option<u32>,
    /// Id of the parent.
    pub ppid: Option<u32>,
    /// Process group.
    pub pgid: Option<u32>,
    /// Session.
    pub sid: Option<u32>,
    /// Real user id.
    pub uid: Option<u32>,
}

impl Caller {
    /// Fills the fields of a record.
    pub fn fill(&self, sink: &mut impl Sink) {
        let fields = [
            (common::EXECUTING_PGID, self.pgid),
            (common::EXECUTING_PID, self.pid),
            (common::EXECUTING_PPID, self.ppid),
            (common::EXECUTING_SID, self.sid),
            (common::EXECUTING_TID, self.tid),
            (common::EXECUTING_UID, self.uid),
        ];
        for (field, id) in fields {
            if let Some(id) = id {
                sink.int(field, (id as i32).into());
            }
        }
    }
}

/// A call and its context.
pub struct Known<'a> {
    /// The call.
    pub call: &'a Call,
    /// Who made it.
    pub caller: Caller,
    /// Time of the call, in nanoseconds since 1970.
    pub called: i64,
    /// Time of the return, and the result.
    pub returned: Option<(i64, i64)>,
}

/// Caches memory that several fields of one call are read from.
#[derive(Default)]
pub struct Structs {
    read: Vec<(u8, Vec<u8>)>,
    /// Lengths of a vector's buffers.
    elements: Option<Vec<u64>>,
    /// Strings of an exec: whether each is an argument, and its index in the call's data.
    strings: Option<Vec<(bool, usize)>>,
}

impl Structs {
    fn number(
        &mut self,
        call: &Call,
        arg: u8,
        at: u16,
        size: u8,
        contents: &mut dyn Contents,
    ) -> Option<i64> {
        let known = self.read.iter().position(|(other, _)| *other == arg);
        let known = known.unwrap_or_else(|| {
            let piece = latest(&call.data, arg, part::WHOLE, 0);
            let bytes = piece.and_then(|data| contents.read(&data.content, STRUCT_BYTES_MAX).ok());
            self.read.push((arg, bytes.unwrap_or_default()));
            self.read.len() - 1
        });
        let at = usize::from(at);
        let found = self.read[known].1.get(at..at + usize::from(size))?;
        let mut word = [0; 8];
        word[..found.len()].copy_from_slice(found);
        Some(i64::from_le_bytes(word))
    }
}

impl Plan {
    /// Fills a record of a call, without its unique_id. Returns whether bytes are missing.
    pub fn fill(
        &self,
        record: u32,
        known: &Known<'_>,
        structs: &mut Structs,
        contents: &mut dyn Contents,
        sink: &mut impl Sink,
    ) -> Result<bool, Error> {
        let call = known.call;
        sink.int(common::TIME_CALLED, known.called);
        known.caller.fill(sink);
        let mut missing = false;
        let mut result = true;
        match self.form {
            Form::One => missing = self.parts(known, structs, contents, sink)?,
            Form::Exec => result = self.exec(record, call, structs, contents, sink)?,
            Form::Vector | Form::Message if record == 0 => {
                self.parts(known, structs, contents, sink)?;
                let elements =
                    structs.elements.get_or_insert_with(|| self.elements(call, contents));
                let all = elements.iter().fold(0u64, |sum, len| sum.wrapping_add(*len));
                sink.int(self.named.element, -1);
                sink.int(self.named.requested, all as i64);
            }
            Form::Vector | Form::Message => {
                result = false;
                missing = self.element(record - 1, call, structs, contents, sink)?;
            }
        }
        if result && let Some((when, ret)) = known.returned {
            let errno = errno::of_result(ret).map_or(0, i64::from);
            sink.int(common::ERRNO_NUMBER, errno);
            sink.int(common::RETURN_VALUE, if errno != 0 { -1 } else { ret });
            sink.int(common::TIME_RETURNED, when);
        }
        if missing {
            sink.bool(common::BUFFER_NOT_CAPTURED, true);
        }
        if self.row.is_none()
            && self.named.number != 0
            && syscalls::by_number(call.nr.into()).is_none()
        {
            sink.int(self.named.number, call.nr.into());
        }
        Ok(missing)
    }

    /// Fills in a mode: the number and its bits.
    pub fn fill_mode(&self, mode: u32, sink: &mut impl Sink) {
        for part in &self.parts {
            sink.int(part.field, mode.into());
        }
        for bit in &self.bits {
            sink.bool(bit.field, i64::from(mode) & bit.mask == bit.value);
        }
    }

    fn parts(
        &self,
        known: &Known<'_>,
        structs: &mut Structs,
        contents: &mut dyn Contents,
        sink: &mut impl Sink,
    ) -> Result<bool, Error> {
        let call = known.call;
        let mut missing = false;
        for part in &self.parts {
            let (field, piece) = (part.field, |n| latest(&call.data, n, part::WHOLE, 0));
            match part.source {
                Source::Text(n) => {
                    if let Some(data) = piece(n).filter(|data| !is_fault(data)) {
                        missing |= data.content.len() < data.true_len;
                        sink.piece(field, data, &[0], contents)?;
                    }
                }
                Source::Data(n) => {
                    if let Some(data) = piece(n) {
                        missing |= put(field, data, contents, sink)?;
                    }
                }
                source => {
                    if let Some(number) = number(source, known, structs, contents) {
                        sink.int(field, number);
                    }
                }
            }
        }
        let mut last = None;
        for bit in &self.bits {
            // Most bits come from the same number as the bit before.
            let found = match last {
                Some((source, when, found)) if source == bit.source && when == bit.when => found,
                _ => {
                    let mut means = |(source, values): (Source, &[i64])| {
                        number(source, known, structs, contents)
                            .is_some_and(|n| values.contains(&n))
                    };
                    let means = bit.when.is_none_or(&mut means);
                    let found = number(bit.source, known, structs, contents).filter(|_| means);
                    last = Some((bit.source, bit.when, found));
                    found
                }
            };
            if let Some(found) = found {
                // Flags have 32 bits; the upper half of the register is arbitrary.
                let found = if bit.mask == -1 { found } else { found & 0xffff_ffff };
                sink.bool(bit.field, found & bit.mask == bit.value);
            }
        }
        Ok(missing)
    }

    /// Fills a record of an exec. Returns whether it is the one with the result.
    fn exec(
        &self,
        record: u32,
        call: &Call,
        structs: &mut Structs,
        contents: &mut dyn Contents,
        sink: &mut impl Sink,
    ) -> Result<bool, Error> {
        let path = latest(&call.data, 0, part::WHOLE, 0);
        let strings = structs.strings.get_or_insert_with(|| strings(call));
        let string = strings.get((record as usize).wrapping_sub(1));
        match (record, string) {
            (0, _) => {
                sink.int(self.named.continuation, 0);
                if let Some(path) = path {
                    sink.piece(self.named.path, path, &[0], contents)?;
                }
            }
            (_, Some((argument, place))) => {
                sink.int(self.named.continuation, record.into());
                let field = if *argument { self.named.argument } else { self.named.environment };
                sink.piece(field, &call.data[*place], &[0], contents)?;
            }
            _ => sink.int(self.named.continuation, -1),
        }
        Ok(record > 0 && string.is_none())
    }

    fn element(
        &self,
        number: u32,
        call: &Call,
        structs: &mut Structs,
        contents: &mut dyn Contents,
        sink: &mut impl Sink,
    ) -> Result<bool, Error> {
        let elements = structs.elements.get_or_insert_with(|| self.elements(call, contents));
        let len = elements.get(number as usize).copied().unwrap_or_default();
        sink.int(self.named.element, number.into());
        sink.int(self.named.requested, len as i64);
        if self.form == Form::Vector {
            for part in self.parts.iter().filter(|part| part.source == Source::Arg(0)) {
                sink.int(part.field, call.args[0] as i64);
            }
        }
        match element(self.form, call, number) {
            Some(data) => put(self.named.data, data, contents, sink),
            None => Ok(false),
        }
    }
}

/// Sets the bytes of a buffer. Returns whether some are missing.
fn put(
    field: usize,
    data: &Data,
    contents: &mut dyn Contents,
    sink: &mut impl Sink,
) -> Result<bool, Error> {
    let stored = data.content.len();
    if stored > VALUE_BYTES_MAX || stored == 0 && data.true_len > 0 {
        return Ok(true);
    }
    sink.piece(field, data, &[], contents)?;
    Ok(stored < data.true_len)
}

/// Reads a number; returns `None` if the call does not have it.
fn number(
    source: Source,
    known: &Known<'_>,
    structs: &mut Structs,
    contents: &mut dyn Contents,
) -> Option<i64> {
    let call = known.call;
    let mut word = |n, at, size| structs.number(call, n, at, size, contents);
    match source {
        Source::Arg(n) if n < call.nargs => call.args.get(usize::from(n)).map(|arg| *arg as i64),
        Source::Length(n) => {
            Some(latest(&call.data, n, part::WHOLE, 0).map_or(0, |data| data.true_len as i64))
        }
        Source::Word(n, at, size) => word(n, at, size),
        Source::Time(n, at) => {
            let (seconds, ns) = (word(n, at, 8)?, word(n, at + 8, 8)?);
            // Larger values have special meanings.
            (0..1_000_000_000).contains(&ns).then(|| tfrac(seconds, ns))
        }
        Source::Microtime(n, at) => {
            Some(tfrac(word(n, at, 8)?, word(n, at + 8, 8)?.wrapping_mul(NS_PER_US)))
        }
        Source::Seconds(n, at) => Some(tfrac(word(n, at, 8)?, 0)),
        Source::FileType(n) => call.args.get(usize::from(n)).map(|mode| (*mode as i64 >> 12) & 0xf),
        _ => None,
    }
}
