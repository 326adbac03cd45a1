//! Tests of `show` with events in memory.

use model::{CallChoice, Conditions, InlineOnly, Stored, Walk};
use render::lines::Look;
use render::objects::Detail;
use render::text::Style;
use syscalls::record::{data_flag, part};
use trace::Sequenced;
use trace::event::{
    Call, Content, Data, Event, EventKind, Extras, FieldValue, GapWhy, OtherEvent, Outcome,
    StartHow,
};
use trace::event_table::row_of;
use trace::format::event_number;
use trace::parts::{Part, part_id};

use super::{Format, Printer, Seen};

/// Makes a call that returned 0.
pub fn call(nr: u16, args: &[u64]) -> Call {
    let mut all = [0; 6];
    all[..args.len()].copy_from_slice(args);
    Call {
        nr,
        flags: 0,
        site: 0x1000,
        nargs: args.len() as u8,
        args: all,
        outcome: Outcome::Returned { exit_tsc: 0, ret: 0 },
        data: Vec::new(),
        identities: Vec::new(),
    }
}

fn named(name: &str, args: &[u64]) -> Call {
    call(syscalls::by_name(name).expect("a row").nr, args)
}

fn ret(mut call: Call, ret: i64) -> Call {
    call.outcome = Outcome::Returned { exit_tsc: 0, ret };
    call
}

fn piece(mut call: Call, arg: u8, part: u8, flags: u8, bytes: &[u8]) -> Call {
    call.data.push(Data {
        arg,
        part,
        index: 0,
        flags,
        true_len: bytes.len() as u64,
        hash: None,
        content: Content::Inline(bytes.to_vec()),
    });
    call
}

/// Adds memory that was read before the call.
fn with(call: Call, arg: u8, bytes: &[u8]) -> Call {
    piece(call, arg, part::WHOLE, 0, bytes)
}

/// Adds memory that was read after the call.
fn out(call: Call, arg: u8, bytes: &[u8]) -> Call {
    piece(call, arg, part::WHOLE, data_flag::OUT, bytes)
}

fn launch() -> EventKind {
    EventKind::Start { how: StartHow::Launch, process: 1, parent: 0, pid: 100, tid: 100 }
}

/// Makes events one microsecond apart; each call takes 500 ns.
fn timed(events: Vec<(u32, EventKind)>) -> Vec<Event> {
    let mut tsc = 0;
    let timed = events.into_iter().map(|(thread, mut kind)| {
        tsc += 1000;
        if let EventKind::Call(Call { outcome: Outcome::Returned { exit_tsc, .. }, .. }) = &mut kind
        {
            *exit_tsc = tsc + 500;
        }
        Event::new(thread, tsc, kind)
    });
    timed.collect()
}

fn shown(events: &[Event], conditions: Conditions, format: Format, limit: u64) -> String {
    let mut bytes = Vec::new();
    let walk = Walk::default();
    let mut printer = Printer {
        walk,
        conditions,
        format,
        left: limit,
        only: None,
        seen: Seen::default(),
        chains: None,
        out: &mut bytes,
    };
    let mut seq = 0;
    for event in events {
        let number = matches!(event.kind, EventKind::Call(_)).then_some(seq);
        seq += u64::from(number.is_some());
        let next = Sequenced { seq: number, event: event.clone() };
        if !printer.event(&next, &|tsc| tsc, &mut InlineOnly).unwrap() {
            break;
        }
    }
    String::from_utf8(bytes).unwrap()
}

/// Returns what is shown of a trace, as text or as JSON.
pub fn shown_of(trace: &trace::Trace, conditions: Conditions, json: bool) -> String {
    let format = if json { Format::Json(Detail { data: true, ids: false }) } else { text() };
    let mut bytes = Vec::new();
    let (walk, left) = (Walk::default(), u64::MAX);
    let mut printer = Printer {
        walk,
        conditions,
        format,
        left,
        only: None,
        seen: Seen::default(),
        chains: None,
        out: &mut bytes,
    };
    for next in trace.events() {
        printer.next(trace, &next.unwrap()).unwrap();
    }
    String::from_utf8(bytes).unwrap()
}

fn text() -> Format {
    in_style(false)
}

fn in_style(verbose: bool) -> Format {
    let style = Style { string_limit: 32, data: true, verbose };
    Format::Text {
        look: Look { style, hex: false, colour: false, seq: false, names: false },
        line: String::new(),
    }
}

/// Checks the line of the last of these calls, without process, time and duration.
#[track_caller]
fn check(calls: Vec<Call>, expected: &str) {
    check_as(calls, text(), expected);
}

#[track_caller]
fn check_as(calls: Vec<Call>, format: Format, expected: &str) {
    let mut events = vec![(1, launch())];
    events.extend(calls.into_iter().map(|call| (1, EventKind::Call(call))));
    let all = shown(&timed(events), Conditions::default(), format, u64::MAX);
    let line = all.lines().last().unwrap();
    let line = line.split_once(' ').unwrap().1.trim_start().split_once(' ').unwrap().1;
    let line = line.strip_suffix(" <0.000000500>").unwrap_or(line);
    assert_eq!(line, expected);
}

fn open(path: &str, fd: i64) -> Call {
    ret(with(named("openat", &[-100i64 as u64, 0x7000, 0, 0]), 1, path.as_bytes()), fd)
}

fn words(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn ints(values: &[i32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

#[test]
fn descriptors_have_paths() {
    check(
        vec![open("/etc/passwd", 3)],
        r#"openat(AT_FDCWD, "/etc/passwd", O_RDONLY) = 3</etc/passwd>"#,
    );
    let read = ret(out(named("read", &[3, 0x8000, 100]), 1, b"root:x:0\n"), 9);
    check(vec![open("/etc/passwd", 3), read], r#"read(3</etc/passwd>, "root:x:0\n", 100) = 9"#);
    let close = named("close", &[3]);
    check(vec![open("/a", 3), close.clone()], "close(3</a>) = 0");
    check(vec![open("/a", 3), close, named("fsync", &[3])], "fsync(3) = 0");
    let dup = ret(named("dup2", &[3, 7]), 7);
    check(vec![open("/a", 3), dup.clone(), named("fsync", &[7])], "fsync(7</a>) = 0");
    check(vec![open("/a", 3), dup], "dup2(3</a>, 7) = 7</a>");
}

#[test]
fn paths_follow_the_working_directory() {
    let chdir = with(named("chdir", &[0x7000]), 0, b"/home/me");
    check(
        vec![chdir.clone(), open("../you/x", 3)],
        r#"openat(AT_FDCWD</home/me>, "../you/x", O_RDONLY) = 3</home/you/x>"#,
    );
    let dir = vec![open("/srv", 4), named("fchdir", &[4]), open("log", 5)];
    check(dir, r#"openat(AT_FDCWD</srv>, "log", O_RDONLY) = 5</srv/log>"#);
    let at = ret(with(named("openat", &[4, 0x7000, 0, 0]), 1, b"log"), 5);
    check(vec![open("/srv", 4), at], r#"openat(4</srv>, "log", O_RDONLY) = 5</srv/log>"#);
}

#[test]
fn errors_have_names_and_meanings() {
    check(
        vec![open("/nowhere", -2)],
        r#"openat(AT_FDCWD, "/nowhere", O_RDONLY) = -1 ENOENT (No such file or directory)"#,
    );
    let read = ret(named("read", &[9, 0x8000, 4]), -9);
    check(vec![read], "read(9, 0x8000, 4) = -1 EBADF (Bad file descriptor)");
}

#[test]
fn flags_and_modes_have_names() {
    let flags = 0o1 | 0o100 | 0o1000 | 0o2_000_000;
    let create = with(named("openat", &[-100i64 as u64, 0x7000, flags, 0o644]), 1, b"/x");
    check(
        vec![ret(create, 3)],
        r#"openat(AT_FDCWD, "/x", O_WRONLY|O_CREAT|O_TRUNC|O_CLOEXEC, 0644) = 3</x>"#,
    );
}

#[test]
fn what_is_closed_on_exec_is_gone_after_it() {
    let keep = open("/keep", 3);
    let drop = ret(with(named("openat", &[-100i64 as u64, 0x7000, 0o2_000_000, 0]), 1, b"/d"), 4);
    let image = EventKind::Image {
        tid: 100,
        data: vec![Data {
            arg: syscalls::record::IMAGE_ARG,
            part: part::ARGV,
            index: 0,
            flags: 0,
            true_len: 6,
            hash: None,
            content: Content::Inline(b"ls\0-l\0".to_vec()),
        }],
    };
    let events = timed(vec![
        (1, launch()),
        (1, EventKind::Call(keep)),
        (1, EventKind::Call(drop)),
        (1, image),
        (1, EventKind::Call(named("fsync", &[3]))),
        (1, EventKind::Call(named("fsync", &[4]))),
    ]);
    let shown = shown(&events, Conditions::default(), text(), u64::MAX);
    let lines: Vec<&str> = shown.lines().skip(3).collect();
    assert_eq!(
        lines,
        [
            r#"100       0.000004 +++ runs ["ls", "-l"] +++"#,
            "100       0.000005 fsync(3</keep>) = 0 <0.000000500>",
            "100       0.000006 fsync(4) = 0 <0.000000500>",
        ]
    );
}

#[test]
fn structs_are_shown_field_by_field() {
    let mut stat = vec![0; 144];
    stat[0..8].copy_from_slice(&0x801u64.to_le_bytes());
    stat[8..16].copy_from_slice(&77u64.to_le_bytes());
    stat[16..24].copy_from_slice(&1u64.to_le_bytes());
    stat[24..28].copy_from_slice(&0o100_644u32.to_le_bytes());
    stat[48..56].copy_from_slice(&4096u64.to_le_bytes());
    let calls = || vec![open("/f", 3), out(named("fstat", &[3, 0x9000]), 1, &stat)];
    check(calls(), "fstat(3</f>, {st_mode=S_IFREG|0644, st_size=4096, ...}) = 0");
    check_as(
        calls(),
        in_style(true),
        "fstat(3</f>, {st_dev=makedev(0x8, 0x1), st_ino=77, st_nlink=1, st_mode=S_IFREG|0644, \
         st_uid=0, st_gid=0, st_rdev=makedev(0x0, 0x0), st_size=4096, st_blksize=0, st_blocks=0, \
         st_atime=0, st_atime_nsec=0, st_mtime=0, st_mtime_nsec=0, st_ctime=0, \
         st_ctime_nsec=0}) = 0",
    );
}

#[test]
fn vectors_show_what_their_buffers_hold() {
    let vector = words(&[0x100, 3, 0x200, 0, 0x300, 5]);
    let writev = with(named("writev", &[1, 0x50, 3]), 1, &vector);
    let writev = piece(writev, 1, part::CONTENT, 0, b"abc");
    let writev = ret(piece(writev, 1, part::CONTENT, 0, b"defgh"), 8);
    check(
        vec![writev],
        r#"writev(1, [{iov_base="abc", iov_len=3}, {iov_base=0x200, iov_len=0}, {iov_base="defgh", iov_len=5}], 3) = 8"#,
    );
}

#[test]
fn messages_show_names_and_descriptors() {
    let header = words(&[0x10, 16, 0x20, 1, 0x30, 24, 0]);
    let name = [2, 0, 0x1f, 0x90, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    let mut control = words(&[20]);
    control.extend(ints(&[1, 1, 3, 0]));
    let msg = with(named("sendmsg", &[5, 0x40, 0]), 1, &header);
    let msg = piece(msg, 1, part::NAME, 0, &name);
    let msg = piece(msg, 1, part::VECTOR, 0, &words(&[0x50, 2]));
    let msg = piece(msg, 1, part::CONTENT, 0, b"hi");
    let msg = ret(piece(msg, 1, part::CONTROL, 0, &control), 2);
    check(
        vec![open("/f", 3), msg],
        r#"sendmsg(5, {msg_name={sa_family=AF_INET, sin_port=htons(8080), sin_addr=inet_addr("127.0.0.1")}, msg_namelen=16, msg_iov=[{iov_base="hi", iov_len=2}], msg_iovlen=1, msg_control=[{cmsg_len=20, cmsg_level=SOL_SOCKET, cmsg_type=SCM_RIGHTS, cmsg_data=[3</f>]}], msg_controllen=24, msg_flags=0}, 0) = 2"#,
    );
}

#[test]
fn sockets_have_addresses() {
    let socket = ret(named("socket", &[2, 1, 0]), 3);
    let addr = [2, 0, 0, 80, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
    let connect = with(named("connect", &[3, 0x60, 16]), 1, &addr);
    check(
        vec![socket, connect, named("fsync", &[3])],
        "fsync(3<socket:[AF_INET SOCK_STREAM to 10.0.0.1:80]>) = 0",
    );
    let unix = [&1u16.to_le_bytes()[..], b"/run/x.sock\0"].concat();
    let connect = with(named("connect", &[3, 0x60, 14]), 1, &unix);
    check(vec![connect], r#"connect(3, {sa_family=AF_UNIX, sun_path="/run/x.sock"}, 14) = 0"#);
}

#[test]
fn pipes_and_pairs_are_known() {
    let pipe = out(named("pipe2", &[0x70, 0o2_000_000]), 0, &ints(&[3, 4]));
    check(vec![pipe.clone()], "pipe2([3<pipe:[1]>, 4<pipe:[1]>], O_CLOEXEC) = 0");
    check(vec![pipe, named("fsync", &[4])], "fsync(4<pipe:[1]>) = 0");
}

#[test]
fn wait_tells_how_the_child_ended() {
    let wait = ret(out(named("wait4", &[-1i64 as u64, 0x80, 0, 0]), 1, &ints(&[0x300])), 101);
    check(vec![wait], "wait4(-1, [{WIFEXITED(s) && WEXITSTATUS(s) == 3}], 0, NULL) = 101");
}

#[test]
fn sets_of_signals_and_descriptors() {
    let mask = with(named("rt_sigprocmask", &[0, 0x90, 0, 8]), 1, &words(&[1 << 1 | 1 << 16]));
    check(vec![mask], "rt_sigprocmask(SIG_BLOCK, [INT CHLD], NULL, 8) = 0");
    let select = with(named("select", &[5, 0x90, 0, 0, 0]), 1, &words(&[0b11000]));
    let select = ret(out(select, 1, &words(&[0b1000])), 1);
    check(vec![select], "select(5, [3 4] => [3], NULL, NULL, NULL) = 1");
}

#[test]
fn programs_and_their_strings() {
    let mut exec = with(named("execve", &[0x10, 0x20, 0x30]), 0, b"/bin/ls");
    exec.outcome = Outcome::Unfinished;
    let strings = [(1u8, 0u16, "ls"), (1, 1, ""), (2, 0, "A=1"), (2, 1, "B=2")];
    for (arg, index, text) in strings {
        exec = with(exec, arg, text.as_bytes());
        exec.data.last_mut().unwrap().index = index;
    }
    check(vec![exec], r#"execve("/bin/ls", ["ls", ""], 0x30 /* 2 vars */) = ?"#);
}

#[test]
fn what_is_unknown_is_shown_raw() {
    check(vec![ret(call(499, &[1, 2]), 5)], "syscall_499(0x1, 0x2, 0, 0, 0, 0) = 5");
    let ioctl = ret(named("ioctl", &[3, 0xdead_beef, 0x1234]), 0);
    check(vec![ioctl], "ioctl(3, 0xdeadbeef /* ioctl??? */, 0x1234) /* buffer not captured */ = 0");
}

#[test]
fn what_could_not_be_read_is_said() {
    let write = with(named("write", &[1, 0x10, 4]), 1, b"");
    let mut fault = write.clone();
    fault.data[0].flags = data_flag::FAULT;
    check(vec![ret(fault, -14)], "write(1, 0x10 /* bad address */, 4) = -1 EFAULT (Bad address)");
    let mut hashed = write.clone();
    hashed.data[0].flags = data_flag::CUT | data_flag::HASH;
    hashed.data[0].true_len = 4;
    hashed.data[0].hash = Some(0xabc);
    check(
        vec![ret(hashed, 4)],
        "write(1, 0x10 /* 4 bytes, hash 00000000000000000000000000000abc */, 4) = 4",
    );
    let mut lost = write;
    lost.data[0].content = Content::Blobs { len: 4, ids: vec![] };
    check(
        vec![ret(lost, 4)],
        "write(1, 0x10 /* not readable from the trace: the bytes are in blobs, which are not at \
         hand */, 4) = 4",
    );
}

#[test]
fn hostile_names_are_escaped_everywhere() {
    let fsync = named("fsync", &[3]);
    check(vec![open("/\x1b[2J>", 3), fsync], "fsync(3</\\033[2J\\076>) = 0");
}

fn family() -> Vec<Event> {
    let fork = |thread, how, process, pid, tid| {
        (thread, EventKind::Start { how, process, parent: 1, pid, tid })
    };
    let mut info = [0; 48];
    info[..4].copy_from_slice(&14i32.to_le_bytes());
    info[8..12].copy_from_slice(&0x80i32.to_le_bytes());
    let exit = |process, status| EventKind::Exit { process, status: Some(status) };
    let mut exiting = named("exit_group", &[3]);
    exiting.outcome = Outcome::Unfinished;
    timed(vec![
        (1, launch()),
        (1, EventKind::Call(open("/shared", 3))),
        fork(2, StartHow::Fork, 2, 101, 101),
        fork(3, StartHow::Thread, 1, 100, 102),
        (1, EventKind::Call(named("close", &[3]))),
        (2, EventKind::Call(named("fsync", &[3]))),
        (3, EventKind::Call(named("fsync", &[3]))),
        (1, EventKind::Signal { signal: 14, handler: 0x400, info }),
        (3, EventKind::End { calls: 1 }),
        (2, EventKind::Call(exiting)),
        (2, EventKind::End { calls: 2 }),
        (0, exit(2, 0x300)),
        (0, exit(1, 9)),
        (0, EventKind::Gap { why: GapWhy::SizeLimit, detail: 0, text: "64 MiB".into() }),
    ])
}

#[test]
fn stores_to_mapped_files_name_process_and_place() {
    let row = row_of(event_number::MMAP_WRITE).unwrap();
    let number = FieldValue::Unsigned;
    let values = vec![
        number(0x7f00_0000_2000),
        number(8192),
        number(4096),
        FieldValue::Bytes(b"/db/\x1bdata".to_vec()),
        number(0x801),
        number(12),
        number(0),
        FieldValue::Bytes(vec![0xab; 16]),
    ];
    let mut events = timed(vec![(1, launch()), (0, EventKind::Other(OtherEvent { row, values }))]);
    let parts = vec![Part::number(part_id::PROCESS, 1), Part::number(part_id::THREAD, 1)];
    events[1].extras = Some(Box::new(Extras { parts, later_fields: Vec::new() }));
    let line = "100       0.000002 --- mmap_write 0x7f0000002000, 4096 bytes at 8192 of \
                \"/db/\\033data\" ---\n";
    let all = shown(&events, Conditions::default(), text(), u64::MAX);
    assert_eq!(all.lines().last(), line.lines().last());
    let format = Format::Json(Detail { data: false, ids: false });
    let json = shown(&events, Conditions::default(), format, u64::MAX);
    let json: serde_json::Value = serde_json::from_str(json.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&json["pid"], &json["tid"], &json["data"]["cut"]),
        (&100.into(), &100.into(), &true.into())
    );
    assert_eq!(json["data"]["hash"], "ab".repeat(16));
}

#[test]
fn processes_threads_signals_and_gaps() {
    let shown = shown(&family(), Conditions::default(), text(), u64::MAX);
    assert_eq!(
        shown,
        "\
100       0.000001 +++ launched +++
100       0.000002 openat(AT_FDCWD, \"/shared\", O_RDONLY) = 3</shared> <0.000000500>
101       0.000003 +++ process started by 100 (fork) +++
100/102   0.000004 +++ thread started by 100 +++
100       0.000005 close(3</shared>) = 0 <0.000000500>
101       0.000006 fsync(3</shared>) = 0 <0.000000500>
100/102   0.000007 fsync(3) = 0 <0.000000500>
100       0.000008 --- SIGALRM {si_signo=SIGALRM, si_code=SI_KERNEL} ---
100/102   0.000009 +++ thread ended +++
101       0.000010 exit_group(3) = ?
101       0.000012 +++ exited with 3 +++
100       0.000013 +++ killed by SIGKILL +++
-         0.000014 !!! gap: the size limit of the recording was reached: 64 MiB !!!
"
    );
}

#[track_caller]
fn check_filter(filter: Conditions, limit: u64, expected: &[&str]) {
    let shown = shown(&family(), filter, text(), limit);
    let lines: Vec<&str> = shown.lines().filter(|line| !line.contains("gap")).collect();
    let starts: Vec<String> = lines
        .iter()
        .map(|line| line.split_whitespace().skip(2).take(1).collect::<String>())
        .map(|word| word.split('(').next().unwrap_or_default().to_string())
        .collect();
    assert_eq!(starts, expected);
}

#[test]
fn filters() {
    let all = Conditions::default;
    let calls = |text| Some(CallChoice::parse(text).unwrap());
    check_filter(Conditions { calls: calls("fsync"), ..all() }, 9, &["fsync", "fsync"]);
    check_filter(Conditions { calls: calls("!%desc"), ..all() }, 9, &["exit_group"]);
    check_filter(Conditions { tids: vec![102], ..all() }, 9, &["+++", "fsync", "+++"]);
    check_filter(Conditions { pids: vec![101], ..all() }, 2, &["+++", "fsync"]);
    let paths = vec!["/sha*".into()];
    check_filter(Conditions { paths, ..all() }, 9, &["openat", "close", "fsync"]);
    check_filter(Conditions { failed: true, ..all() }, 9, &[]);
    check_filter(Conditions { slower_ns: Some(500), ..all() }, 9, &[]);
    check_filter(Conditions { slower_ns: Some(499), ..all() }, 1, &["openat"]);
    let (since_ns, until_ns) = (Some(5000), Some(6000));
    check_filter(Conditions { since_ns, until_ns, ..all() }, 9, &["close", "fsync"]);
}

#[track_caller]
fn check_json(events: &[Event], line: usize, expected: &str) {
    let format = Format::Json(Detail { data: true, ids: false });
    let shown = shown(events, Conditions::default(), format, u64::MAX);
    for line in shown.lines() {
        serde_json::from_str::<serde_json::Value>(line).expect("a JSON object per line");
    }
    let value: serde_json::Value = serde_json::from_str(shown.lines().nth(line).unwrap()).unwrap();
    let expected: serde_json::Value = serde_json::from_str(expected).unwrap();
    assert_eq!(value, expected, "\n{}", shown.lines().nth(line).unwrap());
}

#[test]
fn json_of_calls() {
    let read = ret(out(named("read", &[3, 0x8000, 1 << 60]), 1, b"\xff\x00ab"), 4);
    let events = timed(vec![
        (1, launch()),
        (1, EventKind::Call(open("/d/f", 3))),
        (1, EventKind::Call(read)),
        (1, EventKind::Call(open("/\u{ff}", -13))),
    ]);
    let hash = |bytes: &[u8]| format!("{:032x}", xxhash_rust::xxh3::xxh3_128(bytes));
    check_json(
        &events,
        1,
        &format!(
            r#"{{"type":"call","seq":0,"pid":100,"tid":100,"call":"openat","nr":257,
            "args":{{"dirfd":-100,"pathname":"/d/f",
                     "flags":{{"value":0,"names":["O_RDONLY"]}}}},
            "paths":{{"pathname":"/d/f","ret":"/d/f"}},"ret":3,"errno":null,
            "enter_ns":2000,"exit_ns":2500,"site":4096,
            "data":{{"pathname":{{"len":4,"cut":false,"base64":"L2QvZg==","hash":"{}"}}}}}}"#,
            hash(b"/d/f")
        ),
    );
    check_json(
        &events,
        2,
        &format!(
            r#"{{"type":"call","seq":1,"pid":100,"tid":100,"call":"read","nr":0,
            "args":{{"fd":3,"buf":32768,"count":"1152921504606846976"}},"paths":{{"fd":"/d/f"}},
            "ret":4,"errno":null,"enter_ns":3000,"exit_ns":3500,"site":4096,
            "data":{{"buf":{{"len":4,"cut":false,"base64":"/wBhYg==","hash":"{}"}}}}}}"#,
            hash(b"\xff\x00ab")
        ),
    );
    let format = Format::Json(Detail::default());
    let shown = shown(&events, Conditions::default(), format, u64::MAX);
    assert!(shown.lines().nth(3).unwrap().contains(r#""ret":-1,"errno":"EACCES""#), "{shown}");
    assert!(!shown.contains("base64"), "{shown}");
}

#[test]
fn json_of_everything_else() {
    let events = family();
    check_json(
        &events,
        2,
        r#"{"type":"start","pid":101,"tid":101,"time_ns":3000,"how":"fork","process":2,
            "thread":2,"parent_pid":100,"parent_tid":100,"ppid":100,"pgid":null,"sid":null,
            "uid":null,"euid":null,"gid":null,"egid":null}"#,
    );
    check_json(
        &events,
        7,
        r#"{"type":"signal","pid":100,"tid":100,"time_ns":8000,"signal":"SIGALRM","number":14,
            "handler":1024,"info":{"si_signo":{"value":14,"names":["SIGALRM"]},
            "si_code":{"value":128,"names":["SI_KERNEL"]}}}"#,
    );
    check_json(
        &events,
        11,
        r#"{"type":"exit","pid":101,"tid":101,"time_ns":12000,"scope":"process","process":2,
            "status":{"value":768,"exited":3},"ppid":100,"pgid":null,"sid":null,
            "uid":null,"euid":null,"gid":null,"egid":null}"#,
    );
    check_json(
        &events,
        13,
        r#"{"type":"gap","pid":null,"tid":null,"time_ns":14000,"why":"size-limit","detail":0,
            "text":"64 MiB"}"#,
    );
}

#[test]
fn dumps_in_hexadecimal() {
    let write = with(named("write", &[1, 0x10, 18]), 1, b"0123456789abcdef\x00\xff");
    let events = timed(vec![(1, launch()), (1, EventKind::Call(ret(write, 18)))]);
    let style = Style { string_limit: 32, data: false, verbose: false };
    let look = Look { style, hex: true, colour: false, seq: false, names: false };
    let format = Format::Text { look, line: String::new() };
    assert_eq!(
        shown(&events, Conditions::default(), format, u64::MAX).split_once("+++\n").unwrap().1,
        "\
100       0.000002 write(1, 0x10, 18) = 18 <0.000000500>
 * 18 bytes of buf
 | 00000  30 31 32 33 34 35 36 37  38 39 61 62 63 64 65 66  0123456789abcdef
 | 00010  00 ff                                             ..
"
    );
}

#[test]
fn calls_have_their_numbers_where_asked_for() {
    let events = timed(vec![
        (1, launch()),
        (1, EventKind::Call(ret(named("getppid", &[]), 7))),
        (1, EventKind::Call(ret(named("getuid", &[]), 0))),
    ]);
    let style = Style { string_limit: 32, data: true, verbose: false };
    let look = Look { style, hex: false, colour: false, seq: true, names: false };
    let format = Format::Text { look, line: String::new() };
    let text = shown(&events, Conditions::default(), format, u64::MAX);
    let begins = ["        100 ", "      0 100 ", "      1 100 "];
    assert!(text.lines().zip(begins).all(|(line, begin)| line.starts_with(begin)), "{text}");
}

/// Formats a whole trace in every form.
pub fn read_all(trace: &trace::Trace) {
    lines(trace);
    print_trace(trace, Format::Json(Detail { data: true, ids: false }));
}

/// Formats a whole trace as text with all data.
pub fn lines(trace: &trace::Trace) -> String {
    let style = Style { string_limit: 32, data: true, verbose: true };
    let look = Look { style, hex: true, colour: true, seq: false, names: false };
    print_trace(trace, Format::Text { look, line: String::new() })
}

fn print_trace(trace: &trace::Trace, format: Format) -> String {
    let mut out = Vec::new();
    let conditions = Conditions { paths: vec!["*".into()], ..Conditions::default() };
    let walk = Walk::default();
    let mut printer = Printer {
        walk,
        conditions,
        format,
        left: u64::MAX,
        only: None,
        seen: Seen::default(),
        chains: None,
        out: &mut out,
    };
    let clock = model::clock(trace);
    for next in trace.events().flatten() {
        printer.event(&next, &clock, &mut Stored(trace)).unwrap();
    }
    String::from_utf8(out).expect("text")
}
