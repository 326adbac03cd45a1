//! Interned texts: written once, then referred to by number.

use std::collections::HashMap;

use super::proto::Message;

/// Limit for the bytes of the table before it is cleared, and the overhead of an entry.
const BYTES_MAX: usize = 8 << 20;
const ENTRY_BYTES: usize = 64;

/// Tables of texts, with their field numbers in `InternedData`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Table {
    /// Categories of events.
    Category = 1,
    /// Names of events.
    Name = 2,
    /// Names of details.
    DetailName = 3,
    /// Texts used as details.
    DetailText = 29,
}

const TABLES: [Table; 4] = [Table::Category, Table::Name, Table::DetailName, Table::DetailText];

/// The texts that the reader knows.
#[derive(Default)]
pub struct Interned {
    known: [HashMap<String, u64>; TABLES.len()],
    /// New texts, to be written with the current packet.
    new: Vec<(Table, u64, String)>,
    bytes: usize,
    begun: bool,
}

impl Interned {
    /// Must be called before each packet. Returns true if the reader must clear its tables.
    pub fn begin_packet(&mut self) -> bool {
        if self.begun && self.bytes < BYTES_MAX {
            return false;
        }
        self.begun = true;
        self.bytes = 0;
        self.known.iter_mut().for_each(HashMap::clear);
        true
    }

    /// Returns the number of a text, adding it if it is new.
    pub fn get(&mut self, table: Table, text: &str) -> u64 {
        let known = &mut self.known[TABLES.iter().position(|t| *t == table).unwrap_or(0)];
        if let Some(number) = known.get(text) {
            return *number;
        }
        let number = known.len() as u64 + 1;
        known.insert(text.to_string(), number);
        self.bytes += text.len() + ENTRY_BYTES;
        self.new.push((table, number, text.to_string()));
        number
    }

    /// Number of bytes in the tables.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Writes the new texts into the packet that uses them.
    pub fn put_new(&mut self, packet: &mut Message, field: u32) {
        /// Fields of an entry in any table.
        const NUMBER: u32 = 1;
        const TEXT: u32 = 2;
        if self.new.is_empty() {
            return;
        }
        packet.message(field, |data| {
            for (table, number, text) in self.new.drain(..) {
                data.message(table as u32, |entry| {
                    entry.uint(NUMBER, number);
                    entry.bytes(TEXT, text.as_bytes());
                });
            }
        });
    }
}
