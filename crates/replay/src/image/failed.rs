//! Conclusions from failed calls: that a name does not exist, or what it is.

use super::ImageError;
use super::changes::open_flag;
use super::fold::{Asked, Fold, PathArg};
use super::roles::Role;
use super::tree::{Kind, NodeId};

mod errno {
    pub const EPERM: i32 = 1;
    pub const ENOENT: i32 = 2;
    pub const ENXIO: i32 = 6;
    pub const EACCES: i32 = 13;
    pub const EBUSY: i32 = 16;
    pub const EEXIST: i32 = 17;
    pub const ENOTDIR: i32 = 20;
    pub const EISDIR: i32 = 21;
    pub const EINVAL: i32 = 22;
    pub const ETXTBSY: i32 = 26;
    pub const EROFS: i32 = 30;
    pub const ERANGE: i32 = 34;
    pub const ENOTEMPTY: i32 = 39;
    pub const ELOOP: i32 = 40;
    pub const ENODATA: i32 = 61;
}

/// `R_OK` and `W_OK`.
const R_OK: u64 = 4;
const W_OK: u64 = 2;

impl Fold<'_> {
    /// Handles a failed call.
    pub fn failed(&mut self, asked: &Asked, errno: i32) -> Result<(), ImageError> {
        let (Some(first), Some(last)) = (asked.paths.first(), asked.paths.last()) else {
            return Ok(());
        };
        let flags = if asked.role == Role::Open { self.open_flags(asked) } else { 0 };
        match errno {
            errno::ENOENT => self.is_absent(asked, first, last, flags),
            errno::ENOTDIR => self.is_no_directory(asked, first, flags),
            errno::EEXIST => {
                let node = self.is_there(asked, last, Kind::Unknown, true)?;
                // `mkdir -p` and the like fail this way for existing directories.
                if let Some(node) = node.filter(|_| asked.role == Role::MakeDirectory) {
                    self.tree.node_mut(node).guess = Kind::Directory;
                }
                Ok(())
            }
            errno::EISDIR => self.is_there(asked, last, Kind::Directory, false).map(drop),
            errno::ENOTEMPTY => {
                let node = self.is_there(asked, last, Kind::Directory, true)?;
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
            errno::ETXTBSY => self.is_there(asked, first, Kind::File, false).map(drop),
            errno::ENXIO if asked.role == Role::Open => {
                self.is_there(asked, first, Kind::Fifo, false).map(drop)
            }
            errno::EINVAL if asked.role == Role::ReadLink => {
                let on_link = asked.means_link(first);
                if let Some(node) = self.is_there(asked, first, Kind::Unknown, on_link)?
                    && on_link
                {
                    self.tree.is_no_link(node);
                }
                Ok(())
            }
            errno::EPERM | errno::EBUSY | errno::EROFS | errno::ERANGE | errno::ENODATA => {
                let on_link = asked.means_link(first);
                self.is_there(asked, first, Kind::Unknown, on_link).map(drop)
            }
            _ => Ok(()),
        }
    }

    fn is_there(
        &mut self,
        asked: &Asked,
        path: &PathArg,
        kind: Kind,
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
        let on_link = asked.means_link(first) || flags & open_flag::NOFOLLOW != 0;
        let two = first.arg != last.arg;
        // The directory of the second path must exist before the first path is to blame, and so
        // must the directory of a name to create.
        if two && self.spot(asked, last, false, false)?.is_none() {
            return Ok(());
        }
        let makes = asked.role.changes_names() && !two && asked.role != Role::Remove;
        if makes || flags & open_flag::CREAT != 0 {
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
        let wants_directory = matches!(asked.role, Role::Directory | Role::Root | Role::Remove)
            || flags & open_flag::DIRECTORY != 0
            || path.text.ends_with(b"/");
        if wants_directory && let Some(spot) = self.spot(asked, path, true, false)? {
            if spot.directory.is_some() {
                self.tree.there(&spot, Kind::File, false)?;
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
            self.tree.there(&spot, Kind::File, false)?;
        }
        Ok(())
    }

    /// A link that must not be followed, or that leads to itself.
    fn is_a_loop(&mut self, asked: &Asked, path: &PathArg, flags: u64) -> Result<(), ImageError> {
        let Some(node) = self.is_there(asked, path, Kind::Unknown, true)? else { return Ok(()) };
        if !self.tree.node(node).initial {
            return Ok(());
        }
        let link = self.tree.is_a_link(node)?;
        let name = self.tree.node(link).was.first().map(|(_, name)| name.to_vec());
        if flags & open_flag::NOFOLLOW == 0 {
            let node = self.tree.node_mut(link);
            if node.kind == Kind::Link && node.target.is_none() {
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
        if asked.role.changes_names() || flags & open_flag::CREAT != 0 && !is_told {
            return self.directory_at_most(asked, path, 0o555);
        }
        let mut access = asked.args.iter().zip(asked.call.args).filter(|(arg, _)| {
            arg.name == "mode" && matches!(arg.kind, syscalls::shape::Kind::Flags(_))
        });
        let mode = match (asked.role, access.next()) {
            (Role::Plain, Some((_, wanted))) if wanted & R_OK != 0 => 0,
            (Role::Plain, Some((_, wanted))) if wanted & W_OK != 0 => 0o555,
            (Role::Plain | Role::Execute, Some(_)) | (Role::Execute, None) => 0o644,
            (Role::Open | Role::Directory, _) => 0,
            // Access was denied in a directory on the path.
            (Role::Plain | Role::OnLink | Role::ReadLink, None) => {
                return self.directory_at_most(asked, path, 0o700);
            }
            _ => return Ok(()),
        };
        let kind = if asked.role == Role::Directory { Kind::Directory } else { Kind::Unknown };
        let Some(node) = self.is_there(asked, path, kind, false)? else { return Ok(()) };
        // A directory can never be executed, whatever its mode.
        let is_refused =
            asked.role == Role::Execute && self.tree.node(node).kind == Kind::Directory;
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
            node.about.mode.get_or_insert(mode);
        }
    }
}
