//! The users and groups of a process.

/// Real, effective, saved and file system ids.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Credentials {
    /// User ids.
    pub uids: [u32; 4],
    /// Group ids.
    pub gids: [u32; 4],
}

/// The credentials of this process.
pub fn own_credentials() -> Credentials {
    let (mut uids, mut gids) = ([0; 4], [0; 4]);
    // SAFETY: the kernel stores three numbers each into local arrays of four.
    unsafe {
        libc::getresuid(&raw mut uids[0], &raw mut uids[1], &raw mut uids[2]);
        libc::getresgid(&raw mut gids[0], &raw mut gids[1], &raw mut gids[2]);
    }
    (uids[3], gids[3]) = (uids[1], gids[1]);
    Credentials { uids, gids }
}
