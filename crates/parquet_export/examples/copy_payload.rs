//! Copies a file so many times into another one, with the compression that tables have: what an
//! export is measured beside.
//!
//! `cargo run --release -p tables --example copy_payload -- FILE TIMES OUT`

use std::error::Error;
use std::fs::File;
use std::io::{self, Write};

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [file, times, out] = &words[..] else { return Err("FILE TIMES OUT".into()) };
    let mut encoder = zstd::Encoder::new(File::create(out)?, 1)?;
    for _ in 0..times.parse::<u64>()? {
        io::copy(&mut File::open(file)?, &mut encoder)?;
    }
    encoder.finish()?.flush()?;
    Ok(())
}
