//! fio: accesses to file data, as logs that fio replays.
//!
//! Each fio job stands for one thread at a time. Threads that did not overlap may share one.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs::{DirBuilder, File};
use std::io::{BufWriter, ErrorKind, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use fio_logs::{self as fio, Action, Log};
use model::{Contents, Moment};
use render::escape::escape;
use stats::role::{self, Sync};
use stats::tracker::{FileId, OTHERS, Tracker};
use trace::event::{Call, EventKind};

use super::{Job, Written};
use crate::failure::Failure;

/// Limit for the jobs: each has an open log.
const JOBS_MAX: usize = 256;
/// Limit for the files of all logs together.
const ADDED_MAX: usize = 2 << 20;

/// Writes logs, job files and a list of files into a directory.
pub fn export(job: &Job<'_>) -> Result<Written, Failure> {
    let directory = &job.args.output;
    make(directory, job.args.force)?;
    make(&directory.join("files"), true)?;
    let mut replay = Replay::new(job, directory);
    let unread = job.each(&mut |moment, wanted, contents| match &moment.event.kind {
        EventKind::Call(call) => replay.call(call, moment, wanted, contents),
        EventKind::End { .. } => {
            replay.ended(&[moment.event.thread]);
            Ok(())
        }
        EventKind::Exit { process, .. } => {
            let threads: Vec<u32> = replay.threads_of(*process);
            replay.ended(&threads);
            Ok(())
        }
        _ => Ok(()),
    })?;
    let mut written = replay.finish()?;
    written.unread = unread;
    Ok(written)
}

/// Creates a private directory. Refuses `-`, and existing directories unless `may_exist`.
fn make(path: &Path, may_exist: bool) -> Result<(), Failure> {
    if path.as_os_str() == "-" {
        return Err(Failure::Usage("fio's files go into a directory: name one".into()));
    }
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists && may_exist => Ok(()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(Failure::Failed(format!(
            "{} exists; give another name with --output, or --force to write into it",
            path.display()
        ))),
        made => made
            .map_err(|error| Failure::Failed(format!("cannot create {}: {error}", path.display()))),
    }
}

/// The logs being written.
struct Replay<'a> {
    job: &'a Job<'a>,
    directory: &'a Path,
    tracker: Tracker,
    logs: Vec<Log<BufWriter<File>>>,
    /// Log and process of each live thread.
    threads: HashMap<u32, (usize, u32)>,
    /// Logs that no live thread uses.
    free: Vec<usize>,
    /// Highest end of all reads of each file.
    read: BTreeMap<FileId, u64>,
    touched: HashSet<FileId>,
    added: usize,
    calls: u64,
    other_calls: u64,
    too_many: u64,
    shared_logs: u64,
}

impl<'a> Replay<'a> {
    fn new(job: &'a Job<'a>, directory: &'a Path) -> Replay<'a> {
        Replay {
            job,
            directory,
            tracker: Tracker::new(),
            logs: Vec::new(),
            threads: HashMap::new(),
            free: Vec::new(),
            read: BTreeMap::new(),
            touched: HashSet::new(),
            added: 0,
            calls: 0,
            other_calls: 0,
            too_many: 0,
            shared_logs: 0,
        }
    }

    fn call(
        &mut self,
        call: &Call,
        moment: &Moment<'_>,
        wanted: bool,
        contents: &mut dyn Contents,
    ) -> Result<(), Failure> {
        let touch = self.tracker.look(moment, call, contents);
        if !wanted {
            return Ok(());
        }
        let mut held = false;
        for access in touch.accesses.iter().flatten().filter(|access| access.bytes > 0) {
            let Some(offset) = access.offset else { continue };
            let bytes = access.bytes;
            let action = if access.is_write {
                Action::Write { offset, bytes }
            } else {
                let end = self.read.entry(access.file).or_default();
                *end = (*end).max(offset.saturating_add(bytes));
                Action::Read { offset, bytes }
            };
            held |= self.add(moment, access.file, action)?;
        }
        if role::of(call.nr).sync == Sync::File
            && call.success().is_some()
            && let Some((file, _)) = touch.by_fd
            && self.tracker.file(file).is_stored
        {
            let name = syscalls::by_number(call.nr.into()).map_or("", |row| row.name);
            let action = if name == "fdatasync" { Action::Datasync } else { Action::Sync };
            held |= self.add(moment, file, action)?;
        }
        self.calls += u64::from(held);
        self.other_calls += u64::from(!held);
        Ok(())
    }

    fn add(&mut self, moment: &Moment<'_>, file: FileId, action: Action) -> Result<bool, Failure> {
        let log = self.log(moment)?;
        let log = &mut self.logs[log];
        if file == OTHERS || self.added >= ADDED_MAX && !log.has(file) {
            self.too_many += 1;
            return Ok(false);
        }
        self.added += usize::from(!log.has(file));
        self.touched.insert(file);
        let name = fio::plain_name(file, &self.tracker.file(file).path);
        log.add(moment.enter_ns, file, &name, action)?;
        Ok(true)
    }

    /// Returns the log of the event's thread.
    fn log(&mut self, moment: &Moment<'_>) -> Result<usize, Failure> {
        let thread = moment.event.thread;
        if let Some((log, _)) = self.threads.get(&thread) {
            return Ok(*log);
        }
        let log = match self.free.pop() {
            Some(log) => log,
            None if self.logs.len() < JOBS_MAX => {
                let path = self.directory.join(format!("job-{}.log", self.logs.len()));
                let out = BufWriter::new(self.job.create(&path)?);
                self.logs.push(Log::new(out)?);
                self.logs.len() - 1
            }
            None => {
                self.shared_logs += 1;
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

    fn finish(self) -> Result<Written, Failure> {
        let logs = self.logs.len();
        for log in self.logs {
            log.finish()?;
        }
        let create = |name: &str| -> Result<BufWriter<File>, Failure> {
            Ok(BufWriter::new(self.job.create(&self.directory.join(name))?))
        };
        let mut replay = create("replay.fio")?;
        replay.write_all(fio::replay_job(logs).as_bytes())?;
        replay.flush()?;
        let mut prepare = create("prepare.fio")?;
        prepare.write_all(fio::PREPARE_HEAD.as_bytes())?;
        for (file, bytes) in self.read.iter().filter(|(file, _)| self.touched.contains(*file)) {
            let name = fio::plain_name(*file, &self.tracker.file(*file).path);
            prepare.write_all(fio::prepare_job(*file, &name, *bytes).as_bytes())?;
        }
        prepare.flush()?;
        let mut list = create("files.tsv")?;
        let mut touched: Vec<FileId> = self.touched.into_iter().collect();
        touched.sort_unstable();
        for file in touched {
            let path = &self.tracker.file(file).path;
            let mut shown = String::new();
            escape(&mut shown, path, &[]);
            writeln!(list, "{}\t{shown}", fio::plain_name(file, path))?;
        }
        list.flush()?;
        let mut left_out = vec![
            format!("{} calls that move no data of files: fio knows no others", self.other_calls),
            "the bytes that were written, renames, lengths and deletions of files".to_string(),
        ];
        if self.too_many > 0 {
            left_out.push(format!("{} accesses to files beyond the limit", self.too_many));
        }
        if self.shared_logs > 0 {
            left_out.push(format!(
                "that {} threads ran beside others: fio is given {JOBS_MAX} jobs",
                self.shared_logs
            ));
        }
        Ok(Written { calls: self.calls, left_out, ..Written::default() })
    }
}
