//! The root is the directory that was opened, whatever happens to its path.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use replay::jail::{self, Bind, Directory, Exit, JailError, Options};

use crate::Test;
use crate::outside::Outside;

pub const TESTS: &[Test] = &[
    ("a_path_that_is_exchanged_leads_nowhere_else", a_path_that_is_exchanged_leads_nowhere_else),
    ("a_moved_root_is_still_the_root", a_moved_root_is_still_the_root),
    ("mounts_below_come_along", mounts_below_come_along),
    ("a_chroot_is_no_obstacle", a_chroot_is_no_obstacle),
    ("nothing_is_mounted_outside", nothing_is_mounted_outside),
];

/// Number of jails made while paths change.
const ROUNDS: u32 = 100;

fn options<'a>(root: &'a Directory, binds: &'a [Bind]) -> Options<'a> {
    Options { root, binds, identity: None, readable: None, filter: true }
}

/// Returns 0 if a jail sees the expected directories as `/` and `/bound`.
fn look(root: &Path, bound: &Path) -> Result<Exit, JailError> {
    let root = Directory::open(root)?;
    let binds = [Bind { directory: Directory::open(bound)?, inside: "/bound".into() }];
    let inmate = jail::spawn(&options(&root, &binds), |_| {
        let meant = Path::new("/meant").exists() && Path::new("/bound/meant").exists();
        u8::from(!meant)
    })?;
    Ok(inmate.wait().unwrap())
}

/// Makes a directory with a mark in it.
fn marked(at: PathBuf) -> PathBuf {
    std::fs::create_dir(&at).unwrap();
    std::fs::write(at.join("meant"), "").unwrap();
    at
}

/// Another user, who may rename directories above, exchanges them for links to `/`.
fn a_path_that_is_exchanged_leads_nowhere_else(outside: &Outside) {
    let place = outside.dir.join("exchanged");
    std::fs::create_dir(&place).unwrap();
    let [root, bound] = ["root", "bound"].map(|name| marked(place.join(name)));
    let link = place.join("link");
    symlink("/", &link).unwrap();
    let paths =
        [&root, &bound, &link].map(|path| CString::new(path.as_os_str().as_bytes()).unwrap());
    // SAFETY: this process has one thread; the child only makes calls, with NUL-terminated paths.
    let swapper = unsafe {
        let child = libc::fork();
        if child == 0 {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            let exchange = |a: &CString, b: &CString| {
                let (cwd, how) = (libc::AT_FDCWD, libc::RENAME_EXCHANGE);
                libc::renameat2(cwd, a.as_ptr(), cwd, b.as_ptr(), how);
            };
            loop {
                for path in &paths[..2] {
                    exchange(path, &paths[2]);
                    exchange(path, &paths[2]);
                }
            }
        }
        child
    };
    let mut entered = 0;
    let mut astray = 0;
    for _ in 0..ROUNDS {
        match look(&root, &bound) {
            Ok(Exit::Code(0)) => entered += 1,
            Ok(_) => astray += 1,
            // `/` itself is refused.
            Err(_) => {}
        }
    }
    // SAFETY: the calls take plain numbers and null; the child is ours and not reaped.
    unsafe {
        libc::kill(swapper, libc::SIGKILL);
        libc::waitpid(swapper, std::ptr::null_mut(), 0);
    }
    assert_eq!(astray, 0, "of {ROUNDS} jails, {entered} were what was meant");
    std::fs::remove_dir_all(&place).unwrap();
}

fn a_moved_root_is_still_the_root(outside: &Outside) {
    let root = marked(outside.dir.join("before"));
    let moved = outside.dir.join("after");
    let directory = Directory::open(&root).unwrap();
    std::fs::rename(&root, &moved).unwrap();
    symlink("/", &root).unwrap();
    let inmate = jail::spawn(&options(&directory, &[]), |_| Path::new("/meant").exists().into());
    assert_eq!(inmate.unwrap().wait().unwrap(), Exit::Code(1));
    std::fs::remove_file(&root).unwrap();
    std::fs::remove_dir_all(&moved).unwrap();
}

/// Runs a test as root in its own mount namespace, which removes the mounts at the end.
fn with_mounts(test: impl FnOnce()) {
    // SAFETY: geteuid takes nothing and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return;
    }
    let failures = crate::user::in_child(|| {
        // SAFETY: this process has one thread; strings are NUL-terminated.
        let apart = unsafe {
            let (none, all) = (std::ptr::null(), libc::MS_REC | libc::MS_PRIVATE);
            libc::unshare(libc::CLONE_NEWNS) == 0
                && libc::mount(none, c"/".as_ptr(), none, all, none.cast()) == 0
        };
        if apart {
            test();
        }
        0
    });
    assert_eq!(failures, 0);
}

fn mount(kind: &str, at: &Path) {
    let kind = CString::new(kind).unwrap();
    let at = CString::new(at.as_os_str().as_bytes()).unwrap();
    // SAFETY: strings are NUL-terminated; no data is passed.
    let mounted =
        unsafe { libc::mount(kind.as_ptr(), at.as_ptr(), kind.as_ptr(), 0, std::ptr::null()) };
    assert_eq!(mounted, 0, "{}", std::io::Error::last_os_error());
}

/// Mounts below the root are visible in the jail; a /proc among them is refused.
fn mounts_below_come_along(outside: &Outside) {
    let root = marked(outside.dir.join("mounted"));
    let below = root.join("below");
    std::fs::create_dir(&below).unwrap();
    with_mounts(|| {
        mount("tmpfs", &below);
        std::fs::write(below.join("meant"), "").unwrap();
        let directory = Directory::open(&root).unwrap();
        let seen =
            jail::spawn(&options(&directory, &[]), |_| Path::new("/below/meant").exists().into());
        assert_eq!(seen.unwrap().wait().unwrap(), Exit::Code(1));
        mount("proc", &below);
        let refused = jail::spawn(&options(&directory, &[]), |_| 0).unwrap_err();
        assert!(refused.to_string().contains("proc"), "{refused}");
    });
    std::fs::remove_dir_all(&root).unwrap();
}

/// The root of a chroot is not a mount point, and has no /proc.
fn a_chroot_is_no_obstacle(outside: &Outside) {
    let cage = outside.dir.join("cage");
    std::fs::create_dir(&cage).unwrap();
    let root = marked(cage.join("root"));
    let bound = marked(cage.join("bound"));
    with_mounts(|| {
        let path = CString::new(cage.as_os_str().as_bytes()).unwrap();
        // SAFETY: the path is NUL-terminated.
        assert_eq!(unsafe { libc::chroot(path.as_ptr()) }, 0);
        std::env::set_current_dir("/").unwrap();
        assert_eq!(look(Path::new("/root"), Path::new("/bound")).unwrap(), Exit::Code(0));
        look(Path::new("/"), Path::new("/bound")).expect_err("that is all there is in the chroot");
        let directory = Directory::open(Path::new("/root")).unwrap();
        let inmate = jail::spawn(&options(&directory, &[]), |_| {
            std::fs::write("/made", "").unwrap();
            std::fs::read_dir("/..").unwrap().count() as u8
        });
        // The mark, the new file, and the directory of devices.
        assert_eq!(inmate.unwrap().wait().unwrap(), Exit::Code(3));
    });
    // SAFETY: geteuid takes nothing and cannot fail.
    if unsafe { libc::geteuid() } == 0 {
        assert!(root.join("made").exists() && !bound.join("made").exists());
    }
    std::fs::remove_dir_all(&cage).unwrap();
}

fn nothing_is_mounted_outside(outside: &Outside) {
    let dir = outside.dir.display().to_string();
    let mounts = || std::fs::read_to_string("/proc/self/mountinfo").unwrap().contains(&dir);
    let inmate = outside.jail(|_| 0).unwrap();
    assert!(!mounts());
    inmate.wait().unwrap();
    assert!(!mounts());
}
