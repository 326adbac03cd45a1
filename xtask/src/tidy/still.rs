//! What is still there of what the rules forbid, file by file: `still.txt`. More than that is
//! refused, and so is less, because the list has to say what there is. So it only gets shorter:
//! `cargo xtask tidy --lower` takes out what is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::Found;
use super::cycles::Cycle;
use super::sources::Finding;

/// Where the list is.
pub const LIST: &str = "xtask/src/tidy/still.txt";

/// What to do if there is less.
const LOWER: &str = "run `cargo xtask tidy --lower`";

/// The list.
#[derive(Default)]
pub struct Still {
    /// How often each rule is broken, by the first word of its lines, and file.
    counts: BTreeMap<(String, PathBuf), usize>,
    /// Files of each cycle.
    cycles: Vec<BTreeSet<PathBuf>>,
    /// What stands above the list.
    head: String,
}

impl Still {
    /// Reads the list.
    pub fn parse(text: &str) -> Result<Still, String> {
        let mut still = Still::default();
        let head = text.lines().take_while(|line| line.starts_with('#'));
        still.head = head.flat_map(|line| [line, "\n"]).collect();
        for (line, number) in text.lines().zip(1..) {
            let words: Vec<&str> = line.split_whitespace().collect();
            match (words.as_slice(), line.starts_with(' ')) {
                ([], _) => {}
                ([first, ..], _) if first.starts_with('#') => {}
                (["cycle"], false) => still.cycles.push(BTreeSet::new()),
                ([path], true) if !still.cycles.is_empty() => {
                    still.cycles.last_mut().map(|files| files.insert(PathBuf::from(path)));
                }
                ([rule @ ("names" | "numbers"), count, path], false)
                    if count.parse::<usize>().is_ok_and(|n| n > 0) =>
                {
                    let count = count.parse().unwrap_or_default();
                    still.counts.insert((rule.to_string(), PathBuf::from(path)), count);
                }
                _ => {
                    return Err(format!(
                        "{LIST}:{number}: `names 2 FILE`, or `cycle` and files below it"
                    ));
                }
            }
        }
        Ok(still)
    }

    /// Compares what a rule finds with the list. `rule` is the first word of its lines, `instead`
    /// says what to do.
    pub fn compare(&self, rule: &str, instead: &str, found: &[Finding]) -> Vec<String> {
        let mut files: BTreeMap<&Path, Vec<&Finding>> = BTreeMap::new();
        for finding in found {
            files.entry(&finding.path).or_default().push(finding);
        }
        let listed = self.counts.iter().filter(|((of, _), _)| of == rule);
        for ((_, path), _) in listed {
            files.entry(path).or_default();
        }
        let mut complaints = Vec::new();
        for (path, findings) in files {
            let key = (rule.to_string(), path.to_path_buf());
            let listed = self.counts.get(&key).copied().unwrap_or(0);
            let path = path.display();
            let now = findings.len();
            if now > listed {
                let lines = findings.iter().map(|one| format!("{path}:{}: {}", one.line, one.what));
                complaints.extend(lines);
                complaints.push(format!("{path}: {now} of these, at most {listed}: {instead}"));
            } else if now < listed {
                complaints.push(format!("{LIST}: {listed} in {path}, now {now}: {LOWER}"));
            }
        }
        complaints
    }

    /// Compares cycles with the list.
    pub fn compare_cycles(&self, instead: &str, found: &[Cycle]) -> Vec<String> {
        let mut complaints = Vec::new();
        for cycle in found.iter().filter(|cycle| !self.is_listed(cycle)) {
            complaints.extend(cycle.uses.iter().map(|one| {
                format!("{}:{} uses {}", one.from.display(), one.line, one.to.display())
            }));
            let names = cycle.files.iter().map(|file| format!("\n  {}", file.display()));
            let names: String = names.collect();
            complaints.push(format!("these files lead to each other: {instead}{names}\n"));
        }
        for listed in &self.cycles {
            if !found.iter().any(|cycle| cycle.files == *listed) {
                let names = listed.iter().map(|file| format!("\n  {}", file.display()));
                let names: String = names.collect();
                complaints
                    .push(format!("{LIST}: fewer files lead to each other: {LOWER}{names}\n"));
            }
        }
        complaints
    }

    /// Returns whether a cycle is in the list, by itself or as a part of one.
    fn is_listed(&self, cycle: &Cycle) -> bool {
        self.cycles.iter().any(|listed| cycle.files.is_subset(listed))
    }

    /// Returns the list without what is gone. Nothing is added, and no count becomes higher.
    pub fn lowered(&self, found: &Found) -> String {
        let mut text = self.head.clone();
        for (rule, found) in [("names", &found.names), ("numbers", &found.numbers)] {
            text.push('\n');
            for ((_, path), listed) in self.counts.iter().filter(|((of, _), _)| of == rule) {
                let now = found.iter().filter(|finding| finding.path == *path).count();
                if now > 0 {
                    text += &format!("{rule} {} {}\n", now.min(*listed), path.display());
                }
            }
        }
        for cycle in found.cycles.iter().filter(|cycle| self.is_listed(cycle)) {
            text += "\ncycle\n";
            text.extend(cycle.files.iter().map(|file| format!("  {}\n", file.display())));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::cycles;
    use super::super::sources::tests::sources;
    use super::*;

    fn findings(count: usize) -> Vec<Finding> {
        let one = |line| Finding { path: "a.rs".into(), line, what: "a thing".into() };
        (1..=count).map(one).collect()
    }

    #[test]
    fn counts_are_neither_more_nor_less() {
        let still = Still::parse("# why\n\nnames 2 a.rs\nnumbers 1 a.rs\n").unwrap();
        assert!(still.compare("names", "do it", &findings(2)).is_empty());
        let more = still.compare("names", "do it", &findings(3));
        assert_eq!(more[0], "a.rs:1: a thing");
        assert_eq!(more[3], "a.rs: 3 of these, at most 2: do it");
        let less = still.compare("names", "do it", &findings(1)).join("");
        assert!(less.contains("2 in a.rs, now 1: run `cargo xtask tidy --lower`"), "{less}");
        let none = still.compare("names", "do it", &findings(0)).join("");
        assert!(none.contains("2 in a.rs, now 0"), "{none}");
        assert_eq!(still.compare("other", "do it", &findings(1)).len(), 2, "a file without a line");
    }

    #[test]
    fn a_list_that_is_not_one() {
        for text in
            ["names a.rs", "names 0 a.rs", "  a.rs", "names 1 a.rs more", "name 1 a.rs", " cycle"]
        {
            assert!(Still::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_list_gets_shorter() {
        let list = "# why\n\nnames 2 a.rs\nnames 1 b.rs\n\nnumbers 4 a.rs\n\ncycle\n  a.rs\n  b.rs\n  c.rs\n";
        let cycle = |files: &[&str]| Cycle {
            files: files.iter().map(PathBuf::from).collect(),
            uses: Vec::new(),
        };
        let found = Found {
            names: findings(3),
            numbers: findings(1),
            cycles: vec![cycle(&["a.rs", "b.rs"]), cycle(&["c.rs", "d.rs"])],
        };
        let lowered = Still::parse(list).unwrap().lowered(&found);
        let wanted = "# why\n\nnames 2 a.rs\n\nnumbers 1 a.rs\n\ncycle\n  a.rs\n  b.rs\n";
        assert_eq!(lowered, wanted);
    }

    #[test]
    fn cycles_only_get_smaller() {
        let found = |text| {
            cycles::all(&sources(&[
                ("crates/a/src/lib.rs", "mod one; mod two; pub struct Root;"),
                ("crates/a/src/one.rs", "use crate::two::Two; pub struct One;"),
                ("crates/a/src/two.rs", text),
            ]))
        };
        let compare = |list: &str, text| {
            Still::parse(list).unwrap().compare_cycles("do it", &found(text)).join("\n")
        };
        const LISTED: &str = "cycle\n  crates/a/src/one.rs\n  crates/a/src/two.rs\n";
        const CYCLE: &str = "use crate::one::One; pub struct Two;";
        assert_eq!(compare(LISTED, CYCLE), "");
        assert!(compare("", CYCLE).contains("crates/a/src/two.rs:1 uses crates/a/src/one.rs"));
        assert!(compare("", CYCLE).contains("do it\n  crates/a/src/one.rs\n"));
        assert!(compare(LISTED, "pub struct Two;").contains("fewer files lead to each other"));
        let larger = format!("{LISTED}  crates/a/src/lib.rs\n");
        let smaller = compare(&larger, CYCLE);
        assert!(smaller.contains("fewer files") && !smaller.contains("do it"), "{smaller}");
    }
}
