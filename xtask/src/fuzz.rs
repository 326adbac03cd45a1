//! `cargo xtask fuzz`: runs the fuzz targets on the stable toolchain, from the kept corpus.
//!
//! New inputs are written to `target/fuzz/corpus`, from which the next run starts as well. `--keep`
//! packs a minimal set with the same coverage into `fuzz/corpus`, which is part of the repository.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Complaint, repository};

/// Flags of the compiler for the instrumentation that libFuzzer needs.
const COVERAGE: &str = "-Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Cdebug-assertions -Coverflow-checks --cfg fuzzing";
/// With an explicit target, these flags do not apply to build scripts.
const TARGET: &str = "x86_64-unknown-linux-gnu";
const MEMORY_MIB: u32 = 3072;
/// Larger inputs are not kept: they are found again from smaller ones.
const KEPT_BYTES_MAX: u64 = 4096;

/// Duration of each target in the soak.
pub const SOAK_SECONDS: u32 = 600;

pub fn run(args: &[&str]) -> Result<(), Complaint> {
    let mut seconds = 60;
    let (mut keep, mut wanted) = (false, Vec::new());
    let mut words = args.iter();
    while let Some(&word) = words.next() {
        match word {
            "--seconds" => {
                let value = words.next().and_then(|value| value.parse().ok());
                seconds = value.ok_or("--seconds needs a number")?;
            }
            "--keep" => keep = true,
            name => wanted.push(name),
        }
    }
    let all = targets()?;
    if let Some(unknown) = wanted.iter().find(|name| !all.iter().any(|target| target == *name)) {
        return Err(format!("no fuzz target {unknown}; there are {}", all.join(", ")));
    }
    let chosen = all.iter().filter(|name| wanted.is_empty() || wanted.contains(&name.as_str()));
    let built = build()?;
    for name in chosen {
        eprintln!("xtask: fuzzing {name} for {seconds} s");
        fuzz(&built.join(name), name, seconds)?;
        if keep {
            merge(&built.join(name), name)?;
        }
    }
    Ok(())
}

/// Returns the names of the targets: the files in their folder.
fn targets() -> Result<Vec<String>, Complaint> {
    let folder = repository().join("fuzz/fuzz_targets");
    let entries =
        fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|entry| Some(entry.path().file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    Ok(names)
}

/// Builds the targets and returns their directory.
fn build() -> Result<PathBuf, Complaint> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "--release", "--target", TARGET]).current_dir(repository().join("fuzz"));
    command.env("RUSTFLAGS", COVERAGE);
    let status = command.status().map_err(|error| format!("cannot run cargo: {error}"))?;
    if !status.success() {
        return Err(format!("the fuzz targets do not build: {status}"));
    }
    Ok(repository().join("fuzz/target").join(TARGET).join("release"))
}

fn fuzz(program: &Path, name: &str, seconds: u32) -> Result<(), Complaint> {
    let found = found_at(name)?;
    unpack(name, &found)?;
    let artifacts = repository().join("target/fuzz");
    let mut command = Command::new(program);
    command.arg(format!("-max_total_time={seconds}"));
    command.arg(format!("-rss_limit_mb={MEMORY_MIB}"));
    command.args(["-timeout=120", "-print_final_stats=1", "-verbosity=0", "-len_control=0"]);
    command.arg(format!("-artifact_prefix={}/{name}-", artifacts.display()));
    command.arg(found).arg(repository().join("crates/trace/tests/old"));
    let status = command.status().map_err(|error| format!("{name}: {error}"))?;
    if status.success() {
        return Ok(());
    }
    Err(format!("{name}: {status}; the input is in {}", artifacts.display()))
}

/// Packs a minimal set of inputs with the coverage of all inputs found.
fn merge(program: &Path, name: &str) -> Result<(), Complaint> {
    let found = found_at(name)?;
    for entry in fs::read_dir(&found).map_err(|error| error.to_string())?.flatten() {
        if entry.metadata().is_ok_and(|meta| meta.len() > KEPT_BYTES_MAX) {
            fs::remove_file(entry.path()).map_err(|error| error.to_string())?;
        }
    }
    let merged = found.with_extension("merged");
    let _ = fs::remove_dir_all(&merged);
    fs::create_dir_all(&merged).map_err(|error| format!("{}: {error}", merged.display()))?;
    let mut command = Command::new(program);
    succeeds(command.args(["-merge=1", "-verbosity=0"]).arg(&merged).arg(&found))?;
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--mtime=@0", "--owner=0", "--group=0", "-czf"]).arg(packed_at(name));
    succeeds(tar.arg("-C").arg(&merged).arg("."))
}

/// Unpacks the kept inputs next to those found here.
fn unpack(name: &str, to: &Path) -> Result<(), Complaint> {
    let packed = packed_at(name);
    if !packed.exists() {
        return Ok(());
    }
    succeeds(Command::new("tar").arg("-xzf").arg(packed).arg("-C").arg(to))
}

fn succeeds(command: &mut Command) -> Result<(), Complaint> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?}: {status}")),
        Err(error) => Err(format!("{command:?}: {error}")),
    }
}

fn found_at(name: &str) -> Result<PathBuf, Complaint> {
    let folder = repository().join("target/fuzz/corpus").join(name);
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}

fn packed_at(name: &str) -> PathBuf {
    repository().join("fuzz/corpus").join(name).with_extension("tar.gz")
}
