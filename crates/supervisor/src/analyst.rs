//! The thread that analyses executable files: nobody waits for it.

use std::collections::HashSet;
use std::sync::mpsc::{SyncSender, sync_channel};

use ring::Catalog;

use crate::{Error, mappings, modules, signals};

/// Places that wait; more are asked for again.
const WAITING_MAX: usize = 64;
/// Files that are remembered as analysed; then all are forgotten.
const KNOWN_MAX: usize = 4 * ring::MODULES_MAX;

enum Work {
    /// At the file whose text a thread has at an address.
    LookAt(i32, u64),
    /// Keep this catalog as well.
    Mirror(Catalog),
}

/// Tells the thread what to do.
pub struct Analyst {
    work: SyncSender<Work>,
}

impl Analyst {
    pub fn start(catalog: Catalog) -> Result<Analyst, Error> {
        let (work, queue) = sync_channel::<Work>(WAITING_MAX);
        let run = move || {
            signals::block_all();
            let mut catalogs = vec![catalog];
            let mut known = HashSet::new();
            for work in queue {
                match work {
                    Work::LookAt(tid, site) => look_at(tid, site, &mut known, &catalogs),
                    Work::Mirror(catalog) => {
                        modules::copy(&catalogs[0], &catalog);
                        catalogs.push(catalog);
                    }
                }
            }
        };
        kin::start_thread("analyst", run).map_err(Error::Thread)?;
        Ok(Analyst { work })
    }

    /// Another catalog that is to know the same. Where nobody works any more it stays empty.
    pub fn mirror(&self, catalog: Catalog) {
        let _ = self.work.send(Work::Mirror(catalog));
    }

    /// The file whose text a thread has at an address is one whose sites are to be known.
    pub fn look_at(&self, tid: i32, site: u64) {
        // With too many waiting this one is asked for again.
        let _ = self.work.try_send(Work::LookAt(tid, site));
    }
}

fn look_at(tid: i32, site: u64, known: &mut HashSet<mappings::Key>, catalogs: &[Catalog]) {
    let Some(file) = mappings::open_at(tid, site) else { return };
    let Some(key) = mappings::key_of(&file) else { return };
    if known.len() >= KNOWN_MAX {
        known.clear();
    }
    if known.insert(key) {
        modules::add(catalogs, key, &file);
    }
}
