//! Names and files of a recording: their current state in the pass, and their initial state. The
//! first observation of a name shows its initial state, unless the program created its directory.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, hash_map};
use std::rc::Rc;

use super::content::Content;

pub use super::node_id::NodeId;

/// One component of a path.
pub type Name = Rc<[u8]>;

/// Memory limit for files and names, known absent ones too: enough for two million files.
const BYTES_MAX: usize = 1 << 30;
/// Memory of a file, in addition of a directory, and of a name besides its text.
const NODE_BYTES: usize = size_of::<Node>() + 48;
const DIRECTORY_BYTES: usize = size_of::<Directory>() + 384;
const NAME_BYTES: usize = 96;
/// Deepest nesting of directories that is followed.
pub const DEPTH_MAX: u32 = 500;

/// More files or names than are followed.
#[derive(Debug)]
pub struct TooMany;

/// The type of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum NodeKind {
    /// Not known yet.
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

impl NodeKind {
    /// Converts the type bits of a mode.
    pub fn of_mode(mode: u32) -> NodeKind {
        match mode & 0o170_000 {
            0o040_000 => NodeKind::Directory,
            0o120_000 => NodeKind::Link,
            0o010_000 => NodeKind::Fifo,
            0o140_000 => NodeKind::Socket,
            0o020_000 | 0o060_000 => NodeKind::Device,
            _ => NodeKind::File,
        }
    }
}

/// Current state of a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry {
    /// It names this file.
    There(NodeId),
    /// It does not exist. Unless `firm`, it may also be a dangling link.
    Absent { firm: bool },
}

/// Initial attributes of a file.
#[derive(Debug, Default)]
pub struct About {
    /// Permissions.
    pub mode: Option<u32>,
    /// User and group.
    pub owner: Option<(u32, u32)>,
    /// First user other than root who changed the file or directory, and whether there were others:
    /// they had permission. Root's changes prove nothing.
    pub writer: Option<(u32, u32)>,
    pub writers: bool,
    /// A user removed another user's file from it.
    pub taken_from: bool,
    /// Somebody executed it, or was told that he may.
    pub executable: bool,
    /// Number of links.
    pub links: Option<u32>,
    /// Length of a symbolic link's text.
    pub length: Option<u64>,
    /// The beginning of a symbolic link's text, or all of it: it filled the buffer.
    pub text: Option<Vec<u8>>,
    /// Last modification.
    pub mtime_ns: Option<i64>,
    /// Extended attributes; the value may be unknown.
    pub xattrs: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

/// Longest text of a link that Linux allows.
const LINK_BYTES_MAX: u64 = 4095;

impl About {
    /// Notes a user who may write to the file.
    pub fn written_by(&mut self, who: (u32, u32)) {
        if who.0 != 0 {
            self.writers |= self.writer.is_some_and(|first| first.0 != who.0);
            self.writer.get_or_insert(who);
        }
    }
}

/// Attributes that the program has changed so far.
#[derive(Debug, Default)]
pub struct Changed {
    pub mode: bool,
    pub owner: bool,
    pub mtime: bool,
    /// Names added minus names removed.
    pub links: i32,
    pub xattrs: BTreeSet<Vec<u8>>,
}

/// Names in a directory.
#[derive(Debug, Default)]
pub struct Directory {
    pub depth: u32,
    /// Current names.
    pub entries: HashMap<Name, Entry>,
    /// Initial names.
    pub had: BTreeMap<Name, NodeId>,
    /// It was not empty, with unknown content.
    pub had_something: bool,
}

/// A file of any type.
#[derive(Debug, Default)]
pub struct Node {
    /// It was merged into this one.
    forward: Option<NodeId>,
    pub kind: NodeKind,
    /// The kind is that of the name itself, not of a link's target.
    pub firm: bool,
    /// Its likely kind, while the kind is unknown.
    pub guess: NodeKind,
    /// It existed before the recording.
    pub initial: bool,
    /// Number of its current names, and the latest one.
    pub names: u32,
    pub home: Option<(NodeId, Name)>,
    /// A call found it where it was looked for.
    pub found: bool,
    /// It seemed to be created by an open that would also open an existing file.
    pub may_have_been: bool,
    /// Its initial names.
    pub was: Vec<(NodeId, Name)>,
    pub inode: Option<(u64, u64)>,
    pub about: About,
    pub changed: Changed,
    pub directory: Option<Box<Directory>>,
    pub content: Option<Box<Content>>,
    /// Target of a link, once known ...
    pub target: Option<Vec<u8>>,
    /// ... and until then, the file that was reached through it.
    pub through: Option<NodeId>,
    /// For a link: it is only a guess, as two names lead to one directory. For the directory: the
    /// link.
    pub guessed: bool,
    pub guessed_by: Option<NodeId>,
}

/// A name in a directory.
#[derive(Clone, Debug)]
pub struct Spot {
    /// The directory; `None` for a file without a name.
    pub directory: Option<NodeId>,
    pub name: Name,
    /// The file there, if known.
    pub node: Option<NodeId>,
    /// A trailing slash shows that it is a directory.
    pub is_directory: bool,
}

impl Spot {
    /// A name whose file is unknown.
    pub fn named(directory: NodeId, name: &[u8]) -> Spot {
        let directory = Some(directory);
        Spot { directory, name: name.into(), node: None, is_directory: false }
    }

    /// A file without a name.
    pub fn of(node: NodeId) -> Spot {
        Spot { directory: None, name: [].into(), node: Some(node), is_directory: false }
    }
}

/// All files and names.
#[derive(Debug)]
pub struct Tree {
    nodes: Vec<Node>,
    pub by_inode: HashMap<(u64, u64), NodeId>,
    /// Approximate memory use.
    bytes: usize,
    /// Initial files deeper than is followed.
    pub too_deep: u64,
    /// Initial paths that an earlier pass wrongly took for links.
    pub no_links: Rc<HashSet<Vec<Name>>>,
    /// Those found in this pass.
    pub denied: HashSet<Vec<Name>>,
}

impl Tree {
    /// Contains only a root directory.
    pub fn new() -> Tree {
        let root = Node {
            kind: NodeKind::Directory,
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

    /// Returns the file that a number now refers to, after merges.
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

    /// Returns all files that were not merged into others.
    pub fn ids(&self) -> impl Iterator<Item = NodeId> {
        let real = self.nodes.iter().zip(0..).filter(|(node, _)| node.forward.is_none());
        real.map(|(_, number)| NodeId(number))
    }

    /// Adds a file without a name.
    pub fn add(&mut self, kind: NodeKind, initial: bool) -> Result<NodeId, TooMany> {
        if self.bytes >= BYTES_MAX {
            return Err(TooMany);
        }
        self.bytes += NODE_BYTES;
        let id = NodeId(self.nodes.len() as u32);
        self.nodes.push(Node { initial, ..Node::default() });
        self.set_kind(id, kind);
        Ok(id)
    }

    /// Sets the kind of a file, if unknown so far.
    pub fn set_kind(&mut self, id: NodeId, kind: NodeKind) {
        let node = self.node_mut(id);
        if node.kind != NodeKind::Unknown || kind == NodeKind::Unknown {
            return;
        }
        node.kind = kind;
        if kind == NodeKind::Directory {
            let home = node.home.as_ref().map(|(home, _)| *home);
            let depth = home.map_or(1, |home| self.depth(home) + 1);
            let directory = Directory { depth, ..Directory::default() };
            self.bytes += DIRECTORY_BYTES;
            self.node_mut(id).directory = Some(Box::new(directory));
        }
    }

    /// Returns the content of a file, which makes it a regular one.
    pub fn content(&mut self, id: NodeId) -> Option<&mut Content> {
        self.set_kind(id, NodeKind::File);
        let node = self.node_mut(id);
        if node.kind != NodeKind::File {
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

    /// Returns the state of a name in a directory, as far as known.
    pub fn entry(&self, directory: NodeId, name: &[u8]) -> Option<Entry> {
        let entry = *self.directory(directory)?.entries.get(name)?;
        Some(match entry {
            Entry::There(id) => Entry::There(self.find(id)),
            absent => absent,
        })
    }

    /// Returns the file at a spot, which is known to exist: if it is new, it existed before the
    /// recording. `on_link`: the name itself was examined.
    pub fn there(&mut self, spot: &Spot, kind: NodeKind, on_link: bool) -> Result<NodeId, TooMany> {
        let kind = if spot.is_directory { NodeKind::Directory } else { kind };
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
            self.node_mut(id).found = true;
            return Ok(self.find(id));
        }
        let Some(directory) = spot.directory else { return self.add(kind, false) };
        self.set_kind(directory, NodeKind::Directory);
        let found = self.entry(directory, &spot.name);
        let dangling = found == Some(Entry::Absent { firm: false }) && on_link;
        let deep = self.depth(directory) >= DEPTH_MAX;
        let was_there = self.node(directory).initial && (found.is_none() || dangling);
        let initial = was_there && !deep;
        self.too_deep += u64::from(was_there && deep);
        let id = self.add(NodeKind::Unknown, initial)?;
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

    /// Notes that nothing is at a spot.
    pub fn absent(&mut self, spot: &Spot, firm: bool) {
        let has_room = self.bytes < BYTES_MAX;
        // What a link of unknown text leads to: so the link led nowhere at first.
        if let (None, Some(beyond)) = (spot.directory, spot.node) {
            let beyond = self.node_mut(beyond);
            beyond.initial &= beyond.found || beyond.kind != NodeKind::Unknown;
        }
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

    /// Adds a name to a file.
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

    /// Removes a name.
    pub fn unname(&mut self, directory: NodeId, name: &[u8]) -> Option<NodeId> {
        let entry = self.entry(directory, name);
        let entries = &mut self.directory_mut(directory)?.entries;
        let Some(Entry::There(id)) = entry else { return None };
        entries.insert(name.into(), Entry::Absent { firm: true });
        let node = self.node_mut(id);
        node.names = node.names.saturating_sub(1);
        let links = node.about.links.map_or(1, i64::from);
        // The inode number of a deleted file may be reused.
        if node.names == 0
            && links + i64::from(node.changed.links) <= 1
            && let Some(inode) = node.inode
        {
            self.by_inode.remove(&inode);
        }
        Some(id)
    }

    /// Whether a directory is another one or below it.
    pub fn is_within(&self, id: NodeId, top: NodeId) -> bool {
        let (mut at, top) = (self.find(id), self.find(top));
        // In a hostile trace, names may form circles.
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

    /// Returns the initial path of a file.
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

    /// Returns a current path of a file.
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

    /// Redirects `from` to `to`. Returns the data of `from`.
    pub(super) fn forward(&mut self, from: NodeId, to: NodeId) -> Node {
        let (from, to) = (self.find(from), self.find(to));
        std::mem::replace(
            &mut self.nodes[from.0 as usize],
            Node { forward: Some(to), ..Node::default() },
        )
    }
}

/// Returns the target of a link that leads from one path to another.
pub fn relative(link: &[Name], target: &[Name]) -> Vec<u8> {
    let above = &link[..link.len().saturating_sub(1)];
    let shared = above.iter().zip(target).take_while(|(a, b)| a == b).count();
    let up = above[shared..].iter().map(|_| &b".."[..]);
    let path: Vec<&[u8]> = up.chain(target[shared..].iter().map(|name| &name[..])).collect();
    if path.is_empty() { b".".to_vec() } else { path.join(&b'/') }
}

/// Makes a relative path longer, up to a length, where slashes or a dot can do that.
pub fn lengthen(mut path: Vec<u8>, length: Option<u64>) -> Vec<u8> {
    let length = length.unwrap_or(0).min(LINK_BYTES_MAX) as usize;
    let more = length.saturating_sub(path.len());
    let slashes = |count| std::iter::repeat_n(b'/', count);
    match path.iter().position(|&c| c == b'/') {
        Some(slash) => drop(path.splice(slash..slash, slashes(more))),
        None if more >= 2 => drop(path.splice(0..0, [b'.'].into_iter().chain(slashes(more - 1)))),
        None => {}
    }
    path
}

/// Joins components to an absolute path.
pub fn absolute(names: &[Name]) -> Vec<u8> {
    let mut path = Vec::new();
    for name in names {
        path.push(b'/');
        path.extend_from_slice(name);
    }
    if path.is_empty() { b"/".to_vec() } else { path }
}
