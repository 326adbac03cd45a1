//! Answers the kernel's requests from the directory below, each not before its time.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime};

use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno, FileAttr, FileHandle, FileType, Filesystem,
    FopenFlags, Generation, INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags,
    ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyLseek,
    ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use rustix::fs::{
    AtFlags, CWD, Dir, FallocateFlags, Gid, Mode, OFlags, SeekFrom, Timestamps, Uid, XattrFlags,
};

use super::answers::{
    Change, RELIED, Result, attribute, attributes, bytes, empty, entry, failed, time, whole,
    written,
};
use super::nodes::{Nodes, kind_of, path_of};
use super::speed::{Moved, Speed};

/// Requests of one file that the kernel may have under way at a time, such as those of reading ahead.
const BACKGROUND: u16 = 64;

/// Flags that a file below is not opened with: the kernel has dealt with them.
const DEALT_WITH: i32 = libc::O_CREAT
    | libc::O_EXCL
    | libc::O_TRUNC
    | libc::O_NOCTTY
    | libc::O_APPEND
    | libc::O_NOFOLLOW
    | libc::O_DIRECT
    | libc::O_ACCMODE;

type Listing = Arc<Vec<(u64, FileType, Vec<u8>)>>;

enum Open {
    File(Arc<File>),
    Directory(Listing),
}

/// The files of a volume.
pub struct Files {
    nodes: Nodes,
    speed: Arc<Speed>,
    open: Mutex<HashMap<u64, Open>>,
    opened: AtomicU64,
}

impl Files {
    /// Shows what is below a directory.
    pub fn new(top: OwnedFd, speed: Arc<Speed>) -> io::Result<Files> {
        let nodes = Nodes::new(top)?;
        Ok(Files { nodes, speed, open: Mutex::default(), opened: AtomicU64::new(1) })
    }

    /// Waits until the request is due, then answers it.
    fn answer<T>(&self, came: Instant, moved: Moved, tell: impl FnOnce(T), found: T) {
        self.speed.wait(came, moved);
        tell(found);
    }

    fn keep(&self, open: Open) -> FileHandle {
        let number = self.opened.fetch_add(1, Ordering::Relaxed);
        self.open.lock().unwrap_or_else(PoisonError::into_inner).insert(number, open);
        FileHandle(number)
    }

    fn drop_handle(&self, handle: FileHandle) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&handle.0);
    }

    fn file(&self, handle: FileHandle) -> Result<Arc<File>> {
        match self.open.lock().unwrap_or_else(PoisonError::into_inner).get(&handle.0) {
            Some(Open::File(file)) => Ok(Arc::clone(file)),
            _ => Err(Errno::EBADF),
        }
    }

    fn directory(&self, number: INodeNo) -> Result<Arc<OwnedFd>> {
        self.nodes.get(number).map_err(failed)
    }

    fn path(&self, number: INodeNo) -> Result<String> {
        Ok(path_of(&*self.directory(number)?))
    }

    fn find(&self, parent: INodeNo, name: &OsStr) -> Result<FileAttr> {
        self.nodes.find(parent, name).map_err(failed)
    }

    /// A file was made: it belongs to who asked, or to the group of its directory if that says so.
    /// Gives what was made to who asks for it, with this mode: the kernel has applied the mask of who asks, and
    /// then our own was applied.
    fn give(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: Option<u32>,
    ) -> Result<FileAttr> {
        let above = self.directory(parent)?;
        let inherits =
            rustix::fs::fstat(above.as_fd()).map_err(failed)?.st_mode & libc::S_ISGID != 0;
        let group = (!inherits).then(|| Gid::from_raw(request.gid()));
        let owner = Some(Uid::from_raw(request.uid()));
        // An ordinary user's own files are theirs anyway.
        let _ = rustix::fs::chownat(&*above, name, owner, group, AtFlags::SYMLINK_NOFOLLOW);
        if let Some(mode) = mode {
            let inherited = inherits && mode & libc::S_IFMT == libc::S_IFDIR;
            let bits = mode & !libc::S_IFMT | if inherited { libc::S_ISGID } else { 0 };
            let mode = Mode::from_raw_mode(bits);
            rustix::fs::chmodat(&*above, name, mode, AtFlags::empty()).map_err(failed)?;
        }
        self.find(parent, name)
    }

    /// Opens a file as the kernel needs it: it reads pages that are written in part, and appends itself.
    fn open_again(&self, number: INodeNo, flags: i32) -> Result<File> {
        let path = self.path(number)?;
        let writes = flags & libc::O_ACCMODE != libc::O_RDONLY;
        let mut options = OpenOptions::new();
        options.read(true).write(writes).custom_flags(flags & !DEALT_WITH);
        match options.open(&path) {
            Err(error) if writes && error.kind() == io::ErrorKind::PermissionDenied => {
                Ok(options.read(false).open(&path)?)
            }
            opened => Ok(opened?),
        }
    }

    fn list(&self, number: INodeNo) -> Result<Listing> {
        let below = self.directory(number)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = rustix::fs::openat(&*below, ".", flags, Mode::empty()).map_err(failed)?;
        let mut all = Vec::new();
        for entry in Dir::read_from(open).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let number = self.nodes.number(entry.ino());
            all.push((number, kind_of(entry.file_type()), entry.file_name().to_bytes().to_vec()));
        }
        Ok(Arc::new(all))
    }

    fn change(
        &self,
        number: INodeNo,
        change: &Change,
        file: Option<Arc<File>>,
    ) -> Result<FileAttr> {
        let path = self.path(number)?;
        if change.owner.is_some() || change.group.is_some() {
            let (owner, group) = (change.owner.map(Uid::from_raw), change.group.map(Gid::from_raw));
            let below = self.directory(number)?;
            rustix::fs::chownat(&*below, "", owner, group, AtFlags::EMPTY_PATH).map_err(failed)?;
        }
        if let Some(mode) = change.mode {
            rustix::fs::chmod(&path, Mode::from_raw_mode(mode)).map_err(failed)?;
        }
        if let Some(size) = change.size {
            match file {
                Some(file) => file.set_len(size)?,
                None => OpenOptions::new().write(true).open(&path)?.set_len(size)?,
            }
        }
        if change.accessed.is_some() || change.modified.is_some() {
            let times = Timestamps {
                last_access: time(change.accessed),
                last_modification: time(change.modified),
            };
            rustix::fs::utimensat(CWD, &path, &times, AtFlags::empty()).map_err(failed)?;
        }
        self.nodes.look(number).map_err(failed)
    }
}

impl Filesystem for Files {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // What a kernel does not offer is done without.
        for wanted in [
            InitFlags::FUSE_WRITEBACK_CACHE,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_HANDLE_KILLPRIV_V2,
            InitFlags::FUSE_ASYNC_DIO,
        ] {
            let _ = config.add_capabilities(wanted);
        }
        let _ = config.set_max_background(BACKGROUND);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let came = Instant::now();
        self.answer(came, Moved::Nothing, entry(reply), self.find(parent, name));
    }

    fn forget(&self, _: &Request, number: INodeNo, lookups: u64) {
        self.nodes.forget(number, lookups);
    }

    fn getattr(&self, _: &Request, number: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let came = Instant::now();
        let found = self.nodes.look(number).map_err(failed);
        self.answer(came, Moved::Nothing, attributes(reply), found);
    }

    fn setattr(
        &self,
        _: &Request,
        number: INodeNo,
        mode: Option<u32>,
        owner: Option<u32>,
        group: Option<u32>,
        size: Option<u64>,
        accessed: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let came = Instant::now();
        let file = handle.and_then(|handle| self.file(handle).ok());
        let change = Change { mode, owner, group, size, accessed, modified };
        self.answer(came, Moved::Nothing, attributes(reply), self.change(number, &change, file));
    }

    fn readlink(&self, _: &Request, number: INodeNo, reply: ReplyData) {
        let came = Instant::now();
        let target = self.directory(number).and_then(|link| {
            let target = rustix::fs::readlinkat(&*link, "", Vec::new()).map_err(failed)?;
            Ok(target.into_bytes())
        });
        self.answer(came, Moved::Nothing, bytes(reply), target);
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let came = Instant::now();
        let made = self.directory(parent).and_then(|above| {
            let kind = rustix::fs::FileType::from_raw_mode(mode);
            let raw = Mode::from_raw_mode(mode);
            rustix::fs::mknodat(&*above, name, kind, raw, device.into()).map_err(failed)?;
            self.give(request, parent, name, Some(mode))
        });
        self.answer(came, Moved::Nothing, entry(reply), made);
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        let came = Instant::now();
        let made = self.directory(parent).and_then(|above| {
            rustix::fs::mkdirat(&*above, name, Mode::from_raw_mode(mode)).map_err(failed)?;
            self.give(request, parent, name, Some(mode | libc::S_IFDIR))
        });
        self.answer(came, Moved::Nothing, entry(reply), made);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let came = Instant::now();
        let done = self.directory(parent).and_then(|above| {
            rustix::fs::unlinkat(&*above, name, AtFlags::empty()).map_err(failed)
        });
        self.answer(came, Moved::Nothing, empty(reply), done);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let came = Instant::now();
        let done = self.directory(parent).and_then(|above| {
            rustix::fs::unlinkat(&*above, name, AtFlags::REMOVEDIR).map_err(failed)
        });
        self.answer(came, Moved::Nothing, empty(reply), done);
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let came = Instant::now();
        let made = self.directory(parent).and_then(|above| {
            rustix::fs::symlinkat(target, &*above, name).map_err(failed)?;
            self.give(request, parent, name, None)
        });
        self.answer(came, Moved::Nothing, entry(reply), made);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let came = Instant::now();
        let done = self.directory(parent).and_then(|from| {
            let to = self.directory(new_parent)?;
            let flags = rustix::fs::RenameFlags::from_bits_retain(flags.bits());
            rustix::fs::renameat_with(&*from, name, &*to, new_name, flags).map_err(failed)
        });
        self.answer(came, Moved::Nothing, empty(reply), done);
    }

    fn link(
        &self,
        _: &Request,
        number: INodeNo,
        new_parent: INodeNo,
        new_name: &OsStr,
        reply: ReplyEntry,
    ) {
        let came = Instant::now();
        let made = self.path(number).and_then(|path| {
            let to = self.directory(new_parent)?;
            rustix::fs::linkat(CWD, &path, &*to, new_name, AtFlags::SYMLINK_FOLLOW)
                .map_err(failed)?;
            self.find(new_parent, new_name)
        });
        self.answer(came, Moved::Nothing, entry(reply), made);
    }

    fn open(&self, _: &Request, number: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let came = Instant::now();
        let opened = self.open_again(number, flags.0);
        let opened = opened.map(|file| self.keep(Open::File(Arc::new(file))));
        let tell = |opened| match opened {
            Ok(handle) => reply.opened(handle, FopenFlags::FOPEN_KEEP_CACHE),
            Err(error) => reply.error(error),
        };
        self.answer(came, Moved::Nothing, tell, opened);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let came = Instant::now();
        let read = self.file(handle).and_then(|file| {
            let mut bytes = vec![0; size as usize];
            let mut filled = 0;
            while filled < bytes.len() {
                match file.read_at(&mut bytes[filled..], offset + filled as u64)? {
                    0 => break,
                    more => filled += more,
                }
            }
            bytes.truncate(filled);
            Ok(bytes)
        });
        let moved = read.as_ref().map_or(0, |bytes| bytes.len() as u64);
        self.answer(came, Moved::Read(moved), bytes(reply), read);
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let came = Instant::now();
        let done = self.file(handle).and_then(|file| {
            file.write_all_at(data, offset)?;
            Ok(data.len() as u32)
        });
        self.answer(came, Moved::Written(data.len() as u64), written(reply), done);
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        self.answer(Instant::now(), Moved::Nothing, empty(reply), Ok(()));
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        // Nobody waits for this.
        self.drop_handle(handle);
        reply.ok();
    }

    fn fsync(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        data_alone: bool,
        reply: ReplyEmpty,
    ) {
        let came = Instant::now();
        let done = self.file(handle).and_then(|file| match data_alone {
            true => Ok(file.sync_data()?),
            false => Ok(file.sync_all()?),
        });
        self.answer(came, Moved::Nothing, empty(reply), done);
    }

    fn opendir(&self, _: &Request, number: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let came = Instant::now();
        let opened = self.list(number).map(|all| self.keep(Open::Directory(all)));
        let tell = |opened| match opened {
            Ok(handle) => reply.opened(handle, FopenFlags::empty()),
            Err(error) => reply.error(error),
        };
        self.answer(came, Moved::Nothing, tell, opened);
    }

    fn readdir(
        &self,
        _: &Request,
        number: INodeNo,
        handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let came = Instant::now();
        let listing =
            match self.open.lock().unwrap_or_else(PoisonError::into_inner).get_mut(&handle.0) {
                Some(Open::Directory(all)) if offset == 0 => {
                    // From the beginning, as after rewinddir: names of now.
                    self.list(number).inspect(|fresh| *all = Arc::clone(fresh))
                }
                Some(Open::Directory(all)) => Ok(Arc::clone(all)),
                _ => Err(Errno::EBADF),
            };
        let listing = match listing {
            Ok(listing) => listing,
            Err(error) => return reply.error(error),
        };
        for (next, (number, kind, name)) in (1..).zip(listing.iter()).skip(offset as usize) {
            if reply.add(INodeNo(*number), next, *kind, OsStr::from_bytes(name)) {
                break;
            }
        }
        self.answer(came, Moved::Nothing, |()| reply.ok(), ());
    }

    fn releasedir(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.drop_handle(handle);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, number: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        let came = Instant::now();
        let done = self.directory(number).and_then(|below| {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let open = rustix::fs::openat(&*below, ".", flags, Mode::empty()).map_err(failed)?;
            rustix::fs::fsync(open).map_err(failed)
        });
        self.answer(came, Moved::Nothing, empty(reply), done);
    }

    fn statfs(&self, _: &Request, number: INodeNo, reply: ReplyStatfs) {
        let came = Instant::now();
        let stat = self
            .directory(number)
            .and_then(|below| rustix::fs::fstatvfs(below.as_fd()).map_err(failed));
        let tell = |stat: Result<rustix::fs::StatVfs>| match stat {
            Ok(stat) => reply.statfs(
                stat.f_blocks,
                stat.f_bfree,
                stat.f_bavail,
                stat.f_files,
                stat.f_ffree,
                stat.f_bsize as u32,
                stat.f_namemax as u32,
                stat.f_frsize as u32,
            ),
            Err(error) => reply.error(error),
        };
        self.answer(came, Moved::Nothing, tell, stat);
    }

    fn setxattr(
        &self,
        _: &Request,
        number: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        let came = Instant::now();
        let flags = XattrFlags::from_bits_retain(flags as u32);
        let done = self
            .path(number)
            .and_then(|path| rustix::fs::setxattr(&path, name, value, flags).map_err(failed));
        self.answer(came, Moved::Nothing, empty(reply), done);
    }

    fn getxattr(&self, _: &Request, number: INodeNo, name: &OsStr, room: u32, reply: ReplyXattr) {
        let came = Instant::now();
        let read = self
            .path(number)
            .and_then(|path| whole(|bytes| rustix::fs::getxattr(&path, name, bytes)));
        self.answer(came, Moved::Nothing, attribute(reply, room), read);
    }

    fn listxattr(&self, _: &Request, number: INodeNo, room: u32, reply: ReplyXattr) {
        let came = Instant::now();
        let read =
            self.path(number).and_then(|path| whole(|bytes| rustix::fs::listxattr(&path, bytes)));
        self.answer(came, Moved::Nothing, attribute(reply, room), read);
    }

    fn removexattr(&self, _: &Request, number: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let came = Instant::now();
        let done =
            self.path(number).and_then(|path| rustix::fs::removexattr(&path, name).map_err(failed));
        self.answer(came, Moved::Nothing, empty(reply), done);
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let came = Instant::now();
        let made = self.directory(parent).and_then(|above| {
            let exclusive = OFlags::from_bits_retain((flags & libc::O_EXCL) as u32);
            let how =
                OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC | exclusive;
            let raw = Mode::from_raw_mode(mode);
            let made = rustix::fs::openat(&*above, name, how, raw).map_err(failed)?;
            let attributes = self.give(request, parent, name, Some(mode))?;
            Ok((attributes, self.keep(Open::File(Arc::new(made.into())))))
        });
        let tell = |made| match made {
            Ok((attributes, handle)) => {
                let flags = FopenFlags::FOPEN_KEEP_CACHE;
                reply.created(&RELIED, &attributes, Generation(0), handle, flags);
            }
            Err(error) => reply.error(error),
        };
        self.answer(came, Moved::Nothing, tell, made);
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let came = Instant::now();
        let done = self.file(handle).and_then(|file| {
            let mode = FallocateFlags::from_bits_retain(mode as u32);
            rustix::fs::fallocate(&*file, mode, offset, length).map_err(failed)
        });
        self.answer(came, Moved::Nothing, empty(reply), done);
    }

    fn lseek(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let came = Instant::now();
        let found = self.file(handle).and_then(|file| {
            let offset = offset.unsigned_abs();
            let to = match whence {
                libc::SEEK_DATA => SeekFrom::Data(offset),
                libc::SEEK_HOLE => SeekFrom::Hole(offset),
                _ => return Err(Errno::EINVAL),
            };
            rustix::fs::seek(&*file, to).map_err(failed)
        });
        let tell = |found| match found {
            Ok(at) => reply.offset(at as i64),
            Err(error) => reply.error(error),
        };
        self.answer(came, Moved::Nothing, tell, found);
    }

    fn copy_file_range(
        &self,
        _: &Request,
        _: INodeNo,
        from: FileHandle,
        mut offset_in: u64,
        _: INodeNo,
        to: FileHandle,
        mut offset_out: u64,
        length: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let came = Instant::now();
        // What is copied moves on the server alone. The answer has 32 bits.
        let length = length.min(1 << 30) as usize;
        let done = self.file(from).and_then(|from| {
            let to = self.file(to)?;
            let (at, put) = (Some(&mut offset_in), Some(&mut offset_out));
            let copied = rustix::fs::copy_file_range(&*from, at, &*to, put, length);
            Ok(copied.map_err(failed)? as u32)
        });
        self.answer(came, Moved::Nothing, written(reply), done);
    }
}
