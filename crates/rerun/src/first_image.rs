//! How the program of a recording begins, and the stack of each image.

use std::ffi::CString;

use model::Contents;
use syscalls::abi::images::{AT_EXECFN, AT_FEATURES, AT_PLACES, AT_RANDOM};
use syscalls::abi::tasks::RLIMIT_STACK;
use syscalls::record::part;
use trace::event::{Data, ProcessState};

/// Maximum size of a stack that a program begins with.
const STACK_MAX: usize = 8 << 20;

/// Where the stack of each program ends whose addresses are not random.
pub(crate) const STACK_END: u64 = 0x7fff_ffff_f000;

/// How the program begins.
#[derive(Clone, Debug, Default)]
pub struct FirstImage {
    /// The path by which it is executed.
    pub path: CString,
    /// Its arguments.
    pub args: Vec<CString>,
    /// Its environment.
    pub environment: Vec<CString>,
    /// Its working directory.
    pub directory: Vec<u8>,
    /// Signals that it ignores, and blocks, as bit masks.
    pub ignored: u64,
    /// See `ignored`.
    pub blocked: u64,
    /// Soft and hard limit of its stack.
    pub stack: Option<(u64, u64)>,
    has_state: bool,
    has_image: bool,
}

impl FirstImage {
    pub(crate) fn add_state(first: &mut Option<FirstImage>, state: &ProcessState) {
        let first = first.get_or_insert_default();
        if !first.has_state {
            first.has_state = true;
            first.directory.clone_from(&state.cwd);
            (first.ignored, first.blocked) = (state.sig_ignored, state.sig_blocked);
            first.stack = state.limits.get(RLIMIT_STACK as usize).copied();
        }
    }

    pub(crate) fn add_image(
        first: &mut Option<FirstImage>,
        data: &[Data],
        contents: &mut dyn Contents,
    ) -> Result<(), String> {
        let first = first.get_or_insert_default();
        if first.has_image {
            return Ok(());
        }
        first.has_image = true;
        let stack = image_stack(data, contents)?;
        first.path = stack.path().ok_or("the first stack has no path of a program")?;
        first.environment = stack.environment().ok_or("the first stack makes no sense")?;
        Ok(())
    }
}

/// The stack that an image begins with.
pub struct ImageStack {
    /// Its bytes, from the stack pointer to its end.
    pub bytes: Vec<u8>,
    /// Address of the first one.
    pub at: u64,
}

/// Returns the recorded stack of an image.
pub fn image_stack(data: &[Data], contents: &mut dyn Contents) -> Result<ImageStack, String> {
    let piece = data.iter().find(|data| data.part == part::STACK);
    let piece = piece.ok_or("an image was recorded without its stack")?;
    let bytes = contents.read(&piece.content, STACK_MAX)?;
    let mut stack = ImageStack { bytes, at: 0 };
    // The kernel puts the path last, with eight zeros behind it, at the end of the stack's last page.
    let pointer = stack.value(AT_EXECFN).ok_or("an image has no path of its program")?;
    let zeros = stack.bytes.iter().rev().take_while(|byte| **byte == 0).count();
    let rest = &stack.bytes[..stack.bytes.len() - zeros];
    let path = rest.iter().rev().take_while(|byte| **byte != 0).count();
    stack.at = pointer
        .checked_add((path + zeros) as u64)
        .and_then(|end| end.checked_sub(stack.bytes.len() as u64))
        .ok_or("a stack lies nowhere")?;
    Ok(stack)
}

impl ImageStack {
    fn word(&self, at: usize) -> Option<u64> {
        let bytes = self.bytes.get(at..at.checked_add(8)?)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }

    /// The string at an address.
    fn string(&self, address: u64) -> Option<CString> {
        let from = usize::try_from(address.checked_sub(self.at)?).ok()?;
        let bytes = self.bytes.get(from..)?;
        let len = bytes.iter().position(|byte| *byte == 0)?;
        CString::new(&bytes[..len]).ok()
    }

    /// Pointers from a place on, up to NULL, and the place behind.
    fn pointers(&self, mut at: usize) -> Option<(Vec<u64>, usize)> {
        let mut all = Vec::new();
        loop {
            let word = self.word(at)?;
            at += 8;
            if word == 0 {
                return Some((all, at));
            }
            all.push(word);
        }
    }

    fn environment(&self) -> Option<Vec<CString>> {
        let (_, at) = self.pointers(8)?;
        let (environment, _) = self.pointers(at)?;
        // They lie apart: strings that overlap may be any number of times as long as the stack.
        let mut left = self.bytes.len();
        let string = |at| {
            let string = self.string(at)?;
            left = left.checked_sub(string.as_bytes_with_nul().len())?;
            Some(string)
        };
        environment.into_iter().map(string).collect()
    }

    /// The entries of the auxiliary vector.
    fn vector(&self) -> Option<Vec<(u64, u64)>> {
        let (_, at) = self.pointers(8)?;
        let (_, mut at) = self.pointers(at)?;
        let mut all = Vec::new();
        loop {
            let (kind, value) = (self.word(at)?, self.word(at + 8)?);
            if kind == 0 {
                return Some(all);
            }
            all.push((kind, value));
            at += 16;
        }
    }

    fn value(&self, wanted: u64) -> Option<u64> {
        self.vector()?.into_iter().find(|(kind, _)| *kind == wanted).map(|(_, value)| value)
    }

    /// Whether the kernel has put it where it liked.
    pub(crate) fn is_randomised(&self) -> bool {
        self.at.saturating_add(self.bytes.len() as u64) != STACK_END
    }

    /// The first of its arguments: of a script the interpreter that its first line names.
    pub(crate) fn first_argument(&self) -> Option<CString> {
        self.string(self.word(8)?)
    }

    pub(crate) fn path(&self) -> Option<CString> {
        self.string(self.value(AT_EXECFN)?)
    }

    /// Returns how another stack of the same place differs, where a program may notice what cannot be
    /// made equal by writing this one over it.
    pub fn difference(&self, other: &ImageStack) -> Option<String> {
        if self.at != other.at {
            return Some(format!("its stack begins at {:#x}, not at {:#x}", other.at, self.at));
        }
        let (Some(ours), Some(theirs)) = (self.vector(), other.vector()) else {
            return Some("its stack has another shape".into());
        };
        for kind in AT_PLACES.into_iter().chain([AT_RANDOM, AT_EXECFN]) {
            let [was, is] =
                [&ours, &theirs].map(|all| all.iter().find(|entry| entry.0 == kind).map(|e| e.1));
            if was != is {
                return Some(format!(
                    "entry {kind} of its auxiliary vector is {:#x}, not {:#x}",
                    is.unwrap_or(0),
                    was.unwrap_or(0)
                ));
            }
        }
        None
    }

    /// Returns true if another stack tells of a processor with other features.
    pub fn is_of_another_processor(&self, other: &ImageStack) -> bool {
        AT_FEATURES.into_iter().any(|kind| self.value(kind) != other.value(kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stack without arguments, whose environment has these strings.
    fn stack(pointers: &[u64], string: &str) -> ImageStack {
        let words = [0, 0].into_iter().chain(pointers.iter().copied()).chain([0]);
        let mut bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
        bytes.extend(string.bytes());
        ImageStack { bytes, at: 0 }
    }

    #[test]
    fn a_random_stack_ends_elsewhere() {
        let mut stack = stack(&[], "");
        stack.at = STACK_END - stack.bytes.len() as u64;
        assert!(!stack.is_randomised());
        stack.at -= 4096;
        assert!(stack.is_randomised());
    }

    #[test]
    fn strings_of_an_environment_lie_apart() {
        let text = format!("{}\0{}\0", "a=".repeat(30), "b=".repeat(30));
        let found = stack(&[40, 40 + 61], &text).environment().unwrap();
        assert_eq!(found.len(), 2);
        assert!(found[1].as_bytes().starts_with(b"b=b="));
        assert!(stack(&[48; 3], &text).environment().is_none());
    }
}
