//! One thread: what it does, since when, and how long it did what.

use syscalls::abi::states::{self, Stopping};

use crate::kernel_tasks::Missing;

use super::pieces::{Doing, InCall, Interruption, Piece, Times, Waker};
use super::reasons::{self, Wait};

/// Bytes of a name; the kernel has 15.
const NAME_BYTES_MAX: usize = 64;

/// The state of a thread, as events tell it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// It has a CPU.
    Runs,
    /// It could go on, and has no CPU.
    Waits {
        /// It was put aside, not woken.
        is_preempted: bool,
    },
    /// It waits for something in the kernel, and signals do not wake it.
    Blocked,
    /// It waits for something else.
    Asleep,
    /// A signal or a debugger has stopped it.
    Stopped,
    /// Events about it are missing.
    Unknown,
    /// It has ended.
    Ended,
}

impl State {
    pub(super) fn by_letter(letter: u8) -> State {
        match states::by_letter(letter) {
            Stopping::Runnable => State::Waits { is_preempted: true },
            Stopping::Blocked => State::Blocked,
            Stopping::Asleep => State::Asleep,
            Stopping::Stopped => State::Stopped,
            Stopping::Ended => State::Ended,
        }
    }
}

impl State {
    /// The state of a thread of which some events are missing: what it does after this one is known
    /// only while the next one must be there.
    fn as_seen(self, missing: Missing) -> State {
        match (missing, self) {
            (Missing::Nothing, _) | (_, State::Ended) | (Missing::OtherCpus, State::Runs) => self,
            _ => State::Unknown,
        }
    }
}

/// Takes the stretches of time, those of one thread in their order.
pub trait Sink {
    /// A stretch is over.
    fn piece(&mut self, thread: &Thread, piece: Piece);

    /// A CPU was interrupted, while it ran a thread or was idle (0).
    fn interrupted(&mut self, _interruption: &Interruption) {}
}

/// For two that both want to know.
impl<A: Sink, B: Sink> Sink for (&mut A, &mut B) {
    fn piece(&mut self, thread: &Thread, piece: Piece) {
        self.0.piece(thread, piece);
        self.1.piece(thread, piece);
    }

    fn interrupted(&mut self, interruption: &Interruption) {
        self.0.interrupted(interruption);
        self.1.interrupted(interruption);
    }
}

/// For those who only want sums.
impl Sink for () {
    fn piece(&mut self, _: &Thread, _: Piece) {}
}

/// A thread.
#[derive(Debug)]
pub struct Thread {
    /// Its id, as the kernel's first namespace has it.
    pub id: u32,
    /// Its process, if known.
    pub pid: Option<u32>,
    /// The process that made it.
    pub parent: Option<u32>,
    /// User and group.
    pub ids: Option<[u32; 2]>,
    /// Its name.
    pub name: Vec<u8>,
    /// A thread of the kernel's own.
    pub is_kernel: bool,
    /// Its events were wanted, also where not all were.
    pub is_followed: bool,
    /// How long it did what.
    pub times: Times,
    /// How often it was switched away from.
    pub switches: u64,
    /// The call that it is in, or was in last.
    pub call: Option<InCall>,
    /// When it was first seen.
    pub first: u64,
    state: State,
    /// What events do not tell of it.
    missing: Missing,
    pub(super) since: u64,
    pub(super) cpu: u32,
    pub(super) has_agent: bool,
    /// When it was woken though it had not gone to sleep yet, and by whom.
    early: Option<Waker>,
    /// Who woke it, while it waits for a CPU.
    waker: Waker,
    /// Until when it is in a page fault.
    pub(super) fault_until: u64,
    /// Since when, if nothing has shown yet that it is out of it.
    pub(super) fault_since: Option<u64>,
    /// The lock of the kernel that it waits for.
    pub(super) contends: Option<u64>,
}

impl Thread {
    pub(super) fn new(id: u32, state: State, since: u64, missing: Missing) -> Thread {
        Thread {
            id,
            pid: None,
            parent: None,
            ids: None,
            name: Vec::new(),
            is_kernel: false,
            is_followed: false,
            times: Times::default(),
            switches: 0,
            call: None,
            first: since,
            state: state.as_seen(missing),
            missing,
            since,
            cpu: 0,
            has_agent: false,
            early: None,
            waker: Waker::Nobody,
            fault_until: 0,
            fault_since: None,
            contends: None,
        }
    }

    /// The call that it is in at a time.
    pub fn call_at(&self, now: u64) -> Option<&InCall> {
        self.call.as_ref().filter(|call| call.from <= now && now < call.until)
    }

    /// The CPU on which it runs, or ran last.
    pub fn cpu(&self) -> u32 {
        self.cpu
    }

    /// Returns true if an agent has recorded calls of it.
    pub fn has_agent(&self) -> bool {
        self.has_agent
    }

    /// Returns true if it has ended.
    pub fn has_ended(&self) -> bool {
        self.state == State::Ended
    }

    fn spend(
        &mut self,
        doing: Doing,
        to: u64,
        waker: Waker,
        lock: Option<u64>,
        sink: &mut impl Sink,
    ) {
        let from = self.since;
        if to > from {
            self.times.spend(doing, to - from);
            self.since = to;
            let cpu = self.cpu;
            sink.piece(self, Piece { doing, from, to, cpu, waker, lock });
        }
    }

    /// It had a CPU up to now. Returns how long it ran by itself, and how long in the kernel.
    pub(super) fn ran(&mut self, is_interrupted: bool, now: u64, sink: &mut impl Sink) -> [u64; 2] {
        if self.state != State::Runs || now <= self.since {
            return [0; 2];
        }
        if is_interrupted {
            self.spend(Doing::Interrupted, now, Waker::Nobody, None, sink);
            return [0; 2];
        }
        let since = self.since;
        let in_call = self.call_at(since).map_or(0, |call| call.until).min(now);
        self.spend(Doing::Call, in_call, Waker::Nobody, None, sink);
        let in_fault = if self.fault_since.is_some() && self.fault_until == u64::MAX {
            now
        } else {
            self.fault_until.min(now)
        };
        self.spend(Doing::Fault, in_fault, Waker::Nobody, None, sink);
        let own = now - self.since;
        self.spend(Doing::Own, now, Waker::Nobody, None, sink);
        if self.is_kernel { [0, now - since] } else { [own, now - since - own] }
    }

    /// It goes into a state. Who ended its wait, if it is one.
    pub(super) fn go(&mut self, state: State, now: u64, by: Waker, sink: &mut impl Sink) {
        match self.state {
            State::Runs => _ = self.ran(false, now, sink),
            State::Waits { is_preempted } => {
                let doing = if is_preempted { Doing::Preempted } else { Doing::Woken };
                self.spend(doing, now, self.waker, None, sink);
            }
            // It was woken before it slept: all that time it could have run.
            State::Blocked | State::Asleep if state == State::Runs && self.early.is_some() => {
                self.spend(Doing::Woken, now, self.early.unwrap_or_default(), None, sink);
            }
            State::Blocked | State::Asleep => {
                let (doing, lock) = reasons::of_wait(&Wait {
                    is_deep: self.state == State::Blocked,
                    is_kernel: self.is_kernel,
                    is_in_fault: self.has_agent && self.fault_since.is_some(),
                    call: self.call_at(self.since),
                    contends: self.contends,
                    by,
                });
                self.spend(doing, now, by, lock, sink);
            }
            State::Stopped => self.spend(Doing::Stopped, now, by, None, sink),
            State::Unknown => self.spend(Doing::Unknown, now, by, None, sink),
            // What has ended does nothing more.
            State::Ended => return,
        }
        self.waker = by;
        if state == State::Runs || matches!(state, State::Waits { .. }) {
            self.early = None;
        }
        self.state = state.as_seen(self.missing);
        self.since = self.since.max(now);
    }

    /// It is seen running, and had done nothing else.
    pub(super) fn ran_since_then(&mut self) {
        self.state = State::Runs.as_seen(self.missing);
    }

    /// What it did up to now is not in the trace.
    pub(super) fn begins_late(&mut self, now: u64) {
        (self.first, self.since, self.state) = (now, now, State::Unknown);
    }

    pub(super) fn state(&self) -> State {
        self.state
    }

    /// It has a CPU from now on. A thread of the kernel's own of which some events alone are in the trace,
    /// and not its wakeup, may have done anything since it slept.
    pub(super) fn comes_unseen(&mut self, is_all: bool) {
        let is_asleep = matches!(self.state, State::Blocked | State::Asleep);
        if !is_all && self.is_kernel && !self.is_followed && is_asleep && self.early.is_none() {
            self.state = State::Unknown;
        }
    }

    /// It is switched away from.
    pub(super) fn leaves(&mut self, why: Stopping, now: u64, sink: &mut impl Sink) {
        let early = self.early;
        let state = match why {
            Stopping::Runnable => State::Waits { is_preempted: true },
            Stopping::Blocked => State::Blocked,
            Stopping::Asleep => State::Asleep,
            Stopping::Stopped => State::Stopped,
            Stopping::Ended => State::Ended,
        };
        self.go(state, now, Waker::Nobody, sink);
        if matches!(state, State::Blocked | State::Asleep) {
            self.early = early;
        }
    }

    /// It is woken.
    pub(super) fn wakes(&mut self, now: u64, by: Waker, sink: &mut impl Sink) {
        match self.state {
            // It is on its way to sleep, and will not; or has slept already, and the switch comes late.
            State::Runs => self.early = Some(by),
            State::Waits { .. } => {}
            _ => self.go(State::Waits { is_preempted: false }, now, by, sink),
        }
    }

    /// It touches memory that is not there yet.
    pub(super) fn faults(&mut self, now: u64, typical_ns: u64, sink: &mut impl Sink) {
        self.ran(false, now, sink);
        if self.call_at(now).is_none() {
            self.fault_since = Some(now);
            self.fault_until = now.saturating_add(typical_ns);
        }
    }

    pub(super) fn rename(&mut self, name: &[u8]) {
        let name = &name[..name.len().min(NAME_BYTES_MAX)];
        if self.name != name && !name.is_empty() {
            self.name = name.to_vec();
        }
    }
}
