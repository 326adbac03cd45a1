//! Metadata of files and file systems.

use super::FieldKind::{
    Array, Dev, Enum, Fd, Flags, Hex, Mode, Named, Signed, Struct, Text, Unsigned,
};
use super::Varies::{ByMachine, ByUser, OfDirectories};
use super::{Layout, field, layout};
use crate::flags as f;

/// File metadata, as stat returns it.
#[rustfmt::skip]
pub static STAT: Layout = layout("stat", 144, &[
    field(0, "st_dev", Dev(8)).varying(ByMachine),
    field(8, "st_ino", Unsigned(8)).varying(ByMachine),
    field(16, "st_nlink", Unsigned(8)).varying(OfDirectories), field(24, "st_mode", Mode(4)),
    field(28, "st_uid", Unsigned(4)).varying(ByUser),
    field(32, "st_gid", Unsigned(4)).varying(ByUser), field(40, "st_rdev", Dev(8)),
    field(48, "st_size", Signed(8)).varying(OfDirectories),
    field(56, "st_blksize", Signed(8)).varying(ByMachine),
    field(64, "st_blocks", Signed(8)).varying(ByMachine),
    field(72, "st_atime", Signed(8)).varying(ByMachine),
    field(80, "st_atime_nsec", Unsigned(8)).varying(ByMachine),
    field(88, "st_mtime", Signed(8)).varying(ByMachine),
    field(96, "st_mtime_nsec", Unsigned(8)).varying(ByMachine),
    field(104, "st_ctime", Signed(8)).varying(ByMachine),
    field(112, "st_ctime_nsec", Unsigned(8)).varying(ByMachine),
]);

/// A timestamp of statx.
#[rustfmt::skip]
pub static STATX_TIMESTAMP: Layout = layout("statx_timestamp", 16, &[
    field(0, "tv_sec", Signed(8)), field(8, "tv_nsec", Unsigned(4)),
]);

/// File metadata, as statx returns it.
#[rustfmt::skip]
pub static STATX: Layout = layout("statx", 256, &[
    field(0, "stx_mask", Flags(4, &f::STATX)).varying(ByMachine),
    field(4, "stx_blksize", Unsigned(4)).varying(ByMachine),
    field(8, "stx_attributes", Flags(8, &f::STATX_ATTR)).varying(ByMachine),
    field(16, "stx_nlink", Unsigned(4)).varying(OfDirectories),
    field(20, "stx_uid", Unsigned(4)).varying(ByUser),
    field(24, "stx_gid", Unsigned(4)).varying(ByUser), field(28, "stx_mode", Mode(2)),
    field(32, "stx_ino", Unsigned(8)).varying(ByMachine),
    field(40, "stx_size", Unsigned(8)).varying(OfDirectories),
    field(48, "stx_blocks", Unsigned(8)).varying(ByMachine),
    field(56, "stx_attributes_mask", Flags(8, &f::STATX_ATTR)).varying(ByMachine),
    field(64, "stx_atime", Struct(&STATX_TIMESTAMP)).varying(ByMachine),
    field(80, "stx_btime", Struct(&STATX_TIMESTAMP)).varying(ByMachine),
    field(96, "stx_ctime", Struct(&STATX_TIMESTAMP)).varying(ByMachine),
    field(112, "stx_mtime", Struct(&STATX_TIMESTAMP)).varying(ByMachine),
    field(128, "stx_rdev_major", Unsigned(4)), field(132, "stx_rdev_minor", Unsigned(4)),
    field(136, "stx_dev_major", Unsigned(4)).varying(ByMachine),
    field(140, "stx_dev_minor", Unsigned(4)).varying(ByMachine),
    field(144, "stx_mnt_id", Hex(8)).varying(ByMachine),
    field(152, "stx_dio_mem_align", Unsigned(4)).varying(ByMachine),
    field(156, "stx_dio_offset_align", Unsigned(4)).varying(ByMachine),
    field(160, "stx_subvol", Unsigned(8)).varying(ByMachine),
    field(168, "stx_atomic_write_unit_min", Unsigned(4)).varying(ByMachine),
    field(172, "stx_atomic_write_unit_max", Unsigned(4)).varying(ByMachine),
    field(176, "stx_atomic_write_segments_max", Unsigned(4)).varying(ByMachine),
    field(180, "stx_dio_read_offset_align", Unsigned(4)).varying(ByMachine),
    field(184, "stx_atomic_write_unit_max_opt", Unsigned(4)).varying(ByMachine),
]);

/// A file system, as statfs returns it.
#[rustfmt::skip]
pub static STATFS: Layout = layout("statfs", 120, &[
    field(0, "f_type", Enum(8, &f::STATFS_TYPE)).varying(ByMachine),
    field(8, "f_bsize", Signed(8)).varying(ByMachine),
    field(16, "f_blocks", Signed(8)).varying(ByMachine),
    field(24, "f_bfree", Signed(8)).varying(ByMachine),
    field(32, "f_bavail", Signed(8)).varying(ByMachine),
    field(40, "f_files", Signed(8)).varying(ByMachine),
    field(48, "f_ffree", Signed(8)).varying(ByMachine),
    field(56, "f_fsid", Array(2, &Hex(4))).varying(ByMachine),
    field(64, "f_namelen", Signed(8)).varying(ByMachine),
    field(72, "f_frsize", Signed(8)).varying(ByMachine),
    field(80, "f_flags", Flags(8, &f::STATFS_FLAGS)).varying(ByMachine),
]);

/// A file system, as ustat returns it.
#[rustfmt::skip]
pub static USTAT: Layout = layout("ustat", 32, &[
    field(0, "f_tfree", Unsigned(4)), field(8, "f_tinode", Unsigned(8)),
    field(16, "f_fname", Text(6)), field(22, "f_fpack", Text(6)),
]);

/// Times of utime.
#[rustfmt::skip]
pub static UTIMBUF: Layout = layout("utimbuf", 16, &[
    field(0, "actime", Signed(8)), field(8, "modtime", Signed(8)),
]);

/// A timestamp of utimensat.
#[rustfmt::skip]
pub static UTIME_TIMESPEC: Layout = layout("timespec", 16, &[
    field(0, "tv_sec", Signed(8)), field(8, "tv_nsec", Named(8, &f::UTIME)),
]);

/// Arguments of openat2.
#[rustfmt::skip]
pub static OPEN_HOW: Layout = layout("open_how", 24, &[
    field(0, "flags", Flags(8, &f::OPEN)), field(8, "mode", Mode(8)),
    field(16, "resolve", Flags(8, &f::RESOLVE)),
]);

/// Head of a file handle; its bytes follow.
#[rustfmt::skip]
pub static FILE_HANDLE: Layout = layout("file_handle", 8, &[
    field(0, "handle_bytes", Unsigned(4)), field(4, "handle_type", Signed(4)),
]);

/// Attributes of file_getattr.
#[rustfmt::skip]
pub static FILE_ATTR: Layout = layout("file_attr", 24, &[
    field(0, "fa_xflags", Flags(8, &f::XFLAGS)), field(8, "fa_extsize", Unsigned(4)),
    field(12, "fa_nextents", Unsigned(4)), field(16, "fa_projid", Unsigned(4)),
    field(20, "fa_cowextsize", Unsigned(4)),
]);

/// A record lock; whose it is, is an answer.
#[rustfmt::skip]
pub static FLOCK: Layout = layout("flock", 32, &[
    field(0, "l_type", Enum(2, &f::LEASE)), field(2, "l_whence", Enum(2, &f::SEEK)),
    field(8, "l_start", Signed(8)), field(16, "l_len", Signed(8)),
    field(24, "l_pid", Signed(4)).varying(ByMachine).given(),
]);

/// The owner that gets a descriptor's signals.
#[rustfmt::skip]
pub static F_OWNER_EX: Layout = layout("f_owner_ex", 8, &[
    field(0, "type", Enum(4, &f::OWNER_TYPE)), field(4, "pid", Signed(4)),
]);

/// An element of an I/O vector.
#[rustfmt::skip]
pub static IOVEC: Layout = layout("iovec", 16, &[
    field(0, "iov_base", Hex(8)), field(8, "iov_len", Unsigned(8)),
]);

/// A descriptor to poll.
#[rustfmt::skip]
pub static POLLFD: Layout = layout("pollfd", 8, &[
    field(0, "fd", Fd), field(4, "events", Flags(2, &f::POLL)),
    field(6, "revents", Flags(2, &f::POLL)),
]);

/// An event of epoll, without padding.
#[rustfmt::skip]
pub static EPOLL_EVENT: Layout = layout("epoll_event", 12, &[
    field(0, "events", Flags(4, &f::EPOLL)), field(4, "data", Hex(8)),
]);

/// The range that cachestat examines.
#[rustfmt::skip]
pub static CACHESTAT_RANGE: Layout = layout("cachestat_range", 16, &[
    field(0, "off", Unsigned(8)), field(8, "len", Unsigned(8)),
]);

/// The results of cachestat.
#[rustfmt::skip]
pub static CACHESTAT: Layout = layout("cachestat", 40, &[
    field(0, "nr_cache", Unsigned(8)), field(8, "nr_dirty", Unsigned(8)),
    field(16, "nr_writeback", Unsigned(8)), field(24, "nr_evicted", Unsigned(8)),
    field(32, "nr_recently_evicted", Unsigned(8)),
]);

/// Arguments of setxattrat and getxattrat.
#[rustfmt::skip]
pub static XATTR_ARGS: Layout = layout("xattr_args", 16, &[
    field(0, "value", Hex(8)), field(8, "size", Unsigned(4)),
    field(12, "flags", Flags(4, &f::XATTR)),
]);

/// Attributes that mount_setattr changes.
#[rustfmt::skip]
pub static MOUNT_ATTR: Layout = layout("mount_attr", 32, &[
    field(0, "attr_set", Flags(8, &f::MOUNT_ATTR)), field(8, "attr_clr", Flags(8, &f::MOUNT_ATTR)),
    field(16, "propagation", Flags(8, &f::PROPAGATION)), field(24, "userns_fd", Unsigned(8)),
]);

/// Request of statmount and listmount.
#[rustfmt::skip]
pub static MNT_ID_REQ: Layout = layout("mnt_id_req", 32, &[
    field(0, "size", Unsigned(4)), field(4, "mnt_ns_fd", Unsigned(4)), field(8, "mnt_id", Hex(8)),
    field(16, "param", Hex(8)), field(24, "mnt_ns_id", Hex(8)),
]);

/// Head of the result of statmount; its strings follow.
#[rustfmt::skip]
pub static STATMOUNT: Layout = layout("statmount", 512, &[
    field(0, "size", Unsigned(4)), field(4, "mnt_opts", Unsigned(4)),
    field(8, "mask", Flags(8, &f::STATMOUNT)), field(16, "sb_dev_major", Unsigned(4)),
    field(20, "sb_dev_minor", Unsigned(4)), field(24, "sb_magic", Enum(8, &f::STATFS_TYPE)),
    field(32, "sb_flags", Flags(4, &f::MS)), field(36, "fs_type", Unsigned(4)),
    field(40, "mnt_id", Hex(8)), field(48, "mnt_parent_id", Hex(8)),
    field(56, "mnt_id_old", Unsigned(4)), field(60, "mnt_parent_id_old", Unsigned(4)),
    field(64, "mnt_attr", Flags(8, &f::MOUNT_ATTR)),
    field(72, "mnt_propagation", Flags(8, &f::PROPAGATION)),
    field(80, "mnt_peer_group", Unsigned(8)), field(88, "mnt_master", Unsigned(8)),
    field(96, "propagate_from", Unsigned(8)), field(104, "mnt_root", Unsigned(4)),
    field(108, "mnt_point", Unsigned(4)), field(112, "mnt_ns_id", Unsigned(8)),
    field(120, "fs_subtype", Unsigned(4)), field(124, "sb_source", Unsigned(4)),
    field(128, "opt_num", Unsigned(4)), field(132, "opt_array", Unsigned(4)),
    field(136, "opt_sec_num", Unsigned(4)), field(140, "opt_sec_array", Unsigned(4)),
    field(144, "supported_mask", Flags(8, &f::STATMOUNT)),
    field(152, "mnt_uidmap_num", Unsigned(4)), field(156, "mnt_uidmap", Unsigned(4)),
    field(160, "mnt_gidmap_num", Unsigned(4)), field(164, "mnt_gidmap", Unsigned(4)),
]);

/// Limits and usage of a quota.
#[rustfmt::skip]
pub static DQBLK: Layout = layout("if_dqblk", 72, &[
    field(0, "dqb_bhardlimit", Unsigned(8)), field(8, "dqb_bsoftlimit", Unsigned(8)),
    field(16, "dqb_curspace", Unsigned(8)), field(24, "dqb_ihardlimit", Unsigned(8)),
    field(32, "dqb_isoftlimit", Unsigned(8)), field(40, "dqb_curinodes", Unsigned(8)),
    field(48, "dqb_btime", Unsigned(8)), field(56, "dqb_itime", Unsigned(8)),
    field(64, "dqb_valid", Hex(4)),
]);

/// Limits and usage of a quota, with its id (Q_GETNEXTQUOTA).
#[rustfmt::skip]
pub static NEXTDQBLK: Layout = layout("if_nextdqblk", 72, &[
    field(0, "dqb_bhardlimit", Unsigned(8)), field(8, "dqb_bsoftlimit", Unsigned(8)),
    field(16, "dqb_curspace", Unsigned(8)), field(24, "dqb_ihardlimit", Unsigned(8)),
    field(32, "dqb_isoftlimit", Unsigned(8)), field(40, "dqb_curinodes", Unsigned(8)),
    field(48, "dqb_btime", Unsigned(8)), field(56, "dqb_itime", Unsigned(8)),
    field(64, "dqb_valid", Hex(4)), field(68, "dqb_id", Unsigned(4)),
]);

/// Grace periods and flags of a quota.
#[rustfmt::skip]
pub static DQINFO: Layout = layout("if_dqinfo", 24, &[
    field(0, "dqi_bgrace", Unsigned(8)), field(8, "dqi_igrace", Unsigned(8)),
    field(16, "dqi_flags", Hex(4)), field(20, "dqi_valid", Hex(4)),
]);
