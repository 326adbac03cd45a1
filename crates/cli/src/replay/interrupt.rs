//! A replay that is interrupted takes its jail and its files along.

use std::process::ExitCode;
use std::sync::atomic::{AtomicI32, Ordering};

/// What a user, or a system that goes down, ends commands with.
const SIGNALS: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

static HEARD: AtomicI32 = AtomicI32::new(0);
static KEEPER: AtomicI32 = AtomicI32::new(0);

/// From now on such a signal ends the jail, and then the command. One that is ignored stays so.
pub fn listen() {
    for signal in SIGNALS {
        // SAFETY: the handler does only what may be done there.
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
        // SAFETY: numbers only.
        unsafe { libc::kill(keeper, libc::SIGKILL) };
    }
}

/// Forgets the jail's keeper when it goes.
pub struct Ends;

impl Drop for Ends {
    fn drop(&mut self) {
        KEEPER.store(0, Ordering::SeqCst);
    }
}

/// The process that is killed when a signal comes, or if one came.
pub fn ends(keeper: i32) -> Ends {
    KEEPER.store(keeper, Ordering::SeqCst);
    if heard().is_some() {
        kill();
    }
    Ends
}

/// The signal that came.
pub fn heard() -> Option<libc::c_int> {
    Some(HEARD.load(Ordering::SeqCst)).filter(|signal| *signal != 0)
}

/// Dies of a signal, so that whoever waits for us learns of it.
pub fn die_of(signal: libc::c_int) -> ExitCode {
    // SAFETY: numbers only.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
    ExitCode::from((128 + signal) as u8)
}
