//! The Parquet schema of a table's columns.

use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::errors::ParquetError;
use parquet::schema::types::{Type as Parquet, TypePtr};
use tables::schema::{Field, Type};

/// Returns the Parquet schema of a table.
pub fn parquet(columns: &[Field]) -> Result<TypePtr, ParquetError> {
    let root = Parquet::group_type_builder("schema").with_fields(fields(columns)?);
    Ok(Arc::new(root.build()?))
}

fn fields(fields: &[Field]) -> Result<Vec<TypePtr>, ParquetError> {
    fields.iter().map(|field| node(&field.name, &field.ty)).collect()
}

fn node(name: &str, ty: &Type) -> Result<TypePtr, ParquetError> {
    let leaf = |physical, logical| {
        let leaf = Parquet::primitive_type_builder(name, physical);
        leaf.with_repetition(Repetition::OPTIONAL).with_logical_type(logical).build()
    };
    let group = |logical, fields| {
        let group = Parquet::group_type_builder(name).with_repetition(Repetition::OPTIONAL);
        group.with_logical_type(logical).with_fields(fields).build()
    };
    let ty = match ty {
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
            let list = Parquet::group_type_builder("list");
            let list = list.with_repetition(Repetition::REPEATED);
            let list = list.with_fields(vec![node("element", item)?]);
            group(Some(LogicalType::List), vec![Arc::new(list.build()?)])
        }
        Type::Struct(members) => group(None, fields(members)?),
    };
    Ok(Arc::new(ty?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tables::Kind;

    #[test]
    fn every_table_has_a_schema() {
        let rows = syscalls::table::ROWS.iter().flat_map(|rows| rows.iter());
        let of_calls = rows.map(|row| Kind::Call(Some(row.nr))).chain([Kind::Call(None)]);
        for kind in of_calls.chain(Kind::FIXED) {
            parquet(&tables::columns(kind)).unwrap_or_else(|e| panic!("{}: {e}", kind.name()));
        }
    }
}
