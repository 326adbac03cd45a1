//! Tests the jail from inside: every attempt to reach something outside must fail, as root and as
//! an ordinary user. Attempts that succeed would do no harm: their targets were made by this test,
//! and system-wide calls get arguments that change nothing.

mod attempts;
mod calls;
mod kernel;
mod life;
mod outside;
mod roots;
mod user;

use std::os::unix::fs::PermissionsExt;

use outside::Outside;

/// A test: its name and function.
type Test = (&'static str, fn(&Outside));

fn main() {
    // Attempts may change attributes of their process, so the tests have one each.
    user::main(|user| user::in_child(|| run_all(user)));
}

/// Runs every test, and returns the number of failures.
fn run_all(user: &str) -> usize {
    let dir = tempfile::tempdir().expect("a temporary directory");
    std::fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let outside = Outside::new(dir.path());
    if let Err(error) = outside.jail(|_| 0).map(|inmate| inmate.wait()) {
        if user == "root" || !life::namespaces_work() {
            println!("left out as {user}: {error}");
            return 0;
        }
        println!("no jail as {user}: {error}");
        return 1;
    }
    let mut failures = 0;
    let tests = life::TESTS.iter().chain(roots::TESTS);
    for (name, test) in tests.filter(|(name, _)| user::is_wanted(user, name)) {
        failures += user::report(user, name, user::catch(|| test(&outside)));
    }
    let results = attempts::make_all(&outside).into_iter();
    for (name, result) in results.filter(|(name, _)| user::is_wanted(user, name)) {
        failures += user::report(user, &name, result);
    }
    failures
}
