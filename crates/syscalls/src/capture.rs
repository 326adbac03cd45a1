//! The table in the form that the agent needs: what to copy for each call, without pointers, so
//! that it works at any address.
//!
//! Compiled from the rows at build time, so it cannot get out of step with them.

use crate::handler::Handler;
use crate::operations::OPERATIONS_FIRST;
use crate::paths::{self, PATHS_MAX, PathUse, Paths};
use crate::shape::{Arg, ArgKind, Behind, Dir, Gives, Len, Of, OpenFlags, Pointer, Syscall};
use crate::table::{NUMBER_LIMIT, PLACES, ROWS, place};

/// How to find the bytes of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    /// One range of memory.
    Bytes,
    /// A string up to the first NUL.
    Str,
    /// An array of pointers to strings.
    StrArray,
    /// A vector and the buffers in it.
    Iovec,
    /// A message header and everything it points to.
    Msghdr,
    /// An array of message headers.
    Mmsghdr,
    /// In an array of message headers: how much was sent or received of each.
    Lengths,
    /// A struct and the memory it points to (as part CONTENT).
    Holder(Pointer),
    /// A number that is stored where a struct says (as part CONTENT).
    Behind(Behind),
}

/// One memory range to copy.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    /// Number of the argument that points to it.
    pub arg: u8,
    /// When to copy.
    pub dir: Dir,
    /// How to find the bytes.
    pub how: How,
    /// Number of bytes.
    pub len: Len,
}

impl Op {
    /// Whether the output length can be larger than the caller's buffer: the kernel then writes as much
    /// as fits.
    pub const fn has_room(&self) -> bool {
        let has_length =
            matches!(self.how, How::Msghdr | How::Mmsghdr) || matches!(self.len, Len::Pointee(_));
        matches!(self.dir, Dir::Out) && has_length
    }
}

/// Maximum number of operations in a row.
pub const OPS_MAX: usize = 6;

/// What to do and to copy for one call or variant.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// How to make the call.
    pub handler: Handler,
    /// The kernel has a call with this number.
    pub known: bool,
    /// In a re-execution its result is given, and it is not made: see [`Again`](crate::Again).
    pub is_given: bool,
    /// Number of arguments of the call.
    pub nargs: u8,
    /// Number of operations in use.
    pub nops: u8,
    /// Some operation is done before the call, or must know the size of a buffer by then.
    pub has_in: bool,
    /// Some operation is done after the call.
    pub has_out: bool,
    /// Index + 1 in `CHANGED` of the paths of files that the call may change; 0: none.
    changes: u8,
    /// Index + 1 in `OPENINGS` of the file that the call opens; 0: none.
    opens: u8,
    /// Index of the call's first variant in `VARIANTS`.
    first_variant: u16,
    /// Number of variants; if none matches, the row itself applies.
    variant_count: u16,
    /// The operations, in argument order.
    pub ops: [Op; OPS_MAX],
}

/// The file that a call opens.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    /// Its path.
    pub path: PathUse,
    /// The flags of open.
    pub flags: OpenFlags,
}

/// A variant's row and the key that selects it.
#[derive(Clone, Copy, Debug)]
pub struct VariantRow {
    /// Number of the argument that is compared.
    pub key_arg: u8,
    /// Value to match.
    pub value: u64,
    /// Bits of the argument to compare.
    pub mask: u64,
    /// What to copy.
    pub row: Row,
}

const NO_OP: Op = Op { arg: 0, dir: Dir::In, how: How::Bytes, len: Len::Fixed(0) };

const RAW: Row = Row {
    handler: Handler::Plain,
    known: false,
    is_given: true,
    nargs: 6,
    nops: 0,
    has_in: false,
    has_out: false,
    changes: 0,
    opens: 0,
    first_variant: 0,
    variant_count: 0,
    ops: [NO_OP; OPS_MAX],
};

const fn op_of(index: u8, kind: ArgKind) -> Option<Op> {
    Some(match kind {
        ArgKind::Path | ArgKind::Str => {
            Op { arg: index, dir: Dir::In, how: How::Str, len: Len::Fixed(0) }
        }
        ArgKind::StrArray => {
            Op { arg: index, dir: Dir::In, how: How::StrArray, len: Len::Fixed(0) }
        }
        ArgKind::Buf(dir, of, len) => {
            let (how, len) = match of {
                Of::Iovec => (How::Iovec, len),
                Of::Msghdr => (How::Msghdr, len),
                Of::Mmsghdr => (How::Mmsghdr, len),
                // Only that much is known, even if the caller passes a larger size.
                Of::Holder(holder) => (How::Holder(holder.pointer), Len::Fixed(holder.layout.size)),
                _ => (How::Bytes, len),
            };
            Op { arg: index, dir, how, len }
        }
        _ => return None,
    })
}

const fn compile(args: &[Arg]) -> Row {
    let mut row = RAW;
    row.known = true;
    row.nargs = args.len() as u8;
    let mut i = 0;
    while i < args.len() {
        if let Some(op) = op_of(i as u8, args[i].kind) {
            row = with_op(row, op);
            if let Some(op) = also_out(op) {
                row = with_op(row, op);
            }
            if args[i].told_on_error {
                row = with_op(row, Op { dir: Dir::OutOnError, ..op });
            }
        }
        i += 1;
    }
    row
}

const fn with_op(mut row: Row, op: Op) -> Row {
    row.ops[row.nops as usize] = op;
    row.nops += 1;
    row.has_in |= matches!(op.dir, Dir::In | Dir::InOut) || op.has_room();
    row.has_out |= !matches!(op.dir, Dir::In);
    row
}

/// What the kernel writes besides into memory that an operation is about.
const fn also_out(op: Op) -> Option<Op> {
    match op.how {
        How::Mmsghdr => Some(Op { dir: Dir::Out, how: How::Lengths, ..op }),
        _ => None,
    }
}

const fn compile_rows() -> [Row; PLACES] {
    let mut rows = [RAW; PLACES];
    let (mut variants, mut changing, mut opening) = (0, 0, 0);
    let mut group = 0;
    while group < ROWS.len() {
        let mut i = 0;
        while i < ROWS[group].len() {
            let call: &Syscall = &ROWS[group][i];
            let Some(place) = place(call.nr as u64) else { panic!("no place") };
            assert!(!rows[place].known, "two rows for one number");
            let mut row = compile(call.args);
            if let Gives::ObjectBehind(_, behind) = call.gives {
                assert!(call.variants.is_empty(), "variants would not give it");
                let how = How::Behind(behind);
                row = with_op(row, Op { arg: 0, dir: Dir::Out, how, len: Len::Fixed(4) });
            }
            row.handler = handler_of(call);
            row.is_given = call.again.is_given();
            if call.open.is_some() {
                opening += 1;
                row.opens = opening;
            }
            row.first_variant = variants;
            row.variant_count = call.variants.len() as u16;
            variants += row.variant_count;
            if changes_files(call) {
                assert!(call.variants.is_empty(), "variants have no list of their own");
                changing += 1;
                row.changes = changing;
            }
            rows[place] = row;
            i += 1;
        }
        group += 1;
    }
    rows
}

const fn count_variants() -> usize {
    let mut count = 0;
    let mut group = 0;
    while group < ROWS.len() {
        let mut i = 0;
        while i < ROWS[group].len() {
            count += ROWS[group][i].variants.len();
            i += 1;
        }
        group += 1;
    }
    count
}

const fn compile_variants() -> [VariantRow; count_variants()] {
    let mut out = [VariantRow { key_arg: 0, value: 0, mask: 0, row: RAW }; count_variants()];
    let (mut n, mut opening) = (0, 0);
    let mut group = 0;
    while group < ROWS.len() {
        let mut i = 0;
        while i < ROWS[group].len() {
            let call: &Syscall = &ROWS[group][i];
            opening += call.open.is_some() as u8;
            let mut v = 0;
            while v < call.variants.len() {
                let variant = &call.variants[v];
                let mut row = compile(variant.args);
                row.handler = handler_of(call);
                let again = match variant.again {
                    Some(again) => again,
                    None => call.again,
                };
                row.is_given = again.is_given();
                row.opens = if call.open.is_some() { opening } else { 0 };
                out[n] = VariantRow {
                    key_arg: variant.key_arg,
                    value: variant.value,
                    mask: variant.mask,
                    row,
                };
                n += 1;
                v += 1;
            }
            i += 1;
        }
        group += 1;
    }
    out
}

/// Returns how to make a call: as its row says, or as the paths of files that it changes demand.
const fn handler_of(call: &Syscall) -> Handler {
    if changes_files(call) && matches!(call.handler, Handler::Plain) {
        return Handler::ChangeFiles;
    }
    call.handler
}

const fn changes_files(call: &Syscall) -> bool {
    paths::changed(call)[0].is_some()
}

const fn count_changing() -> usize {
    let (mut count, mut group) = (0, 0);
    while group < ROWS.len() {
        let mut i = 0;
        while i < ROWS[group].len() {
            count += changes_files(&ROWS[group][i]) as usize;
            i += 1;
        }
        group += 1;
    }
    count
}

const fn compile_changed() -> [Paths; count_changing()] {
    let mut out = [[None; PATHS_MAX]; count_changing()];
    let (mut n, mut group) = (0, 0);
    while group < ROWS.len() {
        let mut i = 0;
        while i < ROWS[group].len() {
            if changes_files(&ROWS[group][i]) {
                out[n] = paths::changed(&ROWS[group][i]);
                n += 1;
            }
            i += 1;
        }
        group += 1;
    }
    out
}

const fn count_openings() -> usize {
    let (mut count, mut group) = (0, 0);
    while group < ROWS.len() {
        let mut i = 0;
        while i < ROWS[group].len() {
            count += ROWS[group][i].open.is_some() as usize;
            i += 1;
        }
        group += 1;
    }
    count
}

const fn compile_openings() -> [Option<Opening>; count_openings()] {
    let mut out = [None; count_openings()];
    let (mut n, mut group) = (0, 0);
    while group < ROWS.len() {
        let mut i = 0;
        while i < ROWS[group].len() {
            let call: &Syscall = &ROWS[group][i];
            if let Some(flags) = call.open {
                let Some(path) = paths::of(call)[0] else {
                    panic!("it opens a file without a path")
                };
                out[n] = Some(Opening { path, flags });
                n += 1;
            }
            i += 1;
        }
        group += 1;
    }
    out
}

static CAPTURE: [Row; PLACES] = compile_rows();
static VARIANTS: [VariantRow; count_variants()] = compile_variants();
static CHANGED: [Paths; count_changing()] = compile_changed();
static OPENINGS: [Option<Opening>; count_openings()] = compile_openings();
static UNKNOWN: Row = RAW;

impl Row {
    /// Returns the paths of files that the call may change; their identity is recorded before.
    pub fn changed_paths(&self) -> impl Iterator<Item = PathUse> + use<> {
        let listed = usize::from(self.changes).checked_sub(1).and_then(|at| CHANGED.get(at));
        listed.into_iter().flatten().flatten().copied()
    }

    /// Returns the file that the call opens.
    pub fn opening(&self) -> Option<Opening> {
        let index = usize::from(self.opens).checked_sub(1)?;
        OPENINGS.get(index).copied().flatten()
    }
}

/// Returns what to copy for a call with these arguments, and whether its variant is unknown.
pub fn row(nr: u64, args: &[u64; 6]) -> (&'static Row, bool) {
    // A program may call any number, that of an operation included.
    if nr >= OPERATIONS_FIRST as u64 {
        return (&UNKNOWN, false);
    }
    let Some(row) = CAPTURE.get(nr as usize) else { return (&UNKNOWN, false) };
    if row.variant_count == 0 {
        return (row, false);
    }
    match variant(row, args) {
        Some(variant) => (variant, false),
        None => (row, true),
    }
}

fn variant(row: &Row, args: &[u64; 6]) -> Option<&'static Row> {
    let first = usize::from(row.first_variant);
    let mut variants = VARIANTS[first..first + usize::from(row.variant_count)].iter();
    let found = variants.find(|v| args[usize::from(v.key_arg)] & v.mask == v.value)?;
    Some(&found.row)
}

/// Returns what to copy for an operation with these arguments.
pub fn operation(nr: u16, args: &[u64; 6]) -> &'static Row {
    let place = Some(nr).filter(|nr| *nr >= OPERATIONS_FIRST).and_then(|nr| place(nr.into()));
    let Some(row) = place.map(|place| &CAPTURE[place]) else { return &UNKNOWN };
    variant(row, args).unwrap_or(row)
}

/// Returns the number under which a call is recorded: those of operations stand for no call.
#[inline]
pub const fn recorded_number(nr: u64) -> u16 {
    if nr < OPERATIONS_FIRST as u64 || NUMBER_LIMIT as u64 <= nr && nr < u16::MAX as u64 {
        return nr as u16;
    }
    u16::MAX
}
