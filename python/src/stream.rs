//! Rows as a stream: a thread goes through the trace and collects rows, as many as somebody takes, who
//! makes arrays of them meanwhile.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use model::{Conditions, Contents, Moment, Unread};
use tables::batch::Batch;
use tables::schema::Field;
use tables::{Choice, Kind, Tables};
use trace::Trace;

use crate::arrow;

/// Rows of a batch.
const BATCH_ROWS: u64 = 64 << 10;
/// Memory of a batch, and bytes of text in it, at which it is passed on.
const BATCH_BYTES: usize = 8 << 20;
/// Batches that wait to be taken.
const WAITING_MAX: usize = 2;
/// Rows, and their estimated memory, before the real memory is counted again.
const UNCOUNTED_ROWS: u64 = 256;
const UNCOUNTED_BYTES: u64 = 256 << 10;

/// What is to be read.
#[derive(Clone)]
pub struct Request {
    /// The trace.
    pub trace: Arc<Trace>,
    /// Which table of it, and which columns.
    pub kind: Kind,
    /// The rest of the choice.
    pub choice: Choice,
    /// Which events.
    pub conditions: Conditions,
    /// True if what cannot be read is passed over.
    pub skips_damage: bool,
}

impl Request {
    /// Returns the columns of the table, and the places of those that are wanted, in their order.
    pub fn columns(&self) -> (Vec<Field>, Vec<usize>) {
        let all = tables::columns_with(self.kind, &self.choice);
        let order = match &self.choice.columns {
            None => (0..all.len()).collect(),
            Some(wanted) => {
                let place = |name: &String| all.iter().position(|column| column.name == *name);
                wanted.iter().filter_map(place).collect()
            }
        };
        (all, order)
    }

    /// Returns the schema of what is read.
    pub fn schema(&self) -> SchemaRef {
        let (all, order) = self.columns();
        let wanted: Vec<Field> = order.iter().map(|at| all[*at].clone()).collect();
        Arc::new(arrow::schema(&wanted))
    }

    /// Counts the rows.
    pub fn count(&self) -> Result<u64, String> {
        let mut request = self.clone();
        request.choice.columns = Some(Vec::new());
        let mut count = 0;
        guarded(|| {
            request.pass(&AtomicBool::new(false), &mut |rows| {
                count += rows.rows;
                true
            })
        })?;
        Ok(count)
    }

    /// Starts to read.
    pub fn start(self) -> io::Result<Reader> {
        let schema = self.schema();
        let (columns, order) = self.columns();
        let (sender, receiver) = mpsc::sync_channel(WAITING_MAX);
        let is_left = Arc::new(AtomicBool::new(false));
        let left = Arc::clone(&is_left);
        thread::Builder::new()
            .name("reenact".into())
            .spawn(move || self.send_all(&left, &sender))?;
        Ok(Reader { schema, columns, order, receiver, is_left })
    }

    fn send_all(&self, is_left: &AtomicBool, sender: &SyncSender<Made>) {
        let done = guarded(|| self.pass(is_left, &mut |rows| sender.send(Ok(rows)).is_ok()));
        if let Err(failure) = done {
            // Nobody may be there any more, who then does not need to know.
            let _ = sender.send(Err(failure));
        }
    }

    /// Passes all rows to `take`, until that returns false or nobody waits any more.
    fn pass(
        &self,
        is_left: &AtomicBool,
        take: &mut dyn FnMut(Batch) -> bool,
    ) -> Result<(), String> {
        let states = self.conditions.clone();
        let choice = Choice { table: Some(self.kind), states, ..self.choice.clone() };
        let follows_files = self.kind == Kind::Calls && choice.has_column("offset");
        let mut tables = Tables::new(&self.trace, choice);
        let mut uncounted = Uncounted::default();
        let mut visit = |moment: &Moment<'_>, wanted: bool, contents: &mut dyn Contents| {
            if is_left.load(Ordering::Relaxed) {
                return Err(Left);
            }
            let bytes = tables.add(moment, wanted, contents);
            if uncounted.add(bytes)
                && !tables.each().all(|table| is_small(&table.batch) || take(table.take()))
            {
                return Err(Left);
            }
            Ok(())
        };
        let walked = match follows_files {
            true => model::walk_files(&self.trace, &self.conditions, &mut visit)
                .map(|(_, unread)| unread),
            false => model::walk(&self.trace, &self.conditions, &mut visit),
        };
        let Ok(unread) = walked else { return Ok(()) };
        tables.finish();
        for table in tables.each().filter(|table| table.batch.rows > 0) {
            if !take(table.take()) {
                return Ok(());
            }
        }
        if self.skips_damage { Ok(()) } else { whole(&unread) }
    }
}

/// A stream that nobody takes from any more.
struct Left;

/// What was added since memory was counted.
#[derive(Default)]
struct Uncounted {
    rows: u64,
    bytes: u64,
}

impl Uncounted {
    /// Adds an event. Returns true if it is time to count.
    fn add(&mut self, bytes: u64) -> bool {
        self.rows += u64::from(bytes > 0);
        self.bytes = self.bytes.saturating_add(bytes);
        let is_due = self.rows >= UNCOUNTED_ROWS || self.bytes >= UNCOUNTED_BYTES;
        if is_due {
            *self = Uncounted::default();
        }
        is_due
    }
}

fn is_small(batch: &Batch) -> bool {
    batch.rows < BATCH_ROWS && batch.held_bytes().max(batch.text_bytes()) < BATCH_BYTES
}

/// Fails if a part of the trace could not be read.
fn whole(unread: &Unread) -> Result<(), String> {
    match (unread.count, unread.errors.first()) {
        (0, _) => Ok(()),
        (count, first) => {
            let first = first.map(ToString::to_string).unwrap_or_default();
            Err(format!(
                "damaged blocks were left out: {count}, the first {first}; open(..., damaged=\"skip\") reads the rest"
            ))
        }
    }
}

/// Calls `act`; a panic, which would be a defect, becomes an error.
fn guarded<T>(act: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|panic| Err(defect(&*panic)))
}

fn defect(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or_default();
    format!("a defect of reenact: {text}")
}

type Made = Result<Batch, String>;

/// The end of a stream that takes rows.
pub struct Reader {
    schema: SchemaRef,
    columns: Vec<Field>,
    order: Vec<usize>,
    receiver: Receiver<Made>,
    is_left: Arc<AtomicBool>,
}

impl Iterator for Reader {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let made = self.receiver.recv().ok()?.and_then(|rows| {
            let schema = Arc::clone(&self.schema);
            guarded(|| {
                let batch = arrow::batch(rows, &self.columns, &self.order, schema);
                batch.map_err(|error| error.to_string())
            })
        });
        Some(made.map_err(|error| ArrowError::ExternalError(error.into())))
    }
}

impl RecordBatchReader for Reader {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.is_left.store(true, Ordering::Relaxed);
    }
}
