//! What of a call is the same each time a deterministic program runs.

use std::hash::{Hash, Hasher};

use model::{Moment, file_use};
use syscalls::shape::{Arg, ArgKind, Classes, Operand, Ret, Syscall};
use trace::event::{Call, Outcome};

use crate::mixing::Mixer;
use crate::names::{Kin, Naming};

/// Numbers from here on may be addresses, where nothing says what they are.
const ADDRESSES: u64 = 1 << 32;

/// Returns a hash of a call: its number, its arguments and its result, without addresses, times, ids of
/// processes, and the content of buffers. Of paths the pattern counts.
pub fn signature(moment: &Moment<'_>, call: &Call, naming: &Naming) -> u64 {
    let mut hasher = Mixer::default();
    call.nr.hash(&mut hasher);
    let used = file_use::of(call.nr);
    let row = syscalls::by_number(call.nr.into());
    // Queues and areas of memory of System V have numbers that are never the same.
    let has_numbers = used.is(Classes::IPC) && !used.is(Classes::DESC);
    if let Some(row) = row.filter(|_| !has_numbers) {
        for (number, arg) in row.args_of(&call.args).iter().enumerate() {
            argument(arg, call.args[number.min(5)]).hash(&mut hasher);
        }
    }
    if !moment.step.paths.is_empty() {
        let kin = Kin::of(moment.world, moment.event.thread);
        for (number, path) in &moment.step.paths {
            (number, naming.pattern_by(path, &kin)).hash(&mut hasher);
        }
    }
    result(row, call, has_numbers || used.is(Classes::CLOCK)).hash(&mut hasher);
    hasher.finish()
}

/// Returns the value of an argument, if it is the same each time.
fn argument(arg: &Arg, value: u64) -> Option<u64> {
    if arg.is(Operand::Process) || arg.is(Operand::ProcessGroup) {
        return None;
    }
    match arg.kind {
        // The upper half may be anything.
        ArgKind::Int | ArgKind::Uint | ArgKind::Fd | ArgKind::DirFd | ArgKind::Signal => {
            Some(value & u64::from(u32::MAX))
        }
        ArgKind::Long
        | ArgKind::Ulong
        | ArgKind::Mode
        | ArgKind::Uid
        | ArgKind::Gid
        | ArgKind::Dev
        | ArgKind::Offset
        | ArgKind::Size
        | ArgKind::Flags(_)
        | ArgKind::Enum(_) => Some(value),
        ArgKind::Hex => Some(value).filter(|value| *value < ADDRESSES),
        ArgKind::Address
        | ArgKind::Pid
        | ArgKind::Path
        | ArgKind::Str
        | ArgKind::StrArray
        | ArgKind::Buf(..) => None,
    }
}

/// A result, as far as it is the same each time.
#[derive(Hash)]
enum Came {
    Nothing,
    Error(i32),
    Something,
    Value(i64),
}

fn result(row: Option<&'static Syscall>, call: &Call, by_chance: bool) -> Came {
    let ret = match call.outcome {
        Outcome::Unfinished => return Came::Nothing,
        Outcome::Returned { ret, .. } => ret,
    };
    if let Some(errno) = call.error() {
        return Came::Error(errno);
    }
    let meaning = row.map(|row| row.variant(&call.args).map_or(row.ret, |variant| variant.ret));
    match meaning {
        _ if by_chance => Came::Something,
        Some(Ret::Address | Ret::Pid | Ret::Never) | None => Came::Something,
        Some(Ret::Int | Ret::Size | Ret::Fd | Ret::Offset | Ret::Id | Ret::Mode | Ret::Hex) => {
            Came::Value(ret)
        }
    }
}
