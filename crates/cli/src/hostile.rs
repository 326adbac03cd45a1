//! Damaged and hostile traces: every reading command must end, with an answer or an error.

use std::io::Cursor;

use model::Conditions;
use stats::overview::Overview;
use trace::Trace;

use crate::{cut, diff, export, repair, report, sample, show, source, stat};

/// Number of traces to try, in the short and the long tier.
const COUNT_SHORT: u64 = 3_000;
const COUNT_LONG: u64 = 20_000;

/// A small seeded random number generator.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

fn mutate(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..1 + random.below(4) {
        if bytes.is_empty() {
            return;
        }
        let at = random.below(bytes.len());
        match random.below(6) {
            0 => bytes.truncate(at),
            1 => bytes[at] ^= 1 << random.below(8),
            2 => bytes[at] = random.next() as u8,
            3 => {
                let to = (at + random.below(64)).min(bytes.len());
                bytes.drain(at..to);
            }
            4 => {
                let piece: Vec<u8> = bytes[at..(at + random.below(256)).min(bytes.len())].to_vec();
                let to = random.below(bytes.len());
                bytes.splice(to..to, piece);
            }
            _ => {
                let to = (at + random.below(16)).min(bytes.len());
                bytes[at..to].fill(if random.next() & 1 == 0 { 0 } else { 0xff });
            }
        }
    }
}

#[test]
fn mutated_traces_are_answered() {
    let original = sample::trace(sample::End::Whole);
    let mut random = Random(0x5eed_5eed_5eed_5eed);
    let sound = Trace::from_stream(Cursor::new(original.clone())).expect("it is sound");
    assert!(sound.verify().complete);
    let is_long = std::env::var_os("REENACT_SOAK").is_some_and(|value| !value.is_empty());
    let count = if is_long { COUNT_LONG } else { COUNT_SHORT };
    let mut opened = 0;
    for round in 0..count {
        let mut bytes = original.clone();
        mutate(&mut bytes, &mut random);
        let same = bytes == original;
        let Ok(trace) = Trace::from_stream(Cursor::new(bytes)) else { continue };
        opened += 1;
        show::tests::read_all(&trace);
        let overview = Overview::of(&trace, trace.verify()).expect("a stream has a length");
        let complete = overview.report.complete;
        assert!(!complete || same, "round {round}: a damaged trace that claims to be complete");
        stat::tests::look(&trace, round);
        if round.is_multiple_of(10) {
            diff::tests::look(&sound, &trace);
        }
        if round.is_multiple_of(16) {
            report::tests::look(&trace);
        }
        if round.is_multiple_of(25) {
            export::perfetto::tests::draw(&trace);
            derived(&trace, round);
        }
        if round.is_multiple_of(100) {
            for (format, calls) in export::tests::everything(&trace) {
                // A format may be refused if it needs an intact trace.
                let told = calls.err().map(|failure| format!("{failure:?}"));
                assert!(
                    told.as_ref().is_none_or(|t| t.contains("damaged")),
                    "{format:?}: {told:?}"
                );
            }
        }
        let _ = source::warnings(&trace);
        assert!(overview.calls <= 1000, "round {round}: {} calls", overview.calls);
    }
    // The test is useful only if many traces can be opened.
    assert!(opened > count / 2, "{opened}");
}

/// Checks that traces derived from a damaged trace are sound.
fn derived(trace: &Trace, round: u64) {
    let failed = round.is_multiple_of(50);
    let wanted = Conditions { pids: vec![100], failed, ..Conditions::default() };
    let part = cut::tests::part(trace, &wanted, round.is_multiple_of(75)).verify();
    assert!(part.sound(), "round {round}: {part:?}");
    if let Some(repaired) = repair::tests::repair(trace) {
        let report = repaired.verify();
        let gaps = trace.verify().gaps;
        assert!(report.problems.is_empty() && report.gaps <= gaps + 1, "round {round}: {report:?}");
    }
}
