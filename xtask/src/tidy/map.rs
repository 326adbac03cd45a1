//! The map of the code: each source file of a crate is named in ARCHITECTURE.md or docs/design.

use std::path::{Component, Path};

use super::{Files, extension};

const MAP: &str = "ARCHITECTURE.md";
const DESIGN: &str = "docs/design";

/// Source files of crates that no document of the map names.
pub fn unnamed(files: &Files) -> Vec<String> {
    let map = files.iter().filter(|(path, _)| is_of_map(path));
    let names: Vec<Vec<&str>> = map.flat_map(|(_, text)| quoted(text)).filter_map(name).collect();
    let sources = files.keys().filter(|path| is_source(path));
    sources
        .filter(|path| !names.iter().any(|name| covers(name, path)))
        .map(|path| format!("{}: {MAP} and {DESIGN} do not name it", path.display()))
        .collect()
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
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn sources_that_the_map_does_not_name() {
        let map = "`plan.rs`, `plan/bytes.rs` and `deep/`; the crate `a/`, bytes.rs without quotes";
        let tree: Files = [
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
        ]
        .map(|(path, text)| (PathBuf::from(path), text.to_string()))
        .into();
        let found = unnamed(&tree).join("\n");
        assert_eq!(found.lines().count(), 4, "{found}");
        for path in ["a/src/image/bytes.rs", "b/src/image.rs", "a/src/left.rs", "deep/src/more.rs"]
        {
            assert!(found.contains(path), "{path}: {found}");
        }
    }
}
