//! Writes the page: markup, styles, scripts and data in one file.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};

use render::json::Json;
use trace::Trace;

use crate::data::{self, Beside};
use crate::gather::Gathered;
use crate::static_page;

const FRAME: &str = include_str!("../assets/page.html");
const STYLES: &[&str] =
    &[include_str!("../assets/uplot/uPlot.min.css"), include_str!("../assets/page.css")];
const LIBRARY: &str = include_str!("../assets/uplot/uPlot.iife.min.js");
/// Our own scripts, in order of dependency.
const SCRIPTS: &[&str] = &[
    include_str!("../assets/words.js"),
    include_str!("../assets/elements.js"),
    include_str!("../assets/time.js"),
    include_str!("../assets/plane.js"),
    include_str!("../assets/heat.js"),
    include_str!("../assets/offsets.js"),
    include_str!("../assets/lanes.js"),
    include_str!("../assets/bars.js"),
    include_str!("../assets/treemap.js"),
    include_str!("../assets/table.js"),
    include_str!("../assets/range.js"),
    include_str!("../assets/slowest.js"),
    include_str!("../assets/network.js"),
    include_str!("../assets/address.js"),
    include_str!("../assets/keys.js"),
    include_str!("../assets/kernel.js"),
    include_str!("../assets/flow.js"),
    include_str!("../assets/flame.js"),
    include_str!("../assets/replay.js"),
    include_str!("../assets/other_run.js"),
    include_str!("../assets/predicted.js"),
    include_str!("../assets/page.js"),
];

/// How every page begins.
pub const BEGIN: &str = "<!doctype html>\n<!-- A report by reenact. -->\n";
/// Markup before the data.
pub const DATA_BEGIN: &str = "<script type=\"application/json\" id=\"data\">";
/// Markup after the data.
pub const DATA_END: &str = "</script>";

/// Writes the page. Returns the number of its bytes.
pub fn write(
    out: impl Write,
    trace: &Trace,
    gathered: &Gathered,
    beside: &Beside,
) -> io::Result<u64> {
    let mut out = Counted { out, bytes: 0 };
    write_frame(&mut out, trace, gathered, beside)?;
    out.flush()?;
    Ok(out.bytes)
}

fn write_frame(
    out: &mut impl Write,
    trace: &Trace,
    gathered: &Gathered,
    beside: &Beside,
) -> io::Result<()> {
    let nonce = nonce();
    let mut rest = FRAME;
    while let Some((before, after)) = rest.split_once("{{") {
        let (marker, after) = after.split_once("}}").unwrap_or((after, ""));
        out.write_all(before.as_bytes())?;
        match marker {
            "nonce" => out.write_all(nonce.as_bytes())?,
            "style" => STYLES.iter().try_for_each(|style| out.write_all(style.as_bytes()))?,
            "library" => out.write_all(LIBRARY.as_bytes())?,
            "title" => out.write_all(static_page::title(trace).as_bytes())?,
            "static" => static_page::write(out, trace, gathered)?,
            "scripts" => SCRIPTS.iter().try_for_each(|script| out.write_all(script.as_bytes()))?,
            _ => write_data(out, trace, gathered, beside)?,
        }
        rest = after;
    }
    out.write_all(rest.as_bytes())
}

fn write_data(
    out: &mut impl Write,
    trace: &Trace,
    gathered: &Gathered,
    beside: &Beside,
) -> io::Result<()> {
    out.write_all(DATA_BEGIN.as_bytes())?;
    let mut harmless = Harmless(out);
    let mut json = Json::new(&mut harmless);
    data::write(&mut json, trace, gathered, beside);
    json.finish()?;
    out.write_all(DATA_END.as_bytes())
}

/// Returns a random nonce that permits the page's own scripts and styles, but no injected ones.
fn nonce() -> String {
    let random = || RandomState::new().build_hasher().finish();
    format!("{:016x}{:016x}", random(), random())
}

/// Escapes `<`, `>` and `&` in JSON, so that it cannot end its HTML element. They occur only in
/// strings.
struct Harmless<'a, W>(&'a mut W);

impl<W: Write> Write for Harmless<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let is_special = |byte: &u8| matches!(byte, b'<' | b'>' | b'&');
        match bytes.iter().position(is_special) {
            Some(0) => {
                write!(self.0, "\\u{:04x}", bytes[0])?;
                Ok(1)
            }
            Some(at) => self.0.write(&bytes[..at]),
            None => self.0.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Counts the bytes written through it.
struct Counted<W> {
    out: W,
    bytes: u64,
}

impl<W: Write> Write for Counted<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_the_data_is_html() {
        let mut out = Vec::new();
        Harmless(&mut out).write_all(b"a</script><!--&amp;b").unwrap();
        let expected = "a\\u003c/script\\u003e\\u003c!--\\u0026amp;b";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn scripts_do_not_end_their_element() {
        for script in SCRIPTS.iter().chain([&LIBRARY]).chain(STYLES) {
            let lower = script.to_lowercase();
            assert!(!lower.contains("</script") && !lower.contains("</style"));
            assert!(!lower.contains("<!--"));
        }
    }

    #[test]
    fn nonces_differ() {
        assert_ne!(nonce(), nonce());
    }
}
