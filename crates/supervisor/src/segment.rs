//! System V shared memory, which is attached by id, without descriptor or path.

use crate::Error;

/// An attached segment. The kernel removes it with its last user, however we end.
pub struct Segment {
    pub id: i32,
    pub at: *mut u8,
}

// SAFETY: the segment stays mapped as long as this process lives; id and address are plain data.
unsafe impl Send for Segment {}

impl Segment {
    /// Creates a segment of zeros that no other user can attach.
    pub fn new(len: usize) -> Result<Segment, Error> {
        let flags = libc::IPC_CREAT | libc::SHM_NORESERVE | 0o600;
        // SAFETY: takes numbers only.
        let id = unsafe { libc::shmget(libc::IPC_PRIVATE, len, flags) };
        if id < 0 {
            return Err(Error::last(format!("creating {len} bytes of System V shared memory")));
        }
        // SAFETY: attaches at a free address; a removed segment lives until its last user detaches.
        unsafe {
            let at = libc::shmat(id, std::ptr::null(), 0);
            let error = std::io::Error::last_os_error();
            libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut());
            if at as isize == -1 {
                let mut what = format!("attaching {} MiB of System V shared memory", len >> 20);
                if error.raw_os_error() == Some(libc::ENOMEM) {
                    what.push_str(" (a higher `ulimit -v`, or a smaller --buffer, gives it room)");
                }
                return Err(Error::System { what, source: error });
            }
            Ok(Segment { id, at: at.cast() })
        }
    }

    /// Sets which users may attach it. The owner can change that, so a segment that its users must
    /// not write is never given to them.
    pub fn admit(&self, owner: Option<u32>, mode: u16) -> Result<(), Error> {
        // SAFETY: the kernel reads and writes a local struct.
        let done = unsafe {
            let mut info: libc::shmid_ds = std::mem::zeroed();
            libc::shmctl(self.id, libc::IPC_STAT, &raw mut info) == 0 && {
                info.shm_perm.uid = owner.unwrap_or(info.shm_perm.uid);
                info.shm_perm.mode = mode as _;
                libc::shmctl(self.id, libc::IPC_SET, &raw mut info) == 0
            }
        };
        if done { Ok(()) } else { Err(Error::last("giving rights to System V shared memory")) }
    }
}
