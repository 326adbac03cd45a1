//! A table: its columns, and the rows that nobody has taken yet; and which tables are wanted.

use model::Conditions;

use crate::batch::Batch;
use crate::schema::Field;

/// What the names of the tables of single calls begin with: `call/openat`.
pub const CALL: &str = "call";
/// Name of the table for calls without a row; no kernel call has this name.
pub const UNKNOWN: &str = "unknown";

/// A table of a recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Every call, with what all calls have.
    Calls,
    /// The calls of one kind, by number, with their own arguments; `None` for those without a row.
    Call(Option<u16>),
    /// Processes.
    Processes,
    /// What existing files were at their first use.
    Files,
    /// Each distinct buffer once.
    Data,
    /// What is no call.
    Events,
    /// Events of the kernel.
    Kernel,
    /// What each thread did from when to when.
    States,
}

impl Kind {
    /// The tables that are not of a single call.
    pub const FIXED: [Kind; 7] = [
        Kind::Calls,
        Kind::Processes,
        Kind::Files,
        Kind::Data,
        Kind::Events,
        Kind::Kernel,
        Kind::States,
    ];

    /// Returns the name of the table.
    pub fn name(self) -> String {
        match self {
            Kind::Calls => "calls".into(),
            Kind::Call(number) => format!("{CALL}/{}", own_name(number)),
            Kind::Processes => "processes".into(),
            Kind::Files => "files".into(),
            Kind::Data => "data".into(),
            Kind::Events => "events".into(),
            Kind::Kernel => "kernel".into(),
            Kind::States => "states".into(),
        }
    }
}

/// Returns the name of the table of one call, below [`CALL`].
fn own_name(number: Option<u16>) -> &'static str {
    number.and_then(|nr| syscalls::by_number(nr.into())).map_or(UNKNOWN, |row| row.name)
}

/// Which rows and columns are wanted.
#[derive(Clone, Default, Debug)]
pub struct Choice {
    /// The only table that is wanted, all if `None`.
    pub table: Option<Kind>,
    /// The wanted columns of that table, all if `None`.
    pub columns: Option<Vec<String>>,
    /// True if the bytes of buffers are wanted in the table `data`.
    pub content: bool,
    /// True if `calls` has a column more, [`Choice::DATA`], with the bytes of the data that a call carried.
    pub data: bool,
    /// Of `states`, which has no rows of events: what threads did from `since_ns` on; those of `pids` and
    /// `tids` alone.
    pub states: Conditions,
}

impl Choice {
    /// Name of the column that [`Choice::data`] adds.
    pub const DATA: &str = "data";

    /// Returns true if rows of a table are wanted.
    pub fn has(&self, kind: Kind) -> bool {
        self.table.is_none_or(|table| table == kind)
    }

    /// Returns true if a column is wanted.
    pub fn has_column(&self, name: &str) -> bool {
        self.columns.as_ref().is_none_or(|columns| columns.iter().any(|column| column == name))
    }
}

/// One table and its rows.
pub struct Table {
    /// Which table it is.
    pub kind: Kind,
    /// Its place in the order in which tables were made, from 0.
    pub id: usize,
    /// Its columns.
    pub columns: Vec<Field>,
    /// Which of them are wanted; values of others are not kept.
    wanted: Vec<bool>,
    /// The rows that were not taken.
    pub batch: Batch,
}

impl Table {
    /// Makes an empty table.
    pub(crate) fn new(kind: Kind, id: usize, columns: Vec<Field>, choice: &Choice) -> Table {
        let wanted: Vec<bool> = columns.iter().map(|c| choice.has_column(&c.name)).collect();
        let batch = Batch::new(&columns, &wanted);
        Table { kind, id, columns, wanted, batch }
    }

    /// Takes the rows.
    pub fn take(&mut self) -> Batch {
        std::mem::replace(&mut self.batch, Batch::new(&self.columns, &self.wanted))
    }
}
