//! The stage of a test run: the `reenact` binary and the built test programs, in a directory that
//! every user can read.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

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
        for part in ["bin", "places"] {
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
