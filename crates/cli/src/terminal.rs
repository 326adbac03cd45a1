//! What the terminal can show.

use std::io::{self, IsTerminal};

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
                stream.is_terminal() && !refused
            }
        }
    }
}

/// Returns the characters in a line of standard output, if that is a terminal.
pub fn width() -> Option<usize> {
    let (width, _) = terminal_size::terminal_size_of(io::stdout())?;
    Some(usize::from(width.0)).filter(|width| *width > 0)
}
