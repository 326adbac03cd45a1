//! Tells agents that the recorder is gone, however it ended: the kernel marks a word of each arena.
//!
//! When a thread ends, the kernel marks its robust futexes, following a linked list until a bad
//! address. So no list goes through memory that programs can write, where it would also show
//! addresses of ours: every word has its own thread, which names that word alone.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::sync_channel;

/// The kernel's `struct robust_list_head`.
#[repr(C)]
struct Head {
    /// An empty list points to itself.
    list: *const Head,
    offset: i64,
    /// A futex that is being taken or released. The kernel marks it although it is not in the list.
    pending: *const u32,
}

/// Makes the kernel set [`ring::FUTEX_OWNER_DIED`] in this word when this process ends.
pub fn mark_at_end(word: &'static AtomicU32) -> io::Result<()> {
    let (tell, told) = sync_channel(1);
    let hold = move || {
        let mut head = Head { list: std::ptr::null(), offset: 0, pending: word.as_ptr() };
        head.list = &raw const head;
        // SAFETY: `head` and `word` live until this thread ends, since it never returns from here.
        let named = unsafe {
            let (head, len) = (&raw const head, size_of::<Head>());
            libc::syscall(libc::SYS_set_robust_list, head, len) == 0
        };
        let held = if named {
            // SAFETY: gettid takes no arguments and cannot fail.
            word.store(unsafe { libc::gettid() }.cast_unsigned(), Ordering::SeqCst);
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        };
        let _ = tell.send(held);
        if !named {
            return;
        }
        loop {
            std::thread::park();
        }
    };
    kin::start_thread("alive", hold)?;
    told.recv().map_err(io::Error::other)?
}

#[cfg(test)]
mod tests {
    use ring::FUTEX_OWNER_DIED;

    use super::*;

    #[test]
    fn whatever_is_written_over_one_arena_the_others_are_marked() {
        const WORDS: usize = 1024;
        // SAFETY: the mapping is as long as the slice; the child starts threads and is then killed.
        unsafe {
            let (rights, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED);
            let flags = flags | libc::MAP_ANONYMOUS;
            let at = libc::mmap(std::ptr::null_mut(), 3 * 4096, rights, flags, -1, 0);
            assert_ne!(at, libc::MAP_FAILED);
            let words = std::slice::from_raw_parts(at.cast::<AtomicU32>(), 3 * WORDS);
            let child = libc::fork();
            if child == 0 {
                let held = (0..3).all(|n| mark_at_end(&words[n * WORDS]).is_ok());
                words[1].store(if held { 1 } else { 2 }, Ordering::SeqCst);
                loop {
                    libc::pause();
                }
            }
            while words[1].load(Ordering::SeqCst) == 0 {
                std::thread::yield_now();
            }
            assert_eq!(words[1].load(Ordering::SeqCst), 1);
            // The shared memory shows nothing but the word itself.
            let others = (0..3 * WORDS).filter(|n| n % WORDS != 0 && *n != 1);
            assert!(others.into_iter().all(|n| words[n].load(Ordering::SeqCst) == 0));
            for word in &words[WORDS..2 * WORDS] {
                word.store(!FUTEX_OWNER_DIED, Ordering::SeqCst);
            }
            libc::kill(child, libc::SIGKILL);
            assert_eq!(libc::waitpid(child, std::ptr::null_mut(), 0), child);
            let marked = |n: usize| words[n * WORDS].load(Ordering::SeqCst) & FUTEX_OWNER_DIED != 0;
            assert_eq!([0, 1, 2].map(marked), [true, false, true]);
        }
    }
}
