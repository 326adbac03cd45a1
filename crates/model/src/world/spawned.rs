//! What new tasks inherit from their creators.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use syscalls::abi::tasks::{CLONE_FILES, CLONE_FS, CLONE_NEWNS, CLONE_NEWUSER};

use super::credentials::Credentials;
use super::directory::{Cwd, copy};
use super::ties::Ties;
use crate::descriptors::DescriptorTable;
use crate::filters::Filters;
use crate::places::Space;

/// Limit for tasks of one creator that had no event yet, or no call that created them.
const SPAWNED_MAX: usize = 256;

/// State that a new task inherits from its creator. It is saved when the call begins, because the
/// creator may go on before the new task's first event.
#[derive(Debug)]
pub(super) struct Spawned {
    /// Result of the creating call, if it returned.
    pub(super) tid: Option<i64>,
    pub(super) files: Rc<RefCell<DescriptorTable>>,
    pub(super) cwd: Cwd,
    pub(super) space: Space,
    pub(super) filters: Option<Rc<Filters>>,
    pub(super) credentials: Rc<Credentials>,
    /// For a new process.
    pub(super) ties: Ties,
}

/// What a creator has.
pub(super) struct Creator<'a> {
    pub(super) files: &'a Rc<RefCell<DescriptorTable>>,
    pub(super) cwd: &'a Cwd,
    pub(super) space: &'a Space,
    pub(super) filters: &'a Option<Rc<Filters>>,
    pub(super) credentials: &'a Rc<Credentials>,
}

impl Creator<'_> {
    /// Returns what a new task inherits, by the flags of clone. `tid` is the result of the call.
    pub(super) fn give(&self, flags: u64, tid: Option<i64>, ties: Ties) -> Spawned {
        let shares = |flag| flags & flag != 0;
        let files = if shares(CLONE_FILES) { self.files.clone() } else { copy(self.files) };
        let cwd = if shares(CLONE_FS) { self.cwd.clone() } else { copy(self.cwd) };
        let space = if shares(CLONE_NEWNS) { copy(self.space) } else { self.space.clone() };
        let credentials = match flags & CLONE_NEWUSER {
            0 => Rc::clone(self.credentials),
            _ => Credentials::elsewhere(),
        };
        Spawned { tid, files, cwd, space, filters: self.filters.clone(), credentials, ties }
    }
}

impl Spawned {
    /// Returns the ties of the new process, if it sees the same ids as its maker.
    pub(super) fn ties_of(&self, pid: u32) -> Ties {
        let is_same = self.tid.is_none_or(|tid| tid == i64::from(pid));
        if is_same || self.ties.is_first() { self.ties } else { Ties::default() }
    }
}

/// Adds to a list, from which the oldest item goes if it is full.
pub(super) fn push<T>(list: &mut VecDeque<T>, item: T) {
    if list.len() == SPAWNED_MAX {
        list.pop_front();
    }
    list.push_back(item);
}

/// Returns the inheritance saved for a task, or the oldest one if its pid namespace is another.
pub(super) fn claim(spawned: &mut VecDeque<Spawned>, tid: u32) -> Option<Spawned> {
    let same = |spawned: &Spawned| spawned.tid == Some(tid.into());
    let at = spawned.iter().position(same).unwrap_or(0);
    spawned.remove(at)
}
