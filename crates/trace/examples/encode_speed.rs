//! What it costs to write a trace (to nowhere: the disk is not what is measured) and to read it.
//! Every figure is a mean over one run; CPU time is that of the whole process, workers included.
//!
//! `cargo run --release -p trace --example encode_speed [zstd|lz4|none] [WORKERS]`

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use trace::event::{BlobId, Content, EventKind, Outcome, Preamble, Totals};
use trace::{CallRef, Compress, ContentRef, DataRef, Finished, Trace, Writer, WriterOptions};

const CALLS: u64 = 5_000_000;
const BLOBS: u64 = 100_000;
const BLOB_BYTES: usize = 4096;
const SHORT_BYTES: usize = 64;
/// Short buffers of how many contents.
const SHORT: [(&str, usize); 3] = [
    ("64-byte pwrite, distinct noise", CALLS as usize / 5),
    ("64-byte pwrite, 16,256 contents", 16_256),
    ("64-byte pwrite, 16 contents", 16),
];

fn main() {
    let mut arguments = std::env::args().skip(1);
    let compress = match arguments.next().as_deref() {
        Some("lz4") => Compress::Lz4,
        Some("none") => Compress::None,
        _ => Compress::default(),
    };
    let workers = arguments.next().and_then(|count| count.parse().ok()).unwrap_or(0);
    println!("{compress:?}, {workers} workers");

    run("getppid", compress, workers, CALLS, |writer, noise, tsc, _| {
        let exit_tsc = tsc + 180 + noise % 64;
        let outcome = Outcome::Returned { exit_tsc, ret: 4242 };
        writer.call(1, tsc, &call(110, 0, outcome, &[])).unwrap();
        exit_tsc + 60 + (noise >> 8) % 64
    });

    for (name, contents) in SHORT {
        let all = noise_bytes(contents * SHORT_BYTES);
        run(name, compress, workers, CALLS / 5, |writer, noise, tsc, i| {
            let at = i as usize % contents * SHORT_BYTES;
            let content = ContentRef::Bytes(&all[at..at + SHORT_BYTES]);
            pwrite_of(writer, noise, tsc, i, content, SHORT_BYTES)
        });
    }

    let page = vec![7; BLOB_BYTES];
    run("4-KiB pwrite, one page", compress, workers, CALLS / 10, |writer, noise, tsc, i| {
        let id = writer.blob(&page).unwrap();
        pwrite(writer, noise, tsc, i, id)
    });

    let pages = noise_bytes(64 << 20);
    run("4-KiB pwrite, 64 MiB repeating", compress, workers, BLOBS, |writer, noise, tsc, i| {
        let at = (i as usize * BLOB_BYTES) % pages.len();
        let id = writer.blob(&pages[at..at + BLOB_BYTES]).unwrap();
        pwrite(writer, noise, tsc, i, id)
    });

    let mut fresh = noise_bytes(BLOB_BYTES);
    run("4-KiB pwrite, distinct noise", compress, workers, BLOBS, |writer, noise, tsc, i| {
        let mut state = i;
        for word in fresh.chunks_exact_mut(8) {
            state = step(state);
            word.copy_from_slice(&state.to_le_bytes());
        }
        let id = writer.blob(&fresh).unwrap();
        pwrite(writer, noise, tsc, i, id)
    });

    let text = mixed_bytes(128 << 20);
    let mixed = (text.len() / BLOB_BYTES) as u64;
    run("4-KiB pwrite, distinct mixed", compress, workers, mixed, |writer, noise, tsc, i| {
        let at = i as usize * BLOB_BYTES;
        let id = writer.blob(&text[at..at + BLOB_BYTES]).unwrap();
        pwrite(writer, noise, tsc, i, id)
    });
}

/// Writes a trace with `one` for every step, twice: to nowhere and timed, then to be read.
fn run(
    name: &str,
    compress: Compress,
    workers: usize,
    count: u64,
    mut one: impl FnMut(&mut Writer, u64, u64, u64) -> u64,
) {
    let options = WriterOptions { compress, workers, ..WriterOptions::default() };
    let (begin, cpu) = (Instant::now(), cpu_time());
    let (finished, data_bytes) = write(Box::new(std::io::sink()), options, count, &mut one);
    let (wall, cpu) = (begin.elapsed(), cpu_time().saturating_sub(cpu));
    println!(
        "{name:31} {:8.1} ns/call wall {:8.1} ns/call CPU {:8.2} bytes/call {:6.0} MB/s of data",
        wall.as_nanos() as f64 / count as f64,
        cpu.as_nanos() as f64 / count as f64,
        finished.trace_bytes as f64 / count as f64,
        data_bytes as f64 / 1e6 / wall.as_secs_f64(),
    );
    let memory = Memory::default();
    write(Box::new(memory.clone()), options, count, &mut one);
    let bytes = std::mem::take(&mut *memory.0.lock().unwrap());
    read(bytes);
}

fn write(
    sink: Box<dyn Write + Send>,
    options: WriterOptions,
    count: u64,
    one: &mut impl FnMut(&mut Writer, u64, u64, u64) -> u64,
) -> (Finished, u64) {
    let preamble = Preamble { tsc_hz: 2_000_000_000, ..Preamble::default() };
    let mut writer = Writer::new(sink, &preamble, options).unwrap();
    let (mut noise, mut tsc) = (1, 1_000_000);
    for i in 0..count {
        noise = step(noise);
        tsc = one(&mut writer, noise >> 16, tsc, i);
    }
    let calls = writer.calls_written();
    let totals = Totals { calls_made: calls, calls_read: calls, ..Totals::default() };
    let has_data = writer.stored_bytes() > 0;
    let finished = writer.finish(&totals).unwrap();
    (finished, if has_data { count * BLOB_BYTES as u64 } else { 0 })
}

/// A file in memory.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>);

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Reads a trace as `show` would: all events in order, and every buffer.
fn read(bytes: Vec<u8>) {
    let trace = Trace::from_stream(std::io::Cursor::new(bytes)).unwrap();
    let (mut events, mut data_bytes) = (0_u64, 0);
    let begin = Instant::now();
    for event in trace.events() {
        events += 1;
        let EventKind::Call(call) = event.unwrap().event.kind else { continue };
        for item in call.data {
            let Content::Blobs { ids, .. } = item.content else { continue };
            for id in ids {
                data_bytes += trace.blob(id).unwrap().len();
            }
        }
    }
    let wall = begin.elapsed();
    println!(
        "{:32} {:8.1} ns/call to read, {:6.0} MB/s of data",
        "",
        wall.as_nanos() as f64 / events as f64,
        data_bytes as f64 / 1e6 / wall.as_secs_f64(),
    );
}

fn call<'a>(nr: u16, offset: u64, outcome: Outcome, data: &'a [DataRef<'a>]) -> CallRef<'a> {
    CallRef {
        nr,
        flags: 0,
        site: 0x7f12_3456_789a,
        nargs: 4,
        args: [3, 0x7ffc_0000_1000, BLOB_BYTES as u64, offset, 0, 0],
        outcome,
        data,
        identities: &[],
        parts: &[],
    }
}

fn pwrite(writer: &mut Writer, noise: u64, tsc: u64, i: u64, id: BlobId) -> u64 {
    let content = ContentRef::Blobs { len: BLOB_BYTES as u64, ids: &[id] };
    pwrite_of(writer, noise, tsc, i, content, BLOB_BYTES)
}

fn pwrite_of(
    writer: &mut Writer,
    noise: u64,
    tsc: u64,
    i: u64,
    content: ContentRef<'_>,
    len: usize,
) -> u64 {
    let exit_tsc = tsc + 900 + noise % 256;
    let outcome = Outcome::Returned { exit_tsc, ret: len as i64 };
    let true_len = len as u64;
    let data = [DataRef { arg: 1, part: 0, index: 0, flags: 0, true_len, hash: None, content }];
    writer.call(1, tsc, &call(18, i * true_len, outcome, &data)).unwrap();
    exit_tsc + 100 + (noise >> 8) % 64
}

fn step(state: u64) -> u64 {
    let mixed = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb) ^ state << 1
}

fn noise_bytes(len: usize) -> Vec<u8> {
    let mut state = 7;
    let words = (0..len / 8).flat_map(|_| {
        state = step(state);
        state.to_le_bytes()
    });
    words.collect()
}

/// What files hold: words, numbers, zeros and noise in turns.
fn mixed_bytes(len: usize) -> Vec<u8> {
    const WORDS: [&str; 8] = ["the ", "page ", "of ", "index ", "key=", "value: ", "\n", "user"];
    let mut out = Vec::with_capacity(len + 64);
    let mut state = 3;
    while out.len() < len {
        state = step(state);
        match out.len() / 1024 % 4 {
            0 | 1 => out.extend_from_slice(WORDS[(state >> 20) as usize % 8].as_bytes()),
            2 => out.extend_from_slice(&(state >> 44).to_le_bytes()),
            _ => out.extend_from_slice(&state.to_le_bytes()),
        }
    }
    out.truncate(len);
    out
}

/// CPU time of all threads of this process; those that have ended included.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let after_name = stat.rsplit(')').next().unwrap();
    let ticks: u64 =
        after_name.split(' ').skip(12).take(2).map(|field| field.parse::<u64>().unwrap()).sum();
    Duration::from_millis(ticks * 10)
}
