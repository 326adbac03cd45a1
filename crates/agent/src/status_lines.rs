//! The lines of /proc/PID/status: finds signal masks in text that comes in pieces of any size, and
//! replaces their digits. The length of the text does not change.

/// First bytes of the file.
pub const BEGINNING: &[u8; 6] = b"Name:\t";
/// Maximum number of files tracked at the same time.
const FILES: usize = 4;
/// Bytes of a line's title.
const TITLE: usize = 8;
/// Digits of a mask.
const DIGITS: usize = 16;

/// Status files that are being read.
pub struct Files {
    list: [File; FILES],
    /// Entry that was used last, counted from 1; 0: none.
    newest: usize,
}

#[derive(Clone, Copy)]
pub struct File {
    /// The descriptor + 1; 0: free.
    pub fd: u64,
    /// Offset up to which it was read.
    pub position: u64,
    pub line: Line,
}

/// State of parsing a file: its current line, and the thread that the file is about.
#[derive(Clone, Copy, Default)]
pub struct Line {
    title: [u8; TITLE],
    column: usize,
    /// Last number in the line.
    number: u32,
    pid: u32,
    tid: u32,
}

/// What a line is about, if it has a mask.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mask {
    Ignored,
    Caught,
    Blocked,
    PendingInThread,
    PendingInProcess,
}

impl Mask {
    fn of(title: &[u8; TITLE]) -> Option<Mask> {
        Some(match title {
            b"SigIgn:\t" => Mask::Ignored,
            b"SigCgt:\t" => Mask::Caught,
            b"SigBlk:\t" => Mask::Blocked,
            b"SigPnd:\t" => Mask::PendingInThread,
            b"ShdPnd:\t" => Mask::PendingInProcess,
            _ => return None,
        })
    }
}

/// Bits to clear and to set in a mask of the kernel.
#[derive(Clone, Copy)]
pub struct Correction {
    pub clear: u64,
    pub set: u64,
}

impl Files {
    /// Returns what is known of the file with this descriptor.
    pub fn find(&self, fd: u64) -> Option<&File> {
        self.list.iter().find(|file| file.fd == fd + 1)
    }

    pub fn keep(&mut self, file: File) {
        let same = self.list.iter().position(|known| known.fd == file.fd);
        let at = same.unwrap_or_else(|| {
            self.newest = self.newest % FILES + 1;
            self.newest - 1
        });
        self.list[at] = file;
    }
}

impl Line {
    /// Processes the next byte of the file and returns the byte that the program is to see.
    /// `correct` knows the corrections for a mask of a thread in this process.
    pub fn next(
        &mut self,
        byte: u8,
        process: u32,
        correct: impl FnOnce(Mask, u32) -> Option<Correction>,
    ) -> u8 {
        if byte == b'\n' {
            match &self.title {
                // In these lines, the last number is that of the innermost namespace.
                title if title.starts_with(b"Tgid:") || title.starts_with(b"NStgid:") => {
                    self.pid = self.number;
                }
                title if title.starts_with(b"Pid:") || title.starts_with(b"NSpid:") => {
                    self.tid = self.number;
                }
                _ => {}
            }
            *self = Line { pid: self.pid, tid: self.tid, ..Line::default() };
            return byte;
        }
        let column = self.column;
        self.column += 1;
        if column < TITLE {
            self.title[column] = byte;
        }
        match byte {
            b'0'..=b'9' => {
                self.number = self.number.wrapping_mul(10).wrapping_add(u32::from(byte - b'0'));
            }
            _ => self.number = 0,
        }
        match column.checked_sub(TITLE) {
            Some(digit) if digit < DIGITS && self.pid == process => {
                self.corrected(digit, byte, correct)
            }
            _ => byte,
        }
    }

    fn corrected(
        &self,
        digit: usize,
        byte: u8,
        correct: impl FnOnce(Mask, u32) -> Option<Correction>,
    ) -> u8 {
        let known = Mask::of(&self.title).and_then(|mask| correct(mask, self.tid));
        let Some(mask) = known else { return byte };
        let Some(value) = char::from(byte).to_digit(16) else { return byte };
        let shift = 4 * (DIGITS - 1 - digit);
        let value = u64::from(value) & !(mask.clear >> shift) | mask.set >> shift & 15;
        b"0123456789abcdef"[value as usize & 15]
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    const TEXT: &str = "Name:\tcat\nUmask:\t0022\nTgid:\t77\nNgid:\t0\nPid:\t78\nNStgid:\t500\t77\n\
        NSpid:\t501\t78\nSigPnd:\t0000000000000000\nShdPnd:\t0000000000000000\n\
        SigBlk:\tfffffffffffffff8\nSigIgn:\t0000000000000000\nSigCgt:\t0000000040000440\nCapInh:\t0\n";

    /// Reads the text in pieces as a thread of process `process`.
    fn read(process: u32, piece: usize) -> Vec<u8> {
        let mut line = Line::default();
        let mut shown = Vec::new();
        let correct = |mask: Mask, tid: u32| {
            assert_eq!(tid, 78);
            Some(match mask {
                Mask::Blocked => Correction { clear: u64::MAX, set: 0xabc },
                Mask::Caught => Correction { clear: 1 << 30 | 1 << 10, set: 1 << 4 },
                Mask::Ignored => Correction { clear: 0, set: 1 << 63 },
                Mask::PendingInThread => return None,
                Mask::PendingInProcess => Correction { clear: 0, set: 1 },
            })
        };
        for part in TEXT.as_bytes().chunks(piece) {
            shown.extend(part.iter().map(|byte| line.next(*byte, process, correct)));
        }
        shown
    }

    #[test]
    fn masks_are_corrected_in_pieces_of_any_size() {
        let expected = TEXT
            .replace("SigBlk:\tfffffffffffffff8", "SigBlk:\t0000000000000abc")
            .replace("SigCgt:\t0000000040000440", "SigCgt:\t0000000000000050")
            .replace("SigIgn:\t0000000000000000", "SigIgn:\t8000000000000000")
            .replace("ShdPnd:\t0000000000000000", "ShdPnd:\t0000000000000001");
        for piece in [1, 2, 7, 64, 1000] {
            assert_eq!(read(77, piece), expected.as_bytes(), "{piece}");
        }
    }

    #[test]
    fn files_of_other_processes_stay() {
        assert_eq!(read(500, 100), TEXT.as_bytes());
    }

    #[test]
    fn the_oldest_file_makes_room() {
        // SAFETY: all zeros is how the list starts.
        let mut files: Files = unsafe { core::mem::zeroed() };
        let file = |fd: u64, position| File { fd: fd + 1, position, line: Line::default() };
        (0..FILES as u64).for_each(|fd| files.keep(file(fd, 10)));
        files.keep(file(1, 20));
        assert_eq!(files.find(1).map(|file| file.position), Some(20));
        files.keep(file(9, 30));
        assert!(files.find(0).is_none() && files.find(9).is_some() && files.find(3).is_some());
    }
}
