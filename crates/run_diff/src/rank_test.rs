//! Whether values of two sides differ by more than chance: the exact test of Mann and Whitney.
//!
//! If both sides were alike, each choice of which values are of which side would be as likely as any
//! other. Of all these choices, p is the share in which the ranks of a side sum up to something at least
//! as far from what is expected. Nothing is assumed of how times are distributed, and few runs are no
//! obstacle but for this: of 3 runs a side p is 0.1 at least, of 4 runs 0.03, of 5 runs 0.008.

/// p below this is called significant.
pub const SIGNIFICANT: f64 = 0.05;
/// Limit for the values of both sides together.
pub const VALUES_MAX: usize = 64;

/// Returns p, two-sided; `None` if a side has no value, or both have but one.
pub fn p_value(a: &[f64], b: &[f64]) -> Option<f64> {
    let all = a.len() + b.len();
    if a.is_empty() || b.is_empty() || !(3..=VALUES_MAX).contains(&all) {
        return None;
    }
    let ranks = doubled_ranks(a, b);
    let found: usize = ranks[..a.len()].iter().sum();
    // Twice the mean of the sum of ranks of so many values: n (N + 1) / 2.
    let expected = a.len() * (all + 1);
    let distance = found.abs_diff(expected);
    let ways = ways(&ranks, a.len());
    let far = ways.iter().enumerate().filter(|(sum, _)| sum.abs_diff(expected) >= distance);
    let far: f64 = far.map(|(_, ways)| ways).sum();
    Some((far / ways.iter().sum::<f64>()).min(1.0))
}

/// Returns twice the rank of each value: values that are equal share the mean of their ranks.
fn doubled_ranks(a: &[f64], b: &[f64]) -> Vec<usize> {
    let all: Vec<f64> = a.iter().chain(b).copied().collect();
    let rank = |value: &f64| {
        let below = all.iter().filter(|other| *other < value).count();
        let same = all.iter().filter(|other| *other == value).count();
        2 * below + same + 1
    };
    all.iter().map(rank).collect()
}

/// Returns in how many ways so many of the ranks give each sum.
fn ways(ranks: &[usize], chosen: usize) -> Vec<f64> {
    let most: usize = ranks.iter().sum();
    let mut ways = vec![vec![0.0; most + 1]; chosen + 1];
    ways[0][0] = 1.0;
    for rank in ranks {
        for number in (1..=chosen).rev() {
            let (fewer, more) = ways.split_at_mut(number);
            let (from, to) = (&fewer[number - 1], &mut more[0]);
            for sum in *rank..=most {
                to[sum] += from[sum - rank];
            }
        }
    }
    ways.pop().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(a: &[f64], b: &[f64], expected: f64) {
        let found = p_value(a, b).unwrap();
        assert!((found - expected).abs() < 1e-9, "{found}");
    }

    #[test]
    fn values_are_those_of_the_tables() {
        check(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0], 0.1);
        check(&[5.0, 6.0, 7.0, 8.0], &[1.0, 2.0, 3.0, 4.0], 2.0 / 70.0);
        // All 252 choices, counted one by one, give this.
        check(&[1.1, 2.2, 3.3, 4.4, 5.5], &[2.0, 3.0, 4.0, 5.0, 6.0], 0.690_476_190_476_190_5);
        check(&[1.0; 5], &[1.0; 5], 1.0);
        // Half of the choices of two out of four are at least as far with these equal values.
        check(&[1.0, 1.0], &[1.0, 2.0], 1.0);
        check(&[1.0, 1.0], &[2.0, 2.0], 1.0 / 3.0);
    }

    #[test]
    fn one_value_a_side_tells_nothing() {
        assert_eq!(p_value(&[1.0], &[2.0]), None);
        assert_eq!(p_value(&[], &[2.0, 3.0]), None);
        assert!(p_value(&[1.0; VALUES_MAX], &[2.0]).is_none());
        check(&[1.0], &[2.0, 3.0, 4.0], 0.5);
        assert!(p_value(&vec![1.0; 32], &vec![2.0; 32]).unwrap() < 1e-9);
    }
}
