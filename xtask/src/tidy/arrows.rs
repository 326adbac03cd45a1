//! Which crate depends on which is drawn in ARCHITECTURE.md: every dependency has its arrow in the
//! table of crates, and every arrow a dependency.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::Files;

const MAP: &str = "ARCHITECTURE.md";
const HEADING: &str = "## Crates";

/// Crates, with those that each depends on.
type Arrows<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// Finds dependencies that are not drawn, and arrows that are no dependencies.
pub fn wrong(files: &Files) -> Vec<String> {
    let map = files.get(Path::new(MAP)).map(String::as_str).unwrap_or_default();
    let (drawn, real) = (drawn(map), real(files));
    let mut found = Vec::new();
    for (name, dependencies) in &real {
        let manifest = format!("crates/{name}/Cargo.toml");
        let Some(arrows) = drawn.get(name) else {
            found.push(format!("{manifest}: the table of crates in {MAP} has no row for it"));
            continue;
        };
        let missing = dependencies.difference(arrows);
        found.extend(missing.map(|other| format!("{manifest}: {MAP} does not let it use {other}")));
        let idle = arrows.difference(dependencies);
        found.extend(idle.map(|other| format!("{MAP}: {name} does not use {other}")));
    }
    let gone = drawn.keys().filter(|name| !real.contains_key(*name));
    found.extend(gone.map(|name| format!("{MAP}: there is no crate {name}")));
    found
}

/// Reads the rows of the table: the crate, its duty, and what it may depend on. "All but" means
/// the rows above.
fn drawn(map: &str) -> Arrows<'_> {
    let mut arrows = Arrows::new();
    let lines = map.lines().skip_while(|line| *line != HEADING).skip(1);
    for line in lines.take_while(|line| !line.starts_with('#')) {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let ["", name, _, targets, ""] = cells[..] else { continue };
        let Some(name) = quoted(name).next() else { continue };
        let named = quoted(targets).collect();
        let targets = match targets.starts_with("all but ") {
            true => {
                arrows.keys().copied().filter(|above| !BTreeSet::contains(&named, above)).collect()
            }
            false => named,
        };
        arrows.insert(name, targets);
    }
    arrows
}

/// What stands between backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Reads the manifests: dependencies of the product, also of build scripts, on crates beside it.
fn real(files: &Files) -> Arrows<'_> {
    let mut arrows = Arrows::new();
    for (path, text) in files.iter().filter(|(path, _)| path.ends_with("Cargo.toml")) {
        let parts: Vec<&str> = path.iter().filter_map(|part| part.to_str()).collect();
        let ["crates", name, "Cargo.toml"] = parts[..] else { continue };
        let mut dependencies = BTreeSet::new();
        let mut section = "";
        for line in text.lines() {
            section = if line.starts_with('[') { line } else { section };
            let is_product = section.ends_with("dependencies]") && !section.contains("dev-");
            let beside = line.split_once("path = \"../").and_then(|(_, rest)| rest.split_once('"'));
            if let Some((other, _)) = beside.filter(|_| is_product) {
                dependencies.insert(other);
            }
        }
        arrows.insert(name, dependencies);
    }
    arrows
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    const MANIFEST_OF_B: &str = "[package]\nname = \"b\"\n[dependencies]\na = { path = \"../a\" }\n\
        libc = \"0.2\"\n[dev-dependencies]\nc = { path = \"../c\" }\n";

    fn wrong_with(table: &str, manifest_of_c: &str) -> String {
        let map = format!(
            "# Map\n\n## Crates\n\n| crate | duty | may |\n|---|---|---|\n{table}\n## Files\n| `x` | y | - |\n"
        );
        let files: Files = [
            ("ARCHITECTURE.md", map.as_str()),
            ("crates/a/Cargo.toml", "[dependencies]\n"),
            ("crates/b/Cargo.toml", MANIFEST_OF_B),
            ("crates/c/Cargo.toml", manifest_of_c),
        ]
        .map(|(path, text)| (PathBuf::from(path), text.to_string()))
        .into();
        wrong(&files).join("\n")
    }

    #[test]
    fn arrows_are_dependencies() {
        const ROWS: &str =
            "| `a` | it reads `x` | - |\n| `b` | . | `a` |\n| `c` | . | all but `a` |";
        const USES_B: &str = "[build-dependencies]\nb = { path = \"../b\" }\n";
        const USES_A: &str = "[target.'cfg(unix)'.dependencies]\na = { path = \"../a\" }\n";
        assert_eq!(wrong_with(ROWS, USES_B), "");
        let found = wrong_with(ROWS, USES_A);
        assert!(
            found.contains("crates/c/Cargo.toml: ARCHITECTURE.md does not let it use a"),
            "{found}"
        );
        assert!(found.contains("ARCHITECTURE.md: c does not use b"), "{found}");
        let found = wrong_with("| `a` | . | - |\n| `b` | . | `a` |\n| `d` | . | - |", "");
        assert!(found.contains("crates/c/Cargo.toml: the table"), "{found}");
        assert!(found.contains("ARCHITECTURE.md: there is no crate d"), "{found}");
    }
}
