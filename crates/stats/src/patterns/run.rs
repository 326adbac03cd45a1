//! What the time of the whole run went to, and why.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::rc::Rc;

use model::{FileId, Moment, Namespace};
use render::amounts::{counted, show_count, show_size, show_time};
use render::escape::escape;
use syscalls::abi::errno::EAGAIN;
use trace::event::{Call, EventKind};

use super::finding::{Finding, FindingKind};
use super::often::{COUNTED_MAX, OFTEN_SLOW, Often};
use crate::activity::{Activities, Activity, WallTime};
use crate::pass::{Visit, Watch};
use crate::sheet::ratio;

/// From this share of the run on, what it goes to is a finding.
const MUCH_OF_RUN: f64 = 0.15;
/// From this share of the run on, it computes.
const COMPUTES: f64 = 0.4;
/// Waits at a pipe are a finding from this share on.
const MUCH_AT_PIPE: f64 = 0.1;
/// A process that lives no longer is short.
const SHORT_NS: u64 = 50_000_000;
/// Number of short processes that are many.
const SHORT_MANY: u64 = 50;
/// Calls in vain that are polling.
const POLLS_MANY: u64 = 1000;
/// Time between two calls in vain that belongs to the polling.
const POLL_GAP_NS: u64 = 20_000;
/// A read that takes longer has waited for the disk.
const SLOW_READ_NS: u64 = 100_000;
/// Opens of one file that are many.
const OPENS_MANY: u64 = 200;

/// The program that a process runs.
type Program = Rc<[u8]>;

/// Waits at both ends of a pipe.
#[derive(Default)]
struct Pipe {
    writing: Often,
    reading: Often,
    writer: Option<Program>,
    reader: Option<Program>,
}

/// The fold.
#[derive(Default)]
pub struct Run {
    activities: Activities,
    /// Calls by what their thread did in them.
    calls: HashMap<Activity, Often>,
    syncs: HashMap<FileId, Often>,
    slow_reads: Often,
    /// Opens of a file by the process that had opened it last.
    opens: HashMap<FileId, (u32, Often)>,
    pipes: HashMap<FileId, Pipe>,
    /// Calls in vain, and all calls, by thread.
    polls: HashMap<u32, Polls>,
    /// When each thread's last call ended.
    last_ns: HashMap<u32, u64>,
    /// What threads computed outside calls, by program.
    outside: HashMap<Program, u64>,
    /// The same of all, and the time in which they did.
    computed_ns: u64,
    gaps_ns: u64,
    /// When each live process began.
    born_ns: HashMap<u32, u64>,
    short: Often,
    short_programs: HashMap<Program, u64>,
}

#[derive(Default)]
struct Polls {
    in_vain: Often,
    /// Time between the calls before them and them.
    gaps_ns: u64,
    all: u64,
    call: u16,
}

/// Returns the value of a key, unless there are too many.
fn bounded<K: std::hash::Hash + Eq, V: Default>(map: &mut HashMap<K, V>, key: K) -> Option<&mut V> {
    if map.len() >= COUNTED_MAX && !map.contains_key(&key) {
        return None;
    }
    Some(map.entry(key).or_default())
}

fn program(moment: &Moment<'_>) -> Option<Program> {
    let thread = moment.world.thread(moment.event.thread)?;
    Some(Rc::clone(&moment.world.process(thread.process)?.exe))
}

impl Run {
    fn call(&mut self, call: &Call, moment: &Moment<'_>) {
        let thread = moment.event.thread;
        let exit_ns = moment.exit_ns.unwrap_or(moment.enter_ns);
        let ns = exit_ns.saturating_sub(moment.enter_ns);
        let gap_ns = match bounded(&mut self.last_ns, thread) {
            Some(last) => {
                let gap = moment.asked_ns.saturating_sub(if *last == 0 {
                    moment.asked_ns
                } else {
                    *last
                });
                *last = moment.left_ns.unwrap_or(exit_ns);
                gap
            }
            None => 0,
        };
        // A thread that waits for a CPU computes nothing.
        let own_ns = moment.user_ns.map_or(gap_ns, |ns| ns.min(gap_ns));
        self.computed_ns = self.computed_ns.saturating_add(own_ns);
        self.gaps_ns = self.gaps_ns.saturating_add(gap_ns);
        if let Some(outside) = program(moment).and_then(|name| bounded(&mut self.outside, name)) {
            *outside = outside.saturating_add(own_ns);
        }
        let activity = Activity::of(call, moment);
        let bytes = model::file_use::of(call.nr).moved(call).unwrap_or(0);
        self.calls.entry(activity).or_default().add(bytes, ns);
        let file = moment.touch.by_fd.map(|(file, _)| file);
        match activity {
            Activity::Sync => {
                if let Some(of) = bounded(&mut self.syncs, file.unwrap_or(FileId::OTHERS)) {
                    of.add(0, ns);
                }
            }
            Activity::Read if ns >= SLOW_READ_NS => self.slow_reads.add(bytes, ns),
            Activity::Pipe => self.pipe(call, moment, file, ns),
            _ => {}
        }
        if let Some((file, _)) = moment.touch.opened
            && let Some((last, of)) = bounded(&mut self.opens, file)
        {
            let process = moment.world.thread(thread).map_or(0, |of| of.process);
            if std::mem::replace(last, process) == process {
                of.add(0, ns);
            }
        }
        let computed_ns = moment.user_ns.unwrap_or(gap_ns.min(POLL_GAP_NS));
        self.poll(call, activity, thread, (ns + computed_ns, gap_ns));
    }

    fn pipe(&mut self, call: &Call, moment: &Moment<'_>, file: Option<FileId>, ns: u64) {
        let Some(of) = file.and_then(|file| bounded(&mut self.pipes, file)) else { return };
        if model::file_use::of(call.nr).to.is_some() {
            of.writing.add(0, ns);
            of.writer = program(moment).or(of.writer.take());
        } else {
            of.reading.add(0, ns);
            of.reader = program(moment).or(of.reader.take());
        }
    }

    /// Counts calls that asked for something that is not there yet.
    fn poll(&mut self, call: &Call, activity: Activity, thread: u32, (ns, gap_ns): (u64, u64)) {
        let Some(of) = bounded(&mut self.polls, thread) else { return };
        of.all += 1;
        let in_vain = call.error() == Some(EAGAIN)
            || (call.success() == Some(0) && activity == Activity::Events)
            || activity == Activity::Sleep;
        if in_vain && ns < SHORT_NS {
            of.in_vain.add(0, ns);
            of.gaps_ns = of.gaps_ns.saturating_add(gap_ns);
            of.call = call.nr;
        }
    }

    fn ended(&mut self, moment: &Moment<'_>) {
        self.last_ns.remove(&moment.event.thread);
        let Some(thread) = moment.world.thread(moment.event.thread) else { return };
        if !moment.is_last_thread() {
            return;
        }
        let Some(born_ns) = self.born_ns.remove(&thread.process) else { return };
        let lived_ns = moment.enter_ns.saturating_sub(born_ns);
        if lived_ns <= SHORT_NS {
            self.short.add(0, lived_ns);
            if let Some(count) =
                program(moment).and_then(|name| bounded(&mut self.short_programs, name))
            {
                *count += 1;
            }
        }
    }

    /// Returns what the time of the run went to, and the findings about it and about calls that come
    /// to nothing.
    pub fn finish(mut self, files: &Namespace) -> (WallTime, Vec<Finding>) {
        let wall = std::mem::take(&mut self.activities).finish();
        let mut findings = Vec::new();
        let (polled, polling_ns) = self.polled(&wall).unzip();
        // Who computes to ask again does nothing else.
        let computes = |of: &Finding| polling_ns.is_none_or(|ns: u64| ns < of.time_ns / 2);
        findings.extend(self.computes(&wall).filter(computes));
        findings.extend(self.synced(&wall, files));
        findings.extend(self.activity(&wall));
        findings.extend(self.spawned(&wall));
        findings.extend(self.slow_pipe(&wall));
        findings.extend(self.churned(&wall, files));
        findings.extend(polled);
        (wall, findings)
    }

    fn computes(&self, wall: &WallTime) -> Option<Finding> {
        let ns = (wall.of(Activity::Outside) as f64 * ratio(self.computed_ns, self.gaps_ns)) as u64;
        let share = ratio(ns, wall.own_ns());
        let all: u64 = self.outside.values().sum();
        let (name, most) = self.outside.iter().max_by_key(|(name, ns)| (**ns, Reverse(*name)))?;
        (share >= COMPUTES).then(|| {
            finding(FindingKind::Computes, share, ns, format!(
                "{} of the run is computing, {} of that in {}; one thread alone works for {} of the run",
                percent(share),
                percent(ratio(*most, all)),
                shown(name),
                percent(ratio(wall.alone_ns, wall.own_ns())),
            ))
        })
    }

    fn synced(&self, wall: &WallTime, files: &Namespace) -> Option<Finding> {
        let all = self.calls.get(&Activity::Sync)?;
        let share = ratio(wall.of(Activity::Sync), wall.own_ns());
        let is_told = share >= 0.01 || all.count >= OFTEN_SLOW;
        let (file, most) = self.syncs.iter().max_by_key(|(file, of)| (of.ns, Reverse(**file)))?;
        let often = match self.syncs.len() as u64 {
            names if names * 2 > all.count => "most files are synced once",
            _ => "the same files are synced again and again",
        };
        is_told.then(|| Finding {
            file: files.path(*file),
            count: all.count,
            ..finding(
                FindingKind::Syncs,
                share,
                all.ns,
                format!(
                    "{} of {} took {}, {} each; {} of them of this file; {often}",
                    counted(all.count, "sync", "syncs"),
                    counted(self.syncs.len() as u64, "file", "files"),
                    show_time(all.ns),
                    show_time(all.ns / all.count.max(1)),
                    show_count(most.count),
                ),
            )
        })
    }

    /// Returns findings about what takes much of the run.
    fn activity(&self, wall: &WallTime) -> Vec<Finding> {
        let kinds = [
            (Activity::Read, FindingKind::Reading),
            (Activity::Write, FindingKind::Writing),
            (Activity::Metadata, FindingKind::Metadata),
            (Activity::Submit, FindingKind::Asynchronous),
            (Activity::Network, FindingKind::NetworkWaits),
            (Activity::Events, FindingKind::EventWaits),
            (Activity::Sleep, FindingKind::Sleeps),
            (Activity::Device, FindingKind::DeviceWaits),
            (Activity::Lock, FindingKind::ThreadWaits),
        ];
        let told = kinds.into_iter().filter_map(|(activity, kind)| {
            let share = ratio(wall.of(activity), wall.own_ns());
            let of = self.calls.get(&activity).filter(|_| share >= MUCH_OF_RUN)?;
            let mut evidence = format!(
                "{} of the run: {}, {} each",
                percent(share),
                counted(of.count, "call", "calls"),
                show_time(of.ns / of.count.max(1))
            );
            if of.bytes > 0 {
                let rate = of.bytes as f64 * 1e9 / of.ns.max(1) as f64;
                evidence.push_str(&format!(
                    ", {} at {} a second",
                    show_size(of.bytes),
                    show_size(rate as u64)
                ));
            }
            if activity == Activity::Read && self.slow_reads.count > 0 {
                evidence.push_str(&format!(
                    "; {} of them took more than {}, {} in all: they waited for the disk",
                    show_count(self.slow_reads.count),
                    show_time(SLOW_READ_NS),
                    show_time(self.slow_reads.ns)
                ));
            }
            let ns = wall.of(activity);
            Some(Finding { count: of.count, bytes: of.bytes, ..finding(kind, share, ns, evidence) })
        });
        told.collect()
    }

    fn spawned(&self, wall: &WallTime) -> Option<Finding> {
        let share = ratio(self.short.ns, wall.own_ns()).min(1.0);
        if self.short.count < SHORT_MANY || share < MUCH_AT_PIPE {
            return None;
        }
        let names = self.short_programs.iter();
        let (name, most) = names.max_by_key(|(name, count)| (**count, Reverse(*name)))?;
        let evidence = format!(
            "{} processes lived {} on average; {} of them ran {}",
            show_count(self.short.count),
            show_time(self.short.ns / self.short.count),
            show_count(*most),
            shown(name)
        );
        let count = self.short.count;
        Some(Finding { count, ..finding(FindingKind::Spawns, share, self.short.ns, evidence) })
    }

    fn slow_pipe(&self, wall: &WallTime) -> Option<Finding> {
        let waited = |of: &Pipe| of.writing.ns.max(of.reading.ns);
        let pipe = self.pipes.iter().max_by_key(|(file, of)| (waited(of), Reverse(**file)))?.1;
        let share = ratio(waited(pipe), wall.own_ns()).min(1.0);
        let (writer, reader) = (pipe.writer.as_ref()?, pipe.reader.as_ref()?);
        let (waits, slow, does) = match pipe.writing.ns > pipe.reading.ns {
            true => (writer, reader, "reads"),
            false => (reader, writer, "writes"),
        };
        let often = if pipe.writing.ns > pipe.reading.ns { &pipe.writing } else { &pipe.reading };
        // Who waits for one answer to a question waits for a peer, and for no slower end.
        (share >= MUCH_AT_PIPE && often.count >= OFTEN_SLOW).then(|| {
            let evidence = format!(
                "{} waited {} in {}, {} of the run, for {}, which {does} more slowly",
                shown(waits),
                show_time(waited(pipe)),
                counted(often.count, "call", "calls"),
                percent(share),
                shown(slow),
            );
            Finding {
                count: often.count,
                ..finding(FindingKind::SlowPipe, share, waited(pipe), evidence)
            }
        })
    }

    fn churned(&self, wall: &WallTime, files: &Namespace) -> Vec<Finding> {
        let opens = self.opens.iter().map(|(file, (_, of))| (file, of));
        let many = opens.filter(|(file, of)| {
            of.count >= OPENS_MANY && files.file(**file).is_stored && **file != FileId::OTHERS
        });
        let churned = many.map(|(file, of)| Finding {
            file: files.path(*file),
            count: of.count,
            ..finding(
                FindingKind::Churn,
                of_work(of.ns, wall),
                of.ns,
                format!(
                    "opened {} times, {} each",
                    show_count(of.count),
                    show_time(of.ns / of.count)
                ),
            )
        });
        churned.collect()
    }

    /// Also returns the time between calls that belongs to it.
    fn polled(&self, wall: &WallTime) -> Option<(Finding, u64)> {
        let polls = self.polls.values();
        let is_much =
            |of: &&Polls| of.in_vain.count >= POLLS_MANY && of.in_vain.count * 2 >= of.all;
        let most = polls.filter(is_much).max_by_key(|of| (of.in_vain.ns, of.call))?;
        let Often { count, ns, .. } = most.in_vain;
        let evidence = format!(
            "{} of a thread's {} calls came to nothing, most of them {}; {} with the time between them",
            show_count(count),
            show_count(most.all),
            crate::call_name(most.call),
            show_time(ns)
        );
        let share = ratio(ns, wall.own_ns()).min(1.0);
        let finding = Finding { count, ..finding(FindingKind::Polling, share, ns, evidence) };
        Some((finding, most.gaps_ns))
    }
}

impl Watch for Run {
    fn add(&mut self, visit: &mut Visit<'_>) {
        let moment = visit.moment;
        self.activities.add(visit);
        match &moment.event.kind {
            EventKind::Start { .. } => {
                if let Some(thread) = moment.world.thread(moment.event.thread)
                    && self.born_ns.len() < COUNTED_MAX
                {
                    self.born_ns.entry(thread.process).or_insert(moment.enter_ns);
                }
            }
            EventKind::End { .. } => self.ended(moment),
            EventKind::Call(call) if visit.wanted && moment.submitted_ns.is_none() => {
                self.call(call, moment);
            }
            _ => {}
        }
    }
}

/// Returns a time as a share of the work of the run, or of the run if little of it was work.
pub fn of_work(ns: u64, wall: &WallTime) -> f64 {
    ratio(ns, wall.working_ns.max(wall.own_ns())).min(1.0)
}

fn finding(kind: FindingKind, share: f64, time_ns: u64, evidence: String) -> Finding {
    let (file, site) = (Vec::new(), Vec::new());
    Finding { kind, count: 0, bytes: 0, time_ns, share, file, site, evidence }
}

fn percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}

/// Returns a program's name for people.
fn shown(path: &[u8]) -> String {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    let mut text = String::new();
    escape(&mut text, name, &[]);
    if text.is_empty() { "another program".into() } else { text }
}
