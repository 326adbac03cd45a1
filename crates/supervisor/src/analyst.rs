//! The thread that analyses executable files: nobody waits for it.

use std::collections::HashSet;
use std::fs::File;
use std::sync::mpsc::{SyncSender, sync_channel};

use ring::Catalog;

use crate::{Error, mappings, modules, signals};

/// Files that wait; more are asked for again.
const WAITING_MAX: usize = 64;
/// Files that are remembered as handed over; then all are forgotten.
const KNOWN_MAX: usize = 4 * ring::MODULES_MAX;

enum Work {
    LookAt(File),
    /// Keep this catalog as well.
    Mirror(Catalog),
}

/// Hands files over to the thread.
pub struct Analyst {
    work: SyncSender<Work>,
    known: HashSet<[u64; 4]>,
}

impl Analyst {
    pub fn start(catalog: Catalog) -> Result<Analyst, Error> {
        let (work, queue) = sync_channel::<Work>(WAITING_MAX);
        let run = move || {
            signals::leave_to_others();
            let mut catalogs = vec![catalog];
            for work in queue {
                match work {
                    Work::LookAt(file) => modules::add(&catalogs, &file),
                    Work::Mirror(catalog) => {
                        modules::copy(&catalogs[0], &catalog);
                        catalogs.push(catalog);
                    }
                }
            }
        };
        let thread = std::thread::Builder::new().name("analyst".into()).spawn(run);
        thread.map_err(|source| Error::System { what: "starting a thread".to_owned(), source })?;
        Ok(Analyst { work, known: HashSet::new() })
    }

    /// Another catalog that is to know the same. Where nobody works any more it stays empty.
    pub fn mirror(&self, catalog: Catalog) {
        let _ = self.work.send(Work::Mirror(catalog));
    }

    /// A file whose sites are to be known: once.
    pub fn look_at(&mut self, file: File) {
        let Ok(meta) = file.metadata() else { return };
        let key = mappings::key_of(&meta);
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        if !self.known.contains(&key) && self.work.try_send(Work::LookAt(file)).is_ok() {
            self.known.insert(key);
        }
    }
}
