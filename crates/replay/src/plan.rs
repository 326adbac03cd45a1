//! From events to actions: what each task has to do, and what it has to wait for.
//!
//! Events come in the order in which they began. A call is handed to its task when its recorded
//! end has passed: then all calls that overlapped it are known. What must be done before it
//! follows from its beginning.

mod ends;
mod line;
mod names;
mod pack;
mod tasks;
mod transfers;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::sync::Arc;

use events::shape::{Dir, Kind, Of};
use model::{Contents, Stored, World, spawn_flags};
use trace::event::{Call, Event, EventKind, Outcome, ProcessState};
use trace::{Sequenced, Trace};

use crate::batch::{Action, Placed, What};
use crate::latency::ByCall;
use crate::order::{Index, Order};
use crate::outcome;
use crate::shared::Shared;
use crate::treatment::{Judge, Said, Treatment, maps_to_change, own_descriptor, said};
use ends::End;
use line::{Line, Spawned};
use names::Names;
use transfers::{File, hash_of, is_transfer};

/// Actions of a lane that are handed over together.
const BATCH_ACTIONS: usize = 128;
/// Bytes of a lane that are handed over together.
const BATCH_BYTES: usize = 256 << 10;
/// Events after which everything is handed over, whatever lies ready.
const FLUSH_EVENTS: u32 = 4096;
/// The same while a task waits for calls that overlapped its own.
const FLUSH_EVENTS_APPEAL: u32 = 16;

/// Turns a trace's events into actions.
pub struct Planner<'a> {
    shared: &'a Arc<Shared>,
    trace: &'a Trace,
    world: World,
    judge: Judge,
    lines: Vec<Line>,
    free: Vec<Index>,
    threads: BTreeMap<u32, Index>,
    /// Of threads that ended: the tasks that they made and that have not shown up.
    late: BTreeMap<u32, Spawned>,
    order: Order,
    /// Recorded ends of calls that are open, and of whom.
    open: BinaryHeap<Reverse<(u64, Index)>>,
    /// Calls that were opened so far.
    opened: u64,
    /// What processes are when their programs begin, until their first call.
    beginnings: HashMap<u32, ProcessState>,
    scans: u64,
    since_flush: u32,
    seq: u64,
    tally: Tally,
}

/// What the planner counts.
#[derive(Default)]
struct Tally {
    simulated: u64,
    skipped: HashMap<(u16, &'static str), u64>,
    withheld: HashMap<&'static str, u64>,
    recorded: ByCall,
}

/// What a call that is made again depends on, as [`crate::batch::Call`] has it.
struct How {
    stream: bool,
    vague: bool,
    scan: u64,
    shared_table: bool,
}

impl<'a> Planner<'a> {
    /// At the beginning of a trace.
    pub fn new(shared: &'a Arc<Shared>, trace: &'a Trace) -> Planner<'a> {
        Planner {
            shared,
            trace,
            world: World::new(),
            judge: Judge::new(trace.preamble(), shared.options.privileged),
            lines: Vec::new(),
            free: Vec::new(),
            threads: BTreeMap::new(),
            late: BTreeMap::new(),
            order: Order::default(),
            open: BinaryHeap::new(),
            opened: 0,
            beginnings: HashMap::new(),
            scans: 0,
            since_flush: 0,
            seq: 0,
            tally: Tally::default(),
        }
    }

    /// Goes through the whole trace, or up to the call where the user wants to stop.
    pub fn run(&mut self, progress: &dyn Fn(u64)) -> Result<(), String> {
        let until = self.shared.options.until;
        if self.shared.options.speed.is_none() {
            self.shared.start_clock();
        }
        let mut result = Ok(());
        let mut cursor = self.trace.cursor();
        let mut next = Sequenced::default();
        while let Some(taken) = cursor.next_into(self.trace, &mut next) {
            if let Err(error) = taken {
                result = Err(error.to_string());
                break;
            }
            if self.shared.stopping() || next.seq.is_some_and(|seq| until.is_some_and(|u| seq > u))
            {
                break;
            }
            self.event(&next);
            progress(1);
        }
        self.settle_until(u64::MAX);
        (0..self.lines.len()).for_each(|index| self.dispatch(index));
        for line in &mut self.lines {
            line.flush(self.shared);
            line.lane.close();
        }
        self.shared.planned(u64::MAX);
        self.shared.start_clock();
        result
    }

    /// Adds what was counted.
    pub fn count_into(self, outcome: &mut outcome::Outcome) {
        let name = |nr| events::by_number(u64::from(nr)).map_or("unknown", |row| row.name);
        outcome.simulated += self.tally.simulated;
        for ((nr, why), count) in self.tally.skipped {
            let what = format!("{}: {why}", name(nr));
            outcome::Outcome::count(&mut outcome.skipped, &what, count);
        }
        for (what, count) in self.tally.withheld {
            outcome::Outcome::count(&mut outcome.withheld, what, count);
        }
        for (nr, latencies) in self.tally.recorded.into_calls() {
            let pair = outcome.latencies.entry(name(nr).to_string()).or_default();
            pair.recorded.add(&latencies);
        }
    }

    fn event(&mut self, next: &Sequenced) {
        let event = &next.event;
        self.seq = next.seq.unwrap_or(self.seq);
        self.settle_until(event.tsc);
        // A call has returned when its thread makes another one, whatever the clock says. What an
        // exec or an end closes is known only when it has happened; a signal may hit within a call.
        let goes_on = matches!(event.kind, EventKind::Call(_) | EventKind::Start { .. });
        let index = self.threads.get(&event.thread).copied();
        if let Some(index) = index
            && goes_on
        {
            self.settle(index);
        }
        match &event.kind {
            EventKind::Call(call) => self.call(index, event, call),
            EventKind::Start { how, process, parent, tid, .. } => {
                self.world.apply(event, &mut Stored(self.trace));
                self.start(event.thread, *how, *process, *parent, *tid);
            }
            EventKind::Image { .. } => self.image(event),
            EventKind::State(state) => {
                self.world.apply(event, &mut Stored(self.trace));
                self.beginnings.insert(state.process, (**state).clone());
            }
            EventKind::End { .. } => self.end(event),
            EventKind::Exit { process, .. } => {
                self.beginnings.remove(process);
                self.world.apply(event, &mut Stored(self.trace));
            }
            EventKind::Signal { .. } | EventKind::Stall { .. } | EventKind::Gap { .. } => {}
        }
        self.since_flush += 1;
        let appeal = self.shared.someone_appeals();
        let most = if appeal { FLUSH_EVENTS_APPEAL } else { FLUSH_EVENTS };
        if self.since_flush >= most || self.shared.over_budget() {
            self.flush_all(event.tsc);
        }
    }

    /// Hands everything over, and waits while the tasks have more than enough.
    fn flush_all(&mut self, tsc: u64) {
        self.since_flush = 0;
        for line in &mut self.lines {
            line.flush(self.shared);
        }
        let open = self.lines.iter().filter_map(|line| line.open_since());
        self.shared.planned(open.fold(tsc, u64::min));
        self.shared.wait_for_room();
    }

    fn call(&mut self, index: Option<Index>, event: &Event, call: &Call) {
        let Some(index) = index else {
            *self
                .tally
                .skipped
                .entry((call.nr, "its thread's beginning is missing"))
                .or_default() += 1;
            return;
        };
        self.lines[index].last_enter = event.tsc;
        self.begin_program(index, event.tsc);
        self.lines[index].under_way = true;
        let Some(said) = said(call) else {
            *self.tally.skipped.entry((call.nr, "an unknown call")).or_default() += 1;
            return;
        };
        if said.replay == events::Replay::Ignored {
            self.tally.simulated += 1;
            if !maps_to_change(&said, call) {
                return;
            }
        }
        let step = self.world.step(event, &mut Stored(self.trace));
        self.act(index, event, call, &said, &step);
        self.world.finish(step);
    }

    fn act(&mut self, index: Index, event: &Event, call: &Call, said: &Said, step: &model::Step) {
        let (exit, ret) = match call.outcome {
            Outcome::Returned { exit_tsc, ret } => (exit_tsc.max(event.tsc), ret),
            Outcome::Unfinished => {
                self.unfinished(index, event, call, said, step);
                return;
            }
        };
        if said.replay == events::Replay::Ignored {
            let table = self.world.descriptors(event.thread);
            if let Some(entry) = table.as_ref().and_then(|table| table.get(call.args[4] as i32)) {
                self.judge.is_mapped(&entry.description);
            }
            return;
        }
        if said.replay == events::Replay::Task {
            self.tally.simulated += 1;
            if said.ret == events::Ret::Never {
                if ret == 0 {
                    self.leaves(index, event, said);
                }
                return;
            }
            self.task(index, event, call, exit, ret, step);
            return;
        }
        if is_transfer(call.nr, ret)
            && let Some(file) = self.file(index, event.thread, call.args[0] as i32)
        {
            self.transfer(index, event, call, said, (exit, ret), file);
            return;
        }
        if let Some(powers) = powers(said, call)
            && self.judge.privileged
            && ret == 0
        {
            self.tally.simulated += 1;
            let action = self.action(event.tsc, exit, powers);
            self.open_action(index, action);
            return;
        }
        let mut paths = step.paths.clone();
        let links = self.follow_own_links(event.thread, said, &mut paths);
        let (treatment, vague, end) = {
            let Some(table) = self.world.descriptors(event.thread) else { return };
            let vague = self.judge.is_vague(said, call, &table);
            let end = match self.others_matter() {
                true => End::of(said, call, ret, || {
                    table.get(call.args[0] as i32).map(|entry| hash_of(&entry.description.path))
                }),
                false => None,
            };
            (self.judge.judge(said, call, ret, &table, &paths), vague, end)
        };
        match treatment {
            Treatment::Make { stream } => {
                let scan = self.scan(event.thread, said, call, ret);
                let shared_table = self.world.shares_descriptors(event.thread);
                let how = How { stream, vague, scan, shared_table };
                if self.again(index, event, call, said, (exit, ret), how, &links) {
                    let names = Names::of(said, call, ret, paths);
                    self.order_by_results(index, names, end);
                }
            }
            Treatment::Simulate => {
                if said.row.name == "bind" && ret == 0 {
                    self.bind(index, event, call, exit);
                }
                self.simulate(index, event, exit, step);
            }
            Treatment::Advance { fd } => {
                self.tally.simulated += 1;
                let action = self.action(event.tsc, exit, What::Advance { fd, by: ret });
                self.open_action(index, action);
            }
            Treatment::Skip(why) => {
                *self.tally.skipped.entry((call.nr, why)).or_default() += 1;
            }
            Treatment::Withhold(what) => *self.tally.withheld.entry(what).or_default() += 1,
        }
    }

    /// Whether the order of calls of several threads is to be kept.
    fn others_matter(&self) -> bool {
        self.shared.options.overlap && self.threads.len() > 1
    }

    /// A call that moves bytes through a descriptor.
    fn transfer(
        &mut self,
        index: Index,
        event: &Event,
        call: &Call,
        said: &Said,
        (exit, ret): (u64, i64),
        file: File,
    ) {
        if !file.here {
            self.tally.simulated += 1;
            return;
        }
        let how = How { stream: file.stream, vague: file.vague, scan: 0, shared_table: false };
        if self.again(index, event, call, said, (exit, ret), how, &[]) && self.others_matter() {
            let end = End::of(said, call, ret, || Some(file.hash));
            self.order_by_results(index, None, end);
        }
    }

    /// Has a call made again. Whether it will be.
    #[allow(clippy::too_many_arguments, reason = "the call, and what is known of it")]
    fn again(
        &mut self,
        index: Index,
        event: &Event,
        call: &Call,
        said: &Said,
        (exit, ret): (u64, i64),
        how: How,
        links: &[(u8, Vec<u8>)],
    ) -> bool {
        let ns = self.shared.ticks_to_ns(exit - event.tsc);
        self.tally.recorded.of(call.nr).record(ns);
        let verifies = self.shared.options.verifies();
        let line = &mut self.lines[index];
        let mut packed = match line.pack(self.trace, call, said, ret, verifies, links) {
            Ok(packed) => packed,
            Err(error) => {
                self.shared.stop(outcome::Stopped::Unreadable(error.to_string()));
                return false;
            }
        };
        packed.stream = how.stream;
        packed.scan = how.scan;
        packed.shared_table = how.shared_table;
        packed.vague = how.vague;
        packed.owners = !line.foreign;
        let mut action = self.action(event.tsc, exit, What::Call(packed));
        action.may_block = how.stream || may_block(said);
        self.open_action(index, action);
        true
    }

    /// Links of the process to its own descriptors lead to the files' paths; there is no /proc here.
    /// The paths that are to be taken instead.
    fn follow_own_links(
        &self,
        thread: u32,
        said: &Said,
        paths: &mut [(u8, Vec<u8>)],
    ) -> Vec<(u8, Vec<u8>)> {
        let mut links = Vec::new();
        let asks_for_link = said.args.iter().any(|arg| pack::is_text_out(arg.kind));
        let may_be = |path: &[u8]| path.starts_with(b"/proc/") || path.starts_with(b"/dev/fd/");
        if asks_for_link || !paths.iter().any(|(_, path)| may_be(path)) {
            return links;
        }
        let pid = self.world.ids(thread).map_or(0, |(pid, _)| pid);
        let Some(table) = self.world.descriptors(thread) else { return links };
        for (arg, path) in paths {
            let Some(fd) = own_descriptor(path, pid) else { continue };
            let Some(entry) = table.get(fd) else { continue };
            if self.judge.is_here(&entry.description) && entry.description.path.starts_with(b"/") {
                *path = entry.description.path.clone();
                links.push((*arg, path.clone()));
            }
        }
        links
    }

    /// A call whose result is taken as it is: only the numbers of its descriptors are taken up.
    fn simulate(&mut self, index: Index, event: &Event, exit: u64, step: &model::Step) {
        self.tally.simulated += 1;
        let placed: Box<[Placed]> = step
            .gives()
            .map(|(fd, entry)| Placed { fd, close_on_exec: entry.close_on_exec })
            .collect();
        if !placed.is_empty() {
            let action = self.action(event.tsc, exit, What::Place(placed));
            self.open_action(index, action);
        }
    }

    /// Binding a UNIX socket to a path makes a node there, even though the socket is not here.
    fn bind(&mut self, index: Index, event: &Event, call: &Call, exit: u64) {
        const FAMILY_UNIX: &[u8] = &[1, 0];
        let address = call.data.iter().find(|data| data.arg == 1);
        let bytes = address.map(|data| Stored(self.trace).read(&data.content, 128));
        let Some(Ok(bytes)) = bytes else { return };
        let Some(name) = bytes.strip_prefix(FAMILY_UNIX) else { return };
        let name = name.split(|&c| c == 0).next().unwrap_or_default();
        let path = model::path::resolve(&self.world.cwd(event.thread), name);
        if !name.is_empty() && self.judge.is_real(&path) {
            let action = self.action(event.tsc, exit, What::Socket(name.into()));
            self.open_action(index, action);
        }
    }

    fn unfinished(
        &mut self,
        index: Index,
        event: &Event,
        call: &Call,
        said: &Said,
        step: &model::Step,
    ) {
        if said.replay == events::Replay::Task {
            self.tally.simulated += 1;
            if let Some(flags) = spawn_flags(call, &mut Stored(self.trace)) {
                self.make(index, event, flags, None, u64::MAX);
            } else if said.ret == events::Ret::Never {
                self.leaves(index, event, said);
            }
            return;
        }
        if self.is_write_to_stream(event, call, said, step)
            && let Ok(mut packed) = self.lines[index].pack(self.trace, call, said, 0, false, &[])
        {
            packed.attempt = true;
            let action = self.action(event.tsc, event.tsc, What::Call(packed));
            self.open_action(index, action);
            self.dispatch(index);
        }
        match said.replay {
            events::Replay::Real | events::Replay::Numbers => {
                *self.tally.skipped.entry((call.nr, "it had not returned")).or_default() += 1;
            }
            _ => self.tally.simulated += 1,
        }
    }

    /// Whether bytes may have gone into a pipe, where others read them, before the call was cut off.
    fn is_write_to_stream(
        &mut self,
        event: &Event,
        call: &Call,
        said: &Said,
        step: &model::Step,
    ) -> bool {
        let writes = said.row.classes.intersects(events::Classes::WRITE)
            && !said.row.classes.intersects(events::Classes::READ);
        let Some(table) = self.world.descriptors(event.thread) else { return false };
        writes
            && said.replay == events::Replay::Real
            && self.judge.judge(said, call, 0, &table, &step.paths)
                == Treatment::Make { stream: true }
    }

    /// The directory scan that a call belongs to.
    fn scan(&mut self, thread: u32, said: &Said, call: &Call, ret: i64) -> u64 {
        let reads = said.args.iter().any(|arg| pack::is_directory_entries(arg.kind));
        let seeks = said.ret == events::Ret::Offset;
        if !reads && !seeks {
            return 0;
        }
        let Some(table) = self.world.descriptors(thread) else { return 0 };
        let Some(entry) = table.get(call.args[0] as i32) else { return 0 };
        let mark = &entry.description.mark;
        if seeks {
            // From the beginning again is another scan.
            if ret == 0 {
                mark.set(0);
            }
            return 0;
        }
        if mark.get() == 0 {
            self.scans += 1;
            mark.set(self.scans);
        }
        mark.get()
    }

    #[inline]
    fn action(&self, enter: u64, exit: u64, what: What) -> Action {
        Action {
            seq: self.seq,
            enter,
            exit,
            waits: 0..0,
            overlapped: false,
            may_block: false,
            what,
        }
    }

    /// An action begins: from here on it overlaps with others. Its waits are known now.
    #[inline]
    fn open_action(&mut self, index: Index, mut action: Action) {
        // A task whose making was not recorded is made within another call.
        self.dispatch(index);
        let Planner { lines, order, shared, .. } = self;
        let ordered = shared.options.overlap;
        order.waits(index, |other, count| {
            if ordered {
                let lane = Arc::clone(&lines[other].lane);
                lines[index].batch.waits.push((lane, count));
            }
        });
        let line = &mut self.lines[index];
        action.overlapped = !self.open.is_empty();
        self.opened += 1;
        line.opened_at = self.opened;
        if action.exit != u64::MAX {
            self.open.push(Reverse((action.exit, index)));
        }
        line.begin(action);
    }

    /// Has calls that are open wait for each other where their results tell their order.
    fn order_by_results(&mut self, index: Index, names: Option<Names>, end: Option<End>) {
        if !self.shared.options.overlap || names.is_none() && end.is_none() {
            return;
        }
        let follows = |a: &(Option<Names>, Option<End>), b: &(Option<Names>, Option<End>)| {
            a.0.as_ref().zip(b.0.as_ref()).is_some_and(|(a, b)| a.must_follow(b))
                || a.1.as_ref().zip(b.1.as_ref()).is_some_and(|(a, b)| a.must_follow(b))
        };
        let told = (names, end);
        let others = self.open.iter().map(|Reverse((_, other))| *other);
        let others: Vec<Index> = others.filter(|other| *other != index).collect();
        let wait_for = |line: &Line| (Arc::clone(&line.lane), line.count + 1);
        for other in others {
            let theirs = &self.lines[other].told;
            if follows(&told, theirs) {
                let wait = wait_for(&self.lines[other]);
                self.lines[index].also_wait(wait);
            } else if follows(theirs, &told) {
                let wait = wait_for(&self.lines[index]);
                self.lines[other].also_wait(wait);
            }
        }
        self.lines[index].told = told;
    }

    fn settle_until(&mut self, tsc: u64) {
        while let Some(&Reverse((exit, index))) = self.open.peek() {
            if exit > tsc {
                return;
            }
            self.open.pop();
            if self.lines[index].ends_at(exit) {
                self.settle(index);
            }
        }
    }

    /// The recorded end of what a lane has open has passed.
    fn settle(&mut self, index: Index) {
        self.dispatch(index);
        let line = &mut self.lines[index];
        line.returning = None;
        if line.count > line.finished {
            line.finished = line.count;
            self.order.finish(index, line.count);
        }
    }

    /// Hands over what a lane has open.
    fn dispatch(&mut self, index: Index) {
        let line = &mut self.lines[index];
        line.make_ready(self.opened > line.opened_at);
        if line.batch.actions.len() >= BATCH_ACTIONS || line.batch.bytes_told() >= BATCH_BYTES {
            line.flush(self.shared);
        }
    }
}

/// The capabilities that a call leaves its thread with.
fn powers(said: &Said, call: &Call) -> Option<What> {
    let layout = &raw const events::layout::CAP_DATA;
    let number = said.args.iter().position(
        |arg| matches!(arg.kind, Kind::Buf(Dir::In, Of::Struct(of), _) if std::ptr::eq(of, layout)),
    )?;
    let data = call.data.iter().find(|data| usize::from(data.arg) == number)?;
    let trace::event::Content::Inline(bytes) = &data.content else { return None };
    let (words, _) = bytes.as_chunks::<4>();
    let word = |at: usize| words.get(at).map_or(0, |word| u64::from(u32::from_le_bytes(*word)));
    // Two structs, each with 32 bits of each set.
    let (effective, permitted) = (word(0) | word(3) << 32, word(1) | word(4) << 32);
    Some(What::Powers { effective, permitted })
}

/// Whether a call may sleep until another task does something: it opens a named pipe, or locks.
fn may_block(said: &Said) -> bool {
    said.ret == events::Ret::Fd || said.row.name == "flock" || said.row.name == "fcntl"
}
