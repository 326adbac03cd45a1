//! Effects of calls on mounts and on the roots of processes.

use std::rc::Rc;

use syscalls::Act;
use syscalls::abi::files::AT_FDCWD;
use syscalls::abi::tasks::{
    CLONE_NEWNS, MNT_DETACH, MS_BIND, MS_MOVE, MS_PROPAGATION, MS_REC, MS_REMOUNT,
};

use super::Look;
use crate::path::{self, Own};
use crate::places::{self, Change, Mount, Place, Sight, Space};
use crate::step::{Effect, Step, Through, ViewChange};

/// Magic number that old programs put above the flags.
const MAGIC: u64 = 0xc0ed_0000;
const MAGIC_MASK: u64 = 0xffff_0000;

/// Default mode of the root of a tmpfs.
const MODE: u32 = 0o1777;

impl Look<'_> {
    /// Returns the place that a path leads to for the thread, with its mounts, links and root.
    pub(super) fn place_of(&self, base: Option<Place>, text: &[u8], follow: bool) -> Option<Place> {
        if text.first() != Some(&b'/') && base.as_ref().is_none_or(|base| base.path.is_empty()) {
            return None;
        }
        let thread = self.world.thread(self.thread)?;
        let space = thread.space.borrow();
        let root = self.world.root_of(self.thread);
        let sight = Sight { mounts: &space, links: self.world.links(), root };
        Some(sight.walk(&base.unwrap_or_else(Place::root), text, follow))
    }

    /// The place of the working directory or of a descriptor's open file.
    pub(super) fn base(&self, dir: i32) -> Option<Place> {
        if dir == AT_FDCWD {
            let cwd = self.world.directory(self.thread)?;
            return Some(Place { mount: cwd.mount, path: cwd.path.clone() });
        }
        let open = self.description(dir)?;
        Some(Place { mount: open.mount, path: open.path.clone() })
    }

    /// Resolves a path argument while some process has its own mounts or root.
    pub(super) fn place_path(&mut self, arg: u8, dir: i32, text: &[u8], step: &mut Step) {
        let base = match text.first() {
            Some(b'/') => None,
            _ => self.base(dir),
        };
        let follow = !syscalls::paths::means_link(self.call.nr, arg, &self.call.args);
        let Some(mut place) = self.place_of(base.clone(), text, follow) else { return };
        if let Some((own, below)) = self.own_directory(arg, &place.path) {
            let below = below.to_vec();
            let begins = match own {
                Own::Descriptor(fd) => self.base(fd),
                Own::Cwd => self.base(AT_FDCWD),
                Own::Root => Some(self.world.root_of(self.thread)),
            };
            if let Some(found) = self.place_of(begins, &below, follow) {
                place = found;
            }
            step.through.push(Through { arg, own, below });
        } else {
            step.aside.extend(aside(&place, base.as_ref(), text).map(|text| (arg, text)));
        }
        step.paths.push((arg, place.path.clone()));
        step.places.push((arg, place));
    }

    /// Returns the place that a path argument leads to.
    fn place(&self, arg: u8, step: &Step) -> Option<Place> {
        let place = step.places.iter().find(|(of, _)| *of == arg).map(|(_, place)| place.clone());
        let path = || step.paths.iter().find(|(of, _)| *of == arg).map(|(_, path)| path.clone());
        let place = place.or_else(|| Some(Place { mount: 0, path: path()? }))?;
        // Container runtimes use /proc links of descriptors to name the open file itself.
        let open = self.behind_own_link(&place.path);
        Some(open.map_or(place, |open| Place { mount: open.mount, path: open.path.clone() }))
    }

    fn space(&self) -> Option<Space> {
        Some(Rc::clone(&self.world.thread(self.thread)?.space))
    }

    /// Adds the effects of a call on mounts, roots, links and names.
    pub(super) fn mounts(&mut self, step: &mut Step) {
        let change = match self.shape.act {
            Act::Mount => self.mount(step),
            Act::MoveMount => self.move_mount(step),
            Act::Unmount => self.unmount(step),
            Act::PivotRoot => self.pivot(step),
            Act::Root => {
                let Some(root) = self.place(0, step) else { return };
                let cwd = self.world.directory(self.thread);
                let at = cwd.map(|cwd| Place { mount: cwd.mount, path: cwd.path.clone() });
                let directory =
                    self.world.directory_in(at.unwrap_or_default(), Some(Rc::new(root)));
                step.at_exit.push(Effect::Chdir { directory });
                step.at_exit.push(Effect::View(ViewChange::Root));
                None
            }
            Act::Unshare if self.call.args[0] & CLONE_NEWNS != 0 => {
                step.at_exit.push(Effect::View(ViewChange::Leave));
                None
            }
            Act::EnterNamespace => {
                self.enter(step);
                None
            }
            Act::MakeLink => {
                let path = step.paths.first().map(|(_, path)| path.clone());
                if let (Some(path), Some(target)) = (path, self.text(0, false)) {
                    let target = target.into_owned();
                    step.at_exit.push(Effect::View(ViewChange::Linked { path, target }));
                }
                None
            }
            Act::Rename => {
                if let [(_, from), (_, to)] = &step.paths[..] {
                    let (from, to) = (from.clone(), to.clone());
                    step.at_exit.push(Effect::View(ViewChange::Renamed { from, to }));
                }
                None
            }
            Act::Remove if self.world.links().any() => {
                let path = step.paths.first().map(|(_, path)| path.clone());
                step.at_exit.extend(path.map(|path| Effect::View(ViewChange::Removed { path })));
                None
            }
            _ => None,
        };
        step.at_exit.extend(change.map(|change| Effect::View(ViewChange::Mounts(change))));
    }

    /// Adds that the thread leaves the root or the mounts of the first processes, if it does.
    pub(super) fn leaves(&self, step: &mut Step) {
        let leaves = match self.shape.act {
            Act::Root => step.paths.first().is_none_or(|(_, path)| path != b"/"),
            Act::PivotRoot => true,
            Act::Unshare => self.call.args[0] & CLONE_NEWNS != 0,
            Act::EnterNamespace => self.may_enter(CLONE_NEWNS, b"/mnt"),
            _ => false,
        };
        if leaves {
            let directory = self.world.directory_elsewhere(&self.world.cwd(self.thread));
            step.at_exit.push(Effect::Chdir { directory });
        }
    }

    fn mount(&mut self, step: &mut Step) -> Option<Change> {
        let mut flags = self.call.args[3];
        if flags & MAGIC_MASK == MAGIC {
            flags &= !MAGIC_MASK;
        }
        let bind = flags & MS_BIND != 0;
        if flags & (MS_REMOUNT | MS_PROPAGATION) != 0 && flags & MS_MOVE == 0 {
            return None;
        }
        let at = self.place(1, step)?;
        if flags & MS_MOVE != 0 {
            let from = self.place(0, step)?;
            return Some(match self.mount_at(&from) {
                Some(id) => Change::Move { id, to: at },
                None => self.one(at, places::not_followed("a mount that was moved")),
            });
        }
        if bind {
            let from = self.place(0, step)?;
            return Some(self.bind(&from, at, flags & MS_REC != 0));
        }
        let kind = self.text(2, false)?;
        let id = self.world.next_mount();
        let root = places::root_of(&kind, id);
        if places::is_fresh(&root) {
            let options = self.text(4, false).unwrap_or_default();
            step.makes = Some((root.clone(), mode(&options)));
        }
        Some(Change::Mount(vec![Mount::new(id, at, root, self.world.budget())]))
    }

    fn one(&mut self, at: Place, root: Vec<u8>) -> Change {
        let id = self.world.next_mount();
        Change::Mount(vec![Mount::new(id, at, root, self.world.budget())])
    }

    fn bind(&mut self, from: &Place, at: Place, recursive: bool) -> Change {
        let id = self.world.next_mount();
        let mut all = vec![Mount::new(id, at, from.path.clone(), self.world.budget())];
        if recursive && let Some(space) = self.space() {
            let budget = self.world.budget().clone();
            let next = || self.world.next_mount();
            all.extend(places::with_those_below(&space.borrow(), from, id, next, &budget));
        }
        Change::Mount(all)
    }

    /// Mounts a detached mount, given by its descriptor, at a path.
    fn move_mount(&mut self, step: &Step) -> Option<Change> {
        let to = self.place(3, step)?;
        let from = self.description(self.call.args[0] as i32);
        let root = from.map(|from| from.path.clone()).filter(|path| path.first() == Some(&b'/'));
        Some(match root {
            Some(path) => self.bind(&Place { mount: 0, path }, to, false),
            None => self.one(to, places::not_followed("a mount made by fsmount")),
        })
    }

    fn mount_at(&self, at: &Place) -> Option<u32> {
        let space = self.space()?;
        let root = self.world.root_of(self.thread);
        let sight = Sight { mounts: &space.borrow(), links: self.world.links(), root };
        sight.with_root_at(&sight.on_top(at.clone())).map(|mount| mount.id)
    }

    fn unmount(&self, step: &Step) -> Option<Change> {
        let id = self.mount_at(&self.place(0, step)?)?;
        Some(Change::Unmount { id, below: self.call.args[1] & MNT_DETACH != 0 })
    }

    fn pivot(&self, step: &mut Step) -> Option<Change> {
        let (new, put) = (self.place(0, step)?, self.place(1, step)?);
        let old = self.world.root_of(self.thread);
        let new = match self.mount_at(&new) {
            Some(_) => new,
            None => Place { mount: 0, path: places::not_followed("another root (pivot_root)") },
        };
        Some(Change::Pivot { new, old, put })
    }

    /// Enters the mount namespace of another process.
    fn enter(&self, step: &mut Step) {
        let open = self.description(self.call.args[0] as i32);
        let Some(open) = open else { return };
        let of = open.pid.or_else(|| places::whose_mounts(&open.path));
        let by_name = open.path.ends_with(b"/ns/mnt");
        if self.call.args[1] & CLONE_NEWNS == 0 && !(self.call.args[1] == 0 && by_name) {
            return;
        }
        let seen = of.and_then(|pid| self.world.seen_by(pid));
        let (space, root) = seen.unwrap_or_else(|| {
            let path = places::not_followed("another mount namespace (setns)");
            (Space::default(), Place { mount: 0, path })
        });
        let directory = self.world.directory_in(root.clone(), Some(Rc::new(root)));
        step.at_exit.push(Effect::Chdir { directory });
        step.at_exit.push(Effect::View(ViewChange::Enter(space)));
    }
}

/// Returns the mode of a tmpfs root from its mount options.
fn mode(options: &[u8]) -> u32 {
    let mut options = options.split(|&c| c == b',');
    let mode = options.find_map(|option| option.strip_prefix(b"mode="));
    let mode = mode.and_then(|mode| std::str::from_utf8(mode).ok());
    mode.and_then(|mode| u32::from_str_radix(mode, 8).ok()).unwrap_or(MODE) & 0o1777
}

/// Returns the path to use instead of `text` if mounts, links or a root make it lead elsewhere.
pub(super) fn aside(place: &Place, base: Option<&Place>, text: &[u8]) -> Option<Vec<u8>> {
    let base = base.map_or(&b""[..], |base| &base.path);
    if path::resolve(base, text) == place.path {
        return None;
    }
    let last = text.rsplit(|&c| c == b'/').next().unwrap_or_default();
    let end: &[u8] = match last {
        b"" => b"/",
        b"." | b".." => b"/.",
        _ => b"",
    };
    Some([&place.path, end].concat())
}
