//! A process's limits: a task takes those of the recording as far as ours reach.

/// Limits one resource of this process, and no more generously than it is limited.
pub fn take(resource: libc::__rlimit_resource_t, soft: u64, hard: u64) {
    // SAFETY: both structs live through the calls.
    unsafe {
        let mut ours = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        libc::getrlimit(resource, &raw mut ours);
        let rlim_max = hard.min(ours.rlim_max);
        let theirs = libc::rlimit { rlim_cur: soft.min(rlim_max), rlim_max };
        libc::setrlimit(resource, &raw const theirs);
    }
}
