//! Events as the JSON lines that tests/format/read_trace.py prints.

use serde_json::{Map, Value, json};

use trace::Trace;
use trace::event::FieldValue;
use trace::event::{Content, Data, EventKind, Outcome, ProcessState};
use trace::manifest::{self, Ending, Entry, FileKind};
use trace::parts::PartValue;

/// Returns the lines that tests/format/read_trace.py prints for a trace, made by the Rust reader.
pub fn lines(trace: &Trace) -> Vec<Value> {
    let mut ids = std::collections::HashMap::new();
    let mut lines = Vec::new();
    for event in trace.events() {
        let Ok(sequenced) = event else { continue };
        let event = sequenced.event;
        let mut line = match &event.kind {
            EventKind::Call(call) => {
                let (exit_ns, ret) = match call.outcome {
                    Outcome::Returned { exit_tsc, ret } => {
                        (Some(trace.ticks_to_ns(exit_tsc)), Some(ret))
                    }
                    Outcome::Unfinished => (None, None),
                };
                let files = call.identities.iter().map(|(arg, file)| {
                    json!({
                        "arg": arg, "dev": file.dev, "ino": file.ino, "mode": file.mode,
                        "nlink": file.nlink, "uid": file.uid, "gid": file.gid,
                        "size": file.size, "rdev": file.rdev, "mtime_ns": file.mtime_ns,
                    })
                });
                json!({
                    "type": "call", "seq": sequenced.seq, "nr": call.nr, "flags": call.flags,
                    "site": call.site, "args": call.args[..call.nargs.into()], "ret": ret,
                    "exit_ns": exit_ns, "data": items(trace, &call.data),
                    "files": files.collect::<Vec<_>>(),
                })
            }
            EventKind::Signal { signal, handler, info } => json!({
                "type": "signal", "signal": signal, "handler": handler, "info": base64(info),
            }),
            EventKind::Start { how, process, parent, pid, tid } => {
                ids.insert(event.thread, (*pid, *tid));
                json!({
                    "type": "start", "how": *how as u8, "process": process, "parent": parent,
                    "new_pid": pid, "new_tid": tid,
                })
            }
            EventKind::Image { tid, data } => {
                ids.entry(event.thread).and_modify(|ids| ids.1 = *tid);
                json!({ "type": "image", "new_tid": tid, "data": items(trace, data) })
            }
            EventKind::End { calls } => json!({ "type": "end", "calls": calls }),
            EventKind::Stall { ns } => json!({ "type": "stall", "ns": ns }),
            EventKind::Gap { why, detail, text } => json!({
                "type": "gap", "why": *why as u8, "detail": detail, "text": text,
            }),
            EventKind::State(state) => self::state(state),
            EventKind::Exit { process, status } => json!({
                "type": "exit", "process": process, "status": status,
            }),
            EventKind::Kernel(event) => json!({
                "type": "kernel", "layout": event.layout, "task": event.task,
                "flags": event.flags, "values": base64(&event.values),
            }),
            EventKind::KernelLayout(layout) => {
                let fields = layout
                    .fields
                    .iter()
                    .map(|field| json!([field.name, field.c_type, field.kind as u8, field.size]));
                json!({
                    "type": "kernel_layout", "layout": layout.number, "system": layout.system,
                    "event": layout.name, "fields": fields.collect::<Vec<_>>(),
                })
            }
            EventKind::Other(other) => {
                let mut line = json!({ "type": other.row.name });
                for (field, value) in other.fields() {
                    line[field.name] = match value {
                        FieldValue::Unsigned(number) => json!(number),
                        FieldValue::Signed(number) => json!(number),
                        FieldValue::Bytes(bytes) => json!(base64(bytes)),
                        FieldValue::Text(text) => json!(text),
                    };
                }
                line
            }
            EventKind::Unknown(unknown) => json!({ "type": "unknown", "number": unknown.number }),
        };
        let (pid, tid) = ids.get(&event.thread).copied().unzip();
        let head = json!({
            "thread": event.thread, "pid": pid, "tid": tid,
            "enter_ns": trace.ticks_to_ns(event.tsc),
        });
        let (Value::Object(line_fields), Value::Object(head)) = (&mut line, head) else { panic!() };
        line_fields.extend(head);
        if !event.parts().is_empty() {
            let parts = event.parts().iter().map(|part| match &part.value {
                PartValue::Number(number) => json!([part.id, number]),
                PartValue::Bytes(bytes) => json!([part.id, base64(bytes)]),
            });
            line["parts"] = parts.collect();
        }
        lines.push(line);
    }
    lines.extend(files(trace));
    lines
}

/// Returns the lines of the manifest, up to the first error.
fn files(trace: &Trace) -> Vec<Value> {
    let entries = trace.manifest().map_while(Result::ok);
    let mut lines: Vec<Value> = entries.map(|entry| file(&entry)).collect();
    if let Ok(Some(Ending { scope, left_out })) = trace.manifest_ending() {
        let (scope, kind) = (scope as u8, "manifest");
        lines.push(json!({ "type": kind, "scope": scope, "left_out": left_out }));
    }
    lines.extend(trace.sources().map_while(Result::ok).map(|source| {
        json!({
            "type": "source", "path": base64(&source.path), "fate": source.fate as u8,
            "names": source.names.iter().map(|name| base64(name)).collect::<Vec<_>>(),
            "pieces": source.pieces.iter().map(|piece| json!({
                "offset": piece.offset, "len": piece.len,
                "hash": piece.hash.map_or_else(String::new, |hash| hex(&hash)),
                "bytes": base64(&trace.content(&piece.content()).unwrap()),
            })).collect::<Vec<_>>(),
        })
    }));
    lines
}

fn file(entry: &Entry) -> Value {
    let kind = entry.kind as u8;
    let mut line = json!({ "type": "file", "path": base64(&entry.path), "kind": kind });
    if matches!(entry.kind, FileKind::Absent | FileKind::Unreachable) {
        return line;
    }
    let xattrs = entry.xattrs.iter().map(|xattr| (base64(&xattr.name), hex(&xattr.hash)));
    let fields = json!({
        "mode": entry.mode, "uid": entry.uid, "gid": entry.gid, "nlink": entry.nlink,
        "size": entry.size, "rdev": entry.rdev, "same": entry.same,
        "target": base64(&entry.target),
        "xattrs": xattrs.map(|(name, hash)| (name, Value::from(hash))).collect::<Map<_, _>>(),
        "content": match &entry.content {
            manifest::Content::None => 0,
            manifest::Content::Hashed(_) => 1,
            manifest::Content::Unreadable => 2,
            manifest::Content::Mapped => 3,
            manifest::Content::Unsteady => 4,
            manifest::Content::TooLong => 5,
        },
    });
    let (Value::Object(line_fields), Value::Object(fields)) = (&mut line, fields) else { panic!() };
    line_fields.extend(fields);
    if let manifest::Content::Hashed(sums) = &entry.content {
        let pieces: String =
            sums.pieces.iter().map(|sum| format!("{:016x}", sum.swap_bytes())).collect();
        line["hash"] = hex(&sums.whole).into();
        line["piece_bytes"] = sums.piece_bytes.into();
        line["pieces"] = pieces.into();
    }
    line
}

/// Formats the bytes of a hash in file order.
fn hex(hash: &u128) -> String {
    format!("{:032x}", hash.swap_bytes())
}

fn items(trace: &Trace, data: &[Data]) -> Value {
    let items = data.iter().map(|item| {
        let bytes = trace.content(&item.content).ok()?;
        let one = match &item.content {
            Content::Blobs { ids, .. } if ids.len() == 1 && bytes.len() as u64 == item.true_len => {
                Some(trace.blob(ids[0]).unwrap().hash())
            }
            _ => None,
        };
        let hash = item.hash.or(one).map(|hash| format!("{hash:032x}"));
        let mut object = Map::new();
        object.insert("arg".into(), item.arg.into());
        object.insert("part".into(), item.part.into());
        object.insert("index".into(), item.index.into());
        object.insert("flags".into(), item.flags.into());
        object.insert("len".into(), item.true_len.into());
        object.insert("hash".into(), hash.into());
        object.insert("base64".into(), base64(&bytes).into());
        Some(Value::Object(object))
    });
    items.collect::<Option<Vec<Value>>>().into()
}

fn state(state: &ProcessState) -> Value {
    let fds = state
        .fds
        .iter()
        .map(|open| json!([open.fd, base64(&open.target), open.offset, open.flags]));
    let mut line = json!({
        "type": "state", "process": state.process, "host_pid": state.pid,
        "host_ppid": state.ppid, "exe": base64(&state.exe), "cwd": base64(&state.cwd),
        "root": base64(&state.root), "uids": state.uids, "gids": state.gids,
        "groups": state.groups, "umask": state.umask, "sig_blocked": state.sig_blocked,
        "sig_ignored": state.sig_ignored, "limits": state.limits,
        "fds": fds.collect::<Vec<_>>(),
    });
    if state.fds_left_out > 0 {
        line["fds_left_out"] = state.fds_left_out.into();
    }
    line
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for group in bytes.chunks(3) {
        let mut bits = [0; 4];
        bits[1..=group.len()].copy_from_slice(group);
        let bits = u32::from_be_bytes(bits);
        for i in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * i) & 63) as usize] as char;
            out.push(if i <= group.len() { letter } else { '=' });
        }
    }
    out
}

/// Compares event by event, so that a difference is shown where it is.
pub fn assert_same(expected: &[Value], found: &[Value]) {
    for (i, (expected, found)) in expected.iter().zip(found).enumerate() {
        assert_eq!(expected, found, "event {i}");
    }
    assert_eq!(expected.len(), found.len());
}
