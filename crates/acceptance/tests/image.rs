//! Programs read files in unusual ways. The initial files are rebuilt from the trace alone and
//! compared with the real ones.

use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use acceptance::place::{Place, Who};
use acceptance::shown::Info;
use acceptance::stage::Stage;
use acceptance::{Complaint, ensure, trials};

/// Size of each file.
const LEN: usize = 5000;

const PYTHON: &str = r#"
import os, fcntl, stat
def read(name, offset, length):
    f = os.open(name, os.O_RDONLY)
    assert len(os.pread(f, length, offset)) == length
    os.close(f)
read("part", 100, 50)
read("hard", 4000, 500)
os.rename("old", "new"); read("new", 0, 10)
os.rename("directory", "moved"); read("moved/sub/inner", 0, 5000)
read("link/file", 0, 20); read("real/file", 1000, 20)
os.mkdir("made"); os.rename("into", "made/into"); read("made/into", 30, 30)
f = os.open("over", os.O_RDWR); os.pwrite(f, b"x" * 2000, 1000); os.pread(f, 4000, 0); os.close(f)
f = os.open("cut", os.O_RDWR); os.pread(f, 10, 0); os.ftruncate(f, 5); os.ftruncate(f, 5000)
os.pread(f, 5000, 0); os.close(f)
f = os.open("log", os.O_RDWR | os.O_APPEND); os.write(f, b"more"); os.pread(f, 14, 4990); os.close(f)
open("gone", "w").close(); os.unlink("gone"); os.unlink("removed")
d = os.open("real", os.O_RDONLY | os.O_DIRECTORY); f = os.open("second", os.O_RDONLY, dir_fd=d)
os.lseek(f, -20, os.SEEK_END); os.read(f, 100); os.close(f)
os.chdir("real"); read("../beside", 7, 7); os.fchdir(d); read("./third", 1, 1); os.chdir("..")
f = os.open("shared", os.O_RDONLY); g = os.dup(f); os.read(f, 10); os.read(g, 10)
if os.fork() == 0:
    os.read(f, 10); os._exit(0)
os.wait(); os.read(g, 10)
f = os.open("source", os.O_RDONLY); g = os.open("copy", os.O_RDWR | os.O_CREAT)
assert os.sendfile(g, f, 0, 1000) == 1000
os.pread(g, 100, 200)
os.readv(os.open("vector", os.O_RDONLY), [bytearray(10), bytearray(20)])
print(sorted(os.listdir("listed")), os.stat("only-told").st_size, os.readlink("dangling"), os.readlink("link"))
assert not os.path.exists("absent")
"#;

const SHELL: &str = "\
    cat part > made-by-shell; cd real; cat file ../hard > /dev/null; \
    dd if=../over bs=10 skip=5 count=2 of=../over conv=notrunc 2> /dev/null; \
    while read -r line; do echo \"$line\"; done < ../text; cd ../link; cat second > /dev/null; \
    mv ../old ../older; rm -r ../listed";

/// A file that is partly known: the ranges that were read.
struct Known {
    name: &'static str,
    /// Start and end of each range.
    seen: &'static [(usize, usize)],
}

const fn known(name: &'static str, seen: &'static [(usize, usize)]) -> Known {
    Known { name, seen }
}

#[rustfmt::skip]
const BY_PYTHON: &[Known] = &[
    known("part", &[(100, 150), (4000, 4500)]), known("hard", &[(100, 150), (4000, 4500)]),
    known("old", &[(0, 10)]), known("directory/sub/inner", &[(0, 5000)]),
    known("real/file", &[(0, 20), (1000, 1020)]), known("into", &[(30, 60)]),
    known("over", &[(0, 1000), (3000, 4000)]), known("cut", &[(0, 10)]), known("log", &[(4990, 5000)]),
    known("real/second", &[(4980, 5000)]), known("beside", &[(7, 14)]), known("real/third", &[(1, 2)]),
    known("shared", &[(0, 40)]), known("source", &[(0, 1000)]), known("vector", &[(0, 30)]),
    known("only-told", &[]),
];

#[rustfmt::skip]
const BY_SHELL: &[Known] = &[
    known("part", &[(0, 5000)]), known("hard", &[(0, 5000)]), known("real/file", &[(0, 5000)]),
    known("over", &[(50, 70)]), known("real/second", &[(0, 5000)]), known("text", &[(0, 12)]),
];

/// Existing files that are not regular or were not read, and names that did not exist.
const PYTHON_OTHERS: &[&str] = &["link", "dangling", "listed/a", "listed/pipe", "removed"];
const SHELL_OTHERS: &[&str] = &["old", "listed/a", "listed/pipe"];
const PYTHON_NOT: &[&str] = &["new", "moved", "made", "gone", "copy", "absent"];
const SHELL_NOT: &[&str] = &["made-by-shell", "older"];

fn main() -> ExitCode {
    trials::main(|trials| {
        let python = trials::missing(&["python3"]);
        trials.add_for_both("odd_reads", python, |stage, who| {
            let expected = Expected { known: BY_PYTHON, others: PYTHON_OTHERS, not: PYTHON_NOT };
            check(stage, who, &["python3", "-c", PYTHON], &expected)
        });
        trials.add_for_both("shell_commands", None, |stage, who| {
            let expected = Expected { known: BY_SHELL, others: SHELL_OTHERS, not: SHELL_NOT };
            check(stage, who, &["sh", "-c", SHELL], &expected)
        });
        trials.add_for_both("no_data_no_content", None, no_data_no_content);
        trials.add_for_both("refuses_what_is_not_empty", None, refuses_what_is_not_empty);
        Ok(())
    })
}

struct Expected {
    known: &'static [Known],
    others: &'static [&'static str],
    not: &'static [&'static str],
}

fn text(error: std::io::Error) -> Complaint {
    error.to_string()
}

/// Creates all files in the working directory.
fn prepare(place: &Place) -> Result<(), Complaint> {
    let work = place.work();
    for name in ["directory", "directory/sub", "real", "listed"] {
        fs::create_dir(work.join(name)).map_err(text)?;
        place.give(&work.join(name))?;
    }
    let names = [
        "part",
        "old",
        "directory/sub/inner",
        "real/file",
        "real/second",
        "real/third",
        "into",
        "over",
        "cut",
        "log",
        "removed",
        "beside",
        "shared",
        "source",
        "vector",
        "only-told",
        "listed/a",
    ];
    for (name, number) in names.iter().zip(1u8..) {
        let bytes: Vec<u8> = (0..LEN).map(|at| (at % 251) as u8 ^ number | 1).collect();
        place.write(name, &bytes)?;
        let mode = fs::Permissions::from_mode(0o600 | u32::from(number));
        fs::set_permissions(work.join(name), mode).map_err(text)?;
    }
    place.write("text", b"two\nlines ab")?;
    fs::hard_link(work.join("part"), work.join("hard")).map_err(text)?;
    symlink("real", work.join("link")).map_err(text)?;
    symlink("nowhere", work.join("dangling")).map_err(text)?;
    let pipe = work.join("listed/pipe");
    let path =
        std::ffi::CString::new(pipe.to_str().ok_or("no UTF-8")?).map_err(|e| e.to_string())?;
    // SAFETY: the path is NUL-terminated.
    ensure!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) } == 0, "no fifo");
    place.give(&pipe)
}

/// Records a command and builds the image of the initial files; returns its path.
fn image(
    stage: &Stage,
    place: &Place,
    options: &[&str],
    command: &[&str],
) -> Result<PathBuf, Complaint> {
    let (trace, root) = (place.trace("image.rnt"), place.trace("image"));
    let mut record = place.command(&stage.reenact);
    record.args(["record", "-q", "-o"]).arg(&trace).args(options).arg("--").args(command);
    place.run(&mut record)?.success("record")?;
    Info::of(stage, &trace)?.must_be_complete()?;
    let mut image = place.command(&stage.reenact);
    place.run(image.arg("image").arg(&trace).arg(&root))?.success("image")?;
    Ok(root.join(place.work().strip_prefix("/").map_err(|error| error.to_string())?))
}

fn check(stage: &Stage, who: Who, command: &[&str], expected: &Expected) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    prepare(&place)?;
    let names =
        expected.known.iter().map(|known| known.name).chain(expected.others.iter().copied());
    let before: Result<Vec<_>, _> =
        names.map(|name| Was::of(&place.work().join(name)).map(|was| (name, was))).collect();
    let image = image(stage, &place, &[], command)?;
    for (name, was) in before? {
        let is = Was::of(&image.join(name))?;
        let mut wanted = was;
        match expected.known.iter().find(|known| known.name == name) {
            Some(known) => wanted.only_seen(known.seen),
            None if wanted.kind == "file" => {
                // Removed or listed, but not looked at: only its existence is certain.
                ensure!(is.kind == "file", "{name}: {}", is.kind);
                continue;
            }
            None => {}
        }
        wanted.must_be(&is).map_err(|what| format!("{name}: {what}"))?;
    }
    for name in expected.not {
        let path = image.join(name);
        ensure!(fs::symlink_metadata(&path).is_err(), "{name} was not there before");
    }
    Ok(())
}

/// The initial state of a file.
struct Was {
    kind: &'static str,
    meta: Metadata,
    content: Vec<u8>,
}

impl Was {
    fn of(path: &Path) -> Result<Was, Complaint> {
        let fail = |error: std::io::Error| format!("{}: {error}", path.display());
        let meta = fs::symlink_metadata(path).map_err(fail)?;
        let (kind, content) = if meta.is_symlink() {
            let target = fs::read_link(path).map_err(fail)?;
            ("link", target.into_os_string().into_encoded_bytes())
        } else if meta.is_file() {
            ("file", fs::read(path).map_err(fail)?)
        } else if meta.file_type().is_fifo() {
            ("fifo", Vec::new())
        } else {
            ("other", Vec::new())
        };
        Ok(Was { kind, meta, content })
    }

    fn only_seen(&mut self, seen: &[(usize, usize)]) {
        for (at, byte) in self.content.iter_mut().enumerate() {
            if !seen.iter().any(|(first, end)| (*first..*end).contains(&at)) {
                *byte = 0;
            }
        }
    }

    fn must_be(&self, is: &Was) -> Result<(), Complaint> {
        ensure!(self.kind == is.kind, "was a {}, is a {}", self.kind, is.kind);
        let differs = self.content.iter().zip(&is.content).position(|(a, b)| a != b);
        ensure!(differs.is_none(), "differs at byte {differs:?}");
        let size = (self.content.len(), is.content.len());
        ensure!(size.0 == size.1, "had {} bytes, has {}", size.0, size.1);
        if self.kind == "file" {
            let of = |meta: &Metadata| {
                (meta.mode(), meta.nlink(), meta.uid(), meta.gid(), meta.mtime(), meta.mtime_nsec())
            };
            let (was, is) = (of(&self.meta), of(&is.meta));
            ensure!(was == is, "mode, links, owner, time were {was:?}, are {is:?}");
        }
        Ok(())
    }
}

fn no_data_no_content(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    prepare(&place)?;
    let image = image(stage, &place, &["--data", "none"], &["cat", "part"])?;
    let content = fs::read(image.join("part")).map_err(text)?;
    ensure!(
        content == [0; LEN],
        "content without data: {:?}...",
        &content[..10.min(content.len())]
    );
    Ok(())
}

fn refuses_what_is_not_empty(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let trace = place.trace("image.rnt");
    let mut record = place.command(&stage.reenact);
    place
        .run(record.args(["record", "-q", "-o"]).arg(&trace).args(["--", "true"]))?
        .success("record")?;
    place.write("something", b"precious")?;
    let mut image = place.command(&stage.reenact);
    let refused = place.run(image.arg("image").arg(&trace).arg("."))?;
    ensure!(refused.status.code() == Some(1), "not refused: {}", refused.status);
    ensure!(refused.errors().contains("not empty"), "it said: {}", refused.errors());
    let content = fs::read(place.work().join("something")).map_err(text)?;
    ensure!(content == b"precious", "a file was changed");
    Ok(())
}
