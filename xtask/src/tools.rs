//! Programs that tests and benchmarks use, and their Debian packages.

use std::path::Path;
use std::process::{Command, Stdio};

/// Program (or package, if it is not a program); Debian package; a file that exists if it is
/// installed, for what is not in the search path.
const PACKAGES: &[(&str, &str, Option<&str>)] = &[
    ("strace", "strace", None),
    ("gdb", "gdb", None),
    // What was kept names places in libc by them.
    ("libc6-dbg", "libc6-dbg", Some("/usr/share/doc/libc6-dbg")),
    ("babeltrace2", "babeltrace2", None),
    ("python3-bt2", "python3-bt2", Some("/usr/lib/python3/dist-packages/bt2")),
    ("perf", "linux-perf", None),
    ("trace-cmd", "trace-cmd", None),
    ("bzip2", "bzip2", None),
    ("gnuplot", "gnuplot-nox", None),
    ("pdftotext", "poppler-utils", None),
    ("stress-ng", "stress-ng", None),
    ("sqlite3", "sqlite3", None),
    ("python3", "python3", Some("/usr/bin/python3")),
    ("zstd", "zstd", None),
    ("setcap", "libcap2-bin", Some("/usr/sbin/setcap")),
    ("git", "git", None),
    ("gcc", "gcc", None),
    ("make", "make", None),
    ("go", "golang-go", None),
    ("fio", "fio", None),
    ("chromium", "chromium", None),
    ("bwrap", "bubblewrap", None),
    ("busybox", "busybox-static", None),
    ("mariadbd", "mariadb-server", Some("/usr/sbin/mariadbd")),
    ("sysbench", "sysbench", None),
    ("npm", "npm", None),
    ("pip3", "python3-pip", Some("/usr/bin/pip3")),
    ("rsync", "rsync", None),
    ("runc", "runc", None),
    ("podman", "podman", None),
    ("systemd-nspawn", "systemd-container", None),
    ("debootstrap", "debootstrap", Some("/usr/sbin/debootstrap")),
    ("db_bench", "rocksdb-tools", None),
    ("liblmdb-dev", "liblmdb-dev", Some("/usr/include/lmdb.h")),
    ("postgresql", "postgresql", Some("/usr/lib/postgresql")),
    ("python3-venv", "python3-venv", Some("/usr/share/doc/python3-venv")),
    ("java", "default-jre-headless", None),
    ("javac", "default-jdk-headless", None),
    ("dpkg-source", "dpkg-dev", None),
    ("liburing-dev", "liburing-dev", Some("/usr/include/liburing.h")),
    ("node", "nodejs", None),
    ("sysbench", "sysbench", None),
    ("mkfs.ext4", "e2fsprogs", Some("/usr/sbin/mkfs.ext4")),
    ("mkfs.xfs", "xfsprogs", Some("/usr/sbin/mkfs.xfs")),
    ("mkfs.btrfs", "btrfs-progs", Some("/usr/sbin/mkfs.btrfs")),
    (
        "libpython3.11-testsuite",
        "libpython3.11-testsuite",
        Some("/usr/lib/python3.11/test/test_os.py"),
    ),
];

/// Returns whether a tool is installed.
pub fn is_there(tool: &str) -> bool {
    let place = PACKAGES.iter().find(|(name, ..)| *name == tool).and_then(|(.., place)| *place);
    match place {
        Some(path) => Path::new(path).exists(),
        None => std::env::var_os("PATH")
            .is_some_and(|paths| std::env::split_paths(&paths).any(|dir| dir.join(tool).exists())),
    }
}

/// Installs missing tools as root on Debian; otherwise prints what to install. Failures are not
/// fatal: users of a tool report that it is missing.
pub fn provide(tools: &[&str]) {
    let missing: Vec<&str> = PACKAGES
        .iter()
        .filter(|(name, ..)| tools.contains(name) && !is_there(name))
        .map(|(_, package, _)| *package)
        .collect();
    if missing.is_empty() {
        return;
    }
    // SAFETY: geteuid takes nothing and cannot fail.
    let root = unsafe { libc::geteuid() == 0 };
    if !root || !is_there("apt-get") {
        eprintln!("xtask: not installed: {0}; `sudo apt-get install {0}`", missing.join(" "));
        return;
    }
    eprintln!("xtask: installing {}", missing.join(" "));
    let apt = |args: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(args).env("DEBIAN_FRONTEND", "noninteractive").stdout(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let mut install = vec!["install", "-y", "--no-install-recommends"];
    install.extend(&missing);
    if !(apt(&["update"]) && apt(&install)) {
        eprintln!("xtask: apt-get could not install all of {}", missing.join(" "));
    }
}

/// Mounts tracefs as root where nobody has: without it, tests of events of the kernel are left out.
pub fn provide_tracefs() {
    const PLACE: &str = "/sys/kernel/tracing";
    // SAFETY: geteuid takes nothing and cannot fail.
    let root = unsafe { libc::geteuid() == 0 };
    if !root || !Path::new(PLACE).exists() || Path::new(PLACE).join("instances").exists() {
        return;
    }
    eprintln!("xtask: mounting tracefs at {PLACE}");
    let mounted = Command::new("mount").args(["-t", "tracefs", "tracefs", PLACE]).status();
    if !mounted.is_ok_and(|status| status.success()) {
        eprintln!("xtask: tracefs cannot be mounted");
    }
}

/// Fetches and builds liburing's own tests, by their Debian source. Failures are not fatal: who uses
/// them reports that they are missing.
pub fn provide_liburing_tests() {
    const BUILD: &str = "\
        . /etc/os-release; mkdir -p lists/partial
        echo \"deb-src http://deb.debian.org/debian $VERSION_CODENAME main\" > sources.list
        from() { apt-get -q -o Dir::Etc::SourceList=$PWD/sources.list -o Dir::Etc::SourceParts=- \
            -o Dir::State::Lists=$PWD/lists \"$@\"; }
        from update; from source liburing; cd liburing-*/; ./configure
        make -C src; make -C test; touch ../built";
    let place = crate::repository().join("target/sources/liburing");
    if place.join("built").exists() {
        return;
    }
    eprintln!("xtask: building liburing's tests in {}", place.display());
    let made = std::fs::create_dir_all(&place).is_ok_and(|()| {
        let mut command = Command::new("sh");
        command.args(["-ec", BUILD]).current_dir(&place).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    });
    if !made {
        eprintln!("xtask: liburing's tests could not be built");
    }
}

/// Makes a Python environment under `target` and installs packages from PyPI into it. Failures are
/// not fatal: users of a package report that it is missing.
pub fn provide_python(packages: &[&str]) {
    let place = crate::repository().join("target/python");
    let python = place.join("bin/python3");
    let works = |program: &Path, args: &[&str]| {
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let find = format!(
        "import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, {packages:?})))"
    );
    if works(&python, &["-c", &find]) {
        return;
    }
    eprintln!("xtask: installing {} into {}", packages.join(" "), place.display());
    let made = works(&python, &["-m", "pip", "--version"])
        || works(Path::new("python3"), &["-m", "venv", &place.to_string_lossy()]);
    let mut install = vec!["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    install.extend(packages);
    if !(made && works(&python, &install)) {
        eprintln!("xtask: pip could not install all of {}", packages.join(" "));
    }
}
