//! The thread that analyses executable files: nobody waits for it.

use std::collections::HashSet;
use std::fs::File;
use std::sync::mpsc::{SyncSender, sync_channel};

use ring::Arena;

use crate::{Error, mappings, modules, signals};

/// Files that wait; more are asked for again.
const WAITING_MAX: usize = 64;
/// Files that are remembered as handed over; then all are forgotten.
const KNOWN_MAX: usize = 4 * ring::MODULES_MAX;

/// Hands files over to the thread.
pub struct Analyst {
    files: SyncSender<File>,
    known: HashSet<[u64; 4]>,
}

impl Analyst {
    pub fn start(arena: Arena) -> Result<Analyst, Error> {
        let (files, queue) = sync_channel::<File>(WAITING_MAX);
        let work = move || {
            signals::leave_to_others();
            for file in queue {
                modules::add(&arena, &file);
            }
        };
        let thread = std::thread::Builder::new().name("analyst".into()).spawn(work);
        thread.map_err(|source| Error::System { what: "starting a thread".to_owned(), source })?;
        Ok(Analyst { files, known: HashSet::new() })
    }

    /// A file whose sites are to be known: once.
    pub fn look_at(&mut self, file: File) {
        let Ok(meta) = file.metadata() else { return };
        let key = mappings::key_of(&meta);
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        if !self.known.contains(&key) && self.files.try_send(file).is_ok() {
            self.known.insert(key);
        }
    }
}
