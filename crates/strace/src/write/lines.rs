//! Prints lines in order of time. Calls that others interrupt are split in two, as strace does.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

use model::decode::{self, image, siginfo};
use model::{Contents, Moment, Value};
use syscalls::record::part;
use syscalls::{Act, Handler};
use trace::event::{Call, EventKind, Outcome};

use super::call::{self, Written};
use super::value;
use crate::words;

/// Column of the results.
const RESULT_COLUMN: usize = 40;
/// Most handler frames kept per thread.
const NESTED_MAX: usize = 64;
const RESTARTED: std::ops::RangeInclusive<i64> = -516..=-512;

/// A printed call whose result is still to come.
struct Pending {
    tid: u32,
    written: Written,
    enter_ns: u64,
}

/// Signal state of a thread.
#[derive(Default)]
struct Signals {
    mask: Option<u64>,
    /// Mask and result that each active handler restores on return.
    frames: Vec<(u64, i64)>,
    /// Result of the last call, as the frame of a handler saves it.
    last: i64,
}

/// Prints events as lines.
pub struct Lines<W> {
    out: W,
    /// Wall clock at the start of the trace.
    epoch_ns: u64,
    with_content: bool,
    /// Calls that return later, by return time and thread.
    pending: BTreeMap<(u64, u32), Pending>,
    /// Calls that may never return, such as an exec.
    waiting: HashMap<u32, Pending>,
    /// The thread whose call is on the current unfinished line.
    open: Option<u32>,
    column: usize,
    signals: HashMap<u32, Signals>,
    /// Living threads: process number, thread id, whether it is the first thread.
    living: BTreeMap<u32, (u32, u32, bool)>,
    /// Exit codes of threads that called exit, and of processes.
    codes: HashMap<u32, i64>,
    process_codes: HashMap<u32, i64>,
    launched: bool,
}

impl<W: Write> Lines<W> {
    /// Prints to `out`; event times are relative to `epoch_ns`. Without content, buffers are
    /// printed as addresses.
    pub fn new(out: W, epoch_ns: u64, with_content: bool) -> Lines<W> {
        Lines {
            out,
            epoch_ns,
            with_content,
            pending: BTreeMap::new(),
            waiting: HashMap::new(),
            open: None,
            column: 0,
            signals: HashMap::new(),
            living: BTreeMap::new(),
            codes: HashMap::new(),
            process_codes: HashMap::new(),
            launched: false,
        }
    }

    /// Prints an event if `wanted`. All events must be passed, in order.
    pub fn event(
        &mut self,
        moment: &Moment<'_>,
        wanted: bool,
        contents: &mut dyn Contents,
    ) -> io::Result<()> {
        let now = moment.enter_ns;
        self.return_until(now)?;
        let thread = moment.event.thread;
        let tid = moment.tid.unwrap_or(0);
        match &moment.event.kind {
            EventKind::Call(call) => self.call(call, moment, tid, wanted, contents)?,
            EventKind::Start { parent, process, pid, tid, .. } => {
                self.living.insert(thread, (*process, *tid, pid == tid));
                let mask = self.signals.get(parent).and_then(|signals| signals.mask);
                self.signals.insert(thread, Signals { mask, ..Signals::default() });
            }
            EventKind::Image { data, tid: new } => {
                if let Some(mut pending) = self.waiting.remove(&thread) {
                    pending.written.result = Some("= 0".into());
                    self.finish_call(thread, &pending, now)?;
                } else if !self.launched && wanted {
                    let given = decode::image::decode(data, contents);
                    self.launch(moment, &given)?;
                }
                self.launched = true;
                // The exec ended all other threads.
                if let Some(&(process, ..)) = self.living.get(&thread) {
                    self.living.insert(thread, (process, *new, true));
                    self.end_others(process, thread, 0, now, wanted)?;
                }
            }
            EventKind::Signal { signal, info, .. } => {
                self.enter_handler(thread, *signal, moment);
                if wanted {
                    let mut text = format!("--- {} ", words::signal(i32::from(*signal)));
                    value::plain(&mut text, &siginfo::decode(info));
                    text.push_str(" ---");
                    self.line(tid, now, &text)?;
                }
            }
            EventKind::End { .. } => {
                self.signals.remove(&thread);
                self.waiting.remove(&thread);
                let code = self.codes.remove(&thread);
                // The end of the first thread is printed when the whole process ends.
                if let Some((process, ..)) = self.living.remove(&thread)
                    && moment.pid != moment.tid
                    && wanted
                {
                    let code = code.or(self.process_codes.get(&process).copied()).unwrap_or(0);
                    self.line(tid, now, &format!("+++ exited with {code} +++"))?;
                }
            }
            EventKind::Exit { process, status } => {
                let code = self.process_codes.remove(process).map(|code| (code as i32) << 8);
                if let Some(status) = status.or(code) {
                    self.end_others(*process, u32::MAX, status, now, wanted)?;
                    if wanted {
                        self.line(tid, now, &format!("+++ {} +++", words::end_of_process(status)))?;
                    }
                }
            }
            EventKind::State(_)
            | EventKind::Stall { .. }
            | EventKind::Gap { .. }
            | EventKind::Kernel(_)
            | EventKind::KernelLayout(_)
            | EventKind::Other(_)
            | EventKind::Unknown(_) => {}
        }
        Ok(())
    }

    /// Prints what is left.
    pub fn finish(mut self) -> io::Result<()> {
        self.return_until(u64::MAX)?;
        self.end_line()?;
        self.out.flush()
    }

    fn call(
        &mut self,
        call: &Call,
        moment: &Moment<'_>,
        tid: u32,
        wanted: bool,
        contents: &mut dyn Contents,
    ) -> io::Result<()> {
        let thread = moment.event.thread;
        let row = syscalls::by_number(call.nr.into());
        let handler = row.map_or(Handler::Plain, |row| row.handler);
        let signals = self.signals.entry(thread).or_default();
        if handler == Handler::SignalReturn {
            // A handler left by longjmp leaves its frame behind: the innermost one returns.
            let (mask, result) = signals.frames.pop().unwrap_or((signals.mask.unwrap_or(0), 0));
            signals.mask = Some(mask);
            signals.last = result;
            if wanted {
                let written = call::sigreturn(mask, result);
                self.begin(thread, tid, &written, moment.enter_ns)?;
                let pending = Pending { tid, written, enter_ns: moment.enter_ns };
                self.finish_call(thread, &pending, moment.enter_ns)?;
            }
            return Ok(());
        }
        let followed =
            matches!(handler, Handler::SignalMask | Handler::ExitThread | Handler::ExitProcess);
        if !wanted && !followed {
            note_result(signals, call);
            return Ok(());
        }
        let (written, decoded) = call::write(call, &moment.view(), contents, self.with_content);
        note_result(signals, call);
        match handler {
            Handler::SignalMask => {
                let set = match decoded.args.get(1) {
                    Some((_, Value::SigSet(set))) => Some(*set),
                    _ => None,
                };
                let before = signals.mask.unwrap_or_else(|| blocked_at_start(moment));
                if let (Some(set), Outcome::Returned { ret: 0, .. }) = (set, call.outcome) {
                    signals.mask = Some(match call.args[0] as u32 {
                        0 => before | set,
                        1 => before & !set,
                        _ => set,
                    });
                }
            }
            Handler::ExitThread => {
                self.codes.insert(thread, call.args[0] as i64 & 0xff);
                let process = moment.world.thread(thread).map_or(0, |t| t.process);
                if moment.is_last_thread() {
                    self.process_codes.insert(process, call.args[0] as i64);
                }
            }
            Handler::ExitProcess => {
                let process = moment.world.thread(thread).map_or(0, |t| t.process);
                self.process_codes.insert(process, call.args[0] as i64 & 0xff);
            }
            _ => {}
        }
        if !wanted {
            return Ok(());
        }
        self.begin(thread, tid, &written, moment.enter_ns)?;
        // An operation takes as long as it was in flight.
        let took_ns = moment.exit_ns.zip(moment.duration_ns());
        let enter_ns = took_ns.map_or(moment.enter_ns, |(exit, ns)| exit.saturating_sub(ns));
        let pending = Pending { tid, written, enter_ns };
        match moment.exit_ns {
            Some(exit_ns) => {
                self.pending.insert((exit_ns, thread), pending);
            }
            None if pending.written.never && row.is_none_or(|row| row.act != Act::Execute) => {
                self.finish_call(thread, &pending, moment.enter_ns)?;
            }
            None => {
                self.waiting.insert(thread, pending);
            }
        }
        Ok(())
    }

    /// Removes the threads of a process except `but`; prints their ends, except the first thread's.
    fn end_others(
        &mut self,
        process: u32,
        but: u32,
        status: i32,
        now: u64,
        wanted: bool,
    ) -> io::Result<()> {
        let of_process =
            |(thread, living): &(&u32, &(u32, u32, bool))| living.0 == process && **thread != but;
        let others: Vec<(u32, u32, bool)> =
            self.living.iter().filter(of_process).map(|(t, l)| (*t, l.1, l.2)).collect();
        for (thread, tid, is_first) in others {
            self.living.remove(&thread);
            self.signals.remove(&thread);
            if wanted && !is_first {
                self.line(tid, now, &format!("+++ {} +++", words::end_of_process(status)))?;
            }
        }
        Ok(())
    }

    /// Prints the exec of the first program, built from its initial image.
    fn launch(&mut self, moment: &Moment<'_>, given: &[(&'static str, Value)]) -> io::Result<()> {
        let none = Value::list(Vec::new());
        let find = |which| image::find(given, which).unwrap_or(&none);
        let thread = moment.world.thread(moment.event.thread);
        let process = thread.and_then(|thread| moment.world.process(thread.process));
        let first = match find(part::ARGV) {
            Value::Array { items, .. } => items.first(),
            _ => None,
        };
        let path = match (first, process) {
            (Some(Value::Text { bytes, .. }), _) if bytes.contains(&b'/') => bytes.clone(),
            (_, Some(process)) => match &process.state {
                Some(state) => state.exe.clone(),
                None => process.exe.to_vec(),
            },
            _ => Vec::new(),
        };
        let written = call::launch(&path, find(part::ARGV), find(part::ENVP));
        let (tid, enter_ns) = (moment.tid.unwrap_or(0), moment.enter_ns);
        self.begin(moment.event.thread, tid, &written, enter_ns)?;
        let pending = Pending { tid, written, enter_ns };
        self.finish_call(moment.event.thread, &pending, enter_ns)
    }

    fn enter_handler(&mut self, thread: u32, signal: u8, moment: &Moment<'_>) {
        let signals = self.signals.entry(thread).or_default();
        let mask = signals.mask.unwrap_or_else(|| blocked_at_start(moment));
        if signals.frames.len() == NESTED_MAX {
            signals.frames.remove(0);
        }
        signals.frames.push((mask, signals.last));
        signals.mask =
            Some(mask | 1u64.checked_shl(u32::from(signal).wrapping_sub(1)).unwrap_or(0));
    }

    /// Prints the results of all calls that returned by `now`.
    fn return_until(&mut self, now: u64) -> io::Result<()> {
        while let Some(entry) = self.pending.first_entry() {
            let (exit_ns, thread) = *entry.key();
            if exit_ns > now {
                break;
            }
            let pending = entry.remove();
            self.finish_call(thread, &pending, exit_ns)?;
        }
        Ok(())
    }

    fn begin(&mut self, thread: u32, tid: u32, written: &Written, now: u64) -> io::Result<()> {
        self.end_line()?;
        self.prefix(tid, now)?;
        self.text(&written.before)?;
        self.open = Some(thread);
        Ok(())
    }

    fn finish_call(&mut self, thread: u32, pending: &Pending, now: u64) -> io::Result<()> {
        let Some(result) = &pending.written.result else { return Ok(()) };
        if self.open != Some(thread) {
            self.end_line()?;
            self.prefix(pending.tid, now)?;
            self.text(&format!("<... {} resumed>", pending.written.name))?;
        }
        self.open = None;
        self.text(&pending.written.after)?;
        self.text(") ")?;
        let missing = RESULT_COLUMN.saturating_sub(self.column);
        self.text(&" ".repeat(missing))?;
        self.text(result)?;
        if !(pending.written.never && result == "= ?") {
            let took = now.saturating_sub(pending.enter_ns) / 1000;
            self.text(&format!(" <{}.{:06}>", took / 1_000_000, took % 1_000_000))?;
        }
        self.out.write_all(b"\n")
    }

    fn line(&mut self, tid: u32, now: u64, text: &str) -> io::Result<()> {
        self.end_line()?;
        self.prefix(tid, now)?;
        self.out.write_all(text.as_bytes())?;
        self.out.write_all(b"\n")
    }

    fn end_line(&mut self) -> io::Result<()> {
        match self.open.take() {
            Some(_) => self.out.write_all(b" <unfinished ...>\n"),
            None => Ok(()),
        }
    }

    fn prefix(&mut self, tid: u32, now: u64) -> io::Result<()> {
        self.column = 0;
        let time = self.epoch_ns.saturating_add(now) / 1000;
        self.text(&format!("{tid:<5} {}.{:06} ", time / 1_000_000, time % 1_000_000))
    }

    fn text(&mut self, text: &str) -> io::Result<()> {
        self.column += text.len();
        self.out.write_all(text.as_bytes())
    }
}

/// Notes the result of a call. A call to be restarted leaves its number in the result register.
fn note_result(signals: &mut Signals, call: &Call) {
    if let Outcome::Returned { ret, .. } = call.outcome {
        signals.last = if RESTARTED.contains(&ret) { call.nr.into() } else { ret };
    }
}

fn blocked_at_start(moment: &Moment<'_>) -> u64 {
    let thread = moment.world.thread(moment.event.thread);
    let process = thread.and_then(|thread| moment.world.process(thread.process));
    process.and_then(|process| process.state.as_ref()).map_or(0, |state| state.sig_blocked)
}
