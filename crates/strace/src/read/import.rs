//! The second pass: turns the items of a text into events of a trace.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, BufRead, Write};

use model::decode::shape::shape_of;
use syscalls::record::{IMAGE_ARG, SIGINFO_BYTES, data_flag, enter_flag, part};
use syscalls::shape::{Classes, Of, Ret, Syscall};
use syscalls::{Act, Handler};
use trace::event::{
    BLOB_BYTES_MAX, Call, Content, Data, Event, EventKind, GapWhy, INLINE_BYTES_MAX, OpenFd,
    Outcome, Preamble, ProcessState, RECORDER, StartHow, Totals,
};
use trace::{Finished, Writer, WriterOptions};

use super::encode::{self, Encoded, Memory};
use super::error::{ImportError, Wrong};
use super::node::{Cursor, Node};
use super::ready;
use super::survey::{Survey, survey};
use super::tail::result;
use super::text::{Item, ItemKind, Text};
use crate::spelling::Id;

/// Ticks of the trace are nanoseconds.
const TICKS_PER_SECOND: u64 = 1_000_000_000;
/// Most threads in one text.
const THREADS_MAX: usize = 1 << 20;
/// Most unknown call names that are listed one by one.
const UNKNOWN_SHOWN: usize = 32;
const UMASK_USUAL: u32 = 0o022;
/// Standard descriptors and their open flags: one for reading, two for writing.
const STANDARD: &[(i32, u32)] = &[(0, 0), (1, 1), (2, 1)];

/// Values that the text does not contain.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// User id of the program, if no call returns it.
    pub uid: u32,
    /// Group id of the program, if no call returns it.
    pub gid: u32,
    /// Version of the importing program.
    pub version: &'static str,
    /// Options of the trace writer.
    pub options: WriterOptions,
}

/// Result of an import.
#[derive(Debug, Default)]
pub struct Imported {
    /// Number of calls.
    pub calls: u64,
    /// Number of threads.
    pub threads: u32,
    /// Number of processes.
    pub processes: u32,
    /// Number of arguments whose value or memory is not in the text.
    pub untold: u64,
    /// Calls that are not in the table, counted by name.
    pub unknown: BTreeMap<String, u64>,
    /// Total number of calls that are not in the table.
    pub unknown_calls: u64,
    /// Assumptions made for want of information in the text.
    pub assumed: Vec<String>,
}

/// Reads a text twice and writes it as a trace. `sink` opens the output after the first pass.
pub fn import<R: BufRead>(
    mut open: impl FnMut() -> io::Result<R>,
    sink: impl FnOnce() -> io::Result<Box<dyn Write + Send>>,
    settings: Settings,
) -> Result<Imported, ImportError> {
    let survey = survey(open()?)?;
    let mut text = Text::new(open()?, survey.unnamed);
    let Some(first) = text.next()? else { return Err(ImportError::Nothing) };
    let (path, command) = program(&first);
    let exe = match &survey.cwd {
        Some(cwd) if !path.is_empty() && path[0] != b'/' => [cwd, &b"/"[..], &path].concat(),
        _ => path,
    };
    let preamble = Preamble {
        command,
        recorder_version: "(strace)".into(),
        page_bytes: 4096,
        epoch_ns: first.begin_ns,
        tsc_hz: TICKS_PER_SECOND,
        options: format!("imported from the text of strace by reenact {}", settings.version),
        ..Preamble::default()
    };
    let mut import = Import {
        writer: Writer::new(sink()?, &preamble, settings.options)?,
        base_ns: first.begin_ns,
        exe,
        survey,
        settings,
        threads: HashMap::new(),
        numbers: HashMap::new(),
        processes: HashMap::new(),
        done: Imported::default(),
        data_bytes: 0,
        gaps: 0,
        end_tsc: 0,
        told_tsc: 0,
    };
    import.gap()?;
    let (mut next, mut last) = (Some(first), 1);
    while let Some(item) = next {
        let line = item.line;
        import.item(item).map_err(|problem| problem.at(line))?;
        last = line;
        next = text.next()?;
    }
    import.finish(last)
}

fn is_exec(name: &str) -> bool {
    syscalls::by_name(name).is_some_and(|row| row.handler == Handler::Exec)
}

/// Returns path and command line of the exec that most texts begin with.
fn program(first: &Item) -> (Vec<u8>, Vec<Vec<u8>>) {
    let ItemKind::Call { name, text } = &first.kind else { return Default::default() };
    let nodes = match Cursor::new(text).items(b')') {
        Ok((nodes, _)) if is_exec(name) => nodes,
        _ => return Default::default(),
    };
    let path = match nodes.first() {
        Some(Node::Text { bytes, cut: false, .. }) => bytes.clone(),
        _ => Vec::new(),
    };
    (path, nodes.get(1).map_or_else(Vec::new, strings))
}

fn strings(list: &Node<'_>) -> Vec<Vec<u8>> {
    let Node::List { items, .. } = list else { return Vec::new() };
    let texts = items.iter().filter_map(|item| match item {
        Node::Text { bytes, .. } => Some(bytes.clone()),
        _ => None,
    });
    texts.collect()
}

/// An error in one line, or in writing the trace.
enum Problem {
    Wrong(Wrong),
    Write(trace::WriteError),
}

impl Problem {
    fn at(self, line: u64) -> ImportError {
        match self {
            Problem::Wrong(what) => ImportError::Line { line, what },
            Problem::Write(error) => ImportError::Write(error),
        }
    }
}

impl From<Wrong> for Problem {
    fn from(what: Wrong) -> Problem {
        Problem::Wrong(what)
    }
}

impl From<trace::WriteError> for Problem {
    fn from(error: trace::WriteError) -> Problem {
        Problem::Write(error)
    }
}

struct Thread {
    number: u32,
    process: u32,
    calls: u64,
    /// Time at which its last event ended.
    last: u64,
}

struct Import {
    writer: Writer,
    base_ns: u64,
    /// Executable of the first program, if known.
    exe: Vec<u8>,
    survey: Survey,
    settings: Settings,
    /// Living threads by thread id.
    threads: HashMap<u32, Thread>,
    /// Thread and process number of every thread id seen.
    numbers: HashMap<u32, (u32, u32)>,
    /// Number of living threads and process id, by process number.
    processes: HashMap<u32, (u32, u32)>,
    done: Imported,
    data_bytes: u64,
    gaps: u64,
    /// Time at which the last event ended.
    end_tsc: u64,
    /// Time of the last event of the recorder.
    told_tsc: u64,
}

impl Import {
    fn item(&mut self, item: Item) -> Result<(), Problem> {
        let Item { tid, .. } = item;
        let (begin, end) = (self.ticks(item.begin_ns), self.ticks(item.end_ns));
        match item.kind {
            ItemKind::Call { name, text } => self.call(tid, &name, &text, begin, end, false),
            ItemKind::Lost { name, text } => self.call(tid, &name, &text, begin, end, true),
            ItemKind::Signal { text, number } => self.signal(tid, &text, number, begin),
            ItemKind::Ended(status) => self.end(tid, Some(status), begin),
            ItemKind::Superseded(by) => self.supersede(tid, by, begin),
        }
    }

    fn ticks(&self, time_ns: u64) -> u64 {
        time_ns.saturating_sub(self.base_ns)
    }

    fn event(&mut self, thread: u32, tsc: u64, kind: EventKind) -> Result<(), Problem> {
        self.end_tsc = self.end_tsc.max(tsc);
        let tsc = match thread {
            // Events of the recorder are kept in order across processes.
            RECORDER => {
                self.told_tsc = self.told_tsc.max(tsc);
                self.told_tsc
            }
            _ => tsc,
        };
        Ok(self.writer.event(&Event::new(thread, tsc, kind))?)
    }

    fn gap(&mut self) -> Result<(), trace::WriteError> {
        let why = GapWhy::Imported;
        let kind = EventKind::Gap { why, detail: 0, text: "the text of strace".into() };
        self.gaps += 1;
        self.writer.event(&Event::new(RECORDER, 0, kind))
    }

    /// Returns a living thread; its first line creates it.
    fn thread(&mut self, tid: u32, tsc: u64) -> Result<&mut Thread, Problem> {
        if !self.threads.contains_key(&tid) {
            self.begin(tid, tsc)?;
        }
        self.threads.get_mut(&tid).ok_or_else(|| Problem::Wrong("a thread is missing".into()))
    }

    fn begin(&mut self, tid: u32, tsc: u64) -> Result<(), Problem> {
        if self.done.threads as usize >= THREADS_MAX {
            return Err(Problem::Wrong(format!("more than {THREADS_MAX} threads")));
        }
        self.done.threads += 1;
        let number = self.done.threads;
        let birth = self.survey.births.get_mut(&tid).and_then(|births| births.pop_front());
        let parent = birth.as_ref().and_then(|birth| self.numbers.get(&birth.parent)).copied();
        let how = match birth {
            _ if number == 1 => StartHow::Launch,
            Some(birth) => birth.how,
            None => StartHow::Fork,
        };
        let process = match (how, parent) {
            (StartHow::Thread, Some((_, process))) if self.processes.contains_key(&process) => {
                process
            }
            _ => {
                self.done.processes += 1;
                self.processes.insert(self.done.processes, (0, tid));
                self.done.processes
            }
        };
        let Some((living, pid)) = self.processes.get_mut(&process) else { return Ok(()) };
        *living += 1;
        let pid = *pid;
        self.numbers.insert(tid, (number, process));
        self.threads.insert(tid, Thread { number, process, calls: 0, last: tsc });
        let parent = parent.map_or(0, |(thread, _)| thread);
        self.event(number, tsc, EventKind::Start { how, process, parent, pid, tid })?;
        if number == 1 {
            self.state(process, pid, tsc)?;
        }
        Ok(())
    }

    /// Writes the initial state of the first process, as far as it is known.
    fn state(&mut self, process: u32, pid: u32, tsc: u64) -> Result<(), Problem> {
        let survey = &self.survey;
        let id = |which: Id, usual: u32| survey.ids.get(&which).copied().unwrap_or(usual);
        let (uid, euid) =
            (id(Id::User, self.settings.uid), id(Id::EffectiveUser, self.settings.uid));
        let (gid, egid) =
            (id(Id::Group, self.settings.gid), id(Id::EffectiveGroup, self.settings.gid));
        let assumed = &mut self.done.assumed;
        if survey.cwd.is_none() {
            assumed.push("the program began in / (strace -y shows the directory)".into());
        }
        if survey.umask.is_none() {
            assumed.push(format!("its umask was {UMASK_USUAL:03o}"));
        }
        if !survey.ids.contains_key(&Id::EffectiveUser) {
            assumed.push(format!("user and group {euid}, {egid}, as here"));
        }
        // Nearly every program starts with the standard descriptors open.
        let fds = STANDARD.iter().map(|&(fd, flags)| {
            let unknown = || format!("unknown:[{fd}]").into_bytes();
            let target = survey.labels.get(&fd).cloned().unwrap_or_else(unknown);
            OpenFd { fd, target, flags, ..OpenFd::default() }
        });
        let state = ProcessState {
            process,
            pid,
            exe: self.exe.clone(),
            cwd: survey.cwd.clone().unwrap_or_else(|| b"/".to_vec()),
            root: b"/".to_vec(),
            uids: [uid, euid, euid, euid],
            gids: [gid, egid, egid, egid],
            umask: survey.umask.unwrap_or(UMASK_USUAL),
            fds: fds.collect(),
            ..ProcessState::default()
        };
        self.event(RECORDER, tsc, EventKind::State(Box::new(state)))
    }

    fn call(
        &mut self,
        tid: u32,
        name: &str,
        text: &[u8],
        begin: u64,
        end: u64,
        lost: bool,
    ) -> Result<(), Problem> {
        let mut cursor = Cursor::new(text);
        let (nodes, _) = cursor.items(b')')?;
        let ret = result(cursor.rest())?;
        let first = self.done.threads == 0;
        let thread = self.thread(tid, begin)?;
        let number = thread.number;
        let begin = begin.max(thread.last);
        let exit = end.max(begin);
        thread.last = exit;
        let Some(row) = syscalls::by_name(name) else {
            self.done.unknown_calls += 1;
            if self.done.unknown.len() < UNKNOWN_SHOWN {
                *self.done.unknown.entry(name.to_string()).or_default() += 1;
            }
            return Ok(());
        };
        let exec = row.ret == Ret::Never && row.act == Act::Execute && ret == Some(0);
        if !(exec && first) {
            let ret = ret.filter(|_| !lost);
            let returns = row.ret != Ret::Never
                || (ret.is_some_and(|ret| ret < 0) && row.handler != Handler::SignalReturn);
            let outcome = match ret.filter(|_| returns) {
                Some(ret) => Outcome::Returned { exit_tsc: exit, ret },
                None => Outcome::Unfinished,
            };
            let mut encoded = encode::encode(row, &nodes, ret);
            if row.classes.intersects(Classes::WAIT) && ret.is_some_and(|ret| ret >= 0) {
                // Without text behind the result, nothing is known about ready descriptors.
                ready::found(row.args, cursor.rest(), &mut encoded);
            }
            self.write_call(tid, row, encoded, begin, outcome)?;
        }
        if exec {
            self.image(number, tid, &nodes, exit)?;
        }
        Ok(())
    }

    fn write_call(
        &mut self,
        tid: u32,
        row: &'static Syscall,
        encoded: Encoded,
        begin: u64,
        outcome: Outcome,
    ) -> Result<(), Problem> {
        self.done.untold += u64::from(encoded.untold);
        let mut call = Call {
            nr: row.nr,
            nargs: encoded.nargs,
            args: encoded.args,
            outcome,
            ..Call::default()
        };
        if row.ret == Ret::Never {
            call.flags |= enter_flag::NO_RETURN;
        }
        if shape_of(&call).unknown_variant {
            call.flags |= enter_flag::UNKNOWN_VARIANT;
        }
        for memory in encoded.memory {
            call.data.push(self.data(memory)?);
        }
        self.done.calls += 1;
        let thread = self.thread(tid, begin)?;
        thread.calls += 1;
        let number = thread.number;
        self.event(number, begin, EventKind::Call(call))
    }

    fn data(&mut self, memory: Memory) -> Result<Data, Problem> {
        let Memory { arg, part, index, out, true_len, bytes } = memory;
        let mut flags = if out { data_flag::OUT } else { 0 };
        if (bytes.len() as u64) < true_len {
            flags |= data_flag::CUT;
        }
        self.data_bytes += true_len;
        Ok(Data { arg, part, index, flags, true_len, hash: None, content: self.content(bytes)? })
    }

    fn content(&mut self, bytes: Vec<u8>) -> Result<Content, Problem> {
        if bytes.len() <= INLINE_BYTES_MAX {
            return Ok(Content::Inline(bytes));
        }
        let mut ids = Vec::new();
        for piece in bytes.chunks(BLOB_BYTES_MAX) {
            ids.push(self.writer.blob(piece)?);
        }
        Ok(Content::Blobs { len: bytes.len() as u64, ids })
    }

    fn image(
        &mut self,
        number: u32,
        tid: u32,
        nodes: &[Node<'_>],
        tsc: u64,
    ) -> Result<(), Problem> {
        let mut data = Vec::new();
        for (node, part) in nodes.iter().skip(1).zip([part::ARGV, part::ENVP]) {
            let Node::List { cut: false, .. } = node else { continue };
            let mut bytes = Vec::new();
            for string in strings(node) {
                bytes.extend(string);
                bytes.push(0);
            }
            let true_len = bytes.len() as u64;
            let memory = Memory { arg: IMAGE_ARG, part, index: 0, out: false, true_len, bytes };
            data.push(self.data(memory)?);
        }
        self.event(number, tsc, EventKind::Image { tid, data })
    }

    fn signal(&mut self, tid: u32, text: &[u8], number: i32, begin: u64) -> Result<(), Problem> {
        let node = Cursor::new(text).item()?;
        let mut info = [0; SIGINFO_BYTES];
        match encode::encoded(Of::Siginfo, &node, 0) {
            Some(bytes) => info.copy_from_slice(&bytes[..SIGINFO_BYTES]),
            None => {
                self.done.untold += 1;
                info[..4].copy_from_slice(&number.to_le_bytes());
            }
        }
        let thread = self.thread(tid, begin)?;
        let begin = begin.max(thread.last);
        thread.last = begin;
        let stream = thread.number;
        self.event(stream, begin, EventKind::Signal { signal: number as u8, handler: 0, info })
    }

    fn end(&mut self, tid: u32, status: Option<i32>, begin: u64) -> Result<(), Problem> {
        let thread = self.thread(tid, begin)?;
        let (number, process, calls) = (thread.number, thread.process, thread.calls);
        let begin = begin.max(thread.last);
        self.threads.remove(&tid);
        self.event(number, begin, EventKind::End { calls })?;
        let Some((living, _)) = self.processes.get_mut(&process) else { return Ok(()) };
        *living -= 1;
        if *living == 0 {
            self.processes.remove(&process);
            self.event(RECORDER, begin, EventKind::Exit { process, status })?;
        }
        Ok(())
    }

    /// An exec by a thread ends all others, and the thread takes the id of the first one.
    fn supersede(&mut self, tid: u32, by: u32, begin: u64) -> Result<(), Problem> {
        if tid == by || !self.threads.contains_key(&by) {
            return Ok(());
        }
        if self.threads.contains_key(&tid) {
            self.end(tid, None, begin)?;
        }
        if let Some(thread) = self.threads.remove(&by) {
            self.numbers.insert(tid, (thread.number, thread.process));
            self.threads.insert(tid, thread);
        }
        Ok(())
    }

    fn finish(mut self, line: u64) -> Result<Imported, ImportError> {
        let mut left: Vec<(u64, u32)> =
            self.threads.iter().map(|(tid, t)| (t.last, *tid)).collect();
        left.sort_unstable();
        for (last, tid) in left {
            self.end(tid, None, last).map_err(|problem| problem.at(line))?;
        }
        let totals = Totals {
            calls_made: self.done.calls,
            calls_read: self.done.calls,
            calls_written: self.done.calls,
            data_bytes: self.data_bytes,
            stored_bytes: self.writer.stored_bytes(),
            threads: self.done.threads,
            processes: self.done.processes,
            gaps: self.gaps,
            tsc_hz: TICKS_PER_SECOND,
            end_tsc: self.end_tsc,
            ..Totals::default()
        };
        let _: Finished = self.writer.finish(&totals)?;
        Ok(self.done)
    }
}
