//! A root file system with nothing but Debian's minimum and some packages, to install things in.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::stage::{open_to_all, repository};
use crate::{Complaint, ensure};

/// What making one needs, beside root and a mirror of Debian.
pub const TOOLS: [&str; 4] = ["debootstrap", "apt-get", "unshare", "chroot"];

/// A fresh root, which goes away when it is dropped.
pub struct CleanRoot {
    dir: TempDir,
    /// Directories and files of this machine that are seen in it: from where, and its path there.
    shown: Vec<(PathBuf, String)>,
}

impl CleanRoot {
    /// Makes one with these packages of Debian. What debootstrap gives is kept under `target` for the next time.
    pub fn new(packages: &[&str]) -> Result<CleanRoot, Complaint> {
        let seed = repository().join("target/roots").join(packages.join("+"));
        if !seed.join("made").exists() {
            make(&seed, packages)?;
        }
        let fail = |error: std::io::Error| error.to_string();
        let dir = tempfile::Builder::new().prefix("reenact-root-").tempdir().map_err(fail)?;
        open_to_all(dir.path())?;
        succeed(Command::new("cp").arg("-a").arg(seed.join("root/.")).arg(dir.path()))?;
        Ok(CleanRoot { dir, shown: Vec::new() })
    }

    /// Returns the path of a file in it, as this machine sees it.
    pub fn path(&self, inside: &str) -> PathBuf {
        self.dir.path().join(inside.trim_start_matches('/'))
    }

    /// Shows a directory or file of this machine in it.
    pub fn show(&mut self, from: &Path, to: &str) -> Result<(), Complaint> {
        let place = self.path(to);
        let fail = |error: std::io::Error| format!("{}: {error}", place.display());
        if from.is_dir() {
            fs::create_dir_all(&place).map_err(fail)?;
        } else {
            let parent = place.parent().unwrap_or(self.dir.path());
            fs::create_dir_all(parent).map_err(fail)?;
            fs::write(&place, "").map_err(fail)?;
        }
        self.shown.push((from.to_path_buf(), to.into()));
        Ok(())
    }

    /// Runs lines of a shell in it, with nothing of this environment. Each must succeed; returns what they say.
    pub fn run(&self, script: &str) -> Result<String, Complaint> {
        const ENTER: &str = "root=$1; script=$2; shift 2
            mount -t proc proc \"$root/proc\"; mount --rbind /dev \"$root/dev\"
            while [ $# -gt 0 ]; do mount --rbind \"$1\" \"$root$2\"; shift 2; done
            exec env -i HOME=/root TERM=dumb LC_ALL=C.UTF-8 PATH=/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin \
                chroot \"$root\" bash -euc \"cd; $script\"";
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-ec", ENTER, "enter"]);
        command.arg(self.dir.path()).arg(script);
        for (from, to) in &self.shown {
            command.arg(from).arg(to);
        }
        succeed(&mut command).map_err(|error| format!("{script}\n{error}"))
    }
}

fn make(seed: &Path, packages: &[&str]) -> Result<(), Complaint> {
    let sites = ["indextargets", "--format", "$(SITE)", "Created-By: Packages"];
    let sites = succeed(Command::new("apt-get").args(sites))?;
    let mirror = sites.lines().next().ok_or("apt-get knows no mirror")?;
    let release = fs::read_to_string("/etc/os-release").map_err(|error| error.to_string())?;
    let suite = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    let suite = suite.ok_or("/etc/os-release has no VERSION_CODENAME")?;
    let root = seed.join("root");
    let _ = fs::remove_dir_all(seed);
    fs::create_dir_all(&root).map_err(|error| format!("{}: {error}", root.display()))?;
    let mut debootstrap = Command::new("debootstrap");
    debootstrap.arg("--variant=minbase").arg(format!("--include={}", packages.join(",")));
    succeed(debootstrap.arg(suite).arg(&root).arg(mirror))?;
    fs::write(seed.join("made"), "").map_err(|error| error.to_string())
}

/// Runs a command that must succeed. Returns all that it says.
pub fn succeed(command: &mut Command) -> Result<String, Complaint> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{command:?}: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}: {said}", output.status);
    Ok(said.into_owned())
}
