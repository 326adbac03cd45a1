//! Exports are imported again.

use dataseries::Codec;
use dataseries::file::reader::FileReader;
use model::mapped::Store;
use model::{Contents, Stored};
use trace::Trace;
use trace::event::{Call, Event, EventKind, GapWhy, StartHow};
use trace::parts::{Part, part_id};

use crate::copies::{swapped, without_own};
use crate::sample;

#[test]
fn a_round_trip_loses_nothing() {
    let original = sample::open(sample::trace());
    let events = sample::events(&original);
    for codec in [Codec::None, Codec::Lzf, Codec::Zlib] {
        let (imported, bytes) = sample::import(&sample::export(&original, codec)).unwrap();
        assert!(imported.exact && imported.damage.is_empty(), "{imported:?}");
        let back = sample::open(bytes);
        let mut found = sample::events(&back);
        let last = found.pop().map(|event| event.kind);
        assert!(matches!(last, Some(EventKind::Gap { why: GapWhy::Imported, .. })), "{last:?}");
        assert_eq!(found, events);
        let report = back.verify();
        assert!(report.problems.is_empty() && !report.complete, "{report:?}");
        assert_eq!(back.preamble().command, original.preamble().command);
    }
}

/// Stores that a trace tells of, with their bytes.
fn stores(trace: &Trace) -> Vec<(u64, u64, u64, Vec<u8>)> {
    let events = sample::events(trace);
    let told = |event: &Event| {
        let store = Store::of(event)?;
        let bytes = Stored(trace).read(&store.content(), usize::MAX).unwrap();
        assert_eq!((store.process, store.thread), (1, Some(1)));
        Some((store.address, store.offset, store.length, bytes))
    };
    events.iter().filter_map(told).collect()
}

#[test]
fn stores_to_mapped_files_come_back() {
    let original = sample::open(sample::stores());
    let file = sample::export(&original, Codec::None);
    let before = stores(&original);
    assert_eq!(before.len(), 2);
    let (imported, bytes) = sample::import(&file).unwrap();
    assert!(imported.exact && imported.damage.is_empty(), "{imported:?}");
    let back = sample::open(bytes);
    assert_eq!(stores(&back), before);
    // All that was said of them, and of the call that mapped the file.
    let parts = |trace: &Trace| {
        let plain = |part: &&Part| part.id != part_id::BUFFERS;
        let of = |event: &Event| event.parts().iter().filter(plain).cloned().collect::<Vec<_>>();
        let all = sample::events(trace).iter().map(of).collect::<Vec<_>>();
        all.into_iter().filter(|parts| !parts.is_empty()).collect::<Vec<_>>()
    };
    assert_eq!(parts(&back), parts(&original));
    assert_eq!(parts(&back).len(), 3);
    // By the records of the schema alone the file's path is not known.
    let foreign = without_own(&file);
    let (imported, bytes) = sample::import(&foreign).unwrap();
    assert!(!imported.exact && imported.damage.is_empty(), "{imported:?}");
    let back = sample::open(bytes);
    assert_eq!(stores(&back), before);
    assert!(parts(&back)[0].contains(&Part::number(part_id::WATCHED, 1)));
    assert_eq!(records(&without_own(&sample::export(&back, Codec::None))), records(&foreign));
}

#[test]
fn both_byte_orders_say_the_same() {
    let file = sample::export(&sample::open(sample::trace()), Codec::None);
    let (left, little) = sample::import(&file).unwrap();
    let (right, big) = sample::import(&swapped(&file)).unwrap();
    assert!(left.damage.is_empty() && right.damage.is_empty(), "{right:?}");
    assert_eq!(sample::events(&sample::open(little)), sample::events(&sample::open(big)));
}

fn calls(events: &[Event]) -> Vec<(&Call, u32)> {
    let call = |event: &'_ Event| matches!(event.kind, EventKind::Call(_));
    let calls = events.iter().filter(|event| call(event));
    calls
        .map(|event| match &event.kind {
            EventKind::Call(call) => (call, event.thread),
            _ => unreachable!("only calls are left"),
        })
        .collect()
}

#[test]
fn records_of_others_become_the_calls_that_they_were() {
    let original = sample::open(sample::trace());
    let foreign = without_own(&sample::export(&original, Codec::None));
    let (imported, bytes) = sample::import(&foreign).unwrap();
    assert!(!imported.exact && imported.damage.is_empty(), "{imported:?}");
    let before = sample::events(&original);
    // Calls without a type in the schema are not in such a file.
    let known = |call: &Call| ![302, 1000].contains(&call.nr);
    let before: Vec<_> = calls(&before).into_iter().filter(|(call, _)| known(call)).collect();
    let after = sample::events(&sample::open(bytes));
    let forked = after.iter().any(|event| {
        matches!(event.kind, EventKind::Start { how: StartHow::Fork, parent: 1, pid: 51, .. })
    });
    assert!(forked, "{after:?}");
    let after = calls(&after);
    assert_eq!(after[0].0.nr, 95);
    assert_eq!(after.len(), before.len() + 1);
    for ((before, _), (after, _)) in before.iter().zip(&after[1..]) {
        assert_eq!(after.nr, before.nr);
        let same = |call: &Call| match call.outcome {
            trace::event::Outcome::Returned { ret, .. } => Some(ret),
            trace::event::Outcome::Unfinished => None,
        };
        assert_eq!(same(after), same(before), "{before:?}");
        for data in before.data.iter().filter(|data| data.part != 0 || before.nr != 20) {
            let held = after.data.iter().any(|other| {
                (other.arg, other.part, other.true_len) == (data.arg, data.part, data.true_len)
                    && (other.content == data.content || before.nr == 5)
            });
            assert!(held, "{data:?} is not in {after:?}");
        }
    }
}

#[test]
fn records_of_others_are_exported_as_they_were() {
    let original = sample::open(sample::trace());
    let foreign = without_own(&sample::export(&original, Codec::None));
    let (_, bytes) = sample::import(&foreign).unwrap();
    let again = without_own(&sample::export(&sample::open(bytes), Codec::None));
    assert_eq!(records(&foreign), records(&again));
}

/// All records, by unique_id.
fn records(bytes: &[u8]) -> Vec<(Option<i64>, String, Vec<String>)> {
    let reader = FileReader::open(&bytes).unwrap();
    let mut all = Vec::new();
    for head in reader.extents() {
        let (extent, of) = (reader.read(head).unwrap(), reader.find(&head.name).unwrap());
        for at in 0..extent.records {
            let record = extent.record(of, at);
            let values = of.fields.iter().map(|field| format!("{:?}", record.value(field)));
            all.push((record.int("unique_id"), head.name.clone(), values.collect::<Vec<_>>()));
        }
    }
    all.sort();
    all
}
