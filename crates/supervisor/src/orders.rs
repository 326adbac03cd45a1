//! Signals that request the end of the recording, also while the recorder is waited for.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use kin::Relation;

use crate::observer::Observer;
use crate::signals::{self, Signal};
use crate::state::{Order, Supervisor};

/// Number of requests from which the recording itself is to end.
pub(crate) const TIMES_TO_END: u32 = 2;
/// Signals within this time count as one request.
const BURST: Duration = Duration::from_millis(200);

/// How often signals are looked at meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(200);

impl Supervisor {
    pub(crate) fn look_at_signals(&mut self, observer: &mut dyn Observer) {
        let ended = self.program_status.is_some();
        for signal in signals::take() {
            self.signalled(signal, ended, observer);
        }
    }

    /// Looks at the signals that were sent while the program was there, which has just ended.
    pub(crate) fn look_at_last_signals(&mut self, observer: &mut dyn Observer) {
        for signal in signals::take() {
            self.signalled(signal, false, observer);
        }
    }

    /// Whether signals demand not to wait for anything.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.order.as_ref().is_some_and(|order| order.times > TIMES_TO_END)
    }

    /// Waits for the recorder, which may itself be blocked by the trace's reader. False if it will
    /// not answer, or a signal demands not to wait.
    pub(crate) fn wait_for_recorder(
        &mut self,
        noted: &Receiver<()>,
        observer: &mut dyn Observer,
    ) -> bool {
        loop {
            match noted.recv_timeout(LOOK_EVERY) {
                Ok(()) => return true,
                Err(RecvTimeoutError::Disconnected) => return false,
                Err(RecvTimeoutError::Timeout) => self.look_at_signals(observer),
            }
            if self.is_abandoned() {
                return false;
            }
        }
    }

    /// Handles a signal. One sent to us alone is passed on to the program. A repeated request to
    /// end, or one after the program's end, is for the recording.
    fn signalled(&mut self, signal: Signal, ended: bool, observer: &mut dyn Observer) {
        let Signal { number, sender } = signal;
        // A program that signals its process group or its parent does not mean the recorder.
        let by_program = sender.is_some_and(|pid| match self.kin.relation(pid) {
            Relation::Ours => true,
            relation => observer.is_recorded(pid, relation == Relation::Gone),
        });
        if by_program {
            return;
        }
        observer.signalled(number);
        if sender.is_none() && !ended {
            return;
        }
        if self.program_status.is_none() {
            // SAFETY: takes numbers only; the child was not waited for, so the id is still its own.
            unsafe { libc::kill(self.program, number) };
        }
        if !matches!(number, libc::SIGTERM | libc::SIGINT) {
            return;
        }
        let order = self.order.get_or_insert(Order { times: 0, signal: number, last: None });
        let last = order.last.replace(Instant::now());
        // A process and its group may be signalled at a time.
        if last.is_some_and(|last| last.elapsed() < BURST) {
            return;
        }
        order.signal = number;
        order.times = if ended { order.times.max(1) + 1 } else { order.times + 1 };
        if order.times == TIMES_TO_END {
            observer.told_to_end(number);
        }
    }
}
