//! Descriptors closed or opened by threads while another thread of their process forks.
//!
//! The kernel copies the table somewhere between the start of the clone and the child's first
//! event. The replay copies it at the start: overlapping calls wait for the copy, unless an event
//! before the copy may depend on them. Numbers that were being closed meanwhile are then closed in
//! the child as well, unless its own calls show that it had them: an extra pipe end could block a
//! reader forever, a missing one blocks nothing.
//!
//! Also, a call that got a number which an overlapping call closed is ordered after the close.

use std::collections::HashMap;
use std::sync::Arc;

use model::{DescriptorTable, Step};
use syscalls::abi::errno::{self, EBADF};
use syscalls::abi::tasks::CLONE_FILES;
use syscalls::{Arg, Kind, Operand, Ret};
use trace::Trace;
use trace::event::{Call, Event, EventKind, Outcome};

use super::Planner;
use crate::batch::What;
use crate::order::Index;
use crate::treatment::{is_stream, said};

/// Most clones in progress at the same time.
const COPIES_MAX: usize = 1024;
/// Most contested numbers of one child.
const CONTESTED_MAX: usize = 1024;
/// Most events of a child that are examined.
const TELLING_EVENTS: usize = 4096;

/// A number that was being closed while a child copied it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contested {
    fd: i32,
    close_on_exec: bool,
}

/// What a call does to the numbers of its descriptor table.
#[derive(Debug, Default)]
pub struct Numbers {
    closes: Vec<Contested>,
    gives: Vec<i32>,
    /// It creates an end of a pipe or of something similar.
    stream: bool,
    /// The order's clock when it began.
    began: u64,
}

impl Numbers {
    /// Whether it matters if a copy of the table is made before or after it.
    fn concern_copies(&self) -> bool {
        self.stream || !self.closes.is_empty()
    }

    /// Whether it creates a number that the other call closes.
    fn take_over(&self, other: &Numbers) -> bool {
        self.gives.iter().any(|fd| other.closes.iter().any(|number| number.fd == *fd))
    }

    /// Effects of a call, computed before they are applied; `None` if there are none.
    pub fn of(step: &Step, table: &DescriptorTable) -> Option<Numbers> {
        if !step.changes() {
            return None;
        }
        // Replacing a descriptor closes the old one.
        let replaces = step.gives().map(|(fd, _)| (fd as u32, fd as u32));
        let closes = step
            .closes()
            .chain(replaces)
            .flat_map(|(first, last)| table.within(first, last))
            .take(CONTESTED_MAX)
            .map(|(fd, entry)| Contested { fd, close_on_exec: entry.close_on_exec })
            .collect::<Vec<_>>();
        let gives: Vec<i32> = step.gives().map(|(fd, _)| fd).collect();
        let any = !(closes.is_empty() && gives.is_empty());
        let stream = step.gives().any(|(_, entry)| is_stream(&entry.description));
        any.then_some(Numbers { closes, gives, stream, began: 0 })
    }
}

/// Unfinished clones that copy descriptors, and whose child has not shown up.
#[derive(Default)]
pub struct Copies {
    under_way: Vec<Copy>,
    /// Index of each thread's first block, until it was examined.
    firsts: Option<HashMap<u32, usize>>,
}

#[derive(Clone, Copy)]
struct Copy {
    maker: Index,
    child: Index,
    /// Index of the clone among its maker's actions.
    count: u64,
    /// When the clone returns.
    until: u64,
}

impl Copies {
    /// Forgets a lane, which is reused for another task.
    pub fn forget(&mut self, index: Index) {
        self.under_way.retain(|copy| copy.maker != index && copy.child != index);
    }

    /// The child has its copy.
    pub fn made(&mut self, child: Index) {
        self.under_way.retain(|copy| copy.child != child);
    }

    /// Returns the events of a thread's first block, after its beginning. Only once per thread, so
    /// that a trace cannot make us unpack the same block again and again.
    fn events_of(&mut self, trace: &Trace, thread: u32) -> impl Iterator<Item = Event> {
        let firsts = self.firsts.get_or_insert_with(|| {
            let mut firsts = HashMap::new();
            for (at, head) in trace.blocks().iter().enumerate() {
                if head.kind == trace::format::kind::EVENTS {
                    firsts.entry(head.thread).or_insert(at);
                }
            }
            firsts
        });
        let head = firsts.remove(&thread).and_then(|at| trace.blocks().get(at));
        let block = head.and_then(|head| trace.decode_block(head).ok());
        block.into_iter().flatten().map_while(Result::ok).take(TELLING_EVENTS)
    }
}

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
        let copy = Copy { maker, child, count: self.lines[maker].count, until };
        self.copies.under_way.push(copy);
        for other in self.others_open(maker) {
            let Some(mut numbers) = self.lines[other].numbers.take() else { continue };
            if numbers.concern_copies() && self.share_numbers(maker, other) {
                // A number that was reused meanwhile is another descriptor, which the child has.
                if let Some(table) = self.world.descriptors(event.thread) {
                    numbers.closes.retain(|number| table.get(number.fd).is_none());
                }
                // What ended since the close began may depend on it, and so may the copy.
                if numbers.began == self.order.clock() {
                    self.wait_for_copy(other, copy);
                }
                self.contend(&numbers, copy);
            }
            self.lines[other].numbers = Some(numbers);
        }
    }

    fn share_numbers(&self, a: Index, b: Index) -> bool {
        self.lines[a].process == self.lines[b].process
    }

    /// Orders the lane's open action by what it does to its descriptor table.
    pub(super) fn order_by_numbers(&mut self, index: Index, numbers: Option<Numbers>, tsc: u64) {
        let Some(numbers) = numbers else { return };
        for other in self.others_open(index) {
            let Some(theirs) = &self.lines[other].numbers else { continue };
            let (first, second) = (theirs.take_over(&numbers), numbers.take_over(theirs));
            if !self.share_numbers(index, other) {
                continue;
            }
            // A number is reused only after it was closed, however early the call began.
            if first && !second {
                self.follow(other, index);
            } else if second && !first {
                self.follow(index, other);
            }
        }
        self.copies.under_way.retain(|copy| copy.until > tsc);
        for copy in self.copies.under_way.clone() {
            if copy.maker != index
                && numbers.concern_copies()
                && self.share_numbers(copy.maker, index)
            {
                self.wait_for_copy(index, copy);
                self.contend(&numbers, copy);
            }
        }
        self.lines[index].numbers = Some(Numbers { began: self.order.clock(), ..numbers });
    }

    /// The lane's open action waits for a copy of its descriptors.
    fn wait_for_copy(&mut self, index: Index, copy: Copy) {
        let wait = (Arc::clone(&self.lines[copy.maker].lane), copy.count);
        self.follow_recent(index, wait);
    }

    /// It is uncertain whether the child has these numbers.
    fn contend(&mut self, numbers: &Numbers, copy: Copy) {
        let contested = &mut self.lines[copy.child].contested;
        let room = CONTESTED_MAX.saturating_sub(contested.len());
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

/// Whether a child's call shows that it had a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    Had,
    NotHad,
}

/// Returns those of the numbers that the child's first events do not show it to have.
fn not_had(mut open: Vec<Contested>, events: impl Iterator<Item = Event>) -> Vec<i32> {
    let mut gone = Vec::new();
    for event in events {
        let mut decide = |fd: i32, shown: Option<Shown>| {
            gone.extend((shown == Some(Shown::NotHad)).then_some(fd));
            shown.is_none()
        };
        match &event.kind {
            EventKind::Call(call) => {
                open.retain(|number| decide(number.fd, shows(call, number.fd)))
            }
            // An exec closes the close-on-exec numbers; the new program may use the rest.
            EventKind::Image { .. } => open
                .retain(|number| decide(number.fd, number.close_on_exec.then_some(Shown::NotHad))),
            _ => {}
        }
        if open.is_empty() {
            break;
        }
    }
    gone.extend(open.iter().map(|number| number.fd));
    gone.sort_unstable();
    gone.dedup();
    gone
}

fn shows(call: &Call, fd: i32) -> Option<Shown> {
    let Outcome::Returned { ret, .. } = call.outcome else { return None };
    let said = said(call)?;
    let uses = |(arg, value): (&Arg, u64)| {
        matches!(arg.kind, Kind::Fd) && !arg.is(Operand::NewNumber) && value as i32 == fd
    };
    if said.args.iter().zip(call.args).any(uses) {
        return match ret {
            0.. => Some(Shown::Had),
            _ if errno::of_result(ret) == Some(EBADF) => Some(Shown::NotHad),
            _ => None,
        };
    }
    // An open takes the lowest free number.
    let opens = said.args.iter().any(|arg| matches!(arg.kind, Kind::Path));
    match said.ret {
        Ret::Fd if ret == i64::from(fd) => Some(Shown::NotHad),
        Ret::Fd if opens && ret > i64::from(fd) => Some(Shown::Had),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::tests::recording::Recording;

    /// Returns which of the numbers 5 (close-on-exec) and 6 a child that makes these calls closes.
    fn gone(calls: impl FnOnce(&mut Recording)) -> Vec<i32> {
        let mut recording = Recording::new("/");
        calls(&mut recording);
        let contested = [(5, true), (6, false)];
        let contested = contested.map(|(fd, close_on_exec)| Contested { fd, close_on_exec });
        not_had(contested.to_vec(), recording.events())
    }

    #[test]
    fn what_a_child_uses_it_had() {
        const EBADF: i64 = -9;
        assert_eq!(gone(|_| {}), [5, 6], "nothing tells");
        assert_eq!(gone(|r| r.numbers("close", &[5], 0)), [6]);
        assert_eq!(gone(|r| r.numbers("close", &[6], EBADF)), [5, 6]);
        assert_eq!(gone(|r| r.write(6, b"x")), [5]);
        assert_eq!(gone(|r| r.numbers("dup2", &[6, 1], 1)), [5]);
        assert_eq!(gone(|r| r.numbers("dup2", &[1, 6], 6)), [5, 6], "whatever it was");
    }

    #[test]
    fn what_a_child_opens_takes_the_lowest_free_number() {
        let opens = |number| {
            gone(|r| {
                r.open("f", 0, number);
            })
        };
        assert_eq!(opens(5), [5, 6], "6 is not told");
        assert_eq!(opens(6), [6], "5 was in use");
        assert!(opens(7).is_empty());
    }

    #[test]
    fn another_program_uses_only_what_was_not_closed() {
        let after = |number| {
            gone(|r| {
                r.another_program();
                r.numbers("close", &[number], 0);
            })
        };
        assert_eq!(after(6), [5]);
        assert_eq!(after(5), [5, 6], "that is another one");
    }
}
