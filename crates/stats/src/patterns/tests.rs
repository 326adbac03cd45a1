use super::*;
use crate::activity::ACTIVITIES;
use crate::sample::{Made, begin, call, events, open, watch, watch_events};

fn findings(calls: &[Made]) -> Vec<Finding> {
    let (fold, files) = watch(Patterns::default(), calls);
    about_calls(fold, &files)
}

/// Returns the findings that are not about the run as a whole.
fn about_calls(fold: Patterns, files: &Namespace) -> Vec<Finding> {
    let safety = Durability::new(1_000_000).finish(files);
    let (_, mut findings, _) = fold.finish(files, &safety);
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
fn the_files_that_cost_most_are_named() {
    let first = |calls: &[Made], kind| {
        let (fold, files) = watch(Patterns::default(), calls);
        let safety = Durability::new(1_000_000).finish(&files);
        fold.finish(&files, &safety).1.into_iter().find(|found| found.kind == kind)
    };
    // The journal is another file each time, and takes longer than the database, which is synced as often.
    let sync = |fd, ns| call("fsync", &[fd], 0).lasts(ns);
    let close = call("close", &[4], 0);
    let remove = call("unlink", &[0], 0).with(0, b"shop.db-journal");
    let mut calls = vec![open("shop.db", 0o102, 3)];
    for _ in 0..30 {
        calls.extend([open("shop.db-journal", 0o102, 4), sync(4, 3_000_000), close.clone()]);
        calls.extend([sync(3, 1_000_000), remove.clone()]);
    }
    let found = first(&calls, FindingKind::Syncs).expect("a finding");
    assert_eq!(found.file, b"/work dir/shop.db-journal");
    let words = "/work dir/shop.db-journal 75%, /work dir/shop.db 25%";
    assert!(found.evidence.contains("60 syncs of 2 files") && found.evidence.contains(words));
    // Many files of a directory are one name.
    let mut calls = Vec::new();
    for n in 0..100 {
        let name = format!("queue/{n}.tmp");
        calls.extend([open(&name, 0o102, 4), sync(4, 1_000_000), close.clone()]);
    }
    let found = first(&calls, FindingKind::Syncs).expect("a finding");
    assert_eq!(found.file, b"/work dir/queue/*.tmp");
    let words = "/work dir/queue/*.tmp (100 files) 100%";
    assert!(found.evidence.contains(words), "{found:?}");
    // What reads wait for is named too.
    let read = call("pread64", &[3, 0, 65536, 0], 65536).lasts(5_000_000);
    let found = first(&repeated(40, &[read]), FindingKind::ColdReads).expect("a finding");
    assert_eq!(found.file, b"/work dir/data");
}

#[test]
fn a_file_that_is_made_and_removed_again_and_again_is_told_with_its_syncs() {
    let close = call("close", &[4], 0);
    let remove = |name: &str| call("unlink", &[0], 0).with(0, name.as_bytes()).lasts(4_000_000);
    let sync = |fd| call("fsync", &[fd], 0).lasts(3_000_000);
    // The sync is of the journal, or of another file.
    let journal = |times: usize, synced: bool, name: &dyn Fn(usize) -> String| {
        let mut calls = vec![open("other", 0o102, 3)];
        for n in 0..times {
            let name = name(n);
            let synced = sync(if synced { 4 } else { 3 });
            calls.extend([open(&name, 0o102, 4), synced, close.clone(), remove(&name)]);
        }
        all(&calls).1
    };
    let of = |findings: &[Finding], kind| findings.iter().find(|of| of.kind == kind).cloned();
    let one = |_: usize| "shop.db-journal".to_string();
    let findings = journal(30, true, &one);
    let remade = of(&findings, FindingKind::Remade).expect("a finding");
    assert_eq!((&remade.file[..], remade.is_pattern), (&b"/work dir/shop.db-journal"[..], false));
    assert!(remade.evidence.contains("made and removed 30 times"), "{remade:?}");
    assert!(remade.evidence.contains("committing less often removes both"), "{remade:?}");
    let syncs = of(&findings, FindingKind::Syncs).expect("a finding");
    let said = "/work dir/shop.db-journal is made and removed 30 times in the same work, which takes 60.0 ms:";
    assert!(syncs.evidence.contains(said), "{syncs:?}");
    // One change saves both.
    assert!(syncs.saves_ns > syncs.time_ns && syncs.saves_ns > remade.time_ns, "{syncs:?}");
    assert_eq!(of(&findings, FindingKind::Metadata), None);
    // Syncs of another file are of other work.
    let findings = journal(30, false, &one);
    let remade = of(&findings, FindingKind::Remade).expect("a finding");
    assert!(!remade.evidence.contains("committing"), "{remade:?}");
    // A few times is no pattern, and many names are many files.
    for findings in [journal(19, true, &one), journal(30, true, &|n| format!("queue/{n}.tmp"))] {
        assert!(of(&findings, FindingKind::Metadata).is_some(), "{findings:?}");
        assert_eq!(of(&findings, FindingKind::Remade), None);
        let syncs = of(&findings, FindingKind::Syncs);
        assert!(!syncs.is_some_and(|of| of.evidence.contains("committing")));
    }
}

#[test]
fn who_called_is_asked_for_once_where_findings_leave_it_open() {
    let hint = |calls: &[Made]| {
        let (mut fold, files) = watch(Patterns::default(), calls);
        let safety = Durability::new(1_000_000).finish(&files);
        let (_, findings) = fold.find(&files, &safety);
        assert!(!findings.is_empty());
        fold.callers.hint(&findings)
    };
    let sync = call("fsync", &[3], 0).lasts(5_000_000);
    assert!(hint(&repeated(30, &[sync])).is_some_and(|hint| hint.contains("record --stack")));
    // What computes was called by nobody.
    assert_eq!(hint(&[open("data", 0o102, 3), call("close", &[3], 0)]), None);
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

/// Returns all findings of calls, and where the time went.
fn all(calls: &[Made]) -> (WallTime, Vec<Finding>) {
    let (fold, files) = watch(Patterns::default(), calls);
    let safety = Durability::new(1_000_000).finish(&files);
    let (wall, findings, _) = fold.finish(&files, &safety);
    (wall, findings)
}

#[test]
fn each_activity_that_takes_most_of_a_run_is_found_with_the_share_that_the_bar_has() {
    let ms = 1_000_000;
    let long = |name: &str, args: &[i64], ret: i64| call(name, args, ret).lasts(50 * ms);
    let examples = [
        (Activity::Sync, long("fsync", &[3], 0)),
        (Activity::Read, long("pread64", &[3, 0, 4096, 0], 4096)),
        (Activity::Write, long("pwrite64", &[3, 0, 4096, 0], 4096)),
        (Activity::Submit, long("io_uring_enter", &[5, 1, 1, 1], 1)),
        (Activity::Metadata, long("unlink", &[0], 0).with(0, b"old")),
        (Activity::Spawn, long("fork", &[], 200)),
        (Activity::Memory, long("mmap", &[0, 1 << 20, 3, 0x8022, -1, 0], 0x7000_0000)),
        (Activity::Other, long("getrandom", &[0, 1 << 20, 0], 1 << 20)),
        (Activity::Lock, long("futex", &[0x7000, 128, 7], 0)),
        (Activity::Pipe, long("write", &[1, 0, 4096], 4096)),
        (Activity::Network, long("connect", &[9, 0, 16], 0)),
        (Activity::Child, long("wait4", &[-1, 0, 0, 0], 7)),
        (Activity::Events, long("poll", &[0, 1, -1], 1)),
        (Activity::Sleep, long("nanosleep", &[0, 0], 0)),
    ];
    for (activity, example) in examples {
        // The other thread would compute all the time.
        let other = call("wait4", &[-1, 0, 0, 0], 7).by(2).never();
        let calls = [open("data", 0o102, 3), other, example.clone(), example];
        let (wall, findings) = all(&calls);
        let told: u64 =
            findings.iter().filter(|of| of.kind.is_about_run()).map(|of| of.time_ns).sum();
        assert!(told <= wall.run_ns, "{findings:?}");
        let is_of = |of: &&Finding| of.kind.is_about_run() && of.within == Some(activity);
        let found = findings.iter().find(is_of);
        let found = found.unwrap_or_else(|| panic!("{activity:?}: {findings:?}"));
        assert!(found.share > 0.9 && found.severity() == Severity::High, "{found:?}");
        assert_eq!(found.time_ns, wall.of(activity), "{found:?}");
        assert!((found.share - wall.of(activity) as f64 / wall.run_ns as f64).abs() < 1e-9);
    }
    let kinds = ACTIVITIES.iter().filter(|of| FindingKind::of_activity(of.0).is_none());
    assert_eq!(kinds.map(|of| of.0).collect::<Vec<_>>(), [Activity::Recording]);
}

#[test]
fn each_kind_says_when_to_leave_it_and_what_to_paste() {
    for kind in kinds::ALL {
        let words = kind.words();
        assert!(!words.unless.is_empty() && !words.command.is_empty(), "{kind:?}");
        assert!(words.command.starts_with("reenact ") && words.command.contains(" TRACE"));
    }
}

#[test]
fn only_reads_that_take_longer_than_a_copy_wait_for_the_disk() {
    let told = |path: &str, bytes: i64, ns| {
        let read = call("pread64", &[3, 0, bytes, 0], bytes).lasts(ns);
        let calls = [vec![open(path, 0, 3)], vec![read; 30]].concat();
        let found = all(&calls).1.into_iter().filter(|of| of.within == Some(Activity::Read));
        found.filter(|of| of.kind.is_about_run()).map(|of| (of.kind, of.evidence)).next().unwrap()
    };
    let (kind, evidence) = told("data", 4096, 2_000_000);
    assert!(kind == FindingKind::ColdReads && evidence.contains("waited for the disk"));
    for (path, bytes, ns) in [("data", 8 << 20, 2_700_000), ("/dev/urandom", 4096, 2_000_000)] {
        let (kind, evidence) = told(path, bytes, ns);
        assert_eq!(kind, FindingKind::Reading, "{path}");
        assert!(!evidence.contains("disk"), "{evidence}");
    }
}

#[test]
fn calls_of_many_threads_cost_no_more_than_the_run() {
    let lock = |thread| call("flock", &[3, 2], 0).by(thread).lasts(40_000_000);
    let mut calls = vec![open("data", 0o102, 3)];
    calls.extend((0..40).map(|n| lock(1 + n % 2)));
    let (wall, findings) = all(&calls);
    let locks = findings.iter().find(|of| of.kind == FindingKind::LockWaits).expect("waits");
    assert!(locks.time_ns <= wall.of(Activity::Lock), "{locks:?} {wall:?}");
    assert_eq!(locks.calls.len(), 0, "these have no numbers");
}

#[test]
fn a_copy_is_about_the_file_that_is_written() {
    let copy = call("copy_file_range", &[3, 0, 4, 0, 1 << 20, 0], 1 << 20).lasts(9_000_000);
    let mut calls = vec![open("source", 0, 3), open("target", 0o101, 4)];
    calls.extend([copy.clone(), copy]);
    let (_, findings) = all(&calls);
    let found = findings.iter().find(|of| of.kind == FindingKind::Writing).expect("writing");
    assert_eq!(found.file, b"/work dir/target");
}

#[test]
fn few_processes_that_take_most_are_found() {
    let fork = call("fork", &[], 200).lasts(2_000_000);
    let (_, findings) = all(&[vec![open("data", 0, 3)], vec![fork; 6]].concat());
    assert!(findings.iter().any(|of| of.kind == FindingKind::Spawns), "{findings:?}");
}

#[test]
fn what_nobody_feels_is_a_note() {
    let read = call("getrandom", &[0, 100, 0], 100).lasts(1_000_000);
    let (_, findings) = all(&[open("data", 0, 3), read]);
    let found = findings.iter().find(|of| of.kind == FindingKind::OtherCalls).expect("it is told");
    assert_eq!((found.share > 0.4, found.severity()), (true, Severity::Note));
}

#[test]
fn transfers_past_the_cache_in_parts_of_blocks() {
    let calls = |size: i64, result| {
        let write = call("pwrite64", &[3, 0, size, 0], result);
        [vec![open("data", 0o40_102, 3)], vec![write; 30]].concat()
    };
    assert_eq!(kinds(&calls(4096, 4096)), []);
    assert_eq!(kinds(&calls(4096, -22)), [FindingKind::DirectMisaligned]);
    assert_eq!(kinds(&calls(5120, 5120)), [FindingKind::DirectMisaligned]);
}

#[test]
fn reads_that_overlap() {
    let read = |n: i64| call("pread64", &[3, 0, 8192, n * 100], 8192);
    let calls: Vec<Made> = (0..400).map(read).collect();
    assert_eq!(kinds(&repeated(1, &calls)), [FindingKind::ReadAmplification]);
}

#[test]
fn one_thread_that_holds_up_others() {
    // A thread computes for a second, while the other waits for it.
    let calls = [
        open("data", 0, 3),
        call("futex", &[0x7000, 128, 7], 0).by(2).lasts(1_000_000_000),
        call("getppid", &[], 1),
    ];
    let held_up = |cpus| {
        let (fold, files) = watch(Patterns { cpus, ..Patterns::default() }, &calls);
        let safety = Durability::new(1_000_000).finish(&files);
        let found = fold.finish(&files, &safety).1;
        found.into_iter().find(|of| of.kind == FindingKind::SingleThreaded)
    };
    let found = held_up(8).expect("a finding");
    assert!(found.share > 0.9 && found.saves_ns < found.time_ns, "{found:?}");
    assert_eq!(held_up(1), None);
}

#[test]
fn commands_name_the_file_and_it_alone() {
    let write = |bytes: i64| call("write", &[3, 0, bytes], bytes);
    let mut calls = vec![open("logs [1]*.txt", 0o102, 3)];
    (0..200).for_each(|_| calls.push(write(100)));
    let found = findings(&calls);
    let sheet = sheet(&found);
    let table = &sheet.tables[0];
    let at = table.columns.iter().position(|column| column.key == "command").unwrap();
    let Cell::Name(command) = &table.rows[0][at] else { panic!("a command") };
    let command = String::from_utf8_lossy(command);
    assert_eq!(
        command,
        "reenact show TRACE --seq --call %write --path '/work dir/logs \\[1]\\*.txt'"
    );
}
