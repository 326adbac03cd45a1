//! How two calls overlap that claim the same names.

use super::super::claims::names::{Found, Names, leads_through, parent};

/// Whether a call found, or missed, what the other one changed: it comes before that. `in_doubt`:
/// what is found of a name shows nothing.
pub fn found_before(one: &Names, other: &Names, in_doubt: impl Fn(&[u8]) -> bool) -> bool {
    let certain = |name: &&[u8]| !in_doubt(name);
    let made = |path: &[u8]| other.made.as_deref().filter(certain) == Some(path);
    let removed = other.removed.as_deref().filter(certain);
    one.found.iter().any(|found| match found {
        Found::There(path) | Found::Above(path) => {
            removed.is_some_and(|removed| leads_through(path, removed))
        }
        Found::Absent(path) => made(path),
        Found::Filled(path) => removed.is_some_and(|removed| parent(removed) == path),
        Found::Listed(listing) => {
            let made = other.made.as_deref().filter(certain);
            removed.is_some_and(|removed| listing.has(removed))
                || made.is_some_and(|made| listing.lacks(made))
        }
    })
}

/// Whether a call found what the other one had made, or missed what it had removed: it comes after
/// that. (A task that comes too early repeats its call, but nobody else may come in between.)
pub fn changed_before(one: &Names, other: &Names, in_doubt: impl Fn(&[u8]) -> bool) -> bool {
    let certain = |name: &&[u8]| !in_doubt(name);
    let made = one.made.as_deref().filter(|_| one.replaced.is_none()).filter(certain);
    let removed = one.removed.as_deref().filter(certain);
    other.found.iter().any(|found| match found {
        Found::There(path) | Found::Above(path) => {
            made.is_some_and(|made| leads_through(path, made))
        }
        Found::Absent(path) => removed.is_some_and(|removed| leads_through(path, removed)),
        Found::Filled(_) => false,
        Found::Listed(listing) => made.is_some_and(|made| listing.has(made)),
    })
}

/// Whether a call listed a directory in which the other one removed a name, or moved one to another, and
/// what it got does not show which was first: entries come one by one.
pub fn listed_beside(one: &Names, other: &Names) -> bool {
    let (made, removed) = (other.made.as_deref(), other.removed.as_deref());
    one.found.iter().any(|found| match found {
        Found::Listed(listing) => {
            removed.is_some_and(|removed| listing.lacks(removed))
                || removed.and(made).is_some_and(|made| listing.has(made))
        }
        _ => false,
    })
}

/// Whether a call told how many names a file has, while the other one may have given it one or taken one from
/// it: by which names, nobody knows.
pub fn counted_beside(one: &Names, other: &Names) -> bool {
    let Some(links) = one.links else { return false };
    let is_there =
        |path: &[u8]| one.found.iter().any(|found| *found == Found::There(path.to_vec()));
    let linked = other.made.as_ref().and_then(|_| {
        other.found.iter().find_map(|found| match found {
            Found::There(path) => Some(&path[..]),
            _ => None,
        })
    });
    let removes = other.removed.is_some() || other.replaced.is_some();
    linked.is_some_and(|path| links > 1 || is_there(path)) || links > 1 && removes
}

/// Names that one of the calls changed and the other one changed or found as well, where
/// nothing shows what they referred to in between.
pub fn changed_by_both<'a>(one: &'a Names, other: &'a Names) -> Vec<&'a [u8]> {
    let of_one = |one: &'a Names, other: &'a Names| {
        let there = one.found.iter().filter_map(|found| match found {
            Found::There(path) => Some(&path[..]),
            _ => None,
        });
        // What it found is the old or the new one, and so is what got another name by it.
        let is_other = |path: &&[u8]| other.replaced.as_deref().is_some_and(|new| new == *path);
        let found_other = there.filter(is_other).flat_map(|path| {
            let linked = one.made.as_deref();
            std::iter::once(path).chain(linked)
        });
        // An entry was created in a directory that was removed.
        let into = one.made.as_deref().map(parent);
        let into = into.filter(|into| other.removed.as_deref() == Some(*into));
        // It found the name, or made it again. What it opened may have got another name.
        let remade = one.remade.as_deref();
        let remade = remade.filter(|name| other.removed.as_deref() == Some(*name));
        let moved = remade.and(other.made.as_deref());
        found_other.chain(into).chain(remade).chain(moved)
    };
    let changed = |names: &'a Names| [names.made.as_deref(), names.removed.as_deref()];
    let theirs = changed(other);
    let both = changed(one).into_iter().filter(|name| theirs.contains(name)).flatten();
    // The file of a name in doubt may have got another name.
    let moved = |names: &'a Names, name: &[u8]| {
        names.made.as_deref().filter(|_| names.removed.as_deref() == Some(name))
    };
    let both = both
        .flat_map(|name| [Some(name), moved(one, name), moved(other, name)].into_iter().flatten());
    both.chain(of_one(one, other)).chain(of_one(other, one)).collect()
}

#[cfg(test)]
mod tests {
    use trace::event::EventKind;

    use super::super::super::claims::listings::Listing;
    use super::*;
    use crate::image::tests::recording::Recording;
    use crate::treatment::said;

    const O_CREAT: u64 = 0o100;
    const ENOENT: i64 = -2;
    const EEXIST: i64 = -17;
    const ENOTEMPTY: i64 = -39;

    /// Effect of a call on absolute paths.
    fn names(name: &str, paths: &[&str], ret: i64) -> Names {
        let mut recording = Recording::new("/");
        match name {
            "open" | "creat" => {
                let flags = if name == "open" { 0 } else { O_CREAT };
                recording.open(paths[0], flags, ret);
            }
            "symlink" => recording.paths(name, &["target", paths[0]], ret),
            _ => recording.paths(name, paths, ret),
        }
        let Some(EventKind::Call(call)) = recording.events().last().map(|event| event.kind) else {
            panic!("a call was made");
        };
        let paths: Vec<(u8, Vec<u8>)> =
            paths.iter().zip(0..).map(|(path, arg)| (arg, path.as_bytes().to_vec())).collect();
        let said = said(&call).expect("it has a row");
        Names::of(&said, &call, ret, &paths, false).expect("it tells something")
    }

    #[test]
    fn what_was_found_comes_before_what_changed_it() {
        let makes = || names("creat", &["/a/b"], 3);
        let follows = |name: &str, paths: &[&str], ret| {
            found_before(&names(name, paths, ret), &makes(), |_| false)
        };
        assert!(follows("open", &["/a/b"], ENOENT));
        assert!(follows("mkdir", &["/a/b/c"], ENOENT));
        assert!(follows("creat", &["/a/b/c"], ENOENT));
        assert!(follows("rename", &["/a/b", "/c"], ENOENT));
        assert!(follows("link", &["/c", "/a/b/d"], ENOENT));
        assert!(!follows("open", &["/a/b/c"], ENOENT), "c may be missing as well");
        assert!(!follows("creat", &["/a/b/c/d"], ENOENT), "c may be missing as well");
        assert!(!follows("mkdir", &["/a/b"], ENOENT));
        assert!(!follows("open", &["/a"], ENOENT));
        assert!(!follows("open", &["/a/b"], 4), "that comes after");
        assert!(!follows("symlink", &["/a/b"], EEXIST), "that comes after");
    }

    #[test]
    fn what_was_there_comes_before_its_end() {
        let ends = [names("unlink", &["/a/b"], 0), names("rename", &["/a/b", "/x"], 0)];
        for end in ends {
            let follows = |name: &str, paths: &[&str], ret| {
                found_before(&names(name, paths, ret), &end, |_| false)
            };
            assert!(follows("open", &["/a/b"], 3));
            assert!(follows("open", &["/a/b/c"], 3));
            assert!(follows("symlink", &["/a/b"], EEXIST));
            assert!(follows("mkdir", &["/a/b/c"], 0));
            assert!(follows("unlink", &["/a/b/c"], 0));
            assert!(follows("link", &["/a/b", "/c"], 0));
            assert!(follows("rename", &["/c", "/a/b/c"], 0));
            assert!(follows("rmdir", &["/a"], ENOTEMPTY));
            assert!(!follows("rmdir", &["/a/b"], ENOTEMPTY));
            assert!(!follows("open", &["/a/b"], ENOENT), "that comes after");
            assert!(!follows("creat", &["/a/b"], 3), "nobody can tell");
            assert!(!follows("unlink", &["/a/b"], 0), "nobody can tell");
        }
    }

    #[test]
    fn names_that_two_changed_are_contested() {
        let contested = |a: (&str, &[&str], i64), b: (&str, &[&str], i64)| {
            let (a, b) = (names(a.0, a.1, a.2), names(b.0, b.1, b.2));
            let text = |name: &[u8]| String::from_utf8(name.to_vec()).unwrap();
            let all: Vec<String> = changed_by_both(&a, &b).into_iter().map(text).collect();
            assert_eq!(all.len(), changed_by_both(&b, &a).len());
            all
        };
        let rename = ("rename", &["/t", "/x"][..], 0);
        assert_eq!(contested(rename, ("unlink", &["/x"], 0)), ["/x"]);
        assert_eq!(contested(rename, ("rename", &["/u", "/x"], 0)), ["/x"]);
        assert_eq!(contested(rename, ("open", &["/x"], 3)), ["/x"], "which one was opened?");
        assert_eq!(contested(("creat", &["/d/a"], 3), ("rmdir", &["/d"], 0)), ["/d"]);
        let told: [(&str, &[&str], i64); 3] =
            [("unlink", &["/x"], ENOENT), ("open", &["/y"], 3), ("unlink", &["/y"], 0)];
        for told in told {
            assert!(contested(rename, told).is_empty(), "{told:?}");
        }
        assert!(contested(("mkdir", &["/d"], 0), ("mkdir", &["/d"], EEXIST)).is_empty());
    }

    #[test]
    fn what_was_made_or_removed_comes_before_who_found_that() {
        let before = |a: (&str, &[&str], i64), b: (&str, &[&str], i64)| {
            let (a, b) = (names(a.0, a.1, a.2), names(b.0, b.1, b.2));
            assert!(!changed_before(&a, &b, |_| true), "that name is in doubt");
            changed_before(&a, &b, |_| false)
        };
        let makes = ("mkdir", &["/a"][..], 0);
        assert!(before(makes, ("open", &["/a/b"], 3)));
        assert!(before(makes, ("mkdir", &["/a"], EEXIST)));
        assert!(before(makes, ("link", &["/a/b", "/c"], EEXIST)), "its source was there");
        assert!(!before(makes, ("open", &["/a"], ENOENT)), "that came before");
        let moves = ("rename", &["/a", "/x"][..], 0);
        assert!(before(moves, ("open", &["/a"], ENOENT)));
        assert!(!before(moves, ("open", &["/x"], 3)), "it may have been another one");
        assert!(!before(("rename", &["/a", "/a"], 0), ("open", &["/a"], ENOENT)));
    }

    #[test]
    fn what_may_have_been_made_again_is_contested_with_what_became_of_it() {
        let mut names_of = names("creat", &["/a"], 3);
        assert_eq!(names_of.made.take().as_deref(), Some(&b"/a"[..]));
        names_of.remade = Some(b"/a".to_vec());
        names_of.found = vec![Found::There(b"/a".to_vec())];
        let rename = names("rename", &["/a", "/b"], 0);
        let all = changed_by_both(&names_of, &rename);
        assert_eq!(all, [&b"/a"[..], &b"/b"[..]]);
        let (link, onto) = (names("link", &["/x", "/y"], 0), names("rename", &["/t", "/x"], 0));
        let all = changed_by_both(&onto, &link);
        assert_eq!(all, [&b"/x"[..], &b"/y"[..]], "which of both got another name?");
        let two = changed_by_both(&rename, &names("unlink", &["/a"], 0)).concat();
        assert_eq!(two, b"/a/b");
        let failed: Vec<Vec<u8>> =
            names("link", &["/x", "/y"], ENOENT).changed().map(<[u8]>::to_vec).collect();
        assert_eq!(failed, [b"/y"], "it would have made that");
    }

    /// What a portion of the entries of `/d` shows beside a call that changes names.
    #[track_caller]
    fn check_listed(entries: &[&str], is_first: bool, change: &Names, expected: [bool; 3]) {
        let mut recording = Recording::new("/");
        let mut bytes = Vec::new();
        for name in entries {
            let len = 24 + name.len() / 8 * 8;
            let at = bytes.len();
            bytes.resize(at + len, 0);
            bytes[at + 16] = len as u8;
            bytes[at + 19..at + 19 + name.len()].copy_from_slice(name.as_bytes());
        }
        let len = bytes.len() as i64;
        recording.call("getdents64", &[3, 1, 4096], &[(1, &bytes)], len);
        let trace = recording.trace();
        let Some(EventKind::Call(call)) = recording.events().last().map(|event| event.kind) else {
            panic!("a call was made");
        };
        let said = said(&call).expect("it has a row");
        let listing = Listing::of(&said, &call, &trace, b"/d", is_first).expect("it is all there");
        let listed = Names::listed(b"/d", Some(listing));
        let found = [
            found_before(&listed, change, |_| false),
            changed_before(change, &listed, |_| false),
            listed_beside(&listed, change),
        ];
        assert_eq!(found, expected, "first, after, unknown");
    }

    #[test]
    fn a_listing_shows_which_names_were_there() {
        let (first, after, unknown, nothing) =
            ([true, false, false], [false, true, false], [false, false, true], [false; 3]);
        let made = names("creat", &["/d/new"], 3);
        check_listed(&["a", "b"], true, &made, first);
        check_listed(&["a", "new"], true, &made, after);
        check_listed(&["new"], false, &made, after);
        check_listed(&["a"], false, &made, nothing);
        check_listed(&["a"], true, &names("creat", &["/d/e/new"], 3), nothing);
        let removed = names("unlink", &["/d/old"], 0);
        check_listed(&["a", "old"], true, &removed, first);
        check_listed(&["a"], true, &removed, unknown);
        check_listed(&["a"], false, &removed, nothing);
        let moved = names("rename", &["/d/a", "/d/b"], 0);
        check_listed(&["a"], true, &moved, first);
        check_listed(&["b"], true, &moved, unknown);
        check_listed(&["a", "b"], true, &moved, [true, false, true]);
        check_listed(&[], true, &moved, [true, false, true]);
    }

    #[test]
    fn how_many_names_a_file_has_depends_on_who_links_and_removes() {
        let stat = |links, path: &str| Names { links: Some(links), ..names("stat", &[path], 0) };
        let (link, removed) = (names("link", &["/a", "/b"], 0), names("unlink", &["/x"], 0));
        assert!(counted_beside(&stat(1, "/a"), &link) && counted_beside(&stat(2, "/c"), &link));
        assert!(!counted_beside(&stat(1, "/c"), &link));
        assert!(counted_beside(&stat(2, "/a"), &removed));
        assert!(!counted_beside(&stat(1, "/a"), &removed));
        assert!(!counted_beside(&stat(2, "/a"), &names("creat", &["/b"], 3)));
        assert!(!counted_beside(&names("open", &["/a"], 3), &link), "it told nothing");
    }

    #[test]
    fn what_changes_places_is_not_removed() {
        let mut exchange = Recording::new("/");
        exchange.numbers("renameat2", &[0, 1, 0, 1, libc::RENAME_EXCHANGE as u64], 0);
        let Some(EventKind::Call(call)) = exchange.events().last().map(|event| event.kind) else {
            panic!("a call was made");
        };
        let paths = [(1, b"/a".to_vec()), (3, b"/b".to_vec())];
        let said = said(&call).expect("it has a row");
        let names_of = Names::of(&said, &call, 0, &paths, false).expect("it tells something");
        assert!(!found_before(&names("open", &["/a"], 3), &names_of, |_| false));
        assert!(!found_before(&names("open", &["/b"], ENOENT), &names_of, |_| false));
    }
}
