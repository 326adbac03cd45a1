//! Options of `reenact rerun`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use rerun::Stimuli;

use crate::units;

/// Execute the recorded program again, with its calls answered from the trace.
///
/// The program runs from its own files, and makes no call that reaches beyond its own processes: each
/// call is compared with the recorded one, with the bytes that go in, and gets its recorded result and
/// the bytes that came out. So it finds the same process ids, times, random numbers, directories and
/// files as when it was recorded. What it writes to its standard output and standard error is shown.
///
/// The first call that differs ends it. Programs with threads must be recorded with --serialize;
/// docs/rerun.md says which programs cannot be executed again.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "\
Examples:
  reenact record --rerunnable -o job.rnt -- ./job input
  reenact rerun job.rnt
  reenact rerun --stop-at 217 job.rnt
  reenact rerun --network live --client 'curl -s http://localhost:8080/' server.rnt
  reenact rerun --gdb --stop-at 217 job.rnt
  reenact rerun --gdb job.rnt -- -batch -ex 'break main' -ex continue -ex backtrace")]
pub struct Args {
    /// The trace, recorded with --rerunnable
    #[arg(value_name = "TRACE")]
    pub trace: PathBuf,

    /// Stop before the call with this number, and describe it
    #[arg(long, value_name = "SEQ")]
    pub stop_at: Option<u64>,

    /// End it if the program does not come to its next call in this time, and 20 times what it took when
    /// it was recorded
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "60")]
    pub stuck_after: Duration,

    /// Calls on files, `answer`: get their recorded results; `real`: are made as well, in --root, on the
    /// files that the trace describes, as a replay makes them, and their results are verified
    #[arg(long, value_enum, default_value_t = OnFiles::Answer)]
    pub files: OnFiles,

    /// With --files real: work inside this directory, as if it were `/` [default: a fresh one,
    /// removed at the end]
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,

    /// With --files real: take a root that is not empty
    #[arg(long)]
    pub overwrite: bool,

    /// With --files real: write all files back and drop the caches before the program starts, where that
    /// is allowed
    #[arg(long)]
    pub cold: bool,

    /// For `reenact predict`: say on this descriptor that the files are there, and wait for an answer
    #[arg(long, value_name = "FD", hide = true, value_parser = clap::value_parser!(i32).range(3..))]
    pub gate: Option<i32>,

    /// With --files real: keep the fresh directory
    #[arg(long)]
    pub keep: bool,

    /// With --files real: take no more than this of the file system, such as 10G [default: most of what
    /// is free]
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    pub max_size: Option<u64>,

    /// Calls on sockets of TCP, `answer`: get their recorded results; `feed`: are made as well, on real
    /// sockets of a network that has only a loopback, with peers that send what was recorded; `live`: the
    /// same, and --client connects to the program. What goes out and comes in is compared
    #[arg(long, value_enum, default_value_t = OnSockets::Answer)]
    pub network: OnSockets,

    /// With --network live: the client, a line for the shell. It is started when the program waits for it
    #[arg(long, value_name = "COMMAND", required_if_eq("network", "live"))]
    pub client: Option<OsString>,

    /// Waits for what comes from outside (timers, peers and terminals that were not recorded), `asap`:
    /// take no time; `recorded`: take what they took. That is how they count in the result; with --files
    /// real the program waits for them as well
    #[arg(long, value_enum, default_value_t = Outside::Asap)]
    pub stimuli: Outside,

    /// Do not show what the program writes
    #[arg(short, long)]
    pub quiet: bool,

    /// The result as JSON; what the program writes is not shown
    #[arg(long)]
    pub json: bool,

    /// Start gdb on the program, before its first call or that of --stop-at. `reenact goto SEQ` brings it
    /// to another call, also to an earlier one; `reenact when` shows where it is
    #[arg(long, conflicts_with_all = ["files", "network", "json"])]
    pub gdb: bool,

    /// Arguments for gdb, after `--`
    #[arg(last = true, value_name = "ARGUMENT", requires = "gdb")]
    pub gdb_args: Vec<OsString>,
}

/// What becomes of calls on files.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnFiles {
    /// They are answered.
    Answer,
    /// They are made as well.
    Real,
}

/// What becomes of calls on sockets.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnSockets {
    /// They are answered.
    Answer,
    /// They are made, and the recorded peers are played.
    Feed,
    /// They are made, and a client runs again.
    Live,
}

/// What becomes of waits for the outside.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outside {
    /// They take no time.
    Asap,
    /// They take what they took.
    Recorded,
}

impl From<Outside> for Stimuli {
    fn from(outside: Outside) -> Stimuli {
        match outside {
            Outside::Asap => Stimuli::Asap,
            Outside::Recorded => Stimuli::Recorded,
        }
    }
}
