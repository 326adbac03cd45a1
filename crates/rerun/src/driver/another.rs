//! What a call stores in the memory of another process.

use model::Moment;
use syscalls::layout;
use syscalls::shape::{Arg, ArgKind, Dir, Of};
use syscalls::{Again, Syscall};
use trace::event::Call;

use super::Driver;
use crate::divergence::{Ending, unreachable};
use crate::live::Birth;
use crate::memory::Memory;

/// Size of an iovec, and the most that a call takes.
const VECTOR: u64 = 16;
const VECTOR_MAX: u64 = 1024;
/// Maximum number of bytes that are moved at a time.
const PIECE: u64 = 1 << 20;

impl Driver<'_> {
    /// Stores what went in, as far as the call did. Processes that were not recorded are not here.
    pub(super) fn give_to_another(
        &self,
        moment: &Moment<'_>,
        call: &Call,
        row: &Syscall,
        (from, ret): (Memory, i64),
    ) -> Result<(), Ending> {
        if row.again_of(&call.args) != Again::GivenToAnother || ret <= 0 {
            return Ok(());
        }
        let args = row.args_of(&call.args);
        let place = |is_it: fn(&Arg) -> bool| args.iter().position(is_it);
        let whom = place(|arg| matches!(arg.kind, ArgKind::Pid));
        let source = place(|arg| matches!(arg.kind, ArgKind::Buf(Dir::In, Of::Iovec, _)));
        let target = place(|arg| arg.points_to(&layout::IOVEC));
        let (Some(whom), Some(source), Some(target)) = (whom, source, target) else {
            return Ok(());
        };
        let Some(to) = self.process_of(moment, call.args[whom]) else { return Ok(()) };
        let move_it = || {
            let [sources, targets] = [source, target].map(|at| {
                let count = call.args.get(at + 1).copied().unwrap_or(0).min(VECTOR_MAX);
                vector(from, call.args[at], count)
            });
            store((from, &sources?), (to, &targets?), ret.unsigned_abs())
        };
        move_it().map_err(|error| unreachable(moment.seq, moment.event.thread, &error))
    }

    /// A thread of the process that has this id in the recording, or of which a thread has it.
    fn process_of(&self, moment: &Moment<'_>, id: u64) -> Option<Memory> {
        let has_id = |recorded: u32| {
            let (pid, tid) = moment.world.ids(recorded)?;
            (u64::from(pid) == id || u64::from(tid) == id).then_some(())
        };
        let mut found = self.numbers.iter().filter(|(recorded, _)| has_id(**recorded).is_some());
        let known = found.find_map(|(_, thread)| Some(self.threads.get(thread)?.tid));
        // It may have been made, and not have begun.
        let births = || self.threads.values().flat_map(|live| &live.births);
        let is_it = |birth: &&Birth| u64::try_from(birth.recorded) == Ok(id);
        let made = || births().find(is_it).and_then(|birth| birth.tid);
        known.or_else(made).map(|tid| Memory { tid })
    }
}

/// The ranges of a vector.
fn vector(memory: Memory, at: u64, count: u64) -> std::io::Result<Vec<[u64; 2]>> {
    let bytes = memory.read(at, (count * VECTOR) as usize)?;
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap_or_default());
    Ok(bytes.chunks_exact(VECTOR as usize).map(|one| [word(&one[..8]), word(&one[8..])]).collect())
}

/// Copies bytes from ranges of one memory to those of another one.
fn store(
    (from, sources): (Memory, &[[u64; 2]]),
    (to, targets): (Memory, &[[u64; 2]]),
    mut left: u64,
) -> std::io::Result<()> {
    let (mut sources, mut targets) = (sources.iter().copied(), targets.iter().copied());
    let (mut source, mut target) = ([0, 0], [0, 0]);
    while left > 0 {
        for (range, more) in [(&mut source, &mut sources), (&mut target, &mut targets)] {
            while range[1] == 0 {
                let Some(next) = more.next() else { return Ok(()) };
                *range = next;
            }
        }
        let len = source[1].min(target[1]).min(left).min(PIECE);
        to.give(target[0], &from.read(source[0], len as usize)?)?;
        for range in [&mut source, &mut target] {
            *range = [range[0].wrapping_add(len), range[1] - len];
        }
        left -= len;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_filled_one_after_the_other() {
        let own = Memory { tid: std::process::id().cast_signed() };
        let (a, b) = (*b"abcdefgh", *b"ijkl");
        let (mut one, mut other) = ([0u8; 3], [0u8; 12]);
        let sources = [[a.as_ptr() as u64, 8], [0, 0], [b.as_ptr() as u64, 4]];
        let targets = [[one.as_mut_ptr() as u64, 3], [other.as_mut_ptr() as u64, 12]];
        store((own, &sources), (own, &targets), 10).unwrap();
        assert_eq!(std::hint::black_box(one), *b"abc");
        assert_eq!(std::hint::black_box(other), *b"defghij\0\0\0\0\0");
        assert!(vector(own, sources.as_ptr() as u64, 3).unwrap() == sources);
    }
}
