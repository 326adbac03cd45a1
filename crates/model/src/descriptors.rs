//! Descriptor tables: which number means which open file, per process or shared.

mod numbers;

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;

use trace::event::{Identity, OpenFd};

use self::numbers::{Change, Numbers};
use crate::budget::{Budget, Held};

/// An open file: what several descriptors, in several processes, may refer to.
#[derive(Debug, Default)]
pub struct Description {
    /// The absolute path, or what /proc/PID/fd would say (`pipe:[3]`, `socket:[...]`).
    pub path: Vec<u8>,
    /// The local and the peer's address of a socket, as text, once known.
    pub addresses: RefCell<Addresses>,
    /// What the file was at its first use, when the trace says so.
    pub identity: Option<Identity>,
    /// How it came to be.
    pub origin: Origin,
    /// The flags that it was opened with, where that was seen.
    pub flags: Option<u64>,
    /// The id of the process that a pidfd is of.
    pub pid: Option<u32>,
    /// For whoever folds: a mark of its own for each open file.
    pub mark: Cell<u64>,
    /// For whoever folds: where its offset is.
    pub offset: Cell<Offset>,
    /// The mount through which it was opened.
    pub(crate) mount: u32,
    /// What it takes of the memory for what is open.
    pub(crate) held: OnceCell<Held>,
}

/// What is known of an open file's offset.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Offset {
    /// Nothing, not even whether it appends.
    #[default]
    Unknown,
    /// It does not append, and is somewhere.
    Somewhere,
    /// It is there.
    At(u64),
}

/// How an open file came to be.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Not by a recorded call: it was there when a program began, or nobody saw it come.
    #[default]
    Outside,
    /// Opened by its path.
    Path,
    /// A file that was made without a name, in a directory.
    Unnamed,
    /// Memory that is a file.
    Memory,
    /// One end of a pipe that a recorded process made.
    Pipe,
    /// One end of a pair of sockets that a recorded process made.
    SocketPair,
    /// A socket, bound for anywhere.
    Socket,
    /// What has no name: epoll, eventfd, pidfd ...
    Anonymous,
    /// Passed over a pair of sockets.
    Passed,
    /// Taken from another process: what that has open.
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
    /// An open file that is known by this path.
    pub fn at(path: impl Into<Vec<u8>>) -> Rc<Description> {
        Rc::new(Description { path: path.into(), ..Description::default() })
    }

    /// The same with its origin.
    pub(crate) fn of(origin: Origin, path: impl Into<Vec<u8>>) -> Rc<Description> {
        Rc::new(Description { path: path.into(), origin, ..Description::default() })
    }

    /// One that a program had open when it was looked at.
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

    /// What to show behind a descriptor: the path, and a socket's addresses.
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

/// What a descriptor is to refer to.
#[derive(Debug, Clone)]
pub struct Descriptor {
    /// What it refers to.
    pub description: Rc<Description>,
    /// Closed when another program is executed.
    pub close_on_exec: bool,
}

/// One entry of a table.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    /// What it refers to.
    pub description: &'a Rc<Description>,
    /// Closed when another program is executed.
    pub close_on_exec: bool,
}

/// The descriptors of a process, or of several that share them. Copies share what they have in
/// common.
#[derive(Debug, Clone)]
pub struct DescriptorTable {
    /// Marked: those that are closed when another program is executed.
    numbers: Numbers<Rc<Description>>,
    budget: Budget,
}

impl DescriptorTable {
    /// Nothing is open.
    pub(crate) fn new(budget: Budget) -> DescriptorTable {
        DescriptorTable { numbers: Numbers::new(budget.clone()), budget }
    }

    /// What a number refers to.
    pub fn get(&self, fd: i32) -> Option<Entry<'_>> {
        let (description, close_on_exec) = self.numbers.get(u32::try_from(fd).ok()?)?;
        Some(Entry { description, close_on_exec })
    }

    /// How many are open.
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Whether nothing is open.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The entries of these numbers in order.
    pub fn within(&self, first: u32, last: u32) -> impl Iterator<Item = (i32, Entry<'_>)> {
        self.numbers.within(first, last).map(|(fd, description, close_on_exec)| {
            (fd as i32, Entry { description, close_on_exec })
        })
    }

    /// All entries in order.
    pub fn iter(&self) -> impl Iterator<Item = (i32, Entry<'_>)> {
        self.within(0, u32::MAX)
    }

    /// Whether there was room for it; what the number meant before, it does not mean any more.
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

    /// Takes over what a trace says is open; what has the same label keeps its description.
    pub(crate) fn replace(&mut self, truth: &[OpenFd], cloexec_bit: u32) {
        let old = std::mem::replace(self, DescriptorTable::new(self.budget.clone()));
        for open in truth {
            let known = old.get(open.fd).filter(|old| old.description.label() == open.target);
            let description = match known {
                Some(known) => known.description.clone(),
                None => Description::found(Origin::Outside, open),
            };
            let close_on_exec = open.flags & cloexec_bit != 0;
            self.install(open.fd, Descriptor { description, close_on_exec });
        }
    }

    /// Takes over which numbers the kernel says are open, and keeps what is known of them.
    pub(crate) fn confirm(&mut self, truth: &[trace::event::OpenFd], cloexec_bit: u32) {
        let known = std::mem::replace(self, DescriptorTable::new(self.budget.clone()));
        for open in truth {
            let known = known.get(open.fd).map(|known| known.description.clone());
            let description = known.unwrap_or_else(|| Description::at(&open.target[..]));
            let close_on_exec = open.flags & cloexec_bit != 0;
            self.install(open.fd, Descriptor { description, close_on_exec });
        }
    }

    /// Takes over what the kernel says is open; what agrees keeps its description, which other
    /// tables may share.
    pub(crate) fn correct(&mut self, truth: &[OpenFd], cloexec_bit: u32) {
        let known = std::mem::replace(self, DescriptorTable::new(self.budget.clone()));
        for open in truth {
            let description = match known.get(open.fd) {
                Some(old) if agrees(old.description, &open.target) => old.description.clone(),
                // The same file by its other name.
                Some(old) => Description::found(old.description.origin, open),
                None => Description::found(Origin::Outside, open),
            };
            let close_on_exec = open.flags & cloexec_bit != 0;
            self.install(open.fd, Descriptor { description, close_on_exec });
        }
    }
}

/// Sockets and pipes have other names here than in /proc: the kind must do.
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
