//! What a comparison says in words.

use render::amounts::{counted, show_change, show_change_share, show_count, show_size, show_time};
use render::escape::escaped;

use crate::comparison::{Comparison, Pair, Row};
use crate::gather::By;
use crate::parting::{Alignment, Line};
use crate::rank_test::SIGNIFICANT;

/// A change below this part of the time is called none.
const EQUAL_SHARE: f64 = 0.01;
/// A file explains what a call took more if it explains this part of it.
const EXPLAINS_SHARE: f64 = 0.5;

/// What the sides are called.
pub const SIDES: [&str; 2] = ["A", "B"];

/// Returns what is said first, a line for each thing.
pub fn lines(comparison: &Comparison) -> Vec<String> {
    let mut lines = vec![time(comparison), chance(comparison), work(comparison)];
    lines.extend(comparison.alignment.as_ref().map(order));
    lines
}

/// Says whether the calls came in the same order.
fn order(alignment: &Alignment) -> String {
    let (partings, threads) = match alignment {
        Alignment::Same { threads: 1 } => return "The calls came in the same order.".into(),
        Alignment::Same { threads } => {
            let threads = show_count(*threads);
            return format!("Each of {threads} threads made its calls in the same order.");
        }
        Alignment::Part { partings, threads } => (partings, threads),
    };
    let Some(first) = partings.first() else { return String::new() };
    let equal = counted(first.equal, "equal call", "equal calls");
    let place = |side: usize| match first.after[side].first() {
        Some(Line { seq: Some(seq), .. }) => format!("{} at call {seq}", SIDES[side]),
        Some(_) => format!("{} goes on", SIDES[side]),
        None => format!("{} ends", SIDES[side]),
    };
    match threads {
        [_, 1] => format!("They part after {equal}: {}, {}.", place(0), place(1)),
        [parted, shared] => format!(
            "They part, first after {equal} of a thread: {}, {}; {} of {} part at some place.",
            place(0),
            place(1),
            show_count(*parted),
            counted(*shared, "thread", "threads")
        ),
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
        Some(p) if p >= SIGNIFICANT => {
            text.push_str(&format!(", which may be chance ({}).", probability(p)));
        }
        _ => match cause(comparison, run.change()) {
            Some(cause) => text.push_str(&format!(": {cause}.")),
            None => text.push('.'),
        },
    }
    text
}

/// Says what made up most of a change of the time.
fn cause(comparison: &Comparison, change: f64) -> Option<String> {
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
        return Some(format!("{} computed {} {how} between calls", escaped(program), ns(*of)));
    }
    let call = call.filter(|_| same(call_change) > 0.0)?;
    let name = escaped(&call.name);
    let pairs = comparison.pairs();
    let of_call = pairs.iter().filter(|((of, _), _)| *of == call.name);
    let file = of_call.max_by(|a, b| same(a.1).total_cmp(&same(b.1)));
    if let Some(((_, file), of)) = file
        && same(*of) >= same(call_change) * EXPLAINS_SHARE
    {
        return Some(format!("{name} of {} took {} {how}", escaped(file), ns(*of)));
    }
    Some(format!("{name} took {} {how}", ns(call_change)))
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
        return "One run a side: no spread known.".into();
    };
    let of = |side: usize, runs: usize| {
        let [least, most] = run.spread[side].map(ns);
        match runs {
            1 => format!("1 run, {least}"),
            _ => format!("{} runs, {least} to {most}", show_count(runs as u64)),
        }
    };
    let hint = match p {
        p if p < SIGNIFICANT => "",
        _ if least_p(a, b) >= SIGNIFICANT => "; with so few runs this may be chance",
        _ => "; may be chance",
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
    add(pair(|of| of.syncs), &show_count, "syncs");
    let files = comparison.rows(By::File);
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

#[cfg(test)]
mod tests {
    use super::*;

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
