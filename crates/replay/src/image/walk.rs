//! From paths to files: component by component, through links as far as they are known.

use super::tree::{DEPTH_MAX, Entry, Kind, NodeId, Spot, TooMany, Tree};

/// Links that are followed in one path, as in the kernel.
const LINKS_MAX: usize = 40;
/// Components that are looked at in one path.
const COMPONENTS_MAX: usize = 8192;

/// How to walk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Walk {
    /// What absolute paths and links begin at.
    pub root: NodeId,
    /// A link at the end is followed.
    pub follow: bool,
    /// The call succeeded, or failed for a reason that lies at the end of the path: everything on
    /// the way is there.
    pub is_there: bool,
    /// The kernel told the path: nothing on the way is a link.
    pub canonical: bool,
}

impl Tree {
    /// Where a path leads, seen from a directory. `None` where that cannot be told.
    pub fn walk(&mut self, base: NodeId, path: &[u8], how: Walk) -> Result<Option<Spot>, TooMany> {
        let mut at = self.find(if path.first() == Some(&b'/') { how.root } else { base });
        let mut needs_directory = is_directory(path);
        // What is left to walk, the last component first.
        let mut left: Vec<Vec<u8>> = components(path);
        let (mut links, mut steps) = (0, 0);
        while let Some(name) = left.pop() {
            steps += 1;
            if steps > COMPONENTS_MAX {
                return Ok(None);
            }
            self.set_kind(at, Kind::Directory);
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
                None if how.is_there => self.there(&spot, Kind::Directory, false)?,
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
        self.node(id).kind == Kind::Link
    }

    fn parent(&self, id: NodeId) -> NodeId {
        self.node(id).home.as_ref().map_or(NodeId::ROOT, |(home, _)| self.find(*home))
    }

    /// What a link of unknown target leads to.
    fn beyond(&mut self, link: NodeId) -> Result<NodeId, TooMany> {
        if let Some(node) = self.node(link).through {
            return Ok(self.find(node));
        }
        let initial = self.node(link).initial;
        let node = self.add(Kind::Unknown, initial)?;
        self.node_mut(link).through = Some(node);
        Ok(node)
    }
}

/// Whether a path says of what it leads to that this is a directory, link or no link.
pub fn is_directory(path: &[u8]) -> bool {
    path.ends_with(b"/") || path.ends_with(b"/.")
}

/// The components of a path, the last one first.
fn components(path: &[u8]) -> Vec<Vec<u8>> {
    let mut names: Vec<Vec<u8>> = path
        .split(|&c| c == b'/')
        .filter(|name| !name.is_empty() && *name != b".")
        .map(<[u8]>::to_vec)
        .collect();
    names.reverse();
    names
}
