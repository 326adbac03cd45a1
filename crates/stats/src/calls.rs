//! Number, outcome, duration and data volume of the calls.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use model::file_use;
use render::origin;
use syscalls::shape::Classes;
use trace::event::Outcome;

use crate::activity::{Activity, WallTime};
use crate::histogram::Histogram;
use crate::numbered::{Numbered, name};
use crate::pass::{Fold, Occasion, Visit, Watch};
use crate::program_time::{ProgramTime, Programs};
use crate::same_device::SameDevice;
use crate::sheet::{Cell, Fact, Sheet, Table, ratio, share};
use crate::view::ViewRow;

/// The view.
pub static VIEW: ViewRow = ViewRow {
    name: "calls",
    about: "Each call: how often, errors, time, data",
    look: |look| {
        let time = ProgramTime::of_chosen(look.conditions);
        let beside = Beside { time, device: SameDevice::of(look.trace) };
        let (counted, beside) = look.fold_and_watch(Calls::default, beside);
        let (mut sheet, unread) = (counted.0.finish().sheet(), counted.1);
        let Some(Beside { time, device }) = beside else {
            sheet.notes.push(OF_CALLS.into());
            return Ok((sheet, unread));
        };
        let (wall, programs) = time.finish();
        if wall.run_ns > 0 {
            let is_partial = origin::selection(look.trace.preamble()).is_some();
            of_run(&mut sheet, &wall, &programs, is_partial);
        }
        sheet.notes.extend(device.note(&wall));
        Ok((sheet, unread))
    },
};

/// What calls without a result are.
const NEVER_RETURNED: &str = "never returned: calls without a result: exit_group, exit, and what a thread \
                              was in when it was killed.";
/// What the program does itself.
const OWN_CODE: &str = "own code: what the program computes between its calls, page faults and waits for \
                        a CPU included.";
/// What stands for own code in a recording of some calls.
const UNRECORDED: &str = "own code and calls that were not recorded";
const WITH_UNRECORDED: &str = "Only some calls were recorded: how the rest of the time is shared between the \
                               program's own code and its other calls is not known.";
/// Why the time of the run is not there.
const OF_CALLS: &str = "What the time went to is shown for whole processes (--pid, --program), not for \
                        the calls that --call, --path, --since and the like choose.";

/// What is looked at beside the calls.
struct Beside {
    time: ProgramTime,
    device: SameDevice,
}

impl Watch for Beside {
    fn add(&mut self, visit: &mut Visit<'_>) {
        self.time.add(visit);
        self.device.add(visit.moment);
    }
}

/// Adds what the time of the run went to, and whose it was.
fn of_run(sheet: &mut Sheet, wall: &WallTime, programs: &Programs, is_partial: bool) {
    let words = |words: String| Cell::Word(Cow::Owned(words));
    let mut facts = vec![
        Fact { key: "run_ns", title: "run", value: Cell::Ns(wall.run_ns) },
        Fact { key: "wall", title: "time went to", value: words(wall.line()) },
    ];
    let mut tables = vec![wall.table()];
    if let Some(line) = programs.line() {
        facts.push(Fact { key: "by_program", title: "by program", value: words(line) });
        tables.push(programs.table());
    }
    if is_partial {
        let own = Activity::Outside.name();
        let named = |cell: &mut Cell| match cell {
            Cell::Word(word) if word.contains(own) => *word = word.replace(own, UNRECORDED).into(),
            _ => {}
        };
        facts.iter_mut().for_each(|fact| named(&mut fact.value));
        tables[0].rows.iter_mut().flatten().for_each(named);
    }
    sheet.notes.push(if is_partial { WITH_UNRECORDED } else { OWN_CODE }.into());
    sheet.facts.splice(0..0, facts);
    sheet.tables.splice(0..0, tables);
}

/// Limit for the distinct write sizes that are counted.
const SIZES_MAX: usize = 1 << 16;
/// Number of write sizes in the table.
const SIZES_SHOWN: usize = 12;
/// Limit for the excess of a write that is "just above" a page.
const JUST_ABOVE: u64 = 512;
const PAGE: u64 = 4096;

/// Statistics of the calls with one number.
#[derive(Clone, Debug, Default)]
pub struct OfCall {
    /// Durations of calls that returned.
    pub latency: Histogram,
    /// Number of calls.
    pub count: u64,
    /// Number of calls that did not return.
    pub unfinished: u64,
    /// Number of calls by error.
    pub errors: BTreeMap<i32, u64>,
    /// Bytes of data moved.
    pub bytes: u64,
}

/// The fold that counts calls.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    by_number: Numbered<OfCall>,
    /// Number of writing calls by bytes written.
    written: HashMap<u64, u64>,
    writes: u64,
    odd_writes: u64,
    just_above_page: u64,
}

impl OfCall {
    fn merge(&mut self, other: OfCall) {
        self.latency.merge(&other.latency);
        self.count += other.count;
        self.unfinished += other.unfinished;
        self.bytes = self.bytes.saturating_add(other.bytes);
        for (errno, count) in other.errors {
            *self.errors.entry(errno).or_default() += count;
        }
    }

    /// Number of calls that failed.
    pub fn failed(&self) -> u64 {
        self.errors.values().sum()
    }
}

impl Fold for Calls {
    fn add(&mut self, occasion: &Occasion<'_>) {
        let Some(call) = occasion.call() else { return };
        let of = self.by_number.at(call.nr);
        of.count += 1;
        match call.outcome {
            Outcome::Unfinished => of.unfinished += 1,
            Outcome::Returned { .. } => of.latency.add(occasion.duration_ns().unwrap_or(0)),
        }
        if let Some(errno) = call.error() {
            *of.errors.entry(errno).or_default() += 1;
        }
        let used = file_use::of(call.nr);
        let Some(bytes) = used.moved(call) else { return };
        of.bytes = of.bytes.saturating_add(bytes);
        if used.to.is_some() {
            self.writes += 1;
            self.odd_writes += bytes & 1;
            self.just_above_page += u64::from(is_just_above(bytes));
            self.size(bytes, 1);
        }
    }

    fn merge(&mut self, other: Calls) {
        self.by_number.merge(other.by_number, OfCall::merge);
        for (bytes, count) in other.written {
            self.size(bytes, count);
        }
        self.writes += other.writes;
        self.odd_writes += other.odd_writes;
        self.just_above_page += other.just_above_page;
    }
}

fn is_just_above(bytes: u64) -> bool {
    (PAGE + 1..=PAGE + JUST_ABOVE).contains(&bytes)
}

impl Calls {
    fn size(&mut self, bytes: u64, count: u64) {
        if self.written.len() < SIZES_MAX || self.written.contains_key(&bytes) {
            *self.written.entry(bytes).or_default() += count;
        }
    }

    /// Returns the result, the call that took the most time first.
    pub fn finish(self) -> CallCounts {
        let mut calls: Vec<(u16, OfCall)> = self.by_number.into_each().collect();
        let key = |of: &OfCall| std::cmp::Reverse((of.latency.sum, of.count));
        calls.sort_by(|(a, of_a), (b, of_b)| key(of_a).cmp(&key(of_b)).then(a.cmp(b)));
        let mut sizes: Vec<(u64, u64)> = self.written.into_iter().collect();
        sizes.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
        CallCounts {
            calls,
            sizes,
            writes: self.writes,
            odd_writes: self.odd_writes,
            writes_just_above_page: self.just_above_page,
        }
    }
}

/// Statistics of all calls.
#[derive(Clone, Debug)]
pub struct CallCounts {
    /// By call number, the one that took the most time first.
    pub calls: Vec<(u16, OfCall)>,
    /// Write sizes in bytes with their number, the most frequent first.
    pub sizes: Vec<(u64, u64)>,
    /// Number of calls that write.
    pub writes: u64,
    /// Number of writes with an odd length.
    pub odd_writes: u64,
    /// Number of writes that are slightly longer than 4 KiB.
    pub writes_just_above_page: u64,
}

impl CallCounts {
    fn sum(&self, of: impl Fn(&OfCall) -> u64) -> u64 {
        self.calls.iter().fold(0, |sum, (_, call)| sum.saturating_add(of(call)))
    }

    /// Returns the result as tables.
    pub fn sheet(&self) -> Sheet {
        let (calls, ns) = (self.sum(|c| c.count), self.sum(|c| c.latency.sum));
        let fact = |key, title, value| Fact { key, title, value };
        let mut facts = vec![
            fact("count", "calls", Cell::Count(calls)),
            fact("kinds", "kinds of calls", Cell::Count(self.calls.len() as u64)),
            fact("errors", "failed", Cell::Count(self.sum(OfCall::failed))),
            fact("unfinished", "never returned", Cell::Count(self.sum(|c| c.unfinished))),
            fact("total_ns", "time in calls", Cell::Ns(ns)),
            fact("bytes", "data moved", Cell::Bytes(self.sum(|c| c.bytes))),
        ];
        if let Some(top) = self.top(calls) {
            facts.push(fact("top", "most calls are", Cell::Word(Cow::Owned(top))));
        }
        if self.writes > 0 {
            facts.extend([
                fact("writes", "", Cell::Count(self.writes)),
                fact("odd_writes", "", Cell::Count(self.odd_writes)),
                fact("writes_just_above_4k", "", Cell::Count(self.writes_just_above_page)),
            ]);
        }
        let tables = vec![self.by_call(calls, ns), self.by_class(ns), self.by_size()];
        let mut notes = vec![
            "Percentiles are accurate to about 6%.".into(),
            "A call counts in each class that it belongs to.".into(),
        ];
        if self.sum(|c| c.unfinished) > 0 {
            notes.push(NEVER_RETURNED.into());
        }
        Sheet { facts, tables, notes }
    }

    /// Returns the few calls that make up nearly all.
    fn top(&self, calls: u64) -> Option<String> {
        let mut seen = 0;
        let mut names = Vec::new();
        let mut frequent: Vec<&(u16, OfCall)> = self.calls.iter().collect();
        frequent.sort_by_key(|(nr, of)| (std::cmp::Reverse(of.count), *nr));
        for (nr, of) in frequent.into_iter().take(3) {
            seen += of.count;
            names.push(name(*nr));
            if ratio(seen, calls) > 0.98 {
                break;
            }
        }
        let share = 100.0 * ratio(seen, calls);
        (calls > 0).then(|| format!("{} ({share:.2}%)", names.join(", ")))
    }

    fn by_call(&self, calls: u64, ns: u64) -> Table {
        let mut table = Table::new(
            "calls",
            "Calls",
            &[
                ("call", "call"),
                ("count", "count"),
                ("total_ns", "time"),
                ("time_share", "of time"),
                ("errors", "errors"),
                ("unfinished", ""),
                ("mean_ns", "mean"),
                ("p50_ns", "p50"),
                ("p99_ns", "p99"),
                ("max_ns", "max"),
                ("bytes", "data"),
                ("p90_ns", "p90"),
                ("p999_ns", ""),
                ("share", "of calls"),
                ("errnos", "which errors"),
            ],
        )
        .further(&["mean_ns", "max_ns", "bytes", "p90_ns", "share", "errnos"]);
        for (nr, of) in &self.calls {
            let latency = &of.latency;
            let errors = of.errors.iter().map(|(errno, count)| (errno_name(*errno), *count));
            let mut errors: Vec<_> = errors.collect();
            errors.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
            table.row(vec![
                Cell::Word(name(*nr)),
                Cell::Count(of.count),
                latency.ns(|latency| latency.sum),
                of_time(latency, ns),
                Cell::Count(of.failed()),
                Cell::Count(of.unfinished),
                latency.ns(Histogram::mean),
                latency.ns(|latency| latency.quantile(0.5)),
                latency.ns(|latency| latency.quantile(0.99)),
                latency.ns(|latency| latency.max),
                Cell::Bytes(of.bytes),
                latency.ns(|latency| latency.quantile(0.9)),
                latency.ns(|latency| latency.quantile(0.999)),
                share(of.count, calls),
                Cell::Counts(errors),
            ]);
        }
        table
    }

    fn by_class(&self, ns: u64) -> Table {
        let mut table = Table::new(
            "classes",
            "Classes",
            &[
                ("class", "class"),
                ("count", "count"),
                ("errors", "errors"),
                ("total_ns", "time"),
                ("time_share", "of time"),
                ("bytes", "data"),
            ],
        );
        let mut known: Vec<Classes> = Vec::new();
        for &(word, class) in Classes::NAMES {
            // Some classes have two names; use the first.
            if known.contains(&class) {
                continue;
            }
            known.push(class);
            let mut sum = OfCall::default();
            for (_, of) in self.calls.iter().filter(|(nr, _)| file_use::of(*nr).is(class)) {
                sum.merge(of.clone());
            }
            if sum.count > 0 {
                table.row(vec![
                    Cell::word(word),
                    Cell::Count(sum.count),
                    Cell::Count(sum.failed()),
                    sum.latency.ns(|latency| latency.sum),
                    of_time(&sum.latency, ns),
                    Cell::Bytes(sum.bytes),
                ]);
            }
        }
        table
    }

    fn by_size(&self) -> Table {
        let mut table = Table::new(
            "write_sizes",
            "Most frequent sizes of writes",
            &[
                ("size", "bytes"),
                ("count", "count"),
                ("share", "of writes"),
                ("", ""),
                ("kind", "kind"),
            ],
        );
        table.columns[3].title = " ";
        for &(bytes, count) in self.sizes.iter().take(SIZES_SHOWN) {
            let kind = match bytes {
                0 => "nothing",
                _ if bytes.is_multiple_of(PAGE) => "whole pages",
                _ if is_just_above(bytes) => "just above 4 KiB",
                _ if bytes % 2 == 1 => "odd",
                _ => "",
            };
            table.row(vec![
                Cell::Count(bytes),
                Cell::Count(count),
                share(count, self.writes),
                Cell::Bar(ratio(count, self.writes)),
                Cell::word(kind),
            ]);
        }
        table
    }
}

/// Returns the share of calls in all time. Calls that never returned have none.
fn of_time(latency: &Histogram, all_ns: u64) -> Cell {
    if latency.count == 0 { Cell::Nothing } else { share(latency.sum, all_ns) }
}

/// Returns the name of an error, or its number.
pub fn errno_name(errno: i32) -> Cow<'static, str> {
    match syscalls::abi::errno::describe(errno) {
        Some((name, _)) => Cow::Borrowed(name),
        None => Cow::Owned(errno.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{call, fold};

    #[test]
    fn counts_times_bytes_and_errors() {
        let view = fold(
            Calls::default(),
            &[
                call("pwrite64", &[3, 0, 4096, 0], 4096).lasts(100),
                call("pwrite64", &[3, 0, 4097, 0], 4097).lasts(300),
                call("pwrite64", &[3, 0, 10, 0], -28).lasts(5),
                call("getppid", &[], 7).lasts(1),
                call("exit_group", &[0], 0).never(),
            ],
        )
        .finish();
        assert_eq!(name(view.calls[0].0), "pwrite64");
        let of = &view.calls[0].1;
        assert_eq!((of.count, of.failed(), of.bytes), (3, 1, 8193));
        assert_eq!((of.latency.sum, of.latency.max), (405, 300));
        assert_eq!(of.errors[&28], 1);
        let (_, exit) = view.calls.iter().find(|(nr, _)| name(*nr) == "exit_group").unwrap();
        assert_eq!((exit.count, exit.unfinished, exit.latency.count), (1, 1, 0));
        assert_eq!((view.writes, view.odd_writes, view.writes_just_above_page), (2, 1, 1));
        let sheet = view.sheet();
        let write = sheet.tables[1].rows.iter().find(|row| row[0] == Cell::word("write")).unwrap();
        assert_eq!(write[1], Cell::Count(3));
        // What never returned took no known time, which is not zero.
        let exit = sheet.tables[0].rows.iter().find(|row| row[0] == Cell::word("exit_group"));
        let exit = exit.expect("a row");
        assert!([2, 3, 6, 7, 8, 9].iter().all(|at| exit[*at] == Cell::Nothing), "{exit:?}");
    }

    #[test]
    fn merged_is_as_if_counted_together() {
        let (a, b) = (call("read", &[3, 0, 9], 9), call("write", &[3, 0, 9], 9).lasts(77));
        let both = fold(Calls::default(), &[a.clone(), b.clone()]).finish();
        let mut apart = fold(Calls::default(), &[a]);
        apart.merge(fold(Calls::default(), &[b]));
        assert_eq!(apart.finish().sheet(), both.sheet());
    }
}
