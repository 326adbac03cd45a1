//! What changed between two recordings: `reenact diff` agrees with `reenact stat` of each, names what a
//! version of a program does otherwise, and tells chance from change.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use acceptance::place::{Place, Who};
use acceptance::stage::Stage;
use acceptance::{Complaint, ensure, trials};
use serde_json::Value;

/// Exit code of `diff --exit-code` for runs that did not do the same.
const DIFFERENT: i32 = 4;

fn main() -> ExitCode {
    trials::main(|trials| {
        let python = trials::missing(&["python3"]);
        trials.add_for_both("one_more_sync", python, one_more_sync);
        trials.add_for_both("agrees_with_stat", None, agrees_with_stat);
        trials.add_for_both("names_by_chance", None, names_by_chance);
        let tools = trials::missing(&["gzip", "grep", "seq"]);
        trials.add_for_both("programs_started", tools, programs_started);
        let tools = trials::missing(&["bash", "cat"]);
        trials.add_for_both("behind_a_wrapper", tools, behind_a_wrapper);
        let tools = trials::missing(&["unshare", "python3"]);
        trials.add("ids_of_other_lengths", Who::Root, tools, ids_of_other_lengths);
        let tools = trials::missing(&["env", "sleep"]);
        trials.add_for_both("script_by_another_name", tools, script_by_another_name);
        trials.add_for_both("several_runs", None, several_runs);
        trials.add_for_both("command_line", None, command_line);
        trials.add_for_both("repeated", None, repeated);
        Ok(())
    })
}

fn record(stage: &Stage, place: &Place, name: &str, words: &[&str]) -> Result<PathBuf, Complaint> {
    let trace = place.trace(name);
    let mut command = place.command(&stage.reenact);
    command.args(["record", "--quiet", "--force", "--output"]).arg(&trace).arg("--").args(words);
    place.run(&mut command)?.success("record")?;
    Ok(trace)
}

fn json(stage: &Stage, place: &Place, words: &[&str]) -> Result<Value, Complaint> {
    let mut command = place.command(&stage.reenact);
    command.args(words).arg("--json");
    let text = place.run(&mut command)?.success(words[0])?.text();
    serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))
}

fn name(path: &Path) -> &str {
    path.to_str().expect("traces have plain names")
}

fn rows<'a>(value: &'a Value, table: &str) -> &'a [Value] {
    value[table].as_array().map_or(&[], Vec::as_slice)
}

fn row<'a>(value: &'a Value, table: &str, key: &str, wanted: &str) -> Result<&'a Value, Complaint> {
    let found = rows(value, table).iter().find(|row| row[key] == wanted);
    found.ok_or_else(|| format!("{table} has no {wanted}: {}", value[table]))
}

const WRITER: &str = "\
import os, sys
f = os.open('out', os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
for n in range(20):
    os.write(f, b'x' * 4096)
    if n in map(int, sys.argv[1].split(',')):
        os.fsync(f)
try:
    os.stat('missing' + sys.argv[2])
except OSError:
    pass
if sys.argv[2] == 'b':
    open('new', 'w').write('new')
    try:
        os.mkdir('out')
    except OSError:
        pass
";

/// A program that syncs once more, makes a file and fails at something new.
fn one_more_sync(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    place.write("writer.py", WRITER.as_bytes())?;
    // The same name and number of arguments, so that Python does the same until it runs the script.
    let run = |trace: &str, syncs: &str, version: &str| {
        let words = ["/usr/bin/python3", "-S", "-B", "writer.py", syncs, version];
        record(stage, &place, trace, &words)
    };
    run("first.rnt", "9,20", "a")?;
    place.clear()?;
    place.write("writer.py", WRITER.as_bytes())?;
    let a = run("a.rnt", "9,20", "a")?;
    std::fs::remove_file(place.work().join("out")).map_err(|error| error.to_string())?;
    let b = run("b.rnt", "9,11", "b")?;
    let found = json(stage, &place, &["diff", name(&a), name(&b)])?;
    let sync = row(&found, "calls", "call", "fsync")?;
    ensure!((sync["a_count"] == 1) && (sync["b_count"] == 2) && (sync["b_syncs"] == 2), "{sync}");
    let work = place.work();
    let path = |name: &str| work.join(name).to_string_lossy().into_owned();
    let new: Vec<&Value> = rows(&found, "new_files").iter().map(|row| &row["file"]).collect();
    ensure!(new == [&Value::from(path("new"))], "{new:?}");
    ensure!(rows(&found, "gone_files").is_empty(), "{}", found["gone_files"]);
    let errors = rows(&found, "errors");
    let new: Vec<&Value> = errors.iter().filter(|row| row["state"] == "new").collect();
    ensure!(new.len() == 1 && new[0]["errno"] == "EEXIST", "{errors:?}");
    ensure!(new[0]["path"] == path("out"), "{new:?}");
    // They part where the second one syncs and the first one writes. How much memory Python asks for is
    // chance.
    let found = json(stage, &place, &["diff", name(&a), name(&b), "--call=!%memory"])?;
    let parting = rows(&found, "parting");
    let calls =
        |side: &str| -> Vec<&Value> { parting.iter().filter(|row| row["side"] == side).collect() };
    let [before, after_a, after_b] = ["both", "A", "B"].map(calls);
    let begins = |row: Option<&&Value>, text: &str| {
        row.is_some_and(|row| row["call"].as_str().is_some_and(|call| call.starts_with(text)))
    };
    ensure!(begins(before.last(), "write("), "{parting:?}");
    ensure!(begins(after_a.first(), "write(") && begins(after_b.first(), "fsync("), "{parting:?}");
    // The number is that of the call.
    let seq = after_b[0]["b_seq"].as_u64().ok_or("no number")?;
    let mut show = place.command(&stage.reenact);
    let show = place.run(show.args(["show", "--seq", "--call", "fsync"]).arg(&b))?.text();
    let last = show.lines().last().unwrap_or_default();
    ensure!(last.trim_start().starts_with(&format!("{seq} ")), "{seq} is not the last of {show}");
    // A name that a user calls the same is none that is new.
    let option = "--same=missinga=missingb";
    let found = json(stage, &place, &["diff", name(&a), name(&b), option])?;
    let missing = row(&found, "files", "file", &path("missingb"))?;
    ensure!(missing["a_errors"] == 1 && missing["b_errors"] == 1, "{missing}");
    Ok(())
}

/// All that is told of each side is what `stat` tells of its recording, and parts sum up to the run.
fn agrees_with_stat(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let script = |more: &str| {
        format!("for n in 1 2 3; do echo $n > f$n; cat f$n; done | sort -r; ls missing; {more}")
    };
    let a = record_any(stage, &place, "a.rnt", &script(""))?;
    let b = record_any(stage, &place, "b.rnt", &script("cp f1 f4; sync f4; cat f4 f4"))?;
    let found = json(stage, &place, &["diff", name(&a), name(&b)])?;
    for (side, trace) in [("a", &a), ("b", &b)] {
        let stat = json(stage, &place, &["stat", "calls", name(trace)])?;
        let of = |row: &Value, key: &str| row[format!("{side}_{key}")].as_u64().unwrap_or(u64::MAX);
        ensure!(found[format!("{side}_ns")] == stat["run_ns"], "{}", found[format!("{side}_ns")]);
        // Calls of which none returned have no times.
        let of_none = |of_stat: &Value| of_stat["total_ns"].is_null();
        let mut seen = 0;
        for call in rows(&found, "calls") {
            let of_stat = rows(&stat, "calls").iter().find(|row| row["call"] == call["call"]);
            let Some(of_stat) = of_stat else {
                ensure!(of(call, "count") == 0, "{call}");
                continue;
            };
            seen += 1;
            for (key, in_stat) in [
                ("count", "count"),
                ("errors", "errors"),
                ("bytes", "bytes"),
                ("in_calls_ns", "total_ns"),
                ("p50_ns", "p50_ns"),
                ("p90_ns", "p90_ns"),
                ("p99_ns", "p99_ns"),
                ("max_ns", "max_ns"),
            ] {
                ensure!(
                    call[format!("{side}_{key}")] == of_stat[in_stat] || of_none(of_stat),
                    "{key}: {call} {of_stat}"
                );
            }
        }
        ensure!(
            seen == rows(&stat, "calls").len(),
            "{seen} calls of {}",
            rows(&stat, "calls").len()
        );
        let files = json(stage, &place, &["stat", "files", name(trace)])?;
        for file in rows(&found, "files").iter().filter(|row| of(row, "count") > 0) {
            let of_stat = rows(&files, "files").iter().find(|row| row["path"] == file["file"]);
            let Some(of_stat) = of_stat else { continue };
            ensure!(
                Some(of(file, "in_calls_ns")) == of_stat["time_ns"].as_u64(),
                "{file} {of_stat}"
            );
            ensure!(Some(of(file, "errors")) == of_stat["errors"].as_u64(), "{file} {of_stat}");
        }
        // Each part is rounded to a nanosecond.
        let sum =
            |table: &str| -> u64 { rows(&found, table).iter().map(|row| of(row, "ns")).sum() };
        let run = stat["run_ns"].as_u64().unwrap_or(0);
        let programs = sum("programs");
        ensure!(programs.abs_diff(run) <= 100, "programs {programs}, run {run}");
        let outside = row(&found, "activities", "key", "outside")?;
        let all = sum("calls") + of(outside, "ns");
        ensure!(all.abs_diff(run) <= 200, "calls and outside {all}, run {run}");
    }
    let program = row(&found, "programs", "program", "cp")?;
    ensure!(program["state"] == "new" && program["a_count"] == 0, "{program}");
    // Of a part, numbers are those of the part.
    let part = json(stage, &place, &["diff", name(&a), name(&b), "--call", "openat"])?;
    ensure!(rows(&part, "calls").len() == 1 && rows(&part, "activities").is_empty(), "{part}");
    let whole = row(&found, "calls", "call", "openat")?;
    ensure!(part["calls"][0]["b_count"] == whole["b_count"], "{part}");
    // By place in the program.
    let sites = json(stage, &place, &["diff", name(&a), name(&b), "--by", "site"])?;
    let count = |key: &str| -> u64 {
        let opens = rows(&sites, "sites").iter();
        let opens =
            opens.filter(|row| row["site"].as_str().is_some_and(|s| s.starts_with("openat ")));
        opens.map(|row| row[key].as_u64().unwrap_or(0)).sum()
    };
    ensure!(Some(count("b_count")) == whole["b_count"].as_u64(), "{sites}");
    Ok(())
}

/// Records a shell that may fail.
fn record_any(
    stage: &Stage,
    place: &Place,
    name: &str,
    script: &str,
) -> Result<PathBuf, Complaint> {
    record(stage, place, name, &["sh", "-c", &format!("{script}\ntrue")])
}

/// Files whose names differ by chance are the same, others are not.
fn names_by_chance(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    // mktemp asks for random numbers until it likes them, and who waits for two processes does so once or twice:
    // their calls differ.
    let script = "\
read -r random < /proc/sys/kernel/random/uuid
f=/tmp/tmp.${random%%-*}Ab1
echo x > $f
rm $f
echo x > log.$$
cat /proc/$$/comm - > /dev/null <<END
through a pipe
END
";
    // A directory that is listed is to hold the same.
    let run = |trace: &str| {
        place.clear()?;
        record(stage, &place, trace, &["sh", "-c", script])
    };
    run("first.rnt")?;
    let (a, b) = (run("a.rnt")?, run("b.rnt")?);
    let found = json(stage, &place, &["diff", name(&a), name(&b)])?;
    let names = |table: &str| -> Vec<&str> {
        rows(&found, table).iter().filter_map(|row| row["file"].as_str()).collect()
    };
    ensure!(
        names("new_files").is_empty() && names("gone_files").is_empty(),
        "{} {}",
        found["new_files"],
        found["gone_files"]
    );
    let files = names("files");
    ensure!(
        files.contains(&"/tmp/tmp.*") && files.contains(&"./log.*") && files.contains(&"pipe:[*]"),
        "{files:?}"
    );
    ensure!(found["same_work"] == "yes", "{}\n{files:?}", found["work"]);
    let order = found["order"].as_str().unwrap_or_default();
    ensure!(order.ends_with("in the same order."), "{order} {}", found["parting"]);
    Ok(())
}

/// Programs that are started more often, or with other arguments, are told, and are the cause of a change;
/// processes that come after them have their counterparts all the same.
fn programs_started(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let run = |trace: &str, words: &str, level: &str, more: &str| {
        place.clear()?;
        let script = format!(
            "seq 200000 > numbers; for word in {words}; do grep -q $word numbers; done; \
             gzip {level} -k numbers; rm -f numbers.gz; {more} cat numbers > copy; mkdir end"
        );
        record(stage, &place, trace, &["sh", "-c", &script, "x"])
    };
    let a = run("a.rnt", "77", "-1", "true;")?;
    let b = run("b.rnt", "77 88 1x 2x 3x 4x", "-9", "ls > list;")?;
    let found = json(stage, &place, &["diff", name(&a), name(&b)])?;
    let started = rows(&found, "started");
    let of = |program: &str, key: &str, value: &Value| {
        started.iter().find(|row| row["program"] == program && row[key] == *value).cloned()
    };
    let grep = of("grep", "change", &5.into()).ok_or_else(|| format!("{started:?}"))?;
    ensure!(grep["a_count"] == 1 && grep["b_count"] == 6, "{grep}");
    ensure!(grep["command"] == "grep -q 88 numbers", "{grep}");
    let gzip = of("gzip", "change", &0.into()).ok_or_else(|| format!("{started:?}"))?;
    ensure!(gzip["a_words"] == "-1" && gzip["b_words"] == "-9" && gzip["b_count"] == 1, "{gzip}");
    let ls = of("ls", "change", &1.into()).ok_or_else(|| format!("{started:?}"))?;
    ensure!(ls["a_count"] == 0, "{ls}");
    ensure!(started.iter().all(|row| row["program"] != "cat"), "{started:?}");
    let verdict = found["verdict"].as_str().unwrap_or_default();
    let causes =
        ["gzip, started with -9 instead of -1, took", "grep was started 6 times instead of once,"];
    ensure!(causes.iter().any(|cause| verdict.contains(cause)), "{verdict}");
    // The processes that part are named, and are the same program on both sides.
    let order = found["order"].as_str().unwrap_or_default();
    ensure!(order.contains("6 threads of B have no counterpart."), "{order}");
    for row in rows(&found, "partings").iter().chain(rows(&found, "parting")) {
        let program = row["program"].as_str().unwrap_or_default();
        ensure!(!["", "cat", "mkdir", "rm", "seq"].contains(&program), "{row}");
    }
    // What is said fits a narrow terminal and names the arguments there.
    let mut command = place.command(&stage.reenact);
    command.args(["diff", "--table", "started"]).args([&a, &b]);
    let text = place.run(&mut command)?.success("diff")?.text();
    ensure!(text.contains("Programs started otherwise") && text.contains("-9"), "{text}");
    Ok(())
}

/// A wrapper that asks many short programs before it starts the program itself does so the same each time,
/// whenever their ends and their output come; what the program does otherwise is found behind it.
fn behind_a_wrapper(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let run = |trace: &str, file: &str| {
        place.clear()?;
        let script = format!(
            "for n in $(seq 30); do v=$(echo \"$n\" | cat); w=$(cat /proc/$$/comm; echo x.$$); done\n\
             exec sh -c 'echo first > one; echo second > {file}'\n"
        );
        place.write("wrapper", script.as_bytes())?;
        record(stage, &place, trace, &["bash", "./wrapper"])
    };
    let [a, b, c] = [("a.rnt", "two"), ("b.rnt", "two"), ("c.rnt", "three")]
        .map(|(trace, file)| run(trace, file));
    let (a, b, c) = (a?, b?, c?);
    let found = json(stage, &place, &["diff", name(&a), name(&b)])?;
    let order = found["order"].as_str().unwrap_or_default();
    ensure!(order.contains("in the same order."), "{order} {}", found["parting"]);
    let found = json(stage, &place, &["diff", name(&a), name(&c)])?;
    let first = rows(&found, "parting").iter().find(|row| row["side"] == "A");
    let text = first.and_then(|row| row["call"].as_str()).unwrap_or_default();
    // The script itself has another size.
    let is_script = text.contains("/wrapper") && text.contains("read(");
    ensure!(text.contains("\"two\"") || is_script, "{}", found["parting"]);
    Ok(())
}

/// Processes write and read their ids, which have more digits in one run than in the other.
fn ids_of_other_lengths(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let run = |trace: &str, last_id: u32, word: &str| -> Result<PathBuf, Complaint> {
        place.clear()?;
        let script = format!(
            "import os; f = os.open('own', os.O_CREAT | os.O_RDWR); os.write(f, b'x.%d' % os.getpid()); \
             os.lseek(f, 0, os.SEEK_SET); os.read(f, 100); print('{word}')"
        );
        let inside = format!("echo {last_id} > /proc/sys/kernel/ns_last_pid && exec \"$@\"");
        let trace = place.trace(trace);
        let mut command = place.command(Path::new("unshare"));
        command.args(["--pid", "--fork", "--mount-proc", "sh", "-c", &inside, "sh"]);
        command.arg(&stage.reenact).args(["record", "--quiet", "--force", "--output"]);
        command.arg(&trace).args(["--", "/usr/bin/python3", "-S", "-c", &script]);
        place.run(&mut command)?.success("record")?;
        Ok(trace)
    };
    let (a, b) = (run("a.rnt", 200, "one")?, run("b.rnt", 12000, "one")?);
    let c = run("c.rnt", 12000, "first")?;
    let order = |other: &Path| -> Result<String, Complaint> {
        let found = json(stage, &place, &["diff", name(&a), name(other)])?;
        Ok(format!("{} {}", found["order"], found["parting"]))
    };
    let (of_same, of_other) = (order(&b)?, order(&c)?);
    ensure!(of_same.contains("in the same order."), "{of_same}");
    ensure!(of_other.contains("They part"), "{of_other}");
    Ok(())
}

/// Two versions of a script lie beside each other: that they are called otherwise is no cause, what they do
/// otherwise is.
fn script_by_another_name(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let run = |name: &str, seconds: &str| {
        place.write(name, format!("sleep {seconds}\n").as_bytes())?;
        let trace = format!("{name}.rnt");
        record(stage, &place, &trace, &["env", "LEVEL=1", "sh", &format!("./{name}")])
    };
    let (a, b) = (run("v1.sh", "0.01")?, run("v2.sh", "0.5")?);
    let found = json(stage, &place, &["diff", name(&a), name(&b)])?;
    let verdict = found["verdict"].as_str().unwrap_or_default();
    ensure!(verdict.contains("): clock_nanosleep took "), "{verdict}");
    ensure!(verdict.contains("; sleep, started with 0.5 instead of 0.01, took "), "{verdict}");
    ensure!(!verdict.contains(".sh"), "{verdict}");
    Ok(())
}

/// With several runs of each side there is a spread, and p tells chance from change.
fn several_runs(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let mut sides = [Vec::new(), Vec::new()];
    for number in 0..4 {
        for (side, sleep) in [(0, "0.01"), (1, "0.3")] {
            let trace = format!("{side}.{number}.rnt");
            sides[side].push(record(stage, &place, &trace, &["sleep", sleep])?);
        }
    }
    let [a, b] =
        sides.each_ref().map(|side| side.iter().map(|path| name(path)).collect::<Vec<_>>());
    let words = [&["diff"][..], &a, &["--"], &b].concat();
    let mut command = place.command(&stage.reenact);
    command.args(["diff", "--json"]).args(&words[1..]);
    let text = place.run(&mut command)?.success("diff")?.text();
    let found: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    // No run of the one is as short as any of the other: two of 70 choices are so far apart.
    let p = found["p"].as_f64().unwrap_or(1.0);
    ensure!((p - 2.0 / 70.0).abs() < 1e-5, "p is {p}: {}", found["chance"]);
    let sleep = row(&found, "calls", "call", "clock_nanosleep")?;
    let number = |key: &str| sleep[key].as_f64().unwrap_or(0.0);
    ensure!(
        number("a_least_ns") <= number("a_ns") && number("a_ns") <= number("a_most_ns"),
        "{sleep}"
    );
    ensure!(number("change_ns") > 250e6, "{sleep}");
    let verdict = found["verdict"].as_str().unwrap_or_default();
    ensure!(verdict.contains("clock_nanosleep took"), "{verdict}");
    ensure!(rows(&found, "runs").len() == 8 && rows(&found, "parting").is_empty(), "{found}");
    Ok(())
}

/// What the command says and how it ends.
fn command_line(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let a = record(stage, &place, "a.rnt", &["ls", "/"])?;
    let b = record(stage, &place, "b.rnt", &["cat", "/etc/passwd"])?;
    let run = |words: &[&str]| {
        let mut command = place.command(&stage.reenact);
        command.arg("diff").args(words);
        place.run(&mut command)
    };
    let text = run(&[name(&a), name(&b)])?.success("diff")?.text();
    ensure!(text.starts_with("B took "), "{text}");
    let second = text.lines().nth(1).unwrap_or_default();
    ensure!(second.starts_with("One run a side: whether that is chance is not known;"), "{text}");
    ensure!(text.contains("ls -> cat") || !text.contains("Programs"), "{text}");
    let different = run(&[name(&a), name(&b), "--exit-code"])?;
    ensure!(different.status.code() == Some(DIFFERENT), "{}", different.errors());
    run(&[name(&a), name(&a), "--exit-code"])?.success("diff of one recording")?;
    for (words, said) in [
        (&["missing.rnt"][..], "a second recording is missing"),
        (&["a", "b", "c"], "which of these are A"),
        (&["a", "--", "b", "--json"], "options come before"),
        (&["--same", "a", name(&a), name(&b)], "write OLD=NEW"),
        (&["--sort", "nothing", name(&a), name(&b)], "there are"),
    ] {
        let failed = run(words)?;
        ensure!(failed.status.code() == Some(2), "{words:?}: {}", failed.status);
        ensure!(failed.errors().contains(said), "{words:?}: {}", failed.errors());
    }
    // Without names: the latest recording here, and the one before it.
    for _ in 0..2 {
        let mut command = place.command(&stage.reenact);
        place.run(command.args(["record", "--quiet", "true"]))?.success("record")?;
    }
    let latest = run(&[])?.success("diff of the latest")?;
    ensure!(latest.errors().contains("A is true.rnt.old, B is true.rnt"), "{}", latest.errors());
    Ok(())
}

/// `record --repeat` makes several recordings, which end as the last run and when a signal comes.
fn repeated(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let record = |words: &[&str]| {
        let mut command = place.command(&stage.reenact);
        command.args(["record", "--repeat", "3"]).args(words);
        place.run(&mut command)
    };
    // What PROGRAM is given is not for us.
    let script = "echo $1 >> log; exit 3";
    let three = record(&["-o", "s.rnt", "--", "sh", "-c", script, "sh", "--repeat"])?;
    ensure!(three.status.code() == Some(3), "{}", three.status);
    let log = std::fs::read_to_string(place.work().join("log")).map_err(|e| e.to_string())?;
    ensure!(log == "--repeat\n".repeat(3), "{log}");
    ensure!(three.errors().contains("3 runs took "), "{}", three.errors());
    ensure!(three.errors().contains("reenact diff s.1.rnt s.2.rnt s.3.rnt"), "{}", three.errors());
    let mut diff = place.command(&stage.reenact);
    diff.args(["diff", "s.1.rnt", "s.2.rnt", "--", "s.3.rnt"]);
    place.run(&mut diff)?.success("diff")?;
    // A signal ends the run and the rest.
    let ended = record(&["-o", "k.rnt", "sh", "-c", "kill -TERM $$; sleep 60"])?;
    ensure!(ended.errors().contains("no more follow"), "{}", ended.errors());
    ensure!(!place.work().join("k.2.rnt").exists(), "a run came after the signal");
    // What cannot be started is not tried again.
    let none = record(&["./nothing"])?;
    ensure!(none.status.code() == Some(127), "{}", none.status);
    ensure!(none.errors().lines().count() == 1, "{}", none.errors());
    Ok(())
}
