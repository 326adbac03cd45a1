//! Calls that overlapped as they moved bytes through one pipe or socket pair.
//!
//! Who read gets its bytes in turn ([`Planner::order_by_turn`]). In which order two wrote is not told,
//! and must not be guessed: a writer may return long after others have read its bytes, and who waited
//! for it then might wait for ever. So what comes out of a pipe where two wrote proves nothing.

use std::ops::Range;

use super::Planner;
use super::doubts::ALL;
use super::line::Line;
use crate::batch::Proof;
use crate::order::Index;

/// What a call moved through a stream.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    /// Which stream.
    pub queue: u64,
    /// It wrote.
    pub writes: bool,
    /// The place among all bytes that went that way, if that is known: a pipe that was opened again,
    /// or by a name, and a socket do not count.
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
            let mixed = self.doubts.take(queue, flow.stretch());
            if mixed || !others.is_empty() {
                // That who returned first was first is most likely, but not sure.
                for line in others.into_iter().chain([index]) {
                    self.lines[line].prove_only(Proof::Never);
                }
            }
            return;
        }
        let uses = |line: &Line| line.told.flow.is_some_and(|flow| flow.queue == queue);
        let others = self.others_open_that(index, uses);
        let flows = others.iter().filter_map(|other| Some((*other, self.lines[*other].told.flow?)));
        let (writers, readers): (Vec<_>, Vec<_>) = flows.partition(|(_, flow)| flow.writes);
        if writers.is_empty() {
            return;
        }
        let all = writers.iter().map(|(_, theirs)| theirs.stretch());
        let mixed = all.fold(flow.stretch(), |a, b| a.start.min(b.start)..a.end.max(b.end));
        self.doubts.mix(queue, mixed);
        for (reader, theirs) in readers {
            // It began before, and may get what is mixed now.
            if self.doubts.are_mixed(queue, theirs.stretch()) {
                self.lines[reader].prove_only(Proof::Never);
            }
        }
    }
}
