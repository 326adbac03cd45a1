//! A stream: a file of packets, read event by event through a window.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

use crate::error::Wrong;
use crate::metadata::{Clock, Metadata, StreamClass};
use crate::spelling;
use crate::types::{Type, Typed};
use crate::values::{Bits, Ticks, Unread, Value};

/// Bytes that are read at a time, and at most for one event.
const WINDOW: usize = 64 << 10;
const WINDOW_MAX: usize = 16 << 20;
/// At the beginning of each packet.
const MAGIC: u64 = 0xC1FC_1FC1;
const SECOND_NS: i128 = 1_000_000_000;

/// An event as it was read.
#[derive(Clone, Debug, Default)]
pub struct Raw {
    /// Its time in nanoseconds since 1970.
    pub time: i128,
    /// Its stream's number in the metadata, and its own.
    pub kind: (u64, u64),
    /// The CPU on which it happened.
    pub cpu: u32,
    /// Events that are missing before it.
    pub lost: u64,
    /// What stands beside the fields.
    pub context: Vec<(String, Value)>,
    /// The fields.
    pub fields: Vec<(String, Value)>,
}

/// Reads a stream.
pub struct Stream {
    /// The name of its file.
    pub name: String,
    file: File,
    file_bytes: u64,
    /// Begin of the packet in the file, and of the next one.
    packet: u64,
    next_packet: u64,
    /// End of the packet's content, and the place in it, in bits.
    content: u64,
    at: u64,
    window: Vec<u8>,
    /// Begin of the window in the packet.
    window_at: u64,
    class: u64,
    /// The CPU, or the stream's place where it is not told.
    cpu: u32,
    ticks: Ticks,
    discarded: u64,
    lost: u64,
    clock: Clock,
}

impl Stream {
    /// Opens a stream.
    pub fn open(name: String, file: File, place: u32) -> Result<Stream, Wrong> {
        let meta = file.metadata().map_err(|error| Wrong::Read(name.clone(), error))?;
        Ok(Stream {
            name,
            file,
            file_bytes: meta.len(),
            packet: 0,
            next_packet: 0,
            content: 0,
            at: 0,
            window: Vec::new(),
            window_at: 0,
            class: 0,
            cpu: place,
            ticks: Ticks::default(),
            discarded: 0,
            lost: 0,
            clock: Clock::default(),
        })
    }

    fn wrong(&self, what: impl Into<String>) -> Wrong {
        Wrong::Stream(self.name.clone(), self.packet + self.at / 8, what.into())
    }

    /// Fills the window from the place on, with more than before if that was not enough.
    fn fill(&mut self, more: bool) -> Result<(), Wrong> {
        let from = self.at / 8;
        let size = if more { 2 * self.window.len().max(WINDOW) } else { WINDOW };
        if size > WINDOW_MAX {
            return Err(self.wrong("an event is too long"));
        }
        let start = self.packet.saturating_add(from);
        let rest = self.file_bytes.saturating_sub(start);
        let packet_rest = self.content.div_ceil(8).saturating_sub(from);
        let size = (size as u64).min(rest).min(packet_rest) as usize;
        if more && from == self.window_at && size <= self.window.len() {
            return Err(self.wrong("the file ends in the middle of a packet"));
        }
        self.window.resize(size, 0);
        let read = self.file.read_exact_at(&mut self.window, start);
        read.map_err(|error| Wrong::Read(self.name.clone(), error))?;
        self.window_at = from;
        Ok(())
    }

    /// Reads by a function, which is asked again with more bytes if there were too few.
    fn take<T>(
        &mut self,
        mut read: impl FnMut(&mut Bits<'_>, &mut Ticks) -> Result<T, Unread>,
    ) -> Result<T, Wrong> {
        let mut more = false;
        loop {
            let base = 8 * self.window_at;
            let mut bits = Bits::new(&self.window, base, self.at, self.content);
            let mut ticks = self.ticks;
            match read(&mut bits, &mut ticks) {
                Ok(found) => {
                    (self.at, self.ticks) = (bits.at(), ticks);
                    return Ok(found);
                }
                Err(Unread::Short) => self.fill(more || self.at / 8 == self.window_at)?,
                Err(Unread::Wrong(what)) => return Err(self.wrong(what)),
            }
            more = true;
        }
    }

    /// Begins the next packet. Returns false if there is none.
    fn begin_packet(&mut self, metadata: &Metadata) -> Result<bool, Wrong> {
        if self.next_packet >= self.file_bytes {
            return Ok(false);
        }
        self.packet = self.next_packet;
        let rest = self.file_bytes - self.packet;
        (self.at, self.content) = (0, rest.saturating_mul(8));
        self.window.clear();
        self.window_at = 0;
        let mut header = Vec::new();
        if let Some(of) = &metadata.packet_header {
            header = self.take(|bits, ticks| {
                let mut found = Vec::new();
                bits.read("", of, ticks, &mut |name, value| found.push((name.into(), value)))?;
                Ok(found)
            })?;
        }
        let number = |values: &[(String, Value)], name: &str| {
            let found = values.iter().find(|(of, _)| of == name)?;
            found.1.number().map(|number| number as u64)
        };
        if number(&header, spelling::MAGIC).is_some_and(|magic| magic != MAGIC) {
            return Err(self.wrong("a packet does not begin as one"));
        }
        self.class = number(&header, spelling::STREAM).unwrap_or(0);
        let Some(class) = metadata.streams.get(&self.class) else {
            return Err(self.wrong(format!("stream {} is not in the metadata", self.class)));
        };
        if let Some(clock) = clock_of(class).and_then(|name| metadata.clocks.get(name)) {
            self.clock = clock.clone();
        } else if let Some(clock) = metadata.clocks.values().next() {
            self.clock = clock.clone();
        }
        let mut context: Vec<(String, Value)> = Vec::new();
        if let Some(of) = &class.packet_context {
            context = self.take(|bits, _| {
                let mut found = Vec::new();
                let mut other = Ticks::default();
                bits.read("", of, &mut other, &mut |name, value| {
                    found.push((name.into(), value));
                })?;
                Ok(found)
            })?;
        }
        let packet_bits = number(&context, spelling::SIZES[0]).unwrap_or(8 * rest);
        let content = number(&context, spelling::SIZES[1]).unwrap_or(packet_bits);
        let packet_bytes = packet_bits / 8;
        if content < self.at || content > packet_bits || packet_bytes == 0 {
            return Err(self.wrong("a packet has sizes that make no sense"));
        }
        if packet_bytes > rest {
            return Err(self.wrong("the file ends in the middle of a packet"));
        }
        self.content = content;
        self.next_packet = self.packet + packet_bytes;
        if let Some(begin) = number(&context, spelling::BEGIN) {
            self.ticks = Ticks(begin);
        }
        if let Some(cpu) = number(&context, spelling::CPU) {
            self.cpu = u32::try_from(cpu).unwrap_or(self.cpu);
        }
        if let Some(discarded) = number(&context, spelling::DISCARDED) {
            self.lost = self.lost.saturating_add(discarded.saturating_sub(self.discarded));
            self.discarded = discarded;
        }
        Ok(true)
    }

    /// Events that are missing at the end.
    pub fn lost_at_end(&mut self) -> (u32, u64) {
        (self.cpu, std::mem::take(&mut self.lost))
    }

    /// Reads the next event.
    pub fn next(
        &mut self,
        metadata: &Metadata,
        find: &dyn Fn((u64, u64)) -> Option<usize>,
    ) -> Result<Option<Raw>, Wrong> {
        while self.at >= self.content {
            if !self.begin_packet(metadata)? {
                return Ok(None);
            }
        }
        let Some(class) = metadata.streams.get(&self.class) else {
            return Err(self.wrong("the stream is not in the metadata"));
        };
        let before = self.at;
        let stream = self.class;
        let mut raw = self.take(|bits, ticks| {
            let mut raw = Raw { kind: (stream, 0), ..Raw::default() };
            if let Some(of) = &class.header {
                bits.is_flat = true;
                let mut kind = None;
                let mut time = None;
                let [of_kind, of_time] = spelling::KIND_AND_TIME;
                bits.read("", of, ticks, &mut |name, value| {
                    let number = value.number().map(|number| number as u64);
                    // The second one counts where the first has no room.
                    if name == of_kind {
                        kind = number.or(kind);
                    } else if name == of_time {
                        time = number.or(time);
                    }
                })?;
                bits.is_flat = false;
                raw.kind.1 = kind.unwrap_or(0);
                if let Some(time) = time.filter(|_| clock_of(class).is_none()) {
                    ticks.read(time, 64);
                }
            }
            let Some(place) = find(raw.kind) else {
                return Err(Unread::Wrong(format!("event {} is not in the metadata", raw.kind.1)));
            };
            let event = &metadata.events[place];
            for of in [&class.context, &event.context].into_iter().flatten() {
                bits.read("", of, ticks, &mut |name, value| {
                    raw.context.push((plain(name), value));
                })?;
            }
            if let Some(of) = &event.fields {
                bits.read("", of, ticks, &mut |name, value| {
                    raw.fields.push((plain(name), value));
                })?;
            }
            Ok(raw)
        })?;
        if self.at == before {
            return Err(self.wrong("events have no bytes, so there would be no end of them"));
        }
        raw.cpu = self.cpu;
        raw.lost = std::mem::take(&mut self.lost);
        raw.time = self.time();
        Ok(Some(raw))
    }

    /// The clock's time in nanoseconds since 1970.
    fn time(&self) -> i128 {
        let ticks = i128::from(self.ticks.0) + i128::from(self.clock.offset);
        let frequency = i128::from(self.clock.frequency.max(1));
        i128::from(self.clock.offset_s) * SECOND_NS + ticks * SECOND_NS / frequency
    }
}

/// A field's name without the underscore that keeps it apart from keywords.
pub fn plain(name: &str) -> String {
    name.strip_prefix('_').unwrap_or(name).into()
}

/// The clock of the events of a stream.
fn clock_of(class: &StreamClass) -> Option<&str> {
    class.header.as_ref().and_then(|of| clock_in(of))
}

fn clock_in(of: &Rc<Typed>) -> Option<&str> {
    match &of.of {
        Type::Int(int) => int.clock.as_deref(),
        Type::Struct(fields, _) | Type::Variant(_, fields) => {
            fields.iter().find_map(|(_, of)| clock_in(of))
        }
        _ => None,
    }
}
