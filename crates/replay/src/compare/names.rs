//! Which names belong to one file.

use std::collections::HashMap;

use files::Inode;
use trace::manifest::Entry;

use super::text;

/// What differs.
pub(super) const LINKS: &str = "links";
const SAME: &str = "same file";

/// Most files with several names that are followed.
const FILES_MAX: usize = 1 << 20;

/// A file that should have several names.
struct File {
    path: Vec<u8>,
    /// Names that were seen of it, and how many it should have.
    names: u64,
    expected: u64,
    found: u64,
}

/// Names of files on both sides.
#[derive(Default)]
pub(super) struct Names {
    files: HashMap<Inode, File>,
    /// Which file on the other side is which on this one.
    found_of: HashMap<Inode, Inode>,
    expected_of: HashMap<Inode, Inode>,
}

impl Names {
    /// Takes a name of a file, on both sides. Gives what differs, what should be and what is, if the
    /// name belongs to another file than it should.
    pub fn add(
        &mut self,
        expected: &Entry,
        expected_inode: Inode,
        found: &Entry,
        found_inode: Inode,
    ) -> Option<(&'static str, String, String)> {
        if expected.nlink <= 1 && found.nlink <= 1 {
            return None;
        }
        // A file with a single name has no number of its own in a manifest.
        let single = expected.nlink <= 1 && expected_inode == (0, 0);
        if single || self.files.len() >= FILES_MAX {
            let (should, is) = (expected.nlink, found.nlink);
            return (should != is).then(|| (LINKS, should.to_string(), is.to_string()));
        }
        let before = self.found_of.get(&expected_inode).copied();
        let other = self.expected_of.get(&found_inode).copied();
        let file = self.files.entry(expected_inode).or_insert_with(|| File {
            path: expected.path.clone(),
            names: 0,
            expected: expected.nlink,
            found: found.nlink,
        });
        file.names += 1;
        let first = text(&file.path);
        self.found_of.entry(expected_inode).or_insert(found_inode);
        self.expected_of.entry(found_inode).or_insert(expected_inode);
        if before.is_some_and(|before| before != found_inode) {
            return Some((SAME, format!("the same file as {first}"), "another file".into()));
        }
        match other.filter(|other| *other != expected_inode) {
            Some(other) => {
                let wrong = self.files.get(&other).map(|file| text(&file.path)).unwrap_or_default();
                Some((SAME, "another file".into(), format!("the same file as {wrong}")))
            }
            None => None,
        }
    }

    /// Paths of files with another number of links than they should have, where all names that
    /// they should have were seen.
    pub fn counts(self) -> Vec<(Vec<u8>, u64, u64)> {
        let all_seen = self.files.into_values().filter(|file| file.names == file.expected);
        let wrong = all_seen.filter(|file| file.expected != file.found);
        let mut wrong: Vec<_> = wrong.map(|file| (file.path, file.expected, file.found)).collect();
        wrong.sort_unstable();
        wrong
    }
}
