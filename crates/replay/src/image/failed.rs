//! Conclusions from failed calls: that a name does not exist, or what it is.

use syscalls::abi::errno;
use syscalls::abi::files::{O_CREAT, O_DIRECTORY, O_NOFOLLOW, R_OK, W_OK};
use syscalls::{Act, flags};

use super::ImageError;
use super::attributes::EXECUTE;
use super::fold::{Asked, Fold, PathArg};
use super::tree::{NodeId, NodeKind};

impl Fold<'_> {
    /// Handles a failed call.
    pub fn failed(&mut self, asked: &Asked, errno: i32) -> Result<(), ImageError> {
        let (Some(first), Some(last)) = (asked.paths.first(), asked.paths.last()) else {
            return Ok(());
        };
        let flags = if asked.act == Act::Open { self.open_flags(asked) } else { 0 };
        match errno {
            errno::ENOENT => self.is_absent(asked, first, last, flags),
            errno::ENOTDIR => self.is_no_directory(asked, first, flags),
            errno::EEXIST => {
                let node = self.is_there(asked, last, NodeKind::Unknown, true)?;
                // `mkdir -p` and the like fail this way for existing directories.
                if let Some(node) = node.filter(|_| asked.act == Act::MakeDirectory) {
                    self.tree.node_mut(node).guess = NodeKind::Directory;
                }
                Ok(())
            }
            errno::EISDIR => self.is_there(asked, last, NodeKind::Directory, false).map(drop),
            errno::ENOTEMPTY => {
                let node = self.is_there(asked, last, NodeKind::Directory, true)?;
                let node = node.filter(|node| self.tree.node(*node).initial);
                if let Some(directory) = node.and_then(|node| self.tree.directory_mut(node)) {
                    let known = directory.entries.values();
                    let is_empty = known.filter(|e| matches!(e, super::tree::Entry::There(_)));
                    directory.had_something |= is_empty.count() == 0;
                }
                Ok(())
            }
            errno::ELOOP => self.is_a_loop(asked, first, flags),
            errno::EACCES => self.is_forbidden(asked, first, flags),
            errno::ETXTBSY => self.is_there(asked, first, NodeKind::File, false).map(drop),
            errno::ENXIO if asked.act == Act::Open => {
                self.is_there(asked, first, NodeKind::Fifo, false).map(drop)
            }
            errno::EINVAL if asked.act == Act::ReadLink => {
                let on_link = asked.means_link(first);
                if let Some(node) = self.is_there(asked, first, NodeKind::Unknown, on_link)?
                    && on_link
                {
                    self.tree.is_no_link(node);
                }
                Ok(())
            }
            errno::EPERM | errno::EBUSY | errno::EROFS | errno::ERANGE | errno::ENODATA => {
                let on_link = asked.means_link(first);
                self.is_there(asked, first, NodeKind::Unknown, on_link).map(drop)
            }
            _ => Ok(()),
        }
    }

    fn is_there(
        &mut self,
        asked: &Asked,
        path: &PathArg,
        kind: NodeKind,
        on_link: bool,
    ) -> Result<Option<NodeId>, ImageError> {
        let Some(spot) = self.spot(asked, path, !on_link, true)? else { return Ok(None) };
        let node = self.tree.there(&spot, kind, on_link)?;
        for (arg, identity) in &asked.call.identities {
            if *arg == path.arg {
                return self.learn(asked, node, on_link, identity).map(Some);
            }
        }
        Ok(Some(node))
    }

    /// A name did not exist. Finds out which of two.
    fn is_absent(
        &mut self,
        asked: &Asked,
        first: &PathArg,
        last: &PathArg,
        flags: u64,
    ) -> Result<(), ImageError> {
        let on_link = asked.means_link(first) || flags & O_NOFOLLOW != 0;
        let two = first.arg != last.arg;
        // The directory of the second path must exist before the first path is to blame, and so
        // must the directory of a name to create.
        if two && self.spot(asked, last, false, false)?.is_none() {
            return Ok(());
        }
        let makes = asked.act.changes_names()
            && !two
            && !matches!(asked.act, Act::Remove | Act::RemoveDirectory);
        if makes || flags & O_CREAT != 0 {
            return Ok(());
        }
        if let Some(spot) = self.spot(asked, first, !on_link, false)? {
            self.tree.absent(&spot, on_link);
        }
        Ok(())
    }

    /// The path's last component, or one before it, is no directory.
    fn is_no_directory(
        &mut self,
        asked: &Asked,
        path: &PathArg,
        flags: u64,
    ) -> Result<(), ImageError> {
        let wants_directory =
            matches!(asked.act, Act::Directory | Act::Root | Act::Remove | Act::RemoveDirectory)
                || flags & O_DIRECTORY != 0
                || path.text.ends_with(b"/");
        if wants_directory && let Some(spot) = self.spot(asked, path, true, false)? {
            if spot.directory.is_some() {
                self.tree.there(&spot, NodeKind::File, false)?;
            }
            return Ok(());
        }
        let text = path.text.strip_suffix(b"/").unwrap_or(&path.text);
        let Some(end) = text.iter().rposition(|&c| c == b'/').filter(|end| *end > 0) else {
            return Ok(());
        };
        let above = path.with_text(text[..end].to_vec());
        if let Some(spot) = self.spot(asked, &above, true, false)?
            && spot.node.is_none()
        {
            self.tree.there(&spot, NodeKind::File, false)?;
        }
        Ok(())
    }

    /// A link that must not be followed, or that leads to itself.
    fn is_a_loop(&mut self, asked: &Asked, path: &PathArg, flags: u64) -> Result<(), ImageError> {
        let Some(node) = self.is_there(asked, path, NodeKind::Unknown, true)? else {
            return Ok(());
        };
        if !self.tree.node(node).initial {
            return Ok(());
        }
        let link = self.tree.is_a_link(node)?;
        let name = self.tree.node(link).was.first().map(|(_, name)| name.to_vec());
        if flags & O_NOFOLLOW == 0 {
            let node = self.tree.node_mut(link);
            if node.kind == NodeKind::Link && node.target.is_none() {
                node.target = name;
            }
        }
        Ok(())
    }

    /// The file, or its directory for a change of names, denied access.
    fn is_forbidden(
        &mut self,
        asked: &Asked,
        path: &PathArg,
        flags: u64,
    ) -> Result<(), ImageError> {
        let is_told = asked.call.identities.iter().any(|(arg, _)| *arg == path.arg);
        if asked.act.changes_names() || flags & O_CREAT != 0 && !is_told {
            return self.directory_at_most(asked, path, 0o555);
        }
        let wanted = asked.flags(&flags::ACCESS);
        let mode = match asked.act {
            Act::Access if wanted & R_OK != 0 => 0,
            Act::Access if wanted & W_OK != 0 => 0o555,
            Act::Access | Act::Execute => 0o644,
            Act::Open | Act::Directory => 0,
            // Access was denied in a directory on the path.
            Act::Plain
            | Act::OnLink
            | Act::ReadLink
            | Act::PivotRoot
            | Act::MoveMount
            | Act::Unmount => return self.directory_at_most(asked, path, 0o700),
            _ => return Ok(()),
        };
        let kind =
            if asked.act == Act::Directory { NodeKind::Directory } else { NodeKind::Unknown };
        let Some(node) = self.is_there(asked, path, kind, false)? else { return Ok(()) };
        // A directory can never be executed, whatever its mode.
        let is_refused =
            asked.act == Act::Execute && self.tree.node(node).kind == NodeKind::Directory;
        if !is_refused {
            self.at_most(node, mode);
        }
        Ok(())
    }

    fn directory_at_most(
        &mut self,
        asked: &Asked,
        path: &PathArg,
        mode: u32,
    ) -> Result<(), ImageError> {
        if let Some(spot) = self.spot(asked, path, false, true)?
            && let Some(directory) = spot.directory
        {
            self.at_most(directory, mode);
        }
        Ok(())
    }

    /// Assumes permissions that explain a refusal, until a call shows the real ones.
    fn at_most(&mut self, node: NodeId, mode: u32) {
        let node = self.tree.node_mut(node);
        if node.initial && !node.changed.mode {
            let execute = if node.about.executable { EXECUTE } else { 0 };
            node.about.mode.get_or_insert(mode | execute);
        }
    }
}
