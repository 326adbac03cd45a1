//! `cargo xtask tidy`: style rules that no compiler checks, one function per rule over all files.

mod arrows;
mod cycles;
mod links;
mod lookups;
mod map;
mod modules;
mod names;
mod numbers;
mod scopes;
mod sources;
mod words;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use sources::Finding;
use words::Words;

use crate::Complaint;

/// File contents by path from the root of the repository.
type Files = BTreeMap<PathBuf, String>;

/// A rule: its name, and a function that returns the violations.
type Rule = (&'static str, fn(&Files) -> Vec<String>);

const RULES: &[Rule] = &[
    ("no leftover markers", markers),
    ("no file is long", long_files),
    ("system-call numbers stay in their room", call_numbers),
    ("no paths of one machine", machine_paths),
    ("one place prints to people", printing),
    ("lines end cleanly", line_ends),
    ("every module is part of its crate", modules::orphans),
    ("every document, script and benchmark is referred to", modules::unreferred),
    ("links in documents lead somewhere", links::broken),
    ("the map names every source file", map::unnamed),
    ("documents name every folder", map::unnamed_beside),
    ("the map draws every dependency", arrows::wrong),
];

/// Most lines of a source file.
const LINES_MAX: usize = 700;

/// Third-party files kept unchanged.
const FOREIGN: &str = "crates/report_page/assets/uplot/";

/// Checks every rule.
pub fn run(root: &Path) -> Result<(), Complaint> {
    let files = read(root)?;
    let mut found: Vec<(&str, Vec<String>)> =
        RULES.iter().map(|(rule, check)| (*rule, check(&files))).collect();
    found.extend(of_sources(&files)?);
    let broken: Vec<String> = found
        .iter()
        .flat_map(|(rule, found)| found.iter().map(move |what| format!("{what} ({rule})")))
        .collect();
    if broken.is_empty() {
        println!("tidy: {} rules hold for {} files", found.len(), files.len());
        return Ok(());
    }
    Err(format!("not tidy:\n{}", broken.join("\n")))
}

/// Checks the rules for which Rust sources are parsed.
fn of_sources(files: &Files) -> Result<Vec<(&'static str, Vec<String>)>, Complaint> {
    let sources = sources::read(files)?;
    let words = Words::read(&sources)?;
    let said = |found: Vec<Finding>, instead: &str| {
        found.iter().map(|one| format!("{one}: {instead}")).collect()
    };
    let (into_rows, from_abi) = ("let its row say what is asked", "take it from syscalls::abi");
    Ok(vec![
        ("names of the table stay in it", said(names::compared(&sources, &words), into_rows)),
        (
            "numbers of the kernel stay in their room",
            said(numbers::outside(&sources, &words), from_abi),
        ),
        (
            "files depend on each other one way",
            cycles::all(&sources).iter().map(ToString::to_string).collect(),
        ),
    ])
}

/// Reads all text files that git tracks or would add.
fn read(root: &Path) -> Result<Files, Complaint> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
        .current_dir(root)
        .output()
        .map_err(|error| format!("cannot run git: {error}"))?;
    if !output.status.success() {
        return Err(format!("git ls-files: {}", String::from_utf8_lossy(&output.stderr)));
    }
    let names = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut files = Files::new();
    let is_ours =
        |name: &&str| !name.is_empty() && *name != "Cargo.lock" && !name.starts_with(FOREIGN);
    for name in names.split('\0').filter(is_ours) {
        // Binary files (traces of older versions, pictures) and deleted ones are skipped.
        if let Ok(text) = std::fs::read_to_string(root.join(name)) {
            files.insert(PathBuf::from(name), text);
        }
    }
    Ok(files)
}

fn extension(path: &Path) -> &str {
    path.extension().and_then(|e| e.to_str()).unwrap_or_default()
}

/// Returns every line of the files selected by `which`, with its position.
fn lines<'a>(
    files: &'a Files,
    which: impl Fn(&Path) -> bool + 'a,
) -> impl Iterator<Item = (String, &'a str)> {
    files.iter().filter(move |(path, _)| which(path)).flat_map(|(path, text)| {
        let numbered = text.lines().zip(1..);
        numbered.map(move |(line, number)| (format!("{}:{number}", path.display()), line))
    })
}

fn markers(files: &Files) -> Vec<String> {
    // Spelt in two halves, so that this file does not break its own rule.
    const MARKERS: &[&str] = &[
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("X", "XX"),
        concat!("HA", "CK"),
        concat!("dbg", "!("),
        concat!("unimple", "mented!("),
        concat!("to", "do!("),
    ];
    let is_word = |line: &str, marker: &str| {
        line.match_indices(marker).any(|(at, _)| {
            let letter = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
            let before = line[..at].chars().next_back();
            let after = line[at + marker.len()..].chars().next();
            !letter(before) && (marker.ends_with('(') || !letter(after))
        })
    };
    lines(files, |_| true)
        .filter_map(|(at, line)| {
            let marker = MARKERS.iter().find(|marker| is_word(line, marker))?;
            Some(format!("{at}: {marker}"))
        })
        .collect()
}

fn long_files(files: &Files) -> Vec<String> {
    files
        .iter()
        .filter(|(path, _)| ["rs", "c", "h", "go", "py", "sh"].contains(&extension(path)))
        .map(|(path, text)| (path, text.lines().count()))
        .filter(|(_, count)| *count > LINES_MAX)
        .map(|(path, count)| format!("{}: {count} lines, at most {LINES_MAX}", path.display()))
        .collect()
}

/// Finds macros that panic if a stream is broken. The binary handles both streams itself.
fn printing(files: &Files) -> Vec<String> {
    let product = |path: &Path| {
        let is_source = path.components().nth(2).is_some_and(|part| part.as_os_str() == "src");
        path.starts_with("crates")
            && is_source
            && !path.starts_with("crates/acceptance")
            && !path.ends_with("tests.rs")
    };
    const PRINTS: &[&str] = &[concat!("print", "ln!("), concat!("print", "!(")];
    lines(files, product)
        .filter(|(_, line)| PRINTS.iter().any(|print| line.contains(print)))
        .map(|(at, _)| format!("{at}: prints by itself"))
        .collect()
}

/// Where system call numbers may be defined. This is for C and for tests; in the product `numbers`
/// looks closer.
const NUMBER_ROOMS: &[&str] = &["crates/syscalls", "crates/agent", "tests/programs"];

fn call_numbers(files: &Files) -> Vec<String> {
    let outside = |path: &Path| {
        ["rs", "c"].contains(&extension(path))
            && !NUMBER_ROOMS.iter().any(|room| path.starts_with(room))
    };
    lines(files, outside)
        .filter(|(_, line)| defines_number(line) || calls_by_number(line))
        .map(|(at, line)| format!("{at}: {}", line.trim()))
        .collect()
}

/// Matches `const SYS_x: .. = 123` and `#define __NR_x 123`.
fn defines_number(line: &str) -> bool {
    let line = line.trim();
    let Some(rest) = ["const ", "pub const ", "#define "].iter().find_map(|p| line.strip_prefix(p))
    else {
        return false;
    };
    let named = ["SYS_", "NR_", "__NR_"].iter().any(|prefix| rest.starts_with(prefix));
    named && rest.trim_end_matches(';').ends_with(|c: char| c.is_ascii_digit())
}

/// Matches a number as the first argument of `syscall`.
fn calls_by_number(line: &str) -> bool {
    line.match_indices("syscall(").any(|(at, word)| {
        let argument = line[at + word.len()..].trim_start();
        argument.starts_with(|c: char| c.is_ascii_digit())
    })
}

fn machine_paths(files: &Files) -> Vec<String> {
    const PATHS: &[&str] = &[concat!("/ro", "ot/"), concat!("/wo", "rk/"), concat!("/Use", "rs/")];
    lines(files, |_| true)
        .filter_map(|(at, line)| {
            let path = PATHS.iter().find(|path| {
                // Only at the start of a path: `{dir}/tmp/x` and `~/root/` are not absolute.
                line.match_indices(**path).any(|(at, _)| {
                    let before = line[..at].chars().next_back();
                    before.is_none_or(|c| c.is_whitespace() || "\"'`(=:>".contains(c))
                })
            })?;
            Some(format!("{at}: {path}"))
        })
        .collect()
}

fn line_ends(files: &Files) -> Vec<String> {
    let mut broken: Vec<String> = lines(files, |path| extension(path) != "md")
        .filter(|(_, line)| line.ends_with([' ', '\t', '\r']))
        .map(|(at, _)| format!("{at}: blanks at the end"))
        .collect();
    let open = files.iter().filter(|(_, text)| !text.is_empty() && !text.ends_with('\n'));
    broken.extend(open.map(|(path, _)| format!("{}: no newline at the end", path.display())));
    broken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &str, text: &str) -> Files {
        Files::from([(PathBuf::from(name), text.to_string())])
    }

    #[test]
    fn markers_are_found_as_words_only() {
        let marker = concat!("TO", "DO");
        assert_eq!(markers(&one("a.rs", &format!("// {marker}: later\n"))).len(), 1);
        assert!(markers(&one("a.rs", &format!("let {marker}S = 1;\n"))).is_empty());
        assert_eq!(markers(&one("a.rs", concat!("dbg", "!(x)\n"))).len(), 1);
    }

    #[test]
    fn numbers_outside_their_room() {
        let define = "const SYS_READ: u64 = 0;\n";
        assert_eq!(call_numbers(&one("crates/cli/src/a.rs", define)).len(), 1);
        assert!(call_numbers(&one("crates/agent/src/a.rs", define)).is_empty());
        assert_eq!(
            call_numbers(&one("crates/cli/src/a.rs", concat!("syscall", "(39)\n"))).len(),
            1
        );
        assert!(
            call_numbers(&one("crates/cli/src/a.rs", "syscall(libc::SYS_getpid)\n")).is_empty()
        );
    }

    #[test]
    fn the_product_prints_in_one_place() {
        let line = concat!("    eprint", "ln!(\"{x}\");\n");
        assert_eq!(printing(&one("crates/cli/src/a.rs", line)).len(), 1);
        for elsewhere in ["crates/cli/tests/a.rs", "crates/acceptance/src/a.rs", "xtask/src/a.rs"] {
            assert!(printing(&one(elsewhere, line)).is_empty());
        }
    }

    #[test]
    fn paths_of_one_machine() {
        assert_eq!(machine_paths(&one("a.md", concat!("see /ro", "ot/x\n"))).len(), 1);
        assert!(machine_paths(&one("a.rs", concat!("let p = \"{dir}/wo", "rk/x\";\n"))).is_empty());
    }

    #[test]
    fn ends_of_lines_and_files() {
        assert_eq!(line_ends(&one("a.rs", "x \ny")).len(), 2);
        assert!(line_ends(&one("a.rs", "x\n")).is_empty());
    }
}
