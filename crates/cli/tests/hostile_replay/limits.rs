//! Traces that try to exhaust memory, disk, time or processes.

use syscalls::record::{data_flag, part};
use trace::event::{EventKind, OpenFd, StartHow};

use crate::Case;
use crate::script::{CWD, POINTER, Script, made};
use crate::world::World;

pub const CASES: &[Case] = &[
    ("huge_sizes", huge_sizes),
    ("huge_claims_about_buffers", huge_claims_about_buffers),
    ("allocates_much", allocates_much),
    ("writes_the_same_everywhere", writes_the_same_everywhere),
    ("copies_from_file_to_file", copies_from_file_to_file),
    ("copies_more_than_it_did", copies_more_than_it_did),
    ("image_of_the_same_everywhere", image_of_the_same_everywhere),
    ("memory_files_without_end", memory_files_without_end),
    ("memory_files_by_copies", memory_files_by_copies),
    ("memory_files_of_many_tasks", memory_files_of_many_tasks),
    ("huge_descriptors", huge_descriptors),
    ("limits_against_ourselves", limits_against_ourselves),
    ("hundreds_of_thousands_of_calls", hundreds_of_thousands_of_calls),
    ("very_many_tasks", very_many_tasks),
    ("waits_without_end", waits_without_end),
    ("deep_and_long_paths", deep_and_long_paths),
];

const HUGE: &[u64] = &[1 << 32, 1 << 40, 1 << 62, i64::MAX as u64, u64::MAX];

fn huge_sizes(world: &World) {
    let mut script = Script::new(&world.trace);
    script.open("/file", libc::O_CREAT | libc::O_RDWR, 3);
    script.open("/other", libc::O_CREAT | libc::O_RDWR, 4);
    for &size in HUGE {
        let ret = size as i64;
        script.plain(libc::SYS_ftruncate, &[3, size], 0);
        script.plain(libc::SYS_lseek, &[3, size, 0], ret);
        script.plain(libc::SYS_read, &[3, POINTER, size], ret);
        script.plain(libc::SYS_write, &[3, POINTER, size], ret);
        script.plain(libc::SYS_pread64, &[3, POINTER, size, size], ret);
        script.plain(libc::SYS_pwrite64, &[3, POINTER, size, size], ret);
        script.plain(libc::SYS_readv, &[3, POINTER, size], ret);
        script.plain(libc::SYS_writev, &[3, POINTER, size], ret);
        script.plain(libc::SYS_getdents64, &[3, POINTER, size], ret);
        script.plain(libc::SYS_sendfile, &[4, 3, 0, size], ret);
        script.plain(libc::SYS_copy_file_range, &[3, 0, 4, 0, size, 0], ret);
        script.plain(libc::SYS_splice, &[3, 0, 4, 0, size, 0], ret);
        script.plain(libc::SYS_readahead, &[3, 0, size], 0);
        script.plain(libc::SYS_fadvise64, &[3, 0, size, 3], 0);
        script.plain(libc::SYS_sync_file_range, &[3, 0, size, 7], 0);
        script.path(libc::SYS_readlink, &[POINTER, POINTER, size], 0, "/link", ret);
        script.path(libc::SYS_getxattr, &[POINTER, POINTER, POINTER, size], 0, "/file", ret);
        script.path(libc::SYS_listxattr, &[POINTER, POINTER, size], 0, "/file", ret);
        script.path(libc::SYS_setxattr, &[POINTER, POINTER, POINTER, size, 0], 0, "/file", 0);
        script.plain(libc::SYS_getcwd, &[POINTER, size], ret);
        script.plain(libc::SYS_mmap, &[0, size, 3, 2, 3, 0], ret);
        script.path(libc::SYS_memfd_create, &[POINTER, 0], 0, "memory", 5);
        script.plain(libc::SYS_ftruncate, &[5, size], 0);
        script.plain(libc::SYS_fcntl, &[3, libc::F_SETPIPE_SZ as u64, size], ret);
        script.plain(libc::SYS_recvmmsg, &[3, POINTER, size, 0, 0], ret);
        script.plain(libc::SYS_poll, &[POINTER, size, 0], ret);
    }
    script.finish();
}

/// Buffers with few stored bytes and a huge claimed length.
fn huge_claims_about_buffers(world: &World) {
    let mut script = Script::new(&world.trace);
    script.open("/file", libc::O_CREAT | libc::O_RDWR, 3);
    for &size in HUGE {
        let ret = size as i64;
        for (nr, flags) in [(libc::SYS_write, 0), (libc::SYS_read, data_flag::OUT)] {
            let moved = made(nr, &[3, POINTER, size], ret);
            script.call(1, moved.claimed(1, part::WHOLE, flags, b"few", size));
        }
        for (nr, flags) in [(libc::SYS_writev, 0), (libc::SYS_readv, data_flag::OUT)] {
            let moved = made(nr, &[3, POINTER, 1024], ret);
            let vector = [POINTER, size].map(u64::to_ne_bytes).concat();
            let moved = moved.claimed(1, part::WHOLE, 0, &vector, size);
            script.call(1, moved.claimed(1, part::CONTENT, flags, b"few", size));
        }
        let opened = made(libc::SYS_openat, &[CWD, POINTER, 0, 0], 4);
        script.call(1, opened.claimed(1, part::WHOLE, 0, b"/a", size));
        let set = made(libc::SYS_setxattr, &[POINTER, POINTER, POINTER, size, 0], 0);
        let set = set.text(0, "/file").text(1, "user.x");
        script.call(1, set.claimed(2, part::WHOLE, 0, b"few", size));
        let groups = made(libc::SYS_setgroups, &[size, POINTER], 0);
        script.call(1, groups.claimed(1, part::WHOLE, 0, b"few", size));
        let how = made(libc::SYS_openat2, &[CWD, POINTER, POINTER, size], 5).text(1, "/b");
        script.call(1, how.claimed(2, part::WHOLE, 0, &[0; 24], size));
    }
    script.finish();
}

/// A few calls that ask for much disk space.
fn allocates_much(world: &World) {
    let mut script = Script::new(&world.trace);
    script.open("/file", libc::O_CREAT | libc::O_RDWR, 3);
    for shift in 20..40 {
        script.plain(libc::SYS_fallocate, &[3, 0, 0, 1 << shift], 0);
    }
    script.finish();
}

/// Size of a buffer that is stored once, and the number of references to it: together far more than
/// the disk limit.
const REPEATED: usize = 64 << 10;
const TIMES: u64 = 16_000;

fn writes_the_same_everywhere(world: &World) {
    let mut script = Script::new(&world.trace);
    script.open("/file", libc::O_CREAT | libc::O_RDWR, 3);
    for at in 0..TIMES {
        let len = REPEATED as u64;
        let written = made(libc::SYS_pwrite64, &[3, POINTER, len, at * len], len as i64);
        script.call(1, written.bytes(1, part::WHOLE, 0, &[b'x'; REPEATED]));
    }
    script.finish();
}

fn copies_from_file_to_file(world: &World) {
    let mut script = Script::new(&world.trace);
    script.open("/a", libc::O_CREAT | libc::O_RDWR, 3);
    script.open("/b", libc::O_CREAT | libc::O_RDWR | libc::O_APPEND, 4);
    script.write(3, &[b'x'; REPEATED]);
    for _ in 0..TIMES {
        script.plain(libc::SYS_lseek, &[3, 0, 0], 0);
        script.plain(libc::SYS_sendfile, &[4, 3, 0, REPEATED as u64], REPEATED as i64);
    }
    script.finish();
}

/// Copies that ask for much, but by the trace moved one byte or failed.
fn copies_more_than_it_did(world: &World) {
    let mut script = Script::new(&world.trace);
    script.open("/a", libc::O_CREAT | libc::O_RDWR, 3);
    script.open("/b", libc::O_CREAT | libc::O_RDWR, 4);
    script.plain(libc::SYS_ftruncate, &[3, 1 << 40], 0);
    for ret in [1, -5, 1, 1] {
        script.plain(libc::SYS_sendfile, &[4, 3, 0, 1 << 30], ret);
        script.plain(libc::SYS_copy_file_range, &[3, 0, 4, 0, 1 << 30, 0], ret);
    }
    script.finish();
}

/// The image needs everything that was read.
fn image_of_the_same_everywhere(world: &World) {
    let mut script = Script::new(&world.trace);
    script.open("/file", libc::O_RDONLY, 3);
    for at in 0..TIMES {
        let len = REPEATED as u64;
        let read = made(libc::SYS_pread64, &[3, POINTER, len, at * len], len as i64);
        script.call(1, read.bytes(1, part::WHOLE, data_flag::OUT, &[b'x'; REPEATED]));
    }
    script.finish();
}

/// Files in memory are not limited by a disk.
fn memory_files_without_end(world: &World) {
    let mut script = Script::new(&world.trace);
    script.path(libc::SYS_memfd_create, &[POINTER, 0], 0, "memory", 3);
    for at in 0..TIMES {
        let len = REPEATED as u64;
        let written = made(libc::SYS_pwrite64, &[3, POINTER, len, at * len], len as i64);
        script.call(1, written.bytes(1, part::WHOLE, 0, &[b'x'; REPEATED]));
    }
    script.finish();
    world.expect("in files that are in memory alone");
}

/// Memory files filled by copies and allocations, also under the number of another file.
fn memory_files_by_copies(world: &World) {
    const LEN: u64 = 1 << 20;
    let mut script = Script::new(&world.trace);
    script.path(libc::SYS_memfd_create, &[POINTER, 0], 0, "memory", 3);
    script.open("/file", libc::O_CREAT | libc::O_RDWR, 4);
    script.open("/other", libc::O_CREAT | libc::O_RDWR, 5);
    script.write(4, &[b'x'; REPEATED]);
    // Failed in the recording, but succeeds in the replay.
    script.plain(libc::SYS_dup2, &[3, 5], -9);
    for at in 0..2000 {
        script.plain(libc::SYS_lseek, &[4, 0, 0], 0);
        script.plain(libc::SYS_lseek, &[5, at * LEN, 0], (at * LEN) as i64);
        script.plain(libc::SYS_sendfile, &[5, 4, 0, REPEATED as u64], REPEATED as i64);
        script.plain(libc::SYS_fallocate, &[3, 0, at * LEN, LEN], 0);
        script.plain(libc::SYS_fallocate, &[5, 0, at * LEN, LEN], 0);
    }
    script.finish();
    world.expect("in files that are in memory alone");
}

fn memory_files_of_many_tasks(world: &World) {
    let mut script = Script::new(&world.trace);
    for thread in 2..40 {
        script.plain(libc::SYS_fork, &[], i64::from(1000 + thread));
        script.start(thread, StartHow::Fork, thread, 1);
        let file = made(libc::SYS_memfd_create, &[POINTER, 0], 3).text(0, "memory");
        script.call(thread, file);
    }
    for at in 0..TIMES / 80 {
        for thread in 2..40 {
            let len = REPEATED as u64;
            let written = made(libc::SYS_pwrite64, &[3, POINTER, len, at * len], len as i64);
            script.call(thread, written.bytes(1, part::WHOLE, 0, &[b'x'; REPEATED]));
        }
    }
    script.finish();
    world.expect("in files that are in memory alone");
}

fn huge_descriptors(world: &World) {
    let mut script = Script::new(&world.trace);
    script.state(1, |state| {
        let wild = [i32::MAX, -1, i32::MIN, 1 << 20, 3, 3, 1_048_575];
        let open = |fd| OpenFd { fd, target: b"/file".to_vec(), offset: 7, flags: 0 };
        state.fds = wild.into_iter().map(open).collect();
    });
    script.push(1, EventKind::Image { tid: 1001, data: Vec::new() });
    for fd in [1 << 16, (1 << 20) - 1, 1 << 20, i32::MAX as u64, u64::from(u32::MAX), 1 << 40] {
        let ret = fd as i64;
        script.open("/file", libc::O_CREAT, ret);
        script.plain(libc::SYS_dup2, &[0, fd], ret);
        script.plain(libc::SYS_dup3, &[0, fd, 0], ret);
        script.plain(libc::SYS_dup, &[fd], ret);
        script.plain(libc::SYS_fcntl, &[0, 0, fd], ret);
        script.plain(libc::SYS_close, &[fd], 0);
        script.plain(libc::SYS_close_range, &[0, fd, 0], 0);
        let pipe = made(libc::SYS_pipe, &[POINTER], 0);
        let numbers = [fd as i32, fd as i32].map(i32::to_ne_bytes).concat();
        script.call(1, pipe.bytes(0, part::WHOLE, data_flag::OUT, &numbers));
        script.plain(libc::SYS_epoll_create1, &[0], ret);
        script.plain(libc::SYS_socket, &[1, 1, 0], ret);
    }
    script.finish();
}

/// Resource limits that would end the tasks, or the host along with them.
fn limits_against_ourselves(world: &World) {
    let mut script = Script::new(&world.trace);
    script.state(1, |state| state.limits = vec![(0, 0); 16]);
    script.push(1, EventKind::Image { tid: 1001, data: Vec::new() });
    for resource in 0..16 {
        for value in [0u64, 1, u64::MAX] {
            let bytes = [value, value].map(u64::to_ne_bytes).concat();
            let set = made(libc::SYS_setrlimit, &[resource, POINTER], 0);
            script.call(1, set.bytes(1, part::WHOLE, 0, &bytes));
            let set = made(libc::SYS_prlimit64, &[0, resource, POINTER, 0], 0);
            script.call(1, set.bytes(2, part::WHOLE, 0, &bytes));
        }
    }
    script.open("/file", libc::O_CREAT | libc::O_RDWR, 3);
    script.write(3, b"bytes");
    // A filter that would kill, and other ways to lock the replay out.
    script.plain(libc::SYS_seccomp, &[0, 0, 0], 0);
    script.plain(libc::SYS_prctl, &[22, 1, 0, 0, 0], 0);
    script.plain(libc::SYS_prctl, &[1, 9, 0, 0, 0], 0);
    script.plain(libc::SYS_munmap, &[0, u64::MAX], 0);
    script.plain(libc::SYS_exit_group, &[0], 0);
    script.open("/file", libc::O_RDWR, 4);
    script.finish();
}

/// Similar calls make a small file; they must be replayed in bounded memory.
fn hundreds_of_thousands_of_calls(world: &World) {
    let mut script = Script::new(&world.trace);
    script.open("/file", libc::O_CREAT | libc::O_RDWR, 3);
    for _ in 0..150_000 {
        script.plain(libc::SYS_getpid, &[], 1001);
        script.plain(libc::SYS_lseek, &[3, 0, 0], 0);
    }
    script.finish();
    let bytes = world.trace.metadata().unwrap().len();
    assert!(bytes < 8 << 20, "the file is not small: {bytes} bytes");
}

fn very_many_tasks(world: &World) {
    let mut script = Script::new(&world.trace);
    for number in 2..3000u32 {
        let how = if number % 2 == 0 { StartHow::Thread } else { StartHow::Fork };
        let process = if number % 2 == 0 { 1 } else { number };
        let nr = if number % 2 == 0 { libc::SYS_clone } else { libc::SYS_fork };
        script.plain(nr, &[], i64::from(1000 + number));
        script.start(number, how, process, 1);
    }
    script.finish();
}

/// A pipe without a writer, a held lock, a fifo without a writer.
fn waits_without_end(world: &World) {
    let mut script = Script::new(&world.trace);
    let pipe = made(libc::SYS_pipe, &[POINTER], 0);
    let numbers = [3i32, 4].map(i32::to_ne_bytes).concat();
    script.call(1, pipe.bytes(0, part::WHOLE, data_flag::OUT, &numbers));
    script.plain(libc::SYS_read, &[3, POINTER, 10], 10);
    script.path(libc::SYS_mknod, &[POINTER, 0o010_644, 0], 0, "/fifo", 0);
    script.open("/fifo", libc::O_RDONLY, 5);
    script.plain(libc::SYS_write, &[4, POINTER, 1 << 30], 1 << 30);
    script.finish();
}

fn deep_and_long_paths(world: &World) {
    let mut script = Script::new(&world.trace);
    let long = "x".repeat(255);
    for path in [
        "/d".repeat(2000),
        format!("/{}", "x".repeat(4000)),
        format!("/{long}").repeat(15),
        "/..".repeat(1300),
        "../".repeat(1300),
        "/.".repeat(2000),
        "/".repeat(4000),
        "nul\0inside".into(),
    ] {
        script.path(libc::SYS_mkdir, &[POINTER, 0o755], 0, &path, 0);
        script.open(&path, libc::O_CREAT | libc::O_RDWR, 3);
        script.path(libc::SYS_chdir, &[POINTER], 0, &path, 0);
        script.paths(libc::SYS_symlink, &[POINTER, POINTER], [(0, &path), (1, "/loop")], 0);
        script.open("/loop/loop/loop", libc::O_RDONLY, 4);
        script.path(libc::SYS_unlink, &[POINTER], 0, "/loop", 0);
    }
    // Ever deeper directories, step by step.
    for _ in 0..500 {
        script.path(libc::SYS_mkdir, &[POINTER, 0o755], 0, "down", 0);
        script.path(libc::SYS_chdir, &[POINTER], 0, "down", 0);
    }
    script.finish();
}
