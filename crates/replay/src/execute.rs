//! Makes a recorded call, with arguments rebuilt from the row and the recorded memory.
//!
//! No recorded address ever reaches the kernel: a pointer points to our memory, or nowhere
//! ([`value`]). Before a call is made, its counts and lengths are lowered to the memory that is
//! there ([`confine`]). Contiguous input is passed without a copy.

mod access;
#[cfg(test)]
mod borders;
mod buffers;
mod confine;
mod message;
mod names;
mod peek;
mod pipes;
mod raise;
mod share;
mod value;
mod vector;

pub use buffers::{find, pieces};
pub use names::is_of_names;

use std::io;
use std::sync::Arc;

use syscalls::Act;
use syscalls::abi::errno::{self, EAGAIN, EINTR};
use syscalls::abi::files::S_IFMT;
use syscalls::flags::{MFD, RWF};
use syscalls::operations::{Cousin, OPERATIONS_FIRST};
use syscalls::record::part;
use syscalls::shape::{Arg, ArgKind, Dir, Extent, FlagSet, Len, Of};

use crate::batch::{Batch, Call, Piece};
use crate::certainty::Reason;
use crate::clock;
use crate::memory::{Memory, Span};
use crate::options::Fill;
use crate::space::Space;
use crate::treatment::{TRANSFER_MAX, is_device, needs_privilege};
use buffers::{SLACK, bounded};
use value::{Arguments, COUNT, Value, lower, put_word};

/// Slack for fd-to-fd transfers, and for calls that failed when recorded.
pub const FREE_SLACK: usize = 64 << 10;
/// Most input bytes of a call that transfers none, such as lists of groups. The kernel accepts
/// less.
const GIVEN_MAX: usize = 1 << 20;
/// Longest text: more than any path or name may have.
const TEXT_MAX: usize = 8192;
/// RWF_NOWAIT: a transfer moves what it can without waiting for a disk.
const NOWAIT: usize = libc::RWF_NOWAIT as usize;
/// That a file in memory has huge pages, and of which size.
const HUGE_PAGES: usize =
    (libc::MFD_HUGETLB | libc::MFD_HUGE_MASK << libc::MFD_HUGE_SHIFT) as usize;
/// Set-user-id and set-group-id.
pub const PRIVILEGE_BITS: usize = SET_USER_ID | SET_GROUP_ID;
const SET_USER_ID: usize = 0o4000;
const SET_GROUP_ID: usize = 0o2000;
/// Sizes of the two memory pools of each call: one for bytes, and one for structs with pointers,
/// which no overflow of the former can reach.
const CONTENTS_BYTES: usize = 256 << 10;
const POINTERS_BYTES: usize = 64 << 10;

/// A buffer that the kernel writes to.
pub struct Region {
    /// Index of the argument.
    pub arg: u8,
    /// The part of it, of `syscalls::record::part`.
    pub part: u8,
    /// Index of the element.
    pub index: u16,
    span: Span,
}

impl Region {
    /// Whether a piece is in it.
    pub fn holds(&self, piece: &Piece) -> bool {
        (self.arg, self.part, self.index) == (piece.arg, piece.part, piece.index)
    }

    /// Returns its current content.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the span belongs to the maker that owns this region. The maker reuses its memory
        // only after it has cleared its regions.
        unsafe { self.span.bytes() }
    }
}

/// How to continue a call after it moved only some of its bytes.
#[derive(Clone, Copy)]
enum GoOn {
    /// Not at all.
    No,
    /// Pointer and length are two arguments.
    Bytes { pointer: usize, len: usize },
    /// The pointer is a vector.
    Vector { pointer: usize },
    /// It has only a length.
    Len(usize),
    /// A header leads to the vector, and has the length of control data, which is told anew each time.
    Message { header: Span, vector: Span, control: usize },
}

/// Makes calls, and reuses its memory for each.
pub struct Maker {
    space: Arc<Space>,
    contents: Memory,
    pointers: Memory,
    nr: u16,
    /// The call that is made for an operation.
    cousin: Option<Cousin>,
    values: Arguments,
    /// Output buffers of the last call.
    regions: Vec<Region>,
    go_on: GoOn,
    /// Bytes of a stream that the last call has moved.
    moved: i64,
    /// When the last call was made, in ticks.
    made_at: u64,
    /// Copy input buffers to aligned memory.
    align: bool,
    /// Set the set-group-id bit of nothing, not even of a directory.
    strict: bool,
    /// The call was changed to reach only directories.
    only_directory: bool,
    /// Set-user-id or set-group-id bits were removed.
    pub withheld: bool,
    /// A regular file was created in place of a device node.
    pub stands_in: bool,
    /// Ordinary pages are in the place of huge ones.
    pub small_pages: bool,
    /// A limit was raised less than recorded.
    pub limited: bool,
    /// Content was copied that cannot be shared here.
    pub copied: bool,
    /// The call was not made: too little memory for its buffers.
    pub short: bool,
}

/// The argument of an operation that is its offset, where it may be the file's own.
const OFFSET_OF_OPERATION: usize = 3;

/// Returns the call that is made for an operation.
#[inline]
fn cousin_of(nr: u16) -> Option<Cousin> {
    if nr < OPERATIONS_FIRST {
        return None;
    }
    syscalls::by_number(nr.into())?.cousin
}

impl Maker {
    /// Allocates the pools.
    pub fn new(space: Arc<Space>) -> io::Result<Maker> {
        Ok(Maker {
            contents: Memory::new(CONTENTS_BYTES, Arc::clone(&space))?,
            pointers: Memory::new(POINTERS_BYTES, Arc::clone(&space))?,
            space,
            nr: 0,
            cousin: None,
            values: Arguments::NONE,
            regions: Vec::new(),
            go_on: GoOn::No,
            moved: 0,
            made_at: 0,
            align: false,
            strict: false,
            only_directory: false,
            withheld: false,
            stands_in: false,
            small_pages: false,
            limited: false,
            copied: false,
            short: false,
        })
    }

    /// Output buffers of the last call.
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// When the last call was made, in ticks: its arguments were built before.
    pub fn made_at(&self) -> u64 {
        self.made_at
    }

    /// Makes a call. Returns the kernel's result, errors as negative errnos.
    pub fn make(&mut self, batch: &Batch, call: &Call, fill: &Fill) -> i64 {
        self.prepare(batch, call, fill);
        let ret = self.perform(call);
        if self.only_directory && ret == -i64::from(libc::ENOTDIR) {
            // Not a directory: leave the bit out.
            self.strict = true;
            self.prepare(batch, call, fill);
            self.strict = false;
            return self.perform(call);
        }
        if ret == -i64::from(libc::EINVAL) && call.ret >= 0 && !self.align {
            // O_DIRECT transfers need aligned memory.
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

    /// Makes the call that was made last again, as it is. One that moved only some bytes of a stream goes on.
    pub fn make_again(&mut self, call: &Call) -> i64 {
        self.perform(call)
    }

    fn prepare(&mut self, batch: &Batch, call: &Call, fill: &Fill) {
        self.regions.clear();
        self.values = Arguments::NONE;
        self.contents.clear();
        self.pointers.clear();
        self.go_on = GoOn::No;
        self.moved = 0;
        self.withheld = false;
        self.stands_in = false;
        self.small_pages = false;
        self.limited = false;
        self.copied = false;
        self.only_directory = false;
        self.nr = call.nr;
        self.cousin = cousin_of(call.nr);
        // Registers without an argument in the row stay zero, whatever the program had in them.
        for (at, (value, _)) in call.values.iter().zip(call.args).enumerate() {
            self.values.set(at, Value::Number(*value as usize));
        }
        if call.stream
            && let Some(at) = call.args.iter().position(|arg| matches!(arg.kind, ArgKind::Size))
        {
            self.limit(at, call);
            self.go_on = GoOn::Len(at);
        }
        // A count below zero moves nothing: the kernel refuses it.
        if let Some(free) = call.free
            && !self.number(free.into()).cast_signed().is_negative()
        {
            self.at_most(free, usize::try_from(call.ret).unwrap_or(0) + FREE_SLACK);
        }
        for (number, arg) in call.args.iter().enumerate() {
            if self.number(number) == 0 {
                continue;
            }
            let value = match arg.kind {
                ArgKind::Path | ArgKind::Str => self.string(batch, call, number),
                ArgKind::Buf(dir, of, len) => self.buffer(batch, call, number, dir, of, len, fill),
                ArgKind::Address | ArgKind::StrArray => Value::Number(0),
                ArgKind::Mode => Value::Number(self.mode(call, number)),
                // Data that was cached when recorded may have to come from the disk now.
                ArgKind::Flags(set) if std::ptr::eq(set, &raw const RWF) => {
                    Value::Number(self.number(number) & !NOWAIT)
                }
                // They are a resource of the whole machine.
                ArgKind::Flags(set) if std::ptr::eq(set, &raw const MFD) && call.ret >= 0 => {
                    let flags = self.number(number);
                    self.small_pages = flags & HUGE_PAGES != 0;
                    Value::Number(flags & !HUGE_PAGES)
                }
                _ => continue,
            };
            self.values.set(number, value);
        }
        self.confine(call);
        if self.only_directory {
            self.reach_directories_only(call);
        }
        self.short = self.contents.was_short() || self.pointers.was_short();
    }

    /// Returns an argument that is a number.
    #[inline]
    fn number(&self, at: usize) -> usize {
        self.values.number(at)
    }

    /// Limits a transfer through a pipe to exactly the recorded bytes.
    fn limit(&mut self, len: usize, call: &Call) {
        if call.ret > 0 {
            self.at_most(len as u8, call.ret as usize);
        }
    }

    /// Removes set-user-id and set-group-id bits of files, and turns devices into regular files.
    fn mode(&mut self, call: &Call, number: usize) -> usize {
        const TYPE: usize = S_IFMT as usize;
        let mut mode = self.number(number);
        if call.act == Act::MakeNode && is_device(mode as u32) {
            // A regular file lets later calls on the name work as recorded.
            mode = mode & !TYPE | libc::S_IFREG as usize;
            self.stands_in = call.ret == 0;
        }
        if mode & PRIVILEGE_BITS == 0 || call.ret_kind == syscalls::Ret::Mode {
            return mode;
        }
        self.withheld = true;
        let to_directory = mode & SET_GROUP_ID != 0 && call.ret == 0;
        if to_directory && !self.strict && call.act == Act::Mode {
            self.only_directory = true;
            self.withheld = mode & SET_USER_ID != 0;
            return mode & !SET_USER_ID;
        }
        mode & !PRIVILEGE_BITS
    }

    fn string(&mut self, batch: &Batch, call: &Call, number: usize) -> Value {
        let Some(piece) = find(batch, call, number, part::WHOLE, 0, false) else {
            return Value::Nowhere;
        };
        if piece.fault {
            return Value::Nowhere;
        }
        let len = batch.stored_len(piece).min(TEXT_MAX);
        let text = self.contents.text(batch.stretches(piece), len);
        // SAFETY: the text was just built, in memory that this maker owns.
        let dangerous = call.act.is_of_attribute() && needs_privilege(unsafe { text.bytes() });
        if dangerous && matches!(call.args[number].kind, ArgKind::Str) {
            return Value::Nowhere;
        }
        Value::Memory(text)
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
    ) -> Value {
        match of {
            Of::Iovec | Of::Mmsghdr => {
                let Some(counter) = counter(len, number) else { return Value::Nowhere };
                let which = (number, counter);
                return match of {
                    Of::Iovec => self.vector(batch, call, which, dir, fill),
                    _ => self.messages(batch, call, which, dir, fill),
                };
            }
            Of::Msghdr => return self.message(batch, call, number, dir, fill),
            Of::Holder(holder) => {
                return self.holder(batch, call, number, dir, holder, fill);
            }
            // Send nothing to a name: its receiver may be outside.
            Of::Sockaddr if dir == Dir::In => return Value::Number(0),
            _ => {}
        }
        let given = find(batch, call, number, part::WHOLE, 0, false);
        if given.is_some_and(|piece| piece.fault) && call.ret <= 0 {
            return Value::Nowhere;
        }
        match dir {
            Dir::In => {
                let Some(piece) = given else { return Value::Nowhere };
                let stated = (piece.true_len as usize).min(TRANSFER_MAX as usize);
                let mut want = stated.min(batch.stored_len(piece).saturating_add(SLACK));
                match len {
                    Len::Arg(n) if call.ret_kind == syscalls::Ret::Size && is_content(of) => {
                        want = if call.certainty.has(Reason::NotReturned) {
                            stated
                        } else {
                            bounded(stated, call.ret)
                        };
                        self.values.set(n.into(), Value::Number(want));
                        self.go_on = GoOn::Bytes { pointer: number, len: usize::from(n) };
                    }
                    Len::Fixed(bytes) => want = want.min(GIVEN_MAX).max(bytes as usize),
                    _ => want = want.min(GIVEN_MAX),
                }
                let span = self.bytes_in(batch, piece, want, fill);
                match of {
                    Of::Struct(layout) => Value::Memory(self.without_privilege(span, layout)),
                    _ => Value::Memory(span),
                }
            }
            Dir::Out | Dir::InOut | Dir::OutOnError => {
                let room = self.room(batch, call, number, len);
                let stretches = given.into_iter().flat_map(|piece| batch.stretches(piece));
                let span = match given {
                    Some(piece) => {
                        let room = room.max(batch.stored_len(piece).min(GIVEN_MAX));
                        self.contents.copy(stretches, room, &Fill::Zeros)
                    }
                    // The kernel must not read remains of an earlier call there.
                    None if dir == Dir::InOut => {
                        self.contents.copy(std::iter::empty(), room, &Fill::Zeros)
                    }
                    None => self.contents.take(room),
                };
                self.add_region(number, part::WHOLE, 0, span);
                Value::Memory(span)
            }
        }
    }

    /// Adds a buffer that the kernel writes to.
    fn add_region(&mut self, number: usize, part: u8, index: u16, span: Span) {
        self.regions.push(Region { arg: number as u8, part, index, span });
    }

    /// Returns `want` bytes of input.
    fn bytes_in(&mut self, batch: &Batch, piece: &Piece, want: usize, fill: &Fill) -> Span {
        match batch.one_stretch(piece) {
            Some(bytes) if bytes.len() >= want && !self.align => Span::reading(&bytes[..want]),
            _ => self.contents.copy(batch.stretches(piece), want, fill),
        }
    }

    /// Removes these bits from modes in structs (openat2).
    fn without_privilege(&mut self, span: Span, layout: &syscalls::layout::Layout) -> Span {
        let modes = layout.fields.iter().filter(|field| {
            matches!(field.kind, syscalls::layout::FieldKind::Mode(_))
                && field.offset as usize + 2 <= span.len()
        });
        let mut span = span;
        for field in modes {
            // SAFETY: the span was made by `bytes_in` from data that lives through this call.
            let bytes = unsafe { span.bytes() };
            span = self.contents.copy(std::iter::once(bytes), span.len(), &Fill::Zeros);
            // SAFETY: the copy was just made, and nothing else refers to it.
            let copy = unsafe { span.bytes_mut() };
            if let Some(high) = copy.get_mut(field.offset as usize + 1) {
                self.withheld |= *high & (PRIVILEGE_BITS >> 8) as u8 != 0;
                *high &= !((PRIVILEGE_BITS >> 8) as u8);
            }
        }
        span
    }

    /// Returns the room for output. A size given by the caller is limited by the recorded result.
    fn room(&mut self, batch: &Batch, call: &Call, number: usize, len: Len) -> usize {
        let most = call.ret.clamp(0, i64::from(i32::MAX)) as usize + SLACK;
        match len {
            Len::Fixed(bytes) => bytes as usize,
            Len::Ret | Len::RetPath | Len::RetAtMost(..) | Len::RetPlus(_) => {
                // The size follows the pointer, or its argument is named.
                let at = match len {
                    Len::RetAtMost(n, _) => usize::from(n),
                    _ => number + 1,
                };
                let unit = if let Len::RetAtMost(_, unit) = len { unit as usize } else { 1 };
                let most = if call.takes_exactly() { call.ret as usize } else { most };
                self.at_most(at as u8, most);
                if call.stream {
                    self.go_on = GoOn::Bytes { pointer: number, len: at };
                }
                self.number(at).saturating_mul(unit)
            }
            Len::Arg(n) => self.number(n.into()).min(most),
            Len::ArgTimes(n, unit) => {
                self.number(n.into()).saturating_mul(unit as usize).min(SLACK * 16)
            }
            Len::Pointee(n) => {
                let piece = find(batch, call, usize::from(n), part::WHOLE, 0, false);
                let bytes = piece.and_then(|piece| batch.one_stretch(piece));
                let len = bytes.and_then(|b| b.first_chunk()).map_or(0, |b| u32::from_le_bytes(*b));
                (len as usize).min(SLACK)
            }
            _ => SLACK,
        }
    }

    /// Builds a struct that points to more memory.
    fn holder(
        &mut self,
        batch: &Batch,
        call: &Call,
        number: usize,
        dir: Dir,
        holder: &syscalls::shape::Holder,
        fill: &Fill,
    ) -> Value {
        let out = dir == Dir::Out;
        let Some(head) = find(batch, call, number, part::WHOLE, 0, out) else {
            return Value::Nowhere;
        };
        let len = (holder.layout.size as usize).max(batch.stored_len(head).min(GIVEN_MAX));
        let span = self.pointers.copy(batch.stretches(head), len, &Fill::Zeros);
        let content = find(batch, call, number, part::CONTENT, 0, out);
        // With no memory behind the pointer, the length needs no limit.
        let mut there = usize::MAX;
        let at = match content {
            Some(piece) if piece.fault => Value::Nowhere,
            Some(piece) if out => {
                let span = self.contents.take(told_len(piece, batch) + SLACK);
                there = span.len();
                self.add_region(number, part::CONTENT, 0, span);
                Value::Memory(span)
            }
            Some(piece) => {
                let span = self.bytes_in(batch, piece, told_len(piece, batch), fill);
                there = span.len();
                Value::Memory(span)
            }
            None => Value::Number(0),
        };
        let pointer = &holder.pointer;
        put_word(span, pointer.at.into(), at.register());
        let most = there / usize::from(pointer.unit.max(1));
        lower(span, pointer.length_at.into(), pointer.length_bytes.into(), most as u64);
        Value::Memory(span)
    }

    /// Makes the prepared call, and continues it until as many bytes have moved as recorded.
    fn perform(&mut self, call: &Call) -> i64 {
        if self.short {
            return -i64::from(libc::ENOMEM);
        }
        self.made_at = clock::ticks();
        if call.stream && call.ret > 0 && call.leaves_bytes() {
            peek::wait_for_bytes(self.number(0) as i32, call.ret);
            self.go_on = GoOn::No;
        }
        self.make_way(call);
        loop {
            if !call.stream {
                return self.once();
            }
            let ret = self.once_with_room();
            match errno::of_result(ret) {
                Some(EAGAIN) => {
                    self.wait_until_ready(call);
                    continue;
                }
                Some(EINTR) => continue,
                _ => {}
            }
            if ret <= 0 || call.ret <= 0 {
                return if self.moved > 0 { self.moved } else { ret };
            }
            self.moved += ret;
            if self.moved >= call.ret || call.messages || !self.skip(ret as usize) {
                return self.moved;
            }
        }
    }

    fn once(&self) -> i64 {
        let registers = self.values.registers();
        let mut offsets = [registers[1], registers[OFFSET_OF_OPERATION]];
        let [a, mut b, c, mut d, e, f] = match self.cousin {
            None => registers,
            Some(cousin) => {
                cousin.args.map(|from| registers.get(usize::from(from)).copied().unwrap_or(0))
            }
        };
        if self.cousin.is_some_and(|cousin| cousin.offsets_behind) {
            let behind = |offset: &mut usize| match *offset {
                usize::MAX => 0,
                _ => &raw mut *offset as usize,
            };
            let [first, second] = &mut offsets;
            (b, d) = (behind(first), behind(second));
        }
        let own_offset = |cousin: Cousin| {
            cousin.at_own_offset.filter(|_| registers[OFFSET_OF_OPERATION] == usize::MAX)
        };
        let nr = self.cousin.map_or(self.nr, |cousin| own_offset(cousin).unwrap_or(cousin.nr));
        // SAFETY: pointers point to our memory or nowhere, and no argument counts more of it than
        // there is; all others are numbers.
        let ret = unsafe { libc::syscall(libc::c_long::from(nr), a, b, c, d, e, f) };
        match ret {
            -1 => -i64::from(std::io::Error::last_os_error().raw_os_error().unwrap_or(0)),
            ret => ret,
        }
    }

    /// Removes bytes already moved from the arguments. Returns whether the call can continue.
    fn skip(&mut self, bytes: usize) -> bool {
        let (pointer, len) = match self.go_on {
            GoOn::No => return false,
            GoOn::Len(len) => (None, len),
            GoOn::Bytes { pointer, len } => (Some(pointer), len),
            GoOn::Vector { pointer } => {
                if let Some(vector) = self.values.memory(pointer) {
                    buffers::skip(vector, bytes);
                }
                return true;
            }
            GoOn::Message { header, vector, control } => {
                buffers::skip(vector, bytes);
                buffers::make_room_for_control(header, control);
                return true;
            }
        };
        let left = self.number(len).saturating_sub(bytes);
        self.values.set(len, Value::Number(left));
        if let Some(pointer) = pointer
            && let Some(span) = self.values.memory(pointer)
        {
            self.values.set(pointer, Value::Memory(span.after(bytes)));
            self.at_most(len as u8, span.after(bytes).len());
        }
        self.number(len) > 0
    }

    /// Waits for the program's descriptor, which is non-blocking.
    fn wait_until_ready(&self, call: &Call) {
        let mut fds: Vec<libc::pollfd> = call
            .args
            .iter()
            .enumerate()
            .filter(|(_, arg)| matches!(arg.kind, ArgKind::Fd))
            .map(|(at, _)| libc::pollfd {
                fd: self.number(at) as i32,
                events: if call.reads() { libc::POLLIN } else { libc::POLLOUT },
                revents: 0,
            })
            .collect();
        let wait_ms = if fds.len() == 1 { 100 } else { 1 };
        // SAFETY: the array is passed with its length.
        unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, wait_ms) };
    }
}

/// Returns the argument that counts what a pointer argument points to.
fn counter(len: Len, number: usize) -> Option<usize> {
    match len.extent(number as u8) {
        Extent::Argument { number: counter, .. } if usize::from(counter) < COUNT => {
            Some(counter.into())
        }
        _ => None,
    }
}

/// Whether the buffer is plain data that a call moves.
fn is_content(of: Of) -> bool {
    matches!(of, Of::Bytes)
}

impl Call {
    /// Whether it takes bytes that follow each other, of which others may put more there meanwhile.
    fn takes_exactly(&self) -> bool {
        self.stream && !self.messages && self.ret > 0
    }

    /// Whether its result is a file's size.
    pub fn asks_for_end(&self) -> bool {
        self.ret_kind == syscalls::Ret::Offset && self.values[2] == libc::SEEK_END as u64
    }

    /// Returns its flags of this set.
    fn flags(&self, wanted: &'static FlagSet) -> u64 {
        let mut args = self.args.iter().zip(self.values);
        let is = |arg: &Arg| matches!(arg.kind, ArgKind::Flags(set) if std::ptr::eq(set, wanted));
        args.find(|(arg, _)| is(arg)).map_or(0, |(_, value)| value)
    }

    /// Whether it took only cached data.
    fn does_not_wait(&self) -> bool {
        self.flags(&RWF) & NOWAIT as u64 != 0
    }

    /// Whether it returns data.
    pub fn reads(&self) -> bool {
        self.args.iter().any(|arg| matches!(arg.kind, ArgKind::Buf(Dir::Out, ..)))
    }
}

/// Length of the memory that a struct points to: as recorded, but not much more than is stored.
fn told_len(piece: &Piece, batch: &Batch) -> usize {
    (piece.true_len as usize).min(batch.stored_len(piece) + SLACK).min(GIVEN_MAX)
}
