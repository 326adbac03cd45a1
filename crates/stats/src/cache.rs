//! Reuse of file data, and the cache size needed to serve it.
//!
//! Counts accesses to pages of 4 KiB. The distance of an access is the number of distinct pages
//! touched since the last access to the same page. An LRU cache serves the access if it holds at
//! least that many pages. With many pages, only a sample chosen by a hash is followed and scaled up
//! (as in SHARDS, by Waldspurger et al.).

use std::collections::{BTreeMap, HashMap};

use model::FileId;

use crate::pass::{Visit, Watch};
use crate::sheet::{Cell, Fact, Sheet, Table, ratio};
use crate::steps::STEPS_MAX;
use crate::view::ViewRow;

const PAGE: u64 = 4096;
/// Limit for the pages that are followed. Beyond it, the sample is halved.
const PAGES_MAX: usize = 1 << 17;

/// The view.
pub static VIEW: ViewRow = ViewRow {
    name: "cache",
    about: "Working set over time, how soon data is used again, and what a cache of each size would miss",
    look: |look| {
        let cache = Cache::new(look.interval()?);
        Ok(look.watch(cache, |fold, _| fold.finish().sheet()))
    },
};

/// A page of a file.
type Page = (FileId, u64);

/// Last access of each page, with a fast count of the pages accessed since.
#[derive(Default)]
struct Recency {
    last: HashMap<Page, usize>,
    /// A Fenwick tree over times: 1 at the last access of each page.
    tree: Vec<u32>,
    now: usize,
}

impl Recency {
    fn add(&mut self, at: usize, by: i32) {
        let mut place = at + 1;
        while place < self.tree.len() {
            self.tree[place] = self.tree[place].wrapping_add_signed(by);
            place += place & place.wrapping_neg();
        }
    }

    fn up_to(&self, at: usize) -> u32 {
        let (mut place, mut sum) = (at + 1, 0u32);
        while place > 0 {
            sum = sum.wrapping_add(self.tree[place]);
            place &= place - 1;
        }
        sum
    }

    /// Records an access. Returns the number of other pages accessed since the page's last one.
    fn touch(&mut self, page: Page) -> Option<u64> {
        if self.now + 2 > self.tree.len() {
            self.compact();
        }
        let now = self.now;
        self.now += 1;
        let before = self.last.insert(page, now);
        let distance = before.map(|at| {
            let since = self.last.len() as u64 - u64::from(self.up_to(at));
            self.add(at, -1);
            since
        });
        self.add(now, 1);
        distance
    }

    /// Renumbers the times, dropping those that are no page's last access.
    fn compact(&mut self) {
        let mut order: Vec<(usize, Page)> = self.last.iter().map(|(p, at)| (*at, *p)).collect();
        order.sort_unstable();
        self.tree = vec![0; 2 * order.len().max(1 << 12) + 2];
        self.now = order.len();
        for (at, (_, page)) in order.into_iter().enumerate() {
            self.last.insert(page, at);
            self.add(at, 1);
        }
    }

    fn retain(&mut self, keep: impl Fn(&Page) -> bool) {
        self.last.retain(|page, _| keep(page));
        self.compact();
    }
}

/// Page accesses within a time step.
#[derive(Clone, Copy, Debug, Default)]
pub struct Step {
    /// Distinct pages accessed within the step.
    pub working_set: u64,
    /// Pages accessed for the first time.
    pub new: u64,
}

/// The fold that counts page accesses.
pub struct Cache {
    interval_ns: u64,
    recency: Recency,
    /// One of `1 << sampling` pages is followed.
    sampling: u32,
    /// Number of accesses by distance in pages, without first accesses.
    distances: BTreeMap<u64, u64>,
    /// Page accesses, and how many of them were a page's first.
    accesses: u64,
    first: u64,
    steps: Vec<Step>,
    /// The step of each page's last access.
    in_step: HashMap<Page, usize>,
    all_accesses: u64,
}

fn hash((file, page): Page) -> u64 {
    let mixed = (page ^ (file.index() as u64).rotate_left(40)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

fn is_sampled(page: Page, sampling: u32) -> bool {
    sampling == 0 || hash(page) >> (64 - sampling) == 0
}

/// Rounds a distance down to a sixteenth of its octave, enough for a curve.
fn rounded(distance: u64) -> u64 {
    match distance.checked_ilog2() {
        Some(octave) if octave > 4 => distance >> (octave - 4) << (octave - 4),
        _ => distance,
    }
}

impl Cache {
    /// Makes an empty fold with time steps of this width.
    pub fn new(interval_ns: u64) -> Cache {
        Cache {
            interval_ns: interval_ns.max(1),
            recency: Recency::default(),
            sampling: 0,
            distances: BTreeMap::new(),
            accesses: 0,
            first: 0,
            steps: Vec::new(),
            in_step: HashMap::new(),
            all_accesses: 0,
        }
    }

    fn touch(&mut self, page: Page, step: usize) {
        self.all_accesses += 1;
        if !is_sampled(page, self.sampling) {
            return;
        }
        let weight = 1u64 << self.sampling;
        self.accesses += weight;
        let distance = self.recency.touch(page);
        match distance {
            Some(distance) => {
                *self.distances.entry(rounded(distance * weight)).or_default() += weight;
            }
            None => self.first += weight,
        }
        if self.steps.len() <= step {
            self.steps.resize(step + 1, Step::default());
        }
        if self.in_step.insert(page, step) != Some(step) {
            self.steps[step].working_set += weight;
        }
        self.steps[step].new += if distance.is_none() { weight } else { 0 };
        if self.recency.last.len() > PAGES_MAX {
            self.sampling += 1;
            let sampling = self.sampling;
            self.recency.retain(|page| is_sampled(*page, sampling));
            self.in_step.retain(|page, _| is_sampled(*page, sampling));
        }
    }

    /// Returns the result.
    pub fn finish(self) -> CacheCounts {
        CacheCounts {
            interval_ns: self.interval_ns,
            steps: self.steps,
            distances: self.distances,
            accesses: self.accesses,
            first: self.first,
            all_accesses: self.all_accesses,
            sampling: self.sampling,
        }
    }
}

impl Watch for Cache {
    fn add(&mut self, visit: &mut Visit<'_>) {
        if !visit.wanted {
            return;
        }
        let step = (visit.moment.enter_ns / self.interval_ns).min(STEPS_MAX - 1) as usize;
        for access in visit.moment.touch.accesses.iter().flatten().filter(|access| access.bytes > 0)
        {
            let Some(offset) = access.offset else { continue };
            let last = offset.saturating_add(access.bytes - 1) / PAGE;
            (offset / PAGE..=last).for_each(|page| self.touch((access.file, page), step));
        }
    }
}

/// Reuse of data.
#[derive(Clone, Debug)]
pub struct CacheCounts {
    /// Width of a time step.
    pub interval_ns: u64,
    /// Accesses by time step.
    pub steps: Vec<Step>,
    /// Number of accesses by distance in pages, rounded down to a sixteenth.
    pub distances: BTreeMap<u64, u64>,
    /// Page accesses, scaled up from the sample.
    pub accesses: u64,
    /// First accesses of pages, scaled up from the sample.
    pub first: u64,
    /// All page accesses, counted without sampling.
    pub all_accesses: u64,
    /// One of `1 << sampling` pages was followed.
    pub sampling: u32,
}

impl CacheCounts {
    /// Returns the share of accesses that a cache of so many pages would miss.
    pub fn miss_ratio(&self, pages: u64) -> f64 {
        let hits: u64 = self.distances.range(..pages).map(|(_, count)| count).sum();
        1.0 - ratio(hits, self.accesses)
    }

    /// Returns the result as tables.
    pub fn sheet(&self) -> Sheet {
        let fact = |key, title, value| Fact { key, title, value };
        let sampled = format!("1 page of {}", 1u64 << self.sampling);
        let mut facts = vec![
            fact("page_accesses", "touches of 4-KiB pages", Cell::Count(self.all_accesses)),
            fact("distinct_bytes", "distinct data", Cell::Bytes(self.first.saturating_mul(PAGE))),
            fact("interval_ns", "", Cell::Ns(self.interval_ns)),
            fact("sampling", "", Cell::Count(1 << self.sampling)),
        ];
        if self.sampling > 0 {
            facts.push(fact("followed", "followed", Cell::Word(sampled.into())));
        }
        let tables = vec![self.curve(), self.reuse(), self.working_set()];
        let notes = vec![
            "Reads and writes of files count alike; the cache forgets what was not used for the \
             longest time. Sizes are exact to 1/16."
                .into(),
        ];
        Sheet { facts, tables, notes }
    }

    fn curve(&self) -> Table {
        let title = "Misses of a cache of this size";
        let columns = [("cache_bytes", "size"), ("miss_share", "misses"), ("", " ")];
        let mut table = Table::new("miss_ratio", title, &columns);
        table.fixed = true;
        if self.accesses == 0 {
            return table;
        }
        let largest = self.distances.last_key_value().map_or(0, |(distance, _)| distance + 1);
        let mut pages = 1u64;
        loop {
            let misses = self.miss_ratio(pages);
            let size = Cell::Bytes(pages.saturating_mul(PAGE));
            table.row(vec![size, Cell::Share(misses), Cell::Bar(misses)]);
            if pages >= largest {
                return table;
            }
            pages *= 2;
        }
    }

    fn reuse(&self) -> Table {
        let title = "Distinct data touched before the same page is touched again";
        let columns = [
            ("from_bytes", "from"),
            ("to_bytes", ""),
            ("count", "touches"),
            ("share", "share"),
            ("", " "),
        ];
        let mut table = Table::new("reuse", title, &columns);
        table.fixed = true;
        let mut octaves: BTreeMap<u32, u64> = BTreeMap::new();
        for (distance, count) in &self.distances {
            let octave = distance.checked_ilog2().map_or(0, |octave| octave + 1);
            *octaves.entry(octave).or_default() += count;
        }
        for (octave, count) in octaves {
            let from = if octave == 0 { 0 } else { 1u64 << (octave - 1) };
            let part = ratio(count, self.accesses);
            table.row(vec![
                Cell::Bytes(from.saturating_mul(PAGE)),
                Cell::Bytes((1u64 << octave.min(50)).saturating_mul(PAGE)),
                Cell::Count(count),
                Cell::Share(part),
                Cell::Bar(part),
            ]);
        }
        table
    }

    fn working_set(&self) -> Table {
        let columns = [
            ("start_ns", "from"),
            ("working_set_bytes", "distinct data"),
            ("new_bytes", "of it new"),
            ("", " "),
        ];
        let mut table = Table::new("steps", "Working set over time", &columns);
        table.fixed = true;
        let most = self.steps.iter().map(|step| step.working_set).max().unwrap_or(0);
        for (index, step) in self.steps.iter().enumerate() {
            table.row(vec![
                Cell::At(index as u64 * self.interval_ns),
                Cell::Bytes(step.working_set.saturating_mul(PAGE)),
                Cell::Bytes(step.new.saturating_mul(PAGE)),
                Cell::Bar(ratio(step.working_set, most)),
            ]);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{Made, call, open, watch};

    fn read(page: u64) -> Made {
        call("pread64", &[3, 0, 4096, page as i64 * 4096], 4096)
    }

    #[test]
    fn a_loop_needs_a_cache_of_its_length() {
        let mut calls = vec![open("data", 0, 3)];
        (0..5).for_each(|_| calls.extend((0..10).map(read)));
        let view = watch(Cache::new(1_000_000), &calls).0.finish();
        assert_eq!((view.accesses, view.first), (50, 10));
        assert_eq!(view.distances, BTreeMap::from([(9, 40)]));
        assert_eq!(view.miss_ratio(9), 1.0);
        assert!((view.miss_ratio(10) - 0.2).abs() < 1e-9);
        assert_eq!(view.steps[0].working_set, 10);
    }

    #[test]
    fn distances_are_as_a_list_would_have_them() {
        let (mut recency, mut list) = (Recency::default(), Vec::<u64>::new());
        let mut state = 9u64;
        for _ in 0..20_000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let page = (state >> 33) % 200;
            let expected = list.iter().rev().position(|known| *known == page);
            list.retain(|known| *known != page);
            list.push(page);
            assert_eq!(recency.touch((FileId::OTHERS, page)), expected.map(|at| at as u64));
        }
    }

    #[test]
    fn a_sample_tells_what_all_would() {
        let pages = 4 * PAGES_MAX as u64;
        let mut cache = Cache::new(1);
        for _ in 0..3 {
            (0..pages).for_each(|page| cache.touch((FileId::OTHERS, page), 0));
        }
        let view = cache.finish();
        assert!(view.sampling >= 2);
        let found = view.first as f64 / pages as f64;
        assert!((0.9..1.1).contains(&found), "{found}");
        assert!(view.miss_ratio(pages / 2) > 0.95 && view.miss_ratio(pages * 2) < 0.45);
    }
}
