//! Perfetto's TrackEvent protobuf: tracks with slices, instants, counters and flows between them.
//!
//! Packets are compressed in batches, as by Perfetto's own service. Repeated texts are interned.
//! The table is cleared when it gets too large, so that memory is bounded.

mod interned;
mod pipes;
mod proto;

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::ZlibEncoder;

use interned::{Interned, Table};
pub use pipes::Pipes;
pub use proto::Message;

/// Number of packet bytes that are compressed together.
const BATCH_BYTES: usize = 512 << 10;
/// Number of the only sequence; interned texts are valid within it.
const SEQUENCE: u64 = 1;

/// Fields of `Trace` and `TracePacket`.
mod packet {
    pub const PACKET: u32 = 1;
    pub const FTRACE_EVENTS: u32 = 1;
    pub const TIMESTAMP: u32 = 8;
    pub const SEQUENCE_ID: u32 = 10;
    pub const TRACK_EVENT: u32 = 11;
    pub const INTERNED_DATA: u32 = 12;
    pub const SEQUENCE_FLAGS: u32 = 13;
    pub const COMPRESSED_PACKETS: u32 = 50;
    pub const TRACK_DESCRIPTOR: u32 = 60;
    /// `SEQ_INCREMENTAL_STATE_CLEARED`: the table of interned texts is cleared.
    pub const CLEARED: u64 = 1;
    /// `SEQ_NEEDS_INCREMENTAL_STATE`: the packet refers to interned texts.
    pub const NEEDED: u64 = 2;
}

/// Fields of `TrackEvent` and `DebugAnnotation`.
mod event {
    pub const CATEGORY_IID: u32 = 3;
    pub const ANNOTATION: u32 = 4;
    pub const TYPE: u32 = 9;
    pub const NAME_IID: u32 = 10;
    pub const TRACK: u32 = 11;
    pub const COUNTER: u32 = 30;
    pub const FLOW: u32 = 47;
    pub const LAST_FLOW: u32 = 48;
    pub const ANNOTATION_NAME_IID: u32 = 1;
    pub const ANNOTATION_UINT: u32 = 3;
    pub const ANNOTATION_INT: u32 = 4;
    pub const ANNOTATION_STRING: u32 = 6;
    pub const ANNOTATION_POINTER: u32 = 7;
    pub const ANNOTATION_ENTRY: u32 = 11;
    pub const ANNOTATION_STRING_IID: u32 = 17;
}

/// Fields of `TrackDescriptor` and its nested messages.
mod descriptor {
    pub const UUID: u32 = 1;
    pub const NAME: u32 = 2;
    pub const PROCESS: u32 = 3;
    pub const THREAD: u32 = 4;
    pub const PARENT: u32 = 5;
    pub const COUNTER: u32 = 8;
    pub const PROCESS_PID: u32 = 1;
    pub const PROCESS_COMMAND: u32 = 2;
    pub const PROCESS_NAME: u32 = 6;
    pub const THREAD_PID: u32 = 1;
    pub const THREAD_TID: u32 = 2;
    pub const COUNTER_UNIT: u32 = 3;
}

/// Kind of an event on a track, with the value used in the format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TrackEventKind {
    /// Start of a slice.
    Begin = 1,
    /// End of the track's most recent open slice.
    End = 2,
    /// An event without duration.
    Instant = 3,
}

/// Value of an event's detail.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Detail {
    /// A signed number.
    Int(i64),
    /// An unsigned number.
    Uint(u64),
    /// An address.
    Address(u64),
    /// A text that is rarely repeated.
    Text(String),
    /// A text that may be repeated; it is interned.
    Name(String),
    /// Nested details.
    Group(Vec<(&'static str, Detail)>),
}

/// An event on a track.
#[derive(Clone, Default, Debug)]
pub struct Event<'a> {
    /// Id of its track.
    pub track: u64,
    /// Time in nanoseconds.
    pub time_ns: u64,
    /// Name, empty for an end.
    pub name: &'a str,
    /// Category, empty for an end.
    pub category: &'a str,
    /// Details by name.
    pub details: &'a [(&'a str, Detail)],
    /// Flows that pass through the event.
    pub flows: &'a [u64],
    /// Flows that end at the event.
    pub last_flows: &'a [u64],
}

/// Unit of a counter, with the value used in the format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// A count.
    Count = 2,
    /// Bytes.
    Bytes = 3,
}

/// Writer of a Perfetto trace.
pub struct Writer<W: Write> {
    out: W,
    batch: Message,
    strings: Interned,
}

impl<W: Write> Writer<W> {
    /// Begins a trace.
    pub fn new(out: W) -> Writer<W> {
        Writer { out, batch: Message::default(), strings: Interned::default() }
    }

    /// Describes a process's track. May be repeated to add name and command; the first name stays.
    pub fn process(
        &mut self,
        track: u64,
        pid: u32,
        about: Option<(&str, &[String])>,
    ) -> io::Result<()> {
        self.packet(|packet, _| {
            packet.message(packet::TRACK_DESCRIPTOR, |track_descriptor| {
                track_descriptor.uint(descriptor::UUID, track);
                track_descriptor.message(descriptor::PROCESS, |process| {
                    process.uint(descriptor::PROCESS_PID, pid.into());
                    if let Some((name, command)) = about {
                        for word in command {
                            process.bytes(descriptor::PROCESS_COMMAND, word.as_bytes());
                        }
                        process.bytes(descriptor::PROCESS_NAME, name.as_bytes());
                    }
                });
            });
        })
    }

    /// Describes a thread's track.
    pub fn thread(&mut self, track: u64, parent: u64, pid: u32, tid: u32) -> io::Result<()> {
        self.packet(|packet, _| {
            packet.message(packet::TRACK_DESCRIPTOR, |track_descriptor| {
                track_descriptor.uint(descriptor::UUID, track);
                track_descriptor.uint(descriptor::PARENT, parent);
                track_descriptor.message(descriptor::THREAD, |thread| {
                    thread.uint(descriptor::THREAD_PID, pid.into());
                    thread.uint(descriptor::THREAD_TID, tid.into());
                });
            });
        })
    }

    /// Describes any other track, which is a counter if it has a unit.
    pub fn track(
        &mut self,
        track: u64,
        parent: Option<u64>,
        name: &str,
        unit: Option<Unit>,
    ) -> io::Result<()> {
        self.packet(|packet, _| {
            packet.message(packet::TRACK_DESCRIPTOR, |track_descriptor| {
                track_descriptor.uint(descriptor::UUID, track);
                track_descriptor.bytes(descriptor::NAME, name.as_bytes());
                if let Some(parent) = parent {
                    track_descriptor.uint(descriptor::PARENT, parent);
                }
                if let Some(unit) = unit {
                    track_descriptor.message(descriptor::COUNTER, |counter| {
                        counter.uint(descriptor::COUNTER_UNIT, unit as u64);
                    });
                }
            });
        })
    }

    /// Writes an event.
    pub fn event(&mut self, kind: TrackEventKind, event: &Event<'_>) -> io::Result<()> {
        self.packet(|packet, strings| {
            packet.uint(packet::TIMESTAMP, event.time_ns);
            packet.message(packet::TRACK_EVENT, |out| {
                out.uint(event::TYPE, kind as u64);
                out.uint(event::TRACK, event.track);
                if !event.name.is_empty() {
                    out.uint(event::NAME_IID, strings.get(Table::Name, event.name));
                    out.uint(event::CATEGORY_IID, strings.get(Table::Category, event.category));
                }
                for (name, detail) in event.details {
                    put_detail(out, event::ANNOTATION, name, detail, strings);
                }
                for flow in event.flows {
                    out.fixed(event::FLOW, *flow);
                }
                for flow in event.last_flows {
                    out.fixed(event::LAST_FLOW, *flow);
                }
            });
        })
    }

    /// Writes a counter's new value.
    pub fn counter(&mut self, track: u64, time_ns: u64, value: u64) -> io::Result<()> {
        /// `TYPE_COUNTER`.
        const COUNTER: u64 = 4;
        self.packet(|packet, _| {
            packet.uint(packet::TIMESTAMP, time_ns);
            packet.message(packet::TRACK_EVENT, |event| {
                event.uint(event::TYPE, COUNTER);
                event.uint(event::TRACK, track);
                event.uint(event::COUNTER, value);
            });
        })
    }

    /// Writes events of the kernel: a bundle that is filled.
    pub fn ftrace(&mut self, fill: impl FnOnce(&mut Message)) -> io::Result<()> {
        self.packet(|packet, _| packet.message(packet::FTRACE_EVENTS, fill))
    }

    fn packet(&mut self, fill: impl FnOnce(&mut Message, &mut Interned)) -> io::Result<()> {
        let strings = &mut self.strings;
        let cleared = if strings.begin_packet() { packet::CLEARED } else { 0 };
        self.batch.message(packet::PACKET, |packet| {
            packet.uint(packet::SEQUENCE_ID, SEQUENCE);
            packet.uint(packet::SEQUENCE_FLAGS, cleared | packet::NEEDED);
            fill(packet, strings);
            strings.put_new(packet, packet::INTERNED_DATA);
        });
        if self.batch.len() >= BATCH_BYTES { self.compress() } else { Ok(()) }
    }

    fn compress(&mut self) -> io::Result<()> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(self.batch.bytes_so_far())?;
        let compressed = encoder.finish()?;
        self.batch.clear();
        let mut outer = Message::default();
        outer.message(packet::PACKET, |packet| {
            packet.bytes(packet::COMPRESSED_PACKETS, &compressed);
        });
        self.out.write_all(outer.bytes_so_far())
    }

    /// Writes the last batch.
    pub fn finish(mut self) -> io::Result<()> {
        if self.batch.len() > 0 {
            self.compress()?;
        }
        self.out.flush()
    }
}

fn put_detail(out: &mut Message, field: u32, name: &str, detail: &Detail, strings: &mut Interned) {
    out.message(field, |out| {
        out.uint(event::ANNOTATION_NAME_IID, strings.get(Table::DetailName, name));
        match detail {
            Detail::Int(value) => out.uint(event::ANNOTATION_INT, *value as u64),
            Detail::Uint(value) => out.uint(event::ANNOTATION_UINT, *value),
            Detail::Address(value) => out.uint(event::ANNOTATION_POINTER, *value),
            Detail::Text(text) => out.bytes(event::ANNOTATION_STRING, text.as_bytes()),
            Detail::Name(text) => {
                out.uint(event::ANNOTATION_STRING_IID, strings.get(Table::DetailText, text));
            }
            Detail::Group(details) => {
                for (name, detail) in details {
                    put_detail(out, event::ANNOTATION_ENTRY, name, detail, strings);
                }
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = bytes[0];
            *bytes = &bytes[1..];
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        value
    }

    /// Returns the fields of a message: number, and value or bytes.
    fn fields(mut bytes: &[u8]) -> Vec<(u32, u64, Vec<u8>)> {
        let mut all = Vec::new();
        while !bytes.is_empty() {
            let key = varint(&mut bytes);
            let number = (key >> 3) as u32;
            match key & 7 {
                0 => all.push((number, varint(&mut bytes), Vec::new())),
                1 => {
                    let (value, rest) = bytes.split_at(8);
                    all.push((number, u64::from_le_bytes(value.try_into().unwrap()), Vec::new()));
                    bytes = rest;
                }
                2 => {
                    let len = varint(&mut bytes) as usize;
                    let (value, rest) = bytes.split_at(len);
                    all.push((number, 0, value.to_vec()));
                    bytes = rest;
                }
                other => panic!("wire type {other}"),
            }
        }
        all
    }

    fn unpacked(bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut packets = Vec::new();
        for (_, _, packet) in fields(bytes) {
            let [(packet::COMPRESSED_PACKETS, _, compressed)] = &fields(&packet)[..] else {
                panic!("a packet that is not compressed")
            };
            let mut batch = Vec::new();
            flate2::read::ZlibDecoder::new(&compressed[..]).read_to_end(&mut batch).unwrap();
            packets.extend(fields(&batch).into_iter().map(|(_, _, packet)| packet));
        }
        packets
    }

    #[test]
    fn an_event_is_one_packet_with_its_new_texts() {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes);
        let details = [("fd", Detail::Int(-1)), ("path", Detail::Name("/x".into()))];
        let event = Event {
            track: 6,
            time_ns: 1000,
            name: "read",
            category: "call",
            details: &details,
            flows: &[7],
            last_flows: &[8],
        };
        writer.event(TrackEventKind::Begin, &event).unwrap();
        writer.event(TrackEventKind::Begin, &event).unwrap();
        writer.finish().unwrap();
        let packets = unpacked(&bytes);
        assert_eq!(packets.len(), 2);
        let has = |packet: &[u8], number| fields(packet).iter().any(|field| field.0 == number);
        assert!(has(&packets[0], packet::INTERNED_DATA), "texts come with their first use");
        assert!(!has(&packets[1], packet::INTERNED_DATA), "and only with that");
        let event = fields(&packets[1]).into_iter().find(|f| f.0 == packet::TRACK_EVENT).unwrap().2;
        let event = fields(&event);
        let value = |number| event.iter().find(|field| field.0 == number).unwrap().1;
        assert_eq!((value(event::TYPE), value(event::TRACK)), (1, 6));
        assert_eq!((value(event::FLOW), value(event::LAST_FLOW)), (7, 8));
    }

    #[test]
    fn too_many_texts_are_forgotten() {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes);
        for number in 0..200_000 {
            let details = [("path", Detail::Name(format!("/some/long/path/{number}")))];
            let event =
                Event { name: "open", category: "call", details: &details, ..Event::default() };
            writer.event(TrackEventKind::Instant, &event).unwrap();
        }
        assert!(writer.strings.bytes() < 16 << 20);
        writer.finish().unwrap();
        let flags = |packet: &Vec<u8>| {
            fields(packet).iter().find(|f| f.0 == packet::SEQUENCE_FLAGS).unwrap().1
        };
        let cleared = unpacked(&bytes).iter().filter(|p| flags(p) & packet::CLEARED != 0).count();
        assert!(cleared > 1, "{cleared}");
    }
}
