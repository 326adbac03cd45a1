//! The supervisor's loop: requests of agents, news of traced threads, the program's end.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use kin::{Credentials, Kin, Relation, status};
use ring::{Arena, SLOTS, Slot, answer, request};

use crate::analyst::Analyst;
use crate::domain::{Domain, Domains, Way};
use crate::launch::{self, LaunchError, Program};
use crate::published::{Published, Sendable};
use crate::signals::Signal;
use crate::{Error, Image, place, profiles, ptrace, signals, sleep};

/// Who wants to know.
pub trait Observer {
    /// A process is about to execute a program: there is time to look at it while it does, but
    /// it does not stand still.
    fn announced(&mut self, pid: u32, process: u32);
    /// The program announced was not executed.
    fn called_off(&mut self, process: u32);
    /// An image stands at its first instruction; its process can be looked at.
    fn image(&mut self, stop: &ExecStop);
    /// The agent is in the image, and will start when its process goes on.
    fn placed(&mut self, process: u32);
    /// An image runs unrecorded.
    fn not_followed(&mut self, pid: u32, process: u32, why: &str);
    /// The program itself has ended, with this wait status.
    fn ended(&mut self, pid: u32, status: i32);
    /// Recording is to end, by this signal.
    fn told_to_end(&mut self, signal: i32);
    /// Whether a process that had this id is or was recorded.
    fn is_recorded(&mut self, pid: i32) -> bool;
    /// The thread that used slot `from` goes on in slot `to`, which is in this arena: each has
    /// [`SLOTS`] slots, counted on from those of the arenas before it. True once the recorder has
    /// taken note.
    fn moved(&mut self, from: usize, to: usize, arena: Arena) -> bool;
}

/// A process that stands at the first instruction of a new image.
pub struct ExecStop {
    /// Its id.
    pub pid: u32,
    /// Its number in the recording.
    pub process: u32,
    /// Its credentials and blocked signals, if they are known already.
    pub known: Option<(Credentials, u64)>,
}

/// A thread that we are attached to for its exec.
#[derive(Clone, Copy)]
struct Tracee {
    /// Counted over all arenas.
    slot: usize,
    /// Number of its process in the recording.
    process: u32,
    /// It is to be let go at its next stop.
    leaving: bool,
    /// It can attach segments. An exec does not change that.
    same_ipc: bool,
    /// Its bootstrap is on the way to the call that we wait for, and has stopped so often.
    bootstrap: Option<u32>,
}

impl Tracee {
    fn new(slot: usize, process: u32) -> Tracee {
        Tracee { slot, process, leaving: false, same_ipc: true, bootstrap: None }
    }
}

/// A request of a thread in another pid namespace, whose process was not found there yet.
#[derive(Clone, Copy)]
struct Unplaced {
    index: usize,
    what: u32,
    since: Instant,
}

/// How long the recorder may take to find such a process, and how often to look. It does so at once,
/// but on a busy machine that is not soon, and nobody else waits for it.
const PLACE_WAIT: Duration = Duration::from_secs(5);
const PLACE_PAUSE: Duration = Duration::from_millis(1);

/// Launches and follows.
pub struct Supervisor {
    image: Image,
    published: Published,
    /// Once there was a thread that cannot attach segments.
    pub(crate) sendable: Option<Sendable>,
    pub(crate) domains: Domains,
    analyst: Analyst,
    tracees: HashMap<i32, Tracee>,
    program: i32,
    program_status: Option<i32>,
    pub(crate) kin: Kin,
    unplaced: Vec<Unplaced>,
    /// The program stands or stood at its first instruction.
    program_began: bool,
    order: Option<Order>,
}

/// What somebody told us: to end. The first time that is passed on to the program, if it lives.
struct Order {
    times: u32,
    /// By which signal.
    signal: i32,
    last: Option<Instant>,
}

/// So often it must be told before it means the recording.
const TIMES_TO_END: u32 = 2;
/// Signals that come so close to each other are one order.
const BURST: Duration = Duration::from_millis(200);

/// How it ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The program has ended, with this wait status.
    Ended(i32),
    /// We were told to end, by this signal; the program goes on.
    ToldToEnd(i32),
    /// The same, and not to wait for the trace's end.
    Abandoned(i32),
}

/// How long to sleep at most: the end of the recording is told by a flag.
const SLEEP: Duration = Duration::from_millis(200);

/// Stops of a bootstrap on its way to `socketpair`: two per call, and some for signals.
const BOOTSTRAP_STOPS: u32 = 64;

impl Supervisor {
    /// Prepares the shared memory. `agent` is the agent's ELF file.
    pub fn new(agent: &[u8], pool_bytes: usize) -> Result<Supervisor, Error> {
        let image = Image::parse(agent)?;
        let published = Published::new(&image)?;
        let domains = Domains::new(&kin::own_credentials(), pool_bytes)?;
        let kin = Kin::default();
        kin.add_arena(domains.first().mapped());
        Ok(Supervisor {
            image,
            analyst: Analyst::start(published.catalog())?,
            published,
            sendable: None,
            domains,
            tracees: HashMap::new(),
            program: 0,
            program_status: None,
            kin,
            unplaced: Vec::new(),
            program_began: false,
            order: None,
        })
    }

    /// The arena of programs that run as we do.
    pub fn arena(&self) -> Arena {
        self.domains.first().arena
    }

    /// Knows which processes are ours.
    pub fn kin(&self) -> Kin {
        self.kin.clone()
    }

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
            // SAFETY: our own child, which waits for us.
            unsafe { libc::kill(held.pid, libc::SIGKILL) };
            let what = "attaching to the program (is ptrace forbidden here?)".to_owned();
            return Err(Error::System { what, source: error }.into());
        }
        self.kin.add(held.pid);
        self.tracees.insert(held.pid, Tracee::new(index, process));
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

    /// Follows until `done` says so, and the program has ended or we were told to end.
    pub fn serve(&mut self, observer: &mut dyn Observer, done: &AtomicBool) -> Outcome {
        loop {
            self.turn(observer, |_| done.load(Ordering::SeqCst));
            let is_done = done.load(Ordering::SeqCst);
            let order = self.order.as_ref().filter(|order| order.times >= TIMES_TO_END);
            match (self.program_status, order) {
                (Some(status), _) if is_done => return Outcome::Ended(status),
                (None, Some(order)) if is_done => return Outcome::ToldToEnd(order.signal),
                (_, Some(order)) if order.times > TIMES_TO_END => {
                    return Outcome::Abandoned(order.signal);
                }
                _ => {}
            }
        }
    }

    /// Does all that is to be done, and sleeps until there is more, unless `enough` says that there is
    /// no need to.
    fn turn(&mut self, observer: &mut dyn Observer, enough: impl FnOnce(&Supervisor) -> bool) {
        let seen = self.arenas().map(|arena| {
            let word = &arena.control().requests.word;
            (word, word.load(Ordering::SeqCst))
        });
        let seen: Vec<_> = seen.collect();
        for signal in signals::take() {
            self.signalled(signal, observer);
        }
        self.answer_requests(observer);
        self.answer_unplaced(observer);
        self.wait_for_news(observer);
        // An arena that was made meanwhile is looked at first.
        if !enough(self) && seen.len() == self.arenas().count() {
            self.sleep(&seen);
        }
    }

    /// A signal that was sent to us alone is meant for the program. Who repeats a request to end, or
    /// makes one when the program has ended, means us.
    fn signalled(&mut self, signal: Signal, observer: &mut dyn Observer) {
        let Signal { number, sender } = signal;
        let ended = self.program_status.is_some();
        // A program that signals its process group or its parent does not mean us.
        let by_program = sender.is_some_and(|pid| {
            self.kin.relation(pid) == Relation::Ours || observer.is_recorded(pid)
        });
        if by_program || sender.is_none() && !ended {
            return;
        }
        if !ended {
            // SAFETY: our child, which was not waited for.
            unsafe { libc::kill(self.program, number) };
        }
        if !matches!(number, libc::SIGTERM | libc::SIGINT) {
            return;
        }
        let order = self.order.get_or_insert(Order { times: 0, signal: number, last: None });
        let last = order.last.replace(Instant::now());
        // Who tells a process and its group tells us twice at a time.
        if last.is_some_and(|last| last.elapsed() < BURST) {
            return;
        }
        order.signal = number;
        order.times = if ended { order.times.max(1) + 1 } else { order.times + 1 };
        if order.times == TIMES_TO_END {
            observer.told_to_end(number);
        }
    }

    fn sleep(&self, seen: &[(&AtomicU32, u32)]) {
        let set = |value| {
            self.arenas()
                .for_each(|a| a.control().requests.sleeping.store(value, Ordering::SeqCst));
        };
        set(1);
        if seen.iter().all(|(word, value)| word.load(Ordering::SeqCst) == *value) {
            let longest = if self.unplaced.is_empty() { SLEEP } else { PLACE_PAUSE };
            sleep::while_unchanged(seen, longest);
        }
        set(0);
    }

    fn arenas(&self) -> impl Iterator<Item = Arena> {
        self.domains.iter().map(|domain| domain.arena)
    }

    pub(crate) fn slot(&self, index: usize) -> &'static Slot {
        self.domains.get(index / SLOTS).arena.slot(index % SLOTS)
    }

    fn catalogs(&self) -> Vec<ring::Catalog> {
        let sendable = self.sendable.as_ref().map(|sendable| sendable.catalog);
        std::iter::once(self.published.catalog()).chain(sendable).collect()
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
        let slot = self.slot(index);
        let what = slot.request.swap(request::NONE, Ordering::Acquire);
        if what == request::EXEC_CANCEL {
            return self.call_off(index, observer);
        }
        match self.thread_in(slot) {
            Some(tid) => self.answer_thread(index, what, tid, observer),
            None => self.unplaced.push(Unplaced { index, what, since: Instant::now() }),
        }
    }

    /// The id that a slot's thread has in our namespace. `None`: its process was not found yet.
    fn thread_in(&self, slot: &Slot) -> Option<i32> {
        self.global_tid(slot, slot.tid.load(Ordering::Relaxed))
    }

    /// The same for another thread of its process.
    pub(crate) fn global_tid(&self, slot: &Slot, tid: u32) -> Option<i32> {
        if slot.foreign_pid.load(Ordering::Relaxed) == 0 {
            return i32::try_from(tid).ok();
        }
        self.kin.placed_thread(slot.process.load(Ordering::Relaxed), tid.cast_signed())
    }

    /// Answers requests of threads whose processes have been found meanwhile, or will not be.
    fn answer_unplaced(&mut self, observer: &mut dyn Observer) {
        for request in std::mem::take(&mut self.unplaced) {
            let Unplaced { index, what, since } = request;
            let slot = self.slot(index);
            match self.thread_in(slot) {
                Some(tid) => self.answer_thread(index, what, tid, observer),
                None if since.elapsed() < PLACE_WAIT => self.unplaced.push(request),
                None if what == request::MODULE => {}
                // The agent tells that its program runs unrecorded.
                None if what == request::EXEC => reply_to(slot, answer::NOT_ATTACHED),
                None => reply_to(slot, answer::REFUSED),
            }
        }
    }

    fn answer_thread(&mut self, index: usize, what: u32, tid: i32, observer: &mut dyn Observer) {
        let slot = self.slot(index);
        match what {
            request::EXEC => match self.attach(tid, index, observer) {
                Ok(process) => {
                    reply_to(slot, answer::DONE);
                    self.look_ahead(tid, process, observer);
                }
                Err(reply) => reply_to(slot, reply),
            },
            // Nobody waits.
            request::MODULE if matches!(self.who_asks(tid, index), Some((Relation::Ours, _))) => {
                let site = slot.request_args[0].load(Ordering::Relaxed);
                self.analyst.look_at(tid, site);
            }
            request::USER_CHANGED => {
                let reply = self.user_changed(index, tid, observer);
                reply_to(slot, reply);
            }
            _ => {}
        }
    }

    /// What a thread that asks through a slot is to us, and its process. `None`: there is no such
    /// thread.
    fn who_asks(&mut self, tid: i32, slot: usize) -> Option<(Relation, i32)> {
        let identity = self.kin.identify(tid)?;
        let relation = match self.speaks_through(slot, &identity) {
            true => self.kin.relation(identity.process),
            false => Relation::Stranger,
        };
        Some((relation, identity.process))
    }

    /// The thread in a slot does not execute its program after all.
    fn call_off(&mut self, index: usize, observer: &mut dyn Observer) {
        let attached = self.tracees.iter_mut().find(|(_, tracee)| tracee.slot == index);
        if let Some((&tid, tracee)) = attached {
            tracee.leaving = true;
            if ptrace::interrupt(tid).is_ok() {
                return; // answered when it has stopped
            }
            self.lose(tid, observer);
        }
        reply_to(self.slot(index), answer::DONE);
    }

    /// Attaches to a thread for its exec, if it is one of those that we follow: the id comes from
    /// memory that the program can write. Gives its process, or what to reply.
    fn attach(&mut self, tid: i32, index: usize, observer: &mut dyn Observer) -> Result<i32, u32> {
        // Else it is gone, or about to be.
        let (relation, pid) = self.who_asks(tid, index).ok_or(answer::REFUSED)?;
        let process = place::process_number(self.slot(index));
        if relation == Relation::Ours && ptrace::seize(tid).is_ok() {
            self.tracees.insert(tid, Tracee::new(index, process));
            return Ok(pid);
        }
        if relation == Relation::Gone || is_dead(tid) {
            return Err(answer::REFUSED);
        }
        if relation == Relation::Stranger {
            observer.not_followed(tid as u32, process, "it is no process of this recording");
            return Err(answer::REFUSED);
        }
        // The agent tells: only it learns whether the program is executed.
        Err(answer::NOT_ATTACHED)
    }

    /// While a thread executes its program: what an exec does not change.
    fn look_ahead(&mut self, tid: i32, pid: i32, observer: &mut dyn Observer) {
        let same_ipc = self.domains.are_within_reach_of(tid);
        self.tracees.entry(tid).and_modify(|tracee| tracee.same_ipc = same_ipc);
        let process = self.tracees[&tid].process;
        // A thread that has got to its exec stop already is looked at there.
        if tid == pid && !ptrace::has_news(tid) {
            observer.announced(pid as u32, process);
        }
    }

    /// Takes what wait has to tell.
    fn wait_for_news(&mut self, observer: &mut dyn Observer) {
        loop {
            let mut status = 0;
            // SAFETY: plain call.
            let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::WNOHANG) };
            if pid <= 0 {
                return;
            }
            if libc::WIFSTOPPED(status) {
                self.stopped(pid, status, observer);
                continue;
            }
            if pid == self.program {
                self.program_status = Some(status);
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
                self.kin.add(pid);
                self.program_began |= pid == self.program;
                self.executed(pid, tracee, observer);
            }
            if !self.tracees.contains_key(&pid) {
                let _ = ptrace::detach(pid, 0);
            }
            return;
        }
        let Some(tracee) = self.tracees.get(&pid).copied() else {
            // A child of ours that has asked to be traced by its parent goes on as if it had none. That
            // trap is its exec's.
            let signal = if event == 0 && signal != libc::SIGTRAP { signal } else { 0 };
            let _ = ptrace::detach(pid, signal);
            return;
        };
        // A stop of ours carries no signal; one on the way to the thread goes on to it.
        let passed = if event == 0 { signal } else { 0 };
        if tracee.leaving {
            self.lose(pid, observer);
            let _ = ptrace::detach(pid, passed);
            reply_to(self.slot(tracee.slot), answer::DONE);
        } else if event == libc::PTRACE_EVENT_STOP && signal != libc::SIGTRAP {
            let _ = ptrace::listen(pid);
        } else if let Some(stops) = tracee.bootstrap {
            self.bootstrap_stopped(pid, stops, signal, passed, observer);
        } else {
            let _ = ptrace::resume(pid, passed);
        }
    }

    /// A thread that we were attached to executes no program.
    fn lose(&mut self, tid: i32, observer: &mut dyn Observer) {
        if let Some(tracee) = self.tracees.remove(&tid) {
            observer.called_off(tracee.process);
        }
    }

    /// A traced thread runs a new program and stands at its first instruction.
    fn executed(&mut self, pid: i32, tracee: Tracee, observer: &mut dyn Observer) {
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

    fn bootstrap_stopped(
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

fn is_dead(tid: i32) -> bool {
    status::read(tid).is_none_or(|status| status.dead)
}

fn reply_to(slot: &Slot, reply: u32) {
    slot.answer.store(reply, Ordering::Release);
    // SAFETY: wakes whoever waits on the word.
    unsafe {
        libc::syscall(libc::SYS_futex, slot.answer.as_ptr(), libc::FUTEX_WAKE, i32::MAX);
    }
}
