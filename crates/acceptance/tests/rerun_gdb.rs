//! `reenact rerun --gdb`: gdb looks at programs that are executed again.

use std::path::PathBuf;
use std::process::ExitCode;

use acceptance::place::{Outcome, Place, Who};
use acceptance::stage::Stage;
use acceptance::{Complaint, ensure, program, trials};

fn main() -> ExitCode {
    trials::main(|trials| {
        let missing = trials::missing(&["gdb"]);
        trials.add_for_both("two_runs_are_the_same", missing, two_runs);
        trials.add_for_both("goto_goes_on_and_back", missing, goto);
        trials.add_for_both("a_program_that_is_executed_is_reached", missing, executed);
        trials.add_for_both("children_have_no_breakpoints", missing, children);
        trials.add_for_both("what_is_changed_is_found", missing, changed);
        Ok(())
    })
}

/// A recording of the program that is looked at.
struct Recording {
    place: Place,
    trace: PathBuf,
    output: String,
}

impl Recording {
    fn new(stage: &Stage, who: Who, args: &[&str]) -> Result<Recording, Complaint> {
        let program = program::named_in("tests/rerun", "watched")?.build(stage)?;
        let place = Place::new(stage, who)?;
        let trace = place.trace("watched.rnt");
        let mut record = place.command(&stage.reenact);
        record.args(["record", "--quiet", "--rerunnable", "--output"]).arg(&trace);
        let output = place.run(record.arg("--").arg(program).args(args))?.success("record")?;
        Ok(Recording { place, trace, output: output.text() })
    }

    /// Numbers of the calls with that name.
    fn calls(&self, stage: &Stage, name: &str) -> Result<Vec<u64>, Complaint> {
        let mut show = self.place.command(&stage.reenact);
        let shown =
            self.place.run(show.args(["show", "--seq", "--call", name]).arg(&self.trace))?;
        let shown = shown.success("show")?.text();
        let numbers = shown.lines().map(|line| line.split_whitespace().next().unwrap_or_default());
        numbers.map(|seq| seq.parse().map_err(|_| format!("no number in {shown}"))).collect()
    }

    fn gdb(&self, stage: &Stage, commands: &[&str]) -> Result<Outcome, Complaint> {
        let mut rerun = self.place.command(&stage.reenact);
        rerun.arg("rerun").arg("--gdb").arg(&self.trace).args(["--", "-nx", "-batch"]);
        self.place.run(rerun.args(commands.iter().flat_map(|command| ["-ex", command])))
    }
}

/// What gdb said about the program, without the ids of processes of today.
fn said(outcome: &Outcome) -> Vec<String> {
    let text = outcome.text();
    let lines = text.lines().filter(|line| !line.contains("process "));
    lines.map(str::to_owned).collect()
}

fn must_have(text: &str, wanted: &[&str]) -> Result<(), Complaint> {
    for word in wanted {
        ensure!(text.contains(word), "no {word:?} in:\n{text}");
    }
    Ok(())
}

/// Values, the place of a watchpoint and the calls around them are the same each time.
fn two_runs(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let recording = Recording::new(stage, who, &[])?;
    let commands = [
        "break drawn",
        "continue",
        "finish",
        "print $",
        "reenact when",
        "delete",
        "watch total",
        "continue",
        "print total",
        "print &total",
        "info registers rip rsp",
        "reenact when",
        "backtrace",
        "continue",
    ];
    let first = recording.gdb(stage, &commands)?.success("gdb")?;
    let text = first.text();
    must_have(&text, &["Old value = 0", "New value = ", "after call ", "drawn (number=0)"])?;
    must_have(&first.errors(), &["all as recorded"])?;
    let drawn = recording.output.lines().next().and_then(|line| line.split(' ').nth(1));
    let value = format!("Value returned is $1 = {}", drawn.unwrap_or("?"));
    must_have(&text, &[&value])?;
    let second = recording.gdb(stage, &commands)?.success("gdb")?;
    ensure!(said(&first) == said(&second), "first:\n{text}\nsecond:\n{}", second.text());
    Ok(())
}

/// To a later call, to an earlier one, and to one that is not there.
fn goto(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let recording = Recording::new(stage, who, &[])?;
    let drawn = recording.calls(stage, "getppid")?;
    let [late, early] = [drawn[2], drawn[0]].map(|seq| format!("reenact goto {seq}"));
    let values = ["reenact when", "up", "print by_chance", "print number"];
    let commands = [&[&late[..]][..], &values, &[&early], &values, &[&late], &values].concat();
    let text = recording.gdb(stage, &commands)?.success("gdb")?.text();
    let value = |n: usize| {
        let start = format!("${n} = ");
        text.lines().find_map(|line| line.strip_prefix(&start)).unwrap_or_default()
    };
    ensure!([2, 4, 6].map(value) == ["2", "0", "2"], "other calls:\n{text}");
    ensure!(value(1) == value(5) && value(1) != value(3), "other values:\n{text}");
    must_have(&text, &[&format!("before call {}: getppid()", drawn[0])])?;
    let outcome = recording.gdb(stage, &["reenact goto 100000", "run"])?;
    must_have(&outcome.errors(), &["numbered from 0"])?;
    let outcome = recording.gdb(stage, &["run"])?;
    must_have(&outcome.errors(), &["runs already"])
}

/// gdb is told to let go of a process that executes another program, and finds it there.
fn executed(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let recording = Recording::new(stage, who, &["again"])?;
    let last = *recording.calls(stage, "execve")?.last().ok_or("no execve")?;
    let there = format!("reenact goto {}", last + 1);
    let commands = [
        "continue",
        "backtrace",
        &there,
        "break drawn",
        "continue",
        "print argc",
        "up",
        "print argc",
    ];
    let outcome = recording.gdb(stage, &commands)?;
    let told = format!("call {last} executes another program");
    must_have(
        &outcome.text(),
        &[&told, "in main", &format!("before call {}", last + 1), "$1 = 1"],
    )?;
    must_have(&outcome.text(), &["drawn (number=0)"])
}

/// A child, which gdb does not follow, runs with what its files have.
fn children(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let recording = Recording::new(stage, who, &[])?;
    let commands = ["break drawn", "continue", "ignore 1 100", "continue"];
    let outcome = recording.gdb(stage, &commands)?.success("gdb")?;
    must_have(&outcome.errors(), &["all as recorded"])?;
    let child = recording.output.lines().last().unwrap_or_default();
    ensure!(child.starts_with("child "), "{}", recording.output);
    must_have(&outcome.text(), &[child, "exited normally"])
}

/// Whoever changes the program is told what that changes.
fn changed(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let recording = Recording::new(stage, who, &[])?;
    let commands = ["break drawn", "continue", "finish", "set var i = 3", "continue"];
    let outcome = recording.gdb(stage, &commands)?;
    must_have(&outcome.errors(), &["the re-execution differs at call", "write"])?;
    ensure!(outcome.status.code() == Some(4), "{}", outcome.status);
    Ok(())
}
