//! What processes do with mapped files by loads and stores, as records of SNIA's types for them.

use model::Contents;
use model::mapped::{self, Store};
use trace::event::{Data, Event, EventKind};

use super::fill::VALUE_BYTES_MAX;
use super::{Caller, Exporter};
use crate::error::Error;
use crate::schema::{self, SNIA, common};

/// The types of stores and reads, and their fields.
pub const WRITE: &str = "mmappwrite";
/// See [`WRITE`].
pub const READ: &str = "mmappread";
/// The descriptor by which the file was mapped.
pub const DESCRIPTOR: &str = "descriptor";
/// Number of bytes.
pub const LENGTH: &str = "bytes_requested";
/// Where in the file.
pub const OFFSET: &str = "offset";
/// The bytes of a store.
pub const WRITTEN: &str = "data_written";
/// Those of a read.
pub const DATA_READ: &str = "data_read";
/// The address of a read.
pub const ADDRESS: &str = "address";

impl Exporter<'_> {
    /// Follows where files are mapped, and by which descriptors.
    pub(super) fn follow_mappings(&mut self, event: &Event) {
        let process = self.tasks.process(event.thread);
        match &event.kind {
            EventKind::Call(call) if mapped::is_followed(call) => {
                self.mapped.call(process.unwrap_or_default(), event, call, Some);
            }
            EventKind::Start { how, process, parent, .. } => {
                if let Some(maker) = self.tasks.process(*parent) {
                    self.mapped.started(*how, *process, maker);
                }
            }
            EventKind::Image { .. } => self.mapped.forget(process.unwrap_or_default()),
            EventKind::Exit { process, .. } => self.mapped.forget(*process),
            _ => {}
        }
    }

    /// Writes the record of a store. Returns its unique_id, and the field that has all of its bytes
    /// that are in the trace.
    pub(super) fn store(
        &mut self,
        store: &Store<'_>,
        data: &Data,
        tsc: u64,
        contents: &mut dyn Contents,
    ) -> Result<Option<(i64, &'static str)>, Error> {
        let (kind, data_field) = if store.is_read { (READ, DATA_READ) } else { (WRITE, WRITTEN) };
        let Some(number) = schema::position(&format!("{SNIA}{kind}")) else { return Ok(None) };
        let now = self.clock.ns(self.trace, tsc);
        let thread = store.thread.map(|thread| self.tasks.ids(thread));
        let pid = self.tasks.id_of(store.process);
        let fd = self.mapped.at(store.process, store.address).map_or(-1, |(fd, _)| *fd);
        let id = self.next_id;
        self.next_id += 1;
        let of = self.file.of(number);
        let address = of.field(ADDRESS);
        let [descriptor, length, offset, bytes] =
            [DESCRIPTOR, LENGTH, OFFSET, data_field].map(|name| of.field(name).unwrap_or_default());
        let mut record = self.file.record(number)?;
        record.int(common::UNIQUE_ID, id);
        record.int(common::TIME_CALLED, now);
        record.int(common::TIME_RETURNED, now);
        record.int(common::ERRNO_NUMBER, 0);
        record.int(common::RETURN_VALUE, store.length as i64);
        let tid = thread.and_then(|(_, tid)| tid);
        Caller { pid, tid, ..Caller::default() }.fill(&mut record);
        record.int(descriptor, fd.into());
        record.int(length, store.length as i64);
        record.int(offset, store.offset as i64);
        if let Some(address) = address {
            record.int(address, store.address as i64);
        }
        let stored = data.content.len();
        let fits = self.content && stored > 0 && stored <= VALUE_BYTES_MAX;
        if fits {
            let mut value = record.pieces(bytes);
            let read = contents.each(&data.content, &mut |bytes| {
                value.push(bytes);
                true
            });
            value.finish();
            read.map_err(Error::Trace)?;
        }
        if !fits || stored < store.length {
            record.bool(common::BUFFER_NOT_CAPTURED, true);
            self.exported.not_captured += 1;
        }
        Ok(fits.then_some((id, data_field)))
    }
}
