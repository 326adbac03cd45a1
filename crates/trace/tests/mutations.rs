//! Ten thousand damaged traces: every reading function ends, in bounded time and memory.

mod sample;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use sample::{Random, everything, options, write};
use trace::event::{Content, Data, EventKind};
use trace::format::{HEAD_BYTES, Head, TRAILER_BYTES, kind};
use trace::{Compress, Trace};

const MUTATIONS: usize = 10_000;
/// Reading an intact trace of this size takes milliseconds, even with a debug build.
const ONE_MAX: Duration = Duration::from_secs(10);
const HELD_BYTES_MAX: usize = 512 << 20;

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

/// Reads everything readable. Only that it ends matters, not the results.
fn read_all(bytes: Vec<u8>) -> (usize, usize) {
    let (mut good, mut bad) = (0, 0);
    let Ok(mut trace) = Trace::from_stream(std::io::Cursor::new(bytes)) else { return (0, 1) };
    let mut items: Vec<Data> = Vec::new();
    for event in trace.events() {
        match event {
            Ok(event) => {
                good += 1;
                match event.event.kind {
                    EventKind::Call(call) => items.extend(call.data),
                    EventKind::Image { data, .. } => items.extend(data),
                    _ => {}
                }
            }
            Err(_) => bad += 1,
        }
    }
    for item in &items {
        let whole = match &item.content {
            Content::Inline(_) => true,
            content => trace.write_content(content, &mut std::io::sink()).is_ok(),
        };
        bad += usize::from(!whole);
    }
    let report = trace.verify();
    assert!(
        bad == 0 || !report.complete,
        "what cannot be read is not complete: {report:?}, {:?}",
        trace.damage()
    );
    assert!(trace.refresh().is_ok());
    (good, bad)
}

/// Corrects the checksums and the index, as a malicious file would: otherwise the checks would stop
/// most damage early.
fn mend(bytes: &mut [u8]) {
    let mut at = trace::format::FILE_HEADER_BYTES;
    let mut indexed = Vec::new();
    while let Some(head) = bytes.get(at..at + HEAD_BYTES) {
        let is_index = head[4] == kind::INDEX;
        let stored = u32::from_le_bytes(head[12..16].try_into().unwrap()) as usize;
        let payload = at + HEAD_BYTES..(at + HEAD_BYTES).saturating_add(stored);
        if let Some(payload) = bytes.get_mut(payload) {
            if is_index && payload.len() == indexed.len() {
                payload.copy_from_slice(&indexed);
                indexed.clear();
            }
            let crc = crc32fast::hash(payload).to_le_bytes();
            bytes[at + 24..at + 28].copy_from_slice(&crc);
        }
        let crc = crc32fast::hash(&bytes[at..at + 76]).to_le_bytes();
        bytes[at + 76..at + 80].copy_from_slice(&crc);
        let head_bytes: [u8; HEAD_BYTES] = bytes[at..at + HEAD_BYTES].try_into().unwrap();
        match Head::from_bytes(&head_bytes, at as u64) {
            Ok(head) if head.kind != kind::END => at = head.end() as usize,
            _ => return,
        }
        if !is_index {
            indexed.extend_from_slice(&head_bytes);
        }
    }
}

fn mutate(random: &mut Random, sound: &[Vec<u8>], heads: &[Vec<Head>]) -> Vec<u8> {
    let which = random.below(sound.len());
    let mut bytes = sound[which].clone();
    let len = bytes.len();
    for _ in 0..1 + random.below(4) {
        let head = &heads[which][random.below(heads[which].len())];
        let in_head = head.offset as usize + random.below(HEAD_BYTES);
        let in_payload = head.offset as usize + HEAD_BYTES + random.below(head.stored_len as usize);
        let anywhere = random.below(len);
        let at = [in_head, in_payload, anywhere, len - 1 - random.below(3 * TRAILER_BYTES)]
            [random.below(4)];
        let Some(byte) = bytes.get_mut(at) else { continue };
        match random.below(6) {
            0 | 1 => *byte ^= 1 << random.below(8),
            2 => *byte = [0, 0xff, 0x7f, 0x80][random.below(4)],
            3 => {
                let value = [0, u64::MAX, 1 << 31, 1 << 22, random.next()][random.below(5)];
                let width = [4, 8][random.below(2)].min(bytes.len() - at);
                bytes[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
            }
            4 => bytes.truncate(at),
            _ => {
                let other = &sound[random.below(sound.len())];
                let from = random.below(other.len());
                let piece = &other[from..(from + random.below(3000)).min(other.len())];
                let end = (at + piece.len()).min(bytes.len());
                bytes.splice(at..end, piece.iter().copied());
            }
        }
    }
    if random.below(2) == 0 {
        mend(&mut bytes);
    }
    bytes
}

#[test]
fn ten_thousand_damaged_traces_are_answered() {
    let sound: Vec<Vec<u8>> = [Compress::Zstd(1), Compress::Lz4, Compress::None]
        .into_iter()
        .map(|compress| {
            write(options(compress, 0), |writer| {
                let mut few = trace_of_few_events(writer);
                few.push(writer.blob(&sample::noise(1, 3000)).unwrap());
                writer.flush().unwrap();
            })
        })
        .chain([write(options(Compress::Zstd(1), 0), everything)])
        .collect();
    let heads: Vec<Vec<Head>> =
        sound.iter().map(|bytes| sample::open(bytes).blocks().to_vec()).collect();
    assert!(sound.iter().all(|bytes| sample::open(bytes).verify().complete));
    let (mut good, mut bad) = (0, 0);
    for seed in 0..MUTATIONS {
        let mut random = Random(seed as u64);
        // The large trace is slow without optimization, so it is used less often.
        let choice = if seed % 50 == 0 { 0..4 } else { 0..3 };
        let bytes = mutate(&mut random, &sound[choice.clone()], &heads[choice]);
        let begin = Instant::now();
        let before = HELD_BYTES.load(Ordering::Relaxed);
        HELD_BYTES_MOST.store(before, Ordering::Relaxed);
        let read = read_all(bytes);
        good += read.0;
        bad += read.1;
        let most = HELD_BYTES_MOST.load(Ordering::Relaxed) - before;
        assert!(most < HELD_BYTES_MAX, "seed {seed} took {most} bytes");
        assert!(begin.elapsed() < ONE_MAX, "seed {seed} took {:?}", begin.elapsed());
    }
    assert!(good > MUTATIONS * 10, "most of what is sound is still read: {good} events");
    assert!(bad > MUTATIONS / 4, "the damage was there: {bad} errors");
}

/// Writes a small trace, so that ten thousand are quick: some calls, and events of later versions.
fn trace_of_few_events(writer: &mut trace::Writer) -> Vec<trace::event::BlobId> {
    let ids: Vec<_> = (0..5)
        .map(|i| writer.blob(&sample::noise(i % 4, 100 + 900 * i as usize)).unwrap())
        .collect();
    for i in 0..60_u64 {
        let mut call =
            sample::call(i as u16 % 5, [3, i, 0, i * 512, 0, 0], 1000 + i * 100, i as i64);
        if i % 7 == 0 {
            let at = i as usize % 5;
            let len = 100 + 900 * at as u64;
            let content = Content::Blobs { len, ids: vec![ids[at]] };
            call.data.push(sample::data(1, 1, content));
        }
        if i % 11 == 0 {
            let content = Content::Blobs { len: 1100, ids: vec![ids[0], ids[1]] };
            call.data.push(sample::data(2, 0, content));
            call.data.push(sample::data(3, 0, Content::Inline(b"/etc/passwd".to_vec())));
        }
        let thread = 1 + i as u32 % 2;
        writer.event(&sample::event(thread, 1000 + i * 100, EventKind::Call(call))).unwrap();
        if i % 20 == 0 {
            writer.flush().unwrap();
            writer.event(&sample::unknown(thread, 1000 + i * 100)).unwrap();
            let signal = EventKind::Signal { signal: 10, handler: i, info: [3; 48] };
            let signal = sample::event(thread, 1000 + i * 100, signal);
            writer.event(&sample::with_later_fields(signal)).unwrap();
        }
    }
    ids
}
