//! The thread that analyses executable files; no other thread waits for it.
//!
//! A file system's server may never answer, so files are opened and read by further threads.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use kin::Patience;
use ring::Catalog;

use crate::{Error, mappings, modules};

/// Maximum number of queued addresses; others are requested again.
const WAITING_MAX: usize = 64;
/// Number of analysed files remembered; beyond it all are forgotten.
const KNOWN_MAX: usize = 4 * ring::MODULES_MAX;
/// Time limits for opening a file and for reading it.
const OPEN_WAIT: Duration = Duration::from_secs(2);
const READ_WAIT: Duration = Duration::from_secs(20);

enum Work {
    /// Analyse the file whose text a thread has at an address.
    LookAt(i32, u64),
    /// Fill this catalog as well.
    Mirror(Catalog),
}

/// Sends work to the analysing thread.
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

    /// Adds a catalog that is to have the same content. It stays empty if the thread has ended.
    pub fn mirror(&self, catalog: Catalog) {
        let _ = self.work.send(Work::Mirror(catalog));
    }

    /// Requests the analysis of the file whose text a thread has at an address.
    pub fn look_at(&self, tid: i32, site: u64) {
        // If too many are queued, the agent will ask again.
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
    // Each thread opens the file itself: opening or closing it here could block this thread.
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
        // The process has ended meanwhile: the next one asks again.
        Some(None) => {
            known.remove(&key);
        }
        // An unreadable file is added without sites, so that agents do not ask again.
        bytes => modules::add(catalogs, key, &bytes.flatten().unwrap_or_default()),
    }
}
