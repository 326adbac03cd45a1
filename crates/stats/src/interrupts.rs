//! Interrupts: how many, and how long they took.

use std::collections::HashMap;

use model::Conditions;
use model::happenings::{Entered, Happening, Happenings};
use syscalls::abi::softirqs;
use trace::event::{EventKind, GapWhy, KernelEvent};
use trace::kernel::KernelLayouts;

use crate::histogram::Histogram;
use crate::kernel_counts::cpu_name;
use crate::pass::{Visit, Watch};
use crate::sheet::{Cell, Fact, Sheet, Table, share};
use crate::view::ViewRow;

/// Interrupts that are told apart, on each CPU.
const KINDS_MAX: usize = 1 << 14;
/// Interrupts within interrupts.
const NEST_MAX: usize = 16;
/// CPUs that are followed.
const CPUS_MAX: u32 = 1 << 13;

/// The view.
pub static VIEW: ViewRow = ViewRow {
    name: "irq",
    about: "Interrupts and softirqs: how many, how long, on which CPU",
    look: |look| {
        let fold = Interrupts::new(&model::kernel_layouts(look.trace), look.conditions);
        Ok(look.of_kernel(look.watch(fold, |fold, _| fold.sheet())))
    },
};

/// What interrupts: a device by number and name, or another one by name.
type What = (&'static str, u64, Vec<u8>);

struct Begun {
    what: What,
    since: u64,
    /// Whether it is one of those that were asked for.
    is_wanted: bool,
    /// Time of those within it.
    within: u64,
}

#[derive(Default)]
struct Times {
    all: Histogram,
    /// Without those within them.
    own_ns: u64,
    total_ns: u64,
    max_ns: u64,
}

/// The fold.
struct Interrupts<'a> {
    conditions: &'a Conditions,
    happenings: Happenings,
    layouts: KernelLayouts,
    nests: Vec<Vec<Begun>>,
    times: HashMap<(u32, What), Times>,
    /// First and last event.
    span: Option<[u64; 2]>,
    left_out: u64,
}

impl Interrupts<'_> {
    fn new<'a>(layouts: &KernelLayouts, conditions: &'a Conditions) -> Interrupts<'a> {
        Interrupts {
            conditions,
            happenings: Happenings::new(layouts),
            layouts: layouts.clone(),
            nests: Vec::new(),
            times: HashMap::new(),
            span: None,
            left_out: 0,
        }
    }

    fn nest(&mut self, cpu: u32) -> &mut Vec<Begun> {
        let at = cpu as usize;
        if at >= self.nests.len() {
            self.nests.resize_with(at + 1, Vec::new);
        }
        &mut self.nests[at]
    }

    fn kernel(&mut self, cpu: u32, event: &KernelEvent, visit: &Visit<'_>) {
        let (now, is_wanted) = (visit.moment.enter_ns, visit.wanted);
        if self.conditions.accepts_time(now) {
            let span = self.span.get_or_insert([now; 2]);
            span[1] = span[1].max(now);
        }
        match self.happenings.read(event.layout, &event.values) {
            Some(Happening::Enter(entered)) => {
                let named = || {
                    let name = self.layouts.get(event.layout).map(|layout| layout.name.as_str());
                    let name = name.unwrap_or_default().trim_end_matches("_entry");
                    name.as_bytes().to_vec()
                };
                let what: What = match entered {
                    Entered::Device { number, name } => ("device", number, name.to_vec()),
                    Entered::Soft(number) => {
                        let name = softirqs::name(number).unwrap_or_default();
                        ("softirq", number as u64, name.into())
                    }
                    Entered::Timer => ("timer", 0, named()),
                    Entered::Processor => ("processor", 0, named()),
                };
                let nest = self.nest(cpu);
                if nest.len() < NEST_MAX {
                    nest.push(Begun { what, since: now, is_wanted, within: 0 });
                }
            }
            Some(Happening::Leave) => self.leaves(cpu, now),
            Some(Happening::Switch { .. }) => self.nest(cpu).clear(),
            _ => {}
        }
    }

    fn leaves(&mut self, cpu: u32, now: u64) {
        let nest = self.nest(cpu);
        let Some(begun) = nest.pop() else { return };
        let took = now.saturating_sub(begun.since);
        if let Some(outer) = nest.last_mut() {
            outer.within += took;
        }
        if !begun.is_wanted {
            return;
        }
        let key = (cpu, begun.what);
        if self.times.len() >= KINDS_MAX && !self.times.contains_key(&key) {
            self.left_out += 1;
            return;
        }
        let times = self.times.entry(key).or_default();
        times.all.add(took);
        times.total_ns += took;
        times.own_ns += took.saturating_sub(begun.within);
        times.max_ns = times.max_ns.max(took);
    }

    fn sheet(self) -> Sheet {
        let [first, last] = self.span.unwrap_or_default();
        let mut all: Vec<(&(u32, What), &Times)> = self.times.iter().collect();
        all.sort_by_key(|(key, times)| (u64::MAX - times.own_ns, *key));
        let mut table = Table::new("interrupts", "Interrupts", &COLUMNS)
            .further(&["total_ns", "p50_ns", "max_ns"]);
        for ((cpu, (kind, number, name)), times) in &all {
            table.row(vec![
                Cell::word(kind),
                if *kind == "device" { Cell::Id(*number) } else { Cell::Nothing },
                Cell::Name(name.clone()),
                cpu_name(*cpu),
                Cell::Count(times.all.count),
                Cell::Ns(times.own_ns),
                Cell::Ns(times.total_ns),
                Cell::Ns(times.all.quantile(0.5)),
                Cell::Ns(times.all.quantile(0.99)),
                Cell::Ns(times.max_ns),
                share(times.own_ns, last - first),
            ]);
        }
        let count = all.iter().map(|(_, times)| times.all.count).sum();
        let mut notes = vec![
            "Own: without interrupts within it. Share: of the time from the first event to the last, on \
             that CPU."
                .into(),
        ];
        if self.left_out > 0 {
            notes.push(format!("{} are in no row: there were too many kinds.", self.left_out));
        }
        if !self.conditions.only_name_times() {
            notes.push("Only those that began in an event that was asked for.".into());
        }
        let fact = Fact { key: "interrupt_count", title: "interrupts", value: Cell::Count(count) };
        Sheet { facts: vec![fact], tables: vec![table], notes }
    }
}

impl Watch for Interrupts<'_> {
    fn add(&mut self, visit: &mut Visit<'_>) {
        let event = visit.moment.event;
        let Some(cpu) = event.cpu().filter(|cpu| *cpu < CPUS_MAX) else { return };
        match &event.kind {
            EventKind::Kernel(kernel) => self.kernel(cpu, kernel, visit),
            EventKind::Gap { why: GapWhy::KernelEvents, .. } => self.nest(cpu).clear(),
            _ => {}
        }
    }
}

const COLUMNS: [(&str, &str); 11] = [
    ("kind", "kind"),
    ("number", "irq"),
    ("name", "name"),
    ("cpu", "cpu"),
    ("count", "count"),
    ("own_ns", "own"),
    ("total_ns", "total"),
    ("p50_ns", "p50"),
    ("p99_ns", "p99"),
    ("max_ns", "max"),
    ("share", "share"),
];
