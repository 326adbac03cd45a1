//! Events of the kernel, counted: by kind, process, thread and CPU.

use std::collections::HashMap;

use model::kernel_events::{KernelAct, KernelRow, kernel_row};
use model::kernel_tasks::KernelTask;
use trace::event::{EventKind, GapWhy, KernelEvent};
use trace::kernel::{KernelLayout, KernelLayouts, KernelValue};

use crate::belonging::Belonging;
use crate::pass::{self, Fold, Occasion};
use crate::sheet::{Cell, Fact, Sheet, Table, share};
use crate::view::ViewRow;

/// Combinations of kind, thread and CPU that are counted apart.
const COUNTED_MAX: usize = 1 << 17;
/// Threads whose names are kept.
const NAMES_MAX: usize = 1 << 16;
/// Bytes of a name; the kernel has 15.
const NAME_BYTES_MAX: usize = 64;
/// Stands for the process of a thread of which it is not known; no process has this id.
const UNKNOWN: u32 = u32::MAX;

/// The view.
pub static VIEW: ViewRow = ViewRow {
    name: "events",
    about: "Events of the kernel: how many of each kind, by process, by thread and by CPU",
    look: |look| {
        let layouts = model::kernel_layouts(look.trace);
        if look.conditions.accepts_all() {
            let make = || Counter::new(&layouts);
            return Ok(look.of_kernel(look.fold(make, |fold| fold.finish().sheet())));
        }
        // Who belongs to whom is also told by events that are not wanted.
        let mut belonging = Belonging::new(&layouts);
        let (mut counter, unread) = pass::fold_and_watch(
            look.trace,
            look.conditions,
            Counter::new(&layouts),
            &mut belonging,
        );
        counter.belonging = belonging;
        Ok(look.of_kernel((counter.finish().sheet(), unread)))
    },
};

/// A CPU, as `show` names it: a number would make nothing of the first.
pub fn cpu_name(cpu: u32) -> Cell {
    Cell::Word(format!("cpu{cpu}").into())
}

/// A kind of event, a thread and a CPU.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct What {
    layout: u32,
    task: u32,
    cpu: u32,
}

/// The fold that counts.
pub struct Counter {
    layouts: KernelLayouts,
    /// Kinds that tell names of threads.
    naming: HashMap<u32, &'static KernelRow>,
    counts: HashMap<What, u64>,
    /// Events for which there was no room.
    uncounted: u64,
    /// By CPU.
    lost: HashMap<u32, u64>,
    names: HashMap<u32, Vec<u8>>,
    belonging: Belonging,
}

impl Counter {
    /// Counts events of these layouts.
    pub fn new(layouts: &KernelLayouts) -> Counter {
        let row = |layout: &KernelLayout| kernel_row(&layout.system, &layout.name);
        let naming = layouts.iter().filter_map(|layout| Some((layout.number, row(layout)?)));
        Counter {
            naming: naming.collect(),
            layouts: layouts.clone(),
            counts: HashMap::new(),
            uncounted: 0,
            lost: HashMap::new(),
            names: HashMap::new(),
            belonging: Belonging::new(layouts),
        }
    }

    fn add_count(&mut self, what: What, count: u64) {
        if self.counts.len() >= COUNTED_MAX && !self.counts.contains_key(&what) {
            self.uncounted += count;
        } else {
            *self.counts.entry(what).or_default() += count;
        }
    }

    /// Learns names of threads from an event.
    fn learn(&mut self, event: &KernelEvent) {
        let Some(row) = self.naming.get(&event.layout) else { return };
        let Some(layout) = self.layouts.get(event.layout) else { return };
        let pairs: &[[&str; 2]] = match &row.does {
            KernelAct::Switch { from, to, names: [of_from, of_to], .. } => {
                &[[from, of_from], [to, of_to]]
            }
            KernelAct::Wake { task, name } => &[[task, name]],
            KernelAct::Fork { child, name, .. } => &[[child, name]],
            _ => return,
        };
        for [task, name] in pairs {
            let mut found = (None, None);
            for (field, value) in layout.values(&event.values) {
                match value {
                    KernelValue::Text(text) if field.name == *name => found.1 = Some(text),
                    value if field.name == *task => found.0 = value.number(),
                    _ => {}
                }
            }
            let (Some(task), Some(name)) = found else { continue };
            let Ok(task) = u32::try_from(task) else { continue };
            if self.names.len() < NAMES_MAX || self.names.contains_key(&task) {
                let known = self.names.entry(task).or_default();
                if known.as_slice() != name {
                    *known = name[..name.len().min(NAME_BYTES_MAX)].to_vec();
                }
            }
        }
    }

    /// Returns the result.
    pub fn finish(self) -> Counts {
        let mut each: Vec<(What, u64)> = self.counts.into_iter().collect();
        each.sort_unstable_by(|(a, of_a), (b, of_b)| of_b.cmp(of_a).then(a.cmp(b)));
        Counts {
            layouts: self.layouts,
            each,
            uncounted: self.uncounted,
            lost: self.lost,
            names: self.names,
            belonging: self.belonging,
        }
    }
}

impl Fold for Counter {
    fn add(&mut self, occasion: &Occasion<'_>) {
        self.belonging.event(occasion.event);
        if let EventKind::Other(other) = &occasion.event.kind
            && let Some(task) = KernelTask::of(other)
            && self.names.len() < NAMES_MAX
        {
            let name = &task.name[..task.name.len().min(NAME_BYTES_MAX)];
            self.names.entry(task.task).or_insert_with(|| name.to_vec());
        }
        let Some(cpu) = occasion.event.cpu() else { return };
        match &occasion.event.kind {
            EventKind::Kernel(event) => {
                let KernelEvent { layout, task, .. } = *event;
                self.add_count(What { layout, task, cpu }, 1);
                self.learn(event);
            }
            EventKind::Gap { why: GapWhy::KernelEvents, detail, .. } => {
                let lost = self.lost.entry(cpu).or_default();
                *lost = lost.saturating_add(*detail);
            }
            _ => {}
        }
    }

    fn merge(&mut self, other: Counter) {
        for (what, count) in other.counts {
            self.add_count(what, count);
        }
        self.uncounted += other.uncounted;
        for (cpu, lost) in other.lost {
            let all = self.lost.entry(cpu).or_default();
            *all = all.saturating_add(lost);
        }
        self.belonging.merge(other.belonging);
        for (task, name) in other.names {
            if self.names.len() < NAMES_MAX {
                self.names.entry(task).or_insert(name);
            }
        }
    }
}

/// How many events there were.
pub struct Counts {
    layouts: KernelLayouts,
    /// The most frequent first.
    each: Vec<(What, u64)>,
    uncounted: u64,
    lost: HashMap<u32, u64>,
    names: HashMap<u32, Vec<u8>>,
    belonging: Belonging,
}

impl Counts {
    fn total(&self) -> u64 {
        self.each.iter().map(|(_, count)| count).sum::<u64>().saturating_add(self.uncounted)
    }

    /// Sums by a part of what they are, the most frequent first.
    fn by(&self, key: impl Fn(&What) -> u32) -> Vec<(u32, u64)> {
        let mut sums: HashMap<u32, u64> = HashMap::new();
        self.each.iter().for_each(|(what, count)| *sums.entry(key(what)).or_default() += count);
        let mut sums: Vec<(u32, u64)> = sums.into_iter().collect();
        sums.sort_unstable_by(|(a, of_a), (b, of_b)| of_b.cmp(of_a).then(a.cmp(b)));
        sums
    }

    fn event(&self, layout: u32) -> Cell {
        let known = self.layouts.get(layout).map(|layout| layout.full_name());
        Cell::Name(known.unwrap_or_else(|| format!("{layout}")).into_bytes())
    }

    fn task(&self, task: u32) -> Cell {
        match (task, self.names.get(&task)) {
            (0, _) => Cell::word("idle"),
            (_, Some(name)) => Cell::Name(name.clone()),
            (_, None) => Cell::Nothing,
        }
    }

    /// Returns the result as tables.
    pub fn sheet(&self) -> Sheet {
        let total = self.total();
        let mut events = Table::new("events", "Events", &EVENT_COLUMNS);
        for (layout, count) in self.by(|what| what.layout) {
            events.row(vec![self.event(layout), Cell::Count(count), share(count, total)]);
        }
        let mut tasks = Table::new("event_tasks", "Threads that ran", &TASK_COLUMNS);
        for (task, count) in self.by(|what| what.task) {
            let id = Cell::Id(task.into());
            tasks.row(vec![id, self.task(task), Cell::Count(count), share(count, total)]);
        }
        let mut processes = Table::new("event_processes", "Processes that ran", &PROCESS_COLUMNS);
        // What ran when a CPU was idle is no process.
        let of_task = |task| if task == 0 { Some(0) } else { self.belonging.process_of(task) };
        for (pid, count) in self.by(|what| of_task(what.task).unwrap_or(UNKNOWN)) {
            let (id, name) = match pid {
                UNKNOWN => (Cell::Nothing, Cell::word("(not known)")),
                pid => (Cell::Id(pid.into()), self.task(pid)),
            };
            processes.row(vec![id, name, Cell::Count(count), share(count, total)]);
        }
        let mut cpus = Table::new("event_cpus", "CPUs", &CPU_COLUMNS);
        let mut by_cpu = self.by(|what| what.cpu);
        by_cpu.sort_unstable();
        for (cpu, count) in by_cpu {
            let lost = self.lost.get(&cpu).copied().unwrap_or(0);
            cpus.row(vec![cpu_name(cpu), Cell::Count(count), Cell::Count(lost)]);
        }
        let mut each = Table::new("event_counts", "Events by thread and CPU", &EACH_COLUMNS);
        for (what, count) in &self.each {
            each.row(vec![
                self.event(what.layout),
                Cell::Id(what.task.into()),
                self.task(what.task),
                cpu_name(what.cpu),
                Cell::Count(*count),
            ]);
        }
        let lost = self.lost.values().copied().fold(0, u64::saturating_add);
        let mut notes = Vec::new();
        if self.uncounted > 0 {
            notes.push(format!(
                "{} events are in no table: there were more than {COUNTED_MAX} combinations of kind, \
                 thread and CPU.",
                self.uncounted
            ));
        }
        let fact = |key, title, count| Fact { key, title, value: Cell::Count(count) };
        Sheet {
            facts: vec![
                fact("event_count", "kernel events", total),
                fact("event_lost", "lost by the kernel", lost),
            ],
            tables: vec![events, processes, tasks, cpus, each],
            notes,
        }
    }
}

const EVENT_COLUMNS: [(&str, &str); 3] = [("event", "event"), ("count", "count"), ("share", "")];
const PROCESS_COLUMNS: [(&str, &str); 4] =
    [("pid", "pid"), ("name", "name"), ("count", "count"), ("share", "")];
const TASK_COLUMNS: [(&str, &str); 4] =
    [("tid", "tid"), ("name", "name"), ("count", "count"), ("share", "")];
const CPU_COLUMNS: [(&str, &str); 3] = [("cpu", "cpu"), ("count", "count"), ("lost", "lost")];
const EACH_COLUMNS: [(&str, &str); 5] =
    [("event", "event"), ("tid", "tid"), ("name", "name"), ("cpu", "cpu"), ("count", "count")];

#[cfg(test)]
mod tests {
    use trace::event::{CPU_STREAM, Event};
    use trace::kernel::{KernelField, KernelKind, put_value};

    use super::*;

    fn layouts() -> KernelLayouts {
        let field = |name: &str, kind| KernelField {
            name: name.into(),
            c_type: String::new(),
            kind,
            size: 4,
        };
        let waking = KernelLayout {
            number: 1,
            system: "sched".into(),
            name: "sched_waking".into(),
            fields: vec![field("comm", KernelKind::Text), field("pid", KernelKind::Signed)],
            words: Vec::new(),
        };
        let mut layouts = KernelLayouts::default();
        layouts.add(&waking);
        layouts
    }

    fn event(cpu: u32, task: u32, layout: u32) -> Event {
        let mut values = Vec::new();
        put_value(&mut values, KernelValue::Text(b"cat"));
        put_value(&mut values, KernelValue::Signed(7));
        let kernel = KernelEvent { layout, task, flags: 0, values };
        Event::new(CPU_STREAM | cpu, 5, EventKind::Kernel(kernel))
    }

    fn counted(events: &[Event]) -> Counter {
        let mut counter = Counter::new(&layouts());
        for event in events {
            let (exit_ns, submitted_ns, user_ns) = (None, None, None);
            counter.add(&Occasion { event, enter_ns: 0, exit_ns, submitted_ns, user_ns });
        }
        counter
    }

    #[test]
    fn events_are_counted_by_kind_thread_and_cpu() {
        let mut counter = counted(&[event(0, 0, 1), event(0, 7, 1), event(0, 7, 1)]);
        let why = GapWhy::KernelEvents;
        let gap = EventKind::Gap { why, detail: 9, text: String::new() };
        counter.merge(counted(&[
            event(1, 7, 1),
            event(1, 7, 2),
            Event::new(CPU_STREAM | 1, 6, gap),
        ]));
        let counts = counter.finish();
        assert_eq!(counts.by(|what| what.layout), [(1, 4), (2, 1)]);
        assert_eq!(counts.by(|what| what.task), [(7, 4), (0, 1)]);
        assert_eq!(counts.by(|what| what.cpu), [(0, 3), (1, 2)]);
        assert_eq!(counts.lost, HashMap::from([(1, 9)]));
        assert_eq!(counts.task(7), Cell::Name(b"cat".to_vec()));
        assert_eq!(counts.event(1), Cell::Name(b"sched:sched_waking".to_vec()));
        assert_eq!(counts.event(2), Cell::Name(b"2".to_vec()));
        let sheet = counts.sheet();
        assert_eq!(sheet.facts[0].value, Cell::Count(5));
        // The process of 7 is not known.
        assert_eq!(sheet.tables[1].rows.len(), 2);
        assert_eq!(sheet.tables[1].rows[0][0], Cell::Nothing);
        assert_eq!(sheet.tables[4].rows.len(), 4);
    }
}
