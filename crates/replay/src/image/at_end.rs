//! What the recording's final manifest shows of files that were there before: owners and permissions
//! that no call told or changed, and symbolic links that no call examined (an open by that name found
//! or created a file at the link's target).

use trace::Trace;
use trace::manifest::{Entry, FileKind};

use super::tree::{Name, NodeId, NodeKind, TooMany, Tree};
use super::walk::Walk;

impl Tree {
    /// Takes what was read of a link's text for all of it, where nothing told its length.
    pub fn learn_texts(&mut self) -> Result<(), TooMany> {
        let links: Vec<NodeId> =
            self.ids().filter(|id| self.node(*id).about.text.is_some()).collect();
        for link in links {
            let about = &mut self.node_mut(link).about;
            if let Some(text) = about.text.take().filter(|_| about.length.is_none()) {
                self.learn_target(link, text)?;
            }
        }
        Ok(())
    }

    /// Learns from the manifest.
    pub fn learn_from_end(&mut self, trace: &Trace) -> Result<(), TooMany> {
        // Stop at an unreadable entry; the replay will report it.
        for entry in trace.manifest().map_while(Result::ok) {
            match entry.kind {
                FileKind::Link if !entry.target.is_empty() => {
                    self.was_a_link(&entry.path, entry.target)?;
                }
                FileKind::Regular | FileKind::Directory => self.had_attributes(&entry)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// What nobody has changed was so at first.
    fn had_attributes(&mut self, entry: &Entry) -> Result<(), TooMany> {
        let how = Walk { root: NodeId::ROOT, follow: false, is_there: false, canonical: false };
        let spot = self.walk(NodeId::ROOT, &entry.path, how)?;
        let Some(id) = spot.and_then(|spot| spot.node) else { return Ok(()) };
        let kind = match entry.kind {
            FileKind::Directory => NodeKind::Directory,
            _ => NodeKind::File,
        };
        let node = self.node_mut(id);
        if node.initial && node.kind == kind {
            let (about, changed) = (&mut node.about, &node.changed);
            if !changed.owner {
                about.owner.get_or_insert((entry.uid, entry.gid));
            }
            if !changed.mode {
                about.mode.get_or_insert(entry.mode & 0o7777);
            }
        }
        Ok(())
    }

    fn was_a_link(&mut self, path: &[u8], target: Vec<u8>) -> Result<(), TooMany> {
        let how = Walk { root: NodeId::ROOT, follow: false, is_there: false, canonical: false };
        let Some(spot) = self.walk(NodeId::ROOT, path, how)? else { return Ok(()) };
        let (Some(id), Some(home)) = (spot.node, spot.directory) else { return Ok(()) };
        let node = self.node(id);
        let made = !node.initial && node.may_have_been;
        match node.kind {
            NodeKind::File | NodeKind::Unknown if made => {
                self.made_through(id, home, spot.name, target)
            }
            NodeKind::Link if node.initial && node.target.is_none() => {
                self.learn_target(id, target)
            }
            NodeKind::File if node.initial => {
                let link = self.is_a_link(id)?;
                self.learn_target(link, target)
            }
            _ => Ok(()),
        }
    }

    /// A file that seemed to be created at a name was created at the target of a link.
    fn made_through(
        &mut self,
        file: NodeId,
        home: NodeId,
        name: Name,
        target: Vec<u8>,
    ) -> Result<(), TooMany> {
        let link = self.add(NodeKind::Link, true)?;
        self.name(home, name.clone(), link);
        if let Some(directory) = self.directory_mut(home) {
            directory.had.insert(name.clone(), link);
        }
        let node = self.node_mut(link);
        (node.firm, node.target) = (true, Some(target.clone()));
        node.was.push((home, name));
        let how = Walk { root: NodeId::ROOT, follow: true, is_there: true, canonical: false };
        if let Some(spot) = self.walk(home, &target, how)?
            && let (None, Some(directory)) = (spot.node, spot.directory)
        {
            self.name(directory, spot.name, file);
        }
        Ok(())
    }
}
