//! Suggestions for words that are misspelt.

/// Returns the known word that is closest to `word`, if it is close.
pub fn closest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let distances = known.iter().map(|other| (strsim::damerau_levenshtein(word, other), *other));
    let (distance, best) = distances.min()?;
    // One change in every three characters.
    (distance * 3 <= best.len().max(word.len())).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_words_are_suggested() {
        let known = ["calls", "files", "sizes", "durability"];
        assert_eq!(closest("fils", &known), Some("files"));
        assert_eq!(closest("durabilty", &known), Some("durability"));
        assert_eq!(closest("x", &known), None);
        assert_eq!(closest("", &known), None);
    }
}
