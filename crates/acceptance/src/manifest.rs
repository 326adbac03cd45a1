//! The manifest of a trace as the independent reader prints it, and the same data from the disk.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use xxhash_rust::xxh3::xxh3_128;

use crate::shown::base64;
use crate::{Complaint, ensure, stage};

/// The files that changed, according to a trace.
#[derive(Debug, Default)]
pub struct Manifest {
    /// Changed files by path, described in one line each.
    pub files: BTreeMap<PathBuf, String>,
    /// Paths without content in the manifest, and the format's number for the reason.
    pub untold: BTreeMap<PathBuf, u64>,
    /// The format's number for the completeness of the list; `None` without a manifest.
    pub scope: Option<u64>,
    /// Number of changes in other roots and mount namespaces.
    pub left_out: u64,
}

/// Numbers of the format.
const ABSENT: u64 = 0;
const REGULAR: u64 = 1;
const DIRECTORY: u64 = 2;
const UNREACHABLE: u64 = 8;
const HASHED: u64 = 1;

impl Manifest {
    /// Reads the manifest with the reader that was written from the description of the format.
    pub fn of(trace: &Path) -> Result<Manifest, Complaint> {
        let script = stage::repository().join("tests/format/read_trace.py");
        let output = Command::new("python3")
            .arg(script)
            .arg(trace)
            .arg("--files")
            .output()
            .map_err(|error| format!("python3: {error}"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "read_trace.py: {}: {said}", output.status);
        let mut manifest = Manifest::default();
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let line: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
            if line["type"] == "manifest" {
                manifest.scope = line["scope"].as_u64();
                manifest.left_out = line["left_out"].as_u64().unwrap_or(0);
                continue;
            }
            manifest.add(&line).ok_or_else(|| format!("not understood: {line}"))?;
        }
        Ok(manifest)
    }

    fn add(&mut self, line: &Value) -> Option<()> {
        if line["type"] == "source" {
            return Some(());
        }
        let path = PathBuf::from(OsString::from_vec(base64(line["path"].as_str()?)?));
        let kind = line["kind"].as_u64()?;
        if kind == ABSENT {
            self.files.insert(path, "nothing".into());
            return Some(());
        }
        if kind == UNREACHABLE {
            self.files.insert(path, "out of reach".into());
            return Some(());
        }
        let number = |name: &str| line[name].as_u64();
        let held = match (kind, number("content")?) {
            (REGULAR, HASHED) => line["hash"].as_str()?.to_string(),
            (REGULAR, why) => {
                self.untold.insert(path.clone(), why);
                String::new()
            }
            _ => String::from_utf8_lossy(&base64(line["target"].as_str()?)?).into_owned(),
        };
        let numbers =
            [number("mode")?, number("uid")?, number("gid")?, number("nlink")?, number("size")?];
        self.files.insert(path, told(kind, numbers, &held));
        Some(())
    }
}

/// Describes a file in one line. Attributes of directories that cannot be compared are left out.
fn told(kind: u64, [mode, uid, gid, nlink, size]: [u64; 5], held: &str) -> String {
    let counts = match kind {
        DIRECTORY => String::new(),
        _ => format!(", {nlink} links, {size} bytes"),
    };
    format!("kind {kind}, mode {mode:o}, owner {uid}:{gid}{counts}, {held}")
}

/// Describes what is at a path in the same form.
pub fn look(path: &Path, with_content: bool) -> Result<String, Complaint> {
    let fail = |error: std::io::Error| format!("{}: {error}", path.display());
    let Ok(meta) = fs::symlink_metadata(path) else { return Ok("nothing".into()) };
    let held = if meta.is_symlink() {
        fs::read_link(path).map_err(fail)?.to_string_lossy().into_owned()
    } else if meta.is_file() && with_content {
        format!("{:032x}", sum(&fs::read(path).map_err(fail)?).swap_bytes())
    } else {
        String::new()
    };
    let mode = u64::from(meta.mode() & 0o7777);
    let numbers = [mode, meta.uid().into(), meta.gid().into(), meta.nlink(), meta.size()];
    Ok(told(kind(&meta), numbers, &held))
}

/// Computes the hash of a file's contents as the format describes it.
fn sum(content: &[u8]) -> u128 {
    const STRETCH: usize = 4 << 20;
    if content.len() <= STRETCH {
        return xxh3_128(content);
    }
    let hashes: Vec<u8> =
        content.chunks(STRETCH).flat_map(|stretch| xxh3_128(stretch).to_le_bytes()).collect();
    xxh3_128(&hashes)
}

fn kind(meta: &Metadata) -> u64 {
    let kind = meta.file_type();
    let kinds = [
        kind.is_file(),
        kind.is_dir(),
        kind.is_symlink(),
        kind.is_fifo(),
        kind.is_socket(),
        kind.is_char_device(),
        kind.is_block_device(),
    ];
    kinds.iter().zip(REGULAR..).find(|(is, _)| **is).map_or(ABSENT, |(_, kind)| kind)
}

/// Returns all paths below a directory.
pub fn below(dir: &Path) -> Result<Vec<PathBuf>, Complaint> {
    let mut all = Vec::new();
    let mut waiting = vec![dir.to_path_buf()];
    while let Some(dir) = waiting.pop() {
        let entries = fs::read_dir(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        for entry in entries {
            let path = entry.map_err(|error| error.to_string())?.path();
            if path.is_dir() && !path.is_symlink() {
                waiting.push(path.clone());
            }
            all.push(path);
        }
    }
    all.sort_by(|a, b| a.as_os_str().as_bytes().cmp(b.as_os_str().as_bytes()));
    Ok(all)
}
