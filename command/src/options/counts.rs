//! Lists of numbers: of shards, or of elements.

use std::str::FromStr;

/// Numbers from 1, increasing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counts(pub Vec<usize>);

impl FromStr for Counts {
    type Err = String;

    /// Parses numbers and ranges with commas between them. A range `first..last` doubles from the first up to the last.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut counts: Vec<usize> = Vec::new();
        for part in text.split(',') {
            let (first, last) = match part.split_once("..") {
                Some((first, last)) => (positive(first)?, positive(last)?),
                None => (positive(part)?, positive(part)?),
            };
            if last < first {
                return Err(format!("expected a range that grows, found `{part}`"));
            }
            if let Some(&before) = counts.last().filter(|&&before| before >= first) {
                return Err(match before == first {
                    true => format!("expected each number once, found {first} twice"),
                    false => format!("expected increasing numbers, found {first} after {before}"),
                });
            }
            let doubled = |count: &usize| count.checked_mul(2).filter(|next| *next <= last);
            counts.extend(std::iter::successors(Some(first), doubled));
        }
        Ok(Self(counts))
    }
}

fn positive(text: &str) -> Result<usize, String> {
    match text {
        "" => Err("expected numbers, such as `1,2,4` or `1..64`, found an empty text in place of one".into()),
        text => match super::numbers::count(text)? {
            0 => Err("expected at least 1, found 0".into()),
            count => Ok(count),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_ranges() {
        for (text, counts) in [
            ("7", &[7][..]),
            ("1,2,4", &[1, 2, 4]),
            ("1..8", &[1, 2, 4, 8]),
            ("3..13,20", &[3, 6, 12, 20]),
            ("1,2..2,1e3", &[1, 2, 1000]),
            ("18446744073709551615", &[usize::MAX]),
            ("9223372036854775808..18446744073709551615", &[1 << 63]),
        ] {
            assert_eq!(text.parse(), Ok(Counts(counts.to_vec())), "{text}");
        }
    }

    #[test]
    fn texts_that_are_no_lists() {
        for (text, words) in [
            ("", "found an empty text"),
            ("1,,2", "found an empty text"),
            ("1,2,", "found an empty text"),
            ("..4", "found an empty text"),
            ("1..", "found an empty text"),
            ("0", "at least 1, found 0"),
            ("0..4", "at least 1, found 0"),
            ("2,2", "found 2 twice"),
            ("1..8,8", "found 8 twice"),
            ("4,2", "found 2 after 4"),
            ("8..2", "a range that grows, found `8..2`"),
            ("1, 2", "a whole number, such as 16 or 1e3, found ` 2`"),
            ("two", "a whole number, such as 16 or 1e3, found `two`"),
            ("-1", "a whole number, such as 16 or 1e3, found `-1`"),
            ("1,2,…", "a whole number, such as 16 or 1e3, found `…`"),
            ("1e30", "a number up to"),
        ] {
            let message = text.parse::<Counts>().expect_err(text);
            assert!(message.contains(words), "{text}: {message}");
        }
    }
}
