//! The test programs: the sources in a folder, with their settings in comments at the top.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use xxhash_rust::xxh3::xxh3_64;

use crate::stage::{self, Stage};
use crate::{Complaint, tier};

/// Something that a program needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Need {
    /// Running as root.
    Root,
    /// Running as an ordinary user.
    User,
    /// New user namespaces.
    UserNamespaces,
    /// User extended attributes on the file system of its place.
    Xattrs,
    /// The Go compiler.
    Go,
}

impl Need {
    /// Parses the word used in programs.
    pub fn named(word: &str) -> Option<Need> {
        Some(match word {
            "root" => Need::Root,
            "user" => Need::User,
            "userns" => Need::UserNamespaces,
            "xattr" => Need::Xattrs,
            "go" => Need::Go,
            _ => return None,
        })
    }
}

/// A test program.
#[derive(Clone, Debug)]
pub struct Program {
    /// File name without extension.
    pub name: String,
    /// Path of the source file.
    pub source: PathBuf,
    /// Additional compiler flags.
    pub flags: Vec<String>,
    /// Requirements.
    pub needs: Vec<Need>,
    /// Arguments after the seed.
    pub args: Vec<String>,
    /// The word for what is to be done before a recording, so that files are there; `change` is
    /// then the word for the rest.
    pub before: Option<String>,
    /// Gaps allowed in its trace.
    pub gaps: Vec<String>,
    /// True if every run makes the same calls.
    pub countable: bool,
}

impl Program {
    /// Parses the settings in a source file.
    pub fn parse(source: &Path, text: &str) -> Result<Program, Complaint> {
        let name = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mut program = Program {
            name,
            source: source.to_path_buf(),
            flags: Vec::new(),
            needs: Vec::new(),
            args: Vec::new(),
            before: None,
            gaps: Vec::new(),
            countable: true,
        };
        let head = text.lines().map_while(|line| line.strip_prefix("//"));
        for line in head {
            let Some((key, value)) = line.split_once(':') else { continue };
            let words = || value.split_whitespace().map(str::to_string);
            match key.trim() {
                "flags" => program.flags.extend(words()),
                "run" => program.args.extend(words()),
                "before" => program.before = words().next(),
                "gaps" => program.gaps.extend(words()),
                "count" if value.trim() == "off" => program.countable = false,
                "needs" => {
                    for word in words() {
                        let unknown = || format!("{}: unknown need '{word}'", source.display());
                        program.needs.push(Need::named(&word).ok_or_else(unknown)?);
                    }
                }
                _ => {}
            }
        }
        Ok(program)
    }

    /// Puts the program on the stage, compiled once for all suites.
    pub fn build(&self, stage: &Stage) -> Result<PathBuf, Complaint> {
        let kept = kept_programs()?.join(format!("{}-{:016x}", self.name, self.fingerprint()?));
        // Another trial may want it at the same time: what it runs must stay the file that it is.
        let _alone = locked(&kept.with_extension("lock"))?;
        let target = stage.bin().join(&self.name);
        if target.exists() {
            return Ok(target);
        }
        if !kept.exists() {
            self.compile(&kept)?;
        }
        // By another process: what we had open for writing could be inherited by a program that
        // another thread starts, and then could not be started itself.
        let made = room_for(&self.name, &stage.bin())?;
        let copy = made.path().join(&self.name);
        run(Command::new("cp").arg("--reflink=auto").arg(&kept).arg(&copy))?;
        stage::open_to_all(&copy)?;
        fs::rename(&copy, &target).map_err(|error| format!("{}: {error}", target.display()))?;
        Ok(target)
    }

    /// What decides how the program comes out: its source, the headers beside it and in
    /// `tests/programs`, and the flags.
    fn fingerprint(&self) -> Result<u64, Complaint> {
        let mut all = self.all_flags().join("\0").into_bytes();
        let folder = self.source.parent().unwrap_or(Path::new("."));
        let mut parts = vec![self.source.clone()];
        for folder in [folder, &stage::repository().join("tests/programs")] {
            let entries = fs::read_dir(folder);
            let entries = entries.map_err(|error| format!("{}: {error}", folder.display()))?;
            let paths = entries.flatten().map(|entry| entry.path());
            parts.extend(paths.filter(|path| path.extension().is_some_and(|e| e == "h")));
        }
        parts.sort();
        for path in parts {
            let text = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            all.extend_from_slice(&xxh3_64(&text).to_le_bytes());
        }
        Ok(xxh3_64(&all))
    }

    /// Its own flags, and the tier's.
    fn all_flags(&self) -> Vec<&str> {
        let tier = tier::is_long().then_some("-DLONG_TIER");
        self.flags.iter().map(String::as_str).chain(tier).collect()
    }

    fn compile(&self, target: &Path) -> Result<(), Complaint> {
        let made = room_for(&self.name, target.parent().unwrap_or(Path::new(".")))?;
        let binary = made.path().join(&self.name);
        let compiled = if self.source.extension().is_some_and(|e| e == "go") {
            let mut go = Command::new("go");
            go.args(["build", "-o"]).arg(&binary).arg(&self.source);
            run(go.env("GOCACHE", kept_programs()?.join("go-cache")).env("GOFLAGS", "-mod=mod"))
        } else {
            let mut cc = Command::new("cc");
            cc.args(["-std=gnu17", "-O2", "-g", "-Wall", "-Wextra", "-o"]);
            run(cc.arg(&binary).arg(&self.source).args(self.all_flags()))
        };
        compiled.map_err(|said| format!("{} does not compile:\n{said}", self.source.display()))?;
        fs::rename(&binary, target).map_err(|error| format!("{}: {error}", target.display()))
    }
}

/// The directory of compiled programs, beside what cargo compiles.
fn kept_programs() -> Result<PathBuf, Complaint> {
    let this = std::env::current_exe().map_err(|error| format!("who am I: {error}"))?;
    let profile = this.ancestors().nth(2).ok_or("this test lies in no directory of cargo")?;
    let folder = profile.join("test-programs");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}

/// Holds back whoever else wants to make the same, in this suite and in others.
fn locked(path: &Path) -> Result<File, Complaint> {
    let text = |error: std::io::Error| format!("{}: {error}", path.display());
    let file = File::create(path).map_err(text)?;
    // SAFETY: the descriptor is open, and nothing else is touched.
    match unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) } {
        0 => Ok(file),
        _ => Err(text(std::io::Error::last_os_error())),
    }
}

/// A directory in which something is made before it gets its name.
fn room_for(name: &str, folder: &Path) -> Result<TempDir, Complaint> {
    let made = tempfile::Builder::new().prefix(&format!(".{name}-")).tempdir_in(folder);
    made.map_err(|error| format!("no room to build in: {error}"))
}

fn run(command: &mut Command) -> Result<(), Complaint> {
    let output = command.output().map_err(|error| format!("cannot run {command:?}: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// Returns all programs in `tests/programs`, sorted by name.
pub fn all() -> Result<Vec<Program>, Complaint> {
    in_folder("tests/programs")
}

/// Returns all programs in a folder of the repository, sorted by name.
pub fn in_folder(folder: &str) -> Result<Vec<Program>, Complaint> {
    let folder = stage::repository().join(folder);
    let entries =
        fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut programs = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| error.to_string())?.path();
        if path.extension().is_some_and(|e| e == "c" || e == "go") {
            let text = fs::read_to_string(&path)
                .map_err(|error| format!("{}: {error}", path.display()))?;
            programs.push(Program::parse(&path, &text)?);
        }
    }
    if programs.is_empty() {
        return Err(format!("{}: no program found", folder.display()));
    }
    programs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(programs)
}

/// Returns the program of that name in `tests/programs`.
pub fn named(name: &str) -> Result<Program, Complaint> {
    named_in("tests/programs", name)
}

/// Returns the program of that name in a folder of the repository.
pub fn named_in(folder: &str, name: &str) -> Result<Program, Complaint> {
    let found = in_folder(folder)?.into_iter().find(|program| program.name == name);
    found.ok_or_else(|| format!("{folder} has no {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_of_a_file_tells_what_is_special() {
        let text = "// A program.\n// flags: -static -O1\n// needs: root xattr\n// count: off\n\
                    // run: a b\n// before: first\nint x; // flags: -none\n";
        let program = Program::parse(Path::new("/x/name.c"), text).unwrap();
        assert_eq!(program.name, "name");
        assert_eq!(program.flags, ["-static", "-O1"]);
        assert_eq!(program.needs, [Need::Root, Need::Xattrs]);
        assert_eq!(program.args, ["a", "b"]);
        assert!(!program.countable);
        assert_eq!(program.before.as_deref(), Some("first"));
        assert!(Program::parse(Path::new("x.c"), "// needs: luck\n").is_err());
    }
}
