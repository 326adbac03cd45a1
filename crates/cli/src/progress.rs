//! Progress of a long command, shown on a terminal only.

use std::io::{self, IsTerminal, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use model::{Conditions, Namespace, Unread, Visitor};
use render::amounts::show_size;
use trace::Trace;
use trace::format::kind;

use crate::failure::Failure;

/// Minimum time between updates.
const INTERVAL: Duration = Duration::from_millis(200);
/// Number of events between checks of the clock.
const EVENTS_PER_LOOK: u64 = 1 << 10;

/// Counter of the events or bytes read, shared by several threads.
pub struct Progress {
    bytes: u64,
    events: u64,
    done: AtomicU64,
    /// `None` if standard error is not a terminal.
    shown: Option<Mutex<Shown>>,
}

struct Shown {
    begun: Instant,
    last: Instant,
    /// True if there is a line to erase.
    any: bool,
}

impl Progress {
    /// Starts with nothing of `trace` read. All of it will be read `passes` times.
    pub fn new(trace: &Trace, passes: u64) -> Progress {
        let of_events = trace.blocks().iter().filter(|head| head.kind == kind::EVENTS);
        let events: u64 = of_events.map(|head| u64::from(head.count)).sum();
        let bytes = trace.file_bytes().unwrap_or(0);
        Progress::of(bytes.saturating_mul(passes), events.saturating_mul(passes))
    }

    /// Starts with nothing of a file of this size read, counting bytes instead of events.
    pub fn of_bytes(bytes: u64) -> Progress {
        Progress::of(bytes, bytes)
    }

    fn of(bytes: u64, events: u64) -> Progress {
        let begun = Instant::now();
        let shown = Shown { begun, last: begun, any: false };
        Progress {
            bytes,
            events,
            done: AtomicU64::new(0),
            shown: io::stderr().is_terminal().then(|| Mutex::new(shown)),
        }
    }

    /// Counts events that were read.
    pub fn advance(&self, events: u64) {
        let Some(shown) = &self.shown else { return };
        let before = self.done.fetch_add(events, Ordering::Relaxed);
        let done = before + events;
        if before / EVENTS_PER_LOOK == done / EVENTS_PER_LOOK {
            return;
        }
        // Another thread is updating the line.
        let Ok(mut shown) = shown.try_lock() else { return };
        if shown.last.elapsed() < INTERVAL {
            return;
        }
        shown.last = Instant::now();
        shown.any = true;
        let line = line(self.bytes, self.events, done, shown.begun.elapsed());
        // Ignore errors of the terminal.
        let _ = write!(io::stderr(), "\r\x1b[K{line}");
    }
}

/// Passes all events of a trace in order to `visit`, up to the last one that may be wanted, and shows
/// the progress.
pub fn walk(
    trace: &Trace,
    conditions: &Conditions,
    visit: &mut Visitor<'_, Failure>,
) -> Result<Unread, Failure> {
    let progress = Progress::new(trace, 1);
    model::walk(trace, conditions, &mut |moment, wanted, contents| {
        progress.advance(1);
        visit(moment, wanted, contents)
    })
}

/// The same, and follows what calls do to files. Also returns these.
pub fn walk_files(
    trace: &Trace,
    conditions: &Conditions,
    visit: &mut Visitor<'_, Failure>,
) -> Result<(Namespace, Unread), Failure> {
    let progress = Progress::new(trace, 1);
    model::walk_files(trace, conditions, &mut |moment, wanted, contents| {
        progress.advance(1);
        visit(moment, wanted, contents)
    })
}

impl Drop for Progress {
    fn drop(&mut self) {
        let shown = self.shown.as_ref().and_then(|shown| shown.lock().ok());
        if shown.is_some_and(|shown| shown.any) {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

/// Formats `12.0 MiB of 48.0 MiB, 6.0 MiB/s, 6 s left`, with bytes estimated from the events.
fn line(bytes: u64, events: u64, done: u64, elapsed: Duration) -> String {
    let share = (done as f64 / events.max(1) as f64).min(1.0);
    let seconds = elapsed.as_secs_f64().max(1e-3);
    let read = bytes as f64 * share;
    let left = if share > 0.0 { seconds / share * (1.0 - share) } else { 0.0 };
    format!(
        "{} of {}, {}/s, {left:.0} s left",
        show_size(read as u64),
        show_size(bytes),
        show_size((read / seconds) as u64)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let seconds = Duration::from_secs(2);
        let quarter = line(48 << 20, 400, 100, seconds);
        assert_eq!(quarter, "12.0 MiB of 48.0 MiB, 6.0 MiB/s, 6 s left");
        let more_than_all = line(48 << 20, 400, 500, seconds);
        assert_eq!(more_than_all, "48.0 MiB of 48.0 MiB, 24.0 MiB/s, 0 s left");
        assert_eq!(line(0, 0, 0, Duration::ZERO), "0 B of 0 B, 0 B/s, 0 s left");
    }
}
