//! One check and its result.

/// Result of a check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// All requirements are met.
    Ok,
    /// Recording works, with a restriction or without something beside it.
    Limited,
    /// Recording does not work.
    Missing,
}

/// A check and its result.
#[derive(Clone, Debug)]
pub struct Check {
    /// Name of the check.
    pub name: &'static str,
    /// The result.
    pub verdict: Verdict,
    /// Description of the finding.
    pub found: String,
    /// Suggested remedy, empty if all is well.
    pub remedy: String,
}

impl Check {
    /// Makes a passed check.
    pub fn ok(name: &'static str, found: impl Into<String>) -> Check {
        Check { name, verdict: Verdict::Ok, found: found.into(), remedy: String::new() }
    }

    /// Makes a check with a restriction.
    pub fn limited(
        name: &'static str,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Check {
        Check { name, verdict: Verdict::Limited, found: found.into(), remedy: remedy.into() }
    }

    /// Makes a failed check.
    pub fn missing(
        name: &'static str,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Check {
        Check { name, verdict: Verdict::Missing, found: found.into(), remedy: remedy.into() }
    }
}
