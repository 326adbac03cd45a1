//! Opening files, and path arguments.

use super::{names, with_field};
use crate::flag_set::FlagSet;

/// Flags of open; the lowest two bits hold the access mode.
#[rustfmt::skip]
pub static OPEN: FlagSet = with_field("O_", 0o3, &[
    (0, "O_RDONLY"), (0o1, "O_WRONLY"), (0o2, "O_RDWR"), (0o100, "O_CREAT"), (0o200, "O_EXCL"),
    (0o400, "O_NOCTTY"), (0o1000, "O_TRUNC"), (0o2000, "O_APPEND"), (0o4000, "O_NONBLOCK"),
    (0o4010000, "O_SYNC"), (0o10000, "O_DSYNC"), (0o40000, "O_DIRECT"), (0o100000, "O_LARGEFILE"),
    (0o400000, "O_NOFOLLOW"), (0o1000000, "O_NOATIME"), (0o2000000, "O_CLOEXEC"),
    (0o10000000, "O_PATH"), (0o20200000, "O_TMPFILE"), (0o200000, "O_DIRECTORY"),
    (0o20000, "FASYNC"),
]);

/// Flags of descriptors that are created without opening a file (pipe2, dup3).
#[rustfmt::skip]
pub static OPEN_CREATED: FlagSet = names("O_", &[
    (0o200, "O_EXCL"), (0o4000, "O_NONBLOCK"), (0o40000, "O_DIRECT"), (0o2000000, "O_CLOEXEC"),
]);

/// How openat2 resolves a path.
#[rustfmt::skip]
pub static RESOLVE: FlagSet = names("RESOLVE_", &[
    (0x1, "RESOLVE_NO_XDEV"), (0x2, "RESOLVE_NO_MAGICLINKS"), (0x4, "RESOLVE_NO_SYMLINKS"),
    (0x8, "RESOLVE_BENEATH"), (0x10, "RESOLVE_IN_ROOT"), (0x20, "RESOLVE_CACHED"),
]);

/// Access modes of access.
#[rustfmt::skip]
pub static ACCESS: FlagSet = names("_OK", &[
    (0, "F_OK"), (0x4, "R_OK"), (0x2, "W_OK"), (0x1, "X_OK"),
]);

/// Start positions of lseek.
#[rustfmt::skip]
pub static SEEK: FlagSet = names("SEEK_", &[
    (0, "SEEK_SET"), (1, "SEEK_CUR"), (2, "SEEK_END"), (3, "SEEK_DATA"), (4, "SEEK_HOLE"),
]);

/// Flags of calls that take a directory and a path.
#[rustfmt::skip]
pub static AT: FlagSet = names("AT_", &[
    (0x100, "AT_SYMLINK_NOFOLLOW"), (0x200, "AT_REMOVEDIR"), (0x400, "AT_SYMLINK_FOLLOW"),
    (0x800, "AT_NO_AUTOMOUNT"), (0x1000, "AT_EMPTY_PATH"), (0x8000, "AT_RECURSIVE"),
]);

/// Flags of faccessat2.
#[rustfmt::skip]
pub static AT_ACCESS: FlagSet = names("AT_", &[
    (0x100, "AT_SYMLINK_NOFOLLOW"), (0x200, "AT_EACCESS"), (0x1000, "AT_EMPTY_PATH"),
]);

/// Flags of unlinkat.
#[rustfmt::skip]
pub static AT_UNLINK: FlagSet = names("AT_", &[
    (0x200, "AT_REMOVEDIR"),
]);

/// Flags of execveat.
#[rustfmt::skip]
pub static AT_EXEC: FlagSet = names("AT_", &[
    (0x100, "AT_SYMLINK_NOFOLLOW"), (0x1000, "AT_EMPTY_PATH"), (0x10000, "AT_EXECVE_CHECK"),
]);

/// Flags of name_to_handle_at.
#[rustfmt::skip]
pub static AT_HANDLE: FlagSet = names("AT_", &[
    (0x1, "AT_HANDLE_MNT_ID_UNIQUE"), (0x2, "AT_HANDLE_CONNECTABLE"), (0x200, "AT_HANDLE_FID"),
    (0x400, "AT_SYMLINK_FOLLOW"), (0x1000, "AT_EMPTY_PATH"),
]);

/// Flags of statx; the default way to synchronise has a name too.
#[rustfmt::skip]
pub static AT_STATX: FlagSet = with_field("AT_", 0x6000, &[
    (0, "AT_STATX_SYNC_AS_STAT"), (0x2000, "AT_STATX_FORCE_SYNC"), (0x4000, "AT_STATX_DONT_SYNC"),
    (0x100, "AT_SYMLINK_NOFOLLOW"), (0x400, "AT_SYMLINK_FOLLOW"), (0x800, "AT_NO_AUTOMOUNT"),
    (0x1000, "AT_EMPTY_PATH"),
]);

/// Fields of statx.
#[rustfmt::skip]
pub static STATX: FlagSet = names("STATX_", &[
    (0xfff, "STATX_ALL"), (0x7ff, "STATX_BASIC_STATS"), (0x1, "STATX_TYPE"), (0x2, "STATX_MODE"),
    (0x4, "STATX_NLINK"), (0x8, "STATX_UID"), (0x10, "STATX_GID"), (0x20, "STATX_ATIME"),
    (0x40, "STATX_MTIME"), (0x80, "STATX_CTIME"), (0x100, "STATX_INO"), (0x200, "STATX_SIZE"),
    (0x400, "STATX_BLOCKS"), (0x800, "STATX_BTIME"), (0x1000, "STATX_MNT_ID"),
    (0x2000, "STATX_DIOALIGN"), (0x4000, "STATX_MNT_ID_UNIQUE"), (0x8000, "STATX_SUBVOL"),
    (0x10000, "STATX_WRITE_ATOMIC"), (0x20000, "STATX_DIO_READ_ALIGN"),
]);

/// Attributes in statx.
#[rustfmt::skip]
pub static STATX_ATTR: FlagSet = names("STATX_ATTR_", &[
    (0x4, "STATX_ATTR_COMPRESSED"), (0x10, "STATX_ATTR_IMMUTABLE"), (0x20, "STATX_ATTR_APPEND"),
    (0x40, "STATX_ATTR_NODUMP"), (0x800, "STATX_ATTR_ENCRYPTED"), (0x1000, "STATX_ATTR_AUTOMOUNT"),
    (0x2000, "STATX_ATTR_MOUNT_ROOT"), (0x100000, "STATX_ATTR_VERITY"),
    (0x200000, "STATX_ATTR_DAX"), (0x400000, "STATX_ATTR_WRITE_ATOMIC"),
]);

/// The type bits of a file mode.
#[rustfmt::skip]
pub static FILE_TYPE: FlagSet = names("S_IF", &[
    (0o140000, "S_IFSOCK"), (0o120000, "S_IFLNK"), (0o100000, "S_IFREG"), (0o60000, "S_IFBLK"),
    (0o40000, "S_IFDIR"), (0o20000, "S_IFCHR"), (0o10000, "S_IFIFO"),
]);

/// Flags of renameat2.
#[rustfmt::skip]
pub static RENAME: FlagSet = names("RENAME_", &[
    (0x1, "RENAME_NOREPLACE"), (0x2, "RENAME_EXCHANGE"), (0x4, "RENAME_WHITEOUT"),
]);

/// Flags of setxattr.
#[rustfmt::skip]
pub static XATTR: FlagSet = names("XATTR_", &[
    (0x1, "XATTR_CREATE"), (0x2, "XATTR_REPLACE"),
]);

/// Types in directory entries.
#[rustfmt::skip]
pub static DIRENT_TYPE: FlagSet = names("DT_", &[
    (0, "DT_UNKNOWN"), (1, "DT_FIFO"), (2, "DT_CHR"), (4, "DT_DIR"), (6, "DT_BLK"), (8, "DT_REG"),
    (10, "DT_LNK"), (12, "DT_SOCK"), (14, "DT_WHT"),
]);

/// Special values of nanoseconds in utimensat.
#[rustfmt::skip]
pub static UTIME: FlagSet = names("UTIME_", &[
    (0x3fffffff, "UTIME_NOW"), (0x3ffffffe, "UTIME_OMIT"),
]);

/// The value that stands for the working directory in place of a directory descriptor.
#[rustfmt::skip]
pub static AT_FDCWD: FlagSet = names("AT_", &[
    (0xffffff9c, "AT_FDCWD"),
]);

/// Modes of fallocate.
#[rustfmt::skip]
pub static FALLOCATE: FlagSet = names("FALLOC_FL_", &[
    (0x1, "FALLOC_FL_KEEP_SIZE"), (0x2, "FALLOC_FL_PUNCH_HOLE"), (0x4, "FALLOC_FL_NO_HIDE_STALE"),
    (0x8, "FALLOC_FL_COLLAPSE_RANGE"), (0x10, "FALLOC_FL_ZERO_RANGE"),
    (0x20, "FALLOC_FL_INSERT_RANGE"), (0x40, "FALLOC_FL_UNSHARE_RANGE"),
    (0x80, "FALLOC_FL_WRITE_ZEROES"),
]);

/// Advice of fadvise64.
#[rustfmt::skip]
pub static FADVISE: FlagSet = names("POSIX_FADV_", &[
    (0, "POSIX_FADV_NORMAL"), (1, "POSIX_FADV_RANDOM"), (2, "POSIX_FADV_SEQUENTIAL"),
    (3, "POSIX_FADV_WILLNEED"), (4, "POSIX_FADV_DONTNEED"), (5, "POSIX_FADV_NOREUSE"),
]);

/// Flags of sync_file_range.
#[rustfmt::skip]
pub static SYNC_FILE_RANGE: FlagSet = names("SYNC_FILE_RANGE_", &[
    (0x1, "SYNC_FILE_RANGE_WAIT_BEFORE"), (0x2, "SYNC_FILE_RANGE_WRITE"),
    (0x4, "SYNC_FILE_RANGE_WAIT_AFTER"),
]);

/// Flags of preadv2 and pwritev2.
#[rustfmt::skip]
pub static RWF: FlagSet = names("RWF_", &[
    (0x1, "RWF_HIPRI"), (0x2, "RWF_DSYNC"), (0x4, "RWF_SYNC"), (0x8, "RWF_NOWAIT"),
    (0x10, "RWF_APPEND"), (0x20, "RWF_NOAPPEND"), (0x40, "RWF_ATOMIC"), (0x80, "RWF_DONTCACHE"),
    (0x100, "RWF_NOSIGNAL"),
]);

/// Flags of splice, tee and vmsplice.
#[rustfmt::skip]
pub static SPLICE: FlagSet = names("SPLICE_F_", &[
    (0x1, "SPLICE_F_MOVE"), (0x2, "SPLICE_F_NONBLOCK"), (0x4, "SPLICE_F_MORE"),
    (0x8, "SPLICE_F_GIFT"),
]);

/// Operations of flock.
#[rustfmt::skip]
pub static LOCK: FlagSet = names("LOCK_", &[
    (0x1, "LOCK_SH"), (0x2, "LOCK_EX"), (0x4, "LOCK_NB"), (0x8, "LOCK_UN"),
]);

/// Flags of a call that has none so far.
pub static NO_FLAGS: FlagSet = names("", &[]);

/// File system types in statfs.
#[rustfmt::skip]
pub static STATFS_TYPE: FlagSet = names("_MAGIC", &[
    (0xadf5, "ADFS_SUPER_MAGIC"), (0xadff, "AFFS_SUPER_MAGIC"), (0x6b414653, "AFS_FS_MAGIC"),
    (0x9041934, "ANON_INODE_FS_MAGIC"), (0x187, "AUTOFS_SUPER_MAGIC"),
    (0x62646576, "BDEVFS_MAGIC"), (0x6c6f6f70, "BINDERFS_SUPER_MAGIC"),
    (0x42494e4d, "BINFMTFS_MAGIC"), (0xcafe4a11, "BPF_FS_MAGIC"),
    (0x9123683e, "BTRFS_SUPER_MAGIC"), (0xc36400, "CEPH_SUPER_MAGIC"),
    (0x27e0eb, "CGROUP_SUPER_MAGIC"), (0x63677270, "CGROUP2_SUPER_MAGIC"),
    (0xff534d42, "CIFS_SUPER_MAGIC"), (0x73757245, "CODA_SUPER_MAGIC"),
    (0x28cd3d45, "CRAMFS_MAGIC"), (0x64646178, "DAXFS_MAGIC"), (0x64626720, "DEBUGFS_MAGIC"),
    (0x1cd1, "DEVPTS_SUPER_MAGIC"), (0x444d4142, "DMA_BUF_MAGIC"),
    (0xf15f, "ECRYPTFS_SUPER_MAGIC"), (0xde5e81e4, "EFIVARFS_MAGIC"),
    (0x414a53, "EFS_SUPER_MAGIC"), (0xe0f5e1e2, "EROFS_SUPER_MAGIC_V1"),
    (0xef53, "EXT4_SUPER_MAGIC"), (0x2011bab0, "EXFAT_SUPER_MAGIC"),
    (0xf2f52010, "F2FS_SUPER_MAGIC"), (0x65735546, "FUSE_SUPER_MAGIC"),
    (0xc0ffee, "HOSTFS_SUPER_MAGIC"), (0xf995e849, "HPFS_SUPER_MAGIC"),
    (0x958458f6, "HUGETLBFS_MAGIC"), (0x9660, "ISOFS_SUPER_MAGIC"), (0x72b6, "JFFS2_SUPER_MAGIC"),
    (0x3153464a, "JFS_SUPER_MAGIC"), (0x137f, "MINIX_SUPER_MAGIC"), (0x2468, "MINIX2_SUPER_MAGIC"),
    (0x4d5a, "MINIX3_SUPER_MAGIC"), (0x19800202, "MQUEUE_MAGIC"), (0x4d44, "MSDOS_SUPER_MAGIC"),
    (0x11307854, "MTD_INODE_FS_MAGIC"), (0x564c, "NCP_SUPER_MAGIC"), (0x6969, "NFS_SUPER_MAGIC"),
    (0x3434, "NILFS_SUPER_MAGIC"), (0x6e736673, "NSFS_MAGIC"), (0x5346544e, "NTFS_SB_MAGIC"),
    (0x7366746e, "NTFS3_SUPER_MAGIC"), (0x7461636f, "OCFS2_SUPER_MAGIC"),
    (0x9fa1, "OPENPROM_SUPER_MAGIC"), (0x794c7630, "OVERLAYFS_SUPER_MAGIC"),
    (0x50494446, "PID_FS_MAGIC"), (0x50495045, "PIPEFS_MAGIC"), (0x9fa0, "PROC_SUPER_MAGIC"),
    (0x6165676c, "PSTOREFS_MAGIC"), (0x2f, "QNX4_SUPER_MAGIC"), (0x68191122, "QNX6_SUPER_MAGIC"),
    (0x858458f6, "RAMFS_MAGIC"), (0x7655821, "RDTGROUP_SUPER_MAGIC"),
    (0x52654973, "REISERFS_SUPER_MAGIC"), (0x5345434d, "SECRETMEM_MAGIC"),
    (0x73636673, "SECURITYFS_MAGIC"), (0xf97cff8c, "SELINUX_MAGIC"), (0x43415d53, "SMACK_MAGIC"),
    (0x517b, "SMB_SUPER_MAGIC"), (0xfe534d42, "SMB2_SUPER_MAGIC"), (0x534f434b, "SOCKFS_MAGIC"),
    (0x73717368, "SQUASHFS_MAGIC"), (0x62656572, "SYSFS_MAGIC"), (0x1021994, "TMPFS_MAGIC"),
    (0x74726163, "TRACEFS_MAGIC"), (0x15013346, "UDF_SUPER_MAGIC"),
    (0x9fa2, "USBDEVICE_SUPER_MAGIC"), (0x1021997, "V9FS_MAGIC"),
    (0x786f4256, "VBOXSF_SUPER_MAGIC"), (0xabba1974, "XENFS_SUPER_MAGIC"),
    (0x58465342, "XFS_SUPER_MAGIC"), (0x2fc12fc1, "ZFS_SUPER_MAGIC"), (0x5a4f4653, "ZONEFS_MAGIC"),
]);

/// Mount flags in statfs.
#[rustfmt::skip]
pub static STATFS_FLAGS: FlagSet = names("ST_", &[
    (0x20, "ST_VALID"), (0x1, "ST_RDONLY"), (0x2, "ST_NOSUID"), (0x4, "ST_NODEV"),
    (0x8, "ST_NOEXEC"), (0x10, "ST_SYNCHRONOUS"), (0x40, "ST_MANDLOCK"), (0x400, "ST_NOATIME"),
    (0x800, "ST_NODIRATIME"), (0x1000, "ST_RELATIME"), (0x2000, "ST_NOSYMFOLLOW"),
]);

/// Flags of inodes (FS_IOC_GETFLAGS).
#[rustfmt::skip]
pub static INODE: FlagSet = names("FS_", &[
    (0x1, "FS_SECRM_FL"), (0x2, "FS_UNRM_FL"), (0x4, "FS_COMPR_FL"), (0x8, "FS_SYNC_FL"),
    (0x10, "FS_IMMUTABLE_FL"), (0x20, "FS_APPEND_FL"), (0x40, "FS_NODUMP_FL"),
    (0x80, "FS_NOATIME_FL"), (0x100, "FS_DIRTY_FL"), (0x200, "FS_COMPRBLK_FL"),
    (0x400, "FS_NOCOMP_FL"), (0x800, "FS_ENCRYPT_FL"), (0x1000, "FS_INDEX_FL"),
    (0x2000, "FS_IMAGIC_FL"), (0x4000, "FS_JOURNAL_DATA_FL"), (0x8000, "FS_NOTAIL_FL"),
    (0x10000, "FS_DIRSYNC_FL"), (0x20000, "FS_TOPDIR_FL"), (0x40000, "FS_HUGE_FILE_FL"),
    (0x80000, "FS_EXTENT_FL"), (0x100000, "FS_VERITY_FL"), (0x200000, "FS_EA_INODE_FL"),
    (0x400000, "FS_EOFBLOCKS_FL"), (0x800000, "FS_NOCOW_FL"), (0x2000000, "FS_DAX_FL"),
    (0x10000000, "FS_INLINE_DATA_FL"), (0x20000000, "FS_PROJINHERIT_FL"),
    (0x40000000, "FS_CASEFOLD_FL"),
]);

/// Extended flags of inodes.
#[rustfmt::skip]
pub static XFLAGS: FlagSet = names("FS_XFLAG_", &[
    (0x1, "FS_XFLAG_REALTIME"), (0x2, "FS_XFLAG_PREALLOC"), (0x8, "FS_XFLAG_IMMUTABLE"),
    (0x10, "FS_XFLAG_APPEND"), (0x20, "FS_XFLAG_SYNC"), (0x40, "FS_XFLAG_NOATIME"),
    (0x80, "FS_XFLAG_NODUMP"), (0x100, "FS_XFLAG_RTINHERIT"), (0x200, "FS_XFLAG_PROJINHERIT"),
    (0x400, "FS_XFLAG_NOSYMLINKS"), (0x800, "FS_XFLAG_EXTSIZE"), (0x1000, "FS_XFLAG_EXTSZINHERIT"),
    (0x2000, "FS_XFLAG_NODEFRAG"), (0x4000, "FS_XFLAG_FILESTREAM"), (0x8000, "FS_XFLAG_DAX"),
    (0x10000, "FS_XFLAG_COWEXTSIZE"), (0x80000000, "FS_XFLAG_HASATTR"),
]);

/// Flags of FIEMAP.
#[rustfmt::skip]
pub static FIEMAP: FlagSet = names("FIEMAP_FLAG_", &[
    (0x1, "FIEMAP_FLAG_SYNC"), (0x2, "FIEMAP_FLAG_XATTR"), (0x4, "FIEMAP_FLAG_CACHE"),
]);

/// Flags of an extent.
#[rustfmt::skip]
pub static FIEMAP_EXTENT: FlagSet = names("FIEMAP_EXTENT_", &[
    (0x1, "FIEMAP_EXTENT_LAST"), (0x2, "FIEMAP_EXTENT_UNKNOWN"), (0x4, "FIEMAP_EXTENT_DELALLOC"),
    (0x8, "FIEMAP_EXTENT_ENCODED"), (0x80, "FIEMAP_EXTENT_DATA_ENCRYPTED"),
    (0x100, "FIEMAP_EXTENT_NOT_ALIGNED"), (0x200, "FIEMAP_EXTENT_DATA_INLINE"),
    (0x400, "FIEMAP_EXTENT_DATA_TAIL"), (0x800, "FIEMAP_EXTENT_UNWRITTEN"),
    (0x1000, "FIEMAP_EXTENT_MERGED"), (0x2000, "FIEMAP_EXTENT_SHARED"),
]);

/// Results of FIDEDUPERANGE.
#[rustfmt::skip]
pub static DEDUPE_STATUS: FlagSet = names("FILE_DEDUPE_RANGE_", &[
    (0, "FILE_DEDUPE_RANGE_SAME"), (1, "FILE_DEDUPE_RANGE_DIFFERS"),
]);
