//! Views as tables of plain values, the common source of text, CSV, JSON and pictures.

use std::borrow::Cow;

/// A view, ready to be formatted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sheet {
    /// Single values.
    pub facts: Vec<Fact>,
    /// Tables, the most important first.
    pub tables: Vec<Table>,
    /// Explanations of the numbers.
    pub notes: Vec<String>,
}

/// A single value.
#[derive(Clone, Debug, PartialEq)]
pub struct Fact {
    /// Key for programs; hidden from them if empty.
    pub key: &'static str,
    /// Title for people; hidden from them if empty.
    pub title: &'static str,
    /// The value.
    pub value: Cell,
}

/// A table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Key for programs.
    pub key: &'static str,
    /// Title for people.
    pub title: String,
    /// Descriptions of the columns.
    pub columns: Vec<Column>,
    /// The rows, each with one cell per column.
    pub rows: Vec<Vec<Cell>>,
    /// True if all rows are printed in this order, whatever the user asks.
    pub fixed: bool,
    /// True if the text output has a block of lines for each row.
    pub blocks: bool,
    /// True if several tables have this key, told apart by title.
    pub one_of_many: bool,
}

/// Description of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Key for programs; hidden from them if empty.
    pub key: &'static str,
    /// Title for people; hidden from them if empty.
    pub title: &'static str,
    /// Its group, if a terminal shows it only where there is room: a group is shown as a whole, the
    /// first groups first. Without such columns, a table has room in 80 characters.
    pub further: Option<usize>,
}

/// A value with its unit.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// No value.
    Nothing,
    /// A count.
    Count(u64),
    /// A number that names something: a process, a thread. Its digits are not grouped.
    Id(u64),
    /// A number of bytes.
    Bytes(u64),
    /// A duration in nanoseconds.
    Ns(u64),
    /// A time in nanoseconds since the start of the recording.
    At(u64),
    /// A share, 0 to 1.
    Share(f64),
    /// A number with a fraction.
    Number(f64),
    /// How much more there is of something, or less.
    Change(Unit, i64),
    /// By which part there is more of something, or less: 0.5 is half as much again.
    ChangeShare(f64),
    /// A share, 0 to 1, drawn as a bar.
    Bar(f64),
    /// A name from the recording, not trusted.
    Name(Vec<u8>),
    /// A name from the recording, at this depth of a tree.
    Branch(u32, Vec<u8>),
    /// A word from this program.
    Word(Cow<'static, str>),
    /// A line as `show` prints it: names in it are harmless already.
    Line(String),
    /// Words from this program, each with a count.
    Counts(Vec<(Cow<'static, str>, u64)>),
}

/// What a change is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Things.
    Count,
    /// Bytes.
    Bytes,
    /// Nanoseconds.
    Ns,
}

impl Cell {
    /// Makes a word from a static string.
    pub fn word(word: &'static str) -> Cell {
        Cell::Word(Cow::Borrowed(word))
    }

    /// Returns the number to sort by.
    pub fn number(&self) -> Option<f64> {
        match self {
            Cell::Count(n) | Cell::Id(n) | Cell::Bytes(n) | Cell::Ns(n) | Cell::At(n) => {
                Some(*n as f64)
            }
            Cell::Share(n) | Cell::Number(n) | Cell::Bar(n) => Some(*n),
            // The greatest changes come first, in either direction.
            Cell::Change(_, n) => Some(n.unsigned_abs() as f64),
            Cell::ChangeShare(n) => Some(n.abs()),
            Cell::Counts(counts) => Some(counts.iter().map(|(_, n)| *n as f64).sum()),
            Cell::Nothing | Cell::Name(_) | Cell::Branch(..) | Cell::Word(_) | Cell::Line(_) => {
                None
            }
        }
    }
}

impl Cell {
    /// Returns the bytes to sort names by.
    fn name(&self) -> &[u8] {
        match self {
            Cell::Name(name) | Cell::Branch(_, name) => name,
            Cell::Word(word) => word.as_bytes(),
            Cell::Line(line) => line.as_bytes(),
            _ => &[],
        }
    }
}

/// Makes a duration, or an empty cell.
impl From<Option<u64>> for Cell {
    fn from(ns: Option<u64>) -> Cell {
        ns.map_or(Cell::Nothing, Cell::Ns)
    }
}

/// Returns a share as a cell, an empty one if `whole` is 0: of nothing there is no share.
pub fn share(part: u64, whole: u64) -> Cell {
    if whole == 0 { Cell::Nothing } else { Cell::Share(ratio(part, whole)) }
}

/// Returns a share as a number, 0 if `whole` is 0.
pub fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

impl Table {
    /// Makes a table without rows.
    pub fn new(
        key: &'static str,
        title: impl Into<String>,
        columns: &[(&'static str, &'static str)],
    ) -> Table {
        let column = |&(key, title)| Column { key, title, further: None };
        let columns = columns.iter().map(column).collect();
        Table { key, title: title.into(), columns, rows: Vec::new(), ..Table::default() }
    }

    /// Names the columns that a terminal shows only where there is room, by their keys: each by itself, in
    /// the order of the table.
    pub fn further(mut self, keys: &[&str]) -> Table {
        keys.iter().for_each(|key| self.sets_further(key, |at| at));
        self
    }

    /// Names groups of such columns, the first of which is shown first.
    pub fn further_groups(mut self, groups: &[&[&str]]) -> Table {
        for (group, keys) in groups.iter().enumerate() {
            keys.iter().for_each(|key| self.sets_further(key, |_| group));
        }
        self
    }

    fn sets_further(&mut self, key: &str, group: impl Fn(usize) -> usize) {
        let at = self.columns.iter().position(|column| column.key == key);
        debug_assert!(at.is_some(), "{} has no column {key}", self.key);
        if let Some(at) = at {
            self.columns[at].further = Some(group(at));
        }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<Cell>) {
        debug_assert_eq!(cells.len(), self.columns.len(), "{}", self.key);
        self.rows.push(cells);
    }

    /// Sorts the rows by a column, highest numbers first, names ascending; with `-` in front of it the
    /// other way round. What has no value is last. Returns false if there is no such column.
    pub fn sort(&mut self, key: &str) -> bool {
        let (key, is_reversed) = key.strip_prefix('-').map_or((key, false), |key| (key, true));
        let place = |of: fn(&Column) -> &'static str| {
            self.columns.iter().position(|column| of(column) == key && !key.is_empty())
        };
        let Some(at) = place(|column| column.key).or_else(|| place(|column| column.title)) else {
            return false;
        };
        self.rows.sort_by(|a, b| {
            let (a, b) = (&a[at], &b[at]);
            let order = match (a.number(), b.number()) {
                (Some(a), Some(b)) => b.total_cmp(&a),
                (None, None) => a.name().cmp(b.name()),
                (a, b) => return b.is_some().cmp(&a.is_some()),
            };
            if is_reversed { order.reverse() } else { order }
        });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_nothing_there_is_no_share() {
        assert_eq!((share(0, 0), share(0, 5)), (Cell::Nothing, Cell::Share(0.0)));
    }

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
        assert!(table.sort("-name"));
        assert_eq!(names(&table), [b"c", b"b", b"a"]);
        assert!(table.sort("-count"));
        assert_eq!(names(&table), [b"b", b"a", b"c"]);
        assert!(!table.sort("nothing") && !table.sort("-"));
    }
}
