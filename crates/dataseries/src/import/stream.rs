//! Streams of the records of one type, extent by extent.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use super::imported::Imported;
use crate::error::Error;
use crate::file::extent::{Extent, Record};
use crate::file::reader::FileReader;
use crate::file::types::Type;

/// Most memory for extents unpacked at the same time, one of each type.
const HELD_BYTES_MAX: usize = 512 << 20;
/// Most stretches of damage reported one by one.
const DAMAGE_MAX: usize = 100;

/// A file, and the state that its streams share.
pub struct Files<'r, 'b> {
    reader: &'r FileReader<'b>,
    held_bytes: Cell<usize>,
    records: Cell<u64>,
    lost: Cell<u64>,
    /// Number of invalid records.
    bad: Cell<u64>,
    damage: RefCell<Vec<Error>>,
}

impl<'r, 'b> Files<'r, 'b> {
    /// Makes the state; nothing is read yet.
    pub fn new(reader: &'r FileReader<'b>) -> Files<'r, 'b> {
        Files {
            reader,
            held_bytes: Cell::new(0),
            records: Cell::new(0),
            lost: Cell::new(0),
            bad: Cell::new(0),
            damage: RefCell::default(),
        }
    }

    /// Returns the names of the types that have records, each once.
    pub fn used(&self) -> Vec<&'r str> {
        let mut names: Vec<&str> =
            self.reader.extents().iter().map(|head| head.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Opens the stream of a type.
    pub fn stream(&self, name: &str) -> Result<Stream<'_, 'r, 'b>, Error> {
        let extents = self.reader.extents();
        let mine = (0..extents.len()).filter(|at| extents[*at].name == name).collect();
        let of = self.reader.find(name).cloned().unwrap_or_default();
        let mut stream =
            Stream { files: self, of, extents: mine, next: 0, open: None, at: 0, held_bytes: 0 };
        stream.load()?;
        Ok(stream)
    }

    /// Resets the counts, since everything will be read again.
    pub fn count_again(&self) {
        self.records.set(0);
        self.lost.set(0);
        self.damage.borrow_mut().clear();
    }

    /// Counts an invalid record that is skipped.
    pub fn bad_record(&self, of: &Type) {
        if self.bad.replace(self.bad.get() + 1) == 0 {
            let what = format!("records of {} make no sense; they are left out", of.name);
            self.damage.borrow_mut().push(Error::damaged(0, what));
        }
    }

    /// Returns the number of damaged stretches.
    pub fn damage_count(&self) -> usize {
        self.reader.damage.len() + self.damage.borrow().len()
    }

    /// Stores counts and damage in the result.
    pub fn tell(&self, imported: &mut Imported) {
        imported.records = self.records.get();
        imported.extents_lost = self.lost.get();
        imported.damage = self.reader.damage.clone();
        imported.damage.extend(self.damage.borrow().iter().cloned());
        imported.damage.truncate(DAMAGE_MAX);
    }
}

/// A stream of the records of a type, in file order.
pub struct Stream<'f, 'r, 'b> {
    files: &'f Files<'r, 'b>,
    of: Arc<Type>,
    extents: Vec<usize>,
    next: usize,
    open: Option<Extent>,
    at: usize,
    held_bytes: usize,
}

impl Stream<'_, '_, '_> {
    /// Returns the next record.
    pub fn record(&self) -> Option<Record<'_>> {
        self.open.as_ref().map(|extent| extent.record(&self.of, self.at))
    }

    /// Returns the type.
    pub fn of(&self) -> &Type {
        &self.of
    }

    /// Moves to the next record.
    pub fn advance(&mut self) -> Result<(), Error> {
        self.files.records.set(self.files.records.get() + 1);
        self.at += 1;
        if self.open.as_ref().is_some_and(|extent| self.at >= extent.records) {
            self.load()?;
        }
        Ok(())
    }

    /// Opens the next readable extent that has records.
    fn load(&mut self) -> Result<(), Error> {
        self.close();
        let reader = self.files.reader;
        while let Some(at) = self.extents.get(self.next) {
            self.next += 1;
            let head = &reader.extents()[*at];
            let bytes = head.unpacked_bytes(&self.of);
            let held_bytes = self.files.held_bytes.get().saturating_add(bytes);
            // An extent that is too large by itself is reported as damaged by `read`.
            if held_bytes > HELD_BYTES_MAX && bytes <= HELD_BYTES_MAX {
                return Err(Error::Limit {
                    offset: head.offset,
                    what: "the memory for extents of all types at the same time, in bytes,",
                    found: held_bytes as u64,
                    max: HELD_BYTES_MAX as u64,
                });
            }
            match reader.read(head) {
                // Records without fields are of no use, however many.
                Ok(extent) if extent.records > 0 && self.of.record_bytes > 0 => {
                    self.files.held_bytes.set(held_bytes);
                    (self.held_bytes, self.open, self.at) = (bytes, Some(extent), 0);
                    return Ok(());
                }
                Ok(_) => {}
                Err(error) => {
                    self.files.lost.set(self.files.lost.get() + 1);
                    let mut damage = self.files.damage.borrow_mut();
                    if damage.len() < DAMAGE_MAX {
                        damage.push(error);
                    }
                }
            }
        }
        Ok(())
    }

    fn close(&mut self) {
        self.open = None;
        let left = self.files.held_bytes.get() - self.held_bytes;
        self.files.held_bytes.set(left);
        self.held_bytes = 0;
    }
}

impl Drop for Stream<'_, '_, '_> {
    fn drop(&mut self) {
        self.close();
    }
}
