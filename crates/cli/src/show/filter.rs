//! Which events are shown.

use std::collections::HashSet;

use events::shape::{Classes, Kind};
use model::decode::shape::{Shape, shape_of};
use model::{Step, View, glob};
use trace::event::{Call, EventKind, Outcome};

use super::moment::Moment;

/// The conditions of a command line; all must hold.
#[derive(Debug, Default)]
pub struct Filter {
    /// Process ids; none: all.
    pub pids: Vec<u32>,
    /// Thread ids; none: all.
    pub tids: Vec<u32>,
    /// Calls by name and class; none: all.
    pub calls: Option<CallFilter>,
    /// Patterns, one of which must fit a path of the call; none: all.
    pub paths: Vec<String>,
    /// Only calls that returned an error.
    pub failed: bool,
    /// Nanoseconds from the start.
    pub since_ns: Option<u64>,
    /// Nanoseconds from the start.
    pub until_ns: Option<u64>,
    /// Only calls that took longer.
    pub slower_ns: Option<u64>,
}

impl Filter {
    /// Whether an event begins too late, as all that follow it will.
    pub fn is_over(&self, enter_ns: u64) -> bool {
        self.until_ns.is_some_and(|until| enter_ns > until)
    }

    /// Whether the event is to be shown.
    pub fn accepts(&self, moment: &Moment<'_>) -> bool {
        if self.since_ns.is_some_and(|since| moment.enter_ns < since)
            || self.is_over(moment.enter_ns)
        {
            return false;
        }
        // What is missing concerns everybody.
        if matches!(moment.event.kind, EventKind::Gap { .. }) {
            return true;
        }
        let fits = |wanted: &[u32], id: Option<u32>| {
            wanted.is_empty() || id.is_some_and(|id| wanted.contains(&id))
        };
        if !fits(&self.pids, moment.pid) || !fits(&self.tids, moment.tid) {
            return false;
        }
        match &moment.event.kind {
            EventKind::Call(call) => self.accepts_call(call, moment),
            _ => {
                self.calls.is_none()
                    && self.paths.is_empty()
                    && !self.failed
                    && self.slower_ns.is_none()
            }
        }
    }

    fn accepts_call(&self, call: &Call, moment: &Moment<'_>) -> bool {
        let shape = shape_of(call);
        if self.calls.as_ref().is_some_and(|calls| !calls.accepts(&shape)) {
            return false;
        }
        let failed = matches!(call.outcome, Outcome::Returned { ret: -4095..=-1, .. });
        if self.failed && !failed {
            return false;
        }
        if let Some(slower) = self.slower_ns
            && moment.exit_ns.is_none_or(|exit| exit.saturating_sub(moment.enter_ns) <= slower)
        {
            return false;
        }
        self.paths.is_empty() || self.touches(call, &shape, moment.step, &moment.view())
    }

    fn touches(&self, call: &Call, shape: &Shape, step: &Step, view: &View<'_>) -> bool {
        let fits = |path: &[u8]| self.paths.iter().any(|glob| glob::matches(glob.as_bytes(), path));
        step.paths.iter().any(|(_, path)| fits(path))
            || shape.args.iter().zip(call.args).any(|(arg, value)| {
                matches!(arg.kind, Kind::Fd | Kind::DirFd)
                    && view.fd(value as i32).is_some_and(|path| fits(&path))
            })
            || view.new_paths().any(|path| fits(&path))
    }
}

/// Calls by name and class.
#[derive(Debug, Default, Clone)]
pub struct CallFilter {
    negated: bool,
    names: HashSet<String>,
    classes: Vec<Classes>,
}

impl CallFilter {
    /// From a comma list of names and `%classes`; a leading `!` means all others.
    pub fn parse(text: &str) -> Result<CallFilter, String> {
        let (negated, list) = match text.strip_prefix('!') {
            Some(list) => (true, list),
            None => (false, text),
        };
        let mut filter = CallFilter { negated, ..CallFilter::default() };
        for item in list.split(',') {
            if let Some(class) = item.strip_prefix('%') {
                let known = Classes::NAMES.iter().find(|(name, _)| *name == class);
                let (_, class) = known.ok_or_else(|| {
                    let names: Vec<String> =
                        Classes::NAMES.iter().map(|(name, _)| format!("%{name}")).collect();
                    format!("'%{class}' is no class of calls; known are {}", names.join(", "))
                })?;
                filter.classes.push(*class);
            } else if events::by_name(item).is_some() || is_raw_name(item) {
                filter.names.insert(item.to_string());
            } else {
                return Err(unknown_call(item));
            }
        }
        Ok(filter)
    }

    /// Whether calls of this shape are wanted.
    pub fn accepts(&self, shape: &Shape) -> bool {
        let named = self.names.contains(shape.name.as_ref())
            || self.classes.iter().any(|class| class.intersects(shape.classes));
        named != self.negated
    }
}

fn is_raw_name(name: &str) -> bool {
    name.strip_prefix("syscall_").is_some_and(|number| number.parse::<u16>().is_ok())
}

fn unknown_call(name: &str) -> String {
    let mut close: Vec<&str> = events::table::ROWS
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
    format!("'{name}' is no system call; {hint}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(nr: u16) -> Shape {
        shape_of(&crate::show::tests::call(nr, &[]))
    }

    #[test]
    fn names_classes_and_negation() {
        let read = shape(0);
        let raw = shape(499);
        let check = |text: &str| CallFilter::parse(text).unwrap();
        assert!(check("read").accepts(&read));
        assert!(check("%desc").accepts(&read));
        assert!(check("openat,read").accepts(&read));
        assert!(!check("!openat,read").accepts(&read));
        assert!(!check("openat").accepts(&read));
        assert!(check("!%network").accepts(&read));
        assert!(check("syscall_499").accepts(&raw));
        assert!(!check("%file").accepts(&raw));
    }

    #[test]
    fn names_that_do_not_exist_are_refused() {
        for bad in ["", "reed", "%nothing", "read,,openat", "syscall_x"] {
            assert!(CallFilter::parse(bad).is_err(), "{bad}");
        }
        assert!(unknown_call("zzzz").contains("names are"));
        assert!(unknown_call("pena").contains("openat"));
    }
}
