//! Resource limits of a task: the recorded ones, as far as our own allow.

/// The type of resources, in which C libraries differ.
#[cfg(target_env = "musl")]
pub type Resource = libc::c_int;
#[cfg(not(target_env = "musl"))]
pub type Resource = libc::__rlimit_resource_t;

/// Sets one resource limit of this process, never above its current hard limit.
pub fn take(resource: Resource, soft: u64, hard: u64) {
    // SAFETY: both structs live through the calls.
    unsafe {
        let mut ours = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        libc::getrlimit(resource, &raw mut ours);
        let rlim_max = hard.min(ours.rlim_max);
        let theirs = libc::rlimit { rlim_cur: soft.min(rlim_max), rlim_max };
        libc::setrlimit(resource, &raw const theirs);
    }
}
