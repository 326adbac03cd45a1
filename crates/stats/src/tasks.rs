//! Activity and lifetime of processes and threads.

use std::collections::{BTreeMap, HashMap, HashSet};

use model::contents::strings;
use model::{Contents, Stored, file_use, names};
use render::escape::in_shell;
use syscalls::record::part;
use trace::event::{Content, EventKind, StartHow};

use crate::pass::{Fold, Occasion};
use crate::sheet::{Cell, Fact, Sheet, Table, ratio};
use crate::view::ViewRow;

/// The view of processes.
pub static PROCESSES: ViewRow = ViewRow {
    name: "processes",
    about: "The tree of processes: life, calls, data, time in calls and between",
    look: |look| {
        let mut stored = Stored(look.trace);
        Ok(look.fold(Tasks::default, |fold| fold.finish(&mut stored).processes_sheet()))
    },
};

/// The view of threads.
pub static THREADS: ViewRow = ViewRow {
    name: "threads",
    about: "The same of each thread, and what it computed between calls",
    look: |look| {
        let mut stored = Stored(look.trace);
        Ok(look.fold_in_order(Tasks::default(), |fold| fold.finish(&mut stored).threads_sheet()))
    },
};

/// Limit for the threads and for the processes; the rest is counted together.
const TASKS_MAX: usize = 200_000;
/// Number of the thread that stands for the rest.
const OTHERS: u32 = u32::MAX;
/// Limit for the bytes of a command line.
const COMMAND_BYTES_MAX: usize = 256;

/// Activity of a thread.
#[derive(Clone, Debug, Default)]
pub struct Thread {
    /// Number of its process in the trace.
    pub process: u32,
    /// Number of the thread that created it.
    pub parent: u32,
    /// Process id as the program sees it.
    pub pid: u32,
    /// Thread id as the program sees it.
    pub tid: u32,
    /// Kind of its start, if recorded.
    pub how: Option<StartHow>,
    /// Times of its first and last event.
    pub life: Option<(u64, u64)>,
    /// Number of calls.
    pub calls: u64,
    /// Number of failed calls.
    pub errors: u64,
    /// Number of bytes moved.
    pub bytes: u64,
    /// Time in calls that returned.
    pub in_calls_ns: u64,
    /// Lifetime minus the time in calls.
    pub outside_ns: u64,
    /// CPU time between calls, as far as it is known.
    pub user_ns: u64,
    /// Number of calls before which it is known.
    pub user_known: u64,
    /// Time it waited for the recorder.
    pub stall_ns: u64,
    /// Arguments of the programs that it executed, by time.
    images: BTreeMap<u64, Content>,
}

/// Limit for the copies of copies that are followed up to a program.
const GENERATIONS_MAX: usize = 1 << 10;
/// Limit for the programs kept per thread.
const IMAGES_MAX: usize = 16;

/// The fold that tracks threads.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    threads: HashMap<u32, Thread>,
    exits: HashMap<u32, (u64, Option<i32>)>,
}

impl Thread {
    fn seen(&mut self, from_ns: u64, to_ns: u64) {
        let (first, last) = self.life.unwrap_or((from_ns, to_ns));
        self.life = Some((first.min(from_ns), last.max(to_ns)));
    }

    fn add(&mut self, occasion: &Occasion<'_>) {
        self.seen(occasion.enter_ns, occasion.exit_ns.unwrap_or(occasion.enter_ns));
        match &occasion.event.kind {
            EventKind::Call(call) => {
                self.calls += 1;
                self.errors += u64::from(call.error().is_some());
                let bytes = file_use::of(call.nr).moved(call).unwrap_or(0);
                self.bytes = self.bytes.saturating_add(bytes);
                self.in_calls_ns = self.in_calls_ns.saturating_add(occasion.in_call_ns());
                if let Some(ns) = occasion.user_ns {
                    self.user_ns = self.user_ns.saturating_add(ns);
                    self.user_known += 1;
                }
            }
            EventKind::Stall { ns } => self.stall_ns = self.stall_ns.saturating_add(*ns),
            EventKind::Start { how, process, parent, pid, tid } => {
                self.how = Some(*how);
                (self.process, self.parent, self.pid, self.tid) = (*process, *parent, *pid, *tid);
            }
            EventKind::Image { tid, data } => {
                self.tid = *tid;
                if let Some(data) = data.iter().find(|data| data.part == part::ARGV)
                    && self.images.len() < IMAGES_MAX
                {
                    self.images.insert(occasion.enter_ns, beginning(&data.content));
                }
            }
            _ => {}
        }
    }

    fn merge(&mut self, other: Thread) {
        if other.how.is_some() {
            self.how = other.how;
            (self.process, self.parent) = (other.process, other.parent);
            (self.pid, self.tid) = (other.pid, other.tid);
        }
        if let Some((first, last)) = other.life {
            self.seen(first, last);
        }
        self.calls += other.calls;
        self.errors += other.errors;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.in_calls_ns = self.in_calls_ns.saturating_add(other.in_calls_ns);
        self.stall_ns = self.stall_ns.saturating_add(other.stall_ns);
        self.user_ns = self.user_ns.saturating_add(other.user_ns);
        self.user_known += other.user_known;
        self.outside_ns = self.outside_ns.saturating_add(other.outside_ns);
        self.images.extend(other.images);
    }

    fn first_ns(&self) -> u64 {
        self.life.map_or(0, |(first, _)| first)
    }

    /// Returns its lifetime.
    pub fn life_ns(&self) -> u64 {
        self.life.map_or(0, |(first, last)| last.saturating_sub(first))
    }
}

/// Returns the needed beginning of a command line, which a hostile trace may make huge.
fn beginning(content: &Content) -> Content {
    match content {
        Content::Blobs { len, ids } => {
            Content::Blobs { len: *len, ids: ids.iter().take(1).copied().collect() }
        }
        inline => inline.clone(),
    }
}

impl Tasks {
    fn thread(&mut self, number: u32) -> &mut Thread {
        let full = self.threads.len() >= TASKS_MAX && !self.threads.contains_key(&number);
        self.threads.entry(if full { OTHERS } else { number }).or_default()
    }

    /// Returns the result; `contents` reads the arguments of programs.
    pub fn finish(mut self, contents: &mut dyn Contents) -> TaskCounts {
        let mut images = Images { by_process: HashMap::new(), words: HashMap::new(), contents };
        for thread in self.threads.values_mut() {
            thread.outside_ns = thread.life_ns().saturating_sub(thread.in_calls_ns);
            let own = std::mem::take(&mut thread.images);
            images.by_process.entry(thread.process).or_default().extend(own);
        }
        let mut threads: Vec<(u32, Thread)> = self.threads.into_iter().collect();
        threads.sort_by_key(|(number, _)| *number);
        let mut processes: BTreeMap<u32, Process> = BTreeMap::new();
        let process_of: HashMap<u32, u32> = threads.iter().map(|(n, t)| (*n, t.process)).collect();
        for (_, thread) in &threads {
            let process = processes.entry(thread.process).or_insert_with(|| {
                let parent = process_of.get(&thread.parent).copied();
                let parent = parent.filter(|parent| *parent != thread.process);
                Process { pid: thread.pid, parent, ..Process::default() }
            });
            process.threads += 1;
            process.sum.merge(Thread { how: None, ..thread.clone() });
        }
        for (number, process) in &mut processes {
            process.command = images.last_command(*number);
        }
        for (number, program) in images.copied(&processes) {
            if let Some(process) = processes.get_mut(&number) {
                process.copy_of = program;
            }
        }
        for (number, (ns, status)) in self.exits {
            if let Some(process) = processes.get_mut(&number) {
                process.status = status;
                process.sum.seen(ns, ns);
            }
        }
        TaskCounts { threads, processes }
    }
}

/// The programs that processes executed.
struct Images<'a> {
    /// Their arguments by time.
    by_process: HashMap<u32, BTreeMap<u64, Content>>,
    /// First words that were read before.
    words: HashMap<(u32, u64), Vec<u8>>,
    contents: &'a mut dyn Contents,
}

impl Images<'_> {
    /// Returns the command line of the last program of a process.
    fn last_command(&mut self, process: u32) -> Vec<u8> {
        let last = self.by_process.get(&process).and_then(BTreeMap::last_key_value);
        let read = last.map(|(_, content)| self.contents.read(content, COMMAND_BYTES_MAX));
        read.and_then(Result::ok).map(|bytes| in_shell(strings(&bytes))).unwrap_or_default()
    }

    /// Returns what those processes ran that executed nothing: what the one that made them ran then,
    /// which may have executed another program since.
    fn copied(&mut self, processes: &BTreeMap<u32, Process>) -> Vec<(u32, Vec<u8>)> {
        let copies = processes.iter().filter(|(_, process)| process.command.is_empty());
        copies.map(|(number, _)| (*number, self.copied_by(*number, processes))).collect()
    }

    fn copied_by(&mut self, process: u32, processes: &BTreeMap<u32, Process>) -> Vec<u8> {
        let mut at = process;
        // In a hostile trace, processes may be their own ancestors.
        for _ in 0..GENERATIONS_MAX {
            let Some(copy) = processes.get(&at) else { break };
            let Some(parent) = copy.parent else { break };
            let images = self.by_process.get(&parent);
            let before = images.and_then(|of| of.range(..=copy.sum.first_ns()).next_back());
            if let Some((ns, content)) = before {
                if let Some(word) = self.words.get(&(parent, *ns)) {
                    return word.clone();
                }
                let read = self.contents.read(content, COMMAND_BYTES_MAX).unwrap_or_default();
                let word = first_word(&in_shell(strings(&read))).to_vec();
                self.words.insert((parent, *ns), word.clone());
                return word;
            }
            at = parent;
        }
        Vec::new()
    }
}

impl Fold for Tasks {
    fn add(&mut self, occasion: &Occasion<'_>) {
        match &occasion.event.kind {
            EventKind::Exit { process, status } => {
                if self.exits.len() < TASKS_MAX {
                    self.exits.insert(*process, (occasion.enter_ns, *status));
                }
            }
            // Most of these may be of no thread.
            EventKind::Gap { .. }
            | EventKind::State(_)
            | EventKind::Kernel(_)
            | EventKind::KernelLayout(_)
            | EventKind::Other(_)
            | EventKind::Unknown(_) => {}
            _ => self.thread(occasion.event.thread).add(occasion),
        }
    }

    fn merge(&mut self, other: Tasks) {
        for (number, thread) in other.threads {
            let full = self.threads.len() >= TASKS_MAX && !self.threads.contains_key(&number);
            let number = if full { OTHERS } else { number };
            match self.threads.entry(number) {
                std::collections::hash_map::Entry::Occupied(mut mine) => {
                    mine.get_mut().merge(thread)
                }
                std::collections::hash_map::Entry::Vacant(place) => {
                    place.insert(thread);
                }
            }
        }
        self.exits.extend(other.exits);
    }
}

/// Activity of a process.
#[derive(Clone, Debug, Default)]
pub struct Process {
    /// Process id as the program sees it.
    pub pid: u32,
    /// Number of the process that created it.
    pub parent: Option<u32>,
    /// The last command line executed within the recording.
    pub command: Vec<u8>,
    /// Where there is none: what the process that made it ran as it did.
    pub copy_of: Vec<u8>,
    /// Number of its threads.
    pub threads: u64,
    /// Sum of its threads.
    pub sum: Thread,
    /// Wait status at its end, if known.
    pub status: Option<i32>,
}

/// All processes and threads.
#[derive(Clone, Debug)]
pub struct TaskCounts {
    /// Threads by number.
    pub threads: Vec<(u32, Thread)>,
    /// Processes by number.
    pub processes: BTreeMap<u32, Process>,
}

/// Columns of both tables.
const DONE: [(&str, &str); 7] = [
    ("life_ns", "life"),
    ("calls", "calls"),
    ("errors", "errors"),
    ("in_calls_ns", "in calls"),
    ("outside_ns", "between calls"),
    ("bytes", "data"),
    ("stall_ns", "held up by us"),
];

fn done(thread: &Thread) -> [Cell; 7] {
    [
        Cell::Ns(thread.life_ns()),
        Cell::Count(thread.calls),
        Cell::Count(thread.errors),
        Cell::Ns(thread.in_calls_ns),
        Cell::Ns(thread.outside_ns),
        Cell::Bytes(thread.bytes),
        Cell::Ns(thread.stall_ns),
    ]
}

fn number(number: u32) -> Cell {
    Cell::Id(number.into())
}

impl TaskCounts {
    /// Returns the tree of processes as a table.
    pub fn processes_sheet(&self) -> Sheet {
        let mut columns =
            vec![("pid", "pid"), ("process", ""), ("parent", ""), ("start_ns", "from")];
        columns.extend(DONE);
        columns.extend([("threads", "threads"), ("status", "ended"), ("command", "command")]);
        let mut table = Table::new("processes", "Processes", &columns).further(&[
            "start_ns",
            "errors",
            "outside_ns",
            "stall_ns",
            "threads",
        ]);
        for (depth, process_number) in self.tree() {
            let process = &self.processes[&process_number];
            let command = match &process.command {
                none if none.is_empty() => forked(&process.copy_of),
                command => command.clone(),
            };
            let mut row = vec![
                number(process.pid),
                Cell::Count(process_number.into()),
                process.parent.map_or(Cell::Nothing, |parent| Cell::Count(parent.into())),
                Cell::At(process.sum.first_ns()),
            ];
            row.extend(done(&process.sum));
            row.extend([
                Cell::Count(process.threads),
                Cell::Word(process.status.map_or_else(|| "unknown".into(), ended)),
                Cell::Branch(depth, command),
            ]);
            table.row(row);
        }
        let fact = |key, title, n: u64| Fact { key, title, value: Cell::Count(n) };
        let facts = vec![
            fact("process_count", "processes", self.processes.len() as u64),
            fact("thread_count", "threads", self.threads.len() as u64),
            fact("count", "calls", self.threads.iter().map(|(_, thread)| thread.calls).sum()),
        ];
        let notes = vec!["Times of several threads are summed. `(fork)`: a copy of a process that ran that program then; it ran no other itself.".into()];
        Sheet { facts, tables: vec![table], notes }
    }

    /// Returns every process with its depth, parents before children.
    fn tree(&self) -> Vec<(u32, u32)> {
        let mut children: BTreeMap<Option<u32>, Vec<u32>> = BTreeMap::new();
        for (number, process) in &self.processes {
            let parent = process.parent.filter(|parent| self.processes.contains_key(parent));
            children.entry(parent).or_default().push(*number);
        }
        let mut order = Vec::new();
        let mut seen = HashSet::new();
        let roots = children.get(&None).cloned().unwrap_or_default();
        // In a hostile trace, processes may be their own ancestors. Those become roots.
        for root in roots.into_iter().chain(self.processes.keys().copied()) {
            let mut left = vec![(0, root)];
            while let Some((depth, number)) = left.pop() {
                if seen.insert(number) {
                    order.push((depth, number));
                    let of = children.get(&Some(number)).into_iter().flatten().rev();
                    left.extend(of.map(|child| (depth + 1, *child)));
                }
            }
        }
        order
    }

    /// Returns the threads as a table.
    pub fn threads_sheet(&self) -> Sheet {
        let mut columns = vec![
            ("pid", "pid"),
            ("tid", "tid"),
            ("thread", ""),
            ("how", "made by"),
            ("start_ns", "from"),
        ];
        columns.extend(DONE);
        columns.extend([
            ("user_ns", "computing"),
            ("user_known_share", "known"),
            ("in_calls_share", "of life in calls"),
            ("", " "),
        ]);
        // The bar, which has no name, says the same as the share before it.
        let mut table = Table::new("threads", "Threads", &columns).further(&[
            "how",
            "start_ns",
            "errors",
            "outside_ns",
            "bytes",
            "stall_ns",
            "user_known_share",
            "",
        ]);
        for (thread_number, thread) in &self.threads {
            let busy = ratio(thread.in_calls_ns, thread.life_ns()).min(1.0);
            let mut row = vec![
                number(thread.pid),
                number(thread.tid),
                Cell::Count((*thread_number).into()),
                Cell::word(thread.how.map_or("unknown", names::start)),
                Cell::At(thread.first_ns()),
            ];
            row.extend(done(thread));
            row.extend(match thread.user_known {
                0 => [Cell::Nothing, Cell::Nothing],
                known => [Cell::Ns(thread.user_ns), Cell::Share(ratio(known, thread.calls))],
            });
            row.extend([Cell::Share(busy), Cell::Bar(busy)]);
            table.row(row);
        }
        let fact = |key, title, n: u64| Fact { key, title, value: Cell::Count(n) };
        let facts = vec![
            fact("thread_count", "threads", self.threads.len() as u64),
            fact("count", "calls", self.threads.iter().map(|(_, thread)| thread.calls).sum()),
        ];
        let notes = vec![
            "computing: CPU time between calls, without what the thread waited for a CPU; known: before how many of its calls."
                .into(),
        ];
        Sheet { facts, tables: vec![table], notes }
    }
}

/// Returns the name of a process that ran no other program than the one that made it.
fn forked(program: &[u8]) -> Vec<u8> {
    if program.is_empty() { Vec::new() } else { [program, b" (fork)"].concat() }
}

fn first_word(command: &[u8]) -> &[u8] {
    let end = if command.first() == Some(&b'\'') { b'\'' } else { b' ' };
    let from = usize::from(end == b'\'');
    command[from.min(command.len())..].split(|byte| *byte == end).next().unwrap_or(command)
}

/// Returns a description of a wait status.
fn ended(status: i32) -> std::borrow::Cow<'static, str> {
    match (status & 0x7f, status >> 8 & 0xff) {
        (0, code) => format!("exit {code}").into(),
        (signal, _) => match syscalls::abi::signals::name(signal) {
            Some(name) => name.into(),
            None => format!("signal {signal}").into(),
        },
    }
}

#[cfg(test)]
mod tests {
    use model::InlineOnly;
    use trace::event::{Data, Event};

    use super::*;
    use crate::sample::{begin, call, events, fold_events};

    fn all() -> Vec<Event> {
        let mut all = begin();
        let data = Data {
            arg: syscalls::record::IMAGE_ARG,
            part: part::ARGV,
            index: 0,
            flags: 0,
            true_len: 8,
            hash: None,
            content: Content::Inline(b"prog\0-x\0".to_vec()),
        };
        let at = |thread, tsc, kind| Event::new(thread, tsc, kind);
        all.push(at(1, 5, EventKind::Image { tid: 100, data: vec![data] }));
        all.extend(events(&[
            call("read", &[0, 0, 10], 10).lasts(400),
            call("read", &[0, 0, 10], -5).by(2).lasts(100),
        ]));
        all.push(at(2, 9000, EventKind::Stall { ns: 70 }));
        let how = StartHow::Fork;
        let start = EventKind::Start { how, process: 2, parent: 2, pid: 700, tid: 700 };
        all.push(at(3, 9500, start));
        all.push(at(0, 9900, EventKind::Exit { process: 2, status: Some(0x300) }));
        all
    }

    #[test]
    fn threads_are_summed_to_a_tree_of_processes() {
        let view = fold_events(Tasks::default(), &all()).finish(&mut InlineOnly);
        let (first, second) = (&view.processes[&1], &view.processes[&2]);
        assert_eq!((first.sum.calls, first.sum.errors, first.sum.bytes), (2, 1, 10));
        assert_eq!((first.sum.in_calls_ns, first.sum.stall_ns, first.threads), (500, 70, 2));
        assert_eq!(first.command, b"prog -x");
        assert_eq!((second.parent, second.status), (Some(1), Some(0x300)));
        let table = &view.processes_sheet().tables[0];
        assert_eq!(table.rows[1][12], Cell::Word("exit 3".into()));
        assert!(matches!(table.rows[1][13], Cell::Branch(1, _)));
        assert_eq!(view.threads.len(), 3);
    }

    #[test]
    fn a_copy_is_named_after_what_was_copied() {
        let image = |tsc, words: &[u8]| {
            let data = Data {
                arg: syscalls::record::IMAGE_ARG,
                part: part::ARGV,
                index: 0,
                flags: 0,
                true_len: words.len() as u64,
                hash: None,
                content: Content::Inline(words.to_vec()),
            };
            Event::new(1, tsc, EventKind::Image { tid: 100, data: vec![data] })
        };
        let copy = |thread, process, parent, tsc| {
            let (how, pid) = (StartHow::Fork, 700 + process);
            let start = EventKind::Start { how, process, parent, pid, tid: pid };
            Event::new(thread, tsc, start)
        };
        let mut all = begin();
        all.push(image(5, b"bash\0launcher\0"));
        // A copy of the launcher, and a copy of that; then the launcher becomes what it launches.
        all.extend([copy(3, 2, 1, 100), copy(4, 3, 3, 200)]);
        all.push(image(300, b"/usr/bin/python3\0shop.py\0"));
        all.push(copy(5, 4, 1, 400));
        let view = fold_events(Tasks::default(), &all).finish(&mut InlineOnly);
        assert_eq!(view.processes[&1].command, b"/usr/bin/python3 shop.py");
        let table = &view.processes_sheet().tables[0];
        let names: Vec<&Cell> = table.rows.iter().filter_map(|row| row.last()).collect();
        let name = |depth, name: &[u8]| Cell::Branch(depth, name.to_vec());
        let expected = [
            name(0, b"/usr/bin/python3 shop.py"),
            name(1, b"bash (fork)"),
            name(2, b"bash (fork)"),
            name(1, b"/usr/bin/python3 (fork)"),
        ];
        assert_eq!(names, expected.iter().collect::<Vec<_>>());
    }

    #[test]
    fn merged_is_as_if_seen_together() {
        let all = all();
        let both = fold_events(Tasks::default(), &all).finish(&mut InlineOnly);
        for at in 0..all.len() {
            let mut apart = fold_events(Tasks::default(), &all[at..]);
            apart.merge(fold_events(Tasks::default(), &all[..at]));
            let apart = apart.finish(&mut InlineOnly);
            assert_eq!(apart.processes_sheet(), both.processes_sheet(), "{at}");
            assert_eq!(apart.threads_sheet(), both.threads_sheet(), "{at}");
        }
    }
}
