//! docs/commands.md is the output of `--help`. To update it:
//! `REENACT_UPDATE_DOCS=1 cargo test -p reenact --test help`.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

const HEAD: &str = "\
# Commands

This page is made from `reenact --help`; a test keeps it current.
";

fn help(command: &str) -> String {
    let mut reenact = Command::new(env!("CARGO_BIN_EXE_reenact"));
    // A fixed width, whatever terminal the test runs in.
    reenact.env("COLUMNS", "100");
    if !command.is_empty() {
        reenact.arg(command);
    }
    let output = reenact.arg("--help").output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

/// Returns all commands, in the order of the help text.
fn commands() -> Vec<String> {
    let text = help("");
    let (_, list) = text.split_once("Commands:\n").expect("a list of commands");
    let names = list.lines().take_while(|line| !line.is_empty());
    // Continuation lines of a description are indented further.
    let names = names.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_string).collect()
}

#[test]
fn the_page_is_what_help_prints() {
    let mut page = HEAD.to_string();
    let commands = commands();
    for command in [""].into_iter().chain(commands.iter().map(String::as_str)) {
        let title = format!("reenact {command}");
        let text = help(command);
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        let _ = write!(page, "\n## {}\n\n```text\n{}\n```\n", title.trim_end(), lines.join("\n"));
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/commands.md");
    if std::env::var_os("REENACT_UPDATE_DOCS").is_some() {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, &page).unwrap();
    }
    let found = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        found == page,
        "docs/commands.md is not what --help prints; run this test with REENACT_UPDATE_DOCS=1"
    );
}

#[test]
fn help_teaches() {
    let text = help("");
    assert!(text.contains("Examples:") && text.contains("Exit codes:"), "{text}");
    let commands = commands();
    assert!(commands.len() > 10, "{commands:?}");
    for command in commands.iter().filter(|command| *command != "doctor") {
        assert!(help(command).contains("Examples:"), "{command}");
    }
}
