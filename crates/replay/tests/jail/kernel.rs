//! Attempts to change the whole system. They would change nothing if they succeeded: the arguments
//! name nothing that exists, or only ask.

use std::mem::zeroed;
use std::ptr::{null, null_mut};

use crate::attempts::{Attempt, c_path, refused};
use crate::outside::{Outside, SECRET};

pub const ATTEMPTS: &[Attempt] = &[
    ("nothing_can_be_mounted", nothing_can_be_mounted),
    ("nothing_can_be_unmounted", nothing_can_be_unmounted),
    ("mounts_cannot_be_opened_up", mounts_cannot_be_opened_up),
    ("no_namespace_gives_powers_back", no_namespace_gives_powers_back),
    ("identity_gives_no_powers_back", identity_gives_no_powers_back),
    ("files_cannot_be_opened_by_handle", files_cannot_be_opened_by_handle),
    ("the_system_cannot_be_administered", the_system_cannot_be_administered),
    ("keys_of_the_session_are_out_of_reach", keys_of_the_session_are_out_of_reach),
    ("the_kernel_runs_no_programs_for_us", the_kernel_runs_no_programs_for_us),
    ("a_ring_opens_nothing_outside", a_ring_opens_nothing_outside),
    ("devices_keep_their_attributes", devices_keep_their_attributes),
    ("dangerous_attributes_cannot_be_set", dangerous_attributes_cannot_be_set),
];

const DENIED: &[i32] = &[libc::EPERM, libc::EACCES];

fn nothing_can_be_mounted(outside: &Outside) -> Result<(), String> {
    let dir = c_path(&outside.dir);
    // SAFETY: strings are NUL-terminated; no data is passed.
    unsafe {
        for (kind, flags) in [(c"tmpfs", 0), (c"proc", 0), (c"none", libc::MS_BIND)] {
            let kind = kind.as_ptr();
            let mounted = libc::mount(dir.as_ptr(), c"/mnt".as_ptr(), kind, flags, null());
            refused("mount", mounted.into(), DENIED)?;
        }
        let opened = libc::syscall(libc::SYS_fsopen, c"proc".as_ptr(), 0);
        refused("fsopen", opened, DENIED)?;
        let cloned = libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, c"/".as_ptr(), 1);
        refused("open_tree", cloned, DENIED)?;
        let cloned = libc::syscall(libc::SYS_open_tree, outside.leaked(), c".".as_ptr(), 1);
        refused("open_tree of a directory outside", cloned, DENIED)?;
        let pivoted = libc::syscall(libc::SYS_pivot_root, c"/mnt".as_ptr(), c"/mnt".as_ptr());
        refused("pivot_root", pivoted, DENIED)
    }
}

fn nothing_can_be_unmounted(_: &Outside) -> Result<(), String> {
    for place in [c"/", c"/dev/null", c"/mnt/shared"] {
        // SAFETY: the string is NUL-terminated.
        let gone = unsafe { libc::umount2(place.as_ptr(), libc::MNT_DETACH) };
        refused("umount", gone.into(), DENIED)?;
    }
    Ok(())
}

fn mounts_cannot_be_opened_up(_: &Outside) -> Result<(), String> {
    let flags = libc::MS_REMOUNT | libc::MS_BIND;
    // SAFETY: strings are NUL-terminated; no data is passed.
    let opened = unsafe { libc::mount(null(), c"/".as_ptr(), null(), flags, null()) };
    refused("remount", opened.into(), DENIED)
}

fn no_namespace_gives_powers_back(_: &Outside) -> Result<(), String> {
    let user = libc::CLONE_NEWUSER;
    let others = [libc::CLONE_NEWNS, libc::CLONE_NEWPID, libc::CLONE_NEWNET];
    // SAFETY: unshare takes plain numbers, and the strings of mount are NUL-terminated.
    unsafe {
        for flags in others {
            refused("unshare", libc::unshare(flags).into(), DENIED)?;
        }
        let made = libc::unshare(user | libc::CLONE_NEWNS);
        if made == 0 {
            // Where /proc is read-only, a nested namespace is possible; Landlock still refuses
            // mounts.
            let kind = c"tmpfs".as_ptr();
            let mounted = libc::mount(kind, c"/mnt".as_ptr(), kind, 0, null());
            return refused("a mount in a nested namespace", mounted.into(), DENIED);
        }
        refused("unshare", made.into(), &[libc::EPERM, libc::ENOSPC])
    }
}

fn identity_gives_no_powers_back(_: &Outside) -> Result<(), String> {
    // SAFETY: numbers, and a header and data of the size that capset expects.
    unsafe {
        libc::setresgid(0, 0, 0);
        libc::setresuid(0, 0, 0);
        // Version 3, this process; all capabilities effective and permitted.
        let header = [0x2008_0522u32, 0];
        let data = [u32::MAX, u32::MAX, 0, u32::MAX, u32::MAX, 0];
        let set = libc::syscall(libc::SYS_capset, header.as_ptr(), data.as_ptr());
        refused("capset", set, DENIED)?;
        let held = libc::prctl(libc::PR_CAPBSET_READ, 21, 0, 0, 0);
        if held > 0 { Err("SYS_ADMIN can be had".into()) } else { Ok(()) }
    }
}

/// A privileged process can open any file on the same disk by its handle, even from a jail.
fn files_cannot_be_opened_by_handle(_: &Outside) -> Result<(), String> {
    #[repr(C)]
    struct Handle {
        bytes: u32,
        kind: i32,
        content: [u8; 128],
    }
    let mut handle = Handle { bytes: 128, kind: 0, content: [0; 128] };
    let mut mount = 0;
    // SAFETY: the handle has the room that it states; the mount id is writable.
    unsafe {
        let at = (libc::AT_FDCWD, c"/".as_ptr(), &raw mut handle, &raw mut mount);
        libc::syscall(libc::SYS_name_to_handle_at, at.0, at.1, at.2, at.3, 0);
        let root = libc::open(c"/".as_ptr(), libc::O_RDONLY);
        let opened = libc::syscall(libc::SYS_open_by_handle_at, root, at.2, libc::O_RDONLY);
        refused("open_by_handle_at", opened, &[libc::EPERM, libc::EOPNOTSUPP])
    }
}

fn the_system_cannot_be_administered(_: &Outside) -> Result<(), String> {
    // SAFETY: the names do not exist, the magic numbers are wrong, and buffers have the right size.
    unsafe {
        let nothing = c"/does-not-exist".as_ptr();
        let swapped = libc::syscall(libc::SYS_swapon, nothing, 0);
        refused("swapon", swapped, DENIED)?;
        // There is no reboot without the magic numbers; permission is checked first.
        refused("reboot", libc::syscall(libc::SYS_reboot, 0, 0, 0, 0), DENIED)?;
        let loaded = libc::syscall(libc::SYS_init_module, null::<u8>(), 0, c"".as_ptr());
        refused("init_module", loaded, &[libc::EPERM, libc::ENOSYS])?;
        let executed = libc::syscall(libc::SYS_kexec_load, 0, 0, null::<u8>(), u64::MAX);
        refused("kexec_load", executed, &[libc::EPERM, libc::ENOSYS])?;
        refused("iopl", libc::syscall(libc::SYS_iopl, 3), &[libc::EPERM, libc::ENOSYS])?;
        let mut names: libc::utsname = zeroed();
        libc::uname(&raw mut names);
        let name = names.nodename.as_ptr();
        let named = libc::sethostname(name, libc::strlen(name));
        refused("sethostname to what it is", named.into(), DENIED)?;
        // Q_SYNC for an unknown type of quota.
        let quota = libc::syscall(libc::SYS_quotactl, -1, nothing, 0, null::<u8>());
        refused("quotactl", quota, &[libc::EPERM, libc::EACCES, libc::EINVAL, libc::ENOSYS])?;
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        limit.rlim_max += 1;
        let raised = libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        refused("raising a hard limit", raised.into(), DENIED)?;
        let faster = libc::setpriority(libc::PRIO_PROCESS, 0, -20);
        refused("a better priority", faster.into(), DENIED)
    }
}

fn keys_of_the_session_are_out_of_reach(outside: &Outside) -> Result<(), String> {
    if outside.key < 0 {
        return Ok(());
    }
    let mut buffer = [0u8; 64];
    // SAFETY: strings are NUL-terminated; the buffer is as large as stated.
    unsafe {
        let (kind, name) = (c"user".as_ptr(), c"reenact-jail".as_ptr());
        let session = libc::KEY_SPEC_SESSION_KEYRING;
        let search = libc::KEYCTL_SEARCH;
        let found = libc::syscall(libc::SYS_keyctl, search, session, kind, name, 0);
        refused("finding a key", found, &[libc::ENOKEY, libc::EACCES])?;
        let read = libc::KEYCTL_READ;
        let (at, len) = (buffer.as_mut_ptr(), buffer.len());
        let read = libc::syscall(libc::SYS_keyctl, read, outside.key, at, len);
        refused("reading a key", read, &[libc::EACCES, libc::ENOKEY, libc::EPERM])?;
    }
    assert!(!buffer.starts_with(SECRET.as_bytes()));
    Ok(())
}

fn the_kernel_runs_no_programs_for_us(_: &Outside) -> Result<(), String> {
    let attributes = [0u8; 128];
    let denied = &[libc::EPERM, libc::EACCES, libc::ENOSYS];
    // SAFETY: the attributes are zeros, and as large as stated.
    unsafe {
        // BPF_PROG_GET_NEXT_ID: only lists programs.
        let asked = libc::syscall(libc::SYS_bpf, 11, attributes.as_ptr(), attributes.len());
        refused("bpf", asked, denied)?;
        // Any process on the first CPU.
        let event = attributes.as_ptr();
        let watched = libc::syscall(libc::SYS_perf_event_open, event, -1, 0, -1, 0);
        refused("perf_event_open", watched, denied)
    }
}

/// io_uring makes calls in kernel threads, which must be confined as well. Tries to open the secret
/// from a directory outside, and by its path.
fn a_ring_opens_nothing_outside(outside: &Outside) -> Result<(), String> {
    let secret = c_path(&outside.secret);
    for (dir, path) in [(libc::AT_FDCWD, secret.as_c_str()), (outside.leaked(), c"secret")] {
        let Some(result) = ring::open_at(dir, path) else { return Ok(()) };
        if result >= 0 {
            return Err(format!("a ring has opened {path:?}"));
        }
    }
    match ring::open_at(libc::AT_FDCWD, c"/") {
        Some(result) if result < 0 => Err(format!("a ring opens nothing at all: {result}")),
        _ => Ok(()),
    }
}

/// The devices are those of the host. Attributes are set to their current values.
fn devices_keep_their_attributes(_: &Outside) -> Result<(), String> {
    for path in [c"/dev/null", c"/dev/zero", c"/dev/full"] {
        let path = path.as_ptr();
        let reasons = [libc::EROFS];
        // SAFETY: paths are NUL-terminated; there is room for a stat.
        unsafe {
            let mut stat: libc::stat = zeroed();
            libc::stat(path, &raw mut stat);
            let set = libc::chmod(path, stat.st_mode & 0o7777);
            refused("chmod of a device", set.into(), &reasons)?;
            let set = libc::chown(path, stat.st_uid, stat.st_gid);
            refused("chown of a device", set.into(), &reasons)?;
            let times = [libc::timespec { tv_sec: 0, tv_nsec: libc::UTIME_OMIT }; 2];
            libc::utimensat(libc::AT_FDCWD, path, times.as_ptr(), 0);
            let (name, value) = (c"user.reenact".as_ptr(), c"".as_ptr().cast());
            let set = libc::setxattr(path, name, value, 0, libc::XATTR_REPLACE);
            refused("an attribute of a device", set.into(), &[libc::EROFS, libc::EPERM])?;
        }
    }
    Ok(())
}

/// Attributes that make files dangerous or impossible to remove outside.
fn dangerous_attributes_cannot_be_set(_: &Outside) -> Result<(), String> {
    std::fs::write("/plain", "").map_err(|error| error.to_string())?;
    // A version 2 capability: SYS_ADMIN, permitted and effective.
    let capability = [1u8, 0, 0, 2, 0, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let result = (|| {
        let denied = &[libc::EPERM, libc::EACCES, libc::EOPNOTSUPP];
        // SAFETY: strings are NUL-terminated; values are as large as stated.
        unsafe {
            for (name, value) in
                [(c"security.capability", &capability[..]), (c"trusted.reenact", &[0u8; 1][..])]
            {
                let (at, len) = (value.as_ptr().cast(), value.len());
                let set = libc::setxattr(c"/plain".as_ptr(), name.as_ptr(), at, len, 0);
                refused(&format!("setting {name:?}"), set.into(), denied)?;
            }
            let fd = libc::open(c"/plain".as_ptr(), libc::O_RDONLY);
            // FS_IMMUTABLE_FL.
            let flags = 0x10i64;
            let set = libc::ioctl(fd, libc::FS_IOC_SETFLAGS as _, &raw const flags);
            libc::close(fd);
            refused(
                "making a file immutable",
                set.into(),
                &[libc::EPERM, libc::ENOTTY, libc::EOPNOTSUPP],
            )
        }
    })();
    std::fs::remove_file("/plain").map_err(|error| error.to_string())?;
    result
}

/// A single request through io_uring.
mod ring {
    use super::*;

    /// Offsets into `struct io_uring_params` in words, and other numbers of the interface.
    const PARAMS_WORDS: usize = 30;
    const SQ_OFFSETS: usize = 10;
    const CQ_OFFSETS: usize = 20;
    const SQE_BYTES: usize = 64;
    const SQES_AT: i64 = 0x1000_0000;
    const OPENAT: u8 = 18;
    const GETEVENTS: u32 = 1;

    /// Opens a file for reading through a ring. Returns the result; `None` if there are no rings.
    pub fn open_at(dir: i32, path: &std::ffi::CStr) -> Option<i32> {
        let mut params = [0u32; PARAMS_WORDS];
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the memory of the ring is mapped as the kernel describes it, and used at the
        // offsets that it returns; one request is submitted, and its result read after it has
        // arrived.
        unsafe {
            let fd = libc::syscall(libc::SYS_io_uring_setup, 1, params.as_mut_ptr()) as i32;
            if fd < 0 {
                return None;
            }
            let map = |len: usize, at: i64| {
                libc::mmap(null_mut(), len, protection, libc::MAP_SHARED, fd, at).cast::<u8>()
            };
            // Since Linux 5.4, both queues are in one mapping.
            let (rings, requests) = (map(4096, 0), map(SQE_BYTES, SQES_AT));
            assert!(rings.addr() < usize::MAX && requests.addr() < usize::MAX);
            requests.write(OPENAT);
            requests.add(4).cast::<i32>().write(dir);
            requests.add(16).cast::<u64>().write(path.as_ptr() as u64);
            let word = |offset: u32| rings.add(offset as usize).cast::<u32>();
            // sq_off: head, tail, mask, entries, flags, dropped, array. The array starts with zero.
            word(params[SQ_OFFSETS + 1]).write_volatile(1);
            libc::syscall(libc::SYS_io_uring_enter, fd, 1, 1, GETEVENTS, null::<u8>(), 0);
            // cq_off: head, tail, mask, entries, overflow, cqes. A result follows the user's word.
            assert_eq!(word(params[CQ_OFFSETS + 1]).read_volatile(), 1, "no result came");
            let result = word(params[CQ_OFFSETS + 5] + 8).cast::<i32>().read_volatile();
            libc::munmap(rings.cast(), 4096);
            libc::munmap(requests.cast(), SQE_BYTES);
            libc::close(fd);
            Some(result)
        }
    }
}
