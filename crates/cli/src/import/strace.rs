//! Import of strace's text output.

use std::fs::File;
use std::io::{self, BufReader, Write};
use std::process::ExitCode;

use render::amounts::counted;
use strace::read::{self, Settings};
use trace::WriterOptions;

use super::input::{Import, Input};
use crate::failure::Failure;
use crate::message;
use crate::output::{self, Pending};

/// Imports a text.
pub fn import(import: &Import<'_>, file: File) -> Result<ExitCode, Failure> {
    let name = import.from.display();
    let fail = |error: &dyn std::fmt::Display| Failure::Failed(format!("{name}: {error}"));
    // The text is read twice.
    let input = Input::new(file, 2).map_err(|error| fail(&error))?;
    let open = || {
        input.rewind()?;
        Ok(BufReader::with_capacity(1 << 16, &input))
    };
    let (mut refused, mut pending) = (None, None);
    let sink = || match output::create(import.to, import.force, &[import.from]) {
        Ok((out, file)) => {
            pending = Some(file);
            Ok(Box::new(out) as Box<dyn Write + Send>)
        }
        Err(text) => {
            refused = Some(Failure::Failed(text));
            Err(io::ErrorKind::Other.into())
        }
    };
    // SAFETY: geteuid and getegid have no arguments and cannot fail.
    let (uid, gid) = unsafe { (libc::geteuid(), libc::getegid()) };
    let options = WriterOptions::default();
    let settings = Settings { uid, gid, version: env!("CARGO_PKG_VERSION"), options };
    let imported = read::import(open, sink, settings);
    drop(input);
    if let Some(failure) = refused {
        return Err(failure);
    }
    // An error leaves no partial trace.
    let imported = imported.map_err(|error| fail(&error))?;
    pending.iter_mut().try_for_each(Pending::keep).map_err(Failure::Failed)?;
    if import.quiet {
        return Ok(ExitCode::SUCCESS);
    }
    message::note(&format!(
        "{}, {}, {} -> {}",
        counted(imported.calls, "call", "calls"),
        counted(imported.threads.into(), "thread", "threads"),
        counted(imported.processes.into(), "process", "processes"),
        import.to.display()
    ));
    if imported.untold > 0 {
        message::note(&format!(
            "not captured: {} that {name} does not show",
            counted(imported.untold, "argument", "arguments")
        ));
    }
    for what in &imported.assumed {
        message::note(&format!("assumed: {what}"));
    }
    if imported.unknown_calls > 0 {
        let names: Vec<&str> = imported.unknown.keys().map(String::as_str).collect();
        message::warn(&format!(
            "{name}: left out {} that are not known: {}",
            counted(imported.unknown_calls, "call", "calls"),
            names.join(", ")
        ));
    }
    Ok(ExitCode::SUCCESS)
}
