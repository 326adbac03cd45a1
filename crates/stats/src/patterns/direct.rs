//! Transfers past the cache (O_DIRECT) that are not in whole blocks.

use std::cmp::Reverse;
use std::collections::HashMap;

use model::{FileId, Moment, Namespace, file_use};
use render::amounts::{counted, show_count};
use syscalls::abi::errno::EINVAL;
use syscalls::abi::files::O_DIRECT;
use syscalls::shape::Classes;
use trace::event::Call;

use super::finding::Finding;
use super::kinds::FindingKind;
use super::often::{COUNTED_MAX, OFTEN_SLOW, Often};
use super::prices::Prices;
use crate::activity::Activity;

/// The greatest block that is common.
const BLOCK: u64 = 4096;

/// Transfers of a file past the cache.
#[derive(Default)]
struct Transfers {
    all: u64,
    /// Those that failed, and those in parts of blocks.
    failed: u64,
    odd: Often,
    activity: Option<Activity>,
}

/// The fold.
#[derive(Default)]
pub struct Direct {
    files: HashMap<FileId, Transfers>,
}

impl Direct {
    /// Takes a call. Returns the file of one that is not in whole blocks.
    pub fn add(&mut self, moment: &Moment<'_>, call: &Call, activity: Activity) -> Option<FileId> {
        let used = file_use::of(call.nr);
        let (file, _) = moment.touch.by_fd?;
        if !used.is(Classes::READ.or(Classes::WRITE)) || !is_direct(moment, call) {
            return None;
        }
        if self.files.len() >= COUNTED_MAX && !self.files.contains_key(&file) {
            return None;
        }
        let of = self.files.entry(file).or_default();
        of.all += 1;
        of.activity = Some(activity);
        let failed = call.error() == Some(EINVAL);
        let is_odd = |value: u64| !value.is_multiple_of(BLOCK);
        let mut accesses = moment.touch.accesses.iter().flatten();
        let odd = accesses.any(|access| {
            is_odd(access.offset.unwrap_or(0)) || is_odd(access.asked.unwrap_or(access.bytes))
        });
        of.failed += u64::from(failed);
        if failed || odd {
            let bytes = call.success().map_or(0, |bytes| bytes as u64);
            of.odd.add_call(bytes, moment.duration_ns().unwrap_or(0), moment.seq);
        }
        (failed || odd).then_some(file)
    }

    /// Returns a finding for the file with most of them, if they are many.
    pub fn finish(&self, files: &Namespace, prices: &Prices) -> Option<(FileId, Finding)> {
        let many = self.files.iter().filter(|(_, of)| of.odd.count >= OFTEN_SLOW);
        let (file, of) = many.max_by_key(|(file, of)| (of.odd.count, Reverse(**file)))?;
        let evidence = format!(
            "{} of {} with O_DIRECT are not in whole blocks of 4 KiB; {} failed (EINVAL)",
            show_count(of.odd.count),
            counted(of.all, "read or write", "reads and writes"),
            show_count(of.failed),
        );
        let about = (of.activity?, prices);
        let finding = Finding::about(FindingKind::DirectMisaligned, &of.odd, about, evidence);
        Some((*file, Finding { file: files.path(*file), ..finding }))
    }
}

fn is_direct(moment: &Moment<'_>, call: &Call) -> bool {
    let used = file_use::of(call.nr);
    let fd = file_use::FileUse::descriptor(call, used.from.or(used.to).or(used.fd));
    let Some(table) = moment.world.descriptors(moment.event.thread) else { return false };
    let flags = fd.and_then(|fd| table.get(fd)).and_then(|entry| entry.description.flags);
    flags.is_some_and(|flags| flags & O_DIRECT != 0)
}
