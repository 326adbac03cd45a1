//! Communicates with recorded programs.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

use crate::place::{self, PATIENCE};
use crate::{Complaint, ensure};

/// A running recorded program that waits for lines.
pub struct Conversation {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Conversation {
    /// Starts a `reenact record` command.
    pub fn start(mut command: Command) -> Result<Conversation, Complaint> {
        let child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("cannot start reenact: {error}"))?;
        Conversation::with(child)
    }

    /// Takes over a child whose output is piped.
    pub fn with(mut child: Child) -> Result<Conversation, Complaint> {
        let output = BufReader::new(child.stdout.take().ok_or("no standard output")?);
        Ok(Conversation { child, output })
    }

    /// Waits until the program is ready, and returns its process id.
    pub fn ready(&mut self) -> Result<i32, Complaint> {
        let line = self.line()?;
        let pid = line.strip_prefix("ready ").and_then(|rest| rest.trim().parse().ok());
        pid.ok_or_else(|| format!("not ready, but '{line}'"))
    }

    /// Reads the next line.
    pub fn line(&mut self) -> Result<String, Complaint> {
        let mut line = String::new();
        self.output.read_line(&mut line).map_err(|error| error.to_string())?;
        Ok(line)
    }

    /// Sends a signal to `reenact`.
    pub fn signal(&self, number: i32) -> Result<(), Complaint> {
        place::signal(&self.child, number)
    }

    /// Sends the line that the program waits for, and returns the rest of its output.
    pub fn finish(mut self) -> Result<String, Complaint> {
        let mut input = self.child.stdin.take().ok_or("no standard input")?;
        input.write_all(b"\n").map_err(|error| error.to_string())?;
        drop(input);
        self.rest()
    }

    /// Reads the output up to the end; fails unless the exit status is 0.
    pub fn rest(self) -> Result<String, Complaint> {
        let (rest, status) = self.end()?;
        ensure!(status.success(), "reenact ended with {status}");
        Ok(rest)
    }

    /// Reads the output up to the end, and returns it with the exit status.
    pub fn end(mut self) -> Result<(String, ExitStatus), Complaint> {
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).map_err(|error| error.to_string())?;
        Ok((rest, place::wait(self.child, PATIENCE, "reenact")?))
    }
}
