//! What the time of the whole run went to, and why.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::rc::Rc;

use model::{Conditions, FileId, Moment, Namespace};
use render::amounts::{counted, show_count, show_size, show_time};
use render::escape::escape;
use syscalls::abi::errno::EAGAIN;
use trace::event::{Call, EventKind};

use super::callers::Callers;
use super::costly::{Costs, in_words};
use super::finding::Finding;
use super::kinds::FindingKind;
use super::often::{COUNTED_MAX, OFTEN_SLOW, Often};
use super::prices::Prices;
use super::remade::{self, Removals};
use crate::activity::{Activities, Activity, COUNT, Shares, WallTime};
use crate::pass::{Visit, Watch};
use crate::sheet::ratio;
use crate::sites::SiteId;

/// From this share of the run on, what it goes to is a finding.
const MUCH_OF_RUN: f64 = 0.15;
/// From this share of the run on, it computes.
const COMPUTES: f64 = 0.4;
/// Waits at a pipe, and the lives of short processes, are a finding from this share on.
const MUCH_AT_PIPE: f64 = 0.1;
/// Syncs are a finding from this share on.
const SYNCS: f64 = 0.01;
/// From this share of the run on, one thread holds up others.
const HELD_UP: f64 = 0.2;
/// Where less of the time between calls is computing, it is not what costs: with others that want the
/// CPU, a program that computes all the time still has more.
const HARDLY: f64 = 0.25;
/// Of so many reads one at least must be slow: any call may have to wait for a CPU.
const SLOW_ONE_OF: u64 = 50;
/// A process that lives no longer is short.
const SHORT_NS: u64 = 50_000_000;
/// Number of short processes that are many.
const SHORT_MANY: u64 = 20;
/// Calls in vain that are polling.
const POLLS_MANY: u64 = 1000;
/// Time between two calls in vain that belongs to the polling.
const POLL_GAP_NS: u64 = 20_000;
/// A read that takes longer than this, and this for each byte, waited for the disk: a copy out of memory
/// is faster even where others want the CPU.
const SLOW_READ_NS: u64 = 20_000;
const SLOW_BYTE_NS: u64 = 4;
/// Opens of one file that are many.
const OPENS_MANY: u64 = 200;

/// The program that a process runs, and the id of the process.
type Program = (Rc<[u8]>, u32);

/// Waits at both ends of a pipe.
#[derive(Default)]
struct Pipe {
    writing: Often,
    reading: Often,
    writer: Option<Program>,
    reader: Option<Program>,
}

/// Parts of the run's time by activity.
type Parts = [f64; COUNT];

/// The parts of each live thread.
#[derive(Default)]
struct ByThread(HashMap<u32, Parts>);

impl Shares for ByThread {
    fn spent(&mut self, thread: u32, activity: Activity, ns: f64) {
        if let Some(of) = bounded(&mut self.0, thread) {
            of[activity as usize] += ns;
        }
    }
}

/// What the run's time goes to, with the parts of threads.
struct Timed(Activities<ByThread>);

impl Default for Timed {
    fn default() -> Timed {
        Timed(Activities::telling(ByThread::default()))
    }
}

/// A live process.
#[derive(Default)]
struct Life {
    born_ns: u64,
    /// The parts of its threads that have ended.
    parts: Parts,
}

/// Processes that lived for a short time.
#[derive(Default)]
struct Short {
    lives: Often,
    parts: Parts,
    programs: HashMap<Rc<[u8]>, u64>,
}

impl Short {
    fn are_many(&self) -> bool {
        self.lives.count >= SHORT_MANY
    }
}

/// The fold.
#[derive(Default)]
pub struct Run {
    activities: Timed,
    /// Calls by what their thread did in them.
    calls: HashMap<Activity, Often>,
    /// Time of all calls, chosen or not, by what their thread did in them; and the time between calls.
    all_ns: [u64; COUNT],
    /// Time by what was called.
    by_call: HashMap<(Activity, u16), u64>,
    /// What files cost, by what was done with them.
    costs: HashMap<Activity, Costs>,
    /// Who made the call that is added next, if its callers were recorded, and the time of all by them.
    caller: Option<SiteId>,
    callers: HashMap<(Activity, SiteId), u64>,
    slow_reads: Often,
    removals: Removals,
    /// Opens of a file by the process that had opened it last.
    opens: HashMap<FileId, (u32, Often)>,
    pipes: HashMap<FileId, Pipe>,
    /// Calls in vain, and all calls, by thread.
    polls: HashMap<u32, Polls>,
    /// When each thread's last call ended.
    last_ns: HashMap<u32, u64>,
    /// What threads computed outside calls, by program and process.
    outside: HashMap<Program, u64>,
    /// The same of all, and the time in which they did.
    computed_ns: u64,
    gaps_ns: u64,
    processes: HashMap<u32, Life>,
    short: Short,
}

#[derive(Default)]
struct Polls {
    in_vain: Often,
    /// Computing between the calls before them and them, and all time there.
    computed_ns: u64,
    gaps_ns: u64,
    all: u64,
    last: Option<(Activity, u16)>,
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
    Some((Rc::clone(&moment.world.process(thread.process)?.exe), moment.pid.unwrap_or(0)))
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
        self.calls.entry(activity).or_default().add_call(bytes, ns, moment.seq);
        *self.by_call.entry((activity, call.nr)).or_default() += ns;
        if let Some(of) =
            self.caller.take().and_then(|of| bounded(&mut self.callers, (activity, of)))
        {
            *of = of.saturating_add(ns);
        }
        let file = moment.touch.by_fd.map(|(file, _)| file);
        if let Some(about) = about(activity, moment) {
            self.costs.entry(activity).or_default().add(about, ns);
        }
        match activity {
            Activity::Read if is_slow(bytes, ns) && is_stored(moment) => {
                self.slow_reads.add_call(bytes, ns, moment.seq);
            }
            Activity::Pipe => self.pipe(call, moment, file, ns),
            Activity::Metadata => self.removals.add(call, moment),
            _ => {}
        }
        if let Some((file, _)) = moment.touch.opened
            && let Some((last, of)) = bounded(&mut self.opens, file)
        {
            let process = moment.world.thread(thread).map_or(0, |of| of.process);
            if std::mem::replace(last, process) == process {
                of.add_call(0, ns, moment.seq);
            }
        }
        let computed_ns = moment.user_ns.unwrap_or(gap_ns.min(POLL_GAP_NS));
        if let Some(of) = bounded(&mut self.polls, thread) {
            of.all += 1;
            if is_in_vain(call, activity) && ns + computed_ns < SHORT_NS {
                of.in_vain.add_call(0, ns, moment.seq);
                of.computed_ns = of.computed_ns.saturating_add(computed_ns);
                of.gaps_ns = of.gaps_ns.saturating_add(gap_ns);
                of.last = Some((activity, call.nr));
            }
        }
    }

    fn pipe(&mut self, call: &Call, moment: &Moment<'_>, file: Option<FileId>, ns: u64) {
        let Some(of) = file.and_then(|file| bounded(&mut self.pipes, file)) else { return };
        if model::file_use::of(call.nr).to.is_some() {
            of.writing.add_call(0, ns, moment.seq);
            of.writer = program(moment).or(of.writer.take());
        } else {
            of.reading.add_call(0, ns, moment.seq);
            of.reader = program(moment).or(of.reader.take());
        }
    }

    fn ended(&mut self, moment: &Moment<'_>) {
        let number = moment.event.thread;
        self.last_ns.remove(&number);
        let parts = self.activities.0.shares().0.remove(&number);
        let Some(thread) = moment.world.thread(number) else { return };
        if let (Some(life), Some(parts)) = (self.processes.get_mut(&thread.process), parts) {
            life.parts.iter_mut().zip(parts).for_each(|(sum, part)| *sum += part);
        }
        if !moment.is_last_thread() {
            return;
        }
        let Some(life) = self.processes.remove(&thread.process) else { return };
        let lived_ns = moment.enter_ns.saturating_sub(life.born_ns);
        if lived_ns <= SHORT_NS {
            self.short.lives.add(0, lived_ns);
            self.short.parts.iter_mut().zip(life.parts).for_each(|(sum, part)| *sum += part);
            let name = program(moment).map(|(name, _)| name);
            if let Some(count) = name.and_then(|name| bounded(&mut self.short.programs, name)) {
                *count += 1;
            }
        }
    }

    /// Makes a fold for events that conditions choose.
    pub fn of_chosen(conditions: &Conditions) -> Run {
        let activities = Activities::telling(ByThread::default()).of_chosen(conditions);
        Run { activities: Timed(activities), ..Run::default() }
    }

    /// Notes who made the call that is added next.
    pub fn made_at(&mut self, caller: Option<SiteId>) {
        self.caller = caller;
    }

    /// Returns who took most time with an activity, if callers were recorded.
    fn who(&self, activity: Activity, callers: &mut Callers) -> Vec<u8> {
        let of = self.callers.iter().filter(|((of, _), _)| *of == activity);
        let most = of.max_by_key(|((_, site), ns)| (**ns, Reverse(*site)));
        most.map(|((_, site), _)| callers.spelled(*site)).unwrap_or_default()
    }

    /// Returns what the time of the run went to, the findings about it and about calls that come to
    /// nothing, and what calls cost. `cpus`: of the machine, 0 if that is not known.
    pub fn finish(
        mut self,
        cpus: u32,
        files: &Namespace,
        callers: &mut Callers,
    ) -> (WallTime, Vec<Finding>, Prices) {
        let wall = std::mem::take(&mut self.activities).0.finish();
        self.all_ns[Activity::Outside as usize] = self.gaps_ns;
        let prices = Prices::new(&wall, &self.all_ns);
        let mut findings = self.activity(&wall, &prices, files, callers);
        let polled = self.polled(&prices);
        // Who computes, or asks, to ask again does nothing else.
        findings.retain(|of| {
            let is_polling = |parts: &[(Activity, u64)]| {
                parts.iter().any(|(part, ns)| of.within == Some(*part) && *ns >= of.time_ns / 2)
            };
            !polled.as_ref().is_some_and(|(_, parts)| is_polling(parts))
        });
        findings.extend(held_up(&wall, cpus));
        findings.extend(self.churned(&prices, files));
        findings.extend(polled.map(|(found, _)| found));
        (wall, findings, prices)
    }

    /// Returns a finding for each activity that takes much of the run. Together they cost no more than
    /// the run: what many short processes did is theirs, and not told again by activity.
    fn activity(
        &self,
        wall: &WallTime,
        prices: &Prices,
        files: &Namespace,
        callers: &mut Callers,
    ) -> Vec<Finding> {
        let mut left = wall.parts;
        left[Activity::Recording as usize].1 = 0;
        let most = left.iter().map(|(_, ns)| *ns).max().unwrap_or(0);
        let mut findings = Vec::new();
        if let Some(spawned) = self.spawned(wall) {
            if self.short.are_many() {
                left.iter_mut().for_each(|(activity, ns)| {
                    *ns = ns.saturating_sub(self.short.parts[*activity as usize] as u64);
                });
                left[Activity::Child as usize].1 = 0;
            }
            left[Activity::Spawn as usize].1 = 0;
            findings.push(spawned);
        }
        for (activity, ns) in left.into_iter().filter(|(_, ns)| *ns > 0) {
            let Some(kind) = FindingKind::of_activity(activity) else { continue };
            let share = ratio(ns, wall.own_ns());
            let calls = self.calls.get(&activity);
            let pipe = self.slow_pipe(wall).filter(|_| activity == Activity::Pipe);
            let is_told = match activity {
                Activity::Outside => share >= COMPUTES,
                Activity::Sync => share >= SYNCS || calls.is_some_and(|of| of.count >= OFTEN_SLOW),
                Activity::Pipe => share >= MUCH_OF_RUN || pipe.is_some(),
                _ => share >= MUCH_OF_RUN,
            };
            if !is_told && ns < most {
                continue;
            }
            let found = match calls {
                _ if activity == Activity::Outside => Some(self.own_code(ns, wall)),
                Some(of) => {
                    let cost = prices.of_chosen(activity, of.ns).min(ns);
                    let found = self.about_calls(kind, (activity, of), (cost, wall.run_ns), files);
                    let site = self.who(activity, callers);
                    let evidence = pipe.unwrap_or(found.evidence);
                    Some(Finding { site, evidence, ..found }.costs(cost, wall.run_ns))
                }
                None => None,
            };
            let found = found.map(|of| Finding { within: Some(activity), ..of });
            // All but one sync could be saved.
            let is_sync = |of: &Finding| of.kind == FindingKind::Syncs;
            findings.extend(found.map(|of| if is_sync(&of) { of.but_for(1) } else { of }));
        }
        let costs = [Activity::Sync, Activity::Metadata].map(|of| self.costs.get(&of));
        let price = |ns| prices.of_chosen(Activity::Metadata, ns);
        self.removals.tie(&mut findings, costs, price, files);
        findings
    }

    /// Returns a finding about what threads do between calls.
    fn own_code(&self, ns: u64, wall: &WallTime) -> Finding {
        let computing = ratio(self.computed_ns, self.gaps_ns);
        let kind = match self.gaps_ns > 0 && computing < HARDLY {
            true => FindingKind::OwnWaits,
            false => FindingKind::Computes,
        };
        let mut evidence = format!("{} of the run is own code", percent(ratio(ns, wall.run_ns)));
        if self.gaps_ns > 0 {
            evidence.push_str(&format!(", {} of that computing on a CPU", percent(computing)));
        }
        let mut programs: HashMap<&[u8], (u64, (u64, u32))> = HashMap::new();
        for ((name, pid), ns) in &self.outside {
            let (sum, most) = programs.entry(name).or_default();
            *sum = sum.saturating_add(*ns);
            *most = (*most).max((*ns, *pid));
        }
        let all: u64 = self.outside.values().fold(0, |sum, ns| sum.saturating_add(*ns));
        let first = programs.into_iter().max_by_key(|(name, (ns, _))| (*ns, Reverse(*name)));
        if let Some((name, (ns, most))) = first {
            // One process is named if most of that is its own.
            let one = if most.0 > ns / 2 { most.1 } else { 0 };
            let part = percent(ratio(ns, all));
            evidence.push_str(&format!("; {part} of the computing is in {}", shown((name, one))));
        }
        let alone = percent(ratio(wall.alone_ns, wall.run_ns));
        evidence.push_str(&format!("; one thread alone works for {alone} of the run"));
        Finding::new(kind, evidence).costs(ns, wall.run_ns)
    }

    /// Returns a finding about the calls of an activity.
    fn about_calls(
        &self,
        kind: FindingKind,
        (activity, of): (Activity, &Often),
        (cost_ns, run_ns): (u64, u64),
        files: &Namespace,
    ) -> Finding {
        let each = show_time(of.ns / of.count.max(1));
        let costs = self.costs.get(&activity).map(|costs| costs.names(files));
        let (names, paths) = costs.unwrap_or_default();
        let mut evidence = match activity {
            Activity::Sync => {
                let often = match paths {
                    paths if paths * 2 > of.count => "most files are synced once",
                    _ => "the same files are synced again and again",
                };
                format!(
                    "{} of {} took {}, {each} each; {often}",
                    counted(of.count, "sync", "syncs"),
                    if paths == 0 { "all files".into() } else { counted(paths, "file", "files") },
                    show_time(of.ns),
                )
            }
            _ => {
                let (share, count) =
                    (percent(ratio(cost_ns, run_ns)), counted(of.count, "call", "calls"));
                let each = match of.ns {
                    0 => "which did not return".into(),
                    _ => format!("{each} each"),
                };
                format!("{share} of the run: {count}, {each}")
            }
        };
        let by_call = self.by_call.iter().filter(|((by, _), _)| *by == activity);
        let (call, call_ns) = by_call
            .max_by_key(|((_, nr), ns)| (**ns, Reverse(*nr)))
            .map_or((String::new(), 0), |((_, nr), ns)| (crate::call_name(*nr).to_string(), *ns));
        if matches!(activity, Activity::Memory | Activity::Other | Activity::Metadata) {
            evidence.push_str(&format!(", {} of that in {call}", percent(ratio(call_ns, of.ns))));
        }
        if of.bytes > 0 {
            let rate = of.bytes as f64 * 1e9 / of.ns.max(1) as f64;
            let (bytes, rate) = (show_size(of.bytes), show_size(rate as u64));
            evidence.push_str(&format!(", {bytes} at {rate} a second"));
        }
        let slow = &self.slow_reads;
        let are_some = activity == Activity::Read && slow.count * SLOW_ONE_OF >= of.count.max(1);
        let is_cold = are_some && slow.ns >= of.ns / 2;
        if are_some {
            let (count, time) = (show_count(slow.count), show_time(slow.ns));
            evidence.push_str(&format!(
                "; {count} of them took longer than a copy out of memory ({} and {SLOW_BYTE_NS} ns a \
                 byte), {time} in all: they waited for the disk",
                show_time(SLOW_READ_NS),
            ));
        }
        let removed = self.removals.often(names.first(), of.ns);
        let removed = removed.filter(|_| activity == Activity::Metadata);
        let kind = match removed {
            Some(_) => FindingKind::Remade,
            None if is_cold => FindingKind::ColdReads,
            None => kind,
        };
        evidence.extend(in_words(&names, of.ns).map(|names| format!("; of their time: {names}")));
        evidence.extend(removed.map(remade::evidence));
        let first = names.into_iter().next().unwrap_or_default();
        let calls = if is_cold { slow.slowest.numbers() } else { of.slowest.numbers() };
        Finding {
            count: of.count,
            bytes: of.bytes,
            is_pattern: first.paths > 1,
            file: first.path,
            calls,
            call,
            ..Finding::new(kind, evidence)
        }
    }

    /// Returns a finding about making processes, and about those that are soon gone.
    fn spawned(&self, wall: &WallTime) -> Option<Finding> {
        let Short { lives, parts, programs } = &self.short;
        let spawn_ns = wall.of(Activity::Spawn);
        let of_lives: f64 = parts.iter().sum();
        let recorded = parts[Activity::Recording as usize];
        // What others than these processes did to make them, and to wait for their ends, is theirs.
        let others_ns = |activity| (wall.of(activity) as f64 - parts[activity as usize]).max(0.0);
        let made_ns = others_ns(Activity::Spawn) + others_ns(Activity::Child);
        let ns = (of_lives - recorded + made_ns) as u64;
        let are_many = self.short.are_many();
        let is_told = ratio(spawn_ns, wall.own_ns()) >= MUCH_OF_RUN
            || (are_many && ratio(ns, wall.own_ns()) >= MUCH_AT_PIPE);
        let of = self.calls.get(&Activity::Spawn).filter(|_| is_told)?;
        let mut evidence = format!(
            "{} of the run is making processes, in {}, {} each",
            percent(ratio(spawn_ns, wall.run_ns)),
            counted(of.count, "call", "calls"),
            show_time(of.ns / of.count.max(1)),
        );
        let first = programs.iter().max_by_key(|(name, count)| (**count, Reverse(*name)));
        if let Some((name, most)) = first.filter(|_| lives.count > 0) {
            evidence.push_str(&format!(
                "; {} lived {} on average, {} of them ran {}",
                counted(lives.count, "process", "processes"),
                show_time(lives.ns / lives.count),
                show_count(*most),
                shown((name, 0)),
            ));
        }
        let cost = if are_many { ns } else { spawn_ns };
        if are_many {
            let rest = show_time(ns.saturating_sub(spawn_ns));
            evidence
                .push_str(&format!("; what they do, and waiting for their ends, is {rest} of it"));
        }
        let count = if are_many { lives.count } else { of.count };
        let calls = of.slowest.numbers();
        let finding = Finding::new(FindingKind::Spawns, evidence).costs(cost, wall.run_ns);
        Some(Finding { count, calls, within: Some(Activity::Spawn), ..finding })
    }

    /// Says which end of a pipe waits for which, if one does for much of the run.
    fn slow_pipe(&self, wall: &WallTime) -> Option<String> {
        let waited = |of: &Pipe| of.writing.ns.max(of.reading.ns);
        let pipe = self.pipes.iter().max_by_key(|(file, of)| (waited(of), Reverse(**file)))?.1;
        let (writer, reader) = (pipe.writer.as_ref()?, pipe.reader.as_ref()?);
        let (often, waits, slow, does) = match pipe.writing.ns > pipe.reading.ns {
            true => (&pipe.writing, writer, reader, "reads"),
            false => (&pipe.reading, reader, writer, "writes"),
        };
        // Who waits for one answer to a question waits for a peer, and for no slower end.
        let is_much = ratio(often.ns, wall.own_ns()) >= MUCH_AT_PIPE && often.count >= OFTEN_SLOW;
        is_much.then(|| {
            format!(
                "{} waited {} in {} for {}, which {does} more slowly; while that works, its work is \
                 counted as the cost, and not the wait",
                shown((&waits.0, waits.1)),
                show_time(often.ns),
                counted(often.count, "call", "calls"),
                shown((&slow.0, slow.1)),
            )
        })
    }

    fn churned(&self, prices: &Prices, files: &Namespace) -> Vec<Finding> {
        let opens = self.opens.iter().map(|(file, (_, of))| (file, of));
        let many = opens.filter(|(file, of)| {
            of.count >= OPENS_MANY && files.file(**file).is_stored && **file != FileId::OTHERS
        });
        let churned = many.map(|(file, of)| {
            let each = show_time(of.ns / of.count);
            let evidence = format!("opened {} times, {each} each", show_count(of.count));
            let about = (Activity::Metadata, prices);
            let finding = Finding::about(FindingKind::Churn, of, about, evidence).but_for(1);
            Finding { file: files.path(*file), ..finding }
        });
        churned.collect()
    }

    /// Also returns what of activities belongs to it.
    fn polled(&self, prices: &Prices) -> Option<(Finding, [(Activity, u64); 2])> {
        let polls = self.polls.values();
        let is_much =
            |of: &&Polls| of.in_vain.count >= POLLS_MANY && of.in_vain.count * 2 >= of.all;
        let most =
            polls.filter(is_much).max_by_key(|of| (of.in_vain.ns + of.computed_ns, of.last))?;
        let (activity, call) = most.last?;
        let evidence = format!(
            "{} of a thread's {} calls came to nothing, most of them {}; {} with the time between them",
            show_count(most.in_vain.count),
            show_count(most.all),
            crate::call_name(call),
            show_time(most.in_vain.ns.saturating_add(most.computed_ns))
        );
        let cost =
            prices.of(activity, most.in_vain.ns) + prices.of(Activity::Outside, most.computed_ns);
        let about = (activity, prices);
        let finding = Finding::about(FindingKind::Polling, &most.in_vain, about, evidence);
        // It is a part of two activities.
        let finding = Finding { within: None, ..finding }.costs(cost, prices.run_ns());
        let own = (Activity::Outside, prices.of(Activity::Outside, most.gaps_ns));
        Some((finding, [own, (activity, prices.of(activity, most.in_vain.ns))]))
    }
}

/// Returns a finding about one thread that computes while others wait.
fn held_up(wall: &WallTime, cpus: u32) -> Option<Finding> {
    let is_told = cpus > 1 && ratio(wall.held_up_ns, wall.own_ns()) >= HELD_UP;
    is_told.then(|| {
        let evidence = format!(
            "for {} of the run one thread alone computes, and others wait for locks or threads; the \
             machine has {}",
            percent(ratio(wall.held_up_ns, wall.run_ns)),
            counted(cpus.into(), "CPU", "CPUs"),
        );
        let finding = Finding::new(FindingKind::SingleThreaded, evidence);
        let finding = finding.costs(wall.held_up_ns, wall.run_ns);
        // With the work on all of them, one part of it stays.
        let saves_ns = wall.held_up_ns - wall.held_up_ns / u64::from(cpus);
        Finding { within: Some(Activity::Outside), saves_ns, ..finding }
    })
}

/// Returns the file that a call is about: that which it opened, named, read or wrote.
fn about(activity: Activity, moment: &Moment<'_>) -> Option<FileId> {
    let touch = moment.touch;
    let moved = |writes| {
        let mut accesses = touch.accesses.iter().flatten();
        accesses.find(|access| access.is_write == writes).map(|access| access.file)
    };
    // A copy from file to file reads the one that stands first.
    let moved = match activity {
        Activity::Write => moved(true),
        Activity::Read => moved(false),
        Activity::Sync | Activity::Metadata => None,
        _ => return None,
    };
    let named = touch.by_path.iter().flatten().next().copied();
    let opened = touch.opened.map(|(file, _)| file);
    let by_fd = touch.by_fd.map(|(file, _)| file);
    Some(opened.or(moved).or(named).or(by_fd).unwrap_or(FileId::OTHERS))
}

/// Returns true if a read took longer than a copy out of memory takes.
fn is_slow(bytes: u64, ns: u64) -> bool {
    ns >= bytes.saturating_mul(SLOW_BYTE_NS).saturating_add(SLOW_READ_NS)
}

/// Returns true if a call reads a file that is on a disk, and nothing that the kernel makes up.
fn is_stored(moment: &Moment<'_>) -> bool {
    moment.touch.by_fd.is_some_and(|(file, _)| moment.files.file(file).is_stored)
}

/// Returns true for a call that asked for something that is not there yet.
fn is_in_vain(call: &Call, activity: Activity) -> bool {
    call.error() == Some(EAGAIN)
        || (call.success() == Some(0) && activity == Activity::Events)
        || activity == Activity::Sleep
}

impl Watch for Run {
    fn add(&mut self, visit: &mut Visit<'_>) {
        let moment = visit.moment;
        self.activities.0.add(visit);
        if let EventKind::Call(call) = &moment.event.kind
            && moment.submitted_ns.is_none()
            && self.activities.0.counts(visit)
        {
            let ns = moment.duration_ns().unwrap_or(0);
            let sum = &mut self.all_ns[Activity::of(call, moment) as usize];
            *sum = sum.saturating_add(ns);
        }
        match &moment.event.kind {
            EventKind::Start { .. } => {
                if let Some(thread) = moment.world.thread(moment.event.thread)
                    && self.processes.len() < COUNTED_MAX
                {
                    let born = Life { born_ns: moment.enter_ns, parts: [0.0; COUNT] };
                    self.processes.entry(thread.process).or_insert(born);
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

fn percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}

/// Returns a program's name for people, with the id of its process unless that is 0.
fn shown((path, pid): (&[u8], u32)) -> String {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    let mut text = String::new();
    escape(&mut text, name, &[]);
    match (text.is_empty(), pid) {
        (true, 0) => "another program".into(),
        (true, pid) => format!("process {pid}"),
        (false, 0) => text,
        (false, pid) => format!("{text} (process {pid})"),
    }
}
