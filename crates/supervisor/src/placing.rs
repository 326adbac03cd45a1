//! A traced thread at the first instruction of a new program: the agent is placed there.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::{Duration, Instant};

use kin::Identity;
use ring::{SLOTS, slot_state};

use crate::domain::{Domain, Way};
use crate::mappings::Root;
use crate::message::Mailbox;
use crate::moves::Delivery;
use crate::place::Plan;
use crate::published::Sendable;
use crate::serve::{ExecStop, Observer, Supervisor, Tracee, is_dead};
use crate::{mappings, place, profiles, ptrace};

/// Stops of a bootstrap on its way to `socketpair`: two per call, and some for signals.
const BOOTSTRAP_STOPS: u32 = 64;
/// How long to wait until others that wait for an answer have had it.
const BEGIN_WAIT: Duration = Duration::from_secs(20);

/// An image that the agent is being placed into.
pub(crate) struct Placing {
    tracee: Tracee,
    work: Work,
}

enum Work {
    Goes(Receiver<Result<(), place::Refusal>>),
    /// There are too many already.
    Waits {
        plan: Arc<Plan>,
        since: Instant,
    },
    /// Its bootstrap waits for what it is sent.
    Sends(Delivery),
}

enum Progress {
    Done,
    Later(Work),
}

impl Supervisor {
    /// A traced thread runs a new program and stands at its first instruction.
    pub(crate) fn executed(
        &mut self,
        pid: i32,
        identity: Option<Identity>,
        tracee: Tracee,
        observer: &mut dyn Observer,
    ) {
        let process = tracee.process;
        let credentials = identity.as_ref().map(|identity| identity.credentials);
        let known = credentials.zip(ptrace::blocked_signals(pid).ok());
        observer.image(&ExecStop { pid: pid as u32, process, known });
        let Some(credentials) = credentials else { return };
        let same_ipc = self.domains.are_within_reach_of(pid);
        let now_in = tracee.slot / SLOTS;
        let mut slot = tracee.slot;
        let placed = match tracee.rights.are_exceeded(pid, &credentials) {
            Ok(false) => {
                self.domain_of(&credentials, now_in, same_ipc).map_err(place::Refusal::NoArena)
            }
            Ok(true) => Err(place::Refusal::GainsRights),
            Err(error) => Err(place::Refusal::Memory(error)),
        };
        let placed = placed.and_then(|domain| {
            slot = self.move_to(domain, slot, pid, observer)?;
            if slot != tracee.slot {
                self.end_left(tracee.slot);
            }
            self.place(pid, Tracee { slot, ..tracee })
        });
        self.end_placing(pid, Tracee { slot, ..tracee }, placed, observer);
    }

    /// Who has asked through a slot that its thread has left is gone with its image. That of the launched
    /// program was nobody's yet, and is free by now.
    fn end_left(&self, slot: usize) {
        let (from, to) = (slot_state::ACTIVE, slot_state::ENDED);
        let state = &self.slot(slot).state;
        let _ = state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// The agent was placed, will be, or not.
    fn end_placing(
        &mut self,
        pid: i32,
        tracee: Tracee,
        placed: Result<Progress, place::Refusal>,
        observer: &mut dyn Observer,
    ) {
        let placed = placed.and_then(|progress| match progress {
            Progress::Done if self.is_sent(&tracee) => {
                // Segments cannot be attached there: the bootstrap is followed to where it can be sent
                // all.
                ptrace::to_next_call(pid, 0).map_err(place::Refusal::NoArena)?;
                self.tracees.insert(pid, Tracee { bootstrap: Some(0), ..tracee });
                Ok(Progress::Done)
            }
            progress => Ok(progress),
        });
        match placed {
            Ok(Progress::Done) => observer.placed(tracee.process),
            Ok(Progress::Later(work)) => {
                self.placings.insert(pid, Placing { tracee, work });
            }
            Err(refusal) if ptrace::is_stopped(pid) => {
                self.refuse(pid, tracee.slot, &refusal, observer);
            }
            Err(_) => {} // killed: nothing ran
        }
    }

    fn is_sent(&self, tracee: &Tracee) -> bool {
        matches!(self.domains.get(tracee.slot / SLOTS).way, Way::Message { .. })
    }

    /// Places the agent into an image whose slot is where it belongs. Where somebody else has to answer
    /// for its files, nobody but the program waits for him.
    fn place(&mut self, pid: i32, tracee: Tracee) -> Result<Progress, place::Refusal> {
        let Domain { arena, way, .. } = self.domains.get(tracee.slot / SLOTS);
        let source = match way {
            Way::Segment(segment) => {
                place::Source::Segment { id: segment.id, slot: tracee.slot % SLOTS }
            }
            Way::Message { .. } => place::Source::Message,
        };
        let chunks = arena.pool_chunks();
        let plan = place::plan(pid, &source, chunks, &self.image, &self.published)?;
        let mut keys = HashMap::new();
        let root = Root::of(pid);
        for mapping in &plan.mappings {
            let found = root.as_ref().and_then(|root| root.in_memory(mapping));
            match found.filter(|found| self.mounts.need_nobody(pid, found)) {
                Some(found) => keys.insert(mapping.start, found.key),
                None => {
                    let work = self.begin(tracee.slot / SLOTS, Arc::new(plan), Instant::now());
                    return Ok(Progress::Later(work));
                }
            };
        }
        plan.carry_out(|mapping| keys.get(&mapping.start).copied())?;
        Ok(Progress::Done)
    }

    /// Has a thread of its own carry out a plan.
    fn begin(&self, domain: usize, plan: Arc<Plan>, since: Instant) -> Work {
        let carry_out = {
            let plan = Arc::clone(&plan);
            move || plan.carry_out(|mapping| mappings::key(plan.pid(), mapping))
        };
        let begun = self.domains.get(domain).servants.begin(carry_out, self.bell());
        begun.map_or(Work::Waits { plan, since }, Work::Goes)
    }

    /// Looks after images whose files others have to answer for.
    pub(crate) fn look_at_placings(&mut self, observer: &mut dyn Observer) {
        for (pid, Placing { tracee, work }) in std::mem::take(&mut self.placings) {
            let progress = match work {
                Work::Goes(result) => match result.try_recv() {
                    Ok(placed) => placed.map(|()| Progress::Done),
                    Err(TryRecvError::Empty) => Ok(Progress::Later(Work::Goes(result))),
                    Err(TryRecvError::Disconnected) => Err(place::Refusal::NoAnswer),
                },
                Work::Waits { since, .. } if since.elapsed() > BEGIN_WAIT => {
                    Err(place::Refusal::NoAnswer)
                }
                Work::Waits { plan, since } => {
                    Ok(Progress::Later(self.begin(tracee.slot / SLOTS, plan, since)))
                }
                Work::Sends(mut delivery) => {
                    match self.deliver(&mut delivery) {
                        None => {
                            let work = Work::Sends(delivery);
                            self.placings.insert(pid, Placing { tracee, work });
                        }
                        Some(sent) => self.end_sending(pid, tracee.slot, sent, 0, observer),
                    }
                    continue;
                }
            };
            let is_over = !matches!(progress, Ok(Progress::Later(_)));
            self.end_placing(pid, tracee, progress, observer);
            if is_over && !self.tracees.contains_key(&pid) {
                let _ = ptrace::detach(pid, 0);
            }
        }
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
        observer.not_followed(pid as u32, self.process_in(slot), &refusal.to_string());
        let slot = self.slot(slot);
        // Of a process that is gone the recorder knows; its slot may be another's by now.
        if !is_dead(pid) {
            slot.state.store(slot_state::ENDED, Ordering::Release);
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
        let Some(tracee) = self.tracees.remove(&pid) else { return };
        let slot = tracee.slot;
        let failed = match pair {
            Some(Ok([_, socket])) => {
                let work = Work::Sends(Delivery::new(slot, Mailbox::OfProcess { pid, socket }));
                self.placings.insert(pid, Placing { tracee, work });
                return self.look_at_placings(observer);
            }
            Some(Err(error)) => error,
            None => std::io::ErrorKind::Other.into(),
        };
        let passed = if at_call { 0 } else { passed };
        self.end_sending(pid, slot, Err(place::Refusal::NoArena(failed)), passed, observer);
    }

    /// A bootstrap was sent all, or will not be: it goes on.
    fn end_sending(
        &self,
        pid: i32,
        slot: usize,
        sent: Result<(), place::Refusal>,
        signal: i32,
        observer: &mut dyn Observer,
    ) {
        if let Err(refusal) = sent
            && ptrace::is_stopped(pid)
        {
            self.refuse(pid, slot, &refusal, observer);
        }
        let _ = ptrace::detach(pid, signal);
    }
}
