//! The calls that took longest, one by one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use model::{FileId, Namespace};
use render::lines::{self, Look};
use render::text::Style;
use trace::event::EventKind;

use crate::chains::Chains;
use crate::pass::{Visit, Watch};
use crate::sites::SiteId;

/// Characters of the text of a call.
const TEXT_MAX: usize = 240;
/// Bytes of strings and data in it.
const STRING_LIMIT: usize = 32;

/// What calls are ordered by: those that took longest first, then those that began first.
type Rank = (u64, Reverse<u64>, Reverse<u32>);

/// A call as it is kept.
struct Kept {
    rank: Rank,
    call: Slow,
    file: Option<FileId>,
    site: Option<(SiteId, bool)>,
}

impl PartialEq for Kept {
    fn eq(&self, other: &Kept) -> bool {
        self.rank == other.rank
    }
}

impl Eq for Kept {}

impl PartialOrd for Kept {
    fn partial_cmp(&self, other: &Kept) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Kept {
    fn cmp(&self, other: &Kept) -> std::cmp::Ordering {
        self.rank.cmp(&other.rank)
    }
}

/// A call that took long.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slow {
    /// Its number, if the trace has it.
    pub seq: Option<u64>,
    /// Number of the system call.
    pub nr: u16,
    /// When it began.
    pub enter_ns: u64,
    /// How long it took.
    pub ns: u64,
    /// Process and thread, if they are known.
    pub ids: (Option<u32>, Option<u32>),
    /// The call as `show` prints it, cut.
    pub text: String,
    /// The file that it is about: of its first descriptor, or else its path.
    pub file: Vec<u8>,
    /// Where in the program it was made, if callers were recorded.
    pub site: String,
}

/// The fold that keeps them.
pub struct Slowest {
    most: usize,
    /// The one that took the least time is the first to go.
    kept: BinaryHeap<Reverse<Kept>>,
    chains: Chains,
}

impl Slowest {
    /// Keeps so many calls.
    pub fn new(most: usize) -> Slowest {
        Slowest { most, kept: BinaryHeap::new(), chains: Chains::default() }
    }

    /// Returns the calls, the longest first.
    pub fn finish(mut self, files: &Namespace) -> Vec<Slow> {
        let kept = std::mem::take(&mut self.kept).into_sorted_vec();
        let calls = kept.into_iter().map(|Reverse(Kept { mut call, file, site, .. })| {
            call.file = file.map(|file| files.path(file)).unwrap_or_default();
            if let Some((site, returns)) = site {
                call.site = self.chains.spell(site, returns).name();
            }
            call
        });
        calls.collect()
    }
}

impl Watch for Slowest {
    fn add(&mut self, visit: &mut Visit<'_>) {
        let moment = visit.moment;
        self.chains.add(moment, visit.contents);
        let EventKind::Call(call) = &moment.event.kind else { return };
        let Some(ns) = moment.duration_ns().filter(|_| visit.wanted) else { return };
        let rank = (ns, Reverse(moment.enter_ns), Reverse(moment.event.thread));
        if self.kept.len() >= self.most {
            if self.kept.peek().is_none_or(|Reverse(least)| least.rank >= rank) {
                return;
            }
            self.kept.pop();
        }
        let style = Style { string_limit: STRING_LIMIT, data: true, verbose: false };
        let look = Look { style, hex: false, colour: false, seq: false, names: false };
        let mut text = String::new();
        lines::told(&mut text, moment, visit.contents, look);
        if let Some((at, _)) = text.char_indices().nth(TEXT_MAX) {
            text.truncate(at);
            text.push_str("...");
        }
        let chain = self.chains.of(moment, visit.contents).filter(|chain| chain.len() > 1);
        let touch = moment.touch;
        let by_fd = touch.by_fd.or(touch.opened).map(|(file, _)| file);
        let slow = Slow {
            seq: moment.seq,
            nr: call.nr,
            enter_ns: moment.enter_ns,
            ns,
            ids: (moment.pid, moment.tid),
            text,
            ..Slow::default()
        };
        self.kept.push(Reverse(Kept {
            rank,
            call: slow,
            file: by_fd.or_else(|| touch.by_path.iter().flatten().next().copied()),
            site: chain.and_then(|chain| self.chains.telling(&chain)),
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{call, open, watch};

    #[test]
    fn the_longest_calls_are_kept_with_their_files() {
        let mut calls = vec![open("data", 0o102, 3).lasts(70)];
        calls.extend((0..100).map(|n| call("write", &[3, 0, 10], 10).lasts(n % 50)));
        calls.push(call("fsync", &[3], 0).never());
        calls.push(call("getppid", &[], 1).lasts(900));
        let (fold, files) = watch(Slowest::new(6), &calls);
        let found = fold.finish(&files);
        let times: Vec<u64> = found.iter().map(|slow| slow.ns).collect();
        assert_eq!(times, [900, 70, 49, 49, 48, 48]);
        assert!(found[2].enter_ns < found[3].enter_ns);
        assert_eq!((&found[0].file[..], &found[1].file[..]), (&b""[..], &b"/work dir/data"[..]));
        assert_eq!(
            (&found[2].file[..], found[2].ids),
            (&b"/work dir/data"[..], (Some(100), Some(100)))
        );
        assert!(found[1].text.starts_with("openat(") && found[1].text.contains("data"));
        let (fold, files) = watch(Slowest::new(0), &calls);
        assert_eq!(fold.finish(&files), []);
    }
}
