//! Threads that go on in another arena: their user has changed, or their IPC namespace.

use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kin::{Credentials, Identity, Relation};
use ring::{SLOTS, Slot, answer, slot_state};

use crate::domain::Way;
use crate::message::Message;
use crate::place;
use crate::place::Refusal;
use crate::serve::{Observer, Supervisor};

/// How long the look at a thread's namespace may take: the kernel has us wait while another one of its
/// process executes a program.
const LOOK_WAIT: Duration = Duration::from_millis(500);

impl Supervisor {
    /// Whether a thread may speak through a slot: what is there was written by programs of the
    /// slot's users, who must not speak for others.
    pub(crate) fn speaks_through(&mut self, slot: usize, identity: &Identity) -> bool {
        let users = self.domains.get(slot / SLOTS).users;
        crate::domain::Users::of(&identity.credentials) == Some(users)
    }

    /// The number of the process that a slot's thread says it is of, if it may say so; else none's.
    pub(crate) fn process_in(&self, slot: usize) -> u32 {
        let process = place::process_number(self.slot(slot));
        if self.guests.may_name(slot / SLOTS, process) { process } else { 0 }
    }

    /// The domain where a thread with these ids belongs.
    pub(crate) fn domain_of(
        &mut self,
        ids: &Credentials,
        now_in: usize,
        same_ipc: bool,
    ) -> io::Result<usize> {
        let domain = self.domains.of_thread(ids, now_in, same_ipc)?;
        self.kin.add_arena(self.domains.get(domain).mapped());
        Ok(domain)
    }

    /// Gives a stopped thread a slot in the domain that it belongs to; the same, if it is there.
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
        if self.wait_for_recorder(&noted, observer) {
            return Ok(moved);
        }
        arena.slot(index).state.store(slot_state::FREE, Ordering::Release);
        Err(Refusal::Stopped)
    }

    /// A thread says that its user has changed: gives what to reply. It waits, so it is moved as one
    /// that has stopped.
    pub(crate) fn user_changed(
        &mut self,
        index: usize,
        tid: i32,
        observer: &mut dyn Observer,
    ) -> u32 {
        let slot = self.slot(index);
        let [socket, helper] = [1, 2].map(|n| slot.request_args[n].load(Ordering::Relaxed) as u32);
        let process = self.process_in(index);
        let helper = if helper == 0 { None } else { self.global_tid(slot, helper) };
        match self.follow(tid, index, helper.zip(i32::try_from(socket).ok()), observer) {
            Ok(reply) => reply,
            Err(refusal) => {
                observer.not_followed(tid as u32, process, &refusal.to_string());
                answer::REFUSED
            }
        }
    }

    fn follow(
        &mut self,
        tid: i32,
        index: usize,
        socket: Option<(i32, i32)>,
        observer: &mut dyn Observer,
    ) -> Result<u32, Refusal> {
        let stranger = || Refusal::NoArena(io::Error::other("it is not who it says it is"));
        let identity = self.kin.identify(tid).ok_or(Refusal::Stopped)?;
        let here = self.domains.get(index / SLOTS).mapped();
        if self.kin.has_mapped(identity.process, here) != Relation::Ours {
            return Err(stranger());
        }
        let reach = self.domains.reach();
        let look = move || reach.includes(tid);
        let same_ipc = self.patience.within(LOOK_WAIT, look).unwrap_or(false);
        let now_in = index / SLOTS;
        let domain =
            self.domain_of(&identity.credentials, now_in, same_ipc).map_err(Refusal::NoArena)?;
        if domain == now_in {
            return Ok(answer::STAY);
        }
        let segment = match &self.domains.get(domain).way {
            Way::Segment(segment) => Some(segment.id as u64),
            Way::Message { .. } => None,
        };
        let Some(segment) = segment else {
            let Some((helper, socket)) = socket else { return Ok(answer::NEEDS_SOCKET) };
            let of_same = self.kin.identify(helper).is_some_and(|h| h.process == identity.process);
            if !of_same {
                return Err(stranger());
            }
            let moved = self.move_to(domain, index, identity.process, observer)?;
            let patience = self.patience.clone();
            let sent = self.message_to(moved);
            let sent = sent.and_then(|m| m.send_to_thread(helper, socket, &patience));
            return match sent {
                Ok(()) => Ok(answer::DONE),
                Err(error) => {
                    self.slot(moved).state.store(slot_state::ENDED, Ordering::Release);
                    Err(Refusal::NoArena(error))
                }
            };
        };
        let moved = self.move_to(domain, index, identity.process, observer)?;
        let slot = self.slot(index);
        slot.request_args[0].store(segment, Ordering::Relaxed);
        slot.request_args[1].store((moved % SLOTS) as u64, Ordering::Relaxed);
        Ok(answer::SEGMENT)
    }

    /// What the thread that is to use a slot is sent.
    pub(crate) fn message_to(&mut self, slot: usize) -> io::Result<Message<'_>> {
        self.make_sendable()?;
        let Way::Message { file, .. } = &self.domains.get(slot / SLOTS).way else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let published = self.sendable.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        Ok(Message { slot: slot % SLOTS, arena: file, published: &published.file })
    }
}

/// A waiting thread's slot in one arena becomes one in another: all that its agent goes on with.
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
    to.state.store(from.state.load(Ordering::Relaxed), Ordering::Release);
}
