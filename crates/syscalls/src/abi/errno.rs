//! Errors: numbers, names and meanings, and how results show them.

/// Greatest error number that a result can show.
const NUMBER_MAX: i64 = 4095;

/// Returns true if a result is an error.
pub const fn is_error(ret: i64) -> bool {
    -NUMBER_MAX <= ret && ret < 0
}

/// Returns the number of the error that a result shows.
pub const fn of_result(ret: i64) -> Option<i32> {
    if is_error(ret) { Some(-ret as i32) } else { None }
}

/// Returns the result that shows an error.
pub const fn result(errno: i32) -> i64 {
    -(errno as i64)
}

/// Returns true if this error asks the kernel to make the call again after a signal: no program
/// gets it.
pub const fn asks_for_restart(errno: i32) -> bool {
    matches!(errno, ERESTARTSYS | ERESTARTNOINTR | ERESTARTNOHAND | ERESTART_RESTARTBLOCK)
}

/// Returns name and meaning of an error number.
pub fn describe(errno: i32) -> Option<(&'static str, &'static str)> {
    let at = ERRORS.binary_search_by_key(&errno, |error| error.0).ok()?;
    Some((ERRORS[at].1, ERRORS[at].2))
}

/// Returns the number of an error by its name.
pub fn by_name(name: &str) -> Option<i32> {
    ERRORS.iter().find(|error| error.1 == name).map(|error| error.0)
}

/// Operation not permitted.
pub const EPERM: i32 = 1;
/// No such file or directory.
pub const ENOENT: i32 = 2;
/// Interrupted system call.
pub const EINTR: i32 = 4;
/// No such device or address.
pub const ENXIO: i32 = 6;
/// Bad file descriptor.
pub const EBADF: i32 = 9;
/// Resource temporarily unavailable.
pub const EAGAIN: i32 = 11;
/// Cannot allocate memory.
pub const ENOMEM: i32 = 12;
/// Permission denied.
pub const EACCES: i32 = 13;
/// Bad address.
pub const EFAULT: i32 = 14;
/// Device or resource busy.
pub const EBUSY: i32 = 16;
/// File exists.
pub const EEXIST: i32 = 17;
/// Invalid cross-device link.
pub const EXDEV: i32 = 18;
/// Not a directory.
pub const ENOTDIR: i32 = 20;
/// Is a directory.
pub const EISDIR: i32 = 21;
/// Invalid argument.
pub const EINVAL: i32 = 22;
/// Text file busy.
pub const ETXTBSY: i32 = 26;
/// Read-only file system.
pub const EROFS: i32 = 30;
/// Broken pipe.
pub const EPIPE: i32 = 32;
/// Numerical result out of range.
pub const ERANGE: i32 = 34;
/// Resource deadlock avoided.
pub const EDEADLK: i32 = 35;
/// Function not implemented.
pub const ENOSYS: i32 = 38;
/// Directory not empty.
pub const ENOTEMPTY: i32 = 39;
/// Too many levels of symbolic links.
pub const ELOOP: i32 = 40;
/// No data available.
pub const ENODATA: i32 = 61;
/// Too much for what it goes into.
pub const EOVERFLOW: i32 = 75;
/// Connection reset by peer.
pub const ECONNRESET: i32 = 104;
/// The call is made again if the signal's action says so.
pub const ERESTARTSYS: i32 = 512;
/// The call is made again.
pub const ERESTARTNOINTR: i32 = 513;
/// The call is made again unless a handler ran.
pub const ERESTARTNOHAND: i32 = 514;
/// The call goes on by restart_syscall unless a handler ran.
pub const ERESTART_RESTARTBLOCK: i32 = 516;

/// Number, name and meaning of each error by number, with the kernel's internal ones, which appear
/// in interrupted calls.
#[rustfmt::skip]
pub static ERRORS: &[(i32, &str, &str)] = &[
    (EPERM, "EPERM", "Operation not permitted"),
    (ENOENT, "ENOENT", "No such file or directory"),
    (3, "ESRCH", "No such process"),
    (EINTR, "EINTR", "Interrupted system call"),
    (5, "EIO", "Input/output error"),
    (ENXIO, "ENXIO", "No such device or address"),
    (7, "E2BIG", "Argument list too long"),
    (8, "ENOEXEC", "Exec format error"),
    (EBADF, "EBADF", "Bad file descriptor"),
    (10, "ECHILD", "No child processes"),
    (EAGAIN, "EAGAIN", "Resource temporarily unavailable"),
    (ENOMEM, "ENOMEM", "Cannot allocate memory"),
    (EACCES, "EACCES", "Permission denied"),
    (EFAULT, "EFAULT", "Bad address"),
    (15, "ENOTBLK", "Block device required"),
    (EBUSY, "EBUSY", "Device or resource busy"),
    (EEXIST, "EEXIST", "File exists"),
    (EXDEV, "EXDEV", "Invalid cross-device link"),
    (19, "ENODEV", "No such device"),
    (ENOTDIR, "ENOTDIR", "Not a directory"),
    (EISDIR, "EISDIR", "Is a directory"),
    (EINVAL, "EINVAL", "Invalid argument"),
    (23, "ENFILE", "Too many open files in system"),
    (24, "EMFILE", "Too many open files"),
    (25, "ENOTTY", "Inappropriate ioctl for device"),
    (ETXTBSY, "ETXTBSY", "Text file busy"),
    (27, "EFBIG", "File too large"),
    (28, "ENOSPC", "No space left on device"),
    (29, "ESPIPE", "Illegal seek"),
    (EROFS, "EROFS", "Read-only file system"),
    (31, "EMLINK", "Too many links"),
    (EPIPE, "EPIPE", "Broken pipe"),
    (33, "EDOM", "Numerical argument out of domain"),
    (ERANGE, "ERANGE", "Numerical result out of range"),
    (EDEADLK, "EDEADLK", "Resource deadlock avoided"),
    (36, "ENAMETOOLONG", "File name too long"),
    (37, "ENOLCK", "No locks available"),
    (ENOSYS, "ENOSYS", "Function not implemented"),
    (ENOTEMPTY, "ENOTEMPTY", "Directory not empty"),
    (ELOOP, "ELOOP", "Too many levels of symbolic links"),
    (42, "ENOMSG", "No message of desired type"),
    (43, "EIDRM", "Identifier removed"),
    (44, "ECHRNG", "Channel number out of range"),
    (45, "EL2NSYNC", "Level 2 not synchronized"),
    (46, "EL3HLT", "Level 3 halted"),
    (47, "EL3RST", "Level 3 reset"),
    (48, "ELNRNG", "Link number out of range"),
    (49, "EUNATCH", "Protocol driver not attached"),
    (50, "ENOCSI", "No CSI structure available"),
    (51, "EL2HLT", "Level 2 halted"),
    (52, "EBADE", "Invalid exchange"),
    (53, "EBADR", "Invalid request descriptor"),
    (54, "EXFULL", "Exchange full"),
    (55, "ENOANO", "No anode"),
    (56, "EBADRQC", "Invalid request code"),
    (57, "EBADSLT", "Invalid slot"),
    (59, "EBFONT", "Bad font file format"),
    (60, "ENOSTR", "Device not a stream"),
    (ENODATA, "ENODATA", "No data available"),
    (62, "ETIME", "Timer expired"),
    (63, "ENOSR", "Out of streams resources"),
    (64, "ENONET", "Machine is not on the network"),
    (65, "ENOPKG", "Package not installed"),
    (66, "EREMOTE", "Object is remote"),
    (67, "ENOLINK", "Link has been severed"),
    (68, "EADV", "Advertise error"),
    (69, "ESRMNT", "Srmount error"),
    (70, "ECOMM", "Communication error on send"),
    (71, "EPROTO", "Protocol error"),
    (72, "EMULTIHOP", "Multihop attempted"),
    (73, "EDOTDOT", "RFS specific error"),
    (74, "EBADMSG", "Bad message"),
    (75, "EOVERFLOW", "Value too large for defined data type"),
    (76, "ENOTUNIQ", "Name not unique on network"),
    (77, "EBADFD", "File descriptor in bad state"),
    (78, "EREMCHG", "Remote address changed"),
    (79, "ELIBACC", "Can not access a needed shared library"),
    (80, "ELIBBAD", "Accessing a corrupted shared library"),
    (81, "ELIBSCN", ".lib section in a.out corrupted"),
    (82, "ELIBMAX", "Attempting to link in too many shared libraries"),
    (83, "ELIBEXEC", "Cannot exec a shared library directly"),
    (84, "EILSEQ", "Invalid or incomplete multibyte or wide character"),
    (85, "ERESTART", "Interrupted system call should be restarted"),
    (86, "ESTRPIPE", "Streams pipe error"),
    (87, "EUSERS", "Too many users"),
    (88, "ENOTSOCK", "Socket operation on non-socket"),
    (89, "EDESTADDRREQ", "Destination address required"),
    (90, "EMSGSIZE", "Message too long"),
    (91, "EPROTOTYPE", "Protocol wrong type for socket"),
    (92, "ENOPROTOOPT", "Protocol not available"),
    (93, "EPROTONOSUPPORT", "Protocol not supported"),
    (94, "ESOCKTNOSUPPORT", "Socket type not supported"),
    (95, "EOPNOTSUPP", "Operation not supported"),
    (96, "EPFNOSUPPORT", "Protocol family not supported"),
    (97, "EAFNOSUPPORT", "Address family not supported by protocol"),
    (98, "EADDRINUSE", "Address already in use"),
    (99, "EADDRNOTAVAIL", "Cannot assign requested address"),
    (100, "ENETDOWN", "Network is down"),
    (101, "ENETUNREACH", "Network is unreachable"),
    (102, "ENETRESET", "Network dropped connection on reset"),
    (103, "ECONNABORTED", "Software caused connection abort"),
    (ECONNRESET, "ECONNRESET", "Connection reset by peer"),
    (105, "ENOBUFS", "No buffer space available"),
    (106, "EISCONN", "Transport endpoint is already connected"),
    (107, "ENOTCONN", "Transport endpoint is not connected"),
    (108, "ESHUTDOWN", "Cannot send after transport endpoint shutdown"),
    (109, "ETOOMANYREFS", "Too many references: cannot splice"),
    (110, "ETIMEDOUT", "Connection timed out"),
    (111, "ECONNREFUSED", "Connection refused"),
    (112, "EHOSTDOWN", "Host is down"),
    (113, "EHOSTUNREACH", "No route to host"),
    (114, "EALREADY", "Operation already in progress"),
    (115, "EINPROGRESS", "Operation now in progress"),
    (116, "ESTALE", "Stale file handle"),
    (117, "EUCLEAN", "Structure needs cleaning"),
    (118, "ENOTNAM", "Not a XENIX named type file"),
    (119, "ENAVAIL", "No XENIX semaphores available"),
    (120, "EISNAM", "Is a named type file"),
    (121, "EREMOTEIO", "Remote I/O error"),
    (122, "EDQUOT", "Disk quota exceeded"),
    (123, "ENOMEDIUM", "No medium found"),
    (124, "EMEDIUMTYPE", "Wrong medium type"),
    (125, "ECANCELED", "Operation canceled"),
    (126, "ENOKEY", "Required key not available"),
    (127, "EKEYEXPIRED", "Key has expired"),
    (128, "EKEYREVOKED", "Key has been revoked"),
    (129, "EKEYREJECTED", "Key was rejected by service"),
    (130, "EOWNERDEAD", "Owner died"),
    (131, "ENOTRECOVERABLE", "State not recoverable"),
    (132, "ERFKILL", "Operation not possible due to RF-kill"),
    (133, "EHWPOISON", "Memory page has hardware error"),
    (ERESTARTSYS, "ERESTARTSYS", "To be restarted if SA_RESTART is set"),
    (ERESTARTNOINTR, "ERESTARTNOINTR", "To be restarted"),
    (ERESTARTNOHAND, "ERESTARTNOHAND", "To be restarted if no handler"),
    (515, "ENOIOCTLCMD", "No such ioctl command in this driver"),
    (ERESTART_RESTARTBLOCK, "ERESTART_RESTARTBLOCK", "Interrupted by signal"),
    (517, "EPROBE_DEFER", "Driver requests a later probe"),
    (518, "EOPENSTALE", "Open found a stale file handle"),
    (519, "ENOPARAM", "Parameter not supported"),
    (521, "EBADHANDLE", "Illegal NFS file handle"),
    (522, "ENOTSYNC", "Update synchronization mismatch"),
    (523, "EBADCOOKIE", "Stale cookie"),
    (524, "ENOTSUPP", "Not supported"),
    (525, "ETOOSMALL", "Buffer or request too small"),
    (526, "ESERVERFAULT", "Untranslatable error occurred"),
    (527, "EBADTYPE", "Type not supported by the server"),
    (528, "EJUKEBOX", "Request started, but will not complete soon"),
    (529, "EIOCBQUEUED", "Request queued, completion will follow"),
    (530, "ERECALLCONFLICT", "Conflict with a recalled state"),
    (531, "ENOGRACE", "NFS file lock reclaim refused"),
];
