//! What programs store to mapped files is in the trace: every page, once for each time that it was
//! stored to between two collections. A replay stores it again.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use acceptance::expectation::fnv;
use acceptance::place::{Place, Who};
use acceptance::program;
use acceptance::shown::base64;
use acceptance::stage::Stage;
use acceptance::{Complaint, ensure, trials};
use serde_json::Value;

fn main() -> ExitCode {
    trials::main(|trials| {
        trials.add_for_both("every_page_once", None, every_page_once);
        trials.add_for_both("moved", None, moved);
        trials.add_for_both("every_page_read", None, every_page_read);
        trials.add_for_both("touches_by_threads", None, touches_by_threads);
        trials.add_for_both("touches_by_looks", None, touches_by_looks);
        trials.add_for_both("not_wanted", None, not_wanted);
        trials.add_for_both("hashes", None, hashes);
        let python = trials::missing(&["python3"]);
        trials.add_for_both("killed", python, killed);
        trials.add_for_both("recorder_killed", python, recorder_killed);
        trials.add_for_both("while_all_wait", python, while_all_wait);
        trials.add_for_both("under_filters", None, under_filters);
        Ok(())
    })
}

const PAGE: usize = 4096;

/// Pages by file and offset, with what they held, and how often.
type Pages = BTreeMap<(String, u64, u64), u32>;

/// Returns the pages that the program says it stored or loaded.
fn said(output: &str, how: &str) -> Result<Pages, Complaint> {
    let mut pages = Pages::new();
    for line in output.lines().filter_map(|line| line.strip_prefix(how)) {
        let words: Vec<_> = line.split(' ').collect();
        let [file, offset, hash] = words[..] else { return Err(line.to_owned()) };
        let offset = offset.parse().map_err(|_| line.to_owned())?;
        let hash = u64::from_str_radix(hash, 16).map_err(|_| line.to_owned())?;
        *pages.entry((file.to_owned(), offset, hash)).or_default() += 1;
    }
    Ok(pages)
}

/// Returns the events of a kind that a trace shows.
fn events(stage: &Stage, place: &Place, trace: &str) -> Result<Vec<Value>, Complaint> {
    events_of(stage, place, trace, "mmap_write")
}

fn events_of(
    stage: &Stage,
    place: &Place,
    trace: &str,
    kind: &str,
) -> Result<Vec<Value>, Complaint> {
    let mut show = place.command(&stage.reenact);
    show.args(["show", "--json", "--event", kind]).arg(place.trace(trace));
    let shown = place.run(&mut show)?.success("show")?.text();
    let parsed = shown.lines().map(serde_json::from_str);
    parsed.collect::<Result<_, _>>().map_err(|error| error.to_string())
}

/// Returns the pages that are in a trace.
fn told(events: &[Value]) -> Result<Pages, Complaint> {
    let mut pages = Pages::new();
    for event in events {
        let bytes = base64(event["data"]["base64"].as_str().unwrap_or_default());
        let bytes = bytes.ok_or_else(|| event.to_string())?;
        let file = event["file"].as_str().and_then(|path| path.rsplit('/').next());
        let file = file.ok_or_else(|| event.to_string())?;
        let offset = event["offset"].as_u64().ok_or_else(|| event.to_string())?;
        ensure!(bytes.len() as u64 == event["length"], "{} bytes in {event}", bytes.len());
        ensure!(event["pid"].is_u64(), "no process: {event}");
        for (at, page) in (offset..).step_by(PAGE).zip(bytes.chunks(PAGE)) {
            *pages.entry((file.to_owned(), at, fnv(page))).or_default() += 1;
        }
    }
    Ok(pages)
}

fn record(
    stage: &Stage,
    place: &Place,
    options: &[&str],
    trace: &str,
) -> Result<String, Complaint> {
    record_of(stage, place, options, trace, "stores_to_mappings")
}

fn record_of(
    stage: &Stage,
    place: &Place,
    options: &[&str],
    trace: &str,
    name: &str,
) -> Result<String, Complaint> {
    let binary = program::named(name)?.build(stage)?;
    let mut record = place.command(&stage.reenact);
    record.args(["record", "--force", "--output"]).arg(place.trace(trace)).args(options);
    record.arg("--").arg(binary).arg("7");
    Ok(place.run(&mut record)?.success("record")?.text())
}

fn info(stage: &Stage, place: &Place, trace: &str) -> Result<Value, Complaint> {
    let mut info = place.command(&stage.reenact);
    let text = place.run(info.args(["info", "--json"]).arg(place.trace(trace)))?.success("info")?;
    serde_json::from_str(&text.text()).map_err(|error| error.to_string())
}

fn every_page_once(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let output = record(stage, &place, &["--mmap-every", "3600s"], "stores.rnt")?;
    let said = said(&output, "STORED ")?;
    let told = told(&events(stage, &place, "stores.rnt")?)?;
    let missing: Vec<_> = said.iter().filter(|(page, _)| !told.contains_key(*page)).collect();
    let surplus: Vec<_> = told.iter().filter(|(page, _)| !said.contains_key(*page)).collect();
    ensure!(said.len() > 80, "{} pages were stored", said.len());
    ensure!(said == told, "missing: {missing:?}\nsurplus: {surplus:?}");
    let info = info(stage, &place, "stores.rnt")?;
    let stores = info["blind"].to_string().contains("mapped-writes");
    ensure!(!stores && info["gaps"] == 0, "{info}");
    place.clear()?;
    let mut replay = place.command(&stage.reenact);
    let replay = replay.args(["replay", "--json"]).arg(place.trace("stores.rnt"));
    let json = place.run(replay)?.success("replay")?.text();
    let json: Value = serde_json::from_str(&json).map_err(|error| error.to_string())?;
    ensure!(json["final_state"]["verdict"] == "identical", "{json}");
    // Calls on replayed mappings are made and verified.
    for name in ["msync", "madvise", "mprotect", "mremap", "mincore"] {
        let made = &json["latencies_ns"][name]["replayed"]["count"];
        ensure!(made.as_u64() > Some(0), "no {name} was made: {json}");
    }
    // One of them moves a part of a mapping.
    ensure!(json["unverified"] == 1, "{json}");
    by_descriptors(stage, &place, "stores.rnt")
}

/// Mappings that are moved, copied, covered and shown from other pages on, partly while threads store.
fn moved(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let options = ["--mmap-every", "3600s"];
    let output = record_of(stage, &place, &options, "moved.rnt", "moved_mappings")?;
    let said = said(&output, "STORED ")?;
    let mut told = told(&events(stage, &place, "moved.rnt")?)?;
    // How often pages are collected that threads store to meanwhile is a matter of chance.
    told.retain(|(file, ..), _| file != "busy");
    let missing: Vec<_> = said.iter().filter(|(page, _)| !told.contains_key(*page)).collect();
    let surplus: Vec<_> = told.iter().filter(|(page, _)| !said.contains_key(*page)).collect();
    ensure!(said.len() > 30, "{} pages were stored", said.len());
    ensure!(said == told, "missing: {missing:?}\nsurplus: {surplus:?}");
    let info = info(stage, &place, "moved.rnt")?;
    ensure!(info["blind"].as_array().is_some_and(Vec::is_empty) && info["gaps"] == 0, "{info}");
    place.clear()?;
    let mut replay = place.command(&stage.reenact);
    let replay = replay.args(["replay", "--json"]).arg(place.trace("moved.rnt"));
    let json = place.run(replay)?.success("replay")?.text();
    let json: Value = serde_json::from_str(&json).map_err(|error| error.to_string())?;
    ensure!(json["final_state"]["verdict"] == "identical", "{json}");
    by_descriptors(stage, &place, "moved.rnt")
}

/// Replays once more, by descriptors as far as there are any.
fn by_descriptors(stage: &Stage, place: &Place, trace: &str) -> Result<(), Complaint> {
    let mut replay = place.command(&stage.reenact);
    let replay = replay.args(["replay", "--json", "--mmap", "emulate"]).arg(place.trace(trace));
    let json = place.run(replay)?.success("replay")?.text();
    let json: Value = serde_json::from_str(&json).map_err(|error| error.to_string())?;
    ensure!(json["final_state"]["verdict"] == "identical", "{json}");
    ensure!(json["mismatches"].as_u64().unwrap_or(0) == 0, "{json}");
    Ok(())
}

/// Pages that are read of mapped files, each when it is read for the first time.
fn every_page_read(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let options = ["--mmap", "all", "--mmap-every", "3600s"];
    let output = record_of(stage, &place, &options, "reads.rnt", "loads_of_mappings")?;
    let said = said(&output, "LOADED ")?;
    let mut told = told(&events_of(stage, &place, "reads.rnt", "mmap_read")?)?;
    // Libraries read files of their own.
    let of_program = |file: &str| said.keys().any(|(name, ..)| name == file);
    told.retain(|(file, ..), _| of_program(file));
    let missing: Vec<_> = said.iter().filter(|(page, _)| !told.contains_key(*page)).collect();
    let surplus: Vec<_> = told.iter().filter(|(page, _)| !said.contains_key(*page)).collect();
    ensure!(said.len() > 90, "{} pages were read", said.len());
    ensure!(said == told, "missing: {missing:?}\nsurplus: {surplus:?}");
    let info = info(stage, &place, "reads.rnt")?;
    ensure!(info["blind"].as_array().is_some_and(Vec::is_empty), "{info}");
    // The image has what was read, and it is read again.
    place.clear()?;
    let mut replay = place.command(&stage.reenact);
    let replay = replay.args(["replay", "--json"]).arg(place.trace("reads.rnt"));
    let json = place.run(replay)?.success("replay")?.text();
    let json: Value = serde_json::from_str(&json).map_err(|error| error.to_string())?;
    ensure!(json["final_state"]["verdict"] == "identical", "{json}");
    ensure!(json["unsupported_here"].as_object().is_some_and(|all| all.is_empty()), "{json}");
    by_descriptors(stage, &place, "reads.rnt")
}

/// Touches of pages: `read` or `stored`, and the page.
type Touches = BTreeSet<(String, u64)>;

fn touches(output: &str) -> Result<Touches, Complaint> {
    let mut touches = Touches::new();
    for line in output.lines().filter_map(|line| line.strip_prefix("TOUCHED ")) {
        let words: Vec<_> = line.split(' ').collect();
        let [how, page] = words[..] else { return Err(line.to_owned()) };
        touches.insert((how.to_owned(), page.parse().map_err(|_| line.to_owned())?));
    }
    ensure!(touches.len() == 64, "{} touches in {output}", touches.len());
    Ok(touches)
}

/// Returns the events of touches of these pages, each of one page or several.
fn touched(
    stage: &Stage,
    place: &Place,
    trace: &str,
    touches: &Touches,
) -> Result<BTreeMap<(String, u64), Value>, Complaint> {
    let mut found = BTreeMap::new();
    for (kind, how) in [("mmap_read", "read"), ("mmap_write", "stored")] {
        for event in events_of(stage, place, trace, kind)? {
            if event["file"].as_str().is_none_or(|file| !file.ends_with(how)) {
                continue;
            }
            let (offset, length) = (event["offset"].as_u64(), event["length"].as_u64());
            let (Some(offset), Some(length)) = (offset, length) else {
                return Err(event.to_string());
            };
            for page in offset / PAGE as u64..(offset + length) / PAGE as u64 {
                let before = found.insert((how.to_owned(), page), event.clone());
                ensure!(before.is_none(), "page {page} twice: {event}");
            }
        }
    }
    let missing: Vec<_> = touches.iter().filter(|page| !found.contains_key(*page)).collect();
    ensure!(missing.is_empty() && found.len() == touches.len(), "missing: {missing:?}");
    Ok(found)
}

/// Each touch of a page lies between the calls around it, and names its thread.
fn touches_by_threads(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let options = ["--mmap", "all", "--mmap-every", "3600s"];
    let output = record_of(stage, &place, &options, "touches.rnt", "touches_by_threads")?;
    let touches = touches(&output)?;
    let info = info(stage, &place, "touches.rnt")?;
    let times = &info["mapped_times"];
    if times["by_looks"] != 0 {
        // Not allowed here: that is said.
        ensure!(times["why"].as_array().is_some_and(|why| !why.is_empty()), "{info}");
        return touched(stage, &place, "touches.rnt", &touches).map(|_| ());
    }
    ensure!(times["by_faults"] == 1 && times["lost"] == 0, "{info}");
    let mut show = place.command(&stage.reenact);
    show.args(["show", "--json", "--call", "lseek"]).arg(place.trace("touches.rnt"));
    let shown = place.run(&mut show)?.success("show")?.text();
    let mut marks = BTreeMap::new();
    for line in shown.lines() {
        let call: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let times = (call["enter_ns"].as_u64(), call["exit_ns"].as_u64());
        if let (Some(ret), (Some(enter), Some(exit))) = (call["ret"].as_u64(), times) {
            marks.insert(ret, (enter, exit, call["tid"].clone()));
        }
    }
    for (of, event) in touched(stage, &place, "touches.rnt", &touches)? {
        let (how, page) = &of;
        let at = page * PAGE as u64 + if how == "stored" { 32 * PAGE as u64 } else { 0 };
        let (Some((_, from, tid)), Some((to, ..))) =
            (marks.get(&((1 << 20) + at)), marks.get(&((2 << 20) + at)))
        else {
            return Err(format!("no calls around {of:?}: {marks:?}"));
        };
        let since = event["since_ns"].as_u64().ok_or_else(|| event.to_string())?;
        ensure!((*from..=*to).contains(&since), "{of:?} not in {from}..{to}: {event}");
        let time = event["time_ns"].as_u64().ok_or_else(|| event.to_string())?;
        ensure!(how == "stored" || time <= *to, "{of:?} not in {from}..{to}: {event}");
        ensure!(event["tid"] == *tid, "{of:?} by {tid}: {event}");
    }
    // Events are in the order of their times.
    let all = events_of(stage, &place, "touches.rnt", "mmap_read")?;
    ensure!(all.is_sorted_by_key(|event| event["time_ns"].as_u64()), "not in order");
    Ok(())
}

/// Where page faults are refused, times are those of the looks, and that is said.
fn touches_by_looks(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let options = ["--mmap", "all", "--mmap-every", "3600s", "--mmap-times", "looks"];
    let output = record_of(stage, &place, &options, "looks.rnt", "touches_by_threads")?;
    let touches = touches(&output)?;
    let found = touched(stage, &place, "looks.rnt", &touches)?;
    let since = |event: &Value| event["since_ns"].as_u64();
    let spans = found.values().filter(|event| since(event) < event["time_ns"].as_u64());
    ensure!(spans.count() == found.len(), "{found:?}");
    let info = info(stage, &place, "looks.rnt")?;
    let times = &info["mapped_times"];
    ensure!(times["by_faults"] == 0 && times["by_looks"] == 1, "{info}");
    Ok(())
}

fn not_wanted(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    record(stage, &place, &["--mmap", "none"], "none.rnt")?;
    ensure!(events(stage, &place, "none.rnt")?.is_empty(), "stores are in the trace");
    let info = info(stage, &place, "none.rnt")?;
    ensure!(info["blind"].to_string().contains("mapped-writes"), "not told: {info}");
    Ok(())
}

fn hashes(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    record(stage, &place, &["--data", "hash"], "hash.rnt")?;
    let events = events(stage, &place, "hash.rnt")?;
    let has_hash = |event: &Value| {
        event["data"]["cut"] == true
            && event["data"]["hash"].as_str().is_some_and(|h| h.len() == 32)
    };
    ensure!(!events.is_empty() && events.iter().all(has_hash), "{events:?}");
    record(stage, &place, &["--data-for", "*/threads=none"], "rules.rnt")?;
    let of_threads =
        |event: &&Value| event["file"].as_str().is_some_and(|f| f.ends_with("threads"));
    let events = self::events(stage, &place, "rules.rnt")?;
    let bare = |event: &Value| event["stored"] == 0 && event["data"]["hash"].is_null();
    ensure!(events.iter().filter(of_threads).all(bare), "{events:?}");
    ensure!(events.iter().any(|event| event["stored"].as_u64() > Some(0)), "{events:?}");
    Ok(())
}

/// What was stored after the last collection by a process that is killed is not in the trace: that
/// is said, and the file is not compared.
fn killed(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let script = "\
import mmap, os
fd = os.open('file', os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, 8192)
m = mmap.mmap(fd, 8192)
m[:5] = b'first'
m.flush()
m[:5] = b'other'
os.kill(os.getpid(), 9)
";
    let mut record = place.command(&stage.reenact);
    record.args(["record", "--output"]).arg(place.trace("killed.rnt"));
    place.run(record.args(["--", "sh", "-c", "/usr/bin/python3 -S -c \"$0\"; true", script]))?;
    let events = events(stage, &place, "killed.rnt")?;
    ensure!(!events.is_empty(), "nothing was collected");
    let info = info(stage, &place, "killed.rnt")?;
    let unwatched = info["gaps"].as_u64() > Some(0);
    ensure!(unwatched, "{info}");
    place.clear()?;
    let mut replay = place.command(&stage.reenact);
    let replay = replay.args(["replay", "--json"]).arg(place.trace("killed.rnt"));
    let json = place.run(replay)?.success("replay")?.text();
    let json: Value = serde_json::from_str(&json).map_err(|error| error.to_string())?;
    ensure!(json["final_state"]["verdict"] == "identical as far as checked", "{json}");
    Ok(())
}

/// When the recorder is killed, the program goes on with its mapping, and nothing waits.
fn recorder_killed(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let script = "\
import mmap, os, signal, time
os.setsid()
fd = os.open('file', os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, 1 << 20)
m = mmap.mmap(fd, 1 << 20)
m[:5] = b'first'
m.flush()
os.kill(os.getppid(), signal.SIGKILL)
while os.getppid() == int(open('parent').read()): time.sleep(0.01)
began = time.monotonic()
for page in range(0, 1 << 20, 4096):
    m[page:page + 5] = b'other'
    m.flush()
m.close()
if os.fork() == 0:
    os._exit(0)
os.wait()
open('took', 'w').write(str(time.monotonic() - began))
";
    let parent = "echo $$ > parent; exec \"$@\"";
    let mut record = place.command("sh");
    record.args(["-c", parent, "sh"]).arg(&stage.reenact).args(["record", "--output"]);
    record.arg(place.trace("lost.rnt")).args(["--", "/usr/bin/python3", "-S", "-c", script]);
    // It ends by a signal.
    place.run(&mut record)?;
    let took = place.work().join("took");
    let limit = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !took.exists() && std::time::Instant::now() < limit {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    ensure!(took.exists(), "the program did not end");
    let file = std::fs::read(place.work().join("file")).map_err(|error| error.to_string())?;
    ensure!(file.chunks(PAGE).all(|page| page.starts_with(b"other")), "the file is another");
    Ok(())
}

/// The list of what moved unseen says why stores are not in the trace. Filters that have nothing against it change
/// nothing, and what is recorded of mappings is no loss to who has one.
fn under_filters(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let binary = program::named("stores_under_filter")?.build(stage)?;
    for more in [&[][..], &["--mmap", "all"]] {
        let mut record = place.command(&stage.reenact);
        record.args(["record", "--force"]).args(more).arg("--output");
        record.arg(place.trace("filter.rnt")).arg("--").arg(&binary).arg("7");
        let output = place.run(&mut record)?.success("record")?.text();
        let cases = output.lines().filter(|line| line.ends_with(": 0")).count();
        ensure!(cases == 6 && output.lines().count() == cases, "{more:?}: {output}");
        let events = events(stage, &place, "filter.rnt")?;
        let has = |name: &str| {
            events.iter().any(|event| event["file"].as_str().is_some_and(|f| f.ends_with(name)))
        };
        ensure!(has("harmless") && has("writable"), "{more:?}: {events:?}");
        if more.is_empty() {
            let info = info(stage, &place, "filter.rnt")?;
            let all = info["blind"].as_array().map_or(&[][..], Vec::as_slice);
            let of = |name: &str| {
                let is_it =
                    |entry: &&Value| entry["file"].as_str().is_some_and(|f| f.ends_with(name));
                all.iter().find(is_it).and_then(|entry| entry["why"].as_str()).unwrap_or_default()
            };
            ensure!(of("later").contains("seccomp"), "{info}");
            ensure!(of("strict").is_empty() && of("harmless").is_empty(), "{info}");
        }
    }
    Ok(())
}

/// Stores that are collected while all threads are in calls are replayed, and hold nobody up.
fn while_all_wait(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let script = "\
import mmap, os, time
fd = os.open('file', os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, 1 << 16)
m = mmap.mmap(fd, 1 << 16)
a, b = os.pipe()
if os.fork() == 0:
    m[4096:4101] = b'child'
    time.sleep(0.3)
    os.write(b, b'go')
    os._exit(0)
m[:6] = b'parent'
assert os.read(a, 2) == b'go'
m[8192:8195] = b'end'
os.wait()
";
    let mut record = place.command(&stage.reenact);
    record.args(["record", "--mmap-every", "20ms", "--output"]).arg(place.trace("waits.rnt"));
    place.run(record.args(["--", "/usr/bin/python3", "-S", "-c", script]))?.success("record")?;
    let events = events(stage, &place, "waits.rnt")?;
    ensure!(events.len() >= 3, "{} events", events.len());
    place.clear()?;
    let mut replay = place.command(&stage.reenact);
    let replay = replay.args(["replay", "--json"]).arg(place.trace("waits.rnt"));
    let json = place.run(replay)?.success("replay")?.text();
    let json: Value = serde_json::from_str(&json).map_err(|error| error.to_string())?;
    ensure!(json["final_state"]["verdict"] == "identical", "{json}");
    Ok(())
}
