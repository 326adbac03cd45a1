//! Events of the kernel: beside a program, or of the whole machine without one.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use ftrace::{Tracefs, Wanted, classes};
use recorder::{KernelEvents, Options, Whose, host};

use super::args::Args;
use super::destination::{create, writer_options};
use super::summary;
use super::whom::{self, Whom};
use crate::failure::Failure;
use crate::message;

/// Name of the trace if there is no program to name it after.
const MACHINE: &str = "machine";

/// Events of the kernel that are being taken. Its end removes what was set up in the kernel.
pub struct Kernel(KernelEvents);

impl Drop for Kernel {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl Kernel {
    /// For a recorder.
    pub fn events(&self) -> &KernelEvents {
        &self.0
    }
}

/// Ends what recorders that were killed have left running in the kernel.
pub fn end_leftovers(quiet: bool) {
    let Ok(tracefs) = Tracefs::find() else { return };
    let removed = tracefs.remove_leftovers();
    if !removed.is_empty() && !quiet {
        message::note(&format!(
            "ended the kernel events of a recording that was killed: {}",
            removed.join(", ")
        ));
    }
}

/// Begins to take events, if they are wanted.
pub fn begin(args: &Args) -> Result<Option<Kernel>, Failure> {
    let Some(mut events) = args.kernel_events() else { return Ok(None) };
    let refused = |error: ftrace::Error| Failure::Recorder(error.to_string());
    let (conditions, cpus) = whom::conditions(&args.kernel_for).map_err(Failure::Recorder)?;
    if args.command.is_empty() && args.kernel_for.contains(&Whom::Program) {
        let text =
            "--kernel-for program: there is no PROGRAM; without --kernel-for all is recorded";
        return Err(Failure::Usage(text.into()));
    }
    let whose = if args.is_whole_machine() { Whose::All } else { Whose::Followed(conditions) };
    // Of a program, the agent records the calls.
    if args.command.is_empty() && events.iter().any(|word| word == classes::DEFAULT) {
        events.push(classes::CALLS.into());
    }
    let tracefs = Tracefs::find().map_err(refused)?;
    let wanted = Wanted {
        events,
        also: Vec::new(),
        details: args.kernel_details(),
        buffer_bytes: args.kernel_buffer,
        cpus,
    };
    let kernel = KernelEvents::begin(&tracefs, &wanted, &whose).map_err(refused)?;
    if whose != Whose::All && !ftrace::names_processes_as_we_do() {
        return Err(Failure::Recorder(
            "kernel events of some processes alone: the kernel names processes by other numbers than those \
             that are seen here, in a PID namespace of its own; --system records them all"
                .into(),
        ));
    }
    if tracefs.is_only_read() && !args.quiet {
        message::note("tracefs can only be read, so events of the kernel come by perf_event_open");
    }
    if kernel.are_of_nobody() && !args.quiet {
        let words: Vec<String> = args.kernel_for.iter().map(ToString::to_string).collect();
        let words = words.join(",");
        message::warn(&format!("no thread is one of --kernel-for {words} so far"));
    }
    let missing = kernel.missing();
    // The classes name events that no kernel has all of.
    let named = |event: &&String| wanted.events.contains(event);
    let named: Vec<&str> = missing.iter().filter(named).map(String::as_str).collect();
    if !named.is_empty() && !args.quiet {
        message::warn(&format!("this kernel has no events {}", named.join(", ")));
    }
    Ok(Some(Kernel(kernel)))
}

/// Records the whole machine, without a program, until we are told to end.
pub fn record_machine(args: &Args) -> Result<ExitCode, Failure> {
    if args.live {
        return Err(Failure::Recorder(
            "--live shows the calls of a PROGRAM, and none is given".into(),
        ));
    }
    let ours = |error: &dyn std::fmt::Display| Failure::Recorder(error.to_string());
    let calibration = host::Calibration::begin();
    let signals = Signals::block();
    let mut preamble =
        host::preamble(Vec::new(), args.words(), calibration).map_err(|e| ours(&e))?;
    let mut output = create(args, MACHINE.as_ref())?;
    preamble.trace_dev = output.device;
    let options = Options {
        writer: writer_options(args),
        size_max: args.max_size,
        duration: args.duration,
        ..Options::default()
    };
    let Some(kernel) = begin(args)? else { return Ok(ExitCode::SUCCESS) };
    output.pending.keep().map_err(Failure::Recorder)?;
    let told = |wait| signals.wait(wait);
    let events = kernel.events();
    let summary = recorder::record_machine(output.sink, &preamble, &options, events, told);
    let summary = summary.map_err(|error| ours(&error))?;
    if !args.quiet {
        let path: Option<&Path> = (!output.is_stdout).then(|| output.pending.path());
        message::notes(&summary::notes(&summary, path));
    }
    Ok(ExitCode::SUCCESS)
}

/// Signals that end a recording, waited for instead of handled.
struct Signals(libc::sigset_t);

impl Signals {
    /// Keeps them from ending us, and threads made from now on.
    fn block() -> Signals {
        // SAFETY: an all-zero set is a valid value to write to; all pointers are to valid locals.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
                libc::sigaddset(&raw mut set, signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
            Signals(set)
        }
    }

    /// Waits for one. Returns false if none has come in time.
    fn wait(&self, time: Duration) -> bool {
        let time =
            libc::timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() };
        // SAFETY: the set and the time live as long as the call; no information is asked for.
        unsafe { libc::sigtimedwait(&raw const self.0, std::ptr::null_mut(), &raw const time) > 0 }
    }
}
