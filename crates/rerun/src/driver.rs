//! Goes through the trace, and answers the calls of the program that is executed again.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use model::loaded::{Loaded, PIECES_MAX};
use model::{Conditions, Contents, Moment};
use ring::answer;
use syscalls::{Act, Again, Beside, Handler, by_number};
use trace::Trace;
use trace::event::{Call, Data, Event, EventKind, Outcome, RECORDER};

use crate::answers::{Fate, fate, of_real, of_shadow};
use crate::breakpoints;
use crate::compare::{self, Counts};
use crate::debugger::Debugger;
use crate::divergence::{Ending, Reason, diverged, unreachable, with_evidence};
use crate::files::Files;
use crate::first_image::{ImageStack, image_stack};
use crate::held::{Accepts, Held, Until, slice_of};
use crate::live::{Asked, Birth, Live, Making, Message, What, birth};
use crate::memory::Memory;
use crate::named::Named;
use crate::network::{Network, Player};
use crate::pace::{Pace, Step};
use crate::processes::{self, Processes};
use crate::real::RealFiles;
use crate::reasons::{Interrupted, why_otherwise};
use crate::reply::{give_path, give_signals};
use crate::shadows::{Means, Shadows};
use crate::streams::{NotShown, Output, Streams};
use crate::survey::{Info, Survey, comes_first, is_of_code};
use crate::timeline::{Processors, Stimuli};
use crate::words::{raw, told};

mod another;
mod ends;
mod evidence;
mod mappings;
mod network;
mod orders;
mod times;
mod turns;

/// How long to wait for a message before looking whether the program still lives.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The same for orders of a debugger.
const ORDERS_EVERY: Duration = Duration::from_millis(5);
/// Maximum number of processes whose ends are remembered.
const ENDED_MAX: usize = 1 << 16;
const TIMES_SLOWER: u32 = 20;
/// Times in a trace may make no sense.
const TAKEN_MAX: Duration = Duration::from_secs(24 * 60 * 60);
/// No thread runs longer while others wait.
const SLICE_MAX: Duration = Duration::from_secs(2);

/// What a re-execution is to be.
pub struct Setup<'a> {
    /// What is known of the recording.
    pub survey: &'a Survey,
    /// The call before which it stops.
    pub stop_at: Option<u64>,
    /// How long a thread may take to its next call, beside a multiple of what it took in the recording.
    pub patience: Duration,
    /// Who looks at the program.
    pub debugger: Option<&'a mut Debugger>,
    /// Who makes its calls on files.
    pub files: Option<Box<dyn Files + Send>>,
    /// Where files lie that the program maps.
    pub shadows: Shadows,
    /// Files that it maps as they are, where calls on files are made.
    pub real: Option<RealFiles>,
    /// What becomes of calls on sockets of TCP.
    pub network: Network,
    /// Whether it waits for the outside.
    pub stimuli: Stimuli,
    /// Those of the recording, and those that there are.
    pub processors: Processors,
    /// Set from outside when it is to end.
    pub told_to_end: Arc<AtomicBool>,
}

/// Answers the calls of a program.
pub struct Driver<'a> {
    survey: &'a Survey,
    messages: Receiver<Message>,
    stop_at: Option<u64>,
    /// How long a thread may take to its next call, beside a multiple of what it took in the recording.
    patience: Duration,
    debugger: Option<&'a mut Debugger>,
    /// The number of the call that is waited for; behind the last one, their number.
    position: u64,
    /// The process that stands before the call that is waited for, as the debugger wanted.
    stands: Option<i32>,
    /// By number in the re-execution.
    threads: HashMap<u32, Live>,
    /// Numbers in the re-execution by numbers in the recording.
    numbers: HashMap<u32, u32>,
    newcomers: Vec<(u32, Asked)>,
    /// Results that are given when their time has come.
    held: Vec<Held>,
    /// Threads that never came back from a call.
    left: Vec<Asked>,
    /// No process is left that could ask.
    is_over: bool,
    processes: Processes,
    /// Wait statuses of those that have ended.
    ended: HashMap<i32, i32>,
    streams: Streams<'a>,
    /// What it finds of the files that it maps.
    shadows: Shadows,
    real: Option<RealFiles>,
    named: Named,
    pace: Pace,
    /// Who plays the peers of real sockets.
    player: Option<Player>,
    /// By number in the recording.
    interrupted: HashMap<u32, Interrupted>,
    /// Calls that were answered.
    pub calls: u64,
    /// What was compared.
    pub counts: Counts,
    /// The processor is another one.
    pub other_processor: bool,
}

impl<'a> Driver<'a> {
    /// For a program that is about to be launched.
    pub fn new(
        setup: Setup<'a>,
        messages: Receiver<Message>,
        output: &'a mut Output<'a>,
    ) -> Driver<'a> {
        let Setup { survey, stop_at, patience, debugger, files, shadows, real, .. } = setup;
        let Setup { network, stimuli, processors, told_to_end, .. } = setup;
        Driver {
            survey,
            messages,
            stop_at,
            // Who looks at a program may take any time.
            patience: if debugger.is_some() { Duration::MAX } else { patience },
            debugger,
            position: 0,
            stands: None,
            threads: HashMap::new(),
            numbers: HashMap::new(),
            newcomers: Vec::new(),
            held: Vec::new(),
            left: Vec::new(),
            is_over: false,
            processes: Processes::default(),
            ended: HashMap::new(),
            streams: Streams::new(output),
            shadows,
            real,
            named: Named::default(),
            player: Player::new(network),
            pace: Pace::new(stimuli, processors, files, told_to_end),
            interrupted: HashMap::new(),
            calls: 0,
            counts: Counts::default(),
            other_processor: false,
        }
    }

    /// Bytes of output that are not shown.
    pub fn not_shown(&self) -> NotShown {
        self.streams.not_shown
    }

    /// Goes through the trace. All processes have ended afterwards, or were ended.
    pub fn run(&mut self, trace: &Trace) -> Ending {
        let walked =
            model::walk_files(trace, &Conditions::default(), &mut |moment, _, contents| {
                self.event(moment, contents)
            });
        let mut ending = match walked {
            Err(ending) => ending,
            Ok((_, unread)) if unread.count > 0 => Ending::Failed("the trace is damaged".into()),
            Ok(_) => self.finish().err().unwrap_or(Ending::Same),
        };
        if let Ending::Diverged(diverged) = &mut ending {
            self.look_around(diverged);
        }
        if matches!(ending, Ending::Diverged(_) | Ending::Stopped { .. }) {
            // The files are as the program has left them.
            let why = self.pace.catch_up().err();
            if let (Some(why), Ending::Stopped { .. }) = (why, &ending) {
                ending = Ending::Failed(why);
            }
        }
        if !matches!(ending, Ending::Same) {
            self.processes.end_all();
        }
        ending
    }

    fn finish(&mut self) -> Result<(), Ending> {
        self.release(u64::MAX)?;
        self.rest()?;
        self.finish_network()?;
        self.pace.catch_up().map_err(Ending::Failed)
    }

    fn event(&mut self, moment: &Moment<'_>, contents: &mut dyn Contents) -> Result<(), Ending> {
        let event = moment.event;
        if event.thread != RECORDER {
            self.release(event.tsc)?;
        }
        if let Some(loaded) = Loaded::of_event(event) {
            self.named.note(&loaded);
            if let Some(live) = self.live(loaded.thread) {
                // One more than there may be is not all of them.
                live.files.truncate(PIECES_MAX);
                live.files.push(loaded);
            }
            return Ok(());
        }
        if let Some(ran) = slice_of(event) {
            self.note_slice(event.thread);
            return self.slice(event.thread, ran.min(SLICE_MAX));
        }
        self.note_signal(event);
        match &event.kind {
            EventKind::Start { parent: 0, .. } => Ok(()),
            EventKind::Start { parent, tid, .. } => {
                self.note(Step::Begin { thread: event.thread, maker: *parent, tsc: event.tsc })?;
                self.begin(event.thread, *parent, *tid)
            }
            EventKind::Image { data, .. } => self.image(event, data, contents),
            EventKind::Signal { signal, info, .. }
                if comes_first(event) && !is_of_code(*signal, info) =>
            {
                self.signal(event.thread, info)
            }
            EventKind::Call(call) => self.call(moment, call, contents),
            EventKind::Exit { process, .. } => self.end(*process, event.tsc, moment.enter_ns),
            EventKind::End { .. } => self.note(Step::End { thread: event.thread }),
            _ => Ok(()),
        }
    }

    fn live(&mut self, recorded: u32) -> Option<&mut Live> {
        self.threads.get_mut(self.numbers.get(&recorded)?)
    }

    /// Takes a message. Waits no longer than a while.
    fn receive(&mut self, wait: Duration) -> Result<bool, Ending> {
        self.take_orders()?;
        let wait = if self.debugger.is_some() { wait.min(ORDERS_EVERY) } else { wait };
        let message = match self.messages.recv_timeout(wait) {
            Ok(message) => message,
            Err(RecvTimeoutError::Timeout) => return Ok(false),
            Err(RecvTimeoutError::Disconnected) => {
                self.is_over = true;
                return Ok(false);
            }
        };
        let asked = match message {
            Message::Asked(asked) => asked,
            Message::NotFollowed(text) => return Err(Ending::Failed(text)),
            Message::Reaped { pid, status } => {
                self.ended_by(pid, status);
                return Ok(true);
            }
        };
        if self.processes.add(asked.pid) {
            // One that has ended had the same id.
            self.ended.remove(&asked.pid);
        }
        match asked.what {
            What::Made { ret, .. } => match self.threads.get_mut(&asked.thread) {
                Some(live) if live.is_led => live.led = Some(asked),
                _ => self.made(ret, asked)?,
            },
            What::Paused => {
                let Asked { thread, answer, .. } = asked;
                let (until, word) = (Until::Turn(thread), answer::DONE);
                self.held.push(Held { until, word, args: [0; 6], answer, accepts: None });
            }
            What::Begin { parent } => self.newcomers.push((parent, asked)),
            What::Call { .. } | What::Image { .. } => {
                let live = self.threads.entry(asked.thread).or_insert_with(|| Live::new(&asked));
                (live.pid, live.tid) = (asked.pid, asked.tid);
                live.reply_at = match asked.what {
                    What::Call { reply_at, .. } => Some(reply_at),
                    _ => None,
                };
                live.asked = Some(asked);
            }
        }
        Ok(true)
    }

    /// A call was made again.
    fn made(&mut self, ret: i64, asked: Asked) -> Result<(), Ending> {
        let recorded = self.recorded(asked.thread);
        let live = self.threads.get_mut(&asked.thread);
        let Some(making) = live.and_then(|live| live.making.take()) else {
            return Err(diverged(None, recorded, Reason::Unexpected("the end of a call")));
        };
        if making.is_birth && ret > 0 {
            let birth = self.threads.get_mut(&asked.thread).and_then(|live| {
                live.births.iter_mut().rev().find(|birth| birth.recorded == making.ret)
            });
            if let Some(birth) = birth {
                birth.tid = i32::try_from(ret).ok();
            }
        } else if ret != making.ret {
            let reason = Reason::Result { name: making.name, expected: making.ret, found: ret };
            return Err(self.keep(asked, diverged(making.seq, recorded, reason)));
        }
        if let Some(number) = making.shadow {
            self.shadows.was_mapped(number);
        }
        let memory = Memory { tid: asked.tid };
        for (at, bytes) in &making.out {
            memory.give(*at, bytes).map_err(|error| unreachable(making.seq, recorded, &error))?;
        }
        (asked.answer)(answer::GIVEN, [making.ret as u64, 0, 0, 0, 0, 0], 0);
        Ok(())
    }

    fn recorded(&self, thread: u32) -> u32 {
        self.numbers
            .iter()
            .find(|(_, number)| **number == thread)
            .map_or(0, |(recorded, _)| *recorded)
    }

    /// Waits until something is there, of a process that must live until then.
    fn wait<T>(
        &mut self,
        pid: Option<i32>,
        limit: Duration,
        mut look: impl FnMut(&mut Self) -> Option<T>,
    ) -> Result<Result<T, Reason>, Ending> {
        let since = Instant::now();
        let before = pid.map(processes::cpu_time);
        let mut has_ended = false;
        loop {
            if let Some(found) = look(self) {
                return Ok(Ok(found));
            }
            if has_ended || self.is_over {
                return Ok(Err(Reason::Ended { expected: String::new() }));
            }
            if !self.receive(LOOK_EVERY)? {
                // What it has asked before is there when it is seen to have ended.
                has_ended = pid.is_some_and(|pid| self.processes.has_ended(pid));
                if since.elapsed() > limit {
                    let now = pid.map(processes::cpu_time);
                    let had = now.zip(before).map(|(now, before)| now.saturating_sub(before));
                    return Ok(Err(Reason::Stuck { seconds: since.elapsed().as_secs(), had }));
                }
                if has_ended {
                    while self.receive(Duration::ZERO)? {}
                }
            }
        }
    }

    /// A new task begins.
    fn begin(&mut self, recorded: u32, parent: u32, tid: u32) -> Result<(), Ending> {
        let no_task = || diverged(None, recorded, Reason::Unexpected("a missing task"));
        let parent = *self.numbers.get(&parent).ok_or_else(no_task)?;
        let found = self.wait(None, self.patience, |driver| {
            let live = driver.threads.get_mut(&parent)?;
            // In a namespace of its own the task sees another id than its maker.
            let its = |birth: &Birth| birth.recorded == i64::from(tid);
            let index = live.births.iter().position(its).unwrap_or(0);
            let birth = *live.births.get(index)?;
            let others: Vec<i32> = live.births.iter().filter_map(|birth| birth.tid).collect();
            let is_it = |(of, asked): &(u32, Asked)| match birth.tid {
                _ if *of != parent => false,
                Some(tid) => asked.tid == tid,
                None => !others.contains(&asked.tid),
            };
            let place = driver.newcomers.iter().position(is_it)?;
            live.births.remove(index);
            Some((driver.newcomers.swap_remove(place).1, birth))
        })?;
        let (asked, Birth { id_at, shares, .. }) =
            found.map_err(|reason| diverged(None, recorded, reason))?;
        if let Some(at) = id_at {
            Memory { tid: asked.tid }
                .write(at, &tid.to_le_bytes())
                .map_err(|error| unreachable(None, recorded, &error))?;
        }
        if self.debugger.is_some() && !shares {
            breakpoints::remove(asked.pid).map_err(|error| unreachable(None, recorded, &error))?;
        }
        self.forget_ended();
        self.numbers.insert(recorded, asked.thread);
        self.threads.insert(asked.thread, Live::new(&asked));
        let (word, args) = (answer::DONE, self.is_debugged());
        if self.is_in_turn(recorded) {
            let until = Until::Turn(asked.thread);
            self.held.push(Held { until, word, args, answer: asked.answer, accepts: None });
        } else {
            (asked.answer)(word, args, 0);
        }
        Ok(())
    }

    /// An image begins.
    fn image(
        &mut self,
        event: &Event,
        data: &[Data],
        contents: &mut dyn Contents,
    ) -> Result<(), Ending> {
        let recorded = event.thread;
        let expected = image_stack(data, contents).map_err(Ending::Failed)?;
        let asked = match self.numbers.get(&recorded).copied() {
            Some(thread) => self.next(thread, self.patience)?,
            // The launched program is the only thread so far.
            None => self.wait(None, self.patience, |driver| {
                driver.threads.values_mut().find_map(|live| live.asked.take())
            })?,
        };
        let fail = |reason| diverged(None, recorded, reason);
        let asked = match asked {
            // It was killed while it executed the program.
            Err(Reason::Ended { .. }) if self.survey.deaths.contains_key(&recorded) => {
                return Ok(());
            }
            Err(Reason::Ended { .. }) => {
                return Err(fail(Reason::Ended { expected: "a new program".into() }));
            }
            asked => asked.map_err(fail)?,
        };
        let What::Image { stack } = asked.what else {
            return Err(fail(Reason::Image("it did not execute another program".into())));
        };
        self.numbers.insert(recorded, asked.thread);
        self.note(Step::Image { thread: recorded, tsc: event.tsc })?;
        let memory = Memory { tid: asked.tid };
        let begins_otherwise = |text: String| {
            let evidence = why_otherwise(&expected, memory, asked.pid, stack);
            with_evidence(fail(Reason::Image(text)), evidence)
        };
        if stack != expected.at {
            let text = format!("its stack begins at {stack:#x}, not at {:#x}", expected.at);
            return Err(begins_otherwise(text));
        }
        let bytes = memory
            .read(stack, expected.bytes.len())
            .map_err(|error| unreachable(None, recorded, &error))?;
        let found = ImageStack { bytes, at: stack };
        if let Some(text) = expected.difference(&found) {
            return Err(begins_otherwise(text));
        }
        self.other_processor |= expected.is_of_another_processor(&found);
        memory
            .write(stack, &expected.bytes)
            .map_err(|error| unreachable(None, recorded, &error))?;
        (asked.answer)(answer::DONE, self.is_debugged(), 0);
        Ok(())
    }

    /// A signal that arrives where a call begins.
    fn signal(&mut self, recorded: u32, info: &Info) -> Result<(), Ending> {
        let fail = |reason| diverged(None, recorded, reason);
        let Some(thread) = self.numbers.get(&recorded).copied() else { return Ok(()) };
        let asked = self.next(thread, self.patience)?.map_err(fail)?;
        let What::Call { reply_at, .. } = asked.what else {
            return Err(fail(Reason::Unexpected("a new program")));
        };
        self.note_computed(recorded, Memory { tid: asked.tid }, reply_at, None)?;
        give_signals(Memory { tid: asked.tid }, reply_at, &[*info])
            .map_err(|error| unreachable(None, recorded, &error))?;
        (asked.answer)(answer::SIGNALS_FIRST, [0; 6], 0);
        Ok(())
    }

    /// Waits for the next thing that a thread asks.
    fn next(&mut self, thread: u32, limit: Duration) -> Result<Result<Asked, Reason>, Ending> {
        let pid = self.threads.get(&thread).map(|live| live.pid);
        self.wait(pid, limit, |driver| {
            driver.let_go(thread);
            driver.threads.get_mut(&thread)?.asked.take()
        })
    }

    /// Waits until a thread has made a call again, or has ended.
    fn await_made(&mut self, thread: u32, limit: Duration) -> Result<Result<(), Reason>, Ending> {
        let pid = self.threads.get(&thread).map(|live| live.pid);
        let waited = self.wait(pid, limit, |driver| {
            let live = driver.threads.get(&thread);
            live.is_none_or(|live| live.making.is_none()).then_some(())
        })?;
        Ok(waited.or_else(|reason| match reason {
            Reason::Ended { .. } => Ok(()),
            reason => Err(reason),
        }))
    }

    /// A call.
    fn call(
        &mut self,
        moment: &Moment<'_>,
        call: &Call,
        contents: &mut dyn Contents,
    ) -> Result<(), Ending> {
        let (recorded, seq) = (moment.event.thread, moment.seq);
        self.streams.note(moment);
        let Some(thread) = self.numbers.get(&recorded).copied() else {
            return Err(Ending::Failed("the trace has calls of a thread that never began".into()));
        };
        let fail = |reason| diverged(seq, recorded, reason);
        let before = self.threads.get(&thread).map_or(0, |live| live.last_ns);
        let taken = Duration::from_nanos(moment.enter_ns.saturating_sub(before));
        let limit = self.patience.saturating_add(taken.min(TAKEN_MAX).saturating_mul(TIMES_SLOWER));
        self.position = seq.unwrap_or(self.position);
        let row = by_number(call.nr.into());
        let fate = fate(row, call);
        let (asked, reply_at) = loop {
            let asked = self.next(thread, limit)?.map_err(|reason| match reason {
                Reason::Ended { .. } => {
                    fail(Reason::Ended { expected: told(call, moment, contents) })
                }
                reason => fail(reason),
            })?;
            let What::Call { nr, args, reply_at } = asked.what else {
                return Err(fail(Reason::Unexpected("a new program")));
            };
            if nr != u64::from(call.nr) {
                let expected = told(call, moment, contents);
                let reason = Reason::OtherCall { expected, found: raw(nr, &args) };
                return Err(self.keep(asked, fail(reason)));
            }
            if let Err(reason) = compare::arguments(call, row, &args) {
                return Err(self.keep(asked, fail(reason)));
            }
            let memory = Memory { tid: asked.tid };
            let compared = compare::memory(&mut self.counts, call, row, memory, contents);
            if let Err(problem) = compared {
                return Err(self.keep(asked, problem.ending(seq, recorded)));
            }
            self.stands = None;
            if seq.is_some() && seq == self.stop_at {
                self.stop(asked, reply_at, told(call, moment, contents))?;
                continue;
            }
            let executes = row.is_some_and(|row| row.act_of(&call.args) == Act::Execute);
            if executes && matches!(fate, Fate::Again { .. }) && self.is_traced(asked.pid) {
                self.trap(asked, told(call, moment, contents));
                continue;
            }
            break (asked, reply_at);
        };
        let memory = Memory { tid: asked.tid };
        self.position = seq.map_or(self.position, |seq| seq + 1);
        let mut files = Vec::new();
        if let Some(live) = self.threads.get_mut(&thread) {
            live.last_ns = moment.enter_ns;
            live.last = seq.or(live.last);
            files = std::mem::take(&mut live.files);
        }
        self.calls += 1;
        self.note_computed(recorded, memory, reply_at, moment.user_ns)?;
        self.note_call((recorded, moment.event.tsc), seq, call, row)?;
        self.streams.show(moment, call, row, contents)?;
        if matches!(fate, Fate::Given(_)) {
            self.follow(moment, call, row, contents)?;
        }
        if self.survey.deaths.get(&recorded).is_some_and(|last| Some(*last) == seq) {
            self.processes.end(asked.pid);
            return Ok(());
        }
        let signals = seq.and_then(|seq| self.survey.signals.get(&seq));
        if let Some(signals) = signals {
            give_signals(memory, reply_at, signals)
                .map_err(|error| unreachable(seq, recorded, &error))?;
        }
        match fate {
            // Another thread ends the process.
            Fate::Never if self.is_in_turn(recorded) => self.left.push(asked),
            Fate::Never => self.processes.end(asked.pid),
            Fate::Given(ret) => {
                let asked = self.beside((asked, reply_at), moment, call, row, contents)?;
                let out = compare::outputs(call, memory, contents);
                let out = out.map_err(|problem| problem.ending(seq, recorded))?;
                for (at, bytes) in out {
                    memory.give(at, &bytes).map_err(|error| unreachable(seq, recorded, &error))?;
                }
                if let Some(row) = row {
                    self.give_to_another(moment, call, row, (memory, ret))?;
                }
                let Outcome::Returned { exit_tsc, .. } = call.outcome else { return Ok(()) };
                let until = match self.is_in_turn(recorded) {
                    true => Until::Turn(thread),
                    false => Until::Time(exit_tsc),
                };
                let accepts = row.filter(|row| {
                    ret >= 0
                        && row.beside_of(&call.args) == Beside::Accepts
                        && self.player.is_some()
                });
                let Asked { pid, tid, answer, .. } = asked;
                let accepts = accepts.map(|row| {
                    let (due, call) = (exit_tsc, call.clone());
                    Box::new(Accepts { due, pid, tid, thread, recorded, reply_at, seq, call, row })
                });
                let args = [ret as u64, 0, 0, 0, 0, 0];
                self.held.push(Held { until, word: answer::GIVEN, args, answer, accepts });
            }
            Fate::Again { mut args, ret, of_file } => {
                let is_birth = row.is_some_and(|row| row.again_of(&call.args) == Again::Born);
                let failed = |error: std::io::Error| unreachable(seq, recorded, &error);
                let mut out = Vec::new();
                let (mut shadow, mut is_real) = (None, false);
                if of_file {
                    if files.is_empty() {
                        files.extend(self.named.of(call));
                    }
                    let means = self.map(&files, moment, call, contents)?;
                    match means {
                        Means::Original => {}
                        Means::Real(_) => (args, is_real) = (of_real(&args), true),
                        Means::Shadow(number) => {
                            (args, shadow) = (of_shadow(&args, &call.args), Some(number));
                        }
                    }
                    self.tell_file(&means, files, memory, reply_at).map_err(failed)?;
                } else if row.is_some_and(|row| row.handler == Handler::Remap) {
                    self.grow(call, memory);
                } else if row.is_some_and(|row| row.act_of(&call.args) == Act::Execute)
                    && let Some(path) = moment.view().cwd()
                {
                    give_path(memory, reply_at, path).map_err(failed)?;
                }
                if is_birth {
                    out = compare::outputs(call, memory, contents)
                        .map_err(|problem| problem.ending(seq, recorded))?;
                    let birth = birth(call, row, ret, memory, &mut out);
                    if let Some(live) = self.threads.get_mut(&thread) {
                        live.births.push(birth);
                    }
                }
                let name = row.map_or("", |row| row.name);
                if let Some(live) = self.threads.get_mut(&thread) {
                    live.making = Some(Making { seq, name, ret, is_birth, shadow, out });
                }
                (asked.answer)(answer::AGAIN, args, ret as u64);
                if is_real {
                    // No call is made before it is mapped: its name might lead to another file then.
                    self.await_made(thread, limit)?.map_err(fail)?;
                }
                if row.is_some_and(|row| row.handler == Handler::ExitThread)
                    && self.is_in_turn(recorded)
                {
                    processes::wait_for_end(asked.pid, asked.tid);
                }
            }
        }
        Ok(())
    }

    /// Waits until all processes have ended, of which nothing more is recorded.
    fn rest(&mut self) -> Result<(), Ending> {
        let since = Instant::now();
        loop {
            let mut live = self.threads.iter_mut();
            let beyond = live.find_map(|(thread, live)| Some((*thread, live.asked.take()?)));
            if let Some((thread, asked)) = beyond {
                if self.survey.unheard.contains(&self.recorded(thread)) {
                    self.processes.end(asked.pid);
                    continue;
                }
                let found = match asked.what {
                    What::Call { nr, args, .. } => raw(nr, &args),
                    _ => "a new program".into(),
                };
                let ending = diverged(None, self.recorded(thread), Reason::Beyond { found });
                return Err(self.keep(asked, ending));
            }
            // Those that were killed before they did anything.
            for (_, asked) in std::mem::take(&mut self.newcomers) {
                self.processes.end(asked.pid);
            }
            self.forget_ended();
            let all_ended = self.processes.is_empty();
            let is_silent = !self.receive(if all_ended { Duration::ZERO } else { LOOK_EVERY })?;
            if all_ended && is_silent {
                return Ok(());
            }
            if since.elapsed() > self.patience {
                let reason = Reason::Stuck { seconds: since.elapsed().as_secs(), had: None };
                return Err(diverged(None, 0, reason));
            }
        }
    }
}
