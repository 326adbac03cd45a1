//! Memory used by files that are on no disk: memory files, and file systems in memory.

use std::fs;
use std::path::{Path, PathBuf};

/// Types of file systems in memory.
const IN_MEMORY: &[libc::c_long] = &[libc::TMPFS_MAGIC, libc::HUGETLBFS_MAGIC];

/// Limit for files in memory, on the whole machine.
#[derive(Debug)]
pub struct Shmem {
    /// Their usage at the start.
    before: u64,
    /// Bytes that they may use in addition.
    pub max: u64,
}

impl Shmem {
    /// Starts now, with no limit set.
    pub fn since_now() -> Shmem {
        Shmem { before: used(), max: 0 }
    }

    /// Bytes left. As on a disk, usage by other programs counts as well.
    pub fn room(&self) -> u64 {
        self.max.saturating_sub(used().saturating_sub(self.before))
    }
}

fn info() -> libc::sysinfo {
    // SAFETY: all zeros are a valid sysinfo, and it is writable.
    unsafe {
        let mut info: libc::sysinfo = std::mem::zeroed();
        libc::sysinfo(&raw mut info);
        info
    }
}

/// Bytes of files in memory, plus all swapped-out bytes, which may belong to them.
fn used() -> u64 {
    let info = info();
    let swapped = info.totalswap.saturating_sub(info.freeswap);
    info.sharedram.saturating_add(swapped).saturating_mul(info.mem_unit.into())
}

/// Returns the device number of an open file's file system, if that is in memory.
pub fn device_in_memory(fd: i32) -> Option<u64> {
    // SAFETY: all zeros are a valid statfs and stat, and both are writable.
    unsafe {
        let (mut of, mut stat): (libc::statfs, libc::stat) = std::mem::zeroed();
        let told = libc::fstatfs(fd, &raw mut of) == 0 && libc::fstat(fd, &raw mut stat) == 0;
        (told && IN_MEMORY.contains(&(of.f_type as _))).then_some(stat.st_dev)
    }
}

/// Bytes of memory available to this process without swapping. Call it where /proc is mounted;
/// elsewhere it returns only unused memory.
pub fn available_memory() -> u64 {
    let told = fs::read_to_string("/proc/meminfo").ok().and_then(|text| available(&text));
    let info = info();
    let free = || info.freeram.saturating_mul(info.mem_unit.into());
    told.unwrap_or_else(free).min(limit_of_group())
}

/// Parses the text of /proc/meminfo.
fn available(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes << 10)
}

/// Returns the memory limit of this process's control groups.
fn limit_of_group() -> u64 {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"));
    let Some(group) = group else { return u64::MAX };
    let all = Path::new("/sys/fs/cgroup");
    let limit = |group: &Path| {
        let told = fs::read_to_string(group.join("memory.max")).ok()?;
        told.trim().parse::<u64>().ok()
    };
    let group: PathBuf = all.join(group);
    group
        .ancestors()
        .take_while(|group| group.starts_with(all))
        .filter_map(limit)
        .fold(u64::MAX, u64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_available_is_read_from_its_line() {
        let text = "MemTotal:  8000 kB\nMemFree:  100 kB\nMemAvailable:    5000 kB\n";
        assert_eq!(available(text), Some(5000 << 10));
        assert_eq!(available("MemFree: 1 kB"), None);
        assert!(available_memory() > 0);
    }
}
