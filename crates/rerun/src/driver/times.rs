//! What the parts of a re-execution take.

use std::mem::offset_of;

use ring::{Reply, Standing};
use syscalls::{Act, Ret, Syscall};
use trace::event::{Call, Outcome};

use super::Driver;
use crate::divergence::{Ending, unreachable};
use crate::memory::Memory;
use crate::pace::Step;
use crate::timeline::{self, Times};

impl Driver<'_> {
    /// What it took.
    pub fn times(&self) -> Times {
        self.pace.times()
    }

    /// A thread has come to a call: notes what it has computed.
    pub(super) fn note_computed(
        &mut self,
        recorded: u32,
        memory: Memory,
        reply_at: u64,
        known_ns: Option<u64>,
    ) -> Result<(), Ending> {
        let at = reply_at.wrapping_add(offset_of!(Reply, stood) as u64);
        let bytes = memory
            .read(at, size_of::<[Standing; 2]>())
            .map_err(|error| unreachable(None, recorded, &error))?;
        let word = |at: usize| {
            let bytes = bytes.get(8 * at..8 * at + 8).and_then(|bytes| bytes.first_chunk());
            bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes))
        };
        let standing = |from: usize| Standing {
            tsc: word(from),
            cpu_ns: word(from + 1),
            waits: word(from + 2),
            put_off: word(from + 3),
            faults: word(from + 4),
        };
        let stood = [standing(0), standing(size_of::<Standing>() / 8)];
        self.note(Step::Computed { thread: recorded, stood, known_ns })
    }

    /// A call is as recorded, and begins.
    pub(super) fn note_call(
        &mut self,
        (thread, enter): (u32, u64),
        seq: Option<u64>,
        call: &Call,
        row: Option<&Syscall>,
    ) -> Result<(), Ending> {
        let Some(seq) = seq else { return Ok(()) };
        let exit = match call.outcome {
            Outcome::Returned { exit_tsc, .. } => Some(exit_tsc),
            Outcome::Unfinished => None,
        };
        self.pace.begin(seq);
        self.note(Step::Call { thread, seq, enter, exit, kind: timeline::kind(row, &call.args) })?;
        let ends = |row: &Syscall| row.ret == Ret::Never && row.act_of(&call.args) != Act::Execute;
        if row.is_some_and(ends) {
            self.note(Step::End { thread })?;
        }
        Ok(())
    }

    pub(super) fn note(&mut self, step: Step) -> Result<(), Ending> {
        self.pace.add(step).map_err(Ending::Failed)
    }
}
