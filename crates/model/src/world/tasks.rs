//! Ties between processes, and ids of threads, as calls and recorded states change them.

use std::rc::Rc;

use trace::event::ProcessState;

use super::credentials::{Credentials, CredentialsChange};
use super::spawned::Spawned;
use super::ties::{Ties, TiesChange};
use super::{Process, World};

impl World {
    /// Returns user and group ids of a thread.
    pub fn credentials(&self, thread: u32) -> Option<&Credentials> {
        self.threads.get(&thread).map(|thread| &*thread.credentials)
    }

    /// Returns user and group ids of the first thread of a process, or of its last one if all have
    /// ended.
    pub fn credentials_of_process(&self, process: u32) -> Option<&Credentials> {
        let process = self.processes.get(&process)?;
        let first = process.threads.first().and_then(|thread| self.credentials(*thread));
        first.or(process.last_credentials.as_deref())
    }

    pub(super) fn change_credentials(&mut self, number: u32, change: CredentialsChange) {
        if let Some(thread) = self.threads.get_mut(&number) {
            Credentials::change(&mut thread.credentials, change, &self.budget);
        }
    }

    /// Sets the ids of all threads of a process to those of a recorded state.
    pub(super) fn take_ids(&mut self, state: &ProcessState) {
        let told = Credentials::told(state, &self.budget);
        let process = self.processes.get(&state.process);
        for number in process.into_iter().flat_map(|process| &process.threads) {
            if let Some(thread) = self.threads.get_mut(number)
                && !thread.credentials.is_elsewhere()
            {
                thread.credentials = Rc::clone(&told);
            }
        }
    }

    /// Returns parent, process group and session of a process.
    pub fn ties(&self, process: u32) -> Option<Ties> {
        let ties = self.processes.get(&process)?.ties;
        let lives = |number| self.processes.contains_key(&number);
        let parent = ties.parent.filter(|_| ties.parent_number.is_none_or(lives));
        Some(Ties { parent, ..ties })
    }

    pub(super) fn change_ties(&mut self, thread: u32, change: TiesChange) {
        let Some(caller) = self.threads.get(&thread).map(|thread| thread.process) else { return };
        match change {
            TiesChange::Group { of, group } => {
                if let Some(process) = self.own_or_child(caller, of) {
                    process.ties.group = Some(group);
                } else {
                    self.group_before_start(caller, of, group);
                }
            }
            TiesChange::Session { of, session } => {
                if let Some(process) = self.own_or_child(caller, of) {
                    process.ties.session = Some(session);
                }
            }
            TiesChange::NewSession { id } => {
                if let Some(process) = self.processes.get_mut(&caller) {
                    (process.ties.group, process.ties.session) = (Some(id), Some(id));
                }
            }
            TiesChange::Parent { id } => self.parent_is(caller, id),
        }
    }

    /// Returns the process with an id if it is the caller or a child of it: ids of others may be of
    /// another namespace.
    fn own_or_child(&mut self, caller: u32, pid: u32) -> Option<&mut Process> {
        let is_own = pid == 0 || self.processes.get(&caller).is_some_and(|own| own.pid == pid);
        if is_own {
            return self.processes.get_mut(&caller);
        }
        let mut children = self.processes.values_mut();
        children.find(|process| process.pid == pid && process.parent == Some(caller))
    }

    /// Sets the group of a child that had no event yet: shells do that right after a fork.
    fn group_before_start(&mut self, maker: u32, child: u32, group: u32) {
        let threads = self.processes.get(&maker).map(|process| process.threads.clone());
        for number in threads.into_iter().flatten() {
            let Some(thread) = self.threads.get_mut(&number) else { continue };
            let is_it = |spawned: &&mut Spawned| spawned.tid == Some(child.into());
            if let Some(spawned) = thread.spawned.iter_mut().find(is_it) {
                spawned.ties.group = Some(group);
                return;
            }
        }
    }

    fn parent_is(&mut self, process: u32, id: u32) {
        if self.ties(process).is_none_or(|ties| ties.parent == Some(id)) {
            return;
        }
        // Another process has taken over the children of one that ended.
        let found = self.processes.iter().find(|(_, parent)| id != 0 && parent.pid == id);
        let parent_number = found.map(|(number, _)| *number);
        if let Some(process) = self.processes.get_mut(&process) {
            process.ties.parent = Some(id);
            process.ties.parent_number = parent_number;
        }
    }

    /// Takes the parent from a recorded state, if the process sees the same ids as the recorder.
    pub(super) fn take_parent(&mut self, state: &ProcessState) {
        let process = self.processes.get(&state.process);
        if state.ppid != 0 && process.is_some_and(|process| process.pid == state.pid) {
            self.parent_is(state.process, state.ppid);
        }
    }
}
