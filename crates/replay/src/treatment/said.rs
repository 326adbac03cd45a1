//! What the table says of a call, and which open files it names.

use model::{Description, DescriptorTable, Origin};
use syscalls::abi::files::{S_IFIFO, S_IFMT};
use syscalls::shape::{Dir, FlagSet, Of, of_set, operand};
use syscalls::{Act, Arg, ArgKind, Operand, Replay, Syscall};
use trace::event::Call;

/// Mark of an open file that is only a placeholder here: no directory scan has so high a number.
pub const PLACEHOLDER: u64 = u64::MAX - 1;

/// A call's description in the table.
pub struct Said {
    /// Its row.
    pub row: &'static Syscall,
    /// The arguments, as its variant defines them.
    pub args: &'static [Arg],
    /// Meaning of its result.
    pub ret: syscalls::Ret,
    /// Its effect.
    pub act: Act,
    /// How it is replayed.
    pub replay: Replay,
}

/// Looks a call up in the table.
pub fn said(call: &Call) -> Option<Said> {
    let row = syscalls::by_number(u64::from(call.nr))?;
    let Some(variant) = row.variant(&call.args) else {
        // The data of an unknown variant was not captured.
        let unknown = !row.variants.is_empty() && row.replay == Replay::Real;
        let replay = if unknown { Replay::Simulated } else { row.replay };
        return Some(Said { row, args: row.args, ret: row.ret, act: row.act, replay });
    };
    let (replay, act) = (variant.replay.unwrap_or(row.replay), variant.act.unwrap_or(row.act));
    Some(Said { row, args: variant.args, ret: variant.ret, act, replay })
}

impl Said {
    /// Returns the value of the argument with a use.
    pub fn value(&self, call: &Call, wanted: Operand) -> Option<u64> {
        Some(call.args[usize::from(operand(self.args, wanted)?)])
    }

    /// Returns the value of the argument that is of a set.
    pub fn of_set(&self, call: &Call, wanted: &'static FlagSet) -> Option<u64> {
        Some(call.args[usize::from(of_set(self.args, wanted)?)])
    }
}

/// Returns the open files that a call names by their descriptors.
pub fn files<'a>(
    said: &Said,
    call: &Call,
    table: &'a DescriptorTable,
) -> impl Iterator<Item = &'a Description> {
    let fds = said.args.iter().zip(call.args).filter(|(arg, _)| matches!(arg.kind, ArgKind::Fd));
    fds.filter_map(|(_, fd)| Some(&**table.get(fd as i32)?.description))
}

/// Whether an argument receives directory entries.
pub fn is_directory_entries(kind: ArgKind) -> bool {
    matches!(kind, ArgKind::Buf(Dir::Out, Of::Dirents | Of::Dirents64, _))
}

/// Whether bytes come from a queue, not from an offset.
pub fn is_stream(description: &Description) -> bool {
    match description.origin {
        Origin::Pipe | Origin::SocketPair | Origin::Passed => true,
        Origin::Path | Origin::Outside => {
            description.is_fifo.get()
                || description.identity.is_some_and(|i| i.mode & S_IFMT == S_IFIFO)
        }
        Origin::Unnamed | Origin::Memory | Origin::Socket | Origin::Anonymous | Origin::Taken => {
            false
        }
    }
}
