//! File offsets of accesses over time: single accesses, or their density if there are many.

use std::collections::HashMap;

use model::{Contents, Moment};
use trace::event::EventKind;

use crate::pass::Watch;
use crate::role;
use crate::tracker::{Access, FileId, Tracker};

/// Limit for the accesses of a file that are kept one by one; beyond it, only densities are.
pub const DOTS_MAX: usize = 500;
/// Limit for the time steps; later events count in the last one.
const STEPS_MAX: u64 = 512;
/// Number of rows that a file is divided into; their width grows with the offsets.
pub const ROWS: usize = 64;
/// Initial width of a row.
const ROW_BYTES: u64 = 64;

/// One access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dot {
    /// Start time.
    pub ns: u64,
    /// File offset.
    pub offset: u64,
    /// Number of bytes.
    pub bytes: u64,
    /// True for a write, false for a read.
    pub is_write: bool,
}

/// Number of reads and of writes that begin in each row.
pub type Column = [[u32; 2]; ROWS];

/// The accesses of a file.
#[derive(Clone, Debug)]
pub enum Shape {
    /// All accesses.
    Dots(Vec<Dot>),
    /// Number of accesses, for each time step that has any.
    Density {
        /// Width of a row in bytes.
        row_bytes: u64,
        /// Counts by step.
        columns: Vec<Option<Box<Column>>>,
    },
}

/// Accesses to one file.
#[derive(Clone, Debug)]
pub struct Plot {
    /// Number of reads.
    pub reads: u64,
    /// Number of writes.
    pub writes: u64,
    /// The highest end of an access.
    pub end: u64,
    /// The accesses.
    pub shape: Shape,
}

impl Default for Plot {
    fn default() -> Plot {
        Plot { reads: 0, writes: 0, end: 0, shape: Shape::Dots(Vec::new()) }
    }
}

impl Plot {
    fn add(&mut self, dot: Dot, interval_ns: u64) {
        self.reads += u64::from(!dot.is_write);
        self.writes += u64::from(dot.is_write);
        self.end = self.end.max(dot.offset.saturating_add(dot.bytes));
        match &mut self.shape {
            Shape::Dots(dots) if dots.len() < DOTS_MAX => dots.push(dot),
            Shape::Dots(dots) => {
                let dots = std::mem::take(dots);
                self.shape = Shape::Density { row_bytes: ROW_BYTES, columns: Vec::new() };
                dots.into_iter().for_each(|dot| self.shape.count(&dot, interval_ns));
                self.shape.count(&dot, interval_ns);
            }
            Shape::Density { .. } => self.shape.count(&dot, interval_ns),
        }
    }
}

impl Shape {
    fn count(&mut self, dot: &Dot, interval_ns: u64) {
        let Shape::Density { row_bytes, columns } = self else { return };
        while dot.offset / *row_bytes >= ROWS as u64 {
            *row_bytes *= 2;
            columns.iter_mut().flatten().for_each(|column| halve(column));
        }
        let step = (dot.ns / interval_ns).min(STEPS_MAX - 1) as usize;
        if columns.len() <= step {
            columns.resize_with(step + 1, || None);
        }
        let column = columns[step].get_or_insert_with(|| Box::new([[0; 2]; ROWS]));
        let cell = &mut column[(dot.offset / *row_bytes) as usize][usize::from(dot.is_write)];
        *cell = cell.saturating_add(1);
    }
}

/// Merges pairs of rows, to double their width.
fn halve(column: &mut Column) {
    for row in 0..ROWS {
        let pair = column.get(2 * row).zip(column.get(2 * row + 1));
        column[row] = match pair {
            Some((a, b)) => [a[0].saturating_add(b[0]), a[1].saturating_add(b[1])],
            None => [0; 2],
        };
    }
}

/// The fold that tracks the accesses to chosen files.
pub struct Offsets {
    tracker: Tracker,
    interval_ns: u64,
    /// Index of each chosen file, by path.
    chosen: HashMap<Vec<u8>, usize>,
    /// Index of each file seen, `None` if it is not chosen.
    known: HashMap<FileId, Option<usize>>,
    plots: Vec<Plot>,
}

impl Offsets {
    /// Makes an empty fold for the chosen files. Densities have time steps of this width.
    pub fn new(interval_ns: u64, chosen: Vec<Vec<u8>>) -> Offsets {
        Offsets {
            tracker: Tracker::new(),
            interval_ns: interval_ns.max(1),
            plots: vec![Plot::default(); chosen.len()],
            chosen: chosen.into_iter().enumerate().map(|(place, path)| (path, place)).collect(),
            known: HashMap::new(),
        }
    }

    fn place(&mut self, file: FileId) -> Option<usize> {
        let (tracker, chosen) = (&self.tracker, &self.chosen);
        let find = || chosen.get(&tracker.file(file).path).copied();
        *self.known.entry(file).or_insert_with(find)
    }

    fn access(&mut self, access: &Access, ns: u64) {
        let (Some(offset), Some(place)) = (access.offset, self.place(access.file)) else { return };
        let dot = Dot { ns, offset, bytes: access.bytes, is_write: access.is_write };
        self.plots[place].add(dot, self.interval_ns);
    }

    /// Returns the accesses to the chosen files, in the order of `chosen`.
    pub fn finish(self) -> Vec<Plot> {
        self.plots
    }
}

impl Watch for Offsets {
    fn add(&mut self, moment: &Moment<'_>, wanted: bool, contents: &mut dyn Contents) {
        let EventKind::Call(call) = &moment.event.kind else { return };
        let role = role::of(call.nr);
        if role.fd.is_none() && !role.by_path {
            return;
        }
        let touch = self.tracker.look(moment, call, contents);
        for access in touch.accesses.iter().flatten().filter(|_| wanted) {
            self.access(access, moment.enter_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{Made, call, open, watch};

    fn look(calls: &[Made]) -> Vec<Plot> {
        let chosen = vec![b"/work dir/other".to_vec(), b"/work dir/data".to_vec()];
        watch(Offsets::new(1000, chosen), calls).finish()
    }

    #[test]
    fn few_accesses_are_kept() {
        let plots = look(&[
            open("data", 2, 3),
            open("unwanted", 2, 4),
            call("pwrite64", &[3, 0, 10, 700], 10),
            call("read", &[3, 0, 5], 5),
            call("read", &[4, 0, 5], 5),
        ]);
        let Shape::Dots(dots) = &plots[1].shape else { panic!("these are few") };
        let write = Dot { ns: 3000, offset: 700, bytes: 10, is_write: true };
        assert_eq!(dots[..], [write, Dot { ns: 4000, offset: 0, bytes: 5, is_write: false }]);
        assert_eq!((plots[1].reads, plots[1].writes, plots[1].end), (1, 1, 710));
        assert_eq!(plots[0].reads + plots[0].writes, 0);
    }

    #[test]
    fn many_accesses_are_counted() {
        let count = 3 * DOTS_MAX as i64;
        let mut calls = vec![open("data", 2, 3)];
        calls.extend((0..count).map(|n| call("pread64", &[3, 0, 8, n * 4096], 8)));
        calls.push(call("pwrite64", &[3, 0, 8, i64::MAX], 8));
        let plots = look(&calls);
        let Shape::Density { row_bytes, columns } = &plots[1].shape else { panic!("many") };
        assert_eq!(i64::MAX as u64 / row_bytes, ROWS as u64 - 1);
        let all = columns.iter().flatten().flat_map(|column| column.iter());
        let sum = all.fold([0, 0], |sum, cell| [sum[0] + cell[0], sum[1] + cell[1]]);
        assert_eq!(sum, [count as u32, 1]);
        assert!(columns.len() as u64 <= STEPS_MAX);
    }

    #[test]
    fn rows_are_halved_from_below() {
        let mut column = [[0; 2]; ROWS];
        (0..ROWS).for_each(|row| column[row] = [row as u32, 1]);
        halve(&mut column);
        assert_eq!((column[0], column[1], column[31]), ([1, 2], [5, 2], [125, 2]));
        assert_eq!(column[32], [0; 2]);
    }
}
