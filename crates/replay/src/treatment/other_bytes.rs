//! Files that hold bytes which no call tells: stores to memory changed them, or filler was written to
//! them. What is read of them, when it comes out otherwise, proves nothing, under whatever name.

use std::collections::BTreeSet;

/// Bytes of names that are remembered.
const NAMES_BYTES_MAX: usize = 16 << 20;

/// Their names.
#[derive(Default)]
pub struct OtherBytes {
    paths: BTreeSet<Vec<u8>>,
    bytes: usize,
}

impl OtherBytes {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// Whether a file is one.
    pub fn has(&self, path: &[u8]) -> bool {
        self.paths.contains(path)
    }

    /// Takes note of one. Whether that is new.
    pub fn add(&mut self, path: &[u8]) -> bool {
        if self.has(path) || self.bytes + path.len() > NAMES_BYTES_MAX {
            return false;
        }
        self.bytes += path.len();
        self.paths.insert(path.to_vec())
    }

    /// The names of all of them.
    pub fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.paths.iter().map(|path| &path[..])
    }

    /// What had a name has another one, with all that is below. (It keeps the old one here: who has
    /// it open knows it by that.) Whether that is new of any of them.
    pub fn also_named(&mut self, from: &[u8], to: &[u8]) -> bool {
        let mut new = self.has(from) && self.add(to);
        let below = [from, b"/"].concat();
        let names = self.paths.range(below.clone()..).take_while(|path| path.starts_with(&below));
        let names: Vec<_> = names.map(|path| [to, &path[from.len()..]].concat()).collect();
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
        let mut files = OtherBytes::default();
        assert!(
            files.add(b"/a/x") && files.add(b"/a/b/y") && files.add(b"/ab") && !files.add(b"/ab")
        );
        assert!(files.also_named(b"/a", b"/c") && !files.also_named(b"/a", b"/c"));
        assert!(files.has(b"/c/x") && files.has(b"/c/b/y") && files.has(b"/a/x"));
        assert!(!files.has(b"/c") && !files.has(b"/cb") && !files.has(b"/c/b"));
        assert!(files.also_named(b"/ab", b"/z") && files.has(b"/z"));
        assert!(!files.also_named(b"/none", b"/some") && !files.has(b"/some"));
    }

    #[test]
    fn no_more_is_remembered_than_there_is_room() {
        let mut files = OtherBytes::default();
        files.add(b"/d/x");
        let long = [&b"/"[..], &[b'a'; 4000]].concat();
        for n in 0..20_000 {
            files.also_named(b"/d", &[&long[..], n.to_string().as_bytes()].concat());
        }
        assert!(files.bytes <= NAMES_BYTES_MAX && files.paths.len() < 5000);
    }
}
