//! How programs end that are executed again, and where their output goes.

use std::path::PathBuf;
use std::process::ExitCode;

use acceptance::place::{Outcome, Place, Who};
use acceptance::stage::Stage;
use acceptance::{Complaint, ensure, program, trials};

/// Exit codes.
const DIFFERENT: i32 = 4;
const STUCK: i32 = 5;

fn main() -> ExitCode {
    trials::main(|trials| {
        trials.add_for_both("a_fault_comes_again", None, |stage: &Stage, who| {
            ends(stage, who, &["same"], 0, "all as recorded")
        });
        trials.add_for_both("a_fault_of_a_child_comes_again", None, |stage: &Stage, who| {
            ends(stage, who, &["same", "child"], 0, "all as recorded")
        });
        trials.add_for_both("who_was_killed_is_killed", None, |stage: &Stage, who| {
            ends(stage, who, &["killed", "child"], 0, "all as recorded")
        });
        trials.add_for_both("who_was_killed_at_once_is_killed", None, |stage: &Stage, who| {
            ends(stage, who, &["at_once"], 0, "all as recorded")
        });
        trials.add_for_both("another_fault_is_found", None, |stage: &Stage, who| {
            let text = "recorded death by SIGSEGV, and there was death by SIGILL";
            ends(stage, who, &["illegal"], DIFFERENT, text)?;
            ends(stage, who, &["illegal", "child"], DIFFERENT, text)
        });
        // Its parent has ended before, so that somebody else is told how it died.
        trials.add_for_both("another_fault_of_an_orphan_is_found", None, |stage: &Stage, who| {
            ends(stage, who, &["same", "orphan"], 0, "all as recorded")?;
            let text = "recorded death by SIGSEGV, and there was death by SIGILL";
            let orphan = ["illegal", "orphan"];
            let told = ends(stage, who, &orphan, DIFFERENT, text);
            if keeps_statuses() {
                return told;
            }
            told.or_else(|error| {
                ends(stage, who, &orphan, 0, "how 1 process died could not be seen")
                    .map_err(|_| error)
            })
        });
        trials.add_for_both("an_exit_in_place_of_a_fault_is_found", None, |stage: &Stage, who| {
            ends(
                stage,
                who,
                &["exit"],
                DIFFERENT,
                "recorded death by SIGSEGV, made exit_group(0x0)",
            )
        });
        trials.add_for_both("a_loop_in_place_of_a_fault_is_found", None, |stage: &Stage, who| {
            ends(stage, who, &["loop", "child"], STUCK, "has not come to its next call")
        });
        let missing = trials::missing(&["gdb"]);
        trials.add_for_both("gdb_sees_a_fault", missing, gdb);
        trials.add_for_both("output_that_is_lost_is_told", None, lost_output);
        trials.add_for_both("streams_that_are_pipes_are_opened_again", None, pipes);
        Ok(())
    })
}

/// Whether the kernel tells how a process died that somebody else has waited for: Linux 6.15 and later do.
fn keeps_statuses() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let mut numbers = release.split(['.', '-']).map_while(|word| word.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(15))
}

fn recorded(stage: &Stage, place: &Place, words: &[&str]) -> Result<PathBuf, Complaint> {
    let program = program::named_in("tests/rerun", "ends")?.build(stage)?;
    let trace = place.trace("ends.rnt");
    let mut record = place.command(&stage.reenact);
    record.args(["record", "--quiet", "--force", "--rerunnable", "--output"]).arg(&trace);
    let outcome = place.run(record.arg("--").arg(program).args(words))?;
    ensure!(outcome.status.code() != Some(125), "record: {}", outcome.errors());
    Ok(trace)
}

/// Records the program, and executes it again.
fn ends(stage: &Stage, who: Who, words: &[&str], code: i32, told: &str) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = recorded(stage, &place, words)?;
    let mut rerun = place.command(&stage.reenact);
    // What it took in the recording counts 20 times, beside this.
    let outcome: Outcome = place.run(rerun.args(["rerun", "--stuck-after", "3"]).arg(&trace))?;
    let errors = outcome.errors();
    ensure!(outcome.status.code() == Some(code), "{:?}: {errors}", outcome.status);
    ensure!(errors.contains(told), "not told: {told}\n{errors}");
    Ok(())
}

/// gdb stops where the program dies.
fn gdb(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = recorded(stage, &place, &["same"])?;
    let mut rerun = place.command(&stage.reenact);
    rerun.args(["rerun", "--gdb"]).arg(&trace);
    rerun.args(["--", "-nx", "-batch", "-ex", "continue", "-ex", "backtrace"]);
    let said = place.run(&mut rerun)?.text();
    for wanted in ["SIGSEGV", "fault ()", "main ("] {
        ensure!(said.contains(wanted), "gdb has no {wanted}: {said}");
    }
    Ok(())
}

/// The program's output cannot be written, which changes nothing of what it does.
fn lost_output(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = recorded(stage, &place, &["at_once"])?;
    let mut rerun = place.command("sh");
    rerun.args(["-c", "\"$0\" rerun \"$1\" >/dev/full"]).arg(&stage.reenact).arg(&trace);
    let errors = place.run(&mut rerun)?.success("rerun")?.errors();
    ensure!(errors.contains("output is not all there: No space left on device"), "{errors}");
    Ok(())
}

/// Pipes are known by whatever name they were opened; other output is counted.
fn pipes(stage: &Stage, who: Who) -> Result<(), Complaint> {
    const SCRIPT: &str = "ln -s /dev/stdout l; echo 1; echo 2 >/dev/stdout; echo 3 >/dev/stderr; \
        echo 4 >/proc/self/fd/1; (echo 5 >/proc/$$/fd/2); echo 6 >l; exec 3>/dev/fd/2; echo 7 >&3; echo 8 >&4";
    let place = Place::new(stage, who)?;
    let trace = place.trace("pipes.rnt");
    let mut record = place.command("sh");
    record.args(["-c", "{ \"$0\" record -q --rerunnable -o \"$1\" -- sh -c \"$2\" 4>other 2>&5 | cat; } 5>&1 | cat"]);
    place.run(record.arg(&stage.reenact).arg(&trace).arg(SCRIPT))?.success("record")?;
    let mut rerun = place.command(&stage.reenact);
    let outcome = place.run(rerun.arg("rerun").arg(&trace))?.success("rerun")?;
    let (output, errors) = (outcome.text(), outcome.errors());
    ensure!(output == "1\n2\n4\n6\n", "{output:?}");
    ensure!(errors.starts_with("3\n5\n7\n"), "{errors:?}");
    ensure!(errors.contains("2 B went to others"), "{errors:?}");
    Ok(())
}
