//! Knowledge from calls that have returned: names, types and attributes.

use model::Contents;
use model::contents::piece;
use syscalls::abi::files::{
    O_ACCMODE, O_APPEND, O_DIRECTORY, O_NOFOLLOW, O_PATH, O_TMPFILE_ALONE, O_TRUNC, W_OK, X_OK,
};
use syscalls::abi::tasks::{MS_BIND, MS_MOVE};
use syscalls::record::{Identity, RESULT, part};
use syscalls::shape::{ArgKind, Dir, Of, operand};
use syscalls::{Act, Operand, attributes, flags};

use super::ImageError;
use super::entries;
use super::fold::{Asked, Fold};
use super::tree::{Entry, NodeId, NodeKind, Spot};
use trace::event::Content;

/// Mounts whose source is a file.
const MOUNTED_FILE: u64 = MS_BIND | MS_MOVE;
/// Longest directory listing, or list of attribute names, of one call.
const LIST_BYTES_MAX: usize = 16 << 20;
/// Most long listings remembered.
const LISTS_MAX: usize = 1 << 14;

impl Fold<'_> {
    /// Handles the return of a call.
    pub fn returned(&mut self, asked: &Asked) -> Result<(), ImageError> {
        if asked.act.changes_names() {
            return asked.errno().map_or(Ok(()), |errno| self.failed(asked, errno));
        }
        if asked.success().is_none() {
            return asked.errno().map_or(Ok(()), |errno| self.failed(asked, errno));
        }
        let Some(node) = self.subject(asked)? else { return Ok(()) };
        self.stored_whole(asked, node)?;
        self.stated(asked, node)?;
        self.by_role(asked, node)
    }

    /// Returns the file that a call concerns, which exists.
    fn subject(&mut self, asked: &Asked) -> Result<Option<NodeId>, ImageError> {
        // The source of a mount is a file only for MS_BIND and MS_MOVE.
        let is_file = asked.act != Act::Mount || asked.call.args[3] & MOUNTED_FILE != 0;
        let Some(path) = asked.paths.iter().find(|path| is_file || path.arg != 0) else {
            let open = asked.fds[0].as_ref().and_then(|(_, open)| self.opens.get(open.id()));
            return Ok(open.map(|open| self.tree.find(open.node)));
        };
        let mut follow = !asked.means_link(path);
        let mut kind = NodeKind::Unknown;
        match asked.act {
            Act::Open => {
                let flags = self.open_flags(asked);
                follow = flags & O_NOFOLLOW == 0;
                if flags & O_DIRECTORY != 0 && flags & O_TMPFILE_ALONE == 0 {
                    kind = NodeKind::Directory;
                } else if flags & O_ACCMODE != 0 && flags & O_PATH == 0 {
                    kind = NodeKind::File;
                }
            }
            Act::Directory | Act::Root => kind = NodeKind::Directory,
            Act::Execute | Act::Truncate => kind = NodeKind::File,
            _ => {}
        }
        if let Some(node) = asked.opened {
            return Ok(Some(self.tree.find(node)));
        }
        let Some(spot) = self.spot(asked, path, follow, true)? else { return Ok(None) };
        let mut node = self.tree.there(&spot, NodeKind::Unknown, !follow)?;
        let identities = asked.call.identities.iter();
        for (_, identity) in identities.filter(|(arg, _)| *arg == path.arg || *arg == RESULT) {
            node = self.learn(asked, node, !follow, identity)?;
        }
        // The identity decides first, as it may show a device.
        self.tree.set_kind(node, kind);
        Ok(Some(self.tree.find(node)))
    }

    /// Learns from attributes that a call returned.
    fn stated(&mut self, asked: &Asked, node: NodeId) -> Result<(), ImageError> {
        for (arg, number) in asked.args.iter().zip(0u8..) {
            let ArgKind::Buf(Dir::Out, Of::Struct(layout), _) = arg.kind else { continue };
            let Some(data) = piece(&asked.call.data, number, part::WHOLE, 0, true) else {
                continue;
            };
            if attributes::size_at(layout).is_none() {
                continue;
            }
            let bytes = self.stored.read(&data.content, 256).unwrap_or_default();
            if let Some(identity) = attributes::of_struct(layout, &bytes) {
                let on_link = asked.paths.first().is_some_and(|path| asked.means_link(path));
                self.learn(asked, node, on_link, &identity)?;
            }
        }
        Ok(())
    }

    fn by_role(&mut self, asked: &Asked, node: NodeId) -> Result<(), ImageError> {
        let args = asked.call.args;
        let ret = asked.success().unwrap_or(0);
        match asked.act {
            Act::Open => self.opened(asked, node),
            Act::ReadLink => {
                let buffer = asked.args.len() - 2;
                if let Some(text) = self.text(&asked.call, buffer as u8, true) {
                    let link = self.tree.is_a_link(node)?;
                    // A text that fills the buffer may be cut.
                    match (ret as u64) < args[buffer + 1] {
                        true => self.tree.learn_target(link, text)?,
                        false => self.tree.learn_beginning(link, text)?,
                    }
                }
            }
            Act::Directory => {
                self.tree.set_kind(node, NodeKind::Directory);
                if let Some(directory) = &asked.directory {
                    directory.mark.set(node.mark());
                }
            }
            Act::Execute => self.is_executable(node),
            Act::List => self.listed(asked, node)?,
            Act::Seek => {
                if let Some(open) = asked.open(0).and_then(|id| self.opens.get_mut(id)) {
                    open.offset = ret as u64;
                }
            }
            Act::Truncate => {
                let size = args[1].min(i64::MAX as u64);
                self.change(node, |content| content.truncate(size));
            }
            Act::Allocate => self.allocated(asked),
            Act::Mode => self.tree.node_mut(node).changed.mode = true,
            Act::Owner | Act::LinkOwner => {
                let changed = &mut self.tree.node_mut(node).changed;
                (changed.owner, changed.mode) = (true, true);
            }
            Act::Times => self.tree.node_mut(node).changed.mtime = true,
            Act::CloneFile => self.cloned(asked)?,
            Act::CloneRange => self.cloned_range(asked)?,
            Act::SetStatusFlags => {
                if let Some(open) = asked.open(0).and_then(|id| self.opens.get_mut(id)) {
                    open.append = args[2] & O_APPEND != 0;
                }
            }
            Act::GetXattr | Act::GetLinkXattr => self.attribute(asked, node),
            Act::ListXattr | Act::ListLinkXattr => self.attributes(asked, node),
            Act::ChangeXattr | Act::ChangeLinkXattr => {
                if let Some(name) = self.attribute_name(asked) {
                    self.tree.node_mut(node).changed.xattrs.insert(name);
                }
            }
            Act::Access => {
                let wished = asked.flags(&flags::ACCESS);
                if wished & X_OK != 0 {
                    self.is_executable(node);
                }
                if wished & W_OK != 0 {
                    self.tree.node_mut(node).about.written_by(asked.who);
                }
            }
            Act::Mount => {}
            _ => self.moved(asked)?,
        }
        Ok(())
    }

    fn opened(&mut self, asked: &Asked, node: NodeId) {
        let flags = self.open_flags(asked);
        let Some(description) = &asked.gives else { return };
        self.opens.add(description.id(), node, 0, flags & O_APPEND != 0);
        if flags & O_NOFOLLOW != 0 && flags & O_PATH == 0 {
            self.tree.is_no_link(node);
        }
        if flags & O_PATH != 0 {
            return;
        }
        if flags & O_ACCMODE != 0 {
            self.tree.node_mut(node).about.written_by(asked.who);
        }
        if flags & O_TRUNC != 0 && self.tree.node(node).kind == NodeKind::File {
            self.change(node, |content| content.truncate(0));
        }
    }

    /// Marks a file as executable.
    pub fn is_executable(&mut self, node: NodeId) {
        let node = self.tree.node_mut(node);
        node.about.executable |= !node.changed.mode;
    }

    fn listed(&mut self, asked: &Asked, node: NodeId) -> Result<(), ImageError> {
        self.tree.set_kind(node, NodeKind::Directory);
        let Some(data) = piece(&asked.call.data, 1, part::WHOLE, 0, true) else { return Ok(()) };
        if let Content::Blobs { ids, .. } = &data.content
            && self.listed.len() < LISTS_MAX
            && !self.listed.insert((node, ids.clone()))
        {
            return Ok(());
        }
        let Ok(bytes) = self.stored.read(&data.content, LIST_BYTES_MAX) else { return Ok(()) };
        let is_64 =
            asked.args.iter().any(|arg| matches!(arg.kind, ArgKind::Buf(_, Of::Dirents64, _)));
        for (name, kind) in entries::parse(&bytes, is_64) {
            match self.tree.entry(node, name) {
                Some(Entry::There(child)) if kind == NodeKind::Link => {
                    self.tree.is_a_link(child)?;
                    continue;
                }
                Some(Entry::There(child)) if kind != NodeKind::Unknown => {
                    self.tree.deny_guess(child);
                    continue;
                }
                // Names that the program created or removed meanwhile tell nothing.
                Some(_) => continue,
                None => {}
            }
            let spot = Spot::named(node, name);
            let child = self.tree.there(&spot, kind, true)?;
            self.tree.node_mut(child).firm = kind != NodeKind::Unknown;
        }
        Ok(())
    }

    fn attribute_name(&mut self, asked: &Asked) -> Option<Vec<u8>> {
        let is_name = |arg: &&syscalls::Arg| matches!(arg.kind, ArgKind::Str);
        let at = asked.args.iter().position(|arg| is_name(&arg))?;
        self.text(&asked.call, at as u8, false)
    }

    fn attribute(&mut self, asked: &Asked, node: NodeId) {
        let Some(name) = self.attribute_name(asked) else { return };
        let value = asked.args.iter().zip(0u8..).find_map(|(arg, number)| match arg.kind {
            ArgKind::Buf(Dir::Out, Of::Holder(_), _) => Some((number, part::CONTENT)),
            ArgKind::Buf(Dir::Out, Of::Bytes, _) => Some((number, part::WHOLE)),
            _ => None,
        });
        let data = value.and_then(|(arg, part)| piece(&asked.call.data, arg, part, 0, true));
        let value = data.and_then(|data| {
            let bytes = self.stored.read(&data.content, LIST_BYTES_MAX).ok()?;
            // A call that asks only for the length gets no value.
            (Some(bytes.len() as i64) == asked.success()).then_some(bytes)
        });
        let node = self.tree.node_mut(node);
        if node.initial && !node.changed.xattrs.contains(&name) {
            let known = node.about.xattrs.entry(name).or_default();
            *known = known.take().or(value);
        }
    }

    fn attributes(&mut self, asked: &Asked, node: NodeId) {
        let Some(list) = operand(asked.args, Operand::AttributeNames) else { return };
        let Some(data) = piece(&asked.call.data, list, part::WHOLE, 0, true) else { return };
        let Ok(bytes) = self.stored.read(&data.content, LIST_BYTES_MAX) else { return };
        let node = self.tree.node_mut(node);
        for name in model::contents::strings(&bytes) {
            if node.initial && !name.is_empty() && !node.changed.xattrs.contains(&name) {
                node.about.xattrs.entry(name).or_default();
            }
        }
    }

    /// Learns a file's identity. Returns the file, which may turn out to be known by another name.
    pub fn learn(
        &mut self,
        asked: &Asked,
        node: NodeId,
        on_link: bool,
        told: &Identity,
    ) -> Result<NodeId, ImageError> {
        let mut node = self.tree.find(node);
        let kind = NodeKind::of_mode(told.mode);
        if kind == NodeKind::Link && on_link {
            node = self.tree.is_a_link(node)?;
        } else if kind != NodeKind::Link && on_link {
            node = self.tree.deny_guess(node);
        }
        self.tree.set_kind(node, kind);
        if self.tree.node(node).kind != kind {
            return Ok(node);
        }
        self.tree.node_mut(node).firm |= on_link;
        let inode = (told.dev, told.ino);
        if self.tree.node(node).inode.is_some_and(|known| known != inode) {
            self.tree.deny_being_one(node);
        }
        if self.tree.node(node).inode.is_none() {
            let known = self.tree.by_inode.get(&inode).copied().map(|id| self.tree.find(id));
            let known = known.filter(|known| *known != node);
            let nameless = |id: NodeId| self.tree.is_nameless(id);
            match known.filter(|known| nameless(*known) || self.tree.node(*known).names > 0) {
                Some(known) if nameless(known) || nameless(node) => {
                    node = self.tree.reached(known, node);
                    self.tree.by_inode.insert(inode, node);
                }
                Some(known) if self.tree.node(known).initial => {
                    node = self.tree.same(known, node, told.nlink)?;
                }
                _ => {
                    self.tree.by_inode.insert(inode, node);
                }
            }
        }
        let known = self.tree.node_mut(node);
        if *known.inode.get_or_insert(inode) == inode && known.initial {
            self.attributes_at_first(node, told, !asked.foreign);
            if kind == NodeKind::Link {
                self.tree.learn_length(node, told.size)?;
            }
        }
        Ok(node)
    }

    /// Adopts attributes that the program has not changed yet. `owners`: the ids are not those of a
    /// user namespace.
    fn attributes_at_first(&mut self, id: NodeId, told: &Identity, owners: bool) {
        let node = self.tree.node_mut(id);
        let (about, changed) = (&mut node.about, &node.changed);
        if !changed.mode {
            about.mode = Some(told.mode & 0o7777);
        }
        if owners && !changed.owner {
            about.owner = Some((told.uid, told.gid));
        }
        if about.links.is_none() {
            let links = i64::from(told.nlink) - i64::from(changed.links);
            about.links = u32::try_from(links).ok();
        }
        let unchanged = !changed.mtime;
        if unchanged && told.mtime_ns != attributes::MTIME_UNKNOWN {
            about.mtime_ns = Some(told.mtime_ns);
        }
        if NodeKind::of_mode(told.mode) == NodeKind::File
            && unchanged
            && let Some(content) = self.tree.content(id)
        {
            content.learn_size(told.size);
        }
    }
}
