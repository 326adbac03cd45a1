//! Which processes belong to the recording. What agents say cannot be trusted: any program that is
//! recorded can write their memory.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;

/// Processes that we launched, or saw executing a program.
#[derive(Default)]
pub struct Kin {
    known: HashSet<i32>,
}

/// A thread, as /proc has it.
pub struct Identity {
    /// Its process.
    process: i32,
    /// Its process's parent.
    parent: i32,
    /// Its effective user.
    pub owner: u32,
}

/// Known processes are forgotten beyond this number: then memory maps decide.
const KNOWN_MAX: usize = 64 << 10;

impl Kin {
    pub fn add(&mut self, pid: i32) {
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        self.known.insert(pid);
    }

    /// What /proc knows of a thread that is alive.
    pub fn identify(&self, tid: i32) -> Option<Identity> {
        let status = fs::read(format!("/proc/{tid}/status")).ok()?;
        let text = String::from_utf8_lossy(&status);
        let field = |name: &str| {
            text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next())
        };
        if matches!(field("State:")?, "Z" | "X") {
            return None;
        }
        let owner = text.lines().find_map(|line| line.strip_prefix("Uid:"))?;
        Some(Identity {
            process: field("Tgid:")?.parse().ok()?,
            parent: field("PPid:")?.parse().ok()?,
            owner: owner.split_whitespace().nth(1)?.parse().ok()?,
        })
    }

    /// Whether a thread is of the recording: of a known process, of a child of one, or of a
    /// process that has the arena attached.
    pub fn contains(&self, identity: &Identity, arena_id: i32) -> bool {
        self.known.contains(&identity.process)
            || self.known.contains(&identity.parent)
            || attached(identity.process, arena_id)
    }
}

/// Whether a process has a System V segment attached; /proc/PID/maps gives its id as the inode.
/// That needs rights that a stranger does not have.
fn attached(pid: i32, id: i32) -> bool {
    let id = id.to_string();
    fs::read_to_string(format!("/proc/{pid}/maps")).is_ok_and(|maps| {
        maps.lines().any(|line| line.contains("/SYSV") && line.split(' ').nth(4) == Some(&id))
    })
}

/// The user who owns a process now.
pub fn owner(pid: i32) -> std::io::Result<u32> {
    Ok(fs::metadata(format!("/proc/{pid}"))?.uid())
}
