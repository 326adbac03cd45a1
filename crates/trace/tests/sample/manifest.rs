//! Manifests with a bit of everything.

use trace::Writer;
use trace::manifest::{
    Content, Ending, Entry, FileKind, ManifestWriter, PIECE_BYTES_MIN, Scope, Sums, Xattr,
};

use super::Random;

/// Returns sorted entries, deterministic for a count.
pub fn entries(count: u64) -> Vec<Entry> {
    let mut random = Random(7);
    (0..count).map(|number| entry(number, &mut random)).collect()
}

fn entry(number: u64, random: &mut Random) -> Entry {
    let mut path = format!("/dir/{number:08}-").into_bytes();
    path.push(random.next() as u8);
    let size = random.next() % 100_000;
    let hash = |random: &mut Random| u128::from(random.next()) << 64 | u128::from(random.next());
    let known = Entry {
        path: path.clone(),
        mode: 0o4755,
        uid: 1000,
        gid: u32::MAX,
        nlink: 1 + number % 3,
        size,
        same: number % 3,
        ..Entry::default()
    };
    match number % 7 {
        0 => Entry { path, ..Entry::default() },
        1 => Entry { path, kind: FileKind::Unreachable, ..Entry::default() },
        2 => Entry { kind: FileKind::Link, target: b"../\xff".to_vec(), ..known },
        3 => Entry { kind: FileKind::Character, rdev: 0x103, ..known },
        4 => Entry { kind: FileKind::Regular, content: Content::Mapped, ..known },
        5 => {
            let sums = Sums { whole: hash(random), ..Sums::default() };
            let xattr = |name: &[u8], hash| Xattr { name: name.to_vec(), hash };
            let xattrs = vec![xattr(b"user.a", hash(random)), xattr(b"user.b", 0)];
            Entry { kind: FileKind::Regular, content: Content::Hashed(sums), xattrs, ..known }
        }
        _ => {
            let pieces = (0..size.div_ceil(PIECE_BYTES_MIN)).map(|_| random.next()).collect();
            let sums = Sums { whole: hash(random), piece_bytes: PIECE_BYTES_MIN, pieces };
            Entry { kind: FileKind::Regular, content: Content::Hashed(sums), ..known }
        }
    }
}

/// Writes the entries, and marks the manifest as incomplete.
pub fn write(writer: &mut Writer, count: u64) {
    let mut manifest = ManifestWriter::default();
    for mut entry in entries(count) {
        manifest.add(writer, &mut entry).unwrap();
    }
    manifest.end(writer, Ending { scope: Scope::Truncated, left_out: 3 }).unwrap();
}
