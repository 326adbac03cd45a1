//! What the terminal can show.

use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::sync::OnceLock;

/// The characters in a line of the terminal behind a pager, if standard output leads to one.
static BEHIND_PAGER: OnceLock<Option<usize>> = OnceLock::new();

/// When colours are used.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Colour {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Even into files and pipes
    Always,
    /// Nowhere
    Never,
}

impl Colour {
    /// Returns true if what is written to a stream has colours.
    pub fn is_on(self, stream: &impl IsTerminal) -> bool {
        match self {
            Colour::Always => true,
            Colour::Never => false,
            Colour::Auto => {
                let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
                (stream.is_terminal() || has_pager()) && !refused
            }
        }
    }
}

/// Notes what the terminal is like, before a pager takes its place as standard output.
pub fn gets_pager() {
    let _ = BEHIND_PAGER.set(width_of(io::stdout()));
}

/// Returns true if standard output leads to a pager on a terminal.
pub fn has_pager() -> bool {
    BEHIND_PAGER.get().is_some()
}

/// Returns the characters in a line of standard output: of the terminal, or else as COLUMNS says, which
/// shells do not pass on by themselves. So what goes into a pipe is whole unless somebody asks.
pub fn width() -> Option<usize> {
    let behind_pager = BEHIND_PAGER.get().copied().flatten();
    behind_pager
        .or_else(|| width_of(io::stdout()))
        .or_else(|| asked(&std::env::var("COLUMNS").ok()?))
}

/// Reads a width that a user asks for. Shorter lines have no room for a table.
fn asked(text: &str) -> Option<usize> {
    text.parse().ok().filter(|width| (COLUMNS_LEAST..=COLUMNS_MOST).contains(width))
}

/// Returns the characters in a line of standard error, if that leads to a terminal.
pub fn error_width() -> Option<usize> {
    width_of(io::stderr()).or_else(|| BEHIND_PAGER.get().copied().flatten())
}

fn width_of(stream: impl AsFd) -> Option<usize> {
    let (width, _) = terminal_size::terminal_size_of(stream)?;
    Some(usize::from(width.0)).filter(|width| *width > 0)
}

/// Least and most of what COLUMNS may say.
const COLUMNS_LEAST: usize = 40;
const COLUMNS_MOST: usize = 10_000;
/// Characters to which text is wrapped at least.
const WRAP_LEAST: usize = 20;

/// Breaks lines that have no room, between words where that is possible. What goes on begins as far to
/// the right as `hang` says of the line.
pub fn fit(text: &str, width: Option<usize>, hang: impl Fn(&str) -> usize) -> String {
    let Some(width) = width else { return text.to_string() };
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        if line.chars().count() <= width {
            out.push_str(line);
        } else {
            let indent = hang(line).min(width.saturating_sub(WRAP_LEAST));
            let blanks = " ".repeat(indent);
            let options = textwrap::Options::new(width.max(WRAP_LEAST))
                .subsequent_indent(&blanks)
                .word_splitter(textwrap::WordSplitter::NoHyphenation);
            out.push_str(&textwrap::fill(line, options));
        }
        out.push_str(end);
    }
    out
}

/// Returns where the text of a line begins, and two more.
pub fn below(line: &str) -> usize {
    line.len() - line.trim_start().len() + 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_width_may_be_asked_for() {
        assert_eq!(asked("120"), Some(120));
        assert!(["", "0", "39", "x", "99999999999"].iter().all(|text| asked(text).is_none()));
    }

    #[test]
    fn long_lines_are_broken_between_words() {
        let text = "short\n  a line that has no room, with a-long-name-that-stays\n";
        assert_eq!(fit(text, None, below), text);
        let expected = "short\n  a line that has no room, with\n    a-long-name-that-stays\n";
        assert_eq!(fit(text, Some(34), below), expected);
        let long = "x".repeat(100);
        assert!(fit(&long, Some(40), |_| 60).lines().all(|line| line.chars().count() <= 40));
    }
}
