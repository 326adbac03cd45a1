//! A finding, and how much it matters.

use std::cmp::Reverse;

use model::glob;
use render::amounts::{show_size, show_time};
use render::escape::escaped;

use super::kinds::FindingKind;
use super::often::Often;
use super::prices::Prices;
use crate::activity::Activity;
use crate::sheet::{Cell, Fact, Sheet, Table, ratio};

/// A pattern worth looking at.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Kind of the finding.
    pub kind: FindingKind,
    /// Number of calls or descriptors.
    pub count: u64,
    /// Number of bytes concerned.
    pub bytes: u64,
    /// What it took of the run's time: of a moment in which several threads work, its part.
    pub time_ns: u64,
    /// That time as a share of the run.
    pub share: f64,
    /// What would be saved at most.
    pub saves_ns: u64,
    /// The activity whose time this is a part of.
    pub within: Option<Activity>,
    /// The file, if there is one, or a pattern for those of many.
    pub file: Vec<u8>,
    /// True if the file is a pattern.
    pub is_pattern: bool,
    /// Module and offset of the call site with most of the calls.
    pub site: Vec<u8>,
    /// Numbers of calls that took longest, the slowest first.
    pub calls: Vec<u64>,
    /// The call that took most time, if the command is about one.
    pub call: String,
    /// The numbers in words.
    pub evidence: String,
}

impl Finding {
    /// Makes one that costs nothing.
    pub fn new(kind: FindingKind, evidence: String) -> Finding {
        Finding {
            kind,
            count: 0,
            bytes: 0,
            time_ns: 0,
            share: 0.0,
            saves_ns: 0,
            within: None,
            file: Vec::new(),
            is_pattern: false,
            site: Vec::new(),
            calls: Vec::new(),
            call: String::new(),
            evidence,
        }
    }

    /// Makes one about calls of an activity, which cost their part of its time.
    pub fn about(
        kind: FindingKind,
        of: &Often,
        (activity, prices): (Activity, &Prices),
        evidence: String,
    ) -> Finding {
        let finding = Finding {
            count: of.count,
            bytes: of.bytes,
            within: Some(activity),
            calls: of.slowest.numbers(),
            ..Finding::new(kind, evidence)
        };
        finding.costs(prices.of(activity, of.ns), prices.run_ns())
    }

    /// Sets what it took of a run.
    pub fn costs(self, time_ns: u64, run_ns: u64) -> Finding {
        Finding { time_ns, saves_ns: time_ns, share: ratio(time_ns, run_ns).min(1.0), ..self }
    }

    /// Says that so many of its calls would have to stay.
    pub fn but_for(self, needed: u64) -> Finding {
        let gone = 1.0 - ratio(needed, self.count).min(1.0);
        Finding { saves_ns: (self.time_ns as f64 * gone) as u64, ..self }
    }
}

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// At least a tenth of the run.
    High,
    /// At least a hundredth of the run.
    Medium,
    /// It may cost data, not time.
    Risk,
    /// Below that.
    Note,
}

/// From this share of the run on, a finding is more than a note.
const MEDIUM_SHARE: f64 = 0.01;
/// From this share of the run on, it is among what matters most.
const HIGH_SHARE: f64 = 0.1;
/// Nobody feels less than this, however short the run.
const FELT_NS: u64 = 10_000_000;

impl Finding {
    /// Returns how much it matters.
    pub fn severity(&self) -> Severity {
        let is_felt = self.time_ns >= FELT_NS;
        match () {
            () if is_felt && self.share >= HIGH_SHARE => Severity::High,
            () if is_felt && self.share >= MEDIUM_SHARE => Severity::Medium,
            () if self.kind.is_risk() => Severity::Risk,
            () => Severity::Note,
        }
    }

    /// Returns the command that shows its calls; TRACE stands for the trace.
    fn command(&self) -> Vec<u8> {
        let command = self.kind.words().command;
        let command = match self.call.is_empty() {
            true => command.replace(" --call CALL", ""),
            false => command.replace("CALL", &self.call),
        };
        if self.file.is_empty() {
            return command.replace(" --path FILE", "").into_bytes();
        }
        let pattern = match self.is_pattern {
            true => self.file.clone(),
            false => glob::quoted(&self.file),
        };
        let path = String::from_utf8_lossy(&pattern).replace('\'', "'\\''");
        command.replacen("FILE", &format!("'{path}'"), 1).into_bytes()
    }

    /// Returns it in a line.
    pub fn line(&self) -> String {
        let about = [self.cost(), escaped(&self.file)];
        let about: Vec<&str> =
            about.iter().map(String::as_str).filter(|of| !of.is_empty()).collect();
        let title = self.kind.words().title;
        if about.is_empty() { title.into() } else { format!("{title} ({})", about.join("; ")) }
    }

    /// Returns its cost in words.
    fn cost(&self) -> String {
        let share = self.share * 100.0;
        match (self.time_ns, self.bytes) {
            (0, 0) => String::new(),
            (0, bytes) => show_size(bytes),
            (ns, _) if share < 0.05 => format!("{}, <0.1% of the run", show_time(ns)),
            (ns, _) => format!("{}, {share:.1}% of the run", show_time(ns)),
        }
    }

    /// Returns the activity that its time is a part of, unless it is all of that.
    fn part_of(&self) -> Option<Activity> {
        self.within.filter(|_| !self.kind.is_about_run() && self.time_ns > 0)
    }

    /// Returns what would be saved, in words.
    fn saves(&self) -> String {
        if self.saves_ns == 0 { String::new() } else { show_time(self.saves_ns) }
    }

    /// Returns the numbers of its slowest calls, in words.
    fn numbers(&self) -> String {
        self.calls.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
    }
}

/// Puts findings in order: those that cost most first, notes last.
pub fn in_order(findings: &mut [Finding]) {
    findings.sort_by(|a, b| {
        let rank = |f: &Finding| (f.severity(), Reverse((f.share * 1e6) as u64));
        let rest = |f: &Finding| (f.time_ns, f.bytes, f.count);
        rank(a)
            .cmp(&rank(b))
            .then_with(|| rest(b).cmp(&rest(a)))
            .then_with(|| (a.kind, &a.file).cmp(&(b.kind, &b.file)))
    });
}

/// Returns the findings, which are in order, as a table.
pub fn sheet(findings: &[Finding]) -> Sheet {
    let mut table = Table::new(
        "findings",
        "",
        &[
            ("title", "finding"),
            ("kind", ""),
            ("about", ""),
            ("severity", "severity"),
            ("count", ""),
            ("bytes", ""),
            ("time_ns", ""),
            ("run_share", ""),
            ("", "costs"),
            ("within", "as a part of"),
            ("saves_ns", ""),
            ("", "saves at most"),
            ("confidence", "confidence"),
            ("file", "file"),
            ("evidence", "evidence"),
            ("calls", "slowest calls"),
            ("site", "called from"),
            ("reason", "why"),
            ("unless", "leave it if"),
            ("command", "look at"),
        ],
    );
    table.blocks = true;
    for finding in findings {
        let words = finding.kind.words();
        let severity = match finding.severity() {
            Severity::High => "high",
            Severity::Medium => "medium",
            Severity::Risk => "risk",
            Severity::Note => "note",
        };
        table.row(vec![
            Cell::word(words.title),
            Cell::word(words.key),
            Cell::word(if finding.kind.is_about_run() { "run" } else { "calls" }),
            Cell::word(severity),
            Cell::Count(finding.count),
            Cell::Bytes(finding.bytes),
            Cell::Ns(finding.time_ns),
            Cell::Share(finding.share),
            Cell::Word(finding.cost().into()),
            finding.part_of().map_or(Cell::Nothing, |activity| Cell::word(activity.name())),
            Cell::Ns(finding.saves_ns),
            Cell::Word(finding.saves().into()),
            Cell::word(words.confidence.key()),
            Cell::Name(finding.file.clone()),
            Cell::Word(finding.evidence.clone().into()),
            Cell::Word(finding.numbers().into()),
            Cell::Name(finding.site.clone()),
            Cell::word(words.reason),
            Cell::word(words.unless),
            Cell::Name(finding.command()),
        ]);
    }
    let count = Cell::Count(table.rows.len() as u64);
    let facts = vec![Fact { key: "finding_count", title: "findings", value: count }];
    let notes = vec![
        "A finding of less than 1% of the run or 10 ms is a note: it is true, and not worth much work."
            .into(),
    ];
    Sheet { facts, tables: vec![table], notes }
}
