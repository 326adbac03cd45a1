//! Details of a call: arguments, result and path.

use std::borrow::Cow;

use model::decode::{self, Limits, Returned};
use model::{Contents, Moment, Value};
use render::escape::escape;
use render::text::{self, Style};
use trace::event::Call;

use crate::writer::Detail;

/// Format of structs as in `show`, without plain data.
pub const STYLE: Style = Style { string_limit: 64, data: false, verbose: true };
const LIMITS: Limits = Limits { strings: 64, data: 0, items: 16 };
/// Limit for the length of texts that are stored once and referred to.
const NAME_BYTES_MAX: usize = 512;

/// Returns the name of a call and its details.
pub fn call_details(
    call: &Call,
    moment: &Moment<'_>,
    contents: &mut dyn Contents,
) -> (Cow<'static, str>, Vec<(&'static str, Detail)>) {
    let decoded = decode::decode(call, &moment.view(), contents, LIMITS);
    let mut details = Vec::with_capacity(5);
    if let Some(path) = path(&decoded, moment) {
        details.push(("path", Detail::Name(path)));
    }
    if !decoded.args.is_empty() {
        let args = decoded.args.iter().enumerate().map(|(index, (name, value))| {
            let is_environment = decoded.environment == Some(index);
            (*name, if is_environment { environment(value) } else { detail(value) })
        });
        details.push(("args", Detail::Group(args.collect())));
    }
    match &decoded.result {
        Returned::Value(value) => details.push(("ret", detail(value))),
        Returned::Error { errno, name } => {
            details.push(("ret", Detail::Int(-1)));
            let errno = name.map_or_else(|| errno.to_string(), |(name, _)| name.to_string());
            details.push(("errno", Detail::Name(errno)));
        }
        Returned::Never | Returned::Unfinished => {}
    }
    if let Some(seq) = moment.seq {
        details.push(("seq", Detail::Uint(seq)));
    }
    (decoded.name, details)
}

/// Returns the file of a call: its first path, or the file behind its descriptor.
fn path(decoded: &decode::Decoded, moment: &Moment<'_>) -> Option<String> {
    let named = moment.step.paths.first().map(|(_, path)| path);
    let behind = |directory: bool| {
        decoded.args.iter().find_map(|(_, value)| match value {
            Value::Fd { path, dir, .. } if *dir == directory => path.as_ref(),
            _ => None,
        })
    };
    let path = named.or_else(|| behind(false)).or_else(|| behind(true))?;
    let mut shown = String::new();
    escape(&mut shown, path, &[]);
    Some(shown)
}

fn environment(value: &Value) -> Detail {
    let Value::Array { .. } = value else { return detail(value) };
    let mut shown = String::new();
    text::environment(&mut shown, value, Style { verbose: false, ..STYLE });
    Detail::Text(shown)
}

fn detail(value: &Value) -> Detail {
    match value {
        Value::Int(number) => Detail::Int(*number),
        Value::Uint(number) => Detail::Uint(*number),
        Value::Fd { fd, dir: false, .. } => Detail::Int((*fd).into()),
        Value::Address(at) => Detail::Address(*at),
        Value::Bytes(bytes) => Detail::Address(bytes.at),
        _ => {
            let mut shown = String::new();
            text::render(&mut shown, value, STYLE);
            let again = match value {
                Value::Text { path, .. } => *path,
                Value::Array { .. } | Value::Struct { .. } | Value::Changed(..) => false,
                _ => true,
            };
            if again && shown.len() <= NAME_BYTES_MAX {
                Detail::Name(shown)
            } else {
                Detail::Text(shown)
            }
        }
    }
}
