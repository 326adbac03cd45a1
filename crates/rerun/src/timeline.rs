//! When everything would have happened, had nobody stood between the program and its calls.
//!
//! To bring a call before the driver takes many times what most calls take. So the time of a
//! re-execution is put together, thread by thread: what the program computes between its calls is
//! measured in its agent, what calls on files take where they are made, and what is answered takes as
//! long as it did when it was recorded. What waits for another thread ends after what that thread had
//! done before. What is left of a wait comes from outside: timers, and peers that were not recorded.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use ring::Standing;
use syscalls::{Act, Classes, Handler, Syscall};

/// Whether a program waits for the outside as long as it did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Stimuli {
    /// What comes from outside comes at once.
    Asap,
    /// It takes as long as it did.
    #[default]
    Recorded,
}

/// The processors of the recording, and those of this machine.
#[derive(Clone, Copy, Debug)]
pub struct Processors {
    /// Ticks of the time stamp counter per second, of the recording.
    pub recorded_hz: u64,
    /// The same of this machine.
    pub now_hz: u64,
    /// They are of one model, and so compute as fast.
    pub are_alike: bool,
}

/// On another processor, what the program computes for a shorter time takes what it took: to measure that
/// costs as much.
const MEASURED_NS: u64 = 20_000;
/// The agent's way from one call to the next takes no longer.
const WAY_MAX_NS: u64 = 200;
/// An answered call that is longer may have waited.
const SHORT_NS: u64 = 100_000;
/// Others are seen to go on that long after what they have waited for.
const WAKING_NS: u64 = 1_000_000;

/// What a re-execution has taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Times {
    /// From the first image to the last end.
    pub elapsed_ns: u64,
    /// CPU time of the program between its calls.
    pub user_ns: u64,
    /// Time in calls on files, of all threads: waits for the system.
    pub files_ns: u64,
    /// Calls on files that were made.
    pub files_calls: u64,
    /// The same of calls on real sockets.
    pub network_ns: u64,
    /// Calls on real sockets that were made.
    pub network_calls: u64,
    /// What waits for the outside took in the recording, of all threads.
    pub outside_recorded_ns: u64,
    /// What they count in `elapsed_ns`.
    pub outside_ns: u64,
}

/// What the end of a call depends on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Kind {
    /// On nobody else: it is made again.
    Works,
    /// On nobody else, if it is short.
    Plain,
    /// On another thread, or the outside.
    Waits,
    /// On a child.
    Reaps,
    /// On the clock.
    Sleeps,
}

/// Decides it by the row of a call.
pub(crate) fn kind(row: Option<&Syscall>, args: &[u64; 6]) -> Kind {
    match row {
        Some(row) if !row.again_of(args).is_given() && row.handler != Handler::Vfork => Kind::Works,
        Some(row) if !row.classes.intersects(Classes::WAIT) => {
            if row.handler == Handler::Vfork {
                Kind::Waits
            } else {
                Kind::Plain
            }
        }
        Some(row) if row.classes.intersects(Classes::CLOCK) => Kind::Sleeps,
        Some(row) if row.act_of(args) == Act::Reap => Kind::Reaps,
        _ => Kind::Waits,
    }
}

/// A call that is under way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Open {
    exit: u64,
    pub seq: u64,
    thread: u32,
    enter: u64,
    kind: Kind,
}

/// A thread.
#[derive(Clone, Copy, Default)]
struct Clock {
    /// Where it is, or where its current call began.
    at_ns: u64,
    /// The recorded beginning of its current call.
    enter: u64,
    /// It is in no call that waits.
    runs: bool,
}

/// Something that a thread has done.
#[derive(Clone, Copy)]
struct Done {
    thread: u32,
    tsc: u64,
    at_ns: u64,
    /// It was its last call: what the kernel has to do for that comes after it.
    is_last: bool,
}

/// The times of all threads.
pub(crate) struct Timeline {
    stimuli: Stimuli,
    /// Nanoseconds per tick of the recording, and of the re-execution.
    recorded_ns: f64,
    now_ns: f64,
    /// What the program computes takes what it took, unless it waits for its memory.
    is_known: bool,
    clocks: HashMap<u32, Clock>,
    /// Threads that are in no call that waits.
    running: usize,
    open: BinaryHeap<Reverse<Open>>,
    /// What was done last, and what was done last by another thread than that.
    last: [Option<Done>; 2],
    /// What it takes to bring a call before the driver, as far as that counts as the program's time.
    least_ns: u64,
    /// What the recording's agent took between two calls, as far as that counts as the program's time.
    least_known_ns: u64,
    times: Times,
}

impl Timeline {
    pub fn new(stimuli: Stimuli, processors: Processors) -> Timeline {
        let Processors { recorded_hz, now_hz, are_alike } = processors;
        let per_tick = |hz: u64| 1e9 / hz.max(1) as f64;
        Timeline {
            stimuli,
            recorded_ns: per_tick(recorded_hz),
            now_ns: per_tick(now_hz),
            is_known: are_alike,
            clocks: HashMap::new(),
            running: 0,
            open: BinaryHeap::new(),
            last: [None; 2],
            least_ns: u64::MAX,
            least_known_ns: WAY_MAX_NS,
            times: Times::default(),
        }
    }

    /// What it took.
    pub fn times(&self) -> Times {
        self.times
    }

    fn recorded(&self, ticks: u64) -> u64 {
        (ticks as f64 * self.recorded_ns) as u64
    }

    /// A thread begins, made by another one.
    pub fn begin(&mut self, thread: u32, maker: u32, tsc: u64) {
        let Clock { at_ns, enter, .. } = self.clocks.get(&maker).copied().unwrap_or_default();
        let at_ns = at_ns.saturating_add(self.recorded(tsc.saturating_sub(enter)));
        self.set(thread, tsc, at_ns, true);
    }

    /// A program begins. What lies between the end of its exec and this was the recorder's time.
    pub fn image(&mut self, thread: u32, tsc: u64) {
        let at_ns = self.clocks.get(&thread).map_or(0, |clock| clock.at_ns);
        self.set(thread, tsc, at_ns, true);
    }

    /// The program has computed in this thread; `known_ns`: for so long when it was recorded.
    pub fn computed(&mut self, thread: u32, [since, now]: [Standing; 2], known_ns: Option<u64>) {
        if since.tsc == 0 {
            return;
        }
        let wall = (now.tsc.saturating_sub(since.tsc) as f64 * self.now_ns) as u64;
        let cpu = now.cpu_ns.saturating_sub(since.cpu_ns).min(wall);
        let (has_waited, was_put_off) = (now.waits != since.waits, now.put_off != since.put_off);
        let (took, used) = match (has_waited, was_put_off) {
            (false, false) => {
                self.least_ns = self.least_ns.min(wall);
                (wall, wall)
            }
            // For its memory.
            (true, _) => (wall, cpu),
            (false, true) => (cpu, cpu),
        };
        let less = self.least_ns.min(took);
        let (mut took, mut used) = (took - less, used.saturating_sub(less));
        // Only its memory makes it longer: else others have interrupted it.
        let is_alike = took < MEASURED_NS || !has_waited && now.faults == since.faults;
        // Where calls are answered by others, caches are cold after each, and pages dearer.
        let takes_known =
            |known: &u64| self.is_known && !has_waited || *known < MEASURED_NS && is_alike;
        if let Some(known) = known_ns.filter(takes_known) {
            self.least_known_ns = self.least_known_ns.min(known);
            took = known - self.least_known_ns;
            used = took;
        }
        self.times.user_ns = self.times.user_ns.saturating_add(used);
        if let Some(clock) = self.clocks.get_mut(&thread) {
            clock.at_ns = clock.at_ns.saturating_add(took);
        }
    }

    /// A call begins; `exit` is its recorded end, if it has one.
    pub fn call(&mut self, thread: u32, seq: u64, enter: u64, exit: Option<u64>, kind: Kind) {
        let at_ns = self.clocks.get(&thread).map_or(0, |clock| clock.at_ns);
        // What is long may wait, whatever it is.
        let is_short =
            exit.is_some_and(|exit| self.recorded(exit.saturating_sub(enter)) < SHORT_NS);
        let runs = kind == Kind::Works || kind == Kind::Plain && is_short;
        self.set(thread, enter, at_ns, runs);
        if let Some(exit) = exit {
            self.open.push(Reverse(Open { exit: exit.max(enter), seq, thread, enter, kind }));
        }
    }

    /// A thread ends.
    pub fn ends(&mut self, thread: u32) {
        if let Some(clock) = self.clocks.get_mut(&thread)
            && std::mem::take(&mut clock.runs)
        {
            self.running -= 1;
        }
        let last = self.last.iter_mut().flatten().find(|done| done.thread == thread);
        if let Some(done) = last {
            done.is_last = true;
        }
    }

    /// Returns how long a call may turn out to have waited for the outside.
    pub fn may_wait_ns(&self, enter: u64, exit: u64, kind: Kind) -> u64 {
        let took = self.recorded(exit.saturating_sub(enter));
        let least = if kind == Kind::Sleeps { 0 } else { SHORT_NS };
        if kind == Kind::Works || took < least { 0 } else { took }
    }

    /// Takes the next call that had ended by then.
    pub fn next_end(&mut self, tsc: u64) -> Option<Open> {
        if self.open.peek().is_none_or(|Reverse(next)| next.exit > tsc) {
            return None;
        }
        self.open.pop().map(|Reverse(next)| next)
    }

    /// A call ends; if it was made on files, or on sockets, it took that long. Returns for how long it has
    /// waited for the outside.
    pub fn end(&mut self, open: Open, made_ns: Option<u64>, network_ticks: Option<u64>) -> u64 {
        let Open { exit, thread, enter, kind, .. } = open;
        let Clock { at_ns: began, runs, .. } =
            self.clocks.get(&thread).copied().unwrap_or_default();
        let took = self.recorded(exit - enter);
        // Else somebody works for whom it may wait.
        let all_wait = self.running == usize::from(runs);
        let mut outside = 0;
        let at_ns = match (made_ns, kind) {
            (Some(ns), _) => {
                self.times.files_ns = self.times.files_ns.saturating_add(ns);
                self.times.files_calls += 1;
                began.saturating_add(ns)
            }
            // It was made when what it waits for was there.
            (None, _) if network_ticks.is_some() => {
                let ns = (network_ticks.unwrap_or(0) as f64 * self.now_ns) as u64;
                self.times.network_ns = self.times.network_ns.saturating_add(ns);
                self.times.network_calls += 1;
                let after = self.last_of_others(thread).filter(|done| done.tsc >= enter);
                let since = after.map_or(enter, |done| done.tsc);
                let waited = self.recorded(exit.saturating_sub(since)).saturating_sub(ns);
                outside = if waited > WAKING_NS && all_wait { waited } else { 0 };
                after.map_or(began, |done| began.max(done.at_ns)).saturating_add(ns)
            }
            (None, Kind::Plain) if took < SHORT_NS => began.saturating_add(took),
            (None, Kind::Works) => began.saturating_add(took),
            (None, Kind::Sleeps) => {
                outside = took;
                began
            }
            (None, _) => match self.last_of_others(thread).filter(|done| done.tsc >= enter) {
                Some(done) => {
                    let rest = self.recorded(exit.saturating_sub(done.tsc));
                    let child_ends = kind == Kind::Reaps && done.is_last;
                    let is_outside = rest > WAKING_NS && all_wait && !child_ends;
                    outside = if is_outside { rest } else { 0 };
                    began.max(done.at_ns).saturating_add(rest - outside)
                }
                None if kind == Kind::Plain || took < SHORT_NS || !all_wait => {
                    began.saturating_add(took)
                }
                None => {
                    outside = took;
                    began
                }
            },
        };
        self.times.outside_recorded_ns = self.times.outside_recorded_ns.saturating_add(outside);
        if self.stimuli == Stimuli::Asap {
            outside = 0;
        }
        self.times.outside_ns = self.times.outside_ns.saturating_add(outside);
        self.set(thread, exit, at_ns.saturating_add(outside), true);
        outside
    }

    fn last_of_others(&self, thread: u32) -> Option<Done> {
        self.last.iter().flatten().find(|done| done.thread != thread).copied()
    }

    fn set(&mut self, thread: u32, tsc: u64, at_ns: u64, runs: bool) {
        let before = self.clocks.insert(thread, Clock { at_ns, enter: tsc, runs });
        self.running += usize::from(runs);
        self.running -= usize::from(before.is_some_and(|clock| clock.runs));
        self.times.elapsed_ns = self.times.elapsed_ns.max(at_ns);
        if self.last[0].is_some_and(|done| done.thread != thread) {
            self.last[1] = self.last[0];
        }
        self.last[0] = Some(Done { thread, tsc, at_ns, is_last: false });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A gigahertz: a tick is a nanosecond.
    const HZ: u64 = 1_000_000_000;
    const MS: u64 = 1_000_000;

    fn timeline(stimuli: Stimuli) -> Timeline {
        on(stimuli, false)
    }

    fn on(stimuli: Stimuli, are_alike: bool) -> Timeline {
        let processors = Processors { recorded_hz: HZ, now_hz: HZ, are_alike };
        let mut timeline = Timeline::new(stimuli, processors);
        timeline.image(1, 0);
        // What it takes to bring a call before the driver.
        timeline.computed(1, [at(1000, 0, 0), at(1500, 0, 0)], None);
        timeline
    }

    fn at(tsc: u64, waits: u64, put_off: u64) -> Standing {
        Standing { tsc, cpu_ns: tsc / 2, waits, put_off, faults: 0 }
    }

    fn ends(timeline: &mut Timeline, tsc: u64, made_ns: Option<u64>) -> u64 {
        let mut outside = 0;
        while let Some(open) = timeline.next_end(tsc) {
            outside += timeline.end(open, made_ns, None);
        }
        outside
    }

    #[test]
    fn what_is_made_counts_and_what_is_answered_counts_as_recorded() {
        let mut timeline = timeline(Stimuli::Asap);
        timeline.computed(1, [at(5000, 0, 0), at(7500, 0, 0)], None);
        assert_eq!(timeline.times().user_ns, 2000);
        timeline.call(1, 0, 10_000, Some(11_000), Kind::Plain);
        ends(&mut timeline, 11_000, Some(300));
        assert_eq!(timeline.times().elapsed_ns, 2300);
        timeline.call(1, 1, 12_000, Some(13_000), Kind::Plain);
        ends(&mut timeline, u64::MAX, None);
        let Times { elapsed_ns, files_ns, files_calls, .. } = timeline.times();
        assert_eq!((elapsed_ns, files_ns, files_calls), (3300, 300, 1));
    }

    #[test]
    fn a_taken_cpu_does_not_count_and_waiting_for_memory_does() {
        let mut timeline = timeline(Stimuli::Asap);
        timeline.computed(1, [at(10_000, 0, 0), at(110_000, 0, 1)], None);
        assert_eq!(timeline.times().user_ns, 49_500);
        timeline.computed(1, [at(10_000, 0, 1), at(110_000, 3, 1)], None);
        timeline.call(1, 0, MS, None, Kind::Plain);
        assert_eq!(timeline.times().user_ns, 99_000);
        assert_eq!(timeline.times().elapsed_ns, 49_500 + 99_500);
    }

    #[test]
    fn what_is_short_takes_what_it_took() {
        let mut timeline = timeline(Stimuli::Asap);
        timeline.computed(1, [at(5000, 0, 0), at(9500, 0, 0)], Some(70));
        assert_eq!(timeline.times().user_ns, 0, "that is the agent's way");
        timeline.computed(1, [at(5000, 0, 0), at(9500, 0, 0)], Some(370));
        assert_eq!(timeline.times().user_ns, 300);
        // Something has interrupted it.
        timeline.computed(1, [at(10_000, 0, 0), at(50_500, 0, 0)], Some(370));
        assert_eq!(timeline.times().user_ns, 600);
        // Its memory was not there.
        let late = Standing { faults: 1, ..at(50_500, 0, 0) };
        timeline.computed(1, [at(10_000, 0, 0), late], Some(370));
        assert_eq!(timeline.times().user_ns, 40_600);
    }

    #[test]
    fn on_a_processor_of_the_model_all_takes_what_it_took_but_what_waits_for_memory() {
        let mut timeline = on(Stimuli::Asap, true);
        timeline.computed(1, [at(5000, 0, 0), at(5500, 0, 0)], Some(70));
        let late = Standing { faults: 9, ..at(110_000, 0, 1) };
        timeline.computed(1, [at(10_000, 0, 0), late], Some(60_070));
        assert_eq!(timeline.times().user_ns, 60_000);
        timeline.computed(1, [at(10_000, 0, 1), at(110_000, 3, 1)], Some(60_070));
        assert_eq!(timeline.times().user_ns, 60_000 + 49_500);
        timeline.computed(1, [at(10_000, 0, 0), at(50_500, 0, 0)], None);
        assert_eq!(timeline.times().user_ns, 60_000 + 49_500 + 40_000, "the trace does not say");
    }

    #[test]
    fn what_is_always_long_is_its_own() {
        let mut timeline = timeline(Stimuli::Asap);
        for _ in 0..3 {
            timeline.computed(1, [at(5000, 0, 0), at(9500, 0, 0)], Some(5000));
        }
        assert_eq!(timeline.times().user_ns, 3 * (5000 - WAY_MAX_NS));
    }

    #[test]
    fn a_sleep_takes_no_time_or_what_it_took() {
        for (stimuli, counted) in [(Stimuli::Asap, 0), (Stimuli::Recorded, 50 * MS)] {
            let mut timeline = timeline(stimuli);
            timeline.call(1, 0, MS, Some(51 * MS), Kind::Sleeps);
            assert_eq!(ends(&mut timeline, 60 * MS, None), counted);
            let times = timeline.times();
            assert_eq!((times.outside_ns, times.outside_recorded_ns), (counted, 50 * MS));
            assert_eq!(times.elapsed_ns, counted);
            // So does a wait for a peer that was not recorded.
            timeline.call(1, 1, 60 * MS, Some(110 * MS), Kind::Waits);
            assert_eq!(ends(&mut timeline, 110 * MS, None), counted);
        }
    }

    #[test]
    fn what_is_made_on_sockets_waits_for_nobody() {
        for (stimuli, outside) in [(Stimuli::Asap, 0), (Stimuli::Recorded, 50 * MS - 700)] {
            let mut timeline = timeline(stimuli);
            timeline.call(1, 0, MS, Some(51 * MS), Kind::Plain);
            let open = timeline.next_end(51 * MS).unwrap();
            assert_eq!(timeline.end(open, None, Some(700)), outside);
            let times = timeline.times();
            assert_eq!((times.network_ns, times.network_calls), (700, 1));
            assert_eq!(times.outside_recorded_ns, 50 * MS - 700);
            assert_eq!(times.elapsed_ns, outside + 700);
        }
    }

    #[test]
    fn who_waits_while_others_work_does_not_wait_for_the_outside() {
        for (is_there, outside) in [(true, 0), (false, 50 * MS)] {
            let mut timeline = timeline(Stimuli::Asap);
            timeline.call(1, 0, 100, Some(200), Kind::Plain);
            timeline.begin(2, 1, 150);
            ends(&mut timeline, 200, None);
            if !is_there {
                timeline.ends(2);
                timeline.ends(2);
            }
            timeline.call(1, 1, MS, Some(51 * MS), Kind::Waits);
            ends(&mut timeline, u64::MAX, None);
            assert_eq!(timeline.times().outside_recorded_ns, outside);
        }
    }

    #[test]
    fn the_end_of_a_child_is_none_of_the_outside() {
        for (kind, outside) in [(Kind::Reaps, 0), (Kind::Waits, 5 * MS - 302)] {
            let mut timeline = timeline(Stimuli::Asap);
            timeline.call(1, 0, 100, Some(200), Kind::Plain);
            timeline.begin(2, 1, 150);
            ends(&mut timeline, 200, None);
            timeline.call(1, 1, 300, Some(5 * MS), kind);
            timeline.call(2, 2, 302, None, Kind::Plain);
            timeline.ends(2);
            ends(&mut timeline, u64::MAX, None);
            let Times { elapsed_ns, outside_recorded_ns, .. } = timeline.times();
            assert_eq!(outside_recorded_ns, outside);
            assert_eq!(elapsed_ns > MS, kind == Kind::Reaps, "{elapsed_ns}");
        }
    }

    #[test]
    fn a_long_call_that_is_answered_may_be_a_wait() {
        let timeline = timeline(Stimuli::Recorded);
        let may_wait = |ns: u64, kind| timeline.may_wait_ns(7, 7 + ns, kind);
        assert_eq!(may_wait(SHORT_NS, Kind::Plain), SHORT_NS);
        assert_eq!(may_wait(SHORT_NS, Kind::Reaps), SHORT_NS);
        assert_eq!(may_wait(SHORT_NS - 1, Kind::Waits), 0);
        assert_eq!(may_wait(1, Kind::Sleeps), 1);
        assert_eq!(may_wait(SHORT_NS, Kind::Works), 0);
    }

    #[test]
    fn who_waits_goes_on_after_what_the_other_one_has_done() {
        let mut timeline = timeline(Stimuli::Asap);
        timeline.call(1, 0, 100, Some(200), Kind::Plain);
        timeline.begin(2, 1, 150);
        ends(&mut timeline, 300, None);
        // The first one waits for the second one, which computes longer than it did.
        timeline.call(1, 1, 300, Some(5 * MS), Kind::Waits);
        timeline.computed(2, [at(1000, 0, 0), at(9 * MS + 1500, 0, 0)], None);
        timeline.call(2, 2, 5 * MS - 1000, Some(5 * MS - 500), Kind::Plain);
        ends(&mut timeline, 5 * MS, None);
        let times = timeline.times();
        assert_eq!(times.outside_recorded_ns, 0);
        // 50 to its beginning, 9 ms, a call of 500 ns, and 500 ns to wake up.
        assert_eq!(times.elapsed_ns, 50 + 9 * MS + 500 + 500);
    }
}
