//! Manifests are read as written, and invalid ones are refused.

mod sample;

use sample::manifest::{entries, write};
use sample::{everything, open, options};
use trace::Compress;
use trace::format::kind;
use trace::manifest::{Ending, Entry, ManifestWriter, Scope};

#[test]
fn a_manifest_is_read_as_written() {
    // Enough for several blocks.
    let bytes = sample::write(options(Compress::Zstd(1), 1), |writer| {
        everything(writer);
        write(writer, 20_000);
    });
    let trace = open(&bytes);
    let found: Vec<Entry> = trace.manifest().map(Result::unwrap).collect();
    assert!(found == entries(20_000));
    let ending = Ending { scope: Scope::Truncated, left_out: 3 };
    assert_eq!(trace.manifest_ending().unwrap(), Some(ending));
    assert_eq!(trace.unknown_blocks(), 0);
    assert_eq!(trace.verify().problems, []);
}

#[test]
fn a_trace_without_one_says_so() {
    let bytes = sample::write(options(Compress::None, 0), everything);
    let trace = open(&bytes);
    assert_eq!(trace.manifest_ending().unwrap(), None);
    assert_eq!(trace.manifest().count(), 0);
}

#[test]
fn one_that_was_not_ended_is_none() {
    let bytes = sample::write(options(Compress::None, 0), |writer| {
        let mut manifest = ManifestWriter::default();
        entries(20_000).iter_mut().for_each(|entry| manifest.add(writer, entry).unwrap());
    });
    assert_eq!(open(&bytes).manifest_ending().unwrap(), None);
}

#[test]
fn paths_that_do_not_ascend_are_damage() {
    let bytes = sample::write(options(Compress::None, 0), |writer| {
        let mut manifest = ManifestWriter::default();
        for path in [b"/b", b"/b"] {
            let mut entry = Entry { path: path.to_vec(), ..Entry::default() };
            manifest.add(writer, &mut entry).unwrap();
        }
        manifest.end(writer, Ending::default()).unwrap();
    });
    let trace = open(&bytes);
    let read: Vec<_> = trace.manifest().collect();
    assert!(matches!(&read[..], [Ok(_), Err(_)]), "{read:?}");
    assert!(!trace.verify().complete);
}

#[test]
fn whatever_stands_in_its_blocks_is_answered() {
    let sound = sample::write(options(Compress::None, 0), |writer| write(writer, 60));
    let mut random = sample::Random(3);
    let mut refused = 0;
    for _ in 0..5_000 {
        let bytes = sample::scribble(&sound, kind::MANIFEST, &mut random);
        // The index has the original head, so that blocks are found one by one.
        let trace = open(&bytes);
        let _ = trace.manifest_ending();
        refused += u32::from(trace.manifest().any(|entry| entry.is_err()));
        assert!(trace.manifest().filter_map(Result::ok).count() <= 60);
    }
    assert!(refused > 1_000, "{refused}");
}
