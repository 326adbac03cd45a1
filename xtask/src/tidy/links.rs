//! Checks links in Markdown documents.

use std::path::{Component, Path, PathBuf};

use super::{Files, extension};
use crate::repository;

/// Finds links to files and headings that do not exist.
pub fn broken(files: &Files) -> Vec<String> {
    let mut found = Vec::new();
    for (path, text) in files.iter().filter(|(path, _)| extension(path) == "md") {
        for (number, target) in links(text) {
            if let Some(why) = problem(files, path, text, &target) {
                found.push(format!("{}:{number}: {target}: {why}", path.display()));
            }
        }
    }
    found
}

/// Returns the targets of `](target)` outside code, with their lines.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut in_code = false;
    for (line, number) in text.lines().zip(1..) {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        let mut rest = line;
        while let Some((_, after)) = rest.split_once("](") {
            let Some((target, more)) = after.split_once(')') else { break };
            found.push((number, target.to_string()));
            rest = more;
        }
    }
    found
}

fn problem(files: &Files, from: &Path, text: &str, target: &str) -> Option<&'static str> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, heading) = target.split_once('#').unwrap_or((target, ""));
    let path = normal(&from.parent().unwrap_or(Path::new("")).join(file));
    if !file.is_empty() && !files.contains_key(&path) && !repository().join(&path).exists() {
        return Some("no such file");
    }
    let text = if file.is_empty() { Some(text) } else { files.get(&path).map(String::as_str) };
    let has_heading = |text: &str| {
        let headings = text.lines().filter_map(|line| line.strip_prefix('#'));
        headings.map(|line| slug(line.trim_start_matches('#'))).any(|slug| slug == heading)
    };
    (!heading.is_empty() && !text.is_some_and(has_heading)).then_some("no such heading")
}

/// Turns a heading into an anchor as hosting sites do.
fn slug(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// Removes `.` and `..` from a path.
fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_files_and_headings() {
        let tree: Files = [
            ("README.md", "[a](docs/a.md) [b](docs/none.md)\n```\n[c](no.md)\n```\n[d](docs/a.md#two-words)\n"),
            ("docs/a.md", "# Two words\n[up](../README.md) [x](#nothing) [y](https://example.org)\n"),
        ]
        .map(|(path, text)| (PathBuf::from(path), text.to_string()))
        .into();
        let found = broken(&tree);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("docs/none.md") && found[1].contains("#nothing"));
    }
}
