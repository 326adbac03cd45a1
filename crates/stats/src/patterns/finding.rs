//! Kinds of findings, and why each matters.

use crate::sheet::{Cell, Fact, Sheet, Table};

/// Kind of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FindingKind {
    /// Many small writes.
    SmallWrites,
    /// Scattered writes of partial pages.
    UnalignedWrites,
    /// Few writes between syncs.
    SyncPerWrite,
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
}

impl FindingKind {
    /// Returns key, title and explanation.
    pub fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            FindingKind::SmallWrites => (
                "small_writes",
                "Small writes",
                "A call costs about as much for 100 bytes as for some KiB: gather data in a buffer \
                 and write it at once.",
            ),
            FindingKind::UnalignedWrites => (
                "unaligned_writes",
                "Unaligned writes",
                "The kernel must read a page from the disk before it can change a part of it: \
                 write whole pages of 4 KiB at multiples of 4 KiB.",
            ),
            FindingKind::SyncPerWrite => (
                "sync_per_write",
                "A sync after every few writes",
                "Each sync waits for the disk: let several changes share one (a transaction, a \
                 group commit), if they need to be durable one by one at all.",
            ),
            FindingKind::Rereads => (
                "rereads",
                "The same data is read again",
                "Copying it out of the kernel's cache costs time even if the disk is not asked: \
                 keep it, or map the file.",
            ),
            FindingKind::MissingFiles => (
                "missing_files",
                "Looks for files that are not there",
                "Each path that is searched in vain costs a call and a walk through directories: \
                 shorten search paths, put what is used most first, or remember what is missing.",
            ),
            FindingKind::DuplicateContent => (
                "duplicate_content",
                "The same content is written again",
                "Deduplication would save this much: store a reference to what is there already, \
                 or do not write what has not changed.",
            ),
            FindingKind::Compressible => (
                "compressible",
                "The data that is written could be packed",
                "By the entropy of sampled bytes alone; a real compressor finds more. Compression \
                 by the program or the file system would save disk and bandwidth.",
            ),
            FindingKind::UselessSeeks => (
                "useless_seeks",
                "Seeks that nothing comes of",
                "Another seek followed before any data was moved, or the position was there \
                 already: use pread and pwrite, or remember the position.",
            ),
            FindingKind::DescriptorLeak => (
                "descriptor_leak",
                "Descriptors that are never closed",
                "They were still open when the process ended: a longer run meets the limit on open \
                 files. Harmless where the program keeps them on purpose.",
            ),
            FindingKind::LockWaits => (
                "lock_waits",
                "Threads wait for locks",
                "Waiting for a lock that another thread holds costs two switches of context: hold \
                 locks for a shorter time, or split what they guard.",
            ),
            FindingKind::ShortWrites => (
                "short_writes",
                "Short writes",
                "Less was taken than was given, so the rest needs another call (and is lost where \
                 the result is not looked at): wait until there is room, or write smaller pieces.",
            ),
            FindingKind::ShortReads => (
                "short_reads",
                "Short reads within a file",
                "Less came than was asked for though the file goes on: the rest needs another call, \
                 and is missed where the result is not looked at.",
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
    /// The file, if there is one.
    pub file: Vec<u8>,
    /// Module and offset of the call site with most of the calls.
    pub site: Vec<u8>,
    /// The numbers in words.
    pub evidence: String,
}

/// Returns the findings as a table, most time first.
pub fn sheet(findings: &[Finding]) -> Sheet {
    let mut table = Table::new(
        "findings",
        "",
        &[
            ("title", "finding"),
            ("kind", ""),
            ("count", ""),
            ("bytes", ""),
            ("time_ns", "time"),
            ("file", "file"),
            ("evidence", "evidence"),
            ("site", "called from"),
            ("reason", "why"),
        ],
    );
    table.blocks = true;
    let mut findings: Vec<&Finding> = findings.iter().collect();
    findings.sort_by(|a, b| {
        let rank = |f: &Finding| (f.time_ns, f.bytes, f.count);
        rank(b).cmp(&rank(a)).then_with(|| (a.kind, &a.file).cmp(&(b.kind, &b.file)))
    });
    for finding in findings {
        let (key, title, reason) = finding.kind.words();
        table.row(vec![
            Cell::word(title),
            Cell::word(key),
            Cell::Count(finding.count),
            Cell::Bytes(finding.bytes),
            Cell::Ns(finding.time_ns),
            Cell::Name(finding.file.clone()),
            Cell::Word(finding.evidence.clone().into()),
            Cell::Name(finding.site.clone()),
            Cell::word(reason),
        ]);
    }
    let count = Cell::Count(table.rows.len() as u64);
    let facts = vec![Fact { key: "finding_count", title: "findings", value: count }];
    Sheet { facts, tables: vec![table], notes: Vec::new() }
}
