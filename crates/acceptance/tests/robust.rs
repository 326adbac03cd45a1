//! The recorder is killed, disks are full, readers are slow, traces are damaged: the program runs
//! as if alone, and the trace says what happened.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use acceptance::conversation::Conversation;
use acceptance::place::{self, PATIENCE, Place, Who, record};
use acceptance::program;
use acceptance::shown::{self, Info};
use acceptance::stage::Stage;
use acceptance::tier::{self, Random};
use acceptance::{Complaint, ensure, trials};

fn main() -> ExitCode {
    trials::main(|trials| {
        trials.add_for_both("recorder_is_killed", None, |stage, who| {
            recorder_is_killed(stage, who, "")
        });
        trials.add_for_both("recorder_of_namespaces_is_killed", no_namespaces(), |stage, who| {
            recorder_is_killed(stage, who, IN_NAMESPACES)
        });
        trials.add_for_both("program_is_killed", None, program_is_killed);
        trials.add("disk_is_full", Who::Root, None, disk_is_full);
        trials.add("disk_is_full_before_the_start", Who::Root, None, disk_is_full_before_the_start);
        trials.add("disk_is_full_at_once", Who::Root, None, disk_is_full_at_once);
        trials.add("limited_files_of_a_tmpfs", Who::Root, None, limited_files_of_a_tmpfs);
        trials.add_for_both("recorder_is_recorded", None, recorder_is_recorded);
        trials.add_for_both("size_limit", None, size_limit);
        trials.add_for_both("slow_reader", None, slow_reader);
        trials.add_for_both("signal_is_forwarded", None, signal_is_forwarded);
        trials.add_for_both("one_thread_takes_signals", None, one_thread_takes_signals);
        let tools = trials::missing(&["bash", "cat", "head", "mkfifo"]);
        trials.add_for_both("orphans_that_execute_at_once", tools, orphans_that_execute_at_once);
        trials.add_for_both("terminal_interrupts_once", None, terminal_interrupts_once);
        trials.add_for_both("damaged_traces", None, damaged_traces);
        Ok(())
    })
}

fn build(stage: &Stage, name: &str) -> Result<String, Complaint> {
    Ok(program::named(name)?.build(stage)?.display().to_string())
}

/// Runs a reading command, which may fail but must not crash or hang.
fn reads(stage: &Stage, place: &Place, args: &[&str], trace: &Path) -> Result<String, Complaint> {
    let outcome = place.run(place.command(&stage.reenact).args(args).arg(trace))?;
    let said = outcome.errors();
    ensure!(
        matches!(outcome.status.code(), Some(0..=3)) && !said.contains("panicked"),
        "{args:?}: {}; it said:\n{said}",
        outcome.status
    );
    ensure!(
        outcome.status.success() || !said.trim().is_empty() || !outcome.stdout.is_empty(),
        "{args:?}: {} without a word",
        outcome.status
    );
    Ok(outcome.text() + &said)
}

/// Command prefix for namespaces in which the recorder's memory must be passed on.
const IN_NAMESPACES: &str = "unshare --user --map-root-user --ipc --pid --fork --mount";

fn no_namespaces() -> Option<&'static str> {
    (!trials::has(program::Need::UserNamespaces, Who::User)).then_some("user namespaces")
}

fn recorder_is_killed(stage: &Stage, who: Who, wrapper: &str) -> Result<(), Complaint> {
    let churn = build(stage, "churn")?;
    let place = Place::new(stage, who)?;
    let trace = place.trace("killed.rnt");
    // The expected output with exit code, and the duration of a recording.
    let script = format!("{wrapper} {churn} 7; echo code $?");
    let expected = place.run(place.command("sh").args(["-c", &script]))?.success("alone")?.stdout;
    let begun = Instant::now();
    let mut whole = record(stage, &place, &["--quiet"], &trace, &["sh", "-c", &script]);
    place.run(&mut whole)?.success("recorded")?;
    let span = begun.elapsed();
    let whole = Info::of(stage, &trace)?;
    whole.must_be_complete()?;

    let mut random = Random(tier::seed());
    for round in 0..tier::rounds(15, 100) {
        let _ = fs::remove_file(&trace);
        place.clear()?;
        let mut command = record(stage, &place, &["--quiet"], &trace, &["sh", "-c", &script]);
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start reenact: {error}"))?;
        let mut output = child.stdout.take().ok_or("no standard output")?;
        let moment = Duration::from_micros(random.below(span.as_micros() as u64));
        // The read ends when all processes holding the other end have ended.
        let reader = thread::spawn(move || {
            let mut bytes = Vec::new();
            output.read_to_end(&mut bytes).map(|_| bytes)
        });
        let told = |complaint: String| format!("round {round}, after {moment:?}: {complaint}");
        let ended = place::ends_within(&child, moment).map_err(told)?;
        if !ended {
            place::signal(&child, libc::SIGKILL).map_err(told)?;
        }
        child.wait().map_err(|error| told(error.to_string()))?;
        let printed = reader
            .join()
            .map_err(|_| told("the reader panicked".into()))?
            .map_err(|error| told(error.to_string()))?;
        // Killed before the program began: nothing to check.
        if printed.is_empty() && !ended {
            let made = place.files().map_err(told)?;
            ensure!(
                made.is_empty(),
                "round {round}, after {moment:?}: began but did not end: {made:?}"
            );
            continue;
        }
        ensure!(
            printed == expected,
            "round {round}, after {moment:?}: the program printed\n{}",
            String::from_utf8_lossy(&printed)
        );
        if ended {
            continue;
        }
        for args in [&["show", "--json", "--data", "none"][..], &["info"], &["info", "--verify"]] {
            reads(stage, &place, args, &trace).map_err(told)?;
        }
        if trace_has_a_head(&trace) {
            let info = Info::of(stage, &trace).map_err(told)?;
            if info.complete {
                // Killed after the trace was complete, before the recorder's own end.
                info.must_be_complete().map_err(told)?;
                for call in ["execve", "write", "exit_group"] {
                    ensure!(
                        info.count(call) == whole.count(call),
                        "round {round}, after {moment:?}: says it is complete, with {} of {} {call}",
                        info.count(call),
                        whole.count(call)
                    );
                }
                continue;
            }
            let said = reads(stage, &place, &["info"], &trace).map_err(told)?;
            ensure!(
                said.contains("recorder was lost"),
                "round {round}, after {moment:?}: does not say that the recorder was lost:\n{said}"
            );
        }
    }
    Ok(())
}

/// Returns whether the recorder got to write the first block.
fn trace_has_a_head(trace: &Path) -> bool {
    fs::metadata(trace).is_ok_and(|meta| meta.len() >= 4096)
}

fn program_is_killed(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let program = build(stage, "waits_for_line")?;
    let place = Place::new(stage, who)?;
    let trace = place.trace("killed.rnt");
    let command = record(stage, &place, &["--quiet"], &trace, &[&program, "1", "tell"]);
    let mut talk = Conversation::start(command)?;
    let pid = talk.ready()?;
    // SAFETY: kill takes two numbers; the process waits for a line of ours, so it is alive.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    let status = talk.end()?.1;
    ensure!(status.signal() == Some(libc::SIGKILL), "reenact ended with {status}");
    let info = Info::of(stage, &trace)?;
    info.must_be_complete()?;
    ensure!(info.count("write") == 1, "its write is missing: {info:?}");
    Ok(())
}

/// The outer recorder leaves alone what the inner one attaches to.
fn recorder_is_recorded(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let (outer, inner) = (place.trace("outer.rnt"), place.trace("inner.rnt"));
    let reenact = stage.reenact.display().to_string();
    let inner_name = inner.display().to_string();
    let command = ["env", "PATH=/no:/such:/folder:/usr/bin:/bin", &reenact, "record", "-q", "-o"];
    let command: Vec<&str> = command.into_iter().chain([inner_name.as_str(), "true"]).collect();
    let recorded = place.run(&mut record(stage, &place, &[], &outer, &command))?;
    let recorded = recorded.success("the outer one")?;
    Info::of(stage, &inner)?.must_be_complete()?;
    let info = Info::of(stage, &outer)?;
    info.must_be_complete_but_for(stage, &outer, &["traced".into()])?;
    ensure!(info.gaps == 1, "{} gaps for one program; {}", info.gaps, recorded.errors());
    ensure!(recorded.errors().contains("was traced by another"), "{}", recorded.errors());
    Ok(())
}

/// A mounted tmpfs that is unmounted on drop.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn new(at: PathBuf) -> Result<SmallDisk, Complaint> {
        fs::create_dir(&at).map_err(|error| error.to_string())?;
        let options = ["-t", "tmpfs", "-o", "size=8m,mode=0777", "tmpfs"];
        let mounted = Command::new("mount").args(options).arg(&at).status();
        ensure!(mounted.is_ok_and(|status| status.success()), "cannot mount a tmpfs");
        Ok(SmallDisk(at))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(&self.0).status();
        if !unmounted.is_ok_and(|status| status.success()) {
            eprintln!("{} is still mounted", self.0.display());
        }
    }
}

fn disk_is_full(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let writers = build(stage, "two_writers")?;
    let place = Place::new(stage, who)?;
    for round in 0..tier::rounds(4, 20) {
        let disk = SmallDisk::new(place.path(&format!("disk-{round}")))?;
        let trace = disk.0.join("full.rnt");
        // The disk may be almost full from the start.
        let taken = vec![1; Random(tier::seed() + u64::from(round)).below(7 << 20) as usize];
        fs::write(disk.0.join("taken"), taken).map_err(|error| error.to_string())?;
        let command = [writers.as_str(), "5", "4000"];
        let recorded = place.run(&mut record(stage, &place, &[], &trace, &command))?;
        let said = recorded.errors();
        ensure!(recorded.status.success(), "round {round}: {}; {said}", recorded.status);
        ensure!(
            said.contains("No space left") || said.contains("left on the trace's file system"),
            "round {round}: the message does not say that the disk is full:\n{said}"
        );
        let info = Info::of(stage, &trace).map_err(|c| format!("round {round}: {c}"))?;
        ensure!(!info.complete && info.gaps >= 1, "round {round}: says it is complete: {info:?}");
        reads(stage, &place, &["show", "--data", "none"], &trace)?;
        place.clear()?;
    }
    Ok(())
}

/// Nothing is left behind that would hinder the next try.
fn disk_is_full_before_the_start(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let disk = SmallDisk::new(place.path("disk"))?;
    let (trace, taken) = (disk.0.join("full.rnt"), disk.0.join("taken"));
    let fill = format!("head -c 20000000 /dev/zero > {} 2> /dev/null; :", taken.display());
    place.run(place.command("sh").args(["-c", &fill]))?.success("filling the disk")?;
    for options in [&[][..], &["--force"]] {
        let refused = place.run(&mut record(stage, &place, options, &trace, &["true"]))?;
        let said = refused.errors();
        ensure!(refused.status.code() == Some(125), "{}; {said}", refused.status);
        ensure!(said.contains("No space left"), "it does not say that the disk is full:\n{said}");
        let left = fs::read_dir(&disk.0).map_err(|error| error.to_string())?.count();
        ensure!(left == 1, "{} files beside the one that fills the disk", left - 1);
    }
    fs::remove_file(&taken).map_err(|error| error.to_string())?;
    place.run(&mut record(stage, &place, &[], &trace, &["true"]))?.success("the next try")?;
    Info::of(stage, &trace)?.must_be_complete()
}

/// Another file takes all remaining space between two checks of the recorder: the trace says so.
fn disk_is_full_at_once(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let disk = SmallDisk::new(place.path("disk"))?;
    let trace = disk.0.join("full.rnt");
    let fill = disk.0.join("fill");
    let script = format!(
        "head -c 2000000 /dev/urandom > before; head -c 20000000 /dev/zero > {fill} 2> /dev/null
         head -c 3000000 /dev/urandom > after; wc -c < after",
        fill = fill.display()
    );
    let recorded = place.run(&mut record(stage, &place, &[], &trace, &["sh", "-c", &script]))?;
    let said = recorded.errors();
    ensure!(recorded.status.success(), "{}; {said}", recorded.status);
    ensure!(recorded.text().trim() == "3000000", "the program: {}", recorded.text());
    ensure!(!said.contains("could not be finished"), "it was not ended:\n{said}");
    let info = Info::of(stage, &trace)?;
    ensure!(!info.complete && info.gaps >= 1, "says it is complete: {info:?}");
    let shown = reads(stage, &place, &["show", "--json", "--data", "none"], &trace)?;
    ensure!(shown.contains("\"type\":\"gap\""), "no gap is shown");
    Ok(())
}

/// On a tmpfs, even blocks reserved behind the end of a file count towards the file size limit.
fn limited_files_of_a_tmpfs(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let disk = SmallDisk::new(place.path("disk"))?;
    let trace = disk.0.join("limited.rnt");
    let script = format!(
        "ulimit -f 2048; exec {} record -o {} -- sh -c 'head -c 3000000 /dev/urandom | wc -c'",
        stage.reenact.display(),
        trace.display()
    );
    let recorded = place.run(place.command("sh").args(["-c", &script]))?;
    let said = recorded.errors();
    ensure!(recorded.status.success(), "{}; {said}", recorded.status);
    ensure!(recorded.text().trim() == "3000000", "the program: {}", recorded.text());
    ensure!(said.contains("ulimit -f"), "the limit is not named:\n{said}");
    let info = Info::of(stage, &trace)?;
    ensure!(!info.complete && info.gaps >= 1, "says it is complete: {info:?}");
    Ok(())
}

fn size_limit(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let writers = build(stage, "two_writers")?;
    let place = Place::new(stage, who)?;
    let trace = place.trace("limited.rnt");
    let command = [writers.as_str(), "5", "4000"];
    let recorded =
        place.run(&mut record(stage, &place, &["--max-size", "4M"], &trace, &command))?;
    ensure!(recorded.status.success(), "{}; {}", recorded.status, recorded.errors());
    ensure!(place.files()?.len() == 2, "the program did not write its files");
    let len = fs::metadata(&trace).map_err(|error| error.to_string())?.len();
    ensure!(len <= 5 << 20, "--max-size 4M made {len} bytes");
    ensure!(len >= 2 << 20, "--max-size 4M kept only {len} bytes");
    let info = Info::of(stage, &trace)?;
    ensure!(!info.complete && info.gaps >= 1, "says that it is complete: {info:?}");
    let mut gaps = Vec::new();
    shown::show(stage, &trace, &["--data", "none"], |event| {
        if event["type"] == "gap" {
            gaps.push(event["why"].as_str().unwrap_or_default().to_string());
        }
        Ok(())
    })?;
    ensure!(gaps.iter().any(|why| why.contains("size")), "no gap for the size limit: {gaps:?}");
    Ok(())
}

/// Speed of the slow reader in bytes per second.
const SLOW_BYTES_PER_S: u64 = 20_000_000;

fn slow_reader(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let writers = build(stage, "two_writers")?;
    let place = Place::new(stage, who)?;
    let writes = tier::rounds(12_000, 60_000).to_string();
    let mut command = place.command(&stage.reenact);
    // Uses the smallest buffer, which the error message names.
    let smallest = smallest_buffer(stage, &place)?;
    // The program's own output must not be mixed with the trace.
    let script = format!("{writers} 5 {writes} > /dev/null");
    command.args(["record", "--quiet", "--output", "-", "--buffer", &smallest, "--"]);
    command.args(["sh", "-c", &script]);
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start reenact: {error}"))?;
    let mut pipe = child.stdout.take().ok_or("no standard output")?;
    let trace = place.trace("slow.rnt");
    let mut file = File::create(&trace).map_err(|error| error.to_string())?;
    let mut chunk = vec![0; 1 << 18];
    let (begun, mut taken) = (Instant::now(), 0u64);
    loop {
        let n = pipe.read(&mut chunk).map_err(|error| error.to_string())?;
        if n == 0 {
            break;
        }
        file.write_all(&chunk[..n]).map_err(|error| error.to_string())?;
        taken += n as u64;
        let due = Duration::from_nanos(taken * 1_000_000_000 / SLOW_BYTES_PER_S);
        // This makes the reader slow; it does not need to be exact.
        thread::sleep(due.saturating_sub(begun.elapsed()));
    }
    let status = place::wait(child, PATIENCE, "reenact")?;
    ensure!(status.success(), "reenact ended with {status}");
    let info = Info::of(stage, &trace)?;
    info.must_be_complete()?;
    let made = 2 * writes.parse::<u64>().unwrap_or_default();
    ensure!(
        info.count("pwrite64") == made,
        "{made} writes made, {} recorded",
        info.count("pwrite64")
    );
    ensure!(info.stall_ns > 0, "no stall is reported");
    Ok(())
}

/// Finds the smallest value accepted by `--buffer`, as a user would.
fn smallest_buffer(stage: &Stage, place: &Place) -> Result<String, Complaint> {
    for exponent in 12..30 {
        let size = (1u64 << exponent).to_string();
        let mut command = place.command(&stage.reenact);
        command.args(["record", "--quiet", "--force", "--output"]).arg(place.trace("try.rnt"));
        let outcome = place.run(command.args(["--buffer", &size, "--", "true"]))?;
        if outcome.status.success() {
            return Ok(size);
        }
        ensure!(
            outcome.status.code() == Some(125) && outcome.errors().contains("buffer"),
            "--buffer {size}: {}; {}",
            outcome.status,
            outcome.errors()
        );
    }
    Err("no size of --buffer is accepted".into())
}

fn signal_is_forwarded(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let program = build(stage, "waits_for_line")?;
    let place = Place::new(stage, who)?;
    let trace = place.trace("terminated.rnt");
    let mut talk =
        Conversation::start(record(stage, &place, &["--quiet"], &trace, &[&program, "1"]))?;
    talk.ready()?;
    talk.signal(libc::SIGTERM)?;
    let status = talk.end()?.1;
    ensure!(status.code() == Some(3), "the program exits with 3 on SIGTERM, reenact: {status}");
    Info::of(stage, &trace)?.must_be_complete()
}

/// The thread that programs wait for sleeps until a signal comes: another that took it would leave it asleep.
fn one_thread_takes_signals(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = place.trace("signals.rnt");
    let look = "grep -H ^SigBlk: /proc/$PPID/task/*/status; i=0; while [ $i -lt 99999 ]; do i=$((i+1)); done";
    let options = ["--quiet", "--rerunnable"];
    let said = place.run(&mut record(stage, &place, &options, &trace, &["sh", "-c", look]))?;
    only_the_first_takes_signals(&said.success("recorded")?.text())?;
    let look = format!(
        "{} rerun --quiet {} & while grep -H ^SigBlk: /proc/$!/task/*/status; do sleep 0.01; done; wait $!",
        stage.reenact.display(),
        trace.display()
    );
    let said = place.run(place.command("sh").args(["-c", &look]))?;
    only_the_first_takes_signals(&said.success("re-executed")?.text())
}

/// Looks at masks of blocked signals, as `grep` prints them.
fn only_the_first_takes_signals(masks: &str) -> Result<(), Complaint> {
    const CHILD: u64 = 1 << (libc::SIGCHLD - 1);
    let mut others = 0;
    for line in masks.lines() {
        let mask = line.rsplit_once('\t').and_then(|(_, mask)| u64::from_str_radix(mask, 16).ok());
        let takes = mask.ok_or(line)? & CHILD == 0;
        let [_, _, process, _, thread, ..] = line.split('/').collect::<Vec<_>>()[..] else {
            return Err(line.into());
        };
        ensure!(process == thread || !takes, "{line} of\n{masks}");
        others += usize::from(process != thread);
    }
    ensure!(others > 2, "{masks}");
    Ok(())
}

/// A process whose maker has ended, and which executes a program while the recorder looks who it is, is not
/// lost: so many at once, since few come at that moment.
fn orphans_that_execute_at_once(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = place.trace("orphans.rnt");
    // A pipe for each: the next writer could open one while the last reader has it, which then gets what the
    // next reader would wait for.
    let script = "mkfifo p{1..400}; for n in {1..400}; do (cat p$n > got &); echo $n > p$n; \
                  head -c 100 /dev/zero | cat > copy; done";
    let mut record = record(stage, &place, &["--quiet"], &trace, &["bash", "-c", script]);
    place.run(&mut record)?.success("recorded")?;
    Info::of(stage, &trace)?.must_be_complete()?;
    // Who opens the pipe for writing would make it if it were not there, and waits for who reads it.
    place.run(place.command(&stage.reenact).arg("replay").arg(&trace))?.success("replayed")?;
    Ok(())
}

/// Opens a new terminal; returns the controlling side and the side for programs.
fn terminal() -> Result<(File, OwnedFd), Complaint> {
    let (mut ours, mut theirs) = (-1, -1);
    let nothing = std::ptr::null_mut();
    // SAFETY: the first two pointers are valid for writes; the others may be null.
    let opened = unsafe {
        libc::openpty(&mut ours, &mut theirs, nothing, nothing.cast_const().cast(), nothing.cast())
    };
    ensure!(opened == 0, "openpty: {}", std::io::Error::last_os_error());
    // SAFETY: openpty just returned these descriptors, so nothing else owns them.
    Ok(unsafe { (File::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) })
}

fn terminal_interrupts_once(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let program = build(stage, "waits_for_line")?;
    let place = Place::new(stage, who)?;
    // The last interrupt and the program's end reach the recorder at about the same time.
    (0..tier::rounds(5, 200)).try_for_each(|_| is_interrupted_once(stage, &place, &program))
}

fn is_interrupted_once(stage: &Stage, place: &Place, program: &str) -> Result<(), Complaint> {
    let trace = place.trace("interrupted.rnt");
    let (mut keyboard, theirs) = terminal()?;
    // A new session on this terminal, with reenact and the program in its foreground.
    let mut command = place.command("setsid");
    command.args(["--ctty", "--wait"]).arg(&stage.reenact).args(["record", "-q", "--force"]);
    command.arg("-o").arg(&trace).arg("--").arg(program).arg("1");
    let child = command
        .stdin(theirs)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cannot start setsid: {error}"))?;
    drop(command);
    let mut talk = Conversation::with(child)?;
    talk.ready()?;
    let times = 10;
    for _ in 0..times {
        keyboard.write_all(b"\x03").map_err(|error| error.to_string())?;
        let line = talk.line()?;
        ensure!(line == "interrupted\n", "it printed {line}");
    }
    keyboard.write_all(b"\n").map_err(|error| error.to_string())?;
    let rest = talk.rest()?;
    ensure!(
        rest.contains(&format!("interrupted {times} times")),
        "sent {times}, it printed {rest}"
    );
    Info::of(stage, &trace)?.must_be_complete()
}

fn damaged_traces(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let vectors = build(stage, "vectors")?;
    let place = Place::new(stage, who)?;
    let trace = place.trace("sound.rnt");
    let mut command = record(stage, &place, &["--quiet"], &trace, &[&vectors, "3"]);
    place.run(&mut command)?.success("recorded")?;
    let sound = fs::read(&trace).map_err(|error| error.to_string())?;
    let mut random = Random(tier::seed());
    let damaged = place.trace("damaged.rnt");
    for round in 0..tier::rounds(60, 2000) {
        let mut bytes = sound.clone();
        match random.below(4) {
            0 => bytes.truncate(random.below(sound.len() as u64) as usize),
            1 => {
                for _ in 0..=random.below(8) {
                    let at = random.below(sound.len() as u64) as usize;
                    bytes[at] ^= 1 << random.below(8);
                }
            }
            2 => {
                let from = random.below(sound.len() as u64) as usize;
                let to = (from + random.below(5000) as usize).min(bytes.len());
                bytes[from..to].iter_mut().for_each(|byte| *byte = random.word() as u8);
            }
            _ => {
                let from = random.below(sound.len() as u64) as usize;
                let moved = bytes.split_off(from);
                bytes.extend_from_slice(&moved[moved.len() / 2..]);
            }
        }
        fs::write(&damaged, &bytes).map_err(|error| error.to_string())?;
        for args in [
            &["info", "--verify", "--json"][..],
            &["show", "--json"],
            &["show"],
            &["cat", "--seq", "40"],
        ] {
            reads(stage, &place, args, &damaged).map_err(|c| format!("round {round}: {c}"))?;
        }
    }
    Ok(())
}
