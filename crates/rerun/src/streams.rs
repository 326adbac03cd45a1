//! The standard streams of the program: what it writes there is shown.

use std::rc::Rc;

use model::{Contents, Description, Moment};
use syscalls::{Operand, Syscall};
use trace::event::Call;

use crate::divergence::Ending;
use crate::sent::each_sent;

/// Where output goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shown {
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

/// Takes what the program writes.
pub type Output<'a> = dyn FnMut(Shown, &[u8]) + 'a;

/// The standard streams.
pub(crate) struct Streams<'a> {
    output: &'a mut Output<'a>,
    /// What they lead to as the program begins.
    first: Option<[Option<Rc<Description>>; 2]>,
    /// Bytes of output that the kernel copied from files: no call carries them.
    pub not_shown: u64,
}

impl<'a> Streams<'a> {
    pub fn new(output: &'a mut Output<'a>) -> Streams<'a> {
        Streams { output, first: None, not_shown: 0 }
    }

    /// Remembers what the program's standard streams are.
    pub fn note(&mut self, moment: &Moment<'_>) {
        if self.first.is_none() {
            let table = moment.world.descriptors(moment.event.thread);
            let stream = |fd| Some(Rc::clone(table.as_ref()?.get(fd)?.description));
            self.first = Some([stream(1), stream(2)]);
        }
    }

    /// Shows what a call writes to a standard stream.
    pub fn show(
        &mut self,
        moment: &Moment<'_>,
        call: &Call,
        row: Option<&Syscall>,
        contents: &mut dyn Contents,
    ) -> Result<(), Ending> {
        let (Some(row), Some(left)) = (row, call.success().and_then(|n| u64::try_from(n).ok()))
        else {
            return Ok(());
        };
        let Some(fd) = row.value_of(&call.args, Operand::Target) else { return Ok(()) };
        let table = moment.world.descriptors(moment.event.thread);
        let entry = table.as_ref().and_then(|table| table.get(fd as i32));
        let Some(entry) = entry else { return Ok(()) };
        let is = |stream: &Option<Rc<Description>>| {
            stream.as_ref().is_some_and(|stream| Rc::ptr_eq(stream, entry.description))
        };
        let stream = match &self.first {
            Some([output, _]) if is(output) => Shown::Output,
            Some([_, error]) if is(error) => Shown::Error,
            _ => return Ok(()),
        };
        let output = &mut self.output;
        let left = each_sent(call, Some(row), left, contents, &mut |bytes| {
            output(stream, bytes);
            Ok(())
        });
        self.not_shown += left.map_err(Ending::Failed)?;
        Ok(())
    }
}
