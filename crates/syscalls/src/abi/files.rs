//! Numbers in calls on files and descriptors.

/// Command of fcntl: which signal tells of events of an open file.
pub const F_SETSIG: i32 = 10;
/// Instead of a directory descriptor: the working directory.
pub const AT_FDCWD: i32 = -100;
/// A link at the end of a path is not followed.
pub const AT_SYMLINK_NOFOLLOW: u64 = 0x100;
/// Of unlinkat: the path is a directory.
pub const AT_REMOVEDIR: u64 = 0x200;
/// An empty path stands for the descriptor itself.
pub const AT_EMPTY_PATH: u64 = 0x1000;

/// Bits of open's flags that say whether it reads, writes or both.
pub const O_ACCMODE: u64 = 0o3;
/// Of openat2: the directory is the root of the path.
pub const RESOLVE_IN_ROOT: u64 = 0x10;
/// Operation of fcntl: the flags of an open file.
pub const F_GETFL: u64 = 3;
/// Write only.
pub const O_WRONLY: u64 = 0o1;
/// Read and write.
pub const O_RDWR: u64 = 0o2;
/// The file is created if it is not there.
pub const O_CREAT: u64 = 0o100;
/// With `O_CREAT`: the call fails if the file is there.
pub const O_EXCL: u64 = 0o200;
/// The file is emptied.
pub const O_TRUNC: u64 = 0o1000;
/// Every write goes to the end.
pub const O_APPEND: u64 = 0o2000;
/// Writes return when their data is durable.
pub const O_DSYNC: u64 = 0o10_000;
/// Reads and writes go past the cache.
pub const O_DIRECT: u64 = 0o40_000;
/// The path leads to a directory, or the call fails.
pub const O_DIRECTORY: u64 = 0o200_000;
/// A link at the end of the path makes the call fail.
pub const O_NOFOLLOW: u64 = 0o400_000;
/// The descriptor is closed by an exec.
pub const O_CLOEXEC: u64 = 0o2_000_000;
/// The descriptor names the file, without access to it.
pub const O_PATH: u64 = 0o10_000_000;
/// A file without a name in a directory (contains `O_DIRECTORY`).
pub const O_TMPFILE: u64 = 0o20_200_000;
/// The bit of `O_TMPFILE` that is its alone.
pub const O_TMPFILE_ALONE: u64 = 0o20_000_000;

/// Bits of a mode with the type of the file.
pub const S_IFMT: u32 = 0o170_000;
/// A socket.
pub const S_IFSOCK: u32 = 0o140_000;
/// A symbolic link.
pub const S_IFLNK: u32 = 0o120_000;
/// A regular file.
pub const S_IFREG: u32 = 0o100_000;
/// A block device.
pub const S_IFBLK: u32 = 0o060_000;
/// A directory.
pub const S_IFDIR: u32 = 0o040_000;
/// A character device.
pub const S_IFCHR: u32 = 0o020_000;
/// A named pipe.
pub const S_IFIFO: u32 = 0o010_000;

/// Of access: may it be executed?
pub const X_OK: u64 = 1;
/// Of access: may it be written?
pub const W_OK: u64 = 2;
/// Of access: may it be read?
pub const R_OK: u64 = 4;

/// Of rename: both names change places.
pub const RENAME_EXCHANGE: u64 = 2;

/// Of `F_SETFD`: the descriptor is closed by an exec.
pub const FD_CLOEXEC: u64 = 1;
/// Of close_range: the thread gets a table of its own first.
pub const CLOSE_RANGE_UNSHARE: u64 = 2;
/// Of close_range: the descriptors are closed by an exec, not now.
pub const CLOSE_RANGE_CLOEXEC: u64 = 4;

/// Of flock: do not wait.
pub const LOCK_NB: u64 = 4;
/// Of flock: release the lock.
pub const LOCK_UN: u64 = 8;
/// Of record locks: release the lock.
pub const F_UNLCK: i16 = 2;

/// Of recv: leave the bytes in the queue.
pub const MSG_PEEK: u64 = 2;
/// The kernel reads what is sent from the sender's memory, also after the call.
pub const MSG_ZEROCOPY: u64 = 0x400_0000;
/// Address family: names of the same machine.
pub const AF_UNIX: u16 = 1;
/// Address family: IP version 4.
pub const AF_INET: u16 = 2;
/// Address family: IP version 6.
pub const AF_INET6: u16 = 10;
/// Address family: messages of the kernel.
pub const AF_NETLINK: u16 = 16;
/// Address family: frames of the network.
pub const AF_PACKET: u16 = 17;
/// Address family: hosts and guests.
pub const AF_VSOCK: u16 = 40;
/// Level of options and control messages of all sockets.
pub const SOL_SOCKET: i32 = 1;
/// Control message: descriptors.
pub const SCM_RIGHTS: i32 = 1;
/// Control message: ids of a process and its user.
pub const SCM_CREDENTIALS: i32 = 2;
/// In place of nanoseconds: the time stays as it is.
pub const UTIME_OMIT: i64 = 0x3fff_fffe;
/// Of statx: the time of birth.
pub const STATX_BTIME: u64 = 0x800;
/// Of statx: how memory and offsets of direct transfers are aligned.
pub const STATX_DIOALIGN: u64 = 0x2000;
/// The file system that gives each process its own inode, since Linux 6.9.
pub const PID_FS_MAGIC: i64 = 0x5049_4446;
