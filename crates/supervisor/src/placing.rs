//! A traced thread at the first instruction of a new program: the agent is placed there.

use std::sync::atomic::Ordering;

use ring::SLOTS;

use crate::domain::{Domain, Way};
use crate::published::Sendable;
use crate::serve::{ExecStop, Observer, Supervisor, Tracee, is_dead};
use crate::{place, profiles, ptrace};

/// Stops of a bootstrap on its way to `socketpair`: two per call, and some for signals.
const BOOTSTRAP_STOPS: u32 = 64;

impl Supervisor {
    /// A traced thread runs a new program and stands at its first instruction.
    pub(crate) fn executed(&mut self, pid: i32, tracee: Tracee, observer: &mut dyn Observer) {
        let process = tracee.process;
        let identity = self.kin.identify(pid);
        let credentials = identity.as_ref().map(|identity| identity.credentials);
        let known = credentials.zip(ptrace::blocked_signals(pid).ok());
        observer.image(&ExecStop { pid: pid as u32, process, known });
        let Some(credentials) = credentials else { return };
        let now_in = tracee.slot / SLOTS;
        let mut slot = tracee.slot;
        let placed = self
            .domain_of(&credentials, now_in, tracee.same_ipc)
            .map_err(place::Refusal::NoArena)
            .and_then(|domain| {
                slot = self.move_to(domain, slot, observer)?;
                self.place(pid, Tracee { slot, ..tracee })
            });
        match placed {
            Ok(()) => observer.placed(process),
            Err(refusal) if ptrace::is_stopped(pid) => {
                self.refuse(pid, slot, &refusal, observer);
            }
            Err(_) => {} // killed: nothing ran
        }
    }

    /// Places the agent into an image whose slot is where it belongs.
    fn place(&mut self, pid: i32, tracee: Tracee) -> Result<(), place::Refusal> {
        let Domain { arena, way, .. } = self.domains.get(tracee.slot / SLOTS);
        let source = match way {
            Way::Segment(segment) => {
                place::Source::Segment { id: segment.id, slot: tracee.slot % SLOTS }
            }
            Way::Message { .. } => place::Source::Message,
        };
        place::place(pid, &source, arena.pool_chunks(), &self.image, &self.published)?;
        // Segments cannot be attached there: the bootstrap is followed to where it can be sent all.
        if matches!(source, place::Source::Message) {
            ptrace::to_next_call(pid, 0).map_err(place::Refusal::NoArena)?;
            self.tracees.insert(pid, Tracee { bootstrap: Some(0), ..tracee });
        }
        Ok(())
    }

    /// Image and catalog for those who cannot attach segments.
    pub(crate) fn make_sendable(&mut self) -> std::io::Result<()> {
        if self.sendable.is_none() {
            let sendable = Sendable::new(&self.image)?;
            self.analyst.mirror(sendable.catalog);
            profiles::copy(&self.published.catalog(), &sendable.catalog);
            self.sendable = Some(sendable);
        }
        Ok(())
    }

    /// The image of a thread that stands there runs unrecorded: its thread is at its end for us.
    fn refuse(&self, pid: i32, slot: usize, refusal: &place::Refusal, observer: &mut dyn Observer) {
        let slot = self.slot(slot);
        observer.not_followed(pid as u32, place::process_number(slot), &refusal.to_string());
        // Of a process that is gone the recorder knows; its slot may be another's by now.
        if !is_dead(pid) {
            slot.state.store(ring::slot_state::ENDED, Ordering::Release);
        }
    }

    pub(crate) fn bootstrap_stopped(
        &mut self,
        pid: i32,
        stops: u32,
        signal: i32,
        passed: i32,
        observer: &mut dyn Observer,
    ) {
        let at_call = signal == ptrace::CALL_STOP;
        let pair = if at_call { place::new_pair(pid) } else { None };
        if pair.is_none() && stops < BOOTSTRAP_STOPS {
            self.tracees.entry(pid).and_modify(|tracee| tracee.bootstrap = Some(stops + 1));
            let _ = ptrace::to_next_call(pid, if at_call { 0 } else { passed });
            return;
        }
        let Some(Tracee { slot, .. }) = self.tracees.remove(&pid) else { return };
        let sent = match pair {
            Some(Ok(pair)) => self.message_to(slot).and_then(|m| m.send_to_process(pid, pair[1])),
            Some(Err(error)) => Err(error),
            None => Err(std::io::ErrorKind::Other.into()),
        };
        if let Err(error) = sent
            && ptrace::is_stopped(pid)
        {
            self.refuse(pid, slot, &place::Refusal::NoArena(error), observer);
        }
        let _ = ptrace::detach(pid, if at_call { 0 } else { passed });
    }
}
