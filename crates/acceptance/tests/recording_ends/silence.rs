//! Programs whose calls are not recorded: the trace says so.

use acceptance::place::{Place, Who};
use acceptance::shown::{Info, calls};
use acceptance::stage::Stage;
use acceptance::trials::{self, Trials};
use acceptance::{Complaint, ensure};

use crate::{attack, gaps, record};

pub fn add(trials: &mut Trials) {
    let missing = trials::missing(&["cc"]);
    for how in ["stop", "stop-for-a-moment", "bury", "wipe"] {
        trials.add_for_both(&format!("own_recording/{how}"), missing, move |stage, who| {
            is_told(stage, who, how)
        });
    }
    trials.add_for_both("no_room_for_the_agent", None, no_room);
    trials.add_for_both("programs_that_appear", missing, appear);
    trials.add_for_both("gaps_of_one_kind_are_told_together", None, are_told_together);
}

/// A program overwrites the memory that it shares with the recorder.
fn is_told(stage: &Stage, who: Who, how: &str) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let (name, trace) = (attack(stage, "silence")?, place.trace("silence.rnt"));
    let recorded = place.run(&mut record(stage, &place, &[], &trace, &[&name, how]))?;
    ensure!(recorded.status.code() == Some(3), "{}; {}", recorded.status, recorded.errors());
    ensure!(recorded.errors().contains("not complete"), "it said:\n{}", recorded.errors());
    let info = Info::of(stage, &trace)?;
    ensure!(!info.complete && info.gaps >= 1, "it says that nothing is missing: {info:?}");
    // A recording of a well-behaved program is complete.
    let fine = place.trace("fine.rnt");
    place.run(&mut record(stage, &place, &["-q"], &fine, &["/bin/true"]))?.success("true")?;
    Info::of(stage, &fine)?.must_be_complete()
}

/// Many gaps of one kind are printed in one line, with their number, program and processes.
fn are_told_together(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = place.trace("many.rnt");
    let script = "for i in 1 2 3 4 5 6; do (ulimit -v 100000; exec /bin/true); done; exec true";
    let mut command = record(stage, &place, &["-q"], &trace, &["sh", "-c", script]);
    place.run(&mut command)?.success("recorded")?;
    let mut info = place.command(&stage.reenact);
    let text = place.run(info.arg("info").arg(&trace))?.success("info")?.text();
    let told: Vec<&str> = text.lines().filter(|line| line.starts_with("gap ")).collect();
    let [line] = told[..] else { return Err(format!("it says:\n{}", told.join("\n"))) };
    ensure!(line.contains("6 times") && line.contains("process"), "it says: {line}");
    ensure!(line.contains("/bin/true"), "it names no program: {line}");
    Ok(())
}

/// A program with less memory than the agent needs still runs.
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

/// Of programs that were not there when they were looked for, and were when they were started, each is recorded
/// or told; those that were not there leave nothing.
fn appear(stage: &Stage, who: Who) -> Result<(), Complaint> {
    const TIMES: u64 = 600;
    let place = Place::new(stage, who)?;
    let (name, trace) = (attack(stage, "appears")?, place.trace("appears.rnt"));
    let times = TIMES.to_string();
    let recorded = place.run(&mut record(stage, &place, &["-q"], &trace, &[&name, &times]))?;
    let recorded = recorded.success("recorded")?;
    let printed = recorded.text();
    let numbers: Vec<u64> = printed.split_whitespace().flat_map(str::parse).collect();
    let [ran, absent] = numbers[..] else { return Err(format!("it printed {printed}")) };
    ensure!(ran > 0 && absent > 0 && ran + absent == TIMES, "{ran} ran, {absent} were absent");
    let (seen, told) = (calls(stage, &trace, "getpgid")?.len() as u64, gaps(stage, &trace)?);
    let whys = |(why, text): &(String, String)| {
        why == "not-followed" && text.contains("made in the instant")
    };
    ensure!(told.iter().all(whys), "the gaps are {told:?}");
    ensure!(seen + told.len() as u64 == ran, "{ran} ran, {seen} recorded, {} told", told.len());
    Ok(())
}
