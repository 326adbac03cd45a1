//! Traces that lie: a re-execution ends, tells why, and leaves nothing changed.

use std::fs;
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use trace::event::{Call, Content, Event, EventKind, FieldValue, Outcome};
use trace::parts::part_id;
use trace::{Trace, Writer, WriterOptions};

const SCRIPT: &str = "trap : CHLD; read line < a; echo $line > b; /bin/true; (exit 3); echo $? $$; \
                      ls | sort -r | while read x; do echo $x; done; date; rm b";

/// Traces in the short tier, and in the long one.
const FEW: u64 = 40;
const MANY: u64 = 1000;
const REAL_EVERY: u64 = 4;

fn reenact() -> Command {
    Command::new(env!("CARGO_BIN_EXE_reenact"))
}

/// A small generator of random numbers (splitmix64).
struct Random(u64);

impl Random {
    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.word() % limit.max(1)
    }

    /// A number near which mistakes are made.
    fn odd(&mut self) -> u64 {
        match self.below(6) {
            0 => self.below(16),
            1 => self.word(),
            2 => 1 << self.below(64),
            3 => (1u64 << self.below(64)).wrapping_neg(),
            4 => 0x7fff_ffff_f000 - self.below(1 << 20),
            _ => ring_begins() + self.below(1 << 38),
        }
    }
}

/// Where the agent has its memory.
const fn ring_begins() -> u64 {
    0x3000_0000_0000
}

/// Builds a program of tests/rerun: `racing` has threads that also run for long between two calls, `echo` is a
/// server and its client, `mapped_files` maps files that it changes.
fn built(directory: &Path, name: &str) -> String {
    let program = directory.join(name).display().to_string();
    let source = format!("{}/../../tests/rerun/{name}.c", env!("CARGO_MANIFEST_DIR"));
    let built = Command::new("cc").args(["-O1", "-pthread", "-o", &program, &source]).status();
    assert!(built.unwrap().success());
    program
}

/// Records a command in a directory.
fn recorded(directory: &Path, options: &[&str], command: &[&str]) -> PathBuf {
    let work = directory.join("work");
    fs::create_dir(&work).unwrap();
    fs::write(work.join("a"), "first\n").unwrap();
    let trace = directory.join("script.rnt");
    let mut record = reenact();
    record.args(["record", "--quiet", "--rerunnable"]).args(options).arg("--output").arg(&trace);
    record.arg("--").args(command).current_dir(&work).stdin(Stdio::null());
    let output = record.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    trace
}

/// Takes the bytes along, some of which are changed.
fn carry_over(event: &mut Event, trace: &Trace, writer: &mut Writer, flip: Option<u64>) {
    let copy = |writer: &mut Writer, id| {
        let mut bytes = trace.blob(id).unwrap().to_vec();
        if let (Some(at), false) = (flip, bytes.is_empty()) {
            let at = (at % bytes.len() as u64) as usize;
            bytes[at] ^= 1 << (at % 8);
        }
        writer.blob(&bytes).unwrap()
    };
    let data = match &mut event.kind {
        EventKind::Call(call) => &mut call.data,
        EventKind::Image { data, .. } => data,
        _ => &mut Vec::new(),
    };
    for data in data {
        match &mut data.content {
            Content::Blobs { ids, .. } => {
                ids.iter_mut().for_each(|id| *id = copy(writer, *id));
            }
            Content::Inline(bytes) if !bytes.is_empty() => {
                if let Some(at) = flip {
                    let at = (at % bytes.len() as u64) as usize;
                    bytes[at] ^= 1 << (at % 8);
                }
            }
            Content::Inline(_) => {}
        }
    }
    for part in event.extras.iter_mut().flat_map(|extras| &mut extras.parts) {
        if part.id == part_id::BUFFERS {
            let ids = part.named_buffers().into_iter();
            let ids: Vec<_> = ids.map(|id| id.map(|id| copy(writer, id))).collect();
            *part = part.with_buffers(&ids);
        }
    }
}

fn alter_call(call: &mut Call, random: &mut Random) {
    match random.below(6) {
        0 => call.args[random.below(6) as usize] = random.odd(),
        1 => call.nr = random.below(470) as u16,
        2 => call.outcome = Outcome::Unfinished,
        3 => call.data.clear(),
        4 => {
            if let Some(data) = call.data.first_mut() {
                data.part = random.below(11) as u8;
                data.index = random.odd() as u16;
                data.arg = random.below(8) as u8;
            }
        }
        _ => {
            if let Outcome::Returned { ret, .. } = &mut call.outcome {
                *ret = random.odd().cast_signed();
            }
        }
    }
}

fn alter(event: &mut Event, random: &mut Random) {
    match &mut event.kind {
        EventKind::Call(call) => alter_call(call, random),
        EventKind::Start { parent, tid, process, .. } => match random.below(3) {
            0 => *parent = random.below(8) as u32,
            1 => *tid = random.word() as u32,
            _ => *process = random.below(8) as u32,
        },
        EventKind::Signal { signal, info, .. } => {
            *signal = random.word() as u8;
            info[random.below(48) as usize] = random.word() as u8;
        }
        EventKind::Exit { status, .. } => *status = Some(random.word() as i32),
        EventKind::State(state) => state.cwd = b"/proc/self/fd".to_vec(),
        // Of a file that is mapped, say: where it lies, how long it is.
        EventKind::Other(other) if !other.values.is_empty() && random.below(4) > 0 => {
            let place = random.below(other.values.len() as u64) as usize;
            match &mut other.values[place] {
                FieldValue::Unsigned(number) => *number = random.odd(),
                FieldValue::Bytes(bytes) => bytes.truncate(random.below(8) as usize),
                _ => {}
            }
        }
        _ => event.tsc = event.tsc.wrapping_add(random.below(1 << 30)),
    }
}

/// Writes a trace that lies in some places.
fn lying(from: &Trace, to: &Path, random: &mut Random) {
    let count = from.events().count() as u64;
    let places: Vec<u64> = (0..=random.below(3)).map(|_| random.below(count)).collect();
    let file = Box::new(fs::File::create(to).unwrap());
    let mut writer = Writer::new(file, from.preamble(), WriterOptions::default()).unwrap();
    for (number, next) in (0..).zip(from.events()) {
        let mut event = next.unwrap().event;
        let mut flip = None;
        let mut times = 1;
        if places.contains(&number) {
            match random.below(4) {
                0 => flip = Some(random.word()),
                1 => times = random.below(3),
                _ => alter(&mut event, random),
            }
        }
        carry_over(&mut event, from, &mut writer, flip);
        for _ in 0..times {
            // Some lies cannot be written.
            let _ = writer.event(&event);
        }
    }
    let _ = writer.finish(from.totals().unwrap());
}

fn executed(trace: &Path, files: &str, network: &str) -> Output {
    let mut rerun = Command::new("timeout");
    rerun.args(["--signal=KILL", "120", env!("CARGO_BIN_EXE_reenact"), "rerun"]);
    rerun
        .args(["--stuck-after", "3", "--files", files, "--network", network])
        .arg(trace)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

#[test]
fn traces_that_lie_do_no_harm() {
    let directory = tempfile::tempdir().unwrap();
    let trace = recorded(directory.path(), &[], &["sh", "-c", SCRIPT]);
    lies_do_no_harm(directory.path(), &trace, (FEW, REAL_EVERY), "answer");
}

#[test]
fn lies_about_threads_do_no_harm() {
    let directory = tempfile::tempdir().unwrap();
    let program = built(directory.path(), "racing");
    let trace = recorded(directory.path(), &["--serialize"], &[&program]);
    lies_do_no_harm(directory.path(), &trace, (FEW / 2, REAL_EVERY), "answer");
}

#[test]
fn lies_about_mapped_files_do_no_harm() {
    let directory = tempfile::tempdir().unwrap();
    let program = built(directory.path(), "mapped_files");
    let script = "\"$0\"; rm -f calls children";
    let trace = recorded(directory.path(), &[], &["sh", "-c", script, &program]);
    lies_do_no_harm(directory.path(), &trace, (FEW / 2, REAL_EVERY), "answer");
}

#[test]
fn lies_about_files_that_are_mapped_as_they_are_do_no_harm() {
    let directory = tempfile::tempdir().unwrap();
    let program = built(directory.path(), "mapped_copies");
    let script = "\"$0\"; \"$0\" further; rm -f from to";
    let trace = recorded(directory.path(), &[], &["sh", "-c", script, &program]);
    lies_do_no_harm(directory.path(), &trace, (FEW / 2, 1), "answer");
}

#[test]
fn lies_about_sockets_do_no_harm() {
    let directory = tempfile::tempdir().unwrap();
    let program = built(directory.path(), "echo");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    drop(listener);
    let script =
        "\"$0\" serve $1 3 & until \"$0\" ask $1 word 2> /dev/null; do sleep 0.1; done; wait";
    let trace = recorded(directory.path(), &[], &["sh", "-c", script, &program, &port]);
    // Nobody comes here from inside.
    let here = TcpListener::bind(format!("127.0.0.1:{port}")).unwrap();
    here.set_nonblocking(true).unwrap();
    lies_do_no_harm(directory.path(), &trace, (FEW / 2, REAL_EVERY), "feed");
    assert!(here.accept().is_err());
}

/// `real_every`: in one of so many rounds, calls on files are made again.
fn lies_do_no_harm(directory: &Path, trace: &Path, (few, real_every): (u64, u64), network: &str) {
    let sound = executed(trace, "answer", network);
    let told = String::from_utf8_lossy(&sound.stderr);
    assert!([0, 4].contains(&sound.status.code().unwrap_or(-1)), "{told}");
    let from = Trace::open(trace).unwrap();
    let is_long = std::env::var_os("REENACT_SOAK").is_some();
    let seed = std::env::var("REENACT_SEED").ok().and_then(|seed| seed.parse().ok());
    let mut codes = [0u64; 6];
    for round in 0..if is_long { MANY } else { few } {
        let seed = seed.unwrap_or(0x5eed) + round;
        let to = directory.join("lying.rnt");
        lying(&from, &to, &mut Random(seed));
        let files = if round % real_every == 0 { "real" } else { "answer" };
        let output = executed(&to, files, network);
        let told = String::from_utf8_lossy(&output.stderr);
        let code = output.status.code().unwrap_or(-1);
        assert!(
            [0, 1, 4, 5].contains(&code) && !told.contains("panicked"),
            "seed {seed}: {code}, {:?}: {told}",
            output.status.signal()
        );
        codes[code as usize] += 1;
        let names = fs::read_dir(directory.join("work")).unwrap();
        assert_eq!(names.count(), 1, "seed {seed}: it made files");
        assert_eq!(fs::read(directory.join("work/a")).unwrap(), b"first\n");
    }
    assert!(codes[1] + codes[4] > codes[0], "few lies are found: {codes:?}");
}
