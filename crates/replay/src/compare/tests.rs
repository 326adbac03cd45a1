use std::fs::{self, Permissions};
use std::io::Cursor;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use file_tree::Tree;
use tempfile::TempDir;
use trace::event::{Preamble, Totals};
use trace::manifest::ManifestWriter;
use trace::{Writer, WriterOptions};

use super::*;

/// A range that no file reaches.
const BEYOND: Range<u64> = 1 << 40..u64::MAX;

/// A directory with a bit of everything.
fn sample() -> TempDir {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    fs::create_dir_all(at("dir/deep")).unwrap();
    fs::write(at("dir/deep/file"), vec![7; 20_000]).unwrap();
    fs::write(at("dir/short"), b"short").unwrap();
    fs::hard_link(at("dir/short"), at("linked")).unwrap();
    symlink("dir/short", at("link")).unwrap();
    fs::set_permissions(at("dir/deep/file"), Permissions::from_mode(0o640)).unwrap();
    place
}

fn tree(path: &Path) -> Tree {
    Tree::open(path).unwrap()
}

#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Writes a trace with this manifest.
fn trace_of(entries: &[Entry], ending: Option<Ending>) -> Trace {
    let memory = Memory::default();
    let options = WriterOptions { workers: 0, ..WriterOptions::default() };
    let preamble = Preamble { tsc_hz: 1, ..Preamble::default() };
    let mut writer = Writer::new(Box::new(memory.clone()), &preamble, options).unwrap();
    let mut manifest = ManifestWriter::default();
    for entry in entries {
        manifest.add(&mut writer, &mut entry.clone()).unwrap();
    }
    if let Some(ending) = ending {
        manifest.end(&mut writer, ending).unwrap();
    }
    writer.finish(&Totals::default()).unwrap();
    Trace::from_stream(Cursor::new(memory.0.lock().unwrap().clone())).unwrap()
}

/// Builds a manifest like the recorder, of all paths in a directory.
fn manifest_of(root: &Path) -> Vec<Entry> {
    let tree = tree(root);
    let mut paths = vec![Vec::new()];
    let mut all = Vec::new();
    let mut same = std::collections::HashMap::new();
    while let Some(path) = paths.pop() {
        for name in tree.names(&path).unwrap() {
            let path = [&path[..], b"/", &name].concat();
            let Seen { mut entry, inode } = tree.look(&path, Want::Pieces(0));
            if entry.kind == FileKind::Directory {
                paths.push(path);
            } else if entry.nlink > 1 {
                let next = same.len() as u64 + 1;
                entry.same = *same.entry(inode).or_insert(next);
            }
            all.push(entry);
        }
    }
    all.sort_by(|a, b| a.path.cmp(&b.path));
    all
}

fn whole(entries: &[Entry]) -> Trace {
    trace_of(entries, Some(Ending::default()))
}

fn found(state: &FinalState) -> Vec<(String, String)> {
    let line = |d: &Difference| (String::from_utf8_lossy(&d.path).into_owned(), d.what.clone());
    state.differences.iter().map(line).collect()
}

/// Changes a copy of the sample, and checks the differences found by both kinds of comparison.
fn check(change: impl Fn(&Path), expected: &[(&str, &str)]) {
    let (before, after) = (sample(), sample());
    change(after.path());
    let state = trees(&tree(before.path()), &tree(after.path()), Scrutiny::default());
    let expected: Vec<(String, String)> =
        expected.iter().map(|(path, what)| (path.to_string(), what.to_string())).collect();
    assert_eq!(found(&state), expected);
    let trace = whole(&manifest_of(before.path()));
    let by_trace = manifest_and_tree(
        &trace,
        &tree(after.path()),
        Scrutiny::default(),
        &Renames::default(),
        &all_seen,
    )
    .unwrap();
    // A manifest also names what is below a missing directory.
    for difference in &expected {
        assert!(found(&by_trace).contains(difference), "{difference:?}: {:?}", found(&by_trace));
    }
    assert_eq!(by_trace.different == 0, expected.is_empty());
}

#[test]
fn equal_trees_are_equal() {
    check(|_| {}, &[]);
}

#[test]
fn each_kind_of_difference_is_named() {
    let at = |root: &Path, name: &str| -> PathBuf { root.join(name) };
    check(
        |root| {
            let mut bytes = fs::read(at(root, "dir/deep/file")).unwrap();
            bytes[9_000] = 8;
            fs::write(at(root, "dir/deep/file"), bytes).unwrap();
        },
        &[("/dir/deep/file", "content")],
    );
    check(
        |root| fs::write(at(root, "dir/deep/file"), b"x").unwrap(),
        &[("/dir/deep/file", "size")],
    );
    let mode = Permissions::from_mode(0o1755);
    check(
        |root| fs::set_permissions(at(root, "dir/deep"), mode.clone()).unwrap(),
        &[("/dir/deep", "mode")],
    );
    check(
        |root| {
            fs::remove_file(at(root, "link")).unwrap();
            symlink("elsewhere", at(root, "link")).unwrap();
        },
        &[("/link", "target")],
    );
    check(
        |root| {
            fs::remove_file(at(root, "link")).unwrap();
            fs::create_dir(at(root, "link")).unwrap();
        },
        &[("/link", "type")],
    );
    check(|root| fs::remove_dir_all(at(root, "dir/deep")).unwrap(), &[("/dir/deep", "type")]);
    check(
        |root| {
            fs::remove_file(at(root, "linked")).unwrap();
            fs::write(at(root, "linked"), b"short").unwrap();
        },
        &[("/linked", "same file"), ("/dir/short", "links")],
    );
}

#[test]
fn what_was_added_is_found_in_trees() {
    let (before, after) = (sample(), sample());
    fs::write(after.path().join("dir/new"), b"").unwrap();
    let state = trees(&tree(before.path()), &tree(after.path()), Scrutiny::default());
    assert_eq!(found(&state), [("/dir/new".to_string(), "type".to_string())]);
}

#[test]
fn the_piece_that_differs_is_told() {
    let place = sample();
    let trace = whole(&manifest_of(place.path()));
    let path = place.path().join("dir/deep/file");
    let mut bytes = fs::read(&path).unwrap();
    bytes[8192] = 9;
    fs::write(&path, bytes).unwrap();
    let state = manifest_and_tree(
        &trace,
        &tree(place.path()),
        Scrutiny::default(),
        &Renames::default(),
        &all_seen,
    )
    .unwrap();
    assert!(state.differences[0].expected.starts_with("bytes 8192 to 12287 "), "{state:?}");
}

#[test]
fn bytes_that_were_never_seen_are_unknown_not_different() {
    let place = sample();
    let trace = whole(&manifest_of(place.path()));
    let path = place.path().join("dir/deep/file");
    let mut bytes = fs::read(&path).unwrap();
    bytes[8192..12288].fill(9);
    fs::write(&path, &bytes).unwrap();
    let compare = |unseen: Unseen<'_>| {
        manifest_and_tree(
            &trace,
            &tree(place.path()),
            Scrutiny::default(),
            &Renames::default(),
            unseen,
        )
        .unwrap()
    };
    let state = compare(&|path, _| {
        if path == b"/dir/deep/file" { vec![9000..9001, BEYOND] } else { vec![] }
    });
    assert_eq!((state.different, state.unknown_bytes), (0, 4096));
    let state = compare(&|_, _| vec![100..200, 15_000..16_000]);
    assert_eq!((state.different, state.unknown_bytes), (1, 0));
    // Differences elsewhere are still found.
    bytes[0] = 1;
    fs::write(&path, &bytes).unwrap();
    let state = compare(&|_, _| vec![8192..12288, BEYOND]);
    assert_eq!((state.different, state.unknown_bytes), (1, 4096));
}

#[test]
fn unknown_bytes_are_found_behind_links() {
    let place = sample();
    symlink("dir", place.path().join("alias")).unwrap();
    let mut entry = tree(place.path()).look(b"/alias/deep/file", Want::Pieces(0)).entry;
    entry.path = b"/alias/deep/file".to_vec();
    let path = place.path().join("dir/deep/file");
    fs::write(&path, vec![1; 20_000]).unwrap();
    let unseen = |path: &[u8], _| match path {
        b"/dir/deep/file" => vec![0..20_000, BEYOND],
        _ => Vec::new(),
    };
    let state = manifest_and_tree(
        &whole(&[entry]),
        &tree(place.path()),
        Scrutiny::default(),
        &Renames::default(),
        &unseen,
    )
    .unwrap();
    assert_eq!((state.different, state.unknown_bytes), (0, 20_000));
}

#[test]
fn what_cannot_be_told_is_not_called_equal() {
    let place = sample();
    let mut entries = manifest_of(place.path());
    for entry in &mut entries {
        if entry.path == b"/dir/deep/file" {
            entry.content = Content::Mapped;
        }
    }
    let state = manifest_and_tree(
        &whole(&entries),
        &tree(place.path()),
        Scrutiny::default(),
        &Renames::default(),
        &all_seen,
    )
    .unwrap();
    assert_eq!((state.different, state.unverified_count), (0, 1));
    assert_eq!(state.unverified[0].path, b"/dir/deep/file");
}

#[test]
fn what_two_wrote_at_a_time_is_no_difference() {
    let place = sample();
    let mut entries = manifest_of(place.path());
    for entry in &mut entries {
        match &mut entry.content {
            Content::Hashed(sums) if entry.path == b"/dir/deep/file" => sums.whole ^= 1,
            _ => {}
        }
        if entry.path == b"/dir" {
            entry.mode ^= 1;
        }
    }
    let mut state = manifest_and_tree(
        &whole(&entries),
        &tree(place.path()),
        Scrutiny::default(),
        &Renames::default(),
        &all_seen,
    )
    .unwrap();
    assert_eq!((state.different, state.unverified_count), (2, 0));
    let doubt = |ends| Some(Doubt { why: "why", ends, all: false });
    state.excuse(|path| doubt(true).filter(|_| path == b"/dir/deep"));
    assert_eq!((state.different, state.unverified_count), (2, 0), "none of its own");
    state.excuse(|_| doubt(false));
    assert_eq!((state.different, state.unverified_count), (1, 1));
    assert_eq!(state.unverified[0].path, b"/dir/deep/file");
    assert_eq!(state.differences.len(), 1);
}

#[test]
fn a_path_is_excused_once_however_much_of_it_differs() {
    let place = sample();
    let mut entries = manifest_of(place.path());
    for entry in &mut entries {
        if entry.path == b"/dir/short" || entry.path == b"/dir/deep/file" {
            entry.mode ^= 1;
            if let Content::Hashed(sums) = &mut entry.content {
                sums.whole ^= 1;
            }
        }
    }
    let state = manifest_and_tree(
        &whole(&entries),
        &tree(place.path()),
        Scrutiny::default(),
        &Renames::default(),
        &all_seen,
    );
    let mut state = state.unwrap();
    assert_eq!((state.different, state.differences.len()), (2, 4));
    let doubt = Doubt { why: "why", ends: true, all: true };
    state.excuse(|path| (path == b"/dir/short").then_some(doubt));
    assert_eq!((state.different, state.unverified_count), (1, 2));
    assert_eq!(state.verdict(), Verdict::Different);
    state.excuse(|_| Some(doubt));
    assert_eq!((state.different, state.verdict()), (0, Verdict::AsFarAsChecked));
}

#[test]
fn a_missing_or_short_manifest_is_told() {
    let place = sample();
    let compare = |ending| {
        let trace = trace_of(&[], ending);
        let tree = tree(place.path());
        manifest_and_tree(&trace, &tree, Scrutiny::default(), &Renames::default(), &all_seen)
            .unwrap()
    };
    assert!(compare(None).limited.unwrap().contains("no manifest"));
    let early = Ending { scope: Scope::StoppedEarly, left_out: 0 };
    assert!(compare(Some(early)).limited.unwrap().contains("stopped early"));
    let cut = Ending { scope: Scope::Truncated, left_out: 5 };
    let state = compare(Some(cut));
    assert!(state.limited.is_some() && state.left_out == 5);
    let with = |left_out, limited: Option<&str>| FinalState {
        compared: 3,
        left_out,
        limited: limited.map(String::from),
        ..state.clone()
    };
    assert_eq!(with(0, None).verdict(), Verdict::Identical);
    assert_eq!(with(1, None).verdict(), Verdict::AsFarAsChecked);
    assert_eq!(with(0, Some("cut")).verdict(), Verdict::AsFarAsChecked);
    assert!(compare(Some(Ending::default())).limited.is_none());
}

#[test]
fn links_do_not_lead_out_of_a_tree() {
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), b"secret").unwrap();
    let place = tempfile::tempdir().unwrap();
    symlink(outside.path(), place.path().join("out")).unwrap();
    symlink("../../../../../../..", place.path().join("up")).unwrap();
    let tree = tree(place.path());
    let secret = [b"/up", outside.path().as_os_str().as_encoded_bytes(), b"/secret"].concat();
    let dots = [b"/../../..", outside.path().as_os_str().as_encoded_bytes(), b"/secret"].concat();
    for path in [&b"/out/secret"[..], &secret, &dots] {
        assert_eq!(tree.look(path, Want::Whole).entry.kind, FileKind::Absent);
    }
    assert_eq!(tree.look(b"/a\0b", Want::Whole).entry.kind, FileKind::Unreachable);
    // Through a link to the tree's own top.
    assert_eq!(tree.look(b"/up/out", Want::Whole).entry.kind, FileKind::Link);
}

#[test]
fn two_manifests() {
    let place = sample();
    let entries = manifest_of(place.path());
    let same =
        manifests(&whole(&entries), &whole(&entries), Scrutiny::default(), &Renames::default())
            .unwrap();
    assert_eq!((same.different, same.unverified_count), (0, 0), "{same:?}");
    let mut changed = entries.clone();
    changed.retain(|entry| entry.path != b"/link");
    for entry in &mut changed {
        entry.uid += 1;
    }
    let other =
        manifests(&whole(&entries), &whole(&changed), Scrutiny::default(), &Renames::default())
            .unwrap();
    assert_eq!((other.different, other.unverified_count), (entries.len() as u64 - 1, 1));
    let no_owners = Scrutiny { owners: false, ..Scrutiny::default() };
    let other =
        manifests(&whole(&entries), &whole(&changed), no_owners, &Renames::default()).unwrap();
    assert_eq!(other.different, 0);
}

#[test]
fn what_a_user_calls_the_same_is_compared() {
    let place = sample();
    let entries = manifest_of(place.path());
    let renames = Renames(vec![(b"/dir/".to_vec(), b"/a/new/".to_vec())]);
    let mut others = entries.clone();
    for entry in &mut others {
        renames.apply(entry);
    }
    others.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(others.iter().any(|entry| entry.path == b"/a/new/deep/file"), "{others:?}");
    let compared = |a: &[Entry], b: &[Entry], renames: &Renames| {
        manifests(&whole(a), &whole(b), Scrutiny::default(), renames).unwrap()
    };
    let same = compared(&entries, &others, &renames);
    assert_eq!((same.different, same.unverified_count), (0, 0), "{same:?}");
    assert_eq!(same.compared, entries.len() as u64);
    let same = compared(&others, &entries, &renames.reversed());
    assert_eq!((same.different, same.unverified_count), (0, 0), "{same:?}");
    assert!(compared(&entries, &others, &Renames::default()).unverified_count > 0);
    // What differs is told by its name on the other side, what is missing there too.
    for entry in others.iter_mut().filter(|entry| entry.path == b"/a/new/deep/file") {
        entry.size += 1;
    }
    others.retain(|entry| entry.path != b"/a/new/short");
    let other = compared(&entries, &others, &renames);
    assert_eq!(found(&other), [("/a/new/deep/file".into(), "size".into())]);
    assert!(other.unverified.iter().any(|one| one.path == b"/a/new/short"), "{other:?}");
    // A tree that has them elsewhere.
    let moved = sample();
    fs::create_dir(moved.path().join("a")).unwrap();
    fs::rename(moved.path().join("dir"), moved.path().join("a/new")).unwrap();
    let below: Vec<Entry> =
        entries.iter().filter(|entry| entry.path.starts_with(b"/dir/")).cloned().collect();
    let (trace, no_owners) = (whole(&below), Scrutiny::default());
    let state =
        manifest_and_tree(&trace, &tree(moved.path()), no_owners, &renames, &all_seen).unwrap();
    let names = found(&state);
    assert!(names.iter().all(|(_, what)| what == "links"), "{names:?}");
}

#[test]
fn attributes_are_compared_where_there_are_any() {
    let (before, after) = (sample(), sample());
    let set = |place: &TempDir, value: &[u8]| {
        let path = place.path().join("dir/short");
        rustix::fs::setxattr(path, "user.reenact", value, rustix::fs::XattrFlags::empty())
    };
    if set(&before, b"one").is_err() {
        eprintln!("this file system has no attributes: nothing to compare");
        return;
    }
    set(&after, b"two").unwrap();
    let state = trees(&tree(before.path()), &tree(after.path()), Scrutiny::default());
    assert!(found(&state).contains(&("/dir/short".into(), "xattr".into())), "{state:?}");
}

#[test]
fn the_directories_themselves_are_compared() {
    let (before, after) = (sample(), sample());
    fs::set_permissions(after.path(), fs::Permissions::from_mode(0o751)).unwrap();
    let state = trees(&tree(before.path()), &tree(after.path()), Scrutiny::default());
    assert_eq!(found(&state), [("/".into(), "mode".into())]);
}

#[test]
fn capabilities_of_files_are_compared_where_they_can_be_given() {
    let (before, after) = (sample(), sample());
    // Revision 2, effective: CAP_NET_BIND_SERVICE.
    let mut capability = [0u8; 20];
    (capability[0], capability[3], capability[5]) = (1, 2, 4);
    let path = before.path().join("dir/long");
    let none = rustix::fs::XattrFlags::empty();
    if rustix::fs::setxattr(path, "security.capability", &capability, none).is_err() {
        eprintln!("only root may give capabilities: nothing to compare");
        return;
    }
    let (before, after) = (tree(before.path()), tree(after.path()));
    let state = trees(&before, &after, Scrutiny::default());
    assert_eq!(found(&state), [("/dir/long".into(), "xattr".into())]);
    let withheld = Scrutiny { privileged: false, ..Scrutiny::default() };
    let state = trees(&before, &after, withheld);
    assert_eq!((state.different, state.unverified_count), (0, 1));
}
