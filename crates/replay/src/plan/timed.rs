//! Calls that are made for their time alone, where tasks compute as long as the program did.

use syscalls::Replay;
use trace::event::{Call, Event, Outcome};

use super::outside::{self, Kind};
use super::{Planner, REST_MIN_NS};
use crate::batch::What;
use crate::order::Index;
use crate::treatment::{Said, said};

/// What is longer may have waited, whatever it is.
const SHORT_NS: u64 = 100_000;

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
            let call = self.lines[index].batch.calls.len() as u32 - 1;
            self.lines[index].open_what(What::Timed { call, again: 0..0 });
        }
    }

    /// A call is not made, but counts: its thread computes as long before its next one as the call took. What
    /// waits for others does so for the outside (`outside.rs`), or for what is made.
    pub(super) fn take_as_long(&mut self, index: Index, event: &Event, call: &Call) {
        let Outcome::Returned { exit_tsc, .. } = call.outcome else { return };
        // By itself the program reads clocks without a call.
        if said(call).is_some_and(|said| said.replay == Replay::TimedUnlessAside) {
            return;
        }
        let ns = self.shared.ticks_to_ns(exit_tsc.saturating_sub(event.tsc));
        let most = match self.waits_of(event.thread, call) {
            Kind::Works => SHORT_NS,
            Kind::Waits => outside::SHORT_NS,
            Kind::Sleeps => 0,
        };
        if ns < most {
            let line = &mut self.lines[index];
            line.computed_ns = line.computed_ns.saturating_add(ns);
            let answered_ns = &mut self.tally.computed.answered_ns;
            *answered_ns = answered_ns.saturating_add(ns);
        }
    }

    /// Adds a call to the action before, if that makes the same one for its time and nothing has
    /// happened since. To plan each by itself would take longer than the kernel takes for it.
    pub(super) fn once_more(&mut self, index: Index, event: &Event, call: &Call) -> bool {
        let line = &mut self.lines[index];
        let Outcome::Returned { exit_tsc, .. } = call.outcome else { return false };
        if line.opened_at != self.opened
            || line.rested_ns >= REST_MIN_NS
            || self.others_matter()
            || !self.beginnings.is_empty()
            || self.world.has_filters()
            || self.at_hand.describe.is_some()
            || !self.lines[index].makes_again(call, exit_tsc)
        {
            return false;
        }
        self.lines[index].last_enter = event.tsc;
        let ns = self.shared.ticks_to_ns(exit_tsc.saturating_sub(event.tsc));
        self.tally.recorded.of(call.nr).record(ns);
        self.count_simulated();
        true
    }
}
