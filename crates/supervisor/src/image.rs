//! The agent's image: an ELF file laid out as it will be in memory.

use object::{Object, ObjectSegment, ObjectSymbol};

use crate::Error;

/// The agent, ready to be placed.
pub struct Image {
    /// Text and constants, which all processes share.
    pub bytes: Vec<u8>,
    /// Room for them: a whole large page.
    pub shared_len: usize,
    /// Length including the private memory that follows.
    pub total_len: usize,
    /// Offset of the first instruction.
    pub start: u64,
    /// Offset of an instruction that makes a system call.
    pub call: u64,
    /// First stage of the bootstrap.
    pub stage1: Vec<u8>,
    /// Second stage of the bootstrap.
    pub stage2: Vec<u8>,
}

impl Image {
    /// Returns an image without an agent in it.
    #[cfg(test)]
    pub fn for_tests(len: usize) -> Image {
        let (stage1, stage2) = (Vec::new(), Vec::new());
        Image {
            bytes: vec![0xcc; len],
            shared_len: len,
            total_len: len,
            start: 0,
            call: 0,
            stage1,
            stage2,
        }
    }

    /// Reads the agent's ELF file.
    pub fn parse(elf: &[u8]) -> Result<Image, Error> {
        let wrong = |what: &str| Error::Image(what.to_owned());
        let file = object::File::parse(elf).map_err(|error| Error::Image(error.to_string()))?;
        let symbol = |name: &str| {
            file.symbols()
                .find(|symbol| symbol.name() == Ok(name))
                .map(|symbol| symbol.address())
                .ok_or_else(|| Error::Image(format!("no symbol {name}")))
        };
        let shared_len = symbol("reenact_image_end")? as usize;
        let total_len = symbol("reenact_total_end")? as usize;
        let mut bytes = Vec::new();
        for segment in file.segments() {
            let data = segment.data().map_err(|error| Error::Image(error.to_string()))?;
            let at = segment.address() as usize;
            // The rest is private memory, which starts as zeros.
            let shared = data.len().min(shared_len.saturating_sub(at));
            if data[shared..].iter().any(|&byte| byte != 0) {
                return Err(wrong("it has initialised private data"));
            }
            if shared != 0 {
                bytes.resize(bytes.len().max(at + shared), 0);
                bytes[at..at + shared].copy_from_slice(&data[..shared]);
            }
        }
        let private = shared_len as u64..total_len as u64;
        let mut relocations = file.dynamic_relocations().into_iter().flatten();
        if relocations.any(|(at, _)| !private.contains(&at)) {
            return Err(wrong("its shared part needs relocation"));
        }
        let part = |from: &str, to: &str| -> Result<Vec<u8>, Error> {
            let range = symbol(from)? as usize..symbol(to)? as usize;
            bytes.get(range).map(<[u8]>::to_vec).ok_or_else(|| wrong("a stage beyond the image"))
        };
        let stage1 = part("reenact_stage1", "reenact_stage1_end")?;
        let stage2 = part("reenact_stage2", "reenact_stage2_end")?;
        let start = symbol("reenact_start")?;
        let call = symbol("reenact_call_for_others")?;
        Ok(Image { bytes, shared_len, total_len, start, call, stage1, stage2 })
    }
}
