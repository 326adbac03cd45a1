//! InFlight that were submitted and are not known to be completed, with what went into them.

use std::collections::{HashMap, VecDeque};

use trace::event::BlobId;

use super::stream::{Item, OpenCall};

/// Maximum number of operations that wait, and of bytes that are kept for them beside the trace.
const WAITING_MAX: usize = 256 << 10;
const KEPT_BYTES_MAX: usize = 256 << 20;

/// Who may speak of an operation, and its number.
pub(crate) type Key = (u32, u64);

/// An operation, and the memory that went in.
#[derive(Default)]
pub(crate) struct Waiting {
    pub(super) call: Option<OpenCall>,
    pub process: u32,
    pub(super) items: Vec<Item>,
    pub inline: Vec<u8>,
    pub ids: Vec<BlobId>,
}

impl Waiting {
    fn bytes(&self) -> usize {
        let items = self.items.len() * size_of::<Item>();
        size_of::<Waiting>() + items + self.inline.len() + self.ids.len() * size_of::<BlobId>()
    }
}

/// All operations of a recording that wait.
#[derive(Default)]
pub(crate) struct InFlight {
    waiting: HashMap<Key, Waiting>,
    bytes: usize,
}

impl InFlight {
    pub fn add(&mut self, key: Key, waiting: Waiting) {
        if self.waiting.len() >= WAITING_MAX || self.bytes >= KEPT_BYTES_MAX {
            return;
        }
        self.take(key);
        self.bytes += waiting.bytes();
        self.waiting.insert(key, waiting);
    }

    pub fn take(&mut self, key: Key) -> Option<Waiting> {
        let waiting = self.waiting.remove(&key)?;
        self.bytes -= waiting.bytes();
        Some(waiting)
    }

    pub fn has(&self, key: Key) -> bool {
        self.waiting.contains_key(&key)
    }

    /// Takes those of a process, in the order in which they were submitted.
    pub fn of_process(&mut self, user: u32, process: u32) -> VecDeque<Waiting> {
        let of_it = |(key, waiting): (&Key, &Waiting)| {
            (key.0 == user && waiting.process == process).then_some(*key)
        };
        let mut keys: Vec<Key> = self.waiting.iter().filter_map(of_it).collect();
        keys.sort_unstable();
        keys.into_iter().filter_map(|key| self.take(key)).collect()
    }
}
