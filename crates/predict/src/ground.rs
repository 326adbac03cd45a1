//! A fresh file system for one run, which goes away with it.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use file_tree::Tree;
use rustix::fs::statvfs;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use tempfile::TempDir;

use crate::Error;
use crate::configuration::{Configuration, FileSystem, Limits, Place, search_path};
use crate::volume::Volume;

/// Where a run's files lie.
pub struct Ground {
    /// Slows the files down; unmounted before what is below.
    volume: Option<Volume>,
    mounted: Option<Mounted>,
    /// Parts of the place, bound into a root that lies elsewhere.
    bound: Vec<Mounted>,
    /// What stands for `/`.
    root: PathBuf,
    /// The directory of the place that has the files: the root, or what is bound into it.
    measured: PathBuf,
    /// Of the block device.
    device: Option<(u32, u32)>,
    /// Bytes in use before anything was there.
    used_before: u64,
    around: TempDir,
    /// Has the root, where it lies elsewhere.
    home: Option<TempDir>,
}

/// A mount that ends with this.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        if unmount(&self.0, UnmountFlags::empty()).is_err() {
            let _ = unmount(&self.0, UnmountFlags::DETACH);
        }
    }
}

/// Keeps what is mounted from now on to this process and those that it starts, so that it all goes when
/// they end, however they do.
pub fn keep_mounts_to_ourselves() -> Result<(), Error> {
    let private = || {
        // SAFETY: descriptors and memory stay shared; only the view of mounts becomes this thread's.
        unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNS)? };
        let flags = rustix::mount::MountPropagationFlags::PRIVATE
            | rustix::mount::MountPropagationFlags::REC;
        rustix::mount::mount_change("/", flags)
    };
    private().map_err(|error| {
        Error::Refused(format!(
            "a mount namespace cannot be made ({error}): images, tmpfs and limits by FUSE need the right \
             to mount; --on DIR works without"
        ))
    })
}

impl Ground {
    /// Makes it: an image of `size` bytes in `images`, where one is needed. `slowed` has limits by FUSE.
    /// If there are `paths`, only what is below them lies there, and all else in `images`.
    pub fn lay(
        configuration: &Configuration,
        (images, size): (&Path, u64),
        slowed: Option<&Limits>,
        paths: &[PathBuf],
    ) -> Result<Ground, Error> {
        let place = &configuration.place;
        let below = match place {
            Place::Directory(directory) => directory,
            Place::Fresh(_) | Place::Image(_) | Place::Tmpfs => images,
        };
        let mut named = tempfile::Builder::new();
        let around = named.prefix("reenact-predict-").tempdir_in(below);
        let around = around.map_err(Error::of(below.display()))?;
        let mut ground = Ground {
            volume: None,
            mounted: None,
            bound: Vec::new(),
            root: around.path().join("root"),
            measured: PathBuf::new(),
            device: None,
            used_before: 0,
            around,
            home: None,
        };
        match place {
            Place::Directory(_) => {}
            Place::Tmpfs => ground.mount_tmpfs()?,
            Place::Fresh(system) => {
                let image = ground.around.path().join("image");
                let made = File::create(&image).and_then(|file| file.set_len(size));
                made.map_err(Error::of(image.display()))?;
                let (maker, options) = system.maker();
                let remedy =
                    format!("{maker} makes {}: install {}", system.name(), system.package());
                run(Command::new(maker).args(options).arg(&image), &remedy)?;
                ground.mount_image(&image, Some(*system))?;
            }
            Place::Image(from) => {
                let image = ground.around.path().join("image");
                let mut copy = Command::new("cp");
                copy.args(["--sparse=always", "--reflink=auto", "--"]).arg(from).arg(&image);
                run(&mut copy, "")?;
                ground.mount_image(&image, None)?;
            }
        }
        if let Some(limits) = slowed {
            let top = ground.top().to_path_buf();
            let at = ground.around.path().join("volume");
            fs::create_dir(&at).map_err(Error::of(at.display()))?;
            ground.volume = Some(Volume::mount(&top, &at, limits)?);
            ground.root = at.join("root");
        }
        let root = &ground.root;
        fs::create_dir(root).map_err(Error::of(root.display()))?;
        ground.measured.clone_from(root);
        ground.used_before = ground.used();
        if !paths.is_empty() {
            ground.bind(images, paths)?;
        }
        Ok(ground)
    }

    /// Makes a root in `images`, and binds directories of the place into it.
    fn bind(&mut self, images: &Path, paths: &[PathBuf]) -> Result<(), Error> {
        let mut named = tempfile::Builder::new();
        let home = named.prefix("reenact-predict-").tempdir_in(images);
        let home = home.map_err(Error::of(images.display()))?;
        self.root = self.home.insert(home).path().join("root");
        for (number, path) in outermost(paths).into_iter().enumerate() {
            let from = self.measured.join(number.to_string());
            let at = self.root.join(path.strip_prefix("/").unwrap_or(path));
            fs::create_dir(&from).map_err(Error::of(from.display()))?;
            fs::create_dir_all(&at).map_err(Error::of(at.display()))?;
            let bound = rustix::mount::mount_bind(&from, &at);
            bound.map_err(|error| Error::Failed(format!("{}: {error}", at.display())))?;
            self.bound.push(Mounted(at));
        }
        Ok(())
    }

    /// Whether replays find directories in the root that were made for them.
    pub fn is_bound(&self) -> bool {
        !self.bound.is_empty()
    }

    /// Limits of a volume hold from now on, or no more.
    pub fn limit(&self, holds: bool) {
        self.volume.iter().for_each(|volume| volume.limit(holds));
    }

    /// Bytes that the block device has read and written so far, if there is one.
    pub fn moved(&self) -> Option<(u64, u64)> {
        let (major, minor) = self.device?;
        let stat = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat")).ok()?;
        moved(&stat)
    }

    /// What stands for `/`: an empty directory.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Lets other users pass through the directories above it, as servers run as some; what is below has
    /// its recorded permissions.
    pub fn let_pass(&self) -> Result<(), Error> {
        for above in [Some(&self.around), self.home.as_ref()].into_iter().flatten() {
            let passable = fs::Permissions::from_mode(0o711);
            fs::set_permissions(above, passable).map_err(Error::of(above.path().display()))?;
        }
        Ok(())
    }

    /// Its block device, if it has one.
    pub fn device(&self) -> Option<(u32, u32)> {
        self.device
    }

    /// Writes back what is dirty; with `cold`, takes everything out of the page cache as well.
    pub fn settle(&self, cold: bool) -> Result<(), Error> {
        self.write_back();
        if !cold {
            return Ok(());
        }
        let drop_caches = "/proc/sys/vm/drop_caches";
        fs::write(drop_caches, "3").map_err(|error| {
            Error::Refused(format!(
                "{drop_caches}: {error}; an empty cache needs root, --cache warm does not"
            ))
        })
    }

    /// Returns the bytes that were allocated for files: by the file system, if it is our own.
    pub fn allocated(&self) -> u64 {
        self.write_back();
        match &self.mounted {
            Some(_) => self.used().saturating_sub(self.used_before),
            None => Tree::open(&self.measured).map_or(0, |tree| tree.allocated_bytes()),
        }
    }

    /// First what the volume's client holds, then what is below.
    fn write_back(&self) {
        for directory in [&self.root, &self.measured, self.top()] {
            let _ = File::open(directory).map(rustix::fs::syncfs);
        }
    }

    fn used(&self) -> u64 {
        let stat = statvfs(self.top());
        stat.map_or(0, |stat| (stat.f_blocks - stat.f_bfree) * stat.f_frsize)
    }

    /// The directory below which files lie.
    fn top(&self) -> &Path {
        self.mounted.as_ref().map_or(self.around.path(), |mounted| &mounted.0)
    }

    fn mount_point(&self) -> Result<PathBuf, Error> {
        let at = self.around.path().join("mount");
        fs::create_dir(&at).map_err(Error::of(at.display()))?;
        Ok(at)
    }

    fn mount_tmpfs(&mut self) -> Result<(), Error> {
        let at = self.mount_point()?;
        let mounted = mount("tmpfs", &at, "tmpfs", MountFlags::empty(), c"size=100%");
        mounted.map_err(|error| Error::Failed(format!("tmpfs cannot be mounted: {error}")))?;
        self.root = at.join("root");
        self.mounted = Some(Mounted(at));
        Ok(())
    }

    fn mount_image(&mut self, image: &Path, system: Option<FileSystem>) -> Result<(), Error> {
        let at = self.mount_point()?;
        let remedy = "loop devices need losetup (of mount) and /dev/loop-control";
        let mut set_up = Command::new("losetup");
        set_up.args(["--find", "--show", "--direct-io=on"]).arg(image);
        let device = run(&mut set_up, remedy)?;
        let device = PathBuf::from(device.trim());
        let mut mounts = Command::new("mount");
        if let Some(system) = system {
            mounts.args(["-o", system.mount_options()]);
        }
        let mounted = run(mounts.arg(&device).arg(&at), "");
        // From here on the device goes with its last user.
        let let_go = run(Command::new("losetup").arg("--detach").arg(&device), "");
        mounted?;
        self.root = at.join("root");
        self.mounted = Some(Mounted(at));
        let_go?;
        let about = fs::metadata(&device).map_err(Error::of(device.display()))?;
        let number = about.rdev();
        self.device = Some((rustix::fs::major(number), rustix::fs::minor(number)));
        Ok(())
    }
}

/// Runs a program of the system. Returns its output.
fn run(command: &mut Command, remedy: &str) -> Result<String, Error> {
    let name = command.get_program().to_string_lossy().into_owned();
    command.env("PATH", search_path());
    let output = command.output().map_err(|error| {
        let remedy = if remedy.is_empty() { String::new() } else { format!("; {remedy}") };
        Error::Refused(format!("{name} cannot be started: {error}{remedy}"))
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.lines().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
    Err(Error::Failed(format!("{name} failed: {said}")))
}

impl Drop for Ground {
    fn drop(&mut self) {
        self.bound.clear();
        self.volume = None;
        self.mounted = None;
        unlock(self.around.path());
        self.home.iter().for_each(|home| unlock(home.path()));
    }
}

/// Leaves out directories that are below others, and `/` with all.
fn outermost(paths: &[PathBuf]) -> Vec<&Path> {
    let below = |path: &Path| paths.iter().any(|other| other != path && path.starts_with(other));
    let mut all: Vec<&Path> =
        paths.iter().map(PathBuf::as_path).filter(|path| !below(path)).collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Reads bytes read and written out of what the kernel says of a block device, in sectors of 512 bytes.
fn moved(stat: &str) -> Option<(u64, u64)> {
    let sectors = |at: usize| stat.split_whitespace().nth(at)?.parse::<u64>().ok();
    Some((sectors(2)?.saturating_mul(512), sectors(6)?.saturating_mul(512)))
}

/// Makes directories that a replay has closed removable by their owner.
fn unlock(directory: &Path) {
    let _ = fs::set_permissions(directory, fs::Permissions::from_mode(0o700));
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            unlock(&entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_are_bound_once() {
        let paths = ["/srv/db/x", "/srv/db", "/srv/dbx", "/srv/db"].map(PathBuf::from);
        assert_eq!(outermost(&paths), [Path::new("/srv/db"), Path::new("/srv/dbx")]);
    }

    #[test]
    fn sectors_are_counted() {
        let stat = "  10 0 8 1 20 0 3 4 0 5 6\n";
        assert_eq!(moved(stat), Some((8 * 512, 3 * 512)));
        assert_eq!((moved("1 2 3"), moved("a b c d e f g")), (None, None));
    }
}
