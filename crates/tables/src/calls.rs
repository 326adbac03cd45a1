//! The table `calls`, and a table for each call.

use model::contents::is_out;
use model::decode::shape::{self, Shape};
use model::decode::{Decoded, Returned};
use model::{Moment, Value, file_use};
use render::json;
use syscalls::table::{PLACES, place};
use trace::event::{Call, Outcome};

use crate::batch::{Batch, Row};
use crate::column::{Column, Place};
use crate::data::{Buffer, Carried};
use crate::processes::wall_us;
use crate::row::{self, ArgumentColumn, HEAD, LENGTH, Take};
use crate::schema::{Field, Type};
use crate::table::{Choice, Kind, Table};
use crate::value;

/// Columns of `calls` that tell of the data that a call carried.
const DATA_LENGTH: &str = "data_length";
const DATA_HASH: &str = "data_hash";

/// Returns the columns of the table `calls`.
pub fn columns() -> Vec<Field> {
    [
        ("seq", Type::Long),
        ("process", Type::Int),
        ("pid", Type::Int),
        ("tid", Type::Int),
        ("call", Type::Text),
        ("enter", Type::Time),
        ("exit", Type::Time),
        ("enter_ns", Type::Long),
        ("duration_ns", Type::Long),
        ("submitted_ns", Type::Long),
        ("ret", Type::Long),
        ("errno", Type::Text),
        ("path", Type::Text),
        ("fd", Type::Int),
        ("offset", Type::Long),
        ("bytes", Type::Long),
        (DATA_LENGTH, Type::Long),
        (DATA_HASH, Type::Hash),
        ("site", Type::Long),
        ("user_ns", Type::Long),
    ]
    .map(|(name, ty)| Field::new(name, ty))
    .into()
}

/// Returns true if a wanted column has lengths or hashes of data.
pub fn tells_data(kind: Kind, choice: &Choice) -> bool {
    let is_of_data = |take| matches!(take, Take::Length(_) | Take::Hash(_) | Take::Messages);
    match kind {
        Kind::Calls => [DATA_LENGTH, DATA_HASH].iter().any(|name| choice.has_column(name)),
        Kind::Call(number) => {
            let mut views = own_views(number).into_iter().filter(|view| is_of_data(view.take));
            views.any(|view| choice.has_column(&view.column.name))
        }
        _ => false,
    }
}

/// A call with its context.
pub struct Seen<'a> {
    /// The event.
    pub moment: &'a Moment<'a>,
    /// The call.
    pub call: &'a Call,
    /// Its decoded arguments and result.
    pub decoded: &'a Decoded,
    /// The data that it transferred.
    pub carried: &'a [Carried],
    /// Wall clock time at the start of the trace.
    pub epoch_ns: u64,
}

impl Seen<'_> {
    /// Adds the row of the table `calls`; with `content`, it has one column more.
    pub fn add(&self, batch: &mut Batch, content: Option<Option<&[u8]>>) {
        let Seen { moment, call, decoded, .. } = self;
        let id = |id: u32| i64::from(id);
        let mut row = batch.row();
        row.number(moment.seq.map(|seq| seq as i64));
        row.number(moment.world.thread(moment.event.thread).map(|thread| id(thread.process)));
        row.number(moment.pid.map(id));
        row.number(moment.tid.map(id));
        row.text(decoded.name.as_bytes());
        row.number(wall_us(self.epoch_ns, moment.enter_ns));
        row.number(moment.exit_ns.map(|ns| wall_us(self.epoch_ns, ns)));
        row.number(moment.enter_ns as i64);
        row.number(self.duration_ns());
        row.number(moment.submitted_ns.map(|ns| ns as i64));
        self.result(&mut row);
        let first = moment.step.paths.first().map(|(_, path)| &path[..]);
        row.text(first.or_else(|| self.descriptor().and_then(|(_, path)| path)));
        row.number(self.descriptor().map(|(fd, _)| fd.into()));
        let access = moment.touch.accesses.iter().flatten().next();
        row.number(access.and_then(|access| access.offset).map(|offset| offset as i64));
        let moved = file_use::of(call.nr).moved(call);
        row.number(moved.map(|bytes| bytes as i64));
        let data = self.carried.first().map(|carried| carried.buffer);
        row.number(data.map(|data| data.length as i64));
        row.hash(data.and_then(|data| data.hash));
        row.number(call.site as i64);
        row.number(moment.user_ns.map(|ns| ns as i64));
        if let Some(bytes) = content {
            row.bytes(bytes);
        }
        row.end();
    }

    fn duration_ns(&self) -> Option<i64> {
        self.moment.duration_ns().map(|ns| ns as i64)
    }

    /// Adds result and error as in `show --json`.
    fn result(&self, row: &mut Row<'_>) {
        match (&self.decoded.result, self.call.outcome) {
            (Returned::Error { errno, name }, _) => {
                row.number(-1);
                match name {
                    Some((name, _)) => row.text(name.as_bytes()),
                    None => row.text(errno.to_string().as_bytes()),
                }
            }
            (_, Outcome::Returned { ret, .. }) => {
                row.number(ret);
                row.text(None);
            }
            _ => {
                row.number(None);
                row.text(None);
            }
        }
    }

    /// Returns the first descriptor argument, else the resulting descriptor, else the directory.
    fn descriptor(&self) -> Option<(i32, Option<&[u8]>)> {
        let args = || self.decoded.args.iter().map(|(_, value)| value);
        let given = match &self.decoded.result {
            Returned::Value(value) => Some(value),
            _ => None,
        };
        let plain = args().chain(given).find_map(|value| descriptor(value, false));
        plain.or_else(|| args().find_map(|value| descriptor(value, true)))
    }

    /// Adds the row of the call's own table.
    fn add_own(&self, views: &[ArgumentColumn], batch: &mut Batch) {
        let Seen { moment, decoded, .. } = self;
        let mut row = batch.row();
        row.number(moment.seq.map(|seq| seq as i64));
        row.number(moment.pid.map(i64::from));
        row.number(wall_us(self.epoch_ns, moment.enter_ns));
        row.number(self.duration_ns());
        self.result(&mut row);
        for view in views {
            let column = row.column();
            let at = usize::from(view.number);
            // Usually the names are the same static string, so compare pointers first.
            let same = |name: &'static str| std::ptr::eq(name, view.arg) || name == view.arg;
            let is = |at: &usize| decoded.args.get(*at).is_some_and(|(name, _)| same(name));
            // A variant may have the argument in another position, or not at all.
            let elsewhere = || decoded.args.iter().position(|(name, _)| same(name));
            match Some(at).filter(is).or_else(elsewhere) {
                Some(at) => self.put(view.take, at as u8, &decoded.args[at].1, column),
                None => column.null(Place::default()),
            }
        }
        row.end();
    }

    fn put(&self, take: Take, arg: u8, value: &Value, column: &mut Column) {
        let place = Place::default();
        let out = || self.call.data.iter().any(|data| data.arg == arg && is_out(data));
        let carried = |when| self.carried.iter().find(move |c| c.arg == arg && c.when == when);
        let memory = match (take, value) {
            (Take::Before, Value::Changed(before, _)) => Some(&**before),
            (Take::After, Value::Changed(_, after)) => Some(&**after),
            (Take::Before, value) => Some(value).filter(|_| !out()),
            (Take::After, value) => Some(value).filter(|_| out()),
            (Take::Pointee, value) => Some(value),
            (Take::Value, value) => return value::put(column, place, value),
            (Take::Names, value) => {
                return match value::symbolic(value) {
                    Some(names) => column.text(place, names.as_bytes()),
                    None => column.null(place),
                };
            }
            (Take::Path, value) => {
                let resolved = self.moment.step.paths.iter().find(|(number, _)| *number == arg);
                let behind = match value {
                    Value::Fd { path, .. } => path.as_deref(),
                    _ => None,
                };
                return match resolved.map(|(_, path)| &path[..]).or(behind) {
                    Some(path) => column.text(place, path),
                    None => column.null(place),
                };
            }
            (Take::Json, Value::Address(0)) => None,
            (Take::Json, value) => {
                let text = json::text(|json| json.value(value));
                return column.text(place, text.as_bytes());
            }
            (Take::Length(when), _) => {
                return match carried(when) {
                    Some(carried) => column.number(place, carried.buffer.length as i64),
                    None => column.null(place),
                };
            }
            (Take::Hash(when), _) => {
                return match carried(when).and_then(|carried| carried.buffer.hash) {
                    Some(hash) => column.hash(place, hash),
                    None => column.null(place),
                };
            }
            (Take::Messages, _) => {
                let messages = self.carried.iter().filter(|carried| carried.arg == arg);
                return column.list(place, messages, |column, place, carried| {
                    put_buffer(column, place, carried.buffer);
                });
            }
        };
        match memory {
            // A plain address means that the memory was not captured.
            None | Some(Value::Address(_) | Value::Bytes(_)) => column.null(place),
            Some(memory) => value::put(column, place, memory),
        }
    }
}

fn put_buffer(column: &mut Column, place: Place, buffer: Buffer) {
    column.fields(place, |name, column, place| match (name, buffer.hash) {
        (LENGTH, _) => column.number(place, buffer.length as i64),
        (_, Some(hash)) => column.hash(place, hash),
        _ => column.null(place),
    });
}

fn descriptor(value: &Value, directory: bool) -> Option<(i32, Option<&[u8]>)> {
    match value {
        Value::Fd { fd, path, dir } if *dir == directory && *fd >= 0 => {
            Some((*fd, path.as_deref()))
        }
        _ => None,
    }
}

/// The table of one call.
struct Own {
    views: Vec<ArgumentColumn>,
    table: Table,
}

/// The tables of all calls that occur.
pub struct OwnTables {
    by_number: Vec<Option<Own>>,
    choice: Choice,
}

impl OwnTables {
    /// Makes no tables; each is made at its call's first row. The one that is wanted alone is there at once.
    pub fn new(choice: &Choice, made: &mut usize) -> OwnTables {
        let by_number = (0..=PLACES).map(|_| None).collect();
        let mut tables = OwnTables { by_number, choice: choice.clone() };
        if let Some(Kind::Call(number)) = choice.table {
            tables.own(number, || own_views(number), made);
        }
        tables
    }

    /// Adds a row to the table of a call, if it is wanted. New tables are counted in `made`.
    pub fn add(&mut self, seen: &Seen<'_>, shape: &Shape, made: &mut usize) {
        let number = syscalls::by_number(seen.call.nr.into()).map(|row| row.nr);
        if !self.choice.has(Kind::Call(number)) {
            return;
        }
        let views = || match number {
            None => row::bare(shape.args),
            some => own_views(some),
        };
        let own = self.own(number, views, made);
        seen.add_own(&own.views, &mut own.table.batch);
    }

    /// Returns a table, which is made if it is not there.
    fn own(
        &mut self,
        number: Option<u16>,
        views: impl FnOnce() -> Vec<ArgumentColumn>,
        made: &mut usize,
    ) -> &mut Own {
        let at = number.and_then(|nr| place(nr.into())).unwrap_or(PLACES);
        let choice = &self.choice;
        self.by_number[at].get_or_insert_with(|| {
            *made += 1;
            let views = views();
            let table = Table::new(Kind::Call(number), *made - 1, with_head(&views), choice);
            Own { views, table }
        })
    }

    /// Returns all tables.
    pub fn tables(&mut self) -> impl Iterator<Item = &mut Table> {
        self.by_number.iter_mut().flatten().map(|own| &mut own.table)
    }
}

/// Returns the columns of the table of one call.
pub fn own_columns(number: Option<u16>) -> Vec<Field> {
    with_head(&own_views(number))
}

fn with_head(views: &[ArgumentColumn]) -> Vec<Field> {
    let head = HEAD.map(|name| Field::new(name, head_type(name)));
    head.into_iter().chain(views.iter().map(|view| view.column.clone())).collect()
}

fn own_views(number: Option<u16>) -> Vec<ArgumentColumn> {
    match number.and_then(|nr| syscalls::by_number(nr.into())) {
        Some(row) => row::views(row),
        None => row::bare(&shape::RAW),
    }
}

/// Returns the type of a common column, which is as in `calls`.
fn head_type(name: &str) -> Type {
    let same = columns().into_iter().find(|column| column.name == name);
    same.map_or(Type::Long, |column| column.ty)
}
