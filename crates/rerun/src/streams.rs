//! The standard streams of the program: what it writes there is shown.

use std::rc::{Rc, Weak};

use model::path::own_descriptor;
use model::{Contents, Description, Moment, Origin};
use syscalls::abi::files::{S_IFIFO, S_IFMT};
use syscalls::{Operand, Syscall};
use trace::event::Call;

use crate::divergence::Ending;
use crate::sent::each_sent;

/// Maximum number of open files that are known to be a standard stream once more.
const AGAIN_MAX: usize = 1 << 12;

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

/// Bytes of output that are not shown.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct NotShown {
    /// The kernel copied them from files: no call carries them.
    pub copied: u64,
    /// They went to terminals, pipes and files of others that are not known to be a standard stream.
    pub elsewhere: u64,
}

/// The standard streams.
pub(crate) struct Streams<'a> {
    output: &'a mut Output<'a>,
    /// What they lead to as the program begins.
    first: Option<[Option<Rc<Description>>; 2]>,
    /// What was opened by a link to one of them.
    again: Vec<(Weak<Description>, Shown)>,
    pub not_shown: NotShown,
}

impl<'a> Streams<'a> {
    pub fn new(output: &'a mut Output<'a>) -> Streams<'a> {
        Streams { output, first: None, again: Vec::new(), not_shown: NotShown::default() }
    }

    /// Remembers what the program's standard streams are, and what is opened by a link to one of them.
    pub fn note(&mut self, moment: &Moment<'_>) {
        if self.first.is_none() {
            let table = moment.world.descriptors(moment.event.thread);
            let stream = |fd| Some(Rc::clone(table.as_ref()?.get(fd)?.description));
            self.first = Some([stream(1), stream(2)]);
        }
        for (_, given) in moment.step.gives() {
            let [(_, path), ..] = &moment.step.paths[..] else { return };
            let Some(same) = behind_link(moment, path) else { return };
            let Some(stream) = self.stream_of(&same) else { return };
            self.again.retain(|(open, _)| open.strong_count() > 0);
            if self.again.len() < AGAIN_MAX {
                self.again.push((Rc::downgrade(&given.description), stream));
            }
        }
    }

    /// The standard stream that an open file is.
    fn stream_of(&self, open: &Rc<Description>) -> Option<Shown> {
        let [output, error] = self.first.as_ref()?;
        let both = [(output.as_ref(), Shown::Output), (error.as_ref(), Shown::Error)];
        let mut streams = both.into_iter().filter_map(|(first, shown)| Some((first?, shown)));
        let itself = streams.clone().find(|(first, _)| Rc::ptr_eq(first, open));
        let by_link = || self.again.iter().find(|(again, _)| again.as_ptr() == Rc::as_ptr(open));
        itself
            .map(|(_, shown)| shown)
            .or_else(|| by_link().map(|(_, shown)| *shown))
            .or_else(|| streams.find(|(first, _)| is_same(first, open)).map(|(_, shown)| shown))
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
        let shown = self.stream_of(entry.description);
        if shown.is_none() {
            if is_of_others(entry.description) {
                self.not_shown.elsewhere += left;
            }
            return Ok(());
        }
        let output = &mut self.output;
        let left = each_sent(call, Some(row), left, contents, &mut |bytes| {
            shown.into_iter().for_each(|shown| output(shown, bytes));
            Ok(())
        });
        self.not_shown.copied += left.map_err(Ending::Failed)?;
        Ok(())
    }
}

/// What is opened by a link in /proc to a descriptor, of the process itself or of another one.
fn behind_link(moment: &Moment<'_>, path: &[u8]) -> Option<Rc<Description>> {
    let (own, _) = moment.world.ids(moment.event.thread)?;
    if let Some(fd) = own_descriptor(path, own) {
        let table = moment.world.descriptors(moment.event.thread)?;
        return Some(Rc::clone(table.get(fd)?.description));
    }
    let digits = path.strip_prefix(b"/proc/")?.split(|byte| *byte == b'/').next()?;
    let pid = std::str::from_utf8(digits).ok()?.parse().ok()?;
    moment.world.descriptor_of(pid, own_descriptor(path, pid)?)
}

/// Whether an open file, which has another offset, is the same pipe, terminal or file as a standard stream.
fn is_same(first: &Description, open: &Description) -> bool {
    let is_pipe = |(inode, mode): (u64, u32)| {
        mode & S_IFMT == S_IFIFO && first.path == format!("pipe:[{inode}]").into_bytes()
    };
    let identity = open.identity.map(|identity| (identity.ino, identity.mode));
    // A file that the program opens by its name is a file like others, also if its output goes there.
    (first.path == open.path && (open.origin == Origin::Outside || is_terminal(&first.path)))
        || (is_terminal(&first.path) && open.path == CONTROLLING)
        || identity.is_some_and(is_pipe)
}

/// The terminal of whoever opens it.
const CONTROLLING: &[u8] = b"/dev/tty";

fn is_terminal(path: &[u8]) -> bool {
    path.starts_with(b"/dev/pts/") || path.starts_with(CONTROLLING) || path == b"/dev/console"
}

/// Whether somebody may look for output there: a terminal, or what the program was given open.
fn is_of_others(open: &Description) -> bool {
    let path = &open.path;
    let is_file = path.starts_with(b"/") && !path.starts_with(b"/dev/");
    is_terminal(path)
        || (open.origin == Origin::Outside && (is_file || path.starts_with(b"pipe:[")))
}
