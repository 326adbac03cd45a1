//! Which files a replay really touches. The kernel's own views (/proc, /sys) and devices differ on
//! every machine: calls on them are answered from the trace.

/// Directories that belong to the kernel, not to a disk.
const KERNELS: &[&[u8]] = &[b"/proc", b"/sys", b"/dev"];

/// Below those, what is replayed all the same: it behaves alike everywhere.
const EVERYWHERE: &[&[u8]] = &[b"/dev/null", b"/dev/zero", b"/dev/full", b"/dev/shm"];

/// Whether the file at an absolute path is one that a replay really uses. What is not is simulated
/// from the trace.
pub fn is_real(path: &[u8]) -> bool {
    let below = |roots: &[&[u8]]| roots.iter().any(|root| is_at_or_below(path, root));
    // The directory /dev itself, as a place to look names up in, is real.
    path == b"/dev" || !below(KERNELS) || below(EVERYWHERE)
}

/// Whether a path names a file on a disk, or what behaves like one: no view of the kernel, no device.
pub fn is_stored(path: &[u8]) -> bool {
    is_real(path) && (!is_at_or_below(path, b"/dev") || is_at_or_below(path, b"/dev/shm"))
}

/// Whether what /proc calls a file is memory that processes share: nothing on a disk.
pub fn is_memory(path: &[u8]) -> bool {
    path.starts_with(b"/memfd:") || path.starts_with(b"/SYSV") || is_at_or_below(path, b"/dev/shm")
}

/// Whether a file is one that the dynamic linker and the C library read as memory for themselves: the
/// cache of libraries, locales, translations, the list of character sets.
pub fn is_of_libraries(path: &[u8]) -> bool {
    const FOLDERS: &[&[u8]] = &[b"/usr/lib/locale", b"/usr/share/locale"];
    path == b"/etc/ld.so.cache"
        || path.ends_with(b"/gconv/gconv-modules.cache")
        || FOLDERS.iter().any(|folder| is_at_or_below(path, folder))
}

/// Whether `path` is `root` or something in it.
pub fn is_at_or_below(path: &[u8], root: &[u8]) -> bool {
    let root = root.strip_suffix(b"/").unwrap_or(root);
    path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_own_files_are_not_real() {
        for path in ["/etc/passwd", "/dev/null", "/dev/shm/x", "/device", "/dev", "/"] {
            assert!(is_real(path.as_bytes()), "{path}");
        }
        for path in ["/proc/self/maps", "/proc", "/sys/block", "/dev/pts/0", "/dev/nullx"] {
            assert!(!is_real(path.as_bytes()), "{path}");
        }
        assert!(is_of_libraries(b"/usr/lib/locale/C.utf8/LC_CTYPE"));
        assert!(is_of_libraries(b"/usr/lib/x86_64-linux-gnu/gconv/gconv-modules.cache"));
        assert!(!is_of_libraries(b"/usr/lib/locale.txt") && !is_of_libraries(b"/home/LC_CTYPE"));
        assert!(is_stored(b"/dev/shm/x") && !is_stored(b"/dev/null") && !is_stored(b"/dev"));
    }
}
