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
    /// As whom it shows, if not as both.
    pub who: Option<String>,
    /// What it is.
    pub reason: String,
}

impl Known {
    /// Reads `record|replay [root|user]: reason`.
    pub fn parse(text: &str) -> Option<Known> {
        let (head, reason) = text.split_once(": ")?;
        let (what, who) = match head.split_once(' ') {
            Some((what, who)) => (what, Some(who.to_string())),
            None => (head, None),
        };
        let of_replay = match what {
            "record" => false,
            "replay" => true,
            _ => return None,
        };
        Some(Known { of_replay, who, reason: reason.to_string() })
    }
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
    let &[name, needs, gaps, otherwise, known] = fields.as_slice() else { return None };
    let needs: Option<_> = needs.split_whitespace().map(Need::named).collect();
    Some(Case {
        name: String::new(),
        first: false,
        program: PathBuf::new(),
        argument: name.to_string(),
        needs: needs?,
        gaps: gaps.split_whitespace().map(str::to_string).collect(),
        otherwise: otherwise.split("; ").filter(|c| !c.is_empty()).map(str::to_string).collect(),
        known: match known {
            "" => None,
            text => Some(Known::parse(text)?),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_says_what_is_special() {
        let case = parse("name\troot userns\tkilled\ta: b; c: d\treplay user: why: so").unwrap();
        assert_eq!(case.argument, "name");
        assert_eq!(case.needs, [Need::Root, Need::UserNamespaces]);
        assert_eq!(case.gaps, ["killed"]);
        assert_eq!(case.otherwise, ["a: b", "c: d"]);
        let known = case.known.unwrap();
        assert!(known.of_replay && known.who.as_deref() == Some("user"));
        assert_eq!(known.reason, "why: so");
        assert!(parse("name\t\t\t\t").unwrap().known.is_none());
        for wrong in ["name", "name\tmoon\t\t\t", "name\t\t\t\tsometimes: why"] {
            assert!(parse(wrong).is_none(), "{wrong}");
        }
    }
}
