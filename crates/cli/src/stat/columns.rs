//! Which columns of a table are shown, and how wide each is, where the width is limited.

use stats::sheet::{Cell, Table};

/// Blanks before each column.
pub const GAP: usize = 2;
/// Characters of a name that stay at least.
const NAME_LEAST: usize = 24;
/// The same where several columns have names.
const NAMES_LEAST: usize = 14;
/// The same where nothing else can give way.
const NAME_SHORT: usize = 10;
/// Characters of a bar that stay at least.
const BAR_LEAST: usize = 10;

/// How a table is laid out.
pub struct Layout {
    /// The columns that are shown.
    pub shown: Vec<Shown>,
    /// Titles of columns that have no room.
    pub left_out: Vec<&'static str>,
}

/// A column that is shown.
pub struct Shown {
    /// Its place in the table.
    pub at: usize,
    /// Its width.
    pub width: usize,
    /// True if its cells begin at the left.
    pub is_left: bool,
}

/// How a column can give way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Give {
    /// Its cells are cut.
    Cut,
    /// Its bars are drawn shorter.
    Shorten,
    /// It is left out.
    LeaveOut,
    /// It does not.
    Stay,
}

/// Lays a table out for rows that are shown. `natural` tells the width that a cell has by itself.
pub fn lay_out(
    table: &Table,
    rows: &[Vec<Cell>],
    natural: &dyn Fn(&Cell) -> usize,
    limit: Option<usize>,
) -> Layout {
    // Of all rows, so that columns do not come and go with the number of rows.
    let has_values = |at: &usize| table.rows.iter().any(|row| !is_blank(&row[*at]));
    let mut columns: Vec<(Shown, Give)> = (0..table.columns.len())
        .filter(|&at| !table.columns[at].title.is_empty())
        .filter(has_values)
        .map(|at| {
            let head = table.columns[at].title.trim().chars().count();
            let cells = rows.iter().map(|row| natural(&row[at]));
            let width = cells.max().unwrap_or(0).max(head);
            let is_left = rows.iter().any(|row| is_left(&row[at]));
            (Shown { at, width, is_left }, give(rows, at))
        })
        .collect();
    if let Some((_, first)) = columns.first_mut()
        && *first == Give::LeaveOut
    {
        *first = Give::Stay;
    }
    let names =
        columns.iter().filter(|(shown, give)| *give == Give::Cut && shown.width > NAMES_LEAST);
    let name_least = if names.count() > 2 { NAMES_LEAST } else { NAME_LEAST };
    let mut left_out = Vec::new();
    if let Some(limit) = limit {
        while least(&columns, name_least) > limit {
            let Some(place) = columns.iter().rposition(|(_, give)| *give == Give::LeaveOut) else {
                break;
            };
            left_out.push(table.columns[columns.remove(place).0.at].title.trim());
        }
        narrow(&mut columns, limit, name_least);
    }
    left_out.reverse();
    Layout { shown: columns.into_iter().map(|(shown, _)| shown).collect(), left_out }
}

/// Returns the width of a table whose names and bars are as short as they may be.
fn least(columns: &[(Shown, Give)], name_least: usize) -> usize {
    let least_of = |(shown, give): &(Shown, Give)| match give {
        Give::Cut => shown.width.min(name_least),
        Give::Shorten => shown.width.min(BAR_LEAST),
        Give::LeaveOut | Give::Stay => shown.width,
    };
    columns.iter().map(|column| GAP + least_of(column)).sum()
}

/// Shortens bars, then names, until the table fits: always the longest of them.
fn narrow(columns: &mut [(Shown, Give)], limit: usize, name_least: usize) {
    for (kind, floor) in
        [(Give::Shorten, BAR_LEAST), (Give::Cut, name_least), (Give::Cut, NAME_SHORT)]
    {
        let width: usize = columns.iter().map(|(shown, _)| GAP + shown.width).sum();
        for _ in limit..width {
            let ours = columns.iter_mut().filter(|(_, give)| *give == kind);
            let longest = ours.map(|(shown, _)| &mut shown.width).max();
            match longest {
                Some(longest) if *longest > floor => *longest -= 1,
                _ => break,
            }
        }
    }
}

fn give(rows: &[Vec<Cell>], at: usize) -> Give {
    let has = |fits: fn(&Cell) -> bool| rows.iter().any(|row| fits(&row[at]));
    if has(|cell| matches!(cell, Cell::Name(_) | Cell::Branch(..) | Cell::Line(_))) {
        Give::Cut
    } else if has(|cell| matches!(cell, Cell::Bar(_))) {
        Give::Shorten
    } else {
        Give::LeaveOut
    }
}

fn is_left(cell: &Cell) -> bool {
    matches!(
        cell,
        Cell::Name(_)
            | Cell::Branch(..)
            | Cell::Word(_)
            | Cell::Line(_)
            | Cell::Bar(_)
            | Cell::Counts(_)
    )
}

/// Returns true for a table without rows, or where nothing stands beside what names them.
pub fn says_nothing(table: &Table) -> bool {
    let values = 1..table.columns.len();
    table.rows.iter().all(|row| values.clone().all(|at| is_blank(&row[at])))
}

/// Returns true for cells that say nothing.
pub fn is_blank(cell: &Cell) -> bool {
    match cell {
        Cell::Nothing => true,
        Cell::At(_) | Cell::Id(_) => false,
        Cell::Count(n) | Cell::Bytes(n) | Cell::Ns(n) => *n == 0,
        Cell::Share(n) | Cell::Number(n) | Cell::Bar(n) | Cell::ChangeShare(n) => *n == 0.0,
        Cell::Change(_, n) => *n == 0,
        Cell::Name(name) => name.is_empty(),
        Cell::Branch(..) => false,
        Cell::Word(word) => word.is_empty(),
        Cell::Line(line) => line.is_empty(),
        Cell::Counts(counts) => counts.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let columns = [("count", "count"), ("bar", " "), ("more", "more"), ("path", "file")];
        let mut table = Table::new("t", "T", &columns);
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
        // What cannot give way stays, however narrow the terminal is.
        assert_eq!(lay(Some(10)).1, [10, 10, 10]);
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
}
