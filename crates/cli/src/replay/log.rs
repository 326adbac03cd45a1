//! `--log`: writes a line for each call of a replay.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use clap::ValueEnum;
use model::{Contents, Moment};
use render::escape;
use render::json::Json;
use render::lines;
use render::text::Style;
use replay::log::{Level, Line};
use trace::event::EventKind;

use crate::failure::Failure;
use crate::output;

/// Which calls get a line.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Told {
    /// Calls that did not match.
    Mismatch,
    /// Also those that did not match because of races, or of data that the trace does not hold.
    Raced,
    /// Also those that were not made again: their recorded result was taken.
    Simulated,
    /// All calls.
    All,
}

impl From<Told> for Level {
    fn from(told: Told) -> Level {
        match told {
            Told::Mismatch => Level::Mismatch,
            Told::Raced => Level::Raced,
            Told::Simulated => Level::Simulated,
            Told::All => Level::All,
        }
    }
}

/// Limit for the bytes of strings in the log.
const STRING_BYTES: usize = 32;

/// A log file.
pub struct Log {
    out: BufWriter<File>,
    json: bool,
    /// Number of the replay.
    run: u32,
}

impl Log {
    /// Creates the log file of a trace's replays.
    pub fn open(path: &Path, trace: &Path, json: bool) -> Result<Log, Failure> {
        if is_same_file(path, trace) {
            let found = format!("--log {}: that is the trace itself", path.display());
            return Err(Failure::Usage(found));
        }
        let of_lines = ["json", "jsonl"];
        let named = path.extension().is_some_and(|name| of_lines.iter().any(|of| name == *of));
        let failed = |error: String| Failure::Failed(format!("--log: {error}"));
        let (file, mut made) = output::create(path, true, &[trace]).map_err(failed)?;
        // Keep it at once, so that it can be read during the replay.
        made.keep().map_err(failed)?;
        let out = BufWriter::new(file);
        Ok(Log { out, json: json || named, run: 0 })
    }

    /// Returns the log for one of several replays.
    pub fn of_run(&self, run: u32) -> io::Result<Log> {
        Ok(Log { out: BufWriter::new(self.out.get_ref().try_clone()?), json: self.json, run })
    }

    /// Writes a line.
    pub fn write(&mut self, line: &Line) -> io::Result<()> {
        if self.json {
            let mut json = Json::new(&mut self.out);
            object(&mut json, line, self.run);
            json.finish()?;
            self.out.write_all(b"\n")?;
        } else {
            self.out.write_all(text(line).as_bytes())?;
        }
        // Readers during the replay, or after it got stuck, need all lines.
        self.out.flush()
    }
}

fn is_same_file(a: &Path, b: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().ok();
    real(a).is_some_and(|a| real(b) == Some(a))
}

/// Formats a call as `show` does, without the data of buffers.
pub fn describe(moment: &Moment<'_>, contents: &mut dyn Contents) -> String {
    let mut out = String::new();
    if let EventKind::Call(call) = &moment.event.kind {
        let style = Style { string_limit: STRING_BYTES, data: false, verbose: false };
        lines::called(&mut out, call, moment, contents, style);
    }
    out
}

fn text(line: &Line) -> String {
    let about = &line.about;
    let mut out = format!("{:>7} ", about.seq);
    lines::lane(&mut out, (about.pid, about.tid), line.at.as_nanos() as u64);
    out.push_str(line.came.name());
    if !line.what.is_empty() {
        out.push_str(" (");
        escape::escape(&mut out, line.what.as_bytes(), &[]);
        out.push(')');
    }
    out.push_str(": ");
    out.push_str(&about.text);
    out.push_str(": ");
    escape::escape(&mut out, line.expected.as_bytes(), &[]);
    if !line.found.is_empty() {
        out.push_str(" expected, ");
        escape::escape(&mut out, line.found.as_bytes(), &[]);
        out.push_str(" found");
    }
    out.push('\n');
    out
}

fn object(json: &mut Json<'_>, line: &Line, run: u32) {
    let about = &line.about;
    let some = |text: &str| (!text.is_empty()).then(|| text.to_string());
    json.object(|json| {
        json.key("type").str("replayed");
        json.key("run").uint(run.into());
        json.key("seq").uint(about.seq);
        json.key("pid").optional_uint(about.pid.map(u64::from));
        json.key("tid").optional_uint(about.tid.map(u64::from));
        json.key("time_ns").uint(line.at.as_nanos() as u64);
        json.key("call").str(about.name);
        json.key("text").str(&about.text);
        json.key("came").str(line.came.name());
        json.key("what").optional_str(some(&line.what).as_deref());
        json.key("expected").str(&line.expected);
        json.key("found").optional_str(some(&line.found).as_deref());
    });
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use replay::log::{About, Came};

    use super::*;

    fn line() -> Line {
        let text = "read(3</a>, 0x10, 5)".to_string();
        let about = About { seq: 7, pid: Some(10), tid: Some(11), name: "read", text };
        let at = Duration::from_micros(1_500_000);
        let [what, expected, found] = ["", "5", "EBADF"].map(String::from);
        Line { about, came: Came::Mismatch, what, expected, found, at }
    }

    #[test]
    fn lines_tell_who_when_what_and_why() {
        let expected =
            "      7 10/11     1.500000 mismatch: read(3</a>, 0x10, 5): 5 expected, EBADF found\n";
        assert_eq!(text(&line()), expected);
        let left_out = Line {
            came: Came::Skipped,
            what: "its source\nis not here".into(),
            found: String::new(),
            ..line()
        };
        let expected = "      7 10/11     1.500000 skipped (its source\\nis not here): read(3</a>, 0x10, 5): 5\n";
        assert_eq!(text(&left_out), expected);
    }

    #[test]
    fn objects_hold_the_same() {
        let json = render::json::text(|json| object(json, &line(), 2));
        assert_eq!(
            json,
            "{\"type\":\"replayed\",\"run\":2,\"seq\":7,\"pid\":10,\"tid\":11,\"time_ns\":1500000000,\
             \"call\":\"read\",\"text\":\"read(3</a>, 0x10, 5)\",\"came\":\"mismatch\",\"what\":null,\
             \"expected\":\"5\",\"found\":\"EBADF\"}"
        );
    }
}
