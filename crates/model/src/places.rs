//! Resolves paths of processes with their own mounts or root to the paths that the same files have
//! without them. A new, empty mount gets a directory of its own below [`FRESH`]. Files that a fold
//! cannot follow lie below [`ELSEWHERE`].

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::budget::{Budget, Held};
use crate::path::{BYTES_MAX, CUT};
use crate::realm::is_at_or_below;

/// Parent of the directories that stand for new, empty mounts.
pub const FRESH: &[u8] = b"/proc/reenact/mounts";
/// Parent of the directories that stand for mounts that are not followed, by kind.
const ELSEWHERE: &[u8] = b"/proc/reenact/elsewhere";

/// Limits for the mounts of one namespace and for the links of a world.
const MOUNTS_MAX: usize = 1024;
const LINKS_MAX: usize = 1 << 16;
/// Limit for the links followed in one path, as in the kernel, and for stacked mounts.
const FOLLOWED_MAX: usize = 40;

/// Kernel file systems with the same content at every mount point, and their usual mount points.
const KERNELS: &[(&[u8], &[u8])] = &[
    (b"proc", b"/proc"),
    (b"sysfs", b"/sys"),
    (b"devpts", b"/dev/pts"),
    (b"devtmpfs", b"/dev"),
    (b"mqueue", b"/dev/mqueue"),
    (b"cgroup", b"/sys/fs/cgroup"),
    (b"cgroup2", b"/sys/fs/cgroup"),
    (b"securityfs", b"/sys/kernel/security"),
    (b"debugfs", b"/sys/kernel/debug"),
    (b"tracefs", b"/sys/kernel/tracing"),
    (b"bpf", b"/sys/fs/bpf"),
];

/// Returns true if a path is in a directory that stands for a new, empty mount.
pub fn is_fresh(path: &[u8]) -> bool {
    is_at_or_below(path, FRESH)
}

/// Returns the kind of the mount that is not followed and contains a path, if there is one.
pub fn elsewhere(path: &[u8]) -> Option<String> {
    let rest = path.strip_prefix(ELSEWHERE)?.strip_prefix(b"/")?;
    let name = rest.split(|&c| c == b'/').next().unwrap_or(rest);
    Some(String::from_utf8_lossy(name).into_owned())
}

/// Returns the path that stands for a mount of this kind that is not followed.
pub(crate) fn not_followed(kind: &str) -> Vec<u8> {
    let name: String = kind.chars().map(|c| if c == '/' { '_' } else { c }).take(64).collect();
    [ELSEWHERE, b"/", name.as_bytes()].concat()
}

/// Returns the path that stands for the root of a new mount.
pub(crate) fn root_of(kind: &[u8], id: u32) -> Vec<u8> {
    match KERNELS.iter().find(|(name, _)| *name == kind) {
        Some((_, usual)) => usual.to_vec(),
        None if [&b"tmpfs"[..], b"ramfs"].contains(&kind) => {
            [FRESH, b"/", id.to_string().as_bytes()].concat()
        }
        None => not_followed(&format!("a mount of {}", String::from_utf8_lossy(kind))),
    }
}

/// A file and the mount through which it is reached.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Place {
    /// Id of the mount; 0 stands for all mounts that existed at first.
    pub mount: u32,
    /// The path that the file has without the process's mounts and root.
    pub path: Vec<u8>,
}

impl Place {
    pub(crate) fn root() -> Place {
        Place { mount: 0, path: b"/".to_vec() }
    }
}

/// A mount made by a recorded call.
#[derive(Clone, Debug)]
pub(crate) struct Mount {
    pub id: u32,
    /// The mount point.
    pub at: Place,
    /// The path that stands for its root.
    pub root: Vec<u8>,
    _held: Held,
}

impl Mount {
    pub fn new(id: u32, at: Place, root: Vec<u8>, budget: &Budget) -> Mount {
        let _held = budget.hold(size_of::<Mount>() + at.path.len() + root.len());
        Mount { id, at, root, _held }
    }
}

/// The mounts of a mount namespace.
pub(crate) type Space = Rc<RefCell<Vec<Mount>>>;

/// Symbolic links made by recorded calls, with their targets.
#[derive(Debug, Default)]
pub(crate) struct Links(BTreeMap<Vec<u8>, Vec<u8>>);

impl Links {
    pub fn made(&mut self, path: Vec<u8>, target: Vec<u8>) {
        if self.0.len() < LINKS_MAX && path.len() + target.len() <= BYTES_MAX {
            self.0.insert(path, target);
        }
    }

    pub fn any(&self) -> bool {
        !self.0.is_empty()
    }

    pub fn removed(&mut self, path: &[u8]) {
        self.0.remove(path);
    }

    pub fn renamed(&mut self, from: &[u8], to: &[u8]) {
        self.0.remove(to);
        let first = self.0.range(from.to_vec()..);
        let moved: Vec<_> = first
            .take_while(|(path, _)| path.starts_with(from))
            .filter(|(path, _)| is_at_or_below(path, from))
            .map(|(path, _)| path.clone())
            .collect();
        for path in moved {
            if let Some(target) = self.0.remove(&path) {
                self.made([to, &path[from.len()..]].concat(), target);
            }
        }
    }
}

/// A process's view of the file system.
pub(crate) struct Sight<'a> {
    pub mounts: &'a [Mount],
    pub links: &'a Links,
    pub root: Place,
}

impl Sight<'_> {
    /// Resolves a path relative to `base`, or to the root if it is absolute.
    pub fn walk(&self, base: &Place, text: &[u8], follow_last: bool) -> Place {
        let absolute = |text: &[u8]| text.first() == Some(&b'/');
        let mut at = if absolute(text) { self.root.clone() } else { base.clone() };
        let mut rest: Vec<Vec<u8>> = components(text).collect();
        let mut followed = 0;
        while let Some(name) = rest.pop() {
            match &name[..] {
                b"" | b"." => {}
                b".." => at = self.above(at),
                name => {
                    let path = match &at.path[..] {
                        b"/" => [b"/", name].concat(),
                        above => [above, b"/", name].concat(),
                    };
                    if path.len() > BYTES_MAX {
                        return Place { mount: 0, path: CUT.to_vec() };
                    }
                    let target =
                        self.links.0.get(&path).filter(|_| follow_last || !rest.is_empty());
                    if let Some(target) = target.filter(|_| followed < FOLLOWED_MAX) {
                        followed += 1;
                        if absolute(target) {
                            at = self.root.clone();
                        }
                        rest.extend(components(target));
                        continue;
                    }
                    at = self.on_top(Place { mount: at.mount, path });
                }
            }
        }
        at
    }

    /// Returns the root of the topmost mount at a place, or the place itself.
    pub fn on_top(&self, mut at: Place) -> Place {
        for _ in 0..FOLLOWED_MAX {
            let Some(mount) = self.mounts.iter().rfind(|mount| mount.at == at) else { break };
            at = Place { mount: mount.id, path: mount.root.clone() };
        }
        at
    }

    /// Returns the mount whose root is at a place.
    pub fn with_root_at(&self, at: &Place) -> Option<&Mount> {
        self.mounts.iter().rfind(|mount| mount.id == at.mount && mount.root == at.path)
    }

    fn above(&self, mut at: Place) -> Place {
        for _ in 0..FOLLOWED_MAX {
            if at == self.root {
                return at;
            }
            let Some(mount) = self.with_root_at(&at) else { break };
            at = mount.at.clone();
        }
        let end = at.path.iter().rposition(|&c| c == b'/').unwrap_or(0);
        at.path.truncate(end.max(1));
        self.on_top(at)
    }
}

/// Returns the components of a path in reverse order.
fn components(path: &[u8]) -> impl Iterator<Item = Vec<u8>> + use<> {
    let all: Vec<Vec<u8>> = path.split(|&c| c == b'/').map(<[u8]>::to_vec).collect();
    all.into_iter().rev()
}

/// A change of a namespace's mounts.
#[derive(Debug)]
pub(crate) enum Change {
    /// Adds mounts.
    Mount(Vec<Mount>),
    /// Removes a mount, and with `below` all mounts inside it.
    Unmount { id: u32, below: bool },
    /// Moves a mount.
    Move { id: u32, to: Place },
    /// Makes another mount the root, and moves the old root.
    Pivot { new: Place, old: Place, put: Place },
}

/// Applies a change to a namespace.
pub(crate) fn change(mounts: &mut Vec<Mount>, change: Change, budget: &Budget) {
    match change {
        Change::Mount(new) => {
            let room = MOUNTS_MAX.saturating_sub(mounts.len());
            mounts.extend(new.into_iter().take(room).take_while(|_| budget.has_room()));
        }
        Change::Unmount { id, below } => {
            let mut gone = vec![id];
            mounts.retain(|mount| mount.id != id);
            while let Some(id) = gone.pop().filter(|_| below) {
                let of_it = mounts.iter().filter(|mount| mount.at.mount == id);
                gone.extend(of_it.map(|mount| mount.id));
                mounts.retain(|mount| mount.at.mount != id);
            }
        }
        Change::Move { id, to } => {
            if let Some(mount) = mounts.iter().position(|mount| mount.id == id) {
                let mount = mounts.remove(mount);
                mounts.push(Mount { at: to, ..mount });
            }
        }
        Change::Pivot { new, old, put } => {
            mounts.retain(|mount| mount.id != new.mount && mount.id != old.mount);
            mounts.push(Mount::new(old.mount, put, old.path, budget));
        }
    }
}

/// Returns the copies of the mounts inside `from` that a recursive bind mount creates.
pub(crate) fn with_those_below(
    mounts: &[Mount],
    from: &Place,
    new: u32,
    mut next: impl FnMut() -> u32,
    budget: &Budget,
) -> Vec<Mount> {
    let mut made = Vec::new();
    let mut of = vec![(from.mount, new)];
    while let Some((source, copy)) = of.pop() {
        let below = mounts.iter().filter(|mount| {
            mount.at.mount == source
                && (source != from.mount || is_at_or_below(&mount.at.path, &from.path))
        });
        for mount in below {
            if made.len() >= MOUNTS_MAX {
                return made;
            }
            let id = next();
            let at = Place { mount: copy, path: mount.at.path.clone() };
            made.push(Mount::new(id, at, mount.root.clone(), budget));
            of.push((mount.id, id));
        }
    }
    made
}

/// Moves mounts along with a renamed directory.
pub(crate) fn renamed(mounts: &mut [Mount], from: &[u8], to: &[u8]) {
    for mount in mounts {
        for path in [&mut mount.at.path, &mut mount.root] {
            if is_at_or_below(path, from) {
                *path = [to, &path[from.len()..]].concat();
            }
        }
    }
}

/// Returns the process id in the path of a mount namespace in /proc.
pub(crate) fn whose_mounts(path: &[u8]) -> Option<u32> {
    let process = path.strip_prefix(b"/proc/")?.strip_suffix(b"/ns/mnt")?;
    std::str::from_utf8(process).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(mount: u32, path: &str) -> Place {
        Place { mount, path: path.into() }
    }

    struct Seen {
        mounts: Vec<Mount>,
        links: Links,
        root: Place,
        budget: Budget,
    }

    impl Seen {
        fn new() -> Seen {
            let (links, budget) = (Links::default(), Budget::default());
            Seen { mounts: Vec::new(), links, root: Place::root(), budget }
        }

        fn sight(&self) -> Sight<'_> {
            Sight { mounts: &self.mounts, links: &self.links, root: self.root.clone() }
        }

        fn at(&self, path: &str) -> String {
            let place = self.sight().walk(&Place::root(), path.as_bytes(), true);
            String::from_utf8(place.path).unwrap()
        }

        fn mount(&mut self, id: u32, at: &str, root: &str) {
            let at = self.sight().walk(&Place::root(), at.as_bytes(), true);
            let mount = Mount::new(id, at, root.into(), &self.budget);
            change(&mut self.mounts, Change::Mount(vec![mount]), &self.budget);
        }
    }

    #[test]
    fn mounts_hide_what_is_below_until_they_go() {
        let mut seen = Seen::new();
        seen.mount(1, "/m", "/fresh/1");
        assert_eq!(
            (&*seen.at("/m/x"), &*seen.at("/mx"), &*seen.at("/m/..")),
            ("/fresh/1/x", "/mx", "/")
        );
        seen.mount(2, "/m", "/fresh/2");
        seen.mount(3, "/m/b", "/from");
        assert_eq!((&*seen.at("/m/x"), &*seen.at("/m/b/f")), ("/fresh/2/x", "/from/f"));
        assert_eq!(seen.at("/m/b/../y"), "/fresh/2/y");
        change(&mut seen.mounts, Change::Unmount { id: 2, below: true }, &seen.budget);
        assert_eq!((&*seen.at("/m/b/f"), seen.mounts.len()), ("/fresh/1/b/f", 1));
        change(&mut seen.mounts, Change::Move { id: 1, to: place(0, "/n") }, &seen.budget);
        assert_eq!((&*seen.at("/m/x"), &*seen.at("/n/x")), ("/m/x", "/fresh/1/x"));
        renamed(&mut seen.mounts, b"/n", b"/o");
        assert_eq!(seen.at("/o/x"), "/fresh/1/x");
    }

    #[test]
    fn another_root_is_where_paths_begin_and_end() {
        let mut seen = Seen::new();
        seen.mount(1, "/tmp", "/fresh/1");
        seen.mount(2, "/tmp/usr", "/usr");
        seen.links.made(b"/fresh/1/lib".to_vec(), b"usr/lib".to_vec());
        seen.links.made(b"/fresh/1/bin".to_vec(), b"/usr/bin".to_vec());
        seen.links.made(b"/bin".to_vec(), b"/elsewhere".to_vec());
        let (new, old) = (place(1, "/fresh/1"), Place::root());
        let pivot = Change::Pivot { new: new.clone(), old, put: place(1, "/fresh/1/old") };
        change(&mut seen.mounts, pivot, &seen.budget);
        seen.root = new;
        assert_eq!((&*seen.at("/lib/a"), &*seen.at("/bin/b")), ("/usr/lib/a", "/usr/bin/b"));
        assert_eq!((&*seen.at("/../x"), &*seen.at("/old/etc")), ("/fresh/1/x", "/etc"));
        assert_eq!(seen.at("/old/../lib/../x"), "/usr/x");
        let last = seen.sight().walk(&Place::root(), b"/lib", false);
        assert_eq!(last.path, b"/fresh/1/lib");
        change(&mut seen.mounts, Change::Unmount { id: 0, below: false }, &seen.budget);
        assert_eq!(seen.at("/old/etc"), "/fresh/1/old/etc");
    }

    #[test]
    fn what_is_mounted_below_comes_along() {
        let mut seen = Seen::new();
        seen.mount(1, "/a/t", "/fresh/1");
        seen.mount(2, "/a/t/u", "/fresh/2");
        seen.mount(3, "/b", "/a");
        assert_eq!(seen.at("/b/t/x"), "/a/t/x");
        let mut ids = 10..;
        let more = with_those_below(
            &seen.mounts,
            &place(0, "/a"),
            3,
            || ids.next().unwrap(),
            &seen.budget,
        );
        change(&mut seen.mounts, Change::Mount(more), &seen.budget);
        assert_eq!((&*seen.at("/b/t/x"), &*seen.at("/b/t/u/x")), ("/fresh/1/x", "/fresh/2/x"));
    }

    #[test]
    fn circles_and_many_mounts_have_an_end() {
        let mut seen = Seen::new();
        seen.links.made(b"/a".to_vec(), b"a".to_vec());
        assert_eq!(seen.at("/a/b"), "/a/b");
        let round = |id, path: &str, root: &str| {
            Mount::new(id, place(1, path), root.into(), &Budget::default())
        };
        seen.mounts = vec![round(1, "/r", "/r")];
        _ = seen.sight().walk(&place(1, "/r"), b"x/../../..", true);
        (0..2 * MOUNTS_MAX as u32).for_each(|id| seen.mount(id, "/m", "/fresh"));
        assert_eq!(seen.mounts.len(), MOUNTS_MAX);
    }

    #[test]
    fn links_go_with_their_directories() {
        let mut links = Links::default();
        links.made(b"/d/l".to_vec(), b"t".to_vec());
        links.made(b"/dx".to_vec(), b"t".to_vec());
        links.renamed(b"/d", b"/e");
        let left: Vec<&[u8]> = links.0.keys().map(|path| &path[..]).collect();
        assert_eq!(left, [&b"/dx"[..], b"/e/l"]);
    }

    #[test]
    fn what_is_not_followed_has_a_name() {
        let path = root_of(b"over/lay", 1);
        assert_eq!(elsewhere(&path).as_deref(), Some("a mount of over_lay"));
        assert_eq!(elsewhere(&[&path[..], b"/x"].concat()).as_deref(), Some("a mount of over_lay"));
        assert!(elsewhere(b"/x").is_none() && is_fresh(&root_of(b"tmpfs", 7)));
    }
}
