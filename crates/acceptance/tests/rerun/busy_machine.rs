//! Recordings for a re-execution where others have the processors for most of the time.

use std::hint;
use std::num::NonZero;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use acceptance::place::{Place, Who};
use acceptance::stage::Stage;
use acceptance::{Complaint, ensure};

use super::{SERIAL, again, built, recorded};

/// Busy threads for each processor, and recordings that are made beside them.
const BUSY: usize = 8;
const RECORDINGS: usize = 2;
/// Signals of a recording of `signal_then_wait`.
const SIGNALS: usize = 13;
/// The part `signal_place` of a signal that hit the code between two calls.
const BETWEEN_CALLS: &str = "\"signal_place\":2";

/// Signals hit calls, also those that come late.
pub fn signals(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let program = built(stage, "signal_then_wait")?.display().to_string();
    let (mut all, mut between) = (0, 0);
    beside_others(|| {
        for _ in 0..RECORDINGS {
            let (trace, _) = recorded(stage, &place, &[], &[&program])?;
            let signals = events(stage, &place, &trace, "signal")?;
            all += signals.lines().count();
            between += signals.lines().filter(|line| line.contains(BETWEEN_CALLS)).count();
        }
        Ok(())
    })?;
    ensure!(all >= RECORDINGS * SIGNALS, "only {all} signals");
    ensure!(between * 8 <= all, "{between} of {all} signals hit no call");
    again(stage, &place, &[], &[&program])
}

/// A thread computes for long between its calls while another one waits, and is not interrupted.
pub fn turns(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let program = built(stage, "takes_turns")?.display().to_string();
    let mut slices = 0;
    beside_others(|| {
        for _ in 0..RECORDINGS {
            let (trace, _) = recorded(stage, &place, SERIAL, &[&program])?;
            slices += events(stage, &place, &trace, "time_slice")?.lines().count();
        }
        Ok(())
    })?;
    ensure!(slices <= 1, "{slices} time slices");
    again(stage, &place, SERIAL, &[&program])
}

/// Does something beside threads that compute all the time.
fn beside_others(act: impl FnOnce() -> Result<(), Complaint>) -> Result<(), Complaint> {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..BUSY * thread::available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    hint::spin_loop();
                }
            });
        }
        let done = act();
        is_over.store(true, Ordering::Relaxed);
        done
    })
}

/// Returns what `show` prints of one kind of events, a line each.
fn events(stage: &Stage, place: &Place, trace: &Path, kind: &str) -> Result<String, Complaint> {
    let mut show = place.command(&stage.reenact);
    Ok(place
        .run(show.args(["show", "--json", "--event", kind]).arg(trace))?
        .success("show")?
        .text())
}
