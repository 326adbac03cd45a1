//! Data that moves outside the recorded calls: results that depend on it prove nothing.

use std::sync::atomic::Ordering;

use model::contents::is_out;
use model::decode::message;
use model::unseen::Unseen;
use model::{Contents, Description, Step, Stored};
use syscalls::abi::files::{AT_FDCWD, O_ACCMODE};
use syscalls::record::part;
use syscalls::shape::{ArgKind, Classes};
use trace::event::{Call, Data, Event};

use super::Planner;
use crate::treatment::{Said, is_stream};

/// Most files sent in messages that are tracked.
const SENT_MAX: usize = 1 << 16;

impl Planner<'_> {
    /// Notes an event that may move data unseen, with the world's state at its beginning.
    pub(super) fn learn_unseen(&mut self, event: &Event) {
        self.unseen.event(event, &self.world, &mut Stored(self.trace));
        for path in self.unseen.take_stored() {
            self.judge.gets_other_bytes(&path);
        }
        for pipe in self.unseen.take_given() {
            self.judge.gets_written_unseen(&pipe);
        }
        for asker in self.unseen.take_askers() {
            if self.askers.insert(asker.process, asker.may_name).is_some() {
                continue;
            }
            let Some(table) = self.world.descriptors(event.thread) else { continue };
            for (_, entry) in table.iter() {
                self.judge.gets_written_unseen(&entry.description.path);
            }
        }
    }

    /// A task that was not recorded shares or inherits the thread's descriptors.
    pub(super) fn loses_sight(&mut self, thread: u32) {
        let Some(process) = self.world.thread(thread).map(|thread| thread.process) else { return };
        self.askers.insert(process, true);
        self.unfollowed.insert(process);
        let Some(table) = self.world.descriptors(thread) else { return };
        for (_, entry) in table.iter() {
            self.judge.gets_written_unseen(&entry.description.path);
            self.judge.outside.add(entry.description);
        }
        drop(table);
        self.take_back_outside();
    }

    /// Takes back open calls that wait on a stream which an unrecorded task has as well.
    fn take_back_outside(&mut self) {
        for index in self.graph.open_lanes().to_vec() {
            let thread = self.lines[index].lane.thread.load(Ordering::Relaxed);
            let Some(fd) = self.lines[index].at_stream() else { continue };
            let Some(table) = self.world.descriptors(thread) else { continue };
            if table.get(fd).is_some_and(|entry| self.judge.outside.has(entry.description)) {
                drop(table);
                self.lines[index].take_back();
                self.count_simulated();
            }
        }
    }

    /// A process that shares its state with an unrecorded task shares what it opens or receives;
    /// descriptors sent over a socket to the outside are shared as well.
    pub(super) fn follow_outside(&mut self, thread: u32, said: &Said, call: &Call, step: &Step) {
        let process = self.world.thread(thread).map(|thread| thread.process);
        if process.is_some_and(|process| self.unfollowed.contains(&process)) {
            step.gives().for_each(|(_, entry)| self.judge.outside.add(&entry.description));
        }
        let Some(table) = self.world.descriptors(thread) else { return };
        if !said.row.classes.intersects(Classes::NETWORK) {
            return;
        }
        let to = table.get(call.args[0] as i32);
        let to_outside = to.is_some_and(|socket| !self.judge.is_here(socket.description));
        let control = |data: &&Data| data.part == part::CONTROL && !is_out(data);
        for data in call.data.iter().filter(control) {
            let read = Stored(self.trace).read(&data.content, message::CONTROL_BYTES_MAX);
            for fd in read.iter().flat_map(|bytes| message::passed_descriptors(bytes)) {
                let Some(entry) = table.get(fd) else { continue };
                let passed = entry.description;
                let path = may_be_written(passed).then_some(&passed.path);
                if to_outside {
                    // Whoever gets it has nothing that stands for it here.
                    path.into_iter().for_each(|path| self.judge.gets_written_unseen(path));
                    self.judge.outside.add(passed);
                } else {
                    let path = path.filter(|_| self.sent_files.len() < SENT_MAX);
                    self.sent_files.extend(path.cloned());
                    self.judge.outside.sent(passed);
                }
            }
        }
    }

    /// Received descriptors that are not available may have written the files that were sent.
    pub(super) fn doubt_sent_files(&mut self) {
        if self.judge.outside.has_received() {
            for path in std::mem::take(&mut self.sent_files) {
                self.judge.gets_written_unseen(&path);
            }
        }
    }

    /// A process execs or exits: its mappings and pending requests are gone.
    pub(super) fn forget_unseen(&mut self, process: Option<u32>) {
        if let Some(process) = process {
            self.unseen.gone(process);
            self.mapped.forget(process);
            self.askers.remove(&process);
            self.unfollowed.remove(&process);
        }
    }

    /// Whether a call can move data unseen.
    pub(super) fn may_be_unseen(&self, call: &Call) -> bool {
        Unseen::follows(call.nr, &call.args)
    }

    /// Requests may write files that a submitting process opens.
    pub(super) fn opens_unseen(&mut self, thread: u32, step: &Step) {
        if self.asks(thread).is_some() {
            for (_, entry) in step.gives() {
                self.judge.gets_written_unseen(&entry.description.path);
            }
        }
    }

    /// Whether a call names files that requests may have created, renamed or removed.
    pub(super) fn names_unseen(&self, thread: u32, said: &Said) -> bool {
        self.asks(thread) == Some(true)
            && said.args.iter().any(|arg| matches!(arg.kind, ArgKind::Path))
    }

    /// Whether a call uses a descriptor that a request created: the replay has none.
    pub(super) fn is_unknown_here(&self, thread: u32, said: &Said, call: &Call) -> bool {
        if self.asks(thread) != Some(true) {
            return false;
        }
        let Some(table) = self.world.descriptors(thread) else { return false };
        let fds = said.args.iter().zip(call.args);
        let fds = fds.filter(|(arg, _)| matches!(arg.kind, ArgKind::Fd | ArgKind::DirFd));
        let mut fds = fds.map(|(_, fd)| fd as i32).filter(|fd| *fd != AT_FDCWD);
        fds.any(|fd| table.get(fd).is_none())
    }

    /// Whether a thread's process submits requests, and whether these may concern names.
    fn asks(&self, thread: u32) -> Option<bool> {
        if self.askers.is_empty() {
            return None;
        }
        self.askers.get(&self.world.thread(thread)?.process).copied()
    }
}

/// Whether who gets an open file in a message may write to it.
fn may_be_written(description: &Description) -> bool {
    let is_read_only = description.flags.is_some_and(|flags| flags & O_ACCMODE == 0);
    !is_stream(description) && !is_read_only
}
