//! Turns calls into actions: decides which are replayed, and what the others leave to do.

use model::contents::{is_cut, is_out, lacks_given, piece};
use model::operations::{is_late, operations_of};
use model::{Contents, DescriptorTable, Offset, Stored, spawn_flags};
use syscalls::abi::errno::{self, ENOENT};
use syscalls::abi::files::{AF_UNIX, O_APPEND, O_CREAT, O_EXCL};
use syscalls::record::part;
use syscalls::shape::{Arg, ArgKind, Classes, Dir};
use syscalls::{Act, Gives, flags, layout};
use trace::Trace;
use trace::event::{Call, Event, Outcome};

use super::Planner;
use super::claims::Claims;
use super::claims::bytes::{Bytes, at_end};
use super::claims::listings::Listing;
use super::claims::locks::{Does, Lock};
use super::claims::names::Names;
use super::claims::numbers::Numbers;
use super::claims::queues::{Flow, Way, written_through};
use super::doubts::BY_ANOTHER;
use super::known_files::File;
use super::own_links::OwnLinks;

use crate::batch::{Placed, What};
use crate::certainty::{Certainty, Reason};
use crate::moves::Moves;
use crate::order::Index;
use crate::outcome;
use crate::resource::hash_of;
use crate::scan::ANYWHERE;
use crate::treatment::{
    Said, TRANSFER_MAX, Treatment, exchanges, is_directory_entries, is_stream, taken,
};

/// Whether an operation's file has no descriptor that is known.
fn has_no_number(said: &Said, call: &Call) -> bool {
    said.row.queue.is_some()
        && said.args.first().is_some_and(|arg| matches!(arg.kind, ArgKind::Fd))
        && call.args[0] as i32 == -1
}

/// Properties of a call to replay, as in [`crate::batch::Call`].
struct How {
    stream: bool,
    may_block: bool,
    certainty: Certainty,
    scan: u64,
    shared_table: bool,
}

impl Planner<'_> {
    pub(super) fn act(
        &mut self,
        index: Index,
        event: &Event,
        call: &Call,
        said: &Said,
        step: &model::Step,
    ) {
        let (exit, ret) = match call.outcome {
            Outcome::Returned { exit_tsc, ret } => (exit_tsc.max(event.tsc), ret),
            Outcome::Unfinished => {
                self.unfinished(index, event, call, said, step);
                return;
            }
        };
        if said.replay == syscalls::Replay::Task {
            self.count_simulated();
            if said.ret == syscalls::Ret::Never {
                if ret == 0 {
                    self.leaves(index, event, said);
                }
                return;
            }
            self.task(index, event, call, exit, ret, step);
            return;
        }
        if let Some(powers) = powers(said, call, self.trace)
            && self.judge.privileged
            && ret == 0
        {
            self.count_simulated();
            self.open_action(index, event.tsc, exit).what = powers;
            return;
        }
        let lock = Does::of(said, call, ret, &mut Stored(self.trace));
        if let Some(Does::Fails { gives_up }) = lock {
            self.count_simulated();
            if gives_up {
                let fd = call.args[0] as i32;
                self.open_action(index, event.tsc, exit).what = What::Unlock(fd);
            }
            return;
        }
        let mut paths = step.paths.clone();
        let mut links = self.follow_own_links(event.thread, said, (call, ret), step, &mut paths);
        let learn = !links.any();
        links.also(&step.aside, &paths);
        self.opens_unseen(event.thread, step);
        if ret >= 0 {
            self.learn_fifos(said, call, &paths);
        }
        let is_fifo = paths.last().is_some_and(|(_, path)| self.judge.types.is_fifo(path));
        let (treatment, certainty, end, lock, flow, numbers) = {
            let Some(table) = self.world.descriptors(event.thread) else { return };
            if is_fifo {
                step.gives().for_each(|(_, entry)| entry.description.is_fifo.set(true));
            }
            note_offsets(said, call, ret, step, &table);
            number_ends(&mut self.socket_pairs, said, ret, step);
            let certainty = self.judge.certainty(said, call, &table, &paths);
            self.judge.learn_filled(said, call, ret, &table);
            let file = table.get(call.args[0] as i32).filter(|_| self.others_matter());
            let lock = file.zip(lock).map(|(entry, does)| {
                let file = hash_of(&entry.description.path);
                Lock { file, does }
            });
            let mut opened = step.gives().filter(|_| is_fifo && self.others_matter());
            let flow = match opened.next() {
                Some((_, fifo)) => Flow::of_open(said, &fifo.description),
                None => file.and_then(|entry| Flow::of(said, call, ret, entry.description)),
            };
            if flow.is_none() && ret > 0 && self.others_matter() {
                self.doubts.lose_all(&written_through(said, call, &table));
            }
            let end = match (self.others_matter() || self.doubts.any()) && ret >= 0 && !is_fifo {
                true => at_end(said, call, &table, &paths),
                false => None,
            };
            let numbers = match self.others_matter() {
                true => Numbers::of(step, &table),
                false => None,
            };
            let treatment =
                self.judge.judge(said, call, ret, &mut Stored(self.trace), &table, &paths, learn);
            (treatment, certainty, end, lock, flow, numbers)
        };
        self.follow_outside(event.thread, said, call, step);
        self.doubt_sent_files();
        if ret == 0 || ret > 0 && said.act == Act::Open {
            self.doubt_by_new_names(said, call, &paths);
        }
        if ret == 0 {
            self.judge.learn_names(said, call, &paths);
        }
        self.follow_rules(index, said, ret);
        let changes = said.row.classes.intersects(Classes::CHANGE);
        let names_unseen = self.names_unseen(event.thread, said);
        let treatment = match treatment {
            Treatment::Make { .. } if self.is_unknown_here(event.thread, said, call) => {
                Treatment::Simulate
            }
            Treatment::Make { .. } if self.was_refused(index, said, ret, &paths) => {
                Treatment::Simulate
            }
            // An operation has closed it before the number was given anew: what had it is gone.
            Treatment::Make { .. }
                if said.act == Act::Close && ret >= 0 && step.closes().next().is_none() =>
            {
                Treatment::Simulate
            }
            Treatment::Make { .. } if ret >= 0 && has_no_number(said, call) => {
                Treatment::Skip("its file has a place in a ring, and no number")
            }
            // What it submitted is replayed as calls.
            Treatment::Skip(_)
                if said.replay == syscalls::Replay::LeftOut
                    && (u64::try_from(ret).unwrap_or(0) <= operations_of(event)
                        || said.act == Act::SubmitToRing
                            && self.unseen.is_polled(self.lines[index].process)) =>
            {
                Treatment::Simulate
            }
            _ if links.give_a_copy() => Treatment::Make { stream: false },
            Treatment::Make { .. } if links.cannot_be_made() && changes => {
                Treatment::Skip("its file has no name")
            }
            Treatment::Make { .. } if links.cannot_be_made() => Treatment::Simulate,
            // A task's directories may have other names than the recorded ones.
            Treatment::Make { .. } if said.act == Act::TellDirectory && self.world.has_views() => {
                Treatment::Simulate
            }
            treatment => treatment,
        };
        match treatment {
            Treatment::Make { stream } => {
                let listed = match self.others_matter() {
                    true => self.listed(event.thread, said, call, ret),
                    false => None,
                };
                let scan = self.scan(event.thread, said, call, ret);
                let shared_table = self.world.shares_descriptors(event.thread);
                let may_block = stream || may_block(said);
                let certainty = certainty
                    .weakened_if(names_unseen, Reason::Unseen)
                    .weakened_if(stream && is_cut_short(said, call, ret), Reason::Filler);
                let how = How { stream, may_block, certainty, scan, shared_table };
                if self.again(index, event, call, said, (exit, ret), how, &links) {
                    let came_out = |arg| self.lines[index].came_out(arg);
                    let names = match self.others_matter() {
                        true => {
                            let names = Names::of(said, call, ret, &paths, is_fifo).or(listed);
                            let links = Names::told_links(said, came_out).filter(|_| ret >= 0);
                            match links {
                                Some(_) => Some(Names { links, ..names.unwrap_or_default() }),
                                None => names,
                            }
                        }
                        false => None,
                    };
                    let bytes = end.and_then(|end| end.claim(said, ret, came_out));
                    let copies_to = end.and_then(|end| end.copies_to);
                    let of_files = Claims { names, bytes, copies_to, ..Claims::default() };
                    let claims = Claims { lock, flow, numbers, ..of_files };
                    self.order_by_claims(index, claims, event.tsc);
                }
            }
            Treatment::Simulate => {
                if said.act == Act::Bind && ret == 0 {
                    self.bind(index, event, call, exit);
                }
                match self.lies_elsewhere(event.thread, said, call, &paths) {
                    Some(what) => self.count_unsupported(what),
                    None => self.count_simulated(),
                }
                if let Some((path, mode)) = step.makes.clone().filter(|_| ret == 0) {
                    self.make_fresh(index, event, exit, path, mode);
                }
                self.place(index, event, exit, step);
            }
            Treatment::Pour { to } => self.pour(index, event, call, (exit, ret), to),
            Treatment::Drain { from } => {
                self.count_simulated();
                let action = self.open_action(index, event.tsc, exit);
                action.what = What::Drain { fd: from, bytes: ret as u64 };
                action.may_block = true;
                if let Some(flow) = flow {
                    self.order_by_queue(index, flow);
                }
            }
            Treatment::Advance { fd } => {
                self.count_simulated();
                self.open_action(index, event.tsc, exit).what = What::Advance { fd, by: ret };
            }
            Treatment::Skip(why) => self.count_skipped(call.nr, why),
            Treatment::Withhold(what) => self.count_withheld(what),
        }
    }

    /// Pours filler into a descriptor that received bytes from an unavailable source, so that
    /// readers get as many bytes.
    fn pour(&mut self, index: Index, event: &Event, call: &Call, (exit, ret): (u64, i64), to: i32) {
        self.count_skipped(call.nr, "its source is not here, filler was put in its place");
        let Some(file) = self.file(index, event.thread, to) else { return };
        if let Some(table) = self.world.descriptors(event.thread)
            && let Some(entry) = table.get(to)
        {
            self.judge.gets_other_bytes(&entry.description.path);
        }
        let action = self.open_action(index, event.tsc, exit);
        action.what = What::Pour { fd: to, bytes: ret as u64 };
        action.may_block = file.stream;
        if file.stream && self.others_matter() {
            let (_, queue) = file.queues;
            let (way, len) = (Way::Puts, ret as u64);
            self.order_by_queue(index, Flow { queue, way, at: None, len });
        }
    }

    /// Applies a call that is never replayed to the model only.
    pub(super) fn ignore(
        &mut self,
        index: Index,
        event: &Event,
        call: &Call,
        said: &Said,
        step: Option<model::Step>,
    ) {
        self.reaps(index, said, call);
        if let Some(step) = step {
            self.world.finish(step);
        } else if !model::changes_nothing(call) {
            self.world.apply(event, &mut Stored(self.trace));
        }
    }

    /// Moves doubts along with files whose paths change.
    fn doubt_by_new_names(&mut self, said: &Said, call: &Call, paths: &[(u8, Vec<u8>)]) {
        if !self.doubts.any() && !self.others_matter() {
            return;
        }
        let doubts = &mut self.doubts;
        match (said.act, paths) {
            (Act::Rename, [(_, from), (_, to)]) if exchanges(said, call) => {
                doubts.exchanged(hash_of(from), hash_of(to));
            }
            (Act::Rename, [(_, from), (_, to)]) => doubts.renamed(hash_of(from), hash_of(to)),
            (Act::HardLink, [(_, from), (_, to)]) => doubts.linked(hash_of(from), hash_of(to)),
            (Act::Remove, [(_, path)]) => doubts.removed(hash_of(path)),
            (Act::Rename | Act::RemoveDirectory | Act::MakeNode | Act::MakeLink, _) => {
                paths.iter().for_each(|(_, path)| doubts.replaced(hash_of(path)));
            }
            (Act::Open, [.., (_, path)]) if must_be_new(said, call) => {
                doubts.replaced(hash_of(path));
            }
            _ => {}
        }
    }

    /// Whether the order of calls of several threads must be kept.
    pub(super) fn others_matter(&self) -> bool {
        self.shared.options.overlap && (self.threads.len() > 1 || self.side_lanes.any())
    }

    /// Plans a call that moves bytes through a descriptor.
    #[allow(clippy::too_many_arguments, reason = "the call, and what is known of it")]
    pub(super) fn transfer(
        &mut self,
        index: Index,
        event: &Event,
        call: &Call,
        said: &Said,
        moves: &Moves,
        (exit, ret): (u64, i64),
        file: File,
    ) {
        if !file.here {
            if file.taken && moves.writes && ret > 0 {
                self.count_skipped(call.nr, "it writes through another process's descriptor");
                self.doubts.lose_file(file.hash, BY_ANOTHER);
                return;
            }
            match self.lies_elsewhere(event.thread, said, call, &[]) {
                Some(what) => self.count_unsupported(what),
                None => self.count_simulated(),
            }
            return;
        }
        let cut_short = is_cut_short(said, call, ret);
        if cut_short && said.row.classes.intersects(Classes::WRITE) {
            let table = self.world.descriptors(event.thread);
            if let Some(entry) = table.as_ref().and_then(|table| table.get(call.args[0] as i32)) {
                self.judge.gets_other_bytes(&entry.description.path);
            }
        }
        let stream = file.stream;
        let certainty = file
            .certainty
            .weakened_if(stream && cut_short, Reason::Filler)
            .weakened_if(is_late(event) || self.was_put_off(index, event), Reason::Raced);
        let may_block = stream || file.unknown;
        let how = How { stream, may_block, certainty, scan: 0, shared_table: false };
        if !self.again(index, event, call, said, (exit, ret), how, &OwnLinks::default()) {
            return;
        }
        let offset = || self.advance(index, call.args[0] as i32, ret);
        if stream {
            let (at, len) = (offset(), ret.max(0) as u64);
            if self.others_matter() {
                let (gives, takes) = file.queues;
                let queue = if moves.writes { takes } else { gives };
                self.order_by_queue(index, Flow { queue, way: Way::of(moves.writes), at, len });
            }
        } else {
            let appends = moves.offset.is_some() && self.appends(index, call.args[0] as i32);
            let opened = (file.hash, file.opened, appends);
            let bytes = Bytes::moved(moves, call, ret, opened, offset);
            if self.others_matter() || self.doubts.any() {
                self.order_by_bytes(index, Some(bytes));
            }
        }
    }

    /// Plans the replay of a call. Returns whether it will be made.
    #[allow(clippy::too_many_arguments, reason = "the call, and what is known of it")]
    fn again(
        &mut self,
        index: Index,
        event: &Event,
        call: &Call,
        said: &Said,
        (exit, ret): (u64, i64),
        how: How,
        links: &OwnLinks,
    ) -> bool {
        let ns = self.shared.ticks_to_ns(exit - event.tsc);
        self.tally.recorded.of(call.nr).record(ns);
        let verifies = self.shared.options.verifies();
        self.make_way(index);
        let line = &mut self.lines[index];
        let foreign = line.foreign;
        let own_root = self.world.has_own_root(event.thread);
        let keeps_messages = how.stream
            && self.world.descriptors(event.thread).is_some_and(|table| {
                table.get(call.args[0] as i32).is_some_and(|open| open.description.keeps_messages())
            });
        let packed = match line.pack(self.trace, call, said, ret, verifies, &links.paths) {
            Ok(packed) => packed,
            Err(error) => {
                self.shared.stop(outcome::Stopped::Unreadable(error.to_string()));
                return false;
            }
        };
        packed.stream = how.stream;
        packed.messages = keeps_messages;
        packed.scan = how.scan;
        packed.shared_table = how.shared_table;
        packed.certainty = how.certainty;
        packed.own_root = own_root;
        packed.owners = !foreign;
        links.apply(packed);
        let about = self.give_away();
        let told = about.as_ref().map_or(0, |about| about.text.len());
        let action = self.open_action(index, event.tsc, exit);
        action.may_block = how.may_block;
        action.about = about;
        self.lines[index].batch.about_bytes += told;
        true
    }

    /// Packs a call that orders nobody, and opens its action.
    pub(super) fn again_for_itself(
        &mut self,
        index: Index,
        event: &Event,
        call: &Call,
        said: &Said,
        times: (u64, i64),
    ) -> bool {
        let how = How {
            stream: false,
            may_block: false,
            certainty: Certainty::EXACT,
            scan: 0,
            shared_table: false,
        };
        self.again(index, event, call, said, times, how, &OwnLinks::default())
    }

    /// Places placeholders for the descriptors of a simulated call.
    fn place(&mut self, index: Index, event: &Event, exit: u64, step: &model::Step) {
        step.gives().for_each(|(_, entry)| self.judge.is_placeholder(&entry.description));
        let placed: Box<[Placed]> = step
            .gives()
            .map(|(fd, entry)| Placed { fd, close_on_exec: entry.close_on_exec })
            .collect();
        if !placed.is_empty() {
            self.open_action(index, event.tsc, exit).what = What::Place(placed);
        }
    }

    /// Creates the node that binding a UNIX socket to a path creates: the socket is simulated.
    fn bind(&mut self, index: Index, event: &Event, call: &Call, exit: u64) {
        let address = call.data.iter().find(|data| data.arg == 1);
        let bytes = address.map(|data| Stored(self.trace).read(&data.content, 128));
        let Some(Ok(bytes)) = bytes else { return };
        let Some(name) = bytes.strip_prefix(&AF_UNIX.to_le_bytes()) else { return };
        let name = name.split(|&c| c == 0).next().unwrap_or_default();
        let path = self.world.locate(event.thread, name);
        if !name.is_empty() && self.judge.is_real(&path) {
            let path = if self.world.has_views() { path } else { name.to_vec() };
            self.open_action(index, event.tsc, exit).what = What::Socket(path.into());
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
        if said.replay == syscalls::Replay::Task {
            self.count_simulated();
            if let Some(flags) = spawn_flags(call, &mut Stored(self.trace)) {
                self.make(index, event, flags, None, u64::MAX);
            } else if said.ret == syscalls::Ret::Never {
                self.leaves(index, event, said);
            }
            return;
        }
        self.make_way(index);
        let mut why = "it had not returned";
        if let Some(stream) = self.may_have_written(event, call, said, step)
            && let Ok(packed) = self.lines[index].pack(self.trace, call, said, 0, false, &[])
        {
            packed.certainty = Certainty::EXACT.weakened(Some(Reason::NotReturned));
            packed.stream = stream;
            packed.takes = call.data.iter().map(|data| data.true_len).fold(0, u64::saturating_add);
            packed.takes = packed.takes.min(TRANSFER_MAX as u64);
            self.open_action(index, event.tsc, event.tsc);
            self.dispatch(index);
            if let Some(table) = self.world.descriptors(event.thread) {
                self.judge.learn_filled(said, call, i64::MAX, &table);
                note_offsets(said, call, 0, step, &table);
            }
            why = "it had not returned; what it was to write was written";
        }
        match said.replay {
            syscalls::Replay::Real | syscalls::Replay::Numbers => self.count_skipped(call.nr, why),
            _ => self.count_simulated(),
        }
    }

    /// Whether a call that was cut off may have written bytes, and whether to a pipe. A call whose
    /// thread was killed had most likely finished its writing: the kernel checks for signals at the
    /// end, or after a page.
    fn may_have_written(
        &mut self,
        event: &Event,
        call: &Call,
        said: &Said,
        step: &model::Step,
    ) -> Option<bool> {
        let writes = said.row.classes.intersects(syscalls::Classes::WRITE)
            && !said.row.classes.intersects(syscalls::Classes::READ);
        if !writes || said.replay != syscalls::Replay::Real {
            return None;
        }
        let table = self.world.descriptors(event.thread)?;
        let stored = &mut Stored(self.trace);
        match self.judge.judge(said, call, 0, stored, &table, &step.paths, true) {
            Treatment::Make { stream } => Some(stream),
            _ => None,
        }
    }

    /// Returns what a call got of the names in a directory.
    fn listed(&self, thread: u32, said: &Said, call: &Call, ret: i64) -> Option<Names> {
        if !said.args.iter().any(|arg| is_directory_entries(arg.kind)) {
            return None;
        }
        let table = self.world.descriptors(thread)?;
        let directory = table.get(call.args[0] as i32)?.description;
        let (path, is_first) = (&directory.path[..], directory.mark.get() == 0);
        match ret {
            0.. => {
                let listing = Listing::of(said, call, self.trace, path, is_first);
                Some(Names::listed(path, listing))
            }
            _ if errno::of_result(ret) == Some(ENOENT) => Some(Names::removed_before(path)),
            _ => None,
        }
    }

    /// Returns the directory scan that a call belongs to.
    fn scan(&mut self, thread: u32, said: &Said, call: &Call, ret: i64) -> u64 {
        let reads = said.args.iter().any(|arg| is_directory_entries(arg.kind));
        let seeks = said.ret == syscalls::Ret::Offset;
        if !reads && !seeks {
            return 0;
        }
        let Some(table) = self.world.descriptors(thread) else { return 0 };
        let Some(entry) = table.get(call.args[0] as i32) else { return 0 };
        let mark = &entry.description.mark;
        if seeks {
            match (ret, mark.get()) {
                // Rewinding starts another scan.
                (0, _) => mark.set(0),
                (1.., 0) => mark.set(ANYWHERE),
                _ => {}
            }
            return 0;
        }
        if ret >= 0 && mark.get() == 0 {
            self.scans += 1;
            mark.set(self.scans);
        }
        match ret {
            0 => mark.replace(ANYWHERE),
            // A failed call belongs to no scan: its error concerns the whole directory.
            ..0 => ANYWHERE,
            _ => mark.get(),
        }
    }
}

/// Whether an open works only if there was no file.
fn must_be_new(said: &Said, call: &Call) -> bool {
    const NEW: u64 = O_CREAT | O_EXCL;
    said.of_set(call, &flags::OPEN).is_some_and(|flags| flags & NEW == NEW)
}

/// Gives the ends of a new socket pair adjacent numbers.
fn number_ends(pairs: &mut u64, said: &Said, ret: i64, step: &model::Step) {
    if said.row.gives == Gives::SocketPair && ret == 0 {
        *pairs += 1;
        for ((_, entry), end) in step.gives().zip(0..2) {
            entry.description.mark.set(*pairs * 2 + end);
        }
    }
}

/// Records the offsets at which a call left its files, as far as known.
fn note_offsets(said: &Said, call: &Call, ret: i64, step: &model::Step, table: &DescriptorTable) {
    if ret < 0 {
        return;
    }
    let appends = |flags: u64| flags & O_APPEND != 0;
    if let Act::Open = said.act {
        let flags = said.of_set(call, &flags::OPEN);
        if flags.is_some_and(|flags| !appends(flags)) {
            let opened = step.gives().map(|(_, entry)| &entry.description);
            // A pipe that is opened again continues where it was.
            let files = opened.filter(|description| !is_stream(description));
            files.for_each(|description| description.offset.set(Offset::At(0)));
        }
        return;
    }
    if said.row.gives == Gives::Pipe {
        // Position in the bytes that go through the pipe.
        step.gives().for_each(|(_, entry)| entry.description.offset.set(Offset::At(0)));
        return;
    }
    let sets_flags = said.act == Act::SetStatusFlags;
    let now = match said.ret {
        _ if sets_flags && appends(call.args[2]) => Offset::Unknown,
        syscalls::Ret::Offset => u64::try_from(ret).map_or(Offset::Somewhere, Offset::At),
        // The offset may have moved.
        syscalls::Ret::Size => Offset::Somewhere,
        _ => return,
    };
    for (arg, fd) in said.args.iter().zip(call.args) {
        if matches!(arg.kind, ArgKind::Fd)
            && let Some(entry) = table.get(fd as i32)
            && entry.description.offset.get() != Offset::Unknown
        {
            entry.description.offset.set(now);
        }
    }
}

/// Whether the trace lacks some of the bytes that a call moves. Bytes from a pipe may then be
/// filler, written by a call that the planner sees only later.
fn is_cut_short(said: &Said, call: &Call, ret: i64) -> bool {
    let lacks_taken = || call.data.iter().any(|data| is_out(data) && is_cut(data));
    lacks_given(&call.data, taken(said, ret)) || lacks_taken()
}

/// Size of the sets that capset takes.
const POWERS_BYTES: usize = 24;

/// Returns the capabilities that capset leaves its thread with.
fn powers(said: &Said, call: &Call, trace: &Trace) -> Option<What> {
    let is_new = |arg: &Arg| {
        arg.points_to(&layout::CAP_DATA) && matches!(arg.kind, ArgKind::Buf(Dir::In, ..))
    };
    let number = said.args.iter().position(is_new)?;
    let data = piece(&call.data, number as u8, part::WHOLE, 0, false)?;
    let bytes = Stored(trace).read(&data.content, POWERS_BYTES).ok()?;
    let (words, _) = bytes.as_chunks::<4>();
    let word = |at: usize| words.get(at).map_or(0, |word| u64::from(u32::from_le_bytes(*word)));
    // Two structs, each with 32 bits of each set.
    let (effective, permitted) = (word(0) | word(3) << 32, word(1) | word(4) << 32);
    Some(What::Powers { effective, permitted })
}

/// Whether a call may sleep until another task acts: it opens a named pipe, or locks.
fn may_block(said: &Said) -> bool {
    said.ret == syscalls::Ret::Fd || matches!(said.act, Act::Lock | Act::RecordLock { .. })
}
