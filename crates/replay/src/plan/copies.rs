//! Descriptors closed or opened by threads while another thread of their process forks.
//!
//! The kernel copies the table somewhere between the start of the clone and the child's first
//! event. The replay copies it at the start: overlapping calls wait for the copy, unless an event
//! before the copy may depend on them. Numbers that were being closed meanwhile are then closed in
//! the child as well, unless its own calls show that it had them: an extra pipe end could block a
//! reader forever, a missing one blocks nothing.

use std::cmp::Ordering;
use std::collections::HashMap;

use model::contents::is_out;
use syscalls::abi::errno::{self, EAGAIN, EBADF, EPIPE};
use syscalls::shape::Of;
use syscalls::{Arg, ArgKind, Operand, Ret};
use trace::Trace;
use trace::event::{Call, Content, Event, EventKind, Outcome};

use super::claims::numbers::Closed;
use crate::order::Index;
use crate::treatment::said;

/// Most clones in progress at the same time.
pub const COPIES_MAX: usize = 1024;
/// Most events of a child that are examined.
const TELLING_EVENTS: usize = 4096;

/// Unfinished clones that copy descriptors.
#[derive(Default)]
pub struct Copies {
    /// In the order in which they began.
    pub under_way: Vec<Copy>,
    /// Index of each thread's first block, until it was examined.
    firsts: Option<HashMap<u32, usize>>,
}

/// A clone that copies descriptors.
#[derive(Clone, Copy)]
pub struct Copy {
    /// The lane that makes the child.
    pub maker: Index,
    /// The child's lane.
    pub child: Index,
    /// Index of the clone among its maker's actions.
    pub count: u64,
    /// When the clone returns.
    pub until: u64,
    /// The child has shown up, so it has its copy.
    pub is_made: bool,
}

impl Copies {
    /// Forgets a lane, which is reused for another task.
    pub fn forget(&mut self, index: Index) {
        self.under_way.retain(|copy| copy.maker != index && copy.child != index);
    }

    /// The child has its copy.
    pub fn made(&mut self, child: Index) {
        let mut copies = self.under_way.iter_mut();
        if let Some(copy) = copies.find(|copy| copy.child == child) {
            copy.is_made = true;
        }
    }

    /// Returns the events of a thread's first block, after its beginning. Only once per thread, so
    /// that a trace cannot make us unpack the same block again and again.
    pub fn events_of(&mut self, trace: &Trace, thread: u32) -> impl Iterator<Item = Event> {
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

/// Whether a child's call shows that it had a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    Had,
    NotHad,
}

/// Returns those of the numbers that the child's first events do not show it to have.
pub fn not_had(mut open: Vec<Closed>, events: impl Iterator<Item = Event>) -> Vec<i32> {
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
        matches!(arg.kind, ArgKind::Fd) && !arg.is(Operand::NewNumber) && value as i32 == fd
    };
    if said.args.iter().zip(call.args).any(uses) {
        return match ret {
            0.. => Some(Shown::Had),
            _ => match errno::of_result(ret) {
                // Of a transfer: perhaps it is open for the other direction only.
                Some(EBADF) if said.ret != Ret::Size => Some(Shown::NotHad),
                // That is what there is behind the number.
                Some(EAGAIN | EPIPE | libc::ESPIPE) => Some(Shown::Had),
                _ => None,
            },
        };
    }
    let given = call.data.iter().filter(|data| is_out(data) && ret >= 0).flat_map(|data| {
        let arg = said.args.get(usize::from(data.arg));
        let are_numbers = arg.is_some_and(|arg| matches!(arg.kind, ArgKind::Buf(_, Of::Fds, _)));
        let words = match &data.content {
            Content::Inline(bytes) if are_numbers => bytes.as_chunks().0,
            _ => &[],
        };
        words.iter().map(|word| i32::from_le_bytes(*word))
    });
    // These, and an open, take the lowest free numbers.
    match given.fold(None, |shown, given| match given.cmp(&fd) {
        Ordering::Equal => Some(Shown::NotHad),
        Ordering::Greater => shown.or(Some(Shown::Had)),
        Ordering::Less => shown,
    }) {
        None => {}
        shown => return shown,
    }
    let opens = said.args.iter().any(|arg| matches!(arg.kind, ArgKind::Path));
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
        let contested = contested.map(|(fd, close_on_exec)| Closed { fd, close_on_exec });
        not_had(contested.to_vec(), recording.events())
    }

    #[test]
    fn what_a_child_uses_it_had() {
        const EBADF: i64 = -9;
        assert_eq!(gone(|_| {}), [5, 6], "nothing tells");
        assert_eq!(gone(|r| r.numbers("close", &[5], 0)), [6]);
        assert_eq!(gone(|r| r.numbers("close", &[6], EBADF)), [5, 6]);
        assert_eq!(gone(|r| r.write(6, b"x")), [5]);
        // Perhaps it is open for reading only; what is used next is that one.
        let fails_and_works = |r: &mut Recording| {
            r.call("write", &[6, 1, 1], &[(1, b"x")], EBADF);
            r.read(6, b"x");
        };
        assert_eq!(gone(fails_and_works), [5]);
        let new_pipe = |r: &mut Recording| {
            r.call("pipe2", &[1, 0], &[(0, &[5, 0, 0, 0, 6, 0, 0, 0])], 0);
            r.read(5, b"x");
        };
        assert_eq!(gone(new_pipe), [5, 6], "those are others");
        let fails = |error: i64| gone(|r| _ = r.call("pread64", &[6, 1, 1, 0], &[], -error));
        assert_eq!(fails(29), [5], "it has no places");
        assert_eq!(fails(9), [5, 6]);
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
        let pipe = |numbers: [u8; 2]| {
            let data = numbers.map(|number| [number, 0, 0, 0]).concat();
            gone(|r| _ = r.call("pipe2", &[1, 0], &[(0, &data)], 0))
        };
        assert_eq!(pipe([5, 7]), [5], "6 was in use");
        assert!(pipe([7, 8]).is_empty());
        assert_eq!(pipe([4, 6]), [6], "5 was in use");
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
