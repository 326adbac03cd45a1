//! Import of CTF traces.

use std::io::{self, Write};
use std::process::ExitCode;

use render::amounts::counted;
use trace::WriterOptions;

use super::input::Import;
use crate::failure::Failure;
use crate::message;
use crate::output::{self, Pending};

/// Imports the trace in a directory.
pub fn import(import: &Import<'_>) -> Result<ExitCode, Failure> {
    let name = import.from.display();
    let fail = |error: &dyn std::fmt::Display| Failure::Failed(format!("{name}: {error}"));
    let found = ctf_import::find(import.from).map_err(|error| fail(&error))?;
    let (mut refused, mut pending) = (None, None);
    let sink = || match output::create(import.to, import.force, &[]) {
        Ok((out, file)) => {
            pending = Some(file);
            Ok(Box::new(out) as Box<dyn Write + Send>)
        }
        Err(text) => {
            refused = Some(Failure::Failed(text));
            Err(io::ErrorKind::Other.into())
        }
    };
    let (options, version) = (WriterOptions::default(), env!("CARGO_PKG_VERSION"));
    let imported = ctf_import::import(&found, sink, options, version);
    if let Some(failure) = refused {
        return Err(failure);
    }
    // An error leaves no partial trace.
    let imported = imported.map_err(|error| fail(&error))?;
    pending.iter_mut().try_for_each(Pending::keep).map_err(Failure::Failed)?;
    if !import.quiet {
        message::note(&format!(
            "{} of {}, {} -> {}",
            counted(imported.calls, "call", "calls"),
            counted(imported.threads as u64, "thread", "threads"),
            counted(imported.events, "other event", "other events"),
            import.to.display()
        ));
    }
    for (count, what) in [
        (imported.lost, "events were dropped when they were traced"),
        (imported.returns_alone, "returns of calls have no entry, and are left out"),
        (
            imported.nobodys,
            "entries and returns of calls name no thread, and are left out: trace with the context tid",
        ),
    ] {
        if count > 0 {
            message::warn(&format!("{name}: {count} {what}"));
        }
    }
    if !imported.unknown.is_empty() {
        let names: Vec<&str> = imported.unknown.keys().map(String::as_str).collect();
        message::warn(&format!("{name}: left out calls that are not known: {}", names.join(", ")));
    }
    for damage in &imported.damage {
        message::warn(&format!("{name}: {damage}"));
    }
    if imported.damage.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    Err(Failure::Failed(format!(
        "{name} is damaged: of {} streams only a part could be read, which is in {}",
        imported.damage.len(),
        import.to.display()
    )))
}
