//! Tracks which file each call accesses, and at which offset.

use std::collections::HashMap;

use model::{Contents, Moment, open_flags, realm, word_behind};
use syscalls::abi::files::{
    O_APPEND, O_CREAT, O_DSYNC, O_TRUNC, S_IFDIR, S_IFLNK, S_IFMT, S_IFREG,
};
use syscalls::record::RESULT;
use syscalls::shape::Kind;
use trace::event::{Call, EventKind, Identity};

use crate::role::{self, Role, Sync};

/// Limits for the files and for the bytes of their paths; the rest counts as one file.
const FILES_MAX: usize = 200_000;
const PATH_BYTES_MAX: usize = 32 << 20;
/// Number of open files after which closed ones are removed.
const OPEN_MAX: usize = 1 << 16;

/// Number of a file in a [`Tracker`].
pub type FileId = usize;
/// Id of the file that stands for the rest.
pub const OTHERS: FileId = 0;

/// A file, identified by the path used to open or name it.
#[derive(Clone, Debug, Default)]
pub struct File {
    /// Its path, or its name in /proc.
    pub path: Vec<u8>,
    /// True if it has bytes at offsets: not a pipe, socket or device.
    pub is_stored: bool,
    /// True if it is not a file on a disk: a pipe, a socket, a device, memory, or a kernel view.
    pub is_elsewhere: bool,
    /// Its length, as far as known from the trace.
    pub size: u64,
}

/// An open file, which several descriptors may share.
#[derive(Clone, Debug, Default)]
pub struct Open {
    /// The file.
    pub file: FileId,
    /// Address of the opening call, 0 if it was not recorded.
    pub site: u64,
    /// Number of the process that opened it.
    pub process: u32,
    position: u64,
    append: bool,
    durable: bool,
}

/// A transfer of file data by a call.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// Mark of the open file.
    pub open: u64,
    /// The file.
    pub file: FileId,
    /// True for a write, false for a read.
    pub is_write: bool,
    /// Offset of the first byte, `None` for a file without offsets.
    pub offset: Option<u64>,
    /// Number of bytes moved.
    pub bytes: u64,
    /// Number of bytes requested, if the call has such an argument.
    pub asked: Option<u64>,
    /// True if the data was on stable storage when the call returned.
    pub durable: bool,
}

/// Effects of a call on files.
#[derive(Clone, Debug, Default)]
pub struct Touch {
    /// File of its first descriptor, and the open file's mark.
    pub by_fd: Option<(FileId, u64)>,
    /// Files named by its paths.
    pub by_path: [Option<FileId>; 2],
    /// Transfers out of a file and into a file.
    pub accesses: [Option<Access>; 2],
    /// The opened file and its mark.
    pub opened: Option<(FileId, u64)>,
    /// True if the call may have created the opened file.
    may_create: bool,
    /// Old and new position of a seek.
    pub seek: Option<(u64, u64)>,
    /// A file and its new length.
    pub length: Option<(FileId, u64)>,
    /// True if the files at its paths were replaced or removed.
    pub replaced: bool,
}

/// Tracks open files through a recording.
#[derive(Default)]
pub struct Tracker {
    files: Vec<File>,
    by_path: HashMap<Vec<u8>, FileId>,
    path_bytes: usize,
    open: HashMap<u64, Open>,
    marks: u64,
    sweep_at: usize,
}

impl Tracker {
    /// Makes an empty tracker.
    pub fn new() -> Tracker {
        let others = File { path: b"(other files)".to_vec(), ..File::default() };
        Tracker { files: vec![others], sweep_at: OPEN_MAX, ..Tracker::default() }
    }

    /// Returns a file.
    pub fn file(&self, id: FileId) -> &File {
        &self.files[id]
    }

    /// Returns all files, by their numbers.
    pub fn files(&self) -> &[File] {
        &self.files
    }

    /// Returns an open file that still has a descriptor.
    pub fn open_file(&self, mark: u64) -> Option<&Open> {
        self.open.get(&mark)
    }

    /// Returns the id of the file with this path.
    pub fn number(&mut self, path: &[u8]) -> FileId {
        if let Some(known) = self.by_path.get(path) {
            return *known;
        }
        if self.files.len() >= FILES_MAX || self.path_bytes + path.len() > PATH_BYTES_MAX {
            return OTHERS;
        }
        self.path_bytes += path.len();
        let is_stored = path.first() == Some(&b'/') && realm::is_stored(path);
        let is_elsewhere = !is_stored || path.starts_with(b"/memfd:");
        self.files.push(File { path: path.to_vec(), is_stored, is_elsewhere, size: 0 });
        self.by_path.insert(path.to_vec(), self.files.len() - 1);
        self.files.len() - 1
    }

    fn identify(&mut self, file: FileId, identity: &Identity) {
        if file != OTHERS {
            let file = &mut self.files[file];
            file.is_stored = identity.mode & S_IFMT == S_IFREG && file.path.first() == Some(&b'/');
            file.is_elsewhere |= !matches!(identity.mode & S_IFMT, S_IFREG | S_IFDIR | S_IFLNK);
            file.size = file.size.max(identity.size);
        }
    }

    /// Returns the mark of a descriptor's open file.
    pub fn mark_of(&mut self, moment: &Moment<'_>, fd: i32) -> Option<u64> {
        let table = moment.world.descriptors(moment.event.thread)?;
        let description = &table.get(fd)?.description;
        let mark = description.mark.get();
        if mark != 0 && self.open.contains_key(&mark) {
            return Some(mark);
        }
        let file = self.number(&description.path);
        if let Some(identity) = &description.identity {
            self.identify(file, identity);
        }
        // For a file opened before the program began, /proc has the position.
        let thread = moment.world.thread(moment.event.thread);
        let state = thread.and_then(|t| moment.world.process(t.process)?.state.as_ref());
        let found = state.and_then(|state| state.fds.iter().find(|open| open.fd == fd));
        let mut open = Open { file, ..Open::default() };
        if let Some(found) = found {
            open.position = found.offset;
            open.append = u64::from(found.flags) & O_APPEND != 0;
            open.durable = u64::from(found.flags) & O_DSYNC != 0;
        }
        let mark = if mark == 0 { self.next_mark() } else { mark };
        description.mark.set(mark);
        self.open.insert(mark, open);
        Some(mark)
    }

    fn next_mark(&mut self) -> u64 {
        self.marks += 1;
        self.marks
    }

    /// Returns the effects of an event, and tracks them.
    pub fn touch(&mut self, moment: &Moment<'_>, contents: &mut dyn Contents) -> Touch {
        let EventKind::Call(call) = &moment.event.kind else { return Touch::default() };
        let role = role::of(call.nr);
        if role.fd.is_none() && !role.by_path && moment.step.gives().next().is_none() {
            return Touch::default();
        }
        self.look(moment, call, contents)
    }

    /// Returns the effects of a call, and tracks them.
    pub fn look(&mut self, moment: &Moment<'_>, call: &Call, contents: &mut dyn Contents) -> Touch {
        let role = role::of(call.nr);
        let mut touch = Touch::default();
        for (place, (_, path)) in touch.by_path.iter_mut().zip(&moment.step.paths) {
            *place = Some(self.number(path));
        }
        for (arg, identity) in call.identities.iter().filter(|(arg, _)| *arg != RESULT) {
            let named = moment.step.paths.iter().position(|(path_arg, _)| path_arg == arg);
            if let Some(file) = named.and_then(|at| *touch.by_path.get(at)?) {
                self.identify(file, identity);
            }
        }
        if let Some(mark) = Role::descriptor(call, role.fd).and_then(|fd| self.mark_of(moment, fd))
        {
            touch.by_fd = Some((self.open[&mark].file, mark));
        }
        let Some(ret) = call.success() else { return touch };
        if role.moves {
            touch.accesses = [
                self.access(moment, call, role, role.from, false, contents),
                self.access(moment, call, role, role.to, true, contents),
            ];
        } else if role.seeks {
            touch.seek = touch.by_fd.and_then(|(_, mark)| {
                let open = self.open.get_mut(&mark)?;
                let from = std::mem::replace(&mut open.position, ret as u64);
                Some((from, ret as u64))
            });
        } else {
            self.opened(moment, call, role, &mut touch, contents);
        }
        let target = touch.by_path[0].or(touch.by_fd.map(|(file, _)| file));
        if let (Some(length), Some(file)) = (Role::value(call, role.length), target) {
            self.set_size(file, length);
            touch.length = Some((file, length));
        }
        touch.replaced = role.renames || role.removes;
        if self.open.len() >= self.sweep_at {
            self.sweep(moment);
        }
        touch
    }

    fn set_size(&mut self, file: FileId, size: u64) {
        if file != OTHERS {
            self.files[file].size = size;
        }
    }

    fn access(
        &mut self,
        moment: &Moment<'_>,
        call: &Call,
        role: &Role,
        arg: Option<u8>,
        is_write: bool,
        contents: &mut dyn Contents,
    ) -> Option<Access> {
        let bytes = role.moved(call)?;
        let mark = self.mark_of(moment, Role::descriptor(call, arg)?)?;
        let open = self.open.get_mut(&mark)?;
        let file = self.files.get_mut(open.file)?;
        let mut offset = None;
        if file.is_stored {
            let given =
                named_offset(call, if is_write { role.to_at } else { role.from_at }, contents);
            let at = match given {
                Some(offset) => offset,
                None if is_write && open.append => file.size,
                None => open.position,
            };
            if given.is_none() {
                open.position = at.saturating_add(bytes);
            }
            if is_write {
                file.size = file.size.max(at.saturating_add(bytes));
            }
            offset = Some(at);
        }
        let (file, durable) = (open.file, open.durable);
        let asked = Role::value(call, role.asked);
        Some(Access { open: mark, file, is_write, offset, bytes, asked, durable })
    }

    fn opened(
        &mut self,
        moment: &Moment<'_>,
        call: &Call,
        role: &Role,
        touch: &mut Touch,
        contents: &mut dyn Contents,
    ) {
        let process = moment.world.thread(moment.event.thread).map_or(0, |thread| thread.process);
        let flags = open_flags(call, contents).unwrap_or(0);
        for (_, descriptor) in moment.step.gives() {
            let description = &descriptor.description;
            // A duplicated descriptor is not a new open file.
            if description.mark.get() != 0 {
                continue;
            }
            let file = self.number(&description.path);
            if let Some(identity) = &description.identity {
                self.identify(file, identity);
            }
            let mark = self.next_mark();
            description.mark.set(mark);
            let append = flags & O_APPEND != 0;
            let durable = flags & O_DSYNC != 0;
            let site = call.site;
            self.open.insert(mark, Open { file, site, process, position: 0, append, durable });
            if role.opens {
                touch.opened = Some((file, mark));
                // Existing files are identified at their first open.
                touch.may_create = flags & O_CREAT != 0 && description.identity.is_none();
            }
        }
        if let (Some((file, _)), true) = (touch.opened, flags & O_TRUNC != 0) {
            self.set_size(file, 0);
            touch.length = Some((file, 0));
        }
    }

    /// Removes open files that no descriptor refers to any more.
    fn sweep(&mut self, moment: &Moment<'_>) {
        let mut live = std::collections::HashSet::new();
        moment.world.open_files(&mut |description| {
            live.insert(description.mark.get());
        });
        live.extend(moment.step.gives().map(|(_, entry)| entry.description.mark.get()));
        self.open.retain(|mark, _| live.contains(mark));
        self.sweep_at = OPEN_MAX.max(2 * self.open.len());
    }
}

/// Returns the offset that a call names: in an argument, or behind one. -1 and NULL stand for the
/// file's own.
fn named_offset(call: &Call, arg: Option<u8>, contents: &mut dyn Contents) -> Option<u64> {
    let arg = arg?;
    let row = syscalls::by_number(call.nr.into())?;
    match row.args.get(usize::from(arg))?.kind {
        Kind::Offset => Role::value(call, Some(arg)).filter(|offset| *offset != u64::MAX),
        _ => word_behind(call, arg, 0, contents),
    }
}

impl Touch {
    /// Returns the file that the call created or may have created.
    pub fn created(&self) -> Option<FileId> {
        self.opened.filter(|_| self.may_create).map(|(file, _)| file)
    }

    /// Returns what a successful sync makes durable.
    pub fn synced(&self, call: &Call) -> Option<Synced> {
        call.success()?;
        match (role::of(call.nr).sync, self.by_fd) {
            (Sync::All, _) => Some(Synced::All),
            (Sync::File, Some((file, _))) => Some(Synced::File(file)),
            _ => None,
        }
    }
}

/// Files that a sync made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Synced {
    /// One file.
    File(FileId),
    /// Every file.
    All,
}
