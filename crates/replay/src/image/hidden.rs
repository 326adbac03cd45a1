//! What the recording does not tell of names: further names of files, and the texts of links that no
//! call has read.

use std::collections::{HashMap, HashSet};

use super::tree::{Name, NodeId, NodeKind, Spot, TooMany, Tree, relative};

/// Directory for names that the recording lacks. Calls on /proc are never replayed, so no call sees them.
pub const HIDDEN: &[u8] = b"/proc/reenact";
/// Most hidden names of one file.
const LINKS_MAX: usize = 64;
/// Longest name of a file.
const NAME_MAX: usize = 255;

/// Adds hidden names for files that lack names, and makes up texts of links.
pub fn hide(tree: &mut Tree, names: &HashMap<NodeId, usize>) -> Result<(), TooMany> {
    let named = |id: &NodeId| tree.node(*id).initial && names.contains_key(id);
    let mut left: Vec<NodeId> = tree.ids().filter(named).collect();
    let mut too_long = Vec::new();
    let mut number = 0;
    while let Some(id) = left.pop() {
        let node = tree.node(id);
        // Files that are not counted got their only name here.
        let has = names.get(&id).copied().unwrap_or(1);
        if node.kind == NodeKind::Link && node.target.is_none() {
            let through = node.through.map(|through| tree.find(through));
            let known = through.and_then(|through| tree.path_at_first(through));
            let from = tree.path_at_first(id).unwrap_or_default();
            let is_placed = |through: &NodeId| known.is_some() || !tree.node(*through).initial;
            let unplaced = through.filter(|through| !is_placed(through));
            number += 1;
            // Short: the recorded text may be.
            let name = number.to_string();
            let target = match (&known, unplaced, nowhere(tree, id)) {
                (Some(known), ..) => relative(&from, known),
                // It led nowhere, or no call followed it.
                (None, None, Some(nowhere)) => nowhere,
                (None, ..) => relative(&from, &parts(&[HIDDEN, name.as_bytes()].join(&b'/'))),
            };
            if known.is_some() && is_longer(tree, id, &target) {
                too_long.push(id);
            }
            tree.node_mut(id).target = Some(target);
            if let Some(through) = unplaced {
                hidden_name(tree, &name, through)?;
                left.push(through);
            }
        } else if node.kind == NodeKind::File {
            let links = node.about.links.unwrap_or(1) as usize;
            for _ in 0..links.saturating_sub(has).min(LINKS_MAX) {
                number += 1;
                hidden_name(tree, &format!("name-{number}"), id)?;
            }
        }
    }
    lead_by_others(tree, &too_long);
    Ok(())
}

fn parts(path: &[u8]) -> Vec<Name> {
    path.split(|&c| c == b'/').skip(1).map(Name::from).collect()
}

fn is_longer(tree: &Tree, link: NodeId, target: &[u8]) -> bool {
    tree.node(link).about.length.is_some_and(|length| target.len() as u64 > length)
}

/// Returns a text of the recorded length that names nothing that is known, for a link that leads nowhere.
fn nowhere(tree: &Tree, link: NodeId) -> Option<Vec<u8>> {
    let node = tree.node(link);
    let length = usize::try_from(node.about.length?).ok().filter(|length| *length <= NAME_MAX)?;
    let directory = tree.directory(tree.find(node.was.first()?.0))?;
    let free = |name: &Vec<u8>| {
        !directory.had.contains_key(&name[..]) && !directory.entries.contains_key(&name[..])
    };
    (b'a'..=b'z').map(|letter| vec![letter; length]).find(free)
}

/// A link's directory, the file it leads to, and the length of a name or text.
type Beside = (NodeId, NodeId, u64);

fn beside(tree: &Tree, link: NodeId, length: u64) -> Option<Beside> {
    let node = tree.node(link);
    Some((tree.find(node.was.first()?.0), tree.find(node.through?), length))
}

/// Links whose texts are longer than they were lead to what they led to by another link beside them, whose
/// name has that length: `a` to `b`, and `b` to `long-name`.
fn lead_by_others(tree: &mut Tree, links: &[NodeId]) {
    let mut waiting: HashMap<Beside, Vec<NodeId>> = HashMap::new();
    for &link in links {
        if let Some(key) = tree.node(link).about.length.and_then(|len| beside(tree, link, len)) {
            waiting.entry(key).or_default().push(link);
        }
    }
    let links: HashSet<NodeId> = links.iter().copied().collect();
    // Those that the program made are not there yet.
    let is_known = |id: &NodeId| {
        let node = tree.node(*id);
        node.kind == NodeKind::Link && node.initial && !links.contains(id)
    };
    let mut known: Vec<NodeId> = match waiting.is_empty() {
        true => Vec::new(),
        false => tree.ids().filter(is_known).collect(),
    };
    while let Some(id) = known.pop() {
        let Some((_, name)) = tree.node(id).was.first().cloned() else { continue };
        let Some(key) = beside(tree, id, name.len() as u64) else { continue };
        for link in waiting.remove(&key).unwrap_or_default() {
            tree.node_mut(link).target = Some(name.to_vec());
            known.push(link);
        }
    }
}

fn hidden_name(tree: &mut Tree, name: &str, id: NodeId) -> Result<(), TooMany> {
    let mut directory = NodeId::ROOT;
    for part in HIDDEN.split(|&c| c == b'/').filter(|part| !part.is_empty()) {
        directory = match tree.directory(directory).and_then(|d| d.had.get(part)) {
            Some(&known) => tree.find(known),
            None => {
                let spot = Spot::named(directory, part);
                tree.there(&spot, NodeKind::Directory, true)?
            }
        };
    }
    let name: Name = name.as_bytes().into();
    if let Some(directory) = tree.directory_mut(directory) {
        directory.had.insert(name.clone(), id);
    }
    tree.node_mut(id).was.push((directory, name));
    Ok(())
}
