//! Sources of copies are read as written, and invalid ones are refused.

mod sample;

use sample::{everything, open, options};
use trace::Compress;
use trace::event::{BlobId, Content};
use trace::format::kind;
use trace::sources::{Piece, Source, SourcesWriter};

#[test]
fn sources_are_read_as_written() {
    let mut written = Vec::new();
    let bytes = sample::write(options(Compress::Zstd(1), 1), |writer| {
        everything(writer);
        // Enough for several blocks.
        written = sample::sources::write(writer, 20_000);
    });
    let trace = open(&bytes);
    let read: Vec<Source> = trace.sources().map(Result::unwrap).collect();
    assert!(read == written);
    let piece = &read[2].pieces[0];
    assert!(matches!(piece.content(), Content::Blobs { len: 703, .. }));
    assert_eq!(trace.content(&piece.content()).unwrap().len(), 703);
    assert_eq!(trace.unknown_blocks(), 0);
    assert_eq!(trace.verify().problems, []);
}

#[test]
fn a_trace_without_any_has_none() {
    let bytes = sample::write(options(Compress::None, 0), everything);
    assert_eq!(open(&bytes).sources().count(), 0);
}

#[test]
fn a_piece_that_its_buffers_do_not_fill_is_damage() {
    for blobs in [vec![BlobId(0)], vec![BlobId(1 << 40)]] {
        let bytes = sample::write(options(Compress::None, 0), |writer| {
            everything(writer);
            let piece = Piece { offset: 0, len: 7, hash: None, blobs };
            let mut source = Source { pieces: vec![piece], ..Source::default() };
            let mut sources = SourcesWriter::default();
            sources.add(writer, &mut source).unwrap();
            sources.close(writer).unwrap();
        });
        assert!(!open(&bytes).verify().complete);
    }
}

#[test]
fn whatever_stands_in_its_blocks_is_answered() {
    let sound = sample::write(options(Compress::None, 0), |writer| {
        sample::sources::write(writer, 60);
    });
    let mut random = sample::Random(3);
    let mut refused = 0;
    for _ in 0..5_000 {
        let trace = open(&sample::scribble(&sound, kind::SOURCES, &mut random));
        refused += u32::from(trace.sources().any(|source| source.is_err()));
        assert!(trace.sources().filter_map(Result::ok).count() <= 60);
    }
    assert!(refused > 1_000, "{refused}");
}
