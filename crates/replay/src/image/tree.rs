//! The names and files that a recording speaks of, as they are at one point of it, and as they were
//! before it. What is first heard of a name tells how it was before, unless its directory was made
//! by the program.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, hash_map};
use std::rc::Rc;

use super::content::Content;

/// One component of a path.
pub type Name = Rc<[u8]>;

/// A file of any type.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(u32);

impl NodeId {
    /// The root directory.
    pub const ROOT: NodeId = NodeId(0);

    /// As a mark of something that is known to be this file; 0 marks nothing.
    pub fn mark(self) -> u64 {
        u64::from(self.0) + 1
    }

    /// The file of a mark.
    pub fn of_mark(mark: u64) -> Option<NodeId> {
        Some(NodeId(u32::try_from(mark.checked_sub(1)?).ok()?))
    }
}

/// Memory that files and names may take, with those names of which only is known that nothing has
/// them: enough for two million files.
const BYTES_MAX: usize = 1 << 30;
/// What a file takes, a directory besides, and a name besides its text.
const NODE_BYTES: usize = size_of::<Node>() + 48;
const DIRECTORY_BYTES: usize = size_of::<Directory>() + 384;
const NAME_BYTES: usize = 96;
/// Directories within directories that are followed.
pub const DEPTH_MAX: u32 = 500;

/// More files or names than are followed.
#[derive(Debug)]
pub struct TooMany;

/// The type of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Kind {
    /// Nothing said it.
    #[default]
    Unknown,
    Directory,
    File,
    Link,
    Fifo,
    Socket,
    /// A block or character device.
    Device,
}

impl Kind {
    /// By the type bits of a mode.
    pub fn of_mode(mode: u32) -> Kind {
        match mode & 0o170_000 {
            0o040_000 => Kind::Directory,
            0o120_000 => Kind::Link,
            0o010_000 => Kind::Fifo,
            0o140_000 => Kind::Socket,
            0o020_000 | 0o060_000 => Kind::Device,
            _ => Kind::File,
        }
    }
}

/// What a name means now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry {
    /// This file.
    There(NodeId),
    /// Nothing. A link that leads nowhere looks the same, unless a call looked at the name itself.
    Absent { firm: bool },
}

/// What there was to know of a file before the recording, apart from content.
#[derive(Debug, Default)]
pub struct About {
    /// Permissions.
    pub mode: Option<u32>,
    /// User and group.
    pub owner: Option<(u32, u32)>,
    /// Whoever changes something in a directory may do so: the first and whether there are others.
    /// Of root, who may do anything, nothing follows.
    pub writer: Option<(u32, u32)>,
    pub writers: bool,
    /// Somebody took away what was another one's.
    pub taken_from: bool,
    /// Number of links.
    pub links: Option<u32>,
    /// Last modification.
    pub mtime_ns: Option<i64>,
    /// Extended attributes; the value may be unknown.
    pub xattrs: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

impl About {
    /// Somebody may write to it.
    pub fn written_by(&mut self, who: (u32, u32)) {
        if who.0 != 0 {
            self.writers |= self.writer.is_some_and(|first| first.0 != who.0);
            self.writer.get_or_insert(who);
        }
    }
}

/// What the program has changed of a file so far.
#[derive(Debug, Default)]
pub struct Changed {
    pub mode: bool,
    pub owner: bool,
    pub mtime: bool,
    /// Names given minus names taken.
    pub links: i32,
    pub xattrs: BTreeSet<Vec<u8>>,
}

/// The names in a directory.
#[derive(Debug, Default)]
pub struct Directory {
    pub depth: u32,
    /// Now.
    pub entries: HashMap<Name, Entry>,
    /// Before the recording.
    pub had: BTreeMap<Name, NodeId>,
    /// Something was in it that nobody named.
    pub had_something: bool,
}

/// A file of any type.
#[derive(Debug, Default)]
pub struct Node {
    /// It has turned out to be this one.
    forward: Option<NodeId>,
    pub kind: Kind,
    /// The kind is that of the name itself, not of what a link may lead to.
    pub firm: bool,
    /// What it probably is, while the kind is unknown.
    pub guess: Kind,
    /// It was there before the recording.
    pub initial: bool,
    /// Names that it has now, and the last one that it was given.
    pub names: u32,
    pub home: Option<(NodeId, Name)>,
    /// It seemed to be made by an open that would have opened it as well.
    pub may_have_been: bool,
    /// The names that it had before.
    pub was: Vec<(NodeId, Name)>,
    pub inode: Option<(u64, u64)>,
    pub about: About,
    pub changed: Changed,
    pub directory: Option<Box<Directory>>,
    pub content: Option<Box<Content>>,
    /// Of a link: where it leads, once known ...
    pub target: Option<Vec<u8>>,
    /// ... and until then, the file that was reached through it.
    pub through: Option<NodeId>,
    /// Of two names that lead to one directory, this was taken for the link; of the directory, the
    /// link that was taken for one.
    pub guessed: bool,
    pub guessed_by: Option<NodeId>,
}

/// A name in a directory.
#[derive(Clone, Debug)]
pub struct Spot {
    /// The directory; none for a file without a name.
    pub directory: Option<NodeId>,
    pub name: Name,
    /// What is known to be there.
    pub node: Option<NodeId>,
    /// A slash behind the name says that what is there is a directory.
    pub is_directory: bool,
}

impl Spot {
    /// A name of which nobody knows what it stands for.
    pub fn named(directory: NodeId, name: &[u8]) -> Spot {
        let directory = Some(directory);
        Spot { directory, name: name.into(), node: None, is_directory: false }
    }

    /// A file by itself.
    pub fn of(node: NodeId) -> Spot {
        Spot { directory: None, name: [].into(), node: Some(node), is_directory: false }
    }
}

/// All files and names.
#[derive(Debug)]
pub struct Tree {
    nodes: Vec<Node>,
    pub by_inode: HashMap<(u64, u64), NodeId>,
    /// About how much memory it takes.
    bytes: usize,
    /// Files of before that lie deeper than is followed.
    pub too_deep: u64,
    /// Paths of before that an earlier pass took for links, and that are none.
    pub no_links: Rc<HashSet<Vec<Name>>>,
    /// Those of this pass.
    pub denied: HashSet<Vec<Name>>,
}

impl Tree {
    /// Nothing but a root directory.
    pub fn new() -> Tree {
        let root = Node {
            kind: Kind::Directory,
            firm: true,
            initial: true,
            names: 1,
            directory: Some(Box::default()),
            ..Node::default()
        };
        Tree {
            nodes: vec![root],
            by_inode: HashMap::new(),
            bytes: 0,
            too_deep: 0,
            no_links: Rc::default(),
            denied: HashSet::new(),
        }
    }

    /// The file that a number stands for by now.
    pub fn find(&self, mut id: NodeId) -> NodeId {
        while let Some(next) = self.nodes[id.0 as usize].forward {
            id = next;
        }
        id
    }

    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[self.find(id).0 as usize]
    }

    pub fn node_mut(&mut self, id: NodeId) -> &mut Node {
        let id = self.find(id);
        &mut self.nodes[id.0 as usize]
    }

    /// All files that are not others by now.
    pub fn ids(&self) -> impl Iterator<Item = NodeId> {
        let real = self.nodes.iter().zip(0..).filter(|(node, _)| node.forward.is_none());
        real.map(|(_, number)| NodeId(number))
    }

    /// A file without a name.
    pub fn add(&mut self, kind: Kind, initial: bool) -> Result<NodeId, TooMany> {
        if self.bytes >= BYTES_MAX {
            return Err(TooMany);
        }
        self.bytes += NODE_BYTES;
        let id = NodeId(self.nodes.len() as u32);
        self.nodes.push(Node { initial, ..Node::default() });
        self.set_kind(id, kind);
        Ok(id)
    }

    /// Says what a file of unknown type is.
    pub fn set_kind(&mut self, id: NodeId, kind: Kind) {
        let node = self.node_mut(id);
        if node.kind != Kind::Unknown || kind == Kind::Unknown {
            return;
        }
        node.kind = kind;
        if kind == Kind::Directory {
            let home = node.home.as_ref().map(|(home, _)| *home);
            let depth = home.map_or(1, |home| self.depth(home) + 1);
            let directory = Directory { depth, ..Directory::default() };
            self.bytes += DIRECTORY_BYTES;
            self.node_mut(id).directory = Some(Box::new(directory));
        }
    }

    /// The content of a file, which is a regular one then.
    pub fn content(&mut self, id: NodeId) -> Option<&mut Content> {
        self.set_kind(id, Kind::File);
        let node = self.node_mut(id);
        if node.kind != Kind::File {
            return None;
        }
        let made = !node.initial;
        let content = node
            .content
            .get_or_insert_with(|| Box::new(if made { Content::made() } else { Content::found() }));
        Some(content)
    }

    fn depth(&self, id: NodeId) -> u32 {
        self.node(id).directory.as_ref().map_or(0, |directory| directory.depth)
    }

    pub fn directory(&self, id: NodeId) -> Option<&Directory> {
        self.node(id).directory.as_deref()
    }

    pub fn directory_mut(&mut self, id: NodeId) -> Option<&mut Directory> {
        self.node_mut(id).directory.as_deref_mut()
    }

    /// What a name in a directory means, as far as known.
    pub fn entry(&self, directory: NodeId, name: &[u8]) -> Option<Entry> {
        let entry = *self.directory(directory)?.entries.get(name)?;
        Some(match entry {
            Entry::There(id) => Entry::There(self.find(id)),
            absent => absent,
        })
    }

    /// The file at a spot, which is known to be there: what nobody has heard of before was there
    /// before the recording. `on_link`: the name itself was looked at.
    pub fn there(&mut self, spot: &Spot, kind: Kind, on_link: bool) -> Result<NodeId, TooMany> {
        let kind = if spot.is_directory { Kind::Directory } else { kind };
        let known = match (spot.node, spot.directory) {
            (Some(id), _) => Some(id),
            (None, Some(directory)) => match self.entry(directory, &spot.name) {
                Some(Entry::There(id)) => Some(id),
                _ => None,
            },
            (None, None) => None,
        };
        if let Some(id) = known {
            self.set_kind(id, kind);
            return Ok(self.find(id));
        }
        let Some(directory) = spot.directory else { return self.add(kind, false) };
        self.set_kind(directory, Kind::Directory);
        let found = self.entry(directory, &spot.name);
        let dangling = found == Some(Entry::Absent { firm: false }) && on_link;
        let deep = self.depth(directory) >= DEPTH_MAX;
        let was_there = self.node(directory).initial && (found.is_none() || dangling);
        let initial = was_there && !deep;
        self.too_deep += u64::from(was_there && deep);
        let id = self.add(Kind::Unknown, initial)?;
        if initial {
            self.node_mut(id).was.push((directory, spot.name.clone()));
            if let Some(directory) = self.directory_mut(directory) {
                directory.had.insert(spot.name.clone(), id);
            }
        }
        self.name(directory, spot.name.clone(), id);
        self.set_kind(id, kind);
        Ok(id)
    }

    /// Nothing is at a spot.
    pub fn absent(&mut self, spot: &Spot, firm: bool) {
        let has_room = self.bytes < BYTES_MAX;
        if let Some(directory) = spot.directory.and_then(|id| self.directory_mut(id)) {
            let entries = directory.entries.entry(spot.name.clone());
            if let hash_map::Entry::Vacant(free) = entries
                && has_room
            {
                free.insert(Entry::Absent { firm });
                self.bytes += NAME_BYTES + spot.name.len();
            }
        }
    }

    /// Gives a file a name, from now on.
    pub fn name(&mut self, directory: NodeId, name: Name, id: NodeId) {
        self.unname(directory, &name);
        let depth = self.depth(directory) + 1;
        let directory = self.find(directory);
        if let Some(directory) = self.directory_mut(directory)
            && directory.entries.insert(name.clone(), Entry::There(id)).is_none()
        {
            self.bytes += NAME_BYTES + name.len();
        }
        let node = self.node_mut(id);
        node.names += 1;
        node.home = Some((directory, name));
        if let Some(child) = &mut node.directory {
            child.depth = depth;
        }
    }

    /// Takes a name away, from now on.
    pub fn unname(&mut self, directory: NodeId, name: &[u8]) -> Option<NodeId> {
        let entry = self.entry(directory, name);
        let entries = &mut self.directory_mut(directory)?.entries;
        let Some(Entry::There(id)) = entry else { return None };
        entries.insert(name.into(), Entry::Absent { firm: true });
        let node = self.node_mut(id);
        node.names = node.names.saturating_sub(1);
        let links = node.about.links.map_or(1, i64::from);
        // The number of a file that is gone may be given to another one.
        if node.names == 0
            && links + i64::from(node.changed.links) <= 1
            && let Some(inode) = node.inode
        {
            self.by_inode.remove(&inode);
        }
        Some(id)
    }

    /// Whether a directory is another one or in it.
    pub fn is_within(&self, id: NodeId, top: NodeId) -> bool {
        let (mut at, top) = (self.find(id), self.find(top));
        // Names that a trace made up may go in circles.
        for _ in 0..=2 * DEPTH_MAX {
            if at == top {
                return true;
            }
            match &self.node(at).home {
                Some((home, _)) => at = self.find(*home),
                None => return false,
            }
        }
        true
    }

    /// The path that a file had before the recording.
    pub fn path_at_first(&self, id: NodeId) -> Option<Vec<Name>> {
        let mut names = Vec::new();
        let mut at = self.find(id);
        while at != NodeId::ROOT {
            let (directory, name) = self.node(at).was.first()?;
            names.push(name.clone());
            at = self.find(*directory);
            if names.len() > 2 * DEPTH_MAX as usize {
                return None;
            }
        }
        names.reverse();
        Some(names)
    }

    /// A path that a file has now.
    pub fn path_now(&self, id: NodeId) -> Option<Vec<Name>> {
        let mut names = Vec::new();
        let mut at = self.find(id);
        while at != NodeId::ROOT {
            let (directory, name) = self.node(at).home.as_ref()?;
            if self.entry(*directory, name) != Some(Entry::There(at)) {
                return None;
            }
            names.push(name.clone());
            at = self.find(*directory);
            if names.len() > 2 * DEPTH_MAX as usize {
                return None;
            }
        }
        names.reverse();
        Some(names)
    }

    /// Makes `from` the same file as `to`.
    pub(super) fn forward(&mut self, from: NodeId, to: NodeId) -> Node {
        let (from, to) = (self.find(from), self.find(to));
        std::mem::replace(
            &mut self.nodes[from.0 as usize],
            Node { forward: Some(to), ..Node::default() },
        )
    }
}

/// The target of a link that leads from one path to another.
pub fn relative(link: &[Name], target: &[Name]) -> Vec<u8> {
    let above = &link[..link.len().saturating_sub(1)];
    let shared = above.iter().zip(target).take_while(|(a, b)| a == b).count();
    let up = above[shared..].iter().map(|_| &b".."[..]);
    let path: Vec<&[u8]> = up.chain(target[shared..].iter().map(|name| &name[..])).collect();
    if path.is_empty() { b".".to_vec() } else { path.join(&b'/') }
}

/// Components as one absolute path.
pub fn absolute(names: &[Name]) -> Vec<u8> {
    let mut path = Vec::new();
    for name in names {
        path.push(b'/');
        path.extend_from_slice(name);
    }
    if path.is_empty() { b"/".to_vec() } else { path }
}
