//! Views as comma-separated values (RFC 4180).

use std::io::{self, Write};

use render::escape::escape;
use stats::sheet::{Cell, Sheet};

/// Writes the first table.
pub fn write(out: &mut impl Write, sheet: &Sheet) -> io::Result<()> {
    let Some(table) = sheet.tables.first() else { return Ok(()) };
    let shown: Vec<usize> =
        (0..table.columns.len()).filter(|&at| !table.columns[at].key.is_empty()).collect();
    let heads = shown.iter().map(|&at| table.columns[at].key.to_string());
    line(out, heads)?;
    table.rows.iter().try_for_each(|row| line(out, shown.iter().map(|&at| field(&row[at]))))
}

fn line(out: &mut impl Write, fields: impl Iterator<Item = String>) -> io::Result<()> {
    let fields: Vec<String> = fields.collect();
    write!(out, "{}\r\n", fields.join(","))
}

fn field(cell: &Cell) -> String {
    match cell {
        Cell::Nothing | Cell::Bar(_) => String::new(),
        Cell::Count(n) | Cell::Id(n) | Cell::Bytes(n) | Cell::Ns(n) | Cell::At(n) => n.to_string(),
        Cell::Share(n) | Cell::Number(n) | Cell::ChangeShare(n) => format!("{n:.6}"),
        Cell::Change(_, n) => n.to_string(),
        Cell::Name(name) | Cell::Branch(_, name) => quoted(&escaped(name)),
        Cell::Word(word) => quoted(word),
        Cell::Line(line) => quoted(line),
        Cell::Counts(counts) => {
            let words: Vec<String> =
                counts.iter().map(|(word, count)| format!("{word} {count}")).collect();
            quoted(&words.join(" "))
        }
    }
}

/// Escapes a name. Also escapes a first character that a spreadsheet takes for a formula.
fn escaped(name: &[u8]) -> String {
    let mut text = String::new();
    match name.split_first() {
        Some((first @ (b'=' | b'+' | b'-' | b'@'), rest)) => {
            text.push_str(&format!("\\{first:03o}"));
            escape(&mut text, rest, &[]);
        }
        _ => escape(&mut text, name, &[]),
    }
    text
}

fn quoted(text: &str) -> String {
    if text.contains(['"', ',', '\r', '\n']) {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_are_one_field() {
        let check = |name: &[u8], expected| assert_eq!(field(&Cell::Name(name.into())), expected);
        check(b"/a,b", "\"/a,b\"");
        check(b"/a\"b\n", "\"/a\"\"b\\n\"");
        check(b"=1+1", "\\0751+1");
        check(b"\xff\x1b", "\\377\\033");
    }
}
