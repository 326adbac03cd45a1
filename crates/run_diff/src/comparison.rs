//! Two sides of runs, brought together by names.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use model::Conditions;
use stats::histogram::Sparse;
use trace::Trace;

use crate::amounts::Amounts;
use crate::gather::{By, CallAndFile, Named, Run};
use crate::parting::{self, Alignment};
use crate::rank_test::p_value;

/// Two sides, each with one run or more.
pub struct Comparison {
    /// The runs of each side, by the same names.
    pub sides: [Vec<Run>; 2],
    /// Where two runs part, if that was looked for.
    pub alignment: Option<Alignment>,
}

/// What was measured of something on one side: medians of its runs.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Calls.
    pub count: u64,
    /// Failed calls.
    pub errors: u64,
    /// Time in calls.
    pub ns: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Calls that made data durable.
    pub syncs: u64,
    /// Part of the time of the run.
    pub run_ns: f64,
    /// The least and the most of that in a run.
    pub spread_ns: [f64; 2],
    /// Durations of the calls of all runs.
    pub durations: Sparse,
}

/// Something on both sides.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its name.
    pub name: Vec<u8>,
    /// What was measured of it.
    pub sides: [Measured; 2],
    /// How likely such a difference in its part of the time is by chance, if runs tell.
    pub p: Option<f64>,
}

/// A number of both sides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// Medians of the sides.
    pub sides: [f64; 2],
    /// The least and the most of each side.
    pub spread: [[f64; 2]; 2],
    /// How likely such a difference is by chance, if runs tell.
    pub p: Option<f64>,
}

impl Pair {
    /// Returns how much more it is on the second side.
    pub fn change(&self) -> f64 {
        self.sides[1] - self.sides[0]
    }

    /// Returns the same relative to the first side, if that is not nothing.
    pub fn change_share(&self) -> Option<f64> {
        (self.sides[0] > 0.0).then(|| self.change() / self.sides[0])
    }
}

impl Row {
    /// Returns how much more of the time of the run it took on the second side.
    pub fn change_ns(&self) -> f64 {
        self.sides[1].run_ns - self.sides[0].run_ns
    }

    /// Returns true if it is there on one side only, and succeeded there.
    pub fn is_only_on(&self, side: usize) -> bool {
        let [here, there] = [&self.sides[side], &self.sides[1 - side]];
        there.count == 0 && here.count > here.errors
    }
}

/// Returns the median, 0 without values.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[n / 2],
        n => (values[n / 2 - 1] + values[n / 2]) / 2.0,
    }
}

fn spread(values: &[f64]) -> [f64; 2] {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(0.0, f64::max);
    [least.min(most), most]
}

impl Comparison {
    /// Compares the runs of two sides.
    pub fn new(a: Vec<Run>, b: Vec<Run>) -> Comparison {
        let mut sides = [a, b];
        unify_files(&mut sides);
        unify_first_programs(&mut sides);
        Comparison { sides, alignment: None }
    }

    /// Looks where two runs part, if their calls were followed.
    pub fn align(&mut self, traces: [&Trace; 2], conditions: &Conditions) {
        let [[a], [b]] = self.sides.each_ref().map(Vec::as_slice) else { return };
        if let (Some(of_a), Some(of_b)) = (&a.course, &b.course) {
            let namings = [&a.naming, &b.naming];
            self.alignment = parting::compare(traces, [of_a, of_b], namings, conditions);
        }
    }

    /// Returns true if a side has several runs.
    pub fn has_spread(&self) -> bool {
        self.sides.iter().any(|runs| runs.len() > 1)
    }

    /// Returns true if everything that happened in the runs counts.
    pub fn is_whole(&self) -> bool {
        self.runs().all(|run| run.wall.is_some())
    }

    /// Returns all runs.
    pub fn runs(&self) -> impl Iterator<Item = &Run> {
        self.sides.iter().flatten()
    }

    /// Returns a number of both sides.
    pub fn pair(&self, of: impl Fn(&Run) -> f64) -> Pair {
        let [mut a, mut b] =
            [0, 1].map(|side| self.sides[side].iter().map(&of).collect::<Vec<f64>>());
        let p = p_value(&a, &b);
        let spread = [spread(&a), spread(&b)];
        Pair { sides: [median(&mut a), median(&mut b)], spread, p }
    }

    /// Returns all rows, the greatest change first.
    pub fn rows(&self, by: By) -> Vec<Row> {
        let names: BTreeSet<&Vec<u8>> = self.runs().flat_map(|run| run.by(by).keys()).collect();
        let mut rows: Vec<Row> = names.into_iter().map(|name| self.row(by, name)).collect();
        let key = |row: &Row| row.change_ns().abs();
        rows.sort_by(|a, b| key(b).total_cmp(&key(a)).then_with(|| a.name.cmp(&b.name)));
        rows
    }

    fn row(&self, by: By, name: &[u8]) -> Row {
        let nothing = Amounts::default();
        let sides = [0, 1].map(|side| {
            let runs = self.sides[side].iter();
            runs.map(|run| run.by(by).get(name).unwrap_or(&nothing)).collect::<Vec<_>>()
        });
        let times =
            [0, 1].map(|side: usize| sides[side].iter().map(|of| of.run_ns).collect::<Vec<_>>());
        let p = p_value(&times[0], &times[1]);
        Row { name: name.to_vec(), sides: sides.map(|runs| measured(&runs)), p }
    }

    /// Returns the changes of what the time between calls was of that of the run, by program.
    pub fn outside(&self) -> Vec<(Vec<u8>, f64)> {
        self.changes(|run| &run.outside)
    }

    /// Returns the changes of what calls on files were of the time of the run.
    pub fn pairs(&self) -> Vec<(CallAndFile, f64)> {
        self.changes(|run| &run.pairs)
    }

    fn changes<K: Ord + Clone>(&self, of: impl Fn(&Run) -> &BTreeMap<K, f64>) -> Vec<(K, f64)> {
        let keys: BTreeSet<&K> = self.runs().flat_map(|run| of(run).keys()).collect();
        let change = |key: &K| self.pair(|run| of(run).get(key).copied().unwrap_or(0.0)).change();
        keys.into_iter().map(|key| (key.clone(), change(key))).collect()
    }

    /// Returns true if both sides made the same calls, with the same errors, data and syncs, on the same
    /// files: all but times. False as well if there were too many files to tell.
    pub fn did_the_same(&self) -> bool {
        let same = |row: &Row| {
            let [a, b] = &row.sides;
            (a.count, a.errors, a.bytes, a.syncs) == (b.count, b.errors, b.bytes, b.syncs)
        };
        let keys: BTreeSet<_> = self.runs().flat_map(|run| run.errors.keys()).collect();
        let failed = |key| self.pair(|run| run.errors.get(key).map_or(0.0, |all| all.count as f64));
        let has_all = self.runs().all(|run| run.left_out == 0);
        has_all
            && keys.into_iter().all(|key| failed(key).change() == 0.0)
            && [By::Call, By::File].into_iter().all(|by| self.rows(by).iter().all(same))
    }
}

fn measured(runs: &[&Amounts]) -> Measured {
    let of = |number: fn(&Amounts) -> u64| {
        let mut values: Vec<f64> = runs.iter().map(|run| number(run) as f64).collect();
        // One value stays exact, however large it is.
        if let [one] = runs { number(one) } else { median(&mut values).round() as u64 }
    };
    let mut times: Vec<f64> = runs.iter().map(|run| run.run_ns).collect();
    let mut durations = Sparse::default();
    runs.iter().for_each(|run| durations.merge(&run.durations));
    Measured {
        count: of(|run| run.count),
        errors: of(|run| run.errors),
        ns: of(|run| run.ns),
        bytes: of(|run| run.bytes),
        syncs: of(|run| run.syncs),
        spread_ns: spread(&times),
        run_ns: median(&mut times),
        durations,
    }
}

/// Gives files one name that have others by chance: see [`crate::names`].
fn unify_files(sides: &mut [Vec<Run>; 2]) {
    let mut runs: HashMap<Vec<u8>, usize> = HashMap::new();
    for run in sides.iter().flatten() {
        for name in run.files.keys() {
            *runs.entry(name.clone()).or_default() += 1;
        }
    }
    let is_single = |name: &[u8]| runs.get(name).is_none_or(|runs| *runs < 2);
    let mut patterns: HashMap<Vec<u8>, BTreeSet<usize>> = HashMap::new();
    for (number, run) in sides.iter().flatten().enumerate() {
        for name in run.files.keys().filter(|name| is_single(name)) {
            let pattern = run.naming.pattern(name);
            if pattern != *name {
                patterns.entry(pattern).or_default().insert(number);
            }
        }
    }
    for run in sides.iter_mut().flatten() {
        let naming = run.naming.clone();
        let renamed = |name: Vec<u8>| {
            let pattern = if is_single(&name) { naming.pattern(&name) } else { return name };
            let is_shared = patterns.get(&pattern).is_some_and(|runs| runs.len() > 1);
            if is_shared { pattern } else { name }
        };
        run.files = rename(std::mem::take(&mut run.files), &renamed);
        let mut pairs = BTreeMap::new();
        for ((call, file), ns) in std::mem::take(&mut run.pairs) {
            *pairs.entry((call, renamed(file))).or_default() += ns;
        }
        run.pairs = pairs;
    }
}

/// Gives the programs that the runs begin with one name, if the sides have one each that the other has
/// not.
fn unify_first_programs(sides: &mut [Vec<Run>; 2]) {
    let first = |runs: &[Run]| {
        let name = runs.first()?.first_program.clone()?;
        runs.iter().all(|run| run.first_program.as_ref() == Some(&name)).then_some(name)
    };
    let [Some(a), Some(b)] = [first(&sides[0]), first(&sides[1])] else { return };
    let has = |runs: &[Run], name: &[u8]| runs.iter().any(|run| run.programs.contains_key(name));
    if a == b || has(&sides[0], &b) || has(&sides[1], &a) {
        return;
    }
    let both = [&a[..], b" -> ", &b[..]].concat();
    let renamed = |name: Vec<u8>| if name == a || name == b { both.clone() } else { name };
    for run in sides.iter_mut().flatten() {
        run.programs = rename(std::mem::take(&mut run.programs), &renamed);
        run.starts = std::mem::take(&mut run.starts).renamed(&renamed);
        let outside = std::mem::take(&mut run.outside);
        run.outside = outside.into_iter().map(|(name, ns)| (renamed(name), ns)).collect();
    }
}

fn rename(named: Named, renamed: &dyn Fn(Vec<u8>) -> Vec<u8>) -> Named {
    let mut out = Named::new();
    for (name, amounts) in named {
        out.entry(renamed(name)).or_default().merge(&amounts);
    }
    out
}
