//! Selects the files that a replay touches. The kernel's views (/proc, /sys) and devices differ
//! between machines: calls on them are answered from the trace.

/// Directories that belong to the kernel, not to a disk.
const KERNELS: &[&[u8]] = &[b"/proc", b"/sys", b"/dev"];

/// Exceptions among those: they behave alike on every machine and are replayed.
const EVERYWHERE: &[&[u8]] = &[b"/dev/null", b"/dev/zero", b"/dev/full", b"/dev/shm"];

/// Returns true if a replay uses the file at an absolute path. Other files are simulated from the
/// trace.
pub fn is_real(path: &[u8]) -> bool {
    let below = |roots: &[&[u8]]| roots.iter().any(|root| is_at_or_below(path, root));
    // The directory /dev itself is real, to look up names in it.
    path == b"/dev" || !below(KERNELS) || below(EVERYWHERE)
}

/// Returns true if a path names a device that a replay uses.
pub fn is_device(path: &[u8]) -> bool {
    path != b"/dev" && is_at_or_below(path, b"/dev") && is_real(path) && !is_stored(path)
}

/// Returns true if a path names a file on a disk or in shared memory, not a kernel view or device.
pub fn is_stored(path: &[u8]) -> bool {
    is_real(path) && (!is_at_or_below(path, b"/dev") || is_at_or_below(path, b"/dev/shm"))
}

/// Returns true if a file's name in /proc stands for shared memory, not for a file on a disk.
pub fn is_memory(path: &[u8]) -> bool {
    path.starts_with(b"/memfd:") || path.starts_with(b"/SYSV") || is_at_or_below(path, b"/dev/shm")
}

/// Returns true if a file's name in /proc stands for a ring of io_uring.
pub fn is_ring(path: &[u8]) -> bool {
    path == b"anon_inode:[io_uring]"
}

/// Returns true for a file that the dynamic linker and the C library map for their own use: the
/// library cache, locales, translations, the list of character sets.
pub fn is_of_libraries(path: &[u8]) -> bool {
    const FOLDERS: &[&[u8]] = &[b"/usr/lib/locale", b"/usr/share/locale"];
    path == b"/etc/ld.so.cache"
        || path.ends_with(b"/gconv/gconv-modules.cache")
        || FOLDERS.iter().any(|folder| is_at_or_below(path, folder))
}

/// Returns true if `path` is `root` or inside it.
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
        assert!(is_device(b"/dev/null") && !is_device(b"/dev/shm/x") && !is_device(b"/dev"));
        assert!(is_stored(b"/dev/shm/x") && !is_stored(b"/dev/null") && !is_stored(b"/dev"));
    }
}
