//! Calls that are made for their time alone.

use super::Actor;
use crate::batch::{Action, Batch, Call};
use crate::clock;
use crate::log::Came;
use crate::outcome::shown;

impl Actor<'_> {
    /// Makes a call for its time: what comes out is of this task, and proves nothing.
    pub(super) fn for_its_time(&mut self, batch: &Batch, action: &Action, call: &Call) {
        let (_, ticks) = self.make(batch, action, call);
        if !self.maker.short {
            self.lane.counts.timed.add(1);
            self.tally.latencies.of(call.nr).record(clock::to_ns(ticks));
        }
        self.tell(action, Came::Simulated, || {
            ["made for its time".into(), shown(call.ret), String::new()]
        });
    }
}
