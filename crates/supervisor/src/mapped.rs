//! What agents ask about memory in which files are mapped: passed on to whoever watches it.

use std::sync::atomic::Ordering;

use kin::{Identity, Relation};
use ring::request;

use crate::observer::Observer;
use crate::request::Request;
use crate::state::Supervisor;
use crate::wish::{Answer, Mapped, Wish};

impl Supervisor {
    /// Passes on a request about mapped files.
    pub(crate) fn mapped(&mut self, request: Request, tid: i32, observer: &mut dyn Observer) {
        let index = request.index;
        let answer = Answer::to(self.slot(index), request);
        let Some((Relation::Ours, Identity { process: pid, .. })) = self.who_asks(tid, index)
        else {
            return;
        };
        let Some((owner, wish)) = self.wish(request, pid) else { return };
        let thread = self.slot(index).thread.load(Ordering::Relaxed);
        observer.mapped(Mapped { pid, tid, owner, thread, wish, answer });
    }

    /// The number of the process whose memory it is about, and the wish.
    fn wish(&mut self, request: Request, pid: i32) -> Option<(u32, Wish)> {
        let slot = self.slot(request.index);
        let [first, second, third, fourth, fifth, sixth] =
            slot.request_args.each_ref().map(|arg| arg.load(Ordering::Relaxed));
        let arena = request.index / ring::SLOTS;
        if request.what == request::COLLECT {
            let owner = u32::try_from(fifth).ok()?;
            let wish = Wish::Collect { about: first, start: second, length: third, next: fourth };
            return self.guests.may_name(arena, owner).then_some((owner, wish));
        }
        let (when, owner) = ring::halves(sixth);
        if !self.guests.may_name(arena, owner) {
            return None;
        }
        let mut by = None;
        if first != 0 {
            let (fd, helper) = ring::halves(first);
            let helper = self.global_tid(slot, helper)?;
            let is_its = self.kin.identify(helper).is_some_and(|found| found.process == pid);
            by = Some((helper, i32::try_from(fd).ok()?)).filter(|_| is_its);
            by?;
        }
        let what = ring::Mapped::of_words([second, third])?;
        if let ring::Mapped::LikeProcess(process) = what
            && !self.guests.may_name(arena, process)
        {
            return None;
        }
        Some((owner, Wish::Watch { by, what, start: fourth, length: fifth, when }))
    }
}
