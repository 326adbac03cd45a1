//! Places the agent into a new image of a traced thread, at its first instruction.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::TryRecvError;
use std::time::{Duration, Instant};

use kin::Identity;
use ring::{SLOTS, slot_state};

use crate::domain::{Domain, Way};
use crate::mappings::Root;
use crate::message::Mailbox;
use crate::observer::{ExecStop, Observer};
use crate::place::Plan;
use crate::state::Supervisor;
use crate::tracee::{Tracee, is_dead};
use crate::unfinished::{Delivery, Placing, Work};
use crate::{mappings, place, ptrace};

/// Maximum stops of a bootstrap before `socketpair`: two per call, and some for signals.
const BOOTSTRAP_STOPS: u32 = 64;
/// How long to wait until other images that wait for a server have had their turn.
const BEGIN_WAIT: Duration = Duration::from_secs(20);

/// Reads the time stamp counter, as agents do.
fn time_stamp() -> u64 {
    // SAFETY: every x86_64 CPU has rdtsc, and it only reads a counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}

enum Progress {
    Done,
    Later(Work),
}

impl Supervisor {
    /// Handles the exec stop of a traced thread.
    pub(crate) fn executed(
        &mut self,
        pid: i32,
        identity: Option<Identity>,
        tracee: Tracee,
        observer: &mut dyn Observer,
    ) {
        // What comes from here on is our time, not that of the exec.
        let stopped = time_stamp();
        self.slot(tracee.slot).exec_stopped.store(stopped, Ordering::Relaxed);
        let process = tracee.process;
        let credentials = identity.as_ref().map(|identity| identity.credentials);
        let known = credentials.zip(ptrace::blocked_signals(pid).ok());
        observer.image(&ExecStop { pid: pid as u32, process, known });
        let Some(credentials) = credentials else { return };
        let same_ipc = self.domains.are_within_reach_of(pid);
        if !same_ipc && !ptrace::is_stopped(pid) {
            return; // killed: nothing ran, and its namespace was not seen
        }
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

    /// Ends the slot that a thread has left at an exec: the agent that would do so is gone. The
    /// launched program's first slot was never ACTIVE, and is free by now.
    fn end_left(&self, slot: usize) {
        let (from, to) = (slot_state::ACTIVE, slot_state::ENDED);
        let state = &self.slot(slot).state;
        let _ = state.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Handles the result of placing the agent, or of a part of it.
    fn end_placing(
        &mut self,
        pid: i32,
        tracee: Tracee,
        placed: Result<Progress, place::Refusal>,
        observer: &mut dyn Observer,
    ) {
        let placed = placed.and_then(|progress| match progress {
            Progress::Done if self.is_sent(&tracee) => {
                // Segments cannot be attached there: the bootstrap is followed to its `socketpair`,
                // where the message can be sent.
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

    /// Places the agent into an image whose slot is in the right arena. If its files need a
    /// server's answer, another thread does it, so that only the program waits.
    fn place(&mut self, pid: i32, tracee: Tracee) -> Result<Progress, place::Refusal> {
        let Domain { arena, way, .. } = self.domains.get(tracee.slot / SLOTS);
        let source = match way {
            Way::Segment(segment) => {
                place::Source::Segment { id: segment.id, slot: tracee.slot % SLOTS }
            }
            Way::Message { .. } => place::Source::Message,
        };
        let chunks = arena.pool_chunks();
        // Under its usual place the program's own memory lies as without us.
        let hint = if arena.control().is_repeatable() { ring::AGENT_AT } else { 0 };
        let plan = place::plan(pid, &source, chunks, hint, &self.image, &self.published)?;
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

    /// Carries out a plan on another thread.
    fn begin(&self, domain: usize, plan: Arc<Plan>, since: Instant) -> Work {
        let carry_out = {
            let plan = Arc::clone(&plan);
            move || plan.carry_out(|mapping| mappings::key(plan.pid(), mapping))
        };
        let begun = self.domains.get(domain).servants.begin(carry_out, self.bell());
        begun.map_or(Work::Waits { plan, since }, Work::Goes)
    }

    /// Continues with the images that wait for servers or messages.
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

    /// Reports that a stopped thread's new image runs unrecorded, and ends its slot.
    fn refuse(&self, pid: i32, slot: usize, refusal: &place::Refusal, observer: &mut dyn Observer) {
        observer.not_followed(pid as u32, self.process_in(slot), &refusal.to_string());
        let slot = self.slot(slot);
        // If the process is dead the recorder frees the slot, which may be reused by now.
        if !is_dead(pid) {
            slot.end();
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

    /// Lets a bootstrap continue whose message was sent, or will not be.
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
