//! The table of predictions: the recorded run, then a row for each configuration and method.

use predict::Measured;
use predict::run::Means;
use render::amounts::show_size;
use stats::sheet::{Cell, Table};

use super::recorded::Recorded;
use super::result::{Prediction, median, spread};

const COLUMNS: [(&str, &str); 14] = [
    ("on", "on"),
    ("memory", "memory"),
    ("limits", "limits"),
    ("method", "method"),
    ("seconds", "time"),
    ("spread", "of runs"),
    ("change", "to recorded"),
    ("actual", "actual"),
    ("actual_spread", "of its runs"),
    ("error", "error"),
    ("set_by", "set by"),
    ("user", "user"),
    ("system", "system"),
    ("disk", "disk"),
];

/// Columns that a terminal of 80 characters need not show.
const FURTHER: [&str; 7] =
    ["spread", "actual", "actual_spread", "set_by", "user", "system", "disk"];

/// Returns the table.
pub fn table(recorded: &Recorded, predictions: &[Prediction]) -> Table {
    let mut table = Table::new("predictions", "Predictions", &COLUMNS).further(&FURTHER);
    table.fixed = true;
    table.row(recorded_row(recorded));
    predictions.iter().for_each(|one| table.row(row(one, recorded)));
    table
}

fn name(text: String) -> Cell {
    Cell::Name(text.into_bytes())
}

fn word(text: Option<String>) -> Cell {
    text.map_or(Cell::Nothing, |text| Cell::Word(text.into()))
}

fn in_seconds(seconds: f64) -> String {
    format!("{seconds:.3} s")
}

/// The first row: with what the others are compared.
fn recorded_row(recorded: &Recorded) -> Vec<Cell> {
    let cells = COLUMNS.map(|(key, _)| match key {
        "on" => name("recorded".into()),
        "seconds" => word(Some(in_seconds(recorded.seconds))),
        "user" => word(recorded.user_s.map(in_seconds)),
        _ => Cell::Nothing,
    });
    cells.into()
}

fn row(one: &Prediction, recorded: &Recorded) -> Vec<Cell> {
    let run = median(&one.runs);
    let [time, of_runs] = times(&one.runs);
    let [actual, of_its_runs] = times(&one.actual);
    let error = one.error().map(|error| format!("{:+.1}%", error * 100.0));
    vec![
        name(one.place()),
        word(one.memory()),
        one.limits().map_or(Cell::Nothing, name),
        Cell::word(one.method),
        time,
        of_runs,
        word(change(one, recorded)),
        actual,
        of_its_runs,
        word(error),
        if one.by == Means::None { Cell::Nothing } else { Cell::word(one.by.name()) },
        word(run.map(|run| in_seconds(run.user_s))),
        word(run.map(|run| in_seconds(run.system_s))),
        word(run.map(|run| show_size(run.allocated_bytes))),
    ]
}

/// The time in the middle, and the shortest and the longest one.
fn times(runs: &[Measured]) -> [Cell; 2] {
    let (low, high) = spread(runs);
    let of_runs = (runs.len() > 1).then(|| format!("{low:.3} to {high:.3}"));
    [word(median(runs).map(|run| in_seconds(run.seconds))), word(of_runs)]
}

/// By how much a prediction is more or less than recorded.
fn change(one: &Prediction, recorded: &Recorded) -> Option<String> {
    let (low, high) = spread(&one.runs);
    let change = one.change(recorded)?;
    Some(match one.runs.len() > 1 && (low..=high).contains(&recorded.seconds) {
        true => "within spread".into(),
        false => format!("{:+.1}%", change * 100.0),
    })
}

#[cfg(test)]
mod tests {
    use stats::sheet::Sheet;

    use super::super::result::tests::{prediction, report};
    use super::*;
    use crate::stat::columns;

    fn cell<'a>(table: &'a Table, row: usize, title: &str) -> &'a Cell {
        let at = table.columns.iter().position(|column| column.title == title).expect("a column");
        &table.rows[row][at]
    }

    #[test]
    fn the_recorded_run_comes_first_and_others_are_compared_with_it() {
        let recorded = report(Vec::new()).recorded;
        let all = [prediction("tmpfs", &[2.2, 2.3, 2.4]), prediction("tmpfs", &[1.9, 2.0, 2.4])];
        let table = table(&recorded, &all);
        let text = |row, title| crate::stat::text::show(cell(&table, row, title));
        assert_eq!(text(0, "on"), "recorded");
        assert_eq!([text(0, "time"), text(0, "user")], ["2.000 s", "0.500 s"]);
        assert_eq!([text(1, "time"), text(1, "of runs")], ["2.300 s", "2.200 to 2.400"]);
        assert_eq!([text(1, "to recorded"), text(2, "to recorded")], ["+15.0%", "within spread"]);
        assert_eq!(change(&prediction("tmpfs", &[1.0]), &recorded).as_deref(), Some("-50.0%"));
        assert_eq!(change(&prediction("tmpfs", &[]), &recorded), None);
    }

    #[test]
    fn what_is_read_first_has_room() {
        let recorded = report(Vec::new()).recorded;
        let mut one = prediction("tmpfs", &[112.2, 122.3, 132.4]);
        one.actual.push(Measured { seconds: 120.0, ..Measured::default() });
        let table = table(&recorded, &[one]);
        columns::tests::has_room("predict", &Sheet { tables: vec![table], ..Sheet::default() });
    }
}
