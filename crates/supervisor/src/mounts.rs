//! Decides whether reading a file depends on the kernel alone, or on a file system's server, which
//! may never answer and may be a recorded program.

use std::collections::HashMap;
use std::fs;
use std::os::fd::AsRawFd;

use crate::mappings::Found;

/// File systems that depend on the kernel and local disks alone.
const OF_THE_KERNEL: &[&str] = &[
    "ext2", "ext3", "ext4", "xfs", "btrfs", "bcachefs", "f2fs", "zfs", "jfs", "tmpfs", "ramfs",
    "rootfs", "devtmpfs", "squashfs", "erofs", "cramfs", "romfs", "iso9660", "udf", "vfat",
    "exfat", "ntfs3",
];
/// Lies over other file systems, which may be of any kind.
const OVERLAY: &str = "overlay";
/// Number of mounts remembered; beyond it all are forgotten.
const KNOWN_MAX: usize = 4096;

/// Remembers which mounts depend on the kernel alone.
pub struct Mounts {
    /// By unique mount id: whether the mount depends on the kernel alone.
    known: HashMap<u64, bool>,
    /// Devices of the overlays mounted before the program started, which are trusted.
    overlays: Vec<Vec<u8>>,
}

/// A line of a mountinfo file.
struct Mount<'a> {
    number: &'a [u8],
    device: &'a [u8],
    kind: &'a [u8],
}

impl Mounts {
    pub fn new() -> Mounts {
        let text = fs::read("/proc/self/mountinfo").unwrap_or_default();
        let overlays = mounts(&text).filter(|mount| mount.kind == OVERLAY.as_bytes());
        let overlays = overlays.map(|mount| mount.device.to_vec()).collect();
        Mounts { known: HashMap::new(), overlays }
    }

    /// Whether reading a file that a process has mapped depends on the kernel alone.
    pub fn need_nobody(&mut self, pid: i32, found: &Found) -> bool {
        if let Some(known) = found.mount.and_then(|mount| self.known.get(&mount)) {
            return *known;
        }
        let needs_nobody = self.look(pid, found).unwrap_or(false);
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        if let Some(mount) = found.mount {
            self.known.insert(mount, needs_nobody);
        }
        needs_nobody
    }

    /// `None` if the process does not see that mount.
    fn look(&self, pid: i32, found: &Found) -> Option<bool> {
        let info = fs::read(format!("/proc/self/fdinfo/{}", found.place.as_raw_fd())).ok()?;
        let mut lines = info.split(|&byte| byte == b'\n');
        let number = lines.find_map(|line| line.strip_prefix(b"mnt_id:"))?.trim_ascii();
        let text = fs::read(format!("/proc/{pid}/mountinfo")).ok()?;
        let mount = mounts(&text).find(|mount| mount.number == number)?;
        let is_known_overlay = mount.kind == OVERLAY.as_bytes()
            && self.overlays.iter().any(|device| device == mount.device);
        Some(is_known_overlay || OF_THE_KERNEL.iter().any(|kind| kind.as_bytes() == mount.kind))
    }
}

fn mounts(text: &[u8]) -> impl Iterator<Item = Mount<'_>> {
    text.split(|&byte| byte == b'\n').filter_map(|line| {
        let mut words = line.split(|&byte| byte == b' ');
        let (number, device) = (words.next()?, words.nth(1)?);
        // The `-` follows a varying number of optional fields.
        words.find(|word| *word == b"-")?;
        Some(Mount { number, device, kind: words.next()? })
    })
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::OwnedFd;

    use super::*;

    #[test]
    fn who_serves_a_file_system_is_known_by_its_mount() {
        let text = b"29 1 253:0 / / rw,relatime shared:1 master:2 - ext4 /dev/vda rw\n\
                     31 29 0:57 / /mnt/a\\040b rw - fuse.sshfs a@b: rw\n\n";
        let found: Vec<_> = mounts(text).map(|m| (m.number, m.device, m.kind)).collect();
        let expected: [(&[u8], &[u8], &[u8]); 2] =
            [(b"29", b"253:0", b"ext4"), (b"31", b"0:57", b"fuse.sshfs")];
        assert_eq!(found, expected);
    }

    #[test]
    fn proc_is_nothing_that_is_read_without_a_look() {
        let mut all = Mounts::new();
        let own = std::process::id() as i32;
        let mut found = |path: &str, mount| {
            let place = OwnedFd::from(File::open(path).unwrap());
            all.need_nobody(own, &Found { place, key: [0; 4], mount })
        };
        // proc is not in the list.
        assert!(!found("/proc/self/status", Some(7)));
        // Answered from the mount id, whatever the path.
        assert!(!found("/", Some(7)));
    }
}
