//! What every command says of recordings that were kept, against what it said when they were made: a
//! change of the code behind must not change a byte, unless that is wanted.
//!
//! `tests/kept/record.sh` made the recordings. In the long tier, `REENACT_KEEP=1` writes down what is
//! said now. `REENACT_BEFORE=FILE` names an older reenact: where something differs, the first line in
//! which the two differ is shown.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use acceptance::place::{Outcome, Place, Who};
use acceptance::stage::{self, Stage};
use acceptance::{Complaint, ensure, tier, trials};
use xxhash_rust::xxh3::xxh3_64;

/// What is asked of each recording. TRACE stands for its name, OUT for what the command writes.
const COMMANDS: &[&str] = &[
    "info TRACE",
    "info TRACE --json",
    "info TRACE --verify",
    "show TRACE",
    "show TRACE --json",
    "show TRACE --failed --call %file",
    "stat calls TRACE --json",
    "stat files TRACE --json",
    "stat sizes TRACE --json",
    "stat latency TRACE --json",
    "stat time TRACE --json",
    "stat processes TRACE --json",
    "stat threads TRACE --json",
    "stat durability TRACE --json",
    "stat patterns TRACE --json",
    "stat cache TRACE --json",
    "stat events TRACE --json",
    "stat cpu TRACE --json",
    "stat where TRACE --json",
    "stat sites TRACE --json",
    "stat waits TRACE --json",
    "stat irq TRACE --json",
    "stat block TRACE --json",
    "stat pages TRACE --json",
    "stat calls TRACE --csv",
    "stat patterns TRACE",
    "export TRACE --to jsonl --output OUT",
    "export TRACE --to strace --output OUT",
    "export TRACE --to perfetto --output OUT",
    "export TRACE --to dataseries --output OUT",
    "export TRACE --to fio --output OUT",
    "export TRACE --to parquet --output OUT",
    "export TRACE --to ctf --output OUT",
    "export TRACE --to folded --output OUT",
    "report TRACE --output OUT",
];

/// The same in the long tier: the result also depends on the machine, its kernel and file systems.
const ON_THIS_MACHINE: &[&str] = &["image TRACE --output OUT", "replay TRACE --root OUT --json"];

/// What to do if the differences are wanted.
const ACCEPT: &str =
    "if this is wanted: REENACT_SOAK=1 REENACT_KEEP=1 cargo test -p acceptance --test kept";

/// Members of a replay's result that say something of the run and not of the trace.
const OF_THE_RUN: &[&str] = &[
    "allocated_bytes",
    "calls_s",
    "comparison_s",
    "elapsed_max_s",
    "elapsed_median_s",
    "elapsed_min_s",
    "elapsed_s",
    "image_s",
    "jail",
    "latencies_ns",
    "rest_s",
    "root",
    "runs",
    "start_error_ns",
    "system_ns",
    "user_ns",
];

fn main() -> ExitCode {
    trials::main(|trials| {
        let kept = Arc::new(Kept::read()?);
        for path in recordings()? {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let kept = Arc::clone(&kept);
            trials.add(&name.clone(), Who::User, None, move |stage, who| {
                kept.check(stage, who, &name, &path)
            });
        }
        Ok(())
    })
}

fn folder() -> PathBuf {
    stage::repository().join("tests/kept")
}

fn recordings() -> Result<Vec<PathBuf>, Complaint> {
    let entries = fs::read_dir(folder()).map_err(|error| error.to_string())?;
    let paths = entries.flatten().map(|entry| entry.path());
    let mut found: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "rnt")).collect();
    ensure!(!found.is_empty(), "no recordings are kept in {}", folder().display());
    found.sort();
    Ok(found)
}

/// What was said: lines of "RECORDING COMMAND: RESULT", by recording and command.
struct Kept {
    said: Mutex<BTreeMap<String, String>>,
    is_written: bool,
    before: Option<PathBuf>,
}

impl Kept {
    fn read() -> Result<Kept, Complaint> {
        let text = fs::read_to_string(folder().join("said.txt")).unwrap_or_default();
        let lines = text.lines().filter_map(|line| line.split_once(": "));
        let said = lines.map(|(what, result)| (what.to_owned(), result.to_owned())).collect();
        Ok(Kept {
            said: Mutex::new(said),
            is_written: std::env::var_os("REENACT_KEEP").is_some(),
            before: std::env::var_os("REENACT_BEFORE").map(PathBuf::from),
        })
    }

    fn check(&self, stage: &Stage, who: Who, name: &str, path: &Path) -> Result<(), Complaint> {
        let mut differences = String::new();
        let more = if tier::is_long() { ON_THIS_MACHINE } else { &[] };
        for command in COMMANDS.iter().chain(more) {
            let what = format!("{name} {command}");
            let now = Said::of(stage, who, &stage.reenact, path, command)?;
            if self.is_written {
                self.keep(what, now.result())?;
                continue;
            }
            let kept = self.said.lock().map_err(|error| error.to_string())?.get(&what).cloned();
            if kept.as_deref() != Some(&now.result()) {
                let kept = kept.unwrap_or_else(|| "nothing".to_owned());
                let _ = writeln!(differences, "{what}: {}, kept was {kept}", now.result());
                if let Some(before) = &self.before {
                    let before = Said::of(stage, who, before, path, command)?;
                    differences.push_str(&before.first_difference(&now));
                }
            }
        }
        ensure!(differences.is_empty(), "{differences}{ACCEPT}");
        Ok(())
    }

    fn keep(&self, what: String, result: String) -> Result<(), Complaint> {
        let mut said = self.said.lock().map_err(|error| error.to_string())?;
        said.insert(what, result);
        let text: String =
            said.iter().map(|(what, result)| format!("{what}: {result}\n")).collect();
        fs::write(folder().join("said.txt"), text).map_err(|error| error.to_string())
    }
}

/// What a command has said and written.
struct Said {
    code: i32,
    /// Standard output, or what it wrote, by paths.
    parts: BTreeMap<PathBuf, Vec<u8>>,
}

impl Said {
    fn of(
        stage: &Stage,
        who: Who,
        reenact: &Path,
        path: &Path,
        command: &str,
    ) -> Result<Said, Complaint> {
        let place = Place::new(stage, who)?;
        let content = fs::read(path).map_err(|error| error.to_string())?;
        place.write("trace.rnt", &content)?;
        let words = command.split(' ').map(|word| match word {
            "TRACE" => "trace.rnt",
            "OUT" => "out",
            word => word,
        });
        let mut run = place.command(reenact);
        run.args(words);
        if command.contains("--root") {
            fs::create_dir(place.work().join("out")).map_err(|error| error.to_string())?;
            place.give(&place.work().join("out"))?;
        }
        let outcome = place.run(&mut run)?;
        let mut parts = BTreeMap::new();
        if command.contains("OUT") && !command.contains("--root") {
            gather(&place.work().join("out"), Path::new(""), &mut parts)?;
        }
        let stdout = if command.starts_with("replay") { steady(&outcome)? } else { outcome.stdout };
        parts.insert(PathBuf::from("standard output"), stdout);
        if command.starts_with("report") {
            parts.values_mut().for_each(data_alone);
        }
        Ok(Said { code: outcome.status.code().unwrap_or(-1), parts })
    }

    fn result(&self) -> String {
        let mut all = Vec::new();
        let mut bytes = 0;
        for (path, content) in &self.parts {
            bytes += content.len();
            all.extend_from_slice(path.as_os_str().as_encoded_bytes());
            all.extend_from_slice(&xxh3_64(content).to_le_bytes());
        }
        format!("exit {}, {bytes} bytes, {:016x}", self.code, xxh3_64(&all))
    }

    /// The first line in which another one differs.
    fn first_difference(&self, now: &Said) -> String {
        for (path, content) in &self.parts {
            let Some(other) = now.parts.get(path) else {
                return format!("  {} is missing\n", path.display());
            };
            if content == other {
                continue;
            }
            let (one, other) = (String::from_utf8_lossy(content), String::from_utf8_lossy(other));
            let differs = one.lines().zip(other.lines()).enumerate().find(|(_, (a, b))| a != b);
            return match differs {
                Some((n, (a, b))) => {
                    format!(
                        "  {}:{}\n  before: {a:.2000}\n  now:    {b:.2000}\n",
                        path.display(),
                        n + 1
                    )
                }
                None => format!("  {}: one ends before the other\n", path.display()),
            };
        }
        "  only the exit code differs, or more is written\n".to_owned()
    }
}

/// A replay's result without what is another one each time.
fn steady(outcome: &Outcome) -> Result<Vec<u8>, Complaint> {
    let mut result: serde_json::Value = serde_json::from_slice(&outcome.stdout)
        .map_err(|error| format!("replay: {error}; it said:\n{}", outcome.errors()))?;
    if let Some(members) = result.as_object_mut() {
        members.retain(|name, _| !OF_THE_RUN.contains(&name.as_str()));
    }
    serde_json::to_vec_pretty(&result).map_err(|error| error.to_string())
}

/// Leaves of a report its data: scripts and styles may change.
fn data_alone(page: &mut Vec<u8>) {
    let text = String::from_utf8_lossy(page);
    let data = text.split_once("<script type=\"application/json\"");
    let data = data.and_then(|(_, after)| after.split_once("</script>"));
    if let Some((data, _)) = data {
        *page = data.as_bytes().to_vec();
    }
}

fn gather(
    path: &Path,
    name: &Path,
    parts: &mut BTreeMap<PathBuf, Vec<u8>>,
) -> Result<(), Complaint> {
    let told = |error| format!("{}: {error}", path.display());
    let Ok(meta) = fs::symlink_metadata(path) else { return Ok(()) };
    if meta.is_dir() {
        for entry in fs::read_dir(path).map_err(told)? {
            let entry = entry.map_err(told)?;
            gather(&entry.path(), &name.join(entry.file_name()), parts)?;
        }
    } else if meta.is_symlink() {
        let target = fs::read_link(path).map_err(told)?;
        parts.insert(name.to_path_buf(), target.into_os_string().into_encoded_bytes());
    } else if meta.is_file() {
        parts.insert(name.to_path_buf(), fs::read(path).map_err(told)?);
    }
    Ok(())
}
