//! The output directory, shared by several runs: `TABLE/run=RUN/part-N.parquet`.

use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use tables::{CALL, Kind};

use crate::error::Error;

/// Tables that every run has; those of single calls are below [`CALL`].
pub const TABLES: [&str; 5] = ["calls", "processes", "files", "data", "events"];

/// Returns true for a valid run name: letters, digits, `.`, `_` and `-`, no leading dot.
pub fn is_run_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    !name.is_empty() && name.len() <= 200 && !name.starts_with('.') && name.chars().all(plain)
}

/// Derives a run name from the name of a trace's file.
pub fn run_name(trace: &Path) -> String {
    let stem = trace.file_stem().unwrap_or_default().to_string_lossy();
    let plain = |c: char| if is_run_name(&format!("a{c}")) { c } else { '_' };
    let name: String = stem.chars().map(plain).take(200).collect();
    let name = name.trim_start_matches('.');
    if is_run_name(name) && name != "-" { name.into() } else { "run".into() }
}

/// The directories of one run.
pub struct RunPlace {
    root: PathBuf,
    run: String,
    made: Vec<PathBuf>,
}

impl RunPlace {
    /// Creates the output directory, or uses an existing one. Tables of the same run are removed if
    /// `force` is set, else refused.
    pub fn new(root: &Path, run: &str, force: bool) -> Result<RunPlace, Error> {
        match DirBuilder::new().mode(0o700).create(root) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => check(root)?,
            made => made.map_err(Error::io(root))?,
        }
        let found = runs(root, run)?;
        if !found.is_empty() && !force {
            return Err(Error::Exists { root: root.into(), run: run.into() });
        }
        found.iter().try_for_each(|place| clear(place))?;
        Ok(RunPlace { root: root.into(), run: run.into(), made: Vec::new() })
    }

    /// Creates the directory of a table.
    pub fn table(&mut self, table: &str) -> Result<PathBuf, Error> {
        let table = self.root.join(table);
        DirBuilder::new().mode(0o700).recursive(true).create(&table).map_err(Error::io(&table))?;
        let place = table.join(format!("run={}", self.run));
        DirBuilder::new().mode(0o700).create(&place).map_err(Error::io(&place))?;
        self.made.push(place.clone());
        Ok(place)
    }

    /// Keeps the directories when dropped.
    pub fn keep(mut self) {
        self.made.clear();
    }
}

impl Drop for RunPlace {
    fn drop(&mut self) {
        // Remove an incomplete run, so that it is not taken for a complete one.
        for place in &self.made {
            let _ = clear(place);
        }
    }
}

/// Checks that a directory is empty or contains tables.
fn check(root: &Path) -> Result<(), Error> {
    let refuse = |what| Err(Error::Place { path: root.into(), what });
    if !fs::metadata(root).map_err(Error::io(root))?.is_dir() {
        return refuse("is no directory; Parquet tables are a directory of files");
    }
    let any = fs::read_dir(root).map_err(Error::io(root))?.next().is_some();
    if any && !root.join(TABLES[0]).is_dir() {
        return refuse("holds something else than tables; give another name with --output");
    }
    Ok(())
}

/// Returns the existing directories of a run.
fn runs(root: &Path, run: &str) -> Result<Vec<PathBuf>, Error> {
    let mut tables = Kind::FIXED.map(|table| root.join(table.name())).to_vec();
    let calls = root.join(CALL);
    match fs::read_dir(&calls) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(Error::io(&calls)(error)),
        Ok(entries) => {
            for entry in entries {
                tables.push(entry.map_err(Error::io(&calls))?.path());
            }
        }
    }
    let places = tables.into_iter().map(|table| table.join(format!("run={run}")));
    Ok(places.filter(|place| place.symlink_metadata().is_ok()).collect())
}

/// Removes the Parquet files of a run. Other files remain and cause an error.
fn clear(place: &Path) -> Result<(), Error> {
    // Do not follow a link.
    if place.is_symlink() {
        return fs::remove_file(place).map_err(Error::io(place));
    }
    for entry in fs::read_dir(place).map_err(Error::io(place))? {
        let path = entry.map_err(Error::io(place))?.path();
        if path.extension().is_some_and(|extension| extension == "parquet") {
            fs::remove_file(&path).map_err(Error::io(&path))?;
        }
    }
    fs::remove_dir(place).map_err(Error::io(place))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn names_of_runs() {
        let name = |trace: &str| run_name(Path::new(trace));
        assert_eq!(name("/a/sqlite3.rnt"), "sqlite3");
        assert_eq!(name("my run=2;.rnt"), "my_run_2_");
        for odd in ["-", "", "..", "/"] {
            assert_eq!(name(odd), "run", "{odd:?}");
        }
        for bad in ["", ".", "..", "a/b", "a=b", "a b", "\u{e9}"] {
            assert!(!is_run_name(bad), "{bad:?}");
        }
    }

    #[test]
    fn runs_stand_side_by_side_and_are_not_written_over() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("out");
        let write = |run: &str, force| -> Result<(), Error> {
            let mut place = RunPlace::new(&root, run, force)?;
            for table in ["calls", "call/read", "states"] {
                fs::write(place.table(table)?.join("part-0.parquet"), run).unwrap();
            }
            place.keep();
            Ok(())
        };
        write("a", false).unwrap();
        write("b", false).unwrap();
        assert!(matches!(write("a", false), Err(Error::Exists { .. })));
        write("a", true).unwrap();
        for path in ["calls/run=a/part-0.parquet", "call/read/run=b/part-0.parquet"] {
            assert!(root.join(path).exists(), "{path}");
        }
        for path in ["", "calls", "call/read/run=a"] {
            let mode = fs::metadata(root.join(path)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o700, "{path}");
        }
        // Files of others are not removed.
        fs::write(root.join("calls/run=a/notes"), "x").unwrap();
        assert!(write("a", true).is_err());
        assert!(root.join("calls/run=a/notes").exists());
    }

    #[test]
    fn half_a_run_is_taken_away() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("out");
        let mut place = RunPlace::new(&root, "a", false).unwrap();
        fs::write(place.table("calls").unwrap().join("part-0.parquet"), "x").unwrap();
        drop(place);
        assert!(!root.join("calls/run=a").exists());
        RunPlace::new(&root, "a", false).unwrap();
    }

    #[test]
    fn other_directories_and_files_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("file"), "x").unwrap();
        for path in [dir.path().to_path_buf(), dir.path().join("file")] {
            let refused = RunPlace::new(&path, "a", true);
            assert!(matches!(refused, Err(Error::Place { .. })), "{}", path.display());
        }
    }
}
