//! `reenact doctor`: checks whether this machine can record, and suggests remedies.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::ExitCode;

use render::amounts::counted;
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
    let checks = requirements::all();
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
    let count = |verdict| checks.iter().filter(|check| check.verdict == verdict).count() as u64;
    let summary = match (count(Verdict::Missing), count(Verdict::Limited)) {
        (0, 0) => "Recording works here.".to_string(),
        (0, limited) => {
            format!(
                "Recording works here, with {}.",
                counted(limited, "restriction", "restrictions")
            )
        }
        (missing, _) => {
            let missing = counted(missing, "thing is missing", "things are missing");
            format!("Recording does not work here: {missing}.")
        }
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

Recording does not work here: 1 thing is missing.
";
        assert_eq!(text(&checks), expected);
        assert!(text(&checks[..2]).ends_with("\nRecording works here, with 1 restriction.\n"));
        let value: serde_json::Value = serde_json::from_str(&json(&checks)).unwrap();
        assert_eq!(value["ok"], false);
        assert_eq!(value["checks"][1]["remedy"], "raise them");
    }
}
