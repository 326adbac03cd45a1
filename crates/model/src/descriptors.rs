//! Descriptor tables: the open file behind each number, per process or shared.

mod numbers;

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

use syscalls::abi::files::O_CLOEXEC;
use trace::event::{Identity, OpenFd};

use self::numbers::{Change, Numbers};
use crate::budget::{Budget, Held};

/// An open file description, which descriptors of several processes may share.
#[derive(Debug, Default)]
pub struct Description {
    /// The absolute path, or the name used in /proc/PID/fd (`pipe:[3]`, `socket:[...]`).
    pub path: Vec<u8>,
    /// Local and peer address of a socket, as text, once known.
    pub addresses: RefCell<Addresses>,
    /// Identity of the file at its first use, if recorded.
    pub identity: Option<Identity>,
    /// Origin of the open file.
    pub origin: Origin,
    /// Flags of the open call, if it was recorded.
    pub flags: Option<u64>,
    /// Process id that a pidfd refers to.
    pub pid: Option<u32>,
    /// Unique id, for use by the fold's client.
    pub mark: Cell<u64>,
    /// File offset, for use by the fold's client.
    pub offset: Cell<Offset>,
    /// Id of the mount through which it was opened.
    pub(crate) mount: u32,
    /// Budget share of this description.
    pub(crate) held: OnceCell<Held>,
}

/// Knowledge about an open file's offset.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Offset {
    /// Unknown, including whether the file is in append mode.
    #[default]
    Unknown,
    /// Not in append mode, offset unknown.
    Somewhere,
    /// Not in append mode, at this offset.
    At(u64),
}

/// Origin of an open file.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Not by a recorded call: inherited, or the call was not seen.
    #[default]
    Outside,
    /// Opened by its path.
    Path,
    /// Opened with `O_TMPFILE`.
    Unnamed,
    /// Created by `memfd_create`.
    Memory,
    /// One end of a pipe created by a recorded process.
    Pipe,
    /// One end of a socket pair created by a recorded process.
    SocketPair,
    /// A socket created by `socket` or `accept`.
    Socket,
    /// A kernel object without a path: epoll, eventfd, pidfd ...
    Anonymous,
    /// Received over a socket pair.
    Passed,
    /// Copied from another process with `pidfd_getfd`.
    Taken,
}

/// Addresses of a socket.
#[derive(Debug, Default, Clone)]
pub struct Addresses {
    /// Set by bind.
    pub local: Option<String>,
    /// Set by connect and accept.
    pub peer: Option<String>,
}

impl Description {
    /// Makes a description with this path and defaults otherwise.
    pub fn at(path: impl Into<Vec<u8>>) -> Rc<Description> {
        Rc::new(Description { path: path.into(), ..Description::default() })
    }

    /// Makes a description with this origin and path.
    pub(crate) fn of(origin: Origin, path: impl Into<Vec<u8>>) -> Rc<Description> {
        Rc::new(Description { path: path.into(), origin, ..Description::default() })
    }

    /// Makes a description from an entry of a recorded descriptor list.
    fn found(origin: Origin, open: &OpenFd) -> Rc<Description> {
        let (path, addresses, pid) = parse_label(&open.target);
        let (addresses, flags) = (RefCell::new(addresses), Some(open.flags.into()));
        Rc::new(Description { path, origin, flags, addresses, pid, ..Description::default() })
    }

    /// The label for the state of a process in a trace that is made of another one: a reader of that
    /// state gets back all that is known here.
    pub fn label_in_state(&self) -> Vec<u8> {
        match self.pid {
            Some(pid) => [PIDFD, format!(" {pid}]").as_bytes()].concat(),
            None => self.label(),
        }
    }

    /// Returns the text printed next to a descriptor: the path and a socket's addresses.
    pub fn label(&self) -> Vec<u8> {
        let addresses = self.addresses.borrow();
        let text = match (&addresses.local, &addresses.peer) {
            (None, None) => return self.path.clone(),
            (Some(local), None) => local.clone(),
            (None, Some(peer)) => format!("to {peer}"),
            (Some(local), Some(peer)) => format!("{local} to {peer}"),
        };
        let mut label = self.path.clone();
        if label.last() == Some(&b']') {
            label.pop();
            label.push(b' ');
            label.extend_from_slice(text.as_bytes());
            label.push(b']');
        }
        label
    }
}

/// The beginning of what /proc shows for a pidfd.
const PIDFD: &[u8] = b"anon_inode:[pidfd";

/// Path, addresses and process that [`Description::label_in_state`] put into a label. What /proc
/// shows holds none of the latter two, and is taken as it is.
fn parse_label(label: &[u8]) -> (Vec<u8>, Addresses, Option<u32>) {
    let as_it_is = || (label.to_vec(), Addresses::default(), None);
    let Ok(text) = std::str::from_utf8(label) else { return as_it_is() };
    let Some(text) = text.strip_suffix(']') else { return as_it_is() };
    if let Some(pid) = text.strip_prefix("anon_inode:[pidfd ") {
        let Ok(pid) = pid.parse() else { return as_it_is() };
        return ([PIDFD, b"]"].concat(), Addresses::default(), Some(pid));
    }
    let Some(inner) = text.strip_prefix("socket:[AF_") else { return as_it_is() };
    let mut words = inner.splitn(3, ' ');
    let (Some(family), Some(kind), Some(rest)) = (words.next(), words.next(), words.next()) else {
        return as_it_is();
    };
    let (local, peer) = match (rest.strip_prefix("to "), rest.split_once(" to ")) {
        (Some(peer), _) => (None, Some(peer)),
        (None, Some((local, peer))) => (Some(local), Some(peer)),
        (None, None) => (Some(rest), None),
    };
    let addresses = Addresses { local: local.map(str::to_owned), peer: peer.map(str::to_owned) };
    (format!("socket:[AF_{family} {kind}]").into_bytes(), addresses, None)
}

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
}

impl DescriptorTable {
    /// Makes an empty table.
    pub(crate) fn new(budget: Budget) -> DescriptorTable {
        DescriptorTable { numbers: Numbers::new(budget.clone()), budget }
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
        self.numbers.set(number, entry.description, entry.close_on_exec);
        true
    }

    pub(crate) fn close(&mut self, fd: i32) {
        if let Ok(fd) = u32::try_from(fd) {
            self.close_range(fd, fd);
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
        let old = std::mem::replace(self, DescriptorTable::new(self.budget.clone()));
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
        let known = std::mem::replace(self, DescriptorTable::new(self.budget.clone()));
        for open in truth {
            let known = known.get(open.fd).map(|known| known.description.clone());
            let description = known.unwrap_or_else(|| Description::at(&open.target[..]));
            let close_on_exec = u64::from(open.flags) & O_CLOEXEC != 0;
            self.install(open.fd, Descriptor { description, close_on_exec });
        }
    }

    /// Replaces the table by the kernel's list. Matching entries keep their description, which
    /// other tables may share.
    pub(crate) fn correct(&mut self, truth: &[OpenFd]) {
        let known = std::mem::replace(self, DescriptorTable::new(self.budget.clone()));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_in_states_are_understood() {
        let label = |text: &str| {
            let open = OpenFd { target: text.into(), ..OpenFd::default() };
            Description::found(Origin::default(), &open)
        };
        for text in [
            "socket:[AF_UNIX SOCK_STREAM]",
            "socket:[AF_UNIX SOCK_STREAM a.socket]",
            "socket:[AF_INET SOCK_STREAM to 127.0.0.1:80]",
            "socket:[AF_INET SOCK_STREAM 127.0.0.1:9 to 127.0.0.1:80]",
            "socket:[4711]",
            "anon_inode:[pidfd]",
            "anon_inode:[pidfd 99]",
            "anon_inode:[pidfd x]",
            "/a file]",
        ] {
            let found = label(text);
            assert_eq!(found.label_in_state(), text.as_bytes());
            // To learn an address once more adds nothing.
            let again = found.addresses.borrow().clone();
            *found.addresses.borrow_mut() = again;
            assert_eq!(found.label_in_state(), text.as_bytes());
        }
        let bound = label("socket:[AF_UNIX SOCK_STREAM a.socket]");
        bound.addresses.borrow_mut().local = Some("a.socket".to_owned());
        assert_eq!(bound.label(), b"socket:[AF_UNIX SOCK_STREAM a.socket]");
        assert_eq!(label("anon_inode:[pidfd 99]").pid, Some(99));
        assert_eq!(label("anon_inode:[pidfd 99]").label(), b"anon_inode:[pidfd]");
    }
}
