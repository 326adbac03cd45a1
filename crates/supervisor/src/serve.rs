//! The supervisor's loop: agents' requests, stops of traced threads, the program's end.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use kin::{Identity, Relation};
use ring::{Arena, SLOTS, Slot, answer, request};

use crate::done::Done;
use crate::launch::{self, Program};
use crate::launch_error::LaunchError;
use crate::observer::Observer;
use crate::orders::TIMES_TO_END;
use crate::request::{Request, Waiting};
use crate::rights::Rights;
use crate::state::Supervisor;
use crate::tracee::{Tracee, is_dead};
use crate::{Error, place, profiles, ptrace, signals, sleep};

/// Why a thread was not attached to.
enum NotAttached {
    /// Another thread of its process is executing a program, or its process must be looked for again.
    Yet,
    /// A reason to be replied.
    Reply(u32),
}

/// How long a request waits that cannot be answered yet, and how often it is tried. The recorder
/// looks for processes at once, but on a busy machine that takes time, and nothing else waits for
/// it.
const REQUEST_WAIT: Duration = Duration::from_secs(20);
const REQUEST_PAUSE: Duration = Duration::from_millis(1);

/// How the recording ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The program has ended, with this wait status.
    Ended(i32),
    /// A signal ended the recording; the program continues.
    ToldToEnd(i32),
    /// A signal ended it at once, without waiting for the trace's end.
    Abandoned(i32),
}

/// Maximum sleep: the end of the recording is only shown by a flag.
const SLEEP: Duration = Duration::from_millis(200);

impl Supervisor {
    /// Starts the program, recorded from its first instruction. The calling thread must be the
    /// one that calls `serve`.
    pub fn launch(
        &mut self,
        program: Program<'_>,
        observer: &mut dyn Observer,
    ) -> Result<u32, LaunchError> {
        signals::install(&self.arena().control().requests.word);
        let held = launch::hold(program)?;
        self.program = held.pid;
        let arena = self.arena();
        let index = arena
            .reserve_slot()
            .ok_or_else(|| Error::Image("no free slot in a new arena".to_owned()))?;
        let slot = arena.slot(index);
        let control = arena.control();
        let thread = control.next_thread.fetch_add(1, Ordering::Relaxed);
        let process = control.next_process.fetch_add(1, Ordering::Relaxed);
        slot.thread.store(thread, Ordering::Relaxed);
        slot.process.store(process, Ordering::Relaxed);
        slot.pid_seen.store(held.pid as u32, Ordering::Release);
        if let Err(error) = ptrace::seize(held.pid) {
            self.wait_for_news(observer);
            if let Some(status) = self.program_status {
                return Err(held.failure(program.name, status));
            }
            // SAFETY: takes numbers only; the child was not waited for, so the id is still its own.
            unsafe { libc::kill(held.pid, libc::SIGKILL) };
            let what = "attaching to the program (is ptrace forbidden here?)".to_owned();
            return Err(Error::System { what, source: error }.into());
        }
        self.kin.add(held.pid);
        let rights = Rights::before(held.pid, &kin::own_credentials());
        self.tracees.insert(held.pid, Tracee::new(index, process, rights));
        held.go();
        while !self.program_began {
            self.turn(observer, |supervisor| {
                supervisor.program_began || supervisor.program_status.is_some()
            });
            if let (false, Some(status)) = (self.program_began, self.program_status) {
                return Err(held.failure(program.name, status));
            }
        }
        Ok(held.pid as u32)
    }

    /// Serves until `done` is set, and the program has ended or a signal requested the end.
    pub fn serve(&mut self, observer: &mut dyn Observer, done: &Done) -> Outcome {
        loop {
            self.turn(observer, |_| done.is_set());
            let is_done = done.is_set();
            let order = self.order.as_ref().filter(|order| order.times >= TIMES_TO_END);
            match (self.program_status, order) {
                (Some(status), _) if is_done => return Outcome::Ended(status),
                (None, Some(order)) if is_done => return Outcome::ToldToEnd(order.signal),
                (_, Some(order)) if self.is_abandoned() => return Outcome::Abandoned(order.signal),
                _ => {}
            }
        }
    }

    /// Does all pending work, then sleeps until there is more, unless `enough` returns true.
    fn turn(&mut self, observer: &mut dyn Observer, enough: impl FnOnce(&Supervisor) -> bool) {
        let seen = self.arenas().map(|arena| {
            let word = &arena.control().requests.word;
            (word, word.load(Ordering::SeqCst))
        });
        let seen: Vec<_> = seen.collect();
        self.look_at_signals(observer);
        self.answer_requests(observer);
        self.answer_waiting(observer);
        self.look_at_moves(observer);
        self.look_at_placings(observer);
        self.wait_for_news(observer);
        // An arena created meanwhile must be looked at before sleeping.
        if !enough(self) && seen.len() == self.arenas().count() {
            self.sleep(&seen);
        }
    }

    fn sleep(&self, seen: &[(&AtomicU32, u32)]) {
        let words = self.arenas().map(|arena| arena.control().requests.before_sleep());
        if words.eq(seen.iter().map(|(_, value)| *value)) {
            let longest = if self.waiting.is_empty() { SLEEP } else { REQUEST_PAUSE };
            sleep::while_unchanged(seen, longest);
        }
        self.arenas().for_each(|arena| arena.control().requests.after_sleep());
    }

    fn answer_requests(&mut self, observer: &mut dyn Observer) {
        let arenas: Vec<Arena> = self.arenas().collect();
        let catalogs = self.catalogs();
        for (number, arena) in arenas.iter().enumerate() {
            profiles::take_notes(arena, &catalogs);
            self.answer_in(arena, number * SLOTS, observer);
        }
    }

    fn answer_in(&mut self, arena: &Arena, first_slot: usize, observer: &mut dyn Observer) {
        for (n, bits) in arena.control().request_bits.iter().enumerate() {
            if bits.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let mut open = bits.swap(0, Ordering::SeqCst);
            while open != 0 {
                let index = first_slot + n * 64 + open.trailing_zeros() as usize;
                open &= open - 1;
                self.answer(index, observer);
            }
        }
    }

    fn answer(&mut self, index: usize, observer: &mut dyn Observer) {
        let asked = self.slot(index).request.swap(request::NONE, Ordering::Acquire);
        let (number, what) = ring::number_and_word(asked);
        let request = Request { index, what, number };
        if what == request::EXEC_CANCEL {
            return self.call_off(request, observer);
        }
        self.try_to_answer(Waiting { request, since: Instant::now() }, observer);
    }

    fn try_to_answer(&mut self, waiting: Waiting, observer: &mut dyn Observer) {
        let Waiting { request, since } = waiting;
        let tid = self.thread_in(self.slot(request.index));
        let done = tid.is_some_and(|tid| self.answer_thread(request, tid, observer));
        match request.what {
            _ if done => {}
            _ if since.elapsed() < REQUEST_WAIT => self.waiting.push(waiting),
            request::MODULE => {}
            // The agent then records that its program runs unrecorded.
            request::EXEC => self.reply(request, answer::NOT_ATTACHED),
            _ => self.reply(request, answer::REFUSED),
        }
    }

    /// Tries waiting requests again, and refuses those that have waited too long.
    fn answer_waiting(&mut self, observer: &mut dyn Observer) {
        for request in std::mem::take(&mut self.waiting) {
            self.try_to_answer(request, observer);
        }
    }

    /// Returns false if the request must be tried again.
    fn answer_thread(&mut self, request: Request, tid: i32, observer: &mut dyn Observer) -> bool {
        let index = request.index;
        match request.what {
            request::EXEC => match self.attach(tid, index, observer) {
                Ok(process) => {
                    self.reply(request, answer::DONE);
                    self.look_ahead(tid, process, observer);
                }
                Err(NotAttached::Reply(reply)) => self.reply(request, reply),
                Err(NotAttached::Yet) => return false,
            },
            // No thread waits for an answer.
            request::MODULE if matches!(self.who_asks(tid, index), Some((Relation::Ours, ..))) => {
                let site = self.slot(index).request_args[0].load(Ordering::Relaxed);
                self.analyst.look_at(tid, site);
            }
            request::USER_CHANGED => self.user_changed(request, tid),
            request::WATCH | request::COLLECT => self.mapped(request, tid, observer),
            request::FILE
            | request::CALL
            | request::MADE
            | request::BEGIN
            | request::IMAGE
            | request::PAUSED => self.asked(request, tid, observer),
            request::LEFT_ALONE => match self.who_asks(tid, index) {
                Some((Relation::Ours, ..)) => self.left_alone(request),
                _ => self.reply(request, answer::REFUSED),
            },
            _ => {}
        }
        true
    }

    /// Identity and relation of a thread that asks through a slot; `None` if it does not exist.
    pub(crate) fn who_asks(&mut self, tid: i32, slot: usize) -> Option<(Relation, Identity)> {
        let thread = self.kin.look_up(tid)?;
        let named = self.guests.may_name(slot / SLOTS, place::process_number(self.slot(slot)));
        let relation = match named && self.speaks_through(slot, &thread.identity) {
            true => self.kin.relation_of_thread(&thread),
            false => Relation::Stranger,
        };
        Some((relation, thread.identity))
    }

    /// Handles an exec that the thread in a slot has called off.
    fn call_off(&mut self, request: Request, observer: &mut dyn Observer) {
        self.waiting.retain(|waiting| waiting.request.index != request.index);
        let attached = self.tracees.iter_mut().find(|(_, tracee)| tracee.slot == request.index);
        if let Some((&tid, tracee)) = attached {
            tracee.leaving = Some(request);
            if ptrace::interrupt(tid).is_ok() {
                return; // answered when it has stopped
            }
            self.lose(tid, observer);
        }
        self.reply(request, answer::DONE);
    }

    /// Attaches to a thread for its exec, if it is one of ours: the id comes from memory that the
    /// program can write. Returns its process, or why it was not attached.
    fn attach(
        &mut self,
        tid: i32,
        index: usize,
        observer: &mut dyn Observer,
    ) -> Result<i32, NotAttached> {
        // Without such a thread it is gone, or about to be.
        let (relation, identity) =
            self.who_asks(tid, index).ok_or(NotAttached::Reply(answer::REFUSED))?;
        let process = self.process_in(index);
        if relation == Relation::Ours {
            match ptrace::seize(tid) {
                Ok(()) => {
                    let rights = Rights::before(tid, &identity.credentials);
                    self.tracees.insert(tid, Tracee::new(index, process, rights));
                    return Ok(identity.process);
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {
                    return Err(NotAttached::Yet);
                }
                Err(_) => {}
            }
        }
        if relation == Relation::Gone || is_dead(tid) {
            return Err(NotAttached::Reply(answer::REFUSED));
        }
        if relation == Relation::Stranger {
            // A thread of another pid namespace, of which several have that id: it is looked for again.
            if self.kin.take_guess_back(place::process_number(self.slot(index))) {
                return Err(NotAttached::Yet);
            }
            observer.not_followed(tid as u32, process, "it is no process of this recording");
            return Err(NotAttached::Reply(answer::REFUSED));
        }
        // Left to the agent to record, which alone learns whether the exec succeeds.
        Err(NotAttached::Reply(answer::NOT_ATTACHED))
    }

    /// Announces an exec, so that what it does not change can be read while it runs.
    fn look_ahead(&mut self, tid: i32, pid: i32, observer: &mut dyn Observer) {
        let process = self.tracees[&tid].process;
        // A thread that has reached its exec stop already is looked at there.
        if tid == pid && !ptrace::has_news(tid) {
            observer.announced(pid as u32, process);
        }
    }

    /// Handles all stops and ends of children and traced threads.
    fn wait_for_news(&mut self, observer: &mut dyn Observer) {
        loop {
            let mut status = 0;
            // SAFETY: the kernel stores the status into a local.
            let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::WNOHANG) };
            if pid <= 0 {
                return;
            }
            if libc::WIFSTOPPED(status) {
                self.stopped(pid, status, observer);
                continue;
            }
            self.large_pages.reaped(pid);
            observer.reaped(pid, status);
            if pid == self.program {
                self.program_status = Some(status);
                self.look_at_last_signals(observer);
                observer.ended(pid as u32, status);
            }
            self.lose(pid, observer);
        }
    }

    fn stopped(&mut self, pid: i32, status: i32, observer: &mut dyn Observer) {
        let signal = libc::WSTOPSIG(status);
        let event = status >> 16;
        if event == libc::PTRACE_EVENT_EXEC {
            let former = ptrace::former_tid(pid).unwrap_or(pid);
            if let Some(tracee) = self.tracees.remove(&former) {
                self.tracees.remove(&pid);
                self.forget_others(&tracee);
                let identity = self.kin.add(pid);
                self.program_began |= pid == self.program;
                self.executed(pid, identity, tracee, observer);
            }
            if !self.tracees.contains_key(&pid) && !self.placings.contains_key(&pid) {
                let _ = ptrace::detach(pid, 0);
            }
            return;
        }
        let Some(tracee) = self.tracees.get(&pid).copied() else {
            // A child that has asked to be traced by its parent must continue as if untraced.
            // SIGTRAP is that of its exec.
            let signal = if event == 0 && signal != libc::SIGTRAP { signal } else { 0 };
            let _ = ptrace::detach(pid, signal);
            return;
        };
        // Ptrace event stops carry no signal; a signal that was on its way is passed on.
        let passed = if event == 0 { signal } else { 0 };
        if let Some(request) = tracee.leaving {
            self.lose(pid, observer);
            let _ = ptrace::detach(pid, passed);
            self.reply(request, answer::DONE);
        } else if event == libc::PTRACE_EVENT_STOP && signal != libc::SIGTRAP {
            let _ = ptrace::listen(pid);
        } else if let Some(stops) = tracee.bootstrap {
            self.bootstrap_stopped(pid, stops, signal, passed, observer);
        } else {
            let _ = ptrace::resume(pid, passed);
        }
    }

    /// Drops requests of a process's other threads, which are gone after an exec. They would
    /// otherwise be taken for requests of the thread that has the first thread's id now.
    fn forget_others(&mut self, tracee: &Tracee) {
        let &Tracee { slot: own, process, .. } = tracee;
        let is_gone = |index, slot: &Slot| index != own && place::process_number(slot) == process;
        let waiting = std::mem::take(&mut self.waiting);
        let stay =
            |Waiting { request, .. }: &Waiting| !is_gone(request.index, self.slot(request.index));
        self.waiting = waiting.into_iter().filter(stay).collect();
        self.forget_moves(process, own);
        for (number, arena) in self.arenas().enumerate() {
            for (n, bits) in arena.control().request_bits.iter().enumerate() {
                let open = bits.load(Ordering::Acquire);
                if open == 0 {
                    continue;
                }
                let asked = (0..64).filter(|bit| open & 1 << bit != 0);
                let gone = asked.filter(|bit| {
                    let index = n * 64 + bit;
                    is_gone(number * SLOTS + index, arena.slot(index))
                });
                let gone = gone.fold(0, |gone, bit| gone | 1 << bit);
                bits.fetch_and(!gone, Ordering::SeqCst);
            }
        }
    }

    /// Forgets a traced thread that will not execute its program.
    fn lose(&mut self, tid: i32, observer: &mut dyn Observer) {
        self.placings.remove(&tid);
        if let Some(tracee) = self.tracees.remove(&tid) {
            observer.called_off(tracee.process);
        }
    }
}
