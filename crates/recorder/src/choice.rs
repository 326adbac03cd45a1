//! Which calls a recording keeps, where not all of them are wanted.

use model::decode::shape::shape_of;
use model::{CallChoice, Conditions, InlineOnly, Moment, World, concerns_tasks};
use ring::SKIPPED_WORDS;
use syscalls::shape::Classes;
use trace::event::{Call, Event, EventKind, Outcome};

/// The calls that are wanted: those that fit both.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// By name and class; all if `None`.
    pub calls: Option<CallChoice>,
    /// Patterns, one of which must match a path of the call; any path if empty.
    pub paths: Vec<String>,
}

impl Choice {
    /// Returns true if all calls are wanted.
    pub fn is_all(&self) -> bool {
        self.calls.is_none() && self.paths.is_empty()
    }

    /// Returns a bit for each call whose contents agents need not deliver, by its number.
    pub fn skipped(&self) -> [u64; SKIPPED_WORDS] {
        let mut skipped = [0; SKIPPED_WORDS];
        let Some(choice) = &self.calls else { return skipped };
        // Contents of operations move while any call is made.
        let rows = syscalls::table::ROWS.iter().flat_map(|rows| rows.iter());
        let moves = Classes::READ.or(Classes::WRITE);
        let mut operations =
            rows.filter(|row| row.queue.is_some() && row.classes.intersects(moves));
        if operations.any(|row| choice.accepts(&shape_of(&blank(row.nr)))) {
            return skipped;
        }
        for nr in 0..(SKIPPED_WORDS * 64) as u16 {
            let plain = syscalls::by_number(nr.into()).is_some_and(|row| row.variants.is_empty());
            if plain && !choice.accepts(&shape_of(&blank(nr))) {
                skipped[usize::from(nr / 64)] |= 1 << (nr % 64);
            }
        }
        skipped
    }

    pub(crate) fn conditions(self) -> Conditions {
        Conditions { calls: self.calls, paths: self.paths, ..Conditions::default() }
    }
}

/// Returns true if a call is wanted as far as its name tells.
pub(crate) fn is_named(wanted: &Conditions, call: &Call) -> bool {
    wanted.calls.as_ref().is_none_or(|choice| choice.accepts(&shape_of(call)))
}

/// Returns true if a call that has ended is kept: because it is wanted, or because readers could not
/// tell without it what other calls mean.
pub(crate) fn is_kept(
    wanted: &Conditions,
    world: &mut World,
    (thread, tsc): (u32, u64),
    call: Call,
) -> bool {
    let is_of_process = syscalls::by_number(call.nr.into())
        .is_some_and(|row| row.classes.intersects(Classes::PROCESS));
    if is_of_process || concerns_tasks(&call) {
        return true;
    }
    let event = Event::new(thread, tsc, EventKind::Call(call));
    let step = world.step(&event, &mut InlineOnly);
    step.changes() || wanted.accepts(&Moment::new(None, &event, world, &step, &|tsc| tsc))
}

fn blank(nr: u16) -> Call {
    let outcome = Outcome::Unfinished;
    let (data, identities) = (Vec::new(), Vec::new());
    Call { nr, flags: 0, site: 0, nargs: 0, args: [0; 6], outcome, data, identities }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_of_other_calls_are_skipped() {
        let skips = |text: &str, name: &str| {
            let nr = syscalls::by_name(name).unwrap().nr;
            let choice = Choice { calls: Some(CallChoice::parse(text).unwrap()), paths: vec![] };
            choice.skipped()[usize::from(nr / 64)] >> (nr % 64) & 1 == 1
        };
        assert!(skips("read", "write") && !skips("read", "read"));
        assert!(!skips("%desc", "read") && skips("!%desc", "read"));
        // Variants have classes of their own, and operations move during any call.
        assert!(!skips("read", "ioctl"));
        assert!(!skips("io_uring:READ", "write"));
        assert_eq!(Choice::default().skipped(), [0; SKIPPED_WORDS]);
    }
}
