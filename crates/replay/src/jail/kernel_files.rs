//! Refuses roots and binds that contain kernel file systems: first by the host's mount table, to
//! tell the user before anything is set up, and again in the jail by what is really mounted.

use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use super::{Bind, Directory, JailError, Options};

/// File systems that give access to the kernel. They must not be in a jail: root inside a user
/// namespace that maps root may, for instance, write to /proc/sys.
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

/// Refuses the root directory of this system or container.
pub fn refuse_whole_system(directory: &Directory) -> Result<(), JailError> {
    let failed = |error| JailError::io(&directory.shown().to_string(), error);
    let whole = Directory::open(Path::new("/"))?.identity().map_err(failed)?;
    match directory.identity().map_err(failed)? == whole {
        true => Err(JailError::plain(format!(
            "{} is the whole system: give a directory of its own",
            directory.shown()
        ))),
        false => Ok(()),
    }
}

/// Refuses roots and binds with the whole system in them, or kernel file systems listed in /proc.
pub fn refuse(options: &Options) -> Result<(), JailError> {
    let mounts = std::fs::read("/proc/self/mountinfo").map(|table| parse(&table));
    let hosts = options.binds.iter().map(|bind| &bind.directory);
    for directory in std::iter::once(options.root).chain(hosts) {
        refuse_whole_system(directory)?;
        if let (Ok(mounts), Ok(path)) = (&mounts, directory.path()) {
            refuse_at(&path, mounts)?;
        }
    }
    // Check this before anything is created in the root.
    match options.binds.iter().find(|bind| !is_plain(&bind.inside)) {
        Some(Bind { inside, .. }) => Err(JailError::plain(format!(
            "cannot bind at {}: not a plain absolute path below /, in UTF-8",
            inside.display()
        ))),
        None => Ok(()),
    }
}

/// Refuses a jail with such a mount. `mounts` is the jail's complete mount table.
pub fn refuse_mounted(mut mounts: impl Read) -> Result<(), JailError> {
    let mut table = Vec::new();
    let read = mounts.read_to_end(&mut table);
    read.map_err(|error| JailError::io("cannot read what is mounted in the jail", error))?;
    match parse(&table).iter().find(is_kernels) {
        None => Ok(()),
        Some((at, kind)) => Err(JailError {
            what: format!("{} in the jail is a {kind}", at.display()),
            remedy: "the mounts below the root or a bind were changed meanwhile: try again".into(),
        }),
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

fn is_kernels((_, kind): &&(PathBuf, String)) -> bool {
    KERNELS.contains(&kind.as_str())
}

fn refuse_at(dir: &Path, mounts: &[(PathBuf, String)]) -> Result<(), JailError> {
    let shown = dir.display();
    // Of the deepest mounts at a path, the last one is visible.
    let depth = |(at, _): &&(PathBuf, String)| at.components().count();
    let around = mounts.iter().filter(|(at, _)| dir.starts_with(at)).max_by_key(depth);
    let below = mounts.iter().filter(|(at, _)| at.starts_with(dir) && at != dir);
    match around.into_iter().chain(below).find(is_kernels) {
        None => Ok(()),
        Some((at, kind)) => Err(JailError {
            what: format!("{shown} gives access to {}, which is a {kind}", at.display()),
            remedy: format!("unmount that, or give another directory than {shown}"),
        }),
    }
}

/// Parses mount points and file system types of a mountinfo text.
fn parse(table: &[u8]) -> Vec<(PathBuf, String)> {
    let line = |line: &[u8]| {
        let mut words = line.split(|byte| *byte == b' ');
        let at = unescape(words.nth(4)?);
        let kind = words.skip_while(|word| *word != b"-").nth(1)?;
        Some((at, String::from_utf8_lossy(kind).into_owned()))
    };
    table.split(|byte| *byte == b'\n').filter_map(line).collect()
}

/// Decodes octal escapes of blanks, tabs, newlines and backslashes.
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
            assert_eq!(refuse_at(Path::new(good), &mounts), Ok(()), "{good}");
        }
        for bad in ["/proc", "/proc/1/root", "/a b", "/a b/sub", "/a b/sub/sys/x"] {
            assert!(refuse_at(Path::new(bad), &mounts).is_err(), "{bad}");
        }
        assert!(refuse_mounted(TABLE).is_err());
        assert_eq!(refuse_mounted(&TABLE[TABLE.len() - 120..][..60]), Ok(()));
    }
}
