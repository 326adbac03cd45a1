//! `reenact doctor`: checks whether this machine can record, and suggests remedies.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::ExitCode;

use predict::configuration::FileSystem;
use requirements::{Check, Verdict};

use crate::failure::Failure;
use crate::terminal;

/// Column in which what was found begins.
const FOUND_AT: usize = 32;

/// Check whether recording works here, and what would help.
///
/// Each line says what was found: `ok`, `limited` (recording works, with the restriction that is
/// named) or `missing` (recording does not work until this is changed).
#[derive(clap::Args, Debug)]
pub struct Args {
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<ExitCode, Failure> {
    let mut checks = requirements::all();
    checks.push(file_systems(FileSystem::can_be_made));
    let text = match args.json {
        true => json(&checks),
        false => terminal::fit(&text(&checks), terminal::width(), |_| FOUND_AT),
    };
    let mut stdout = io::stdout().lock();
    let printed = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    if checks.iter().any(|check| check.verdict == Verdict::Missing) {
        return Ok(ExitCode::FAILURE);
    }
    Ok(printed.map(|()| ExitCode::SUCCESS)?)
}

/// Which file systems `predict` can make; nothing else needs that.
fn file_systems(can_be_made: impl Fn(FileSystem) -> bool) -> Check {
    let name = "file systems";
    let (made, lacking): (Vec<_>, Vec<_>) =
        FileSystem::ALL.into_iter().partition(|system| can_be_made(*system));
    let names = |systems: &[FileSystem]| {
        systems.iter().map(|system| system.name()).collect::<Vec<_>>().join(", ")
    };
    if lacking.is_empty() {
        return Check::ok(name, format!("`predict --on` can make {}", names(&made)));
    }
    let mut packages: Vec<&str> = lacking.iter().map(|system| system.package()).collect();
    packages.dedup();
    Check::limited(
        name,
        format!("`predict --on` cannot make {}", names(&lacking)),
        format!("install {}", packages.join(", ")),
    )
}

fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Ok => "ok",
        Verdict::Limited => "limited",
        Verdict::Missing => "missing",
    }
}

fn text(checks: &[Check]) -> String {
    let mut out = String::new();
    for check in checks {
        let _ = writeln!(out, "{:<8} {:<22} {}", word(check.verdict), check.name, check.found);
        if !check.remedy.is_empty() {
            let _ = writeln!(out, "{:<8} {:<22} -> {}", "", "", check.remedy);
        }
    }
    let names = |verdict| {
        let all = checks.iter().filter(|check| check.verdict == verdict);
        all.map(|check| check.name).collect::<Vec<_>>().join(", ")
    };
    let summary = match (names(Verdict::Missing), names(Verdict::Limited)) {
        (missing, _) if !missing.is_empty() => {
            format!("Recording does not work here. Missing: {missing}.")
        }
        (_, limited) if !limited.is_empty() => format!("Recording works here. Limited: {limited}."),
        _ => "Recording works here.".to_string(),
    };
    let _ = writeln!(out, "\n{summary}");
    out
}

fn json(checks: &[Check]) -> String {
    let mut text = render::json::text(|json| {
        json.object(|json| {
            let missing = checks.iter().any(|check| check.verdict == Verdict::Missing);
            json.key("ok").bool(!missing);
            json.key("checks").array(|json| {
                for check in checks {
                    json.object(|json| {
                        json.key("name").str(check.name);
                        json.key("verdict").str(word(check.verdict));
                        json.key("found").str(&check.found);
                        json.key("remedy").str(&check.remedy);
                    });
                }
            });
        });
    });
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_systems_that_cannot_be_made_are_named_with_their_packages() {
        let check = file_systems(|system| system == FileSystem::Ext4);
        assert_eq!(check.found, "`predict --on` cannot make xfs, btrfs, btrfs+zlib");
        assert_eq!(check.remedy, "install xfsprogs, btrfs-progs");
        assert_eq!(file_systems(|_| true).verdict, Verdict::Ok);
    }

    #[test]
    fn lines_say_what_to_do() {
        let checks = [
            Check::ok("kernel", "Linux 6.18"),
            Check::limited("limits", "small", "raise them"),
            Check::missing("dispatch", "refused", "use a newer kernel"),
        ];
        let expected = "\
ok       kernel                 Linux 6.18
limited  limits                 small
                                -> raise them
missing  dispatch               refused
                                -> use a newer kernel

Recording does not work here. Missing: dispatch.
";
        assert_eq!(text(&checks), expected);
        assert!(text(&checks[..2]).ends_with("\nRecording works here. Limited: limits.\n"));
        let value: serde_json::Value = serde_json::from_str(&json(&checks)).unwrap();
        assert_eq!(value["ok"], false);
        assert_eq!(value["checks"][1]["remedy"], "raise them");
    }
}
