//! The rows, in alphabetical order.

use super::Form::{Exec, Message, One, Vector};
use super::Source::{
    Arg, Data, FileType, Form as WholeForm, Length, Microtime, Seconds, Text, Time, Word,
};
use super::bits::*;
use super::{Bits, Form, Row, Source};

type Fields = &'static [(&'static str, Source)];

const fn row(
    name: &'static str,
    calls: &'static [u16],
    fields: Fields,
    bits: &'static [Bits],
) -> Row {
    Row { name, calls, form: One, fields, result: &[], bits }
}

/// Adds the fields of a struct that the call fills.
const fn with(result: Fields, row: Row) -> Row {
    Row { result, ..row }
}

/// Fields of `struct stat` behind argument `arg`.
const fn stat(arg: u8) -> [(&'static str, Source); 13] {
    [
        ("stat_result_dev", Word(arg, 0, 8)),
        ("stat_result_ino", Word(arg, 8, 8)),
        ("stat_result_nlink", Word(arg, 16, 8)),
        ("stat_result_mode", Word(arg, 24, 4)),
        ("stat_result_uid", Word(arg, 28, 4)),
        ("stat_result_gid", Word(arg, 32, 4)),
        ("stat_result_rdev", Word(arg, 40, 8)),
        ("stat_result_size", Word(arg, 48, 8)),
        ("stat_result_blksize", Word(arg, 56, 8)),
        ("stat_result_blocks", Word(arg, 64, 8)),
        ("stat_result_atime", Time(arg, 72)),
        ("stat_result_mtime", Time(arg, 88)),
        ("stat_result_ctime", Time(arg, 104)),
    ]
}

/// For stat, lstat and fstat, and for calls with a directory.
const STAT_RESULT: Fields = &stat(1);
const STAT_RESULT_2: Fields = &stat(2);

/// Fields of `struct statfs`.
const STATFS_RESULT: Fields = &[
    ("statfs_result_type", Word(1, 0, 8)),
    ("statfs_result_bsize", Word(1, 8, 8)),
    ("statfs_result_blocks", Word(1, 16, 8)),
    ("statfs_result_bfree", Word(1, 24, 8)),
    ("statfs_result_bavail", Word(1, 32, 8)),
    ("statfs_result_files", Word(1, 40, 8)),
    ("statfs_result_ffree", Word(1, 48, 8)),
    ("statfs_result_fsid", Word(1, 56, 8)),
    ("statfs_result_namelen", Word(1, 64, 8)),
    ("statfs_result_frsize", Word(1, 72, 8)),
    ("statfs_result_flags", Word(1, 80, 8)),
];

const fn several(form: Form, row: Row) -> Row {
    Row { form, ..row }
}

const fn bits(of: Source, fields: &'static [Bit]) -> Bits {
    Bits { of, when: None, fields }
}

/// Bits that are valid only for some commands.
const fn commands(values: &'static [i64], of: Source, fields: &'static [Bit]) -> Bits {
    Bits { of, when: Some((Arg(1), values)), fields }
}

/// All types of the schema. `full_pathname` and `stat_result_raw` are null in all known traces and
/// stay null. Types without call numbers are not exported.
#[rustfmt::skip]
pub static ROWS: &[Row] = &[
    row("accept", &[43], &[("descriptor", Arg(0)), ("sockaddr_buffer", Data(1)),
        ("sockaddr_length", Word(2, 0, 4))], &[]),
    row("accept4", &[288], &[("descriptor", Arg(0)), ("sockaddr_buffer", Data(1)),
        ("sockaddr_length", Word(2, 0, 4)), ("flags", Arg(3))], &[]),
    row("access", &[21], &[("given_pathname", Text(0)), ("mode_value", Arg(1))], &[
        bits(Arg(1), ACCESS)]),
    row("bind", &[49], &[("descriptor", Arg(0)), ("sockaddr_buffer", Data(1)),
        ("sockaddr_length", Arg(2))], &[]),
    row("chdir", &[80], &[("given_pathname", Text(0))], &[]),
    row("chmod", &[90], &[("given_pathname", Text(0)), ("mode_value", Arg(1))], &[
        bits(Arg(1), MODE)]),
    row("chown", &[92], &[("given_pathname", Text(0)), ("new_owner", Arg(1)),
        ("new_group", Arg(2))], &[]),
    row("chroot", &[161], &[("given_pathname", Text(0))], &[]),
    row("clone", &[56], &[("flag_value", Arg(0)), ("child_stack_address", Arg(1)),
        ("parent_thread_id", Arg(2)), ("child_thread_id", Arg(3)), ("new_tls", Arg(4))], &[
        bits(Arg(0), CLONE), bits(Arg(0), SIGNAL)]),
    row("close", &[3], &[("descriptor", Arg(0))], &[]),
    row("connect", &[42], &[("descriptor", Arg(0)), ("sockaddr_buffer", Data(1)),
        ("sockaddr_length", Arg(2))], &[]),
    row("creat", &[85], &[("given_pathname", Text(0)), ("mode_value", Arg(1))], &[
        bits(Arg(1), MODE)]),
    row("dup", &[32], &[("descriptor", Arg(0))], &[]),
    row("dup2", &[33], &[("old_descriptor", Arg(0)), ("new_descriptor", Arg(1))], &[]),
    row("dup3", &[292], &[("old_descriptor", Arg(0)), ("new_descriptor", Arg(1)),
        ("flags", Arg(2))], &[]),
    row("epoll_create", &[213], &[("epoll_size", Arg(0))], &[]),
    row("epoll_create1", &[291], &[("epoll_flags", Arg(0))], &[]),
    several(Exec, row("execve", &[59], &[], &[])),
    row("exit", &[60, 231], &[("exit_status", Arg(0))], &[]),
    row("faccessat", &[269], &[("descriptor", Arg(0)), ("given_pathname", Text(1)),
        ("mode_value", Arg(2))], &[bits(Arg(2), ACCESS)]),
    row("fallocate", &[285], &[("descriptor", Arg(0)), ("mode_value", Arg(1)),
        ("allocate_offset", Arg(2)), ("allocate_len", Arg(3))], &[]),
    row("fchdir", &[81], &[("descriptor", Arg(0))], &[]),
    row("fchmod", &[91], &[("descriptor", Arg(0)), ("mode_value", Arg(1))], &[bits(Arg(1), MODE)]),
    row("fchmodat", &[268], &[("descriptor", Arg(0)), ("given_pathname", Text(1)),
        ("mode_value", Arg(2))], &[bits(Arg(2), MODE)]),
    row("fcntl", &[72], &[("descriptor", Arg(0)), ("command_value", Arg(1)),
        ("argument_value", Arg(2)), ("lock_type", Word(2, 0, 2)),
        ("lock_whence", Word(2, 2, 2)), ("lock_start", Word(2, 8, 8)),
        ("lock_length", Word(2, 16, 8)), ("lock_pid", Word(2, 24, 4))], &[bits(Arg(1), COMMAND),
        commands(&[2], Arg(2), DESCRIPTOR_FLAGS), commands(&[4], Arg(2), STATUS_FLAGS),
        commands(&[1024], Arg(2), LEASE), commands(&[1026], Arg(2), NOTIFY),
        commands(&[5, 6, 7], Word(2, 0, 2), LOCK_TYPE),
        commands(&[5, 6, 7], Word(2, 2, 2), LOCK_WHENCE)]),
    row("fdatasync", &[75], &[("descriptor", Arg(0))], &[]),
    row("fgetxattr", &[193], &[("descriptor", Arg(0)), ("xattr_name", Text(1)),
        ("value_read", Data(2)), ("value_size", Arg(3))], &[]),
    row("flistxattr", &[196], &[("descriptor", Arg(0)), ("xattr_list", Data(1)),
        ("list_size", Arg(2))], &[]),
    row("flock", &[73], &[("descriptor", Arg(0)), ("operation_value", Arg(1)),
        ("operation", Arg(1))], &[]),
    row("fork", &[57], &[], &[]),
    row("fremovexattr", &[199], &[("descriptor", Arg(0)), ("xattr_name", Text(1))], &[]),
    row("fsetxattr", &[190], &[("descriptor", Arg(0)), ("xattr_name", Text(1)),
        ("value_written", Data(2)), ("value_size", Arg(3)), ("flag_value", Arg(4))], &[
        bits(Arg(4), XATTR)]),
    with(STAT_RESULT, row("fstat", &[5], &[("descriptor", Arg(0))], &[])),
    with(STAT_RESULT_2, row("fstatat", &[262], &[("descriptor", Arg(0)),
        ("given_pathname", Text(1)), ("flags_value", Arg(3))], &[bits(Arg(3), AT)])),
    with(STATFS_RESULT, row("fstatfs", &[138], &[("descriptor", Arg(0))], &[
        bits(Word(1, 80, 8), STATFS)])),
    row("fsync", &[74], &[("descriptor", Arg(0))], &[]),
    row("ftruncate", &[77], &[("descriptor", Arg(0)), ("truncate_length", Arg(1))], &[]),
    row("getdents", &[78], &[("descriptor", Arg(0)), ("dirent_buffer", Data(1)),
        ("count", Arg(2))], &[]),
    row("getpeername", &[52], &[("descriptor", Arg(0)), ("sockaddr_buffer", Data(1)),
        ("sockaddr_length", Word(2, 0, 4))], &[]),
    row("getrlimit", &[97], &[("resource_value", Arg(0)), ("resource", Arg(0)),
        ("resource_soft_limit", Word(1, 0, 8)), ("resource_hard_limit", Word(1, 8, 8))], &[]),
    row("getsockname", &[51], &[("descriptor", Arg(0)), ("sockaddr_buffer", Data(1)),
        ("sockaddr_length", Word(2, 0, 4))], &[]),
    row("getsockopt", &[55], &[("descriptor", Arg(0)), ("level", Arg(1)), ("optname", Arg(2)),
        ("option_value", Data(3)), ("buffer_size", Word(4, 0, 4))], &[]),
    row("getxattr", &[191], &[("given_pathname", Text(0)), ("xattr_name", Text(1)),
        ("value_read", Data(2)), ("value_size", Arg(3))], &[]),
    row("ioctl", &[16], &[("descriptor", Arg(0)), ("request", Arg(1)), ("parameter", Arg(2)),
        ("ioctl_buffer", Data(2)), ("buffer_size", Length(2))], &[]),
    row("lgetxattr", &[192], &[("given_pathname", Text(0)), ("xattr_name", Text(1)),
        ("value_read", Data(2)), ("value_size", Arg(3))], &[]),
    row("link", &[86], &[("given_oldpathname", Text(0)), ("given_newpathname", Text(1))], &[]),
    row("linkat", &[265], &[("old_descriptor", Arg(0)), ("given_oldpathname", Text(1)),
        ("new_descriptor", Arg(2)), ("given_newpathname", Text(3)), ("flag_value", Arg(4))], &[
        bits(Arg(0), OLD_WORKING), bits(Arg(2), NEW_WORKING), bits(Arg(4), AT)]),
    row("listen", &[50], &[("descriptor", Arg(0)), ("backlog", Arg(1))], &[]),
    row("listxattr", &[194], &[("given_pathname", Text(0)), ("xattr_list", Data(1)),
        ("list_size", Arg(2))], &[]),
    row("llistxattr", &[195], &[("given_pathname", Text(0)), ("xattr_list", Data(1)),
        ("list_size", Arg(2))], &[]),
    row("lremovexattr", &[198], &[("given_pathname", Text(0)), ("xattr_name", Text(1))], &[]),
    row("lseek", &[8], &[("descriptor", Arg(0)), ("offset", Arg(1)), ("whence_value", Arg(2)),
        ("whence", Arg(2))], &[]),
    row("lsetxattr", &[189], &[("given_pathname", Text(0)), ("xattr_name", Text(1)),
        ("value_written", Data(2)), ("value_size", Arg(3)), ("flag_value", Arg(4))], &[
        bits(Arg(4), XATTR)]),
    with(STAT_RESULT, row("lstat", &[6], &[("given_pathname", Text(0))], &[])),
    row("mkdir", &[83], &[("given_pathname", Text(0)), ("mode_value", Arg(1))], &[
        bits(Arg(1), MODE)]),
    row("mkdirat", &[258], &[("descriptor", Arg(0)), ("given_pathname", Text(1)),
        ("mode_value", Arg(2))], &[bits(Arg(0), WORKING), bits(Arg(2), MODE)]),
    row("mknod", &[133], &[("given_pathname", Text(0)), ("mode_value", Arg(1)),
        ("type", FileType(1)), ("dev", Arg(2))], &[bits(Arg(1), MODE)]),
    row("mknodat", &[259], &[("descriptor", Arg(0)), ("given_pathname", Text(1)),
        ("mode_value", Arg(2)), ("type", FileType(2)), ("dev", Arg(3))], &[bits(Arg(2), MODE)]),
    row("mmap", &[9], &[("start_address", Arg(0)), ("length", Arg(1)),
        ("protection_value", Arg(2)), ("flags_value", Arg(3)), ("descriptor", Arg(4)),
        ("offset", Arg(5))], &[bits(Arg(2), PROTECTION), bits(Arg(3), MMAP)]),
    row("mmappread", &[], &[], &[]),
    row("mmappwrite", &[], &[], &[]),
    row("munmap", &[11], &[("start_address", Arg(0)), ("length", Arg(1))], &[]),
    row("open", &[2], &[("given_pathname", Text(0)), ("open_value", Arg(1)),
        ("mode_value", Arg(2))], &[bits(Arg(1), OPEN), bits(Arg(2), MODE)]),
    row("openat", &[257], &[("descriptor", Arg(0)), ("given_pathname", Text(1)),
        ("open_value", Arg(2)), ("mode_value", Arg(3))], &[bits(Arg(0), WORKING),
        bits(Arg(2), OPEN), bits(Arg(3), MODE)]),
    row("pipe", &[22], &[("read_descriptor", Word(0, 0, 4)), ("write_descriptor", Word(0, 4, 4))], &[]),
    row("pread", &[17], &[("descriptor", Arg(0)), ("data_read", Data(1)),
        ("bytes_requested", Arg(2)), ("offset", Arg(3))], &[]),
    row("pwrite", &[18], &[("descriptor", Arg(0)), ("data_written", Data(1)),
        ("bytes_requested", Arg(2)), ("offset", Arg(3))], &[]),
    row("read", &[0], &[("descriptor", Arg(0)), ("data_read", Data(1)),
        ("bytes_requested", Arg(2))], &[]),
    row("readahead", &[187], &[("descriptor", Arg(0)), ("readahead_off", Arg(1)),
        ("readahead_size", Arg(2))], &[]),
    row("readlink", &[89], &[("given_pathname", Text(0)), ("link_value", Data(1)),
        ("buffer_size", Arg(2))], &[]),
    several(Vector, row("readv", &[19], &[("descriptor", Arg(0)), ("count", Arg(2)),
        ("iov_data_read", WholeForm)], &[])),
    row("recv", &[], &[], &[]),
    row("recvfrom", &[45], &[("descriptor", Arg(0)), ("data_read", Data(1)),
        ("bytes_requested", Arg(2)), ("flags_value", Arg(3)), ("sockaddr_length", Word(5, 0, 4))], &[
        bits(Arg(3), MESSAGE)]),
    several(Message, row("recvmsg", &[47], &[("descriptor", Arg(0)), ("flags_value", Arg(2)),
        ("iov_data_read", WholeForm)], &[bits(Arg(2), MESSAGE)])),
    row("removexattr", &[197], &[("given_pathname", Text(0)), ("xattr_name", Text(1))], &[]),
    row("rename", &[82], &[("given_oldname", Text(0)), ("given_newname", Text(1))], &[]),
    row("rmdir", &[84], &[("given_pathname", Text(0))], &[]),
    row("send", &[], &[], &[]),
    several(Message, row("sendmsg", &[46], &[("descriptor", Arg(0)), ("flags_value", Arg(2)),
        ("iov_data_written", WholeForm)], &[bits(Arg(2), MESSAGE)])),
    row("sendto", &[44], &[("descriptor", Arg(0)), ("data_written", Data(1)),
        ("bytes_requested", Arg(2)), ("flags_value", Arg(3)), ("sockaddr_buffer", Data(4)),
        ("sockaddr_length", Arg(5))], &[bits(Arg(3), MESSAGE)]),
    row("setpgid", &[109], &[("pid", Arg(0)), ("pgid", Arg(1))], &[]),
    row("setrlimit", &[160], &[("resource_value", Arg(0)), ("resource", Arg(0)),
        ("resource_soft_limit", Word(1, 0, 8)), ("resource_hard_limit", Word(1, 8, 8))], &[]),
    row("setsid", &[112], &[], &[]),
    row("setsockopt", &[54], &[("descriptor", Arg(0)), ("level", Arg(1)), ("optname", Arg(2)),
        ("option_value", Data(3)), ("buffer_size", Arg(4))], &[]),
    row("setxattr", &[188], &[("given_pathname", Text(0)), ("xattr_name", Text(1)),
        ("value_written", Data(2)), ("value_size", Arg(3)), ("flag_value", Arg(4))], &[
        bits(Arg(4), XATTR)]),
    row("shutdown", &[48], &[("descriptor", Arg(0)), ("how", Arg(1))], &[]),
    row("socket", &[41], &[("domain", Arg(0)), ("type", Arg(1)), ("protocol", Arg(2))], &[]),
    row("socketpair", &[53], &[("domain", Arg(0)), ("type", Arg(1)), ("protocol", Arg(2)),
        ("read_descriptor", Word(3, 0, 4)), ("write_descriptor", Word(3, 4, 4))], &[]),
    with(STAT_RESULT, row("stat", &[4], &[("given_pathname", Text(0))], &[])),
    with(STATFS_RESULT, row("statfs", &[137], &[("given_pathname", Text(0))], &[
        bits(Word(1, 80, 8), STATFS)])),
    row("symlink", &[88], &[("target_pathname", Text(0)), ("given_pathname", Text(1))], &[]),
    row("symlinkat", &[266], &[("target_pathname", Text(0)), ("new_descriptor", Arg(1)),
        ("given_pathname", Text(2))], &[bits(Arg(1), NEW_WORKING)]),
    row("sync_file_range", &[277], &[("descriptor", Arg(0)), ("offset", Arg(1)),
        ("flags", Arg(3))], &[]),
    row("truncate", &[76], &[("given_pathname", Text(0)), ("truncate_length", Arg(1))], &[]),
    row("umask", &[95], &[("mode_value", Arg(0))], &[bits(Arg(0), MODE)]),
    row("unlink", &[87], &[("given_pathname", Text(0))], &[]),
    row("unlinkat", &[263], &[("descriptor", Arg(0)), ("given_pathname", Text(1)),
        ("flag_value", Arg(2))], &[bits(Arg(0), WORKING), bits(Arg(2), AT)]),
    row("utime", &[132], &[("given_pathname", Text(0)), ("access_time", Seconds(1, 0)),
        ("mod_time", Seconds(1, 8))], &[]),
    row("utimensat", &[280], &[("descriptor", Arg(0)), ("given_pathname", Text(1)),
        ("access_time", Time(2, 0)), ("mod_time", Time(2, 16)), ("flag_value", Arg(3))], &[
        bits(Arg(0), WORKING), bits(Arg(3), AT), bits(Word(2, 8, 8), UTIME),
        bits(Word(2, 24, 8), UTIME)]),
    row("utimes", &[235], &[("given_pathname", Text(0)), ("access_time", Microtime(1, 0)),
        ("mod_time", Microtime(1, 16))], &[]),
    row("vfork", &[58], &[], &[]),
    row("write", &[1], &[("descriptor", Arg(0)), ("data_written", Data(1)),
        ("bytes_requested", Arg(2))], &[]),
    several(Vector, row("writev", &[20], &[("descriptor", Arg(0)), ("count", Arg(2)),
        ("iov_data_written", WholeForm)], &[])),
];
