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
use std::process::ExitCode;
use std::time::{Duration, Instant};

use acceptance::place::{PATIENCE, record};
use acceptance::stage::Stage;
use acceptance::{Complaint, program, shown, trials};

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
fn attack(stage: &Stage, name: &str) -> Result<String, Complaint> {
    Ok(program::named_in("tests/attacks", name)?.build(stage)?.display().to_string())
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
