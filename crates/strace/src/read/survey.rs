//! The first pass: collects what a trace needs earlier than the text has it.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::BufRead;

use syscalls::abi::tasks::{CLONE_THREAD, CLONE_VFORK, CLONE_VM};
use syscalls::shape::ArgKind;
use syscalls::{Act, Handler, Syscall};
use trace::event::StartHow;

use super::error::ImportError;
use super::node::{Cursor, Node, unescaped};
use super::number;
use super::tail::result;
use super::text::{Item, ItemKind, Text};
use crate::spelling::{self, Id, TASK_FLAGS, Tells};

/// Most threads that one text may create.
const BIRTHS_MAX: usize = 1 << 20;
/// Number of calls searched for the labels of the standard descriptors.
const LABELS_CALLS: u64 = 10_000;
/// Number of standard descriptors.
const STANDARD: i32 = 3;

/// Creation of a thread.
pub struct Birth {
    /// Id of the thread that created it.
    pub parent: u32,
    /// Kind of creation: thread, fork or vfork.
    pub how: StartHow,
}

/// Results of the first pass.
#[derive(Default)]
pub struct Survey {
    /// Thread id of lines that have none.
    pub unnamed: u32,
    /// Thread id of the first call.
    pub first: u32,
    /// Creations by thread id, in order: ids are reused.
    pub births: HashMap<u32, VecDeque<Birth>>,
    /// Initial directory of the program.
    pub cwd: Option<Vec<u8>>,
    /// Its initial umask.
    pub umask: Option<u32>,
    /// Its user and group ids.
    pub ids: BTreeMap<Id, u32>,
    /// Targets of its standard descriptors at the start.
    pub labels: BTreeMap<i32, Vec<u8>>,
    moved: bool,
    calls: u64,
    born: usize,
}

/// Runs the first pass.
pub fn survey(source: impl BufRead) -> Result<Survey, ImportError> {
    const UNNAMED: u32 = 0;
    let mut text = Text::new(source, UNNAMED);
    let mut survey = Survey::default();
    let mut told = None;
    while let Some(item) = text.next()? {
        let line = item.line;
        survey.item(&item, &mut told).map_err(|what| ImportError::Line { line, what })?;
    }
    if survey.calls == 0 {
        return Err(ImportError::Nothing);
    }
    survey.unnamed = told.unwrap_or(1);
    let name = |tid: &mut u32| {
        if *tid == UNNAMED {
            *tid = survey.unnamed;
        }
    };
    name(&mut survey.first);
    survey.births.values_mut().flatten().for_each(|birth| name(&mut birth.parent));
    Ok(survey)
}

impl Survey {
    fn item(&mut self, item: &Item, told: &mut Option<u32>) -> Result<(), String> {
        let ItemKind::Call { name, text } = &item.kind else { return Ok(()) };
        self.calls += 1;
        if self.calls == 1 {
            self.first = item.tid;
        }
        let Some(row) = syscalls::by_name(name) else { return Ok(()) };
        let early = item.tid == self.first && self.calls <= LABELS_CALLS;
        let labels = early && text.contains(&b'<') && self.labels.len() < STANDARD as usize;
        if self.cwd.is_none() && !self.moved {
            self.cwd = label_of_cwd(text);
        }
        let births = row.act == Act::Spawn;
        let tells = spelling::tells(row.name);
        let wanted = births
            || labels
            || matches!(row.act, Act::TellDirectory | Act::Directory)
            || matches!(tells, Some(Tells::Umask | Tells::Id(_)))
            || told.is_none() && item.tid == 0 && tells == Some(Tells::Thread);
        if !wanted {
            return Ok(());
        }
        let mut cursor = Cursor::new(text);
        let (nodes, _) = cursor.items(b')')?;
        let Some(ret) = result(cursor.rest())?.filter(|ret| *ret >= 0) else { return Ok(()) };
        if labels {
            self.label(row.args, &nodes);
        }
        match tells {
            Some(Tells::Thread) if item.tid == 0 => {
                told.get_or_insert(ret as u32);
            }
            Some(Tells::Umask) if self.umask.is_none() => self.umask = Some(ret as u32 & 0o777),
            Some(Tells::Id(id)) => {
                self.ids.entry(id).or_insert(ret as u32);
            }
            _ => {}
        }
        match row.act {
            Act::TellDirectory if self.cwd.is_none() && !self.moved => {
                if let Some(Node::Text { bytes, cut: false }) = nodes.first() {
                    self.cwd = Some(bytes.clone());
                }
            }
            Act::Directory => self.moved = true,
            _ => {}
        }
        if births && ret > 0 {
            self.birth(item.tid, row, &nodes, ret as u32)?;
        }
        Ok(())
    }

    fn birth(
        &mut self,
        parent: u32,
        row: &Syscall,
        nodes: &[Node<'_>],
        tid: u32,
    ) -> Result<(), String> {
        self.born += 1;
        if self.born > BIRTHS_MAX {
            return Err(format!("more than {BIRTHS_MAX} threads"));
        }
        let flags = flags_of(nodes);
        let how = match row.handler {
            Handler::Vfork => StartHow::Vfork,
            _ if flags & CLONE_THREAD != 0 => StartHow::Thread,
            _ if flags & (CLONE_VFORK | CLONE_VM) == CLONE_VFORK | CLONE_VM => StartHow::Vfork,
            _ => StartHow::Fork,
        };
        self.births.entry(tid).or_default().push_back(Birth { parent, how });
        Ok(())
    }

    /// Records the first label seen of each standard descriptor.
    fn label(&mut self, args: &[syscalls::Arg], nodes: &[Node<'_>]) {
        for (arg, node) in args.iter().zip(nodes) {
            if let (ArgKind::Fd, Node::Labelled(fd, label)) = (arg.kind, node)
                && let Some(fd) = fd.parse().ok().filter(|fd| (0..STANDARD).contains(fd))
            {
                self.labels.entry(fd).or_insert_with(|| label.clone());
            }
        }
    }
}

/// Returns the flags of clone or clone3.
fn flags_of(nodes: &[Node<'_>]) -> u64 {
    let set = &syscalls::flags::CLONE3;
    let word = |node: &Node<'_>| match node {
        Node::Word(word) => number::of_set(word, set),
        _ => None,
    };
    let found = nodes.iter().find_map(|node| match node {
        Node::Named(TASK_FLAGS, value) => word(value),
        Node::Struct { fields, .. } => word(super::memory::field(fields, TASK_FLAGS)?),
        Node::Changed(before, _) => match &**before {
            Node::Struct { fields, .. } => word(super::memory::field(fields, TASK_FLAGS)?),
            _ => None,
        },
        _ => None,
    });
    found.unwrap_or(0)
}

/// Parses `AT_FDCWD</path>`, as `strace -y` prints it.
fn label_of_cwd(text: &[u8]) -> Option<Vec<u8>> {
    const WORD: &[u8] = b"AT_FDCWD<";
    let at = text.windows(WORD.len()).position(|window| window == WORD)?;
    let rest = &text[at + WORD.len()..];
    let end = rest.iter().position(|&c| c == b'>')?;
    unescaped(&rest[..end]).ok().filter(|path| path.starts_with(b"/"))
}
