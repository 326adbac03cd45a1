//! Operations in flight: each is made by a side lane, which does nothing else meanwhile, from its
//! submission on.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use model::operations::submitted;
use model::{Contents, DescriptorTable, Stored};
use syscalls::abi::tasks::{CLONE_FILES, CLONE_FS, CLONE_THREAD};
use syscalls::layout::IO_URING_SQE;
use syscalls::requests::{ENTRY_BYTES, Entry};
use trace::event::{Call, Event, EventKind, Outcome};
use trace::{Sequenced, Trace};

use super::Planner;
use super::claims::bytes::Bytes;
use super::claims::numbers::Numbers;
use super::line::Line;
use super::side_lanes::{SIDE_LANES_MAX, SideLane, SideLanesOf};
use crate::batch::Lane;
use crate::certainty::Reason;
use crate::moves;
use crate::order::Index;
use crate::treatment::{Said, said};

impl Planner<'_> {
    /// Plans an operation as of its submission. Returns false if it is to be planned where it was found
    /// completed.
    pub(super) fn submission(&mut self, next: &mut Sequenced, tsc: u64) -> bool {
        self.reached = self.reached.max(tsc);
        self.settle_until(tsc);
        self.bury_until(tsc);
        let found = next.event.tsc;
        let thread = next.event.thread;
        let EventKind::Call(call) = &mut next.event.kind else { return false };
        let Some(said) = said(call) else { return false };
        let Some(lane) = self.side_lane(thread, call.args[0] as i32, tsc) else {
            self.put_off(thread, call);
            return false;
        };
        // From here on it is a call of the lane, which ended when it was found completed.
        if let Outcome::Returned { exit_tsc, .. } = &mut call.outcome {
            *exit_tsc = found;
        }
        let entry = entry_of(call, &said, self.trace);
        self.seq = next.seq.unwrap_or(self.seq);
        next.event.tsc = tsc;
        let EventKind::Call(call) = &next.event.kind else { return false };
        let fd = call.args[0] as i32;
        self.side_lanes.entry = entry.map(|entry| (lane, thread, entry));
        self.call(Some(lane), &next.event, call);
        self.side_lanes.entry = None;
        if self.lines[lane].has_open {
            self.lines[lane].claims.uses = Some(fd);
        }
        true
    }

    /// An operation that is planned where it was found may have been made before what is planned until then.
    fn put_off(&mut self, thread: u32, call: &Call) {
        let moves = moves::of_call(call.nr).filter(|moves| moves.writes);
        let maker = self.threads.get(&thread).copied();
        let (Some(moves), Some(maker), Some(ret)) = (moves, maker, call.success()) else { return };
        let fd = call.args[0] as i32;
        let Some(file) = self.file(maker, thread, fd).filter(|file| file.here && !file.stream)
        else {
            return;
        };
        let opened = (file.hash, file.opened, self.appends(maker, fd));
        self.doubts.put_off(&Bytes::moved(moves, call, ret, opened, || None));
        let looks =
            |line: &Line| line.claims.bytes.is_some_and(|it| it.file == file.hash && it.looks());
        for line in self.others_open_that(maker, looks) {
            self.lines[line].weaken(Some(Reason::Raced));
        }
    }

    /// Whether a call of this lane is an operation that was submitted before.
    pub(super) fn was_put_off(&self, index: Index, event: &Event) -> bool {
        let options = &self.shared.options;
        let sorts = options.in_flight && options.overlap;
        sorts && self.threads.get(&event.thread) == Some(&index) && submitted(event).is_some()
    }

    /// Returns a free lane with the descriptors of a thread, if the file is one whose transfers end by
    /// themselves.
    fn side_lane(&mut self, thread: u32, fd: i32, tsc: u64) -> Option<Index> {
        let &maker = self.threads.get(&thread)?;
        let file = self.file(maker, thread, fd)?;
        if !file.here || file.stream || file.unknown {
            return None;
        }
        let process = self.lines[maker].process;
        let table = self.table(thread)?;
        let is_its = |lane: &SideLane| lane.process == process && lane.table == table;
        let lines = &self.lines;
        let is_free = |lane: &SideLane| is_its(lane) && !lines[lane.index].has_open;
        if let Some(at) = self.side_lanes.all.iter().rposition(is_free) {
            let lane = self.side_lanes.all.remove(at);
            let index = lane.index;
            self.side_lanes.all.push(lane);
            return Some(index);
        }
        let many = self.side_lanes.all.iter().filter(|lane| is_its(lane)).count() >= SIDE_LANES_MAX;
        // A thread that is in a call may be in it until the operation has ended.
        let can_make = |(thread, maker): (&u32, &Index)| {
            let line = &self.lines[*maker];
            let same = line.process == process && self.table(*thread) == Some(table);
            (same && !line.has_open).then_some(*maker)
        };
        if many {
            return None;
        }
        let maker =
            can_make((&thread, &maker)).or_else(|| self.threads.iter().find_map(can_make))?;
        let index = self.spawn(maker, CLONE_FILES | CLONE_FS | CLONE_THREAD, tsc);
        let foreign = self.lines[maker].foreign;
        let line = &mut self.lines[index];
        (line.process, line.foreign) = (process, foreign);
        // No thread of the trace has such a number.
        line.lane.thread.store(u32::MAX - index as u32, Ordering::Relaxed);
        self.side_lanes.all.push(SideLane { index, process, maker, table });
        Some(index)
    }

    /// Returns what two threads have in common if they share their descriptors.
    fn table(&self, thread: u32) -> Option<*const DescriptorTable> {
        self.world.descriptors(thread).map(|table| &raw const *table)
    }

    /// An entry of a ring may wait for those before it, whatever else orders them.
    pub(super) fn order_by_entry(&mut self, index: Index) {
        let Some((lane, thread, entry)) =
            self.side_lanes.entry.take_if(|(lane, ..)| *lane == index)
        else {
            return;
        };
        let link = self.side_lanes.link.take();
        if let Some((_, first)) = link.filter(|(of, first)| *of == thread && *first != lane)
            && self.lines[first].has_open
        {
            self.follow(lane, first);
        }
        if entry.waits_for_all() {
            let process = self.lines[lane].process;
            let in_flight = |line: &Line| line.process == process && line.claims.uses.is_some();
            for first in self.others_open_that(lane, in_flight) {
                self.follow(lane, first);
            }
        }
        if entry.is_linked() {
            self.side_lanes.link = Some((thread, lane));
        }
    }

    /// A call that closes numbers waits for the operations that use them: these have had their files
    /// since they were submitted.
    pub(super) fn order_by_uses(&mut self, index: Index, numbers: &Numbers) {
        if !self.side_lanes.any() {
            return;
        }
        let process = self.lines[index].process;
        let is_closed = |fd: i32| numbers.closes.iter().any(|closed| closed.fd == fd);
        let uses = |line: &Line| line.process == process && line.claims.uses.is_some_and(is_closed);
        for first in self.others_open_that(index, uses) {
            self.follow(index, first);
        }
    }

    /// A thread ends that was removed from those that live, and its descriptors with it if `alone`: the
    /// side_lanes end that need them.
    pub(super) fn side_lanes_end_with(
        &mut self,
        index: Index,
        alone: bool,
    ) -> Vec<(Arc<Lane>, u64)> {
        if !self.side_lanes.any() {
            return Vec::new();
        }
        let process = self.lines[index].process;
        let is_left = self.threads.values().any(|other| self.lines[*other].process == process);
        match (is_left, alone) {
            (false, _) => self.end_side_lanes(SideLanesOf::Process(process)),
            (true, true) => self.end_side_lanes(SideLanesOf::Maker(index)),
            (true, false) => Vec::new(),
        }
    }

    /// Ends the side lanes of a process, or those that a thread has made. Returns what is to be waited for
    /// until they have let go of the descriptors.
    pub(super) fn end_side_lanes(&mut self, of: SideLanesOf) -> Vec<(Arc<Lane>, u64)> {
        if !self.side_lanes.any() {
            return Vec::new();
        }
        let is_meant = |lane: &SideLane| match of {
            SideLanesOf::Process(process) => lane.process == process,
            SideLanesOf::Maker(maker) => lane.maker == maker,
        };
        let (ended, left) =
            std::mem::take(&mut self.side_lanes.all).into_iter().partition(is_meant);
        self.side_lanes.all = left;
        let ended: Vec<SideLane> = ended;
        self.side_lanes.link = None;
        ended.into_iter().map(|lane| self.end_side_lane(lane.index)).collect()
    }

    fn end_side_lane(&mut self, index: Index) -> (Arc<Lane>, u64) {
        self.settle(index);
        let line = &mut self.lines[index];
        line.ended = true;
        line.flush(self.shared);
        line.lane.close();
        // One more than it ever does: that is counted when its task is over.
        (Arc::clone(&line.lane), line.count + 1)
    }
}

/// Returns the entry of a ring by which an operation was submitted.
fn entry_of(call: &Call, said: &Said, trace: &Trace) -> Option<Entry> {
    let number = said.args.iter().position(|arg| arg.points_to(&IO_URING_SQE))?;
    let data = call.data.iter().find(|data| usize::from(data.arg) == number)?;
    let bytes = Stored(trace).read(&data.content, ENTRY_BYTES).ok()?;
    bytes.first_chunk().copied().map(Entry)
}
