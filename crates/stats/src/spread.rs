//! Distributions of sizes and durations: a histogram for each call.

use model::file_use;

use crate::histogram::Histogram;
use crate::numbered::{Numbered, name};
use crate::pass::{Fold, Occasion};
use crate::sheet::{Cell, Fact, Sheet, Table, ratio, share};
use crate::view::ViewRow;

/// The view of sizes.
pub static SIZES: ViewRow = ViewRow {
    name: "sizes",
    about: "How much data a call moves, with a picture of each call",
    look: |look| Ok(look.fold(|| Spread::new(Of::Sizes), |fold| fold.finish().sheet())),
};

/// The view of durations.
pub static LATENCY: ViewRow = ViewRow {
    name: "latency",
    about: "How long a call takes, with a picture of each call",
    look: |look| Ok(look.fold(|| Spread::new(Of::Latency), |fold| fold.finish().sheet())),
};

/// The measured quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// Bytes moved.
    Sizes,
    /// Nanoseconds until the return.
    Latency,
}

/// The fold that measures calls.
#[derive(Clone, Debug)]
pub struct Spread {
    of: Of,
    by_number: Numbered<Histogram>,
}

impl Spread {
    /// Makes an empty fold.
    pub fn new(of: Of) -> Spread {
        Spread { of, by_number: Numbered::default() }
    }

    /// Returns the result, the most frequent call first.
    pub fn finish(self) -> Spreads {
        let mut calls: Vec<(u16, Histogram)> = self.by_number.into_each().collect();
        calls.sort_by(|(a, of_a), (b, of_b)| of_b.count.cmp(&of_a.count).then(a.cmp(b)));
        Spreads { of: self.of, calls }
    }
}

impl Fold for Spread {
    fn add(&mut self, occasion: &Occasion<'_>) {
        let Some(call) = occasion.call() else { return };
        let value = match self.of {
            Of::Sizes => file_use::of(call.nr).moved(call),
            Of::Latency => occasion.duration_ns(),
        };
        if let Some(value) = value {
            self.by_number.at(call.nr).add(value);
        }
    }

    fn merge(&mut self, other: Spread) {
        self.by_number.merge(other.by_number, |mine, theirs| mine.merge(&theirs));
    }
}

/// A histogram for each call.
#[derive(Clone, Debug)]
pub struct Spreads {
    /// The measured quantity.
    pub of: Of,
    /// By call number, the most frequent first.
    pub calls: Vec<(u16, Histogram)>,
}

impl Spreads {
    fn value(&self, value: u64) -> Cell {
        match self.of {
            Of::Sizes => Cell::Bytes(value),
            Of::Latency => Cell::Ns(value),
        }
    }

    /// Returns the result as tables: one of all calls, then a histogram of each.
    pub fn sheet(&self) -> Sheet {
        let (key, title, columns, further, bounds) = match self.of {
            Of::Sizes => (
                "sizes",
                "Bytes moved by a call",
                &SIZE_COLUMNS,
                &["mean", "p90", "p999"],
                ("from", "to"),
            ),
            Of::Latency => (
                "latency",
                "Time in a call",
                &TIME_COLUMNS,
                &["mean_ns", "p90_ns", "p999_ns"],
                ("from_ns", "to_ns"),
            ),
        };
        let mut all = Table::new(key, title, columns).further(further);
        let mut tables = Vec::new();
        for (nr, histogram) in &self.calls {
            let mut row = vec![Cell::Word(name(*nr)), Cell::Count(histogram.count)];
            row.push(self.value(histogram.sum));
            row.push(self.value(histogram.mean()));
            row.extend([0.5, 0.9, 0.99].map(|q| self.value(histogram.quantile(q))));
            row.push(self.value(histogram.max));
            row.push(self.value(histogram.quantile(0.999)));
            all.row(row);
            tables.push(self.picture(*nr, histogram, bounds));
        }
        tables.insert(0, all);
        let count = self.calls.iter().map(|(_, histogram)| histogram.count).sum();
        Sheet {
            facts: vec![Fact { key: "count", title: "calls", value: Cell::Count(count) }],
            tables,
            notes: vec!["Percentiles are accurate to about 6%.".into()],
        }
    }

    fn picture(
        &self,
        nr: u16,
        histogram: &Histogram,
        bounds: (&'static str, &'static str),
    ) -> Table {
        let columns = [(bounds.0, "from"), (bounds.1, ""), ("count", "count"), ("share", "share")];
        let mut table = Table::new("histograms", name(nr), &columns);
        table.columns.push(crate::sheet::Column { key: "", title: " ", further: None });
        (table.fixed, table.one_of_many) = (true, true);
        let bars = histogram.octaves();
        let most = bars.iter().map(|bar| bar.count).max().unwrap_or(0);
        for bar in bars {
            table.row(vec![
                self.value(bar.from),
                self.value(bar.to),
                Cell::Count(bar.count),
                share(bar.count, histogram.count),
                Cell::Bar(ratio(bar.count, most)),
            ]);
        }
        table
    }
}

const SIZE_COLUMNS: [(&str, &str); 9] = [
    ("call", "call"),
    ("count", "count"),
    ("bytes", "total"),
    ("mean", "mean"),
    ("p50", "p50"),
    ("p90", "p90"),
    ("p99", "p99"),
    ("max", "max"),
    ("p999", "p99.9"),
];

const TIME_COLUMNS: [(&str, &str); 9] = [
    ("call", "call"),
    ("count", "count"),
    ("total_ns", "total"),
    ("mean_ns", "mean"),
    ("p50_ns", "p50"),
    ("p90_ns", "p90"),
    ("p99_ns", "p99"),
    ("max_ns", "max"),
    ("p999_ns", "p99.9"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{call, fold};

    #[test]
    fn sizes_count_what_was_moved_and_latency_what_returned() {
        let calls = [
            call("read", &[3, 0, 100], 100).lasts(1000),
            call("read", &[3, 0, 100], 0).lasts(10),
            call("read", &[3, 0, 100], -11).lasts(10),
            call("getppid", &[], 5).lasts(3),
            call("exit_group", &[0], 0).never(),
        ];
        let sizes = fold(Spread::new(Of::Sizes), &calls).finish();
        assert_eq!(sizes.calls.len(), 1);
        assert_eq!((sizes.calls[0].1.count, sizes.calls[0].1.sum), (2, 100));
        let latency = fold(Spread::new(Of::Latency), &calls).finish();
        let read = &latency.calls[0].1;
        assert_eq!((latency.calls.len(), read.count, read.sum), (2, 3, 1020));
        let picture = &latency.sheet().tables[1];
        let counted: f64 = picture.rows.iter().filter_map(|row| row[2].number()).sum();
        assert_eq!((picture.title.as_str(), counted), ("read", 3.0));
    }
}
