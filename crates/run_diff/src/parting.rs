//! The first place where two deterministic runs part.
//!
//! Threads are brought together by how they descend from the first one, and the calls of each are
//! compared in order, but for what depends on how threads and signals happen to meet: waits for words in
//! memory, and what handlers of signals do. No calls are kept: each run has hashes of its calls up to some of them
//! ([`Marks`](marks::Marks)), by which the place is known but for a small part of the calls. That part
//! alone is read again, and then the few calls that are shown.

mod marks;
mod signature;

use std::collections::{BTreeMap, HashMap};

use model::{Conditions, Moment, walk};
use render::lines::{self, Look};
use render::text::Style;
use syscalls::{Act, Handler};
use trace::Trace;
use trace::event::{Call, EventKind};

use crate::names::Naming;
use marks::{Between, Descent, Marks, Threads};

/// Limit for the threads whose place is looked for: those that part after the fewest calls.
const THREADS_MAX: usize = 64;
/// Calls that are shown before the place, and of each side after it.
const BEFORE: u64 = 3;
const AFTER: u64 = 3;
/// Limit for the bytes of a line.
const LINE_BYTES_MAX: usize = 400;
/// How calls are shown.
const STYLE: Style = Style { string_limit: 32, data: true, verbose: false };

/// The calls of all threads of a run, as hashes.
#[derive(Clone, Debug, Default)]
pub struct Course {
    threads: Threads,
    marks: BTreeMap<Descent, Marks>,
}

impl Course {
    /// Adds an event. `is_wanted`: it counts.
    pub fn add(&mut self, moment: &Moment<'_>, is_wanted: bool, naming: &Naming) {
        if let Some((call, descent)) = follow(&mut self.threads, moment).filter(|_| is_wanted) {
            let signature = signature::signature(moment, call, naming);
            self.marks.entry(descent).or_default().add(signature);
        }
    }
}

/// Notes threads that begin. Returns a call that is compared, and whose it is.
fn follow<'a>(threads: &mut Threads, moment: &Moment<'a>) -> Option<(&'a Call, Descent)> {
    let thread = moment.event.thread;
    match &moment.event.kind {
        EventKind::Start { parent, .. } => {
            threads.begins(thread, *parent);
            None
        }
        EventKind::Signal { .. } => {
            threads.enters_handler(thread);
            None
        }
        EventKind::Call(call) => {
            let row = syscalls::by_number(call.nr.into());
            let returns = row.is_some_and(|row| row.handler == Handler::SignalReturn);
            let waits = row.is_some_and(|row| row.acts().any(|act| act == Act::WaitOnWord));
            let is_compared = !threads.is_in_handler(thread, returns) && !waits;
            let descent = threads.descent(thread)?;
            is_compared.then_some((call, descent))
        }
        _ => None,
    }
}

/// A call that is shown.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// Its number in the trace.
    pub seq: Option<u64>,
    /// The call.
    pub text: String,
    /// When it began.
    pub enter_ns: u64,
    /// Ids of its process and thread.
    pub ids: (Option<u32>, Option<u32>),
}

/// Where a thread of one run parts from that of the other.
#[derive(Clone, Debug, Default)]
pub struct Parting {
    /// Calls up to there, which are equal.
    pub equal: u64,
    /// The last calls that are equal, of each side.
    pub before: [Vec<Line>; 2],
    /// What comes then; nothing if the thread has ended.
    pub after: [Vec<Line>; 2],
}

/// What is found where the calls of two runs are held against each other, thread by thread.
pub enum Alignment {
    /// Every thread has made the same calls.
    Same {
        /// Number of threads.
        threads: u64,
    },
    /// Some part.
    Part {
        /// Where, the first in time first; not of all if there are many.
        partings: Vec<Parting>,
        /// Threads that part, and those that both runs have.
        threads: [u64; 2],
    },
}

/// Compares the calls of two runs, thread by thread.
pub fn compare(
    traces: [&Trace; 2],
    courses: [&Course; 2],
    namings: [&Naming; 2],
    conditions: &Conditions,
) -> Option<Alignment> {
    let [a, b] = courses;
    let of_both =
        a.marks.iter().filter_map(|(descent, of)| Some((*descent, of, b.marks.get(descent)?)));
    let mut shared = 0;
    let mut part: Vec<(Descent, Between)> = Vec::new();
    for (descent, a, b) in of_both {
        shared += 1;
        part.extend(a.part(b).map(|between| (descent, between)));
    }
    if shared == 0 {
        return None;
    }
    let parted = part.len() as u64;
    if parted == 0 {
        return Some(Alignment::Same { threads: shared });
    }
    part.sort_by_key(|(_, between)| between.from);
    part.truncate(THREADS_MAX);
    let wanted: HashMap<Descent, Between> = part.into_iter().collect();
    let found = both(|side| read(traces[side], namings[side], conditions, &wanted));
    let equal = |descent: &Descent, between: &Between| -> u64 {
        let [a, b] = found.each_ref().map(|of| of.get(descent).map_or(&[][..], Vec::as_slice));
        between.from + a.iter().zip(b).take_while(|(a, b)| a == b).count() as u64
    };
    let places: HashMap<Descent, u64> =
        wanted.iter().map(|(descent, between)| (*descent, equal(descent, between))).collect();
    let mut shown = both(|side| show(traces[side], namings[side], conditions, &places));
    let mut partings: Vec<Parting> = Vec::new();
    for (descent, equal) in places {
        let [a, b] = shown.each_mut().map(|side| side.remove(&descent).unwrap_or_default());
        partings.push(Parting { equal, before: [a.before, b.before], after: [a.after, b.after] });
    }
    partings.sort_by_key(Parting::time);
    Some(Alignment::Part { partings, threads: [parted, shared] })
}

/// Does something for both sides at a time.
fn both<T: Send>(each: impl Fn(usize) -> T + Sync) -> [T; 2] {
    std::thread::scope(|scope| {
        let second = scope.spawn(|| each(1));
        let first = each(0);
        let second = second.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        [first, second]
    })
}

impl Parting {
    /// When it is, by the first run, and by the second.
    fn time(&self) -> [u64; 2] {
        [0, 1].map(|side| {
            let first = self.after[side].first().or(self.before[side].last());
            first.map_or(u64::MAX, |line| line.enter_ns)
        })
    }
}

/// Returns the hashes of the calls between two places, by thread.
fn read(
    trace: &Trace,
    naming: &Naming,
    conditions: &Conditions,
    wanted: &HashMap<Descent, Between>,
) -> HashMap<Descent, Vec<u64>> {
    let mut found: HashMap<Descent, Vec<u64>> = HashMap::new();
    let mut left = wanted.len();
    pass(trace, naming, conditions, wanted, &mut |moment, naming, descent, number| {
        let Between { from, to } = wanted[&descent];
        if let EventKind::Call(call) = &moment.event.kind
            && (from..to).contains(&number)
        {
            let signature = signature::signature(moment, call, naming);
            found.entry(descent).or_default().push(signature);
        }
        left -= usize::from(number + 1 == to);
        left > 0
    });
    found
}

/// Calls of a thread that are shown.
#[derive(Clone, Debug, Default)]
struct Shown {
    before: Vec<Line>,
    after: Vec<Line>,
}

/// Returns the calls around a place, by thread.
fn show(
    trace: &Trace,
    naming: &Naming,
    conditions: &Conditions,
    places: &HashMap<Descent, u64>,
) -> HashMap<Descent, Shown> {
    let mut found: HashMap<Descent, Shown> = HashMap::new();
    let mut left = places.len();
    let mut stored = model::Stored(trace);
    pass(trace, naming, conditions, places, &mut |moment, _, descent, number| {
        let place = places[&descent];
        if number + BEFORE >= place && number < place + AFTER {
            let mut text = String::new();
            let look = Look { style: STYLE, hex: false, colour: false, seq: false, names: false };
            lines::told(&mut text, moment, &mut stored, look);
            if text.len() > LINE_BYTES_MAX {
                let end = (0..=LINE_BYTES_MAX).rev().find(|at| text.is_char_boundary(*at));
                text.truncate(end.unwrap_or(0));
                text.push_str("...");
            }
            let ids = (moment.pid, moment.tid);
            let line = Line { seq: moment.seq, text, enter_ns: moment.enter_ns, ids };
            let of = found.entry(descent).or_default();
            if number < place { of.before.push(line) } else { of.after.push(line) }
        }
        left -= usize::from(number + 1 == place + AFTER);
        left > 0
    });
    found
}

/// What is done with a call of a thread, by its number in the thread. False: no more are wanted.
type Each<'a> = dyn FnMut(&Moment<'_>, &Naming, Descent, u64) -> bool + 'a;

/// Goes through the calls of some threads.
fn pass<V>(
    trace: &Trace,
    naming: &Naming,
    conditions: &Conditions,
    wanted: &HashMap<Descent, V>,
    each: &mut Each<'_>,
) {
    let (mut threads, mut naming) = (Threads::default(), naming.anew());
    let mut numbers: HashMap<Descent, u64> = HashMap::new();
    // What cannot be read was told of by the pass before.
    let _ = walk(trace, conditions, &mut |moment, is_wanted, _| {
        naming.note(&moment.event.kind);
        let Some((_, descent)) = follow(&mut threads, moment) else { return Ok(()) };
        if !is_wanted || !wanted.contains_key(&descent) {
            return Ok(());
        }
        let number = numbers.entry(descent).or_default();
        *number += 1;
        if each(moment, &naming, descent, *number - 1) { Ok(()) } else { Err(()) }
    });
}
