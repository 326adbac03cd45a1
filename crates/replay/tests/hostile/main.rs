//! Traces written to do harm are replayed, image and all. Whatever they hold, nothing outside the
//! root changes or gets in, nothing dangerous is left in it, and the replay ends, within bounds of
//! memory and disk.
//!
//! Nothing here can do harm if a replay should do as it is told: what the traces reach for was made
//! by this test.

#[path = "../jail/user.rs"]
mod user;

mod escapes;
mod limits;
mod nonsense;
mod script;
mod world;

use std::collections::BTreeMap;

use world::{World, replay_in};

/// A hostile trace: its name, and what writes it. It gets the world that it is to harm.
pub type Case = (&'static str, fn(&World));

fn main() {
    let only = std::env::args().skip(1).find(|word| !word.starts_with('-'));
    user::main(|user| run_all(user, only.as_deref()));
}

/// Replays every trace, and returns how many did harm.
fn run_all(user: &str, only: Option<&str>) -> usize {
    let cases = [escapes::CASES, limits::CASES, nonsense::CASES].concat();
    let chosen = cases.iter().filter(|(name, _)| only.is_none_or(|only| name.contains(only)));
    // Each in a process of its own, whose memory is measured. Most of them mostly wait.
    let running: Vec<_> = chosen
        .map(|(name, write)| {
            user::start(|| {
                let result = user::catch(|| one(name, *write)).and_then(|harm| harm);
                user::report(user, name, result)
            })
        })
        .collect();
    running.into_iter().map(user::wait).sum()
}

fn one(name: &str, write: fn(&World)) -> Result<(), String> {
    let dir = tempfile::Builder::new().prefix(name).tempdir().unwrap();
    let mut world = World::new(dir.path());
    write(&world);
    let before: BTreeMap<_, _> = world.snapshot();
    let end = replay_in(&world)?;
    let after = world.snapshot();
    if before != after {
        return Err(format!("outside has changed: {before:?} is now {after:?}"));
    }
    world.still_alive()?;
    world.harmless_root()?;
    end.within_bounds()
}
