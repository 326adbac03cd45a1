//! The table `files`: identities of existing files when the program first used them.

use model::decode::{Decoded, Returned};
use model::{Moment, Value};
use syscalls::record::RESULT;
use trace::event::{Call, Identity};

use crate::batch::Batch;
use crate::schema::{Field, Type};

/// Returns the columns of the table.
pub fn columns() -> Vec<Field> {
    let long = ["dev", "ino", "mode", "nlink", "uid", "gid", "size", "rdev"];
    let mut columns = vec![
        Field::new("seq", Type::Long),
        Field::new("argument", Type::Text),
        Field::new("path", Type::Text),
        Field::new("type", Type::Text),
    ];
    columns.extend(long.map(|name| Field::new(name, Type::Long)));
    columns.push(Field::new("mtime", Type::Time));
    columns.push(Field::new("mtime_ns", Type::Long));
    columns
}

/// Adds the files that a call was the first to use.
pub fn add(batch: &mut Batch, moment: &Moment<'_>, call: &Call, decoded: &Decoded) {
    for (arg, identity) in &call.identities {
        let (name, path) = if *arg == RESULT {
            let path = match &decoded.result {
                Returned::Value(Value::Fd { path, .. }) => path.as_deref(),
                _ => None,
            };
            ("ret", path)
        } else {
            let (name, value) = match decoded.args.get(usize::from(*arg)) {
                Some((name, value)) => (*name, Some(value)),
                None => ("?", None),
            };
            let resolved = moment.step.paths.iter().find(|(number, _)| number == arg);
            let path = resolved.map(|(_, path)| &path[..]).or(match value {
                Some(Value::Fd { path, .. }) => path.as_deref(),
                _ => None,
            });
            (name, path)
        };
        row(batch, moment, name, path, identity);
    }
}

fn row(
    batch: &mut Batch,
    moment: &Moment<'_>,
    argument: &str,
    path: Option<&[u8]>,
    identity: &Identity,
) {
    let mut row = batch.row();
    row.number(moment.seq.map(|seq| seq as i64));
    row.text(argument.as_bytes());
    row.text(path);
    row.text(kind(identity.mode).as_bytes());
    row.number(identity.dev as i64);
    row.number(identity.ino as i64);
    row.number(i64::from(identity.mode));
    row.number(i64::from(identity.nlink));
    row.number(i64::from(identity.uid));
    row.number(i64::from(identity.gid));
    row.number(identity.size as i64);
    row.number(identity.rdev as i64);
    row.number(identity.mtime_ns.div_euclid(1000));
    row.number(identity.mtime_ns);
    row.end();
}

/// Returns the type of a file in words.
fn kind(mode: u32) -> &'static str {
    match mode & 0o170000 {
        0o100000 => "file",
        0o040000 => "directory",
        0o120000 => "link",
        0o020000 => "character device",
        0o060000 => "block device",
        0o010000 => "pipe",
        0o140000 => "socket",
        _ => "unknown",
    }
}
