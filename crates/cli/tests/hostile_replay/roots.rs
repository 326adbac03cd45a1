//! Directories named by the user that need special care.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::script::{POINTER, Script};
use crate::world::World;

/// A use of the command: its name, and a function that runs it.
pub type Use = (&'static str, fn(&World, &Path) -> Result<(), String>);

pub const USES: &[Use] = &[
    ("an_image_around_its_own_root", an_image_around_its_own_root),
    ("an_image_that_is_bound_into_its_root", an_image_that_is_bound_into_its_root),
    ("an_image_that_is_the_root", an_image_that_is_the_root),
    ("an_image_larger_than_allowed", an_image_larger_than_allowed),
    ("links_to_the_whole_system", links_to_the_whole_system),
    ("emptied_between_replays", emptied_between_replays),
];

/// Writes a trace that makes one directory.
fn harmless(world: &World) {
    let mut script = Script::new(&world.trace);
    script.path(libc::SYS_mkdir, &[POINTER, 0o755], 0, "/made", 0);
    script.finish();
}

fn replay(world: &World, reenact: &Path, args: &[&str]) -> Result<Output, String> {
    let mut command = Command::new("timeout");
    command.args(["-k", "5", "100"]).arg(reenact).arg("replay").arg(&world.trace).args(args);
    command.stdin(Stdio::null()).output().map_err(|error| error.to_string())
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn check(holds: bool, what: &str, output: &Output) -> Result<(), String> {
    let said = String::from_utf8_lossy(&output.stderr);
    if holds { Ok(()) } else { Err(format!("{what}: {}: {said}", output.status)) }
}

/// The root of the replay is inside the image, and also reached by a link.
fn an_image_around_its_own_root(world: &World, reenact: &Path) -> Result<(), String> {
    harmless(world);
    let around = world.outside.join("around");
    let root = around.join("below/root");
    std::fs::create_dir_all(&root).unwrap();
    std::fs::write(around.join("below/file"), "content").unwrap();
    symlink("below/root", around.join("link")).unwrap();
    let link = world.outside.join("link");
    symlink(&around, &link).unwrap();
    for (image, to) in [(&around, &root), (&link, &root), (&link, &around.join("link"))] {
        let args = ["--image", text(image), "--root", text(to), "--overwrite"];
        let output = replay(world, reenact, &args)?;
        check(output.status.success(), "it is no failure", &output)?;
        let copied = root.join("below/file").exists() && root.join("made").is_dir();
        check(copied, "the rest is copied", &output)?;
        check(!root.join("below/root").exists(), "the root holds itself", &output)?;
        for entry in std::fs::read_dir(&root).unwrap() {
            let path = entry.unwrap().path();
            let is_dir = path.symlink_metadata().unwrap().is_dir();
            let gone =
                if is_dir { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
            gone.unwrap();
        }
    }
    Ok(())
}

/// A directory bound into the root is also inside the image.
fn an_image_that_is_bound_into_its_root(world: &World, reenact: &Path) -> Result<(), String> {
    harmless(world);
    let around = world.outside.join("around");
    let bound = around.join("bound");
    std::fs::create_dir_all(bound.join("deep")).unwrap();
    std::fs::write(bound.join("deep/file"), "content").unwrap();
    let bind = format!("{}=/bound/deep/again", text(&bound));
    let args = ["--image", text(&around), "--root", text(&world.root), "--bind", &bind];
    let output = replay(world, reenact, &args)?;
    check(output.status.code().is_none_or(|code| code < 124), "it does not end", &output)?;
    let grown = bound.join("deep/again").exists() || bound.join("bound").exists();
    check(!grown, "it was copied into itself", &output)
}

fn an_image_that_is_the_root(world: &World, reenact: &Path) -> Result<(), String> {
    harmless(world);
    std::fs::write(world.root.join("file"), "content").unwrap();
    let root = text(&world.root);
    let output = replay(world, reenact, &["--image", root, "--root", root, "--overwrite"])?;
    check(output.status.code() == Some(1), "it is refused", &output)?;
    let said = String::from_utf8_lossy(&output.stderr).contains("the root of the replay itself");
    check(said, "it says why", &output)
}

fn an_image_larger_than_allowed(world: &World, reenact: &Path) -> Result<(), String> {
    harmless(world);
    for name in 0..16 {
        std::fs::write(world.outside.join(format!("{name}")), vec![1; 1 << 20]).unwrap();
    }
    let (image, root) = (text(&world.outside), text(&world.root));
    let args = ["--image", image, "--root", root, "--max-size", "2M"];
    let output = replay(world, reenact, &args)?;
    check(output.status.code() == Some(1), "it is refused", &output)?;
    let said = String::from_utf8_lossy(&output.stderr).contains("--max-size");
    check(said, "it says why", &output)
}

fn links_to_the_whole_system(world: &World, reenact: &Path) -> Result<(), String> {
    harmless(world);
    let link = world.outside.join("all");
    symlink("/", &link).unwrap();
    let bind = format!("{}=/all", text(&link));
    let root = text(&world.root);
    for args in [
        &["--root", text(&link), "--image", "none"][..],
        &["--root", root, "--bind", &bind],
        &["--root", "/proc/self/root", "--image", "none"],
    ] {
        let output = replay(world, reenact, args)?;
        check(output.status.code() == Some(1), "it is refused", &output)?;
        let said = String::from_utf8_lossy(&output.stderr).contains("whole system");
        check(said, "it says why", &output)?;
    }
    check_nothing(world)
}

fn check_nothing(world: &World) -> Result<(), String> {
    let names: Vec<_> = std::fs::read_dir(&world.root).unwrap().collect();
    if names.is_empty() { Ok(()) } else { Err(format!("something was made: {names:?}")) }
}

/// The user's root is emptied between replays: the targets of its links stay.
fn emptied_between_replays(world: &World, reenact: &Path) -> Result<(), String> {
    let mut script = Script::new(&world.trace);
    let outside = text(&world.outside).to_string();
    script.paths(libc::SYS_symlink, &[POINTER, POINTER], [(0, &outside), (1, "/link")], 0);
    for _ in 0..200 {
        script.path(libc::SYS_mkdir, &[POINTER, 0o755], 0, "down", 0);
        script.path(libc::SYS_chdir, &[POINTER], 0, "down", 0);
        script.path(libc::SYS_chmod, &[POINTER, 0o700], 0, ".", 0);
    }
    script.path(libc::SYS_chmod, &[POINTER, 0o000], 0, ".", 0);
    script.finish();
    let before = world.snapshot();
    let output = replay(world, reenact, &["--root", text(&world.root), "--repeat", "3"])?;
    check(output.status.success(), "all of them come out", &output)?;
    // What the last one has made could not be removed otherwise.
    let opened = Command::new("chmod").args(["-R", "u+rwx"]).arg(&world.root).status();
    check(opened.is_ok_and(|status| status.success()), "chmod", &output)?;
    check(world.snapshot() == before, "outside has changed", &output)
}
