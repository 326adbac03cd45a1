//! Operations: what a call submits waits for the record of its completion, which comes in the stream
//! of whichever thread finds it.

use syscalls::Act;
use syscalls::record::{Header, submit};
use trace::event::Outcome;
use trace::format::{unzigzag, zigzag};
use trace::parts::{Part, PartValue, part_id};

use super::in_flight::Waiting;
use super::stream::{OpenCall, Outer, Stream};
use crate::output::Output;

/// Maximum number of operations that one call submits.
const SUBMITTED_MAX: usize = 128 << 10;

impl Stream {
    /// Whether the record of a completion must wait for that of the submission, in another stream.
    pub(super) fn must_wait_for(&mut self, id: u64, out: &Output) -> bool {
        // Nobody has submitted what has no number.
        self.patient && id != 0 && !out.in_flight.has((self.user, id))
    }

    /// Begins an operation that the open call submits.
    pub(super) fn begin_submission(
        &mut self,
        header: Header,
        (tsc, id): (u64, u64),
        args: [u64; 6],
        out: &mut Output,
    ) -> Result<(), &'static str> {
        let Some(call) = self.call.filter(|_| self.outer.is_none()) else {
            return Err("SUBMIT without a call");
        };
        if self.submitted.len() >= SUBMITTED_MAX {
            return Err("a call that submits too much");
        }
        self.outer = Some(Box::new(Outer {
            call,
            id,
            order: header.c >> 8,
            items: std::mem::take(&mut self.items),
            inline: std::mem::take(&mut self.inline),
            ids: std::mem::take(&mut self.ids),
            identities: std::mem::take(&mut self.identities),
            not_whole: std::mem::take(&mut self.not_whole),
            withheld: std::mem::take(&mut self.withheld),
        }));
        let (nr, nargs) = (header.b, header.c as u8);
        let operation = OpenCall { tsc, nr, flags: 0, nargs, site: call.site, args };
        self.call = Some(operation);
        if let Some(policy) = &mut out.policy {
            let of_descriptors = policy.entered(self.thread(), tsc, &operation.bare());
            self.withheld.of_descriptors = of_descriptors;
        }
        Ok(())
    }

    /// Ends it: it waits for its completion from here on.
    pub(super) fn end_submission(&mut self, out: &mut Output) -> Result<(), &'static str> {
        let (Some(outer), Some((_, start))) = (&self.outer, self.start) else {
            return Err("SUBMITTED without SUBMIT");
        };
        let (id, order) = (outer.id, outer.order);
        let waiting = Waiting {
            call: self.call,
            process: start.process,
            items: std::mem::take(&mut self.items),
            inline: std::mem::take(&mut self.inline),
            ids: std::mem::take(&mut self.ids),
        };
        out.in_flight.add((self.user, id), waiting);
        self.submitted.push((order, id));
        self.resume();
        Ok(())
    }

    /// Goes on with the call that submits.
    pub(super) fn resume(&mut self) {
        let Some(outer) = self.outer.take() else { return };
        self.call = Some(outer.call);
        (self.items, self.inline, self.ids) = (outer.items, outer.inline, outer.ids);
        (self.identities, self.not_whole) = (outer.identities, outer.not_whole);
        self.withheld = outer.withheld;
    }

    /// The open call has ended: those beyond the first `made` of its operations were not submitted.
    /// Adds to the call how many were recorded.
    pub(super) fn settle_submissions(&mut self, made: i64, out: &mut Output) {
        if self.submitted.is_empty() {
            return;
        }
        let mut recorded = 0;
        for (order, id) in std::mem::take(&mut self.submitted) {
            match order == submit::TAKEN || i64::from(order) < made {
                true => recorded += 1,
                false => _ = out.in_flight.take((self.user, id)),
            }
        }
        if recorded != 0 {
            self.parts.push(Part::number(part_id::OPERATIONS, recorded));
        }
    }

    /// Number of operations submitted by the open call that are events of their own.
    pub(super) fn operations(&self) -> u64 {
        let part = self.parts.iter().find(|part| part.id == part_id::OPERATIONS);
        match part.map(|part| &part.value) {
            Some(PartValue::Number(count)) => *count,
            _ => 0,
        }
    }

    /// When an operation was submitted that closes a number.
    pub(super) fn submitted_at(&self, call: &OpenCall) -> Option<u64> {
        let row = syscalls::by_number(call.nr.into()).filter(|row| row.act == Act::Close)?;
        let submitted = self.parts.iter().find(|part| part.id == part_id::SUBMITTED)?;
        match submitted.value {
            PartValue::Number(ticks) if row.queue.is_some() => {
                Some(call.tsc.wrapping_add_signed(unzigzag(ticks)))
            }
            _ => None,
        }
    }

    /// Whether the open call is an operation that was found completed late.
    pub(super) fn was_late(&self) -> bool {
        self.parts.iter().any(|part| part.id == part_id::LATE)
    }

    /// Whether it is one whose submission is not there.
    pub(super) fn was_unsubmitted(&self) -> bool {
        let has = |id| self.parts.iter().any(|part| part.id == id);
        has(part_id::COMPLETED) && !has(part_id::SUBMITTED)
    }

    /// Gives a completed operation what went in, and when.
    pub(super) fn join(&mut self, call: &mut OpenCall, id: u64, late: bool, out: &mut Output) {
        call.site = 0;
        let waiting = out.in_flight.take((self.user, id)).unwrap_or_default();
        self.with_submission(call, waiting);
        let now = Part::number(part_id::COMPLETED, zigzag(0));
        self.parts.push(now);
        if late {
            self.parts.push(Part::number(part_id::LATE, 1));
        }
    }

    fn with_submission(&mut self, call: &mut OpenCall, waiting: Waiting) {
        if let Some(submitted) = waiting.call.filter(|submitted| submitted.nr == call.nr) {
            call.site = submitted.site;
            let ticks = submitted.tsc.wrapping_sub(call.tsc) as i64;
            self.parts.push(Part::number(part_id::SUBMITTED, zigzag(ticks)));
            (self.items, self.inline, self.ids) = (waiting.items, waiting.inline, waiting.ids);
        }
    }

    /// The process has a new program, or is gone: what it has in flight will not be known to be
    /// completed.
    pub(crate) fn give_up_operations(&mut self, tsc: u64, out: &mut Output) {
        let Some((_, start)) = self.start else { return };
        for mut waiting in out.in_flight.of_process(self.user, start.process) {
            let Some(submitted) = waiting.call.take() else { continue };
            self.clear();
            let mut call = OpenCall { tsc, ..submitted };
            waiting.call = Some(submitted);
            self.with_submission(&mut call, waiting);
            self.calls += 1;
            self.given_up += 1;
            self.emit_call(start.thread, &call, Outcome::Unfinished, out);
        }
    }
}
