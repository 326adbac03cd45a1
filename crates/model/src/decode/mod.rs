//! Decodes calls into values according to the rows of the table.

mod buffers;
pub mod image;
pub mod message;
pub mod shape;
pub mod siginfo;
pub mod sockaddr;
pub mod structs;
pub mod symbols;
pub mod value;

use std::borrow::Cow;

use syscalls::abi::errno;
use syscalls::abi::files::AT_FDCWD;
use syscalls::record::{data_flag, part};
use syscalls::shape::{ArgKind, Dir, Holder, Len, Of, Operand, Ret};
use trace::event::{Call, Data, Outcome};

use crate::contents::{Contents, has, latest, piece};
use crate::world::Surroundings;
use shape::{Shape, shape_of};
use structs::Around;
use value::{Bytes, Value};

pub use buffers::{Buffer, buffers};

/// Limit for the bytes of one struct or array.
const STRUCT_BYTES_MAX: usize = 1 << 20;
/// Limit for the bytes of one string; the kernel accepts 128 KiB.
const STRING_BYTES_MAX: usize = 1 << 20;
/// Limit for the bytes decoded per call, whatever the trace claims. The strings of an exec may take
/// 6 MiB.
const CALL_BYTES_MAX: usize = 16 << 20;
/// Limit for the elements of vectors and message arrays (`UIO_MAXIOV`).
const VECTOR_MAX: usize = 1024;
const IOVEC_BYTES: usize = 16;
const MSGHDR_BYTES: usize = 56;

/// Limits for the amount of decoded data.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of each string. Paths are never cut.
    pub strings: usize,
    /// Bytes of each plain data buffer.
    pub data: usize,
    /// Items of each array.
    pub items: usize,
}

/// A decoded call.
pub struct Decoded {
    /// Name of the call.
    pub name: Cow<'static, str>,
    /// Name and value of each argument.
    pub args: Vec<(&'static str, Value)>,
    /// Which of them is the environment of a program.
    pub environment: Option<usize>,
    /// The outcome.
    pub result: Returned,
    /// True if no variant of the row matches, so the memory behind the arguments was not captured.
    pub unknown_variant: bool,
}

/// Outcome of a decoded call.
pub enum Returned {
    /// Returned this value.
    Value(Value),
    /// Failed.
    Error {
        /// The error number, positive.
        errno: i32,
        /// Its name and meaning, if it has one.
        name: Option<(&'static str, &'static str)>,
    },
    /// The call never returns.
    Never,
    /// The thread or the recording ended before the call returned.
    Unfinished,
}

/// Decodes a call in the context of its thread.
pub fn decode(
    call: &Call,
    view: &Surroundings<'_>,
    contents: &mut dyn Contents,
    limits: Limits,
) -> Decoded {
    let mut decoder = Decoder { call, view, contents, limits, budget: CALL_BYTES_MAX };
    decode_by(call, view, |number, kind| decoder.argument(number, kind))
}

/// Decodes a call without the memory behind its arguments: those are addresses.
pub fn decode_registers(call: &Call, view: &Surroundings<'_>) -> Decoded {
    decode_by(call, view, |number, kind| in_register(kind, call.args[usize::from(number)], view))
}

fn decode_by(
    call: &Call,
    view: &Surroundings<'_>,
    mut argument: impl FnMut(u8, ArgKind) -> Value,
) -> Decoded {
    let shape = shape_of(call);
    let args = shape.args.iter().zip(0u8..);
    let args = args.take(6).map(|(arg, n)| (arg.name, argument(n, arg.kind))).collect();
    Decoded {
        args,
        environment: shape.args.iter().position(|arg| arg.is(Operand::Environment)),
        result: result(call, &shape, view),
        unknown_variant: shape.unknown_variant,
        name: shape.name,
    }
}

/// Decodes what is in the register of an argument.
fn in_register(kind: ArgKind, raw: u64, view: &Surroundings<'_>) -> Value {
    match kind {
        ArgKind::Int | ArgKind::Pid => Value::Int((raw as i32).into()),
        ArgKind::Uint => Value::Uint((raw as u32).into()),
        ArgKind::Long | ArgKind::Offset => Value::Int(raw as i64),
        ArgKind::Ulong | ArgKind::Size => Value::Uint(raw),
        ArgKind::Hex => Value::Hex(raw),
        ArgKind::Mode => Value::Mode(raw as u32),
        ArgKind::Address => Value::Address(raw),
        ArgKind::Fd => Value::Fd { fd: raw as i32, path: view.fd(raw as i32), dir: false },
        ArgKind::DirFd => {
            let fd = raw as i32;
            let here = fd == AT_FDCWD;
            let path = if here { view.cwd() } else { view.fd(fd) };
            Value::Fd { fd, path, dir: true }
        }
        // -1 means "leave unchanged"; it is not a valid id.
        ArgKind::Uid | ArgKind::Gid if raw as u32 == u32::MAX => Value::Int(-1),
        ArgKind::Uid | ArgKind::Gid => Value::Uint((raw as u32).into()),
        ArgKind::Dev => Value::Dev(raw),
        ArgKind::Signal => Value::Signal(raw as i32),
        ArgKind::Flags(set) => Value::Flags { value: raw, set },
        ArgKind::Enum(set) => Value::Enum { value: raw, set },
        ArgKind::Path | ArgKind::Str | ArgKind::StrArray | ArgKind::Buf(..) => Value::Address(raw),
    }
}

fn result(call: &Call, shape: &Shape, view: &Surroundings<'_>) -> Returned {
    let ret = match call.outcome {
        Outcome::Returned { ret, .. } => ret,
        Outcome::Unfinished if shape.ret == Ret::Never => return Returned::Never,
        Outcome::Unfinished => return Returned::Unfinished,
    };
    if let Some(number) = errno::of_result(ret) {
        return Returned::Error { errno: number, name: errno::describe(number) };
    }
    Returned::Value(match shape.ret {
        Ret::Int | Ret::Size | Ret::Offset | Ret::Pid | Ret::Id | Ret::Never => Value::Int(ret),
        Ret::Fd => Value::Fd { fd: ret as i32, path: view.new_fd(ret as i32), dir: false },
        Ret::Address => Value::Address(ret as u64),
        Ret::Mode => Value::Mode(ret as u32),
        Ret::Hex => Value::Hex(ret as u64),
    })
}

/// Returns true if the memory holds an array of structs.
pub fn holds_many(of: Of, len: Len) -> bool {
    match (len, of) {
        (Len::ArgTimes(_, size) | Len::RetTimes(size) | Len::RetAtMost(_, size), _) => size > 1,
        (Len::OfSet(_), _) => true,
        (Len::Fixed(size), Of::Struct(layout)) => size >= 2 * layout.size,
        _ => false,
    }
}

/// Returns the buffers of a vector argument, or of one message of a message argument.
fn content_pieces(call: &Call, arg: u8, message: Option<u16>) -> Vec<&Data> {
    let of_content = |d: &&Data| {
        d.arg == arg && d.part == part::CONTENT && message.is_none_or(|index| d.index == index)
    };
    let out = call.data.iter().filter(of_content).any(crate::contents::is_out);
    let same_time = |d: &&Data| crate::contents::is_out(d) == out;
    call.data.iter().filter(of_content).filter(same_time).collect()
}

/// Result of reading the memory behind an argument.
enum Memory<'a> {
    Read(Vec<u8>, &'a Data),
    /// Placeholder value for memory that could not be read.
    Not(Value),
}

/// Address of memory in the program, and how to decode it.
struct At {
    address: u64,
    many: bool,
    out: bool,
}

struct Decoder<'a> {
    call: &'a Call,
    view: &'a Surroundings<'a>,
    contents: &'a mut dyn Contents,
    limits: Limits,
    /// Bytes that may still be read for this call.
    budget: usize,
}

impl<'a> Decoder<'a> {
    fn argument(&mut self, number: u8, kind: ArgKind) -> Value {
        match kind {
            ArgKind::Buf(..) if self.raw(number) == 0 => Value::Address(0),
            ArgKind::Path => self.string(number, true),
            ArgKind::Str => self.string(number, false),
            ArgKind::StrArray => self.strings(number),
            ArgKind::Buf(Dir::In, of, len) => self.memory(number, of, len, false),
            ArgKind::Buf(Dir::Out, ..) if self.is_told_by_error(number) => {
                Value::Address(self.raw(number))
            }
            ArgKind::Buf(Dir::Out | Dir::OutOnError, of, len) => self.memory(number, of, len, true),
            ArgKind::Buf(Dir::InOut, of, len) => self.changed(number, of, len),
            _ => in_register(kind, self.raw(number), self.view),
        }
    }

    /// What a call that failed has stored all the same is for a re-execution, not for people.
    fn is_told_by_error(&self, number: u8) -> bool {
        let Outcome::Returned { ret, .. } = self.call.outcome else { return false };
        let row = || syscalls::by_number(self.call.nr.into());
        let arg = || row()?.args_of(&self.call.args).get(usize::from(number));
        errno::is_error(ret) && arg().is_some_and(|arg| arg.told_on_error)
    }

    fn raw(&self, arg: u8) -> u64 {
        self.call.args[usize::from(arg)]
    }

    fn load(&mut self, arg: u8, data: Option<&'a Data>, max: usize) -> Memory<'a> {
        let at = self.raw(arg);
        let Some(data) = data else {
            // NULL, or memory that the kernel did not fill in.
            return Memory::Not(Value::Address(at));
        };
        if has(data, data_flag::FAULT) && data.content.is_empty() {
            return Memory::Not(Value::Fault(at));
        }
        match self.contents.read(&data.content, max.min(self.budget)) {
            Ok(bytes) => {
                self.budget -= bytes.len();
                Memory::Read(bytes, data)
            }
            Err(why) => Memory::Not(Value::Damaged(at, why)),
        }
    }

    fn string_max(&self) -> usize {
        self.limits.strings.min(STRING_BYTES_MAX)
    }

    fn whole(&self, arg: u8, out: bool) -> Option<&'a Data> {
        piece(&self.call.data, arg, part::WHOLE, 0, out)
    }

    fn string(&mut self, arg: u8, path: bool) -> Value {
        // A cut path would be useless, and paths are short.
        let max = if path { STRING_BYTES_MAX } else { self.string_max() };
        match self.load(arg, self.whole(arg, false), max) {
            Memory::Read(mut bytes, data) => {
                let nul = bytes.iter().position(|&c| c == 0);
                let missing = (bytes.len() as u64) < data.true_len || has(data, data_flag::CUT);
                bytes.truncate(nul.unwrap_or(bytes.len()));
                Value::Text { bytes, cut: nul.is_none() && missing, path }
            }
            Memory::Not(value) => value,
        }
    }

    fn strings(&mut self, arg: u8) -> Value {
        let at = self.raw(arg);
        let call = self.call;
        let pieces: Vec<&Data> =
            call.data.iter().filter(|d| d.arg == arg && d.part == part::WHOLE).collect();
        if pieces.is_empty() {
            return Value::Address(at);
        }
        let shown = pieces.len().min(self.limits.items);
        let max = self.string_max();
        let items = pieces[..shown].iter().map(|data| match self.load(arg, Some(data), max) {
            Memory::Read(bytes, data) => {
                let cut = (bytes.len() as u64) < data.true_len || has(data, data_flag::CUT);
                Value::Text { bytes, cut, path: false }
            }
            Memory::Not(value) => value,
        });
        Value::Array { items: items.collect(), more: (pieces.len() - shown) as u64, at }
    }

    fn changed(&mut self, arg: u8, of: Of, len: Len) -> Value {
        if matches!(of, Of::Iovec | Of::Msghdr | Of::Mmsghdr) {
            return self.memory(arg, of, len, true);
        }
        let before = self.whole(arg, false).is_some();
        let after = !self.is_told_by_error(arg) && self.whole(arg, true).is_some();
        match (before, after) {
            (true, true) => {
                let before = self.memory(arg, of, len, false);
                let after = self.memory(arg, of, len, true);
                Value::Changed(Box::new(before), Box::new(after))
            }
            (_, after) => self.memory(arg, of, len, after),
        }
    }

    fn memory(&mut self, arg: u8, of: Of, len: Len, out: bool) -> Value {
        let max = match of {
            Of::Bytes => self.limits.data,
            Of::Text => self.string_max(),
            Of::Iovec => return self.vector(arg, part::WHOLE, 0),
            Of::Msghdr => return self.message(arg, 0, false),
            Of::Mmsghdr => return self.messages(arg),
            _ => STRUCT_BYTES_MAX,
        };
        let at = self.raw(arg);
        let (bytes, data) = match self.load(arg, self.whole(arg, out), max) {
            Memory::Read(bytes, data) => (bytes, data),
            Memory::Not(value) => return value,
        };
        if let Of::Holder(holder) = of {
            return self.holder(arg, holder, &bytes, out);
        }
        let many = holds_many(of, len);
        self.interpret(of, &bytes, data, At { address: at, many, out })
    }

    /// Decodes a struct, replacing its pointer by the pointed-to data.
    fn holder(&mut self, arg: u8, holder: &'static Holder, bytes: &[u8], out: bool) -> Value {
        let around = Around { view: self.view, out };
        let mut value = structs::decode(holder.layout, bytes, around);
        let pointer = u32::from(holder.pointer.at);
        let name = holder.layout.fields.iter().find(|f| f.offset == pointer).map(|f| f.name);
        let address = structs::unsigned(bytes, holder.pointer.at.into(), 8).unwrap_or(0);
        let held = piece(&self.call.data, arg, part::CONTENT, 0, out);
        if let (Value::Struct { fields, .. }, Some(name), Some(_)) = (&mut value, name, held) {
            let held = match self.load(arg, held, STRUCT_BYTES_MAX) {
                Memory::Read(bytes, data) => {
                    let at = At { address, many: true, out };
                    self.interpret(holder.of, &bytes, data, at)
                }
                Memory::Not(Value::Damaged(_, why)) => Value::Damaged(address, why),
                Memory::Not(_) => Value::Fault(address),
            };
            if let Some((_, value)) = fields.iter_mut().find(|(field, _)| *field == name) {
                *value = held;
            }
        }
        value
    }

    /// Decodes memory that contains no captured pointers.
    fn interpret(&self, of: Of, bytes: &[u8], data: &Data, place: At) -> Value {
        let At { address: at, many, out } = place;
        let plain = |bytes: &[u8]| {
            Value::Bytes(Bytes { at, head: bytes.to_vec(), len: data.true_len, hash: data.hash })
        };
        if bytes.is_empty() && data.true_len > 0 {
            return plain(bytes);
        }
        let around = Around { view: self.view, out };
        let items = self.limits.items;
        let value = match of {
            Of::Bytes => plain(bytes),
            Of::Text => {
                let nul = bytes.iter().position(|&c| c == 0);
                let cut = nul.is_none() && (bytes.len() as u64) < data.true_len;
                let bytes = bytes[..nul.unwrap_or(bytes.len())].to_vec();
                Value::Text { bytes, cut, path: false }
            }
            Of::Struct(layout) => {
                let size = layout.size.max(1) as usize;
                if many {
                    let all = bytes.chunks(size);
                    let more = all.len().saturating_sub(items) as u64;
                    let all = all.take(items).map(|one| structs::decode(layout, one, around));
                    Value::Array { items: all.collect(), more, at }
                } else {
                    structs::decode(layout, bytes, around)
                }
            }
            Of::I32 => structs::numbers(bytes, 4, items, |n| Value::Int((n as i32).into())),
            Of::U32 => structs::numbers(bytes, 4, items, Value::Uint),
            Of::I64 => structs::numbers(bytes, 8, items, |n| Value::Int(n as i64)),
            Of::U64 => structs::numbers(bytes, 8, items, Value::Uint),
            Of::Fds => structs::numbers(bytes, 4, items, |n| around.fd(n as i32)),
            Of::SigSet => match structs::unsigned(bytes, 0, bytes.len().min(8) as u8) {
                Some(set) => Value::SigSet(set),
                None => Value::Address(at),
            },
            Of::Siginfo => siginfo::decode(bytes),
            Of::Bits => structs::bits(bytes, items),
            Of::FdSet => structs::fd_set(bytes),
            Of::Sockaddr => sockaddr::decode(bytes).unwrap_or(Value::Address(at)),
            Of::Dirents64 => structs::dirents(bytes, false, items),
            Of::Dirents => structs::dirents(bytes, true, items),
            Of::WaitStatus => match structs::signed(bytes, 0, 4) {
                Some(status) => Value::list(vec![Value::WaitStatus(status as i32)]),
                None => Value::Address(at),
            },
            // The table never places these behind a pointer in memory.
            Of::Iovec | Of::Msghdr | Of::Mmsghdr | Of::Holder(_) => plain(bytes),
        };
        match value {
            Value::Array { items, more, .. } => Value::Array { items, more, at },
            other => other,
        }
    }

    /// Decodes an iovec array, each element with its buffer.
    fn vector(&mut self, arg: u8, vector: u8, index: u16) -> Value {
        let at = self.raw(arg);
        let data = latest(&self.call.data, arg, vector, index);
        let bytes = match self.load(arg, data, VECTOR_MAX * IOVEC_BYTES) {
            Memory::Read(bytes, _) => bytes,
            Memory::Not(value) => return value,
        };
        let elements: Vec<(u64, u64)> = bytes
            .chunks_exact(IOVEC_BYTES)
            .map(|e| {
                let word = |at| structs::unsigned(e, at, 8).unwrap_or(0);
                (word(0), word(8))
            })
            .collect();
        // One piece was captured per non-empty buffer, in order.
        let pieces = content_pieces(self.call, arg, (vector == part::VECTOR).then_some(index));
        let mut pieces = pieces.into_iter();
        let shown = elements.len().min(self.limits.items);
        let mut items = Vec::with_capacity(shown);
        for &(base, len) in &elements[..shown] {
            let data = if len == 0 { None } else { pieces.next() };
            let base = match data {
                Some(data) => match self.load(arg, Some(data), self.limits.data) {
                    Memory::Read(head, data) => {
                        Value::Bytes(Bytes { at: base, head, len: data.true_len, hash: data.hash })
                    }
                    Memory::Not(Value::Damaged(_, why)) => Value::Damaged(base, why),
                    Memory::Not(_) => Value::Fault(base),
                },
                None => Value::Address(base),
            };
            items.push(Value::fields(vec![("iov_base", base), ("iov_len", Value::Uint(len))]));
        }
        Value::Array { items, more: (elements.len() - shown) as u64, at }
    }

    fn message(&mut self, arg: u8, index: u16, many: bool) -> Value {
        let call = self.call;
        let header = latest(&call.data, arg, part::WHOLE, index);
        let bytes = match self.load(arg, header, MSGHDR_BYTES) {
            Memory::Read(bytes, _) => bytes,
            Memory::Not(value) => return value,
        };
        let word = |at, size| structs::unsigned(&bytes, at, size).unwrap_or(0);
        let name = match latest(&call.data, arg, part::NAME, index) {
            Some(data) => match self.load(arg, Some(data), sockaddr::BYTES_MAX) {
                Memory::Read(name, _) => {
                    sockaddr::decode(&name).unwrap_or(Value::Address(word(0, 8)))
                }
                Memory::Not(value) => value,
            },
            None => Value::Address(word(0, 8)),
        };
        let vector = self.vector(arg, part::VECTOR, index);
        let control = match latest(&call.data, arg, part::CONTROL, index) {
            Some(data) => match self.load(arg, Some(data), message::CONTROL_BYTES_MAX) {
                Memory::Read(control, data) => {
                    let out = crate::contents::is_out(data);
                    message::decode(&control, word(32, 8), out, self.view)
                }
                Memory::Not(value) => value,
            },
            None => Value::Address(word(32, 8)),
        };
        let mut fields = vec![
            ("msg_name", name),
            ("msg_namelen", Value::Uint(word(8, 4))),
            ("msg_iov", vector),
            ("msg_iovlen", Value::Uint(word(24, 8))),
            ("msg_control", control),
            ("msg_controllen", Value::Uint(word(40, 8))),
            ("msg_flags", Value::Hex(word(48, 4))),
        ];
        if many {
            let sent = self.length_of_message(arg, index);
            fields = vec![("msg_hdr", Value::fields(fields)), ("msg_len", Value::Uint(sent))];
        }
        Value::Struct { fields, cut: bytes.len() < MSGHDR_BYTES }
    }

    fn length_of_message(&mut self, arg: u8, index: u16) -> u64 {
        let call = self.call;
        let told = piece(&call.data, arg, part::LENGTH, index, true);
        match told.map(|data| self.load(arg, Some(data), 4)) {
            Some(Memory::Read(bytes, _)) => structs::unsigned(&bytes, 0, 4).unwrap_or(0),
            // In older traces it is what was captured.
            _ => content_pieces(call, arg, Some(index)).iter().map(|d| d.true_len).sum(),
        }
    }

    fn messages(&mut self, arg: u8) -> Value {
        let last = self.call.data.iter().filter(|d| d.arg == arg && d.part == part::WHOLE);
        let Some(last) = last.map(|d| d.index).max() else {
            return Value::Address(self.raw(arg));
        };
        let count = usize::from(last) + 1;
        let shown = count.min(self.limits.items).min(VECTOR_MAX);
        let items = (0..shown).map(|i| self.message(arg, i as u16, true)).collect();
        Value::Array { items, more: (count - shown) as u64, at: self.raw(arg) }
    }
}
