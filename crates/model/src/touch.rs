//! What a call did to files: which ones and which open files, where it read or wrote, what it opened
//! or cut, and how it changed names. Found once for all that want to know.

use std::rc::Rc;

use syscalls::Act;
use syscalls::abi::files::{AT_FDCWD, O_CREAT, O_EXCL, O_TRUNC, RENAME_EXCHANGE};
use syscalls::record::{RESULT, part};
use syscalls::shape::ArgKind;
use trace::event::{Call, Content, Event, EventKind, Identity};

use crate::contents::{Contents, piece};
use crate::descriptors::DescriptorTable;
use crate::effects::word_behind;
use crate::file_use::{self, FileUse, NamesUse, Sync};
use crate::namespace::{FileId, Namespace};
use crate::open_files::{Description, OpenId, Origin};
use crate::path;
use crate::step::Step;
use crate::world::World;

/// A transfer of file data by a call.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// The open file.
    pub open: OpenId,
    /// The file.
    pub file: FileId,
    /// True for a write, false for a read.
    pub is_write: bool,
    /// Offset of the first byte, `None` for a file without offsets.
    pub offset: Option<u64>,
    /// True if it was written at the end of the file, wherever that was.
    pub appends: bool,
    /// Number of bytes moved.
    pub bytes: u64,
    /// Number of bytes requested, if the call has such an argument.
    pub asked: Option<u64>,
    /// True if the data was on stable storage when the call returned.
    pub durable: bool,
}

/// What a call did to files.
#[derive(Clone, Debug, Default)]
pub struct Touch {
    /// File of its first descriptor, and the open file.
    pub by_fd: Option<(FileId, OpenId)>,
    /// Files named by its paths: those that were there, and of a path without a file what others call
    /// by it.
    pub by_path: [Option<FileId>; 2],
    /// Transfers out of a file and into a file.
    pub accesses: [Option<Access>; 2],
    /// The opened file.
    pub opened: Option<(FileId, OpenId)>,
    /// The file that the call created or may have created by opening it.
    pub created: Option<FileId>,
    /// Old and new position of a seek.
    pub seek: Option<(u64, u64)>,
    /// A file and its new length.
    pub length: Option<(FileId, u64)>,
    /// The file that has another name now.
    pub renamed: Option<FileId>,
    /// The file that no name leads to any more: it was removed, or another one has its name.
    pub gone: Option<FileId>,
    /// Directories with other entries than before.
    pub directories: [Option<FileId>; 2],
}

/// Files that a sync made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Synced {
    /// One file.
    File(FileId),
    /// Every file.
    All,
}

impl Touch {
    /// Returns what a successful sync makes durable.
    pub fn synced(&self, call: &Call) -> Option<Synced> {
        call.success()?;
        match (file_use::of(call.nr).sync, self.by_fd) {
            (Sync::All, _) => Some(Synced::All),
            (Sync::File, Some((file, _))) => Some(Synced::File(file)),
            _ => None,
        }
    }
}

/// Returns what an event did to files, and follows it. Must be called before `World::finish(step)`.
pub(crate) fn of_event(
    event: &Event,
    world: &World,
    step: &Step,
    files: &mut Namespace,
    contents: &mut dyn Contents,
) -> Touch {
    let EventKind::Call(call) = &event.kind else { return Touch::default() };
    let used = file_use::of(call.nr);
    if !used.names_files() && step.gives().next().is_none() {
        return Touch::default();
    }
    let table = world.descriptors(event.thread);
    let touch = Touch::default();
    let (table, thread) = (table.as_deref(), event.thread);
    Follow { call, used, step, world, thread, table, files, touch }.run(contents)
}

struct Follow<'a> {
    call: &'a Call,
    used: &'a FileUse,
    step: &'a Step,
    world: &'a World,
    thread: u32,
    table: Option<&'a DescriptorTable>,
    files: &'a mut Namespace,
    touch: Touch,
}

impl<'a> Follow<'a> {
    fn run(mut self, contents: &mut dyn Contents) -> Touch {
        if self.used.by_path {
            self.paths();
        }
        let first = FileUse::descriptor(self.call, self.used.fd).and_then(|fd| self.open(fd));
        self.touch.by_fd = first.map(|open| (self.file_of(open), open.id()));
        let Some(ret) = self.call.success() else { return self.touch };
        if self.used.moves {
            self.touch.accesses = [
                self.access(self.used.from, self.used.from_at, false, contents),
                self.access(self.used.to, self.used.to_at, true, contents),
            ];
        } else if self.used.seeks {
            self.touch.seek = first.map(|open| {
                let from = open.position.replace(open.position().seeked(ret as u64));
                (from.at, ret as u64)
            });
        } else {
            self.opened();
        }
        if self.used.sets_flags
            && let Some(open) = first
            && let Some(row) = syscalls::by_number(self.call.nr.into())
            && row.act_of(&self.call.args) == Act::SetStatusFlags
        {
            open.position.set(open.position().with_flags(self.call.args[2]));
        }
        let target = self.touch.by_path[0].or(self.touch.by_fd.map(|(file, _)| file));
        if let (Some(length), Some(file)) = (FileUse::value(self.call, self.used.length), target) {
            self.files.set_size(file, length);
            self.touch.length = Some((file, length));
        }
        self.touch
    }

    /// Returns the open file of a descriptor.
    fn open(&self, fd: i32) -> Option<&'a Rc<Description>> {
        self.table?.get(fd).map(|entry| entry.description)
    }

    /// Follows the files that paths lead to, and what happens to their names.
    fn paths(&mut self) {
        let (step, call) = (self.step, self.call);
        if call.success().is_none() || self.used.names == NamesUse::Nothing {
            let opened = step.gives().next().map(|(_, entry)| &entry.description);
            for (place, (arg, path)) in step.paths.iter().take(2).enumerate() {
                let file = match opened.filter(|open| self.used.opens && open.path == *path) {
                    Some(open) => self.opened_at(path, open),
                    None => self.named(*arg, path),
                };
                self.touch.by_path[place] = Some(file);
            }
            return;
        }
        let path_of = |place: usize| {
            let arg = self.used.paths[place]?.path;
            let found = step.paths.iter().find(|(of, _)| *of == arg)?;
            Some((arg, &found.1[..]))
        };
        match (self.used.names, path_of(0), path_of(1)) {
            (NamesUse::Makes, Some((_, path)), _) => {
                self.touch.by_path[0] = Some(self.files.made(path));
                self.changes_directory(0, path);
            }
            (NamesUse::Links, from, Some((_, to))) => {
                let file = from.map(|(arg, path)| self.named(arg, path));
                self.touch.by_path[0] = file;
                match file {
                    Some(file) => self.files.linked(file, to),
                    None => _ = self.files.made(to),
                }
                self.changes_directory(1, to);
            }
            (NamesUse::Renames { flags }, Some((arg, from)), Some((to_arg, to))) => {
                let from_and = (from, identity(call, arg));
                let to_and = (to, identity(call, to_arg));
                let exchanges = FileUse::value(call, flags).unwrap_or(0) & RENAME_EXCHANGE != 0;
                if exchanges {
                    let files = self.files.exchanged(from_and, to_and);
                    self.touch.by_path = files.map(Some);
                    self.touch.renamed = Some(files[0]).filter(|_| from != to);
                } else {
                    let renamed = self.files.renamed(from_and, to_and);
                    let file = Some(renamed.file);
                    self.touch.by_path = [file, renamed.replaced.map(|replaced| replaced.file)];
                    self.touch.renamed = file.filter(|_| renamed.has_moved);
                    let gone = renamed.replaced.filter(|replaced| replaced.is_gone);
                    self.touch.gone = gone.map(|gone| gone.file);
                }
                self.changes_directory(0, from);
                self.changes_directory(1, to);
            }
            (NamesUse::Removes | NamesUse::Renames { .. }, Some((arg, path)), None) => {
                let removed = self.files.removed(path, identity(call, arg));
                self.touch.by_path[0] = Some(removed.file);
                self.touch.gone = Some(removed.file).filter(|_| removed.is_gone);
                self.changes_directory(0, path);
            }
            (NamesUse::Renames { .. }, None, Some((_, to))) => {
                self.touch.by_path[0] = Some(self.files.made(to));
                self.changes_directory(1, to);
            }
            _ => {}
        }
    }

    /// Returns the file at a path argument.
    fn named(&mut self, arg: u8, path: &[u8]) -> FileId {
        if let Some(fd) = self.means_descriptor(arg, path)
            && let Some(open) = self.open(fd)
        {
            return self.file_of(open);
        }
        self.files.at(path, self.call.success().is_some(), identity(self.call, arg))
    }

    /// Returns the descriptor whose file a path argument means: by an empty path, or by the link in
    /// /proc of a file that gets a name.
    fn means_descriptor(&self, arg: u8, path: &[u8]) -> Option<i32> {
        let used = self.used.paths.iter().flatten().find(|used| used.path == arg)?;
        let fd = FileUse::descriptor(self.call, used.dir).filter(|fd| *fd != AT_FDCWD);
        let is_empty = || match piece(&self.call.data, arg, part::WHOLE, 0, false)?.content {
            Content::Inline(ref text) => Some(text.first().is_none_or(|c| *c == 0)),
            Content::Blobs { .. } => Some(false),
        };
        if fd.is_some() && is_empty() == Some(true) {
            return fd;
        }
        let makes_name = self.used.names == NamesUse::Links;
        if makes_name { self.own_descriptor(path) } else { None }
    }

    /// Returns the descriptor that a path names by its link in /proc.
    fn own_descriptor(&self, path: &[u8]) -> Option<i32> {
        path::own_descriptor(path, self.world.ids(self.thread).map_or(0, |(pid, _)| pid))
    }

    /// Returns the file that a call has opened at a path.
    fn opened_at(&mut self, path: &[u8], open: &Description) -> FileId {
        let flags = open.flags.unwrap_or(0);
        // Existing files are identified at their first use.
        let may_create = flags & O_CREAT != 0 && open.identity.is_none();
        let creates = may_create && (flags & O_EXCL != 0 || self.files.known_at(path).is_none());
        let file = match creates {
            true => self.files.made(path),
            false => self.files.at(path, true, open.identity.as_ref()),
        };
        self.touch.created = Some(file).filter(|_| creates);
        open.file.set(Some(file));
        file
    }

    /// Notes that a directory has another entry.
    fn changes_directory(&mut self, place: usize, path: &[u8]) {
        let Some(slash) = path.iter().rposition(|&c| c == b'/') else { return };
        let directory = self.files.at(&path[..slash.max(1)], true, None);
        self.touch.directories[place] = Some(directory);
    }

    /// Returns the file of an open file.
    fn file_of(&mut self, open: &Description) -> FileId {
        if let Some(file) = open.file.get() {
            return file;
        }
        let identity = open.identity.as_ref();
        let file = match open.origin {
            // Every one is another file, though all are called alike.
            Origin::Unnamed | Origin::Memory => {
                let file = self.files.unnamed(&open.path);
                identity.into_iter().for_each(|identity| self.files.identified(file, identity));
                file
            }
            _ => self.files.at(&open.path, true, identity),
        };
        open.file.set(Some(file));
        file
    }

    /// Follows what a call has opened. The first file counts if there are several.
    fn opened(&mut self) {
        for (_, given) in self.step.gives() {
            let open = &given.description;
            // What shares an open file opens none.
            let is_new = open.file.get().is_none() || self.touch.by_path[0] == open.file.get();
            if !is_new {
                continue;
            }
            let behind = || {
                let path = self.step.paths.first().filter(|_| self.used.opens)?;
                self.open(self.own_descriptor(&path.1)?)
            };
            let file = match behind() {
                Some(same) if open.file.get().is_none() && same.path == open.path => {
                    let file = self.file_of(same);
                    open.file.set(Some(file));
                    file
                }
                _ => self.file_of(open),
            };
            if self.used.opens {
                self.touch.opened = Some((file, open.id()));
                if open.flags.unwrap_or(0) & O_TRUNC != 0 {
                    self.files.set_size(file, 0);
                    self.touch.length = Some((file, 0));
                }
            }
        }
        if self.touch.created.is_some()
            && let Some((_, path)) = self.step.paths.first()
        {
            self.changes_directory(0, path);
        }
    }

    fn access(
        &mut self,
        arg: Option<u8>,
        offset: Option<u8>,
        is_write: bool,
        contents: &mut dyn Contents,
    ) -> Option<Access> {
        let bytes = self.used.moved(self.call)?;
        let open = self.open(FileUse::descriptor(self.call, arg)?)?;
        let id = self.file_of(open);
        let file = self.files.file(id);
        let (size, mut at, mut appends) = (file.size, None, false);
        if file.is_stored {
            let given = named_offset(self.call, offset, contents);
            let position = open.position();
            let begins = given.unwrap_or_else(|| position.begins(is_write, size));
            if given.is_none() {
                appends = is_write && position.appends;
                open.position.set(position.moved(is_write, size, bytes));
            }
            if is_write {
                self.files.set_size(id, size.max(begins.saturating_add(bytes)));
            }
            at = Some(begins);
        }
        let asked = FileUse::value(self.call, self.used.asked);
        let (open, durable) = (open.id(), open.is_durable());
        Some(Access { open, file: id, is_write, offset: at, appends, bytes, asked, durable })
    }
}

/// Returns what was recorded of the file of a path argument.
fn identity(call: &Call, arg: u8) -> Option<&Identity> {
    let of_arg = call.identities.iter().rev().find(|(of, _)| *of == arg && arg != RESULT);
    of_arg.map(|(_, identity)| identity)
}

/// Returns the offset that a call names: in an argument, or behind one. -1 and NULL stand for the
/// file's own.
fn named_offset(call: &Call, arg: Option<u8>, contents: &mut dyn Contents) -> Option<u64> {
    let arg = arg?;
    let row = syscalls::by_number(call.nr.into())?;
    match row.args.get(usize::from(arg))?.kind {
        ArgKind::Offset => FileUse::value(call, Some(arg)).filter(|offset| *offset != u64::MAX),
        _ => word_behind(call, arg, 0, contents),
    }
}
