//! Search for patterns that cost performance.

mod callers;
mod content;
mod costly;
mod direct;
mod finding;
mod kinds;
mod locks;
mod missing;
mod often;
mod prices;
mod remade;
mod run;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use model::{Access, Conditions, FileId, Moment, Namespace, OpenId, Paths, file_use};
use render::amounts::{counted, show_count, show_size};
use syscalls::abi::errno::ENOENT;
use trace::Trace;
use trace::event::{Call, EventKind};

use crate::activity::{Activity, WallTime};
use crate::durability::{Durability, SafetyOfFiles};
use crate::pass::{self, Visit, Watch};
use crate::ranges::Ranges;
use crate::same_device::SameDevice;
use crate::sheet::{Cell, Fact};
use crate::sites::SiteId;
use crate::view::ViewRow;
use callers::Callers;
use content::Written;
use direct::Direct;
use locks::Locks;
use missing::Missing;
use often::{COUNTED_MAX, OFTEN, OFTEN_SLOW, Often};
use run::Run;

pub use finding::{Finding, Severity, sheet};
pub use kinds::FindingKind;

/// The view.
pub static VIEW: ViewRow = ViewRow {
    name: "patterns",
    about: "Findings: likely performance problems, most expensive first, with evidence and advice",
    look: |look| {
        let fold = Both::of_chosen(look.conditions, look.trace);
        Ok(look.watch(fold, |fold, files| {
            let (wall, findings, Around { device, hint }) = fold.finish(files);
            let mut sheet = sheet(&findings);
            sheet.notes.extend(hint.map(str::to_string));
            if wall.run_ns > 0 {
                let line = Cell::Word(wall.line().into());
                sheet.facts.insert(0, Fact { key: "wall", title: "time went to", value: line });
            }
            sheet.notes.extend(device.note(&wall));
            sheet
        }))
    },
};

/// Limit for the calls of a recording in which the first finding is looked for beside another view.
const BESIDE_CALLS_MAX: u64 = 200_000;

/// Returns the first of the findings of a whole recording, if it is more than a note; `None` where a
/// further pass over the recording would take long.
pub fn first(trace: &Trace) -> Option<Option<Finding>> {
    if trace.totals().is_none_or(|totals| totals.calls_written > BESIDE_CALLS_MAX) {
        return None;
    }
    let conditions = Conditions::default();
    let mut fold = Both::of_chosen(&conditions, trace);
    let (files, _) = pass::in_order(trace, &conditions, &mut fold);
    let first = fold.finish(&files).1.into_iter().next();
    Some(first.filter(|of| of.severity() != Severity::Note))
}

/// What a buffer holds that makes few calls of many.
const BUFFER: u64 = 64 << 10;
/// Writes below this size are small.
const SMALL_BYTES: u64 = 1024;
const PAGE: u64 = 4096;
/// Minimum number of bytes of repeated or compressible data to be reported.
const MUCH: u64 = 1 << 20;
/// Minimum number of descriptors of one call site left open at the end.
const LEAK_MIN: u64 = 32;
/// Limit for the ranges of all files together.
const RANGES_MAX: usize = 1 << 19;

/// Events of a file.
#[derive(Clone, Debug, Default)]
struct OfFile {
    writes: u64,
    written_bytes: u64,
    reads: u64,
    read_bytes: u64,
    /// Counts by kind of finding, and by what the calls do.
    often: HashMap<(FindingKind, Activity), Often>,
    /// Reads of which a part was read before, and a part was not.
    overlaps: u64,
    read: Ranges,
    seeks: u64,
}

impl OfFile {
    /// Adds the events of another file with the same path.
    fn add(&mut self, other: &OfFile) {
        self.writes += other.writes;
        self.written_bytes = self.written_bytes.saturating_add(other.written_bytes);
        self.reads += other.reads;
        self.read_bytes = self.read_bytes.saturating_add(other.read_bytes);
        self.seeks += other.seeks;
        self.overlaps += other.overlaps;
        for (kind, often) in &other.often {
            self.often.entry(*kind).or_default().merge(often);
        }
    }
}

/// State of an open file after its last access.
#[derive(Clone, Copy, Debug, Default)]
struct Left {
    write_end: u64,
    /// True if its position was moved without an access since.
    seeked: bool,
}

/// Where a file was opened.
#[derive(Clone, Copy, Debug)]
struct Opened {
    site: SiteId,
    /// Number of the process.
    process: u32,
}

/// Descriptors opened by one call site and never closed.
#[derive(Clone, Debug, Default)]
struct Leak {
    count: u64,
    file: FileId,
}

/// The fold that searches for patterns.
pub struct Patterns {
    callers: Callers,
    files: HashMap<FileId, OfFile>,
    /// Number of events by kind, file and call site.
    places: HashMap<(FindingKind, FileId, SiteId), u64>,
    left: HashMap<OpenId, Left>,
    missing: Missing,
    written: Written,
    locks: Locks,
    direct: Direct,
    opened: HashMap<OpenId, Opened>,
    leaks: HashMap<SiteId, Leak>,
    ranges: usize,
    run: Run,
    /// CPUs of the machine, 0 if that is not known.
    cpus: u32,
}

/// Patterns, and what they need besides.
struct Both {
    patterns: Patterns,
    durability: Durability,
    device: SameDevice,
}

/// What is said beside findings.
struct Around {
    device: SameDevice,
    hint: Option<&'static str>,
}

impl Both {
    fn of_chosen(conditions: &Conditions, trace: &Trace) -> Both {
        let patterns = Patterns::of_chosen(conditions, trace);
        Both { patterns, durability: Durability::new(u64::MAX), device: SameDevice::of(trace) }
    }

    fn finish(self, files: &Namespace) -> (WallTime, Vec<Finding>, Around) {
        let safety = self.durability.finish(files);
        let (wall, findings, hint) = self.patterns.finish(files, &safety);
        (wall, findings, Around { device: self.device, hint })
    }
}

impl Watch for Both {
    fn add(&mut self, visit: &mut Visit<'_>) {
        self.patterns.add(visit);
        self.durability.add(visit);
        self.device.add(visit.moment);
    }
}

impl Default for Patterns {
    fn default() -> Patterns {
        Patterns {
            callers: Callers::default(),
            files: HashMap::new(),
            places: HashMap::new(),
            left: HashMap::new(),
            missing: Missing::default(),
            written: Written::default(),
            locks: Locks::new(),
            direct: Direct::default(),
            opened: HashMap::new(),
            leaks: HashMap::new(),
            ranges: 0,
            run: Run::default(),
            cpus: 0,
        }
    }
}

/// Call site, duration and number of a call, and what its thread did in it.
struct At {
    site: SiteId,
    ns: u64,
    number: Option<u64>,
    activity: Activity,
}

impl Patterns {
    /// Makes the fold for those events of a trace that conditions choose.
    pub fn of_chosen(conditions: &Conditions, trace: &Trace) -> Patterns {
        let cpus = trace.preamble().cpus;
        Patterns { run: Run::of_chosen(conditions), cpus, ..Patterns::default() }
    }

    fn note(&mut self, kind: FindingKind, file: FileId, bytes: u64, at: &At) {
        let of = self.files.entry(file).or_default();
        of.often.entry((kind, at.activity)).or_default().add_call(bytes, at.ns, at.number);
        self.place(kind, file, at.site);
    }

    fn place(&mut self, kind: FindingKind, file: FileId, site: SiteId) {
        let key = (kind, file, site);
        if self.places.len() < COUNTED_MAX || self.places.contains_key(&key) {
            *self.places.entry(key).or_default() += 1;
        }
    }

    fn left(&mut self, open: OpenId) -> &mut Left {
        if self.left.len() >= COUNTED_MAX {
            self.left.clear();
        }
        self.left.entry(open).or_default()
    }

    fn access(&mut self, access: &Access, files: &Namespace, at: &At) {
        let short = access.asked.is_some_and(|asked| access.bytes < asked);
        if access.is_write && short {
            self.note(FindingKind::ShortWrites, access.file, access.bytes, at);
        }
        let Some(offset) = access.offset else { return };
        let end = offset.saturating_add(access.bytes);
        let left = self.left(access.open);
        left.seeked = false;
        let sequential = left.write_end == offset;
        if access.is_write {
            left.write_end = end;
            self.write(access, offset, sequential, at);
        } else {
            let within = end < files.file(access.file).size;
            if short && access.bytes > 0 && within {
                self.note(FindingKind::ShortReads, access.file, access.bytes, at);
            }
            self.read(access, offset, files.file(access.file).is_stored, at);
        }
    }

    fn write(&mut self, access: &Access, offset: u64, sequential: bool, at: &At) {
        let of = self.files.entry(access.file).or_default();
        of.writes += 1;
        of.written_bytes = of.written_bytes.saturating_add(access.bytes);
        let whole = offset.is_multiple_of(PAGE) && access.bytes.is_multiple_of(PAGE);
        if (1..SMALL_BYTES).contains(&access.bytes) {
            self.note(FindingKind::SmallWrites, access.file, access.bytes, at);
        } else if !sequential && !whole && access.bytes > 0 {
            self.note(FindingKind::UnalignedWrites, access.file, access.bytes, at);
        }
    }

    fn read(&mut self, access: &Access, offset: u64, is_stored: bool, at: &At) {
        let of = self.files.entry(access.file).or_default();
        of.reads += 1;
        of.read_bytes = of.read_bytes.saturating_add(access.bytes);
        if access.asked.unwrap_or(access.bytes) < SMALL_BYTES && access.bytes > 0 {
            self.note(FindingKind::SmallReads, access.file, access.bytes, at);
        }
        // What the kernel makes up (/proc) may differ each time.
        if self.ranges >= RANGES_MAX || !is_stored {
            return;
        }
        let of = self.files.entry(access.file).or_default();
        let before = of.read.count();
        let known = of.read.add(offset, access.bytes);
        self.ranges = (self.ranges + of.read.count()).saturating_sub(before);
        of.overlaps += u64::from(known > 0 && known < access.bytes);
        if known > 0 {
            self.note(FindingKind::Rereads, access.file, known, at);
        }
    }

    fn seek(&mut self, file: FileId, open: OpenId, moved: bool, at: &At) {
        self.files.entry(file).or_default().seeks += 1;
        let left = self.left(open);
        let undone = left.seeked;
        left.seeked = true;
        if undone || !moved {
            self.note(FindingKind::UselessSeeks, file, 0, at);
        }
    }

    /// Counts leaked descriptors: those still open when the last thread of a process ends.
    fn ended(&mut self, moment: &Moment<'_>) {
        let Some(thread) = moment.world.thread(moment.event.thread) else { return };
        self.missing.ended(thread.process);
        let Some(table) = moment.world.descriptors(moment.event.thread) else { return };
        let mut by_site: HashMap<SiteId, Leak> = HashMap::new();
        for (_, entry) in table.iter() {
            let Some(opened) = self.opened.get(&entry.description.id()) else { continue };
            if opened.process != thread.process {
                continue;
            }
            let file = entry.description.file().unwrap_or_default();
            let leak = by_site.entry(opened.site).or_default();
            *leak = Leak { count: leak.count + 1, file };
        }
        for (site, leak) in by_site.into_iter().filter(|(_, leak)| leak.count >= LEAK_MIN) {
            let all = self.leaks.entry(site).or_default();
            *all = Leak { count: all.count + leak.count, file: leak.file };
        }
    }

    /// Remembers where files were opened, until nobody has them open.
    fn opened(&mut self, moment: &Moment<'_>, call: &Call, site: SiteId) {
        if call.site == 0 {
            return;
        }
        let thread = moment.world.thread(moment.event.thread);
        let process = thread.map_or(0, |thread| thread.process);
        let shared = moment.touch.by_fd.map(|(_, open)| open);
        for (_, given) in moment.step.gives() {
            let open = given.description.id();
            if Some(open) != shared {
                self.opened.entry(open).or_insert(Opened { site, process });
            }
        }
    }

    fn call(&mut self, call: &Call, site: SiteId, visit: &mut Visit<'_>) {
        let (moment, touch) = (visit.moment, visit.moment.touch);
        let ns = moment.duration_ns().unwrap_or(0);
        let activity = match moment.submitted_ns {
            Some(_) => Activity::Submit,
            None => Activity::of(call, moment),
        };
        let at = At { site, ns, number: moment.seq, activity };
        if let Some(file) = self.direct.add(moment, call, activity) {
            self.place(FindingKind::DirectMisaligned, file, site);
        }
        for access in touch.accesses.iter().flatten() {
            self.access(access, moment.files, &at);
            if access.is_write && access.offset.is_some() {
                let known = self.written.add(call, visit.contents);
                if known > 0 {
                    self.note(FindingKind::DuplicateContent, access.file, known, &at);
                }
            }
        }
        if let (Some((from, to)), Some((file, open))) = (touch.seek, touch.by_fd) {
            self.seek(file, open, from != to, &at);
        }
        if call.error() == Some(ENOENT)
            && let Some((_, path)) = moment.step.paths.first()
        {
            let process = moment.world.thread(moment.event.thread).map_or(0, |of| of.process);
            if self.missing.add(process, path, ns, moment.seq) {
                self.place(FindingKind::MissingFiles, FileId::OTHERS, at.site);
            }
        }
        if touch.directories.iter().flatten().next().is_some() {
            moment.step.paths.iter().for_each(|(_, path)| self.missing.made(path));
        }
    }

    /// Returns the call site of most events of a kind at these files, which are in order.
    fn top_place(&mut self, kind: FindingKind, files: &[FileId]) -> Vec<u8> {
        let is_of = |(of, file, _): &(FindingKind, FileId, SiteId)| {
            *of == kind && files.binary_search(file).is_ok()
        };
        let mut by_site: HashMap<SiteId, u64> = HashMap::new();
        for ((_, _, site), count) in self.places.iter().filter(|(key, _)| is_of(key)) {
            *by_site.entry(*site).or_default() += count;
        }
        let top = by_site.into_iter().max_by_key(|(site, count)| (*count, Reverse(*site)));
        top.map(|(site, _)| self.callers.spelled(site)).unwrap_or_default()
    }

    /// Returns what the time of the run went to, the findings in order, and how to learn more, if there is more.
    pub fn finish(
        mut self,
        files: &Namespace,
        safety: &SafetyOfFiles,
    ) -> (WallTime, Vec<Finding>, Option<&'static str>) {
        let (wall, findings) = self.find(files, safety);
        let hint = self.callers.hint(&findings);
        (wall, findings, hint)
    }

    fn find(&mut self, files: &Namespace, safety: &SafetyOfFiles) -> (WallTime, Vec<Finding>) {
        let run = std::mem::take(&mut self.run);
        let (wall, about_run, prices) = run.finish(self.cpus, files, &mut self.callers);
        let mut by_path: HashMap<Vec<u8>, (OfFile, Vec<FileId>)> = HashMap::new();
        let mut paths = Paths::of(files);
        for (file, mut of) in std::mem::take(&mut self.files) {
            // A journal, or another file for a moment: nobody could refer to what it had.
            if files.file(file).is_gone() {
                of.often.retain(|(kind, _), _| *kind != FindingKind::DuplicateContent);
            }
            match by_path.entry(paths.next(file)) {
                Entry::Vacant(entry) => _ = entry.insert((of, vec![file])),
                Entry::Occupied(mut entry) => {
                    let (sum, ids) = entry.get_mut();
                    sum.add(&of);
                    ids.push(file);
                }
            }
        }
        let mut findings = Vec::new();
        for (path, (of, mut ids)) in by_path {
            ids.sort_unstable();
            for ((noted, activity), often) in &of.often {
                if let Some((kind, evidence)) = evidence(*noted, often, &of) {
                    let found = Finding::about(kind, often, (*activity, &prices), evidence);
                    let site = self.top_place(*noted, &ids);
                    let found = Finding { file: path.clone(), site, ..found };
                    findings.push(found.but_for(needed(kind, often)));
                }
            }
        }
        let site = self.top_place(FindingKind::MissingFiles, &[FileId::OTHERS]);
        findings.extend(std::mem::take(&mut self.missing).finish(site, &prices));
        findings.extend(self.compressible());
        findings.extend(self.leaked(files));
        if let Some((file, found)) = std::mem::take(&mut self.direct).finish(files, &prices) {
            let site = self.top_place(FindingKind::DirectMisaligned, &[file]);
            findings.push(Finding { site, ..found });
        }
        findings.extend(std::mem::take(&mut self.locks).finish(&mut self.callers, &prices));
        // Waits for locks are told by lock.
        let locked = findings.iter().filter(|of| of.kind == FindingKind::LockWaits);
        let locked_ns: u64 = locked.map(|of| of.time_ns).sum();
        let is_news =
            |of: &Finding| of.kind != FindingKind::ThreadWaits || locked_ns < of.time_ns / 2;
        findings.extend(about_run.into_iter().filter(is_news));
        findings.extend(renamed(safety));
        finding::in_order(&mut findings);
        (wall, findings)
    }

    fn compressible(&self) -> Option<Finding> {
        let packed = self.written.packed_share().filter(|share| *share < 0.6)?;
        let fresh = self.written.bytes - self.written.duplicate_bytes;
        (fresh >= MUCH).then(|| {
            let bytes = (fresh as f64 * (1.0 - packed)) as u64;
            let evidence = format!(
                "{} of different content; samples have the entropy of {:.0}% of that",
                show_size(fresh),
                packed * 100.0
            );
            Finding { bytes, ..Finding::new(FindingKind::Compressible, evidence) }
        })
    }

    fn leaked(&mut self, files: &Namespace) -> Vec<Finding> {
        let finding = |(site, leak): (SiteId, Leak)| {
            let evidence = format!("{} descriptors, this file among them", show_count(leak.count));
            Finding {
                count: leak.count,
                file: files.path(leak.file),
                site: self.callers.spelled(site),
                ..Finding::new(FindingKind::DescriptorLeak, evidence)
            }
        };
        std::mem::take(&mut self.leaks).into_iter().map(finding).collect()
    }
}

/// Returns a finding about files that were renamed before their data was durable.
fn renamed(safety: &SafetyOfFiles) -> Option<Finding> {
    let first = safety.renames.first()?;
    let (count, all) = (safety.unsafe_renames, safety.all_renames);
    (count > 0).then(|| {
        let evidence = format!(
            "{} of {} gave a name to bytes that were not synced",
            show_count(count),
            counted(all, "rename", "renames")
        );
        Finding {
            count,
            bytes: first.unsynced_bytes,
            file: first.to.clone(),
            ..Finding::new(FindingKind::UnsafeRenames, evidence)
        }
    })
}

/// Returns how many calls must stay where what they move goes by the buffer.
fn needed(kind: FindingKind, often: &Often) -> u64 {
    match kind {
        FindingKind::SmallWrites | FindingKind::SmallReads => often.bytes.div_ceil(BUFFER),
        _ => 0,
    }
}

/// Returns what events of a kind are told as, with the evidence in words, if the numbers are high enough
/// for a finding.
fn evidence(kind: FindingKind, often: &Often, of: &OfFile) -> Option<(FindingKind, String)> {
    let Often { count, bytes, .. } = *often;
    let (writes, reads) = (of.writes, of.reads);
    let mean = bytes.checked_div(count).unwrap_or(0);
    let [of_times, mean_size] = [show_count(count), show_size(mean)];
    let (told, text) = match kind {
        FindingKind::SmallWrites => (
            count >= OFTEN && count * 2 >= writes,
            format!(
                "{of_times} of {} writes are below 1 KiB, with {mean_size} on average",
                show_count(writes)
            ),
        ),
        FindingKind::UnalignedWrites => (
            count >= OFTEN && count * 4 >= writes,
            format!(
                "{of_times} of {} writes cover parts of pages, away from where the last one \
                 ended; {mean_size} on average",
                show_count(writes)
            ),
        ),
        FindingKind::SmallReads => (
            count >= OFTEN && count * 2 >= reads,
            format!(
                "{of_times} of {} reads ask for less than 1 KiB and get {mean_size} on average",
                show_count(reads)
            ),
        ),
        FindingKind::Rereads => (
            bytes >= MUCH && bytes * 2 >= of.read_bytes,
            format!(
                "{} of {} were read before; {of_times} of {} reads bring them",
                show_size(bytes),
                show_size(of.read_bytes),
                show_count(reads)
            ),
        ),
        FindingKind::DuplicateContent => (
            bytes >= MUCH / 4 && bytes * 4 >= of.written_bytes,
            format!(
                "{of_times} writes carry content that was written before: {} of {}",
                show_size(bytes),
                show_size(of.written_bytes)
            ),
        ),
        FindingKind::UselessSeeks => {
            let seeks = show_count(of.seeks);
            (count >= OFTEN, format!("{of_times} of {seeks} seeks move nothing that is used"))
        }
        FindingKind::ShortWrites => {
            (count >= OFTEN_SLOW, format!("{of_times} writes took {mean_size} on average"))
        }
        FindingKind::ShortReads => (
            count >= OFTEN_SLOW,
            format!(
                "{of_times} of {} reads gave {mean_size} on average, before the end",
                show_count(reads)
            ),
        ),
        // These are not counted by file.
        _ => (false, String::new()),
    };
    let overlap = kind == FindingKind::Rereads && of.overlaps * 2 >= count;
    let kind = if overlap { FindingKind::ReadAmplification } else { kind };
    told.then_some((kind, text))
}

impl Watch for Patterns {
    fn add(&mut self, visit: &mut Visit<'_>) {
        let (moment, touch) = (visit.moment, visit.moment.touch);
        self.callers.add(moment, visit.contents);
        let site = match &moment.event.kind {
            EventKind::Call(call) => {
                let (site, is_caller) = self.callers.of(moment, call, visit.contents);
                self.run.made_at(is_caller.then_some(site));
                site
            }
            _ => SiteId::default(),
        };
        self.run.add(visit);
        moment.world.closed_files(&mut |open| _ = self.opened.remove(&open));
        let call = match &moment.event.kind {
            EventKind::Call(call) => call,
            EventKind::End { .. } if moment.is_last_thread() => {
                return self.ended(moment);
            }
            _ => return,
        };
        if visit.wanted {
            self.locks.add(moment, call, site);
        }
        self.opened(moment, call, site);
        if !file_use::of(call.nr).names_files() && moment.step.gives().next().is_none() {
            return;
        }
        if let Some((file, length)) = touch.length
            && let Some(of) = self.files.get_mut(&file)
        {
            of.read.truncate(length);
        }
        if visit.wanted {
            self.call(call, site, visit);
        }
    }
}

#[cfg(test)]
mod tests;
