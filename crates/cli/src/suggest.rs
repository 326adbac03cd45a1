//! Suggestions for words that are misspelt.

/// Returns the known word that is closest to `word`, if it is close.
pub fn closest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let distances = known.iter().map(|other| (strsim::damerau_levenshtein(word, other), *other));
    // Of several that are as close, the one that has the same letters.
    let alike = |other: &str| strsim::jaro_winkler(word, other);
    let (distance, best) =
        distances.min_by(|a, b| a.0.cmp(&b.0).then(alike(b.1).total_cmp(&alike(a.1))))?;
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
        assert_eq!(closest("writen", &["writes", "written"]), Some("written"));
        assert_eq!(closest("", &known), None);
    }
}
