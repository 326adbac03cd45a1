//! `cargo xtask soak`: the acceptance tests with the repetitions needed for a release.

use crate::test::{PYTHON, TOOLS, run_tests};
use crate::{Complaint, cargo, fuzz, tools};

/// Additional tools of the long tier.
const MORE_TOOLS: &[&str] = &[
    "java",
    "make",
    "dpkg-source",
    "liburing-dev",
    "sysbench",
    "db_bench",
    "liblmdb-dev",
    "postgresql",
    "mkfs.ext4",
    "mkfs.xfs",
    "mkfs.btrfs",
    "podman",
    "stress-ng",
    "systemd-nspawn",
    "debootstrap",
];

/// Tools of the big programs of `soak wild`.
const WILD_TOOLS: &[&str] = &[
    "bwrap", "busybox", "chromium", "gcc", "git", "go", "java", "javac", "mariadbd", "npm", "pip3",
    "rsync", "runc",
];

/// The long test of replay's planner.
const SIMULATOR: &[&str] = &["--", "--ignored", "ten_million_steps"];

/// Runs all acceptance tests in their long tier, the model of the ring and the simulator of replay's
/// planner, then all fuzz targets for ten minutes each. With `wild`, runs only the behaviour programs
/// and the big programs; with `ring`, only the model.
pub fn run(args: &[&str]) -> Result<(), Complaint> {
    if let ["ring", rest @ ..] = args {
        return ring(rest);
    }
    if let ["wild", rest @ ..] = args {
        tools::provide(WILD_TOOLS);
        cargo(&["build", "--release", "--package", "reenact"], &[])?;
        let wild = [&["--package", "acceptance", "--test", "wild"], rest].concat();
        return run_tests(&wild, &[("REENACT_SOAK", "1")]);
    }
    tools::provide(&[TOOLS, MORE_TOOLS, WILD_TOOLS].concat());
    tools::provide_python(&[PYTHON, &["pyspark"]].concat());
    tools::provide_liburing_tests();
    tools::provide_tracefs();
    cargo(&["build", "--release", "--package", "reenact"], &[])?;
    // These have tests of more rounds in the long tier.
    let packages = ["--package", "acceptance", "--package", "reenact", "--package", "dataseries"];
    let all = [&packages[..], &["--no-fail-fast"], args].concat();
    run_tests(&all, &[("REENACT_SOAK", "1")])?;
    // The Python package is no member of the workspace, so nothing else compiles it.
    let python = ["clippy", "--manifest-path", "python/Cargo.toml", "--target-dir"];
    cargo(&[&python[..], &["target/python-check", "--", "-D", "warnings"]].concat(), &[])?;
    ring(&[])?;
    cargo(&[&["test", "--release", "--package", "replay", "--lib"], SIMULATOR].concat(), &[])?;
    fuzz::run(&["--seconds", &fuzz::SOAK_SECONDS.to_string()])
}

/// Runs the model of the protocol of the shared memory, which is compiled otherwise than all else.
fn ring(args: &[&str]) -> Result<(), Complaint> {
    let test = ["test", "--package", "ring", "--release", "--test", "protocol"];
    let apart = ["--target-dir", "target/loom", "--"];
    cargo(&[&test[..], &apart, args].concat(), &[("RUSTFLAGS", "--cfg loom")])
}
