//! When tasks go on: after a sleep without delay, and where their calls are measured before others. The same holds for
//! the kernel's threads that read files for them. The thread that plans ahead, which computes most, has what is left.

/// Children would stay behind as well: whoever calls this has made its tasks.
pub fn go_last() {
    const LEAST_NICE: i32 = 19;
    wish(|wanted| wanted.sched_nice = LEAST_NICE);
}

/// Whoever has a shorter slice than others goes first when it wakes. Linux before 6.12 does not heed it.
pub fn go_first() {
    const SHORTEST_NS: u64 = 100_000;
    wish(|wanted| wanted.sched_runtime = SHORTEST_NS);
}

/// Makes sleeps of this task exact: by default the kernel may add 50 us.
pub fn sleep_exactly() {
    const SLACK_NS: libc::c_ulong = 1;
    // SAFETY: the arguments are numbers; no memory is accessed.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, SLACK_NS) };
}

/// Sets it for the calling thread. If the kernel refuses, calls are measured less exactly.
fn wish(set: impl FnOnce(&mut libc::sched_attr)) {
    // SAFETY: `sched_attr` consists of integers, for which zero is a valid value.
    let mut wanted: libc::sched_attr = unsafe { std::mem::zeroed() };
    wanted.size = size_of::<libc::sched_attr>() as u32;
    wanted.sched_policy = libc::SCHED_OTHER as u32;
    set(&mut wanted);
    // SAFETY: the kernel reads a struct of this size.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const wanted, 0) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_goes_last_has_the_least_priority() {
        let nice = std::thread::spawn(|| {
            go_first();
            go_last();
            // SAFETY: numbers only.
            unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
        });
        assert_eq!(nice.join().unwrap(), 19);
    }
}
