//! What a thread computed between its calls, by the recording and by its own CPU clock, while others
//! want its CPU. Neither is held against a fixed time.

use std::path::{Path, PathBuf};
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
        trials.add_for_both("what_is_copied_behind_a_call", None, copied_behind_a_call);
        trials.add_for_both("what_is_noted_of_files_is_our_time", None, noted_of_files);
        trials.add_for_both("what_a_replay_prepares_is_our_time", None, prepared);
        trials.add("not_wanted", Who::User, None, not_wanted);
        trials.add("info_says_by_what", Who::User, None, info_says_by_what);
        trials.add_for_both("calls_that_ask_take_their_time", None, calls_that_ask);
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

/// Also of a program that gets no area of its own, in which the CPU it runs on would stand, and under a filter
/// that has nothing against it.
fn of_all_threads(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let binary = of_reruns(stage, "computing_threads")?;
    let (once, serial) = (&["--rerunnable"][..], &["--rerunnable", "--serialize"][..]);
    for (more, args) in
        [(once, &[][..]), (serial, &[]), (once, &["filtered"]), (serial, &["filtered"])]
    {
        let trace = place.trace("threads.rnt");
        let mut command = place.command(&stage.reenact);
        command.args(["record", "--quiet", "--force"]).args(more).arg("--output").arg(&trace);
        place.run(command.arg("--").arg(&binary).args(args))?.success("record")?;
        let mut show = place.command(&stage.reenact);
        show.args(["show", "--json", "--call", "getppid"]).arg(&trace);
        let shown = place.run(&mut show)?.success("show")?.text();
        let mut known = std::collections::BTreeMap::<u64, usize>::new();
        for line in shown.lines() {
            let call: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
            let number = known.entry(call["tid"].as_u64().unwrap_or(0)).or_default();
            *number += usize::from(call["user_ns"].as_u64().is_some_and(|ns| ns > 0));
        }
        let images = 1 + args.len();
        ensure!(known.len() == 2 * images, "{more:?} {args:?}: calls of {} threads", known.len());
        // Of 20; that of a thread that has lost its CPU for the first time is not.
        ensure!(known.values().all(|number| *number >= 10), "{more:?} {args:?}: {known:?}");
    }
    Ok(())
}

/// Where signals come faster than the input of a call is copied, that is copied behind the call: not by the program,
/// which takes as long for it.
fn copied_behind_a_call(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let binary = of_reruns(stage, "late_writes")?;
    let trace = place.trace("late.rnt");
    let mut record = place.command(&stage.reenact);
    record.args(["record", "--quiet", "--output"]).arg(&trace).arg("--").arg(binary);
    place.run(&mut record)?.success("record")?;
    let calls = shown(stage, &place, &trace)?;
    // Of the calls from each of those up to the next.
    let between = |from: &str| -> Vec<u64> {
        let starts: Vec<usize> = (0..calls.len()).filter(|at| calls[*at]["call"] == from).collect();
        let spans = starts.windows(2).map(|pair| &calls[pair[0] + 1..=pair[1]]);
        let user_ns =
            |calls: &[Value]| calls.iter().filter_map(|call| call["user_ns"].as_u64()).sum();
        let mut sums: Vec<u64> = spans.map(user_ns).collect();
        sums.sort_unstable();
        sums
    };
    let (written, copied) = (between("getppid"), between("getpgrp"));
    ensure!(written.len() == 4 && copied.len() == 4, "{written:?}, {copied:?}");
    ensure!(copied[2] > 0, "no time is known: {copied:?}");
    ensure!(written[2] * 4 < copied[2], "written in {written:?} ns, copied in {copied:?}");
    Ok(())
}

/// The calls of a trace.
fn shown(stage: &Stage, place: &Place, trace: &Path) -> Result<Vec<Value>, Complaint> {
    let mut show = place.command(&stage.reenact);
    let shown = place.run(show.args(["show", "--json"]).arg(trace))?.success("show")?.text();
    let calls: Result<Vec<Value>, _> = shown.lines().map(serde_json::from_str).collect();
    let mut calls = calls.map_err(|error| error.to_string())?;
    calls.retain(|event| event["type"] == "call");
    Ok(calls)
}

/// What files are, and where their text lies, is noted behind calls that open and map them. That is part of neither
/// those calls nor of what the program computes next; behind others there is nothing.
fn noted_of_files(stage: &Stage, who: Who) -> Result<(), Complaint> {
    const FILES: usize = 20;
    let place = Place::new(stage, who)?;
    let binary = of_reruns(stage, "opens_and_maps")?;
    let names: Vec<String> = (0..FILES).map(|number| format!("file{number}")).collect();
    names.iter().try_for_each(|name| place.write(name, &[b'x'; 8192]).map(drop))?;
    let trace = place.trace("opened.rnt");
    let mut record = place.command(&stage.reenact);
    record.args(["record", "--quiet", "--output"]).arg(&trace).arg("--");
    place.run(record.arg(binary).args(&names))?.success("record")?;
    let calls = shown(stage, &place, &trace)?;
    // Of the last calls with this name: behind how many there was nobody's time.
    let noted = |name: &str| -> Vec<bool> {
        let behind = calls.windows(2).filter(|pair| pair[0]["call"] == name).filter_map(|pair| {
            let ns = |of: &Value, key: &str| of[key].as_u64();
            let between = ns(&pair[1], "enter_ns")?.checked_sub(ns(&pair[0], "exit_ns")?)?;
            Some(between > ns(&pair[1], "user_ns")?)
        });
        let behind: Vec<bool> = behind.collect();
        behind[behind.len().saturating_sub(FILES)..].to_vec()
    };
    // A thread that loses its CPU is not known to have had it.
    let most = FILES * 3 / 4;
    for name in ["openat", "mmap"] {
        let some = noted(name).iter().filter(|some| **some).count();
        ensure!(some >= most, "behind {some} calls of {name}");
    }
    let none = noted("close").iter().filter(|some| !**some).count();
    ensure!(none >= most, "behind all but {none} calls of close");
    Ok(())
}

/// A replay builds the bytes that a recording has not kept, and then makes the call: only that takes the call's time.
fn prepared(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let binary = of_reruns(stage, "long_to_nowhere")?;
    let trace = place.trace("written.rnt");
    let mut record = place.command(&stage.reenact);
    record.args(["record", "--quiet", "--data", "none", "--output"]).arg(&trace).arg("--");
    place.run(record.arg(binary))?.success("record")?;
    let mut replay = place.command(&stage.reenact);
    let said = place.run(replay.args(["replay", "--json"]).arg(&trace))?.success("replay")?.text();
    let said: Value = serde_json::from_str(&said).map_err(|error| error.to_string())?;
    let made = &said["latencies_ns"]["write"]["replayed"];
    ensure!(made["count"] == 300, "{made}");
    let [median, cpu] = [&made["median"], &said["user_ns"]].map(Value::as_u64);
    let (median, cpu) = median.zip(cpu).ok_or_else(|| format!("{said}"))?;
    ensure!(median * 300 * 4 < cpu, "{median} ns a call; {cpu} ns to build all of them");
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

/// The calls by what it is known in the trace, of each thread as well, and the last of both options counts.
fn info_says_by_what(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let binary = program::named("computes_between_calls")?.build(stage)?;
    let trace = place.trace("program.rnt");
    let told = |more: &[&str]| -> Result<(Value, String), Complaint> {
        let mut command = place.command(&stage.reenact);
        command.args(["record", "--quiet", "--force"]).args(more).arg("--output").arg(&trace);
        place.run(command.arg("--").arg(&binary).args(["1", "measured"]))?;
        let mut info = place.command(&stage.reenact);
        let json = place.run(info.args(["info", "--json"]).arg(&trace))?.success("info")?.text();
        let json: Value = serde_json::from_str(&json).map_err(|error| error.to_string())?;
        let mut info = place.command(&stage.reenact);
        let text = place.run(info.arg("info").arg(&trace))?.success("info")?.text();
        Ok((json, text.split_whitespace().collect::<Vec<_>>().join(" ")))
    };
    let (json, text) = told(&["--no-cpu-time", "--cpu-time"])?;
    let of = |value: &Value, key: &str| value[key].as_u64().unwrap_or(0);
    let time = &json["cpu_time"];
    let [stamps, clock, unknown] =
        ["by_time_stamps", "by_cpu_clock", "unknown"].map(|key| of(time, key));
    ensure!(time["recorded"] == true && stamps > 0 && clock > 0 && unknown > 0, "{time}");
    ensure!(json["calls"] == stamps + clock + unknown, "{time} of {}", json["calls"]);
    let threads = time["threads"].as_array().cloned().unwrap_or_default();
    let sum: u64 = threads.iter().map(|thread| of(thread, "by_time_stamps")).sum();
    ensure!(sum == stamps && threads.iter().all(|thread| thread["tid"].is_u64()), "{time}");
    ensure!(text.contains("cpu time what threads computed is known before"), "{text}");
    ensure!(text.contains("by the thread's CPU clock"), "{text}");
    let (json, text) = told(&["--cpu-time", "--no-cpu-time"])?;
    ensure!(json["cpu_time"]["recorded"] == false, "{}", json["cpu_time"]);
    ensure!(of(&json["cpu_time"], "unknown") > 0, "{}", json["cpu_time"]);
    ensure!(text.contains("cpu time not recorded (--no-cpu-time)"), "{text}");
    Ok(())
}

/// Builds a program of tests/rerun.
fn of_reruns(stage: &Stage, name: &str) -> Result<PathBuf, Complaint> {
    program::named_in("tests/rerun", name)?.build(stage)
}

/// Where a replay computes as well, calls that only ask are made, and counted as taken from the recording:
/// not the clock's where the program would make no call, had it not been recorded for a re-execution.
fn calls_that_ask(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let binary = of_reruns(stage, "asks")?;
    let trace = place.trace("asks.rnt");
    for (more, clocks) in [(&["--force"][..], 50), (&["--force", "--rerunnable"], 0)] {
        let mut record = place.command(&stage.reenact);
        record.args(["record", "--quiet"]).args(more).arg("--output").arg(&trace).arg("--");
        place.run(record.arg(&binary))?.success("record")?;
        let replayed = |pace: &str| -> Result<Value, Complaint> {
            let mut replay = place.command(&stage.reenact);
            replay.args(["replay", "--json", "--pace", pace]).arg(&trace);
            let said = place.run(&mut replay)?.success("replay")?.text();
            serde_json::from_str(&said).map_err(|error| error.to_string())
        };
        let (think, afap) = (replayed("think")?, replayed("afap")?);
        let count = |said: &Value, call: &str| {
            said["latencies_ns"][call]["replayed"]["count"].as_u64().unwrap_or(0)
        };
        for call in ["getppid", "getuid", "uname", "getrusage", "getrandom"] {
            let (made, not_made) = (count(&think, call), count(&afap, call));
            ensure!(made >= 50 && not_made == 0, "{more:?}: {call} {made} and {not_made} times");
            let took = think["latencies_ns"][call]["replayed"]["sum"].as_u64();
            ensure!(took > Some(0), "{more:?}: {call} took no time: {think}");
        }
        let made = count(&think, "clock_gettime");
        ensure!(made == clocks, "{more:?}: clock_gettime {made} times, not {clocks}");
        ensure!(think["timed"].as_u64() >= Some(250 + clocks), "{more:?}: {}", think["timed"]);
        ensure!(afap["timed"].is_null(), "{more:?}: {afap}");
        for key in ["simulated", "replayed", "ok"] {
            let (one, other) = (&think[key], &afap[key]);
            ensure!(one == other, "{more:?}: {key} is {one} and {other}");
        }
    }
    Ok(())
}
