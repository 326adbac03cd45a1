//! `reenact export --to fio`: the logs have the accesses of `show --json`, and fio replays them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use acceptance::place::{Place, Who};
use acceptance::stage::Stage;
use acceptance::{Complaint, ensure, shown, trials};
use serde_json::Value;

/// Two concurrent processes, one of them with two threads, that read, write and sync, at the
/// current position and at others.
const WORK: &str = r#"
import os, threading
def write(name, rounds):
    fd = os.open(name, os.O_RDWR | os.O_CREAT, 0o600)
    for i in range(rounds):
        os.write(fd, bytes(100 + i))
        os.pwrite(fd, bytes(4096), i % 7 * 4096)
        os.fdatasync(fd) if i % 10 == 0 else None
    os.lseek(fd, 50, os.SEEK_SET)
    while os.read(fd, 3000):
        pass
    os.fsync(fd)
    os.close(fd)
with open("given", "rb", buffering=0) as given:
    given.read(1000)
    os.pread(given.fileno(), 500, 60000)
child = os.fork()
if child == 0:
    write("of the child: %x", 40)
    os._exit(0)
threads = [threading.Thread(target=write, args=(f"thread {n}", 60)) for n in range(2)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
os.waitpid(child, 0)
"#;

fn main() -> ExitCode {
    trials::main(|trials| {
        let missing = trials::missing(&["fio", "python3"]);
        trials.add("replays", Who::User, missing, replays);
        Ok(())
    })
}

/// Number of accesses, and of bytes in them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Count {
    times: u64,
    bytes: u64,
}

impl Count {
    fn add(&mut self, bytes: u64) {
        self.times += 1;
        self.bytes += bytes;
    }
}

fn replays(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    place.write("given", &vec![7; 64 << 10])?;
    let trace = place.trace("work.rnt");
    let mut record = place.command(&stage.reenact);
    record.args(["record", "--quiet", "--output"]).arg(&trace);
    record.args(["--", "/usr/bin/python3", "-ISB", "-c", WORK]);
    place.run(&mut record)?.success("the work")?;
    let work = place.work().to_string_lossy().into_owned();
    let only = format!("{work}/*");

    let out = place.trace("fio");
    let mut export = place.command(&stage.reenact);
    export.arg("export").arg(&trace).args(["--to", "fio", "--path", &only, "-o"]).arg(&out);
    place.run(&mut export)?.success("export")?;
    let again = place.run(&mut export)?;
    ensure!(again.status.code() == Some(1), "it wrote over what was there: {}", again.errors());

    let wanted = accesses(stage, &trace, &only)?;
    let logged = logged(&out)?;
    ensure!(logged == wanted, "the logs have {logged:?}, the calls are {wanted:?}");
    let jobs = count_jobs(&out)?;
    ensure!(jobs >= 3, "three threads that run at the same time have {jobs} jobs");

    let mut prepare = place.command("fio");
    place.run(prepare.arg("prepare.fio").current_dir(&out))?.success("fio prepare.fio")?;
    let mut replay = place.command("fio");
    replay.args(["replay.fio", "--output-format=json", "--output=result.json"]);
    place.run(replay.current_dir(&out))?.success("fio replay.fio")?;
    let replayed = replayed(&out.join("result.json"))?;
    for way in ["read", "write"] {
        let (found, wanted) = (replayed[way], wanted.get(way).copied().unwrap_or_default());
        ensure!(found == wanted, "fio made {found:?} of {way}, recorded were {wanted:?}");
    }
    Ok(())
}

/// Counts the accesses to file data in a trace.
fn accesses(stage: &Stage, trace: &Path, only: &str) -> Result<BTreeMap<String, Count>, Complaint> {
    let mut counts: BTreeMap<String, Count> = BTreeMap::new();
    shown::show(stage, trace, &["--data", "none", "--path", only], |event| {
        let bytes = event["ret"].as_u64().unwrap_or(0);
        match event["call"].as_str().unwrap_or_default() {
            "read" | "pread64" if bytes > 0 => counts.entry("read".into()).or_default().add(bytes),
            "write" | "pwrite64" => counts.entry("write".into()).or_default().add(bytes),
            "fsync" => counts.entry("sync".into()).or_default().add(0),
            "fdatasync" => counts.entry("datasync".into()).or_default().add(0),
            _ => {}
        }
        Ok(())
    })?;
    Ok(counts)
}

/// Counts the accesses in the logs. The times in each log must ascend.
fn logged(out: &Path) -> Result<BTreeMap<String, Count>, Complaint> {
    let mut counts: BTreeMap<String, Count> = BTreeMap::new();
    for entry in fs::read_dir(out).map_err(|error| error.to_string())? {
        let path = entry.map_err(|error| error.to_string())?.path();
        if path.extension().is_none_or(|extension| extension != "log") {
            continue;
        }
        let text = fs::read_to_string(&path).map_err(|error| error.to_string())?;
        let mut lines = text.lines();
        ensure!(lines.next() == Some("fio version 3 iolog"), "{path:?}: another format");
        let mut last_us = 0;
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
            let us = number(0).ok_or_else(|| format!("{path:?}: {line}"))?;
            ensure!(us >= last_us, "{path:?}: back in time: {line}");
            last_us = us;
            if let (Some(action), Some(bytes)) = (words.get(2), number(4)) {
                counts.entry(action.to_string()).or_default().add(bytes);
            }
        }
    }
    Ok(counts)
}

fn count_jobs(out: &Path) -> Result<usize, Complaint> {
    let text = fs::read_to_string(out.join("replay.fio")).map_err(|error| error.to_string())?;
    Ok(text.lines().filter(|line| line.starts_with("[job-")).count())
}

/// Counts the accesses that fio reports.
fn replayed(result: &Path) -> Result<BTreeMap<&'static str, Count>, Complaint> {
    let text = fs::read_to_string(result).map_err(|error| error.to_string())?;
    let json: Value = serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))?;
    let mut counts = BTreeMap::from([("read", Count::default()), ("write", Count::default())]);
    for job in json["jobs"].as_array().ok_or("fio tells of no jobs")? {
        ensure!(job["error"] == 0, "fio failed: {job}");
        for (way, count) in &mut counts {
            count.times += job[way]["total_ios"].as_u64().unwrap_or(0);
            count.bytes += job[way]["io_bytes"].as_u64().unwrap_or(0);
        }
    }
    Ok(counts)
}
