//! The page as it is without scripts: what a preview in mail or a forge shows, and what scripts replace.

use std::io::{self, Write};

use render::amounts::{
    show_change, show_change_share, show_count, show_share, show_size, show_time,
};
use stats::sheet::{Cell, Sheet, Table, Unit};
use trace::Trace;

use crate::gather::Gathered;
use crate::{data, sections, tables};

/// Limit for the rows of a table here; scripts show more.
const ROWS_MAX: usize = 25;
/// Activities below this share of the run are in no bar.
const BAR_SHARE: f64 = 0.01;
/// Width of the bar, in its own units.
const BAR_WIDTH: f64 = 1000.0;

/// Columns that say too little for their room without scripts.
const HIDDEN: &[&str] = &["unfinished", "share", "process", "parent", "command", "strided_share"];

/// Writes it.
pub fn write(out: &mut impl Write, trace: &Trace, gathered: &Gathered) -> io::Result<()> {
    let preamble = trace.preamble();
    let command = tables::shown_words(&preamble.command, data::WORDS_MAX);
    writeln!(out, "<header><h1>{}</h1>", html(&command))?;
    let state = if trace.completeness().complete && gathered.unread.count == 0 {
        "The recording is complete."
    } else {
        "The recording is not complete."
    };
    writeln!(out, "<p class=\"verdict\">{} {state}</p>", html(&sections::verdict(gathered)))?;
    wall(out, gathered)?;
    facts(out, gathered)?;
    writeln!(out, "</header>")?;
    findings(out, &sections::findings(gathered), gathered.hint)?;
    let calls = gathered.calls.sheet();
    section(out, "Calls", &calls, &["calls"])?;
    let slowest = Sheet { tables: vec![sections::slowest(gathered)], ..Sheet::default() };
    section(out, "The slowest calls", &slowest, &["slowest"])?;
    section(out, "Files", &gathered.files.sheet(), &["files", "directories"])?;
    let tables = ["connections", "listening", "peers", "local_sockets", "pipes"];
    section(out, "Network and pipes", &gathered.network.sheet(), &tables)?;
    section(out, "Processes", &gathered.tasks.processes_sheet(), &["processes"])?;
    let errors = Sheet { tables: vec![sections::errors(gathered)], ..Sheet::default() };
    section(out, "Errors", &errors, &["errors"])
}

/// Characters of the command in the title of the page.
const TITLE_MAX: usize = 80;

/// Returns the title of the page, as markup.
pub fn title(trace: &Trace) -> String {
    let command = tables::shown_words(&trace.preamble().command, data::WORDS_MAX);
    html(&format!("reenact: {}", command.chars().take(TITLE_MAX).collect::<String>()))
}

/// Escapes what could be markup.
fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// Writes where the time of the run went, as a bar. Its parts have attributes and no styles, which the
/// page's policy forbids.
fn wall(out: &mut impl Write, gathered: &Gathered) -> io::Result<()> {
    let wall = &gathered.wall;
    let share = |ns: u64| ns as f64 / wall.run_ns.max(1) as f64;
    let mut parts = wall.parts.to_vec();
    parts.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    parts.retain(|(_, ns)| share(*ns) >= BAR_SHARE);
    if parts.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "<figure class=\"wall\"><svg viewBox=\"0 0 {BAR_WIDTH} 22\" width=\"100%\" height=\"22\" \
         preserveAspectRatio=\"none\" role=\"img\" aria-label=\"Where the time went\">"
    )?;
    let mut from = 0.0;
    for (activity, ns) in &parts {
        let width = share(*ns) * BAR_WIDTH;
        let key = activity.key();
        writeln!(
            out,
            "<rect class=\"part-{key}\" x=\"{from:.1}\" y=\"0\" width=\"{width:.1}\" height=\"22\"/>"
        )?;
        from += width;
    }
    write!(out, "</svg><ul>")?;
    for (activity, ns) in &parts {
        let (name, percent) = (html(activity.name()), share(*ns) * 100.0);
        write!(out, "<li>{name} <b>{percent:.0}%</b> {}</li>", show_time(*ns))?;
    }
    writeln!(out, "</ul></figure>")
}

fn facts(out: &mut impl Write, gathered: &Gathered) -> io::Result<()> {
    let tasks = gathered.tasks.processes_sheet();
    write!(out, "<dl class=\"facts main\">")?;
    let all = [
        ("", gathered.calls.sheet().facts),
        ("of files ", gathered.files.facts()),
        ("", tasks.facts),
        ("", gathered.durability.facts()),
    ];
    for (of, facts) in &all {
        for fact in facts.iter().filter(|fact| !fact.title.is_empty()) {
            let value = html(&text(&fact.value));
            write!(out, "<div><dt>{of}{}</dt><dd>{value}</dd></div>", html(fact.title))?;
        }
    }
    writeln!(out, "</dl>")
}

fn findings(out: &mut impl Write, table: &Table, hint: Option<&str>) -> io::Result<()> {
    writeln!(out, "<section class=\"part\"><h2>Findings</h2>")?;
    if table.rows.is_empty() {
        writeln!(out, "<p>None of the known patterns was found.</p>")?;
    }
    for row in table.rows.iter().take(ROWS_MAX) {
        let get = |key: &str| {
            let at = table.columns.iter().position(|column| column.key == key);
            at.map(|at| html(&text(&row[at]))).unwrap_or_default()
        };
        let time = if get("time_ns").is_empty() { String::new() } else { get("time_ns") + ", " };
        let unless = match get("unless") {
            unless if unless.is_empty() => unless,
            unless => format!(" Leave it if {unless}."),
        };
        writeln!(
            out,
            "<article class=\"finding {}\"><h4>{}<small>{}, {time}{} of the run, confidence {}</small></h4>\
             <p class=\"reason\">{}{unless}</p><p>{} <code>{}</code></p><p><code>{}</code></p></article>",
            get("severity"),
            get("title"),
            get("severity"),
            get("run_share"),
            get("confidence"),
            get("reason"),
            get("evidence"),
            get("file"),
            get("command")
        )?;
    }
    if let Some(hint) = hint {
        writeln!(out, "<p class=\"more\">{}</p>", html(hint))?;
    }
    writeln!(out, "</section>")
}

fn section(out: &mut impl Write, title: &str, sheet: &Sheet, keys: &[&str]) -> io::Result<()> {
    let chosen = keys.iter().filter_map(|key| {
        sheet.tables.iter().find(|table| table.key == *key && !table.rows.is_empty())
    });
    let chosen: Vec<&Table> = chosen.collect();
    if chosen.is_empty() {
        return Ok(());
    }
    writeln!(out, "<section class=\"part\"><h2>{title}</h2>")?;
    for table in chosen {
        static_table(out, table)?;
    }
    writeln!(out, "</section>")
}

fn static_table(out: &mut impl Write, table: &Table) -> io::Result<()> {
    let is_empty = |at: usize| table.rows.iter().all(|row| text(&row[at]).is_empty());
    let is_shown = |at: &usize| {
        let column = &table.columns[*at];
        let is_told = !column.key.is_empty() && !HIDDEN.contains(&column.key);
        is_told && !column.title.is_empty() && !is_empty(*at)
    };
    let shown: Vec<usize> = (0..table.columns.len()).filter(is_shown).collect();
    write!(
        out,
        "<div class=\"card\"><div class=\"scroll\"><table class=\"data\" data-static=\"{}\">",
        table.key
    )?;
    write!(out, "<caption>{}</caption><thead><tr>", html(&table.title))?;
    for at in &shown {
        write!(out, "<th scope=\"col\">{}</th>", html(table.columns[*at].title))?;
    }
    writeln!(out, "</tr></thead><tbody>")?;
    for row in table.rows.iter().take(ROWS_MAX) {
        write!(out, "<tr>")?;
        for at in &shown {
            let class = if row[*at].number().is_some() { "number" } else { "name" };
            write!(out, "<td class=\"{class}\">{}</td>", html(&text(&row[*at])))?;
        }
        writeln!(out, "</tr>")?;
    }
    write!(out, "</tbody></table></div>")?;
    if let Some(more) = table.rows.len().checked_sub(ROWS_MAX + 1) {
        write!(out, "<p class=\"more\">{} more</p>", show_count(more as u64 + 1))?;
    }
    writeln!(out, "</div>")
}

/// Returns a value for people; nothing for nothing and for 0.
fn text(value: &Cell) -> String {
    match value {
        Cell::Count(0) | Cell::Bytes(0) | Cell::Ns(0) | Cell::Nothing => String::new(),
        Cell::Count(n) => show_count(*n),
        Cell::Id(n) => n.to_string(),
        Cell::Bytes(n) => show_size(*n),
        Cell::Ns(n) | Cell::At(n) => show_time(*n),
        Cell::Share(n) | Cell::Bar(n) => show_share(*n),
        Cell::Number(n) => format!("{n:.2}"),
        Cell::Change(Unit::Count, n) => show_change(*n, show_count),
        Cell::Change(Unit::Bytes, n) => show_change(*n, show_size),
        Cell::Change(Unit::Ns, n) => show_change(*n, show_time),
        Cell::ChangeShare(n) => show_change_share(*n),
        Cell::Name(name) | Cell::Branch(_, name) => tables::shown(name),
        Cell::Word(word) => word.to_string(),
        Cell::Line(line) => line.clone(),
        Cell::Counts(counts) => {
            let each = counts.iter().take(tables::COUNTS_MAX);
            let each = each.map(|(word, count)| format!("{word} {}", show_count(*count)));
            each.collect::<Vec<_>>().join(", ")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_have_what_scripts_show() {
        let columns = ["severity", "title", "run_share", "confidence", "reason", "unless"];
        let columns = columns.map(|key| (key, ""));
        let mut table = Table::new("findings", "Findings", &columns);
        let word = Cell::word;
        let share = Cell::Share(0.0001);
        table.row(vec![word("high"), word("Waits"), share, word("low"), word("Why."), word("so")]);
        let mut out = Vec::new();
        findings(&mut out, &table, Some("more")).unwrap();
        let page = String::from_utf8(out).unwrap();
        assert!(
            page.contains("<h4>Waits<small>high, &lt;0.1% of the run, confidence low</small>"),
            "{page}"
        );
        assert!(page.contains("<p class=\"reason\">Why. Leave it if so.</p>"), "{page}");
        assert!(page.contains("<p class=\"more\">more</p>"), "{page}");
    }

    #[test]
    fn nothing_in_a_name_is_markup() {
        let mut table = Table::new("t", "<T>", &[("name", "na<me"), ("count", "count")]);
        table.row(vec![Cell::Name(b"</td><script>\"'&".to_vec()), Cell::Count(12_345)]);
        let mut out = Vec::new();
        static_table(&mut out, &table).unwrap();
        let page = String::from_utf8(out).unwrap();
        assert!(page.contains("&lt;/td&gt;&lt;script&gt;&quot;&#39;&amp;"), "{page}");
        assert!(page.contains("na&lt;me") && page.contains("&lt;T&gt;") && page.contains("12,345"));
        assert!(!page.contains("<script"));
    }
}
