//! Programs of which calls are not recorded: the trace says so.

use std::process::Command;

use acceptance::place::{Place, Who};
use acceptance::shown::Info;
use acceptance::stage::{self, Stage, open_to_all};
use acceptance::trials::{self, Trials};
use acceptance::{Complaint, ensure};

use crate::{gaps, record};

pub fn add(trials: &mut Trials) {
    let missing = trials::missing(&["cc"]);
    for how in ["stop", "stop-for-a-moment", "bury", "wipe"] {
        trials.add_for_both(&format!("own_recording/{how}"), missing, move |stage, who| {
            is_told(stage, who, how)
        });
    }
    trials.add_for_both("no_room_for_the_agent", None, no_room);
}

/// A program wrote over the memory that it shares with the recorder.
fn is_told(stage: &Stage, who: Who, how: &str) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let program = place.path("silence");
    let source = stage::repository().join("tests/attacks/silence.c");
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu17", "-O2", "-Wall", "-Wextra", "-o"]).arg(&program).arg(source);
    let built = cc.output().map_err(|error| format!("cannot run cc: {error}"))?;
    ensure!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    open_to_all(&program)?;
    let (name, trace) = (program.display().to_string(), place.trace("silence.rnt"));
    let recorded = place.run(&mut record(stage, &place, &[], &trace, &[&name, how]))?;
    ensure!(recorded.status.code() == Some(3), "{}; {}", recorded.status, recorded.errors());
    ensure!(recorded.errors().contains("not complete"), "it said:\n{}", recorded.errors());
    let info = Info::of(stage, &trace)?;
    ensure!(!info.complete && info.gaps >= 1, "it says that nothing is missing: {info:?}");
    // Nothing is missing of others, nor of the same program when it behaves.
    let fine = place.trace("fine.rnt");
    place.run(&mut record(stage, &place, &["-q"], &fine, &["/bin/true"]))?.success("true")?;
    Info::of(stage, &fine)?.must_be_complete()
}

/// A program with less memory than the agent needs runs all the same.
fn no_room(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = place.trace("small.rnt");
    let script = "ulimit -v 100000; exec echo runs";
    let mut command = record(stage, &place, &["-q"], &trace, &["sh", "-c", script]);
    let recorded = place.run(&mut command)?.success("recorded")?;
    ensure!(recorded.text() == "runs\n", "it printed {}", recorded.text());
    let found = gaps(stage, &trace)?;
    let told = |(why, text): &(String, String)| why == "not-followed" && text.contains("ulimit -v");
    ensure!(found.len() == 1 && found.iter().all(told), "the gaps are {found:?}");
    Ok(())
}
