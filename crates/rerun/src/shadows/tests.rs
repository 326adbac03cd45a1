//! Shadows are filled, kept and removed as the trace and the kernel say.

use std::os::fd::AsRawFd;

use super::*;

const PAGE: usize = 4096;

fn loaded(inode: u64, size: u64, offset: u64, bytes: &[u8]) -> Loaded {
    Loaded {
        process: 1,
        thread: 1,
        path: b"/a/file".to_vec(),
        inode: (1, inode),
        size,
        mtime_ns: 0,
        hash: vec![inode as u8, size as u8, bytes.first().copied().unwrap_or(0)],
        offset,
        content: Some(Content::Inline(bytes.to_vec())),
    }
}

fn map(
    shadows: &mut Shadows,
    pieces: &[Loaded],
    range: Range<u64>,
    is_writable: bool,
) -> Result<Means, String> {
    let mapping = Mapping {
        file: None,
        loaded: &pieces[0],
        pieces,
        range,
        is_shared: true,
        is_writable,
        is_code: false,
        may_be_written: false,
        is_unchanged: false,
    };
    shadows.map(&mapping, &mut |content| match content {
        Content::Inline(bytes) => Ok(bytes.to_vec()),
        Content::Blobs { .. } => Err("no blobs".into()),
    })
}

fn bytes_of(shadows: &Shadows, number: u32) -> Vec<u8> {
    let path = String::from_utf8(shadows.path_of(number)).unwrap();
    std::fs::read(path).unwrap()
}

/// A mapping of a shadow, as a program has it.
struct Mapped(*mut u8);

impl Mapped {
    fn of(shadows: &mut Shadows, number: u32) -> Mapped {
        let file = shadows.place.as_ref().unwrap().open(number).unwrap();
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping.
        let at = unsafe {
            libc::mmap(std::ptr::null_mut(), PAGE, prot, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        assert_ne!(at, libc::MAP_FAILED);
        shadows.was_mapped(number);
        Mapped(at.cast())
    }

    fn store(&self, at: usize, byte: u8) {
        assert!(at < PAGE);
        // SAFETY: within the mapping, to which nobody has a reference.
        unsafe { self.0.add(at).write_volatile(byte) };
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: ours alone.
        unsafe { libc::munmap(self.0.cast(), PAGE) };
    }
}

#[test]
fn what_lies_between_pieces_is_zeros() {
    let mut shadows = Shadows::in_a_new_directory();
    let size = 5 * PAGE as u64;
    let first = [loaded(1, size, 0, &[7; 5 * PAGE])];
    assert_eq!(map(&mut shadows, &first, 0..size, false), Ok(Means::Shadow(0)));
    shadows.was_mapped(0);
    assert_eq!(bytes_of(&shadows, 0), [7; 5 * PAGE]);
    let pieces = [loaded(1, size, 10, b"abc"), loaded(1, size, 5000, b"defg")];
    assert_eq!(map(&mut shadows, &pieces, 0..size, false), Ok(Means::Shadow(0)));
    let found = bytes_of(&shadows, 0);
    assert_eq!((&found[10..13], &found[5000..5004]), (&b"abc"[..], &b"defg"[..]));
    assert_eq!(found.iter().filter(|byte| **byte != 0).count(), 7);
}

#[test]
fn stores_stay_while_somebody_has_the_file_mapped() {
    let mut shadows = Shadows::in_a_new_directory();
    let size = 2 * PAGE as u64;
    let first = [loaded(1, size, 0, &[1; PAGE])];
    map(&mut shadows, &first, 0..PAGE as u64, true).unwrap();
    let mapped = Mapped::of(&mut shadows, 0);
    mapped.store(9, 5);
    // The trace may be behind: only the second page is news.
    let later = [loaded(1, size, 0, &[2; 2 * PAGE])];
    map(&mut shadows, &later, 0..size, true).unwrap();
    shadows.was_mapped(0);
    let found = bytes_of(&shadows, 0);
    assert_eq!((found[8], found[9], found[PAGE]), (1, 5, 2));
    drop(mapped);
    // Now others may have changed it.
    let last = [loaded(1, PAGE as u64, 0, &[3; PAGE])];
    assert_eq!(map(&mut shadows, &last, 0..size, true), Ok(Means::Shadow(0)));
    assert_eq!(bytes_of(&shadows, 0), [3; PAGE]);
}

#[test]
fn without_bytes_a_shadow_serves_if_it_knows_them() {
    let mut shadows = Shadows::in_a_new_directory();
    let size = 2 * PAGE as u64;
    map(&mut shadows, &[loaded(1, size, 0, &[1; PAGE])], 0..PAGE as u64, true).unwrap();
    shadows.was_mapped(0);
    let unknown = [Loaded { content: None, ..loaded(1, size, 0, b"") }];
    assert_eq!(map(&mut shadows, &unknown, 0..PAGE as u64, true), Ok(Means::Shadow(0)));
    let told = map(&mut shadows, &unknown, 0..size, true).unwrap_err();
    assert!(told.contains("/a/file"), "{told}");
}

#[test]
fn those_that_nobody_has_mapped_make_room() {
    let mut shadows = Shadows::in_a_new_directory();
    for inode in 0..2 {
        map(&mut shadows, &[loaded(inode, PAGE as u64, 0, &[1; PAGE])], 0..PAGE as u64, true)
            .unwrap();
    }
    let mapped = Mapped::of(&mut shadows, 1);
    // A thread is about to map the first one.
    shadows.limit = 0;
    shadows.make_room();
    assert_eq!(shadows.all.len(), 2);
    shadows.was_mapped(0);
    (shadows.limit, shadows.next) = (0, LOOK_EVERY);
    shadows.make_room();
    assert_eq!(shadows.all.keys().copied().collect::<Vec<_>>(), [1]);
    assert!(!std::path::Path::new(&String::from_utf8(shadows.path_of(0)).unwrap()).exists());
    drop(mapped);
}

#[test]
fn sizes_that_make_no_sense_are_failures() {
    for (size, offset) in
        [(u64::MAX, 0), (1 << 62, u64::MAX), (u64::MAX, u64::MAX - 1), (0, u64::MAX)]
    {
        let mut shadows = Shadows::in_a_new_directory();
        let pieces = [loaded(1, size, offset, b"bytes"), loaded(1, size, 3, b"more")];
        // Whether a file system takes them is its own business.
        let _ = map(&mut shadows, &pieces, offset..offset.saturating_add(PAGE as u64), true);
        let _ = map(&mut shadows, &pieces, 0..u64::MAX, true);
    }
}
