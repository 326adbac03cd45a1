//! Control groups of a run: its memory, and the speed of its disk. Both versions of the kernel's groups
//! are known; what is not there is refused with words about it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::Error;
use crate::configuration::Limits;

/// Attempts to remove a group whose last process is just ending.
const TRIES: u32 = 200;
const TRY_AGAIN: Duration = Duration::from_millis(10);
/// Looks at what the kernel keeps until it has not become less for so many, but for so little; and most of all.
const SAME_LOOKS: u32 = 20;
const SLIGHT_BYTES: u64 = 64 << 10;
const LOOKS_MAX: u32 = 300;

/// Where the kernel shows a controller.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Hierarchy {
    at: PathBuf,
    /// The second version: one hierarchy for all controllers.
    unified: bool,
}

/// What the controllers of this machine can do.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Controllers {
    memory: Option<Hierarchy>,
    blocks: Option<Hierarchy>,
}

impl Controllers {
    /// Looks at this machine.
    pub fn here() -> Controllers {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        Controllers::of(&mounts, &|root| {
            let delegated = fs::read_to_string(root.join("cgroup.subtree_control"));
            delegated.unwrap_or_default().split_whitespace().map(String::from).collect()
        })
    }

    /// By the text of mountinfo, and what the root of a unified hierarchy passes on.
    fn of(mounts: &str, passed_on: &dyn Fn(&Path) -> Vec<String>) -> Controllers {
        let mut found = Controllers::default();
        for line in mounts.lines() {
            let Some((before, after)) = line.split_once(" - ") else { continue };
            let Some(at) = before.split(' ').nth(4).map(PathBuf::from) else { continue };
            let mut words = after.split(' ');
            let (kind, options) = (words.next(), words.nth(1).unwrap_or_default());
            let (unified, has): (bool, Vec<String>) = match kind {
                Some("cgroup") => (false, options.split(',').map(String::from).collect()),
                Some("cgroup2") => (true, passed_on(&at)),
                _ => continue,
            };
            let here = |name: &str| has.iter().any(|one| one == name);
            let hierarchy = || Some(Hierarchy { at: at.clone(), unified });
            if here("memory") {
                found.memory = found.memory.or_else(hierarchy);
            }
            if here(if unified { "io" } else { "blkio" }) {
                found.blocks = found.blocks.or_else(hierarchy);
            }
        }
        found
    }

    /// Whether these limits can be set where a disk's requests are made, so that they hold for all that
    /// is limited: the first version of the groups does not know for whom dirty pages are written.
    pub fn see(&self, limits: &Limits) -> bool {
        let Some(blocks) = &self.blocks else { return false };
        let reads_alone = limits.write_bytes.is_none() && limits.iops.is_none();
        limits.latency.is_none() && (blocks.unified || reads_alone)
    }
}

/// The groups of one run. They are removed when this is dropped.
#[derive(Debug, Default)]
pub struct Group {
    memory: Option<(Hierarchy, PathBuf)>,
    blocks: Option<(Hierarchy, PathBuf)>,
}

impl Group {
    /// Makes the groups that are needed, without limits.
    pub fn new(controllers: &Controllers, memory: bool, blocks: bool) -> Result<Group, Error> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "reenact-predict-{}-{}",
            std::process::id(),
            MADE.fetch_add(1, Ordering::Relaxed)
        );
        let make = |hierarchy: &Option<Hierarchy>, what: &str| {
            let Some(hierarchy) = hierarchy else {
                return Err(Error::Refused(format!(
                    "this machine shows no {what} controller of control groups; mount one (version \
                     2: enable it in cgroup.subtree_control of the root)"
                )));
            };
            let at = hierarchy.at.join(&name);
            match fs::create_dir(&at) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    Err(Error::Refused(format!(
                        "{}: {error}; limits need the right to make control groups: start this as root",
                        at.display()
                    )))
                }
                _ => Ok(Some((hierarchy.clone(), at))),
            }
        };
        let mut group = Group::default();
        if memory {
            group.memory = make(&controllers.memory, "memory")?;
        }
        if blocks {
            group.blocks = make(&controllers.blocks, "block I/O")?;
        }
        Ok(group)
    }

    /// Opens what a process writes `0` to so that it belongs to the groups.
    pub fn doors(&self) -> Result<Vec<OwnedFd>, Error> {
        let mut doors: Vec<PathBuf> = Vec::new();
        for (_, at) in [&self.memory, &self.blocks].into_iter().flatten() {
            if !doors.contains(&at.join("cgroup.procs")) {
                doors.push(at.join("cgroup.procs"));
            }
        }
        let open = |path: PathBuf| {
            let opened = OpenOptions::new().write(true).open(&path);
            opened.map(OwnedFd::from).map_err(Error::of(path.display()))
        };
        doors.into_iter().map(open).collect()
    }

    /// Returns the memory that processes have for themselves, apart from pages of files.
    pub fn own_bytes(&self) -> u64 {
        let Some((hierarchy, at)) = &self.memory else { return 0 };
        let text = fs::read_to_string(at.join("memory.stat")).unwrap_or_default();
        // The first version counts page tables with all else that the kernel keeps.
        let tables = if hierarchy.unified { 0 } else { self.tables_bytes() };
        own_bytes(&text, hierarchy.unified) + tables
    }

    /// Returns what the kernel keeps for its processes, beside what [`own_bytes`](Group::own_bytes) has. Of files
    /// that were just taken out of memory, it gives back what it kept only after a while.
    pub fn kernel_bytes(&self) -> u64 {
        let Some((hierarchy, at)) = &self.memory else { return 0 };
        let file = if hierarchy.unified { "memory.stat" } else { "memory.kmem.usage_in_bytes" };
        let read = || fs::read_to_string(at.join(file)).unwrap_or_default();
        let all = once_steady(|| kernel_bytes(&read(), hierarchy.unified));
        if hierarchy.unified { all } else { all.saturating_sub(self.tables_bytes()) }
    }

    /// Returns the page tables of its processes.
    fn tables_bytes(&self) -> u64 {
        let Some((_, at)) = &self.memory else { return 0 };
        let pids = fs::read_to_string(at.join("cgroup.procs")).unwrap_or_default();
        pids.lines().map(|pid| told(pid, "status", "VmPTE:")).sum()
    }

    /// Returns the memory that processes of a program, told by its device and inode, have for themselves, and
    /// what they share with each other and with all others.
    pub fn bytes_of(&self, program: (u64, u64)) -> u64 {
        let Some((hierarchy, at)) = &self.memory else { return 0 };
        let pids = fs::read_to_string(at.join("cgroup.procs")).unwrap_or_default();
        let runs = |pid: &&str| {
            let file = fs::metadata(format!("/proc/{pid}/exe"));
            file.is_ok_and(|file| (file.dev(), file.ino()) == program)
        };
        let (ours, others): (Vec<&str>, Vec<&str>) = pids.lines().partition(runs);
        let segments = fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
        let lent = made_by(&ours, &segments);
        let (mut own, mut shared) = (0, 0);
        for pid in others {
            // Pages that they have of each other count once. Ours are counted by the group, as some of them
            // are one memory.
            own += told(pid, "smaps_rollup", "Pss_Anon:") + told(pid, "status", "VmPTE:");
            shared = shared.max(told(pid, "status", "RssShmem:").saturating_sub(lent));
        }
        let text = fs::read_to_string(at.join("memory.stat")).unwrap_or_default();
        let all_shared = sum_of(&text, &[if hierarchy.unified { "shmem" } else { "total_shmem" }]);
        self.own_bytes().saturating_sub(own) + all_shared.saturating_sub(shared)
    }

    /// Limits the memory, or does not any more. What does not fit is taken from pages of files, or the write
    /// fails.
    pub fn limit_memory(&self, bytes: Option<u64>) -> Result<(), Error> {
        let Some((hierarchy, at)) = &self.memory else { return Ok(()) };
        let (file, all) = match hierarchy.unified {
            true => ("memory.max", "max"),
            false => ("memory.limit_in_bytes", "-1"),
        };
        let text = bytes.map_or(all.into(), |bytes| bytes.to_string());
        write(&at.join(file), &text)?;
        // Where there is swap, it is no way out.
        if hierarchy.unified {
            let _ = write(&at.join("memory.swap.max"), "0");
        } else {
            let _ = write(&at.join("memory.swappiness"), "0");
        }
        Ok(())
    }

    /// Returns true if a process was killed because the memory did not suffice.
    pub fn was_killed(&self) -> bool {
        let Some((hierarchy, at)) = &self.memory else { return false };
        let file = if hierarchy.unified { "memory.events" } else { "memory.oom_control" };
        let text = fs::read_to_string(at.join(file)).unwrap_or_default();
        text.lines().filter_map(|line| line.strip_prefix("oom_kill ")).any(|count| count != "0")
    }

    /// Limits reads and writes of a block device.
    pub fn limit_blocks(&self, device: (u32, u32), limits: &Limits) -> Result<(), Error> {
        let Some((hierarchy, at)) = &self.blocks else { return Ok(()) };
        let device = format!("{}:{}", device.0, device.1);
        let (bytes, requests) = if hierarchy.unified {
            (["rbps", "wbps"], ["riops", "wiops"])
        } else {
            (
                ["blkio.throttle.read_bps_device", "blkio.throttle.write_bps_device"],
                ["blkio.throttle.read_iops_device", "blkio.throttle.write_iops_device"],
            )
        };
        let each = [
            (bytes[0], limits.read_bytes),
            (bytes[1], limits.write_bytes),
            (requests[0], limits.iops),
            (requests[1], limits.iops),
        ];
        for (name, most) in each {
            let Some(most) = most else { continue };
            if hierarchy.unified {
                write(&at.join("io.max"), &format!("{device} {name}={most}"))?;
            } else {
                write(&at.join(name), &format!("{device} {most}"))?;
            }
        }
        Ok(())
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for (_, at) in [&self.memory, &self.blocks].into_iter().flatten() {
            for _ in 0..TRIES {
                match fs::remove_dir(at) {
                    Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                        std::thread::sleep(TRY_AGAIN);
                    }
                    _ => break,
                }
            }
        }
    }
}

fn write(path: &Path, text: &str) -> Result<(), Error> {
    let written = OpenOptions::new()
        .write(true)
        .open(path)
        .and_then(|mut file: File| file.write_all(text.as_bytes()));
    written.map_err(Error::of(format!("{}: '{text}'", path.display())))
}

/// Puts the calling process into groups. Async-signal-safe, to be called between fork and exec.
pub fn enter(doors: &[OwnedFd]) -> io::Result<()> {
    for door in doors {
        // SAFETY: the pointer is to one constant byte.
        if unsafe { libc::write(door.as_raw_fd(), c"0".as_ptr().cast(), 1) } != 1 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Returns what a file of a process says, in bytes.
fn told(pid: &str, file: &str, name: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
    kilobytes(&text, name) << 10
}

/// Returns the number of a line of a file of /proc.
fn kilobytes(text: &str, name: &str) -> u64 {
    let value = text.lines().find_map(|line| line.strip_prefix(name));
    value.and_then(|value| value.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Returns the bytes in memory of those System V segments that one of the processes has made.
fn made_by(pids: &[&str], table: &str) -> u64 {
    let mut lines = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let Some(names) = lines.next() else { return 0 };
    let column = |wanted: &str| names.iter().position(|name| *name == wanted);
    let Some((maker, bytes)) = column("cpid").zip(column("rss")) else { return 0 };
    let made = lines.filter(|line| line.get(maker).is_some_and(|pid| pids.contains(pid)));
    made.filter_map(|line| line.get(bytes)?.parse::<u64>().ok()).sum()
}

/// Returns a number that becomes less for a while, once it does not any more.
fn once_steady(mut look: impl FnMut() -> u64) -> u64 {
    let mut now = look();
    let (mut least, mut same) = (now, 0);
    for _ in 0..LOOKS_MAX {
        if same == SAME_LOOKS {
            break;
        }
        std::thread::sleep(TRY_AGAIN);
        now = look();
        let is_less = now + SLIGHT_BYTES < least;
        (least, same) = if is_less { (now, 0) } else { (least, same + 1) };
    }
    now
}

fn own_bytes(text: &str, unified: bool) -> u64 {
    let wanted: &[&str] =
        if unified { &["anon", "kernel_stack", "pagetables"] } else { &["total_rss"] };
    sum_of(text, wanted)
}

fn kernel_bytes(text: &str, unified: bool) -> u64 {
    match unified {
        true => sum_of(text, &["slab_unreclaimable", "percpu", "sock"]),
        false => text.trim().parse().unwrap_or(0),
    }
}

/// Sums up some lines of a table.
fn sum_of(text: &str, wanted: &[&str]) -> u64 {
    let fields = text.lines().filter_map(|line| line.split_once(' '));
    fields
        .filter(|(name, _)| wanted.contains(name))
        .filter_map(|(_, n)| n.parse::<u64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "\
30 25 0:26 / /sys/fs/cgroup/memory rw,relatime shared:5 - cgroup cgroup rw,memory
31 25 0:27 / /sys/fs/cgroup/blkio rw - cgroup cgroup rw,blkio
32 25 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate
";

    #[test]
    fn both_versions_are_found() {
        let first = Controllers::of(FIRST, &|_| Vec::new());
        let at = first.memory.clone().unwrap();
        assert_eq!((at.at.to_str(), at.unified), (Some("/sys/fs/cgroup/memory"), false));
        let text = "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";
        let second = Controllers::of(text, &|_| vec!["io".into(), "memory".into()]);
        assert!(second.memory.as_ref().unwrap().unified && second.blocks.is_some());
        assert_eq!(Controllers::of(text, &|_| Vec::new()), Controllers::default());
        assert_eq!(Controllers::of("x\ny - z\n", &|_| Vec::new()), Controllers::default());

        let reads = Limits { read_bytes: Some(1), ..Limits::default() };
        let writes = Limits { write_bytes: Some(1), ..Limits::default() };
        let late = Limits { latency: Some(Duration::from_millis(1)), ..Limits::default() };
        assert!(first.see(&reads) && !first.see(&writes) && !first.see(&late));
        assert!(second.see(&writes) && !second.see(&late));
        assert!(!Controllers::default().see(&reads));
    }

    #[test]
    fn memory_of_a_process() {
        let text = "Rss:  9 kB\nPss_Anon:        1234 kB\nPss_Anonymous: 5 kB\n";
        assert_eq!(kilobytes(text, "Pss_Anon:"), 1234);
        assert_eq!((kilobytes(text, "Swap:"), kilobytes("Swap: x", "Swap:")), (0, 0));
    }

    #[test]
    fn segments_count_for_who_has_made_them() {
        let table =
            "key shmid size cpid lpid rss swap\n0 7 99 12 13 4096 0\n0 8 99 13 12 8192 0\n0 9\n";
        assert_eq!((made_by(&["12"], table), made_by(&["12", "13"], table)), (4096, 12288));
        assert_eq!((made_by(&["1"], table), made_by(&["12"], "")), (0, 0));
    }

    #[test]
    fn what_becomes_less_is_waited_for_and_not_for_ever() {
        let mut left = [9 << 20, 7 << 20, 7 << 20, 7 << 20, 5 << 20].into_iter();
        assert_eq!(once_steady(|| left.next().unwrap_or(2 << 20)), 2 << 20);
        let mut looks = 0;
        once_steady(|| {
            looks += 1;
            (1 << 40) - u64::from(looks) * 2 * SLIGHT_BYTES
        });
        assert_eq!(looks, 1 + LOOKS_MAX);
    }

    #[test]
    fn memory_of_their_own() {
        assert_eq!(own_bytes("cache 5\nrss 6\ntotal_rss 7\n", false), 7);
        assert_eq!(own_bytes("anon 1\nfile 2\nkernel_stack 4\npagetables 8\n", true), 13);
        assert_eq!(own_bytes("", true), 0);
        assert_eq!(kernel_bytes("anon 1\nslab_unreclaimable 2\npercpu 4\nsock 8\n", true), 14);
        assert_eq!((kernel_bytes("4096\n", false), kernel_bytes("", false)), (4096, 0));
    }
}
