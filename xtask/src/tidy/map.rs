//! The map of the code: each source file of a crate is named in ARCHITECTURE.md or docs/design.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use super::{Files, extension};

const MAP: &str = "ARCHITECTURE.md";
const DESIGN: &str = "docs/design";

/// Source files of crates that no document of the map names.
pub fn unnamed(files: &Files) -> Vec<String> {
    let sources: Vec<&PathBuf> = files.keys().filter(|path| is_source(path)).collect();
    let mut named: BTreeSet<&Path> = BTreeSet::new();
    for (_, text) in files.iter().filter(|(path, _)| is_of_map(path)) {
        for name in names(text) {
            let covered: Vec<&PathBuf> =
                sources.iter().copied().filter(|path| covers(&name.parts, path)).collect();
            let crates: BTreeSet<&str> = covered.iter().map(|path| parts(path)[0]).collect();
            let is_meant = |path: &Path| {
                let krate = parts(path)[0];
                name.parts[0] == krate
                    || if name.crates.is_empty() {
                        crates.len() == 1
                    } else {
                        name.crates.contains(krate)
                    }
            };
            named.extend(covered.into_iter().map(PathBuf::as_path).filter(|path| is_meant(path)));
        }
    }
    sources
        .into_iter()
        .filter(|path| !named.contains(path.as_path()))
        .map(|path| format!("{}: {MAP} and {DESIGN} do not name it", path.display()))
        .collect()
}

/// Files beside the sources of crates (tests, benchmarks, tools) that no document names, and no
/// folder above them either.
pub fn unnamed_beside(files: &Files) -> Vec<String> {
    let documents = files.iter().filter(|(path, _)| extension(path) == "md");
    let mut named: BTreeSet<&str> = BTreeSet::new();
    for (_, text) in documents {
        let links = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
        let names = quoted(text).chain(links).map(|name| name.trim_start_matches("../"));
        named.extend(names.filter(|name| !["", "/"].contains(name)));
    }
    let is_file_named = |path: &Path| named.iter().any(|name| path.ends_with(name));
    let is_folder_named = |path: &Path| named.contains(format!("{}/", path.display()).as_str());
    let is_beside = |path: &Path| {
        let top = path.iter().next().and_then(|part| part.to_str()).unwrap_or_default();
        path.iter().count() > 1 && !top.starts_with('.') && !is_of_crate(path)
    };
    files
        .keys()
        .filter(|path| is_beside(path))
        .filter(|path| !is_file_named(path))
        .filter(|path| !path.ancestors().skip(1).any(is_folder_named))
        .map(|path| format!("{}: no document names it or its folder", path.display()))
        .collect()
}

/// A file in `src` of a crate, or its manifest.
fn is_of_crate(path: &Path) -> bool {
    let third = path.iter().nth(2);
    path.starts_with("crates") && third.is_some_and(|part| part == "src" || part == "Cargo.toml")
}

fn is_of_map(path: &Path) -> bool {
    path == Path::new(MAP) || path.starts_with(DESIGN) && extension(path) == "md"
}

/// A file in `src` of a crate that is neither a root nor a test.
fn is_source(path: &Path) -> bool {
    let parts = parts(path);
    let is_test = parts.iter().any(|part| ["tests", "tests.rs"].contains(part));
    let is_root = parts.last().is_some_and(|name| ["lib.rs", "main.rs"].contains(name));
    extension(path) == "rs"
        && path.starts_with("crates")
        && path.components().nth(2).is_some_and(|part| part.as_os_str() == "src")
        && !is_root
        && !is_test
}

/// Components, without those that say nothing: `crates/replay/src/plan.rs` is `replay/plan.rs`.
fn parts(path: &Path) -> Vec<&str> {
    let names = path.components().filter_map(|component| match component {
        Component::Normal(name) => name.to_str(),
        _ => None,
    });
    names.filter(|name| !["crates", "src"].contains(name)).collect()
}

/// A file or folder that a document names.
struct Name<'a> {
    /// The components of what is written.
    parts: Vec<&'a str>,
    /// Crates that the text speaks of there; none if it does not say.
    crates: BTreeSet<&'a str>,
}

/// All names in a document. A crate that a heading names (`crates/model`) is meant below it, unless
/// the paragraph or the item of a list names others.
fn names(text: &str) -> Vec<Name<'_>> {
    let mut found = Vec::new();
    let (mut of_section, mut of_block) = (BTreeSet::new(), BTreeSet::new());
    for line in text.lines() {
        if line.starts_with(['#', '|']) || line.starts_with("- ") || line.is_empty() {
            of_block = BTreeSet::new();
        }
        let crates = quoted(line).filter_map(|text| text.strip_prefix("crates/"));
        of_block.extend(crates.filter_map(|text| text.split('/').next()));
        if line.starts_with('#') {
            of_section = of_block.clone();
        }
        let crates = if of_block.is_empty() { &of_section } else { &of_block };
        let names = quoted(line).filter_map(name);
        found.extend(names.map(|parts| Name { parts, crates: crates.clone() }));
    }
    found
}

/// What stands between backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2))
}

/// The components of a quoted file or folder; a folder ends with an empty one.
fn name(quoted: &str) -> Option<Vec<&str>> {
    let is_folder = quoted.ends_with('/');
    let mut name = parts(Path::new(quoted));
    if name.is_empty() || !is_folder && !quoted.ends_with(".rs") {
        return None;
    }
    if is_folder {
        name.push("");
    }
    Some(name)
}

/// Whether a name is a file's, with as many folders above it as are written, or that of a folder
/// above it. A whole crate is no such folder.
fn covers(name: &[&str], path: &Path) -> bool {
    let path = parts(path);
    match name {
        [folder @ .., ""] => {
            let mut runs = path[..path.len() - 1].windows(folder.len()).enumerate();
            runs.any(|(at, run)| run == folder && at + folder.len() > 1)
        }
        _ => path.ends_with(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> Files {
        files.iter().map(|(path, text)| (PathBuf::from(path), text.to_string())).collect()
    }

    #[test]
    fn sources_that_the_map_does_not_name() {
        let map = "`plan.rs`, `plan/bytes.rs` and `deep/`; the crate `a/`, bytes.rs without quotes";
        let tree = tree(&[
            ("ARCHITECTURE.md", map),
            ("docs/design/one.md", "see `a/image.rs`"),
            ("docs/other.md", "`left.rs`"),
            ("crates/a/src/lib.rs", ""),
            ("crates/a/src/plan.rs", ""),
            ("crates/a/src/plan/bytes.rs", ""),
            ("crates/a/src/image/bytes.rs", ""),
            ("crates/a/src/deep/anything/at_all.rs", ""),
            ("crates/a/src/deep/tests.rs", ""),
            ("crates/a/src/image.rs", ""),
            ("crates/b/src/image.rs", ""),
            ("crates/a/src/left.rs", ""),
            ("crates/a/tests/left.rs", ""),
            ("crates/deep/src/more.rs", ""),
        ]);
        let found = unnamed(&tree).join("\n");
        assert_eq!(found.lines().count(), 4, "{found}");
        for path in ["a/src/image/bytes.rs", "b/src/image.rs", "a/src/left.rs", "deep/src/more.rs"]
        {
            assert!(found.contains(path), "{path}: {found}");
        }
    }

    #[test]
    fn a_name_is_meant_for_one_crate() {
        let sources = [
            ("crates/a/src/calls.rs", ""),
            ("crates/b/src/calls.rs", ""),
            ("crates/b/src/only.rs", ""),
            ("crates/c/src/calls.rs", ""),
        ];
        let unnamed_with = |map: &str| {
            let found = unnamed(&tree(&[&[("ARCHITECTURE.md", map)], &sources[..]].concat()));
            found.iter().map(|line| line[7..8].to_string()).collect::<String>()
        };
        assert_eq!(unnamed_with("`calls.rs`, `only.rs`"), "abc");
        assert_eq!(unnamed_with("## `crates/a`\n\n`calls.rs`, `only.rs`"), "bbc");
        assert_eq!(unnamed_with("## Two\n- `crates/b`: `calls.rs`,\n `only.rs`\n- more"), "ac");
        assert_eq!(unnamed_with("## `crates/a`\n\n`calls.rs`, `b/calls.rs`"), "bc");
    }

    #[test]
    fn files_beside_crates() {
        let found = unnamed_beside(&tree(&[
            (
                "docs/testing.md",
                "`/`, `left/`, `tests`, `tests/programs/`, [one](../benches/one.c#x), `crates/a/tests/`",
            ),
            ("docs/left.md", ""),
            ("tests/programs/any.c", ""),
            ("tests/left/any.c", ""),
            ("benches/one.c", ""),
            ("benches/two.c", ""),
            ("crates/a/tests/any.rs", ""),
            ("crates/a/src/lib.rs", ""),
            ("Cargo.toml", ""),
            (".ci/run", ""),
        ]));
        let left = ["benches/two.c", "docs/left.md", "docs/testing.md", "tests/left/any.c"];
        assert_eq!(found, left.map(|path| format!("{path}: no document names it or its folder")));
    }
}
