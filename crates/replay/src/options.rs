//! What a user chooses about a replay.

use std::sync::Arc;
use std::time::Duration;

use crate::gate::Gate;
use crate::jail::Powers;

/// How long nothing must move before a replay counts as stuck, unless its options say otherwise.
pub const STUCK: Duration = Duration::from_secs(10);

/// What to do about mismatches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verify {
    /// Compare nothing.
    Off,
    /// Report them.
    Warn,
    /// Stop the replay at the first one.
    Abort,
}

/// What is written in place of bytes that the trace does not hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fill {
    /// Zeros.
    Zeros,
    /// Incompressible bytes, the same in every replay.
    Random,
    /// These bytes, repeated.
    Pattern(Vec<u8>),
}

/// Options of a replay.
#[derive(Clone, Debug)]
pub struct Options {
    /// A call waits for all calls that had ended before it; otherwise only for those of its thread.
    pub overlap: bool,
    /// Operations in flight are made beside the calls, by tasks of their own; otherwise one after the
    /// other, where they were found completed.
    pub in_flight: bool,
    /// What was read of and stored to mapped files is read and written by descriptors, where there are
    /// any; otherwise by mappings.
    pub emulates_mappings: bool,
    /// Speed factor over the recorded pace; `None`: as fast as possible.
    pub speed: Option<f64>,
    /// Tasks compute between calls for as long as the recorded threads did.
    pub computes: bool,
    /// Tasks wait for the outside as long as the recorded threads did.
    pub rests: bool,
    /// What to do about mismatches.
    pub verify: Verify,
    /// What is written in place of bytes that the trace does not hold.
    pub fill: Fill,
    /// The last call to replay.
    pub until: Option<u64>,
    /// Tasks can take the recorded user ids.
    pub privileged: bool,
    /// Capabilities that tasks keep.
    pub powers: Powers,
    /// How long nothing must move before the replay counts as stuck.
    pub stuck_after: Duration,
    /// Who says how far it may go.
    pub gate: Option<Arc<Gate>>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            overlap: true,
            in_flight: true,
            emulates_mappings: false,
            speed: None,
            computes: false,
            rests: false,
            verify: Verify::Warn,
            fill: Fill::Zeros,
            until: None,
            privileged: false,
            powers: Powers::None,
            stuck_after: STUCK,
            gate: None,
        }
    }
}

impl Options {
    /// Whether results are compared.
    pub fn verifies(&self) -> bool {
        self.verify != Verify::Off
    }
}
