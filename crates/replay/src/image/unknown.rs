//! Unknown content of the final files: initial bytes that no call read.

use std::collections::{BTreeMap, HashSet};

use super::content::{Content, Source};
use super::ranges::Ranges;
use super::tree::{Entry, Name, NodeId, NodeKind, Tree};

/// Most bytes of paths kept.
const PATH_BYTES_MAX: usize = 64 << 20;
/// Most ranges of one file; if there are more, all from the first to the last counts as unknown.
const RANGES_MAX: usize = 64 << 10;

/// Unknown ranges of files, by their final paths.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Unknown {
    files: BTreeMap<Vec<u8>, Ranges>,
    /// Incomplete: other files may have unknown bytes too.
    pub truncated: bool,
}

impl Unknown {
    /// Returns the ranges of the file at a path. A range may reach beyond the file's end.
    pub fn of(&self, path: &[u8]) -> Option<&Ranges> {
        self.files.get(path)
    }

    /// Returns all of them.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &Ranges)> {
        self.files.iter().map(|(path, ranges)| (&path[..], ranges))
    }
}

/// Finds the unknown ranges of all current files.
pub fn find(tree: &Tree) -> Unknown {
    let mut unknown = Unknown::default();
    let mut bytes = 0;
    let mut visited = HashSet::from([NodeId::ROOT]);
    // A single path; each entry on the stack knows the length of its directory's part.
    let mut path = Vec::new();
    let mut left = entries(tree, NodeId::ROOT, 0);
    while let Some((above_len, name, child)) = left.pop() {
        path.truncate(above_len);
        path.push(b'/');
        path.extend_from_slice(name);
        if !crate::realm::is_real(&path) {
            continue;
        }
        match tree.node(child).kind {
            NodeKind::Directory if visited.insert(child) => {
                left.extend(entries(tree, child, path.len()));
            }
            NodeKind::File | NodeKind::Unknown => {
                let ranges = of_file(tree, child);
                if ranges.is_empty() {
                    continue;
                }
                bytes += path.len();
                if bytes > PATH_BYTES_MAX {
                    unknown.truncated = true;
                    return unknown;
                }
                unknown.files.insert(path.clone(), ranges);
            }
            _ => {}
        }
    }
    unknown
}

/// Returns the entries of a directory whose path has `path_len` bytes.
fn entries(tree: &Tree, id: NodeId, path_len: usize) -> Vec<(usize, &Name, NodeId)> {
    let entries = tree.directory(id).into_iter().flat_map(|directory| &directory.entries);
    let there = entries.filter_map(|(name, entry)| match entry {
        Entry::There(child) => Some((path_len, name, tree.find(*child))),
        Entry::Absent { .. } => None,
    });
    there.collect()
}

fn of_file(tree: &Tree, id: NodeId) -> Ranges {
    let mut unknown = Ranges::default();
    let node = tree.node(id);
    let Some(content) = node.content.as_deref() else {
        // No call has accessed it.
        if node.initial {
            unknown.add(0..u64::MAX);
        }
        return unknown;
    };
    let no_size = content.size.is_none() && node.initial;
    let end = if no_size { u64::MAX } else { content.now };
    for (range, source) in content.sources(0..end) {
        let (owner, offset) = match source {
            Source::Own => (content, range.start),
            Source::Copied { node, offset } => match tree.node(node).content.as_deref() {
                Some(content) => (content, offset),
                None => continue,
            },
            Source::Written => continue,
        };
        for missing in missing(owner, offset..offset.saturating_add(range.end - range.start)) {
            let start = range.start + (missing.start - offset);
            unknown.add(start..start.saturating_add(missing.end - missing.start));
        }
        if unknown.count() > RANGES_MAX {
            let first = unknown.iter().next().map_or(0, |range| range.start);
            unknown.add(first..end);
        }
    }
    content.blank.within(0..end).for_each(|range| unknown.add(range));
    unknown
}

/// Returns the unseen parts of a range of a file's initial content.
fn missing(content: &Content, range: std::ops::Range<u64>) -> Vec<std::ops::Range<u64>> {
    let end = content.size.map_or(range.end, |size| range.end.min(size));
    content.seen.missing(range.start..end.max(range.start))
}
