//! Calls that are made for their time alone.

use super::Actor;
use crate::batch::{Action, Batch, Call};
use crate::clock;
use crate::log::Came;
use crate::outcome::shown;

impl Actor<'_> {
    /// Makes a call for its time: what comes out is of this task, and proves nothing.
    pub(super) fn for_its_time(&mut self, batch: &Batch, action: &Action, call: &Call) {
        let (_, ticks) = self.make_anew(batch, action, call);
        if !self.maker.short {
            self.lane.counts.timed.add(1);
            self.tally.latencies.of(call.nr).record(clock::to_ns(ticks));
        }
        self.tell(action, Came::Simulated, || {
            ["made for its time".into(), shown(call.ret), String::new()]
        });
    }

    /// Makes that call again and again, each time after this computation.
    pub(super) fn again_for_its_time(&mut self, call: &Call, computes: &[u64]) {
        for ns in computes {
            let begin = self.compute(*ns);
            if self.maker.short || self.shared.stopping() {
                return;
            }
            self.maker.make_again(call);
            self.ended_at = clock::ticks();
            let ticks = self.ended_at.wrapping_sub(begin);
            self.lane.counts.timed.add(1);
            self.tally.latencies.of(call.nr).record(clock::to_ns(ticks));
        }
    }
}
