//! Signals that interrupt a replay also end its jail and remove its files.

use std::process::ExitCode;
use std::sync::atomic::{AtomicI32, Ordering};

/// Signals that users or a system shutdown send to end commands.
const SIGNALS: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

static HEARD: AtomicI32 = AtomicI32::new(0);
static KEEPER: AtomicI32 = AtomicI32::new(0);

/// Makes these signals end the jail and then the command, except those that are ignored.
pub fn listen() {
    for signal in SIGNALS {
        // SAFETY: the handler is async-signal-safe (atomics, kill); all pointers are to valid
        // locals.
        unsafe {
            let mut before: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &raw mut before);
            if before.sa_sigaction == libc::SIG_IGN {
                continue;
            }
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = hear as extern "C" fn(libc::c_int) as usize;
            action.sa_flags = libc::SA_RESTART;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}

extern "C" fn hear(signal: libc::c_int) {
    HEARD.store(signal, Ordering::SeqCst);
    kill();
}

fn kill() {
    let keeper = KEEPER.load(Ordering::SeqCst);
    if keeper > 0 {
        // SAFETY: kill takes plain numbers and accesses no memory of ours.
        unsafe { libc::kill(keeper, libc::SIGKILL) };
    }
}

/// Guard that forgets the jail's keeper when dropped.
pub struct Ends;

impl Drop for Ends {
    fn drop(&mut self) {
        KEEPER.store(0, Ordering::SeqCst);
    }
}

/// Sets the process to be killed on a signal, and kills it if one has come already.
pub fn ends(keeper: i32) -> Ends {
    KEEPER.store(keeper, Ordering::SeqCst);
    if heard().is_some() {
        kill();
    }
    Ends
}

/// Returns the signal that came, if any.
pub fn heard() -> Option<libc::c_int> {
    Some(HEARD.load(Ordering::SeqCst)).filter(|signal| *signal != 0)
}

/// Dies of a signal, so that the parent process sees it.
pub fn die_of(signal: libc::c_int) -> ExitCode {
    // SAFETY: both calls take plain numbers, and the default action runs no handler.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
    ExitCode::from((128 + signal) as u8)
}
