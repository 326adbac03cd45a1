//! What of a call is the same each time a deterministic program runs.

use std::hash::{Hash, Hasher};

use model::contents::is_out;
use model::{Moment, file_use};
use syscalls::record::part;
use syscalls::shape::{Arg, ArgKind, Classes, Operand, Ret, Syscall};
use trace::event::{Call, Content, Outcome};

use crate::mixing::Mixer;
use crate::names::{Kin, Naming};

/// Numbers from here on may be addresses, where nothing says what they are.
const ADDRESSES: u64 = 1 << 32;

/// Returns a hash of a call: its number, its arguments and its result, without addresses, times, ids of
/// processes, and the content of buffers. Of paths the pattern counts, and of lengths what is left when the
/// digits of the process's own id are gone.
pub fn signature(moment: &Moment<'_>, call: &Call, naming: &Naming) -> u64 {
    let mut hasher = Mixer::default();
    call.nr.hash(&mut hasher);
    let used = file_use::of(call.nr);
    let row = syscalls::by_number(call.nr.into());
    // Queues and areas of memory of System V have numbers that are never the same.
    let has_numbers = used.is(Classes::IPC) && !used.is(Classes::DESC);
    let ids = Ids::of(moment, call);
    if let Some(row) = row.filter(|_| !has_numbers) {
        for (number, arg) in row.args_of(&call.args).iter().enumerate() {
            let value = call.args[number.min(5)];
            // Of a read, a length that is asked for says nothing about what comes.
            let taken = if matches!(arg.kind, ArgKind::Size) { ids.given } else { 0 };
            argument(arg, value.saturating_sub(taken)).hash(&mut hasher);
        }
    }
    if !moment.step.paths.is_empty() {
        let kin = Kin::of(moment.world, moment.event.thread);
        for (number, path) in &moment.step.paths {
            (number, naming.pattern_by(path, &kin)).hash(&mut hasher);
        }
    }
    result(row, call, &ids, has_numbers || used.is(Classes::CLOCK)).hash(&mut hasher);
    hasher.finish()
}

/// So many bytes of a call's buffers are ids of the process that makes it, or of one it descends from.
struct Ids {
    /// Of what goes to the kernel.
    given: u64,
    /// Of what comes from there.
    got: u64,
}

impl Ids {
    /// Counts them in buffers so short that the event has them.
    fn of(moment: &Moment<'_>, call: &Call) -> Ids {
        let mut kin = None;
        let mut ids = Ids { given: 0, got: 0 };
        for data in &call.data {
            let Content::Inline(bytes) = &data.content else { continue };
            if !matches!(data.part, part::WHOLE | part::CONTENT)
                || !bytes.iter().any(u8::is_ascii_digit)
            {
                continue;
            }
            let kin = kin.get_or_insert_with(|| Kin::of(moment.world, moment.event.thread));
            let found = kin.bytes_in(bytes);
            if is_out(data) { ids.got += found } else { ids.given += found }
        }
        ids
    }
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

fn result(row: Option<&'static Syscall>, call: &Call, ids: &Ids, by_chance: bool) -> Came {
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
        Some(Ret::Size) => Came::Value(ret.saturating_sub_unsigned(ids.given + ids.got)),
        Some(Ret::Int | Ret::Fd | Ret::Offset | Ret::Id | Ret::Mode | Ret::Hex) => Came::Value(ret),
    }
}
