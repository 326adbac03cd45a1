//! Reads a trace ahead, so that operations are met when they were submitted. Their events stand where
//! they were found completed; who waits for what follows from the time in between.

use std::collections::{BTreeMap, HashMap, VecDeque};

use model::operations::{operations_of, submitted};
use trace::event::{Content, EventKind, Outcome};
use trace::{EventCursor, ReadError, Sequenced, Trace};

use crate::moves;
use syscalls::Classes;

/// Maximum number of events, and bytes, that are read ahead. An operation that takes longer is met
/// where it was found completed.
const AHEAD_MAX: usize = 16 << 10;
const AHEAD_BYTES_MAX: usize = 32 << 20;
/// Number of events whose memory is kept to be used again.
const SPARE_MAX: usize = 256;

/// What is met.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Met {
    /// An event.
    Event,
    /// An operation, which was submitted then. Its event comes if it is [put off](Ahead::put_off).
    Submission(u64),
}

/// An event that was read ahead.
enum Read {
    Event(Sequenced),
    /// The place of an operation that is kept elsewhere.
    Operation {
        tsc: u64,
        seq: u64,
    },
}

impl Read {
    fn tsc(&self) -> u64 {
        match self {
            Read::Event(next) => next.event.tsc,
            Read::Operation { tsc, .. } => *tsc,
        }
    }
}

/// A call that submits operations.
struct Submitter {
    thread: u32,
    enter: u64,
    exit: u64,
    /// Those of its operations that were not read yet.
    left: u64,
}

/// The events of a trace, with operations at the time of their submission.
pub struct Ahead {
    cursor: EventCursor,
    /// Whether operations are met when they were submitted.
    sorts: bool,
    queue: VecDeque<Read>,
    bytes: usize,
    /// In the order in which they began.
    submitters: VecDeque<Submitter>,
    /// Operations by submission and number.
    submissions: BTreeMap<(u64, u64), Sequenced>,
    /// Those that are met where they were completed after all.
    put_off: HashMap<u64, Sequenced>,
    spare: Vec<Sequenced>,
    /// Time of what was met last.
    reached: u64,
    /// Ends after what is in the queue.
    failed: Option<ReadError>,
}

impl Ahead {
    pub fn new(cursor: EventCursor, sorts: bool) -> Ahead {
        Ahead {
            cursor,
            sorts,
            queue: VecDeque::new(),
            bytes: 0,
            submitters: VecDeque::new(),
            submissions: BTreeMap::new(),
            put_off: HashMap::new(),
            spare: Vec::new(),
            reached: 0,
            failed: None,
        }
    }

    /// Returns what comes next, like [`EventCursor::next_into`].
    pub fn next_into(
        &mut self,
        trace: &Trace,
        into: &mut Sequenced,
    ) -> Option<Result<Met, ReadError>> {
        loop {
            let is_quick = self.queue.is_empty() && self.submissions.is_empty();
            if is_quick && self.failed.is_none() {
                if let Err(error) = self.cursor.next_into(trace, into)? {
                    return Some(Err(error));
                }
                self.reached = into.event.tsc;
                if !self.sorts || operations_of(&into.event) == 0 {
                    return Some(Ok(Met::Event));
                }
                self.note(std::mem::take(into));
            }
            self.read_on(trace);
            let submission = self.submissions.first_key_value().map(|((tsc, _), _)| *tsc);
            let event = self.queue.front().map(Read::tsc);
            if let Some(tsc) = submission
                && event.is_none_or(|event| tsc < event)
                && let Some((_, next)) = self.submissions.pop_first()
            {
                self.reached = tsc;
                *into = next;
                return Some(Ok(Met::Submission(tsc)));
            }
            let next = match self.queue.pop_front() {
                Some(Read::Event(next)) => Some(next),
                Some(Read::Operation { seq, .. }) => self.put_off.remove(&seq),
                None => return self.failed.take().map(Err),
            };
            if let Some(next) = next {
                self.bytes = self.bytes.saturating_sub(weight(&next));
                self.reached = next.event.tsc;
                if self.spare.len() < SPARE_MAX {
                    self.spare.push(std::mem::replace(into, next));
                } else {
                    *into = next;
                }
                return Some(Ok(Met::Event));
            }
        }
    }

    /// An operation that was met will be met again as an event, where it was found completed.
    pub fn put_off(&mut self, next: Sequenced) {
        if let Some(seq) = next.seq {
            self.put_off.insert(seq, next);
        }
    }

    /// Done with an operation.
    pub fn used_up(&mut self, next: &Sequenced) {
        self.bytes = self.bytes.saturating_sub(weight(next));
    }

    /// Reads until all operations are known that were submitted before the next event.
    fn read_on(&mut self, trace: &Trace) {
        loop {
            let Some(next) = self.queue.front().map(Read::tsc) else { return };
            while let Some(first) = self.submitters.front()
                && (first.left == 0 || first.exit < self.reached)
            {
                self.submitters.pop_front();
            }
            let mut begun = self.submitters.iter().take_while(|one| one.enter <= next);
            let is_known = begun.all(|one| one.left == 0);
            let is_full = self.queue.len() >= AHEAD_MAX || self.bytes >= AHEAD_BYTES_MAX;
            if is_known || is_full || self.failed.is_some() {
                return;
            }
            let mut into = self.spare.pop().unwrap_or_default();
            match self.cursor.next_into(trace, &mut into) {
                Some(Ok(())) => self.note(into),
                Some(Err(error)) => self.failed = Some(error),
                None => {
                    self.submitters.clear();
                    return;
                }
            }
        }
    }

    fn note(&mut self, next: Sequenced) {
        self.bytes += weight(&next);
        let event = &next.event;
        let EventKind::Call(call) = &event.kind else {
            return self.queue.push_back(Read::Event(next));
        };
        if let (count @ 1.., Outcome::Returned { exit_tsc, .. }) =
            (operations_of(event), call.outcome)
        {
            let exit = exit_tsc.max(event.tsc);
            let thread = event.thread;
            self.submitters.push_back(Submitter { thread, enter: event.tsc, exit, left: count });
        }
        let Some(at) = submitted(event) else { return self.queue.push_back(Read::Event(next)) };
        // Of several at a time, most likely that of the thread that has found it completed.
        let those = self.submitters.iter_mut();
        let may_be = those.filter(|one| one.left > 0 && one.enter <= at && at <= one.exit);
        if let Some(submitter) = may_be.min_by_key(|one| (one.thread != event.thread, one.exit)) {
            submitter.left -= 1;
        }
        let Some(seq) = next.seq else { return self.queue.push_back(Read::Event(next)) };
        let is_made = matches!(call.outcome, Outcome::Returned { ret: 0.., .. });
        if is_made && at > self.reached && is_of_files(call.nr) {
            self.queue.push_back(Read::Operation { tsc: event.tsc, seq });
            self.submissions.insert((at, seq), next);
        } else {
            self.queue.push_back(Read::Event(next));
        }
    }
}

/// Whether an operation moves bytes of a file, or writes them back.
fn is_of_files(nr: u16) -> bool {
    let syncs = |row: &syscalls::Syscall| row.classes.intersects(Classes::SYNC);
    moves::of_call(nr).is_some() || syscalls::by_number(nr.into()).is_some_and(syncs)
}

/// Bytes of an event, roughly.
fn weight(next: &Sequenced) -> usize {
    let EventKind::Call(call) = &next.event.kind else { return size_of::<Sequenced>() };
    let of_content = |content: &Content| match content {
        Content::Inline(bytes) => bytes.len(),
        Content::Blobs { ids, .. } => size_of_val(&ids[..]),
    };
    let data = call.data.iter().map(|data| size_of_val(data) + of_content(&data.content));
    size_of::<Sequenced>() + data.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::tests::recording::Recording;

    /// Names of what is met, with the time of submissions.
    fn met(r: &Recording, put_off: bool) -> Vec<String> {
        let trace = r.trace();
        let mut ahead = Ahead::new(trace.cursor(), true);
        let mut next = Sequenced::default();
        let mut all = Vec::new();
        while let Some(met) = ahead.next_into(&trace, &mut next) {
            let EventKind::Call(call) = &next.event.kind else { continue };
            let name = syscalls::by_number(call.nr.into()).expect("it has a row").name;
            match met.expect("the trace is sound") {
                Met::Event => all.push(format!("{name} at {}", next.event.tsc)),
                Met::Submission(tsc) => {
                    all.push(format!("{name} submitted at {tsc}"));
                    match put_off {
                        true => ahead.put_off(std::mem::take(&mut next)),
                        false => ahead.used_up(&next),
                    }
                }
            }
        }
        assert_eq!((ahead.bytes, ahead.put_off.len()), (0, 0), "all was given back");
        all
    }

    fn recording() -> Recording {
        let mut r = Recording::new("/");
        r.numbers("io_submit", &[7, 3], 3);
        r.lasting(1000, 1100);
        r.submits(3);
        for (name, submitted, found) in
            [("aio:FSYNC", 1010, 1300), ("aio:PREAD", 1020, 1250), ("aio:POLL", 1030, 1400)]
        {
            r.numbers(name, &[5, 1], 0);
            r.in_flight(submitted, found);
        }
        r.numbers("getppid", &[], 1);
        r.lasting(1200, 1210);
        r.in_order();
        r
    }

    #[test]
    fn operations_are_met_when_they_were_submitted() {
        let expected = [
            "io_submit at 1000",
            "aio:FSYNC submitted at 1010",
            "aio:PREAD submitted at 1020",
            "getppid at 1200",
            "aio:POLL at 1400",
        ];
        assert_eq!(met(&recording(), false), expected);
    }

    #[test]
    fn what_is_put_off_is_met_where_it_was_found() {
        let expected = [
            "io_submit at 1000",
            "aio:FSYNC submitted at 1010",
            "aio:PREAD submitted at 1020",
            "getppid at 1200",
            "aio:PREAD at 1250",
            "aio:FSYNC at 1300",
            "aio:POLL at 1400",
        ];
        assert_eq!(met(&recording(), true), expected);
    }

    #[test]
    fn no_more_is_read_ahead_than_there_is_room_for() {
        let mut r = Recording::new("/");
        r.numbers("io_submit", &[7, 2], 2);
        r.lasting(1000, 1100);
        r.submits(2);
        let many = AHEAD_MAX as u64 + 10;
        for number in 0..many {
            r.numbers("getppid", &[], 1);
            r.lasting(2000 + number, 2000 + number);
        }
        for found in [2005, 3000 + many] {
            r.numbers("aio:FSYNC", &[5], 0);
            r.in_flight(1050, found);
        }
        r.in_order();
        let met = met(&r, false);
        assert_eq!(met[1], "aio:FSYNC submitted at 1050");
        assert_eq!(met.last(), Some(&format!("aio:FSYNC at {}", 3000 + many)));
        assert_eq!(met.len() as u64, many + 3);
    }
}
