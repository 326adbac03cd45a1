//! Whether events of the kernel can be recorded here.

use std::fs;

const INSTANCES: &str = "/sys/kernel/tracing/instances";
/// The kernel gives it this inode number.
const FIRST_PID_NAMESPACE: &str = "pid:[4026531836]";

/// What [`are_there`] needs.
pub const NEED: &str = "a tracefs that can be written, in the first PID namespace";

/// Returns true if tracefs can be used.
pub fn can_be_used() -> bool {
    let path = format!("{INSTANCES}/test-{}", std::process::id());
    fs::create_dir(&path).is_ok() && fs::remove_dir(&path).is_ok()
}

/// Returns true if tracefs can be used, and the kernel's numbers of processes are those seen here.
pub fn are_there() -> bool {
    is_first_namespace() && can_be_used()
}

/// Returns true if this is the machine's first PID namespace.
pub fn is_first_namespace() -> bool {
    fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link.as_os_str() == FIRST_PID_NAMESPACE)
}
