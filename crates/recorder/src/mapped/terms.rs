//! What is recorded of memory in which files are mapped, and how often it is looked at.

use std::sync::Arc;
use std::time::Duration;

use crate::policy::DataRules;
use crate::stored::Spare;

/// How often to collect without being asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Every {
    /// As often as the program hardly notices.
    #[default]
    Auto,
    /// After this time.
    Time(Duration),
}

/// What is recorded of the memory.
pub(crate) struct Terms {
    /// What is kept of the bytes, by path.
    pub rules: DataRules,
    /// Most bytes kept of what one event tells.
    pub data_max: u64,
    pub every: Every,
    /// What is read is recorded as well.
    pub reads: bool,
    /// Page faults say when, if the kernel lets them be seen.
    pub by_faults: bool,
    /// Where buffers come from.
    pub spare: Arc<Spare>,
}
