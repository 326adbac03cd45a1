//! The behaviour programs of `tests/wild`: one for each topic, with a table of cases.

use std::path::PathBuf;
use std::process::Command;

use crate::program::{self, Need, Program};
use crate::stage::Stage;
use crate::{Complaint, ensure};

/// One case, as its program describes it.
#[derive(Clone, Debug)]
pub struct Case {
    /// `TOPIC/NAME`.
    pub name: String,
    /// Whether it is the first of its topic.
    pub first: bool,
    /// The built program.
    pub program: PathBuf,
    /// Its argument.
    pub argument: String,
    /// What it needs.
    pub needs: Vec<Need>,
    /// Gaps that its trace may have.
    pub gaps: Vec<String>,
    /// Causes for which a replay may find something otherwise.
    pub otherwise: Vec<String>,
    /// The defect that shows here.
    pub known: Option<Known>,
}

/// A defect that a case shows.
#[derive(Clone, Debug)]
pub struct Known {
    /// Of the replay alone: the recording must be right.
    pub of_replay: bool,
    /// Not in every run.
    pub sometimes: bool,
    /// As whom it shows, if not as both.
    pub who: Option<String>,
    /// What it is.
    pub reason: String,
    /// How it shows: what the complaint about a recording says, or the first mismatch of a replay.
    pub shows: Vec<String>,
}

impl Known {
    /// Reads `record|replay [sometimes] [root|user]: reason`, and how it shows with `; ` between.
    pub fn parse(text: &str, shows: &str) -> Option<Known> {
        let (head, reason) = text.split_once(": ")?;
        let mut words = head.split(' ').peekable();
        let of_replay = match words.next()? {
            "record" => false,
            "replay" => true,
            _ => return None,
        };
        let sometimes = words.next_if_eq(&"sometimes").is_some();
        let who = words.next().map(str::to_string);
        let shows: Vec<String> = listed(shows);
        let is_whole = words.next().is_none() && !shows.is_empty();
        is_whole.then(|| Known { of_replay, sometimes, who, reason: reason.to_string(), shows })
    }

    /// Whether that is what is known.
    pub fn is_shown_by(&self, of_replay: bool, shown: &str) -> bool {
        of_replay == self.of_replay && self.shows.iter().any(|known| shown.contains(known))
    }
}

/// What stands in a list with `; ` between.
fn listed(text: &str) -> Vec<String> {
    text.split("; ").filter(|part| !part.is_empty()).map(str::to_string).collect()
}

/// Builds every topic's program and asks it for its cases.
pub fn all(stage: &Stage) -> Result<Vec<Case>, Complaint> {
    let mut cases = Vec::new();
    for program in program::in_folder("tests/wild")? {
        cases.extend(of(stage, &program)?);
    }
    Ok(cases)
}

fn of(stage: &Stage, program: &Program) -> Result<Vec<Case>, Complaint> {
    let binary = program.build(stage)?;
    let listed = Command::new(&binary)
        .arg("--list")
        .output()
        .map_err(|error| format!("{}: {error}", binary.display()))?;
    ensure!(listed.status.success(), "{} --list: {}", binary.display(), listed.status);
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    text.lines()
        .enumerate()
        .map(|(number, line)| {
            let case = parse(line).ok_or_else(|| format!("{}: '{line}'", program.name))?;
            let name = format!("{}/{}", program.name, case.argument);
            Ok(Case { name, first: number == 0, program: binary.clone(), ..case })
        })
        .collect()
}

fn parse(line: &str) -> Option<Case> {
    let fields: Vec<&str> = line.split('\t').collect();
    let &[name, needs, gaps, otherwise, known, shows] = fields.as_slice() else { return None };
    let needs: Option<_> = needs.split_whitespace().map(Need::named).collect();
    Some(Case {
        name: String::new(),
        first: false,
        program: PathBuf::new(),
        argument: name.to_string(),
        needs: needs?,
        gaps: gaps.split_whitespace().map(str::to_string).collect(),
        otherwise: listed(otherwise),
        known: match known {
            "" => None,
            text => Some(Known::parse(text, shows)?),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_says_what_is_special() {
        let text = "name\troot userns\tkilled\ta: b; c: d\treplay user: why: so\topen: x; y";
        let case = parse(text).unwrap();
        assert_eq!(case.argument, "name");
        assert_eq!(case.needs, [Need::Root, Need::UserNamespaces]);
        assert_eq!(case.gaps, ["killed"]);
        assert_eq!(case.otherwise, ["a: b", "c: d"]);
        let known = case.known.unwrap();
        assert!(known.of_replay && !known.sometimes && known.who.as_deref() == Some("user"));
        assert_eq!(known.reason, "why: so");
        assert_eq!(known.shows, ["open: x", "y"]);
        assert!(parse("name\t\t\t\t\t").unwrap().known.is_none());
        // Nobody says how it shows; the rest is no mark.
        let wrong = ["name", "name\tmoon\t\t\t\t", "name\t\t\t\tsometimes: why\tx"];
        for wrong in wrong.into_iter().chain(["name\t\t\t\treplay: why\t"]) {
            assert!(parse(wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn a_mark_hides_only_what_it_names() {
        let known = Known::parse("record sometimes: why", "status: alone").unwrap();
        assert!(known.sometimes && known.who.is_none());
        assert!(known.is_shown_by(false, "status: alone 0, recorded 1"));
        assert!(!known.is_shown_by(true, "status: alone 0, recorded 1"));
        assert!(!known.is_shown_by(false, "standard output: alone ..."));
    }
}
