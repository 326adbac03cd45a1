//! The life of a jail: what is in it, how it ends, what is left.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::mpsc;

use replay::jail::{self, Directory, Exit, Options, Powers};
use replay::task::{self, Descriptors, Directories};

use crate::Test;
use crate::outside::Outside;

pub const TESTS: &[Test] = &[
    ("what_protects_is_told", what_protects_is_told),
    ("files_inside_can_be_used", files_inside_can_be_used),
    ("devices_are_there_and_leave_nothing", devices_are_there_and_leave_nothing),
    ("ends_are_told", ends_are_told),
    ("all_tasks_end_with_the_jail", all_tasks_end_with_the_jail),
    ("without_powers_permissions_count", without_powers_permissions_count),
    ("ids_are_as_asked", ids_are_as_asked),
    ("own_processes_are_seen", own_processes_are_seen),
    ("what_is_readable_is_only_that", what_is_readable_is_only_that),
    ("bad_roots_are_refused", bad_roots_are_refused),
    ("removal_follows_no_trap", removal_follows_no_trap),
];

/// Returns whether this system allows new namespaces at all.
pub fn namespaces_work() -> bool {
    // SAFETY: this process has one thread; the child only makes two calls.
    unsafe {
        let child = libc::fork();
        if child == 0 {
            let made = libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS);
            libc::_exit((made != 0).into());
        }
        let mut status = 0;
        libc::waitpid(child, &raw mut status, 0) == child && status == 0
    }
}

/// Runs `body` in a jail; a failed assertion there fails here as well.
fn inside(outside: &Outside, body: impl FnOnce(jail::Jail)) {
    let inmate = outside.jail(|jail| {
        body(jail);
        7
    });
    assert_eq!(inmate.unwrap().wait().unwrap(), Exit::Code(7));
}

fn what_protects_is_told(outside: &Outside) {
    let inmate = outside.jail(|jail| jail.protection.landlock.unwrap_or(0) as u8).unwrap();
    let protection = inmate.protection.clone();
    let told = protection.to_string();
    assert!(told.contains("pivot_root") && told.contains("Landlock"), "{told}");
    assert!(told.ends_with("seccomp"), "{told}");
    assert_eq!(told.contains("user"), protection.user_namespace, "{told}");
    let version = protection.landlock.unwrap_or(0) as u8;
    assert_eq!(inmate.wait().unwrap(), Exit::Code(version));
}

fn files_inside_can_be_used(outside: &Outside) {
    inside(outside, |_| {
        std::fs::write("/file", "x").unwrap();
        std::fs::rename("/file", "/mnt/moved").unwrap();
        std::fs::create_dir_all("/a/b").unwrap();
        std::fs::rename("/mnt/moved", "/a/b/file").unwrap();
        std::fs::hard_link("/a/b/file", "/a/hard").unwrap();
        symlink("/a/b/file", "/a/soft").unwrap();
        assert_eq!(std::fs::read("/a/soft").unwrap(), b"x");
        assert_eq!(std::fs::metadata("/a/hard").unwrap().nlink(), 2);
        assert_eq!(std::fs::read("/mnt/shared/there").unwrap(), b"shared");
        std::fs::write("/mnt/shared/new", "n").unwrap();
        // Separate mounts behave as such: links and renames do not cross them.
        let crossed = std::fs::hard_link("/a/hard", "/mnt/shared/hard").unwrap_err();
        assert_eq!(crossed.raw_os_error(), Some(libc::EXDEV));
        std::fs::set_permissions("/a/hard", PermissionsExt::from_mode(0o640)).unwrap();
        std::fs::File::options().write(true).open("/a/hard").unwrap().set_len(0).unwrap();
    });
    assert_eq!(std::fs::read(outside.shared.join("new")).unwrap(), b"n");
    assert!(!outside.root.join("mnt").exists(), "made for the bind, and empty");
    let file = outside.root.join("a/b/file");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o640);
    std::fs::remove_dir_all(outside.root.join("a")).unwrap();
}

fn devices_are_there_and_leave_nothing(outside: &Outside) {
    inside(outside, |_| {
        let mut zeros = [1; 16];
        File::open("/dev/zero").unwrap().read_exact(&mut zeros).unwrap();
        assert_eq!(zeros, [0; 16]);
        File::create("/dev/null").unwrap().write_all(b"x").unwrap();
        let full = File::options().write(true).open("/dev/full").unwrap().write(b"x").unwrap_err();
        assert_eq!(full.raw_os_error(), Some(libc::ENOSPC));
        let mut names: Vec<_> = std::fs::read_dir("/dev").unwrap().map(Result::unwrap).collect();
        names.sort_by_key(|entry| entry.file_name());
        assert_eq!(names.len(), 3);
    });
    assert!(!outside.root.join("dev").exists());
}

fn ends_are_told(outside: &Outside) {
    let killed = outside.jail(|_| {
        // SAFETY: the null write ends this process, which is intended. As the first one of its
        // namespace, it can only be ended by signals from outside or from the kernel.
        unsafe {
            libc::signal(libc::SIGSEGV, libc::SIG_DFL);
            std::ptr::null_mut::<u8>().write_volatile(0);
        }
        0
    });
    assert_eq!(killed.unwrap().wait().unwrap(), Exit::Signal(libc::SIGSEGV));
    let waits = || {
        outside
            .jail(|_| {
                loop {
                    std::thread::park()
                }
            })
            .unwrap()
    };
    assert_eq!(waits().kill().unwrap(), Exit::Signal(libc::SIGKILL));
    drop(waits());
}

/// Makes a pipe that reads as ended when all holders of its writing end are gone.
fn pipe() -> (File, OwnedFd) {
    let mut ends = [0; 2];
    // SAFETY: there is room for two numbers, which become new descriptors that nothing else owns.
    unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0);
        (File::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
    }
}

fn all_tasks_end_with_the_jail(outside: &Outside) {
    for killed in [false, true] {
        let (mut reader, writer) = pipe();
        let inmate = outside
            .jail(|_| {
                let (tell, told) = mpsc::channel();
                let copied = (Descriptors::Copied, Directories::Copied);
                let started = task::spawn_process(
                    copied.0,
                    copied.1,
                    Box::new(move || {
                        tell.send(()).unwrap();
                        loop {
                            std::thread::park()
                        }
                    }),
                    Box::new(|_| {}),
                );
                assert!(started.is_ok());
                told.recv().unwrap();
                let mut told = File::from(writer);
                told.write_all(b"r").unwrap();
                if killed {
                    loop {
                        std::thread::park()
                    }
                }
                0
            })
            .unwrap();
        // The file only ends when the task, which has a copy of the descriptor, is dead.
        let mut byte = [0];
        reader.read_exact(&mut byte).unwrap();
        let exit = if killed { inmate.kill() } else { inmate.wait() };
        assert_eq!(exit.unwrap() == Exit::Code(0), !killed);
        assert_eq!(reader.read(&mut byte).unwrap(), 0);
    }
}

fn without_powers_permissions_count(outside: &Outside) {
    inside(outside, |_| {
        std::fs::write("/closed", "x").unwrap();
        std::fs::set_permissions("/closed", PermissionsExt::from_mode(0o000)).unwrap();
        File::open("/closed").expect("with root's powers over files");
        Powers::None.keep().unwrap();
        let refused = File::open("/closed").unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EACCES));
        Powers::Files.keep().unwrap();
        File::open("/closed").expect_err("what is given up does not come back");
        std::fs::remove_file("/closed").unwrap();
    });
}

fn ids_are_as_asked(outside: &Outside) {
    // SAFETY: geteuid takes nothing and cannot fail.
    let own = unsafe { libc::geteuid() };
    let root = Directory::open(&outside.root).unwrap();
    let options = Options {
        root: &root,
        binds: &[],
        identity: Some((4321, 1234)),
        readable: None,
        filter: true,
    };
    let inmate = jail::spawn(&options, |_| {
        std::fs::write("/owned", "").unwrap();
        let owned = std::fs::metadata("/owned").unwrap();
        // SAFETY: geteuid takes nothing and cannot fail.
        assert_eq!(unsafe { libc::geteuid() }, owned.uid());
        std::fs::remove_file("/owned").unwrap();
        (owned.uid() == 4321 && owned.gid() == 1234).into()
    });
    assert_eq!(inmate.unwrap().wait().unwrap(), Exit::Code((own != 0).into()));
}

fn own_processes_are_seen(outside: &Outside) {
    inside(outside, |jail| {
        let Some(proc) = jail.proc else { return };
        let at = rustix::fs::openat(
            &proc.processes,
            "self/stat",
            rustix::fs::OFlags::RDONLY,
            rustix::fs::Mode::empty(),
        );
        let mut stat = String::new();
        File::from(at.unwrap()).read_to_string(&mut stat).unwrap();
        assert!(stat.starts_with("1 ("), "{stat}");
        assert!(!Path::new("/proc").exists());
        assert!(proc.processes.as_raw_fd() > 2);
    });
}

fn what_is_readable_is_only_that(outside: &Outside) {
    use rustix::fs::{Mode, OFlags, openat};
    let dir = File::open(outside.dir.join("precious")).unwrap();
    let readable = Some(dir.as_fd());
    let root = Directory::open(&outside.root).unwrap();
    let options = Options { root: &root, binds: &[], identity: None, readable, filter: true };
    let inmate = jail::spawn(&options, |jail| {
        openat(&dir, "null", OFlags::RDONLY, Mode::empty()).expect("what may be read");
        if jail.protection.landlock.is_some() {
            openat(&dir, "null", OFlags::WRONLY, Mode::empty()).expect_err("it may only be read");
            openat(&dir, "../secret", OFlags::RDONLY, Mode::empty()).expect_err("beside it");
        }
        7
    });
    assert_eq!(inmate.unwrap().wait().unwrap(), Exit::Code(7));
}

fn bad_roots_are_refused(outside: &Outside) {
    let missing = outside.dir.join("missing");
    let bad = ["/", "/proc", "/proc/self/root", "/sys/kernel", "/dev", "/etc/hostname"];
    let spawn = |root: &Directory, binds: &[jail::Bind]| {
        let options = Options { root, binds, identity: None, readable: None, filter: true };
        jail::spawn(&options, |_| 0).map(|_| ())
    };
    for root in bad.iter().map(Path::new).chain([missing.as_path(), &outside.secret]) {
        let error = Directory::open(root).and_then(|root| spawn(&root, &[])).unwrap_err();
        assert!(!error.to_string().is_empty(), "{}", root.display());
    }
    let root = Directory::open(&outside.root).unwrap();
    let bind = |host: &Path, inside: &str| {
        let directory = Directory::open(host).unwrap();
        spawn(&root, &[jail::Bind { directory, inside: inside.into() }])
    };
    for inside in ["/", "relative", "/../.."] {
        bind(&outside.shared, inside).expect_err(inside);
    }
    for host in ["/", "/proc", "/sys/kernel", "/dev"] {
        bind(Path::new(host), "/mnt").expect_err(host);
    }
    assert!(!outside.root.join("mnt").exists());
}

/// The jail replaces a directory that was made for it by a link to the outside; the cleanup must
/// stay inside.
fn removal_follows_no_trap(outside: &Outside) {
    let precious = outside.dir.join("precious");
    assert!(!outside.root.join("dev").exists(), "nothing would be made, and nothing removed");
    inside(outside, |_| {
        std::fs::rename("/dev", "/moved").unwrap();
        symlink(&precious, "/dev").unwrap();
    });
    assert!(precious.join("null").exists());
    std::fs::remove_file(outside.root.join("dev")).unwrap();
    std::fs::remove_dir_all(outside.root.join("moved")).unwrap();
}
