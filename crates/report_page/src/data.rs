//! The data of the page as one JSON object.

use std::collections::{HashMap, HashSet};

use render::json::Json;
use render::origin;
use trace::Trace;

use crate::comparison::Comparison;
use crate::gather::{Gathered, moved_bytes};
use crate::other_run::OtherRun;
use crate::prediction::Predictions;
use crate::{kernel, pictures, sections, tables};

/// Limit for the files with a row, and how many of them are chosen by bytes; the rest is by time.
const FILES_MAX: usize = 1000;
const FILES_BY_BYTES: usize = 400;
const FINDINGS_MAX: usize = 40;
const SLOWEST_MAX: usize = 1000;
/// Limit for the connections, and for the pipes.
const LINES_MAX: usize = 500;
const DIRECTORIES_MAX: usize = 300;
const PROCESSES_MAX: usize = 300;
const ERRORS_MAX: usize = 300;
/// Limit for the words of the command.
pub const WORDS_MAX: usize = 60;
const PROBLEMS_MAX: usize = 10;
/// Limit for the rows of tables with one row per call.
const CALLS_MAX: usize = 800;

/// What a page has beside what every page has.
#[derive(Default)]
pub struct Beside {
    /// A replay of the recording.
    pub replay: Option<Comparison>,
    /// What changed since another recording.
    pub other: Option<OtherRun>,
    /// How long it takes elsewhere.
    pub predictions: Option<Predictions>,
}

/// Writes the data.
pub fn write(json: &mut Json<'_>, trace: &Trace, gathered: &Gathered, beside: &Beside) {
    json.object(|json| {
        whence(json.key("trace"), trace);
        soundness(json.key("sound"), trace, gathered);
        json.key("span_ns").uint(gathered.span_ns);
        json.key("run_ns").uint(gathered.wall.run_ns);
        json.key("interval_ns").uint(gathered.interval_ns);
        let calls = gathered.calls.sheet();
        tables::facts(json.key("calls_facts"), &calls.facts);
        for part in calls.tables.iter() {
            tables::table(json.key(part.key), part, CALLS_MAX, None);
        }
        tables::facts(json.key("durability_facts"), &gathered.durability.facts());
        tables::table(json.key("activities"), &gathered.wall.table(), WORDS_MAX, None);
        tables::table(json.key("findings"), &sections::findings(gathered), FINDINGS_MAX, None);
        json.key("findings_hint").str(gathered.hint.unwrap_or_default());
        tables::table(json.key("slowest"), &sections::slowest(gathered), SLOWEST_MAX, None);
        json.key("verdict").str(&sections::verdict(gathered));
        json.key("name").str(&tables::shown(gathered.name.as_bytes()));
        network(json, gathered);
        pictures::time(json.key("time"), gathered);
        pictures::unsynced(json.key("unsynced"), gathered);
        pictures::heat(json.key("heat"), gathered);
        pictures::histograms(json.key("latency"), &gathered.latency);
        pictures::histograms(json.key("sizes"), &gathered.sizes);
        files(json, gathered);
        processes(json, gathered);
        pictures::lanes(json.key("lanes"), gathered);
        if let Some(numbers) = &gathered.kernel {
            kernel::write(json.key("kernel"), numbers);
        }
        if let Some(flame) = &gathered.flame {
            pictures::flame(json.key("flame"), flame);
        }
        tables::table(json.key("errors"), &sections::errors(gathered), ERRORS_MAX, None);
        json.key("replay");
        match &beside.replay {
            Some(comparison) => comparison.write(json),
            None => json.null(),
        }
        if let Some(other) = &beside.other {
            other.write(json.key("other_run"));
        }
        if let Some(predictions) = &beside.predictions {
            predictions.write(json.key("predicted"));
        }
    });
}

fn whence(json: &mut Json<'_>, trace: &Trace) {
    let preamble = trace.preamble();
    json.object(|json| {
        json.key("command").str(&tables::shown_words(&preamble.command, WORDS_MAX));
        for (key, text) in [
            ("recorded", &*origin::recorded(preamble)),
            ("kernel", origin::kernel(preamble)),
            ("machine", &origin::machine(preamble)),
            ("options", &preamble.options),
        ] {
            json.key(key).str(&tables::shown(text.as_bytes()));
        }
        json.key("trace_bytes").optional_uint(trace.file_bytes().ok());
        json.key("data_bytes").optional_uint(trace.totals().map(|totals| totals.data_bytes));
        json.key("version").str(env!("CARGO_PKG_VERSION"));
    });
}

/// Writes whether the recording is complete.
fn soundness(json: &mut Json<'_>, trace: &Trace, gathered: &Gathered) {
    let report = trace.completeness();
    json.object(|json| {
        json.key("complete").bool(report.complete && gathered.unread.count == 0);
        json.key("lost").uint(report.lost);
        json.key("gaps").uint(report.gaps);
        json.key("unread_blocks").uint(gathered.unread.count);
        json.key("problems").array(|json| {
            for problem in report.problems.iter().take(PROBLEMS_MAX) {
                json.str(&tables::shown(problem.what.as_bytes()));
            }
        });
        json.key("stall_ns").optional_uint(trace.totals().map(|totals| totals.stall_ns));
    });
}

/// Writes connections, sums of them, and pipes.
fn network(json: &mut Json<'_>, gathered: &Gathered) {
    let sheet = gathered.network.sheet();
    tables::facts(json.key("network_facts"), &sheet.facts);
    json.key("network").object(|json| {
        for table in &sheet.tables {
            tables::table(json.key(table.key), table, LINES_MAX, None);
        }
    });
}

/// Writes the table of files and their access plots.
fn files(json: &mut Json<'_>, gathered: &Gathered) {
    let all = &gathered.files;
    let mut by_bytes: Vec<usize> = (0..all.files.len()).collect();
    by_bytes.sort_by_key(|place| std::cmp::Reverse(moved_bytes(all, *place)));
    // The view is sorted by time.
    let wanted = by_bytes.into_iter().take(FILES_BY_BYTES).chain(0..all.files.len());
    let mut chosen = HashSet::new();
    for place in wanted {
        if chosen.len() >= FILES_MAX {
            break;
        }
        chosen.insert(place);
    }
    let (table, others) = all.chosen(|place| chosen.contains(&place));
    let left_out = (all.files.len() - chosen.len()) as u64;
    tables::facts(json.key("files_facts"), &all.facts());
    tables::table(json.key("files"), &table, FILES_MAX, Some((left_out, &others)));
    if let Some(directories) = all.sheet().tables.iter().find(|table| table.key == "directories") {
        tables::table(json.key("directories"), directories, DIRECTORIES_MAX, None);
    }
    let mut places: Vec<usize> = chosen.into_iter().collect();
    places.sort_unstable();
    let rows: HashMap<usize, usize> =
        places.into_iter().enumerate().map(|(row, place)| (place, row)).collect();
    pictures::plots(json.key("plots"), gathered, &rows);
    pictures::files_over_time(json.key("files_over_time"), gathered, &rows);
}

fn processes(json: &mut Json<'_>, gathered: &Gathered) {
    let sheet = gathered.tasks.processes_sheet();
    tables::facts(json.key("tasks_facts"), &sheet.facts);
    tables::table(json.key("processes"), &sheet.tables[0], PROCESSES_MAX, None);
}
