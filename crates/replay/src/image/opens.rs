//! Open files with their offsets.

use std::collections::BTreeMap;

use model::{OpenId, World};

use super::tree::NodeId;

/// An open file.
#[derive(Debug)]
pub struct Open {
    pub node: NodeId,
    /// Offset of the next read or write.
    pub offset: u64,
    /// `O_APPEND`.
    pub append: bool,
    /// Time until which, and thread by which, a call may still move the offset.
    pub busy: (u64, u32),
    /// How many of the model's open files it is.
    shares: usize,
}

/// All open files, by the model's ids.
#[derive(Debug, Default)]
pub struct Opens {
    all: BTreeMap<OpenId, Open>,
    /// Open files of the model that are one with another.
    shared: BTreeMap<OpenId, OpenId>,
}

impl Opens {
    /// Adds an open file.
    pub fn add(&mut self, id: OpenId, node: NodeId, offset: u64, append: bool) {
        self.closed(id);
        self.all.insert(id, Open { node, offset, append, busy: (0, 0), shares: 1 });
    }

    /// What the model takes for an open file of its own turned out to be a known one.
    pub fn share(&mut self, id: OpenId, known: OpenId) {
        if let Some(open) = self.all.get_mut(&known) {
            open.shares += 1;
            self.shared.insert(id, known);
        }
    }

    /// Nobody has an open file of the model open any more.
    pub fn closed(&mut self, id: OpenId) {
        let id = self.shared.remove(&id).unwrap_or(id);
        if let Some(open) = self.all.get_mut(&id) {
            open.shares -= 1;
            if open.shares == 0 {
                self.all.remove(&id);
            }
        }
    }

    fn known(&self, id: OpenId) -> OpenId {
        self.shared.get(&id).copied().unwrap_or(id)
    }

    pub fn get_mut(&mut self, id: OpenId) -> Option<&mut Open> {
        let id = self.known(id);
        self.all.get_mut(&id)
    }

    pub fn get(&self, id: OpenId) -> Option<&Open> {
        self.all.get(&self.known(id))
    }

    /// The file behind a descriptor of a thread.
    pub fn behind(&self, world: &World, thread: u32, fd: i32) -> Option<NodeId> {
        let table = world.descriptors(thread)?;
        Some(self.get(table.get(fd)?.description.id())?.node)
    }
}
