//! Rows of a table, collected until somebody takes them.

use crate::column::{Column, Place};
use crate::schema::Field;

/// Rows that were not taken yet.
pub struct Batch {
    /// The columns, all of the same length.
    pub columns: Vec<Column>,
    /// Number of rows.
    pub rows: u64,
}

impl Batch {
    /// Makes an empty batch; of columns that are not wanted no values are kept.
    pub fn new(columns: &[Field], wanted: &[bool]) -> Batch {
        let column = |(column, wanted): (&Field, &bool)| match wanted {
            true => Column::new(&column.ty),
            false => Column::Unwanted,
        };
        Batch { columns: columns.iter().zip(wanted).map(column).collect(), rows: 0 }
    }

    /// Begins a row. Every column must get a value, in order.
    pub fn row(&mut self) -> Row<'_> {
        self.rows += 1;
        Row { columns: self.columns.iter_mut() }
    }

    /// Approximate memory in use.
    pub fn held_bytes(&self) -> usize {
        self.columns.iter().map(Column::held_bytes).sum()
    }

    /// Bytes of all text, where each row has its own.
    pub fn text_bytes(&self) -> usize {
        self.columns.iter().map(Column::text_bytes).sum()
    }
}

/// A row being added.
pub struct Row<'a> {
    columns: std::slice::IterMut<'a, Column>,
}

impl<'a> Row<'a> {
    /// Returns the next column.
    pub fn column(&mut self) -> &'a mut Column {
        self.columns.next().expect("rows have as many values as their table has columns")
    }

    /// Adds a number.
    pub fn number(&mut self, value: impl Into<Option<i64>>) {
        let column = self.column();
        match value.into() {
            Some(value) => column.number(Place::default(), value),
            None => column.null(Place::default()),
        }
    }

    /// Adds text.
    pub fn text<'t>(&mut self, value: impl Into<Option<&'t [u8]>>) {
        let column = self.column();
        match value.into() {
            Some(value) => column.text(Place::default(), value),
            None => column.null(Place::default()),
        }
    }

    /// Adds a hash.
    pub fn hash(&mut self, value: Option<u128>) {
        let column = self.column();
        match value {
            Some(value) => column.hash(Place::default(), value),
            None => column.null(Place::default()),
        }
    }

    /// Adds bytes.
    pub fn bytes(&mut self, value: Option<&[u8]>) {
        let column = self.column();
        match value {
            Some(value) => column.bytes(Place::default(), value),
            None => column.null(Place::default()),
        }
    }

    /// Ends the row.
    pub fn end(self) {
        debug_assert!(self.columns.as_slice().is_empty(), "a row without all of its columns");
    }
}
