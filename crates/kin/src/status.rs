//! Reads /proc/PID/status, stat and auxv.

use std::fs::File;
use std::io::{self, Read};

use crate::credentials::Credentials;

/// Ids and state of a process or thread.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Status {
    /// Whether it is dead; it may not have been waited for yet.
    pub dead: bool,
    /// Id of its process.
    pub process: i32,
    /// Parent of its process; 0 if that is outside our namespace.
    pub parent: i32,
    /// Its user and group ids.
    pub credentials: Credentials,
    /// Its ids in all pid namespaces from the one that /proc shows down to its own.
    pub ids: Vec<i32>,
}

impl Status {
    /// Its id in its own namespace.
    pub fn innermost(&self) -> Option<i32> {
        self.ids.last().copied()
    }
}

/// Reads the status of a process or thread. `None` if there is none.
pub fn read(tid: i32) -> Option<Status> {
    parse(&contents(&format!("/proc/{tid}/status")).ok()?)
}

/// Reads a small file of /proc, whose length is unknown, in as few reads as possible.
pub fn contents(path: &str) -> io::Result<Vec<u8>> {
    let (mut file, mut text) = (File::open(path)?, Vec::new());
    loop {
        let end = text.len();
        text.resize(end + (4 << 10), 0);
        let read = file.read(&mut text[end..])?;
        text.truncate(end + read);
        if read == 0 {
            return Ok(text);
        }
    }
}

pub(crate) fn parse(text: &[u8]) -> Option<Status> {
    let mut status = Status::default();
    for line in text.split(|&byte| byte == b'\n') {
        // Only a process name can be invalid UTF-8, and it is not needed.
        let Ok(line) = std::str::from_utf8(line) else { continue };
        let Some((name, value)) = line.split_once(':') else { continue };
        let mut words = value.split_whitespace();
        match name {
            "State" => status.dead = matches!(words.next()?, "Z" | "X"),
            "Tgid" => status.process = words.next()?.parse().ok()?,
            "PPid" => status.parent = words.next()?.parse().ok()?,
            "Uid" => status.credentials.uids = four(words)?,
            "Gid" => status.credentials.gids = four(words)?,
            "NSpid" => {
                status.ids = words.map_while(|word| word.parse().ok()).collect();
                return Some(status);
            }
            _ => {}
        }
    }
    None
}

/// The permitted capabilities of a thread, as a bit mask. `None` if there is no such thread.
pub fn permitted(tid: i32) -> Option<u64> {
    let text = contents(&format!("/proc/{tid}/status")).ok()?;
    let mut lines = text.split(|&byte| byte == b'\n');
    let value = lines.find_map(|line| line.strip_prefix(b"CapPrm:"))?;
    u64::from_str_radix(std::str::from_utf8(value).ok()?.trim(), 16).ok()
}

/// Whether AT_SECURE is set in a process: its program was started with other rights than those of
/// its parent.
pub fn is_secure(pid: i32) -> io::Result<bool> {
    let words = contents(&format!("/proc/{pid}/auxv"))?;
    let (pairs, _) = words.as_chunks::<16>();
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
    let found = pairs.iter().find(|pair| word(&pair[..8]) == libc::AT_SECURE);
    // Without a 64-bit AT_SECURE entry, assume that it is set.
    Ok(found.is_none_or(|pair| word(&pair[8..]) != 0))
}

fn four<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<[u32; 4]> {
    let mut ids = [0; 4];
    for id in &mut ids {
        *id = words.next()?.parse().ok()?;
    }
    Some(ids)
}

/// Index in the fields of /proc/PID/stat, counted from the state.
const START_TIME: usize = 19;

/// The exit code of a zombie, from its /proc/PID/stat. Without permission to see it the kernel
/// shows 0.
pub fn zombie_exit_code(stat: &[u8]) -> Option<i32> {
    const EXIT_CODE: usize = 49;
    let fields = stat_fields(stat)?;
    (*fields.first()? == "Z").then(|| fields.get(EXIT_CODE)?.parse().ok())?
}

/// The fields of a /proc/PID/stat, beginning with the state.
fn stat_fields(stat: &[u8]) -> Option<Vec<&str>> {
    let name_end = stat.iter().rposition(|&byte| byte == b')')?;
    let fields = std::str::from_utf8(&stat[name_end + 1..]).ok()?;
    Some(fields.split_ascii_whitespace().collect())
}

/// The start time of a process, dead or alive, in hundredths of a second since boot.
pub(crate) fn start_time(pid: i32) -> Option<u64> {
    let stat = contents(&format!("/proc/{pid}/stat")).ok()?;
    stat_fields(&stat)?.get(START_TIME)?.parse().ok()
}

/// The start time of a living process, `None` if there is none; fails if it cannot be read now.
pub fn began(pid: i32) -> io::Result<Option<u64>> {
    let stat = match contents(&format!("/proc/{pid}/stat")) {
        Ok(stat) => stat,
        Err(error) if is_gone(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    let fields = stat_fields(&stat).unwrap_or_default();
    let dead = fields.first().is_none_or(|state| matches!(*state, "Z" | "X"));
    let time = fields.get(START_TIME).and_then(|time| time.parse().ok());
    Ok(time.filter(|_| !dead))
}

/// Whether an error says that there is no such process.
pub(crate) fn is_gone(error: &io::Error) -> bool {
    // EINVAL is for numbers that no process can have.
    matches!(error.raw_os_error(), Some(libc::ESRCH | libc::EINVAL | libc::ENOENT))
}

/// Whether /proc is that of our pid namespace. Otherwise its numbers mean other processes.
pub fn proc_is_ours() -> bool {
    let text = contents("/proc/self/status").ok();
    text.and_then(|text| parse(&text)).is_some_and(|status| status.ids.len() == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_nested_namespaces() {
        let text = b"Name:\ta\xff\nState:\tZ (zombie)\nTgid:\t41\nPPid:\t30\nUid:\t1\t2\t3\t4\n\
                     Gid:\t5\t5\t5\t5\n\
                     NSpid:\t41\t7\t2\nThreads:\t1\n";
        let credentials = Credentials { uids: [1, 2, 3, 4], gids: [5; 4] };
        let ids = vec![41, 7, 2];
        let status = Status { dead: true, process: 41, parent: 30, credentials, ids };
        assert_eq!(parse(text), Some(status));
        assert_eq!(parse(b"Name:\tNSpid\nTgid:\t9\n"), None);
    }

    #[test]
    fn our_own_status_is_read() {
        let pid = std::process::id() as i32;
        let status = read(pid).unwrap();
        assert_eq!((status.process, status.innermost()), (pid, Some(pid)));
        assert!(!status.dead && proc_is_ours() && began(pid).unwrap().is_some());
        assert!(!is_secure(pid).unwrap() && permitted(pid).is_some());
    }
}
