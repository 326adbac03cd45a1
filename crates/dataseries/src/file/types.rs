//! Record types: their fields as declared in XML, and the layout of a record.

use std::collections::HashMap;

/// Longest name in bytes.
const NAME_BYTES_MAX: usize = 255;
/// Longest type description in bytes.
pub const XML_BYTES_MAX: usize = 1 << 20;
/// Most fields of a type.
const FIELDS_MAX: usize = 4096;

/// The type of a field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FieldType {
    /// A boolean.
    Bool,
    /// An 8-bit unsigned integer.
    Byte,
    /// A 32-bit signed integer.
    Int32,
    /// A 64-bit signed integer.
    Int64,
    /// A floating-point number.
    Double,
    /// Bytes of any length.
    Variable,
}

impl FieldType {
    const NAMES: &[(&str, FieldType)] = &[
        ("bool", FieldType::Bool),
        ("byte", FieldType::Byte),
        ("int32", FieldType::Int32),
        ("int64", FieldType::Int64),
        ("double", FieldType::Double),
        ("variable32", FieldType::Variable),
    ];

    /// Returns the name in XML.
    pub fn name(self) -> &'static str {
        FieldType::NAMES.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }
}

/// Position of a bit in a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bit {
    /// Offset of the byte.
    pub at: u32,
    /// Mask of the bit in it.
    pub mask: u8,
}

/// A field and its position.
#[derive(Clone, PartialEq, Debug)]
pub struct Field {
    /// Name of the field.
    pub name: String,
    /// Type of the field.
    pub kind: FieldType,
    /// Offset in the record; of a bool, that of the byte with its bit.
    pub at: u32,
    /// Mask of the bit, for a bool.
    pub mask: u8,
    /// The bit that is set if the value is null, for a nullable field.
    pub null: Option<Bit>,
    /// Computation of the value, if the stored one is relative or scaled.
    pub relative: Option<Relative>,
}

/// Computation of a value from the stored one.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Relative {
    /// The field that the stored value is relative to; the field itself means the record before.
    pub to: Option<usize>,
    /// Factor by which the stored value is multiplied.
    pub scale: f64,
}

/// A record type.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Type {
    /// Name of the type.
    pub name: String,
    /// The XML that declares it.
    pub xml: String,
    /// The fields in the order of the XML.
    pub fields: Vec<Field>,
    /// Size of a record in bytes.
    pub record_bytes: usize,
    /// Why records cannot be read, if they use an unsupported packing.
    pub unreadable: Option<String>,
    by_name: HashMap<String, usize>,
}

impl Type {
    /// Returns the position of a field.
    pub fn field(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// Parses the XML of a type.
    pub fn parse(xml: &str) -> Result<Type, String> {
        if xml.len() > XML_BYTES_MAX {
            return Err(format!("a type's description has {} bytes", xml.len()));
        }
        let document = roxmltree::Document::parse(xml)
            .map_err(|error| format!("a type's description is no XML: {error}"))?;
        let root = document.root_element();
        if root.tag_name().name() != "ExtentType" {
            return Err("a type's description does not begin with ExtentType".into());
        }
        let mut parsed =
            Type { name: named(root.attribute("name"))?, xml: xml.into(), ..Type::default() };
        let default = |name: &str, usual: &str| {
            root.attribute(name)
                .filter(|value| *value != usual)
                .map(|value| format!("records with {name}=\"{value}\" are not read"))
        };
        parsed.unreadable = default("pack_null_compact", "no")
            .or_else(|| default("pack_pad_record", "original"))
            .or_else(|| default("pack_field_ordering", "small_to_big_sep_var32"));
        for node in root.children().filter(roxmltree::Node::is_element) {
            if node.tag_name().name() != "field" {
                return Err(format!("type {}: what is <{}>?", parsed.name, node.tag_name().name()));
            }
            parsed.add(&node).map_err(|what| format!("type {}: {what}", parsed.name))?;
        }
        parsed.place();
        Ok(parsed)
    }

    fn add(&mut self, node: &roxmltree::Node<'_, '_>) -> Result<(), String> {
        let name = named(node.attribute("name"))?;
        let kind = node.attribute("type").unwrap_or_default();
        let found = FieldType::NAMES.iter().find(|(known, _)| *known == kind);
        let (_, kind) =
            *found.ok_or_else(|| format!("field {name} is of unknown type '{kind}'"))?;
        if self.fields.len() == FIELDS_MAX {
            return Err(format!("it has more than {FIELDS_MAX} fields"));
        }
        let number = |text: &str| text.parse::<f64>().ok().filter(|scale| scale.is_normal());
        let scale = match node.attribute("pack_scale") {
            Some(text) => number(text).ok_or_else(|| format!("pack_scale=\"{text}\""))?,
            None => 1.0,
        };
        let to = match node.attribute("pack_relative") {
            Some(other) if other == name => Some(self.fields.len()),
            Some(other) => Some(self.field(other).ok_or_else(|| format!("no field {other}"))?),
            None => None,
        };
        let numeric = matches!(kind, FieldType::Int32 | FieldType::Int64 | FieldType::Double);
        let same = to.is_none_or(|to| self.fields.get(to).is_none_or(|other| other.kind == kind));
        if to.is_some() && !(numeric && same) {
            return Err(format!("field {name} cannot be relative"));
        }
        let relative = (to.is_some() || scale != 1.0).then_some(Relative { to, scale });
        let null = (node.attribute("opt_nullable") == Some("yes")).then(Bit::default);
        if self.by_name.insert(name.clone(), self.fields.len()).is_some() {
            return Err(format!("field {name} is there twice"));
        }
        self.fields.push(Field { name, kind, at: 0, mask: 0, null, relative });
        Ok(())
    }

    /// Assigns positions. Small fields come first: bits, bytes, words, and so on.
    fn place(&mut self) {
        let mut bits = 0u32;
        let mut bit = || {
            let at = Bit { at: bits / 8, mask: 1 << (bits % 8) };
            bits += 1;
            at
        };
        for field in &mut self.fields {
            if field.kind == FieldType::Bool {
                Bit { at: field.at, mask: field.mask } = bit();
            }
            field.null = field.null.map(|_| bit());
        }
        let mut at = bits.div_ceil(8);
        let mut pass = |kinds: &[FieldType], bytes: u32| {
            at = at.next_multiple_of(bytes);
            for field in self.fields.iter_mut().filter(|field| kinds.contains(&field.kind)) {
                field.at = at;
                at += bytes;
            }
        };
        pass(&[FieldType::Byte], 1);
        pass(&[FieldType::Int32], 4);
        pass(&[FieldType::Variable], 4);
        pass(&[FieldType::Int64, FieldType::Double], 8);
        self.record_bytes = at as usize;
    }
}

fn named(name: Option<&str>) -> Result<String, String> {
    match name {
        Some(name) if !name.is_empty() && name.len() <= NAME_BYTES_MAX => Ok(name.into()),
        _ => Err("a type or field without a name of 1 to 255 bytes".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_placed_by_size() {
        let xml = r#"<ExtentType name="t">
            <field name="long" type="int64" opt_nullable="yes"/>
            <field name="flag" type="bool"/>
            <field name="text" type="variable32" opt_nullable="yes"/>
            <field name="small" type="byte"/>
            <field name="word" type="int32"/>
            <field name="real" type="double"/>
        </ExtentType>"#;
        let parsed = Type::parse(xml).unwrap();
        let at = |name| parsed.fields[parsed.field(name).unwrap()].at;
        assert_eq!(parsed.fields[0].null, Some(Bit { at: 0, mask: 1 }));
        assert_eq!(parsed.fields[1].mask, 2);
        assert_eq!(parsed.fields[2].null, Some(Bit { at: 0, mask: 4 }));
        assert_eq!(["small", "word", "text", "long", "real"].map(at), [1, 4, 8, 16, 24]);
        assert_eq!(parsed.record_bytes, 32);
    }

    #[test]
    fn types_that_make_no_sense_are_told() {
        for (xml, what) in [
            ("<a/>", "ExtentType"),
            ("<ExtentType", "no XML"),
            ("<ExtentType/>", "without a name"),
            ("<ExtentType name='t'><x/></ExtentType>", "<x>"),
            ("<ExtentType name='t'><field name='f' type='float'/></ExtentType>", "unknown type"),
            (
                "<ExtentType name='t'><field name='f' type='bool'/><field name='f' type='bool'/></ExtentType>",
                "twice",
            ),
            (
                "<ExtentType name='t'><field name='f' type='int32' pack_relative='g'/></ExtentType>",
                "no field g",
            ),
        ] {
            let error = Type::parse(xml).unwrap_err();
            assert!(error.contains(what), "{xml}: {error}");
        }
    }
}
