//! How long threads computed between their calls, as their agents saw it.

use syscalls::record::enter_flag;
use trace::event::{Call, Event, EventKind, Outcome};
use trace::parts::{Part, PartValue, part_id};

use crate::operations;

/// Limit for the threads that are followed.
const THREADS_MAX: usize = 1 << 20;

/// What threads computed, for one who is given all events in order.
#[derive(Debug, Default)]
pub struct UserTimes {
    /// When the last call of each thread had been recorded; 0: not known.
    left: Vec<u64>,
}

impl UserTimes {
    /// Returns how long the thread of a call has computed since its call before, in nanoseconds.
    /// `clock` turns time stamps into nanoseconds. `None`: it is not known, or this is no call.
    pub fn of(&mut self, event: &Event, clock: &dyn Fn(u64) -> u64) -> Option<u64> {
        match &event.kind {
            EventKind::Call(_) if operations::submitted(event).is_some() => None,
            EventKind::Call(call) => {
                let left = std::mem::replace(self.left(event.thread)?, left_at(event, call));
                if let Some(ns) = number(event, part_id::USER_CPU) {
                    return Some(ns);
                }
                let stayed = call.flags & enter_flag::STAYED != 0 && left != 0;
                stayed.then(|| clock(asked_at(event)).saturating_sub(clock(left)))
            }
            EventKind::Gap { .. } => {
                self.left.clear();
                None
            }
            _ => None,
        }
    }

    fn left(&mut self, thread: u32) -> Option<&mut u64> {
        let at = thread as usize;
        if at >= self.left.len() && at < THREADS_MAX {
            self.left.resize(at + 1, 0);
        }
        self.left.get_mut(at)
    }
}

/// By what it is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// The thread kept its CPU, so it is the time between both calls.
    TimeStamps,
    /// The thread's CPU clock was asked.
    CpuClock,
}

/// By what it is known how long the thread of a call has computed, where that is known.
pub fn source(event: &Event) -> Option<Source> {
    let EventKind::Call(call) = &event.kind else { return None };
    let stayed = call.flags & enter_flag::STAYED != 0;
    Some(if stayed { Source::TimeStamps } else { Source::CpuClock })
}

/// States in a call itself what its thread has computed before: the call before will be missing.
pub fn set(event: &mut Event, user_ns: Option<u64>) {
    let is_told = number(event, part_id::USER_CPU).is_some();
    let EventKind::Call(call) = &mut event.kind else { return };
    match user_ns {
        // The flag goes on saying by what it is known.
        Some(ns) if !is_told => {
            event.extras.get_or_insert_default().parts.push(Part::number(part_id::USER_CPU, ns));
        }
        Some(_) => {}
        None => call.flags &= !enter_flag::STAYED,
    }
}

/// When the program asked for a call, and the agent began to record it.
pub(crate) fn asked_at(event: &Event) -> u64 {
    event.tsc.saturating_sub(number(event, part_id::COPYING).unwrap_or(0))
}

/// When the program went on after a call; 0 if the call did not return.
fn left_at(event: &Event, call: &Call) -> u64 {
    let returned_at = match call.outcome {
        Outcome::Returned { exit_tsc, .. } => exit_tsc,
        Outcome::Unfinished => 0,
    };
    recorded_at(event, call).unwrap_or(returned_at)
}

/// When a call that returned had been recorded, if that took time and the trace has it.
pub(crate) fn recorded_at(event: &Event, call: &Call) -> Option<u64> {
    match call.outcome {
        Outcome::Returned { exit_tsc, .. } => {
            Some(exit_tsc.saturating_add(number(event, part_id::RECORDING)?))
        }
        Outcome::Unfinished => None,
    }
}

fn number(event: &Event, id: u64) -> Option<u64> {
    match event.parts().iter().find(|part| part.id == id)?.value {
        PartValue::Number(number) => Some(number),
        PartValue::Bytes(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use trace::event::{Extras, GapWhy};

    use super::*;

    /// A call of thread 1, or of another one.
    fn call(from: u64, to: Option<u64>, flags: u8, parts: Vec<Part>) -> Event {
        let outcome =
            to.map_or(Outcome::Unfinished, |exit_tsc| Outcome::Returned { exit_tsc, ret: 0 });
        let kind = EventKind::Call(Call { flags, outcome, ..Call::default() });
        let extras = Some(Box::new(Extras { parts, ..Extras::default() }));
        Event { extras, ..Event::new(1, from, kind) }
    }

    #[test]
    fn who_stayed_computed_all_the_time() {
        let mut times = UserTimes::default();
        let mut of = |event: &Event| times.of(event, &|tsc| tsc * 2);
        let recording = vec![Part::number(part_id::RECORDING, 7)];
        assert_eq!(of(&call(10, Some(20), enter_flag::STAYED, Vec::new())), None, "the first one");
        assert_eq!(of(&call(50, Some(60), enter_flag::STAYED, recording)), Some(60));
        assert_eq!(
            of(&call(70, Some(80), enter_flag::STAYED, Vec::new())),
            Some(6),
            "not the copying"
        );
        assert_eq!(of(&call(90, Some(91), 0, Vec::new())), None);
        let measured = vec![Part::number(part_id::USER_CPU, 5)];
        assert_eq!(of(&call(95, None, 0, measured)), Some(5));
        assert_eq!(
            of(&call(97, Some(98), enter_flag::STAYED, Vec::new())),
            None,
            "nothing returned"
        );
        let other = Event { thread: 2, ..call(98, Some(99), enter_flag::STAYED, Vec::new()) };
        assert_eq!(of(&other), None);
        assert_eq!(of(&call(100, Some(101), enter_flag::STAYED, Vec::new())), Some(4));
        let gap = EventKind::Gap { why: GapWhy::Repaired, detail: 0, text: String::new() };
        assert_eq!(of(&Event::new(1, 102, gap)), None);
        assert_eq!(
            of(&call(103, Some(104), enter_flag::STAYED, Vec::new())),
            None,
            "calls may be missing"
        );
    }
}
