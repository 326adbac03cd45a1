//! A whole replay, inside the jail: plans, has it done, and watches.

#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::sync::Arc;

use trace::Trace;

use crate::outcome::{Outcome, Stopped};
use crate::plan::Planner;
use crate::shared::{Options, Shared};
use crate::space::Space;

/// Bytes of the trace's data that are kept unpacked: programs read the same blocks again and again.
const DATA_BYTES_MAX: usize = 144 << 20;

/// Replays a trace onto the files that are here. The caller is in the jail already, and leaves it
/// with everything in it when this returns. `untold` are names of open files of which the files that
/// are here may have filler.
pub fn replay(
    trace: &Trace,
    options: Options,
    space: Arc<Space>,
    untold: HashSet<Vec<u8>>,
    progress: &dyn Fn(u64),
) -> Outcome {
    ignore_signals();
    trace.keep_data(DATA_BYTES_MAX);
    crate::clock::to_ns(0);
    let shared =
        Shared::new(options, Arc::clone(&space), trace.tsc_hz(), trace.preamble().epoch_tsc);
    let mut planner = Planner::new(&shared, trace, untold);
    std::thread::scope(|scope| {
        scope.spawn(|| space.serve());
        // Also if the planner panics.
        let _closing = Closing(&space);
        if let Err(error) = planner.run(progress) {
            shared.stop(Stopped::Unreadable(error));
        }
        shared.asleep(|| {
            if !shared.wait_for_tasks() {
                shared.stop(Stopped::Stuck(shared.who_waits()));
            }
        });
    });
    let mut outcome = shared.take_outcome();
    planner.count_into(&mut outcome);
    outcome.elapsed_s = shared.start_clock().elapsed().as_secs_f64();
    outcome
}

/// Closes the space in the end.
struct Closing<'a>(&'a Space);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Signals that calls send to their own task when they fail; what they return says it all.
fn ignore_signals() {
    for signal in [libc::SIGPIPE, libc::SIGXFSZ] {
        // SAFETY: no handler is installed.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}
