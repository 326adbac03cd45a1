//! What a call claims of the resources that it shares with others, and what its result shows of
//! them. Claims know nothing of other calls: `conflict.rs` compares them.

pub mod bytes;
pub mod listings;
pub mod locks;
pub mod names;
pub mod numbers;
pub mod queues;

use bytes::Bytes;
use locks::Lock;
use names::Names;
use numbers::Numbers;
use queues::Flow;

/// All claims of a call; most have one.
#[derive(Default)]
pub struct Claims {
    /// Names that it found, missed or changed.
    pub names: Option<Names>,
    /// Bytes of a file, its end, or the offset of an open file.
    pub bytes: Option<Bytes>,
    /// The file to which it copied these bytes.
    pub copies_to: Option<u64>,
    /// The clock of doubts when it began.
    pub doubts: u64,
    /// What it does with the locks of a file.
    pub lock: Option<Lock>,
    /// Bytes that it moved through a pipe or socket pair.
    pub flow: Option<Flow>,
    /// Numbers of its descriptor table that it opened or closed.
    pub numbers: Option<Numbers>,
    /// The number by which an operation in flight got its file.
    pub uses: Option<i32>,
}

impl Claims {
    /// Whether it claims nothing but bytes of a queue.
    pub fn are_of_queue(&self) -> bool {
        let Claims { names, bytes, copies_to: _, doubts: _, lock, flow, numbers, uses } = self;
        let others = names.is_some() || bytes.is_some() || lock.is_some() || numbers.is_some();
        flow.is_some() && uses.is_none() && !others
    }
}
