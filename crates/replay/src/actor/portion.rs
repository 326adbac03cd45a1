//! Calls that list a directory in portions: a whole scan is compared as a set.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use super::Actor;
use crate::batch::{Action, Batch, Call};
use crate::clock;
use crate::descriptors;
use crate::made::Made;
use crate::scan::{self, Scan};

/// Ticks of reading a directory.
#[derive(Default)]
struct Reading {
    /// What was read now: at the first portion, all of it.
    done: u64,
    /// What counts for this portion.
    counts: u64,
}

impl Actor<'_> {
    /// Replays the listing of one portion.
    pub(super) fn scan(&mut self, batch: &Batch, action: &Action, call: &Call) {
        self.lane.counts.replayed.add(1);
        let before = self.standing();
        let begin = clock::ticks();
        let mut reading = Reading::default();
        let mut differs = self.scan_portion(batch, call, false, &mut reading);
        let all = clock::ticks().wrapping_sub(begin);
        // To compare the names is our own work.
        self.note_taken(reading.done, all.wrapping_sub(reading.done), before);
        self.tally.latencies.of(call.nr).record(clock::to_ns(reading.counts));
        if action.overlapped && matches!(differs, Some(Made::Data { .. } | Made::Return(_))) {
            let (shared, lane) = (Arc::clone(self.shared), Arc::clone(self.lane));
            shared.appeal(&lane, action.exit, || {
                differs = self.scan_portion(batch, call, true, &mut Reading::default());
                differs.is_none()
            });
        }
        let mut scans = self.shared.scans.lock().unwrap_or_else(|e| e.into_inner());
        if call.ret == 0 {
            scans.remove(&call.scan);
        } else if differs.is_some()
            && let Some(scan) = scans.get_mut(&call.scan)
        {
            scan.partial = true;
        }
        drop(scans);
        let made = differs.unwrap_or(Made::Same);
        let made = match made.excuse(call) {
            Some(excuse) => self.excused(made, excuse),
            None => made,
        };
        self.conclude(action, call, made);
    }

    fn scan_portion(
        &self,
        batch: &Batch,
        call: &Call,
        again: bool,
        reading: &mut Reading,
    ) -> Option<Made> {
        let fd = call.values[0] as i32;
        if call.ret < 0 {
            let begin = clock::ticks();
            let failure = scan::failure(fd, call.values[2] as u32, call.ret);
            let ticks = clock::ticks().wrapping_sub(begin);
            *reading = Reading { done: ticks, counts: ticks };
            return match failure {
                Some(ret) => (ret != call.ret).then_some(Made::Return(ret)),
                None => Some(Made::Unknown),
            };
        }
        let mut scans = self.shared.scans.lock().unwrap_or_else(|e| e.into_inner());
        if again && scans.get(&call.scan).is_some_and(|scan| !scan.begun) {
            scans.remove(&call.scan);
            // SAFETY: the arguments are numbers; no memory is accessed.
            unsafe { libc::lseek(fd, 0, libc::SEEK_SET) };
        }
        let others: usize = scans.values().map(Scan::names).sum();
        let mut anywhere;
        let scan = match scans.entry(call.scan) {
            _ if call.scan == scan::ANYWHERE => match Scan::of_nothing(fd) {
                Ok(scan) => {
                    reading.done = scan.read_for();
                    anywhere = scan;
                    &mut anywhere
                }
                Err(error) => return Some(Made::Return(-i64::from(error))),
            },
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => match Scan::of(fd) {
                Ok(scan) => {
                    reading.done = scan.read_for();
                    entry.insert(scan.beside(others))
                }
                Err(error) => return Some(Made::Return(-i64::from(error))),
            },
        };
        reading.counts = scan.counts(call.ret == 0 || call.scan == scan::ANYWHERE);
        if !self.shared.options.verifies() {
            return None;
        }
        if scan.partial {
            return Some(Made::Unknown);
        }
        let exists = |name: &[u8]| descriptors::has_entry(fd, name);
        if call.ret == 0 {
            return scan.left_over(exists).map(|found| Made::Data {
                what: "entries".into(),
                expected: "no more entries".into(),
                found,
            });
        }
        let Some((portion, old)) = scan::recorded_portion(batch, call) else {
            return Some(Made::Unknown);
        };
        scan.portion(&portion, old, exists).map(|expected| Made::Data {
            what: "entries".into(),
            expected,
            found: "not there".into(),
        })
    }
}
