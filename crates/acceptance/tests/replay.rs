//! Every test program is recorded, and replayed into a fresh root from its trace alone: calls and
//! files must match the recording.

use std::process::{Command, ExitCode};

use acceptance::place::{Place, Who};
use acceptance::program::{self, Program};
use acceptance::stage::Stage;
use acceptance::{Complaint, ensure, tier, trials};
use serde_json::Value;

/// Exit code for differences.
const DIFFERENT: i32 = 4;

/// A program that does things that no trace can hold.
struct Beyond {
    program: &'static str,
    /// The only differences that the replay may find: causes of mismatches, and final files with
    /// what differs in them.
    causes: &'static [&'static str],
    files: &'static [(&'static str, &'static str)],
}

const BEYOND: &[Beyond] = &[
    // The read ends where the program's memory does; the replay's one goes on to the end of file.
    Beyond { program: "bad_pointers", causes: &["pread64: another result"], files: &[] },
    // Another process installs descriptors in a process on its request.
    Beyond {
        program: "sandboxed_signals",
        causes: &[
            "fcntl: EBADF instead of success",
            "read: EBADF instead of success",
            "close: EBADF instead of success",
        ],
        files: &[],
    },
    // Children under a filter that prevents recording make a file.
    Beyond {
        program: "seccomp_against_us",
        causes: &["unlink: ENOENT instead of success"],
        files: &[],
    },
];

fn main() -> ExitCode {
    trials::main(|trials| {
        for program in program::all()? {
            let name = program.name.clone();
            // A program traced by another one in the recording is not fully recorded.
            let traced = program.gaps.iter().any(|gap| gap == "traced");
            let missing = traced.then_some("a whole recording");
            let of = program.clone();
            let check = move |stage: &Stage, who| replayed(stage, who, &of, None, &of.args);
            trials.add_for_program(&name, &program, missing, check);
            if program.before.is_some() {
                let name = format!("{name}_on_files_that_were_there");
                let of = program.clone();
                let check = move |stage: &Stage, who| replayed_change(stage, who, &of);
                trials.add_for_program(&name, &program, missing, check);
            }
        }
        Ok(())
    })
}

/// Records only what comes after the files were made.
fn replayed_change(stage: &Stage, who: Who, program: &Program) -> Result<(), Complaint> {
    replayed(stage, who, program, program.before.as_deref(), &["change".to_owned()])
}

fn replayed(
    stage: &Stage,
    who: Who,
    program: &Program,
    before: Option<&str>,
    args: &[String],
) -> Result<(), Complaint> {
    let binary = program.build(stage)?;
    let place = Place::new(stage, who)?;
    let trace = place.trace("program.rnt");
    let seed = tier::seed().to_string();
    if let Some(before) = before {
        place.run(place.command(&binary).args([&seed, before]))?.success(before)?;
    }
    let mut record = place.command(&stage.reenact);
    record.args(["record", "--quiet", "--output"]).arg(&trace).arg("--").arg(&binary);
    place.run(record.arg(&seed).args(args))?;
    // Clears the place: the replay must depend on the trace alone.
    place.clear()?;

    let mut replay: Command = place.command(&stage.reenact);
    let outcome = place.run(replay.arg("replay").arg(&trace).arg("--json"))?;
    let said: Value = serde_json::from_str(outcome.text().trim())
        .map_err(|error| format!("no result ({error}): {}", outcome.errors()))?;
    if let Some(beyond) = BEYOND.iter().find(|beyond| beyond.program == program.name) {
        let code = outcome.status.code();
        ensure!(matches!(code, Some(0 | DIFFERENT)), "ended with {code:?}: {}", outcome.errors());
        return beyond.is_all(&said);
    }
    ensure!(
        outcome.status.success() && said["ok"] == true,
        "{}\n{}\n{}",
        outcome.errors(),
        said["mismatches"],
        said["final_state"]
    );
    ensure!(said["replayed"].as_u64() > Some(0), "nothing was replayed: {said}");
    Ok(())
}

impl Beyond {
    /// Fails if anything else differs.
    fn is_all(&self, said: &Value) -> Result<(), Complaint> {
        let list = |of: &Value, what: &str| -> Result<Vec<Value>, Complaint> {
            of[what].as_array().cloned().ok_or_else(|| format!("no {what}: {said}"))
        };
        let mismatches = &said["mismatches"];
        for group in list(mismatches, "causes")? {
            let known = self.causes.iter().any(|cause| group["cause"] == *cause);
            ensure!(known, "it differs otherwise: {group}");
        }
        for difference in list(&said["final_state"], "differences")? {
            let path = difference["path"].as_str().unwrap_or_default();
            let name = path.rsplit('/').next().unwrap_or_default();
            let known = |(file, what): &(&str, &str)| *file == name && difference["what"] == *what;
            ensure!(self.files.iter().any(known), "a file differs otherwise: {difference}");
        }
        ensure!(said["stopped"].is_null(), "it did not end: {said}");
        Ok(())
    }
}
