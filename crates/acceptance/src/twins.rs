//! Compares two directories with tools that are independent of `reenact`.

use std::path::Path;
use std::process::Command;

use crate::{Complaint, ensure};

/// Formats of `find`. Size and link count of a directory depend on its file system.
const DIRECTORY: &str = "%P %y %m %U:%G\\n";
const OTHER: &str = "%P %y %m %U:%G %s bytes, %n links, to %l\\n";

/// Most lines of a complaint.
const LINES_MAX: usize = 40;

/// Fails unless both directories have the same contents.
pub fn must_be_twins(expected: &Path, found: &Path) -> Result<(), Complaint> {
    let (a, b) = (listing(expected)?, listing(found)?);
    let missing: Vec<String> = lacks(&a, &b, "-").chain(lacks(&b, &a, "+")).collect();
    ensure!(
        missing.is_empty(),
        "recorded (-) and replayed (+) files differ:\n{}",
        missing[..missing.len().min(LINES_MAX)].join("\n")
    );
    let mut diff = Command::new("diff");
    diff.args(["--recursive", "--no-dereference", "--brief"]).arg(expected).arg(found);
    let output = diff.output().map_err(|error| format!("diff: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    // diff cannot compare named pipes and sockets, and complains about them.
    let complaints: Vec<&str> = said
        .lines()
        .chain(errors.lines())
        .filter(|line| !(line.ends_with(" is a fifo") || line.ends_with(" is a socket")))
        .filter(|line| !line.contains(" is a fifo while file "))
        .filter(|line| !line.contains(" is a socket while file "))
        .collect();
    ensure!(complaints.is_empty(), "contents differ:\n{}", complaints.join("\n"));
    ensure!(output.status.code().is_some_and(|code| code < 2), "diff: {}", output.status);
    Ok(())
}

fn lacks<'a>(
    all: &'a [String],
    other: &'a [String],
    sign: &'a str,
) -> impl Iterator<Item = String> + 'a {
    let missing = all.iter().filter(|line| other.binary_search(line).is_err());
    missing.map(move |line| format!("{sign} {line}"))
}

/// Lists the files below a directory, sorted.
fn listing(dir: &Path) -> Result<Vec<String>, Complaint> {
    let mut find = Command::new("find");
    // The top directory existed before the recording, which may not have its attributes.
    find.current_dir(dir).args([".", "-mindepth", "1"]);
    find.args(["-type", "d", "-printf", DIRECTORY, "-o", "-printf", OTHER]);
    let output = find.output().map_err(|error| format!("find: {error}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "find in {}: {errors}", dir.display());
    let mut lines: Vec<String> =
        String::from_utf8_lossy(&output.stdout).lines().map(str::to_string).collect();
    lines.sort_unstable();
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn fill(dir: &Path) {
        fs::create_dir(dir.join("sub")).unwrap();
        fs::write(dir.join("sub/file"), b"content").unwrap();
        fs::hard_link(dir.join("sub/file"), dir.join("hard")).unwrap();
        symlink("sub/file", dir.join("soft")).unwrap();
        let fifo = Command::new("mkfifo").arg(dir.join("fifo")).status();
        assert!(fifo.is_ok_and(|status| status.success()));
    }

    #[test]
    fn every_difference_is_found() {
        let changes: [fn(&Path); 6] = [
            |dir| fs::write(dir.join("sub/file"), b"CONTENT").unwrap(),
            |dir| fs::set_permissions(dir.join("sub"), Permissions::from_mode(0o700)).unwrap(),
            |dir| {
                fs::remove_file(dir.join("hard")).unwrap();
                fs::write(dir.join("hard"), b"content").unwrap();
            },
            |dir| {
                fs::remove_file(dir.join("soft")).unwrap();
                symlink("./sub/file", dir.join("soft")).unwrap();
            },
            |dir| fs::create_dir(dir.join("more")).unwrap(),
            |dir| fs::remove_file(dir.join("fifo")).unwrap(),
        ];
        for change in changes {
            let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            for dir in [&a, &b] {
                fill(dir.path());
            }
            must_be_twins(a.path(), b.path()).expect("they are the same");
            change(b.path());
            must_be_twins(a.path(), b.path()).expect_err("they are not");
        }
    }
}
