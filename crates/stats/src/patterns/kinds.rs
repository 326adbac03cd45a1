//! Kinds of findings, and why each matters.

use crate::activity::Activity;

/// Kind of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FindingKind {
    /// The program computes.
    Computes,
    /// Waits for the disk to make data durable.
    Syncs,
    /// Reads take much of the run.
    Reading,
    /// Writes take much of the run.
    Writing,
    /// Reads wait for the disk.
    ColdReads,
    /// Names and attributes of files take much of the run.
    Metadata,
    /// The same, of one file that is made and removed again and again.
    Remade,
    /// Mapping memory takes much of the run.
    Mapping,
    /// Calls of no other activity take much of the run.
    OtherCalls,
    /// Between calls, but not on a CPU of its own.
    OwnWaits,
    /// One thread works while others wait for it.
    SingleThreaded,
    /// Waits for children.
    ChildWaits,
    /// Processes are made all the time.
    Spawns,
    /// One end of a pipe waits for the other.
    SlowPipe,
    /// Waits for peers.
    NetworkWaits,
    /// Waits for events.
    EventWaits,
    /// Sleeps.
    Sleeps,
    /// Waits for a terminal or device.
    DeviceWaits,
    /// Threads wait for each other.
    ThreadWaits,
    /// Asynchronous I/O takes much of the run.
    Asynchronous,
    /// Many small writes.
    SmallWrites,
    /// Many small reads.
    SmallReads,
    /// Scattered writes of partial pages.
    UnalignedWrites,
    /// The same file is opened all the time.
    Churn,
    /// Calls that came to nothing, again and again.
    Polling,
    /// The same bytes were read repeatedly.
    Rereads,
    /// Many lookups of files that do not exist.
    MissingFiles,
    /// Reads that overlap: most of what they bring was there before.
    ReadAmplification,
    /// Transfers past the cache that are not in whole blocks.
    DirectMisaligned,
    /// The same content was written repeatedly.
    DuplicateContent,
    /// The written content is compressible.
    Compressible,
    /// Seeks without an access before the next one, or to the current position.
    UselessSeeks,
    /// Descriptors that were never closed.
    DescriptorLeak,
    /// Threads waited for locks.
    LockWaits,
    /// Writes that transferred less than requested.
    ShortWrites,
    /// Reads that transferred less than requested before the end of a file.
    ShortReads,
    /// Files were renamed before their data was durable.
    UnsafeRenames,
}

/// What is said of a kind.
pub struct Words {
    /// Key for programs.
    pub key: &'static str,
    /// Title.
    pub title: &'static str,
    /// Why it costs, and what to do.
    pub reason: &'static str,
    /// When to leave it as it is; empty if never.
    pub unless: &'static str,
    /// The command that shows its calls: `TRACE` stands for the trace, `FILE` for the file, `CALL` for
    /// the call that took most time.
    pub command: &'static str,
    /// How sure it is that this is what costs.
    pub confidence: Confidence,
}

/// How sure a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confidence {
    /// It was counted and measured.
    High,
    /// It was concluded from times and from what calls did.
    Medium,
    /// It was estimated.
    Low,
}

impl Confidence {
    /// Returns its key for programs and people.
    pub fn key(self) -> &'static str {
        match self {
            Confidence::High => "high",
            Confidence::Medium => "medium",
            Confidence::Low => "low",
        }
    }
}

const fn words(
    key: &'static str,
    title: &'static str,
    reason: &'static str,
    unless: &'static str,
    command: &'static str,
    confidence: Confidence,
) -> Words {
    Words { key, title, reason, unless, command, confidence }
}

impl FindingKind {
    /// Returns true for findings about the run as a whole: what its time went to.
    pub fn is_about_run(self) -> bool {
        self <= FindingKind::Asynchronous
    }

    /// Returns what is said of an activity that takes much of a run. Each has its kind, so that none
    /// that takes much is left out; being recorded is no cost of the program.
    pub fn of_activity(activity: Activity) -> Option<FindingKind> {
        Some(match activity {
            Activity::Outside => FindingKind::Computes,
            Activity::Sync => FindingKind::Syncs,
            Activity::Read => FindingKind::Reading,
            Activity::Write => FindingKind::Writing,
            Activity::Submit => FindingKind::Asynchronous,
            Activity::Metadata => FindingKind::Metadata,
            Activity::Spawn => FindingKind::Spawns,
            Activity::Memory => FindingKind::Mapping,
            Activity::Other => FindingKind::OtherCalls,
            Activity::Recording => return None,
            Activity::Lock => FindingKind::ThreadWaits,
            Activity::Pipe => FindingKind::SlowPipe,
            Activity::Network => FindingKind::NetworkWaits,
            Activity::Child => FindingKind::ChildWaits,
            Activity::Events => FindingKind::EventWaits,
            Activity::Device => FindingKind::DeviceWaits,
            Activity::Sleep => FindingKind::Sleeps,
        })
    }

    /// Returns true for findings that cost no time, but may cost data.
    pub fn is_risk(self) -> bool {
        matches!(
            self,
            FindingKind::UnsafeRenames
                | FindingKind::DescriptorLeak
                | FindingKind::ShortWrites
                | FindingKind::ShortReads
        )
    }

    /// Returns what is said of it.
    pub fn words(self) -> Words {
        match self {
            FindingKind::Computes => words(
                "computes",
                "The program computes",
                "Most of the time passes between system calls: no change to its I/O makes it much \
                 faster. Profile it (perf record), and look whether the work can be spread over more \
                 threads.",
                "a faster algorithm is not to be had, and the CPUs are busy already",
                "reenact stat threads TRACE",
                Confidence::High,
            ),
            FindingKind::Syncs => words(
                "syncs",
                "Waits for syncs",
                "Each sync waits for the disk: let several changes share one (a transaction, a group \
                 commit, one sync for many new files before they are renamed), if they need to be \
                 durable one by one at all.",
                "each change must survive a crash before the next one begins",
                "reenact show TRACE --seq --call %sync --path FILE",
                Confidence::High,
            ),
            FindingKind::Reading => words(
                "reading",
                "Reading files",
                "The data came out of the cache, or a device or the kernel made it up: read less, in pieces of \
                 64 KiB or more, keep what was read, or map the file.",
                "all of it is needed, and it is read once",
                "reenact show TRACE --seq --call %read --path FILE",
                Confidence::High,
            ),
            FindingKind::Writing => words(
                "writing",
                "Writing files",
                "The kernel takes data at this rate: write less, in larger pieces, or compress it. \
                 Files opened with O_SYNC or O_DIRECT wait for the disk in each write.",
                "all of it must be kept",
                "reenact show TRACE --seq --call %write --path FILE",
                Confidence::High,
            ),
            FindingKind::Metadata => words(
                "metadata",
                "Names and attributes of files",
                "Opening, asking about, making and removing many files costs more than their data: \
                 put many small files into one, ask once (statx, getdents), or use several threads.",
                "each file is a result that others look for",
                "reenact show TRACE --seq --call %file --path FILE",
                Confidence::High,
            ),
            FindingKind::Remade => words(
                "remade_file",
                "A file is made and removed again and again",
                "Each time its directory changes, and its blocks are taken and given back: keep it, and \
                 truncate or overwrite it (the journal of SQLite: PRAGMA journal_mode = WAL, or TRUNCATE \
                 or PERSIST), or do more work each time (fewer transactions).",
                "others see by its name that work goes on",
                "reenact show TRACE --seq --call %file --path FILE",
                Confidence::High,
            ),
            FindingKind::ColdReads => words(
                "cold_reads",
                "Reads wait for the disk",
                "They took longer than a copy out of memory takes: read ahead (posix_fadvise, readahead), \
                 in larger pieces, or several at a time (threads, io_uring).",
                "the disk gives all that it can, or the CPUs were busy: copies took longer then as well",
                "reenact show TRACE --seq --call %read --slower-than 20us --path FILE",
                Confidence::Medium,
            ),
            FindingKind::Mapping => words(
                "mapping_memory",
                "Mapping memory",
                "Memory is mapped, filled with zeros, and given back: keep it for the next use (a pool, \
                 MALLOC_TRIM_THRESHOLD_, MALLOC_MMAP_THRESHOLD_), or take larger pages.",
                "it is the start of a program that is short anyway",
                "reenact show TRACE --seq --call CALL",
                Confidence::High,
            ),
            FindingKind::OtherCalls => words(
                "other_calls",
                "Other calls",
                "They neither move data nor wait, and still take this time in the kernel: ask less \
                 often, for less, or keep the answer.",
                "what they give is needed each time",
                "reenact show TRACE --seq --call CALL",
                Confidence::High,
            ),
            FindingKind::OwnWaits => words(
                "own_waits",
                "Own code without a CPU",
                "Between calls, but most of that not computing: memory is touched for the first time, \
                 mapped files come from the disk, or others have the CPU. `record --kernel` shows which.",
                "the machine was busy with something else",
                "reenact stat threads TRACE",
                Confidence::Medium,
            ),
            FindingKind::SingleThreaded => words(
                "single_threaded",
                "One thread works while others wait",
                "One thread alone computes, and the others wait for it: give them parts of that work, \
                 or begin what comes next meanwhile.",
                "each step needs the result of the one before",
                "reenact stat threads TRACE",
                Confidence::Medium,
            ),
            FindingKind::ChildWaits => words(
                "child_waits",
                "Waits for children",
                "Nothing goes on until a child ends: start several at a time, or do its work in the \
                 process itself.",
                "each child needs what the one before made",
                "reenact stat processes TRACE",
                Confidence::High,
            ),
            FindingKind::ReadAmplification => words(
                "read_amplification",
                "Reads that overlap",
                "Most of what they bring was read before: a buffer is thrown away by each seek and \
                 filled anew. Read just what is needed (pread), or keep the buffer.",
                "it does not fit into the program's memory",
                "reenact show TRACE --seq --call %read --path FILE",
                Confidence::Medium,
            ),
            FindingKind::DirectMisaligned => words(
                "direct_misaligned",
                "O_DIRECT without whole blocks",
                "Past the cache (O_DIRECT) offset, size and memory must be multiples of the disk's block: \
                 else the call fails, or the disk must read a block to change a part of it. Use multiples \
                 of 4 KiB.",
                "the disk has blocks of 512 bytes, and no call fails",
                "reenact show TRACE --seq --call %read,%write --path FILE",
                Confidence::High,
            ),
            FindingKind::Spawns => words(
                "spawns",
                "Many short processes",
                "Making a process and loading its program takes about a millisecond: do the work in \
                 one process, by built-in commands or a library, or pass many arguments at once \
                 (xargs).",
                "each program must run apart, and few of them run",
                "reenact stat processes TRACE",
                Confidence::High,
            ),
            FindingKind::SlowPipe => words(
                "slow_pipe",
                "One end of a pipe waits for the other",
                "The slower program sets the pace of both: make that one faster (more threads, a \
                 cheaper algorithm or level of compression).",
                "the slower end already uses all CPUs that there are",
                "reenact show TRACE --seq --call %read,%write",
                Confidence::Medium,
            ),
            FindingKind::NetworkWaits => words(
                "network_waits",
                "Waits for peers",
                "Each request waits for its answer: send several before the first answer is there, \
                 gather small ones, or look at the peer.",
                "it is a server that waits for work",
                "reenact show TRACE --seq --call %network --slower-than 1ms",
                Confidence::High,
            ),
            FindingKind::EventWaits => words(
                "event_waits",
                "Waits for events",
                "The program waits in poll, select or epoll for what others do: look at who sends the \
                 events, and when.",
                "it is a server, or waits for people",
                "reenact show TRACE --seq --call %wait --slower-than 1ms",
                Confidence::High,
            ),
            FindingKind::Sleeps => words(
                "sleeps",
                "The program sleeps",
                "It waits for a time instead of for what it needs: wait for the event itself.",
                "the pause is wanted",
                "reenact show TRACE --seq --call %wait --slower-than 1ms",
                Confidence::High,
            ),
            FindingKind::DeviceWaits => words(
                "device_waits",
                "Waits for a terminal or device",
                "Nothing goes on until somebody types, or the device answers.",
                "it waits for people",
                "reenact show TRACE --seq --call read,write --slower-than 1ms",
                Confidence::High,
            ),
            FindingKind::ThreadWaits => words(
                "thread_waits",
                "Threads wait for each other",
                "While they wait for a lock or a result, nobody of the program works: look at who \
                 holds the lock meanwhile.",
                "the others have nothing to do until then",
                "reenact show TRACE --seq --call futex --slower-than 1ms",
                Confidence::Medium,
            ),
            FindingKind::Asynchronous => words(
                "asynchronous",
                "Asynchronous I/O",
                "The threads submit operations and wait for their results: keep more in flight, and \
                 take several at a time.",
                "the disk is busy all the time already",
                "reenact show TRACE --seq --call %wait",
                Confidence::High,
            ),
            FindingKind::SmallWrites => words(
                "small_writes",
                "Small writes",
                "A call costs about as much for 100 bytes as for some KiB: gather data in a buffer \
                 and write it at once.",
                "each line must be seen at once",
                "reenact show TRACE --seq --call %write --path FILE",
                Confidence::High,
            ),
            FindingKind::SmallReads => words(
                "small_reads",
                "Small reads",
                "A call costs about as much for 100 bytes as for some KiB: read into a buffer, and take \
                 from that.",
                "each answer decides what is read next, and the rest is not needed",
                "reenact show TRACE --seq --call %read --path FILE",
                Confidence::High,
            ),
            FindingKind::UnalignedWrites => words(
                "unaligned_writes",
                "Unaligned writes",
                "The kernel must read a page from the disk before it can change a part of it: \
                 write whole pages of 4 KiB at multiples of 4 KiB.",
                "the file is in the cache",
                "reenact show TRACE --seq --call %write --path FILE",
                Confidence::Medium,
            ),
            FindingKind::Churn => words(
                "churn",
                "The same file is opened again and again",
                "Opening and closing costs a walk through directories each time: keep it open, or keep \
                 what was read.",
                "others change the file meanwhile",
                "reenact show TRACE --seq --call open --path FILE",
                Confidence::Medium,
            ),
            FindingKind::Polling => words(
                "polling",
                "Calls that come to nothing",
                "The program asks again and again whether there is something to do: wait for it \
                 (poll with a time-out, blocking reads, futexes) instead.",
                "it saves the time to wake up, and the CPU has nothing else to do",
                "reenact show TRACE --seq --failed",
                Confidence::Medium,
            ),
            FindingKind::Rereads => words(
                "rereads",
                "The same data is read again",
                "Copying it out of the kernel's cache costs time even if the disk is not asked: \
                 keep it, or map the file.",
                "it does not fit into the program's memory",
                "reenact show TRACE --seq --call %read --path FILE",
                Confidence::Medium,
            ),
            FindingKind::MissingFiles => words(
                "missing_files",
                "Failed lookups",
                "Each failed lookup costs a call and a walk through directories: \
                 shorten search paths, put what is used most first, or remember what is missing.",
                "the program asks whether it may create them",
                "reenact show TRACE --seq --call %file --failed",
                Confidence::Medium,
            ),
            FindingKind::DuplicateContent => words(
                "duplicate_content",
                "The same content is written again",
                "Store a reference to what is there already, or do not write what has not changed.",
                "it is a journal",
                "reenact show TRACE --seq --call %write --path FILE",
                Confidence::Medium,
            ),
            FindingKind::Compressible => words(
                "compressible",
                "Compressible data",
                "By the entropy of sampled bytes alone; a real compressor finds more. Compression \
                 by the program or the file system would save disk and bandwidth.",
                "CPU time is scarcer than disk",
                "reenact show TRACE --seq --call %write",
                Confidence::Low,
            ),
            FindingKind::UselessSeeks => words(
                "useless_seeks",
                "Useless seeks",
                "Another seek followed before any data was moved, or the position was there \
                 already: use pread and pwrite, or remember the position.",
                "they cost less than changing the program",
                "reenact show TRACE --seq --call lseek --path FILE",
                Confidence::Medium,
            ),
            FindingKind::DescriptorLeak => words(
                "descriptor_leak",
                "Descriptors that are never closed",
                "They were still open when the process ended: a longer run meets the limit on open \
                 files.",
                "the program keeps them on purpose",
                "reenact show TRACE --seq --call open --path FILE",
                Confidence::High,
            ),
            FindingKind::LockWaits => words(
                "lock_waits",
                "Threads wait for locks",
                "Waiting for a lock that another thread holds costs two switches of context: hold \
                 locks for a shorter time, or split what they guard.",
                "what the lock guards must be done one after the other",
                "reenact show TRACE --seq --call futex,flock,fcntl --slower-than 100us",
                Confidence::High,
            ),
            FindingKind::ShortWrites => words(
                "short_writes",
                "Short writes",
                "Less was taken than was given, so the rest needs another call (and is lost where \
                 the result is not looked at): wait until there is room, or write smaller pieces.",
                "the rest is written again, as for pipes and sockets that do not block",
                "reenact show TRACE --seq --call %write --path FILE",
                Confidence::High,
            ),
            FindingKind::ShortReads => words(
                "short_reads",
                "Short reads within a file",
                "Less came than was asked for though the file goes on: the rest needs another call, \
                 and is missed where the result is not looked at.",
                "the rest is read again",
                "reenact show TRACE --seq --call %read --path FILE",
                Confidence::Medium,
            ),
            FindingKind::UnsafeRenames => words(
                "unsafe_renames",
                "Renamed before its data was durable",
                "After a crash the new name may lead to an empty or half file: sync the file before \
                 it is renamed, and the directory after.",
                "the file can be made again",
                "reenact show TRACE --seq --call rename",
                Confidence::High,
            ),
        }
    }
}

/// All kinds.
#[cfg(test)]
pub const ALL: [FindingKind; 37] = [
    FindingKind::Computes,
    FindingKind::Syncs,
    FindingKind::Reading,
    FindingKind::Writing,
    FindingKind::ColdReads,
    FindingKind::Metadata,
    FindingKind::Remade,
    FindingKind::Mapping,
    FindingKind::OtherCalls,
    FindingKind::OwnWaits,
    FindingKind::SingleThreaded,
    FindingKind::ChildWaits,
    FindingKind::Spawns,
    FindingKind::SlowPipe,
    FindingKind::NetworkWaits,
    FindingKind::EventWaits,
    FindingKind::Sleeps,
    FindingKind::DeviceWaits,
    FindingKind::ThreadWaits,
    FindingKind::Asynchronous,
    FindingKind::SmallWrites,
    FindingKind::SmallReads,
    FindingKind::UnalignedWrites,
    FindingKind::Churn,
    FindingKind::Polling,
    FindingKind::Rereads,
    FindingKind::MissingFiles,
    FindingKind::ReadAmplification,
    FindingKind::DirectMisaligned,
    FindingKind::DuplicateContent,
    FindingKind::Compressible,
    FindingKind::UselessSeeks,
    FindingKind::DescriptorLeak,
    FindingKind::LockWaits,
    FindingKind::ShortWrites,
    FindingKind::ShortReads,
    FindingKind::UnsafeRenames,
];
