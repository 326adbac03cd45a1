//! A comparison as tables.

use std::borrow::Cow;
use std::collections::BTreeSet;

use render::escape::in_shell;
use stats::activity::ACTIVITIES;
use stats::sheet::{Cell, Fact, Sheet, Table, Unit};

use crate::comparison::{Comparison, Measured, Pair, Row};
use crate::gather::{By, Run};
use crate::parting::{Line, Parting};
use crate::started;
use crate::verdict::{self, SIDES};

impl Comparison {
    /// Returns what is said in words.
    pub fn lines(&self) -> Vec<String> {
        verdict::lines(self)
    }

    /// Returns all tables. `names` are those of the recordings of each side.
    pub fn sheet(&self, names: [&[String]; 2]) -> Sheet {
        let mut tables = vec![self.runs_table(names), self.totals(), self.activities()];
        tables.push(self.started());
        tables.push(self.table(By::Call));
        tables.push(self.table(By::File));
        if self.runs().any(|run| run.programs.len() > 1) {
            tables.push(self.table(By::Process));
        }
        tables.extend([self.only_on(1), self.only_on(0), self.errors()]);
        tables.extend([self.parting(), self.partings()]);
        let mut notes = self.notes();
        notes.extend(self.commands(names));
        Sheet { facts: self.facts(), tables, notes }
    }

    /// Returns the table by something alone.
    pub fn sheet_by(&self, by: By) -> Sheet {
        Sheet { facts: self.facts(), tables: vec![self.table(by)], notes: self.notes() }
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = vec![
            "A and B: the part of the run's time, which sums up to the run over all calls of all threads \
             and what they computed in between."
                .to_string(),
        ];
        if self.has_spread() {
            notes.push(
                "Numbers are medians of the runs; percentiles are those of all their calls. p: how likely \
                 such a difference in time is by chance (of 20 rows that do not differ, one has p < 0.05)."
                    .into(),
            );
        }
        let left_out: u64 = self.runs().map(|run| run.left_out).sum();
        if left_out > 0 {
            notes.push(format!(
                "{left_out} calls are in no row by file or site: there were too many."
            ));
        }
        notes
    }

    /// Returns single values; words have no title, they are printed by themselves.
    fn facts(&self) -> Vec<Fact> {
        let run = self.pair(Run::run_ns);
        let fact = |key, value| Fact { key, title: "", value };
        let words = verdict::lines(self).into_iter();
        let mut facts: Vec<Fact> = ["verdict", "chance", "work", "order"]
            .into_iter()
            .zip(words)
            .map(|(key, text)| fact(key, Cell::Word(Cow::Owned(text))))
            .collect();
        facts.extend([
            fact("a_ns", ns(run.sides[0])),
            fact("b_ns", ns(run.sides[1])),
            fact("change_ns", change(Unit::Ns, &run)),
            fact("change_share", run.change_share().map_or(Cell::Nothing, Cell::ChangeShare)),
            fact("p", probability(run.p)),
            fact("same_work", Cell::word(if self.did_the_same() { "yes" } else { "no" })),
        ]);
        facts
    }

    fn runs_table(&self, names: [&[String]; 2]) -> Table {
        let columns = [
            ("side", " "),
            ("run_ns", "time"),
            ("count", "calls"),
            ("errors", "failed"),
            ("bytes", "data"),
            ("processes", ""),
            ("threads", ""),
            ("trace", "recording"),
            ("command", "command"),
        ];
        let mut table = Table::new("runs", "Runs", &columns);
        table.fixed = true;
        for (side, runs) in self.sides.iter().enumerate() {
            for (run, name) in runs.iter().zip(names[side]) {
                let all = run.all();
                table.row(vec![
                    Cell::word(SIDES[side]),
                    ns(run.run_ns()),
                    Cell::Count(all.count),
                    Cell::Count(all.errors),
                    Cell::Bytes(all.bytes),
                    Cell::Count(run.tasks[0]),
                    Cell::Count(run.tasks[1]),
                    Cell::Name(name.clone().into_bytes()),
                    Cell::Name(in_shell(&run.command)),
                ]);
            }
        }
        table
    }

    fn totals(&self) -> Table {
        let columns = [
            ("what", " "),
            ("a", "A"),
            ("b", "B"),
            ("change", "change"),
            ("change_share", "  "),
            ("p", "p"),
        ];
        let mut table = Table::new("totals", "In all", &columns);
        table.fixed = true;
        let mut add = |what, unit: Unit, of: &dyn Fn(&Run) -> f64| {
            let pair = self.pair(of);
            if pair.sides == [0.0, 0.0] {
                return;
            }
            table.row(vec![
                Cell::word(what),
                amount(unit, pair.sides[0]),
                amount(unit, pair.sides[1]),
                change(unit, &pair),
                pair.change_share().map_or(Cell::Nothing, Cell::ChangeShare),
                probability(pair.p),
            ]);
        };
        add("time", Unit::Ns, &Run::run_ns);
        add("time in calls", Unit::Ns, &|run| run.all().ns as f64);
        add("calls", Unit::Count, &|run| run.all().count as f64);
        add("failed calls", Unit::Count, &|run| run.all().errors as f64);
        add("data moved", Unit::Bytes, &|run| run.all().bytes as f64);
        add("syncs", Unit::Count, &|run| run.all().syncs as f64);
        add("files", Unit::Count, &|run| run.files.len() as f64);
        add("processes", Unit::Count, &|run| run.tasks[0] as f64);
        add("threads", Unit::Count, &|run| run.tasks[1] as f64);
        table
    }

    fn activities(&self) -> Table {
        let columns = [
            ("activity", "activity"),
            ("key", ""),
            ("change_ns", "change"),
            ("a_ns", "A"),
            ("b_ns", "B"),
            ("p", "p"),
        ];
        let mut table = Table::new("activities", "Where the time went", &columns);
        if !self.is_whole() {
            return table;
        }
        for (activity, key, name) in ACTIVITIES {
            let of = |run: &Run| run.wall.as_ref().map_or(0.0, |wall| wall.of(activity) as f64);
            let pair = self.pair(of);
            if pair.sides != [0.0, 0.0] {
                table.row(vec![
                    Cell::word(name),
                    Cell::word(key),
                    change(Unit::Ns, &pair),
                    ns(pair.sides[0]),
                    ns(pair.sides[1]),
                    probability(pair.p),
                ]);
            }
        }
        table.sort("change_ns");
        table
    }

    /// Returns the programs that are started more often, or otherwise.
    fn started(&self) -> Table {
        let columns = [
            ("program", "program"),
            ("a_count", "A"),
            ("b_count", "B"),
            ("change", "change"),
            ("a_words", "only in A"),
            ("b_words", "only in B"),
            ("command", "command line"),
        ];
        let mut table =
            Table::new("started", "Programs started otherwise", &columns).further(&["change"]);
        table.fixed = true;
        for of in started::changes(self) {
            table.row(vec![
                Cell::Name(of.program.clone()),
                amount(Unit::Count, of.starts.sides[0]),
                amount(Unit::Count, of.starts.sides[1]),
                change(Unit::Count, &of.starts),
                Cell::Name(in_shell(&of.words[0])),
                Cell::Name(in_shell(&of.words[1])),
                Cell::Name(of.example.text()),
            ]);
        }
        table
    }

    /// Returns the table by something.
    pub fn table(&self, by: By) -> Table {
        let (key, title, name) = match by {
            By::Call => ("calls", "Calls", "call"),
            By::File => ("files", "Files", "file"),
            By::Process => ("programs", "Programs", "program"),
            By::Site => ("sites", "Where calls were made", "site"),
        };
        self.rows_table(key, title, name, &self.rows(by))
    }

    /// Returns the files that one side alone has used.
    fn only_on(&self, side: usize) -> Table {
        let (key, title) =
            [("gone_files", "Files that only A used"), ("new_files", "Files that only B used")]
                [side];
        let mut rows = self.rows(By::File);
        rows.retain(|row| row.is_only_on(side));
        self.rows_table(key, title, "file", &rows)
    }

    fn rows_table(
        &self,
        key: &'static str,
        title: &'static str,
        name: &'static str,
        rows: &[Row],
    ) -> Table {
        let is_long = !matches!(key, "calls" | "programs");
        let mut columns = COLUMNS.to_vec();
        columns.insert(if is_long { columns.len() } else { 0 }, (name, name));
        let mut table = Table::new(key, title, &columns).further_groups(&FURTHER);
        for row in rows {
            let mut cells = cells(row, self.has_spread());
            let name = Cell::Name(row.name.clone());
            cells.insert(if is_long { cells.len() } else { 0 }, name);
            table.row(cells);
        }
        table
    }

    /// Returns the calls around the place where two runs part.
    fn parting(&self) -> Table {
        let columns = [
            ("side", " "),
            ("a_seq", "A no."),
            ("b_seq", "B no."),
            ("program", "program"),
            ("thread", ""),
            ("call", "call"),
        ];
        let mut table = Table::new("parting", "Where they part", &columns);
        table.fixed = true;
        let Some(parting) = self.places().first() else { return table };
        let mut add = |side: &'static str, a: Option<&Line>, b: Option<&Line>| {
            let Some(line) = a.or(b) else { return };
            let thread = line.ids.1.map_or(Cell::Nothing, |tid| Cell::Id(tid.into()));
            let text = Cell::Line(line.text.clone());
            let program = Cell::Name(line.program.clone());
            table.row(vec![Cell::word(side), seq(a), seq(b), program, thread, text]);
        };
        for (number, line) in parting.before[0].iter().enumerate() {
            add("both", Some(line), parting.before[1].get(number));
        }
        parting.after[0].iter().for_each(|line| add(SIDES[0], Some(line), None));
        parting.after[1].iter().for_each(|line| add(SIDES[1], None, Some(line)));
        table
    }

    /// Returns where threads part, the first in time first.
    fn places(&self) -> &[Parting] {
        self.alignment.as_ref().map_or(&[], |alignment| &alignment.partings)
    }

    /// Returns the place of each thread that parts, if several do.
    fn partings(&self) -> Table {
        let columns = [
            ("program", "program"),
            ("equal", "equal"),
            ("a_seq", "A no."),
            ("b_seq", "B no."),
            ("a_thread", ""),
            ("b_thread", ""),
            ("a_call", ""),
            ("b_call", ""),
            ("a_text", "A goes on with"),
            ("b_text", "B goes on with"),
        ];
        let mut table = Table::new("partings", "Where each thread parts", &columns);
        let places = self.places();
        for parting in places.iter().filter(|_| places.len() > 1) {
            let lines = parting.after.each_ref().map(|lines| lines.first());
            let text = |text: Option<String>| match text {
                Some(text) => Cell::Line(text),
                None => Cell::word("(its end)"),
            };
            let whole = |side: usize| lines[side].map(|line| line.text.clone());
            let [a_text, b_text] = match [whole(0), whole(1)] {
                [Some(a), Some(b)] => shortened(&a, &b).map(Some),
                others => others,
            };
            let thread = |side: usize| {
                let tid = parting.line(side).and_then(|line| line.ids.1);
                tid.map_or(Cell::Nothing, |tid| Cell::Id(tid.into()))
            };
            let program = [0, 1].into_iter().find_map(|side| parting.line(side));
            table.row(vec![
                Cell::Name(program.map(|line| line.program.clone()).unwrap_or_default()),
                Cell::Count(parting.equal),
                seq(lines[0]),
                seq(lines[1]),
                thread(0),
                thread(1),
                text(whole(0)),
                text(whole(1)),
                text(a_text),
                text(b_text),
            ]);
        }
        table
    }

    /// Returns the commands that show the calls around that place.
    fn commands(&self, names: [&[String]; 2]) -> Vec<String> {
        let Some(parting) = self.places().first() else { return Vec::new() };
        let mut commands = Vec::new();
        for side in [0, 1] {
            let first = parting.before[side].first().or(parting.after[side].first());
            if let (Some(line), Some(name)) = (first, names[side].first()) {
                let tid = line.ids.1.map(|tid| format!(" --tid {tid}")).unwrap_or_default();
                let since_us = line.enter_ns / 1000;
                commands.push(format!(
                    "reenact show {name} --seq{tid} --since {since_us}us --limit 20"
                ));
            }
        }
        commands
    }

    fn errors(&self) -> Table {
        let columns = [
            ("call", "call"),
            ("errno", "error"),
            ("a_count", "A"),
            ("b_count", "B"),
            ("change", "change"),
            ("state", " "),
            ("a_seq", "first in A"),
            ("b_seq", "first in B"),
            ("path", "first of"),
        ];
        let mut table = Table::new("errors", "Errors that changed", &columns)
            .further_groups(&[&["change"], &["a_seq", "b_seq"]]);
        let keys: BTreeSet<_> = self.runs().flat_map(|run| run.errors.keys()).collect();
        for key in keys {
            let count = |run: &Run| run.errors.get(key).map_or(0.0, |failed| failed.count as f64);
            let pair = self.pair(count);
            if pair.change() == 0.0 {
                continue;
            }
            let firsts =
                [0, 1].map(|side| self.sides[side].iter().find_map(|run| run.errors.get(key)));
            let seq = |side: usize| match firsts[side].and_then(|failed| failed.seq) {
                Some(seq) => Cell::Id(seq),
                None => Cell::Nothing,
            };
            let state = match pair.sides {
                [0.0, _] => "new",
                [_, 0.0] => "gone",
                _ => "",
            };
            let path = firsts[1].or(firsts[0]).map(|failed| failed.path.clone());
            table.row(vec![
                Cell::Word(Cow::Owned(String::from_utf8_lossy(&key.0).into_owned())),
                Cell::Word(Cow::Owned(String::from_utf8_lossy(&key.1).into_owned())),
                amount(Unit::Count, pair.sides[0]),
                amount(Unit::Count, pair.sides[1]),
                change(Unit::Count, &pair),
                Cell::word(state),
                seq(0),
                seq(1),
                Cell::Name(path.unwrap_or_default()),
            ]);
        }
        table.sort("change");
        table
    }
}

/// Characters that are equal in two calls are left out if they are more.
const EQUAL_SHOWN: usize = 16;
/// Columns of tables by something, but for its name.
const COLUMNS: [(&str, &str); 27] = [
    ("change_ns", "change"),
    ("a_ns", "A"),
    ("b_ns", "B"),
    ("p", "p"),
    ("a_count", "A calls"),
    ("b_count", "B calls"),
    ("a_errors", "A failed"),
    ("b_errors", "B failed"),
    ("a_bytes", "A data"),
    ("b_bytes", "B data"),
    ("a_syncs", "A syncs"),
    ("b_syncs", "B syncs"),
    ("a_least_ns", "A least"),
    ("a_most_ns", "A most"),
    ("b_least_ns", "B least"),
    ("b_most_ns", "B most"),
    ("a_in_calls_ns", "A in calls"),
    ("b_in_calls_ns", "B in calls"),
    ("a_p50_ns", "A p50"),
    ("b_p50_ns", "B p50"),
    ("a_p90_ns", "A p90"),
    ("b_p90_ns", "B p90"),
    ("a_p99_ns", "A p99"),
    ("b_p99_ns", "B p99"),
    ("a_max_ns", "A max"),
    ("b_max_ns", "B max"),
    ("state", ""),
];
/// Those of them that a terminal of 80 characters need not show: of both sides or of none. Errors have a
/// table of their own.
const FURTHER: [&[&str]; 9] = [
    &["a_syncs", "b_syncs"],
    &["a_bytes", "b_bytes"],
    &["a_errors", "b_errors"],
    &["a_least_ns", "a_most_ns", "b_least_ns", "b_most_ns"],
    &["a_in_calls_ns", "b_in_calls_ns"],
    &["a_p50_ns", "b_p50_ns"],
    &["a_p90_ns", "b_p90_ns"],
    &["a_p99_ns", "b_p99_ns"],
    &["a_max_ns", "b_max_ns"],
];

fn cells(row: &Row, has_spread: bool) -> Vec<Cell> {
    let [a, b] = &row.sides;
    let mut cells = vec![
        Cell::Change(Unit::Ns, row.change_ns().round() as i64),
        ns(a.run_ns),
        ns(b.run_ns),
        probability(row.p),
    ];
    let both = |of: &dyn Fn(&Measured) -> Cell| [of(a), of(b)];
    cells.extend(both(&|of| Cell::Count(of.count)));
    cells.extend(both(&|of| Cell::Count(of.errors)));
    cells.extend(both(&|of| Cell::Bytes(of.bytes)));
    cells.extend(both(&|of| Cell::Count(of.syncs)));
    for side in [a, b] {
        cells
            .extend(side.spread_ns.map(|value| if has_spread { ns(value) } else { Cell::Nothing }));
    }
    cells.extend(both(&|of| Cell::Ns(of.ns)));
    for share in [0.5, 0.9, 0.99] {
        cells.extend(both(&|of| of.durations.ns(|all| all.quantile(share))));
    }
    cells.extend(both(&|of| of.durations.ns(|all| all.max)));
    cells.push(Cell::word(match (row.is_only_on(0), row.is_only_on(1)) {
        (true, _) => "gone",
        (_, true) => "new",
        _ => "",
    }));
    cells
}

/// Returns two calls without what is equal in them before that which differs, so that this is seen where
/// there is room for little.
fn shortened(a: &str, b: &str) -> [String; 2] {
    let equal = a.char_indices().zip(b.chars()).find(|((_, a), b)| a != b).map(|((at, _), _)| at);
    let equal = equal.unwrap_or(a.len().min(b.len()));
    // From the argument on that differs; what is called stays.
    let from = a[..equal].rfind(", ").map_or(0, |at| at + 2);
    let name = a.find('(').map_or(0, |at| at + 1);
    if from <= name + EQUAL_SHOWN || !b.is_char_boundary(from) {
        return [a.into(), b.into()];
    }
    [a, b].map(|text| format!("{}..., {}", &text[..name], &text[from..]))
}

fn seq(line: Option<&Line>) -> Cell {
    line.and_then(|line| line.seq).map_or(Cell::Nothing, Cell::Id)
}

fn ns(value: f64) -> Cell {
    Cell::Ns(value.round() as u64)
}

fn amount(unit: Unit, value: f64) -> Cell {
    let value = value.round() as u64;
    match unit {
        Unit::Count => Cell::Count(value),
        Unit::Bytes => Cell::Bytes(value),
        Unit::Ns => Cell::Ns(value),
    }
}

fn change(unit: Unit, pair: &Pair) -> Cell {
    Cell::Change(unit, pair.change().round() as i64)
}

fn probability(p: Option<f64>) -> Cell {
    match p {
        Some(p) => Cell::Number(p),
        None => Cell::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_in_two_calls_is_near_their_beginning() {
        let [a, b] = [
            r#"execve("/usr/bin/gzip", ["gzip", "-1", "x"], 0x1) = 0"#,
            r#"execve("/usr/bin/gzip", ["gzip", "-9", "x"], 0x1) = 0"#,
        ];
        let found = shortened(a, b);
        assert_eq!(
            found,
            [r#"execve(..., "-1", "x"], 0x1) = 0"#, r#"execve(..., "-9", "x"], 0x1) = 0"#]
        );
        for [a, b] in [["read(3) = 1", "read(3) = 2"], ["é, é, ü", "é, é, ä"], ["", "a"]] {
            assert_eq!(shortened(a, b), [a, b]);
        }
    }
}
