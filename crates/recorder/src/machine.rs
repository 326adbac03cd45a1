//! Records what the whole machine does, without a program: events of the kernel alone.

use std::time::{Duration, Instant};

use syscalls::record::GapWhy;
use trace::Writer;
use trace::event::{Preamble, Totals};

use crate::RecordError;
use crate::host::{self, TscClock};
use crate::kernel::KernelEvents;
use crate::options::Options;
use crate::output::Output;
use crate::sink::Sink;
use crate::summary::Summary;

/// Bounds of the time between two rounds.
const WAIT_MIN: Duration = Duration::from_millis(1);
const WAIT_MAX: Duration = Duration::from_millis(100);
/// Bytes in a round above which the time becomes shorter, and below which longer.
const MUCH_BYTES: u64 = 1 << 20;
const LITTLE_BYTES: u64 = 256 << 10;
/// Interval of flushes: followers and readers after a crash find everything older than this.
const FLUSH_EVERY: Duration = Duration::from_secs(1);

/// Priority of the thread that reads, as `nice` counts it.
const READER_NICE: libc::c_int = -15;

/// Lets this thread have a CPU before others. What it reads comes from all that run, the more of them the
/// more; where these leave it no CPU, the kernel's buffers overflow.
fn go_first() {
    // SAFETY: no pointers are involved. Who may not do it goes on as ever.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, READER_NICE) };
}

/// Records events of the kernel until `is_told` says so, which waits for at most as long as it is
/// given, or until a limit is reached.
pub fn record_machine(
    sink: Sink,
    preamble: &Preamble,
    options: &Options,
    kernel: &KernelEvents,
    mut is_told: impl FnMut(Duration) -> bool,
) -> Result<Summary, RecordError> {
    go_first();
    let (sink, space) = sink.open()?;
    let clock = TscClock::start(preamble.tsc_hz);
    let writer = Writer::new(sink, preamble, options.writer)?;
    let mut out = Output::new(writer, space, options.size_max);
    kernel.introduce(&mut out);
    let began = Instant::now();
    let (mut wait, mut flushed) = (WAIT_MAX, began);
    let left = |limit: Duration| limit.saturating_sub(began.elapsed());
    loop {
        let bytes = kernel.read(&mut out);
        if bytes > MUCH_BYTES {
            wait = (wait / 2).max(WAIT_MIN);
        } else if bytes < LITTLE_BYTES {
            wait = (wait * 2).min(WAIT_MAX);
        }
        if flushed.elapsed() >= FLUSH_EVERY {
            flushed = Instant::now();
            out.flush();
        }
        let rest = options.duration.map(left);
        let is_over = out.full().is_some() || rest.is_some_and(|rest| rest.is_zero());
        if is_over || is_told(rest.map_or(wait, |rest| rest.min(wait))) {
            break;
        }
    }
    kernel.finish(&mut out);
    out.prepare_end();
    let end_tsc = host::tsc();
    let stopped: Option<(GapWhy, String)> = out.full().cloned();
    if let Some((why, text)) = &stopped {
        out.last_gap(end_tsc, *why, 0, text.clone());
    }
    let totals = Totals { gaps: out.gaps, tsc_hz: clock.hz(), end_tsc, ..Totals::default() };
    let mut summary = Summary {
        kernel_events: out.kernel_events,
        kernel_events_dropped: out.kernel_events_dropped,
        trace_bytes: out.trace_bytes(),
        gaps: out.gaps,
        first_gap: out.first_gap.take(),
        stopped,
        ..Summary::default()
    };
    match out.finish(&totals) {
        Ok(finished) => summary.trace_bytes = finished.trace_bytes,
        Err(error) => {
            summary.stopped.get_or_insert((GapWhy::WriteFailed, error.to_string()));
            summary.unfinished = Some(error.to_string());
        }
    }
    Ok(summary)
}
