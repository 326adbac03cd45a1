//! Opening of traces, and warnings about them, for the reading commands.

use std::fs::File;
use std::io::{self, Seek};
use std::path::Path;

use model::Unread;
use render::amounts::counted;
use render::escape::escaped;
use render::origin;
use trace::{ReadError, Trace};

use crate::failure::Failure;
use crate::import::format;
use crate::message;

/// Opens a trace, or standard input for `-`. The error names the file.
pub fn open(path: &Path) -> Result<Trace, Failure> {
    let fail =
        |error: &dyn std::fmt::Display| Failure::Failed(format!("{}: {error}", path.display()));
    if path.is_dir() {
        return Err(fail(&"a directory, not a trace; name a file in it"));
    }
    let file = file(path).map_err(|error| fail(&error))?;
    let again = file.try_clone();
    Trace::from_file(file).map_err(|error| {
        let advice = match (&error, again) {
            (ReadError::NotATrace { .. }, Ok(file)) => format::advice(&file),
            _ => None,
        };
        advice.map_or_else(|| fail(&error), |advice| fail(&advice))
    })
}

/// Opens a trace that is to be counted. Fails if it is cut off before its first events: zeros would say
/// that the program did nothing.
pub fn open_to_count(path: &Path) -> Result<Trace, Failure> {
    let trace = open(path)?;
    if trace.blocks().is_empty() && trace.totals().is_none() {
        warn_of(path, &trace);
        let name = path.display();
        return Err(Failure::Failed(format!(
            "{name} has no events: it is cut off before the first"
        )));
    }
    Ok(trace)
}

/// Opens a seekable file, or standard input for `-`.
pub fn file(path: &Path) -> io::Result<File> {
    let path = if path == Path::new("-") { Path::new("/dev/stdin") } else { path };
    seekable(File::open(path)?)
}

/// Copies input from a pipe to an unnamed temporary file, because traces need seeking.
fn seekable(mut file: File) -> io::Result<File> {
    if file.stream_position().is_ok() {
        return Ok(file);
    }
    let mut keep = || {
        let mut kept = tempfile::tempfile()?;
        io::copy(&mut file, &mut kept)?;
        kept.rewind()?;
        Ok(kept)
    };
    keep().map_err(|error: io::Error| {
        let place = std::env::temp_dir();
        let text = format!(
            "what comes through a pipe is kept in a file without a name in {}, and that failed: \
             {error}; TMPDIR names another place",
            place.display()
        );
        io::Error::new(error.kind(), text)
    })
}

/// Limit for the damaged parts that are listed.
const DAMAGE_SHOWN: usize = 20;

/// Returns warnings about a trace as a whole, none for a sound one.
pub fn warnings(trace: &Trace) -> Vec<String> {
    let damage = trace.damage();
    let shown = damage.iter().take(DAMAGE_SHOWN);
    let mut warnings: Vec<String> = shown
        .map(|d| {
            format!("at byte {} ({}): {}", d.offset, counted(d.bytes, "byte", "bytes"), d.what)
        })
        .collect();
    if damage.len() > DAMAGE_SHOWN {
        let more = (damage.len() - DAMAGE_SHOWN) as u64;
        warnings.push(format!("{} more damaged", counted(more, "part is", "parts are")));
    }
    if let Some(part) = origin::selection(trace.preamble()) {
        warnings
            .push(format!("recorded with {}: other calls are not in it", escaped(part.as_bytes())));
    }
    warnings
}

/// Returns a note on events that only later versions know.
pub fn unknown_events(count: u64) -> Option<String> {
    match count {
        0 => None,
        1 => Some("1 event of a kind that this version does not know was skipped".into()),
        n => Some(format!("{n} events of kinds that this version does not know were skipped")),
    }
}

/// Prints warnings about a trace as a whole.
pub fn warn_of(path: &Path, trace: &Trace) {
    for warning in warnings(trace) {
        message::warn(&format!("{}: {warning}", path.display()));
    }
}

/// Warns about events, in what was read so far, that only later versions know. Not for commands that
/// carry them along.
pub fn warn_of_unknown_events(path: &Path, trace: &Trace) {
    if let Some(note) = unknown_events(trace.unknown_events()) {
        message::warn(&format!("{}: {note}", path.display()));
    }
}

/// Warns about descriptors and tasks that were not tracked.
pub fn warn_of_left_out(path: &Path, count: u64) {
    if count > 0 {
        let name = path.display();
        message::warn(&format!(
            "{name}: more is open, and more tasks live, than is followed: what {count} descriptors \
             and tasks stand for is not known"
        ));
    }
}

/// Prints warnings after a complete pass over a trace. Fails if blocks could not be read.
pub fn tell_unread(path: &Path, trace: &Trace, unread: &Unread) -> Result<(), Failure> {
    warn_of(path, trace);
    tell_of_pass(path, unread)
}

/// Prints what a complete pass could not read, without warnings about the trace as a whole. Fails if blocks
/// could not be read.
pub fn tell_of_pass(path: &Path, unread: &Unread) -> Result<(), Failure> {
    let name = path.display();
    for error in &unread.errors {
        message::warn(&format!("{name}: {error}"));
    }
    warn_of_left_out(path, unread.left_out);
    if unread.count == 0 {
        return Ok(());
    }
    Err(Failure::Failed(format!(
        "{name}: {} left out; `reenact info --verify {name}` says what is left",
        counted(unread.count, "damaged block was", "damaged blocks were")
    )))
}
