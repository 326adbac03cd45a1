//! Where the time of threads and CPUs went, by the kernel's switches, wakeups and interrupts.
//!
//! A thread is in one state at a time, from when it is first seen to its end, so its states add up to
//! its life. While it has a CPU, it is interrupted, or in a call, or neither.

use std::collections::HashMap;

use model::kernel_events::{KernelAct, kernel_row};
use syscalls::abi::states::{self, Stopping};
use trace::event::{EventKind, GapWhy, KernelEvent};
use trace::kernel::{KernelLayout, KernelLayouts, KernelValue};

use crate::kernel_counts::{cpu_name, layouts};
use crate::pass::{Visit, Watch};
use crate::sheet::{Cell, Fact, Sheet, Table, share};
use crate::view::ViewRow;

/// Threads that are followed.
const TASKS_MAX: usize = 1 << 18;
/// CPUs that are followed.
const CPUS_MAX: u32 = 1 << 16;
/// Interrupts within interrupts.
const NEST_MAX: u32 = 64;
/// Bytes of a name; the kernel has 15.
const NAME_BYTES_MAX: usize = 64;

/// The view.
pub static VIEW: ViewRow = ViewRow {
    name: "cpu",
    about: "Where the time of threads and CPUs went: on a CPU, waiting for one, blocked, asleep",
    look: |look| {
        let times = CpuTime::new(&layouts(look.trace));
        Ok(look.watch(times, |fold, _| fold.finish().sheet()))
    },
};

/// What a thread is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// It has a CPU.
    Runs,
    /// It could go on, and has no CPU.
    Waits,
    /// It waits for a disk or a lock of the kernel, and signals do not wake it.
    Blocked,
    /// It waits for something else.
    Asleep,
    /// A signal or a debugger has stopped it.
    Stopped,
    /// Events about it are missing.
    Unknown,
    /// It has ended.
    Ended,
}

/// Nanoseconds of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Times {
    /// On a CPU, neither interrupted nor in a call.
    pub own_ns: u64,
    /// On a CPU, in a call.
    pub calls_ns: u64,
    /// On a CPU, interrupted.
    pub interrupted_ns: u64,
    /// Waiting for a CPU.
    pub runnable_ns: u64,
    /// Blocked.
    pub blocked_ns: u64,
    /// Asleep.
    pub asleep_ns: u64,
    /// Stopped.
    pub stopped_ns: u64,
    /// Events about it are missing.
    pub unknown_ns: u64,
}

impl Times {
    /// Time on a CPU.
    pub fn on_cpu_ns(&self) -> u64 {
        self.own_ns + self.calls_ns + self.interrupted_ns
    }

    /// All of it.
    pub fn life_ns(&self) -> u64 {
        let waits = self.runnable_ns + self.blocked_ns + self.asleep_ns + self.stopped_ns;
        self.on_cpu_ns() + waits + self.unknown_ns
    }
}

struct Task {
    name: Vec<u8>,
    state: State,
    since: u64,
    /// Until when it is in a call.
    call_until: u64,
    times: Times,
    switches: u64,
}

#[derive(Default)]
struct Cpu {
    /// Who runs, once that is known.
    task: Option<u32>,
    since: u64,
    /// When an event last showed it running.
    seen: u64,
    /// Interrupts that have begun and not ended.
    depth: u32,
    idle_ns: u64,
    busy_ns: u64,
    interrupts_ns: u64,
}

/// Fields of an event: place in its layout.
type Place = usize;

/// What an event does here.
#[derive(Clone, Copy)]
enum Does {
    Switch { from: Place, state: Place, to: Place, names: [Place; 2] },
    Wake { task: Place, name: Place },
    Fork { child: Place, name: Place },
    Enter,
    Leave,
}

/// The fold.
pub struct CpuTime {
    does: HashMap<u32, Does>,
    layouts: KernelLayouts,
    tasks: HashMap<u32, Task>,
    /// Threads for which there was no room.
    left_out: bool,
    cpus: HashMap<u32, Cpu>,
    last: u64,
}

impl CpuTime {
    /// Follows events of these layouts.
    pub fn new(layouts: &KernelLayouts) -> CpuTime {
        let does = layouts.iter().filter_map(|layout| Some((layout.number, does(layout)?)));
        CpuTime {
            does: does.collect(),
            layouts: layouts.clone(),
            tasks: HashMap::new(),
            left_out: false,
            cpus: HashMap::new(),
            last: 0,
        }
    }

    /// A thread, which is in this state if it was not known.
    fn task(&mut self, id: u32, state: State, now: u64) -> Option<&mut Task> {
        if id == 0 {
            return None;
        }
        if !self.tasks.contains_key(&id) && self.tasks.len() >= TASKS_MAX {
            self.left_out = true;
            return None;
        }
        Some(self.tasks.entry(id).or_insert_with(|| Task {
            name: Vec::new(),
            state,
            since: now,
            call_until: 0,
            times: Times::default(),
            switches: 0,
        }))
    }

    fn event(&mut self, cpu: u32, now: u64, event: &KernelEvent) {
        self.runs(cpu, now, event.task);
        let Some(&does) = self.does.get(&event.layout) else { return };
        let Some(layout) = self.layouts.get(event.layout).cloned() else { return };
        let values: Vec<KernelValue<'_>> =
            layout.values(&event.values).map(|(_, value)| value).collect();
        let number = |place: Place| values.get(place).and_then(|value| value.number()).unwrap_or(0);
        let id = |place: Place| u32::try_from(number(place)).unwrap_or(0);
        let text = |place: Place| match values.get(place) {
            Some(KernelValue::Text(text)) => &text[..text.len().min(NAME_BYTES_MAX)],
            _ => &[],
        };
        match does {
            Does::Switch { from, state, to, names } => {
                self.runs_no_more(cpu, now);
                let next = match states::of_switch(number(state)) {
                    Stopping::Runnable => State::Waits,
                    Stopping::Blocked => State::Blocked,
                    Stopping::Asleep => State::Asleep,
                    Stopping::Stopped => State::Stopped,
                    Stopping::Ended => State::Ended,
                };
                if let Some(task) = self.task(id(from), next, now) {
                    task.go(next, now);
                    task.switches += 1;
                    task.rename(text(names[0]));
                }
                if let Some(task) = self.task(id(to), State::Runs, now) {
                    task.go(State::Runs, now);
                    task.rename(text(names[1]));
                }
                let of_cpu = self.cpus.entry(cpu).or_default();
                (of_cpu.task, of_cpu.depth) = (Some(id(to)), 0);
            }
            Does::Wake { task, name } => {
                if let Some(task) = self.task(id(task), State::Waits, now) {
                    task.rename(text(name));
                    // Who runs is on its way to sleep, and will not.
                    if task.state != State::Runs {
                        task.go(State::Waits, now);
                    }
                }
            }
            Does::Fork { child, name } => {
                // An id that an ended thread had.
                let over = |task: &Task| task.state == State::Ended;
                if self.tasks.get(&id(child)).is_some_and(over) {
                    self.tasks.remove(&id(child));
                }
                if let Some(task) = self.task(id(child), State::Waits, now) {
                    task.rename(text(name));
                }
            }
            Does::Enter | Does::Leave => {
                self.runs_no_more(cpu, now);
                let of_cpu = self.cpus.entry(cpu).or_default();
                of_cpu.depth = match does {
                    Does::Enter => (of_cpu.depth + 1).min(NEST_MAX),
                    _ => of_cpu.depth.saturating_sub(1),
                };
            }
        }
    }

    /// Notes who runs on a CPU, as every event tells. If it is not who was known to run, that one left
    /// without an event: some time after it was last seen.
    fn runs(&mut self, cpu: u32, now: u64, id: u32) {
        if self.cpus.entry(cpu).or_default().task != Some(id) {
            self.left_unseen(cpu);
            if let Some(task) = self.task(id, State::Runs, now) {
                task.go(State::Runs, now);
            }
            let of_cpu = self.cpus.entry(cpu).or_default();
            (of_cpu.task, of_cpu.depth, of_cpu.since) = (Some(id), 0, of_cpu.since.max(now));
        }
        self.cpus.entry(cpu).or_default().seen = now;
    }

    /// It is not known any more who runs on a CPU, since it was last seen.
    fn left_unseen(&mut self, cpu: u32) {
        let of_cpu = self.cpus.entry(cpu).or_default();
        let (seen, gone) = (of_cpu.seen, of_cpu.task);
        self.runs_no_more(cpu, seen);
        self.cpus.entry(cpu).or_default().task = None;
        let gone = gone.and_then(|gone| self.tasks.get_mut(&gone));
        if let Some(task) = gone.filter(|task| task.state == State::Runs) {
            task.go(State::Unknown, seen);
        }
    }

    /// Adds the time that the thread on a CPU had, up to now.
    fn runs_no_more(&mut self, cpu: u32, now: u64) {
        let of_cpu = self.cpus.entry(cpu).or_default();
        let passed = now.saturating_sub(of_cpu.since);
        let interrupted = of_cpu.depth > 0;
        of_cpu.since = of_cpu.since.max(now);
        match of_cpu.task {
            None => return,
            Some(_) if interrupted => of_cpu.interrupts_ns += passed,
            Some(0) => of_cpu.idle_ns += passed,
            Some(_) => of_cpu.busy_ns += passed,
        }
        if let Some(task) = of_cpu.task.and_then(|task| self.tasks.get_mut(&task)) {
            task.ran(interrupted, now);
        }
    }

    /// Returns the result.
    pub fn finish(mut self) -> Found {
        let last = self.last;
        let cpus: Vec<u32> = self.cpus.keys().copied().collect();
        cpus.into_iter().for_each(|cpu| self.runs_no_more(cpu, last));
        let mut tasks: Vec<(u32, Task)> = self.tasks.into_iter().collect();
        tasks.iter_mut().for_each(|(_, task)| task.go(State::Ended, last));
        tasks.sort_by(|(a, one), (b, other)| {
            other.times.on_cpu_ns().cmp(&one.times.on_cpu_ns()).then(a.cmp(b))
        });
        let mut cpus: Vec<(u32, Cpu)> = self.cpus.into_iter().collect();
        cpus.sort_by_key(|(number, _)| *number);
        Found { tasks, cpus, left_out: self.left_out }
    }
}

impl Task {
    /// Adds time with a CPU.
    fn ran(&mut self, interrupted: bool, now: u64) {
        if self.state != State::Runs {
            return;
        }
        let passed = now.saturating_sub(self.since);
        let in_call = self.call_until.min(now).saturating_sub(self.since);
        if interrupted {
            self.times.interrupted_ns += passed;
        } else {
            self.times.calls_ns += in_call;
            self.times.own_ns += passed - in_call;
        }
        self.since = self.since.max(now);
    }

    /// Goes into a state.
    fn go(&mut self, state: State, now: u64) {
        let passed = now.saturating_sub(self.since);
        match self.state {
            State::Runs => self.ran(false, now),
            State::Waits => self.times.runnable_ns += passed,
            State::Blocked => self.times.blocked_ns += passed,
            State::Asleep => self.times.asleep_ns += passed,
            State::Stopped => self.times.stopped_ns += passed,
            State::Unknown => self.times.unknown_ns += passed,
            // What has ended does nothing more.
            State::Ended => return,
        }
        (self.state, self.since) = (state, self.since.max(now));
    }

    fn rename(&mut self, name: &[u8]) {
        if self.name != name && !name.is_empty() {
            self.name = name.to_vec();
        }
    }
}

impl Watch for CpuTime {
    fn add(&mut self, visit: &mut Visit<'_>) {
        let (event, now) = (visit.moment.event, visit.moment.enter_ns);
        self.last = self.last.max(now);
        match (&event.kind, event.cpu()) {
            (EventKind::Kernel(kernel), Some(cpu)) if cpu < CPUS_MAX => {
                self.event(cpu, now, kernel)
            }
            (EventKind::Gap { why: GapWhy::KernelEvents, .. }, Some(cpu)) if cpu < CPUS_MAX => {
                self.left_unseen(cpu);
            }
            (EventKind::Call(_), _) => {
                // What it did before was done outside of calls.
                let Some(id) = visit.moment.tid else { return };
                if let Some(task) = self.tasks.get_mut(&id) {
                    let until = visit.moment.exit_ns.unwrap_or(u64::MAX);
                    task.ran(false, now);
                    task.call_until = until;
                }
            }
            _ => {}
        }
    }
}

/// What an event of this layout does here.
fn does(layout: &KernelLayout) -> Option<Does> {
    let row = kernel_row(&layout.system, &layout.name)?;
    let place = |name: &str| layout.fields.iter().position(|field| field.name == name);
    Some(match row.does {
        KernelAct::Switch { from, state, to, names } => Does::Switch {
            from: place(from)?,
            state: place(state)?,
            to: place(to)?,
            names: [place(names[0])?, place(names[1])?],
        },
        KernelAct::Wake { task, name } => Does::Wake { task: place(task)?, name: place(name)? },
        KernelAct::Fork { child, name, .. } => {
            Does::Fork { child: place(child)?, name: place(name)? }
        }
        KernelAct::Enter { .. } => Does::Enter,
        KernelAct::Leave => Does::Leave,
        KernelAct::Nothing | KernelAct::Issue { .. } | KernelAct::Complete { .. } => return None,
    })
}

/// Where the time went.
pub struct Found {
    /// The busiest first.
    tasks: Vec<(u32, Task)>,
    cpus: Vec<(u32, Cpu)>,
    left_out: bool,
}

impl Found {
    /// Returns the result as tables.
    pub fn sheet(&self) -> Sheet {
        let mut threads = Table::new("cpu_threads", "Threads", &THREAD_COLUMNS);
        for (id, Task { name, times, switches, .. }) in &self.tasks {
            threads.row(vec![
                Cell::Count((*id).into()),
                Cell::Name(name.clone()),
                Cell::Ns(times.life_ns()),
                Cell::Ns(times.on_cpu_ns()),
                Cell::Ns(times.own_ns),
                Cell::Ns(times.calls_ns),
                Cell::Ns(times.interrupted_ns),
                Cell::Ns(times.runnable_ns),
                Cell::Ns(times.blocked_ns),
                Cell::Ns(times.asleep_ns),
                Cell::Ns(times.stopped_ns),
                Cell::Ns(times.unknown_ns),
                Cell::Count(*switches),
            ]);
        }
        let mut cpus = Table::new("cpus", "CPUs", &CPU_COLUMNS);
        for (number, cpu) in &self.cpus {
            let all = cpu.busy_ns + cpu.idle_ns + cpu.interrupts_ns;
            cpus.row(vec![
                cpu_name(*number),
                Cell::Ns(cpu.busy_ns),
                Cell::Ns(cpu.interrupts_ns),
                Cell::Ns(cpu.idle_ns),
                share(cpu.idle_ns, all),
            ]);
        }
        let each = self.tasks.iter().map(|(_, task)| task.times.on_cpu_ns());
        let on_cpu = each.fold(0, u64::saturating_add);
        let mut notes = vec![
            "The states of a thread add up to the time from when it was first seen to its end. Unknown: \
             events about it are missing."
                .into(),
            "Blocked: a disk or a lock of the kernel. Calls are those that are in the trace; threads of \
             the kernel make none."
                .into(),
        ];
        if self.left_out {
            notes.push(format!("More than {TASKS_MAX} threads: some are left out."));
        }
        Sheet {
            facts: vec![Fact { key: "on_cpu_ns", title: "on a CPU", value: Cell::Ns(on_cpu) }],
            tables: vec![threads, cpus],
            notes,
        }
    }
}

const THREAD_COLUMNS: [(&str, &str); 13] = [
    ("tid", "tid"),
    ("name", "name"),
    ("life_ns", "life"),
    ("on_cpu_ns", "on cpu"),
    ("own_ns", "own"),
    ("calls_ns", "calls"),
    ("interrupted_ns", "interrupted"),
    ("runnable_ns", "waits"),
    ("blocked_ns", "blocked"),
    ("asleep_ns", "asleep"),
    ("stopped_ns", "stopped"),
    ("unknown_ns", "unknown"),
    ("switches", "switches"),
];
const CPU_COLUMNS: [(&str, &str); 5] = [
    ("cpu", "cpu"),
    ("busy_ns", "busy"),
    ("interrupts_ns", "interrupts"),
    ("idle_ns", "idle"),
    ("idle_share", "idle share"),
];

#[cfg(test)]
mod tests {
    use trace::event::{CPU_STREAM, Event};
    use trace::kernel::{KernelField, KernelKind, put_value};

    use super::*;

    fn layout(number: u32, system: &str, name: &str, fields: &[&str]) -> KernelLayout {
        let field = |name: &&str| KernelField {
            name: name.to_string(),
            c_type: String::new(),
            kind: if name.ends_with("comm") { KernelKind::Text } else { KernelKind::Signed },
            size: 8,
        };
        let fields = fields.iter().map(field).collect();
        KernelLayout { number, system: system.into(), name: name.into(), fields }
    }

    const SWITCH: u32 = 1;
    const WAKE: u32 = 2;
    const ENTER: u32 = 3;
    const LEAVE: u32 = 4;

    /// One CPU.
    struct Machine(CpuTime, Option<u32>);

    impl Machine {
        fn new() -> Machine {
            let switch =
                ["prev_comm", "prev_pid", "prev_state", "next_comm", "next_pid"].as_slice();
            let mut layouts = KernelLayouts::default();
            layouts.add(&layout(SWITCH, "sched", "sched_switch", switch));
            layouts.add(&layout(WAKE, "sched", "sched_waking", &["comm", "pid"]));
            layouts.add(&layout(ENTER, "irq", "irq_handler_entry", &["irq"]));
            layouts.add(&layout(LEAVE, "irq", "irq_handler_exit", &["irq"]));
            Machine(CpuTime::new(&layouts), None)
        }

        fn happens(&mut self, now: u64, layout: u32, numbers: &[i64]) {
            let fields = self.0.layouts.get(layout).unwrap().fields.clone();
            let (mut values, mut numbers) = (Vec::new(), numbers.iter());
            for field in fields {
                put_value(
                    &mut values,
                    match field.kind {
                        KernelKind::Text => KernelValue::Text(b"cat"),
                        _ => KernelValue::Signed(*numbers.next().unwrap()),
                    },
                );
            }
            self.0.last = now;
            // Who runs, unless the test says otherwise.
            let task = self.1.unwrap_or(self.0.cpus.get(&0).and_then(|cpu| cpu.task).unwrap_or(0));
            self.0.event(0, now, &KernelEvent { layout, task, flags: 0, values });
        }

        fn times(self) -> HashMap<u32, Times> {
            let found = self.0.finish();
            found.tasks.into_iter().map(|(id, task)| (id, task.times)).collect()
        }
    }

    #[test]
    fn states_add_up_to_a_life() {
        let mut machine = Machine::new();
        machine.happens(100, SWITCH, &[0, 0, 7]);
        machine.happens(150, ENTER, &[5]);
        machine.happens(160, LEAVE, &[5]);
        machine.happens(200, SWITCH, &[7, 2, 8]); // Blocked.
        machine.happens(230, WAKE, &[7]);
        machine.happens(300, SWITCH, &[8, 256, 7]); // Preempted.
        machine.happens(310, SWITCH, &[7, 1, 8]); // Asleep.
        machine.happens(350, SWITCH, &[8, 32, 0]); // Ended.
        machine.happens(400, SWITCH, &[0, 0, 0]);
        let times = machine.times();
        let expected = Times {
            own_ns: 100,
            interrupted_ns: 10,
            blocked_ns: 30,
            runnable_ns: 70,
            asleep_ns: 90,
            ..Times::default()
        };
        assert_eq!(times[&7], expected);
        assert_eq!(times[&7].life_ns(), 300);
        let expected = Times { own_ns: 140, runnable_ns: 10, ..Times::default() };
        assert_eq!(times[&8], expected);
        assert_eq!(times.len(), 2);
    }

    #[test]
    fn who_runs_and_is_woken_goes_on() {
        let mut machine = Machine::new();
        machine.happens(0, SWITCH, &[0, 0, 7]);
        machine.happens(10, WAKE, &[7]);
        machine.happens(30, SWITCH, &[7, 0, 0]);
        machine.happens(40, SWITCH, &[0, 0, 7]);
        machine.happens(45, SWITCH, &[7, 4, 0]);
        machine.happens(50, WAKE, &[7]);
        let expected = Times { own_ns: 35, runnable_ns: 10, stopped_ns: 5, ..Times::default() };
        assert_eq!(machine.times()[&7], expected);
    }

    #[test]
    fn who_left_without_an_event_is_not_said_to_run() {
        let mut machine = Machine::new();
        machine.happens(0, SWITCH, &[0, 0, 7]);
        machine.happens(10, ENTER, &[1]);
        machine.happens(20, LEAVE, &[1]);
        // Another one runs: it was switched to without an event, after 20.
        machine.1 = Some(9);
        machine.happens(50, WAKE, &[8]);
        machine.happens(60, SWITCH, &[9, 1, 8]);
        machine.1 = None;
        machine.happens(70, WAKE, &[7]);
        machine.happens(90, SWITCH, &[8, 0, 7]);
        let times = machine.times();
        let expected = Times {
            own_ns: 10,
            interrupted_ns: 10,
            unknown_ns: 50,
            runnable_ns: 20,
            ..Times::default()
        };
        assert_eq!(times[&7], expected);
        let expected = Times { own_ns: 10, asleep_ns: 30, ..Times::default() };
        assert_eq!(times[&9], expected);
    }

    #[test]
    fn time_that_goes_back_does_no_harm() {
        let mut machine = Machine::new();
        for (step, now) in [500, 100, u64::MAX, 3, 700].into_iter().enumerate() {
            machine.happens(now, SWITCH, &[step as i64, 1, step as i64 + 1]);
            machine.happens(now / 2, LEAVE, &[1]);
            machine.happens(now, SWITCH, &[-1, i64::MIN, i64::MAX]);
        }
        let event = Event::new(CPU_STREAM, 5, EventKind::Stall { ns: 1 });
        assert_eq!(event.cpu(), Some(0));
        machine.times();
    }
}
