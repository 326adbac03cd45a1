//! Signals sent to the recorder: meant for the program, for its process group, or for itself.

use std::fs;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::Duration;

use acceptance::place::{self, PATIENCE, Place, Who};
use acceptance::shown::Info;
use acceptance::stage::{Stage, open_to_all};
use acceptance::trials::Trials;
use acceptance::{Complaint, ensure};

use crate::{appears, gaps, record};

pub fn add(trials: &mut Trials) {
    trials.add_for_both("signals_to_the_group_are_survived", None, to_the_group);
    trials.add_for_both("signals_to_the_group_come_once", None, come_once);
    trials.add_for_both("told_twice_it_ends", None, told_twice);
    trials.add_for_both("told_at_the_same_time_it_is_once", None, told_at_once);
    trials.add_for_both("told_when_the_program_has_ended", None, told_when_ended);
    trials.add_for_both("told_a_third_time_it_does_not_wait", None, told_a_third_time);
    trials.add_for_both("a_program_does_not_tell_it_to_end", None, told_by_the_program);
    trials.add_for_both("every_signal_is_passed_on", None, passed_on);
    trials.add_for_both("killed_by_its_own_exec", None, killed_by_its_exec);
}

/// Longer than the time in which the recorder treats two signals as one.
const LATER: Duration = Duration::from_millis(600);

/// All signals that a shell can ignore.
const SURVIVABLE: &[&str] = &[
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "USR1", "SEGV", "USR2", "PIPE",
    "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "URG", "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH",
    "IO", "PWR", "SYS", "RTMIN", "RTMIN+1", "RTMIN+7", "RTMAX-1", "RTMAX",
];

/// A program that signals its whole process group and ignores the signal is still recorded.
fn to_the_group(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    for signal in SURVIVABLE {
        let trace = place.trace(&format!("{signal}.rnt"));
        let script = format!("trap '' {signal}; kill -{signal} 0; sleep 0.02; echo goes on");
        let told = |complaint| format!("{signal}: {complaint}");
        let mut command = record(stage, &place, &["--quiet"], &trace, &["bash", "-c", &script]);
        let outcome = place.run(&mut command)?.success(signal)?;
        ensure!(outcome.text() == "goes on\n", "{signal}: it printed {}", outcome.text());
        Info::of(stage, &trace).and_then(|info| info.must_be_complete()).map_err(told)?;
    }
    Ok(())
}

/// The recorder does not pass on what a program sends to its own group.
fn come_once(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = place.trace("once.rnt");
    let script = "trap 'echo got it' USR1; for i in $(seq 40); do
                      (trap '' USR1; kill -USR1 0); sleep 0.02; done";
    let mut command = record(stage, &place, &["--quiet"], &trace, &["bash", "-c", script]);
    let outcome = place.run(&mut command)?.success("recorded")?;
    let times = outcome.text().lines().count();
    ensure!(times == 40, "it came {times} times instead of 40");
    Info::of(stage, &trace)?.must_be_complete()
}

/// A running recording of a shell script that creates a file when it has begun.
struct Running {
    place: Place,
    child: Child,
}

impl Running {
    fn start(stage: &Stage, who: Who, script: &str) -> Result<Running, Complaint> {
        let place = Place::new(stage, who)?;
        let trace = place.trace("told.rnt");
        let script = format!("trap '' INT TERM; {script}");
        let mut command = record(stage, &place, &[], &trace, &["bash", "-c", &script]);
        let stderr = fs::File::create(place.path("said")).map_err(|error| error.to_string())?;
        command.stdout(Stdio::null()).stderr(stderr);
        let child = command.spawn().map_err(|error| format!("cannot start reenact: {error}"))?;
        appears(&place.work().join("begun"))?;
        Ok(Running { place, child })
    }

    fn tell(&self, signal: i32) -> Result<(), Complaint> {
        place::signal(&self.child, signal)
    }

    /// Waits for the end, and returns what was printed and the exit status.
    fn end(self) -> Result<(Place, ExitStatus, String), Complaint> {
        let status = place::wait(self.child, PATIENCE, "reenact")?;
        let said = fs::read_to_string(self.place.path("said"));
        Ok((self.place, status, said.map_err(|error| error.to_string())?))
    }
}

fn must_say_who_told(stage: &Stage, trace: &Path, signal: &str) -> Result<(), Complaint> {
    let found = gaps(stage, trace)?;
    let fits = |(why, text): &(String, String)| why == "interrupted" && text.contains(signal);
    ensure!(found.len() == 1 && found.iter().all(fits), "the gaps are {found:?}");
    let info = Info::of(stage, trace)?;
    ensure!(!info.complete && info.lost == 0, "it says {info:?}");
    Ok(())
}

/// The first signal is passed on to the program, which ignores it. The second one ends the
/// recording, but not the program.
fn told_twice(stage: &Stage, who: Who) -> Result<(), Complaint> {
    for (signal, name) in [(libc::SIGTERM, "SIGTERM"), (libc::SIGINT, "SIGINT")] {
        let script = "touch begun; until [ -e go ]; do sleep 0.01; done; touch on";
        let running = Running::start(stage, who, script)?;
        running.tell(signal)?;
        ensure!(!place::ends_within(&running.child, LATER)?, "{name}: once is enough");
        running.tell(signal)?;
        let (place, status, said) = running.end()?;
        ensure!(status.signal() == Some(signal), "{name}: {status}");
        ensure!(said.contains("asked to end"), "{name}: it said:\n{said}");
        must_say_who_told(stage, &place.trace("told.rnt"), name)?;
        place.write("go", b"")?;
        appears(&place.work().join("on"))?;
    }
    Ok(())
}

/// `timeout` signals its child, and then the group: signals close together count as one.
fn told_at_once(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let script = "touch begun; until [ -e go ]; do sleep 0.01; done; exit 4";
    let running = Running::start(stage, who, script)?;
    for _ in 0..5 {
        running.tell(libc::SIGTERM)?;
    }
    ensure!(!place::ends_within(&running.child, LATER)?, "it took them for several");
    running.place.write("go", b"")?;
    let (place, status, said) = running.end()?;
    ensure!(status.code() == Some(4), "{status}; it said:\n{said}");
    Info::of(stage, &place.trace("told.rnt"))?.must_be_complete()
}

/// After the program has ended, a signal is for the recorder itself.
fn told_when_ended(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let script = "(touch begun; until [ -e go ]; do sleep 0.01; done; touch on) & exit 3";
    let running = Running::start(stage, who, script)?;
    // The program may need a moment to end.
    sleep(LATER);
    running.tell(libc::SIGTERM)?;
    let (place, status, said) = running.end()?;
    ensure!(status.code() == Some(3), "{status}; it said:\n{said}");
    must_say_who_told(stage, &place.trace("told.rnt"), "SIGTERM")?;
    place.write("go", b"")?;
    appears(&place.work().join("on"))
}

/// The trace goes to a pipe that is never read, so that it cannot be ended.
fn told_a_third_time(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let script = "trap '' TERM; touch begun; seq 6000000 > noise; touch on";
    let mut command = place.command(&stage.reenact);
    command.args(["record", "--output", "-", "--compress", "none", "--buffer", "1M"]);
    command.args(["--", "bash", "-c", script]);
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| format!("cannot start reenact: {error}"))?;
    let _unread = child.stdout.take();
    appears(&place.work().join("begun"))?;
    for _ in 0..2 {
        sleep(LATER);
        place::signal(&child, libc::SIGTERM)?;
    }
    // By then, everything that can be written is written.
    sleep(LATER);
    if !place::ends_within(&child, LATER)? {
        place::signal(&child, libc::SIGTERM)?;
    }
    let status = place::wait(child, PATIENCE, "reenact")?;
    ensure!(status.signal() == Some(libc::SIGTERM), "{status}");
    appears(&place.work().join("on"))
}

fn told_by_the_program(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = place.trace("told.rnt");
    let script = "trap '' TERM INT
                  for i in 1 2 3; do kill -TERM $PPID; (kill -INT 0); sleep 0.4; done
                  (sleep 0.4; for i in 1 2 3; do kill -TERM 0; sleep 0.4; done; touch last) &
                  exit 7";
    let outcome = place.run(&mut record(stage, &place, &[], &trace, &["bash", "-c", script]))?;
    ensure!(outcome.status.code() == Some(7), "{}; {}", outcome.status, outcome.errors());
    appears(&place.work().join("last"))?;
    Info::of(stage, &trace)?.must_be_complete()
}

/// Every signal sent to the recorder alone is passed on to the program.
fn passed_on(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let rest = [libc::SIGUSR1, libc::SIGABRT, libc::SIGTRAP, libc::SIGIO, libc::SIGRTMIN() + 3];
    for signal in rest.into_iter().chain([libc::SIGTERM, libc::SIGCONT]) {
        let script = format!(
            "trap 'echo got it > got' {signal}; touch begun; until [ -e got ]; do sleep 0.01; done"
        );
        let running = Running::start(stage, who, &script)?;
        running.tell(signal)?;
        let (place, status, said) = running.end()?;
        ensure!(status.success(), "signal {signal}: {status}; it said:\n{said}");
        Info::of(stage, &place.trace("told.rnt"))?.must_be_complete()?;
    }
    Ok(())
}

/// When the kernel notices that it cannot load this image, the old one is gone: it kills the
/// process.
fn killed_by_its_exec(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let mut image = vec![0u8; 4096];
    let mut put = |at: usize, bytes: &[u8]| image[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"\x7fELF\x02\x01\x01");
    // An x86-64 executable with one program header.
    put(16, &[2, 0, 62, 0, 1, 0, 0, 0]);
    put(24, &0x7fff_ffff_f000u64.to_le_bytes());
    put(32, &64u64.to_le_bytes());
    put(52, &[64, 0, 56, 0, 1, 0, 0, 0, 0, 0]);
    // The segment is to be loaded at an address of the kernel.
    put(64, &[1, 0, 0, 0, 5, 0, 0, 0]);
    put(80, &0x7fff_ffff_f000u64.to_le_bytes());
    put(96, &4096u64.to_le_bytes());
    put(104, &0x10000u64.to_le_bytes());
    let path = place.work().join("image");
    let mut file = fs::File::create(&path).map_err(|error| error.to_string())?;
    file.write_all(&image).map_err(|error| error.to_string())?;
    drop(file);
    open_to_all(&path)?;
    let alone = place.run(&mut place.command(&path))?;
    ensure!(alone.status.signal().is_some(), "alone: {}", alone.status);
    let trace = place.trace("exec.rnt");
    let name = path.display().to_string();
    let recorded = place.run(&mut record(stage, &place, &[], &trace, &[&name]))?;
    let said = recorded.errors();
    ensure!(recorded.status == alone.status, "{}, alone {}", recorded.status, alone.status);
    ensure!(said.contains("was killed before it began"), "it said:\n{said}");
    ensure!(!trace.exists(), "a trace of nothing is left");
    // If another program executes it, nothing is missing in the trace.
    let script = format!("{name}; echo $?");
    let within = place.run(&mut record(stage, &place, &[], &trace, &["sh", "-c", &script]))?;
    ensure!(within.status.success(), "within a shell: {}; {}", within.status, within.errors());
    Info::of(stage, &trace)?.must_be_complete()
}
