//! Events of a kind that comes later: carried along by what does not know it, and one row is enough
//! for all that shows events.

use std::io::{self, Cursor, Write};
use std::sync::{Arc, Mutex};

use model::{Conditions, EventChoice};
use rewrite::{Input, Merge};
use stats::overview::Overview;
use trace::event::FieldValue;
use trace::event::{
    CPU_STREAM, Event, EventKind, Extras, GapWhy, OtherEvent, Outcome, Preamble, RECORDER, Totals,
    UnknownEvent,
};
use trace::event_table::{self, EventClass, EventRow, Field, FieldType};
use trace::parts::{Part, part_id};
use trace::{Trace, Writer, WriterOptions};

use crate::show::tests::shown_of;
use crate::{cut, export, repair, source};

const fn field(name: &'static str, ty: FieldType) -> Field {
    Field { name, ty, about: "of a test", since: 2 }
}

static LATER: [EventRow; 1] = [EventRow {
    number: 61,
    name: "page_fault",
    json_type: "page_fault",
    class: EventClass::Signal,
    producer: "a test",
    about: "a page was missing",
    fields: &[
        field("address", FieldType::U64),
        field("offset", FieldType::I64),
        field("path", FieldType::Bytes),
        field("note", FieldType::Text),
    ],
}];

fn page_fault() -> EventKind {
    let values = vec![
        FieldValue::Unsigned(4096),
        FieldValue::Signed(-1),
        FieldValue::Bytes(b"/lib/\x1b".to_vec()),
        FieldValue::Text("a \"b\"".into()),
    ];
    EventKind::Other(OtherEvent { row: &LATER[0], values })
}

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no test panics here").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Makes a trace of a thread with two calls and two page faults, one of them on a CPU, and of a gap
/// for a reason that comes later. `epoch_ns` tells several apart.
fn trace(epoch_ns: u64) -> Trace {
    let kept = Kept::default();
    let preamble =
        Preamble { epoch_ns, epoch_tsc: 1000, tsc_hz: 1_000_000_000, ..Preamble::default() };
    let options = WriterOptions { workers: 0, ..WriterOptions::default() };
    let mut writer = Writer::new(Box::new(kept.clone()), &preamble, options).unwrap();
    let mut put = |event: Event| writer.event(&event).unwrap();
    let start = EventKind::Start {
        how: trace::event::StartHow::Launch,
        process: 1,
        parent: 0,
        pid: 100,
        tid: 100,
    };
    put(Event::new(1, 1000, start));
    for tsc in [1100, 1300] {
        let outcome = Outcome::Returned { exit_tsc: tsc + 50, ret: 7 };
        let call = trace::event::Call { nr: 39, outcome, ..Default::default() };
        put(Event::new(1, tsc, EventKind::Call(call)));
    }
    let fault = |thread, tsc, parts| {
        let extras = Some(Box::new(Extras { parts, later_fields: Vec::new() }));
        Event { extras, ..Event::new(thread, tsc, page_fault()) }
    };
    put(fault(1, 1400, vec![Part::number(part_id::CPU, 3), Part::number(part_id::PROCESS, 1)]));
    put(fault(CPU_STREAM | 2, 1500, vec![Part::number(900, 1)]));
    let gap = UnknownEvent { number: 6, body: vec![99, 0, 0] };
    put(Event::new(RECORDER, 1600, EventKind::Unknown(gap)));
    let calls = writer.calls_written();
    let totals = Totals {
        calls_made: calls,
        calls_read: calls,
        calls_written: calls,
        gaps: 1,
        threads: 1,
        processes: 1,
        tsc_hz: 1_000_000_000,
        end_tsc: 1600,
        ..Totals::default()
    };
    writer.finish(&totals).unwrap();
    let bytes = kept.0.lock().unwrap().clone();
    Trace::from_stream(Cursor::new(bytes)).unwrap()
}

/// Returns what a trace has of the events that this version does not know.
fn unknown(trace: &Trace) -> Vec<Event> {
    let events = trace.events().map(|event| event.unwrap().event);
    events.filter(|event| matches!(event.kind, EventKind::Unknown(_))).collect()
}

/// What does not know the kind carries it along unchanged, and counts it.
fn carried() {
    let whole = trace(0);
    let before = unknown(&whole);
    assert_eq!(before.len(), 3);
    assert_eq!(before[0].parts().len(), 2);
    let overview = Overview::of(&whole, whole.verify()).unwrap();
    assert_eq!((overview.unknown_events, overview.gap_count), (3, 1));
    assert!(overview.report.problems.is_empty(), "{:?}", overview.report);
    let note = source::unknown_events(whole.unknown_events()).unwrap();
    assert_eq!(note, "3 events of kinds that this version does not know were skipped");

    let repaired = repair::tests::repair(&whole).expect("it has a gap");
    assert_eq!(unknown(&repaired), before);
    let repaired = repaired.verify();
    assert!(repaired.problems.is_empty() && repaired.gaps == 2, "{repaired:?}");

    let filter = Conditions { since_ns: Some(300), ..Conditions::default() };
    let part = cut::tests::part(&whole, &filter, false);
    assert_eq!(unknown(&part), before);
    assert!(part.verify().problems.is_empty(), "{:?}", part.verify());

    let inputs = [1, 5_000_000_000]
        .map(|epoch_ns| Input { name: epoch_ns.to_string(), trace: trace(epoch_ns) });
    let merge = Merge::of(inputs.into()).unwrap();
    let merged = cut::tests::rewritten(&whole, |rewriter| {
        assert!(merge.write(rewriter, &mut |_, _| {}).is_ok());
    });
    let merged = unknown(&merged);
    assert_eq!(merged.len(), 6);
    let threads: Vec<u32> = merged.iter().map(|event| event.thread).collect();
    assert_eq!(threads, [1, CPU_STREAM | 2, 0, 2, CPU_STREAM | 2, 0]);
    let expected = [Part::number(part_id::CPU, 3), Part::number(part_id::PROCESS, 2)];
    assert_eq!(merged[3].parts(), expected, "numbers of processes are new ones");
    assert_eq!(merged[4].extras, before[1].extras);
    let kinds: Vec<&EventKind> = merged.iter().map(|event| &event.kind).collect();
    let expected: Vec<&EventKind> = before.iter().chain(&before).map(|event| &event.kind).collect();
    assert_eq!(kinds, expected);
}

#[test]
fn one_row_is_enough() {
    carried();
    event_table::add_for_test(&LATER);
    let trace = trace(0);
    assert_eq!(unknown(&trace).len(), 1);

    let line = r#"--- page_fault address=4096 offset=-1 path="/lib/\033" note="a \"b\"" ---"#;
    let text = shown_of(&trace, Conditions::default(), false);
    assert_eq!(text.matches(line).count(), 2, "{text}");
    assert_eq!(text.lines().filter(|line| line.starts_with("cpu2 ")).count(), 1, "{text}");
    let json = shown_of(&trace, Conditions::default(), true);
    let objects: Vec<serde_json::Value> =
        json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let faults: Vec<_> = objects.iter().filter(|object| object["type"] == "page_fault").collect();
    assert_eq!(faults.len(), 2, "{json}");
    for (fault, cpu) in faults.iter().zip([3, 2]) {
        assert_eq!((&fault["address"], &fault["offset"]), (&4096.into(), &(-1).into()));
        assert_eq!((&fault["path"], &fault["note"]), (&"/lib/\u{1b}".into(), &"a \"b\"".into()));
        assert_eq!(fault["cpu"], cpu);
    }

    let events =
        |text| Conditions { events: EventChoice::parse(text).ok(), ..Conditions::default() };
    for (filter, lines) in [("page_fault", 2), ("%signal", 2), ("!page_fault", 1), ("start", 1)] {
        let text = shown_of(&trace, events(filter), false);
        assert_eq!(text.lines().count(), lines, "{filter}: {text}");
    }

    for (format, calls) in export::tests::everything(&trace) {
        assert!(calls.is_ok(), "{format:?}: {calls:?}");
    }
    let why = GapWhy::from_wire(99);
    assert_eq!(why, None, "this test needs a reason that nobody knows");
}
