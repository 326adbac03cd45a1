//! Turns events into actions: what each task does, and what it waits for.
//!
//! Events come in the order in which they began. A call is handed to its task when its recorded end
//! has passed: then all calls that overlapped it are known. Its dependencies follow from its
//! beginning.

mod calls;
mod claims;
mod conflict;
mod copies;
mod doubts;
mod fifos;
mod forks;
mod graph;
mod in_flight;
mod known_files;
mod line;
mod mounted;
mod not_made;
mod ordering;
mod outside;
mod own_links;
mod pack;
mod refusals;
mod side_lanes;
#[cfg(test)]
mod simulator;
mod stores;
mod submitted;
mod tally;
mod tasks;
mod timed;
mod transfers;
mod unseen;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet};
use std::sync::Arc;

use model::mapped::Mapped;
use model::operations::submitted;
use model::unseen::Unseen;
use model::user_time::UserTimes;
use model::{Step, Stored, World};
use syscalls::{Act, Classes, Gives, Operand, Replay, by_number};
use trace::event::{Call, Event, EventKind, GapWhy, Outcome, ProcessState};
use trace::{Sequenced, Trace};

use crate::batch::{Action, Lane};
use crate::image::MadeUp;
use crate::log::Describe;
use crate::mapped::{KeptStore, MappedFile};
use crate::moves;
use crate::order::{Index, Order};
use crate::outcome::{self, Doubt};
use crate::resource::hash_of;
use crate::shared::Shared;
use crate::treatment::{Judge, TRANSFER_MAX, said};
use claims::queues::Way;
use conflict::Rules;
use copies::Copies;
use doubts::Doubts;
use graph::Graph;
use line::{Line, Spawned};
use outside::{Kind, Outside};
#[cfg(test)]
pub use side_lanes::SIDE_LANES_MAX;
use side_lanes::SideLanes;
use submitted::{Ahead, Met};
use tally::{AtHand, Tally};

/// A lane's actions are handed over once there are this many.
const BATCH_ACTIONS: usize = 128;
/// A lane's actions are handed over once they move this many bytes.
const BATCH_BYTES: usize = 256 << 10;
/// Number of events after which all lanes are flushed.
const FLUSH_EVENTS: u32 = 4096;
/// Likewise, while a task waits for calls that overlapped its own.
const FLUSH_EVENTS_APPEAL: u32 = 16;
/// Shorter waits for the outside are added to later ones.
const REST_MIN_NS: u64 = 500_000;

/// Turns a trace's events into actions.
pub struct Planner<'a> {
    shared: &'a Shared,
    /// Creates the task of a lane of the first program.
    launch: &'a dyn Fn(&Arc<Lane>),
    trace: &'a Trace,
    world: World,
    judge: Judge,
    lines: Vec<Line>,
    free: Vec<Index>,
    threads: BTreeMap<u32, Index>,
    /// Tasks made by threads that have ended, which have not shown up yet.
    late: BTreeMap<u32, Spawned>,
    order: Order,
    /// Recorded ends of open calls with their lanes; may contain stale entries.
    open: BinaryHeap<Reverse<(u64, Index)>>,
    /// Lanes with an open action, and which of them wait for which.
    graph: Graph,
    /// What follows if calls overlap.
    rules: Rules,
    /// File ranges whose last writer is unknown.
    doubts: Doubts,
    /// Descriptor tables that are being copied.
    copies: Copies,
    /// Children reported dead by calls: return time of the call, waiting process and child. The
    /// child may show up until then.
    deaths: BinaryHeap<Reverse<(u64, u32, i64)>>,
    /// Number of actions opened so far.
    opened: u64,
    /// State of processes at the start of their programs, until their first call.
    beginnings: HashMap<u32, ProcessState>,
    /// Data movements that are not in the trace.
    unseen: Unseen,
    /// Files whose mappings are stored to by the trace.
    mapped: Mapped<MappedFile>,
    /// Stores for which no task was free yet.
    kept_stores: Vec<KeptStore>,
    /// Processes that submit requests, and whether these may concern names.
    askers: HashMap<u32, bool>,
    /// Processes that share state with a task that was not recorded.
    unfollowed: HashSet<u32>,
    /// Lanes of operations in flight.
    side_lanes: SideLanes,
    /// Files whose descriptors were sent in messages.
    sent_files: HashSet<Vec<u8>>,
    /// The program made calls where it makes none if it is not recorded for a re-execution.
    asks_instead: bool,
    scans: u64,
    socket_pairs: u64,
    since_flush: u32,
    seq: u64,
    /// Start of the last event.
    reached: u64,
    user_times: UserTimes,
    tally: Tally,
    outside: Outside,
    at_hand: AtHand<'a>,
}

impl<'a> Planner<'a> {
    /// Starts at the beginning of a trace; `describe` makes the texts of calls if they are logged.
    pub fn new(
        shared: &'a Shared,
        launch: &'a dyn Fn(&Arc<Lane>),
        trace: &'a Trace,
        made_up: MadeUp,
        describe: Option<&'a Describe<'a>>,
    ) -> Planner<'a> {
        Planner {
            shared,
            launch,
            trace,
            world: World::following_mounts(),
            judge: Judge::new(trace.preamble(), shared.options.privileged, made_up),
            lines: Vec::new(),
            free: Vec::new(),
            threads: BTreeMap::new(),
            late: BTreeMap::new(),
            order: Order::default(),
            open: BinaryHeap::new(),
            graph: Graph::default(),
            outside: Outside::default(),
            rules: Rules::ALL,
            doubts: Doubts::default(),
            copies: Copies::default(),
            deaths: BinaryHeap::new(),
            opened: 0,
            beginnings: HashMap::new(),
            unseen: Unseen::new(),
            mapped: Mapped::default(),
            kept_stores: Vec::new(),
            askers: HashMap::new(),
            unfollowed: HashSet::new(),
            side_lanes: SideLanes::default(),
            sent_files: HashSet::new(),
            asks_instead: trace.preamble().has_option("--rerunnable"),
            scans: 0,
            socket_pairs: 0,
            since_flush: 0,
            seq: 0,
            reached: 0,
            user_times: UserTimes::default(),
            tally: Tally::default(),
            at_hand: AtHand::new(describe),
        }
    }

    /// Plans the whole trace, or up to the call where the user wants to stop.
    pub fn run(&mut self, progress: &dyn Fn(u64)) -> Result<(), String> {
        let until = self.shared.options.until;
        if self.shared.options.speed.is_none() {
            self.shared.start_clock();
        }
        let mut result = Ok(());
        let options = &self.shared.options;
        let mut ahead = Ahead::new(self.trace.cursor(), options.in_flight && options.overlap);
        let mut next = Sequenced::default();
        while let Some(taken) = ahead.next_into(self.trace, &mut next) {
            let met = match taken {
                Ok(met) => met,
                Err(error) => {
                    result = Err(error.to_string());
                    break;
                }
            };
            let is_after = next.seq.is_some_and(|seq| until.is_some_and(|u| seq > u));
            match met {
                Met::Event if self.shared.stopping() || is_after => break,
                Met::Event => {
                    self.event(&next);
                    if let (Some(gate), Some(seq)) = (&self.shared.options.gate, next.seq) {
                        gate.planned(seq);
                    }
                    progress(1);
                }
                Met::Submission(tsc) if !is_after && self.submission(&mut next, tsc) => {
                    ahead.used_up(&next);
                    progress(1);
                    self.flush_in_turn(tsc);
                }
                Met::Submission(_) => ahead.put_off(std::mem::take(&mut next)),
            }
        }
        self.settle_until(u64::MAX);
        self.store_rest();
        (0..self.lines.len()).for_each(|index| self.dispatch(index));
        for line in &mut self.lines {
            line.flush(self.shared);
            line.lane.close();
        }
        self.shared.planned(u64::MAX);
        self.shared.start_clock();
        result
    }

    /// Adds the counts and doubts to the outcome.
    pub fn count_into(self, outcome: &mut outcome::Outcome) {
        let why = "stores to memory changed it, or the trace does not hold what was written to it";
        let others = self.judge.with_other_bytes().map(hash_of);
        let in_doubt = |ends| Doubt { why, ends, all: false };
        outcome.doubted = others.map(|file| (file, in_doubt(false))).collect();
        let why = "requests (io_uring, Linux AIO), or who got its descriptor in a message, may have written it";
        let unseen = self.judge.written_unseen().map(hash_of);
        outcome.doubted.extend(unseen.map(|file| (file, Doubt { why, ends: true, all: false })));
        outcome.doubted.extend(self.doubts.left());
        let why = "calls changed its name at one time";
        outcome.hidden = self.judge.contested().map(|name| (name.to_vec(), why)).collect();
        let why = "it lies in a mount of the program's own";
        outcome.hidden.extend(self.world.hidden().into_iter().map(|path| (path, why)));
        let end = self.trace.totals().map_or(self.reached, |totals| totals.end_tsc);
        outcome.recorded_s = self.trace.ticks_to_ns(end).max(0) as f64 / 1e9;
        let outside = self.tally.outside_ns;
        outcome.outside_ns = [outside, if self.shared.options.rests { outside } else { 0 }];
        if self.shared.options.computes {
            outcome.computed = Some(self.tally.computed);
        }
        self.tally.count_into(outcome);
        if self.world.left_out() > 0 {
            let what = "descriptors and tasks that are too many to be followed";
            let not_followed = &mut outcome.unsupported_here;
            outcome::Outcome::count(not_followed, what, self.world.left_out());
        }
    }

    fn event(&mut self, next: &Sequenced) {
        let event = &next.event;
        self.seq = next.seq.unwrap_or(self.seq);
        self.reached = event.tsc;
        self.settle_until(event.tsc);
        self.bury_until(event.tsc);
        // A thread that makes another call has returned from the last one, whatever the clock says.
        // What an exec or exit closes is known only after it; a signal may arrive within a call.
        let goes_on = matches!(event.kind, EventKind::Call(_) | EventKind::Start { .. });
        let index = self.threads.get(&event.thread).copied();
        if let Some(index) = index
            && goes_on
        {
            self.settle(index);
            if !self.kept_stores.is_empty() {
                self.store_kept(index);
            }
        }
        if self.shared.options.computes {
            self.note_computed(index, event);
        }
        self.note_outside(event);
        match &event.kind {
            EventKind::Call(call) => self.call(index, event, call),
            EventKind::Start { how, process, parent, tid, .. } => {
                self.world.apply(event, &mut Stored(self.trace));
                self.inherit_mappings(*how, *process, *parent);
                self.start(event, *how, *process, *parent, *tid);
            }
            EventKind::Image { .. } => {
                self.forget_unseen(self.world.thread(event.thread).map(|thread| thread.process));
                self.image(event);
            }
            EventKind::State(state) => {
                self.world.apply(event, &mut Stored(self.trace));
                self.beginnings.insert(state.process, (**state).clone());
            }
            EventKind::End { .. } => self.end(event),
            EventKind::Exit { process, .. } => {
                self.beginnings.remove(process);
                self.forget_unseen(Some(*process));
                self.exit(*process, event.tsc);
                self.world.apply(event, &mut Stored(self.trace));
            }
            EventKind::Gap { why, .. } => {
                self.tally.gaps += 1;
                if *why == GapWhy::NotFollowed {
                    self.loses_sight(event.thread);
                    self.doubt_sent_files();
                }
            }
            EventKind::Unknown(unknown) => {
                self.tally.unknown_events += 1;
                self.tally.gaps += u64::from(unknown.is_gap());
            }
            EventKind::Other(_) => self.stores(event),
            EventKind::Signal { .. }
            | EventKind::Stall { .. }
            | EventKind::Kernel(_)
            | EventKind::KernelLayout(_) => {}
        }
        self.flush_in_turn(event.tsc);
    }

    /// Flushes all lanes from time to time.
    fn flush_in_turn(&mut self, tsc: u64) {
        self.since_flush += 1;
        let appeal = self.shared.someone_appeals();
        let most = if appeal { FLUSH_EVENTS_APPEAL } else { FLUSH_EVENTS };
        if self.since_flush >= most || self.shared.over_budget() {
            self.flush_all(tsc);
        }
    }

    /// Notes what the thread of a call has computed since the one before.
    fn note_computed(&mut self, index: Option<Index>, event: &Event) {
        let known = self.user_times.of(event, &model::clock(self.trace));
        match (known, index, &event.kind) {
            (Some(ns), Some(index), _) => {
                let line = &mut self.lines[index];
                line.computed_ns = line.computed_ns.saturating_add(ns);
                let between_ns = &mut self.tally.computed.between_ns;
                *between_ns = between_ns.saturating_add(ns);
            }
            (None, _, EventKind::Call(_)) if submitted(event).is_none() => {
                self.tally.computed.unknown += 1;
            }
            _ => {}
        }
    }

    /// Notes what threads have waited for.
    fn note_outside(&mut self, event: &Event) {
        let now_ns = self.clock_ns(event.tsc);
        while let Some((thread, ns)) = self.outside.next(now_ns) {
            self.tally.outside_ns = self.tally.outside_ns.saturating_add(ns);
            if let (true, Some(index)) = (self.shared.options.rests, self.threads.get(&thread)) {
                let line = &mut self.lines[*index];
                line.rested_ns = line.rested_ns.saturating_add(ns);
            }
        }
        match &event.kind {
            EventKind::Start { .. } => self.outside.begin(event.thread, now_ns),
            EventKind::End { .. } => self.outside.end(event.thread),
            EventKind::Call(call) if submitted(event).is_none() => {
                let kind = self.waits_of(event.thread, call);
                let exit_ns = match call.outcome {
                    Outcome::Returned { exit_tsc, .. } => Some(self.clock_ns(exit_tsc)),
                    Outcome::Unfinished => None,
                };
                self.outside.call(event.thread, kind, now_ns, exit_ns);
            }
            _ => {}
        }
    }

    fn clock_ns(&self, tsc: u64) -> u64 {
        u64::try_from(self.trace.ticks_to_ns(tsc)).unwrap_or(0)
    }

    /// How a call may wait: also where it reads what is no file.
    fn waits_of(&self, thread: u32, call: &Call) -> Kind {
        let Some(row) = by_number(call.nr.into()) else { return Kind::Works };
        if row.classes.intersects(Classes::WAIT) {
            let is_timed = row.classes.intersects(Classes::CLOCK);
            return if is_timed { Kind::Sleeps } else { Kind::Waits };
        }
        let Some(fd) = row.value_of(&call.args, Operand::Source) else {
            let connects = matches!(row.gives, Gives::Connection) || row.act == Act::Connect;
            return if connects { Kind::Waits } else { Kind::Works };
        };
        let table = self.world.descriptors(thread);
        let entry = table.as_ref().and_then(|table| table.get(fd as i32));
        let is_file = |path: &[u8]| path.starts_with(b"/") && !path.starts_with(b"/dev/");
        let is_file = entry.is_none_or(|entry| is_file(&entry.description.path));
        if is_file { Kind::Works } else { Kind::Waits }
    }

    /// Flushes all lanes, and waits while the tasks have more than enough.
    fn flush_all(&mut self, tsc: u64) {
        self.since_flush = 0;
        for line in &mut self.lines {
            line.flush(self.shared);
        }
        let open = self.lines.iter().filter_map(|line| line.open_since());
        self.shared.planned(open.fold(tsc, u64::min));
        let shared = self.shared;
        shared.wait_for_room(|| self.hand_over_open());
    }

    /// Hands over calls that have put bytes into a queue and return only later: others may wait for
    /// these bytes. With whose bytes theirs overlap is not known then.
    fn hand_over_open(&mut self) {
        for index in 0..self.lines.len() {
            let claims = &self.lines[index].claims;
            let Some(flow) = claims.flow.filter(|_| claims.are_of_queue()) else { continue };
            let Some(exit) = self.lines[index].open_until().filter(|_| flow.way == Way::Puts)
            else {
                continue;
            };
            self.doubts.mix(flow.queue, flow.stretch());
            self.doubts.lose(flow.queue);
            self.dispatch(index);
            self.lines[index].returning = Some(exit);
            self.lines[index].flush(self.shared);
        }
    }

    fn call(&mut self, index: Option<Index>, event: &Event, call: &Call) {
        if index.is_some_and(|index| self.once_more(index, event, call)) {
            return;
        }
        let step = self.look_at(event, call);
        let before = (self.tally.simulated, self.opened);
        self.call_at_hand(index, event, call, step);
        if let Some(index) = index
            && self.shared.options.computes
            && self.tally.simulated > before.0
            && self.opened == before.1
        {
            self.take_as_long(index, event, call);
        }
        self.tell(call);
    }

    /// Plans a call. `step`: its changes, if they were already computed.
    fn call_at_hand(
        &mut self,
        index: Option<Index>,
        event: &Event,
        call: &Call,
        step: Option<Step>,
    ) {
        let Some(index) = index else {
            self.count_skipped(call.nr, "its thread's beginning is missing");
            return;
        };
        self.lines[index].last_enter = event.tsc;
        self.begin_program(index, event.tsc);
        self.lines[index].under_way = true;
        let Some(said) = said(call) else {
            self.count_skipped(call.nr, "an unknown call");
            return;
        };
        let moves = match call.outcome {
            Outcome::Returned { ret: 0..=TRANSFER_MAX, .. } => moves::of_call(call.nr),
            Outcome::Returned { .. } | Outcome::Unfinished => None,
        };
        if step.is_none() && (moves.is_some() || self.world.has_filters()) {
            self.world.pass(event);
        }
        if self.world.is_answered(event.thread, call) {
            self.count_answered();
            return;
        }
        if let Outcome::Returned { exit_tsc, ret } = call.outcome
            && let Some(moves) = moves
            && let Some(file) = self.file(index, event.thread, call.args[0] as i32)
        {
            let exit = exit_tsc.max(event.tsc);
            self.transfer(index, event, call, &said, moves, (exit, ret), file);
            return;
        }
        if self.may_be_unseen(call) {
            if step.is_none() {
                self.world.pass(event);
            }
            self.learn_unseen(event);
        }
        let concerned = self.mapping_of(index, call, &said);
        self.becomes_writable(index, event, call);
        if Self::maps(call) {
            if step.is_none() {
                self.world.pass(event);
            }
            self.follow_mapping(index, event, call);
        }
        let is_timed = self.is_timed(said.replay);
        if is_timed || matches!(said.replay, Replay::Ignored | Replay::Memory) {
            match (concerned, call.outcome) {
                (Some(mapping), _) => self.in_memory(index, event, call, &said, mapping),
                (None, Outcome::Returned { exit_tsc, ret }) if is_timed => {
                    self.for_its_time(index, event, call, &said, (exit_tsc.max(event.tsc), ret));
                }
                (None, _) => self.count_simulated(),
            }
            self.ignore(index, event, call, &said, step);
            return;
        }
        let step = step.unwrap_or_else(|| self.world.step(event, &mut Stored(self.trace)));
        self.act(index, event, call, &said, &step);
        self.world.finish(step);
    }

    /// Opens an action like [`Line::begin`]: now its waits are known, and others may overlap.
    #[inline]
    fn open_action(&mut self, index: Index, enter: u64, exit: u64) -> &mut Action {
        self.make_way(index);
        let Planner { lines, order, shared, .. } = self;
        if shared.options.overlap {
            order.waits(index, |other, count| {
                let lane = Arc::clone(&lines[other].lane);
                lines[index].batch.waits.push((lane, count));
            });
        }
        self.graph.open(index);
        let overlapped = !self.open.is_empty();
        if exit != u64::MAX {
            self.open.push(Reverse((exit, index)));
        }
        self.opened += 1;
        if let Some(gate) = &shared.options.gate {
            gate.await_call(self.seq);
        }
        let line = &mut self.lines[index];
        line.opened_at = self.opened;
        let computes_ns = std::mem::take(&mut line.computed_ns);
        // Each sleep is a little longer than wanted: so there are few.
        let rests_ns = match line.rested_ns {
            REST_MIN_NS.. => std::mem::take(&mut line.rested_ns),
            _ => 0,
        };
        let action = line.begin();
        (action.computes_ns, action.rests_ns) = (computes_ns, rests_ns);
        action.seq = self.seq;
        action.enter = enter;
        action.exit = exit;
        action.overlapped = overlapped;
        if self.side_lanes.any() {
            self.order_by_entry(index);
        }
        self.lines[index].last_action()
    }

    /// Returns the other lanes with an open action for which `holds` is true.
    fn others_open_that(&self, index: Index, holds: impl Fn(&Line) -> bool) -> Vec<Index> {
        let is_other = |other: &Index| *other != index && holds(&self.lines[*other]);
        self.graph.open_lanes().iter().copied().filter(is_other).collect()
    }

    /// Sorts lanes by how close to this lane's call theirs returned: waiting for the closest ones
    /// mostly covers the rest.
    fn nearest_first(&self, index: Index, others: &mut [Index]) {
        if others.len() > 1 {
            let exit = |index: Index| self.lines[index].open_until().unwrap_or(0);
            others.sort_by_key(|other| exit(*other).abs_diff(exit(index)));
        }
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

    /// The recorded end of the lane's open action has passed.
    fn settle(&mut self, index: Index) {
        self.dispatch(index);
        let line = &mut self.lines[index];
        line.returning = None;
        if line.count > line.finished {
            line.finished = line.count;
            if self.shared.options.overlap {
                self.order.finish(index, line.count);
            }
        }
    }

    /// Dispatches the open action, as a lane has at most one. (A task whose creation was not
    /// recorded is created within another call.)
    fn make_way(&mut self, index: Index) {
        if self.lines[index].has_open {
            self.dispatch(index);
        }
    }

    /// Queues the lane's open action.
    fn dispatch(&mut self, index: Index) {
        if self.lines[index].is_open(|_| true) {
            self.graph.end(index);
            self.doubt_copy(index);
            if self.doubts.any() {
                self.settle_doubts(index);
            }
        }
        let line = &mut self.lines[index];
        line.make_ready(self.opened > line.opened_at);
        if line.batch.actions.len() >= BATCH_ACTIONS || line.batch.bytes_told() >= BATCH_BYTES {
            line.flush(self.shared);
        }
    }
}
