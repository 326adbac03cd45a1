//! File offsets of accesses over time: single accesses, or their density if there are many.

use std::collections::{HashMap, HashSet};
use std::mem;

use model::{Access, FileId};

use crate::pass::{Visit, Watch};

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

impl Plot {
    /// Returns the accesses of two plots.
    fn merged(self, other: Plot, interval_ns: u64) -> Plot {
        let (mut sum, other) = match (&self.shape, &other.shape) {
            (Shape::Dots(_), Shape::Density { .. }) => (other, self),
            _ => (self, other),
        };
        match other.shape {
            Shape::Dots(dots) => {
                dots.into_iter().for_each(|dot| _ = sum.add(dot, interval_ns));
                if let Shape::Dots(dots) = &mut sum.shape {
                    dots.sort_by_key(|dot| dot.ns);
                }
            }
            Shape::Density { row_bytes, columns } => {
                sum.reads += other.reads;
                sum.writes += other.writes;
                sum.end = sum.end.max(other.end);
                sum.shape.count_all(row_bytes, columns);
            }
        }
        sum
    }
}

impl Shape {
    /// Adds the counts of another file.
    fn count_all(&mut self, mut theirs_bytes: u64, mut theirs: Vec<Option<Box<Column>>>) {
        let Shape::Density { row_bytes, columns } = self else { return };
        while *row_bytes != theirs_bytes {
            let (bytes, narrower) = match *row_bytes < theirs_bytes {
                true => (&mut *row_bytes, &mut *columns),
                false => (&mut theirs_bytes, &mut theirs),
            };
            *bytes *= 2;
            narrower.iter_mut().flatten().for_each(|column| halve(column));
        }
        if columns.len() < theirs.len() {
            columns.resize_with(theirs.len(), || None);
        }
        for (column, theirs) in columns.iter_mut().zip(theirs) {
            let Some(theirs) = theirs else { continue };
            let column = column.get_or_insert_with(|| Box::new([[0; 2]; ROWS]));
            for (cell, more) in column.as_flattened_mut().iter_mut().zip(theirs.as_flattened()) {
                *cell = cell.saturating_add(*more);
            }
        }
    }

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
    /// The wanted files; all files with bytes at offsets if `None`.
    chosen: Option<HashSet<FileId>>,
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

    /// Makes an empty fold for these files.
    pub fn of(interval_ns: u64, files: impl IntoIterator<Item = FileId>) -> Offsets {
        Offsets { chosen: Some(files.into_iter().collect()), ..Offsets::of_all(interval_ns) }
    }

    /// Returns true if there were too many accesses to keep those of all files.
    fn is_too_much(&self) -> bool {
        self.chosen.is_none() && self.bytes > self.bytes_max
    }

    fn access(&mut self, access: &Access, ns: u64) {
        let Some(offset) = access.offset else { return };
        let is_wanted = || self.chosen.as_ref().is_none_or(|files| files.contains(&access.file));
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
    pub fn finish(self) -> Option<Plots> {
        if self.is_too_much() {
            return None;
        }
        let plots = self.plots.into_iter();
        let plots = plots.filter_map(|(file, plot)| Some((file, plot?))).collect();
        Some(Plots { interval_ns: self.interval_ns, plots })
    }
}

/// Accesses by file.
#[derive(Debug, Default)]
pub struct Plots {
    interval_ns: u64,
    plots: HashMap<FileId, Plot>,
}

impl Plots {
    /// Takes the accesses to several files, as if they were one.
    pub fn take(&mut self, files: impl IntoIterator<Item = FileId>) -> Plot {
        let mut plots = files.into_iter().filter_map(|file| self.plots.remove(&file));
        let Some(first) = plots.next() else { return Plot::default() };
        plots.fold(first, |sum, plot| sum.merged(plot, self.interval_ns))
    }
}

impl Watch for Offsets {
    fn add(&mut self, visit: &mut Visit<'_>) {
        if !visit.wanted || self.is_too_much() {
            return;
        }
        for access in visit.moment.touch.accesses.iter().flatten() {
            self.access(access, visit.moment.enter_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{Made, call, open, watch};

    /// Returns the plot of a file, which is the same whether all files are wanted or this one.
    fn look(calls: &[Made]) -> Plot {
        let plot = |fold: Offsets| {
            let (fold, files) = watch(fold, calls);
            let file = files.known_at(b"/work dir/data").expect("a file");
            let mut plots = fold.finish().expect("it is not much");
            let plot = plots.take([file]);
            (plot, file, plots.plots.len())
        };
        let (all, file, others) = plot(Offsets::of_all(1000));
        let (one, _, none) = plot(Offsets::of(1000, [file]));
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
            let (fold, of) = watch(Offsets { bytes_max, ..fold }, &calls);
            (fold.finish().map(|plots| plots.plots.len()), of.known_at(b"/work dir/one"))
        };
        assert_eq!(finish(Offsets::of_all(1000), 3).0, Some(3));
        let (all, one) = finish(Offsets::of_all(1000), 2);
        assert_eq!(all, None);
        assert_eq!(finish(Offsets::of(1000, one), 0).0, Some(1));
    }

    #[test]
    fn files_are_drawn_as_one() {
        let write = |page: i64| call("pwrite64", &[3, 0, 8, page * 4096], 8);
        let few = |name: &str| [open(name, 1, 3), write(1), write(2)];
        let many = |name: &str, step: i64| {
            let writes = (0..2 * DOTS_MAX as i64).map(move |n| write(n * step));
            [open(name, 1, 3)].into_iter().chain(writes).collect::<Vec<_>>()
        };
        let calls =
            [few("a").to_vec(), few("b").to_vec(), many("c", 1), many("d", 9), few("e").to_vec()]
                .concat();
        let (fold, files) = watch(Offsets::of_all(1000), &calls);
        let mut plots = fold.finish().expect("it is not much");
        let ids = ["a", "b", "c", "d", "e"]
            .map(|name| files.known_at(format!("/work dir/{name}").as_bytes()).expect("a file"));
        let count = |plot: &Plot| match &plot.shape {
            Shape::Dots(dots) => dots.len() as u64,
            Shape::Density { columns, .. } => {
                let cells = columns.iter().flatten().flat_map(|column| column.as_flattened());
                cells.map(|cell| u64::from(*cell)).sum()
            }
        };
        let dots = plots.take([ids[1]]).merged(plots.take([ids[0]]), 1000);
        let Shape::Dots(sorted) = &dots.shape else { panic!("these are few") };
        assert!(sorted.is_sorted_by_key(|dot| dot.ns) && sorted.len() == 4);
        let all = plots.take(ids[2..].iter().copied());
        assert_eq!((count(&all), all.writes), (4 * DOTS_MAX as u64 + 2, 4 * DOTS_MAX as u64 + 2));
        assert_eq!(all.end, (2 * DOTS_MAX as u64 - 1) * 9 * 4096 + 8);
    }
}
