//! Descriptor tables: the open file behind each number, per process or shared.

mod numbers;

use std::rc::Rc;

use syscalls::abi::files::O_CLOEXEC;
use trace::event::OpenFd;

use self::numbers::{Change, Numbers};
use crate::budget::Budget;
use crate::open_files::{Description, OpenIds, Origin};

/// An open file and the flag of its descriptor, to be installed in a table.
#[derive(Debug, Clone)]
pub struct Descriptor {
    /// The open file.
    pub description: Rc<Description>,
    /// True if an exec closes it.
    pub close_on_exec: bool,
}

/// One entry of a table.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// The open file.
    pub description: &'a Rc<Description>,
    /// True if an exec closes it.
    pub close_on_exec: bool,
}

/// The descriptors of a process, or of several that share them. Clones are copy-on-write.
#[derive(Debug, Clone)]
pub struct DescriptorTable {
    /// The open files. A mark means close-on-exec.
    numbers: Numbers<Rc<Description>>,
    budget: Budget,
    ids: OpenIds,
}

impl DescriptorTable {
    /// Makes an empty table.
    pub(crate) fn new(budget: Budget, ids: OpenIds) -> DescriptorTable {
        DescriptorTable { numbers: Numbers::new(budget.clone()), budget, ids }
    }

    /// Takes all entries.
    fn take(&mut self) -> DescriptorTable {
        let empty = DescriptorTable::new(self.budget.clone(), self.ids.clone());
        std::mem::replace(self, empty)
    }

    /// Returns the entry of a descriptor.
    pub fn get(&self, fd: i32) -> Option<Entry<'_>> {
        let (description, close_on_exec) = self.numbers.get(u32::try_from(fd).ok()?)?;
        Some(Entry { description, close_on_exec })
    }

    /// Number of open descriptors.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Returns true if nothing is open.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the entries of a range of numbers in order.
    pub fn within(&self, first: u32, last: u32) -> impl Iterator<Item = (i32, Entry<'_>)> {
        self.numbers.within(first, last).map(|(fd, description, close_on_exec)| {
            (fd as i32, Entry { description, close_on_exec })
        })
    }

    /// Returns all entries in order.
    pub fn iter(&self) -> impl Iterator<Item = (i32, Entry<'_>)> {
        self.within(0, u32::MAX)
    }

    /// Installs an entry. If the budget is exhausted, closes the number and returns false.
    pub(crate) fn install(&mut self, fd: i32, entry: Descriptor) -> bool {
        let Ok(number) = u32::try_from(fd) else { return true };
        if !self.budget.has_room() {
            self.close(fd);
            return false;
        }
        let bytes = || size_of::<Description>() + entry.description.path.len();
        entry.description.held.get_or_init(|| self.budget.hold(bytes()));
        entry.description.give_number(&self.ids);
        self.numbers.set(number, entry.description, entry.close_on_exec);
        true
    }

    pub(crate) fn close(&mut self, fd: i32) {
        if let Ok(fd) = u32::try_from(fd) {
            self.numbers.remove(fd);
        }
    }

    pub(crate) fn close_range(&mut self, first: u32, last: u32) {
        self.numbers.change(first, last, Change::REMOVE);
    }

    pub(crate) fn set_close_on_exec(&mut self, first: u32, last: u32, on: bool) {
        self.numbers.change(first, last, Change::mark(on));
    }

    pub(crate) fn exec(&mut self) {
        self.numbers.change(0, u32::MAX, Change::REMOVE_MARKED);
    }

    /// Replaces the table by the recorded list. Entries with the same label keep their description.
    pub(crate) fn replace(&mut self, truth: &[OpenFd]) {
        let old = self.take();
        for open in truth {
            let known = old.get(open.fd).filter(|old| old.description.label() == open.target);
            let description = match known {
                Some(known) => known.description.clone(),
                None => Description::found(Origin::Outside, open),
            };
            let close_on_exec = u64::from(open.flags) & O_CLOEXEC != 0;
            self.install(open.fd, Descriptor { description, close_on_exec });
        }
    }

    /// Replaces the set of open numbers by the kernel's list, keeping all known descriptions.
    pub(crate) fn confirm(&mut self, truth: &[trace::event::OpenFd]) {
        let known = self.take();
        for open in truth {
            let known = known.get(open.fd).map(|known| known.description.clone());
            let description = known.unwrap_or_else(|| Description::shown(open));
            let close_on_exec = u64::from(open.flags) & O_CLOEXEC != 0;
            self.install(open.fd, Descriptor { description, close_on_exec });
        }
    }

    /// Replaces the table by the kernel's list. Matching entries keep their description, which
    /// other tables may share.
    pub(crate) fn correct(&mut self, truth: &[OpenFd]) {
        let known = self.take();
        for open in truth {
            let description = match known.get(open.fd) {
                Some(old) if agrees(old.description, &open.target) => old.description.clone(),
                // The same number with another path: keep its origin.
                Some(old) => Description::found(old.description.origin, open),
                None => Description::found(Origin::Outside, open),
            };
            let close_on_exec = u64::from(open.flags) & O_CLOEXEC != 0;
            self.install(open.fd, Descriptor { description, close_on_exec });
        }
    }
}

/// Compares a description with /proc. Names of sockets and pipes differ, so only kinds count.
fn agrees(known: &Description, target: &[u8]) -> bool {
    let path = &known.path;
    path == target
        || [&b"socket:"[..], b"pipe:"]
            .iter()
            .any(|kind| path.starts_with(kind) && target.starts_with(kind))
}
