//! `--data-for`: excluded data is nowhere in the trace, whatever call reads or writes it.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use xxhash_rust::xxh3::xxh3_128;

/// No script may contain these strings: a shell reads its text, which is recorded.
const SECRET: &str = "the-key-to-the-vault";
const PLAIN: &str = "a-postcard-to-everybody";

fn content(line: &str, lines: usize) -> String {
    format!("{line}\n").repeat(lines)
}

/// Records a command next to `secret.key` and `plain.txt`, with `secret.key` as its standard input.
/// Returns the bytes of the trace.
fn record(directory: &Path, options: &[&str], command: &[&str], lines: usize) -> Vec<u8> {
    fs::write(directory.join("secret.key"), content(SECRET, lines)).unwrap();
    fs::write(directory.join("plain.txt"), content(PLAIN, lines)).unwrap();
    let trace = directory.join("it.rnt");
    let status = Command::new(env!("CARGO_BIN_EXE_reenact"))
        .args(["record", "--quiet", "--force", "--compress", "none", "-o"])
        .arg(&trace)
        .args(options)
        .arg("--")
        .args(command)
        .current_dir(directory)
        .stdin(File::open(directory.join("secret.key")).unwrap())
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "{command:?}");
    fs::read(&trace).unwrap()
}

fn occurs(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// Returns the buffers of reads and writes on a path.
fn buffers(directory: &Path, path: &str) -> Vec<Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_reenact"))
        .args(["show", "--json", "--call", "read,write,pread64", "--path", path])
        .arg(directory.join("it.rnt"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    let calls = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    calls
        .filter(|call| call["ret"].as_i64().is_some_and(|ret| ret > 0))
        .map(|mut call| call["data"]["buf"].take())
        .collect()
}

const SCRIPT: &str = "\
read first; echo \"$first\" > first.key
tail -c +1 secret.key > copied.key
exec 5<secret.key; head -c 5 <&5 > head.key
exec 6<&5 5<&-; (head -c 7 <&6 > sub.key) & wait
dd if=secret.key of=dd.key bs=1000 2>dd.log
cd /; tail -c 100 \"$OLDPWD/secret.key\" >> \"$OLDPWD/./copied.key\"; cd \"$OLDPWD\"
tail -c +1 plain.txt > copied.txt
exec 7<plain.txt 8<&7; head -c 1000 <&8 > head.txt";

#[test]
fn a_shell_and_its_children() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let command = ["bash", "-c", SCRIPT];
    for lines in [1, 3, 5000] {
        let whole = record(directory, &[], &command, lines);
        assert!(occurs(&whole, SECRET) && occurs(&whole, PLAIN), "without rules all is kept");
        for mode in ["hash", "none"] {
            let rule = format!("*.key={mode}");
            let trace = record(directory, &["--data-for", &rule], &command, lines);
            assert!(!occurs(&trace, SECRET), "{mode}, {lines} lines");
            assert!(occurs(&trace, PLAIN), "{mode}, {lines} lines");
            let secret = buffers(directory, "*.key");
            assert!(secret.len() >= 12, "only {} buffers", secret.len());
            for buffer in &secret {
                assert_eq!(buffer["cut"], true, "{buffer}");
                assert_eq!(buffer["hash"].is_string(), mode == "hash", "{buffer}");
                assert_eq!(buffer["base64"].as_str().unwrap_or_default(), "", "{buffer}");
            }
            let plain = buffers(directory, "*.txt");
            assert!(plain.len() >= 4, "only {} buffers", plain.len());
            assert!(plain.iter().all(|buffer| buffer["cut"] == false), "{plain:?}");
        }
    }
}

#[test]
fn hashes_are_those_of_the_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let command = ["dd", "if=secret.key", "of=copied.key", "bs=1M", "status=none"];
    record(directory, &["--data-for", "*=none", "--data-for", "*.key=hash"], &command, 5000);
    let hash = format!("{:032x}", xxh3_128(content(SECRET, 5000).as_bytes()));
    let found = buffers(directory, "*.key");
    assert!(found.len() == 2 && found.iter().all(|buffer| buffer["hash"] == hash.as_str()));
}

#[test]
fn a_rule_can_ask_for_more_than_the_rest() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let options = ["--data", "none", "--data-for", "*.txt=full"];
    let trace = record(directory, &options, &["bash", "-c", SCRIPT], 100);
    assert!(!occurs(&trace, SECRET) && occurs(&trace, PLAIN));
    assert!(buffers(directory, "*.key").iter().all(|buffer| buffer["hash"].is_null()));
}

/// Threads pass descriptors on to each other; numbers are reused at once.
const THREADS: &str = "\
import os, queue, random, threading
tasks = queue.Queue(3)
def consume():
    while (fd := tasks.get()) is not None:
        os.read(fd, 100000)
        os.close(fd)
def produce(seed):
    choice = random.Random(seed).choice
    for _ in range(200):
        tasks.put(os.open(choice(['secret.key', 'plain.txt']), os.O_RDONLY))
consumers = [threading.Thread(target=consume) for _ in range(3)]
producers = [threading.Thread(target=produce, args=[seed]) for seed in range(3)]
for thread in consumers + producers: thread.start()
for thread in producers: thread.join()
for _ in consumers: tasks.put(None)
for thread in consumers: thread.join()";

#[test]
fn threads_that_hand_descriptors_on() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let command = ["python3", "-c", THREADS];
    let trace = record(directory, &["--data-for", "*.key=none"], &command, 200);
    assert!(!occurs(&trace, SECRET), "what was not to be kept was kept");
    assert!(occurs(&trace, PLAIN), "the rest was to be kept: {} bytes", trace.len());
    let (secret, plain) = (buffers(directory, "*/secret.key"), buffers(directory, "*/plain.txt"));
    assert_eq!(secret.len() + plain.len(), 600);
    assert!(plain.iter().all(|buffer| buffer["cut"] == false), "nothing was in doubt");
}
