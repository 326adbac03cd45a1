//! What is known of a recording before its program is executed again.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::CString;

use model::contents::is_out;
use model::loaded::Loaded;
use model::{Contents, Stored, Walk};
use syscalls::abi::errno;
use syscalls::abi::signals::is_fault;
use syscalls::record::{SIGINFO_BYTES, StartHow, data_flag, enter_flag, part, signal_place};
use syscalls::{Again, Handler, by_number};
use trace::Trace;
use trace::event::{Call, Event, EventKind, GapWhy, Outcome};
use trace::parts::{PartValue, part_id};

use crate::faults::{Fault, Faults};
use crate::first_image::{FirstImage, image_stack};
use crate::loaded::difference;
use crate::ports::Ports;
use crate::stored_to::StoredTo;

/// Maximum number of signals in a recording that is re-executed.
const SIGNALS_MAX: usize = 1 << 20;
/// Maximum number of files whose bytes are not in the trace.
const FILES_MAX: usize = 1 << 16;
/// Maximum number of mapped files that are told from others.
const MAPPED_MAX: usize = 1 << 20;
/// Maximum number of files that differ which are named.
const NAMED_MAX: usize = 8;
/// How the path begins of files that `memfd_create` makes.
const IN_MEMORY: &[u8] = b"/memfd:";

/// Why a recording cannot be re-executed.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// It was recorded without what that takes.
    #[error("it was recorded without --rerunnable")]
    NotRerunnable,
    /// Something is missing in it.
    #[error("the recording is not complete ({0}), and what is missing cannot be answered")]
    Incomplete(String),
    /// The trace cannot be read.
    #[error("{0}")]
    Unreadable(String),
    /// The program has several threads in one process.
    #[error(
        "process {pid} has several threads, and in which order they reach memory that they share is \
         not recorded: that takes `record --rerunnable --serialize`"
    )]
    Threads {
        /// Its id.
        pid: u32,
    },
    /// A call does what the trace does not hold.
    #[error("call {seq}, {name}: {why}")]
    Unknown {
        /// Its number.
        seq: u64,
        /// Its name.
        name: &'static str,
        /// What is not known.
        why: &'static str,
    },
    /// A program was executed with other addresses each time.
    #[error(
        "{0} had random addresses: a set-user-id or set-group-id program, or one for which the program before \
         had turned randomisation on, does not come to lie there again"
    )]
    Randomised(String),
    /// Files are not what they were.
    #[error("files that the program loads have changed since: {}", .0.join("; "))]
    Changed(Vec<String>),
    /// Code that is in no file system.
    #[error("it maps code from a file in memory ({0}), which a re-execution does not have")]
    CodeInMemory(String),
    /// There are more signals than are kept.
    #[error("more than {SIGNALS_MAX} signals arrived")]
    TooManySignals,
    /// A signal arrived where none can be given.
    #[error("signal {0} arrived before the first call of a thread")]
    EarlySignal(u8),
}

/// The beginning of a siginfo.
pub type Info = [u8; SIGINFO_BYTES];

/// What is known of a recording.
pub struct Survey {
    /// How the program begins.
    pub first: FirstImage,
    /// Signals that arrive at the end of a call, by its number.
    pub signals: HashMap<u64, Vec<Info>>,
    /// Last threads of processes that ended otherwise than by a call: the numbers of their last calls.
    pub deaths: HashMap<u32, u64>,
    /// Threads of such processes that made no call.
    pub unheard: HashSet<u32>,
    /// Processes that ended by a fault of their own code.
    pub faults: HashMap<u32, Fault>,
    /// Threads of processes with several, of which one ran at a time.
    pub in_turn: HashSet<u32>,
    /// Processes that were there at the same time, at most.
    pub processes_most: usize,
    /// Number of calls.
    pub calls: u64,
    /// The wait status of the program.
    pub status: Option<i32>,
    /// Ports that sockets got which had asked for any, by the numbers of their binds.
    pub ports: HashMap<u64, u16>,
    /// Hashes of the files that are mapped as they are on this machine, by path.
    pub originals: HashMap<Vec<u8>, Vec<u8>>,
    /// Files to which the program stores by mappings.
    pub stored_to: StoredTo,
}

/// What is collected.
#[derive(Default)]
struct Found {
    serialised: bool,
    first: Option<FirstImage>,
    signals: HashMap<u64, Vec<Info>>,
    signal_count: usize,
    /// By thread: its process, and its last call.
    threads: HashMap<u32, (u32, Option<u64>)>,
    /// Processes that have had several threads.
    threaded: HashSet<u32>,
    /// Processes that have ended themselves, by a call of one thread or of all.
    leaving: HashSet<u32>,
    /// Threads that have ended by a call.
    left: HashSet<u32>,
    /// Processes that have ended.
    ended: HashSet<u32>,
    /// Processes that are there, and how many of them there were at most.
    alive: HashSet<u32>,
    alive_most: usize,
    /// Programs, libraries and large files, and whether their bytes had been mapped before.
    files: BTreeMap<Vec<u8>, (Loaded, bool)>,
    /// Files that were mapped with their bytes, by device and inode.
    with_bytes: HashSet<(u64, u64)>,
    ports: Ports,
    stored_to: StoredTo,
    faults: Faults,
    calls: u64,
    status: Option<i32>,
    first_process: u32,
}

impl Survey {
    /// Reads a recording through.
    pub fn of(trace: &Trace) -> Result<Survey, Refusal> {
        let has = |option| trace.preamble().has_option(option);
        if !has("--rerunnable") {
            return Err(Refusal::NotRerunnable);
        }
        if trace.totals().is_none() {
            return Err(Refusal::Incomplete("it has no end".into()));
        }
        let mut found = Found { serialised: has("--serialize"), ..Found::default() };
        let (mut stored, mut walk, clock) = (Stored(trace), Walk::default(), model::clock(trace));
        for next in trace.events() {
            let next = next.map_err(|error| Refusal::Unreadable(error.to_string()))?;
            walk.event(&next, &clock, &mut stored, |moment, contents| {
                found.ports.event(moment, contents);
                found.stored_to.event(moment.event);
                found.add(moment.seq, moment.event, contents)
            })?;
        }
        let (mut changed, mut originals) = (Vec::new(), HashMap::new());
        for (file, was_mapped) in found.files.values() {
            if let Some(how) = difference(file) {
                // Its bytes were in the trace before.
                if *was_mapped {
                    continue;
                }
                if file.path.starts_with(IN_MEMORY) {
                    let name = render::escape::escaped(&file.path);
                    return Err(Refusal::CodeInMemory(name));
                }
                changed.push(format!("{}: {how}", render::escape::escaped(&file.path)));
            } else {
                originals.insert(file.path.clone(), file.hash.clone());
            }
            if changed.len() == NAMED_MAX {
                break;
            }
        }
        if !changed.is_empty() {
            return Err(Refusal::Changed(changed));
        }
        let unheard =
            found.threads.iter().filter(|(_, (of, seq))| seq.is_none() && found.is_killed(*of));
        let unheard = unheard.map(|(thread, _)| *thread).collect();
        let (deaths, faults) = found.deaths();
        let in_turn = found.threads.iter().filter(|(_, (of, _))| found.threaded.contains(of));
        let in_turn = in_turn.map(|(thread, _)| *thread).collect();
        let no_program = || Refusal::Incomplete("it has no program".into());
        let mut first = found.first.ok_or_else(no_program)?;
        // Those in the image may begin with the interpreter of a script.
        let words = trace.preamble().command.iter().map(|word| CString::new(&word[..]).ok());
        first.args = words.collect::<Option<_>>().ok_or_else(no_program)?;
        Ok(Survey {
            deaths,
            unheard,
            faults,
            in_turn,
            first,
            signals: found.signals,
            processes_most: found.alive_most,
            calls: found.calls,
            status: found.status,
            ports: found.ports.known,
            originals,
            stored_to: found.stored_to,
        })
    }
}

impl Found {
    fn is_killed(&self, process: u32) -> bool {
        self.ended.contains(&process) && !self.leaving.contains(&process)
    }

    /// Of each process that was killed, the thread that has made its last call; and those that were not killed.
    fn deaths(&self) -> (HashMap<u32, u64>, HashMap<u32, Fault>) {
        let mut last: HashMap<u32, (u32, u64)> = HashMap::new();
        for (thread, (process, seq)) in &self.threads {
            if let (true, false, Some(seq)) =
                (self.is_killed(*process), self.left.contains(thread), seq)
            {
                let known = last.entry(*process).or_insert((*thread, *seq));
                if known.1 < *seq {
                    *known = (*thread, *seq);
                }
            }
        }
        // Which of several threads has made a fault is not recorded.
        let fault = |(process, (thread, _)): (&u32, &(u32, u64))| {
            let is_alone = !self.threaded.contains(process);
            let fault = is_alone.then(|| self.faults.of(*process, *thread)).flatten();
            fault.map(|fault| (*process, fault))
        };
        let faults: HashMap<u32, Fault> = last.iter().filter_map(fault).collect();
        last.retain(|process, _| !faults.contains_key(process));
        (last.into_values().collect(), faults)
    }

    fn add(
        &mut self,
        seq: Option<u64>,
        event: &trace::event::Event,
        contents: &mut dyn Contents,
    ) -> Result<(), Refusal> {
        if let Some(loaded) = Loaded::of_event(event) {
            if loaded.content.is_none() {
                let was_mapped = self.with_bytes.contains(&loaded.inode);
                if self.files.len() >= FILES_MAX || loaded.path.len() >= ring::REPLY_PATH {
                    return Err(Refusal::Unreadable("it names more files than can be".into()));
                }
                self.files.entry(loaded.path.clone()).or_insert((loaded, was_mapped));
            } else if self.with_bytes.len() < MAPPED_MAX {
                self.with_bytes.insert(loaded.inode);
            }
            return Ok(());
        }
        match &event.kind {
            EventKind::Gap { why, text, .. } => return Err(gap(*why, text)),
            EventKind::Start { how, process, pid, tid, .. } => {
                self.faults.begin(*process, [*pid, *tid]);
                if *how == StartHow::Thread {
                    if !self.serialised {
                        return Err(Refusal::Threads { pid: *pid });
                    }
                    self.threaded.insert(*process);
                }
                if *how == StartHow::Launch {
                    self.first_process = *process;
                }
                self.threads.insert(event.thread, (*process, None));
                self.alive.insert(*process);
                self.alive_most = self.alive_most.max(self.alive.len());
            }
            EventKind::State(state) => FirstImage::add_state(&mut self.first, state),
            EventKind::Image { data, .. } => {
                FirstImage::add_image(&mut self.first, data, contents)
                    .map_err(Refusal::Unreadable)?;
                let stack = image_stack(data, contents).map_err(Refusal::Unreadable)?;
                if stack.is_randomised() {
                    let path = stack.path().unwrap_or_default();
                    return Err(Refusal::Randomised(render::escape::escaped(path.as_bytes())));
                }
            }
            EventKind::Exit { process, status } => {
                self.ended.insert(*process);
                self.faults.end(*process, *status);
                self.alive.remove(process);
                if *process == self.first_process {
                    self.status = *status;
                }
            }
            EventKind::Signal { signal, info, .. } if !comes_first(event) => {
                self.faults.signal(event.thread);
                self.signal(event.thread, *signal, info)?;
            }
            EventKind::Call(call) => {
                let Some(seq) = seq else { return Ok(()) };
                self.calls += 1;
                self.faults.call(event.thread, call);
                if let Some((_, last)) = self.threads.get_mut(&event.thread) {
                    *last = Some(seq);
                }
                match by_number(call.nr.into()).map(|row| row.handler) {
                    Some(Handler::ExitProcess) => {
                        let of = self.threads.get(&event.thread).map(|(process, _)| *process);
                        self.leaving.extend(of);
                    }
                    Some(Handler::ExitThread) => {
                        self.left.insert(event.thread);
                    }
                    _ => {}
                }
                check(seq, call)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn signal(&mut self, thread: u32, signal: u8, info: &Info) -> Result<(), Refusal> {
        if is_of_code(signal, info) {
            return Ok(());
        }
        let last = self.threads.get(&thread).and_then(|(_, last)| *last);
        let Some(last) = last else { return Err(Refusal::EarlySignal(signal)) };
        self.signal_count += 1;
        if self.signal_count > SIGNALS_MAX {
            return Err(Refusal::TooManySignals);
        }
        self.signals.entry(last).or_default().push(*info);
        Ok(())
    }
}

/// Whether a signal arrives before the next call, which is then begun again.
pub(crate) fn comes_first(event: &Event) -> bool {
    let place = event.parts().iter().find(|part| part.id == part_id::SIGNAL_PLACE);
    place.is_some_and(|part| part.value == PartValue::Number(signal_place::AT_A_CALL.into()))
}

/// Whether a signal comes by itself.
pub(crate) fn is_of_code(signal: u8, info: &Info) -> bool {
    let code = i32::from_le_bytes([info[8], info[9], info[10], info[11]]);
    code > 0 && is_fault(signal.into())
}

fn gap(why: GapWhy, text: &str) -> Refusal {
    let (_, meaning) = model::names::gap(why);
    Refusal::Incomplete(if text.is_empty() { meaning.into() } else { text.into() })
}

/// Refuses calls whose effect the trace does not hold.
fn check(seq: u64, call: &Call) -> Result<(), Refusal> {
    let name = by_number(call.nr.into()).map_or("of unknown number", |row| row.name);
    let unknown = |why| Err(Refusal::Unknown { seq, name, why });
    let Outcome::Returned { ret, .. } = call.outcome else { return Ok(()) };
    let failed = errno::is_error(ret);
    let bytes = call.data.iter().filter(|data| data.part != part::SNAPSHOT);
    let cut = bytes.filter(|data| is_out(data)).any(model::contents::is_cut);
    if cut {
        return unknown("the trace does not hold all bytes that it gave");
    }
    if failed {
        return Ok(());
    }
    let Some(row) = by_number(call.nr.into()) else { return unknown("what it does is not known") };
    if row.again_of(&call.args) == Again::Unknown {
        return unknown("what it does to memory cannot be repeated");
    }
    if call.flags & enter_flag::UNKNOWN_VARIANT != 0 {
        return unknown("what it stores in memory is not known");
    }
    let faulty = |data: &&trace::event::Data| data.flags & data_flag::FAULT != 0 && is_out(data);
    if call.data.iter().any(|data| faulty(&data)) {
        return unknown("memory that it stored to could not be read");
    }
    Ok(())
}
