//! `reenact report`: its page in headless Chromium, and its numbers compared with those of `stat`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use acceptance::place::{Outcome, Place, Who};
use acceptance::stage::{self, Stage};
use acceptance::works::{WORKS, whole};
use acceptance::{Complaint, ensure, kernel_events, tier, trials};
use serde_json::Value;

/// Largest size of a page.
const BYTES_MAX: u64 = 5_000_000;

fn main() -> ExitCode {
    trials::main(|trials| {
        let no_browser = trials::missing(&["chromium", "python3"]);
        for (name, script, is_short) in SCRIPTS {
            let long = (!is_short && !tier::is_long()).then_some("the long tier");
            let missing = no_browser.or(long);
            trials.add(&format!("page/{name}"), Who::User, missing, |stage, who| {
                page(stage, who, script)
            });
        }
        let sqlite = trials::missing(&["sqlite3"]);
        trials.add("page/sqlite3_and_replay", Who::User, no_browser.or(sqlite), with_replay);
        trials.add("page/damaged", Who::User, no_browser, damaged);
        let no_tracefs = (!kernel_events::can_be_used()).then_some("a tracefs that can be written");
        let no_numbers =
            (!kernel_events::is_first_namespace()).then_some("the machine's first PID namespace");
        let missing = no_browser.or(no_tracefs).or(no_numbers);
        trials.add("page/kernel", Who::Root, missing, with_the_kernel);
        trials.add("page/callers", Who::User, no_browser, with_callers);
        trials.add("formats_as_the_commands", Who::User, trials::missing(&["node"]), formats);
        trials.add("details_of_calls", Who::User, None, details_of_calls);
        trials.add("names_stay_text", Who::User, no_browser, names_stay_text);
        let python = no_browser.or(trials::missing(&["python3"]));
        trials.add("page/network", Who::User, python, with_a_network);
        trials.add("many_files", Who::User, None, many_files);
        trials.add("output", Who::User, None, output);
        trials.add("page/compared", Who::User, no_browser, compared);
        trials.add("not_a_replay", Who::User, None, not_a_replay);
        trials.add("its_own_replay", Who::User, None, with_its_own_replay);
        Ok(())
    })
}

/// Programs that show different things, and whether the short tier has them.
const SCRIPTS: &[(&str, &str, bool)] = &[
    ("nothing", "exec /bin/true", false),
    (
        "processes",
        "for i in 1 2 3; do (echo $i; cat /etc/passwd | wc -c) > out$i & done; wait; ls missing",
        false,
    ),
    (
        "writes",
        "dd if=/dev/zero of=a bs=4097 count=2000 status=none; dd if=a of=b bs=512 status=none; \
         dd if=a of=c bs=7 count=300 conv=fsync status=none; mv b d",
        true,
    ),
];

/// Records a script.
fn record(stage: &Stage, place: &Place, script: &str) -> Result<PathBuf, Complaint> {
    let trace = place.trace("program.rnt");
    let mut command = place.command(&stage.reenact);
    command.args(["record", "--quiet", "--output"]).arg(&trace).args(["--", "sh", "-c", script]);
    place.run(&mut command)?;
    Ok(trace)
}

/// Makes a report.
fn report(stage: &Stage, place: &Place, trace: &Path, more: &[&str]) -> Result<Outcome, Complaint> {
    let mut command = place.command(&stage.reenact);
    command.arg("report").arg(trace).arg("--output").arg(place.path("traces/page.html")).args(more);
    place.run(&mut command)
}

/// Opens a report in a browser and checks all of it.
fn check(stage: &Stage, place: &Place, trace: &Path) -> Result<(), Complaint> {
    let page = place.path("traces/page.html");
    let script = stage::repository().join("tests/report/check.py");
    let mut command = Command::new("python3");
    command
        .arg(script)
        .arg(&stage.reenact)
        .arg(trace)
        .arg(&page)
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let outcome = place.run(&mut command)?;
    ensure!(outcome.status.success(), "the page:\n{}{}", outcome.text(), outcome.errors());
    let bytes = size(&page)?;
    ensure!(bytes < BYTES_MAX, "the page has {bytes} bytes");
    Ok(())
}

fn size(page: &Path) -> Result<u64, Complaint> {
    fs::metadata(page)
        .map(|meta| meta.len())
        .map_err(|error| format!("{}: {error}", page.display()))
}

fn page(stage: &Stage, who: Who, script: &str) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = record(stage, &place, script)?;
    report(stage, &place, &trace, &[])?.success("report")?;
    check(stage, &place, &trace)
}

/// The JSON of a replay is shown next to the recording.
fn with_replay(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let work = WORKS.iter().find(|work| work.name == "sqlite3").ok_or("no such work")?;
    let place = Place::new(stage, who)?;
    let trace = record(stage, &place, &whole(work.script).replace("$1", "2000"))?;
    // The figures of a replay depend on the machine; these are from one run.
    let replay = r#"{"replayed":7,"simulated":1,"verified":7,"unverified":0,"ok":false,"elapsed_s":0.5,
        "calls_s":0.4,"recorded_s":0.7,"mismatches":{"return":1,"data":0,"causes":[{"cause":"<b>\u001b","count":1}]},
        "final_state":null,"latencies_ns":{"pwrite64":{
            "recorded":{"count":5,"median":2000,"p99":9000,"max":9500},
            "replayed":{"count":5,"median":1500,"p99":7000,"max":8000}}}}"#;
    place.write("replay.json", replay.as_bytes())?;
    let json = place.work().join("replay.json").display().to_string();
    report(stage, &place, &trace, &["--replay", &json])?.success("report")?;
    let page = read(&place)?;
    ensure!(page.contains(r#""replayed":7"#), "the replay is not in the page");
    check(stage, &place, &trace)
}

/// What changed since another recording is a section of the page.
fn compared(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let elsewhere = Place::new(stage, who)?;
    let before = record(stage, &elsewhere, "echo 1 > a; cat a")?;
    let place = Place::new(stage, who)?;
    let trace = record(stage, &place, "echo 1 > a; cat a a; sync a; mkdir '<b>'; rmdir '<b>'")?;
    let before = before.display().to_string();
    report(stage, &place, &trace, &["--compare", &before])?.success("report")?;
    let page = read(&place)?;
    for part in ["\"other_run\":{", "\"B took ", "\"calls\",\"columns\"", "\"new_files\""] {
        ensure!(page.contains(part), "{part} is not in the page");
    }
    check(stage, &place, &trace)
}

/// A real replay is only accepted with its own recording.
fn with_its_own_replay(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = record(stage, &place, "echo 1 > a")?;
    let mut replay = place.command(&stage.reenact);
    let replayed = place.run(replay.arg("replay").arg(&trace).arg("--json"))?.success("replay")?;
    place.write("replay.json", replayed.text().as_bytes())?;
    let json = place.work().join("replay.json").display().to_string();
    report(stage, &place, &trace, &["--replay", &json])?.success("report")?;
    let elsewhere = Place::new(stage, who)?;
    let other = record(stage, &elsewhere, "echo 2 > b")?;
    let outcome = report(stage, &elsewhere, &other, &["--replay", &json])?;
    let said = outcome.errors();
    ensure!(!outcome.status.success() && said.contains("another recording"), "it said {said}");
    Ok(())
}

fn read(place: &Place) -> Result<String, Complaint> {
    fs::read_to_string(place.path("traces/page.html")).map_err(|error| error.to_string())
}

/// A trace without its end gives a page that says so.
fn damaged(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = record(stage, &place, "cat /etc/passwd > copy; ls -R /etc > list")?;
    let bytes = fs::read(&trace).map_err(|error| error.to_string())?;
    fs::write(&trace, &bytes[..bytes.len() * 9 / 10]).map_err(|error| error.to_string())?;
    report(stage, &place, &trace, &[])?;
    let json = data(&read(&place)?)?;
    ensure!(json["sound"]["complete"] == Value::Bool(false), "it claims to be complete");
    check(stage, &place, &trace)
}

/// What the kernel did: lanes, waits, and details of those and of a range that is asked for.
fn with_the_kernel(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let script = "i=0; while [ $i -lt 30000 ]; do i=$((i + 1)); done & (sleep 0.05; echo late) | cat > a; \
        dd if=/dev/zero of=b bs=64k count=16 conv=fsync status=none; wait";
    let trace = place.trace("program.rnt");
    let mut command = place.command(&stage.reenact);
    command.args(["record", "--quiet", "--kernel", "--output"]).arg(&trace);
    place.run(command.args(["--", "sh", "-c", script]))?.success("record")?;
    report(stage, &place, &trace, &["--detail", "0..10s"])?.success("report")?;
    let kernel = &data(&read(&place)?)?["kernel"];
    let title = &kernel["details"][0]["title"];
    ensure!(kernel["asked"] == 1 && title == "from 0 ns to 10.000 s", "it has {title}");
    let ran = kernel["details"][0]["flows"].as_array().map_or(0, Vec::len);
    ensure!(ran > 10, "only {ran} stretches");
    check(stage, &place, &trace)
}

/// The time in calls by their callers.
fn with_callers(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = place.trace("program.rnt");
    let mut command = place.command(&stage.reenact);
    command.args(["record", "--quiet", "--stack", "--output"]).arg(&trace);
    let script = "cat /etc/passwd > a; ls /etc | wc -l; echo hello > b";
    place.run(command.args(["--", "sh", "-c", script]))?.success("record")?;
    report(stage, &place, &trace, &[])?.success("report")?;
    let flame = &data(&read(&place)?)?["flame"];
    ensure!(flame[4].as_array().is_some_and(|of| !of.is_empty()), "the tree is {flame}");
    check(stage, &place, &trace)
}

/// A server and its clients in one program, a pair of sockets, and a pipe.
const TALKS: &str = r#"python3 -c '
import socket, threading
listening = socket.create_server(("127.0.0.1", 0))
def serve():
    for _ in range(3):
        peer, _ = listening.accept()
        while peer.recv(100):
            peer.sendall(b"y" * 5000)
        peer.close()
server = threading.Thread(target=serve)
server.start()
for count in range(1, 4):
    to = socket.create_connection(listening.getsockname())
    for _ in range(count):
        to.sendall(b"x" * 10)
        got = 0
        while got < 5000:
            got += len(to.recv(9000))
    to.close()
server.join()
one, other = socket.socketpair()
one.sendall(b"z")
other.recv(1)
print("done")' | cat > said"#;

/// Connections with both ends recorded: bytes and replies are known from what the program does.
fn with_a_network(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = record(stage, &place, TALKS)?;
    report(stage, &place, &trace, &[])?.success("report")?;
    let network = &data(&read(&place)?)?["network"];
    let row = |table: &str, keys: &[&str]| -> Vec<Value> {
        let table = &network[table];
        let columns = table["columns"].as_array().into_iter().flatten();
        let keyed: Vec<(usize, &Value)> =
            columns.map(|column| &column["key"]).enumerate().collect();
        let at = |key: &&str| keyed.iter().find(|(_, of)| *of == key).map_or(0, |(at, _)| *at);
        keys.iter().map(|key| table["rows"][0][at(key)].clone()).collect()
    };
    let keys = ["connections", "in_bytes", "out_bytes", "replies"];
    let found = row("listening", &keys);
    ensure!(found == [3, 60, 30_000, 6], "the listening address has {found:?}");
    let rows = network["connections"]["rows"].as_array().map_or(0, Vec::len);
    ensure!(rows == 6, "{rows} connections, not both ends of three");
    for table in ["local_sockets", "pipes"] {
        let rows = network[table]["rows"].as_array().map_or(0, Vec::len);
        ensure!(rows > 0, "no {table}: {network}");
    }
    check(stage, &place, &trace)
}

/// A range of a trace without events of the kernel has its calls; one that is none is refused.
/// The page formats numbers as the commands do.
fn formats(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let words = stage::repository().join("crates/report_page/assets/words.js");
    let script = fs::read_to_string(&words).map_err(|error| error.to_string())?;
    let script = script
        + "console.log([0, 999, 1500, 22e6, 376e3, 1329e6].map(words.ns).join(', '));\
           console.log([0, 1023, 1024, 10485760, 99136].map(words.bytes).join(', '));\
           console.log([0, 0.0004, 0.123, 1].map(words.share).join(', '));\
           console.log([0, 1234567].map(words.count).join(', '));";
    let said = place.run(place.command("node").args(["-e", &script]))?.success("node")?.text();
    // As the tests of `render::amounts` have it.
    let expected = "0 ns, 999 ns, 1.5 us, 22.0 ms, 376.0 us, 1.329 s\n\
                    0 B, 1023 B, 1.0 KiB, 10.0 MiB, 96.8 KiB\n\
                    0%, <0.1%, 12.3%, 100.0%\n\
                    0, 1,234,567\n";
    ensure!(said == expected, "{said}");
    Ok(())
}

fn details_of_calls(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = record(stage, &place, "echo hello > a; cat a")?;
    report(stage, &place, &trace, &["--detail", "0..1h"])?.success("report")?;
    let kernel = &data(&read(&place)?)?["kernel"];
    let rows = kernel["details"][0]["rows"].as_array().ok_or("no rows")?.clone();
    ensure!(rows.iter().any(|row| row[3] == "openat"), "no call is listed: {rows:?}");
    for range in ["1s", "2s..1s", "..", "a..b"] {
        let outcome = report(stage, &place, &trace, &["--force", "--detail", range])?;
        ensure!(outcome.status.code() == Some(2), "it took {range}: {}", outcome.status);
    }
    Ok(())
}

/// Returns the data embedded in a page.
fn data(page: &str) -> Result<Value, Complaint> {
    let (_, after) = page.split_once("id=\"data\">").ok_or("the page has no data")?;
    let (data, _) = after.split_once("</script>").ok_or("the data has no end")?;
    serde_json::from_str(data).map_err(|error| error.to_string())
}

/// Names that contain a script, a terminal's control sequence, invalid UTF-8 or reversed text, or
/// are 4 KiB long, used as files, arguments and commands.
const HOSTILE: &str = r#"
    x=$(printf '<img src=x onerror=document.title=1>\033[31m\377"\n\342\200\256&lt;b')
    mkdir "$x"; printf y > "$x/b"
    y='<script>document.body.dataset.hit=1<' ; mkdir "$y"; printf y > "$y/script>"; ln -s /bin/cat "$y/<!--"
    printf y | "$y/<!--" "$x/b" - '</script><script>document.body.dataset.hit=1</script>' > copy
    long=$(printf '\001%.0s' 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20)
    long=$long$long$long$long$long$long$long$long$long$long$long$long
    i=0; while [ $i -lt 15 ]; do mkdir "$long" && cd "$long"; i=$((i + 1)); done
    printf y > "$long"
"#;

fn names_stay_text(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = record(stage, &place, HOSTILE)?;
    report(stage, &place, &trace, &[])?.success("report")?;
    let page = read(&place)?;
    ensure!(!page.contains("dataset.hit=1<"), "a name stands in the page as it is");
    ensure!(!page.chars().any(|c| c.is_control() && c != '\n' && c != '\t'), "a control character");
    ensure!(page.matches("<script").count() == 3, "there are other scripts in the page");
    let text = data(&page)?["files"]["rows"].to_string();
    for name in
        ["<img src=x onerror=document.title=1>\\\\033[31m\\\\377", "/<script>", "bytes ...]"]
    {
        ensure!(text.contains(name), "no name with {name}:\n{text}");
    }
    check(stage, &place, &trace)
}

/// Files beyond the first thousand are summed up; long names do not make the page long.
fn many_files(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let script = "n=$(printf '\\001%.0s' 1 2 3 4 5 6 7 8 9 10); n=$n$n$n$n$n$n$n$n$n$n$n$n$n$n$n$n$n$n$n$n
        mkdir \"$n\"; cd \"$n\"; i=0; while [ $i -lt 1500 ]; do echo $i > \"$n$i\"; i=$((i + 1)); done";
    let place = Place::new(stage, who)?;
    let trace = record(stage, &place, script)?;
    report(stage, &place, &trace, &[])?.success("report")?;
    let bytes = size(&place.path("traces/page.html"))?;
    ensure!(bytes < BYTES_MAX, "the page has {bytes} bytes");
    let json = data(&read(&place)?)?;
    let files = &json["files"];
    let (rows, others) = (files["rows"].as_array().map_or(0, Vec::len), &files["others_count"]);
    ensure!(rows == 1000, "{rows} files are told apart");
    let all = json["files_facts"]["file_count"].as_u64().unwrap_or(0);
    ensure!(others.as_u64() == Some(all - 1000), "{others} others of {all}");
    let written =
        files["columns"].as_array().into_iter().flatten().position(|c| c["key"] == "write_bytes");
    let written = written.ok_or("no column write_bytes")?;
    let rows = files["rows"].as_array().into_iter().flatten().chain([&files["others"]]);
    let sum: u64 = rows.filter_map(|row| row[written].as_u64()).sum();
    ensure!(Some(sum) == json["files_facts"]["write_bytes"].as_u64(), "the rows sum up to {sum}");
    Ok(())
}

/// The page is private, and replaces no file without `--force`.
fn output(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = record(stage, &place, "echo hello")?;
    report(stage, &place, &trace, &[])?.success("report")?;
    let page = place.path("traces/page.html");
    let mode = fs::metadata(&page).map_err(|error| error.to_string())?.mode() & 0o777;
    ensure!(mode == 0o600, "the page has mode {mode:o}");
    let again = report(stage, &place, &trace, &[])?;
    ensure!(again.status.code() == Some(1), "it was replaced: {}", again.status);
    ensure!(again.errors().contains("--force"), "it says {}", again.errors());
    report(stage, &place, &trace, &["--force"])?.success("report --force")?;
    Ok(())
}

fn not_a_replay(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = record(stage, &place, "echo hello")?;
    let outcome = report(stage, &place, &trace, &["--replay", "/etc/passwd"])?;
    ensure!(outcome.status.code() == Some(1), "it took /etc/passwd: {}", outcome.status);
    ensure!(outcome.errors().contains("replay --json"), "it says {}", outcome.errors());
    ensure!(!place.path("traces/page.html").exists(), "a page was begun all the same");
    Ok(())
}
