//! Every command of the tutorials is run, in order, as a reader would: blocks of `sh`, by one shell each,
//! in one directory. What a block must print stands below it as `<!-- says: TEXT -->`.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use acceptance::place::{Place, Who};
use acceptance::stage::{self, Stage};
use acceptance::{Complaint, ensure, trials};

/// A tutorial, and what it needs.
struct Tutorial {
    name: &'static str,
    programs: &'static [&'static str],
    /// A module of the Python that has those which readers of Parquet need.
    module: Option<&'static str>,
}

const TUTORIALS: &[Tutorial] = &[
    Tutorial { name: "find-slow-syncs.md", programs: &["python3"], module: None },
    Tutorial { name: "move-to-another-disk.md", programs: &["python3", "jq"], module: None },
    Tutorial { name: "report-a-bug-with-one-file.md", programs: &["python3"], module: None },
    Tutorial { name: "compare-two-releases.md", programs: &["python3", "jq"], module: None },
    Tutorial { name: "ask-with-sql.md", programs: &["python3"], module: Some("duckdb") },
];

fn main() -> ExitCode {
    trials::main(|trials| {
        for Tutorial { name, programs, module } in TUTORIALS {
            let has = |module: &&str| trials::imports(&trials::python(), &[module]);
            let missing = trials::missing(programs).or(module.filter(|module| !has(module)));
            // Modules are installed where other users may not look.
            let all = if module.is_some() { &[Who::Root][..] } else { &[Who::User, Who::Root] };
            for &who in all {
                trials.add(name, who, missing, |stage, who| follow(stage, who, name));
            }
        }
        trials.add_for_both("all_are_followed", None, |_, _| all_are_followed());
        Ok(())
    })
}

fn folder() -> std::path::PathBuf {
    stage::repository().join("docs/tutorials")
}

/// A step of a tutorial.
#[derive(Default)]
struct Step {
    commands: String,
    says: Vec<String>,
}

fn steps(text: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut is_inside = false;
    for line in text.lines() {
        match line {
            "```sh" => {
                is_inside = true;
                steps.push(Step::default());
            }
            "```" => is_inside = false,
            _ if is_inside => {
                if let Some(step) = steps.last_mut() {
                    step.commands += line;
                    step.commands.push('\n');
                }
            }
            _ => {
                let said =
                    line.strip_prefix("<!-- says: ").and_then(|rest| rest.strip_suffix(" -->"));
                if let (Some(said), Some(step)) = (said, steps.last_mut()) {
                    step.says.push(said.into());
                }
            }
        }
    }
    steps
}

fn follow(stage: &Stage, who: Who, name: &str) -> Result<(), Complaint> {
    let text = fs::read_to_string(folder().join(name)).map_err(|error| error.to_string())?;
    let steps = steps(&text);
    ensure!(steps.len() > 3, "{name} has {} steps", steps.len());
    let place = Place::new(stage, who)?;
    let bin = stage.reenact.parent().unwrap_or(Path::new("/"));
    let path = std::env::var("PATH").unwrap_or_default();
    let python = trials::python();
    let path = format!("{}:{path}", python.parent().unwrap_or(Path::new("/")).display());
    for Step { commands, says } in steps {
        let mut shell = place.command("sh");
        shell.env("PATH", format!("{}:{path}", bin.display())).args(["-e", "-c", &commands]);
        let outcome = place.run(&mut shell)?;
        let printed = outcome.text() + &outcome.errors();
        ensure!(outcome.status.success(), "{commands}: {}\n{printed}", outcome.status);
        for said in says {
            ensure!(printed.contains(&said), "{commands}: it does not say `{said}`:\n{printed}");
        }
    }
    Ok(())
}

/// A tutorial that is not followed here has commands that nobody tries.
fn all_are_followed() -> Result<(), Complaint> {
    for entry in fs::read_dir(folder()).map_err(|error| error.to_string())? {
        let name = entry.map_err(|error| error.to_string())?.file_name();
        let name = name.to_string_lossy();
        ensure!(TUTORIALS.iter().any(|known| known.name == name), "{name} is not followed");
    }
    Ok(())
}
