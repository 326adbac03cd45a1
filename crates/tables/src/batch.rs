//! Rows of one table, until there are enough of them for a file.

use crate::column::{Column, Place};
use crate::schema::Field;

/// Rows that are not written yet.
pub struct Batch {
    /// The columns, all of the same length.
    pub columns: Vec<Column>,
    /// How many rows there are.
    pub rows: u64,
}

impl Batch {
    /// No rows yet.
    pub fn new(columns: &[Field]) -> Batch {
        let columns = columns.iter().map(|column| Column::new(&column.ty)).collect();
        Batch { columns, rows: 0 }
    }

    /// Begins a row. Every column must be given, in order.
    pub fn row(&mut self) -> Row<'_> {
        self.rows += 1;
        Row { columns: self.columns.iter_mut() }
    }

    /// Memory that it takes, about.
    pub fn held_bytes(&self) -> usize {
        self.columns.iter().map(Column::held_bytes).sum()
    }
}

/// A row in the making.
pub struct Row<'a> {
    columns: std::slice::IterMut<'a, Column>,
}

impl<'a> Row<'a> {
    /// The next column.
    pub fn column(&mut self) -> &'a mut Column {
        self.columns.next().expect("rows have as many values as their table has columns")
    }

    /// A number.
    pub fn number(&mut self, value: impl Into<Option<i64>>) {
        let column = self.column();
        match value.into() {
            Some(value) => column.number(Place::default(), value),
            None => column.null(Place::default()),
        }
    }

    /// Text.
    pub fn text<'t>(&mut self, value: impl Into<Option<&'t [u8]>>) {
        let column = self.column();
        match value.into() {
            Some(value) => column.text(Place::default(), value),
            None => column.null(Place::default()),
        }
    }

    /// A hash.
    pub fn hash(&mut self, value: Option<u128>) {
        let column = self.column();
        match value {
            Some(value) => column.hash(Place::default(), value),
            None => column.null(Place::default()),
        }
    }

    /// Bytes.
    pub fn bytes(&mut self, value: Option<&[u8]>) {
        let column = self.column();
        match value {
            Some(value) => column.bytes(Place::default(), value),
            None => column.null(Place::default()),
        }
    }

    /// The end of the row.
    pub fn end(self) {
        debug_assert!(self.columns.as_slice().is_empty(), "a row without all of its columns");
    }
}
