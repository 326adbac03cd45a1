//! Tests that compare the lines printed for given events.

use model::decode::sockaddr;
use model::{InlineOnly, Moment, World};
use syscalls::record::{IMAGE_ARG, SIGINFO_BYTES, data_flag, part};
use trace::event::{
    Call, Content, Data, Event, EventKind, Outcome, ProcessState, RECORDER, StartHow,
};

use super::Lines;
use super::value;

const WRITE: u16 = 1;
const WAIT4: u16 = 61;
const EXIT_GROUP: u16 = 231;

fn lines(events: &[Event]) -> String {
    let mut text = Vec::new();
    let mut lines = Lines::new(&mut text, 1_000_000_000, true);
    let mut world = World::new();
    let mut contents = InlineOnly;
    for event in events {
        let step = world.step(event, &mut contents);
        let moment = Moment::new(None, event, &world, &step, &|tsc| tsc * 1000);
        lines.event(&moment, true, &mut contents).expect("memory takes everything");
        world.finish(step);
    }
    lines.finish().expect("memory takes everything");
    String::from_utf8(text).expect("text")
}

fn event(thread: u32, tsc: u64, kind: EventKind) -> Event {
    Event::new(thread, tsc, kind)
}

fn start(thread: u32, tsc: u64, how: StartHow, process: u32) -> Event {
    let (pid, tid) = (100 + process, 100 + thread);
    let parent = u32::from(how != StartHow::Launch);
    event(thread, tsc, EventKind::Start { how, process, parent, pid, tid })
}

fn data(arg: u8, part: u8, out: bool, bytes: &[u8]) -> Data {
    Data {
        arg,
        part,
        flags: if out { data_flag::OUT } else { 0 },
        true_len: bytes.len() as u64,
        content: Content::Inline(bytes.to_vec()),
        ..Data::default()
    }
}

fn call(thread: u32, tsc: u64, nr: u16, args: &[u64], data: Vec<Data>, outcome: Outcome) -> Event {
    let mut all = [0; 6];
    all[..args.len()].copy_from_slice(args);
    let nargs = args.len() as u8;
    event(
        thread,
        tsc,
        EventKind::Call(Call { nr, nargs, args: all, data, outcome, ..Call::default() }),
    )
}

fn returned(exit_tsc: u64, ret: i64) -> Outcome {
    Outcome::Returned { exit_tsc, ret }
}

#[test]
fn calls_that_others_interrupt_are_cut_in_two() {
    let waited = vec![data(1, part::WHOLE, true, &0x300i32.to_le_bytes())];
    let wrote = vec![data(1, part::WHOLE, false, b"a\n")];
    let text = lines(&[
        start(1, 1, StartHow::Launch, 1),
        start(2, 2, StartHow::Fork, 2),
        call(1, 10, WAIT4, &[u64::MAX, 0x7000, 0, 0], waited, returned(40, 102)),
        call(2, 20, WRITE, &[1, 0x5000, 2], wrote, returned(21, 2)),
        call(2, 30, EXIT_GROUP, &[3], Vec::new(), Outcome::Unfinished),
        event(2, 31, EventKind::End { calls: 2 }),
        event(RECORDER, 32, EventKind::Exit { process: 2, status: Some(0x300) }),
    ]);
    assert_eq!(
        text,
        "101   1.000010 wait4(-1,  <unfinished ...>\n\
         102   1.000020 write(1, \"\\x61\\x0a\", 2)  = 2 <0.000001>\n\
         102   1.000030 exit_group(3)            = ?\n\
         102   1.000032 +++ exited with 3 +++\n\
         101   1.000040 <... wait4 resumed>[{WIFEXITED(s) && WEXITSTATUS(s) == 3}], 0, NULL) = 102 <0.000030>\n"
    );
}

#[test]
fn the_first_exec_is_put_together() {
    let image = vec![
        data(IMAGE_ARG, part::ARGV, false, b"a\0-b\0"),
        data(IMAGE_ARG, part::ENVP, false, b"C=d\0"),
    ];
    let state = ProcessState { process: 1, exe: b"/bin/a".to_vec(), ..ProcessState::default() };
    let text = lines(&[
        start(1, 1, StartHow::Launch, 1),
        event(RECORDER, 2, EventKind::State(Box::new(state))),
        event(1, 3, EventKind::Image { tid: 101, data: image }),
    ]);
    assert_eq!(
        text,
        "101   1.000003 execve(\"\\x2f\\x62\\x69\\x6e\\x2f\\x61\", [\"\\x61\", \"\\x2d\\x62\"], \
         [\"\\x43\\x3d\\x64\"]) = 0 <0.000000>\n"
    );
}

#[test]
fn a_handler_returns_to_the_mask_of_before() {
    let mut info = [0; SIGINFO_BYTES];
    info[0] = 10;
    let block = vec![data(1, part::WHOLE, false, &(1u64 << 11).to_le_bytes())];
    let text = lines(&[
        start(1, 1, StartHow::Launch, 1),
        call(1, 2, 14, &[0, 0x5000, 0, 8], block, returned(3, 0)),
        call(1, 4, 39, &[], Vec::new(), returned(5, 101)),
        event(1, 6, EventKind::Signal { signal: 10, handler: 0x4000, info }),
        call(1, 7, 15, &[], Vec::new(), Outcome::Unfinished),
    ]);
    let ends: Vec<&str> = text.lines().skip(2).filter_map(|line| line.get(15..)).collect();
    assert_eq!(
        ends,
        [
            "--- SIGUSR1 {si_signo=SIGUSR1, si_code=SI_USER, si_pid=0, si_uid=0} ---",
            "rt_sigreturn({mask=[USR2]}) = 101 <0.000000>",
        ]
    );
}

#[test]
fn addresses_of_sockets() {
    let shown = |bytes: &[u8]| {
        let mut out = String::new();
        value::plain(&mut out, &sockaddr::decode(bytes).expect("an address"));
        out
    };
    assert_eq!(shown(b"\x01\0\0ab"), "{sa_family=AF_UNIX, sun_path=@\"\\x61\\x62\"}");
    assert_eq!(
        shown(b"\x02\0\0\x50\x7f\0\0\x01"),
        "{sa_family=AF_INET, sin_port=htons(80), \
         sin_addr=inet_addr(\"\\x31\\x32\\x37\\x2e\\x30\\x2e\\x30\\x2e\\x31\")}"
    );
}
