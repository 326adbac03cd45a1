//! Was the trace written to a device whose files the program used? Then times are not the program's alone.

use model::Moment;
use model::mounts::{Mounts, major_minor};
use trace::Trace;
use trace::event::{Call, EventKind, Outcome};

use crate::activity::{Activity, WallTime};
use crate::sheet::ratio;

/// What to say if so.
pub const SAID: &str = "the trace lay on the same device as files that the program used: writing it took \
                        part of that device's speed; record to another disk to measure";

/// From this share of the run on that went to files, it matters.
const MATTERS_SHARE: f64 = 0.05;

/// The fold.
#[derive(Default)]
pub struct SameDevice {
    mounts: Mounts,
    of_trace: u64,
    /// It was: no more needs to be looked at.
    is_so: bool,
}

impl SameDevice {
    /// Begins, for a trace.
    pub fn of(trace: &Trace) -> SameDevice {
        let preamble = trace.preamble();
        let mounts = match preamble.trace_dev {
            0 => Mounts::default(),
            _ => Mounts::parse(&preamble.mounts),
        };
        SameDevice { mounts, of_trace: preamble.trace_dev, is_so: false }
    }

    /// Processes an event.
    pub fn add(&mut self, moment: &Moment<'_>) {
        if self.of_trace != 0 && !self.is_so {
            touch(&mut self.mounts, moment);
            self.is_so = is_used(&self.mounts, self.of_trace);
        }
    }

    /// Returns true if it was.
    pub fn is_so(&self) -> bool {
        self.is_so
    }

    /// Returns a note for people, if it was, and the run had much to do with files.
    pub fn note(&self, wall: &WallTime) -> Option<String> {
        let of_files = [Activity::Sync, Activity::Read, Activity::Write, Activity::Metadata];
        let ns: u64 = of_files.iter().map(|of| wall.of(*of)).sum();
        let matters = ratio(ns, wall.run_ns) >= MATTERS_SHARE;
        let (first, rest) = SAID.split_at(1);
        (matters && self.is_so()).then(|| format!("{}{rest}.", first.to_uppercase()))
    }
}

/// Marks the mounts whose files an event used.
pub fn touch(mounts: &mut Mounts, moment: &Moment<'_>) {
    match &moment.event.kind {
        EventKind::Call(call) => {
            for (_, identity) in &call.identities {
                mounts.touch_dev(major_minor(identity.dev));
            }
            if let Call { outcome: Outcome::Returned { ret: 0.., .. }, .. } = call {
                moment.step.paths.iter().for_each(|(_, path)| mounts.touch(path));
            }
        }
        EventKind::State(state) => {
            mounts.touch(&state.exe);
            state.fds.iter().for_each(|open| mounts.touch(&open.target));
        }
        _ => {}
    }
}

/// Returns true if files of a device were used; 0 is none.
pub fn is_used(mounts: &Mounts, dev: u64) -> bool {
    dev != 0 && mounts.uses(major_minor(dev))
}
