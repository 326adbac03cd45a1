//! The file system of the jail: one tree, with the old one detached.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags, UnmountFlags,
};
use rustix::process::PidfdFlags;
use rustix::thread::ThreadNameSpaceType;

use super::{JailError, Options, directory, kernel_files};

/// Result of entering the jail's mounts.
pub struct Mounts {
    pub proc: Option<OwnedFd>,
    /// Mount points that were created, outermost first.
    pub made: Vec<String>,
}

/// Devices that are the same on every machine, and harmless.
const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full"];

/// Detached copies of the host's mounts, to be attached.
pub struct Trees {
    root: OwnedFd,
    binds: Vec<OwnedFd>,
}

const HARMLESS: MountAttrFlags =
    MountAttrFlags::MOUNT_ATTR_NOSUID.union(MountAttrFlags::MOUNT_ATTR_NOEXEC);

/// Copies the mounts of root and binds, in the mount namespace in which they were opened.
pub fn copy_trees(options: &Options) -> Result<Trees, JailError> {
    let restrictions = HARMLESS | MountAttrFlags::MOUNT_ATTR_NODEV;
    let tree = |directory| directory::tree(directory, restrictions);
    let binds = options.binds.iter().map(|bind| tree(&bind.directory)).collect::<Result<_, _>>()?;
    Ok(Trees { root: tree(options.root)?, binds })
}

/// Makes the root of the options this process's root and detaches everything else. Requires our own
/// mount namespace.
pub fn enter(options: &Options, trees: Trees) -> Result<Mounts, JailError> {
    let failed = |what: &str| {
        let what = format!("cannot mount in the jail: {what}");
        move |error: Errno| JailError::io(&what, error)
    };
    apart_from_others()?;
    let mut later = Vec::new();
    for device in DEVICES.iter().map(Path::new).filter(|device| is_device(device)) {
        // Read-only protects mode and owner of the host's node; the device can still be written.
        let fixed = HARMLESS | MountAttrFlags::MOUNT_ATTR_RDONLY;
        later.push((directory::tree_at(device, fixed)?, device.to_path_buf()));
    }
    let proc = own_proc().ok();
    let told = Told::before(&proc);
    // Attach the new root over `/`, then let pivot_root put the old root over it, and detach that:
    // no extra directory is needed.
    attach(&trees.root, Path::new("/")).map_err(failed("the root"))?;
    rustix::process::fchdir(&trees.root).map_err(failed("the root"))?;
    rustix::process::pivot_root(".", ".").map_err(failed("pivot_root"))?;
    rustix::mount::unmount(".", UnmountFlags::DETACH).map_err(failed("the old root"))?;
    rustix::process::chdir("/").map_err(failed("the new root"))?;
    told.refuse_kernel_files()?;
    let mut made = Vec::new();
    let mut place = |tree: OwnedFd, inside: &Path| {
        let shown = inside.display();
        let fault = |error: io::Error| JailError::io(&format!("cannot mount at {shown}"), error);
        make_place(&tree, inside, &mut made).map_err(fault)?;
        attach(&tree, inside).map_err(|error| fault(error.into()))
    };
    for (tree, bind) in trees.binds.into_iter().zip(options.binds) {
        place(tree, &bind.inside)?;
    }
    told.refuse_kernel_files()?;
    for (tree, inside) in later {
        place(tree, &inside)?;
    }
    Ok(Mounts { proc, made })
}

/// Makes all mounts of this namespace private.
fn apart_from_others() -> Result<(), JailError> {
    let everywhere = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    let private = || rustix::mount::mount_change("/", everywhere);
    let in_chroot = |error: Errno| JailError {
        what: format!("cannot mount in the jail: / is no mount point, as in a chroot: {error}"),
        remedy:
            "outside, bind the directory onto itself before the chroot (`mount --bind DIR DIR`), \
                 or replay outside"
                .into(),
    };
    match private() {
        // `/` is no mount point, as after a chroot. Entering our own mount namespace leads to its
        // real root, which is only used as a place to mount on.
        Err(Errno::INVAL) => enter_own_namespace().and_then(|()| private()).map_err(in_chroot),
        changed => changed.map_err(|error| JailError::io("cannot mount in the jail: /", error)),
    }
}

fn enter_own_namespace() -> rustix::io::Result<()> {
    let own = rustix::process::pidfd_open(rustix::process::getpid(), PidfdFlags::empty())?;
    rustix::thread::move_into_thread_name_spaces(own.as_fd(), ThreadNameSpaceType::MOUNT)
}

/// /proc directory of this process, to read the mount table whatever the root is.
struct Told(Option<OwnedFd>);

impl Told {
    fn before(proc: &Option<OwnedFd>) -> Told {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let own = match proc {
            Some(proc) => rustix::fs::openat(proc, "self", flags, Mode::empty()),
            None => rustix::fs::open("/proc/self", flags, Mode::empty()),
        };
        Told(own.ok())
    }

    fn refuse_kernel_files(&self) -> Result<(), JailError> {
        let what = "cannot see what is mounted in the jail";
        let Some(own) = &self.0 else { return Err(JailError::plain(what)) };
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let table = rustix::fs::openat(own, "mountinfo", flags, Mode::empty());
        let table = table.map_err(|error| JailError::io(what, error))?;
        kernel_files::refuse_mounted(std::fs::File::from(table))
    }
}

fn is_device(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.file_type().is_char_device())
}

fn attach(tree: impl AsFd, at: &Path) -> rustix::io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    rustix::mount::move_mount(tree, "", CWD, at, flags)
}

/// Creates a mount point inside the jail: a directory for a directory, else a file.
fn make_place(tree: impl AsFd, at: &Path, made: &mut Vec<String>) -> io::Result<()> {
    let mount = rustix::fs::fstat(&tree)?;
    let is_dir = rustix::fs::FileType::from_raw_mode(mount.st_mode).is_dir();
    let mut above: Vec<&Path> = at.ancestors().skip(1).collect();
    above.reverse();
    let dirs = above.into_iter().chain(is_dir.then_some(at));
    for dir in dirs.skip(1) {
        match std::fs::create_dir(dir) {
            Ok(()) => made.push(dir.display().to_string()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    if is_dir {
        return Ok(());
    }
    let mut new = std::fs::OpenOptions::new();
    match new.write(true).create_new(true).mode(0o666).open(at) {
        Ok(_) => made.push(at.display().to_string()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Removes created mount points that are still empty. Called outside, when the jail is gone: the
/// paths are resolved beneath the root only.
pub fn remove_made(root: &OwnedFd, made: &[String]) {
    let inside = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    for path in made.iter().rev() {
        let Some((parent, name)) = path.trim_start_matches('/').rsplit_once('/').or_else(|| {
            let name = path.trim_start_matches('/');
            (!name.is_empty()).then_some((".", name))
        }) else {
            continue;
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let parent = rustix::fs::openat2(root, parent, flags, Mode::empty(), inside);
        let Ok(parent) = parent else { continue };
        let stat = rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW);
        let Ok(stat) = stat else { continue };
        // What is not empty stays: others have used it.
        let _ = match rustix::fs::FileType::from_raw_mode(stat.st_mode) {
            kind if kind.is_dir() => rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR),
            kind if kind.is_file() && stat.st_size == 0 => {
                rustix::fs::unlinkat(&parent, name, AtFlags::empty())
            }
            _ => Ok(()),
        };
    }
}

/// Returns a /proc with only the processes of this pid namespace, mounted nowhere.
fn own_proc() -> rustix::io::Result<OwnedFd> {
    let proc = rustix::mount::fsopen("proc", FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_set_string(proc.as_fd(), "subset", "pid")?;
    rustix::mount::fsconfig_create(proc.as_fd())?;
    let harmless = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    rustix::mount::fsmount(proc.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, harmless)
}
