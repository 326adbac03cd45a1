//! Makes the planned actions on the reference kernel, in a random order that the plan's waits allow.
//! It does what a task does (`actor.rs`): it repeats what may have come too early, waits for names
//! before calls that must fail, and asks a call's certainty what a result that differs counts as.

use std::fmt;
use std::sync::Arc;

use syscalls::Ret;

use super::chance::Chance;
use super::history::{History, Recorded};
use super::kernel::{Came, Done, Kernel, Op};
use super::spelled;
use crate::batch::{Action, Batch, Call, Lane, What};
use crate::execute::is_of_names;
use crate::made::Made;
use crate::treatment::makes_name;
use crate::verify::{self, Verdict};

/// What is wrong with a plan.
pub enum Fault {
    /// A result differs that was certain.
    Mismatch(String),
    /// The files that are left differ, and nothing was in doubt.
    Files(String),
    /// No task can go on.
    Stuck,
    /// A call of the recording is made in another way.
    Unplanned(String),
}

impl fmt::Display for Fault {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Mismatch(what) => write!(to, "another result, although it was certain: {what}"),
            Fault::Files(what) => write!(to, "other files: {what}"),
            Fault::Stuck => write!(to, "no task can go on"),
            Fault::Unplanned(what) => write!(to, "not planned as a call: {what}"),
        }
    }
}

enum Doing {
    /// It begins its next action, or is blocked in it.
    Next,
    /// It waits for names, before a call that must fail because of them.
    Names,
    /// It repeats a call that may have come too early.
    Repeats(Made),
    /// The descriptors that it got wait for their own numbers.
    Moves(Vec<(i32, i32)>),
}

struct Task {
    lane: Arc<Lane>,
    batches: Vec<Batch>,
    /// The next action: its batch, and its place there.
    next: (usize, usize),
    done: u64,
    table: usize,
    doing: Doing,
    blocked: bool,
}

impl Task {
    fn new(lane: &Arc<Lane>, table: usize) -> Task {
        let batches: Vec<Batch> = std::iter::from_fn(|| lane.take()).collect();
        Task {
            lane: Arc::clone(lane),
            batches,
            next: (0, 0),
            done: 0,
            table,
            doing: Doing::Next,
            blocked: false,
        }
    }

    fn action(&self) -> Option<(&Batch, &Action)> {
        let batch = self.batches.get(self.next.0)?;
        Some((batch, batch.actions.get(self.next.1)?))
    }

    fn finish(&mut self) {
        self.done += 1;
        self.doing = Doing::Next;
        self.next.1 += 1;
        if self.next.1 >= self.batches[self.next.0].actions.len() {
            self.next = (self.next.0 + 1, 0);
        }
    }

    fn appeals(&self) -> bool {
        !matches!(self.doing, Doing::Next)
    }
}

/// What became of a step.
#[derive(PartialEq, Eq, Debug)]
enum Step {
    /// It cannot go on.
    Stays,
    Moves,
    /// The action is done.
    Ends,
}

pub struct Player<'a> {
    history: &'a History,
    pub kernel: Kernel,
    tasks: Vec<Task>,
    /// Calls that were made.
    pub made: u64,
    /// Those of them whose result could have been excused.
    pub uncertain: u64,
    pub steps: u64,
}

/// Lowest number where descriptors wait for their own ones.
const WAITING: i32 = 1000;
/// Longest chain of waiting tasks that is followed, as in `shared.rs`.
const WAITERS_MAX: usize = 4;

impl<'a> Player<'a> {
    pub fn new(history: &'a History, first: &Arc<Lane>) -> Player<'a> {
        let tasks = vec![Task::new(first, 0)];
        Player { history, kernel: history.before.clone(), tasks, made: 0, uncertain: 0, steps: 0 }
    }

    /// Makes all actions.
    pub fn play(&mut self, chance: &mut Chance) -> Result<(), Fault> {
        loop {
            let count = self.tasks.len();
            let first = chance.below(count);
            let mut moved = false;
            for at in 0..count {
                if self.step((first + at) % count, false)? != Step::Stays {
                    moved = true;
                    break;
                }
            }
            if moved {
                self.steps += 1;
                continue;
            }
            let left = |task: &Task| task.action().is_some();
            if !self.tasks.iter().any(left) {
                return Ok(());
            }
            // Nothing moves: those that repeat a call give up, one after the other.
            let appeals: Vec<usize> =
                (0..count).filter(|task| self.tasks[*task].appeals()).collect();
            if appeals.is_empty() {
                return Err(Fault::Stuck);
            }
            let task = chance.pick(&appeals);
            self.step(task, true)?;
        }
    }

    fn step(&mut self, task: usize, gives_up: bool) -> Result<Step, Fault> {
        let kernel_of = self.tasks[task].table;
        let Some((batch, action)) = self.tasks[task].action() else { return Ok(Step::Stays) };
        if !self.tasks[task].appeals() && self.awaited(task).is_some() {
            return Ok(Step::Stays);
        }
        let step = match &action.what {
            What::Call(at) => {
                let call = batch.calls[*at as usize].clone();
                let (overlapped, exit, seq) = (action.overlapped, action.exit, action.seq);
                let ended = gives_up || self.all_ended_before(task, exit);
                self.call(task, &call, (overlapped, seq), ended)?
            }
            What::Spawn(spawn) => {
                let (lane, shares) =
                    (Arc::clone(&spawn.lane), spawn.flags as i32 & libc::CLONE_FILES);
                let table = match shares {
                    0 => self.kernel.copy_table(kernel_of),
                    _ => kernel_of,
                };
                self.tasks.push(Task::new(&lane, table));
                Step::Ends
            }
            What::Close(all) => {
                let all = all.to_vec();
                all.iter().for_each(|fd| _ = self.kernel.close(kernel_of, *fd));
                Step::Ends
            }
            What::Become(_) => Step::Ends,
            _ => return Err(Fault::Unplanned(format!("action {}", action.seq))),
        };
        if step == Step::Ends {
            self.tasks[task].finish();
        }
        Ok(step)
    }

    /// The task that one waits for, and the count that it must reach.
    fn awaited(&self, task: usize) -> Option<(Option<usize>, u64)> {
        let (batch, action) = self.tasks[task].action()?;
        let waits = &batch.waits[action.waits.start as usize..action.waits.end as usize];
        waits.iter().find_map(|(lane, count)| {
            let other = self.tasks.iter().position(|task| Arc::ptr_eq(&task.lane, lane));
            let done = other.map_or(0, |other| self.tasks[other].done);
            (done < *count).then_some((other, *count))
        })
    }

    /// As in `shared.rs`: all others have ended what began before `exit`, repeat a call as well, or
    /// wait for this task.
    fn all_ended_before(&self, mine: usize, exit: u64) -> bool {
        (0..self.tasks.len()).all(|other| {
            let task = &self.tasks[other];
            let begins = task.action().map_or(u64::MAX, |(_, action)| action.enter);
            other == mine || begins >= exit || task.appeals() || self.waits_for(other, mine)
        })
    }

    fn waits_for(&self, task: usize, mine: usize) -> bool {
        let mut who = task;
        for _ in 0..WAITERS_MAX {
            match self.awaited(who) {
                Some((Some(next), _)) if next == mine => return true,
                Some((Some(next), _)) if !self.tasks[next].appeals() => who = next,
                _ => return false,
            }
        }
        false
    }

    fn call(
        &mut self,
        task: usize,
        call: &Call,
        (overlapped, seq): (bool, u64),
        ended: bool,
    ) -> Result<Step, Fault> {
        let history = self.history;
        let recorded = &history.calls[seq as usize];
        let table = self.tasks[task].table;
        let doing = std::mem::replace(&mut self.tasks[task].doing, Doing::Next);
        let errno = -call.ret as i32;
        if let Doing::Moves(moves) = doing {
            let left = self.renumber(table, moves);
            if left.is_empty() {
                return Ok(self.count(call));
            }
            if !ended {
                self.tasks[task].doing = Doing::Moves(left);
                return Ok(Step::Stays);
            }
            return self.conclude((task, seq), call, recorded, Made::Moved(call.ret));
        }
        let waits = matches!(doing, Doing::Next | Doing::Names);
        let by_names = overlapped && call.ret < 0 && is_of_names(errno);
        if waits && by_names && !ended && !names_fail(&self.kernel, call, &recorded.op, errno) {
            let is_new = matches!(doing, Doing::Next) && !self.tasks[task].blocked;
            self.tasks[task].doing = Doing::Names;
            return Ok(if is_new { Step::Moves } else { Step::Stays });
        }
        let repeats = matches!(doing, Doing::Repeats(_));
        if let Doing::Repeats(made) = &doing {
            self.undo(table, call, recorded, made);
        }
        let stream = call.stream.then_some(call.ret.max(0) as usize);
        let came = self.kernel.make((task, table), &recorded.op, false, stream);
        let Came::Done(done) = came else {
            self.tasks[task].doing = doing;
            self.tasks[task].blocked = true;
            return Ok(Step::Stays);
        };
        self.tasks[task].blocked = false;
        let made = match self.examine(task, call, recorded, done, overlapped) {
            Ok(made) => made,
            // Its number is in use.
            Err(moves) => {
                self.tasks[task].doing = moves;
                return Ok(Step::Moves);
            }
        };
        let may = overlapped && call.certainty.may_be_repeated() && made.may_be_early(call);
        if may && !(repeats && ended) {
            self.tasks[task].doing = Doing::Repeats(made);
            return Ok(if repeats { Step::Stays } else { Step::Moves });
        }
        self.conclude((task, seq), call, recorded, made)
    }

    /// Compares a result with the recorded one.
    fn examine(
        &mut self,
        task: usize,
        call: &Call,
        recorded: &Recorded,
        done: Done,
        overlapped: bool,
    ) -> Result<Made, Doing> {
        let (ret, table) = (done.ret, self.tasks[task].table);
        if call.ret < 0 || ret < 0 {
            if call.ret_kind == Ret::Fd && ret >= 0 {
                self.kernel.close(table, ret as i32);
            }
            return Ok(if call.ret == ret { Made::Same } else { Made::Return(ret) });
        }
        let mut moves = Vec::new();
        if call.ret_kind == Ret::Fd {
            moves.push((ret as i32, call.ret as i32));
        } else if ret != call.ret {
            return Ok(Made::Return(ret));
        }
        if recorded.op == Op::Pipe {
            let numbers = |bytes: &[u8]| {
                let (words, _) = bytes.as_chunks::<4>();
                words.iter().map(|word| i32::from_le_bytes(*word)).collect::<Vec<_>>()
            };
            moves.extend(numbers(&done.out).into_iter().zip(numbers(&recorded.done.out)));
        }
        moves.retain(|(found, wanted)| found != wanted);
        let away: Vec<(i32, i32)> = moves
            .iter()
            .zip(WAITING + 2 * task as i32..)
            .map(|((found, wanted), away)| {
                self.kernel.renumber(table, *found, away);
                (away, *wanted)
            })
            .collect();
        let left = self.renumber(table, away);
        if !left.is_empty() {
            let waits = overlapped && call.shared_table;
            return if waits { Err(Doing::Moves(left)) } else { Ok(Made::Moved(ret)) };
        }
        let found = spelled::output(&recorded.op, &done);
        Ok(match verify::compare(self.batch_of(task), call, |_| Some(&found[..]), true) {
            Verdict::Same => Made::Same,
            Verdict::Unknown => Made::Unknown,
            Verdict::Differ { what, expected, found } => Made::Data { what, expected, found },
        })
    }

    /// Gives descriptors their numbers, as far as these are free. Returns the others.
    fn renumber(&mut self, table: usize, moves: Vec<(i32, i32)>) -> Vec<(i32, i32)> {
        let mut left = Vec::new();
        for (from, to) in moves {
            match self.kernel.open_of(table, to) {
                None => self.kernel.renumber(table, from, to),
                Some(_) => left.push((from, to)),
            }
        }
        left
    }

    fn batch_of(&self, task: usize) -> &Batch {
        &self.tasks[task].batches[self.tasks[task].next.0]
    }

    /// Moves an offset back to where it was before a read that is repeated.
    fn undo(&mut self, table: usize, call: &Call, recorded: &Recorded, made: &Made) {
        let read = match made {
            Made::Return(ret) if *ret > 0 => *ret,
            Made::Data { .. } => call.ret,
            _ => return,
        };
        if let Some(fd) = moves_offset(&recorded.op) {
            self.kernel.seek_by(table, fd, -read);
        }
    }

    /// A result counts.
    fn conclude(
        &mut self,
        (task, seq): (usize, u64),
        call: &Call,
        recorded: &Recorded,
        made: Made,
    ) -> Result<Step, Fault> {
        let differs = made.is_otherwise() || matches!(made, Made::Moved(_));
        if differs && made.excuse(call).is_none() {
            let [what, expected, found] = made.told(call);
            return Err(Fault::Mismatch(format!("call {seq}: {what} {expected} {found}")));
        }
        if differs {
            let table = self.tasks[task].table;
            let ret = match made {
                Made::Return(ret) => ret.max(0),
                _ => call.ret,
            };
            if let (Op::Seek { fd, .. }, 0..) = (&recorded.op, call.ret) {
                self.kernel.seek_to(table, *fd, call.ret as u64);
            } else if let Some(fd) = moves_offset(&recorded.op) {
                self.kernel.seek_by(table, fd, call.ret.max(0) - ret);
            }
            if call.ret_kind == Ret::Fd
                && call.ret >= 0
                && self.kernel.open_of(table, call.ret as i32).is_none()
            {
                self.kernel.put_placeholder(table, call.ret as i32);
            }
        }
        Ok(self.count(call))
    }

    fn count(&mut self, call: &Call) -> Step {
        self.made += 1;
        self.uncertain += u64::from(call.certainty.excuse().is_some());
        Step::Ends
    }
}

/// The descriptor whose own offset a call moves.
fn moves_offset(op: &Op) -> Option<i32> {
    match op {
        Op::Read { fd, at: None, .. } | Op::Write { fd, at: None, .. } => Some(*fd),
        _ => None,
    }
}

/// As in `execute/names.rs`: whether the names would now cause the recorded error.
fn names_fail(kernel: &Kernel, call: &Call, op: &Op, errno: i32) -> bool {
    let (first, last) = match op {
        Op::Open { path, .. }
        | Op::StatPath { path }
        | Op::CutPath { path, .. }
        | Op::MakeDirectory { path }
        | Op::RemoveDirectory { path }
        | Op::Remove { path }
        | Op::Link { path, .. }
        | Op::ReadLink { path } => (path, path),
        Op::Rename { from, to } | Op::HardLink { from, to } => (from, to),
        _ => return true,
    };
    let above = &last[..last.rfind('/').unwrap_or(0)];
    match errno {
        libc::EEXIST => kernel.is_there(last),
        libc::ENOTEMPTY => kernel.is_filled(last),
        _ if !makes_name(call.act, call.args) => !kernel.is_there(last),
        _ => first != last && !kernel.is_there(first) || !kernel.is_there(above),
    }
}
