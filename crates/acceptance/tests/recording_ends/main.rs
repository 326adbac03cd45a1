//! A recording always ends, whatever the recorded programs do, and also on request; and it says
//! what is missing in it.

mod limits;
mod lives;
mod namespaces;
mod signals;
mod silence;
mod silent_files;
mod trace_file;

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use acceptance::place::{PATIENCE, Place, record};
use acceptance::stage::{self, Stage, open_to_all};
use acceptance::{Complaint, ensure, shown, trials};

fn main() -> ExitCode {
    trials::main(|trials| {
        signals::add(trials);
        silence::add(trials);
        namespaces::add(trials);
        limits::add(trials);
        trace_file::add(trials);
        silent_files::add(trials);
        lives::add(trials);
        Ok(())
    })
}

/// Builds a program of `tests/attacks`.
fn attack(place: &Place, name: &str) -> Result<String, Complaint> {
    let program = place.path(name);
    let source = stage::repository().join(format!("tests/attacks/{name}.c"));
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu17", "-O2", "-Wall", "-Wextra", "-pthread", "-o"]).arg(&program).arg(source);
    let built = cc.output().map_err(|error| format!("cannot run cc: {error}"))?;
    ensure!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    open_to_all(&program)?;
    Ok(program.display().to_string())
}

/// Waits for a file that a program creates.
fn appears(path: &Path) -> Result<(), Complaint> {
    let begun = Instant::now();
    while !path.exists() {
        if begun.elapsed() > PATIENCE {
            return Err(format!("{} does not appear", path.display()));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// Returns reason and text of each gap in a trace.
fn gaps(stage: &Stage, trace: &Path) -> Result<Vec<(String, String)>, Complaint> {
    let mut found = Vec::new();
    shown::show(stage, trace, &["--data", "none"], |event| {
        if event["type"] == "gap" {
            let text = |name: &str| event[name].as_str().unwrap_or_default().to_string();
            found.push((text("why"), text("text")));
        }
        Ok(())
    })?;
    Ok(found)
}
