//! Descriptors that threads close or make while another thread of theirs makes a process.
//!
//! The kernel copies the table somewhere between the beginning of the clone and the child's first
//! event. The replay copies it as it was at the beginning: what overlaps waits for the copy, unless
//! it may have been the cause of something that came before. Numbers that were being closed meanwhile
//! are then closed in the child as well, unless its own calls show that it had them: an end of a pipe
//! too many would keep a reader waiting for ever, one too few keeps nobody.
//!
//! And who got a number that another thread closed got it after that.

use std::collections::HashMap;
use std::sync::Arc;

use events::{Arg, Kind, Ret};
use model::{DescriptorTable, Step};
use trace::Trace;
use trace::event::{Call, Event, EventKind, Outcome};

use super::Planner;
use crate::batch::What;
use crate::order::Index;
use crate::treatment::{is_stream, said};

const CLONE_FILES: u64 = 0x400;

/// Clones that are under way at the same time.
const COPIES_MAX: usize = 1024;
/// Numbers of one child that were being closed.
const CONTESTED_MAX: usize = 1024;
/// Events of a child that are looked at.
const TELLING_EVENTS: usize = 4096;

/// A number that was being closed while a child copied it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contested {
    fd: i32,
    close_on_exec: bool,
}

/// What a call does to the numbers of its table.
#[derive(Debug, Default)]
pub struct Numbers {
    closes: Vec<Contested>,
    gives: Vec<i32>,
    /// It gives an end of a pipe, or of something like it.
    stream: bool,
    /// The clock of the order when it began.
    began: u64,
}

impl Numbers {
    /// Whether a copy of the table depends on it.
    fn concern_copies(&self) -> bool {
        self.stream || !self.closes.is_empty()
    }

    /// Whether it gives a number that the other one closes.
    fn take_over(&self, other: &Numbers) -> bool {
        self.gives.iter().any(|fd| other.closes.iter().any(|number| number.fd == *fd))
    }

    /// Of a call, before it is done; `None` if it does nothing to them.
    pub fn of(step: &Step, table: &DescriptorTable) -> Option<Numbers> {
        if !step.changes() {
            return None;
        }
        // What is put in the place of another one closes that.
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

/// Clones that copy descriptors and have not returned, and whose child has not shown up.
#[derive(Default)]
pub struct Copies {
    under_way: Vec<Copy>,
    /// Where each thread's first block is, until it was looked at.
    firsts: Option<HashMap<u32, usize>>,
}

#[derive(Clone, Copy)]
struct Copy {
    maker: Index,
    child: Index,
    /// The place of the clone among its maker's actions.
    count: u64,
    /// When it returns.
    until: u64,
}

impl Copies {
    /// A lane is another task's.
    pub fn forget(&mut self, index: Index) {
        self.under_way.retain(|copy| copy.maker != index && copy.child != index);
    }

    /// The child has its copies.
    pub fn made(&mut self, child: Index) {
        self.under_way.retain(|copy| copy.child != child);
    }

    /// The events of a thread's first block, after its beginning. Each is given once: a trace must
    /// not have the same block unpacked again and again.
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
    /// A lane has made a task, which copies the descriptors unless it shares them.
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
                // What has been given again meanwhile is another one, which the child has.
                if let Some(table) = self.world.descriptors(event.thread) {
                    numbers.closes.retain(|number| table.get(number.fd).is_none());
                }
                // What ended since it began may be a consequence of it: then the copy is one, too.
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

    /// What a lane has opened does this to the numbers of its table.
    pub(super) fn order_by_numbers(&mut self, index: Index, numbers: Option<Numbers>, tsc: u64) {
        let Some(numbers) = numbers else { return };
        for other in self.others_open(index) {
            let Some(theirs) = &self.lines[other].numbers else { continue };
            let (first, second) = (theirs.take_over(&numbers), numbers.take_over(theirs));
            if !self.share_numbers(index, other) {
                continue;
            }
            // Who got a number got it after it was closed, however early he had asked.
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

    /// What a lane has open waits for a copy of its descriptors.
    fn wait_for_copy(&mut self, index: Index, copy: Copy) {
        let wait = (Arc::clone(&self.lines[copy.maker].lane), copy.count);
        self.follow_recent(index, wait);
    }

    /// The child may have these numbers, or not.
    fn contend(&mut self, numbers: &Numbers, copy: Copy) {
        let contested = &mut self.lines[copy.child].contested;
        let room = CONTESTED_MAX.saturating_sub(contested.len());
        contested.extend(numbers.closes.iter().take(room));
    }

    /// A child shows up: it lets go of what it did not have.
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
        // Those who wait for the end of a pipe wait for this: what it would wait for, the next one does.
        self.lines[index].wait_for_nobody();
        self.order.set_seen(index, seen);
        self.settle(index);
    }
}

/// What a child's call shows of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    Had,
    NotHad,
}

/// Of these numbers, those that a child is not seen to have by what it did first.
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
            // Another program may use what was not closed by that.
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
        matches!(arg.kind, Kind::Fd) && arg.name != "newfd" && value as i32 == fd
    };
    if said.args.iter().zip(call.args).any(uses) {
        return match ret {
            0.. => Some(Shown::Had),
            _ if ret == -i64::from(libc::EBADF) => Some(Shown::NotHad),
            _ => None,
        };
    }
    // What is opened takes the lowest number that is free.
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

    /// Which of the numbers 5 (closed on exec) and 6 a child lets go of that makes these calls.
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
