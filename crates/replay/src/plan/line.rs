//! The planner's side of a lane.

use std::collections::VecDeque;
use std::sync::Arc;

use events::record::part;
use events::shape::{Kind, Of};

use super::bytes::Bytes;
use super::copies::{Contested, Numbers};
use super::names::Names;
use super::streams::Flow;
use super::transfers::Known;
use super::waits::Followers;
use crate::batch::{Action, Batch, Call, Ends, Piece, Proof, What};
use crate::lane::Lane;
use crate::order::Index;
use crate::shared::Shared;

/// A task that was made and has not shown up.
pub struct Unborn {
    /// Its id, if that is known.
    pub tid: Option<i64>,
    /// Its lane.
    pub index: Index,
    /// The process that it was made in.
    pub process: u32,
    /// It belongs to that process.
    pub thread: bool,
}

/// Those of one maker, in order.
pub type Spawned = VecDeque<Unborn>;

/// The lane of a task: its id tells which, or, in another pid namespace, the order.
pub fn claim(spawned: &mut Spawned, tid: u32) -> Option<Index> {
    let same = |unborn: &Unborn| unborn.tid == Some(tid.into());
    let at = spawned.iter().position(same).unwrap_or(0);
    spawned.remove(at).map(|unborn| unborn.index)
}

/// Whether a piece is of the bytes that a call moves.
fn is_content(call: &Call, piece: &Piece) -> bool {
    match call.args.get(usize::from(piece.arg)).map(|arg| arg.kind) {
        Some(Kind::Buf(_, Of::Bytes, _)) => true,
        Some(Kind::Buf(_, Of::Iovec, _)) => piece.part == part::CONTENT,
        _ => false,
    }
}

/// What the result of a call tells about its place among others.
#[derive(Default)]
pub struct Told {
    /// The names that it is about.
    pub names: Option<Names>,
    /// The bytes of a file that it is about.
    pub bytes: Option<Bytes>,
    /// A hash of the path of the file of which it got a lock, or a number for the stream that it read
    /// from. Two that share one wait for each other; no harm is done.
    pub turn: Option<u64>,
    /// What it moved through a stream.
    pub flow: Option<Flow>,
}

/// What is known of a lane while its actions are planned.
#[derive(Default)]
pub struct Line {
    /// Where its task takes them from.
    pub lane: Arc<Lane>,
    /// Its process's number in the trace.
    pub process: u32,
    /// It is the first program, whose beginning is still to come.
    pub first: bool,
    /// It has made a call since its program began.
    pub under_way: bool,
    /// What lies ready, and at its end the action that is open in the recording.
    pub batch: Batch,
    /// Whether there is one.
    pub has_open: bool,
    /// Where what lies ready ends.
    ready: Ends,
    /// What its result tells about its place among calls that overlapped it.
    pub told: Told,
    /// Who waits for it because it overlapped them.
    pub followers: Followers,
    /// It is among those of others.
    pub follows: bool,
    /// What it does to the numbers of its table.
    pub numbers: Option<Numbers>,
    /// Numbers that were being closed while this task got its copy of them.
    pub contested: Vec<Contested>,
    /// Open files that it used last.
    pub known: Known,
    /// Where it is among the lanes that have something open.
    pub busy_at: usize,
    /// The count of opened actions when it was opened.
    pub opened_at: u64,
    /// Its call that makes a task returns then.
    pub returning: Option<u64>,
    /// Actions handed over.
    pub count: u64,
    /// Of those, how many had ended by now in the recording.
    pub finished: u64,
    /// When its last call began.
    pub last_enter: u64,
    /// Tasks that it made and that have not shown up: their ids, if known, and their lanes.
    pub spawned: Spawned,
    /// It is in a user namespace of its own: owners have other numbers there.
    pub foreign: bool,
    /// It has rules of its own about what it may do.
    pub confined: bool,
    /// Nothing more comes.
    pub ended: bool,
}

impl Line {
    /// The action that is open.
    fn open(&self) -> Option<&Action> {
        self.batch.actions.last().filter(|_| self.has_open)
    }

    fn open_mut(&mut self) -> Option<&mut Action> {
        self.batch.actions.last_mut().filter(|_| self.has_open)
    }

    /// Whether what is open is of a kind.
    pub fn is_open(&self, kind: impl FnOnce(&What) -> bool) -> bool {
        self.open().is_some_and(|action| kind(&action.what))
    }

    /// Says what it is that is open.
    pub fn open_what(&mut self, what: What) {
        if let Some(action) = self.open_mut() {
            action.what = what;
        }
    }

    /// Opens an action: the call that was packed last, unless told otherwise. It waits for the lanes
    /// that were added since the one before.
    #[inline]
    pub fn begin(&mut self) -> &mut Action {
        let waits = self.ready.waits()..self.batch.waits.len() as u32;
        self.has_open = true;
        let action = self.batch.add_action();
        action.waits = waits;
        action
    }

    /// What is open waits for one more lane, or for more of it.
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

    /// What is open waits for no other lane.
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

    /// When what is open began.
    pub fn open_since(&self) -> Option<u64> {
        self.open().map(|action| action.enter)
    }

    /// When what is open ended, if it did.
    pub fn open_until(&self) -> Option<u64> {
        self.open().map(|action| action.exit)
    }

    /// The call that is open.
    fn open_call(&self) -> Option<&Call> {
        match self.open()?.what {
            What::Call(at) => self.batch.calls.get(at as usize),
            _ => None,
        }
    }

    /// The bytes that the call that is open moved, if the trace holds them all.
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

    /// What an argument of the call that is open gave.
    pub fn came_out(&self, arg: u8) -> Option<&[u8]> {
        let mut pieces = self.batch.pieces_of(self.open_call()?).iter();
        self.batch.one_stretch(pieces.find(|piece| piece.arg == arg && piece.out)?)
    }

    /// If the call that is open comes out otherwise, that proves no more than this.
    pub fn prove_only(&mut self, proof: Proof) {
        if self.open_call().is_some()
            && let Some(call) = self.batch.calls.last_mut()
            && call.proof != Proof::Never
        {
            call.proof = proof;
        }
    }

    /// The call that is open is about names that others changed at the same time.
    pub fn race_for_names(&mut self) {
        if self.open_call().is_some()
            && let Some(call) = self.batch.calls.last_mut()
        {
            call.contested = true;
        }
    }

    /// The descriptor of the stream at which the call that is open waits.
    pub fn at_stream(&self) -> Option<i32> {
        let call = self.open_call()?;
        let by_fd = call.args.first().is_some_and(|arg| matches!(arg.kind, Kind::Fd));
        (call.stream && by_fd).then_some(call.values[0] as i32)
    }

    /// The call that is open is not made.
    pub fn take_back(&mut self) {
        if let Some(action) = self.open_mut() {
            action.what = What::Place(Box::default());
        }
    }

    /// Whether what is open ends then.
    pub fn ends_at(&self, exit: u64) -> bool {
        self.open().is_some_and(|action| action.exit == exit) || self.returning == Some(exit)
    }

    /// What is open lies ready. `overlapped`: others were open at the same time.
    pub fn make_ready(&mut self, overlapped: bool) {
        if let Some(action) = self.open_mut() {
            action.overlapped |= overlapped;
            self.has_open = false;
            self.told = Told::default();
            self.numbers = None;
            self.count += 1;
            self.ready = self.batch.ends();
        }
    }

    /// Hands over what lies ready.
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
        self.lane.push(batch);
    }
}
