//! Formats a call as strace does: the part printed on entry, the rest, and the result.

use model::decode::shape::{Shape, shape_of};
use model::decode::{self, Decoded, Limits, Returned};
use model::{Contents, Surroundings, Value};
use syscalls::Handler;
use syscalls::abi::errno;
use syscalls::abi::tasks::CLONE_PARENT_SETTID;
use syscalls::shape::{Arg, ArgKind, Dir, Of, Ret};
use trace::event::Call;

use super::value::{self, hex, number, plain, push};
use crate::spelling::{
    self, Argument, CLONE_ARGUMENTS, FLAG_RESULTS, FlagResult, LEFT, POLLED, Ready,
    STRING_BYTES_MAX, TASK_FLAGS,
};
use crate::words;

/// The parts of a printed call.
pub struct Written {
    /// The call's name.
    pub name: String,
    /// Name, parenthesis and the arguments known on entry.
    pub before: String,
    /// The other arguments.
    pub after: String,
    /// The result, from the equals sign on; `None` if the call did not return.
    pub result: Option<String>,
    /// The call never returns, so that strace prints no duration.
    pub never: bool,
}

/// Decoding limits: what strace prints with `-s 1000000`, and one byte more.
const LIMITS: Limits =
    Limits { strings: STRING_BYTES_MAX + 1, data: STRING_BYTES_MAX + 1, items: usize::MAX };

/// Formats a call; without content, buffers are printed as addresses.
pub fn write(
    call: &Call,
    view: &Surroundings<'_>,
    contents: &mut dyn Contents,
    with_content: bool,
) -> (Written, Decoded) {
    let shape = shape_of(call);
    let data = if with_content { LIMITS.data } else { 0 };
    let decoded = decode::decode(call, view, contents, Limits { data, ..LIMITS });
    let mut written = Written {
        name: shape.name.to_string(),
        before: format!("{}(", shape.name),
        after: String::new(),
        result: None,
        never: matches!(decoded.result, Returned::Never),
    };
    match syscalls::by_number(call.nr.into()).map(|row| row.handler) {
        Some(Handler::Clone) => clone(&mut written, call, &shape, &decoded),
        Some(Handler::CloneByStruct) => clone3(&mut written, &shape, &decoded),
        _ => arguments(&mut written, call, &shape, &decoded),
    }
    written.result = result(call, &shape, &decoded);
    (written, decoded)
}

fn arguments(written: &mut Written, call: &Call, shape: &Shape, decoded: &Decoded) {
    let mut ended = false;
    let shown = spelling::order(&shape.name, &call.args, shape.args);
    for (index, place) in shown.into_iter().enumerate() {
        let (arg, raw) = (&shape.args[place], call.args[place]);
        let Some((_, value)) = decoded.args.get(place) else { continue };
        let how = match spelling::argument(&shape.name, arg.name) {
            Some(Argument::AddressIfNoRoom) if call.args.get(place + 1) == Some(&0) => {
                Some(Argument::Address)
            }
            how => how,
        };
        if index > 0 {
            let out = if ended { &mut written.after } else { &mut written.before };
            out.push_str(", ");
        }
        ended |= how != Some(Argument::Before) && comes_out(arg.kind);
        let out = if ended { &mut written.after } else { &mut written.before };
        argument(out, arg, value, raw, how);
    }
}

fn comes_out(kind: ArgKind) -> bool {
    matches!(kind, ArgKind::Buf(Dir::Out | Dir::OutOnError | Dir::InOut, ..))
}

fn argument(out: &mut String, arg: &Arg, value: &Value, raw: u64, how: Option<Argument>) {
    match (how, value) {
        (Some(Argument::Address), _) => plain(out, &Value::Address(raw)),
        (Some(Argument::Hex), _) => hex(out, raw),
        (Some(Argument::Bitset), _) if raw as u32 == u32::MAX => {
            out.push_str("FUTEX_BITSET_MATCH_ANY");
        }
        (Some(Argument::FileMode), _) => value::file_mode(out, raw as u32),
        (Some(Argument::Times), Value::Array { items, more, .. }) => {
            value::array(out, items, *more, ", ", value::time);
        }
        (Some(Argument::Found), Value::Changed(_, after)) => plain(out, after),
        (Some(Argument::Found), _) if comes_out(arg.kind) => plain(out, value),
        (Some(Argument::Before), Value::Changed(before, _)) => of_kind(out, arg.kind, before),
        _ => of_kind(out, arg.kind, value),
    }
}

fn of_kind(out: &mut String, kind: ArgKind, value: &Value) {
    match (kind, value) {
        (ArgKind::Mode, Value::Mode(mode)) => value::number_mode(out, *mode),
        (ArgKind::Buf(_, of, _), _) => of_memory(out, of, value),
        _ => plain(out, value),
    }
}

fn of_memory(out: &mut String, of: Of, value: &Value) {
    match (of, value) {
        (Of::Struct(layout), _) => value::of_layout(out, layout, value),
        (Of::Holder(holder), _) => value::of_layout(out, holder.layout, value),
        (Of::Bits, Value::Array { items, more, .. }) => value::array(out, items, *more, " ", plain),
        (Of::I32, Value::Changed(before, after)) => match (only(before), only(after)) {
            (Some(before), Some(after)) => {
                out.push('[');
                value::changed(out, before, after, plain);
                out.push(']');
            }
            _ => plain(out, value),
        },
        _ => plain(out, value),
    }
}

fn only(value: &Value) -> Option<&Value> {
    match value {
        Value::Array { items, .. } if items.len() == 1 => items.first(),
        _ => None,
    }
}

/// clone's arguments are printed by name and in another order; flags decide which ones.
fn clone(written: &mut Written, call: &Call, shape: &Shape, decoded: &Decoded) {
    let given = call.args[0];
    let mut between = "";
    for (name, wanted) in CLONE_ARGUMENTS {
        let arg = shape.args.iter().zip(&decoded.args).find(|(arg, _)| arg.name == *name);
        let Some((arg, (_, value))) = arg else { continue };
        if wanted.is_some_and(|bits| given & bits == 0) {
            continue;
        }
        let out = if wanted.is_some() { &mut written.after } else { &mut written.before };
        out.push_str(between);
        between = ", ";
        if let Some(Argument::Named(name)) = spelling::argument(&shape.name, arg.name) {
            push(out, format_args!("{name}="));
        }
        of_kind(out, arg.kind, value);
    }
}

/// clone3 prints the new thread's id after the struct that holds its address.
fn clone3(written: &mut Written, shape: &Shape, decoded: &Decoded) {
    let Some((arg, (_, value))) = shape.args.iter().zip(&decoded.args).next() else { return };
    of_kind(&mut written.before, arg.kind, value);
    if let (Value::Struct { fields, .. }, Returned::Value(Value::Int(tid))) =
        (value, &decoded.result)
    {
        let given =
            fields.iter().find(|(name, _)| *name == TASK_FLAGS).map_or(0, |(_, v)| number(v));
        if given & CLONE_PARENT_SETTID != 0 {
            push(&mut written.after, format_args!(" => {{parent_tid=[{tid}]}}"));
        }
    }
    if let Some((_, size)) = decoded.args.get(1) {
        written.after.push_str(", ");
        plain(&mut written.after, size);
    }
}

fn result(call: &Call, shape: &Shape, decoded: &Decoded) -> Option<String> {
    let mut out = String::from("= ");
    match &decoded.result {
        Returned::Never => out.push('?'),
        Returned::Unfinished => return None,
        Returned::Error { errno, name: Some((name, text)) } => {
            let shown = if errno::asks_for_restart(*errno) { "?" } else { "-1" };
            push(&mut out, format_args!("{shown} {name} ({text})"));
        }
        Returned::Error { errno, name: None } => push(&mut out, format_args!("-1 (errno {errno})")),
        Returned::Value(value) => {
            match (shape.ret, value) {
                (Ret::Mode, Value::Mode(mode)) => value::number_mode(&mut out, *mode),
                (Ret::Address, _) => hex(&mut out, number(value)),
                _ => plain(&mut out, value),
            }
            let of_op =
                |of: &&FlagResult| of.call == shape.name && of.operation == number_at(decoded, 1);
            match FLAG_RESULTS.iter().find(of_op) {
                Some(FlagResult { set, with_none, .. }) if *with_none || number(value) != 0 => {
                    out.push_str(" (flags ");
                    value::flags(&mut out, number(value), set);
                    out.push(')');
                }
                Some(_) => {}
                None => ready(&mut out, call, shape, decoded, value),
            }
        }
    }
    Some(out)
}

fn number_at(decoded: &Decoded, index: usize) -> u64 {
    decoded.args.get(index).map_or(0, |(_, value)| number(value))
}

/// Appends the ready descriptors to the result of poll or select.
fn ready(out: &mut String, call: &Call, shape: &Shape, decoded: &Decoded, result: &Value) {
    if !spelling::tells_ready(&shape.name) {
        return;
    }
    if number(result) == 0 {
        return out.push_str(" (Timeout)");
    }
    let mut parts = Vec::new();
    for (arg, (_, value)) in shape.args.iter().zip(&decoded.args) {
        let Value::Changed(_, after) = value else { continue };
        match spelling::ready(arg.name) {
            Some(Ready::Polled) => parts.push(polled(after)),
            Some(Ready::Set(word)) => {
                if matches!(&**after, Value::FdSet(fds) if !fds.is_empty()) {
                    let mut text = format!("{word} ");
                    plain(&mut text, after);
                    parts.push(text);
                }
            }
            Some(Ready::Left) => {
                let mut text = format!("{LEFT} ");
                of_kind(&mut text, arg.kind, after);
                parts.push(text);
            }
            None => {}
        }
    }
    if !parts.is_empty() && call.nargs > 0 {
        push(out, format_args!(" ({})", parts.join(", ")));
    }
}

/// Formats the descriptors of poll that are ready.
fn polled(after: &Value) -> String {
    let items = match after {
        Value::Array { items, .. } => &items[..],
        one => std::slice::from_ref(one),
    };
    let shown = items.iter().filter_map(|item| {
        let Value::Struct { fields, .. } = item else { return None };
        let find = |name| fields.iter().find(|(field, _)| *field == name).map(|(_, v)| v);
        let [number_of, events_of] = POLLED;
        let (fd, revents) = (find(number_of)?, find(events_of)?);
        if number(revents) == 0 {
            return None;
        }
        let mut text = format!("{{{number_of}=");
        plain(&mut text, fd);
        push(&mut text, format_args!(", {events_of}="));
        plain(&mut text, revents);
        text.push('}');
        Some(text)
    });
    let shown: Vec<String> = shown.collect();
    format!("[{}]", shown.join(", "))
}

/// Formats a return from a signal handler. Its mask is no argument of the call.
pub fn sigreturn(mask: u64, result: i64) -> Written {
    let mut text = String::from("= ");
    match errno::of_result(result).and_then(errno::describe) {
        Some((name, meaning)) => push(&mut text, format_args!("-1 {name} ({meaning})")),
        None => push(&mut text, format_args!("{result}")),
    }
    Written {
        name: "rt_sigreturn".into(),
        before: format!("rt_sigreturn({{mask={}}}", words::signal_set(mask, value::SET_INVERTED)),
        after: String::new(),
        result: Some(text),
        never: false,
    }
}

/// Formats the exec that started the recorded program, which is not in the trace.
pub fn launch(path: &[u8], argv: &Value, envp: &Value) -> Written {
    let mut before = String::from("execve(");
    value::quote(&mut before, path, false);
    for list in [argv, envp] {
        before.push_str(", ");
        plain(&mut before, list);
    }
    Written {
        name: "execve".into(),
        before,
        after: String::new(),
        result: Some("= 0".into()),
        never: false,
    }
}
