//! Decides what is kept of the contents that calls carry, when that depends on paths.
//!
//! The recorder follows descriptors and directories with the model while it reads, in the order of
//! time over all threads, and decides before the first byte of a buffer is handed on. Where the
//! file behind a descriptor is unknown, it keeps no bytes.

use std::collections::HashMap;
use std::sync::Arc;

use model::{Conditions, InlineOnly, World, glob};
use ring::DataMode;
use syscalls::abi::calls;
use syscalls::record::part;
use syscalls::shape::{Arg, ArgKind, Classes, Len, Of, operand};
use syscalls::{Act, Operand};
use trace::event::{Call, Data, Event, EventKind, Outcome, ProcessState};

use crate::choice;
use crate::mailbox::Mailbox;

/// What is kept of the contents of files whose path matches a pattern.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DataRule {
    /// Pattern of absolute paths; `*` also matches slashes.
    pub glob: Vec<u8>,
    /// What is kept.
    pub mode: DataMode,
}

/// What is kept of the contents that calls carry, by path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DataRules {
    /// Applies where no rule matches.
    pub usual: DataMode,
    /// The last matching rule applies.
    pub rules: Vec<DataRule>,
}

impl Default for DataRules {
    fn default() -> DataRules {
        DataRules { usual: DataMode::Full, rules: Vec::new() }
    }
}

impl DataRules {
    /// What agents must deliver so that every rule can be applied.
    pub fn most(&self) -> DataMode {
        let modes = self.rules.iter().map(|rule| rule.mode);
        modes.fold(self.usual, |a, b| if (b as u32) < a as u32 { b } else { a })
    }

    /// Returns true if nothing is left out.
    pub fn keeps_all(&self) -> bool {
        self.usual == DataMode::Full && self.rules.iter().all(|rule| rule.mode == DataMode::Full)
    }

    /// Mode for contents whose file is unknown.
    fn in_doubt(&self) -> DataMode {
        match self.rules.iter().any(|rule| rule.mode as u32 > self.usual as u32) {
            true => stricter(self.usual, DataMode::Hash),
            false => self.usual,
        }
    }

    /// Mode for a file of this name, as a descriptor or an argument gives it.
    pub(crate) fn of_path(&self, path: &[u8]) -> DataMode {
        if is_nameless(path) {
            return self.usual;
        }
        if path.first() != Some(&b'/') || is_alias(path) {
            return self.in_doubt();
        }
        match path.strip_suffix(b" (deleted)") {
            Some(former) => stricter(self.of_name(path), self.of_name(former)),
            None => self.of_name(path),
        }
    }

    /// Strictest mode for a file that has all these names.
    pub(crate) fn of_paths<'a>(&self, names: impl IntoIterator<Item = &'a [u8]>) -> DataMode {
        let modes = names.into_iter().map(|name| self.of_path(name));
        modes.reduce(stricter).unwrap_or(self.usual)
    }

    fn of_name(&self, path: &[u8]) -> DataMode {
        let rule = self.rules.iter().rfind(|rule| glob::matches(&rule.glob, path));
        rule.map_or(self.usual, |rule| rule.mode)
    }
}

pub(crate) fn stricter(a: DataMode, b: DataMode) -> DataMode {
    if a as u32 >= b as u32 { a } else { b }
}

/// Whether the model or /proc uses such a name for what never was in a directory.
fn is_nameless(path: &[u8]) -> bool {
    // The model gives these names to files opened by a path that it could not resolve.
    let opened = path.starts_with(b"anon_inode:[open") || path.starts_with(b"anon_inode:[creat");
    let kinds: [&[u8]; 3] = [b"pipe:", b"socket:", b"anon_inode:"];
    kinds.iter().any(|kind| path.starts_with(kind)) && !opened
}

/// Whether the name leads to a file that has another name.
fn is_alias(path: &[u8]) -> bool {
    let standard = [&b"/dev/stdin"[..], b"/dev/stdout", b"/dev/stderr"].contains(&path);
    let links: [&[u8]; 6] = [b"fd", b"cwd", b"root", b"exe", b"map_files", b"task"];
    let of_process = || path.split(|&byte| byte == b'/').skip(3).any(|name| links.contains(&name));
    standard || path.starts_with(b"/dev/fd/") || path.starts_with(b"/proc/") && of_process()
}

fn args_of(call: &Call) -> &'static [Arg] {
    syscalls::by_number(call.nr.into()).map_or(&[], |row| row.args_of(&call.args))
}

fn act_of(call: &Call) -> Act {
    syscalls::by_number(call.nr.into()).map_or(Act::Plain, |row| row.act_of(&call.args))
}

/// Whether a call may change descriptors or directories. Calls that only move data do not.
fn may_change(call: &Call) -> bool {
    let Some(row) = syscalls::by_number(call.nr.into()) else { return false };
    let is_message = |arg: &Arg| matches!(arg.kind, ArgKind::Buf(_, Of::Msghdr | Of::Mmsghdr, _));
    !row.classes.intersects(Classes::READ.or(Classes::WRITE)) || row.args.iter().any(is_message)
}

/// Kind of a piece of memory, known before its bytes arrive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Piece {
    /// Contents, to which the modes apply.
    Content,
    /// A path or a struct: always kept, and the model may need it.
    Told,
}

/// Decides what is kept, and follows descriptors and directories for that.
pub(crate) struct Policy {
    rules: DataRules,
    /// Which calls are kept; all if `None`.
    wanted: Option<Conditions>,
    world: World,
    mailbox: Arc<Mailbox>,
    /// States of processes with their time stamps, until their program begins.
    states: HashMap<u32, (u64, ProcessState)>,
    /// Time stamp of the last IMAGE of each process.
    images: HashMap<u32, u64>,
    /// Open calls that create a task whose START has not been read, by thread.
    spawning: HashMap<u32, Call>,
    /// Records are not read in the order of time: every decision is in doubt.
    pub careful: bool,
}

impl Policy {
    pub fn new(rules: DataRules, wanted: Option<Conditions>, mailbox: Arc<Mailbox>) -> Policy {
        Policy {
            rules,
            wanted,
            world: World::new(),
            mailbox,
            states: HashMap::new(),
            images: HashMap::new(),
            spawning: HashMap::new(),
            careful: false,
        }
    }

    /// Returns the kind of a piece of memory of a call.
    pub fn piece(call: &Call, arg: u8, part: u8) -> Piece {
        let of = match args_of(call).get(usize::from(arg)).map(|arg| arg.kind) {
            Some(ArgKind::Buf(_, Of::Iovec | Of::Msghdr | Of::Mmsghdr | Of::Holder(_), _)) => None,
            Some(ArgKind::Buf(_, of, len)) => Some((of, len)),
            _ => None,
        };
        // Lengths that mark a buffer as contents for the agents.
        let bulk = |len| {
            matches!(
                len,
                Len::Arg(_) | Len::Ret | Len::RetAtMost(_, 1) | Len::ArgPlus(..) | Len::RetPlus(_)
            )
        };
        match part {
            part::CONTENT | part::SNAPSHOT => Piece::Content,
            part::WHOLE if of.is_some_and(|(_, len)| bulk(len)) => Piece::Content,
            _ => Piece::Told,
        }
    }

    /// Takes the beginning of a call. Returns the mode of its contents by its descriptors, if any.
    pub fn entered(&mut self, thread: u32, tsc: u64, call: &Call) -> Option<DataMode> {
        let (act, args) = (act_of(call), args_of(call));
        let closes = match act {
            Act::Close => Some(call.args[0]),
            // Until dup2 returns, it is unknown which file this descriptor is.
            _ => operand(args, Operand::NewNumber)
                .map(|onto| call.args[usize::from(onto)])
                .filter(|onto| *onto != call.args[0]),
        };
        if let Some(fd) = closes {
            let args = [fd, 0, 0, 0, 0, 0];
            let close = Call { nr: calls::CLOSE, nargs: 1, args, ..call.clone() };
            self.apply(thread, tsc, EventKind::Call(close));
        } else if act == Act::Spawn {
            self.spawning.insert(thread, call.clone());
        }
        let carries = args.iter().zip(0..).any(|(arg, number)| {
            matches!(
                arg.kind,
                ArgKind::Buf(_, Of::Iovec | Of::Msghdr | Of::Mmsghdr | Of::Holder(_), _)
            ) || Policy::piece(call, number, part::WHOLE) == Piece::Content
        });
        let has_descriptor = args.iter().any(|arg| matches!(arg.kind, ArgKind::Fd));
        if !carries || !has_descriptor {
            return None;
        }
        // Brings the world to the time of the call.
        let event = Event::new(thread, tsc, EventKind::Call(call.clone()));
        self.world.step(&event, &mut InlineOnly);
        let Some(table) = self.world.descriptors(thread) else {
            return Some(self.rules.in_doubt());
        };
        let fds = args.iter().zip(call.args).filter(|(arg, _)| matches!(arg.kind, ArgKind::Fd));
        let modes = fds.map(|(_, fd)| match table.get(fd as i32) {
            Some(entry) => self.rules.of_path(&entry.description.path),
            None => self.rules.in_doubt(),
        });
        modes.reduce(stricter)
    }

    /// Decides about a call when its first contents arrive. Its paths have arrived before.
    pub fn decide(
        &mut self,
        thread: u32,
        tsc: u64,
        call: Call,
        of_descriptors: Option<DataMode>,
    ) -> DataMode {
        if self.wanted.as_ref().is_some_and(|wanted| !choice::is_named(wanted, &call)) {
            return DataMode::None;
        }
        let of_paths = self.of_paths(thread, tsc, call);
        let doubt = self.careful.then(|| self.rules.in_doubt());
        let all = [of_descriptors, of_paths, doubt];
        all.into_iter().flatten().reduce(stricter).unwrap_or(self.rules.usual)
    }

    fn of_paths(&mut self, thread: u32, tsc: u64, call: Call) -> Option<DataMode> {
        let is_path = |arg: &&Arg| matches!(arg.kind, ArgKind::Path);
        let count = args_of(&call).iter().filter(is_path).count();
        if count == 0 {
            return None;
        }
        let event = Event::new(thread, tsc, EventKind::Call(call));
        let paths = self.world.step(&event, &mut InlineOnly).paths;
        if paths.len() < count {
            return Some(self.rules.in_doubt());
        }
        paths.iter().map(|(_, path)| self.rules.of_path(path)).reduce(stricter)
    }

    /// Takes memory of the open call that is no content.
    pub fn told(&mut self, thread: u32, data: &Data) {
        if let Some(call) = self.spawning.get_mut(&thread) {
            call.data.push(data.clone());
        }
    }

    /// Returns true if a call that has ended is kept.
    pub fn keeps(&mut self, thread: u32, tsc: u64, whole: impl FnOnce() -> Call) -> bool {
        let Some(wanted) = &self.wanted else { return true };
        choice::is_kept(wanted, &mut self.world, (thread, tsc), whole())
    }

    /// Takes the end of a call, also of one that never returned.
    pub fn returned(&mut self, thread: u32, tsc: u64, bare: &Call, whole: impl FnOnce() -> Call) {
        let act = act_of(bare);
        let spawns = act == Act::Spawn;
        // The effects of close, and of creating a task that has begun, were applied already.
        if spawns && self.spawning.remove(&thread).is_none() || act == Act::Close {
            return;
        }
        if may_change(bare) {
            self.apply(thread, tsc, EventKind::Call(whole()));
        }
    }

    /// Takes back the open call, which was not made.
    pub fn abandoned(&mut self, thread: u32) {
        self.spawning.remove(&thread);
    }

    /// Takes an event other than a call.
    pub fn event(&mut self, thread: u32, tsc: u64, kind: &EventKind) {
        match kind {
            EventKind::State(state) => {
                self.states.insert(state.process, (tsc, ProcessState::clone(state)));
            }
            EventKind::Image { tid, .. } => {
                let kind = EventKind::Image { tid: *tid, data: Vec::new() };
                self.apply(thread, tsc, kind);
                self.state(thread, tsc);
            }
            EventKind::Start { parent, tid, .. } => {
                // A task may begin before the call that creates it returns.
                if let Some(mut call) = self.spawning.remove(parent) {
                    call.outcome = Outcome::Returned { exit_tsc: tsc, ret: i64::from(*tid) };
                    self.apply(*parent, tsc, EventKind::Call(call));
                }
                self.apply(thread, tsc, kind.clone());
            }
            EventKind::End { .. } => {
                self.spawning.remove(&thread);
                self.apply(thread, tsc, kind.clone());
            }
            EventKind::Exit { process, .. } => {
                self.states.remove(process);
                self.images.remove(process);
                self.apply(thread, tsc, kind.clone());
            }
            EventKind::Call(_)
            | EventKind::Signal { .. }
            | EventKind::Stall { .. }
            | EventKind::Gap { .. }
            | EventKind::Kernel(_)
            | EventKind::KernelLayout(_)
            | EventKind::Other(_)
            | EventKind::Unknown(_) => {}
        }
    }

    /// Applies the state of a process whose program has begun; it may still be in the mailbox.
    fn state(&mut self, thread: u32, tsc: u64) {
        let Some(process) = self.world.thread(thread).map(|thread| thread.process) else { return };
        let waiting = self.mailbox.state_of(process);
        let read = self.states.remove(&process);
        let before = self.images.insert(process, tsc).unwrap_or(0);
        // A state older than the previous image belongs to an earlier program.
        let state = waiting.into_iter().chain(read).find(|(told, _)| *told > before);
        if let Some((_, state)) = state {
            self.apply(trace::event::RECORDER, tsc, EventKind::State(Box::new(state)));
        }
    }

    fn apply(&mut self, thread: u32, tsc: u64, kind: EventKind) {
        self.world.apply(&Event::new(thread, tsc, kind), &mut InlineOnly);
    }
}

#[cfg(test)]
mod tests;
