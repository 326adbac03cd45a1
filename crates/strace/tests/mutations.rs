//! Ten thousand damaged texts: each is imported, or refused with the number of the bad line; there
//! are no panics, and memory is bounded.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Cursor, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use strace::read::{self, ImportError, Imported, Settings};
use trace::event::EventKind;
use trace::{Trace, WriterOptions};

/// Parts of strace's output for a Python program, and for a shell with a pipeline.
const SAMPLE: &[u8] = include_bytes!("sample.txt");
const MUTATIONS: usize = 10_000;
const HELD_BYTES_MAX: usize = 256 << 20;

/// Counts allocated bytes.
struct Counting;

static HELD_BYTES: AtomicUsize = AtomicUsize::new(0);
static HELD_BYTES_MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: all calls are passed unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD_BYTES.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        HELD_BYTES_MOST.fetch_max(held, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract, and `layout` is unchanged.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        HELD_BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract; `at` came from the same allocator.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("no test panics here").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn import(text: &[u8]) -> Result<(Imported, Vec<u8>), ImportError> {
    let kept = Kept::default();
    let options = WriterOptions { workers: 0, remembered: 1024, ..WriterOptions::default() };
    let settings = Settings { uid: 0, gid: 0, version: "test", options };
    let sink = kept.clone();
    let imported = read::import(
        || Ok(Cursor::new(text)),
        || Ok(Box::new(sink) as Box<dyn Write + Send>),
        settings,
    )?;
    let bytes = std::mem::take(&mut *kept.0.lock().expect("no test panics here"));
    Ok((imported, bytes))
}

/// A small pseudo-random number generator (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) % limit.max(1) as u64) as usize
    }
}

/// Pieces that a text may contain, and others.
const TOKENS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    "\"",
    "\\",
    "\\x",
    "...",
    " => ",
    "=",
    "~[",
    "/*",
    "*/",
    "<",
    ">",
    " <unfinished ...>\n",
    "<... read resumed>",
    "+++ exited with 0 +++\n",
    "--- SIGCHLD {",
    "\n",
    "18446744073709551615",
    "-9223372036854775809",
    "0xffffffffffffffff",
    "1 ",
    "99999 ",
    "AT_FDCWD<",
    "clone(child_stack=NULL, flags=CLONE_THREAD) = 7\n",
    "\0",
    "\u{ff}",
    "iov_len=99999999999999",
    "[99999999999]",
    "makedev(",
    "@\"",
    "1795272681.999999 ",
    "23:59:59 ",
    "[pid ",
    "exit_group(0) = ?\n",
    "execve(\"/a\", [\"b\"], [\"c\"]) = 0\n",
    "superseded by execve in pid 7 +++",
];

fn mutate(random: &mut Random) -> Vec<u8> {
    // Most errors do not need the whole text.
    let lines = 1 + random.below(SAMPLE.split(|&c| c == b'\n').count());
    let mut text = SAMPLE.split_inclusive(|&c| c == b'\n').take(lines).collect::<Vec<_>>().concat();
    for _ in 0..1 + random.below(4) {
        let at = random.below(text.len());
        let length = random.below(60).min(text.len() - at);
        match random.below(6) {
            0 => text[at] = random.below(256) as u8,
            1 => drop(text.drain(at..at + length)),
            2 => {
                let copy = text[at..at + length].to_vec();
                let to = random.below(text.len());
                text.splice(to..to, copy);
            }
            3 | 4 => {
                let token = TOKENS[random.below(TOKENS.len())];
                text.splice(at..at, token.bytes());
            }
            _ => text.truncate(at.max(1)),
        }
        if text.is_empty() {
            text.push(b'x');
        }
    }
    text
}

#[test]
fn the_sample_itself_is_sound() {
    let (imported, trace) = import(SAMPLE).expect("a text of strace");
    assert!(imported.calls > 50 && imported.processes >= 5, "{imported:?}");
    assert_eq!(imported.unknown_calls, 0, "{imported:?}");
    let trace = Trace::from_stream(Cursor::new(trace)).expect("a trace");
    let calls = trace
        .events()
        .filter(|event| matches!(event.as_ref().expect("sound").event.kind, EventKind::Call(_)));
    assert_eq!(calls.count() as u64, imported.calls);
}

#[test]
fn every_damaged_text_has_an_answer() {
    let mut random = Random(20_261_121);
    let (mut good, mut bad) = (0, 0);
    for number in 0..MUTATIONS {
        let text = mutate(&mut random);
        match import(&text) {
            Ok((imported, trace)) => {
                good += 1;
                let trace = Trace::from_stream(Cursor::new(trace)).expect("a trace");
                let calls = trace.events().filter(|event| {
                    let event = event.as_ref().expect("what was written can be read");
                    matches!(event.event.kind, EventKind::Call(_))
                });
                assert_eq!(calls.count() as u64, imported.calls, "mutation {number}");
            }
            Err(ImportError::Line { line, what }) => {
                bad += 1;
                assert!(line > 0 && !what.is_empty(), "mutation {number}: line {line}: {what}");
            }
            Err(ImportError::Nothing) => bad += 1,
            Err(error) => panic!("mutation {number}: {error}"),
        }
    }
    assert!(good > 100 && bad > 1000, "{good} were imported, {bad} refused: too much of one kind");
    let held = HELD_BYTES_MOST.load(Ordering::Relaxed);
    assert!(held < HELD_BYTES_MAX, "{held} bytes were held");
}
