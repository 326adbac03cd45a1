//! Changes that calls make as they begin: names, and the offsets of open files.

use model::Contents;
use model::contents;
use syscalls::abi::files::{
    AF_UNIX, AT_REMOVEDIR, O_CREAT, O_EXCL, O_NOFOLLOW, O_TMPFILE_ALONE, RENAME_EXCHANGE,
};
use syscalls::record::{Identity, part};
use syscalls::shape::ArgKind;
use syscalls::{Act, flags};

use super::ImageError;
use super::fold::{Asked, Fold, PathArg};
use super::tree::{NodeId, NodeKind, Spot};

impl Fold<'_> {
    /// Handles the start of a call.
    pub fn begins(&mut self, asked: &mut Asked) -> Result<(), ImageError> {
        if asked.success().is_none() {
            return Ok(());
        }
        if asked.act.changes_names() {
            return self.change_names(asked);
        }
        if asked.act == Act::Open {
            return self.opens_or_makes(asked);
        }
        if asked.act == Act::Copy {
            self.copies(asked);
        }
        Ok(())
    }

    fn change_names(&mut self, asked: &Asked) -> Result<(), ImageError> {
        if asked.act == Act::Bind {
            return self.bind(asked);
        }
        let paths = &asked.paths;
        for (arg, identity) in &asked.call.identities {
            let Some(path) = paths.iter().find(|path| path.arg == *arg) else { continue };
            let on_link = asked.means_link(path);
            if let Some(spot) = self.spot(asked, path, !on_link, true)? {
                self.existing(asked, &spot, on_link, identity)?;
            }
        }
        let Some(first) = paths.first() else { return Ok(()) };
        match asked.act {
            Act::MakeDirectory => self.make(asked, first, NodeKind::Directory).map(drop),
            Act::MakeNode => {
                let is_mode = |arg: &&syscalls::Arg| matches!(arg.kind, ArgKind::Mode);
                let at = asked.args.iter().position(|arg| is_mode(&arg)).unwrap_or(0);
                self.make(asked, first, NodeKind::of_mode(asked.call.args[at] as u32)).map(drop)
            }
            Act::MakeLink => {
                let link = self.make(asked, first, NodeKind::Link)?;
                let target = self.text(&asked.call, 0, false).filter(|target| !target.is_empty());
                if let (Some(link), Some(target)) = (link, target) {
                    self.tree.node_mut(link).target = Some(target);
                }
                Ok(())
            }
            Act::HardLink => match paths.get(1) {
                Some(second) => self.link(asked, first, second),
                None => Ok(()),
            },
            Act::Rename => match paths.get(1) {
                Some(second) => self.rename(asked, first, second),
                None => Ok(()),
            },
            _ => self.remove(asked, first),
        }
    }

    /// Adds a new file.
    fn make(
        &mut self,
        asked: &Asked,
        path: &PathArg,
        kind: NodeKind,
    ) -> Result<Option<NodeId>, ImageError> {
        match self.spot(asked, path, false, true)? {
            Some(spot) => self.make_at(asked, spot, kind),
            None => Ok(None),
        }
    }

    fn make_at(
        &mut self,
        asked: &Asked,
        spot: Spot,
        kind: NodeKind,
    ) -> Result<Option<NodeId>, ImageError> {
        let Some(directory) = spot.directory else { return Ok(None) };
        let node = self.tree.add(kind, false)?;
        self.tree.name(directory, spot.name, node);
        self.tree.node_mut(node).firm = true;
        self.written_by(directory, asked.who);
        Ok(Some(node))
    }

    fn link(&mut self, asked: &Asked, from: &PathArg, to: &PathArg) -> Result<(), ImageError> {
        let follow = !asked.means_link(from);
        let (Some(from), Some(to)) =
            (self.spot(asked, from, follow, true)?, self.spot(asked, to, false, true)?)
        else {
            return Ok(());
        };
        let node = self.tree.there(&from, NodeKind::Unknown, !follow)?;
        let Some(directory) = to.directory else { return Ok(()) };
        self.tree.name(directory, to.name, node);
        self.tree.node_mut(node).changed.links += 1;
        self.written_by(directory, asked.who);
        Ok(())
    }

    fn rename(&mut self, asked: &Asked, from: &PathArg, to: &PathArg) -> Result<(), ImageError> {
        let (Some(from), Some(to)) =
            (self.spot(asked, from, false, true)?, self.spot(asked, to, false, true)?)
        else {
            return Ok(());
        };
        let node = self.tree.there(&from, NodeKind::Unknown, true)?;
        let (Some(above_from), Some(above_to)) = (from.directory, to.directory) else {
            return Ok(());
        };
        let circular = self.tree.is_within(above_to, node);
        if to.node == Some(node) || circular {
            return Ok(());
        }
        if asked.flags(&flags::RENAME) & RENAME_EXCHANGE != 0 {
            let other = self.tree.there(&to, NodeKind::Unknown, true)?;
            if !self.tree.is_within(above_from, other) {
                self.tree.name(above_from, from.name, other);
                self.tree.name(above_to, to.name, node);
            }
        } else {
            if let Some(replaced) = to.node {
                self.taken_by(above_to, replaced, asked.who);
                self.tree.unname(above_to, &to.name);
                self.tree.node_mut(replaced).changed.links -= 1;
            }
            self.tree.name(above_to, to.name, node);
            self.tree.unname(above_from, &from.name);
        }
        self.taken_by(above_from, node, asked.who);
        self.written_by(above_from, asked.who);
        self.written_by(above_to, asked.who);
        Ok(())
    }

    fn remove(&mut self, asked: &Asked, path: &PathArg) -> Result<(), ImageError> {
        let Some(spot) = self.spot(asked, path, false, true)? else { return Ok(()) };
        let is_directory =
            asked.act == Act::RemoveDirectory || asked.flags(&flags::AT_UNLINK) & AT_REMOVEDIR != 0;
        let kind = if is_directory { NodeKind::Directory } else { NodeKind::Unknown };
        let node = self.tree.there(&spot, kind, true)?;
        let Some(directory) = spot.directory else { return Ok(()) };
        self.taken_by(directory, node, asked.who);
        self.tree.unname(directory, &spot.name);
        self.tree.node_mut(node).changed.links -= 1;
        self.written_by(directory, asked.who);
        Ok(())
    }

    /// Adds the file of a socket that is bound to a path.
    fn bind(&mut self, asked: &Asked) -> Result<(), ImageError> {
        let Some(data) = contents::piece(&asked.call.data, 1, part::WHOLE, 0, false) else {
            return Ok(());
        };
        let Ok(address) = self.stored.read(&data.content, 256) else { return Ok(()) };
        let Some(path) = address.strip_prefix(&AF_UNIX.to_le_bytes()) else { return Ok(()) };
        let text = path.split(|&c| c == 0).next().unwrap_or_default();
        if text.is_empty() {
            return Ok(());
        }
        let path = self.seen_by(asked, text.to_vec());
        self.make(asked, &path, NodeKind::Socket).map(drop)
    }

    /// Handles an open that may create the file.
    fn opens_or_makes(&mut self, asked: &mut Asked) -> Result<(), ImageError> {
        let flags = self.open_flags(asked);
        let Some(path) = asked.paths.first() else { return Ok(()) };
        if flags & O_TMPFILE_ALONE != 0 {
            asked.opened = Some(self.tree.add(NodeKind::File, false)?);
            if let Some(spot) = self.spot(asked, path, true, true)? {
                let directory = self.tree.there(&spot, NodeKind::Directory, false)?;
                self.written_by(directory, asked.who);
            }
        } else if flags & O_CREAT != 0 {
            let follow = flags & (O_EXCL | O_NOFOLLOW) == 0;
            let Some(spot) = self.spot(asked, path, follow, true)? else { return Ok(()) };
            let told = asked.call.identities.iter().find(|(arg, _)| *arg == path.arg);
            asked.opened = match told {
                Some((_, identity)) => Some(self.existing(asked, &spot, false, identity)?),
                None if spot.node.is_some() => spot.node,
                None => {
                    let known = spot.directory.and_then(|d| self.tree.entry(d, &spot.name));
                    let unsure = known.is_none() && flags & O_EXCL == 0;
                    let made = self.make_at(asked, spot, NodeKind::File)?;
                    if let Some(made) = made {
                        self.tree.node_mut(made).may_have_been = unsure;
                    }
                    made
                }
            };
        }
        Ok(())
    }

    /// Returns the flags of an open.
    pub fn open_flags(&mut self, asked: &Asked) -> u64 {
        model::open_flags(&asked.call, &mut self.stored).unwrap_or(0)
    }

    /// Learns the identity that a file had before the call.
    fn existing(
        &mut self,
        asked: &Asked,
        spot: &Spot,
        on_link: bool,
        identity: &Identity,
    ) -> Result<NodeId, ImageError> {
        let node = self.tree.there(spot, NodeKind::Unknown, on_link)?;
        self.learn(asked, node, on_link, identity)
    }

    /// A user changed the names in a directory, so that user may write to it.
    pub fn written_by(&mut self, directory: NodeId, who: (u32, u32)) {
        let node = self.tree.node_mut(directory);
        node.changed.mtime = true;
        node.about.written_by(who);
    }

    /// A user removed or renamed a file of a directory. If the file was another user's, the
    /// directory cannot be sticky.
    fn taken_by(&mut self, directory: NodeId, file: NodeId, who: (u32, u32)) {
        let owner = self.tree.node(file).about.owner.or(self.tree.node(file).about.writer);
        let made_it = !self.tree.node(file).initial;
        if who.0 != 0 && !made_it && owner.is_none_or(|owner| owner.0 != who.0) {
            self.tree.node_mut(directory).about.taken_from = true;
        }
    }
}
