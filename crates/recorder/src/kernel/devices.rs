//! The machine's disks and their parts, as /proc/partitions shows them.

use model::kernel_devices::KernelDevice;

/// Where the kernel lists them.
pub const PARTITIONS: &str = "/proc/partitions";
/// Devices that are told.
const DEVICES_MAX: usize = 1 << 12;

/// Reads the kernel's list: a line has major and minor number, blocks and name.
pub fn parse(list: &str) -> Vec<KernelDevice> {
    let device = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let (major, minor) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let name = words.nth(1)?.as_bytes().to_vec();
        Some(KernelDevice { major, minor, name })
    };
    list.lines().filter_map(device).take(DEVICES_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_list() {
        let list =
            "major minor  #blocks  name\n\n 254        0  268435456 vda\n 8 17 x\n 8 1 5 sda1\n";
        let device = |major, minor, name: &str| KernelDevice { major, minor, name: name.into() };
        assert_eq!(parse(list), [device(254, 0, "vda"), device(8, 1, "sda1")]);
    }
}
