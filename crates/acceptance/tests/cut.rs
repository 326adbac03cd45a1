//! `reenact cut`, `repair` and `merge`: their output is sound, says what is missing, and shows the
//! same calls as the traces that it was made from.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use acceptance::place::{Place, Who};
use acceptance::program::{self, Program};
use acceptance::stage::Stage;
use acceptance::tier::{self, Random};
use acceptance::{Complaint, ensure, shown, trials};
use serde_json::Value;

/// Processes, pipes, directories; descriptors that are copied, inherited and reused.
const WORK: &str = r#"
mkdir -p one/two; cd one
for i in 1 2 3 4 5; do echo $i > file$i; cat file$i two/none >> all 2>&1; done
exec 5> fifth; echo a >&5; cd two; echo b >&5; exec 5> sixth; echo c >&5
(cd /; echo d >&5; cat /etc/hostname) | sed s/a/b/ | tee copy > /dev/null
ls .. > /dev/null; sleep 0.05; rm ../file1 sixth; exec 5>&-; echo none >&5
true
"#;

fn main() -> ExitCode {
    trials::main(|trials| {
        trials.add("cut", Who::User, None, cut);
        let no_time = (!tier::is_long()).then_some("the long tier");
        for program in program::all()? {
            let missing = program.needs.iter().find(|need| !trials::has(**need, Who::User));
            let missing = missing.map(|need| format!("{need:?}"));
            let name = format!("cut/{}", program.name);
            trials.add(&name, Who::User, no_time.or(missing.as_deref()), move |stage, who| {
                cut_program(stage, who, &program)
            });
        }
        trials.add("cut_replays", Who::User, None, cut_replays);
        let missing = trials::missing(&["python3"]);
        trials.add("cut_replays_exec", Who::User, missing, cut_replays_exec);
        trials.add("cut_with_context", Who::User, None, cut_with_context);
        trials.add("cut_refuses", Who::User, None, cut_refuses);
        trials.add("repair_truncated", Who::User, None, repair_truncated);
        trials.add("repair_damaged", Who::User, None, repair_damaged);
        trials.add("merge", Who::User, None, merge);
        Ok(())
    })
}

fn record(stage: &Stage, place: &Place, name: &str) -> Result<PathBuf, Complaint> {
    let trace = place.trace(name);
    let mut command = place.command(&stage.reenact);
    command.args(["record", "--quiet", "--output"]).arg(&trace);
    place.run(command.args(["--", "/bin/sh", "-c", WORK]))?.success("the work")?;
    Ok(trace)
}

fn reenact(stage: &Stage, args: &[&str]) -> Command {
    let mut command = Command::new(&stage.reenact);
    command.args(args);
    command
}

/// Runs a command that must exit with this code; returns its output.
fn run(command: &mut Command, code: i32) -> Result<String, Complaint> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let (out, err) = (&output.stdout, &output.stderr);
    let said = format!("{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err));
    ensure!(output.status.code() == Some(code), "{command:?}: {}; {said}", output.status);
    Ok(said)
}

/// Returns the calls printed by `show`, without numbers that are assigned anew.
fn calls(stage: &Stage, trace: &Path, args: &[&str]) -> Result<Vec<Value>, Complaint> {
    let mut calls = Vec::new();
    shown::show(stage, trace, args, |event| {
        if event["type"] != "call" {
            return Ok(());
        }
        let mut call = event.clone();
        call["seq"] = Value::Null;
        for path in call["paths"].as_object_mut().into_iter().flat_map(|paths| paths.values_mut()) {
            if path.as_str().is_some_and(|path| path.starts_with("pipe:[")) {
                *path = "a pipe".into();
            }
        }
        calls.push(call);
        Ok(())
    })?;
    Ok(calls)
}

fn equal(found: &[Value], wanted: &[Value], what: &str) -> Result<(), Complaint> {
    for (found, wanted) in found.iter().zip(wanted) {
        ensure!(found == wanted, "{what}:\n{found}\nwas\n{wanted}");
    }
    ensure!(found.len() == wanted.len(), "{what}: {} calls, not {}", found.len(), wanted.len());
    Ok(())
}

/// A derived trace must be private and sound, and say that it is not complete, and why.
fn sound(stage: &Stage, trace: &Path, why: &str) -> Result<Value, Complaint> {
    let mode = fs::metadata(trace).map_err(|error| error.to_string())?.mode() & 0o777;
    ensure!(mode == 0o600, "mode {mode:o}");
    let text = run(reenact(stage, &["info", "--json", "--verify"]).arg(trace), 0)?;
    let info: Value = serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))?;
    ensure!(info["complete"] == false && info["sound"] == true, "it says {text}");
    let gaps = info["gap_list"].as_array().map_or(&[][..], Vec::as_slice);
    ensure!(gaps.len() == 1 && gaps[0]["why"] == why, "gaps {gaps:?}");
    Ok(info)
}

fn cut(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = record(stage, &place, "work.rnt")?;
    let all = calls(stage, &trace, &[])?;
    let pids: Vec<String> = pids(&all).into_keys().map(|pid| pid.to_string()).collect();
    let middle = all[all.len() / 2]["enter_ns"].as_u64().ok_or("a call without a time")?;
    let (since, until) = (format!("{middle}ns"), format!("{}ns", middle + 20_000_000));
    let half = pids[..pids.len() / 2].join(",");
    let conditions: &[&[&str]] = &[
        &["--since", &since],
        &["--until", &since],
        &["--since", &since, "--until", &until],
        &["--pid", &pids[0]],
        &["--pid", &half],
        &["--tid", &pids[pids.len() - 1]],
        &["--call", "write"],
        &["--call", "%file", "--failed"],
        &["--call", "!%memory"],
        &["--path", "*/one/*"],
        &["--path", "*fifth", "--path", "*sixth"],
        &["--path", "*/nowhere/*"],
    ];
    for condition in conditions {
        let out = place.path("cut.rnt");
        run(reenact(stage, &["cut", "--force", "-o"]).arg(&out).arg(&trace).args(*condition), 0)?;
        let wanted = calls(stage, &trace, condition)?;
        equal(&calls(stage, &out, &[])?, &wanted, &format!("{condition:?}"))?;
        let info = sound(stage, &out, "cut")?;
        let left_out = format!("{} of {} calls", wanted.len(), all.len());
        let said = info["gap_list"][0]["text"].as_str().unwrap_or_default();
        ensure!(said.contains(&left_out) && said.contains(condition[0]), "it says {said}");
        // Cutting again by the same conditions changes nothing.
        let again = place.path("again.rnt");
        let mut command = reenact(stage, &["cut", "--force", "-q", "-o"]);
        run(command.arg(&again).arg(&out).args(*condition), 0)?;
        equal(&calls(stage, &again, &[])?, &wanted, &format!("{condition:?} twice"))?;
    }
    Ok(())
}

/// A part of any program's trace shows the same as the whole with the same conditions.
fn cut_program(stage: &Stage, who: Who, program: &Program) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let binary = program.build(stage)?;
    let trace = place.trace("program.rnt");
    let mut command = place.command(&stage.reenact);
    command.args(["record", "--quiet", "--output"]).arg(&trace).arg("--");
    // A program may exit with any status; other tests check it.
    place.run(command.arg(binary).arg("1").args(&program.args))?;
    for condition in [["--call", "%desc"], ["--since", "5ms"], ["--path", "/tmp/*"]] {
        let out = place.path("cut.rnt");
        run(reenact(stage, &["cut", "--force", "-o"]).arg(&out).arg(&trace).args(condition), 0)?;
        let wanted = calls(stage, &trace, &condition)?;
        equal(&calls(stage, &out, &[])?, &wanted, &format!("{condition:?}"))?;
    }
    Ok(())
}

fn pids(calls: &[Value]) -> BTreeMap<u64, usize> {
    let mut pids = BTreeMap::new();
    for pid in calls.iter().filter_map(|call| call["pid"].as_u64()) {
        *pids.entry(pid).or_default() += 1;
    }
    pids
}

/// With context, a part has what a replay needs.
fn cut_with_context(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = record(stage, &place, "work.rnt")?;
    let out = place.path("cut.rnt");
    let mut command = reenact(stage, &["cut", "--context", "--call", "%write", "-o"]);
    run(command.arg(&out).arg(&trace), 0)?;
    sound(stage, &out, "cut")?;
    let wanted = calls(stage, &trace, &["--call", "%write"])?;
    equal(&calls(stage, &out, &["--call", "%write"])?, &wanted, "writes")?;
    let opens = calls(stage, &trace, &["--call", "openat"])?;
    let succeeded = opens.iter().filter(|open| open["errno"].is_null()).count();
    let kept = calls(stage, &out, &["--call", "openat"])?.len();
    ensure!(kept == succeeded, "{kept} of {succeeded} opens are there");
    Ok(())
}

/// A part can be replayed if it has the beginning, or if it has all about some files by context.
fn cut_replays(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = record(stage, &place, "work.rnt")?;
    let all = calls(stage, &trace, &[])?;
    let middle = format!("{}ns", all[all.len() / 2]["enter_ns"]);
    for conditions in [&["--until", &middle][..], &["--context", "--path", "*/one/*"]] {
        let out = place.trace("cut.rnt");
        let mut cut = place.command(&stage.reenact);
        cut.args(["cut", "--force", "-o"]).arg(&out).arg(&trace).args(conditions);
        place.run(&mut cut)?.success("cut")?;
        let replayed = place.run(place.command(&stage.reenact).arg("replay").arg(&out))?;
        replayed.success(&format!("replay of {conditions:?}"))?;
    }
    Ok(())
}

/// The parent waits for the exec in its child, which closes the pipe between them.
fn cut_replays_exec(stage: &Stage, who: Who) -> Result<(), Complaint> {
    const WORK: &str = "import subprocess; subprocess.run(['/bin/true'], close_fds=False)";
    let place = Place::new(stage, who)?;
    let (trace, out) = (place.trace("parent.rnt"), place.trace("cut.rnt"));
    let mut record = place.command(&stage.reenact);
    record.args(["record", "--quiet", "--output"]).arg(&trace);
    place.run(record.args(["--", "/usr/bin/python3", "-ISB", "-c", WORK]))?.success("the work")?;
    let all = calls(stage, &trace, &[])?;
    let parent = &all[0]["pid"];
    let mut cut = place.command(&stage.reenact);
    cut.args(["cut", "--context", "--pid", &parent.to_string(), "-o"]).arg(&out).arg(&trace);
    place.run(&mut cut)?.success("cut")?;
    let of_others = |call: &&Value| call["pid"] != *parent;
    let kept = calls(stage, &out, &[])?;
    let kept: Vec<&str> =
        kept.iter().filter(of_others).filter_map(|c| c["call"].as_str()).collect();
    ensure!(kept.contains(&"execve") && kept.contains(&"exit_group"), "kept {kept:?}");
    place.run(place.command(&stage.reenact).arg("replay").arg(&out))?.success("replay")?;
    Ok(())
}

fn cut_refuses(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = record(stage, &place, "work.rnt")?;
    let out = place.path("cut.rnt");
    let cut = || {
        let mut command = reenact(stage, &["cut", "-o"]);
        command.arg(&out).arg(&trace);
        command
    };
    let said = run(&mut cut(), 2)?;
    ensure!(said.contains("--since") && !out.exists(), "it said {said}");
    run(cut().arg("--failed"), 0)?;
    run(cut().arg("--failed"), 1)?;
    let before = fs::read(&trace).map_err(|error| error.to_string())?;
    let mut onto_itself = reenact(stage, &["cut", "--failed", "--force", "-o"]);
    run(onto_itself.arg(&trace).arg(&trace), 1)?;
    ensure!(fs::read(&trace).is_ok_and(|after| after == before), "the trace was replaced");
    let said = run(reenact(stage, &["repair", "-o"]).arg(place.path("x")).arg(&trace), 1)?;
    ensure!(said.contains("nothing to repair"), "it said {said}");
    Ok(())
}

/// Writes these bytes to a trace and repairs it.
fn repaired(stage: &Stage, place: &Place, bytes: &[u8]) -> Result<PathBuf, Complaint> {
    let (broken, out) = (place.path("broken.rnt"), place.path("repaired.rnt"));
    fs::write(&broken, bytes).map_err(|error| error.to_string())?;
    run(reenact(stage, &["repair", "--force", "-o"]).arg(&out).arg(&broken), 0)?;
    sound(stage, &out, "repaired")?;
    Ok(out)
}

fn repair_truncated(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = record(stage, &place, "work.rnt")?;
    let bytes = fs::read(&trace).map_err(|error| error.to_string())?;
    let mut random = Random(tier::seed());
    let all = calls(stage, &trace, &[])?;
    for round in 0..tier::rounds(6, 100) {
        let len = match round {
            // The first round cuts off only the last byte.
            0 => bytes.len() - 1,
            _ => bytes.len() / 4 + random.below(bytes.len() as u64 * 3 / 4) as usize,
        };
        let out = repaired(stage, &place, &bytes[..len])?;
        // The kept calls are a prefix of each process's calls.
        let kept = calls(stage, &out, &["--data", "none"])?;
        let mut left = pids(&all);
        for call in &kept {
            let pid = call["pid"].as_u64().unwrap_or_default();
            let left = left.get_mut(&pid).ok_or_else(|| format!("{len} bytes: pid {pid}"))?;
            *left = left.checked_sub(1).ok_or_else(|| format!("{len} bytes: too many calls"))?;
        }
        ensure!(round > 0 || kept.len() == all.len(), "calls are lost with the last byte");
    }
    Ok(())
}

fn repair_damaged(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = record(stage, &place, "work.rnt")?;
    let bytes = fs::read(&trace).map_err(|error| error.to_string())?;
    let mut random = Random(tier::seed());
    for _ in 0..tier::rounds(6, 100) {
        let mut damaged = bytes.clone();
        // Nothing can be read without the preamble.
        let at = 5000 + random.below(bytes.len() as u64 - 5000) as usize;
        damaged[at] ^= 1 << random.below(8);
        repaired(stage, &place, &damaged)?;
    }
    Ok(())
}

/// Merges two recordings made at the same time.
fn merge(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let (first, second) = (Place::new(stage, who)?, Place::new(stage, who)?);
    let traces = std::thread::scope(|scope| -> Result<_, Complaint> {
        let other = scope.spawn(|| record(stage, &second, "second.rnt"));
        let traces = [record(stage, &first, "first.rnt")?, other.join().map_err(|_| "panic")??];
        Ok(traces)
    })?;
    let out = first.path("merged.rnt");
    run(reenact(stage, &["merge", "-o"]).arg(&out).args(&traces), 0)?;
    run(reenact(stage, &["info", "--verify"]).arg(&out), 0)?;
    let merged = calls(stage, &out, &[])?;
    let mut last = 0;
    for call in &merged {
        let at = call["enter_ns"].as_u64().ok_or("a call without a time")?;
        ensure!(at >= last, "back in time: {call}");
        last = at;
    }
    // Each part is unchanged, except for the start of the clock.
    for trace in &traces {
        let wanted = calls(stage, trace, &[])?;
        let of = pids(&wanted);
        let mine = |call: &&Value| call["pid"].as_u64().is_some_and(|pid| of.contains_key(&pid));
        let mut found: Vec<Value> = merged.iter().filter(mine).cloned().collect();
        let begin = |call: &Value, key: &str| call[key].as_i64();
        let shift = begin(&wanted[0], "enter_ns").zip(begin(&found[0], "enter_ns"));
        let (wanted_ns, found_ns) = shift.ok_or("a call without a time")?;
        for call in &mut found {
            for key in ["enter_ns", "exit_ns"] {
                if let Some(ns) = begin(call, key) {
                    // Both times are rounded from the same counter.
                    let back = ns - found_ns + wanted_ns;
                    call[key] = back.into();
                }
            }
        }
        near(&found, &wanted)?;
    }
    run(reenact(stage, &["merge", "-o"]).arg(&out).args(&traces), 1)?;
    let part = first.path("part.rnt");
    run(reenact(stage, &["cut", "--call", "%file", "-o"]).arg(&part).arg(&traces[0]), 0)?;
    let twice = [&traces[0], &traces[1], &part];
    run(reenact(stage, &["merge", "-o"]).arg(first.path("twice.rnt")).args(twice), 1)?;
    run(reenact(stage, &["merge", "-o"]).arg(first.path("x")).arg(&traces[0]), 2)?;
    Ok(())
}

/// Compares calls; times may differ by rounding.
fn near(found: &[Value], wanted: &[Value]) -> Result<(), Complaint> {
    ensure!(found.len() == wanted.len(), "{} calls, not {}", found.len(), wanted.len());
    for (found, wanted) in found.iter().zip(wanted) {
        let mut found = found.clone();
        for key in ["enter_ns", "exit_ns", "user_ns"] {
            if wanted[key].is_null() {
                continue;
            }
            let apart = found[key].as_i64().unwrap_or(0) - wanted[key].as_i64().unwrap_or(0);
            // The first call's rounding counts too, and clocks measured separately differ a little.
            ensure!(apart.abs() < 100_000, "{key}: {found}\nwas\n{wanted}");
            found[key] = wanted[key].clone();
        }
        ensure!(found == *wanted, "{found}\nwas\n{wanted}");
    }
    Ok(())
}
