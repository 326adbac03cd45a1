//! What recorded calls change of files that are mapped.

use std::fs::File;
use std::io;
use std::ops::Range;

use model::{Access, Contents, FileId, Moment};
use render::escape::escaped;
use syscalls::{Act, Syscall};
use trace::event::Call;

use super::place::{Place, copy};
use super::{Shadow, Shadows, failed, place};
use crate::sent::each_sent;

/// Modes of an allocation that change no byte.
const WITHOUT_BYTES: i32 = libc::FALLOC_FL_KEEP_SIZE | libc::FALLOC_FL_UNSHARE_RANGE;

impl Shadows {
    /// Does to shadows what a call did to their files.
    pub fn follow(
        &mut self,
        moment: &Moment<'_>,
        call: &Call,
        row: Option<&Syscall>,
        contents: &mut dyn Contents,
    ) -> Result<(), String> {
        if self.by_file.is_empty() && self.originals.is_empty() || call.success().is_none() {
            return Ok(());
        }
        let touch = moment.touch;
        let [read, written] = &touch.accesses;
        if let Some(write) = written.filter(|access| access.is_write) {
            self.written(&write, read.as_ref(), (call, row), contents)?;
        }
        if let Some((file, length)) = touch.length {
            self.change(file, |shadow, (_, file)| shadow.resize(file, length).map(|()| true))?;
        }
        let act = row.map(|row| row.act_of(&call.args));
        let Some((file, _)) = touch.by_fd else { return Ok(()) };
        match act {
            Some(Act::Allocate) => {
                let [_, mode, at, len, ..] = call.args;
                self.change(file, |shadow, (_, file)| {
                    shadow.allocate(file, mode as i32, at..at.saturating_add(len))
                })
            }
            // The trace does not have what was cloned.
            Some(Act::CloneFile | Act::CloneRange) => self.change(file, |shadow, _| {
                shadow.known.remove(0..u64::MAX);
                Ok(false)
            }),
            _ => Ok(()),
        }
    }

    /// A call has written to a file.
    fn written(
        &mut self,
        write: &Access,
        read: Option<&Access>,
        (call, row): (&Call, Option<&Syscall>),
        contents: &mut dyn Contents,
    ) -> Result<(), String> {
        let source = read.and_then(|read| Some((*self.by_file.get(&read.file)?, read.offset?)));
        let source = source.and_then(|(number, at)| {
            let range = at..at.saturating_add(write.bytes);
            let file = self.place.as_ref().ok()?.open(number).ok()?;
            self.all[&number].known.has(range.clone()).then_some((file, range))
        });
        self.change(write.file, |shadow, (place, file)| {
            let Some(offset) = write.offset else { return Ok(true) };
            let begin = if write.appends { shadow.size } else { offset };
            let end = begin.checked_add(write.bytes).ok_or(io::ErrorKind::FileTooLarge)?;
            let mut at = begin;
            let left = each_sent(call, row, write.bytes, contents, &mut |bytes| {
                let put = shadow.put((place, file), at, bytes);
                at += bytes.len() as u64;
                put.map_err(|error| error.to_string())
            });
            let left = left.map_err(io::Error::other)?;
            if end > shadow.size {
                shadow.resize(file, end)?;
            }
            shadow.known.add(begin..at);
            if left > 0 {
                let Some((source, range)) = source else {
                    shadow.known.remove(at..end);
                    return Ok(false);
                };
                place.has_room_for(left)?;
                copy(&source, file, range, at)?;
                shadow.known.add(at..end);
            }
            Ok(true)
        })
    }

    /// Changes the shadow of a file, if it has one. `change` says whether all its bytes are known.
    fn change(
        &mut self,
        id: FileId,
        change: impl FnOnce(&mut Shadow, (&Place, &File)) -> io::Result<bool>,
    ) -> Result<(), String> {
        if let Some(path) = self.originals.get(&id) {
            let path = escaped(path);
            self.doubt(format!(
                "{path} is too large for its bytes to be in the trace, so what was written to it later is \
                 not seen where it is mapped"
            ));
            return Ok(());
        }
        let Some(number) = self.by_file.get(&id).copied() else { return Ok(()) };
        let (Ok(place), Some(shadow)) = (&self.place, self.all.get_mut(&number)) else {
            return Ok(());
        };
        shadow.hash = None;
        let changed = place
            .has_room()
            .and_then(|()| place.open(number))
            .and_then(|file| change(shadow, (place, &file)));
        let is_known = changed.map_err(|error| failed(place, &shadow.path, &error))?;
        if !is_known {
            let path = escaped(&shadow.path);
            self.doubt(format!(
                "the kernel copied or moved bytes to {path}, which is mapped, and the trace does not hold them"
            ));
        }
        Ok(())
    }
}

impl Shadow {
    /// Sets the length. What becomes longer is zeros.
    fn resize(&mut self, file: &File, size: u64) -> io::Result<()> {
        let before = self.size;
        file.set_len(size)?;
        self.size = size;
        self.known.remove(size..u64::MAX);
        self.known.add(before..size);
        Ok(())
    }

    /// Does what an allocation did. Returns false if bytes are not known any more.
    fn allocate(&mut self, file: &File, mode: i32, range: Range<u64>) -> io::Result<bool> {
        let keeps_size = mode & libc::FALLOC_FL_KEEP_SIZE != 0;
        let is_shift = mode & (libc::FALLOC_FL_COLLAPSE_RANGE | libc::FALLOC_FL_INSERT_RANGE) != 0;
        if is_shift {
            let was_known = self.known.has(0..self.size);
            let shifted = place::shift(file, mode, &range);
            self.known.remove(range.start..u64::MAX);
            self.size = file.metadata()?.len();
            if was_known && shifted.is_ok() {
                self.known.add(0..self.size);
            }
            return Ok(was_known && shifted.is_ok());
        }
        if !keeps_size && range.end > self.size {
            self.resize(file, range.end)?;
        }
        if mode & !WITHOUT_BYTES != 0 {
            let within = range.start..range.end.min(self.size);
            if !within.is_empty() {
                place::clear(file, within.clone())?;
                self.known.add(within);
            }
        }
        Ok(true)
    }
}
