//! The manifest: looks, when the recording has ended, at every path that the program changed.
//!
//! What vanishes or changes meanwhile is a fact about the file system, not an error. A path is looked at
//! with the rights of the user who changed it: what else lies there by now is none of his business.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use events::record::GapWhy;
use files::{Inode, Seen, Tree, Want};
use model::path;
use trace::WriteError;
use trace::manifest::{Content, Ending, Entry, FileKind, ManifestWriter, Scope};

use crate::changes::{Changed, PATHS_MAX, Paths, mark};
use crate::output::Output;
use crate::rights;

/// Paths that are looked at together, by several threads.
const PATHS_AT_A_TIME: usize = 512;
/// How many links in a row are followed.
const LINKS_MAX: usize = 40;

/// What is left of the paths that were changed.
struct Survey {
    tree: Tree,
    /// Files of our own, which no manifest has.
    own: Option<Inode>,
    /// Paths that are to be looked at, their marks, and with whose rights.
    wanted: HashMap<Box<[u8]>, (u8, u32)>,
    paths: Paths,
    /// Files with several names: the number that these share.
    same: HashMap<Inode, u64>,
}

impl Survey {
    /// Of a recording that has come to its end. `None` where the root cannot be opened.
    fn new(mut paths: Paths, own: Option<Inode>) -> Option<Survey> {
        let tree = Tree::open(Path::new("/")).ok()?;
        let mut by_user: BTreeMap<u32, Vec<Changed>> = BTreeMap::new();
        for changed in paths.take() {
            by_user.entry(changed.2).or_default().push(changed);
        }
        let mut survey = Survey { tree, own, wanted: HashMap::new(), paths, same: HashMap::new() };
        for (user, changed) in by_user {
            if rights::with(user, || survey.add(&changed, user)).is_none() {
                // Nobody looks, so nothing is found there.
                let bare = changed.into_iter().map(|(path, marks, user)| (path, (marks, user)));
                survey.wanted.extend(bare);
            }
        }
        Some(survey)
    }

    /// Adds what a user has changed.
    fn add(&mut self, changed: &[Changed], user: u32) {
        let mut waiting = Vec::new();
        for (path, marks, _) in changed {
            let settled = self.settled(path);
            let wanted = self.wanted.entry(settled.clone()).or_insert((0, user));
            *wanted = (wanted.0 | marks, rights::lesser(wanted.1, user));
            waiting.push(settled);
        }
        self.widen(waiting, user);
    }

    /// A path without `..`. Where links make a difference, it is what the kernel says.
    fn settled(&self, spelt: &[u8]) -> Box<[u8]> {
        let tidy = path::resolve(b"/", spelt);
        if !spelt.split(|&byte| byte == b'/').any(|name| name == b"..") {
            return tidy.into();
        }
        let parent = |path: &[u8]| self.tree.parent_of(path);
        match (parent(spelt), parent(&tidy)) {
            (Some(real), lexical) if lexical.as_ref() != Some(&real) => {
                let name = spelt.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
                path::resolve(&real, name).into()
            }
            _ => tidy.into(),
        }
    }

    /// Adds what changed with a path: where a link leads through which it was changed, and what is in a directory that moved.
    fn widen(&mut self, mut waiting: Vec<Box<[u8]>>, user: u32) {
        let mut links = HashSet::new();
        while let Some(path) = waiting.pop() {
            let entry = self.tree.look(&path, Want::Nothing).entry;
            let marks = self.wanted.get(&path).map_or(0, |(marks, _)| *marks);
            let found: Vec<Box<[u8]>> = match entry.kind {
                FileKind::Link
                    if marks & mark::THROUGH != 0
                        && links.len() < PATHS_MAX
                        && links.insert(path.clone()) =>
                {
                    self.destination(&path, user).into_iter().collect()
                }
                FileKind::Directory if marks & mark::MOVED != 0 => {
                    let names = self.tree.names(&path).unwrap_or_default();
                    names.iter().map(|name| path::resolve(&path, name).into()).collect()
                }
                _ => continue,
            };
            for new in found {
                if self.wanted.len() >= PATHS_MAX {
                    self.paths.truncated = true;
                    return;
                }
                let below = if entry.kind == FileKind::Directory { mark::MOVED } else { 0 };
                let (known, _) = self.wanted.entry(new.clone()).or_insert_with(|| {
                    waiting.push(new.clone());
                    (0, user)
                });
                if *known & below != below {
                    *known |= below;
                    waiting.push(new);
                }
            }
        }
    }

    /// Where a link leads in the end, if that is a place of its own. One that neither root nor the user
    /// has made may have been put there since, to lead elsewhere.
    fn destination(&self, link: &[u8], user: u32) -> Option<Box<[u8]>> {
        let mut place = link.to_vec();
        for _ in 0..LINKS_MAX {
            let entry = self.tree.look(&place, Want::Nothing).entry;
            if entry.kind != FileKind::Link {
                return model::realm::is_stored(&place).then(|| place.into());
            }
            if entry.uid != 0 && entry.uid != user {
                return None;
            }
            let slash = place.iter().rposition(|&byte| byte == b'/')?;
            let absolute = entry.target.first() == Some(&b'/');
            let spelt = match absolute {
                true => entry.target,
                false => [&place[..slash], b"/", &entry.target].concat(),
            };
            place = self.settled(&spelt).into();
        }
        None
    }

    /// Looks at everything and writes it down.
    fn write(mut self, out: &mut Output) -> Result<(), WriteError> {
        let mut manifest = ManifestWriter::default();
        let all = self.wanted.drain().map(|(path, (marks, user))| (path, marks, user));
        let mut wanted: Vec<Changed> = all.collect();
        wanted.sort_unstable();
        for some in wanted.chunks(PATHS_AT_A_TIME) {
            for seen in self.look(some) {
                let Some(mut entry) = self.entry(seen) else { continue };
                if !out.manifest_entry(&mut manifest, &mut entry)? {
                    self.paths.truncated = true;
                    break;
                }
            }
            if self.paths.truncated {
                break;
            }
        }
        let scope = if self.paths.truncated { Scope::Truncated } else { Scope::Whole };
        out.manifest_end(manifest, Ending { scope, left_out: self.paths.left_out })
    }

    /// Looks at paths, with the rights of each one's user.
    fn look(&self, paths: &[Changed]) -> Vec<Seen> {
        let mut by_user: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (number, (_, _, user)) in paths.iter().enumerate() {
            by_user.entry(*user).or_default().push(number);
        }
        let mut found = Vec::new();
        for (user, numbers) in by_user {
            let some = numbers.iter().map(|number| &paths[*number]);
            let wanted: Vec<(&[u8], Want)> =
                some.map(|(path, marks, _)| (&path[..], self.want(path, *marks))).collect();
            let seen = rights::with(user, || self.tree.look_at_all(&wanted));
            let unreachable = |(path, _): &(&[u8], Want)| Seen {
                entry: Entry {
                    path: path.to_vec(),
                    kind: FileKind::Unreachable,
                    ..Entry::default()
                },
                inode: (0, 0),
            };
            let seen = seen.unwrap_or_else(|| wanted.iter().map(unreachable).collect());
            found.extend(numbers.into_iter().zip(seen));
        }
        found.sort_unstable_by_key(|(number, _)| *number);
        found.into_iter().map(|(_, seen)| seen).collect()
    }

    /// What is looked at of a path.
    fn want(&self, path: &[u8], marks: u8) -> Want {
        match marks & mark::FRESH != 0 {
            _ if self.paths.is_mapped(path) => Want::Attributes,
            true => Want::Whole,
            false => Want::Pieces(0),
        }
    }

    /// What is written of what was seen.
    fn entry(&mut self, seen: Seen) -> Option<Entry> {
        let Seen { mut entry, inode } = seen;
        if self.own == Some(inode) {
            return None;
        }
        if entry.kind == FileKind::Regular && self.paths.is_mapped(&entry.path) {
            entry.content = Content::Mapped;
        }
        if entry.kind != FileKind::Directory && entry.nlink > 1 {
            let next = self.same.len() as u64 + 1;
            entry.same = *self.same.entry(inode).or_insert(next);
        }
        Some(entry)
    }
}

/// Writes the manifest of changed paths, or that there is none because the program went on.
pub(crate) fn write(
    out: &mut Output,
    changed: Paths,
    stopped: Option<GapWhy>,
    own: Option<Inode>,
) -> Result<(), WriteError> {
    let is_over = stopped.is_none_or(|why| why == GapWhy::UntilExit);
    let survey = is_over.then(|| Survey::new(changed, own)).flatten();
    match survey {
        Some(survey) => survey.write(out),
        None => {
            let ending = Ending { scope: Scope::StoppedEarly, left_out: 0 };
            out.manifest_end(ManifestWriter::default(), ending)
        }
    }
}
