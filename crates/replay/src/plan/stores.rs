//! Stores to mapped files: the mappings are made again, and what was stored there is stored again.

use std::collections::HashMap;
use std::sync::Arc;

use model::mapped::{self, Store};
use syscalls::abi::errno;
use syscalls::abi::files::{O_ACCMODE, O_APPEND};
use syscalls::mapping::Mapping as Asked;
use syscalls::record::watched;
use syscalls::{Handler, Replay};
use trace::event::{Call, Content, Event, Outcome, StartHow};

use super::Planner;
use super::claims::bytes::{Bytes, Does};
use crate::batch::What;
use crate::certainty::Reason;
use crate::mapped::{KeptStore, MappedFile, Mapping};
use crate::order::Index;
use crate::outcome::Stopped;
use crate::resource::hash_of;
use crate::treatment::Said;

/// Most stores that are kept until a task has nothing else to do.
const KEPT_MAX: usize = 1 << 12;
/// Most descriptors among which one of a file is looked for.
const DESCRIPTORS_MAX: usize = 1 << 10;
/// Most buffers of each of them.
const KEPT_BUFFERS_MAX: usize = 1 << 10;

impl Planner<'_> {
    /// Follows a call that maps, moves or removes memory. The mapping of a file is made here too.
    pub(super) fn follow_mapping(&mut self, index: Index, event: &Event, call: &Call) {
        let process = self.lines[index].process;
        let (judge, world) = (&mut self.judge, &self.world);
        let mut made = None;
        self.mapped.call(process, event, call, |fd| {
            let table = world.descriptors(event.thread)?;
            let description = table.get(fd)?.description;
            if Asked::of(&call.args).changes_file() {
                // What reads find there depends on when they look.
                judge.gets_stores(&description.path);
            }
            let mapping = judge
                .is_here(description)
                .then(|| Arc::new(Mapping::new(call.args[5], Asked::of(&call.args).length)));
            made = mapping.clone().map(|mapping| (fd, mapping));
            Some(MappedFile { mapping, path: description.path[..].into() })
        });
        let exit = match call.outcome {
            Outcome::Returned { exit_tsc, .. } => exit_tsc.max(event.tsc),
            Outcome::Unfinished => return,
        };
        if let Some((fd, mapping)) = made {
            self.open_action(index, event.tsc, exit).what = What::Map { fd, mapping };
        }
        // A mapping that has grown.
        let start = call.ret().unwrap_or(0) as u64;
        if let Some((file, offset)) = self.mapped.at(process, start)
            && let Some(mapping) = &file.mapping
        {
            mapping.reach(offset.saturating_add(Asked::of(&call.args).length.max(call.args[2])));
        }
    }

    /// The mapping that a call is about which is made on mapped files, and the offset in its file.
    pub(super) fn mapping_of(
        &self,
        index: Index,
        call: &Call,
        said: &Said,
    ) -> Option<(Arc<Mapping>, u64, Arc<[u8]>)> {
        if said.replay != Replay::Memory || self.mapped.is_empty() {
            return None;
        }
        let [address, length, ..] = call.args;
        let process = self.lines[index].process;
        let (file, offset) = self.mapped.stretch(process, address, length)?;
        Some((file.mapping.clone()?, offset, Arc::clone(&file.path)))
    }

    /// What was mapped to be read may be stored to from now on, and the trace tells of it later.
    pub(super) fn becomes_writable(&mut self, index: Index, event: &Event, call: &Call) {
        if mapped::watched(event) == watched::YES && !Self::maps(call) {
            let process = self.lines[index].process;
            if let Some((file, _)) = self.mapped.at(process, call.args[0]) {
                self.judge.gets_stores(&file.path);
            }
        }
    }

    /// Plans a call on a mapped file's memory.
    pub(super) fn in_memory(
        &mut self,
        index: Index,
        event: &Event,
        call: &Call,
        said: &Said,
        (mapping, offset, path): (Arc<Mapping>, u64, Arc<[u8]>),
    ) {
        let Outcome::Returned { exit_tsc, ret } = call.outcome else {
            return self.count_simulated();
        };
        let of_the_machine = [errno::ENOMEM, errno::EAGAIN, errno::EINTR];
        // A mapping that was not moved has other neighbours here.
        let is_moved = syscalls::by_number(call.nr.into()).map(|row| row.handler);
        let is_moved = is_moved == Some(Handler::Remap);
        let error = errno::of_result(ret);
        if error.is_some_and(|error| is_moved || of_the_machine.contains(&error)) {
            return self.count_simulated();
        }
        let exit = exit_tsc.max(event.tsc);
        if !self.again_for_itself(index, event, call, said, (exit, ret)) {
            return;
        }
        let line = &mut self.lines[index];
        let call_at = line.batch.calls.len() as u32 - 1;
        line.open_what(What::Memory { call: call_at, mapping, offset });
        if self.others_matter() {
            // What was stored there before is.
            let length = call.args[1];
            let does = Does::Reads { at: Some(offset), asked: length, got: length };
            self.order_by_bytes(index, Some(Bytes { file: hash_of(&path), moves: None, does }));
        }
    }

    /// Plans what a process has stored to a mapped file, or keeps it until a task has nothing else to
    /// do: one that is in a call may be in it until others go on.
    pub(super) fn stores(&mut self, event: &Event) {
        let Some(store) = Store::of(event) else { return };
        let Some((file, offset)) = self.mapped.at(store.process, store.address) else {
            return self.lost_stores();
        };
        let MappedFile { mapping: Some(mapping), path } = file.clone() else {
            return self.count_simulated();
        };
        let Content::Blobs { ids, .. } = store.content() else { return };
        let length = store.length;
        let (is_read, hash) = (store.is_read, store.hash);
        let kept = KeptStore { is_read, mapping, path, offset, length, ids, hash, tsc: event.tsc };
        let fits = self.kept_stores.len() < KEPT_MAX && kept.ids.len() <= KEPT_BUFFERS_MAX;
        match self.idle_lane(&store) {
            Some(index) => self.store_by(index, kept),
            None if fits => self.kept_stores.push(kept),
            None => self.lost_stores(),
        }
    }

    /// A lane without an open call: all tasks have the same memory, so it may be of any process.
    fn idle_lane(&self, store: &Store<'_>) -> Option<Index> {
        let is_idle = |index: &Index| {
            let line = &self.lines[*index];
            !line.has_open && line.returning.is_none() && !line.ended
        };
        let of_thread = store.thread.and_then(|thread| self.threads.get(&thread)).copied();
        let all = || self.threads.values().copied().filter(is_idle);
        let of_process = || all().find(|index| self.lines[*index].process == store.process);
        of_thread.filter(is_idle).or_else(of_process).or_else(|| all().next())
    }

    /// Plans the stores that were kept, as a lane begins another call.
    pub(super) fn store_kept(&mut self, index: Index) {
        for kept in std::mem::take(&mut self.kept_stores) {
            self.store_by(index, kept);
        }
    }

    /// Plans the stores that were kept until nothing more came.
    pub(super) fn store_rest(&mut self) {
        if let Some(index) = (0..self.lines.len()).find(|index| !self.lines[*index].ended) {
            self.store_kept(index);
        } else if !self.kept_stores.is_empty() {
            self.lost_stores();
        }
    }

    fn store_by(&mut self, index: Index, kept: KeptStore) {
        let KeptStore { is_read, mapping, path, offset, length, ids, hash, tsc } = kept;
        let by = match self.shared.options.emulates_mappings {
            true => self.descriptor_of(index, &path, is_read),
            false => None,
        };
        self.make_way(index);
        let certainty = self.judge.certainty_of_load(&path);
        let certainty = certainty.weakened_if(self.doubts.any(), Reason::Raced);
        let batch = &mut self.lines[index].batch;
        let stored = match batch.add_blobs(self.trace, &ids, is_read) {
            Ok(stored) => stored,
            Err(error) => return self.shared.stop(Stopped::Unreadable(error.to_string())),
        };
        let first = batch.pieces.len() as u32;
        let hash = hash.map(|hash| {
            batch.hashes.push(hash);
            batch.hashes.len() as u32 - 1
        });
        let piece = batch.add_piece();
        piece.stored = stored;
        piece.true_len = length;
        piece.hash = hash;
        if !is_read && (batch.stored_len(&batch.pieces[first as usize]) as u64) < length {
            self.judge.gets_other_bytes(&path);
        }
        let pieces = first..first + 1;
        let what = What::Store { mapping, offset, pieces, is_read, certainty, by };
        self.open_action(index, tsc, tsc).what = what;
        if self.others_matter() || self.doubts.any() {
            let does = match is_read {
                true => Does::Reads { at: Some(offset), asked: length, got: length },
                false => Does::Writes { at: Some(offset), len: length },
            };
            let bytes = Bytes { file: hash_of(&path), moves: None, does };
            self.order_by_bytes(index, Some(bytes));
        }
        // It takes no time.
        self.settle(index);
    }

    /// A descriptor by which a lane's task can read or write a file.
    fn descriptor_of(&self, index: Index, path: &[u8], is_read: bool) -> Option<i32> {
        let (thread, _) = self.threads.iter().find(|(_, at)| **at == index)?;
        let table = self.world.descriptors(*thread)?;
        let mut all = table.iter().take(DESCRIPTORS_MAX);
        let serves = |flags: u64| flags & O_APPEND == 0 && (is_read || flags & O_ACCMODE != 0);
        let found = all.find(|(_, entry)| {
            entry.description.path == path && entry.description.flags.is_none_or(serves)
        });
        found.map(|(fd, _)| fd)
    }

    /// A process begins with what its maker has mapped.
    pub(super) fn inherit_mappings(&mut self, how: StartHow, process: u32, parent: u32) {
        let maker = self.world.thread(parent).map(|thread| thread.process);
        let Some(maker) = maker else { return };
        self.mapped.started(how, process, maker);
        if how == StartHow::Fork {
            // The child's mappings are its own from now on.
            let mut made: HashMap<*const Mapping, Arc<Mapping>> = HashMap::new();
            self.mapped.each_of(process, |file| {
                if let Some(mapping) = &mut file.mapping {
                    let copy = made.entry(Arc::as_ptr(mapping));
                    let copy = copy.or_insert_with(|| Arc::new(Mapping::copy_of(mapping)));
                    *mapping = Arc::clone(copy);
                }
            });
        }
    }

    fn lost_stores(&mut self) {
        self.count_unsupported("stores to a mapping whose beginning is missing".into());
    }

    /// Whether a call is to be passed to [`Planner::follow_mapping`].
    pub(super) fn maps(call: &Call) -> bool {
        mapped::is_followed(call)
    }
}
