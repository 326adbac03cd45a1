//! Exports a trace to a file. Calls are numbered in the order of their returns, as Re-Animator
//! does: a replayer that runs them one by one never waits for a later one.

mod fill;
mod held;
mod mapped;
mod plan;
mod rest;

use std::collections::HashMap;
use std::io::Write;

use model::decode::shape::shape_of;
use model::mapped::Mapped;
use model::{Contents, World};
use syscalls::record::{data_flag, part};
use syscalls::shape::{ArgKind, Of};
use trace::Trace;
use trace::event::{Call, Content, Event, EventKind, GapWhy, Outcome, RECORDER};

use crate::calls::UMASK;
use crate::columns;
use crate::error::Error;
use crate::file::codec::Codec;
use crate::file::writer::FileWriter;
use crate::origin::is_of_another_recorder;
use crate::schema::{self, SNIA, common};
use crate::times::Clock;
use held::{Held, Tasks};

pub use fill::{Caller, Collected, Known, collect};
pub use mapped::{ADDRESS, DATA_READ, DESCRIPTOR, LENGTH, OFFSET, READ, WRITE, WRITTEN};
use plan::Plans;
pub use plan::{PLANS, Plan};

/// Result of an export.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Exported {
    /// Number of calls.
    pub calls: u64,
    /// Number of calls whose types are not in SNIA's schema.
    pub own_calls: u64,
    /// Number of SNIA records that lack bytes of a buffer.
    pub not_captured: u64,
    /// Size of the file in bytes.
    pub bytes: u64,
}

/// Exports the events of a trace to a file.
pub struct Exporter<'t> {
    trace: &'t Trace,
    clock: Clock,
    file: FileWriter,
    plans: &'static Plans,
    tasks: Tasks,
    /// Descriptors that files were mapped by.
    mapped: Mapped<i32>,
    /// Knows groups, sessions and ids of callers: it is given only the events that concern them.
    /// `None` for another program's records, which have what is known.
    world: Option<World>,
    /// unique_id of the next record, and position of the next call or event.
    next_id: i64,
    next_event: i64,
    /// The first umask seen in the trace.
    umask: Option<u32>,
    /// True if the bytes of buffers are written.
    content: bool,
    /// Numbers of calls left out on purpose, by thread and in total.
    skipped: HashMap<u32, u64>,
    skipped_calls: u64,
    is_part: bool,
    last_tsc: u64,
    exported: Exported,
}

impl<'t> Exporter<'t> {
    /// Begins a file; the bytes of buffers are only written if `content` is true.
    pub fn new(
        sink: Box<dyn Write + Send>,
        trace: &'t Trace,
        codec: Codec,
        content: bool,
    ) -> Result<Exporter<'t>, Error> {
        let xml: Vec<String> = schema::TYPES.iter().map(|(_, xml)| xml.clone()).collect();
        let file = FileWriter::new(sink, &xml, codec)?;
        let mut exporter = Exporter {
            trace,
            clock: Clock::of(trace),
            file,
            plans: &PLANS,
            tasks: Tasks::default(),
            mapped: Mapped::default(),
            world: (!is_of_another_recorder(trace.preamble())).then(World::new),
            next_id: 0,
            next_event: 0,
            umask: None,
            content,
            skipped: HashMap::new(),
            skipped_calls: 0,
            is_part: false,
            last_tsc: trace.preamble().epoch_tsc,
            exported: Exported::default(),
        };
        let mut preamble = trace.preamble().clone();
        exporter.own(columns::RECORDING, |put| columns::recording(put, &mut preamble))?;
        Ok(exporter)
    }

    /// Notes that a call of a thread is left out on purpose, or, for `None`, all that follow.
    pub fn skip(&mut self, thread: Option<u32>) {
        self.is_part = true;
        if let Some(thread) = thread {
            *self.skipped.entry(thread).or_default() += 1;
            self.skipped_calls += 1;
        }
    }

    /// Adds an event. Events must be added in the order of the trace.
    pub fn event(&mut self, event: Event, contents: &mut dyn Contents) -> Result<(), Error> {
        while let Some(held) = self.tasks.returned(event.tsc) {
            self.call(&held, None, contents)?;
        }
        let ended = matches!(event.kind, EventKind::Image { .. }).then_some(event.tsc);
        if let Some(held) = self.tasks.take(event.thread) {
            self.call(&held, ended, contents)?;
        }
        if let EventKind::Exit { process, .. } = event.kind {
            for held in self.tasks.exit(process) {
                self.call(&held, None, contents)?;
            }
        }
        let caller = self.follow(&event, contents);
        self.follow_mappings(&event);
        let Event { thread, tsc, mut kind, extras } = event;
        self.last_tsc = self.last_tsc.max(tsc);
        if let EventKind::End { calls } = &mut kind {
            *calls = calls.saturating_sub(self.skipped.remove(&thread).unwrap_or_default());
        }
        match kind {
            EventKind::Call(mut call) => {
                if !self.content {
                    leave_out(&mut call);
                }
                let parts = extras.map_or_else(Vec::new, |extras| extras.parts);
                self.tasks.hold(Held { thread, tsc, call, caller, parts });
                Ok(())
            }
            EventKind::State(state) if self.umask.is_none() => {
                self.umask = Some(state.umask);
                self.note(Event { thread, tsc, kind: EventKind::State(state), extras }, contents)
            }
            kind => {
                self.tasks.follow(thread, &kind);
                self.note(Event { thread, tsc, kind, extras }, contents)
            }
        }
    }

    /// Follows an event, and returns the ids of its thread as it began.
    fn follow(&mut self, event: &Event, contents: &mut dyn Contents) -> Caller {
        let (pid, tid) = self.tasks.ids(event.thread);
        let own = Caller { pid, tid, ..Caller::default() };
        let Some(world) = &mut self.world else { return own };
        let step = match &event.kind {
            EventKind::Call(call) if !model::concerns_tasks(call) => {
                world.pass(event);
                None
            }
            _ => Some(world.step(event, contents)),
        };
        let thread = world.thread(event.thread);
        let ties = thread.and_then(|thread| world.ties(thread.process)).unwrap_or_default();
        let uid = world.credentials(event.thread).and_then(|ids| ids.users.real);
        let caller = Caller { ppid: ties.parent, pgid: ties.group, sid: ties.session, uid, ..own };
        if let Some(step) = step {
            world.finish(step);
        }
        caller
    }

    /// Writes all remaining calls and ends the file.
    pub fn finish(mut self, contents: &mut dyn Contents) -> Result<Exported, Error> {
        while let Some(held) = self.tasks.returned(u64::MAX) {
            self.call(&held, None, contents)?;
        }
        for held in self.tasks.rest() {
            self.call(&held, None, contents)?;
        }
        if self.is_part {
            let text = "only some calls were exported".to_string();
            let kind = EventKind::Gap { why: GapWhy::Cut, detail: self.skipped_calls, text };
            self.note(Event::new(RECORDER, self.last_tsc, kind), contents)?;
        }
        self.manifest()?;
        // The totals are those of the whole trace.
        if let Some(totals) = self.trace.totals().filter(|_| !self.is_part) {
            let mut totals = *totals;
            self.own(columns::TOTALS, |put| columns::totals(put, &mut totals))?;
        }
        self.exported.bytes = self.file.finish()?;
        Ok(self.exported)
    }

    /// Writes a call: the records of its type, and our own for the rest.
    fn call(
        &mut self,
        held: &Held,
        began_program: Option<u64>,
        contents: &mut dyn Contents,
    ) -> Result<(), Error> {
        let Held { tsc, call, caller, .. } = held;
        let origin = crate::origin::of(call, contents);
        // Imported calls include that first record.
        if self.next_id == 0 && origin.is_empty() && !self.plans.of(call.nr).is(UMASK) {
            self.first_umask(*caller, *tsc)?;
        }
        let plan = self.plans.of(call.nr);
        let known = Known {
            call,
            caller: *caller,
            called: self.clock.ns(self.trace, *tsc),
            returned: returned(call, began_program)
                .map(|(tsc, ret)| (self.clock.ns(self.trace, tsc), ret)),
        };
        let records = plan.records(call, contents);
        let first = self.next_id;
        self.next_id += i64::from(records);
        let mut structs = fill::Structs::default();
        for number in 0..records {
            let mut record = self.file.record(plan.number)?;
            record.int(common::UNIQUE_ID, first + i64::from(number));
            let missing = plan.fill(number, &known, &mut structs, contents, &mut record);
            self.exported.not_captured += u64::from(missing?);
            origin.apply(number, &mut record);
        }
        self.exported.calls += 1;
        self.exported.own_calls += u64::from(!plan.of_snia());
        self.rest_of_call(held, first, records, &origin, contents)
    }

    /// Writes a umask record first, as Re-Animator's replayer expects.
    fn first_umask(&mut self, caller: Caller, tsc: u64) -> Result<(), Error> {
        let Some(plan) = self.plans.named(&format!("{SNIA}{UMASK}")) else { return Ok(()) };
        let (umask, now) = (self.umask, self.clock.ns(self.trace, tsc));
        let mut record = self.file.record(plan.number)?;
        record.int(common::UNIQUE_ID, 0);
        record.int(common::TIME_CALLED, now);
        record.int(common::TIME_RETURNED, now);
        Caller { tid: None, ..caller }.fill(&mut record);
        if let Some(umask) = umask {
            record.int(common::ERRNO_NUMBER, 0);
            record.int(common::RETURN_VALUE, umask.into());
            plan.fill_mode(umask, &mut record);
        }
        self.next_id = 1;
        Ok(())
    }
}

/// Drops the bytes of plain data; their lengths stay.
fn leave_out(call: &mut Call) {
    let shape = shape_of(call);
    for data in &mut call.data {
        let kind = shape.args.get(usize::from(data.arg)).map(|arg| arg.kind);
        let plain = matches!(kind, Some(ArgKind::Buf(_, Of::Bytes, _)));
        if plain || matches!(data.part, part::CONTENT | part::SNAPSHOT) {
            data.content = Content::Inline(Vec::new());
            data.flags |= data_flag::CUT;
        }
    }
}

/// Returns time and result of a return. A successful exec returns when its program begins.
fn returned(call: &Call, began_program: Option<u64>) -> Option<(u64, i64)> {
    match call.outcome {
        Outcome::Returned { exit_tsc, ret } => Some((exit_tsc, ret)),
        Outcome::Unfinished => began_program.map(|tsc| (tsc, 0)),
    }
}
