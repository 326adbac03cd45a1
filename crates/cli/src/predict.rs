//! `reenact predict`: how long the recorded program takes elsewhere.

mod recorded;
mod result;
mod table;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;
use predict::ground::keep_mounts_to_ourselves;
use predict::run::{self, Job, Means};
use predict::{Configuration, Error, Limits, Measured, Place};

use crate::failure::{self, Failure};
use crate::latest::Input;
use crate::replay::interrupt;
use crate::rerun::args::Outside;
use crate::{message, source, units};
use recorded::Recorded;
use render::amounts::counted;
use render::origin;
use result::{Prediction, Report};

/// Predict how long the recorded program takes elsewhere: on other file systems, with less memory, with
/// slower disks.
///
/// Each configuration gets a fresh file system with the files that the recording began with. By `replay`,
/// the recorded calls are made there, and between them each thread computes as long as it did when it was
/// recorded: what the calls took is what the program would have waited for. The table begins with the
/// recorded run; of each configuration it has the predicted time with its spread, by how much that is more
/// or less than recorded, the CPU time, what the files take on disk, and the calls that changed most. With
/// --actual, a command that you name runs on the same files under the same limits, and the table says
/// how wrong the prediction is.
///
/// What a replay does not do again (starting programs, page faults, networks, waiting for time to pass) is
/// not predicted; docs/predict.md explains what follows from that.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "\
Examples:
  reenact predict db.rnt --on ext4 --on xfs --on btrfs+zlib
  reenact predict db.rnt --on ext4 --memory 64M,256M,1G --cache cold
  reenact predict db.rnt --on ext4 --path /var/lib/db --limit latency=1ms
  reenact predict make.rnt --on ext4 --limit latency=500us,read=100MB/s
  reenact predict db.rnt --on /mnt/nvme --repeat 5 --json > elsewhere.json
  reenact predict db.rnt --on tmpfs --actual 'cd \"$REENACT_ROOT\"/srv/db && ./load'")]
pub struct Args {
    #[command(flatten)]
    input: Input,

    /// Where the files lie: `ext4`, `xfs`, `btrfs`, `btrfs+zlib` (each on a fresh disk image), `tmpfs`, a
    /// disk image (a copy of it), or a directory; several times for several. All but directories need root
    #[arg(long, value_name = "WHERE", required = true, value_parser = Place::parse)]
    on: Vec<Place>,

    /// How much memory the program and the cached files have, as sizes with commas between them: each makes
    /// a configuration of its own. What the replay has for itself is added. Needs root
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = units::size)]
    memory: Vec<u64>,

    /// How slow the files are: `read=` and `write=` (bytes in a second, such as 100MB/s), `iops=`
    /// (requests in a second) and `latency=` (what each request takes besides, such as 500us), with commas
    /// between them; several times for several configurations. Needs root
    #[arg(long, value_name = "LIMITS", value_parser = limits)]
    limit: Vec<Limits>,

    /// Only what is below this directory lies there, such as a database on a volume: all other files, such as
    /// programs and libraries, lie with the disk images, on a disk of this machine; several times for
    /// several [default: all files]. Needs root
    #[arg(long, value_name = "DIR", value_parser = directory)]
    path: Vec<PathBuf>,

    /// How it is predicted: `replay` makes the recorded calls again, `rerun` executes the program again
    /// with its calls on files made for real, `both`
    #[arg(long, value_enum, default_value_t = Method::Replay)]
    method: Method,

    /// Waits for what comes from outside (clients, terminals, timers), `asap`: take no time; `recorded`:
    /// take what they took
    #[arg(long, value_enum, default_value_t = Outside::Asap)]
    stimuli: Outside,

    /// Run each this many times, and print median and spread
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,

    /// What is in the page cache when it begins: `warm` (the files, as far as they fit), or `cold`
    /// (nothing; needs root)
    #[arg(long, value_enum, default_value_t = Cache::Warm)]
    cache: Cache,

    /// A command for `sh -c` that is run on each configuration as well; REENACT_ROOT has the directory
    /// that takes the place of `/`
    #[arg(long, value_name = "COMMAND")]
    actual: Option<String>,

    /// What the program has in memory for itself, by `ps` for instance: a replay does not have it, so with
    /// --memory so much less is left for cached files
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = units::size)]
    program_memory: u64,

    /// The size of fresh disk images; they take what is written to them
    #[arg(long, value_name = "SIZE", default_value = "16G", value_parser = units::size)]
    image_size: u64,

    /// Where disk images are made [default: the directory for temporary files]
    #[arg(long, value_name = "DIR")]
    images: Option<PathBuf>,

    /// Show all columns, however wide the terminal is
    #[arg(long)]
    wide: bool,

    /// As JSON
    #[arg(long)]
    json: bool,
}

/// How a time is predicted.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
enum Method {
    Replay,
    Rerun,
    Both,
}

/// What is cached in the beginning.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cache {
    /// What was written last.
    Warm,
    /// Nothing.
    Cold,
}

impl Cache {
    fn name(self) -> &'static str {
        match self {
            Cache::Warm => "warm",
            Cache::Cold => "cold",
        }
    }
}

impl Method {
    fn each(self) -> &'static [&'static str] {
        match self {
            Method::Replay => &["replay"],
            Method::Rerun => &["rerun"],
            Method::Both => &["replay", "rerun"],
        }
    }
}

fn failed(error: Error) -> Failure {
    Failure::Failed(format!("predict: {error}"))
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let path = args.input.path()?;
    let trace = source::open(&path)?;
    source::warn_of(&path, &trace);
    let cold = args.cache == Cache::Cold;
    let configurations = configurations(args);
    // SAFETY: geteuid has no arguments and cannot fail.
    let is_root = unsafe { libc::geteuid() } == 0;
    let images = args.images.clone().unwrap_or_else(std::env::temp_dir);
    let reenact = std::env::current_exe()
        .map_err(|error| Failure::Failed(format!("predict: our own program: {error}")))?;
    let absolute = run::absolute(&path).map_err(failed)?;
    let mut job = Job::new(reenact, absolute, run::absolute(&images).map_err(failed)?);
    job.image_bytes = args.image_size;
    job.cold = cold;
    job.program_bytes = args.program_memory;
    job.paths.clone_from(&args.path);
    job.outside = args.stimuli == Outside::Recorded;
    job.tells = tell_who_interrupts;
    interrupt::listen();
    if !is_root {
        let mut refused = configurations.iter().map(|one| run::refused_without_root(one, &job));
        if let Some(why) = refused.find_map(|why| why) {
            return Err(Failure::Failed(format!("predict: {why}")));
        }
    }
    let mounts = |one: &Configuration| !one.place.is_for_anybody() || one.limits.any();
    if is_root && (configurations.iter().any(mounts) || !args.path.is_empty()) {
        keep_mounts_to_ourselves().map_err(failed)?;
    }
    if !args.memory.is_empty() && !job.hold_trace().map_err(failed)? {
        message::warn(
            "the trace is too large to be kept in memory: reading it takes time of the disk, and a part \
             of --memory",
        );
    }
    let mut report = Report {
        recording: (trace.preamble().host.clone(), trace.preamble().epoch_ns),
        when: origin::when(trace.preamble()),
        recorded: Recorded::of(&trace),
        cache: args.cache.name(),
        predictions: Vec::new(),
    };
    let unknown = unknown_time(&report.recorded);
    let mut all: Vec<Runs<'_>> =
        configurations.iter().map(|of| Runs::new(args, &job, of)).collect();
    // They take turns: a disk that becomes slower meanwhile does so for all of them.
    for number in 1..=args.repeat {
        for runs in &mut all {
            runs.round(number, unknown.as_deref());
            // What it had made is gone by now.
            if let Some(signal) = interrupt::heard() {
                return Ok(interrupt::die_of(signal));
            }
        }
    }
    report.predictions = all.into_iter().flat_map(Runs::end).collect();
    let failures = report.predictions.iter().filter(|one| !one.is_there()).count();
    let table = table::table(&report.recorded, &report.predictions);
    let printed = if args.json { report.json() } else { report.text(&table, args.wide) };
    let verdict = match failures {
        0 => Ok(ExitCode::SUCCESS),
        _ => Err(Failure::Failed(format!(
            "{failures} of {} failed",
            counted(report.predictions.len() as u64, "prediction", "predictions")
        ))),
    };
    failure::verdict(printed, verdict)
}

/// A signal ends the run that is under way; what it leaves is removed then.
fn tell_who_interrupts(process: libc::pid_t) {
    match process {
        0 => drop(interrupt::Ends),
        // Until the next one is told.
        _ => std::mem::forget(interrupt::ends(process)),
    }
}

/// Every place with every limit and every size of memory.
fn configurations(args: &Args) -> Vec<Configuration> {
    let none = [Limits::default()];
    let limits = if args.limit.is_empty() { &none[..] } else { &args.limit };
    let sizes: Vec<Option<u64>> = match args.memory.is_empty() {
        true => vec![None],
        false => args.memory.iter().copied().map(Some).collect(),
    };
    let mut all = Vec::new();
    for place in &args.on {
        for limits in limits {
            for memory in &sizes {
                all.push(Configuration { place: place.clone(), memory: *memory, limits: *limits });
            }
        }
    }
    all
}

/// Why a replay would not compute as long as the program did, if so.
fn unknown_time(recorded: &Recorded) -> Option<String> {
    let instead = if recorded.leaves_out_computing {
        "without --no-cpu-time"
    } else {
        "it while nobody else needs its processor (of programs that register no area for restartable \
         sequences, as those in Go, with --rerunnable)"
    };
    (!recorded.tells_computing).then(|| {
        format!(
            "what the program computed in {:.3} s between its calls is not in the recording, and a replay \
             would leave it out: record {instead}, or use --method rerun",
            recorded.unknown_s
        )
    })
}

/// The runs on one configuration, by each method.
struct Runs<'a> {
    args: &'a Args,
    job: &'a Job,
    configuration: &'a Configuration,
    predictions: Vec<Prediction>,
    actual: Result<Vec<Measured>, String>,
}

impl<'a> Runs<'a> {
    fn new(args: &'a Args, job: &'a Job, configuration: &'a Configuration) -> Runs<'a> {
        let by = Means::of(configuration, &job.controllers);
        let begin = |method| Prediction::new(configuration.clone(), by, method);
        let predictions = args.method.each().iter().copied().map(begin).collect();
        Runs { args, job, configuration, predictions, actual: Ok(Vec::new()) }
    }

    /// Runs once by each method. `unknown`: why a replay would say nothing.
    fn round(&mut self, number: u32, unknown: Option<&str>) {
        let Runs { args, job, configuration, predictions, actual } = self;
        for one in predictions {
            if let ("replay", Some(why)) = (one.method, unknown) {
                one.fail(why.into());
                continue;
            }
            tell(number, args.repeat, &one.name(), one.method);
            let run = match one.method {
                "replay" => run::replayed(job, configuration),
                _ => run::executed_again(job, configuration),
            };
            one.add(run.map_err(|error| error.to_string()));
        }
        if let (Some(line), Ok(runs)) = (&args.actual, &mut *actual) {
            tell(number, args.repeat, line, "actual");
            match run::actual(job, configuration, line) {
                Ok(run) => runs.push(run),
                Err(error) => *actual = Err(error.to_string()),
            }
        }
    }

    fn end(mut self) -> Vec<Prediction> {
        for one in &mut self.predictions {
            match &self.actual {
                Ok(runs) => one.actual.clone_from(runs),
                Err(error) => one.fail(error.clone()),
            }
        }
        self.predictions
    }
}

/// Says what runs, to who waits at a terminal.
fn tell(number: u32, of: u32, what: &str, how: &str) {
    if std::io::stderr().is_terminal() {
        message::note(&format!("{what}: {how}, {number} of {of}"));
    }
}

/// A directory of the recording, by its absolute path.
fn directory(text: &str) -> Result<PathBuf, String> {
    use std::path::Component;
    let path = PathBuf::from(text);
    let plain = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
    if !path.is_absolute() || path.parent().is_none() || !path.components().all(plain) {
        return Err(format!(
            "'{text}' is not an absolute path of a directory below /, without '..'"
        ));
    }
    // One slash between two names, and none at the end.
    Ok(path.components().collect())
}

/// What can be limited.
#[derive(ValueEnum, Clone, Copy)]
enum Limited {
    Read,
    Write,
    Iops,
    Latency,
}

/// Parses limits: `read=100MB/s,latency=1ms`.
fn limits(text: &str) -> Result<Limits, String> {
    let mut limits = Limits::default();
    for part in text.split(',') {
        let Some((name, value)) = part.split_once('=') else {
            return Err(format!("'{part}' has no '='; write read=100MB/s,latency=500us"));
        };
        let speed = || {
            let bytes = units::size(value.strip_suffix("/s").unwrap_or(value))?;
            if bytes == 0 { Err(format!("'{part}' lets nothing through")) } else { Ok(Some(bytes)) }
        };
        let Ok(limited) = Limited::from_str(name, false) else {
            return Err(format!(
                "'{name}' is not a limit; known are read, write, iops and latency"
            ));
        };
        match limited {
            Limited::Read => limits.read_bytes = speed()?,
            Limited::Write => limits.write_bytes = speed()?,
            Limited::Iops => match units::number(value)? {
                0 => return Err(format!("'{part}' lets nothing through")),
                iops => limits.iops = Some(iops),
            },
            Limited::Latency => limits.latency = Some(units::duration(value)?),
        }
    }
    Ok(limits)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn directories_are_absolute() {
        assert_eq!(directory("/srv//db/"), Ok(PathBuf::from("/srv/db")));
        for bad in ["", "/", "srv", "/srv/../etc", "."] {
            assert!(directory(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn limits_are_understood() {
        let read = limits("read=100MB/s,write=2M,iops=500,latency=1.5ms").unwrap();
        assert_eq!((read.read_bytes, read.write_bytes), (Some(100 << 20), Some(2 << 20)));
        assert_eq!((read.iops, read.latency), (Some(500), Some(Duration::from_micros(1500))));
        for bad in ["", "read", "read=", "read=0", "iops=0", "iops=x", "speed=1", "latency=1MB"] {
            assert!(limits(bad).is_err(), "{bad}");
        }
    }
}
