//! Every test program, recorded and replayed into a fresh root from its trace alone: each call
//! comes out as recorded, and so do the files.

use std::process::{Command, ExitCode};

use acceptance::place::{Place, Who};
use acceptance::program::{self, Program};
use acceptance::stage::Stage;
use acceptance::{Complaint, ensure, tier, trials};

/// The exit code for differences.
const DIFFERENT: i32 = 4;

/// Programs that do what no trace tells: the replay must say so, and neither fail nor hang.
const BEYOND: &[(&str, &str)] = &[
    ("async_io", "writes through Linux AIO, whose data the trace does not hold"),
    ("bad_pointers", "a write takes bytes that the recorder could not read"),
    ("namespaces", "who enters another user namespace sees other owners of the same files"),
    ("seccomp_against_us", "children under a filter that forbids recording are not recorded"),
];

fn main() -> ExitCode {
    trials::main(|trials| {
        for program in program::all()? {
            let name = program.name.clone();
            for who in [Who::User, Who::Root] {
                let missing = program.needs.iter().find(|need| !trials::has(**need, who));
                let missing = missing.map(|need| format!("{need:?}"));
                let program = program.clone();
                let check = move |stage: &Stage, who| replayed(stage, who, &program);
                trials.add(&name, who, missing.as_deref(), check);
            }
        }
        Ok(())
    })
}

fn replayed(stage: &Stage, who: Who, program: &Program) -> Result<(), Complaint> {
    let binary = program.build(stage)?;
    let place = Place::new(stage, who)?;
    let trace = place.trace("program.rnt");
    let seed = tier::seed().to_string();
    let mut record = place.command(&stage.reenact);
    record.args(["record", "--quiet", "--output"]).arg(&trace).arg("--").arg(&binary);
    place.run(record.arg(&seed).args(&program.args))?;
    // What the replay sees must be from the trace, not from here.
    place.clear()?;

    let mut replay: Command = place.command(&stage.reenact);
    let outcome = place.run(replay.arg("replay").arg(&trace).arg("--json"))?;
    let said: serde_json::Value = serde_json::from_str(outcome.text().trim())
        .map_err(|error| format!("no result ({error}): {}", outcome.errors()))?;
    if let Some((_, why)) = BEYOND.iter().find(|(name, _)| *name == program.name) {
        let code = outcome.status.code();
        ensure!(
            matches!(code, Some(0 | DIFFERENT)),
            "{why}, but the replay ended with {code:?}: {}",
            outcome.errors()
        );
        return Ok(());
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
