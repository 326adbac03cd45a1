//! Comparison of two trees.

use std::iter::Peekable;
use std::vec::IntoIter;

use file_tree::{Tree, Want};
use trace::manifest::FileKind;

use super::{Comparison, FinalState, Scrutiny, all_seen};

/// Deepest directory that is entered.
const DEPTH_MAX: usize = 2048;

/// A directory with names left to compare.
struct Level {
    path: Vec<u8>,
    expected: Peekable<IntoIter<Vec<u8>>>,
    found: Peekable<IntoIter<Vec<u8>>>,
}

/// Compares two trees; the first one is expected.
pub fn trees(expected: &Tree, found: &Tree, scrutiny: Scrutiny) -> FinalState {
    let mut comparison = Comparison::new(scrutiny);
    let root = expected.look(b"/", Want::Attributes);
    comparison.with_tree(&root.entry, Some(root.inode), found, &all_seen);
    let mut levels = vec![level(expected, found, Vec::new(), &mut comparison)];
    while let Some(level_now) = levels.last_mut() {
        let Some(name) = level_now.next() else {
            levels.pop();
            continue;
        };
        let path = [&level_now.path[..], b"/", &name].concat();
        let should = expected.look(&path, Want::Attributes);
        if should.entry.kind == FileKind::Regular {
            let should = expected.look(&path, Want::Pieces(0));
            comparison.with_tree(&should.entry, Some(should.inode), found, &all_seen);
            continue;
        }
        comparison.with_tree(&should.entry, Some(should.inode), found, &all_seen);
        let both = |tree: &Tree| tree.look(&path, Want::Nothing).entry.kind == FileKind::Directory;
        if should.entry.kind == FileKind::Directory && both(found) {
            match levels.len() < DEPTH_MAX {
                true => levels.push(level(expected, found, path, &mut comparison)),
                false => comparison.unverified(&path, "it is too deep to be gone into"),
            }
        }
    }
    comparison.finish()
}

fn level(expected: &Tree, found: &Tree, path: Vec<u8>, comparison: &mut Comparison) -> Level {
    let (should, is) = (expected.names(&path), found.names(&path));
    if should.is_none() || is.is_none() {
        let place = if path.is_empty() { b"/" } else { &path[..] };
        comparison.unverified(place, "the names in it could not be read");
        return Level { path, expected: names(Vec::new()), found: names(Vec::new()) };
    }
    let (expected, found) = (names(should.unwrap_or_default()), names(is.unwrap_or_default()));
    Level { path, expected, found }
}

fn names(names: Vec<Vec<u8>>) -> Peekable<IntoIter<Vec<u8>>> {
    names.into_iter().peekable()
}

impl Level {
    /// Returns the next name that is in either tree.
    fn next(&mut self) -> Option<Vec<u8>> {
        match (self.expected.peek(), self.found.peek()) {
            (Some(a), Some(b)) if a == b => {
                self.found.next();
                self.expected.next()
            }
            (Some(a), Some(b)) if a > b => self.found.next(),
            (Some(_), _) => self.expected.next(),
            (None, _) => self.found.next(),
        }
    }
}
