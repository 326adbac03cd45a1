//! Options of strace that `record` answers with what to do instead.

use crate::failure::Failure;

/// Options as users of strace type them.
#[derive(clap::Args, Debug)]
pub struct Habits {
    /// Children are always followed.
    #[arg(short = 'f', long = "follow-forks", hide = true)]
    follow: bool,

    #[arg(short = 'p', long = "attach", value_name = "PID", hide = true)]
    pid: Option<String>,

    #[arg(
        short = 'e',
        long = "trace",
        value_name = "CALLS",
        hide = true,
        allow_hyphen_values = true
    )]
    calls: Option<String>,

    #[arg(short = 'c', long = "summary-only", hide = true)]
    counts: bool,
}

impl Habits {
    /// Fails if an option was given that means something else here.
    pub fn check(&self) -> Result<(), Failure> {
        let advice = if self.pid.is_some() {
            "-p: reenact cannot attach to a running process; start the program by `reenact record PROGRAM`"
        } else if self.calls.is_some() {
            "-e: give --call: `reenact record --call openat,read PROGRAM`, or record all calls and choose when \
             you look: `reenact show --call openat,read`"
        } else if self.counts {
            "-c: give --summary, or ask `reenact stat` after the recording"
        } else {
            return Ok(());
        };
        Err(Failure::Recorder(advice.into()))
    }
}
