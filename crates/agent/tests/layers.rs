//! The agent is made of layers: no source file uses, by way of others, itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Which files each file names in paths.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// Folder of the processor, whose files are named as children of `arch`.
const ARCH: &str = "arch/x86_64/";

#[test]
fn no_file_uses_itself_by_way_of_others() {
    let uses = read();
    assert!(uses.len() > 50, "{} files", uses.len());
    assert!(uses["dispatch"].contains("call") && uses["call"].contains("stream"));
    assert!(uses["arch/x86_64/entry_quiet"].contains("arch/x86_64/head"));
    assert_eq!(cycle(&uses), None);
}

#[test]
fn a_cycle_is_found() {
    let uses = |pairs: &[(&str, &str)]| {
        let mut uses = Uses::new();
        for (from, to) in pairs {
            uses.entry((*from).to_owned()).or_default().insert((*to).to_owned());
            uses.entry((*to).to_owned()).or_default();
        }
        uses
    };
    assert_eq!(cycle(&uses(&[("a", "b"), ("b", "c"), ("a", "c")])), None);
    let found = cycle(&uses(&[("a", "b"), ("b", "c"), ("c", "b")])).expect("b uses itself");
    assert_eq!(found, ["b", "c", "b"]);
}

#[test]
fn paths_are_read_from_source() {
    let source = "//! See [`crate::none`].\nuse crate::arch::{entry, frames::Frame};\n\
        use crate::{call::{self, exit}, sys};\nfn f() { crate::clock::now(); }\n\
        #[cfg(test)]\nmod tests { use crate::filter; }\n";
    let named: Vec<_> = named(source).into_iter().collect();
    assert_eq!(named, ["arch/x86_64/entry", "arch/x86_64/frames", "call", "clock", "sys"]);
}

fn read() -> Uses {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut uses = Uses::new();
    for folder in ["", ARCH] {
        for entry in fs::read_dir(root.join(folder)).expect("the folder can be read") {
            let path = entry.expect("an entry").path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            let Some(module) = name.strip_suffix(".rs") else { continue };
            if ["lib", "image", "arch"].contains(&module) {
                continue; // they only declare
            }
            let source = fs::read_to_string(&path).expect("the file can be read");
            let found = if folder.is_empty() {
                named(&source)
            } else {
                named(&source.replace("super::", "crate::arch::"))
            };
            uses.insert(format!("{folder}{module}"), found);
        }
    }
    let known: BTreeSet<String> = uses.keys().cloned().collect();
    for (file, found) in &mut uses {
        found.retain(|other| known.contains(other) && other != file);
    }
    uses
}

/// Returns the modules that the paths of a source file name.
fn named(source: &str) -> BTreeSet<String> {
    let code = source.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let code: String = code
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n");
    let mut found = BTreeSet::new();
    for (at, root) in code.match_indices("crate::") {
        heads(&code[at + root.len()..], "", &mut found);
    }
    found
}

/// Adds the modules at the beginning of a path, or of all paths in a group.
fn heads(path: &str, folder: &str, found: &mut BTreeSet<String>) {
    let path = path.trim_start();
    if let Some(group) = path.strip_prefix('{') {
        let (mut depth, mut begins) = (0, 0);
        for (at, letter) in group.char_indices() {
            match letter {
                '{' => depth += 1,
                '}' if depth > 0 => depth -= 1,
                ',' | '}' if depth == 0 => {
                    heads(&group[begins..at], folder, found);
                    begins = at + 1;
                    if letter == '}' {
                        return;
                    }
                }
                _ => {}
            }
        }
        return;
    }
    let is_name = |letter: char| letter.is_alphanumeric() || letter == '_';
    let name: String = path.chars().take_while(|letter| is_name(*letter)).collect();
    match path[name.len()..].strip_prefix("::") {
        Some(rest) if name == "arch" && folder.is_empty() => heads(rest, ARCH, found),
        _ if name.is_empty() => {}
        _ => {
            found.insert(format!("{folder}{name}"));
        }
    }
}

/// Returns a cycle, if there is one.
fn cycle(uses: &Uses) -> Option<Vec<String>> {
    fn visit<'a>(
        file: &'a str,
        uses: &'a Uses,
        done: &mut BTreeSet<&'a str>,
        way: &mut Vec<&'a str>,
    ) -> Option<Vec<String>> {
        if let Some(at) = way.iter().position(|before| *before == file) {
            let around = way[at..].iter().chain([&file]);
            return Some(around.map(|name| (*name).to_owned()).collect());
        }
        if !done.insert(file) {
            return None;
        }
        way.push(file);
        let found = uses[file].iter().find_map(|other| visit(other, uses, done, way));
        way.pop();
        found
    }
    let mut done = BTreeSet::new();
    uses.keys().find_map(|file| visit(file, uses, &mut done, &mut Vec::new()))
}
