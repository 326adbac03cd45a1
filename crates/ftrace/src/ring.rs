//! Rings of `perf_event_open`: the second way to events, where tracefs can only be read.
//!
//! For each CPU there is a ring, into which all chosen events of it go. What is in a ring is laid out as
//! a page of tracefs would have it, so that nobody else needs to know.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::page::{Page, PageMaker};

/// Bytes of a page of memory.
pub(crate) const MEMORY_PAGE: usize = 4096;
/// Bytes of a page that is made of what a ring has.
const PAGE_BYTES: usize = 64 << 10;
/// A ring has at least so many pages of memory, and at most.
const PAGES_MIN: usize = 16;
const PAGES_MAX: usize = 1 << 18;
/// Between two looks at the clocks.
const LOOK_EVERY_NS: u64 = 5_000_000;

/// Numbers of the kernel's.
const TYPE_TRACEPOINT: u32 = 2;
pub(crate) const SAMPLE_TIME: u64 = 1 << 2;
const SAMPLE_RAW: u64 = 1 << 10;
pub(crate) const FORMAT_LOST: u64 = 1 << 4;
pub(crate) const DISABLED: u64 = 1;
pub(crate) const USE_CLOCK: u64 = 1 << 25;
const CLOSE_ON_EXEC: u64 = 1 << 3;
const ENABLE: u64 = 0x2400;
const DISABLE: u64 = 0x2401;
pub(crate) const SET_OUTPUT: u64 = 0x2405;
const SET_FILTER: u64 = 0x4008_2406;
const RECORD_LOST: u32 = 2;
pub(crate) const RECORD_SAMPLE: u32 = 9;
/// Where a ring's first page has how far it was written and read.
pub(crate) const HEAD_AT: usize = 1024;
pub(crate) const TAIL_AT: usize = 1032;
/// Bytes before what a record has: type, flags, size.
pub(crate) const RECORD_HEAD: usize = 8;

/// The time stamp counter, and nanoseconds of `CLOCK_MONOTONIC_RAW`, at one moment.
pub type Now = fn() -> [u64; 2];

/// What `perf_event_open` is told.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Attributes {
    pub kind: u32,
    pub size: u32,
    pub config: u64,
    pub period: u64,
    pub sample: u64,
    pub read: u64,
    pub flags: u64,
    pub wakeup: u32,
    pub break_kind: u32,
    pub config_more: [u64; 2],
    pub branches: u64,
    pub user_registers: u64,
    pub user_stack: u32,
    pub clock: i32,
    pub registers: u64,
    pub rest: [u32; 4],
}

/// Makes nanoseconds of the kernel's clock values of the counter.
#[derive(Debug)]
pub struct Clock {
    now: Now,
    /// The first moment at which both were looked at, and the last one.
    moments: Mutex<[[u64; 2]; 2]>,
}

impl Clock {
    /// Looks at both clocks.
    pub fn new(now: Now) -> Clock {
        let moment = now();
        Clock { now, moments: Mutex::new([moment; 2]) }
    }

    /// How they relate at present.
    pub(crate) fn relation(&self) -> Relation {
        let mut moments = self.moments.lock().unwrap_or_else(PoisonError::into_inner);
        let now = (self.now)();
        if now[1].saturating_sub(moments[1][1]) >= LOOK_EVERY_NS || moments[0] == moments[1] {
            moments[1] = now;
        }
        let [first, last] = *moments;
        Relation {
            last,
            ticks: last[0].saturating_sub(first[0]),
            ns: last[1].saturating_sub(first[1]),
        }
    }
}

/// A moment of both clocks, and how far both went in a span that ends there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Relation {
    last: [u64; 2],
    ticks: u64,
    ns: u64,
}

impl Relation {
    pub(crate) fn counter(&self, ns: u64) -> u64 {
        let away = i128::from(ns) - i128::from(self.last[1]);
        let ticks = away * i128::from(self.ticks) / i128::from(self.ns.max(1));
        u64::try_from(i128::from(self.last[0]) + ticks).unwrap_or(0)
    }
}

/// Returns whether such events may be had: that of this number, on any CPU.
pub fn may_be_had(event: u16) -> bool {
    cpus().into_iter().any(|cpu| open(event, cpu, 0).is_ok())
}

/// The CPUs that run.
pub fn cpus() -> Vec<u32> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let ranges = text.trim().split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?.min(1 << 13))
    });
    ranges.flatten().collect()
}

fn open(event: u16, cpu: u32, read: u64) -> io::Result<OwnedFd> {
    let of_all: i32 = -1;
    let attributes = Attributes {
        kind: TYPE_TRACEPOINT,
        config: event.into(),
        period: 1,
        sample: SAMPLE_TIME | SAMPLE_RAW,
        read,
        flags: DISABLED | USE_CLOCK,
        clock: libc::CLOCK_MONOTONIC_RAW,
        ..Attributes::default()
    };
    attributes.open(of_all, cpu)
}

impl Attributes {
    /// Opens such an event of a task, on a CPU.
    pub(crate) fn open(self, task: i32, cpu: u32) -> io::Result<OwnedFd> {
        let attributes = Attributes { size: size_of::<Attributes>() as u32, ..self };
        // SAFETY: the kernel reads as many bytes of the structure as it says that it has.
        let made = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attributes,
                task,
                cpu as i32,
                -1,
                CLOSE_ON_EXEC,
            )
        };
        match i32::try_from(made) {
            // SAFETY: the kernel just gave this descriptor, and nobody else has it.
            Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

pub(crate) fn order(fd: &OwnedFd, request: u64, argument: u64) -> io::Result<()> {
    // SAFETY: these requests read nothing but numbers, or a text that ends with a NUL and lives as long
    // as the call.
    match unsafe { libc::ioctl(fd.as_raw_fd(), request as _, argument) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Memory that the kernel writes events to.
#[derive(Debug)]
pub(crate) struct Memory {
    start: NonNull<u8>,
    data_bytes: usize,
}

// SAFETY: it is memory of the process; who has the ring uses it alone.
unsafe impl Send for Memory {}

impl Memory {
    /// As much as wanted, or as the kernel allows.
    pub(crate) fn of(fd: &OwnedFd, wanted: u64) -> io::Result<Memory> {
        let wanted =
            (wanted / MEMORY_PAGE as u64).clamp(PAGES_MIN as u64, PAGES_MAX as u64) as usize;
        // The greatest power of two below it.
        let mut pages = 1 << wanted.ilog2();
        loop {
            let len = (pages + 1) * MEMORY_PAGE;
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let file = fd.as_raw_fd();
            // SAFETY: the kernel chooses a free address.
            let start = unsafe {
                libc::mmap(std::ptr::null_mut(), len, protection, libc::MAP_SHARED, file, 0)
            };
            match NonNull::new(start.cast::<u8>()) {
                Some(start) if start.as_ptr().cast() != libc::MAP_FAILED => {
                    return Ok(Memory { start, data_bytes: pages * MEMORY_PAGE });
                }
                _ if pages > PAGES_MIN => pages /= 2,
                _ => return Err(io::Error::last_os_error()),
            }
        }
    }

    pub(crate) fn word(&self, at: usize) -> &AtomicU64 {
        // SAFETY: the first page is mapped as long as this lives, and the place is that of a word.
        unsafe { &*self.start.as_ptr().add(at).cast::<AtomicU64>() }
    }

    /// Copies what was written, from a position on, around the end of the ring.
    pub(crate) fn copy(&self, from: u64, into: &mut [u8]) {
        let mut place = from as usize & (self.data_bytes - 1);
        let mut rest = into;
        while !rest.is_empty() {
            let (now, later) = rest.split_at_mut(rest.len().min(self.data_bytes - place));
            // SAFETY: the bytes lie in the data, which follow the first page. The kernel writes no more there
            // before it is told that they were read.
            unsafe {
                let data = self.start.as_ptr().add(MEMORY_PAGE + place);
                data.copy_to_nonoverlapping(now.as_mut_ptr(), now.len());
            }
            (rest, place) = (later, 0);
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and nobody has a reference to it.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.data_bytes + MEMORY_PAGE) };
    }
}

/// The ring of a CPU, and the events that go into it.
#[derive(Debug)]
pub struct Ring {
    memory: Memory,
    /// By number of the event.
    events: Vec<(u16, OwnedFd)>,
    clock: Arc<Clock>,
    /// The kernel counts losses by event.
    counts_lost: bool,
    /// Losses that were in the ring.
    seen_lost: u64,
    record: Vec<u8>,
}

impl Ring {
    /// Makes a ring of these events of a CPU, but for single ones that the kernel gives to nobody in
    /// this way.
    pub fn new(cpu: u32, numbers: &[u16], bytes: u64, clock: &Arc<Clock>) -> io::Result<Ring> {
        let mut events: Vec<(u16, OwnedFd)> = Vec::new();
        let mut refused = io::Error::from(io::ErrorKind::PermissionDenied);
        let (mut memory, mut counts_lost) = (None, true);
        for number in numbers {
            let opened = open(*number, cpu, if counts_lost { FORMAT_LOST } else { 0 });
            let opened = match opened {
                Err(error) if counts_lost && error.raw_os_error() == Some(libc::EINVAL) => {
                    counts_lost = false;
                    open(*number, cpu, 0)
                }
                other => other,
            };
            match opened {
                Ok(fd) => {
                    match events.first() {
                        None => memory = Some(Memory::of(&fd, bytes)?),
                        Some((_, first)) => order(&fd, SET_OUTPUT, first.as_raw_fd() as u64)?,
                    }
                    events.push((*number, fd));
                }
                Err(error) if is_of_all(&error) => return Err(error),
                Err(error) => refused = error,
            }
        }
        let Some(memory) = memory else { return Err(refused) };
        let clock = Arc::clone(clock);
        let (seen_lost, record) = (0, Vec::new());
        Ok(Ring { memory, events, clock, counts_lost, seen_lost, record })
    }

    /// Takes events from now on, or no more.
    pub fn switch(&self, is_on: bool) -> io::Result<()> {
        let request = if is_on { ENABLE } else { DISABLE };
        self.events.iter().try_for_each(|(_, fd)| order(fd, request, 0))
    }

    /// Takes an event only where a condition on its fields holds.
    pub fn filter(&self, number: u16, condition: &str) -> io::Result<()> {
        let text = std::ffi::CString::new(condition)?;
        let mut of_it = self.events.iter().filter(|(event, _)| *event == number);
        of_it.try_for_each(|(_, fd)| order(fd, SET_FILTER, text.as_ptr() as u64))
    }

    /// Makes a page of what there is. False if there is nothing.
    pub fn read(&mut self, page: &mut Page) -> io::Result<bool> {
        let head = self.memory.word(HEAD_AT).load(Ordering::Acquire);
        let mut tail = self.memory.word(TAIL_AT).load(Ordering::Relaxed);
        if head == tail {
            return page.fill(PAGE_BYTES, |_| Ok(0));
        }
        let relation = self.clock.relation();
        let (memory, record, seen_lost) = (&self.memory, &mut self.record, &mut self.seen_lost);
        let filled = page.fill(PAGE_BYTES, |into| {
            let mut page = PageMaker::new(into);
            while tail < head {
                let mut start = [0; RECORD_HEAD];
                memory.copy(tail, &mut start);
                let [a, b, c, d, _, _, low, high] = start;
                let size = u64::from(u16::from_le_bytes([low, high]));
                if size < RECORD_HEAD as u64 || size > head - tail {
                    // The kernel writes no such thing.
                    tail = head;
                    break;
                }
                record.resize(size as usize - RECORD_HEAD, 0);
                memory.copy(tail + RECORD_HEAD as u64, record);
                let fits = match u32::from_le_bytes([a, b, c, d]) {
                    RECORD_LOST => {
                        let lost = number(record, 8);
                        let fits = page.lost(lost);
                        *seen_lost += if fits { lost } else { 0 };
                        fits
                    }
                    RECORD_SAMPLE => {
                        let len = number(record, 8) as u32 as usize;
                        let data = record.get(12..12usize.saturating_add(len));
                        data.is_none_or(|data| page.add(relation.counter(number(record, 0)), data))
                    }
                    _ => true,
                };
                if !fits {
                    break;
                }
                tail += size;
            }
            Ok::<_, io::Error>(page.finish())
        });
        self.memory.word(TAIL_AT).store(tail, Ordering::Release);
        filled
    }

    /// What it has lost so far.
    pub fn lost(&self) -> io::Result<u64> {
        if !self.counts_lost {
            return Ok(self.seen_lost);
        }
        self.events.iter().try_fold(0u64, |lost, (_, fd)| Ok(lost.saturating_add(lost_of(fd)?)))
    }
}

/// What an event has lost so far, if it was opened to count that.
pub(crate) fn lost_of(fd: &OwnedFd) -> io::Result<u64> {
    let mut counts = [0u64; 2];
    let len = size_of_val(&counts);
    // SAFETY: the buffer is as long as is said.
    let read = unsafe { libc::read(fd.as_raw_fd(), counts.as_mut_ptr().cast(), len) };
    if read != len as isize {
        return Err(io::Error::last_os_error());
    }
    Ok(counts[1])
}

/// Returns true if no other event can be had either.
fn is_of_all(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM | libc::ENODEV))
}

/// The number at a place of a record; 0 if that is too short.
pub(crate) fn number(record: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    if let Some(rest) = record.get(at..) {
        let len = rest.len().min(8);
        bytes[..len].copy_from_slice(&rest[..len]);
    }
    u64::from_le_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_counter() {
        let relation = Relation { last: [9000, 5000], ticks: 3000, ns: 1000 };
        assert_eq!(relation.counter(5000), 9000);
        assert_eq!(relation.counter(4000), 6000);
        assert_eq!(relation.counter(5100), 9300);
        assert_eq!(relation.counter(0), 0);
    }

    #[test]
    fn some_cpu_runs() {
        assert!(!cpus().is_empty());
    }
}
