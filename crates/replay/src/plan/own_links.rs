//! Calls on links to a process's own descriptors (`/proc/self/fd/N`, `/dev/stdout`). A replay has
//! no /proc, so the call is made on the descriptor instead. It reaches the same file even if that
//! has another name now, or never had one.

use std::rc::Rc;

use model::path::{Own, own_descriptor};
use model::{Description, Origin, Step, Through};
use syscalls::Act;
use syscalls::abi::calls;
use syscalls::abi::files::{AT_EMPTY_PATH, O_ACCMODE, O_PATH};
use syscalls::shape::{Arg, ArgKind, Classes, FlagSet, Syscall};
use trace::event::Call;

use super::Planner;
use crate::batch;
use crate::treatment::Said;

/// Replacements in a call that names such links.
#[derive(Default)]
pub struct OwnLinks {
    /// Replaced path texts, by argument.
    pub paths: Vec<(u8, Vec<u8>)>,
    /// Replaced numbers, by argument.
    values: Vec<(u8, u64)>,
    /// The equivalent call on a descriptor.
    instead: Option<&'static Syscall>,
    /// The descriptor to reopen, and its flags.
    opens: Option<(i32, i32)>,
    /// The descriptor to duplicate.
    copies: Option<i32>,
    /// No equivalent call on a descriptor exists.
    none: bool,
}

impl OwnLinks {
    /// Whether anything is replaced.
    pub fn any(&self) -> bool {
        let no_others = self.opens.is_none() && self.copies.is_none() && !self.none;
        !(self.paths.is_empty() && self.values.is_empty() && no_others)
    }

    /// Adds texts for those of the paths in `left` that have none yet.
    pub fn also(&mut self, texts: &[(u8, Vec<u8>)], left: &[(u8, Vec<u8>)]) {
        let has = |paths: &[(u8, Vec<u8>)], arg: u8| paths.iter().any(|(of, _)| *of == arg);
        let new = |(arg, _): &&(u8, Vec<u8>)| has(left, *arg) && !has(&self.paths, *arg);
        let texts: Vec<_> = texts.iter().filter(new).cloned().collect();
        self.paths.extend(texts);
    }

    /// Whether the call only reopens or duplicates a descriptor.
    pub fn give_a_copy(&self) -> bool {
        self.opens.is_some() || self.copies.is_some()
    }

    /// Whether the call cannot be replayed.
    pub fn cannot_be_made(&self) -> bool {
        self.none
    }

    /// Applies the replacements to a packed call.
    pub fn apply(&self, call: &mut batch::Call) {
        if let Some(row) = self.instead {
            (call.nr, call.args, call.act) = (row.nr, row.args, row.act);
        }
        for (arg, value) in &self.values {
            call.values[usize::from(*arg)] = *value;
        }
        call.reopens = self.opens;
        if let Some(fd) = self.copies {
            call.values = [fd as u64, libc::F_DUPFD_CLOEXEC as u64, 0, 0, 0, 0];
        }
    }
}

impl Planner<'_> {
    /// Finds the replacements for a call's links to its own descriptors. Such paths become those of
    /// the files; paths for which only the descriptor counts are removed.
    pub(super) fn follow_own_links(
        &self,
        thread: u32,
        said: &Said,
        (call, ret): (&Call, i64),
        step: &Step,
        paths: &mut Vec<(u8, Vec<u8>)>,
    ) -> OwnLinks {
        let copies = self.own_copy(thread, said, call, step);
        let instead = copies.and_then(|_| syscalls::by_number(calls::FCNTL.into()));
        let mut links = OwnLinks { copies, instead, ..OwnLinks::default() };
        let may_be = |path: &[u8]| path.starts_with(b"/proc/") || path.starts_with(b"/dev/");
        if step.through.is_empty() && !paths.iter().any(|(_, path)| may_be(path)) {
            return links;
        }
        step.through.iter().for_each(|through| links.go_below(said, through, paths));
        // The descriptor does not show why a call on the link itself failed.
        if ret < 0 {
            return links;
        }
        let pid = self.world.ids(thread).map_or(0, |(pid, _)| pid);
        let Some(table) = self.world.descriptors(thread) else { return links };
        paths.retain_mut(|(arg, path)| {
            let Some(fd) = own_descriptor(path, pid) else { return true };
            let means_link = syscalls::paths::means_link(call.nr, *arg, &call.args);
            let Some(entry) = table.get(fd).filter(|_| !means_link) else { return true };
            let description = &entry.description;
            if !self.judge.is_here(description) {
                return true;
            }
            let named = matches!(description.origin, Origin::Path | Origin::Outside);
            let changes = said.row.classes.intersects(Classes::CHANGE);
            if said.ret == syscalls::Ret::Fd {
                let flags = step.gives().find_map(|(_, entry)| entry.description.flags);
                links.opens = flags.map(|flags| (fd, flags as i32));
                links.none |= links.opens.is_none();
            } else if !may_change(said, description) || !links.be_about(said, *arg, fd, call) {
                if named && changes {
                    *path = description.path.clone();
                    links.paths.push((*arg, path.clone()));
                    return true;
                }
                links.none = true;
            }
            false
        });
        links
    }
}

impl Planner<'_> {
    /// Returns the own descriptor that a process duplicates with pidfd_getfd.
    fn own_copy(&self, thread: u32, said: &Said, call: &Call, step: &Step) -> Option<i32> {
        if said.row.act != Act::TakeDescriptor {
            return None;
        }
        let fd = call.args[1] as i32;
        let table = self.world.descriptors(thread)?;
        let own = &table.get(fd)?.description;
        step.gives().any(|(_, entry)| Rc::ptr_eq(&entry.description, own)).then_some(fd)
    }
}

impl OwnLinks {
    /// Replaces a path that leads through one of the process's own directories.
    fn go_below(&mut self, said: &Said, through: &Through, paths: &[(u8, Vec<u8>)]) {
        let Through { arg, own, below } = through;
        let begins_at = syscalls::paths::of(said.row).into_iter().flatten();
        let begins_at = begins_at.filter(|path| path.path == *arg).find_map(|path| path.dir);
        let here = || if below.is_empty() { b".".to_vec() } else { below.clone() };
        let text = match (own, begins_at) {
            (Own::Descriptor(fd), Some(dir)) => {
                self.values.push((dir, *fd as u64));
                below.clone()
            }
            (Own::Cwd, Some(dir)) => {
                self.values.push((dir, libc::AT_FDCWD as u64));
                here()
            }
            (Own::Cwd, None) => here(),
            // The directory may have another name now.
            (Own::Root, _) | (Own::Descriptor(_), None) => {
                let path = paths.iter().find(|(of, _)| of == arg);
                path.map(|(_, path)| path.clone()).unwrap_or_default()
            }
        };
        self.paths.push((*arg, text));
    }

    /// Turns a call into one on a descriptor. Returns whether that is possible.
    fn be_about(&mut self, said: &Said, arg: u8, fd: i32, call: &Call) -> bool {
        let fd = fd as u64;
        let begins_at = syscalls::paths::of(said.row).into_iter().flatten();
        let begins_at = begins_at.filter(|path| path.path == arg).find_map(|path| path.dir);
        let has_empty = |set: &FlagSet| set.members.iter().any(|(bits, _)| *bits == AT_EMPTY_PATH);
        let takes_empty = |arg: &Arg| matches!(arg.kind, ArgKind::Flags(set) if has_empty(set));
        if let (Some(dir), Some(flags)) = (begins_at, said.args.iter().position(takes_empty)) {
            // No link is left to follow, so linkat must not have AT_SYMLINK_FOLLOW.
            let mut bits = call.args[flags] | AT_EMPTY_PATH;
            if said.act == Act::HardLink {
                bits = AT_EMPTY_PATH;
            }
            self.values.extend([(dir, fd), (flags as u8, bits)]);
            self.paths.push((arg, Vec::new()));
            return true;
        }
        let Some(row) = about_descriptor(said) else { return false };
        self.instead = Some(row);
        let rest = if begins_at.is_some() { 2 } else { 1 };
        self.values.push((0, fd));
        let others = call.args.iter().skip(rest).zip(1..row.args.len() as u8);
        self.values.extend(others.map(|(value, arg)| (arg, *value)));
        true
    }
}

/// Returns the call that does with a descriptor what this one does with a path.
fn about_descriptor(said: &Said) -> Option<&'static Syscall> {
    syscalls::by_number(said.row.by_descriptor?.into())
}

/// Whether the call on a descriptor may change this open file: not if it was opened with O_PATH,
/// and `ftruncate` needs a writable descriptor.
fn may_change(said: &Said, open: &Description) -> bool {
    let has_none =
        !said.row.classes.intersects(Classes::CHANGE) || about_descriptor(said).is_none();
    has_none
        || open.flags.is_none_or(|flags| match said.act {
            _ if flags & O_PATH != 0 => false,
            Act::Truncate => flags & O_ACCMODE != 0,
            _ => true,
        })
}
