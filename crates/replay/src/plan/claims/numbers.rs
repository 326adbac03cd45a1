//! What a call does to the numbers of its descriptor table.

use model::{DescriptorTable, Step};

/// Most closed numbers of one call that are followed.
pub const CLOSED_MAX: usize = 1024;

/// A number that was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed {
    /// The number.
    pub fd: i32,
    /// An exec would have closed it as well.
    pub close_on_exec: bool,
}

/// What a call does to the numbers of its descriptor table.
#[derive(Debug, Default)]
pub struct Numbers {
    /// Numbers that it closes.
    pub closes: Vec<Closed>,
    /// Numbers that it opens.
    pub gives: Vec<i32>,
    /// The order's clock when it began.
    pub began: u64,
}

impl Numbers {
    /// Effects of a call, computed before they are applied; `None` if there are none.
    pub fn of(step: &Step, table: &DescriptorTable) -> Option<Numbers> {
        if !step.changes() {
            return None;
        }
        // Replacing a descriptor closes the old one.
        let replaces = step.gives().map(|(fd, _)| (fd as u32, fd as u32));
        let closes = step
            .closes()
            .chain(replaces)
            .flat_map(|(first, last)| table.within(first, last))
            .take(CLOSED_MAX)
            .map(|(fd, entry)| Closed { fd, close_on_exec: entry.close_on_exec })
            .collect::<Vec<_>>();
        let gives: Vec<i32> = step.gives().map(|(fd, _)| fd).collect();
        let any = !(closes.is_empty() && gives.is_empty());
        any.then_some(Numbers { closes, gives, ..Numbers::default() })
    }

    /// Whether it opens a number that the other call frees.
    pub fn take_over(&self, other: &Numbers) -> bool {
        let frees = |fd: i32| other.closes.iter().any(|number| number.fd == fd);
        self.gives.iter().any(|fd| frees(*fd) && !other.gives.contains(fd))
    }
}
