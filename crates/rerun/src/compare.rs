//! Compares a call with the recorded one.

use model::Contents;
use model::contents::{is_fault, is_out};
use syscalls::Syscall;
use trace::event::Call;

use crate::buffers::Places;
use crate::divergence::{Ending, Reason, SHOWN_MAX, diverged, unreachable};
use crate::memory::Memory;

/// Maximum size of a buffer that is compared or given.
const BUFFER_MAX: usize = 1 << 31;

/// What was compared.
#[derive(Clone, Copy, Default, Debug)]
pub struct Counts {
    /// Bytes that went in.
    pub compared: u64,
    /// Buffers of which the trace holds only a part.
    pub not_compared: u64,
    /// Processes that died of a fault, of which could not be seen how they died here.
    pub ends_unseen: u64,
}

/// Compares the arguments.
pub(crate) fn arguments(
    call: &Call,
    row: Option<&'static Syscall>,
    args: &[u64; 6],
) -> Result<(), Reason> {
    for (number, (expected, found)) in call.args.iter().zip(args).enumerate() {
        if number < usize::from(call.nargs) && expected != found {
            let names = row.map(|row| row.args_of(&call.args)).unwrap_or_default();
            return Err(Reason::Argument {
                name: row.map_or("", |row| row.name),
                argument: names.get(number).map_or("an argument", |arg| arg.name),
                expected: *expected,
                found: *found,
            });
        }
    }
    Ok(())
}

/// Compares what goes in.
pub(crate) fn memory(
    counts: &mut Counts,
    call: &Call,
    row: Option<&'static Syscall>,
    memory: Memory,
    contents: &mut dyn Contents,
) -> Result<(), Problem> {
    let mut places = Places::new(call.nr, call.args, memory);
    for data in call.data.iter().filter(|data| !is_out(data)) {
        if is_fault(data) && data.content.is_empty() {
            continue;
        }
        let Some(at) = places.of(data, false).map_err(Problem::Memory)? else { continue };
        if data.content.len() < data.true_len {
            counts.not_compared += 1;
        }
        let names = row.map(|row| row.args_of(&call.args)).unwrap_or_default();
        let argument = names.get(usize::from(data.arg));
        let most = argument.map_or(BUFFER_MAX, |arg| arg.goes_in(BUFFER_MAX));
        let expected = contents.read(&data.content, most).map_err(Problem::Trace)?;
        let found = memory.read(at, expected.len()).map_err(Problem::Memory)?;
        counts.compared += expected.len() as u64;
        let differs = expected.iter().zip(&found).position(|(a, b)| a != b);
        if let Some(first) = differs {
            let piece = |all: &[u8]| all[first..].iter().take(SHOWN_MAX).copied().collect();
            return Err(Problem::Reason(Reason::Bytes {
                name: row.map_or("", |row| row.name),
                argument: argument.map_or("an argument", |arg| arg.name),
                at: first,
                expected: piece(&expected),
                found: piece(&found),
            }));
        }
    }
    Ok(())
}

/// Returns what came out, and where.
pub(crate) fn outputs(
    call: &Call,
    memory: Memory,
    contents: &mut dyn Contents,
) -> Result<Vec<(u64, Vec<u8>)>, Problem> {
    let mut places = Places::new(call.nr, call.args, memory);
    let (mut all, mut left) = (Vec::new(), BUFFER_MAX);
    for data in call.data.iter().filter(|data| is_out(data)) {
        let Some(at) = places.of(data, true).map_err(Problem::Memory)? else { continue };
        let bytes = contents.read(&data.content, left).map_err(Problem::Trace)?;
        if (bytes.len() as u64) < data.content.len() {
            return Err(Problem::Trace("a call has more data than calls can have".into()));
        }
        left -= bytes.len();
        all.push((at, bytes));
    }
    Ok(all)
}

/// What is wrong with the memory of a call.
pub(crate) enum Problem {
    Memory(std::io::Error),
    Trace(String),
    Reason(Reason),
}

impl Problem {
    pub fn ending(self, seq: Option<u64>, thread: u32) -> Ending {
        match self {
            Problem::Memory(error) => unreachable(seq, thread, &error),
            Problem::Trace(text) => Ending::Failed(text),
            Problem::Reason(reason) => diverged(seq, thread, reason),
        }
    }
}
