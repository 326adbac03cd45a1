//! Fresh file systems for recordings and replays.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::stage::{Stage, open_to_all};
use crate::{Complaint, ensure, trials};

/// Size of an image file, which is sparse.
const IMAGE_BYTES: u64 = 4 << 30;

/// A type of file system.
#[derive(Clone, Copy, Debug)]
pub struct FileSystemKind {
    /// Name in the kernel.
    pub name: &'static str,
    /// Program and arguments that format an image; `None` if no image is needed.
    make: Option<(&'static str, &'static [&'static str])>,
}

/// All types tested.
pub const KINDS: &[FileSystemKind] = &[
    FileSystemKind { name: "ext4", make: Some(("mkfs.ext4", &["-q", "-F"])) },
    FileSystemKind { name: "xfs", make: Some(("mkfs.xfs", &["-q", "-f"])) },
    FileSystemKind { name: "btrfs", make: Some(("mkfs.btrfs", &["-q", "-f"])) },
    FileSystemKind { name: "tmpfs", make: None },
];

impl FileSystemKind {
    /// Returns what this machine lacks for it, if anything.
    pub fn missing(&self) -> Option<&'static str> {
        let known = fs::read_to_string("/proc/filesystems").unwrap_or_default();
        let known = known.lines().any(|line| line.split_whitespace().last() == Some(self.name));
        match self.make {
            Some((program, _)) if trials::missing(&[program]).is_some() => Some(program),
            Some(_) if !trials::succeeds("losetup", &["--find"]) => Some("loop devices"),
            _ if !known && !trials::succeeds("modprobe", &[self.name]) => Some(self.name),
            _ => None,
        }
    }
}

/// A mounted file system, unmounted and removed on drop.
pub struct Ground {
    holder: TempDir,
}

impl Ground {
    /// Makes and mounts a file system.
    pub fn new(stage: &Stage, kind: FileSystemKind) -> Result<Ground, Complaint> {
        let holder = tempfile::Builder::new()
            .prefix(kind.name)
            .tempdir_in(stage.places())
            .map_err(|error| format!("no room for a file system: {error}"))?;
        open_to_all(holder.path())?;
        let (image, top) = (holder.path().join("image"), holder.path().join("top"));
        fs::create_dir(&top).map_err(|error| error.to_string())?;
        let mut mount = Command::new("mount");
        match kind.make {
            Some((program, args)) => {
                let file = File::create(&image).map_err(|error| error.to_string())?;
                file.set_len(IMAGE_BYTES).map_err(|error| error.to_string())?;
                run(Command::new(program).args(args).arg(&image))?;
                mount.args(["-o", "loop"]).arg(&image);
            }
            None => {
                mount.args(["-t", kind.name, kind.name]);
            }
        }
        run(mount.arg(&top))?;
        let ground = Ground { holder };
        open_to_all(ground.top().as_path())?;
        Ok(ground)
    }

    /// Returns the mount point.
    pub fn top(&self) -> PathBuf {
        self.holder.path().join("top")
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        if let Err(complaint) = unmount(&self.top()) {
            eprintln!("{complaint}");
        }
    }
}

fn unmount(top: &Path) -> Result<(), Complaint> {
    run(Command::new("umount").arg(top)).or_else(|_| run(Command::new("umount").arg("-l").arg(top)))
}

fn run(command: &mut Command) -> Result<(), Complaint> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}: {said}", output.status);
    Ok(())
}
