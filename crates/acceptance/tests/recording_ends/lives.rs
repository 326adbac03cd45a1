//! Attacks on the lives of processes: stops, kills, orphans, a recorder within a recording.

use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use acceptance::place::{self, PATIENCE, Place, Who};
use acceptance::shown::{self, Info};
use acceptance::stage::Stage;
use acceptance::trials::{self, Trials};
use acceptance::{Complaint, ensure};

use crate::{appears, gaps, record};

pub fn add(trials: &mut Trials) {
    for (name, script) in SCRIPTS {
        let check = move |stage: &Stage, who| ends_complete(stage, who, script);
        trials.add_for_both(&format!("lives/{name}"), None, check);
    }
    trials.add_for_both("killed_unseen", trials::missing(&["python3"]), killed_unseen);
    trials.add_for_both("recorder_is_stopped", None, recorder_is_stopped);
    trials.add_for_both("recorder_in_a_recording", trials::missing(&["cat"]), nested);
}

const SCRIPTS: &[(&str, &str)] = &[
    (
        "stopped_and_continued_in_an_exec",
        "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
             (for j in 1 2 3 4 5; do /bin/true; done) & p=$!
             (for k in 1 2 3 4 5 6; do kill -STOP $p; kill -CONT $p; done) 2> /dev/null &
         done; wait; echo the end",
    ),
    (
        "killed_at_any_time",
        "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do
             (while :; do /bin/true; done) & p=$!; sleep 0.0$((RANDOM % 9)); kill -9 $p
         done; wait; echo the end",
    ),
    (
        "group_is_killed",
        "for i in 1 2 3 4 5 6; do
             setsid bash -c '(while :; do (/bin/true | /bin/true); done) & exec sleep 100' & p=$!
             sleep 0.1; kill -9 -- -$p; wait $p
         done; echo the end",
    ),
    (
        "orphans",
        "for i in 1 2 3 4 5 6 7 8; do ( (sleep 0.05; exec /bin/true) & (sleep 0.05; :) & ); done
         echo the end",
    ),
    (
        "recorder_gets_many_signals",
        "trap '' USR1 USR2 WINCH CONT HUP; recorder=$PPID
         for i in 1 2 3 4; do
             (for j in 1 2 3 4 5 6 7 8 9 10; do
                 for signal in USR1 USR2 WINCH CONT HUP; do kill -$signal $recorder; done
             done) &
         done; wait; echo the end",
    ),
];

/// A process that ends by a signal, and cannot be looked into by its own user.
const HIDES: &str = "
import ctypes, os, signal
if os.fork() == 0:
    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
    os.kill(os.getpid(), signal.SIGKILL)
print(os.wait()[1])";

fn ends_complete(stage: &Stage, who: Who, script: &str) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = place.trace("lives.rnt");
    let mut command = record(stage, &place, &["-q"], &trace, &["bash", "-c", script]);
    let recorded = place.run(&mut command)?.success("recorded")?;
    ensure!(recorded.text() == "the end\n", "it printed {}", recorded.text());
    Info::of(stage, &trace)?.must_be_complete()
}

/// How a process has ended is said if it is known, and not made up.
fn killed_unseen(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = place.trace("hides.rnt");
    let mut command = record(stage, &place, &["-q"], &trace, &["python3", "-c", HIDES]);
    let recorded = place.run(&mut command)?.success("recorded")?;
    ensure!(recorded.text() == "9\n", "it printed {}", recorded.text());
    let mut ends = Vec::new();
    shown::show(stage, &trace, &["--data", "none"], |event| {
        if event["type"] == "exit" && event["scope"] == "process" {
            ends.push(event.clone());
        }
        Ok(())
    })?;
    let exited = ends.iter().filter(|event| event["status"]["exited"] == 0).count();
    ensure!(ends.len() == 2 && exited == 1, "ends: {ends:?}");
    Ok(())
}

/// Stopping a job stops the recorder as well; both continue later.
fn recorder_is_stopped(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = place.trace("stopped.rnt");
    let script =
        "touch begun; for i in 1 2 3 4 5 6 7 8 9 10; do /bin/true; sleep 0.05; done; exit 6";
    let mut command = record(stage, &place, &["-q"], &trace, &["sh", "-c", script]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().map_err(|error| format!("cannot start reenact: {error}"))?;
    appears(&place.work().join("begun"))?;
    for signal in [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU, libc::SIGSTOP] {
        place::signal(&child, signal)?;
        sleep(Duration::from_millis(60));
        place::signal(&child, libc::SIGCONT)?;
        sleep(Duration::from_millis(20));
    }
    let status = place::wait(child, PATIENCE, "reenact")?;
    ensure!(status.code() == Some(6), "{status}");
    Info::of(stage, &trace)?.must_be_complete()
}

/// The inner recording is complete; the outer one reports that its programs are traced.
fn nested(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let (outer, inner) = (place.trace("outer.rnt"), place.trace("inner.rnt"));
    let (reenact, to) = (stage.reenact.display().to_string(), inner.display().to_string());
    let script = "/bin/true; echo inner | cat; (exit 3); exec /bin/true";
    let command = [&*reenact, "record", "-q", "-o", &to, "--", "sh", "-c", script];
    let recorded = place.run(&mut record(stage, &place, &["-q"], &outer, &command))?;
    let recorded = recorded.success("recorded twice")?;
    ensure!(recorded.text() == "inner\n", "it printed {}", recorded.text());
    Info::of(stage, &inner)?.must_be_complete()?;
    let found = gaps(stage, &outer)?;
    ensure!(found.iter().all(|(why, _)| why == "traced"), "the gaps are {found:?}");
    Ok(())
}
