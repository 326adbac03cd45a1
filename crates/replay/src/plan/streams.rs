//! Calls that overlapped as they moved bytes through one pipe or socket pair.
//!
//! Who read gets its bytes in turn ([`Planner::order_by_turn`]). In which order two wrote is not told,
//! and must not be guessed: a writer may return long after others have read its bytes, and who waited
//! for it then might wait for ever. So what comes out of a pipe where two wrote proves nothing.

use std::ops::Range;

use super::Planner;
use super::doubts::ALL;
use crate::batch::Proof;
use crate::order::Index;

/// What a call moved through a stream.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    /// Which stream.
    pub queue: u64,
    /// It wrote.
    pub writes: bool,
    /// The place among all bytes that went that way, if that is known.
    pub at: Option<u64>,
    /// How many bytes.
    pub len: u64,
}

impl Flow {
    fn stretch(&self) -> Range<u64> {
        self.at.map_or(ALL, |at| at..at.saturating_add(self.len))
    }
}

impl Planner<'_> {
    /// Has a call that moved bytes through a stream take its turn among those that are open, and takes
    /// note of what that leaves in doubt.
    pub(super) fn order_by_stream(&mut self, index: Index, flow: Flow) {
        let Flow { queue, writes, .. } = flow;
        self.lines[index].told.flow = Some(flow);
        if flow.at.is_none() {
            self.doubts.lose(queue);
        }
        if !writes {
            let others = self.order_by_turn(index, Some(queue));
            if !others.is_empty() || self.doubts.are_about(queue, flow.stretch()) {
                // That who returned first was first is most likely, but not sure.
                for line in others.into_iter().chain([index]) {
                    self.lines[line].prove_only(Proof::Never);
                }
            }
            return;
        }
        let of = |planner: &Self, other: Index, wrote: bool| {
            let flow = planner.lines[other].told.flow;
            flow.filter(|flow| flow.queue == queue && flow.writes == wrote)
        };
        let others = self.others_open(index);
        let mut mixed: Option<Range<u64>> = None;
        for theirs in others.iter().filter_map(|other| of(self, *other, true)) {
            let (a, b) = (mixed.unwrap_or(flow.stretch()), theirs.stretch());
            mixed = Some(a.start.min(b.start)..a.end.max(b.end));
        }
        let Some(mixed) = mixed else { return };
        self.doubts.mix(queue, mixed);
        for other in others {
            // Who reads began before, and may get what is mixed now.
            if let Some(theirs) = of(self, other, false)
                && self.doubts.are_about(queue, theirs.stretch())
            {
                self.lines[other].prove_only(Proof::Never);
            }
        }
    }
}
