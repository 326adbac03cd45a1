//! A program or the recorder is killed amid stores to mapped files and operations of rings: what came
//! before a time is in the trace, and the trace says up to which.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use acceptance::place::{Place, Who};
use acceptance::program;
use acceptance::shown::base64;
use acceptance::stage::Stage;
use acceptance::{Complaint, ensure, trials};
use serde_json::Value;

fn main() -> ExitCode {
    trials::main(|trials| {
        let python = trials::missing(&["python3"]);
        for whose in ["program", "recorder"] {
            let stores = move |stage: &Stage, who| stores(stage, who, whose == "recorder");
            trials.add_for_both(&format!("stores/{whose}_killed"), python, stores);
        }
        trials.add_for_both("operations/program_killed", None, operations_of_killed);
        trials.add_for_both("operations/recorder_killed", None, operations_of_lost);
        Ok(())
    })
}

/// Clocks of the program and of the trace may differ by so much.
const TOLERANCE_NS: u64 = 20_000_000;

/// Stores its number to one page after the other, and writes down when it had. Then kills.
const STORES: &str = "\
import mmap, os, signal, struct, sys, time
os.setsid()
recorder = os.getppid()
fd = os.open('file', os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, 400 * 4096)
m = mmap.mmap(fd, 400 * 4096)
log = os.open('log', os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
for page in range(300):
    m[page * 4096:page * 4096 + 8] = struct.pack('<Q', page + 1)
    os.write(log, b'%d %d\\n' % (page, time.time_ns()))
    time.sleep(0.01)
if sys.argv[1] == 'program':
    os.kill(os.getpid(), signal.SIGKILL)
os.kill(recorder, signal.SIGKILL)
while os.getppid() == recorder: time.sleep(0.01)
m[399 * 4096] = 1
m.close()
os.rename('log', 'done')
";

fn info(stage: &Stage, place: &Place, trace: &str) -> Result<(String, Value), Complaint> {
    let of = |options: &[&str]| {
        let mut info = place.command(&stage.reenact);
        info.arg("info").args(options).arg(place.trace(trace));
        Ok::<_, Complaint>(place.run(&mut info)?.success("info")?.text())
    };
    let json = serde_json::from_str(&of(&["--json"])?).map_err(|error| error.to_string())?;
    Ok((of(&[])?, json))
}

fn shown(
    stage: &Stage,
    place: &Place,
    trace: &str,
    which: &[&str],
) -> Result<Vec<Value>, Complaint> {
    let mut show = place.command(&stage.reenact);
    show.args(["show", "--json"]).args(which).arg(place.trace(trace));
    let text = place.run(&mut show)?.success("show")?.text();
    let lines = text.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().map_err(|error| error.to_string())
}

fn wait_for(place: &Place, name: &str) -> Result<(), Complaint> {
    let limit = Instant::now() + Duration::from_secs(60);
    while !place.work().join(name).exists() && Instant::now() < limit {
        std::thread::sleep(Duration::from_millis(20));
    }
    ensure!(place.work().join(name).exists(), "the program did not end");
    Ok(())
}

fn stores(stage: &Stage, who: Who, of_recorder: bool) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let whose = if of_recorder { "recorder" } else { "program" };
    let mut record = place.command(&stage.reenact);
    record.args(["record", "--quiet", "--output"]).arg(place.trace("killed.rnt"));
    let python = ["/usr/bin/python3", "-S", "-c", STORES, whose];
    // One of the two ends by a signal.
    match of_recorder {
        true => place.run(record.arg("--").args(python))?,
        false => place.run(record.args(["--", "sh", "-c", "\"$@\"; true", "sh"]).args(python))?,
    };
    let log = if of_recorder { "done" } else { "log" };
    wait_for(&place, log)?;
    let (text, json) = info(stage, &place, "killed.rnt")?;
    ensure!(json["ended"] == !of_recorder, "{json}");
    let told = json["mapped_until"].as_array().map_or(&[][..], Vec::as_slice);
    let [told] = told else { return Err(format!("up to when? {json}")) };
    ensure!(told["why"] == if of_recorder { "recording-ended" } else { "killed" }, "{told}");
    ensure!(text.contains("up to        mapped files: stores of process "), "{text}");
    let number = |value: &Value| value.as_u64().or_else(|| value.as_str()?.parse().ok());
    let (Some(epoch), Some(until)) = (number(&json["epoch_ns"]), number(&told["time_ns"])) else {
        return Err(format!("no times: {json}"));
    };
    // All that the program had stored by then is there.
    let mut pages = vec![0u64; 400];
    let events = shown(stage, &place, "killed.rnt", &["--event", "mmap_write"])?;
    for event in &events {
        let bytes = base64(event["data"]["base64"].as_str().unwrap_or_default());
        let first = event["offset"].as_u64().unwrap_or(0) as usize / 4096;
        for (page, bytes) in bytes.unwrap_or_default().chunks(4096).enumerate() {
            let word = bytes.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
            pages[first + page] = pages[first + page].max(word);
        }
    }
    let log = std::fs::read_to_string(place.work().join(log)).map_err(|e| e.to_string())?;
    let (mut before, mut after) = (0, 0);
    for line in log.lines() {
        let (page, time) = line.split_once(' ').ok_or("a line without a time")?;
        let page: u64 = page.parse().map_err(|_| line.to_owned())?;
        let time: u64 = time.parse().map_err(|_| line.to_owned())?;
        if time + TOLERANCE_NS > epoch + until {
            after += 1;
            continue;
        }
        before += 1;
        ensure!(pages[page as usize] == page + 1, "page {page} is missing, {told}");
    }
    ensure!(before > 50, "{before} stores before {told}, {after} since");
    Ok(())
}

/// Returns whether this user may create rings.
fn has_rings() -> bool {
    let disabled = std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled");
    disabled.is_ok_and(|disabled| disabled.trim() == "0")
}

fn operations_of_killed(stage: &Stage, who: Who) -> Result<(), Complaint> {
    if !has_rings() {
        return Ok(());
    }
    let place = Place::new(stage, who)?;
    let binary = program::named("killed_with_operations")?.build(stage)?;
    let mut record = place.command(&stage.reenact);
    record.args(["record", "--quiet", "--output"]).arg(place.trace("ring.rnt")).arg("--");
    place.run(record.arg(binary).arg("1"))?.success("record")?;
    let (text, json) = info(stage, &place, "ring.rnt")?;
    let under_way = &json["operations_under_way"];
    ensure!(under_way["count"] == 1 && under_way["since_ns"].as_u64() > Some(0), "{json}");
    ensure!(text.contains("operations: 1 were under way, the first since "), "{text}");
    ensure!(json["operations_missing"].is_null(), "{json}");
    let reads = shown(stage, &place, "ring.rnt", &["--call", "io_uring:READ"])?;
    ensure!(reads.len() == 1 && reads[0]["ret"].is_null(), "{reads:?}");
    let writes = shown(stage, &place, "ring.rnt", &["--call", "io_uring:WRITE"])?;
    ensure!(writes.len() == 1 && writes[0]["ret"] == 4096, "{writes:?}");
    Ok(())
}

fn operations_of_lost(stage: &Stage, who: Who) -> Result<(), Complaint> {
    if !has_rings() {
        return Ok(());
    }
    let place = Place::new(stage, who)?;
    let binary = program::named("killed_with_operations")?.build(stage)?;
    let mut record = place.command(&stage.reenact);
    record.args(["record", "--quiet", "--output"]).arg(place.trace("ring.rnt")).arg("--");
    // It ends by a signal.
    place.run(record.arg(binary).args(["1", "recorder"]))?;
    wait_for(&place, "done")?;
    let (text, json) = info(stage, &place, "ring.rnt")?;
    ensure!(json["ended"] == false && json["operations_missing"] == 1, "{json}");
    ensure!(text.contains("operations: 1 that were submitted are not there"), "{text}");
    let writes = shown(stage, &place, "ring.rnt", &["--call", "io_uring:WRITE"])?;
    ensure!(writes.len() == 1 && writes[0]["ret"] == 4096, "{writes:?}");
    Ok(())
}
