//! Writes a file. Worker threads pack the extents, which are written in order.

use std::io::{self, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use super::codec::Codec;
use super::extent::{Builder, ValueBuilder};
use super::types::Type;
use super::{HEADER_BYTES, INDEX, INDEX_XML, LIBRARY, LIBRARY_XML, MAGIC, hash};
use crate::error::Error;

/// An extent is closed when it holds this many bytes.
const EXTENT_BYTES: usize = 1 << 20;
/// The largest extent is closed when all open ones together hold this many bytes.
const OPEN_BYTES: usize = 64 << 20;
/// Most workers: each holds an extent, which may be some 16 MiB, and its packed bytes.
const WORKERS_MAX: usize = 8;

/// Writes records of many types.
pub struct FileWriter {
    types: Vec<Kept>,
    open_bytes: usize,
    jobs: Option<SyncSender<Job>>,
    workers: Vec<JoinHandle<()>>,
    shared: Arc<Shared>,
    sent: u64,
}

struct Kept {
    of: Type,
    /// A record without values.
    blank: Vec<u8>,
    open: Builder,
}

struct Job {
    number: u64,
    name: String,
    filled: Builder,
}

struct Shared {
    state: Mutex<State>,
    turned: Condvar,
    codec: Codec,
}

struct State {
    sink: Box<dyn Write + Send>,
    /// Number of the extent to be written next.
    next: u64,
    offset: u64,
    chain: u32,
    /// Offset and type of each extent written.
    index: Vec<(u64, String)>,
    error: Option<Error>,
}

impl State {
    fn write(&mut self, bytes: &[u8]) {
        if self.error.is_none() {
            match self.sink.write_all(bytes) {
                Ok(()) => self.offset += bytes.len() as u64,
                Err(error) => self.error = Some(Error::io(self.offset, error)),
            }
        }
    }

    fn extent(&mut self, name: String, bytes: &[u8], body: u32, adler: u32) {
        self.index.push((self.offset, name));
        self.chain = hash::chain(self.chain, body, adler);
        self.write(bytes);
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, job: &Job) {
        let (bytes, body, adler) = job.filled.pack(&job.name, self.codec);
        let mut state = self.state();
        while state.next != job.number {
            state = self.turned.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.extent(job.name.clone(), &bytes, body, adler);
        state.next += 1;
        self.turned.notify_all();
    }
}

/// Makes the header of a little-endian file.
fn header() -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..4].copy_from_slice(MAGIC);
    bytes[4..8].copy_from_slice(&0x1234_5678u32.to_le_bytes());
    bytes[8..16].copy_from_slice(&0x1234_5678_9abc_def0u64.to_le_bytes());
    bytes[16..24].copy_from_slice(&std::f64::consts::PI.to_le_bytes());
    bytes[24..32].copy_from_slice(&f64::INFINITY.to_le_bytes());
    bytes[32..40].copy_from_slice(&0x7ff8_0000_0000_0000u64.to_le_bytes());
    bytes
}

impl FileWriter {
    /// Begins a file with the types declared by `xml`. Types are numbered from 0.
    pub fn new(
        sink: Box<dyn Write + Send>,
        xml: &[String],
        codec: Codec,
    ) -> Result<FileWriter, Error> {
        let parse =
            |xml: &str| Type::parse(xml).map_err(|what| Error::io(0, io::Error::other(what)));
        let mut types = Vec::with_capacity(xml.len());
        for xml in xml {
            let of = parse(xml)?;
            let mut blank = vec![0; of.record_bytes];
            for bit in of.fields.iter().filter_map(|field| field.null) {
                blank[bit.at as usize] |= bit.mask;
            }
            types.push(Kept { of, blank, open: Builder::default() });
        }
        let mut state =
            State { sink, next: 0, offset: 0, chain: 0, index: Vec::new(), error: None };
        state.write(&header());
        let library = parse(LIBRARY_XML)?;
        let mut filled = Builder::default();
        for xml in xml {
            filled.begin(&[0; 8]);
            let mut value = filled.bytes(&library.fields[0]);
            value.push(xml.as_bytes());
            value.finish();
        }
        let (bytes, body, adler) = filled.pack(LIBRARY, codec);
        state.extent(LIBRARY.into(), &bytes, body, adler);

        let shared = Arc::new(Shared { state: Mutex::new(state), turned: Condvar::new(), codec });
        let count = std::thread::available_parallelism().map_or(1, usize::from).min(WORKERS_MAX);
        let (jobs, taken) = sync_channel(1);
        let taken = Arc::new(Mutex::new(taken));
        let workers = (0..count).map(|_| {
            let (taken, shared) = (Arc::clone(&taken), Arc::clone(&shared));
            std::thread::spawn(move || {
                while let Some(job) = take(&taken) {
                    shared.work(&job);
                }
            })
        });
        let workers = workers.collect();
        Ok(FileWriter { types, open_bytes: 0, jobs: Some(jobs), workers, shared, sent: 0 })
    }

    /// Returns a type by its number.
    pub fn of(&self, number: usize) -> &Type {
        &self.types[number].of
    }

    /// Begins a record and returns it to be filled.
    pub fn record(&mut self, number: usize) -> Result<Filling<'_>, Error> {
        if self.types[number].open.held_bytes() >= EXTENT_BYTES {
            self.close(number)?;
        } else if self.open_bytes >= OPEN_BYTES {
            let largest = (0..self.types.len()).max_by_key(|at| self.types[*at].open.held_bytes());
            self.close(largest.unwrap_or(number))?;
        }
        let kept = &mut self.types[number];
        let before = kept.open.held_bytes();
        kept.open.begin(&kept.blank);
        Ok(Filling { of: &kept.of, open: &mut kept.open, before, open_bytes: &mut self.open_bytes })
    }

    fn close(&mut self, number: usize) -> Result<(), Error> {
        let filled = std::mem::take(&mut self.types[number].open);
        self.open_bytes = self.open_bytes.saturating_sub(filled.held_bytes());
        let job = Job { number: self.sent, name: self.types[number].of.name.clone(), filled };
        self.sent += 1;
        if let Some(error) = self.shared.state().error.clone() {
            return Err(error);
        }
        let gone = || Error::io(0, io::Error::other("a thread that packs is gone"));
        self.jobs.as_ref().ok_or_else(gone)?.send(job).map_err(|_| gone())
    }

    /// Writes open extents, index and tail. Returns the size of the file.
    pub fn finish(mut self) -> Result<u64, Error> {
        for number in 0..self.types.len() {
            if self.types[number].open.records > 0 {
                self.close(number)?;
            }
        }
        self.jobs = None;
        for worker in self.workers.drain(..) {
            if worker.join().is_err() {
                return Err(Error::io(0, io::Error::other("a thread that packs has failed")));
            }
        }
        let mut state = self.shared.state();
        let index_offset = state.offset;
        let index = Type::parse(INDEX_XML).map_err(|what| Error::io(0, io::Error::other(what)))?;
        let mut filled = Builder::default();
        for (offset, name) in state.index.iter().chain([&(index_offset, INDEX.to_string())]) {
            filled.begin(&[0; 16]);
            filled.int(&index.fields[0], *offset as i64);
            let mut value = filled.bytes(&index.fields[1]);
            value.push(name.as_bytes());
            value.finish();
        }
        let (bytes, body, adler) = filled.pack(INDEX, self.shared.codec);
        state.extent(INDEX.into(), &bytes, body, adler);
        let mut tail = Vec::new();
        let packed = bytes.len() as u32;
        for word in [u32::MAX, packed, !packed, state.chain] {
            tail.extend_from_slice(&word.to_le_bytes());
        }
        tail.extend_from_slice(&index_offset.to_le_bytes());
        let sum = hash::tail(&tail);
        tail.extend_from_slice(&sum.to_le_bytes());
        state.write(&tail);
        if state.error.is_none()
            && let Err(error) = state.sink.flush()
        {
            state.error = Some(Error::io(state.offset, error));
        }
        match state.error.clone() {
            Some(error) => Err(error),
            None => Ok(state.offset),
        }
    }
}

fn take(jobs: &Mutex<Receiver<Job>>) -> Option<Job> {
    jobs.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}

/// A record to be filled. Fields that are not set are null, or zero if they cannot be null.
pub struct Filling<'a> {
    /// Type of the record.
    pub of: &'a Type,
    open: &'a mut Builder,
    before: usize,
    open_bytes: &'a mut usize,
}

impl Filling<'_> {
    /// Sets a boolean by the position of its field.
    pub fn bool(&mut self, field: usize, value: bool) {
        self.open.bool(&self.of.fields[field], value);
    }

    /// Sets a nullable field to null.
    pub fn null(&mut self, field: usize) {
        self.open.null(&self.of.fields[field]);
    }

    /// Sets an integer.
    pub fn int(&mut self, field: usize, value: i64) {
        self.open.int(&self.of.fields[field], value);
    }

    /// Sets bytes.
    pub fn bytes(&mut self, field: usize, bytes: &[u8]) {
        let mut value = self.pieces(field);
        value.push(bytes);
        value.finish();
    }

    /// Sets bytes that are given in pieces.
    pub fn pieces(&mut self, field: usize) -> ValueBuilder<'_> {
        self.open.bytes(&self.of.fields[field])
    }
}

impl Drop for Filling<'_> {
    fn drop(&mut self) {
        *self.open_bytes += self.open.held_bytes() - self.before;
    }
}
