//! One pass over a trace, counting.

use std::collections::{BTreeMap, HashMap};

use events::record::enter_flag;
use model::World;
use model::mounts::Mounts;
use model::unseen::{NotSeen, Unseen};
use trace::event::{Call, EventKind, GapWhy, Outcome};
use trace::{Report, Trace};

use crate::info::programs::Programs;
use crate::render::text::major_minor;
use crate::source;

/// Gaps that are told one by one.
const GAPS_MAX: usize = 1000;
/// Processes that are told for gaps of one kind.
const PIDS_MAX: usize = 8;
/// Damaged blocks that are told one by one.
const ERRORS_MAX: usize = 100;

/// Calls of one name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// All of them.
    pub count: u64,
    /// Those that returned an error.
    pub errors: u64,
    /// Time in those that returned.
    pub ns: u64,
}

/// Gaps for the same reason in the same program.
pub struct Gap {
    /// When, from the start: the first of them.
    pub ns: u64,
    /// Why.
    pub why: GapWhy,
    /// More about it.
    pub text: String,
    /// The program, where one is known.
    pub program: Vec<u8>,
    /// How many there are.
    pub count: u64,
    /// Their processes, as far as they are known: the first ones.
    pub pids: Vec<u32>,
}

/// What a trace holds.
pub struct Summary {
    /// What the trace says of its completeness.
    pub report: Report,
    /// By name.
    pub by_call: BTreeMap<String, Count>,
    /// Calls in the trace.
    pub calls: u64,
    /// Of those, through SIGSYS.
    pub slow_path_calls: u64,
    /// Processes.
    pub processes: u64,
    /// Threads.
    pub threads: u64,
    /// Bytes in buffers, as the program had them.
    pub data_bytes: u64,
    /// Bytes of distinct buffers, before compression.
    pub stored_bytes: u64,
    /// Bytes of the file.
    pub trace_bytes: u64,
    /// Time that threads waited for the recorder.
    pub stall_ns: u64,
    /// Gaps in the trace: how many, and the first of them.
    pub gap_count: u64,
    /// See `gap_count`.
    pub gaps: Vec<Gap>,
    /// Where in `gaps` those of a reason, text and program are.
    alike: HashMap<(u8, String, Vec<u8>), usize>,
    /// From the start to the end, or to the last thing that is known.
    pub span_ns: u64,
    /// Mounts, with those that were used marked.
    pub mounts: Mounts,
    /// Blocks that could not be read.
    pub errors: Vec<String>,
    /// The trace lay on a device with files that the program used.
    pub shared_device: bool,
    /// What is not in the trace though every call is.
    pub not_seen: NotSeen,
}

impl Summary {
    /// Reads the whole trace.
    pub fn of(trace: &Trace, report: Report) -> Result<Summary, trace::ReadError> {
        let mut summary = Summary {
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
            gaps: Vec::new(),
            alike: HashMap::new(),
            span_ns: 0,
            mounts: Mounts::parse(&trace.preamble().mounts),
            errors: Vec::new(),
            shared_device: false,
            not_seen: NotSeen::default(),
        };
        summary.report.gaps_on_purpose = 0;
        summary.read(trace);
        if let Some(totals) = trace.totals() {
            // What the recorder counted is more than what is left in a damaged file.
            summary.slow_path_calls = totals.slow_path_calls;
            summary.processes = totals.processes.into();
            summary.threads = totals.threads.into();
            summary.data_bytes = totals.data_bytes;
            summary.stored_bytes = totals.stored_bytes;
            summary.stall_ns = totals.stall_ns;
            summary.span_ns = source::clock(trace)(totals.end_tsc);
        }
        let trace_dev = major_minor(trace.preamble().trace_dev);
        summary.shared_device =
            trace.preamble().trace_dev != 0 && summary.mounts.used().any(|m| m.dev == trace_dev);
        Ok(summary)
    }

    fn read(&mut self, trace: &Trace) {
        let clock = source::clock(trace);
        let mut world = World::new();
        let mut stored = source::Stored(trace);
        let mut unseen = Unseen::new();
        // Counted by number first: names are only made once.
        let mut by_number: BTreeMap<u16, Count> = BTreeMap::new();
        let mut programs = Programs::default();
        for next in trace.events() {
            let event = match next {
                Ok(next) => next.event,
                Err(error) => {
                    if self.errors.len() < ERRORS_MAX {
                        self.errors.push(error.to_string());
                    }
                    continue;
                }
            };
            let begin_ns = clock(event.tsc);
            self.span_ns = self.span_ns.max(begin_ns);
            let step = world.step(&event, &mut stored);
            programs.follow(&event, &world, &step.paths);
            unseen.event(&event, &world, &mut stored);
            match &event.kind {
                EventKind::Call(call) => {
                    let count = by_number.entry(call.nr).or_default();
                    count.count += 1;
                    self.call(call);
                    if let Outcome::Returned { exit_tsc, ret } = call.outcome {
                        let end_ns = clock(exit_tsc);
                        count.ns += end_ns.saturating_sub(begin_ns);
                        count.errors += u64::from((-4095..0).contains(&ret));
                        self.span_ns = self.span_ns.max(end_ns);
                        if ret >= 0 {
                            step.paths.iter().for_each(|(_, path)| self.mounts.touch(path));
                        }
                    }
                }
                EventKind::Start { how, .. } => {
                    self.threads += 1;
                    self.processes += u64::from(*how != trace::event::StartHow::Thread);
                }
                EventKind::State(state) => {
                    self.mounts.touch(&state.exe);
                    state.fds.iter().for_each(|open| self.mounts.touch(&open.target));
                }
                EventKind::Stall { ns } => self.stall_ns = self.stall_ns.saturating_add(*ns),
                EventKind::Gap { why, detail, text } => {
                    self.gap_count += 1;
                    self.report.gaps_on_purpose += u64::from(why.is_on_purpose());
                    let (pid, program) = programs.behind(&world, event.thread, *why, *detail);
                    self.gap(begin_ns, *why, text, program, pid);
                }
                _ => {}
            }
            world.finish(step);
        }
        self.not_seen = unseen.finish_of(trace);
        for (number, count) in by_number {
            let name = events::by_number(number.into())
                .map_or_else(|| format!("syscall_{number}"), |row| row.name.to_string());
            self.by_call.insert(name, count);
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
        for (_, identity) in &call.identities {
            self.mounts.touch_dev(major_minor(identity.dev));
        }
    }
}
