//! Files to which the program stores by mappings.

use std::collections::{HashMap, HashSet};

use model::loaded::Loaded;
use model::mapped::Store;
use syscalls::abi::memory::PROT_WRITE;
use syscalls::{Handler, by_number};
use trace::event::{Event, EventKind};

use crate::answers::is_shared;

/// Maximum number of files that are told from others.
const FILES_MAX: usize = 1 << 20;

/// Their inodes. Devices are left out: not all parts of the kernel call a file system by the same number.
#[derive(Default)]
pub struct StoredTo {
    inodes: HashSet<u64>,
    /// What threads are about to map.
    about_to_map: HashMap<u32, u64>,
}

impl StoredTo {
    /// Whether a file is one of them.
    pub(crate) fn has(&self, (_, inode): (u64, u64)) -> bool {
        self.inodes.contains(&inode) || self.inodes.len() >= FILES_MAX
    }

    /// Learns from an event.
    pub(crate) fn event(&mut self, event: &Event) {
        if let Some(store) = Store::of(event) {
            if !store.is_read {
                self.add(store.inode.1);
            }
        } else if let Some(loaded) = Loaded::of_event(event) {
            if self.about_to_map.len() < FILES_MAX {
                self.about_to_map.insert(loaded.thread, loaded.inode.1);
            }
        } else if let EventKind::Call(call) = &event.kind
            && by_number(call.nr.into()).is_some_and(|row| row.handler == Handler::Map)
            && let Some(inode) = self.about_to_map.remove(&event.thread)
            && call.args[2] & PROT_WRITE != 0
            && is_shared(&call.args)
        {
            self.add(inode);
        }
    }

    fn add(&mut self, inode: u64) {
        if self.inodes.len() < FILES_MAX {
            self.inodes.insert(inode);
        }
    }
}
