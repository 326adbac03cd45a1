//! The planner's side of a lane.

use std::collections::VecDeque;
use std::sync::Arc;

use super::ends::End;
use super::names::Names;
use crate::batch::{Action, Batch, Stored, What};
use crate::lane::Lane;
use crate::order::Index;
use crate::shared::Shared;

/// Tasks that were made and have not shown up: their ids, if known, and their lanes.
pub type Spawned = VecDeque<(Option<i64>, Index)>;

/// The lane of a task: its id tells which, or, in another pid namespace, the order.
pub fn claim(spawned: &mut Spawned, tid: u32) -> Option<Index> {
    let same = |spawned: &(Option<i64>, Index)| spawned.0 == Some(tid.into());
    let at = spawned.iter().position(same).unwrap_or(0);
    spawned.remove(at).map(|(_, index)| index)
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
    /// What lies ready.
    pub batch: Batch,
    /// The action that is open in the recording.
    pub action: Option<Action>,
    /// The names, and the end of a file, that it is about.
    pub told: (Option<Names>, Option<End>),
    /// The memory that it needs.
    pub open: Batch,
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
    /// Nothing more comes.
    pub ended: bool,
}

impl Line {
    /// Whether what is open is of a kind.
    pub fn is_open(&self, kind: impl FnOnce(&What) -> bool) -> bool {
        self.action.as_ref().is_some_and(|action| kind(&action.what))
    }

    /// Says what it is that is open.
    pub fn open_what(&mut self, what: What) {
        if let Some(action) = &mut self.action {
            action.what = what;
        }
    }

    /// What is open waits for one more lane.
    pub fn also_wait(&mut self, wait: (Arc<Lane>, u64)) {
        if let Some(action) = &mut self.action {
            self.open.waits.push(wait);
            action.waits = 0..self.open.waits.len() as u32;
        }
    }

    /// What is open waits for no other lane.
    pub fn wait_for_nobody(&mut self) {
        if let Some(action) = &mut self.action {
            self.open.waits.clear();
            action.waits = 0..0;
        }
    }

    /// When what is open began.
    pub fn open_since(&self) -> Option<u64> {
        self.action.as_ref().map(|action| action.enter)
    }

    /// Whether what is open ends then.
    pub fn ends_at(&self, exit: u64) -> bool {
        self.action.as_ref().is_some_and(|action| action.exit == exit)
            || self.returning == Some(exit)
    }

    /// Adds the open action to what lies ready.
    pub fn add(&mut self, mut action: Action) {
        let (batch, open) = (&mut self.batch, &mut self.open);
        let shift = |range: &mut std::ops::Range<u32>, by: usize| {
            *range = range.start + by as u32..range.end + by as u32;
        };
        shift(&mut action.waits, batch.waits.len());
        batch.waits.append(&mut open.waits);
        if let What::Call(call) = &mut action.what {
            shift(&mut call.pieces, batch.pieces.len());
            for mut piece in open.pieces.drain(..) {
                match &mut piece.stored {
                    Stored::Bytes(range) => shift(range, batch.bytes.len()),
                    Stored::Blobs(range) => shift(range, batch.blobs.len()),
                }
                batch.pieces.push(piece);
            }
            batch.bytes.extend_from_slice(&open.bytes);
            batch.blobs.append(&mut open.blobs);
            batch.blob_bytes += open.blob_bytes;
        }
        open.clear();
        batch.actions.push(action);
        self.count += 1;
    }

    /// Hands over what lies ready.
    pub fn flush(&mut self, shared: &Shared) {
        if !self.batch.actions.is_empty() {
            let batch = std::mem::replace(&mut self.batch, shared.empty_batch());
            shared.charge(batch.held_bytes());
            self.lane.push(batch);
        }
    }
}
