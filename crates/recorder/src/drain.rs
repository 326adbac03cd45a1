//! The thread that reads the rings: its loop, and the end of a recording.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use file_tree::Inode;
use model::unseen::{Fates, NotSeen};
use ring::{Arena, Line, SLOTS};
use syscalls::record::{GapWhy, unwatched};
use trace::event::{EventKind, RECORDER, Totals};

use crate::changes::Outcomes;
use crate::copies::{self, Terms};
use crate::host::{self, TscClock};
use crate::mailbox::{Mailbox, Message};
use crate::manifest;
use crate::options::Options;
use crate::output::Output;
use crate::pace::Pace;
use crate::processes::Processes;
use crate::slots::{News, Slots, each_in_use, wake_if_waiting};
use crate::summary::Summary;

/// Interval of flushes: followers and readers after a crash find everything older than this.
const FLUSH_EVERY: Duration = Duration::from_secs(1);
/// Interval at which processes without a pidfd are polled.
const POLL_EVERY: Duration = Duration::from_millis(50);
/// How long to wait for the first record of an announced child when all other processes are dead.
const BIRTH_WAIT: Duration = Duration::from_millis(500);
/// The same where the child is alive.
const STOPPED_BIRTH_WAIT: Duration = Duration::from_secs(10);
/// How often to look whether it is: a look reads all of /proc.
const UNBORN_LOOK_EACH: Duration = Duration::from_millis(250);
/// After recording was stopped, threads get this long to finish what they are writing ...
const SETTLE_MIN: Duration = Duration::from_millis(5);
/// ... and at most this long if they keep writing.
const SETTLE_MAX: Duration = Duration::from_millis(500);

/// Why and since when recording is stopped before the program's end.
struct Stopped {
    why: GapWhy,
    text: String,
    since: Instant,
}

/// Constants of a recording.
pub(crate) struct Frame {
    pub options: Options,
    /// The trace file itself.
    pub own: Option<Inode>,
    /// One moment, as nanoseconds since 1970 and as a time stamp.
    pub epoch: (u64, u64),
}

/// Whether a process id is or was one of ours.
struct Question {
    pid: u32,
    /// No process had it when that was asked.
    was_gone: bool,
    answer: Sender<bool>,
    /// It was not known after one round.
    has_waited: bool,
}

pub(crate) struct Drain {
    mailbox: Arc<Mailbox>,
    out: Output,
    slots: Slots,
    processes: Processes,
    clock: TscClock,
    options: Options,
    began: Instant,
    program_ended: bool,
    stopped: Option<Stopped>,
    /// Since when no process is left.
    alone: Option<Instant>,
    /// When it was last looked whether children that have not begun live, and what was found.
    unborn: Option<(Instant, bool)>,
    /// One for each arena: no agent may wait for this thread once it has ended, even by a panic.
    guards: Vec<PassThrough>,
    /// The trace file itself.
    own: Option<Inode>,
    /// One moment, as nanoseconds since 1970 and as a time stamp.
    epoch: (u64, u64),
    /// Time stamps at which the last two rounds began.
    rounds: [u64; 2],
    /// Open questions whether a process id is or was one of ours.
    asked: Vec<Question>,
    /// Arenas in which a program has overwritten the stop flags.
    tampered: Vec<usize>,
}

impl Drain {
    pub fn new(
        arena: Arena,
        mailbox: Arc<Mailbox>,
        out: Output,
        processes: Processes,
        clock: TscClock,
        frame: Frame,
    ) -> Drain {
        let Frame { options, own, epoch } = frame;
        let guards = vec![PassThrough(arena, Arc::clone(&mailbox))];
        Drain {
            mailbox,
            out,
            slots: Slots::new(arena),
            processes,
            clock,
            options,
            began: Instant::now(),
            program_ended: false,
            stopped: None,
            alone: None,
            unborn: None,
            guards,
            own,
            epoch,
            rounds: [0; 2],
            asked: Vec::new(),
            tampered: Vec::new(),
        }
    }

    /// Records until nothing is left to record.
    pub fn run(mut self) -> Summary {
        if let Some(kernel) = &self.options.kernel {
            kernel.introduce(&mut self.out);
        }
        let mut pace = Pace::new();
        let mut flushed = Instant::now();
        let mut polled = Instant::now();
        loop {
            self.read_mail();
            for arena in self.slots.arenas() {
                arena.control().clock.store(host::tsc(), Ordering::Relaxed);
            }
            let bytes = self.round();
            self.mark_unwatched();
            let kernel = self.options.kernel.as_ref();
            let kernel_bytes = kernel.map_or(0, |kernel| kernel.read(&mut self.out));
            self.check_control();
            self.answer();
            self.check_stop();
            if self.is_over(bytes) {
                return self.finish();
            }
            let now = Instant::now();
            if now - flushed >= FLUSH_EVERY {
                flushed = now;
                self.out.flush();
            }
            if now - polled >= POLL_EVERY {
                polled = now;
                self.processes.poll();
                self.processes.look_again(|process| self.slots.has(process));
            }
            let (slots, mailbox) = (&self.slots, &self.mailbox);
            let is_asked = !self.asked.is_empty();
            let bells = slots.arenas().iter().map(|arena| &arena.control().doorbell);
            let bells: Vec<&Line> = bells.collect();
            pace.rest(bytes + kernel_bytes, &bells, || {
                is_asked || mailbox.is_filled() || slots.urgent()
            });
        }
    }

    /// Answers questions about process ids. Who is not known after this round may be after the next one:
    /// slots are read one after the other, while programs go on.
    fn answer(&mut self) {
        for question in std::mem::take(&mut self.asked) {
            let known = self.processes.knows(question.pid, question.was_gone);
            if known || question.has_waited {
                // The receiver may be gone.
                let _ = question.answer.send(known);
            } else {
                self.asked.push(Question { has_waited: true, ..question });
            }
        }
    }

    fn read_mail(&mut self) {
        let mut has_read = false;
        for message in self.mailbox.take() {
            match message {
                Message::Event(event) => self.out.whole_event(event),
                Message::Seen(watched) => self.processes.add(watched),
                Message::Died { process, tsc, status, more } => {
                    self.processes.died(process, tsc, status, more);
                }
                Message::ProgramEnded { pid, status } => {
                    self.processes.program_ended(pid, status);
                    self.program_ended = true;
                }
                Message::Moved { from, to, arena, user, done } => {
                    if self.moved(from, to, arena, user) {
                        // The receiver may be gone.
                        let _ = done.send(());
                    }
                }
                Message::Placed { process, tsc } => self.processes.placed(process, tsc),
                Message::Unrecorded(process) => self.processes.account(process),
                Message::IsRecorded { pid, is_gone, answer } => {
                    let was_gone = is_gone;
                    self.asked.push(Question { pid, was_gone, answer, has_waited: false });
                }
                Message::Stored(stored, tsc) => {
                    if !self.out.knows_thread(&stored) && !std::mem::replace(&mut has_read, true) {
                        // Its START was published before.
                        let mut news = Vec::new();
                        self.slots.round(&mut self.out, &mut news);
                        self.note(news);
                    }
                    self.out.stored(&stored, tsc);
                    self.mailbox.stored(stored.bytes);
                }
                Message::Looked { process, since, pages, tsc } => {
                    self.out.looked((process, since), pages, tsc);
                }
                Message::Times { process, by_faults, lost, why, tsc } => {
                    self.out.times(process, (by_faults, lost, why), tsc);
                }
                Message::WithBytes(event, bytes) => {
                    self.out.with_bytes(*event, &bytes);
                    self.mailbox.stored(bytes);
                }
                Message::Follow { pid, tsc } => {
                    if let Some(kernel) = &self.options.kernel {
                        kernel.follow(&mut self.out, pid, tsc);
                    }
                }
                Message::Stop(why, text) => self.stop(why, text),
            }
        }
    }

    /// Moves a stopped thread to another slot; false if it has been killed meanwhile.
    fn moved(&mut self, from: usize, to: usize, arena: Arena, user: u32) -> bool {
        if to / SLOTS == self.slots.arenas().len() {
            self.slots.add(arena, user);
            self.guards.push(PassThrough(arena, Arc::clone(&self.mailbox)));
            if let Some(stopped) = &self.stopped {
                pass_through(&arena, stopped.why);
            }
        }
        let mut news = Vec::new();
        self.slots.read_rest(from, &mut self.out, &mut news);
        self.note(news);
        self.slots.move_thread(from, to)
    }

    /// Reads all slots once, then closes the threads of processes that died before the round.
    fn round(&mut self) -> u64 {
        let mut news = Vec::new();
        let began = host::tsc();
        let bytes = self.slots.round(&mut self.out, &mut news);
        self.out.read_at_once(bytes);
        self.note(news);
        // Records stamped before the round before last were published and read since.
        if let Some(changes) = &mut self.out.changes {
            changes.settle(self.rounds[0], host::tsc());
        }
        self.rounds = [self.rounds[1], began];
        let mut dead = self.processes.dead();
        dead.retain(|&(process, _)| self.slots.is_read(process));
        if !dead.is_empty() {
            // What they have left may complete what other threads have submitted.
            let mut news = Vec::new();
            self.slots.round(&mut self.out, &mut news);
            for index in self.slots.in_use() {
                let process = self.slots.process(index);
                if let Some(&(_, tsc)) = dead.iter().find(|(dead, _)| *dead == process) {
                    self.slots.killed(index, tsc, &mut self.out, &mut news);
                }
            }
            self.note(news);
            self.bury(&dead, true);
        }
        bytes
    }

    fn note(&mut self, news: Vec<News>) {
        // Starts first: an exec must know which threads there are.
        for item in &news {
            if let News::Started(birth) = item {
                // A process noticed alive may have a pidfd that can no longer be opened now.
                if let Some(watched) = self.mailbox.seen(birth.start.process) {
                    self.processes.add(watched);
                }
                let is_foreign = birth.foreign;
                let maker = is_foreign.then(|| self.slots.process_of(birth.start.parent));
                if let Some(tids) = &mut self.out.tids {
                    tids.started(&birth.start, birth.foreign);
                }
                self.processes.started(birth, maker.flatten());
                self.mailbox.set_known(birth.start.process, true);
            }
        }
        let mut more = Vec::new();
        for item in news {
            match item {
                News::Image { slot, process, tsc } => {
                    self.processes.has_image(process, tsc);
                    if let (Some(tids), Some(thread)) =
                        (&mut self.out.tids, self.slots.thread(slot))
                    {
                        tids.began_program(process, thread, tsc);
                    }
                    self.slots.image((slot, process), tsc, &mut self.out, &mut more);
                }
                News::Ended { process, accounted: true } => self.processes.account(process),
                News::Ended { .. } | News::Started(_) => {}
            }
        }
        if !more.is_empty() {
            self.note(more);
        }
    }

    fn bury(&mut self, dead: &[(u32, u64)], wait_for_status: bool) {
        for &(process, _) in dead {
            let silence = self.processes.silence(process).filter(|(pid, _)| {
                self.stopped.is_none() && !self.out.traced.contains(&u64::from(*pid))
            });
            if let Some((tsc, status)) = self.processes.bury(process, wait_for_status) {
                self.mailbox.set_known(process, false);
                // The stream is in order: messages sent before the end go first.
                self.read_mail();
                if let Some((pid, text)) = silence {
                    let text = text.to_string();
                    let (why, detail) = (GapWhy::NotFollowed, pid.into());
                    self.out.event(RECORDER, tsc, EventKind::Gap { why, detail, text });
                }
                self.note_uncollected(process, tsc);
                if let Some(tids) = &mut self.out.tids {
                    tids.ended(process);
                }
                // The END events of its threads have the time itself, and come before.
                self.out.event(RECORDER, tsc + 1, EventKind::Exit { process, status });
            }
        }
    }

    /// Children whose stores are not recorded may have changed what their parents had mapped.
    fn mark_unwatched(&mut self) {
        for (parent, tsc) in std::mem::take(&mut self.out.unwatched) {
            let files = self.mailbox.ever_watched(parent);
            let Some(changes) = &mut self.out.changes else { continue };
            match files {
                Some(files) => files.into_iter().for_each(|file| changes.mapped(parent, tsc, file)),
                None => changes.too_many(),
            }
        }
    }

    /// Says what a process that is gone may have stored to mapped files after the last collection.
    fn note_uncollected(&mut self, process: u32, tsc: u64) {
        let files = self.mailbox.left(process);
        let Some(first) = files.first().filter(|_| self.stopped.is_none()) else { return };
        let text = format!(
            "it was killed: what it had stored to {}{} since the last look is missing",
            String::from_utf8_lossy(first),
            if files.len() > 1 { " and other mapped files" } else { "" }
        );
        if let Some(changes) = &mut self.out.changes {
            files.into_iter().for_each(|file| changes.mapped(process, tsc, file));
        }
        self.out.gap_of(process, tsc, GapWhy::Unwatched, unwatched::KILLED, text);
    }

    /// Notices that a program has set the flags that stop agents, which only the recorder may set,
    /// and clears them: agents that saw them have stopped, later ones shall not.
    fn check_control(&mut self) {
        if self.stopped.is_some() {
            return;
        }
        let mut found = None;
        for (number, arena) in self.slots.arenas().iter().enumerate() {
            let control = arena.control();
            let told = control.stopped.load(Ordering::Relaxed);
            if told != 0 {
                control.stopped.store(0, Ordering::SeqCst);
            }
            if (told != 0 || arena.recorder_lost()) && !self.tampered.contains(&number) {
                self.tampered.push(number);
                // What was found there tells who wrote it.
                let alive = control.alive.word.load(Ordering::Relaxed);
                found = Some(u64::from(alive) << 32 | u64::from(told));
            }
        }
        if let Some(detail) = found {
            let text = "a program has stopped its own recording, and that of others of its user, by \
                        writing over the memory that it shares with the recorder";
            let kind = EventKind::Gap { why: GapWhy::RecorderLost, detail, text: text.to_string() };
            self.out.event(RECORDER, host::tsc(), kind);
        }
    }

    /// Stops recording when a limit is reached.
    fn check_stop(&mut self) {
        if self.stopped.is_some() {
            return;
        }
        if let Some((why, text)) = self.out.full().cloned() {
            return self.stop(why, text);
        }
        if let Some(limit) = self.options.duration.filter(|&limit| self.began.elapsed() >= limit) {
            let text = format!("recorded for {limit:?} (--duration)");
            return self.stop(GapWhy::TimeLimit, text);
        }
        if self.options.until_exit && self.program_ended && self.processes.alive() != 0 {
            let left = self.processes.alive();
            let text = format!("the program had ended (--until-exit); processes left: {left}");
            self.stop(GapWhy::UntilExit, text);
        }
    }

    fn stop(&mut self, why: GapWhy, text: String) {
        if self.stopped.is_some() {
            return;
        }
        for arena in self.slots.arenas() {
            pass_through(arena, why);
        }
        if let Some(kernel) = &self.options.kernel {
            kernel.pause();
        }
        if matches!(why, GapWhy::SizeLimit | GapWhy::WriteFailed) {
            self.out.discard();
        }
        self.stopped = Some(Stopped { why, text, since: Instant::now() });
    }

    /// Whether nothing more is to come, given the number of bytes that the last round read.
    fn is_over(&mut self, bytes: u64) -> bool {
        if let Some(stopped) = &self.stopped {
            let waited = stopped.since.elapsed();
            return waited >= SETTLE_MAX || (bytes == 0 && waited >= SETTLE_MIN);
        }
        let begun = self.processes.seen != 0 || self.program_ended;
        if !begun || self.processes.count() != 0 || self.mailbox.is_filled() {
            self.alone = None;
            return false;
        }
        let alone = *self.alone.get_or_insert_with(Instant::now);
        let wait = if self.are_unborn() { STOPPED_BIRTH_WAIT } else { BIRTH_WAIT };
        self.slots.in_use().is_empty() || alone.elapsed() >= wait
    }

    /// Whether some child that has been made is alive and has not begun: it is stopped, perhaps.
    fn are_unborn(&mut self) -> bool {
        let unborn = self.slots.unborn();
        if unborn.is_empty() {
            return false;
        }
        if let Some((when, are)) = self.unborn
            && when.elapsed() < UNBORN_LOOK_EACH
        {
            return are;
        }
        let are = self.processes.has_living(&unborn);
        self.unborn = Some((Instant::now(), are));
        are
    }

    fn finish(mut self) -> Summary {
        let dead = self.processes.dead();
        self.bury(&dead, false);
        if let Some(kernel) = &self.options.kernel {
            kernel.finish(&mut self.out);
        }
        let disowned = self.slots.disowned();
        self.unborn = None;
        let are_unborn = self.stopped.is_none() && self.are_unborn();
        let counts = self.slots.close(&mut self.out);
        let (mut not_seen, mut changed) = (NotSeen::default(), None);
        if let Some(changes) = self.out.changes.take() {
            let Outcomes { paths, copies, unseen } = changes.finish();
            let ((epoch_ns, epoch_tsc), hz) = (self.epoch, self.clock.hz().max(1));
            let terms = Terms {
                rules: &self.options.data,
                data_max: self.options.data_max.unwrap_or(u64::MAX),
                clock: &|tsc| {
                    let ticks = i128::from(tsc) - i128::from(epoch_tsc);
                    let ns = i128::from(epoch_ns) + ticks * 1_000_000_000 / i128::from(hz);
                    u64::try_from(ns).unwrap_or(0)
                },
                took: self.began.elapsed(),
                own: self.own,
                has_requests: unseen.has_requests(),
            };
            let why = self.stopped.as_ref().map(|stopped| stopped.why);
            let is_over = why.is_none_or(|why| why == GapWhy::UntilExit);
            let kept = match is_over && self.out.full().is_none() {
                true => copies::keep(&mut self.out, copies, &paths, &terms),
                false => Ok(Fates::default()),
            };
            let fates = kept.unwrap_or_else(|error| {
                self.out.fail(&error);
                Fates::default()
            });
            not_seen = unseen.finish(&|path| fates.kept(path));
            changed = Some(paths).filter(|_| self.options.manifest);
        }
        self.out.prepare_end();
        let full = self.out.full().cloned();
        let stopped = self.stopped.map(|stopped| (stopped.why, stopped.text)).or(full);
        let end_tsc = host::tsc();
        if disowned != 0 {
            let text = format!(
                "{disowned} threads are not recorded, or not to their end: their rings were written \
                 over, or taken for those of threads that had been killed"
            );
            self.out.last_gap(end_tsc, GapWhy::RecorderLost, disowned, text);
        }
        if are_unborn {
            let text = "a child that was made had not begun when the recording ended";
            self.out.last_gap(end_tsc, GapWhy::NotFollowed, 0, text.into());
        }
        if let Some((why, text)) = &stopped {
            let discarded = self.out.calls_discarded;
            self.out.last_gap(end_tsc, *why, discarded, text.clone());
        }
        let why = stopped.as_ref().map(|(why, _)| *why);
        if let Some(changed) = changed
            && let Err(error) = manifest::write(&mut self.out, changed, why, self.own)
        {
            self.out.fail(&error);
        }
        let totals = Totals {
            calls_made: counts.calls_made,
            calls_read: counts.calls_read,
            calls_written: self.out.calls_written,
            slow_path_calls: self.out.slow_calls,
            ring_bytes_published: counts.bytes_published,
            ring_bytes_read: counts.bytes_read,
            data_bytes: self.out.data_bytes,
            stored_bytes: self.out.stored_bytes(),
            threads: counts.threads,
            processes: self.processes.seen,
            gaps: self.out.gaps,
            stall_ns: counts.stall_ns,
            tsc_hz: self.clock.hz(),
            end_tsc,
        };
        let unwritten = counts
            .calls_read
            .saturating_sub(totals.calls_written.saturating_add(self.out.calls_discarded));
        let mut summary = Summary {
            calls: totals.calls_written,
            kernel_events: self.out.kernel_events,
            kernel_events_dropped: self.out.kernel_events_dropped,
            threads: totals.threads,
            processes: totals.processes,
            data_bytes: totals.data_bytes,
            trace_bytes: self.out.trace_bytes(),
            stored_bytes: totals.stored_bytes,
            lost: counts.calls_missed.saturating_add(unwritten),
            stall_ns: totals.stall_ns,
            slow_path_calls: totals.slow_path_calls,
            discarded: self.out.calls_discarded,
            gaps: totals.gaps,
            first_gap: self.out.first_gap.take(),
            files_not_whole: self.out.files_not_whole,
            not_seen,
            stopped,
            unfinished: None,
        };
        match self.out.finish(&totals) {
            Ok(finished) => {
                summary.trace_bytes = finished.trace_bytes;
                summary.stored_bytes = finished.stored_bytes;
                // The writer has its own count.
                summary.lost += totals.calls_written.saturating_sub(finished.calls);
            }
            Err(error) => {
                summary.stopped.get_or_insert((GapWhy::WriteFailed, error.to_string()));
                summary.unfinished = Some(error.to_string());
            }
        }
        summary
    }
}

/// Stops agents from recording, and wakes those that wait for room.
fn pass_through(arena: &Arena, why: GapWhy) {
    arena.control().stopped.store(why as u32, Ordering::SeqCst);
    each_in_use(arena, |index| {
        wake_if_waiting(arena.slot(index));
        false
    });
}

/// When the drain thread ends, stops an arena's agents from recording and drops pending answers.
struct PassThrough(Arena, Arc<Mailbox>);

impl Drop for PassThrough {
    fn drop(&mut self) {
        if self.0.control().stopped.load(Ordering::SeqCst) == 0 {
            pass_through(&self.0, GapWhy::RecorderLost);
        }
        self.1.close();
    }
}
