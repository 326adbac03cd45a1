//! Looks up what a call says of descriptors and memory, in the state of its process.

use syscalls::abi::files::{O_ACCMODE, S_IFIFO, S_IFMT, S_IFREG};
use syscalls::record::part;
use trace::event::{Call, Identity};

use super::look::{Look, Opened, OpenedKind};
use crate::contents::{Contents, latest};
use crate::open_files::{Description, Origin};
use crate::world::World;

/// A call in the context of its thread.
pub(super) struct InWorld<'a> {
    pub world: &'a World,
    pub thread: u32,
    pub process: u32,
    pub call: &'a Call,
    pub contents: &'a mut dyn Contents,
}

impl Look for InWorld<'_> {
    fn opened(&self, fd: i32) -> Option<Opened> {
        let table = self.world.descriptors(self.thread)?;
        let description = &table.get(fd)?.description;
        Some(Opened { name: description.path.clone(), kind: kind_of(description) })
    }

    fn is_writable(&self, fd: i32) -> bool {
        let table = self.world.descriptors(self.thread);
        let flags = table.and_then(|table| table.get(fd)?.description.flags);
        flags.is_none_or(|flags| flags & O_ACCMODE != 0)
    }

    fn program(&self) -> Vec<u8> {
        let process = self.world.process(self.process);
        process.map_or_else(Vec::new, |process| process.exe.to_vec())
    }

    fn memory(&mut self, arg: u8, max: usize) -> Option<Vec<u8>> {
        let data = latest(&self.call.data, arg, part::WHOLE, 0)?;
        self.contents.read(&data.content, max).ok()
    }
}

fn kind_of(description: &Description) -> OpenedKind {
    let by_mode = |identity: &Identity| match identity.mode & S_IFMT {
        S_IFREG => None,
        S_IFIFO => Some(OpenedKind::Pipe),
        _ => Some(OpenedKind::Other),
    };
    match description.origin {
        Origin::Memory => OpenedKind::Memory,
        Origin::Pipe | Origin::SocketPair | Origin::Passed => OpenedKind::Pipe,
        Origin::Socket | Origin::Anonymous => OpenedKind::Other,
        Origin::Path | Origin::Outside | Origin::Unnamed | Origin::Taken => {
            let by_mode = description.identity.as_ref().and_then(by_mode);
            by_mode.unwrap_or_else(|| OpenedKind::of_path(&description.path))
        }
    }
}
