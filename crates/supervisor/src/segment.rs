//! System V shared memory, which is attached by id, without descriptor or path.

use ring::LARGE_PAGE;

use crate::Error;

/// An attached segment. The kernel removes it with its last user, however we end.
pub struct Segment {
    pub id: i32,
    pub at: *mut u8,
    len: usize,
}

// SAFETY: the segment stays mapped as long as this process lives; id and address are plain data.
unsafe impl Send for Segment {}

/// Attaches a segment at a free address, where large pages can be used if it is that long.
fn attach(id: i32, len: usize) -> *mut libc::c_void {
    let anywhere = || {
        // SAFETY: attaches at a free address.
        unsafe { libc::shmat(id, std::ptr::null(), 0) }
    };
    if len < LARGE_PAGE {
        return anywhere();
    }
    let room = len.next_multiple_of(LARGE_PAGE) + LARGE_PAGE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: what is replaced and unmapped is the room that was just mapped.
    unsafe {
        let free = libc::mmap(std::ptr::null_mut(), room, libc::PROT_NONE, flags, -1, 0);
        if free == libc::MAP_FAILED {
            return anywhere();
        }
        let before = free.align_offset(LARGE_PAGE);
        let at = libc::shmat(id, free.add(before), libc::SHM_REMAP);
        if at as isize == -1 {
            libc::munmap(free, room);
            return anywhere();
        }
        let end = before + len.next_multiple_of(4096);
        libc::munmap(free, before);
        libc::munmap(free.add(end), room - end);
        at
    }
}

impl Segment {
    /// Creates a segment of zeros that no other user can attach.
    pub fn new(len: usize) -> Result<Segment, Error> {
        let flags = libc::IPC_CREAT | libc::SHM_NORESERVE | 0o600;
        // SAFETY: takes numbers only.
        let id = unsafe { libc::shmget(libc::IPC_PRIVATE, len, flags) };
        if id < 0 {
            return Err(Error::last(format!("creating {len} bytes of System V shared memory")));
        }
        // SAFETY: takes numbers only; a removed segment lives until its last user detaches.
        unsafe {
            let at = attach(id, len);
            let error = std::io::Error::last_os_error();
            libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut());
            if at as isize == -1 {
                let mut what = format!("attaching {} MiB of System V shared memory", len >> 20);
                if error.raw_os_error() == Some(libc::ENOMEM) {
                    what.push_str(" (a higher `ulimit -v`, or a smaller --buffer, gives it room)");
                }
                return Err(Error::System { what, source: error });
            }
            Ok(Segment { id, at: at.cast(), len })
        }
    }

    /// Addresses of the large pages around these offsets.
    pub fn large_pages(&self, around: &[usize]) -> impl Iterator<Item = usize> {
        let blocks = around.iter().map(|offset| offset - offset % LARGE_PAGE);
        let whole = blocks.filter(|block| block + LARGE_PAGE <= self.len);
        whole.map(|block| self.at as usize + block)
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
