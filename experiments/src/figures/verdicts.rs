//! Whether a ratio has the shape that a paper reports, also under changes of a machine's numbers.

use super::changes::Band;
use maniple_command::measure::page::{Cell, Table};
use maniple_command::measure::stats::microseconds;
use serde::Serialize;

/// What came out for a shape of a paper's figures.
#[derive(Debug, Clone, Serialize)]
pub struct Verdict {
    /// What the paper says.
    pub paper: String,
    /// The ratio.
    pub ratio: String,
    /// Its value with the numbers in the files.
    pub value: f64,
    /// Whether that has the shape.
    pub holds: bool,
    /// Its band when one number changes, and when all change.
    pub bands: [Band; 2],
    /// With how many of the changes of one number it has the shape, of how many, and the same of the changes of all.
    pub held: [(usize, usize); 2],
}

impl Verdict {
    /// The verdict on `values` of a ratio: the first without a change, the next `ones` with one number changed, and the others
    /// with all changed.
    pub fn of(paper: &str, ratio: &str, values: &[f64], ones: usize, holds: impl Fn(f64) -> bool) -> Self {
        let held = |values: &[f64]| (values.iter().filter(|value| holds(**value)).count(), values.len());
        let (one, all) = values[1..].split_at(ones);
        Self {
            paper: paper.into(),
            ratio: ratio.into(),
            value: values[0],
            holds: holds(values[0]),
            held: [held(one), held(all)],
            bands: [&values[..=ones], values].map(|set| Band::around(set.iter().copied())),
        }
    }

    /// A line for the terminal.
    pub fn line(&self) -> String {
        let Self { paper, ratio, .. } = self;
        let line = format!("{paper}: {}; {ratio} = {}", said(self.holds), microseconds(self.value));
        match self.held {
            [(_, 0), (_, 0)] => line,
            [one, all] => format!("{line}; with one number changed it {}, with all it {}", held(one), held(all)),
        }
    }
}

/// A range.
pub fn range(band: Band) -> String {
    format!("{} to {}", microseconds(band.low), microseconds(band.high))
}

fn said(holds: bool) -> &'static str {
    if holds { "yes" } else { "no" }
}

/// With how many changes a shape is there.
fn held((held, of): (usize, usize)) -> String {
    format!("holds in {held} of {of}")
}

/// All verdicts, for a page.
pub fn table(verdicts: &[Verdict]) -> Table {
    let mut table = Table::of_words();
    table.head(["the paper", "ratio", "here", "holds", "one number changed", "all at once"]);
    for v in verdicts {
        let said = Cell::from(said(v.holds));
        let said = if v.holds { said } else { said.bad() };
        let [one, all] = [0, 1].map(|i| match v.held[i] {
            (_, 0) => Cell::from("–"),
            of => Cell::from(format!("{}; {}", range(v.bands[i]), held(of))),
        });
        table.row([v.paper.as_str().into(), v.ratio.as_str().into(), microseconds(v.value).into(), said, one, all]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_counts_the_changes_under_which_it_holds() {
        let verdict = Verdict::of("more", "a ÷ b", &[1.5, 0.5, 2.0, 3.0, 0.25], 2, |value| value > 1.0);
        assert!(verdict.holds);
        assert_eq!(verdict.held, [(1, 2), (1, 2)]);
        assert_eq!(verdict.bands, [Band { low: 0.5, high: 2.0 }, Band { low: 0.25, high: 3.0 }]);
        let line = "more: yes; a ÷ b = 1.500; with one number changed it holds in 1 of 2, with all it holds in 1 of 2";
        assert_eq!(verdict.line(), line);
        let alone = Verdict::of("more", "a ÷ b", &[1.5], 0, |value| value > 1.0);
        assert_eq!(alone.line(), "more: yes; a ÷ b = 1.500");
    }
}
