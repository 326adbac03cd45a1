//! Use of files in steps of time.

use std::collections::{BTreeMap, HashMap};

use model::FileId;

use super::used::Used;

/// Limit for the files by steps of time. Beyond it the steps become twice as wide.
const CELLS_MAX: usize = 1 << 16;
/// Limit for the steps, and how often they become wider until there is one.
const STEPS_MAX: u64 = 1 << WIDENED_MAX;
const WIDENED_MAX: u32 = 9;

/// Use of files in steps of time.
pub struct OverTime {
    interval_ns: u64,
    step: u64,
    widened: u32,
    cells: HashMap<(FileId, u64), Used>,
    is_whole: bool,
}

impl OverTime {
    /// Makes steps of this width.
    pub fn new(interval_ns: u64) -> OverTime {
        let interval_ns = interval_ns.max(1);
        OverTime { interval_ns, step: 0, widened: 0, cells: HashMap::new(), is_whole: true }
    }

    /// Moves to the step of a time.
    pub fn at(&mut self, ns: u64) {
        self.step = (ns / self.interval_ns).min(STEPS_MAX - 1);
    }

    /// Counts more use of a file in the current step.
    pub fn add(&mut self, file: FileId, more: &Used) {
        while self.cells.len() >= CELLS_MAX && !self.cells.contains_key(&(file, self.step)) {
            if self.widened >= WIDENED_MAX {
                self.is_whole = false;
                return;
            }
            self.widen();
        }
        self.cells.entry((file, self.step)).or_default().add(more);
    }

    /// Makes steps twice as wide.
    fn widen(&mut self) {
        self.interval_ns = self.interval_ns.saturating_mul(2);
        self.step /= 2;
        self.widened += 1;
        for ((file, step), used) in std::mem::take(&mut self.cells) {
            self.cells.entry((file, step / 2)).or_default().add(&used);
        }
    }

    /// Returns the use of each file, which are told by their places.
    pub fn finish(self, places: &HashMap<FileId, usize>) -> UsedOverTime {
        let mut by_place: BTreeMap<usize, BTreeMap<u64, Used>> = BTreeMap::new();
        for ((file, step), used) in self.cells {
            if let Some(place) = places.get(&file) {
                by_place.entry(*place).or_default().entry(step).or_default().add(&used);
            }
        }
        UsedOverTime { interval_ns: self.interval_ns, by_place, is_whole: self.is_whole }
    }
}

/// Use of files in steps of time.
pub struct UsedOverTime {
    /// Width of a step.
    pub interval_ns: u64,
    /// For each file its use by step; of files that were not used in a step there is none.
    pub by_place: BTreeMap<usize, BTreeMap<u64, Used>>,
    /// False if there were too many files to follow all.
    pub is_whole: bool,
}

impl UsedOverTime {
    /// Returns the chosen files alone, in steps that are so wide that there are no more cells.
    pub fn widened(&self, is_chosen: impl Fn(usize) -> bool, cells_max: usize) -> UsedOverTime {
        let chosen = self.by_place.iter().filter(|(place, _)| is_chosen(**place));
        let by_place = chosen.map(|(place, steps)| (*place, steps.clone())).collect();
        let mut all = UsedOverTime { by_place, ..*self };
        all.widen(cells_max);
        all
    }

    fn widen(&mut self, cells_max: usize) {
        let is_much =
            |of: &UsedOverTime| of.by_place.values().map(BTreeMap::len).sum::<usize>() > cells_max;
        while is_much(self) && self.by_place.values().flatten().any(|(step, _)| *step > 0) {
            self.interval_ns = self.interval_ns.saturating_mul(2);
            for steps in self.by_place.values_mut() {
                for (step, used) in std::mem::take(steps) {
                    steps.entry(step / 2).or_default().add(&used);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_bounded() {
        let mut over_time = OverTime::new(1);
        for n in 0..2 * CELLS_MAX {
            over_time.at(n as u64);
            over_time.add(FileId::at(n), &Used::default());
        }
        assert!(over_time.cells.len() <= CELLS_MAX && !over_time.is_whole);
    }
}
