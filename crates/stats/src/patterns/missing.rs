//! Lookups of files that are not there.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::finding::Finding;
use super::kinds::FindingKind;
use super::often::{COUNTED_MAX, OFTEN, Often};
use super::prices::Prices;
use crate::activity::Activity;
use render::amounts::{counted, show_count};

/// Fewer failed lookups are part of what it costs to start a program.
const OF_PROCESS_MIN: u64 = 100;
/// Limit for the bytes of the paths that are counted.
const BYTES_MAX: usize = 16 << 20;

/// Lookups by path.
type ByPath = HashMap<Vec<u8>, Often>;

/// The lookups that failed.
#[derive(Default)]
pub struct Missing {
    all: Often,
    /// Paths that were looked for. Paths that are made later are no longer among them.
    paths: ByPath,
    path_bytes: usize,
    /// Lookups of each live process: `None` once they are among those of all.
    processes: HashMap<u32, Option<ByPath>>,
}

impl Missing {
    /// Adds a lookup. Returns false if it does not count yet.
    pub fn add(&mut self, process: u32, path: &[u8], ns: u64, number: Option<u64>) -> bool {
        let mut one = Often::default();
        one.add_call(0, ns, number);
        if self.processes.len() < COUNTED_MAX || self.processes.contains_key(&process) {
            let few = self.processes.entry(process).or_insert_with(|| Some(ByPath::new()));
            if let Some(paths) = few {
                match paths.get_mut(path) {
                    Some(of) => of.merge(&one),
                    None => _ = paths.insert(path.to_vec(), one),
                }
                if paths.values().map(|of| of.count).sum::<u64>() < OF_PROCESS_MIN {
                    return false;
                }
                few.take().into_iter().flatten().for_each(|(path, of)| self.count(&path, &of));
                return true;
            }
        }
        self.count(path, &one);
        true
    }

    fn count(&mut self, path: &[u8], of: &Often) {
        self.all.merge(of);
        if let Some(known) = self.paths.get_mut(path) {
            known.merge(of);
        } else if self.paths.len() < COUNTED_MAX && self.path_bytes < BYTES_MAX {
            self.path_bytes += path.len();
            self.paths.insert(path.to_vec(), of.clone());
        }
    }

    /// A path was made: who looked for it before asked whether it may be.
    pub fn made(&mut self, path: &[u8]) {
        if let Some(of) = self.paths.remove(path) {
            self.path_bytes -= path.len();
            self.all.count = self.all.count.saturating_sub(of.count);
            self.all.ns = self.all.ns.saturating_sub(of.ns);
        }
    }

    /// A process has ended.
    pub fn ended(&mut self, process: u32) {
        self.processes.remove(&process);
    }

    /// Returns the finding, if they are many.
    pub fn finish(&self, site: Vec<u8>, prices: &Prices) -> Option<Finding> {
        let count = self.all.count;
        if count < OFTEN {
            return None;
        }
        let mut directories: HashMap<&[u8], Often> = HashMap::new();
        for (path, of) in &self.paths {
            let end = path.iter().rposition(|&c| c == b'/').unwrap_or(0);
            directories.entry(&path[..end.max(1).min(path.len())]).or_default().merge(of);
        }
        let cost = |of: &Often| (of.ns, of.count);
        let top = directories.iter().max_by_key(|(path, of)| (cost(of), Reverse(**path)));
        let (directory, most) = top.map_or((&b""[..], 0), |(path, of)| (*path, of.count));
        let evidence = format!(
            "{} for {} in {} that are not there, {} of them in this one",
            counted(count, "call", "calls"),
            counted(self.paths.len() as u64, "path", "paths"),
            counted(directories.len() as u64, "directory", "directories"),
            show_count(most),
        );
        let about = (Activity::Metadata, prices);
        let finding = Finding::about(FindingKind::MissingFiles, &self.all, about, evidence);
        Some(Finding { file: directory.to_vec(), site, ..finding })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activity::{ACTIVITIES, COUNT, WallTime};

    fn prices() -> Prices {
        let parts = std::array::from_fn(|at| (ACTIVITIES[at].0, 0));
        let wall = WallTime {
            run_ns: 1,
            parts,
            most: Default::default(),
            working_ns: 0,
            alone_ns: 0,
            held_up_ns: 0,
        };
        Prices::new(&wall, &[0; COUNT])
    }

    #[test]
    fn the_numbers_of_calls_and_paths_are_of_the_same_calls() {
        let mut missing = Missing::default();
        for n in 0..OF_PROCESS_MIN + 15 {
            missing.add(1, b"/data/shop.db-wal", 1, Some(n));
        }
        let evidence = missing.finish(Vec::new(), &prices()).map(|finding| finding.evidence);
        let words =
            "115 calls for 1 path in 1 directory that are not there, 115 of them in this one";
        assert_eq!(evidence.as_deref(), Some(words));
    }

    #[test]
    fn few_lookups_of_a_process_and_those_of_what_is_made_do_not_count() {
        let mut missing = Missing::default();
        for process in 0..100 {
            for n in 1..OF_PROCESS_MIN {
                assert!(!missing.add(process, b"/etc/settings", n, None));
            }
            missing.ended(process);
        }
        assert_eq!(missing.finish(Vec::new(), &prices()), None);
        for n in 0..200 {
            missing.add(1, format!("/new/{n}").as_bytes(), 1, None);
        }
        let found = missing.finish(Vec::new(), &prices()).map(|finding| finding.count);
        assert_eq!(found, Some(200));
        for n in 0..200 {
            missing.made(format!("/new/{n}").as_bytes());
        }
        assert_eq!(missing.finish(Vec::new(), &prices()), None);
    }
}
