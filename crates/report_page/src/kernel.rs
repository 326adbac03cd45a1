//! What the page has of the kernel's events: lanes of threads and CPUs by what they did, wakeups, the
//! longest waits, and ranges in detail.

use std::collections::HashMap;

use model::scheduling::{Doing, Waker};
use render::json::Json;
use stats::pass::Visit;
use stats::states::{CpuStep, LaneKey, StateLane, States};
use stats::waits::{Told, Waits};
use stats::{call_name, steps};
use trace::Trace;

use crate::detail::{self, Detail, Flow, Kept, Row};
use crate::tables::{self, shown};

/// Limit for the steps of lanes, which are finer than those of charts.
const STEPS: u64 = 480;
/// Limit for the threads with a lane; those of the program, and those that did most, are chosen.
const LANES_SHOWN: usize = 200;
/// Limit for the CPUs with a lane.
const CPUS_SHOWN: usize = 256;
/// Limit for the waits in the table.
const WAITS_SHOWN: usize = 100;

/// Follows the events of the kernel in a pass over the trace.
pub struct KernelPass {
    waits: Waits,
    states: States,
    interval_ns: u64,
}

impl KernelPass {
    /// For a trace that lasts so long, if it has events of the kernel.
    pub fn new(trace: &Trace, span_ns: u64) -> Option<KernelPass> {
        let layouts = model::kernel_layouts(trace);
        layouts.iter().next()?;
        let interval_ns = steps::interval_for(span_ns, STEPS);
        Some(KernelPass {
            waits: Waits::new(&layouts),
            states: States::new(interval_ns),
            interval_ns,
        })
    }

    /// Processes an event.
    pub fn add(&mut self, visit: &Visit<'_>) {
        self.waits.add_for(visit, &mut self.states);
        self.states.recorder = self.waits.scheduling().recorder();
    }

    fn finish(mut self) -> KernelParts {
        let (_, mut told) = self.waits.finish(&mut self.states);
        // Of a program that was recorded, where there is one.
        if told.iter().any(|told| told.is_followed) {
            told.retain(|told| told.is_followed);
        }
        let is_whole = self.waits.scheduling().scope().is_none_or(|scope| scope.is_whole);
        KernelParts { told, states: self.states, interval_ns: self.interval_ns, is_whole }
    }
}

/// What a pass found.
struct KernelParts {
    told: Vec<Told>,
    states: States,
    interval_ns: u64,
    is_whole: bool,
}

/// All that the page has of it.
pub struct KernelNumbers {
    parts: Option<KernelParts>,
    details: Vec<Detail>,
    /// Ranges that were asked for.
    asked: usize,
    /// Name of the trace in commands to paste.
    name: String,
}

/// Ends a pass, and makes another one for details; if there is nothing to show, none.
pub fn finish(
    trace: &Trace,
    pass: Option<KernelPass>,
    asked: &[(u64, u64)],
    name: &str,
) -> Option<KernelNumbers> {
    if pass.is_none() && asked.is_empty() {
        return None;
    }
    let parts = pass.map(KernelPass::finish);
    let told = parts.as_ref().map_or(&[][..], |parts| &parts.told);
    // What cannot be read was told by the passes before.
    let details = detail::gather(trace, detail::ranges(asked, told), asked.len());
    Some(KernelNumbers { parts, details, asked: asked.len(), name: name.into() })
}

/// Words for what threads do, in the order of [`Doing::ALL`], as the page's legend has them.
const WORDS: [&str; Doing::COUNT] = [
    "runs",
    "in a call",
    "in a page fault (estimated)",
    "interrupted",
    "runnable: woken, has no CPU",
    "preempted",
    "blocked: disk",
    "blocked: peer (pipe, network, terminal)",
    "blocked: lock",
    "blocked: child",
    "asleep",
    "stopped",
    "unknown",
];

/// Writes it.
pub fn write(json: &mut Json<'_>, numbers: &KernelNumbers) {
    json.object(|json| {
        json.key("doings").array(|json| {
            for (doing, words) in Doing::ALL.iter().zip(WORDS) {
                json.array(|json| {
                    json.str(doing.name());
                    json.str(words);
                });
            }
        });
        if let Some(parts) = &numbers.parts {
            json.key("is_whole").bool(parts.is_whole);
            json.key("interval_ns").uint(parts.interval_ns);
            lanes(json, parts);
            json.key("cpus").array(|json| {
                for (cpu, steps) in parts.states.cpus().iter().take(CPUS_SHOWN) {
                    json.object(|json| cpu_lane(json, *cpu, steps, parts.interval_ns));
                }
            });
            let longest = stats::waits::longest(&parts.told);
            tables::table(json.key("waits"), &longest, WAITS_SHOWN, None);
        }
        json.key("asked").uint(numbers.asked as u64);
        json.key("details").array(|json| {
            for of in &numbers.details {
                json.object(|json| range(json, of, &numbers.name));
            }
        });
    });
}

fn active_ns(lane: &StateLane) -> u64 {
    let is_idle = |doing| matches!(doing, Doing::Asleep | Doing::Unknown | Doing::Stopped);
    lane.times.sum(|doing| !is_idle(doing))
}

fn numbers(json: &mut Json<'_>, values: impl Iterator<Item = u64>) {
    json.array(|json| values.for_each(|value| json.uint(value)));
}

fn thousandths(ns: f32, interval_ns: u64) -> u64 {
    (f64::from(ns) * 1000.0 / interval_ns as f64).ceil().clamp(1.0, 1000.0) as u64
}

/// Writes the lanes of threads, and the wakeups among them.
fn lanes(json: &mut Json<'_>, parts: &KernelParts) {
    let mut all: Vec<(&LaneKey, &StateLane)> = parts.states.lanes().iter().collect();
    all.sort_by_key(|(key, lane)| (!lane.is_followed, u64::MAX - active_ns(lane), **key));
    let count = all.len();
    all.truncate(LANES_SHOWN);
    all.sort_by_key(|(key, lane)| (!lane.is_followed, lane.is_kernel, lane.pid, **key));
    json.key("left_out").uint((count - all.len()) as u64);
    json.key("threads").array(|json| {
        for ((id, first_ns), lane) in &all {
            json.object(|json| {
                json.key("pid").optional_uint(lane.pid.map(u64::from));
                json.key("tid").uint((*id).into());
                json.key("name").str(&shown(&lane.name));
                json.key("is_kernel").bool(lane.is_kernel);
                json.key("is_followed").bool(lane.is_followed);
                json.key("start_ns").uint(*first_ns);
                json.key("life_ns").uint(lane.last_ns.saturating_sub(*first_ns));
                numbers(json.key("times_ns"), Doing::ALL.iter().map(|doing| lane.times.of(*doing)));
                json.key("first").uint(lane.first as u64);
                json.key("steps").array(|json| {
                    for step in &lane.steps {
                        let parts_of = step.iter().enumerate().filter(|(_, ns)| **ns > 0.0);
                        let pair = |(doing, ns): (usize, &f32)| {
                            [doing as u64, thousandths(*ns, parts.interval_ns)]
                        };
                        numbers(json, parts_of.flat_map(pair));
                    }
                });
            });
        }
    });
    let mut places: HashMap<u32, Vec<(usize, u64, u64)>> = HashMap::new();
    for (place, ((id, first_ns), lane)) in all.iter().enumerate() {
        places.entry(*id).or_default().push((place, *first_ns, lane.last_ns));
    }
    let place_at = |id: u32, at: u64| {
        let of_id = places.get(&id)?;
        of_id.iter().find(|(_, from, to)| (*from..=*to).contains(&at)).map(|(place, ..)| *place)
    };
    json.key("wakeups").array(|json| {
        for wakeup in parts.states.wakeups() {
            let ends = (place_at(wakeup.by, wakeup.at_ns), place_at(wakeup.task, wakeup.at_ns));
            if let (Some(by), Some(task)) = ends {
                let values = [by as u64, task as u64, wakeup.at_ns, wakeup.waited_ns];
                numbers(json, values.into_iter());
            }
        }
    });
}

/// Writes what a CPU did in each step: user, kernel, interrupts and their second halves in
/// thousandths, and the thread that was there most; nothing for an idle one.
fn cpu_lane(json: &mut Json<'_>, cpu: u32, steps: &[CpuStep], interval_ns: u64) {
    json.key("cpu").uint(cpu.into());
    json.key("steps").array(|json| {
        for step in steps {
            if *step == CpuStep::default() {
                json.uint(0);
                continue;
            }
            let parts = [step.user, step.kernel, step.irq, step.softirq];
            let parts = parts.map(|ns| if ns > 0.0 { thousandths(ns, interval_ns) } else { 0 });
            numbers(json, parts.into_iter().chain([step.most.0.into()]));
        }
    });
}

/// Writes a range in detail.
fn range(json: &mut Json<'_>, of: &Detail, name: &str) {
    let range = &of.range;
    json.key("title").str(&range.title);
    json.key("explained").str(&range.explained);
    json.key("tid").optional_uint(range.tid.map(u64::from));
    json.key("from_ns").uint(range.from);
    json.key("to_ns").uint(range.to);
    let bounds = format!("--since {}ns --until {}ns", range.from, range.to);
    json.key("command").str(&format!("reenact show {name} {bounds}"));
    json.key("lines").array(|json| {
        for line in &of.lines {
            json.object(|json| {
                json.key("tid").optional_uint(line.tid.map(u64::from));
                json.key("pid").optional_uint(line.pid.map(u64::from));
                json.key("name").str(&line.name);
                json.key("is_kernel").bool(line.is_kernel);
            });
        }
    });
    let mut calls: Vec<u16> = of.flows.iter().filter_map(|flow| flow.call).collect();
    calls.sort_unstable();
    calls.dedup();
    json.key("calls").array(|json| calls.iter().for_each(|nr| json.str(&call_name(*nr))));
    left_out(json.key("flows_left_out"), &of.flows);
    json.key("flows").array(|json| of.flows.iter().for_each(|one| flow(json, one, of, &calls)));
    left_out(json.key("rows_left_out"), &of.rows);
    json.key("rows").array(|json| of.rows.iter().for_each(|one| row(json, one)));
}

fn left_out<T>(json: &mut Json<'_>, kept: &Kept<T>) {
    let (count, after) = kept.left_out();
    numbers(json, [count, after as u64].into_iter());
}

/// Writes a stretch: line, what was done, since when from the beginning of the range, how long, CPU,
/// call and one more (0: none), and who ended a wait, as a thread's id or a word.
fn flow(json: &mut Json<'_>, flow: &Flow, of: &Detail, calls: &[u16]) {
    let call = flow.call.and_then(|nr| calls.binary_search(&nr).ok()).map_or(0, |at| at + 1);
    json.array(|json| {
        json.uint(flow.thread.into());
        json.uint(flow.doing as u64);
        json.uint(flow.from.saturating_sub(of.range.from));
        json.uint(flow.to - flow.from);
        json.uint(flow.cpu.into());
        json.uint(call as u64);
        match flow.waker {
            Waker::Nobody => json.uint(0),
            Waker::Thread(id) | Waker::KernelThread(id) => json.uint(id.into()),
            Waker::Disk(_) => json.str("disk"),
            Waker::Timer => json.str("timer"),
            Waker::Network => json.str("network"),
            Waker::Interrupt => json.str("interrupt"),
        }
    });
}

fn row(json: &mut Json<'_>, row: &Row) {
    json.array(|json| {
        json.uint(row.at);
        json.optional_uint(row.cpu.map(u64::from));
        json.str(&row.thread);
        json.str(&row.event);
        json.optional_uint(row.took);
        json.str(&row.text);
    });
}
