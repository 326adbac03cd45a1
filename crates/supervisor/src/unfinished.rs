//! What goes on between two turns of the loop, because something else must be waited for.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Instant;

use kin::Relation;

use crate::errand::Errand;
use crate::message::Mailbox;
use crate::place::{Plan, Refusal};
use crate::request::Request;
use crate::tracee::Tracee;

/// A thread that reported a change of its user and waits for an answer.
pub(crate) struct Move {
    pub(crate) request: Request,
    pub(crate) tid: i32,
    /// Read from its slot when it asked: the slot may be freed before the thread continues.
    pub(crate) process: u32,
    pub(crate) generation: u32,
    /// A helper thread of its process, and that thread's socket.
    pub(crate) socket: Option<(i32, i32)>,
    pub(crate) step: Step,
}

pub(crate) enum Step {
    Look(Errand<Sight>),
    Send(Delivery),
}

/// What was found out about a thread.
pub(crate) struct Sight {
    pub(crate) same_ipc: bool,
    pub(crate) relation: Relation,
}

/// A message to the agent that is to use a slot.
pub(crate) struct Delivery {
    pub(crate) slot: usize,
    pub(crate) to: Mailbox,
    pub(crate) errand: Errand<io::Result<()>>,
}

impl Delivery {
    pub(crate) fn new(slot: usize, to: Mailbox) -> Delivery {
        Delivery { slot, to, errand: Errand::new() }
    }
}

/// An image into which the agent is being placed.
pub(crate) struct Placing {
    pub(crate) tracee: Tracee,
    pub(crate) work: Work,
}

pub(crate) enum Work {
    Goes(Receiver<Result<(), Refusal>>),
    /// Not begun: too many others are waiting for a server.
    Waits {
        plan: Arc<Plan>,
        since: Instant,
    },
    /// Its bootstrap waits for the message.
    Sends(Delivery),
}
