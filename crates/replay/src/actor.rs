//! A task's main loop: takes its lane's actions one by one, waits for their dependencies, makes the
//! call, and compares the result with the recorded one.

mod begin;
mod excuses;
mod flow;
mod holes;
mod led;
mod looks;
mod portion;
mod rests;
mod timed;

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use syscalls::abi::tasks::{CLONE_FILES, CLONE_FS, CLONE_THREAD};
use syscalls::{Act, Arg, ArgKind, Operand, Ret};

use crate::batch::{Action, Batch, Call, Lane, Piece, Placed, Spawn, What};
use crate::certainty::Reason;
use crate::clock::{self, Pace};
use crate::descriptors::{self, seek};
use crate::execute::{Maker, Region, is_of_names};
use crate::jail::Powers;
use crate::lane::Mood;
use crate::log::{About, Came, Line};
use crate::made::Made;
use crate::outcome::{CpuTime, DifferingPart, Example, Outcome, Stopped, Tally, shown};
use crate::shared::{Shared, Still};
use crate::space::Medium;
use crate::task::{Body, Descriptors, Directories, End, Ended, spawn_process, spawn_thread};
use crate::turns;
use crate::verify::{self, Verdict};
use looks::{asks_for_alignment, is_directory, mode_of, moves_offset};

/// Sleeping threads wake up late: sleep this much less, and poll the clock for the rest.
const EARLY: Duration = Duration::from_micros(150);

/// Who sees more time pass at once did not have the CPU meanwhile.
const AWAY_NS: u64 = 5_000;

/// Disk space that a task reserves at a time.
const GRANT_BYTES: u64 = 4 << 20;

/// Creates a task of the first program, from the host itself.
pub fn launch(shared: &Arc<Shared>, lane: &Arc<Lane>) {
    let (body, ended) = life(shared, lane);
    let keeps = Arc::clone(shared);
    let body = Box::new(move || match keeps.options.powers.keep() {
        Ok(()) => body(),
        Err(error) => keeps.stop(Stopped::Failed(format!("powers are not given up: {error}"))),
    });
    if let Err(error) = spawn_process(Descriptors::None, Directories::Copied, body, ended) {
        stillborn(shared, lane, &error);
    }
}

/// Returns the body of a new task, and the handler of its end.
fn life(shared: &Arc<Shared>, lane: &Arc<Lane>) -> (Body, Ended) {
    shared.begins();
    let (acts, runs) = (Arc::clone(shared), Arc::clone(lane));
    let body = Box::new(move || run(&acts, &runs));
    let (shared, lane) = (Arc::clone(shared), Arc::clone(lane));
    let ended = Box::new(move |end| {
        match end {
            End::Returned => {}
            End::Panicked(what) => shared.stop(Stopped::Failed(what)),
            End::Killed(signal) => {
                shared.stop(Stopped::Failed(format!("a task was killed by signal {signal}")));
            }
        }
        shared.ends(&lane);
    });
    (body, ended)
}

/// Records that a task could not be created.
fn stillborn(shared: &Shared, lane: &Lane, error: &std::io::Error) {
    shared.stop(Stopped::Failed(format!("a task could not be made: {error}")));
    shared.ends(lane);
}

/// Runs all actions of a lane.
fn run(shared: &Arc<Shared>, lane: &Arc<Lane>) {
    let maker = match Maker::new(Arc::clone(&shared.space)) {
        Ok(maker) => maker,
        Err(error) => return shared.stop(Stopped::Failed(format!("memory for a task: {error}"))),
    };
    let mut actor = Actor {
        shared,
        lane,
        maker,
        tally: Tally::default(),
        quick: shared.options.speed.is_none(),
        pace: None,
        granted: 0,
        ended_at: clock::ticks(),
        took_ns: None,
        took_cpu_ns: 0,
    };
    if !actor.quick || shared.options.rests {
        turns::sleep_exactly();
    }
    if shared.options.gate.is_some() {
        turns::go_first();
    }
    // SAFETY: gettid has no arguments and cannot fail.
    lane.task.store(unsafe { libc::gettid() }, Ordering::Relaxed);
    shared.count_busy(true);
    let next = || {
        lane.look_out(shared.spins());
        shared.asleep(|| lane.take())
    };
    let computes = shared.options.computes;
    while let Some(batch) = next() {
        for action in &batch.actions {
            if action.rests_ns > 0 {
                actor.rest(action.rests_ns);
            }
            if action.computes_ns > 0 {
                actor.compute(action.computes_ns);
            }
            actor.ended_at = 0;
            actor.act(&batch, action);
            actor.tell_leader(action.seq);
            if computes && actor.ended_at == 0 {
                actor.ended_at = clock::ticks();
            }
            lane.finish_one();
        }
        shared.give_back(batch);
    }
    shared.count_busy(false);
    actor.tally.cpu = CpuTime::of_thread();
    shared.add(&lane.counts, actor.tally);
}

struct Actor<'a> {
    shared: &'a Arc<Shared>,
    lane: &'a Arc<Lane>,
    maker: Maker,
    tally: Tally,
    quick: bool,
    /// Set when the first call is due.
    pace: Option<Pace>,
    /// Reserved disk space that is left.
    granted: u64,
    /// When the last action's call returned, if tasks compute in between: what this task does about
    /// it is no part of what the program does. Without a call, when the action was done.
    ended_at: u64,
    /// What the current action's call has taken, if the replay is led and it does not wait for others.
    took_ns: Option<u64>,
    took_cpu_ns: u64,
}

impl Actor<'_> {
    fn act(&mut self, batch: &Batch, action: &Action) {
        self.lane.begin(action.enter, action.seq);
        if !self.may_go_on(action.seq) {
            return;
        }
        for (other, count) in &batch.waits[action.waits.start as usize..action.waits.end as usize] {
            self.wait_for(other, *count);
        }
        if self.shared.stopping() {
            return;
        }
        if !self.quick {
            self.wait_until_due(action.enter);
        }
        match &action.what {
            What::Call(at) => self.call(batch, action, &batch.calls[*at as usize]),
            What::Place(all) => all.iter().for_each(|placed| self.place(action, *placed)),
            What::Socket(path) => begin::make_socket(path),
            What::Directory { path, mode } => begin::make_directory(path, *mode),
            What::Advance { fd, by } => {
                // SAFETY: the arguments are numbers; no memory is accessed.
                unsafe { libc::lseek(*fd, *by, libc::SEEK_CUR) };
            }
            What::Pour { fd, bytes } => self.pour(action, *fd, *bytes),
            What::Drain { fd, bytes } => self.drain(action, *fd, *bytes),
            What::Map { fd, mapping } => self.map(*fd, mapping),
            What::Memory { call, mapping, offset } => {
                self.memory(action, &batch.calls[*call as usize], mapping, *offset);
            }
            What::Timed { call, again } => {
                self.for_its_time(batch, action, &batch.calls[*call as usize]);
                let again = again.start as usize..again.end as usize;
                self.again_for_its_time(&batch.calls[*call as usize], &batch.computes[again]);
            }
            What::Store { mapping, offset, pieces, is_read: false, by, .. } => {
                let pieces = &batch.pieces[pieces.start as usize..pieces.end as usize];
                self.store(batch, (mapping, *offset, *by), pieces);
            }
            What::Store { mapping, offset, pieces, certainty, by, .. } => {
                let piece = &batch.pieces[pieces.start as usize];
                self.load(batch, action, (mapping, *offset, *by), piece, *certainty);
            }
            What::Unlock(fd) => {
                // SAFETY: the arguments are numbers; no memory is accessed.
                unsafe { libc::flock(*fd, libc::LOCK_UN) };
            }
            What::Close(all) => all.iter().for_each(|fd| descriptors::close(*fd)),
            What::Spawn(spawn) => self.spawn(spawn),
            What::Exec(keep) => {
                // SAFETY: the argument is a number; only this task's tables are separated.
                unsafe { libc::unshare(libc::CLONE_FILES | libc::CLONE_FS) };
                descriptors::close_others(keep);
                if self.shared.options.privileged {
                    Powers::after_exec();
                }
            }
            What::Powers { effective, permitted } => Powers::narrow(*effective, *permitted),
            What::Become(beginning) => begin::become_process(self.shared, beginning),
            What::Unshare(flags) => {
                // SAFETY: the argument is a number; only this task's tables are separated.
                unsafe { libc::unshare(*flags) };
            }
            What::End { close: true } => descriptors::close_others(&[]),
            What::End { close: false } => {}
        }
    }

    /// Uses the CPU as long as the recorded thread did since its call before. What has passed since
    /// ours counts, as it was not waited for anybody's sake; what other tasks have the CPU does not.
    /// Returns the time when it is done.
    fn compute(&self, ns: u64) -> u64 {
        let mut last = clock::ticks();
        // Ticks are summed up: each look rounded to nanoseconds would lose some hundredths.
        let mut spent = last.wrapping_sub(self.ended_at);
        if clock::to_ns(spent) >= ns {
            return last;
        }
        let is_long = ns >= AWAY_NS;
        if is_long {
            self.lane.set_mood(Mood::Rests);
        }
        while clock::to_ns(spent) < ns && !self.shared.stopping() {
            std::hint::spin_loop();
            let now = clock::ticks();
            let passed = now.wrapping_sub(last);
            last = now;
            if clock::to_ns(passed) < AWAY_NS {
                spent = spent.saturating_add(passed);
            }
        }
        if is_long {
            self.lane.set_mood(Mood::Busy);
        }
        last
    }

    fn wait_for(&self, other: &Lane, count: u64) {
        if other.done() >= count {
            return;
        }
        self.lane.waits_for(other, count);
        let spins = self.shared.spins();
        self.shared.asleep(|| other.wait_for(count, spins));
        self.lane.set_mood(Mood::Busy);
    }

    fn wait_until_due(&mut self, enter: u64) {
        let shared = self.shared;
        if self.pace.is_none() {
            self.pace = shared.pace();
        }
        let Some(pace) = &mut self.pace else { return };
        let due = pace.due(enter);
        let late = loop {
            let now = pace.now();
            if now >= due {
                break now - due;
            }
            // If others need the core, do not spin: sleep as exactly as possible.
            let early = if shared.spins() > 0 { EARLY } else { Duration::ZERO };
            match Duration::from_nanos(due - now).checked_sub(early) {
                Some(left) if !left.is_zero() => {
                    self.lane.set_mood(Mood::Rests);
                    shared.asleep(|| std::thread::sleep(left));
                    self.lane.set_mood(Mood::Busy);
                    pace.look();
                }
                _ => std::hint::spin_loop(),
            }
        };
        self.tally.start_error.get_or_insert_default().record(late);
    }

    fn place(&self, action: &Action, placed: Placed) {
        let patient = self.patience(action, true);
        if let Err(error) = descriptors::place(placed.fd, placed.close_on_exec, patient) {
            let found = format!("no placeholder: {error}");
            self.report(
                DifferingPart::Return,
                "a simulated descriptor".into(),
                action,
                placed.fd.to_string(),
                found,
            );
        }
    }

    /// Whether to keep waiting for a number in use: while overlapping calls may still close it.
    fn patience<'b>(&'b self, action: &'b Action, shared_table: bool) -> impl Fn() -> bool + 'b {
        let still = Cell::new(Still::since_now(self.shared));
        move || {
            let since = still.get().as_of_now(self.shared);
            still.set(since);
            if !action.overlapped
                || !shared_table
                || self.shared.is_hopeless(since, self.lane, action.exit)
            {
                return false;
            }
            let mut first = true;
            // The second attempt succeeds: time has passed, the number may be free now.
            self.shared.appeal(self.lane, action.exit, || !std::mem::take(&mut first))
        }
    }

    fn spawn(&self, spawn: &Spawn) {
        let has = |flag| spawn.flags & flag != 0;
        let descriptors = if has(CLONE_FILES) { Descriptors::Shared } else { Descriptors::Copied };
        let directories = if has(CLONE_FS) { Directories::Shared } else { Directories::Copied };
        let make = if has(CLONE_THREAD) { spawn_thread } else { spawn_process };
        let (body, ended) = life(self.shared, &spawn.lane);
        if let Err(error) = make(descriptors, directories, body, ended) {
            stillborn(self.shared, &spawn.lane, &error);
        }
    }

    fn call(&mut self, batch: &Batch, action: &Action, call: &Call) {
        if call.scan != 0 {
            self.scan(batch, action, call);
            return;
        }
        if call.certainty.has(Reason::NotReturned) {
            self.attempt(batch, call);
            return;
        }
        if asks_for_alignment(call) {
            // The alignment rules of this file system may differ.
            self.conclude(action, call, Made::Unknown);
            return;
        }
        if let Err(into) = self.may_take(call) {
            if call.ret < 0 {
                // It transferred nothing when recorded, and must not fill the disk now.
                let what = format!("{}: it had failed, and asks for all of the disk", call.name);
                Outcome::count(&mut self.tally.skipped, &what, 1);
                self.tell(action, Came::Skipped, || [what, shown(call.ret), String::new()]);
                return;
            }
            self.shared.stop(Stopped::Full(self.shared.space.used_up(into)));
            return;
        }
        self.lane.counts.replayed.add(1);
        if action.overlapped && call.ret < 0 {
            self.wait_for_failure(batch, action, call);
        }
        let (ret, ticks) = self.make_anew(batch, action, call);
        self.tally.latencies.of(call.nr).record(clock::to_ns(ticks));
        if matches!(call.ret_kind, Ret::Size) && ret > 0 {
            self.lane.counts.bytes.add(ret as u64);
        }
        if self.maker.withheld {
            Outcome::count(
                &mut self.tally.withheld,
                "set-user-id and set-group-id bits not set",
                1,
            );
        }
        if self.maker.stands_in {
            let what = "device nodes not made: empty files are in their place";
            Outcome::count(&mut self.tally.withheld, what, 1);
        }
        if self.maker.small_pages {
            let what = "huge pages not taken: ordinary ones are in their place";
            Outcome::count(&mut self.tally.withheld, what, 1);
        }
        if self.maker.limited {
            Outcome::count(&mut self.tally.withheld, "limits not raised so far", 1);
        }
        if self.maker.copied {
            let what = "content copied that cannot be shared";
            Outcome::count(&mut self.tally.unsupported, what, 1);
        }
        if self.maker.short {
            self.shared.stop(Stopped::Full(self.shared.space.no_buffers()));
            return;
        }
        let mut result = self.examine(batch, action, call, ret);
        // What is left in a stream would be others'.
        let appeals = call.certainty.may_be_repeated() || result.ended_early(call);
        if action.overlapped && appeals && result.may_be_early(call) {
            result = self.appeal(batch, action, call, result);
        }
        if holes::are_asked_for(call) {
            result = holes::excuse(call, result);
        }
        if let Some(excuse) = result.excuse(call) {
            result = self.excuse(action, call, result, excuse);
        }
        if call.own_root
            && result.is_otherwise()
            // A name found when recorded and missing here may be a link.
            && (call.ret == -i64::from(libc::ENOENT)
                || self.maker.follows_from_root(batch, call, &self.shared.options.fill))
        {
            let what = "links that begin at a root of the program's own";
            Outcome::count(&mut self.tally.unsupported, what, 1);
            self.tell(action, Came::Unsupported, || result.told(call));
            return;
        }
        self.conclude(action, call, result);
    }

    /// Writes what a call may have written before it was cut off. Only files are sure to take it.
    fn attempt(&mut self, batch: &Batch, call: &Call) {
        let fill = &self.shared.options.fill;
        if call.stream || mode_of(call.values[0] as i32) != libc::S_IFREG {
            self.maker.attempt(batch, call, fill);
        } else if self.may_take(call).is_ok() {
            self.maker.make(batch, call, &self.shared.options.fill);
        }
    }

    /// Reserves the disk space or memory of a call, more than one call's worth at a time. Fails
    /// with the medium that has too little left.
    fn may_take(&mut self, call: &Call) -> Result<(), Medium> {
        let (bytes, space) = (call.takes, &self.shared.space);
        if let Some(left) = self.granted.checked_sub(bytes) {
            self.granted = left;
            return Ok(());
        }
        if space.take(bytes.saturating_add(GRANT_BYTES), Medium::Either) {
            self.granted += GRANT_BYTES;
            return Ok(());
        }
        let takes = |arg: &Arg| matches!(arg.kind, ArgKind::Fd) && !arg.is(Operand::Source);
        let fds = call.args.iter().zip(call.values).filter(|(arg, _)| takes(arg));
        let mut places = fds.map(|(_, fd)| space.place_of(fd as i32));
        let first = places.next().unwrap_or(Medium::Disk);
        let into = if places.all(|other| other == first) { first } else { Medium::Either };
        if space.take(bytes, into) { Ok(()) } else { Err(into) }
    }

    /// Makes a call with arguments built anew.
    fn make_anew(&mut self, batch: &Batch, action: &Action, call: &Call) -> (i64, u64) {
        let shared = self.shared;
        self.make(action, call, |maker| match call.reopens {
            Some((fd, flags)) => shared.reopen(fd, flags),
            None => maker.make(batch, call, &shared.options.fill),
        })
    }

    fn make(
        &mut self,
        action: &Action,
        call: &Call,
        make: impl FnOnce(&mut Maker) -> i64,
    ) -> (i64, u64) {
        // Keep the mood: the call may be repeated during an appeal.
        let mood = self.lane.mood();
        if action.may_block {
            self.lane.set_mood(Mood::Blocked);
        }
        let before = self.standing();
        let begin = clock::ticks();
        let ret = make(&mut self.maker);
        self.ended_at = clock::ticks();
        // To build its arguments is our own work.
        let made_at = self.maker.made_at().max(begin);
        let ticks = self.ended_at.wrapping_sub(made_at);
        self.note_taken(ticks, made_at.wrapping_sub(begin), before);
        if call.stream || matches!(call.act, Act::Lock | Act::RecordLock { .. }) {
            self.took_ns = None;
        }
        if action.may_block {
            self.lane.set_mood(mood);
        }
        (ret, ticks)
    }

    /// Compares the result with the recorded one.
    fn examine(&mut self, batch: &Batch, action: &Action, call: &Call, ret: i64) -> Made {
        if call.ret < 0 || ret < 0 {
            if call.ret_kind == Ret::Fd && ret >= 0 {
                // Keep the recorded number free.
                descriptors::close(ret as i32);
            }
            return if call.ret == ret { Made::Same } else { Made::Return(ret) };
        }
        match call.ret_kind {
            Ret::Fd if ret != call.ret => {
                let patient = self.patience(action, call.shared_table);
                if descriptors::move_to(ret as i32, call.ret as i32, patient).is_err()
                    || !call.shared_table
                {
                    return Made::Moved(ret);
                }
            }
            Ret::Pid | Ret::Id | Ret::Address => {}
            Ret::Offset if ret != call.ret && is_directory(call.values[0] as i32) => {}
            Ret::Size if ret != call.ret => {
                let list = verify::lists_same_names(batch, call, self.maker.regions(), ret);
                return if list { Made::Same } else { Made::Return(ret) };
            }
            _ if ret != call.ret => return Made::Return(ret),
            _ => {}
        }
        if let Some(made) = self.settle_descriptors(batch, action, call) {
            return made;
        }
        if !self.shared.options.verifies() || call.pieces.is_empty() {
            return Made::Same;
        }
        let owners = self.shared.options.privileged && call.owners;
        let regions = self.maker.regions();
        let room = |piece: &Piece| regions.iter().find(|r| r.holds(piece)).map(Region::bytes);
        match verify::compare(batch, call, room, owners) {
            Verdict::Same => Made::Same,
            Verdict::Unknown => Made::Unknown,
            Verdict::Differ { .. } if call.certainty.has(Reason::Filler) => Made::Unknown,
            Verdict::Differ { what, expected, found } => Made::Data { what, expected, found },
        }
    }

    /// Before a call that must fail because of names: waits until they are as recorded, as an
    /// overlapping call may still have to create or remove them.
    fn wait_for_failure(&mut self, batch: &Batch, action: &Action, call: &Call) {
        let errno = -call.ret as i32;
        if !is_of_names(errno) {
            return;
        }
        let fill = &self.shared.options.fill;
        let maker = &mut self.maker;
        let as_recorded = || maker.names_fail(batch, call, fill, errno);
        self.shared.appeal(self.lane, action.exit, as_recorded);
    }

    /// Moves descriptors returned in memory to their recorded numbers.
    fn settle_descriptors(&self, batch: &Batch, action: &Action, call: &Call) -> Option<Made> {
        let mut pairs = begin::given_descriptors(batch, call, self.maker.regions());
        if call.makes_pair {
            pairs.iter().for_each(|(found, _)| descriptors::size_end(*found));
        }
        if pairs.iter().all(|(found, wanted)| found == wanted) {
            return None;
        }
        // From the highest, so that none lands on one that is still to be moved.
        pairs.sort_by_key(|(found, _)| std::cmp::Reverse(*found));
        let moved = pairs[0];
        let _ = descriptors::move_all(&pairs, self.patience(action, call.shared_table));
        (!call.shared_table).then(|| Made::Data {
            what: "a descriptor".into(),
            expected: moved.1.to_string(),
            found: moved.0.to_string(),
        })
    }

    /// Repeats an overlapping call, which may have come too early, until its result is right or all
    /// calls that it overlapped have ended.
    fn appeal(&mut self, batch: &Batch, action: &Action, call: &Call, first: Made) -> Made {
        let shared = Arc::clone(self.shared);
        let lane = Arc::clone(self.lane);
        let mut last = first;
        shared.appeal(&lane, action.exit, || {
            let (ret, _) = if last.ended_early(call) {
                self.make(action, call, |maker| maker.make_again(call))
            } else {
                self.undo(call, &last);
                self.make_anew(batch, action, call)
            };
            last = self.examine(batch, action, call, ret);
            !last.may_be_early(call)
        });
        // What others took meanwhile counts for nobody.
        self.ended_at = 0;
        last
    }

    /// Moves a file's offset back to where it was before a read.
    fn undo(&self, call: &Call, made: &Made) {
        let read = match made {
            Made::Return(ret) if *ret > 0 => *ret,
            Made::Data { .. } => call.ret,
            _ => return,
        };
        if moves_offset(call) {
            seek(call.values[0] as i32, -read, libc::SEEK_CUR);
        }
    }

    fn conclude(&mut self, action: &Action, call: &Call, made: Made) {
        let counts = &self.lane.counts;
        let came = match &made {
            Made::Same if self.shared.options.verifies() => {
                counts.verified.add(1);
                Came::Verified
            }
            Made::Same | Made::Unknown => {
                counts.unverified.add(1);
                Came::Unverified
            }
            Made::Raced(_) => {
                counts.unverified.add(1);
                Came::Raced
            }
            Made::Unseen(_) => {
                counts.unverified.add(1);
                Came::Unseen
            }
            Made::Return(ret) | Made::Moved(ret) if self.is_unsupported(call, *ret) => {
                let name = format!("{}: {}", call.name, shown(*ret));
                Outcome::count(&mut self.tally.unsupported, &name, 1);
                Came::Unsupported
            }
            Made::Return(_) | Made::Moved(_) | Made::Data { .. } => {
                self.report_call(action, call, &made);
                Came::Mismatch
            }
        };
        self.tell(action, came, || made.told(call));
    }

    /// Logs a call if wanted: the difference, the recorded result and ours.
    fn tell(&self, action: &Action, came: Came, told: impl FnOnce() -> [String; 3]) {
        let Some(about) = &action.about else { return };
        self.shared.tell(Some(self.lane), came, || {
            let [what, expected, found] = told();
            let about = About::clone(about);
            Some(Line { about, came, what, expected, found, at: Duration::ZERO })
        });
    }

    /// Whether the file system or the user just cannot do this.
    fn is_unsupported(&self, call: &Call, ret: i64) -> bool {
        if call.ret < 0 {
            return false;
        }
        let names_owner =
            || call.args.iter().any(|arg| matches!(arg.kind, ArgKind::Uid | ArgKind::Gid));
        match -ret as i32 {
            libc::EOPNOTSUPP | libc::ENOSYS | libc::ENOTTY => true,
            libc::EPERM | libc::EINVAL => !self.shared.options.privileged && names_owner(),
            _ => false,
        }
    }

    fn report_call(&self, action: &Action, call: &Call, made: &Made) {
        let (kind, cause) = match made {
            Made::Return(ret) | Made::Moved(ret) if call.ret >= 0 && *ret >= 0 => {
                (DifferingPart::Return, format!("{}: another result", call.name))
            }
            Made::Return(ret) | Made::Moved(ret) => {
                let class = |ret: i64| if ret < 0 { shown(ret) } else { "success".into() };
                let cause =
                    format!("{}: {} instead of {}", call.name, class(*ret), class(call.ret));
                (DifferingPart::Return, cause)
            }
            Made::Data { what, .. } => (DifferingPart::Data, format!("{}: {what}", call.name)),
            Made::Same | Made::Unknown | Made::Raced(_) | Made::Unseen(_) => return,
        };
        let [_, expected, found] = made.told(call);
        self.report(kind, cause, action, expected, found);
    }

    fn report(
        &self,
        kind: DifferingPart,
        cause: String,
        action: &Action,
        expected: String,
        found: String,
    ) {
        if self.shared.options.verifies() {
            let example = Example { seq: action.seq, path: String::new(), expected, found };
            self.shared.differs(kind, cause, example);
        }
    }
}
