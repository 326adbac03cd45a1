//! Groups of calls that pictures show in one colour. Each call belongs to exactly one.

use model::file_use;
use syscalls::shape::Classes;

/// Number of groups.
pub const COUNT: usize = 8;

/// Key and title of each group, in drawing order.
pub const WORDS: [(&str, &str); COUNT] = [
    ("read", "reads"),
    ("write", "writes"),
    ("sync", "syncs"),
    ("file", "files and descriptors"),
    ("memory", "memory"),
    ("task", "processes and signals"),
    ("wait", "waits"),
    ("other", "other calls"),
];

/// The group of waits.
pub const WAIT: usize = 6;

/// Classes of each group. A call belongs to the first one that matches.
const CLASSES: [(usize, Classes); 7] = [
    (2, Classes::SYNC),
    (WAIT, Classes::WAIT),
    (1, Classes::WRITE),
    (0, Classes::READ),
    (4, Classes::MEMORY),
    (3, Classes::FILE.or(Classes::STAT).or(Classes::CHANGE).or(Classes::DESC)),
    (5, Classes::PROCESS.or(Classes::SIGNAL).or(Classes::CREDS).or(Classes::IPC)),
];

/// Returns the index in [`WORDS`] of a call's group.
pub fn of(nr: u16) -> usize {
    let used = file_use::of(nr);
    let found = CLASSES.iter().find(|(_, classes)| used.is(*classes));
    found.map_or(COUNT - 1, |(group, _)| *group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_where_people_look_for_them() {
        for (call, group) in [
            ("pread64", "read"),
            ("writev", "write"),
            ("sendfile", "write"),
            ("fdatasync", "sync"),
            ("openat", "file"),
            ("lseek", "file"),
            ("mmap", "memory"),
            ("clone3", "task"),
            ("futex", "wait"),
            ("epoll_wait", "wait"),
            ("wait4", "wait"),
            ("clock_gettime", "other"),
        ] {
            let nr = syscalls::by_name(call).expect("a row").nr;
            assert_eq!(WORDS[of(nr)].0, group, "{call}");
        }
        assert_eq!(WORDS[of(u16::MAX)].0, "other");
    }
}
