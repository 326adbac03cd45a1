//! Arguments of ioctl: terminals, files, block and network devices.

use super::FieldKind::{Array, Bytes, Enum, Flags, Hex, Signed, Struct, Text, Unsigned};
use super::{Layout, field, head, layout};
use crate::flags as f;

/// A terminal's settings.
#[rustfmt::skip]
pub static TERMIOS: Layout = layout("termios", 36, &[
    field(0, "c_iflag", Flags(4, &f::TERM_INPUT)), field(4, "c_oflag", Flags(4, &f::TERM_OUTPUT)),
    field(8, "c_cflag", Flags(4, &f::TERM_CONTROL)),
    field(12, "c_lflag", Flags(4, &f::TERM_LOCAL)), field(16, "c_line", Unsigned(1)),
    field(17, "c_cc", Bytes(19)),
]);

/// A terminal's settings with arbitrary speed.
#[rustfmt::skip]
pub static TERMIOS2: Layout = layout("termios2", 44, &[
    field(0, "c_iflag", Flags(4, &f::TERM_INPUT)), field(4, "c_oflag", Flags(4, &f::TERM_OUTPUT)),
    field(8, "c_cflag", Flags(4, &f::TERM_CONTROL)),
    field(12, "c_lflag", Flags(4, &f::TERM_LOCAL)), field(16, "c_line", Unsigned(1)),
    field(17, "c_cc", Bytes(19)), field(36, "c_ispeed", Unsigned(4)),
    field(40, "c_ospeed", Unsigned(4)),
]);

/// A terminal's settings in System V style.
#[rustfmt::skip]
pub static TERMIO: Layout = layout("termio", 18, &[
    field(0, "c_iflag", Flags(2, &f::TERM_INPUT)), field(2, "c_oflag", Flags(2, &f::TERM_OUTPUT)),
    field(4, "c_cflag", Flags(2, &f::TERM_CONTROL)), field(6, "c_lflag", Flags(2, &f::TERM_LOCAL)),
    field(8, "c_line", Unsigned(1)), field(9, "c_cc", Bytes(8)),
]);

/// A terminal's size.
#[rustfmt::skip]
pub static WINSIZE: Layout = layout("winsize", 8, &[
    field(0, "ws_row", Unsigned(2)), field(2, "ws_col", Unsigned(2)),
    field(4, "ws_xpixel", Unsigned(2)), field(6, "ws_ypixel", Unsigned(2)),
]);

/// Flags of an inode.
#[rustfmt::skip]
pub static INODE_FLAGS: Layout = layout("inode_flags", 4, &[
    field(0, "flags", Flags(4, &f::INODE)),
]);

/// Extended attributes of an inode.
#[rustfmt::skip]
pub static FSXATTR: Layout = layout("fsxattr", 28, &[
    field(0, "fsx_xflags", Flags(4, &f::XFLAGS)), field(4, "fsx_extsize", Unsigned(4)),
    field(8, "fsx_nextents", Unsigned(4)), field(12, "fsx_projid", Unsigned(4)),
    field(16, "fsx_cowextsize", Unsigned(4)),
]);

/// A range of a file to clone.
#[rustfmt::skip]
pub static FILE_CLONE_RANGE: Layout = layout("file_clone_range", 32, &[
    field(0, "src_fd", Signed(8)), field(8, "src_offset", Unsigned(8)),
    field(16, "src_length", Unsigned(8)), field(24, "dest_offset", Unsigned(8)),
]);

/// Head of ranges to deduplicate; the destinations follow.
#[rustfmt::skip]
pub static FILE_DEDUPE_RANGE: Layout = head("file_dedupe_range", 24, &FILE_DEDUPE_RANGE_INFO, &[
    field(0, "src_offset", Unsigned(8)), field(8, "src_length", Unsigned(8)),
    field(16, "dest_count", Unsigned(2)),
]);

/// A destination of FIDEDUPERANGE.
#[rustfmt::skip]
pub static FILE_DEDUPE_RANGE_INFO: Layout = layout("file_dedupe_range_info", 32, &[
    field(0, "dest_fd", Signed(8)), field(8, "dest_offset", Unsigned(8)),
    field(16, "bytes_deduped", Unsigned(8)), field(24, "status", Enum(4, &f::DEDUPE_STATUS)),
]);

/// Head of an extent map; the extents follow.
#[rustfmt::skip]
pub static FIEMAP: Layout = head("fiemap", 32, &FIEMAP_EXTENT, &[
    field(0, "fm_start", Unsigned(8)), field(8, "fm_length", Unsigned(8)),
    field(16, "fm_flags", Flags(4, &f::FIEMAP)), field(20, "fm_mapped_extents", Unsigned(4)),
    field(24, "fm_extent_count", Unsigned(4)),
]);

/// An extent of a file.
#[rustfmt::skip]
pub static FIEMAP_EXTENT: Layout = layout("fiemap_extent", 56, &[
    field(0, "fe_logical", Unsigned(8)), field(8, "fe_physical", Unsigned(8)),
    field(16, "fe_length", Unsigned(8)), field(40, "fe_flags", Flags(4, &f::FIEMAP_EXTENT)),
]);

/// The range that FITRIM discards.
#[rustfmt::skip]
pub static FSTRIM_RANGE: Layout = layout("fstrim_range", 24, &[
    field(0, "start", Unsigned(8)), field(8, "len", Unsigned(8)), field(16, "minlen", Unsigned(8)),
]);

/// A loop device.
#[rustfmt::skip]
pub static LOOP_INFO64: Layout = layout("loop_info64", 232, &[
    field(0, "lo_device", Unsigned(8)), field(8, "lo_inode", Unsigned(8)),
    field(16, "lo_rdevice", Unsigned(8)), field(24, "lo_offset", Unsigned(8)),
    field(32, "lo_sizelimit", Unsigned(8)), field(40, "lo_number", Unsigned(4)),
    field(44, "lo_encrypt_type", Unsigned(4)), field(48, "lo_encrypt_key_size", Unsigned(4)),
    field(52, "lo_flags", Hex(4)), field(56, "lo_file_name", Text(64)),
    field(120, "lo_crypt_name", Text(64)), field(184, "lo_encrypt_key", Bytes(32)),
    field(216, "lo_init", Array(2, &Hex(8))),
]);

/// A network device and an address.
#[rustfmt::skip]
pub static IFREQ_ADDR: Layout = layout("ifreq", 40, &[
    field(0, "ifr_name", Text(16)), field(16, "sa_family", Enum(2, &f::AF)),
    field(18, "sa_data", Bytes(14)),
]);

/// A network device and its flags.
#[rustfmt::skip]
pub static IFREQ_FLAGS: Layout = layout("ifreq", 40, &[
    field(0, "ifr_name", Text(16)), field(16, "ifr_flags", Flags(2, &f::IFF)),
]);

/// A network device and a number.
#[rustfmt::skip]
pub static IFREQ_INT: Layout = layout("ifreq", 40, &[
    field(0, "ifr_name", Text(16)), field(16, "ifr_value", Signed(4)),
]);

/// Buffer for a list of network devices.
#[rustfmt::skip]
pub static IFCONF_HEAD: Layout = layout("ifconf", 16, &[
    field(0, "ifc_len", Signed(4)), field(8, "ifc_buf", Hex(8)),
]);

/// The handshake of userfaultfd.
#[rustfmt::skip]
pub static UFFDIO_API: Layout = layout("uffdio_api", 24, &[
    field(0, "api", Hex(8)), field(8, "features", Flags(8, &f::UFFD_FEATURE)),
    field(16, "ioctls", Hex(8)),
]);

/// A range of memory.
#[rustfmt::skip]
pub static UFFDIO_RANGE: Layout = layout("uffdio_range", 16, &[
    field(0, "start", Hex(8)), field(8, "len", Unsigned(8)),
]);

/// A range to register with userfaultfd.
#[rustfmt::skip]
pub static UFFDIO_REGISTER: Layout = layout("uffdio_register", 32, &[
    field(0, "range", Struct(&UFFDIO_RANGE)), field(16, "mode", Flags(8, &f::UFFDIO_REGISTER)),
    field(24, "ioctls", Hex(8)),
]);

/// Pages to copy in.
#[rustfmt::skip]
pub static UFFDIO_COPY: Layout = layout("uffdio_copy", 40, &[
    field(0, "dst", Hex(8)), field(8, "src", Hex(8)), field(16, "len", Unsigned(8)),
    field(24, "mode", Hex(8)), field(32, "copy", Signed(8)),
]);

/// Pages to be zeroed.
#[rustfmt::skip]
pub static UFFDIO_ZEROPAGE: Layout = layout("uffdio_zeropage", 32, &[
    field(0, "range", Struct(&UFFDIO_RANGE)), field(16, "mode", Hex(8)),
    field(24, "zeropage", Signed(8)),
]);

/// SO_LINGER: whether close waits for unsent data.
#[rustfmt::skip]
pub static LINGER: Layout = layout("linger", 8, &[
    field(0, "l_onoff", Signed(4)), field(4, "l_linger", Signed(4)),
]);

/// Credentials of a socket's peer.
#[rustfmt::skip]
pub static UCRED: Layout = layout("ucred", 12, &[
    field(0, "pid", Signed(4)), field(4, "uid", Unsigned(4)), field(8, "gid", Unsigned(4)),
]);

/// A message header.
#[rustfmt::skip]
pub static MSGHDR: Layout = layout("msghdr", 56, &[
    field(0, "msg_name", Hex(8)), field(8, "msg_namelen", Signed(4)), field(16, "msg_iov", Hex(8)),
    field(24, "msg_iovlen", Unsigned(8)), field(32, "msg_control", Hex(8)),
    field(40, "msg_controllen", Unsigned(8)), field(48, "msg_flags", Flags(4, &f::MSG)),
]);
