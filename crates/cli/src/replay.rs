//! `reenact replay`: repeats the recorded calls and verifies that their results are the same.

pub mod args;
pub mod calls;
pub mod interrupt;
mod log;
pub mod report;
pub mod root;

use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use render::amounts::counted;
use render::escape::{escape, escaped};
use render::origin;
use replay::Options;
use replay::jail::{self, Directory, Exit, Powers};
use replay::log::{Line, Wanted};
use replay::session::{Findings, Image, Session};
use replay::space::available_memory;
use trace::Trace;
use trace::event::EventKind;

use crate::failure::{self, Failure};
use crate::message;
use crate::progress::Progress;
use crate::source;
pub use args::Args;
use log::Log;
use report::Report;
use root::{Leader, Root};

/// Exit codes of the process in the jail.
const DONE: u8 = 0;
const FAILED: u8 = 1;

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let from = args.input.path()?;
    let trace = source::open(&from)?;
    if let Some(part) = origin::selection(trace.preamble()) {
        return Err(Failure::Failed(format!(
            "{}: recorded with {}: without the other calls it cannot be replayed",
            from.display(),
            escaped(part.as_bytes())
        )));
    }
    source::warn_of(&from, &trace);
    if let (Some(until), Some(totals)) = (args.until, trace.totals())
        && until >= totals.calls_written
    {
        let calls = counted(totals.calls_written, "call", "calls");
        let found = format!("--until {until}: the trace has {calls}, numbered from 0");
        return Err(Failure::Usage(found));
    }
    let privileged = is_root();
    let user = first_user(&trace);
    let as_root = privileged || user.is_some_and(|(uid, _)| uid == 0);
    let options = Options {
        overlap: args.order == args::Order::Overlap,
        in_flight: args.in_flight == args::InFlight::Threads,
        emulates_mappings: args.mmap == args::Stores::Emulate,
        speed: args.recorded_speed().map_err(Failure::Usage)?,
        computes: args.pace == args::Pace::Think,
        rests: args.stimuli == args::Stimuli::Recorded && args.pace != args::Pace::Recorded,
        verify: args.verify.into(),
        fill: args.fill.clone(),
        until: args.until,
        privileged,
        powers: if as_root { Powers::Files } else { Powers::None },
        ..Options::default()
    };
    let preamble = trace.preamble();
    let recording = (preamble.host.clone(), preamble.epoch_ns);
    let mut report = Report { recording, ..Report::default() };
    let log = args.log.as_ref().map(|path| Log::open(path, &from, args.json)).transpose()?;
    let opened = Opened::once(&args)?;
    interrupt::listen();
    for number in 0..args.repeat {
        let began = Instant::now();
        let root = Root::new(&args, number)?;
        let log = log.as_ref().map(|log| log.of_run(number)).transpose()?;
        let came = in_jail(&args, &trace, &options, user, (root.directory(), &opened), log);
        if let Some(signal) = interrupt::heard() {
            if let Some(kept) = root.keep_if(args.keep)? {
                message::warn(&format!("interrupted; the files are in {}", kept.display()));
            }
            return Ok(interrupt::die_of(signal));
        }
        let (jail, findings) = came?;
        report.jail = jail;
        report.runs.push(findings);
        let is_last = number + 1 == args.repeat;
        report.kept = root.keep_if(is_last && (args.keep || args.until.is_some()))?;
        if let Some(findings) = report.runs.last_mut() {
            findings.elapsed_s = began.elapsed().as_secs_f64();
        }
    }
    report.look_up(&trace);
    let printed = if args.json { report.json() } else { report.text() };
    failure::verdict(printed, report.verdict(&from))
}

pub fn is_root() -> bool {
    // SAFETY: geteuid has no arguments and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Returns user and group of the first program.
pub fn first_user(trace: &Trace) -> Option<(u32, u32)> {
    trace.events().flatten().find_map(|next| match next.event.kind {
        EventKind::State(state) => Some((state.uids[3], state.gids[3])),
        _ => None,
    })
}

/// Directories named by the user besides the root. All replays use the same open ones.
struct Opened {
    binds: Vec<jail::Bind>,
    image: Option<Directory>,
    /// True after the warning about data that the trace lacks.
    warned: Cell<bool>,
}

impl Opened {
    fn once(args: &Args) -> Result<Opened, Failure> {
        let open = |path: &Path| {
            let opened = Directory::open(path);
            opened.map_err(|error| Failure::Failed(format!("replay: {error}")))
        };
        let bind = |bind: &args::Bind| {
            let inside = bind.inside.clone();
            Ok::<_, Failure>(jail::Bind { directory: open(&bind.host)?, inside })
        };
        let image = match args.image.as_str() {
            "trace" | "none" => None,
            directory => Some(open(Path::new(directory))?),
        };
        let binds = args.bind.iter().map(bind).collect::<Result<_, _>>()?;
        Ok(Opened { binds, image, warned: Cell::new(false) })
    }
}

/// Runs one replay in a jail. Returns a description of the jail's protection, and the findings,
/// which come through a pipe.
fn in_jail(
    args: &Args,
    trace: &Trace,
    options: &Options,
    user: Option<(u32, u32)>,
    (root, opened): (&Directory, &Opened),
    mut log: Option<Log>,
) -> Result<(String, Findings), Failure> {
    let fail = |what: &dyn std::fmt::Display| Failure::Failed(format!("replay: {what}"));
    let image = match (&opened.image, args.image.as_str()) {
        (Some(directory), _) => Image::Copy(directory.to_read().map_err(|error| fail(&error))?),
        (None, "none") => Image::None,
        (None, _) => Image::Trace,
    };
    let pipe = || io::pipe().map_err(|error| fail(&error));
    let ((reading, writing), (ready, readied), (going, go)) = (pipe()?, pipe()?, pipe()?);
    let places: Vec<Vec<u8>> =
        args.bind.iter().map(|bind| bind.inside.as_os_str().as_encoded_bytes().to_vec()).collect();
    let readable = match &image {
        Image::Copy(from) => Some(from.try_clone().map_err(|error| fail(&error))?),
        Image::Trace | Image::None => None,
    };
    let readable = readable.as_ref().map(AsFd::as_fd);
    let jail_options =
        jail::Options { root, binds: &opened.binds, identity: user, readable, filter: true };
    let memory = available_memory();
    let inmate = jail::spawn(&jail_options, |jail| {
        let passes = if matches!(image, Image::Trace) { 2 } else { 1 };
        let progress = Progress::new(trace, passes);
        let mut write;
        let log = match &mut log {
            Some(log) => {
                write = |line: &Line| log.write(line);
                let level = args.log_level.into();
                Some(Wanted { level, describe: &log::describe, write: &mut write })
            }
            None => None,
        };
        let session = Session {
            trace,
            progress: &|events| progress.advance(events),
            image,
            places: &places,
            options: options.clone(),
            max_size: args.max_size,
            memory,
            ready: Some((OwnedFd::from(readied), OwnedFd::from(going))),
            compare: args.until.is_none(),
            proc: jail.proc,
            log,
        };
        match File::from(OwnedFd::from(writing)).write_all(&session.run().to_bytes()) {
            Ok(()) => DONE,
            Err(_) => FAILED,
        }
    })
    .map_err(|error| fail(&error))?;
    let _ends = interrupt::ends(inmate.keeper());
    let protection = inmate.protection.to_string();
    // On a failure, the jail ends by itself with a message.
    let mut ready = File::from(OwnedFd::from(ready));
    if let Ok(dangers) = heard(&mut ready) {
        if !dangers.is_empty() && !opened.warned.replace(true) {
            message::warn(&format!(
                "the trace does not hold all data that moved: {dangers}. What comes out otherwise \
                 because of it is counted as not verifiable; see `reenact info`"
            ));
        }
        if args.cold {
            root::make_cold();
        }
        let begin =
            |gate| Leader::begin(gate).map_err(|error| fail(&format!("--gate {gate}: {error}")));
        let leader = args.gate.map(begin).transpose()?;
        let _ = File::from(OwnedFd::from(go)).write_all(b"!");
        if let Some(leader) = leader {
            leader.end(&mut ready);
        }
    }
    let mut bytes = Vec::new();
    let read = File::from(OwnedFd::from(reading)).read_to_end(&mut bytes);
    let exit = inmate.wait().map_err(|error| fail(&error))?;
    read.map_err(|error| fail(&error))?;
    match exit {
        Exit::Code(DONE) => match Findings::from_bytes(&bytes) {
            Ok(findings) => Ok((protection, findings)),
            Err(error) => Err(fail(&error)),
        },
        Exit::Code(code) => Err(fail(&format!("what ran in the jail ended with code {code}"))),
        Exit::Signal(signal) => {
            Err(fail(&format!("what ran in the jail was killed by signal {signal}")))
        }
    }
}

/// Limit for the text sent from the jail before the replay.
const HEARD_BYTES_MAX: u32 = 64 << 10;

/// Waits until the image is ready. Returns the text sent from the jail, escaped.
pub fn heard(from: &mut File) -> io::Result<String> {
    let mut len = [0; 4];
    from.read_exact(&mut len)?;
    let len = u32::from_le_bytes(len).min(HEARD_BYTES_MAX);
    let mut text = Vec::new();
    from.take(len.into()).read_to_end(&mut text)?;
    let mut shown = String::new();
    escape(&mut shown, &text, &[]);
    Ok(shown)
}
