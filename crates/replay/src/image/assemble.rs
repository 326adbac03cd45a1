//! Creates the image's files: directories from the root down, contents moved to their names,
//! permissions and times once a directory is complete.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::attributes::{self, Target};
use super::built::Built;
use super::error::ImageError;
use super::hidden::{self, HIDDEN};
use super::left_out;
use super::staging::{Staged, Staging};
use super::tree::{Name, NodeId, NodeKind, Tree, absolute, lengthen};
use crate::options::Fill;

/// Name of the entry put into a directory that was not empty.
const SOMETHING: &str = ".never-seen";
/// Devices of the machine that are bound into the jail.
const DEVICES: [&[u8]; 3] = [b"/dev/null", b"/dev/zero", b"/dev/full"];

/// A directory in progress.
struct Frame {
    node: NodeId,
    directory: OwnedFd,
    /// Length of its path, which does not end in a slash.
    path_len: usize,
    left: Vec<(Name, NodeId)>,
    something: bool,
}

/// Creates everything.
pub fn assemble(
    tree: &mut Tree,
    staging: &mut Staging,
    root: BorrowedFd<'_>,
    fill: &Fill,
) -> Result<Built, ImageError> {
    let names = count_names(tree);
    hidden::hide(tree, &names)?;
    let names = count_names(tree);
    let mut assembly =
        Assembly { tree, staging, fill, built: Built::default(), names, made: HashSet::new() };
    assembly.made.insert(NodeId::ROOT);
    let directory = rustix::fs::openat(root, ".", DIRECTORY, Mode::empty())
        .map_err(|error| ImageError::write(b"/", error))?;
    let mut frames = vec![assembly.frame(NodeId::ROOT, directory, 0)];
    let mut path = Vec::new();
    while let Some(frame) = frames.last_mut() {
        path.truncate(frame.path_len);
        match frame.left.pop() {
            Some((name, node)) => {
                path.push(b'/');
                path.extend_from_slice(&name);
                let below = assembly.child(frame, &name, node, &path)?;
                frames.extend(below);
            }
            None => {
                if let Some(frame) = frames.pop() {
                    assembly.done(&frame, &path)?;
                }
            }
        }
    }
    Ok(assembly.built)
}

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Number of names of each file.
fn count_names(tree: &Tree) -> HashMap<NodeId, usize> {
    let mut names = HashMap::new();
    for directory in tree.ids().filter_map(|id| tree.directory(id)) {
        for id in directory.had.values() {
            *names.entry(tree.find(*id)).or_default() += 1;
        }
    }
    names
}

/// Whether the image contains a path.
fn is_built(path: &[u8]) -> bool {
    crate::realm::is_real(path)
        || [&b"/proc"[..], b"/sys"].contains(&path)
        || crate::realm::is_at_or_below(path, HIDDEN)
}

struct Assembly<'a> {
    tree: &'a mut Tree,
    staging: &'a mut Staging,
    /// Filler for unknown bytes.
    fill: &'a Fill,
    built: Built,
    /// Number of names of each file.
    names: HashMap<NodeId, usize>,
    /// Directories that were created, and files that have their first name.
    made: HashSet<NodeId>,
}

impl Assembly<'_> {
    fn frame(&self, node: NodeId, directory: OwnedFd, path_len: usize) -> Frame {
        let known = self.tree.directory(node);
        let had = known.map(|known| &known.had).into_iter().flatten();
        let left = had.rev().map(|(name, id)| (name.clone(), self.tree.find(*id))).collect();
        let something = known.is_some_and(|known| known.had_something);
        Frame { node, directory, path_len, left, something }
    }

    /// Creates one file; for a directory, returns the frame of its content.
    fn child(
        &mut self,
        frame: &Frame,
        name: &Name,
        id: NodeId,
        path: &[u8],
    ) -> Result<Option<Frame>, ImageError> {
        // The machine's own devices are there, whatever the trace says about them.
        if !is_built(path) || DEVICES.contains(&path) {
            return Ok(None);
        }
        let node = self.tree.node(id);
        let kind = if node.kind == NodeKind::Unknown { node.guess } else { node.kind };
        let above = frame.directory.as_fd();
        let made = match kind {
            NodeKind::Directory => {
                // A directory has one name, whatever the trace says.
                if !self.made.insert(id) {
                    self.built.leave_out(left_out::SECOND);
                    return Ok(None);
                }
                return match self.directory(above, name) {
                    Ok(fd) => {
                        self.built.directories += 1;
                        Ok(Some(self.frame(id, fd, path.len())))
                    }
                    Err(error) => self.refused(path, error).map(|()| None),
                };
            }
            NodeKind::Link => self.link(above, name, id),
            NodeKind::Fifo | NodeKind::Socket | NodeKind::Device => {
                self.special(above, name, id, kind)
            }
            NodeKind::File | NodeKind::Unknown => self.file(above, name, id, path),
        };
        made.or_else(|error| self.refused(path, error)).map(|()| None)
    }

    /// Counts names and sizes that the file system does not support; other errors are fatal.
    fn refused(&mut self, path: &[u8], error: io::Error) -> Result<(), ImageError> {
        let names = [Errno::NAMETOOLONG, Errno::ILSEQ, Errno::INVAL];
        match Errno::from_io_error(&error) {
            Some(error) if names.contains(&error) => self.built.leave_out(left_out::NAME),
            Some(Errno::FBIG) => self.built.leave_out(left_out::SIZE),
            _ => return Err(ImageError::Write { path: path.to_vec(), source: error }),
        }
        Ok(())
    }

    fn directory(&self, above: BorrowedFd<'_>, name: &[u8]) -> io::Result<OwnedFd> {
        let open = || rustix::fs::openat(above, name, DIRECTORY, Mode::empty());
        match rustix::fs::mkdirat(above, name, Mode::RWXU) {
            Err(Errno::EXIST) => match open() {
                Err(Errno::NOTDIR | Errno::LOOP) => {
                    remove(above, name)?;
                    rustix::fs::mkdirat(above, name, Mode::RWXU)?;
                }
                opened => return Ok(opened?),
            },
            made => made?,
        }
        Ok(open()?)
    }

    fn link(&mut self, above: BorrowedFd<'_>, name: &[u8], id: NodeId) -> io::Result<()> {
        let node = self.tree.node(id);
        // A text that was made up should at least be as long as the recorded one.
        let target = lengthen(node.target.clone().unwrap_or_default(), node.about.length);
        if node.about.length.is_some_and(|length| length != target.len() as u64)
            && let Some(path) = self.tree.path_at_first(id)
        {
            self.built.made_up.lengths.insert(absolute(&path));
        }
        remove(above, name)?;
        rustix::fs::symlinkat(&target[..], above, name)?;
        self.built.links += 1;
        attributes::apply(Target::Name(above, name), node, NodeKind::Link, &mut self.built)
    }

    fn special(
        &mut self,
        above: BorrowedFd<'_>,
        name: &[u8],
        id: NodeId,
        kind: NodeKind,
    ) -> io::Result<()> {
        let of = match kind {
            NodeKind::Fifo => FileType::Fifo,
            NodeKind::Socket => FileType::Socket,
            _ => {
                // An empty file, for calls on its name.
                self.built.leave_out(left_out::DEVICE);
                FileType::RegularFile
            }
        };
        remove(above, name)?;
        match rustix::fs::mknodat(above, name, of, Mode::RUSR | Mode::WUSR, 0) {
            Err(Errno::PERM | Errno::OPNOTSUPP) => {
                self.built.leave_out(left_out::SPECIAL);
                return Ok(());
            }
            made => made?,
        }
        self.built.special += 1;
        let node = self.tree.node(id);
        attributes::apply(Target::Name(above, name), node, kind, &mut self.built)
    }

    fn file(
        &mut self,
        above: BorrowedFd<'_>,
        name: &[u8],
        id: NodeId,
        path: &[u8],
    ) -> io::Result<()> {
        let node = self.tree.node(id);
        let content = node.content.as_deref();
        let size = content.map_or(0, |content| content.size_at_first());
        let mut staged = content.and_then(|content| content.staged);
        let has_more_names = self.names.get(&id).is_some_and(|count| *count > 1);
        if self.made.insert(id) {
            self.built.files += 1;
            let seen = content.map_or(0, |content| content.seen.bytes().min(size));
            self.built.unknown_bytes = self.built.unknown_bytes.saturating_add(size - seen);
        } else if let Some(staged) = staged {
            return self.further_name(staged, above, name, id);
        }
        self.staging.take(0)?;
        let file = *staged.get_or_insert_with(|| self.staging.new_file(path));
        let fd = self.staging.file(file)?;
        rustix::fs::ftruncate(fd, size)?;
        if *self.fill != Fill::Zeros {
            let unseen = content.map(|content| content.seen.missing(0..size)).unwrap_or_default();
            self.staging.fill(file, &unseen, self.fill)?;
        }
        let fd = self.staging.file(file)?;
        attributes::apply(Target::Open(fd), self.tree.node(id), NodeKind::File, &mut self.built)?;
        let placed = if has_more_names {
            self.keep(id, file);
            remove(above, name)?;
            self.staging.link(file, above, name)
        } else {
            self.staging.rename(file, above, name)
        };
        match placed {
            Err(Errno::XDEV) => self.copy(file, above, name, id),
            Err(Errno::ISDIR | Errno::EXIST) => {
                remove(above, name)?;
                Ok(self.staging.rename(file, above, name)?)
            }
            placed => Ok(placed?),
        }
    }

    /// Keeps the staged content of a file that will get further names.
    fn keep(&mut self, id: NodeId, staged: Staged) {
        if let Some(content) = self.tree.content(id) {
            content.staged = Some(staged);
        }
    }

    fn further_name(
        &mut self,
        staged: Staged,
        above: BorrowedFd<'_>,
        name: &[u8],
        id: NodeId,
    ) -> io::Result<()> {
        remove(above, name)?;
        match self.staging.link(staged, above, name) {
            Err(Errno::XDEV) => {
                self.built.leave_out(left_out::NEW_LINK);
                self.copy(staged, above, name, id)
            }
            linked => Ok(linked?),
        }
    }

    /// Copies known content to another file system.
    fn copy(
        &mut self,
        staged: Staged,
        above: BorrowedFd<'_>,
        name: &[u8],
        id: NodeId,
    ) -> io::Result<()> {
        remove(above, name)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let to = rustix::fs::openat(above, name, flags, Mode::RUSR | Mode::WUSR)?;
        let node = self.tree.node(id);
        if let Some(content) = node.content.as_deref() {
            self.staging.take(content.seen.bytes())?;
            let from = self.staging.file(staged)?;
            rustix::fs::ftruncate(&to, content.size_at_first())?;
            match self.fill {
                Fill::Zeros => super::copy::ranges(from, to.as_fd(), content.seen.iter())?,
                _ => {
                    let all = 0..content.size_at_first();
                    super::copy::ranges(from, to.as_fd(), std::iter::once(all))?;
                }
            }
        }
        attributes::apply(Target::Open(to.as_fd()), node, NodeKind::File, &mut self.built)
    }

    /// Finishes a directory whose content is complete.
    fn done(&mut self, frame: &Frame, path: &[u8]) -> Result<(), ImageError> {
        let failed = |error: io::Error| ImageError::write(path, error);
        if frame.something {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::CLOEXEC;
            rustix::fs::openat(&frame.directory, SOMETHING, flags, Mode::RUSR)
                .map_err(|error| failed(error.into()))?;
        }
        let target = Target::Open(frame.directory.as_fd());
        let node = self.tree.node(frame.node);
        attributes::apply(target, node, NodeKind::Directory, &mut self.built).map_err(failed)
    }
}

/// Removes a file or directory that is in the way.
fn remove(above: BorrowedFd<'_>, name: &[u8]) -> io::Result<()> {
    match rustix::fs::unlinkat(above, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(Errno::ISDIR) => Ok(rustix::fs::unlinkat(above, name, AtFlags::REMOVEDIR)?),
        Err(error) => Err(error.into()),
    }
}
