//! Talks with recorded programs.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

use crate::place::{self, PATIENCE};
use crate::{Complaint, ensure};

/// A recorded program that waits for lines.
pub struct Conversation {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Conversation {
    /// Starts `reenact record` of it.
    pub fn start(mut command: Command) -> Result<Conversation, Complaint> {
        let child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start reenact: {error}"))?;
        Conversation::with(child)
    }

    /// With one whose output comes through a pipe.
    pub fn with(mut child: Child) -> Result<Conversation, Complaint> {
        let output = BufReader::new(child.stdout.take().ok_or("no standard output")?);
        Ok(Conversation { child, output })
    }

    /// Waits until the program is there, and says which process it is.
    pub fn ready(&mut self) -> Result<i32, Complaint> {
        let line = self.line()?;
        let pid = line.strip_prefix("ready ").and_then(|rest| rest.trim().parse().ok());
        pid.ok_or_else(|| format!("not ready, but '{line}'"))
    }

    /// The next line.
    pub fn line(&mut self) -> Result<String, Complaint> {
        let mut line = String::new();
        self.output.read_line(&mut line).map_err(|error| error.to_string())?;
        Ok(line)
    }

    /// Sends a signal to `reenact`.
    pub fn signal(&self, number: i32) -> Result<(), Complaint> {
        place::signal(&self.child, number)
    }

    /// Sends the line that it waits for, and returns what it prints then.
    pub fn finish(mut self) -> Result<String, Complaint> {
        let mut input = self.child.stdin.take().ok_or("no standard input")?;
        input.write_all(b"\n").map_err(|error| error.to_string())?;
        drop(input);
        self.rest()
    }

    /// What it prints up to its end, which must be a good one.
    pub fn rest(self) -> Result<String, Complaint> {
        let (rest, status) = self.end()?;
        ensure!(status.success(), "reenact ended with {status}");
        Ok(rest)
    }

    /// What it prints up to its end, and how that is.
    pub fn end(mut self) -> Result<(String, ExitStatus), Complaint> {
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).map_err(|error| error.to_string())?;
        Ok((rest, place::wait(self.child, PATIENCE, "reenact")?))
    }
}
