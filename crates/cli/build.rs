//! Builds the agent's image, which the binary carries inside.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let root = root.parent().and_then(|crates| crates.parent()).expect("the workspace's root");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    for source in ["agent", "ring", "syscalls"] {
        println!("cargo:rerun-if-changed={}", root.join("crates").join(source).display());
    }
    for file in ["Cargo.lock", "Cargo.toml"] {
        println!("cargo:rerun-if-changed={}", root.join(file).display());
    }
    // A build of its own, with its own flags: what instruments or tunes the tool must not reach
    // into the programs that it records. It is the same for all profiles, and for clippy: beside
    // target/debug (OUT_DIR is target/debug/build/reenact-*/out).
    let target = out.ancestors().nth(4).unwrap_or(&out).join("agent-target");
    let status = Command::new(env::var_os("CARGO").expect("cargo sets it"))
        .current_dir(root)
        .args(["build", "--quiet", "--package", "agent", "--bin", "agent-image"])
        .args(["--features", "image", "--profile", "agent", "--target-dir"])
        .arg(&target)
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env_remove("RUSTC_WRAPPER")
        .status()
        .expect("cargo can be run");
    assert!(status.success(), "the agent could not be built");
    println!("cargo:rustc-env=REENACT_AGENT={}", target.join("agent/agent-image").display());
}
