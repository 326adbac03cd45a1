//! The stage of a test run: the `reenact` binary and the built test programs, in a directory that
//! every user can read.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::{NamedTempFile, TempDir};

use crate::Complaint;

/// The programs that trials run, and a directory for their places.
pub struct Stage {
    root: TempDir,
    /// The binary under test.
    pub reenact: PathBuf,
}

impl Stage {
    /// Builds `reenact` (or uses the one named by `REENACT_BIN`) and copies it to the stage.
    pub fn new() -> Result<Stage, Complaint> {
        let built = match std::env::var_os("REENACT_BIN") {
            Some(path) => PathBuf::from(path),
            None => build_reenact()?,
        };
        let root = tempfile::Builder::new()
            .prefix("reenact-acceptance-")
            .tempdir()
            .map_err(|error| format!("cannot make a temporary directory: {error}"))?;
        open_to_all(root.path())?;
        for part in ["bin", "places", "read"] {
            let path = root.path().join(part);
            fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            open_to_all(&path)?;
        }
        let reenact = root.path().join("bin/reenact");
        fs::copy(&built, &reenact)
            .map_err(|error| format!("cannot copy {}: {error}", built.display()))?;
        open_to_all(&reenact)?;
        Ok(Stage { root, reenact })
    }

    /// Returns the directory of built test programs.
    pub fn bin(&self) -> PathBuf {
        self.root.path().join("bin")
    }

    /// Returns a copy of a file of the repository that every user can read: the repository may lie in somebody's
    /// home.
    pub fn readable(&self, part: &str) -> Result<PathBuf, Complaint> {
        let told = |error: std::io::Error| format!("a copy of {part}: {error}");
        let mut folder = self.root.path().join("read");
        let (folders, name) = part.rsplit_once('/').unwrap_or(("", part));
        for one in folders.split('/').filter(|one| !one.is_empty()) {
            folder.push(one);
            match fs::create_dir(&folder) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(told(error)),
                _ => open_to_all(&folder)?,
            }
        }
        let copy = folder.join(name);
        if !copy.exists() {
            // Trials run beside each other.
            let made = NamedTempFile::new_in(&folder).map_err(told)?;
            fs::copy(repository().join(part), made.path()).map_err(told)?;
            open_to_all(made.path())?;
            made.persist(&copy).map_err(|error| told(error.error))?;
        }
        Ok(copy)
    }

    /// Returns the directory of the trials' places.
    pub fn places(&self) -> PathBuf {
        self.root.path().join("places")
    }
}

/// Makes a file readable and executable for every user.
pub fn open_to_all(path: &Path) -> Result<(), Complaint> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
        .map_err(|error| format!("{}: {error}", path.display()))
}

/// Returns the root of the repository.
pub fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Builds the release binary and returns its path.
pub fn build_reenact() -> Result<PathBuf, Complaint> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["build", "--release", "--package", "reenact", "--message-format=json"])
        .current_dir(repository())
        .stderr(std::process::Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot run cargo: {error}"))?;
    if !output.status.success() {
        return Err("reenact cannot be built".into());
    }
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["target"]["name"] == "reenact")
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .ok_or_else(|| "cargo built reenact but named no executable".into())
}
