//! Options of `reenact replay`.

use std::path::PathBuf;

use clap::ValueEnum;
use replay::{Fill, Verify};

use super::log::Told;
use crate::latest::Input;
use crate::units;

/// Make the recorded calls again, on other files, and verify that each gives the same result.
///
/// Nothing of the program runs: its calls on files, directories, descriptors and pipes are made
/// again by tasks that have the descriptors and working directories of the recorded processes.
/// Everything happens inside one directory, which takes the place of `/`. What belongs to the recorded
/// machine (sockets, terminals, devices, /proc, time, identity) is taken from the trace.
///
/// It ends with 0 if all that could be checked matched the recording, and with 4 if something did
/// not. 0 does not mean that all could be checked: the last lines say how many results and how
/// many files could not be, and why (`unverified` and `final_state.verdict` in the JSON).
#[derive(clap::Args, Debug)]
#[command(after_long_help = "\
Examples:
  reenact replay sqlite3.rnt
  reenact replay make.rnt --root /mnt/xfs/replay --repeat 5 --cold --verify off
  reenact replay make.rnt --keep --until 217 --root before-217
  reenact replay make.rnt --log make.log --log-level all
  reenact replay db.rnt --pace recorded --bind /mnt/nvme=/var/lib/db --json")]
pub struct Args {
    #[command(flatten)]
    pub input: Input,

    /// Replay inside this directory, as if it were `/` [default: a fresh one, removed at the
    /// end]
    #[arg(long, value_name = "DIR")]
    pub root: Option<PathBuf>,

    /// Put the directory HOST at the place INSIDE of the root; may be given several times
    #[arg(long, value_name = "HOST=INSIDE", value_parser = bind)]
    pub bind: Vec<Bind>,

    /// What is there before: `trace` (what the trace knows of it), `none` (what is in the root
    /// already), or a directory to copy from. Only with `trace` is it known which bytes are filler:
    /// all others count as real, so filler that `reenact image` made differs at the end
    #[arg(long, value_name = "trace|none|DIR", default_value = "trace")]
    pub image: String,

    /// Between threads, `overlap`: a call starts when all that had ended before it started have
    /// ended, and of calls that overlapped comes first what was first by their results; `thread`: only
    /// each thread's own order is kept
    #[arg(long, value_enum, default_value_t = Order::Overlap)]
    pub order: Order,

    /// Operations that a program submits (io_uring, Linux AIO) and that move bytes of files or write
    /// them back, `threads`: each by a thread of its own, from its submission to where it was found
    /// completed, as many in flight as were recorded; `serial`: one after the other where they were
    /// found completed, as with --order thread
    #[arg(long = "async", value_enum, default_value_t = InFlight::Threads)]
    pub in_flight: InFlight,

    /// What was stored to mapped files, and read of them, `native`: is stored to mappings and read of
    /// them; `emulate`: is written by pwrite and read by pread, where the task has a descriptor of the
    /// file by which it may, else as with `native`. Mappings are made in both cases
    #[arg(long, value_enum, default_value_t = Stores::Native)]
    pub mmap: Stores,

    /// `afap`: as fast as possible; `recorded`: calls start when they started in the recording;
    /// `think`: as fast as possible, but each thread computes between its calls as long as it did when
    /// recorded, without what it waited for a CPU. Calls that only ask (identity, time, limits) are made as
    /// well, for their time, and others that are not made take as long as they did, unless they waited
    #[arg(long, value_enum, default_value_t = Pace::Afap)]
    pub pace: Pace,

    /// Waits for what comes from outside (sleeps, timers, time-outs, and peers and terminals that were not
    /// recorded), `asap`: take no time; `recorded`: take what they took. With --pace recorded they take
    /// what they took anyhow
    #[arg(long, value_enum, default_value_t = Stimuli::Asap)]
    pub stimuli: Stimuli,

    /// With --pace recorded: how many recorded seconds pass in one second [default: 1]
    #[arg(long, value_name = "X")]
    pub speed: Option<f64>,

    /// Compare results and buffers with the recorded ones: `off`, `warn` (report all), `abort`
    /// (stop at the first that differs). Buffers of 512 bytes and more are compared by the
    /// XXH3-128 of their bytes. What differs counts as not verifiable where it is filler (where
    /// the trace has but a hash, or what was written to a file or pipe is not stored), and where it
    /// depends on what overlapping calls did to the same bytes, in an order that is not known
    #[arg(long, value_enum, default_value_t = Check::Warn)]
    pub verify: Check,

    /// What is written, and put into the image, where the trace does not hold the bytes: `zeros`, `random` or `pattern:HEX`
    #[arg(long, value_name = "FILL", default_value = "zeros", value_parser = filler)]
    pub fill: Fill,

    /// Stop after the call with this number (see `show --seq`), and keep the files as they
    /// are then
    #[arg(long, value_name = "SEQ", value_parser = units::number::<u64>)]
    pub until: Option<u64>,

    /// Replay this many times, and print median and spread
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: u32,

    /// Before each replay, write all files back and drop the caches, where that is allowed
    #[arg(long)]
    pub cold: bool,

    /// For `reenact predict`: say on this descriptor that the files are there, and wait for an answer
    #[arg(long, value_name = "FD", hide = true, conflicts_with = "repeat",
        value_parser = clap::value_parser!(i32).range(3..))]
    pub gate: Option<i32>,

    /// Keep the fresh directory
    #[arg(long)]
    pub keep: bool,

    /// Replay into a root that is not empty
    #[arg(long)]
    pub overwrite: bool,

    /// Take no more than this of a file system, such as 10G [default: most of what is free]
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    pub max_size: Option<u64>,

    /// Write a line for each call that --log-level names into FILE, as it is dealt with: its number,
    /// who made it, the time since the replay began, what came of it, the call, what the recording
    /// says, and what was found. One JSON object per line with --json, or if the name of FILE ends
    /// in `.json` or `.jsonl`
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,

    /// Which calls to log; each level includes those before it
    #[arg(long, value_enum, requires = "log", default_value_t = Told::Mismatch)]
    pub log_level: Told,

    /// As JSON
    #[arg(long)]
    pub json: bool,
}

/// A directory of the host and its place in the root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bind {
    /// The host's directory.
    pub host: PathBuf,
    /// The place in the root.
    pub inside: PathBuf,
}

/// Order between threads.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// As their times overlapped in the recording.
    Overlap,
    /// Only the order within each thread is kept.
    Thread,
}

/// How operations are made that were in flight.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum InFlight {
    /// Several at a time, each by a thread of its own.
    Threads,
    /// One after the other.
    Serial,
}

/// How mapped files are stored to.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stores {
    /// By mappings.
    Native,
    /// By descriptors.
    Emulate,
}

/// When calls start.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pace {
    /// As fast as possible.
    Afap,
    /// As recorded.
    Recorded,
    /// Each after the CPU time that its thread used before it.
    Think,
}

/// How long waits for the outside take.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stimuli {
    /// No time.
    Asap,
    /// What they took.
    Recorded,
}

/// What is done about differences.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Check {
    /// Compare nothing.
    Off,
    /// Report all differences.
    Warn,
    /// Stop at the first difference.
    Abort,
}

impl From<Check> for Verify {
    fn from(check: Check) -> Verify {
        match check {
            Check::Off => Verify::Off,
            Check::Warn => Verify::Warn,
            Check::Abort => Verify::Abort,
        }
    }
}

impl Args {
    /// Returns the number of recorded seconds per second, if the pace is the recorded one.
    pub fn recorded_speed(&self) -> Result<Option<f64>, String> {
        match (self.pace, self.speed) {
            (Pace::Afap | Pace::Think, None) => Ok(None),
            (Pace::Afap | Pace::Think, Some(speed)) => {
                Err(format!("--speed {speed}: only with --pace recorded is there a speed"))
            }
            (Pace::Recorded, speed) => match speed.unwrap_or(1.0) {
                speed if speed.is_finite() && speed > 0.0 => Ok(Some(speed)),
                speed => Err(format!("--speed {speed}: needs to be more than 0")),
            },
        }
    }
}

fn bind(text: &str) -> Result<Bind, String> {
    let Some((host, inside)) = text.split_once('=') else {
        return Err(format!("'{text}' has no '='; write HOST=INSIDE"));
    };
    if !inside.starts_with('/') {
        return Err(format!("'{inside}' is not an absolute path"));
    }
    Ok(Bind { host: host.into(), inside: inside.into() })
}

/// Parses the filler for bytes that the trace lacks.
pub fn filler(text: &str) -> Result<Fill, String> {
    match (text, text.strip_prefix("pattern:")) {
        ("zeros", _) => Ok(Fill::Zeros),
        ("random", _) => Ok(Fill::Random),
        (_, Some(hex)) => units::hex(hex).map(Fill::Pattern),
        _ => Err(format!("'{text}' is not a filler; known are zeros, random and pattern:HEX")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binds_and_fillers() {
        assert!(bind("/a").is_err() && bind("/a=b").is_err() && bind("/a=/b").is_ok());
        assert_eq!(filler("pattern:00ff"), Ok(Fill::Pattern(vec![0, 255])));
        assert!(["pattern:0", "pattern:", "ones"].iter().all(|text| filler(text).is_err()));
    }
}
