//! How many bytes the files of a tree take on disk.

use std::collections::HashSet;

use rustix::fs::{FileType, OFlags, fstat};

use crate::{Inode, Tree};

/// Unit of what the kernel says of blocks, whatever the file system's are.
const BLOCK_BYTES: u64 = 512;

impl Tree {
    /// Returns the bytes allocated to all files, each counted once. What cannot be reached counts nothing.
    pub fn allocated_bytes(&self) -> u64 {
        let mut sum = 0;
        let mut several_names: HashSet<Inode> = HashSet::new();
        let mut directories = vec![Vec::new()];
        while let Some(directory) = directories.pop() {
            for name in self.names(&directory).unwrap_or_default() {
                let path = [&directory[..], b"/", &name].concat();
                let Ok(stat) =
                    self.resolve(&path, OFlags::PATH | OFlags::NOFOLLOW).and_then(|fd| fstat(&fd))
                else {
                    continue;
                };
                let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
                let counts = is_directory
                    || stat.st_nlink < 2
                    || several_names.insert((stat.st_dev, stat.st_ino));
                if counts {
                    sum += u64::try_from(stat.st_blocks).unwrap_or(0) * BLOCK_BYTES;
                }
                if is_directory {
                    directories.push(path);
                }
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn each_file_counts_once_and_holes_do_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::create_dir_all(path("a/b")).unwrap();
        let tree = Tree::open(dir.path()).unwrap();
        let before = tree.allocated_bytes();
        fs::write(path("a/b/file"), [1; 1 << 20]).unwrap();
        fs::File::open(path("a/b/file")).unwrap().sync_all().unwrap();
        fs::hard_link(path("a/b/file"), path("a/same")).unwrap();
        fs::File::create(path("hole")).unwrap().set_len(1 << 30).unwrap();
        let bytes = tree.allocated_bytes() - before;
        // File systems that compress take less.
        assert!(bytes <= (1 << 20) + (64 << 10), "{bytes}");
    }
}
