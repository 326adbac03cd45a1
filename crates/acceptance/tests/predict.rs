//! `reenact predict`: configurations are made, limits hold, what is measured is told, and nothing of it is
//! left. No time is held against a fixed one, but for those that a limit makes certain.

use std::fs;
use std::process::{Command, ExitCode};

use acceptance::place::{Place, Who};
use acceptance::stage::Stage;
use acceptance::{Complaint, ensure, program, trials};
use serde_json::Value;

fn main() -> ExitCode {
    trials::main(|trials| {
        let image = trials::missing(&["mkfs.ext4", "losetup"]);
        let image = image.or((!has_loop_devices()).then_some("loop devices"));
        let memory =
            (!has_memory_controller()).then_some("the memory controller of control groups");
        let fuse = (!std::path::Path::new("/dev/fuse").exists()).then_some("/dev/fuse");
        trials.add_for_both("in_a_directory", None, in_a_directory);
        trials.add_for_both("executed_again", None, executed_again);
        trials.add_for_both("without_cpu_time", None, without_cpu_time);
        trials.add_for_both("a_command_that_fails", None, a_command_that_fails);
        let no_browser = trials::missing(&["chromium", "python3"]);
        trials.add("in_a_report", Who::User, no_browser, in_a_report);
        trials.add_for_both("words_that_make_no_sense", None, words_that_make_no_sense);
        trials.add("refused_with_what_to_do", Who::User, None, refused_with_what_to_do);
        trials.add("in_memory", Who::Root, None, in_memory);
        trials.add("on_a_fresh_image", Who::Root, image, on_a_fresh_image);
        trials.add("ended_from_outside", Who::Root, image.or(fuse), ended_from_outside);
        let bench =
            trials::missing(&["taskset", "sqlite3", "gcc", "strace", "mkfs.xfs", "mkfs.btrfs"])
                .or(image);
        trials.add("ultra", Who::Root, bench, ultra);
        trials.add("some_directories", Who::Root, image.or(fuse), some_directories);
        trials.add("with_little_memory", Who::Root, memory, with_little_memory);
        trials.add("program_with_little_memory", Who::Root, memory, program_with_little_memory);
        let small_files = memory.or(image).or(trials::missing(&["gcc"]));
        trials.add("what_fits_into_memory", Who::Root, small_files, what_fits_into_memory);
        trials.add("with_a_latency", Who::Root, fuse, with_a_latency);
        trials.add("as_files_are_used", Who::Root, fuse, as_files_are_used);
        Ok(())
    })
}

fn has_loop_devices() -> bool {
    trials::succeeds("losetup", &["--find"])
}

fn has_memory_controller() -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    mounts.lines().any(|line| line.contains(" - cgroup ") && line.contains("memory"))
        || fs::read_to_string("/sys/fs/cgroup/cgroup.subtree_control")
            .is_ok_and(|controllers| controllers.split_whitespace().any(|one| one == "memory"))
}

/// What the recorded program does: it writes 8 MiB, reads them twice, computes, and makes some files.
const WORK: &str = "\
import os
block = b'x' * 65536
with open('big', 'wb') as big:
    for _ in range(128): big.write(block)
for _ in range(2):
    with open('big', 'rb') as big:
        while big.read(65536): pass
sum(range(100000))
os.mkdir('made')
for n in range(20):
    with open(f'made/{n}', 'w') as one: one.write(str(n))
    os.rename(f'made/{n}', f'made/renamed{n}')
os.link('made/renamed1', 'made/again'); os.symlink('big', 'link')
assert open('was-there').read() == 'content', 'it is other content'
assert len(os.listdir('made')) == 21
os.fsync(os.open('big', os.O_RDWR))
";

/// Enough for it, apart from pages of files.
const PROGRAM_MEMORY: &str = "8M";

struct Recorded {
    place: Place,
    trace: std::path::PathBuf,
}

fn recorded(stage: &Stage, who: Who) -> Result<Recorded, Complaint> {
    recorded_with(stage, who, &[])
}

fn recorded_with(stage: &Stage, who: Who, more: &[&str]) -> Result<Recorded, Complaint> {
    let place = Place::new(stage, who)?;
    place.write("was-there", b"content")?;
    place.write("work.py", WORK.as_bytes())?;
    let trace = place.trace("work.rnt");
    let mut command = place.command(&stage.reenact);
    command.args(["record", "--quiet", "--output"]).arg(&trace).args(more);
    place.run(command.args(["--", "python3", "-S", "work.py"]))?.success("the recording")?;
    Ok(Recorded { place, trace })
}

impl Recorded {
    fn command(&self, stage: &Stage, more: &[&str]) -> Command {
        let mut command = self.place.command(&stage.reenact);
        command.args(["predict", "--repeat", "1", "--json"]).args(more).arg(&self.trace);
        command
    }

    /// Returns all predictions, which have to be whole.
    fn predicted(&self, stage: &Stage, more: &[&str]) -> Result<Vec<Value>, Complaint> {
        let outcome = self.place.run(&mut self.command(stage, more))?.success("predict")?;
        let said: Value =
            serde_json::from_str(&outcome.text()).map_err(|error| error.to_string())?;
        let all = said["predictions"].as_array().cloned().unwrap_or_default();
        for one in &all {
            ensure!(one["failed"].is_null() && one["incomplete"].is_null(), "{one}");
            ensure!(one["different"] == 0, "results differ: {one}");
            ensure!(number(one, "seconds") > 0.0 && number(one, "user_s") > 0.0, "{one}");
            ensure!(number(one, "allocated_bytes") >= 8e6, "8 MiB were written: {one}");
            let changed = one["changed"].as_array().map_or(0, Vec::len);
            ensure!(changed > 0, "no call changed: {one}");
        }
        Ok(all)
    }
}

fn number(of: &Value, key: &str) -> f64 {
    of[key].as_f64().unwrap_or(-1.0)
}

fn exactly_one(all: &[Value]) -> Result<&Value, Complaint> {
    match all {
        [one] => Ok(one),
        _ => Err(format!("{} predictions", all.len())),
    }
}

/// No mount, control group, loop device or directory is left.
fn nothing_is_left(place: &Place) -> Result<(), Complaint> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let work = place.work();
    let work = work.to_string_lossy();
    ensure!(!mounts.contains(&*work), "mounted still:\n{mounts}");
    let left: Vec<_> = fs::read_dir(place.work())
        .map_err(|error| error.to_string())?
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("reenact-predict"))
        .collect();
    ensure!(left.is_empty(), "left: {left:?}");
    let devices =
        Command::new("losetup").arg("--all").output().map_err(|error| error.to_string())?;
    let devices = String::from_utf8_lossy(&devices.stdout).into_owned();
    ensure!(!devices.contains(&*work), "loop devices are left:\n{devices}");
    Ok(())
}

fn in_a_directory(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let recorded = recorded(stage, who)?;
    let work = recorded.place.work().display().to_string();
    let line = format!(
        "test \"$(cat \"$REENACT_ROOT{work}/was-there\")\" = content && \
         head -c 8388608 /dev/zero > \"$REENACT_ROOT/written\" && sleep 0.2"
    );
    let all = recorded.predicted(stage, &["--on", ".", "--actual", &line])?;
    let one = exactly_one(&all)?;
    ensure!(one["method"] == "replay" && one["set_by"].is_null(), "{one}");
    let actual = &one["actual"];
    ensure!(number(actual, "seconds") >= 0.2, "it slept for that long: {actual}");
    let error = number(one, "seconds") / number(actual, "seconds") - 1.0;
    let told = one["error"].as_f64().unwrap_or(f64::NAN);
    ensure!((told - error).abs() < 0.001, "{told} is not {error}");
    let change = one["change"].as_f64().ok_or_else(|| format!("compared with nothing: {one}"))?;
    ensure!(change > -1.0, "{one}");
    // For people the recorded run comes first, with the same figures as for programs.
    let mut command = recorded.place.command(&stage.reenact);
    command.args(["predict", "--on", ".", "--on", "./", "--repeat", "2"]).arg(&recorded.trace);
    let text = recorded.place.run(&mut command)?.success("predict")?.text();
    let rows: Vec<Vec<&str>> =
        text.lines().skip(1).take(4).map(|line| line.split_whitespace().collect()).collect();
    let heads: Vec<_> = rows.iter().map(|row| row.first().copied().unwrap_or_default()).collect();
    ensure!(heads == ["on", "recorded", ".", "./"], "{text}");
    let seconds = rows[1].iter().find_map(|cell| cell.parse::<f64>().ok());
    ensure!(seconds.is_some_and(|seconds| seconds > 0.0), "the recorded time: {text}");
    ensure!(!text.contains("one run each"), "{text}");
    nothing_is_left(&recorded.place)
}

/// By both methods; what was not recorded for it cannot be executed again, which is said.
fn executed_again(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let recorded = recorded_with(stage, who, &["--rerunnable"])?;
    let all = recorded.predicted(stage, &["--on", ".", "--method", "both"])?;
    let methods: Vec<_> = all.iter().map(|one| one["method"].as_str()).collect();
    ensure!(methods == [Some("replay"), Some("rerun")], "{methods:?}");
    nothing_is_left(&recorded.place)?;
    // A sleep is a wait for the outside.
    let place = &recorded.place;
    let trace = place.trace("sleeps.rnt");
    let mut command = place.command(&stage.reenact);
    command.args(["record", "--quiet", "--rerunnable", "--output"]).arg(&trace);
    place.run(command.args(["--", "sleep", "0.5"]))?.success("the recording")?;
    for (stimuli, is_in) in [("asap", false), ("recorded", true)] {
        let mut command = place.command(&stage.reenact);
        command.args(["predict", "--json", "--on", ".", "--repeat", "1", "--method", "both"]);
        let outcome = place.run(command.args(["--stimuli", stimuli]).arg(&trace))?;
        let said: Value = serde_json::from_str(&outcome.success("predict")?.text())
            .map_err(|error| error.to_string())?;
        let all = said["predictions"].as_array().map_or(&[][..], Vec::as_slice);
        ensure!(all.len() == 2, "by both: {said}");
        for one in all {
            ensure!(number(one, "outside_recorded_s") >= 0.5, "it slept: {one}");
            let counted = number(one, "outside_s") >= 0.5 && number(one, "seconds") >= 0.5;
            ensure!(counted == is_in, "{stimuli}: {one}");
        }
    }
    let plain = self::recorded(stage, who)?;
    let more = ["--on", ".", "--method", "rerun"];
    let outcome = plain.place.run(&mut plain.command(stage, &more))?;
    ensure!(outcome.status.code() == Some(1), "{}", outcome.status);
    ensure!(outcome.text().contains("--rerunnable"), "{}", outcome.text());
    nothing_is_left(&plain.place)
}

/// A replay that does not know what the program computed predicts nothing.
fn without_cpu_time(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let recorded = recorded_with(stage, who, &["--no-cpu-time"])?;
    let outcome = recorded.place.run(&mut recorded.command(stage, &["--on", "."]))?;
    ensure!(outcome.status.code() == Some(1), "{}", outcome.status);
    let said: Value = serde_json::from_str(&outcome.text()).map_err(|error| error.to_string())?;
    let one = &said["predictions"][0];
    let failed = one["failed"].as_str().unwrap_or_default();
    ensure!(failed.contains("--no-cpu-time") && one["seconds"].is_null(), "{one}");
    ensure!(said["recorded"]["user_s"].is_null(), "{said}");
    ensure!(number(&said["recorded"], "unknown_s") > 0.0, "{said}");
    nothing_is_left(&recorded.place)
}

fn a_command_that_fails(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let recorded = recorded(stage, who)?;
    let mut command = recorded.command(stage, &["--on", ".", "--actual", "echo so >&2; exit 7"]);
    let outcome = recorded.place.run(&mut command)?;
    ensure!(outcome.status.code() == Some(1), "{}", outcome.status);
    let said: Value = serde_json::from_str(&outcome.text()).map_err(|error| error.to_string())?;
    let failed = said["predictions"][0]["failed"].as_str().unwrap_or_default();
    ensure!(failed.contains("--actual") && failed.contains("so"), "{failed:?}");
    ensure!(number(&said["predictions"][0], "seconds") > 0.0, "the prediction is there: {said}");
    nothing_is_left(&recorded.place)
}

/// The page of a recording takes its predictions, and no others.
fn in_a_report(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let recorded = recorded(stage, who)?;
    let place = &recorded.place;
    let more = ["--on", ".", "--on", "./", "--repeat", "2", "--actual", "sleep 0.1"];
    let mut predict = place.command(&stage.reenact);
    predict.args(["predict", "--json"]).args(more).arg(&recorded.trace);
    let said = place.run(&mut predict)?.success("predict")?.text();
    place.write("predicted.json", said.as_bytes())?;
    let page = place.path("traces/page.html");
    let report = |of: &std::path::Path, prediction: &str| {
        let mut command = place.command(&stage.reenact);
        command.args(["report", "--force", "--output"]).arg(&page).arg(of);
        place.run(command.args(["--prediction", prediction]))
    };
    report(&recorded.trace, "predicted.json")?.success("report")?;
    let mut check = Command::new("python3");
    let script = acceptance::stage::repository().join("tests/report/check.py");
    check.arg(script).arg(&stage.reenact).arg(&recorded.trace).arg(&page);
    let outcome = place.run(check.env("PYTHONDONTWRITEBYTECODE", "1"))?;
    ensure!(outcome.status.success(), "the page:\n{}{}", outcome.text(), outcome.errors());
    let text = fs::read_to_string(&page).map_err(|error| error.to_string())?;
    let (_, data) = text.split_once("\"predicted\":").ok_or("the page has no predictions")?;
    let predicted = &serde_json::Deserializer::from_str(data).into_iter::<Value>().next();
    let Some(Ok(predicted)) = predicted else { return Err("the data is no JSON".into()) };
    let said: Value = serde_json::from_str(&said).map_err(|error| error.to_string())?;
    let rows = predicted["table"]["rows"].as_array().ok_or("no rows")?;
    ensure!(rows.len() == 2 && rows[1][0] == "./", "{rows:?}");
    let ns = rows[0][5].as_f64().unwrap_or(-1.0);
    let seconds = number(&said["predictions"][0], "seconds");
    ensure!((ns / 1e9 - seconds).abs() < 1e-6, "{ns} ns are not {seconds} s");
    for (file, hint) in [("work.py", "predict --json"), ("missing.json", "No such file")] {
        let outcome = report(&recorded.trace, file)?;
        let said = outcome.errors();
        ensure!(outcome.status.code() == Some(1) && said.contains(hint), "{file}: {said}");
    }
    let other = self::recorded(stage, who)?;
    let outcome = report(&other.trace, "predicted.json")?;
    ensure!(outcome.errors().contains("another recording"), "it said {}", outcome.errors());
    Ok(())
}

fn words_that_make_no_sense(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let recorded = recorded(stage, who)?;
    for bad in [
        &["--on", "ext5"][..],
        &[],
        &["--on", ".", "--limit", "speed=1"],
        &["--on", ".", "--memory", "1X"],
        &["--on", ".", "--limit", "iops=0"],
        &["--on", ".", "--path", "srv"],
        &["--on", ".", "--path", "/srv/../etc"],
    ] {
        let outcome = recorded.place.run(&mut recorded.command(stage, bad))?;
        ensure!(outcome.status.code() == Some(2), "{bad:?}: {}", outcome.status);
    }
    Ok(())
}

fn refused_with_what_to_do(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let recorded = recorded(stage, who)?;
    for (refused, remedy) in [
        (&["--on", "tmpfs"][..], "/dev/shm"),
        (&["--on", "ext4"], "--on DIR"),
        (&["--on", ".", "--memory", "64M"], "systemd-run"),
        (&["--on", ".", "--limit", "latency=1ms"], "--on DIR"),
        (&["--on", ".", "--cache", "cold"], "--cache warm"),
        (&["--on", ".", "--path", "/srv"], "needs root"),
    ] {
        let outcome = recorded.place.run(&mut recorded.command(stage, refused))?;
        let said = outcome.errors();
        ensure!(outcome.status.code() == Some(1), "{refused:?}: {}", outcome.status);
        ensure!(said.contains("root") && said.contains(remedy), "{refused:?}: {said}");
    }
    nothing_is_left(&recorded.place)
}

fn in_memory(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let recorded = recorded(stage, who)?;
    let all = recorded.predicted(stage, &["--on", "tmpfs", "--images", "."])?;
    ensure!(exactly_one(&all)?["on"] == "tmpfs", "{all:?}");
    nothing_is_left(&recorded.place)
}

fn on_a_fresh_image(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let recorded = recorded(stage, who)?;
    let more = ["--on", "ext4", "--images", ".", "--image-size", "256M", "--cache", "cold"];
    let one = recorded.predicted(stage, &more)?;
    ensure!(exactly_one(&one)?["on"] == "ext4", "{one:?}");
    nothing_is_left(&recorded.place)?;
    // One that was just made is fast for that alone: with another one beside it that is seen.
    for (on, is_said) in [(&["--on", "ext4"][..], true), (&["--on", "ext4", "--on", "."], false)] {
        let mut command = recorded.place.command(&stage.reenact);
        command.arg("predict").args(on).args(["--images", ".", "--image-size", "256M"]);
        command.args(["--repeat", "1"]).arg(&recorded.trace);
        let text = recorded.place.run(&mut command)?.success("predict")?.text();
        ensure!(text.contains("was just made") == is_said, "{on:?}: {text}");
    }
    // A disk image of the user's: it stays as it is.
    let image = recorded.place.work().join("mine.img");
    let made = fs::File::create(&image).and_then(|file| file.set_len(64 << 20));
    made.map_err(|error| error.to_string())?;
    let made = Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image).status();
    ensure!(made.is_ok_and(|made| made.success()), "no image");
    let before = fs::read(&image).map_err(|error| error.to_string())?;
    recorded.predicted(stage, &["--on", "mine.img", "--images", "."])?;
    let after = fs::read(&image).map_err(|error| error.to_string())?;
    ensure!(before == after, "the image was changed");
    nothing_is_left(&recorded.place)
}

/// A signal ends the run that is under way, and leaves nothing: at whatever moment it comes.
fn ended_from_outside(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let recorded = recorded_with(stage, who, &["--rerunnable"])?;
    let temporary = recorded.place.trace("temporary");
    fs::create_dir(&temporary).map_err(|error| error.to_string())?;
    let moments = [0, 50, 150, 300, 700].map(|ms| ("replay", ms));
    for (method, ms) in moments.into_iter().chain([150, 700].map(|ms| ("rerun", ms))) {
        ended_after(stage, &recorded, (method, std::time::Duration::from_millis(ms)))?;
        nothing_is_left(&recorded.place).map_err(|left| format!("after {ms} ms: {left}"))?;
        let left = fs::read_dir(&temporary).map_err(|error| error.to_string())?.count();
        ensure!(left == 0, "{method}, after {ms} ms: {left} in the directory for temporary files");
    }
    Ok(())
}

/// Sends the signal so long after it has begun.
fn ended_after(
    stage: &Stage,
    recorded: &Recorded,
    (method, later): (&str, std::time::Duration),
) -> Result<(), Complaint> {
    let work = recorded.place.work();
    // Five seconds for each request: it is in the middle of it for minutes.
    let more = ["--on", "ext4", "--images", ".", "--image-size", "256M", "--limit", "latency=5s"];
    let mut command = recorded.command(stage, &more);
    command.args(["--memory", "256M", "--method", method]).stdout(std::process::Stdio::null());
    command.env("TMPDIR", recorded.place.trace("temporary"));
    let mut predict = command.spawn().map_err(|error| error.to_string())?;
    let pid = predict.id() as libc::pid_t;
    let runs = || {
        let tasks = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let names = fs::read_dir(&work).into_iter().flatten().flatten();
        let made = names.filter(|name| name.path().join("volume/root").exists()).count();
        // The volume is seen by the command alone, its directory by all.
        tasks.is_ok_and(|children| !children.trim().is_empty()) || made > 0
    };
    for _ in 0..600 {
        if runs() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    std::thread::sleep(later);
    // SAFETY: kill takes plain numbers; the process is our child.
    unsafe { libc::kill(pid, libc::SIGTERM) };
    let status = predict.wait().map_err(|error| error.to_string())?;
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    ensure!(signal == Some(libc::SIGTERM), "it ended with {status}");
    ensure!(!control_groups().contains(&format!("predict-{pid}-")), "{}", control_groups());
    Ok(())
}

fn control_groups() -> String {
    let all = ["/sys/fs/cgroup", "-maxdepth", "2", "-name", "reenact-predict-*"];
    let found = Command::new("find").args(all).output();
    found.map(|found| String::from_utf8_lossy(&found.stdout).into_owned()).unwrap_or_default()
}

/// benches/ultra.py measures, goes on where it was ended, fills a page, and leaves no mounts.
fn ultra(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let repository = acceptance::stage::repository();
    let page = place.work().join("ultra.md");
    fs::copy(repository.join("docs/ultra.md"), &page).map_err(|error| error.to_string())?;
    let measured = |only: &str, parts: &[&str]| {
        let mut command = place.command(std::path::Path::new("python3"));
        command.arg(repository.join("benches/ultra.py")).arg(&stage.reenact).arg("figures");
        command.args(parts).args(["--scale", "0.001", "--repeat", "1", "--only", only, "--into"]);
        place.run(command.arg(&page).env("PYTHONDONTWRITEBYTECODE", "1"))
    };
    let parts = ["costs", "same", "remote", "systems"];
    let whole = measured("getpid,sqlite", &parts)?.success("ultra.py")?;
    let text = fs::read_to_string(&page).map_err(|error| error.to_string())?;
    for row in ["| getpid | ", "| sqlite | ext4 | ", "| sqlite | btrfs+zlib | "] {
        ensure!(text.contains(row), "no '{row}' in the page:\n{text}\n{}", whole.errors());
    }
    ensure!(whole.errors().contains("costs getpid"), "{}", whole.errors());
    let again = measured("getpid", &["costs", "same"])?.success("ultra.py again")?;
    ensure!(!again.errors().contains("getpid"), "it measured again: {}", again.errors());
    let kept = measured("xyz", &["costs"])?;
    ensure!(kept.errors().contains("no such program"), "{}", kept.errors());
    nothing_is_left(&place)
}

/// Only what is below the directories of --path lies on the configuration, for the actual command too.
fn some_directories(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let recorded = recorded_with(stage, who, &["--rerunnable"])?;
    let work = recorded.place.work().display().to_string();
    let line = format!(
        "cd \"$REENACT_ROOT{work}\" && test \"$(cat was-there)\" = content && \
         test \"$(stat -fc %T .)\" != tmpfs && \
         test \"$(stat -c %d .)\" != \"$(stat -c %d \"$REENACT_ROOT\")\" && sleep 0.1"
    );
    let on = ["--on", "ext4", "--images", ".", "--image-size", "256M", "--path", &work];
    let mut more = on.to_vec();
    more.extend(["--method", "both", "--actual", &line]);
    let all = recorded.predicted(stage, &more)?;
    ensure!(all.len() == 2, "{} predictions", all.len());
    for one in &all {
        ensure!(number(one, "allocated_bytes") < 1e7, "programs lie elsewhere: {one}");
        let written = number(one, "disk_written_bytes");
        ensure!(written >= 8e6, "8 MiB were synced to the disk: {one}");
    }
    let mut more = on.to_vec();
    more.extend(["--limit", "latency=5ms"]);
    let all = recorded.predicted(stage, &more)?;
    ensure!(number(exactly_one(&all)?, "seconds") >= 0.5, "requests took their time: {all:?}");
    nothing_is_left(&recorded.place)
}

/// Within 4 MiB, what the actual command reads again has to be read from the disk: the limit holds.
fn with_little_memory(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let recorded = recorded(stage, who)?;
    // Who may have 16 MiB cannot have 64: the group's limit holds for the command.
    let greedy = "python3 -S -c 'bytearray(64 << 20)'";
    let more = ["--on", ".", "--memory", "16M", "--actual", greedy];
    let outcome = recorded.place.run(&mut recorded.command(stage, &more))?;
    let said: Value = serde_json::from_str(&outcome.text()).map_err(|error| error.to_string())?;
    let one = &said["predictions"][0];
    let failed = one["failed"].as_str().unwrap_or_default();
    ensure!(failed.contains("16777216 bytes of memory are too little"), "{said}");
    // The replay has more than that for itself, which is added.
    ensure!(number(one, "seconds") > 0.0 && one["different"] == 0, "{said}");
    let modest = "head -c 8388608 /dev/zero > \"$REENACT_ROOT/file\"; cat \"$REENACT_ROOT/file\"";
    let all =
        recorded.predicted(stage, &["--on", ".", "--memory", "16M,64M", "--actual", modest])?;
    ensure!(all.len() == 2, "{} predictions", all.len());
    ensure!(all[1]["memory_bytes"] == 64 << 20, "{all:?}");
    let ours = control_groups();
    // Those of other runs may be there.
    let lives = |group: &str| {
        let pid = group.rsplit('-').nth(1).unwrap_or_default();
        std::path::Path::new("/proc").join(pid).exists()
    };
    ensure!(ours.lines().all(lives), "left: {ours}");
    nothing_is_left(&recorded.place)
}

/// What reenact needs to execute a program again is added to its memory, also what it needs later on.
fn program_with_little_memory(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let recorded = recorded_with(stage, who, &["--rerunnable"])?;
    let all = recorded
        .predicted(stage, &["--on", ".", "--method", "rerun", "--memory", PROGRAM_MEMORY])?;
    exactly_one(&all)?;
    nothing_is_left(&recorded.place)
}

/// As much stays in memory as for the program itself, so that the disk has as much to read: nothing of ours takes
/// its room, and it gets none that ours do not need. Small files have the kernel keep much for each of them.
fn what_fits_into_memory(stage: &Stage, who: Who) -> Result<(), Complaint> {
    const FILES: &str = "6000";
    let place = Place::new(stage, who)?;
    let program = program::named_in("tests/rerun", "reads_small_files")?.build(stage)?;
    for number in 0..6000_u32 {
        place.write(&number.to_string(), &[number as u8; 4096])?;
    }
    let trace = place.trace("small.rnt");
    let mut command = place.command(&stage.reenact);
    command.args(["record", "--quiet", "--rerunnable", "--output"]).arg(&trace).arg("--");
    place.run(command.arg(&program).arg(FILES))?.success("the recording")?;
    let work = place.work().display().to_string();
    let actual = format!("cd \"$REENACT_ROOT{work}\" && {} {FILES}", program.display());
    let mut command = place.command(&stage.reenact);
    command.args(["predict", "--json", "--repeat", "1", "--method", "both", "--cache", "cold"]);
    command.args(["--on", "ext4", "--images", ".", "--image-size", "512M", "--memory", "16M"]);
    command.args(["--path", &work, "--actual", &actual]).arg(&trace);
    let text = place.run(&mut command)?.success("predict")?.text();
    let said: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let all = said["predictions"].as_array().map_or(&[][..], Vec::as_slice);
    ensure!(all.len() == 2, "{said}");
    for one in all {
        let (read, read_there) =
            (number(one, "disk_read_bytes"), number(&one["actual"], "disk_read_bytes"));
        // What does not fit is read again.
        ensure!(read_there > 1.1 * 6000.0 * 4096.0, "all has fitted: {one}");
        ensure!((0.87..1.15).contains(&(read / read_there)), "{read} of {read_there}: {one}");
    }
    nothing_is_left(&place)
}

/// Opening and closing of more than 20 files asks more than 100 times; each takes 5 ms at least.
fn with_a_latency(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let recorded = recorded(stage, who)?;
    let more = ["--on", ".", "--limit", "latency=5ms"];
    let all = recorded.predicted(stage, &more)?;
    let one = exactly_one(&all)?;
    ensure!(one["set_by"] == "FUSE" && one["limits"]["latency_ns"] == 5_000_000, "{one}");
    ensure!(number(one, "seconds") >= 0.5, "requests took their time: {one}");
    // 8 MiB are sent in two seconds.
    let all = recorded.predicted(stage, &["--on", ".", "--limit", "write=4M"])?;
    ensure!(number(exactly_one(&all)?, "seconds") >= 1.9, "writes took their time: {all:?}");
    nothing_is_left(&recorded.place)
}

/// What programs do to files works on the slow file system as on others.
fn as_files_are_used(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let recorded = recorded(stage, who)?;
    let place = &recorded.place;
    let check = "\
import os, sys, stat, time, mmap, fcntl
os.chdir(os.environ['REENACT_ROOT']); os.mkdir('d', 0o750); os.chdir('d')
def eq(a, b): assert a == b, (a, b)
eq(stat.S_IMODE(os.stat('.').st_mode), 0o750)
with open('f', 'w+b') as f:
    f.write(b'12345'); f.flush(); eq(os.fstat(f.fileno()).st_size, 5)
    f.truncate(3); eq(os.pread(f.fileno(), 9, 0), b'123')
    os.fsync(f.fileno())
fd = os.open('f', os.O_WRONLY | os.O_APPEND); os.write(fd, b'ab'); os.close(fd)
eq(open('f', 'rb').read(), b'123ab')
os.link('f', 'g'); eq(os.stat('g').st_nlink, 2); os.unlink('f'); eq(open('g').read(), '123ab')
os.symlink('g', 'l'); eq(os.readlink('l'), 'g'); eq(open('l').read(), '123ab')
os.mkfifo('p'); assert stat.S_ISFIFO(os.stat('p').st_mode)
os.utime('g', ns=(1_500_000_001, 2_500_000_002)); eq(os.stat('g').st_mtime_ns, 2_500_000_002)
os.utime('g', ns=(-2_000_000_000, 0)); eq(os.stat('g').st_atime_ns, -2_000_000_000)
os.chmod('g', 0o640); eq(stat.S_IMODE(os.stat('g').st_mode), 0o640)
os.chown('g', 12, 34); eq(os.stat('g').st_gid, 34)
os.lchown('l', 56, 78); eq(os.lstat('l').st_uid, 56)
os.setxattr('g', 'user.x', b'value'); eq(os.getxattr('g', 'user.x'), b'value')
assert 'user.x' in os.listxattr('g'); os.removexattr('g', 'user.x'); eq(os.listxattr('g'), [])
before = os.umask(0); os.mkdir('v', 0o777); eq(stat.S_IMODE(os.stat('v').st_mode), 0o777)
os.close(os.open('w', os.O_CREAT | os.O_WRONLY, 0o666)); eq(stat.S_IMODE(os.stat('w').st_mode), 0o666)
os.umask(before); os.rmdir('v'); os.unlink('w')
for n in range(500): open(f'n{n}', 'w').close()
eq(len(os.listdir('.')), 503); os.rename('n1', 'n0'); eq(len(os.listdir('.')), 502)
fd = os.open('n2', os.O_RDWR)
os.posix_fallocate(fd, 0, 1 << 20); eq(os.fstat(fd).st_size, 1 << 20)
m = mmap.mmap(fd, 8192); m[4096:4101] = b'store'; m.flush(); eq(os.pread(fd, 5, 4096), b'store')
fcntl.lockf(fd, fcntl.LOCK_EX); fcntl.flock(fd, fcntl.LOCK_EX)
os.unlink('n2'); eq(os.fstat(fd).st_nlink, 0); os.pwrite(fd, b'gone', 0); eq(os.pread(fd, 4, 0), b'gone')
to = os.open('copy', os.O_RDWR | os.O_CREAT); eq(os.copy_file_range(fd, to, 4), 4)
fd = os.open('holes', os.O_RDWR | os.O_CREAT); os.pwrite(fd, b'x', 1 << 20); os.fsync(fd)
eq(os.lseek(fd, 0, os.SEEK_DATA), 1 << 20)
try: os.open('copy', os.O_CREAT | os.O_EXCL); raise SystemExit('it exists')
except FileExistsError: pass
try: os.rmdir('..'); raise SystemExit('it is not empty')
except OSError: pass
assert os.statvfs('.').f_blocks > 0
";
    place.write("check.py", check.as_bytes())?;
    let line = format!("python3 -S {}/check.py", place.work().display());
    // First where no limit is: the check itself is right.
    recorded.predicted(stage, &["--on", ".", "--actual", &line])?;
    recorded.predicted(stage, &["--on", ".", "--limit", "iops=100000", "--actual", &line])?;
    nothing_is_left(place)
}
