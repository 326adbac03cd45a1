//! The planner's part that follows the lives of tasks: who makes whom, programs that begin, ends.

use std::cmp::Reverse;
use std::sync::Arc;

use model::{Stored, spawn_flags};
use trace::event::{Call, Event, StartHow};

use super::Planner;
use super::line::{Line, claim};
use crate::batch::{Beginning, Placed, Spawn, What};
use crate::lane::Mood;
use crate::order::Index;
use crate::treatment::Said;

const CLONE_FILES: u64 = 0x400;
const CLONE_FS: u64 = 0x200;
const CLONE_THREAD: u64 = 0x10000;
const CLONE_NEWUSER: u64 = 0x1000_0000;

/// Makers that ended while tasks of theirs were on their way.
const LATE_MAX: usize = 1024;

/// Tasks of one maker that have not shown up yet.
const SPAWNED_MAX: usize = 256;

impl Planner<'_> {
    pub(super) fn start(
        &mut self,
        event: &Event,
        how: StartHow,
        process: u32,
        parent: u32,
        tid: u32,
    ) {
        let thread = event.thread;
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
        self.settle_copies(index, event);
    }

    fn new_line(&mut self, maker: Option<Index>) -> Index {
        if self.free.is_empty() {
            self.sweep();
        }
        let index = self.free.pop().unwrap_or(self.lines.len());
        self.order.begin(index, maker);
        self.copies.forget(index);
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
        self.open_action(maker, enter, enter).what = what;
        self.dispatch(maker);
        index
    }

    pub(super) fn image(&mut self, event: &Event) {
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
            self.open_action(index, event.tsc, event.tsc).what = What::Exec(Box::default());
        }
        self.lines[index].open_what(What::Exec(keep.into()));
        self.lines[index].under_way = false;
        for other in ended {
            let wait = (Arc::clone(&self.lines[other].lane), self.lines[other].count);
            self.lines[index].also_wait(wait);
        }
        self.settle(index);
    }

    pub(super) fn end(&mut self, event: &Event) {
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
            self.open_action(index, tsc, tsc).what = What::End { close: false };
            self.lines[index].wait_for_nobody();
        } else {
            self.lines[index].open_what(What::End { close });
            if close && !self.shared.options.overlap {
                self.wait_for_process(index);
            }
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

    /// What is open waits for all that the other threads of its process have done, even if each
    /// thread goes its own way.
    fn wait_for_process(&mut self, index: Index) {
        let process = self.lines[index].process;
        for other in (0..self.lines.len()).filter(|other| *other != index) {
            let line = &self.lines[other];
            if line.process == process {
                let wait = (Arc::clone(&line.lane), line.count);
                self.lines[index].also_wait(wait);
            }
        }
    }

    /// A call that makes or changes a task.
    pub(super) fn task(
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
            self.open_action(index, event.tsc, exit).what = What::Unshare(flags);
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
            self.open_action(index, event.tsc, exit).what = What::Place(placed);
        }
    }

    pub(super) fn make(
        &mut self,
        index: Index,
        event: &Event,
        flags: u64,
        tid: Option<i64>,
        exit: u64,
    ) {
        let child = self.spawn(index, flags, event.tsc);
        self.begin_copy((index, child), flags, event, exit);
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

    /// The thread leaves its program, for another one or for good. What is closed by that is closed
    /// before anybody can hear of it.
    pub(super) fn leaves(&mut self, index: Index, event: &Event, said: &Said) {
        let execs = said.args.iter().any(|arg| matches!(arg.kind, events::Kind::Path));
        let what = if execs { What::Exec(Box::default()) } else { What::End { close: false } };
        self.open_action(index, event.tsc, u64::MAX).what = what;
    }

    /// The process's program begins: before its first call it is what the recorder saw.
    pub(super) fn begin_program(&mut self, index: Index, tsc: u64) {
        if self.beginnings.is_empty() {
            return;
        }
        let (process, first) = (self.lines[index].process, self.lines[index].first);
        let Some(state) = self.beginnings.remove(&process) else { return };
        self.lines[index].first = false;
        // By the clocks of two processors it may be told late: what was opened since must stay.
        let late = std::mem::replace(&mut self.lines[index].under_way, true);
        if late && !first {
            return;
        }
        let what = What::Become(Box::new(Beginning { state, first }));
        self.open_action(index, tsc, tsc).what = what;
        self.settle(index);
    }
}
