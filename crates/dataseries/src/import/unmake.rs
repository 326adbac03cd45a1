//! Makes a call from its records, by the rows of `calls` read backwards.
//!
//! Records have no addresses, so memory gets made-up ones. Memory not captured is marked as cut.

use model::decode::shape::shape_of;
use syscalls::abi::files::UTIME_OMIT;
use syscalls::record::{data_flag, part};
use syscalls::shape::{ArgKind, Dir, Len, Of};
use trace::event::{Call, Content, Data, Outcome};

use crate::calls::{Form, Source};
use crate::export::{Collected, Plan};
use crate::file::extent::{Record, Value};
use crate::file::types::Type;
use crate::schema::common;
use crate::times;

/// Made-up address of the first argument's memory, and distance between those of arguments.
const MADE_UP: u64 = 0x1000_0000;
const APART: u64 = 0x1000_0000;
/// Sizes of the structs that are made.
const IOVEC_BYTES: usize = 16;
const MSGHDR_BYTES: usize = 56;

/// Values of a record, in the order of the schema's fields.
pub type Values = Vec<Collected>;

/// Reads a record of any version of a type.
pub fn values(of: &Type, record: &Record<'_>) -> Values {
    let value = |name: &str| {
        if record.of.field(name).is_none() {
            return Collected::Absent;
        }
        match record.named(name) {
            Value::Null | Value::Damaged => Collected::Null,
            Value::Bool(value) => Collected::Bool(value),
            Value::Int(value) => Collected::Int(value),
            Value::Double(seconds) => Collected::Int(times::seconds_to_ns(seconds)),
            Value::Bytes(bytes) => Collected::Bytes(bytes.to_vec()),
        }
    };
    of.fields.iter().map(|field| value(&field.name)).collect()
}

/// Returns an integer field.
pub fn int(values: &Values, field: usize) -> Option<i64> {
    match values.get(field) {
        Some(Collected::Int(value)) => Some(*value),
        _ => None,
    }
}

fn bytes(values: &Values, field: usize) -> Option<&[u8]> {
    match values.get(field) {
        Some(Collected::Bytes(bytes)) => Some(bytes),
        _ => None,
    }
}

/// Returns the result of a call; `None` if it did not return.
pub fn result(values: &Values) -> Option<i64> {
    let ret = int(values, common::RETURN_VALUE)?;
    let errno = int(values, common::ERRNO_NUMBER).unwrap_or_default();
    Some(if ret == -1 && (1..4096).contains(&errno) { -errno } else { ret })
}

/// Makes the call without its outcome. There is at least one record.
pub fn call(plan: &Plan, nr: u16, records: &[Values], ret: Option<i64>) -> Call {
    let mut making = Making {
        call: Call {
            nr,
            flags: 0,
            site: 0,
            nargs: 0,
            args: [0; 6],
            outcome: Outcome::Unfinished,
            data: Vec::new(),
            identities: Vec::new(),
        },
        structs: Vec::new(),
        ret,
    };
    match plan.form {
        Form::One => making.one(plan, &records[0]),
        Form::Exec => making.exec(plan, records),
        Form::Vector | Form::Message => {
            making.one(plan, &records[0]);
            making.vector(plan, records);
        }
    }
    making.call
}

struct Making {
    call: Call,
    structs: Vec<(u8, Vec<u8>)>,
    ret: Option<i64>,
}

fn address(arg: u8) -> u64 {
    MADE_UP + u64::from(arg) * APART
}

fn piece(arg: u8, part: u8, index: usize, flags: u8, bytes: Vec<u8>) -> Data {
    Data {
        arg,
        part,
        index: index as u16,
        flags,
        true_len: bytes.len() as u64,
        hash: None,
        content: Content::Inline(bytes),
    }
}

impl Making {
    fn one(&mut self, plan: &Plan, values: &Values) {
        let mut set = [false; 6];
        for part in &plan.parts {
            if let (Source::Arg(n), Some(value)) = (part.source, int(values, part.field)) {
                // The first field that has an argument has all of it.
                let n = usize::from(n);
                if !std::mem::replace(&mut set[n], true) {
                    self.call.args[n] = value as u64;
                }
            }
        }
        for part in &plan.parts {
            self.memory(part.source, values, part.field);
        }
        self.call.nargs = shape_of(&self.call).args.len().min(6) as u8;
        for (arg, bytes) in std::mem::take(&mut self.structs) {
            let flags = self.flags(arg);
            self.call.data.push(piece(arg, part::WHOLE, 0, flags, bytes));
        }
        for part in &plan.parts {
            if let (Source::Data(n), None) = (part.source, bytes(values, part.field)) {
                self.missing(n);
            }
        }
    }

    /// Makes the memory that an argument points to.
    fn memory(&mut self, source: Source, values: &Values, field: usize) {
        let number = int(values, field);
        match (source, bytes(values, field), number) {
            (Source::Text(n), Some(text), _) => {
                self.call.args[usize::from(n)] = address(n);
                let text = text.strip_suffix(&[0]).unwrap_or(text).to_vec();
                self.call.data.push(piece(n, part::WHOLE, 0, 0, text));
            }
            (Source::Data(n), Some(bytes), _) => {
                self.call.args[usize::from(n)] = address(n);
                let flags = self.flags(n);
                self.call.data.push(piece(n, part::WHOLE, 0, flags, bytes.to_vec()));
            }
            (Source::Word(n, at, size), _, Some(value)) => self.word(n, at, size, value),
            (Source::Seconds(n, at), _, Some(time)) => self.word(n, at, 8, time >> 32),
            (Source::Time(n, at), _, Some(time)) => {
                let (seconds, ns) = times::from_tfrac(time);
                self.word(n, at, 8, seconds);
                self.word(n, at + 8, 8, ns);
            }
            (Source::Time(n, at), _, None) if self.structs.iter().any(|(arg, _)| *arg == n) => {
                self.word(n, at + 8, 8, UTIME_OMIT);
            }
            (Source::Microtime(n, at), _, Some(time)) => {
                let (seconds, ns) = times::from_tfrac(time);
                self.word(n, at, 8, seconds);
                self.word(n, at + 8, 8, ns / 1000);
            }
            _ => {}
        }
    }

    fn kind(&self, arg: u8) -> Option<ArgKind> {
        shape_of(&self.call).args.get(usize::from(arg)).map(|arg| arg.kind)
    }

    /// Returns the flag for memory that the kernel wrote.
    fn flags(&self, arg: u8) -> u8 {
        match self.kind(arg) {
            Some(ArgKind::Buf(Dir::Out | Dir::InOut | Dir::OutOnError, ..)) => data_flag::OUT,
            _ => 0,
        }
    }

    fn word(&mut self, arg: u8, at: u16, size: u8, value: i64) {
        self.call.args[usize::from(arg)] = address(arg);
        let bytes = match self.kind(arg) {
            Some(ArgKind::Buf(_, _, Len::Fixed(bytes))) => bytes as usize,
            Some(ArgKind::Buf(_, Of::Struct(layout), _)) => layout.size as usize,
            _ => 0,
        };
        let (from, to) = (usize::from(at), usize::from(at) + usize::from(size));
        let known = self.structs.iter().position(|(other, _)| *other == arg);
        let known = known.unwrap_or_else(|| {
            self.structs.push((arg, vec![0; bytes]));
            self.structs.len() - 1
        });
        let of = &mut self.structs[known].1;
        of.resize(of.len().max(to), 0);
        of[from..to].copy_from_slice(&value.to_le_bytes()[..usize::from(size)]);
    }

    /// Marks a buffer as not captured, if there was one.
    fn missing(&mut self, arg: u8) {
        let Some(ArgKind::Buf(dir, _, len)) = self.kind(arg) else { return };
        let value = |n: u8| self.call.args[usize::from(n)];
        let ret = self.ret.unwrap_or(-1);
        let true_len = match (dir, len) {
            (Dir::In, Len::Arg(n)) => value(n),
            (Dir::Out, Len::Ret | Len::RetPath) => ret.max(0) as u64,
            (Dir::Out, Len::RetAtMost(n, _)) => value(n).min(ret.max(0) as u64),
            _ => 0,
        };
        if true_len > 0 {
            self.call.args[usize::from(arg)] = address(arg);
            let flags = self.flags(arg) | data_flag::CUT;
            let nothing = piece(arg, part::WHOLE, 0, flags, Vec::new());
            self.call.data.push(Data { true_len, ..nothing });
        }
    }

    fn exec(&mut self, plan: &Plan, records: &[Values]) {
        self.call.nargs = 3;
        self.call.args[..3].copy_from_slice(&[address(0), address(1), address(2)]);
        let text = |bytes: &[u8]| bytes.strip_suffix(&[0]).unwrap_or(bytes).to_vec();
        if let Some(path) = records.iter().find_map(|values| bytes(values, plan.named.path)) {
            self.call.data.push(piece(0, part::WHOLE, 0, 0, text(path)));
        }
        for (arg, field) in [(1, plan.named.argument), (2, plan.named.environment)] {
            let strings = records.iter().filter_map(|values| bytes(values, field));
            for (index, string) in strings.enumerate() {
                self.call.data.push(piece(arg, part::WHOLE, index, 0, text(string)));
            }
        }
    }

    /// Makes the buffers of a vector or message.
    fn vector(&mut self, plan: &Plan, records: &[Values]) {
        let elements = &records[1..];
        let len = |values| int(values, plan.named.requested).unwrap_or_default() as u64;
        let mut vector = Vec::with_capacity(elements.len() * IOVEC_BYTES);
        for (index, values) in elements.iter().enumerate() {
            let at = address(1) + APART / 2 + index as u64 * 0x1000;
            vector.extend_from_slice(&at.to_le_bytes());
            vector.extend_from_slice(&len(values).to_le_bytes());
        }
        self.call.args[1] = address(1);
        let message = plan.form == Form::Message;
        if message {
            let mut header = vec![0; MSGHDR_BYTES];
            header[16..24].copy_from_slice(&(address(1) + APART / 4).to_le_bytes());
            header[24..32].copy_from_slice(&(elements.len() as u64).to_le_bytes());
            self.call.data.push(piece(1, part::WHOLE, 0, 0, header));
            self.call.data.push(piece(1, part::VECTOR, 0, 0, vector));
        } else {
            self.call.args[2] = elements.len() as u64;
            self.call.data.push(piece(1, part::WHOLE, 0, 0, vector));
        }
        let flags = self.flags(1);
        let out = flags & data_flag::OUT != 0;
        let mut left = match (out, self.ret) {
            (true, ret) => ret.unwrap_or_default().max(0) as u64,
            (false, _) => u64::MAX,
        };
        for (number, values) in elements.iter().enumerate() {
            let index = if message { 0 } else { number };
            let true_len = len(values).min(left);
            left -= true_len;
            match bytes(values, plan.named.data) {
                Some(bytes) => {
                    let held = piece(1, part::CONTENT, index, flags, bytes.to_vec());
                    self.call.data.push(held);
                }
                None if true_len > 0 => {
                    let flags = flags | data_flag::CUT;
                    let nothing = piece(1, part::CONTENT, index, flags, Vec::new());
                    self.call.data.push(Data { true_len, ..nothing });
                }
                None => {}
            }
        }
    }
}
