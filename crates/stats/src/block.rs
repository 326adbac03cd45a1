//! Requests to disks: how long devices took, how many they had at a time, and who asked.

use std::collections::HashMap;

use model::Conditions;
use model::happenings::{Happening, Happenings};
use model::kernel_devices::major_minor;
use syscalls::shape::ArgKind;
use trace::event::{Call, EventKind, KernelEvent};
use trace::kernel::KernelLayouts;

use crate::histogram::Histogram;
use crate::pass::{Visit, Watch};
use crate::sheet::{Cell, Fact, Sheet, Table};
use crate::view::ViewRow;

/// Requests that are under way.
const OPEN_MAX: usize = 1 << 16;
/// Rows of each table.
const ROWS_MAX: usize = 1 << 14;
/// Threads whose calls are known.
const THREADS_MAX: usize = 1 << 16;

/// The view.
pub static VIEW: ViewRow = ViewRow {
    name: "block",
    about: "Requests to disks: latency of devices, how many at a time, by which process and file",
    look: |look| {
        let fold = Block::new(&model::kernel_layouts(look.trace), look.conditions);
        Ok(look.of_kernel(look.watch(fold, |fold, _| fold.sheet())))
    },
};

struct Request {
    since: u64,
    bytes: u64,
    how: Vec<u8>,
    task: u32,
    file: Option<Vec<u8>>,
    call: Option<u16>,
    /// Whether it is one of those that were asked for.
    is_wanted: bool,
}

#[derive(Default)]
struct Times {
    all: Histogram,
    total_ns: u64,
    max_ns: u64,
    bytes: u64,
}

impl Times {
    fn add(&mut self, ns: u64, bytes: u64) {
        self.all.add(ns);
        self.total_ns += ns;
        self.max_ns = self.max_ns.max(ns);
        self.bytes += bytes;
    }

    fn cells(&self) -> [Cell; 7] {
        [
            Cell::Count(self.all.count),
            Cell::Bytes(self.bytes),
            Cell::Ns(self.total_ns),
            Cell::Ns(self.all.mean()),
            Cell::Ns(self.all.quantile(0.5)),
            Cell::Ns(self.all.quantile(0.99)),
            Cell::Ns(self.max_ns),
        ]
    }
}

#[derive(Default)]
struct Device {
    open: u64,
    max: u64,
    /// Requests under way times nanoseconds, and time with any.
    weighted: u128,
    busy_ns: u64,
    since: u64,
    first: Option<u64>,
}

impl Device {
    fn passes(&mut self, now: u64) {
        let passed = now.saturating_sub(self.since);
        if self.first.is_some() {
            self.weighted += u128::from(passed) * u128::from(self.open);
            self.busy_ns += if self.open > 0 { passed } else { 0 };
        }
        self.first.get_or_insert(now);
        self.since = self.since.max(now);
    }
}

/// The call that a thread is in, and the file that it names.
struct InCall {
    nr: u16,
    until: u64,
    file: Option<Vec<u8>>,
}

/// A thread, the call that it was in, and the file that this names.
type Asker = (u32, Option<u16>, Option<Vec<u8>>);

/// The fold.
struct Block<'a> {
    conditions: &'a Conditions,
    /// What devices are called.
    labels: HashMap<u64, String>,
    happenings: Happenings,
    open: HashMap<[u64; 2], Request>,
    devices: HashMap<u64, Device>,
    by_kind: HashMap<(u64, Vec<u8>), Times>,
    by_task: HashMap<Asker, Times>,
    calls: HashMap<u32, InCall>,
    names: HashMap<u32, Vec<u8>>,
    /// Requests whose beginning is not in the trace, or for which there was no room.
    unmatched: u64,
    /// Times that a request was put back, and came again.
    put_back: u64,
}

impl Block<'_> {
    fn new<'a>(layouts: &KernelLayouts, conditions: &'a Conditions) -> Block<'a> {
        Block {
            conditions,
            labels: HashMap::new(),
            happenings: Happenings::new(layouts),
            open: HashMap::new(),
            devices: HashMap::new(),
            by_kind: HashMap::new(),
            by_task: HashMap::new(),
            calls: HashMap::new(),
            names: HashMap::new(),
            unmatched: 0,
            put_back: 0,
        }
    }

    /// The times of a device, of which one more event has come.
    fn device(&mut self, number: u64, visit: &Visit<'_>) -> &mut Device {
        if !self.labels.contains_key(&number) && self.labels.len() < ROWS_MAX {
            let (major, minor) = major_minor(number);
            let label = match visit.moment.world.kernel_devices().name(number) {
                Some(name) => format!("{major}:{minor} {}", String::from_utf8_lossy(name)),
                None => format!("{major}:{minor}"),
            };
            self.labels.insert(number, label);
        }
        let device = self.devices.entry(number).or_default();
        let now = visit.moment.enter_ns;
        if self.conditions.accepts_time(now) {
            device.passes(now);
        }
        device
    }

    fn kernel(&mut self, event: &KernelEvent, visit: &Visit<'_>) {
        let now = visit.moment.enter_ns;
        match self.happenings.read(event.layout, &event.values) {
            Some(Happening::Switch { to, names: [_, name], .. }) => {
                let room = self.names.len() < THREADS_MAX;
                if room && self.names.get(&to).is_none_or(|known| known != name) {
                    self.names.insert(to, name.to_vec());
                }
            }
            Some(Happening::Issue { request, bytes, how }) => {
                let how = how.to_vec();
                self.device(request[0], visit);
                let is_wanted = visit.wanted;
                let call = self.calls.get(&event.task).filter(|call| now < call.until);
                let (file, call) = call.map_or((None, None), |c| (c.file.clone(), Some(c.nr)));
                let task = event.task;
                if self.open.len() >= OPEN_MAX {
                    self.unmatched += 1;
                    return;
                }
                if let Some(known) = self.open.get_mut(&request) {
                    // It was put back, and comes again: under way since it came first.
                    self.put_back += 1;
                    known.bytes = known.bytes.max(bytes);
                    return;
                }
                let request =
                    (request, Request { since: now, bytes, how, task, file, call, is_wanted });
                self.open.insert(request.0, request.1);
                let device = self.devices.entry(request.0[0]).or_default();
                device.open += 1;
                device.max = device.max.max(device.open);
            }
            Some(Happening::Complete { request }) => {
                self.device(request[0], visit);
                let Some(done) = self.open.remove(&request) else {
                    self.unmatched += 1;
                    return;
                };
                let device = self.devices.entry(request[0]).or_default();
                device.open = device.open.saturating_sub(1);
                if !done.is_wanted {
                    return;
                }
                let ns = now.saturating_sub(done.since);
                let key = (request[0], done.how);
                if self.by_kind.len() < ROWS_MAX || self.by_kind.contains_key(&key) {
                    self.by_kind.entry(key).or_default().add(ns, done.bytes);
                }
                let key = (done.task, done.call, done.file);
                if self.by_task.len() < ROWS_MAX || self.by_task.contains_key(&key) {
                    self.by_task.entry(key).or_default().add(ns, done.bytes);
                }
            }
            _ => {}
        }
    }

    fn call(&mut self, call: &Call, visit: &Visit<'_>) {
        let Some(tid) = visit.moment.tid else { return };
        if self.calls.len() >= THREADS_MAX && !self.calls.contains_key(&tid) {
            return;
        }
        let row = syscalls::table::by_number(call.nr.into());
        let args = row.map(|row| row.args_of(&call.args)).unwrap_or_default();
        let file = args.iter().zip(call.args).find_map(|(arg, value)| match arg.kind {
            ArgKind::Fd => visit.moment.view().fd(value as i32),
            _ => None,
        });
        let file = file.or_else(|| visit.moment.step.paths.first().map(|(_, path)| path.to_vec()));
        let until = visit.moment.exit_ns.unwrap_or(u64::MAX);
        self.calls.insert(tid, InCall { nr: call.nr, until, file });
    }

    fn sheet(self) -> Sheet {
        let name = |device: u64| match self.labels.get(&device) {
            Some(label) => Cell::Name(label.clone().into_bytes()),
            None => Cell::Nothing,
        };
        let mut devices = Table::new("devices", "Devices", &DEVICE_COLUMNS);
        let mut numbers: Vec<&u64> = self.devices.keys().collect();
        numbers.sort();
        for number in numbers {
            let device = &self.devices[number];
            let span = device.since - device.first.unwrap_or(device.since);
            let mean = if span == 0 { 0.0 } else { device.weighted as f64 / span as f64 };
            devices.row(vec![
                name(*number),
                Cell::Number(mean),
                Cell::Count(device.max),
                Cell::Ns(device.busy_ns),
                Cell::Ns(span),
            ]);
        }
        let mut kinds = Table::new("requests", "Requests, from issue to completion", &KIND_COLUMNS)
            .further(&["mean_ns", "max_ns"]);
        let mut all: Vec<(&(u64, Vec<u8>), &Times)> = self.by_kind.iter().collect();
        all.sort_by_key(|(key, times)| (u64::MAX - times.total_ns, *key));
        let count = all.iter().map(|(_, times)| times.all.count).sum();
        for ((device, how), times) in all {
            let mut row = vec![name(*device), Cell::Name(how.clone())];
            row.extend(times.cells());
            kinds.row(row);
        }
        let mut tasks = Table::new("requesters", "Who asked", &TASK_COLUMNS)
            .further(&["mean_ns", "p50_ns", "p99_ns", "max_ns"]);
        let mut all: Vec<_> = self.by_task.iter().collect();
        all.sort_by_key(|(key, times)| (u64::MAX - times.total_ns, *key));
        for ((task, call, file), times) in all {
            let mut row = vec![
                Cell::Id((*task).into()),
                self.names.get(task).map_or(Cell::Nothing, |name| Cell::Name(name.clone())),
                call.and_then(|nr| syscalls::table::by_number(nr.into()))
                    .map_or(Cell::Nothing, |row| Cell::word(row.name)),
                file.as_ref().map_or(Cell::Nothing, |file| Cell::Name(file.clone())),
            ];
            row.extend(times.cells());
            tasks.row(row);
        }
        let mut notes = vec![
            "Letters: R reads, W writes, D discards, F flushes, S someone waits for it, M about files, A \
             read ahead."
                .into(),
            "The file is that of the call in which the request was made. What threads of the kernel write \
             back, they do for files that are not known."
                .into(),
        ];
        if !self.conditions.only_name_times() {
            notes.push(
                "Requests are those that were made in an event that was asked for; devices have all \
                 requests, as each waits for others."
                    .into(),
            );
        }
        let fact = |key, title, count| Fact { key, title, value: Cell::Count(count) };
        let open = self.open.values().filter(|request| request.is_wanted).count() as u64;
        Sheet {
            facts: vec![
                fact("request_count", "requests", count),
                fact("unfinished_count", "not completed", open),
                fact("unmatched_count", "without beginning", self.unmatched),
                fact("put_back_count", "put back, and issued again", self.put_back),
            ],
            tables: vec![devices, kinds, tasks],
            notes,
        }
    }
}

impl Watch for Block<'_> {
    fn add(&mut self, visit: &mut Visit<'_>) {
        match &visit.moment.event.kind {
            EventKind::Kernel(kernel) => self.kernel(kernel, visit),
            EventKind::Call(call) => self.call(call, visit),
            _ => {}
        }
    }
}

const DEVICE_COLUMNS: [(&str, &str); 5] = [
    ("device", "device"),
    ("mean_depth", "at a time"),
    ("max_depth", "at most"),
    ("busy_ns", "busy"),
    ("span_ns", "of"),
];
const KIND_COLUMNS: [(&str, &str); 9] = [
    ("device", "device"),
    ("how", "how"),
    ("count", "count"),
    ("bytes", "bytes"),
    ("time_ns", "time"),
    ("mean_ns", "mean"),
    ("p50_ns", "p50"),
    ("p99_ns", "p99"),
    ("max_ns", "max"),
];
const TASK_COLUMNS: [(&str, &str); 11] = [
    ("tid", "tid"),
    ("name", "thread"),
    ("call", "in"),
    ("file", "file"),
    ("count", "count"),
    ("bytes", "bytes"),
    ("time_ns", "time"),
    ("mean_ns", "mean"),
    ("p50_ns", "p50"),
    ("p99_ns", "p99"),
    ("max_ns", "max"),
];
