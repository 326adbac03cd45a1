//! Calls that are made for their time alone.

use syscalls::record::enter_flag;

use super::*;

/// How often a task made a call, for its time.
fn made(outcome: &Outcome, call: &str) -> u64 {
    outcome.latencies.get(call).map_or(0, |pair| pair.replayed.count())
}

#[test]
fn calls_that_follow_each_other_are_all_made_and_counted() {
    let mut r = threads_with_a_pipe();
    for round in 0..3 {
        // More than are handed over at a time.
        for _ in 0..5000 {
            r.by(1).numbers("getppid", &[], 7);
        }
        r.numbers("getuid", &[], 0);
        r.numbers("getpriority", &[round, 0], 20);
        r.numbers("getpriority", &[round, 0], 20);
        r.call("write", &[4, 1, 5], &[(1, b"hello")], 5);
        r.numbers("getppid", &[], 7);
        r.by(2).numbers("getppid", &[], 7);
        r.call("read", &[3, 1, 5], &[(1, b"hello")], 5);
    }
    let outcome = replayed_with(&r, Options { computes: true, ..Options::default() });
    assert!(outcome.stopped.is_none(), "{:?}", outcome.stopped);
    assert_eq!(made(&outcome, "getppid"), 3 * 5002);
    assert_eq!(made(&outcome, "getuid"), 3);
    let recorded = outcome.latencies["getppid"].recorded.count();
    assert_eq!((recorded, made(&outcome, "read")), (3 * 5002, 3));
    assert_eq!(outcome.timed, 3 * 5003 + made(&outcome, "getpriority"));
    assert_eq!(outcome.verified, 3 * 2 + 1);
}

#[test]
fn each_is_made_after_what_was_computed_before_it() {
    let mut r = threads_with_a_pipe();
    for at in 0..50 {
        r.by(1).call("getppid", &[], &[], 7).flags |= enter_flag::STAYED;
        r.lasting((10 + at) * MS, (10 + at) * MS + 1000);
    }
    let outcome = replayed_with(&r, Options { computes: true, ..Options::default() });
    let between_ns = outcome.computed.expect("it computes").between_ns;
    assert!(between_ns > 40 * MS, "{between_ns}");
    assert!(outcome.calls_s > 0.040, "{}", outcome.calls_s);
}

#[test]
fn what_is_not_made_takes_as_long_as_it_did_unless_it_waits() {
    let mut r = threads_with_a_pipe();
    let calls = [
        ("mprotect", 90_000),
        // That may have waited, whatever for.
        ("mprotect", 150_000),
        // These are waits.
        ("poll", 90_000),
        ("clock_nanosleep", 10_000),
        ("poll", 10_000),
    ];
    for (at, (call, lasts_ns)) in (10..).zip(calls) {
        r.by(1).numbers(call, &[0, 0, 0], 0);
        r.lasting(at * MS, at * MS + lasts_ns);
    }
    r.call("write", &[4, 1, 5], &[(1, b"hello")], 5);
    let answered = |computes| {
        let outcome = replayed_with(&r, Options { computes, ..Options::default() });
        assert!(outcome.stopped.is_none(), "{:?}", outcome.stopped);
        outcome.computed.map(|computed| computed.answered_ns)
    };
    let made_ns = 90_000 + 10_000;
    let answered_ns = answered(true).expect("it computes");
    assert!(answered_ns.abs_diff(made_ns) < 1000, "{answered_ns}");
    assert_eq!(answered(false), None);
}
