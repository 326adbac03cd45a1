//! Types of columns, and their Parquet schema.

use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::errors::ParquetError;
use parquet::schema::types::{Type as Parquet, TypePtr};

/// Type of a column. Every value may be null.
///
/// There are no unsigned 64-bit numbers and no nanosecond time stamps: Spark reads neither.
#[derive(Clone, PartialEq, Debug)]
pub enum Type {
    /// A signed 32-bit number.
    Int,
    /// A signed 64-bit number.
    Long,
    /// A point in time, UTC, in microseconds. It has no zone, because not every reader has zone
    /// data.
    Time,
    /// Text in UTF-8.
    Text,
    /// A 128-bit hash, as 32 hexadecimal digits.
    Hash,
    /// Bytes.
    Bytes,
    /// A list of values.
    List(Box<Type>),
    /// A struct.
    Struct(Vec<Field>),
}

/// A column, or a field of a struct.
#[derive(Clone, PartialEq, Debug)]
pub struct Field {
    /// Name of the field.
    pub name: String,
    /// Type of the field.
    pub ty: Type,
}

impl Field {
    /// Makes a field.
    pub fn new(name: impl Into<String>, ty: Type) -> Field {
        Field { name: name.into(), ty }
    }

    fn parquet(&self) -> Result<TypePtr, ParquetError> {
        let name = self.name.as_str();
        let leaf = |physical, logical| {
            let leaf = Parquet::primitive_type_builder(name, physical);
            leaf.with_repetition(Repetition::OPTIONAL).with_logical_type(logical).build()
        };
        let group = |logical, fields| {
            let group = Parquet::group_type_builder(name).with_repetition(Repetition::OPTIONAL);
            group.with_logical_type(logical).with_fields(fields).build()
        };
        let ty = match &self.ty {
            Type::Int => leaf(Physical::INT32, None),
            Type::Long => leaf(Physical::INT64, None),
            Type::Time => {
                let unit = TimeUnit::MICROS;
                let time = LogicalType::timestamp(false, unit);
                leaf(Physical::INT64, Some(time))
            }
            Type::Text | Type::Hash => leaf(Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Type::Bytes => leaf(Physical::BYTE_ARRAY, None),
            Type::List(item) => {
                let item = Field { name: "element".into(), ty: Type::clone(item) }.parquet()?;
                let list = Parquet::group_type_builder("list");
                let list = list.with_repetition(Repetition::REPEATED).with_fields(vec![item]);
                group(Some(LogicalType::List), vec![Arc::new(list.build()?)])
            }
            Type::Struct(fields) => group(None, self::fields(fields)?),
        };
        Ok(Arc::new(ty?))
    }
}

fn fields(fields: &[Field]) -> Result<Vec<TypePtr>, ParquetError> {
    fields.iter().map(Field::parquet).collect()
}

/// Returns the Parquet schema of a table.
pub fn parquet(columns: &[Field]) -> Result<TypePtr, ParquetError> {
    let root = Parquet::group_type_builder("schema").with_fields(fields(columns)?);
    Ok(Arc::new(root.build()?))
}
