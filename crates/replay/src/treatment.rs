//! Decides which recorded calls are replayed, and which are answered from the trace.

mod contested;
mod file_names;
mod file_types;
mod inode_flags;
mod outside;
mod said;

use std::collections::HashSet;

use model::contents::{lacks_given, piece};
use model::{Contents, Description, DescriptorTable, Origin};
use syscalls::abi::errno::{self, EACCES, EAGAIN, EBUSY, ECONNRESET, EINVAL, EPERM, EPIPE, ERANGE};
use syscalls::abi::files::{AT_FDCWD, RENAME_EXCHANGE, S_IFBLK, S_IFCHR, S_IFMT};
use syscalls::operations::OPERATIONS_FIRST;
use syscalls::record::part;
use syscalls::shape::{Dir, Of, OffsetIs, offset_of, operand};
use syscalls::{Act, Arg, ArgKind, Classes, Operand, Replay, flags};
use trace::event::{Call, Data, Identity, Preamble};

use model::realm;

use crate::certainty::{Certainty, Reason};
use crate::image::MadeUp;
use contested::Contested;
use file_names::FileNames;
use file_types::FileTypes;
use outside::Outside;
use said::{PLACEHOLDER, files};

pub use said::{Said, is_directory_entries, is_stream, said};

/// Most bytes that the kernel moves in one call.
pub const TRANSFER_MAX: i64 = 0x7fff_f000;

/// Treatment of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Treatment {
    /// Replay it.
    Make {
        /// Through a pipe or socket pair, which may deliver bytes in other portions.
        stream: bool,
    },
    /// Take its recorded result.
    Simulate,
    /// Take its recorded result, and advance the offset of the file that was read.
    Advance {
        /// The descriptor.
        fd: i32,
    },
    /// Write filler to the file or pipe: the call moved bytes there from an unavailable source.
    Pour {
        /// The descriptor.
        to: i32,
    },
    /// Drop bytes from the pipe: the call moved them to an unavailable destination.
    Drain {
        /// The descriptor.
        from: i32,
    },
    /// Leave it out, for a reason reported to users.
    Skip(&'static str),
    /// Withhold it: it would create something harmful.
    Withhold(&'static str),
}

/// File systems that are views of the kernel.
const KERNELS: &[&[u8]] = &[
    b"proc",
    b"sysfs",
    b"devtmpfs",
    b"devpts",
    b"cgroup",
    b"cgroup2",
    b"debugfs",
    b"tracefs",
    b"securityfs",
    b"bpf",
    b"mqueue",
    b"configfs",
    b"binfmt_misc",
    b"efivarfs",
    b"pstore",
];

/// Errors caused by the recording machine, not by its files. A failed call changed nothing, so it
/// can be left out.
const OF_THE_MACHINE: &[i32] = &[
    libc::EINTR,
    libc::EFAULT,
    libc::ENOMEM,
    libc::ENFILE,
    libc::EIO,
    libc::ENOSPC,
    libc::EDQUOT,
    libc::ETXTBSY,
    libc::EROFS,
    libc::EXDEV,
    libc::EBUSY,
    libc::ENOSYS,
    libc::ENODEV,
    libc::ENXIO,
    libc::EOPNOTSUPP,
    libc::ENOTTY,
    libc::ECANCELED,
];

/// Decides how calls are treated.
pub struct Judge {
    /// Tasks can take the recorded user ids.
    pub privileged: bool,
    /// Recorded device numbers of kernel views.
    views: HashSet<u64>,
    /// Paths that lead to kernel views or devices if a final link is followed.
    aliases: FileNames,
    /// Which names stand for FIFOs.
    pub types: FileTypes,
    /// Files that the recording made immutable or append-only.
    guarded: FileNames,
    /// Files and pipes with bytes that no call shows.
    other_bytes: FileNames,
    /// Files with mappings: when a process stored there is known to the next collection.
    stored: FileNames,
    /// Files that requests missing in the trace may have written: even their length is unknown.
    written_unseen: FileNames,
    /// Names that refer to unknown files.
    contested: Contested,
    /// Streams shared with unrecorded processes.
    pub outside: Outside,
    /// What of the image is made up.
    made_up: MadeUp,
    /// Knowledge counter: changes whenever something is learnt.
    learnt: u64,
}

impl Judge {
    /// For a recording with this preamble, and an image of which this is made up.
    pub fn new(preamble: &Preamble, privileged: bool, made_up: MadeUp) -> Judge {
        let views = preamble.mounts.iter().filter_map(|line| view_of_the_kernel(line)).collect();
        Judge {
            privileged,
            views,
            aliases: FileNames::default(),
            types: FileTypes::default(),
            guarded: FileNames::default(),
            other_bytes: FileNames::default(),
            stored: FileNames::default(),
            written_unseen: FileNames::default(),
            contested: Contested::default(),
            outside: Outside::default(),
            made_up,
            learnt: 0,
        }
    }

    /// Decides about a call that returned `ret`, with its descriptors in `table` and its memory in
    /// `stored`. `learn`: `paths` are those that it named, so the recorded file identities belong
    /// to them.
    #[allow(clippy::too_many_arguments, reason = "the call, and what is known of it")]
    pub fn judge(
        &mut self,
        said: &Said,
        call: &Call,
        ret: i64,
        stored: &mut dyn Contents,
        table: &DescriptorTable,
        paths: &[(u8, Vec<u8>)],
        learn: bool,
    ) -> Treatment {
        if let Some(treatment) = self.changes_guard(said, call, ret, stored, table) {
            return treatment;
        }
        match said.replay {
            // Another thread was opening that number just then.
            Replay::Numbers if errno::of_result(ret) == Some(EBUSY) => return Treatment::Simulate,
            Replay::Numbers => return Treatment::Make { stream: false },
            Replay::Real => {}
            Replay::LeftOut => return Treatment::Skip("its data is not in the trace"),
            Replay::Task
            | Replay::Simulated
            | Replay::Memory
            | Replay::Ignored
            | Replay::Timed
            | Replay::TimedUnlessAside => return Treatment::Simulate,
        }
        if said.ret == syscalls::Ret::Size && ret > TRANSFER_MAX {
            return Treatment::Skip("no call moves so many bytes");
        }
        if said.row.classes.intersects(Classes::CREDS) && !self.privileged {
            return Treatment::Simulate;
        }
        let of_the_machine =
            |error| OF_THE_MACHINE.contains(&error) || errno::asks_for_restart(error);
        let error = errno::of_result(ret);
        if error.is_some_and(of_the_machine) {
            return Treatment::Simulate;
        }
        // An ordinary user cannot give files to other users, so no access is denied here.
        if !self.privileged && matches!(error, Some(EACCES | EPERM)) {
            return Treatment::Simulate;
        }
        // No file denies access to who has it open: restrictions of a ring do, for all operations of a kind.
        if error == Some(EACCES) && call.nr >= OPERATIONS_FIRST && paths.is_empty() {
            return Treatment::Simulate;
        }
        if concerns_another_process(said.args, call) {
            return Treatment::Simulate;
        }
        if error == Some(EPERM) && self.is_guarded(said, call, table, paths) {
            return Treatment::Simulate;
        }
        if names_receiver(said.args, call) {
            return Treatment::Simulate;
        }
        if attribute_name(said, call, stored).is_some_and(|name| needs_privilege(&name)) {
            let changes = said.row.classes.intersects(Classes::CHANGE) && ret >= 0;
            return match changes {
                true => Treatment::Withhold("attributes that need privileges not set"),
                false => Treatment::Simulate,
            };
        }
        if ret < 0 && hides_its_reason(said, call, ret) {
            return Treatment::Simulate;
        }
        if (ret > 0 || error == Some(ERANGE)) && asks_for_length_of_list(said, call, ret) {
            return Treatment::Simulate;
        }
        if learn {
            self.learn(call, paths);
            self.learn_target(said, call, ret, stored, paths);
        }
        let mut stream = false;
        let mut not_here = Vec::new();
        let mut about_device = false;
        for (arg, value) in said.args.iter().zip(call.args) {
            if !matches!(arg.kind, ArgKind::Fd | ArgKind::DirFd) || value as i32 == AT_FDCWD {
                continue;
            }
            let Some(entry) = table.get(value as i32) else {
                // It was under way when its number was closed.
                if said.row.queue.is_some() && ret >= 0 && value as i32 >= 0 {
                    return Treatment::Simulate;
                }
                continue;
            };
            let description = &entry.description;
            about_device |= realm::is_device(&description.path);
            match self.is_here(description) {
                true => stream |= is_stream(description),
                false => not_here.push(value as i32),
            }
        }
        // Devices are the machine's: a jail has them, and changes nothing about them.
        if said.row.classes.intersects(Classes::CHANGE)
            && said.ret != syscalls::Ret::Fd
            && (paths.iter().any(|(_, path)| realm::is_device(path)) || about_device)
        {
            return Treatment::Simulate;
        }
        if not_here.is_empty() && paths.iter().any(|(_, path)| model::path::is_cut(path)) {
            return Treatment::Skip("it is in directories too deep to be followed");
        }
        // An empty path means the descriptor, whose file may have no path.
        let here = |arg: u8, path: &[u8]| {
            // Calls on a link itself concern only its name, wherever it leads.
            let itself = || syscalls::paths::means_link(call.nr, arg, &call.args);
            path.first() == Some(&b'/')
                && realm::is_real(path)
                && (!self.aliases.has_now(path) || itself())
        };
        let paths_here = paths.iter().all(|(arg, path)| here(*arg, path));
        let wanted = said.args.iter().filter(|arg| matches!(arg.kind, ArgKind::Path)).count();
        if wanted > 0 {
            let unknown = paths.len() < wanted;
            return match paths_here && (not_here.is_empty() || !unknown) {
                true => Treatment::Make { stream: false },
                false => Treatment::Simulate,
            };
        }
        match (&not_here[..], said.row.classes) {
            ([], classes) => {
                let moves = classes.intersects(Classes::READ.or(Classes::WRITE));
                let of_the_moment = match stream {
                    true => moves || matches!(error, Some(EAGAIN | EPIPE | ECONNRESET)),
                    false => moves && error == Some(EAGAIN),
                };
                if ret < 0 && of_the_moment {
                    return Treatment::Simulate;
                }
                Treatment::Make { stream }
            }
            ([gone], _) if moves_between_files(said) && ret > 0 => {
                let from = said.value(call, Operand::Source).unwrap_or(call.args[0]) as i32;
                let to = || said.value(call, Operand::Target).unwrap_or(call.args[0]) as i32;
                match *gone == from {
                    true => Treatment::Pour { to: to() },
                    false if stream => Treatment::Drain { from },
                    false if has_no_offset(said, call) => Treatment::Advance { fd: from },
                    false => Treatment::Simulate,
                }
            }
            _ => Treatment::Simulate,
        }
    }

    /// Whether the replay has an open file, and not only a placeholder.
    pub fn is_here(&self, description: &Description) -> bool {
        match description.origin {
            Origin::Path | Origin::Outside => {
                let path = &description.path[..];
                description.mark.get() != PLACEHOLDER
                    && path.first() == Some(&b'/')
                    && !path.ends_with(b" (deleted)")
                    && !path.starts_with(b"/memfd:")
                    && !model::path::is_cut(path)
                    && (realm::is_real(path) || model::places::is_fresh(path))
                    && !self.outside.has(description)
            }
            Origin::Unnamed | Origin::Memory => true,
            Origin::Passed => description.mark.get() != PLACEHOLDER && !self.outside.has_received(),
            Origin::Pipe | Origin::SocketPair => !self.outside.has(description),
            Origin::Socket | Origin::Anonymous | Origin::Taken => false,
        }
    }

    /// Marks an open file that is only a placeholder here, whatever gets its name later.
    pub fn is_placeholder(&self, description: &Description) {
        if matches!(description.origin, Origin::Path | Origin::Passed) {
            description.mark.set(PLACEHOLDER);
        }
    }

    /// Notes a file that is changed by stores to a mapping, or to which filler is written for bytes
    /// that the trace lacks.
    pub fn gets_other_bytes(&mut self, path: &[u8]) {
        self.learnt += u64::from(self.other_bytes.add(path));
    }

    /// Notes a file that is mapped, and changed by stores of which the trace tells later.
    pub fn gets_stores(&mut self, path: &[u8]) {
        self.learnt += u64::from(self.stored.add(path));
    }

    /// Notes a file that requests missing in the trace may write.
    pub fn gets_written_unseen(&mut self, path: &[u8]) {
        self.learnt += u64::from(self.written_unseen.add(path));
    }

    /// Whether such requests may have written a file.
    fn is_written_unseen(&self, path: &[u8]) -> bool {
        self.written_unseen.has(path)
    }

    /// Returns the names of all files that they may have written.
    pub fn written_unseen(&self) -> impl Iterator<Item = &[u8]> {
        self.written_unseen.names()
    }

    /// Whether a call concerns a file that they may have written.
    fn has_unseen(
        &self,
        said: &Said,
        call: &Call,
        table: &DescriptorTable,
        paths: &[(u8, Vec<u8>)],
    ) -> bool {
        !self.written_unseen.is_empty()
            && (files(said, call, table).any(|file| self.is_written_unseen(&file.path))
                || paths.iter().any(|(_, path)| self.is_written_unseen(path)))
    }

    /// Whether a file has bytes that no call shows.
    fn holds_other_bytes(&self, description: &Description) -> bool {
        self.other_bytes.has(&description.path) || self.stored.has(&description.path)
    }

    /// What it proves if other bytes are read of a file that is mapped.
    pub fn certainty_of_load(&self, path: &[u8]) -> Certainty {
        let holds_other = self.other_bytes.has(path) || self.stored.has(path);
        Certainty::EXACT
            .weakened_if(holds_other, Reason::Filler)
            .weakened_if(self.is_written_unseen(path), Reason::Unseen)
            .weakened_if(self.may_be_another(path), Reason::Names)
            .weakened_if(self.made_up.bytes.contains(path), Reason::HashOfFiller)
    }

    /// Returns the names of all files with bytes that no call shows.
    pub fn with_other_bytes(&self) -> impl Iterator<Item = &[u8]> {
        self.other_bytes.names()
    }

    /// Updates the tracked names after a call that changed names.
    pub fn learn_names(&mut self, said: &Said, call: &Call, paths: &[(u8, Vec<u8>)]) {
        let files = [
            &mut self.other_bytes,
            &mut self.stored,
            &mut self.written_unseen,
            &mut self.aliases,
            &mut self.guarded,
        ];
        for files in files {
            if !files.is_empty() {
                let exchanges = exchanges(said, call);
                self.learnt += u64::from(files.learn_names(said.act, exchanges, paths));
            }
        }
        let is_new = self.types.learn_names(said.act, || exchanges(said, call), paths);
        self.learnt += u64::from(is_new);
    }

    /// Whether the image may have filler where the trace has only a hash of what was read.
    fn is_untold(&self, description: &Description) -> bool {
        self.made_up.bytes.contains(&description.path)
    }

    /// Knowledge counter: changes whenever cached properties of files may be outdated.
    pub fn learnt(&self) -> u64 {
        self.learnt + self.outside.learnt()
    }

    /// Whether the call may read bytes that no call shows.
    fn is_vague(&self, said: &Said, call: &Call, table: &DescriptorTable) -> bool {
        !(self.other_bytes.is_empty() && self.stored.is_empty())
            && files(said, call, table).any(|file| self.holds_other_bytes(file))
    }

    /// Whether one of the call's descriptors is a file for which the image may have filler.
    fn has_untold(&self, said: &Said, call: &Call, table: &DescriptorTable) -> bool {
        !self.made_up.bytes.is_empty() && files(said, call, table).any(|file| self.is_untold(file))
    }

    /// Whether the call may tell how long the text of a link is that was made up.
    fn tells_of_made_up_link(
        &self,
        said: &Said,
        call: &Call,
        table: &DescriptorTable,
        paths: &[(u8, Vec<u8>)],
    ) -> bool {
        let links = &self.made_up.lengths;
        let is_itself = |arg| syscalls::paths::means_link(call.nr, arg, &call.args);
        !links.is_empty()
            && (paths.iter().any(|(arg, path)| links.contains(path) && is_itself(*arg))
                || files(said, call, table).any(|file| links.contains(&file.path)))
    }

    /// What it proves if a call's result differs, by the files that it concerns.
    pub fn certainty(
        &mut self,
        said: &Said,
        call: &Call,
        table: &DescriptorTable,
        paths: &[(u8, Vec<u8>)],
    ) -> Certainty {
        Certainty::EXACT
            .weakened_if(self.is_vague(said, call, table), Reason::Filler)
            .weakened_if(self.tells_of_made_up_link(said, call, table, paths), Reason::Filler)
            .weakened_if(self.has_unseen(said, call, table, paths), Reason::Unseen)
            .weakened_if(self.has_contested(said, call, table, paths), Reason::Names)
            .weakened_if(self.has_untold(said, call, table), Reason::HashOfFiller)
    }

    /// Likewise for a call that only moves bytes through this open file.
    pub fn certainty_of(&self, description: &Description) -> Certainty {
        Certainty::EXACT
            .weakened_if(self.holds_other_bytes(description), Reason::Filler)
            .weakened_if(self.is_written_unseen(&description.path), Reason::Unseen)
            .weakened_if(self.may_be_another(&description.path), Reason::Names)
            .weakened_if(self.is_untold(description), Reason::HashOfFiller)
    }

    /// Notes where a call puts filler: by a write of bytes that are not stored, or by a copy.
    pub fn learn_filled(&mut self, said: &Said, call: &Call, ret: i64, table: &DescriptorTable) {
        let classes = said.row.classes;
        if !classes.intersects(Classes::WRITE) {
            return;
        }
        let fills = lacks_given(&call.data, taken(said, ret));
        let copies = || moves_between_files(said) && self.is_vague(said, call, table);
        if fills || copies() {
            files(said, call, table).for_each(|file| self.gets_other_bytes(&file.path));
        }
        if moves_between_files(said) && self.has_unseen(said, call, table, &[]) {
            files(said, call, table).for_each(|file| self.gets_written_unseen(&file.path));
        }
    }

    /// Whether a path is one that the replay has.
    pub fn is_real(&self, path: &[u8]) -> bool {
        (realm::is_real(path) || model::places::is_fresh(path)) && !self.aliases.has_now(path)
    }

    /// Learns from the identities of the files behind the call's paths.
    fn learn(&mut self, call: &Call, paths: &[(u8, Vec<u8>)]) {
        let Some((_, path)) = paths.first() else { return };
        if call.identities.iter().any(|(_, identity)| self.is_view(identity, path)) {
            self.learnt += u64::from(self.aliases.add(path));
        }
    }

    /// Notes a new link that leads to a kernel view or device.
    fn learn_target(
        &mut self,
        said: &Said,
        call: &Call,
        ret: i64,
        stored: &mut dyn Contents,
        paths: &[(u8, Vec<u8>)],
    ) {
        let [(_, link)] = paths else { return };
        if said.act != Act::MakeLink || ret != 0 {
            return;
        }
        let Some(data) = piece(&call.data, 0, part::WHOLE, 0, false) else { return };
        let Ok(target) = stored.read(&data.content, libc::PATH_MAX as usize) else { return };
        let target = target.split(|&c| c == 0).next().unwrap_or_default();
        let above =
            link.iter().rposition(|&c| c == b'/').map_or(&link[..0], |slash| &link[..slash]);
        if !self.is_real(&model::path::resolve(above, target)) {
            self.learnt += u64::from(self.aliases.add(link));
        }
    }

    /// Adds a name that overlapping calls changed.
    pub fn is_contested(&mut self, name: &[u8]) {
        self.learnt += u64::from(self.contested.add(name));
    }

    /// Whether it is unknown which file is behind a path.
    pub fn may_be_another(&self, path: &[u8]) -> bool {
        self.contested.concern(path)
    }

    /// Returns all contested names.
    pub fn contested(&self) -> impl Iterator<Item = &[u8]> {
        self.contested.names()
    }

    /// Whether a call concerns or lists contested names. If so, names that it changes along with
    /// them become contested too.
    fn has_contested(
        &mut self,
        said: &Said,
        call: &Call,
        table: &DescriptorTable,
        paths: &[(u8, Vec<u8>)],
    ) -> bool {
        if self.contested.is_empty() {
            return false;
        }
        let lists = said.args.iter().any(|arg| is_directory_entries(arg.kind));
        let is = |path: &[u8]| {
            let in_it = lists || matches!(said.act, Act::Remove | Act::RemoveDirectory);
            self.contested.concern(path) || in_it && self.contested.any_in(path)
        };
        let has = files(said, call, table).any(|file| is(&file.path))
            || paths.iter().any(|(_, path)| is(path));
        if has && matches!(said.act, Act::Rename | Act::HardLink | Act::RemoveDirectory) {
            paths.iter().for_each(|(_, path)| self.is_contested(path));
        }
        has
    }

    fn is_view(&self, identity: &Identity, path: &[u8]) -> bool {
        let device = match identity.mode & S_IFMT {
            // A replay has null, zero and full, only under these names.
            S_IFCHR => return !realm::is_real(path) || realm::is_stored(path),
            S_IFBLK => return true,
            _ => identity.dev,
        };
        self.views.contains(&device)
    }
}

/// Whether only the system or a fully privileged root may set an extended attribute.
pub fn needs_privilege(name: &[u8]) -> bool {
    name.starts_with(b"trusted.") || name.starts_with(b"security.")
}

/// Longest name of an attribute.
const ATTRIBUTE_NAME_MAX: usize = 255;

/// Returns the extended attribute that a call names, from the piece that the replay uses.
fn attribute_name(said: &Said, call: &Call, stored: &mut dyn Contents) -> Option<Vec<u8>> {
    let named = |arg: &Arg| matches!(arg.kind, ArgKind::Str);
    let number = said.args.iter().position(named).filter(|_| said.act.is_of_attribute())?;
    let data = piece(&call.data, number as u8, part::WHOLE, 0, false)?;
    stored.read(&data.content, ATTRIBUTE_NAME_MAX + 1).ok()
}

/// Whether a call sends to a name. Only socket pairs are known to stay inside: the receiver of a
/// name may be outside.
fn names_receiver(args: &[Arg], call: &Call) -> bool {
    let sends = |of: fn(&Of) -> bool| {
        args.iter().position(|arg| matches!(&arg.kind, ArgKind::Buf(Dir::In, kind, _) if of(kind)))
    };
    let by_argument = sends(|of| matches!(of, Of::Sockaddr));
    let in_message = sends(|of| matches!(of, Of::Msghdr | Of::Mmsghdr));
    let is_name = |data: &Data, number| usize::from(data.arg) == number && data.part == part::NAME;
    by_argument.is_some_and(|number| call.args[number] != 0)
        || in_message.is_some_and(|number| call.data.iter().any(|data| is_name(data, number)))
}

/// Whether the result is only the length of a list of attributes, or that it is too long: some
/// attributes may be the system's.
fn asks_for_length_of_list(said: &Said, call: &Call, ret: i64) -> bool {
    let is_bare = || said.value(call, Operand::Room) == Some(0);
    operand(said.args, Operand::AttributeNames).is_some()
        && (errno::of_result(ret) == Some(ERANGE) || is_bare())
}

/// Whether a call was to create its last path, so that it cannot fail because that is missing.
pub fn makes_name(act: Act, args: &[Arg]) -> bool {
    match act {
        Act::MakeDirectory | Act::MakeNode | Act::MakeLink | Act::HardLink | Act::Rename => true,
        // Only opens that create a file have a mode.
        Act::Open => args.iter().any(|arg| matches!(arg.kind, ArgKind::Mode)),
        _ => false,
    }
}

/// Whether a rename exchanges both names.
pub fn exchanges(said: &Said, call: &Call) -> bool {
    said.of_set(call, &flags::RENAME).is_some_and(|flags| flags & RENAME_EXCHANGE != 0)
}

/// Whether prlimit concerns another process, which may not exist here.
fn concerns_another_process(args: &[Arg], call: &Call) -> bool {
    args.iter().zip(call.args).any(|(arg, value)| matches!(arg.kind, ArgKind::Pid) && value != 0)
}

/// Whether a mode is that of a device node.
pub fn is_device(mode: u32) -> bool {
    matches!(mode & S_IFMT, S_IFCHR | S_IFBLK)
}

/// How many bytes a call moved, if its result says it.
pub fn taken(said: &Said, ret: i64) -> Option<u64> {
    (said.ret == syscalls::Ret::Size).then_some(u64::try_from(ret).unwrap_or(0))
}

/// Whether a call moves bytes from one descriptor to another: sendfile, splice, copy_file_range.
fn moves_between_files(said: &Said) -> bool {
    matches!(said.act, Act::Copy | Act::Tee)
}

/// Whether the trace does not show why a call failed: it lacks the vector if the kernel did not
/// read one, and vmsplice is replaced by another call.
fn hides_its_reason(said: &Said, call: &Call, ret: i64) -> bool {
    let is_vector = |arg: &Arg| matches!(arg.kind, ArgKind::Buf(_, Of::Iovec, _));
    let Some(vector) = said.args.iter().position(is_vector) else { return false };
    let both = [Classes::READ, Classes::WRITE].map(|class| said.row.classes.intersects(class));
    both == [true; 2]
        || errno::of_result(ret) == Some(EINVAL)
            && !call.data.iter().any(|data| usize::from(data.arg) == vector)
}

/// Whether the source is read at its own offset.
fn has_no_offset(said: &Said, call: &Call) -> bool {
    operand(said.args, Operand::SourceAt).is_some()
        && offset_of(said.args, &call.args, Operand::SourceAt) == OffsetIs::Own
}

/// Returns the device number of a line of /proc/self/mountinfo that shows a kernel view.
fn view_of_the_kernel(line: &[u8]) -> Option<u64> {
    let words: Vec<&[u8]> = line.split(|&c| c == b' ').collect();
    let dash = words.iter().position(|word| *word == b"-")?;
    if !KERNELS.contains(words.get(dash + 1)?) {
        return None;
    }
    let numbers = std::str::from_utf8(words.get(2)?).ok()?;
    let (major, minor) = numbers.split_once(':')?;
    Some(libc::makedev(major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_of_the_kernel_are_known() {
        let line = b"25 1 0:23 / /proc rw,nosuid shared:7 - proc proc rw";
        assert_eq!(view_of_the_kernel(line), Some(23));
        let line = b"25 1 8:1 / / rw - ext4 /dev/sda1 rw";
        assert_eq!(view_of_the_kernel(line), None);
        assert_eq!(view_of_the_kernel(b"- proc"), None);
    }
}
