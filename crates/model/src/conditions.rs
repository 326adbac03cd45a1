//! Conditions on events, by which commands select what they show, count and export.

use std::collections::HashSet;
use std::fmt;

use syscalls::families;
use syscalls::shape::{ArgKind, Classes};
use trace::event::{Call, EventKind};
use trace::event_table::{self, EventClass, EventRow};

use crate::decode::shape::{Shape, shape_of};
use crate::kernel_events::kernel_rows;
use crate::{Moment, Step, Surroundings, World, glob};

/// Conditions on events; all must hold.
#[derive(Debug, Default, Clone)]
pub struct Conditions {
    /// Process ids, all if empty.
    pub pids: Vec<u32>,
    /// Thread ids, all if empty.
    pub tids: Vec<u32>,
    /// Process groups, all if empty.
    pub pgids: Vec<u32>,
    /// Sessions, all if empty.
    pub sids: Vec<u32>,
    /// Real user ids, all if empty.
    pub uids: Vec<u32>,
    /// Effective user ids, all if empty.
    pub euids: Vec<u32>,
    /// Patterns, one of which must match the program that the process runs: its file name, or the whole
    /// path if the pattern has a slash; any program if empty.
    pub programs: Vec<String>,
    /// CPUs on which events of the kernel happened, all if empty; of nothing else it is known.
    pub cpus: Vec<u32>,
    /// Calls by name and class, all if `None`.
    pub calls: Option<CallChoice>,
    /// Other events by kind and class. If `None`, all of them, but none if there is a condition that
    /// only calls can meet.
    pub events: Option<EventChoice>,
    /// Patterns, one of which must match a path of the call; any path if empty.
    pub paths: Vec<String>,
    /// Only calls that returned an error.
    pub failed: bool,
    /// First time, in nanoseconds since the start.
    pub since_ns: Option<u64>,
    /// Last time, in nanoseconds since the start.
    pub until_ns: Option<u64>,
    /// Only calls that took longer, in nanoseconds.
    pub slower_ns: Option<u64>,
}

impl Conditions {
    /// Returns true if an event, and thus every later one, begins too late.
    pub fn is_over(&self, enter_ns: u64) -> bool {
        self.until_ns.is_some_and(|until| enter_ns > until)
    }

    /// Returns true if there are no conditions.
    pub fn accepts_all(&self) -> bool {
        let times = [self.since_ns, self.until_ns, self.slower_ns];
        let any_time = times.iter().any(Option::is_some);
        let any_kind = self.calls.is_none() && self.events.is_none() && self.cpus.is_empty();
        !(self.needs_world() || !any_kind || self.failed || any_time)
    }

    /// Returns true if the conditions name processes, threads, CPUs and an end, and nothing else.
    pub fn only_name_whom(&self) -> bool {
        let (pids, tids, cpus) = (Vec::new(), Vec::new(), Vec::new());
        Conditions { pids, tids, cpus, until_ns: None, ..self.clone() }.accepts_all()
    }

    /// Returns true if the conditions name processes, threads, calls and times, and nothing else.
    pub fn only_name_calls(&self) -> bool {
        let (pids, tids) = (Vec::new(), Vec::new());
        Conditions { pids, tids, calls: None, ..self.clone() }.only_name_times()
    }

    /// Returns true if all between two moments is wanted.
    pub fn only_name_times(&self) -> bool {
        Conditions { since_ns: None, until_ns: None, ..self.clone() }.accepts_all()
    }

    /// Returns true if the conditions choose processes and threads, and nothing of what they do: all that
    /// one of them does between two moments is wanted, or none of it.
    pub fn only_choose_tasks(&self) -> bool {
        let none = Vec::new;
        let (pids, tids, pgids, sids) = (none(), none(), none(), none());
        let (uids, euids, programs) = (none(), none(), Vec::new());
        Conditions { pids, tids, pgids, sids, uids, euids, programs, ..self.clone() }.accepts_all()
    }

    /// Returns true if there is a condition that only calls can meet.
    fn is_about_calls(&self) -> bool {
        let by_name = self.calls.is_some() || !self.paths.is_empty();
        by_name || self.failed || self.slower_ns.is_some()
    }

    /// Returns true if the conditions need state that only a fold over all events has.
    pub fn needs_world(&self) -> bool {
        !(self.pids.is_empty() && self.tids.is_empty() && self.paths.is_empty())
            || self.needs_ties()
            || self.needs_credentials()
            || !self.programs.is_empty()
    }

    fn needs_ties(&self) -> bool {
        !(self.pgids.is_empty() && self.sids.is_empty())
    }

    fn needs_credentials(&self) -> bool {
        !(self.uids.is_empty() && self.euids.is_empty())
    }

    /// Checks the conditions on time.
    pub fn accepts_time(&self, enter_ns: u64) -> bool {
        self.since_ns.is_none_or(|since| enter_ns >= since) && !self.is_over(enter_ns)
    }

    /// Checks the conditions that depend on the call alone.
    pub fn accepts_alone(&self, call: &Call, duration_ns: Option<u64>) -> bool {
        self.accepts_shape(call, &shape_of(call), duration_ns)
    }

    /// Checks all conditions.
    pub fn accepts(&self, moment: &Moment<'_>) -> bool {
        if !self.accepts_time(moment.enter_ns) {
            return false;
        }
        // Gaps concern every selection.
        if matches!(moment.event.kind, EventKind::Gap { .. }) {
            return true;
        }
        let fits = |wanted: &[u32], id: Option<u32>| {
            wanted.is_empty() || id.is_some_and(|id| wanted.contains(&id))
        };
        if !fits(&self.pids, moment.pid) || !fits(&self.tids, moment.tid) {
            return false;
        }
        if !fits(&self.cpus, moment.event.cpu()) {
            return false;
        }
        if self.needs_ties() {
            let ties = moment.ties();
            if !fits(&self.pgids, ties.group) || !fits(&self.sids, ties.session) {
                return false;
            }
        }
        if self.needs_credentials() {
            let users = moment.credentials().map(|ids| ids.users).unwrap_or_default();
            if !fits(&self.uids, users.real) || !fits(&self.euids, users.effective) {
                return false;
            }
        }
        if !self.programs.is_empty() && !self.fits_program(moment) {
            return false;
        }
        match &moment.event.kind {
            EventKind::Call(call) => self.accepts_call(call, moment),
            kind => match &self.events {
                Some(events) => events.accepts(kind, moment.world),
                None => !self.is_about_calls(),
            },
        }
    }

    fn fits_program(&self, moment: &Moment<'_>) -> bool {
        let process = moment.process().and_then(|number| moment.world.process(number));
        let Some(process) = process else { return false };
        let names = [&process.exe[..], process.argv.iter().next().unwrap_or_default()];
        self.programs.iter().any(|glob| {
            let is_path = glob.contains('/');
            names.iter().any(|path| {
                let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
                glob::matches(glob.as_bytes(), if is_path { path } else { name })
            })
        })
    }

    fn accepts_call(&self, call: &Call, moment: &Moment<'_>) -> bool {
        let shape = shape_of(call);
        if !self.accepts_shape(call, &shape, moment.duration_ns()) {
            return false;
        }
        self.paths.is_empty() || self.touches(call, &shape, moment.step, &moment.view())
    }

    /// Checks the condition on names and classes for a call of which nothing but its number is known;
    /// `None` is what is done outside of calls.
    pub fn accepts_call_number(&self, nr: Option<u16>) -> bool {
        let Some(calls) = &self.calls else { return true };
        nr.is_some_and(|nr| calls.accepts(&shape_of(&Call { nr, ..Call::default() })))
    }

    fn accepts_shape(&self, call: &Call, shape: &Shape, duration_ns: Option<u64>) -> bool {
        let failed = call.error().is_some();
        let slower = |than: u64| duration_ns.is_some_and(|ns| ns > than);
        (self.events.is_none() || self.is_about_calls())
            && self.cpus.is_empty()
            && self.calls.as_ref().is_none_or(|calls| calls.accepts(shape))
            && (!self.failed || failed)
            && self.slower_ns.is_none_or(slower)
    }

    fn touches(&self, call: &Call, shape: &Shape, step: &Step, view: &Surroundings<'_>) -> bool {
        let fits = |path: &[u8]| self.paths.iter().any(|glob| glob::matches(glob.as_bytes(), path));
        step.paths.iter().any(|(_, path)| fits(path))
            || shape.args.iter().zip(call.args).any(|(arg, value)| {
                matches!(arg.kind, ArgKind::Fd | ArgKind::DirFd)
                    && view.fd(value as i32).is_some_and(|path| fits(&path))
            })
            || view.new_paths().any(|path| fits(&path))
    }
}

/// Selection of calls by name and class.
#[derive(Debug, Default, Clone)]
pub struct CallChoice {
    negated: bool,
    names: HashSet<String>,
    classes: Vec<Classes>,
    /// Names that were given and stand for other calls as well.
    families: Vec<String>,
    /// As it was given.
    text: String,
}

impl fmt::Display for CallChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl CallChoice {
    /// Parses a list of names and `%classes`, separated by commas. A leading `!` negates it. A name
    /// stands for all calls of its family.
    pub fn parse(text: &str) -> Result<CallChoice, String> {
        let (negated, list) = match text.strip_prefix('!') {
            Some(list) => (true, list),
            None => (false, text),
        };
        let mut filter = CallChoice { negated, text: text.into(), ..CallChoice::default() };
        for item in list.split(',') {
            if let Some(class) = item.strip_prefix('%') {
                let known = Classes::NAMES.iter().find(|(name, _)| *name == class);
                let (_, class) = known.ok_or_else(|| {
                    let names = class_names();
                    format!("unknown class of calls '%{class}'; known are {names}")
                })?;
                filter.classes.push(*class);
            } else if let Some(calls) = families::of(item) {
                filter.names.extend(calls.iter().map(|call| call.to_string()));
                filter.families.push(item.to_string());
            } else if syscalls::by_name(item).is_some() || is_raw_name(item) {
                filter.names.insert(item.to_string());
            } else {
                return Err(unknown_call(item));
            }
        }
        Ok(filter)
    }

    /// Returns what names stand for besides the call of that name, for people.
    pub fn notes(&self) -> impl Iterator<Item = String> {
        self.families.iter().map(|family| {
            let calls = families::of(family).unwrap_or_default().join(", ");
            format!("--call {family} stands for {calls}")
        })
    }

    /// Returns true if calls of this shape are selected.
    pub fn accepts(&self, shape: &Shape) -> bool {
        let named = self.names.contains(shape.name.as_ref())
            || self.classes.iter().any(|class| class.intersects(shape.classes));
        named != self.negated
    }
}

/// Selection of events other than calls by kind and class.
#[derive(Debug, Default, Clone)]
pub struct EventChoice {
    negated: bool,
    kinds: Vec<&'static EventRow>,
    /// Patterns for events of the kernel, as `SYSTEM:EVENT`.
    kernel: Vec<String>,
}

impl EventChoice {
    /// Parses a list of kinds, `%classes` and events of the kernel as `SYSTEM:EVENT` with `*` for any
    /// characters, separated by commas. A leading `!` negates it.
    pub fn parse(text: &str) -> Result<EventChoice, String> {
        let (negated, list) = match text.strip_prefix('!') {
            Some(list) => (true, list),
            None => (false, text),
        };
        let (mut kinds, mut kernel) = (Vec::new(), Vec::new());
        for item in list.split(',') {
            if item.starts_with('!') {
                return Err(format!(
                    "'{item}': ! stands before the whole list, and negates all of it"
                ));
            }
            if item.matches(':').count() > 1 {
                return Err(format!(
                    "'{item}': conditions on fields are for `record --kernel`; here events are chosen as \
                     SYSTEM:EVENT"
                ));
            }
            if item.contains(':') {
                kernel.push(item.to_string());
                continue;
            }
            if kernel_rows().any(|row| glob::matches(item.as_bytes(), row.name.as_bytes())) {
                kernel.push(format!("*:{item}"));
                continue;
            }
            let before = kinds.len();
            kinds.extend(event_table::rows().filter(|row| match item.strip_prefix('%') {
                Some(class) => row.class.name() == class,
                None => row.name == item,
            }));
            // The kernel has more events than are known here, and all their names are of several words.
            if kinds.len() == before && item.contains(['_', '*']) && !item.starts_with('%') {
                kernel.push(format!("*:{item}"));
            } else if kinds.len() == before {
                let names: Vec<&str> = event_table::rows().map(|row| row.name).collect();
                let classes = EventClass::NAMES.map(|(name, _)| format!("%{name}"));
                return Err(format!(
                    "'{item}' is not a kind of event; there are {}, the classes {}, and events of the \
                     kernel as SYSTEM:EVENT",
                    names.join(", "),
                    classes.join(", ")
                ));
            }
        }
        Ok(EventChoice { negated, kinds, kernel })
    }

    fn accepts(&self, kind: &EventKind, world: &World) -> bool {
        let by_kind = kind.row().is_some_and(|row| self.kinds.contains(&row));
        let named = by_kind || self.names(kind, world).unwrap_or(false);
        named != self.negated
    }

    /// Returns true if a pattern fits an event of the kernel.
    fn names(&self, kind: &EventKind, world: &World) -> Option<bool> {
        let EventKind::Kernel(event) = kind else { return None };
        if self.kernel.is_empty() {
            return None;
        }
        let name = world.kernel_layouts().get(event.layout)?.full_name();
        let fits = |glob: &String| glob::matches(glob.as_bytes(), name.as_bytes());
        Some(self.kernel.iter().any(fits))
    }
}

/// Returns the classes as they are written, each once.
pub fn class_names() -> String {
    let names = Classes::NAMES.iter().enumerate().filter(|(at, (_, class))| {
        // Further names of a class are known but not listed.
        Classes::NAMES[..*at].iter().all(|(_, before)| before != class)
    });
    names.map(|(_, (name, _))| format!("%{name}")).collect::<Vec<_>>().join(", ")
}

fn is_raw_name(name: &str) -> bool {
    name.strip_prefix("syscall_").is_some_and(|number| number.parse::<u16>().is_ok())
}

fn unknown_call(name: &str) -> String {
    let mut close: Vec<&str> = syscalls::table::ROWS
        .iter()
        .flat_map(|rows| rows.iter())
        .map(|row| row.name)
        .filter(|known| name.len() > 2 && (known.contains(name) || name.contains(known)))
        .collect();
    close.sort_unstable();
    close.truncate(6);
    let hint = match close[..] {
        [] => "names are those of the kernel (openat, pread64), classes begin with %".to_string(),
        _ => format!("did you mean {}?", close.join(", ")),
    };
    format!("unknown system call '{name}'; {hint}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace::event::{Event, KernelEvent, KernelLayout, Outcome};

    fn call(nr: u16) -> Call {
        let outcome = Outcome::Returned { exit_tsc: 0, ret: 0 };
        let (data, identities) = (Vec::new(), Vec::new());
        Call { nr, flags: 0, site: 0, nargs: 0, args: [0; 6], outcome, data, identities }
    }

    fn shape(nr: u16) -> Shape {
        shape_of(&call(nr))
    }

    #[test]
    fn names_classes_and_negation() {
        let read = shape(0);
        let raw = shape(499);
        let check = |text: &str| CallChoice::parse(text).unwrap();
        assert!(check("read").accepts(&read));
        assert!(check("%desc").accepts(&read));
        assert!(check("openat,read").accepts(&read));
        assert!(!check("!openat,read").accepts(&read));
        assert!(!check("openat").accepts(&read));
        assert!(check("!%network").accepts(&read));
        assert!(check("syscall_499").accepts(&raw));
        assert!(!check("%file").accepts(&raw));
        let openat = shape(257);
        assert!(check("open").accepts(&openat) && !check("!open").accepts(&openat));
        assert_eq!(check("read,open").notes().count(), 1);
    }

    #[test]
    fn events_have_names_and_classes() {
        let check = |text: &str| EventChoice::parse(text).unwrap();
        let mut world = World::default();
        let (stall, end) = (EventKind::Stall { ns: 1 }, EventKind::End { calls: 1 });
        assert!(check("stall").accepts(&stall, &world) && !check("stall").accepts(&end, &world));
        assert!(check("%task").accepts(&end, &world) && !check("%task").accepts(&stall, &world));
        assert!(
            check("!end,gap").accepts(&stall, &world) && !check("!end,gap").accepts(&end, &world)
        );
        assert!(EventChoice::parse("stalls").unwrap_err().contains("%recording"));
        for text in ["sched:*,!sched:sched_switch", "sched:sched_switch:prev_state!=0"] {
            assert!(EventChoice::parse(text).is_err(), "{text}");
        }
        assert!(EventChoice::parse("%file").is_err() && EventChoice::parse("").is_err());
        let layout = KernelLayout {
            number: 5,
            system: "sched".into(),
            name: "sched_switch".into(),
            ..KernelLayout::default()
        };
        let told = Event::new(0, 1, EventKind::KernelLayout(Box::new(layout)));
        world.apply(&told, &mut crate::InlineOnly);
        let kernel = |layout| EventKind::Kernel(KernelEvent { layout, ..KernelEvent::default() });
        let (switch, unknown) = (kernel(5), kernel(6));
        for (text, fits) in
            [("sched:*", true), ("*:sched_switch", true), ("irq:*", false), ("!irq:*", true)]
                .into_iter()
                .chain([("sched_switch", true), ("block_rq_*", false)])
        {
            assert_eq!(check(text).accepts(&switch, &world), fits, "{text}");
        }
        assert!(
            check("kernel").accepts(&unknown, &world) && check("%kernel").accepts(&switch, &world)
        );
        assert!(!check("sched:*").accepts(&unknown, &world) && !check("*:*").accepts(&end, &world));
    }

    #[test]
    fn calls_are_on_no_cpu_that_is_known() {
        let conditions = Conditions { cpus: vec![1], ..Conditions::default() };
        assert!(!conditions.accepts_all() && Conditions::default().accepts_all());
        let call = call(0);
        assert!(!conditions.accepts_alone(&call, None));
        assert!(Conditions::default().accepts_alone(&call, None));
    }

    #[test]
    fn names_that_do_not_exist_are_refused() {
        for bad in ["", "reed", "%nothing", "read,,openat", "syscall_x"] {
            assert!(CallChoice::parse(bad).is_err(), "{bad}");
        }
        assert!(unknown_call("zzzz").contains("names are"));
        assert!(unknown_call("pena").contains("openat"));
    }

    #[test]
    fn classes_are_listed_once() {
        let names = class_names();
        assert!(names.contains("%network") && !names.contains("%net,"), "{names}");
        for name in names.split(", ") {
            assert!(CallChoice::parse(name).is_ok(), "{name}");
        }
        assert!(CallChoice::parse("%net").is_ok());
    }
}
