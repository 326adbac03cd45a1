//! Writes the manifest: at the end of the recording, looks at every path that the program changed.
//!
//! A file that vanishes or changes meanwhile is no error. A path is looked at with the rights of
//! the user who changed it: what is there by now may be a file that this user must not read.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use file_tree::{Inode, Seen, Tree, Want};
use model::path;
use syscalls::record::GapWhy;
use trace::WriteError;
use trace::manifest::{Content, Ending, Entry, FileKind, ManifestWriter, Scope};

use crate::changes::{Changed, PATHS_MAX, Paths, mark};
use crate::output::Output;
use crate::rights;

/// Number of paths that are looked at together, by several threads.
const PATHS_AT_A_TIME: usize = 512;
/// Maximum number of symbolic links followed in a row.
const LINKS_MAX: usize = 40;

/// Looks at the paths that were changed.
struct Survey {
    tree: Tree,
    /// The trace file, which no manifest lists.
    own: Option<Inode>,
    /// Paths to look at: their marks, and the user whose rights are used.
    wanted: HashMap<Box<[u8]>, (u8, u32)>,
    paths: Paths,
    /// Files with several names: the number that those names share in the manifest.
    same: HashMap<Inode, u64>,
}

impl Survey {
    /// Collects the paths of a finished recording. `None` if the root cannot be opened.
    fn new(mut paths: Paths, own: Option<Inode>) -> Option<Survey> {
        let tree = Tree::open(Path::new("/")).ok()?;
        let mut by_user: BTreeMap<u32, Vec<Changed>> = BTreeMap::new();
        for changed in paths.take() {
            by_user.entry(changed.2).or_default().push(changed);
        }
        let mut survey = Survey { tree, own, wanted: HashMap::new(), paths, same: HashMap::new() };
        for (user, changed) in by_user {
            if rights::with(user, || survey.add(&changed, user)).is_none() {
                // Without that user's rights no link and no directory is followed.
                let bare = changed.into_iter().map(|(path, marks, user)| (path, (marks, user)));
                survey.wanted.extend(bare);
            }
        }
        Some(survey)
    }

    /// Adds the paths that a user has changed.
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

    /// Removes `..` from a path, by asking the kernel where links make a difference.
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

    /// Adds targets of links through which paths were changed, and the contents of moved
    /// directories.
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

    /// Where a link leads in the end, if that path is kept. Links made by neither root nor the user
    /// are not followed: they may have been put there since, to lead elsewhere.
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

    /// Looks at all paths and writes their entries.
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

    /// How much of a path is looked at.
    fn want(&self, path: &[u8], marks: u8) -> Want {
        match marks & mark::FRESH != 0 {
            _ if self.paths.is_mapped(path) => Want::Attributes,
            true => Want::Whole,
            false => Want::Pieces(0),
        }
    }

    /// Completes the entry of a path; `None` for the trace itself.
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

/// Writes the manifest of changed paths, or that there is none because the program continued.
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
