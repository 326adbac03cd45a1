//! Compares final files: two trees, a tree and the manifest of a trace, or two manifests.
//!
//! Sizes and link counts of directories differ between file systems and are not compared; neither
//! are times. What cannot be compared is never called equal: it counts as unverified or, if the
//! trace never showed the bytes, as unknown.
//!
//! Trees and manifests may be hostile: paths are resolved inside their tree, and memory is bounded.

mod names;
mod renames;
mod text;
mod walk;

use std::collections::HashSet;
use std::ops::Range;

use file_tree::{Inode, Seen, Tree, Want};
use serde::{Deserialize, Serialize};
use trace::manifest::{Content, Ending, Entry, FileKind, Scope, Sums, Xattr};
use trace::{ReadError, Trace};

use self::names::Names;
use self::renames::Moved;
pub use self::renames::Renames;
use self::text::text;
pub use self::walk::trees;
use crate::outcome::Doubt;
use crate::treatment::needs_privilege;

/// What a difference has in place of a file where there is none.
pub const NOTHING: &str = "nothing";

/// Most differences kept in detail; the rest is only counted.
const DIFFERENCES_MAX: usize = 10_000;
/// Most examples kept of unverified paths, and of files with unknown bytes.
const UNVERIFIED_MAX: usize = 100;

/// Result of a comparison.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct FinalState {
    /// Number of paths compared.
    pub compared: u64,
    /// Number of paths that differ.
    pub different: u64,
    /// The first differences.
    pub differences: Vec<Difference>,
    /// The first paths that could not be verified, and why.
    pub unverified: Vec<Unverified>,
    /// Number of unverified facts.
    pub unverified_count: u64,
    /// Number of bytes that the trace never showed.
    pub unknown_bytes: u64,
    /// The first files with such bytes.
    pub unknown_files: Vec<UnknownFile>,
    /// Paths in other roots and mount namespaces, which the recording left out.
    pub left_out: u64,
    /// Why not all changed files could be compared, if so.
    pub limited: Option<String>,
}

/// Result of comparing the final state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// There was nothing to compare.
    Nothing,
    /// Every path is as recorded.
    Identical,
    /// No difference was found, but not everything could be checked.
    AsFarAsChecked,
    /// Some paths differ.
    Different,
}

impl Verdict {
    /// Returns the words for it.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Nothing => "nothing to compare",
            Verdict::Identical => "identical",
            Verdict::AsFarAsChecked => "identical as far as checked",
            Verdict::Different => "different",
        }
    }
}

/// One difference of a path.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Difference {
    /// The path.
    pub path: Vec<u8>,
    /// What differs: `type`, `mode`, `owner`, `size`, `content`, `target`, `device`, `xattr`,
    /// `links` or `same file`.
    pub what: String,
    /// Expected value.
    pub expected: String,
    /// Actual value.
    pub found: String,
}

/// A file with bytes that the trace never showed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct UnknownFile {
    /// The path.
    pub path: Vec<u8>,
    /// Number of these bytes.
    pub bytes: u64,
}

/// A path that could not be verified.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Unverified {
    /// The path.
    pub path: Vec<u8>,
    /// The reason.
    pub why: String,
}

impl FinalState {
    /// Returns the result as a whole.
    pub fn verdict(&self) -> Verdict {
        match self {
            FinalState { different: 1.., .. } => Verdict::Different,
            FinalState { compared: 0, .. } => Verdict::Nothing,
            FinalState {
                unverified_count: 0,
                unknown_bytes: 0,
                left_out: 0,
                limited: None,
                ..
            } => Verdict::Identical,
            _ => Verdict::AsFarAsChecked,
        }
    }

    /// Whether everything that could be compared is equal.
    pub fn is_equal(&self) -> bool {
        self.different == 0
    }

    /// Turns differences of doubtful properties into unverified facts.
    pub fn excuse(&mut self, doubted: impl Fn(&[u8]) -> Option<Doubt>) {
        let is_excused = |difference: &Difference| {
            let doubt = doubted(&difference.path);
            doubt.is_some_and(|doubt| match &difference.what[..] {
                "content" => true,
                "size" => doubt.ends,
                _ => doubt.all,
            })
        };
        // What else differs about these paths might be among those that are not kept.
        if self.differences.len() >= DIFFERENCES_MAX {
            return;
        }
        let (excused, differences): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.differences).into_iter().partition(is_excused);
        let paths = |all: &[Difference]| -> HashSet<Vec<u8>> {
            all.iter().map(|difference| difference.path.clone()).collect()
        };
        let others = paths(&differences);
        let equal = paths(&excused).iter().filter(|path| !others.contains(*path)).count();
        self.different = self.different.saturating_sub(equal as u64);
        self.differences = differences;
        for Difference { path, .. } in excused {
            self.note_unverified(&path, doubted(&path).map_or("", |doubt| doubt.why));
        }
    }

    fn note_unverified(&mut self, path: &[u8], why: &str) {
        self.unverified_count += 1;
        if self.unverified.len() < UNVERIFIED_MAX {
            self.unverified.push(Unverified { path: path.to_vec(), why: why.into() });
        }
    }
}

/// What to compare.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scrutiny {
    /// Owners and groups.
    pub owners: bool,
    /// Set-user-id and set-group-id bits of files (of directories only the first), device nodes,
    /// and attributes that need privileges.
    pub privileged: bool,
}

impl Default for Scrutiny {
    fn default() -> Scrutiny {
        Scrutiny { owners: true, privileged: true }
    }
}

/// Returns the ranges of a file that the trace never showed, in order and without overlap; they may
/// reach beyond its end. The file is given by its path in the tree and its inode.
pub type Unseen<'a> = &'a dyn Fn(&[u8], Inode) -> Vec<Range<u64>>;

/// For comparisons in which every byte is known.
pub fn all_seen(_: &[u8], _: Inode) -> Vec<Range<u64>> {
    Vec::new()
}

/// Compares the final files in a trace's manifest with a tree whose root stands for `/`. `renames` say
/// where else the tree has them.
pub fn manifest_and_tree(
    trace: &Trace,
    tree: &Tree,
    scrutiny: Scrutiny,
    renames: &Renames,
    unseen: Unseen<'_>,
) -> Result<FinalState, ReadError> {
    let mut comparison = Comparison::new(scrutiny);
    comparison.limits(trace.manifest_ending()?);
    for expected in trace.manifest() {
        let mut expected = expected?;
        renames.apply(&mut expected);
        comparison.with_tree(&expected, None, tree, unseen);
    }
    Ok(comparison.finish())
}

/// Likewise with exchanged roles: the tree is expected.
pub fn tree_and_manifest(
    tree: &Tree,
    trace: &Trace,
    scrutiny: Scrutiny,
    renames: &Renames,
) -> Result<FinalState, ReadError> {
    let mut state = manifest_and_tree(trace, tree, scrutiny, &renames.reversed(), &all_seen)?;
    for difference in &mut state.differences {
        std::mem::swap(&mut difference.expected, &mut difference.found);
    }
    Ok(state)
}

/// Compares the final files of two recordings. `renames` say which of the first are which of the second.
pub fn manifests(
    expected: &Trace,
    found: &Trace,
    scrutiny: Scrutiny,
    renames: &Renames,
) -> Result<FinalState, ReadError> {
    let mut comparison = Comparison::new(scrutiny);
    comparison.limits(expected.manifest_ending()?);
    comparison.limits(found.manifest_ending()?);
    let mut moved = comparison.moved(expected, renames)?;
    let stays = |entry: &Entry| renames.of(&entry.path).is_none();
    let expected = expected.manifest().filter(|entry| entry.as_ref().map_or(true, stays));
    let mut expected = expected.peekable();
    for entry in found.manifest() {
        let entry = entry?;
        let other = match moved.take(&entry.path) {
            Some(moved) => Some(moved),
            None => {
                let is_before = |path: &[u8]| path < &entry.path[..];
                while let Some(before) = next_if(&mut expected, is_before)? {
                    comparison.unverified(&before.path, ONE_SIDED);
                }
                let mut own = next_if(&mut expected, |path| path == &entry.path[..])?;
                own.iter_mut().for_each(|own| _ = renames.apply(own));
                own
            }
        };
        match other {
            Some(expected) => {
                let inode = (0, entry.same);
                comparison.pair(&expected, None, &Seen { entry, inode }, &[]);
            }
            None => comparison.unverified(&entry.path, ONE_SIDED),
        }
    }
    for left in expected {
        comparison.unverified(&left?.path, ONE_SIDED);
    }
    moved.left().for_each(|path| comparison.unverified(&path, ONE_SIDED));
    Ok(comparison.finish())
}

/// Why a path of one recording was not compared.
const ONE_SIDED: &str = "only one of the recordings has changed it";

/// Returns the next entry if its path fits.
fn next_if(
    entries: &mut std::iter::Peekable<impl Iterator<Item = Result<Entry, ReadError>>>,
    fits: impl Fn(&[u8]) -> bool,
) -> Result<Option<Entry>, ReadError> {
    entries.next_if(|entry| entry.as_ref().map_or(true, |entry| fits(&entry.path))).transpose()
}

/// A comparison in progress.
struct Comparison {
    scrutiny: Scrutiny,
    state: FinalState,
    names: Names,
    /// The last path that differed, as each is counted once.
    /// Paths that differ.
    differing: HashSet<Vec<u8>>,
}

impl Comparison {
    fn new(scrutiny: Scrutiny) -> Comparison {
        let (state, names) = (FinalState::default(), Names::default());
        Comparison { scrutiny, state, names, differing: HashSet::new() }
    }

    /// Returns the entries of a recording that have another name in the other one.
    fn moved(&mut self, trace: &Trace, renames: &Renames) -> Result<Moved, ReadError> {
        let mut moved = Moved::default();
        if renames.0.is_empty() {
            return Ok(moved);
        }
        for entry in trace.manifest() {
            let mut entry = entry?;
            if renames.apply(&mut entry) {
                let path = entry.path.clone();
                if !moved.keep(entry) {
                    self.unverified(&path, "more paths have another name than are kept");
                }
            }
        }
        Ok(moved)
    }

    fn limits(&mut self, ending: Option<Ending>) {
        let text = match ending {
            None => Some("the trace has no manifest of the files that were changed"),
            Some(Ending { scope: Scope::Truncated, .. }) => {
                Some("the trace's manifest has not all of the files that were changed")
            }
            Some(Ending { scope: Scope::StoppedEarly, .. }) => {
                Some("the recording was stopped early, so the trace has no manifest")
            }
            Some(Ending { scope: Scope::Whole, .. }) => None,
        };
        self.state.left_out += ending.map_or(0, |ending| ending.left_out);
        if let Some(text) = text {
            self.state.limited.get_or_insert(text.to_string());
        }
    }

    /// Compares an expected path with its state in a tree.
    fn with_tree(
        &mut self,
        expected: &Entry,
        inode: Option<Inode>,
        tree: &Tree,
        unseen: Unseen<'_>,
    ) {
        let mut found = tree.look(&expected.path, Want::Attributes);
        let mut unknown = Vec::new();
        let both_files =
            (expected.kind, found.entry.kind) == (FileKind::Regular, FileKind::Regular);
        if both_files
            && expected.size == found.entry.size
            && let Content::Hashed(sums) = &expected.content
        {
            let want = match sums.piece_bytes {
                0 => Want::Whole,
                bytes => Want::Pieces(bytes),
            };
            found = tree.look(&expected.path, want);
            if found.entry.content != expected.content {
                unknown = self.unknown(&expected.path, found.inode, tree, unseen);
            }
        }
        self.pair(expected, inode, &found, &unknown);
    }

    /// Returns the unknown ranges of a file, whose path may lead through links.
    fn unknown(
        &self,
        path: &[u8],
        inode: Inode,
        tree: &Tree,
        unseen: Unseen<'_>,
    ) -> Vec<Range<u64>> {
        let ranges = unseen(path, inode);
        let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
        match tree.parent_of(path) {
            Some(parent) if ranges.is_empty() => unseen(&join(&parent, name), inode),
            _ => ranges,
        }
    }

    /// Compares the expected and actual state of a path. `inode` identifies the expected file;
    /// without it, `same` of the entry does.
    fn pair(
        &mut self,
        expected: &Entry,
        inode: Option<Inode>,
        found: &Seen,
        unknown: &[Range<u64>],
    ) {
        let (path, seen) = (&expected.path, &found.entry);
        self.state.compared += 1;
        if expected.kind == FileKind::Unreachable || seen.kind == FileKind::Unreachable {
            return self.unverified(path, "it could not be looked at");
        }
        let is_device = matches!(expected.kind, FileKind::Character | FileKind::Block);
        if is_device && !self.scrutiny.privileged {
            return self.unverified(path, "device nodes are not made");
        }
        if expected.kind != seen.kind {
            return self.different(path, "type", kind_text(expected.kind), kind_text(seen.kind));
        }
        if expected.kind == FileKind::Absent {
            return;
        }
        if self.scrutiny.owners && (expected.uid, expected.gid) != (seen.uid, seen.gid) {
            let text = |entry: &Entry| format!("{}:{}", entry.uid, entry.gid);
            self.different(path, "owner", text(expected), text(seen));
        }
        let expected_inode = inode.unwrap_or((0, expected.same));
        let linked = expected_inode != (0, 0) || found.inode != (0, 0);
        if expected.kind != FileKind::Directory && linked {
            let mismatch = self.names.add(expected, expected_inode, seen, found.inode);
            if let Some((what, should, is)) = mismatch {
                self.different(path, what, should, is);
            }
        }
        if expected.kind == FileKind::Link {
            if expected.target != seen.target {
                self.different(path, "target", text(&expected.target), text(&seen.target));
            }
            return;
        }
        self.modes(expected, seen);
        match expected.kind {
            FileKind::Regular => self.contents(expected, seen, unknown),
            FileKind::Character | FileKind::Block if expected.rdev != seen.rdev => {
                let (should, is) = (expected.rdev, seen.rdev);
                self.different(path, "device", format!("{should:#x}"), format!("{is:#x}"));
            }
            _ => {}
        }
        if matches!(expected.kind, FileKind::Regular | FileKind::Directory) {
            self.xattrs(path, &expected.xattrs, &seen.xattrs);
        }
    }

    fn modes(&mut self, expected: &Entry, found: &Entry) {
        let kept = match expected.kind {
            _ if self.scrutiny.privileged => 0o7777,
            FileKind::Regular => 0o1777,
            FileKind::Directory => 0o3777,
            _ => 0o7777,
        };
        if expected.mode & kept != found.mode & kept {
            let text = |entry: &Entry| format!("{:04o}", entry.mode & kept);
            self.different(&expected.path, "mode", text(expected), text(found));
        }
    }

    fn contents(&mut self, expected: &Entry, found: &Entry, unknown: &[Range<u64>]) {
        let path = &expected.path;
        if expected.size != found.size {
            let text = |entry: &Entry| format!("{} bytes", entry.size);
            return self.different(path, "size", text(expected), text(found));
        }
        let (should, is) = match (&expected.content, &found.content) {
            (Content::Hashed(should), Content::Hashed(is)) => (should, is),
            (Content::Hashed(_), other) | (other, _) => {
                return self.unverified(path, why_unverified(other));
            }
        };
        if should.whole == is.whole {
            return;
        }
        let comparable = should.piece_bytes != 0 && should.piece_bytes == is.piece_bytes;
        if !comparable {
            if unknown.is_empty() {
                let text = |sums: &Sums| format!("hash {:032x}", sums.whole);
                return self.different(path, "content", text(should), text(is));
            }
            self.unknown_bytes(path, expected.size);
            return self.unverified(path, "parts of its content are unknown");
        }
        let size = should.piece_bytes;
        let (mut wrong, mut missing) = (None, 0);
        for (number, (a, b)) in (0..).zip(should.pieces.iter().zip(&is.pieces)) {
            if a == b {
                continue;
            }
            let start = number * size;
            let end = (start + size).min(expected.size);
            if overlaps(unknown, start..end) {
                missing += end - start;
            } else {
                wrong.get_or_insert((start, end, a, b));
            }
        }
        self.unknown_bytes(path, missing);
        if let Some((start, end, a, b)) = wrong {
            let text = |sum: &u64| format!("bytes {start} to {} with hash {sum:016x}", end - 1);
            self.different(path, "content", text(a), text(b));
        } else if unknown.is_empty() {
            let text = |sums: &Sums| format!("hash {:032x}", sums.whole);
            self.different(path, "content", text(should), text(is));
        }
    }

    fn xattrs(&mut self, path: &[u8], expected: &[Xattr], found: &[Xattr]) {
        let by_name = |list: &[Xattr], name: &[u8]| {
            list.iter().find(|xattr| xattr.name == name).map(|xattr| xattr.hash)
        };
        let added = found.iter().filter(|xattr| by_name(expected, &xattr.name).is_none());
        for name in expected.iter().chain(added).map(|xattr| &xattr.name) {
            if needs_privilege(name) && !self.scrutiny.privileged {
                self.unverified(path, "an attribute that needs privileges was not set");
                continue;
            }
            let (should, is) = (by_name(expected, name), by_name(found, name));
            if should != is {
                let text = |hash: Option<u128>| match hash {
                    Some(hash) => format!("{} with hash {hash:032x}", text(name)),
                    None => format!("no {}", text(name)),
                };
                self.different(path, "xattr", text(should), text(is));
            }
        }
    }

    fn different(
        &mut self,
        path: &[u8],
        what: &str,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) {
        if !self.differing.contains(path) {
            self.state.different += 1;
            self.differing.insert(path.to_vec());
        }
        if self.state.differences.len() < DIFFERENCES_MAX {
            let (expected, found) = (expected.into(), found.into());
            let difference = Difference { path: path.to_vec(), what: what.into(), expected, found };
            self.state.differences.push(difference);
        }
    }

    fn unknown_bytes(&mut self, path: &[u8], bytes: u64) {
        self.state.unknown_bytes += bytes;
        if bytes > 0 && self.state.unknown_files.len() < UNVERIFIED_MAX {
            self.state.unknown_files.push(UnknownFile { path: path.to_vec(), bytes });
        }
    }

    fn unverified(&mut self, path: &[u8], why: &str) {
        self.state.note_unverified(path, why);
    }

    fn finish(mut self) -> FinalState {
        for (path, should, is) in std::mem::take(&mut self.names).counts() {
            self.different(&path, names::LINKS, should.to_string(), is.to_string());
        }
        self.state
    }
}

fn join(parent: &[u8], name: &[u8]) -> Vec<u8> {
    let parent = parent.strip_suffix(b"/").unwrap_or(parent);
    [parent, b"/", name].concat()
}

fn overlaps(ranges: &[Range<u64>], wanted: Range<u64>) -> bool {
    let first = ranges.partition_point(|range| range.end <= wanted.start);
    ranges.get(first).is_some_and(|range| range.start < wanted.end)
}

fn why_unverified(content: &Content) -> &'static str {
    match content {
        Content::Mapped => "it was changed through a shared mapping",
        Content::Unreadable => "its content could not be read",
        Content::Unsteady => "it went on changing while it was read",
        Content::TooLong => "it is too long to be read",
        Content::None | Content::Hashed(_) => "its content was not looked at",
    }
}

fn kind_text(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Absent => NOTHING,
        FileKind::Regular => "regular file",
        FileKind::Directory => "directory",
        FileKind::Link => "symbolic link",
        FileKind::Pipe => "named pipe",
        FileKind::Socket => "socket",
        FileKind::Character => "character device",
        FileKind::Block => "block device",
        FileKind::Unreachable => "unknown",
    }
}

#[cfg(test)]
mod tests;
