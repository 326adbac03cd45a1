//! Decides which processes belong to a recording, by asking the kernel. The ids that agents report
//! cannot be trusted: any recorded program can write their memory, and in another pid namespace ids
//! differ.
//!
//! A process is ours if we launched it or traced its exec, if its parent is ours, or if it has an
//! arena mapped. A process found to be ours is remembered by a mark that no later process with the
//! same id has.

mod credentials;
pub mod maps;
mod patience;
pub mod pidfd;
pub mod status;
mod threads;

use std::collections::HashMap;
use std::fs;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

pub use credentials::{Credentials, own_credentials};
pub use patience::Patience;
pub use pidfd::{Identity, Mark};
pub use status::proc_is_ours;
pub use threads::{begun, has_begun, start_thread, without_signals};

use maps::Which;
use status::is_gone;

/// An arena as /proc/PID/maps shows it: a part of its name, and its inode, which for a System V
/// segment is its id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mapped {
    /// How its name begins.
    pub name: &'static str,
    /// The inode.
    pub inode: u64,
}

/// Relation of a process to the recording.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Relation {
    /// It belongs to this recording.
    Ours,
    /// It does not.
    Stranger,
    /// It has ended, or is ending: it has no memory.
    Gone,
    /// Unknown: it hides from its own user, or its memory map is being changed.
    Unproven,
}

/// Maximum number of remembered processes; beyond it all are forgotten, and memory maps decide.
const KNOWN_MAX: usize = 64 << 10;
/// Time limit for reading a process's memory map. That waits for changes of the map, and a program
/// can make one that never ends.
const MAPS_WAIT: Duration = Duration::from_millis(500);

/// The processes of a recording; clones share the same data.
#[derive(Clone, Default)]
pub struct Kin(Arc<Shared>);

#[derive(Default)]
struct Shared {
    known: Mutex<HashMap<i32, Mark>>,
    /// Processes in other pid namespaces, by their numbers.
    placed: Mutex<HashMap<u32, Placed>>,
    arenas: Mutex<Vec<Mapped>>,
    patience: Patience,
}

/// A process whose id in our namespace is known.
#[derive(Clone, Copy)]
struct Placed {
    pid: i32,
    is_guess: bool,
}

/// A process that was found.
pub struct Found {
    /// Its relation to the recording.
    pub relation: Relation,
    /// Its id in our namespace.
    pub pid: i32,
    /// Its pidfd; `None` where descriptors are short.
    pub handle: Option<OwnedFd>,
    /// Whether another process could be meant as well.
    pub is_guess: bool,
}

/// The pid namespace of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Namespace {
    /// Its depth; 1 is ours.
    pub depth: usize,
    /// Its inode, if it may be read.
    pub inode: Option<u64>,
}

impl Namespace {
    /// Our own.
    pub const OURS: Namespace = Namespace { depth: 1, inode: None };

    /// That of a process.
    pub fn of(pid: i32) -> Option<Namespace> {
        let depth = status::read(pid)?.ids.len();
        Some(Namespace { depth, inode: namespace_inode(pid) })
    }
}

fn namespace_inode(pid: i32) -> Option<u64> {
    Some(fs::metadata(format!("/proc/{pid}/ns/pid")).ok()?.ino())
}

/// A thread that was looked up.
pub struct Thread {
    /// Its ids, from the kernel.
    pub identity: Identity,
    /// The pidfd of its process, if it is the first thread of that.
    process: Option<OwnedFd>,
}

/// What is known of a process in a pid namespace below ours.
#[derive(Clone, Copy, Debug)]
pub struct Clue {
    /// Its id in its own namespace.
    pub inner: i32,
    /// The id of its creator's process in our namespace, if that is known and alive.
    pub maker: Option<i32>,
    /// Its creator's namespace, if known.
    pub home: Option<Namespace>,
    /// Its id in its creator's namespace, if known.
    pub told: Option<i32>,
}

impl Kin {
    /// Adds an arena.
    pub fn add_arena(&self, arena: Mapped) {
        let mut arenas = lock(&self.0.arenas);
        if !arenas.contains(&arena) {
            arenas.push(arena);
        }
    }

    /// Notes that a process is certainly ours: we launched it, or have just traced its exec.
    /// Returns its ids.
    pub fn add(&self, pid: i32) -> Option<Identity> {
        let thread = self.look_up(pid)?;
        let mark = thread.process.as_ref().and_then(|handle| pidfd::mark(handle, pid));
        if let Some(mark) = mark {
            self.remember(pid, mark);
        }
        Some(thread.identity)
    }

    fn remember(&self, pid: i32, mark: Mark) {
        let mut known = lock(&self.0.known);
        if known.len() >= KNOWN_MAX {
            known.clear();
        }
        known.insert(pid, mark);
    }

    /// Whether the process that has this id now is remembered as ours.
    fn is_known(&self, pid: i32) -> bool {
        let Some(mark) = lock(&self.0.known).get(&pid).copied() else { return false };
        match pidfd::open(pid) {
            Ok(handle) => pidfd::mark(&handle, pid) == Some(mark),
            Err(error) => error.raw_os_error() != Some(libc::ESRCH),
        }
    }

    /// Notes that the process with this number is dead.
    pub fn forget(&self, number: u32, pid: i32) {
        lock(&self.0.placed).remove(&number);
        // Its id may be that of another process of ours by now.
        if !self.is_known(pid) {
            lock(&self.0.known).remove(&pid);
        }
    }

    /// The ids of a thread that has not been waited for.
    pub fn identify(&self, tid: i32) -> Option<Identity> {
        self.look_up(tid).map(|thread| thread.identity)
    }

    /// The ids of a thread, and the pidfd of its process.
    pub fn look_up(&self, tid: i32) -> Option<Thread> {
        let process = pidfd::open(tid).ok();
        let told = match &process {
            Some(handle) => pidfd::identity(handle),
            None => pidfd::identity_of_thread(tid),
        };
        let read = || {
            let status = status::read(tid)?;
            let status::Status { process, parent, credentials, .. } = status;
            Some(Identity { process, parent, credentials })
        };
        let identity = told.or_else(read)?;
        // The first thread alone stands for its process.
        Some(Thread { process: process.filter(|_| identity.process == tid), identity })
    }

    /// The relation of a thread's process to the recording.
    pub fn relation_of_thread(&self, thread: &Thread) -> Relation {
        let process = thread.identity.process;
        match &thread.process {
            Some(handle) => self.relation_of(handle, process),
            None => self.relation(process),
        }
    }

    /// The relation of a process to the recording.
    pub fn relation(&self, pid: i32) -> Relation {
        match pidfd::open(pid) {
            Ok(handle) => self.relation_of(&handle, pid),
            Err(error) if is_gone(&error) => Relation::Gone,
            // Descriptors are short.
            Err(_) => Relation::Unproven,
        }
    }

    fn relation_of(&self, handle: &OwnedFd, pid: i32) -> Relation {
        let mark = pidfd::mark(handle, pid);
        let is_remembered = || mark.is_some() && lock(&self.0.known).get(&pid).copied() == mark;
        if is_remembered() {
            return Relation::Ours;
        }
        if pid == std::process::id() as i32 {
            return Relation::Stranger;
        }
        let told = pidfd::identity(handle).map(|identity| identity.parent);
        let relation = match told.is_some_and(|parent| self.is_known(parent)) {
            true => Relation::Ours,
            // Its id may have been reused meanwhile.
            false => match self.by_id(pid, told.is_none()) {
                _ if pidfd::open(pid).ok().and_then(|now| pidfd::mark(&now, pid)) != mark => {
                    return Relation::Gone;
                }
                // It may have asked to execute a program meanwhile, and does so: its memory is new.
                Relation::Stranger | Relation::Gone if is_remembered() => Relation::Ours,
                relation => relation,
            },
        };
        if let (Relation::Ours, Some(mark)) = (relation, mark) {
            self.remember(pid, mark);
        }
        relation
    }

    /// The relation of the process that has this id now.
    fn by_id(&self, pid: i32, ask_for_parent: bool) -> Relation {
        let parent = || Some(status::read(pid)?.parent);
        match ask_for_parent && parent().is_some_and(|parent| self.is_known(parent)) {
            true => Relation::Ours,
            false => self.by_maps(pid),
        }
    }

    /// Whether a process has one of the arenas mapped. That needs rights which processes of other
    /// recordings lack.
    fn by_maps(&self, pid: i32) -> Relation {
        let arenas = lock(&self.0.arenas).clone();
        let look = move || has_one_of(pid, &arenas);
        self.0.patience.within(MAPS_WAIT, look).unwrap_or(Relation::Unproven)
    }

    /// Finds the process that has this id in our namespace. `None` if there is none.
    pub fn find(&self, pid: i32) -> Option<Found> {
        let (relation, handle) = match pidfd::open(pid) {
            Ok(handle) => (self.relation_of(&handle, pid), Some(handle)),
            Err(error) if is_gone(&error) => return None,
            Err(_) => (Relation::Unproven, None),
        };
        Some(Found { relation, pid, handle, is_guess: false })
    }

    /// Finds a process that has another id in our namespace than in its own. Several namespaces may
    /// have a process of that id: those that are `taken` are left out.
    pub fn find_inside(&self, clue: &Clue, taken: impl Fn(i32) -> bool) -> Option<Found> {
        let told = clue.told.zip(clue.home);
        let fits = |pid: i32| {
            let status = status::read(pid)?;
            let inside = status.ids.len() > 1 && status.innermost() == Some(clue.inner);
            let is_it = inside && status.process == pid && !taken(pid);
            let is_told = told.is_none_or(|(id, home)| status.ids.get(home.depth - 1) == Some(&id));
            (is_it && is_told).then_some(status)
        };
        let ours = |pid: i32| {
            let strange = |relation| matches!(relation, Relation::Stranger | Relation::Gone);
            let found = self.find(pid).filter(|found| !strange(found.relation))?;
            // Check again: the id may have been reused in between.
            fits(pid).map(|_| found)
        };
        // A creator in our namespace got the very id that is sought.
        if let Some((id, Namespace::OURS)) = told {
            return fits(id).and_then(|_| ours(id));
        }
        let children = clue.maker.map(children).unwrap_or_default();
        let everybody = || numbers_in("/proc").filter(|pid| !children.contains(pid));
        let mut others = Vec::new();
        for pid in children.iter().copied().chain(everybody()) {
            let Some(status) = fits(pid) else { continue };
            let is_child = children.contains(&pid) || clue.maker == Some(status.parent);
            let is_at_home = told.is_some_and(|(_, home)| {
                let of_home = home.inode.is_some() && namespace_inode(pid) == home.inode;
                status.ids.len() == home.depth && of_home
            });
            if !is_child && !is_at_home {
                others.push(pid);
            } else if let Some(found) = ours(pid) {
                return Some(found);
            }
        }
        let mut guesses = others.into_iter().filter_map(|pid| ours(pid).filter(may_be_ours));
        let found = guesses.next()?;
        let found = match found.relation {
            Relation::Ours => found,
            _ => guesses.find(|other| other.relation == Relation::Ours).unwrap_or(found),
        };
        Some(Found { is_guess: true, ..found })
    }

    /// The living processes that are or may be ours and have one of these ids in some pid namespace,
    /// ours or one below it.
    pub fn all_with(&self, ids: &[u32]) -> impl Iterator<Item = Found> {
        let is_one = |id: &i32| ids.contains(&id.cast_unsigned());
        let lives = move |pid: &i32| {
            status::read(*pid).is_some_and(|status| !status.dead && status.ids.iter().any(is_one))
        };
        numbers_in("/proc").filter(lives).filter_map(|pid| self.find(pid).filter(may_be_ours))
    }

    /// Notes the id in our namespace of the process with this number, and whether it is certain.
    pub fn place(&self, number: u32, pid: i32, is_guess: bool) {
        lock(&self.0.placed).insert(number, Placed { pid, is_guess });
    }

    /// The process that was guessed for this number is a stranger. Returns false if it was none.
    pub fn take_guess_back(&self, number: u32) -> bool {
        let mut placed = lock(&self.0.placed);
        let was_guess = placed.get(&number).is_some_and(|placed| placed.is_guess);
        was_guess && placed.remove(&number).is_some()
    }

    /// Whether a process has been found for this number, and was not taken back.
    pub fn is_placed(&self, number: u32) -> bool {
        lock(&self.0.placed).contains_key(&number)
    }

    /// The id in our namespace of a thread whose id in its own is `inner`, in the process with this
    /// number. `None` if that was not found yet, or has no such thread.
    pub fn placed_thread(&self, number: u32, inner: i32) -> Option<i32> {
        let pid = lock(&self.0.placed).get(&number)?.pid;
        let is_it = |tid: &i32| {
            let status = status::read(*tid);
            status.is_some_and(|s| s.innermost() == Some(inner) && s.process == pid)
        };
        is_it(&pid).then_some(pid).or_else(|| numbers_in(&format!("/proc/{pid}/task")).find(is_it))
    }
}

/// Whether a process is ours, or cannot be looked into and hides from its own user: those of other
/// users hide from everybody.
fn may_be_ours(found: &Found) -> bool {
    match found.relation {
        Relation::Ours => true,
        Relation::Stranger | Relation::Gone => false,
        Relation::Unproven => {
            let own = own_credentials().uids[1];
            status::read(found.pid).is_some_and(|s| s.credentials.uids.contains(&own))
        }
    }
}

/// Whether a process has one of these arenas mapped. This may block for ever.
pub fn has_one_of(pid: i32, arenas: &[Mapped]) -> Relation {
    let mut found = Relation::Stranger;
    let looked = maps::each(pid, Which::SharedAndWritable, |mapping| {
        let is_it = |arena: &Mapped| {
            mapping.ino == arena.inode && mapping.path.starts_with(arena.name.as_bytes())
        };
        if arenas.iter().any(is_it) {
            found = Relation::Ours;
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    match looked {
        Err(error) if is_gone(&error) => Relation::Gone,
        Err(_) => Relation::Unproven,
        Ok(()) if found == Relation::Stranger && !maps::has_any(pid) => Relation::Gone,
        Ok(()) => found,
    }
}

/// The children of a process, where the kernel lists them.
fn children(pid: i32) -> Vec<i32> {
    let mut found = Vec::new();
    for tid in numbers_in(&format!("/proc/{pid}/task")) {
        let list = fs::read_to_string(format!("/proc/{pid}/task/{tid}/children"));
        found.extend(list.iter().flat_map(|l| l.split_whitespace()).flat_map(str::parse::<i32>));
    }
    found
}

fn numbers_in(directory: &str) -> impl Iterator<Item = i32> + use<> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// Starts a process that waits until it is killed.
    fn child(command: &mut Command) -> Child {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
    }

    fn end(mut child: Child) {
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn strangers_are_told_from_our_own() {
        let kin = Kin::default();
        let own = std::process::id() as i32;
        let one = child(&mut Command::new("cat"));
        let pid = one.id() as i32;
        assert_eq!(kin.relation(pid), Relation::Stranger);
        // The machine's init, this process, and invalid ids.
        for stranger in [1, own, 0, -1, i32::MAX] {
            assert_ne!(kin.relation(stranger), Relation::Ours, "{stranger}");
        }
        kin.add(own);
        assert_eq!(kin.relation(pid), Relation::Ours, "the child of one of ours");
        let other = Kin::default();
        other.add(pid);
        assert_eq!(other.relation(pid), Relation::Ours);
        end(one);
        assert_eq!(other.relation(pid), Relation::Gone, "dead and waited for");
        other.forget(7, pid);
        assert!(lock(&other.0.known).is_empty());
    }

    #[test]
    fn those_of_ours_that_have_an_id_are_told() {
        let kin = Kin::default();
        let mut one = child(&mut Command::new("cat"));
        let pid = one.id() as i32;
        let relations = || {
            kin.all_with(&[0, pid.cast_unsigned()]).map(|found| found.relation).collect::<Vec<_>>()
        };
        assert_eq!(relations(), [], "a stranger");
        kin.add(pid);
        assert_eq!(relations(), [Relation::Ours]);
        one.kill().unwrap();
        eventually(|| status::read(pid).is_none_or(|status| status.dead));
        assert_eq!(relations(), [], "dead, and not waited for");
        end(one);
    }

    fn eventually(holds: impl Fn() -> bool) {
        while !holds() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn an_id_that_is_in_use_again_is_a_strangers() {
        let kin = Kin::default();
        let (one, two) = (child(&mut Command::new("cat")), child(&mut Command::new("cat")));
        let handle = pidfd::open(one.id() as i32).unwrap();
        let mark = pidfd::mark(&handle, one.id() as i32).unwrap();
        // As if the second process had got the id of the first.
        kin.remember(two.id() as i32, mark);
        let same = mark == pidfd::mark(&handle, two.id() as i32).unwrap();
        assert!(same || kin.relation(two.id() as i32) == Relation::Stranger);
        end(one);
        end(two);
    }

    #[test]
    fn only_guesses_are_taken_back() {
        let kin = Kin::default();
        kin.place(1, 10, false);
        kin.place(2, 20, true);
        assert!(!kin.take_guess_back(1) && kin.is_placed(1));
        assert!(kin.take_guess_back(2) && !kin.is_placed(2));
        assert!(!kin.take_guess_back(2));
    }

    #[test]
    fn who_has_an_arena_mapped_is_ours() {
        // SAFETY: maps a new file at a free address; the kernel fills a local struct.
        let inode = unsafe {
            let file = libc::memfd_create(c"reenact-kin".as_ptr(), 0);
            assert!(file >= 0 && libc::ftruncate(file, 4096) == 0);
            let rights = libc::PROT_READ | libc::PROT_WRITE;
            let at = libc::mmap(std::ptr::null_mut(), 4096, rights, libc::MAP_SHARED, file, 0);
            assert_ne!(at, libc::MAP_FAILED);
            let mut stat: libc::stat = std::mem::zeroed();
            libc::fstat(file, &raw mut stat);
            stat.st_ino
        };
        let kin = Kin::default();
        let own = std::process::id() as i32;
        assert_eq!(kin.by_maps(own), Relation::Stranger);
        kin.add_arena(Mapped { name: "/memfd:reenact-kin", inode });
        assert_eq!(kin.by_maps(own), Relation::Ours);
        assert_eq!(kin.relation(own), Relation::Stranger, "the recorder itself is not recorded");
    }
}
