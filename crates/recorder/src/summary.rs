//! What a recording tells when it has ended.

use model::unseen::NotSeen;
use syscalls::record::GapWhy;

/// Result of a recording.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// Calls in the trace.
    pub calls: u64,
    /// Events of the kernel in the trace.
    pub kernel_events: u64,
    /// Events that the kernel told, and that are about others than those that were asked for.
    pub kernel_events_dropped: u64,
    /// Threads that were recorded.
    pub threads: u32,
    /// Processes that were recorded.
    pub processes: u32,
    /// Bytes in buffers, as the program had them.
    pub data_bytes: u64,
    /// Bytes of the trace.
    pub trace_bytes: u64,
    /// Bytes of distinct buffers stored, before compression.
    pub stored_bytes: u64,
    /// Calls made during the recording that are not in the trace.
    pub lost: u64,
    /// Time that threads waited for room in their rings.
    pub stall_ns: u64,
    /// Calls caught by SIGSYS.
    pub slow_path_calls: u64,
    /// Calls read after the trace had taken its last one.
    pub discarded: u64,
    /// Gaps in the trace.
    pub gaps: u64,
    /// Reason and text of the first gap.
    pub first_gap: Option<(GapWhy, String)>,
    /// Changed files whose former content could not be stored whole, although that was requested.
    pub files_not_whole: u64,
    /// Data that the trace lacks though it has every call; counts, without names.
    pub not_seen: NotSeen,
    /// Why the recording stopped before the program ended.
    pub stopped: Option<(GapWhy, String)>,
    /// Error that kept the trace from being finished: readers will find it truncated.
    pub unfinished: Option<String>,
}
