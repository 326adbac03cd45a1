//! System V shared memory: attached by id, without descriptor or path.

use std::path::PathBuf;

use ring::Arena;

use crate::{Error, Image};

/// One attached segment. It vanishes with its last user, however we end.
struct Segment {
    id: i32,
    at: *mut u8,
}

impl Segment {
    /// `rights` are the owner's: attaching for execution takes that right too.
    fn new(len: usize, rights: i32) -> Result<Segment, Error> {
        let flags = libc::IPC_CREAT | libc::SHM_NORESERVE | rights;
        // SAFETY: creates a segment of our own.
        let id = unsafe { libc::shmget(libc::IPC_PRIVATE, len, flags) };
        if id < 0 {
            return Err(Error::last(format!("creating {len} bytes of System V shared memory")));
        }
        // SAFETY: attaches our own segment; marking it removed keeps it until its last user.
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

    fn set_owner(&self, uid: u32) {
        // SAFETY: reads and writes the permissions of our own segment.
        unsafe {
            let mut info: libc::shmid_ds = std::mem::zeroed();
            if libc::shmctl(self.id, libc::IPC_STAT, &raw mut info) == 0 && info.shm_perm.uid != uid
            {
                info.shm_perm.uid = uid;
                libc::shmctl(self.id, libc::IPC_SET, &raw mut info);
            }
        }
    }
}

fn ipc_namespace(of: &str) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/{of}/ns/ipc")).ok()
}

/// The agent's image and the arena.
pub struct Segments {
    image: Segment,
    arena: Segment,
    pool_chunks: usize,
    /// The IPC namespace that they are in, as /proc names it.
    namespace: Option<PathBuf>,
}

// SAFETY: the segments stay mapped as long as this process lives; ids and addresses are plain data.
unsafe impl Send for Segments {}

impl Segments {
    /// Creates both; the arena has room for that many pool bytes.
    pub fn new(image: &Image, pool_bytes: usize) -> Result<Segments, Error> {
        let pool_chunks = (pool_bytes / ring::POOL_BYTES).clamp(1, ring::POOL_MAX);
        let arena = Segment::new(ring::arena_bytes(pool_chunks), 0o600)?;
        let shared_image = Segment::new(image.bytes.len(), 0o700)?;
        // SAFETY: the segment is as long as the image.
        unsafe {
            std::ptr::copy_nonoverlapping(image.bytes.as_ptr(), shared_image.at, image.bytes.len());
        }
        let namespace = ipc_namespace("self");
        let segments = Segments { image: shared_image, arena, pool_chunks, namespace };
        let arena = segments.arena();
        arena.control().data_max.store(u64::MAX, std::sync::atomic::Ordering::Relaxed);
        prepare(&arena, 1);
        Ok(segments)
    }

    /// The arena.
    pub fn arena(&self) -> Arena {
        // SAFETY: attached for the life of this process, zeroed when created.
        unsafe { Arena::at(self.arena.at, self.pool_chunks) }
    }

    pub(crate) fn image_id(&self) -> i32 {
        self.image.id
    }

    pub(crate) fn arena_id(&self) -> i32 {
        self.arena.id
    }

    /// Whether a thread's IPC namespace is ours.
    pub(crate) fn are_within_reach_of(&self, tid: i32) -> bool {
        ipc_namespace(&tid.to_string()) == self.namespace
    }

    /// Lets processes of this user attach. We keep our rights as the creator.
    pub(crate) fn admit(&self, uid: u32) {
        self.image.set_owner(uid);
        self.arena.set_owner(uid);
    }
}

/// Makes an arena of zeros one that agents can use.
pub(crate) fn prepare(arena: &Arena, first_number: u32) {
    let control = arena.control();
    let order = std::sync::atomic::Ordering::Relaxed;
    control.pool_chunks.store(arena.pool_chunks() as u32, order);
    control.next_thread.store(first_number, order);
    control.next_process.store(first_number, order);
    hold_alive(arena);
    control.magic.store(ring::MAGIC, std::sync::atomic::Ordering::Release);
}

/// Takes the robust mutex whose futex the kernel marks when this thread's process ends.
fn hold_alive(arena: &Arena) {
    let mutex = arena.control().alive.as_ptr() as *mut libc::pthread_mutex_t;
    const { assert!(size_of::<libc::pthread_mutex_t>() <= 64) };
    // SAFETY: the words are set aside for a mutex; it is initialised once, before anyone sees
    // the arena, and never released.
    unsafe {
        let mut attributes: libc::pthread_mutexattr_t = std::mem::zeroed();
        libc::pthread_mutexattr_init(&raw mut attributes);
        libc::pthread_mutexattr_setpshared(&raw mut attributes, libc::PTHREAD_PROCESS_SHARED);
        libc::pthread_mutexattr_setrobust(&raw mut attributes, libc::PTHREAD_MUTEX_ROBUST);
        libc::pthread_mutex_init(mutex, &raw const attributes);
        libc::pthread_mutex_lock(mutex);
    }
}
