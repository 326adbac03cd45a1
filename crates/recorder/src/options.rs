//! What a user may choose about a recording.

use crate::stacks::StackOptions;
use std::time::Duration;

use ring::Mappings;
use trace::WriterOptions;

use crate::choice::Choice;
use crate::kernel::KernelEvents;
use crate::mapped::Every;
use crate::policy::DataRules;

/// Options of a recording.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Options of the trace writer.
    pub writer: WriterOptions,
    /// Stop recording before the trace exceeds this size.
    pub size_max: Option<u64>,
    /// Stop recording after this time.
    pub duration: Option<Duration>,
    /// Stop recording when the launched program has ended, even if other processes are left.
    pub until_exit: bool,
    /// Which contents are kept, by file. Agents must be configured to deliver [`DataRules::most`].
    pub data: DataRules,
    /// Which calls are kept; contents of all others are not, whatever [`Options::data`] says.
    pub choice: Choice,
    /// Write a manifest of the paths that the program changed at the end of the trace.
    pub manifest: bool,
    /// What to record of mapped files.
    pub mappings: Mappings,
    /// How often to look at them unasked.
    pub mappings_every: Every,
    /// Whether page faults say when they were touched, where what is read is recorded.
    pub mappings_by_faults: bool,
    /// Length at which buffers are cut; agents have the same limit.
    pub data_max: Option<u64>,
    /// Chains of callers, if they are wanted.
    pub stacks: Option<StackOptions>,
    /// Events of the kernel that are recorded as well.
    pub kernel: Option<KernelEvents>,
}
