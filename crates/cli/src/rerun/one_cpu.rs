//! A re-execution and who answers it on one CPU: a thread and the driver take turns, and to wake another CPU
//! takes longer than most answers, in a virtual machine several times as long.

use std::mem::{MaybeUninit, size_of};

/// Keeps the thread that made it, and those that it starts from then on, on the CPU that it is on, until this
/// is dropped.
pub struct OneCpu {
    before: Option<libc::cpu_set_t>,
}

impl OneCpu {
    /// Keeps this thread where it is, if the kernel lets it.
    pub fn here() -> OneCpu {
        OneCpu { before: keep_here() }
    }

    /// Keeps nothing.
    pub fn nowhere() -> OneCpu {
        OneCpu { before: None }
    }
}

impl Drop for OneCpu {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            set(before);
        }
    }
}

/// Returns where the thread was allowed to be.
fn keep_here() -> Option<libc::cpu_set_t> {
    let mut before = MaybeUninit::<libc::cpu_set_t>::zeroed();
    // SAFETY: the memory is ours and as large as said; sched_getcpu has no arguments.
    let (found, cpu) = unsafe {
        let size = size_of::<libc::cpu_set_t>();
        (libc::sched_getaffinity(0, size, before.as_mut_ptr()), libc::sched_getcpu())
    };
    let cpu = usize::try_from(cpu).ok().filter(|cpu| *cpu < libc::CPU_SETSIZE as usize)?;
    if found != 0 {
        return None;
    }
    // SAFETY: a set consists of bits, for which zero is valid, and the CPU is within it.
    let one = unsafe {
        let mut one = MaybeUninit::<libc::cpu_set_t>::zeroed().assume_init();
        libc::CPU_SET(cpu, &mut one);
        one
    };
    // SAFETY: the kernel has written the set.
    set(&one).then(|| unsafe { before.assume_init() })
}

fn set(cpus: &libc::cpu_set_t) -> bool {
    // SAFETY: the set is valid for reads and as large as said.
    unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), cpus) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed() -> usize {
        // SAFETY: zero is a valid set; the memory is ours and as large as said.
        unsafe {
            let mut cpus = MaybeUninit::<libc::cpu_set_t>::zeroed().assume_init();
            libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut cpus);
            libc::CPU_COUNT(&cpus) as usize
        }
    }

    #[test]
    fn a_thread_stays_until_it_may_go() {
        let before = allowed();
        let one = OneCpu::here();
        let started = std::thread::spawn(allowed).join().unwrap();
        assert_eq!((allowed(), started), (1, 1));
        drop(one);
        assert_eq!(allowed(), before);
        drop(OneCpu::nowhere());
        assert_eq!(allowed(), before);
    }
}
