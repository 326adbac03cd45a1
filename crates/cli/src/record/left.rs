//! Says so where a recording goes on only for processes that the program has left.

use std::fs;
use std::io::{self, IsTerminal};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;

use kin::{Kin, Relation, start_thread};
use render::amounts::counted;

use crate::message;

/// How long they may go on before that is said: most end at once.
const WAIT: Duration = Duration::from_secs(2);

/// Waits to say so, until it is dropped.
pub struct Left {
    _is_waiting: Sender<()>,
}

impl Left {
    /// The program has ended. Only who sits at a terminal is told.
    pub fn begin(kin: Kin) -> Option<Left> {
        if !io::stderr().is_terminal() {
            return None;
        }
        let (sender, receiver) = mpsc::channel::<()>();
        let wait = move || {
            if receiver.recv_timeout(WAIT) == Err(RecvTimeoutError::Timeout)
                && let Some(who) = who_is_left(&kin)
            {
                message::note(&format!(
                    "PROGRAM has ended, and {who} on: Ctrl-C ends the recording (--until-exit does so by itself)"
                ));
            }
        };
        // Who cannot be told finds out by Ctrl-C.
        start_thread("left", wait).ok().map(|_| Left { _is_waiting: sender })
    }
}

fn who_is_left(kin: &Kin) -> Option<String> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let left: Vec<i32> = pids.filter(|pid| kin.relation(*pid) == Relation::Ours).collect();
    let first = left.first()?;
    let name = fs::read_to_string(format!("/proc/{first}/comm")).unwrap_or_default();
    let of_one = format!("{} ({first})", name.trim_end().escape_debug());
    Some(match left.len() as u64 {
        1 => format!("{of_one} goes"),
        count => format!("{}, such as {of_one}, go", counted(count, "process", "processes")),
    })
}
