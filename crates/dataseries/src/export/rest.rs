//! Writes our own records for what SNIA's schema cannot hold.

use model::Contents;
use model::mapped::Store;
use syscalls::record::part;
use trace::event::{Data, Event, EventKind, Outcome};
use trace::manifest::Entry;
use trace::parts::{Part, PartMeaning, PartValue};

use super::Exporter;
use super::fill::VALUE_BYTES_MAX;
use super::held::Held;
use crate::columns::{self, CallRest, Columns as _, PartOf, Piece, Put, Stamp};
use crate::error::Error;
use crate::origin::Origin;
use crate::schema;

/// Shorter pieces are stored twice instead of referring to another record.
const SHORT_BYTES: u64 = 64;
/// Bytes per record of a piece that is longer than a field may be.
const STRETCH_BYTES: usize = 16 << 20;

impl Exporter<'_> {
    /// Writes a record of one of our types.
    pub(super) fn own(
        &mut self,
        name: &str,
        describe: impl FnOnce(&mut Put<'_>),
    ) -> Result<(), Error> {
        let Some(number) = schema::position(name) else { return Ok(()) };
        let mut put = Put::new(self.file.record(number)?);
        describe(&mut put);
        Ok(())
    }

    fn next_event(&mut self) -> i64 {
        self.next_event += 1;
        self.next_event - 1
    }

    /// Writes our own records of a call. Its SNIA records start at `first`.
    pub(super) fn rest_of_call(
        &mut self,
        held: &Held,
        first: i64,
        records: u32,
        origin: &Origin,
        contents: &mut dyn Contents,
    ) -> Result<(), Error> {
        let Held { thread, tsc, call, parts, .. } = held;
        let event = self.next_event();
        let (returned, result) = match call.outcome {
            Outcome::Returned { exit_tsc, ret } => (Some(exit_tsc as i64), Some(ret)),
            Outcome::Unfinished => (None, None),
        };
        let mut rest = CallRest {
            event,
            id: first,
            records,
            thread: *thread,
            nr: call.nr,
            flags: call.flags,
            site: call.site,
            nargs: call.nargs,
            args: call.args,
            entered: *tsc,
            returned,
            result,
        };
        self.own(columns::CALL, |put| columns::call(put, &mut rest))?;
        for data in &call.data {
            let held_by = self.holder(held, records, data, origin);
            self.piece(
                event,
                data,
                held_by.map(|(record, field)| (first + record, field)),
                contents,
            )?;
        }
        for (arg, file) in &call.identities {
            let mut whole = (event, *arg, *file);
            self.own(columns::IDENTITY, |put| columns::identity(put, &mut whole))?;
        }
        self.parts(event, parts)
    }

    /// Writes the optional parts of an event but its buffers, whose numbers mean nothing elsewhere.
    fn parts(&mut self, event: i64, parts: &[Part]) -> Result<(), Error> {
        let is_plain = |part: &&Part| {
            let meaning = part.row().map(|row| row.meaning);
            !matches!(meaning, Some(PartMeaning::Buffer | PartMeaning::Buffers))
        };
        for part in parts.iter().filter(is_plain) {
            let (number, bytes) = match &part.value {
                PartValue::Number(number) => (Some(*number as i64), Vec::new()),
                PartValue::Bytes(bytes) => (None, bytes.clone()),
            };
            let mut part = PartOf { event, id: part.id, number, bytes };
            self.own(columns::PART, |put| columns::part(put, &mut part))?;
        }
        Ok(())
    }

    /// Finds a record that holds all bytes of a piece: its index in the call's records, and the
    /// field.
    fn holder(
        &self,
        held: &Held,
        records: u32,
        data: &Data,
        origin: &Origin,
    ) -> Option<(i64, String)> {
        let len = data.content.len();
        if !(SHORT_BYTES..=VALUE_BYTES_MAX).contains(&len) || data.part == part::ORIGIN {
            return None;
        }
        // The records of an imported call may hold other bytes.
        if !origin.is_empty() {
            return None;
        }
        let plan = self.plans.of(held.call.nr);
        let of = self.file.of(plan.number);
        let fields = plan.value_fields();
        for record in 0..records {
            for field in &fields {
                if plan
                    .piece(record, *field, &held.call)
                    .is_some_and(|piece| std::ptr::eq(piece, data))
                {
                    return Some((i64::from(record), of.fields[*field].name.clone()));
                }
            }
        }
        None
    }

    /// Writes a piece of memory of a call or image.
    fn piece(
        &mut self,
        event: i64,
        data: &Data,
        held_by: Option<(i64, String)>,
        contents: &mut dyn Contents,
    ) -> Result<(), Error> {
        let mut piece = Piece {
            event,
            arg: data.arg,
            part: data.part,
            index: data.index,
            flags: data.flags,
            true_len: data.true_len,
            hash: data.hash.map(|hash| hash.to_le_bytes().to_vec()).unwrap_or_default(),
            held_by: None,
            field: String::new(),
            goes_on: 0,
        };
        let Some(number) = schema::position(columns::DATA) else { return Ok(()) };
        if let Some((record, field)) = held_by {
            (piece.held_by, piece.field) = (Some(record), field);
            return self.own(columns::DATA, |put| {
                columns::data(put, &mut piece);
                put.bytes(columns::CONTENT, &mut Vec::new());
            });
        }
        let mut left = data.content.len();
        let mut stretch: Vec<u8> = Vec::new();
        let mut failed = Ok(());
        let read = contents.each(&data.content, &mut |bytes| {
            left = left.saturating_sub(bytes.len() as u64);
            stretch.extend_from_slice(bytes);
            if stretch.len() >= STRETCH_BYTES && left > 0 {
                piece.goes_on = 1;
                failed = write_stretch(self, number, &mut piece, &stretch);
                stretch.clear();
            }
            failed.is_ok()
        });
        failed?;
        read.map_err(Error::Trace)?;
        piece.goes_on = 0;
        write_stretch(self, number, &mut piece, &stretch)
    }

    /// Writes an event other than a call.
    pub(super) fn note(&mut self, event: Event, contents: &mut dyn Contents) -> Result<(), Error> {
        // An event that this version does not know has no type.
        let Some(row) = event.kind.row() else { return Ok(()) };
        let stamp = Stamp { event: self.next_event(), thread: event.thread, tsc: event.tsc };
        self.parts(stamp.event, event.parts())?;
        if let Some(store) = Store::of(&event) {
            let data = store.data();
            let held_by = self.store(&store, &data, event.tsc, contents)?;
            let held_by = held_by.map(|(id, field)| (id, field.to_string()));
            self.piece(stamp.event, &data, held_by, contents)?;
        }
        let mut whole = (stamp, event.kind);
        self.own(&columns::event_name(row), |put| columns::event(put, &mut whole))?;
        match &whole.1 {
            EventKind::Image { data, .. } => {
                for data in data {
                    self.piece(stamp.event, data, None, contents)?;
                }
            }
            EventKind::State(state) => {
                for open in &state.fds {
                    let mut open = (stamp.event, open.clone());
                    self.own(columns::DESCRIPTOR, |put| columns::descriptor(put, &mut open))?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Writes the changed files in their final state.
    pub(super) fn manifest(&mut self) -> Result<(), Error> {
        let failed = |error: trace::ReadError| Error::Trace(error.to_string());
        for entry in self.trace.manifest() {
            let mut whole: (i64, Entry) = (self.next_event(), entry.map_err(failed)?);
            self.own(columns::FILE, |put| columns::file(put, &mut whole))?;
        }
        if let Some(ending) = self.trace.manifest_ending().map_err(failed)? {
            let mut whole = (self.next_event(), ending);
            self.own(columns::MANIFEST, |put| columns::ending(put, &mut whole))?;
        }
        Ok(())
    }
}

fn write_stretch(
    exporter: &mut Exporter<'_>,
    number: usize,
    piece: &mut Piece,
    bytes: &[u8],
) -> Result<(), Error> {
    let mut put = Put::new(exporter.file.record(number)?);
    columns::data(&mut put, piece);
    let (mut record, content) = put.rest();
    record.bytes(content, bytes);
    Ok(())
}
