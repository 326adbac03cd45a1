//! Traces with bytes changed, cut off or repeated: an import ends with an error or with what is left,
//! soon, and whatever was changed.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use trace::{Trace, WriterOptions};

const METADATA: &str = r#"/* CTF 1.8 */
typealias integer { size = 8; align = 8; } := uint8_t;
typealias integer { size = 32; align = 8; } := uint32_t;
typealias integer { size = 64; align = 8; } := uint64_t;
trace { major = 1; minor = 8; byte_order = le;
 packet.header := struct { uint32_t magic; uint32_t stream_id; }; };
env { domain = "kernel"; };
clock { name = "c"; freq = 1000000000; offset = 5; };
typealias integer { size = 64; align = 8; map = clock.c.value; } := time_t;
stream { id = 0;
 packet.context := struct { uint64_t content_size; uint64_t packet_size; uint64_t events_discarded; uint32_t cpu_id; };
 event.header := struct { enum : uint8_t { small = 0 ... 200, large = 201 ... 255 } id;
  variant <id> { struct { time_t timestamp; } small; struct { uint32_t id; time_t timestamp; } large; } v; };
 event.context := struct { uint32_t _tid; uint32_t _pid; }; };
event { name = "syscall_entry_openat"; id = 1; stream_id = 0; fields := struct {
 uint64_t _dfd; string _filename; uint64_t _flags; uint64_t _mode; }; };
event { name = "syscall_exit_openat"; id = 2; stream_id = 0; fields := struct { integer { size = 64; align = 8; signed = true; } _ret; }; };
event { name = "app:all"; id = 3; stream_id = 0; fields := struct {
 uint8_t _n_length; uint32_t _n[_n_length]; floating_point { exp_dig = 11; mant_dig = 53; align = 8; } _f;
 struct { uint8_t _deep[3]; } _inner; }; };
"#;

fn head(events: &mut Vec<u8>, id: u8, time: u64) {
    events.push(id);
    events.extend_from_slice(&time.to_le_bytes());
    events.extend_from_slice(&[7, 0, 0, 0, 7, 0, 0, 0]);
}

fn stream() -> Vec<u8> {
    let mut events = Vec::new();
    for at in 0..40u64 {
        head(&mut events, 1, 1000 * at);
        events.extend_from_slice(&3u64.to_le_bytes());
        events.extend_from_slice(b"/etc/passwd\0");
        events.extend_from_slice(&[0; 16]);
        head(&mut events, 2, 1000 * at + 500);
        events.extend_from_slice(&(at as i64).to_le_bytes());
        head(&mut events, 3, 1000 * at + 600);
        events.extend_from_slice(&[2, 1, 0, 0, 0, 2, 0, 0, 0]);
        events.extend_from_slice(&1.5f64.to_le_bytes());
        events.extend_from_slice(&[1, 2, 3]);
    }
    let bits = 8 * (8 + 28 + events.len()) as u64;
    let mut packet = Vec::new();
    packet.extend_from_slice(&0xC1FC_1FC1u32.to_le_bytes());
    packet.extend_from_slice(&0u32.to_le_bytes());
    for number in [bits, bits, 0] {
        packet.extend_from_slice(&number.to_le_bytes());
    }
    packet.extend_from_slice(&1u32.to_le_bytes());
    packet.extend_from_slice(&events);
    packet
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("reenact-ctf-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn with(&self, metadata: &[u8], stream: &[u8]) -> &Path {
        fs::write(self.0.join("metadata"), metadata).unwrap();
        fs::write(self.0.join("channel0_0"), stream).unwrap();
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Where a test writes.
#[derive(Clone, Default)]
struct Kept(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn import(folder: &Path) -> (Result<ctf_import::Imported, ctf_import::Wrong>, Vec<u8>) {
    let kept = Kept::default();
    let sink = Box::new(kept.clone());
    let imported = ctf_import::import(folder, || Ok(sink), WriterOptions::default(), "0");
    let bytes = kept.0.lock().unwrap().clone();
    (imported, bytes)
}

#[test]
fn a_sound_trace_is_read() {
    let folder = Folder::new("sound");
    let (imported, bytes) = import(folder.with(METADATA.as_bytes(), &stream()));
    let imported = imported.unwrap();
    assert_eq!((imported.calls, imported.events, imported.threads), (40, 40, 1));
    assert!(imported.damage.is_empty(), "{:?}", imported.damage);
    assert!(Trace::from_stream(io::Cursor::new(bytes)).unwrap().totals().is_some());
}

#[test]
fn what_is_cut_off_is_said() {
    let folder = Folder::new("cut");
    let whole = stream();
    let (imported, _) = import(folder.with(METADATA.as_bytes(), &whole[..whole.len() - 5]));
    let damage = imported.unwrap().damage;
    assert!(damage[0].contains("in the middle of a packet"), "{damage:?}");
    let (imported, _) = import(folder.with(b"trace {", &whole));
    assert!(imported.unwrap_err().to_string().contains("line 1"));
}

#[test]
fn changed_bytes_do_no_harm() {
    let folder = Folder::new("changed");
    let mut seed = 0x9E37_79B9_7F4A_7C15u64;
    let mut chance = move |below: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % below.max(1) as u64) as usize
    };
    for round in 0..4000 {
        let (mut metadata, mut stream) = (METADATA.as_bytes().to_vec(), stream());
        let target = if round % 2 == 0 { &mut metadata } else { &mut stream };
        for _ in 0..=chance(4) {
            let at = chance(target.len());
            match chance(6) {
                0 => target[at] = chance(256) as u8,
                1 => target[at] ^= 1 << chance(8),
                2 => target.truncate(at.max(1)),
                3 => target[at] = b"0123456789{}[];<>="[chance(18)],
                4 => {
                    let end = (at + chance(64)).min(target.len());
                    let piece = target[at..end].to_vec();
                    target.splice(at..at, piece);
                }
                _ => target[at] = 0xff,
            }
        }
        let (imported, bytes) = import(folder.with(&metadata, &stream));
        // What was written is a trace, whatever was read.
        if imported.is_ok() {
            let trace = Trace::from_stream(io::Cursor::new(bytes)).unwrap();
            assert!(trace.events().all(|event| event.is_ok()), "round {round}");
        }
    }
}
