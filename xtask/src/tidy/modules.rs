//! Finds unused files.

use std::path::{Path, PathBuf};

use super::{Files, extension};

/// Finds Rust files in `src` that no `mod` names.
pub fn orphans(files: &Files) -> Vec<String> {
    files
        .keys()
        .filter(|path| extension(path) == "rs" && path.components().any(|c| c.as_os_str() == "src"))
        .filter(|path| !is_root(path) && !is_target(path, files) && !is_named(path, files))
        .map(|path| format!("{}: no `mod` leads to it", path.display()))
        .collect()
}

fn is_root(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    let in_src = path.parent().is_some_and(|dir| dir.ends_with("src") || dir.ends_with("src/bin"));
    in_src
        && (name == "lib.rs"
            || name == "main.rs"
            || path.parent().is_some_and(|d| d.ends_with("bin")))
}

/// Returns whether the crate's manifest names the file as a target.
fn is_target(path: &Path, files: &Files) -> bool {
    path.ancestors().any(|dir| {
        let named = |text: &String| {
            let inside = path.strip_prefix(dir).unwrap_or(path);
            text.contains(&format!("path = \"{}\"", inside.display()))
        };
        files.get(&dir.join("Cargo.toml")).is_some_and(named)
    })
}

fn is_named(path: &Path, files: &Files) -> bool {
    let Some(dir) = path.parent() else { return false };
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    // A `mod.rs` is named by its folder, in the folder above.
    let (dir, module) = if stem == "mod" {
        let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        (dir.parent().unwrap_or(dir), name)
    } else {
        (dir, stem)
    };
    let mut parents: Vec<PathBuf> =
        vec![dir.join("mod.rs"), dir.join("lib.rs"), dir.join("main.rs")];
    parents.push(dir.with_extension("rs"));
    let file_name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    parents.iter().filter_map(|parent| files.get(parent)).any(|text| {
        text.lines().any(|line| {
            let line = line.trim();
            line.ends_with(&format!("mod {module};")) || line.contains(&format!("{file_name}\"]"))
        })
    })
}

/// Folders of which a test reads every file.
const READ_WHOLE: &str = "tests/findings";

/// Finds documents, scripts and benchmarks that no other file mentions.
pub fn unreferred(files: &Files) -> Vec<String> {
    let kinds = ["md", "sh", "py"];
    let looked_at = |path: &&PathBuf| {
        (kinds.contains(&extension(path)) || path.starts_with("benches"))
            && path.file_name().is_some_and(|name| name != "README.md")
            && !path.starts_with(READ_WHOLE)
    };
    files
        .keys()
        .filter(looked_at)
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            !files.iter().any(|(other, text)| other != *path && text.contains(&name))
        })
        .map(|path| format!("{}: nothing refers to it", path.display()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(list: &[(&str, &str)]) -> Files {
        list.iter().map(|(path, text)| (PathBuf::from(path), text.to_string())).collect()
    }

    #[test]
    fn modules_that_nobody_names() {
        let tree = files(&[
            ("crates/a/src/lib.rs", "mod used;\npub mod deep;\n"),
            ("crates/a/src/used.rs", ""),
            ("crates/a/src/deep.rs", "mod inner;\n"),
            ("crates/a/src/deep/inner.rs", ""),
            ("crates/a/src/deep/left.rs", ""),
            ("crates/a/src/left.rs", ""),
            ("crates/a/src/target.rs", ""),
            ("crates/a/Cargo.toml", "[[bin]]\npath = \"src/target.rs\"\n"),
        ]);
        let found = orphans(&tree);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.iter().all(|line| line.contains("left.rs")));
    }

    #[test]
    fn documents_that_nobody_names() {
        let tree = files(&[("README.md", "see docs/a.md\n"), ("docs/a.md", ""), ("docs/b.md", "")]);
        assert_eq!(unreferred(&tree), ["docs/b.md: nothing refers to it"]);
    }
}
