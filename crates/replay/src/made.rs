//! What came of a call that was made again, compared with what was recorded.

use syscalls::abi::errno::{self, EPIPE};
use syscalls::shape::operand;
use syscalls::{Act, Operand, Ret};

use crate::batch::Call;
use crate::certainty::Excuse;
use crate::outcome::shown;

/// Result of a replayed call.
pub enum Made {
    /// As recorded.
    Same,
    /// No mismatch found, but the trace does not hold enough to be sure.
    Unknown,
    /// Another return value.
    Return(i64),
    /// Another descriptor number; the descriptor was moved.
    Moved(i64),
    /// Other output bytes.
    Data { what: String, expected: String, found: String },
    /// A mismatch that proves nothing.
    Raced(Box<Made>),
    /// A mismatch on a file that may have been written in ways that are not in the trace.
    Unseen(Box<Made>),
}

impl Made {
    /// Returns what differs, the recorded result, and ours.
    pub fn told(&self, call: &Call) -> [String; 3] {
        let nothing = String::new;
        match self {
            Made::Same | Made::Unknown => [nothing(), shown(call.ret), nothing()],
            Made::Return(ret) | Made::Moved(ret) => [nothing(), shown(call.ret), shown(*ret)],
            Made::Data { what, expected, found } => [what.clone(), expected.clone(), found.clone()],
            Made::Raced(made) | Made::Unseen(made) => made.told(call),
        }
    }

    /// Whether it is a mismatch without excuse.
    pub fn is_otherwise(&self) -> bool {
        matches!(self, Made::Return(_) | Made::Data { .. })
    }

    /// Whether repeating the call may help and is harmless: it failed, or it only looked.
    pub fn may_be_early(&self, call: &Call) -> bool {
        match self {
            Made::Same | Made::Unknown | Made::Moved(_) => false,
            Made::Raced(_) | Made::Unseen(_) => false,
            Made::Return(ret) if *ret < 0 => true,
            Made::Return(_) if call.asks_for_end() || self.ended_early(call) => true,
            Made::Return(_) | Made::Data { .. } => {
                // Asking how many bytes are in a pipe may be repeated, reading them may not.
                let only_looks = !call.stream || !takes_bytes(call);
                call.ret >= 0 && call.reads() && call.ret_kind != Ret::Fd && only_looks
            }
        }
    }

    /// Whether a stream ended before all bytes of a read had come. Others may open it and put the rest there.
    pub fn ended_early(&self, call: &Call) -> bool {
        let Made::Return(ret @ 0..) = self else { return false };
        let may_go_on = !call.leaves_bytes() && !call.messages && call.act != Act::GivePages;
        *ret < call.ret && call.stream && call.reads() && takes_bytes(call) && may_go_on
    }

    /// What it counts as if it is no mismatch although it differs.
    pub fn excuse(&self, call: &Call) -> Option<Excuse> {
        match self {
            // Nobody reads what is written while the last reader leaves, before that or behind it.
            Made::Return(ret) if errno::of_result(*ret) == Some(EPIPE) && call.stream => {
                (call.ret >= 0).then_some(Excuse::Raced)
            }
            Made::Return(..0) => call.certainty.excuse_of_error(),
            Made::Return(_) | Made::Moved(_) | Made::Data { .. } => call.certainty.excuse(),
            _ => None,
        }
    }
}

/// Whether a call reads bytes through a descriptor.
fn takes_bytes(call: &Call) -> bool {
    [Operand::Source, Operand::SourceOrTarget]
        .iter()
        .any(|side| operand(call.args, *side).is_some())
}
