//! A terminal as programs see it: a pseudo-terminal, and what is on it at the end.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{FromRawFd, OwnedFd};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;

use crate::Complaint;
use crate::place::{PATIENCE, wait};

/// Lines of the terminal.
const ROWS: u16 = 50;

/// What a command left on a terminal.
#[derive(Debug)]
pub struct Screen {
    /// Exit status.
    pub status: ExitStatus,
    /// Lines as the command printed them, without control sequences and what was erased.
    pub lines: Vec<String>,
}

impl Screen {
    /// Returns the lines that have more characters than the terminal has columns.
    pub fn wrapped(&self, columns: u16) -> Vec<&String> {
        self.lines.iter().filter(|line| line.chars().count() > columns.into()).collect()
    }

    /// Returns all lines as one text.
    pub fn text(&self) -> String {
        self.lines.join("\n")
    }
}

/// Runs a command on a terminal of so many columns.
pub fn run(command: &mut Command, columns: u16) -> Result<Screen, Complaint> {
    let fail = |error: io::Error| format!("no terminal: {error}");
    let (main, other) = open(columns).map_err(fail)?;
    let end = || other.try_clone().map_err(fail);
    command.stdin(end()?).stdout(end()?).stderr(end()?);
    let child = command.spawn().map_err(|error| format!("cannot run {command:?}: {error}"))?;
    // The command holds ends of its own, so that the reader hears when the last one is closed.
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    drop(other);
    let reader = thread::spawn(move || {
        let mut bytes = Vec::new();
        // It ends with EIO when the other side is closed.
        let _ = File::from(main).read_to_end(&mut bytes);
        bytes
    });
    let status = wait(child, PATIENCE, &format!("{command:?}"))?;
    let bytes = reader.join().map_err(|_| "the reader of the terminal failed")?;
    Ok(Screen { status, lines: lines(&String::from_utf8_lossy(&bytes)) })
}

/// Makes a terminal. Returns our end and the programs' end.
fn open(columns: u16) -> io::Result<(OwnedFd, OwnedFd)> {
    let (mut ours, mut theirs) = (0, 0);
    let size = libc::winsize { ws_row: ROWS, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    let (name, modes) = (std::ptr::null_mut(), std::ptr::null());
    // SAFETY: the pointers lead to two numbers and a size that outlive the call, or are null, which is
    // allowed where nothing is wanted.
    let made = unsafe { libc::openpty(&mut ours, &mut theirs, name, modes, &size) };
    if made != 0 {
        return Err(io::Error::last_os_error());
    }
    for end in [ours, theirs] {
        // SAFETY: the descriptor was just made.
        unsafe { libc::fcntl(end, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    // SAFETY: nothing else owns the descriptors that were just made.
    Ok(unsafe { (OwnedFd::from_raw_fd(ours), OwnedFd::from_raw_fd(theirs)) })
}

/// Returns the lines of what was printed: without sequences that begin with ESC, and of a line that
/// was begun anew by `\r` what was printed last.
fn lines(text: &str) -> Vec<String> {
    let mut plain = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c == '\x1b' {
            let _ = chars.find(char::is_ascii_alphabetic);
        } else {
            plain.push(c);
        }
    }
    plain
        .split('\n')
        .map(|line| line.trim_end_matches('\r').rsplit('\r').next().unwrap_or_default().to_string())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_has_what_was_not_erased() {
        assert_eq!(lines("\x1b[1mTitle\x1b[0m\r\nold\r\x1b[Knew\r\n"), ["Title", "new", ""]);
        let mut shell = Command::new("sh");
        shell.args(["-c", "stty size; test -t 2 && echo terminal; printf 123456"]);
        let screen = run(&mut shell, 5).unwrap();
        assert_eq!(screen.lines, ["50 5", "terminal", "123456"]);
        assert_eq!(screen.wrapped(5), ["terminal", "123456"]);
    }
}
