//! Views for people: aligned tables, with bars made of characters.

use std::io::{self, Write};

use render::escape::escape;
use stats::sheet::{Cell, Sheet, Table, Unit};

use super::columns::{self, Shown};

use render::amounts::{
    show_change, show_change_share, show_count, show_share, show_size, show_time,
};

/// Width of a full bar in characters.
const BAR_WIDTH: usize = 40;
/// Limit for the characters of a name: paths can have 4096.
const NAME_MAX: usize = 160;
/// What stands for the part of a name that has no room.
const ELLIPSIS: &str = "...";
/// Characters to which text is wrapped at least.
const WRAP_LEAST: usize = 20;
/// Limit for the rows of a table unless told otherwise.
const ROWS_SHOWN: usize = 20;
/// Limit for the errors of a call listed by name.
const COUNTS_SHOWN: usize = 3;
/// Limit for the histograms that are printed.
const PICTURES_SHOWN: usize = 5;

/// How a view is printed.
#[derive(Clone, Copy, Default)]
pub struct Look {
    /// Limit for the rows of a table, if one was asked for.
    pub limit: Option<usize>,
    /// Limit for those of a table that may be cut short, else; 20 if none is given.
    pub rows: Option<usize>,
    /// Characters in a line, if that is limited.
    pub width: Option<usize>,
    /// True if headings stand out.
    pub is_coloured: bool,
}

/// Writes a view.
pub fn write(out: &mut impl Write, sheet: &Sheet, look: Look) -> io::Result<()> {
    let facts = sheet.facts.iter().filter(|fact| !fact.title.is_empty());
    let width = facts.clone().map(|fact| fact.title.chars().count()).max().unwrap_or(0);
    for fact in facts {
        let head = format!("{:<width$}  ", fact.title);
        wrapped(out, &head, &show(&fact.value), look)?;
    }
    let mut pictures = 0;
    for table in &sheet.tables {
        if columns::says_nothing(table) {
            continue;
        }
        pictures += usize::from(table.one_of_many);
        if table.blocks {
            blocks(out, table, look)?;
        } else if pictures <= PICTURES_SHOWN {
            writeln!(out)?;
            heading(out, &table.title, look)?;
            self::table(out, table, look)?;
        }
    }
    if pictures > PICTURES_SHOWN {
        let more = pictures - PICTURES_SHOWN;
        writeln!(out, "\n{more} more calls have a picture: --call NAME shows it")?;
    }
    let is_empty = sheet.tables.iter().all(|table| table.rows.is_empty());
    let has_facts = sheet.facts.iter().any(|fact| !fact.title.is_empty());
    // Notes that explain numbers are of no use without them; a note that stands alone is the answer.
    if is_empty && has_facts {
        return Ok(());
    }
    if !sheet.notes.is_empty() && has_facts {
        writeln!(out)?;
    }
    sheet.notes.iter().try_for_each(|note| wrapped(out, "", note, look))
}

fn heading(out: &mut impl Write, title: &str, look: Look) -> io::Result<()> {
    if look.is_coloured { writeln!(out, "\x1b[1m{title}\x1b[0m") } else { writeln!(out, "{title}") }
}

/// Writes the columns and rows of a table.
pub fn table(out: &mut impl Write, table: &Table, look: Look) -> io::Result<()> {
    let rows_shown = look.rows.unwrap_or(ROWS_SHOWN);
    let limit = look.limit.unwrap_or(if table.fixed { usize::MAX } else { rows_shown });
    let rows = &table.rows[..table.rows.len().min(limit)];
    let natural = |cell: &Cell| show(cell).chars().count();
    let layout = columns::lay_out(table, rows, &natural, look.width);
    let heads = layout.shown.iter().map(|shown| table.columns[shown.at].title.trim().to_string());
    line(out, heads, &layout.shown)?;
    for row in rows {
        let cells = layout.shown.iter().map(|shown| fitted(&row[shown.at], shown.width));
        line(out, cells, &layout.shown)?;
    }
    let more = table.rows.len() - rows.len();
    if more > 0 {
        writeln!(out, "  ... and {} more: --limit shows them", show_count(more as u64))?;
    }
    if !layout.left_out.is_empty() {
        let titles = layout.left_out.join(", ");
        wrapped(out, "  ", &format!("(--wide also shows {titles})"), look)?;
    }
    Ok(())
}

/// Writes each row as a heading and a line per further value.
fn blocks(out: &mut impl Write, table: &Table, look: Look) -> io::Result<()> {
    let limit = look.limit.unwrap_or(ROWS_SHOWN);
    for (number, row) in table.rows.iter().take(limit).enumerate() {
        let mut shown = table.columns.iter().zip(row);
        if let Some((_, title)) = shown.next() {
            writeln!(out)?;
            heading(out, &format!("{}. {}", number + 1, show(title)), look)?;
        }
        for (column, value) in shown {
            if !column.title.is_empty() && !columns::is_blank(value) {
                wrapped(out, &format!("   {:<12} ", column.title), &show(value), look)?;
            }
        }
    }
    let more = table.rows.len().saturating_sub(limit);
    if more > 0 { writeln!(out, "\n... and {more} more: --limit shows them") } else { Ok(()) }
}

/// Writes a text behind a head, with further lines as far to the right where the width is limited.
pub fn wrapped(out: &mut impl Write, head: &str, text: &str, look: Look) -> io::Result<()> {
    let indent = head.chars().count();
    let width = look.width.map_or(usize::MAX, |width| width.saturating_sub(indent).max(WRAP_LEAST));
    let mut before = head;
    let blanks = " ".repeat(indent);
    for line in textwrap::wrap(text, width) {
        writeln!(out, "{}", format!("{before}{line}").trim_end())?;
        before = &blanks;
    }
    Ok(())
}

fn line(
    out: &mut impl Write,
    cells: impl Iterator<Item = String>,
    layout: &[Shown],
) -> io::Result<()> {
    let mut text = String::new();
    for (cell, shown) in cells.zip(layout) {
        let blanks = " ".repeat(shown.width.saturating_sub(cell.chars().count()));
        text.push_str(&" ".repeat(columns::GAP));
        if shown.is_left {
            text.push_str(&cell);
            text.push_str(&blanks);
        } else {
            text.push_str(&blanks);
            text.push_str(&cell);
        }
    }
    writeln!(out, "{}", text.trim_end())
}

/// Formats a value in at most so many characters, if it can give way.
fn fitted(cell: &Cell, width: usize) -> String {
    let text = match cell {
        Cell::Bar(part) => return bar(*part, width.min(BAR_WIDTH)),
        cell => show(cell),
    };
    let length = text.chars().count();
    if length <= width || width < ELLIPSIS.len() * 2 {
        return text;
    }
    let kept = width - ELLIPSIS.len();
    // The end of a path tells more than its beginning; of a command it is the other way.
    if text.starts_with('/') && !text.contains(' ') {
        let tail: String = text.chars().skip(length - kept).collect();
        return format!("{ELLIPSIS}{tail}");
    }
    text.chars().take(kept).chain(ELLIPSIS.chars()).collect()
}

/// Formats a value for people.
pub fn show(cell: &Cell) -> String {
    match cell {
        Cell::Nothing => "-".into(),
        Cell::Bytes(0) | Cell::Ns(0) => "0".into(),
        Cell::Count(n) => show_count(*n),
        Cell::Id(n) => n.to_string(),
        Cell::Bytes(n) => show_size(*n),
        Cell::Ns(n) | Cell::At(n) => show_time(*n),
        Cell::Share(part) => show_share(*part),
        Cell::Number(n) if *n < 0.095 && *n > 0.0 => format!("{n:.3}"),
        Cell::Number(n) => format!("{n:.2}"),
        Cell::Change(Unit::Count, n) => show_change(*n, show_count),
        Cell::Change(Unit::Bytes, n) => show_change(*n, show_size),
        Cell::Change(Unit::Ns, n) => show_change(*n, show_time),
        Cell::ChangeShare(part) => show_change_share(*part),
        Cell::Bar(part) => bar(*part, BAR_WIDTH),
        Cell::Name(name) => named(0, name),
        Cell::Branch(depth, name) => named(*depth, name),
        Cell::Word(word) => word.to_string(),
        Cell::Line(line) => line.clone(),
        Cell::Counts(counts) => {
            let shown = counts.iter().take(COUNTS_SHOWN);
            let mut words: Vec<String> =
                shown.map(|(word, count)| format!("{word} {}", show_count(*count))).collect();
            if counts.len() > COUNTS_SHOWN {
                words.push("...".into());
            }
            words.join(", ")
        }
    }
}

fn named(depth: u32, name: &[u8]) -> String {
    let mut text = "  ".repeat(depth.min(20) as usize);
    escape(&mut text, name, &[]);
    if text.chars().count() > NAME_MAX {
        text = text.chars().take(NAME_MAX).collect();
        text.push_str("...");
    }
    text
}

/// Draws a bar with a resolution of 1/8 character. Nonzero values are always visible.
fn bar(part: f64, width: usize) -> String {
    const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let eighths = (part.clamp(0.0, 1.0) * (width * 8) as f64).round() as usize;
    let eighths = if part > 0.0 { eighths.max(1) } else { 0 };
    let mut text = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        text.push(EIGHTHS[eighths % 8]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars() {
        assert_eq!(bar(1.0, BAR_WIDTH).chars().count(), BAR_WIDTH);
        assert_eq!((bar(0.0, 40).as_str(), bar(1e-9, 40).as_str()), ("", "▏"));
    }

    #[test]
    fn hostile_names_stay_on_their_line() {
        let mut table = Table::new("t", "T", &[("name", "name"), ("count", "count"), ("x", "x")]);
        let name = [b"\x1b[2J\n\xff".as_slice(), &[b'a'; 5000]].concat();
        table.row(vec![Cell::Name(name), Cell::Count(1234), Cell::Count(0)]);
        let mut out = Vec::new();
        self::table(&mut out, &table, Look::default()).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().count(), 2);
        assert!(text.contains("\\033[2J\\n\\377aaa") && text.contains("..."), "{text}");
        assert!(text.lines().all(|line| line.len() < 200) && !text.contains(" x"), "{text}");
        out = Vec::new();
        let look = Look { width: Some(60), ..Look::default() };
        self::table(&mut out, &table, look).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.lines().all(|line| line.len() <= 60) && text.contains("aaa..."), "{text}");
    }
}
