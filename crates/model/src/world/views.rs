//! What threads see that have mounts or a root of their own.

use std::cell::Cell;
use std::rc::Rc;

use super::{Directory, World, copy};
use crate::budget::Budget;
use crate::path;
use crate::places::{self, Change, Links, Place, Sight, Space};

/// A change of what a thread sees, or of what leads where.
#[derive(Debug)]
pub(crate) enum ViewChange {
    /// Mounts come and go.
    Mounts(Change),
    /// It has a root of its own from here on.
    Root,
    /// It has mounts of its own, those that there are.
    Leave,
    /// It sees the mounts of somebody else.
    Enter(Space),
    /// There is a symbolic link.
    Linked { path: Vec<u8>, target: Vec<u8> },
    /// A file has another path.
    Renamed { from: Vec<u8>, to: Vec<u8> },
    /// A path is gone.
    Removed { path: Vec<u8> },
}

impl World {
    /// Follows mounts and roots: paths are those that the files have for who sees none of them.
    pub fn following_mounts() -> World {
        World { follows_mounts: true, ..World::default() }
    }

    /// Whether somebody has mounts or a root of its own.
    pub fn has_views(&self) -> bool {
        self.sees
    }

    /// Where mounts are left for who was there first.
    pub fn hidden(&self) -> Vec<Vec<u8>> {
        let first = self.first_space.borrow();
        first.iter().filter(|m| m.at.mount == 0).map(|mount| mount.at.path.clone()).collect()
    }

    /// Whether a thread has mounts or a root that are not those at first.
    pub fn has_own_view(&self, thread: u32) -> bool {
        let Some(of) = self.thread(thread).filter(|_| self.sees) else { return false };
        !Rc::ptr_eq(&of.space, &self.first_space) || self.root_of(thread) != Place::root()
    }

    /// Whether a thread has a root of its own.
    pub fn has_own_root(&self, thread: u32) -> bool {
        self.sees && self.root_of(thread) != Place::root()
    }

    /// The file that a path means for a thread.
    pub fn locate(&self, thread: u32, text: &[u8]) -> Vec<u8> {
        let cwd = self.directory(thread).unwrap_or_default();
        let Some(of) = self.thread(thread).filter(|_| self.sees) else {
            return path::resolve(&cwd.path, text);
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

    /// Changes what a thread sees.
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

    /// Changes the mounts of a thread's namespace.
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

    /// The same, for who may have mounts or a root of its own.
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

    /// The threads that see the same mounts.
    pub(crate) fn threads_in(&self, space: &Space) -> Vec<u32> {
        let threads = self.threads.iter().filter(|(_, thread)| Rc::ptr_eq(&thread.space, space));
        threads.map(|(number, _)| *number).collect()
    }

    /// A thread of the process that has this id.
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
