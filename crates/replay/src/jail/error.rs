//! Errors of the jail's setup, with advice.

use std::io;

/// The jail could not be set up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}{}{remedy}", if remedy.is_empty() { "" } else { "; " })]
pub struct JailError {
    /// What failed.
    pub what: String,
    /// Advice; empty if there is none.
    pub remedy: String,
}

impl JailError {
    /// An error without advice.
    pub fn plain(what: impl Into<String>) -> JailError {
        JailError { what: what.into(), remedy: String::new() }
    }

    /// A failed call.
    pub fn io(what: &str, error: impl Into<io::Error>) -> JailError {
        JailError::plain(format!("{what}: {}", error.into()))
    }

    /// The kernel or its settings refuse a user namespace.
    pub fn no_user_namespace(error: io::Error) -> JailError {
        let what = format!("cannot make a user namespace, in which a replay is confined: {error}");
        JailError { what, remedy: remedy(|setting| std::fs::read_to_string(setting).ok()) }
    }

    /// The kernel grants a user namespace, but no capabilities in it.
    pub fn no_power(what: &str, error: impl Into<io::Error>) -> JailError {
        let what = format!("{what}: {}", error.into());
        JailError { what, remedy: remedy(|setting| std::fs::read_to_string(setting).ok()) }
    }
}

/// Settings that forbid user namespaces: file, forbidding value, advice.
const SETTINGS: &[(&str, &str, &str)] = &[
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "this system (Ubuntu 23.10 and later) keeps them from ordinary users: run \
         `sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0`",
    ),
    (
        "/proc/sys/kernel/unprivileged_userns_clone",
        "0",
        "this system (Debian) keeps them from ordinary users: run \
         `sudo sysctl kernel.unprivileged_userns_clone=1`",
    ),
    (
        "/proc/sys/user/max_user_namespaces",
        "0",
        "this system allows none: run `sudo sysctl user.max_user_namespaces=10000`",
    ),
];

/// Returns advice for a system without user namespaces, by its settings.
fn remedy(read: impl Fn(&str) -> Option<String>) -> String {
    let forbids = |(file, forbidding, _): &&(&str, &str, &str)| {
        read(file).is_some_and(|value| value.trim() == *forbidding)
    };
    let found = SETTINGS.iter().find(forbids).map(|(.., advice)| *advice);
    let unknown = "in a container, allow them there (Docker: --security-opt seccomp=unconfined)";
    format!("{}, or replay as root", found.unwrap_or(unknown))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setting_that_forbids_is_named() {
        for (file, value, _) in SETTINGS {
            let advice = remedy(|asked| (asked == *file).then(|| format!("{value}\n")));
            let name = file.strip_prefix("/proc/sys/").unwrap().replace('/', ".");
            assert!(advice.contains(&format!("sysctl {name}=")), "{advice}");
        }
        assert!(remedy(|_| None).contains("container"));
    }
}
