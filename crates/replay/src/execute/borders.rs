//! Tests every replayable call with counts, lengths and addresses that no program has: all memory
//! that the kernel may access, by the kernel's rules and not by those of the code that builds
//! arguments, must have been handed out for this call. Rows of the table are taken as they are.

use std::sync::Arc;

use syscalls::record::part;
use syscalls::shape::{ArgKind, Dir, Holder, Len, Of};
use syscalls::{Arg, Replay, Ret, Syscall};

use super::{Maker, find};
use crate::batch::{Batch, Call};
use crate::certainty::{Certainty, Reason};
use crate::options::Fill;
use crate::space::Space;

/// Values at the limits of the kernel's types, and of our buffers.
const BORDERS: &[u64] = &[
    0,
    1,
    2,
    3,
    7,
    8,
    16,
    24,
    56,
    64,
    127,
    128,
    129,
    1023,
    1024,
    1025,
    4095,
    4096,
    4097,
    65_535,
    65_536,
    65_537,
    (1 << 18) - 1,
    1 << 18,
    (1 << 18) + 1,
    (1 << 31) - 1,
    1 << 31,
    (1 << 31) + 1,
    (1 << 32) - 1,
    1 << 32,
    (1 << 32) + 1,
    (1 << 32) + 2,
    (1 << 32) + 1024,
    (1 << 32) + 1025,
    1 << 40,
    0x4141_4141_4141_0000,
    i64::MAX as u64,
    1 << 63,
    (1 << 63) + 1,
    u64::MAX - 1,
    u64::MAX,
];

/// Results, possible and impossible ones.
const RESULTS: &[i64] =
    &[-22, -14, -1, 0, 1, 8, 64, 1024, 70_000, 1 << 20, 1 << 31, (1 << 32) + 2, i64::MAX, i64::MIN];

/// Lengths of stored pieces.
const STORED: &[usize] =
    &[0, 1, 3, 4, 8, 15, 16, 17, 24, 56, 64, 128, 144, 256, 1000, 4096, 70_000];

/// Tries per row or variant.
const TRIES: u32 = 150;

/// Pseudo-random numbers, the same each time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ mixed >> 31
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[(self.next() % all.len() as u64) as usize]
    }

    fn often(&mut self, in_ten: u64) -> bool {
        self.next() % 10 < in_ten
    }
}

/// Yields all replayable calls: row, arguments, result type, and the argument value that selects
/// the variant.
fn made_again() -> impl Iterator<Item = (&'static Syscall, &'static [Arg], Ret, Option<(u8, u64)>)>
{
    let is_made = |replay| matches!(replay, Replay::Real | Replay::Numbers);
    let rows = syscalls::table::ROWS.iter().flat_map(|group| group.iter());
    rows.flat_map(move |row| {
        let whole = row.variants.is_empty() && is_made(row.replay);
        let whole = whole.then_some((row, row.args, row.ret, None));
        let variants = row
            .variants
            .iter()
            .filter(move |variant| is_made(variant.replay.unwrap_or(row.replay)));
        let variants = variants.map(move |variant| {
            (row, variant.args, variant.ret, Some((variant.key_arg, variant.value)))
        });
        whole.into_iter().chain(variants)
    })
}

/// Memory like that of a hostile trace: words that may be taken for addresses and lengths.
fn some_memory(random: &mut Random, len: usize) -> Vec<u8> {
    let words = (0..len.div_ceil(8)).flat_map(|_| random.one_of(BORDERS).to_le_bytes());
    let mut bytes: Vec<u8> = words.collect();
    bytes.truncate(len);
    bytes
}

fn some_call(
    random: &mut Random,
    batch: &mut Batch,
    (row, args, ret_kind, key): (&'static Syscall, &'static [Arg], Ret, Option<(u8, u64)>),
) {
    let first = batch.pieces.len() as u32;
    let parts = [part::WHOLE, part::CONTENT, part::NAME, part::VECTOR, part::CONTROL];
    for (number, arg) in args.iter().enumerate() {
        let pieces = match arg.kind {
            ArgKind::Buf(_, Of::Iovec | Of::Msghdr | Of::Mmsghdr | Of::Holder(_), _) => 12,
            ArgKind::Buf(..) | ArgKind::Path | ArgKind::Str => 2,
            _ => 0,
        };
        for count in 0..pieces {
            if random.often(2) {
                continue;
            }
            let len = random.one_of(STORED);
            let bytes = some_memory(random, len);
            let stored = batch.add_bytes(&bytes);
            let piece = batch.add_piece();
            piece.arg = number as u8;
            piece.part = if count < 2 { part::WHOLE } else { random.one_of(&parts) };
            piece.index = if random.often(7) { 0 } else { random.one_of(&[1, 2, 1024, u16::MAX]) };
            piece.out = random.often(5);
            piece.fault = random.often(1);
            piece.true_len = if random.often(5) { len as u64 } else { random.one_of(BORDERS) };
            piece.stored = stored;
        }
    }
    let pieces = first..batch.pieces.len() as u32;
    let call = batch.add_call();
    call.nr = row.nr;
    call.name = row.name;
    call.act = row.act;
    call.args = args;
    call.ret_kind = ret_kind;
    call.values = std::array::from_fn(|_| random.one_of(BORDERS));
    if let Some((arg, value)) = key {
        call.values[usize::from(arg)] = value;
    }
    call.ret = random.one_of(RESULTS);
    call.pieces = pieces;
    call.stream = random.often(3);
    call.messages = call.stream && random.often(1);
    call.certainty = Certainty::EXACT.weakened_if(random.often(1), Reason::NotReturned);
}

/// Memory that the kernel accesses through the registers.
struct Reach<'a> {
    registers: [usize; 6],
    /// Whether a range was handed out.
    ours: &'a dyn Fn(usize, u64) -> bool,
}

/// Whether an address is in the first page, which is never mapped.
fn leads_nowhere(address: usize) -> bool {
    address < 4096
}

impl Reach<'_> {
    fn check(&self, what: &str, at: usize, len: u64) {
        let fine = len == 0 || leads_nowhere(at) || (self.ours)(at, len);
        assert!(fine, "{what}: the kernel goes to {len} bytes at {at:#x}");
    }

    /// Reads a word of checked memory.
    fn word(&self, at: usize) -> usize {
        // SAFETY: the address lies in memory that was handed out.
        unsafe { (at as *const usize).read_unaligned() }
    }

    /// Bytes that the kernel accesses for a length. (Truncation to 32 bits would only lower it.)
    fn len(&self, number: usize, len: Len) -> u64 {
        let register = |n: u8| self.registers[usize::from(n)] as u64;
        let at = self.registers[number];
        let told = |at: usize| u64::from(self.word(at) as u32);
        match len {
            Len::Fixed(bytes) | Len::FixedIfRet(bytes) => bytes.into(),
            Len::Arg(n) => register(n),
            Len::ArgTimes(n, unit) | Len::RetAtMost(n, unit) => {
                register(n).saturating_mul(unit.into())
            }
            Len::ArgPlus(n, more) => register(n).saturating_add(more.into()),
            Len::Ret | Len::RetPath => register(number as u8 + 1),
            Len::RetPlus(more) => register(number as u8 + 1).saturating_add(more.into()),
            Len::RetTimes(unit) => register(number as u8 + 1).saturating_mul(unit.into()),
            Len::Pointee(n) if leads_nowhere(self.registers[usize::from(n)]) => 0,
            Len::Pointee(n) => told(self.registers[usize::from(n)]),
            Len::PagesArg(n) => register(n).div_ceil(4096),
            Len::BitsArg(n) => register(n).div_ceil(64) * 8,
            Len::SelfSized => told(at),
            Len::OfSet(_) => u64::MAX,
            Len::Counted { at: count, unit, head } => {
                u64::from(head) + told(at + usize::from(count)) * u64::from(unit)
            }
        }
    }

    fn vector(&self, what: &str, at: usize, count: u64) {
        self.check(what, at, count.saturating_mul(16));
        for element in 0..count as usize {
            let at = at + element * 16;
            self.check(what, self.word(at), self.word(at + 8) as u64);
        }
    }

    fn message(&self, what: &str, at: usize, gives: bool) {
        let word = |n: usize| self.word(at + n * 8);
        assert!(!gives || word(0) == 0, "{what}: it is sent to a name");
        self.check(what, word(0), word(1) as u64);
        if word(2) != 0 {
            self.vector(what, word(2), word(3) as u64);
        }
        self.check(what, word(4), word(5) as u64);
    }

    fn holder(&self, what: &str, at: usize, holder: &Holder) {
        let pointer = &holder.pointer;
        let length = self.word(at + usize::from(pointer.length_at)) as u64;
        let length = length & u64::MAX >> (64 - 8 * u32::from(pointer.length_bytes));
        let to = self.word(at + usize::from(pointer.at));
        self.check(what, to, length.saturating_mul(pointer.unit.into()));
    }

    fn argument(&self, what: &str, number: usize, arg: &Arg) {
        let at = self.registers[number];
        let ArgKind::Buf(dir, of, len) = arg.kind else {
            if matches!(arg.kind, ArgKind::Path | ArgKind::Str) && !leads_nowhere(at) {
                // Up to the NUL that must be there.
                let end = (0..1 << 20).find(|len| {
                    self.check(what, at, len + 1);
                    self.word_ends(at + *len as usize)
                });
                assert!(end.is_some(), "{what}: a text without end");
            }
            return;
        };
        if leads_nowhere(at) {
            return;
        }
        let bytes = self.len(number, len);
        self.check(what, at, bytes);
        match of {
            Of::Iovec => self.vector(what, at, bytes / 16),
            Of::Msghdr => self.message(what, at, dir == Dir::In),
            Of::Mmsghdr => (0..bytes as usize / 64)
                .for_each(|n| self.message(what, at + n * 64, dir == Dir::In)),
            Of::Holder(holder) => self.holder(what, at, holder),
            _ => {}
        }
    }

    fn word_ends(&self, at: usize) -> bool {
        // SAFETY: the address was checked before.
        unsafe { *(at as *const u8) == 0 }
    }
}

/// Fills the pools with addresses of the trace's choice.
fn spoil(maker: &mut Maker) {
    for memory in [&mut maker.contents, &mut maker.pointers] {
        memory.clear();
        for len in [60 << 10, 4000, 100] {
            // SAFETY: the span was just taken, and nothing else refers to it.
            unsafe { memory.take(len).bytes_mut() }.fill(0x41);
        }
    }
}

#[test]
fn no_count_leads_the_kernel_beyond_what_is_there() {
    let space = Arc::new(Space::new(Vec::new(), None).unwrap().in_memory(1 << 32));
    let mut maker = Maker::new(space).unwrap();
    let mut random = Random(13);
    let (mut made, mut with_memory) = (0, 0);
    for row in made_again() {
        for _ in 0..TRIES {
            let mut batch = Batch::default();
            some_call(&mut random, &mut batch, row);
            let call = batch.calls.pop().unwrap();
            spoil(&mut maker);
            maker.align = random.often(2);
            maker.prepare(&batch, &call, &Fill::Zeros);
            made += 1;
            if maker.short {
                continue;
            }
            with_memory += usize::from((0..6).any(|at| maker.values.memory(at).is_some()));
            reaches_only_ours(&maker, &batch, &call, row.0.name);
            goes_on_within(&mut maker, &batch, &call, row.0.name, &mut random);
        }
    }
    // The table has not lost its rows.
    assert!(made > 100 * TRIES && with_memory > 50 * TRIES as usize, "{made} {with_memory}");
}

fn reaches_only_ours(maker: &Maker, batch: &Batch, call: &Call, name: &str) {
    let within = |start: usize, room: usize, at: usize, len: u64| {
        at >= start && (at - start) as u64 <= room as u64 && len <= (room - (at - start)) as u64
    };
    let ours = |at: usize, len: u64| {
        let spans = maker.contents.handed_out.iter().chain(&maker.pointers.handed_out);
        let mut spans = spans.map(|span| (span.address(), span.len()));
        let mut stored = batch.pieces_of(call).iter().flat_map(|piece| batch.stretches(piece));
        spans.any(|(start, room)| within(start, room, at, len))
            || stored.any(|bytes| within(bytes.as_ptr().addr(), bytes.len(), at, len))
    };
    let registers = maker.values.registers();
    let reach = Reach { registers, ours: &ours };
    // The call may have been changed to another one on the same file.
    if maker.only_directory {
        return;
    }
    for (number, arg) in call.args.iter().enumerate() {
        reach.argument(&format!("{name}: {}", arg.name), number, arg);
    }
    let rest = &registers[call.args.len()..];
    assert!(rest.iter().all(|value| *value == 0), "{name}: arguments that it does not have");
}

/// After some of its bytes have moved, a call continues with the rest.
fn goes_on_within(maker: &mut Maker, batch: &Batch, call: &Call, name: &str, random: &mut Random) {
    for _ in 0..3 {
        let bytes = random.one_of(&[1, 15, 16, 4096, usize::MAX / 2]);
        if !maker.skip(bytes) {
            return;
        }
        reaches_only_ours(maker, batch, call, name);
    }
}

/// A vector's count is limited to the elements that are stored.
#[test]
fn a_vector_counts_what_is_stored() {
    let mut maker = Maker::new(Arc::new(Space::new(Vec::new(), None).unwrap())).unwrap();
    let row = syscalls::by_name("writev").unwrap();
    for (asked, taken) in [
        (0, 0),
        (1, 1),
        (2, 1),
        (1024, 1),
        (1025, 1025),
        ((1 << 32) + 1, 1),
        ((1 << 32) + 2, 1),
        (u64::MAX, 1025),
    ] {
        let mut batch = Batch::default();
        for (which, bytes) in [
            (part::WHOLE, [0x4141_4141_4141_0000u64, 5].map(u64::to_le_bytes).concat()),
            (part::CONTENT, b"hello".to_vec()),
        ] {
            let stored = batch.add_bytes(&bytes);
            let piece = batch.add_piece();
            (piece.arg, piece.part, piece.stored) = (1, which, stored);
            piece.true_len = bytes.len() as u64;
        }
        let call = batch.add_call();
        (call.nr, call.args, call.ret_kind, call.ret) = (row.nr, row.args, row.ret, 5);
        call.values = [3, 0x7000_0000_0000, asked, 0, 0, 0];
        call.pieces = 0..2;
        let call = batch.calls[0].clone();
        assert!(find(&batch, &call, 1, part::WHOLE, 0, false).is_some());
        maker.prepare(&batch, &call, &Fill::Zeros);
        assert_eq!(maker.number(2), taken, "{asked:#x}");
    }
}
