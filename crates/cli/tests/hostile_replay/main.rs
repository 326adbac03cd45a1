//! Malicious traces for `reenact replay`. Whatever they hold, nothing outside the root is changed
//! or copied in, nothing dangerous is left in it, and the command ends with a documented exit code,
//! within limits of memory and disk.
//!
//! Even a replay that obeys such a trace would do no harm: the targets were made by this test, and
//! the traces are replayed only after a harmless one has stayed in its root.

#[path = "../../../replay/tests/jail/user.rs"]
mod user;

mod borders;
mod command;
mod escapes;
mod limits;
mod nonsense;
mod roots;
mod script;
mod world;

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use script::{POINTER, Script};
use world::World;

/// A malicious trace: its name, and a function that writes it for the world under attack.
pub type Case = (&'static str, fn(&World));

fn main() {
    // A path at which every user can run it.
    let place = tempfile::tempdir().expect("a temporary directory");
    std::fs::set_permissions(place.path(), PermissionsExt::from_mode(0o755)).expect("its mode");
    let reenact = place.path().join("reenact");
    std::fs::copy(env!("CARGO_BIN_EXE_reenact"), &reenact).expect("a copy of reenact");
    user::main(|user| run_all(user, &reenact));
}

/// Replays every trace, and returns the number of failures.
fn run_all(user: &str, reenact: &Path) -> usize {
    match user::catch(|| stays_in_its_root(reenact)).and_then(|stayed| stayed) {
        Ok(true) => {}
        Ok(false) => {
            println!("left out as {user}: this machine allows no jail");
            return 0;
        }
        Err(why) => {
            return user::report(user, "a_harmless_trace", Err(why));
        }
    }
    let cases = [escapes::CASES, limits::CASES, nonsense::CASES, borders::CASES].concat();
    let chosen = cases.iter().filter(|(name, _)| user::is_wanted(user, name));
    // Each runs in its own process, so that memory can be measured. Most of them mostly wait.
    let running: Vec<_> = chosen
        .map(|(name, write)| {
            user::start(|| {
                let result = user::catch(|| one(name, *write, reenact)).and_then(|harm| harm);
                user::report(user, name, result)
            })
        })
        .collect();
    let uses = roots::USES.iter().filter(|(name, _)| user::is_wanted(user, name));
    let uses = uses.map(|(name, used)| {
        let result = user::catch(|| {
            let dir = tempfile::Builder::new().prefix(name).tempdir().unwrap();
            used(&World::new(dir.path()), reenact)
        });
        user::report(user, name, result.and_then(|harm| harm))
    });
    let failures: usize = uses.sum();
    failures + running.into_iter().map(user::wait).sum::<usize>()
}

/// Returns whether there is a jail, and fails if a replay's directory appears outside of it.
fn stays_in_its_root(reenact: &Path) -> Result<bool, String> {
    let dir = tempfile::Builder::new().prefix("harmless").tempdir().unwrap();
    let world = World::new(dir.path());
    let name = dir.path().file_name().unwrap().to_string_lossy().into_owned();
    let mut script = Script::new(&world.trace);
    script.path(libc::SYS_mkdir, &[POINTER, 0o755], 0, &format!("/{name}"), 0);
    script.finish();
    let end = command::replay(&world, reenact)?;
    if end.no_jail() {
        return Ok(false);
    }
    if !world.root.join(&name).is_dir() || Path::new("/").join(&name).exists() {
        return Err(format!("a directory came into being elsewhere: {end:?}"));
    }
    Ok(true)
}

fn one(name: &str, write: fn(&World), reenact: &Path) -> Result<(), String> {
    let dir = tempfile::Builder::new().prefix(name).tempdir().unwrap();
    let mut world = World::new(dir.path());
    write(&world);
    let before: BTreeMap<_, _> = world.snapshot();
    let end = command::replay(&world, reenact)?;
    let after = world.snapshot();
    if before != after {
        return Err(format!("outside has changed: {before:?} is now {after:?}"));
    }
    world.still_alive()?;
    world.harmless_root()?;
    end.within_bounds()?;
    world.expected().map_or(Ok(()), |words| end.says(words))
}
