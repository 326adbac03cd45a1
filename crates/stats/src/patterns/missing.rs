//! Lookups of files that are not there.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::finding::{Finding, FindingKind};
use super::often::{COUNTED_MAX, OFTEN, Often};
use render::amounts::{counted, show_count};

/// Fewer failed lookups are part of what it costs to start a program.
const OF_PROCESS_MIN: u64 = 100;
/// Limit for the bytes of the paths that are counted.
const BYTES_MAX: usize = 16 << 20;

/// The lookups that failed.
#[derive(Default)]
pub struct Missing {
    all: Often,
    /// Paths that were looked for. Paths that are made later are no longer among them.
    paths: HashMap<Vec<u8>, Often>,
    path_bytes: usize,
    /// Lookups of each live process.
    processes: HashMap<u32, Often>,
}

impl Missing {
    /// Adds a lookup. Returns false if it does not count yet.
    pub fn add(&mut self, process: u32, path: &[u8], ns: u64) -> bool {
        if self.processes.len() < COUNTED_MAX || self.processes.contains_key(&process) {
            let of = self.processes.entry(process).or_default();
            of.add(0, ns);
            if of.count < OF_PROCESS_MIN {
                return false;
            }
            if of.count == OF_PROCESS_MIN {
                self.all.merge(of);
            } else {
                self.all.add(0, ns);
            }
        }
        if let Some(of) = self.paths.get_mut(path) {
            of.add(0, ns);
        } else if self.paths.len() < COUNTED_MAX && self.path_bytes < BYTES_MAX {
            self.path_bytes += path.len();
            self.paths.entry(path.to_vec()).or_default().add(0, ns);
        }
        true
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
    pub fn finish(&self, site: Vec<u8>) -> Option<Finding> {
        let Often { count, ns, .. } = self.all;
        if count < OFTEN {
            return None;
        }
        let mut directories: HashMap<&[u8], u64> = HashMap::new();
        for (path, of) in &self.paths {
            let end = path.iter().rposition(|&c| c == b'/').unwrap_or(0);
            *directories.entry(&path[..end.max(1).min(path.len())]).or_default() += of.count;
        }
        let top = directories.iter().max_by_key(|(path, count)| (**count, Reverse(**path)));
        let (directory, most) = top.map_or((&b""[..], 0), |(path, count)| (*path, *count));
        Some(Finding {
            kind: FindingKind::MissingFiles,
            count,
            bytes: 0,
            time_ns: ns,
            share: 0.0,
            file: directory.to_vec(),
            site,
            evidence: format!(
                "{} for {} in {} that are not there, {} of them in this one",
                counted(count, "call", "calls"),
                counted(self.paths.len() as u64, "path", "paths"),
                counted(directories.len() as u64, "directory", "directories"),
                show_count(most),
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_lookups_of_a_process_and_those_of_what_is_made_do_not_count() {
        let mut missing = Missing::default();
        for process in 0..100 {
            for n in 1..OF_PROCESS_MIN {
                assert!(!missing.add(process, b"/etc/settings", n));
            }
            missing.ended(process);
        }
        assert_eq!(missing.finish(Vec::new()), None);
        for n in 0..200 {
            missing.add(1, format!("/new/{n}").as_bytes(), 1);
        }
        let found = missing.finish(Vec::new()).map(|finding| finding.count);
        assert_eq!(found, Some(200));
        for n in 0..200 {
            missing.made(format!("/new/{n}").as_bytes());
        }
        assert_eq!(missing.finish(Vec::new()), None);
    }
}
