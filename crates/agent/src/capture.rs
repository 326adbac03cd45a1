//! Copies the memory behind call arguments, as described by the call table.

use ring::DataMode;
use syscalls::abi::errno::is_error;
use syscalls::abi::ipc::IPC_STAT;
use syscalls::capture::{How, Op, Row};
use syscalls::record::{
    Header, MESSAGE_BYTES, MESSAGE_LENGTH_AT, RecordKind, STACK_ARG, STACK_BYTES_MAX, data_flag,
    part,
};
use syscalls::shape::{Behind, Pointer};
use syscalls::{Dir, Len};
use xxhash_rust::xxh3::Xxh3;

use crate::context::Context;
use crate::needs::{Need, needed};
use crate::stream::Stream;
use crate::{memory, sys};

/// Maximum string lengths: PATH_MAX, and the kernel's limit for one argument of exec.
const STRING_MAX: u64 = 4096;
const ARGUMENT_MAX: u64 = 128 << 10;
/// Maximum number of strings of an exec, and of buffers or messages in a vector (UIO_MAXIOV).
const STRINGS_MAX: u64 = 64 << 10;
const VECTOR_MAX: u64 = 1024;
/// Size of a `struct sockaddr_storage`.
const ADDRESS_MAX: u64 = 128;
/// Maximum number of bytes that the kernel transfers in one call.
const TRANSFER_MAX: u64 = 0x7fff_f000;

/// Bytes of a stack below which nothing is found in it.
const STACK_LEAST: u64 = 64;

/// Identifies the buffer of a DATA record.
#[derive(Clone, Copy)]
pub struct Which {
    pub arg: u8,
    pub index: u16,
    pub part: u8,
    pub flags: u8,
    /// Contents, which obey the data mode; strings and structs are always stored.
    pub bulk: bool,
}

/// Copies the input memory of a call.
#[inline(never)]
pub fn copy_in(context: &Context, row: &Row, args: &[u64; 6]) {
    if memory::must_ask_kernel(context) && context.copied.get().is_null() {
        return memory::while_unchanged(context, || copy_in(context, row, args));
    }
    for op in &row.ops[..usize::from(row.nops)] {
        if matches!(op.dir, Dir::In | Dir::InOut) {
            copy_op(context, op, args, None);
        } else if op.has_room() {
            context.room.set(room(context, op, args).unwrap_or(0));
        }
    }
}

/// Copies the input memory of a call but for contents, which are copied when it has returned.
#[cold]
pub fn copy_in_but_contents(context: &Context, row: &Row, args: &[u64; 6]) {
    for op in &row.ops[..usize::from(row.nops)] {
        if matches!(op.dir, Dir::In | Dir::InOut) && !is_given(op) {
            copy_op(context, op, args, None);
        } else if op.has_room() {
            context.room.set(room(context, op, args).unwrap_or(0));
        }
    }
}

/// Copies those contents, of which the call took so many bytes.
#[cold]
pub fn copy_contents(context: &Context, row: &Row, args: &[u64; 6], taken: u64) {
    for op in row.ops[..usize::from(row.nops)].iter().filter(|op| is_given(op)) {
        let at = args[usize::from(op.arg)];
        let which = Which { arg: op.arg, index: 0, part: part::WHOLE, flags: 0, bulk: true };
        let len = length(context, op.len, at, args, None).unwrap_or(0);
        let (mode, max) = policy(context, which);
        match op.how {
            // Who writes the rest again and again copies each part once.
            How::Bytes if at != 0 && mode == DataMode::Full && taken < len.min(max) => {
                let words = [head(which, data_flag::CUT), len, taken];
                Stream::record_with_bytes(context, &words, at, taken);
            }
            How::Iovec if at != 0 => {
                copy_vector(context, Which { bulk: false, ..which }, at, len / 16, taken);
            }
            _ => copy_op(context, op, args, None),
        }
    }
}

/// Whether an argument points to contents that go in, or to what points to such.
fn is_given(op: &Op) -> bool {
    op.dir == Dir::In && (is_contents(op) || matches!(op.how, How::Msghdr | How::Mmsghdr))
}

/// Copies of the input memory the contents of buffers alone, or all but them.
#[inline(never)]
pub fn copy_in_part(context: &Context, row: &Row, args: &[u64; 6], contents: bool) {
    for op in &row.ops[..usize::from(row.nops)] {
        if op.dir == Dir::In && is_contents(op) == contents {
            copy_op(context, op, args, None);
        }
    }
}

/// Whether an argument points to contents, whose addresses and lengths are in the arguments or in a
/// vector.
pub fn is_contents(op: &Op) -> bool {
    op.how == How::Iovec || op.how == How::Bytes && is_bulk(op.len)
}

/// Number of bytes that the kernel may write of the address that an operation returns.
pub fn room_of(context: &Context, row: &Row, args: &[u64; 6]) -> u32 {
    let mut ops = row.ops[..usize::from(row.nops)].iter();
    ops.find(|op| op.has_room()).and_then(|op| room(context, op, args)).unwrap_or(0)
}

/// Number of bytes that the kernel may write of an address: after the call, the address's full length
/// is in the length field, also if less was written.
fn room(context: &Context, op: &Op, args: &[u64; 6]) -> Option<u32> {
    const NAME_LEN: u64 = 8;
    let at = args[usize::from(op.arg)];
    if at == 0 {
        // Most calls that receive want no address. To read there would cost a fault.
        return None;
    }
    match (op.how, op.len) {
        (_, Len::Pointee(n)) => match args[usize::from(n)] {
            0 => None,
            from => memory::read(context, from),
        },
        (How::Msghdr, _) => memory::read(context, at + NAME_LEN),
        // Messages received together usually have buffers of the same size.
        (How::Mmsghdr, _) => {
            let count = args[usize::from(op.arg) + 1].min(VECTOR_MAX);
            (0..count).map_while(|i| memory::read(context, at + i * MESSAGE_BYTES + NAME_LEN)).max()
        }
        _ => None,
    }
}

/// Copies the output memory of a call.
#[inline(never)]
pub fn copy_out(context: &Context, row: &Row, args: &[u64; 6], ret: i64) {
    if memory::must_ask_kernel(context) && context.copied.get().is_null() {
        return memory::while_unchanged(context, || copy_out(context, row, args, ret));
    }
    let failed = is_error(ret);
    for op in &row.ops[..usize::from(row.nops)] {
        let comes_out = match op.dir {
            Dir::In => false,
            Dir::Out | Dir::InOut => !failed,
            Dir::OutOnError => failed,
        };
        if comes_out {
            copy_op(context, op, args, Some(ret as u64));
        }
    }
}

/// Records how much came out into memory of which it is not known where it is.
pub fn note_unknown(context: &Context, row: &Row, ret: i64) {
    let outputs = row.ops[..usize::from(row.nops)].iter().filter(|op| op.dir == Dir::Out);
    if let (Some(op), 1..) = (outputs.take(1).next(), ret) {
        let flags = data_flag::OUT | data_flag::CUT;
        let which = Which { arg: op.arg, index: 0, part: part::WHOLE, flags, bulk: true };
        Stream::record(context, &[head(which, flags), ret as u64, 0]);
    }
}

fn copy_op(context: &Context, op: &Op, args: &[u64; 6], ret: Option<u64>) {
    let at = args[usize::from(op.arg)];
    if at == 0 {
        return;
    }
    let flags = if ret.is_some() { data_flag::OUT } else { 0 };
    let mut which = Which { arg: op.arg, index: 0, part: part::WHOLE, flags, bulk: false };
    match op.how {
        How::Str => copy_string(context, which, at, STRING_MAX),
        How::StrArray => copy_strings(context, which, at),
        How::Bytes => {
            which.bulk = is_bulk(op.len);
            match length(context, op.len, at, args, ret) {
                Some(len) => _ = copy_bytes(context, which, at, len),
                // Something came out, and nobody says how much.
                None if ret.is_some() && matches!(op.len, Len::OfSet(_)) => {
                    Stream::record(context, &[head(which, flags | data_flag::CUT), 1, 0]);
                }
                None => {}
            }
        }
        How::Holder(pointer) => {
            let Some(len) = length(context, op.len, at, args, ret) else { return };
            copy_bytes(context, which, at, len);
            copy_pointed(context, which, at, pointer, ret);
        }
        How::Iovec => {
            let count = length(context, op.len, at, args, ret).unwrap_or(0) / 16;
            which.part = part::WHOLE;
            copy_vector(context, which, at, count, ret.unwrap_or(TRANSFER_MAX));
        }
        How::Msghdr => copy_message(context, which, at, ret),
        How::Mmsghdr => {
            let count = match ret {
                Some(ret) => ret,
                None => length(context, op.len, at, args, ret).unwrap_or(0) / MESSAGE_BYTES,
            };
            for i in 0..count.min(VECTOR_MAX) {
                which.index = i as u16;
                let message = at + i * MESSAGE_BYTES;
                let len = memory::read::<u32>(context, message + MESSAGE_LENGTH_AT).map(u64::from);
                copy_message(context, which, message, ret.and(len));
                if ret.is_some() {
                    which.part = part::WHOLE;
                }
            }
        }
        How::Behind(Behind { at: pointer_at, bit }) => {
            let is_set =
                memory::read::<u64>(context, at).is_some_and(|flags| flags >> bit & 1 != 0);
            let to = memory::read::<u64>(context, at + u64::from(pointer_at));
            if let (true, Some(to)) = (is_set, to.filter(|&to| to != 0)) {
                copy_bytes(context, Which { part: part::CONTENT, ..which }, to, 4);
            }
        }
        How::Lengths => {
            which.part = part::LENGTH;
            for i in 0..ret.unwrap_or(0).min(VECTOR_MAX) {
                which.index = i as u16;
                copy_bytes(context, which, at + i * MESSAGE_BYTES + MESSAGE_LENGTH_AT, 4);
            }
        }
    }
}

/// Copies what the call's chain of callers can be found by: registers, and a piece of the stack.
pub fn copy_stack(context: &Context) {
    let mut len = u64::from(context.stack_bytes.get().min(STACK_BYTES_MAX));
    if len == 0 {
        return;
    }
    let frame = context.frame();
    let (sp, fp) = (frame.rsp.get(), frame.rbp);
    let which = |part| Which { arg: STACK_ARG, index: 0, part, flags: 0, bulk: false };
    let bytes = size_of::<[u64; 3]>() as u64;
    let site = context.site.get();
    Stream::record(context, &[head(which(part::WHOLE), 0), bytes, bytes, site, sp, fp]);
    // Near the end of a stack there is less.
    while len >= STACK_LEAST && !memory::readable(context, sp, len) {
        len /= 2;
    }
    if len >= STACK_LEAST {
        Stream::record_with_bytes(context, &[head(which(part::CONTENT), 0), len, len], sp, len);
    }
}

/// Returns true if a length is that of contents, not of a struct.
fn is_bulk(len: Len) -> bool {
    matches!(
        len,
        Len::Arg(_) | Len::Ret | Len::RetAtMost(_, 1) | Len::ArgPlus(..) | Len::RetPlus(_)
    )
}

/// Copies the buffer that a struct points to.
fn copy_pointed(context: &Context, which: Which, at: u64, pointer: Pointer, ret: Option<u64>) {
    let Some(to) = memory::read::<u64>(context, at + u64::from(pointer.at)) else { return };
    let length_at = at + u64::from(pointer.length_at);
    let units = match pointer.length_bytes {
        2 => memory::read::<u16>(context, length_at).map(u64::from),
        4 => memory::read::<u32>(context, length_at).map(u64::from),
        _ => memory::read::<u64>(context, length_at),
    };
    let Some(mut len) = units.and_then(|units| units.checked_mul(u64::from(pointer.unit))) else {
        return;
    };
    if pointer.at_most_ret
        && let Some(ret) = ret
    {
        len = len.min(ret);
    }
    if to != 0 && len != 0 {
        copy_bytes(context, Which { part: part::CONTENT, bulk: true, ..which }, to, len);
    }
}

fn length(context: &Context, len: Len, at: u64, args: &[u64; 6], ret: Option<u64>) -> Option<u64> {
    let arg = |n: u8| args[usize::from(n)];
    Some(match len {
        Len::Fixed(bytes) => u64::from(bytes),
        Len::FixedIfRet(bytes) => ret.filter(|&ret| ret != 0).map(|_| u64::from(bytes))?,
        Len::Arg(n) => arg(n),
        Len::ArgTimes(n, size) => arg(n).checked_mul(u64::from(size))?,
        Len::Ret | Len::RetPath => ret?,
        Len::RetTimes(size) => ret?.checked_mul(u64::from(size))?,
        Len::Pointee(n) => {
            let len = memory::read::<u32>(context, arg(n))?;
            u64::from(if ret.is_some() { len.min(context.room.get()) } else { len })
        }
        Len::BitsArg(n) => (arg(n) & 0xffff_ffff).div_ceil(64) * 8,
        Len::ArgPlus(n, more) => arg(n).checked_add(u64::from(more))?,
        Len::RetPlus(more) => ret?.checked_add(u64::from(more))?,
        Len::RetAtMost(n, size) => ret?.min(arg(n)).checked_mul(u64::from(size))?,
        Len::PagesArg(n) => arg(n).div_ceil(4096),
        Len::Counted { at: count_at, unit, head } => {
            let count = memory::read::<u32>(context, at + u64::from(count_at))?;
            u64::from(head) + u64::from(count) * u64::from(unit)
        }
        Len::SelfSized => u64::from(memory::read::<u32>(context, at)?),
        Len::OfSet(n) => semaphores(arg(n))?.checked_mul(2)?,
    })
}

/// The number of semaphores in a set.
#[cold]
fn semaphores(set: u64) -> Option<u64> {
    if sys::denies(needed::SEMAPHORES) {
        return None;
    }
    // What the kernel calls `struct semid64_ds`.
    const WORDS: usize = 13;
    const COUNT: usize = 10;
    let mut told = [0u64; WORDS];
    let args = [set, 0, IPC_STAT, &raw mut told as u64, 0, 0];
    (sys::call(Need::SemaphoreSet, args) == 0).then_some(told[COUNT])
}

/// Records one memory range, as bytes or as a hash. Returns false if bytes of it cannot be read.
pub fn copy_bytes(context: &Context, which: Which, at: u64, true_len: u64) -> bool {
    let (mode, max) = policy(context, which);
    if mode == DataMode::Full && true_len <= max {
        let words = [head(which, which.flags), true_len, true_len];
        let is_there = Stream::has_recorded(context, &words, at, true_len);
        if !is_there {
            copy_beginning(context, which, at, true_len);
        }
        return is_there;
    }
    let (words, count) = cut_short(context, which, &[[at, true_len]]);
    Stream::record_with_bytes(context, &words[..count], at, words[STORED]);
    true
}

/// Records a memory range that cannot be read as a whole. Of contents, the kernel takes what stands before that.
#[cold]
fn copy_beginning(context: &Context, which: Which, at: u64, true_len: u64) {
    let there = match which.bulk {
        true => memory::readable_len(context, at, true_len.min(TRANSFER_MAX)),
        false => 0,
    };
    let words = [head(which, which.flags | data_flag::FAULT), true_len, there];
    Stream::record_with_bytes(context, &words, at, there);
}

/// Records contents that are in several ranges as if they were in one.
pub fn copy_pieces(context: &Context, row: &Row, pieces: &[[u64; 2]]) {
    let mut ops = row.ops[..usize::from(row.nops)].iter();
    let Some(op) = ops.find(|op| is_contents(op)) else { return };
    let flags = if op.dir == Dir::Out { data_flag::OUT } else { 0 };
    let which = Which { arg: op.arg, index: 0, part: part::WHOLE, flags, bulk: true };
    let (words, count) = cut_short(context, which, pieces);
    Stream::record_with_pieces(context, &words[..count], pieces, words[STORED]);
}

/// Place of the number of bytes that follow.
const STORED: usize = 2;

/// Returns the first words of a DATA record of which less may be stored than there is, and how many
/// they are.
#[inline(never)]
fn cut_short(context: &Context, which: Which, pieces: &[[u64; 2]]) -> ([u64; 5], usize) {
    let (mode, max) = policy(context, which);
    let true_len = pieces.iter().map(|[_, bytes]| bytes).sum();
    let stored = match mode {
        DataMode::Full => max.min(true_len),
        _ => 0,
    };
    let mut flags = which.flags;
    let mut hash = 0;
    if stored < true_len {
        flags |= data_flag::CUT;
        if mode != DataMode::None {
            match hash_of(context, pieces) {
                Some(value) => {
                    hash = value;
                    flags |= data_flag::HASH;
                }
                None => flags |= data_flag::FAULT,
            }
        }
    }
    let count = if flags & data_flag::HASH != 0 { 5 } else { 3 };
    ([head(which, flags), true_len, stored, hash as u64, (hash >> 64) as u64], count)
}

/// Whether of contents a hash is recorded, which takes as long.
pub fn hashes(context: &Context) -> bool {
    let which = Which { arg: 0, index: 0, part: part::WHOLE, flags: 0, bulk: true };
    let (mode, max) = policy(context, which);
    mode == DataMode::Hash || max != u64::MAX
}

fn policy(context: &Context, which: Which) -> (DataMode, u64) {
    if !which.bulk {
        return (DataMode::Full, u64::MAX);
    }
    let Some(arena) = context.arena.get() else { return (DataMode::None, 0) };
    let control = arena.control();
    let order = core::sync::atomic::Ordering::Relaxed;
    let mode = match control.data_mode.load(order) {
        0 => DataMode::Full,
        1 => DataMode::Hash,
        3 if !context.skips_contents.get() => DataMode::Full,
        _ => DataMode::None,
    };
    (mode, control.data_max.load(order))
}

fn head(which: Which, flags: u8) -> u64 {
    let c = u32::from(which.part) | u32::from(flags) << 8;
    Header::new(RecordKind::Data, which.arg, which.index, c).to_word()
}

fn hash_of(context: &Context, pieces: &[[u64; 2]]) -> Option<u128> {
    let mut hasher = Xxh3::new();
    let mut room = [0u8; 4096];
    for [at, len] in pieces {
        let mut done = 0;
        while done < *len {
            let n = (len - done).min(room.len() as u64);
            // SAFETY: `room` has room for `n` bytes.
            if unsafe { memory::copy(context, room.as_mut_ptr(), at + done, n) } != 0 {
                return None;
            }
            hasher.update(&room[..n as usize]);
            done += n;
        }
    }
    Some(hasher.digest128())
}

fn copy_string(context: &Context, which: Which, at: u64, max: u64) {
    match memory::string_len(context, at, max) {
        Some(len) => {
            let flags = which.flags | if len == max { data_flag::CUT } else { 0 };
            Stream::record_with_bytes(context, &[head(which, flags), len, len], at, len);
        }
        None => Stream::note_fault(context, &[head(which, which.flags), 0]),
    }
}

/// Records argv or envp, one DATA record per string.
fn copy_strings(context: &Context, which: Which, at: u64) {
    let mut which = which;
    for i in 0..STRINGS_MAX {
        match memory::read::<u64>(context, at + i * 8) {
            None => {
                Stream::note_fault(context, &[head(which, which.flags), 0]);
                return;
            }
            Some(0) => return,
            Some(string) => copy_string(context, which, string, ARGUMENT_MAX),
        }
        which.index = which.index.saturating_add(1);
    }
}

/// Records a vector, then the contents of its buffers, up to `limit` bytes in total.
fn copy_vector(context: &Context, which: Which, at: u64, count: u64, limit: u64) {
    let count = count.min(VECTOR_MAX);
    if count == 0 {
        return;
    }
    copy_bytes(context, which, at, count * 16);
    copy_buffers(context, which, at, count, limit);
}

fn copy_buffers(context: &Context, which: Which, at: u64, count: u64, limit: u64) {
    let mut left = limit;
    let mut content = Which { part: part::CONTENT, bulk: true, ..which };
    for i in 0..count {
        let Some([base, len]) = memory::read::<[u64; 2]>(context, at + i * 16) else { return };
        let len = len.min(left);
        if len == 0 {
            continue;
        }
        if which.part == part::WHOLE {
            content.index = i as u16;
        }
        // Where one ends early, the kernel ends.
        if !copy_bytes(context, content, base, len) {
            return;
        }
        left -= len;
    }
}

/// Records a msghdr and everything it points to. On output there are `ret` bytes of content.
fn copy_message(context: &Context, which: Which, at: u64, ret: Option<u64>) {
    let which = Which { part: part::WHOLE, ..which };
    let Some([name, name_len, vector, count, control, control_len, _]) =
        memory::read::<[u64; 7]>(context, at)
    else {
        Stream::note_fault(context, &[head(which, which.flags), 0]);
        return;
    };
    copy_bytes(context, which, at, 56);
    // The kernel truncates longer ones to its largest address.
    let room = if ret.is_some() { u64::from(context.room.get()) } else { ADDRESS_MAX };
    let name_len = (name_len & 0xffff_ffff).min(ADDRESS_MAX).min(room);
    if name != 0 && name_len != 0 {
        copy_bytes(context, Which { part: part::NAME, ..which }, name, name_len);
    }
    let count = count.min(VECTOR_MAX);
    if vector != 0 && count != 0 {
        let vector_which = Which { part: part::VECTOR, ..which };
        copy_bytes(context, vector_which, vector, count * 16);
        copy_buffers(context, vector_which, vector, count, ret.unwrap_or(TRANSFER_MAX));
    }
    if control != 0 && control_len != 0 {
        copy_bytes(context, Which { part: part::CONTROL, ..which }, control, control_len);
    }
}
