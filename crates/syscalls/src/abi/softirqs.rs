//! Second halves of interrupts, by the numbers that the kernel's events tell.

/// What one is for.
pub const fn name(number: i64) -> Option<&'static str> {
    Some(match number {
        0 => "high",
        1 => "timer",
        2 => "net-tx",
        3 => "net-rx",
        4 => "block",
        5 => "irq-poll",
        6 => "tasklet",
        7 => "sched",
        8 => "hrtimer",
        9 => "rcu",
        _ => return None,
    })
}

/// Returns true for those in which timers end.
pub const fn is_timer(number: i64) -> bool {
    matches!(number, 1 | 8)
}

/// Returns true for those that take packets from the network, or send them.
pub const fn is_network(number: i64) -> bool {
    matches!(number, 2 | 3)
}
