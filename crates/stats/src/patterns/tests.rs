use super::*;
use crate::sample::{Made, begin, call, events, open, watch, watch_events};

fn findings(calls: &[Made]) -> Vec<Finding> {
    let (fold, files) = watch(Patterns::default(), calls);
    about_calls(fold, &files)
}

/// Returns the findings that are not about the run as a whole.
fn about_calls(fold: Patterns, files: &Namespace) -> Vec<Finding> {
    let safety = Durability::new(1_000_000).finish(files);
    let (_, mut findings) = fold.finish(files, &safety);
    findings.retain(|finding| !finding.kind.is_about_run());
    findings
}

fn kinds(calls: &[Made]) -> Vec<FindingKind> {
    let mut kinds: Vec<FindingKind> = findings(calls).iter().map(|finding| finding.kind).collect();
    kinds.sort_unstable();
    kinds
}

fn repeated(count: usize, calls: &[Made]) -> Vec<Made> {
    let mut all = vec![open("data", 0o102, 3)];
    (0..count).for_each(|_| all.extend_from_slice(calls));
    all
}

#[test]
fn small_and_large_writes() {
    let write = |bytes: i64| call("write", &[3, 0, bytes], bytes);
    assert_eq!(kinds(&repeated(200, &[write(100)])), [FindingKind::SmallWrites]);
    assert_eq!(kinds(&repeated(20, &[write(100)])), []);
    assert_eq!(kinds(&repeated(200, &[write(100), write(5000), write(4096)])), []);
}

#[test]
fn parts_of_pages_here_and_there() {
    let at = |offset: i64, bytes: i64| call("pwrite64", &[3, 0, bytes, offset], bytes);
    let apart = |bytes| -> Vec<Made> {
        let mut calls = vec![open("data", 0o102, 3)];
        calls.extend((0..200).map(|n| at(n * 81920, bytes)));
        calls
    };
    assert_eq!(kinds(&apart(5000)), [FindingKind::UnalignedWrites]);
    assert_eq!(kinds(&apart(8192)), []);
}

#[test]
fn syncs_and_writes() {
    let (write, sync) = (call("write", &[3, 0, 4096], 4096), call("fsync", &[3], 0));
    let first = |sync: Made| {
        let (fold, files) = watch(Patterns::default(), &repeated(50, &[write.clone(), sync]));
        let safety = Durability::new(1_000_000).finish(&files);
        fold.finish(&files, &safety).1.into_iter().find(|found| found.kind == FindingKind::Syncs)
    };
    let slow = first(sync.clone().lasts(5_000_000)).expect("a finding");
    assert_eq!(slow.count, 50);
    // Another thread is there, and does nothing but compute.
    assert!(slow.share > 0.49 && slow.evidence.contains("50 syncs of 1 file"), "{slow:?}");
}

#[test]
fn reading_again() {
    let read = call("pread64", &[3, 0, 65536, 0], 65536);
    assert_eq!(kinds(&repeated(40, &[read])), [FindingKind::Rereads]);
    let once: Vec<Made> =
        (0..40).map(|n| call("pread64", &[3, 0, 65536, n * 65536], 65536)).collect();
    assert_eq!(kinds(&repeated(1, &once)), []);
}

#[test]
fn looking_for_what_is_not_there() {
    let missing = call("openat", &[-100, 0, 0, 0], -2).with(1, b"/nowhere/a");
    let findings = findings(&repeated(100, std::slice::from_ref(&missing)));
    assert_eq!(findings.len(), 1);
    assert_eq!((findings[0].kind, findings[0].count), (FindingKind::MissingFiles, 100));
    assert_eq!(findings[0].file, b"/nowhere");
    assert_eq!(kinds(&repeated(99, &[missing])), []);
}

#[test]
fn seeks_that_are_not_used() {
    let seek = |to: i64| call("lseek", &[3, to, 0], to);
    let read = call("read", &[3, 0, 4096], 4096);
    assert_eq!(kinds(&repeated(60, &[seek(100), seek(0)])), [FindingKind::UselessSeeks]);
    assert_eq!(kinds(&repeated(60, &[seek(100), read.clone(), seek(0), read])), []);
}

#[test]
fn descriptors_that_stay_open() {
    let leak = |closed: bool| {
        let mut calls = Vec::new();
        for fd in 10..60 {
            calls.push(open("data", 0, fd));
            if closed {
                calls.push(call("close", &[fd], 0));
            }
        }
        let mut all = begin();
        all.extend(events(&calls));
        for (thread, tsc) in [(2, 1_000_000), (1, 1_000_001)] {
            let kind = EventKind::End { calls: 0 };
            all.push(trace::event::Event::new(thread, tsc, kind));
        }
        let (fold, files) = watch_events(Patterns::default(), &all);
        about_calls(fold, &files)
    };
    let found = leak(false);
    assert_eq!((found.len(), found[0].kind, found[0].count), (1, FindingKind::DescriptorLeak, 50));
    assert_eq!(found[0].site, b"0x1000");
    assert!(leak(true).is_empty());
}

#[test]
fn locks_and_events() {
    let wait = |value| call("futex", &[0x7000, 128, value], 0).lasts(10_000);
    assert_eq!(kinds(&repeated(100, &[wait(2)])), [FindingKind::LockWaits]);
    assert_eq!(kinds(&repeated(100, &[wait(7)])), []);
    let lock = |ns| call("flock", &[3, 2], 0).lasts(ns);
    assert_eq!(kinds(&repeated(20, &[lock(2_000_000)])), [FindingKind::LockWaits]);
    assert_eq!(kinds(&repeated(20, &[lock(2_000)])), []);
}

#[test]
fn short_transfers() {
    let short = call("write", &[1, 0, 100], 60);
    assert_eq!(kinds(&repeated(20, &[short])), [FindingKind::ShortWrites]);
    let mut reads = vec![open("data", 0o102, 3), call("ftruncate", &[3, 1 << 20], 0)];
    reads.extend((0..20).map(|n| call("pread64", &[3, 0, 100, n * 100], 60)));
    assert_eq!(kinds(&reads), [FindingKind::ShortReads]);
    let mut whole = vec![open("data", 0o102, 3), call("ftruncate", &[3, 1000], 0)];
    whole.extend((0..20).map(|_| call("pread64", &[3, 0, 1000, 900], 100)));
    assert_eq!(kinds(&whole), []);
}
