//! Kinds of findings, and why each matters.

use std::cmp::Reverse;

use render::amounts::{show_size, show_time};

use crate::sheet::{Cell, Fact, Sheet, Table};

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
    /// Names and attributes of files take much of the run.
    Metadata,
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
    /// Conditions of `show` that select its calls; `FILE` stands for the file.
    pub calls: &'static str,
}

const fn words(
    key: &'static str,
    title: &'static str,
    reason: &'static str,
    unless: &'static str,
    calls: &'static str,
) -> Words {
    Words { key, title, reason, unless, calls }
}

impl FindingKind {
    /// Returns true for findings about the run as a whole: what its time went to.
    pub fn is_about_run(self) -> bool {
        self <= FindingKind::Asynchronous
    }

    /// Returns true for findings that cost no time, but may cost data.
    fn is_risk(self) -> bool {
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
                "",
                "",
            ),
            FindingKind::Syncs => words(
                "syncs",
                "Waits for syncs",
                "Each sync waits for the disk: let several changes share one (a transaction, a group \
                 commit, one sync for many new files before they are renamed), if they need to be \
                 durable one by one at all.",
                "each change must survive a crash before the next one begins",
                "--call %sync",
            ),
            FindingKind::Reading => words(
                "reading",
                "Reading files",
                "Slow reads come from the disk: read ahead (posix_fadvise, larger buffers, several \
                 reads at a time), or read less. Fast ones are copies out of the cache.",
                "",
                "--call %read",
            ),
            FindingKind::Writing => words(
                "writing",
                "Writing files",
                "The kernel takes data at this rate: write less, in larger pieces, or compress it. \
                 Files opened with O_SYNC or O_DIRECT wait for the disk in each write.",
                "",
                "--call %write",
            ),
            FindingKind::Metadata => words(
                "metadata",
                "Names and attributes of files",
                "Opening, asking about, making and removing many files costs more than their data: \
                 put many small files into one, ask once (statx, getdents), or use several threads.",
                "",
                "--call %file",
            ),
            FindingKind::Spawns => words(
                "spawns",
                "Many short processes",
                "Making a process and loading its program takes about a millisecond: do the work in \
                 one process, by built-in commands or a library, or pass many arguments at once \
                 (xargs).",
                "",
                "--call %process",
            ),
            FindingKind::SlowPipe => words(
                "slow_pipe",
                "One end of a pipe waits for the other",
                "The slower program sets the pace of both: make that one faster (more threads, a \
                 cheaper algorithm or level of compression).",
                "",
                "--call %read,%write",
            ),
            FindingKind::NetworkWaits => words(
                "network_waits",
                "Waits for peers",
                "Each request waits for its answer: send several before the first answer is there, \
                 gather small ones, or look at the peer.",
                "it is a server that waits for work",
                "--call %network --slower-than 1ms",
            ),
            FindingKind::EventWaits => words(
                "event_waits",
                "Waits for events",
                "The program waits in poll, select or epoll for what others do: look at who sends the \
                 events, and when.",
                "it is a server, or waits for people",
                "--call %wait --slower-than 1ms",
            ),
            FindingKind::Sleeps => words(
                "sleeps",
                "The program sleeps",
                "It waits for a time instead of for what it needs: wait for the event itself.",
                "the pause is wanted",
                "--call %wait --slower-than 1ms",
            ),
            FindingKind::DeviceWaits => words(
                "device_waits",
                "Waits for a terminal or device",
                "Nothing goes on until somebody types, or the device answers.",
                "it waits for people",
                "--call read,write --slower-than 1ms",
            ),
            FindingKind::ThreadWaits => words(
                "thread_waits",
                "Threads wait for each other",
                "While they wait for a lock or a result, nobody of the program works: look at who \
                 holds the lock meanwhile.",
                "",
                "--call futex --slower-than 1ms",
            ),
            FindingKind::Asynchronous => words(
                "asynchronous",
                "Asynchronous I/O",
                "The threads submit operations and wait for their results: keep more in flight, and \
                 take several at a time.",
                "the disk is busy all the time already",
                "--call %wait",
            ),
            FindingKind::SmallWrites => words(
                "small_writes",
                "Small writes",
                "A call costs about as much for 100 bytes as for some KiB: gather data in a buffer \
                 and write it at once.",
                "each line must be seen at once",
                "--call %write --path FILE",
            ),
            FindingKind::SmallReads => words(
                "small_reads",
                "Small reads",
                "A call costs about as much for 100 bytes as for some KiB: read into a buffer, and take \
                 from that.",
                "",
                "--call %read --path FILE",
            ),
            FindingKind::UnalignedWrites => words(
                "unaligned_writes",
                "Unaligned writes",
                "The kernel must read a page from the disk before it can change a part of it: \
                 write whole pages of 4 KiB at multiples of 4 KiB.",
                "the file is in the cache",
                "--call %write --path FILE",
            ),
            FindingKind::Churn => words(
                "churn",
                "The same file is opened again and again",
                "Opening and closing costs a walk through directories each time: keep it open, or keep \
                 what was read.",
                "others change the file meanwhile",
                "--call open --path FILE",
            ),
            FindingKind::Polling => words(
                "polling",
                "Calls that come to nothing",
                "The program asks again and again whether there is something to do: wait for it \
                 (poll with a time-out, blocking reads, futexes) instead.",
                "it saves the time to wake up, and the CPU has nothing else to do",
                "--failed",
            ),
            FindingKind::Rereads => words(
                "rereads",
                "The same data is read again",
                "Copying it out of the kernel's cache costs time even if the disk is not asked: \
                 keep it, or map the file.",
                "it does not fit into the program's memory",
                "--call %read --path FILE",
            ),
            FindingKind::MissingFiles => words(
                "missing_files",
                "Failed lookups",
                "Each failed lookup costs a call and a walk through directories: \
                 shorten search paths, put what is used most first, or remember what is missing.",
                "the program asks whether it may create them",
                "--call %file --failed",
            ),
            FindingKind::DuplicateContent => words(
                "duplicate_content",
                "The same content is written again",
                "Store a reference to what is there already, or do not write what has not changed.",
                "it is a journal",
                "--call %write --path FILE",
            ),
            FindingKind::Compressible => words(
                "compressible",
                "Compressible data",
                "By the entropy of sampled bytes alone; a real compressor finds more. Compression \
                 by the program or the file system would save disk and bandwidth.",
                "CPU time is scarcer than disk",
                "--call %write",
            ),
            FindingKind::UselessSeeks => words(
                "useless_seeks",
                "Useless seeks",
                "Another seek followed before any data was moved, or the position was there \
                 already: use pread and pwrite, or remember the position.",
                "",
                "--call lseek --path FILE",
            ),
            FindingKind::DescriptorLeak => words(
                "descriptor_leak",
                "Descriptors that are never closed",
                "They were still open when the process ended: a longer run meets the limit on open \
                 files.",
                "the program keeps them on purpose",
                "--call open --path FILE",
            ),
            FindingKind::LockWaits => words(
                "lock_waits",
                "Threads wait for locks",
                "Waiting for a lock that another thread holds costs two switches of context: hold \
                 locks for a shorter time, or split what they guard.",
                "",
                "--call futex,flock,fcntl --slower-than 100us",
            ),
            FindingKind::ShortWrites => words(
                "short_writes",
                "Short writes",
                "Less was taken than was given, so the rest needs another call (and is lost where \
                 the result is not looked at): wait until there is room, or write smaller pieces.",
                "",
                "--call %write --path FILE",
            ),
            FindingKind::ShortReads => words(
                "short_reads",
                "Short reads within a file",
                "Less came than was asked for though the file goes on: the rest needs another call, \
                 and is missed where the result is not looked at.",
                "",
                "--call %read --path FILE",
            ),
            FindingKind::UnsafeRenames => words(
                "unsafe_renames",
                "Renamed before its data was durable",
                "After a crash the new name may lead to an empty or half file: sync the file before \
                 it is renamed, and the directory after.",
                "the file can be made again",
                "--call rename",
            ),
        }
    }
}

/// A pattern worth looking at.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// Kind of the finding.
    pub kind: FindingKind,
    /// Number of calls or descriptors.
    pub count: u64,
    /// Number of bytes concerned.
    pub bytes: u64,
    /// Time spent in the calls.
    pub time_ns: u64,
    /// That time as a share of the run.
    pub share: f64,
    /// The file, if there is one.
    pub file: Vec<u8>,
    /// Module and offset of the call site with most of the calls.
    pub site: Vec<u8>,
    /// The numbers in words.
    pub evidence: String,
}

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// At least a tenth of the run.
    High,
    /// At least a hundredth of the run.
    Medium,
    /// It may cost data, not time.
    Risk,
    /// Below that.
    Note,
}

/// From this share of the run on, a finding is more than a note.
const MEDIUM_SHARE: f64 = 0.01;
/// From this share of the run on, it is among what matters most.
const HIGH_SHARE: f64 = 0.1;

impl Finding {
    /// Returns how much it matters.
    pub fn severity(&self) -> Severity {
        match () {
            () if self.share >= HIGH_SHARE => Severity::High,
            () if self.share >= MEDIUM_SHARE => Severity::Medium,
            () if self.kind.is_risk() => Severity::Risk,
            () => Severity::Note,
        }
    }

    /// Returns the command that shows its calls; TRACE stands for the trace.
    fn command(&self) -> Vec<u8> {
        let words = self.kind.words();
        if words.calls.is_empty() {
            return Vec::new();
        }
        let calls = match words.calls.split_once("FILE") {
            Some((before, _)) if self.file.is_empty() => before.trim_end_matches("--path ").into(),
            Some((before, after)) => {
                let path = String::from_utf8_lossy(&self.file);
                format!("{before}'{}'{after}", path.replace('\'', "'\\''"))
            }
            None => words.calls.to_string(),
        };
        format!("reenact show TRACE --seq {}", calls.trim_end()).into_bytes()
    }

    /// Returns its cost in words.
    fn cost(&self) -> String {
        let share = self.share * 100.0;
        match (self.time_ns, self.bytes) {
            (0, 0) => String::new(),
            (0, bytes) => show_size(bytes),
            (ns, _) if share < 0.05 => format!("{}, <0.1% of the run", show_time(ns)),
            (ns, _) => format!("{}, {share:.1}% of the run", show_time(ns)),
        }
    }
}

/// Puts findings in order: those that cost most first, notes last.
pub fn in_order(findings: &mut [Finding]) {
    findings.sort_by(|a, b| {
        let rank = |f: &Finding| (f.severity(), Reverse((f.share * 1e6) as u64));
        let rest = |f: &Finding| (f.time_ns, f.bytes, f.count);
        rank(a)
            .cmp(&rank(b))
            .then_with(|| rest(b).cmp(&rest(a)))
            .then_with(|| (a.kind, &a.file).cmp(&(b.kind, &b.file)))
    });
}

/// Returns the findings, which are in order, as a table.
pub fn sheet(findings: &[Finding]) -> Sheet {
    let mut table = Table::new(
        "findings",
        "",
        &[
            ("title", "finding"),
            ("kind", ""),
            ("about", ""),
            ("severity", "severity"),
            ("count", ""),
            ("bytes", ""),
            ("time_ns", ""),
            ("run_share", ""),
            ("", "costs"),
            ("file", "file"),
            ("evidence", "evidence"),
            ("site", "called from"),
            ("reason", "why"),
            ("unless", "leave it if"),
            ("command", "look at"),
        ],
    );
    table.blocks = true;
    for finding in findings {
        let words = finding.kind.words();
        let severity = match finding.severity() {
            Severity::High => "high",
            Severity::Medium => "medium",
            Severity::Risk => "risk",
            Severity::Note => "note",
        };
        table.row(vec![
            Cell::word(words.title),
            Cell::word(words.key),
            Cell::word(if finding.kind.is_about_run() { "run" } else { "calls" }),
            Cell::word(severity),
            Cell::Count(finding.count),
            Cell::Bytes(finding.bytes),
            Cell::Ns(finding.time_ns),
            Cell::Share(finding.share),
            Cell::Word(finding.cost().into()),
            Cell::Name(finding.file.clone()),
            Cell::Word(finding.evidence.clone().into()),
            Cell::Name(finding.site.clone()),
            Cell::word(words.reason),
            Cell::word(words.unless),
            Cell::Name(finding.command()),
        ]);
    }
    let count = Cell::Count(table.rows.len() as u64);
    let facts = vec![Fact { key: "finding_count", title: "findings", value: count }];
    let notes = vec![
        "A finding of less than 1% of the run is a note: it is true, and not worth much work."
            .into(),
    ];
    Sheet { facts, tables: vec![table], notes }
}
