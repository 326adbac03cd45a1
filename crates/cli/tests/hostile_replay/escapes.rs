//! Traces that try to reach files and processes outside.

use std::mem::size_of;

use syscalls::record::part;
use trace::event::{EventKind, OpenFd, StartHow};

use crate::Case;
use crate::script::{CWD, POINTER, Script, made};
use crate::world::{CANARY, SOCKET, World};

pub const CASES: &[Case] = &[
    ("paths_out", paths_out),
    ("links_out", links_out),
    ("links_out_of_the_image", links_out_of_the_image),
    ("proc_tricks", proc_tricks),
    ("chroot_and_up", chroot_and_up),
    ("state_outside", state_outside),
    ("mounts_and_namespaces", mounts_and_namespaces),
    ("processes_and_signals", processes_and_signals),
    ("privileged_files", privileged_files),
    ("privileged_exchange", privileged_exchange),
    ("identities", identities),
    ("sockets_and_passed_descriptors", sockets_and_passed_descriptors),
    ("copies_from_outside", copies_from_outside),
    ("sends_to_names", sends_to_names),
    ("attributes_in_buffers", attributes_in_buffers),
    ("modes_in_other_pieces", modes_in_other_pieces),
    ("namespaces_in_structs", namespaces_in_structs),
];

/// Command of `fcntl` that sets the signal for asynchronous input and output.
const F_SETSIG: u64 = 10;

/// Tries every way to change a file, at every spelling of a path outside.
fn change_everything(script: &mut Script, target: &str, dir: &str) {
    let truncate = libc::O_WRONLY | libc::O_TRUNC;
    script.open(target, truncate, 3);
    script.write(3, b"overwritten");
    script.plain(libc::SYS_close, &[3], 0);
    script.open(&format!("{dir}/new"), libc::O_CREAT | libc::O_WRONLY, 3);
    script.write(3, b"new");
    script.plain(libc::SYS_close, &[3], 0);
    script.path(libc::SYS_truncate, &[POINTER, 1], 0, target, 0);
    script.path(libc::SYS_chmod, &[POINTER, 0o777], 0, target, 0);
    script.path(libc::SYS_chown, &[POINTER, 1, 1], 0, target, 0);
    script.path(libc::SYS_mkdir, &[POINTER, 0o777], 0, &format!("{dir}/made"), 0);
    script.path(libc::SYS_mknod, &[POINTER, 0o010_644, 0], 0, &format!("{dir}/fifo"), 0);
    let taken = [(0, target), (1, "/taken")];
    script.paths(libc::SYS_link, &[POINTER, POINTER], taken, 0);
    script.paths(libc::SYS_rename, &[POINTER, POINTER], taken, 0);
    script.paths(libc::SYS_rename, &[POINTER, POINTER], [(0, "/taken"), (1, target)], 0);
    let given = [(0, "/etc"), (1, &*format!("{dir}/symlink"))];
    script.paths(libc::SYS_symlink, &[POINTER, POINTER], given, 0);
    let attribute = made(libc::SYS_setxattr, &[POINTER, POINTER, POINTER, 1, 0], 0);
    let attribute = attribute.text(0, target).text(1, "user.mark");
    script.call(1, attribute.bytes(2, part::WHOLE, 0, b"x"));
    script.path(libc::SYS_utimensat, &[CWD, POINTER, 0, 0], 1, target, 0);
    script.path(libc::SYS_unlink, &[POINTER], 0, target, 0);
    script.path(libc::SYS_rmdir, &[POINTER], 0, &format!("{dir}/directory"), 0);
}

fn paths_out(world: &World) {
    let mut script = Script::new(&world.trace);
    let (secret, dir) = (world.secret(), world.outside.display().to_string());
    for prefix in ["", "/..", "/../../../../../../../../..", "/./.././..//", "/tmp/../../.."] {
        change_everything(&mut script, &format!("{prefix}{secret}"), &format!("{prefix}{dir}"));
    }
    for prefix in ["..", "../..", "../../../../../../.."] {
        let target = format!("{prefix}/outside/secret");
        change_everything(&mut script, &target, &format!("{prefix}/outside"));
    }
    script.path(libc::SYS_chdir, &[POINTER], 0, "../..", 0);
    change_everything(&mut script, "outside/secret", "outside");
    script.finish();
}

fn links_out(world: &World) {
    let mut script = Script::new(&world.trace);
    let dir = world.outside.display().to_string();
    for (name, target) in [("/absolute", &*dir), ("/relative", "../outside"), ("/up", "..")] {
        script.paths(libc::SYS_symlink, &[POINTER, POINTER], [(0, target), (1, name)], 0);
        change_everything(&mut script, &format!("{name}/secret"), name);
        change_everything(&mut script, &format!("{name}/outside/secret"), name);
        // A directory is replaced by a link between two calls.
        script.path(libc::SYS_mkdir, &[POINTER, 0o755], 0, "/turned", 0);
        script.open("/turned", libc::O_DIRECTORY, 3);
        script.path(libc::SYS_rmdir, &[POINTER], 0, "/turned", 0);
        script.paths(libc::SYS_symlink, &[POINTER, POINTER], [(0, target), (1, "/turned")], 0);
        change_everything(&mut script, "/turned/secret", "/turned");
        script.path(libc::SYS_unlinkat, &[3, POINTER, 0], 1, "../outside/secret", 0);
        script.path(libc::SYS_unlink, &[POINTER], 0, "/turned", 0);
    }
    script.finish();
}

/// The image is built from what calls show: an existing link, and files below it.
fn links_out_of_the_image(world: &World) {
    let mut script = Script::new(&world.trace);
    let dir = world.outside.display().to_string();
    for (link, target) in [("/image", &*dir), ("/dots", "../outside"), ("/self", "self")] {
        let told = made(libc::SYS_readlink, &[POINTER, POINTER, 4096], target.len() as i64);
        let told = told.text(0, link);
        script.call(
            1,
            told.bytes(1, part::WHOLE, syscalls::record::data_flag::OUT, target.as_bytes()),
        );
        for name in ["secret", "directory/file", "new", "../outside/secret", "directory/.."] {
            script.open(&format!("{link}/{name}"), libc::O_RDWR, 3);
            let read = made(libc::SYS_read, &[3, POINTER, 5], 5);
            let flag = syscalls::record::data_flag::OUT;
            script.call(1, read.bytes(1, part::WHOLE, flag, b"image"));
            script.plain(libc::SYS_close, &[3], 0);
        }
        change_everything(&mut script, &format!("{link}/secret"), link);
    }
    for name in ["/..", "/../outside/secret", "//", "", ".", "a/../../outside/new", "a//b/./c"] {
        script.open(name, libc::O_RDONLY, 3);
        script.plain(libc::SYS_close, &[3], 0);
    }
    script.finish();
}

fn proc_tricks(world: &World) {
    let mut script = Script::new(&world.trace);
    let secret = world.secret();
    let victim = world.victim();
    for prefix in [
        "/proc/self/root".to_string(),
        "/proc/self/cwd".into(),
        "/proc/thread-self/root".into(),
        "/proc/1/root".into(),
        format!("/proc/{victim}/root"),
        format!("/proc/{victim}/cwd"),
        "/dev/fd/../../root".into(),
    ] {
        let outside = world.outside.display();
        change_everything(&mut script, &format!("{prefix}{secret}"), &format!("{prefix}{outside}"));
    }
    for file in ["/proc/self/mem", "/proc/sysrq-trigger", "/proc/self/fd/0", "/proc/self/fd/5"] {
        script.open(file, libc::O_RDWR, 3);
        script.write(3, b"x");
        script.plain(libc::SYS_close, &[3], 0);
    }
    // A link of the trace's own into /proc: its name does not show where it leads.
    let link = [(0, "/proc/self/mem"), (1, "/memory")];
    script.paths(libc::SYS_symlink, &[POINTER, POINTER], link, 0);
    script.open("/memory", libc::O_RDWR, 3);
    script.write(3, b"x");
    script.finish();
}

fn chroot_and_up(world: &World) {
    let mut script = Script::new(&world.trace);
    script.open("/", libc::O_DIRECTORY, 3);
    script.path(libc::SYS_mkdir, &[POINTER, 0o755], 0, "/cell", 0);
    script.path(libc::SYS_chroot, &[POINTER], 0, "/cell", 0);
    script.plain(libc::SYS_fchdir, &[3], 0);
    for _ in 0..30 {
        script.path(libc::SYS_chdir, &[POINTER], 0, "..", 0);
    }
    script.path(libc::SYS_chroot, &[POINTER], 0, ".", 0);
    let outside = world.outside.display().to_string();
    change_everything(&mut script, &world.secret(), &outside);
    change_everything(&mut script, "../outside/secret", "../outside");
    script.finish();
}

/// By the initial state, the program began outside, with files outside open.
fn state_outside(world: &World) {
    let mut script = Script::new(&world.trace);
    let targets = [
        world.secret(),
        world.outside.display().to_string(),
        "../outside/secret".into(),
        "/../../outside".into(),
        "/proc/self/mem".into(),
        "/dev/mem".into(),
        "/".into(),
        "pipe:[1]".into(),
        "socket:[2]".into(),
        "/memfd:x (deleted)".into(),
        String::new(),
        "relative".into(),
    ];
    script.state(1, |state| {
        state.cwd = b"/../../outside".to_vec();
        state.root = world.outside.display().to_string().into_bytes();
        let open = |(fd, target): (usize, &String)| OpenFd {
            fd: fd as i32,
            target: target.clone().into_bytes(),
            offset: u64::MAX,
            flags: (libc::O_RDWR | libc::O_TRUNC) as u32,
        };
        state.fds = targets.iter().enumerate().map(open).collect();
    });
    script.push(1, EventKind::Image { tid: 1001, data: Vec::new() });
    for fd in 0..targets.len() as u64 {
        script.write(fd, b"overwritten");
        script.plain(libc::SYS_ftruncate, &[fd, 0], 0);
        script.plain(libc::SYS_fchmod, &[fd, 0o777], 0);
        script.plain(libc::SYS_fchdir, &[fd], 0);
        script.path(libc::SYS_unlinkat, &[fd, POINTER, 0], 1, "secret", 0);
    }
    change_everything(&mut script, "secret", ".");
    script.finish();
}

fn mounts_and_namespaces(world: &World) {
    let mut script = Script::new(&world.trace);
    let outside = world.outside.display().to_string();
    let bind = made(libc::SYS_mount, &[POINTER, POINTER, POINTER, libc::MS_BIND, 0], 0);
    script.call(1, bind.text(0, &outside).text(1, "/mnt").text(2, "none"));
    for place in ["/", "/dev/null", "/mnt"] {
        script.path(libc::SYS_umount2, &[POINTER, 2], 0, place, 0);
    }
    let paths = [(0, "/mnt"), (1, "/mnt")];
    script.paths(libc::SYS_pivot_root, &[POINTER, POINTER], paths, 0);
    for flags in [libc::CLONE_NEWUSER, libc::CLONE_NEWNS, libc::CLONE_NEWPID, libc::CLONE_FILES] {
        script.plain(libc::SYS_unshare, &[flags as u64], 0);
    }
    script.plain(libc::SYS_setns, &[3, 0], 0);
    script.path(libc::SYS_open_tree, &[CWD, POINTER, 1], 1, "/", 4);
    script.path(libc::SYS_fsopen, &[POINTER, 0], 0, "proc", 5);
    script.plain(libc::SYS_fsmount, &[5, 0, 0], 6);
    script.plain(libc::SYS_open_by_handle_at, &[6, POINTER, 2], 7);
    for name in ["/", "/swap"] {
        script.path(libc::SYS_swapon, &[POINTER, 0], 0, name, 0);
        script.path(libc::SYS_acct, &[POINTER], 0, name, 0);
    }
    change_everything(&mut script, "/mnt/secret", "/mnt");
    script.finish();
}

fn processes_and_signals(world: &World) {
    let mut script = Script::new(&world.trace);
    let victim = world.victim();
    let kill = libc::SIGKILL as u64;
    for pid in [victim, 1, 0, -1i64 as u64] {
        script.plain(libc::SYS_kill, &[pid, kill], 0);
        script.plain(libc::SYS_tgkill, &[pid, pid, kill], 0);
        script.plain(libc::SYS_tkill, &[pid, kill], 0);
        script.plain(libc::SYS_ptrace, &[16, pid, 0, 0], 0);
        script.plain(libc::SYS_pidfd_open, &[pid, 0], 9);
        script.plain(libc::SYS_pidfd_send_signal, &[9, kill, 0, 0], 0);
        script.plain(libc::SYS_process_vm_writev, &[pid, POINTER, 1, POINTER, 1, 0], 1);
        script.plain(libc::SYS_prlimit64, &[pid, 0, POINTER, 0], 0);
        script.plain(libc::SYS_setpriority, &[0, pid, 20], 0);
    }
    script.path(libc::SYS_execve, &[POINTER, 0, 0], 0, "/bin/sh", 0);
    script.plain(libc::SYS_reboot, &[0, 0, 0, 0], 0);
    script.plain(libc::SYS_keyctl, &[0, 0], 0);
    script.plain(libc::SYS_bpf, &[0, POINTER, 8], 3);
    script.plain(libc::SYS_io_uring_setup, &[8, POINTER], 3);
    // Signals sent by descriptors.
    script.open("/file", libc::O_CREAT | libc::O_RDWR, 3);
    script.plain(libc::SYS_fcntl, &[3, libc::F_SETOWN as u64, victim], 0);
    script.plain(libc::SYS_fcntl, &[3, F_SETSIG, kill], 0);
    script.plain(libc::SYS_fcntl, &[3, libc::F_SETFL as u64, libc::O_ASYNC as u64], 0);
    script.plain(libc::SYS_fcntl, &[3, libc::F_SETLEASE as u64, 1], 0);
    script.finish();
}

/// Every call that can create a set-user-id file or a device.
fn privileged_files(world: &World) {
    let mut script = Script::new(&world.trace);
    let create = libc::O_CREAT | libc::O_RDWR;
    for (fd, mode) in [(3, 0o4755), (4, 0o2755), (5, 0o6777)] {
        let name = |kind: &str| format!("/{kind}-{mode:o}");
        let opened = [CWD, POINTER, create as u64, mode];
        script.path(libc::SYS_openat, &opened, 1, &name("openat"), fd);
        script.path(libc::SYS_open, &opened[1..], 0, &name("open"), fd + 10);
        script.path(libc::SYS_creat, &[POINTER, mode], 0, &name("creat"), fd + 20);
        let how = [create as u64, mode, 0].map(u64::to_ne_bytes).concat();
        let opened = made(libc::SYS_openat2, &[CWD, POINTER, POINTER, 24], fd + 30);
        let opened = opened.text(1, &name("openat2"));
        script.call(1, opened.bytes(2, part::WHOLE, 0, &how));
        script.open(&name("chmod"), create, fd + 40);
        script.path(libc::SYS_chmod, &[POINTER, mode], 0, &name("chmod"), 0);
        script.plain(libc::SYS_fchmod, &[fd as u64, mode], 0);
        script.path(libc::SYS_fchmodat, &[CWD, POINTER, mode], 1, &name("openat"), 0);
        script.path(libc::SYS_fchmodat2, &[CWD, POINTER, mode, 0], 1, &name("open"), 0);
        script.path(libc::SYS_mknod, &[POINTER, 0o100_000 | mode, 0], 0, &name("mknod"), 0);
        let made = [CWD, POINTER, 0o100_000 | mode, 0];
        script.path(libc::SYS_mknodat, &made, 1, &name("mknodat"), 0);
        script.paths(
            libc::SYS_link,
            &[POINTER, POINTER],
            [(0, &name("chmod")), (1, &name("link"))],
            0,
        );
    }
    for kind in [libc::S_IFCHR, libc::S_IFBLK] {
        let device = [POINTER, u64::from(kind | 0o666), 0x103];
        script.path(libc::SYS_mknod, &device, 0, &format!("/device-{kind:o}"), 0);
        // Mode bits that the kernel ignores, and others.
        let device = [CWD, POINTER, u64::from(kind | 0o666) | 0xffff_0000_0000_0000, 0x103];
        script.path(libc::SYS_mknodat, &device, 1, &format!("/other-{kind:o}"), 0);
    }
    script.finish();
}

/// Sets the set-group-id bit on a directory while another thread replaces it with a file.
fn privileged_exchange(world: &World) {
    let mut script = Script::new(&world.trace);
    script.start(2, StartHow::Thread, 1, 1);
    for round in 0..200 {
        let [directory, file] = ["directory", "file"].map(|name| format!("/{name}-{round}"));
        script.path(libc::SYS_mkdir, &[POINTER, 0o755], 0, &directory, 0);
        script.path(libc::SYS_mknod, &[POINTER, 0o100_755, 0], 0, &file, 0);
        let begin = script.pass(20_000) - 10_000;
        let mode = made(libc::SYS_chmod, &[POINTER, 0o2755], 0).text(0, &directory);
        script.at(begin, 1, mode.event(begin + 9_000));
        let exchange = [CWD, POINTER, CWD, POINTER, u64::from(libc::RENAME_EXCHANGE)];
        let exchange = made(libc::SYS_renameat2, &exchange, 0).text(1, &directory).text(3, &file);
        script.at(begin + 1, 2, exchange.event(begin + 9_000));
    }
    script.finish();
}

fn identities(world: &World) {
    let mut script = Script::new(&world.trace);
    script.open("/file", libc::O_CREAT | libc::O_RDWR, 3);
    for id in [0, 1, 65534, u64::from(u32::MAX), u64::MAX, 1 << 32] {
        script.plain(libc::SYS_setresuid, &[id, id, id], 0);
        script.plain(libc::SYS_setresgid, &[id, id, id], 0);
        script.plain(libc::SYS_setfsuid, &[id], 0);
        script.plain(libc::SYS_fchown, &[3, id, id], 0);
        let groups = made(libc::SYS_setgroups, &[1 << 30, POINTER], 0);
        script.call(1, groups.bytes(1, part::WHOLE, 0, &[0; 16]));
        script.plain(libc::SYS_capset, &[POINTER, POINTER], 0);
        change_everything(&mut script, &world.secret(), &world.outside.display().to_string());
    }
    script.finish();
}

fn sockets_and_passed_descriptors(world: &World) {
    let mut script = Script::new(&world.trace);
    let pair = made(libc::SYS_socketpair, &[1, 1, 0, POINTER], 0);
    let out = syscalls::record::data_flag::OUT;
    let numbers = [3i32, 4].map(i32::to_ne_bytes).concat();
    script.call(1, pair.bytes(3, part::WHOLE, out, &numbers));
    // Passes every possible descriptor number, including the host's, and uses what arrives.
    for passed in 0..40i32 {
        let head = size_of::<libc::cmsghdr>();
        let mut control = vec![0; head];
        control[..8].copy_from_slice(&(head as u64 + 4).to_ne_bytes());
        control[8..12].copy_from_slice(&libc::SOL_SOCKET.to_ne_bytes());
        control[12..16].copy_from_slice(&libc::SCM_RIGHTS.to_ne_bytes());
        control.extend_from_slice(&passed.to_ne_bytes());
        let header = [0; size_of::<libc::msghdr>()];
        let sent = made(libc::SYS_sendmsg, &[3, POINTER, 0], 1);
        let sent = sent.bytes(1, part::WHOLE, 0, &header).bytes(1, part::CONTENT, 0, b"x");
        script.call(1, sent.bytes(1, part::CONTROL, 0, &control));
        let came = made(libc::SYS_recvmsg, &[4, POINTER, 0], 1);
        let came = came.bytes(1, part::WHOLE, out, &header).bytes(1, part::CONTENT, out, b"x");
        script.call(1, came.bytes(1, part::CONTROL, out, &control));
        script.write(5 + passed as u64, b"into whatever came");
        script.path(libc::SYS_unlinkat, &[5 + passed as u64, POINTER, 0], 1, "secret", 0);
    }
    // Sockets to the outside, by name and by address.
    for family in [libc::AF_UNIX, libc::AF_INET] {
        script.plain(libc::SYS_socket, &[family as u64, 1, 0], 60);
        let mut address = (family as u16).to_ne_bytes().to_vec();
        address.extend_from_slice(world.secret().as_bytes());
        let len = address.len() as u64;
        for nr in [libc::SYS_bind, libc::SYS_connect] {
            let named = made(nr, &[60, POINTER, len], 0);
            script.call(1, named.bytes(1, part::WHOLE, 0, &address));
        }
        script.write(60, b"hello");
    }
    script.finish();
}

/// Tries to copy files in from outside.
fn copies_from_outside(world: &World) {
    let mut script = Script::new(&world.trace);
    let len = CANARY.len() as u64;
    for (at, path) in
        [world.secret(), "../outside/secret".into(), "/up/secret".into()].iter().enumerate()
    {
        let stolen = format!("/stolen-{at}");
        script.open(path, libc::O_RDONLY, 3);
        script.open(&stolen, libc::O_CREAT | libc::O_RDWR, 4);
        script.plain(libc::SYS_sendfile, &[4, 3, 0, len], len as i64);
        script.plain(libc::SYS_copy_file_range, &[3, 0, 4, 0, len, 0], len as i64);
        script.plain(libc::SYS_ioctl, &[4, 0x4004_9409, 3], 0);
        script.plain(libc::SYS_splice, &[3, 0, 4, 0, len, 0], len as i64);
        let linked = [CWD, POINTER, CWD, POINTER, libc::AT_SYMLINK_FOLLOW as u64];
        script.paths(libc::SYS_linkat, &linked, [(1, path), (3, &format!("/link-{at}"))], 0);
        script.plain(libc::SYS_close, &[3], 0);
        script.plain(libc::SYS_close, &[4], 0);
    }
    script.finish();
}

/// Every way to send to a socket bound outside, by every spelling of its name.
fn sends_to_names(world: &World) {
    let mut script = Script::new(&world.trace);
    let pair = made(libc::SYS_socketpair, &[libc::AF_UNIX as u64, 2, 0, POINTER], 0);
    let out = syscalls::record::data_flag::OUT;
    let numbers = [3i32, 4].map(i32::to_ne_bytes).concat();
    script.call(1, pair.bytes(3, part::WHOLE, out, &numbers));
    script.paths(libc::SYS_symlink, &[POINTER, POINTER], [(0, SOCKET), (1, "/link")], 0);
    let outside = world.shared.join("socket").display().to_string();
    for name in [SOCKET, "shared/socket", "/link", "/../shared/./socket", &outside] {
        let address = [&(libc::AF_UNIX as u16).to_ne_bytes(), name.as_bytes(), b"\0"].concat();
        let len = address.len() as u64;
        for claimed in [len, 110, 1 << 32, len | 1 << 32] {
            let sent = made(libc::SYS_sendto, &[3, POINTER, 4, 0, POINTER, claimed], 4);
            let sent = sent.bytes(1, part::WHOLE, 0, b"harm");
            script.call(1, sent.bytes(4, part::WHOLE, 0, &address));
        }
        for (nr, ret) in [(libc::SYS_sendmsg, 4), (libc::SYS_sendmmsg, 1), (libc::SYS_sendmsg, -11)]
        {
            for named in [0, POINTER] {
                let header = [named, len, POINTER, 1, 0, 0, 0, 0].map(u64::to_ne_bytes).concat();
                let sent = made(nr, &[3, POINTER, 1, 0], ret);
                let sent = sent.bytes(1, part::WHOLE, 0, &header);
                let sent = sent.bytes(1, part::NAME, 0, &address);
                let vector = [POINTER, 4].map(u64::to_ne_bytes).concat();
                let sent = sent.bytes(1, part::VECTOR, 0, &vector);
                script.call(1, sent.bytes(1, part::CONTENT, 0, b"harm"));
            }
        }
        for nr in [libc::SYS_connect, libc::SYS_bind] {
            let named = made(nr, &[3, POINTER, len], 0);
            script.call(1, named.bytes(1, part::WHOLE, 0, &address));
            script.write(3, b"harm");
        }
    }
    script.finish();
}

/// Names that are followed by more bytes, or contradicted by another piece.
fn attributes_in_buffers(world: &World) {
    let mut script = Script::new(&world.trace);
    script.open("/file", libc::O_CREAT | libc::O_RDWR, 3);
    let capability = [1u8, 0, 0, 2, 0, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    for name in ["security.capability", "security.selinux", "security.reenact", "trusted.reenact"] {
        let long = [name.as_bytes(), &[0; 80]].concat();
        let huge = [name.as_bytes(), &[0; 70_000]].concat();
        for (nr, path) in [(libc::SYS_setxattr, true), (libc::SYS_fsetxattr, false)] {
            let set = || {
                let first = if path { POINTER } else { 3 };
                let set = made(nr, &[first, POINTER, POINTER, 20, 0], 0);
                let set = if path { set.text(0, "/file") } else { set };
                set.bytes(2, part::WHOLE, 0, &capability)
            };
            script.call(1, set().bytes(1, part::WHOLE, 0, &long));
            script.call(1, set().bytes(1, part::WHOLE, 0, &huge));
            // The first piece is not the one used.
            let other = set().bytes(1, part::CONTENT, 0, b"user.x");
            script.call(1, other.bytes(1, part::WHOLE, 0, &long));
            let out = syscalls::record::data_flag::OUT;
            let other = set().bytes(1, part::WHOLE, out, b"user.x");
            script.call(1, other.bytes(1, part::WHOLE, 0, &long));
        }
    }
    script.finish();
}

/// The mode of a file in a struct that is repeated, or spread over several buffers.
fn modes_in_other_pieces(world: &World) {
    let mut script = Script::new(&world.trace);
    let create = (libc::O_CREAT | libc::O_RDWR) as u64;
    let how = |mode: u64| [create, mode, 0].map(u64::to_ne_bytes).concat();
    let out = syscalls::record::data_flag::OUT;
    for (at, len) in [24u64, 64, 4096, 1 << 20].into_iter().enumerate() {
        let long = [how(0o6755), vec![0; 70_000]].concat();
        let opened = |name: &str| {
            made(libc::SYS_openat2, &[CWD, POINTER, POINTER, len], 3)
                .text(1, &format!("/{name}-{at}"))
        };
        script.call(1, opened("long").bytes(2, part::WHOLE, 0, &long));
        let twice = opened("twice").bytes(2, part::CONTENT, 0, &how(0o644));
        script.call(1, twice.bytes(2, part::WHOLE, 0, &how(0o4755)));
        let twice = opened("other").bytes(2, part::WHOLE, out, &how(0o644));
        script.call(1, twice.bytes(2, part::WHOLE, 0, &how(0o2755)));
    }
    script.finish();
}

/// Tasks that are to be created in new namespaces, with more rights.
fn namespaces_in_structs(world: &World) {
    let mut script = Script::new(&world.trace);
    let all = u64::from(u32::MAX);
    for (number, flags) in (2..).zip([all, 0x7e02_0000, 0x1000_0000, 0x800, u64::MAX, 1 << 33]) {
        let arguments = [flags; 11].map(u64::to_ne_bytes).concat();
        let cloned = made(libc::SYS_clone3, &[POINTER, 88], i64::from(1000 + number));
        script.call(1, cloned.bytes(0, part::WHOLE, 0, &arguments));
        script.start(number, StartHow::Fork, number, 1);
        for flags in [flags, libc::CLONE_NEWUSER as u64] {
            script.call(number, made(libc::SYS_unshare, &[flags], 0));
            script.call(number, made(libc::SYS_setns, &[3, flags], 0));
        }
        let sets = [u32::MAX; 6].map(u32::to_ne_bytes).concat();
        let powers = made(libc::SYS_capset, &[POINTER, POINTER], 0);
        script.call(number, powers.bytes(1, part::WHOLE, 0, &[sets, vec![0xff; 100]].concat()));
        script.call(number, made(libc::SYS_setresuid, &[0, 0, 0], 0));
    }
    change_everything(&mut script, &world.secret(), &world.outside.display().to_string());
    script.finish();
}
