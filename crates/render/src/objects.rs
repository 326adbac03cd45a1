//! Events as JSON objects.

use model::decode::{self, Buffer, Limits, Returned, buffers, image, siginfo};
use model::mapped::Store;
use model::{Contents, Moment, Value, names};
use syscalls::abi::signals;
use syscalls::record::RESULT;
use trace::event::FieldValue;
use trace::event::{Call, Content, EventKind, Identity, Outcome, ProcessState};
use trace::kernel::KernelValue;
use trace::parts::{PartMeaning, PartValue, part_id};
use xxhash_rust::xxh3::Xxh3;

use crate::json::{Json, stored_base64};
use crate::text;

/// Strings and arrays are complete; plain data is written under `data`.
const LIMITS: Limits = Limits { strings: usize::MAX, data: 0, items: usize::MAX };

/// What the object of a call includes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Detail {
    /// The bytes of buffers.
    pub data: bool,
    /// Parent, process group, session, and user and group ids of the caller.
    pub ids: bool,
}

/// Writes the object of an event.
pub fn event(
    json: &mut Json<'_>,
    moment: &Moment<'_>,
    contents: &mut dyn Contents,
    detail: Detail,
) {
    event_and(json, moment, contents, detail, |_| ());
}

/// The same, with what `more` has to say of it at the end.
pub fn event_and(
    json: &mut Json<'_>,
    moment: &Moment<'_>,
    contents: &mut dyn Contents,
    detail: Detail,
    more: impl FnOnce(&mut Json<'_>),
) {
    json.object(|json| {
        kind(json, moment, contents, detail);
        parts(json, moment);
        more(json);
    });
}

/// Writes the optional parts of an event that mean something without the rest of the trace.
fn parts(json: &mut Json<'_>, moment: &Moment<'_>) {
    if let Some(cpu) = moment.event.cpu() {
        json.key("cpu").uint(cpu.into());
    }
    for part in moment.event.parts() {
        if let (Some(row), PartValue::Number(value)) = (part.row(), &part.value)
            && row.meaning == PartMeaning::Plain
            && part.id != part_id::USER_CPU
        {
            json.key(row.name).uint(*value);
        }
    }
}

fn kind(json: &mut Json<'_>, moment: &Moment<'_>, contents: &mut dyn Contents, detail: Detail) {
    match &moment.event.kind {
        EventKind::Call(call) => self::call(json, call, moment, contents, detail),
        EventKind::Signal { signal, handler, info } => {
            head(json, "signal", moment);
            json.key("signal").optional_str(signals::name((*signal).into()));
            json.key("number").uint((*signal).into());
            json.key("handler").uint(*handler);
            json.key("info").value(&siginfo::decode(info));
        }
        EventKind::Start { how, process, parent, .. } => {
            head(json, "start", moment);
            json.key("how").str(names::start(*how));
            json.key("process").uint((*process).into());
            json.key("thread").uint(moment.event.thread.into());
            let parent = moment.world.ids(*parent);
            json.key("parent_pid").optional_uint(parent.map(|(pid, _)| pid.into()));
            json.key("parent_tid").optional_uint(parent.map(|(_, tid)| tid.into()));
            ids(json, moment);
        }
        EventKind::Image { data, .. } => {
            head(json, "exec", moment);
            for (name, value) in image::decode(data, contents) {
                json.key(name).value(&value);
            }
            ids(json, moment);
        }
        EventKind::End { calls } => {
            head(json, "exit", moment);
            json.key("scope").str("thread");
            json.key("calls").uint(*calls);
        }
        EventKind::Exit { process, status } => {
            head(json, "exit", moment);
            json.key("scope").str("process");
            json.key("process").uint((*process).into());
            match status {
                Some(status) => json.key("status").wait_status(*status),
                None => json.key("status").null(),
            }
            ids(json, moment);
        }
        EventKind::Stall { ns } => {
            head(json, "stall", moment);
            json.key("ns").uint(*ns);
        }
        EventKind::Gap { why, detail, text } => {
            head(json, "gap", moment);
            json.key("why").str(names::gap(*why).0);
            json.key("detail").uint(*detail);
            json.key("text").str(text);
        }
        EventKind::State(state) => {
            head(json, "state", moment);
            self::state(json, state);
        }
        EventKind::Kernel(event) => {
            head(json, "kernel", moment);
            json.key("flags").uint(event.flags.into());
            let layout = moment.world.kernel_layouts().get(event.layout);
            if let Some(layout) = layout {
                json.key("system").str(&layout.system);
                json.key("event").str(&layout.name);
                json.key("fields").object(|json| {
                    for (field, value) in layout.values(&event.values) {
                        json.key(&field.name);
                        match value {
                            KernelValue::Unsigned(number) => json.uint(number),
                            KernelValue::Signed(number) => json.int(number),
                            KernelValue::Text(bytes) => json.bytes(bytes),
                            KernelValue::Bytes(bytes) => json.bytes(bytes),
                        }
                    }
                });
            }
        }
        EventKind::KernelLayout(layout) => {
            head(json, "kernel_layout", moment);
            json.key("layout").uint(layout.number.into());
            json.key("system").str(&layout.system);
            json.key("name").str(&layout.name);
            json.key("fields").array(|json| {
                for field in &layout.fields {
                    json.object(|json| {
                        json.key("name").str(&field.name);
                        json.key("type").str(&field.c_type);
                        json.key("size").uint(field.size.into());
                    });
                }
            });
            json.key("words").array(|json| {
                for words in &layout.words {
                    let field = layout.fields.get(words.field as usize);
                    json.object(|json| {
                        json.key("field").str(field.map_or("", |field| &field.name));
                        json.key("are_flags").bool(words.are_flags);
                        json.key("words").object(|json| {
                            for (number, word) in &words.all {
                                json.key(&number.to_string()).str(word);
                            }
                        });
                    });
                }
            });
        }
        EventKind::Other(other) => {
            head(json, other.row.json_type, moment);
            for (field, value) in other.fields() {
                json.key(field.name);
                match value {
                    FieldValue::Unsigned(number) => json.uint(*number),
                    FieldValue::Signed(number) => json.int(*number),
                    FieldValue::Bytes(bytes) => json.bytes(bytes),
                    FieldValue::Text(text) => json.str(text),
                }
            }
            if let Some(store) = Store::of(moment.event) {
                json.key("since_ns").optional_uint(moment.since_ns);
                json.key("data").object(|json| stored(json, &store, contents, detail.data));
            }
        }
        EventKind::Unknown(unknown) => {
            head(json, "unknown", moment);
            json.key("number").uint(unknown.number.into());
        }
    }
}

fn head(json: &mut Json<'_>, kind: &str, moment: &Moment<'_>) {
    json.key("type").str(kind);
    json.key("pid").optional_uint(moment.pid.map(u64::from));
    json.key("tid").optional_uint(moment.tid.map(u64::from));
    json.key("time_ns").uint(moment.enter_ns);
}

/// Writes parent, process group, session, and user and group ids.
fn ids(json: &mut Json<'_>, moment: &Moment<'_>) {
    let ties = moment.ties();
    let known = moment.credentials();
    let [users, groups] = known.map_or_else(Default::default, |known| [known.users, known.groups]);
    let ids = [
        ("ppid", ties.parent),
        ("pgid", ties.group),
        ("sid", ties.session),
        ("uid", users.real),
        ("euid", users.effective),
        ("gid", groups.real),
        ("egid", groups.effective),
    ];
    for (name, id) in ids {
        json.key(name).optional_uint(id.map(u64::from));
    }
}

fn call(
    json: &mut Json<'_>,
    call: &Call,
    moment: &Moment<'_>,
    contents: &mut dyn Contents,
    detail: Detail,
) {
    let decoded = decode::decode(call, &moment.view(), contents, LIMITS);
    json.key("type").str("call");
    json.key("seq").optional_uint(moment.seq);
    json.key("pid").optional_uint(moment.pid.map(u64::from));
    json.key("tid").optional_uint(moment.tid.map(u64::from));
    if detail.ids {
        ids(json, moment);
    }
    json.key("call").str(&decoded.name);
    json.key("nr").uint(call.nr.into());
    json.key("args").object(|json| {
        for (name, value) in &decoded.args {
            json.key(name).value(value);
        }
    });
    json.key("paths").object(|json| paths(json, &decoded, moment));
    let (ret, errno) = match (&decoded.result, call.outcome) {
        (Returned::Error { errno, name }, _) => {
            let name = name.map_or_else(|| errno.to_string(), |(name, _)| name.to_string());
            (Some(-1), Some(name))
        }
        (_, Outcome::Returned { ret, .. }) => (Some(ret), None),
        _ => (None, None),
    };
    match ret {
        Some(ret) => json.key("ret").int(ret),
        None => json.key("ret").null(),
    }
    json.key("errno").optional_str(errno.as_deref());
    json.key("enter_ns").uint(moment.enter_ns);
    json.key("exit_ns").optional_uint(moment.exit_ns);
    if let Some(ns) = moment.user_ns {
        json.key("user_ns").uint(ns);
    }
    if let Some(submitted_ns) = moment.submitted_ns {
        json.key("submitted_ns").uint(submitted_ns);
    }
    json.key("site").uint(call.site);
    if decoded.unknown_variant {
        json.key("note").str("buffer not captured");
    }
    json.key("data").object(|json| {
        for buffer in buffers(call) {
            json.key(&buffer.name)
                .object(|json| self::buffer(json, &buffer, contents, detail.data));
        }
    });
    if !call.identities.is_empty() {
        json.key("files").object(|json| {
            for (arg, identity) in &call.identities {
                let name = decoded.args.get(usize::from(*arg)).map(|(name, _)| *name);
                let name = if *arg == RESULT { "ret" } else { name.unwrap_or("?") };
                json.key(name).object(|json| file(json, identity));
            }
        });
    }
}

/// Writes the absolute paths of path and descriptor arguments, and of the result.
fn paths(json: &mut Json<'_>, decoded: &decode::Decoded, moment: &Moment<'_>) {
    for ((name, value), number) in decoded.args.iter().zip(0u8..) {
        let resolved = moment.step.paths.iter().find(|(arg, _)| *arg == number);
        match value {
            Value::Fd { path: Some(path), .. } => json.key(name).bytes(path),
            _ => {
                if let Some((_, path)) = resolved {
                    json.key(name).bytes(path);
                }
            }
        }
    }
    if let Returned::Value(Value::Fd { path: Some(path), .. }) = &decoded.result {
        json.key("ret").bytes(path);
    }
}

fn buffer(json: &mut Json<'_>, buffer: &Buffer<'_>, contents: &mut dyn Contents, data: bool) {
    let cut = buffer.is_cut();
    json.key("len").uint(buffer.len());
    json.key("cut").bool(cut);
    let stored = || buffer.pieces.iter().map(|piece| &piece.content);
    let mut hasher = Xxh3::new();
    let result = if data {
        json.key("base64");
        stored_base64(json, stored(), contents, &mut |bytes| hasher.update(bytes))
    } else if buffer.hash().is_none() && !cut {
        hash(stored(), contents, &mut hasher)
    } else {
        Ok(())
    };
    let hash = match (buffer.hash(), &result) {
        (Some(hash), _) => Some(hash),
        (None, Ok(())) if !cut => Some(hasher.digest128()),
        _ => None,
    };
    json.key("hash").optional_str(hash.map(|hash| format!("{hash:032x}")).as_deref());
    if buffer.pieces.iter().any(|piece| model::contents::is_fault(piece)) {
        json.key("fault").bool(true);
    }
    if let Err(why) = result {
        json.key("damaged").str(&why);
    }
}

/// Writes what was stored to a mapped file, like a buffer.
fn stored(json: &mut Json<'_>, store: &Store<'_>, contents: &mut dyn Contents, data: bool) {
    let (cut, content) = (store.stored < store.length, store.content());
    json.key("len").uint(store.length);
    json.key("cut").bool(cut);
    let mut hasher = Xxh3::new();
    let stored = || std::iter::once(&content);
    let result = if data {
        json.key("base64");
        stored_base64(json, stored(), contents, &mut |bytes| hasher.update(bytes))
    } else if store.hash.is_none() && !cut {
        hash(stored(), contents, &mut hasher)
    } else {
        Ok(())
    };
    let whole = result.is_ok() && !cut;
    let hash = store.hash.or_else(|| whole.then(|| hasher.digest128()));
    json.key("hash").optional_str(hash.map(|hash| format!("{hash:032x}")).as_deref());
    if let Err(why) = result {
        json.key("damaged").str(&why);
    }
}

fn hash<'a>(
    stored: impl Iterator<Item = &'a Content>,
    contents: &mut dyn Contents,
    hasher: &mut Xxh3,
) -> Result<(), String> {
    for content in stored {
        contents.each(content, &mut |bytes| {
            hasher.update(bytes);
            true
        })?;
    }
    Ok(())
}

fn file(json: &mut Json<'_>, identity: &Identity) {
    let (major, minor) = text::major_minor(identity.dev);
    json.key("dev").str(&format!("{major}:{minor}"));
    json.key("ino").uint(identity.ino);
    json.key("mode").uint(identity.mode.into());
    json.key("nlink").uint(identity.nlink.into());
    json.key("uid").uint(identity.uid.into());
    json.key("gid").uint(identity.gid.into());
    json.key("size").uint(identity.size);
    let (major, minor) = text::major_minor(identity.rdev);
    json.key("rdev").str(&format!("{major}:{minor}"));
    json.key("mtime_ns").int(identity.mtime_ns);
}

fn state(json: &mut Json<'_>, state: &ProcessState) {
    let ids = |json: &mut Json<'_>, ids: &[u32]| {
        json.array(|json| ids.iter().for_each(|id| json.uint((*id).into())));
    };
    json.key("process").uint(state.process.into());
    json.key("host_pid").uint(state.pid.into());
    json.key("host_ppid").uint(state.ppid.into());
    json.key("exe").bytes(&state.exe);
    json.key("cwd").bytes(&state.cwd);
    json.key("root").bytes(&state.root);
    ids(json.key("uids"), &state.uids);
    ids(json.key("gids"), &state.gids);
    ids(json.key("groups"), &state.groups);
    json.key("umask").uint(state.umask.into());
    json.key("sig_blocked").value(&Value::SigSet(state.sig_blocked));
    json.key("sig_ignored").value(&Value::SigSet(state.sig_ignored));
    json.key("limits").array(|json| {
        for (soft, hard) in &state.limits {
            json.array(|json| {
                json.uint(*soft);
                json.uint(*hard);
            });
        }
    });
    json.key("fds").array(|json| {
        for open in &state.fds {
            json.object(|json| {
                json.key("fd").int(open.fd.into());
                json.key("target").bytes(&open.target);
                json.key("offset").uint(open.offset);
                json.key("flags").uint(open.flags.into());
            });
        }
    });
    json.key("fds_left_out").uint(state.fds_left_out);
}
