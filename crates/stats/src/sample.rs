//! Builds events in memory for tests, and folds over them.

use model::{InlineOnly, Namespace, Walk};
use trace::Sequenced;
use trace::event::{
    Call, Content, Data, Event, EventKind, OpenFd, Outcome, ProcessState, StartHow,
};

use crate::pass::{Fold, Occasion, Visit, Watch};

/// Builder for a call.
#[derive(Clone)]
pub struct Made {
    /// The call.
    pub call: Call,
    /// Its duration, `None` if it does not return.
    pub ns: Option<u64>,
    /// The calling thread.
    pub thread: u32,
}

/// Makes a call of thread 1 that returns at once.
pub fn call(name: &str, args: &[i64], ret: i64) -> Made {
    let mut all = [0; 6];
    for (to, from) in all.iter_mut().zip(args) {
        *to = *from as u64;
    }
    let call = Call {
        nr: syscalls::by_name(name).expect("a row").nr,
        flags: 0,
        site: 0x1000,
        nargs: args.len() as u8,
        args: all,
        outcome: Outcome::Returned { exit_tsc: 0, ret },
        data: Vec::new(),
        identities: Vec::new(),
    };
    Made { call, ns: Some(0), thread: 1 }
}

impl Made {
    /// Sets the duration.
    pub fn lasts(mut self, ns: u64) -> Made {
        self.ns = Some(ns);
        self
    }

    /// Makes the call not return.
    pub fn never(mut self) -> Made {
        self.ns = None;
        self.call.outcome = Outcome::Unfinished;
        self
    }

    /// Sets the calling thread.
    pub fn by(mut self, thread: u32) -> Made {
        self.thread = thread;
        self
    }

    /// Adds memory behind an argument, read before the call.
    pub fn with(mut self, arg: u8, bytes: &[u8]) -> Made {
        self.call.data.push(Data {
            arg,
            part: 0,
            index: 0,
            flags: 0,
            true_len: bytes.len() as u64,
            hash: None,
            content: Content::Inline(bytes.to_vec()),
        });
        self
    }
}

/// Makes an open of `path` that returns `fd`.
pub fn open(path: &str, flags: i64, fd: i64) -> Made {
    call("openat", &[-100, 0x5000, flags, 0o600], fd).with(1, path.as_bytes())
}

/// Returns the calls as events: each begins 1000 ns after the previous one returned.
pub fn events(calls: &[Made]) -> Vec<Event> {
    let mut tsc = 1000;
    let events = calls.iter().map(|made| {
        let mut call = made.call.clone();
        let begun = tsc;
        tsc += 1000 + made.ns.unwrap_or(0);
        if let (Some(ns), Outcome::Returned { ret, .. }) = (made.ns, call.outcome) {
            call.outcome = Outcome::Returned { exit_tsc: begun + ns, ret };
        }
        Event::new(made.thread, begun, EventKind::Call(call))
    });
    events.collect()
}

fn exit_ns(event: &Event) -> Option<u64> {
    match &event.kind {
        EventKind::Call(Call { outcome: Outcome::Returned { exit_tsc, .. }, .. }) => {
            Some(*exit_tsc)
        }
        _ => None,
    }
}

/// Folds calls. One tick is one nanosecond.
pub fn fold<F: Fold>(fold: F, calls: &[Made]) -> F {
    fold_events(fold, &events(calls))
}

/// Folds events.
pub fn fold_events<F: Fold>(mut fold: F, events: &[Event]) -> F {
    for event in events {
        let submitted_ns = model::operations::submitted(event);
        let exit_ns = exit_ns(event);
        let enter_ns = event.tsc;
        fold.add(&Occasion { event, enter_ns, exit_ns, submitted_ns, user_ns: None });
    }
    fold
}

/// Returns the program's first events: process 1, in `/work dir`, with an open pipe.
pub fn begin() -> Vec<Event> {
    let start = |thread, how, process, parent| {
        let kind = EventKind::Start { how, process, parent, pid: 99 + process, tid: 99 + thread };
        Event::new(thread, 1, kind)
    };
    let state = ProcessState {
        process: 1,
        pid: 100,
        exe: b"/bin/program".to_vec(),
        cwd: b"/work dir".to_vec(),
        fds: vec![OpenFd { fd: 1, target: b"pipe:[1]".to_vec(), offset: 0, flags: 1 }],
        ..ProcessState::default()
    };
    let state = Event::new(0, 1, EventKind::State(Box::new(state)));
    vec![start(1, StartHow::Launch, 1, 0), state, start(2, StartHow::Thread, 1, 1)]
}

/// Passes calls of a program with two threads to `watch`, in order. Also returns their files.
pub fn watch<W: Watch>(watch: W, calls: &[Made]) -> (W, Namespace) {
    let mut all = begin();
    all.extend(events(calls));
    watch_events(watch, &all)
}

/// Passes events to `watch`, in order. Also returns their files.
pub fn watch_events<W: Watch>(mut watch: W, events: &[Event]) -> (W, Namespace) {
    let mut walk = Walk::following_files();
    for event in events {
        let next = Sequenced { seq: None, event: event.clone() };
        walk.event(&next, &|tsc| tsc, &mut InlineOnly, |moment, contents| {
            watch.add(&mut Visit { moment, wanted: true, contents });
        });
    }
    (watch, walk.into_files())
}
