//! Links the agent's image by its own script.

fn main() {
    let dir = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    println!("cargo:rerun-if-changed=image.ld");
    for arg in
        ["-nostartfiles", "-nostdlib", "-Wl,--gc-sections", "-Wl,-z,norelro", "-Wl,--build-id=none"]
    {
        println!("cargo:rustc-link-arg-bin=agent-image={arg}");
    }
    println!("cargo:rustc-link-arg-bin=agent-image=-Wl,-T,{dir}/image.ld");
    println!("cargo:rustc-link-arg-bin=agent-image=-static-pie");
}
