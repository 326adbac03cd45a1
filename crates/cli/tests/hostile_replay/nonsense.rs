//! Traces that are inconsistent.

use syscalls::record::{data_flag, part};
use trace::event::{EventKind, GapWhy, OpenFd, RECORDER, StartHow};

use crate::Case;
use crate::script::{CWD, POINTER, Script, made};
use crate::world::World;

pub const CASES: &[Case] = &[
    ("nothing_at_all", |world| Script::empty(&world.trace).finish()),
    ("cyclic_processes", cyclic_processes),
    ("calls_without_beginning", calls_without_beginning),
    ("ends_and_beginnings_again", ends_and_beginnings_again),
    ("time_runs_wild", time_runs_wild),
    ("descriptors_that_are_not_there", descriptors_that_are_not_there),
    ("tasks_that_never_come", tasks_that_never_come),
    ("data_that_does_not_fit", data_that_does_not_fit),
    ("any_calls_1", |world| any_calls(world, 1)),
    ("any_calls_2", |world| any_calls(world, 2)),
    ("any_calls_3", |world| any_calls(world, 3)),
    ("any_calls_4", |world| any_calls(world, 4)),
    ("any_calls_5", |world| any_calls(world, 5)),
    ("any_calls_6", |world| any_calls(world, 6)),
];

fn cyclic_processes(world: &World) {
    let mut script = Script::new(&world.trace);
    // Its own parent; two that are each other's parent; a cycle of three.
    script.start(2, StartHow::Fork, 2, 2);
    script.start(3, StartHow::Fork, 3, 4);
    script.start(4, StartHow::Vfork, 4, 3);
    script.start(5, StartHow::Thread, 5, 6);
    script.start(6, StartHow::Thread, 6, 7);
    script.start(7, StartHow::Thread, 5, 5);
    script.start(8, StartHow::Launch, 1, 8);
    script.start(RECORDER, StartHow::Fork, 1, RECORDER);
    for thread in 2..9 {
        script.call(thread, made(libc::SYS_fork, &[], 1000 + i64::from(thread)));
        let opened = made(libc::SYS_openat, &[CWD, POINTER, 66, 0o644], 3);
        script.call(thread, opened.text(1, "/file"));
        script.call(thread, made(libc::SYS_wait4, &[0, 0, 0, 0], 1000 + i64::from(thread)));
        script.call(thread, made(libc::SYS_exit, &[0], 0).unfinished());
    }
    script.finish();
}

fn calls_without_beginning(world: &World) {
    let mut script = Script::empty(&world.trace);
    for thread in [RECORDER, 1, 2, 77, u32::MAX] {
        let opened = made(libc::SYS_openat, &[CWD, POINTER, 66, 0o644], 3).text(1, "/file");
        script.call(thread, opened);
        script.call(thread, made(libc::SYS_close, &[3], 0));
        script.call(thread, made(libc::SYS_fork, &[], 5));
        script.push(thread, EventKind::Image { tid: 0, data: Vec::new() });
        script.push(thread, EventKind::Exit { process: thread, status: None });
        script.push(thread, EventKind::End { calls: u64::MAX });
        script.push(thread, EventKind::Stall { ns: u64::MAX });
        let why = GapWhy::TooManyThreads;
        script.push(thread, EventKind::Gap { why, detail: u64::MAX, text: "gap".into() });
    }
    script.finish();
}

fn ends_and_beginnings_again(world: &World) {
    let mut script = Script::new(&world.trace);
    for round in 0..3 {
        script.start(2, StartHow::Thread, 1, 1);
        script.start(2, StartHow::Fork, 2, 1);
        script.start(1, StartHow::Launch, 1, 0);
        script.state(1 + round, |state| state.fds.clear());
        script.state(2, |state| state.cwd = b"relative".to_vec());
        script.push(2, EventKind::End { calls: 0 });
        script.push(2, EventKind::End { calls: 0 });
        script.push(1, EventKind::End { calls: 0 });
        script.push(RECORDER, EventKind::Exit { process: 1, status: Some(-1) });
        script.push(1, EventKind::Image { tid: 1001, data: Vec::new() });
        for thread in [1, 2] {
            let opened = made(libc::SYS_openat, &[CWD, POINTER, 66, 0o644], 3);
            script.call(thread, opened.text(1, "/file"));
            script.call(thread, made(libc::SYS_exit_group, &[0], 0));
            script.call(thread, made(libc::SYS_execve, &[0, 0, 0], 0));
            script.call(thread, made(libc::SYS_vfork, &[], 1002));
        }
    }
    script.finish();
}

/// Calls that end before they begin, at the same time, never, or in the far future.
fn time_runs_wild(world: &World) {
    let mut script = Script::new(&world.trace);
    script.plain(libc::SYS_clone, &[0x10f00], 1002);
    script.start(2, StartHow::Thread, 1, 1);
    let times = [0, 1, 5000, 4000, u64::MAX, u64::MAX - 1, 1 << 63, 7000, 7000, 7000];
    for (enter, exit) in times.iter().zip(times.iter().rev()) {
        for thread in [1, 2] {
            let opened = || made(libc::SYS_openat, &[CWD, POINTER, 66, 0o644], 3).text(1, "/file");
            script.at(*enter, thread, opened().event(*exit));
            script.at(*exit, thread, made(libc::SYS_close, &[3], 0).event(*enter));
            script.at(*enter, thread, opened().unfinished().event(0));
        }
    }
    script.finish();
}

fn descriptors_that_are_not_there(world: &World) {
    let mut script = Script::new(&world.trace);
    script.state(1, |state| {
        let target = b"pipe:[1]".to_vec();
        state.fds = vec![OpenFd { fd: 9, target, offset: 0, flags: 0 }];
    });
    script.push(1, EventKind::Image { tid: 1001, data: Vec::new() });
    let mut numbers: Vec<u64> = (0..64).collect();
    numbers.extend([1023, 1024, 4095, u64::from(u32::MAX), i32::MIN as u64]);
    for fd in numbers {
        script.write(fd, b"into nothing");
        script.plain(libc::SYS_fcntl, &[fd, 1, 0], 0);
        script.plain(libc::SYS_fcntl, &[fd, libc::F_SETFL as u64, u64::MAX], 0);
        script.plain(libc::SYS_fstat, &[fd, POINTER], 0);
        script.plain(libc::SYS_flock, &[fd, 2], 0);
        script.plain(libc::SYS_fsync, &[fd], 0);
        script.plain(libc::SYS_fchdir, &[fd], 0);
        script.plain(libc::SYS_ioctl, &[fd, 0x5421, POINTER], 0);
        script.plain(libc::SYS_dup3, &[fd, fd, 0], fd as i64);
        script.plain(libc::SYS_dup2, &[fd + 1, fd], fd as i64);
        script.plain(libc::SYS_close, &[fd], 0);
        script.plain(libc::SYS_close, &[fd], 0);
    }
    script.finish();
}

/// Calls that create tasks which never appear, and waits for them.
fn tasks_that_never_come(world: &World) {
    let mut script = Script::new(&world.trace);
    for nr in [libc::SYS_fork, libc::SYS_vfork, libc::SYS_clone, libc::SYS_clone3] {
        for ret in [0, 1, 4242, i64::MAX, -11] {
            script.plain(nr, &[u64::MAX, 0, 0, 0, 0], ret);
        }
    }
    script.plain(libc::SYS_wait4, &[4242, 0, 0, 0], 4242);
    script.plain(libc::SYS_futex, &[POINTER, 0, 0, 0, 0, 0], 0);
    script.call(1, made(libc::SYS_read, &[0, POINTER, 5], 0).unfinished());
    script.open("/file", libc::O_CREAT, 3);
    script.finish();
}

/// Buffers for arguments without any, duplicate ones, and ones of the wrong kind.
fn data_that_does_not_fit(world: &World) {
    let mut script = Script::new(&world.trace);
    script.open("/file", libc::O_CREAT | libc::O_RDWR, 3);
    let calls = [
        libc::SYS_read,
        libc::SYS_write,
        libc::SYS_writev,
        libc::SYS_fstat,
        libc::SYS_getdents64,
        libc::SYS_fcntl,
        libc::SYS_sendmsg,
        libc::SYS_recvmsg,
        libc::SYS_sendmmsg,
        libc::SYS_pipe2,
        libc::SYS_socketpair,
        libc::SYS_clone3,
        libc::SYS_copy_file_range,
    ];
    for nr in calls {
        for arg in [0, 1, 2, 5, 6, 255] {
            for flags in [0, data_flag::OUT, data_flag::FAULT, data_flag::OUT | data_flag::CUT] {
                let call = made(nr, &[3, POINTER, 64, 0, 0, 0], 64);
                let call = call.bytes(arg, part::WHOLE, flags, &[0xff; 7]);
                let call = call.bytes(arg, part::WHOLE, flags, &[0xff; 60]);
                let call = call.bytes(arg, part::VECTOR, flags, &[0xff; 33]);
                let call = call.bytes(arg, part::CONTROL, flags, &[0xff; 9]);
                script.call(1, call.bytes(arg, 200, flags, b"?"));
            }
        }
        // Far more buffers than any call has.
        let mut call = made(nr, &[3, POINTER, 2, 0, 0, 0], 2);
        for _ in 0..2000 {
            call = call.bytes(1, part::CONTENT, 0, b"x");
        }
        script.call(1, call);
    }
    script.finish();
}

/// A pseudo-random number generator, deterministic for a seed.
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[(self.next() % all.len() as u64) as usize]
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// Calls of every number, with arguments chosen from likely and unlikely ones.
fn any_calls(world: &World, seed: u64) {
    let mut random = Random(seed);
    let mut script = Script::new(&world.trace);
    let secret = world.secret();
    let paths = [
        "/",
        "/a",
        "/a/b",
        "..",
        "../../x",
        "",
        "a",
        "/a/b/c",
        "/dev/null",
        "/proc/self/fd/3",
        &secret,
    ];
    let values =
        [0, 1, 2, 3, 4, 5, 64, 66, 0o644, 0o4755, 1 << 20, CWD, POINTER, u64::MAX, 1 << 40];
    let results = [0, 0, 0, 1, 3, 4, 5, 64, -1, -2, -9, -11, -17, 1 << 40];
    let mut threads = 1;
    for _ in 0..1500 {
        let thread = 1 + random.below(u64::from(threads)) as u32;
        let args: Vec<u64> = (0..6).map(|_| random.one_of(&values)).collect();
        let mut call = made(random.below(480) as i64, &args, random.one_of(&results));
        for arg in 0..3 {
            if random.below(2) == 0 {
                call = call.text(arg, random.one_of(&paths));
            } else {
                let flags = random.one_of(&[0, data_flag::OUT]);
                let part = random.below(5) as u8;
                let bytes = vec![random.next() as u8; random.below(64) as usize];
                call = call.bytes(arg, part, flags, &bytes);
            }
        }
        script.call(thread, call);
        if threads < 20 && random.below(40) == 0 {
            threads += 1;
            let how = random.one_of(&[StartHow::Fork, StartHow::Vfork, StartHow::Thread]);
            script.call(thread, made(libc::SYS_fork, &[], 1000 + i64::from(threads)));
            let process = if how == StartHow::Thread { 1 } else { threads };
            script.start(threads, how, process, thread);
        }
    }
    script.finish();
}
