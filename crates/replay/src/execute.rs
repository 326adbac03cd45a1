//! Makes a recorded call: its arguments are built anew from the row and the recorded memory.
//!
//! No recorded address ever reaches the kernel: what points somewhere points to memory of ours, or
//! nowhere. What goes in is used where it lies if it lies in one piece.

mod access;
mod message;
mod names;
mod peek;
mod raise;
mod share;

pub use names::is_of_names;

use std::sync::Arc;

use events::flags::RWF;
use events::record::part;
use events::shape::{Arg, Dir, FlagSet, Kind, Len, Of};

use crate::batch::{Batch, Call, Piece};
use crate::image::roles::{self, Role};
use crate::memory::Memory;
use crate::shared::Fill;
use crate::space::Space;

/// An address where there is nothing.
const NOWHERE: usize = 8;
/// Room beyond what the recording got, so that more can be noticed.
const SLACK: usize = 64 << 10;
/// The same for bytes that come from no memory of ours, and bytes that a call may move which failed in
/// the recording.
pub const FREE_SLACK: usize = 64 << 10;
/// Bytes that go in, of a call that failed.
const FAILED_MAX: usize = 64 << 10;
/// Elements that the kernel takes in one vector at most.
const ELEMENTS_MAX: usize = 1024;
/// Bytes that the kernel moves in one call at most.
pub const TRANSFER_MAX: usize = 0x7fff_f000;
/// A transfer takes what it can without waiting for a disk.
const NOWAIT: usize = libc::RWF_NOWAIT as usize;
/// Set-user-id and set-group-id.
pub const PRIVILEGE_BITS: usize = 0o6000;

/// Memory that the kernel writes to.
pub struct Region {
    /// The argument.
    pub arg: u8,
    /// `events::record::part`.
    pub part: u8,
    /// Of which element.
    pub index: u16,
    /// Where it is.
    pub start: *mut u8,
    /// Its length.
    pub len: usize,
}

/// How a call goes on after it has moved only some of its bytes.
#[derive(Clone, Copy)]
enum GoOn {
    /// It does not.
    No,
    /// Pointer and length are two arguments.
    Bytes { pointer: usize, len: usize },
    /// The pointer is a vector of so many elements.
    Vector { pointer: usize, count: usize },
    /// It has a length only.
    Len(usize),
}

/// Makes calls, with memory that is used again for each.
pub struct Maker {
    space: Arc<Space>,
    memory: Memory,
    nr: u16,
    values: [usize; 6],
    /// Where the last call's results are.
    pub regions: Vec<Region>,
    go_on: GoOn,
    /// In-buffers are copied to aligned memory.
    align: bool,
    /// No file may get the set-group-id bit, not even a directory.
    strict: bool,
    /// The call reaches directories only.
    only_directory: bool,
    /// Set-user-id or set-group-id bits were taken away.
    pub withheld: bool,
    /// A limit was raised less than in the recording.
    pub limited: bool,
    /// Content was copied that cannot be shared here.
    pub copied: bool,
}

impl Maker {
    /// Ready for the first call.
    pub fn new(space: Arc<Space>) -> Maker {
        Maker {
            space,
            memory: Memory::new(),
            nr: 0,
            values: [0; 6],
            regions: Vec::new(),
            go_on: GoOn::No,
            align: false,
            strict: false,
            only_directory: false,
            withheld: false,
            limited: false,
            copied: false,
        }
    }

    /// Makes a call; its result as the kernel gives it, errors as negative numbers.
    pub fn make(&mut self, batch: &Batch, call: &Call, fill: &Fill) -> i64 {
        self.prepare(batch, call, fill);
        let ret = self.perform(call);
        if self.only_directory && ret == -i64::from(libc::ENOTDIR) {
            // It is none: the bit stays away.
            self.strict = true;
            self.prepare(batch, call, fill);
            self.strict = false;
            return self.perform(call);
        }
        if ret == -i64::from(libc::EINVAL) && call.ret >= 0 && !self.align {
            // Transfers past the page cache need aligned memory.
            self.align = true;
            self.prepare(batch, call, fill);
            let again = self.perform(call);
            self.align = false;
            if again != ret {
                return again;
            }
        }
        let unable = matches!(-ret as i32, libc::EOPNOTSUPP | libc::EXDEV | libc::EINVAL);
        if unable && call.ret == 0 && share::copy_instead(batch, call, &self.space) {
            self.copied = true;
            return 0;
        }
        if ret == -i64::from(libc::EPERM) && call.ret == 0 && self.raise_less(batch, call) {
            self.limited = true;
            return 0;
        }
        if ret == -i64::from(libc::EACCES) && call.ret == 0 && self.may_be_executed(call) {
            return 0;
        }
        ret
    }

    fn prepare(&mut self, batch: &Batch, call: &Call, fill: &Fill) {
        self.memory.clear();
        self.regions.clear();
        self.go_on = GoOn::No;
        self.withheld = false;
        self.limited = false;
        self.copied = false;
        self.only_directory = false;
        self.nr = call.nr;
        for (slot, value) in self.values.iter_mut().zip(call.values) {
            *slot = value as usize;
        }
        if call.stream
            && let Some(at) = call.args.iter().position(|arg| matches!(arg.kind, Kind::Size))
        {
            self.limit(at, call);
            self.go_on = GoOn::Len(at);
        }
        if let Some(free) = call.free {
            self.at_most(free.into(), usize::try_from(call.ret).unwrap_or(0) + FREE_SLACK);
        }
        for (number, arg) in call.args.iter().enumerate() {
            if self.values[number] == 0 {
                continue;
            }
            let value = match arg.kind {
                Kind::Path | Kind::Str => self.string(batch, call, number),
                Kind::Buf(dir, of, len) => self.buffer(batch, call, number, dir, of, len, fill),
                Kind::Address | Kind::StrArray => 0,
                Kind::Mode => self.mode(call, number),
                // What was in memory there may have to come from the disk here.
                Kind::Flags(set) if std::ptr::eq(set, &raw const RWF) => {
                    self.values[number] & !NOWAIT
                }
                _ => continue,
            };
            self.values[number] = value;
        }
        if self.only_directory {
            self.reach_directories_only(call);
        }
    }

    /// Through a pipe go exactly the bytes that went.
    fn limit(&mut self, len: usize, call: &Call) {
        if call.ret > 0 {
            self.values[len] = self.values[len].min(call.ret as usize);
        }
    }

    /// Set-user-id and set-group-id are never given to files.
    fn mode(&mut self, call: &Call, number: usize) -> usize {
        let mode = self.values[number];
        if mode & PRIVILEGE_BITS == 0 || call.ret_kind == events::Ret::Mode {
            return mode;
        }
        let to_directory = mode & PRIVILEGE_BITS == 0o2000 && call.ret == 0;
        if to_directory && !self.strict && roles::of(call.nr) == Role::Mode {
            self.only_directory = true;
            return mode;
        }
        self.withheld = true;
        mode & !PRIVILEGE_BITS
    }

    fn string(&mut self, batch: &Batch, call: &Call, number: usize) -> usize {
        let Some(piece) = find(batch, call, number, part::WHOLE, 0, false) else { return NOWHERE };
        if piece.fault {
            return NOWHERE;
        }
        let len = batch.stored_len(piece);
        self.memory.copy(batch.stretches(piece), len + 1, &Fill::Zeros) as usize
    }

    #[allow(clippy::too_many_arguments, reason = "they are one row's words and where they apply")]
    fn buffer(
        &mut self,
        batch: &Batch,
        call: &Call,
        number: usize,
        dir: Dir,
        of: Of,
        len: Len,
        fill: &Fill,
    ) -> usize {
        match of {
            Of::Iovec => return self.vector(batch, call, number, dir, fill),
            Of::Msghdr => return self.message(batch, call, number, dir, fill),
            Of::Mmsghdr => return self.messages(batch, call, number, dir, fill),
            Of::Holder(holder) => {
                return self.holder(batch, call, number, dir, holder, fill);
            }
            _ => {}
        }
        let given = find(batch, call, number, part::WHOLE, 0, false);
        if given.is_some_and(|piece| piece.fault) && call.ret <= 0 {
            return NOWHERE;
        }
        match dir {
            Dir::In => {
                let Some(piece) = given else { return NOWHERE };
                let stated = (piece.true_len as usize).min(TRANSFER_MAX);
                let mut want = stated.min(batch.stored_len(piece).saturating_add(SLACK));
                if let Len::Arg(n) = len
                    && call.ret_kind == events::Ret::Size
                {
                    want = if call.attempt { stated } else { bounded(stated, call.ret) };
                    self.values[usize::from(n)] = want;
                    self.go_on = GoOn::Bytes { pointer: number, len: usize::from(n) };
                }
                // The kernel reads no more than there is.
                match len {
                    Len::Arg(n) => self.at_most(n.into(), want),
                    Len::ArgTimes(n, unit) => self.at_most(n.into(), want / unit.max(1) as usize),
                    Len::Fixed(bytes) => want = want.max(bytes as usize),
                    _ => {}
                }
                let at = self.bytes_in(batch, piece, want, fill);
                if let Of::Struct(layout) = of {
                    return self.without_privilege(at, want, layout);
                }
                at
            }
            Dir::Out | Dir::InOut | Dir::OutOnError => {
                let room = self.room(batch, call, number, len);
                let stretches = given.into_iter().flat_map(|piece| batch.stretches(piece));
                let start = match given {
                    Some(piece) => {
                        let room = room.max(batch.stored_len(piece));
                        self.memory.copy(stretches, room, &Fill::Zeros)
                    }
                    None => self.memory.take(room),
                };
                let arg = number as u8;
                self.regions.push(Region { arg, part: part::WHOLE, index: 0, start, len: room });
                start as usize
            }
        }
    }

    /// An argument that counts what is in memory of ours.
    fn at_most(&mut self, number: usize, most: usize) {
        if let Some(value) = self.values.get_mut(number) {
            *value = (*value).min(most);
        }
    }

    /// Memory that goes in, `want` bytes of it.
    fn bytes_in(&mut self, batch: &Batch, piece: &Piece, want: usize, fill: &Fill) -> usize {
        match batch.one_stretch(piece) {
            Some(bytes) if bytes.len() >= want && !self.align => bytes.as_ptr() as usize,
            _ => self.memory.copy(batch.stretches(piece), want, fill) as usize,
        }
    }

    /// Modes within structs (openat2).
    fn without_privilege(
        &mut self,
        at: usize,
        len: usize,
        layout: &events::layout::Layout,
    ) -> usize {
        let modes = layout.fields.iter().filter(|field| {
            matches!(field.kind, events::layout::FieldKind::Mode(_))
                && field.offset as usize + 2 <= len
        });
        let mut at = at;
        for field in modes {
            // SAFETY: `len` bytes are readable there.
            let bytes = unsafe { std::slice::from_raw_parts(at as *const u8, len) };
            let copy = self.memory.copy(std::iter::once(bytes), len, &Fill::Zeros);
            // SAFETY: the field's first two bytes are within the copy.
            unsafe {
                let high = copy.add(field.offset as usize + 1);
                self.withheld |= *high & (PRIVILEGE_BITS >> 8) as u8 != 0;
                *high &= !((PRIVILEGE_BITS >> 8) as u8);
            }
            at = copy as usize;
        }
        at
    }

    /// Room for what comes out. Where the caller says how much, that is bounded by what came.
    fn room(&mut self, batch: &Batch, call: &Call, number: usize, len: Len) -> usize {
        let most = call.ret.clamp(0, i64::from(i32::MAX)) as usize + SLACK;
        let value = |n: u8| self.values[usize::from(n)];
        match len {
            Len::Fixed(bytes) => bytes as usize,
            Len::Ret | Len::RetPath | Len::RetAtMost(..) | Len::RetPlus(_) => {
                // The caller's room stands behind the pointer, or is named.
                let at = match len {
                    Len::RetAtMost(n, _) => usize::from(n),
                    _ => number + 1,
                };
                let unit = if let Len::RetAtMost(_, unit) = len { unit as usize } else { 1 };
                let Some(size) = self.values.get(at).copied() else { return most };
                let exactly = call.stream && call.ret > 0;
                let most = if exactly { call.ret as usize } else { most };
                if size > most {
                    self.values[at] = most;
                }
                if call.stream {
                    self.go_on = GoOn::Bytes { pointer: number, len: at };
                }
                self.values[at].saturating_mul(unit).min(most.saturating_mul(unit))
            }
            Len::Arg(n) => value(n).min(most),
            Len::ArgTimes(n, unit) => value(n).saturating_mul(unit as usize).min(SLACK * 16),
            Len::Pointee(n) => {
                let piece = find(batch, call, usize::from(n), part::WHOLE, 0, false);
                let bytes = piece.and_then(|piece| batch.one_stretch(piece));
                let len = bytes.and_then(|b| b.first_chunk()).map_or(0, |b| u32::from_le_bytes(*b));
                (len as usize).min(SLACK)
            }
            _ => SLACK,
        }
    }

    /// A vector of buffers.
    fn vector(
        &mut self,
        batch: &Batch,
        call: &Call,
        number: usize,
        dir: Dir,
        fill: &Fill,
    ) -> usize {
        let given = find(batch, call, number, part::WHOLE, 0, false)
            .or_else(|| find(batch, call, number, part::WHOLE, 0, true));
        let given = given.filter(|piece| !(piece.fault && call.ret < 0));
        let Some(bytes) = given.and_then(|piece| batch.one_stretch(piece)) else { return NOWHERE };
        let lens: Vec<usize> = vector_lens(bytes);
        // What is too much even for the kernel is left to it. Else it would read more elements than
        // there are, and go where they point.
        if self.values.get(number + 1).is_some_and(|count| *count <= ELEMENTS_MAX) {
            self.at_most(number + 1, lens.len());
        }
        let goes_in =
            dir == Dir::In || pieces(batch, call, number, part::CONTENT, false).next().is_some();
        if call.ret < 0 {
            return self.vector_as_it_was(batch, call, number, &lens);
        }
        let mut left = match (goes_in, call.ret > 0 && (call.stream || call.does_not_wait())) {
            (true, _) => {
                let sum = lens.iter().fold(0usize, |sum, len| sum.saturating_add(*len));
                if call.attempt { sum.min(TRANSFER_MAX) } else { bounded(sum, call.ret) }
            }
            (false, true) => call.ret as usize,
            (false, false) => call.ret.max(0) as usize + SLACK,
        };
        let vector = self.memory.take(lens.len() * 16);
        for (index, len) in lens.iter().enumerate() {
            let len = (*len).min(left);
            left -= len;
            let index = index as u16;
            let piece = find(batch, call, number, part::CONTENT, index, false);
            let start = match (goes_in, piece) {
                (true, Some(piece)) => self.bytes_in(batch, piece, len, fill),
                (true, None) => self.memory.copy(std::iter::empty(), len, fill) as usize,
                (false, _) => {
                    let start = self.memory.take(len);
                    let arg = number as u8;
                    self.regions.push(Region { arg, part: part::CONTENT, index, start, len });
                    start as usize
                }
            };
            put_element(vector, usize::from(index), start, len);
        }
        self.go_on = GoOn::Vector { pointer: number, count: lens.len() };
        vector as usize
    }

    /// The vector of a call that failed: its lengths may be why. Nothing lies behind it but what
    /// is stored.
    fn vector_as_it_was(
        &mut self,
        batch: &Batch,
        call: &Call,
        number: usize,
        lens: &[usize],
    ) -> usize {
        let vector = self.memory.take(lens.len() * 16);
        for (index, &len) in lens.iter().enumerate() {
            let piece = find(batch, call, number, part::CONTENT, index as u16, false);
            let stored = piece.filter(|piece| batch.stored_len(piece) >= len);
            let start = match stored {
                Some(piece) => self.bytes_in(batch, piece, len, &Fill::Zeros),
                None if len == 0 => self.memory.take(1) as usize,
                None => NOWHERE,
            };
            put_element(vector, index, start, len);
        }
        vector as usize
    }

    /// A struct that points to more memory.
    fn holder(
        &mut self,
        batch: &Batch,
        call: &Call,
        number: usize,
        dir: Dir,
        holder: &events::shape::Holder,
        fill: &Fill,
    ) -> usize {
        let out = dir == Dir::Out;
        let Some(head) = find(batch, call, number, part::WHOLE, 0, out) else { return NOWHERE };
        let len = (holder.layout.size as usize).max(batch.stored_len(head));
        let start = self.memory.copy(batch.stretches(head), len, &Fill::Zeros);
        let content = find(batch, call, number, part::CONTENT, 0, out);
        // Where nothing is, no length leads anywhere.
        let mut there = usize::MAX;
        let at = match content {
            Some(piece) if piece.fault => NOWHERE,
            Some(piece) if out => {
                let len = told_len(piece, batch) + SLACK;
                there = len;
                let start = self.memory.take(len);
                let arg = number as u8;
                self.regions.push(Region { arg, part: part::CONTENT, index: 0, start, len });
                start as usize
            }
            Some(piece) => {
                there = told_len(piece, batch);
                self.bytes_in(batch, piece, there, fill)
            }
            None => 0,
        };
        // SAFETY: pointer and length are fields of the struct.
        unsafe {
            start.add(usize::from(holder.pointer.at)).cast::<u64>().write_unaligned(at as u64);
            let field = start.add(usize::from(holder.pointer.length_at));
            let field = std::slice::from_raw_parts_mut(field, holder.pointer.length_bytes.into());
            lower(field, (there / usize::from(holder.pointer.unit.max(1))) as u64);
        }
        start as usize
    }

    /// Writes what a call may have written before it was cut off, as far as that does not block.
    pub fn attempt(&mut self, batch: &Batch, call: &Call, fill: &Fill) {
        self.prepare(batch, call, fill);
        let mut one = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        let (vector, count) = match self.go_on {
            GoOn::Bytes { pointer, len } => {
                one.iov_base = self.values[pointer] as *mut _;
                one.iov_len = self.values[len];
                (&raw const one, 1)
            }
            GoOn::Vector { pointer, count } => (self.values[pointer] as *const _, count),
            GoOn::No | GoOn::Len(_) => return,
        };
        // SAFETY: the vector and what it points to were built by `prepare`.
        unsafe {
            libc::pwritev2(self.values[0] as i32, vector, count as i32, -1, libc::RWF_NOWAIT);
        }
    }

    /// Makes the prepared call, and goes on until as many bytes have passed as in the recording.
    fn perform(&mut self, call: &Call) -> i64 {
        if call.stream && call.ret > 0 && call.leaves_bytes() {
            peek::wait_for_bytes(self.values[0] as i32, call.ret);
            self.go_on = GoOn::No;
        }
        if call.name == "vmsplice" {
            self.copy_bytes();
        }
        let mut total = 0;
        loop {
            let ret = self.once();
            if !call.stream {
                return ret;
            }
            match -ret {
                EAGAIN => {
                    self.wait_until_ready(call);
                    continue;
                }
                EINTR => continue,
                _ => {}
            }
            if ret <= 0 || call.ret <= 0 {
                return if total > 0 { total } else { ret };
            }
            total += ret;
            if total >= call.ret || !self.skip(ret as usize) {
                return total;
            }
        }
    }

    /// Of memory that vmsplice took the kernel keeps the pages, which others' bytes will lie in: the
    /// bytes are copied.
    fn copy_bytes(&mut self) {
        let into_pipe = self.regions.is_empty();
        self.nr = if into_pipe { libc::SYS_writev } else { libc::SYS_readv } as u16;
    }

    fn once(&self) -> i64 {
        let [a, b, c, d, e, f] = self.values;
        // SAFETY: every argument that points is built by `prepare`, of the length that goes with
        // it; all others are numbers.
        let ret = unsafe { libc::syscall(libc::c_long::from(self.nr), a, b, c, d, e, f) };
        match ret {
            -1 => -i64::from(std::io::Error::last_os_error().raw_os_error().unwrap_or(0)),
            ret => ret,
        }
    }

    /// Takes bytes that have passed out of the arguments. Whether the call can go on.
    fn skip(&mut self, bytes: usize) -> bool {
        match self.go_on {
            GoOn::No => false,
            GoOn::Len(len) => {
                self.values[len] -= bytes.min(self.values[len]);
                self.values[len] > 0
            }
            GoOn::Bytes { pointer, len } => {
                let bytes = bytes.min(self.values[len]);
                self.values[pointer] += bytes;
                self.values[len] -= bytes;
                self.values[len] > 0
            }
            GoOn::Vector { pointer, count } => {
                let mut bytes = bytes;
                for index in 0..count {
                    // SAFETY: the vector was built with `count` elements.
                    let element =
                        unsafe { &mut *(self.values[pointer] as *mut libc::iovec).add(index) };
                    let part = bytes.min(element.iov_len);
                    element.iov_base = element.iov_base.wrapping_byte_add(part);
                    element.iov_len -= part;
                    bytes -= part;
                }
                true
            }
        }
    }

    /// The program's descriptor does not wait by itself.
    fn wait_until_ready(&self, call: &Call) {
        let mut fds: Vec<libc::pollfd> = call
            .args
            .iter()
            .zip(self.values)
            .filter(|(arg, _)| matches!(arg.kind, Kind::Fd))
            .map(|(_, fd)| libc::pollfd {
                fd: fd as i32,
                events: if call.reads() { libc::POLLIN } else { libc::POLLOUT },
                revents: 0,
            })
            .collect();
        let wait_ms = if fds.len() == 1 { 100 } else { 1 };
        // SAFETY: the array is as long as is said.
        unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, wait_ms) };
    }
}

impl Call {
    /// Whether its result is a file's size.
    pub fn asks_for_end(&self) -> bool {
        self.ret_kind == events::Ret::Offset && self.values[2] == libc::SEEK_END as u64
    }

    /// Its flags of this set.
    fn flags(&self, wanted: &'static FlagSet) -> u64 {
        let mut args = self.args.iter().zip(self.values);
        let is = |arg: &Arg| matches!(arg.kind, Kind::Flags(set) if std::ptr::eq(set, wanted));
        args.find(|(arg, _)| is(arg)).map_or(0, |(_, value)| value)
    }

    /// Whether it took only what was in memory.
    fn does_not_wait(&self) -> bool {
        self.flags(&RWF) & NOWAIT as u64 != 0
    }

    /// Whether bytes come out of it.
    pub fn reads(&self) -> bool {
        self.args.iter().any(|arg| matches!(arg.kind, Kind::Buf(Dir::Out, ..)))
    }
}

const EAGAIN: i64 = libc::EAGAIN as i64;
const EINTR: i64 = libc::EINTR as i64;

/// How much goes in of `want` bytes, when the recorded call took `ret`.
fn bounded(want: usize, ret: i64) -> usize {
    match usize::try_from(ret) {
        Ok(0) => want.min(FAILED_MAX),
        Ok(took) => want.min(took),
        Err(_) => want.min(FAILED_MAX),
    }
}

/// The length of what a struct points to: as told, but not much more than is stored.
fn told_len(piece: &Piece, batch: &Batch) -> usize {
    (piece.true_len as usize).min(batch.stored_len(piece) + SLACK)
}

/// Makes a length in memory no larger than `most`.
fn lower(field: &mut [u8], most: u64) {
    let mut bytes = [0; 8];
    let len = field.len().min(bytes.len());
    bytes[..len].copy_from_slice(&field[..len]);
    let lower = u64::from_le_bytes(bytes).min(most);
    field[..len].copy_from_slice(&lower.to_le_bytes()[..len]);
}

/// The lengths in an array of `struct iovec`.
fn vector_lens(bytes: &[u8]) -> Vec<usize> {
    let len = |element: &[u8]| element[8..].first_chunk().map_or(0, |b| u64::from_le_bytes(*b));
    bytes.chunks_exact(16).map(|element| len(element) as usize).collect()
}

fn put_element(vector: *mut u8, index: usize, start: usize, len: usize) {
    let element = libc::iovec { iov_base: start as *mut _, iov_len: len };
    // SAFETY: the vector has room for the element, at any alignment.
    unsafe { vector.cast::<libc::iovec>().add(index).write_unaligned(element) };
}

/// The pieces of an argument's part, in order.
pub fn pieces<'a>(
    batch: &'a Batch,
    call: &Call,
    number: usize,
    part: u8,
    out: bool,
) -> impl Iterator<Item = &'a Piece> {
    batch
        .pieces_of(call)
        .iter()
        .filter(move |p| usize::from(p.arg) == number && p.part == part && p.out == out)
}

/// One piece of an argument.
pub fn find<'a>(
    batch: &'a Batch,
    call: &Call,
    number: usize,
    part: u8,
    index: u16,
    out: bool,
) -> Option<&'a Piece> {
    pieces(batch, call, number, part, out).find(|piece| piece.index == index)
}
