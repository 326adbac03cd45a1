//! The traces, each with very much of one thing.

use std::path::Path;

use syscalls::record::{IMAGE_ARG, Identity, data_flag, part};
use trace::event::{Content, Data, EventKind, GapWhy, OpenFd, StartHow};

use crate::script::{CWD, Made, POINTER, Script, made};

/// Writes a trace with that many of everything.
pub type Shape = fn(&Path, u64);

pub const SHAPES: &[(&str, Shape)] = &[
    ("open_files_in_many_processes", open_files_in_many_processes),
    ("tables_that_differ_a_little", tables_that_differ_a_little),
    ("tables_of_threads", tables_of_threads),
    ("numbers_far_apart", numbers_far_apart),
    ("descriptors_in_messages", descriptors_in_messages),
    ("deep_working_directories", deep_working_directories),
    ("deep_descriptors", deep_descriptors),
    ("long_names", long_names),
    ("long_names_that_are_not_there", long_names_that_are_not_there),
    ("renames_of_deep_directories", renames_of_deep_directories),
    ("each_into_the_next", each_into_the_next),
    ("links_to_one_file", links_to_one_file),
    ("one_file_in_many_directories", one_file_in_many_directories),
    ("one_directory_with_many_names", one_directory_with_many_names),
    ("links_to_links", links_to_links),
    ("lists_of_a_huge_directory", lists_of_a_huge_directory),
    ("lists_of_huge_directories", lists_of_huge_directories),
    ("vectors", vectors),
    ("threads", threads),
    ("threads_that_nobody_made", threads_that_nobody_made),
    ("programs_with_long_arguments", programs_with_long_arguments),
    ("states_again_and_again", states_again_and_again),
    ("mounts", mounts),
    ("gaps", gaps),
    ("pipes_and_sockets", pipes_and_sockets),
    ("attributes", attributes),
    ("pieces_of_a_file", pieces_of_a_file),
    ("calls_that_never_end", calls_that_never_end),
];

/// Writes a trace of that many plain writes.
pub fn ordinary(path: &Path, events: u64) {
    let mut script = Script::told(path, "another machine", Vec::new()).begun();
    script.open("/file", libc::O_CREAT | libc::O_RDWR, 3);
    for _ in 0..events {
        script.write(3, &[b'x'; 64]);
    }
    script.finish();
}

const CLOEXEC: i32 = libc::O_CLOEXEC;

/// Opens files 3 to `many`, every other one with close-on-exec.
fn opened(path: &Path, many: u64) -> Script {
    let mut script = Script::new(path);
    for fd in 3..many {
        let flags = if fd % 2 == 0 { CLOEXEC } else { 0 };
        script.open(&format!("/f{fd}"), libc::O_RDWR | libc::O_CREAT | flags, fd as i64);
    }
    script
}

fn open_files_in_many_processes(path: &Path, many: u64) {
    let mut script = opened(path, many);
    for process in 2..many as u32 {
        script.start(process, StartHow::Fork, process, 1);
    }
    script.finish();
}

fn tables_that_differ_a_little(path: &Path, many: u64) {
    const WHOLE: u64 = u32::MAX as u64;
    let mut script = opened(path, many);
    for process in 2..many as u32 {
        let thread = process;
        script.start(thread, StartHow::Fork, process, 1);
        let one = 3 + u64::from(process) % many;
        script.call(thread, made(libc::SYS_close, &[one], 0));
        let cloexec = libc::CLOSE_RANGE_CLOEXEC.into();
        script.call(thread, made(libc::SYS_close_range, &[one, WHOLE, cloexec], 0));
        script.call(thread, made(libc::SYS_dup2, &[3, one], one as i64));
        script.push(thread, EventKind::Image { tid: 1000 + thread, data: Vec::new() });
    }
    script.finish();
}

/// Threads with descriptor tables of their own.
fn tables_of_threads(path: &Path, many: u64) {
    const OWN_FILES: i32 = libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_THREAD;
    let mut script = opened(path, many);
    for thread in 2..many as u32 {
        script.plain(libc::SYS_clone, &[OWN_FILES as u64], i64::from(1000 + thread));
        script.start(thread, StartHow::Thread, 1, 1);
        script.call(thread, made(libc::SYS_close, &[u64::from(thread)], 0));
    }
    script.finish();
}

fn numbers_far_apart(path: &Path, many: u64) {
    let mut script = Script::new(path);
    script.open("/file", libc::O_CREAT | libc::O_RDWR, 3);
    for number in 1..many * 4 {
        let fd = number * 0x9e37 % 0x7fff_ffff;
        script.plain(libc::SYS_dup2, &[3, fd], fd as i64);
    }
    script.finish();
}

fn descriptors_in_messages(path: &Path, many: u64) {
    let mut script = Script::new(path);
    let fds: Vec<u8> = (10..263i32).flat_map(i32::to_ne_bytes).collect();
    let head = [16 + fds.len() as u64, 1 | 1 << 32].map(u64::to_ne_bytes).concat();
    let control = [head, fds].concat();
    for _ in 0..many {
        let received = made(libc::SYS_recvmsg, &[3, POINTER, 0], 1);
        script.call(1, received.bytes(1, part::CONTROL, data_flag::OUT, &control));
    }
    script.finish();
}

fn deep_working_directories(path: &Path, many: u64) {
    let mut script = Script::new(path);
    for _ in 0..many * 4 {
        script.path(libc::SYS_mkdir, &[POINTER, 0o755], 0, "d", 0);
        script.path(libc::SYS_chdir, &[POINTER], 0, "d", 0);
    }
    script.finish();
}

fn deep_descriptors(path: &Path, many: u64) {
    let mut script = Script::new(path);
    script.open("/a", libc::O_DIRECTORY, 3);
    for fd in 3..many * 2 {
        script.path(libc::SYS_mkdirat, &[fd, POINTER, 0o755], 1, "d", 0);
        let args = [fd, POINTER, libc::O_DIRECTORY as u64, 0];
        script.path(libc::SYS_openat, &args, 1, "d", fd as i64 + 1);
    }
    script.finish();
}

fn long_names(path: &Path, many: u64) {
    let mut script = Script::new(path);
    let name = "n".repeat(255);
    for _ in 0..many / 4 {
        script.path(libc::SYS_mkdir, &[POINTER, 0o755], 0, &name, 0);
        script.path(libc::SYS_chdir, &[POINTER], 0, &name, 0);
    }
    for fd in 3..many * 2 {
        script.open(&format!("f{fd}"), libc::O_CREAT | libc::O_RDWR, fd as i64);
    }
    script.finish();
}

fn long_names_that_are_not_there(path: &Path, many: u64) {
    let mut script = Script::new(path);
    let long = ["a"; 1500].join("/");
    // An image makes five hundred directories for each existing path.
    for number in 0..many / 50 {
        let name = format!("/{number:0>200}/{long}");
        script.path(libc::SYS_access, &[POINTER, 0], 0, &name, -i64::from(libc::ENOENT));
        script.path(libc::SYS_access, &[POINTER, 0], 0, &format!("/x{number}/{long}"), 0);
    }
    script.finish();
}

fn renames_of_deep_directories(path: &Path, many: u64) {
    let mut script = Script::new(path);
    script.path(libc::SYS_mkdir, &[POINTER, 0o755], 0, "/top", 0);
    script.path(libc::SYS_chdir, &[POINTER], 0, "/top", 0);
    for fd in 3..403 {
        script.open("file", libc::O_CREAT | libc::O_RDWR, fd);
        script.path(libc::SYS_mkdir, &[POINTER, 0o755], 0, "d", 0);
        script.path(libc::SYS_chdir, &[POINTER], 0, "d", 0);
    }
    for number in 0..many {
        let names = if number % 2 == 0 { ["/top", "/pot"] } else { ["/pot", "/top"] };
        script.paths(libc::SYS_rename, &[POINTER, POINTER], [(0, names[0]), (1, names[1])], 0);
    }
    script.finish();
}

fn each_into_the_next(path: &Path, many: u64) {
    let mut script = Script::new(path);
    for number in 0..many {
        script.path(libc::SYS_mkdir, &[POINTER, 0o755], 0, &format!("/d{number}"), 0);
    }
    for number in 0..many - 1 {
        let (from, to) = (format!("/d{number}"), format!("/d{}/d{number}", number + 1));
        script.paths(libc::SYS_rename, &[POINTER, POINTER], [(0, &from), (1, &to)], 0);
    }
    script.finish();
}

/// Adds the identity of the file at the call's path.
fn told(mut call: Made, identity: Identity) -> Made {
    call.identity(0, identity);
    call
}

fn identity(mode: u32, nlink: u32) -> Identity {
    Identity { dev: 1, ino: 77, mode, nlink, ..Identity::default() }
}

fn links_to_one_file(path: &Path, many: u64) {
    let mut script = Script::new(path);
    script.open("/f", libc::O_CREAT | libc::O_RDWR, 3);
    for number in 0..many {
        let to = format!("/l{number}");
        script.paths(libc::SYS_link, &[POINTER, POINTER], [(0, "/f"), (1, &to)], 0);
    }
    for number in 0..many {
        let file = identity(0o100_644, many as u32);
        let changed = made(libc::SYS_truncate, &[POINTER, 10], 0);
        script.call(1, told(changed.text(0, &format!("/old{number}")), file));
    }
    for number in 0..many {
        script.path(libc::SYS_unlink, &[POINTER], 0, &format!("/l{number}"), 0);
    }
    script.finish();
}

fn one_file_in_many_directories(path: &Path, many: u64) {
    let mut script = Script::new(path);
    let below = ["d"; 200].join("/");
    for number in 0..many / 10 {
        let changed = made(libc::SYS_chmod, &[POINTER, 0o644], 0);
        let name = format!("/x{number}/{below}/f");
        script.call(1, told(changed.text(0, &name), identity(0o100_644, 1)));
    }
    script.finish();
}

fn one_directory_with_many_names(path: &Path, many: u64) {
    let mut script = Script::new(path);
    for number in 0..many {
        let changed = made(libc::SYS_chmod, &[POINTER, 0o755], 0);
        let name = format!("/a{number}/b{number}");
        script.call(1, told(changed.text(0, &name), identity(0o040_755, 2)));
    }
    script.finish();
}

fn links_to_links(path: &Path, many: u64) {
    let mut script = Script::new(path);
    for number in 0..many {
        let (target, link) = (format!("/s{}/x", number + 1), format!("/s{number}"));
        script.paths(libc::SYS_symlink, &[POINTER, POINTER], [(0, &target), (1, &link)], 0);
    }
    let below = ["y"; 100].join("/");
    for number in 0..many {
        let name = format!("/s{number}/{below}");
        script.path(libc::SYS_access, &[POINTER, 0], 0, &name, 0);
    }
    script.finish();
}

/// Returns a directory listing in the kernel's format.
fn list(names: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in 0..names {
        let name = format!("name-{number}");
        let len = (19 + name.len() + 1).next_multiple_of(8);
        let end = bytes.len() + len;
        bytes.extend(number.to_le_bytes());
        bytes.extend(number.to_le_bytes());
        bytes.extend((len as u16).to_le_bytes());
        bytes.push(8);
        bytes.extend(name.as_bytes());
        bytes.resize(end, 0);
    }
    bytes
}

fn listed(script: &mut Script, names: &[u8]) {
    let list = made(libc::SYS_getdents64, &[3, POINTER, 16 << 20], names.len() as i64);
    script.call(1, list.bytes(1, part::WHOLE, data_flag::OUT, names));
}

fn lists_of_a_huge_directory(path: &Path, many: u64) {
    let mut script = Script::new(path);
    script.open("/huge", libc::O_DIRECTORY, 3);
    let names = list(many * 2);
    for _ in 0..many / 100 {
        listed(&mut script, &names);
    }
    script.finish();
}

fn lists_of_huge_directories(path: &Path, many: u64) {
    let mut script = Script::new(path);
    let names = list(many * 2);
    for number in 0..many / 300 {
        script.open(&format!("/huge{number}"), libc::O_DIRECTORY, 3);
        listed(&mut script, &names);
    }
    script.finish();
}

fn vectors(path: &Path, many: u64) {
    let mut script = Script::new(path);
    script.open("/file", libc::O_CREAT | libc::O_RDWR, 3);
    let vector = [POINTER, 16].map(u64::to_ne_bytes).concat().repeat(1024);
    let bytes = [b'y'; 16 << 10];
    for _ in 0..many / 4 {
        let written = made(libc::SYS_writev, &[3, POINTER, 1024], bytes.len() as i64);
        let written = written.bytes(1, part::WHOLE, 0, &vector);
        script.call(1, written.bytes(1, part::CONTENT, 0, &bytes));
    }
    script.finish();
}

const THREAD: i32 = libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_FILES | libc::CLONE_THREAD;

fn threads(path: &Path, many: u64) {
    let mut script = Script::new(path);
    for thread in 2..many as u32 {
        script.plain(libc::SYS_clone, &[THREAD as u64], i64::from(1000 + thread));
        script.start(thread, StartHow::Thread, 1, 1);
    }
    for thread in 2..many as u32 {
        script.call(thread, made(libc::SYS_getpid, &[], 1001));
        script.push(thread, EventKind::End { calls: 1 });
    }
    script.finish();
}

fn threads_that_nobody_made(path: &Path, many: u64) {
    let mut script = Script::new(path);
    for thread in 2..many as u32 {
        script.start(thread, StartHow::Thread, thread, 999_999);
        script.state(thread, |_| {});
        script.push(thread, EventKind::Image { tid: 1000 + thread, data: Vec::new() });
    }
    script.finish();
}

fn programs_with_long_arguments(path: &Path, many: u64) {
    let mut script = Script::new(path);
    let words = [&[b'a'; 30][..], b"\0"].concat().repeat(2000);
    for process in 2..many as u32 {
        script.start(process, StartHow::Fork, process, process - 1);
        let argv = Data {
            arg: IMAGE_ARG,
            part: part::ARGV,
            index: 0,
            flags: 0,
            true_len: words.len() as u64,
            hash: None,
            content: Content::Inline(words.clone()),
        };
        script.push(process, EventKind::Image { tid: 1000 + process, data: vec![argv] });
    }
    script.finish();
}

fn states_again_and_again(path: &Path, many: u64) {
    const OWN_FILES: i32 = libc::CLONE_VM | libc::CLONE_THREAD;
    let mut script = Script::new(path);
    for thread in 2..many as u32 {
        script.plain(libc::SYS_clone, &[OWN_FILES as u64], i64::from(1000 + thread));
        script.start(thread, StartHow::Thread, 1, 1);
    }
    let open = |fd| OpenFd { fd, target: format!("/file{fd}").into(), offset: 0, flags: 2 };
    for _ in 0..10 {
        script.state(1, |state| {
            state.fds = (0..1000).map(open).collect();
            state.cwd = ["/n"; 1000].concat().into();
        });
    }
    script.finish();
}

fn mounts(path: &Path, many: u64) {
    let line = |number: u64| {
        let device = number % 200;
        format!("{number} 1 8:{device} / /m{number} rw - ext4 /dev/sda{device} rw").into_bytes()
    };
    let mut script = Script::told(path, "", (0..many).map(line).collect()).begun();
    for number in 0..many * 2 {
        let name = format!("/m{}/x/y{number}", number % many);
        script.path(libc::SYS_access, &[POINTER, 0], 0, &name, 0);
    }
    script.finish();
}

fn gaps(path: &Path, many: u64) {
    let mut script = Script::new(path);
    for number in 0..many * 20 {
        let text = format!("something is missing {number}");
        script.push(1, EventKind::Gap { why: GapWhy::NotFollowed, detail: number, text });
    }
    script.finish();
}

fn pipes_and_sockets(path: &Path, many: u64) {
    let mut script = Script::new(path);
    for number in 0..many as i32 {
        let pair = [3 + 2 * number, 4 + 2 * number].map(i32::to_ne_bytes).concat();
        let made_both =
            |nr| made(nr, &[POINTER, 0], 0).bytes(0, part::WHOLE, data_flag::OUT, &pair);
        script.call(1, made_both(libc::SYS_pipe2));
        script.plain(libc::SYS_socket, &[2, 1, 0], 100_000 + i64::from(number));
    }
    script.finish();
}

fn attributes(path: &Path, many: u64) {
    let mut script = Script::new(path);
    let names: Vec<u8> =
        (0..5000).flat_map(|number| format!("user.{number}\0").into_bytes()).collect();
    for number in 0..many {
        let set = made(libc::SYS_setxattr, &[POINTER, POINTER, POINTER, 1, 0], 0);
        let set = set.text(0, "/file").text(1, &format!("user.x{number}"));
        script.call(1, set.bytes(2, part::WHOLE, 0, b"v"));
    }
    for number in 0..many / 30 {
        let told = made(libc::SYS_listxattr, &[POINTER, POINTER, 1 << 20], names.len() as i64);
        let told = told.text(0, &format!("/file{number}"));
        script.call(1, told.bytes(1, part::WHOLE, data_flag::OUT, &names));
    }
    script.finish();
}

/// A file is written in pieces, and then read as a whole repeatedly.
fn pieces_of_a_file(path: &Path, many: u64) {
    let mut script = Script::new(path);
    let opened = made(libc::SYS_openat, &[CWD, POINTER, 2, 0], 3).text(1, "/file");
    let mut opened = opened;
    opened.identity(1, Identity { size: 1 << 40, ..identity(0o100_644, 1) });
    script.call(1, opened);
    for number in 0..many * 2 {
        let at = number * 10;
        let written = made(libc::SYS_pwrite64, &[3, POINTER, 1, at], 1);
        script.call(1, written.bytes(1, part::WHOLE, 0, b"y"));
    }
    for _ in 0..many {
        let len = many * 20;
        let read = made(libc::SYS_pread64, &[3, POINTER, len, 0], len as i64);
        script.call(1, read.claimed(1, part::WHOLE, data_flag::OUT, b"few", len));
    }
    script.finish();
}

fn calls_that_never_end(path: &Path, many: u64) {
    let mut script = Script::new(path);
    for process in 2..many as u32 {
        script.start(process, StartHow::Fork, process, 1);
        script.call(process, made(libc::SYS_read, &[0, POINTER, 10], 0).unfinished());
    }
    script.finish();
}
