//! What happens, until it is known what calls on files have taken: they may be made a little later than
//! the program comes to them, as long as they come in the same order.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ring::Standing;

use crate::files::Files;
use crate::timeline::{Kind, Stimuli, Timeline, Times};

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
    /// `hz`: ticks per second of the recording, and of this machine.
    pub fn new(
        stimuli: Stimuli,
        hz: (u64, u64),
        files: Option<Box<dyn Files + Send>>,
        told_to_end: Arc<AtomicBool>,
    ) -> Pace {
        let waits = files.is_some() && stimuli == Stimuli::Recorded;
        Pace {
            timeline: Timeline::new(stimuli, hz.0, hz.1),
            files,
            steps: VecDeque::new(),
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

    /// Waits until all is known that has happened.
    pub fn catch_up(&mut self) -> Result<(), String> {
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
    use super::*;

    #[test]
    fn a_wait_for_the_outside_ends_when_told_to() {
        let told_to_end = Arc::new(AtomicBool::new(false));
        let pace = Pace::new(Stimuli::Recorded, (1, 1), None, Arc::clone(&told_to_end));
        assert_eq!(pace.pause(Duration::from_millis(1)), Ok(()));
        let ends = std::thread::spawn(move || pace.pause(PAUSE_MAX));
        told_to_end.store(true, Ordering::Relaxed);
        assert!(ends.join().unwrap().is_err());
    }
}
