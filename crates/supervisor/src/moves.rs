//! Moves threads whose user or IPC namespace has changed to another arena.

use std::io;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;

use kin::{Credentials, Identity, Relation};
use ring::{SLOTS, Slot, answer, slot_state};

use crate::domain::Way;
use crate::errand::{Errand, TookTooLong};
use crate::message::{Mailbox, Message};
use crate::observer::Observer;
use crate::place::Refusal;
use crate::request::Request;
use crate::state::Supervisor;
use crate::tracee::is_dead;
use crate::unfinished::{Delivery, Move, Sight, Step};

enum Next {
    Reply(u32),
    Send(Delivery),
}

impl Supervisor {
    /// Whether a request in a slot may be from this thread. Programs of the slot's users can write
    /// it, and must not act for others.
    pub(crate) fn speaks_through(&mut self, slot: usize, identity: &Identity) -> bool {
        let users = self.domains.get(slot / SLOTS).users;
        crate::domain::Users::of(&identity.credentials) == Some(users)
    }

    /// The domain for a thread with these ids.
    pub(crate) fn domain_of(
        &mut self,
        ids: &Credentials,
        now_in: usize,
        same_ipc: bool,
    ) -> io::Result<usize> {
        let before = self.domains.iter().len();
        let number = self.domains.of_thread(ids, now_in, same_ipc)?;
        let domain = self.domains.get(number);
        if number == before {
            self.large_pages.use_soon(&domain.large_pages());
        }
        self.kin.add_arena(domain.mapped());
        Ok(number)
    }

    /// Gives a stopped thread a slot in a domain. Returns its present one if that is there.
    pub(crate) fn move_to(
        &mut self,
        domain: usize,
        slot: usize,
        pid: i32,
        observer: &mut dyn Observer,
    ) -> Result<usize, Refusal> {
        if slot / SLOTS == domain {
            return Ok(slot);
        }
        let process = self.process_in(slot);
        let target = self.domains.get(domain);
        let (arena, user) = (target.arena, target.users.least());
        let no_slot = || Refusal::NoArena(io::ErrorKind::StorageFull.into());
        let index = arena.reserve_slot().ok_or_else(no_slot)?;
        copy_slot(self.slot(slot), arena.slot(index));
        arena.slot(index).process.store(process, Ordering::Relaxed);
        self.guests.admit(domain, process, pid);
        let moved = domain * SLOTS + index;
        let noted = observer.moved(slot, moved, arena, user);
        match self.wait_for_recorder(&noted, observer) {
            true => Ok(moved),
            false => Err(Refusal::Stopped),
        }
    }

    /// Begins a move. The thread waits for the answer, so it can be moved like a stopped one.
    pub(crate) fn user_changed(&mut self, request: Request, tid: i32) {
        let index = request.index;
        let slot = self.slot(index);
        let [socket, helper] = [1, 2].map(|n| slot.request_args[n].load(Ordering::Relaxed) as u32);
        let helper = if helper == 0 { None } else { self.global_tid(slot, helper) };
        let socket = helper.zip(i32::try_from(socket).ok());
        let generation = slot.generation.load(Ordering::Relaxed);
        let (process, step) = (self.process_in(index), Step::Look(Errand::new()));
        let former =
            self.moves.insert(index, Move { request, tid, process, generation, socket, step });
        self.give_up(former);
    }

    /// Continues all pending moves.
    pub(crate) fn look_at_moves(&mut self, observer: &mut dyn Observer) {
        for (index, mut moving) in std::mem::take(&mut self.moves) {
            let slot = self.slot(index);
            if slot.generation.load(Ordering::Relaxed) != moving.generation {
                self.give_up(Some(moving)); // it was killed
                continue;
            }
            match self.go_on(index, &mut moving, observer) {
                None => {
                    self.moves.insert(index, moving);
                }
                Some(Ok(reply)) => self.reply(moving.request, reply),
                Some(Err(refusal)) => {
                    // Nothing more is to be recorded of a thread that was killed.
                    if !is_dead(moving.tid) {
                        let (tid, why) = (moving.tid as u32, refusal.to_string());
                        observer.not_followed(tid, moving.process, &why);
                    }
                    let request = moving.request;
                    self.give_up(Some(moving));
                    self.reply(request, answer::REFUSED);
                }
            }
        }
    }

    /// Drops the moves of a process's threads, except of the one in slot `but`: they are gone.
    pub(crate) fn forget_moves(&mut self, process: u32, but: usize) {
        for (index, moving) in std::mem::take(&mut self.moves) {
            if moving.process == process && index != but {
                self.give_up(Some(moving));
            } else {
                self.moves.insert(index, moving);
            }
        }
    }

    /// Ends the slot that was reserved for a move.
    fn give_up(&self, moving: Option<Move>) {
        if let Some(Move { step: Step::Send(delivery), .. }) = moving {
            self.slot(delivery.slot).end();
        }
    }

    /// Returns the reply, or `None` if the move has to wait.
    fn go_on(
        &mut self,
        index: usize,
        moving: &mut Move,
        observer: &mut dyn Observer,
    ) -> Option<Result<u32, Refusal>> {
        if let Step::Look(errand) = &mut moving.step {
            let sight = match errand.look(|| self.begin_look(index, moving.tid))? {
                Ok(sight) => sight,
                Err(TookTooLong) => return Some(Err(too_long())),
            };
            match self.follow(moving, index, &sight, observer) {
                Ok(Next::Reply(reply)) => return Some(Ok(reply)),
                Ok(Next::Send(delivery)) => moving.step = Step::Send(delivery),
                Err(refusal) => return Some(Err(refusal)),
            }
        }
        let Step::Send(delivery) = &mut moving.step else { return None };
        let sent = self.deliver(delivery)?;
        Some(sent.map(|()| answer::DONE))
    }

    /// Starts looking at a thread that asks, on another thread.
    fn begin_look(&self, index: usize, tid: i32) -> Option<Receiver<Sight>> {
        let domain = self.domains.get(index / SLOTS);
        let (reach, here) = (self.domains.reach(), domain.mapped());
        let look = move || Sight {
            same_ipc: reach.includes(tid),
            relation: kin::has_one_of(tid, &[here]),
        };
        domain.patience.begin(look, self.bell())
    }

    fn follow(
        &mut self,
        moving: &Move,
        index: usize,
        sight: &Sight,
        observer: &mut dyn Observer,
    ) -> Result<Next, Refusal> {
        let &Move { tid, socket, .. } = moving;
        let stranger = || Refusal::NoArena(io::Error::other("it is not who it says it is"));
        let identity = self.kin.identify(tid).ok_or(Refusal::Stopped)?;
        if sight.relation != Relation::Ours {
            return Err(stranger());
        }
        let now_in = index / SLOTS;
        let domain = self
            .domain_of(&identity.credentials, now_in, sight.same_ipc)
            .map_err(Refusal::NoArena)?;
        if domain == now_in {
            return Ok(Next::Reply(answer::STAY));
        }
        let segment = match &self.domains.get(domain).way {
            Way::Segment(segment) => Some(segment.id as u64),
            Way::Message { .. } => None,
        };
        let Some(segment) = segment else {
            let Some((helper, socket)) = socket else {
                return Ok(Next::Reply(answer::NEEDS_SOCKET));
            };
            let of_same = self.kin.identify(helper).is_some_and(|h| h.process == identity.process);
            if !of_same {
                return Err(stranger());
            }
            let moved = self.move_to(domain, index, identity.process, observer)?;
            let to = Mailbox::OfThread { tid: helper, socket };
            return Ok(Next::Send(Delivery::new(moved, to)));
        };
        let moved = self.move_to(domain, index, identity.process, observer)?;
        let slot = self.slot(index);
        slot.request_args[0].store(segment, Ordering::Relaxed);
        slot.request_args[1].store((moved % SLOTS) as u64, Ordering::Relaxed);
        Ok(Next::Reply(answer::SEGMENT))
    }

    /// Continues sending a message. `None` if it is not sent yet.
    pub(crate) fn deliver(&mut self, delivery: &mut Delivery) -> Option<Result<(), Refusal>> {
        let &mut Delivery { slot, to, ref mut errand } = delivery;
        let mut failed = None;
        let sent = errand.look(|| {
            let message = self.message_to(slot).map_err(|error| failed = Some(error)).ok()?;
            let patience = &self.domains.get(slot / SLOTS).patience;
            patience.begin(move || message.send(to), self.bell())
        });
        if let Some(error) = failed {
            return Some(Err(Refusal::NoArena(error)));
        }
        Some(match sent? {
            Ok(sent) => sent.map_err(Refusal::NoArena),
            Err(TookTooLong) => Err(too_long()),
        })
    }

    /// The message to the thread that is to use a slot.
    fn message_to(&mut self, slot: usize) -> io::Result<Message> {
        self.make_sendable()?;
        let Way::Message { file, .. } = &self.domains.get(slot / SLOTS).way else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let published = self.sendable.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        Ok(Message {
            slot: slot % SLOTS,
            arena: file.try_clone()?,
            published: published.file.try_clone()?,
        })
    }
}

fn too_long() -> Refusal {
    Refusal::NoArena(io::ErrorKind::TimedOut.into())
}

/// Copies what an agent continues with from a waiting thread's slot to its new one. The recorder,
/// which knows whether the thread is gone, moves it.
fn copy_slot(from: &Slot, to: &Slot) {
    let words = [
        (&from.thread, &to.thread),
        (&from.process, &to.process),
        (&from.parent, &to.parent),
        (&from.how, &to.how),
        (&from.pid, &to.pid),
        (&from.tid, &to.tid),
        (&from.pid_seen, &to.pid_seen),
        (&from.foreign_pid, &to.foreign_pid),
    ];
    let counters = [
        (&from.exec_blocked, &to.exec_blocked),
        (&from.exec_ignored, &to.exec_ignored),
        (&from.exec_state, &to.exec_state),
        (&from.exec_stopped, &to.exec_stopped),
        (&from.calls, &to.calls),
        (&from.slow_calls, &to.slow_calls),
        (&from.stall_ns, &to.stall_ns),
    ];
    for (from, to) in words {
        to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
    }
    for (from, to) in counters {
        to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
    }
    to.state.store(slot_state::MOVING, Ordering::Release);
}
