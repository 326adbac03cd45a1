//! The set of changed paths.

use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;

use crate::rights;

/// Maximum number of paths in a manifest ...
pub(crate) const PATHS_MAX: usize = 500_000;
/// ... and of bytes in them together.
const PATH_BYTES_MAX: usize = 64 << 20;
/// Maximum number of shared mappings and of renames that are remembered.
const REMEMBERED_MAX: usize = 1 << 16;
/// Maximum number of renames followed from the name under which a file was opened.
const RENAMES_MAX: usize = 16;

/// Properties of a changed path.
pub(crate) mod mark {
    /// All contents of the file were written by the program.
    pub const FRESH: u8 = 1;
    /// It had another name before: all paths below it have changed.
    pub const MOVED: u8 = 2;
    /// If it is a symbolic link, the file that it leads to was changed.
    pub const THROUGH: u8 = 4;
    /// It was changed at all.
    pub const TOUCHED: u8 = 8;
}

/// Marks that move with a file to its new name.
const STAYS: u8 = mark::FRESH | mark::THROUGH;

/// A changed path, its marks, and the user whose rights are used to look at it.
pub(crate) type Changed = (Box<[u8]>, u8, u32);

/// Changed paths.
#[derive(Default)]
pub(crate) struct Paths {
    /// The user whose changes are being noted.
    pub user: u32,
    /// Marks and user of each path.
    marks: HashMap<Box<[u8]>, (u8, u32)>,
    bytes: usize,
    /// Paths of files written through shared mappings.
    mapped: BTreeSet<Box<[u8]>>,
    /// Former names of renamed files, and the name each was changed to.
    renames: HashMap<Box<[u8]>, Box<[u8]>>,
    /// Whether the path touched last had been touched before.
    touched_before: bool,
    /// Set when paths were dropped at a limit.
    pub truncated: bool,
    /// Number of changes left out: in other roots and mount namespaces.
    pub left_out: u64,
}

impl Paths {
    /// Notes that a path was changed.
    pub fn touch(&mut self, path: &[u8]) {
        let known = self.marks.get_mut(path);
        self.touched_before = known.is_some();
        if let Some((_, user)) = known {
            *user = rights::lesser(*user, self.user);
            return;
        }
        if self.marks.len() >= PATHS_MAX || self.bytes + path.len() > PATH_BYTES_MAX {
            self.truncated = true;
            return;
        }
        self.bytes += path.len();
        self.marks.insert(path.into(), (0, self.user));
    }

    /// Whether the path touched last had been touched before.
    pub fn was_touched(&self) -> bool {
        self.touched_before
    }

    /// Adds a mark to a touched path.
    pub fn mark(&mut self, path: &[u8], mark: u8) {
        if let Some((marks, _)) = self.marks.get_mut(path) {
            *marks |= mark;
        }
    }

    /// Notes that a name was removed.
    pub fn removed(&mut self, path: &[u8]) {
        self.take_marks(path);
        self.mapped.remove(path);
    }

    /// Notes a rename. The file that had the new name is gone.
    pub fn renamed(&mut self, from: &[u8], to: &[u8]) {
        if from == to {
            return;
        }
        let marks = self.take_marks(from);
        self.take_marks(to);
        self.mark(to, marks & STAYS | mark::MOVED);
        self.mapped.remove(to);
        self.mapped_too(from, to);
        self.mapped.remove(from);
        if self.renames.len() < REMEMBERED_MAX {
            self.renames.insert(from.into(), to.into());
        }
    }

    /// Notes that two files have swapped names.
    pub fn exchanged(&mut self, one: &[u8], other: &[u8]) {
        let (marks, others) = (self.take_marks(one), self.take_marks(other));
        self.mark(one, others & STAYS | mark::MOVED);
        self.mark(other, marks & STAYS | mark::MOVED);
        self.mapped_too(one, other);
        self.mapped_too(other, one);
    }

    /// Notes another name of a file.
    pub fn linked(&mut self, from: Option<&[u8]>, to: &[u8]) {
        self.take_marks(to);
        if let Some(from) = from {
            self.touch(from);
            let marks = self.marks.get(from).map_or(0, |(marks, _)| *marks);
            self.mark(to, marks & STAYS);
            self.mapped_too(from, to);
        }
    }

    /// Notes a mapping through which a file can be changed without a call.
    pub fn mapped(&mut self, path: &[u8]) {
        let mut name: Box<[u8]> = path.into();
        for _ in 0..RENAMES_MAX {
            self.touch(&name);
            if self.mapped.len() >= REMEMBERED_MAX {
                self.truncated = true;
            } else {
                self.mapped.insert(name.clone());
            }
            match self.renames.get(&name) {
                Some(next) => name = next.clone(),
                None => break,
            }
        }
    }

    /// The marks of a path; 0 if it was not changed.
    pub fn marks(&self, path: &[u8]) -> u8 {
        self.marks.get(path).map_or(0, |(marks, _)| marks | mark::TOUCHED)
    }

    /// The current name of a file that had this name.
    pub fn last_name(&self, path: &[u8]) -> Box<[u8]> {
        let mut name = path;
        for _ in 0..RENAMES_MAX {
            match self.renames.get(name) {
                Some(next) => name = next,
                None => break,
            }
        }
        name.into()
    }

    /// Whether a file was changed through a mapping.
    pub fn is_mapped(&self, path: &[u8]) -> bool {
        self.mapped.contains(path)
    }

    /// Takes all paths.
    pub fn take(&mut self) -> Vec<Changed> {
        self.marks.drain().map(|(path, (marks, user))| (path, marks, user)).collect()
    }

    fn take_marks(&mut self, path: &[u8]) -> u8 {
        self.touch(path);
        self.marks.get_mut(path).map_or(0, |(marks, _)| std::mem::take(marks))
    }

    /// Copies mapped paths at or below one name to another name.
    fn mapped_too(&mut self, from: &[u8], to: &[u8]) {
        let mut found = Vec::new();
        let start = (Bound::Included(from), Bound::Unbounded);
        for path in self.mapped.range::<[u8], _>(start) {
            let Some(rest) = path.strip_prefix(from) else { break };
            if rest.is_empty() || rest[0] == b'/' {
                found.push([to, rest].concat().into_boxed_slice());
            }
        }
        let room = REMEMBERED_MAX.saturating_sub(self.mapped.len());
        self.truncated |= found.len() > room;
        self.mapped.extend(found.into_iter().take(room));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(paths: &Paths, path: &[u8]) -> Option<u8> {
        paths.marks.get(path).map(|(marks, _)| *marks)
    }

    #[test]
    fn marks_go_with_the_file() {
        let mut paths = Paths::default();
        paths.touch(b"/a");
        paths.mark(b"/a", mark::FRESH);
        paths.renamed(b"/a", b"/b");
        assert_eq!(marks(&paths, b"/a"), Some(0));
        assert_eq!(marks(&paths, b"/b"), Some(mark::FRESH | mark::MOVED));
        paths.linked(Some(b"/b"), b"/c");
        assert_eq!(marks(&paths, b"/c"), Some(mark::FRESH));
        paths.touch(b"/old");
        paths.exchanged(b"/old", b"/c");
        assert_eq!(marks(&paths, b"/old"), Some(mark::FRESH | mark::MOVED));
        assert_eq!(marks(&paths, b"/c"), Some(mark::MOVED));
        paths.removed(b"/old");
        assert_eq!(marks(&paths, b"/old"), Some(0));
    }

    #[test]
    fn mappings_follow_renames_in_either_order() {
        let mut paths = Paths::default();
        paths.mapped(b"/dir/a");
        paths.mapped(b"/dir2");
        paths.renamed(b"/dir", b"/new");
        assert!(paths.is_mapped(b"/new/a") && !paths.is_mapped(b"/new2"));
        paths.renamed(b"/x", b"/y");
        paths.mapped(b"/x");
        assert!(paths.is_mapped(b"/y"));
        paths.removed(b"/y");
        assert!(!paths.is_mapped(b"/y"));
    }

    #[test]
    fn more_paths_than_are_kept() {
        let mut paths = Paths::default();
        for number in 0..PATHS_MAX + 10 {
            paths.touch(format!("/{number}").as_bytes());
        }
        assert!(paths.truncated);
        assert_eq!(paths.take().len(), PATHS_MAX);
    }
}
