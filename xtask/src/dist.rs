//! `cargo xtask dist`: what is given to others. A static binary, a Debian package of it with manual
//! pages and completions, the same binary with another C library, and a wheel of the Python package.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::{Complaint, cargo, repository, tools};

/// The binary that is packaged, as glibc, which becomes part of it, is the faster one.
const GLIBC: &str = "x86_64-unknown-linux-gnu";
/// The one beside it, where rustc and C have the library.
const MUSL: &str = "x86_64-unknown-linux-musl";
/// The C compiler for it: the binary contains zstd.
const MUSL_COMPILER: &str = "musl-gcc";
/// The binary may not have more bytes.
const BINARY_BYTES_MAX: u64 = 20 << 20;
/// Shells, and where Debian has completions of theirs.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/reenact"),
    ("zsh", "usr/share/zsh/vendor-completions/_reenact"),
    ("fish", "usr/share/fish/vendor_completions.d/reenact.fish"),
];
/// Documents that go with the package.
const DOCUMENTS: [&str; 3] = ["README.md", "CHANGELOG.md", "SECURITY.md"];

/// Builds all of it, or the part that is named, and says where it is.
pub fn run(args: &[&str]) -> Result<(), Complaint> {
    let target = repository().join("target/dist");
    let (part, rest) = match args {
        [part @ ("binary" | "wheel"), rest @ ..] => (Some(*part), rest),
        rest => (None, rest),
    };
    let out = match rest {
        [] => target.join("out"),
        ["--dir", dir] => std::path::absolute(dir).map_err(|error| fail(Path::new(dir), &error))?,
        _ => return Err("dist takes `binary` or `wheel`, and --dir DIR".into()),
    };
    fs::create_dir_all(&out).map_err(|error| fail(&out, &error))?;
    if part != Some("wheel") {
        binary(&target, &out)?;
    }
    if part != Some("binary") {
        wheel(&target, &out)?;
    }
    Ok(())
}

/// Builds the wheel, with maturin from PyPI in an environment of its own.
fn wheel(target: &Path, out: &Path) -> Result<(), Complaint> {
    tools::provide_python(&["maturin"]);
    let maturin = repository().join("target/python/bin/maturin");
    let made = tempfile::tempdir().map_err(|error| format!("no temporary directory: {error}"))?;
    let mut command = Command::new(&maturin);
    command.args(["build", "--release", "--locked", "--interpreter", "python3", "--out"]);
    command.arg(made.path()).arg("--target-dir").arg(target.join("python"));
    let status = command.current_dir(repository().join("python")).status();
    let status = status.map_err(|error| fail(&maturin, &error))?;
    if !status.success() {
        return Err(format!("{command:?}: {status}"));
    }
    for wheel in fs::read_dir(made.path()).map_err(|error| fail(made.path(), &error))? {
        let wheel = wheel.map_err(|error| fail(made.path(), &error))?;
        let to = out.join(wheel.file_name());
        let bytes = fs::read(wheel.path()).map_err(|error| fail(&wheel.path(), &error))?;
        place(&to, &bytes, 0o644)?;
        println!("{}", to.display());
    }
    Ok(())
}

/// Builds the binaries and a package of the first one.
fn binary(target: &Path, out: &Path) -> Result<(), Complaint> {
    let binary = static_binary(target, GLIBC, &out.join("reenact"))?;
    match missing_for_musl()? {
        None => _ = static_binary(target, MUSL, &out.join("reenact-musl"))?,
        Some(missing) => println!("no binary with musl: {missing}"),
    }
    if !tools::is_there("dpkg-deb") {
        println!("no Debian package: dpkg-deb is not there");
        return Ok(());
    }
    let package = debian_package(&binary, out)?;
    println!("{}", package.display());
    Ok(())
}

/// Builds a binary for a target and checks what comes out: that it is static, small, and records.
fn static_binary(target: &Path, triple: &str, binary: &Path) -> Result<PathBuf, Complaint> {
    let target_dir = target.to_string_lossy().into_owned();
    cargo(
        &["build", "--release", "--locked", "--package", "reenact", "--target", triple]
            .into_iter()
            .chain(["--target-dir", &target_dir])
            .collect::<Vec<_>>(),
        &[
            ("RUSTFLAGS", "-C target-feature=+crt-static"),
            ("CARGO_PROFILE_RELEASE_STRIP", "symbols"),
        ],
    )?;
    let built = target.join(triple).join("release/reenact");
    let bytes = fs::read(&built).map_err(|error| fail(&built, &error))?;
    if has_interpreter(&bytes) != Some(false) {
        return Err(format!("{}: it is not static", built.display()));
    }
    if bytes.len() as u64 > BINARY_BYTES_MAX {
        return Err(format!("{}: {} bytes are too many", built.display(), bytes.len()));
    }
    place(binary, &bytes, 0o755)?;
    records(binary)?;
    println!("{} ({} bytes)", binary.display(), bytes.len());
    Ok(binary.to_path_buf())
}

/// Fails unless a binary records a program whole.
fn records(binary: &Path) -> Result<(), Complaint> {
    let made = tempfile::tempdir().map_err(|error| format!("no temporary directory: {error}"))?;
    let trace = made.path().join("true.rnt");
    let trace = trace.to_string_lossy();
    output(binary, &["record", "--quiet", "--output", &trace, "--", "true"])?;
    output(binary, &["info", "--verify", &trace])?;
    Ok(())
}

/// Returns what a build with musl needs and is not there.
fn missing_for_musl() -> Result<Option<String>, Complaint> {
    let sysroot = output(Path::new("rustc"), &["--print", "sysroot"])?;
    let sysroot = PathBuf::from(String::from_utf8_lossy(&sysroot).trim());
    if !sysroot.join("lib/rustlib").join(MUSL).is_dir() {
        return Ok(Some(format!(
            "rustc has no {MUSL} here (`rustup target add {MUSL}` installs it)"
        )));
    }
    let has_compiler = tools::is_there(MUSL_COMPILER);
    Ok((!has_compiler).then(|| format!("{MUSL_COMPILER} is not there (Debian: musl-tools)")))
}

fn debian_package(binary: &Path, out: &Path) -> Result<PathBuf, Complaint> {
    let version = output(binary, &["--version"])?;
    let version = String::from_utf8_lossy(&version);
    let version = version.split_whitespace().nth(1).ok_or("the binary tells no version")?;
    let stage = tempfile::tempdir().map_err(|error| format!("no temporary directory: {error}"))?;
    let root = stage.path();
    fs::set_permissions(root, fs::Permissions::from_mode(0o755)).map_err(|e| fail(root, &e))?;
    let bytes = fs::read(binary).map_err(|error| fail(binary, &error))?;
    place(&root.join("usr/bin/reenact"), &bytes, 0o755)?;
    for (shell, path) in COMPLETIONS {
        place(&root.join(path), &output(binary, &["completions", shell])?, 0o644)?;
    }
    let pages = root.join("usr/share/man/man1");
    output(binary, &["man", "--dir", &pages.to_string_lossy()])?;
    for page in fs::read_dir(&pages).map_err(|error| fail(&pages, &error))? {
        let page = page.map_err(|error| fail(&pages, &error))?.path();
        output(Path::new("gzip"), &["-9n", &page.to_string_lossy()])?;
    }
    let documents = root.join("usr/share/doc/reenact");
    for (from, to) in
        DOCUMENTS.map(|name| (name, name)).into_iter().chain([("LICENSE", "copyright")])
    {
        let from = repository().join(from);
        let text = fs::read(&from).map_err(|error| fail(&from, &error))?;
        place(&documents.join(to), &text, 0o644)?;
    }
    let control = format!(
        "Package: reenact\nVersion: {version}\nArchitecture: amd64\nSection: devel\nPriority: optional\n\
         Maintainer: The authors of reenact <reenact@localhost>\nInstalled-Size: {}\n\
         Description: records the system calls of a program, shows and replays them\n \
         Records every system call of an unmodified program with its data, without privileges, shows and\n \
         counts them, and makes the same calls again somewhere else, verifying each result.\n",
        bytes.len().div_ceil(1024)
    );
    place(&root.join("DEBIAN/control"), control.as_bytes(), 0o644)?;
    let package = out.join(format!("reenact_{version}_amd64.deb"));
    let (root, to) = (root.to_string_lossy(), package.to_string_lossy());
    output(Path::new("dpkg-deb"), &["--root-owner-group", "--build", &root, &to])?;
    Ok(package)
}

fn fail(path: &Path, error: &std::io::Error) -> Complaint {
    format!("{}: {error}", path.display())
}

/// Writes a file, and the directories that lead to it.
fn place(path: &Path, content: &[u8], mode: u32) -> Result<(), Complaint> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(|error| fail(parent, &error))?;
    }
    // A binary that runs cannot be written to.
    let _ = fs::remove_file(path);
    fs::write(path, content).map_err(|error| fail(path, &error))?;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(|error| fail(path, &error))
}

/// Returns what a program prints.
fn output(program: &Path, args: &[&str]) -> Result<Vec<u8>, Complaint> {
    let mut command = Command::new(program);
    let output = command.args(args).stdin(Stdio::null()).output();
    let output = output.map_err(|error| fail(program, &error))?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr))),
    }
}

/// Whether a 64-bit ELF file names a program that loads it. `None` if it is no such file.
fn has_interpreter(file: &[u8]) -> Option<bool> {
    const PT_INTERP: u32 = 3;
    let number = |at: usize, len: usize| {
        let bytes = file.get(at..at.checked_add(len)?)?;
        Some(bytes.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
    };
    if file.get(..5)? != b"\x7fELF\x02" {
        return None;
    }
    let (table, size, count) = (number(32, 8)? as usize, number(54, 2)? as usize, number(56, 2)?);
    let mut kinds = (0..count as usize).map(|i| number(table.checked_add(i * size)?, 4));
    Some(kinds.any(|kind| kind == Some(PT_INTERP.into())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn static_files_name_no_interpreter() {
        let own = fs::read("/proc/self/exe").unwrap();
        assert_eq!(has_interpreter(&own), Some(true));
        let mut without = own.clone();
        let table = u64::from_le_bytes(own[32..40].try_into().unwrap()) as usize;
        without[table..].fill(0);
        assert_eq!(has_interpreter(&without), Some(false));
        assert_eq!(has_interpreter(b"#!/bin/sh"), None);
        assert_eq!(has_interpreter(b"\x7fELF\x02"), None);
    }
}
