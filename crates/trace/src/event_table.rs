//! The table of event kinds: one row has everything that is to be said of a kind. Calls have a table
//! of their own, in the crate `syscalls`.

use std::sync::OnceLock;

use crate::format::event_number;

/// A kind of event.
#[derive(PartialEq, Eq, Debug)]
pub struct EventRow {
    /// Its number in the file, from 1 to [`event_number::MAX`].
    pub number: u8,
    /// Its name in filters and exports: small letters, words separated by `_`.
    pub name: &'static str,
    /// Its type in JSON, which several kinds may share.
    pub json_type: &'static str,
    /// What it has to do with.
    pub class: EventClass,
    /// Who writes it.
    pub producer: &'static str,
    /// What it says, for the documents.
    pub about: &'static str,
    /// Its fields, in the order of the file. Later versions add fields at the end.
    pub fields: &'static [Field],
}

/// A field of an event.
#[derive(PartialEq, Eq, Debug)]
pub struct Field {
    /// Its name in exports.
    pub name: &'static str,
    /// Its type.
    pub ty: FieldType,
    /// What it says, for the documents.
    pub about: &'static str,
    /// The first version of the format that has it.
    pub since: u32,
}

/// Type of a field. Kinds that have nothing but their row use the first six.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FieldType {
    /// A byte.
    U8,
    /// A number of 32 bits.
    U32,
    /// A number of 64 bits.
    U64,
    /// A signed number of 64 bits.
    I64,
    /// A string of bytes.
    Bytes,
    /// A string of UTF-8.
    Text,
    /// A signed number of 32 bits that may be missing.
    OptionalI32,
    /// The first bytes of a siginfo.
    Siginfo,
    /// Four numbers of 32 bits.
    FourU32,
    /// A list of numbers of 32 bits.
    ListU32,
    /// A list of pairs of numbers of 64 bits.
    Pairs,
    /// A list of open descriptors.
    Descriptors,
    /// A list of items of memory.
    Memory,
}

impl FieldType {
    /// Its name in the documents.
    pub fn name(self) -> &'static str {
        match self {
            FieldType::U8 => "u8",
            FieldType::U32 => "number, 32 bits",
            FieldType::U64 => "number",
            FieldType::I64 => "signed",
            FieldType::Bytes => "bytes",
            FieldType::Text => "text",
            FieldType::OptionalI32 => "optional signed",
            FieldType::Siginfo => "48 bytes",
            FieldType::FourU32 => "4 numbers",
            FieldType::ListU32 => "list of numbers",
            FieldType::Pairs => "list of pairs of numbers",
            FieldType::Descriptors => "list of descriptors",
            FieldType::Memory => "list of items",
        }
    }

    /// Returns true if kinds that have nothing but their row may use it.
    const fn is_plain(self) -> bool {
        use FieldType::{Bytes, I64, Text, U8, U32, U64};
        matches!(self, U8 | U32 | U64 | I64 | Bytes | Text)
    }
}

/// What kinds of events have to do with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EventClass {
    /// Lives of threads, processes and programs.
    Task,
    /// Signals.
    Signal,
    /// The recording itself.
    Recording,
    /// Memory in which files are mapped.
    Mapping,
    /// The kernel.
    Kernel,
}

impl EventClass {
    /// All classes with their names.
    pub const NAMES: [(&'static str, EventClass); 5] = [
        ("task", EventClass::Task),
        ("signal", EventClass::Signal),
        ("recording", EventClass::Recording),
        ("mapping", EventClass::Mapping),
        ("kernel", EventClass::Kernel),
    ];

    /// Its name in filters, after `%`.
    pub fn name(self) -> &'static str {
        let named = Self::NAMES.iter().find(|(_, class)| *class == self);
        named.map_or("", |(name, _)| name)
    }
}

/// The table. Its order is that of exports which declare their types.
pub static ROWS: [EventRow; 19] = [
    EventRow {
        number: event_number::START,
        name: "start",
        json_type: "start",
        class: EventClass::Task,
        producer: "the agent",
        about: "the thread began",
        fields: &[
            field("how", FieldType::U8, "1 launch, 2 fork, 3 vfork, 4 thread"),
            field("process", FieldType::U32, "the process's number in the trace"),
            field("parent", FieldType::U32, "the thread that created it, 0 if none"),
            field("pid", FieldType::U32, "process id, as the process sees it"),
            field("tid", FieldType::U32, "thread id, as the process sees it"),
        ],
    },
    EventRow {
        number: event_number::IMAGE,
        name: "image",
        json_type: "exec",
        class: EventClass::Task,
        producer: "the agent",
        about: "the thread began a new program, and is its process's only thread",
        fields: &[
            field("tid", FieldType::U32, "thread id from now on"),
            field("data", FieldType::Memory, "arguments, environment, auxiliary vector"),
        ],
    },
    EventRow {
        number: event_number::END,
        name: "end",
        json_type: "exit",
        class: EventClass::Task,
        producer: "the agent",
        about: "the thread ended",
        fields: &[field("calls", FieldType::U64, "calls that it made")],
    },
    EventRow {
        number: event_number::SIGNAL,
        name: "signal",
        json_type: "signal",
        class: EventClass::Signal,
        producer: "the agent",
        about: "a signal handler was entered",
        fields: &[
            field("signal", FieldType::U8, "the signal's number"),
            field("handler", FieldType::U64, "address of the handler"),
            field("siginfo", FieldType::Siginfo, "the beginning of the siginfo"),
        ],
    },
    EventRow {
        number: event_number::STALL,
        name: "stall",
        json_type: "stall",
        class: EventClass::Recording,
        producer: "the agent",
        about: "the thread waited for the recorder",
        fields: &[field("ns", FieldType::U64, "nanoseconds")],
    },
    EventRow {
        number: event_number::GAP,
        name: "gap",
        json_type: "gap",
        class: EventClass::Recording,
        producer: "the agent and the recorder",
        about: "something is missing from here on",
        fields: &[
            field("why", FieldType::U8, "the reason, see [format.md](format.md)"),
            field("detail", FieldType::U64, "depends on the reason"),
            field("text", FieldType::Text, "explanation for people"),
        ],
    },
    EventRow {
        number: event_number::STATE,
        name: "state",
        json_type: "state",
        class: EventClass::Task,
        producer: "the recorder",
        about: "what a process is when its next program begins",
        fields: &[
            field("process", FieldType::U32, "the process's number in the trace"),
            field("pid", FieldType::U32, "process id, as the recorder sees it"),
            field("ppid", FieldType::U32, "the parent's process id, as the recorder sees it"),
            field("exe", FieldType::Bytes, "path of the executable"),
            field("cwd", FieldType::Bytes, "working directory"),
            field("root", FieldType::Bytes, "root directory"),
            field("uids", FieldType::FourU32, "real, effective, saved, file-system user id"),
            field("gids", FieldType::FourU32, "real, effective, saved, file-system group id"),
            field("groups", FieldType::ListU32, "supplementary groups"),
            field("umask", FieldType::U32, "file mode creation mask"),
            field("signals_blocked", FieldType::U64, "mask of blocked signals"),
            field("signals_ignored", FieldType::U64, "mask of ignored signals"),
            field("limits", FieldType::Pairs, "resource limits by number, soft and hard"),
            field("descriptors", FieldType::Descriptors, "open descriptors"),
            Field {
                since: 2,
                ..field(
                    "descriptors_left_out",
                    FieldType::U64,
                    "open descriptors for which there was no room",
                )
            },
        ],
    },
    EventRow {
        number: event_number::EXIT,
        name: "exit",
        json_type: "exit",
        class: EventClass::Task,
        producer: "the recorder",
        about: "a process ended",
        fields: &[
            field("process", FieldType::U32, "the process's number in the trace"),
            field("status", FieldType::OptionalI32, "its wait status"),
        ],
    },
    EventRow {
        number: event_number::MMAP_WRITE,
        name: "mmap_write",
        json_type: "mmap_write",
        class: EventClass::Mapping,
        producer: "the recorder",
        about: "a process stored to a mapped file; its part `submitted` says since when it may have, \
                `buffers` has what was there at the end, and `thread` who made the call before which \
                it was collected. Where page faults show these pages (`mmap_times`), it was \
                `thread` that stored, and the first fault was at `submitted`",
        fields: &[
            of_v2("address", FieldType::U64, "where in the process's memory"),
            of_v2("offset", FieldType::U64, "where in the file"),
            of_v2("length", FieldType::U64, "bytes of the pages that were stored to"),
            of_v2("file", FieldType::Bytes, "the file's path as the recorder sees it"),
            of_v2("device", FieldType::U64, "the file's device"),
            of_v2("inode", FieldType::U64, "the file's inode"),
            of_v2("stored", FieldType::U64, "bytes of them in the buffers, from the first one on"),
            of_v2("hash", FieldType::Bytes, "XXH3-128 of all of them, if only that was wanted"),
        ],
    },
    EventRow {
        number: event_number::MMAP_READ,
        name: "mmap_read",
        json_type: "mmap_read",
        class: EventClass::Mapping,
        producer: "the recorder",
        about: "a process read pages of a mapped file for the first time since it was mapped; its \
                part `submitted` says since when it may have, `buffers` has what was there when \
                it was found, and `thread` who made the call before which it was. Where page faults \
                show these pages (`mmap_times`), it was `thread` that read them, the first one at \
                `submitted`, the last one at the event's time",
        fields: &[
            of_v2("address", FieldType::U64, "where in the process's memory"),
            of_v2("offset", FieldType::U64, "where in the file"),
            of_v2("length", FieldType::U64, "bytes of the pages that were read"),
            of_v2("file", FieldType::Bytes, "the file's path as the recorder sees it"),
            of_v2("device", FieldType::U64, "the file's device"),
            of_v2("inode", FieldType::U64, "the file's inode"),
            of_v2("stored", FieldType::U64, "bytes of them in the buffers, from the first one on"),
            of_v2("hash", FieldType::Bytes, "XXH3-128 of all of them, if only that was wanted"),
        ],
    },
    EventRow {
        number: event_number::MMAP_LOOK,
        name: "mmap_look",
        json_type: "mmap_look",
        class: EventClass::Mapping,
        producer: "the recorder",
        about: "all mapped files of a process were looked at: what it had stored to them until the \
                time of its part `submitted` is in the events before this one",
        fields: &[of_v2("pages", FieldType::U64, "pages that were found stored to, or read")],
    },
    EventRow {
        number: event_number::MMAP_TIMES,
        name: "mmap_times",
        json_type: "mmap_times",
        class: EventClass::Mapping,
        producer: "the recorder",
        about: "where the times and threads of what a process reads of mapped files come from, from \
                here on; or that some page faults are not known",
        fields: &[
            of_v2("by_faults", FieldType::U8, "1: from page faults; 0: from looks at its memory"),
            of_v2("lost", FieldType::U64, "page faults that were lost since the last such event"),
            of_v2("why", FieldType::Text, "why not from page faults"),
        ],
    },
    EventRow {
        number: event_number::KERNEL_LAYOUT,
        name: "kernel_layout",
        json_type: "kernel_layout",
        class: EventClass::Recording,
        producer: "the recorder",
        about: "what is in events of the kernel that name it",
        fields: &[
            field("layout", FieldType::U32, "the number that they name"),
            field("system", FieldType::Text, "the system of the kernel"),
            field("name", FieldType::Text, "the name of the event"),
            field(
                "fields",
                FieldType::Bytes,
                "their fields, see [format.md](format.md#events-of-the-kernel)",
            ),
            of_v2(
                "words",
                FieldType::Bytes,
                "what numbers of fields are called, see [format.md](format.md#events-of-the-kernel)",
            ),
        ],
    },
    EventRow {
        number: event_number::KERNEL,
        name: "kernel",
        json_type: "kernel",
        class: EventClass::Kernel,
        producer: "the kernel",
        about: "an event of the kernel, in the stream of a CPU",
        fields: &[
            field("layout", FieldType::U32, "the number of its layout"),
            field("task", FieldType::U32, "id of the thread that ran, as the kernel has it"),
            field("flags", FieldType::U32, "the kernel's flags, and 256 times its preempt count"),
            field("values", FieldType::Bytes, "the values of the layout's fields"),
        ],
    },
    EventRow {
        number: event_number::KERNEL_TASK,
        name: "kernel_task",
        json_type: "kernel_task",
        class: EventClass::Recording,
        producer: "the recorder",
        about: "a thread of the machine, as /proc showed it after events of the kernel began to be taken",
        fields: &[
            field("task", FieldType::U32, "thread id, as the kernel has it"),
            field("process", FieldType::U32, "process id, as the kernel has it"),
            field("parent", FieldType::U32, "the parent's process id"),
            field("process_group", FieldType::U32, "process group"),
            field("uid", FieldType::U32, "effective user id"),
            field("gid", FieldType::U32, "effective group id"),
            field("state", FieldType::Bytes, "the letter of its state"),
            field("cpu", FieldType::U32, "the CPU that it ran on last"),
            field("is_kernel", FieldType::U8, "1 if it is one of the kernel's own"),
            field("is_followed", FieldType::U8, "1 if its events are kept where not all are"),
            field("name", FieldType::Bytes, "its name"),
            field("cgroup", FieldType::Bytes, "its cgroup"),
        ],
    },
    EventRow {
        number: event_number::KERNEL_SCOPE,
        name: "kernel_scope",
        json_type: "kernel_scope",
        class: EventClass::Recording,
        producer: "the recorder",
        about: "whose events of the kernel are kept",
        fields: &[
            field("is_whole", FieldType::U8, "1 if those of all threads are"),
            field("whose", FieldType::Text, "the conditions, as they were given"),
            field(
                "recorder",
                FieldType::U32,
                "the recorder's process id, as the kernel has it; 0: unknown",
            ),
            of_v2(
                "missing",
                FieldType::U8,
                "what may be missing of what threads did: 0 nothing, 1 what happened on other CPUs, 2 any switch",
            ),
        ],
    },
    EventRow {
        number: event_number::LOADED_FILE,
        name: "loaded_file",
        json_type: "loaded_file",
        class: EventClass::Mapping,
        producer: "the recorder, with --rerunnable",
        about: "a process is about to map a file, or the kernel has at an exec; its part `thread` says \
                which thread, 0 the kernel, and `buffers` what it maps, unless that is a program or \
                a library, or more than 64 MiB; of a mapping of more than that with holes there is an \
                event for each piece between them; of a program or library that has not changed since \
                its last event, the call has the identity instead",
        fields: &[
            of_v2("file", FieldType::Bytes, "the file's path as the recorder sees it"),
            of_v2("device", FieldType::U64, "the file's device"),
            of_v2("inode", FieldType::U64, "the file's inode"),
            of_v2("size", FieldType::U64, "its size in bytes"),
            of_v2(
                "mtime_ns",
                FieldType::I64,
                "when it was changed last, nanoseconds since the epoch",
            ),
            of_v2(
                "hash",
                FieldType::Bytes,
                "XXH3-128 of its bytes; empty if it is no regular file",
            ),
            of_v2("offset", FieldType::U64, "where in the file the mapping begins"),
            of_v2("stored", FieldType::U64, "bytes of it in the buffers, from there on"),
        ],
    },
    EventRow {
        number: event_number::TIME_SLICE,
        name: "time_slice",
        json_type: "time_slice",
        class: EventClass::Task,
        producer: "the thread, with --serialize",
        about: "the thread had run for long without a call, and let another one run",
        fields: &[of_v2(
            "ran_ns",
            FieldType::U64,
            "for how long it had had a CPU; 0: not known, as a seccomp filter forbids to ask",
        )],
    },
    EventRow {
        number: event_number::KERNEL_DEVICE,
        name: "kernel_device",
        json_type: "kernel_device",
        class: EventClass::Recording,
        producer: "the recorder",
        about: "a disk of the machine, or a part of one, as events of the kernel began to be kept",
        fields: &[
            of_v2("major", FieldType::U32, "its major number"),
            of_v2("minor", FieldType::U32, "its minor number"),
            of_v2("name", FieldType::Bytes, "its name, as in /dev"),
        ],
    },
];

const fn of_v2(name: &'static str, ty: FieldType, about: &'static str) -> Field {
    Field { since: 2, ..field(name, ty, about) }
}

const fn field(name: &'static str, ty: FieldType, about: &'static str) -> Field {
    Field { name, ty, about, since: 1 }
}

/// Rows that a test has added, to be newer than the rest of the code.
static ADDED: OnceLock<&'static [EventRow]> = OnceLock::new();

/// Adds rows for a test: they must be of other numbers and names, and have plain fields only.
#[doc(hidden)]
pub fn add_for_test(rows: &'static [EventRow]) {
    assert!(rows.iter().all(|row| row.is_plain() && row_of(row.number).is_none()));
    assert!(ADDED.set(rows).is_ok(), "a test adds its rows once");
}

/// All rows.
pub fn rows() -> impl Iterator<Item = &'static EventRow> {
    ROWS.iter().chain(ADDED.get().into_iter().flat_map(|rows| rows.iter()))
}

/// The row with a number.
pub fn row_of(number: u8) -> Option<&'static EventRow> {
    rows().find(|row| row.number == number)
}

impl EventRow {
    /// Returns true if all its fields are of types that need no code of their own.
    pub fn is_plain(&self) -> bool {
        self.fields.iter().all(|field| field.ty.is_plain())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::event::EventKind;

    /// Keys that every event has in JSON.
    const JSON_KEYS: [&str; 4] = ["type", "pid", "tid", "time_ns"];

    #[test]
    fn rows_are_told_apart_by_number_and_name() {
        let numbers: HashSet<u8> = ROWS.iter().map(|row| row.number).collect();
        assert_eq!(numbers.len(), ROWS.len());
        assert!(numbers.iter().all(|number| (1..=event_number::MAX).contains(number)));
        let names: HashSet<&str> = ROWS.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), ROWS.len());
        for row in &ROWS {
            let fields: HashSet<&str> = row.fields.iter().map(|field| field.name).collect();
            assert_eq!(fields.len(), row.fields.len(), "{}", row.name);
            assert!(
                row.fields.is_sorted_by_key(|field| field.since),
                "fields are added at the end: {}",
                row.name
            );
            // Kinds that have nothing but their row are written as it stands.
            if let EventKind::Other(_) = EventKind::blank(row) {
                for key in JSON_KEYS {
                    assert!(!fields.contains(key), "{}: all have a `{key}` in JSON", row.name);
                }
            }
        }
    }
}
