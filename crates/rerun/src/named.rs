//! Files that the trace names once, and later tells by their identity.

use std::collections::HashMap;

use model::loaded::Loaded;
use trace::event::Call;

/// The argument of mmap that says which file is mapped.
const FD_ARG: u8 = 4;

/// Maximum number of states of files that are remembered.
const NAMED_MAX: usize = 1 << 16;

/// Programs and libraries that the trace has named, by device and inode, size, and time of the last write.
/// Of each later mapping of one it has that identity alone.
#[derive(Default)]
pub(crate) struct Named(HashMap<((u64, u64), u64, i64), Loaded>);

impl Named {
    /// Notes a file as it is from here on.
    pub fn note(&mut self, loaded: &Loaded) {
        if loaded.content.is_none() && self.0.len() < NAMED_MAX {
            self.0.insert((loaded.inode, loaded.size, loaded.mtime_ns), loaded.clone());
        }
    }

    /// The file that a call maps, if it has been named before.
    pub fn of(&self, call: &Call) -> Option<Loaded> {
        let (_, identity) = call.identities.iter().find(|(arg, _)| *arg == FD_ARG)?;
        let key = ((identity.dev, identity.ino), identity.size, identity.mtime_ns);
        self.0.get(&key).map(|loaded| Loaded { offset: call.args[5], ..loaded.clone() })
    }
}
