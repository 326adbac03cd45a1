//! Tables and words of the page that no view has as they are.

use std::borrow::Cow;

use render::amounts::{counted, show_time};
use stats::activity::Activity;
use stats::sheet::{Cell, Table, ratio, share};
use stats::slowest::Slow;
use syscalls::abi::errno;

use crate::gather::Gathered;

/// From this share of the run on, an activity is part of the verdict.
const TOLD: f64 = 0.05;

/// Returns the findings, with the trace's name in their commands.
pub fn findings(gathered: &Gathered) -> Table {
    let mut table = stats::patterns::sheet(&gathered.findings).tables.swap_remove(0);
    let is_command = |key: &str| key == "command";
    let Some(at) = table.columns.iter().position(|column| is_command(column.key)) else {
        return table;
    };
    for row in &mut table.rows {
        if let Cell::Name(command) = &row[at] {
            let text = String::from_utf8_lossy(command);
            let named = text.replacen(" TRACE", &format!(" {}", gathered.name), 1);
            row[at] = Cell::Name(named.into_bytes());
        }
    }
    table
}

/// Returns in a sentence or two what the run spent its time on.
pub fn verdict(gathered: &Gathered) -> String {
    let run_ns = gathered.wall.run_ns;
    let mut parts: Vec<(Activity, u64)> = gathered.wall.parts.to_vec();
    parts.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    let told = parts.iter().filter(|(_, ns)| ratio(*ns, run_ns) >= TOLD).take(3);
    let told: Vec<String> = told
        .map(|(activity, ns)| format!("{:.0}% {}", ratio(*ns, run_ns) * 100.0, activity.name()))
        .collect();
    if told.is_empty() {
        return "Nothing that takes time was recorded.".into();
    }
    let calls = counted(gathered.calls(), "call", "calls");
    let mut text = format!("{} and {calls}: {}.", show_time(run_ns), told.join(", "));
    if let Some(first) = gathered.findings.first().filter(|first| first.share >= TOLD)
        && let Some(Cell::Word(title)) = findings(gathered).rows.first().map(|row| row[0].clone())
    {
        let percent = first.share * 100.0;
        text.push_str(&format!(" Look first at: {} ({percent:.0}% of the run).", lowered(&title)));
    }
    text
}

/// Returns a title as it stands within a sentence.
fn lowered(title: &str) -> String {
    let mut chars = title.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}

/// Returns the slowest calls, each with the command that shows it.
pub fn slowest(gathered: &Gathered) -> Table {
    let columns = [
        ("seq", "number"),
        ("start_ns", "at"),
        ("time_ns", "time"),
        ("name", "call"),
        ("pid", "pid"),
        ("tid", "thread"),
        ("text", "as show has it"),
        ("file", "file"),
        ("site", "called from"),
        ("command", "command"),
    ];
    let mut table = Table::new("slowest", "The slowest calls", &columns);
    let id = |id: Option<u32>| id.map_or(Cell::Nothing, |id| Cell::Id(id.into()));
    for slow in &gathered.slowest {
        let Slow { seq, nr, enter_ns, ns, ids, text, file, site } = slow;
        let of_thread = ids.1.map(|tid| format!(" --tid {tid}")).unwrap_or_default();
        let name = stats::call_name(*nr);
        let command = format!(
            "reenact show {} --seq{of_thread} --call {name} --since {enter_ns}ns --until {enter_ns}ns",
            gathered.name
        );
        let named = |name: &[u8]| match name {
            [] => Cell::Nothing,
            name => Cell::Name(name.to_vec()),
        };
        table.row(vec![
            seq.map_or(Cell::Nothing, Cell::Id),
            Cell::At(*enter_ns),
            Cell::Ns(*ns),
            Cell::Word(name),
            id(ids.0),
            id(ids.1),
            Cell::Line(text.clone()),
            named(file),
            named(site.as_bytes()),
            Cell::Word(Cow::Owned(command)),
        ]);
    }
    table
}

/// Returns a table of errors by call, with their number and meaning.
pub fn errors(gathered: &Gathered) -> Table {
    let columns = [
        ("call", "call"),
        ("errno", "error"),
        ("meaning", "meaning"),
        ("count", "count"),
        ("share", "of these calls"),
    ];
    let mut table = Table::new("errors", "Errors", &columns);
    for (nr, of) in &gathered.calls.calls {
        for (errno, count) in &of.errors {
            let meaning = errno::describe(*errno).map_or("", |(_, meaning)| meaning);
            table.row(vec![
                Cell::Word(stats::call_name(*nr)),
                Cell::Word(stats::calls::errno_name(*errno)),
                Cell::word(meaning),
                Cell::Count(*count),
                share(*count, of.count),
            ]);
        }
    }
    table.sort("count");
    table
}
