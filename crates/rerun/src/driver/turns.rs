//! When threads go on: at the time at which they did, or in turn with others of their process.

use std::time::{Duration, Instant};

use super::{Driver, LOOK_EVERY, TIMES_SLOWER};
use crate::divergence::{Ending, Reason, diverged};
use crate::held::{Held, Until};
use crate::live::Live;
use crate::pace::Step;
use crate::processes;

/// How often to look whether a thread has run for its time slice.
const SLICE_LOOK: Duration = Duration::from_micros(200);

impl Driver<'_> {
    /// Gives the results of calls that had returned by then. What other threads did before that has
    /// happened: so each finds in memory that they share what it found.
    pub(super) fn release(&mut self, tsc: u64) -> Result<(), Ending> {
        self.accept_until(tsc)?;
        self.note(Step::Until(tsc))?;
        self.make_until(tsc)?;
        let mut at = 0;
        while at < self.held.len() {
            if matches!(self.held[at].until, Until::Time(time) if time <= tsc) {
                self.give(at);
            } else {
                at += 1;
            }
        }
        Ok(())
    }

    /// Accepts connections that had been accepted by then, in their order.
    fn accept_until(&mut self, tsc: u64) -> Result<(), Ending> {
        loop {
            let due = self.held.iter().enumerate().filter_map(|(at, held)| {
                let due = held.accepts.as_ref()?.due;
                (due <= tsc).then_some((due, at))
            });
            let Some((_, at)) = due.min() else { return Ok(()) };
            let mut held = self.held.swap_remove(at);
            if let Some(accepts) = held.accepts.take() {
                held.answer = self.accept_now(&accepts, held.answer)?;
            }
            self.held.push(held);
        }
    }

    fn give(&mut self, at: usize) {
        let Held { word, args, answer, .. } = self.held.swap_remove(at);
        answer(word, args, 0);
    }

    /// Lets a thread go on whose turn has come.
    pub(super) fn let_go(&mut self, thread: u32) {
        if let Some(at) = self.held.iter().position(|held| held.until == Until::Turn(thread)) {
            self.give(at);
        }
    }

    /// Lets a thread run for about as long as it did when it was recorded, between two calls.
    pub(super) fn slice(&mut self, recorded: u32, ran: Duration) -> Result<(), Ending> {
        let Some(thread) = self.numbers.get(&recorded).copied() else { return Ok(()) };
        let Some(&Live { pid, tid, .. }) = self.threads.get(&thread) else { return Ok(()) };
        if !self.is_in_turn(recorded) {
            return Ok(());
        }
        let since = Instant::now();
        let before = processes::cpu_time(pid);
        // It runs already after a call that it has made again.
        self.let_go(thread);
        let limit = self.patience.saturating_add(ran.saturating_mul(TIMES_SLOWER));
        let mut told: Option<Instant> = None;
        let waits = |driver: &Self| {
            let live = driver.threads.get(&thread);
            live.is_none_or(|live| live.asked.is_some())
                || driver.held.iter().any(|held| held.until == Until::Turn(thread))
        };
        while !waits(self) && !self.processes.has_ended(pid) {
            let had = processes::cpu_time(pid).saturating_sub(before);
            // A signal that meets a call is dropped.
            if had >= ran && told.is_none_or(|told| told.elapsed() >= LOOK_EVERY) {
                processes::pause(pid, tid);
                told = Some(Instant::now());
            }
            self.receive(ran.saturating_sub(had).clamp(SLICE_LOOK, LOOK_EVERY))?;
            if since.elapsed() > limit {
                let had = processes::cpu_time(pid).saturating_sub(before);
                let seconds = since.elapsed().as_secs();
                let reason = Reason::Stuck { seconds, had: Some(had) };
                return Err(diverged(None, recorded, reason));
            }
        }
        Ok(())
    }

    pub(super) fn is_in_turn(&self, recorded: u32) -> bool {
        self.survey.in_turn.contains(&recorded)
    }
}
