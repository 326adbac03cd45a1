//! Names of LTTng for events of the kernel, their fields, and the arguments of calls.

use std::collections::HashMap;
use std::sync::LazyLock;

use model::kernel_events::kernel_row;

/// Arguments of calls by number, as LTTng names them: those of the kernel's source.
static ARGUMENTS: &str = include_str!("arguments.txt");

/// The same, found by number.
static BY_NUMBER: LazyLock<HashMap<u16, Vec<&'static str>>> = LazyLock::new(|| {
    let lines = ARGUMENTS.lines().filter_map(|line| {
        let mut words = line.split(' ');
        Some((words.next()?.parse().ok()?, words.collect()))
    });
    lines.collect()
});

/// Systems whose events have another prefix there.
const SYSTEMS: [(&str, &str); 2] =
    [("exceptions", "x86_exceptions"), ("irq_vectors", "x86_irq_vectors")];
/// Systems whose events name threads by what is called a process id elsewhere.
const NAMES_THREADS: [&str; 3] = ["sched", "block", "task"];
/// How names of fields end that have ids of threads, as long as the kernel's word for it.
const THREAD: &str = "tid";
/// What LTTng tells besides of an event that makes a thread.
pub const PROCESSES: [&str; 2] = ["parent_pid", "child_pid"];
/// An interrupt of the platform, of which LTTng says the last three letters.
const PLATFORM: &str = "x86_platform_ipi";
/// Letters of what a request does, and LTTng's bits for them.
const REQUEST_BITS: [(u8, u32); 7] = [
    (b'W', 1),
    (b'D', 1 << 1),
    (b'R', 1 << 2),
    (b'A', 1 << 3),
    (b'S', 1 << 5),
    (b'M', 1 << 6),
    (b'E', 1 << 7),
];
/// How many of these say what is done.
const KINDS_OF_REQUESTS: usize = 3;
/// A flush before a request, and one after it.
const FLUSH_BITS: [u32; 2] = [1 << 10, 1 << 9];

/// The name of an event.
pub fn event(system: &str, name: &str) -> String {
    let name = name.strip_prefix(PLATFORM).map_or(name, |_| &name[PLATFORM.len() - 3..]);
    if let Some((_, prefix)) = SYSTEMS.iter().find(|(of, _)| *of == system) {
        return format!("{prefix}_{name}");
    }
    let name = match name.strip_prefix("netif_") {
        Some(rest) => format!("net_if_{rest}"),
        None => name.to_string(),
    };
    match name.strip_prefix(system).map(|rest| rest.starts_with('_')) {
        Some(true) => name,
        // Handlers of interrupts begin with the system's name anyway.
        _ => format!("{system}_{name}"),
    }
}

/// The name of a field of an event.
pub fn field(system: &str, event: &str, name: &str) -> String {
    let row = kernel_row(system, event).filter(|_| NAMES_THREADS.contains(&system));
    match row.filter(|row| row.tasks.contains(&name)) {
        // An id of a thread, whatever the kernel calls it.
        Some(_) => format!("{}{THREAD}", &name[..name.len().saturating_sub(THREAD.len())]),
        None => name.to_string(),
    }
}

/// What a request does, as a number.
pub fn request(letters: &[u8]) -> u32 {
    let mut bits = 0;
    for (at, letter) in letters.iter().enumerate() {
        match REQUEST_BITS.iter().find(|(of, _)| of == letter) {
            Some((_, bit)) => bits |= bit,
            None if *letter == b'F' => bits |= FLUSH_BITS[usize::from(at > 0)],
            None => {}
        }
    }
    bits
}

/// The letters of a request, by the bits of LTTng.
pub fn letters(bits: u32) -> String {
    let before = if bits & FLUSH_BITS[0] != 0 { "F" } else { "" };
    let after = if bits & FLUSH_BITS[1] != 0 { "F" } else { "" };
    let mut letters = String::from(before);
    // What is to be done stands before the flags of how.
    for (at, (letter, bit)) in REQUEST_BITS.iter().enumerate() {
        if at == KINDS_OF_REQUESTS {
            letters.push_str(after);
        }
        if bits & bit != 0 {
            letters.push(char::from(*letter));
        }
    }
    letters
}

/// The names of a call's arguments, if LTTng has them.
pub fn arguments(nr: u16) -> Option<&'static [&'static str]> {
    BY_NUMBER.get(&nr).map(Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_lttng() {
        for (system, name, expected) in [
            ("sched", "sched_switch", "sched_switch"),
            ("irq", "irq_handler_entry", "irq_handler_entry"),
            ("irq", "softirq_entry", "irq_softirq_entry"),
            ("exceptions", "page_fault_user", "x86_exceptions_page_fault_user"),
            ("irq_vectors", "local_timer_exit", "x86_irq_vectors_local_timer_exit"),
            ("irq_vectors", "x86_platform_ipi_entry", "x86_irq_vectors_ipi_entry"),
            ("timer", "hrtimer_start", "timer_hrtimer_start"),
            ("timer", "timer_start", "timer_start"),
            ("net", "netif_receive_skb", "net_if_receive_skb"),
            ("net", "net_dev_xmit", "net_dev_xmit"),
            ("kmem", "mm_page_alloc", "kmem_mm_page_alloc"),
            ("power", "cpu_idle", "power_cpu_idle"),
            ("workqueue", "workqueue_queue_work", "workqueue_queue_work"),
            ("block", "block_rq_issue", "block_rq_issue"),
        ] {
            assert_eq!(event(system, name), expected);
        }
        assert_eq!(field("sched", "sched_switch", "prev_pid"), "prev_tid");
        assert_eq!(field("sched", "sched_waking", "pid"), "tid");
        assert_eq!(field("signal", "signal_generate", "pid"), "pid");
        assert_eq!(field("sched", "sched_switch", "prev_prio"), "prev_prio");
        assert_eq!(arguments(0), Some(["fd", "buf", "count"].as_slice()));
    }

    #[test]
    fn letters_are_bits() {
        assert_eq!(request(b"WS"), 1 | 1 << 5);
        assert_eq!(request(b"FWFSM"), 1 << 10 | 1 | 1 << 9 | 1 << 5 | 1 << 6);
        assert_eq!(
            (letters(1 | 1 << 5), letters(1 << 10 | 1 | 1 << 9)),
            ("WS".into(), "FWF".into())
        );
        assert_eq!(request(b"RA"), 1 << 2 | 1 << 3);
    }
}
