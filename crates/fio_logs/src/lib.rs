//! A recording as fio's I/O logs: the accesses to file data, and the job files that replay them.
//!
//! Each fio job stands for one thread at a time. Threads that did not overlap may share one.

mod text;

use std::collections::HashMap;
use std::io::{self, BufWriter, Write};

use model::{FileId, Moment, Namespace};
use render::escape::escape;
use syscalls::Act;
use trace::event::{Call, EventKind};

use text::{Action, Log};

/// Limit for the jobs: each has an open log.
pub const JOBS_MAX: usize = 256;
/// Limit for the files of all logs together.
const ADDED_MAX: usize = 2 << 20;

/// Limit for the bytes of the paths of files.
const PATH_BYTES_MAX: usize = 32 << 20;

/// Folder for the files that fio reads and writes, beside the logs.
pub const FILES: &str = "files";

/// Creates a file of the export by its name.
type Create<'a, W, E> = dyn FnMut(&str) -> Result<W, E> + 'a;

/// Writes a trace's events, in their order, as logs, job files and a list of files.
pub struct Exporter<'a, W: Write, E> {
    create: &'a mut Create<'a, W, E>,
    logs: Vec<Log<BufWriter<W>>>,
    /// Log and process of each live thread.
    threads: HashMap<u32, (usize, u32)>,
    /// Logs that no live thread uses.
    free: Vec<usize>,
    /// Files for fio, one for each path: fio removes none.
    files: Vec<Placed>,
    by_path: HashMap<Vec<u8>, usize>,
    by_id: HashMap<FileId, usize>,
    path_bytes: usize,
    added: usize,
    counts: Counts,
}

/// A file for fio.
struct Placed {
    /// The first file that it stands for.
    file: FileId,
    name: String,
    /// Highest end of all reads of it.
    read_end: u64,
}

/// What was written, and what fio cannot be given.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Calls in the logs.
    pub calls: u64,
    /// Calls that move no data of files.
    pub other_calls: u64,
    /// Accesses to files beyond the limit.
    pub too_many: u64,
    /// Threads that share a log with one that ran at the same time.
    pub shared_logs: u64,
}

impl<'a, W: Write, E: From<io::Error>> Exporter<'a, W, E> {
    /// Begins an export into files that `create` makes.
    pub fn new(create: &'a mut Create<'a, W, E>) -> Exporter<'a, W, E> {
        Exporter {
            create,
            logs: Vec::new(),
            threads: HashMap::new(),
            free: Vec::new(),
            files: Vec::new(),
            by_path: HashMap::new(),
            by_id: HashMap::new(),
            path_bytes: 0,
            added: 0,
            counts: Counts::default(),
        }
    }

    /// Takes the next event of a walk that follows files. It goes into a log if it is wanted.
    pub fn event(&mut self, moment: &Moment<'_>, wanted: bool) -> Result<(), E> {
        match &moment.event.kind {
            EventKind::Call(call) if wanted => self.call(call, moment)?,
            EventKind::End { .. } => self.ended(&[moment.event.thread]),
            EventKind::Exit { process, .. } => {
                let threads = self.threads_of(*process);
                self.ended(&threads);
            }
            _ => {}
        }
        Ok(())
    }

    fn call(&mut self, call: &Call, moment: &Moment<'_>) -> Result<(), E> {
        let touch = moment.touch;
        let mut held = false;
        for access in touch.accesses.iter().flatten().filter(|access| access.bytes > 0) {
            let Some(offset) = access.offset else { continue };
            let bytes = access.bytes;
            let action = match access.is_write {
                true => Action::Write { offset, bytes },
                false => Action::Read { offset, bytes },
            };
            held |= self.add(moment, access.file, action)?;
        }
        let act = syscalls::by_number(call.nr.into()).map_or(Act::Plain, |row| row.act);
        if matches!(act, Act::SyncFile | Act::SyncData)
            && call.success().is_some()
            && let Some((file, _)) = touch.by_fd
            && moment.files.file(file).is_stored
        {
            let action = if act == Act::SyncData { Action::Datasync } else { Action::Sync };
            held |= self.add(moment, file, action)?;
        }
        self.counts.calls += u64::from(held);
        self.counts.other_calls += u64::from(!held);
        Ok(())
    }

    /// Adds an access to the log of the event's thread. Returns false if fio cannot be given it.
    fn add(&mut self, moment: &Moment<'_>, file: FileId, action: Action) -> Result<bool, E> {
        let log = self.log(moment)?;
        let Some(number) = self.number(file, moment.files) else {
            self.counts.too_many += 1;
            return Ok(false);
        };
        let log = &mut self.logs[log];
        if self.added >= ADDED_MAX && !log.has(number) {
            self.counts.too_many += 1;
            return Ok(false);
        }
        self.added += usize::from(!log.has(number));
        let file = &mut self.files[number];
        if let Action::Read { offset, bytes } = action {
            file.read_end = file.read_end.max(offset.saturating_add(bytes));
        }
        log.add(moment.enter_ns, number, &file.name, action)?;
        Ok(true)
    }

    /// Returns the number of fio's file for a file; `None` beyond the limits.
    fn number(&mut self, file: FileId, files: &Namespace) -> Option<usize> {
        if let Some(number) = self.by_id.get(&file) {
            return Some(*number);
        }
        if file == FileId::OTHERS {
            return None;
        }
        let path = files.path(file);
        let number = match self.by_path.get(&path) {
            Some(number) => *number,
            None if self.path_bytes + path.len() > PATH_BYTES_MAX => return None,
            None => {
                let number = self.files.len();
                self.path_bytes += path.len();
                let name = text::plain_name(file.index(), &path);
                self.files.push(Placed { file, name, read_end: 0 });
                self.by_path.insert(path, number);
                number
            }
        };
        self.by_id.insert(file, number);
        Some(number)
    }

    /// Returns the log of the event's thread.
    fn log(&mut self, moment: &Moment<'_>) -> Result<usize, E> {
        let thread = moment.event.thread;
        if let Some((log, _)) = self.threads.get(&thread) {
            return Ok(*log);
        }
        let log = match self.free.pop() {
            Some(log) => log,
            None if self.logs.len() < JOBS_MAX => {
                let out = (self.create)(&format!("job-{}.log", self.logs.len()))?;
                self.logs.push(Log::new(BufWriter::new(out))?);
                self.logs.len() - 1
            }
            None => {
                self.counts.shared_logs += 1;
                thread as usize % JOBS_MAX
            }
        };
        let process = moment.world.thread(thread).map_or(0, |thread| thread.process);
        self.threads.insert(thread, (log, process));
        Ok(log)
    }

    fn threads_of(&self, process: u32) -> Vec<u32> {
        let of = self.threads.iter().filter(|(_, (_, owner))| *owner == process);
        of.map(|(thread, _)| *thread).collect()
    }

    /// Frees the logs of threads that ended.
    fn ended(&mut self, threads: &[u32]) {
        for thread in threads {
            let Some((log, _)) = self.threads.remove(thread) else { continue };
            if !self.threads.values().any(|(other, _)| *other == log) {
                self.free.push(log);
            }
        }
    }

    /// Ends the logs, and writes the job files and the list of files.
    pub fn finish(self) -> Result<Counts, E> {
        let logs = self.logs.len();
        for log in self.logs {
            log.finish()?;
        }
        let mut replay = BufWriter::new((self.create)("replay.fio")?);
        replay.write_all(text::replay_job(logs).as_bytes())?;
        replay.flush()?;
        let mut prepare = BufWriter::new((self.create)("prepare.fio")?);
        prepare.write_all(text::PREPARE_HEAD.as_bytes())?;
        for file in self.files.iter().filter(|file| file.read_end > 0) {
            let job = text::prepare_job(file.file.index(), &file.name, file.read_end);
            prepare.write_all(job.as_bytes())?;
        }
        prepare.flush()?;
        let mut list = BufWriter::new((self.create)("files.tsv")?);
        let mut paths: Vec<(&[u8], usize)> =
            self.by_path.iter().map(|(path, number)| (&path[..], *number)).collect();
        paths.sort_unstable_by_key(|(_, number)| self.files[*number].file);
        for (path, number) in paths {
            let mut shown = String::new();
            escape(&mut shown, path, &[]);
            writeln!(list, "{}\t{shown}", self.files[number].name)?;
        }
        list.flush()?;
        Ok(self.counts)
    }
}
