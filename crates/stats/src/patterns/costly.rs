//! Which files cost most, in few names: those of many files in a directory are one pattern.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

use model::{FileId, Namespace, Paths};
use render::amounts::counted;
use render::escape::escape;

use super::often::{COUNTED_MAX, Often};
use crate::sheet::ratio;

/// Names that are told.
const NAMED_MAX: usize = 4;
/// Names that cover less than this share of the cost are too narrow, if there are wider ones.
const COVERED: f64 = 0.8;
/// Names of less than this share are not told.
const TOLD_SHARE: f64 = 0.01;
/// Limit for the files whose paths are looked at: those that cost most.
const LOOKED_AT_MAX: usize = 1 << 13;
/// Characters of a path in a line; of a longer one the end is told.
const PATH_SHOWN: usize = 60;
/// Characters of the end of a name that may be that of many files.
const SUFFIX_MAX: usize = 12;

/// Costs by file.
#[derive(Default)]
pub struct Costs {
    files: HashMap<FileId, Often>,
}

/// A name for a file, or for several.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Named {
    /// The path, or a pattern of paths.
    pub path: Vec<u8>,
    /// Number of paths with that name.
    pub paths: u64,
    /// Number of calls.
    pub count: u64,
    /// Their time.
    pub ns: u64,
}

/// A path, with count and time of its calls.
type Path<'a> = (&'a [u8], u64, u64);

/// Gives a path a name, which others may have too.
type Name = fn(&[u8]) -> Vec<u8>;

impl Costs {
    /// Counts a call on a file.
    pub fn add(&mut self, file: FileId, ns: u64) {
        if self.files.len() < COUNTED_MAX || self.files.contains_key(&file) {
            self.files.entry(file).or_default().add(0, ns);
        }
    }

    /// Returns the few names that cost most, the most expensive first, and the number of paths. Costs
    /// of one path are summed up, whichever file it led to.
    pub fn names(&self, files: &Namespace) -> (Vec<Named>, u64) {
        let mut by_cost: Vec<(&FileId, &Often)> = self.files.iter().collect();
        by_cost.sort_by_key(|(file, of)| (Reverse((of.ns, of.count)), **file));
        let beyond = by_cost.len().saturating_sub(LOOKED_AT_MAX) as u64;
        by_cost.truncate(LOOKED_AT_MAX);
        let mut paths = Paths::of(files);
        let mut by_path: BTreeMap<Vec<u8>, Often> = BTreeMap::new();
        for (file, of) in by_cost.iter().filter(|(file, _)| **file != FileId::OTHERS) {
            by_path.entry(paths.next(**file)).or_default().merge(of);
        }
        let each: Vec<Path<'_>> =
            by_path.iter().map(|(path, of)| (&path[..], of.count, of.ns)).collect();
        (few(&each), each.len() as u64 + beyond)
    }
}

/// Returns few names for paths.
fn few(paths: &[Path<'_>]) -> Vec<Named> {
    let all: u64 = paths.iter().fold(0, |sum, path| sum.saturating_add(path.2));
    let names: [Name; 3] = [<[u8]>::to_vec, in_directory, in_directories];
    let mut found = Vec::new();
    for name in names {
        let (named, is_short) = grouped(paths, name);
        let covered: u64 = named.iter().fold(0, |sum, of| sum.saturating_add(of.ns));
        let is_enough = is_short || ratio(covered, all) >= COVERED;
        found = named;
        if is_enough {
            break;
        }
    }
    let is_told = |of: &Named| all == 0 || ratio(of.ns, all) >= TOLD_SHARE;
    let first = found.first().cloned();
    found.retain(is_told);
    if found.is_empty() { first.into_iter().collect() } else { found }
}

/// Groups paths by a name for each; one that is alone keeps its own. Returns the groups that cost most,
/// and whether those are all.
fn grouped(paths: &[Path<'_>], name: Name) -> (Vec<Named>, bool) {
    let mut groups: BTreeMap<Vec<u8>, (Named, &[u8])> = BTreeMap::new();
    for (path, count, ns) in paths {
        let (group, only) = groups.entry(name(path)).or_default();
        *only = path;
        group.paths += 1;
        group.count += count;
        group.ns = group.ns.saturating_add(*ns);
    }
    let mut named: Vec<Named> = groups
        .into_iter()
        .map(|(name, (group, only))| {
            let path = if group.paths == 1 { only.to_vec() } else { name };
            Named { path, ..group }
        })
        .collect();
    named.sort_by(|a, b| (b.ns, b.count).cmp(&(a.ns, a.count)).then_with(|| a.path.cmp(&b.path)));
    let is_short = named.len() <= NAMED_MAX;
    named.truncate(NAMED_MAX);
    (named, is_short)
}

fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (&path[..0], path),
    }
}

/// Returns what the names of many files in a directory have in common: `*.tmp`.
fn pattern(name: &[u8]) -> Vec<u8> {
    let is_plain = |suffix: &[u8]| {
        (2..=SUFFIX_MAX).contains(&suffix.len())
            && suffix[1..].iter().all(u8::is_ascii_alphanumeric)
            && !suffix[1..].iter().all(u8::is_ascii_digit)
    };
    let from = name.iter().rposition(|byte| b".-".contains(byte)).filter(|at| *at > 0);
    match from.map(|at| &name[at..]).filter(|suffix| is_plain(suffix)) {
        Some(suffix) => [b"*", suffix].concat(),
        None => b"*".to_vec(),
    }
}

/// Returns a pattern for a path and others in its directory.
fn in_directory(path: &[u8]) -> Vec<u8> {
    if !path.starts_with(b"/") {
        // Pipes and sockets have a number.
        let end = path.iter().position(|byte| *byte == b'[').unwrap_or(path.len());
        return [&path[..end], b"*"].concat();
    }
    let (directory, name) = split(path);
    [directory, b"/", &pattern(name)].concat()
}

/// Returns a pattern for a path and others in directories beside its own.
fn in_directories(path: &[u8]) -> Vec<u8> {
    let (directory, name) = split(path);
    let (above, own) = split(directory);
    if !path.starts_with(b"/") || own.is_empty() {
        return in_directory(path);
    }
    [above, b"/*/", &pattern(name)].concat()
}

/// Returns names with their shares, for people; nothing if there is but one name, which is told beside it.
pub fn in_words(names: &[Named], all_ns: u64) -> Option<String> {
    let is_plain = |of: &Named| of.paths == 1;
    if names.is_empty() || (names.len() == 1 && is_plain(&names[0])) {
        return None;
    }
    let mut told = HashSet::new();
    let each = names.iter().map(|of| {
        let mut text = shown(&of.path);
        if !told.insert(text.clone()) {
            text = String::new();
            escape(&mut text, &of.path, &[]);
        }
        if !is_plain(of) {
            text.push_str(&format!(" ({})", counted(of.paths, "file", "files")));
        }
        format!("{text} {:.0}%", ratio(of.ns, all_ns) * 100.0)
    });
    Some(each.collect::<Vec<_>>().join(", "))
}

/// Returns a path for people: of a long one its end.
fn shown(path: &[u8]) -> String {
    let mut text = String::new();
    escape(&mut text, path, &[]);
    let length = text.chars().count();
    if length <= PATH_SHOWN {
        return text;
    }
    let tail: String = text.chars().skip(length - PATH_SHOWN).collect();
    match tail.split_once('/') {
        Some((_, rest)) if !rest.is_empty() => format!(".../{rest}"),
        _ => format!("...{tail}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(paths: &[(&str, u64)]) -> Vec<(String, u64, u64)> {
        let mut paths: Vec<Path<'_>> =
            paths.iter().map(|(path, ns)| (path.as_bytes(), 1, *ns)).collect();
        paths.sort_unstable();
        let text = |of: Named| (String::from_utf8(of.path).unwrap(), of.paths, of.ns);
        few(&paths).into_iter().map(text).collect()
    }

    fn named(path: &str, paths: u64, ns: u64) -> (String, u64, u64) {
        (path.into(), paths, ns)
    }

    #[test]
    fn few_files_have_their_names_the_most_expensive_first() {
        let found = names(&[("/a/shop.db", 30), ("/a/shop.db-journal", 70), ("/a/none", 0)]);
        assert_eq!(found, [named("/a/shop.db-journal", 1, 70), named("/a/shop.db", 1, 30)]);
        assert_eq!(names(&[("/a/free", 0)]), [named("/a/free", 1, 0)]);
        assert_eq!(names(&[]), []);
    }

    #[test]
    fn many_files_of_a_directory_are_one_pattern() {
        let many: Vec<String> = (0..1200).map(|n| format!("/q/{n}.tmp")).collect();
        let mut all: Vec<(&str, u64)> = many.iter().map(|path| (&path[..], 2)).collect();
        all.push(("/q", 500));
        assert_eq!(names(&all), [named("/q/*.tmp", 1200, 2400), named("/q", 1, 500)]);
    }

    #[test]
    fn many_directories_are_one_pattern() {
        let many: Vec<String> = (0..100).map(|n| format!("/objects/{n}/{n}f00")).collect();
        let all: Vec<(&str, u64)> = many.iter().map(|path| (&path[..], 1)).collect();
        assert_eq!(names(&all), [named("/objects/*/*", 100, 100)]);
    }

    #[test]
    fn objects_without_a_path_are_named_by_their_kind() {
        let many: Vec<String> = (0..9).map(|n| format!("socket:[{n}]")).collect();
        let all: Vec<(&str, u64)> = many.iter().map(|path| (&path[..], 1)).collect();
        assert_eq!(names(&all), [named("socket:*", 9, 9)]);
    }

    #[test]
    fn names_are_told_with_their_share_and_cannot_write_to_a_terminal() {
        let one = |path: &[u8], paths, ns| Named { path: path.to_vec(), paths, count: 1, ns };
        let told = in_words(&[one(b"/q/*.tmp", 1200, 71), one(b"/q/\x1b[2J", 1, 9)], 100);
        assert_eq!(told.unwrap(), "/q/*.tmp (1,200 files) 71%, /q/\\033[2J 9%");
        assert_eq!(in_words(&[one(b"/a", 1, 5)], 5), None);
        let long = [b"/", &b"long/".repeat(30)[..], b"name"].concat();
        let told = in_words(&[one(&long, 2, 5)], 5).unwrap();
        assert!(told.starts_with(".../long/") && told.ends_with("/name (2 files) 100%"), "{told}");
    }
}
