//! Names that overlapping calls changed, so that the files they refer to are unknown from then on.

use std::collections::BTreeSet;

use model::DescriptorTable;
use syscalls::Act;
use trace::event::Call;

use super::{Judge, Said, files, is_directory_entries};

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

impl Judge {
    /// Adds a name that overlapping calls changed.
    pub fn is_contested(&mut self, name: &[u8]) {
        self.learnt += u64::from(self.contested.add(name));
    }

    /// Whether it is unknown which file is behind a path.
    pub fn may_be_another(&self, path: &[u8]) -> bool {
        self.contested.concern(path)
    }

    /// Returns all contested names.
    pub fn contested(&self) -> impl Iterator<Item = &[u8]> {
        self.contested.names()
    }

    /// Whether a call concerns or lists contested names. If so, names that it changes along with
    /// them become contested too.
    pub(super) fn has_contested(
        &mut self,
        said: &Said,
        call: &Call,
        table: &DescriptorTable,
        paths: &[(u8, Vec<u8>)],
    ) -> bool {
        if self.contested.is_empty() {
            return false;
        }
        let lists = said.args.iter().any(|arg| is_directory_entries(arg.kind));
        let is = |path: &[u8]| {
            let in_it = lists || matches!(said.act, Act::Remove | Act::RemoveDirectory);
            self.contested.concern(path) || in_it && self.contested.any_in(path)
        };
        let has = files(said, call, table).any(|file| is(&file.path))
            || paths.iter().any(|(_, path)| is(path));
        if has && matches!(said.act, Act::Rename | Act::HardLink | Act::RemoveDirectory) {
            paths.iter().for_each(|(_, path)| self.is_contested(path));
        }
        has
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
