//! Page faults of processes, as `perf_event_open` tells them to anybody who may look at a process.
//!
//! For each CPU there is a ring, into which the faults of all followed processes go that happen there.
//! Only faults of the program's own instructions are told: not those of the kernel in its calls.

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::ring::{
    Attributes, Clock, DISABLED, FORMAT_LOST, HEAD_AT, Memory, Now, RECORD_HEAD, RECORD_SAMPLE,
    SAMPLE_TIME, SET_OUTPUT, TAIL_AT, USE_CLOCK, cpus, lost_of, number, order,
};

/// Length of the ring of a CPU. The kernel lets each user have a page more than this for nothing.
const RING_BYTES: u64 = 512 << 10;
/// Who waits is told when a ring has so many bytes.
const FULL_BYTES: u32 = 64 << 10;
/// Maximum number of descriptors by which one process is followed.
const DESCRIPTORS_MAX: usize = 2048;
/// How often it is looked for threads that began meanwhile.
const LOOKS_MAX: usize = 16;
/// Longest record that is looked at.
const RECORD_BYTES: usize = 64;

/// Numbers of the kernel's.
const TYPE_SOFTWARE: u32 = 1;
const COUNT_PAGE_FAULTS: u64 = 2;
const COUNT_NOTHING: u64 = 9;
const SAMPLE_TID: u64 = 1 << 1;
const SAMPLE_ADDRESS: u64 = 1 << 3;
const INHERIT: u64 = 1 << 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
const WATERMARK: u64 = 1 << 14;
const REMOVE_ON_EXEC: u64 = 1 << 36;

/// A page fault, when the page was there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Id of the process, as the caller sees it.
    pub process: u32,
    /// Id of the thread.
    pub thread: u32,
    /// Value of the time stamp counter.
    pub tsc: u64,
    /// Address that was used.
    pub address: u64,
}

/// The ring of a CPU. Its own event counts nothing: the ring is there as long as that is open.
#[derive(Debug)]
struct Ring {
    cpu: u32,
    event: OwnedFd,
    memory: Memory,
}

/// Where page faults come in.
#[derive(Debug)]
pub struct Faults {
    rings: Mutex<Vec<Ring>>,
    clock: Clock,
}

/// Processes whose faults come in, and those that they fork: until this is dropped, or they execute
/// another program.
#[derive(Debug)]
pub struct Followed(Vec<OwnedFd>);

impl Followed {
    /// How many faults were lost so far, because a ring was full.
    pub fn lost(&self) -> u64 {
        // What cannot be read any more has lost nothing since.
        self.0.iter().fold(0, |lost: u64, fd| lost.saturating_add(lost_of(fd).unwrap_or(0)))
    }
}

fn attributes(config: u64, flags: u64) -> Attributes {
    Attributes {
        kind: TYPE_SOFTWARE,
        config,
        period: 1,
        sample: SAMPLE_TID | SAMPLE_TIME | SAMPLE_ADDRESS,
        read: FORMAT_LOST,
        flags: flags | USE_CLOCK | EXCLUDE_KERNEL | EXCLUDE_HYPERVISOR,
        clock: libc::CLOCK_MONOTONIC_RAW,
        ..Attributes::default()
    }
}

impl Faults {
    /// Makes rings. Nobody is followed yet.
    pub fn new(now: Now) -> io::Result<Faults> {
        let mut rings = Vec::new();
        for cpu in cpus() {
            let mut own = attributes(COUNT_NOTHING, DISABLED | WATERMARK);
            own.wakeup = FULL_BYTES;
            let event = own.open(0, cpu)?;
            let memory = Memory::of(&event, RING_BYTES)?;
            rings.push(Ring { cpu, event, memory });
        }
        match rings.is_empty() {
            true => Err(io::Error::other("no CPU is known")),
            false => Ok(Faults { rings: Mutex::new(rings), clock: Clock::new(now) }),
        }
    }

    /// Follows all threads of a process. `may_keep` says whether a new descriptor leaves enough of
    /// them.
    pub fn follow(
        &self,
        process: i32,
        may_keep: &dyn Fn(&OwnedFd) -> io::Result<()>,
    ) -> io::Result<Followed> {
        let rings = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = attributes(COUNT_PAGE_FAULTS, INHERIT | REMOVE_ON_EXEC);
        let (mut all, mut known) = (Vec::new(), HashSet::new());
        // Threads that followed ones make are followed. Others may have made some meanwhile.
        for _ in 0..LOOKS_MAX {
            let mut is_new = false;
            for entry in std::fs::read_dir(format!("/proc/{process}/task"))? {
                let thread = entry?.file_name().to_str().and_then(|name| name.parse().ok());
                let Some(thread) = thread.filter(|thread: &i32| known.insert(*thread)) else {
                    continue;
                };
                is_new = true;
                for ring in rings.iter() {
                    let event = match wanted.open(thread, ring.cpu) {
                        // It has ended.
                        Err(error) if error.raw_os_error() == Some(libc::ESRCH) => break,
                        other => other?,
                    };
                    may_keep(&event)?;
                    if all.len() >= DESCRIPTORS_MAX {
                        return Err(io::Error::other("too many threads and CPUs"));
                    }
                    order(&event, SET_OUTPUT, ring.event.as_raw_fd() as u64)?;
                    all.push(event);
                }
            }
            if !is_new {
                return Ok(Followed(all));
            }
        }
        Err(io::Error::other("threads begin too fast"))
    }

    /// Takes what has come in.
    pub fn read(&self, take: &mut dyn FnMut(Fault)) {
        let rings = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
        for ring in rings.iter() {
            let memory = &ring.memory;
            let head = memory.word(HEAD_AT).load(Ordering::Acquire);
            let mut tail = memory.word(TAIL_AT).load(Ordering::Relaxed);
            let relation = (head != tail).then(|| self.clock.relation());
            while let Some(relation) = relation.as_ref().filter(|_| tail < head) {
                let mut start = [0; RECORD_HEAD];
                memory.copy(tail, &mut start);
                let [a, b, c, d, _, _, low, high] = start;
                let size = u64::from(u16::from_le_bytes([low, high]));
                if size < RECORD_HEAD as u64 || size > head - tail {
                    // The kernel writes no such thing.
                    tail = head;
                    break;
                }
                if u32::from_le_bytes([a, b, c, d]) == RECORD_SAMPLE {
                    let mut record = [0; RECORD_BYTES];
                    let len = (size as usize - RECORD_HEAD).min(RECORD_BYTES);
                    memory.copy(tail + RECORD_HEAD as u64, &mut record[..len]);
                    let ids = number(&record, 0);
                    take(Fault {
                        process: ids as u32,
                        thread: (ids >> 32) as u32,
                        tsc: relation.counter(number(&record, 8)),
                        address: number(&record, 16),
                    });
                }
                tail += size;
            }
            memory.word(TAIL_AT).store(tail, Ordering::Release);
        }
    }

    /// Waits until a ring has some, or for that time.
    pub fn wait(&self, time: Duration) {
        let rings = self.rings.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |ring: &Ring| libc::pollfd {
            fd: ring.event.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        let mut polled: Vec<libc::pollfd> = rings.iter().map(of).collect();
        // The rings stay as long as this does.
        drop(rings);
        let time_ms = i32::try_from(time.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: the list is as long as is said.
        unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, time_ms) };
    }
}

#[cfg(test)]
mod tests {
    use std::ptr::null_mut;

    use crate::ring::MEMORY_PAGE;

    use super::*;

    fn now() -> [u64; 2] {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: writes to the structure alone.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_RAW, &mut time) };
        let ns = time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64;
        // Nanoseconds stand for the counter.
        [ns, ns]
    }

    #[test]
    fn faults_of_all_threads_are_told() {
        let Ok(faults) = Faults::new(now) else { return };
        let (own, pages) = (std::process::id(), 100);
        let Ok(followed) = faults.follow(own as i32, &|_| Ok(())) else { return };
        let began = now()[0];
        let thread = std::thread::spawn(move || {
            let (len, protection) = (pages * MEMORY_PAGE, libc::PROT_READ | libc::PROT_WRITE);
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            // SAFETY: new memory at an address of the kernel's choice, which nobody else uses.
            let start = unsafe { libc::mmap(null_mut(), len, protection, flags, -1, 0) };
            // SAFETY: the same, and each page lies in it.
            unsafe {
                libc::madvise(start, len, libc::MADV_NOHUGEPAGE);
                for page in 0..pages {
                    start.cast::<u8>().add(page * MEMORY_PAGE).write_volatile(1);
                }
                (start as u64, libc::syscall(libc::SYS_gettid) as u32)
            }
        });
        let (start, thread) = thread.join().unwrap();
        let mut found = HashSet::new();
        faults.read(&mut |fault| {
            let page = fault.address.wrapping_sub(start) / MEMORY_PAGE as u64;
            if page < pages as u64 {
                assert_eq!((fault.process, fault.thread), (own, thread));
                assert!((began..now()[0] + 1_000_000).contains(&fault.tsc), "{fault:?} {began}");
                found.insert(page);
            }
        });
        assert!(found.len() as u64 + followed.lost() >= pages as u64, "{}", found.len());
        faults.read(&mut |_| ());
        faults.wait(Duration::ZERO);
        assert!(faults.follow(i32::MAX, &|_| Ok(())).is_err());
        let full = |_: &OwnedFd| Err(io::Error::other("no more"));
        assert!(faults.follow(own as i32, &full).is_err());
    }
}
