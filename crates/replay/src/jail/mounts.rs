//! The file system of the jail: one tree, with the old one detached.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags,
    OpenTreeFlags, UnmountFlags,
};

use super::{JailError, Options, attributes};

/// What is mounted, for the one who enters.
pub struct Mounts {
    pub proc: Option<OwnedFd>,
    /// Paths that were made to mount on, outermost first.
    pub made: Vec<String>,
}

/// The devices that are the same everywhere, and harmless.
const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full"];

/// File systems that are doors into the kernel. They must not be in a jail: root inside a user
/// namespace that maps root may write, for instance, to /proc/sys.
const KERNELS: &[&str] = &[
    "autofs",
    "binder",
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "devtmpfs",
    "efivarfs",
    "functionfs",
    "fusectl",
    "gadgetfs",
    "hugetlbfs",
    "mqueue",
    "nfsd",
    "nsfs",
    "proc",
    "pstore",
    "resctrl",
    "rpc_pipefs",
    "securityfs",
    "selinuxfs",
    "smackfs",
    "sysfs",
    "tracefs",
];

/// Refuses roots and binds that hold the whole system, or file systems of the kernel.
pub fn refuse_kernel_files(options: &Options) -> Result<(), JailError> {
    let table = std::fs::read("/proc/self/mountinfo")
        .map_err(|error| JailError::io("cannot read /proc/self/mountinfo", error))?;
    let mounts = parse(&table);
    let dirs = std::iter::once(options.root).chain(options.binds.iter().map(|bind| &*bind.host));
    for dir in dirs {
        let real = dir.canonicalize().map_err(|e| JailError::io(&dir.display().to_string(), e))?;
        refuse(&real, &mounts)?;
    }
    // Before anything is made in the root.
    match options.binds.iter().find(|bind| !is_plain(&bind.inside)) {
        Some(bind) => Err(JailError::plain(format!(
            "cannot bind at {}: not a plain absolute path below /, in UTF-8",
            bind.inside.display()
        ))),
        None => Ok(()),
    }
}

/// Whether a path names something below `/` without detours.
fn is_plain(path: &Path) -> bool {
    let mut parts = path.components();
    parts.next() == Some(Component::RootDir)
        && path.to_str().is_some()
        && path != Path::new("/")
        && parts.all(|part| matches!(part, Component::Normal(_)))
}

fn refuse(dir: &Path, mounts: &[(PathBuf, String)]) -> Result<(), JailError> {
    let shown = dir.display();
    if dir == Path::new("/") {
        return Err(JailError::plain("/ is the whole system: give a directory of its own"));
    }
    // The last of the deepest mounts is what is seen at a path.
    let depth = |(at, _): &&(PathBuf, String)| at.components().count();
    let around = mounts.iter().filter(|(at, _)| dir.starts_with(at)).max_by_key(depth);
    let below = mounts.iter().filter(|(at, _)| at.starts_with(dir) && at != dir);
    let is_kernels = |(_, kind): &&(PathBuf, String)| KERNELS.contains(&kind.as_str());
    match around.into_iter().chain(below).find(is_kernels) {
        None => Ok(()),
        Some((at, kind)) => Err(JailError {
            what: format!("{shown} gives access to {}, which is a {kind}", at.display()),
            remedy: format!("unmount that, or give another directory than {shown}"),
        }),
    }
}

/// Mount points and types of file systems, from the text of mountinfo.
fn parse(table: &[u8]) -> Vec<(PathBuf, String)> {
    let line = |line: &[u8]| {
        let mut words = line.split(|byte| *byte == b' ');
        let at = unescape(words.nth(4)?);
        let kind = words.skip_while(|word| *word != b"-").nth(1)?;
        Some((at, String::from_utf8_lossy(kind).into_owned()))
    };
    table.split(|byte| *byte == b'\n').filter_map(line).collect()
}

/// Blanks, tabs, newlines and backslashes are octal there.
fn unescape(path: &[u8]) -> PathBuf {
    let mut plain = Vec::with_capacity(path.len());
    let mut rest = path;
    while let [first, after @ ..] = rest {
        let code = after.get(..3).and_then(|code| std::str::from_utf8(code).ok());
        let code = code.and_then(|code| u8::from_str_radix(code, 8).ok());
        match (first, code) {
            (b'\\', Some(code)) => {
                plain.push(code);
                rest = &after[3..];
            }
            _ => {
                plain.push(*first);
                rest = after;
            }
        }
    }
    PathBuf::from(std::ffi::OsString::from_vec(plain))
}

/// The root, as a descriptor of the command.
pub fn open_root(options: &Options) -> Result<OwnedFd, JailError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(options.root, flags, Mode::empty())
        .map_err(|error| JailError::io(&options.root.display().to_string(), error))
}

/// Makes the root of the options the root of this process and detaches everything else. In a mount
/// namespace of our own.
pub fn enter(options: &Options) -> Result<Mounts, JailError> {
    let failed = |what: &str| {
        let what = format!("cannot mount in the jail: {what}");
        move |error: Errno| JailError::io(&what, error)
    };
    let everywhere = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", everywhere).map_err(failed("/"))?;
    let root = options.root.canonicalize().map_err(|e| JailError::io("the jail's root", e))?;
    let harmless = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let tree = detached(&root, harmless | MountAttrFlags::MOUNT_ATTR_NODEV)?;
    let mut later = Vec::new();
    for device in DEVICES.iter().map(Path::new).filter(|device| is_device(device)) {
        // The node is the host's: read-only keeps its mode and owner, and forbids no writing into it.
        let fixed = harmless | MountAttrFlags::MOUNT_ATTR_RDONLY;
        later.push((detached(device, fixed)?, device.to_path_buf()));
    }
    for bind in options.binds {
        let tree = detached(&bind.host, harmless | MountAttrFlags::MOUNT_ATTR_NODEV)?;
        later.push((tree, bind.inside.clone()));
    }
    let proc = own_proc().ok();
    attach(&tree, &root).map_err(failed("the root"))?;
    rustix::process::fchdir(&tree).map_err(failed("the root"))?;
    // The old root is put over the new one, and taken off again: no directory is needed for it.
    rustix::process::pivot_root(".", ".").map_err(failed("pivot_root"))?;
    rustix::mount::unmount(".", UnmountFlags::DETACH).map_err(failed("the old root"))?;
    rustix::process::chdir("/").map_err(failed("the new root"))?;
    let mut made = Vec::new();
    for (tree, inside) in later {
        let shown = inside.display().to_string();
        let fault = |error: io::Error| JailError::io(&format!("cannot mount at {shown}"), error);
        make_place(&tree, &inside, &mut made).map_err(fault)?;
        attach(&tree, &inside).map_err(|error| fault(error.into()))?;
    }
    Ok(Mounts { proc, made })
}

fn is_device(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.file_type().is_char_device())
}

/// A copy of a tree of mounts that hangs nowhere yet, with restrictions on all of it.
fn detached(path: &Path, restrictions: MountAttrFlags) -> Result<OwnedFd, JailError> {
    let failed = |error| JailError::io(&format!("cannot bind {}", path.display()), error);
    // Recursive: in a user namespace, a mount must not be copied without what is mounted in it.
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE;
    let tree = rustix::mount::open_tree(CWD, path, flags).map_err(|error| failed(error.into()))?;
    attributes::restrict(&tree, restrictions).map_err(failed)?;
    Ok(tree)
}

fn attach(tree: impl AsFd, at: &Path) -> rustix::io::Result<()> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    rustix::mount::move_mount(tree, "", CWD, at, flags)
}

/// Makes a path to mount on: a directory for a directory, else a file. Inside the jail.
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

/// Removes the places that were made, if nobody has put anything there. Outside, when the jail is
/// gone: the paths are followed inside the root only.
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
        // What is not empty stays: it is not only ours.
        let _ = match rustix::fs::FileType::from_raw_mode(stat.st_mode) {
            kind if kind.is_dir() => rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR),
            kind if kind.is_file() && stat.st_size == 0 => {
                rustix::fs::unlinkat(&parent, name, AtFlags::empty())
            }
            _ => Ok(()),
        };
    }
}

/// The processes of this pid namespace, without the rest of /proc, mounted nowhere.
fn own_proc() -> rustix::io::Result<OwnedFd> {
    let proc = rustix::mount::fsopen("proc", FsOpenFlags::FSOPEN_CLOEXEC)?;
    rustix::mount::fsconfig_set_string(proc.as_fd(), "subset", "pid")?;
    rustix::mount::fsconfig_create(proc.as_fd())?;
    let harmless = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    rustix::mount::fsmount(proc.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, harmless)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[u8] = b"22 27 0:21 / /proc rw,relatime shared:1 - proc proc rw\n\
        27 1 254:0 / / rw - ext4 /dev/vda rw\n\
        30 27 0:40 / /a\\040b rw - tmpfs none rw\n\
        31 30 0:41 / /a\\040b/sub/sys rw - sysfs none rw\n\
        nonsense\n";

    #[test]
    fn mounts_of_the_kernel_are_found() {
        let mounts = parse(TABLE);
        assert_eq!(mounts.len(), 4);
        assert_eq!(mounts[2], (PathBuf::from("/a b"), "tmpfs".to_string()));
        for good in ["/home", "/a b/other", "/a", "/a b/sub/system"] {
            assert_eq!(refuse(Path::new(good), &mounts), Ok(()), "{good}");
        }
        for bad in ["/", "/proc", "/proc/1/root", "/a b", "/a b/sub", "/a b/sub/sys/x"] {
            assert!(refuse(Path::new(bad), &mounts).is_err(), "{bad}");
        }
    }
}
