//! Open files: what several descriptors may share, and where each of them reads or writes next.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::rc::Rc;

use syscalls::abi::files::{O_APPEND, O_DSYNC};
use trace::event::{Identity, OpenFd};

use crate::budget::Held;
use crate::namespace::FileId;

/// Number of an open file. A world gives each number once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpenId(u64);

/// What somebody knows of open files, by their numbers.
pub type OpenTable<T> = HashMap<OpenId, T, BuildHasherDefault<OpenHasher>>;

/// Hashes numbers of open files. Nobody can choose these, so one multiplication will do.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenHasher(u64);

impl Hasher for OpenHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(self.0 ^ u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Gives numbers to open files, and collects the numbers of those that nobody has open any more.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenIds(Rc<Given>);

#[derive(Debug, Default)]
struct Given {
    last: Cell<u64>,
    closed: RefCell<Vec<OpenId>>,
}

impl OpenIds {
    fn next(&self) -> Numbered {
        let id = self.0.last.get() + 1;
        self.0.last.set(id);
        Numbered { id: OpenId(id), ids: self.clone() }
    }

    /// Calls `each` for every open file that was closed since [`OpenIds::forget`].
    pub fn closed(&self, each: &mut dyn FnMut(OpenId)) {
        self.0.closed.borrow().iter().for_each(|id| each(*id));
    }

    /// Forgets which open files were closed.
    pub fn forget(&self) {
        let mut closed = self.0.closed.borrow_mut();
        if !closed.is_empty() {
            closed.clear();
        }
    }
}

/// The number of an open file, which is told when nobody has it open any more.
#[derive(Debug)]
pub(crate) struct Numbered {
    id: OpenId,
    ids: OpenIds,
}

impl Drop for Numbered {
    fn drop(&mut self) {
        self.ids.0.closed.borrow_mut().push(self.id);
    }
}

/// Where an open file reads or writes next, unless a call names an offset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    /// The offset, as far as it follows from the trace.
    pub at: u64,
    /// True if writes go to the end of the file, wherever that is.
    pub appends: bool,
}

impl Position {
    /// Position of a file that a call has opened with these flags, if they are known.
    pub(crate) fn opened(flags: Option<u64>) -> Position {
        let appends = flags.unwrap_or(0) & O_APPEND != 0;
        Position { at: 0, appends }
    }

    /// Position of an open file as /proc shows it.
    pub(crate) fn found(at: u64, flags: u64) -> Position {
        Position { at, appends: flags & O_APPEND != 0 }
    }

    /// Returns the position after a seek to an offset.
    pub(crate) fn seeked(self, at: u64) -> Position {
        Position { at, ..self }
    }

    /// Returns the position after the flags were set.
    pub(crate) fn with_flags(self, flags: u64) -> Position {
        Position { appends: flags & O_APPEND != 0, ..self }
    }

    /// Returns where a transfer begins that names no offset, for a file of this length.
    pub(crate) fn begins(self, is_write: bool, size: u64) -> u64 {
        if is_write && self.appends { size } else { self.at }
    }

    /// Returns the position after such a transfer.
    pub(crate) fn moved(self, is_write: bool, size: u64, bytes: u64) -> Position {
        Position { at: self.begins(is_write, size).saturating_add(bytes), ..self }
    }
}

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
    /// Unique id, for use by the planner of a replay.
    pub mark: Cell<u64>,
    /// It is a FIFO, as calls before said of its name; for use by the planner of a replay.
    pub is_fifo: Cell<bool>,
    /// File offset, for use by the planner of a replay.
    pub offset: Cell<Offset>,
    /// Where it reads or writes next.
    pub(crate) position: Cell<Position>,
    /// Its file, once a call has used it in a walk that follows files.
    pub(crate) file: Cell<Option<FileId>>,
    /// Its number.
    pub(crate) number: OnceCell<Numbered>,
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

    /// Makes one of an end of a pipe, opened with these flags.
    pub(crate) fn end_of_pipe(path: impl Into<Vec<u8>>, flags: u64) -> Rc<Description> {
        let (path, flags) = (path.into(), Some(flags));
        Rc::new(Description { path, flags, origin: Origin::Pipe, ..Description::default() })
    }

    /// Makes a description with this origin and path.
    pub(crate) fn of(origin: Origin, path: impl Into<Vec<u8>>) -> Rc<Description> {
        Rc::new(Description { path: path.into(), origin, ..Description::default() })
    }

    /// Makes a description from an entry of a recorded descriptor list.
    pub(crate) fn found(origin: Origin, open: &OpenFd) -> Rc<Description> {
        let (path, addresses, pid) = parse_label(&open.target);
        let (addresses, flags) = (RefCell::new(addresses), Some(open.flags.into()));
        let position = Cell::new(Position::found(open.offset, open.flags.into()));
        Rc::new(Description {
            path,
            origin,
            flags,
            addresses,
            pid,
            position,
            ..Description::default()
        })
    }

    /// Makes a description of which only path and position in a recorded list count.
    pub(crate) fn shown(open: &OpenFd) -> Rc<Description> {
        let position = Cell::new(Position::found(open.offset, open.flags.into()));
        let path = open.target.clone();
        Rc::new(Description { path, position, ..Description::default() })
    }

    /// Returns its number; 0 before a world has given it one.
    pub fn id(&self) -> OpenId {
        self.number.get().map_or(OpenId::default(), |number| number.id)
    }

    /// Returns its file, once a call has used it in a walk that follows files.
    pub fn file(&self) -> Option<FileId> {
        self.file.get()
    }

    /// Gives it a number, unless it has one.
    pub(crate) fn give_number(&self, ids: &OpenIds) {
        self.number.get_or_init(|| ids.next());
    }

    /// Returns where it reads or writes next.
    pub(crate) fn position(&self) -> Position {
        self.position.get()
    }

    /// Returns true if writes are on stable storage when they return.
    pub(crate) fn is_durable(&self) -> bool {
        self.flags.unwrap_or(0) & O_DSYNC != 0
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

impl Description {
    /// Whether what is sent through it arrives as it was sent, message by message, as far as is known.
    pub fn keeps_messages(&self) -> bool {
        let kind = self
            .path
            .strip_prefix(b"socket:[AF_")
            .and_then(|text| text.split(|c| *c == b' ').nth(1));
        kind.is_some_and(|kind| !kind.starts_with(b"SOCK_STREAM"))
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_follow_what_calls_do() {
        let opened = Position::opened(Some(0));
        let read = opened.moved(false, 500, 100);
        assert_eq!(read.at, 100);
        let log = read.with_flags(O_APPEND);
        assert_eq!((log.begins(true, 500), log.begins(false, 500)), (500, 100));
        let written = log.moved(true, 500, 10);
        assert_eq!(written.at, 510);
        assert_eq!(written.seeked(7), Position { at: 7, appends: true });
        assert!(!Position::opened(None).appends && Position::found(9, O_APPEND).appends);
    }

    #[test]
    fn numbers_are_given_once_and_told_when_closed() {
        let ids = OpenIds::default();
        let open = || {
            let open = Description::at("/a");
            open.give_number(&ids);
            open
        };
        let (one, other) = (open(), open());
        one.give_number(&ids);
        assert!(one.id() != other.id() && one.id() != OpenId::default());
        let (gone, shared) = (one.id(), Rc::clone(&one));
        let closed = || {
            let mut closed = Vec::new();
            ids.closed(&mut |id| closed.push(id));
            closed
        };
        drop(one);
        assert!(closed().is_empty());
        drop(shared);
        assert_eq!(closed(), [gone]);
        ids.forget();
        drop(other);
        assert_eq!(closed().len(), 1);
        assert!(open().id() > gone);
    }

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
        assert!(!bound.keeps_messages() && !label("socket:[4711]").keeps_messages());
        assert!(label("socket:[AF_UNIX SOCK_SEQPACKET]").keeps_messages());
        bound.addresses.borrow_mut().local = Some("a.socket".to_owned());
        assert_eq!(bound.label(), b"socket:[AF_UNIX SOCK_STREAM a.socket]");
        assert_eq!(label("anon_inode:[pidfd 99]").pid, Some(99));
        assert_eq!(label("anon_inode:[pidfd 99]").label(), b"anon_inode:[pidfd]");
    }
}
