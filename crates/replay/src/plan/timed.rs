//! Calls that are made for their time alone, where tasks compute as long as the program did.

use syscalls::Replay;
use trace::event::{Call, Event};

use super::Planner;
use crate::batch::What;
use crate::order::Index;
use crate::treatment::Said;

impl Planner<'_> {
    /// Whether such a call is made.
    pub(super) fn is_timed(&self, replay: Replay) -> bool {
        let computes = self.shared.options.computes;
        match replay {
            Replay::Timed => computes,
            Replay::TimedUnlessAside => computes && !self.asks_instead,
            _ => false,
        }
    }

    /// Plans it. Its result is the recorded one.
    pub(super) fn for_its_time(
        &mut self,
        index: Index,
        event: &Event,
        call: &Call,
        said: &Said,
        times: (u64, i64),
    ) {
        self.count_simulated();
        if self.again_for_itself(index, event, call, said, times) {
            let at = self.lines[index].batch.calls.len() as u32 - 1;
            self.lines[index].open_what(What::Timed(at));
        }
    }
}
