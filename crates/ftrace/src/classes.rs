//! Which events there are to choose, as a table of classes.

/// Some events that belong together.
#[derive(Debug)]
pub struct Class {
    /// Its name, as users give it.
    pub name: &'static str,
    /// What it has, for help and documents.
    pub about: &'static str,
    /// Its events as `SYSTEM/EVENT`, where `*` stands for any characters. Kernels lack some.
    pub events: &'static [&'static str],
}

/// The class that is taken if none is named.
pub const DEFAULT: &str = "core";
/// The class that the default has besides where no agent sees calls.
pub const CALLS: &str = "syscalls";

/// The classes.
pub static CLASSES: [Class; 14] = [
    Class {
        name: DEFAULT,
        about: "switches, wakeups, lives of tasks, interrupts, softirqs, timer ticks, page faults, \
                block requests",
        events: &[
            "sched/sched_switch",
            "sched/sched_waking",
            "sched/sched_wakeup_new",
            "sched/sched_migrate_task",
            "sched/sched_process_fork",
            "sched/sched_process_exec",
            "sched/sched_process_exit",
            "task/task_newtask",
            "irq/irq_handler_*",
            "irq/softirq_entry",
            "irq/softirq_exit",
            "irq_vectors/*_entry",
            "irq_vectors/*_exit",
            "exceptions/page_fault_*",
            "block/block_rq_issue",
            "block/block_rq_complete",
        ],
    },
    Class {
        name: "sched",
        about: "the scheduler: switches with the previous state, wakeups, migrations, and the lives \
                of tasks",
        events: &[
            "sched/sched_switch",
            "sched/sched_waking",
            "sched/sched_wakeup",
            "sched/sched_wakeup_new",
            "sched/sched_migrate_task",
            "sched/sched_process_*",
            "sched/sched_wait_task",
            "sched/sched_pi_setprio",
            "task/*",
        ],
    },
    Class {
        name: "irq",
        about: "interrupts of devices and of the processor, softirqs, tasklets",
        events: &["irq/*", "irq_vectors/*_entry", "irq_vectors/*_exit", "ipi/*", "nmi/*"],
    },
    Class {
        name: "exceptions",
        about: "page faults with their addresses",
        events: &["exceptions/*"],
    },
    Class { name: "timer", about: "timers of the kernel and of programs", events: &["timer/*"] },
    Class { name: "signal", about: "signals sent and delivered", events: &["signal/*"] },
    Class {
        name: "block",
        about: "requests to disks: inserted, issued, completed",
        events: &["block/*"],
    },
    Class {
        name: "fs",
        about: "page cache, read-ahead, write-back, file systems, file locks; page faults, which touch \
                mapped files",
        events: &[
            "exceptions/page_fault_user",
            "filemap/*",
            "readahead/*",
            "pagemap/*",
            "writeback/*",
            "ext4/*",
            "xfs/*",
            "btrfs/*",
            "jbd2/*",
            "iomap/*",
            "erofs/*",
            "fuse/*",
            "filelock/*",
        ],
    },
    Class {
        name: "memory",
        about: "pages and slabs, reclaim, compaction, the OOM killer",
        events: &["kmem/*", "vmscan/*", "compaction/*", "oom/*", "migrate/*", "huge_memory/*"],
    },
    Class {
        name: "net",
        about: "packets, sockets, retransmissions",
        events: &["net/*", "sock/*", "tcp/*", "udp/*", "skb/*", "napi/*", "neigh/*", "qdisc/*"],
    },
    Class { name: "lock", about: "locks that are contended", events: &["lock/contention_*"] },
    Class { name: "workqueue", about: "work of kernel threads", events: &["workqueue/*"] },
    Class { name: "power", about: "frequencies and idle states", events: &["power/*"] },
    Class {
        name: CALLS,
        about: "system calls as the kernel sees them, arguments raw",
        events: &["raw_syscalls/*"],
    },
];

/// The class with a name.
pub fn class(name: &str) -> Option<&'static Class> {
    CLASSES.iter().find(|class| class.name == name)
}

/// Returns true if `text` fits `pattern`, in which `*` stands for any characters.
pub fn fits(pattern: &str, text: &str) -> bool {
    let (mut pattern, mut text) = (pattern.as_bytes(), text.as_bytes());
    // Where the last `*` was, and what of the text it does not cover yet.
    let mut retry: Option<(&[u8], &[u8])> = None;
    loop {
        match (pattern.split_first(), text.split_first()) {
            (None, None) => return true,
            (Some((b'*', rest)), _) => {
                retry = Some((rest, text));
                pattern = rest;
            }
            (Some((wanted, pattern_rest)), Some((found, text_rest))) if wanted == found => {
                (pattern, text) = (pattern_rest, text_rest);
            }
            _ => {
                let Some((after, [_, rest @ ..])) = retry else { return false };
                (pattern, text, retry) = (after, rest, Some((after, rest)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        assert!(fits("irq_vectors/*_entry", "irq_vectors/local_timer_entry"));
        assert!(!fits("irq_vectors/*_entry", "irq_vectors/local_timer_exit"));
        assert!(!fits("irq/*", "irq_vectors/x"));
        assert!(fits("*", "") && fits("a*b*c", "aXbYbc") && !fits("a*b", "ab/c"));
        assert!(fits("sched/sched_switch", "sched/sched_switch") && !fits("a", "ab"));
    }

    #[test]
    fn classes_have_names_of_their_own() {
        for (at, one) in CLASSES.iter().enumerate() {
            assert!(CLASSES[..at].iter().all(|other| other.name != one.name));
            assert!(one.events.iter().all(|event| event.matches('/').count() == 1));
        }
    }
}
