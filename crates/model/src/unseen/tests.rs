use std::collections::HashMap;

use super::*;

/// A process with these descriptors, and with this memory behind all arguments.
struct Process {
    files: HashMap<i32, Opened>,
    memory: Vec<u8>,
}

impl Look for Process {
    fn opened(&self, fd: i32) -> Option<Opened> {
        self.files.get(&fd).cloned()
    }

    fn is_writable(&self, fd: i32) -> bool {
        fd != SOCKET
    }

    fn program(&self) -> Vec<u8> {
        b"/bin/program".to_vec()
    }

    fn memory(&mut self, _: u8, max: usize) -> Option<Vec<u8>> {
        Some(self.memory[..self.memory.len().min(max)].to_vec())
    }
}

struct Bench {
    fold: Unseen,
    process: Process,
}

const FILE: i32 = 3;
const OTHER_FILE: i32 = 4;
const MEMORY: i32 = 5;
const SOCKET: i32 = 6;
const PIPE: i32 = 7;

impl Bench {
    fn new() -> Bench {
        let opened = |name: &str, kind| Opened { name: name.into(), kind };
        let files = HashMap::from([
            (FILE, opened("/file", OpenedKind::File)),
            (OTHER_FILE, opened("/other", OpenedKind::File)),
            (MEMORY, opened("/memfd:x (deleted)", OpenedKind::Memory)),
            (SOCKET, opened("socket:[INET]", OpenedKind::Other)),
            (PIPE, opened("pipe:[1]", OpenedKind::Pipe)),
        ]);
        Bench { fold: Unseen::new(), process: Process { files, memory: Vec::new() } }
    }

    fn call(&mut self, name: &str, args: &[i64], ret: i64) -> &mut Bench {
        let mut all = [0; 6];
        all.iter_mut().zip(args).for_each(|(to, from)| *to = *from as u64);
        let nr = syscalls::by_name(name).expect("a row").nr;
        let made = Made { nr, args: &all, ret, process: 1, operations: 0, watched: 0 };
        assert!(Unseen::follows(nr, &all), "{name}");
        self.fold.call(&made, &mut self.process);
        self
    }

    fn finish(self) -> NotSeen {
        self.fold.finish(&|name| match name {
            b"/file" => Kept::Yes,
            _ => Kept::No("it is gone"),
        })
    }
}

fn told(found: &NotSeen) -> Vec<(Way, String, Option<u64>, Option<u64>)> {
    let name = |blind: &Blind| {
        let name = blind.file.as_ref().or(blind.descriptor.as_ref());
        String::from_utf8(name.expect("a name").clone()).unwrap()
    };
    found.blind.iter().map(|blind| (blind.way, name(blind), blind.count, blind.bytes)).collect()
}

const READ: i64 = 1;
const READ_WRITE: i64 = 3;
const READ_EXECUTE: i64 = 5;
const SHARED: i64 = 1;
const PRIVATE: i64 = 2;
const SHARED_MEMORY: i64 = 0x21;

#[test]
fn mapped_files_are_told_by_what_may_be_done_with_them() {
    let mut bench = Bench::new();
    let map = |file: i32, protection, flags| [0, 8192, protection, flags, i64::from(file), 0];
    bench.call("mmap", &map(FILE, READ_WRITE, SHARED), 0x10000);
    bench.call("mmap", &map(FILE, READ_WRITE, SHARED), 0x20000);
    bench.call("mmap", &map(OTHER_FILE, READ, PRIVATE), 0x30000);
    bench.call("mmap", &map(MEMORY, READ_WRITE, SHARED), 0x40000);
    bench.call("mmap", &map(SOCKET, READ_WRITE, SHARED), 0x50000);
    bench.call("mmap", &map(-1, READ_WRITE, SHARED_MEMORY), 0x60000);
    bench.call("shmat", &[7, 0, 0], 0x70000);
    let memory = b"/memfd:x (deleted)";
    assert_eq!(bench.fold.take_stored(), [&b"/file"[..], b"/file", memory]);
    let found = bench.finish();
    let expected = [
        (Way::Stores, "/file".to_string(), Some(2), Some(16384)),
        (Way::Loads, "/other".to_string(), Some(1), Some(8192)),
    ];
    assert_eq!(told(&found), expected);
    assert_eq!(found.notes, [(Note::SharedMemory, 3), (Note::DeviceMemory, 1)]);
    assert_eq!(found.dangers().as_deref(), Some("stores to mapped files (1 file)"));
}

#[test]
fn programs_and_what_the_linker_maps_do_no_harm() {
    let mut bench = Bench::new();
    bench.call("mmap", &[0, 4096, READ, PRIVATE, FILE.into(), 0], 0x10000);
    bench.call("mmap", &[0, 4096, READ_EXECUTE, PRIVATE, FILE.into(), 0], 0x11000);
    let cache = Opened { name: b"/etc/ld.so.cache".to_vec(), kind: OpenedKind::File };
    bench.process.files.insert(9, cache);
    bench.call("mmap", &[0, 4096, READ, PRIVATE, 9, 0], 0x20000);
    bench.fold.program(1, &[33, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    let found = bench.finish();
    assert_eq!(found.blind, []);
    assert_eq!(found.notes, [(Note::Vdso, 1), (Note::ProgramFiles, 2)]);
    assert_eq!(found.dangers(), None);
}

#[test]
fn mappings_that_become_writable_are_stores() {
    let mut bench = Bench::new();
    bench.call("mmap", &[0, 8192, READ, SHARED, FILE.into(), 0], 0x10000);
    bench.call("mmap", &[0, 8192, READ, PRIVATE, OTHER_FILE.into(), 0], 0x20000);
    bench.call("mprotect", &[0x10000, 4096, READ], 0);
    assert!(bench.fold.take_stored().is_empty());
    bench.call("mprotect", &[0x11000, 0x20000, READ_WRITE], 0);
    assert_eq!(bench.fold.take_stored(), [b"/file"]);
    let found = bench.finish();
    assert_eq!(told(&found)[0], (Way::Stores, "/file".to_string(), Some(1), Some(4096)));
}

#[test]
fn requests_to_the_kernel_are_counted() {
    let mut bench = Bench::new();
    bench.call("io_uring_setup", &[8, 0x1000], 9);
    assert_eq!(bench.finish().notes, [(Note::UnusedRings, 1)]);

    let mut bench = Bench::new();
    bench.call("io_uring_setup", &[8, 0x1000], 9);
    bench.call("io_uring_enter", &[9, 3, 0, 0], 3).call("io_uring_enter", &[9, 2, 0, 0], 2);
    bench.call("io_submit", &[1, 2, 0x2000], 2);
    let event = |result: i64| {
        let mut event = [0; 32];
        event[16..24].copy_from_slice(&result.to_le_bytes());
        event
    };
    bench.process.memory = [event(4096), event(-5)].concat();
    bench.call("io_getevents", &[1, 1, 2, 0x3000, 0], 2);
    let found = bench.finish();
    let expected = [
        (Way::Ring, "io_uring of /bin/program".to_string(), Some(5), None),
        (Way::Aio, "Linux AIO of /bin/program".to_string(), Some(2), Some(4096)),
    ];
    assert_eq!(told(&found), expected);

    // A program can take results out of shared memory without a call.
    let mut bench = Bench::new();
    bench.call("io_submit", &[1, 2, 0x2000], 2);
    assert_eq!(told(&bench.finish())[0].3, None);

    // A ring polled by a kernel thread.
    let mut bench = Bench::new();
    bench.process.memory = [[0; 8].as_slice(), &[2, 0, 0, 0]].concat();
    bench.call("io_uring_setup", &[8, 0x1000], 9);
    assert_eq!(told(&bench.finish())[0].2, None);
}

#[test]
fn copies_count_unless_their_content_is_kept() {
    let mut bench = Bench::new();
    let fd = i64::from;
    bench.call("copy_file_range", &[fd(FILE), 0, fd(OTHER_FILE), 0, 100, 0], 100);
    bench.call("sendfile", &[fd(SOCKET), fd(OTHER_FILE), 0, 50], 50);
    bench.call("sendfile", &[fd(SOCKET), fd(OTHER_FILE), 0, 50], 0);
    bench.call("splice", &[fd(SOCKET), 0, fd(PIPE), 0, 7, 0], 7);
    bench.call("splice", &[fd(PIPE), 0, fd(FILE), 0, 7, 0], 7);
    bench.call("ioctl", &[fd(OTHER_FILE), 0x4004_9409, fd(FILE)], 0);
    let words = [u64::from(OTHER_FILE as u32), 0, 4096, 0];
    bench.process.memory = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bench.call("ioctl", &[fd(FILE), 0x4020_940d, 0x1000], 0);
    let found = bench.finish();
    let expected = [
        (Way::Copies, "socket:[INET]".to_string(), Some(1), Some(7)),
        (Way::Copies, "/other".to_string(), Some(2), Some(4146)),
    ];
    assert_eq!(told(&found), expected);
    assert_eq!(found.blind[1].why, "it is gone");
    assert_eq!(found.notes, [(Note::KeptCopies, 3)]);
}

#[test]
fn memory_that_is_read_later_is_told_where_it_is_given() {
    let mut bench = Bench::new();
    bench.call("vmsplice", &[i64::from(PIPE), 0x1000, 1, 0], 40);
    // What is taken out of a pipe is there.
    bench.call("vmsplice", &[i64::from(SOCKET), 0x1000, 1, 0], 40);
    let zero_copy = 0x400_0000;
    bench.call("sendto", &[i64::from(SOCKET), 0x1000, 100, zero_copy, 0, 0], 100);
    bench.call("sendmmsg", &[i64::from(SOCKET), 0x1000, 2, zero_copy], 2);
    assert!(!Unseen::follows(syscalls::by_name("sendto").unwrap().nr, &[0; 6]));
    assert_eq!(bench.fold.take_given(), [b"pipe:[1]"]);
    let expected = [
        (Way::Lent, "pipe:[1]".to_string(), Some(1), Some(40)),
        (Way::Lent, "socket:[INET]".to_string(), Some(2), None),
    ];
    assert_eq!(told(&bench.finish()), expected);
}

#[test]
fn late_reads_are_told() {
    let mut bench = Bench::new();
    let nr = |name| syscalls::by_name(name).unwrap().nr;
    bench.fold.late(nr("aio:PREAD"), 100, b"/bin/program");
    bench.fold.late(nr("aio:PREAD"), -5, b"/bin/program");
    bench.fold.late(nr("aio:PWRITE"), 100, b"/bin/program");
    let expected = (Way::Late, "Linux AIO of /bin/program".to_string(), Some(1), Some(100));
    assert_eq!(told(&bench.finish()), [expected]);
}

#[test]
fn rings_that_are_not_followed_are_told_with_the_reason() {
    let mut bench = Bench::new();
    let ring = Opened { name: b"anon_inode:[io_uring]".to_vec(), kind: OpenedKind::Other };
    bench.process.files.insert(9, ring);
    let mut made = |name: &str, args: [u64; 6], ret, process, watched| {
        let nr = syscalls::by_name(name).unwrap().nr;
        let made = Made { nr, args: &args, ret, process, operations: 0, watched };
        bench.fold.call(&made, &mut bench.process);
    };
    let mapping = [0, 4096, READ_WRITE as u64, SHARED as u64, 9, 0];
    made("io_uring_setup", [8, 1, 0, 0, 0, 0], 9, 1, watched::FILTERED);
    made("io_uring_setup", [8, 1, 0, 0, 0, 0], 9, 2, watched::YES);
    // Its own, and one that is captured.
    made("mmap", mapping, 0x10000, 1, 0);
    made("mmap", mapping, 0x10000, 2, watched::SHADOWED);
    made("io_uring_enter", [9, 3, 0, 0, 0, 0], 3, 1, 0);
    // One of another process, beside a ring of its own that is captured.
    made("mmap", mapping, 0x10000, 2, 0);
    bench.fold.unsubmitted(1, b"/bin/program");
    let found = bench.finish();
    let expected = [
        (Way::Ring, "io_uring of /bin/program".to_string(), Some(3), None),
        (Way::Ring, "io_uring of another process in /bin/program".to_string(), None, None),
        (Way::Unsubmitted, "operations of /bin/program".to_string(), Some(1), None),
    ];
    assert_eq!(told(&found), expected);
    assert!(
        found.blind[0].why.contains("seccomp") && found.blind[1].why.contains("another process")
    );
}

#[test]
fn calls_of_32_bits_are_told() {
    let mut bench = Bench::new();
    let args = [1, 2, 3, 0, 0, 0];
    let made =
        Made { nr: OLD_NUMBERS + 4, args: &args, ret: 3, process: 1, operations: 0, watched: 0 };
    assert!(Unseen::follows(made.nr, &args));
    bench.fold.call(&made, &mut bench.process);
    let expected = (Way::OldCalls, "int 0x80 of /bin/program".to_string(), Some(1), None);
    assert_eq!(told(&bench.finish())[0], expected);
    assert!(!Unseen::follows(syscalls::by_name("read").unwrap().nr, &args));
}

#[test]
fn more_names_than_are_told_apart_count_together() {
    let mut bench = Bench::new();
    for number in 0..NAMES_MAX + 10 {
        let name = format!("/{number}").into_bytes();
        bench.process.files.insert(FILE, Opened { name, kind: OpenedKind::File });
        bench.call("mmap", &[0, 4096, READ_WRITE, SHARED, FILE.into(), 0], 0x10000);
    }
    let found = bench.finish();
    assert_eq!(found.blind.len(), NAMES_MAX + 1);
    let others = found.blind.iter().find(|blind| blind.file.as_deref() == Some(OTHERS));
    assert_eq!(others.map(|others| others.count), Some(Some(10)));
}
