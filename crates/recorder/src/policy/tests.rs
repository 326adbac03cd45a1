use trace::event::{Content, OpenFd, RECORDER, StartHow};

use super::*;
use crate::mailbox::Message;
use crate::mailbox::tests::test_mailbox;

const READ: u16 = 0;
const WRITE: u16 = 1;
const OPEN: u16 = 2;
const DUP2: u16 = 33;
const FORK: u16 = 57;
const GETXATTR: u16 = 191;
const EBADF: i64 = -9;

fn rules(usual: DataMode, rules: &[(&str, DataMode)]) -> DataRules {
    let rule = |(glob, mode): &(&str, DataMode)| DataRule { glob: (*glob).into(), mode: *mode };
    DataRules { usual, rules: rules.iter().map(rule).collect() }
}

fn secret_rules() -> DataRules {
    rules(DataMode::Full, &[("*.key", DataMode::None)])
}

/// One process with one thread, whose calls take 5 ticks.
struct Story {
    policy: Policy,
    mailbox: Arc<Mailbox>,
    tsc: u64,
}

impl Story {
    fn new(rules: DataRules) -> Story {
        let mailbox = test_mailbox();
        let policy = Policy::new(rules, None, Arc::clone(&mailbox));
        let mut story = Story { policy, mailbox, tsc: 100 };
        story.start(1, StartHow::Launch, 1, 0, 500);
        story
    }

    fn event(&mut self, thread: u32, kind: EventKind) {
        self.tsc += 10;
        self.policy.event(thread, self.tsc, &kind);
    }

    fn start(&mut self, thread: u32, how: StartHow, process: u32, parent: u32, tid: u32) {
        self.event(thread, EventKind::Start { how, process, parent, pid: tid, tid });
    }

    /// A call begins.
    fn enter(&mut self, thread: u32, nr: u16, args: &[u64]) -> (Call, Option<DataMode>) {
        self.tsc += 10;
        let mut all = [0; 6];
        all[..args.len()].copy_from_slice(args);
        let call = Call {
            nr,
            flags: 0,
            site: 0,
            nargs: args.len() as u8,
            args: all,
            outcome: Outcome::Unfinished,
            data: Vec::new(),
            identities: Vec::new(),
        };
        let mode = self.policy.entered(thread, self.tsc, &call);
        (call, mode)
    }

    fn exit(&mut self, thread: u32, mut call: Call, ret: i64) {
        call.outcome = Outcome::Returned { exit_tsc: self.tsc + 5, ret };
        let (tsc, bare) = (self.tsc, call.clone());
        self.policy.returned(thread, tsc, &bare, || call);
    }

    fn call(&mut self, thread: u32, nr: u16, args: &[u64], ret: i64) {
        let (call, _) = self.enter(thread, nr, args);
        self.exit(thread, call, ret);
    }

    fn open(&mut self, thread: u32, path: &str, fd: i64) {
        let (mut call, _) = self.enter(thread, OPEN, &[1, 0, 0]);
        call.data.push(text(0, path));
        self.exit(thread, call, fd);
    }

    /// The mode for what a thread reads from a descriptor.
    fn reading(&mut self, thread: u32, fd: u64) -> DataMode {
        let (call, of_descriptors) = self.enter(thread, READ, &[fd, 1, 100]);
        self.policy.decide(thread, self.tsc, call, of_descriptors)
    }

    fn state(&self, process: u32, fds: &[(i32, &str)]) -> EventKind {
        let open = |(fd, target): &(i32, &str)| OpenFd {
            fd: *fd,
            target: (*target).into(),
            ..OpenFd::default()
        };
        let fds = fds.iter().map(open).collect();
        let cwd = b"/home".to_vec();
        EventKind::State(Box::new(ProcessState { process, cwd, fds, ..Default::default() }))
    }

    fn image(&mut self, thread: u32) {
        self.event(thread, EventKind::Image { tid: 500, data: Vec::new() });
    }
}

fn text(arg: u8, path: &str) -> Data {
    Data {
        arg,
        part: part::WHOLE,
        index: 0,
        flags: 0,
        true_len: path.len() as u64,
        hash: None,
        content: Content::Inline(path.into()),
    }
}

#[test]
fn the_last_rule_that_fits_counts() {
    let some = [("/etc/*", DataMode::None), ("*.pub", DataMode::Full), ("*x*", DataMode::Hash)];
    let rules = rules(DataMode::Hash, &some);
    assert_eq!(rules.most(), DataMode::Full);
    let cases = [
        ("/etc/ssh/id", DataMode::None),
        ("/etc/ssh/id.pub", DataMode::Full),
        ("/etc/x.pub", DataMode::Hash),
        ("/home/a", DataMode::Hash),
        ("/etc/ssh/id (deleted)", DataMode::None),
        ("/home/id.pub (deleted)", DataMode::Hash),
    ];
    for (path, mode) in cases {
        assert_eq!(rules.of_path(path.as_bytes()), mode, "{path}");
    }
}

#[test]
fn names_that_tell_nothing_are_in_doubt() {
    let rules = secret_rules();
    for doubtful in [
        "received",
        "unknown",
        "anon_inode:[openat]",
        "/dev/stdin",
        "/dev/fd/3",
        "/proc/self/fd/3",
        "/proc/12/cwd/x",
    ] {
        assert_eq!(rules.of_path(doubtful.as_bytes()), DataMode::Hash, "{doubtful}");
    }
    for plain in ["pipe:[3]", "socket:[AF_UNIX]", "anon_inode:[eventfd]", "/proc/self/maps"] {
        assert_eq!(rules.of_path(plain.as_bytes()), DataMode::Full, "{plain}");
    }
    // If rules only keep more than usual, doubtful names get the usual mode.
    let more = DataRules { usual: DataMode::None, ..secret_rules() };
    assert_eq!(more.of_path(b"unknown"), DataMode::None);
}

#[test]
fn descriptors_are_followed() {
    let mut story = Story::new(secret_rules());
    story.open(1, "/a.key", 3);
    story.open(1, "/b.txt", 4);
    assert_eq!(story.reading(1, 3), DataMode::None);
    assert_eq!(story.reading(1, 4), DataMode::Full);
    assert_eq!(story.reading(1, 5), DataMode::Hash, "nobody knows descriptor 5");
    story.call(1, DUP2, &[3, 4], 4);
    assert_eq!(story.reading(1, 4), DataMode::None);
    story.call(1, calls::CLOSE, &[3], 0);
    assert_eq!(story.reading(1, 3), DataMode::Hash);
    story.call(1, calls::CLOSE, &[77], EBADF);
    let (write, mode) = story.enter(1, WRITE, &[4, 1, 9]);
    assert_eq!(story.policy.decide(1, story.tsc, write, mode), DataMode::None);
}

#[test]
fn between_its_beginning_and_its_end_a_copy_is_in_doubt() {
    let mut story = Story::new(secret_rules());
    story.open(1, "/a.key", 3);
    story.open(1, "/b.txt", 4);
    story.start(2, StartHow::Thread, 1, 1, 501);
    let (copy, _) = story.enter(1, DUP2, &[3, 4]);
    assert_eq!(story.reading(2, 4), DataMode::Hash);
    story.exit(1, copy, 4);
    story.tsc += 10;
    assert_eq!(story.reading(2, 4), DataMode::None);
}

#[test]
fn paths_among_the_arguments_count() {
    let mut story = Story::new(secret_rules());
    let mut kept = |path: &str| {
        let (mut call, mode) = story.enter(1, GETXATTR, &[1, 1, 1, 100]);
        call.data.push(text(0, path));
        story.policy.decide(1, story.tsc, call, mode)
    };
    assert_eq!(kept("/a.key"), DataMode::None);
    assert_eq!(kept("/a.txt"), DataMode::Full);
    assert_eq!(kept("a.txt"), DataMode::Hash, "the working directory is not known");
}

#[test]
fn a_child_that_begins_before_its_parent_returns_has_the_right_descriptors() {
    let mut story = Story::new(secret_rules());
    story.open(1, "/a.key", 3);
    let (fork, _) = story.enter(1, FORK, &[]);
    story.start(2, StartHow::Fork, 2, 1, 501);
    story.exit(1, fork, 501);
    // Nothing may remain that could be applied to the next child.
    story.call(1, calls::CLOSE, &[3], 0);
    story.open(1, "/b.txt", 3);
    let (fork, _) = story.enter(1, FORK, &[]);
    story.exit(1, fork, 502);
    story.call(1, calls::CLOSE, &[3], 0);
    story.start(3, StartHow::Fork, 3, 1, 502);
    assert_eq!(story.reading(2, 3), DataMode::None);
    assert_eq!(story.reading(3, 3), DataMode::Full);
    assert_eq!(story.reading(1, 3), DataMode::Hash);
}

#[test]
fn what_a_program_begins_with_is_known() {
    let mut story = Story::new(secret_rules());
    assert_eq!(story.reading(1, 0), DataMode::Hash);
    let state = story.state(1, &[(0, "/home/a.key"), (1, "/home/b")]);
    story.event(RECORDER, state);
    story.image(1);
    assert_eq!(story.reading(1, 0), DataMode::None);
    assert_eq!(story.reading(1, 1), DataMode::Full);
    story.open(1, "c.key", 5);
    assert_eq!(story.reading(1, 5), DataMode::None);
}

#[test]
fn a_state_whose_message_was_not_read_yet_counts_once() {
    let mut story = Story::new(secret_rules());
    let kind = story.state(1, &[(0, "/home/a.txt")]);
    story.tsc += 10;
    let event = Event::new(RECORDER, story.tsc, kind.clone());
    let told = story.tsc;
    story.mailbox.send(Message::Event(event));
    story.image(1);
    assert_eq!(story.reading(1, 0), DataMode::Full);
    // The message read now must not be applied to a later program.
    story.mailbox.take();
    story.policy.event(RECORDER, told, &kind);
    story.open(1, "/a.key", 3);
    story.call(1, DUP2, &[3, 0], 0);
    story.tsc += 10;
    story.image(1);
    assert_eq!(story.reading(1, 0), DataMode::None);
}

#[test]
fn without_order_nothing_is_certain() {
    let mut story = Story::new(secret_rules());
    story.open(1, "/a.key", 3);
    story.open(1, "/b.txt", 4);
    story.policy.careful = true;
    assert_eq!(story.reading(1, 3), DataMode::None);
    assert_eq!(story.reading(1, 4), DataMode::Hash);
}

#[test]
fn what_links_and_directories_are_called_is_no_content() {
    for name in ["getcwd", "readlink", "readlinkat"] {
        let row = syscalls::by_name(name).unwrap();
        let buffer = row.args.iter().position(|arg| arg.name == "buf").unwrap() as u8;
        let (call, _) = Story::new(secret_rules()).enter(1, row.nr, &[]);
        assert_eq!(Policy::piece(&call, buffer, part::WHOLE), Piece::Told, "{name}");
    }
}
