//! Files from which bytes were read that the trace does not hold in full, and of which the image
//! does not have all bytes either: what is read from them again may be filler.

use std::collections::{HashMap, HashSet};

use super::tree::{NodeId, Tree};

/// Bytes of paths that are kept.
const PATH_BYTES_MAX: usize = 64 << 20;

/// The names under which files were open as bytes of theirs were read and not stored.
#[derive(Debug, Default)]
pub struct Untold {
    /// By the file whose bytes they were at first.
    readers: HashMap<NodeId, HashSet<Vec<u8>>>,
    bytes: usize,
}

impl Untold {
    /// Bytes that were a file's at first were read through this name, and not stored.
    pub fn note(&mut self, owner: NodeId, path: &[u8]) {
        let paths = self.readers.entry(owner).or_default();
        if !paths.contains(path) && self.bytes < PATH_BYTES_MAX {
            self.bytes += path.len();
            paths.insert(path.to_vec());
        }
    }

    /// The names of those of which the image lacks bytes: no other call told them.
    pub fn paths(self, tree: &Tree) -> HashSet<Vec<u8>> {
        let lacking = self.readers.into_iter().filter(|(owner, _)| lacks_bytes(tree, *owner));
        lacking.flat_map(|(_, paths)| paths).collect()
    }
}

fn lacks_bytes(tree: &Tree, id: NodeId) -> bool {
    let node = tree.node(tree.find(id));
    let Some(content) = node.content.as_deref() else { return node.initial };
    node.initial && !content.seen.missing(0..content.size_at_first()).is_empty()
}
