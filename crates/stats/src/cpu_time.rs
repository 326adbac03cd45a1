//! Where the time of processes, threads and CPUs went, by the kernel's switches, wakeups and
//! interrupts (`model::scheduling`).

use std::collections::HashMap;

use model::Conditions;
use model::kernel_tasks::Missing;
use model::scheduling::{Doing, Scheduling, Thread, Times};

use crate::kernel_counts::cpu_name;
use crate::pass::{Visit, Watch};
use crate::sheet::{Cell, Fact, Sheet, Table, share};
use crate::view::{ViewRow, without_switches};

/// The view.
pub static VIEW: ViewRow = ViewRow {
    name: "cpu",
    about: "Where the time of processes, threads and CPUs went: running, runnable, blocked on what",
    look: |look| {
        let times = CpuTime {
            all: Scheduling::new(&model::kernel_layouts(look.trace)),
            conditions: look.conditions,
        };
        Ok(look.of_kernel(look.watch(times, |fold, _| fold.sheet())))
    },
};

/// The fold.
struct CpuTime<'a> {
    /// Of everybody: who waits for whom is not known otherwise.
    all: Scheduling,
    conditions: &'a Conditions,
}

impl Watch for CpuTime<'_> {
    fn add(&mut self, visit: &mut Visit<'_>) {
        let moment = visit.moment;
        self.all.event(moment.event, moment.enter_ns, moment.exit_ns, moment.tid, &mut ());
    }
}

/// Threads whose time is told together.
#[derive(Default)]
struct Sum {
    times: Times,
    switches: u64,
    threads: u64,
    is_kernel: bool,
    name: Vec<u8>,
}

impl Sum {
    fn of(thread: &Thread) -> Sum {
        let (times, switches) = (thread.times, thread.switches);
        Sum { times, switches, threads: 1, is_kernel: thread.is_kernel, name: thread.name.clone() }
    }

    fn add(&mut self, thread: &Thread, is_leader: bool) {
        self.times.add(&thread.times);
        self.switches += thread.switches;
        self.threads += 1;
        self.is_kernel |= thread.is_kernel;
        if self.name.is_empty() || is_leader {
            self.name.clone_from(&thread.name);
        }
    }

    fn on_cpu_ns(&self) -> u64 {
        self.times.sum(Doing::is_on_cpu)
    }

    /// What both tables have.
    fn cells(&self) -> Vec<Cell> {
        let of = |doing| Cell::Ns(self.times.of(doing));
        let own = self.times.of(Doing::Own);
        let (user, kernel) = if self.is_kernel { (0, own) } else { (own, 0) };
        vec![
            Cell::Ns(self.times.life_ns()),
            Cell::Ns(self.on_cpu_ns()),
            Cell::Ns(user),
            Cell::Ns(kernel),
            of(Doing::Call),
            of(Doing::Fault),
            of(Doing::Interrupted),
            Cell::Ns(self.times.sum(Doing::is_runnable)),
            of(Doing::Preempted),
            Cell::Ns(self.times.sum(is_blocked)),
            mostly_on(&self.times),
            of(Doing::Disk),
            of(Doing::Peer),
            of(Doing::Lock),
            of(Doing::Child),
            of(Doing::Asleep),
            of(Doing::Stopped),
            of(Doing::Unknown),
            Cell::Count(self.switches),
        ]
    }
}

/// Returns true for what somebody is blocked on, who does not sleep.
pub fn is_blocked(doing: Doing) -> bool {
    doing.is_blocked() && doing != Doing::Asleep
}

/// Returns what somebody was blocked on for the longest time.
pub fn mostly_on(times: &Times) -> Cell {
    let blocked = Doing::ALL.into_iter().filter(|doing| is_blocked(*doing));
    let most = blocked.filter(|doing| times.of(*doing) > 0).max_by_key(|doing| times.of(*doing));
    most.map_or(Cell::Nothing, |doing| Cell::word(doing.name()))
}

impl CpuTime<'_> {
    /// Whether somebody is to be told of: an empty list stands for all.
    fn is_chosen(list: &[u32], id: u32) -> bool {
        list.is_empty() || list.contains(&id)
    }

    /// Returns the result as tables.
    fn sheet(mut self) -> Sheet {
        self.all.finish(&mut ());
        let process_of = |thread: &Thread| thread.pid.unwrap_or(thread.id);
        let is_chosen = |thread: &&Thread| {
            self.all.is_told(thread)
                && Self::is_chosen(&self.conditions.tids, thread.id)
                && Self::is_chosen(&self.conditions.pids, process_of(thread))
        };
        let of_all: Vec<&Thread> = self.all.threads().filter(is_chosen).collect();
        let mut processes: HashMap<u32, Sum> = HashMap::new();
        for thread in &of_all {
            let pid = process_of(thread);
            processes.entry(pid).or_default().add(thread, thread.id == pid);
        }
        let mut sums: Vec<(u32, Sum)> = processes.into_iter().collect();
        sums.sort_by_key(|(pid, sum)| (u64::MAX - sum.on_cpu_ns(), *pid));
        let mut table = Table::new("cpu_processes", "Processes", &columns(&PROCESS_COLUMNS))
            .further(&FURTHER)
            .further(&["threads"]);
        for (pid, sum) in &sums {
            let mut row = vec![Cell::Id((*pid).into()), Cell::Name(sum.name.clone())];
            row.push(Cell::Count(sum.threads));
            row.extend(sum.cells());
            table.row(row);
        }
        let (count, times, is_more) = self.all.forgotten();
        let is_of_all = self.conditions.pids.is_empty() && self.conditions.tids.is_empty();
        if count > 0 && is_of_all {
            let name = b"(threads that ended, summed up)".to_vec();
            let sum = Sum { times: *times, threads: count, name, ..Sum::default() };
            let mut row = vec![Cell::Nothing, Cell::Name(sum.name.clone())];
            row.push(Cell::Count(sum.threads));
            row.extend(sum.cells());
            table.row(row);
        }
        let mut threads = Table::new("cpu_threads", "Threads", &columns(&THREAD_COLUMNS))
            .further(&FURTHER)
            .further(&["pid"]);
        let mut by_time = of_all.clone();
        by_time.sort_by_key(|thread| (u64::MAX - thread.times.sum(Doing::is_on_cpu), thread.id));
        for thread in by_time {
            let mut row = vec![
                Cell::Id(thread.id.into()),
                Cell::Id(process_of(thread).into()),
                Cell::Name(thread.name.clone()),
            ];
            row.extend(Sum::of(thread).cells());
            threads.row(row);
        }
        let on_cpu = of_all.iter().map(|thread| thread.times.sum(Doing::is_on_cpu));
        let on_cpu = on_cpu.fold(0, u64::saturating_add);
        let of_recorder = self.all.threads().filter(|thread| self.all.is_recorders(thread));
        let of_recorder = of_recorder.map(|thread| thread.times.sum(Doing::is_on_cpu));
        let of_recorder = of_recorder.fold(0, u64::saturating_add);
        Sheet {
            facts: vec![
                Fact { key: "on_cpu_ns", title: "on a CPU", value: Cell::Ns(on_cpu) },
                Fact {
                    key: "recorder_ns",
                    title: "the recorder, not among these",
                    value: Cell::Ns(of_recorder),
                },
                Fact {
                    key: "cpu_process_count",
                    title: "processes",
                    value: Cell::Count(sums.len() as u64),
                },
            ],
            tables: vec![table, threads, self.cpus()],
            notes: self.notes(is_more),
        }
    }

    fn cpus(&self) -> Table {
        let mut cpus = Table::new("cpus", "CPUs", &CPU_COLUMNS);
        let of_these = |(number, _): &(u32, _)| Self::is_chosen(&self.conditions.cpus, *number);
        for (number, cpu) in self.all.cpus().filter(of_these) {
            let times = cpu.times();
            let of =
                [times.user_ns, times.kernel_ns, times.irq_ns, times.softirq_ns, times.idle_ns];
            let mut row = vec![cpu_name(number)];
            row.extend(of.map(Cell::Ns));
            row.push(share(times.idle_ns, of.iter().sum()));
            if self.all.missing() == Missing::Switches {
                let needs_switches = ["user_ns", "kernel_ns", "idle_ns", "idle_share"];
                let cells = row.iter_mut().zip(&CPU_COLUMNS);
                let unknown = cells.filter(|(_, (key, _))| needs_switches.contains(key));
                unknown.for_each(|(cell, _)| *cell = Cell::Nothing);
            }
            cpus.row(row);
        }
        cpus
    }

    fn notes(&self, is_more: bool) -> Vec<String> {
        let mut notes = vec![
            "What a thread did adds up to its life: from when it was first seen to its end. A process \
             has the sums of its threads. Unknown: events about it are missing."
                .into(),
            "Kernel: threads of the kernel's own. Calls are those that are in the trace. Faults are an \
             estimate, as the kernel reports when one begins and not when it ends. Runnable: for want of \
             a CPU; that part of it is preempted in which it was put aside."
                .into(),
            "Peer: the other end of a pipe, the network, a terminal, or any of several. Lock: of \
             programs, or of the kernel. Child: another process."
                .into(),
        ];
        match self.all.scope() {
            Some(scope) if !scope.is_whole => notes.push(
                "Only some threads were recorded: CPUs have what was seen of them while these ran."
                    .into(),
            ),
            _ => {}
        }
        notes.extend(without_switches(&self.all));
        if !self.conditions.cpus.is_empty() {
            notes.push("--cpu chooses CPUs: threads have their times on all of them.".into());
        }
        if !self.conditions.only_name_whom() {
            notes.push(
                "Processes, threads, CPUs and an end (--until) can be chosen here; whatever else was asked \
                 for leaves out nothing."
                    .into(),
            );
        }
        if is_more {
            notes.push("There were too many threads at a time: some are left out.".into());
        }
        notes
    }
}

type Columns = Vec<(&'static str, &'static str)>;

fn columns(first: &[(&'static str, &'static str)]) -> Columns {
    first.iter().chain(&TIME_COLUMNS).copied().collect()
}

const PROCESS_COLUMNS: [(&str, &str); 3] =
    [("pid", "pid"), ("name", "name"), ("threads", "threads")];
const THREAD_COLUMNS: [(&str, &str); 3] = [("tid", "tid"), ("pid", "pid"), ("name", "name")];
const TIME_COLUMNS: [(&str, &str); 19] = [
    ("life_ns", "life"),
    ("on_cpu_ns", "on cpu"),
    ("user_ns", "user"),
    ("kernel_ns", "kernel"),
    ("calls_ns", "calls"),
    ("faults_ns", "faults ~"),
    ("interrupted_ns", "interrupted"),
    ("runnable_ns", "runnable"),
    ("preempted_ns", "(preempted)"),
    ("", "blocked"),
    ("", "mostly on"),
    ("disk_ns", "disk"),
    ("peer_ns", "peer"),
    ("lock_ns", "lock"),
    ("child_ns", "child"),
    ("asleep_ns", "asleep"),
    ("stopped_ns", "stopped"),
    ("unknown_ns", "unknown"),
    ("switches", "switches"),
];
/// Columns that a terminal of 80 characters need not show.
const FURTHER: [&str; 14] = [
    "life_ns",
    "user_ns",
    "kernel_ns",
    "calls_ns",
    "faults_ns",
    "interrupted_ns",
    "preempted_ns",
    "disk_ns",
    "peer_ns",
    "lock_ns",
    "child_ns",
    "stopped_ns",
    "unknown_ns",
    "switches",
];
const CPU_COLUMNS: [(&str, &str); 7] = [
    ("cpu", "cpu"),
    ("user_ns", "user"),
    ("kernel_ns", "kernel"),
    ("irq_ns", "irq"),
    ("softirq_ns", "softirq"),
    ("idle_ns", "idle"),
    ("idle_share", "idle share"),
];
