//! Memory that files take which are on no disk: memory files, and file systems in memory.

use std::fs;
use std::path::{Path, PathBuf};

/// Types of file systems in memory.
const IN_MEMORY: &[libc::c_long] = &[libc::TMPFS_MAGIC, libc::HUGETLBFS_MAGIC];

/// What files in memory may take, of all that there is on the machine.
#[derive(Debug)]
pub struct Shmem {
    /// What they took before.
    before: u64,
    /// Bytes that they may take more.
    pub max: u64,
}

impl Shmem {
    /// From now on.
    pub fn since_now() -> Shmem {
        Shmem { before: used(), max: 0 }
    }

    /// What is left of it. As on a disk, what others take meanwhile counts as well.
    pub fn room(&self) -> u64 {
        self.max.saturating_sub(used().saturating_sub(self.before))
    }
}

fn info() -> libc::sysinfo {
    // SAFETY: all zeros are a sysinfo, which is written to.
    unsafe {
        let mut info: libc::sysinfo = std::mem::zeroed();
        libc::sysinfo(&raw mut info);
        info
    }
}

/// Bytes of files in memory, and those that were swapped out, as they may be among those.
fn used() -> u64 {
    let info = info();
    let swapped = info.totalswap.saturating_sub(info.freeswap);
    info.sharedram.saturating_add(swapped).saturating_mul(info.mem_unit.into())
}

/// The number of the file system that an open file is on, if that is in memory.
pub fn device_in_memory(fd: i32) -> Option<u64> {
    // SAFETY: all zeros are both, which are written to.
    unsafe {
        let (mut of, mut stat): (libc::statfs, libc::stat) = std::mem::zeroed();
        let told = libc::fstatfs(fd, &raw mut of) == 0 && libc::fstat(fd, &raw mut stat) == 0;
        (told && IN_MEMORY.contains(&of.f_type)).then_some(stat.st_dev)
    }
}

/// Bytes of memory that can be had without swapping, as far as this process may take them. To be
/// asked where /proc is; elsewhere it is what nobody uses at all.
pub fn available_memory() -> u64 {
    let told = fs::read_to_string("/proc/meminfo").ok().and_then(|text| available(&text));
    let info = info();
    let free = || info.freeram.saturating_mul(info.mem_unit.into());
    told.unwrap_or_else(free).min(limit_of_group())
}

/// From the text of /proc/meminfo.
fn available(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes << 10)
}

/// What the control groups allow that this process is in.
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
