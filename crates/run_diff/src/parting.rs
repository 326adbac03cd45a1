//! The first place where two deterministic runs part.
//!
//! Threads are brought together by how they descend from the first one and by the programs that they
//! begin ([`pairing`]), and the calls of each are compared in order, but for what handlers of signals do and
//! for calls that are made by [`chance`]. No calls are kept: each run has hashes of its calls up to some of them
//! ([`Marks`](marks::Marks)), by which the place is known but for a small part of the calls. That part
//! alone is read again, and then the few calls that are shown.

mod chance;
mod marks;
mod pairing;
mod signature;

use std::collections::{BTreeMap, HashMap};

use model::{Conditions, Moment, walk};
use render::lines::{self, Look};
use render::text::Style;
use syscalls::Handler;
use trace::Trace;
use trace::event::{Call, EventKind, StartHow};

use crate::names::Naming;
use crate::starts::{self, CommandLine};
use marks::{Between, Marks, Threads};

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
    marks: BTreeMap<u32, Marks>,
}

impl Course {
    /// Adds an event. `is_wanted`: it counts; `begun`: what its thread has begun just before.
    pub fn add(
        &mut self,
        moment: &Moment<'_>,
        is_wanted: bool,
        naming: &Naming,
        begun: Option<&CommandLine>,
    ) {
        let thread = moment.event.thread;
        if let Some(line) = begun {
            let (program, command) = line.hashes();
            self.threads.begins_program(thread, program, command);
        }
        if let Some(call) = follow(&mut self.threads, moment).filter(|_| is_wanted) {
            let signature = signature::signature(moment, call, naming);
            self.marks.entry(thread).or_default().add(signature);
        }
    }
}

/// Notes threads that begin. Returns a call that is compared.
fn follow<'a>(threads: &mut Threads, moment: &Moment<'a>) -> Option<&'a Call> {
    let thread = moment.event.thread;
    match &moment.event.kind {
        EventKind::Start { parent, how, .. } => {
            threads.begins(thread, *parent, *how == StartHow::Thread);
            None
        }
        EventKind::Signal { .. } => {
            threads.enters_handler(thread);
            None
        }
        EventKind::Call(call) => {
            let row = syscalls::by_number(call.nr.into());
            let returns = row.is_some_and(|row| row.handler == Handler::SignalReturn);
            let is_compared =
                !threads.is_in_handler(thread, returns) && !chance::decides(moment, call);
            (is_compared && threads.is_followed(thread)).then_some(call)
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
    /// The program that makes it.
    pub program: Vec<u8>,
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
pub struct Alignment {
    /// Threads that both runs have.
    pub shared: u64,
    /// Threads of each run that the other has not.
    pub alone: [u64; 2],
    /// Threads that both have, and that part.
    pub parted: u64,
    /// Where they part, the first in time first; not of all if there are many.
    pub partings: Vec<Parting>,
}

/// Compares the calls of two runs, thread by thread.
pub fn compare(
    traces: [&Trace; 2],
    courses: [&Course; 2],
    namings: [&Naming; 2],
    conditions: &Conditions,
) -> Option<Alignment> {
    let [a, b] = courses;
    let pairs = pairing::pairs(courses.map(|course| &course.threads.family));
    let of_both =
        pairs.iter().filter_map(|pair| Some((*pair, a.marks.get(&pair.0)?, b.marks.get(&pair.1)?)));
    let mut shared = 0;
    let mut part: Vec<((u32, u32), Between)> = Vec::new();
    for (pair, a, b) in of_both {
        shared += 1;
        part.extend(a.part(b).map(|between| (pair, between)));
    }
    if shared == 0 {
        return None;
    }
    let alone = courses.map(|course| course.marks.len() as u64 - shared);
    let parted = part.len() as u64;
    part.sort_by_key(|(_, between)| between.from);
    part.truncate(THREADS_MAX);
    let partings =
        if parted == 0 { Vec::new() } else { partings(traces, namings, conditions, &part) };
    Some(Alignment { shared, alone, parted, partings })
}

/// Returns where threads part of which that is known roughly.
fn partings(
    traces: [&Trace; 2],
    namings: [&Naming; 2],
    conditions: &Conditions,
    part: &[((u32, u32), Between)],
) -> Vec<Parting> {
    let thread = |pair: (u32, u32), side: usize| [pair.0, pair.1][side];
    let found = both(|side| {
        let wanted = part.iter().map(|(pair, between)| (thread(*pair, side), *between)).collect();
        read(traces[side], namings[side], conditions, &wanted)
    });
    let equal = |pair: (u32, u32), between: &Between| -> u64 {
        let of = |side: usize| found[side].get(&thread(pair, side)).map_or(&[][..], Vec::as_slice);
        between.from + of(0).iter().zip(of(1)).take_while(|(a, b)| a == b).count() as u64
    };
    let places: Vec<_> =
        part.iter().map(|(pair, between)| (*pair, equal(*pair, between))).collect();
    let mut shown = both(|side| {
        let wanted = places.iter().map(|(pair, equal)| (thread(*pair, side), *equal)).collect();
        show(traces[side], namings[side], conditions, &wanted)
    });
    let mut partings: Vec<Parting> = Vec::new();
    for (pair, equal) in places {
        let mut of = |side: usize| shown[side].remove(&thread(pair, side)).unwrap_or_default();
        let [a, b] = [of(0), of(1)];
        partings.push(Parting { equal, before: [a.before, b.before], after: [a.after, b.after] });
    }
    partings.sort_by_key(Parting::time);
    partings
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
    /// Returns the call of a side by which it is known: the first that differs, or the last that does not.
    pub fn line(&self, side: usize) -> Option<&Line> {
        self.after[side].first().or(self.before[side].last())
    }

    /// When it is, by the first run, and by the second.
    fn time(&self) -> [u64; 2] {
        [0, 1].map(|side| self.line(side).map_or(u64::MAX, |line| line.enter_ns))
    }
}

/// Returns the hashes of the calls between two places, by thread.
fn read(
    trace: &Trace,
    naming: &Naming,
    conditions: &Conditions,
    wanted: &HashMap<u32, Between>,
) -> HashMap<u32, Vec<u64>> {
    let mut found: HashMap<u32, Vec<u64>> = HashMap::new();
    let mut left = wanted.len();
    pass(trace, naming, conditions, wanted, &mut |moment, naming, thread, number| {
        let Between { from, to } = wanted[&thread];
        if let EventKind::Call(call) = &moment.event.kind
            && (from..to).contains(&number)
        {
            let signature = signature::signature(moment, call, naming);
            found.entry(thread).or_default().push(signature);
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
    places: &HashMap<u32, u64>,
) -> HashMap<u32, Shown> {
    let mut found: HashMap<u32, Shown> = HashMap::new();
    let mut left = places.len();
    let mut stored = model::Stored(trace);
    pass(trace, naming, conditions, places, &mut |moment, _, thread, number| {
        let place = places[&thread];
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
            let program = starts::program(moment.world, thread).unwrap_or_default().to_vec();
            let line = Line { seq: moment.seq, text, enter_ns: moment.enter_ns, ids, program };
            let of = found.entry(thread).or_default();
            if number < place { of.before.push(line) } else { of.after.push(line) }
        }
        left -= usize::from(number + 1 == place + AFTER);
        left > 0
    });
    found
}

/// What is done with a call of a thread, by its number in the thread. False: no more are wanted.
type Each<'a> = dyn FnMut(&Moment<'_>, &Naming, u32, u64) -> bool + 'a;

/// Goes through the calls of some threads.
fn pass<V>(
    trace: &Trace,
    naming: &Naming,
    conditions: &Conditions,
    wanted: &HashMap<u32, V>,
    each: &mut Each<'_>,
) {
    let (mut threads, mut naming) = (Threads::default(), naming.anew());
    let mut numbers: HashMap<u32, u64> = HashMap::new();
    // What cannot be read was told of by the pass before.
    let _ = walk(trace, conditions, &mut |moment, is_wanted, _| {
        naming.note(&moment.event.kind);
        let thread = moment.event.thread;
        let is_compared = follow(&mut threads, moment).is_some();
        if !is_compared || !is_wanted || !wanted.contains_key(&thread) {
            return Ok(());
        }
        let number = numbers.entry(thread).or_default();
        *number += 1;
        if each(moment, &naming, thread, *number - 1) { Ok(()) } else { Err(()) }
    });
}
