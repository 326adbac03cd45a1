//! Other users, recorded or not, replace files where the recorder or a command of root's reads or
//! writes. They learn nothing by it, and cannot redirect what is written.

use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, lchown, symlink};
use std::process::ExitCode;

use acceptance::manifest::Manifest;
use acceptance::place::{Place, Who};
use acceptance::shown::Info;
use acceptance::stage::{Stage, open_to_all};
use acceptance::{Complaint, ensure, trials};
use xxhash_rust::xxh3::xxh3_128;

const SECRET: &[u8] = b"what only root may know, and no compression can make away with: 98765\n";
const PLAIN: &[u8] = b"what everybody may know, and no compression can make away with: 12345\n";
const AS_NOBODY: &str = "setpriv --reuid=65534 --regid=65534 --clear-groups";
const NOBODY: u32 = 65534;

fn main() -> ExitCode {
    trials::main(|trials| {
        let missing = trials::missing(&["setpriv", "python3"]);
        for (name, exchange) in EXCHANGES {
            for (by, is_recorded) in [("recorded", true), ("outside", false)] {
                trials.add(&format!("{by}/{name}"), Who::Root, missing, move |stage, who| {
                    keeps_out(stage, who, exchange, is_recorded)
                });
            }
        }
        trials.add("copies_of_other_users_are_kept", Who::Root, missing, others_copies_are_kept);
        trials.add_for_both("rules_hold_for_all_names", missing, rules_hold_for_all_names);
        trials.add_for_both("nothing_is_written_into_pipes", missing, pipes_are_refused);
        trials.add("roots_are_not_exchanged", Who::Root, missing, roots_are_not_exchanged);
        Ok(())
    })
}

/// Commands of nobody after copying `a/src` to `b/dst` and writing `a/made` and `b/made`, while
/// root's program has written `b/roots`. Only root may read the link targets.
const EXCHANGES: [(&str, &str); 6] = [
    ("a_target_becomes_a_link", "rm a/src b/dst; ln -s \"$PWD/private/src\" b/dst"),
    ("a_directory_becomes_a_link", "rm a/src b/dst; mv b old; ln -s \"$PWD/private\" b"),
    ("a_source_becomes_a_link", "rm b/dst a/src; ln -s \"$PWD/private/src\" a/src"),
    ("a_changed_directory_becomes_a_link", "mv b old; ln -s \"$PWD/private\" b"),
    ("a_changed_file_becomes_a_link", "rm b/made; ln -s \"$PWD/private/made\" b/made"),
    ("a_file_of_roots_becomes_a_link", "rm -f b/roots; ln -s \"$PWD/private/made\" b/roots"),
];

/// A directory where nobody may do anything, with a directory inside that only root may enter.
fn prepare(place: &Place) -> Result<(), Complaint> {
    let failed = |error: std::io::Error| error.to_string();
    let work = place.work();
    for name in ["private", "a", "b"] {
        fs::create_dir(work.join(name)).map_err(failed)?;
    }
    for name in ["private/src", "private/dst", "private/made"] {
        fs::write(work.join(name), SECRET.repeat(100)).map_err(failed)?;
    }
    fs::write(work.join("a/src"), PLAIN.repeat(100)).map_err(failed)?;
    open_to_all(&work)?;
    fs::set_permissions(work.join("private"), fs::Permissions::from_mode(0o700)).map_err(failed)?;
    for name in ["", "a", "b", "a/src"] {
        lchown(work.join(name), Some(NOBODY), Some(NOBODY)).map_err(failed)?;
    }
    // File times are coarse.
    std::thread::sleep(std::time::Duration::from_millis(50));
    Ok(())
}

fn occurs(bytes: &[u8], line: &[u8]) -> bool {
    bytes.windows(line.len()).any(|window| window == line)
}

/// Copies `a/src`, opened twice, to the new file `b/dst`.
const COPY: &str = "\
import os
os.close(os.open('a/src', os.O_RDONLY))
source, target = os.open('a/src', os.O_RDONLY), os.open('b/dst', os.O_RDWR | os.O_CREAT, 0o644)
os.copy_file_range(source, target, 4000, 0, 0)
";

fn keeps_out(stage: &Stage, who: Who, exchange: &str, is_recorded: bool) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    prepare(&place)?;
    fs::write(place.work().join("copy.py"), COPY).map_err(|error| error.to_string())?;
    // An unrecorded exchange happens while the recorded program of nobody waits for it.
    let last = if is_recorded { exchange } else { "mkdir ready; while [ -d ready ]; do :; done" };
    let theirs = format!("python3 -S copy.py; echo x > a/made; echo x > b/made; {last}");
    let trace = place.trace("led.rnt");
    let mut record = place.command(&stage.reenact);
    record.args(["record", "--quiet", "--compress", "none", "--output"]).arg(&trace).args(["--"]);
    let script = format!("echo x > b/roots; {AS_NOBODY} sh -c '{theirs}'");
    let outside = (!is_recorded).then(|| {
        let mut sh = place.command("sh");
        let wait = "while [ ! -d ready ]; do sleep 0.05; done";
        let words = format!("{wait}; {AS_NOBODY} sh -c '{exchange}'; rmdir ready");
        sh.args(["-c", &words]).spawn()
    });
    place.run(record.args(["sh", "-c", &script]))?.success("the recording")?;
    if let Some(outside) = outside {
        let done = outside.and_then(|mut child| child.wait()).map_err(|error| error.to_string())?;
        ensure!(done.success(), "the exchange: {done}");
    }
    let bytes = fs::read(&trace).map_err(|error| error.to_string())?;
    ensure!(!occurs(&bytes, SECRET), "the trace has what only root may read");
    let manifest = Manifest::of(&trace)?;
    let hash = |content: &[u8]| format!("{:032x}", xxh3_128(content).swap_bytes());
    let told = |hash: &str| manifest.files.values().any(|line| line.contains(hash));
    ensure!(told(&hash(b"x\n")), "no hash of what was changed: {:?}", manifest.files);
    ensure!(!told(&hash(&SECRET.repeat(100))), "the manifest tells of what only root may read");
    Info::of(stage, &trace)?.must_be_complete()
}

/// Without an exchange, the copy is kept.
fn others_copies_are_kept(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    for after in ["true", "rm a/src"] {
        place.clear()?;
        prepare(&place)?;
        fs::write(place.work().join("copy.py"), COPY).map_err(|error| error.to_string())?;
        let trace = place.trace(&format!("kept-{}.rnt", after.len()));
        let mut record = place.command(&stage.reenact);
        record.args(["record", "--quiet", "--compress", "none", "--output"]).arg(&trace);
        let script = format!("{AS_NOBODY} sh -c 'python3 -S copy.py; {after}'");
        place.run(record.args(["--", "sh", "-c", &script]))?.success("the recording")?;
        let bytes = fs::read(&trace).map_err(|error| error.to_string())?;
        ensure!(occurs(&bytes, PLAIN), "{after}: what was copied is not kept");
    }
    Ok(())
}

/// A file that is excluded by a rule gets another name through a link.
fn rules_hold_for_all_names(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    place.write("src", &PLAIN.repeat(100))?;
    place.write("vault.key", &SECRET.repeat(100))?;
    std::thread::sleep(std::time::Duration::from_millis(50));
    let trace = place.trace("rules.rnt");
    let mut record = place.command(&stage.reenact);
    record.args(["record", "--quiet", "--compress", "none", "--data-for", "*.key=none"]);
    let script =
        "cp src dst; rm src dst; ln -s vault.key dst; ln -s vault.key alias; cp alias third";
    place
        .run(record.arg("--output").arg(&trace).args(["--", "sh", "-c", script]))?
        .success("the recording")?;
    let bytes = fs::read(&trace).map_err(|error| error.to_string())?;
    ensure!(!occurs(&bytes, SECRET), "the trace has what was to be left out");
    Ok(())
}

/// With --force, a pipe that another user may read is refused before it is opened.
fn pipes_are_refused(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let make = "mkfifo pipe; ln -s pipe link";
    place.run(place.command("sh").args(["-c", make]))?.success("the pipe")?;
    let traces = [place.trace("one.rnt"), place.trace("two.rnt")];
    for trace in &traces {
        let mut record = place.command(&stage.reenact);
        record.args(["record", "--quiet", "--output"]).arg(trace).args(["--", "true"]);
        place.run(&mut record)?.success("the recording")?;
    }
    // Only a truncated trace is repaired.
    let whole = fs::read(&traces[0]).map_err(|error| error.to_string())?;
    place.write("broken.rnt", &whole[..whole.len() - 100])?;
    let [trace, other] = traces.each_ref().map(|trace| trace.to_str().unwrap_or_default());
    // A command that opens the pipe writes to the reader if there is one, and blocks otherwise.
    for has_reader in [true, false] {
        let reader = has_reader.then(|| {
            let mut options = OpenOptions::new();
            options.read(true).custom_flags(libc::O_NONBLOCK).open(place.work().join("pipe"))
        });
        let mut reader: Option<File> = reader.transpose().map_err(|error| error.to_string())?;
        for name in ["pipe", "link"] {
            for words in [
                &["record", "--force", "--output", name, "--", "true"][..],
                &["cut", "--force", "--output", name, "--call", "read", trace],
                &["merge", "--force", "--output", name, trace, other],
                &["repair", "--force", "--output", name, "broken.rnt"],
                &["export", "--force", "--to", "strace", "--output", name, trace],
                &["report", "--force", "--output", name, trace],
                &["replay", "--log", name, trace],
            ] {
                let mut limited = place.command("timeout");
                let outcome = place.run(limited.arg("20").arg(&stage.reenact).args(words))?;
                let told = outcome.errors();
                ensure!(!outcome.status.success(), "{words:?} is not refused");
                ensure!(told.contains("named pipe"), "{words:?} says {told}");
                let mut got = Vec::new();
                if let Some(reader) = &mut reader {
                    let _ = reader.read_to_end(&mut got);
                }
                ensure!(got.is_empty(), "{words:?} has written {} bytes", got.len());
            }
        }
    }
    Ok(())
}

fn roots_are_not_exchanged(stage: &Stage, who: Who) -> Result<(), Complaint> {
    let place = Place::new(stage, who)?;
    let failed = |error: std::io::Error| error.to_string();
    let work = place.work();
    let trace = place.trace("root.rnt");
    let mut record = place.command(&stage.reenact);
    record.args(["record", "--quiet", "--output"]).arg(&trace).args(["--", "touch", "made"]);
    place.run(&mut record)?.success("the recording")?;
    fs::create_dir_all(work.join("private/below")).map_err(failed)?;
    symlink(work.join("private"), work.join("led")).map_err(failed)?;
    lchown(work.join("led"), Some(NOBODY), Some(NOBODY)).map_err(failed)?;
    for root in ["led", "led/below", "led/new"] {
        for words in [&["replay", "--overwrite", "--root", root][..], &["image"]] {
            let mut command = place.command(&stage.reenact);
            command.args(words).arg(&trace).args((words[0] == "image").then_some(root));
            let outcome = place.run(&mut command)?;
            ensure!(!outcome.status.success(), "{words:?} into {root} is not refused");
            let told = outcome.errors();
            ensure!(told.contains("user 65534 has made"), "{words:?} into {root} says {told}");
        }
    }
    let left = fs::read_dir(work.join("private/below")).map_err(failed)?.count();
    ensure!(left == 0 && !work.join("private/new").exists(), "something was put there");
    Ok(())
}
