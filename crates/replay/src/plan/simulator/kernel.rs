//! The reference: a kernel with files, directories, links, descriptor tables, pipes and locks, all
//! in memory. A call takes effect at one moment, but for long writes to files, which take two: who
//! looks in between sees one half, as programs do.

use std::collections::{BTreeMap, HashMap, VecDeque};

use syscalls::abi::errno::{EBADF, EEXIST, EINVAL, EISDIR, ENOENT, ENOTDIR, ENOTEMPTY};
use syscalls::abi::files::{LOCK_UN, O_APPEND, O_CREAT, O_EXCL, O_TRUNC};

/// Length of what is written, read or cut: shorter pieces show less than the rules take for proof.
pub const UNIT: usize = 16;

/// A call as a program makes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    Open { path: String, flags: u64 },
    Close { fd: i32 },
    Read { fd: i32, len: usize, at: Option<u64> },
    Write { fd: i32, bytes: Vec<u8>, at: Option<u64> },
    Seek { fd: i32, by: i64, whence: i32 },
    StatFd { fd: i32 },
    StatPath { path: String },
    CutFd { fd: i32, len: u64 },
    CutPath { path: String, len: u64 },
    Dup { fd: i32 },
    DupTo { fd: i32, to: i32 },
    MakeDirectory { path: String },
    RemoveDirectory { path: String },
    Remove { path: String },
    Rename { from: String, to: String },
    HardLink { from: String, to: String },
    Link { target: String, path: String },
    ReadLink { path: String },
    Pipe,
    Lock { fd: i32, how: u64 },
    Fork,
    Thread,
}

impl Op {
    /// The descriptor that it uses.
    pub fn fd(&self) -> Option<i32> {
        match self {
            Op::Close { fd }
            | Op::Read { fd, .. }
            | Op::Write { fd, .. }
            | Op::Seek { fd, .. }
            | Op::StatFd { fd }
            | Op::CutFd { fd, .. }
            | Op::Dup { fd }
            | Op::DupTo { fd, .. }
            | Op::Lock { fd, .. } => Some(*fd),
            _ => None,
        }
    }
}

/// What a call returned: the result, and the bytes that came out.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Done {
    pub ret: i64,
    pub out: Vec<u8>,
    /// The file that it opened or looked at: its number and size.
    pub file: Option<(usize, u64)>,
}

/// How far a call came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Came {
    Done(Done),
    /// It did nothing, and has to wait for others.
    Blocks,
    /// Its first half is done.
    Half,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    File(Vec<u8>),
    Directory(BTreeMap<String, usize>),
    Link(String),
}

impl Node {
    /// A short text for messages.
    pub fn shown(&self) -> String {
        match self {
            Node::File(bytes) => {
                let units: Vec<u8> = bytes.chunks(UNIT).map(|unit| unit[0]).collect();
                format!("{} bytes: {units:?}", bytes.len())
            }
            other => format!("{other:?}"),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Behind {
    Node(usize),
    ReadEnd(usize),
    WriteEnd(usize),
    Nothing,
}

#[derive(Clone, Debug)]
struct Open {
    behind: Behind,
    offset: u64,
    append: bool,
    /// The path that it was opened by.
    path: String,
    /// Numbers in tables that lead to it.
    count: usize,
}

/// The second half of a write.
#[derive(Clone, Debug)]
struct Rest {
    node: usize,
    open: usize,
    moves: bool,
    at: u64,
    bytes: Vec<u8>,
    ret: i64,
}

pub type Table = BTreeMap<i32, usize>;

#[derive(Clone, Debug, Default)]
pub struct Kernel {
    nodes: Vec<Node>,
    opens: Vec<Open>,
    pipes: Vec<VecDeque<u8>>,
    pub tables: Vec<Table>,
    /// Who holds the lock of a file: the open file.
    locks: HashMap<usize, usize>,
    /// Writes of tasks that are half done.
    halves: HashMap<usize, Rest>,
}

/// A name: its directory, what it is called there, and what it stands for.
type Place = (usize, String, Option<usize>);

const LINKS_MAX: usize = 4;

impl Kernel {
    /// With an empty root directory, and one empty descriptor table.
    pub fn new() -> Kernel {
        let root = Node::Directory(BTreeMap::new());
        Kernel { nodes: vec![root], tables: vec![Table::new()], ..Kernel::default() }
    }

    fn place(&self, path: &str, follow: bool, depth: usize) -> Result<Place, i32> {
        let mut parts = path.split('/').filter(|part| !part.is_empty()).peekable();
        let mut directory = 0;
        while let Some(name) = parts.next() {
            let Node::Directory(names) = &self.nodes[directory] else { return Err(ENOTDIR) };
            let found = names.get(name).copied();
            if parts.peek().is_none() {
                return match found.map(|node| &self.nodes[node]) {
                    Some(Node::Link(target)) if follow && depth < LINKS_MAX => {
                        self.place(target, follow, depth + 1)
                    }
                    _ => Ok((directory, name.to_string(), found)),
                };
            }
            directory = found.ok_or(ENOENT)?;
        }
        Err(EINVAL)
    }

    fn node(&self, path: &str, follow: bool) -> Result<usize, i32> {
        self.place(path, follow, 0)?.2.ok_or(ENOENT)
    }

    /// Whether a name is there, whatever it stands for.
    pub fn is_there(&self, path: &str) -> bool {
        self.node(path, false).is_ok()
    }

    /// Whether a path leads to a directory with names in it.
    pub fn is_filled(&self, path: &str) -> bool {
        let node = self.node(path, true).ok().map(|node| &self.nodes[node]);
        matches!(node, Some(Node::Directory(names)) if !names.is_empty())
    }

    fn names(&mut self, directory: usize) -> &mut BTreeMap<String, usize> {
        match &mut self.nodes[directory] {
            Node::Directory(names) => names,
            _ => unreachable!("names are looked up in directories"),
        }
    }

    fn add(&mut self, node: Node) -> usize {
        self.nodes.push(node);
        self.nodes.len() - 1
    }

    /// Makes a name of a new node; fails if it is there.
    fn make_name(&mut self, path: &str, node: Node) -> Result<i64, i32> {
        let (directory, name, found) = self.place(path, false, 0)?;
        if found.is_some() {
            return Err(EEXIST);
        }
        let node = self.add(node);
        self.names(directory).insert(name, node);
        Ok(0)
    }

    pub fn open_of(&self, table: usize, fd: i32) -> Option<usize> {
        self.tables[table].get(&fd).copied()
    }

    /// A file with its size, as calls show it.
    pub fn seen(&self, node: usize) -> (usize, u64) {
        (node, self.size(node))
    }

    /// The file behind a descriptor, and the path that it was opened by.
    pub fn file_of(&self, table: usize, fd: i32) -> Option<(usize, &str)> {
        let open = &self.opens[self.open_of(table, fd)?];
        match open.behind {
            Behind::Node(node) => Some((node, &open.path)),
            _ => None,
        }
    }

    pub fn is_pipe(&self, table: usize, fd: i32) -> bool {
        let open = self.open_of(table, fd).map(|open| self.opens[open].behind);
        matches!(open, Some(Behind::ReadEnd(_) | Behind::WriteEnd(_)))
    }

    /// The file that a path leads to.
    pub fn file_at(&self, path: &str) -> Option<usize> {
        self.node(path, true).ok()
    }

    pub fn offset(&self, table: usize, fd: i32) -> u64 {
        self.open_of(table, fd).map_or(0, |open| self.opens[open].offset)
    }

    fn size(&self, node: usize) -> u64 {
        match &self.nodes[node] {
            Node::File(bytes) => bytes.len() as u64,
            _ => 0,
        }
    }

    fn put(&mut self, table: usize, fd: i32, open: usize) {
        self.opens[open].count += 1;
        if let Some(old) = self.tables[table].insert(fd, open) {
            self.let_go(old);
        }
    }

    fn let_go(&mut self, open: usize) {
        self.opens[open].count -= 1;
        if self.opens[open].count == 0 {
            self.locks.retain(|_, holder| *holder != open);
        }
    }

    fn put_free(&mut self, table: usize, open: usize) -> i64 {
        let free = (0..).find(|fd| !self.tables[table].contains_key(fd)).unwrap_or(0);
        self.put(table, free, open);
        free.into()
    }

    fn new_open(&mut self, behind: Behind, append: bool, path: &str) -> usize {
        self.opens.push(Open { behind, offset: 0, append, path: path.to_string(), count: 0 });
        self.opens.len() - 1
    }

    /// Copies a table.
    pub fn copy_table(&mut self, table: usize) -> usize {
        let copy = self.tables[table].clone();
        copy.values().for_each(|open| self.opens[*open].count += 1);
        self.tables.push(copy);
        self.tables.len() - 1
    }

    pub fn close(&mut self, table: usize, fd: i32) -> bool {
        let open = self.tables[table].remove(&fd);
        open.into_iter().for_each(|open| self.let_go(open));
        open.is_some()
    }

    /// Gives a descriptor another number.
    pub fn renumber(&mut self, table: usize, from: i32, to: i32) {
        if let Some(open) = self.tables[table].remove(&from) {
            self.put(table, to, open);
            self.opens[open].count -= 1;
        }
    }

    /// Puts a placeholder at a number.
    pub fn put_placeholder(&mut self, table: usize, fd: i32) {
        let open = self.new_open(Behind::Nothing, false, "");
        self.put(table, fd, open);
    }

    /// Moves the offset of an open file by so much.
    pub fn seek_by(&mut self, table: usize, fd: i32, by: i64) {
        if let Some(open) = self.open_of(table, fd) {
            let offset = &mut self.opens[open].offset;
            *offset = offset.saturating_add_signed(by);
        }
    }

    pub fn seek_to(&mut self, table: usize, fd: i32, offset: u64) {
        if let Some(open) = self.open_of(table, fd) {
            self.opens[open].offset = offset;
        }
    }

    /// Makes a call of a task, or goes on with it. `splits`: a long write takes two moments.
    /// `stream`: how many bytes a read of a pipe must get, if that is known.
    pub fn make(
        &mut self,
        (task, table): (usize, usize),
        op: &Op,
        splits: bool,
        stream: Option<usize>,
    ) -> Came {
        if let Some(rest) = self.halves.remove(&task) {
            self.write_bytes(rest.node, rest.at, &rest.bytes);
            if rest.moves {
                self.opens[rest.open].offset = rest.at + rest.bytes.len() as u64;
            }
            return Came::Done(Done { ret: rest.ret, ..Done::default() });
        }
        if self.is_held(table, op) {
            return Came::Blocks;
        }
        let plain = |result: Result<i64, i32>| {
            let ret = result.unwrap_or_else(|error| -i64::from(error));
            Came::Done(Done { ret, ..Done::default() })
        };
        match op {
            Op::Read { fd, len, at } => self.read(table, *fd, *len, *at, stream),
            Op::Write { fd, bytes, at } => self.write(task, table, *fd, bytes, *at, splits),
            Op::Lock { fd, how } => self.lock(table, *fd, *how),
            Op::Open { path, flags } => Came::Done(self.open(table, path, *flags)),
            Op::StatFd { fd } => match self.file_of(table, *fd) {
                Some((node, _)) => Came::Done(self.looked_at(node)),
                None => plain(Err(EBADF)),
            },
            Op::StatPath { path } => match self.node(path, true) {
                Ok(node) => Came::Done(self.looked_at(node)),
                Err(error) => plain(Err(error)),
            },
            Op::ReadLink { path } => match self.node(path, false).map(|node| &self.nodes[node]) {
                Ok(Node::Link(target)) => {
                    let (ret, out) = (target.len() as i64, target.clone().into_bytes());
                    Came::Done(Done { ret, out, file: None })
                }
                Ok(_) => plain(Err(EINVAL)),
                Err(error) => plain(Err(error)),
            },
            Op::Pipe => {
                self.pipes.push(VecDeque::new());
                let pipe = self.pipes.len() - 1;
                let ends = [Behind::ReadEnd(pipe), Behind::WriteEnd(pipe)];
                let out = ends.map(|end| {
                    let open = self.new_open(end, false, "");
                    (self.put_free(table, open) as i32).to_le_bytes()
                });
                Came::Done(Done { ret: 0, out: out.concat(), file: None })
            }
            other => plain(self.simple(table, other)),
        }
    }

    fn looked_at(&self, node: usize) -> Done {
        Done { file: Some((node, self.size(node))), ..Done::default() }
    }

    pub fn is_half_done(&self, task: usize) -> bool {
        self.halves.contains_key(&task)
    }

    /// Whether another task is in the middle of a write that keeps this call waiting.
    fn is_held(&self, table: usize, op: &Op) -> bool {
        if self.halves.is_empty() {
            return false;
        }
        let (fd, changes, moves) = match op {
            Op::Write { fd, at, .. } => (*fd, true, at.is_none()),
            Op::Read { fd, at, .. } => (*fd, false, at.is_none()),
            Op::Seek { fd, .. } => (*fd, false, true),
            Op::CutFd { fd, .. } => (*fd, true, false),
            Op::CutPath { path, .. } => return self.is_written(self.file_at(path)),
            Op::Open { path, flags } if flags & O_TRUNC != 0 => {
                return self.is_written(self.file_at(path));
            }
            _ => return false,
        };
        let Some(open) = self.open_of(table, fd) else { return false };
        let node = match self.opens[open].behind {
            Behind::Node(node) => Some(node),
            _ => None,
        };
        changes && self.is_written(node)
            || moves && self.halves.values().any(|rest| rest.moves && rest.open == open)
    }

    fn is_written(&self, node: Option<usize>) -> bool {
        node.is_some_and(|node| self.halves.values().any(|rest| rest.node == node))
    }

    fn open(&mut self, table: usize, path: &str, flags: u64) -> Done {
        let has = |flag: u64| flags & flag != 0;
        let failed = |error: i32| Done { ret: -i64::from(error), ..Done::default() };
        let node = match self.place(path, !has(O_EXCL), 0) {
            Err(error) => return failed(error),
            Ok((_, _, Some(_))) if has(O_CREAT) && has(O_EXCL) => return failed(EEXIST),
            Ok((_, _, Some(node))) => node,
            Ok((directory, name, None)) if has(O_CREAT) => {
                let node = self.add(Node::File(Vec::new()));
                self.names(directory).insert(name, node);
                node
            }
            Ok(_) => return failed(ENOENT),
        };
        match &mut self.nodes[node] {
            Node::File(bytes) if has(O_TRUNC) => bytes.clear(),
            Node::File(_) => {}
            _ => return failed(EISDIR),
        }
        let open = self.new_open(Behind::Node(node), has(O_APPEND), path);
        let ret = self.put_free(table, open);
        Done { ret, out: Vec::new(), file: Some((node, self.size(node))) }
    }

    fn read(
        &mut self,
        table: usize,
        fd: i32,
        len: usize,
        at: Option<u64>,
        stream: Option<usize>,
    ) -> Came {
        let failed = |error: i32| Came::Done(Done { ret: -i64::from(error), ..Done::default() });
        let Some(open) = self.open_of(table, fd) else { return failed(EBADF) };
        let out = match self.opens[open].behind {
            Behind::WriteEnd(_) | Behind::Nothing => return failed(EBADF),
            Behind::ReadEnd(_) if at.is_some() => return failed(libc::ESPIPE),
            Behind::ReadEnd(pipe) => {
                let end = Behind::WriteEnd(pipe);
                let is_open = self.opens.iter().any(|open| open.behind == end && open.count > 0);
                let wanted = stream.filter(|wanted| *wanted > 0);
                let bytes = &mut self.pipes[pipe];
                if is_open && bytes.len() < wanted.unwrap_or(1) {
                    return Came::Blocks;
                }
                bytes.drain(..wanted.unwrap_or(len).min(bytes.len())).collect::<Vec<u8>>()
            }
            Behind::Node(node) => {
                let place = at.unwrap_or(self.opens[open].offset) as usize;
                let Node::File(bytes) = &self.nodes[node] else { return failed(EISDIR) };
                bytes.get(place..).map_or(Vec::new(), |rest| rest[..len.min(rest.len())].to_vec())
            }
        };
        if at.is_none() {
            self.opens[open].offset += out.len() as u64;
        }
        Came::Done(Done { ret: out.len() as i64, out, file: None })
    }

    fn write(
        &mut self,
        task: usize,
        table: usize,
        fd: i32,
        bytes: &[u8],
        at: Option<u64>,
        splits: bool,
    ) -> Came {
        let done = |ret: i64| Came::Done(Done { ret, ..Done::default() });
        let Some(open) = self.open_of(table, fd) else { return done(-i64::from(EBADF)) };
        let node = match self.opens[open].behind {
            Behind::ReadEnd(_) | Behind::Nothing => return done(-i64::from(EBADF)),
            Behind::WriteEnd(_) if at.is_some() => return done(-i64::from(libc::ESPIPE)),
            Behind::WriteEnd(pipe) => {
                self.pipes[pipe].extend(bytes);
                return done(bytes.len() as i64);
            }
            Behind::Node(node) => node,
        };
        let Open { offset, append, .. } = self.opens[open];
        let place = if append { self.size(node) } else { at.unwrap_or(offset) };
        let ret = bytes.len() as i64;
        if splits && bytes.len() > UNIT {
            let (first, last) = bytes.split_at(bytes.len() / UNIT / 2 * UNIT);
            self.write_bytes(node, place, first);
            let (at, moves) = (place + first.len() as u64, at.is_none());
            let rest = Rest { node, open, moves, at, bytes: last.to_vec(), ret };
            self.halves.insert(task, rest);
            return Came::Half;
        }
        self.write_bytes(node, place, bytes);
        if at.is_none() {
            self.opens[open].offset = place + bytes.len() as u64;
        }
        done(ret)
    }

    fn write_bytes(&mut self, node: usize, at: u64, bytes: &[u8]) {
        if let Node::File(all) = &mut self.nodes[node] {
            let at = at as usize;
            all.resize(all.len().max(at + bytes.len()), 0);
            all[at..at + bytes.len()].copy_from_slice(bytes);
        }
    }

    fn lock(&mut self, table: usize, fd: i32, how: u64) -> Came {
        let done = |ret: i64| Came::Done(Done { ret, ..Done::default() });
        let Some(open) = self.open_of(table, fd) else { return done(-i64::from(EBADF)) };
        let Behind::Node(node) = self.opens[open].behind else { return done(-i64::from(EBADF)) };
        let holder = self.locks.get(&node).copied();
        if how & LOCK_UN != 0 {
            self.locks.retain(|file, holder| *file != node || *holder != open);
        } else if how & libc::LOCK_EX as u64 != 0 {
            if holder.is_some_and(|holder| holder != open) {
                return Came::Blocks;
            }
            self.locks.insert(node, open);
        }
        done(0)
    }

    /// Calls that neither wait nor let bytes out.
    fn simple(&mut self, table: usize, op: &Op) -> Result<i64, i32> {
        match op {
            Op::Close { fd } => match self.close(table, *fd) {
                true => Ok(0),
                false => Err(EBADF),
            },
            Op::Seek { fd, by, whence } => {
                let open = self.open_of(table, *fd).ok_or(EBADF)?;
                let Behind::Node(node) = self.opens[open].behind else { return Err(libc::ESPIPE) };
                let from = match *whence {
                    libc::SEEK_SET => 0,
                    libc::SEEK_CUR => self.opens[open].offset,
                    _ => self.size(node),
                };
                let to = from.checked_add_signed(*by).ok_or(EINVAL)?;
                self.opens[open].offset = to;
                Ok(to as i64)
            }
            Op::CutFd { fd, len } => {
                let open = self.open_of(table, *fd).ok_or(EBADF)?;
                let Behind::Node(node) = self.opens[open].behind else { return Err(EINVAL) };
                self.cut(node, *len)
            }
            Op::CutPath { path, len } => self.cut(self.node(path, true)?, *len),
            Op::Dup { fd } => {
                let open = self.open_of(table, *fd).ok_or(EBADF)?;
                Ok(self.put_free(table, open))
            }
            Op::DupTo { fd, to } => {
                let open = self.open_of(table, *fd).ok_or(EBADF)?;
                if fd != to {
                    self.put(table, *to, open);
                }
                Ok((*to).into())
            }
            Op::MakeDirectory { path } => self.make_name(path, Node::Directory(BTreeMap::new())),
            Op::Link { target, path } => self.make_name(path, Node::Link(target.clone())),
            Op::RemoveDirectory { path } => {
                let (directory, name, found) = self.place(path, false, 0)?;
                match &self.nodes[found.ok_or(ENOENT)?] {
                    Node::Directory(names) if names.is_empty() => {}
                    Node::Directory(_) => return Err(ENOTEMPTY),
                    _ => return Err(ENOTDIR),
                }
                self.names(directory).remove(&name);
                Ok(0)
            }
            Op::Remove { path } => {
                let (directory, name, found) = self.place(path, false, 0)?;
                if let Node::Directory(_) = &self.nodes[found.ok_or(ENOENT)?] {
                    return Err(EISDIR);
                }
                self.names(directory).remove(&name);
                Ok(0)
            }
            Op::Rename { from, to } => {
                let (directory, name, found) = self.place(from, false, 0)?;
                let found = found.ok_or(ENOENT)?;
                let (other, new, replaced) = self.place(to, false, 0)?;
                if replaced != Some(found) {
                    self.names(directory).remove(&name);
                    self.names(other).insert(new, found);
                }
                Ok(0)
            }
            Op::HardLink { from, to } => {
                let found = self.node(from, false)?;
                let (directory, name, there) = self.place(to, false, 0)?;
                if there.is_some() {
                    return Err(EEXIST);
                }
                self.names(directory).insert(name, found);
                Ok(0)
            }
            _ => Err(EINVAL),
        }
    }

    fn cut(&mut self, node: usize, len: u64) -> Result<i64, i32> {
        match &mut self.nodes[node] {
            Node::File(bytes) => bytes.resize(len as usize, 0),
            _ => return Err(EISDIR),
        }
        Ok(0)
    }

    /// All names with what they stand for; nothing of the directories themselves.
    pub fn tree(&self) -> BTreeMap<String, Node> {
        let mut all = BTreeMap::new();
        let mut left = vec![(String::new(), 0)];
        while let Some((path, directory)) = left.pop() {
            let Node::Directory(names) = &self.nodes[directory] else { continue };
            for (name, node) in names {
                let path = format!("{path}/{name}");
                let shown = match &self.nodes[*node] {
                    Node::Directory(_) => Node::Directory(BTreeMap::new()),
                    other => other.clone(),
                };
                left.push((path.clone(), *node));
                all.insert(path, shown);
            }
        }
        all
    }
}
