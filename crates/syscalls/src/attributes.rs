//! Attributes of files in the structs of stat and statx.

use crate::layout::{self, Layout};
use crate::record::Identity;

/// Required bits of the statx mask: type, mode, links, owner, inode and size.
const STATX_NEEDED: u32 = 0x1 | 0x2 | 0x4 | 0x8 | 0x10 | 0x100 | 0x200;
/// Newer kernels leave it out unless requested.
const STATX_MTIME: u32 = 0x40;

/// Stands for an unknown modification time.
pub const MTIME_UNKNOWN: i64 = i64::MIN;

/// Returns the attributes in a struct of stat or statx. `None` if it is neither, is too short, or
/// lacks more than the modification time.
pub fn of_struct(layout: &'static Layout, bytes: &[u8]) -> Option<Identity> {
    if core::ptr::eq(layout, &raw const layout::STAT) {
        return of_stat(bytes);
    }
    core::ptr::eq(layout, &raw const layout::STATX).then(|| of_statx(bytes)).flatten()
}

/// Returns where the size of a file is in a struct of stat or statx.
pub fn size_at(layout: &'static Layout) -> Option<u32> {
    if core::ptr::eq(layout, &raw const layout::STAT) {
        return Some(const { layout::STAT.field("st_size").offset });
    }
    core::ptr::eq(layout, &raw const layout::STATX)
        .then_some(const { layout::STATX.field("stx_size").offset })
}

fn of_stat(bytes: &[u8]) -> Option<Identity> {
    const fn at(name: &str) -> usize {
        layout::STAT.field(name).offset as usize
    }
    Some(Identity {
        dev: long(bytes, const { at("st_dev") })?,
        ino: long(bytes, const { at("st_ino") })?,
        nlink: long(bytes, const { at("st_nlink") })?.try_into().unwrap_or(u32::MAX),
        mode: int(bytes, const { at("st_mode") })?,
        uid: int(bytes, const { at("st_uid") })?,
        gid: int(bytes, const { at("st_gid") })?,
        rdev: long(bytes, const { at("st_rdev") })?,
        size: long(bytes, const { at("st_size") })?,
        mtime_ns: time(
            long(bytes, const { at("st_mtime") })?,
            long(bytes, const { at("st_mtime_nsec") })?,
        ),
    })
}

fn of_statx(bytes: &[u8]) -> Option<Identity> {
    const fn at(name: &str) -> usize {
        layout::STATX.field(name).offset as usize
    }
    const fn at_in_time(name: &str) -> usize {
        at("stx_mtime") + layout::STATX_TIMESTAMP.field(name).offset as usize
    }
    let mask = int(bytes, const { at("stx_mask") })?;
    if mask & STATX_NEEDED != STATX_NEEDED {
        return None;
    }
    let device = |major, minor| Some(makedev(int(bytes, major)?, int(bytes, minor)?));
    Some(Identity {
        dev: device(const { at("stx_dev_major") }, const { at("stx_dev_minor") })?,
        ino: long(bytes, const { at("stx_ino") })?,
        nlink: int(bytes, const { at("stx_nlink") })?,
        mode: half(bytes, const { at("stx_mode") })?.into(),
        uid: int(bytes, const { at("stx_uid") })?,
        gid: int(bytes, const { at("stx_gid") })?,
        rdev: device(const { at("stx_rdev_major") }, const { at("stx_rdev_minor") })?,
        size: long(bytes, const { at("stx_size") })?,
        mtime_ns: match mask & STATX_MTIME {
            0 => MTIME_UNKNOWN,
            _ => time(
                long(bytes, const { at_in_time("tv_sec") })?,
                int(bytes, const { at_in_time("tv_nsec") })?.into(),
            ),
        },
    })
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn int(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn time(seconds: u64, nanoseconds: u64) -> i64 {
    (seconds as i64).saturating_mul(1_000_000_000).saturating_add(nanoseconds as i64)
}

/// Builds a device number like `st_dev`.
fn makedev(major: u32, minor: u32) -> u64 {
    let (major, minor) = (u64::from(major), u64::from(minor));
    (major & 0xfff) << 8 | (major & !0xfff) << 32 | (minor & 0xff) | (minor & !0xff) << 12
}
