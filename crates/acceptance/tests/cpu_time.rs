//! What a thread computed between its calls, by the recording and by its own CPU clock, while others
//! want its CPU. Neither is held against a fixed time.

use std::process::{Command, ExitCode};

use acceptance::place::{Place, Who};
use acceptance::program;
use acceptance::stage::Stage;
use acceptance::{Complaint, ensure, trials};
use serde_json::Value;

fn main() -> ExitCode {
    trials::main(|trials| {
        trials.add_for_both("as_its_own_clock_says", None, as_its_own_clock_says);
        trials.add_for_both("computed_again", None, computed_again);
        trials.add_for_both("of_all_threads_of_what_is_executed_again", None, of_all_threads);
        trials.add("not_wanted", Who::User, None, not_wanted);
        Ok(())
    })
}

/// Records the program. Returns what it printed and the calls of its first thread.
fn recorded(stage: &Stage, who: Who, more: &[&str]) -> Result<(String, Vec<Value>), Complaint> {
    let place = Place::new(stage, who)?;
    let binary = program::named("computes_between_calls")?.build(stage)?;
    let trace = place.trace("program.rnt");
    let mut command = place.command(&stage.reenact);
    command.args(["record", "--quiet"]).args(more).arg("--output").arg(&trace).arg("--");
    let outcome = place.run(command.arg(binary).args(["1", "measured"]))?;
    let shown = Command::new(&stage.reenact).args(["show", "--json"]).arg(&trace).output();
    let shown = shown.map_err(|error| error.to_string())?.stdout;
    let events: Result<Vec<Value>, _> =
        String::from_utf8_lossy(&shown).lines().map(serde_json::from_str).collect();
    let mut calls = events.map_err(|error| error.to_string())?;
    calls.retain(|event| event["type"] == "call" && event["pid"] == event["tid"]);
    let first = calls.first().map(|call| call["tid"].clone());
    calls.retain(|call| Some(&call["tid"]) == first.as_ref());
    Ok((String::from_utf8_lossy(&outcome.stdout).into_owned(), calls))
}

fn as_its_own_clock_says(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let (said, calls) = recorded(stage, who, &[])?;
    let own = said.trim().strip_prefix("computed ").and_then(|ns| ns.parse::<f64>().ok());
    let own = own.ok_or_else(|| format!("it said {said:?}"))?;
    // Between the two times that it asked its clock.
    let asks: Vec<usize> =
        (0..calls.len()).filter(|at| calls[*at]["call"] == "clock_gettime").collect();
    let &[first, last] = &asks[..] else { return Err(format!("{} clocks", asks.len())) };
    let within = &calls[first + 1..=last];
    let known: Vec<f64> = within.iter().filter_map(|call| call["user_ns"].as_f64()).collect();
    let all = calls[last]["enter_ns"].as_f64().zip(calls[first]["exit_ns"].as_f64());
    let wall = all.map_or(0.0, |(end, begin)| end - begin);
    ensure!(wall > own * 1.3, "nobody wanted its CPU: {wall} ns, {own} of them computed");
    ensure!(known.len() * 10 >= within.len() * 8, "{} of {} are known", known.len(), within.len());
    // All rounds compute the same: what is not known is as long as the others.
    let whole = known.iter().sum::<f64>() * within.len() as f64 / known.len() as f64;
    let share = whole / own;
    ensure!((0.97..1.03).contains(&share), "{whole} ns by the recording, {own} by its clock");
    Ok(())
}

/// Also of a program that gets no area of its own, in which the CPU it runs on would stand.
fn of_all_threads(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let all = program::in_folder("tests/rerun")?;
    let threads = all.into_iter().find(|program| program.name == "computing_threads");
    let binary = threads.ok_or("tests/rerun has no computing_threads")?.build(stage)?;
    for more in [&["--rerunnable"][..], &["--rerunnable", "--serialize"]] {
        let trace = place.trace("threads.rnt");
        let mut command = place.command(&stage.reenact);
        command.args(["record", "--quiet", "--force"]).args(more).arg("--output").arg(&trace);
        place.run(command.arg("--").arg(&binary))?.success("record")?;
        let mut show = place.command(&stage.reenact);
        show.args(["show", "--json", "--call", "getppid"]).arg(&trace);
        let shown = place.run(&mut show)?.success("show")?.text();
        let mut known = std::collections::BTreeMap::<u64, usize>::new();
        for line in shown.lines() {
            let call: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
            let number = known.entry(call["tid"].as_u64().unwrap_or(0)).or_default();
            *number += usize::from(call["user_ns"].as_u64().is_some_and(|ns| ns > 0));
        }
        ensure!(known.len() == 2, "{more:?}: calls of {} threads", known.len());
        // Of 20; that of a thread that has lost its CPU for the first time is not.
        ensure!(known.values().all(|number| *number >= 10), "{more:?}: {known:?}");
    }
    Ok(())
}

/// A replay that computes as well takes at least as long as that.
fn computed_again(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let binary = program::named("computes_between_calls")?.build(stage)?;
    let trace = place.trace("program.rnt");
    let mut command = place.command(&stage.reenact);
    command.args(["record", "--quiet", "--output"]).arg(&trace).arg("--");
    place.run(command.arg(binary).args(["1", "measured"]))?;
    let replayed = |pace: &str| -> Result<Value, Complaint> {
        let mut command = place.command(&stage.reenact);
        command.args(["replay", "--json", "--pace", pace]).arg(&trace);
        let outcome = place.run(&mut command)?;
        serde_json::from_slice(&outcome.stdout).map_err(|error| error.to_string())
    };
    let (think, afap) = (replayed("think")?, replayed("afap")?);
    let computed = think["computed_ns"].as_f64().unwrap_or(0.0) / 1e9;
    let took = think["calls_s"].as_f64().unwrap_or(0.0);
    ensure!(think["ok"] == true && afap["ok"] == true, "{think}\n{afap}");
    ensure!(computed > 0.0 && took >= computed * 0.95, "{took} s for {computed} s to compute");
    ensure!(afap["computed_ns"].is_null(), "{afap}");
    Ok(())
}

fn not_wanted(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let (_, calls) = recorded(stage, who, &["--no-cpu-time"])?;
    ensure!(calls.iter().all(|call| call["user_ns"].is_null()), "it was measured");
    Ok(())
}
