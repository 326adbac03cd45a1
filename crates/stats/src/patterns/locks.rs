//! Waits for locks of threads (futexes) and of files.

use std::collections::HashMap;

use model::Moment;
use render::amounts::show_count;
use syscalls::Act;
use syscalls::abi::files::LOCK_NB;
use trace::event::Call;

use super::callers::Callers;
use super::finding::Finding;
use super::kinds::FindingKind;
use super::often::{COUNTED_MAX, OFTEN, OFTEN_SLOW, Often};
use super::prices::Prices;
use crate::activity::Activity;
use crate::sites::SiteId;

/// Value of a contended lock in the C library and in most others. A wait with this value is for a
/// lock, not for an event.
const CONTENDED: u32 = 2;
/// Shorter calls most likely found the file lock free.
const WAITED_NS: u64 = 1_000_000;

/// Process and address of a lock.
type Lock = (u32, u64);

/// The fold that counts waits.
#[derive(Default)]
pub struct Locks {
    threads: HashMap<Lock, (Often, HashMap<SiteId, u64>)>,
    files: HashMap<Vec<u8>, (Often, HashMap<SiteId, u64>)>,
}

impl Locks {
    /// Makes an empty fold.
    pub fn new() -> Locks {
        Locks::default()
    }

    /// Processes a call.
    pub fn add(&mut self, moment: &Moment<'_>, call: &Call, site: SiteId) {
        let Some(row) = syscalls::by_number(call.nr.into()) else { return };
        let ns = moment.exit_ns.map_or(0, |exit| exit.saturating_sub(moment.enter_ns));
        let [first, operation, value, ..] = call.args;
        let waits = match row.act_of(&call.args) {
            Act::WaitOnWord if value as u32 == CONTENDED => {
                let thread = moment.world.thread(moment.event.thread);
                let lock = (thread.map_or(0, |thread| thread.process), first);
                return note(&mut self.threads, lock, (ns, moment.seq), site);
            }
            Act::Lock => operation & LOCK_NB == 0,
            Act::RecordLock { waits } => waits,
            _ => return,
        };
        if waits && ns >= WAITED_NS && call.success().is_some() {
            let path = moment.view().fd(first as i32).unwrap_or_default();
            note(&mut self.files, path, (ns, moment.seq), site);
        }
    }

    /// Returns a finding for each lock with many waits.
    pub fn finish(self, callers: &mut Callers, prices: &Prices) -> Vec<Finding> {
        let mut finding = |file, often: &Often, places: &HashMap<SiteId, u64>, evidence| {
            let top =
                places.iter().max_by_key(|(site, count)| (**count, std::cmp::Reverse(**site)));
            let site = top.map(|(site, _)| callers.spelled(*site)).unwrap_or_default();
            let about = (Activity::Lock, prices);
            let finding = Finding::about(FindingKind::LockWaits, often, about, evidence);
            Finding { file, site, ..finding }
        };
        let mut findings = Vec::new();
        let threads = self.threads.iter().filter(|(_, (often, _))| often.count >= OFTEN);
        for ((_, address), (often, places)) in threads {
            let count = show_count(often.count);
            let evidence = format!("{count} waits for the lock at {address:#x}");
            findings.push(finding(Vec::new(), often, places, evidence));
        }
        for (path, (often, places)) in self.files.iter().filter(|(_, (o, _))| o.count >= OFTEN_SLOW)
        {
            let count = show_count(often.count);
            let evidence = format!("{count} waits of 1 ms or more for the lock on this file");
            findings.push(finding(path.clone(), often, places, evidence));
        }
        findings
    }
}

fn note<K: std::hash::Hash + Eq>(
    locks: &mut HashMap<K, (Often, HashMap<SiteId, u64>)>,
    key: K,
    (ns, number): (u64, Option<u64>),
    site: SiteId,
) {
    if locks.len() >= COUNTED_MAX && !locks.contains_key(&key) {
        return;
    }
    let (often, places) = locks.entry(key).or_default();
    often.add_call(0, ns, number);
    if places.len() < 16 || places.contains_key(&site) {
        *places.entry(site).or_default() += 1;
    }
}
