//! Events that are being taken: an instance with the chosen events.

use std::fs;
use std::path::{Path, PathBuf};

use crate::buffer::CpuBuffer;
use crate::classes::{self, CLASSES, fits};
use crate::error::Error;
use crate::format::Format;
use crate::instance::{Instance, Tracefs};

/// Events chosen at most.
const EVENTS_MAX: usize = 4096;
/// Length of a format file.
const FORMAT_BYTES_MAX: u64 = 1 << 20;

/// What is to be taken.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Classes by name, and events as `SYSTEM:EVENT` with `*` for any characters.
    pub events: Vec<String>,
    /// Bytes of the buffer of each CPU.
    pub buffer_bytes: u64,
}

/// Events that are being taken. Ends with its buffers closed and its instance removed.
#[derive(Debug)]
pub struct Capture {
    // Closed before the instance is removed, which the kernel refuses otherwise.
    buffers: Vec<CpuBuffer>,
    formats: Vec<Format>,
    missing: Vec<String>,
    instance: Instance,
}

impl Capture {
    /// Makes an instance with what is wanted. Nothing is taken before [`Capture::begin`].
    pub fn new(tracefs: &Tracefs, wanted: &Wanted) -> Result<Capture, Error> {
        let all = all_events(&tracefs.events())?;
        let (chosen, missing) = choose(&all, &wanted.events)?;
        let mut formats = Vec::with_capacity(chosen.len());
        for event in &chosen {
            formats.push(format_of(&tracefs.events(), event)?);
        }
        let instance = tracefs.instance()?;
        instance.set("tracing_on", "0")?;
        instance.use_time_stamp_counter()?;
        instance.set("buffer_size_kb", &wanted.buffer_bytes.div_ceil(1024).max(4).to_string())?;
        let page_bytes = instance.page_bytes();
        let buffers = instance
            .cpus()?
            .into_iter()
            .map(|(cpu, folder)| CpuBuffer::open(cpu, &folder, page_bytes))
            .collect::<Result<_, _>>()?;
        for format in &formats {
            instance.add("set_event", &format!("{}:{}\n", format.system, format.name))?;
        }
        Ok(Capture { buffers, formats, missing, instance })
    }

    /// Takes events from now on.
    pub fn begin(&self) -> Result<(), Error> {
        self.instance.set("tracing_on", "1")
    }

    /// Takes no more; what was taken can still be read.
    pub fn end(&self) -> Result<(), Error> {
        self.instance.set("tracing_on", "0")
    }

    /// Leaves out what the threads of this process do, as far as it is about no other. Those that
    /// they make later are not left out.
    pub fn leave_out_own_threads(&self) -> Result<(), Error> {
        let folder = Path::new("/proc/self/task");
        let tasks = fs::read_dir(folder).map_err(|source| Error::of(folder, source))?;
        for task in tasks.flatten() {
            if let Some(tid) = task.file_name().to_str() {
                self.instance.add("set_event_notrace_pid", tid)?;
            }
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

/// All events of this kernel, as `SYSTEM/EVENT`.
fn all_events(folder: &Path) -> Result<Vec<String>, Error> {
    let failed = |source| Error::of(folder, source);
    let mut all = Vec::new();
    for system in fs::read_dir(folder).map_err(failed)?.flatten() {
        let Ok(events) = fs::read_dir(system.path()) else { continue };
        let Ok(system) = system.file_name().into_string() else { continue };
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
    let mut patterns: Vec<String> = Vec::new();
    for word in wanted {
        match (classes::class(word), word.split_once(':')) {
            (Some(class), _) => patterns.extend(class.events.iter().map(|&event| event.into())),
            (None, Some((system, event))) => patterns.push(format!("{system}/{event}")),
            (None, None) => {
                let names: Vec<&str> = CLASSES.iter().map(|class| class.name).collect();
                return Err(Error::Unknown(format!(
                    "'{word}' is no class of events; there are {}; single events are named \
                     SYSTEM:EVENT",
                    names.join(", ")
                )));
            }
        }
    }
    let chosen = |event: &&String| patterns.iter().any(|pattern| fits(pattern, event));
    let chosen: Vec<String> = all.iter().filter(chosen).cloned().collect();
    if chosen.is_empty() || chosen.len() > EVENTS_MAX {
        let count = chosen.len();
        return Err(Error::Unknown(format!(
            "of what is asked for, this kernel has {count} events; 1 to {EVENTS_MAX} can be taken"
        )));
    }
    let is_missing = |pattern: &String| !all.iter().any(|event| fits(pattern, event));
    patterns.retain(is_missing);
    Ok((chosen, patterns.iter().map(|pattern| pattern.replace('/', ":")).collect()))
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
        assert!(chosen(&["xfs:*"]).unwrap_err().contains("has 0 events"));
    }
}
