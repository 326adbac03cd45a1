//! Descriptors, directories and processes in the model, from events in memory.

mod elsewhere;
mod files;
mod tasks;

use model::{InlineOnly, Origin, World};
use syscalls::record::{data_flag, part};
use trace::event::{
    Call, Content, Data, Event, EventKind, Extras, OpenFd, Outcome, ProcessState, StartHow,
};
use trace::format::zigzag;
use trace::parts::{Part, part_id};

const CLONE_FILES: u64 = 0x400;
const CLONE_FS: u64 = 0x200;
const O_CLOEXEC: u64 = 0o2_000_000;
const O_TMPFILE: u64 = 0o20_200_000;
const AT_FDCWD: u64 = -100_i64 as u64;

/// An operation closed a number before it was given anew, and was found completed later.
#[test]
fn an_operation_does_not_close_what_has_its_number_since() {
    let mut story = Story::new();
    story.call(1, "io_uring_setup", &[8, 0x1000], 9, &[]);
    story.call(1, "openat", &[AT_FDCWD, 0x1000, 0], 3, &[(1, false, b"/first\0")]);
    let submitted = story.tsc + 10;
    story.call(1, "openat", &[AT_FDCWD, 0x1000, 0], 3, &[(1, false, b"/second\0")]);
    let closes = |story: &mut Story, since: u64| {
        story.tsc += 100;
        let nr = syscalls::by_name("io_uring:CLOSE").unwrap().nr;
        let outcome = Outcome::Returned { exit_tsc: story.tsc, ret: 0 };
        let call = Call { nr, nargs: 3, args: [3, 0, 0, 0, 0, 0], outcome, ..Call::default() };
        let ticks = zigzag(since as i64 - story.tsc as i64);
        let parts = vec![Part::number(part_id::SUBMITTED, ticks)];
        let extras = Some(Box::new(Extras { parts, later_fields: Vec::new() }));
        let event = Event { extras, ..Event::new(1, story.tsc, EventKind::Call(call)) };
        story.world.apply(&event, &mut InlineOnly);
    };
    let path = |story: &Story| {
        let table = story.world.descriptors(1).unwrap();
        table.get(3).map(|entry| entry.description.path.clone())
    };
    closes(&mut story, submitted);
    assert_eq!(path(&story).as_deref(), Some(&b"/second"[..]));
    let now = story.tsc;
    closes(&mut story, now);
    assert_eq!(path(&story), None);
}

/// A world, and the time of its events.
struct Story {
    world: World,
    tsc: u64,
}

impl Story {
    /// Begins with process 1, which has thread 1.
    fn new() -> Story {
        let mut story = Story { world: World::new(), tsc: 0 };
        story.start(1, StartHow::Launch, 1, 0, 100);
        story
    }

    fn event(&mut self, thread: u32, kind: EventKind) {
        self.tsc += 100;
        self.world.apply(&Event::new(thread, self.tsc, kind), &mut InlineOnly);
    }

    fn start(&mut self, thread: u32, how: StartHow, process: u32, parent: u32, tid: u32) {
        let pid = if how == StartHow::Thread { 100 } else { tid };
        self.event(thread, EventKind::Start { how, process, parent, pid, tid });
    }

    /// Adds a call that takes 50 ticks, and advances the time by 100.
    fn call(
        &mut self,
        thread: u32,
        name: &str,
        args: &[u64],
        ret: i64,
        data: &[(u8, bool, &[u8])],
    ) {
        self.call_for(50, thread, name, args, ret, data);
    }

    fn call_for(
        &mut self,
        ticks: u64,
        thread: u32,
        name: &str,
        args: &[u64],
        ret: i64,
        data: &[(u8, bool, &[u8])],
    ) {
        let mut all = [0; 6];
        all[..args.len()].copy_from_slice(args);
        let exit_tsc = self.tsc + 100 + ticks;
        let data = data.iter().map(|(arg, out, bytes)| Data {
            arg: *arg,
            part: part::WHOLE,
            index: 0,
            flags: if *out { data_flag::OUT } else { 0 },
            true_len: bytes.len() as u64,
            hash: None,
            content: Content::Inline(bytes.to_vec()),
        });
        let call = Call {
            nr: syscalls::by_name(name).expect("a row").nr,
            flags: 0,
            site: 0,
            nargs: args.len() as u8,
            args: all,
            outcome: Outcome::Returned { exit_tsc, ret },
            data: data.collect(),
            identities: vec![],
        };
        self.event(thread, EventKind::Call(call));
    }

    fn open(&mut self, thread: u32, path: &str, fd: i64) {
        self.open_with(thread, path, fd, 0);
    }

    fn open_with(&mut self, thread: u32, path: &str, fd: i64, flags: u64) {
        let path = [(1, false, path.as_bytes())];
        self.call(thread, "openat", &[-100i64 as u64, 1, flags, 0], fd, &path);
    }

    fn chdir(&mut self, thread: u32, path: &str) {
        self.call(thread, "chdir", &[1], 0, &[(0, false, path.as_bytes())]);
    }

    fn image(&mut self, thread: u32) {
        self.event(thread, EventKind::Image { tid: 100, data: vec![] });
    }

    /// Lets all calls return, then compares the descriptors of a thread.
    #[track_caller]
    fn check(&mut self, thread: u32, expected: &[(i32, &str)]) {
        self.event(0, EventKind::Stall { ns: 0 });
        let table = self.world.descriptors(thread).expect("the thread lives");
        let found: Vec<(i32, String)> = table
            .iter()
            .map(|(fd, entry)| (fd, String::from_utf8(entry.description.path.clone()).unwrap()))
            .collect();
        let expected: Vec<_> = expected.iter().map(|(fd, path)| (*fd, path.to_string())).collect();
        assert_eq!(found, expected);
    }

    #[track_caller]
    fn check_cwd(&mut self, thread: u32, expected: &str) {
        self.event(0, EventKind::Stall { ns: 0 });
        assert_eq!(String::from_utf8(self.world.cwd(thread)).unwrap(), expected);
    }
}

#[test]
fn a_fork_copies_and_a_thread_shares() {
    let mut story = Story::new();
    story.open(1, "/a", 3);
    story.call(1, "fork", &[], 200, &[]);
    story.start(2, StartHow::Fork, 2, 1, 200);
    story.call(1, "clone", &[CLONE_FILES | CLONE_FS], 101, &[]);
    story.start(3, StartHow::Thread, 1, 1, 101);
    story.open(3, "/b", 4);
    story.call(2, "close", &[3], 0, &[]);
    story.check(1, &[(3, "/a"), (4, "/b")]);
    story.check(2, &[]);
    story.check(3, &[(3, "/a"), (4, "/b")]);
}

#[test]
fn a_child_gets_what_there_was_when_the_fork_began() {
    let mut story = Story::new();
    story.open(1, "/a", 3);
    story.call(1, "fork", &[], 200, &[]);
    story.call(1, "close", &[3], 0, &[]);
    story.open(1, "/b", 3);
    story.call(1, "fork", &[], 201, &[]);
    story.call(1, "close", &[3], 0, &[]);
    // The children appear late, and in the other order.
    story.start(3, StartHow::Fork, 3, 1, 201);
    story.start(2, StartHow::Fork, 2, 1, 200);
    story.check(2, &[(3, "/a")]);
    story.check(3, &[(3, "/b")]);
    story.check(1, &[]);
}

#[test]
fn a_thread_of_an_unknown_maker_shares_with_its_process() {
    let mut story = Story::new();
    story.open(1, "/a", 3);
    story.start(3, StartHow::Thread, 1, 77, 101);
    story.open(3, "/b", 4);
    story.check(1, &[(3, "/a"), (4, "/b")]);
}

#[test]
fn a_fork_that_failed_leaves_nothing() {
    let mut story = Story::new();
    story.call(1, "fork", &[], -11, &[]);
    story.open(1, "/a", 3);
    story.call(1, "fork", &[], 200, &[]);
    story.start(2, StartHow::Fork, 2, 1, 200);
    story.check(2, &[(3, "/a")]);
}

#[test]
fn calls_that_overlap_take_effect_in_the_order_of_the_kernel() {
    let mut story = Story::new();
    story.call(1, "clone", &[CLONE_FILES | CLONE_FS], 101, &[]);
    story.start(2, StartHow::Thread, 1, 1, 101);
    story.open(1, "/old", 3);
    // The open blocks until another thread has closed number 3, and then gets this number.
    let path = [(1, false, b"/fifo".as_slice())];
    story.call_for(1000, 1, "openat", &[-100i64 as u64, 1, 0, 0], 3, &path);
    story.call(2, "close", &[3], 0, &[]);
    story.check(2, &[]);
    story.tsc += 2000;
    story.check(2, &[(3, "/fifo")]);
    // A slow close frees the number long before it returns.
    story.call_for(1000, 1, "close", &[3], 0, &[]);
    story.open(2, "/new", 3);
    story.tsc += 2000;
    story.check(1, &[(3, "/new")]);
}

#[test]
fn a_close_that_failed() {
    let mut story = Story::new();
    story.open(1, "/a", 3);
    story.open(1, "/b", 4);
    story.call(1, "close", &[3], -4, &[]);
    story.call(1, "close", &[4], -9, &[]);
    story.check(1, &[(4, "/b")]);
}

#[test]
fn copies_and_ranges() {
    let mut story = Story::new();
    story.open(1, "/a", 3);
    story.call(1, "dup", &[3], 4, &[]);
    story.call(1, "dup2", &[3, 10], 10, &[]);
    story.call(1, "dup3", &[3, 11, O_CLOEXEC], 11, &[]);
    story.call(1, "fcntl", &[3, 0, 20], 20, &[]);
    story.call(1, "fcntl", &[3, 1030, 20], 21, &[]);
    story.call(1, "close_range", &[4, 10, 0], 0, &[]);
    story.check(1, &[(3, "/a"), (11, "/a"), (20, "/a"), (21, "/a")]);
    story.image(1);
    story.check(1, &[(3, "/a"), (20, "/a")]);
}

#[test]
fn close_on_exec_can_be_changed() {
    let mut story = Story::new();
    for fd in 3..8 {
        story.open(1, "/a", fd);
    }
    story.open_with(1, "/b", 9, O_CLOEXEC);
    story.call(1, "fcntl", &[3, 2, 1], 0, &[]);
    story.call(1, "ioctl", &[4, 0x5451], 0, &[]);
    story.call(1, "close_range", &[5, 6, 4], 0, &[]);
    story.call(1, "fcntl", &[9, 2, 0], 0, &[]);
    story.image(1);
    story.check(1, &[(7, "/a"), (9, "/b")]);
}

#[test]
fn directories() {
    let mut story = Story::new();
    story.chdir(1, "/usr");
    story.chdir(1, "lib/../share");
    story.check_cwd(1, "/usr/share");
    story.call(1, "clone", &[CLONE_FILES | CLONE_FS], 101, &[]);
    story.start(2, StartHow::Thread, 1, 1, 101);
    story.chdir(2, "/tmp");
    story.check_cwd(1, "/tmp");
    story.call(2, "unshare", &[CLONE_FS], 0, &[]);
    story.chdir(2, "/var");
    story.check_cwd(1, "/tmp");
    story.check_cwd(2, "/var");
    story.open(1, "x", 3);
    story.check(2, &[(3, "/tmp/x")]);
    story.call(2, "getcwd", &[1, 100], 6, &[(0, true, b"/real\0")]);
    story.check_cwd(2, "/real");
}

#[test]
fn what_the_kernel_says_at_exec_counts() {
    let mut story = Story::new();
    story.open(1, "/a", 3);
    story.open(1, "/b", 4);
    story.chdir(1, "/wrong");
    story.call(1, "fork", &[], 200, &[]);
    story.start(2, StartHow::Fork, 2, 1, 200);
    story.call(2, "getppid", &[], 100, &[]);
    let open = |fd, target: &str| OpenFd { fd, target: target.into(), offset: 0, flags: 0 };
    let state = ProcessState {
        process: 2,
        exe: b"/bin/true".to_vec(),
        cwd: b"/right".to_vec(),
        fds: vec![open(0, "/dev/null"), open(3, "/a")],
        ..ProcessState::default()
    };
    // The state is recorded before the new program begins, and is valid from then on.
    story.event(0, EventKind::State(Box::new(state)));
    story.check(2, &[(3, "/a"), (4, "/b")]);
    story.event(2, EventKind::Image { tid: 200, data: vec![] });
    story.check(2, &[(0, "/dev/null"), (3, "/a")]);
    story.check_cwd(2, "/right");
    story.check_cwd(1, "/wrong");
    assert_eq!(story.world.process(2).unwrap().exe[..], *b"/bin/true");
}

#[test]
fn a_state_among_the_events_of_a_thread_counts_from_there_on() {
    let mut story = Story::new();
    story.open(1, "/a", 3);
    story.open(1, "/b", 4);
    let open = |fd, target: &str| OpenFd { fd, target: target.into(), ..OpenFd::default() };
    let state = ProcessState {
        process: 1,
        cwd: b"/there".to_vec(),
        fds: vec![open(3, "/c"), open(4, "/b"), open(7, "/d")],
        ..ProcessState::default()
    };
    story.event(0, EventKind::State(Box::new(state.clone())));
    story.check(1, &[(3, "/a"), (4, "/b")]);
    story.event(1, EventKind::State(Box::new(state)));
    story.check(1, &[(3, "/c"), (4, "/b"), (7, "/d")]);
    story.check_cwd(1, "/there");
}

#[test]
fn what_has_ended_takes_no_memory() {
    let mut story = Story::new();
    for number in 2..1000 {
        story.call(1, "fork", &[], i64::from(number), &[]);
        story.start(number, StartHow::Fork, number, 1, number);
        story.event(number, EventKind::End { calls: 0 });
        story.event(0, EventKind::Exit { process: number, status: Some(0) });
    }
    assert_eq!(story.world.processes().count(), 1);
    assert!(story.world.thread(5).is_none());
    // A killed process has threads without a recorded end.
    story.event(0, EventKind::Exit { process: 1, status: Some(9) });
    assert_eq!(story.world.processes().count(), 0);
    assert!(story.world.thread(1).is_none());
}

#[test]
fn a_launched_process_runs_what_was_told_at_its_start() {
    let mut story = Story { world: World::new(), tsc: 0 };
    let exe = b"/usr/bin/python3.11".to_vec();
    let state = ProcessState { process: 1, exe: exe.clone(), ..ProcessState::default() };
    story.event(0, EventKind::State(Box::new(state)));
    story.start(1, StartHow::Launch, 1, 0, 100);
    let image = |name: &[u8]| Data {
        arg: 0,
        part: part::ARGV,
        index: 0,
        flags: 0,
        true_len: name.len() as u64,
        hash: None,
        content: Content::Inline(name.to_vec()),
    };
    story.event(1, EventKind::Image { tid: 100, data: vec![image(b"python3\0")] });
    assert_eq!(story.world.process(1).unwrap().exe[..], exe[..]);
    // Another program, of which only the arguments are known.
    story.call(1, "execve", &[1, 2, 3], 0, &[(0, false, b"/bin/true")]);
    story.event(1, EventKind::Image { tid: 100, data: vec![image(b"true\0")] });
    assert_eq!(story.world.process(1).unwrap().exe[..], *b"true");
}

#[test]
fn a_copy_of_what_nobody_saw_opened_is_as_unknown() {
    let mut story = Story::new();
    story.open(1, "/a", 4);
    story.open(1, "/b", 5);
    story.open(1, "/c", 6);
    story.call(1, "dup2", &[3, 4], 4, &[]);
    story.check(1, &[(5, "/b"), (6, "/c")]);
    story.call(1, "dup3", &[3, 5, O_CLOEXEC], 5, &[]);
    story.call(1, "dup2", &[3, 6], -9, &[]);
    story.check(1, &[(6, "/c")]);
}

/// Links of a process to its own directories and descriptors are resolved.
#[test]
fn own_links_are_what_they_lead_to() {
    let mut story = Story::new();
    story.call(1, "chdir", &[0x10], 0, &[(0, false, b"/home\0")]);
    let open = |story: &mut Story, path: &[u8], flags: u64, fd: i64| {
        story.call(1, "openat", &[AT_FDCWD, 0x10, flags, 0], fd, &[(1, false, path)]);
        // The open has returned by then.
        story.call(1, "getpid", &[], 100, &[]);
        let table = story.world.descriptors(1).unwrap();
        let description = &table.get(fd as i32).unwrap().description;
        (String::from_utf8(description.path.clone()).unwrap(), description.origin)
    };
    let named = |path: &str| (path.to_string(), Origin::Path);
    assert_eq!(open(&mut story, b"/proc/self/cwd/a\0", 0, 3), named("/home/a"));
    assert_eq!(open(&mut story, b"/proc/100/root/etc/a\0", 0, 4), named("/etc/a"));
    assert_eq!(open(&mut story, b"dir\0", 0, 5), named("/home/dir"));
    assert_eq!(open(&mut story, b"/proc/self/fd/5/b/../c\0", 0, 6), named("/home/dir/c"));
    assert_eq!(open(&mut story, b"/dev/fd/6\0", 0, 7), named("/home/dir/c"));
    let unnamed = ("/home/dir/# (deleted)".to_string(), Origin::Unnamed);
    assert_eq!(open(&mut story, b"dir\0", O_TMPFILE, 8), unnamed);
    assert_eq!(open(&mut story, b"/proc/thread-self/fd/8\0", 0, 9), unnamed);
    story.call(1, "memfd_create", &[0x10, 0], 10, &[(0, false, b"some\0")]);
    let memory = ("/memfd:some (deleted)".to_string(), Origin::Memory);
    assert_eq!(open(&mut story, b"/proc/100/fd/10\0", 0, 11), memory);
    story.call(1, "chdir", &[0x10], 0, &[(0, false, b"/proc/self/fd/5\0")]);
    story.check_cwd(1, "/home/dir");
}
