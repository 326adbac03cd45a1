//! Checks that read files: kernel, clock, policies, limits, file systems.

use std::ffi::CString;
use std::fs;
use std::mem::MaybeUninit;

use render::amounts::show_size;

use crate::check::{Check, Verdict};

/// Returns all checks that read files.
pub fn all() -> Vec<Check> {
    vec![
        kernel(),
        clock(),
        yama(read("/proc/sys/kernel/yama/ptrace_scope").as_deref(), is_root()),
        seccomp(),
        shm_limits(),
        limits(),
        ipc_namespace(),
        cpus(),
        directory(),
        kernel_events(),
    ]
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_string())
}

/// Whether `record --kernel` can be used; nothing else needs it.
fn kernel_events() -> Check {
    let name = "kernel events";
    match ftrace::Tracefs::find() {
        Err(error) => {
            let said = error.to_string();
            let (found, remedy) =
                said.split_once("; ").unwrap_or((&said, "see docs/kernel-events.md"));
            Check::limited(name, format!("`record --kernel` does not work: {found}"), remedy)
        }
        Ok(tracefs) => match tracefs.leftovers()[..] {
            [] if tracefs.is_only_read() => {
                Check::ok(name, "tracefs can only be read: events come by perf_event_open")
            }
            [] => Check::ok(name, "tracefs can be used"),
            ref left => Check::limited(
                name,
                format!("those of a recording that was killed go on: {}", left.join(", ")),
                "the next `reenact record` ends them",
            ),
        },
    }
}

fn is_root() -> bool {
    // SAFETY: geteuid has no arguments and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

fn kernel() -> Check {
    let release = read("/proc/sys/kernel/osrelease").unwrap_or_else(|| "unknown".into());
    kernel_version(&release)
}

fn kernel_version(release: &str) -> Check {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    let version = match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor),
        _ => (0, 0),
    };
    let found = format!("Linux {release}");
    match version {
        (0, 0) => Check::limited("kernel", found, "mount /proc to see more"),
        (..=5, _) if version < (5, 11) => {
            Check::missing("kernel", found, "use Linux 5.11 or newer")
        }
        _ => Check::ok("kernel", found),
    }
}

fn clock() -> Check {
    let source = read("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    let info = read("/proc/cpuinfo").unwrap_or_default();
    let flags = info.lines().find(|line| line.starts_with("flags")).unwrap_or_default();
    clock_of(source.as_deref(), flags)
}

fn clock_of(source: Option<&str>, flags: &str) -> Check {
    let name = "time stamp counter";
    let has = |flag: &str| flags.split_whitespace().any(|word| word == flag);
    let source = source.unwrap_or("unknown");
    let lacking: Vec<&str> =
        ["constant_tsc", "nonstop_tsc"].into_iter().filter(|flag| !has(flag)).collect();
    let found = format!("clock source {source}");
    if !lacking.is_empty() {
        return Check::limited(
            name,
            format!("{found}, the CPU lacks {}", lacking.join(" and ")),
            "times may drift; a virtual machine needs an invariant TSC from its host",
        );
    }
    // Paravirtual clocks are computed from the counter too.
    if ["tsc", "kvm-clock", "hyperv_clocksource_tsc_page"].contains(&source) {
        return Check::ok(name, format!("{found}, constant and never stops"));
    }
    Check::limited(
        name,
        format!("{found}: the kernel does not trust the counter"),
        "times may jump between CPUs; see `dmesg | grep -i tsc` for the reason",
    )
}

fn yama(scope: Option<&str>, root: bool) -> Check {
    let name = "Yama";
    match (scope, root) {
        (None | Some("0"), _) => Check::ok(name, "does not restrict ptrace"),
        (Some("1"), _) => Check::ok(name, "ptrace_scope 1: a recorder may attach to its children"),
        (Some("2"), true) => Check::ok(name, "ptrace_scope 2: root may attach"),
        (Some("2"), false) => Check::missing(
            name,
            "ptrace_scope 2: only root may attach",
            "sudo sysctl kernel.yama.ptrace_scope=1, or record as root",
        ),
        (Some(scope), _) => Check::missing(
            name,
            format!("ptrace_scope {scope}: nobody may attach"),
            "boot with kernel.yama.ptrace_scope=1; 3 cannot be changed at run time",
        ),
    }
}

fn seccomp() -> Check {
    let name = "seccomp";
    let status = read("/proc/self/status").unwrap_or_default();
    let mode = status.lines().find_map(|line| line.strip_prefix("Seccomp:")).map(str::trim);
    match mode {
        Some("0") => Check::ok(name, "no filter is in force"),
        None => Check::limited(name, "unknown", "mount /proc to see more"),
        Some(_) => Check::limited(
            name,
            "a filter is in force, as in containers",
            "if recording fails, allow prctl, ptrace, shmget, shmat and membarrier in the filter",
        ),
    }
}

fn shm_limits() -> Check {
    let name = "System V limits";
    let number = |what: &str| {
        read(&format!("/proc/sys/kernel/{what}")).and_then(|text| text.parse::<u64>().ok())
    };
    let (Some(max), Some(all), Some(count)) =
        (number("shmmax"), number("shmall"), number("shmmni"))
    else {
        return Check::limited(name, "unknown", "mount /proc to see more");
    };
    let all_bytes = all.saturating_mul(4096);
    let found =
        format!("shmmax {}, shmall {}, shmmni {count}", limit_text(max), limit_text(all_bytes));
    // A recording needs three segments, and one more for each further user.
    let remedy =
        "sudo sysctl kernel.shmmax=18446744073692774399 kernel.shmall=18446744073692774399";
    if max.min(all_bytes) < 128 << 20 {
        return Check::missing(name, found, remedy);
    }
    if max.min(all_bytes) < 1 << 30 || count < 16 {
        return Check::limited(name, found, remedy);
    }
    Check::ok(name, found)
}

fn limit_text(bytes: u64) -> String {
    if bytes > 1 << 60 { "unlimited".into() } else { show_size(bytes) }
}

fn limits() -> Check {
    let name = "limits";
    let limit = |which| {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: `limit` is a valid rlimit struct to write to.
        unsafe { libc::getrlimit(which, &mut limit) };
        limit.rlim_cur
    };
    let (space, file) = (limit(libc::RLIMIT_AS), limit(libc::RLIMIT_FSIZE));
    let locked = limit(libc::RLIMIT_MEMLOCK);
    let found = format!(
        "address space {}, file size {}, locked memory {}",
        limit_text(space),
        limit_text(file),
        limit_text(locked)
    );
    if space < 2 << 30 {
        let remedy = "each recorded program maps the buffers as well: raise ulimit -v";
        return Check::limited(name, found, remedy);
    }
    if file < 1 << 30 {
        return Check::limited(name, found, "the trace ends at this size: raise ulimit -f");
    }
    Check::ok(name, found)
}

fn ipc_namespace() -> Check {
    let name = "IPC namespace";
    match (fs::read_link("/proc/self/ns/ipc"), fs::read_link("/proc/1/ns/ipc")) {
        (Ok(ours), Ok(first)) if ours != first => Check::ok(
            name,
            format!("{}, not that of process 1: shared memory stays in here", ours.display()),
        ),
        (Ok(ours), _) => Check::ok(name, ours.display().to_string()),
        (Err(error), _) => {
            Check::limited(name, format!("unknown: {error}"), "mount /proc to see more")
        }
    }
}

fn cpus() -> Check {
    match std::thread::available_parallelism() {
        Ok(count) if count.get() > 1 => Check::ok("CPUs", format!("{count}")),
        _ => Check::limited(
            "CPUs",
            "1",
            "program and recorder share it: recording costs more time than with two",
        ),
    }
}

/// Magic numbers of file systems, by kind.
const NETWORK: &[(i64, &str)] = &[
    (0x6969, "nfs"),
    (0xff53_4d42, "cifs"),
    (0xfe53_4d42, "smb2"),
    (0x0102_1997, "9p"),
    (0x6573_5546, "fuse"),
    (0x00c3_6400, "ceph"),
];
const MEMORY: &[(i64, &str)] = &[(0x0102_1994, "tmpfs"), (0x8584_58f6, "ramfs")];
const DISK: &[(i64, &str)] = &[
    (0xef53, "ext4"),
    (0x5846_5342, "xfs"),
    (0x9123_683e, "btrfs"),
    (0xf2f5_2010, "f2fs"),
    (0x2fc1_2fc1, "zfs"),
    (0xca45_1a4e, "bcachefs"),
    (0x794c_7630, "overlay"),
];

fn directory() -> Check {
    let name = "current directory";
    let mut stat = MaybeUninit::<libc::statfs>::zeroed();
    let here = CString::from(c".");
    // SAFETY: the path is NUL-terminated, and an all-zero statfs is a valid value to write to.
    let (result, stat) = unsafe {
        let result = libc::statfs(here.as_ptr(), stat.as_mut_ptr());
        (result, stat.assume_init())
    };
    if result != 0 {
        let error = std::io::Error::last_os_error();
        let remedy = "change to another directory, or name the trace with --output";
        return Check::limited(name, format!("not readable: {error}"), remedy);
    }
    let free = (stat.f_bavail).saturating_mul(stat.f_bsize as u64);
    // SAFETY: the path is a NUL-terminated string.
    let writable = unsafe { libc::access(here.as_ptr(), libc::W_OK) } == 0;
    directory_of(name, stat.f_type as _, free, writable)
}

fn directory_of(name: &'static str, magic: i64, free: u64, writable: bool) -> Check {
    let find = |list: &[(i64, &'static str)]| {
        list.iter().find(|(number, _)| *number == magic).map(|(_, name)| *name)
    };
    let kind = find(NETWORK).or(find(MEMORY)).or(find(DISK));
    let kind = kind.map_or_else(|| format!("{magic:#x}"), str::to_string);
    let found = format!("file system {kind}, {} free", show_size(free));
    let limited = |remedy: &str| Check::limited(name, found.clone(), remedy);
    if !writable {
        return limited("traces cannot be written here: name another place with --output");
    }
    if find(NETWORK).is_some() {
        return limited("traces on network file systems are slow: name a local disk with --output");
    }
    if find(MEMORY).is_some() {
        return limited("a trace here takes memory: name a disk with --output for long recordings");
    }
    if free < 1 << 30 {
        return limited("recording stops when the disk is full: name another one with --output");
    }
    Check { name, verdict: Verdict::Ok, found, remedy: String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels() {
        assert_eq!(kernel_version("6.18.44-arch1").verdict, Verdict::Ok);
        assert_eq!(kernel_version("5.11.0").verdict, Verdict::Ok);
        assert_eq!(kernel_version("5.10.200").verdict, Verdict::Missing);
        assert_eq!(kernel_version("4.19.0").verdict, Verdict::Missing);
        assert_eq!(kernel_version("unknown").verdict, Verdict::Limited);
    }

    #[test]
    fn clocks() {
        let flags = "flags : fpu tsc constant_tsc nonstop_tsc";
        assert_eq!(clock_of(Some("tsc"), flags).verdict, Verdict::Ok);
        assert_eq!(clock_of(Some("kvm-clock"), flags).verdict, Verdict::Ok);
        assert_eq!(clock_of(Some("hpet"), flags).verdict, Verdict::Limited);
        assert_eq!(clock_of(Some("tsc"), "flags : tsc").verdict, Verdict::Limited);
    }

    #[test]
    fn yama_scopes() {
        assert_eq!(yama(None, false).verdict, Verdict::Ok);
        assert_eq!(yama(Some("1"), false).verdict, Verdict::Ok);
        assert_eq!(yama(Some("2"), true).verdict, Verdict::Ok);
        assert_eq!(yama(Some("2"), false).verdict, Verdict::Missing);
        assert_eq!(yama(Some("3"), true).verdict, Verdict::Missing);
    }

    #[test]
    fn directories() {
        let check = |magic, free, writable| directory_of("here", magic, free, writable).verdict;
        assert_eq!(check(0xef53, 1 << 40, true), Verdict::Ok);
        assert_eq!(check(0xef53, 1 << 20, true), Verdict::Limited);
        assert_eq!(check(0xef53, 1 << 40, false), Verdict::Limited);
        assert_eq!(check(0x6969, 1 << 40, true), Verdict::Limited);
        assert_eq!(check(0x0102_1994, 1 << 40, true), Verdict::Limited);
    }
}
