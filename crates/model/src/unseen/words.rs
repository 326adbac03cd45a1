//! The ways in which data moves unseen, and the texts about them.

use serde::{Deserialize, Serialize};
use syscalls::record::watched;

/// A way in which data moves unseen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Serialize, Deserialize)]
pub enum Way {
    /// Requests in an io_uring ring.
    Ring,
    /// Requests submitted to Linux AIO.
    Aio,
    /// Stores to mapped files.
    Stores,
    /// Copies by the kernel between descriptors, whose content could not be read afterwards.
    Copies,
    /// Calls of the 32-bit interface (int 0x80).
    OldCalls,
    /// Loads from mapped files.
    Loads,
    /// Operations of rings of which nothing but the entry is known.
    Entries,
    /// Completions that the program took from memory, without a call.
    Late,
    /// Memory that the kernel reads after the call.
    Lent,
    /// Operations that were completed and whose submission is not in the trace.
    Unsubmitted,
}

impl Way {
    /// Returns the name used in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Way::Ring => "io_uring",
            Way::Aio => "linux-aio",
            Way::Stores => "mapped-writes",
            Way::Copies => "kernel-copies",
            Way::OldCalls => "int80-calls",
            Way::Loads => "mapped-reads",
            Way::Entries => "io_uring-entries",
            Way::Late => "late-completions",
            Way::Lent => "lent-memory",
            Way::Unsubmitted => "unsubmitted-operations",
        }
    }

    /// Returns true if it may make a replay differ.
    pub fn endangers_replay(self) -> bool {
        self != Way::Loads
    }

    /// Returns a short title.
    pub fn title(self) -> &'static str {
        match self {
            Way::Ring => "io_uring requests",
            Way::Aio => "Linux AIO requests",
            Way::Stores => "stores to mapped files",
            Way::Copies => "copies made by the kernel",
            Way::OldCalls => "32-bit calls (int 0x80)",
            Way::Loads => "reads of mapped files",
            Way::Entries => "io_uring operations with data of their own",
            Way::Late => "completions taken from memory",
            Way::Lent => "memory lent to the kernel",
            Way::Unsubmitted => "completions of operations that were not seen",
        }
    }

    /// Returns the noun for the counted items.
    pub fn counted(self, count: Option<u64>) -> &'static str {
        let [one, many] = match self {
            Way::Ring | Way::Aio => ["request", "requests"],
            Way::Entries | Way::Late | Way::Unsubmitted => ["operation", "operations"],
            Way::Stores | Way::Loads => ["mapping", "mappings"],
            Way::Copies | Way::OldCalls | Way::Lent => ["call", "calls"],
        };
        if count == Some(1) { one } else { many }
    }

    /// Returns why the data is not in the trace.
    pub fn why(self) -> &'static str {
        match self {
            Way::Ring => "requests and results lie in memory that program and kernel share",
            Way::Aio => "only addresses of the requests are in the call",
            Way::Stores => "the program changes the file by storing to memory, without a call",
            Way::Copies => "the bytes never pass through the program",
            Way::OldCalls => "such calls are recorded with bare arguments",
            Way::Loads => "the program reads the file as memory, without a call",
            Way::Entries => {
                "of such operations there is the entry and the result, not what they moved"
            }
            Way::Late => {
                "they were found at a later call: the program may have changed what came out by then"
            }
            Way::Lent => {
                "the trace has what was there when the call was made; who receives it gets what is \
                 there when it is read (vmsplice, MSG_ZEROCOPY)"
            }
            Way::Unsubmitted => {
                "they were submitted where the recording did not see it (by another process, or when \
                 too many were in flight): there is the result, not what they moved"
            }
        }
    }

    /// Returns what a user can do about it.
    pub fn remedy(self) -> &'static str {
        match self {
            Way::Ring => {
                "have the program use plain reads and writes (an option of its own, or sysctl \
                 kernel.io_uring_disabled=2)"
            }
            Way::Aio => "have the program use plain reads and writes (an option of its own)",
            Way::Stores => "have the program write the file instead of mapping it, if it can",
            Way::Copies => "record with --data full, and keep source or target until the end",
            Way::OldCalls => "record a 64-bit build of the program",
            Way::Loads => "replay with --image DIR if the content of these files matters",
            Way::Entries => "have the program do without io_uring (--io-uring refuse)",
            Way::Late => "have the program ask for completions by calls (fio: userspace_reap=0)",
            Way::Lent => {
                "have the program copy what it sends, or leave it as it is until it was read"
            }
            Way::Unsubmitted => {
                "record the process that submits them as well (record it from its start)"
            }
        }
    }
}

/// Why stores to a mapped file could not be recorded: of a `syscalls::record::watched`.
pub(super) fn why_not(word: u8) -> Option<&'static str> {
    Some(match word {
        watched::REFUSED => {
            "the kernel did not let stores be watched (userfaultfd; it needs Linux 6.9)"
        }
        watched::FILTERED => "a seccomp filter of the program stood in the way of watching stores",
        watched::NOT_THIS => "the file, or its file system, cannot be watched for stores",
        _ => return None,
    })
}

/// Why what is submitted to a ring could not be recorded: of a `syscalls::record::watched`.
pub(super) fn why_no_ring(word: u8) -> Option<&'static str> {
    Some(match word {
        watched::REFUSED => "there was no memory or no room for one more ring that is followed",
        watched::FILTERED => {
            "a seccomp filter of the program stood in the way of following its rings: requests and \
             results lie in memory that program and kernel share"
        }
        watched::NOT_THIS => {
            "the ring has features that this version does not know: requests and results lie in \
             memory that program and kernel share"
        }
        _ => return None,
    })
}

/// Why nothing is known of a ring that another process has made.
pub(super) const TAKEN: &str = "another process has made it: what this one submits there, and takes from there, is not recorded";

/// A harmless kind of data that is not recorded.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Note {
    /// Programs started with a vDSO.
    Vdso,
    /// Mappings and segments shared between processes.
    SharedMemory,
    /// Files that are mapped as code, or by the dynamic linker and the C library for their own use.
    ProgramFiles,
    /// Mappings of devices and of kernel memory shared through descriptors.
    DeviceMemory,
    /// Rings that were set up but never used.
    UnusedRings,
    /// Rings that programs asked for and did not get.
    RefusedRings,
    /// Copies by the kernel whose content was read afterwards, or written by recorded calls.
    KeptCopies,
}

impl Note {
    /// Returns the name used in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Note::Vdso => "vdso",
            Note::SharedMemory => "shared-memory",
            Note::ProgramFiles => "program-files",
            Note::DeviceMemory => "device-memory",
            Note::UnusedRings => "unused-rings",
            Note::RefusedRings => "refused-rings",
            Note::KeptCopies => "kept-copies",
        }
    }

    /// Returns a description of the counted items.
    pub fn what(self) -> &'static str {
        match self {
            Note::Vdso => {
                "programs started with a vDSO: clock_gettime and the like are no system calls there"
            }
            Note::SharedMemory => {
                "mappings of memory that processes share: stores to it are no calls"
            }
            Note::ProgramFiles => {
                "files mapped to be executed, or by dynamic linker and C library for themselves \
                 (caches, locales)"
            }
            Note::DeviceMemory => "mappings of devices and of other memory of the kernel",
            Note::UnusedRings => "io_uring rings that were made and never used",
            Note::RefusedRings => {
                "io_uring rings that were refused (--io-uring refuse, or a kernel without them): \
                 programs then make calls instead"
            }
            Note::KeptCopies => {
                "copies made by the kernel whose content is in the trace all the same"
            }
        }
    }
}
