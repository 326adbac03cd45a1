//! The pass over the events. Names change when a call begins; what a call tells counts when it has
//! returned, so that it never speaks of a time before a change that it overlapped with. What is
//! read counts from the beginning, what is written from the end: bytes that were read while they
//! were written do no harm, as they are written again.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::rc::Rc;

use events::record::part;
use events::shape::{Arg, Classes, Kind as ArgKind};
use model::contents::{self, Contents};
use model::decode::shape::shape_of;
use model::unseen::Unseen;
use model::{Description, Directory, Step, World, path};
use trace::event::{BlobId, Call, Event, EventKind, Outcome, ProcessState};

use super::changes::open_flag;
use super::foreign::Foreign;
use super::opens::Opens;
use super::roles::{self, Role};
use super::staging::Staging;
use super::stored::Stored;
use super::tree::{Kind, NodeId, Spot, Tree};
use super::untold::Untold;
use super::users::Users;
use super::walk::{self, Walk};
use super::{ImageError, Seen};

/// `AT_FDCWD`.
const AT_FDCWD: i32 = -100;
/// Longest path that is followed.
const PATH_BYTES_MAX: usize = 8192;
/// `O_APPEND`.
pub const O_APPEND: u64 = 0o2000;

/// A path argument.
#[derive(Debug)]
pub struct PathArg {
    pub arg: u8,
    pub text: Vec<u8>,
    /// Where it begins.
    base: Option<NodeId>,
    /// It names a descriptor of the process itself: that file.
    descriptor: Option<NodeId>,
}

impl PathArg {
    /// Another path from the same place.
    pub fn with_text(&self, text: Vec<u8>) -> PathArg {
        PathArg { arg: self.arg, text, base: self.base, descriptor: None }
    }
}

/// A call, with what its arguments meant when it began.
pub struct Asked {
    pub thread: u32,
    pub tsc: u64,
    pub call: Call,
    pub role: Role,
    pub args: &'static [Arg],
    pub classes: Classes,
    /// The process is in a user namespace of its own: owners have other numbers there.
    pub foreign: bool,
    /// User and group as whom the thread comes to files.
    pub who: (u32, u32),
    pub root: NodeId,
    pub paths: Vec<PathArg>,
    /// Argument numbers and marks of open files.
    pub fds: [Option<(u8, u64)>; 2],
    /// The open file that the call gives.
    pub gives: Option<Rc<Description>>,
    /// What an `open` that may make files opens.
    pub opened: Option<NodeId>,
    /// The bytes of files that it moves: from where, to where.
    pub from: Option<Range<u64>>,
    pub to: Option<Range<u64>>,
    /// The working directory that the call gives.
    pub directory: Option<Rc<Directory>>,
}

impl Asked {
    /// The result of a call that succeeded.
    pub fn success(&self) -> Option<i64> {
        self.ret().filter(|ret| !(-4095..0).contains(ret))
    }

    /// The error number of a call that failed.
    pub fn errno(&self) -> Option<i32> {
        self.ret().filter(|ret| (-4095..0).contains(ret)).map(|ret| -ret as i32)
    }

    fn ret(&self) -> Option<i64> {
        match self.call.outcome {
            Outcome::Returned { ret, .. } => Some(ret),
            Outcome::Unfinished => None,
        }
    }

    /// When it returned.
    pub fn exit_tsc(&self) -> u64 {
        match self.call.outcome {
            Outcome::Returned { exit_tsc, .. } => exit_tsc,
            Outcome::Unfinished => u64::MAX,
        }
    }

    /// Whether a flag of this name is set in any argument.
    pub fn has_flag(&self, flag: &str) -> bool {
        self.args.iter().zip(self.call.args).any(|(arg, value)| match arg.kind {
            ArgKind::Flags(set) => set
                .members
                .iter()
                .any(|(bits, name)| *name == flag && *bits != 0 && value & bits == *bits),
            _ => false,
        })
    }

    /// Whether a link at the end of a path is meant itself.
    pub fn means_link(&self, path: &PathArg) -> bool {
        // Of a link with a slash behind it nobody speaks; only names are changed of no link then.
        let leads_on = walk::is_directory(&path.text) && !self.role.changes_names();
        !leads_on && events::paths::means_link(self.call.nr, path.arg, &self.call.args)
    }

    /// The mark of the open file behind an argument.
    pub fn mark(&self, arg: u8) -> Option<u64> {
        self.fds.iter().flatten().find(|(number, _)| *number == arg).map(|(_, mark)| *mark)
    }
}

/// The state of the pass.
pub struct Fold<'a> {
    pub stored: Stored<'a>,
    pub world: World,
    pub tree: Tree,
    pub staging: Staging,
    pub opens: Opens,
    pub seen: Seen,
    pub untold: Untold,
    pub unseen: Unseen,
    /// Stretches and ranges that are kept of all files.
    pub kept: usize,
    /// Stretches that were looked up.
    pub looked_up: usize,
    /// Calls that have not returned, by the time when they do.
    pending: BTreeMap<(u64, u32), Box<Asked>>,
    due: BTreeMap<u32, u64>,
    pub roots: HashMap<u32, NodeId>,
    /// The thread with which each process's program began.
    leaders: HashMap<u32, u32>,
    /// Long lists of directories that were taken in: the same ones need no second look.
    pub listed: HashSet<(NodeId, Vec<BlobId>)>,
    foreign: Foreign,
    users: Users,
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
            kept: 0,
            looked_up: 0,
            pending: BTreeMap::new(),
            due: BTreeMap::new(),
            roots: HashMap::new(),
            leaders: HashMap::new(),
            listed: HashSet::new(),
            foreign: Foreign::default(),
            users: Users::default(),
        }
    }

    /// Takes one event in.
    pub fn event(&mut self, event: Event) -> Result<(), ImageError> {
        let step = self.world.step(&event, &mut self.stored);
        self.unseen.event(&event, &self.world, &mut self.stored);
        self.settle(event.thread, event.tsc)?;
        let Event { thread, tsc, kind } = event;
        match kind {
            EventKind::Call(call) => self.call(thread, tsc, call, step),
            EventKind::State(state) => {
                self.world.finish(step);
                if let Some(leader) = self.leaders.get(&state.process) {
                    self.users.told(*leader, &state);
                }
                self.began(state.process)
            }
            EventKind::Start { process, parent, .. } => {
                let maker = self.world.thread(parent).map(|thread| thread.process);
                self.foreign.started(process, parent, maker);
                if let Some(&root) = maker.and_then(|maker| self.roots.get(&maker)) {
                    self.roots.entry(process).or_insert(root);
                }
                self.world.finish(step);
                self.leaders.entry(process).or_insert(thread);
                self.users.started(thread, parent);
                let told = self.world.process(process).and_then(|process| process.state.as_ref());
                if let Some(state) = told.filter(|_| self.users.of(thread).is_none()) {
                    self.users.told(thread, state);
                }
                self.began(process)
            }
            EventKind::Image { .. } => {
                self.world.finish(step);
                let process = self.world.thread(thread).map(|thread| thread.process);
                let Some(process) = process else { return Ok(()) };
                self.leaders.insert(process, thread);
                self.users.image(thread);
                self.began(process)
            }
            EventKind::Exit { process, .. } => {
                self.world.finish(step);
                self.roots.remove(&process);
                self.leaders.remove(&process);
                self.foreign.exited(process);
                Ok(())
            }
            EventKind::End { .. } => {
                self.world.finish(step);
                self.users.ended(thread);
                Ok(())
            }
            _ => {
                self.world.finish(step);
                Ok(())
            }
        }
    }

    /// The events are over.
    pub fn finish(&mut self) -> Result<(), ImageError> {
        while let Some((_, asked)) = self.pending.pop_first() {
            self.returned(&asked)?;
        }
        Ok(())
    }

    /// Takes in what calls tell that have returned by now, and the thread's own last one.
    fn settle(&mut self, thread: u32, tsc: u64) -> Result<(), ImageError> {
        while let Some(entry) = self.pending.first_entry() {
            if entry.key().0 > tsc {
                break;
            }
            let asked = entry.remove();
            self.due.remove(&asked.thread);
            self.returned(&asked)?;
        }
        if let Some(due) = self.due.remove(&thread)
            && let Some(asked) = self.pending.remove(&(due, thread))
        {
            self.returned(&asked)?;
        }
        Ok(())
    }

    fn call(&mut self, thread: u32, tsc: u64, call: Call, step: Step) -> Result<(), ImageError> {
        let process = self.world.thread(thread).map(|thread| thread.process);
        self.foreign.called(thread, process, &call, &mut self.stored);
        if !step.answered {
            self.users.called(thread, &call);
        }
        let asked = self.ask(thread, tsc, call, &step);
        self.world.finish(step);
        let Some(mut asked) = asked.map(Box::new) else { return Ok(()) };
        self.begins(&mut asked)?;
        if let Outcome::Returned { exit_tsc, .. } = asked.call.outcome {
            self.due.insert(thread, exit_tsc);
            self.pending.insert((exit_tsc, thread), asked);
        }
        Ok(())
    }

    /// What the arguments of a call mean as it begins; nothing for one that touches no files.
    fn ask(&mut self, thread: u32, tsc: u64, call: Call, step: &Step) -> Option<Asked> {
        let shape = shape_of(&call);
        let is_about_files =
            |arg: &Arg| matches!(arg.kind, ArgKind::Fd | ArgKind::DirFd | ArgKind::Path);
        if step.answered || !shape.args.iter().any(is_about_files) {
            return None;
        }
        let process = self.world.thread(thread)?.process;
        let who = self.users.of(thread).unwrap_or((0, 0));
        // Paths of who sees other mounts are those that the files have without.
        let root = match self.world.has_own_view(thread) {
            true => NodeId::ROOT,
            false => self.roots.get(&process).copied().unwrap_or(NodeId::ROOT),
        };
        let mut asked = Asked {
            thread,
            tsc,
            role: roles::of(call.nr),
            args: shape.args,
            classes: shape.classes,
            foreign: self.foreign.has(process),
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
        asked.directory = step.directory().filter(|_| asked.role == Role::Directory).cloned();
        Some(asked)
    }

    fn descriptors(&self, asked: &mut Asked) {
        let Some(table) = self.world.descriptors(asked.thread) else { return };
        let mut found = 0;
        for (arg, number) in asked.args.iter().zip(0u8..) {
            let is_ioctl_source = asked.role == Role::Ioctl && number == 2;
            if !matches!(arg.kind, ArgKind::Fd | ArgKind::DirFd) && !is_ioctl_source {
                continue;
            }
            let fd = asked.call.args[usize::from(number)] as i32;
            let mark = table.get(fd).map_or(0, |entry| entry.description.mark.get());
            if mark != 0 && found < asked.fds.len() {
                asked.fds[found] = Some((number, mark));
                found += 1;
            }
        }
    }

    fn paths(&mut self, asked: &mut Asked, step: &Step) {
        let mut directory = (AT_FDCWD, None);
        for (arg, number) in asked.args.iter().zip(0u8..) {
            match arg.kind {
                ArgKind::DirFd => {
                    let mark = asked.mark(number);
                    let node = mark.and_then(|mark| self.opens.get(mark)).map(|open| open.node);
                    directory = (asked.call.args[usize::from(number)] as i32, node);
                }
                ArgKind::Path => {
                    let aside = step.aside.iter().find(|(arg, _)| *arg == number);
                    if let Some((_, text)) = aside {
                        let (text, base, descriptor) = (text.clone(), None, None);
                        asked.paths.push(PathArg { arg: number, text, base, descriptor });
                        continue;
                    }
                    let Some(text) = self.text(&asked.call, number, false) else { continue };
                    let base = if directory.0 == AT_FDCWD && text.first() != Some(&b'/') {
                        self.working_directory(asked.thread, asked.root)
                    } else {
                        directory.1
                    };
                    let descriptor = self.named_descriptor(asked.thread, &text);
                    asked.paths.push(PathArg { arg: number, text, base, descriptor });
                }
                _ => {}
            }
        }
    }

    /// A NUL-terminated text behind an argument.
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
        if !real || directory.path.is_empty() || path::is_cut(&directory.path) {
            return None;
        }
        let node = self.canonical(root, &directory.path, Kind::Directory).ok()??;
        directory.mark.set(node.mark());
        Some(node)
    }

    /// A path that is no argument of its own, as seen by the thread of a call.
    pub fn seen_by(&mut self, asked: &Asked, text: Vec<u8>) -> PathArg {
        let base = self.working_directory(asked.thread, asked.root);
        PathArg { arg: u8::MAX, text, base, descriptor: None }
    }

    /// The file at a path that the kernel told.
    pub fn canonical(
        &mut self,
        root: NodeId,
        path: &[u8],
        kind: Kind,
    ) -> Result<Option<NodeId>, ImageError> {
        let how = Walk { root, follow: false, is_there: true, canonical: true };
        let Some(spot) = self.tree.walk(root, path, how)? else { return Ok(None) };
        let node = self.tree.there(&spot, kind, true)?;
        Ok(Some(self.tree.is_no_link(node)))
    }

    /// The file behind a path that names one of the process's own descriptors.
    fn named_descriptor(&self, thread: u32, text: &[u8]) -> Option<NodeId> {
        let prefixes: [&[u8]; 3] = [b"/proc/self/fd/", b"/proc/thread-self/fd/", b"/dev/fd/"];
        let standard: [(&[u8], i32); 3] =
            [(b"/dev/stdin", 0), (b"/dev/stdout", 1), (b"/dev/stderr", 2)];
        let number = prefixes.iter().find_map(|prefix| text.strip_prefix(*prefix));
        let fd = match number {
            Some(number) => std::str::from_utf8(number).ok()?.parse().ok()?,
            None => standard.iter().find(|(path, _)| *path == text)?.1,
        };
        let table = self.world.descriptors(thread)?;
        let open = self.opens.get(table.get(fd)?.description.mark.get())?;
        Some(self.tree.find(open.node))
    }

    /// Where a path argument leads; `None` for what is not on a disk or cannot be told.
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
            return Ok(path.base.filter(|_| asked.has_flag("AT_EMPTY_PATH")).map(Spot::of));
        }
        let absolute = path.text[0] == b'/';
        if absolute && !crate::realm::is_real(&path::resolve(b"/", &path.text)) {
            return Ok(None);
        }
        let Some(base) = path.base.or(absolute.then_some(asked.root)) else { return Ok(None) };
        let how = Walk { root: asked.root, follow, is_there, canonical: false };
        let spot = self.tree.walk(base, &path.text, how)?;
        // Who fails to make or to take away a name need not have looked at what the slash says.
        let is_sure = asked.success().is_some() || !asked.role.changes_names();
        Ok(spot.map(|spot| Spot { is_directory: spot.is_directory && is_sure, ..spot }))
    }

    /// A program has begun: what it found open, and where.
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
            && let Some(root) = self.canonical(NodeId::ROOT, &state.root, Kind::Directory)?
        {
            self.roots.insert(process, root);
        }
        for (path, kind) in [(&state.exe, Kind::File), (&state.cwd, Kind::Directory)] {
            if let Some(node) = self.told(path, kind)?
                && kind == Kind::File
            {
                self.is_executable(node);
            }
        }
        self.inherited(process, &state)
    }

    /// The file at a path of /proc, if it is on a disk and was not deleted.
    fn told(&mut self, path: &[u8], kind: Kind) -> Result<Option<NodeId>, ImageError> {
        let is_path = path.first() == Some(&b'/') && crate::realm::is_real(path);
        if !is_path || path.ends_with(b" (deleted)") || path.starts_with(b"/memfd:") {
            return Ok(None);
        }
        self.canonical(NodeId::ROOT, path, kind)
    }

    /// Takes note of the open files of a process that no recorded call opened. Those that look
    /// alike are taken for one: a shell's `2>&1` makes two numbers for one open file.
    fn inherited(&mut self, process: u32, state: &ProcessState) -> Result<(), ImageError> {
        let Some(&thread) = self.leaders.get(&process) else { return Ok(()) };
        let mut new: Vec<(usize, Rc<Description>)> = Vec::new();
        if let Some(table) = self.world.descriptors(thread) {
            for (at, open) in state.fds.iter().enumerate() {
                let description = table.get(open.fd).map(|entry| entry.description);
                // The state may be that of an earlier program, and the number another file since.
                let is_it = |d: &&Rc<Description>| d.mark.get() == 0 && d.path == open.target;
                if let Some(description) = description.filter(is_it) {
                    new.push((at, description.clone()));
                }
            }
        }
        let mut marks: HashMap<(&[u8], u64, u32), u64> = HashMap::new();
        for (at, description) in &new {
            let open = &state.fds[*at];
            let key = (&open.target[..], open.offset, open.flags & !0o2_000_000);
            if let Some(mark) = marks.get(&key) {
                self.opens.share(description, *mark);
                continue;
            }
            if let Some(node) = self.told(&open.target, Kind::Unknown)? {
                let append = u64::from(open.flags) & O_APPEND != 0;
                self.opens.add(description, node, open.offset, append);
                if u64::from(open.flags) & open_flag::ACCESS_MODE != 0 {
                    // Most likely it is the file of who may write to it.
                    self.tree.node_mut(node).about.written_by((state.uids[3], state.gids[3]));
                }
                if open.offset > 0
                    && let Some(content) = self.tree.content(node)
                {
                    content.size_min = content.size_min.max(open.offset.min(i64::MAX as u64));
                    content.now = content.now.max(content.size_min);
                }
                marks.insert(key, description.mark.get());
            }
        }
        Ok(())
    }
}
