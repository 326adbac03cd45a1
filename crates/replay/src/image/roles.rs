//! What calls do to names and contents of files.

pub use events::Act as Role;

/// The role of a call. What only changes descriptors, directories of a process or tasks has none.
pub fn of(nr: u16) -> Role {
    let act = events::by_number(u64::from(nr)).map_or(Role::Plain, |row| row.act);
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
