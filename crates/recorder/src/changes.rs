//! Follows, during the recording, which paths the program changes and which data it moves unseen.
//!
//! Only calls that can change or resolve paths are looked at. Writing needs an open for writing
//! before it, so reads and writes cost nothing here. Rings are read one after the other, so notes
//! are sorted by time before they are followed. Errors that remain (races between the program's
//! threads, descriptors received from unrecorded processes) omit a path, or list one that did not
//! change.

mod paths;
mod roles;
mod tasks;

use std::collections::HashMap;
use std::rc::Rc;

use file_tree::Inode;
use model::realm;
use model::unseen::{Look, Made, Opened, OpenedKind, Unseen};
use syscalls::abi::errno;
use syscalls::abi::files::{
    AF_UNIX, AT_FDCWD, CLOSE_RANGE_CLOEXEC, CLOSE_RANGE_UNSHARE, O_ACCMODE, O_CREAT, O_EXCL,
    O_NOFOLLOW, O_PATH, O_TMPFILE_ALONE, O_TRUNC, RENAME_EXCHANGE,
};
use syscalls::abi::tasks::{CLONE_FILES, CLONE_FS, CLONE_NEWNS};
use syscalls::record::OLD_NUMBERS;
use syscalls::shape::operand;
use syscalls::{Act, Operand};
use trace::event::{EventKind, ProcessState, StartHow};

use crate::copies::{Copies, Stretch};
use crate::rights;

pub(crate) use self::paths::{Changed, PATHS_MAX, Paths, mark};
use self::roles::{PathEffect, Roles, Shape};
pub(crate) use self::tasks::Held;
use self::tasks::{Known, Place, Shares, Tasks, is_named};

/// Maximum number of paths whose file (device and inode) is remembered.
const KNOWN_MAX: usize = 1 << 16;
/// A call that has returned, with the arguments in memory that matter.
pub(crate) struct Note {
    pub thread: u32,
    /// The user that owns the thread's arena.
    pub user: u32,
    /// Time stamps of entry and exit.
    pub enter: u64,
    pub exit: u64,
    pub nr: u16,
    pub args: [u64; 6],
    pub ret: i64,
    /// Number of operations submitted by it that are events of their own.
    pub operations: u64,
    /// Arguments in memory: the argument's index and its bytes.
    pub texts: [Option<(u8, Box<[u8]>)>; 2],
    /// The file that was at the path before the call.
    pub existed: Option<Inode>,
}

enum What {
    Call(Note),
    Start { thread: u32, how: StartHow, process: u32, parent: u32, tid: u32 },
    Image { thread: u32 },
    State { process: u32, state: Box<Known> },
    End { thread: u32 },
    Exit { process: u32 },
}

/// Number of pending notes from which they are followed. High, because sorting has a cost.
const PENDING_MAX: usize = 4096;

/// Follows which paths the recorded processes change.
pub(crate) struct Changes {
    roles: Roles,
    tasks: Tasks,
    paths: Paths,
    copies: Copies,
    unseen: Unseen,
    /// The file opened by a path, where an IDENTITY named it: agents report each file once.
    known: HashMap<Box<[u8]>, Inode>,
    /// Notes not followed yet, with the time at which each takes effect.
    pending: Vec<(u64, What)>,
}

impl Changes {
    pub fn new() -> Changes {
        Changes {
            roles: Roles::new(),
            tasks: Tasks::default(),
            paths: Paths::default(),
            copies: Copies::default(),
            unseen: Unseen::new(),
            known: HashMap::new(),
            pending: Vec::new(),
        }
    }

    /// Whether calls with this number and these arguments matter.
    #[inline]
    pub fn follows(&self, nr: u16, args: &[u64; 6]) -> bool {
        match self.roles.of(nr).role {
            PathEffect::None => nr & OLD_NUMBERS != 0,
            PathEffect::Unseen => Unseen::follows(nr, args),
            _ => true,
        }
    }

    /// Whether the bytes behind this argument are needed.
    #[inline]
    pub fn wants(&self, nr: u16, arg: u8) -> bool {
        self.roles.of(nr).wants(arg)
    }

    /// Takes a call for which [`Changes::follows`] is true.
    pub fn call(&mut self, note: Note) {
        let failed = errno::is_error(note.ret);
        let role = self.roles.of(note.nr).role;
        // A descriptor is released even when close reports an error.
        if failed && role != PathEffect::Close {
            return;
        }
        // Close takes effect when it begins, as the number may be reused at once; others when they
        // end.
        let at = if role == PathEffect::Close { note.enter } else { note.exit };
        self.pending.push((at, What::Call(note)));
    }

    /// Takes an event other than a call.
    pub fn event(&mut self, thread: u32, tsc: u64, kind: &EventKind) {
        let what = match kind {
            &EventKind::Start { how, process, parent, tid, .. } => {
                What::Start { thread, how, process, parent, tid }
            }
            EventKind::Image { .. } => What::Image { thread },
            EventKind::State(state) => {
                let ProcessState { process, uids, cwd, root, fds, .. } = &**state;
                let known = Known {
                    user: rights::user_of(uids),
                    cwd: cwd.clone(),
                    root: root.clone(),
                    fds: fds.clone(),
                };
                What::State { process: *process, state: Box::new(known) }
            }
            EventKind::End { .. } => What::End { thread },
            EventKind::Exit { process, .. } => What::Exit { process: *process },
            _ => return,
        };
        self.pending.push((tsc, what));
    }

    /// Follows what happened before `until`, once enough is pending. Nothing older may come later.
    pub fn settle(&mut self, until: u64) {
        if self.pending.len() >= PENDING_MAX {
            self.follow_until(until);
        }
    }

    fn follow_until(&mut self, until: u64) {
        let mut pending = std::mem::take(&mut self.pending);
        // The events of a single thread are sorted already.
        if !pending.is_sorted_by_key(|(tsc, _)| *tsc) {
            pending.sort_by_key(|(tsc, _)| *tsc);
        }
        let ready = pending.partition_point(|(tsc, _)| *tsc < until);
        for (tsc, what) in pending.drain(..ready) {
            self.follow(tsc, what);
        }
        self.pending = pending;
    }

    /// Follows the rest and returns the result.
    pub fn finish(mut self) -> Followed {
        self.follow_until(u64::MAX);
        Followed { paths: self.paths, copies: self.copies, unseen: self.unseen }
    }

    fn follow(&mut self, tsc: u64, what: What) {
        match what {
            What::Call(note) => self.follow_call(&note),
            What::Start { thread, how, process, parent, tid } => {
                if let Some(state) = self.tasks.start(thread, how, process, parent, tid) {
                    self.state(process, state.0, state.1);
                }
            }
            What::Image { thread } => {
                if let Some(process) = self.tasks.process(thread) {
                    self.unseen.gone(process);
                }
                self.tasks.image(thread);
            }
            What::State { process, state } => self.state(process, tsc, state),
            What::End { thread } => self.tasks.end(thread),
            What::Exit { process } => {
                self.unseen.gone(process);
                self.tasks.exit(process);
            }
        }
    }

    fn state(&mut self, process: u32, tsc: u64, state: Box<Known>) {
        let foreign = state.root != b"/";
        self.paths.user = state.user;
        for open in &state.fds {
            let writable = u64::from(open.flags) & O_ACCMODE != 0;
            let is_path_only = u64::from(open.flags) & O_PATH != 0;
            if writable && !is_path_only && !foreign && is_named(&open.target) {
                self.paths.touch(&open.target);
            }
        }
        self.tasks.state(process, tsc, state);
    }

    fn follow_call(&mut self, note: &Note) {
        let shape = self.roles.of(note.nr);
        let (thread, args) = (note.thread, &note.args);
        self.paths.user = note.user;
        match shape.role {
            PathEffect::None => self.unseen(note),
            PathEffect::Open => self.open(&shape, note),
            PathEffect::Change => {
                let through = !shape.means_link(note);
                for path in self.changed(&shape, note) {
                    self.paths.touch(&path);
                    if through {
                        self.paths.mark(&path, mark::THROUGH);
                    }
                }
            }
            PathEffect::Remove => {
                for path in self.changed(&shape, note) {
                    self.known.remove(&path);
                    self.paths.removed(&path);
                }
            }
            PathEffect::Rename => {
                let [Some(from), Some(to)] = self.both_kept(&shape, note) else { return };
                let files = [self.known.remove(&from), self.known.remove(&to)];
                self.know(&to, files[0]);
                match shape.flags.is_some_and(|arg| note.arg(arg) & RENAME_EXCHANGE != 0) {
                    true => {
                        self.know(&from, files[1]);
                        self.paths.exchanged(&from, &to);
                    }
                    false => self.paths.renamed(&from, &to),
                }
            }
            PathEffect::Link => {
                let [from, Some(to)] = self.both_kept(&shape, note) else { return };
                self.paths.linked(from.as_deref(), &to);
            }
            PathEffect::Duplicate => {
                let row = syscalls::by_number(u64::from(note.nr));
                if row.is_none_or(|row| row.act_of(args) != Act::Duplicate) {
                    return;
                }
                let Some(held) = self.tasks.held(thread, args[0] as i32) else { return };
                self.tasks.install(thread, note.ret as i32, Held { since: note.exit, ..held });
            }
            PathEffect::Close => self.tasks.close(thread, args[0] as i32, note.enter),
            PathEffect::CloseRange => {
                if args[2] & CLOSE_RANGE_UNSHARE != 0 {
                    self.tasks.unshare(thread, true, false);
                }
                if args[2] & CLOSE_RANGE_CLOEXEC == 0 {
                    self.tasks.close_range(thread, args[0] as u32, args[1] as u32, note.enter);
                }
            }
            PathEffect::Chdir => {
                if let [Some(path), _] = self.both(&shape, note) {
                    self.tasks.change_place(thread, |place| place.cwd = path.into());
                }
            }
            PathEffect::Fchdir => {
                if let Some(path) = self.tasks.descriptor(thread, args[0] as i32) {
                    self.tasks.change_place(thread, |place| place.cwd = path);
                }
            }
            PathEffect::Root => {
                let kept = matches!(self.both(&shape, note), [Some(path), None] if *path == *b"/");
                if !kept {
                    self.tasks.change_place(thread, Place::leave);
                }
            }
            PathEffect::Unshare => {
                let (files, place) = (args[0] & CLONE_FILES != 0, args[0] & CLONE_FS != 0);
                // A new mount namespace unshares the working directory too.
                let namespace = args[0] & CLONE_NEWNS != 0;
                self.tasks.unshare(thread, files, place || namespace);
                if namespace {
                    self.tasks.change_place(thread, Place::leave);
                }
            }
            PathEffect::EnterNamespace => {
                if args[1] == 0 || args[1] & CLONE_NEWNS != 0 {
                    self.tasks.unshare(thread, false, true);
                    self.tasks.change_place(thread, Place::leave);
                }
            }
            PathEffect::Spawn => {
                let flags = match shape.memory {
                    Some(arg) => {
                        note.text(arg).and_then(|bytes| bytes.first_chunk()).map_or(0, word)
                    }
                    None => shape.flags.map_or(0, |arg| note.arg(arg)),
                };
                let shares =
                    Shares { files: flags & CLONE_FILES != 0, place: flags & CLONE_FS != 0 };
                self.tasks.spawned(thread, note.ret, shares, flags & CLONE_NEWNS != 0);
            }
            PathEffect::Unseen => {
                self.unseen(note);
                self.copy(note);
            }
            PathEffect::Bind => {
                let address = shape.memory.and_then(|arg| note.text(arg)).unwrap_or_default();
                let Some(name) =
                    address.strip_prefix(&AF_UNIX.to_le_bytes()).filter(|name| !name.is_empty())
                else {
                    return;
                };
                // A name that begins with NUL is abstract: it has no path.
                if name[0] != 0
                    && let Some(path) = self.tasks.resolve(thread, AT_FDCWD, until_nul(name))
                {
                    self.touch(thread, &path);
                }
            }
        }
    }

    fn open(&mut self, shape: &Shape, note: &Note) {
        let thread = note.thread;
        let open = syscalls::by_number(u64::from(note.nr)).and_then(|row| row.open);
        let behind = |arg, at: u8| note.text(arg)?.get(usize::from(at)..)?.first_chunk().map(word);
        let flags = open.map_or(0, |open| open.of(&note.args, behind));
        let fd = note.ret as i32;
        let [Some(path), _] = self.both(shape, note) else {
            return self.tasks.close(thread, fd, note.exit);
        };
        if flags & O_TMPFILE_ALONE != 0 && flags & O_ACCMODE != 0 {
            // O_TMPFILE: a file without a name.
            return self.tasks.close(thread, fd, note.exit);
        }
        let changing = O_ACCMODE | O_CREAT | O_TRUNC;
        let writes = flags & changing != 0 && flags & O_PATH == 0;
        if writes && self.touch(thread, &path) {
            if flags & (O_NOFOLLOW | O_EXCL) == 0 {
                self.paths.mark(&path, mark::THROUGH);
            }
            let made = flags & O_CREAT != 0 && note.existed.is_none();
            let new = flags & O_EXCL != 0 || !self.paths.was_touched();
            if flags & O_TRUNC != 0 || (made && new) {
                self.paths.mark(&path, mark::FRESH);
            }
        }
        let made = flags & O_CREAT != 0 && note.existed.is_none();
        if made && flags & O_EXCL != 0 {
            self.known.remove(&path);
        }
        self.know(&path, note.existed);
        let inode = self.known.get(&path).copied();
        let held = Held { since: note.exit, path: Rc::from(path), inode, user: note.user };
        self.tasks.install(thread, fd, held);
    }

    /// Remembers which file a path leads to, if that is known.
    fn know(&mut self, path: &[u8], file: Option<Inode>) {
        if let Some(file) = file
            && (self.known.len() < KNOWN_MAX || self.known.contains_key(path))
        {
            self.known.insert(path.into(), file);
        }
    }

    /// Passes on a call that may move data unseen.
    fn unseen(&mut self, note: &Note) {
        let process = self.tasks.process(note.thread).unwrap_or(0);
        let Note { nr, args, ret, operations, .. } = note;
        let made = Made { nr: *nr, args, ret: *ret, process, operations: *operations };
        self.unseen.call(&made, &mut Noted { tasks: &self.tasks, note });
        for file in self.unseen.take_stored() {
            if !self.tasks.is_foreign(note.thread) && realm::is_stored(&file) {
                self.paths.mapped(&file);
            }
        }
    }

    /// Notes a call by which the kernel may copy between files.
    fn copy(&mut self, note: &Note) {
        let Some(row) = syscalls::by_number(u64::from(note.nr)) else { return };
        let offset = |arg: Option<u8>| {
            let bytes = arg.and_then(|arg| note.text(arg)).and_then(|bytes| bytes.first_chunk());
            bytes.map(word)
        };
        let value = |wanted| row.value_of(&note.args, wanted).unwrap_or(u64::MAX);
        let moved = u64::try_from(note.ret).unwrap_or(0);
        let (from, to, stretch) = match row.act_of(&note.args) {
            Act::Copy if moved == 0 => return,
            Act::Copy => {
                let stretch = match offset(operand(row.args, Operand::SourceAt)) {
                    Some(start) => Stretch::At(start..start.saturating_add(moved)),
                    None => Stretch::Somewhere(moved),
                };
                (value(Operand::Source), value(Operand::Target), stretch)
            }
            Act::CloneFile => (value(Operand::Source), value(Operand::Target), Stretch::All),
            Act::CloneRange => {
                let (words, _) = note.text(2).unwrap_or_default().as_chunks::<8>();
                let [fd, start, len, ..] = words else { return };
                let [fd, start, len] = [fd, start, len].map(word);
                let stretch = match len {
                    0 => Stretch::All,
                    len => Stretch::At(start..start.saturating_add(len)),
                };
                (fd, value(Operand::Target), stretch)
            }
            _ => return,
        };
        if self.tasks.is_foreign(note.thread) {
            return;
        }
        let held = |fd: u64| self.tasks.held(note.thread, fd as i32);
        let kept = |held: &Held| realm::is_stored(&held.path);
        if let Some(source) = held(from).filter(kept) {
            let target = held(to).filter(kept);
            self.copies.note(&source, target.as_ref(), stretch, note.enter);
        }
    }

    /// Notes that a path was changed. False if changes of that path are not kept.
    fn touch(&mut self, thread: u32, path: &[u8]) -> bool {
        if !realm::is_stored(path) {
            return false;
        }
        if self.tasks.is_foreign(thread) || model::path::is_cut(path) {
            self.paths.left_out += 1;
            return false;
        }
        self.paths.touch(path);
        true
    }

    /// Paths that a call changes and that are kept: those it names, else that of its descriptor.
    fn changed(&mut self, shape: &Shape, note: &Note) -> impl Iterator<Item = Box<[u8]>> + use<> {
        let mut named = self.both(shape, note);
        if shape.paths[0].is_none()
            && let Some(path) =
                shape.fd.and_then(|arg| self.tasks.descriptor(note.thread, note.arg(arg) as i32))
        {
            named[0] = Some(path.as_ref().into());
        }
        self.kept(note.thread, named).into_iter().flatten()
    }

    /// Paths that a call names, without those that are not kept.
    fn both_kept(&mut self, shape: &Shape, note: &Note) -> [Option<Box<[u8]>>; 2] {
        let named = self.both(shape, note);
        self.kept(note.thread, named)
    }

    fn kept(&mut self, thread: u32, named: [Option<Box<[u8]>>; 2]) -> [Option<Box<[u8]>>; 2] {
        let stored = named.map(|path| path.filter(|path| realm::is_stored(path)));
        let is_too_long = stored.iter().flatten().any(|path| model::path::is_cut(path));
        if is_too_long || self.tasks.is_foreign(thread) {
            self.paths.left_out += stored.iter().flatten().count() as u64;
            return [None, None];
        }
        stored
    }

    /// Paths that a call names, as far as they can be resolved.
    fn both(&self, shape: &Shape, note: &Note) -> [Option<Box<[u8]>>; 2] {
        shape.paths.map(|arg| {
            let arg = arg?;
            let dir = arg.dir.map_or(AT_FDCWD, |dir| note.arg(dir) as i32);
            let text = note.text(arg.path);
            if text.is_none() && dir == AT_FDCWD {
                return None;
            }
            // A missing or empty path stands for the directory descriptor itself.
            self.tasks.resolve(note.thread, dir, until_nul(text.unwrap_or_default()))
        })
    }
}

/// Result of following a whole recording.
pub(crate) struct Followed {
    pub paths: Paths,
    pub copies: Copies,
    pub unseen: Unseen,
}

/// A noted call, to look up its descriptors. Names are the paths by which files were opened; other
/// descriptors have none.
struct Noted<'a> {
    tasks: &'a Tasks,
    note: &'a Note,
}

impl Look for Noted<'_> {
    fn opened(&self, fd: i32) -> Option<Opened> {
        let name = self.tasks.descriptor(self.note.thread, fd).map(|path| path.to_vec());
        // The kind does not matter here: whatever has no path is followed by the trace's readers.
        let kind = name.as_ref().map_or(OpenedKind::Pipe, |name| OpenedKind::of_path(name));
        Some(Opened { name: name.unwrap_or_default(), kind })
    }

    fn program(&self) -> Vec<u8> {
        Vec::new()
    }

    fn memory(&mut self, arg: u8, max: usize) -> Option<Vec<u8>> {
        self.note.text(arg).map(|bytes| bytes[..bytes.len().min(max)].to_vec())
    }
}

impl Shape {
    /// Whether a call acts on a symbolic link at the end of its path, not on its target.
    fn means_link(&self, note: &Note) -> bool {
        let path = self.paths[0];
        path.is_some_and(|path| syscalls::paths::means_link(note.nr, path.path, &note.args))
    }
}

impl Note {
    fn arg(&self, number: u8) -> u64 {
        self.args.get(usize::from(number)).copied().unwrap_or(0)
    }

    fn text(&self, arg: u8) -> Option<&[u8]> {
        let found = self.texts.iter().flatten().find(|(number, _)| *number == arg);
        found.map(|(_, bytes)| &**bytes)
    }
}

fn word(bytes: &[u8; 8]) -> u64 {
    u64::from_le_bytes(*bytes)
}

fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}

#[cfg(test)]
mod tests;
