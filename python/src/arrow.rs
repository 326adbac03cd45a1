//! Rows as Arrow: the columns of a batch, whose values and levels are Parquet's, become arrays.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BinaryArray, Int32Array, Int64Array, ListArray, RecordBatch, RecordBatchOptions,
    StringArray, StructArray, TimestampMicrosecondArray,
};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use tables::batch::Batch;
use tables::column::{Column, DIGITS, Leaf, Packed, Texts, Values, digits};
use tables::schema::{self, Type};

/// Returns the schema of these columns.
pub fn schema(columns: &[schema::Field]) -> Schema {
    Schema::new(fields(columns))
}

fn fields(columns: &[schema::Field]) -> Fields {
    columns.iter().map(|column| Field::new(&column.name, data_type(&column.ty), true)).collect()
}

fn data_type(ty: &Type) -> DataType {
    match ty {
        Type::Int => DataType::Int32,
        Type::Long => DataType::Int64,
        Type::Time => DataType::Timestamp(TimeUnit::Microsecond, None),
        Type::Text | Type::Hash => DataType::Utf8,
        Type::Bytes => DataType::Binary,
        Type::List(item) => DataType::List(Arc::new(item_field(item))),
        Type::Struct(members) => DataType::Struct(fields(members)),
    }
}

fn item_field(item: &Type) -> Field {
    Field::new("element", data_type(item), true)
}

/// Turns rows into a batch with the columns of `schema`, which are those of `order` in the rows.
pub fn batch(
    rows: Batch,
    columns: &[schema::Field],
    order: &[usize],
    schema: SchemaRef,
) -> Result<RecordBatch, ArrowError> {
    let count = usize::try_from(rows.rows).map_err(|_| too_large())?;
    let mut given: Vec<Option<Column>> = rows.columns.into_iter().map(Some).collect();
    let mut arrays = Vec::with_capacity(order.len());
    for &at in order {
        let (Some(column), Some(field)) = (given[at].take(), columns.get(at)) else {
            return Err(ArrowError::SchemaError("a column is asked for twice".into()));
        };
        arrays.push(array(column, &field.ty, Place::default())?);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(count));
    RecordBatch::try_new_with_options(schema, arrays, &options)
}

/// Where a column stands in others: how the levels of its parent look.
#[derive(Clone, Copy, Default)]
struct Place {
    /// Definition level of a parent that is not null.
    def: i16,
    /// Number of lists around it.
    rep: i16,
    /// Definition level of an item in the innermost of these lists: what is lower stands for a list without items.
    item: i16,
}

/// The levels of a leaf: definition, and repetition unless no list is around it.
struct Levels {
    defs: Vec<i16>,
    reps: Vec<i16>,
}

impl Levels {
    fn of(leaf: &Leaf) -> Levels {
        Levels { defs: leaf.defs.all(), reps: leaf.reps.all() }
    }

    /// Returns the definition level of each value at a place: of the first item where it is a list.
    fn at(&self, place: Place) -> impl Iterator<Item = i16> {
        let begins = move |at: usize| self.reps.get(at).is_none_or(|rep| *rep <= place.rep);
        let defs = self.defs.iter().enumerate();
        defs.filter(move |(at, def)| **def >= place.item && begins(*at)).map(|(_, def)| *def)
    }
}

/// Returns what is null of values with these definition levels.
fn nulls(levels: &Levels, place: Place, there: i16) -> Option<NullBuffer> {
    let nulls = NullBuffer::from_iter(levels.at(place).map(|def| def >= there));
    Some(nulls).filter(|nulls| nulls.null_count() > 0)
}

fn array(column: Column, ty: &Type, place: Place) -> Result<ArrayRef, ArrowError> {
    match (column, ty) {
        (Column::Leaf(leaf), ty) => values(leaf, ty, place),
        (Column::List(list), Type::List(item)) => {
            let levels = Levels::of(first_leaf(&list.element).ok_or_else(no_column)?);
            let nulls = nulls(&levels, place, place.def + 1);
            let offsets = offsets(&levels, place, list.rep)?;
            let inside = Place { def: place.def + 2, rep: list.rep, item: place.def + 2 };
            let items = array(list.element, item, inside)?;
            Ok(Arc::new(ListArray::try_new(Arc::new(item_field(item)), offsets, items, nulls)?))
        }
        (Column::Struct(members), Type::Struct(types)) => {
            let first = members.iter().find_map(|(_, member)| first_leaf(member));
            let levels = Levels::of(first.ok_or_else(no_column)?);
            let nulls = nulls(&levels, place, place.def + 1);
            let inside = Place { def: place.def + 1, ..place };
            let arrays = members.into_iter().zip(types);
            let arrays = arrays.map(|((_, member), field)| array(member, &field.ty, inside));
            let arrays = arrays.collect::<Result<Vec<_>, _>>()?;
            Ok(Arc::new(StructArray::try_new(fields(types), arrays, nulls)?))
        }
        _ => Err(no_column()),
    }
}

/// Returns where the items of each list begin and end.
fn offsets(levels: &Levels, place: Place, rep: i16) -> Result<OffsetBuffer<i32>, ArrowError> {
    let (mut offsets, mut count) = (Vec::new(), 0i32);
    for (def, level) in levels.defs.iter().zip(&levels.reps) {
        if *level <= place.rep && *def >= place.item {
            offsets.push(count);
        }
        if *level <= rep && *def >= place.def + 2 {
            count = count.checked_add(1).ok_or_else(too_large)?;
        }
    }
    offsets.push(count);
    Ok(OffsetBuffer::new(offsets.into()))
}

fn first_leaf(column: &Column) -> Option<&Leaf> {
    match column {
        Column::Leaf(leaf) => Some(leaf),
        Column::List(list) => first_leaf(&list.element),
        Column::Struct(members) => members.iter().find_map(|(_, member)| first_leaf(member)),
        Column::Unwanted => None,
    }
}

fn values(leaf: Leaf, ty: &Type, place: Place) -> Result<ArrayRef, ArrowError> {
    let nulls = nulls(&Levels::of(&leaf), place, leaf.max_def);
    Ok(match (leaf.values, ty) {
        (Values::Int(numbers), _) => {
            Arc::new(Int32Array::try_new(spread(numbers, nulls.as_ref())?, nulls)?)
        }
        (Values::Long(numbers), Type::Time) => {
            Arc::new(TimestampMicrosecondArray::try_new(spread(numbers, nulls.as_ref())?, nulls)?)
        }
        (Values::Long(numbers), _) => {
            Arc::new(Int64Array::try_new(spread(numbers, nulls.as_ref())?, nulls)?)
        }
        (Values::Text(texts), _) => text(&texts, nulls)?,
        (Values::Hash(hashes), _) => {
            let lengths = spread_lengths(hashes.iter().map(|_| DIGITS), nulls.as_ref());
            let offsets = ends(lengths)?;
            Arc::new(StringArray::try_new(offsets, Buffer::from_vec(digits(&hashes)), nulls)?)
        }
        (Values::Bytes(packed), _) => {
            let lengths = (0..packed.ends.len()).map(|at| packed.range(at).len());
            let offsets = ends(spread_lengths(lengths, nulls.as_ref()))?;
            Arc::new(BinaryArray::try_new(offsets, Buffer::from_vec(packed.bytes), nulls)?)
        }
    })
}

fn text(texts: &Texts, nulls: Option<NullBuffer>) -> Result<ArrayRef, ArrowError> {
    let all: &Packed = &texts.all;
    let ranges = || texts.codes.iter().map(|code| all.range(*code as usize));
    let offsets = ends(spread_lengths(ranges().map(|range| range.len()), nulls.as_ref()))?;
    let mut bytes = Vec::with_capacity(offsets.last() as usize);
    ranges().for_each(|range| bytes.extend_from_slice(&all.bytes[range]));
    Ok(Arc::new(StringArray::try_new(offsets, Buffer::from_vec(bytes), nulls)?))
}

/// Puts values where there is no null, and zeros elsewhere.
fn spread<T: arrow_buffer::ArrowNativeType>(
    values: Vec<T>,
    nulls: Option<&NullBuffer>,
) -> Result<ScalarBuffer<T>, ArrowError> {
    let Some(nulls) = nulls else { return Ok(values.into()) };
    let mut all = vec![T::default(); nulls.len()];
    let mut values = values.into_iter();
    for at in nulls.valid_indices() {
        all[at] = values.next().ok_or_else(no_column)?;
    }
    Ok(all.into())
}

/// Returns the lengths of all values, 0 for nulls.
fn spread_lengths(
    mut lengths: impl Iterator<Item = usize>,
    nulls: Option<&NullBuffer>,
) -> impl Iterator<Item = usize> {
    let count = nulls.map(NullBuffer::len);
    let mut at = 0;
    std::iter::from_fn(move || {
        let here = at;
        at += 1;
        match (nulls, count) {
            (Some(nulls), Some(count)) if here < count => match nulls.is_valid(here) {
                true => lengths.next(),
                false => Some(0),
            },
            (Some(_), _) => None,
            (None, _) => lengths.next(),
        }
    })
}

/// Returns offsets of values of these lengths, which stand one after the other.
fn ends(lengths: impl Iterator<Item = usize>) -> Result<OffsetBuffer<i32>, ArrowError> {
    let mut end = 0i32;
    let mut offsets = vec![0];
    for length in lengths {
        let next = i32::try_from(length).ok().and_then(|length| end.checked_add(length));
        end = next.ok_or_else(too_large)?;
        offsets.push(end);
    }
    Ok(OffsetBuffer::new(offsets.into()))
}

fn too_large() -> ArrowError {
    ArrowError::OffsetOverflowError(i32::MAX as usize)
}

fn no_column() -> ArrowError {
    ArrowError::SchemaError("values of another type than their column".into())
}
