//! Runs a whole replay inside the jail: planning, execution and supervision.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use trace::Trace;

use crate::actor;
use crate::batch::Lane;
use crate::image::MadeUp;
use crate::jail::Proc;
use crate::log::{self, Log};
use crate::options::Options;
use crate::outcome::{Outcome, Stopped};
use crate::plan::Planner;
use crate::shared::{Host, Shared};
use crate::space::Space;
use crate::turns;
use crate::watch::who_waits;

/// Bytes of the trace's data that stay unpacked: programs read the same blocks again and again.
const DATA_BYTES_MAX: usize = 144 << 20;

/// Replays a trace on the files that are here. The caller is in the jail, and ends it with
/// everything in it when this returns. `made_up` is what of the files is; `proc` shows the jail's processes.
pub fn replay(
    trace: &Trace,
    options: Options,
    space: Arc<Space>,
    made_up: MadeUp,
    progress: &dyn Fn(u64),
    proc: Option<Proc>,
    wanted: Option<log::Wanted<'_>>,
) -> Outcome {
    ignore_signals();
    trace.keep_data(DATA_BYTES_MAX);
    crate::clock::to_ns(0);
    let log = wanted.as_ref().map(|wanted| Arc::new(Log::new(wanted.level)));
    let (proc, desk) = proc.map_or((None, None), |proc| (Some(proc.processes), proc.desk));
    let host = Host { proc, log: log.clone(), desk };
    let (hz, epoch) = (trace.tsc_hz(), trace.preamble().epoch_tsc);
    let shared = Shared::new(options, host, Arc::clone(&space), hz, epoch);
    let describe = wanted.as_ref().map(|wanted| wanted.describe);
    let is_led = shared.options.gate.is_some();
    let launch = |lane: &Arc<Lane>| {
        actor::launch(&shared, lane);
        // After that: children would stay behind as well.
        if is_led {
            turns::go_last();
        }
    };
    let mut planner = Planner::new(&shared, &launch, trace, made_up, describe);
    std::thread::scope(|scope| {
        scope.spawn(|| space.serve());
        // Closed even if the planner panics.
        let _closing = Closing(|| space.close());
        let _closing_desk = Closing(|| shared.desk().iter().for_each(|desk| desk.close()));
        scope.spawn(|| shared.desk().iter().for_each(|desk| desk.serve()));
        let _closing_log = Closing(|| log.iter().for_each(|log| log.close()));
        if let (Some(log), Some(wanted)) = (&log, wanted) {
            let shared = &shared;
            scope.spawn(move || {
                if let Err(error) = log.serve(wanted.write) {
                    shared.stop(Stopped::Failed(format!("the log cannot be written: {error}")));
                }
            });
        }
        if let Err(error) = planner.run(progress) {
            shared.stop(Stopped::Unreadable(error));
        }
        shared.asleep(|| {
            if !shared.wait_for_tasks() {
                shared.stop(Stopped::Stuck(who_waits(&shared)));
            }
        });
    });
    let mut outcome = shared.take_outcome();
    planner.count_into(&mut outcome);
    outcome.calls_s = shared.start_clock().elapsed().as_secs_f64();
    outcome
}

/// Runs a function when it is dropped.
struct Closing<F: Fn()>(F);

impl<F: Fn()> Drop for Closing<F> {
    fn drop(&mut self) {
        self.0();
    }
}

/// Ignores signals that failing calls send to their own task; their return values suffice.
fn ignore_signals() {
    for signal in [libc::SIGPIPE, libc::SIGXFSZ] {
        // SAFETY: SIG_IGN installs no handler.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}
