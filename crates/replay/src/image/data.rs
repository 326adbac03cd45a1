//! Bytes that calls move: a read shows the initial content, a write hides it.

use std::ops::Range;

use model::contents::{self, has, is_cut, piece};
use model::{Contents, OpenId};
use rustix::io::Errno;
use syscalls::record::{SNAPSHOT_WINDOW_BYTES, data_flag, part};
use syscalls::shape::{OffsetIs, offset_of};
use syscalls::{Act, Operand};
use trace::event::{Call, Data, Outcome};

use super::ImageError;
use super::content::Source;
use super::fold::{Asked, Fold, Returning, Wrote};
use super::tree::{NodeId, absolute};
use crate::moves::Moves;

/// Most stretches and ranges kept for all files; beyond that, contents are no longer tracked.
const KEPT_MAX: usize = 2 << 20;
/// Most stretches looked up in the whole pass, not counting the first of each read; beyond that,
/// files with many stretches are no longer tracked.
const LOOKED_UP_MAX: usize = 64 << 20;
/// Modes of fallocate.
const KEEP_SIZE: u64 = 1;
const PUNCH_OR_ZERO: u64 = 2 | 0x10;
const COLLAPSE_OR_INSERT: u64 = 8 | 0x20;

/// A call that moves bytes.
#[derive(Clone, Copy)]
struct Transfer<'a> {
    thread: u32,
    call: &'a Call,
    moves: &'a Moves,
}

impl<'a> Transfer<'a> {
    /// Returns the buffers with the bytes. Each buffer of a vector is one piece, in order.
    fn buffers(&self) -> impl Iterator<Item = &'a Data> + use<'a> {
        let ((arg, part), out) = (self.moves.data, !self.moves.writes);
        let is_it = move |data: &&Data| {
            data.arg == arg && data.part == part && contents::is_out(data) == out
        };
        self.call.data.iter().filter(is_it)
    }
}

impl Fold<'_> {
    /// Handles the beginning of a call that only moves bytes: advances the offset of its open file,
    /// and learns from the bytes read.
    pub fn transfer(
        &mut self,
        thread: u32,
        tsc: u64,
        call: &Call,
        moves: &Moves,
    ) -> Result<(), ImageError> {
        let Outcome::Returned { exit_tsc: exit, ret: ret @ 0.. } = call.outcome else {
            return Ok(());
        };
        if self.world.is_answered(thread, call) {
            return Ok(());
        }
        let Some(id) = self.open_at(thread, call.args[0] as i32) else { return Ok(()) };
        let place = moves.offset.map(|arg| call.args[usize::from(arg)]);
        // preadv2 and pwritev2 take -1 for the file's own offset.
        let position = place.filter(|at| *at != u64::MAX);
        let transfer = Transfer { thread, call, moves };
        if !moves.writes {
            let moved = self.advance((thread, tsc, exit), id, position, ret as u64);
            let Some((node, range, sure)) = moved else { return Ok(()) };
            match sure {
                true => self.read(&transfer, node, range)?,
                false if transfer.buffers().any(is_cut) => {
                    self.untold_of(&transfer, [node].into());
                }
                false => {}
            }
            return Ok(());
        }
        let wrote = self.append(id, ret as u64).or_else(|| {
            let moved = self.advance((thread, tsc, exit), id, position, ret as u64);
            moved.map(|(node, range, _)| (node, range))
        });
        if let Some((node, range)) = wrote {
            let blanks = blanks(&transfer, &range);
            self.pending.add(exit, thread, Returning::Write(Wrote { node, range, blanks }));
        }
        Ok(())
    }

    /// Returns the open file behind a descriptor.
    fn open_at(&self, thread: u32, fd: i32) -> Option<OpenId> {
        Some(self.world.descriptors(thread)?.get(fd)?.description.id())
    }

    /// Notes the ranges of a call that copies between files.
    pub fn copies(&mut self, asked: &mut Asked) {
        let len = asked.success().unwrap_or(0).max(0) as u64;
        asked.from = self.range(asked, Operand::Source, Operand::SourceAt, len);
        asked.to = self.range(asked, Operand::Target, Operand::TargetAt, len);
    }

    /// Returns the range that a call accesses, given an offset, a pointer to one, or neither.
    fn range(&mut self, asked: &Asked, file: Operand, at: Operand, len: u64) -> Option<Range<u64>> {
        let id = asked.open_of(file)?;
        let position = match offset_of(asked.args, &asked.call.args, at) {
            OffsetIs::Own => None,
            OffsetIs::Given(position) => Some(position),
            OffsetIs::Behind(arg) => {
                let told = piece(&asked.call.data, arg, part::WHOLE, 0, false);
                let told = told.and_then(|data| self.stored.read(&data.content, 8).ok());
                told.and_then(|bytes| Some(u64::from_le_bytes(bytes.try_into().ok()?)))
            }
        };
        let when = (asked.thread, asked.tsc, asked.exit_tsc());
        self.advance(when, id, position, len).map(|(_, range, _)| range)
    }

    /// Returns the file and the range that a call moves, and whether it is certain: if two threads
    /// use one offset at the same time, their order is unknown.
    #[inline]
    fn advance(
        &mut self,
        (thread, tsc, exit): (u32, u64, u64),
        id: OpenId,
        position: Option<u64>,
        len: u64,
    ) -> Option<(NodeId, Range<u64>, bool)> {
        let open = self.opens.get_mut(id)?;
        // The kernel supports no larger offsets.
        let end = |start: u64| start.checked_add(len).filter(|end| *end <= i64::MAX as u64);
        let Some(start) = position else {
            let (until, by) = open.busy;
            let sure = until <= tsc || by == thread;
            open.busy = (until.max(exit), thread);
            let start = open.offset;
            open.offset = end(start)?;
            return Some((open.node, start..open.offset, sure));
        };
        Some((open.node, start..end(start)?, true))
    }

    /// Returns the file and the range of an appending write.
    fn append(&mut self, id: OpenId, len: u64) -> Option<(NodeId, Range<u64>)> {
        let open = self.opens.get_mut(id)?;
        if !open.append {
            return None;
        }
        let content = self.tree.content(open.node)?;
        let end = content.now.checked_add(len).filter(|end| *end <= i64::MAX as u64)?;
        let range = content.now..end;
        (content.now, open.offset) = (end, end);
        Some((open.node, range))
    }

    fn read(
        &mut self,
        transfer: &Transfer<'_>,
        node: NodeId,
        range: Range<u64>,
    ) -> Result<(), ImageError> {
        let node = self.tree.find(node);
        let Some(content) = self.tree.content(node) else { return Ok(()) };
        content.now = content.now.max(range.end);
        if content.is_written(&range) {
            return Ok(());
        }
        let mut start = range.start;
        for data in transfer.buffers() {
            let end = start.saturating_add(data.true_len).min(range.end);
            self.read_piece(node, start..end, data)?;
            if is_cut(data) {
                let stored = start.saturating_add(data.content.len()).min(end);
                let sources = self.look_up(node, stored..end);
                let owners = sources.into_iter().filter_map(|(_, source)| match source {
                    Source::Own => Some(node),
                    Source::Copied { node: from, .. } => Some(from),
                    Source::Written => None,
                });
                self.untold_of(transfer, owners.collect());
            }
            start = end;
        }
        Ok(())
    }

    /// Notes that initial bytes of these files were read but are not in the trace.
    fn untold_of(&mut self, transfer: &Transfer<'_>, owners: Vec<NodeId>) {
        let Some(table) = self.world.descriptors(transfer.thread) else { return };
        let Some(entry) = table.get(transfer.call.args[0] as i32) else { return };
        for owner in owners {
            self.untold.note(owner, &entry.description.path);
        }
    }

    /// Learns from the content that was stored before a call that changes a file, or may.
    pub fn stored_whole(&mut self, asked: &Asked, node: NodeId) -> Result<(), ImageError> {
        for data in asked.call.data.iter().filter(|data| data.part == part::SNAPSHOT) {
            let start = u64::from(data.index) * SNAPSHOT_WINDOW_BYTES;
            self.read_piece(node, start..start.saturating_add(data.true_len), data)?;
        }
        Ok(())
    }

    /// Returns the origins of a range's bytes. Gives up on a file after too many lookups.
    fn look_up(&mut self, node: NodeId, range: Range<u64>) -> Vec<(Range<u64>, Source)> {
        let Some(content) = self.tree.content(node) else { return Vec::new() };
        let sources = content.sources(range);
        self.looked_up += sources.len();
        if self.looked_up > LOOKED_UP_MAX && sources.len() > 1 {
            self.kept = self.kept.saturating_sub(content.stretches());
            content.give_up();
            self.seen.given_up += 1;
        }
        sources
    }

    /// Learns from bytes read of a file: they are initial content where no call has written.
    pub fn read_piece(
        &mut self,
        node: NodeId,
        range: Range<u64>,
        data: &Data,
    ) -> Result<(), ImageError> {
        if has(data, data_flag::FAULT) || range.is_empty() {
            return Ok(());
        }
        let stored = data.content.len();
        for (stretch, source) in self.look_up(node, range.clone()) {
            let (owner, at) = match source {
                Source::Own => (node, stretch.start),
                Source::Copied { node, offset } => (node, offset),
                Source::Written => continue,
            };
            let skip = stretch.start - range.start;
            let len = (stretch.end - stretch.start).min(stored.saturating_sub(skip));
            self.learn_bytes(owner, at..at.saturating_add(len), data, skip)?;
        }
        Ok(())
    }

    /// Learns a range of a file's initial content, found in a buffer after `skip` bytes.
    fn learn_bytes(
        &mut self,
        owner: NodeId,
        range: Range<u64>,
        data: &Data,
        skip: u64,
    ) -> Result<(), ImageError> {
        if !self.tree.node(owner).initial {
            return Ok(());
        }
        let Some(content) = self.tree.content(owner) else { return Ok(()) };
        let missing = content.seen.missing(range.clone());
        if missing.is_empty() {
            return Ok(());
        }
        let mut staged = content.staged;
        let path = self.tree.path_at_first(owner).map_or(b"/".to_vec(), |names| absolute(&names));
        let (mut at, mut failed) = (0, None);
        let staging = &mut self.staging;
        let read = self.stored.each(&data.content, &mut |bytes| {
            let here = at..at + bytes.len() as u64;
            at = here.end;
            for want in &missing {
                let in_buffer = want.start - range.start + skip..want.end - range.start + skip;
                let from = in_buffer.start.max(here.start);
                let to = in_buffer.end.min(here.end);
                if from >= to {
                    continue;
                }
                let piece = &bytes[(from - here.start) as usize..(to - here.start) as usize];
                // Zeros stay holes.
                if piece.iter().any(|&byte| byte != 0) {
                    let offset = want.start + (from - in_buffer.start);
                    failed = staging.write(&mut staged, &path, offset, piece).err();
                }
                if failed.is_some() {
                    return false;
                }
            }
            true
        });
        match failed {
            Some(error) if Errno::from_io_error(&error) == Some(Errno::FBIG) => {
                self.seen.too_large += 1;
                return Ok(());
            }
            Some(source) => return Err(ImageError::Write { path, source }),
            None => {}
        }
        if let Some(error) = self.stored.error.take() {
            return Err(ImageError::Data(error));
        }
        let Some(content) = self.tree.content(owner) else { return Ok(()) };
        content.staged = staged;
        if read.is_ok() && self.kept < KEPT_MAX {
            let before = content.seen.count();
            content.seen.add(range.clone());
            self.kept = (self.kept + content.seen.count()).saturating_sub(before);
            self.seen.bytes += range.end - range.start;
        }
        Ok(())
    }

    /// Handles the return of a call that copied between files.
    pub fn moved(&mut self, asked: &Asked) -> Result<(), ImageError> {
        if asked.act != Act::Copy {
            return Ok(());
        }
        let source = asked.open_of(Operand::Source).zip(asked.from.clone());
        match (asked.open_of(Operand::Target), asked.to.clone()) {
            (Some(id), Some(range)) => self.copied(source, id, range),
            _ => Ok(()),
        }
    }

    /// Handles the return of a write.
    pub fn wrote(&mut self, wrote: Wrote) {
        let Wrote { node, range, blanks } = wrote;
        self.change(node, |content| {
            content.write(range);
            blanks.into_iter().for_each(|blank| content.leave_blank(blank));
        });
    }

    /// Changes a content, and gives up tracking it if too much is kept.
    pub fn change(&mut self, node: NodeId, change: impl FnOnce(&mut super::content::Content)) {
        let Some(content) = self.tree.content(node) else { return };
        let before = content.stretches();
        change(content);
        self.kept = (self.kept + content.stretches()).saturating_sub(before);
        if self.kept > KEPT_MAX {
            self.kept = self.kept.saturating_sub(content.stretches());
            content.give_up();
            self.seen.given_up += 1;
        }
        self.tree.node_mut(node).changed.mtime = true;
    }

    fn copied(
        &mut self,
        source: Option<(OpenId, Range<u64>)>,
        id: OpenId,
        range: Range<u64>,
    ) -> Result<(), ImageError> {
        let Some(target) = self.opens.get(id).map(|open| open.node) else { return Ok(()) };
        let source = source.and_then(|(id, range)| Some((self.opens.get(id)?.node, range)));
        let Some((from, bytes)) = source else {
            self.change(target, |content| content.write(range));
            return Ok(());
        };
        let from = self.tree.find(from);
        let parts = self.look_up(from, bytes.clone());
        let content = self.tree.content(from);
        let blanks: Vec<_> =
            content.into_iter().flat_map(|c| c.blank.within(bytes.clone())).collect();
        self.change(target, |content| {
            for (part, source) in parts {
                let at = range.start.saturating_add(part.start - bytes.start);
                let end = at.saturating_add(part.end - part.start);
                let source = match source {
                    Source::Own => Source::Copied { node: from, offset: part.start },
                    other => other,
                };
                content.copy(at..end, source);
            }
            for blank in blanks {
                let at = range.start.saturating_add(blank.start - bytes.start);
                content.leave_blank(at..at.saturating_add(blank.end - blank.start));
            }
        });
        Ok(())
    }

    /// Handles fallocate.
    pub fn allocated(&mut self, asked: &Asked) {
        let Some(open) = asked.open(0).and_then(|id| self.opens.get(id)) else { return };
        let node = open.node;
        let [_, mode, offset, len, ..] = asked.call.args;
        let Some(end) = offset.checked_add(len).filter(|end| *end <= i64::MAX as u64) else {
            return;
        };
        self.change(node, |content| {
            if mode & COLLAPSE_OR_INSERT != 0 {
                content.give_up();
                return;
            }
            let now = content.now;
            if mode & PUNCH_OR_ZERO != 0 {
                content.write(offset..end);
            }
            content.now = if mode & KEEP_SIZE != 0 { now } else { now.max(end) };
        });
    }

    /// Handles a call that shares all of a file's content with another one.
    pub fn cloned(&mut self, asked: &Asked) -> Result<(), ImageError> {
        let (Some(source), Some(target)) =
            (asked.open_of(Operand::Source), asked.open_of(Operand::Target))
        else {
            return Ok(());
        };
        let Some(from) = self.opens.get(source).map(|open| open.node) else { return Ok(()) };
        let len = self.tree.content(from).map_or(0, |content| content.now);
        self.copied(Some((source, 0..len)), target, 0..len)
    }

    /// Handles a call that shares a range.
    pub fn cloned_range(&mut self, asked: &Asked) -> Result<(), ImageError> {
        let Some(target) = asked.open_of(Operand::Target) else { return Ok(()) };
        let call = &asked.call;
        let Some(data) = contents::latest(&call.data, 2, part::WHOLE, 0) else { return Ok(()) };
        let Ok(bytes) = self.stored.read(&data.content, 32) else { return Ok(()) };
        let words: Vec<u64> = bytes
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().expect("chunks of 8")))
            .collect();
        let [fd, from, len, to] = words[..] else { return Ok(()) };
        let table = self.world.descriptors(asked.thread);
        let id = table.and_then(|t| t.get(fd as i32).map(|entry| entry.description.id()));
        let Some(id) = id else { return Ok(()) };
        let node = self.opens.get(id).map(|open| open.node);
        let now = node.and_then(|node| self.tree.content(node)).map_or(0, |content| content.now);
        // Length 0 means up to the end.
        let len = if len == 0 { now.saturating_sub(from) } else { len };
        let (Some(from_end), Some(to_end)) = (from.checked_add(len), to.checked_add(len)) else {
            return Ok(());
        };
        self.copied(Some((id, from..from_end)), target, to..to_end)
    }
}

/// Returns the written ranges whose bytes are not in the trace.
fn blanks(transfer: &Transfer<'_>, range: &Range<u64>) -> Vec<Range<u64>> {
    let mut blanks = Vec::new();
    let mut add = |blank: Range<u64>| {
        if !blank.is_empty() {
            blanks.push(blank);
        }
    };
    let mut start = range.start;
    for data in transfer.buffers() {
        let end = start.saturating_add(data.true_len).min(range.end);
        let stored = start.saturating_add(data.content.len()).min(end);
        add(stored..end);
        start = end;
    }
    add(start..range.end);
    blanks
}
