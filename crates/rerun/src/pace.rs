//! What happens, until it is known what calls on files have taken: they may be made a little later than
//! the program comes to them, as long as they come in the same order.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ring::Standing;

use crate::files::Files;
use crate::timeline::{Kind, Processors, Stimuli, Timeline, Times};

/// How much happens before its calls on files are made, together: one by one, between what the program and its
/// driver do, they would be made with cold caches, and take longer.
const BEHIND_MAX: usize = 8192;
/// Waits for the outside are made together when they come to so much.
const PAUSE_LEAST: Duration = Duration::from_millis(5);
/// A pause for the outside is no longer, whatever the trace says.
const PAUSE_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// How long to pause at a time before looking whether it is to end.
const PAUSE_PIECE: Duration = Duration::from_millis(100);

/// Something that concerns time.
pub(crate) enum Step {
    /// A thread begins, made by another one.
    Begin { thread: u32, maker: u32, tsc: u64 },
    /// A thread begins a program.
    Image { thread: u32, tsc: u64 },
    /// The program has computed, and did so for that long when it was recorded.
    Computed { thread: u32, stood: [Standing; 2], known_ns: Option<u64> },
    /// A call begins.
    Call { thread: u32, seq: u64, enter: u64, exit: Option<u64>, kind: Kind },
    /// A thread ends.
    End { thread: u32 },
    /// The recording has come to this time.
    Until(u64),
}

/// What a re-execution takes.
pub(crate) struct Pace {
    timeline: Timeline,
    files: Option<Box<dyn Files + Send>>,
    steps: VecDeque<Step>,
    /// All calls that had ended until then, in the recording, have been made.
    made_until: u64,
    /// What calls on real sockets took, in ticks, by their numbers.
    network: HashMap<u64, u64>,
    /// Whether the program waits for the outside.
    waits: bool,
    /// When calls had ended in the recording that may be waits for the outside, and how long they took.
    may_wait: BinaryHeap<Reverse<(u64, u64)>>,
    /// What those may come to of which nobody knows yet; what those come to for which there was no pause yet.
    may_owe: Duration,
    owes: Duration,
    told_to_end: Arc<AtomicBool>,
}

impl Pace {
    pub fn new(
        stimuli: Stimuli,
        processors: Processors,
        files: Option<Box<dyn Files + Send>>,
        told_to_end: Arc<AtomicBool>,
    ) -> Pace {
        let waits = files.is_some() && stimuli == Stimuli::Recorded;
        Pace {
            timeline: Timeline::new(stimuli, processors),
            files,
            steps: VecDeque::new(),
            made_until: 0,
            network: HashMap::new(),
            waits,
            may_wait: BinaryHeap::new(),
            may_owe: Duration::ZERO,
            owes: Duration::ZERO,
            told_to_end,
        }
    }

    /// Waits for the outside.
    fn pause(&self, pause: Duration) -> Result<(), String> {
        let end = Instant::now() + pause.min(PAUSE_MAX);
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            if self.told_to_end.load(Ordering::Relaxed) {
                return Err("interrupted".into());
            }
            std::thread::sleep(left.min(PAUSE_PIECE));
        }
    }

    /// What it took.
    pub fn times(&self) -> Times {
        self.timeline.times()
    }

    /// The program makes this call.
    pub fn begin(&mut self, seq: u64) {
        if let Some(files) = &mut self.files {
            files.begin(seq);
        }
    }

    /// A call was made on real sockets.
    pub fn made(&mut self, seq: u64, ticks: u64) {
        self.network.insert(seq, ticks);
    }

    /// Something happens.
    pub fn add(&mut self, step: Step) -> Result<(), String> {
        let is_at_a_pause = self.waits && self.may_pause(&step);
        self.steps.push_back(step);
        let may_be_behind = self.files.is_some() && !is_at_a_pause;
        if may_be_behind && self.steps.len() <= BEHIND_MAX { Ok(()) } else { self.catch_up() }
    }

    /// Whether it may be time for a pause after this.
    fn may_pause(&mut self, step: &Step) -> bool {
        match *step {
            Step::Call { enter, exit: Some(exit), kind, .. } => {
                let ns = self.timeline.may_wait_ns(enter, exit, kind);
                if ns > 0 {
                    self.may_wait.push(Reverse((exit, ns)));
                }
            }
            Step::Until(tsc) => {
                while self.may_wait.peek().is_some_and(|Reverse((exit, _))| *exit <= tsc) {
                    let ns = self.may_wait.pop().map_or(0, |Reverse((_, ns))| ns);
                    self.may_owe = self.may_owe.saturating_add(Duration::from_nanos(ns));
                }
            }
            _ => {}
        }
        self.may_owe.saturating_add(self.owes) >= PAUSE_LEAST
    }

    /// All calls that had ended until this time, in the recording, have been made.
    pub fn made_until(&self) -> u64 {
        self.made_until
    }

    /// Waits until a call is made to which the program has come.
    pub fn make(&mut self, seq: u64) -> Result<(), String> {
        self.files.as_mut().map_or(Ok(()), |files| files.end(seq).map(drop))
    }

    /// Waits until all is known that has happened.
    pub fn catch_up(&mut self) -> Result<(), String> {
        self.let_all_be_made()?;
        while let Some(step) = self.steps.pop_front() {
            self.take(&step)?;
        }
        self.may_owe = Duration::ZERO;
        if self.owes >= PAUSE_LEAST {
            let owed = std::mem::take(&mut self.owes);
            self.pause(owed)?;
        }
        Ok(())
    }

    /// Waits until each thread's last call on files has been made: whoever asked for one after the other would
    /// disturb those that come next.
    fn let_all_be_made(&mut self) -> Result<(), String> {
        let Some(files) = &mut self.files else { return Ok(()) };
        let until = self.steps.iter().rev().find_map(|step| match step {
            Step::Until(tsc) => Some(*tsc),
            _ => None,
        });
        let Some(until) = until else { return Ok(()) };
        let mut last = HashMap::new();
        for step in &self.steps {
            if let Step::Call { thread, seq, exit: Some(exit), kind: Kind::Works, .. } = *step
                && exit <= until
            {
                last.insert(thread, seq);
            }
        }
        last.into_values().try_for_each(|seq| files.end(seq).map(drop))?;
        self.made_until = until;
        Ok(())
    }

    fn take(&mut self, step: &Step) -> Result<(), String> {
        match *step {
            Step::Begin { thread, maker, tsc } => self.timeline.begin(thread, maker, tsc),
            Step::Image { thread, tsc } => self.timeline.image(thread, tsc),
            Step::End { thread } => self.timeline.ends(thread),
            Step::Computed { thread, stood, known_ns } => {
                self.timeline.computed(thread, stood, known_ns);
            }
            Step::Call { thread, seq, enter, exit, kind } => {
                self.timeline.call(thread, seq, enter, exit, kind);
            }
            Step::Until(tsc) => {
                while let Some(open) = self.timeline.next_end(tsc) {
                    let made = match &mut self.files {
                        Some(files) => files.end(open.seq)?,
                        None => None,
                    };
                    let network = self.network.remove(&open.seq);
                    let outside = Duration::from_nanos(self.timeline.end(open, made, network));
                    if self.waits {
                        self.owes = self.owes.saturating_add(outside);
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    const ONE: Processors = Processors { recorded_hz: 1, now_hz: 1, are_alike: true };

    /// Notes of which calls somebody wanted to know that they were made.
    struct Asked(Arc<Mutex<Vec<u64>>>);

    impl Files for Asked {
        fn begin(&mut self, _: u64) {}

        fn end(&mut self, seq: u64) -> Result<Option<u64>, String> {
            self.0.lock().unwrap().push(seq);
            Ok(Some(1))
        }
    }

    #[test]
    fn nobody_asks_for_a_call_before_the_last_one_is_made() {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let files = Box::new(Asked(Arc::clone(&asked)));
        let mut pace = Pace::new(Stimuli::Asap, ONE, Some(files), Arc::default());
        let call = |seq, exit| {
            let (thread, enter, kind) = (1, seq * 10, Kind::Works);
            Step::Call { thread, seq, enter, exit: Some(exit), kind }
        };
        pace.add(Step::Image { thread: 1, tsc: 0 }).unwrap();
        for (seq, exit) in [(1, 15), (2, 25), (3, 35)] {
            pace.add(call(seq, exit)).unwrap();
            pace.add(Step::Until(exit)).unwrap();
        }
        // It has not ended.
        pace.add(call(4, 100)).unwrap();
        pace.add(Step::Until(50)).unwrap();
        assert!(asked.lock().unwrap().is_empty());
        pace.catch_up().unwrap();
        assert_eq!(*asked.lock().unwrap(), [3, 1, 2, 3]);
    }

    #[test]
    fn a_wait_for_the_outside_ends_when_told_to() {
        let told_to_end = Arc::new(AtomicBool::new(false));
        let pace = Pace::new(Stimuli::Recorded, ONE, None, Arc::clone(&told_to_end));
        assert_eq!(pace.pause(Duration::from_millis(1)), Ok(()));
        let ends = std::thread::spawn(move || pace.pause(PAUSE_MAX));
        told_to_end.store(true, Ordering::Relaxed);
        assert!(ends.join().unwrap().is_err());
    }
}
