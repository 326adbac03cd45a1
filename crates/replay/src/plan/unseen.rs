//! The planner's part about data that moves beside the calls: what follows from it proves nothing.

use events::shape::Kind;
use model::unseen::Unseen;
use model::{Step, Stored};
use trace::event::{Call, Event};

use super::Planner;
use crate::treatment::Said;

/// Descriptors relative to which nothing is looked up.
const AT_FDCWD: i32 = -100;

impl Planner<'_> {
    /// Takes note of an event that may move data unseen. The world is as it was when it began.
    pub(super) fn learn_unseen(&mut self, event: &Event) {
        self.unseen.event(event, &self.world, &mut Stored(self.trace));
        for path in self.unseen.take_stored() {
            self.judge.gets_other_bytes(&path);
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

    /// A process runs another program, or is gone: with it, what it had mapped and asked for.
    pub(super) fn forget_unseen(&mut self, process: Option<u32>) {
        if let Some(process) = process {
            self.unseen.gone(process);
            self.askers.remove(&process);
        }
    }

    /// Whether a call can move data unseen.
    pub(super) fn may_be_unseen(&self, call: &Call) -> bool {
        Unseen::follows(call.nr, &call.args)
    }

    /// What a process opens that hands requests over may be written by them.
    pub(super) fn opens_unseen(&mut self, thread: u32, step: &Step) {
        if self.asks(thread).is_some() {
            for (_, entry) in step.gives() {
                self.judge.gets_written_unseen(&entry.description.path);
            }
        }
    }

    /// Whether a call names files that requests may have made, renamed or removed.
    pub(super) fn names_unseen(&self, thread: u32, said: &Said) -> bool {
        self.asks(thread) == Some(true)
            && said.args.iter().any(|arg| matches!(arg.kind, Kind::Path))
    }

    /// Whether a call is about a descriptor that a request has given: there is none here.
    pub(super) fn is_unknown_here(&self, thread: u32, said: &Said, call: &Call) -> bool {
        if self.asks(thread) != Some(true) {
            return false;
        }
        let Some(table) = self.world.descriptors(thread) else { return false };
        let fds = said.args.iter().zip(call.args);
        let fds = fds.filter(|(arg, _)| matches!(arg.kind, Kind::Fd | Kind::DirFd));
        let mut fds = fds.map(|(_, fd)| fd as i32).filter(|fd| *fd != AT_FDCWD);
        fds.any(|fd| table.get(fd).is_none())
    }

    /// Whether a thread's process hands requests over, and whether these may be about names.
    fn asks(&self, thread: u32) -> Option<bool> {
        if self.askers.is_empty() {
            return None;
        }
        self.askers.get(&self.world.thread(thread)?.process).copied()
    }
}
