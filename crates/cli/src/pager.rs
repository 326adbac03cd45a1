//! The pager: what a command prints on a terminal goes through it, as with git.

use std::io::{self, IsTerminal, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::{message, terminal};

/// Variables that name the pager, the first one that is set counts.
const VARIABLES: [&str; 2] = ["REENACT_PAGER", "PAGER"];
/// The pager if no variable names one.
const USUAL: &str = "less";
/// Options of `less`: ends if all fits the screen, shows colours, leaves what it showed on the screen.
const LESS: &str = "FRX";

/// The pager that runs.
static RUNNING: Mutex<Option<Child>> = Mutex::new(None);
/// Its process, for the handler.
static PROCESS: AtomicI32 = AtomicI32::new(0);

/// Starts the pager if standard output is a terminal, and a pager is there and wanted. From then on
/// standard output leads to it, and so does standard error if it is a terminal.
pub fn start() {
    let stdout = io::stdout();
    if terminal::has_pager() || !stdout.is_terminal() {
        return;
    }
    let named = VARIABLES.iter().find_map(std::env::var_os);
    let words = named.map_or_else(|| USUAL.to_string(), |name| name.to_string_lossy().into_owned());
    let Some(mut program) = program(words.trim()) else { return };
    if std::env::var_os("LESS").is_none() {
        program.env("LESS", LESS);
    }
    let mut child = match program.stdin(Stdio::piped()).spawn() {
        Ok(child) => child,
        Err(error) => {
            // Nobody has asked for the usual one.
            if let Some(name) = VARIABLES.iter().find(|name| std::env::var_os(name).is_some()) {
                message::warn(&format!("{name}: cannot run '{}': {error}", words.trim()));
            }
            return;
        }
    };
    let Some(input) = child.stdin.take().map(OwnedFd::from) else { return };
    terminal::gets_pager();
    PROCESS.store(child.id().cast_signed(), Ordering::Relaxed);
    let stderr_too = io::stderr().is_terminal();
    let _ = stdout.lock().flush();
    // SAFETY: all are open descriptors, and the handler makes only calls that handlers may make.
    unsafe {
        libc::dup2(input.as_raw_fd(), libc::STDOUT_FILENO);
        if stderr_too {
            libc::dup2(input.as_raw_fd(), libc::STDERR_FILENO);
        }
        let handler = interrupted as extern "C" fn(libc::c_int);
        libc::signal(libc::SIGINT, handler as libc::sighandler_t);
    }
    *RUNNING.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(child);
}

/// Waits until the pager has ended, if there is one. Nothing can be printed any more.
pub fn finish() {
    let running = RUNNING.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
    let Some(mut child) = running else { return };
    let _ = io::stdout().lock().flush();
    close();
    let _ = child.wait();
}

/// Lets go of the streams that lead to the pager, which ends then.
fn close() {
    // SAFETY: plain calls. Nobody prints after this.
    unsafe {
        libc::close(libc::STDOUT_FILENO);
        libc::close(libc::STDERR_FILENO);
    }
}

/// Ends as by the signal, after the pager, which would else be left with the terminal.
extern "C" fn interrupted(signal: libc::c_int) {
    close();
    // SAFETY: calls that handlers may make.
    unsafe {
        libc::waitpid(PROCESS.load(Ordering::Relaxed), std::ptr::null_mut(), 0);
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// Returns the pager as a command. `cat`, or nothing at all, is none.
fn program(words: &str) -> Option<Command> {
    if words.is_empty() || words == "cat" {
        return None;
    }
    if words.contains(|c: char| "|&;<>()$`\\\"'*?[#~=%".contains(c)) {
        let mut shell = Command::new("sh");
        shell.args(["-c", words]);
        return Some(shell);
    }
    let mut words = words.split_whitespace();
    let mut program = Command::new(words.next()?);
    program.args(words);
    Some(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pagers_are_named_as_for_git() {
        assert!(program("").is_none() && program("cat").is_none());
        assert_eq!(format!("{:?}", program("less -S").unwrap()), r#""less" "-S""#);
        assert_eq!(format!("{:?}", program("less | cat").unwrap()), r#""sh" "-c" "less | cat""#);
    }
}
