//! Tables and single values for the page, with names escaped and shortened.

use render::escape::escape;
use render::json::Json;
use stats::sheet::{Cell, Fact, Table, Unit};

/// Number of bytes kept of the beginning and of the end of a long name.
const NAME_HALF: usize = 140;
/// Longest name in bytes that is not shortened.
const NAME_BYTES: usize = 2 * NAME_HALF;

/// Escapes a name, leaving out the middle of a long one.
pub fn shown(name: &[u8]) -> String {
    let mut text = String::new();
    if name.len() <= NAME_BYTES {
        escape(&mut text, name, &[]);
    } else {
        // A cut may split a character; its bytes are then escaped.
        escape(&mut text, &name[..NAME_HALF], &[]);
        text.push_str(&format!(" [... {} bytes ...] ", name.len() - NAME_BYTES));
        escape(&mut text, &name[name.len() - NAME_HALF..], &[]);
    }
    text
}

/// Formats words as one line, those with blanks in quotes.
pub fn shown_words(words: &[Vec<u8>], words_max: usize) -> String {
    let mut all: Vec<String> =
        words.iter().take(words_max).map(|word| quoted(&shown(word))).collect();
    if words.len() > words_max {
        all.push(format!("[... {} more words]", words.len() - words_max));
    }
    all.join(" ")
}

fn quoted(word: &str) -> String {
    if word.is_empty() || word.contains([' ', ';', '|', '&', '<', '>', '$', '"']) {
        return format!("'{word}'");
    }
    word.to_string()
}

/// Writes columns and rows as an object; `others` sums up the rows left out.
pub fn table(json: &mut Json<'_>, table: &Table, rows_max: usize, others: Option<(u64, &[Cell])>) {
    let shown: Vec<usize> =
        (0..table.columns.len()).filter(|&at| !table.columns[at].key.is_empty()).collect();
    json.object(|json| {
        json.key("key").str(table.key);
        json.key("columns").array(|json| {
            for &at in &shown {
                let column = &table.columns[at];
                json.object(|json| {
                    json.key("key").str(column.key);
                    json.key("title").str(if column.title.is_empty() {
                        column.key
                    } else {
                        column.title
                    });
                    let kind = table.rows.iter().find_map(|row| kind(&row[at])).unwrap_or("count");
                    json.key("kind").str(kind);
                });
            }
        });
        json.key("rows").array(|json| {
            for row in table.rows.iter().take(rows_max) {
                json.array(|json| shown.iter().for_each(|&at| cell(json, &row[at])));
            }
        });
        json.key("left_out").uint(table.rows.len().saturating_sub(rows_max) as u64);
        if let Some((count, row)) = others.filter(|(count, _)| *count > 0) {
            json.key("others_count").uint(count);
            json.key("others").array(|json| shown.iter().for_each(|&at| cell(json, &row[at])));
        }
    });
}

/// Writes an object with the value of each fact.
pub fn facts(json: &mut Json<'_>, facts: &[Fact]) {
    json.object(|json| {
        for fact in facts.iter().filter(|fact| !fact.key.is_empty()) {
            cell(json.key(fact.key), &fact.value);
        }
    });
}

/// Returns the key of the value's format in the page.
fn kind(value: &Cell) -> Option<&'static str> {
    Some(match value {
        Cell::Nothing => return None,
        Cell::Count(_) => "count",
        Cell::Id(_) => "id",
        Cell::Bytes(_) => "bytes",
        Cell::Ns(_) => "ns",
        Cell::At(_) => "at",
        Cell::Share(_) | Cell::Bar(_) => "share",
        Cell::Number(_) => "number",
        Cell::Change(Unit::Count, _) => "count_change",
        Cell::Change(Unit::Bytes, _) => "bytes_change",
        Cell::Change(Unit::Ns, _) => "ns_change",
        Cell::ChangeShare(_) => "share_change",
        Cell::Name(_) => "name",
        Cell::Branch(..) => "branch",
        Cell::Word(_) | Cell::Line(_) => "word",
        Cell::Counts(_) => "counts",
    })
}

/// Writes a value.
fn cell(json: &mut Json<'_>, value: &Cell) {
    match value {
        Cell::Nothing => json.null(),
        Cell::Count(n) | Cell::Id(n) | Cell::Bytes(n) | Cell::Ns(n) | Cell::At(n) => json.uint(*n),
        Cell::Share(n) | Cell::Number(n) | Cell::Bar(n) | Cell::ChangeShare(n) => json.number(*n),
        Cell::Change(_, n) => json.int(*n),
        Cell::Name(name) => json.str(&shown(name)),
        Cell::Branch(depth, name) => json.array(|json| {
            json.uint((*depth).into());
            json.str(&shown(name));
        }),
        Cell::Word(word) => json.str(word),
        Cell::Line(line) => json.str(line),
        Cell::Counts(counts) => json.array(|json| {
            for (word, count) in counts.iter().take(COUNTS_MAX) {
                json.array(|json| {
                    json.str(word);
                    json.uint(*count);
                });
            }
        }),
    }
}

/// Limit for the counts in one cell.
pub const COUNTS_MAX: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_and_harmless() {
        assert_eq!(shown(b"/a\x1b</script>\xff\n"), "/a\\033</script>\\377\\n");
        let long = shown(&[0x1b; 4096]);
        assert!(long.contains("[... 3816 bytes ...]") && long.len() < 5 * NAME_BYTES, "{long}");
        assert_eq!(shown_words(&[b"a".to_vec(), b"b".to_vec()], 1), "a [... 1 more words]");
        assert_eq!(shown_words(&[b"sh".to_vec(), b"a | b".to_vec()], 2), "sh 'a | b'");
    }
}
