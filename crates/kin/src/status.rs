//! What /proc/PID/status and /proc/PID/stat say of a process.

use std::fs::File;
use std::io::{self, Read};

use crate::Credentials;

/// Ids of a process or thread.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Status {
    /// It is dead, and perhaps not yet waited for.
    pub dead: bool,
    /// Its process.
    pub process: i32,
    /// Its process's parent; 0: none that we can see.
    pub parent: i32,
    /// Its users and groups.
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

/// Looks a process or thread up. `None`: there is none.
pub fn read(tid: i32) -> Option<Status> {
    parse(&contents(&format!("/proc/{tid}/status")).ok()?)
}

/// A small file of /proc, which has no length to begin with: in as few reads as can be.
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
        // Only a name could hold anything else, and it is of no interest.
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

/// The capabilities that a thread may use, as a bit mask. `None`: there is no such thread.
pub fn permitted(tid: i32) -> Option<u64> {
    let text = contents(&format!("/proc/{tid}/status")).ok()?;
    let mut lines = text.split(|&byte| byte == b'\n');
    let value = lines.find_map(|line| line.strip_prefix(b"CapPrm:"))?;
    u64::from_str_radix(std::str::from_utf8(value).ok()?.trim(), 16).ok()
}

/// Whether the kernel told the program of a process that it was started with other rights than who
/// started it has.
pub fn is_secure(pid: i32) -> io::Result<bool> {
    let words = contents(&format!("/proc/{pid}/auxv"))?;
    let (pairs, _) = words.as_chunks::<16>();
    let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte));
    let found = pairs.iter().find(|pair| word(&pair[..8]) == libc::AT_SECURE);
    // Who was not told so in our words may have been in others.
    Ok(found.is_none_or(|pair| word(&pair[8..]) != 0))
}

fn four<'a>(mut words: impl Iterator<Item = &'a str>) -> Option<[u32; 4]> {
    let mut ids = [0; 4];
    for id in &mut ids {
        *id = words.next()?.parse().ok()?;
    }
    Some(ids)
}

/// Positions in /proc/PID/stat, counted from the state on.
const START_TIME: usize = 19;

/// The exit code that a zombie's /proc/PID/stat tells, at its position counted from the state on. To
/// those who may not look it tells 0.
pub fn zombie_exit_code(stat: &[u8]) -> Option<i32> {
    const EXIT_CODE: usize = 49;
    let fields = stat_fields(stat)?;
    (*fields.first()? == "Z").then(|| fields.get(EXIT_CODE)?.parse().ok())?
}

/// The fields of a /proc/PID/stat, from the state on.
fn stat_fields(stat: &[u8]) -> Option<Vec<&str>> {
    let name_end = stat.iter().rposition(|&byte| byte == b')')?;
    let fields = std::str::from_utf8(&stat[name_end + 1..]).ok()?;
    Some(fields.split_ascii_whitespace().collect())
}

/// When a process began that is there, dead or alive, in hundredths of a second since the machine was
/// started.
pub(crate) fn start_time(pid: i32) -> Option<u64> {
    let stat = contents(&format!("/proc/{pid}/stat")).ok()?;
    stat_fields(&stat)?.get(START_TIME)?.parse().ok()
}

/// The same of one that has not died. `Ok(None)`: there is none; an error: that cannot be told now.
pub fn began(pid: i32) -> io::Result<Option<u64>> {
    let stat = match contents(&format!("/proc/{pid}/stat")) {
        Ok(stat) => stat,
        Err(error) if crate::is_gone(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    let fields = stat_fields(&stat).unwrap_or_default();
    let dead = fields.first().is_none_or(|state| matches!(*state, "Z" | "X"));
    let time = fields.get(START_TIME).and_then(|time| time.parse().ok());
    Ok(time.filter(|_| !dead))
}

/// Whether /proc shows the pid namespace that we are in. Else its numbers mean other processes.
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
