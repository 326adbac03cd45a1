//! The planner's view of tasks: their creation, exec and end.

use std::cmp::Reverse;
use std::sync::Arc;

use model::{Contents, Stored, spawn_flags};
use syscalls::Act;
use syscalls::abi::tasks::{CLONE_FILES, CLONE_FS, CLONE_NEWUSER, CLONE_THREAD};
use trace::event::{Call, Event, Outcome, StartHow};

use super::Planner;
use super::line::{Line, Spawned, Unborn, claim};
use super::side_lanes::SideLanesOf;
use crate::batch::{Beginning, Placed, Spawn, What};
use crate::lane::Mood;
use crate::order::Index;
use crate::treatment::Said;

/// Most ended makers whose tasks have not shown up.
const LATE_MAX: usize = 1024;

/// Most tasks of one maker that have not shown up yet.
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
            // The call that created it was not recorded.
            (None, Some(maker)) => {
                let flags = match how {
                    StartHow::Thread => CLONE_FILES | CLONE_FS | CLONE_THREAD,
                    _ => 0,
                };
                self.spawn(maker, flags, self.lines[maker].last_enter)
            }
            (None, None) => {
                let index = self.new_line(None);
                (self.launch)(&self.lines[index].lane);
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

    /// Frees the side_lanes of lanes whose tasks are over, as none needs to wait for them.
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

    /// Has a lane create a task. Returns the new lane's index.
    pub(super) fn spawn(&mut self, maker: Index, flags: u64, enter: u64) -> Index {
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
        // The kernel ends the other threads of the process before the new program starts.
        let others: Vec<(u32, Index)> = self
            .threads
            .iter()
            .filter(|(_, other)| **other != index && self.lines[**other].process == process)
            .map(|(thread, other)| (*thread, *other))
            .collect();
        let ended: Vec<Index> = others.iter().map(|(_, other)| *other).collect();
        self.dismiss_threads_of(process);
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
        for wait in self.end_side_lanes(SideLanesOf::Process(process)) {
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
        // Descriptors are closed when the thread asks for its end. A killed thread does not ask:
        // its end waits for nothing.
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
        self.threads.remove(&thread);
        for wait in self.side_lanes_end_with(index, close) {
            self.lines[index].also_wait(wait);
        }
        self.settle(index);
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
            self.dismiss(never);
        }
    }

    /// Closes the lanes of tasks that will not show up any more: they release their descriptors,
    /// which others may wait for.
    fn dismiss(&mut self, never: impl IntoIterator<Item = Unborn>) {
        for unborn in never {
            self.lines[unborn.index].ended = true;
            self.lines[unborn.index].lane.close();
        }
    }

    /// Dismisses all tasks that have not shown up and for which `is_gone` is true.
    fn dismiss_unborn(&mut self, is_gone: impl Fn(&Unborn) -> bool) {
        let mut never = Vec::new();
        let of_lines = self.lines.iter_mut().map(|line| &mut line.spawned);
        for spawned in of_lines.chain(self.late.values_mut()).filter(|spawned| !spawned.is_empty())
        {
            let (gone, left) = std::mem::take(spawned).into_iter().partition(&is_gone);
            *spawned = left;
            never.extend(Spawned::from(gone));
        }
        self.late.retain(|_, spawned| !spawned.is_empty());
        self.dismiss(never);
    }

    /// Dismisses the unborn threads of a process that ends: a thread that was killed before it did
    /// anything leaves no event.
    fn dismiss_threads_of(&mut self, process: u32) {
        self.dismiss_unborn(|unborn| unborn.thread && unborn.process == process);
    }

    /// Ends a process, with all threads whose end was not recorded.
    pub(super) fn exit(&mut self, process: u32, tsc: u64) {
        self.dismiss_threads_of(process);
        let left = self.threads.iter().filter(|(_, index)| self.lines[**index].process == process);
        let left: Vec<(u32, Index)> = left.map(|(thread, index)| (*thread, *index)).collect();
        for (thread, index) in left {
            self.end_line(thread, index, tsc, false);
        }
    }

    /// Notes that a call reports the death of a child when it returns.
    pub(super) fn reaps(&mut self, index: Index, said: &Said, call: &Call) {
        let Outcome::Returned { exit_tsc, ret } = call.outcome else { return };
        if said.row.act == Act::Reap
            && let Some(pid) = reaped(call, ret, &mut Stored(self.trace))
        {
            self.deaths.push(Reverse((exit_tsc, self.lines[index].process, pid)));
        }
    }

    /// Dismisses children reported dead by now that have not shown up: they never will.
    pub(super) fn bury_until(&mut self, tsc: u64) {
        while let Some(&Reverse((exit, parent, pid))) = self.deaths.peek()
            && exit < tsc
        {
            self.deaths.pop();
            self.dismiss_unborn(|unborn| {
                !unborn.thread && unborn.process == parent && unborn.tid == Some(pid)
            });
        }
    }

    /// The open action waits for all finished actions of the other threads of its process, even if
    /// threads are replayed independently.
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

    /// Plans a call that creates or changes a task.
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

    /// clone may return a pidfd.
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
        self.lines[child].confined = self.lines[index].confined;
        let line = &mut self.lines[index];
        let never = if line.spawned.len() >= SPAWNED_MAX { line.spawned.pop_front() } else { None };
        let (process, thread) = (line.process, flags & CLONE_THREAD != 0);
        line.spawned.push_back(Unborn { tid, index: child, process, thread });
        self.dismiss(never);
        // Others may depend on the new task once the call has returned.
        if exit != u64::MAX {
            self.open.push(Reverse((exit, index)));
        }
        self.lines[index].returning = Some(exit);
    }

    /// The thread leaves its program by an exec or exit. What that closes is closed before another
    /// task can notice.
    pub(super) fn leaves(&mut self, index: Index, event: &Event, said: &Said) {
        let execs = said.args.iter().any(|arg| matches!(arg.kind, syscalls::ArgKind::Path));
        let what = if execs { What::Exec(Box::default()) } else { What::End { close: false } };
        self.open_action(index, event.tsc, u64::MAX).what = what;
        if said.row.act == Act::EndProcess {
            self.dismiss_threads_of(self.lines[index].process);
        }
    }

    /// The first call of a process's program: sets the state that the recorder saw before it.
    pub(super) fn begin_program(&mut self, index: Index, tsc: u64) {
        if self.beginnings.is_empty() {
            return;
        }
        let (process, first) = (self.lines[index].process, self.lines[index].first);
        let Some(state) = self.beginnings.remove(&process) else { return };
        self.lines[index].first = false;
        // With clocks of two processors the state may come late: keep descriptors opened since.
        let late = std::mem::replace(&mut self.lines[index].under_way, true);
        if late && !first {
            return;
        }
        let what = What::Become(Box::new(Beginning { state, first }));
        self.open_action(index, tsc, tsc).what = what;
        self.settle(index);
    }
}

/// Returns the child whose death a call reported.
fn reaped(call: &Call, ret: i64, stored: &mut dyn Contents) -> Option<i64> {
    const NOT_ONLY_DEATHS: u64 = (libc::WUNTRACED | libc::WCONTINUED) as u64;
    const SIGINFO_BYTES: usize = 128;
    let mut word = |arg: u8, at: usize| {
        let data = call.data.iter().find(|data| data.arg == arg)?;
        let bytes = stored.read(&data.content, SIGINFO_BYTES).ok()?;
        Some(i32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
    };
    if ret > 0 {
        // wait4: the status, if it was requested.
        let dead = match word(1, 0) {
            Some(status) => libc::WIFEXITED(status) || libc::WIFSIGNALED(status),
            None => call.args[2] & NOT_ONLY_DEATHS == 0,
        };
        return dead.then_some(ret);
    }
    // waitid: a siginfo.
    let (code, pid) = (word(2, 8)?, word(2, 16)?);
    let dead = [libc::CLD_EXITED, libc::CLD_KILLED, libc::CLD_DUMPED].contains(&code);
    (ret == 0 && dead).then_some(pid.into())
}
