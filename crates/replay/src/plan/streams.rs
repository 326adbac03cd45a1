//! Overlapping calls that move bytes through one pipe or socket pair.
//!
//! Readers get their bytes in order ([`Planner::order_by_turn`]). The order of two writers is
//! unknown and must not be guessed: a writer may return long after others have read its bytes, and
//! a task that waited for it could deadlock. So bytes from a pipe that two calls wrote at once
//! prove nothing.

use std::ops::Range;

use super::Planner;
use super::doubts::ALL;
use super::line::Line;
use crate::batch::Proof;
use crate::order::Index;

/// Bytes that a call moved through a stream.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    /// Number of the stream.
    pub queue: u64,
    /// Whether it wrote.
    pub writes: bool,
    /// Offset among all bytes in that direction. Unknown for sockets and for pipes that were opened
    /// by a name or again.
    pub at: Option<u64>,
    /// Number of bytes.
    pub len: u64,
}

impl Flow {
    fn stretch(&self) -> Range<u64> {
        self.at.map_or(ALL, |at| at..at.saturating_add(self.len))
    }
}

impl Planner<'_> {
    /// Orders a call on a stream among the open ones, and notes which bytes that leaves in doubt.
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
                // The order of return is likely the order of reading, but not certainly.
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
            // It began before, and may get bytes that are mixed now.
            if self.doubts.are_mixed(queue, theirs.stretch()) {
                self.lines[reader].prove_only(Proof::Never);
            }
        }
    }
}
