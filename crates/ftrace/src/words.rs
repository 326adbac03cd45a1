//! What numbers of fields are called: the part of a format that says how an event is printed names them in
//! `__print_symbolic` and `__print_flags`.

/// Words of one field.
const WORDS_MAX: usize = 256;
/// Fields with words.
const FIELDS_MAX: usize = 32;
/// Expressions within one another.
const DEPTH_MAX: u32 = 64;

/// What the numbers of a field are called.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Words {
    /// The field's name.
    pub field: String,
    /// Its bits are, and not its number as a whole.
    pub are_flags: bool,
    /// Numbers and their words.
    pub all: Vec<(u64, String)>,
}

/// The ways to print a number by words.
const WAYS: [(&str, bool); 2] = [("__print_symbolic(", false), ("__print_flags(", true)];

/// Finds the words in what follows `print fmt:`.
pub fn parse(text: &str) -> Vec<Words> {
    let mut found: Vec<Words> = Vec::new();
    for (way, are_flags) in WAYS {
        let mut rest = text;
        while let Some(at) = rest.find(way) {
            rest = &rest[at + way.len()..];
            let Some(words) = of_one(rest, are_flags) else { continue };
            if found.len() < FIELDS_MAX && found.iter().all(|other| other.field != words.field) {
                found.push(words);
            }
        }
    }
    found
}

/// Reads what is in the parentheses: the number, a separator of flags, and words.
fn of_one(text: &str, are_flags: bool) -> Option<Words> {
    let (number, mut rest) = text.split_once(',')?;
    let field = field_of(number)?.to_string();
    if are_flags {
        // The separator is a string.
        rest = rest.trim_start().strip_prefix('"')?.split_once('"')?.1;
        rest = rest.trim_start().strip_prefix(',')?;
    }
    let mut all = Vec::new();
    while let Some(pair) = rest.trim_start().strip_prefix('{') {
        let (number, after) = pair.split_once(", \"").or_else(|| pair.split_once(",\""))?;
        let (word, after) = after.split_once('"')?;
        // What is spelled with a name of the kernel's has no number here.
        if let Some(number) = value_of(number)
            && all.len() < WORDS_MAX
        {
            all.push((number, word.to_string()));
        }
        rest = after.trim_start().strip_prefix('}')?.trim_start();
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
    // Behind those of flags may stand what is printed where none is set.
    if are_flags
        && let Some(none) = rest.trim_start().strip_prefix(") : \"")
        && let Some((word, _)) = none.split_once('"')
    {
        all.push((0, word.to_string()));
    }
    (!all.is_empty()).then_some(Words { field, are_flags, all })
}

/// The field whose number is printed, if nothing but bits are taken from it.
fn field_of(number: &str) -> Option<&str> {
    if number.contains(">>") || number.matches("REC->").count() != 1 {
        return None;
    }
    let (before, after) = number.split_once("REC->")?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let end = after.find(|c| !is_name(c)).unwrap_or(after.len());
    let behind = after[end..].trim_start();
    let is_plain = before.trim().trim_start_matches('(').is_empty();
    (is_plain && (behind.is_empty() || behind.starts_with(['&', ')']))).then_some(&after[..end])
}

/// The value of an expression of numbers, as the C preprocessor leaves them.
fn value_of(text: &str) -> Option<u64> {
    let mut from = Expression { rest: text, depth: 0 };
    let value = from.binary(0)?;
    from.rest.trim().is_empty().then_some(value)
}

struct Expression<'a> {
    rest: &'a str,
    depth: u32,
}

/// Operators with two sides, by how strongly they bind.
const OPERATORS: [&[&str]; 5] = [&["|"], &["^"], &["&"], &["<<", ">>"], &["+", "-"]];

impl Expression<'_> {
    fn take(&mut self, token: &str) -> bool {
        match self.rest.trim_start().strip_prefix(token) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn binary(&mut self, level: usize) -> Option<u64> {
        let Some(operators) = OPERATORS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        loop {
            let Some(operator) = operators.iter().find(|operator| self.take(operator)) else {
                return Some(left);
            };
            let right = self.binary(level + 1)?;
            left = match *operator {
                "|" => left | right,
                "^" => left ^ right,
                "&" => left & right,
                "<<" => left.checked_shl(u32::try_from(right).ok()?)?,
                ">>" => left.checked_shr(u32::try_from(right).ok()?)?,
                "+" => left.wrapping_add(right),
                _ => left.wrapping_sub(right),
            };
        }
    }

    fn unary(&mut self) -> Option<u64> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return None;
        }
        let value = self.one();
        self.depth -= 1;
        value
    }

    fn one(&mut self) -> Option<u64> {
        if self.take("~") {
            return self.unary().map(|value| !value);
        }
        if self.take("-") {
            return self.unary().map(u64::wrapping_neg);
        }
        if !self.take("(") {
            return self.number();
        }
        let inside = self.rest.trim_start();
        if inside.starts_with(|c: char| c.is_ascii_alphabetic()) {
            // A type: what follows is converted to it.
            self.rest = inside.split_once(')')?.1;
            return self.unary();
        }
        let value = self.binary(0)?;
        self.take(")").then_some(value)
    }

    fn number(&mut self) -> Option<u64> {
        let text = self.rest.trim_start();
        let end = text.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(text.len());
        let (digits, rest) = text.split_at(end);
        let digits = digits.trim_end_matches(['U', 'L', 'u', 'l']);
        let value = match digits.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok()?,
            None => digits.parse().ok()?,
        };
        self.rest = rest;
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(field: &str, are_flags: bool, all: &[(u64, &str)]) -> Words {
        let all = all.iter().map(|(number, word)| (*number, word.to_string())).collect();
        Words { field: field.into(), are_flags, all }
    }

    #[test]
    fn words_of_numbers_and_of_flags() {
        let softirq = r#""vec=%u [action=%s]", REC->vec, __print_symbolic(REC->vec, { 0, "HI" }, { 3, "NET_RX" })"#;
        assert_eq!(parse(softirq), [words("vec", false, &[(0, "HI"), (3, "NET_RX")])]);
        let lock = r#""%p (flags=%s)", REC->lock_addr, __print_flags(REC->flags, "|", { (1U << 0), "SPIN" }, { (1U << 5), "MUTEX" } )"#;
        assert_eq!(parse(lock), [words("flags", true, &[(1, "SPIN"), (32, "MUTEX")])]);
        let state = r#"(REC->prev_state & (((0x1 | 0x2) + 1) << 1)) ? __print_flags(REC->prev_state & ((0x3 + 1) - 1), "|", { 0x1, "S" }) : "R""#;
        assert_eq!(parse(state), [words("prev_state", true, &[(1, "S"), (0, "R")])]);
    }

    #[test]
    fn parts_of_numbers_have_no_words() {
        let priority =
            r#"__print_symbolic((((REC->ioprio) >> 13) & (8 - 1)), { 1, "rt" }, { 2, "be" })"#;
        assert_eq!(parse(priority), []);
        assert_eq!(parse(r#"__print_symbolic(REC->a + REC->b, { 1, "x" })"#), []);
        assert_eq!(parse(r#"__print_symbolic(REC->a, { SOME_NAME, "x" })"#), []);
        assert_eq!(parse(r#"__print_flags(REC->a"#), []);
        assert_eq!(parse(r#"__print_symbolic(REC->a, { 1, "x"#), []);
    }

    #[test]
    fn expressions_as_the_preprocessor_leaves_them() {
        let value = |text: &str| value_of(text);
        assert_eq!(value("( gfp_t)((((1UL))) << (6))"), Some(64));
        assert_eq!(value("(1 << 3) | 1 + 2 & ~1"), Some(10));
        assert_eq!(value("0x00000010"), Some(16));
        assert_eq!(value("1 << 64"), None);
        assert_eq!(value(""), None);
        assert_eq!(value("(1"), None);
        assert_eq!(value(&"(".repeat(100_000)), None);
        assert_eq!(value(&"~".repeat(100_000)), None);
    }
}
