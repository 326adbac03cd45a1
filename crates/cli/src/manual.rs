//! `reenact man` and `reenact completions`: manual pages, and completions for shells.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::{Command as Program, ExitCode, Stdio};

use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::failure::Failure;
use crate::message;

/// Show the manual, or write manual pages for `man`.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "\
Examples:
  reenact man
  reenact man record
  reenact man --dir ~/.local/share/man/man1")]
pub struct Manual {
    /// The command whose page is shown [default: the page of reenact itself]
    #[arg(value_name = "COMMAND")]
    command: Option<String>,

    /// Write the pages of all commands into this directory instead
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    dir: Option<PathBuf>,
}

/// Print what a shell needs to complete the command line.
#[derive(clap::Args, Debug)]
#[command(after_long_help = "\
Examples:
  reenact completions bash > ~/.local/share/bash-completion/completions/reenact
  reenact completions zsh > ~/.zfunc/_reenact
  reenact completions fish > ~/.config/fish/completions/reenact.fish")]
pub struct Completions {
    /// The shell
    #[arg(value_name = "SHELL", value_enum)]
    shell: Shell,
}

/// Runs `reenact completions` for the command line `whole`.
pub fn complete(args: &Completions, mut whole: clap::Command) -> Result<ExitCode, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut whole, "reenact", &mut text);
    io::stdout().write_all(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Runs `reenact man` for the command line `whole`.
pub fn show(args: &Manual, whole: clap::Command) -> Result<ExitCode, Failure> {
    let pages = pages(whole)?;
    if let Some(dir) = &args.dir {
        let fail = |error| Failure::Failed(format!("{}: {error}", dir.display()));
        fs::create_dir_all(dir).map_err(fail)?;
        for (name, page) in &pages {
            fs::write(dir.join(format!("{name}.1")), page).map_err(fail)?;
        }
        message::note(&format!("{} manual pages -> {}", pages.len(), dir.display()));
        return Ok(ExitCode::SUCCESS);
    }
    let wanted = args.command.as_ref().map_or("reenact".into(), |name| format!("reenact-{name}"));
    let Some((_, page)) = pages.iter().find(|(name, _)| *name == wanted) else {
        let known: Vec<&str> =
            pages.iter().filter_map(|(name, _)| name.split_once('-')).map(|p| p.1).collect();
        return Err(Failure::Usage(format!(
            "there is no command '{}'; there are {}",
            args.command.as_deref().unwrap_or_default().escape_debug(),
            known.join(", ")
        )));
    };
    if !(io::stdout().is_terminal() && formatted(page)) {
        io::stdout().write_all(page)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows a page by the manual's program. Returns false if it is not there.
fn formatted(page: &[u8]) -> bool {
    let reader = Program::new("man").args(["-l", "-"]).stdin(Stdio::piped()).spawn();
    let Ok(mut reader) = reader else { return false };
    if let Some(mut input) = reader.stdin.take() {
        // A reader that is left early does not take all.
        let _ = input.write_all(page);
    }
    reader.wait().is_ok_and(|status| status.success())
}

/// Returns the pages with their names, that of the whole first.
fn pages(whole: clap::Command) -> io::Result<Vec<(String, Vec<u8>)>> {
    let whole = whole.disable_help_subcommand(true);
    let mut pages = vec![("reenact".to_string(), rendered("reenact", whole.clone())?)];
    for command in whole.get_subcommands().filter(|command| !command.is_hide_set()) {
        let name = format!("reenact-{}", command.get_name());
        let typed = format!("reenact {}", command.get_name());
        let page = rendered(&name, command.clone().display_name(&name).bin_name(typed))?;
        pages.push((name, page));
    }
    Ok(pages)
}

fn rendered(name: &str, command: clap::Command) -> io::Result<Vec<u8>> {
    let has_commands = command.has_subcommands();
    let further = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
    let source = concat!("reenact ", env!("CARGO_PKG_VERSION"));
    let page = Man::new(command).title(name).source(source).manual("Manual of reenact");
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    page.render_options_section(&mut text)?;
    if has_commands {
        page.render_subcommands_section(&mut text)?;
    }
    sections(&further).to_writer(&mut text)?;
    Ok(text)
}

/// What stands behind the options in a help text: each line like `Examples:` begins a section, indented
/// lines stay as they are, others are paragraphs.
fn sections(further: &str) -> Roff {
    let mut roff = Roff::new();
    let mut is_kept = false;
    for line in further.lines() {
        let keep = line.starts_with(' ');
        if keep != is_kept {
            roff.control(if keep { "nf" } else { "fi" }, []);
            is_kept = keep;
        }
        match line.strip_suffix(':') {
            Some(heading) if !keep => roff.control("SH", [heading.to_uppercase().as_str()]),
            _ if line.is_empty() => roff.control("PP", []),
            _ => roff.text([roman(line)]),
        };
    }
    if is_kept {
        roff.control("fi", []);
    }
    roff
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[derive(clap::Parser)]
    #[command(name = "reenact")]
    enum Sample {
        /// Do one thing.
        One(Completions),
        /// Do another.
        Other(Manual),
    }

    #[test]
    fn every_command_has_a_page() {
        let pages = pages(Sample::command()).unwrap();
        let names: Vec<&str> = pages.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["reenact", "reenact-one", "reenact-other"]);
        let text = String::from_utf8(pages[1].1.clone()).unwrap();
        assert!(text.contains(".TH reenact-one 1") && text.contains("Do one thing"), "{text}");
        assert!(text.contains(".SH EXAMPLES\n.nf\n  reenact completions bash"), "{text}");
    }

    #[test]
    fn what_is_indented_is_not_filled() {
        let text =
            sections("Codes:\n  0  fine\n  1  not\nOther ends are\nthose of it.\n\nMore:\n  a\n");
        let expected = ".SH CODES\n.nf\n  0  fine\n  1  not\n.fi\nOther ends are\nthose of it.\n.PP\n\
                        .SH MORE\n.nf\n  a\n.fi\n";
        assert!(text.render().ends_with(expected), "{}", text.render());
    }
}
