//! The recording machine's mounts, and which of them the recorded program used.

use std::collections::HashMap;

/// One line of mountinfo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Mount point.
    pub point: Vec<u8>,
    /// Type of the file system.
    pub kind: Vec<u8>,
    /// Source of the mount: a device or a name.
    pub source: Vec<u8>,
    /// Options of the mount and of the file system.
    pub options: Vec<u8>,
    /// Major and minor device number, as in `st_dev`.
    pub dev: (u64, u64),
    /// True if the program used files on it.
    pub used: bool,
}

/// Splits a device number into major and minor number, as the C library does.
pub fn major_minor(dev: u64) -> (u64, u64) {
    let major = (dev >> 8 & 0xfff) | (dev >> 32 & 0xffff_f000);
    let minor = (dev & 0xff) | (dev >> 12 & 0xffff_ff00);
    (major, minor)
}

/// Combines a major and a minor number into a device number.
pub fn device(major: u64, minor: u64) -> u64 {
    (minor & 0xff)
        | (major & 0xfff) << 8
        | (minor & 0xffff_ff00) << 12
        | (major & 0xffff_f000) << 32
}

/// The mounts of the recording machine.
#[derive(Default)]
pub struct Mounts {
    all: Vec<Mount>,
    /// Index of the last mount at each mount point, which covers the others.
    by_point: HashMap<Vec<u8>, usize>,
    /// Index of the first mount of each device, and true if any mount of the device was used.
    by_dev: HashMap<(u64, u64), (usize, bool)>,
    /// Length of the longest mount point.
    longest: usize,
}

impl Mounts {
    /// Parses lines of /proc/self/mountinfo, skipping invalid ones.
    pub fn parse(lines: &[Vec<u8>]) -> Mounts {
        let mut mounts = Mounts::default();
        for mount in lines.iter().filter_map(|line| parse(line)) {
            let number = mounts.all.len();
            mounts.longest = mounts.longest.max(mount.point.len());
            mounts.by_point.insert(mount.point.clone(), number);
            mounts.by_dev.entry(mount.dev).or_insert((number, false));
            mounts.all.push(mount);
        }
        mounts
    }

    /// Marks the mount of an absolute path as used.
    pub fn touch(&mut self, path: &[u8]) {
        if path.first() == Some(&b'/') {
            self.mark(self.find(path));
        }
    }

    /// Marks a mount of this device as used.
    pub fn touch_dev(&mut self, dev: (u64, u64)) {
        // If the device has several mounts, prefer one that was marked by a path.
        if let Some((first, false)) = self.by_dev.get(&dev) {
            self.mark(Some(*first));
        }
    }

    /// Returns true if a mount of this device was used.
    pub fn uses(&self, dev: (u64, u64)) -> bool {
        self.by_dev.get(&dev).is_some_and(|(_, used)| *used)
    }

    /// Returns the used mounts.
    pub fn used(&self) -> impl Iterator<Item = &Mount> {
        self.all.iter().filter(|mount| mount.used)
    }

    fn mark(&mut self, at: Option<usize>) {
        let Some(mount) = at.and_then(|at| self.all.get_mut(at)) else { return };
        mount.used = true;
        if let Some((_, used)) = self.by_dev.get_mut(&mount.dev) {
            *used = true;
        }
    }

    /// Returns the mount of the file at an absolute path.
    pub fn of(&self, path: &[u8]) -> Option<&Mount> {
        self.find(path).map(|at| &self.all[at])
    }

    /// Returns the mount with the longest matching mount point.
    fn find(&self, path: &[u8]) -> Option<usize> {
        let mut end = path.len();
        loop {
            if end <= self.longest
                && let Some(found) = self.by_point.get(&path[..end])
            {
                return Some(*found);
            }
            match path[..end].iter().rposition(|&c| c == b'/')? {
                0 if end == 1 => return None,
                0 => end = 1,
                slash => end = slash,
            }
        }
    }
}

fn parse(line: &[u8]) -> Option<Mount> {
    let fields: Vec<&[u8]> = line.split(|&c| c == b' ').collect();
    let dash = fields.iter().position(|field| *field == b"-")?;
    let mut dev = std::str::from_utf8(fields.get(2)?).ok()?.split(':');
    let dev = (dev.next()?.parse().ok()?, dev.next()?.parse().ok()?);
    let mut options = fields.get(5)?.to_vec();
    if let Some(more) = fields.get(dash + 3) {
        let known: Vec<&[u8]> = options.split(|&c| c == b',').collect();
        let more: Vec<&[u8]> =
            more.split(|&c| c == b',').filter(|option| !known.contains(option)).collect();
        let more = more.join(&b","[..]);
        if !more.is_empty() {
            options.push(b',');
            options.extend(more);
        }
    }
    Some(Mount {
        point: unescape(fields.get(4)?),
        kind: unescape(fields.get(dash + 1)?),
        source: unescape(fields.get(dash + 2)?),
        options,
        dev,
        used: false,
    })
}

/// Decodes `\` followed by three octal digits, used for blanks and backslashes.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut at = 0;
    while at < field.len() {
        let digits = field.get(at + 1..at + 4).filter(|_| field[at] == b'\\');
        let byte = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match byte {
            Some(byte) => {
                out.push(byte);
                at += 4;
            }
            None => {
                out.push(field[at]);
                at += 1;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mounts() -> Mounts {
        let lines = [
            "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw,errors=remount-ro",
            "30 22 0:25 / /tmp rw,nosuid - tmpfs tmpfs rw,size=8g",
            r"31 22 8:2 / /my\040disk rw shared:5 - xfs /dev/sdb1 rw",
            "nonsense",
        ];
        Mounts::parse(&lines.map(|line| line.as_bytes().to_vec()))
    }

    #[track_caller]
    fn check(paths: &[&str], expected: &[&str]) {
        let mut mounts = mounts();
        paths.iter().for_each(|path| mounts.touch(path.as_bytes()));
        let used: Vec<String> =
            mounts.used().map(|m| String::from_utf8(m.point.clone()).unwrap()).collect();
        assert_eq!(used, expected);
    }

    #[test]
    fn the_longest_mount_point_counts() {
        check(&["/etc/passwd"], &["/"]);
        check(&["/tmp/a", "/tmp/b"], &["/tmp"]);
        check(&["/tmpfile"], &["/"]);
        check(&["/etc", "/tmp"], &["/", "/tmp"]);
        check(&["/my disk/x/y"], &["/my disk"]);
        check(&["relative", "pipe:[1]", ""], &[]);
    }

    #[test]
    fn lines_are_taken_apart() {
        let mounts = mounts();
        assert_eq!(mounts.all.len(), 3);
        assert_eq!(mounts.all[0].options, b"rw,relatime,errors=remount-ro");
        assert_eq!(mounts.all[2].kind, b"xfs");
        assert_eq!(mounts.all[2].dev, (8, 2));
    }

    #[test]
    fn devices_survive_being_taken_apart() {
        for dev in [0, 0x801, 0xfe00, 0x1234_5678_9abc_def0] {
            let (major, minor) = major_minor(dev);
            assert_eq!(device(major, minor), dev, "{dev:#x}");
        }
    }
}
