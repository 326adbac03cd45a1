//! A trace at a glance: what it has of everything, what is missing in it and what it could not see.

mod cpu_time;
mod json;
mod mapped_times;
mod programs;
mod up_to;

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;

use model::mounts::Mounts;
use model::unseen::{NotSeen, Unseen};
use model::{Conditions, Moment, clock, mapped, walk};
use syscalls::abi::errno;
use syscalls::record::enter_flag;
use trace::event::{Call, EventKind, GapWhy, Outcome};
use trace::{Report, Trace};

use crate::numbered::name;
use crate::same_device;
pub use cpu_time::{Known, KnownTimes};
pub use json::{json, not_seen_json};
pub use mapped_times::MappedTimes;
use programs::Programs;
use up_to::Following;
pub use up_to::{End, Loss, UpTo};

/// Limit for the gaps that are listed.
const GAPS_MAX: usize = 1000;
/// Limit for the process ids listed per gap.
const PIDS_MAX: usize = 8;

/// Statistics of the calls of one name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Number of calls.
    pub count: u64,
    /// Number of calls that returned an error.
    pub errors: u64,
    /// Time in calls that returned.
    pub ns: u64,
}

/// Gaps with the same reason, text and program.
pub struct Gap {
    /// Time of the first one since the start.
    pub ns: u64,
    /// Reason of the gaps.
    pub why: GapWhy,
    /// Further description.
    pub text: String,
    /// The program, if known.
    pub program: Vec<u8>,
    /// Number of gaps.
    pub count: u64,
    /// The first process ids, as far as known.
    pub pids: Vec<u32>,
}

/// A trace at a glance.
pub struct Overview {
    /// Result of checking the trace's completeness.
    pub report: Report,
    /// Statistics by name of call.
    pub by_call: BTreeMap<String, Count>,
    /// Number of calls in the trace.
    pub calls: u64,
    /// Number of calls made through SIGSYS.
    pub slow_path_calls: u64,
    /// Number of processes.
    pub processes: u64,
    /// Number of threads.
    pub threads: u64,
    /// Bytes in the program's buffers.
    pub data_bytes: u64,
    /// Bytes of distinct buffers before compression.
    pub stored_bytes: u64,
    /// Size of the file.
    pub trace_bytes: u64,
    /// Time that threads waited for the recorder.
    pub stall_ns: u64,
    /// Number of gaps.
    pub gap_count: u64,
    /// Number of events that this version does not know.
    pub unknown_events: u64,
    /// The first gaps, merged if they are alike.
    pub gaps: Vec<Gap>,
    /// Index in `gaps` by reason, text and program.
    alike: HashMap<(u8, String, Vec<u8>), usize>,
    /// Time from the start to the end, or to the last known event.
    pub span_ns: u64,
    /// Mounts, with the used ones marked.
    pub mounts: Mounts,
    /// Errors of blocks that could not be read.
    pub errors: Vec<String>,
    /// True if the trace was on a device with files that the program used.
    pub shared_device: bool,
    /// Data that the trace lacks although it has every call.
    pub not_seen: NotSeen,
    /// Up to when it has what moves beside calls, where that ended early.
    pub up_to: UpTo,
    /// Where the times of what it read of mapped files come from.
    pub mapped_times: MappedTimes,
    /// Of which calls it is known how long their threads had computed before.
    pub known_times: KnownTimes,
}

impl Overview {
    /// Reads the whole trace.
    pub fn of(trace: &Trace, report: Report) -> Result<Overview, trace::ReadError> {
        let mut overview = Overview {
            report,
            by_call: BTreeMap::new(),
            calls: 0,
            slow_path_calls: 0,
            processes: 0,
            threads: 0,
            data_bytes: 0,
            stored_bytes: 0,
            trace_bytes: trace.file_bytes()?,
            stall_ns: 0,
            gap_count: 0,
            unknown_events: 0,
            gaps: Vec::new(),
            alike: HashMap::new(),
            span_ns: 0,
            mounts: Mounts::parse(&trace.preamble().mounts),
            errors: Vec::new(),
            shared_device: false,
            not_seen: NotSeen::default(),
            up_to: UpTo::default(),
            mapped_times: MappedTimes::default(),
            known_times: KnownTimes::default(),
        };
        overview.report.gaps_on_purpose = 0;
        overview.read(trace);
        if let Some(totals) = trace.totals() {
            // The recorder's totals also cover what a damaged file lost.
            overview.slow_path_calls = totals.slow_path_calls;
            overview.processes = totals.processes.into();
            overview.threads = totals.threads.into();
            overview.data_bytes = totals.data_bytes;
            overview.stored_bytes = totals.stored_bytes;
            overview.stall_ns = totals.stall_ns;
            overview.span_ns = clock(trace)(totals.end_tsc);
        }
        overview.shared_device = same_device::is_used(&overview.mounts, trace.preamble().trace_dev);
        Ok(overview)
    }

    fn read(&mut self, trace: &Trace) {
        let mut unseen = Unseen::new();
        // Count by number first, to look names up only once.
        let mut by_number: BTreeMap<u16, Count> = BTreeMap::new();
        let mut programs = Programs::default();
        let mut following = Following::default();
        let mut times = MappedTimes::default();
        let mut known = KnownTimes::default();
        let at = clock(trace);
        let Ok(unread) = walk(trace, &Conditions::default(), &mut |moment, _, contents| {
            following.event(moment, &at);
            times.event(moment);
            known.event(moment);
            programs.follow(moment.event, moment.world, &moment.step.paths);
            unseen.event(moment.event, moment.world, contents);
            self.event(moment, &mut by_number, &mut programs);
            Ok::<_, Infallible>(())
        });
        self.errors = unread.errors.iter().map(ToString::to_string).collect();
        self.not_seen = unseen.finish_of(trace);
        self.mapped_times = times;
        self.known_times = known;
        self.up_to = following.finish(trace.totals().is_some());
        for (number, count) in by_number {
            self.by_call.insert(name(number).into_owned(), count);
        }
    }

    fn event(
        &mut self,
        moment: &Moment<'_>,
        by_number: &mut BTreeMap<u16, Count>,
        programs: &mut Programs,
    ) {
        let (event, begin_ns) = (moment.event, moment.enter_ns);
        self.span_ns = self.span_ns.max(moment.exit_ns.unwrap_or(begin_ns));
        same_device::touch(&mut self.mounts, moment);
        match &event.kind {
            EventKind::Call(call) => {
                let count = by_number.entry(call.nr).or_default();
                count.count += 1;
                self.call(call);
                if let (Outcome::Returned { ret, .. }, Some(end_ns)) =
                    (call.outcome, moment.exit_ns)
                {
                    count.ns += end_ns.saturating_sub(begin_ns);
                    count.errors += u64::from(errno::is_error(ret));
                }
            }
            EventKind::Start { how, .. } => {
                self.threads += 1;
                self.processes += u64::from(*how != trace::event::StartHow::Thread);
            }
            EventKind::Stall { ns } => self.stall_ns = self.stall_ns.saturating_add(*ns),
            EventKind::Gap { why, detail, text } => {
                self.gap_count += 1;
                self.report.gaps_on_purpose += u64::from(why.is_on_purpose());
                let (pid, program) = match mapped::process_of(event) {
                    Some(process) => programs.named(moment.world, process),
                    None => programs.behind(moment.world, event.thread, *why, *detail),
                };
                self.gap(begin_ns, *why, text, program, pid);
            }
            EventKind::Unknown(unknown) => {
                self.unknown_events += 1;
                self.gap_count += u64::from(unknown.is_gap());
            }
            _ => {}
        }
    }

    fn gap(&mut self, ns: u64, why: GapWhy, text: &str, program: Vec<u8>, pid: Option<u32>) {
        let key = (why as u8, text.to_string(), program);
        if let Some(gap) = self.alike.get(&key).and_then(|&at| self.gaps.get_mut(at)) {
            gap.count += 1;
            if gap.pids.len() < PIDS_MAX {
                gap.pids.extend(pid.filter(|pid| !gap.pids.contains(pid)));
            }
        } else if self.gaps.len() < GAPS_MAX {
            let (text, program) = (text.to_string(), key.2.clone());
            self.alike.insert(key, self.gaps.len());
            let pids = pid.into_iter().collect();
            self.gaps.push(Gap { ns, why, text, program, count: 1, pids });
        }
    }

    fn call(&mut self, call: &Call) {
        self.calls += 1;
        self.slow_path_calls += u64::from(call.flags & enter_flag::SLOW != 0);
        for data in &call.data {
            self.data_bytes = self.data_bytes.saturating_add(data.true_len);
        }
    }
}
