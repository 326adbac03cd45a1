//! Views for people: aligned tables, with bars made of characters.

use std::io::{self, Write};

use render::escape::escape;
use stats::sheet::{Cell, Sheet, Table};

use render::amounts::{show_size, show_time};

/// Width of a full bar in characters.
const BAR_WIDTH: usize = 40;
/// Limit for the characters of a name: paths can have 4096.
const NAME_MAX: usize = 160;
/// Limit for the errors of a call listed by name.
const COUNTS_SHOWN: usize = 3;
/// Limit for the histograms that are printed.
const PICTURES_SHOWN: usize = 5;

/// Writes a view with at most `limit` rows of each table.
pub fn write(out: &mut impl Write, sheet: &Sheet, limit: usize) -> io::Result<()> {
    let facts = sheet.facts.iter().filter(|fact| !fact.title.is_empty());
    let width = facts.clone().map(|fact| fact.title.chars().count()).max().unwrap_or(0);
    for fact in facts {
        writeln!(out, "{:<width$}  {}", fact.title, show(&fact.value))?;
    }
    let mut pictures = 0;
    for table in &sheet.tables {
        if table.rows.is_empty() {
            continue;
        }
        pictures += usize::from(table.one_of_many);
        if table.blocks {
            blocks(out, table, limit)?;
        } else if pictures <= PICTURES_SHOWN {
            writeln!(out, "\n{}", table.title)?;
            self::table(out, table, limit)?;
        }
    }
    if pictures > PICTURES_SHOWN {
        let more = pictures - PICTURES_SHOWN;
        writeln!(out, "\n{more} more calls have a picture: --call NAME shows it")?;
    }
    if sheet.tables.iter().all(|table| table.rows.is_empty()) {
        return Ok(());
    }
    if !sheet.notes.is_empty() {
        writeln!(out)?;
    }
    sheet.notes.iter().try_for_each(|note| writeln!(out, "{note}"))
}

fn table(out: &mut impl Write, table: &Table, limit: usize) -> io::Result<()> {
    let limit = if table.fixed { usize::MAX } else { limit };
    let rows = &table.rows[..table.rows.len().min(limit)];
    // Leave out columns without values.
    let shown: Vec<usize> = (0..table.columns.len())
        .filter(|&at| !table.columns[at].title.is_empty())
        .filter(|&at| rows.iter().any(|row| !is_blank(&row[at])))
        .collect();
    let cells: Vec<Vec<String>> =
        rows.iter().map(|row| shown.iter().map(|&at| show(&row[at])).collect()).collect();
    let is_text = |place: usize| rows.iter().any(|row| is_left(&row[shown[place]]));
    let heads: Vec<&str> = shown.iter().map(|&at| table.columns[at].title.trim()).collect();
    let width = |place: usize| {
        let cells = cells.iter().map(|row| row[place].chars().count());
        cells.max().unwrap_or(0).max(heads[place].chars().count())
    };
    let layout: Vec<(bool, usize)> =
        (0..shown.len()).map(|place| (is_text(place), width(place))).collect();
    line(out, heads.iter().copied(), &layout)?;
    for row in &cells {
        line(out, row.iter().map(String::as_str), &layout)?;
    }
    let more = table.rows.len() - rows.len();
    if more > 0 { writeln!(out, "  ... and {more} more: --limit shows them") } else { Ok(()) }
}

/// Writes each row as a heading and a line per further value.
fn blocks(out: &mut impl Write, table: &Table, limit: usize) -> io::Result<()> {
    for (number, row) in table.rows.iter().take(limit).enumerate() {
        let mut shown = table.columns.iter().zip(row);
        if let Some((_, title)) = shown.next() {
            writeln!(out, "\n{}. {}", number + 1, show(title))?;
        }
        for (column, value) in shown {
            if !column.title.is_empty() && !is_blank(value) {
                writeln!(out, "   {:<12} {}", column.title, show(value))?;
            }
        }
    }
    let more = table.rows.len().saturating_sub(limit);
    if more > 0 { writeln!(out, "\n... and {more} more: --limit shows them") } else { Ok(()) }
}

fn line<'a>(
    out: &mut impl Write,
    cells: impl Iterator<Item = &'a str>,
    layout: &[(bool, usize)],
) -> io::Result<()> {
    let mut text = String::new();
    for (cell, (left, width)) in cells.zip(layout) {
        let blanks = " ".repeat(width.saturating_sub(cell.chars().count()));
        text.push_str("  ");
        if *left {
            text.push_str(cell);
            text.push_str(&blanks);
        } else {
            text.push_str(&blanks);
            text.push_str(cell);
        }
    }
    writeln!(out, "{}", text.trim_end())
}

fn is_left(cell: &Cell) -> bool {
    matches!(
        cell,
        Cell::Name(_) | Cell::Branch(..) | Cell::Word(_) | Cell::Bar(_) | Cell::Counts(_)
    )
}

fn is_blank(cell: &Cell) -> bool {
    match cell {
        Cell::Nothing => true,
        Cell::At(_) | Cell::Id(_) => false,
        Cell::Count(n) | Cell::Bytes(n) | Cell::Ns(n) => *n == 0,
        Cell::Share(n) | Cell::Number(n) | Cell::Bar(n) => *n == 0.0,
        Cell::Name(name) => name.is_empty(),
        Cell::Branch(..) => false,
        Cell::Word(word) => word.is_empty(),
        Cell::Counts(counts) => counts.is_empty(),
    }
}

/// Formats a value for people.
pub fn show(cell: &Cell) -> String {
    match cell {
        Cell::Nothing | Cell::Count(0) | Cell::Bytes(0) | Cell::Ns(0) => "-".into(),
        Cell::Count(n) => grouped(*n),
        Cell::Id(n) => n.to_string(),
        Cell::Bytes(n) => show_size(*n),
        Cell::Ns(n) | Cell::At(n) => show_time(*n),
        Cell::Share(0.0) | Cell::Number(0.0) => "-".into(),
        Cell::Share(part) if *part < 0.0005 => "<0.1%".into(),
        Cell::Share(part) => format!("{:.1}%", part * 100.0),
        Cell::Number(n) => format!("{n:.2}"),
        Cell::Bar(part) => bar(*part),
        Cell::Name(name) => named(0, name),
        Cell::Branch(depth, name) => named(*depth, name),
        Cell::Word(word) => word.to_string(),
        Cell::Counts(counts) => {
            let shown = counts.iter().take(COUNTS_SHOWN);
            let mut words: Vec<String> =
                shown.map(|(word, count)| format!("{word} {}", grouped(*count))).collect();
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

/// Formats a number as `1,234,567`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Draws a bar with a resolution of 1/8 character. Nonzero values are always visible.
fn bar(part: f64) -> String {
    const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let eighths = (part.clamp(0.0, 1.0) * (BAR_WIDTH * 8) as f64).round() as usize;
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
    fn numbers_and_bars() {
        assert_eq!(grouped(1_234_567), "1,234,567");
        assert_eq!(grouped(999), "999");
        assert_eq!(bar(1.0).chars().count(), BAR_WIDTH);
        assert_eq!((bar(0.0).as_str(), bar(1e-9).as_str()), ("", "▏"));
    }

    #[test]
    fn hostile_names_stay_on_their_line() {
        let mut table = Table::new("t", "T", &[("name", "name"), ("count", "count"), ("x", "x")]);
        let name = [b"\x1b[2J\n\xff".as_slice(), &[b'a'; 5000]].concat();
        table.row(vec![Cell::Name(name), Cell::Count(1234), Cell::Count(0)]);
        let mut out = Vec::new();
        self::table(&mut out, &table, 9).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().count(), 2);
        assert!(text.contains("\\033[2J\\n\\377aaa") && text.contains("..."), "{text}");
        assert!(text.lines().all(|line| line.len() < 200) && !text.contains(" x"), "{text}");
    }
}
