//! Compares the output of a call with the recorded one.

use std::collections::BTreeSet;

use syscalls::Operand;
use syscalls::abi::files::{S_IFDIR, S_IFMT, S_IFREG};
use syscalls::layout::{FieldKind, Layout, Varies};
use syscalls::record::part;
use syscalls::shape::{ArgKind, Dir, Of, operand};
use twox_hash::XxHash3_128;

use crate::batch::{Batch, Call, Piece};
use crate::certainty::Reason;
use crate::execute::{self, Region};
use crate::treatment::{is_device, needs_privilege};

/// Result of a comparison.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The bytes are equal.
    Same,
    /// The trace does not hold enough bytes to decide.
    Unknown,
    /// The bytes differ.
    Differ {
        /// The argument or field.
        what: String,
        /// The recorded value.
        expected: String,
        /// Our value.
        found: String,
    },
}

/// Both bits are removed from files, and set-user-id from directories.
const PRIVILEGE_BITS: u64 = 0o6000;
const SET_USER_ID: u64 = 0o4000;

/// Compares all outputs. `room` returns the buffer that a piece is in; `owners`: compare owners too.
pub fn compare<'a>(
    batch: &Batch,
    call: &Call,
    room: impl Fn(&Piece) -> Option<&'a [u8]>,
    owners: bool,
) -> Verdict {
    let mut unknown = false;
    let mut done: Option<(u8, u8, u16, usize)> = None;
    for piece in batch.pieces_of(call).iter().filter(|piece| piece.out) {
        let Some(arg) = call.args.get(usize::from(piece.arg)) else { continue };
        let ArgKind::Buf(dir, of, _) = arg.kind else { continue };
        if dir == Dir::In || !is_compared(of, piece.part) {
            continue;
        }
        let Some(whole) = room(piece) else { continue };
        // Several pieces of one region follow each other.
        let from = match done {
            Some((arg, part, index, end))
                if (arg, part, index) == (piece.arg, piece.part, piece.index) =>
            {
                end
            }
            _ => 0,
        };
        done = Some((piece.arg, piece.part, piece.index, from + piece.true_len as usize));
        let Some(room) = whole.get(from..) else { continue };
        let verdict = match of {
            Of::Struct(layout) => fields(batch, piece, room, layout, owners),
            _ => bytes(
                batch,
                piece,
                room,
                arg.is(Operand::AttributeNames),
                call.certainty.has(Reason::HashOfFiller),
            ),
        };
        match verdict {
            Verdict::Same => {}
            Verdict::Unknown => unknown = true,
            Verdict::Differ { what, expected, found } => {
                let what = if what.is_empty() { arg.name.to_string() } else { what };
                return Verdict::Differ { what, expected, found };
            }
        }
    }
    if unknown { Verdict::Unknown } else { Verdict::Same }
}

/// Whether this part of an argument is data that does not depend on the system.
fn is_compared(of: Of, which: u8) -> bool {
    match of {
        Of::Iovec | Of::Msghdr | Of::Mmsghdr | Of::Holder(_) => which == part::CONTENT,
        Of::Fds | Of::Sockaddr | Of::Dirents | Of::Dirents64 => false,
        _ => true,
    }
}

/// Compares bytes with a piece. `list`: they are names of attributes; `untold`: bytes that are not
/// stored may be filler.
pub fn bytes(batch: &Batch, piece: &Piece, room: &[u8], list: bool, untold: bool) -> Verdict {
    let mut at = 0;
    for expected in batch.expected(piece) {
        let there = &room[at.min(room.len())..(at + expected.len()).min(room.len())];
        if !expected.is(there) {
            let stretch = expected.bytes();
            if list && same_names(stretch, there) {
                at += stretch.len();
                continue;
            }
            let differs = there.iter().zip(stretch).take_while(|(a, b)| a == b).count();
            return Verdict::Differ {
                what: String::new(),
                expected: sample(at + differs, &stretch[differs..]),
                found: sample(at + differs, &there[differs.min(there.len())..]),
            };
        }
        at += expected.len();
    }
    if (at as u64) >= piece.true_len {
        return Verdict::Same;
    }
    let all = room.get(..piece.true_len as usize);
    let hash = piece.hash.map(|at| batch.hashes[at as usize]);
    match (hash, all) {
        (Some(hash), Some(all)) if XxHash3_128::oneshot(all) == hash => Verdict::Same,
        // Some of the bytes that are not stored may be filler.
        (Some(_), Some(_)) if untold => Verdict::Unknown,
        (Some(hash), Some(all)) => Verdict::Differ {
            what: String::new(),
            expected: format!("{} bytes with hash {hash:032x}", piece.true_len),
            found: format!("hash {:032x}", XxHash3_128::oneshot(all)),
        },
        _ => Verdict::Unknown,
    }
}

/// Shows a few bytes and their offset.
fn sample(at: usize, bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(24)];
    format!("at {at}: \"{}\"", shown.escape_ascii())
}

/// Whether a list of attributes has the recorded names, ignoring those that need privileges. `ret`
/// is the returned length.
pub fn lists_same_names(batch: &Batch, call: &Call, regions: &[Region], ret: i64) -> bool {
    let Some(number) = operand(call.args, Operand::AttributeNames) else { return false };
    let Some(piece) = execute::find(batch, call, number.into(), part::WHOLE, 0, true) else {
        return false;
    };
    let Some(region) = regions.iter().find(|region| region.arg == number) else {
        return false;
    };
    let found = region.bytes();
    let found = &found[..found.len().min(ret.max(0) as usize)];
    batch.one_stretch(piece).is_some_and(|recorded| same_names(recorded, found))
}

fn same_names(a: &[u8], b: &[u8]) -> bool {
    let names = |bytes| {
        let all = <[u8]>::split(bytes, |&c| c == 0);
        all.filter(|name| !needs_privilege(name)).map(<[u8]>::to_vec).collect::<BTreeSet<_>>()
    };
    names(a) == names(b)
}

fn fields(batch: &Batch, piece: &Piece, room: &[u8], layout: &Layout, owners: bool) -> Verdict {
    let Some(expected) = batch.one_stretch(piece) else { return Verdict::Unknown };
    let mode = layout.fields.iter().find(|field| matches!(field.kind, FieldKind::Mode(_)));
    let type_of = |bytes: &[u8]| {
        mode.map(|mode| number(bytes, mode.offset, size(mode.kind))).unwrap_or(0) as u32 & S_IFMT
    };
    if is_device(type_of(expected)) && type_of(room) == S_IFREG {
        // A regular file stands in for the device.
        return Verdict::Unknown;
    }
    let directory = type_of(expected) == S_IFDIR;
    for field in layout.fields {
        let name = field.name;
        match field.varies {
            Varies::Never => {}
            Varies::ByMachine => continue,
            Varies::OfDirectories if directory => continue,
            Varies::ByUser if !owners => continue,
            Varies::OfDirectories | Varies::ByUser => {}
        }
        let bytes = size(field.kind);
        if bytes > 8 || field.offset as usize + bytes > expected.len().min(room.len()) {
            continue;
        }
        let (mut want, mut have) =
            (number(expected, field.offset, bytes), number(room, field.offset, bytes));
        if matches!(field.kind, FieldKind::Mode(_)) {
            let withheld = if directory { SET_USER_ID } else { PRIVILEGE_BITS };
            want &= !withheld;
            have &= !withheld;
        }
        if want != have {
            let show = |value: u64| match field.kind {
                FieldKind::Mode(_) => format!("{name} {value:#o}"),
                _ => format!("{name} {value}"),
            };
            return Verdict::Differ {
                what: name.to_string(),
                expected: show(want),
                found: show(have),
            };
        }
    }
    Verdict::Same
}

fn size(kind: FieldKind) -> usize {
    match kind {
        FieldKind::Signed(n)
        | FieldKind::Unsigned(n)
        | FieldKind::Hex(n)
        | FieldKind::Mode(n)
        | FieldKind::Dev(n)
        | FieldKind::Flags(n, _)
        | FieldKind::Enum(n, _)
        | FieldKind::Named(n, _) => usize::from(n),
        FieldKind::Signal | FieldKind::Fd => 4,
        FieldKind::SigSet => 8,
        FieldKind::Text(_) | FieldKind::Bytes(_) | FieldKind::Struct(_) | FieldKind::Array(..) => {
            usize::MAX
        }
    }
}

fn number(bytes: &[u8], offset: u32, len: usize) -> u64 {
    let mut word = [0; 8];
    if let Some(there) = bytes.get(offset as usize..offset as usize + len.min(8)) {
        word[..there.len()].copy_from_slice(there);
    }
    u64::from_le_bytes(word)
}
