//! Effects of a call on descriptors and directories, derived from its table row where possible.

mod mounting;
mod tasks;

use std::borrow::Cow;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::LazyLock;

use syscalls::abi::errno;
use syscalls::abi::files::{
    AT_FDCWD, CLOSE_RANGE_CLOEXEC, CLOSE_RANGE_UNSHARE, FD_CLOEXEC, O_TMPFILE, O_WRONLY,
};
use syscalls::abi::rings::SETUP_REGISTERED_ONLY;
use syscalls::abi::tasks::{CLONE_FILES, CLONE_FS, CLONE_NEWNS};
use syscalls::record::{RESULT, part};
use syscalls::shape::{Arg, ArgKind, Dir, Of, Ret, Syscall, operand};
use syscalls::table::NUMBER_LIMIT;
use syscalls::{Act, Gives, Operand, layout};
use trace::event::{Call, Content, Outcome};

use crate::contents::{Contents, latest, piece};
use crate::decode::shape::{Shape, shape_of};
use crate::decode::{message, sockaddr, symbols};
use crate::descriptors::Descriptor;
use crate::filters;
use crate::open_files::{Addresses, Description, Origin, Position};
use crate::path::{self, Own};
use crate::places::Place;
use crate::step::{Effect, Step, Through};
use crate::world::{CredentialsChange, World};

/// Limit for the bytes of a path argument; the kernel's limit is 4096.
const PATH_BYTES_MAX: usize = 8192;

/// Returns true if no call of a row touches descriptors or directories, or names a path.
fn is_inert(row: &Syscall) -> bool {
    let variants = row.variants.iter().map(|variant| (variant.args, variant.ret));
    let plain = variants.chain([(row.args, row.ret)]).all(|(args, ret)| {
        let harmless = |arg: &Arg| match arg.kind {
            ArgKind::Path => false,
            ArgKind::Buf(_, Of::Holder(_), _) => !arg.holds(&layout::FILTER),
            ArgKind::Buf(dir, of, _) => {
                dir == Dir::In || !matches!(of, Of::Fds | Of::Msghdr | Of::Mmsghdr)
            }
            _ => true,
        };
        ret != Ret::Fd && args.iter().all(harmless)
    });
    plain && !row.acts().any(Act::changes_process)
}

/// Returns true if a call has no effect on a world. Most calls have none and take a fast path.
pub fn changes_nothing(call: &Call) -> bool {
    static INERT: LazyLock<Vec<bool>> = LazyLock::new(|| {
        let rows = (0..NUMBER_LIMIT as u64).map(syscalls::by_number);
        rows.map(|row| row.is_none_or(is_inert)).collect()
    });
    INERT.get(usize::from(call.nr)).copied().unwrap_or(true)
}

/// Returns true if a call may concern what ties processes to others, or user and group ids.
pub fn concerns_tasks(call: &Call) -> bool {
    static CONCERNED: LazyLock<Vec<bool>> = LazyLock::new(|| {
        let rows = (0..NUMBER_LIMIT as u64).map(syscalls::by_number);
        rows.map(|row| row.is_some_and(is_of_tasks)).collect()
    });
    CONCERNED.get(usize::from(call.nr)).copied().unwrap_or(false)
}

/// A filter may answer such calls, so that the kernel does not make them.
fn is_of_tasks(row: &Syscall) -> bool {
    let variants = row.variants.iter().map(|variant| variant.args);
    let filters = variants.chain([row.args]).flatten().any(|arg| arg.holds(&layout::FILTER));
    let concerns = |act: Act| {
        act.changes_ties()
            || act.changes_credentials()
            || matches!(act, Act::Spawn | Act::Unshare | Act::EnterNamespace)
    };
    filters || row.acts().any(concerns)
}

/// Returns the clone flags of a call that creates a task: an argument or a struct's first word.
pub fn spawn_flags(call: &Call, contents: &mut dyn Contents) -> Option<u64> {
    let row = syscalls::by_number(call.nr.into())?;
    if row.act_of(&call.args) != Act::Spawn {
        return None;
    }
    let shape = shape_of(call);
    for (arg, number) in shape.args.iter().zip(0u8..) {
        match arg.kind {
            ArgKind::Flags(_) => return Some(call.args[usize::from(number)]),
            ArgKind::Buf(_, Of::Struct(_), _) => return word_behind(call, number, 0, contents),
            _ => {}
        }
    }
    Some(0)
}

/// Returns the flags of a call that opens a path, if the trace has them.
pub fn open_flags(call: &Call, contents: &mut dyn Contents) -> Option<u64> {
    let open = syscalls::by_number(call.nr.into())?.open?;
    let mut is_known = true;
    let flags = open.of(&call.args, |arg, at| {
        let word = word_behind(call, arg, at, contents);
        is_known = word.is_some();
        word
    });
    is_known.then_some(flags)
}

/// Returns the 64-bit number at an offset of the memory behind an argument, as it was before the
/// call.
pub fn word_behind(call: &Call, arg: u8, at: u8, contents: &mut dyn Contents) -> Option<u64> {
    let data = piece(&call.data, arg, part::WHOLE, 0, false)?;
    let bytes = contents.read(&data.content, usize::from(at) + size_of::<u64>()).ok()?;
    Some(u64::from_le_bytes(*bytes.get(usize::from(at)..)?.first_chunk()?))
}

/// Fills `step` with the changes that `call` makes.
pub(crate) fn of_call(
    world: &mut World,
    call: &Call,
    submitted: Option<u64>,
    contents: &mut dyn Contents,
    step: &mut Step,
) {
    let shape = shape_of(call);
    let mut look = Look { world, call, shape: &shape, contents, thread: step.thread };
    look.paths(step);
    if let Outcome::Returned { exit_tsc, .. } = call.outcome {
        step.exit_tsc = Some(exit_tsc);
    }
    if shape.act == Act::Close {
        // Close frees the number early in the call, even if it returns an error.
        let bad = matches!(call.outcome, Outcome::Returned { ret, .. } if ret == -i64::from(errno::EBADF));
        let fd = call.args[0] as i32;
        // An operation has closed it before it was given anew.
        let is_newer = submitted.is_some_and(|since| look.world.was_given(step.thread, fd, since));
        if !bad && !is_newer {
            step.at_entry.push(Effect::Close { fd });
        }
        return;
    }
    let Some(ret) = call.success() else { return };
    // A positive result without a listener is the id of a thread that failed to synchronize.
    if (ret == 0 || shape.ret == Ret::Fd)
        && let Some((program, all_threads)) = filters::installed(call, look.contents)
    {
        look.world.expect_filters();
        step.at_exit.push(Effect::Filter { program, all_threads });
    }
    if shape.act == Act::SetUpRing {
        look.world.expect_operations();
    }
    match shape.act {
        Act::Duplicate => look.duplicate(ret, step),
        Act::SetDescriptorFlags => {
            look.set_close_on_exec(call.args[2] & FD_CLOEXEC != 0, step);
        }
        Act::SetCloseOnExec => look.set_close_on_exec(true, step),
        Act::ClearCloseOnExec => look.set_close_on_exec(false, step),
        Act::CloseRange => look.close_range(step),
        Act::Directory => {
            // Without the captured path, the argument is only an address, not a descriptor.
            let by_number = matches!(shape.args.first(), Some(Arg { kind: ArgKind::Fd, .. }));
            let of = |open: Rc<Description>| Place { mount: open.mount, path: open.path.clone() };
            let place = match step.paths.first() {
                Some((_, path)) => match look.behind_own_link(path) {
                    Some(same) => Some(of(same)),
                    None => Some(Place { mount: step.first_mount(), path: path.clone() }),
                },
                None if by_number => look.description(call.args[0] as i32).map(of),
                None => None,
            };
            let root = look.world.directory(step.thread).and_then(|now| now.root.clone());
            let directory = place.map(|place| look.world.directory_in(place, root));
            step.at_exit.extend(directory.map(|directory| Effect::Chdir { directory }));
        }
        // The kernel's path differs from the fold's if a process has its own root or mounts.
        Act::TellDirectory if look.world.has_views() => {}
        Act::TellDirectory => {
            // The text is empty if data was not recorded.
            let told = look.text(0, true).filter(|path| path.starts_with(b"/"));
            let told = told.map(Cow::into_owned);
            let known = look.world.directory(step.thread);
            let is_new = |path: &Vec<u8>| known.as_ref().is_none_or(|known| known.path != *path);
            if let Some(path) = told.filter(is_new) {
                let root = known.and_then(|known| known.root.clone());
                let directory = look.world.directory_in(Place { mount: 0, path }, root);
                step.at_exit.push(Effect::Chdir { directory });
            }
        }
        Act::Unshare => {
            if call.args[0] & CLONE_FILES != 0 {
                step.at_exit.push(Effect::UnshareFiles);
            }
            // The kernel unshares the directory with the mounts too.
            if call.args[0] & (CLONE_FS | CLONE_NEWNS) != 0 {
                step.at_exit.push(Effect::UnshareCwd);
            }
        }
        Act::Bind | Act::Connect => look.address(false, step),
        Act::TellAddress | Act::TellPeer => look.address(true, step),
        act if act.changes_ties() => look.ties(ret, step),
        act if act.changes_credentials() => look.credentials(ret, step),
        _ => {}
    }
    if look.leaves_users() {
        step.at_exit.push(Effect::Credentials(CredentialsChange::Elsewhere));
    }
    match look.world.follows_mounts {
        true => look.mounts(step),
        false => look.leaves(step),
    }
    look.new_descriptors(ret, step);
    for (_, given) in step.gives() {
        given.description.give_number(look.world.open_ids());
    }
}

struct Look<'a> {
    world: &'a mut World,
    call: &'a Call,
    shape: &'a Shape,
    contents: &'a mut dyn Contents,
    thread: u32,
}

impl<'a> Look<'a> {
    fn description(&self, fd: i32) -> Option<Rc<Description>> {
        Some(self.world.descriptors(self.thread)?.get(fd)?.description.clone())
    }

    fn text(&mut self, arg: u8, out: bool) -> Option<Cow<'a, [u8]>> {
        let data = piece(&self.call.data, arg, part::WHOLE, 0, out)?;
        let until_nul = |bytes: &[u8]| {
            let bytes = &bytes[..bytes.len().min(PATH_BYTES_MAX)];
            bytes.iter().position(|&c| c == 0).unwrap_or(bytes.len())
        };
        Some(match &data.content {
            Content::Inline(bytes) => Cow::Borrowed(&bytes[..until_nul(bytes)]),
            content => {
                let mut bytes = self.contents.read(content, PATH_BYTES_MAX).ok()?;
                bytes.truncate(until_nul(&bytes));
                Cow::Owned(bytes)
            }
        })
    }

    fn paths(&mut self, step: &mut Step) {
        let mut dir = AT_FDCWD;
        let sees = self.world.has_views();
        let in_root = crate::contents::opens_in_root(self.call, self.contents);
        for (arg, number) in self.shape.args.iter().zip(0u8..) {
            match arg.kind {
                ArgKind::DirFd => dir = self.call.args[usize::from(number)] as i32,
                ArgKind::Path => {
                    let Some(mut text) = self.text(number, false) else { continue };
                    if in_root {
                        // No `..` leads out of it either.
                        text = Cow::Owned(path::resolve(b"/", &text)[1..].to_vec());
                    }
                    if sees {
                        self.place_path(number, dir, &text, step);
                        continue;
                    }
                    let path = if text.first() == Some(&b'/') {
                        Some(self.world.joined(b"", &text))
                    } else if dir == AT_FDCWD {
                        let cwd = self.world.directory(self.thread);
                        self.seen_from(cwd.as_ref().map(|cwd| &cwd.path[..]), &text)
                    } else {
                        let directory = self.description(dir);
                        self.seen_from(directory.as_ref().map(|d| &d.path[..]), &text)
                    };
                    if let Some(path) = path {
                        let path = self.behind_own_directory(number, path, step);
                        step.paths.push((number, path));
                    }
                }
                _ => {}
            }
        }
    }

    /// Resolves a path relative to a directory, if that is known.
    fn seen_from(&self, directory: Option<&[u8]>, path: &[u8]) -> Option<Vec<u8>> {
        let directory = directory.filter(|directory| !directory.is_empty())?;
        Some(self.world.joined(directory, path))
    }

    /// Resolves a path that goes through a /proc link to one of the process's own directories.
    fn behind_own_directory(&self, arg: u8, path: Vec<u8>, step: &mut Step) -> Vec<u8> {
        if !path::may_be_own(&path) {
            return path;
        }
        let Some((own, below)) = self.own_directory(arg, &path) else { return path };
        let base = match own {
            Own::Descriptor(fd) => self.description(fd).map(|d| d.path.clone()).unwrap_or_default(),
            Own::Cwd => self.world.cwd(self.thread),
            Own::Root => b"/".to_vec(),
        };
        let found = if base.first() == Some(&b'/') {
            self.world.joined(&base, below)
        } else {
            path.clone()
        };
        step.through.push(Through { arg, own, below: below.to_vec() });
        found
    }

    /// Returns the process's own directory that a path goes through, and the rest of the path.
    fn own_directory<'p>(&self, arg: u8, path: &'p [u8]) -> Option<(Own, &'p [u8])> {
        let pid = self.world.ids(self.thread).map_or(0, |(pid, _)| pid);
        let (own, below) = path::own_link(path, pid)?;
        let is_meant = || syscalls::paths::means_link(self.call.nr, arg, &self.call.args);
        match own {
            Own::Descriptor(_) if below.is_empty() => None,
            Own::Cwd | Own::Root if below.is_empty() && is_meant() => None,
            _ => Some((own, below)),
        }
    }

    /// Returns true if the call makes its new descriptors close-on-exec, always or by a flag.
    fn close_on_exec(&self) -> bool {
        self.shape.gives_until_exec
            || self.shape.args.iter().zip(self.call.args).any(|(arg, value)| match arg.kind {
                ArgKind::Flags(set) | ArgKind::Enum(set) => set.asks_for_close_on_exec(value),
                _ => false,
            })
    }

    fn set_close_on_exec(&self, on: bool, step: &mut Step) {
        let fd = self.call.args[0] as u32;
        step.at_exit.push(Effect::SetCloseOnExec { first: fd, last: fd, on });
    }

    fn duplicate(&mut self, ret: i64, step: &mut Step) {
        // dup2 of a descriptor onto itself changes nothing.
        let onto = operand(self.shape.args, Operand::NewNumber);
        if onto.is_some_and(|onto| self.call.args[usize::from(onto)] == self.call.args[0]) {
            return;
        }
        self.install_copy(ret, self.close_on_exec(), step);
    }

    fn install_copy(&mut self, ret: i64, close_on_exec: bool, step: &mut Step) {
        let fd = ret as i32;
        step.at_exit.push(match self.description(self.call.args[0] as i32) {
            Some(description) => {
                Effect::Install { fd, entry: Descriptor { description, close_on_exec } }
            }
            // The source is unknown, so the target is unknown now.
            None => Effect::Close { fd },
        });
    }

    fn close_range(&mut self, step: &mut Step) {
        let (first, last, flags) =
            (self.call.args[0] as u32, self.call.args[1] as u32, self.call.args[2]);
        if flags & CLOSE_RANGE_UNSHARE != 0 {
            step.at_entry.push(Effect::UnshareFiles);
        }
        step.at_entry.push(if flags & CLOSE_RANGE_CLOEXEC != 0 {
            Effect::SetCloseOnExec { first, last, on: true }
        } else {
            Effect::CloseRange { first, last }
        });
    }

    fn address(&mut self, told: bool, step: &mut Step) {
        let Some(description) = self.description(self.call.args[0] as i32) else { return };
        let Some(address) = self.sockaddr(1, told) else { return };
        step.at_exit.push(match self.shape.act {
            Act::Bind | Act::TellAddress => Effect::Bound { description, local: address },
            _ => Effect::Connected { description, peer: address },
        });
    }

    fn sockaddr(&mut self, arg: u8, out: bool) -> Option<String> {
        let data = piece(&self.call.data, arg, part::WHOLE, 0, out)?;
        let bytes = self.contents.read(&data.content, sockaddr::BYTES_MAX).ok()?;
        sockaddr::short(&bytes)
    }

    /// Whether the result is not a descriptor, but the number of a ring that has none.
    fn is_number(&mut self) -> bool {
        const FLAGS_AT: u8 = 8;
        self.shape.act == Act::SetUpRing
            && word_behind(self.call, 1, FLAGS_AT, self.contents)
                .is_some_and(|flags| flags as u32 & SETUP_REGISTERED_ONLY != 0)
    }

    /// Adds the descriptors created by the call: its result, an array (pipe, socketpair), or the
    /// content of a message.
    fn new_descriptors(&mut self, ret: i64, step: &mut Step) {
        let close_on_exec = self.close_on_exec();
        let given = step.at_exit.iter().any(|e| matches!(e, Effect::Install { .. }));
        let is_copy = self.shape.act == Act::Duplicate;
        if self.shape.ret == Ret::Fd && !given && !is_copy && !self.is_number() {
            let description = self.opened(ret as i32, step);
            let entry = Descriptor { description, close_on_exec };
            step.at_exit.push(Effect::Install { fd: ret as i32, entry });
        }
        for (arg, number) in self.shape.args.iter().zip(0u8..) {
            match arg.kind {
                ArgKind::Buf(Dir::Out | Dir::InOut, Of::Fds, _) => {
                    self.array((number, part::WHOLE), close_on_exec, step);
                }
                ArgKind::Buf(Dir::Out | Dir::InOut, Of::Msghdr, _) => {
                    self.received(number, 0, close_on_exec, step);
                }
                ArgKind::Buf(Dir::Out | Dir::InOut, Of::Mmsghdr, _) => {
                    for index in 0..ret.clamp(0, 1024) as u16 {
                        self.received(number, index, close_on_exec, step);
                    }
                }
                _ => {}
            }
        }
        if let Gives::ObjectBehind(..) = self.shape.gives {
            self.array((0, part::CONTENT), close_on_exec, step);
        }
    }

    /// Returns the file or pipe that is reopened through the /proc link of an own descriptor.
    fn behind_own_link(&self, path: &[u8]) -> Option<Rc<Description>> {
        if !path::may_be_own(path) {
            return None;
        }
        let (pid, _) = self.world.ids(self.thread)?;
        let same = self.description(path::own_descriptor(path, pid)?)?;
        (!matches!(same.origin, Origin::Socket | Origin::SocketPair | Origin::Anonymous))
            .then_some(same)
    }

    fn opened(&mut self, fd: i32, step: &Step) -> Rc<Description> {
        let call = self.call;
        let identity = call
            .identities
            .iter()
            .rev()
            .find(|(a, _)| *a == RESULT || step.paths.iter().any(|(arg, _)| arg == a));
        let identity = identity.map(|(_, identity)| *identity);
        if let Some((_, path)) = step.paths.first() {
            let flags = open_flags(call, self.contents);
            let opened = |path, origin, mount, identity| {
                let position = Cell::new(Position::opened(flags));
                Rc::new(Description {
                    path,
                    identity,
                    origin,
                    flags,
                    mount,
                    position,
                    ..Default::default()
                })
            };
            if let Some(same) = self.behind_own_link(path) {
                let (path, origin, mount) = (same.path.clone(), same.origin, same.mount);
                return opened(path, origin, mount, identity.or(same.identity));
            }
            // O_TMPFILE: a new file without a name, in the directory of the path.
            let unnamed = flags.is_some_and(|flags| flags & O_TMPFILE == O_TMPFILE);
            let (path, origin) = match unnamed {
                true => ([path, &b"/# (deleted)"[..]].concat(), Origin::Unnamed),
                false if self.shape.gives == Gives::Mounts => (path.clone(), Origin::Anonymous),
                false => (path.clone(), Origin::Path),
            };
            return opened(path, origin, step.first_mount(), identity);
        }
        match self.shape.gives {
            _ if self.shape.act == Act::TakeDescriptor => self.taken(),
            Gives::Socket => {
                Description::of(Origin::Socket, format!("socket:[{}]", self.socket_kind()))
            }
            Gives::Connection => {
                let listener = self.description(call.args[0] as i32);
                let addresses = Addresses {
                    local: listener.as_ref().and_then(|l| l.addresses.borrow().local.clone()),
                    peer: self.sockaddr(1, true),
                };
                let path = listener.map_or_else(|| b"socket:[]".to_vec(), |l| l.path.clone());
                Rc::new(Description {
                    path,
                    addresses: addresses.into(),
                    identity,
                    origin: Origin::Socket,
                    ..Default::default()
                })
            }
            Gives::Memory => {
                let mut path = b"/memfd:".to_vec();
                path.extend_from_slice(&self.text(0, false).unwrap_or_default());
                path.extend_from_slice(b" (deleted)");
                Description::of(Origin::Memory, path)
            }
            Gives::SignalQueue if call.args[0] as i32 == fd => {
                self.description(fd).unwrap_or_else(|| object("signalfd"))
            }
            Gives::SignalQueue => object("signalfd"),
            Gives::Unnamed => Description::at("unknown"),
            Gives::Process => {
                let (path, origin) = (object_name("pidfd").into(), Origin::Anonymous);
                let pid = Some(call.args[0] as u32);
                Rc::new(Description { path, origin, pid, ..Default::default() })
            }
            Gives::Object(name) | Gives::ObjectBehind(name, _) => object(name),
            Gives::ByPath | Gives::Mounts | Gives::Pipe | Gives::SocketPair => {
                object(&self.shape.name)
            }
        }
    }

    /// Returns the file that `pidfd_getfd` copies from another process, or from the caller itself.
    fn taken(&self) -> Rc<Description> {
        let of = self.description(self.call.args[0] as i32).and_then(|pidfd| pidfd.pid);
        let theirs = of.and_then(|pid| self.world.descriptor_of(pid, self.call.args[1] as i32));
        match theirs {
            Some(same) if of == self.world.ids(self.thread).map(|(pid, _)| pid) => same,
            Some(theirs) => Description::of(Origin::Taken, theirs.path.clone()),
            None => Description::of(Origin::Taken, "unknown"),
        }
    }

    fn socket_kind(&self) -> String {
        let names: Vec<&str> = self
            .shape
            .args
            .iter()
            .zip(self.call.args)
            .filter_map(|(arg, value)| match arg.kind {
                ArgKind::Enum(set) | ArgKind::Flags(set) => {
                    symbols::split(set, value).0.first().copied()
                }
                _ => None,
            })
            .take(2)
            .collect();
        names.join(" ")
    }

    fn array(&mut self, (arg, part): (u8, u8), close_on_exec: bool, step: &mut Step) {
        let Some(data) = piece(&self.call.data, arg, part, 0, true) else { return };
        let Ok(bytes) = self.contents.read(&data.content, 8) else { return };
        let (origin, path) = match self.shape.gives {
            Gives::Pipe => (Origin::Pipe, format!("pipe:[{}]", self.world.next_pipe())),
            Gives::SocketPair => (Origin::SocketPair, format!("socket:[{}]", self.socket_kind())),
            Gives::Object(name) | Gives::ObjectBehind(name, _) => {
                (Origin::Anonymous, object_name(name))
            }
            _ => (Origin::Anonymous, object_name(&self.shape.name)),
        };
        // A pipe's first end reads, its second one writes.
        for (fd, access) in bytes.chunks_exact(4).zip([0, O_WRONLY]) {
            let fd = i32::from_le_bytes(fd.try_into().expect("chunks of 4"));
            let description = match origin {
                Origin::Pipe => Description::end_of_pipe(path.clone(), access),
                _ => Description::of(origin, path.clone()),
            };
            let entry = Descriptor { description, close_on_exec };
            step.at_exit.push(Effect::Install { fd, entry });
        }
    }

    fn received(&mut self, arg: u8, index: u16, close_on_exec: bool, step: &mut Step) {
        let Some(data) = latest(&self.call.data, arg, part::CONTROL, index) else { return };
        let Ok(bytes) = self.contents.read(&data.content, message::CONTROL_BYTES_MAX) else {
            return;
        };
        let over = self.description(self.call.args[0] as i32).map(|socket| socket.origin);
        let origin = match over {
            Some(Origin::SocketPair | Origin::Passed) => Origin::Passed,
            _ => Origin::Outside,
        };
        for fd in message::passed_descriptors(&bytes) {
            let entry =
                Descriptor { description: Description::of(origin, "received"), close_on_exec };
            step.at_exit.push(Effect::Install { fd, entry });
        }
    }
}

/// Returns an object of the kernel.
fn object(name: &str) -> Rc<Description> {
    Description::of(Origin::Anonymous, object_name(name))
}

/// Returns the name that /proc uses for a kernel object.
fn object_name(name: &str) -> String {
    format!("anon_inode:[{name}]")
}
