//! Views of threads with their own mounts or root.

use std::cell::Cell;
use std::rc::Rc;

use super::{Directory, World, copy};
use crate::budget::Budget;
use crate::places::{self, Change, Links, Place, Sight, Space};
use crate::step::ViewChange;

impl World {
    /// Makes a world that follows mounts and roots. Its paths are those without either.
    pub fn following_mounts() -> World {
        World { follows_mounts: true, ..World::default() }
    }

    /// Returns true if a process has had its own mounts or root.
    pub fn has_views(&self) -> bool {
        self.sees
    }

    /// Returns the mount points made by recorded calls in the first namespace.
    pub fn hidden(&self) -> Vec<Vec<u8>> {
        let first = self.first_space.borrow();
        first.iter().filter(|m| m.at.mount == 0).map(|mount| mount.at.path.clone()).collect()
    }

    /// Returns true if a thread has other mounts or another root than the first processes.
    pub fn has_own_view(&self, thread: u32) -> bool {
        let Some(of) = self.thread(thread).filter(|_| self.sees) else { return false };
        !Rc::ptr_eq(&of.space, &self.first_space) || self.root_of(thread) != Place::root()
    }

    /// Returns true if a thread has its own root.
    pub fn has_own_root(&self, thread: u32) -> bool {
        self.sees && self.root_of(thread) != Place::root()
    }

    /// Returns true if a thread has another root or other mounts than the first processes, in a
    /// world that does not follow it there.
    pub fn is_elsewhere(&self, thread: u32) -> bool {
        let cwd = self.threads.get(&thread).map(|thread| thread.cwd.borrow());
        !self.follows_mounts && cwd.is_some_and(|cwd| cwd.root.is_some())
    }

    /// Makes a working directory of who has another root or other mounts, which are not followed.
    pub(crate) fn directory_elsewhere(&self, path: &[u8]) -> Rc<Directory> {
        let root = Place { mount: 0, path: places::not_followed("another root") };
        self.directory_in(Place { mount: 0, path: path.into() }, Some(Rc::new(root)))
    }

    /// Returns the file that a path leads to for a thread.
    pub fn locate(&self, thread: u32, text: &[u8]) -> Vec<u8> {
        let cwd = self.directory(thread).unwrap_or_default();
        let Some(of) = self.thread(thread).filter(|_| self.sees) else {
            return self.joined(&cwd.path, text);
        };
        let space = of.space.borrow();
        let sight = Sight { mounts: &space, links: self.links(), root: self.root_of(thread) };
        sight.walk(&Place { mount: cwd.mount, path: cwd.path.clone() }, text, true).path
    }

    pub(crate) fn root_of(&self, thread: u32) -> Place {
        let root = self.directory(thread).and_then(|directory| directory.root.clone());
        root.map_or_else(Place::root, |root| (*root).clone())
    }

    pub(crate) fn seen_by(&self, pid: u32) -> Option<(Space, Place)> {
        let number = self.thread_of(pid)?;
        Some((Rc::clone(&self.thread(number)?.space), self.root_of(number)))
    }

    /// Applies a change of a thread's view.
    pub(super) fn change_view(&mut self, number: u32, change: ViewChange) {
        let Some(thread) = self.threads.get_mut(&number) else { return };
        match change {
            ViewChange::Mounts(change) => self.change_mounts(number, change),
            ViewChange::Root => self.sees = true,
            ViewChange::Leave => thread.space = copy(&thread.space),
            ViewChange::Enter(space) => {
                thread.space = space;
                self.sees = true;
            }
            ViewChange::Linked { path, target } => self.links.made(path, target),
            ViewChange::Removed { path } => self.links.removed(&path),
            ViewChange::Renamed { from, to } => {
                places::renamed(&mut thread.space.borrow_mut(), &from, &to);
                self.links.renamed(&from, &to);
            }
        }
    }

    /// Applies a change to the mounts of a thread's namespace.
    fn change_mounts(&mut self, thread: u32, change: Change) {
        let Some(space) = self.threads.get(&thread).map(|thread| Rc::clone(&thread.space)) else {
            return;
        };
        self.sees = true;
        if let Change::Pivot { new, old, .. } = &change {
            let moved = |directory: &Directory| {
                let root = directory.root.as_deref().cloned().unwrap_or_else(Place::root);
                let cwd = Place { mount: directory.mount, path: directory.path.clone() };
                (root == *old).then(|| (if cwd == *old { new.clone() } else { cwd }, new.clone()))
            };
            for number in self.threads_in(&space) {
                if let Some((cwd, root)) = self.directory(number).and_then(|d| moved(&d)) {
                    let directory = self.directory_in(cwd, Some(Rc::new(root)));
                    self.go_to(number, directory);
                }
            }
        }
        places::change(&mut space.borrow_mut(), change, &self.budget().clone());
    }

    /// Makes a working directory in a mount and with a root.
    pub(crate) fn directory_in(&self, place: Place, root: Option<Rc<Place>>) -> Rc<Directory> {
        let Place { mount, path } = place;
        let _held = Some(self.budget.hold(path.len()));
        Rc::new(Directory { path, mark: Cell::new(0), mount, root, _held })
    }

    pub(crate) fn go_to(&mut self, thread: u32, directory: Rc<Directory>) {
        if let Some(thread) = self.threads.get(&thread) {
            *thread.cwd.borrow_mut() = directory;
        }
    }

    /// Returns the threads in a mount namespace.
    pub(crate) fn threads_in(&self, space: &Space) -> Vec<u32> {
        let threads = self.threads.iter().filter(|(_, thread)| Rc::ptr_eq(&thread.space, space));
        threads.map(|(number, _)| *number).collect()
    }

    /// Returns a thread of the process with this id.
    pub(crate) fn thread_of(&self, pid: u32) -> Option<u32> {
        let process = self.processes.values().find(|process| process.pid == pid)?;
        process.threads.first().copied()
    }

    pub(crate) fn next_mount(&mut self) -> u32 {
        self.mounts = self.mounts.saturating_add(1);
        self.mounts
    }

    pub(crate) fn links(&self) -> &Links {
        &self.links
    }

    pub(crate) fn budget(&self) -> &Budget {
        &self.budget
    }
}
