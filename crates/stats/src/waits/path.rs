//! The critical path: back from the end of a thread, and through those that it waited for.

use std::collections::HashMap;

use model::scheduling::{Doing, Waker};

use super::pieces::Pieces;
use crate::sheet::{Cell, Table, share};

/// Threads that wait for one another.
const DEPTH_MAX: u32 = 32;
/// Steps of a path.
const STEPS_MAX: usize = 1 << 18;

/// A step: what a thread did for a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Step {
    tid: u32,
    doing: Doing,
    from: u64,
    to: u64,
}

/// The path, its last step first.
#[derive(Default)]
pub struct PathTo {
    task: u32,
    steps: Vec<Step>,
}

impl PathTo {
    /// Finds the path of a thread within a range of time.
    pub fn find(pieces: &Pieces, task: u32, since: u64, until: u64) -> PathTo {
        let mut path = PathTo { task, steps: Vec::new() };
        path.goes(pieces, task, since, until, 0);
        path
    }

    fn goes(&mut self, pieces: &Pieces, tid: u32, since: u64, until: u64, depth: u32) {
        for piece in pieces.before(tid, until) {
            if piece.to <= since || self.steps.len() >= STEPS_MAX {
                return;
            }
            let (from, to) = (piece.from.max(since), piece.to.min(until));
            match piece.waker {
                Waker::Thread(other) | Waker::KernelThread(other)
                    if piece.doing.is_blocked()
                        && depth < DEPTH_MAX
                        && other != tid
                        && pieces.knows(other) =>
                {
                    let before = self.steps.len();
                    self.goes(pieces, other, from, to, depth + 1);
                    // What is not known of the other one is a wait.
                    if self.steps.len() == before {
                        self.step(Step { tid, doing: piece.doing, from, to });
                    }
                }
                _ => self.step(Step { tid, doing: piece.doing, from, to }),
            }
        }
    }

    fn step(&mut self, step: Step) {
        match self.steps.last_mut() {
            Some(last) if (last.tid, last.doing, last.from) == (step.tid, step.doing, step.to) => {
                last.from = step.from;
            }
            _ => self.steps.push(step),
        }
    }

    /// The path, and its sums.
    pub fn tables(&self, pieces: &Pieces) -> [Table; 2] {
        let title = format!("Critical path of {}, by what was done", self.task);
        let mut sums: HashMap<(u32, Doing), [u64; 2]> = HashMap::new();
        for step in &self.steps {
            let sum = sums.entry((step.tid, step.doing)).or_default();
            sum[0] += step.to - step.from;
            sum[1] += 1;
        }
        let all = sums.values().map(|sum| sum[0]).sum();
        let mut sums: Vec<((u32, Doing), [u64; 2])> = sums.into_iter().collect();
        sums.sort_by_key(|(key, sum)| (u64::MAX - sum[0], *key));
        let name = |tid: u32| {
            [
                Cell::Id(pieces.process(tid).unwrap_or(tid).into()),
                Cell::Id(tid.into()),
                Cell::Name(pieces.name(tid).to_vec()),
            ]
        };
        let mut by_what = Table::new("critical", title, &SUM_COLUMNS);
        for ((tid, doing), [ns, count]) in sums {
            let mut row = name(tid).to_vec();
            row.extend([
                Cell::word(doing.name()),
                Cell::Count(count),
                Cell::Ns(ns),
                share(ns, all),
            ]);
            by_what.row(row);
        }
        let mut steps = Table::new("critical_path", "Critical path", &STEP_COLUMNS);
        steps.fixed = self.steps.len() <= 40;
        for step in self.steps.iter().rev() {
            let mut row = vec![Cell::At(step.from)];
            row.extend(name(step.tid));
            row.extend([Cell::word(step.doing.name()), Cell::Ns(step.to - step.from)]);
            steps.row(row);
        }
        [by_what, steps]
    }
}

const SUM_COLUMNS: [(&str, &str); 7] = [
    ("pid", "pid"),
    ("tid", "tid"),
    ("name", "thread"),
    ("doing", "does"),
    ("count", "count"),
    ("time_ns", "time"),
    ("share", "share"),
];
const STEP_COLUMNS: [(&str, &str); 6] = [
    ("start_ns", "at"),
    ("pid", "pid"),
    ("tid", "tid"),
    ("name", "thread"),
    ("doing", "does"),
    ("time_ns", "time"),
];
