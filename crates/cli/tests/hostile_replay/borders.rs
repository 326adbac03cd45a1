//! Traces whose counts, lengths and addresses would lead the kernel, or the replay itself, outside
//! of allocated memory.

use syscalls::record::{data_flag, part};
use syscalls::shape::{ArgKind, Of};
use trace::event::StartHow;

use crate::Case;
use crate::nonsense::Random;
use crate::script::{CWD, Made, POINTER, Script, made};
use crate::world::World;

pub const CASES: &[Case] = &[
    ("vectors_that_count_beyond", vectors_that_count_beyond),
    ("reads_into_what_was_freed", reads_into_what_was_freed),
    ("every_row_at_its_borders_1", |world| every_row_at_its_borders(world, 1)),
    ("every_row_at_its_borders_2", |world| every_row_at_its_borders(world, 2)),
    ("every_row_at_its_borders_3", |world| every_row_at_its_borders(world, 3)),
    ("texts_that_are_not_there", texts_that_are_not_there),
    ("texts_and_values_without_end", texts_and_values_without_end),
    ("lengths_in_several_pieces", lengths_in_several_pieces),
    ("messages_that_lie", messages_that_lie),
    ("ranges_that_count_themselves", ranges_that_count_themselves),
];

/// Numbers at the limits of what kernels count with.
const BORDERS: &[u64] = &[
    0,
    1,
    2,
    16,
    1023,
    1024,
    1025,
    4095,
    4097,
    65_536,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 32,
    (1 << 32) + 1,
    (1 << 32) + 2,
    (1 << 32) + 1024,
    1 << 40,
    1 << 63,
    u64::MAX,
];

/// Fills the argument buffers of the replay with a pattern.
fn spoil(script: &mut Script) {
    let text = "A".repeat(3000);
    script.path(libc::SYS_access, &[POINTER, 0], 0, &format!("/{text}"), -2);
}

fn elements(lens: &[u64]) -> Vec<u8> {
    lens.iter().flat_map(|len| [0x4141_4141_4141_0000, *len]).flat_map(u64::to_ne_bytes).collect()
}

/// Vectors with fewer stored elements than they count.
fn vectors_that_count_beyond(world: &World) {
    let mut script = Script::new(&world.trace);
    script.open("/file", libc::O_CREAT | libc::O_RDWR, 3);
    let pipe = made(libc::SYS_pipe, &[POINTER], 0);
    let numbers = [4i32, 5].map(i32::to_ne_bytes).concat();
    script.call(1, pipe.bytes(0, part::WHOLE, data_flag::OUT, &numbers));
    let vectors = [
        (libc::SYS_writev, 3, 0),
        (libc::SYS_pwritev, 3, 0),
        (libc::SYS_pwritev2, 3, 0),
        (libc::SYS_readv, 3, data_flag::OUT),
        (libc::SYS_preadv, 3, data_flag::OUT),
        (libc::SYS_preadv2, 3, data_flag::OUT),
        (libc::SYS_vmsplice, 5, 0),
        (libc::SYS_vmsplice, 4, data_flag::OUT),
    ];
    for (nr, fd, flag) in vectors {
        for &count in BORDERS {
            for ret in [5, 37, -14, -22] {
                spoil(&mut script);
                let call = made(nr, &[fd, POINTER, count, 0, 0, 0], ret);
                let call = call.bytes(1, part::WHOLE, 0, &elements(&[5]));
                script.call(1, call.bytes(1, part::CONTENT, flag, b"hello"));
            }
        }
    }
    script.finish();
}

/// Large buffers that were used before, referred to by the remains of an earlier vector.
fn reads_into_what_was_freed(world: &World) {
    let mut script = Script::new(&world.trace);
    script.open("/file", libc::O_CREAT | libc::O_RDWR, 3);
    for _ in 0..20 {
        script.write(3, &[0x41; 60_000]);
    }
    let mut read = |lens: &[u64], count: u64, ret: i64| {
        script.plain(libc::SYS_lseek, &[3, 0, 0], 0);
        let call = made(libc::SYS_readv, &[3, POINTER, count], ret);
        script.call(1, call.bytes(1, part::WHOLE, 0, &elements(lens)));
    };
    for _ in 0..20 {
        read(&[16, 3_000_000], 2, 1_200_000);
        read(&[16, 1_000_000], 2, 1_000_016);
        read(&[300_000], (1 << 32) + 2, 1_200_000);
        read(&[16], (1 << 32) + 2, 1_000_016);
        read(&[16, 1_000_000], 2, 1_000_016);
    }
    script.finish();
}

/// Every call, by its description in the table, so that new calls are included.
fn every_row_at_its_borders(world: &World, seed: u64) {
    let mut random = Random(seed);
    let mut script = Script::new(&world.trace);
    script.open("/file", libc::O_CREAT | libc::O_RDWR, 3);
    script.write(3, &[0x41; 5000]);
    let pair = made(libc::SYS_socketpair, &[libc::AF_UNIX as u64, 1, 0, POINTER], 0);
    let numbers = [4i32, 5].map(i32::to_ne_bytes).concat();
    script.call(1, pair.bytes(3, part::WHOLE, data_flag::OUT, &numbers));
    for row in syscalls::table::ROWS.iter().flat_map(|rows| rows.iter()) {
        let keys = row.variants.iter().map(|variant| Some((variant.key_arg, variant.value)));
        for key in keys.chain([None]) {
            for _ in 0..6 {
                spoil(&mut script);
                script.call(1, at_borders(&mut random, row, key));
            }
        }
    }
    script.finish();
}

fn at_borders(random: &mut Random, row: &syscalls::Syscall, key: Option<(u8, u64)>) -> Made {
    let mut args: Vec<u64> = (0..6).map(|_| random.one_of(BORDERS)).collect();
    for (number, arg) in row.args.iter().enumerate() {
        match arg.kind {
            ArgKind::Fd => args[number] = 3 + random.below(3),
            ArgKind::DirFd => args[number] = CWD,
            ArgKind::Buf(..) | ArgKind::Path | ArgKind::Str => args[number] = POINTER,
            _ => {}
        }
    }
    if let Some((argument, value)) = key {
        args[usize::from(argument)] = value | random.one_of(&[0, 1 << 32]);
    }
    let ret = random.one_of(&[0, 0, 1, 5, 64, 5000, -22, -14, -2, 1 << 32]);
    let mut call = made(row.nr.into(), &args, ret);
    for (number, arg) in row.args.iter().enumerate() {
        let parts = match arg.kind {
            ArgKind::Buf(_, Of::Iovec | Of::Msghdr | Of::Mmsghdr | Of::Holder(_), _) => 6,
            ArgKind::Buf(..) | ArgKind::Path | ArgKind::Str => 1,
            _ => continue,
        };
        for _ in 0..parts {
            let flags = random.one_of(&[0, 0, data_flag::OUT, data_flag::FAULT]);
            let which = if parts > 1 { random.below(5) as u8 } else { part::WHOLE };
            let words = random.below(12) as usize;
            let bytes: Vec<u8> =
                (0..words).flat_map(|_| random.one_of(BORDERS).to_ne_bytes()).collect();
            let border = random.one_of(BORDERS);
            let claimed = random.one_of(&[bytes.len() as u64, border]);
            call =
                call.claimed(number as u8, which, flags, &bytes, claimed.max(bytes.len() as u64));
        }
    }
    call
}

/// Paths and names without stored bytes, in calls that overlap others: the replay checks whether a
/// name causes the failure before it makes the call.
fn texts_that_are_not_there(world: &World) {
    let mut script = Script::new(&world.trace);
    script.start(2, StartHow::Thread, 1, 1);
    for row in syscalls::table::ROWS.iter().flat_map(|rows| rows.iter()) {
        if !row.args.iter().any(|arg| matches!(arg.kind, ArgKind::Path | ArgKind::Str)) {
            continue;
        }
        for ret in [-2, -17, -39, 0] {
            let begin = script.pass(10_000) - 5000;
            let other = made(libc::SYS_lseek, &[3, 0, 0], 0);
            script.at(begin, 2, other.event(begin + 4000));
            let call = made(row.nr.into(), &[POINTER, POINTER, POINTER, POINTER, 0, 0], ret);
            script.at(begin + 1, 1, call.event(begin + 3000));
            let faulted = made(row.nr.into(), &[CWD, POINTER, CWD, POINTER, 0, 0], ret);
            let faulted = faulted.bytes(0, part::WHOLE, data_flag::FAULT, b"");
            let faulted = faulted.bytes(1, part::WHOLE, data_flag::FAULT, b"/x");
            script.at(begin + 3001, 1, faulted.event(begin + 3500));
        }
    }
    script.finish();
}

/// One stored buffer, repeated so often that a path, name or value exceeds every limit.
fn texts_and_values_without_end(world: &World) {
    let mut script = Script::new(&world.trace);
    script.path(libc::SYS_mknod, &[POINTER, 0o100_644, 0], 0, "/file", 0);
    let text =
        || made(libc::SYS_access, &[POINTER, 0], -36).repeated(0, part::WHOLE, 0, b'a', 1 << 15);
    let size = u64::MAX;
    for _ in 0..4 {
        script.call(1, text());
        let set = made(libc::SYS_setxattr, &[POINTER, POINTER, POINTER, size, 0], -7);
        let set = set.text(0, "/file").text(1, "user.x");
        script.call(1, set.repeated(2, part::WHOLE, 0, b'v', 1 << 15));
        let set = made(libc::SYS_setxattr, &[POINTER, POINTER, POINTER, 1, 0], -34);
        let set = set.text(0, "/file").bytes(2, part::WHOLE, 0, b"v");
        script.call(1, set.repeated(1, part::WHOLE, 0, b'n', 1 << 15));
        let groups = made(libc::SYS_setgroups, &[size, POINTER], -22);
        script.call(1, groups.repeated(1, part::WHOLE, 0, 0, 1 << 15));
        let listed = made(libc::SYS_ioctl, &[3, 0xc018_9436, POINTER], 0);
        script.call(1, listed.repeated(2, part::WHOLE, 0, 0xff, 1 << 15));
    }
    script.finish();
}

/// The struct with a length is spread over several buffers.
fn lengths_in_several_pieces(world: &World) {
    let mut script = Script::new(&world.trace);
    let pair = made(libc::SYS_socketpair, &[libc::AF_UNIX as u64, 2, 0, POINTER], 0);
    let numbers = [3i32, 4].map(i32::to_ne_bytes).concat();
    script.call(1, pair.bytes(3, part::WHOLE, data_flag::OUT, &numbers));
    for length in [0u32, 1, 16, 128, 1 << 16, 1 << 31, u32::MAX] {
        let mut long = vec![0x41; 70_000];
        long[..4].copy_from_slice(&length.to_ne_bytes());
        for _ in 0..3 {
            let sent = made(libc::SYS_sendto, &[3, POINTER, 5, 0, 0, 0], 5);
            script.call(1, sent.bytes(1, part::WHOLE, 0, b"hello"));
            let got = made(libc::SYS_recvfrom, &[4, POINTER, 5, 0, POINTER, POINTER], 5);
            let got = got.bytes(1, part::WHOLE, data_flag::OUT, b"hello");
            script.call(1, got.bytes(5, part::WHOLE, 0, &long));
            let sent = made(libc::SYS_sendto, &[3, POINTER, 5, 0, 0, 0], 5);
            script.call(1, sent.bytes(1, part::WHOLE, 0, b"hello"));
            spoil(&mut script);
            // For this call, nothing is stored at all.
            script.plain(libc::SYS_recvfrom, &[4, POINTER, 5, 0, POINTER, POINTER], 5);
        }
    }
    script.finish();
}

/// Headers, control data and addresses with arbitrary lengths.
fn messages_that_lie(world: &World) {
    let mut script = Script::new(&world.trace);
    let pair = made(libc::SYS_socketpair, &[libc::AF_UNIX as u64, 2, 0, POINTER], 0);
    let numbers = [3i32, 4].map(i32::to_ne_bytes).concat();
    script.call(1, pair.bytes(3, part::WHOLE, data_flag::OUT, &numbers));
    for &len in BORDERS {
        let header = [POINTER, len, POINTER, len, POINTER, len, len, len];
        let header: Vec<u8> = header.into_iter().flat_map(u64::to_ne_bytes).collect();
        let mut control = vec![0x41; 200];
        control[..8].copy_from_slice(&len.to_ne_bytes());
        control[8..16].copy_from_slice(&[1, 0, 0, 0, 2, 0, 0, 0]);
        for (nr, fd, flag) in [
            (libc::SYS_sendmsg, 3, 0),
            (libc::SYS_recvmsg, 4, data_flag::OUT),
            (libc::SYS_sendmmsg, 3, 0),
            (libc::SYS_recvmmsg, 4, data_flag::OUT),
        ] {
            for ret in [1, 2, 1024, -14, -90] {
                let call = made(nr, &[fd, POINTER, len, libc::MSG_DONTWAIT as u64, 0, 0], ret);
                let call = call.bytes(1, part::WHOLE, flag, &header);
                let call = call.bytes(1, part::VECTOR, flag, &elements(&[len, 5, len]));
                let call = call.bytes(1, part::CONTENT, flag, b"hello");
                script.call(1, call.bytes(1, part::CONTROL, flag, &control));
            }
        }
    }
    script.finish();
}

/// Returns the number of a call that the C library may not know yet.
fn nr(name: &str) -> libc::c_long {
    syscalls::by_name(name).unwrap().nr.into()
}

/// Structs that contain the count of their own elements.
fn ranges_that_count_themselves(world: &World) {
    let mut script = Script::new(&world.trace);
    script.open("/a", libc::O_CREAT | libc::O_RDWR, 3);
    script.open("/b", libc::O_CREAT | libc::O_RDWR, 4);
    script.write(3, &[b'x'; 8192]);
    for &count in BORDERS {
        // The head: source offset, length, and number of ranges that follow.
        let head = [0, 4096, count].map(u64::to_ne_bytes).concat();
        let range = [4, count, count, 0].map(u64::to_ne_bytes).concat();
        for ranges in [0, 1, 3, 200] {
            let all = [head.clone(), range.repeat(ranges)].concat();
            let call = made(libc::SYS_ioctl, &[3, 0xc018_9436, POINTER], 0);
            script.call(1, call.bytes(2, part::WHOLE, 0, &all));
            let call = made(libc::SYS_ioctl, &[4, 0x4020_940d, POINTER], 0);
            let clone = [3, 0, count, 0].map(u64::to_ne_bytes).concat();
            script.call(1, call.bytes(2, part::WHOLE, 0, &clone));
            let how = [libc::O_RDWR as u64, count, count].map(u64::to_ne_bytes).concat();
            let opened = made(libc::SYS_openat2, &[CWD, POINTER, POINTER, count], -22);
            script.call(1, opened.text(1, "/a").bytes(2, part::WHOLE, 0, &how));
            let value = [POINTER, count].map(u64::to_ne_bytes).concat();
            let set = made(nr("setxattrat"), &[CWD, POINTER, 0, POINTER, POINTER, count], 0);
            let set = set.text(1, "/a").text(3, "user.x").bytes(4, part::WHOLE, 0, &value);
            script.call(1, set.bytes(4, part::CONTENT, 0, b"v"));
        }
    }
    script.finish();
}
