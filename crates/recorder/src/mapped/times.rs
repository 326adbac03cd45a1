//! When pages were touched, and by which thread: as far as page faults tell.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ftrace::{Fault, Faults, Followed};
use kin::start_thread;
use rustix::time::ClockId;

use super::kernel::{PAGE_BYTES, leaves_some};
use crate::host::Moment;
use crate::stored::Touch;

/// Maximum number of touched pages that are remembered, in all processes together.
const TOUCHES_MAX: usize = 1 << 20;
/// From so many on, memory is looked at without being asked.
const MANY: usize = 1 << 16;
/// How long a thread waits before it looks whether it is still needed.
const WAIT: Duration = Duration::from_secs(1);

/// Touches by the address of the page.
#[derive(Default, Debug)]
pub(super) struct Touches(BTreeMap<u64, Touch>);

impl Touches {
    /// Adds a touch; returns true if the page had none.
    pub fn add(&mut self, page: u64, touch: Touch) -> bool {
        let mut is_new = true;
        let both = |known: &mut Touch| {
            is_new = false;
            *known = known.and(touch);
        };
        self.0.entry(page).and_modify(both).or_insert(touch);
        is_new
    }

    /// The least stretch that has all touched pages of some memory.
    pub fn hull(&self, memory: &Range<u64>) -> Option<Range<u64>> {
        let mut within = self.0.range(memory.clone()).map(|(page, _)| *page);
        let first = within.next()?;
        let last = within.next_back().unwrap_or(first);
        Some(first..(last + PAGE_BYTES).min(memory.end))
    }

    /// Touched pages of some memory.
    pub fn within(&self, memory: Range<u64>) -> impl Iterator<Item = u64> {
        self.0.range(memory).map(|(page, _)| *page)
    }

    /// Forgets and returns what is known of a page.
    pub fn take(&mut self, page: u64) -> Option<Touch> {
        self.0.remove(&page)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// What is known of a process.
#[derive(Default)]
struct Known {
    /// Number of the [`Timed`] that it belongs to: another process may get the same id.
    of: u64,
    /// Memory that is watched, in order.
    watched: Vec<Range<u64>>,
    touches: Touches,
}

impl Known {
    fn watches(&self, page: u64) -> bool {
        let before = self.watched.partition_point(|memory| memory.end <= page);
        self.watched.get(before).is_some_and(|memory| memory.start <= page)
    }
}

/// Page faults of all processes that are followed.
pub(super) struct Times {
    faults: Faults,
    /// By process id.
    known: Mutex<HashMap<u32, Known>>,
    /// Number of touches of all.
    count: AtomicUsize,
    /// Number of those for which there was no room.
    dropped: AtomicU64,
    /// How many processes were followed so far.
    begun: AtomicU64,
}

/// Processes that were forked from one another, whose faults come together.
struct Family {
    followed: Followed,
    /// How many lost faults were told.
    told: AtomicU64,
}

/// A process of which page faults tell.
pub(super) struct Timed {
    times: Arc<Times>,
    pid: u32,
    number: u64,
    family: Arc<Family>,
}

impl Times {
    /// Begins to take page faults.
    pub fn start() -> io::Result<Arc<Times>> {
        let times = Arc::new(Times {
            faults: Faults::new(|| {
                let moment = Moment::now(ClockId::MonotonicRaw);
                [moment.tsc, moment.ns]
            })?,
            known: Mutex::default(),
            count: AtomicUsize::new(0),
            dropped: AtomicU64::new(0),
            begun: AtomicU64::new(0),
        });
        let own = Arc::downgrade(&times);
        start_thread("faults", move || {
            while let Some(times) = own.upgrade() {
                times.faults.wait(WAIT);
                times.read();
            }
        })?;
        Ok(times)
    }

    /// Follows a process. `maker`: it has just been forked by that one.
    pub fn follow(self: &Arc<Times>, pid: i32, maker: Option<&Timed>) -> io::Result<Timed> {
        let family = match maker {
            Some(maker) => Arc::clone(&maker.family),
            None => {
                let may_keep = |fd: &OwnedFd| leaves_some(fd.as_raw_fd());
                let followed = self.faults.follow(pid, &may_keep)?;
                Arc::new(Family { followed, told: AtomicU64::new(0) })
            }
        };
        let number = self.begun.fetch_add(1, Ordering::Relaxed);
        Ok(Timed { times: Arc::clone(self), pid: pid.cast_unsigned(), number, family })
    }

    /// Whether memory is to be looked at soon.
    pub fn has_many(&self) -> bool {
        self.count.load(Ordering::Relaxed) >= MANY
    }

    /// Notes what has come in.
    fn read(&self) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        self.faults.read(&mut |Fault { process, thread, tsc, address }| {
            let page = address & !(PAGE_BYTES - 1);
            let Some(its) = known.get_mut(&process).filter(|its| its.watches(page)) else { return };
            if self.count.load(Ordering::Relaxed) >= TOUCHES_MAX {
                self.dropped.fetch_add(1, Ordering::Relaxed);
                return;
            }
            let touch = Touch { first: tsc, last: tsc, thread, is_alone: true };
            if its.touches.add(page, touch) {
                self.count.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
}

impl Timed {
    /// Says which memory is watched.
    pub fn watch(&self, memory: impl Iterator<Item = Range<u64>>) {
        let mut watched: Vec<Range<u64>> = memory.collect();
        watched.sort_by_key(|memory| memory.start);
        let mut known = self.times.known.lock().unwrap_or_else(PoisonError::into_inner);
        let its = known.entry(self.pid).or_default();
        if its.of != self.number {
            self.times.count.fetch_sub(its.touches.0.len(), Ordering::Relaxed);
            *its = Known { of: self.number, ..Known::default() };
        }
        its.watched = watched;
    }

    /// What is known of touches now. What is not used is to be given back.
    pub fn take(&self) -> Touches {
        self.times.read();
        let mut known = self.times.known.lock().unwrap_or_else(PoisonError::into_inner);
        let own = known.get_mut(&self.pid).filter(|its| its.of == self.number);
        let touches = own.map(|its| std::mem::take(&mut its.touches)).unwrap_or_default();
        self.times.count.fetch_sub(touches.0.len(), Ordering::Relaxed);
        touches
    }

    /// Gives back what was not used, as far as the memory is watched.
    pub fn give(&self, touches: Touches) {
        if touches.is_empty() {
            return;
        }
        let mut known = self.times.known.lock().unwrap_or_else(PoisonError::into_inner);
        let own = known.get_mut(&self.pid).filter(|its| its.of == self.number);
        let Some(its) = own else { return };
        for (page, touch) in touches.0 {
            if its.watches(page) && its.touches.add(page, touch) {
                self.times.count.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Number of page faults that are not known, and were not told yet.
    pub fn lost(&self) -> u64 {
        let Family { followed, told } = &*self.family;
        let lost = followed.lost();
        let new = lost.saturating_sub(told.swap(lost, Ordering::Relaxed));
        new.saturating_add(self.times.dropped.swap(0, Ordering::Relaxed))
    }
}

impl Drop for Timed {
    fn drop(&mut self) {
        let mut known = self.times.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.get(&self.pid).is_some_and(|its| its.of == self.number)
            && let Some(its) = known.remove(&self.pid)
        {
            self.times.count.fetch_sub(its.touches.0.len(), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(first: u64, last: u64, thread: u32, is_alone: bool) -> Touch {
        Touch { first, last, thread, is_alone }
    }

    #[test]
    fn touches_of_a_page_are_put_together() {
        let mut touches = Touches::default();
        assert_eq!(touches.hull(&(0..u64::MAX)), None);
        assert!(touches.add(0x3000, touch(5, 5, 1, true)));
        assert!(!touches.add(0x3000, touch(9, 9, 1, true)));
        assert!(touches.add(0x8000, touch(7, 7, 2, true)));
        assert!(!touches.add(0x8000, touch(6, 6, 1, true)));
        assert_eq!(touches.hull(&(0..u64::MAX)), Some(0x3000..0x9000));
        assert_eq!(touches.hull(&(0x4000..0x9000)), Some(0x8000..0x9000));
        assert_eq!(touches.hull(&(0x4000..0x8000)), None);
        assert_eq!(touches.within(0x1000..0x8000).collect::<Vec<_>>(), [0x3000]);
        assert_eq!(touches.take(0x3000), Some(touch(5, 9, 1, true)));
        assert_eq!(touches.take(0x8000), Some(touch(6, 7, 1, false)));
        assert!(touches.is_empty() && touches.take(0x8000).is_none());
    }

    #[test]
    fn only_watched_memory_counts() {
        let watched = vec![0x1000..0x3000, 0x5000..0x6000];
        let known = Known { watched, ..Known::default() };
        let watched: Vec<u64> =
            (0..8).map(|page| page * 0x1000).filter(|page| known.watches(*page)).collect();
        assert_eq!(watched, [0x1000, 0x2000, 0x5000]);
    }
}
