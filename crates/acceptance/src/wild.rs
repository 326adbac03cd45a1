//! The behaviour programs of `tests/wild`: one per topic, each with a table of cases.

use std::path::PathBuf;
use std::process::Command;

use crate::program::{self, Need, Program};
use crate::stage::Stage;
use crate::{Complaint, ensure};

/// A case, as its program describes it.
#[derive(Clone, Debug)]
pub struct Case {
    /// `TOPIC/NAME`.
    pub name: String,
    /// True for the first case of its topic.
    pub first: bool,
    /// Path of the built program.
    pub program: PathBuf,
    /// Argument that selects the case.
    pub argument: String,
    /// Requirements.
    pub needs: Vec<Need>,
    /// Gaps allowed in its trace.
    pub gaps: Vec<String>,
    /// Causes accepted for differences in a replay.
    pub otherwise: Vec<String>,
    /// A known defect that shows here.
    pub known: Option<Known>,
}

/// A known defect that a case shows.
#[derive(Clone, Debug)]
pub struct Known {
    /// True if the defect is in the replay; then the recording must be right.
    pub of_replay: bool,
    /// True if the defect shows only in some runs.
    pub sometimes: bool,
    /// The user for which it shows, if not for both.
    pub who: Option<String>,
    /// Description of the defect.
    pub reason: String,
    /// Symptoms: parts of the complaint about a recording, or of the first mismatch of a replay.
    pub shows: Vec<String>,
}

impl Known {
    /// Parses `record|replay [sometimes] [root|user]: reason`, and symptoms separated by `; `.
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

    /// Returns whether this is the known defect.
    pub fn is_shown_by(&self, of_replay: bool, shown: &str) -> bool {
        of_replay == self.of_replay && self.shows.iter().any(|known| shown.contains(known))
    }
}

/// Splits a list separated by `; `.
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
        // Without symptoms, or with an unknown first word, it is not valid.
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
