//! Lists of shards.

use super::numbers::count;
use maniple_collectives::Ranks;
use std::str::FromStr;

/// Shards, as ranges from the first to the last. They are not listed before it is known that they exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardList(Vec<(usize, usize)>);

impl FromStr for ShardList {
    type Err = String;

    /// Parses shards and ranges `first-last` with commas between them.
    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| match text {
            "" => Err("expected shards, such as `0-3,7`, found an empty text in place of one".to_owned()),
            // It may be too large.
            text if text.bytes().all(|b| b.is_ascii_digit()) => count(text),
            text => count(text).map_err(|_| format!("expected shards, such as `0-3,7`, found `{text}`")),
        };
        let mut ranges: Vec<(usize, usize)> = Vec::new();
        for part in text.split(',') {
            let (first, last) = match part.split_once('-') {
                Some((first, last)) => (number(first)?, number(last)?),
                None => (number(part)?, number(part)?),
            };
            if last < first {
                return Err(format!("expected a range that grows, found `{part}`"));
            }
            if let Some(&(from, _)) = ranges.iter().find(|(from, to)| first <= *to && *from <= last) {
                return Err(format!("expected each shard once, found {} twice", first.max(from)));
            }
            ranges.push((first, last));
        }
        Ok(Self(ranges))
    }
}

impl ShardList {
    /// The shards, or what is wrong with them if there are only `shards`.
    pub fn ranks(&self, shards: u32) -> Result<Ranks, String> {
        let last = self.0.iter().map(|range| range.1).max().unwrap_or(0);
        if last >= shards as usize {
            return Err(format!("expected shards in 0..{shards}, found {last}"));
        }
        Ok(Ranks::of(self.0.iter().flat_map(|&(first, last)| first as u32..=last as u32)))
    }
}

/// Ranks as on the command line, such as `0-3,7`.
pub fn listed(ranks: &Ranks) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for rank in ranks.iter() {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == rank => *last = rank,
            _ => ranges.push((rank, rank)),
        }
    }
    let range = |&(first, last): &(u32, u32)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    ranges.iter().map(range).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_ranges() {
        for (text, ranks, back) in [
            ("7", &[7][..], "7"),
            ("0-3,7", &[0, 1, 2, 3, 7], "0-3,7"),
            ("9,3-3,0-1", &[0, 1, 3, 9], "0-1,3,9"),
            ("0-9", &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9], "0-9"),
        ] {
            let list: ShardList = text.parse().expect(text);
            let found = list.ranks(10).expect(text);
            assert_eq!((found.iter().collect::<Vec<_>>(), listed(&found)), (ranks.to_vec(), back.to_owned()), "{text}");
        }
        let all: ShardList = "0-18446744073709551615".parse().expect("a list");
        assert_eq!(all.ranks(5), Err("expected shards in 0..5, found 18446744073709551615".into()));
    }

    #[test]
    fn texts_that_are_no_lists() {
        for (text, words) in [
            ("", "found an empty text"),
            ("1,,2", "found an empty text"),
            ("-1", "found an empty text"),
            ("3-", "found an empty text"),
            ("5-2", "a range that grows, found `5-2`"),
            ("2,2", "each shard once, found 2 twice"),
            ("0-5,4-9", "each shard once, found 4 twice"),
            ("4-9,0-5", "each shard once, found 4 twice"),
            ("0..3", "expected shards, such as `0-3,7`, found `0..3`"),
            ("all", "expected shards, such as `0-3,7`, found `all`"),
        ] {
            let message = text.parse::<ShardList>().expect_err(text);
            assert!(message.contains(words), "{text}: {message}");
        }
    }
}
