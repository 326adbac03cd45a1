//! Effects of calls on names and contents of files.

pub use syscalls::Act as Role;

/// Returns the role of a call; plain if it only changes descriptors, working directories or tasks.
pub fn of(nr: u16) -> Role {
    let act = syscalls::by_number(u64::from(nr)).map_or(Role::Plain, |row| row.act);
    match act {
        Role::Duplicate
        | Role::Close
        | Role::CloseRange
        | Role::Connect
        | Role::TellAddress
        | Role::TellPeer
        | Role::TellDirectory
        | Role::PivotRoot
        | Role::MoveMount
        | Role::Unmount
        | Role::Spawn
        | Role::Unshare
        | Role::EnterNamespace
        | Role::Map
        | Role::Unmap
        | Role::Protect
        | Role::AttachMemory
        | Role::SetUpRing
        | Role::SubmitToRing
        | Role::SetUpAio
        | Role::SubmitToAio
        | Role::ReapFromAio => Role::Plain,
        role => role,
    }
}
