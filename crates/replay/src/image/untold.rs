//! Files whose bytes were read but not stored completely, and which the image lacks too: reading
//! them again may return filler.

use std::collections::{HashMap, HashSet};

use super::tree::{NodeId, Tree};

/// Most bytes of paths kept.
const PATH_BYTES_MAX: usize = 64 << 20;

/// Names under which files were open when bytes were read but not stored.
#[derive(Debug, Default)]
pub struct Untold {
    /// By the file whose initial bytes they were.
    readers: HashMap<NodeId, HashSet<Vec<u8>>>,
    bytes: usize,
}

impl Untold {
    /// Notes that initial bytes of a file were read through this name, but not stored.
    pub fn note(&mut self, owner: NodeId, path: &[u8]) {
        let paths = self.readers.entry(owner).or_default();
        if !paths.contains(path) && self.bytes < PATH_BYTES_MAX {
            self.bytes += path.len();
            paths.insert(path.to_vec());
        }
    }

    /// Returns the names for files whose bytes are incomplete in the image.
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
