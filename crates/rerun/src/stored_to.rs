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
    /// Mappings are copied (mremap of a length of 0), which takes shared ones: then none is told from others.
    are_copied: bool,
}

impl StoredTo {
    /// Whether a file is one of them.
    pub(crate) fn has(&self, (_, inode): (u64, u64)) -> bool {
        self.are_copied || self.inodes.contains(&inode) || self.inodes.len() >= FILES_MAX
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
        } else if let EventKind::Call(call) = &event.kind {
            match by_number(call.nr.into()).map(|row| row.handler) {
                Some(Handler::Map) => {
                    let inode = self.about_to_map.remove(&event.thread);
                    let is_stored_to = call.args[2] & PROT_WRITE != 0 && is_shared(&call.args);
                    inode.into_iter().filter(|_| is_stored_to).for_each(|inode| self.add(inode));
                }
                Some(Handler::Remap) => self.are_copied |= call.args[1] == 0,
                _ => {}
            }
        }
    }

    fn add(&mut self, inode: u64) {
        if self.inodes.len() < FILES_MAX {
            self.inodes.insert(inode);
        }
    }
}
