//! A small trace for tests, with events of all kinds.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use syscalls::record::{IMAGE_ARG, RESULT, data_flag, enter_flag, part};
use trace::event::{
    BLOB_BYTES_MAX, CPU_STREAM, Call, Content, Data, Event, EventKind, GapWhy, Identity, OpenFd,
    Outcome, Preamble, ProcessState, StartHow, Totals,
};
use trace::kernel::{KernelEvent, KernelField, KernelKind, KernelLayout, KernelValue, put_value};
use trace::{Writer, WriterOptions};

/// Ticks at the start; one tick is one nanosecond.
const EPOCH_TSC: u64 = 1_000_000;
/// Size of the file that the program copies.
pub const PAGE_BYTES: usize = 70_000;

/// Returns the content of the file that the program copies.
pub fn page() -> Vec<u8> {
    (0..PAGE_BYTES as u32).map(|n| (n.wrapping_mul(0x9e37_79b9) >> 24) as u8).collect()
}

/// A sink that keeps its data in memory.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no test panics here").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Ways in which a sample ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Complete.
    Whole,
    /// Without an end, as after a killed recorder.
    Lost,
    /// Complete, with a gap.
    Gap,
}

/// Returns the bytes of a trace.
pub fn trace(end: End) -> Vec<u8> {
    let kept = Kept::default();
    let options = WriterOptions { workers: 0, ..WriterOptions::default() };
    let mut sample = Sample {
        writer: Writer::new(Box::new(kept.clone()), &preamble(), options).unwrap(),
        tsc: EPOCH_TSC,
        calls: 0,
        slow: 0,
        data_bytes: 0,
    };
    sample.program();
    if end == End::Gap {
        let text = "64 MiB".to_string();
        sample.event(0, EventKind::Gap { why: GapWhy::SizeLimit, detail: 0, text });
    }
    let mut writer = sample.writer;
    if end == End::Lost {
        writer.flush().unwrap();
        drop(writer);
    } else {
        let totals = Totals {
            calls_made: sample.calls,
            calls_read: sample.calls,
            calls_written: sample.calls,
            slow_path_calls: sample.slow,
            ring_bytes_published: 4096,
            ring_bytes_read: 4096,
            data_bytes: sample.data_bytes,
            stored_bytes: writer.stored_bytes(),
            threads: 3,
            processes: 2,
            gaps: u64::from(end == End::Gap),
            stall_ns: 1500,
            tsc_hz: 1_000_000_000,
            end_tsc: sample.tsc + 1000,
        };
        writer.finish(&totals).unwrap();
    }
    let bytes = kept.0.lock().unwrap();
    bytes.clone()
}

fn preamble() -> Preamble {
    let mounts = [
        "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw",
        "30 22 0:25 / /tmp rw,nosuid - tmpfs tmpfs rw",
        "31 22 8:2 / /unused rw - xfs /dev/sdb1 rw",
    ];
    Preamble {
        command: ["cp", "/in", "a b"].map(|word| word.as_bytes().to_vec()).to_vec(),
        recorder_version: "0.1.0".into(),
        host: "box".into(),
        kernel: "6.18.0".into(),
        cpu: "A CPU".into(),
        cpus: 2,
        memory_bytes: 8 << 30,
        page_bytes: 4096,
        mounts: mounts.map(|line| line.as_bytes().to_vec()).to_vec(),
        trace_dev: 0x801,
        epoch_ns: 1_700_000_000_123_456_789,
        epoch_tsc: EPOCH_TSC,
        tsc_hz: 1_000_000_000,
        options: "--data full".into(),
    }
}

struct Sample {
    writer: Writer,
    tsc: u64,
    calls: u64,
    slow: u64,
    data_bytes: u64,
}

impl Sample {
    fn event(&mut self, thread: u32, kind: EventKind) {
        self.tsc += 1000;
        self.writer.event(&Event::new(thread, self.tsc, kind)).unwrap();
    }

    fn data(&mut self, arg: u8, part: u8, index: u16, flags: u8, bytes: &[u8]) -> Data {
        let content = if bytes.len() <= 64 {
            Content::Inline(bytes.to_vec())
        } else {
            let ids = bytes.chunks(BLOB_BYTES_MAX).map(|blob| self.writer.blob(blob).unwrap());
            Content::Blobs { len: bytes.len() as u64, ids: ids.collect() }
        };
        let true_len = bytes.len() as u64;
        self.data_bytes += if arg == IMAGE_ARG { 0 } else { true_len };
        Data { arg, part, index, flags, true_len, hash: None, content }
    }

    /// Writes a call with memory `(argument, read after the call, bytes)`.
    fn call(
        &mut self,
        thread: u32,
        name: &str,
        args: &[u64],
        ret: i64,
        data: &[(u8, bool, &[u8])],
    ) {
        let mut all = [0; 6];
        all[..args.len()].copy_from_slice(args);
        let nr = syscalls::by_name(name).expect("a row").nr;
        let data = data.iter().map(|(arg, out, bytes)| {
            let flags = if *out { data_flag::OUT } else { 0 };
            self.data(*arg, part::WHOLE, 0, flags, bytes)
        });
        let data = data.collect();
        let slow = self.calls == 0;
        self.calls += 1;
        self.slow += u64::from(slow);
        let identity =
            Identity { dev: 0x801, ino: 7, mode: 0o100_644, size: 9, ..Default::default() };
        let call = Call {
            nr,
            flags: if slow { enter_flag::SLOW } else { 0 },
            site: 0x7f00_0000_1234,
            nargs: args.len() as u8,
            args: all,
            outcome: Outcome::Returned { exit_tsc: self.tsc + 1700, ret },
            data,
            identities: if ret == 3 { vec![(RESULT, identity)] } else { vec![] },
        };
        self.event(thread, EventKind::Call(call));
    }

    fn open(&mut self, thread: u32, path: &[u8], ret: i64) {
        let args = [-100i64 as u64, 0x5000, 0, 0];
        self.call(thread, "openat", &args, ret, &[(1, false, path)]);
    }

    fn start(&mut self, thread: u32, how: StartHow, process: u32, pid: u32, tid: u32) {
        let parent = u32::from(how != StartHow::Launch);
        self.event(thread, EventKind::Start { how, process, parent, pid, tid });
    }

    fn program(&mut self) {
        let page = page();
        self.start(1, StartHow::Launch, 1, 100, 100);
        let strings: [(u8, &[u8]); 2] = [(part::ARGV, b"cp\0/in\0a b\0"), (part::ENVP, b"A=1\0")];
        let data = strings.map(|(part, bytes)| self.data(IMAGE_ARG, part, 0, 0, bytes)).to_vec();
        self.event(1, EventKind::Image { tid: 100, data });
        let state = ProcessState {
            process: 1,
            pid: 100,
            ppid: 1,
            exe: b"/usr/bin/cp".to_vec(),
            cwd: b"/work place".to_vec(),
            root: b"/".to_vec(),
            umask: 0o22,
            fds: vec![OpenFd { fd: 1, target: b"/dev/pts/1".to_vec(), offset: 0, flags: 2 }],
            ..ProcessState::default()
        };
        self.event(0, EventKind::State(Box::new(state)));
        self.open(1, b"/in", 3);
        self.open(1, b"missing", -2);
        self.open(1, b"a b", 4);
        self.call(1, "read", &[3, 0x9000, 1 << 20], page.len() as i64, &[(1, true, &page)]);
        self.call(
            1,
            "write",
            &[4, 0x9000, page.len() as u64],
            page.len() as i64,
            &[(1, false, &page)],
        );
        self.start(2, StartHow::Thread, 1, 100, 101);
        self.open(2, b"/tmp/\x1b[31m\xff", 5);
        self.start(3, StartHow::Fork, 2, 102, 102);
        self.call(3, "close", &[5], 0, &[]);
        let mut info = [0; 48];
        info[..4].copy_from_slice(&14i32.to_le_bytes());
        self.event(1, EventKind::Signal { signal: 14, handler: 0x4000, info });
        self.event(1, EventKind::Stall { ns: 1500 });
        let mut layout = KernelLayout {
            number: 0,
            system: "sched".into(),
            name: "sched_waking".into(),
            fields: [("comm", KernelKind::Text), ("pid", KernelKind::Signed)]
                .map(|(name, kind)| KernelField {
                    name: name.into(),
                    c_type: "int".into(),
                    kind,
                    size: 4,
                })
                .to_vec(),
            words: Vec::new(),
        };
        layout.number_by_content(&[]);
        let mut values = Vec::new();
        put_value(&mut values, KernelValue::Text(b"\x1b[31mcp"));
        put_value(&mut values, KernelValue::Signed(100));
        let kernel = KernelEvent { layout: layout.number, task: 102, flags: 1, values };
        self.event(0, EventKind::KernelLayout(Box::new(layout)));
        self.event(CPU_STREAM | 1, EventKind::Kernel(kernel));
        self.event(3, EventKind::End { calls: 1 });
        self.event(0, EventKind::Exit { process: 2, status: Some(0x100) });
        self.event(2, EventKind::End { calls: 1 });
        self.event(1, EventKind::End { calls: 5 });
        self.event(0, EventKind::Exit { process: 1, status: Some(0) });
    }
}
