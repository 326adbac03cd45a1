//! File offsets of accesses over time: single accesses, or their density if there are many.

use std::collections::{HashMap, HashSet};
use std::mem;

use crate::pass::{Visit, Watch};
use crate::tracker::{Access, FileId, Tracker};

/// Limit for the accesses of a file that are kept one by one; beyond it, only densities are.
pub const DOTS_MAX: usize = 500;
/// Limit for the time steps; later events count in the last one.
const STEPS_MAX: u64 = 512;
/// Number of rows that a file is divided into; their width grows with the offsets.
pub const ROWS: usize = 64;
/// Initial width of a row.
const ROW_BYTES: u64 = 64;
/// Limit for the bytes of all plots, as long as it is not known which files are wanted.
const BYTES_MAX: usize = 64 << 20;

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
    /// Adds an access. Returns the number of bytes by which the plot grew.
    fn add(&mut self, dot: Dot, interval_ns: u64) -> usize {
        self.reads += u64::from(!dot.is_write);
        self.writes += u64::from(dot.is_write);
        self.end = self.end.max(dot.offset.saturating_add(dot.bytes));
        match &mut self.shape {
            Shape::Dots(dots) if dots.len() < DOTS_MAX => {
                dots.push(dot);
                size_of::<Dot>()
            }
            Shape::Dots(dots) => {
                let dots = mem::take(dots);
                self.shape = Shape::Density { row_bytes: ROW_BYTES, columns: Vec::new() };
                let all = dots.iter().chain([&dot]);
                all.map(|dot| self.shape.count(dot, interval_ns)).sum()
            }
            Shape::Density { .. } => self.shape.count(&dot, interval_ns),
        }
    }
}

impl Shape {
    /// Counts an access. Returns the number of bytes by which the shape grew.
    fn count(&mut self, dot: &Dot, interval_ns: u64) -> usize {
        let Shape::Density { row_bytes, columns } = self else { return 0 };
        while dot.offset / *row_bytes >= ROWS as u64 {
            *row_bytes *= 2;
            columns.iter_mut().flatten().for_each(|column| halve(column));
        }
        let step = (dot.ns / interval_ns).min(STEPS_MAX - 1) as usize;
        if columns.len() <= step {
            columns.resize_with(step + 1, || None);
        }
        let grown = if columns[step].is_none() { size_of::<Column>() } else { 0 };
        let column = columns[step].get_or_insert_with(|| Box::new([[0; 2]; ROWS]));
        let cell = &mut column[(dot.offset / *row_bytes) as usize][usize::from(dot.is_write)];
        *cell = cell.saturating_add(1);
        grown
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

/// The fold that tracks the accesses to files.
pub struct Offsets {
    interval_ns: u64,
    /// Paths of the wanted files; all files with bytes at offsets if `None`.
    chosen: Option<HashSet<Vec<u8>>>,
    /// Plot of each file seen, `None` if it is not wanted.
    plots: HashMap<FileId, Option<Plot>>,
    bytes: usize,
    bytes_max: usize,
}

impl Offsets {
    /// Makes an empty fold for all files. Densities have time steps of this width.
    pub fn of_all(interval_ns: u64) -> Offsets {
        Offsets {
            interval_ns: interval_ns.max(1),
            chosen: None,
            plots: HashMap::new(),
            bytes: 0,
            bytes_max: BYTES_MAX,
        }
    }

    /// Makes an empty fold for the files with these paths.
    pub fn of(interval_ns: u64, paths: impl IntoIterator<Item = Vec<u8>>) -> Offsets {
        Offsets { chosen: Some(paths.into_iter().collect()), ..Offsets::of_all(interval_ns) }
    }

    /// Returns true if there were too many accesses to keep those of all files.
    fn is_too_much(&self) -> bool {
        self.chosen.is_none() && self.bytes > self.bytes_max
    }

    fn access(&mut self, access: &Access, ns: u64, files: &Tracker) {
        let Some(offset) = access.offset else { return };
        let is_wanted = || match &self.chosen {
            Some(chosen) => chosen.contains(&files.file(access.file).path),
            None => true,
        };
        let plot = self.plots.entry(access.file);
        let Some(plot) = plot.or_insert_with(|| is_wanted().then(Plot::default)) else { return };
        let dot = Dot { ns, offset, bytes: access.bytes, is_write: access.is_write };
        self.bytes += plot.add(dot, self.interval_ns);
        if self.is_too_much() {
            self.plots = HashMap::new();
        }
    }

    /// Returns the accesses to each file that has any; `None` if there were too many to keep those
    /// of all files, and it must be said which are wanted.
    pub fn finish(self) -> Option<HashMap<FileId, Plot>> {
        if self.is_too_much() {
            return None;
        }
        let plots = self.plots.into_iter();
        Some(plots.filter_map(|(file, plot)| Some((file, plot?))).collect())
    }
}

impl Watch for Offsets {
    fn add(&mut self, visit: &mut Visit<'_>) {
        if !visit.wanted || self.is_too_much() {
            return;
        }
        for access in visit.touch.accesses.iter().flatten() {
            self.access(access, visit.moment.enter_ns, visit.files);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{Made, call, open, watch};

    /// Returns the plot of a file, which is the same whether all files are wanted or this one.
    fn look(calls: &[Made]) -> Plot {
        let path = b"/work dir/data".to_vec();
        let plot = |fold: Offsets| {
            let (fold, mut files) = watch(fold, calls);
            let mut plots = fold.finish().expect("it is not much");
            (plots.remove(&files.number(&path)).expect("a plot"), plots.len())
        };
        let (all, others) = plot(Offsets::of_all(1000));
        let (one, none) = plot(Offsets::of(1000, [path.clone()]));
        assert_eq!((format!("{one:?}"), none, others > 0), (format!("{all:?}"), 0, true));
        one
    }

    #[test]
    fn few_accesses_are_kept() {
        let plot = look(&[
            open("data", 2, 3),
            open("unwanted", 2, 4),
            call("pwrite64", &[3, 0, 10, 700], 10),
            call("read", &[3, 0, 5], 5),
            call("read", &[4, 0, 5], 5),
        ]);
        let Shape::Dots(dots) = &plot.shape else { panic!("these are few") };
        let write = Dot { ns: 3000, offset: 700, bytes: 10, is_write: true };
        assert_eq!(dots[..], [write, Dot { ns: 4000, offset: 0, bytes: 5, is_write: false }]);
        assert_eq!((plot.reads, plot.writes, plot.end), (1, 1, 710));
    }

    #[test]
    fn many_accesses_are_counted() {
        let count = 3 * DOTS_MAX as i64;
        let mut calls = vec![open("data", 2, 3), open("other", 0, 4)];
        calls.push(call("read", &[4, 0, 5], 5));
        calls.extend((0..count).map(|n| call("pread64", &[3, 0, 8, n * 4096], 8)));
        calls.push(call("pwrite64", &[3, 0, 8, i64::MAX], 8));
        let plot = look(&calls);
        let Shape::Density { row_bytes, columns } = &plot.shape else { panic!("many") };
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

    #[test]
    fn too_much_of_all_files_is_let_go() {
        let reads = |name: &str| {
            let reads = (0..100).map(|_| call("read", &[3, 0, 5], 5));
            [open(name, 0, 3)].into_iter().chain(reads).collect::<Vec<_>>()
        };
        let calls = [reads("one"), reads("other"), reads("third")].concat();
        let finish = |fold, files: usize| {
            let bytes_max = files * 100 * size_of::<Dot>();
            watch(Offsets { bytes_max, ..fold }, &calls).0.finish().map(|plots| plots.len())
        };
        assert_eq!(finish(Offsets::of_all(1000), 3), Some(3));
        assert_eq!(finish(Offsets::of_all(1000), 2), None);
        assert_eq!(finish(Offsets::of(1000, [b"/work dir/one".to_vec()]), 0), Some(1));
    }
}
