//! Writes batches of rows to files, in background threads and with bounded memory.

use std::collections::VecDeque;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::column::writer::{ColumnWriter, ColumnWriterImpl};
use parquet::data_type::{ByteArray, ByteArrayType};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{SchemaDescriptor, TypePtr};

use tables::batch::Batch;
use tables::column::{DIGITS, Leaf, Packed, Values, digits};
use tables::schema::Field;

use crate::error::Error;
use crate::schema;

/// Limit for the memory of batches that wait or are being written.
const WAITING_BYTES_MAX: usize = 48 << 20;
/// Limit for the writer threads: each holds the pages of a column.
const WRITERS_MAX: usize = 8;
/// Number of rows passed to the encoder at a time, for columns without lists.
const CHUNK_ROWS: usize = 4096;
/// Number of rows between checks of a page's size.
const LOOK_ROWS: usize = 1024;
/// Number of rows between checks for long values: 16 of 64 KiB make a page of 1 MiB.
const LOOK_ROWS_LONG: usize = 16;

/// File format of a table.
pub struct Format {
    schema: TypePtr,
    leaves: SchemaDescriptor,
}

impl Format {
    /// Makes the format of a table with these columns.
    pub fn new(columns: &[Field]) -> Result<Format, ParquetError> {
        let schema = schema::parquet(columns)?;
        Ok(Format { leaves: SchemaDescriptor::new(schema.clone()), schema })
    }

    /// Returns the properties for a file with these values.
    fn properties(&self, values: &[&mut Leaf]) -> Result<WriterPropertiesPtr, ParquetError> {
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
            .set_created_by(format!("reenact {}", env!("CARGO_PKG_VERSION")))
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_write_batch_size(LOOK_ROWS);
        for (column, leaf) in self.leaves.columns().iter().zip(values) {
            let path = column.path().clone();
            let name = column.name();
            let encoding = match leaf.values {
                Values::Int(_) | Values::Long(_) => Encoding::DELTA_BINARY_PACKED,
                // Without lengths between the values, zstd compresses better and faster.
                Values::Text(_) | Values::Hash(_) | Values::Bytes(_) => {
                    Encoding::DELTA_LENGTH_BYTE_ARRAY
                }
            };
            properties = properties.set_column_encoding(path.clone(), encoding);
            if name == "content" {
                properties = properties.set_write_batch_size(LOOK_ROWS_LONG);
            }
            // Minimum and maximum of hashes are useless, and those of contents are slow to compute.
            if name == "content" || matches!(leaf.values, Values::Hash(_)) {
                let none = EnabledStatistics::None;
                properties = properties.set_column_statistics_enabled(path.clone(), none);
            }
            if is_ascending(name) || !leaf.values.repeat() {
                properties = properties.set_column_dictionary_enabled(path, false);
            }
        }
        Ok(Arc::new(properties.build()))
    }
}

/// Returns true for columns of mostly distinct numbers with small differences.
fn is_ascending(name: &str) -> bool {
    ["seq", "enter", "exit", "time"].contains(&name) || name.ends_with("_ns")
}

/// A file to be written.
struct Job {
    path: PathBuf,
    format: Arc<Format>,
    batch: Batch,
    bytes: usize,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    /// Memory of waiting and current jobs.
    bytes: usize,
    failed: Option<Error>,
    closed: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes files until the queue is closed.
    fn work(&self) {
        let mut state = self.lock();
        loop {
            let Some(job) = state.jobs.pop_front() else {
                if state.closed {
                    return;
                }
                state = self.wait(state);
                continue;
            };
            let bytes = job.bytes;
            // After a failure, no file would be kept.
            if state.failed.is_none() {
                drop(state);
                let written = write(job);
                state = self.lock();
                if let Err(error) = written {
                    state.failed.get_or_insert(error);
                }
            }
            state.bytes -= bytes;
            self.changed.notify_all();
        }
    }
}

/// Threads that write files.
pub struct Writers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Writers {
    /// Starts the threads.
    pub fn new() -> io::Result<Writers> {
        let count = thread::available_parallelism().map_or(1, |count| count.get());
        let mut writers = Writers { shared: Arc::default(), threads: Vec::new() };
        for _ in 0..count.min(WRITERS_MAX) {
            let shared = Arc::clone(&writers.shared);
            writers.threads.push(thread::Builder::new().spawn(move || shared.work())?);
        }
        Ok(writers)
    }

    /// Queues a file when there is room. Returns the failure of an earlier file.
    pub fn write(&self, path: PathBuf, format: &Arc<Format>, batch: Batch) -> Result<(), Error> {
        let bytes = batch.held_bytes();
        let format = Arc::clone(format);
        let mut state = self.shared.lock();
        while state.bytes > 0 && state.bytes + bytes > WAITING_BYTES_MAX {
            state = self.shared.wait(state);
        }
        if let Some(error) = state.failed.take() {
            return Err(error);
        }
        state.bytes += bytes;
        state.jobs.push_back(Job { path, format, batch, bytes });
        self.shared.changed.notify_all();
        Ok(())
    }

    /// Waits until all files are written.
    pub fn finish(mut self) -> Result<(), Error> {
        self.close();
        match self.shared.lock().failed.take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    fn close(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

impl Drop for Writers {
    fn drop(&mut self) {
        // The queued jobs belong to a failed run.
        self.shared.lock().jobs.clear();
        if !thread::panicking() {
            self.close();
        }
    }
}

fn write(job: Job) -> Result<(), Error> {
    let path = job.path.clone();
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(&path);
    let file = file.map_err(Error::io(&path))?;
    write_file(file, job).map_err(|source| failure(path, source))
}

/// Converts an error. Errors of the file system lose the library's wrapping.
fn failure(path: PathBuf, source: ParquetError) -> Error {
    let source = match source {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(source) => return Error::Io { path, source: *source },
            Err(inner) => ParquetError::External(inner),
        },
        other => other,
    };
    Error::Parquet { path, source }
}

fn write_file(file: impl io::Write + Send, job: Job) -> Result<(), ParquetError> {
    let Job { format, mut batch, .. } = job;
    let mut leaves = Vec::new();
    batch.columns.iter_mut().for_each(|column| column.leaves(&mut leaves));
    let properties = format.properties(&leaves)?;
    let mut file = SerializedFileWriter::new(file, format.schema.clone(), properties)?;
    let mut group = file.next_row_group()?;
    for leaf in leaves {
        let missing = || ParquetError::General("a leaf without a column".into());
        let mut column = group.next_column()?.ok_or_else(missing)?;
        write_leaf(column.untyped(), leaf)?;
        column.close()?;
    }
    group.close()?;
    file.close()?;
    Ok(())
}

fn write_leaf(column: &mut ColumnWriter<'_>, leaf: &mut Leaf) -> Result<(), ParquetError> {
    let values = std::mem::replace(&mut leaf.values, Values::Int(Vec::new()));
    match (column, values) {
        (ColumnWriter::Int32ColumnWriter(column), Values::Int(values)) => {
            chunks(leaf, |from, to, defs, reps| {
                column.write_batch(&values[from..to], Some(defs), reps)
            })
        }
        (ColumnWriter::Int64ColumnWriter(column), Values::Long(values)) => {
            chunks(leaf, |from, to, defs, reps| {
                column.write_batch(&values[from..to], Some(defs), reps)
            })
        }
        (ColumnWriter::ByteArrayColumnWriter(column), Values::Text(texts)) => {
            let (all, codes) = (slices(texts.all), texts.codes);
            write_bytes(column, leaf, |row| all[codes[row] as usize].clone())
        }
        (ColumnWriter::ByteArrayColumnWriter(column), Values::Hash(hashes)) => {
            let whole = ByteArray::from(digits(&hashes));
            write_bytes(column, leaf, |row| whole.slice(DIGITS * row, DIGITS))
        }
        (ColumnWriter::ByteArrayColumnWriter(column), Values::Bytes(packed)) => {
            let (whole, ends) = (ByteArray::from(packed.bytes), packed.ends);
            let begin = |row: usize| row.checked_sub(1).map_or(0, |before| ends[before]);
            write_bytes(column, leaf, |row| whole.slice(begin(row), ends[row] - begin(row)))
        }
        _ => Err(ParquetError::General("values of another type than their column".into())),
    }
}

fn write_bytes(
    column: &mut ColumnWriterImpl<'_, ByteArrayType>,
    leaf: &Leaf,
    value: impl Fn(usize) -> ByteArray,
) -> Result<(), ParquetError> {
    let mut some = Vec::new();
    chunks(leaf, |from, to, defs, reps| {
        some.clear();
        some.extend((from..to).map(&value));
        column.write_batch(&some, Some(defs), reps)
    })
}

/// Returns the single strings, which share their memory.
fn slices(packed: Packed) -> Vec<ByteArray> {
    let whole = ByteArray::from(packed.bytes);
    let begins = std::iter::once(0).chain(packed.ends.iter().copied());
    begins.zip(&packed.ends).map(|(begin, end)| whole.slice(begin, end - begin)).collect()
}

/// Calls `write` with ranges of values and their levels. Columns with lists are one range.
fn chunks(
    leaf: &Leaf,
    mut write: impl FnMut(usize, usize, &[i16], Option<&[i16]>) -> Result<usize, ParquetError>,
) -> Result<(), ParquetError> {
    let there = |defs: &[i16]| defs.iter().filter(|def| **def == leaf.max_def).count();
    let all = leaf.defs.all();
    if leaf.max_rep > 0 {
        return write(0, there(&all), &all, Some(&leaf.reps.all())).map(drop);
    }
    let mut from = 0;
    for defs in all.chunks(CHUNK_ROWS) {
        let to = from + there(defs);
        write(from, to, defs, None)?;
        from = to;
    }
    Ok(())
}

/// Returns the path of a table's file by its number.
pub fn part(folder: &Path, number: u32) -> PathBuf {
    folder.join(format!("part-{number:05}.parquet"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk with this many bytes of free space.
    struct Full(usize);

    impl io::Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_is_an_error_of_the_file() {
        let columns = [Field::new("n", tables::schema::Type::Long)];
        let try_with = |room| {
            let mut batch = Batch::new(&columns, &[true]);
            for n in 0..10_000 {
                let mut row = batch.row();
                row.number(n * n);
                row.end();
            }
            let format = Arc::new(Format::new(&columns).unwrap());
            write_file(Full(room), Job { path: "part".into(), format, batch, bytes: 0 })
        };
        try_with(1 << 20).unwrap();
        for room in [0, 4, 100] {
            let failed = failure("part".into(), try_with(room).unwrap_err());
            assert!(matches!(failed, Error::Io { .. }), "{room}: {failed}");
        }
    }
}
