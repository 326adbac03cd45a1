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
    /// They are cut where nothing else can give way: names of calls.
    CutLast,
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
    // What names the rows stays.
    if let Some((shown, first)) = columns.first_mut()
        && *first == Give::LeaveOut
    {
        let is_word = rows.iter().any(|row| matches!(row[shown.at], Cell::Word(_)));
        *first = if is_word { Give::CutLast } else { Give::Stay };
    }
    let names =
        columns.iter().filter(|(shown, give)| *give == Give::Cut && shown.width > NAMES_LEAST);
    let name_least = if names.count() > 2 { NAMES_LEAST } else { NAME_LEAST };
    let mut left_out: Vec<usize> = Vec::new();
    if let Some(limit) = limit {
        let further = |(shown, _): &(Shown, Give)| table.columns[shown.at].further;
        let mut groups: Vec<usize> = columns.iter().filter_map(further).collect();
        groups.sort_unstable();
        groups.dedup();
        // All that has room has its place, also where something before it has none.
        let mut left = limit.saturating_sub(least(
            columns.iter().filter(|of| further(of).is_none()),
            [name_least, usize::MAX],
        ));
        for group in groups {
            let of_it = columns.iter().filter(|of| further(of) == Some(group));
            match left.checked_sub(least(of_it, [name_least, usize::MAX])) {
                Some(rest) => left = rest,
                None => columns.retain(|of| {
                    let stays = further(of) != Some(group);
                    left_out.extend((!stays).then_some(of.0.at));
                    stays
                }),
            }
        }
        // The others only where names as short as they may be make no room for them.
        while least(columns.iter(), [NAME_SHORT; 2]) > limit {
            let Some(place) = columns.iter().rposition(|(_, give)| *give == Give::LeaveOut) else {
                break;
            };
            left_out.push(columns.remove(place).0.at);
        }
        narrow(&mut columns, limit, name_least);
    }
    left_out.sort();
    let titles = left_out.into_iter().map(|at| table.columns[at].title.trim());
    let left_out = titles.filter(|title| !title.is_empty()).collect();
    Layout { shown: columns.into_iter().map(|(shown, _)| shown).collect(), left_out }
}

/// Returns the width of columns whose bars are as short as they may be, and whose names, and words that
/// name rows, have so many characters at most.
fn least<'a>(columns: impl Iterator<Item = &'a (Shown, Give)>, [name, word]: [usize; 2]) -> usize {
    let least_of = |(shown, give): &(Shown, Give)| match give {
        Give::Cut => shown.width.min(name),
        Give::CutLast => shown.width.min(word),
        Give::Shorten => shown.width.min(BAR_LEAST),
        Give::LeaveOut | Give::Stay => shown.width,
    };
    columns.map(|column| GAP + least_of(column)).sum()
}

/// Shortens bars, then names, until the table fits: always the longest of them.
fn narrow(columns: &mut [(Shown, Give)], limit: usize, name_least: usize) {
    for (kind, floor) in [
        (Give::Shorten, BAR_LEAST),
        (Give::Cut, name_least),
        (Give::Cut, NAME_SHORT),
        (Give::CutLast, NAME_SHORT),
    ] {
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
pub mod tests;
