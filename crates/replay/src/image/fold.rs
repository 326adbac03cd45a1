//! The pass over the events. Names change when a call begins. A call's results count from its
//! return, so that they never describe a time before a change that overlapped it. Bytes read count
//! from the beginning, bytes written from the end: bytes that were read during a write do no harm,
//! as they are written again.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::rc::Rc;

use model::contents::{self, Contents};
use model::decode::shape::shape_of;
use model::mapped::{self, Mapped, Store};
use model::unseen::Unseen;
use model::{Credentials, Description, Directory, OpenId, Step, World, path};
use syscalls::abi::files::{AT_EMPTY_PATH, AT_FDCWD, O_ACCMODE, O_APPEND, O_CLOEXEC};
use syscalls::record::part;
use syscalls::shape::{Arg, ArgKind, FlagSet, of_set, operand};
use syscalls::{Act, Operand};
use trace::event::{BlobId, Call, Event, EventKind, Outcome, ProcessState};

use super::error::ImageError;
use super::loaded::{AboutToMap, FD_ARG};
use super::opens::Opens;
use super::pending::Pending;
use super::staging::Staging;
use super::stored::Stored;
use super::tree::{NodeId, NodeKind, Spot, Tree};
use super::untold::Untold;
use super::walk::{self, Walk};
use crate::moves;

/// Counters of the pass.
#[derive(Debug, Default)]
pub struct Seen {
    /// Bytes of files with known content.
    pub bytes: u64,
    /// Files with so many changed ranges that later reads were not used.
    pub given_up: u64,
    /// Reads beyond the largest file size.
    pub too_large: u64,
}

/// What /proc says behind the path of a file that has none any more.
const DELETED: &[u8] = b" (deleted)";

/// Longest path that is followed.
const PATH_BYTES_MAX: usize = 8192;

/// A path argument.
#[derive(Debug)]
pub struct PathArg {
    pub arg: u8,
    pub text: Vec<u8>,
    /// Directory that a relative path starts at.
    base: Option<NodeId>,
    /// The file, if the path names a descriptor of the process itself.
    descriptor: Option<NodeId>,
    /// That directory is the path's root.
    in_root: bool,
}

impl PathArg {
    /// Returns another path with the same start.
    pub fn with_text(&self, text: Vec<u8>) -> PathArg {
        PathArg { arg: self.arg, text, base: self.base, descriptor: None, in_root: self.in_root }
    }
}

/// A call, with its arguments resolved as of its beginning.
pub struct Asked {
    pub thread: u32,
    pub tsc: u64,
    pub call: Call,
    pub act: Act,
    pub args: &'static [Arg],
    /// The thread is in a user namespace of its own: owners have other ids there.
    pub foreign: bool,
    /// User and group of the thread for file access.
    pub who: (u32, u32),
    pub root: NodeId,
    pub paths: Vec<PathArg>,
    /// Descriptor arguments, with their open files, which stay until the call has returned.
    pub fds: [Option<(u8, Rc<Description>)>; 2],
    /// The open file that the call returns.
    pub gives: Option<Rc<Description>>,
    /// The file opened by an `open` that may create one.
    pub opened: Option<NodeId>,
    /// The ranges that it copies from and writes to.
    pub from: Option<Range<u64>>,
    pub to: Option<Range<u64>>,
    /// The working directory that the call sets.
    pub directory: Option<Rc<Directory>>,
}

impl Asked {
    /// Result of a successful call.
    pub fn success(&self) -> Option<i64> {
        self.call.success()
    }

    /// Error number of a failed call.
    pub fn errno(&self) -> Option<i32> {
        self.call.error()
    }

    /// Time of its return.
    pub fn exit_tsc(&self) -> u64 {
        match self.call.outcome {
            Outcome::Returned { exit_tsc, .. } => exit_tsc,
            Outcome::Unfinished => u64::MAX,
        }
    }

    /// Returns the value of the argument that is of a set; 0 if there is none.
    pub fn flags(&self, set: &'static FlagSet) -> u64 {
        of_set(self.args, set).map_or(0, |arg| self.call.args[usize::from(arg)])
    }

    /// Whether an empty path stands for the directory descriptor.
    pub fn takes_empty_path(&self) -> bool {
        self.args.iter().zip(self.call.args).any(|(arg, value)| match arg.kind {
            ArgKind::Flags(set) => set.allows_empty_path() && value & AT_EMPTY_PATH != 0,
            _ => false,
        })
    }

    /// Returns the open file of the argument with a use.
    pub fn open_of(&self, wanted: Operand) -> Option<OpenId> {
        self.open(operand(self.args, wanted)?)
    }

    /// Whether a final link is meant itself, and not followed.
    pub fn means_link(&self, path: &PathArg) -> bool {
        // A trailing slash follows a link, except in calls that change names: it is no link then.
        let leads_on = walk::is_directory(&path.text) && !self.act.changes_names();
        !leads_on && syscalls::paths::means_link(self.call.nr, path.arg, &self.call.args)
    }

    /// Returns the open file of an argument.
    pub fn open(&self, arg: u8) -> Option<OpenId> {
        self.fds.iter().flatten().find(|(number, _)| *number == arg).map(|(_, open)| open.id())
    }
}

/// A write that has not returned.
pub struct Wrote {
    pub node: NodeId,
    pub range: Range<u64>,
    /// What the trace does not hold of it.
    pub blanks: Vec<Range<u64>>,
}

/// What is to be done when a call returns.
pub enum Returning {
    Write(Wrote),
    Call(Box<Asked>),
}

/// State of the pass.
pub struct Fold<'a> {
    pub stored: Stored<'a>,
    pub world: World,
    pub tree: Tree,
    pub staging: Staging,
    pub opens: Opens,
    pub seen: Seen,
    pub untold: Untold,
    pub unseen: Unseen,
    /// Files whose mappings are stored to by the trace.
    pub mapped: Mapped<NodeId>,
    pub about_to_map: AboutToMap,
    /// Number of stretches and ranges kept for all files.
    pub kept: usize,
    /// Number of stretches looked up.
    pub looked_up: usize,
    /// Calls that have not returned.
    pub pending: Pending<Returning>,
    pub roots: HashMap<u32, NodeId>,
    /// First thread of each process's program.
    leaders: HashMap<u32, u32>,
    /// Long directory listings already handled: identical ones are skipped.
    pub listed: HashSet<(NodeId, Vec<BlobId>)>,
}

impl<'a> Fold<'a> {
    pub fn new(stored: Stored<'a>, staging: Staging) -> Fold<'a> {
        Fold {
            stored,
            world: World::following_mounts(),
            tree: Tree::new(),
            staging,
            opens: Opens::default(),
            seen: Seen::default(),
            untold: Untold::default(),
            unseen: Unseen::new(),
            mapped: Mapped::default(),
            about_to_map: AboutToMap::default(),
            kept: 0,
            looked_up: 0,
            pending: Pending::default(),
            roots: HashMap::new(),
            leaders: HashMap::new(),
            listed: HashSet::new(),
        }
    }

    /// Handles one event. Leaves a blank one, unless the call only moved bytes.
    pub fn event(&mut self, event: &mut Event) -> Result<(), ImageError> {
        if let EventKind::Call(call) = &event.kind
            && let Some(moves) = moves::of_call(call.nr)
        {
            self.world.closed_files(&mut |open| self.opens.closed(open));
            self.world.pass(event);
            self.settle(event.thread, event.tsc)?;
            return self.transfer(event.thread, event.tsc, call, moves);
        }
        let step = self.world.step(event, &mut self.stored);
        self.unseen.event(event, &self.world, &mut self.stored);
        self.settle(event.thread, event.tsc)?;
        self.follow_mapping(event)?;
        self.world.closed_files(&mut |open| self.opens.closed(open));
        let (thread, tsc) = (event.thread, event.tsc);
        match std::mem::take(&mut event.kind) {
            EventKind::Call(call) => self.call(thread, tsc, call, step),
            EventKind::State(state) => {
                self.world.finish(step);
                self.began(state.process)
            }
            EventKind::Start { process, parent, .. } => {
                let maker = self.world.thread(parent).map(|thread| thread.process);
                if let Some(&root) = maker.and_then(|maker| self.roots.get(&maker)) {
                    self.roots.entry(process).or_insert(root);
                }
                self.world.finish(step);
                self.leaders.entry(process).or_insert(thread);
                self.began(process)
            }
            EventKind::Image { .. } => {
                self.world.finish(step);
                let process = self.world.thread(thread).map(|thread| thread.process);
                let Some(process) = process else { return Ok(()) };
                self.leaders.insert(process, thread);
                self.began(process)
            }
            EventKind::Exit { process, .. } => {
                self.world.finish(step);
                self.roots.remove(&process);
                self.leaders.remove(&process);
                Ok(())
            }
            _ => {
                self.world.finish(step);
                Ok(())
            }
        }
    }

    /// Follows where files are mapped, and what is stored there.
    fn follow_mapping(&mut self, event: &Event) -> Result<(), ImageError> {
        let process = self.world.thread(event.thread).map(|thread| thread.process);
        match &event.kind {
            EventKind::Call(call) if mapped::is_followed(call) => {
                self.learn_mapped(event.thread, call)?;
                let (world, opens) = (&self.world, &self.opens);
                self.mapped.call(process.unwrap_or(0), event, call, |fd| {
                    opens.behind(world, event.thread, fd)
                });
            }
            EventKind::Start { how, process, parent, .. } => {
                if let Some(maker) = self.world.thread(*parent) {
                    self.mapped.started(*how, *process, maker.process);
                }
            }
            EventKind::Image { .. } => self.mapped.forget(process.unwrap_or(0)),
            EventKind::Exit { process, .. } => self.mapped.forget(*process),
            EventKind::Other(_) => {
                let Some(store) = Store::of(event) else {
                    self.about_to_map.note(event, |thread| self.world.thread(thread).is_some());
                    return Ok(());
                };
                let Some((&node, offset)) = self.mapped.at(store.process, store.address) else {
                    return Ok(());
                };
                // The kernel supports no larger offsets.
                let end = offset.checked_add(store.length).filter(|end| *end <= i64::MAX as u64);
                match end {
                    Some(end) if store.is_read => {
                        let (node, data) = (self.tree.find(node), store.data());
                        self.read_piece(node, offset..end, &data)?;
                        if contents::is_cut(&data) {
                            self.untold.note(node, store.file);
                        }
                    }
                    Some(end) => self.change(node, |content| content.write(offset..end)),
                    None => {}
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Learns what a file has that a thread maps.
    fn learn_mapped(&mut self, thread: u32, call: &Call) -> Result<(), ImageError> {
        let pieces = self.about_to_map.take(thread, call);
        if pieces.is_empty() {
            return Ok(());
        }
        let node = self.opens.behind(&self.world, thread, call.args[usize::from(FD_ARG)] as i32);
        let Some(node) = node else { return Ok(()) };
        let node = self.tree.find(node);
        for (range, data) in pieces {
            if self.tree.content(node).is_some_and(|file| !file.is_written(&range)) {
                self.read_piece(node, range, &data)?;
            }
        }
        Ok(())
    }

    /// Handles the end of the events.
    pub fn finish(&mut self) -> Result<(), ImageError> {
        while let Some(returning) = self.pending.next_until(u64::MAX) {
            self.returns(returning)?;
        }
        Ok(())
    }

    /// Handles the calls that have returned by now, and the thread's own last one.
    #[inline]
    fn settle(&mut self, thread: u32, tsc: u64) -> Result<(), ImageError> {
        while let Some(returning) = self.pending.next_until(tsc) {
            self.returns(returning)?;
        }
        match self.pending.of_thread(thread) {
            Some(returning) => self.returns(returning),
            None => Ok(()),
        }
    }

    fn returns(&mut self, returning: Returning) -> Result<(), ImageError> {
        match returning {
            Returning::Call(asked) => self.returned(&asked),
            Returning::Write(wrote) => {
                self.wrote(wrote);
                Ok(())
            }
        }
    }

    fn call(&mut self, thread: u32, tsc: u64, call: Call, step: Step) -> Result<(), ImageError> {
        let asked = self.ask(thread, tsc, call, &step);
        self.world.finish(step);
        let Some(mut asked) = asked.map(Box::new) else { return Ok(()) };
        self.begins(&mut asked)?;
        if let Outcome::Returned { exit_tsc, .. } = asked.call.outcome {
            self.pending.add(exit_tsc, thread, Returning::Call(asked));
        }
        Ok(())
    }

    /// Resolves the arguments of a call as it begins; `None` if it concerns no files.
    fn ask(&mut self, thread: u32, tsc: u64, call: Call, step: &Step) -> Option<Asked> {
        let shape = shape_of(&call);
        let is_about_files =
            |arg: &Arg| matches!(arg.kind, ArgKind::Fd | ArgKind::DirFd | ArgKind::Path);
        if step.answered || !shape.args.iter().any(is_about_files) {
            return None;
        }
        let process = self.world.thread(thread)?.process;
        let who = self.who(thread, process);
        // Paths of processes with other mounts were translated to paths without mounts.
        let root = match self.world.has_own_view(thread) {
            true => NodeId::ROOT,
            false => self.roots.get(&process).copied().unwrap_or(NodeId::ROOT),
        };
        let mut asked = Asked {
            thread,
            tsc,
            act: shape.act,
            args: shape.args,
            foreign: self.world.credentials(thread).is_some_and(Credentials::is_elsewhere),
            who,
            root,
            paths: Vec::new(),
            fds: [None, None],
            gives: None,
            opened: None,
            from: None,
            to: None,
            directory: None,
            call,
        };
        self.descriptors(&mut asked);
        self.paths(&mut asked, step);
        if let Outcome::Returned { ret, .. } = asked.call.outcome {
            let given = step.gives().find(|(fd, _)| i64::from(*fd) == ret);
            asked.gives = given.map(|(_, descriptor)| descriptor.description.clone());
        }
        asked.directory = step.directory().filter(|_| asked.act == Act::Directory).cloned();
        Some(asked)
    }

    /// Returns user and group for a thread's access to files. In a user namespace of its own, those
    /// that its program began with are closer to what the files had than those that it sees.
    fn who(&self, thread: u32, process: u32) -> (u32, u32) {
        let known = self.world.credentials(thread);
        let known = known.and_then(|ids| Some((ids.users.file?, ids.groups.file?)));
        let state = self.world.process(process).and_then(|process| process.state.as_ref());
        known.or(state.map(|state| (state.uids[3], state.gids[3]))).unwrap_or((0, 0))
    }

    fn descriptors(&self, asked: &mut Asked) {
        let Some(table) = self.world.descriptors(asked.thread) else { return };
        let mut found = 0;
        for (arg, number) in asked.args.iter().zip(0u8..) {
            if !matches!(arg.kind, ArgKind::Fd | ArgKind::DirFd) {
                continue;
            }
            let fd = asked.call.args[usize::from(number)] as i32;
            let Some(entry) = table.get(fd) else { continue };
            if self.opens.get(entry.description.id()).is_some() && found < asked.fds.len() {
                asked.fds[found] = Some((number, entry.description.clone()));
                found += 1;
            }
        }
    }

    fn paths(&mut self, asked: &mut Asked, step: &Step) {
        let mut directory = (AT_FDCWD, None);
        let in_root = contents::opens_in_root(&asked.call, &mut self.stored);
        for (arg, number) in asked.args.iter().zip(0u8..) {
            match arg.kind {
                ArgKind::DirFd => {
                    let open = asked.open(number).and_then(|open| self.opens.get(open));
                    let node = open.map(|open| open.node);
                    directory = (asked.call.args[usize::from(number)] as i32, node);
                }
                ArgKind::Path => {
                    let aside = step.aside.iter().find(|(arg, _)| *arg == number);
                    if let Some((_, text)) = aside {
                        let (text, base, descriptor) = (text.clone(), None, None);
                        let in_root = false;
                        asked.paths.push(PathArg { arg: number, text, base, descriptor, in_root });
                        continue;
                    }
                    let Some(text) = self.text(&asked.call, number, false) else { continue };
                    let is_relative = in_root || text.first() != Some(&b'/');
                    let base = if directory.0 == AT_FDCWD && is_relative {
                        self.working_directory(asked.thread, asked.root)
                    } else {
                        directory.1
                    };
                    let descriptor = self.named_descriptor(asked.thread, &text);
                    asked.paths.push(PathArg { arg: number, text, base, descriptor, in_root });
                }
                _ => {}
            }
        }
    }

    /// Returns the NUL-terminated text of an argument.
    pub fn text(&mut self, call: &Call, arg: u8, out: bool) -> Option<Vec<u8>> {
        let data = contents::piece(&call.data, arg, part::WHOLE, 0, out)?;
        let mut bytes = self.stored.read(&data.content, PATH_BYTES_MAX).ok()?;
        let end = bytes.iter().position(|&c| c == 0).unwrap_or(bytes.len());
        bytes.truncate(end);
        Some(bytes)
    }

    fn working_directory(&mut self, thread: u32, root: NodeId) -> Option<NodeId> {
        let directory = self.world.directory(thread)?;
        if let Some(node) = NodeId::of_mark(directory.mark.get()) {
            return Some(self.tree.find(node));
        }
        let real = crate::realm::is_real(&directory.path);
        let is_gone = directory.path.ends_with(DELETED);
        if !real || directory.path.is_empty() || path::is_cut(&directory.path) || is_gone {
            return None;
        }
        let node = self.canonical(root, &directory.path, NodeKind::Directory).ok()??;
        directory.mark.set(node.mark());
        Some(node)
    }

    /// Returns a path that is no argument of its own, as seen by the thread of a call.
    pub fn seen_by(&mut self, asked: &Asked, text: Vec<u8>) -> PathArg {
        let base = self.working_directory(asked.thread, asked.root);
        PathArg { arg: u8::MAX, text, base, descriptor: None, in_root: false }
    }

    /// Returns the file at a path reported by the kernel.
    pub fn canonical(
        &mut self,
        root: NodeId,
        path: &[u8],
        kind: NodeKind,
    ) -> Result<Option<NodeId>, ImageError> {
        let how = Walk { root, follow: false, is_there: true, canonical: true };
        let Some(spot) = self.tree.walk(root, path, how)? else { return Ok(None) };
        let node = self.tree.there(&spot, kind, true)?;
        Ok(Some(self.tree.is_no_link(node)))
    }

    /// Returns the file behind a path to one of the process's own descriptors.
    fn named_descriptor(&self, thread: u32, text: &[u8]) -> Option<NodeId> {
        let (pid, _) = self.world.ids(thread)?;
        let fd = path::own_descriptor(text, pid)?;
        let table = self.world.descriptors(thread)?;
        let open = self.opens.get(table.get(fd)?.description.id())?;
        Some(self.tree.find(open.node))
    }

    /// Resolves a path argument; `None` if it is not on a disk or unknown.
    pub fn spot(
        &mut self,
        asked: &Asked,
        path: &PathArg,
        follow: bool,
        is_there: bool,
    ) -> Result<Option<Spot>, ImageError> {
        if let Some(node) = path.descriptor {
            return Ok(follow.then(|| Spot::of(node)));
        }
        if path.text.is_empty() {
            return Ok(path.base.filter(|_| asked.takes_empty_path()).map(Spot::of));
        }
        let absolute = path.text[0] == b'/' && !path.in_root;
        if absolute && !crate::realm::is_real(&path::resolve(b"/", &path.text)) {
            return Ok(None);
        }
        let Some(base) = path.base.or(absolute.then_some(asked.root)) else { return Ok(None) };
        let root = if path.in_root { base } else { asked.root };
        let how = Walk { root, follow, is_there, canonical: false };
        let spot = self.tree.walk(base, &path.text, how)?;
        // A call that failed to change a name need not have checked the trailing slash.
        let is_sure = asked.success().is_some() || !asked.act.changes_names();
        Ok(spot.map(|spot| Spot { is_directory: spot.is_directory && is_sure, ..spot }))
    }

    /// Handles the start of a program: its inherited files and directories.
    fn began(&mut self, process: u32) -> Result<(), ImageError> {
        let Some(state) = self.world.process(process).and_then(|process| process.state.clone())
        else {
            return Ok(());
        };
        let own_view = |thread: &u32| self.world.has_own_view(*thread);
        if self.leaders.get(&process).is_some_and(own_view) {
            return Ok(());
        }
        let chrooted = ![&b""[..], b"/"].contains(&&state.root[..]);
        if chrooted
            && !self.roots.contains_key(&process)
            && let Some(root) = self.canonical(NodeId::ROOT, &state.root, NodeKind::Directory)?
        {
            self.roots.insert(process, root);
        }
        for (path, kind) in [(&state.exe, NodeKind::File), (&state.cwd, NodeKind::Directory)] {
            if let Some(node) = self.told(path, kind)?
                && kind == NodeKind::File
            {
                self.is_executable(node);
            }
        }
        self.inherited(process, &state)
    }

    /// Returns the file at a path from /proc, if it is on a disk and not deleted.
    fn told(&mut self, path: &[u8], kind: NodeKind) -> Result<Option<NodeId>, ImageError> {
        let is_path = path.first() == Some(&b'/') && crate::realm::is_real(path);
        if !is_path || path.ends_with(DELETED) || path.starts_with(b"/memfd:") {
            return Ok(None);
        }
        self.canonical(NodeId::ROOT, path, kind)
    }

    /// Adds the inherited open files of a process. Descriptors that look alike count as one open
    /// file, as after a shell's `2>&1`.
    fn inherited(&mut self, process: u32, state: &ProcessState) -> Result<(), ImageError> {
        let Some(&thread) = self.leaders.get(&process) else { return Ok(()) };
        let mut new: Vec<(usize, Rc<Description>)> = Vec::new();
        if let Some(table) = self.world.descriptors(thread) {
            for (at, open) in state.fds.iter().enumerate() {
                let description = table.get(open.fd).map(|entry| entry.description);
                // The state may be an earlier program's, and the number another file's by now.
                let is_it = |d: &&Rc<Description>| {
                    d.path == open.target && self.opens.get(d.id()).is_none()
                };
                if let Some(description) = description.filter(is_it) {
                    new.push((at, description.clone()));
                }
            }
        }
        let mut known: HashMap<(&[u8], u64, u64), OpenId> = HashMap::new();
        for (at, description) in &new {
            let open = &state.fds[*at];
            let key = (&open.target[..], open.offset, u64::from(open.flags) & !O_CLOEXEC);
            if let Some(known) = known.get(&key) {
                self.opens.share(description.id(), *known);
                continue;
            }
            if let Some(node) = self.told(&open.target, NodeKind::Unknown)? {
                let append = u64::from(open.flags) & O_APPEND != 0;
                self.opens.add(description.id(), node, open.offset, append);
                if u64::from(open.flags) & O_ACCMODE != 0 {
                    // A file opened for writing most likely belongs to the process's user.
                    self.tree.node_mut(node).about.written_by((state.uids[3], state.gids[3]));
                }
                if open.offset > 0
                    && let Some(content) = self.tree.content(node)
                {
                    content.size_min = content.size_min.max(open.offset.min(i64::MAX as u64));
                    content.now = content.now.max(content.size_min);
                }
                known.insert(key, description.id());
            }
        }
        Ok(())
    }
}
