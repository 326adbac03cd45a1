//! The planner's side of a lane.

use std::collections::VecDeque;
use std::sync::Arc;

use model::contents::is_out;
use syscalls::record::part;
use syscalls::shape::{ArgKind, Of};
use trace::event;

use super::claims::Claims;
use super::claims::numbers::Closed;
use super::known_files::Known;
use crate::batch::{Action, Batch, Call, Ends, Lane, Piece, What};
use crate::certainty::{Excuse, Reason};
use crate::order::Index;
use crate::shared::Shared;

/// A task that was created and has not shown up yet.
pub struct Unborn {
    /// Its id, if known.
    pub tid: Option<i64>,
    /// Its lane.
    pub index: Index,
    /// The process that created it.
    pub process: u32,
    /// It is a thread of that process.
    pub thread: bool,
}

/// Unborn tasks of one maker, in order.
pub type Spawned = VecDeque<Unborn>;

/// Takes the lane of a task: found by its id, or in another pid namespace by the order.
pub fn claim(spawned: &mut Spawned, tid: u32) -> Option<Index> {
    let same = |unborn: &Unborn| unborn.tid == Some(tid.into());
    let at = spawned.iter().position(same).unwrap_or(0);
    spawned.remove(at).map(|unborn| unborn.index)
}

/// Whether a piece holds bytes that the call moves.
fn is_content(call: &Call, piece: &Piece) -> bool {
    match call.args.get(usize::from(piece.arg)).map(|arg| arg.kind) {
        Some(ArgKind::Buf(_, Of::Bytes, _)) => true,
        Some(ArgKind::Buf(_, Of::Iovec, _)) => piece.part == part::CONTENT,
        _ => false,
    }
}

/// The planner's state of a lane.
#[derive(Default)]
pub struct Line {
    /// The lane, from which its task takes batches.
    pub lane: Arc<Lane>,
    /// Number of its process in the trace.
    pub process: u32,
    /// The first program, which has not started yet.
    pub first: bool,
    /// It has made a call since its program started.
    pub under_way: bool,
    /// Closed actions, followed by the open one if there is one.
    pub batch: Batch,
    /// Whether the last action of `batch` is open.
    pub has_open: bool,
    /// End of the closed actions in `batch`.
    ready: Ends,
    /// What the open call claims.
    pub claims: Claims,
    /// Numbers that were being closed while this task copied them.
    pub contested: Vec<Closed>,
    /// Recently used open files.
    pub known: Known,
    /// The planner's count of opened actions at its last open.
    pub opened_at: u64,
    /// When its call that creates a task returns.
    pub returning: Option<u64>,
    /// Number of closed actions.
    pub count: u64,
    /// Number of them that have ended in the recording.
    pub finished: u64,
    /// Start of its last call.
    pub last_enter: u64,
    /// What it has computed since its last action, in nanoseconds.
    pub computed_ns: u64,
    /// For how long it has waited for the outside since then, in nanoseconds.
    pub rested_ns: u64,
    /// Tasks that it created and that have not shown up.
    pub spawned: Spawned,
    /// In its own user namespace: owners have other ids there.
    pub foreign: bool,
    /// Has restrictions of its own (Landlock).
    pub confined: bool,
    /// Nothing more comes.
    pub ended: bool,
}

impl Line {
    /// Returns the open action.
    fn open(&self) -> Option<&Action> {
        self.batch.actions.last().filter(|_| self.has_open)
    }

    fn open_mut(&mut self) -> Option<&mut Action> {
        self.batch.actions.last_mut().filter(|_| self.has_open)
    }

    /// Whether there is an open action of this kind.
    pub fn is_open(&self, kind: impl FnOnce(&What) -> bool) -> bool {
        self.open().is_some_and(|action| kind(&action.what))
    }

    /// Sets what the open action does.
    pub fn open_what(&mut self, what: What) {
        if let Some(action) = self.open_mut() {
            action.what = what;
        }
    }

    /// Opens an action: by default the call that was packed last. It waits for the lanes added
    /// since the previous action.
    #[inline]
    pub fn begin(&mut self) -> &mut Action {
        let waits = self.ready.waits()..self.batch.waits.len() as u32;
        self.has_open = true;
        let action = self.batch.add_action();
        action.waits = waits;
        action
    }

    /// Returns the action that was opened last.
    pub fn last_action(&mut self) -> &mut Action {
        if self.batch.actions.is_empty() {
            self.batch.add_action();
        }
        let last = self.batch.actions.len() - 1;
        &mut self.batch.actions[last]
    }

    /// Makes the open action wait for one more lane, or for a higher count of it.
    pub fn also_wait(&mut self, wait: (Arc<Lane>, u64)) {
        if !self.has_open {
            return;
        }
        let own = &mut self.batch.waits[self.ready.waits() as usize..];
        match own.iter_mut().find(|(lane, _)| Arc::ptr_eq(lane, &wait.0)) {
            Some((_, count)) => *count = wait.1.max(*count),
            None => {
                self.batch.waits.push(wait);
                self.set_waits();
            }
        }
    }

    /// Removes all waits of the open action.
    pub fn wait_for_nobody(&mut self) {
        if self.has_open {
            self.batch.waits.truncate(self.ready.waits() as usize);
            self.set_waits();
        }
    }

    fn set_waits(&mut self) {
        let waits = self.ready.waits()..self.batch.waits.len() as u32;
        if let Some(action) = self.open_mut() {
            action.waits = waits;
        }
    }

    /// Start of the open action.
    pub fn open_since(&self) -> Option<u64> {
        self.open().map(|action| action.enter)
    }

    /// End of the open action.
    pub fn open_until(&self) -> Option<u64> {
        self.open().map(|action| action.exit)
    }

    /// Returns the open action's call.
    fn open_call(&self) -> Option<&Call> {
        match self.open()?.what {
            What::Call(at) | What::Memory { call: at, .. } => self.batch.calls.get(at as usize),
            _ => None,
        }
    }

    /// Makes the last action's call once more, if that is made for its time alone and is the same.
    pub fn makes_again(&mut self, call: &event::Call, exit: u64) -> bool {
        let (false, Some(action)) = (self.has_open, self.batch.actions.last_mut()) else {
            return false;
        };
        let What::Timed { call: packed, again } = &mut action.what else { return false };
        let packed = &self.batch.calls[*packed as usize];
        let given = packed.args.len();
        if packed.nr != call.nr
            || packed.values[..given] != call.args[..given]
            || !call.data.iter().all(is_out)
        {
            return false;
        }
        let computes = &mut self.batch.computes;
        if again.start == again.end {
            *again = computes.len() as u32..computes.len() as u32;
        }
        computes.push(std::mem::take(&mut self.computed_ns));
        again.end += 1;
        action.exit = action.exit.max(exit);
        true
    }

    /// Bytes that the open call moved, if the trace holds them all.
    pub fn content(&self) -> Option<Vec<&[u8]>> {
        let call = self.open_call()?;
        let mut all = Vec::new();
        for piece in self.batch.pieces_of(call).iter().filter(|piece| is_content(call, piece)) {
            if self.batch.stored_len(piece) as u64 != piece.true_len {
                return None;
            }
            all.extend(self.batch.stretches(piece));
        }
        Some(all)
    }

    /// Output of an argument of the open call.
    pub fn came_out(&self, arg: u8) -> Option<&[u8]> {
        let mut pieces = self.batch.pieces_of(self.open_call()?).iter();
        self.batch.one_stretch(pieces.find(|piece| piece.arg == arg && piece.out)?)
    }

    /// A result of the open call that differs proves less, for this reason if there is one.
    pub fn weaken(&mut self, reason: Option<Reason>) {
        if reason.is_some()
            && self.open_call().is_some()
            && let Some(call) = self.batch.calls.last_mut()
        {
            call.certainty = call.certainty.weakened(reason);
        }
    }

    /// Whether the open call's result depends on others that overlapped it.
    pub fn is_raced(&self) -> bool {
        let call = self.open_call().and(self.batch.calls.last());
        call.is_some_and(|call| call.certainty.excuse() == Some(Excuse::Raced))
    }

    /// Descriptor of the stream on which the open call waits.
    pub fn at_stream(&self) -> Option<i32> {
        let call = self.open_call()?;
        let by_fd = call.args.first().is_some_and(|arg| matches!(arg.kind, ArgKind::Fd));
        (call.stream && by_fd).then_some(call.values[0] as i32)
    }

    /// Replaces the open call with nothing.
    pub fn take_back(&mut self) {
        if let Some(action) = self.open_mut() {
            action.what = What::Place(Box::default());
        }
    }

    /// Whether the open action ends at `exit`.
    pub fn ends_at(&self, exit: u64) -> bool {
        self.open().is_some_and(|action| action.exit == exit) || self.returning == Some(exit)
    }

    /// Closes the open action. `overlapped`: other actions were open at the same time.
    pub fn make_ready(&mut self, overlapped: bool) {
        if let Some(action) = self.open_mut() {
            action.overlapped |= overlapped;
            self.has_open = false;
            self.claims = Claims::default();
            self.count += 1;
            self.ready = self.batch.ends();
        }
    }

    /// Hands over all closed actions.
    pub fn flush(&mut self, shared: &Shared) {
        if self.batch.actions.len() == usize::from(self.has_open) {
            return;
        }
        let mut rest = shared.empty_batch();
        if self.has_open {
            self.batch.move_last(self.ready, &mut rest);
        }
        self.ready = Ends::default();
        let mut batch = std::mem::replace(&mut self.batch, rest);
        batch.charged = batch.weigh();
        shared.charge(batch.charged);
        let enter = batch.actions.first().map_or(u64::MAX, |first| first.enter);
        self.lane.push(batch, enter);
    }
}
