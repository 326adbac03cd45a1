//! Views as tables of plain values: what text, CSV, JSON and pictures are all made from.

use std::borrow::Cow;

/// A view, ready to be shown.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sheet {
    /// Single values.
    pub facts: Vec<Fact>,
    /// Tables, the most important first.
    pub tables: Vec<Table>,
    /// What a reader should know about the numbers.
    pub notes: Vec<String>,
}

/// A single value.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    /// For programs.
    pub key: &'static str,
    /// For people; empty: not for them.
    pub title: &'static str,
    /// The value.
    pub value: Cell,
}

/// Rows of values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// For programs.
    pub key: &'static str,
    /// For people.
    pub title: String,
    /// What each value of a row is.
    pub columns: Vec<Column>,
    /// As many values each as there are columns.
    pub rows: Vec<Vec<Cell>>,
    /// The rows keep their order and none is left out, whatever the user asks.
    pub fixed: bool,
    /// People get a block of lines for each row.
    pub blocks: bool,
    /// It is one of several with this key; the title tells which.
    pub one_of_many: bool,
}

/// What the values of a column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// For programs; empty: only for people.
    pub key: &'static str,
    /// For people; empty: not for them.
    pub title: &'static str,
}

/// A value with its unit.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// There is none.
    Nothing,
    /// How many.
    Count(u64),
    /// A number of bytes.
    Bytes(u64),
    /// A time in nanoseconds.
    Ns(u64),
    /// An instant, in nanoseconds from the start of the recording.
    At(u64),
    /// A part of a whole, 0 to 1.
    Share(f64),
    /// A number that may be broken.
    Number(f64),
    /// A part of a whole, 0 to 1, to be drawn.
    Bar(f64),
    /// A name that the program chose; it may be hostile.
    Name(Vec<u8>),
    /// The same, within a tree at this depth.
    Branch(u32, Vec<u8>),
    /// A word of ours.
    Word(Cow<'static, str>),
    /// Names of ours with how often each came.
    Counts(Vec<(Cow<'static, str>, u64)>),
}

impl Cell {
    /// A word that stands in the program.
    pub fn word(word: &'static str) -> Cell {
        Cell::Word(Cow::Borrowed(word))
    }

    /// A number that rows can be sorted by.
    pub fn number(&self) -> Option<f64> {
        match self {
            Cell::Count(n) | Cell::Bytes(n) | Cell::Ns(n) | Cell::At(n) => Some(*n as f64),
            Cell::Share(n) | Cell::Number(n) | Cell::Bar(n) => Some(*n),
            Cell::Counts(counts) => Some(counts.iter().map(|(_, n)| *n as f64).sum()),
            Cell::Nothing | Cell::Name(_) | Cell::Branch(..) | Cell::Word(_) => None,
        }
    }
}

impl Cell {
    /// The bytes that names are sorted by.
    fn name(&self) -> &[u8] {
        match self {
            Cell::Name(name) | Cell::Branch(_, name) => name,
            Cell::Word(word) => word.as_bytes(),
            _ => &[],
        }
    }
}

/// A time that may be missing.
impl From<Option<u64>> for Cell {
    fn from(ns: Option<u64>) -> Cell {
        ns.map_or(Cell::Nothing, Cell::Ns)
    }
}

/// A part of a whole; 0 of nothing.
pub fn share(part: u64, whole: u64) -> Cell {
    Cell::Share(ratio(part, whole))
}

/// As [`share`], as a number.
pub fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

impl Table {
    /// A table without rows.
    pub fn new(
        key: &'static str,
        title: impl Into<String>,
        columns: &[(&'static str, &'static str)],
    ) -> Table {
        let columns = columns.iter().map(|&(key, title)| Column { key, title }).collect();
        Table { key, title: title.into(), columns, rows: Vec::new(), ..Table::default() }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<Cell>) {
        debug_assert_eq!(cells.len(), self.columns.len(), "{}", self.key);
        self.rows.push(cells);
    }

    /// Sorts the rows by a column: the highest number first, names in their order. Tells whether
    /// there is such a column.
    pub fn sort(&mut self, key: &str) -> bool {
        let Some(at) = self.columns.iter().position(|column| column.key == key) else {
            return false;
        };
        self.rows.sort_by(|a, b| {
            let (a, b) = (&a[at], &b[at]);
            match (a.number(), b.number()) {
                (Some(a), Some(b)) => b.total_cmp(&a),
                (None, None) => a.name().cmp(b.name()),
                (a, b) => b.is_some().cmp(&a.is_some()),
            }
        });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_by_numbers_and_names() {
        let mut table = Table::new("t", "T", &[("name", "name"), ("count", "count")]);
        for (name, count) in [("b", Cell::Count(1)), ("a", Cell::Count(9)), ("c", Cell::Nothing)] {
            table.row(vec![Cell::Name(name.into()), count]);
        }
        let names = |table: &Table| -> Vec<Vec<u8>> {
            table.rows.iter().map(|row| row[0].name().to_vec()).collect()
        };
        assert!(table.sort("count"));
        assert_eq!(names(&table), [b"a", b"b", b"c"]);
        assert!(table.sort("name"));
        assert_eq!(names(&table), [b"a", b"b", b"c"]);
        assert!(!table.sort("nothing"));
    }
}
