//! Standard streams that are full, broken or closed: no command panics, and the exit code is right.

use std::fs::{self, File};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

#[path = "../src/sample.rs"]
mod sample;

use sample::End;

/// State of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stream {
    Fine,
    /// A full device.
    Full,
    /// A pipe without a reader.
    Broken,
    /// A full pipe that is never read.
    Stuck,
    /// A closed descriptor.
    Closed,
}

impl Stream {
    /// Returns the redirection for a shell.
    fn words(self, number: u32) -> String {
        match self {
            Stream::Fine => format!("{number}>/dev/null"),
            Stream::Full => format!("{number}>/dev/full"),
            Stream::Broken => format!("{number}>&8"),
            Stream::Stuck => format!("{number}>&9"),
            Stream::Closed => format!("{number}>&-"),
        }
    }
}

/// Pipes that accept no more data.
struct Pipes {
    broken: File,
    full: File,
    _unread: File,
}

impl Pipes {
    fn new() -> Pipes {
        let pipe = || {
            let (reader, writer) = std::io::pipe().unwrap();
            let file = |end: OwnedFd| File::from(end);
            (file(reader.into()), file(writer.into()))
        };
        let ((_, broken), (unread, full)) = (pipe(), pipe());
        // SAFETY: the descriptor is open, and the buffer has as many bytes as are written.
        unsafe {
            libc::fcntl(full.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK);
            while libc::write(full.as_raw_fd(), [0u8; 4096].as_ptr().cast(), 4096) > 0 {}
            libc::fcntl(full.as_raw_fd(), libc::F_SETFL, 0);
        }
        Pipes { broken, full, _unread: unread }
    }

    fn run(&self, place: &Path, words: &[&str], stdout: Stream, stderr: Stream) -> ExitStatus {
        let program = env!("CARGO_BIN_EXE_reenact");
        let script = format!("exec \"$0\" \"$@\" {} {}", stdout.words(1), stderr.words(2));
        let mut command = Command::new("sh");
        command.args(["-c", &script, program]).args(words).current_dir(place);
        command.stdin(Stdio::null());
        let (broken, full) = (self.broken.as_raw_fd(), self.full.as_raw_fd());
        let streams = move || {
            // SAFETY: these functions may be called between fork and exec, and take plain numbers.
            unsafe {
                // Either may have number 8 or 9 already, so both are moved out of the way first.
                let away = |fd| libc::fcntl(fd, libc::F_DUPFD, 20);
                let (broken, full) = (away(broken), away(full));
                libc::dup2(broken, 8);
                libc::dup2(full, 9);
                // The disposition that a shell starts programs with.
                libc::signal(libc::SIGPIPE, libc::SIG_DFL);
            }
            Ok(())
        };
        // SAFETY: `streams` only makes calls that are allowed between fork and exec.
        unsafe { command.pre_exec(streams) };
        command.status().unwrap()
    }
}

/// Every command, with arguments that make it print something.
const COMMANDS: &[&str] = &[
    "show t",
    "show --json t",
    "info t",
    "info --json t",
    "info --verify lost",
    "stat t",
    "stat --json t",
    "cat t --seq 1",
    "report -o page.html t",
    "export --to jsonl -o out t",
    "export --to strace -o out t",
    "export --to dataseries -o out t",
    "import --from strace -o out text",
    "cut -o out --seq 1..2 t",
    "repair -o out lost",
    "merge -o out t t",
    "compare t t",
    "compare t lost",
    "image t out",
    "replay t",
    "doctor",
    "--help",
    "--version",
    "record --help",
    "show",
    "nonsense",
    "show no-such-trace",
    "record",
    "record -o no/such/place true",
    "record -o out ./no-such-program",
    "record -o out /",
];

/// Makes a directory with a complete trace, one without an end, and a text of strace.
fn place() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| fs::write(place.path().join(name), bytes).unwrap();
    write("t", &sample::trace(End::Whole));
    write("lost", &sample::trace(End::Lost));
    write(
        "text",
        b"1 execve(\"/bin/true\", [\"true\"], 0x0 /* 0 vars */) = 0\n1 exit_group(0) = ?\n",
    );
    place
}

fn is_fine(status: ExitStatus, expected: i32, stdout: Stream) -> bool {
    // A reader that left is no failure, but a full device is. Neither hides another exit code.
    let code = status.code();
    code == Some(expected) || stdout == Stream::Full && (code, expected) == (Some(1), 0)
}

#[test]
fn commands_end_as_they_should() {
    let pipes = Pipes::new();
    let run = |words: &str, stdout, stderr| {
        let place = place();
        pipes.run(place.path(), &words.split(' ').collect::<Vec<_>>(), stdout, stderr)
    };
    for words in COMMANDS {
        let usual = run(words, Stream::Fine, Stream::Fine).code().unwrap();
        assert_ne!(usual, 101, "{words}");
        for stream in [Stream::Full, Stream::Broken, Stream::Closed] {
            for (stdout, stderr) in
                [(Stream::Fine, stream), (stream, Stream::Fine), (stream, stream)]
            {
                let status = run(words, stdout, stderr);
                assert!(
                    is_fine(status, usual, stdout),
                    "{words} with {stdout:?} and {stderr:?}: {status}, usually {usual}"
                );
            }
        }
    }
}

/// The program's own exit code, with a summary, warnings, and a trace that cannot be finished.
#[test]
fn a_recorded_program_keeps_its_exit_code() {
    let pipes = Pipes::new();
    let place = place();
    for stderr in [Stream::Full, Stream::Broken, Stream::Stuck, Stream::Closed] {
        for words in [
            &["record", "--force", "-o", "r", "sh", "-c", "exit 7"][..],
            &["record", "--force", "-q", "-o", "/dev/null", "sh", "-c", "exit 7"],
            &["record", "--force", "--max-size", "20K", "-o", "r", "sh", "-c", "ls -l /; exit 7"],
        ] {
            let status = pipes.run(place.path(), words, Stream::Fine, stderr);
            assert_eq!(status.code(), Some(7), "{words:?} with {stderr:?}");
        }
        let words = ["record", "--force", "-o", "r", "sh", "-c", "kill -9 $$"];
        let status = pipes.run(place.path(), &words, Stream::Fine, stderr);
        assert_eq!(status.to_string(), "signal: 9 (SIGKILL)", "{stderr:?}");
    }
}
