//! Paths that have another name on the other side, as a user says.

use std::collections::BTreeMap;

use trace::manifest::Entry;

/// Limit for the renamed entries that are kept until the other side is read.
const RENAMED_MAX: usize = 100_000;

/// How paths begin on the first side, and how on the other; the first that fits counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Renames(pub Vec<(Vec<u8>, Vec<u8>)>);

impl Renames {
    /// Returns the name of a path on the other side, if it has another one.
    pub fn of(&self, path: &[u8]) -> Option<Vec<u8>> {
        let mut fitting = self.0.iter();
        fitting.find_map(|(from, to)| Some([to, path.strip_prefix(&from[..])?].concat()))
    }

    /// Returns the renames from the other side to the first one.
    pub fn reversed(&self) -> Renames {
        Renames(self.0.iter().map(|(from, to)| (to.clone(), from.clone())).collect())
    }

    /// Gives an entry, and where it leads to, their names on the other side. Returns true if the entry has
    /// another one.
    pub(super) fn apply(&self, entry: &mut Entry) -> bool {
        if let Some(target) = self.of(&entry.target) {
            entry.target = target;
        }
        match self.of(&entry.path) {
            Some(path) => {
                entry.path = path;
                true
            }
            None => false,
        }
    }
}

/// Entries of the first side with other names on the other one: they are in another order there.
#[derive(Default)]
pub(super) struct Moved {
    entries: BTreeMap<Vec<u8>, Entry>,
}

impl Moved {
    /// Keeps an entry until the other side has it. Returns false if there is no room.
    pub fn keep(&mut self, entry: Entry) -> bool {
        let has_room = self.entries.len() < RENAMED_MAX;
        if has_room {
            self.entries.insert(entry.path.clone(), entry);
        }
        has_room
    }

    /// Returns the entry of a path on the other side.
    pub fn take(&mut self, path: &[u8]) -> Option<Entry> {
        self.entries.remove(path)
    }

    /// Returns the paths that the other side does not have.
    pub fn left(self) -> impl Iterator<Item = Vec<u8>> {
        self.entries.into_keys()
    }
}
