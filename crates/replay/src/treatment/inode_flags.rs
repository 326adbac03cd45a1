//! Immutable and append-only files (`chattr +i`, `+a`). A replay creates none, as they would hinder
//! the cleanup; calls refused because of them are taken as recorded.

use model::contents::piece;
use model::{Contents, DescriptorTable};
use syscalls::layout::{self, Layout};
use syscalls::record::part;
use syscalls::shape::{ArgKind, Dir, Of};
use trace::event::Call;

use super::{Judge, Said, Treatment, files};

/// Structs that set such flags in their first word, with the bits of these two flags.
const SETTERS: [(&Layout, u32); 2] = [(&layout::INODE_FLAGS, 0x30), (&layout::FSXATTR, 0x18)];

impl Judge {
    /// Decides about a call that sets or clears such flags.
    pub(super) fn changes_guard(
        &mut self,
        said: &Said,
        call: &Call,
        ret: i64,
        stored: &mut dyn Contents,
        table: &DescriptorTable,
    ) -> Option<Treatment> {
        let (number, bits) =
            said.args.iter().zip(0u8..).find_map(|(arg, number)| match arg.kind {
                ArgKind::Buf(Dir::In, Of::Struct(of), _) => {
                    let setter = SETTERS.iter().find(|(layout, _)| std::ptr::eq(*layout, of))?;
                    Some((number, setter.1))
                }
                _ => None,
            })?;
        let file = files(said, call, table).next().filter(|_| ret == 0)?;
        let data = piece(&call.data, number, part::WHOLE, 0, false)?;
        let bytes = stored.read(&data.content, 4).ok()?;
        if u32::from_le_bytes(*bytes.first_chunk()?) & bits == 0 {
            self.guarded.forget(&file.path);
            return None;
        }
        self.guarded.add(&file.path);
        Some(Treatment::Withhold("files not made immutable or append-only"))
    }

    /// Whether a call may have been refused because it concerns such a file, or an entry of such a
    /// directory.
    pub(super) fn is_guarded(
        &self,
        said: &Said,
        call: &Call,
        table: &DescriptorTable,
        paths: &[(u8, Vec<u8>)],
    ) -> bool {
        let above = |path: &[u8]| {
            let slash = path.iter().rposition(|&c| c == b'/').unwrap_or(0);
            self.guarded.has_now(&path[..slash.max(1).min(path.len())])
        };
        !self.guarded.is_empty()
            && (files(said, call, table).any(|file| self.guarded.has_now(&file.path))
                || paths.iter().any(|(_, path)| self.guarded.has_now(path) || above(path)))
    }
}
