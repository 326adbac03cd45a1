//! `reenact record`: runs supervisor, recorder and program together.

pub mod args;
mod destination;
mod kernel;
mod last_line;
mod left;
mod live;
mod loaded;
mod repeat;
mod stack;
mod summary;
mod whom;
mod written;

use std::io::{self, IsTerminal};
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use recorder::{
    Ahead, DataRule, DataRules, Elsewhere, Every, Handle, KernelEvents, Options, Recorder, host,
    state,
};
use recorder::{Sink, start_thread};
use ring::{Course, DataMode, Rings, Settings, request};
use supervisor::{
    Asked, ExecStop, LaunchError, Mapped, Observer, Outcome, Program, Supervisor, Wish,
};
use syscalls::abi::signals;
use syscalls::record::GapWhy;
use trace::event::EventKind;

use crate::failure::Failure;
use crate::message;
use crate::output::Pending;
use left::Left;
use live::Live;
use loaded::LoadedFiles;

/// The agent, built for this version.
pub static AGENT: &[u8] = include_bytes!(env!("REENACT_AGENT"));

/// Runs the command.
pub fn run(args: args::Args) -> Result<ExitCode, Failure> {
    if args.repeat > 1 {
        let (code, signal) = repeat::run(&args, args.repeat)?;
        return Ok(signal.map_or(code, end_by));
    }
    kernel::end_leftovers(args.quiet);
    let Some((program, arguments)) = args.command.split_first() else {
        return kernel::record_machine(&args);
    };
    let ours = |error: &dyn std::fmt::Display| Failure::Recorder(error.to_string());
    let calibration = host::Calibration::begin();
    let outside = state::Outside::look();
    // Fail before anything is created.
    let file = supervisor::find(program).map_err(|error| launch_failure(&error))?;
    let loses_rights = supervisor::gains_rights(&file);
    let mut supervisor = Supervisor::new(AGENT, args.buffer as usize).map_err(|e| ours(&e))?;
    let arena = supervisor.arena();
    let data = data_rules(&args);
    if args.snapshot && data.most() != DataMode::Full {
        return Err(Failure::Recorder(
            "--snapshot stores contents: it needs --data full, or a --data-for that says so".into(),
        ));
    }

    let is_partial = !args.choice().is_all();
    if (args.rerunnable || args.snapshot) && is_partial {
        return Err(Failure::Recorder(
            "--rerunnable and --snapshot are for whole recordings: they go with no --call or --path"
                .into(),
        ));
    }

    if args.rerunnable && (!data.keeps_all() || args.max_data.is_some()) {
        return Err(Failure::Recorder(
            "--rerunnable needs every byte: it goes with no --data, --data-for or --max-data that \
             leaves some out"
                .into(),
        ));
    }

    let command = args.command.iter().map(|word| word.as_bytes().to_vec()).collect();
    let mut options = args.words();
    if loses_rights {
        options.push_str("; PROGRAM ran without the rights of its file");
    }
    let mut preamble = host::preamble(command, options, calibration).map_err(|e| ours(&e))?;
    let choice = args.choice();
    supervisor.set(&Settings {
        data_mode: match data.most() {
            DataMode::Full if choice.calls.is_some() => DataMode::Chosen,
            mode => mode,
        },
        skipped: choice.skipped(),
        data_max: args.max_data.unwrap_or(u64::MAX),
        snapshot: args.snapshot,
        rings: match args.io_uring {
            _ if args.rerunnable => Rings::Refused,
            args::Rings::Capture => Rings::Captured,
            args::Rings::Refuse => Rings::Refused,
            args::Rings::Pass => Rings::Passed,
        },
        mappings: args.mappings(),
        times_cpu: args.cpu_time || !args.no_cpu_time,
        course: match (args.rerunnable, args.serialize) {
            (true, true) => Course::Serialised,
            (true, false) => Course::Rerunnable,
            (false, _) => Course::Recorded,
        },
        stack_bytes: args.callers.stacks().map_or(0, |stacks| stacks.bytes),
        tsc_hz: preamble.tsc_hz,
    });
    let output = destination::create(&args, program)?;
    preamble.trace_dev = output.device;
    let kernel = kernel::begin(&args)?;
    let options = Options {
        writer: destination::writer_options(&args),
        size_max: args.max_size,
        duration: args.duration,
        until_exit: args.until_exit,
        data,
        choice,
        manifest: !args.no_manifest,
        data_max: args.max_data,
        mappings: args.mappings(),
        mappings_every: args.mmap_every.map_or(Every::Auto, Every::Time),
        mappings_by_faults: args.mmap_times == args::MmapTimes::Faults,
        stacks: args.callers.stacks(),
        kernel: kernel.as_ref().map(|kernel| kernel.events().clone()),
    };
    let live = match &output.sink {
        Sink::File(file) if args.live => {
            Some(Live::begin(file, output.pending.path()).map_err(|e| ours(&e))?)
        }
        _ if args.live => {
            return Err(Failure::Recorder("--live needs a trace in a file, not in a pipe".into()));
        }
        _ => None,
    };
    let (sink, kin) = (output.sink, supervisor.kin());
    let recorder = Recorder::start(arena, kin, sink, &preamble, options).map_err(|e| ours(&e))?;
    let loaded = match args.rerunnable {
        true => Some(LoadedFiles::start(recorder.handle()).map_err(|error| ours(&error))?),
        false => None,
    };
    let mut observer = Glue {
        arenas: vec![arena],
        handle: recorder.handle(),
        kernel: kernel.as_ref().filter(|_| args.follows_program()).map(|k| k.events().clone()),
        is_admitted: false,
        ahead: Ahead::default(),
        elsewhere: Elsewhere::here(loaded.as_ref().map(LoadedFiles::thread)),
        wants_callers: args.callers.stacks().is_some(),
        outside,
        loaded,
        output: output.pending,
        misplaced: None,
        kin: (!args.quiet && !args.until_exit).then(|| supervisor.kin()),
        left: None,
    };
    if loses_rights && !args.quiet {
        let name = file.display();
        message::warn(&format!(
            "{name} runs without the rights of its file (set-user-id, set-group-id or capabilities): \
             only root can record it with them"
        ));
    }
    let done = supervisor.done();
    // Before the launch: if this fails, no program is left without a recorder.
    let waiting = {
        let done = Arc::clone(&done);
        let wait = move || {
            let result = recorder.join();
            done.set();
            result
        };
        start_thread("wait", wait).map_err(|error| ours(&error))?
    };
    let program = Program {
        name: program,
        args: arguments,
        stdout_to_stderr: output.is_stdout,
        fixed_addresses: args.rerunnable,
        exactly: None,
    };
    if let Err(error) = supervisor.launch(program, &mut observer) {
        let failure = launch_failure(&error);
        // Die of the same signal, as a shell does. No trace is left, as with any other failure.
        if let LaunchError::Killed { status, .. } = error {
            drop((observer, kernel));
            failure.report();
            return Ok(end_by(libc::WTERMSIG(status)));
        }
        return Err(failure);
    }
    let outcome = supervisor.serve(&mut observer, &done);
    observer.left = None;
    if let Outcome::Abandoned(signal) = outcome {
        message::warn("asked to end a second time: the trace has no end");
        drop(kernel);
        return Ok(end_by(signal));
    }
    let summary = waiting.join().map_err(|_| ours(&"the recorder failed"))?;
    if let Some(live) = live {
        live.end();
    }
    let mut len = None;
    match summary {
        Ok(summary) => {
            len = summary.unfinished.is_none().then_some(summary.trace_bytes);
            if !args.quiet {
                let path = (!output.is_stdout).then(|| observer.output.path());
                let is_beside = io::stderr().is_terminal() && !args.live;
                if is_beside && path.is_some_and(last_line::is_open) {
                    message::end_line();
                }
                message::notes(&summary::notes(&summary, path));
                if let Some(old) = observer.output.moved() {
                    let (old, new) = (old.display(), observer.output.path().display());
                    message::note(&format!(
                        "the recording before this one is {old} now; `reenact diff {old} {new}` compares them"
                    ));
                }
                summary::more(path, args.summary);
            }
        }
        Err(error) => message::note(&format!("{error}")),
    }
    if let Some(text) = &observer.misplaced {
        message::warn(text);
    }
    if let Some(text) = output.written.and_then(|file| file.lost(observer.output.path(), len)) {
        message::warn(&text);
    }
    Ok(match outcome {
        Outcome::Ended(status) if libc::WIFSIGNALED(status) => end_by(libc::WTERMSIG(status)),
        Outcome::Ended(status) => ExitCode::from(libc::WEXITSTATUS(status) as u8),
        Outcome::ToldToEnd(signal) | Outcome::Abandoned(signal) => end_by(signal),
    })
}

fn data_rules(args: &args::Args) -> DataRules {
    let mode = |mode| match mode {
        args::DataMode::Full => DataMode::Full,
        args::DataMode::Hash => DataMode::Hash,
        args::DataMode::None => DataMode::None,
    };
    let rule = |rule: &args::DataRule| DataRule {
        glob: rule.glob.clone().into_bytes(),
        mode: mode(rule.mode),
    };
    let usual = mode(args.data);
    // Files that are not recorded have no contents either.
    let recorded = args.path.iter().map(|glob| DataRule { glob: glob.clone().into(), mode: usual });
    let rules = recorded.chain(args.data_for.iter().map(rule)).collect();
    DataRules { usual: if args.path.is_empty() { usual } else { DataMode::None }, rules }
}

fn launch_failure(error: &LaunchError) -> Failure {
    let mut text = error.to_string();
    if let LaunchError::Program { program, .. } = error
        && program.as_bytes().iter().any(|byte| b" |&;<>*$".contains(byte))
    {
        text += "; for a shell command line, write `reenact record sh -c 'LINE'`";
    }
    match error {
        LaunchError::Program { source, .. } if source.kind() == io::ErrorKind::NotFound => {
            Failure::NotFound(text)
        }
        LaunchError::Program { .. } | LaunchError::Interpreter { .. } => {
            Failure::NotExecutable(text)
        }
        LaunchError::Killed { .. } | LaunchError::Ours(_) => Failure::Recorder(text),
    }
}

/// Passes the supervisor's notifications on to the recorder.
struct Glue {
    /// All arenas.
    arenas: Vec<ring::Arena>,
    handle: Handle,
    /// Events of the kernel that are recorded of the program.
    kernel: Option<KernelEvents>,
    /// The kernel knows whose events these are.
    is_admitted: bool,
    /// State read ahead for processes in an exec.
    ahead: Ahead,
    /// Keeps the recorder off processors that programs are bound to.
    elsewhere: Elsewhere,
    /// The callers of calls are looked for.
    wants_callers: bool,
    outside: state::Outside,
    /// Files that programs map, if they are noted.
    loaded: Option<LoadedFiles>,
    output: Pending,
    /// Warning that the trace has another name than requested.
    misplaced: Option<String>,
    /// Knows who the program leaves, if that is to be said.
    kin: Option<kin::Kin>,
    left: Option<Left>,
}

impl Glue {
    /// Returns true if separate processes share descriptors or directories.
    fn is_state_shared(&self) -> bool {
        self.arenas.iter().any(ring::Arena::is_state_shared)
    }

    fn tell(&self, kind: EventKind) {
        self.handle.tell(kind);
    }

    /// Makes the output final: the program has started, so an existing file may be replaced.
    fn keep_output(&mut self) {
        if let Err(text) = self.output.keep() {
            self.output.keep_beside();
            self.misplaced = Some(format!("{text}; the trace is {}", self.output.path().display()));
        }
    }
}

impl Observer for Glue {
    fn announced(&mut self, pid: u32, process: u32) {
        self.handle.process_seen(process, pid);
        if !self.is_state_shared() {
            self.ahead.look(pid, process);
        }
    }

    fn called_off(&mut self, process: u32) {
        self.ahead.take(process);
    }

    fn image(&mut self, stop: &ExecStop) {
        self.keep_output();
        let &ExecStop { pid, process, known } = stop;
        self.elsewhere.look(pid);
        if let Some(kernel) = &self.kernel {
            // Those that the first one makes are admitted by the kernel itself, at their fork.
            if !std::mem::replace(&mut self.is_admitted, true) {
                kernel.admit(pid);
            }
            self.handle.follow(pid);
        }
        if self.wants_callers {
            self.handle.maps(process, pid);
        }
        let before = self.ahead.take(process);
        if before.is_none() {
            self.handle.process_seen(process, pid);
        }
        let after = before.zip(known).filter(|_| !self.is_state_shared()).and_then(
            |(before, (credentials, blocked))| {
                before.after(credentials.uids, credentials.gids, blocked)
            },
        );
        if let Ok(mut state) = after.map_or_else(|| state::read_state(pid, process), Ok) {
            self.outside.mark(&mut state);
            self.tell(EventKind::State(Box::new(state)));
        }
        if let Some(loaded) = &mut self.loaded {
            loaded.image(pid, process);
        }
    }

    fn placed(&mut self, process: u32) {
        self.handle.placed(process);
    }

    fn not_followed(&mut self, pid: u32, process: u32, why: &str) {
        let program = std::fs::read_link(format!("/proc/{pid}/exe"));
        let program = program.map_or("a program".into(), |path| path.display().to_string());
        let text = format!("{program} runs unrecorded: {why}");
        self.handle.not_followed(process, pid, text);
    }

    fn ended(&mut self, pid: u32, status: i32) {
        self.elsewhere.ended();
        self.handle.program_ended(pid, status);
        self.left = self.kin.take().and_then(Left::begin);
    }

    fn told_to_end(&mut self, signal: i32) {
        let name = signals::name(signal).unwrap_or_default();
        let text =
            format!("reenact itself was asked to end ({name}); what is left runs on unrecorded");
        self.handle.stop(GapWhy::Interrupted, text);
    }

    fn is_recorded(&mut self, pid: i32, is_gone: bool) -> bool {
        u32::try_from(pid).is_ok_and(|pid| self.handle.is_recorded(pid, is_gone))
    }

    fn moved(&mut self, from: usize, to: usize, arena: ring::Arena, user: u32) -> Receiver<()> {
        if to / ring::SLOTS == self.arenas.len() {
            self.arenas.push(arena);
        }
        self.handle.moved(from, to, arena, user)
    }

    fn mapped(&mut self, asked: Mapped) {
        let Mapped { pid, tid, owner, thread, wish, answer } = asked;
        let wish = match wish {
            Wish::Watch { by, what, start, length, when } => {
                recorder::Wish::Watch { by, what, start, length, when }
            }
            Wish::Collect { about, start, length, next } => {
                recorder::Wish::Collect { about, start, length, next }
            }
        };
        let who = recorder::Who { pid, tid, owner, thread };
        let answer = Box::new(|reply| answer.give(reply));
        self.handle.mapped(recorder::Asked { who, wish, answer });
    }

    fn asked(&mut self, asked: Asked) {
        if let (request::FILE, Some(loaded)) = (asked.what, &mut self.loaded) {
            loaded.mapped(asked);
        }
    }
}

/// Ends with the signal that ended the program.
fn end_by(signal: i32) -> ExitCode {
    // SAFETY: all pointers are to valid locals; an all-zero sigset_t is a valid value to write to.
    unsafe {
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        libc::setrlimit(libc::RLIMIT_CORE, &raw const none);
        libc::prctl(libc::PR_SET_DUMPABLE, 0);
        libc::signal(signal, libc::SIG_DFL);
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        libc::sigprocmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
        libc::raise(signal);
    }
    ExitCode::from((128 + signal) as u8)
}
