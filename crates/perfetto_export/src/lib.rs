//! A recording as a Perfetto trace: a track per thread with its calls as slices, flows between them, and counters.

mod counters;
mod details;
mod ftrace;
mod in_flight;
mod tasks;
mod writer;

use std::collections::BTreeMap;
use std::io::{self, Write};

use model::decode::siginfo;
use model::file_use::{self, FileUse};
use model::kernel_tasks::KernelTask;
use model::scheduling::CPUS_MAX;
use model::{Argv, Contents, Moment, Origin, names, spawn_flags};
use render::escape::escape;
use render::text;
use syscalls::Act;
use syscalls::abi::signals;
use syscalls::record::GapWhy;
use trace::event::FieldValue;
use trace::event::{Call, EventKind, RECORDER};
use trace::event_table::Field;

use counters::{OpenDescriptors, Rates};
use details::{STYLE, call_details};
use ftrace::Bundle;
use in_flight::InFlight;
use tasks::{Tasks, track};
use writer::{Detail, Event, Pipes, TrackEventKind, Writer};

/// A call in flight.
struct UnderWay {
    /// The call is shown.
    shown: bool,
    /// Track of its thread, if its end is still to be shown.
    track: Option<u64>,
    read: u64,
    written: u64,
    /// The pipe that it read from.
    pipe: Option<Vec<u8>>,
}

/// Names of a live process.
#[derive(Default)]
struct Program {
    pid: u32,
    name: String,
    command: Argv,
    /// True if its track was written.
    shown: bool,
}

/// Writes a trace's events, in their order, as a Perfetto trace.
pub struct Exporter<W: Write> {
    out: Writer<W>,
    tasks: Tasks,
    programs: BTreeMap<u32, Program>,
    under_way: BTreeMap<(u64, u32), UnderWay>,
    pipes: Pipes,
    rates: Rates,
    open: OpenDescriptors,
    in_flight: InFlight,
    flows: u64,
    calls: u64,
    /// By CPU.
    bundles: BTreeMap<u32, Bundle>,
}

impl<W: Write> Exporter<W> {
    /// Begins a trace of that duration.
    pub fn new(out: W, span_ns: u64) -> Exporter<W> {
        Exporter {
            out: Writer::new(out),
            tasks: Tasks::default(),
            programs: BTreeMap::new(),
            under_way: BTreeMap::new(),
            pipes: Pipes::default(),
            rates: Rates::new(span_ns),
            open: OpenDescriptors::default(),
            in_flight: InFlight::default(),
            flows: 0,
            calls: 0,
            bundles: BTreeMap::new(),
        }
    }

    /// Takes the next event, which is shown if it is wanted.
    pub fn event(
        &mut self,
        moment: &Moment<'_>,
        wanted: bool,
        contents: &mut dyn Contents,
    ) -> io::Result<()> {
        let (thread, now) = (moment.event.thread, moment.enter_ns);
        self.returns(thread, now)?;
        self.open.look(moment, &mut self.out)?;
        match &moment.event.kind {
            EventKind::Call(call) => return self.call(call, moment, wanted, contents),
            EventKind::Start { process, parent, tid, .. } => {
                self.name(moment, *process);
                let flow = self.tasks.claim(*parent, *tid);
                if wanted {
                    let details = [("how", Detail::Name(started(moment)))];
                    self.instant(moment, thread, "start", "start", &details, flow)?;
                }
                if let Some(process) = self.tasks.of(moment, thread).process {
                    self.open.changed(moment, process, now);
                }
            }
            EventKind::Image { tid, .. } => {
                self.end_unfinished(thread, now)?;
                self.tasks.goes_on_as(thread, *tid);
                if let Some(process) = self.tasks.of(moment, thread).process {
                    self.name(moment, process);
                    self.open.changed(moment, process, now);
                }
            }
            EventKind::State(state) => self.name(moment, state.process),
            EventKind::Signal { signal, handler, info } if wanted => {
                let number = i32::from(*signal);
                let name = signals::name(number).map_or_else(|| number.to_string(), str::to_owned);
                let mut about = String::new();
                text::render(&mut about, &siginfo::decode(info), STYLE);
                let details =
                    [("info", Detail::Text(about)), ("handler", Detail::Address(*handler))];
                self.instant(moment, thread, &name, "signal", &details, None)?;
            }
            EventKind::Stall { ns } if wanted => {
                let details = [("ns", Detail::Uint(*ns))];
                self.instant(
                    moment,
                    thread,
                    "waited for the recorder",
                    "recorder",
                    &details,
                    None,
                )?;
            }
            EventKind::Gap { why: GapWhy::KernelEvents, .. } if moment.event.cpu().is_some() => {
                let cpu = moment.event.cpu().filter(|cpu| *cpu < CPUS_MAX);
                if let Some(cpu) = cpu {
                    self.bundle(cpu)?;
                    self.bundles.entry(cpu).or_default().lose();
                }
            }
            EventKind::Gap { why, detail, text } if wanted => {
                let mut about = String::new();
                escape(&mut about, text.as_bytes(), &[]);
                let details = [("about", Detail::Text(about)), ("detail", Detail::Uint(*detail))];
                let name = format!("gap: {}", names::gap(*why).1);
                self.instant(moment, thread, &name, "recorder", &details, None)?;
            }
            EventKind::End { .. } => {
                self.end_unfinished(thread, now)?;
                if wanted {
                    self.instant(moment, thread, "thread ended", "exit", &[], None)?;
                }
                self.tasks.forget(thread);
            }
            EventKind::Exit { process, status } => {
                self.exit(moment, *process, *status, wanted)?;
            }
            EventKind::Kernel(event) if wanted => {
                let cpu = moment.event.cpu().filter(|cpu| *cpu < CPUS_MAX);
                let layout = moment.world.kernel_layouts().get(event.layout);
                let (Some(cpu), Some(layout)) = (cpu, layout) else { return Ok(()) };
                if self.bundles.entry(cpu).or_default().add(now, event, layout) {
                    self.bundle(cpu)?;
                }
            }
            // Who was there when events began: the events say it as well.
            EventKind::Other(other) if KernelTask::of(other).is_some() => {}
            EventKind::Other(other) if wanted => {
                let details: Vec<_> = other.fields().map(detail).collect();
                self.instant(moment, thread, other.row.name, "event", &details, None)?;
            }
            EventKind::Signal { .. }
            | EventKind::Stall { .. }
            | EventKind::Gap { .. }
            | EventKind::Kernel(_)
            | EventKind::KernelLayout(_)
            | EventKind::Other(_)
            | EventKind::Unknown(_) => {}
        }
        Ok(())
    }

    /// Writes the events of a CPU.
    fn bundle(&mut self, cpu: u32) -> io::Result<()> {
        let Some(bundle) = self.bundles.get_mut(&cpu).filter(|bundle| !bundle.is_empty()) else {
            return Ok(());
        };
        self.out.ftrace(|out| bundle.put(cpu, out))
    }

    fn call(
        &mut self,
        call: &Call,
        moment: &Moment<'_>,
        wanted: bool,
        contents: &mut dyn Contents,
    ) -> io::Result<()> {
        let thread = moment.event.thread;
        self.end_unfinished(thread, moment.enter_ns)?;
        let used = file_use::of(call.nr);
        let moved = used.moved(call).unwrap_or(0);
        let mut flows = Vec::new();
        if let Some(pipe) = pipe_of(moment, call, used.to).filter(|_| moved > 0) {
            let flow = wanted.then(|| self.next_flow());
            flows.extend(flow);
            self.pipes.write(&pipe, moved, flow);
        }
        if spawn_flags(call, contents).is_some() && call.error().is_none() {
            let flow = self.next_flow();
            if wanted {
                flows.push(flow);
            }
            let tid = call.success();
            self.tasks.of(moment, thread).spawn(tid, flow);
        }
        // An operation is on a track for what is in flight, unless it never ended.
        let submitted_ns = moment.submitted_ns.filter(|_| moment.exit_ns.is_some());
        if wanted {
            let (name, details) = call_details(call, moment, contents);
            let track = match submitted_ns {
                Some(submitted_ns) => self.show_in_flight(moment, thread, submitted_ns)?,
                None => self.show(moment, thread)?,
            };
            self.calls += 1;
            self.out.event(
                TrackEventKind::Begin,
                &Event {
                    track,
                    time_ns: submitted_ns.unwrap_or(moment.enter_ns),
                    name: &name,
                    category: "call",
                    details: &details,
                    flows: &flows,
                    last_flows: &[],
                },
            )?;
            if submitted_ns.is_some() {
                let end = Event { track, time_ns: moment.enter_ns, ..Event::default() };
                self.out.event(TrackEventKind::End, &end)?;
            }
        }
        if moment.step.changes() {
            let at = moment.exit_ns.unwrap_or(moment.enter_ns);
            if let Some(process) = self.tasks.of(moment, thread).process {
                self.open.changed(moment, process, at);
            }
        }
        let Some(exit_ns) = moment.exit_ns else {
            self.tasks.of(moment, thread).unfinished = wanted;
            return Ok(());
        };
        // The kernel's own slice of an exec ends when the agent was placed, and must lie within.
        let placed_ns = moment.left_ns.filter(|_| executes(call)).unwrap_or(exit_ns);
        let exit_ns = exit_ns.max(placed_ns);
        let under_way = UnderWay {
            shown: wanted,
            track: (wanted && submitted_ns.is_none()).then(|| self.tasks.of(moment, thread).track),
            read: if used.from.is_some() { moved } else { 0 },
            written: if used.to.is_some() { moved } else { 0 },
            pipe: pipe_of(moment, call, used.from).filter(|_| moved > 0 && takes(call)),
        };
        self.tasks.of(moment, thread).returns_ns = Some(exit_ns);
        self.under_way.insert((exit_ns, thread), under_way);
        Ok(())
    }

    fn next_flow(&mut self) -> u64 {
        self.flows += 1;
        self.flows
    }

    /// Ends the slices of all calls that have returned by now, and of the thread's last call.
    fn returns(&mut self, thread: u32, now: u64) -> io::Result<()> {
        while let Some(entry) = self.under_way.first_entry() {
            if entry.key().0 > now {
                break;
            }
            let ((at, thread), call) = entry.remove_entry();
            self.ended(at, thread, call)?;
        }
        let Some(at) = self.tasks.get_mut(thread).and_then(|task| task.returns_ns) else {
            return Ok(());
        };
        match self.under_way.remove(&(at, thread)) {
            Some(call) => self.ended(at, thread, call),
            None => Ok(()),
        }
    }

    fn ended(&mut self, at: u64, thread: u32, call: UnderWay) -> io::Result<()> {
        if let Some(task) = self.tasks.get_mut(thread) {
            task.returns_ns = None;
        }
        let got = call.pipe.map(|pipe| self.pipes.read(&pipe, call.read)).unwrap_or_default();
        if !call.shown {
            return Ok(());
        }
        if let Some(track) = call.track {
            let event = Event {
                track,
                time_ns: at,
                flows: &got.parts,
                last_flows: &got.ends,
                ..Event::default()
            };
            self.out.event(TrackEventKind::End, &event)?;
        }
        self.rates.add(&mut self.out, at, call.read, call.written)
    }

    /// Ends the slice of a call that did not return, because its thread does something else.
    fn end_unfinished(&mut self, thread: u32, now: u64) -> io::Result<()> {
        let Some(task) = self.tasks.get_mut(thread) else { return Ok(()) };
        if !std::mem::take(&mut task.unfinished) {
            return Ok(());
        }
        let event = Event { track: task.track, time_ns: now, ..Event::default() };
        self.out.event(TrackEventKind::End, &event)
    }

    fn instant(
        &mut self,
        moment: &Moment<'_>,
        thread: u32,
        name: &str,
        category: &str,
        details: &[(&str, Detail)],
        flow: Option<u64>,
    ) -> io::Result<()> {
        let track = self.show(moment, thread)?;
        let event = Event {
            track,
            time_ns: moment.enter_ns,
            name,
            category,
            details,
            flows: &[],
            last_flows: flow.as_slice(),
        };
        self.out.event(TrackEventKind::Instant, &event)
    }

    /// Returns a thread's track, which is described before its first use.
    fn show(&mut self, moment: &Moment<'_>, thread: u32) -> io::Result<u64> {
        let ids = moment.world.ids(thread);
        let task = self.tasks.of(moment, thread);
        let track = task.track;
        if std::mem::replace(&mut task.shown, true) {
            return Ok(track);
        }
        task.tid = ids.map(|(_, tid)| tid);
        let Some((process, (pid, tid))) = task.process.zip(ids) else {
            let name = match (thread, moment.event.cpu()) {
                (RECORDER, _) => "the recording".to_string(),
                (_, Some(cpu)) => format!("CPU {cpu}"),
                (_, None) => format!("thread {thread}"),
            };
            self.out.track(track, None, &name, None)?;
            return Ok(track);
        };
        self.show_process(moment, process)?;
        self.out.thread(track, track::process(process), pid, tid)?;
        Ok(track)
    }

    /// Returns a track on which an operation does not overlap others.
    fn show_in_flight(
        &mut self,
        moment: &Moment<'_>,
        thread: u32,
        submitted_ns: u64,
    ) -> io::Result<u64> {
        let of_thread = self.show(moment, thread)?;
        let Some(process) = self.tasks.of(moment, thread).process else { return Ok(of_thread) };
        let (number, is_new) = self.in_flight.place(process, (submitted_ns, moment.enter_ns));
        let track = track::in_flight(process, number);
        if is_new {
            self.out.track(track, Some(track::process(process)), "in flight", None)?;
        }
        Ok(track)
    }

    fn show_process(&mut self, moment: &Moment<'_>, process: u32) -> io::Result<()> {
        if !self.programs.contains_key(&process) {
            self.name(moment, process);
        }
        let program = self.programs.entry(process).or_default();
        if std::mem::replace(&mut program.shown, true) {
            return Ok(());
        }
        // The name is written at the end: an exec changes it, but the reader keeps the first one.
        self.out.process(track::process(process), program.pid, None)?;
        self.open.show(process, &mut self.out)
    }

    /// Records the program that a process runs.
    fn name(&mut self, moment: &Moment<'_>, number: u32) {
        let Some(process) = moment.world.process(number) else { return };
        let file = process.exe.rsplit(|c| *c == b'/').next().unwrap_or_default();
        let program = self.programs.entry(number).or_default();
        program.pid = process.pid;
        program.name = shown(file);
        program.command = process.argv.clone();
    }

    fn exit(
        &mut self,
        moment: &Moment<'_>,
        process: u32,
        status: Option<i32>,
        wanted: bool,
    ) -> io::Result<()> {
        if wanted {
            self.show_process(moment, process)?;
            let name = status.map_or_else(|| "ended".to_string(), text::end_of_process);
            let event = Event {
                track: track::process(process),
                time_ns: moment.enter_ns,
                name: &name,
                category: "exit",
                ..Event::default()
            };
            self.out.event(TrackEventKind::Instant, &event)?;
        }
        self.open.exit(process, moment.enter_ns, &mut self.out)?;
        self.tasks.exit(process);
        match self.programs.remove(&process) {
            Some(program) => finish_process(&mut self.out, process, &program),
            None => Ok(()),
        }
    }

    /// Ends what is open. Returns the number of calls.
    pub fn finish(mut self) -> io::Result<u64> {
        while let Some(((at, thread), call)) = self.under_way.pop_first() {
            self.ended(at, thread, call)?;
        }
        let cpus: Vec<u32> = self.bundles.keys().copied().collect();
        cpus.into_iter().try_for_each(|cpu| self.bundle(cpu))?;
        self.rates.finish(&mut self.out)?;
        for (number, program) in &self.programs {
            finish_process(&mut self.out, *number, program)?;
        }
        self.out.finish()?;
        Ok(self.calls)
    }
}

fn shown(bytes: &[u8]) -> String {
    let mut text = String::new();
    escape(&mut text, bytes, &[]);
    text
}

fn finish_process<W: Write>(out: &mut Writer<W>, number: u32, program: &Program) -> io::Result<()> {
    if !program.shown {
        return Ok(());
    }
    let unknown = format!("process {}", program.pid);
    let name = if program.name.is_empty() { &unknown } else { &program.name };
    let command: Vec<String> = program.command.iter().map(shown).collect();
    let about = (name.as_str(), &command[..]);
    out.process(track::process(number), program.pid, Some(about))
}

fn started(moment: &Moment<'_>) -> String {
    match &moment.event.kind {
        EventKind::Start { how, .. } => names::start(*how).to_string(),
        _ => String::new(),
    }
}

/// A field of an event that has nothing but its row.
fn detail((field, value): (&'static Field, &FieldValue)) -> (&'static str, Detail) {
    let value = match value {
        FieldValue::Unsigned(number) => Detail::Uint(*number),
        FieldValue::Signed(number) => Detail::Int(*number),
        FieldValue::Bytes(bytes) => Detail::Text(shown(bytes)),
        FieldValue::Text(text) => Detail::Text(shown(text.as_bytes())),
    };
    (field.name, value)
}

/// Returns true if a call removes the bytes that it reads from a pipe.
fn takes(call: &Call) -> bool {
    syscalls::by_number(call.nr.into()).is_none_or(|row| row.act != Act::Tee)
}

/// Returns true if a call has begun another program.
fn executes(call: &Call) -> bool {
    let row = syscalls::by_number(call.nr.into());
    call.error().is_none() && row.is_some_and(|row| row.act == Act::Execute)
}

/// Returns the pipe behind a descriptor argument, if a recorded process created it.
fn pipe_of(moment: &Moment<'_>, call: &Call, arg: Option<u8>) -> Option<Vec<u8>> {
    let fd = FileUse::descriptor(call, arg)?;
    let table = moment.world.descriptors(moment.event.thread)?;
    let description = &table.get(fd)?.description;
    (description.origin == Origin::Pipe).then(|| description.path.clone())
}
