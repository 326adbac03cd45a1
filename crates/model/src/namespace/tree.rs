//! The names that paths consist of, as a tree: renaming a directory renames all that is below it.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

use super::ids::{FileId, NameId};
use crate::path::{BYTES_MAX, CUT};

/// Limits for the names and for their bytes.
const NAMES_MAX: usize = 400_000;
const NAME_BYTES_MAX: usize = 32 << 20;

/// The root directory.
const ROOT: NameId = NameId(0);
/// The parent of names that are no paths.
const LABELS: NameId = NameId(1);

/// What is known of a name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// No call has found a file there.
    #[default]
    Absent,
    /// The file is there.
    There,
    /// The file was removed.
    Gone,
}

#[derive(Debug)]
struct Name {
    parent: NameId,
    text: Arc<[u8]>,
    below: HashMap<Arc<[u8]>, NameId, Hashing>,
    file: Option<FileId>,
    state: State,
    /// True if it may be among the recent directories.
    is_recent: bool,
}

/// All names.
#[derive(Debug)]
pub(super) struct NamesTree {
    names: Vec<Name>,
    free: Vec<NameId>,
    bytes: usize,
    recent: Recent,
    hashing: Hashing,
}

/// A hash of short names that is faster than that of the standard library. Nobody can foresee
/// which names collide.
#[derive(Clone, Copy, Debug)]
struct Hashing {
    keys: [u64; 2],
}

impl Default for Hashing {
    fn default() -> Hashing {
        let random = RandomState::new();
        Hashing { keys: [random.hash_one(1), random.hash_one(2) | 1] }
    }
}

impl BuildHasher for Hashing {
    type Hasher = NameHasher;

    fn build_hasher(&self) -> NameHasher {
        NameHasher { sum: self.keys[0], key: self.keys[1] }
    }
}

struct NameHasher {
    sum: u64,
    key: u64,
}

impl NameHasher {
    /// Multiplies, and lets the upper half of the product count too.
    fn mix(&mut self, word: u64) {
        let product = u128::from(self.sum ^ word) * u128::from(self.key);
        self.sum = product as u64 ^ (product >> 64) as u64;
    }
}

impl Hasher for NameHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.mix(u64::from_le_bytes(*word)));
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.mix(u64::from_le_bytes(last));
    }

    fn write_usize(&mut self, length: usize) {
        self.sum = self.sum.rotate_left(23) ^ length as u64;
    }

    fn finish(&self) -> u64 {
        self.sum
    }
}

/// Directories that were found before by their paths, so that a path costs one look-up and not one
/// for each of its names.
#[derive(Debug, Default)]
struct Recent {
    places: Vec<Place>,
    /// Places of other generations are out of date.
    generation: u64,
    hashing: Hashing,
}

#[derive(Clone, Debug, Default)]
struct Place {
    path: Vec<u8>,
    name: NameId,
    generation: u64,
}

/// Number of recent directories, a power of two.
const RECENT: usize = 512;

impl Recent {
    fn place(&self, path: &[u8]) -> usize {
        let mut hasher = self.hashing.build_hasher();
        hasher.write(path);
        hasher.finish() as usize % RECENT
    }

    fn find(&self, path: &[u8]) -> Option<NameId> {
        let place = self.places.get(self.place(path))?;
        let is_it = place.generation == self.generation && place.path == path && !path.is_empty();
        is_it.then_some(place.name)
    }

    fn add(&mut self, path: &[u8], name: NameId) {
        self.places.resize_with(RECENT, Place::default);
        let at = self.place(path);
        let place = &mut self.places[at];
        place.path.clear();
        place.path.extend_from_slice(path);
        (place.name, place.generation) = (name, self.generation);
    }

    fn forget_all(&mut self) {
        self.generation += 1;
    }
}

impl Default for NamesTree {
    fn default() -> NamesTree {
        let hashing = Hashing::default();
        let name = |parent, text: &[u8]| Name {
            parent,
            text: text.into(),
            below: HashMap::with_hasher(hashing),
            file: None,
            state: State::Absent,
            is_recent: false,
        };
        NamesTree {
            names: vec![name(ROOT, b""), name(LABELS, b"")],
            free: Vec::new(),
            bytes: 0,
            recent: Recent::default(),
            hashing,
        }
    }
}

impl NamesTree {
    fn get(&self, name: NameId) -> &Name {
        &self.names[name.0 as usize]
    }

    fn get_mut(&mut self, name: NameId) -> &mut Name {
        &mut self.names[name.0 as usize]
    }

    /// Returns the file of a name.
    pub fn file(&self, name: NameId) -> Option<FileId> {
        self.get(name).file
    }

    /// Returns what is known of a name.
    pub fn state(&self, name: NameId) -> State {
        self.get(name).state
    }

    /// Sets the file of a name, and what is known of it.
    pub fn set(&mut self, name: NameId, file: Option<FileId>, state: State) {
        let name = self.get_mut(name);
        (name.file, name.state) = (file, state);
    }

    /// Returns the name of a path, if it is known.
    pub fn find(&self, path: &[u8]) -> Option<NameId> {
        let (directory, last) = split(path);
        if let Some(at) = self.recent.find(directory) {
            return self.get(at).below.get(last).copied();
        }
        let (mut at, texts) = texts(path);
        for text in texts {
            at = *self.get(at).below.get(text)?;
        }
        Some(at)
    }

    /// Returns the name of a path, `None` beyond the limits.
    pub fn make(&mut self, path: &[u8]) -> Option<NameId> {
        if let Some(directory) = self.recent.find(path) {
            return Some(directory);
        }
        match self.place(path)? {
            (start, b"") => Some(start),
            (directory, text) => self.below(directory, text),
        }
    }

    /// Returns the directory of a path, and the last name; this is empty for a root.
    fn place<'p>(&mut self, path: &'p [u8]) -> Option<(NameId, &'p [u8])> {
        let (directory, last) = split(path);
        if let Some(at) = self.recent.find(directory) {
            return Some((at, last));
        }
        let (mut at, mut texts) = texts(path);
        let mut text: &[u8] = texts.next().unwrap_or_default();
        for next in texts {
            at = self.below(at, text)?;
            text = next;
        }
        if !last.is_empty() {
            self.recent.add(directory, at);
            self.get_mut(at).is_recent = true;
        }
        Some((at, text))
    }

    fn below(&mut self, at: NameId, text: &[u8]) -> Option<NameId> {
        match self.get(at).below.get(text) {
            Some(below) => Some(*below),
            None => self.add(at, text),
        }
    }

    /// Forgets the recent directories before a name, or one below it, has another path.
    fn moves(&mut self, name: NameId) {
        let name = self.get(name);
        if name.is_recent || !name.below.is_empty() {
            self.recent.forget_all();
        }
    }

    fn add(&mut self, parent: NameId, text: &[u8]) -> Option<NameId> {
        if self.bytes + text.len() > NAME_BYTES_MAX {
            return None;
        }
        let (file, state) = (None, State::Absent);
        let below = HashMap::with_hasher(self.hashing);
        let is_recent = false;
        let text: Arc<[u8]> = text.into();
        let name = Name { parent, text: Arc::clone(&text), below, file, state, is_recent };
        let id = match self.free.pop() {
            Some(id) => {
                *self.get_mut(id) = name;
                id
            }
            None if self.names.len() < NAMES_MAX => {
                self.names.push(name);
                NameId(self.names.len() as u32 - 1)
            }
            None => return None,
        };
        self.bytes += text.len();
        self.get_mut(parent).below.insert(text, id);
        Some(id)
    }

    /// Returns the path of a name; its beginning is cut off if it is too long.
    pub fn path(&self, name: NameId) -> Vec<u8> {
        if name == ROOT {
            return b"/".to_vec();
        }
        let (mut above, mut bytes, mut is_cut) = (name, 0, false);
        while above != ROOT && above != LABELS && !is_cut {
            let Name { parent, text, .. } = self.get(above);
            is_cut = bytes + text.len() + 1 > BYTES_MAX - CUT.len() && *parent != LABELS;
            if !is_cut {
                bytes += text.len() + usize::from(*parent != LABELS);
                above = *parent;
            }
        }
        let mut path = vec![b'/'; if is_cut { CUT.len() + bytes } else { bytes }];
        let (mut at, mut end) = (name, path.len());
        while at != above {
            let Name { parent, text, .. } = self.get(at);
            path[end - text.len()..end].copy_from_slice(text);
            end = (end - text.len()).saturating_sub(1);
            at = *parent;
        }
        if is_cut {
            path[..CUT.len()].copy_from_slice(CUT);
        }
        path
    }

    /// Gives a name another place, with all that is below it; what was there is no more. Returns
    /// false if that cannot be: at a limit, or below itself.
    pub fn rename(&mut self, name: NameId, to: &[u8]) -> bool {
        let Some((parent, text)) = self.place(to) else { return false };
        let target = self.get(parent).below.get(text).copied();
        if target == Some(name) {
            return true;
        }
        let has_room = self.bytes + text.len() <= NAME_BYTES_MAX;
        if !has_room || text.is_empty() || name.0 <= LABELS.0 || self.is_at_or_below(parent, name) {
            return false;
        }
        if let Some(target) = target {
            self.clear_below(target);
            self.moves(target);
            self.unhook(target);
            self.free.push(target);
        }
        self.moves(name);
        self.unhook(name);
        let text: Arc<[u8]> = text.into();
        self.bytes += text.len();
        self.get_mut(parent).below.insert(Arc::clone(&text), name);
        let moved = self.get_mut(name);
        (moved.parent, moved.text) = (parent, text);
        true
    }

    /// Exchanges two names with all that is below them, unless one is below the other.
    pub fn exchange(&mut self, one: NameId, other: NameId) {
        if self.is_at_or_below(one, other) || self.is_at_or_below(other, one) {
            return;
        }
        self.moves(one);
        self.moves(other);
        let place = |name: &Name| (name.parent, name.text.clone());
        let places = [place(self.get(one)), place(self.get(other))];
        for (name, (parent, text)) in [other, one].into_iter().zip(places) {
            self.get_mut(parent).below.insert(text.clone(), name);
            let moved = self.get_mut(name);
            (moved.parent, moved.text) = (parent, text);
        }
    }

    /// Returns all names below a name.
    pub fn all_below(&self, name: NameId) -> Vec<NameId> {
        let mut all: Vec<NameId> = self.get(name).below.values().copied().collect();
        let mut done = 0;
        while let Some(next) = all.get(done) {
            let below = self.get(*next).below.values().copied();
            all.extend(below.collect::<Vec<_>>());
            done += 1;
        }
        all
    }

    /// Removes all names below a name.
    pub fn clear_below(&mut self, name: NameId) {
        if self.get(name).below.is_empty() {
            return;
        }
        self.moves(name);
        for below in self.all_below(name) {
            let none = HashMap::with_hasher(self.hashing);
            let gone = self.get_mut(below);
            gone.below = none;
            let bytes = std::mem::take(&mut gone.text).len();
            self.bytes -= bytes;
            self.free.push(below);
        }
        self.get_mut(name).below = HashMap::with_hasher(self.hashing);
    }

    /// Takes a name out of its directory.
    fn unhook(&mut self, name: NameId) {
        let name = self.get_mut(name);
        let (parent, text) = (name.parent, std::mem::take(&mut name.text));
        self.bytes -= text.len();
        self.get_mut(parent).below.remove(&text);
    }

    /// Returns true if a name is another one, or below it.
    fn is_at_or_below(&self, name: NameId, above: NameId) -> bool {
        let mut at = name;
        loop {
            if at == above {
                return true;
            }
            let parent = self.get(at).parent;
            if parent == at {
                return false;
            }
            at = parent;
        }
    }
}

/// Splits a path at its last name. Both parts are empty for what is no plain path.
fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|&c| c == b'/') {
        Some(slash) if path[0] == b'/' && slash > 0 && slash + 1 < path.len() => {
            (&path[..slash], &path[slash + 1..])
        }
        _ => (b"", b""),
    }
}

/// Splits a path into names, and says where they begin. What is no path is one name.
fn texts(path: &[u8]) -> (NameId, impl Iterator<Item = &[u8]>) {
    let is_path = path.first() == Some(&b'/');
    let (start, rest) = if is_path { (ROOT, &path[1..]) } else { (LABELS, path) };
    let parts = rest.split(move |&c| is_path && c == b'/');
    (start, parts.filter(|text| !text.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_below_moves_along() {
        let mut tree = NamesTree::default();
        let deep = tree.make(b"/a/b/c").unwrap();
        let a = tree.find(b"/a").unwrap();
        tree.make(b"/x/old/gone").unwrap();
        assert!(tree.rename(a, b"/x/old"));
        assert_eq!(tree.path(deep), b"/x/old/b/c");
        assert_eq!((tree.find(b"/a"), tree.find(b"/x/old/gone")), (None, None));
        assert_eq!(tree.find(b"/x/old/b/c"), Some(deep));
        // Not below itself.
        assert!(!tree.rename(a, b"/x/old/b/d") && tree.path(a) == b"/x/old");
        let other = tree.make(b"/y").unwrap();
        tree.exchange(a, other);
        assert_eq!((tree.path(deep), tree.path(other)), (b"/y/b/c".to_vec(), b"/x/old".to_vec()));
        let x = tree.find(b"/x").unwrap();
        tree.exchange(x, other);
        assert_eq!(tree.path(other), b"/x/old");
    }

    #[test]
    fn recent_directories_are_forgotten_when_they_move() {
        let mut tree = NamesTree::default();
        let one = tree.make(b"/a/b/one").unwrap();
        assert_eq!((tree.make(b"/a/b/one"), tree.find(b"/a/b//one")), (Some(one), Some(one)));
        let a = tree.find(b"/a").unwrap();
        assert!(tree.rename(a, b"/c"));
        assert_eq!((tree.find(b"/a/b/one"), tree.find(b"/c/b/one")), (None, Some(one)));
        let other = tree.make(b"/a/b/one").unwrap();
        let again = tree.find(b"/a").unwrap();
        tree.exchange(a, again);
        assert_eq!((tree.make(b"/a/b/one"), tree.make(b"/c/b/one")), (Some(one), Some(other)));
        tree.clear_below(a);
        assert_eq!(tree.find(b"/a/b/one"), None);
        // A directory without a name in it.
        tree.make(b"/d/e").unwrap();
        let d = tree.find(b"/d").unwrap();
        tree.clear_below(d);
        assert_eq!(tree.find(b"/d/e"), None);
        let from = tree.make(b"/f").unwrap();
        assert!(tree.rename(from, b"/d"));
        assert_eq!(tree.path(tree.find(b"/d").unwrap()), b"/d");
        let new = tree.make(b"/d/e").unwrap();
        assert_eq!(tree.path(new), b"/d/e");
    }

    #[test]
    fn numbers_of_names_that_are_no_more_are_given_again() {
        let mut tree = NamesTree::default();
        let a = tree.make(b"/a").unwrap();
        for round in 0..10 {
            tree.make(format!("/a/{round}/b").as_bytes()).unwrap();
            tree.clear_below(a);
        }
        let bytes = tree.bytes;
        assert_eq!((tree.names.len(), bytes), (5, 1));
        for round in 0..10 {
            let from = tree.make(format!("/f{round}").as_bytes()).unwrap();
            assert!(tree.rename(from, b"/to"));
        }
        assert_eq!((tree.names.len(), tree.bytes), (5, 3));
    }

    #[test]
    fn paths_are_whole_or_cut() {
        let mut tree = NamesTree::default();
        for path in ["/", "/a", "/a/b c", "pipe:[3]", "a/b", "/dir/# (deleted)"] {
            let name = tree.make(path.as_bytes()).unwrap();
            assert_eq!(tree.path(name), path.as_bytes());
        }
        let long = "/0123456789".repeat(300);
        let dir = tree.make(long.as_bytes()).unwrap();
        let top = tree.find(b"/0123456789").unwrap();
        assert!(tree.rename(top, format!("{}/x", "/abcdefghi".repeat(300)).as_bytes()));
        let path = tree.path(dir);
        assert!(path.len() <= BYTES_MAX && path.starts_with(CUT), "{}", path.len());
        let far = (0..NAMES_MAX).find(|n| tree.make(format!("/n/{n}").as_bytes()).is_none());
        assert!(far.is_some_and(|far| far > NAMES_MAX / 2));
    }
}
