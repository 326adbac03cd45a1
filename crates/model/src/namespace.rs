//! Files and their names: which file each path leads to, through renames, links, exchanges, removals
//! and creations.
//!
//! A file is the same if its recorded device and inode are. Where the trace has none, as of a file
//! that the program made, its names say which one it is: then another process that is not recorded
//! may have put another file in its place.

mod ids;
mod tree;

use std::collections::HashMap;

use syscalls::abi::files::{S_IFDIR, S_IFLNK, S_IFMT, S_IFREG};
use trace::event::Identity;

pub use self::ids::FileId;
use self::ids::NameId;
use self::tree::{NamesTree, State};
use crate::path;
use crate::realm;

/// Limits for the files, and for the bytes of paths of files without a name. Beyond the first, a file
/// made anew counts as the one that had its name before, and other new files count as one.
const FILES_MAX: usize = 200_000;
const LAST_BYTES_MAX: usize = 32 << 20;
/// Limit for the names of one file that are listed.
const NAMES_MAX: usize = 1024;

/// Device and inode.
type Inode = (u64, u64);

/// A file, directory, link, pipe, socket or device.
#[derive(Clone, Debug, Default)]
pub struct File {
    /// True if it has bytes at offsets: not a pipe, socket or device.
    pub is_stored: bool,
    /// True if it is not a file on a disk: a pipe, a socket, a device, memory, or a kernel view.
    pub is_elsewhere: bool,
    /// Its length, as far as known from the trace.
    pub size: u64,
    /// Device and inode; `None` if the trace does not have them, so that only its names tell it from
    /// other files.
    inode: Option<Inode>,
    /// Number of its hard links, if recorded.
    links: Option<u32>,
    /// Its type, if recorded.
    kind: u32,
    /// True if its name is a path.
    has_path: bool,
    /// Names that lead to it, the oldest one first.
    names: Vec<NameId>,
    /// Its last path, if no name leads to it.
    last: Box<[u8]>,
}

impl File {
    /// Whether it had a name, and has none any more.
    pub fn is_gone(&self) -> bool {
        self.has_path && self.names.is_empty()
    }
}

/// All files that a recording has named or used, and their names.
#[derive(Debug)]
pub struct Namespace {
    files: Vec<File>,
    tree: NamesTree,
    by_inode: HashMap<Inode, FileId>,
    last_bytes: usize,
}

impl Default for Namespace {
    fn default() -> Namespace {
        let others = File { last: (*b"(other files)").into(), ..File::default() };
        Namespace {
            files: vec![others],
            tree: NamesTree::default(),
            by_inode: HashMap::new(),
            last_bytes: 0,
        }
    }
}

/// Limit for the bytes of the paths of files that are kept beside each other.
const PATHS_BYTES_MAX: usize = 64 << 20;

/// Paths of many files. Beyond a limit, files get the path of [`FileId::OTHERS`].
#[derive(Debug)]
pub struct Paths<'a> {
    files: &'a Namespace,
    bytes: usize,
}

impl<'a> Paths<'a> {
    /// Begins with no path.
    pub fn of(files: &'a Namespace) -> Paths<'a> {
        Paths { files, bytes: 0 }
    }

    /// Returns a path of a file, as [`Namespace::path`] does.
    pub fn next(&mut self, file: FileId) -> Vec<u8> {
        let path = self.files.path(file);
        self.bytes += path.len();
        if self.bytes > PATHS_BYTES_MAX { self.files.path(FileId::OTHERS) } else { path }
    }
}

/// What a call did with a name that had to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Removed {
    /// The file that had the name.
    pub file: FileId,
    /// True if no name leads to it any more.
    pub is_gone: bool,
}

/// What a rename did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Renamed {
    /// The file.
    pub file: FileId,
    /// False if it had both names before, which stay.
    pub has_moved: bool,
    /// The file that had the new name.
    pub replaced: Option<Removed>,
}

impl Namespace {
    /// Returns a file.
    pub fn file(&self, id: FileId) -> &File {
        &self.files[id.index()]
    }

    /// Returns a path of a file: by its oldest name, or by the last one that it had. For what has no
    /// path, its name in /proc.
    pub fn path(&self, id: FileId) -> Vec<u8> {
        let file = self.file(id);
        match file.names.first() {
            Some(name) => self.tree.path(*name),
            None => file.last.to_vec(),
        }
    }

    /// Returns the file that a path leads to, as far as known.
    pub fn known_at(&self, path: &[u8]) -> Option<FileId> {
        self.there(self.tree.find(path)?)
    }

    fn there(&self, name: NameId) -> Option<FileId> {
        self.tree.file(name).filter(|_| self.tree.state(name) == State::There)
    }

    /// Returns the file at a path that a call names. `is_there` says that the call found it.
    pub(crate) fn at(
        &mut self,
        path: &[u8],
        is_there: bool,
        identity: Option<&Identity>,
    ) -> FileId {
        match self.tree.make(path) {
            Some(name) => self.at_name(name, path, is_there, identity),
            None => FileId::OTHERS,
        }
    }

    fn at_name(
        &mut self,
        name: NameId,
        path: &[u8],
        is_there: bool,
        identity: Option<&Identity>,
    ) -> FileId {
        let is_there = is_there || identity.is_some();
        let inode = identity.filter(|_| is_disk_path(path)).map(|id| (id.dev, id.ino));
        let known = inode.and_then(|inode| self.by_inode.get(&inode).copied());
        let file = match (self.tree.file(name), self.tree.state(name)) {
            (Some(file), State::There) => {
                let before = &self.files[file.index()];
                let is_other = inode.is_some_and(|inode| before.inode.is_some_and(|i| i != inode));
                let is_link = identity.is_some_and(|id| id.mode & S_IFMT == S_IFLNK);
                if known == Some(file) || !is_other && known.is_none() {
                    file
                } else if is_link && before.is_no_link() {
                    // The call means the link itself; other calls go through it.
                    match known {
                        Some(link) => link,
                        None => self.unnamed(path),
                    }
                } else {
                    self.leave(name);
                    self.lead(name, known, path)
                }
            }
            (Some(file), State::Absent) if known.is_none_or(|known| known == file) => {
                if is_there {
                    self.tree.set(name, Some(file), State::There);
                }
                file
            }
            (Some(file), State::Gone) if !is_there => file,
            (None, _) if !is_there => {
                let file = self.new_file(None, path);
                self.tree.set(name, Some(file).filter(|_| file != FileId::OTHERS), State::Absent);
                self.has_name(file, name);
                file
            }
            (_, State::Absent) => {
                self.leave(name);
                self.lead(name, known, path)
            }
            (_, State::There | State::Gone) => self.lead(name, known, path),
        };
        if let Some(identity) = identity {
            self.learn(file, identity, inode);
        }
        file
    }

    /// Returns a new file that a call has made at a path.
    pub(crate) fn made(&mut self, path: &[u8]) -> FileId {
        let Some(name) = self.tree.make(path) else { return FileId::OTHERS };
        match (self.tree.file(name), self.tree.state(name)) {
            (Some(file), State::Absent) => {
                self.tree.set(name, Some(file), State::There);
                file
            }
            (Some(_), State::There) => {
                self.leave(name);
                self.lead(name, None, path)
            }
            _ => self.lead(name, None, path),
        }
    }

    /// Returns a new file without a name, of which /proc shows this path.
    pub(crate) fn unnamed(&mut self, path: &[u8]) -> FileId {
        let file = self.new_file(None, path);
        if file != FileId::OTHERS {
            self.remember_last(file, path.to_vec());
        }
        file
    }

    /// Removes a name.
    pub(crate) fn removed(&mut self, path: &[u8], identity: Option<&Identity>) -> Removed {
        match self.tree.make(path) {
            Some(name) => self.removed_name(name, path, identity),
            None => Removed { file: FileId::OTHERS, is_gone: false },
        }
    }

    fn removed_name(&mut self, name: NameId, path: &[u8], identity: Option<&Identity>) -> Removed {
        let file = self.at_name(name, path, true, identity);
        let of_name = self.tree.file(name);
        if of_name != Some(file) {
            // The link itself was meant, and is gone with its name.
            self.leave(name);
            self.forget_inode(file);
            return Removed { file, is_gone: true };
        }
        Removed { file, is_gone: self.take_name(name, file) }
    }

    /// Takes a name from its file. Returns true if the file has no other one.
    fn take_name(&mut self, name: NameId, file: FileId) -> bool {
        self.detach_below(name);
        self.leave(name);
        let of = &mut self.files[file.index()];
        of.links = of.links.map(|links| links.saturating_sub(1));
        let is_gone = match of.links {
            Some(links) if of.kind != S_IFDIR => links == 0,
            _ => of.names.is_empty(),
        };
        if is_gone && file != FileId::OTHERS {
            for other in std::mem::take(&mut of.names) {
                self.tree.set(other, None, State::Absent);
            }
            self.forget_inode(file);
            // Who asks for the name later asks for this file.
            self.tree.set(name, Some(file), State::Gone);
        }
        is_gone
    }

    /// Another file may get the inode.
    fn forget_inode(&mut self, file: FileId) {
        if let Some(inode) = self.files[file.index()].inode.take() {
            self.by_inode.remove(&inode);
        }
    }

    /// Renames a file.
    pub(crate) fn renamed(
        &mut self,
        from: (&[u8], Option<&Identity>),
        to: (&[u8], Option<&Identity>),
    ) -> Renamed {
        let name = self.tree.make(from.0);
        let file = match name {
            Some(name) => self.at_name(name, from.0, true, from.1),
            None => FileId::OTHERS,
        };
        let stays = Renamed { file, has_moved: false, replaced: None };
        if from.0 == to.0 {
            return stays;
        }
        let target = self.tree.find(to.0);
        let there = match (to.1, target) {
            (Some(_), _) => Some(self.at(to.0, true, to.1)),
            (None, Some(name)) => self.there(name),
            (None, None) => None,
        };
        // Of two names of one file, none goes.
        if there == Some(file) && file != FileId::OTHERS {
            return stays;
        }
        let replaced = there.map(|_| self.removed(to.0, None));
        if let Some(target) = target.or_else(|| self.tree.find(to.0).filter(|_| there.is_some())) {
            self.detach_below(target);
            self.leave(target);
        }
        if let Some(name) = name
            && !self.tree.rename(name, to.0)
        {
            self.detach_below(name);
            self.leave(name);
        }
        Renamed { file, has_moved: true, replaced }
    }

    /// Exchanges the names of two files, and returns these.
    pub(crate) fn exchanged(
        &mut self,
        one: (&[u8], Option<&Identity>),
        other: (&[u8], Option<&Identity>),
    ) -> [FileId; 2] {
        let files = [self.at(one.0, true, one.1), self.at(other.0, true, other.1)];
        if let (Some(one), Some(other)) = (self.tree.find(one.0), self.tree.find(other.0)) {
            self.tree.exchange(one, other);
        }
        files
    }

    /// Gives a file another name.
    pub(crate) fn linked(&mut self, file: FileId, path: &[u8]) {
        let Some(name) = self.tree.make(path).filter(|_| file != FileId::OTHERS) else { return };
        if self.tree.state(name) != State::Gone {
            self.leave(name);
        }
        self.tree.set(name, Some(file), State::There);
        self.has_name(file, name);
        let of = &mut self.files[file.index()];
        of.links = of.links.map(|links| links.saturating_add(1));
    }

    pub(crate) fn set_size(&mut self, file: FileId, size: u64) {
        if file != FileId::OTHERS {
            self.files[file.index()].size = size;
        }
    }

    /// Notes what was recorded of a file.
    pub(crate) fn identified(&mut self, file: FileId, identity: &Identity) {
        let of = self.file(file);
        let is_on_disk = of.has_path && !of.is_elsewhere;
        let inode = Some((identity.dev, identity.ino)).filter(|_| is_on_disk);
        self.learn(file, identity, inode);
    }

    fn learn(&mut self, file: FileId, identity: &Identity, inode: Option<Inode>) {
        if file == FileId::OTHERS {
            return;
        }
        let of = &mut self.files[file.index()];
        of.kind = identity.mode & S_IFMT;
        of.is_stored = of.kind == S_IFREG && of.has_path;
        of.is_elsewhere |= !matches!(of.kind, S_IFREG | S_IFDIR | S_IFLNK);
        of.size = of.size.max(identity.size);
        of.links = Some(identity.nlink);
        if let Some(inode) = inode
            && of.inode != Some(inode)
        {
            let before = of.inode.replace(inode);
            before.map(|before| self.by_inode.remove(&before));
            self.by_inode.insert(inode, file);
        }
    }

    /// Has a name lead to a known file, or to a new one.
    fn lead(&mut self, name: NameId, known: Option<FileId>, path: &[u8]) -> FileId {
        let before = self.tree.file(name);
        let file = known.unwrap_or_else(|| self.new_file(before, path));
        if file == FileId::OTHERS {
            self.tree.set(name, None, State::Absent);
            return file;
        }
        self.tree.set(name, Some(file), State::There);
        self.has_name(file, name);
        file
    }

    fn has_name(&mut self, file: FileId, name: NameId) {
        let names = &mut self.files[file.index()].names;
        if file != FileId::OTHERS && names.len() < NAMES_MAX {
            names.push(name);
        }
    }

    /// Has a name lead nowhere. Its file remembers the path if it was its only one.
    fn leave(&mut self, name: NameId) {
        let Some(file) = self.tree.file(name) else { return };
        self.tree.set(name, None, State::Absent);
        let names = &mut self.files[file.index()].names;
        let had = names.len();
        names.retain(|other| *other != name);
        if names.is_empty() && had > 0 {
            let path = self.tree.path(name);
            self.remember_last(file, path);
        }
    }

    /// Has all names below a name lead nowhere: the directory is no more, and so are they.
    fn detach_below(&mut self, name: NameId) {
        for below in self.tree.all_below(name) {
            self.leave(below);
        }
        self.tree.clear_below(name);
    }

    fn remember_last(&mut self, file: FileId, path: Vec<u8>) {
        let of = &mut self.files[file.index()];
        self.last_bytes -= of.last.len();
        let has_room = self.last_bytes + path.len() <= LAST_BYTES_MAX;
        of.last = if has_room { path.into() } else { path::CUT.into() };
        self.last_bytes += of.last.len();
    }

    /// Makes a file, or returns what it is to count as.
    fn new_file(&mut self, before: Option<FileId>, path: &[u8]) -> FileId {
        if self.files.len() >= FILES_MAX {
            return before.unwrap_or(FileId::OTHERS);
        }
        let has_path = path.first() == Some(&b'/');
        let is_stored = is_disk_path(path);
        let is_elsewhere = !is_stored || path.starts_with(b"/memfd:");
        self.files.push(File { is_stored, is_elsewhere, has_path, ..File::default() });
        FileId(self.files.len() as u32 - 1)
    }
}

impl File {
    /// Returns true if it is known not to be a symbolic link.
    fn is_no_link(&self) -> bool {
        self.kind != 0 && self.kind != S_IFLNK
    }
}

/// Returns true for a path whose inode says which file it is: the kernel's views make new ones.
fn is_disk_path(path: &[u8]) -> bool {
    path.first() == Some(&b'/') && realm::is_stored(path)
}

#[cfg(test)]
mod tests;
