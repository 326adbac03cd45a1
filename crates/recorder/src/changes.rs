//! Follows, during the recording, which paths the program changes and which data it moves unseen.
//!
//! The model's world resolves paths and descriptors, as for the trace's readers. Only calls that can
//! change or resolve paths are looked at. Writing needs an open for writing before it, so reads and
//! writes cost nothing here. Rings are read one after the other, so events are sorted by time before
//! they are followed. Errors that remain (races between the program's threads, descriptors received
//! from unrecorded processes) omit a path, or list one that did not change.

mod followed;
mod note;
mod paths;

use std::borrow::Cow;
use std::collections::HashMap;
use std::rc::Rc;

use file_tree::Inode;
use model::file_use::{self, FileUse, NamesUse};
use model::unseen::{Look, Made, Opened, OpenedKind, Unseen};
use model::{
    Contents, Description, InlineOnly, OpenTable, Origin, Step, World, realm, word_behind,
};
use syscalls::abi::errno;
use syscalls::abi::files::{
    AF_UNIX, O_ACCMODE, O_CREAT, O_EXCL, O_NOFOLLOW, O_PATH, O_TRUNC, RENAME_EXCHANGE,
};
use syscalls::shape::{OffsetIs, offset_of};
use syscalls::{Act, Operand};
use trace::event::{Call, Content, Event, EventKind, Outcome, ProcessState};

use self::followed::Followed;
pub(crate) use self::note::{Memory, Note};
pub(crate) use self::paths::{Changed, PATHS_MAX, Paths, mark};
use crate::copies::{Copies, Place, Stretch};
use crate::rights;

/// Maximum number of paths whose file (device and inode) is remembered.
const KNOWN_MAX: usize = 1 << 16;

/// Number of pending events from which they are followed. High, because sorting has a cost.
const PENDING_MAX: usize = 4096;

enum What {
    Call(Note),
    Event(Box<Event>),
    /// A process was killed that had mapped a file: not all of its stores are in the trace.
    Mapped {
        process: u32,
        file: Vec<u8>,
    },
}

/// What is known of an open file beside its path.
struct Opening {
    /// When the call that opened it returned.
    since: u64,
    /// Device and inode, if recorded.
    inode: Option<Inode>,
    /// The user who opened it.
    user: u32,
}

/// Follows which paths the recorded processes change.
pub(crate) struct Changes {
    followed: Followed,
    world: World,
    openings: OpenTable<Opening>,
    paths: Paths,
    copies: Copies,
    unseen: Unseen,
    /// The file opened by a path, where an IDENTITY named it: agents report each file once.
    known: HashMap<Box<[u8]>, Inode>,
    /// What is not followed yet, with its time.
    pending: Vec<(u64, What)>,
    /// Whether these are in the order of time.
    is_sorted: bool,
    /// The latest time of those that came since the last look.
    latest: u64,
    /// Time stamp of the last event that was followed.
    now: u64,
}

impl Changes {
    pub fn new() -> Changes {
        Changes {
            followed: Followed::new(),
            world: World::keeping_spelling(),
            openings: OpenTable::default(),
            paths: Paths::default(),
            copies: Copies::default(),
            unseen: Unseen::new(),
            known: HashMap::new(),
            pending: Vec::new(),
            is_sorted: true,
            latest: 0,
            now: 0,
        }
    }

    /// Whether calls with this number and these arguments matter.
    #[inline]
    pub fn follows(&self, nr: u16, args: &[u64; 6]) -> bool {
        self.followed.follows(nr, args)
    }

    /// Whether the bytes behind this argument are needed.
    #[inline]
    pub fn wants(&self, nr: u16, arg: u8) -> bool {
        self.followed.wants(nr, arg)
    }

    /// Takes a call for which [`Changes::follows`] is true, with the memory that it wants.
    pub fn call(&mut self, note: Note) {
        let failed = matches!(note.outcome, Outcome::Returned { ret, .. } if errno::is_error(ret));
        // A descriptor is released even when close reports an error, and who creates a task may be
        // killed meanwhile.
        let matters = match (act_of(note.nr, &note.args), note.outcome) {
            (Act::Close, _) => true,
            (Act::Spawn, _) => !failed,
            (_, Outcome::Returned { .. }) => !failed,
            (_, Outcome::Unfinished) => false,
        };
        if matters {
            self.note(note.enter, What::Call(note));
        }
    }

    /// Takes an event other than a call.
    pub fn event(&mut self, thread: u32, tsc: u64, kind: &EventKind) {
        let kind = match kind {
            EventKind::Image { tid, .. } => EventKind::Image { tid: *tid, data: Vec::new() },
            EventKind::Start { .. }
            | EventKind::State(_)
            | EventKind::End { .. }
            | EventKind::Exit { .. } => kind.clone(),
            _ => return,
        };
        self.note(tsc, What::Event(Box::new(Event::new(thread, tsc, kind))));
    }

    /// Takes a file that a process, which was killed, may have stored to since the last collection.
    pub fn mapped(&mut self, process: u32, tsc: u64, file: Vec<u8>) {
        self.note(tsc, What::Mapped { process, file });
    }

    /// Takes an operation that was found completed late.
    pub fn late(&mut self, nr: u16, ret: i64) {
        self.unseen.late(nr, ret, &[]);
    }

    /// Takes an operation that was completed and whose submission was not seen.
    pub fn unsubmitted(&mut self) {
        self.unseen.unsubmitted(0, &[]);
    }

    /// More paths have changed than are known.
    pub fn too_many(&mut self) {
        self.paths.truncated = true;
    }

    fn note(&mut self, tsc: u64, what: What) {
        // The events of a single thread are sorted already.
        self.is_sorted &= self.pending.last().is_none_or(|(last, _)| *last <= tsc);
        self.latest = self.latest.max(tsc);
        self.pending.push((tsc, what));
    }

    /// Follows what began before `until`, once enough is pending. Nothing older may come later, but
    /// for calls that took long. Nothing is later than `now`, whatever a program has written to its ring.
    pub fn settle(&mut self, until: u64, now: u64) {
        if self.pending.len() < PENDING_MAX {
            return;
        }
        if std::mem::take(&mut self.latest) > now {
            for (tsc, what) in self.pending.iter_mut().filter(|(tsc, _)| *tsc > now) {
                *tsc = now;
                match what {
                    What::Call(note) => note.enter = note.enter.min(now),
                    What::Event(event) => event.tsc = event.tsc.min(now),
                    What::Mapped { .. } => {}
                }
            }
            self.is_sorted = false;
        }
        self.follow_until(until);
    }

    fn follow_until(&mut self, until: u64) {
        let mut pending = std::mem::take(&mut self.pending);
        if !std::mem::replace(&mut self.is_sorted, true) {
            pending.sort_by_key(|(tsc, _)| *tsc);
        }
        let ready = pending.partition_point(|(tsc, _)| *tsc < until);
        // The memory of one event serves all calls.
        let mut event = Event::default();
        for (_, what) in pending.drain(..ready) {
            match what {
                What::Call(note) => {
                    note.give(&mut event);
                    self.follow_call(&note, &event);
                }
                What::Event(event) => self.follow_event(&event),
                What::Mapped { process, file } => self.stored_to(process, &file),
            }
        }
        self.pending = pending;
    }

    /// Follows the rest and returns the result.
    pub fn finish(mut self) -> Outcomes {
        self.follow_until(u64::MAX);
        self.paths.truncated |= self.world.left_out() != 0;
        Outcomes { paths: self.paths, copies: self.copies, unseen: self.unseen }
    }

    fn follow_event(&mut self, event: &Event) {
        if let EventKind::State(state) = &event.kind {
            self.state(state);
        }
        let step = self.step(event);
        match &event.kind {
            EventKind::Image { .. } => {
                if let Some(thread) = self.world.thread(event.thread) {
                    self.unseen.gone(thread.process);
                }
            }
            EventKind::Exit { process, .. } => self.unseen.gone(*process),
            _ => {}
        }
        self.world.finish(step);
    }

    fn follow_call(&mut self, note: &Note, event: &Event) {
        let EventKind::Call(call) = &event.kind else { return };
        if note.enter < self.now && self.closes_newer(note) {
            return;
        }
        self.paths.user = note.user;
        let step = self.step(event);
        self.changes_of(&At { note, step: &step }, call);
        self.world.finish(step);
    }

    fn step(&mut self, event: &Event) -> Step {
        self.now = self.now.max(event.tsc);
        let step = self.world.step(event, &mut InlineOnly);
        let openings = &mut self.openings;
        self.world.closed_files(&mut |id| _ = openings.remove(&id));
        step
    }

    /// Whether a call is a close that took long, and its number was given anew meanwhile.
    fn closes_newer(&self, note: &Note) -> bool {
        let open = || self.open_file(note.thread, note.args[0] as i32);
        let since = || self.openings.get(&open()?.id()).map(|opening| opening.since);
        act_of(note.nr, &note.args) == Act::Close && since().is_some_and(|since| since > note.enter)
    }

    /// Notes the files that a program may write from its beginning.
    fn state(&mut self, state: &ProcessState) {
        self.paths.user = rights::user_of(&state.uids);
        for open in state.fds.iter().filter(|_| state.root == b"/") {
            let writable = u64::from(open.flags) & O_ACCMODE != 0;
            let is_path_only = u64::from(open.flags) & O_PATH != 0;
            if writable && !is_path_only && is_named(&open.target) {
                self.paths.touch(&open.target);
            }
        }
    }

    fn changes_of(&mut self, at: &At<'_>, call: &Call) {
        let used = file_use::of(call.nr);
        match used.names {
            NamesUse::Removes => {
                for path in self.kept(at, self.named(at, call)).into_iter().flatten() {
                    self.known.remove(&*path);
                    self.paths.removed(&path);
                }
            }
            NamesUse::Renames { flags } => {
                let [Some(from), Some(to)] = self.kept(at, self.named(at, call)) else { return };
                let files = [self.known.remove(&*from), self.known.remove(&*to)];
                self.know(&to, files[0]);
                match FileUse::value(call, flags).unwrap_or(0) & RENAME_EXCHANGE != 0 {
                    true => {
                        self.know(&from, files[1]);
                        self.paths.exchanged(&from, &to);
                    }
                    false => self.paths.renamed(&from, &to),
                }
            }
            NamesUse::Links => {
                let [from, Some(to)] = self.kept(at, self.named(at, call)) else { return };
                self.paths.linked(from.as_deref(), &to);
            }
            NamesUse::Makes | NamesUse::Nothing if used.opens => self.opened(at, call),
            NamesUse::Makes | NamesUse::Nothing => match act_of(call.nr, &call.args) {
                Act::Bind => self.bound(at, call),
                _ if Unseen::follows(call.nr, &call.args) => {
                    self.unseen(at, call);
                    self.copy(at, call);
                }
                _ if used.changes => self.changed(at, call, used),
                _ => {}
            },
        }
    }

    fn changed(&mut self, at: &At<'_>, call: &Call, used: &FileUse) {
        let mut named = self.named(at, call);
        let path = used.paths[0];
        if path.is_none() {
            let fd = FileUse::descriptor(call, used.fd);
            named[0] = fd.and_then(|fd| self.path_of(at.note.thread, fd)).map(Cow::Owned);
        }
        let through = !path.is_some_and(|path| path.link.is_meant(&call.args));
        for path in self.kept(at, named).into_iter().flatten() {
            self.paths.touch(&path);
            if through {
                self.paths.mark(&path, mark::THROUGH);
            }
        }
    }

    fn opened(&mut self, at: &At<'_>, call: &Call) {
        let Some((_, given)) = at.step.gives().next() else { return };
        let open = &given.description;
        if open.origin != Origin::Path && !is_named(&open.path) {
            return;
        }
        let path = &open.path[..];
        let flags = open.flags.unwrap_or(0);
        let made = flags & O_CREAT != 0 && at.note.existed.is_none();
        let changing = O_ACCMODE | O_CREAT | O_TRUNC;
        let writes = flags & changing != 0 && flags & O_PATH == 0;
        if writes && self.touch(at.note.thread, path) {
            if flags & (O_NOFOLLOW | O_EXCL) == 0 {
                self.paths.mark(path, mark::THROUGH);
            }
            let new = flags & O_EXCL != 0 || !self.paths.was_touched();
            if flags & O_TRUNC != 0 || (made && new) {
                self.paths.mark(path, mark::FRESH);
            }
        }
        if made && flags & O_EXCL != 0 {
            self.known.remove(path);
        }
        self.know(path, at.note.existed);
        let inode = self.known.get(path).copied();
        let Outcome::Returned { exit_tsc, .. } = call.outcome else { return };
        self.openings.insert(open.id(), Opening { since: exit_tsc, inode, user: at.note.user });
    }

    /// Remembers which file a path leads to, if that is known.
    fn know(&mut self, path: &[u8], file: Option<Inode>) {
        if let Some(file) = file
            && (self.known.len() < KNOWN_MAX || self.known.contains_key(path))
        {
            self.known.insert(path.into(), file);
        }
    }

    /// Notes the path that a socket is bound to, if it is one.
    fn bound(&mut self, at: &At<'_>, call: &Call) {
        let address = call.data.iter().find_map(|data| match &data.content {
            Content::Inline(bytes) => Some(&bytes[..]),
            Content::Blobs { .. } => None,
        });
        let name = address.and_then(|address| address.strip_prefix(&AF_UNIX.to_le_bytes()));
        let name = name.and_then(|name| name.split(|&byte| byte == 0).next()).unwrap_or_default();
        // A name that begins with NUL is abstract: it has no path.
        let is_relative = name.first().is_some_and(|&first| first != b'/');
        if name.is_empty() || is_relative && self.world.cwd(at.note.thread).is_empty() {
            return;
        }
        let path = self.world.locate(at.note.thread, name);
        self.touch(at.note.thread, &path);
    }

    /// Notes a file that a process has changed by stores of which not all are in the trace.
    fn stored_to(&mut self, process: u32, file: &[u8]) {
        let process = self.world.process(process);
        let state = process.and_then(|process| process.state.as_ref());
        self.paths.user = state.map_or(rights::NOBODY, |state| rights::user_of(&state.uids));
        if realm::is_stored(file) {
            self.paths.mapped(file);
        }
    }

    /// Passes on a call that may move data unseen.
    fn unseen(&mut self, at: &At<'_>, call: &Call) {
        let process = self.world.thread(at.note.thread).map_or(0, |thread| thread.process);
        let Some(ret) = call.success() else { return };
        let Note { operations, watched, .. } = *at.note;
        let made = Made { nr: call.nr, args: &call.args, ret, process, operations, watched };
        let (world, openings, thread) = (&self.world, &self.openings, at.note.thread);
        self.unseen.call(&made, &mut Noted { world, openings, thread, call });
        for file in self.unseen.take_stored() {
            if !self.world.is_elsewhere(at.note.thread) && realm::is_stored(&file) {
                self.paths.mapped(&file);
            }
        }
    }

    /// Notes a call by which the kernel may copy between files.
    fn copy(&mut self, at: &At<'_>, call: &Call) {
        let Some(row) = syscalls::by_number(u64::from(call.nr)) else { return };
        let word = |arg, at| word_behind(call, arg, at, &mut InlineOnly);
        let value = |wanted| row.value_of(&call.args, wanted).unwrap_or(u64::MAX);
        let moved = call.success().and_then(|moved| u64::try_from(moved).ok()).unwrap_or(0);
        let (from, to, stretch) = match row.act_of(&call.args) {
            Act::Copy if moved == 0 => return,
            Act::Copy => {
                let start = match offset_of(row.args, &call.args, Operand::SourceAt) {
                    OffsetIs::Own => None,
                    OffsetIs::Given(start) => Some(start),
                    OffsetIs::Behind(arg) => word(arg, 0),
                };
                let stretch = match start {
                    Some(start) => Stretch::At(start..start.saturating_add(moved)),
                    None => Stretch::Somewhere(moved),
                };
                (value(Operand::Source), value(Operand::Target), stretch)
            }
            Act::CloneFile => (value(Operand::Source), value(Operand::Target), Stretch::All),
            Act::CloneRange => {
                let words = [word(2, 0), word(2, 8), word(2, 16)];
                let [Some(fd), Some(start), Some(len)] = words else { return };
                let stretch = match len {
                    0 => Stretch::All,
                    len => Stretch::At(start..start.saturating_add(len)),
                };
                (fd, value(Operand::Target), stretch)
            }
            _ => return,
        };
        if self.world.is_elsewhere(at.note.thread) {
            return;
        }
        if let Some(source) = self.held(at, from as i32) {
            let target = self.held(at, to as i32);
            self.copies.note(source, target, stretch, at.note.enter);
        }
    }

    /// The file behind a descriptor, if changes of its path are kept.
    fn held(&self, at: &At<'_>, fd: i32) -> Option<Place> {
        let open = self.open_file(at.note.thread, fd)?;
        let path = name_of(&open, &self.openings).filter(|path| realm::is_stored(path))?.into();
        let opening = self.openings.get(&open.id());
        let inode = opening.and_then(|opening| opening.inode);
        Some(Place { path, inode, user: opening.map_or(at.note.user, |opening| opening.user) })
    }

    fn open_file(&self, thread: u32, fd: i32) -> Option<Rc<Description>> {
        Some(Rc::clone(self.world.descriptors(thread)?.get(fd)?.description))
    }

    /// The path under which a descriptor was opened.
    fn path_of(&self, thread: u32, fd: i32) -> Option<Vec<u8>> {
        name_of(&*self.open_file(thread, fd)?, &self.openings).map(<[u8]>::to_vec)
    }

    /// Notes that a path was changed. False if changes of that path are not kept.
    fn touch(&mut self, thread: u32, path: &[u8]) -> bool {
        if !realm::is_stored(path) {
            return false;
        }
        if self.world.is_elsewhere(thread) || model::path::is_cut(path) {
            self.paths.left_out += 1;
            return false;
        }
        self.paths.touch(path);
        true
    }

    /// Paths that a call names, as far as they can be resolved. A missing one stands for the
    /// directory descriptor itself.
    fn named<'p>(&self, at: &At<'p>, call: &Call) -> [Option<Cow<'p, [u8]>>; 2] {
        file_use::of(call.nr).paths.map(|used| {
            let used = used?;
            match at.step.paths.iter().find(|(arg, _)| *arg == used.path) {
                Some((_, path)) => Some(Cow::Borrowed(&path[..])),
                None => self
                    .path_of(at.note.thread, FileUse::descriptor(call, used.dir)?)
                    .map(Cow::Owned),
            }
        })
    }

    /// Those of a call's paths that are kept.
    fn kept<'p>(
        &mut self,
        at: &At<'_>,
        named: [Option<Cow<'p, [u8]>>; 2],
    ) -> [Option<Cow<'p, [u8]>>; 2] {
        let stored = named.map(|path| path.filter(|path| realm::is_stored(path)));
        let is_too_long = stored.iter().flatten().any(|path| model::path::is_cut(path));
        if is_too_long || self.world.is_elsewhere(at.note.thread) {
            self.paths.left_out += stored.iter().flatten().count() as u64;
            return [None, None];
        }
        stored
    }
}

fn act_of(nr: u16, args: &[u64; 6]) -> Act {
    syscalls::by_number(nr.into()).map_or(Act::Plain, |row| row.act_of(args))
}

/// Whether the target of a /proc/PID/fd link is the path of a file that still has it.
fn is_named(target: &[u8]) -> bool {
    target.first() == Some(&b'/') && !target.ends_with(b" (deleted)") && realm::is_stored(target)
}

/// The path of an open file, if it has one.
fn name_of<'o>(open: &'o Description, openings: &OpenTable<Opening>) -> Option<&'o [u8]> {
    let is_path = openings.contains_key(&open.id()) || is_named(&open.path);
    is_path.then_some(&open.path)
}

/// Result of following a whole recording.
pub(crate) struct Outcomes {
    pub paths: Paths,
    pub copies: Copies,
    pub unseen: Unseen,
}

/// A call, and what it is about to change in the world.
struct At<'a> {
    note: &'a Note,
    step: &'a Step,
}

/// A noted call, to look up its descriptors. Names are the paths by which files were opened; other
/// descriptors have none.
struct Noted<'a> {
    world: &'a World,
    openings: &'a OpenTable<Opening>,
    thread: u32,
    call: &'a Call,
}

impl Look for Noted<'_> {
    fn opened(&self, fd: i32) -> Option<Opened> {
        let table = self.world.descriptors(self.thread);
        let entry = table.as_ref().and_then(|table| table.get(fd));
        let name = entry.and_then(|entry| name_of(entry.description, self.openings));
        let name = name.map(<[u8]>::to_vec);
        // The kind does not matter here: whatever has no path is followed by the trace's readers.
        let kind = name.as_ref().map_or(OpenedKind::Pipe, |name| OpenedKind::of_path(name));
        Some(Opened { name: name.unwrap_or_default(), kind })
    }

    fn is_writable(&self, fd: i32) -> bool {
        let table = self.world.descriptors(self.thread);
        let flags = table.and_then(|table| table.get(fd)?.description.flags);
        flags.is_none_or(|flags| flags & O_ACCMODE != 0)
    }

    fn program(&self) -> Vec<u8> {
        Vec::new()
    }

    fn memory(&mut self, arg: u8, max: usize) -> Option<Vec<u8>> {
        let found = self.call.data.iter().find(|data| data.arg == arg)?;
        InlineOnly.read(&found.content, max).ok()
    }
}

#[cfg(test)]
mod tests;
