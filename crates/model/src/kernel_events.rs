//! What events of the kernel mean, as a table: which tasks they are about, and what they begin and
//! end. Events without a row say nothing but that they happened.

/// The meaning of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelRow {
    /// Its system.
    pub system: &'static str,
    /// Its name.
    pub name: &'static str,
    /// Fields with ids of threads that it is about, beside the thread that ran.
    pub tasks: &'static [&'static str],
    /// What it does.
    pub does: KernelAct,
}

/// What an event does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelAct {
    /// Nothing that others depend on.
    Nothing,
    /// A CPU goes from one thread to another.
    Switch {
        /// Field: the thread that stops running.
        from: &'static str,
        /// Field: its state, 0 if it could go on.
        state: &'static str,
        /// Field: the thread that runs from now on.
        to: &'static str,
        /// Fields: their names.
        names: [&'static str; 2],
    },
    /// A thread that slept can run.
    Wake {
        /// Field: which one.
        task: &'static str,
        /// Field: its name.
        name: &'static str,
    },
    /// A thread makes another one.
    Fork {
        /// Field: the maker.
        parent: &'static str,
        /// Field: the new one.
        child: &'static str,
        /// Field: its name.
        name: &'static str,
    },
    /// The same, before it, with what they share.
    Make {
        /// Field: the new thread.
        task: &'static str,
        /// Field: the flags of `clone`.
        flags: &'static str,
    },
    /// A thread begins a program.
    Exec {
        /// Field: its id from now on.
        task: &'static str,
        /// Field: its id before.
        old: &'static str,
    },
    /// Something begins that interrupts what ran, and ends with the event of that name.
    Enter {
        /// The event that ends it.
        exit: &'static str,
        /// What it is.
        kind: Interrupt,
    },
    /// What interrupted ends.
    Leave,
    /// A request goes to a device.
    Issue {
        /// Fields: the device and the place on it, which tell requests apart.
        request: [&'static str; 2],
        /// Field: bytes.
        bytes: &'static str,
        /// Field: what is to be done, in letters.
        how: &'static str,
    },
    /// A request is done.
    Complete {
        /// Fields: the device and the place on it.
        request: [&'static str; 2],
    },
    /// The thread that runs has touched memory that is not there yet.
    Fault {
        /// Field: where.
        address: &'static str,
    },
    /// It begins a system call.
    Call {
        /// Fields: its number, and its arguments.
        call: [&'static str; 2],
    },
    /// It returns from one.
    Return,
    /// It begins to wait for a lock of the kernel.
    Contend {
        /// Field: which one.
        lock: &'static str,
    },
    /// It has the lock, or has given up.
    Contended,
    /// A thread goes to another cgroup.
    Moves {
        /// Field: which one.
        task: &'static str,
    },
    /// Something is done with pages of a file.
    Pages {
        /// What.
        what: Paging,
        /// Fields: the file's device and inode.
        file: [&'static str; 2],
        /// Field: the first page.
        first: &'static str,
        /// Which are meant from there on.
        rest: Rest,
    },
}

/// What is done with pages of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paging {
    /// They come into the page cache.
    Cached,
    /// A read call looks for them there.
    Read,
    /// A fault does.
    Touched,
    /// They are mapped where a fault was near them.
    Around,
    /// They are written to the disk.
    Written,
}

/// Which pages are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// One.
    One,
    /// Two to the power of this field.
    Order(&'static str),
    /// Up to the page in this field.
    Until(&'static str),
    /// So many as this field says, wherever they are.
    Count(&'static str),
}

/// What interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// A device, by number and name.
    Device {
        /// Fields: the number and the name.
        fields: [&'static str; 2],
    },
    /// The second half of one, by number.
    Soft {
        /// Field: its number.
        vector: &'static str,
    },
    /// The timer of a CPU, or one of the kernel's own.
    Timer,
    /// Another one of the processor's own.
    Processor,
}

use Interrupt::{Device, Processor, Soft, Timer};
use KernelAct::{
    Call, Complete, Contend, Contended, Enter, Exec, Fault, Fork, Issue, Leave, Make, Moves,
    Nothing, Pages, Return, Switch, Wake,
};
use Paging::{Around, Cached, Read, Touched, Written};
use Rest::{Count, One, Order, Until};

/// Fields that tell a request apart.
const REQUEST: [&str; 2] = ["dev", "sector"];

/// Fields that tell a file apart.
const PAGED: [&str; 2] = ["s_dev", "i_ino"];

/// The table.
pub static KERNEL_ROWS: [KernelRow; 59] = [
    row(
        "sched",
        "sched_switch",
        &["prev_pid", "next_pid"],
        Switch {
            from: "prev_pid",
            state: "prev_state",
            to: "next_pid",
            names: ["prev_comm", "next_comm"],
        },
    ),
    // Both tell of one wakeup; the first begins the wait for a CPU.
    row("sched", "sched_waking", &["pid"], Wake { task: "pid", name: "comm" }),
    row("sched", "sched_wakeup", &["pid"], Wake { task: "pid", name: "comm" }),
    row("sched", "sched_wakeup_new", &["pid"], Wake { task: "pid", name: "comm" }),
    row("sched", "sched_migrate_task", &["pid"], Nothing),
    row(
        "sched",
        "sched_process_fork",
        &["parent_pid", "child_pid"],
        Fork { parent: "parent_pid", child: "child_pid", name: "child_comm" },
    ),
    row("sched", "sched_process_exec", &["pid", "old_pid"], Exec { task: "pid", old: "old_pid" }),
    row("sched", "sched_process_exit", &["pid"], Nothing),
    row("sched", "sched_process_free", &["pid"], Nothing),
    row("sched", "sched_process_wait", &["pid"], Nothing),
    row("sched", "sched_wait_task", &["pid"], Nothing),
    row("sched", "sched_pi_setprio", &["pid"], Nothing),
    row("task", "task_newtask", &["pid"], Make { task: "pid", flags: "clone_flags" }),
    row("task", "task_rename", &["pid"], Nothing),
    row("signal", "signal_generate", &["pid"], Nothing),
    row("block", "block_rq_issue", &[], Issue { request: REQUEST, bytes: "bytes", how: "rwbs" }),
    row("block", "block_rq_complete", &[], Complete { request: REQUEST }),
    row(
        "irq",
        "irq_handler_entry",
        &[],
        Enter { exit: "irq_handler_exit", kind: Device { fields: ["irq", "name"] } },
    ),
    row("irq", "irq_handler_exit", &[], Leave),
    row("irq", "softirq_entry", &[], Enter { exit: "softirq_exit", kind: Soft { vector: "vec" } }),
    row("irq", "softirq_exit", &[], Leave),
    row("irq", "tasklet_entry", &[], Enter { exit: "tasklet_exit", kind: Processor }),
    row("irq", "tasklet_exit", &[], Leave),
    row("timer", "timer_expire_entry", &[], Enter { exit: "timer_expire_exit", kind: Timer }),
    row("timer", "timer_expire_exit", &[], Leave),
    row("timer", "hrtimer_expire_entry", &[], Enter { exit: "hrtimer_expire_exit", kind: Timer }),
    row("timer", "hrtimer_expire_exit", &[], Leave),
    vector("local_timer_entry", Enter { exit: "local_timer_exit", kind: Timer }),
    vector("local_timer_exit", Leave),
    vector("reschedule_entry", Enter { exit: "reschedule_exit", kind: Processor }),
    vector("reschedule_exit", Leave),
    vector("call_function_entry", Enter { exit: "call_function_exit", kind: Processor }),
    vector("call_function_exit", Leave),
    vector(
        "call_function_single_entry",
        Enter { exit: "call_function_single_exit", kind: Processor },
    ),
    vector("call_function_single_exit", Leave),
    vector("irq_work_entry", Enter { exit: "irq_work_exit", kind: Processor }),
    vector("irq_work_exit", Leave),
    vector("thermal_apic_entry", Enter { exit: "thermal_apic_exit", kind: Processor }),
    vector("thermal_apic_exit", Leave),
    vector("error_apic_entry", Enter { exit: "error_apic_exit", kind: Processor }),
    vector("error_apic_exit", Leave),
    vector("spurious_apic_entry", Enter { exit: "spurious_apic_exit", kind: Processor }),
    vector("spurious_apic_exit", Leave),
    vector("x86_platform_ipi_entry", Enter { exit: "x86_platform_ipi_exit", kind: Processor }),
    vector("x86_platform_ipi_exit", Leave),
    row("nmi", "nmi_handler", &[], Nothing),
    row("exceptions", "page_fault_user", &[], Fault { address: "address" }),
    row("exceptions", "page_fault_kernel", &[], Nothing),
    row("raw_syscalls", "sys_enter", &[], Call { call: ["id", "args"] }),
    row("raw_syscalls", "sys_exit", &[], Return),
    row("lock", "contention_begin", &[], Contend { lock: "lock_addr" }),
    row("lock", "contention_end", &[], Contended),
    row(
        "filemap",
        "mm_filemap_add_to_page_cache",
        &[],
        Pages { what: Cached, file: PAGED, first: "index", rest: Order("order") },
    ),
    row(
        "filemap",
        "mm_filemap_get_pages",
        &[],
        Pages { what: Read, file: PAGED, first: "index", rest: Until("last_index") },
    ),
    row(
        "filemap",
        "mm_filemap_fault",
        &[],
        Pages { what: Touched, file: PAGED, first: "index", rest: One },
    ),
    row(
        "filemap",
        "mm_filemap_map_pages",
        &[],
        Pages { what: Around, file: PAGED, first: "index", rest: Until("last_index") },
    ),
    row(
        "ext4",
        "ext4_writepages_result",
        &[],
        Pages {
            what: Written,
            file: ["dev", "ino"],
            first: "writeback_index",
            rest: Count("pages_written"),
        },
    ),
    row("cgroup", "cgroup_attach_task", &["pid"], Moves { task: "pid" }),
    row("cgroup", "cgroup_transfer_tasks", &["pid"], Moves { task: "pid" }),
];

const fn row(
    system: &'static str,
    name: &'static str,
    tasks: &'static [&'static str],
    does: KernelAct,
) -> KernelRow {
    KernelRow { system, name, tasks, does }
}

const fn vector(name: &'static str, does: KernelAct) -> KernelRow {
    row("irq_vectors", name, &[], does)
}

/// The row of an event, if it has one.
pub fn kernel_row(system: &str, name: &str) -> Option<&'static KernelRow> {
    KERNEL_ROWS.iter().find(|row| row.system == system && row.name == name)
}

/// All rows.
pub fn kernel_rows() -> impl Iterator<Item = &'static KernelRow> {
    KERNEL_ROWS.iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_entered_is_left() {
        for row in &KERNEL_ROWS {
            if let Enter { exit, .. } = row.does {
                let exit = kernel_row(row.system, exit).expect("a row");
                assert_eq!(exit.does, Leave);
            }
            let same = KERNEL_ROWS.iter().filter(|other| other.name == row.name);
            assert_eq!(same.count(), 1, "{}", row.name);
        }
    }
}
