//! Threads that end with an exec, and tasks that have been made and have not begun.

use std::sync::atomic::Ordering;

use super::{Bound, News, PATIENCE_MAX, Slots};
use crate::output::Output;

impl Slots {
    /// A thread runs a new program: closes the threads of its process that began before.
    pub fn image(
        &mut self,
        (index, process): (usize, u32),
        tsc: u64,
        out: &mut Output,
        news: &mut Vec<News>,
    ) {
        let mut others = self.in_use();
        others.retain(|&other| other != index && self.process(other) == process);
        // Those of the new program may have begun already.
        others.retain(|&other| self.start(other).is_none_or(|start| start.tsc < tsc));
        // Records later than the exec are left for their turn: the IMAGE may be read late.
        let until = Bound { position: u64::MAX, tsc };
        self.patient = true;
        for _ in 0..PATIENCE_MAX {
            let read = others.iter().map(|&other| self.read_up_to(other, until, out, news));
            if read.sum::<u64>() == 0 {
                break;
            }
        }
        self.patient = false;
        let mut gone = Vec::new();
        for &other in &others {
            self.read_up_to(other, until, out, news);
            if let Some(start) = self.start(other).filter(|start| start.tsc < tsc) {
                gone.push(start.thread);
                self.killed(other, tsc, out, news);
            }
        }
        // A thread without START may have been created after the exec, unless its creator is gone.
        others.retain(|&other| self.start(other).is_none());
        for other in others {
            if gone.contains(&self.shared(other).parent.load(Ordering::Relaxed)) {
                self.killed(other, tsc, out, news);
            }
        }
    }

    /// Ids of tasks that have been made and have not begun, as their makers have them.
    pub fn unborn(&self) -> Vec<u32> {
        let mut found = Vec::new();
        self.each_in_use(|index| {
            let told = self.shared(index).pid_seen.load(Ordering::Acquire);
            if told != 0 && self.start(index).is_none() {
                found.push(told);
            }
            false
        });
        found
    }
}
