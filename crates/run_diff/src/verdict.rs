//! What a comparison says in words.

use render::amounts::{counted, show_change, show_change_share, show_count, show_size, show_time};
use render::escape::{command_line, escaped};

use crate::comparison::{Comparison, Pair, Row};
use crate::gather::By;
use crate::parting::{Alignment, Line, Parting};
use crate::rank_test::SIGNIFICANT;
use crate::started::{self, Asked, Change};

/// A change below this part of the time is called none.
const EQUAL_SHARE: f64 = 0.01;
/// Something explains what something else took more if it took this part of that.
const EXPLAINS_SHARE: f64 = 0.5;
/// A change of a part that is so many times the whole change is outweighed by others.
const OUTWEIGHS: f64 = 2.0;

/// What the sides are called.
pub const SIDES: [&str; 2] = ["A", "B"];

/// Returns what is said first, a line for each thing.
pub fn lines(comparison: &Comparison) -> Vec<String> {
    let mut lines = vec![time(comparison), chance(comparison), work(comparison)];
    let same_work = comparison.did_the_same();
    lines.extend(comparison.alignment.as_ref().map(|alignment| order(alignment, same_work)));
    lines
}

/// Says whether the calls came in the same order. `same_work`: there are as many of each.
fn order(alignment: &Alignment, same_work: bool) -> String {
    let Alignment { shared, alone, parted, partings } = alignment;
    let text = match partings.first() {
        None if *shared == 1 => "The calls came in the same order.".to_string(),
        None => {
            let threads = show_count(*shared);
            format!("Each of {threads} threads made its calls in the same order.")
        }
        Some(first) => part(first, *parted, *shared),
    };
    let left_out = match partings.is_empty() && *alone == [0, 0] && !same_work {
        true => " Waits, reads of pipes and sockets, and memory are left out of that.",
        false => "",
    };
    format!("{text}{}{left_out}", without_counterpart(*alone))
}

/// Says where threads part first.
fn part(first: &Parting, parted: u64, shared: u64) -> String {
    let equal = counted(first.equal, "equal call", "equal calls");
    let place = |side: usize| match first.after[side].first() {
        Some(Line { seq: Some(seq), .. }) => format!("{} at call {seq}", SIDES[side]),
        Some(_) => format!("{} goes on", SIDES[side]),
        None => format!("{} ends", SIDES[side]),
    };
    if shared == 1 {
        return format!("They part after {equal}: {}, {}.", place(0), place(1));
    }
    let line = [0, 1].into_iter().find_map(|side| first.line(side));
    let program = line.map_or_else(|| "a thread".into(), |line| escaped(&line.program));
    format!(
        "They part, first after {equal} of {program}: {}, {}; {} of {} part at some place.",
        place(0),
        place(1),
        show_count(parted),
        counted(shared, "thread", "threads")
    )
}

/// Says how many threads the other side has not.
fn without_counterpart(alone: [u64; 2]) -> String {
    let of = |side: usize| {
        let threads = counted(alone[side], "thread", "threads");
        (alone[side] > 0).then(|| format!("{threads} of {}", SIDES[side]))
    };
    match [of(0), of(1)] {
        [None, None] => String::new(),
        [Some(one), None] | [None, Some(one)] => format!(" {one} have no counterpart."),
        [Some(a), Some(b)] => format!(" {a} and {b} have no counterpart."),
    }
}

fn ns(value: f64) -> String {
    show_time(value.abs().round() as u64)
}

/// Says how long the second side took, and what that comes from.
fn time(comparison: &Comparison) -> String {
    let run = comparison.pair(|run| run.run_ns());
    let took = match comparison.is_whole() {
        true => format!("B took {}", ns(run.sides[1])),
        false => format!("The chosen calls took {} of B's run", ns(run.sides[1])),
    };
    let Some(share) = run.change_share() else {
        return format!("{took}; A took no time.");
    };
    let percent = show_change_share(share);
    if share.abs() < EQUAL_SHARE {
        return format!("{took}, as long as A ({percent}).");
    }
    let how = if share > 0.0 { "more" } else { "less" };
    let mut text = format!("{took}, {} {how} than A ({percent})", ns(run.change()));
    match run.p {
        Some(p) if p >= SIGNIFICANT && !is_beyond_few_runs(comparison, &run) => {
            text.push_str(&format!(", which may be chance ({}).", probability(p)));
        }
        _ => match cause(comparison, run.change()) {
            Some(cause) => text.push_str(&format!(": {cause}.")),
            None => text.push('.'),
        },
    }
    text
}

/// Returns true if so few runs can never show that a change is more than chance, and all runs of one side
/// took longer than all of the other: then what it comes from is said all the same.
fn is_beyond_few_runs(comparison: &Comparison, run: &Pair) -> bool {
    let [a, b] = [0, 1].map(|side| comparison.sides[side].len());
    let [[a_least, a_most], [b_least, b_most]] = run.spread;
    least_p(a, b) >= SIGNIFICANT && (a_most < b_least || b_most < a_least)
}

/// What a change of the time may come from, and how much of it that is.
struct Cause {
    ns: f64,
    kind: Kind,
    text: String,
}

/// What a cause is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Call,
    Computing,
    /// A program that is started more often.
    Starts,
    /// Arguments that a program is started with.
    Arguments,
}

/// Says what made up most of a change of the time: a program that is started more often or with other
/// arguments, or else a call, or what was computed. Other arguments alone say little: the call that took
/// most of what they changed stands before them.
fn cause(comparison: &Comparison, change: f64) -> Option<String> {
    let same = |of: &Cause| of.ns * change.signum();
    let started = started_otherwise(comparison, change);
    let by_call = symptom(comparison, change);
    let cause = match (started, by_call) {
        // What a program computes and the calls that it makes follow from how it was started.
        (Some(of), Some(by_call)) if same(&of) < same(&by_call) * EXPLAINS_SHARE => by_call,
        (Some(of), Some(by_call))
            if (of.kind, by_call.kind) == (Kind::Arguments, Kind::Call)
                && same(&by_call) >= same(&of) * EXPLAINS_SHARE =>
        {
            Cause { text: format!("{}; {} in all", by_call.text, of.text), ..of }
        }
        (Some(cause), _) | (None, Some(cause)) => cause,
        (None, None) => return None,
    };
    // What took much more than the whole change does not explain it: something else took less.
    if same(&cause) > change.abs() * OUTWEIGHS
        && let Some(other) = symptom(comparison, -change)
    {
        return Some(format!("{}, while {}", cause.text, other.text));
    }
    Some(cause.text)
}

/// Of the programs that are started more often, or with other arguments, the one that took most of the change.
fn started_otherwise(comparison: &Comparison, change: f64) -> Option<Cause> {
    let same = |of: f64| of * change.signum();
    let programs = comparison.rows(By::Process);
    let took = |of: &Change| {
        let row = programs.iter().find(|row| row.name == of.program);
        row.map_or(0.0, Row::change_ns)
    };
    // How the recorded program itself was started is what the user did.
    let is_own = |of: &Change| {
        let mut runs = comparison.runs();
        runs.all(|run| run.first_program.as_ref() == Some(&of.program))
            && of.starts.sides == [1.0; 2]
    };
    let asked = Asked::of(comparison);
    let may_be = |of: &Change| {
        !asked.is_all_of(of)
            && match of.is_in_arguments() {
                true => !is_own(of),
                false => same(of.starts.change()) > 0.0,
            }
    };
    let changes = started::changes(comparison).into_iter().filter(may_be);
    // Of one program's changes the first concerns most starts.
    let most = changes.rev().max_by(|a, b| same(took(a)).total_cmp(&same(took(b))))?;
    let of = took(&most);
    let kind = if most.is_in_arguments() { Kind::Arguments } else { Kind::Starts };
    (same(of) > 0.0).then(|| Cause { ns: of, kind, text: how_started(&most, of) })
}

/// Says how a program was started otherwise, and what that took.
fn how_started(of: &Change, took: f64) -> String {
    let name = escaped(&of.program);
    let (how, time) = (if took > 0.0 { "more" } else { "less" }, ns(took));
    let [a, b] = of.starts.sides.map(|count| count.round() as u64);
    if !of.is_in_arguments() {
        let started = match (a, b) {
            (0, b) => format!("was started {}, in A not at all,", often(b)),
            (a, 0) => format!("was not started, in A {},", often(a)),
            (a, b) => format!("was started {} instead of {},", often(b), often(a)),
        };
        return format!("{name} {started} and took {time} {how}");
    }
    let words = of.words.each_ref().map(command_line);
    let arguments = match words.each_ref().map(String::as_str) {
        ["", new] => format!("with {new}"),
        [old, ""] => format!("without {old}"),
        [old, new] => format!("with {new} instead of {old}"),
    };
    let times = if b == 1 { String::new() } else { format!(" {}", often(b)) };
    format!("{name}, started {arguments}{times}, took {time} {how}")
}

/// Formats how often something happened.
fn often(count: u64) -> String {
    if count == 1 { "once".into() } else { format!("{} times", show_count(count)) }
}

/// The call, on the file, or the program's computing, that took most of the change.
fn symptom(comparison: &Comparison, change: f64) -> Option<Cause> {
    let same = |of: f64| of * change.signum();
    let calls = comparison.rows(By::Call);
    let call = calls.iter().max_by(|a, b| same(a.change_ns()).total_cmp(&same(b.change_ns())));
    let call_change = call.map_or(0.0, Row::change_ns);
    let outside = comparison.outside();
    let outside = outside.iter().max_by(|a, b| same(a.1).total_cmp(&same(b.1)));
    let how = if change > 0.0 { "more" } else { "less" };
    if let Some((program, of)) = outside.filter(|_| comparison.is_whole())
        && same(*of) > same(call_change)
        && same(*of) > 0.0
    {
        let how = if change > 0.0 { "longer" } else { "shorter" };
        let text = format!("{} computed {} {how} between calls", escaped(program), ns(*of));
        return Some(Cause { ns: *of, kind: Kind::Computing, text });
    }
    let call = call.filter(|_| same(call_change) > 0.0)?;
    let name = escaped(&call.name);
    let pairs = comparison.pairs();
    let of_call = || pairs.iter().filter(|((of, _), _)| *of == call.name);
    let file = of_call().max_by(|a, b| same(a.1).total_cmp(&same(b.1)));
    let (all, times) = (ns(call_change), times(call));
    let text = match file {
        Some(((_, file), _)) if of_call().count() == 1 => {
            format!("{name} of {} took {all} {how}{times}", escaped(file))
        }
        // On other files the call may have taken less.
        Some(((_, file), of))
            if same(*of) >= same(call_change) * EXPLAINS_SHARE
                && same(*of) <= same(call_change) * OUTWEIGHS =>
        {
            let file = escaped(file);
            format!("{name} took {all} {how}{times}, {} of that on {file}", ns(*of))
        }
        _ => format!("{name} took {all} {how}{times}"),
    };
    Some(Cause { ns: call_change, kind: Kind::Call, text })
}

/// Says how often a call was made, if that changed.
fn times(call: &Row) -> String {
    let [a, b] = call.sides.each_ref().map(|of| of.count);
    if a == b {
        return String::new();
    }
    format!(" ({} of it, {} before)", counted(b, "call", "calls"), show_count(a))
}

/// Formats p: `p = 0.04`.
pub fn probability(p: f64) -> String {
    if p < 0.0005 { "p < 0.001".into() } else { format!("p = {p:.3}") }
}

/// Says what is known of chance.
fn chance(comparison: &Comparison) -> String {
    let run = comparison.pair(|run| run.run_ns());
    let [a, b] = [0, 1].map(|side| comparison.sides[side].len());
    let Some(p) = run.p else {
        return "One run a side: whether that is chance is not known; `reenact record --repeat 5` of \
                each tells."
            .into();
    };
    let of = |side: usize, runs: usize| {
        let [least, most] = run.spread[side].map(ns);
        match runs {
            1 => format!("1 run, {least}"),
            _ => format!("{} runs, {least} to {most}", show_count(runs as u64)),
        }
    };
    let hint = match p {
        p if p < SIGNIFICANT => String::new(),
        _ if least_p(a, b) >= SIGNIFICANT => format!(
            "; so few runs cannot rule out chance, {} of each can",
            (1..).find(|runs| least_p(*runs, *runs) < SIGNIFICANT).unwrap_or(a.max(b))
        ),
        _ => "; may be chance".into(),
    };
    format!("A: {}; B: {}; {} (Mann-Whitney){hint}.", of(0, a), of(1, b), probability(p))
}

/// Returns the least p that so many runs can have: two out of all choices.
fn least_p(a: usize, b: usize) -> f64 {
    let choices = (1..=a.min(b)).fold(1.0, |all, n| all * (a + b + 1 - n) as f64 / n as f64);
    2.0 / choices
}

/// Says what the second side did otherwise.
fn work(comparison: &Comparison) -> String {
    if comparison.did_the_same() {
        return "Both made the same calls on the same files, with the same errors, data and syncs."
            .into();
    }
    let pair =
        |of: fn(&crate::amounts::Amounts) -> u64| comparison.pair(|run| of(&run.all()) as f64);
    let files = comparison.rows(By::File);
    let syncs = pair(|of| of.syncs);
    let synced = synced_otherwise(&files, syncs.change())
        .map_or_else(String::new, |file| format!(", most of {}", escaped(file)));
    let mut parts = Vec::new();
    let mut add = |pair: Pair, show: &dyn Fn(u64) -> String, what: &str| {
        let change = pair.change().round() as i64;
        if change != 0 {
            parts.push(format!("{} {what}", show_change(change, show)));
        }
    };
    add(pair(|of| of.count), &show_count, "calls");
    add(pair(|of| of.errors), &show_count, "failed calls");
    add(pair(|of| of.bytes), &show_size, "data moved");
    add(syncs, &show_count, &format!("syncs{synced}"));
    for (side, what) in [(1, "new"), (0, "gone")] {
        let count = files.iter().filter(|row| row.is_only_on(side)).count() as u64;
        if count > 0 {
            parts.push(format!("{} {what}", counted(count, "file", "files")));
        }
    }
    match parts.is_empty() {
        true => "What B did differs in which calls and files it was, not in how many.".into(),
        false => format!("What B did: {}.", parts.join(", ")),
    }
}

/// Returns the file that has more than half of so many more, or fewer, syncs.
fn synced_otherwise(files: &[Row], change: f64) -> Option<&[u8]> {
    let of = |row: &Row| row.sides[1].syncs as f64 - row.sides[0].syncs as f64;
    let most = files.iter().max_by(|a, b| (of(a) * change).total_cmp(&(of(b) * change)))?;
    (of(most) * change * 2.0 > change * change).then_some(&most.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amounts::Amounts;
    use crate::gather::Run;
    use crate::starts::CommandLine;

    /// A run whose calls took so many milliseconds, each on a file of its own.
    fn run(calls: &[(&str, &str, f64)]) -> Run {
        let mut run = Run::default();
        for (call, file, ms) in calls {
            let ns = ms * 1e6;
            let amounts = Amounts { count: 1, ns: ns as u64, run_ns: ns, ..Amounts::default() };
            run.calls.entry(call.as_bytes().to_vec()).or_default().merge(&amounts);
            run.pairs.insert((call.as_bytes().to_vec(), file.as_bytes().to_vec()), ns);
        }
        run
    }

    fn first_line(a: &[f64], b: &[f64]) -> String {
        let of = |times: &[f64]| times.iter().map(|ms| run(&[("fsync", "/a", *ms)])).collect();
        lines(&Comparison::new(of(a), of(b)))[0].clone()
    }

    #[test]
    fn what_few_runs_that_lie_far_apart_come_from_is_said() {
        let (a, b) = ([59.0, 60.0, 77.0], [427.0, 500.0, 700.0, 1135.0]);
        let said = first_line(&a, &b);
        assert!(said.ends_with("(+900%): fsync of /a took 540.0 ms more."), "{said}");
        // They overlap.
        let said = first_line(&a, &[70.0, 500.0, 700.0, 1135.0]);
        assert!(said.contains("which may be chance"), "{said}");
        let of = |times: &[f64]| times.iter().map(|ms| run(&[("fsync", "/a", *ms)])).collect();
        let said = lines(&Comparison::new(of(&a), of(&b)))[1].clone();
        assert!(said.ends_with("so few runs cannot rule out chance, 4 of each can."), "{said}");
    }

    #[test]
    fn a_cause_fits_the_change() {
        let a = run(&[("mmap", "/a", 1.0), ("mmap", "/b", 2.5), ("read", "/c", 9.0)]);
        // Of mmap one file took more and another one less.
        let b = run(&[("mmap", "/a", 5.0), ("mmap", "/b", 0.0), ("read", "/c", 9.0)]);
        let said = &lines(&Comparison::new(vec![a], vec![b]))[0];
        assert!(said.ends_with(": mmap took 1.5 ms more."), "{said}");
        let a = run(&[("fsync", "/a", 10.0), ("fsync", "/b", 3.0)]);
        let b = run(&[("fsync", "/a", 1.0), ("fsync", "/b", 1.0)]);
        let said = &lines(&Comparison::new(vec![a], vec![b]))[0];
        assert!(said.ends_with(": fsync took 11.0 ms less, 9.0 ms of that on /a."), "{said}");
        let a = run(&[("mmap", "/a", 1.0), ("read", "/c", 9.0)]);
        let b = run(&[("mmap", "/a", 9.0), ("read", "/c", 2.0)]);
        let said = &lines(&Comparison::new(vec![a], vec![b]))[0];
        let both = ": mmap of /a took 8.0 ms more, while read of /c took 7.0 ms less.";
        assert!(said.ends_with(both), "{said}");
    }

    #[test]
    fn files_that_were_synced_otherwise_are_named() {
        let of = |syncs: &[(&str, u64)]| {
            let mut run = run(&[]);
            for (file, syncs) in syncs {
                let amounts = Amounts { count: *syncs, syncs: *syncs, ..Amounts::default() };
                run.calls.entry(b"fsync".to_vec()).or_default().merge(&amounts);
                run.files.entry(file.as_bytes().to_vec()).or_default().merge(&amounts);
            }
            run
        };
        let said =
            |a: &[(&str, u64)], b: &[(&str, u64)]| work(&Comparison::new(vec![of(a)], vec![of(b)]));
        let more = said(&[("/a", 1), ("/b", 3)], &[("/a", 5), ("/b", 4)]);
        assert!(more.contains("+5 syncs, most of /a"), "{more}");
        let fewer = said(&[("/a", 5), ("/b", 4)], &[("/a", 5), ("/b", 1)]);
        assert!(fewer.contains("-3 syncs, most of /b"), "{fewer}");
        let many = said(&[("/a", 1), ("/b", 1)], &[("/a", 2), ("/b", 2)]);
        assert!(many.contains("+2 syncs") && !many.contains("most of"), "{many}");
    }

    /// A run of a script by `env` that starts a program with a word, whose calls took so many milliseconds.
    fn scripted(script: &str, word: &str, calls: &[(&str, &str, f64)]) -> Run {
        let words = |words: &[&str]| -> Vec<Vec<u8>> {
            words.iter().map(|word| word.as_bytes().to_vec()).collect()
        };
        let mut run = run(calls);
        run.command = words(&[script]);
        run.first_program = Some(b"env".to_vec());
        let all: f64 = calls.iter().map(|(_, _, ms)| ms * 1e6).sum();
        let lines = [("env", vec!["sh", script]), ("sh", vec![script]), ("work", vec![word])];
        for (program, line) in lines {
            let ns = if program == "work" { all } else { all * 1.2 };
            run.programs
                .entry(program.into())
                .or_default()
                .merge(&Amounts { run_ns: ns, ..Amounts::default() });
            run.starts.add(CommandLine { program: program.into(), words: words(&line) });
        }
        run
    }

    #[test]
    fn another_name_of_a_script_is_no_cause() {
        let said = |words: [&str; 2], calls: [&[(&str, &str, f64)]; 2]| {
            let [a, b] =
                [0, 1].map(|at| vec![scripted(["./v1.sh", "./v2.sh"][at], words[at], calls[at])]);
            lines(&Comparison::new(a, b))[0].clone()
        };
        let calls: [&[_]; 2] = [&[("fsync", "/a", 1.0)], &[("fsync", "/a", 40.0)]];
        let same = said(["x", "x"], calls);
        assert!(same.ends_with(": fsync of /a took 39.0 ms more."), "{same}");
        // Arguments alone do not tell what took the time.
        let other = said(["2", "40"], calls);
        let expected = ": fsync of /a took 39.0 ms more; \
                        work, started with 40 instead of 2, took 39.0 ms more in all.";
        assert!(other.ends_with(expected), "{other}");
        // No single call does.
        let calls: [&[_]; 2] = [
            &[("read", "/a", 1.0), ("write", "/b", 1.0), ("fsync", "/c", 1.0)],
            &[("read", "/a", 11.0), ("write", "/b", 12.0), ("fsync", "/c", 11.0)],
        ];
        let many = said(["2", "40"], calls);
        let expected = ": work, started with 40 instead of 2, took 31.0 ms more.";
        assert!(many.ends_with(expected), "{many}");
    }

    #[test]
    fn what_happened_once_or_never_is_said_in_words() {
        assert_eq!(
            (often(1), often(2), often(1000)),
            ("once".into(), "2 times".into(), "1,000 times".into())
        );
    }

    #[test]
    fn few_runs_have_a_least_p() {
        assert!((least_p(3, 3) - 0.1).abs() < 1e-12);
        assert!((least_p(5, 5) - 2.0 / 252.0).abs() < 1e-12);
        assert!((least_p(1, 4) - 0.4).abs() < 1e-12);
        assert_eq!(
            (probability(0.0001), probability(0.0079)),
            ("p < 0.001".into(), "p = 0.008".into())
        );
    }
}
