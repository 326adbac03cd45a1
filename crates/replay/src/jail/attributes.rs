//! `mount_setattr(2)`, which neither the C library nor rustix has.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use rustix::mount::MountAttrFlags;

/// `struct mount_attr`.
#[repr(C)]
struct MountAttr {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// Sets attributes on a mount and all mounts below it, and makes them private.
pub fn restrict(tree: impl AsFd, set: MountAttrFlags) -> io::Result<()> {
    let attributes = MountAttr {
        set: set.bits().into(),
        clear: 0,
        propagation: libc::MS_PRIVATE,
        user_namespace: 0,
    };
    // SAFETY: the path is an empty NUL-terminated string, and the struct is passed with its size.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            tree.as_fd().as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | libc::AT_RECURSIVE,
            &raw const attributes,
            size_of::<MountAttr>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
