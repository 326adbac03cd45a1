//! From events to actions: what each task has to do, and what it has to wait for.
//!
//! Events come in the order in which they began. A call is handed to its task when its recorded
//! end has passed: then all calls that overlapped it are known. What must be done before it
//! follows from its beginning.

mod line;
mod pack;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::sync::Arc;

use model::{Contents, World, spawn_flags};
use trace::event::{Call, Event, EventKind, Outcome, ProcessState, StartHow};
use trace::{Sequenced, Trace};

use crate::batch::{Action, Beginning, Placed, Spawn, What};
use crate::lane::Mood;
use crate::latency::ByCall;
use crate::order::{Index, Order};
use crate::outcome;
use crate::shared::Shared;
use crate::treatment::{Judge, Said, Treatment, maps_to_change, own_descriptor, said};
use line::{Line, Spawned, claim};

const CLONE_FILES: u64 = 0x400;
const CLONE_FS: u64 = 0x200;
const CLONE_THREAD: u64 = 0x10000;
const CLONE_NEWUSER: u64 = 0x1000_0000;

/// Makers that ended while tasks of theirs were on their way.
const LATE_MAX: usize = 1024;

/// Actions of a lane that are handed over together.
const BATCH_ACTIONS: usize = 128;
/// Bytes of a lane that are handed over together.
const BATCH_BYTES: usize = 256 << 10;
/// Events after which everything is handed over, whatever lies ready.
const FLUSH_EVENTS: u32 = 4096;
/// The same while a task waits for calls that overlapped its own.
const FLUSH_EVENTS_APPEAL: u32 = 16;
/// Tasks of one maker that have not shown up yet.
const SPAWNED_MAX: usize = 256;

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

/// The stored bytes of a trace.
struct Stored<'a>(&'a Trace);

impl Contents for Stored<'_> {
    fn each(
        &mut self,
        content: &trace::event::Content,
        take: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), String> {
        match content {
            trace::event::Content::Inline(bytes) => {
                take(bytes);
            }
            trace::event::Content::Blobs { ids, .. } => {
                for id in ids {
                    let blob = self.0.blob(*id).map_err(|error| error.to_string())?;
                    if !take(&blob) {
                        break;
                    }
                }
            }
        }
        Ok(())
    }
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
    pub fn run(&mut self) -> Result<(), String> {
        let until = self.shared.options.until;
        let mut result = Ok(());
        for next in self.trace.events() {
            let next = match next {
                Ok(next) => next,
                Err(error) => {
                    result = Err(error.to_string());
                    break;
                }
            };
            if self.shared.stopping() || next.seq.is_some_and(|seq| until.is_some_and(|u| seq > u))
            {
                break;
            }
            self.event(&next);
        }
        self.settle_until(u64::MAX);
        (0..self.lines.len()).for_each(|index| self.dispatch(index));
        for line in &mut self.lines {
            line.flush(self.shared);
            line.lane.close();
        }
        self.shared.planned(u64::MAX);
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
        // What an exec and an end need is known only when they have happened.
        let closes = matches!(event.kind, EventKind::Image { .. } | EventKind::End { .. });
        if let Some(&index) = self.threads.get(&event.thread)
            && !closes
        {
            self.settle(index);
        }
        match &event.kind {
            EventKind::Call(call) => self.call(event, call),
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

    fn start(&mut self, thread: u32, how: StartHow, process: u32, parent: u32, tid: u32) {
        if self.threads.contains_key(&thread) {
            return;
        }
        let maker = self.threads.get(&parent).copied();
        let claimed = match (maker, self.late.get_mut(&parent)) {
            (Some(maker), _) => claim(&mut self.lines[maker].spawned, tid),
            (None, Some(late)) => claim(late, tid),
            (None, None) => None,
        };
        let index = match (claimed, maker) {
            (Some(index), _) => index,
            // Its maker's call was not recorded.
            (None, Some(maker)) => {
                let flags = match how {
                    StartHow::Thread => CLONE_FILES | CLONE_FS | CLONE_THREAD,
                    _ => 0,
                };
                self.spawn(maker, flags, self.lines[maker].last_enter)
            }
            (None, None) => {
                let index = self.new_line(None);
                self.shared.launch(&self.lines[index].lane);
                index
            }
        };
        let line = &mut self.lines[index];
        line.process = process;
        line.lane.thread.store(thread, std::sync::atomic::Ordering::Relaxed);
        line.first = claimed.is_none() && maker.is_none();
        self.threads.insert(thread, index);
    }

    fn new_line(&mut self, maker: Option<Index>) -> Index {
        if self.free.is_empty() {
            self.sweep();
        }
        let index = self.free.pop().unwrap_or(self.lines.len());
        self.order.begin(index, maker);
        let line = Line::default();
        self.shared.enlist(&line.lane);
        if index == self.lines.len() {
            self.lines.push(line);
        } else {
            self.lines[index] = line;
        }
        index
    }

    /// Takes back the places of lanes whose tasks are over: nobody needs to wait for them.
    fn sweep(&mut self) {
        if self.lines.len() < 64 || !self.lines.len().is_power_of_two() {
            return;
        }
        for (index, line) in self.lines.iter().enumerate() {
            if line.ended && line.lane.mood() == Mood::Over {
                self.order.forget(index);
                self.free.push(index);
            }
        }
        self.shared.discharge();
    }

    /// Has a lane make a task; its place among the lanes.
    fn spawn(&mut self, maker: Index, flags: u64, enter: u64) -> Index {
        let index = self.new_line(Some(maker));
        let lane = Arc::clone(&self.lines[index].lane);
        let what = What::Spawn(Box::new(Spawn { lane, flags }));
        let action = self.action(enter, enter, what);
        self.open_action(maker, action);
        self.dispatch(maker);
        index
    }

    fn image(&mut self, event: &Event) {
        self.world.apply(event, &mut Stored(self.trace));
        let Some(&index) = self.threads.get(&event.thread) else { return };
        let process = self.lines[index].process;
        if self.lines[index].first && self.lines[index].count == 0 {
            return;
        }
        // The other threads of the process are gone before the new program begins.
        let others: Vec<(u32, Index)> = self
            .threads
            .iter()
            .filter(|(_, other)| **other != index && self.lines[**other].process == process)
            .map(|(thread, other)| (*thread, *other))
            .collect();
        let ended: Vec<Index> = others.iter().map(|(_, other)| *other).collect();
        for (thread, other) in others {
            self.end_line(thread, other, event.tsc, false);
        }
        let keep: Vec<i32> = self
            .world
            .descriptors(event.thread)
            .map(|table| table.iter().map(|(fd, _)| fd).collect())
            .unwrap_or_default();
        if !self.lines[index].is_open(|what| matches!(what, What::Exec(_))) {
            self.settle(index);
            let action = self.action(event.tsc, event.tsc, What::Exec(Box::default()));
            self.open_action(index, action);
        }
        self.lines[index].open_what(What::Exec(keep.into()));
        for other in ended {
            let wait = (Arc::clone(&self.lines[other].lane), self.lines[other].count);
            self.lines[index].also_wait(wait);
        }
        self.settle(index);
    }

    fn end(&mut self, event: &Event) {
        let alone = !self.world.shares_descriptors(event.thread);
        self.world.apply(event, &mut Stored(self.trace));
        if let Some(&index) = self.threads.get(&event.thread) {
            self.end_line(event.thread, index, event.tsc, alone);
        }
    }

    fn end_line(&mut self, thread: u32, index: Index, tsc: u64, close: bool) {
        // Descriptors are closed as soon as the thread has asked for its end. Whoever is killed asks
        // for nothing: the end waits for no other.
        if !self.lines[index].is_open(|what| matches!(what, What::End { .. })) {
            self.settle(index);
            let action = self.action(tsc, tsc, What::End { close: false });
            self.open_action(index, action);
            self.lines[index].wait_for_nobody();
        } else {
            self.lines[index].open_what(What::End { close });
        }
        self.settle(index);
        self.threads.remove(&thread);
        let line = &mut self.lines[index];
        line.ended = true;
        line.flush(self.shared);
        line.lane.close();
        let spawned = std::mem::take(&mut line.spawned);
        if !spawned.is_empty() {
            self.late.insert(thread, spawned);
        }
        if self.late.len() > LATE_MAX
            && let Some((_, never)) = self.late.pop_first()
        {
            // Tasks that do not show up have nothing to do.
            for (_, index) in never {
                self.lines[index].ended = true;
                self.lines[index].lane.close();
            }
        }
    }

    fn call(&mut self, event: &Event, call: &Call) {
        let Some(&index) = self.threads.get(&event.thread) else {
            *self
                .tally
                .skipped
                .entry((call.nr, "its thread's beginning is missing"))
                .or_default() += 1;
            return;
        };
        self.lines[index].last_enter = event.tsc;
        self.begin_program(index, event.tsc);
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
        let mut paths = step.paths.clone();
        let links = self.follow_own_links(event.thread, said, &mut paths);
        let (treatment, vague) = {
            let Some(table) = self.world.descriptors(event.thread) else { return };
            let vague = self.judge.is_vague(said, call, &table);
            (self.judge.judge(said, call, ret, &table, &paths), vague)
        };
        match treatment {
            Treatment::Make { stream } => {
                let ticks = exit - event.tsc;
                let ns = self.shared.ticks_to_ns(ticks);
                self.tally.recorded.of(call.nr).record(ns);
                let scan = self.scan(event.thread, said, call, ret);
                let shared_table = self.world.shares_descriptors(event.thread);
                let line = &mut self.lines[index];
                let verifies = self.shared.options.verifies();
                let made = line.pack(self.trace, call, said, ret, verifies, &links);
                let what = match made {
                    Ok(mut packed) => {
                        packed.stream = stream;
                        packed.scan = scan;
                        packed.shared_table = shared_table;
                        packed.vague = vague;
                        packed.owners = !line.foreign;
                        What::Call(packed)
                    }
                    Err(error) => {
                        self.shared.stop(outcome::Stopped::Unreadable(error.to_string()));
                        return;
                    }
                };
                let mut action = self.action(event.tsc, exit, what);
                action.may_block = stream || may_block(said);
                self.open_action(index, action);
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

    /// A call that makes or changes a task.
    fn task(
        &mut self,
        index: Index,
        event: &Event,
        call: &Call,
        exit: u64,
        ret: i64,
        step: &model::Step,
    ) {
        if let Some(flags) = spawn_flags(call, &mut Stored(self.trace)) {
            if ret > 0 {
                self.make(index, event, flags, Some(ret), exit);
            }
            self.simulate_pidfd(index, event, exit, step);
            return;
        }
        self.lines[index].foreign |= call.args[0] & CLONE_NEWUSER != 0;
        let mut flags = 0;
        flags |= if step.leaves_files() { libc::CLONE_FILES } else { 0 };
        flags |= if step.leaves_directory() { libc::CLONE_FS } else { 0 };
        if flags != 0 {
            let action = self.action(event.tsc, exit, What::Unshare(flags));
            self.open_action(index, action);
        }
    }

    /// clone may give a descriptor of the new process.
    fn simulate_pidfd(&mut self, index: Index, event: &Event, exit: u64, step: &model::Step) {
        let placed: Box<[Placed]> = step
            .gives()
            .map(|(fd, entry)| Placed { fd, close_on_exec: entry.close_on_exec })
            .collect();
        if !placed.is_empty() {
            self.settle(index);
            let action = self.action(event.tsc, exit, What::Place(placed));
            self.open_action(index, action);
        }
    }

    fn make(&mut self, index: Index, event: &Event, flags: u64, tid: Option<i64>, exit: u64) {
        let child = self.spawn(index, flags, event.tsc);
        let foreign = self.lines[index].foreign || flags & CLONE_NEWUSER != 0;
        self.lines[child].foreign = foreign;
        let line = &mut self.lines[index];
        if line.spawned.len() >= SPAWNED_MAX
            && let Some((_, never)) = line.spawned.pop_front()
        {
            self.lines[never].ended = true;
            self.lines[never].lane.close();
        }
        self.lines[index].spawned.push_back((tid, child));
        // What came of it is there for others when the call has returned.
        if exit != u64::MAX {
            self.open.push(Reverse((exit, index)));
        }
        self.lines[index].returning = Some(exit);
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

    /// The thread leaves its program, for another one or for good. What is closed by that is closed
    /// before anybody can hear of it.
    fn leaves(&mut self, index: Index, event: &Event, said: &Said) {
        let execs = said.args.iter().any(|arg| matches!(arg.kind, events::Kind::Path));
        let what = if execs { What::Exec(Box::default()) } else { What::End { close: false } };
        let action = self.action(event.tsc, u64::MAX, what);
        self.open_action(index, action);
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

    /// The process's program begins: before its first call it is what the recorder saw.
    fn begin_program(&mut self, index: Index, tsc: u64) {
        if self.beginnings.is_empty() {
            return;
        }
        let (process, first) = (self.lines[index].process, self.lines[index].first);
        let Some(state) = self.beginnings.remove(&process) else { return };
        self.lines[index].first = false;
        let what = What::Become(Box::new(Beginning { state, first }));
        let action = self.action(tsc, tsc, what);
        self.open_action(index, action);
        self.settle(index);
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
    fn open_action(&mut self, index: Index, mut action: Action) {
        let Planner { lines, order, shared, .. } = self;
        let ordered = shared.options.overlap;
        order.waits(index, |other, count| {
            if ordered {
                let lane = Arc::clone(&lines[other].lane);
                lines[index].open.waits.push((lane, count));
            }
        });
        let line = &mut self.lines[index];
        action.waits = 0..line.open.waits.len() as u32;
        action.overlapped = !self.open.is_empty();
        self.opened += 1;
        line.opened_at = self.opened;
        if action.exit != u64::MAX {
            self.open.push(Reverse((action.exit, index)));
        }
        line.action = Some(action);
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
        let opened = self.opened;
        let line = &mut self.lines[index];
        let Some(mut action) = line.action.take() else { return };
        action.overlapped |= opened > line.opened_at;
        line.add(action);
        if line.batch.actions.len() >= BATCH_ACTIONS || line.batch.held_bytes() >= BATCH_BYTES {
            line.flush(self.shared);
        }
    }
}

/// Whether a call may sleep until another task does something: it opens a named pipe, or locks.
fn may_block(said: &Said) -> bool {
    said.ret == events::Ret::Fd || said.row.name == "flock" || said.row.name == "fcntl"
}
