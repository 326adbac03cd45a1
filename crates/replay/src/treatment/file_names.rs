//! Sets of files with a property that calls do not show, such as unknown bytes, and their names.

use std::collections::BTreeMap;
use syscalls::Act;

/// Most bytes of names kept, and the overhead counted for each name.
const NAMES_BYTES_MAX: usize = 16 << 20;
const NAME_BYTES: usize = 64;

/// All names of such files.
#[derive(Default)]
pub struct FileNames {
    /// All names that they ever had, as descriptors keep old ones, and whether each still exists.
    paths: BTreeMap<Vec<u8>, bool>,
    bytes: usize,
}

impl FileNames {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// Whether a path is or was one of their names.
    pub fn has(&self, path: &[u8]) -> bool {
        self.paths.contains_key(path)
    }

    /// Whether a path is currently one of their names.
    pub fn has_now(&self, path: &[u8]) -> bool {
        self.paths.get(path) == Some(&true)
    }

    /// Removes a file from the set.
    pub fn forget(&mut self, path: &[u8]) {
        if let Some(there) = self.paths.get_mut(path) {
            *there = false;
        }
    }

    /// Adds a file. Returns whether it is new.
    pub fn add(&mut self, path: &[u8]) -> bool {
        if let Some(there) = self.paths.get_mut(path) {
            *there = true;
            return false;
        }
        if self.is_full() {
            return false;
        }
        self.bytes += path.len() + NAME_BYTES;
        self.paths.insert(path.to_vec(), true);
        true
    }

    fn is_full(&self) -> bool {
        self.bytes >= NAMES_BYTES_MAX
    }

    /// A name and everything below it was removed.
    pub fn gone(&mut self, path: &[u8]) {
        let below = [path, b"/"].concat();
        self.forget(path);
        let names = self.paths.range_mut(below.clone()..);
        names
            .take_while(|(path, _)| path.starts_with(&below))
            .for_each(|(_, there)| *there = false);
    }

    /// Updates the names after a call that changed names. Returns whether a name is new.
    pub fn learn_names(&mut self, act: Act, exchanges: bool, paths: &[(u8, Vec<u8>)]) -> bool {
        match (act, paths) {
            (Act::Remove | Act::RemoveDirectory, [(_, path)]) => {
                self.gone(path);
                false
            }
            (Act::Rename, [(_, a), (_, b)]) if exchanges => {
                self.also_named(a, b) | self.also_named(b, a)
            }
            (Act::Rename, [(_, from), (_, to)]) if from != to => {
                self.gone(to);
                let new = self.also_named(from, to);
                self.gone(from);
                new
            }
            (Act::HardLink, [(_, from), (_, to)]) => self.also_named(from, to),
            _ => false,
        }
    }

    /// Returns the current names.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.paths.iter().filter(|(_, there)| **there).map(|(path, _)| &path[..])
    }

    /// Files at or below `from` get a name at `to` as well. Returns whether a name is new.
    pub fn also_named(&mut self, from: &[u8], to: &[u8]) -> bool {
        if self.is_full() {
            return false;
        }
        let mut new = self.paths.get(from) == Some(&true) && self.add(to);
        let below = [from, b"/"].concat();
        let names = self.paths.range(below.clone()..);
        let names = names.take_while(|(path, _)| path.starts_with(&below));
        let there = names.filter(|(_, there)| **there);
        let names: Vec<_> = there.map(|(path, _)| [to, &path[from.len()..]].concat()).collect();
        for name in names {
            new |= self.add(&name);
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kept_track_of() {
        let mut files = FileNames::default();
        assert!(
            files.add(b"/a/x") && files.add(b"/a/b/y") && files.add(b"/ab") && !files.add(b"/ab")
        );
        assert!(files.also_named(b"/a", b"/c") && !files.also_named(b"/a", b"/c"));
        assert!(files.has(b"/c/x") && files.has(b"/c/b/y") && files.has(b"/a/x"));
        assert!(!files.has(b"/c") && !files.has(b"/cb") && !files.has(b"/c/b"));
        assert!(files.also_named(b"/ab", b"/z") && files.has(b"/z"));
        assert!(!files.also_named(b"/none", b"/some") && !files.has(b"/some"));
        files.gone(b"/a");
        assert_eq!(files.names().collect::<Vec<_>>(), [&b"/ab"[..], b"/c/b/y", b"/c/x", b"/z"]);
        assert!(files.has(b"/a/x") && !files.add(b"/a/x"));
        assert_eq!(files.names().next(), Some(&b"/a/x"[..]));
    }

    #[test]
    fn no_more_is_remembered_than_there_is_room() {
        let mut files = FileNames::default();
        files.add(b"/d/x");
        let long = [&b"/"[..], &[b'a'; 4000]].concat();
        for n in 0..20_000 {
            files.also_named(b"/d", &[&long[..], n.to_string().as_bytes()].concat());
        }
        assert!(files.bytes < NAMES_BYTES_MAX + 8192 && files.paths.len() < 5000);
    }
}
