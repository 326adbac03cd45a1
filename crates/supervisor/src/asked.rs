//! What programs ask that are recorded for a re-execution, or re-executed.

use std::sync::atomic::Ordering;

use kin::{Identity, Relation};

use crate::observer::Observer;
use crate::request::Request;
use crate::state::Supervisor;
use crate::wish::{Answer, Asked};

impl Supervisor {
    /// Passes on a request.
    pub(crate) fn asked(&mut self, request: Request, tid: i32, observer: &mut dyn Observer) {
        let index = request.index;
        let answer = Answer::to(self.slot(index), request);
        let Some((Relation::Ours, Identity { process: pid, .. })) = self.who_asks(tid, index)
        else {
            return;
        };
        let slot = self.slot(index);
        let read =
            |words: &[std::sync::atomic::AtomicU64], n: usize| words[n].load(Ordering::Relaxed);
        let args = std::array::from_fn(|n| read(&slot.request_args, n));
        let more = std::array::from_fn(|n| read(&slot.request_more, n));
        let thread = slot.thread.load(Ordering::Relaxed);
        let process = self.process_in(index);
        observer.asked(Asked { pid, tid, thread, process, what: request.what, args, more, answer });
    }
}
