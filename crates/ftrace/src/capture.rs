//! Events that are being taken: an instance with the chosen events, or rings of them.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::buffer::{CpuBuffer, bytes_most};
use crate::classes::{self, CLASSES, fits};
use crate::error::Error;
use crate::format::Format;
use crate::instance::{Instance, SWITCH, Tracefs, write};
use crate::ring::{self, Clock, Now, Ring};

/// Events chosen at most.
const EVENTS_MAX: usize = 4096;
/// Length of a format file.
const FORMAT_BYTES_MAX: u64 = 1 << 20;
/// Highest number of a CPU.
const CPUS_MAX: u32 = 8191;
/// Threads of our own that are told apart.
const OWN_THREADS_MAX: usize = 64;
/// Systems whose events are calls.
const CALL_SYSTEMS: [&str; 2] = ["raw_syscalls", "syscalls"];
/// An id that no thread has: the kernel gives none as high.
const NO_THREAD: u32 = (1 << 22) - 1;

/// What is to be taken.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Classes by name, and events as `SYSTEM:EVENT` with `*` for any characters; the latter also as
    /// `SYSTEM:EVENT:CONDITION` or `EVENT:CONDITION`, with a condition on fields as the kernel has it.
    pub events: Vec<String>,
    /// Events that are taken besides, for our own purposes, written in the same way.
    pub also: Vec<String>,
    /// Classes and events, written in the same way but without conditions, whose fields are wanted;
    /// `None`: those of all.
    pub details: Option<Vec<String>>,
    /// Bytes of the buffer of each CPU, which grows where they are not enough.
    pub buffer_bytes: u64,
    /// The CPUs, all if there are none.
    pub cpus: Vec<u32>,
}

/// Which of the wanted events a capture takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// All of them.
    All,
    /// Those that may be about a thread while another one runs.
    OfAnyThread,
    /// The others: those of threads that [`Admission`] names, and of those that they make.
    OfAdmitted,
}

/// Names threads whose events are taken.
#[derive(Clone, Debug)]
pub struct Admission(PathBuf);

impl Admission {
    /// Takes the events of a thread from now on, and of those that it makes.
    ///
    /// The kernel copies its list of threads for that, and forgets those that are made meanwhile: it is
    /// to be done as seldom as can be.
    pub fn admit(&self, task: u32) {
        // A thread that is gone does nothing more.
        let _ = write(&self.0, &task.to_string(), true);
    }
}

/// Systems whose events may be about another thread than that which runs.
const OF_ANY_THREAD: [&str; 12] = [
    "sched",
    "task",
    "irq",
    "irq_vectors",
    "timer",
    "block",
    "ipi",
    "nmi",
    "power",
    "cgroup",
    "signal",
    "raw_syscalls",
];

/// What the kernel's own tracers write: no events that can be asked for.
const OF_TRACERS: &str = "ftrace";

/// Events that are being taken. Ends with its buffers closed and its instance removed.
#[derive(Debug)]
pub struct Capture {
    // Closed before the instance is removed, which the kernel refuses otherwise.
    buffers: Vec<CpuBuffer>,
    formats: Vec<Format>,
    has_details: Vec<bool>,
    /// Events that have conditions, with these.
    conditions: Vec<(String, String)>,
    missing: Vec<String>,
    wanted: usize,
    /// None where tracefs can only be read.
    instance: Option<Instance>,
}

impl Capture {
    /// Makes an instance with what is wanted, or rings where none can be made, of all parts then. Nothing
    /// is taken before [`Capture::begin`].
    pub fn new(tracefs: &Tracefs, wanted: &Wanted, part: Part, now: Now) -> Result<Capture, Error> {
        let part = if tracefs.is_only_read() { Part::All } else { part };
        let all = all_events(&tracefs.events())?;
        let (mut chosen, missing) = choose(&all, &wanted.events)?;
        chosen.retain(|event| is_of(part, event));
        let count = chosen.len();
        for word in &wanted.also {
            let patterns = [pattern_of(word).unwrap_or_default()];
            let more = all.iter().filter(|event| fits(&patterns[0], event) && is_of(part, event));
            chosen.extend(
                more.filter(|event| !chosen[..count].contains(event)).cloned().collect::<Vec<_>>(),
            );
        }
        let has_details = match &wanted.details {
            None => vec![true; chosen.len()],
            Some(words) => {
                let patterns = patterns_of(words)?;
                let has = |event: &String| patterns.iter().any(|pattern| fits(pattern, event));
                chosen.iter().map(has).collect()
            }
        };
        let mut formats = Vec::with_capacity(chosen.len());
        for event in &chosen {
            formats.push(format_of(&tracefs.events(), event)?);
        }
        let (buffers, instance) = if tracefs.is_only_read() {
            (rings(&formats, wanted, now)?, None)
        } else {
            let (buffers, instance) = instance(tracefs, wanted, part)?;
            (buffers, Some(instance))
        };
        let mut capture = Capture {
            buffers,
            formats,
            has_details,
            conditions: Vec::new(),
            missing,
            wanted: count,
            instance,
        };
        let mut applied = Vec::new();
        let conditions = wanted.events.iter().chain(&wanted.also);
        let conditions: Vec<(String, &str)> =
            conditions.filter_map(|word| Some((pattern_of(word)?, condition_of(word)?))).collect();
        for (at, (format, event)) in capture.formats.iter().zip(&chosen).enumerate() {
            for (_, condition) in conditions.iter().filter(|(pattern, _)| fits(pattern, event)) {
                let is_ours = wanted.also.iter().any(|word| condition_of(word) == Some(*condition));
                // What was asked for without a condition is not thinned by one of ours.
                if is_ours != (at >= count) {
                    continue;
                }
                capture.filter(format, condition)?;
                applied.push((event.clone(), condition.to_string()));
            }
            if let Some(instance) = &capture.instance {
                instance.add("set_event", &format!("{}:{}\n", format.system, format.name))?;
            }
        }
        capture.conditions = applied;
        Ok(capture)
    }

    /// Takes an event only where a condition on its fields holds.
    fn filter(&self, format: &Format, condition: &str) -> Result<(), Error> {
        let event = format!("{}/{}", format.system, format.name);
        let refused = |why: &str| {
            let event = event.replace('/', ":");
            Error::Unknown(format!("'{condition}' is not a condition on {event}: {why}"))
        };
        let Some(instance) = &self.instance else {
            let mut rings = self.buffers.iter().filter_map(CpuBuffer::ring);
            let filtered = rings.try_for_each(|ring| ring.filter(format.id, condition));
            return filtered.map_err(|error| refused(&error.to_string()));
        };
        let file = format!("events/{event}/filter");
        instance.set(&file, condition).map_err(|_| {
            let why = said_of_filter(&instance.file(&file)).unwrap_or_default();
            let last = why.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
            refused(last.trim_start_matches("parse_error: "))
        })
    }

    /// How many of the formats are of events that were asked for; those behind them are ours.
    pub fn wanted(&self) -> usize {
        self.wanted
    }

    /// Whether the fields of each of the formats are wanted.
    pub fn has_details(&self) -> &[bool] {
        &self.has_details
    }

    /// Names the threads whose events are taken, of a capture of [`Part::OfAdmitted`].
    pub fn admission(&self) -> Option<Admission> {
        Some(Admission(self.instance.as_ref()?.file("set_event_pid")))
    }

    /// Returns true if not all events of a kind, `SYSTEM/EVENT`, are taken.
    pub fn has_condition(&self, event: &str) -> bool {
        self.conditions.iter().any(|(of, _)| of == event)
    }

    /// Takes events from now on.
    pub fn begin(&self) -> Result<(), Error> {
        self.switch(true)
    }

    /// Takes no more; what was taken can still be read.
    pub fn end(&self) -> Result<(), Error> {
        self.switch(false)
    }

    fn switch(&self, is_on: bool) -> Result<(), Error> {
        match &self.instance {
            Some(instance) => instance.set(SWITCH, if is_on { "1" } else { "0" }),
            None => {
                let mut rings = self.buffers.iter().filter_map(CpuBuffer::ring);
                let switched = rings.try_for_each(|ring| ring.switch(is_on));
                switched.map_err(|source| Error::of(Path::new("perf_event_open"), source))
            }
        }
    }

    /// Leaves out what the threads that this process has by now do, as far as it is about no other. Of
    /// those that they make later no event tells whose they are.
    pub fn leave_out_own_threads(&self) -> Result<(), Error> {
        let Some(instance) = &self.instance else {
            let is_own = |format: &Format| {
                let system = format.system.as_str();
                CALL_SYSTEMS.contains(&system) || !OF_ANY_THREAD.contains(&system)
            };
            return self.leave_out(is_own);
        };
        for tid in own_threads()? {
            instance.add("set_event_notrace_pid", &tid.to_string())?;
        }
        Ok(())
    }

    /// Leaves out the calls of the threads that this process has by now: one that reads buffers would
    /// fill them by reading. What interrupts them is about others, and is taken.
    pub fn leave_out_own_calls(&self) -> Result<(), Error> {
        self.leave_out(|format| CALL_SYSTEMS.contains(&format.system.as_str()))
    }

    /// Leaves out some events of the threads that this process has by now.
    fn leave_out(&self, which: impl Fn(&Format) -> bool) -> Result<(), Error> {
        let tasks = own_threads()?;
        let others: Vec<String> = tasks.iter().map(|tid| format!("common_pid!={tid}")).collect();
        let others = others.join("&&");
        for format in self.formats.iter().filter(|format| which(format)) {
            let event = format!("{}/{}", format.system, format.name);
            let condition = self.conditions.iter().find(|(of, _)| *of == event);
            let filter = match condition {
                Some((_, condition)) => format!("({condition})&&{others}"),
                None => others.clone(),
            };
            self.filter(format, &filter)?;
        }
        Ok(())
    }

    /// How its events are written.
    pub fn formats(&self) -> &[Format] {
        &self.formats
    }

    /// What was asked for by name, and this kernel does not have.
    pub fn missing(&self) -> &[String] {
        &self.missing
    }

    /// The buffers of the CPUs.
    pub fn buffers(&mut self) -> &mut [CpuBuffer] {
        &mut self.buffers
    }
}

/// Makes an instance of tracefs, with its buffers.
fn instance(
    tracefs: &Tracefs,
    wanted: &Wanted,
    part: Part,
) -> Result<(Vec<CpuBuffer>, Instance), Error> {
    let instance = tracefs.instance(if part == Part::OfAdmitted { "-own" } else { "" })?;
    instance.set(SWITCH, "0")?;
    instance.use_time_stamp_counter()?;
    instance.set("buffer_size_kb", &wanted.buffer_bytes.div_ceil(1024).max(4).to_string())?;
    let page_bytes = instance.page_bytes();
    let cpus = instance.cpus()?;
    let sizes = [wanted.buffer_bytes, bytes_most(wanted.buffer_bytes, cpus.len())];
    let buffers =
        cpus.into_iter().map(|(cpu, folder)| CpuBuffer::open(cpu, &folder, page_bytes, sizes));
    let buffers = buffers.collect::<Result<_, _>>()?;
    if part == Part::OfAdmitted {
        instance.set("options/event-fork", "1")?;
        // An empty list would be that of all threads.
        instance.set("set_event_pid", &NO_THREAD.to_string())?;
    }
    if !wanted.cpus.is_empty() {
        instance.set("tracing_cpumask", &mask(&wanted.cpus))?;
    }
    Ok((buffers, instance))
}

/// Makes rings of these events, one for each CPU.
fn rings(formats: &[Format], wanted: &Wanted, now: Now) -> Result<Vec<CpuBuffer>, Error> {
    let numbers: Vec<u16> = formats.iter().map(|format| format.id).collect();
    let clock = Arc::new(Clock::new(now));
    let is_wanted = |cpu: &u32| wanted.cpus.is_empty() || wanted.cpus.contains(cpu);
    let cpus = ring::cpus();
    // Rings cannot grow, and have the events of all threads.
    let bytes = bytes_most(wanted.buffer_bytes, cpus.len());
    let of = |cpu: u32| {
        let ring = Ring::new(cpu, &numbers, bytes, &clock);
        let ring = ring.map_err(|source| Error::of(Path::new("perf_event_open"), source))?;
        Ok(CpuBuffer::of_ring(cpu, ring))
    };
    cpus.into_iter().filter(is_wanted).map(of).collect()
}

/// The threads of this process.
fn own_threads() -> Result<Vec<u32>, Error> {
    let folder = Path::new("/proc/self/task");
    let tasks = fs::read_dir(folder).map_err(|source| Error::of(folder, source))?;
    let ids = tasks.flatten().filter_map(|task| task.file_name().to_str()?.parse().ok());
    Ok(ids.take(OWN_THREADS_MAX).collect())
}

/// What the kernel says of a filter that it has refused. It says so to the first read alone.
fn said_of_filter(file: &Path) -> std::io::Result<String> {
    let mut text = vec![0; 4096];
    let length = fs::File::open(file)?.read(&mut text)?;
    Ok(String::from_utf8_lossy(&text[..length]).into_owned())
}

/// All events of this kernel that can be taken, as `SYSTEM/EVENT`.
fn all_events(folder: &Path) -> Result<Vec<String>, Error> {
    let failed = |source| Error::of(folder, source);
    let mut all = Vec::new();
    for system in fs::read_dir(folder).map_err(failed)?.flatten() {
        let Ok(events) = fs::read_dir(system.path()) else { continue };
        let Ok(system) = system.file_name().into_string() else { continue };
        if system == OF_TRACERS {
            continue;
        }
        for event in events.flatten() {
            let is_folder = event.file_type().is_ok_and(|kind| kind.is_dir());
            if let (true, Ok(event)) = (is_folder, event.file_name().into_string()) {
                all.push(format!("{system}/{event}"));
            }
        }
    }
    all.sort();
    Ok(all)
}

/// Which of all events are wanted, and what is wanted that there is not.
fn choose(all: &[String], wanted: &[String]) -> Result<(Vec<String>, Vec<String>), Error> {
    let mut patterns = patterns_of(wanted)?;
    let chosen = |event: &&String| patterns.iter().any(|pattern| fits(pattern, event));
    let chosen: Vec<String> = all.iter().filter(chosen).cloned().collect();
    if chosen.is_empty() {
        let words = wanted.join(",");
        return Err(Error::Unknown(format!(
            "this kernel has no event '{words}': `ls /sys/kernel/tracing/events/*` shows those that it has"
        )));
    }
    if chosen.len() > EVENTS_MAX {
        let count = chosen.len();
        return Err(Error::Unknown(format!(
            "{count} events are asked for, and {EVENTS_MAX} can be taken"
        )));
    }
    let is_missing = |pattern: &String| !all.iter().any(|event| fits(pattern, event));
    patterns.retain(is_missing);
    Ok((chosen, patterns.iter().map(|pattern| pattern.replace('/', ":")).collect()))
}

/// The patterns of classes and of single events.
fn patterns_of(words: &[String]) -> Result<Vec<String>, Error> {
    let mut patterns: Vec<String> = Vec::new();
    for word in words {
        match (classes::class(word), pattern_of(word)) {
            _ if word.ends_with(':') => {
                return Err(Error::Unknown(format!("'{word}' has no condition behind the colon")));
            }
            (Some(class), _) => patterns.extend(class.events.iter().map(|&event| event.into())),
            (None, Some(pattern)) => patterns.push(pattern),
            (None, None) => {
                let names: Vec<&str> = CLASSES.iter().map(|class| class.name).collect();
                return Err(Error::Unknown(format!(
                    "'{word}' is not a class of events; there are {}; single events are named \
                     SYSTEM:EVENT",
                    names.join(", ")
                )));
            }
        }
    }
    Ok(patterns)
}

/// Where the condition of a word begins, behind a colon.
fn condition_at(word: &str) -> Option<usize> {
    let operator = word.find(['=', '<', '>', '&', '~', '!'])?;
    word[..operator].rfind(':')
}

/// The condition on fields that a word has.
fn condition_of(word: &str) -> Option<&str> {
    condition_at(word).map(|at| &word[at + 1..])
}

/// The events that a word names, as a pattern; `None` if it can only be a class.
fn pattern_of(word: &str) -> Option<String> {
    let condition = condition_at(word);
    match (word[..condition.unwrap_or(word.len())].split_once(':'), condition) {
        (Some((system, event)), _) => Some(format!("{system}/{event}")),
        (None, Some(at)) => Some(format!("*/{}", &word[..at])),
        (None, None) => None,
    }
}

fn is_of(part: Part, event: &str) -> bool {
    let system = event.split('/').next().unwrap_or_default();
    match part {
        Part::All => true,
        Part::OfAnyThread => OF_ANY_THREAD.contains(&system),
        Part::OfAdmitted => !OF_ANY_THREAD.contains(&system),
    }
}

/// A set of CPUs, as the kernel reads it: 32 of them in a word, the highest first.
fn mask(cpus: &[u32]) -> String {
    let highest = cpus.iter().copied().max().unwrap_or(0).min(CPUS_MAX) as usize;
    let mut words = vec![0u32; highest / 32 + 1];
    for cpu in cpus.iter().filter(|cpu| **cpu <= CPUS_MAX) {
        words[*cpu as usize / 32] |= 1 << (cpu % 32);
    }
    let words: Vec<String> = words.iter().rev().map(|word| format!("{word:x}")).collect();
    words.join(",")
}

fn format_of(folder: &Path, event: &str) -> Result<Format, Error> {
    let path: PathBuf = folder.join(event).join("format");
    let failed = |source| Error::of(&path, source);
    let mut text = String::new();
    let file = fs::File::open(&path).map_err(failed)?;
    std::io::Read::read_to_string(&mut std::io::Read::take(file, FORMAT_BYTES_MAX), &mut text)
        .map_err(failed)?;
    let system = event.split('/').next().unwrap_or_default();
    Format::parse(system, &text).map_err(|why| Error::Format { path: path.clone(), why })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<String> {
        ["irq/irq_handler_entry", "sched/sched_switch", "sched/sched_waking", "timer/tick_stop"]
            .map(String::from)
            .to_vec()
    }

    fn chosen(words: &[&str]) -> Result<(Vec<String>, Vec<String>), String> {
        let words: Vec<String> = words.iter().map(|&word| word.into()).collect();
        choose(&all(), &words).map_err(|error| error.to_string())
    }

    #[test]
    fn classes_and_single_events_are_chosen() {
        assert_eq!(chosen(&["timer"]).unwrap(), (vec!["timer/tick_stop".into()], vec![]));
        let (events, missing) = chosen(&["sched:*_switch", "irq"]).unwrap();
        assert_eq!(events, ["irq/irq_handler_entry", "sched/sched_switch"]);
        assert!(missing.contains(&"irq_vectors:*_entry".to_string()), "{missing:?}");
        // An event that two words ask for is there once.
        assert_eq!(chosen(&["sched:sched_switch", "sched:*"]).unwrap().0.len(), 2);
        assert!(chosen(&["nothing"]).unwrap_err().contains("there are core, sched"));
        assert!(chosen(&["xfs:*"]).unwrap_err().contains("has no event 'xfs:*'"));
        assert!(chosen(&["sched:sched_switch:"]).unwrap_err().contains("no condition"));
    }

    #[test]
    fn conditions_follow_events() {
        let word = |word: &str| (pattern_of(word), condition_of(word).map(String::from));
        let is = |pattern: &str, condition: &str| (Some(pattern.into()), Some(condition.into()));
        assert_eq!(word("sched_switch:prev_state!=0"), is("*/sched_switch", "prev_state!=0"));
        assert_eq!(word("sched:sched_*:prev_pid==7"), is("sched/sched_*", "prev_pid==7"));
        assert_eq!(word("a:b:comm==\"x:y\""), is("a/b", "comm==\"x:y\""));
        assert_eq!(word("sched:*"), (Some("sched/*".into()), None));
        assert_eq!(word("core"), (None, None));
        assert_eq!(chosen(&["sched_switch:prev_state==0"]).unwrap().0, ["sched/sched_switch"]);
    }

    #[test]
    fn sets_of_cpus_are_words() {
        assert_eq!(mask(&[0, 1]), "3");
        assert_eq!(mask(&[33, 0]), "2,1");
        assert_eq!(mask(&[u32::MAX]).split(',').count(), CPUS_MAX as usize / 32 + 1);
    }
}
