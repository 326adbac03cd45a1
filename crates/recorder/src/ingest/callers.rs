//! Stacks of calls, and the callers that are found in them.

use syscalls::abi::files::AT_FDCWD;
use syscalls::record::{Header, STACK_BYTES_MAX};
use syscalls::shape::ArgKind;
use syscalls::{Act, Syscall};
use trace::event::Outcome;
use trace::parts::{Part, part_id};

use super::stream::{Arriving, Fate, Item, OpenCall, Stream};
use crate::output::Output;
use crate::stacks::Base;

impl Stream {
    /// A piece of the stack of the open call begins.
    pub(super) fn begin_stack(
        &mut self,
        header: Header,
        stored: u64,
        out: &Output,
    ) -> Result<(), &'static str> {
        if out.stacks.is_none() || self.call.is_none() {
            return Err("a stack that nobody wanted");
        }
        if stored + self.stack.len() as u64 > 2 * u64::from(STACK_BYTES_MAX) {
            return Err("a stack that is too long");
        }
        let (arg, part, index) = (header.a, header.c as u8, header.b);
        let (flags, true_len, hash, at) = (0, stored, None, 0);
        let item = Item { arg, part, index, flags, true_len, hash, stored, at };
        if stored != 0 {
            let fate = Fate::Stack;
            self.arriving = Some(Arriving { item, left: stored, piece: Vec::new(), fate });
        }
        Ok(())
    }

    /// Finds the callers of a call that has ended, and what it means for those of later calls.
    #[cold]
    pub(super) fn find_callers(&mut self, call: &OpenCall, outcome: Outcome, out: &mut Output) {
        let Some((_, start)) = &self.start else { return };
        let Some(stacks) = &mut out.stacks else { return };
        let copy = std::mem::take(&mut self.stack);
        if !copy.is_empty() {
            let callers = stacks.callers(start.process, &copy);
            let bytes: Vec<u8> = callers.iter().flat_map(|at| at.to_le_bytes()).collect();
            let lost = || Part::number(part_id::STACK, 0);
            let part = if bytes.is_empty() { lost() } else { Part::buffer_of(out.blob(&bytes)) };
            self.parts.push(part);
        }
        let Outcome::Returned { ret: ret @ 0.., .. } = outcome else { return };
        let Some(row) = syscalls::table::by_number(call.nr.into()) else { return };
        let Some(stacks) = &mut out.stacks else { return };
        if row.act == Act::Map {
            stacks.mapped(start.process, &call.args, ret as u64);
        } else if row.open.is_some() || row.act == Act::Directory {
            let path = row.args.iter().position(|arg| matches!(arg.kind, ArgKind::Path));
            let is_path = |item: &Item| Some(usize::from(item.arg)) == path;
            let place = self.items.iter().position(is_path);
            let bytes = place.and_then(|at| self.bytes_of(at, &self.items[at]));
            let path = bytes.map(|bytes| bytes.split(|byte| *byte == 0).next().unwrap_or(bytes));
            let path = path.unwrap_or_default();
            let from = match row.act == Act::Directory && path.is_empty() {
                true => Base::Descriptor(i64::from(call.args[0] as i32)),
                false => begins(row, call),
            };
            match row.act == Act::Directory {
                true => stacks.moved(start.process, from, path),
                false => stacks.opened(start.process, ret, from, path),
            }
        }
    }
}

/// Where the path of a call begins.
fn begins(row: &Syscall, call: &OpenCall) -> Base {
    let uses = syscalls::paths::of(row);
    let directory = uses.iter().flatten().next().and_then(|of| of.dir);
    let directory = directory.map(|arg| call.args[usize::from(arg)] as i32);
    match directory.filter(|descriptor| *descriptor != AT_FDCWD) {
        Some(descriptor) => Base::Descriptor(descriptor.into()),
        None => Base::Here,
    }
}
