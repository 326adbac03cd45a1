//! Orders forks and the calls that change the descriptor table which they copy (`copies.rs`), and
//! calls that change one table.

use std::sync::Arc;

use syscalls::abi::tasks::CLONE_FILES;
use trace::event::Event;

use super::Planner;
use super::claims::numbers::{CLOSED_MAX, Numbers};
use super::conflict::{Leaves, Overlap};
use super::copies::{COPIES_MAX, Copy, not_had};
use crate::batch::What;
use crate::order::Index;

impl Planner<'_> {
    /// A lane creates a task, which copies the descriptors unless it shares them.
    pub(super) fn begin_copy(
        &mut self,
        (maker, child): (Index, Index),
        flags: u64,
        event: &Event,
        until: u64,
    ) {
        if flags & CLONE_FILES != 0 || !self.others_matter() {
            return;
        }
        self.copies.under_way.retain(|copy| copy.until > event.tsc && copy.maker != maker);
        if self.copies.under_way.len() == COPIES_MAX {
            self.copies.under_way.remove(0);
        }
        let copy = Copy { maker, child, count: self.lines[maker].count, until, is_made: false };
        self.copies.under_way.push(copy);
        let Some(rule) = self.rules.of(Overlap::ForkedAndChanged) else { return };
        let process = self.lines[maker].process;
        for other in self.others_open_that(maker, |line| line.process == process) {
            let Some(mut numbers) = self.lines[other].claims.numbers.take() else { continue };
            // A number that was reused meanwhile is another descriptor, which the child has.
            if let Some(table) = self.world.descriptors(event.thread) {
                numbers.closes.retain(|number| table.get(number.fd).is_none());
            }
            // What ended since the close began may depend on it, and so may the copy.
            if numbers.began == self.order.clock() {
                self.wait_for_copy(other, copy);
            }
            if rule.leaves == Leaves::Numbers {
                self.contend(&numbers, copy);
            }
            self.lines[other].claims.numbers = Some(numbers);
        }
    }

    /// Orders the lane's open action by what it does to its descriptor table.
    pub(super) fn order_by_numbers(&mut self, index: Index, numbers: Option<Numbers>, tsc: u64) {
        let Some(numbers) = numbers else { return };
        self.order_by_uses(index, &numbers);
        let process = self.lines[index].process;
        for other in self.others_open_that(index, |line| line.process == process) {
            let Some(theirs) = &self.lines[other].claims.numbers else { continue };
            // A number is opened again only after it was closed, however early the call began.
            let (one, other) = match (theirs.take_over(&numbers), numbers.take_over(theirs)) {
                (true, false) => (index, other),
                (false, true) => (other, index),
                _ => continue,
            };
            if let Some(rule) = self.rules.of(Overlap::ClosedAndOpened) {
                self.follow_rule(rule, one, other);
            }
        }
        self.copies.under_way.retain(|copy| copy.until > tsc);
        if let Some(rule) = self.rules.of(Overlap::ForkedAndChanged) {
            for copy in self.copies.under_way.clone() {
                if copy.maker != index && self.lines[copy.maker].process == process {
                    self.wait_for_copy(index, copy);
                    if rule.leaves == Leaves::Numbers && !copy.is_made {
                        self.contend(&numbers, copy);
                    }
                }
            }
        }
        self.lines[index].claims.numbers = Some(Numbers { began: self.order.clock(), ..numbers });
    }

    /// The lane's open action waits for a copy of its descriptors.
    fn wait_for_copy(&mut self, index: Index, copy: Copy) {
        let wait = (Arc::clone(&self.lines[copy.maker].lane), copy.count);
        self.follow_recent(index, wait);
    }

    /// It is uncertain whether the child has these numbers.
    fn contend(&mut self, numbers: &Numbers, copy: Copy) {
        let contested = &mut self.lines[copy.child].contested;
        let room = CLOSED_MAX.saturating_sub(contested.len());
        contested.extend(numbers.closes.iter().take(room));
    }

    /// When a child shows up, closes the contested numbers that it did not have.
    pub(super) fn settle_copies(&mut self, index: Index, event: &Event) {
        self.copies.made(index);
        let contested = std::mem::take(&mut self.lines[index].contested);
        if contested.is_empty() {
            return;
        }
        let events = self.copies.events_of(self.trace, event.thread);
        let gone = not_had(contested, events);
        if gone.is_empty() {
            return;
        }
        let seen = self.order.seen(index);
        self.open_action(index, event.tsc, event.tsc).what = What::Close(gone.into());
        // Readers of a pipe may wait for this close, so it waits for nothing; the next action will.
        self.lines[index].wait_for_nobody();
        self.order.set_seen(index, seen);
        self.settle(index);
    }
}
