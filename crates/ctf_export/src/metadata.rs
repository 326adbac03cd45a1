//! The metadata: what is in the streams, in CTF's own language (TSDL 1.8).

use std::fmt::Write;

/// How a value is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Type {
    /// A number.
    Number {
        /// 1, 2, 4 or 8.
        bytes: u8,
        /// It may be negative.
        is_signed: bool,
        /// It is shown in base 16.
        is_hex: bool,
    },
    /// Characters and a NUL.
    Text,
    /// Bytes behind their number.
    Bytes,
}

/// A kind of event.
#[derive(Clone, Debug)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// Its fields.
    pub fields: Vec<(String, Type)>,
}

/// What holds for the whole trace.
#[derive(Clone, Debug)]
pub struct Head {
    /// Tells traces apart.
    pub uuid: [u8; 16],
    /// Wall clock at its start, in nanoseconds since 1970.
    pub epoch_ns: u64,
    /// Name of the machine.
    pub host: String,
    /// Release of its kernel.
    pub kernel: String,
    /// Events of the kernel do not tell of all that threads did: of some threads or CPUs alone, or not
    /// of all switches.
    pub is_partial: bool,
}

/// What stands at the beginning of a packet.
pub const MAGIC: u32 = 0xC1FC_1FC1;
/// Nanoseconds in a second.
const SECOND_NS: u64 = 1_000_000_000;

const TYPES: &str = r"
typealias integer { size = 8; align = 8; signed = false; } := uint8_t;
typealias integer { size = 16; align = 8; signed = false; } := uint16_t;
typealias integer { size = 32; align = 8; signed = false; } := uint32_t;
typealias integer { size = 64; align = 8; signed = false; } := uint64_t;
typealias integer { size = 32; align = 8; signed = true; } := int32_t;
";

const STREAM: &str = r#"
typealias integer {
	size = 64; align = 8; signed = false;
	map = clock.monotonic.value;
} := uint64_clock_monotonic_t;

stream {
	id = 0;
	packet.context := struct {
		uint64_clock_monotonic_t timestamp_begin;
		uint64_clock_monotonic_t timestamp_end;
		uint64_t content_size;
		uint64_t packet_size;
		uint64_t packet_seq_num;
		uint64_t events_discarded;
		uint32_t cpu_id;
	};
	event.header := struct {
		uint16_t id;
		uint64_clock_monotonic_t timestamp;
	};
	event.context := struct {
		int32_t _pid;
		int32_t _tid;
		string _procname;
	};
};
"#;

/// LTTng's version whose names and fields these are: readers ask for it.
const LIKE: &str = "\ttracer_major = 2;\n\ttracer_minor = 13;\n\ttracer_patchlevel = 0;\n";

/// By this our own importer knows that threads did more than is there.
const PARTIAL: &str = "\treenact_scope = \"partial\";\n";

/// Writes the metadata.
pub fn text(head: &Head, classes: &[Class]) -> String {
    let mut out = String::from("/* CTF 1.8 */\n");
    out.push_str(TYPES);
    let uuid = uuid(&head.uuid);
    let partial = if head.is_partial { PARTIAL } else { "" };
    // What cannot be written here fails nowhere: a string takes all.
    let _ = write!(
        out,
        "\ntrace {{\n\tmajor = 1;\n\tminor = 8;\n\tuuid = \"{uuid}\";\n\tbyte_order = le;\n\
         \tpacket.header := struct {{\n\t\tuint32_t magic;\n\t\tuint8_t uuid[16];\n\
         \t\tuint32_t stream_id;\n\t}};\n}};\n\nenv {{\n\thostname = \"{}\";\n\
         \tdomain = \"kernel\";\n\tsysname = \"Linux\";\n\tkernel_release = \"{}\";\n\
         \ttracer_name = \"reenact\";\n{LIKE}{partial}}};\n\nclock {{\n\tname = \"monotonic\";\n\
         \tuuid = \"{uuid}\";\n\tdescription = \"Time since the start of the recording\";\n\
         \tfreq = {SECOND_NS};\n\toffset_s = {};\n\toffset = {};\n}};\n",
        quoted(&head.host),
        quoted(&head.kernel),
        head.epoch_ns / SECOND_NS,
        head.epoch_ns % SECOND_NS,
    );
    out.push_str(STREAM);
    for (id, class) in classes.iter().enumerate() {
        let name = quoted(&class.name);
        let _ = write!(
            out,
            "\nevent {{\n\tname = \"{name}\";\n\tid = {id};\n\tstream_id = 0;\n\tfields := struct {{\n"
        );
        for (name, ty) in &class.fields {
            let name = word(name);
            let _ = match ty {
                Type::Number { bytes, is_signed, is_hex } => writeln!(
                    out,
                    "\t\tinteger {{ size = {}; align = 8; signed = {is_signed}; base = {}; }} _{name};",
                    8 * u32::from(*bytes),
                    if *is_hex { 16 } else { 10 },
                ),
                Type::Text => writeln!(out, "\t\tstring _{name};"),
                Type::Bytes => writeln!(
                    out,
                    "\t\tuint32_t __{name}_length;\n\t\tuint8_t _{name}[ __{name}_length ];"
                ),
            };
        }
        out.push_str("\t};\n};\n");
    }
    out
}

/// A name that the language takes as one.
fn word(name: &str) -> String {
    let fits = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' };
    name.chars().map(fits).collect()
}

fn quoted(text: &str) -> String {
    let fits = |c: &char| !c.is_control() && !matches!(c, '"' | '\\');
    text.chars().filter(fits).take(256).collect()
}

fn uuid(bytes: &[u8; 16]) -> String {
    let mut text = String::new();
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_names() {
        assert_eq!(word("a b;c"), "a_b_c");
        assert_eq!(quoted("a\"b\\\n"), "ab");
        let bytes: [u8; 16] = std::array::from_fn(|at| at as u8);
        assert_eq!(uuid(&bytes), "00010203-0405-0607-0809-0a0b0c0d0e0f");
        let head = Head {
            uuid: bytes,
            epoch_ns: 5_000_000_007,
            host: "\"};".into(),
            kernel: "6".into(),
            is_partial: true,
        };
        let class = Class { name: "x".into(), fields: vec![("a-b".into(), Type::Bytes)] };
        let text = text(&head, &[class]);
        assert!(text.contains("reenact_scope = \"partial\";\n};"));
        assert!(text.starts_with("/* CTF 1.8 */") && text.contains("offset_s = 5;\n\toffset = 7;"));
        assert!(
            text.contains("uint8_t _a_b[ __a_b_length ];") && text.contains("hostname = \"};\"")
        );
    }
}
