//! The ways in which data moves unseen, and what is said of each.

use serde::{Deserialize, Serialize};

/// How data moved unseen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Serialize, Deserialize)]
pub enum Way {
    /// Requests in a ring.
    Ring,
    /// Requests handed over with Linux AIO.
    Aio,
    /// Stores to memory that is a file.
    Stores,
    /// The kernel copied it between descriptors, and it could not be read afterwards.
    Copies,
    /// Calls of 32-bit programs.
    OldCalls,
    /// Loads from memory that is a file.
    Loads,
}

impl Way {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Way::Ring => "io_uring",
            Way::Aio => "linux-aio",
            Way::Stores => "mapped-writes",
            Way::Copies => "kernel-copies",
            Way::OldCalls => "int80-calls",
            Way::Loads => "mapped-reads",
        }
    }

    /// Whether a replay may come out otherwise because of it.
    pub fn endangers_replay(self) -> bool {
        self != Way::Loads
    }

    /// What it is, in a few words.
    pub fn title(self) -> &'static str {
        match self {
            Way::Ring => "io_uring requests",
            Way::Aio => "Linux AIO requests",
            Way::Stores => "stores to mapped files",
            Way::Copies => "copies made by the kernel",
            Way::OldCalls => "32-bit calls (int 0x80)",
            Way::Loads => "reads of mapped files",
        }
    }

    /// What is counted.
    pub fn counted(self, count: Option<u64>) -> &'static str {
        let [one, many] = match self {
            Way::Ring | Way::Aio => ["request", "requests"],
            Way::Stores | Way::Loads => ["mapping", "mappings"],
            Way::Copies | Way::OldCalls => ["call", "calls"],
        };
        if count == Some(1) { one } else { many }
    }

    /// Why the data is not in the trace.
    pub fn why(self) -> &'static str {
        match self {
            Way::Ring => "requests and results lie in memory that program and kernel share",
            Way::Aio => "only addresses of the requests are in the call",
            Way::Stores => "the program changes the file by storing to memory, without a call",
            Way::Copies => "the bytes never pass through the program",
            Way::OldCalls => "such calls are recorded with bare arguments",
            Way::Loads => "the program reads the file as memory, without a call",
        }
    }

    /// What a user can do about it.
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
        }
    }
}

/// What is not recorded and does no harm.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
pub enum Note {
    /// Programs that were started with a vDSO.
    Vdso,
    /// Mappings and segments that processes share.
    SharedMemory,
    /// Files that are mapped to be executed, and those that the dynamic linker and the C library map
    /// for themselves.
    ProgramFiles,
    /// Mappings of devices, and of what the kernel shares through descriptors.
    DeviceMemory,
    /// Rings that were made and never used.
    UnusedRings,
    /// Copies made by the kernel whose content was read afterwards, or written by calls.
    KeptCopies,
}

impl Note {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Note::Vdso => "vdso",
            Note::SharedMemory => "shared-memory",
            Note::ProgramFiles => "program-files",
            Note::DeviceMemory => "device-memory",
            Note::UnusedRings => "unused-rings",
            Note::KeptCopies => "kept-copies",
        }
    }

    /// What is counted.
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
            Note::KeptCopies => {
                "copies made by the kernel whose content is in the trace all the same"
            }
        }
    }
}
