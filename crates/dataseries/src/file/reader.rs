//! Reads a file: finds extents, types and damage.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use super::extent::{Extent, HEAD_BYTES, Head, Value};
use super::types::Type;
use super::{HEADER_BYTES, INDEX, INDEX_XML, LIBRARY, LIBRARY_XML, MAGIC, Order, TAIL_BYTES, hash};
use crate::error::Error;

/// Size of the longest head.
const HEAD_BYTES_MAX: usize = HEAD_BYTES + 255;
/// Most extents read; each takes some memory.
const EXTENTS_MAX: usize = 1 << 24;
/// Most types read.
const TYPES_MAX: usize = 1 << 16;
/// Most candidates tried after a damaged extent.
const TRIES_MAX: u32 = 1000;
/// Most stretches of damage reported one by one.
const DAMAGE_MAX: usize = 1000;

/// A source of bytes.
pub trait Bytes {
    /// Returns the size.
    fn size(&self) -> io::Result<u64>;
    /// Fills `into` with the bytes at an offset.
    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()>;
}

impl Bytes for File {
    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.read_exact_at(into, offset)
    }
}

impl Bytes for &[u8] {
    fn size(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let from = usize::try_from(offset).ok();
        let found = from.and_then(|from| self.get(from..from.checked_add(into.len())?));
        into.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// An open file.
pub struct FileReader<'a> {
    bytes: &'a dyn Bytes,
    len: u64,
    order: Order,
    types: BTreeMap<String, Arc<Type>>,
    /// Heads of all extents except those of library and index, in file order.
    extents: Vec<Head>,
    /// Damage found in the heads.
    pub damage: Vec<Error>,
}

impl<'a> FileReader<'a> {
    /// Reads the heads of all extents, and the types.
    pub fn open(bytes: &'a dyn Bytes) -> Result<FileReader<'a>, Error> {
        let len = bytes.size().map_err(|error| Error::io(0, error))?;
        let mut header = [0; HEADER_BYTES];
        let there = len.min(HEADER_BYTES as u64) as usize;
        bytes.read(0, &mut header[..there]).map_err(|error| Error::io(0, error))?;
        if !header.starts_with(MAGIC) || there < HEADER_BYTES {
            let found = header[..there.min(8)].escape_ascii().to_string();
            return Err(Error::NotDataSeries { found });
        }
        let order = match Order::Little.u32(&header, 4) {
            0x1234_5678 => Order::Little,
            0x7856_3412 => Order::Big,
            _ => return Err(Error::damaged(4, "the order of its bytes cannot be told")),
        };
        let mut damage = Vec::new();
        if order.u64(&header, 8) != 0x1234_5678_9abc_def0 {
            damage.push(Error::damaged(8, "the header is damaged"));
        }
        let types = BTreeMap::new();
        let mut reader = FileReader { bytes, len, order, types, extents: Vec::new(), damage };
        reader.add_type(LIBRARY_XML).map_err(|what| Error::damaged(0, what))?;
        reader.add_type(INDEX_XML).map_err(|what| Error::damaged(0, what))?;
        reader.scan()?;
        Ok(reader)
    }

    fn add_type(&mut self, xml: &str) -> Result<(), String> {
        let of = Type::parse(xml)?;
        if self.types.len() == TYPES_MAX {
            return Err(format!("it has more than {TYPES_MAX} types"));
        }
        match self.types.insert(of.name.clone(), Arc::new(of)) {
            Some(before) => Err(format!("type {} is there twice", before.name)),
            None => Ok(()),
        }
    }

    fn note(&mut self, what: Error) {
        if self.damage.len() < DAMAGE_MAX {
            self.damage.push(what);
        }
    }

    /// Visits all extents up to the tail.
    fn scan(&mut self) -> Result<(), Error> {
        let mut offset = HEADER_BYTES as u64;
        let library = match self.head(offset) {
            Ok(head) if head.name == LIBRARY => head,
            Ok(head) => {
                let what = format!("the first extent is of {}, not of types", head.name);
                return Err(Error::damaged(offset, what));
            }
            Err(what) => return Err(Error::damaged(offset, what)),
        };
        offset += library.total_bytes() as u64;
        self.read_types(&library)?;
        loop {
            if self.ends_at(offset) {
                self.tail(offset);
                return Ok(());
            }
            match self.head(offset) {
                Ok(head) if self.types.contains_key(&head.name) => {
                    offset += head.total_bytes() as u64;
                    if head.name == INDEX {
                        continue;
                    }
                    if self.extents.len() == EXTENTS_MAX {
                        return Err(Error::Limit {
                            offset,
                            what: "the number of extents",
                            found: EXTENTS_MAX as u64 + 1,
                            max: EXTENTS_MAX as u64,
                        });
                    }
                    self.extents.push(head);
                }
                found => {
                    let what = match found {
                        Ok(head) => format!("an extent of {}, which is no known type", head.name),
                        Err(what) => what,
                    };
                    self.note(Error::damaged(offset, what));
                    match self.next_sound(offset + 4)? {
                        Some(next) => offset = next,
                        None => return Ok(()),
                    }
                }
            }
        }
    }

    /// Returns whether the tail begins here.
    fn ends_at(&self, offset: u64) -> bool {
        let mut mark = [0; 4];
        offset.saturating_add(TAIL_BYTES as u64) == self.len
            && self.bytes.read(offset, &mut mark).is_ok()
            && mark == [0xff; 4]
    }

    fn tail(&mut self, offset: u64) {
        let mut tail = [0; TAIL_BYTES];
        let read = self.bytes.read(offset, &mut tail);
        let (word, order) = (|at| self.order.u32(&tail, at), self.order);
        let at = order.u64(&tail, 16);
        let sound = read.is_ok()
            && word(24) == hash::tail(&tail[..24])
            && word(8) == !word(4)
            && at.checked_add(word(4).into()) == Some(offset);
        if !sound {
            self.note(Error::damaged(offset, "the tail is damaged"));
        }
    }

    /// Returns the next offset at which an intact extent begins.
    fn next_sound(&mut self, from: u64) -> Result<Option<u64>, Error> {
        let mut at = from.next_multiple_of(4);
        let mut window = vec![0; 1 << 20];
        let mut tries = 0;
        while at < self.len {
            if self.ends_at(at) {
                return Ok(Some(at));
            }
            let there = (self.len - at).min(window.len() as u64) as usize;
            let bytes = &mut window[..there];
            self.bytes.read(at, bytes).map_err(|error| Error::io(at, error))?;
            let last = there == (self.len - at) as usize;
            let end = if last { there } else { there - HEAD_BYTES_MAX };
            for start in (0..end).step_by(4) {
                let offset = at + start as u64;
                let near = &bytes[start..there.min(start + HEAD_BYTES_MAX)];
                let Ok(head) = Head::parse(near, offset, self.order) else { continue };
                // Other bytes rarely parse as a head with the name of a known type.
                if self.types.contains_key(&head.name) {
                    if self.read(&head).is_ok() {
                        return Ok(Some(offset));
                    }
                    tries += 1;
                    if tries == TRIES_MAX {
                        return Ok(None);
                    }
                }
            }
            if last {
                break;
            }
            at += end as u64 & !3;
        }
        let cut = (self.len >= TAIL_BYTES as u64).then(|| self.len - TAIL_BYTES as u64);
        Ok(cut.filter(|cut| *cut >= from && self.ends_at(*cut)))
    }

    fn head(&self, offset: u64) -> Result<Head, String> {
        let mut bytes = [0; HEAD_BYTES_MAX];
        let there = self.len.saturating_sub(offset).min(HEAD_BYTES_MAX as u64) as usize;
        if there == 0 {
            return Err("the file ends without index and tail".into());
        }
        self.bytes.read(offset, &mut bytes[..there]).map_err(|error| error.to_string())?;
        let head = Head::parse(&bytes[..there], offset, self.order)?;
        match offset + head.total_bytes() as u64 <= self.len {
            true => Ok(head),
            false => Err(format!("the file ends in an extent of {}", head.name)),
        }
    }

    fn read_types(&mut self, head: &Head) -> Result<(), Error> {
        let of = self.type_of(head)?;
        let extent = self.read(head).map_err(|error| match error {
            Error::Damaged { offset, what } => {
                let what = format!("{what}; without its types nothing of the file can be read");
                Error::damaged(offset, what)
            }
            other => other,
        })?;
        for number in 0..extent.records {
            let xml = match extent.record(&of, number).value(&of.fields[0]) {
                Value::Bytes(xml) => std::str::from_utf8(xml).unwrap_or_default(),
                _ => "",
            };
            self.add_type(xml).map_err(|what| Error::damaged(head.offset, what))?;
        }
        Ok(())
    }

    fn type_of(&self, head: &Head) -> Result<Arc<Type>, Error> {
        let of = self.types.get(&head.name).cloned();
        of.ok_or_else(|| Error::damaged(head.offset, format!("{} is not a known type", head.name)))
    }

    /// Reads the records of an extent.
    pub fn read(&self, head: &Head) -> Result<Extent, Error> {
        let mut bytes = vec![0; head.total_bytes()];
        self.bytes.read(head.offset, &mut bytes).map_err(|error| Error::io(head.offset, error))?;
        Extent::unpack(head, &bytes, self.type_of(head)?.as_ref(), self.order)
    }

    /// Returns the heads of all extents.
    pub fn extents(&self) -> &[Head] {
        &self.extents
    }

    /// Finds a type by name.
    pub fn find(&self, name: &str) -> Option<&Arc<Type>> {
        self.types.get(name)
    }

    /// Returns the names of all types but the two that every file has.
    pub fn type_names(&self) -> impl Iterator<Item = &str> {
        self.types.keys().map(String::as_str).filter(|name| ![LIBRARY, INDEX].contains(name))
    }
}
