//! Names that overlapping calls changed, so that the files they refer to are unknown from then on.

use std::collections::BTreeSet;

/// Most bytes of names kept, and the overhead counted for each name.
const NAMES_BYTES_MAX: usize = 16 << 20;
const NAME_BYTES: usize = 64;

/// The set of contested names.
#[derive(Default)]
pub struct Contested {
    names: BTreeSet<Vec<u8>>,
    bytes: usize,
}

impl Contested {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Adds a name. Returns whether it is new.
    pub fn add(&mut self, name: &[u8]) -> bool {
        let is_new = self.bytes < NAMES_BYTES_MAX && !self.concern(name);
        if is_new {
            self.bytes += name.len() + NAME_BYTES;
            self.names.insert(name.to_vec());
        }
        is_new
    }

    /// Whether a path is one of them, or leads through one.
    pub fn concern(&self, path: &[u8]) -> bool {
        let slashes = path.iter().enumerate().skip(1).filter(|(_, byte)| **byte == b'/');
        let mut ends = slashes.map(|(end, _)| end).chain([path.len()]);
        !self.is_empty() && ends.any(|end| self.names.contains(&path[..end]))
    }

    /// Whether one of them is in a directory.
    pub fn any_in(&self, directory: &[u8]) -> bool {
        let below = [directory.strip_suffix(b"/").unwrap_or(directory), b"/"].concat();
        let next = self.names.range(below.clone()..).next();
        next.is_some_and(|name| name.starts_with(&below))
    }

    /// Returns all of them.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.names.iter().map(|name| &name[..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_below_a_name_is_in_doubt_with_it() {
        let mut contested = Contested::default();
        assert!(contested.add(b"/a/b") && !contested.add(b"/a/b") && !contested.add(b"/a/b/c"));
        for path in ["/a/b", "/a/b/c", "/a/b/c/d"] {
            assert!(contested.concern(path.as_bytes()), "{path}");
        }
        for path in ["/a", "/a/bc", "/", ""] {
            assert!(!contested.concern(path.as_bytes()), "{path}");
        }
        assert!(contested.any_in(b"/a") && contested.any_in(b"/") && !contested.any_in(b"/a/b"));
    }

    #[test]
    fn no_more_is_remembered_than_there_is_room() {
        let mut contested = Contested::default();
        let long = [&b"/"[..], &[b'a'; 4000]].concat();
        (0..20_000)
            .for_each(|n| _ = contested.add(&[&long[..], n.to_string().as_bytes()].concat()));
        assert!(contested.bytes < NAMES_BYTES_MAX + 8192);
    }
}
