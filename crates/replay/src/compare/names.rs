//! Tracks which names belong to one file.

use std::collections::HashMap;

use file_tree::Inode;
use trace::manifest::Entry;

use super::text::text;

/// Kinds of differences.
pub(super) const LINKS: &str = "links";
const SAME: &str = "same file";

/// Most files with several names that are tracked.
const FILES_MAX: usize = 1 << 20;

/// A file that should have several names.
struct File {
    path: Vec<u8>,
    /// Number of its names seen, expected and actual link count.
    names: u64,
    expected: u64,
    found: u64,
}

/// Names of files on both sides.
#[derive(Default)]
pub(super) struct Names {
    files: HashMap<Inode, File>,
    /// Maps files of one side to those of the other.
    found_of: HashMap<Inode, Inode>,
    expected_of: HashMap<Inode, Inode>,
}

impl Names {
    /// Adds a name of a file on both sides. If it belongs to another file than expected, returns
    /// the kind of difference, the expected and the actual value.
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
        // A manifest has no number for files with a single name.
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

    /// Returns paths of files with a wrong link count, if all their expected names were seen.
    pub fn counts(self) -> Vec<(Vec<u8>, u64, u64)> {
        let all_seen = self.files.into_values().filter(|file| file.names == file.expected);
        let wrong = all_seen.filter(|file| file.expected != file.found);
        let mut wrong: Vec<_> = wrong.map(|file| (file.path, file.expected, file.found)).collect();
        wrong.sort_unstable();
        wrong
    }
}
