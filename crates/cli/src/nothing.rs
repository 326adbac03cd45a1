//! What to say where no event of a recording is chosen.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use model::decode::shape::shape_of;
use model::{Conditions, Moment, Stored, Walk};
use render::amounts::{counted, show_count, show_time};
use render::escape::escaped;
use trace::Trace;
use trace::event::EventKind;

/// Limit for the names of one kind that are printed.
const NAMES_SHOWN: usize = 8;
/// Limit for those that are remembered.
const NAMES_MAX: usize = 1000;

/// What there is of a kind, by name, with the number of calls of each.
#[derive(Default)]
struct Names(BTreeMap<String, u64>);

impl Names {
    fn add(&mut self, name: impl FnOnce() -> String, is_wanted: bool) {
        if !is_wanted {
            return;
        }
        let name = name();
        if self.0.len() < NAMES_MAX || self.0.contains_key(&name) {
            *self.0.entry(name).or_default() += 1;
        }
    }

    /// Returns the most frequent ones with their counts.
    fn list(&self, has_counts: bool) -> String {
        let mut names: Vec<(&String, &u64)> = self.0.iter().collect();
        names.sort_by_key(|(_, count)| Reverse(**count));
        let more = if names.len() > NAMES_SHOWN { ", ..." } else { "" };
        let names: Vec<String> = names
            .into_iter()
            .take(NAMES_SHOWN)
            .map(|(name, count)| match has_counts {
                true => format!("{name} {}", show_count(*count)),
                false => name.clone(),
            })
            .collect();
        names.join(", ") + more
    }
}

/// What a recording has, up to the first event that is chosen.
#[derive(Default)]
pub struct Seen {
    is_chosen: bool,
    calls: u64,
    kernel_events: u64,
    last_ns: u64,
    names: Names,
    happenings: Names,
    pids: Names,
    tids: Names,
    paths: Names,
    programs: Names,
}

impl Seen {
    /// Adds an event, and whether it is chosen.
    pub fn add(&mut self, moment: &Moment<'_>, conditions: &Conditions, is_chosen: bool) {
        self.is_chosen |= is_chosen;
        if self.is_chosen {
            return;
        }
        self.last_ns = self.last_ns.max(moment.enter_ns);
        let asked = Asked::of(conditions);
        if let Some(pid) = moment.pid {
            self.pids.add(|| pid.to_string(), asked.pids);
        }
        if let Some(tid) = moment.tid {
            self.tids.add(|| tid.to_string(), asked.tids);
        }
        let process = moment.process().and_then(|number| moment.world.process(number));
        if let Some(process) = process.filter(|process| !process.exe.is_empty()) {
            let name = process.exe.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
            self.programs.add(|| escaped(name), asked.programs);
        }
        match &moment.event.kind {
            EventKind::Call(call) => {
                self.calls += 1;
                self.names.add(|| shape_of(call).name.into_owned(), asked.calls);
                for (_, path) in &moment.step.paths {
                    self.paths.add(|| escaped(path), asked.paths);
                }
            }
            EventKind::Kernel(event) => {
                self.kernel_events += 1;
                let layout = moment.world.kernel_layouts().get(event.layout);
                let name =
                    || layout.map_or("?".into(), |layout| escaped(layout.full_name().as_bytes()));
                self.happenings.add(name, asked.events);
            }
            kind => {
                let name = kind.row().map_or("?", |row| row.name);
                self.happenings.add(|| name.to_string(), asked.events);
            }
        }
    }

    /// Returns the number of calls so far.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// Returns what to say, if no event was chosen.
    pub fn hint(&self, conditions: &Conditions) -> Option<String> {
        if self.is_chosen {
            return None;
        }
        let asked = Asked::of(conditions);
        let mut hint = match conditions.until_ns {
            Some(until) if self.calls == 0 => {
                format!("no event matches; no call began in the first {}", show_time(until))
            }
            _ => format!(
                "no event matches; the recording has {}",
                counted(self.calls, "call", "calls")
            ),
        };
        if self.kernel_events > 0 {
            let events = counted(self.kernel_events, "event", "events");
            hint.push_str(&format!(" and {events} of the kernel"));
        }
        if asked.calls && !self.names.0.is_empty() {
            hint.push_str(&format!(": {}", self.names.list(true)));
        }
        if conditions.since_ns.is_some_and(|since| since > self.last_ns) {
            hint.push_str(&format!("; the last event is at {}", show_time(self.last_ns)));
        }
        for (title, names) in [
            ("events", &self.happenings),
            ("processes", &self.pids),
            ("threads", &self.tids),
            ("programs", &self.programs),
            ("paths", &self.paths),
        ] {
            if !names.0.is_empty() {
                hint.push_str(&format!("; {title} are {}", names.list(false)));
            }
        }
        Some(hint)
    }
}

/// What conditions are about: of that it is said what there is.
struct Asked {
    pids: bool,
    tids: bool,
    programs: bool,
    paths: bool,
    events: bool,
    calls: bool,
}

impl Asked {
    fn of(conditions: &Conditions) -> Asked {
        let Conditions { pids, tids, programs, paths, events, calls, .. } = conditions;
        let [pids, tids] = [pids, tids].map(|ids| !ids.is_empty());
        let [programs, paths] = [programs, paths].map(|globs| !globs.is_empty());
        let events = events.is_some();
        let is_other = pids || tids || programs || paths || events;
        Asked { pids, tids, programs, paths, events, calls: calls.is_some() || !is_other }
    }
}

/// Returns what to say of a trace in which no event is chosen. `None` where one is, and where nothing was
/// asked for.
pub fn hint(trace: &Trace, conditions: &Conditions) -> Option<String> {
    if conditions.accepts_all() {
        return None;
    }
    let (mut seen, mut walk) = (Seen::default(), Walk::default());
    let (clock, mut stored) = (model::clock(trace), Stored(trace));
    for next in trace.events().flatten() {
        walk.event(&next, &clock, &mut stored, |moment, _| {
            seen.add(moment, conditions, conditions.accepts(moment));
        });
        if seen.is_chosen {
            return None;
        }
    }
    seen.hint(conditions)
}
