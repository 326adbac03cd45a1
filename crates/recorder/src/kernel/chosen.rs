//! Which events are about some tasks: those that are named, and all that they make.
//!
//! An event is kept if such a task ran, or if the event names one (a wakeup, a switch, a fork), or
//! if it completes a request that such a task has issued. An interrupt is kept if something in it
//! is: its beginning is held back until that is known.
//!
//! A thread of the kernel's own works for such a task from when that wakes it until it sleeps
//! without work; so does one that it wakes meanwhile, and one that is woken where a request of
//! theirs ends. Their events are kept for that time, as they say what the task waits for.

use std::collections::{HashSet, VecDeque};

use ftrace::{Field, Format, RawEvent};
use model::kernel_events::{KernelAct, kernel_row};
use syscalls::abi::states::{Stopping, of_switch};
use syscalls::act::Act;

/// Highest id of a task, and one more.
const TASKS_MAX: usize = 1 << 22;
/// Tasks that are named and wait for their time.
const NAMED_MAX: usize = 64 << 10;
/// Requests that are remembered.
const REQUESTS_MAX: usize = 64 << 10;
/// Interrupts within interrupts.
const NEST_MAX: usize = 16;
/// CPUs whose interrupts are followed.
const CPUS_MAX: u32 = 1 << 16;
/// Of an event's flags: it happened in an interrupt, or in the second half of one.
const IN_INTERRUPT: u8 = 0x08 | 0x10;

/// Numbers of the calls by which a task gets other users, groups or process groups.
pub fn calls_that_change_who() -> impl Iterator<Item = u64> {
    let changes = |act| {
        matches!(
            act,
            Act::TakeId(_)
                | Act::SetIds(_)
                | Act::SetFileId(_)
                | Act::SetProcessGroup
                | Act::StartSession
        )
    };
    let rows = syscalls::table::ROWS.iter().flat_map(|rows| rows.iter());
    let rows = rows.filter(|row| row.queue.is_none());
    rows.filter(move |row| row.acts().any(changes)).map(|row| row.nr.into())
}

/// Picks the events of some tasks.
pub struct Chosen {
    /// A bit for each task that is followed for where it comes from.
    by_origin: Bits,
    /// And one for each that is what was asked for.
    by_what_it_is: Bits,
    /// Threads of the kernel's own.
    of_kernel: Bits,
    /// Those of them that work for one that is followed.
    at_work: Bits,
    /// Those that may have become something else.
    changed: Vec<(u64, u32)>,
    /// Calls after which a task may be something else.
    telling: HashSet<u64>,
    /// Events that were dropped.
    dropped: u64,
    /// Tasks that are followed from a time on that has not come yet.
    named: VecDeque<(u64, u32)>,
    /// Requests that were issued by them.
    requests: HashSet<[u64; 2]>,
    kinds: Vec<Kind>,
    /// By CPU: interrupts that were begun, the innermost last.
    nests: Vec<Vec<Held>>,
    /// Whether the last event is kept.
    keeps: bool,
}

/// What is known of one kind of event.
struct Kind {
    tasks: Vec<Field>,
    does: Does,
}

enum Does {
    Nothing,
    /// With the task that stops running, and its state.
    Switch(Option<[Field; 2]>),
    Wake(Field),
    Fork {
        parent: Field,
        child: Field,
    },
    Enter {
        exit: usize,
    },
    Leave,
    Issue([Field; 2]),
    Complete([Field; 2]),
    Exec(Field),
    MayChange(Field),
    Returns(Field),
}

/// A bit for each task.
#[derive(Default)]
struct Bits(Vec<u64>);

impl Bits {
    fn set(&mut self, task: u32, is_set: bool) {
        let (at, bit) = (task as usize / 64, 1 << (task % 64));
        if task as usize >= TASKS_MAX || (!is_set && at >= self.0.len()) {
            return;
        }
        if at >= self.0.len() {
            self.0.resize(at + 1, 0);
        }
        if is_set {
            self.0[at] |= bit;
        } else {
            self.0[at] &= !bit;
        }
    }

    fn has(&self, task: u32) -> bool {
        self.0.get(task as usize / 64).is_some_and(|word| word & 1 << (task % 64) != 0)
    }
}

/// The beginning of an interrupt.
pub struct Held {
    /// The event's place in the list of formats.
    pub place: usize,
    /// The place of that which ends it.
    exit: usize,
    time: u64,
    flags: [u8; 2],
    task: u32,
    id: u16,
    bytes: Vec<u8>,
    is_kept: bool,
    /// A request of a followed task ends in it.
    is_of_request: bool,
}

impl Held {
    /// The event.
    pub fn event(&self) -> RawEvent<'_> {
        let &Held { time, id, flags: [flags, depth], task, ref bytes, .. } = self;
        RawEvent { time, id, flags, depth, task, bytes }
    }
}

impl Chosen {
    /// Picks among events of these formats.
    pub fn new(formats: &[Format]) -> Chosen {
        let kinds = formats.iter().map(|format| Kind::new(format, formats)).collect();
        Chosen {
            by_origin: Bits::default(),
            by_what_it_is: Bits::default(),
            of_kernel: Bits::default(),
            at_work: Bits::default(),
            changed: Vec::new(),
            telling: calls_that_change_who().collect(),
            dropped: 0,
            named: VecDeque::new(),
            requests: HashSet::new(),
            kinds,
            nests: Vec::new(),
            keeps: false,
        }
    }

    /// Keeps the events of a task from a time on. Events are looked at later than they happen: its
    /// fork by one that is not followed may still be to come.
    pub fn follow(&mut self, task: u32, from: u64) {
        if self.named.len() < NAMED_MAX {
            self.named.push_back((from, task));
        }
    }

    /// A task is what was asked for, or is not any more.
    pub fn becomes(&mut self, task: u32, is_asked_for: bool) {
        self.by_what_it_is.set(task, is_asked_for);
    }

    /// A task is a thread of the kernel's own.
    pub fn is_of_kernel(&mut self, task: u32) {
        self.of_kernel.set(task, true);
    }

    /// The tasks that may have become something else since the last time, and when.
    pub fn changed(&mut self) -> Vec<(u64, u32)> {
        std::mem::take(&mut self.changed)
    }

    /// How many events were dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Returns true if the events of a task are kept.
    pub fn has(&self, task: u32) -> bool {
        self.by_origin.has(task) || self.by_what_it_is.has(task)
    }

    /// Looks at an event of a CPU. Returns the beginnings of interrupts that it is in, which are to
    /// be kept before it; then [`Chosen::keeps`] tells whether it is kept itself.
    pub fn take(&mut self, cpu: u32, place: usize, event: &RawEvent<'_>) -> Vec<&Held> {
        while let Some(&(from, task)) = self.named.front()
            && from <= event.time
        {
            self.named.pop_front();
            self.by_origin.set(task, true);
        }
        let kind = &self.kinds[place];
        let task = |field: &Field| field.unsigned(event.bytes) as u32;
        let keeps_of = |task: u32| self.has(task) || self.at_work.has(task);
        let mut keeps =
            keeps_of(event.task) || kind.tasks.iter().any(|field| keeps_of(task(field)));
        let numbers = |fields: &[Field; 2]| [0, 1].map(|at| fields[at].unsigned(event.bytes));
        let (mut born, mut is_of_request) = (None, false);
        match &kind.does {
            Does::Nothing | Does::Enter { .. } | Does::Leave | Does::Switch(None) => {}
            Does::Switch(Some(from)) => {
                let [from, state] = numbers(from);
                let has_no_work = matches!(
                    of_switch(state as i64),
                    Stopping::Asleep | Stopping::Stopped | Stopping::Ended
                );
                if has_no_work {
                    self.at_work.set(from as u32, false);
                }
            }
            Does::Wake(of) => {
                let of = task(of);
                let is_for_us = if event.flags & IN_INTERRUPT == 0 {
                    keeps_of(event.task)
                } else {
                    let nest = self.nests.get(cpu as usize);
                    nest.is_some_and(|nest| nest.iter().any(|held| held.is_of_request))
                };
                if is_for_us && self.of_kernel.has(of) {
                    self.at_work.set(of, true);
                    keeps = true;
                }
            }
            Does::Returns(call) => {
                if self.telling.contains(&call.unsigned(event.bytes)) {
                    self.changed.push((event.time, event.task));
                }
            }
            Does::Exec(of) => {
                // The kernel begins a program of a user.
                self.of_kernel.set(task(of), false);
                self.at_work.set(task(of), false);
                self.changed.push((event.time, task(of)));
            }
            Does::MayChange(of) => self.changed.push((event.time, task(of))),
            Does::Fork { parent, child } => born = Some((task(child), task(parent))),
            Does::Issue(request) if keeps && self.requests.len() < REQUESTS_MAX => {
                self.requests.insert(numbers(request));
            }
            Does::Issue(_) => {}
            Does::Complete(request) => {
                is_of_request = self.requests.remove(&numbers(request));
                keeps |= is_of_request;
            }
        }
        // An id that was a followed task's may now be another's.
        if let Some((child, parent)) = born {
            self.by_origin.set(child, self.by_origin.has(parent));
            self.by_what_it_is.set(child, self.by_what_it_is.has(parent));
            self.of_kernel.set(child, self.of_kernel.has(parent));
            self.at_work.set(child, false);
        }
        self.keeps = keeps;
        if cpu >= CPUS_MAX {
            return Vec::new();
        }
        let at = cpu as usize;
        if at >= self.nests.len() {
            self.nests.resize_with(at + 1, Vec::new);
        }
        let nest = &mut self.nests[at];
        if is_of_request {
            nest.iter_mut().for_each(|held| held.is_of_request = true);
        }
        match self.kinds[place].does {
            Does::Switch(_) => nest.clear(),
            Does::Leave => {
                if let Some(begun) = nest.iter().rposition(|held| held.exit == place) {
                    self.keeps |= nest[begun].is_kept;
                    nest.truncate(begun);
                }
            }
            Does::Enter { exit } if nest.len() < NEST_MAX => {
                nest.push(Held {
                    place,
                    exit,
                    time: event.time,
                    flags: [event.flags, event.depth],
                    task: event.task,
                    id: event.id,
                    bytes: if self.keeps { Vec::new() } else { event.bytes.to_vec() },
                    is_kept: self.keeps,
                    is_of_request: false,
                });
            }
            _ => {}
        }
        if !self.keeps {
            self.dropped += 1;
            return Vec::new();
        }
        let unkept = nest.iter_mut().filter(|held| !held.is_kept);
        unkept
            .map(|held| {
                held.is_kept = true;
                self.dropped = self.dropped.saturating_sub(1);
                &*held
            })
            .collect()
    }

    /// Whether the last event is kept.
    pub fn keeps(&self) -> bool {
        self.keeps
    }
}

impl Kind {
    fn new(format: &Format, all: &[Format]) -> Kind {
        let Some(row) = kernel_row(&format.system, &format.name) else {
            return Kind { tasks: Vec::new(), does: Does::Nothing };
        };
        let field = |name: &str| format.field(name).cloned();
        let both = |names: [&str; 2]| Some([field(names[0])?, field(names[1])?]);
        let does = match row.does {
            KernelAct::Switch { from, state, .. } => Some(Does::Switch(both([from, state]))),
            KernelAct::Wake { task, .. } => field(task).map(Does::Wake),
            KernelAct::Fork { parent, child, .. } => {
                field(parent).zip(field(child)).map(|(parent, child)| Does::Fork { parent, child })
            }
            KernelAct::Enter { exit, .. } => {
                let is_exit = |other: &Format| other.system == format.system && other.name == exit;
                all.iter().position(is_exit).map(|exit| Does::Enter { exit })
            }
            KernelAct::Leave => Some(Does::Leave),
            KernelAct::Issue { request, .. } => both(request).map(Does::Issue),
            KernelAct::Complete { request } => both(request).map(Does::Complete),
            KernelAct::Exec { task, .. } => field(task).map(Does::Exec),
            KernelAct::Moves { task } => field(task).map(Does::MayChange),
            KernelAct::Return => field("id").map(Does::Returns),
            _ => None,
        };
        let tasks = row.tasks.iter().filter_map(|name| field(name)).collect();
        Kind { tasks, does: does.unwrap_or(Does::Nothing) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
        \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
        \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
        \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n";

    fn format(id: u16, system: &str, name: &str, fields: &[&str]) -> Format {
        let mut text = format!("name: {name}\nID: {id}\nformat:\n{HEAD}");
        for (at, field) in fields.iter().enumerate() {
            let offset = 8 + 4 * at;
            text.push_str(&format!("\tfield:int {field};\toffset:{offset};\tsize:4;\tsigned:1;\n"));
        }
        Format::parse(system, &text).unwrap()
    }

    /// A machine with one CPU; events are named by their places.
    struct Machine {
        chosen: Chosen,
        time: u64,
        flags: u8,
    }

    const SWITCH: usize = 0;
    const FORK: usize = 1;
    const WAKE: usize = 2;
    const ENTRY: usize = 3;
    const EXIT: usize = 4;
    const ISSUE: usize = 5;
    const COMPLETE: usize = 6;
    const FAULT: usize = 7;

    impl Machine {
        fn new() -> Machine {
            let formats = [
                format(0, "sched", "sched_switch", &["prev_pid", "next_pid", "prev_state"]),
                format(1, "sched", "sched_process_fork", &["parent_pid", "child_pid"]),
                format(2, "sched", "sched_waking", &["pid"]),
                format(3, "irq", "irq_handler_entry", &["irq"]),
                format(4, "irq", "irq_handler_exit", &["irq"]),
                format(5, "block", "block_rq_issue", &["dev", "sector"]),
                format(6, "block", "block_rq_complete", &["dev", "sector"]),
                format(7, "exceptions", "page_fault_user", &["address"]),
            ];
            Machine { chosen: Chosen::new(&formats), time: 0, flags: 0 }
        }

        /// What is kept when this happens while a task runs.
        fn happens(&mut self, place: usize, task: u32, fields: &[u32]) -> Vec<usize> {
            self.time += 1;
            let mut bytes = vec![0; 8];
            fields.iter().for_each(|field| bytes.extend_from_slice(&field.to_le_bytes()));
            let (time, id) = (self.time, place as u16);
            let flags = self.flags;
            let event = RawEvent { time, id, flags, depth: 0, task, bytes: &bytes };
            let held = self.chosen.take(0, place, &event);
            let mut kept: Vec<usize> = held.iter().map(|held| held.place).collect();
            kept.extend(self.chosen.keeps().then_some(place));
            kept
        }
    }

    #[test]
    fn a_program_and_what_it_makes_are_kept() {
        let mut machine = Machine::new();
        machine.chosen.follow(100, 0);
        assert_eq!(machine.happens(FAULT, 100, &[1]), [FAULT]);
        assert!(machine.happens(FAULT, 7, &[1]).is_empty());
        assert_eq!(machine.happens(FORK, 100, &[100, 101]), [FORK]);
        assert_eq!(machine.happens(FAULT, 101, &[1]), [FAULT]);
        assert_eq!(machine.happens(SWITCH, 7, &[7, 101, 0]), [SWITCH]);
        assert_eq!(machine.happens(WAKE, 7, &[100]), [WAKE]);
        assert!(machine.happens(WAKE, 7, &[8]).is_empty());
        // The id is given to a task of another program.
        assert_eq!(machine.happens(FORK, 7, &[7, 101]), [FORK]);
        assert!(machine.happens(FAULT, 101, &[1]).is_empty());
    }

    #[test]
    fn the_interrupt_that_ends_a_request_is_kept() {
        let mut machine = Machine::new();
        machine.chosen.follow(100, 0);
        assert_eq!(machine.happens(ISSUE, 100, &[8, 640]), [ISSUE]);
        assert!(machine.happens(ISSUE, 7, &[8, 648]).is_empty());
        assert!(machine.happens(ENTRY, 0, &[5]).is_empty());
        assert!(machine.happens(COMPLETE, 0, &[8, 648]).is_empty());
        assert_eq!(machine.happens(COMPLETE, 0, &[8, 640]), [ENTRY, COMPLETE]);
        assert_eq!(machine.happens(WAKE, 0, &[100]), [WAKE]);
        assert_eq!(machine.happens(EXIT, 0, &[5]), [EXIT]);
        // One in which nothing is about the program is not.
        assert!(machine.happens(ENTRY, 0, &[5]).is_empty());
        assert!(machine.happens(COMPLETE, 0, &[8, 640]).is_empty());
        assert!(machine.happens(EXIT, 0, &[5]).is_empty());
        assert!(machine.happens(WAKE, 0, &[100]) == [WAKE]);
    }

    #[test]
    fn threads_of_the_kernel_are_kept_while_they_work_for_a_program() {
        let mut machine = Machine::new();
        machine.chosen.follow(100, 0);
        let (journal, worker, other) = (50, 51, 52);
        [journal, worker, other].iter().for_each(|task| machine.chosen.is_of_kernel(*task));
        let (runs, blocked, asleep) = (0, 2, 0x80);
        assert!(machine.happens(SWITCH, 0, &[0, journal, runs]).is_empty());
        assert!(machine.happens(SWITCH, journal, &[journal, 0, asleep]).is_empty());
        // A program wakes one; that waits for a disk, and wakes another one.
        assert_eq!(machine.happens(WAKE, 100, &[journal]), [WAKE]);
        assert_eq!(machine.happens(SWITCH, 0, &[0, journal, runs]), [SWITCH]);
        assert_eq!(machine.happens(ISSUE, journal, &[8, 640]), [ISSUE]);
        assert_eq!(machine.happens(WAKE, journal, &[worker]), [WAKE]);
        assert_eq!(machine.happens(SWITCH, journal, &[journal, worker, blocked]), [SWITCH]);
        assert_eq!(machine.happens(SWITCH, worker, &[worker, 0, asleep]), [SWITCH]);
        assert!(machine.happens(SWITCH, 0, &[0, worker, runs]).is_empty());
        assert!(machine.happens(SWITCH, worker, &[worker, 0, asleep]).is_empty());
        // Where its request ends, one is woken too; nobody is for what else interrupts.
        machine.flags = IN_INTERRUPT;
        assert!(machine.happens(WAKE, 0, &[other]).is_empty());
        assert_eq!(machine.happens(WAKE, 100, &[other]), [WAKE]);
        assert!(machine.happens(ENTRY, 0, &[5]).is_empty());
        assert_eq!(machine.happens(COMPLETE, 0, &[8, 640]), [ENTRY, COMPLETE]);
        assert_eq!(machine.happens(WAKE, 0, &[worker]), [WAKE]);
        assert_eq!(machine.happens(EXIT, 0, &[5]), [EXIT]);
        machine.flags = 0;
        assert_eq!(machine.happens(SWITCH, 0, &[0, worker, runs]), [SWITCH]);
        assert!(machine.happens(SWITCH, 0, &[0, other, runs]).is_empty());
        // It has no more work.
        assert_eq!(machine.happens(SWITCH, journal, &[journal, 0, asleep]), [SWITCH]);
        assert!(machine.happens(WAKE, 7, &[journal]).is_empty());
        // One that begins a program of a user is none of the kernel's any more.
        assert!(machine.happens(FORK, other, &[other, 53]).is_empty());
        assert_eq!(machine.happens(WAKE, 100, &[53]), [WAKE]);
        assert_eq!(machine.happens(FAULT, 53, &[1]), [FAULT]);
    }

    #[test]
    fn who_was_named_is_followed_though_its_fork_comes_later() {
        let mut machine = Machine::new();
        machine.chosen.follow(100, 2);
        assert!(machine.happens(FORK, 7, &[7, 100]).is_empty());
        assert_eq!(machine.happens(FAULT, 100, &[1]), [FAULT]);
    }

    #[test]
    fn nonsense_is_bounded() {
        let mut machine = Machine::new();
        machine.chosen.follow(u32::MAX, 0);
        machine.chosen.follow(100, 0);
        for number in 0..3 * NEST_MAX as u32 {
            machine.happens(ENTRY, 0, &[number]);
            machine.happens(FORK, 100, &[100, u32::MAX - number]);
        }
        assert!(machine.chosen.nests[0].len() <= NEST_MAX);
        assert!(machine.chosen.by_origin.0.len() <= TASKS_MAX / 64);
    }
}
