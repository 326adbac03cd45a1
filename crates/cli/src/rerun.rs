//! `reenact rerun`: executes the recorded program again, with its calls answered from the trace.

pub mod args;
mod client;
mod enclosure;
mod follower;
mod gdb;
mod one_cpu;
mod result;
mod scene;
mod standing;

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use recorder::{Handle, Options, Recorder, Sink, host, start_thread};
use render::amounts::counted;
use rerun::{
    Asked, Debugger, Driver, Ending, Files, Message, Network, Order, Processors, RealFiles, Reason,
    Setup, Shadows, Shown, Survey, What,
};
use ring::{Course, DataMode, Mappings, Rings, Settings, request};
use supervisor::{Exactly, ExecStop, Mapped, Observer, Program, Supervisor};
use syscalls::record::GapWhy;
use trace::Trace;
use trace::event::Preamble;

use crate::failure::Failure;
use crate::record::AGENT;
use crate::replay::interrupt;
pub use crate::rerun::args::Args;
use crate::rerun::args::{OnFiles, OnSockets};
use crate::rerun::client::Runner;
use crate::rerun::follower::{Follower, Found};
use crate::rerun::gdb::Gdb;
use crate::rerun::one_cpu::OneCpu;
use crate::rerun::result::Done;
use crate::rerun::scene::{Machine, Scene, tid_of};
use crate::{failure, message, source};

/// Memory between the program and the recorder, which has next to nothing to do.
const BUFFER_BYTES: usize = 4 << 20;
/// With more processes at a time, those that compute have several CPUs: on one they could seem to be stuck.
const ON_ONE_CPU_MAX: usize = 4;
/// How long to wait for an order of gdb at a time.
const ORDERS_WAIT: Duration = Duration::from_secs(1);
/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, Failure> {
    let trace = source::open(&args.trace)?;
    source::warn_of(&args.trace, &trace);
    let name = args.trace.display();
    let survey =
        Survey::of(&trace).map_err(|refusal| Failure::Failed(format!("{name}: {refusal}")))?;
    if let Some(seq) = args.stop_at
        && seq >= survey.calls
    {
        let calls = counted(survey.calls, "call", "calls");
        let text = format!("--stop-at {seq}: the trace has {calls}, numbered from 0");
        return Err(Failure::Usage(text));
    }
    if args.gdb {
        return debug(&args, &trace, &survey);
    }
    if args.files == OnFiles::Answer && (args.root.is_some() || args.keep || args.cold) {
        let text = "--root, --keep and --cold are for --files real: else no file is touched";
        return Err(Failure::Usage(text.into()));
    }
    if args.client.is_some() && args.network != OnSockets::Live {
        return Err(Failure::Usage("--client is for --network live".into()));
    }
    // Both must come before the first thread.
    if args.network != OnSockets::Answer {
        enclosure::enter()?;
    }
    let mut client = match &args.client {
        Some(command) => Some(Runner::prepare(command, args.quiet || args.json)?),
        None => None,
    };
    let network = match (&mut client, args.network) {
        (Some(client), _) => Network::Live(Box::new(client.started()?)),
        (None, OnSockets::Answer) => Network::Answer,
        (None, _) => Network::Feed,
    };
    let follower = match args.files {
        OnFiles::Answer => None,
        OnFiles::Real => {
            interrupt::listen();
            let started = Follower::start(&args, &trace, survey.calls);
            if let Some(signal) = interrupt::heard() {
                started.map(Follower::abandon).ok();
                return Ok(interrupt::die_of(signal));
            }
            Some(started?)
        }
    };
    let files =
        follower.as_ref().map(|follower| Box::new(follower.files()) as Box<dyn Files + Send>);
    let real = follower.as_ref().and_then(Follower::real_files);
    let made = Made { files, real, network };
    let mut done = execute(&args, &trace, &survey, args.stop_at, None, made)?;
    if let Some(client) = client
        && matches!(done.ending, Ending::Same)
    {
        done.client = client.finish(args.stuck_after);
        done.has_client = true;
    }
    let found = match follower {
        None => None,
        Some(follower) => {
            done.system_ns = follower.cpu_ns();
            let is_whole = matches!(done.ending, Ending::Same);
            let found = follower.finish(&trace, is_whole);
            if let Some(signal) = interrupt::heard() {
                return Ok(interrupt::die_of(signal));
            }
            // Why the program did not come to its end is the better news.
            if is_whole { Some(found?) } else { found.ok() }
        }
    };
    let printed = if args.json { done.json(&trace, args.stop_at, found.as_ref()) } else { Ok(()) };
    let is_same = matches!(done.ending, Ending::Same);
    if is_same {
        message::note(&done.times_told());
    }
    let has_failed = matches!(done.ending, Ending::Failed(_));
    let stuck = found.as_ref().filter(|found| has_failed && found.is_stuck());
    let verdict = match stuck.and_then(Found::failure) {
        // The program could not go on for that.
        Some(failure) => Err(failure),
        None => end(&args, &trace, done),
    };
    failure::verdict(
        printed,
        verdict.and_then(|code| match found.filter(|_| is_same) {
            None => Ok(code),
            Some(found) => judge(&found).map(|()| code),
        }),
    )
}

/// Tells how calls on files came out.
fn judge(found: &Found) -> Result<(), Failure> {
    message::note(&found.told());
    found.failure().map_or(Ok(()), Err)
}

/// Has gdb look at the program, as often as it likes.
fn debug(args: &Args, trace: &Trace, survey: &Survey) -> Result<ExitCode, Failure> {
    let mut gdb = Gdb::start(&args.gdb_args, args.stop_at.unwrap_or(0), survey.calls)?;
    let debugger = &mut gdb.debugger;
    let mut last = Ok(ExitCode::SUCCESS);
    // The number of the call to which it wants to go next.
    let mut next = None;
    loop {
        let seq = match next.take() {
            Some(seq) => seq,
            None => match debugger.order(ORDERS_WAIT) {
                Some(Order::Goto(seq)) => seq,
                Some(Order::Gone) => break,
                Some(Order::When) => {
                    debugger.tell("the re-execution has ended");
                    continue;
                }
                _ => continue,
            },
        };
        let done = execute(args, trace, survey, Some(seq), Some(debugger), Made::default())?;
        match done.ending {
            Ending::Again { seq } => {
                next = Some(seq);
                continue;
            }
            Ending::Left => break,
            _ => {}
        }
        debugger.disappoint("the re-execution has ended");
        last = end(args, trace, done);
        if let Err(failure) = &last {
            message::note(&failure.to_string());
        }
    }
    gdb.wait();
    // What it is was told.
    Ok(last.unwrap_or_else(|failure| ExitCode::from(failure.code())))
}

/// Tells how a re-execution has ended.
fn end(args: &Args, trace: &Trace, done: Done) -> Result<ExitCode, Failure> {
    let name = args.trace.display();
    let told = done.told();
    match done.ending {
        Ending::Again { .. } | Ending::Left => Ok(ExitCode::SUCCESS),
        Ending::Same => {
            message::note(&told);
            Ok(ExitCode::SUCCESS)
        }
        Ending::Stopped { call, thread } => {
            let who = tid_of(trace, thread).map(|tid| format!(" thread {tid}")).unwrap_or_default();
            message::note(&format!("stopped{who} before {call}"));
            Ok(ExitCode::SUCCESS)
        }
        Ending::Failed(text) => Err(Failure::Failed(format!("{name}: {text}"))),
        Ending::Diverged(found) => {
            let text = Scene::of(trace, &found, &done.here).told(&found);
            match found.reason {
                Reason::Stuck { .. } => Err(Failure::Stuck(text)),
                _ => Err(Failure::Different(text)),
            }
        }
    }
}

/// Who makes calls beside the program.
#[derive(Default)]
struct Made {
    files: Option<Box<dyn Files + Send>>,
    real: Option<RealFiles>,
    network: Network,
}

/// Executes the program. Returns how that ended, and what is to be told if all is well.
fn execute(
    args: &Args,
    trace: &Trace,
    survey: &Survey,
    stop_at: Option<u64>,
    debugger: Option<&mut Debugger>,
    made: Made,
) -> Result<Done, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::Failed(error.to_string());
    let first = &survey.first;
    let calibration = host::Calibration::begin();
    let mut supervisor = Supervisor::new(AGENT, BUFFER_BYTES).map_err(|error| failed(&error))?;
    let preamble = host::preamble(Vec::new(), String::new(), calibration);
    let preamble = preamble.map_err(|error| failed(&error))?;
    supervisor.set(&Settings {
        skipped: [0; ring::SKIPPED_WORDS],
        data_mode: DataMode::None,
        data_max: 0,
        snapshot: false,
        rings: Rings::Passed,
        mappings: Mappings::Unwatched,
        times_cpu: false,
        course: Course::Answered,
        tsc_hz: preamble.tsc_hz,
        stack_bytes: 0,
    });
    let directory = Path::new(OsStr::from_bytes(&first.directory));
    std::env::set_current_dir(directory).map_err(|error| {
        Failure::Failed(format!(
            "{}: the program began in this directory: {error}",
            directory.display()
        ))
    })?;
    let (arena, kin) = (supervisor.arena(), supervisor.kin());
    let sink = Sink::Stream(Box::new(io::sink()));
    let recorder = Recorder::start(arena, kin, sink, &preamble, Options::default());
    let recorder = recorder.map_err(|error| failed(&error))?;
    let (sender, messages) = channel();
    let told_to_end = Arc::new(AtomicBool::new(false));
    let mut glue =
        Glue { handle: recorder.handle(), messages: sender, told_to_end: Arc::clone(&told_to_end) };
    let done = supervisor.done();
    let waiting = {
        let done = Arc::clone(&done);
        let wait = move || {
            let result = recorder.join();
            done.set();
            result
        };
        start_thread("wait", wait).map_err(|error| failed(&error))?
    };
    let shadows = Shadows::in_a_new_directory();
    let has_network = args.network != OnSockets::Answer;
    let rules = replay::jail::rules_of_a_reader(has_network, shadows.directory())
        .map_err(|error| failed(&error))?;
    if rules.is_none() {
        message::warn("this kernel has no Landlock: the agent alone holds the program back");
    }
    let program = Program {
        name: OsStr::from_bytes(first.path.as_bytes()),
        args: &[],
        stdout_to_stderr: false,
        fixed_addresses: true,
        exactly: Some(Exactly {
            args: &first.args,
            environment: &first.environment,
            ignored: first.ignored,
            blocked: first.blocked,
            stack: first.stack,
            held_by: rules.as_ref().map(AsFd::as_fd),
            // The shadows of files that it maps could fill the disk.
            writes_no_file: true,
        }),
    };
    // Peers and clients are to have a CPU of their own, and many processes may compute at the same time.
    let has_one = !has_network && survey.processes_most <= ON_ONE_CPU_MAX;
    let cpu = if has_one { OneCpu::here() } else { OneCpu::nowhere() };
    let result = std::thread::scope(|scope| {
        // The agents' requests come from the thread that launches; the trace is read on this one.
        let setup = Setup {
            survey,
            stop_at,
            patience: args.stuck_after,
            debugger,
            files: made.files,
            shadows,
            real: made.real,
            network: made.network,
            stimuli: args.stimuli.into(),
            processors: processors(trace, &preamble),
            told_to_end: Arc::clone(&told_to_end),
        };
        let is_quiet = args.quiet || args.json;
        let answers = move || answer(is_quiet, trace, setup, messages);
        let answered = kin::without_signals(|| scope.spawn(answers));
        let launched = supervisor.launch(program, &mut glue);
        if launched.is_ok() {
            supervisor.serve(&mut glue, &done);
        }
        // The driver ends when nobody is left to ask.
        drop(glue);
        let mut result = answered.join().map_err(|_| failed(&"the driver failed"))?;
        if told_to_end.load(Ordering::Relaxed) && matches!(result.ending, Ending::Diverged(_)) {
            // The program has been ended as well, before its time.
            result.ending = Ending::Failed("interrupted".into());
        }
        launched.map_err(|error| failed(&error))?;
        result.here = Machine { cpu: preamble.cpu.clone(), kernel: preamble.kernel.clone() };
        Ok(result)
    });
    drop((waiting, cpu));
    result
}

/// The processors of the recording, and those that are here.
fn processors(trace: &Trace, here: &Preamble) -> Processors {
    let (recorded_hz, now_hz) = (trace.tsc_hz(), here.tsc_hz);
    // Virtual machines give several models one name.
    let tick_alike = recorded_hz.abs_diff(now_hz) <= now_hz / 100;
    let are_alike = tick_alike && trace.preamble().cpu == here.cpu;
    Processors { recorded_hz, now_hz, are_alike }
}

/// Answers the program's calls.
fn answer(is_quiet: bool, trace: &Trace, setup: Setup<'_>, messages: Receiver<Message>) -> Done {
    let mut lost = None;
    let mut show = |stream: Shown, bytes: &[u8]| {
        if is_quiet {
            return;
        }
        let written = match stream {
            Shown::Output => io::stdout().write_all(bytes),
            Shown::Error => io::stderr().write_all(bytes),
        };
        // That does not change what the program does.
        lost = lost.take().or(written.err());
    };
    let began = Instant::now();
    let mut driver = Driver::new(setup, messages, &mut show);
    let ending = driver.run(trace);
    let done = Done {
        ending,
        calls: driver.calls,
        here: Machine::default(),
        counts: driver.counts,
        not_shown: driver.not_shown(),
        other_processor: driver.other_processor,
        times: driver.times(),
        wall: began.elapsed(),
        system_ns: 0,
        client: None,
        has_client: false,
    };
    let flushed = io::stdout().flush();
    // A reader that is gone wants no more.
    let wanted = |error: &io::Error| error.kind() != io::ErrorKind::BrokenPipe;
    if let Some(error) = lost.or(flushed.err()).filter(wanted) {
        message::warn(&format!("the program's output is not all there: {error}"));
    }
    done
}

/// Passes on what the supervisor sees.
struct Glue {
    handle: Handle,
    messages: Sender<Message>,
    told_to_end: Arc<AtomicBool>,
}

impl Observer for Glue {
    fn announced(&mut self, pid: u32, process: u32) {
        self.handle.process_seen(process, pid);
    }

    fn called_off(&mut self, _process: u32) {}

    fn image(&mut self, stop: &ExecStop) {
        self.handle.process_seen(stop.process, stop.pid);
    }

    fn placed(&mut self, process: u32) {
        self.handle.placed(process);
    }

    fn not_followed(&mut self, pid: u32, process: u32, why: &str) {
        // It would make its calls itself.
        // SAFETY: takes numbers only; the process is stopped at an exec, so the id is its own.
        unsafe { libc::kill(pid.cast_signed(), libc::SIGKILL) };
        let text = format!("a program cannot be executed again: {why}");
        self.handle.not_followed(process, pid, text.clone());
        let _ = self.messages.send(Message::NotFollowed(text));
    }

    fn ended(&mut self, pid: u32, status: i32) {
        // Signals of the recording are no real ones: this one came from outside.
        if libc::WIFSIGNALED(status)
            && matches!(libc::WTERMSIG(status), libc::SIGTERM | libc::SIGINT | libc::SIGHUP)
        {
            self.told_to_end.store(true, Ordering::Relaxed);
        }
        self.handle.program_ended(pid, status);
    }

    fn reaped(&mut self, pid: i32, status: i32) {
        let _ = self.messages.send(Message::Reaped { pid, status });
    }

    fn signalled(&mut self, signal: i32) {
        if matches!(signal, libc::SIGTERM | libc::SIGINT | libc::SIGHUP) {
            // The program waits for an answer: that is not to be waited for.
            self.told_to_end.store(true, Ordering::Relaxed);
        }
    }

    fn told_to_end(&mut self, _signal: i32) {
        self.told_to_end.store(true, Ordering::Relaxed);
        self.handle.stop(GapWhy::Interrupted, String::new());
        let _ = self.messages.send(Message::NotFollowed("interrupted".into()));
    }

    fn is_recorded(&mut self, pid: i32, is_gone: bool) -> bool {
        u32::try_from(pid).is_ok_and(|pid| self.handle.is_recorded(pid, is_gone))
    }

    fn moved(&mut self, from: usize, to: usize, arena: ring::Arena, user: u32) -> Receiver<()> {
        self.handle.moved(from, to, arena, user)
    }

    fn mapped(&mut self, _asked: Mapped) {}

    fn asked(&mut self, asked: supervisor::Asked) {
        let supervisor::Asked { pid, tid, thread, what, args, more, answer, .. } = asked;
        let what = match what {
            request::CALL => What::Call { nr: more[0], args, reply_at: more[1] },
            request::MADE => What::Made { ret: args[0].cast_signed(), ticks: args[1] },
            request::BEGIN => What::Begin { parent: args[0] as u32 },
            request::IMAGE => What::Image { stack: args[0] },
            request::PAUSED => What::Paused,
            _ => return,
        };
        let answer = Box::new(move |word, args, more| answer.give_with(word, args, more));
        let _ = self.messages.send(Message::Asked(Asked { pid, tid, thread, what, answer }));
    }
}
