//! Calls as text.

use model::{Contents, Moment};
use render::lines;
use render::text::Style;
use syscalls::by_number;
use trace::event::Call;

/// A call of the recording as text.
pub(crate) fn told(call: &Call, moment: &Moment<'_>, contents: &mut dyn Contents) -> String {
    let mut text = String::new();
    let style = Style { string_limit: 64, data: true, verbose: false };
    lines::called(&mut text, call, moment, contents, style);
    text
}

/// A call of which only the registers are known.
pub(crate) fn raw(nr: u64, args: &[u64; 6]) -> String {
    let row = by_number(nr);
    let name = row.map_or_else(|| format!("call {nr}"), |row| row.name.to_owned());
    let count = row.map_or(6, |row| row.args_of(args).len());
    let args: Vec<String> = args[..count.min(6)].iter().map(|arg| format!("{arg:#x}")).collect();
    format!("{name}({})", args.join(", "))
}
