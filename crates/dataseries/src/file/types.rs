//! Types of records: their fields, as XML tells, and where each is in a record.

use std::collections::HashMap;

/// Bytes of the longest name.
const NAME_BYTES_MAX: usize = 255;
/// Bytes of the longest description that is read.
pub const XML_BYTES_MAX: usize = 1 << 20;
/// Fields of one type that are read.
const FIELDS_MAX: usize = 4096;

/// What a field holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A bit.
    Bool,
    /// An unsigned number of 8 bits.
    Byte,
    /// A signed number of 32 bits.
    Int32,
    /// A signed number of 64 bits.
    Int64,
    /// A floating-point number.
    Double,
    /// Bytes of any length.
    Variable,
}

impl Kind {
    const NAMES: &[(&str, Kind)] = &[
        ("bool", Kind::Bool),
        ("byte", Kind::Byte),
        ("int32", Kind::Int32),
        ("int64", Kind::Int64),
        ("double", Kind::Double),
        ("variable32", Kind::Variable),
    ];

    /// Its name in XML.
    pub fn name(self) -> &'static str {
        Kind::NAMES.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }
}

/// One bit of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bit {
    /// The byte.
    pub at: u32,
    /// The bit in it.
    pub mask: u8,
}

/// A field and its place.
#[derive(Clone, PartialEq, Debug)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub kind: Kind,
    /// Its first byte in the record; of a bool, the byte that has its bit.
    pub at: u32,
    /// The bit, of a bool.
    pub mask: u8,
    /// The bit that is set when there is no value, where that may be.
    pub null: Option<Bit>,
    /// What is stored is not the value itself but must be computed.
    pub relative: Option<Relative>,
}

/// How a value comes from what is stored.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Relative {
    /// Stored is the difference to another field of the record, or to the same one before.
    pub to: Option<usize>,
    /// Stored is the value divided by this.
    pub scale: f64,
}

/// A type of records.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Type {
    /// Its name.
    pub name: String,
    /// What it was made of.
    pub xml: String,
    /// The fields in the order of the XML.
    pub fields: Vec<Field>,
    /// Bytes of a record.
    pub record_bytes: usize,
    /// Records are packed in a way that is not read.
    pub unreadable: Option<String>,
    by_name: HashMap<String, usize>,
}

impl Type {
    /// The position of a field.
    pub fn field(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    /// What the XML describes, or what is wrong with it.
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
        let found = Kind::NAMES.iter().find(|(known, _)| *known == kind);
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
        let numeric = matches!(kind, Kind::Int32 | Kind::Int64 | Kind::Double);
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

    /// Small fields come first: bits, bytes, words, and so on.
    fn place(&mut self) {
        let mut bits = 0u32;
        let mut bit = || {
            let at = Bit { at: bits / 8, mask: 1 << (bits % 8) };
            bits += 1;
            at
        };
        for field in &mut self.fields {
            if field.kind == Kind::Bool {
                Bit { at: field.at, mask: field.mask } = bit();
            }
            field.null = field.null.map(|_| bit());
        }
        let mut at = bits.div_ceil(8);
        let mut pass = |kinds: &[Kind], bytes: u32| {
            at = at.next_multiple_of(bytes);
            for field in self.fields.iter_mut().filter(|field| kinds.contains(&field.kind)) {
                field.at = at;
                at += bytes;
            }
        };
        pass(&[Kind::Byte], 1);
        pass(&[Kind::Int32], 4);
        pass(&[Kind::Variable], 4);
        pass(&[Kind::Int64, Kind::Double], 8);
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
