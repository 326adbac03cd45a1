//! Names that turn out to lead to one file: hard links, or paths through a symbolic link to a
//! directory that no call named.

use super::tree::{Directory, Entry, Name, Node, NodeId, NodeKind, TooMany, Tree, relative};
use super::walk::Walk;

/// Most names of one file that are searched: some files have thousands, all reported in a row.
const NAMES_LOOKED_AT: usize = 256;

impl Tree {
    /// Two names led to the same inode with link count `links`: if that many other names are known,
    /// the newer one leads through a symbolic link. Returns the file that it leads to from now on.
    pub fn same(&mut self, known: NodeId, newer: NodeId, links: u32) -> Result<NodeId, TooMany> {
        let (known, newer) = (self.find(known), self.find(newer));
        self.was_there(newer);
        if known == newer || !self.are_alike(known, newer) {
            return Ok(newer);
        }
        let node = self.node(known);
        let has_several = links > 1 && node.kind != NodeKind::Directory;
        if has_several && (node.names < links || self.node(newer).firm) {
            self.absorb(known, newer);
            return Ok(known);
        }
        let Some((real, link)) = self.topmost(known, newer) else {
            if has_several {
                self.absorb(known, newer);
            }
            return Ok(self.find(newer));
        };
        self.link_to(link, real)?;
        Ok(self.find(known))
    }

    /// Whether a file was there before, and no call has named it: it was reached through a link.
    pub fn is_nameless(&self, id: NodeId) -> bool {
        let node = self.node(id);
        node.initial && node.names == 0 && node.was.is_empty()
    }

    /// Two files with one inode, of which at least one has no name, are one. Returns it.
    pub fn reached(&mut self, known: NodeId, newer: NodeId) -> NodeId {
        let (known, newer) = (self.find(known), self.find(newer));
        let (named, other) = if self.is_nameless(known) { (newer, known) } else { (known, newer) };
        if self.node(named).initial {
            self.absorb(named, other);
        }
        self.find(newer)
    }

    /// A file that seemed to be created existed before the recording.
    fn was_there(&mut self, id: NodeId) {
        let node = self.node_mut(id);
        let Some((directory, name)) = node.home.clone().filter(|_| node.may_have_been) else {
            return;
        };
        (node.initial, node.content) = (true, None);
        node.was.push((directory, name.clone()));
        if let Some(directory) = self.directory_mut(directory) {
            directory.had.insert(name, id);
        }
    }

    fn are_alike(&self, a: NodeId, b: NodeId) -> bool {
        let (a, b) = (self.node(a), self.node(b));
        a.kind == b.kind || a.kind == NodeKind::Unknown || b.kind == NodeKind::Unknown
    }

    /// Finds the highest directories of two paths to one file, below which the names agree: the
    /// first is taken for the directory, the second for a link to it.
    fn topmost(&self, known: NodeId, newer: NodeId) -> Option<(NodeId, NodeId)> {
        let (mut a, mut b) = (known, newer);
        while let Some((above_b, name)) = self.node(b).home.clone() {
            let above_b = self.find(above_b);
            let Some(above_a) = self.holder(a, &name) else { break };
            if above_a == above_b || !self.may_be_one(above_a, above_b) {
                break;
            }
            // A link to its own ancestor or descendant: more likely there are links further down.
            if self.is_within(above_a, above_b) || self.is_within(above_b, above_a) {
                break;
            }
            (a, b) = (above_a, above_b);
        }
        let fits =
            |link: NodeId, real: NodeId| self.may_be_link(link) && !self.is_within(real, link);
        if fits(b, a) {
            Some((a, b))
        } else if fits(a, b) {
            Some((b, a))
        } else {
            None
        }
    }

    /// Returns a directory in which a file currently has this name.
    fn holder(&self, id: NodeId, name: &Name) -> Option<NodeId> {
        let node = self.node(id);
        let names = node.home.iter().chain(&node.was);
        let names = names.take(NAMES_LOOKED_AT);
        let same = names.filter(|(_, other)| other == name).map(|(directory, _)| *directory);
        let mut holders = same.filter(|d| self.entry(*d, name) == Some(Entry::There(id)));
        holders.next().map(|directory| self.find(directory))
    }

    fn may_be_one(&self, a: NodeId, b: NodeId) -> bool {
        if !self.may_be_link(a) && !self.may_be_link(b) {
            return false;
        }
        let (a, b) = (self.node(a), self.node(b));
        let same_inode = a.inode.is_none() || b.inode.is_none() || a.inode == b.inode;
        same_inode && a.initial && b.initial
    }

    /// Whether nothing has shown that a name is no link.
    fn may_be_link(&self, id: NodeId) -> bool {
        let denied = |path| self.no_links.contains(&path);
        !self.node(id).firm && !self.path_at_first(id).is_some_and(denied)
    }

    /// Replaces a supposed file or directory by a symbolic link.
    fn link_to(&mut self, link: NodeId, real: NodeId) -> Result<(), TooMany> {
        let (Some(from), Some(to)) = (self.path_now(link), self.path_now(real)) else {
            return Ok(());
        };
        let new = self.add(NodeKind::Link, true)?;
        self.take_names(new, link);
        let node = self.node_mut(new);
        node.target = Some(relative(&from, &to));
        (node.guessed, node.through) = (true, Some(real));
        self.node_mut(real).guessed_by = Some(new);
        self.absorb(real, link);
        Ok(())
    }

    /// Moves the names of one file to another.
    fn take_names(&mut self, new: NodeId, old: NodeId) {
        let was = std::mem::take(&mut self.node_mut(old).was);
        self.put_names(new, old, &was);
        self.node_mut(new).was = was;
    }

    fn put_names(&mut self, new: NodeId, old: NodeId, was: &[(NodeId, Name)]) {
        let old = self.find(old);
        for (directory, name) in was {
            if self.entry(*directory, name) == Some(Entry::There(old)) {
                self.name(*directory, name.clone(), new);
            }
            if let Some(directory) = self.directory_mut(*directory) {
                directory.had.insert(name.clone(), new);
            }
        }
    }

    /// A name turned out to be no link. Returns the file.
    pub fn is_no_link(&mut self, id: NodeId) -> NodeId {
        let id = self.deny_guess(id);
        let node = self.node_mut(id);
        node.firm |= node.kind != NodeKind::Link;
        id
    }

    /// Corrects a name that was only guessed to be a link. Where that is too late, records it for
    /// the next pass. Returns the file.
    pub fn deny_guess(&mut self, id: NodeId) -> NodeId {
        let id = self.find(id);
        if !self.node(id).guessed {
            return id;
        }
        let found = self.swap(id);
        if found == id {
            let real = self.node(id).through.filter(|real| self.node(*real).firm);
            let paths =
                [Some(id), real].into_iter().flatten().filter_map(|id| self.path_at_first(id));
            self.denied.extend(paths.collect::<Vec<_>>());
        }
        found
    }

    /// Paths taken for one directory have different inodes, so there are two.
    pub fn deny_being_one(&mut self, id: NodeId) {
        let node = self.node(id);
        let Some(link) = node.guessed_by.filter(|_| node.initial) else { return };
        if self.node(link).guessed {
            let paths = [id, link].into_iter().filter_map(|id| self.path_at_first(id));
            self.denied.extend(paths.collect::<Vec<_>>());
        }
    }

    /// Exchanges a guessed link with its directory. Returns the directory.
    fn swap(&mut self, link: NodeId) -> NodeId {
        let Some(real) = self.node(link).through.map(|real| self.find(real)) else { return link };
        let node = self.node(link);
        let is_sure = !node.guessed || node.firm || self.node(real).firm;
        let (Some(from), Some(to)) = (self.path_now(real), self.path_now(link)) else {
            return link;
        };
        if is_sure || self.node(real).kind != NodeKind::Directory {
            return link;
        }
        let (names, others) = (self.node(link).was.clone(), self.node(real).was.clone());
        self.put_names(real, link, &names);
        self.put_names(link, real, &others);
        let node = self.node_mut(link);
        (node.was, node.target) = (others, Some(relative(&from, &to)));
        self.node_mut(real).was = names;
        real
    }

    /// A name turned out to be a symbolic link. Returns the link.
    pub fn is_a_link(&mut self, id: NodeId) -> Result<NodeId, TooMany> {
        let id = self.find(id);
        let node = self.node(id);
        if let Some(link) =
            node.guessed_by.filter(|_| node.kind == NodeKind::Directory && !node.firm)
        {
            let link = self.find(link);
            if self.swap(link) == id {
                return Ok(link);
            }
        }
        let node = self.node(id);
        match node.kind {
            NodeKind::Link | NodeKind::Unknown => {
                self.set_kind(id, NodeKind::Link);
                self.node_mut(id).firm = true;
                Ok(id)
            }
            _ if node.firm || !node.initial => Ok(id),
            _ => {
                let link = self.add(NodeKind::Link, true)?;
                self.take_names(link, id);
                let node = self.node_mut(link);
                (node.firm, node.through) = (true, Some(id));
                Ok(link)
            }
        }
    }

    /// Sets the target of a link.
    pub fn learn_target(&mut self, link: NodeId, target: Vec<u8>) -> Result<(), TooMany> {
        let node = self.node_mut(link);
        let is_known = node.target.is_some() && !node.guessed;
        if node.kind != NodeKind::Link || is_known || target.is_empty() {
            return Ok(());
        }
        if node.guessed {
            // The guess was based on a file reached through the link, so the file is right.
            (node.guessed, node.through, node.target) = (false, None, Some(target));
            return Ok(());
        }
        node.target = Some(target.clone());
        let (through, home) = (node.through.take(), node.home.clone());
        let (Some(through), Some((home, _))) = (through, home) else { return Ok(()) };
        let beyond = self.node(through);
        if !beyond.initial && !beyond.found && beyond.kind == NodeKind::Unknown {
            // It led nowhere.
            return Ok(());
        }
        let how = Walk { root: NodeId::ROOT, follow: true, is_there: true, canonical: false };
        let Some(spot) = self.walk(home, &target, how)? else { return Ok(()) };
        match (spot.node, spot.directory) {
            (Some(node), _) if self.are_alike(node, through) => self.absorb(node, through),
            (None, Some(directory)) if self.entry(directory, &spot.name).is_none() => {
                self.node_mut(through).was.push((directory, spot.name.clone()));
                if let Some(directory) = self.directory_mut(directory) {
                    directory.had.insert(spot.name.clone(), through);
                }
                self.name(directory, spot.name, through);
            }
            _ => {}
        }
        Ok(())
    }

    /// Learns the beginning of a link's text, which is all of it if it is as long as the link.
    pub fn learn_beginning(&mut self, link: NodeId, text: Vec<u8>) -> Result<(), TooMany> {
        let about = &mut self.node_mut(link).about;
        if about.length == Some(text.len() as u64) {
            return self.learn_target(link, text);
        }
        let known = about.text.get_or_insert_default();
        if known.len() < text.len() {
            *known = text;
        }
        Ok(())
    }

    /// Learns the length of a link's text.
    pub fn learn_length(&mut self, link: NodeId, length: u64) -> Result<(), TooMany> {
        let about = &mut self.node_mut(link).about;
        // The kernel's own links have no length.
        about.length = about.length.or(Some(length).filter(|length| *length > 0));
        match about.text.take_if(|text| text.len() as u64 == length) {
            Some(text) => self.learn_target(link, text),
            None => Ok(()),
        }
    }

    /// Merges `from` into `to`, with all that is known of either.
    fn absorb(&mut self, to: NodeId, from: NodeId) {
        let mut pairs = vec![(to, from)];
        while let Some((to, from)) = pairs.pop() {
            let (to, from) = (self.find(to), self.find(from));
            if to == from || from == NodeId::ROOT || !self.are_alike(to, from) {
                continue;
            }
            self.set_kind(to, self.node(from).kind);
            let old = self.forward(from, to);
            let Some(directory) = self.unite(to, old) else { continue };
            for (name, child) in directory.had {
                let at_first = self.directory(to).and_then(|known| known.had.get(&name).copied());
                match (at_first, self.entry(to, &name)) {
                    (Some(known), _) => pairs.push((known, child)),
                    (None, None) => {
                        if let Some(known) = self.directory_mut(to) {
                            known.had.insert(name, child);
                        }
                    }
                    // The name was created or removed meanwhile: its present state tells nothing
                    // about the initial one.
                    (None, Some(now)) => {
                        self.was_not(child, to, &name);
                        if let Entry::There(known) = now {
                            pairs.push((known, child));
                        }
                    }
                }
            }
            for (name, entry) in directory.entries {
                let known = self.entry(to, &name);
                if !matches!(known, Some(Entry::There(_)))
                    && let Some(known) = self.directory_mut(to)
                {
                    known.entries.insert(name, entry);
                }
            }
        }
    }

    /// Removes a name from a file's initial names.
    fn was_not(&mut self, id: NodeId, directory: NodeId, name: &Name) {
        let was = std::mem::take(&mut self.node_mut(id).was);
        let same = |(d, n): &(NodeId, Name)| self.find(*d) == directory && n == name;
        let was: Vec<_> = was.into_iter().filter(|at| !same(at)).collect();
        let node = self.node_mut(id);
        node.initial = !was.is_empty();
        node.was = was;
    }

    /// Adds the knowledge about a merged file. Returns its directory, if it was one.
    fn unite(&mut self, to: NodeId, old: Node) -> Option<Box<Directory>> {
        let mut was: Vec<(NodeId, Name)> = self.node_mut(to).was.drain(..).collect();
        for (directory, name) in &old.was {
            let directory = self.find(*directory);
            let mut last = was.iter().rev().take(NAMES_LOOKED_AT);
            if !last.any(|(d, n)| self.find(*d) == directory && n == name) {
                was.push((directory, name.clone()));
            }
        }
        let node = self.node_mut(to);
        node.was = was;
        node.names += old.names;
        node.found |= old.found;
        node.initial |= old.initial && !old.was.is_empty();
        node.inode = node.inode.or(old.inode);
        let (about, other) = (&mut node.about, old.about);
        about.mode = about.mode.or(other.mode);
        about.owner = about.owner.or(other.owner);
        about.length = about.length.or(other.length);
        about.text = about.text.take().or(other.text);
        about.writers |= other.writers;
        about.taken_from |= other.taken_from;
        about.executable |= other.executable;
        if let Some(who) = other.writer {
            about.written_by(who);
        }
        about.links = about.links.or(other.links);
        about.mtime_ns = about.mtime_ns.or(other.mtime_ns);
        about.xattrs.extend(other.xattrs);
        let unseen = node.content.as_ref().is_none_or(|content| content.seen.is_empty());
        if unseen && old.initial && old.content.is_some() {
            node.content = old.content;
        }
        if node.target.is_none() {
            (node.target, node.through) = (old.target, old.through);
        }
        old.directory
    }
}
