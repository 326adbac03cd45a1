//! Traces by later versions: a reader skips what it does not know, counts it, and reads the rest.

mod frozen;
mod sample;

use sample::{Random, event, events, open, options, write};
use trace::event::FieldValue;
use trace::event::{
    BlobId, CPU_STREAM, Event, EventKind, Extras, GapWhy, OtherEvent, RECORDER, StartHow,
    UnknownEvent,
};
use trace::event_table::{self, EventClass, EventRow, Field, FieldType};
use trace::format::{FILE_HEADER_BYTES, HEAD_BYTES, Head, event_number, file_header, kind};
use trace::parts::{PARTS_BYTES_MAX, Part, part_id};
use trace::{Compress, Trace};

const fn field(name: &'static str, ty: FieldType) -> Field {
    Field { name, ty, about: "of a test", since: 2 }
}

/// A kind that only this test knows.
static LATER: [EventRow; 1] = [EventRow {
    number: 61,
    name: "page_fault",
    json_type: "page_fault",
    class: EventClass::Task,
    producer: "a test",
    about: "a page was missing",
    fields: &[
        field("code", FieldType::U8),
        field("pages", FieldType::U32),
        field("address", FieldType::U64),
        field("offset", FieldType::I64),
        field("path", FieldType::Bytes),
        field("text", FieldType::Text),
    ],
}];

fn page_fault() -> EventKind {
    let values = vec![
        FieldValue::Unsigned(200),
        FieldValue::Unsigned(u32::MAX.into()),
        FieldValue::Unsigned(u64::MAX),
        FieldValue::Signed(-5),
        FieldValue::Bytes(b"/lib/\xff".to_vec()),
        FieldValue::Text("\u{e4}".into()),
    ];
    EventKind::Other(OtherEvent { row: &LATER[0], values })
}

fn with_parts(event: Event, parts: Vec<Part>) -> Event {
    Event { extras: Some(Box::new(Extras { parts, later_fields: Vec::new() })), ..event }
}

fn stall(thread: u32, tsc: u64, ns: u64) -> Event {
    event(thread, tsc, EventKind::Stall { ns })
}

#[test]
fn the_first_reader_stays_as_it_was() {
    let files = [
        include_bytes!("frozen/mod.rs").as_slice(),
        include_bytes!("frozen/cursor.rs"),
        include_bytes!("frozen/events.rs"),
    ];
    assert_eq!(
        crc32fast::hash(&files.concat()),
        0x5d2ba28f,
        "it stands for readers that are out there"
    );
}

#[test]
fn what_is_not_known_is_skipped_and_counted() {
    let first = sample::call(1, [3, 7, 0, 0, 0, 0], 1100, 5);
    let start = EventKind::Start { how: StartHow::Fork, process: 1, parent: 0, pid: 5, tid: 5 };
    let span = Part::number(part_id::DURATION, 90);
    let all = vec![
        event(1, 1000, start),
        event(1, 1010, page_fault()),
        event(1, 1100, EventKind::Call(first.clone())),
        with_parts(event(1, 1400, page_fault()), vec![span, Part::number(77, 1)]),
        sample::with_later_fields(stall(1, 1500, 8)),
        with_parts(
            event(1, 1600, EventKind::Call(first)),
            vec![Part::number(part_id::USER_CPU, 300), Part::number(78, 0)],
        ),
        stall(CPU_STREAM | 2, 1700, 9),
        event(RECORDER, 1800, EventKind::Unknown(UnknownEvent { number: 6, body: vec![99, 1, 0] })),
        event(RECORDER, 1900, EventKind::Gap { why: GapWhy::Cut, detail: 0, text: "t".into() }),
    ];
    let bytes = sample::write_with_gaps(options(Compress::None, 0), 2, |writer| {
        all.iter().for_each(|event| writer.event(event).unwrap());
    });

    let old = frozen::read(&bytes).unwrap();
    assert_eq!(
        old.lines,
        [
            "1000 thread 1: start 2 1 0 5 5",
            "1100 thread 1: call 1 flags 0 site 0x7f0000001001 [3, 7, 0, 0, 0, 0] = 5 at 1300",
            "1500 thread 1: stall 8",
            "1600 thread 1: call 1 flags 0 site 0x7f0000001001 [3, 7, 0, 0, 0, 0] = 5 at 1300 \
             part 1 300",
            "1700 thread 2147483650: stall 9",
            "1900 thread 0: gap 9 0 \"t\"",
        ]
    );
    assert_eq!((old.calls, old.skipped, old.parts_skipped), (2, 3, 2));

    // Today's reader does not know the kind either, keeps it, and counts its gap.
    let trace = open(&bytes);
    let kept = events(&trace);
    assert_eq!(trace.unknown_events(), 3);
    assert!(trace.verify().problems.is_empty(), "{:?}", trace.verify());
    assert_eq!(trace.unknown_events(), 3, "no matter how often they are read");
    let again = sample::write_with_gaps(options(Compress::None, 0), 2, |writer| {
        kept.iter().for_each(|event| writer.event(event).unwrap());
    });
    assert_eq!(again, bytes, "they are written as they were");

    event_table::add_for_test(&LATER);
    let trace = open(&again);
    assert_eq!(events(&trace), all);
    assert_eq!(trace.unknown_events(), 1, "the gap of an unknown reason");
}

#[test]
fn everything_is_read_by_the_first_reader_of_this_version() {
    let bytes = write(options(Compress::None, 0), sample::everything);
    let (old, now) = (frozen::read(&bytes).unwrap(), open(&bytes));
    // What it knew: calls, and the kinds up to the last one of its time.
    let was_known = |event: &&Event| match &event.kind {
        EventKind::Call(_) => true,
        kind => kind.row().is_some_and(|row| row.number <= event_number::EXIT),
    };
    let all = events(&now);
    let known = all.iter().filter(was_known).count();
    let skipped = (all.len() - known) as u64;
    assert!(skipped > 1, "there are events of the kernel");
    assert_eq!((old.lines.len(), old.calls, old.skipped), (known, now.verify().calls, skipped));
}

#[test]
fn hostile_traces_end_for_the_first_reader_as_well() {
    let sound = write(options(Compress::None, 0), |writer| {
        sample::fill(writer, 60, 2);
    });
    let mut random = Random(3);
    let mut errors = 0;
    for _ in 0..2000 {
        errors +=
            u32::from(frozen::read(&sample::scribble(&sound, kind::EVENTS, &mut random)).is_err());
    }
    assert!(errors > 200, "the damage was there: {errors}");
}

/// Makes a trace of one block of events.
fn block(count: u32, payload: &[u8]) -> Trace {
    let sound = write(options(Compress::None, 0), |_| {});
    let mut bytes = file_header().to_vec();
    let preamble: [u8; HEAD_BYTES] = sound[FILE_HEADER_BYTES..][..HEAD_BYTES].try_into().unwrap();
    let preamble = Head::from_bytes(&preamble, FILE_HEADER_BYTES as u64).unwrap();
    bytes.extend_from_slice(&sound[FILE_HEADER_BYTES..preamble.end() as usize]);
    let head = Head {
        kind: kind::EVENTS,
        raw_len: payload.len() as u32,
        stored_len: payload.len() as u32,
        offset: bytes.len() as u64,
        payload_crc: crc32fast::hash(payload),
        thread: 1,
        count,
        ..Head::default()
    };
    bytes.extend_from_slice(&head.to_bytes());
    bytes.extend_from_slice(payload);
    open(&bytes)
}

/// Returns the events of a block, or what is wrong with it.
fn read(count: u32, payload: &[u8]) -> Result<Vec<EventKind>, String> {
    let trace = block(count, payload);
    let events = trace.events().map(|event| event.map(|event| event.event.kind));
    events.collect::<Result<_, _>>().map_err(|error| error.to_string())
}

#[test]
fn lengths_that_lie_are_damage() {
    let fails = |payload: &[u8], why: &str| {
        let error = read(1, payload).unwrap_err();
        assert!(error.contains(why), "{payload:?}: {error}");
    };
    const HUGE: [u8; 9] = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
    // A body beyond the payload, of a kind that is known and of one that is not.
    fails(&[0x85, 0, 3, 1], "too early");
    fails(&[0xbd, 0, 3, 1], "too early");
    fails(&[&[0xbd, 0], &HUGE[..]].concat(), "too early");
    // A body that ends within a field.
    fails(&[0x85, 0, 1, 0x80], "too early");
    fails(&[0x86, 0, 3, 1, 0, 9], "too early");
    // A body that ends before the bytes of the event do.
    fails(&[0x85, 0, 1, 5, 5], "follow its last event");
    // Parts beyond the payload, a part beyond the parts, half a part.
    fails(&[0xc5, 0, 1, 5, 9, 2, 0], "too early");
    fails(&[0xc5, 0, 1, 5, 3, 3, 9, 0], "too early");
    fails(&[0xc5, 0, 1, 5, 1, 2], "too early");
    fails(&[&[0xc5, 0, 1, 5], &HUGE[..]].concat(), "too early");
    let mut long = vec![0xc5, 0, 1, 5];
    long.extend([0x81, 0x80, 0x04]);
    long.extend(vec![0; PARTS_BYTES_MAX + 1]);
    fails(&long, "too long");
    // Lists that claim more than there is.
    fails(&[&[0x83, 0, 10, 1], &HUGE[..]].concat(), "too early");
    // Calls with parts.
    fails(&[0x48, 0, 0, 2, 2], "too early");
}

#[test]
fn bodies_may_end_at_any_field_and_go_on_behind_the_last() {
    let start = EventKind::Start { how: StartHow::Thread, process: 2, parent: 0, pid: 0, tid: 0 };
    assert_eq!(read(1, &[0x82, 0, 2, 4, 2]), Ok(vec![start]));
    assert_eq!(read(1, &[0x85, 0, 0]), Ok(vec![EventKind::Stall { ns: 0 }]));
    let rest = [0x85, 0, 4, 7, 1, 2, 3, 0x84, 0, 1, 9];
    let all = vec![EventKind::Stall { ns: 7 }, EventKind::End { calls: 9 }];
    assert_eq!(read(2, &rest), Ok(all));
}

#[test]
fn codes_that_are_not_known_are_no_damage() {
    let unknown = |number, body: &[u8]| {
        Ok(vec![EventKind::Unknown(UnknownEvent { number, body: body.to_vec() })])
    };
    assert_eq!(read(1, &[0x82, 0, 2, 77, 2]), unknown(2, &[77, 2]));
    assert_eq!(read(1, &[0x86, 0, 1, 200]), unknown(6, &[200]));
    assert_eq!(read(1, &[0x80, 0, 0]), unknown(0, &[]));
    assert_eq!(read(1, &[0xbf, 0, 1, 1]), unknown(63, &[1]));
}

#[test]
fn parts_that_are_too_long_are_refused() {
    let part = Part { id: 99, value: trace::parts::PartValue::Bytes(vec![0; PARTS_BYTES_MAX]) };
    let bytes = write(options(Compress::None, 0), |writer| {
        let error = writer.event(&with_parts(stall(1, 5, 5), vec![part])).unwrap_err();
        assert!(error.to_string().contains("parts"), "{error}");
        writer.event(&stall(1, 6, 6)).unwrap();
    });
    assert_eq!(events(&open(&bytes)), [stall(1, 6, 6)]);
}

#[test]
fn buffers_are_written_before_events_that_name_them_in_parts() {
    let bytes = write(options(Compress::None, 0), |writer| {
        let id = writer.blob(&sample::noise(1, 900)).unwrap();
        let parts = vec![Part::buffers(&[Some(id), None])];
        writer.event(&with_parts(event(1, 5, page_fault()), parts)).unwrap();
    });
    let trace = open(&bytes);
    assert!(trace.verify().complete, "{:?}", trace.verify());
    let named = events(&trace)[0].parts()[0].named_buffers();
    assert_eq!(named, [Some(BlobId(0)), None]);
    // One that is not there is noticed.
    let lost = write(options(Compress::None, 0), |writer| {
        let parts = vec![Part::number(part_id::STACK, 4)];
        writer.event(&with_parts(stall(1, 5, 5), parts)).unwrap();
    });
    assert!(!open(&lost).verify().complete);
}
