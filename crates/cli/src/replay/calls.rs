//! Looks up calls in the trace; the replay only knows their numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use model::decode::value::Value;
use model::{Conditions, Moment, Stored};
use render::escape;
use render::lines;
use render::text::Style;
use replay::outcome::{Outcome, Stopped, Waiting, Waits, shown};
use trace::Trace;
use trace::event::{self, EventKind};

use super::log;

/// Limit for the listed processes that hold the other end of a pipe.
const OTHERS_MAX: usize = 8;

/// A call of the trace.
struct Call {
    /// Process and thread of the call.
    who: String,
    text: String,
    /// The file that it names, or the target of its descriptor.
    file: Vec<u8>,
    /// Its result.
    ret: String,
    /// Ids of processes that have other descriptors of the same pipe.
    others: BTreeSet<u32>,
}

/// Adds file names to mismatches. Returns a description of each wait of a stuck replay.
pub fn look_up(trace: &Trace, outcome: &mut Outcome) -> Vec<String> {
    let groups = &mut outcome.mismatches.groups;
    let examples = groups.iter().flat_map(|group| &group.examples).map(|example| example.seq);
    let waiting: &[Waiting] = match &outcome.stopped {
        Some(Stopped::Stuck(waiting)) => waiting,
        _ => &[],
    };
    let seqs = examples.chain(waiting.iter().map(|waiting| waiting.seq)).collect();
    let calls = find(trace, seqs);
    for example in groups.iter_mut().flat_map(|group| &mut group.examples) {
        if let Some(call) = calls.get(&example.seq) {
            example.path = String::from_utf8_lossy(&call.file).into_owned();
        }
    }
    waiting.iter().map(|one| tell(one, waiting, &calls)).collect()
}

/// Ends the search.
struct AllFound;

fn find(trace: &Trace, mut wanted: BTreeSet<u64>) -> BTreeMap<u64, Call> {
    let mut found = BTreeMap::new();
    let _ = model::walk(trace, &Conditions::default(), &mut |moment, _, _| {
        if let (EventKind::Call(call), Some(seq)) = (&moment.event.kind, moment.seq)
            && wanted.remove(&seq)
        {
            found.insert(seq, one(call, moment, trace));
        }
        if wanted.is_empty() { Err(AllFound) } else { Ok(()) }
    });
    found
}

fn one(call: &event::Call, moment: &Moment<'_>, trace: &Trace) -> Call {
    let mut stored = Stored(trace);
    let style = Style { string_limit: 0, data: false, verbose: false };
    let decoded = lines::called(&mut String::new(), call, moment, &mut stored, style);
    let descriptor = decoded.args.iter().find_map(|(_, value)| match value {
        Value::Fd { fd, path: Some(path), .. } => Some((*fd, path.clone())),
        _ => None,
    });
    let path = moment.step.paths.first().map(|(_, path)| path.clone());
    let ret = match call.outcome {
        event::Outcome::Returned { ret, .. } => shown(ret),
        event::Outcome::Unfinished => "nothing".into(),
    };
    Call {
        who: lines::who((moment.pid, moment.tid)),
        text: log::describe(moment, &mut stored),
        others: descriptor.as_ref().map(|(fd, _)| others(moment, *fd)).unwrap_or_default(),
        file: path.or(descriptor.map(|(_, path)| path)).unwrap_or_default(),
        ret,
    }
}

/// Returns the ids of processes that have another end of the pipe behind a descriptor.
fn others(moment: &Moment<'_>, fd: i32) -> BTreeSet<u32> {
    let Some(table) = moment.world.descriptors(moment.event.thread) else { return BTreeSet::new() };
    let Some(own) = table.get(fd).map(|entry| entry.description) else { return BTreeSet::new() };
    let mut others = BTreeSet::new();
    if own.path.starts_with(b"pipe:") {
        moment.world.descriptors_of_all(&mut |pid, entry| {
            let other = &entry.description;
            if other.path == own.path && !std::rc::Rc::ptr_eq(own, other) {
                others.insert(pid);
            }
        });
    }
    others
}

/// Describes a wait: the waiting thread and what it waits for.
fn tell(waiting: &Waiting, all: &[Waiting], calls: &BTreeMap<u64, Call>) -> String {
    let who = |waiting: &Waiting| match calls.get(&waiting.seq) {
        _ if waiting.thread == 0 => "a task that never showed up".to_string(),
        Some(call) => call.who.clone(),
        None => format!("thread {}", waiting.thread),
    };
    let seq = waiting.seq;
    let text = calls.get(&seq).map(|call| format!(" {}", call.text)).unwrap_or_default();
    let ret = calls.get(&seq).map_or("nothing", |call| &call.ret);
    let mut out = who(waiting);
    let _ = match waiting.waits {
        Waits::Return => {
            write!(
                out,
                " does not return from call {seq}{text}, which returned {ret} when recorded"
            )
        }
        Waits::Result => write!(out, " repeats call {seq}{text} until it returns {ret}"),
        Waits::Thread(thread) => {
            let _ = write!(out, " waits before call {seq}{text}");
            match all.iter().find(|other| other.thread == thread) {
                Some(other) => write!(out, " for {}, which is at call {}", who(other), other.seq),
                None => write!(out, " for thread {thread} of the trace"),
            }
        }
        Waits::Work => write!(out, " has nothing more to do, and has not ended"),
    };
    if let Some(call) = calls.get(&seq)
        && waiting.waits == Waits::Return
        && !call.others.is_empty()
    {
        let pids: Vec<String> = call.others.iter().take(OTHERS_MAX).map(u32::to_string).collect();
        let more = if call.others.len() > OTHERS_MAX { ", ..." } else { "" };
        let mut pipe = String::new();
        escape::escape(&mut pipe, &call.file, &[]);
        let _ = write!(out, "; {pipe} is open in {}{more} as well", pids.join(", "));
    }
    out
}
