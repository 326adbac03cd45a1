//! Tests of the layout.

use std::io::Cursor;
use std::ops::RangeInclusive;

use model::Conditions;
use stats::sheet::{Sheet, Unit};
use stats::view::Look;
use stats::views::VIEWS;
use trace::Trace;

use super::*;
use crate::sample::{self, End};
use crate::stat::text;

fn table() -> Table {
    let columns = [("count", "count"), ("bar", " "), ("more", "more"), ("path", "file")];
    let mut table = Table::new("t", "T", &columns).further(&["more"]);
    let name = Cell::Name(vec![b'a'; 60]);
    table.row(vec![Cell::Count(1), Cell::Bar(0.5), Cell::Bytes(100), name]);
    table
}

fn lay(limit: Option<usize>) -> (Vec<usize>, Vec<usize>, Vec<&'static str>) {
    let table = table();
    let natural = |cell: &Cell| match cell {
        Cell::Name(name) => name.len(),
        Cell::Bar(_) => 40,
        _ => 10,
    };
    let layout = lay_out(&table, &table.rows, &natural, limit);
    let (at, width) = layout.shown.iter().map(|shown| (shown.at, shown.width)).unzip();
    (at, width, layout.left_out)
}

#[test]
fn bars_give_way_before_names_and_those_before_columns() {
    assert_eq!(lay(None), (vec![0, 1, 2, 3], vec![10, 40, 10, 60], vec![]));
    assert_eq!(lay(Some(120)).1, [10, 32, 10, 60]);
    assert_eq!(lay(Some(80)).1, [10, 10, 10, 42]);
    assert_eq!(lay(Some(56)), (vec![0, 1, 3], vec![10, 10, 30], vec!["more"]));
    // Others stay until names are as short as they may be.
    assert_eq!(lay(Some(36)), (vec![0, 1, 3], vec![10, 10, 10], vec!["more"]));
    // What cannot give way stays, however narrow the terminal is.
    assert_eq!(lay(Some(10)).1, [10, 10, 10]);
}

#[test]
fn names_of_rows_are_cut_last_of_all() {
    let mut table = Table::new("t", "T", &[("call", "call"), ("a", "a"), ("b", "b")]);
    table.row(vec![Cell::word("sched_get_priority_max"), Cell::Count(1), Cell::Count(1)]);
    let natural = |cell: &Cell| if let Cell::Word(word) = cell { word.len() } else { 10 };
    let lay = |limit| {
        let layout = lay_out(&table, &table.rows, &natural, Some(limit));
        (layout.shown.iter().map(|shown| shown.width).collect::<Vec<_>>(), layout.left_out)
    };
    assert_eq!(lay(48), (vec![22, 10, 10], vec![]));
    assert_eq!(lay(40), (vec![14, 10, 10], vec![]));
    assert_eq!(lay(30), (vec![16, 10], vec!["b"]));
}

#[test]
fn groups_are_shown_as_a_whole_and_what_has_room_is_shown() {
    let columns = [("call", "call"), ("a", "a"), ("b", "b"), ("c", "c"), ("d", "d"), ("e", "e")];
    let groups: [&[&str]; 3] = [&["c", "d"], &["a"], &["b", "e"]];
    let mut table = Table::new("t", "T", &columns).further_groups(&groups);
    let mut row = vec![Cell::word("read")];
    row.extend([1, 200, 2, 3, 4].map(Cell::Count));
    table.row(row);
    // Each has 10 characters, but one has 30.
    let natural = |cell: &Cell| if *cell == Cell::Count(200) { 30 } else { 10 };
    let lay = |limit| {
        let shown = lay_out(&table, &table.rows, &natural, Some(limit)).shown;
        shown.iter().map(|shown| table.columns[shown.at].key).collect::<String>()
    };
    assert_eq!([lay(92), lay(91)], ["callabcde", "callacd"]);
    assert_eq!([lay(48), lay(47), lay(36)], ["callacd", "callcd", "callcd"]);
    // The first group has no room, another one has.
    assert_eq!([lay(35), lay(24), lay(23)], ["calla", "calla", "call"]);
}

#[test]
fn a_table_of_zeros_says_nothing() {
    let mut table = Table::new("t", "T", &[("at", "from"), ("count", "count")]);
    assert!(says_nothing(&table));
    table.row(vec![Cell::At(5), Cell::Count(0)]);
    assert!(says_nothing(&table));
    table.row(vec![Cell::At(6), Cell::Count(1)]);
    assert!(!says_nothing(&table));
}

/// Columns that terminals have.
const WIDTHS: RangeInclusive<usize> = 80..=140;

/// Returns a cell as wide as they get: of a run of a quarter of an hour with millions of calls.
fn widest(cell: &Cell) -> Cell {
    const COUNT: u64 = 9_999_999;
    const NS: u64 = 999_999_000_000;
    const BYTES: u64 = (1 << 40) - (1 << 27);
    match cell {
        Cell::Count(_) => Cell::Count(COUNT),
        Cell::Id(_) => Cell::Id(4_194_304),
        Cell::Bytes(_) => Cell::Bytes(BYTES),
        Cell::Ns(_) | Cell::At(_) => Cell::Ns(NS),
        Cell::Share(_) => Cell::Share(1.0),
        Cell::Number(_) => Cell::Number(999.99),
        Cell::Bar(_) => Cell::Bar(1.0),
        Cell::Change(Unit::Count, _) => Cell::Change(Unit::Count, -(COUNT as i64)),
        Cell::Change(Unit::Ns, _) => Cell::Change(Unit::Ns, -(NS as i64)),
        Cell::Change(Unit::Bytes, _) => Cell::Change(Unit::Bytes, -(BYTES as i64)),
        Cell::ChangeShare(_) => Cell::ChangeShare(-9.99),
        Cell::Name(_) => Cell::Name(vec![b'n'; 60]),
        Cell::Branch(..) => Cell::Branch(4, vec![b'n'; 60]),
        Cell::Line(_) => Cell::Line("l".repeat(60)),
        other => other.clone(),
    }
}

/// Returns a cell for a column of which no row is known, by its key.
fn by_key(key: &str) -> Cell {
    match key {
        "" => Cell::Bar(1.0),
        "pid" | "tid" => Cell::Id(1),
        "role" => Cell::word("serves"),
        "memory" => Cell::word("1023M"),
        "kind" => Cell::word("softirq"),
        "number" => Cell::Id(1),
        "cpu" => Cell::word("cpu127"),
        "limits" => Cell::Name(vec![b'n']),
        _ if key.ends_with("_ns") => Cell::Ns(1),
        _ if key.ends_with("share") => Cell::Share(1.0),
        _ if key.ends_with("bytes") => Cell::Bytes(1),
        "path" | "file" | "name" | "address" | "local" | "peer" | "from" | "to" => {
            Cell::Name(vec![b'n'])
        }
        _ => Cell::Count(1),
    }
}

/// Fails if a table does not show all columns but the further ones, whatever its numbers, or leaves out some
/// that have room, at the widths that terminals have.
pub fn has_room(of: &str, sheet: &Sheet) {
    let mut complaints = Vec::new();
    for table in sheet.tables.iter().filter(|table| !table.blocks) {
        let known = |at: usize| table.rows.iter().map(|row| &row[at]).find(|cell| !is_blank(cell));
        let row: Vec<Cell> = (0..table.columns.len())
            .map(|at| known(at).map_or_else(|| by_key(table.columns[at].key), widest))
            .collect();
        let mut table = table.clone();
        table.rows = vec![row.iter().map(widest).collect()];
        for limit in WIDTHS {
            let found = room(&table, limit).into_iter();
            complaints.extend(found.map(|text| format!("{of}: {} of {limit}: {text}", table.key)));
        }
    }
    assert!(complaints.is_empty(), "{complaints:#?}");
}

/// Returns what is wrong with the layout of a table.
fn room(table: &Table, limit: usize) -> Vec<String> {
    let mut complaints = Vec::new();
    let natural = |cell: &Cell| text::show(cell).chars().count();
    let lay = |limit| lay_out(table, &table.rows, &natural, limit).shown;
    let shown = lay(Some(limit));
    let width: usize = shown.iter().map(|shown| GAP + shown.width).sum();
    if width > limit {
        complaints.push(format!("it has {width} characters"));
    }
    let is_shown = |at: usize| shown.iter().any(|shown| shown.at == at);
    for (at, column) in table.columns.iter().enumerate() {
        if !is_shown(at) && column.further.is_none() && !column.title.is_empty() {
            complaints.push(format!("{} has no room", column.title));
        }
    }
    let all: Vec<(Shown, Give)> = lay(None)
        .into_iter()
        .map(|shown| {
            let give = give(&table.rows, shown.at);
            (shown, give)
        })
        .collect();
    for (out, _) in all.iter().filter(|(out, _)| !is_shown(out.at)) {
        let column = table.columns[out.at];
        let of_group = |at: usize| column.further == table.columns[at].further;
        if all.iter().any(|(of, _)| of_group(of.at) && is_shown(of.at)) {
            complaints.push(format!("{} is not shown, but its group", column.title));
        }
        let with_it = all.iter().filter(|(of, _)| is_shown(of.at) || of_group(of.at));
        if least(with_it, [NAME_LEAST, usize::MAX]) <= limit {
            complaints.push(format!("{} has room, and is not shown", column.title));
        }
    }
    complaints
}

#[test]
fn default_columns_of_views_have_room() {
    let trace = Trace::from_stream(Cursor::new(sample::trace(End::Whole))).unwrap();
    let conditions = Conditions::default();
    for view in VIEWS {
        let look = Look { trace: &trace, conditions: &conditions, interval_ns: None };
        let (sheet, _) = (view.look)(&look).ok().unwrap();
        assert!(!sheet.tables.is_empty(), "{}", view.name);
        has_room(view.name, &sheet);
    }
}
