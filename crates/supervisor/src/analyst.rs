//! The thread that analyses executable files: nobody waits for it.
//!
//! Whoever serves a file system may never answer: files are opened and read by threads of their own.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use kin::Patience;
use ring::Catalog;

use crate::{Error, mappings, modules, signals};

/// Places that wait; more are asked for again.
const WAITING_MAX: usize = 64;
/// Files that are remembered as analysed; then all are forgotten.
const KNOWN_MAX: usize = 4 * ring::MODULES_MAX;
/// How long it may take to open a file, and to read it.
const OPEN_WAIT: Duration = Duration::from_secs(2);
const READ_WAIT: Duration = Duration::from_secs(20);

enum Work {
    /// At the file whose text a thread has at an address.
    LookAt(i32, u64),
    /// Keep this catalog as well.
    Mirror(Catalog),
}

/// Tells the thread what to do.
pub struct Analyst {
    work: Sender<Work>,
    waiting: Arc<AtomicUsize>,
}

impl Analyst {
    pub fn start(catalog: Catalog) -> Result<Analyst, Error> {
        let (work, queue) = channel::<Work>();
        let waiting = Arc::new(AtomicUsize::new(0));
        let looked = Arc::clone(&waiting);
        let run = move || {
            signals::block_all();
            let mut catalogs = vec![catalog];
            let (mut known, patience) = (HashSet::new(), Patience::default());
            for work in queue {
                match work {
                    Work::LookAt(tid, site) => {
                        looked.fetch_sub(1, Ordering::Relaxed);
                        look_at(tid, site, &mut known, &catalogs, &patience);
                    }
                    Work::Mirror(catalog) => {
                        modules::copy(&catalogs[0], &catalog);
                        catalogs.push(catalog);
                    }
                }
            }
        };
        kin::start_thread("analyst", run).map_err(Error::Thread)?;
        Ok(Analyst { work, waiting })
    }

    /// Another catalog that is to know the same. Where nobody works any more it stays empty.
    pub fn mirror(&self, catalog: Catalog) {
        let _ = self.work.send(Work::Mirror(catalog));
    }

    /// The file whose text a thread has at an address is one whose sites are to be known.
    pub fn look_at(&self, tid: i32, site: u64) {
        // With too many waiting this one is asked for again.
        if self.waiting.load(Ordering::Relaxed) < WAITING_MAX {
            self.waiting.fetch_add(1, Ordering::Relaxed);
            let _ = self.work.send(Work::LookAt(tid, site));
        }
    }
}

fn look_at(
    tid: i32,
    site: u64,
    known: &mut HashSet<mappings::Key>,
    catalogs: &[Catalog],
    patience: &Patience,
) {
    // Opened twice: neither the file nor its end must come to this thread.
    let find = move || mappings::key_of(&mappings::open_at(tid, site)?);
    let Some(key) = patience.within(OPEN_WAIT, find).flatten() else { return };
    if known.len() >= KNOWN_MAX {
        known.clear();
    }
    if !known.insert(key) || !modules::has_room_for(catalogs, key) {
        return;
    }
    let read = move || {
        let file = mappings::open_at(tid, site)?;
        (mappings::key_of(&file)? == key).then(|| modules::read(&file, key).unwrap_or_default())
    };
    match patience.within(READ_WAIT, read) {
        // Its process has ended meanwhile: the next one asks again.
        Some(None) => {
            known.remove(&key);
        }
        // What cannot be read is known to have no sites, and nobody asks again.
        bytes => modules::add(catalogs, key, &bytes.flatten().unwrap_or_default()),
    }
}
