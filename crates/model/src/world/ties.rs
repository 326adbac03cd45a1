//! What ties processes to others: parents, process groups and sessions.

use syscalls::abi::tasks::{CLONE_NEWPID, CLONE_PARENT};

/// Parent, process group and session of a process, by the ids that the process sees; each is `None`
/// while it is unknown, and 0 if it is outside of the process's namespace of ids.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ties {
    /// Id of the parent.
    pub parent: Option<u32>,
    /// Id of the process group.
    pub group: Option<u32>,
    /// Id of the session.
    pub session: Option<u32>,
    /// Number of the parent, if it is recorded. When it has ended, the parent is another process.
    pub(super) parent_number: Option<u32>,
}

impl Ties {
    /// Ties of the first process of a namespace of ids: all others are outside.
    const FIRST: Ties =
        Ties { parent: Some(0), group: Some(0), session: Some(0), parent_number: None };

    /// Returns true if it is the first process of a namespace of ids.
    pub(super) fn is_first(&self) -> bool {
        *self == Ties::FIRST
    }
}

/// A change of ties, or what a call says about them. `of` is the id of a process, 0 for the caller.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TiesChange {
    /// A process is in this group.
    Group { of: u32, group: u32 },
    /// A process is in this session.
    Session { of: u32, session: u32 },
    /// The caller leads a new session and a group, both with its id.
    NewSession { id: u32 },
    /// The caller has this parent.
    Parent { id: u32 },
}

impl Ties {
    /// Returns the ties of a process that a maker with these ties creates, by the maker's id and
    /// number and the flags of clone.
    pub(super) fn of_child(self, maker: u32, number: u32, flags: u64) -> Ties {
        if flags & CLONE_NEWPID != 0 {
            return Ties::FIRST;
        }
        match flags & CLONE_PARENT {
            0 => Ties { parent: Some(maker), parent_number: Some(number), ..self },
            _ => self,
        }
    }
}
