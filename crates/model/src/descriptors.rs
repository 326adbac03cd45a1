//! Descriptor tables: which number means which open file, per process or shared.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use trace::event::Identity;

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
    /// The id of the process that a pidfd is of.
    pub pid: Option<u32>,
    /// For whoever folds: a mark of its own for each open file.
    pub mark: Cell<u64>,
    /// For whoever folds: where its offset is.
    pub offset: Cell<Offset>,
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

/// One entry of a table.
#[derive(Debug, Clone)]
pub struct Descriptor {
    /// What it refers to.
    pub description: Rc<Description>,
    /// Closed when another program is executed.
    pub close_on_exec: bool,
}

/// The descriptors of a process, or of several that share them.
#[derive(Debug, Clone, Default)]
pub struct DescriptorTable {
    entries: BTreeMap<i32, Descriptor>,
}

impl DescriptorTable {
    /// What a number refers to.
    pub fn get(&self, fd: i32) -> Option<&Descriptor> {
        self.entries.get(&fd)
    }

    /// The entries of these numbers in order.
    pub fn within(&self, first: u32, last: u32) -> impl Iterator<Item = (i32, &Descriptor)> {
        let number = |bound: u32| i32::try_from(bound).unwrap_or(i32::MAX);
        let (first, last) = (number(first), number(last));
        // An empty range has no end before its beginning.
        let entries = (first <= last).then(|| self.entries.range(first..=last));
        entries.into_iter().flatten().map(|(&fd, entry)| (fd, entry))
    }

    /// All entries in order.
    pub fn iter(&self) -> impl Iterator<Item = (i32, &Descriptor)> {
        self.entries.iter().map(|(&fd, entry)| (fd, entry))
    }

    pub(crate) fn install(&mut self, fd: i32, entry: Descriptor) {
        if fd >= 0 {
            self.entries.insert(fd, entry);
        }
    }

    pub(crate) fn close(&mut self, fd: i32) {
        self.entries.remove(&fd);
    }

    pub(crate) fn close_range(&mut self, first: u32, last: u32) {
        self.entries.retain(|&fd, _| !(first..=last).contains(&(fd as u32)));
    }

    pub(crate) fn set_close_on_exec(&mut self, first: u32, last: u32, on: bool) {
        for (&fd, entry) in &mut self.entries {
            if (first..=last).contains(&(fd as u32)) {
                entry.close_on_exec = on;
            }
        }
    }

    pub(crate) fn exec(&mut self) {
        self.entries.retain(|_, entry| !entry.close_on_exec);
    }

    /// Takes over what a trace says is open; what has the same label keeps its description.
    pub(crate) fn replace(&mut self, truth: &[trace::event::OpenFd], cloexec_bit: u32) {
        let old = std::mem::take(&mut self.entries);
        for open in truth {
            let known = old.get(&open.fd).filter(|old| old.description.label() == open.target);
            let description = match known {
                Some(known) => known.description.clone(),
                None => Description::at(&open.target[..]),
            };
            let close_on_exec = open.flags & cloexec_bit != 0;
            self.entries.insert(open.fd, Descriptor { description, close_on_exec });
        }
    }

    /// Takes over what the kernel says is open; what agrees keeps its description, which other
    /// tables may share.
    pub(crate) fn correct(&mut self, truth: &[trace::event::OpenFd], cloexec_bit: u32) {
        let mut entries = BTreeMap::new();
        for open in truth {
            let description = match self.entries.get(&open.fd) {
                Some(old) if agrees(old, &open.target) => old.description.clone(),
                // The same file by its other name.
                Some(old) => Description::of(old.description.origin, &open.target[..]),
                None => Description::at(&open.target[..]),
            };
            let close_on_exec = open.flags & cloexec_bit != 0;
            entries.insert(open.fd, Descriptor { description, close_on_exec });
        }
        self.entries = entries;
    }
}

/// Sockets and pipes have other names here than in /proc: the kind must do.
fn agrees(known: &Descriptor, target: &[u8]) -> bool {
    let path = &known.description.path;
    path == target
        || [&b"socket:"[..], b"pipe:"]
            .iter()
            .any(|kind| path.starts_with(kind) && target.starts_with(kind))
}
