//! Resolves paths to files, component by component, through links as far as they are known.

use super::tree::{DEPTH_MAX, Entry, NodeId, NodeKind, Spot, TooMany, Tree};

/// Most links followed in one path, as in the kernel.
const LINKS_MAX: usize = 40;
/// Most components followed in one path.
const COMPONENTS_MAX: usize = 8192;

/// Options of a walk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Walk {
    /// Start of absolute paths and links.
    pub root: NodeId,
    /// Follow a final link.
    pub follow: bool,
    /// Everything on the way exists: the call succeeded, or failed for a reason at the end of the
    /// path.
    pub is_there: bool,
    /// The kernel reported the path: it contains no links.
    pub canonical: bool,
}

impl Tree {
    /// Resolves a path, relative to a directory. `None` if that is unknown.
    pub fn walk(&mut self, base: NodeId, path: &[u8], how: Walk) -> Result<Option<Spot>, TooMany> {
        let mut at = self.find(if path.first() == Some(&b'/') { how.root } else { base });
        let mut needs_directory = is_directory(path);
        // Components left, the last one first.
        let mut left: Vec<Vec<u8>> = components(path);
        let (mut links, mut steps) = (0, 0);
        while let Some(name) = left.pop() {
            steps += 1;
            if steps > COMPONENTS_MAX {
                return Ok(None);
            }
            self.set_kind(at, NodeKind::Directory);
            if name == b".." {
                at = if at == self.find(how.root) { at } else { self.parent(at) };
                continue;
            }
            match self.directory(at) {
                Some(directory) if directory.depth > DEPTH_MAX => {
                    self.too_deep += u64::from(self.node(at).initial);
                    return Ok(None);
                }
                Some(_) => {}
                None => return Ok(None),
            }
            let is_last = left.is_empty();
            let spot = Spot::named(at, &name);
            let spot = Spot { is_directory: is_last && needs_directory && how.is_there, ..spot };
            let node = match self.entry(at, &spot.name) {
                Some(Entry::There(node)) => Some(node),
                _ => None,
            };
            if is_last
                && !(node.is_some_and(|n| self.is_link(n)) && (how.follow || needs_directory))
            {
                return Ok(Some(Spot { node, ..spot }));
            }
            let node = match node {
                Some(node) => node,
                None if how.is_there => self.there(&spot, NodeKind::Directory, false)?,
                None => return Ok(None),
            };
            let node = if how.canonical { self.is_no_link(node) } else { node };
            if !self.is_link(node) {
                at = node;
                continue;
            }
            links += 1;
            if links > LINKS_MAX {
                return Ok(None);
            }
            match self.node(node).target.clone() {
                Some(target) => {
                    if target.first() == Some(&b'/') {
                        at = self.find(how.root);
                    }
                    needs_directory |= is_last && is_directory(&target);
                    left.extend(components(&target));
                }
                None => {
                    let beyond = self.beyond(node)?;
                    if is_last {
                        return Ok(Some(Spot { directory: None, node: Some(beyond), ..spot }));
                    }
                    at = beyond;
                }
            }
        }
        Ok(Some(Spot::of(at)))
    }

    fn is_link(&self, id: NodeId) -> bool {
        self.node(id).kind == NodeKind::Link
    }

    fn parent(&self, id: NodeId) -> NodeId {
        self.node(id).home.as_ref().map_or(NodeId::ROOT, |(home, _)| self.find(*home))
    }

    /// Returns the file behind a link of unknown target.
    fn beyond(&mut self, link: NodeId) -> Result<NodeId, TooMany> {
        if let Some(node) = self.node(link).through {
            return Ok(self.find(node));
        }
        let initial = self.node(link).initial;
        let node = self.add(NodeKind::Unknown, initial)?;
        self.node_mut(link).through = Some(node);
        Ok(node)
    }
}

/// Whether a path requires that it leads to a directory.
pub fn is_directory(path: &[u8]) -> bool {
    path.ends_with(b"/") || path.ends_with(b"/.")
}

/// Splits a path into components, the last one first.
fn components(path: &[u8]) -> Vec<Vec<u8>> {
    let mut names: Vec<Vec<u8>> = path
        .split(|&c| c == b'/')
        .filter(|name| !name.is_empty() && *name != b".")
        .map(<[u8]>::to_vec)
        .collect();
    names.reverse();
    names
}
