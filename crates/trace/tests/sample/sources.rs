//! Sources of copies with a bit of everything.

use trace::Writer;
use trace::event::BlobId;
use trace::sources::{Fate, Piece, Source, SourcesWriter};

use super::noise;

/// Writes that many sources, and returns them.
pub fn write(writer: &mut Writer, count: u64) -> Vec<Source> {
    let mut all = SourcesWriter::default();
    let mut written = Vec::new();
    for number in 0..count {
        let mut source = source(writer, number);
        all.add(writer, &mut source).unwrap();
        written.push(source);
    }
    all.close(writer).unwrap();
    written
}

fn source(writer: &mut Writer, number: u64) -> Source {
    let path = format!("/dir/{number}\u{e4}").into_bytes();
    let names = (0..number % 3).map(|name| format!("/name {name}").into_bytes()).collect();
    let pieces = match number % 4 {
        0 => Vec::new(),
        1 => vec![Piece { offset: number, len: 1 << 20, hash: Some(number.into()), blobs: vec![] }],
        _ => {
            let mut blob = |bytes: &[u8]| writer.blob(bytes).unwrap();
            let blobs: Vec<BlobId> = vec![blob(&noise(number, 700)), blob(&noise(number, 3))];
            vec![Piece { offset: 0, len: 703, hash: None, blobs }]
        }
    };
    let fate = Fate::from_wire((number % 9) as u32).unwrap();
    Source { path, names, fate, pieces }
}
