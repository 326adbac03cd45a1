//! The rows, in alphabetical order.

use super::row::Form::{Exec, Message, One, Vector};
use super::row::Source::{
    Arg, Data, FileType, Form as WholeForm, Length, Microtime, Seconds, Text, Time, Word,
};
use syscalls::table::number_of;

use super::bits::*;
use super::row::{Bits, Form, Row, Source};

type Fields = &'static [(&'static str, Source)];

/// A type with the name of its call.
const fn row(name: &'static str, fields: Fields, bits: &'static [Bits]) -> Row {
    of(name, name, fields, bits)
}

/// A type with another name than its call.
const fn of(call: &str, name: &'static str, fields: Fields, bits: &'static [Bits]) -> Row {
    let number = number_of(call);
    assert!(number.is_some(), "there is no call of this name");
    Row { name, calls: [number, None], form: One, fields, result: &[], bits }
}

/// A type without a call.
const fn unmade(name: &'static str) -> Row {
    Row { name, calls: [None; 2], form: One, fields: &[], result: &[], bits: &[] }
}

/// Adds the call that ends a whole process; records do not distinguish the two.
const fn ends(call: &str, row: Row) -> Row {
    Row { calls: [row.calls[0], number_of(call)], ..row }
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
    row("accept", &[("descriptor", Arg(0)), ("sockaddr_buffer", Data(1)),
        ("sockaddr_length", Word(2, 0, 4))], &[]),
    row("accept4", &[("descriptor", Arg(0)), ("sockaddr_buffer", Data(1)),
        ("sockaddr_length", Word(2, 0, 4)), ("flags", Arg(3))], &[]),
    row("access", &[("given_pathname", Text(0)), ("mode_value", Arg(1))], &[
        bits(Arg(1), ACCESS)]),
    row("bind", &[("descriptor", Arg(0)), ("sockaddr_buffer", Data(1)),
        ("sockaddr_length", Arg(2))], &[]),
    row("chdir", &[("given_pathname", Text(0))], &[]),
    row("chmod", &[("given_pathname", Text(0)), ("mode_value", Arg(1))], &[
        bits(Arg(1), MODE)]),
    row("chown", &[("given_pathname", Text(0)), ("new_owner", Arg(1)),
        ("new_group", Arg(2))], &[]),
    row("chroot", &[("given_pathname", Text(0))], &[]),
    row("clone", &[("flag_value", Arg(0)), ("child_stack_address", Arg(1)),
        ("parent_thread_id", Arg(2)), ("child_thread_id", Arg(3)), ("new_tls", Arg(4))], &[
        bits(Arg(0), CLONE), bits(Arg(0), SIGNAL)]),
    row("close", &[("descriptor", Arg(0))], &[]),
    row("connect", &[("descriptor", Arg(0)), ("sockaddr_buffer", Data(1)),
        ("sockaddr_length", Arg(2))], &[]),
    row("creat", &[("given_pathname", Text(0)), ("mode_value", Arg(1))], &[
        bits(Arg(1), MODE)]),
    row("dup", &[("descriptor", Arg(0))], &[]),
    row("dup2", &[("old_descriptor", Arg(0)), ("new_descriptor", Arg(1))], &[]),
    row("dup3", &[("old_descriptor", Arg(0)), ("new_descriptor", Arg(1)),
        ("flags", Arg(2))], &[]),
    row("epoll_create", &[("epoll_size", Arg(0))], &[]),
    row("epoll_create1", &[("epoll_flags", Arg(0))], &[]),
    several(Exec, row("execve", &[], &[])),
    ends("exit_group", row("exit", &[("exit_status", Arg(0))], &[])),
    row("faccessat", &[("descriptor", Arg(0)), ("given_pathname", Text(1)),
        ("mode_value", Arg(2))], &[bits(Arg(2), ACCESS)]),
    row("fallocate", &[("descriptor", Arg(0)), ("mode_value", Arg(1)),
        ("allocate_offset", Arg(2)), ("allocate_len", Arg(3))], &[]),
    row("fchdir", &[("descriptor", Arg(0))], &[]),
    row("fchmod", &[("descriptor", Arg(0)), ("mode_value", Arg(1))], &[bits(Arg(1), MODE)]),
    row("fchmodat", &[("descriptor", Arg(0)), ("given_pathname", Text(1)),
        ("mode_value", Arg(2))], &[bits(Arg(2), MODE)]),
    row("fcntl", &[("descriptor", Arg(0)), ("command_value", Arg(1)),
        ("argument_value", Arg(2)), ("lock_type", Word(2, 0, 2)),
        ("lock_whence", Word(2, 2, 2)), ("lock_start", Word(2, 8, 8)),
        ("lock_length", Word(2, 16, 8)), ("lock_pid", Word(2, 24, 4))], &[bits(Arg(1), COMMAND),
        commands(&[2], Arg(2), DESCRIPTOR_FLAGS), commands(&[4], Arg(2), STATUS_FLAGS),
        commands(&[1024], Arg(2), LEASE), commands(&[1026], Arg(2), NOTIFY),
        commands(&[5, 6, 7], Word(2, 0, 2), LOCK_TYPE),
        commands(&[5, 6, 7], Word(2, 2, 2), LOCK_WHENCE)]),
    row("fdatasync", &[("descriptor", Arg(0))], &[]),
    row("fgetxattr", &[("descriptor", Arg(0)), ("xattr_name", Text(1)),
        ("value_read", Data(2)), ("value_size", Arg(3))], &[]),
    row("flistxattr", &[("descriptor", Arg(0)), ("xattr_list", Data(1)),
        ("list_size", Arg(2))], &[]),
    row("flock", &[("descriptor", Arg(0)), ("operation_value", Arg(1)),
        ("operation", Arg(1))], &[]),
    row("fork", &[], &[]),
    row("fremovexattr", &[("descriptor", Arg(0)), ("xattr_name", Text(1))], &[]),
    row("fsetxattr", &[("descriptor", Arg(0)), ("xattr_name", Text(1)),
        ("value_written", Data(2)), ("value_size", Arg(3)), ("flag_value", Arg(4))], &[
        bits(Arg(4), XATTR)]),
    with(STAT_RESULT, row("fstat", &[("descriptor", Arg(0))], &[])),
    with(STAT_RESULT_2, of("newfstatat", "fstatat", &[("descriptor", Arg(0)),
        ("given_pathname", Text(1)), ("flags_value", Arg(3))], &[bits(Arg(3), AT)])),
    with(STATFS_RESULT, row("fstatfs", &[("descriptor", Arg(0))], &[
        bits(Word(1, 80, 8), STATFS)])),
    row("fsync", &[("descriptor", Arg(0))], &[]),
    row("ftruncate", &[("descriptor", Arg(0)), ("truncate_length", Arg(1))], &[]),
    row("getdents", &[("descriptor", Arg(0)), ("dirent_buffer", Data(1)),
        ("count", Arg(2))], &[]),
    row("getpeername", &[("descriptor", Arg(0)), ("sockaddr_buffer", Data(1)),
        ("sockaddr_length", Word(2, 0, 4))], &[]),
    row("getrlimit", &[("resource_value", Arg(0)), ("resource", Arg(0)),
        ("resource_soft_limit", Word(1, 0, 8)), ("resource_hard_limit", Word(1, 8, 8))], &[]),
    row("getsockname", &[("descriptor", Arg(0)), ("sockaddr_buffer", Data(1)),
        ("sockaddr_length", Word(2, 0, 4))], &[]),
    row("getsockopt", &[("descriptor", Arg(0)), ("level", Arg(1)), ("optname", Arg(2)),
        ("option_value", Data(3)), ("buffer_size", Word(4, 0, 4))], &[]),
    row("getxattr", &[("given_pathname", Text(0)), ("xattr_name", Text(1)),
        ("value_read", Data(2)), ("value_size", Arg(3))], &[]),
    row("ioctl", &[("descriptor", Arg(0)), ("request", Arg(1)), ("parameter", Arg(2)),
        ("ioctl_buffer", Data(2)), ("buffer_size", Length(2))], &[]),
    row("lgetxattr", &[("given_pathname", Text(0)), ("xattr_name", Text(1)),
        ("value_read", Data(2)), ("value_size", Arg(3))], &[]),
    row("link", &[("given_oldpathname", Text(0)), ("given_newpathname", Text(1))], &[]),
    row("linkat", &[("old_descriptor", Arg(0)), ("given_oldpathname", Text(1)),
        ("new_descriptor", Arg(2)), ("given_newpathname", Text(3)), ("flag_value", Arg(4))], &[
        bits(Arg(0), OLD_WORKING), bits(Arg(2), NEW_WORKING), bits(Arg(4), AT)]),
    row("listen", &[("descriptor", Arg(0)), ("backlog", Arg(1))], &[]),
    row("listxattr", &[("given_pathname", Text(0)), ("xattr_list", Data(1)),
        ("list_size", Arg(2))], &[]),
    row("llistxattr", &[("given_pathname", Text(0)), ("xattr_list", Data(1)),
        ("list_size", Arg(2))], &[]),
    row("lremovexattr", &[("given_pathname", Text(0)), ("xattr_name", Text(1))], &[]),
    row("lseek", &[("descriptor", Arg(0)), ("offset", Arg(1)), ("whence_value", Arg(2)),
        ("whence", Arg(2))], &[]),
    row("lsetxattr", &[("given_pathname", Text(0)), ("xattr_name", Text(1)),
        ("value_written", Data(2)), ("value_size", Arg(3)), ("flag_value", Arg(4))], &[
        bits(Arg(4), XATTR)]),
    with(STAT_RESULT, row("lstat", &[("given_pathname", Text(0))], &[])),
    row("mkdir", &[("given_pathname", Text(0)), ("mode_value", Arg(1))], &[
        bits(Arg(1), MODE)]),
    row("mkdirat", &[("descriptor", Arg(0)), ("given_pathname", Text(1)),
        ("mode_value", Arg(2))], &[bits(Arg(0), WORKING), bits(Arg(2), MODE)]),
    row("mknod", &[("given_pathname", Text(0)), ("mode_value", Arg(1)),
        ("type", FileType(1)), ("dev", Arg(2))], &[bits(Arg(1), MODE)]),
    row("mknodat", &[("descriptor", Arg(0)), ("given_pathname", Text(1)),
        ("mode_value", Arg(2)), ("type", FileType(2)), ("dev", Arg(3))], &[bits(Arg(2), MODE)]),
    row("mmap", &[("start_address", Arg(0)), ("length", Arg(1)),
        ("protection_value", Arg(2)), ("flags_value", Arg(3)), ("descriptor", Arg(4)),
        ("offset", Arg(5))], &[bits(Arg(2), PROTECTION), bits(Arg(3), MMAP)]),
    unmade("mmappread"),
    unmade("mmappwrite"),
    row("munmap", &[("start_address", Arg(0)), ("length", Arg(1))], &[]),
    row("open", &[("given_pathname", Text(0)), ("open_value", Arg(1)),
        ("mode_value", Arg(2))], &[bits(Arg(1), OPEN), bits(Arg(2), MODE)]),
    row("openat", &[("descriptor", Arg(0)), ("given_pathname", Text(1)),
        ("open_value", Arg(2)), ("mode_value", Arg(3))], &[bits(Arg(0), WORKING),
        bits(Arg(2), OPEN), bits(Arg(3), MODE)]),
    row("pipe", &[("read_descriptor", Word(0, 0, 4)), ("write_descriptor", Word(0, 4, 4))], &[]),
    of("pread64", "pread", &[("descriptor", Arg(0)), ("data_read", Data(1)),
        ("bytes_requested", Arg(2)), ("offset", Arg(3))], &[]),
    of("pwrite64", "pwrite", &[("descriptor", Arg(0)), ("data_written", Data(1)),
        ("bytes_requested", Arg(2)), ("offset", Arg(3))], &[]),
    row("read", &[("descriptor", Arg(0)), ("data_read", Data(1)),
        ("bytes_requested", Arg(2))], &[]),
    row("readahead", &[("descriptor", Arg(0)), ("readahead_off", Arg(1)),
        ("readahead_size", Arg(2))], &[]),
    row("readlink", &[("given_pathname", Text(0)), ("link_value", Data(1)),
        ("buffer_size", Arg(2))], &[]),
    several(Vector, row("readv", &[("descriptor", Arg(0)), ("count", Arg(2)),
        ("iov_data_read", WholeForm)], &[])),
    unmade("recv"),
    row("recvfrom", &[("descriptor", Arg(0)), ("data_read", Data(1)),
        ("bytes_requested", Arg(2)), ("flags_value", Arg(3)), ("sockaddr_length", Word(5, 0, 4))], &[
        bits(Arg(3), MESSAGE)]),
    several(Message, row("recvmsg", &[("descriptor", Arg(0)), ("flags_value", Arg(2)),
        ("iov_data_read", WholeForm)], &[bits(Arg(2), MESSAGE)])),
    row("removexattr", &[("given_pathname", Text(0)), ("xattr_name", Text(1))], &[]),
    row("rename", &[("given_oldname", Text(0)), ("given_newname", Text(1))], &[]),
    row("rmdir", &[("given_pathname", Text(0))], &[]),
    unmade("send"),
    several(Message, row("sendmsg", &[("descriptor", Arg(0)), ("flags_value", Arg(2)),
        ("iov_data_written", WholeForm)], &[bits(Arg(2), MESSAGE)])),
    row("sendto", &[("descriptor", Arg(0)), ("data_written", Data(1)),
        ("bytes_requested", Arg(2)), ("flags_value", Arg(3)), ("sockaddr_buffer", Data(4)),
        ("sockaddr_length", Arg(5))], &[bits(Arg(3), MESSAGE)]),
    row("setpgid", &[("pid", Arg(0)), ("pgid", Arg(1))], &[]),
    row("setrlimit", &[("resource_value", Arg(0)), ("resource", Arg(0)),
        ("resource_soft_limit", Word(1, 0, 8)), ("resource_hard_limit", Word(1, 8, 8))], &[]),
    row("setsid", &[], &[]),
    row("setsockopt", &[("descriptor", Arg(0)), ("level", Arg(1)), ("optname", Arg(2)),
        ("option_value", Data(3)), ("buffer_size", Arg(4))], &[]),
    row("setxattr", &[("given_pathname", Text(0)), ("xattr_name", Text(1)),
        ("value_written", Data(2)), ("value_size", Arg(3)), ("flag_value", Arg(4))], &[
        bits(Arg(4), XATTR)]),
    row("shutdown", &[("descriptor", Arg(0)), ("how", Arg(1))], &[]),
    row("socket", &[("domain", Arg(0)), ("type", Arg(1)), ("protocol", Arg(2))], &[]),
    row("socketpair", &[("domain", Arg(0)), ("type", Arg(1)), ("protocol", Arg(2)),
        ("read_descriptor", Word(3, 0, 4)), ("write_descriptor", Word(3, 4, 4))], &[]),
    with(STAT_RESULT, row("stat", &[("given_pathname", Text(0))], &[])),
    with(STATFS_RESULT, row("statfs", &[("given_pathname", Text(0))], &[
        bits(Word(1, 80, 8), STATFS)])),
    row("symlink", &[("target_pathname", Text(0)), ("given_pathname", Text(1))], &[]),
    row("symlinkat", &[("target_pathname", Text(0)), ("new_descriptor", Arg(1)),
        ("given_pathname", Text(2))], &[bits(Arg(1), NEW_WORKING)]),
    row("sync_file_range", &[("descriptor", Arg(0)), ("offset", Arg(1)),
        ("flags", Arg(3))], &[]),
    row("truncate", &[("given_pathname", Text(0)), ("truncate_length", Arg(1))], &[]),
    row("umask", &[("mode_value", Arg(0))], &[bits(Arg(0), MODE)]),
    row("unlink", &[("given_pathname", Text(0))], &[]),
    row("unlinkat", &[("descriptor", Arg(0)), ("given_pathname", Text(1)),
        ("flag_value", Arg(2))], &[bits(Arg(0), WORKING), bits(Arg(2), AT)]),
    row("utime", &[("given_pathname", Text(0)), ("access_time", Seconds(1, 0)),
        ("mod_time", Seconds(1, 8))], &[]),
    row("utimensat", &[("descriptor", Arg(0)), ("given_pathname", Text(1)),
        ("access_time", Time(2, 0)), ("mod_time", Time(2, 16)), ("flag_value", Arg(3))], &[
        bits(Arg(0), WORKING), bits(Arg(3), AT), bits(Word(2, 8, 8), UTIME),
        bits(Word(2, 24, 8), UTIME)]),
    row("utimes", &[("given_pathname", Text(0)), ("access_time", Microtime(1, 0)),
        ("mod_time", Microtime(1, 16))], &[]),
    row("vfork", &[], &[]),
    row("write", &[("descriptor", Arg(0)), ("data_written", Data(1)),
        ("bytes_requested", Arg(2))], &[]),
    several(Vector, row("writev", &[("descriptor", Arg(0)), ("count", Arg(2)),
        ("iov_data_written", WholeForm)], &[])),
];
