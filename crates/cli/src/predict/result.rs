//! Predictions, for people and programs.

use std::io::{self, Write};

use predict::Place;
use predict::run::Means;
use predict::{Configuration, Limits, Measured};
use render::amounts::{counted, show_size, show_time};
use render::escape::escaped;
use render::json::{Json, text};
use stats::same_device;
use stats::sheet::Table;

use super::recorded::Recorded;
use crate::failure::Failure;
use crate::stat::text::Look;
use crate::units::{size_word, time_word};
use crate::{stat, terminal};

/// Calls that are named as changed most.
const CHANGED: usize = 3;
/// In the JSON.
const CHANGED_IN_JSON: usize = 20;

/// What being recorded took is printed from this share of the run on.
const TOLD_SHARE: f64 = 0.01;

/// Shorter waits for the outside are not printed.
const OUTSIDE_S: f64 = 0.001;

/// What was predicted for one configuration in one way.
pub struct Prediction {
    configuration: Configuration,
    /// What sets the limits.
    pub by: Means,
    /// How it was predicted.
    pub method: &'static str,
    /// The runs that came to their end.
    pub runs: Vec<Measured>,
    /// Runs of the program itself, if any.
    pub actual: Vec<Measured>,
    /// Why there is none, if so.
    pub failed: Option<String>,
    /// Why a run ended early, if so: its time would be that of a part.
    incomplete: Option<String>,
}

impl Prediction {
    /// Begins without runs.
    pub fn new(configuration: Configuration, by: Means, method: &'static str) -> Prediction {
        Prediction {
            configuration,
            by,
            method,
            runs: Vec::new(),
            actual: Vec::new(),
            failed: None,
            incomplete: None,
        }
    }

    /// Adds a run, or why there is none.
    pub fn add(&mut self, run: Result<Measured, String>) {
        match run {
            Ok(Measured { incomplete: Some(why), .. }) => {
                self.incomplete.get_or_insert(why);
            }
            Ok(run) => self.runs.push(run),
            Err(error) => self.fail(error),
        }
    }

    /// Keeps the first reason.
    pub fn fail(&mut self, why: String) {
        self.failed.get_or_insert(why);
    }

    /// The configuration in words.
    pub fn name(&self) -> String {
        let words = [Some(self.place()), self.memory(), self.limits()];
        words.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }

    /// Where the files lie.
    pub fn place(&self) -> String {
        self.configuration.place.to_string()
    }

    /// How much memory there is, if that is limited.
    pub fn memory(&self) -> Option<String> {
        self.configuration.memory.map(size_word)
    }

    /// How slow the files are, if they are slowed down.
    pub fn limits(&self) -> Option<String> {
        Some(limits_in_words(&self.configuration.limits)).filter(|words| words != "-")
    }

    /// Returns the predicted time over that of the recorded run, less one.
    pub fn change(&self, recorded: &Recorded) -> Option<f64> {
        let predicted = median(&self.runs)?.seconds;
        (recorded.seconds > 0.0).then(|| predicted / recorded.seconds - 1.0)
    }

    /// Whether the times of its runs and of those of another one, predicted alike, are apart no further
    /// than each of them spreads.
    fn is_within_spread_of(&self, other: &Prediction) -> bool {
        let ((low, high), (other_low, other_high)) = (spread(&self.runs), spread(&other.runs));
        let have_spread = self.runs.len() > 1 && other.runs.len() > 1;
        self.method == other.method && have_spread && low <= other_high && other_low <= high
    }

    /// Returns predicted over actual time, less one.
    pub fn error(&self) -> Option<f64> {
        let (predicted, actual) = (median(&self.runs)?.seconds, median(&self.actual)?.seconds);
        (actual > 0.0).then(|| predicted / actual - 1.0)
    }

    /// Whether there is a time for it, of whole runs.
    pub fn is_there(&self) -> bool {
        self.failed.is_none() && self.incomplete.is_none()
    }

    /// Whether it has runs, and in none of them came anything out otherwise than recorded.
    fn matches(&self) -> bool {
        !self.runs.is_empty() && self.different() == 0
    }

    fn different(&self) -> u64 {
        self.runs.iter().map(|run| run.different).max().unwrap_or(0)
    }
}

/// Returns the run in the middle by time; of two in the middle the faster one, to which less has happened.
pub fn median(runs: &[Measured]) -> Option<&Measured> {
    let mut order: Vec<&Measured> = runs.iter().collect();
    order.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    order.get(order.len().saturating_sub(1) / 2).copied()
}

/// Returns the shortest and the longest time.
pub fn spread(runs: &[Measured]) -> (f64, f64) {
    let all = runs.iter().map(|run| run.seconds);
    (all.clone().fold(f64::INFINITY, f64::min), all.fold(0.0, f64::max))
}

fn limits_in_words(limits: &Limits) -> String {
    let mut parts = Vec::new();
    let speed = |name: &str, bytes: Option<u64>| {
        bytes.map(|bytes| format!("{name}={}/s", size_word(bytes)))
    };
    parts.extend(speed("read", limits.read_bytes));
    parts.extend(speed("write", limits.write_bytes));
    parts.extend(limits.iops.map(|iops| format!("iops={iops}")));
    parts.extend(limits.latency.map(|latency| format!("latency={}", time_word(latency))));
    if parts.is_empty() { "-".into() } else { parts.join(",") }
}

/// Everything that was predicted.
pub struct Report {
    /// Host and begin of the recording.
    pub recording: (String, u64),
    /// The same in words.
    pub when: String,
    /// What the recorded run took.
    pub recorded: Recorded,
    /// What was cached in the beginning.
    pub cache: &'static str,
    /// One for each configuration and method.
    pub predictions: Vec<Prediction>,
}

impl Report {
    /// Prints the table, and below it what it has no room for.
    pub fn text(&self, table: &Table, wide: bool) -> Result<(), Failure> {
        let width = terminal::width();
        let mut out = Vec::new();
        writeln!(out, "page cache {} at first", self.cache)?;
        let look = Look { width: width.filter(|_| !wide), ..Look::default() };
        stat::text::table(&mut out, table, look)?;
        let mut below = Vec::new();
        self.without_difference(&mut below)?;
        self.about_recorded(&mut below)?;
        let all_match = self.predictions.iter().all(Prediction::matches);
        if all_match && !self.predictions.is_empty() {
            writeln!(below, "all results and files that were compared are as recorded")?;
        }
        for one in &self.predictions {
            remarks(&mut below, one, all_match)?;
        }
        let below = String::from_utf8_lossy(&below);
        out.extend_from_slice(terminal::fit(&below, width, terminal::below).as_bytes());
        let mut stdout = io::stdout().lock();
        stdout.write_all(&out)?;
        Ok(stdout.flush()?)
    }

    /// Says what to know of the recorded run before something is compared with it.
    fn about_recorded(&self, out: &mut dyn Write) -> io::Result<()> {
        let Recorded { seconds, recording_s, waited_s, unknown_s, same_device, .. } = self.recorded;
        let when = escaped(self.when.as_bytes());
        writeln!(
            out,
            "recorded: {when}: disk and machine may be faster or slower now: compare with `--on` the same \
             file system"
        )?;
        let is_told = |part: f64| part >= seconds * TOLD_SHARE && part > 0.0;
        let replays = self.predictions.iter().any(|one| one.method == "replay" && one.is_there());
        if replays && self.recorded.user_s.is_none() {
            writeln!(
                out,
                "recorded: what it computed in {unknown_s:.3} s between its calls is not known: a replay leaves \
                 it out, and may be too fast by that"
            )?;
        }
        if is_told(recording_s) {
            writeln!(out, "recorded: {recording_s:.3} s of that went to being recorded")?;
        }
        if is_told(waited_s) && self.predictions.iter().any(|one| one.method == "replay") {
            let what = "waits for time to pass, peers or terminals, which a replay leaves out";
            writeln!(out, "recorded: {waited_s:.3} s of that were {what}")?;
        }
        if same_device {
            writeln!(out, "recorded: {}", same_device::SAID)?;
        }
        Ok(())
    }

    /// Names the configurations whose times do not differ by more than their runs do.
    fn without_difference(&self, out: &mut dyn Write) -> io::Result<()> {
        for (at, one) in self.predictions.iter().enumerate() {
            let alike = self.within_spread(at, one);
            if !alike.is_empty() {
                let (name, method) = (one.name(), one.method);
                let alike = alike.join(", ");
                writeln!(out, "{name}, {method}: no difference beyond the spread to {alike}")?;
            }
        }
        let single = self.predictions.iter().filter(|one| one.runs.len() == 1).count();
        if single > 1 {
            let text = "one run each: whether a difference is more than chance is not known; --repeat 3 says";
            writeln!(out, "{text}")?;
        }
        let mut places = self.predictions.iter().map(|one| &one.configuration.place);
        if let Some(place @ Place::Fresh(_)) = places.next()
            && places.all(|other| other == place)
        {
            let text = "a file system that was just made may be faster than the one of the recording, whatever \
                        its kind: another `--on`, of that kind, says what the kind itself changes";
            writeln!(out, "{text}")?;
        }
        Ok(())
    }

    /// Names the later configurations whose times are not beyond the spread.
    fn within_spread(&self, at: usize, one: &Prediction) -> Vec<String> {
        let later = self.predictions.iter().skip(at + 1);
        later.filter(|other| one.is_within_spread_of(other)).map(Prediction::name).collect()
    }

    /// Prints one object.
    pub fn json(&self) -> Result<(), Failure> {
        let line = text(|json| {
            json.object(|json| {
                json.key("recording").object(|json| {
                    json.key("host").str(&self.recording.0);
                    json.key("began_ns").uint(self.recording.1);
                });
                json.key("recorded_s").float(self.recorded.seconds);
                json.key("recorded").object(|json| {
                    json.key("seconds").float(self.recorded.seconds);
                    json.key("user_s");
                    optional(json, self.recorded.user_s);
                    json.key("unknown_s").float(self.recorded.unknown_s);
                    json.key("recording_s").float(self.recorded.recording_s);
                    json.key("waited_s").float(self.recorded.waited_s);
                    json.key("same_device").bool(self.recorded.same_device);
                });
                json.key("cache").str(self.cache);
                json.key("predictions").array(|json| {
                    for (at, one) in self.predictions.iter().enumerate() {
                        json.object(|json| {
                            write(json, one);
                            json.key("change");
                            optional(json, one.change(&self.recorded));
                            let alike = self.within_spread(at, one);
                            json.key("within_spread_of").array(|json| {
                                alike.iter().for_each(|name| json.str(name));
                            });
                        });
                    }
                });
            });
        });
        let mut out = io::stdout().lock();
        writeln!(out, "{line}")?;
        Ok(out.flush()?)
    }
}

/// What the table has no room for.
fn remarks(out: &mut dyn Write, one: &Prediction, all_match: bool) -> io::Result<()> {
    let name = format!("{}, {}", one.name(), one.method);
    if let Some(why) = &one.failed {
        writeln!(out, "{name}: failed: {why}")?;
    }
    if let Some(why) = &one.incomplete {
        writeln!(out, "{name}: it ended early: {why}")?;
    }
    let different = one.different();
    if different > 0 {
        writeln!(out, "{name}: {different} results and files did not match the recording")?;
    }
    let Some(run) = median(&one.runs) else { return Ok(()) };
    if run.gaps > 0 {
        let gaps = counted(run.gaps, "gap", "gaps");
        writeln!(
            out,
            "{name}: the recording has {gaps} (see `reenact info`): what is missing took no time"
        )?;
    }
    if different == 0 && !all_match {
        writeln!(out, "{name}: all results and files that were compared are as recorded")?;
    }
    if let Some([recorded, counted]) = run.outside_s.filter(|[recorded, _]| *recorded >= OUTSIDE_S)
    {
        let counts =
            if counted > 0.0 { "in the time" } else { "not in the time: --stimuli recorded" };
        let told =
            format!("its threads waited {recorded:.3} s in all for the outside when recorded");
        writeln!(out, "{name}: {told}, {counts}")?;
    }
    disk(out, &name, run)?;
    let changed = run.changed_most(CHANGED);
    if !changed.is_empty() {
        let each = changed.iter().map(|(call, change)| {
            let (recorded, here) = (show_time(change.recorded_ns), show_time(change.here_ns));
            format!("{call} {recorded} -> {here} (x{})", change.count)
        });
        writeln!(out, "{name}: changed most: {}", each.collect::<Vec<_>>().join(", "))?;
    } else if one.method == "rerun" {
        writeln!(out, "{name}: no call on files was made, so none has another time than recorded")?;
    }
    if let Some(actual) = median(&one.actual) {
        writeln!(
            out,
            "{name}: actual: user {:.3} s, system {:.3} s, disk {}",
            actual.user_s,
            actual.system_s,
            show_size(actual.allocated_bytes)
        )?;
        disk(out, &format!("{name}: actual"), actual)?;
    }
    Ok(())
}

/// What the disk had to do, if that is known.
fn disk(out: &mut dyn Write, name: &str, run: &Measured) -> io::Result<()> {
    let Some([read, written]) = run.moved else { return Ok(()) };
    let (read, written) = (show_size(read), show_size(written));
    writeln!(out, "{name}: the disk read {read} and wrote {written} while it ran")
}

fn optional(json: &mut Json<'_>, value: Option<f64>) {
    match value {
        Some(value) => json.float(value),
        None => json.null(),
    }
}

fn write(json: &mut Json<'_>, one: &Prediction) {
    let limits = &one.configuration.limits;
    json.key("on").str(&one.configuration.place.to_string());
    json.key("memory_bytes").optional_uint(one.configuration.memory);
    json.key("limits").object(|json| {
        json.key("read_bytes").optional_uint(limits.read_bytes);
        json.key("write_bytes").optional_uint(limits.write_bytes);
        json.key("iops").optional_uint(limits.iops);
        let latency = limits.latency.map(|latency| latency.as_nanos() as u64);
        json.key("latency_ns").optional_uint(latency);
    });
    let by = (one.by != Means::None).then(|| one.by.name());
    json.key("set_by").optional_str(by);
    json.key("method").str(one.method);
    measured(json, &one.runs);
    let outside = median(&one.runs).and_then(|run| run.outside_s);
    json.key("outside_recorded_s");
    optional(json, outside.map(|outside| outside[0]));
    json.key("outside_s");
    optional(json, outside.map(|outside| outside[1]));
    json.key("different").uint(one.different());
    json.key("incomplete").optional_str(one.incomplete.as_deref());
    json.key("gaps").uint(median(&one.runs).map_or(0, |run| run.gaps));
    json.key("changed").array(|json| {
        let run = median(&one.runs).into_iter();
        for (call, change) in run.flat_map(|run| run.changed_most(CHANGED_IN_JSON)) {
            json.object(|json| {
                json.key("call").str(call);
                json.key("count").uint(change.count);
                json.key("recorded_ns").uint(change.recorded_ns);
                json.key("here_ns").uint(change.here_ns);
            });
        }
    });
    json.key("actual");
    match one.actual.is_empty() {
        true => json.null(),
        false => json.object(|json| measured(json, &one.actual)),
    }
    json.key("error");
    optional(json, one.error());
    json.key("failed").optional_str(one.failed.as_deref());
}

fn measured(json: &mut Json<'_>, runs: &[Measured]) {
    let middle = median(runs);
    let (low, high) = spread(runs);
    json.key("seconds");
    optional(json, middle.map(|run| run.seconds));
    json.key("min_s");
    optional(json, middle.map(|_| low));
    json.key("max_s");
    optional(json, middle.map(|_| high));
    json.key("user_s");
    optional(json, middle.map(|run| run.user_s));
    json.key("system_s");
    optional(json, middle.map(|run| run.system_s));
    json.key("allocated_bytes").optional_uint(middle.map(|run| run.allocated_bytes));
    let moved = middle.and_then(|run| run.moved);
    json.key("disk_read_bytes").optional_uint(moved.map(|moved| moved[0]));
    json.key("disk_written_bytes").optional_uint(moved.map(|moved| moved[1]));
    json.key("runs").array(|json| runs.iter().for_each(|run| json.float(run.seconds)));
}

#[cfg(test)]
pub mod tests {
    use predict::Place;

    use super::*;

    /// Returns a prediction of runs of these lengths.
    pub fn prediction(on: &str, seconds: &[f64]) -> Prediction {
        let place = Place::parse(on).expect("a place");
        let configuration = Configuration { place, memory: None, limits: Limits::default() };
        let mut one = Prediction::new(configuration, Means::None, "replay");
        for &seconds in seconds {
            one.add(Ok(Measured { seconds, ..Measured::default() }));
        }
        one
    }

    /// Returns a report about a recorded run of two seconds.
    pub fn report(predictions: Vec<Prediction>) -> Report {
        let waited_s = 0.5;
        let recorded = Recorded {
            seconds: 2.0,
            user_s: Some(0.5),
            unknown_s: 0.3,
            tells_computing: true,
            leaves_out_computing: false,
            recording_s: 0.1,
            waited_s,
            same_device: true,
        };
        Report {
            recording: ("h".into(), 7),
            when: "today on h\n".into(),
            recorded,
            cache: "warm",
            predictions,
        }
    }

    fn remarks_of(report: &Report) -> String {
        let mut out = Vec::new();
        report.about_recorded(&mut out).unwrap();
        report.without_difference(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn the_run_in_the_middle_of_an_even_number_is_the_faster_one() {
        let seconds = |all: &[f64]| median(&prediction("tmpfs", all).runs).map(|run| run.seconds);
        assert_eq!(seconds(&[2.0, 1.0]), Some(1.0));
        assert_eq!(seconds(&[4.0, 1.0, 3.0, 2.0]), Some(2.0));
        assert_eq!((seconds(&[3.0, 1.0, 2.0]), seconds(&[])), (Some(2.0), None));
    }

    #[test]
    fn what_the_recording_lacks_is_told() {
        let told = |gaps| {
            let mut one = prediction("ext4", &[]);
            one.add(Ok(Measured { seconds: 1.0, gaps, ..Measured::default() }));
            let mut out = Vec::new();
            remarks(&mut out, &one, true).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert!(told(2).contains("the recording has 2 gaps"), "{}", told(2));
        assert!(!told(0).contains("gap"), "{}", told(0));
    }

    #[test]
    fn times_within_the_spread_are_no_difference() {
        let said = remarks_of(&report(vec![
            prediction("ext4", &[2.0, 2.2, 2.4]),
            prediction("xfs", &[2.3, 2.5, 2.6]),
            prediction("tmpfs", &[1.0, 1.1, 1.2]),
        ]));
        let alike = "ext4, replay: no difference beyond the spread to xfs\n";
        assert!(said.contains(alike) && said.matches("no difference").count() == 1, "{said}");
        assert!(said.contains("0.100 s of that went to being recorded"), "{said}");
        assert!(said.contains("0.500 s of that were waits for time"), "{said}");
        assert!(said.contains("recorded: today on h\\n: disk and machine may"), "{said}");
        assert!(said.contains("recorded: the trace lay on the same device"), "{said}");
        assert!(!said.contains("not known"), "{said}");
        let mut partly = report(vec![prediction("ext4", &[2.0])]);
        partly.recorded.user_s = None;
        let said = remarks_of(&partly);
        assert!(said.contains("in 0.300 s between its calls is not known"), "{said}");
        let said = remarks_of(&report(vec![prediction("ext4", &[2.0]), prediction("xfs", &[2.0])]));
        assert!(said.contains("one run each") && !said.contains("no difference"), "{said}");
    }
}
