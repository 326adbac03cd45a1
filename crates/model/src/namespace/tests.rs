use super::*;

fn on_disk(ino: u64) -> Identity {
    Identity { dev: 1, ino, mode: S_IFREG | 0o644, nlink: 1, ..Identity::default() }
}

fn directory(ino: u64) -> Identity {
    Identity { mode: S_IFDIR | 0o755, nlink: 2, ..on_disk(ino) }
}

/// Returns all paths that lead to a file.
fn paths(files: &Namespace, file: FileId) -> Vec<String> {
    let names = files.file(file).names.iter();
    names.map(|name| String::from_utf8(files.tree.path(*name)).unwrap()).collect()
}

#[test]
fn a_file_is_the_same_by_all_its_names() {
    let mut files = Namespace::default();
    let two = Identity { nlink: 2, ..on_disk(5) };
    let file = files.at(b"/a", true, Some(&two));
    assert_eq!(files.at(b"/b", true, Some(&two)), file);
    files.linked(file, b"/c");
    assert_eq!(paths(&files, file), ["/a", "/b", "/c"]);
    assert_eq!(files.removed(b"/a", None), Removed { file, is_gone: false });
    assert_eq!((files.known_at(b"/a"), files.path(file)), (None, b"/b".to_vec()));
    assert_eq!(files.removed(b"/c", None), Removed { file, is_gone: false });
    assert_eq!(files.removed(b"/b", None), Removed { file, is_gone: true });
    assert_eq!(files.path(file), b"/b");
    // Another file has the number now.
    assert_ne!(files.at(b"/d", true, Some(&on_disk(5))), file);
}

#[test]
fn names_below_a_directory_move_with_it() {
    let mut files = Namespace::default();
    let home = files.at(b"/d", true, Some(&directory(2)));
    let file = files.made(b"/d/sub/file");
    assert_eq!(files.renamed((b"/d", None), (b"/e", None)).file, home);
    assert_eq!(
        (files.path(file), files.known_at(b"/e/sub/file")),
        (b"/e/sub/file".to_vec(), Some(file))
    );
    let other = files.made(b"/f");
    files.exchanged((b"/e", None), (b"/f", None));
    assert_eq!((files.path(file), files.path(other)), (b"/f/sub/file".to_vec(), b"/e".to_vec()));
}

#[test]
fn what_a_rename_replaces_is_gone() {
    let mut files = Namespace::default();
    let (new, old) = (files.made(b"/new"), files.made(b"/old"));
    let renamed = files.renamed((b"/new", None), (b"/old", None));
    assert_eq!((renamed.file, renamed.has_moved), (new, true));
    assert_eq!(renamed.replaced, Some(Removed { file: old, is_gone: true }));
    assert_eq!((files.known_at(b"/old"), files.path(old)), (Some(new), b"/old".to_vec()));
    // Two names of one file both stay.
    files.linked(new, b"/also");
    assert!(!files.renamed((b"/old", None), (b"/also", None)).has_moved);
    assert_eq!(paths(&files, new), ["/old", "/also"]);
}

#[test]
fn a_path_that_leads_nowhere_has_one_number() {
    let mut files = Namespace::default();
    let missing = files.at(b"/missing", false, None);
    assert_eq!(files.at(b"/missing", false, None), missing);
    assert_eq!((files.known_at(b"/missing"), files.path(missing)), (None, b"/missing".to_vec()));
    assert_eq!(files.made(b"/missing"), missing);
    files.removed(b"/missing", None);
    assert_eq!(files.at(b"/missing", false, None), missing);
    assert_ne!(files.made(b"/missing"), missing);
}

#[test]
fn a_link_is_another_file_than_its_target() {
    let mut files = Namespace::default();
    let target = files.at(b"/link", true, Some(&on_disk(3)));
    let link = Identity { mode: S_IFLNK | 0o777, ..on_disk(4) };
    let itself = files.at(b"/link", true, Some(&link));
    assert_ne!(itself, target);
    assert_eq!(files.at(b"/link", true, None), target);
    assert_eq!(files.removed(b"/link", Some(&link)), Removed { file: itself, is_gone: true });
    assert_eq!((files.known_at(b"/link"), files.file(target).inode), (None, Some((1, 3))));
}

#[test]
fn views_of_the_kernel_have_no_inodes() {
    let mut files = Namespace::default();
    let first = files.at(b"/proc/self/status", true, Some(&on_disk(7)));
    assert_ne!(files.at(b"/a", true, Some(&on_disk(7))), first);
    assert!(files.file(first).is_elsewhere && files.file(first).inode.is_none());
}

#[test]
fn what_is_beyond_the_limits_counts_as_one() {
    let mut files = Namespace::default();
    for n in 0..FILES_MAX + 10 {
        files.unnamed(format!("/#{n} (deleted)").as_bytes());
    }
    assert_eq!(files.files.len(), FILES_MAX);
    assert_eq!(files.made(b"/x"), FileId::OTHERS);
    assert_eq!(files.at(b"/x", true, Some(&on_disk(1))), FileId::OTHERS);
    assert_eq!(files.removed(b"/x", None).file, FileId::OTHERS);
    files.renamed((b"/x", None), (b"/y", None));
    files.exchanged((b"/x", None), (b"/y", None));
    files.linked(FileId::OTHERS, b"/z");
    assert!(paths(&files, FileId::OTHERS).is_empty());
    assert!(files.path(FileId::OTHERS).starts_with(b"("));
    let long = vec![b'x'; 4000];
    let mut few = Namespace::default();
    for n in 0..LAST_BYTES_MAX / 4000 + 10 {
        few.unnamed(&[&long[..], format!("{n}").as_bytes()].concat());
    }
    assert!(few.last_bytes <= LAST_BYTES_MAX + 20 * path::CUT.len());
    assert_eq!(few.path(FileId(few.files.len() as u32 - 1)), path::CUT);
}
