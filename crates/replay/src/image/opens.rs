//! Open files with their offsets.

use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

use model::Description;

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
    descriptions: Vec<Weak<Description>>,
}

/// All open files, by the mark in their descriptions.
#[derive(Debug, Default)]
pub struct Opens {
    all: BTreeMap<u64, Open>,
    marks: u64,
    /// Number of entries that triggers the next removal of closed ones.
    room: usize,
}

/// Least number of entries before closed ones are removed.
const ROOM_MIN: usize = 1024;

impl Opens {
    /// Adds an open file.
    pub fn add(&mut self, description: &Rc<Description>, node: NodeId, offset: u64, append: bool) {
        self.marks += 1;
        description.mark.set(self.marks);
        let descriptions = vec![Rc::downgrade(description)];
        let open = Open { node, offset, append, busy: (0, 0), descriptions };
        self.all.insert(self.marks, open);
        if self.all.len() > self.room.max(ROOM_MIN) {
            let is_open = |open: &Open| open.descriptions.iter().any(|d| d.strong_count() > 0);
            self.all.retain(|_, open| is_open(open));
            self.room = self.all.len() * 2;
        }
    }

    /// A description turned out to belong to a known open file.
    pub fn share(&mut self, description: &Rc<Description>, mark: u64) {
        if let Some(open) = self.all.get_mut(&mark) {
            description.mark.set(mark);
            open.descriptions.push(Rc::downgrade(description));
        }
    }

    /// Returns the open file with a mark; 0 marks none.
    pub fn get_mut(&mut self, mark: u64) -> Option<&mut Open> {
        self.all.get_mut(&mark)
    }

    pub fn get(&self, mark: u64) -> Option<&Open> {
        self.all.get(&mark)
    }
}
