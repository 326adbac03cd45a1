//! Arenas and their users: only programs of one user, who can read each other's memory, share one.
//!
//! All programs that map an arena can read and write it, so programs of another user get another
//! one. A thread belongs to the arena of its user ids. If one of them is root's, it can become root
//! and belongs to root.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use kin::{Credentials, Mapped, Patience};
use ring::{ARENAS_MAX, Arena};

use crate::segment::Segment;
use crate::{Error, alive, memory_file};

/// The user ids that a program can take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Users([u32; 3]);

impl Users {
    /// The ids of a thread; `None` if one of them is unknown in this user namespace.
    pub fn of(credentials: &Credentials) -> Option<Users> {
        let [real, effective, saved, _] = credentials.uids;
        let mut ids = [real, effective, saved];
        if ids.iter().any(|&id| id == OVERFLOW_UID && !is_mapped(id)) {
            return None;
        }
        ids.sort_unstable();
        let [least, middle, most] = ids;
        Some(Users(match least {
            0 => [0; 3],
            _ if middle == least => [least, most, most],
            _ => ids,
        }))
    }

    /// One of the ids: root's, if it is among them.
    pub fn least(&self) -> u32 {
        self.0[0]
    }

    /// The id, if all are the same.
    fn single(&self) -> Option<u32> {
        let Users([first, .., last]) = *self;
        (first == last).then_some(first)
    }
}

/// The id that the kernel shows for users unknown in this user namespace.
const OVERFLOW_UID: u32 = 65534;
/// Size of a pool from which on parts of an arena are large pages.
const LARGE_PAGES_FROM: usize = 16 << 20;

fn is_mapped(uid: u32) -> bool {
    let Ok(map) = fs::read_to_string("/proc/self/uid_map") else { return false };
    map.lines().any(|line| {
        let mut words = line.split_whitespace().map(str::parse::<u64>);
        let (Some(Ok(first)), Some(Ok(_)), Some(Ok(count))) =
            (words.next(), words.next(), words.next())
        else {
            return false;
        };
        (first..first + count).contains(&u64::from(uid))
    })
}

/// How programs get an arena.
pub enum Way {
    /// They attach it by its id. Unrecorded programs of the user could do that too, so it holds
    /// only data of that user.
    Segment(Segment),
    /// Its file is sent to them.
    Message { file: File, inode: u64 },
}

/// An arena and the users whose programs have it.
pub struct Domain {
    pub users: Users,
    pub arena: Arena,
    pub way: Way,
    /// Threads for work that this domain's programs can block for ever; each domain has its own.
    pub patience: Patience,
    /// Threads for images on file systems that need a server's answer.
    pub servants: Patience,
}

impl Domain {
    fn new(users: Users, arena: Arena, way: Way) -> Domain {
        Domain { users, arena, way, patience: Patience::default(), servants: Patience::default() }
    }

    fn segment(users: Users, owner: Option<u32>, pool_chunks: usize) -> Result<Domain, Error> {
        let segment = Segment::new(ring::arena_bytes(pool_chunks))?;
        if owner.is_some() {
            segment.admit(owner, 0o600)?;
        }
        // SAFETY: attached for the life of this process, zeroed when created.
        let arena = unsafe { Arena::at(segment.at, pool_chunks) };
        Ok(Domain::new(users, arena, Way::Segment(segment)))
    }

    /// Addresses of those of its large pages that are worth it.
    pub fn large_pages(&self) -> Vec<usize> {
        match &self.way {
            // Who wants little memory in use gets little.
            Way::Segment(segment)
                if self.arena.pool_chunks() * ring::POOL_BYTES >= LARGE_PAGES_FROM =>
            {
                segment.large_pages(&ring::IN_USE_AT).collect()
            }
            _ => Vec::new(),
        }
    }

    fn message(users: Users, pool_chunks: usize) -> io::Result<Domain> {
        let len = ring::arena_bytes(pool_chunks);
        let file = memory_file::create(len)?;
        let at = memory_file::map(&file, 0, len)?;
        memory_file::seal(&file, memory_file::Seal::Length)?;
        let inode = file.metadata()?.ino();
        // SAFETY: the mapping is zeroed, long enough, and never unmapped.
        let arena = unsafe { Arena::at(at, pool_chunks) };
        Ok(Domain::new(users, arena, Way::Message { file, inode }))
    }

    /// How the arena appears in the memory maps of processes.
    pub fn mapped(&self) -> Mapped {
        match &self.way {
            Way::Segment(segment) => Mapped { name: "/SYSV", inode: segment.id as u64 },
            Way::Message { inode, .. } => Mapped { name: "/memfd:", inode: *inode },
        }
    }
}

/// All domains of a recording, in the order of their creation.
pub struct Domains {
    list: Vec<Domain>,
    pool_chunks: usize,
    reach: Reach,
}

/// The IPC namespace of the segments, as /proc names it.
#[derive(Clone)]
pub struct Reach(Option<PathBuf>);

impl Reach {
    /// Whether a thread is in that IPC namespace.
    pub fn includes(&self, tid: i32) -> bool {
        ipc_namespace(&tid.to_string()) == self.0
    }
}

impl Domains {
    /// Creates the first domain, for our own user, with a pool of that many bytes.
    pub fn new(own: &Credentials, pool_bytes: usize) -> Result<Domains, Error> {
        let pool_chunks = (pool_bytes / ring::POOL_BYTES).clamp(1, ring::POOL_MAX);
        let users = Users::of(own).unwrap_or(Users([OVERFLOW_UID; 3]));
        let first = Domain::segment(users, None, pool_chunks)?;
        first.arena.control().data_max.store(u64::MAX, Ordering::Relaxed);
        prepare(&first, 0).map_err(Error::Thread)?;
        Ok(Domains { list: vec![first], pool_chunks, reach: Reach(ipc_namespace("self")) })
    }

    /// All domains.
    pub fn iter(&self) -> std::slice::Iter<'_, Domain> {
        self.list.iter()
    }

    /// The domain with this number.
    pub fn get(&self, number: usize) -> &Domain {
        &self.list[number]
    }

    pub fn first(&self) -> &Domain {
        &self.list[0]
    }

    /// The IPC namespace in which segments can be attached.
    pub fn reach(&self) -> Reach {
        self.reach.clone()
    }

    /// Whether a stopped process can attach the segments.
    pub fn are_within_reach_of(&self, pid: i32) -> bool {
        self.reach.includes(pid)
    }

    /// The number of the domain for a thread with these ids, now in `now_in`. Creates it if needed.
    pub fn of_thread(
        &mut self,
        ids: &Credentials,
        now_in: usize,
        same_ipc: bool,
    ) -> io::Result<usize> {
        let unknown = || io::Error::other("its user is unknown in the recorder's user namespace");
        let users = Users::of(ids).ok_or_else(unknown)?;
        let [_, effective, ..] = ids.uids;
        let by_segment = same_ipc && users.single() == Some(effective);
        let fits = |domain: &Domain| {
            domain.users == users && matches!(domain.way, Way::Segment(_)) == by_segment
        };
        let now = self.get(now_in);
        // A message reaches every IPC namespace.
        if fits(now) || now.users == users && matches!(now.way, Way::Message { .. }) {
            return Ok(now_in);
        }
        if let Some(found) = self.list.iter().position(fits) {
            return Ok(found);
        }
        if self.list.len() == ARENAS_MAX {
            let text = format!("programs of more than {ARENAS_MAX} users are not recorded");
            return Err(io::Error::other(text));
        }
        let domain = if by_segment {
            Domain::segment(users, users.single(), self.pool_chunks).map_err(io::Error::other)?
        } else {
            Domain::message(users, self.pool_chunks)?
        };
        let (to, from) = (domain.arena.control(), self.first().arena.control());
        to.set_like(from);
        prepare(&domain, self.list.len())?;
        self.list.push(domain);
        Ok(self.list.len() - 1)
    }
}

fn ipc_namespace(of: &str) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{of}/ns/ipc")).ok()
}

/// Initialises an arena of zeros for agents.
fn prepare(domain: &Domain, number: usize) -> io::Result<()> {
    let arena = &domain.arena;
    let control = arena.control();
    let order = Ordering::Relaxed;
    control.pool_chunks.store(arena.pool_chunks() as u32, order);
    control.of_root.store((domain.users.single() == Some(0)).into(), order);
    let first = ring::numbers(number).start;
    control.next_thread.store(first, order);
    control.next_process.store(first, order);
    alive::mark_at_end(&control.alive.word)?;
    control.magic.store(ring::MAGIC, Ordering::Release);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users(real: u32, effective: u32, saved: u32) -> Option<Users> {
        Users::of(&Credentials { uids: [real, effective, saved, effective], gids: [0; 4] })
    }

    #[test]
    fn who_can_become_root_belongs_to_root() {
        for ids in [[0, 0, 0], [0, 1000, 1000], [1000, 0, 0], [1000, 1000, 0]] {
            assert_eq!(users(ids[0], ids[1], ids[2]), users(0, 0, 0));
        }
        assert_ne!(users(1000, 1000, 1000), users(0, 0, 0));
    }

    #[test]
    fn the_same_users_in_another_order_are_the_same() {
        assert_eq!(users(33, 33, 1000), users(1000, 33, 1000));
        assert_ne!(users(33, 33, 1000), users(33, 33, 33));
        assert_ne!(users(33, 34, 35), users(33, 35, 35));
        assert_eq!(users(33, 33, 1000).unwrap().single(), None);
        assert_eq!(users(33, 33, 33).unwrap().single(), Some(33));
    }
}
