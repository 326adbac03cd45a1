//! Events of the kernel: from the buffers of the CPUs into the trace.
//!
//! Layouts come first, in the recorder's stream. Then each round reads what the buffers hold, and
//! adds it to the streams of the CPUs. If only some tasks are wanted (`chosen.rs`), events are looked
//! at in the order of their times, since who is wanted follows from forks on any CPU.

mod chosen;
mod devices;
mod tasks;
mod whom;

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex, TryLockError};
use std::time::{Duration, Instant};

use ftrace::{
    Admission, Capture, Error, Format, Kind, Page, Part, RawEvent, Tracefs, Value, Wanted,
};
use model::kernel_tasks::{KernelScope, KernelTask, Missing};
use syscalls::record::GapWhy;
use trace::event::{CPU_STREAM, EventKind, RECORDER};
use trace::event_table::row_of;
use trace::format::event_number;
use trace::kernel::{
    KernelField, KernelKind, KernelLayout, KernelRef, KernelValue, KernelWords, put_value,
};

use crate::host;
use crate::kernel::chosen::{Chosen, calls_that_change_who};
pub use crate::kernel::whom::Condition;
use crate::output::Output;

/// Time between two looks at the buffers while calls keep the recorder busy.
const READ_EVERY: Duration = Duration::from_millis(2);
/// Pages of one CPU that are read in a round: others are to have their turn.
const PAGES_PER_ROUND: usize = 2048;
/// Pages that wait for the order of times to be known.
const PAGES_HELD_MAX: usize = 8192;
/// How long the end of a recording waits for a round that is going on.
const END_WAIT: Duration = Duration::from_millis(500);

/// Where the machine's threads are shown.
const PROC: &str = "/proc";
/// And our own.
const OWN_THREADS: &str = "/proc/self/task";

/// Whose events are kept.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Whose {
    /// Those of the whole machine, but for what our own threads do among themselves.
    All,
    /// Those of processes that [`Handle::follow`](crate::Handle::follow) names, and of those that
    /// they make; and those of threads of which one of the conditions holds.
    Followed(Vec<Condition>),
}

/// The event by which it is known what threads do.
const SWITCH: &str = "sched/sched_switch";

/// Events by which it is known whose events are kept.
const ABOUT_TASKS: [&str; 2] = ["sched:sched_process_fork", "sched:sched_process_exec"];
/// And where that follows from what a thread is.
const ABOUT_CGROUPS: [&str; 2] = ["cgroup:cgroup_attach_task", "cgroup:cgroup_transfer_tasks"];

/// Events of the kernel that are being taken. The instance is removed when the last clone is gone,
/// or by [`KernelEvents::end`].
#[derive(Clone)]
pub struct KernelEvents {
    taking: Arc<Mutex<Option<Taking>>>,
    admission: Option<Admission>,
}

impl KernelEvents {
    /// Begins to take events.
    pub fn begin(tracefs: &Tracefs, wanted: &Wanted, whose: &Whose) -> Result<KernelEvents, Error> {
        let captures = match whose {
            Whose::All => {
                let capture = Capture::new(tracefs, wanted, Part::All, now)?;
                capture.leave_out_own_threads()?;
                vec![capture]
            }
            Whose::Followed(conditions) => {
                let mut wanted = wanted.clone();
                wanted.also = ABOUT_TASKS.map(String::from).to_vec();
                if !conditions.is_empty() {
                    let calls = calls_that_change_who().map(|number| format!("id=={number}"));
                    let calls: Vec<String> = calls.collect();
                    wanted.also.push(format!("raw_syscalls:sys_exit:{}", calls.join("||")));
                    wanted.also.extend(ABOUT_CGROUPS.map(String::from));
                }
                // Without instances all events are taken, and thinned here.
                let parts: &[Part] = match tracefs.is_only_read() {
                    true => &[Part::All],
                    false => &[Part::OfAnyThread, Part::OfAdmitted],
                };
                let captures = parts.iter().map(|part| Capture::new(tracefs, &wanted, *part, now));
                let mut captures = captures.collect::<Result<Vec<_>, _>>()?;
                // The kernel refuses to filter what there is not.
                captures.retain(|capture| !capture.formats().is_empty());
                captures
            }
        };
        let admission = captures.get(1).and_then(Capture::admission);
        // From here on those are kept of which the events do not tell that they begin.
        kin::begun();
        let mut taking = Taking::new(captures, whose, admission.clone());
        taking.is_of_cpus = !wanted.cpus.is_empty();
        taking.captures.iter().try_for_each(Capture::begin)?;
        // Before there is a program: what is written of it has later times.
        taking.look_around();
        Ok(KernelEvents { taking: Arc::new(Mutex::new(Some(taking))), admission })
    }

    /// Takes the events of a process from now on, before it does anything more.
    pub fn admit(&self, process: u32) {
        if let Some(admission) = &self.admission {
            admission.admit(process);
        }
    }

    /// What was asked for, and this kernel does not have.
    pub fn missing(&self) -> Vec<String> {
        self.with(|taking| taking.captures[0].missing().to_vec()).unwrap_or_default()
    }

    /// Whether conditions say whose events are kept, and they hold of nobody yet.
    pub fn are_of_nobody(&self) -> bool {
        let is_nobody = |taking: &mut Taking| {
            let is_followed = taking.tasks.iter().any(|(_, task)| task.is_followed);
            !taking.conditions.is_empty() && taking.recorder != 0 && !is_followed
        };
        self.with(is_nobody).unwrap_or(false)
    }

    /// Takes no more, and removes the instance, even if nobody has read the rest.
    pub fn end(&self) {
        let since = Instant::now();
        loop {
            match self.taking.try_lock() {
                Ok(mut taking) => return drop(taking.take()),
                // A writer that waits for its reader may hold it for ever.
                Err(TryLockError::WouldBlock) if since.elapsed() < END_WAIT => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(_) => return,
            }
        }
    }

    fn with<T>(&self, use_it: impl FnOnce(&mut Taking) -> T) -> Option<T> {
        let mut taking = self.taking.lock().ok()?;
        taking.as_mut().map(use_it)
    }

    /// Writes the layouts: before any event.
    pub(crate) fn introduce(&self, out: &mut Output) {
        self.with(|taking| taking.introduce(out));
    }

    /// Keeps what this process does from a time on, and those that it makes.
    pub(crate) fn follow(&self, out: &mut Output, process: u32, from: u64) {
        self.with(|taking| taking.follow(out, process, from));
    }

    /// Takes no more; what was taken can still be read.
    pub(crate) fn pause(&self) {
        // Fails only if tracefs is gone, and with it the events.
        self.with(|taking| taking.captures.iter().for_each(|capture| _ = capture.end()));
    }

    /// Reads what there is, unless it was just done. Returns the number of bytes read.
    pub(crate) fn read(&self, out: &mut Output) -> u64 {
        let is_due = |taking: &Taking| taking.read_at.elapsed() >= READ_EVERY;
        self.with(|taking| if is_due(taking) { taking.read(out, false) } else { 0 }).unwrap_or(0)
    }

    /// Reads all that is left, tells what was lost, and removes the instance.
    pub(crate) fn finish(&self, out: &mut Output) {
        self.pause();
        self.with(|taking| taking.finish(out));
        self.end();
    }
}

impl std::fmt::Debug for KernelEvents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KernelEvents")
    }
}

/// What is known of one kind of event.
struct Known {
    format: Format,
    layout: u32,
    /// It is in the trace, not only for us.
    is_wanted: bool,
    /// So are its fields.
    has_details: bool,
}

/// One CPU.
#[derive(Default)]
struct Cpu {
    number: u32,
    /// The capture, and the place of its buffer there.
    buffer: [usize; 2],
    /// Pages that were read, the next one first.
    pages: VecDeque<Page>,
    /// Losses that the trace tells of.
    told: u64,
    /// Time stamp of the last event.
    last: u64,
}

/// Reads the buffers.
struct Taking {
    captures: Vec<Capture>,
    admission: Option<Admission>,
    conditions: Vec<Condition>,
    known: Vec<Known>,
    /// By number of the format: its place in `known`.
    places: Vec<Option<u16>>,
    cpus: Vec<Cpu>,
    chosen: Option<Chosen>,
    /// Who was there, and when that was seen; until it is written.
    tasks: Vec<(u64, KernelTask)>,
    began: u64,
    /// Our own process; 0 if the kernel's events name it by another number.
    recorder: u32,
    /// Our own threads whose events the kernel leaves out, by number.
    left_out: Vec<u32>,
    /// Only what happens on some CPUs is wanted.
    is_of_cpus: bool,
    read_at: Instant,
    /// When the last two rounds began: all that is older than the first was read.
    rounds: [u64; 2],
    spare: Vec<Page>,
    values: Vec<u8>,
}

impl Taking {
    fn new(mut captures: Vec<Capture>, whose: &Whose, admission: Option<Admission>) -> Taking {
        let of_all = captures.iter().flat_map(Capture::formats);
        let formats: Vec<Format> = of_all.cloned().collect();
        let details: Vec<bool> = captures.iter().flat_map(Capture::has_details).copied().collect();
        let layouts = layouts(&formats, &details);
        let (chosen, conditions) = match whose {
            Whose::All => (None, Vec::new()),
            Whose::Followed(conditions) => (Some(Chosen::new(&formats)), conditions.clone()),
        };
        let highest = formats.iter().map(|format| usize::from(format.id)).max().unwrap_or(0);
        let mut places = vec![None; highest + 1];
        for (place, format) in formats.iter().enumerate() {
            places[usize::from(format.id)] = u16::try_from(place).ok();
        }
        let wanted = captures.iter().flat_map(|capture| {
            let count = capture.wanted();
            (0..capture.formats().len()).map(move |at| at < count)
        });
        let wanted: Vec<bool> = wanted.collect();
        let known = formats.into_iter().zip(layouts).zip(wanted.into_iter().zip(details));
        let known = known.map(|((format, layout), (is_wanted, has_details))| Known {
            format,
            layout: layout.number,
            is_wanted,
            has_details,
        });
        let known = known.collect();
        let mut cpus = Vec::new();
        for (of, capture) in captures.iter_mut().enumerate() {
            let numbers = capture.buffers().iter().map(|buffer| buffer.cpu).enumerate();
            let cpu = |(at, number)| Cpu { number, buffer: [of, at], ..Cpu::default() };
            cpus.extend(numbers.map(cpu));
        }
        Taking {
            captures,
            admission,
            conditions,
            known,
            places,
            cpus,
            chosen,
            tasks: Vec::new(),
            began: host::tsc(),
            recorder: if ftrace::names_processes_as_we_do() { std::process::id() } else { 0 },
            left_out: Vec::new(),
            is_of_cpus: false,
            read_at: Instant::now(),
            rounds: [0; 2],
            spare: Vec::new(),
            values: Vec::new(),
        }
    }

    fn introduce(&mut self, out: &mut Output) {
        // By now the threads are there that read the buffers and write the trace. A filter that the kernel
        // does not take makes them slower, not wrong.
        let leave_out = match self.chosen {
            Some(_) => Capture::leave_out_own_calls,
            None => Capture::leave_out_own_threads,
        };
        self.left_out = tasks::numbers(Path::new(OWN_THREADS));
        self.captures.iter().for_each(|capture| _ = leave_out(capture));
        let formats: Vec<Format> = self.known.iter().map(|known| known.format.clone()).collect();
        let details: Vec<bool> = self.known.iter().map(|known| known.has_details).collect();
        for (layout, known) in layouts(&formats, &details).into_iter().zip(&self.known) {
            if known.is_wanted {
                out.event(RECORDER, self.began, EventKind::KernelLayout(Box::new(layout)));
            }
        }
        let is_whole = self.chosen.is_none();
        let row = row_of(event_number::KERNEL_SCOPE).expect("the table has it");
        let words: Vec<String> = self.conditions.iter().map(Condition::to_string).collect();
        let is_of_some = |capture: &Capture| capture.has_condition(SWITCH);
        let missing = match self.captures.iter().any(is_of_some) {
            true => Missing::Switches,
            false if self.is_of_cpus => Missing::OtherCpus,
            false => Missing::Nothing,
        };
        let (text, recorder) = (words.join(","), self.recorder);
        let scope = KernelScope { is_whole, text, recorder, missing };
        out.event(RECORDER, self.began, EventKind::Other(scope.event(row)));
        let row = row_of(event_number::KERNEL_DEVICE).expect("the table has it");
        // Where it cannot be read, devices have their numbers.
        let list = std::fs::read_to_string(devices::PARTITIONS).unwrap_or_default();
        for device in devices::parse(&list) {
            out.event(RECORDER, self.began, EventKind::Other(device.event(row)));
        }
        let tasks = std::mem::take(&mut self.tasks);
        let of_ours = tasks::numbers(Path::new(OWN_THREADS)).into_iter();
        let since = of_ours.filter(|task| tasks.iter().all(|(_, known)| known.task != *task));
        let since: Vec<u32> = since.collect();
        for (time, task) in tasks {
            tell(&task, time, out);
        }
        self.tell_own(&since, out);
    }

    /// Tells which threads are ours: that we make them is left out with all else that we do.
    fn tell_own(&self, threads: &[u32], out: &mut Output) {
        if self.recorder == 0 || self.chosen.is_some() {
            return;
        }
        for &task in threads {
            let blank = KernelTask { task, process: self.recorder, ..KernelTask::default() };
            let task = tasks::of_thread(Path::new(PROC), task).unwrap_or(blank);
            tell(&KernelTask { process: self.recorder, ..task }, host::tsc(), out);
        }
    }

    /// Sees who is there, and whose events are kept.
    fn look_around(&mut self) {
        // Elsewhere /proc names threads by other numbers than the kernel's events.
        if self.recorder == 0 {
            return;
        }
        let all = tasks::all(Path::new(PROC));
        let descendants = whom::descendants(&self.conditions, &all);
        for mut task in all {
            let is_descendant = descendants.contains(&task.process);
            let is_asked_for = self.conditions.iter().any(|condition| condition.holds(&task));
            task.is_followed = is_descendant || is_asked_for;
            if let Some(chosen) = self.chosen.as_mut().filter(|_| task.is_kernel) {
                chosen.is_of_kernel(task.task);
            }
            if let Some(chosen) = self.chosen.as_mut().filter(|_| task.is_followed) {
                if is_descendant {
                    chosen.follow(task.task, self.began);
                }
                chosen.becomes(task.task, is_asked_for);
                if let Some(admission) = &self.admission {
                    admission.admit(task.task);
                }
            }
            // If it is one, its events are kept since they began.
            let time = if task.is_followed { self.began } else { host::tsc() };
            self.tasks.push((time, task));
        }
        self.tasks.sort_by_key(|(time, _)| *time);
    }

    fn follow(&mut self, out: &mut Output, process: u32, from: u64) {
        let Some(chosen) = &mut self.chosen else { return };
        chosen.follow(process, from);
        let blank = KernelTask { task: process, process, ..KernelTask::default() };
        let task = tasks::of_process(Path::new(PROC), process).unwrap_or(blank);
        tell(&KernelTask { is_followed: true, ..task }, from, out);
    }

    fn finish(&mut self, out: &mut Output) {
        while self.read(out, true) != 0 {}
        let own = tasks::numbers(Path::new(OWN_THREADS));
        for number in self.left_out.iter().filter(|number| !own.contains(number)) {
            // Its number may have been given to a thread of somebody else's.
            let text = format!("events of a thread with the number {number}, if there was one");
            let kind = EventKind::Gap { why: GapWhy::KernelEvents, detail: 0, text };
            out.event(RECORDER, host::tsc(), kind);
        }
        out.kernel_events_dropped = self.chosen.as_ref().map_or(0, Chosen::dropped);
        for cpu in &mut self.cpus {
            let [of, at] = cpu.buffer;
            let Ok(losses) = self.captures[of].buffers()[at].losses() else { continue };
            let untold = losses.overrun.saturating_add(losses.dropped).saturating_sub(cpu.told);
            if untold != 0 {
                tell_loss(cpu, cpu.last, untold, out);
            }
        }
    }

    /// Reads what there is, and hands over what is known to be in order. Returns the bytes read.
    fn read(&mut self, out: &mut Output, is_last: bool) -> u64 {
        self.tell_own(&kin::begun(), out);
        let now = host::tsc();
        self.read_at = Instant::now();
        let mut bytes = 0;
        for at in 0..self.cpus.len() {
            let mut has_lost = false;
            let [of, place] = self.cpus[at].buffer;
            for _ in 0..PAGES_PER_ROUND {
                let mut page = self.spare.pop().unwrap_or_default();
                let buffer = &mut self.captures[of].buffers()[place];
                if !buffer.read(&mut page).unwrap_or(false) {
                    self.spare.push(page);
                    break;
                }
                bytes += page.bytes();
                has_lost |= page.lost() != 0;
                self.cpus[at].pages.push_back(page);
                if self.chosen.is_none() {
                    self.hand_over(at, u64::MAX, out);
                }
            }
            if has_lost && !is_last && self.captures[of].buffers()[place].grow() {
                let cpu = &self.cpus[at];
                let text = "the kernel took no events, of any CPU, while a buffer was made larger";
                let (why, detail) = (GapWhy::KernelEvents, 0);
                let kind = EventKind::Gap { why, detail, text: text.into() };
                out.event(CPU_STREAM | cpu.number, cpu.last, kind);
            }
        }
        if self.chosen.is_some() {
            let held: usize = self.cpus.iter().map(|cpu| cpu.pages.len()).sum();
            let is_all = is_last || held > PAGES_HELD_MAX;
            self.hand_over_in_order(if is_all { u64::MAX } else { self.rounds[0] }, out);
        }
        self.rounds = [self.rounds[1], now];
        bytes
    }

    /// Hands over the events of all CPUs before a time, the earliest first.
    fn hand_over_in_order(&mut self, until: u64, out: &mut Output) {
        loop {
            // The CPU with the earliest event, and the time of the earliest one on another CPU.
            let (mut earliest, mut next) = (None, until);
            for (at, cpu) in self.cpus.iter().enumerate() {
                let Some(time) = cpu.pages.front().map(Page::time) else { continue };
                match earliest {
                    Some((first, _)) if first <= time => next = next.min(time),
                    _ => {
                        next = earliest.map_or(next, |(first, _)| next.min(first));
                        earliest = Some((time, at));
                    }
                }
            }
            match earliest {
                Some((first, at)) if first < until => {
                    self.hand_over(at, next.max(first.saturating_add(1)), out);
                }
                _ => return,
            }
        }
    }

    /// Hands over the events of a CPU before a time.
    fn hand_over(&mut self, at: usize, until: u64, out: &mut Output) {
        let cpu = &mut self.cpus[at];
        while let Some(page) = cpu.pages.front_mut() {
            if page.lost() != 0 {
                let lost = page.take_lost();
                let time = page.time();
                tell_loss(cpu, time, lost, out);
                continue;
            }
            while let Some(event) = page.peek().filter(|event| event.time < until) {
                cpu.last = event.time;
                let place = self.places.get(usize::from(event.id)).copied().flatten();
                if let Some(place) = place {
                    let known = &self.known[usize::from(place)];
                    let mut put = |event: &RawEvent<'_>, known: &Known| {
                        write(out, cpu.number, known, event, &mut self.values);
                    };
                    match &mut self.chosen {
                        None => put(&event, known),
                        Some(chosen) => {
                            for held in chosen.take(cpu.number, usize::from(place), &event) {
                                put(&held.event(), &self.known[held.place]);
                            }
                            if chosen.keeps() && known.is_wanted {
                                put(&event, known);
                            }
                        }
                    }
                    if let Some(chosen) = &mut self.chosen
                        && !self.conditions.is_empty()
                    {
                        for (time, id) in chosen.changed() {
                            let (conditions, admission) = (&self.conditions, &self.admission);
                            look_again(id, time, chosen, conditions, admission.as_ref(), out);
                        }
                    }
                }
                page.advance();
            }
            if !page.is_read() {
                return;
            }
            if page.broken {
                let text = format!("a page of the buffer of CPU {} makes no sense", cpu.number);
                let kind = EventKind::Gap { why: GapWhy::KernelEvents, detail: 0, text };
                out.event(CPU_STREAM | cpu.number, cpu.last, kind);
            }
            self.spare.extend(cpu.pages.pop_front());
        }
    }
}

/// Looks at a thread that may have become what is asked for, or something else. What it is now counts
/// from the event on that says so: events are looked at later than they happen.
fn look_again(
    id: u32,
    time: u64,
    chosen: &mut Chosen,
    conditions: &[Condition],
    admission: Option<&Admission>,
    out: &mut Output,
) {
    let Some(mut task) = tasks::of_thread(Path::new(PROC), id) else { return };
    let was_followed = chosen.has(id);
    chosen.becomes(id, conditions.iter().any(|condition| condition.holds(&task)));
    task.is_followed = chosen.has(id);
    if task.is_followed && !was_followed {
        if let Some(admission) = admission {
            admission.admit(id);
        }
        tell(&task, time, out);
    }
}

/// The counter and the clock that it is compared with.
fn now() -> [u64; 2] {
    let moment = host::Moment::now(rustix::time::ClockId::MonotonicRaw);
    [moment.tsc, moment.ns]
}

/// Tells of a thread.
fn tell(task: &KernelTask, time: u64, out: &mut Output) {
    let row = row_of(event_number::KERNEL_TASK).expect("the table has it");
    out.event(RECORDER, time, EventKind::Other(task.event(row)));
}

/// Tells of events that a CPU's buffer has lost before a time.
fn tell_loss(cpu: &mut Cpu, time: u64, lost: u64, out: &mut Output) {
    cpu.told = cpu.told.saturating_add(lost);
    let text = format!("events lost on CPU {}; a larger --kernel-buffer helps", cpu.number);
    let kind = EventKind::Gap { why: GapWhy::KernelEvents, detail: lost, text };
    out.event(CPU_STREAM | cpu.number, time, kind);
}

/// Writes an event.
fn write(out: &mut Output, cpu: u32, known: &Known, event: &RawEvent<'_>, values: &mut Vec<u8>) {
    values.clear();
    let fields = if known.has_details { known.format.fields.as_slice() } else { &[] };
    for field in fields {
        put_value(
            values,
            match field.value(event.bytes) {
                Value::Unsigned(number) => KernelValue::Unsigned(number),
                Value::Signed(number) => KernelValue::Signed(number),
                Value::Text(text) => KernelValue::Text(text),
                Value::Bytes(bytes) => KernelValue::Bytes(bytes),
            },
        );
    }
    let flags = u32::from(event.flags) | u32::from(event.depth) << 8;
    let event_ref = KernelRef { layout: known.layout, task: event.task, flags, values };
    out.kernel(cpu, event.time, &event_ref);
}

/// What the trace says of formats, those without details having no fields.
fn layouts(formats: &[Format], details: &[bool]) -> Vec<KernelLayout> {
    let mut all: Vec<KernelLayout> = Vec::with_capacity(formats.len());
    for (format, has_details) in formats.iter().zip(details) {
        let fields = format.fields.iter().filter(|_| *has_details);
        let fields = fields.map(|field| KernelField {
            name: field.name.clone(),
            c_type: field.c_type.clone(),
            kind: match field.kind {
                Kind::Unsigned => KernelKind::Unsigned,
                Kind::Signed => KernelKind::Signed,
                Kind::Text | Kind::TextElsewhere | Kind::TextBehind => KernelKind::Text,
                Kind::Bytes | Kind::BytesElsewhere | Kind::BytesBehind => KernelKind::Bytes,
            },
            size: field.size as u32,
        });
        let fields: Vec<KernelField> = fields.collect();
        let words = format.words.iter().filter_map(|words| {
            let field = fields.iter().position(|field| field.name == words.field)? as u32;
            Some(KernelWords { field, are_flags: words.are_flags, all: words.all.clone() })
        });
        let words = words.collect();
        let (system, name) = (format.system.clone(), format.name.clone());
        let mut layout = KernelLayout { number: 0, system, name, fields, words };
        layout.number_by_content(&all);
        all.push(layout);
    }
    all
}
