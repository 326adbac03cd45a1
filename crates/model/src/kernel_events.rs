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
    /// Something begins that interrupts what ran, and ends with the event of that name.
    Enter {
        /// The event that ends it.
        exit: &'static str,
    },
    /// What interrupted ends.
    Leave,
    /// A request goes to a device.
    Issue {
        /// Fields: the device and the place on it, which tell requests apart.
        request: [&'static str; 2],
    },
    /// A request is done.
    Complete {
        /// Fields: the device and the place on it.
        request: [&'static str; 2],
    },
}

use KernelAct::{Complete, Enter, Fork, Issue, Leave, Nothing, Switch, Wake};

/// Fields that tell a request apart.
const REQUEST: [&str; 2] = ["dev", "sector"];

/// The table.
pub static KERNEL_ROWS: [KernelRow; 46] = [
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
    row("sched", "sched_process_exec", &["pid", "old_pid"], Nothing),
    row("sched", "sched_process_exit", &["pid"], Nothing),
    row("sched", "sched_process_free", &["pid"], Nothing),
    row("sched", "sched_process_wait", &["pid"], Nothing),
    row("sched", "sched_wait_task", &["pid"], Nothing),
    row("sched", "sched_pi_setprio", &["pid"], Nothing),
    row("task", "task_newtask", &["pid"], Nothing),
    row("task", "task_rename", &["pid"], Nothing),
    row("signal", "signal_generate", &["pid"], Nothing),
    row("block", "block_rq_issue", &[], Issue { request: REQUEST }),
    row("block", "block_rq_complete", &[], Complete { request: REQUEST }),
    row("irq", "irq_handler_entry", &[], Enter { exit: "irq_handler_exit" }),
    row("irq", "irq_handler_exit", &[], Leave),
    row("irq", "softirq_entry", &[], Enter { exit: "softirq_exit" }),
    row("irq", "softirq_exit", &[], Leave),
    row("irq", "tasklet_entry", &[], Enter { exit: "tasklet_exit" }),
    row("irq", "tasklet_exit", &[], Leave),
    row("timer", "timer_expire_entry", &[], Enter { exit: "timer_expire_exit" }),
    row("timer", "timer_expire_exit", &[], Leave),
    row("timer", "hrtimer_expire_entry", &[], Enter { exit: "hrtimer_expire_exit" }),
    row("timer", "hrtimer_expire_exit", &[], Leave),
    vector("local_timer_entry", Enter { exit: "local_timer_exit" }),
    vector("local_timer_exit", Leave),
    vector("reschedule_entry", Enter { exit: "reschedule_exit" }),
    vector("reschedule_exit", Leave),
    vector("call_function_entry", Enter { exit: "call_function_exit" }),
    vector("call_function_exit", Leave),
    vector("call_function_single_entry", Enter { exit: "call_function_single_exit" }),
    vector("call_function_single_exit", Leave),
    vector("irq_work_entry", Enter { exit: "irq_work_exit" }),
    vector("irq_work_exit", Leave),
    vector("thermal_apic_entry", Enter { exit: "thermal_apic_exit" }),
    vector("thermal_apic_exit", Leave),
    vector("error_apic_entry", Enter { exit: "error_apic_exit" }),
    vector("error_apic_exit", Leave),
    vector("spurious_apic_entry", Enter { exit: "spurious_apic_exit" }),
    vector("spurious_apic_exit", Leave),
    vector("x86_platform_ipi_entry", Enter { exit: "x86_platform_ipi_exit" }),
    vector("x86_platform_ipi_exit", Leave),
    row("nmi", "nmi_handler", &[], Nothing),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_entered_is_left() {
        for row in &KERNEL_ROWS {
            if let Enter { exit } = row.does {
                let exit = kernel_row(row.system, exit).expect("a row");
                assert_eq!(exit.does, Leave);
            }
            let same = KERNEL_ROWS.iter().filter(|other| other.name == row.name);
            assert_eq!(same.count(), 1, "{}", row.name);
        }
    }
}
