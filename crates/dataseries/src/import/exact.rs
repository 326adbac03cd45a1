//! Imports files exported from a trace, whose own records hold all of it.

use std::collections::HashMap;
use std::io::Write;

use model::mapped::{self, Store};
use syscalls::record::{IMAGE_ARG, Identity, data_flag};
use trace::event::{
    BLOB_BYTES_MAX, BlobId, Call, Content, Data, Event, EventKind, Extras, INLINE_BYTES_MAX,
    OpenFd, Outcome, Preamble, StartHow, Totals,
};
use trace::manifest::{self, Ending, Entry, ManifestWriter, PIECE_BYTES_MIN};
use trace::parts::{Part, PartValue};
use trace::{Writer, WriterOptions};

use super::end::finish;
use super::imported::Imported;
use super::stream::{Files, Stream};
use crate::columns::{self, CallRest, Get, PartOf, Piece, Stamp};
use crate::error::Error;
use crate::export::{READ, WRITE};
use crate::origin::IMPORTED;
use crate::schema::{self, SNIA};

/// Most pieces of memory per call: an exec may have some hundred thousand strings.
const PIECES_MAX: usize = 1 << 20;

/// Most optional parts of an event.
const PARTS_MAX: usize = 64;

type Open<'f, 'r, 'b> = Stream<'f, 'r, 'b>;

/// What has pieces of memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Holder {
    /// A call with this number.
    Call(u16),
    Image,
    /// A store to a mapped file.
    Store,
    /// What was read of one.
    Read,
}

impl Holder {
    /// Name of the type whose records may hold the bytes.
    fn type_name(self) -> Option<String> {
        match self {
            Holder::Call(nr) => Some(schema::of_call(nr)),
            Holder::Image => None,
            Holder::Store => Some(format!("{SNIA}{WRITE}")),
            Holder::Read => Some(format!("{SNIA}{READ}")),
        }
    }
}

fn with_parts(event: Event, parts: Vec<Part>) -> Event {
    if parts.is_empty() {
        return event;
    }
    let extras = Extras { parts, later_fields: Vec::new() };
    Event { extras: Some(Box::new(extras)), ..event }
}

/// Imports the file into a trace.
pub fn import(
    files: &Files<'_, '_>,
    sink: Box<dyn Write + Send>,
    options: WriterOptions,
) -> Result<Imported, Error> {
    let mut imported = Imported::default();
    let recording = files.stream(columns::RECORDING)?;
    let preamble: Option<Preamble> =
        recording.record().and_then(|record| Get::read(record, columns::recording));
    let mut preamble = preamble.unwrap_or_default();
    // The new trace is another file.
    preamble.trace_dev = 0;
    preamble.options = imported_options(&preamble.options);
    let mut exact = Exact {
        writer: Writer::new(sink, &preamble, options)?,
        files,
        data: files.stream(columns::DATA)?,
        identities: files.stream(columns::IDENTITY)?,
        parts: files.stream(columns::PART)?,
        descriptors: files.stream(columns::DESCRIPTOR)?,
        holders: HashMap::new(),
        last_tsc: preamble.epoch_tsc,
        seen: Totals::default(),
    };
    exact.events()?;
    exact.manifest()?;
    let totals = files.stream(columns::TOTALS)?;
    let told: Option<Totals> =
        totals.record().and_then(|record| Get::read(record, columns::totals));
    // A partial trace has only the counts of what it holds.
    let calls = exact.writer.calls_written();
    let mut totals = told.unwrap_or(Totals {
        calls_made: calls,
        calls_read: calls,
        calls_written: calls,
        tsc_hz: preamble.tsc_hz,
        ..exact.seen
    });
    totals.end_tsc = totals.end_tsc.max(exact.last_tsc);
    finish(exact.writer, totals, files, &mut imported)?;
    Ok(imported)
}

/// Adds the origin of this trace to the options of the recording.
fn imported_options(options: &str) -> String {
    let gap = if options.is_empty() { "" } else { " " };
    format!("{options}{gap}{IMPORTED}")
}

struct Exact<'f, 'r, 'b> {
    writer: Writer,
    files: &'f Files<'r, 'b>,
    data: Open<'f, 'r, 'b>,
    identities: Open<'f, 'r, 'b>,
    parts: Open<'f, 'r, 'b>,
    descriptors: Open<'f, 'r, 'b>,
    /// Streams of types whose records hold bytes of pieces, opened when needed.
    holders: HashMap<String, Open<'f, 'r, 'b>>,
    last_tsc: u64,
    /// Counts of what was imported.
    seen: Totals,
}

impl Exact<'_, '_, '_> {
    /// Imports all calls and events in order.
    fn events(&mut self) -> Result<(), Error> {
        let files = self.files;
        let mut streams = vec![(None, files.stream(columns::CALL)?)];
        for (name, row) in columns::event_types() {
            streams.push((Some(row), files.stream(&name)?));
        }
        loop {
            let place = |stream: &Open<'_, '_, '_>| {
                stream.record().map(|record| record.int("event").unwrap_or(i64::MAX))
            };
            let next =
                streams.iter_mut().filter_map(|(row, stream)| Some((place(stream)?, row, stream)));
            let Some((_, row, stream)) = next.min_by_key(|(place, ..)| *place) else {
                return Ok(());
            };
            let Some(record) = stream.record() else { return Ok(()) };
            match row {
                None => match Get::read::<CallRest>(record, columns::call) {
                    Some(rest) => self.call(&rest)?,
                    None => files.bad_record(stream.of()),
                },
                Some(row) => {
                    let blank = (Stamp::default(), EventKind::blank(row));
                    match Get::read_into(record, blank, columns::event) {
                        Some((stamp, kind)) => self.event(stamp, kind)?,
                        None => files.bad_record(stream.of()),
                    }
                }
            }
            stream.advance()?;
        }
    }

    fn write(&mut self, event: &Event) -> Result<(), Error> {
        self.last_tsc = self.last_tsc.max(event.tsc);
        match &event.kind {
            EventKind::Call(call) => {
                let bytes = call.data.iter().map(|data| data.true_len);
                self.seen.data_bytes = bytes.fold(self.seen.data_bytes, u64::saturating_add);
            }
            EventKind::Start { how, .. } => {
                self.seen.threads += 1;
                self.seen.processes += u32::from(*how != StartHow::Thread);
            }
            EventKind::Gap { .. } => self.seen.gaps += 1,
            _ => {}
        }
        Ok(self.writer.event(event)?)
    }

    fn call(&mut self, rest: &CallRest) -> Result<(), Error> {
        let outcome = match (rest.returned, rest.result) {
            (Some(exit_tsc), Some(ret)) => Outcome::Returned { exit_tsc: exit_tsc as u64, ret },
            _ => Outcome::Unfinished,
        };
        let data = self.pieces(rest.event, Holder::Call(rest.nr))?;
        let mut identities = Vec::new();
        while let Some(record) = self.identities.record() {
            let found: Option<(i64, u8, Identity)> = Get::read(record, columns::identity);
            match found {
                Some((event, ..)) if event > rest.event => break,
                Some((event, arg, file)) if event == rest.event => identities.push((arg, file)),
                _ => self.files.bad_record(self.identities.of()),
            }
            self.identities.advance()?;
        }
        let call = Call {
            nr: rest.nr,
            flags: rest.flags,
            site: rest.site,
            nargs: rest.nargs,
            args: rest.args,
            outcome,
            data,
            identities,
        };
        let (thread, tsc) = (rest.thread, rest.entered);
        let parts = self.parts(rest.event)?;
        self.write(&with_parts(Event::new(thread, tsc, EventKind::Call(call)), parts))
    }

    /// Reads the optional parts of an event.
    fn parts(&mut self, event: i64) -> Result<Vec<Part>, Error> {
        let mut all = Vec::new();
        while let Some(record) = self.parts.record() {
            let found: Option<PartOf> = Get::read(record, columns::part);
            match found {
                Some(part) if part.event > event => break,
                Some(PartOf { event: of, id, number, bytes }) if of == event => {
                    let number = number.map(|number| PartValue::Number(number as u64));
                    let value = number.unwrap_or(PartValue::Bytes(bytes));
                    all.extend((all.len() < PARTS_MAX).then_some(Part { id, value }));
                }
                _ => self.files.bad_record(self.parts.of()),
            }
            self.parts.advance()?;
        }
        Ok(all)
    }

    /// Reads the bytes of a store to a mapped file, and returns the part that names them.
    fn stored(&mut self, event: i64, of: Holder) -> Result<Option<Part>, Error> {
        let pieces = self.pieces(event, of)?;
        let Some(data) = pieces.into_iter().next() else { return Ok(None) };
        let ids = match data.content {
            Content::Inline(bytes) if bytes.is_empty() => return Ok(None),
            Content::Inline(bytes) => vec![self.writer.blob(&bytes)?],
            Content::Blobs { ids, .. } => ids,
        };
        Ok(Some(Part::buffers(&ids.into_iter().map(Some).collect::<Vec<_>>())))
    }

    fn event(&mut self, stamp: Stamp, mut kind: EventKind) -> Result<(), Error> {
        match &mut kind {
            EventKind::Image { data, .. } => *data = self.pieces(stamp.event, Holder::Image)?,
            EventKind::State(state) => {
                while let Some(record) = self.descriptors.record() {
                    let found: Option<(i64, OpenFd)> = Get::read(record, columns::descriptor);
                    match found {
                        Some((event, _)) if event > stamp.event => break,
                        Some((event, open)) if event == stamp.event => state.fds.push(open),
                        _ => self.files.bad_record(self.descriptors.of()),
                    }
                    self.descriptors.advance()?;
                }
            }
            _ => {}
        }
        let parts = self.parts(stamp.event)?;
        let is_store = mapped::is_store(&kind);
        let mut event = with_parts(Event::new(stamp.thread, stamp.tsc, kind), parts);
        if is_store && let Some(store) = Store::of(&event) {
            let of = if store.is_read { Holder::Read } else { Holder::Store };
            if let Some(buffers) = self.stored(stamp.event, of)? {
                event.extras.get_or_insert_default().parts.push(buffers);
            }
        }
        self.write(&event)
    }

    /// Reads the pieces of memory of a call or another event.
    fn pieces(&mut self, event: i64, of: Holder) -> Result<Vec<Data>, Error> {
        let mut all: Vec<Data> = Vec::new();
        let mut parts = Parts::default();
        while let Some(record) = self.data.record() {
            let piece: Option<Piece> = Get::read(record, columns::data);
            let Some(piece) = piece.filter(|piece| piece.event >= event) else {
                self.files.bad_record(self.data.of());
                self.data.advance()?;
                continue;
            };
            if piece.event > event || all.len() >= PIECES_MAX {
                break;
            }
            let mut whole = true;
            match (piece.held_by, of.type_name()) {
                (Some(id), Some(name)) => {
                    whole = held(self.files, &mut self.holders, name, id, &piece.field, |bytes| {
                        parts.add(&mut self.writer, bytes)
                    })?;
                }
                _ => parts
                    .add(&mut self.writer, record.data(columns::CONTENT).unwrap_or_default())?,
            }
            self.data.advance()?;
            if piece.goes_on == 0 {
                all.push(Data {
                    arg: if of == Holder::Image { IMAGE_ARG } else { piece.arg },
                    part: piece.part,
                    index: piece.index,
                    flags: piece.flags | if whole { 0 } else { data_flag::CUT },
                    true_len: piece.true_len,
                    hash: piece.hash.try_into().ok().map(u128::from_le_bytes),
                    content: std::mem::take(&mut parts).end(),
                });
            }
        }
        Ok(all)
    }

    fn manifest(&mut self) -> Result<(), Error> {
        let mut written = ManifestWriter::default();
        let mut entries = self.files.stream(columns::FILE)?;
        let mut last: Option<Vec<u8>> = None;
        while let Some(record) = entries.record() {
            let found: Option<(i64, Entry)> = Get::read(record, columns::file);
            match found.filter(|(_, entry)| is_sound(entry, last.as_deref())) {
                Some((_, mut entry)) => {
                    last = Some(entry.path.clone());
                    written.add(&mut self.writer, &mut entry)?;
                }
                None => self.files.bad_record(entries.of()),
            }
            entries.advance()?;
        }
        let ending = self.files.stream(columns::MANIFEST)?;
        let told: Option<(i64, Ending)> =
            ending.record().and_then(|record| Get::read(record, columns::ending));
        if let Some((_, told)) = told {
            written.end(&mut self.writer, told)?;
        }
        Ok(())
    }
}

/// Returns whether readers of traces accept the entry.
fn is_sound(entry: &Entry, last: Option<&[u8]>) -> bool {
    let ascends = last.is_none_or(|last| last < entry.path.as_slice());
    ascends
        && match &entry.content {
            manifest::Content::Hashed(sums) => match sums.piece_bytes {
                0 => sums.pieces.is_empty(),
                bytes => {
                    bytes >= PIECE_BYTES_MIN
                        && bytes.is_power_of_two()
                        && sums.pieces.len() as u64 == entry.size.div_ceil(bytes)
                }
            },
            _ => true,
        }
}

/// Passes on the bytes in a record of a call's own type; returns false if there is no such record.
fn held<'f, 'r, 'b>(
    files: &'f Files<'r, 'b>,
    holders: &mut HashMap<String, Open<'f, 'r, 'b>>,
    name: String,
    id: i64,
    field: &str,
    give: impl FnOnce(&[u8]) -> Result<(), Error>,
) -> Result<bool, Error> {
    if !holders.contains_key(&name) {
        let stream = files.stream(&name)?;
        holders.insert(name.clone(), stream);
    }
    let Some(stream) = holders.get_mut(&name) else { return Ok(false) };
    while let Some(record) = stream.record() {
        let found = record.int("unique_id").unwrap_or(i64::MIN);
        if found >= id {
            let bytes = record.data(field).filter(|_| found == id);
            return match bytes {
                Some(bytes) => give(bytes).map(|()| true),
                None => Ok(false),
            };
        }
        stream.advance()?;
    }
    Ok(false)
}

/// Collects the bytes of a piece.
#[derive(Default)]
struct Parts {
    short: Vec<u8>,
    ids: Vec<BlobId>,
    len: u64,
}

impl Parts {
    fn add(&mut self, writer: &mut Writer, bytes: &[u8]) -> Result<(), Error> {
        if self.ids.is_empty() && self.short.is_empty() && bytes.len() <= INLINE_BYTES_MAX {
            self.short = bytes.to_vec();
            return Ok(());
        }
        let short = std::mem::take(&mut self.short);
        for bytes in short.chunks(BLOB_BYTES_MAX).chain(bytes.chunks(BLOB_BYTES_MAX)) {
            self.ids.push(writer.blob(bytes)?);
            self.len += bytes.len() as u64;
        }
        Ok(())
    }

    fn end(self) -> Content {
        match self.ids.is_empty() {
            true => Content::Inline(self.short),
            false => Content::Blobs { len: self.len, ids: self.ids },
        }
    }
}
