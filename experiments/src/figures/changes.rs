//! Changes of a machine's numbers, and the bands of results under them.

use maniple::runtime::VirtualMachine;
use serde::Serialize;

/// A range of values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Band {
    /// The smallest.
    pub low: f64,
    /// The largest.
    pub high: f64,
}

impl Band {
    /// The range of these values.
    pub fn around(values: impl IntoIterator<Item = f64>) -> Self {
        let nothing = Self { low: f64::INFINITY, high: f64::NEG_INFINITY };
        values.into_iter().fold(nothing, |b, v| Self { low: b.low.min(v), high: b.high.max(v) })
    }
}

/// The names of a machine's numbers, with their values. Numbers that are 0 can't be halved or doubled.
pub fn numbers(mut machine: VirtualMachine) -> Vec<(String, f64)> {
    machine.numbers_mut().into_iter().map(|(name, value)| (name, *value)).filter(|(_, value)| *value > 0.0).collect()
}

/// The name of a number, which is the same one for all numbers of shards per processor.
pub fn plain(number: &str) -> String {
    number.split(" with ").next().unwrap_or_default().to_owned()
}

/// The numbers of machines that replay their rounds, each once. `named` gives the name of a number of a machine, by its place.
pub fn numbers_as(
    machines: impl IntoIterator<Item = VirtualMachine>,
    named: impl Fn(usize, &str) -> String,
) -> Vec<(String, f64)> {
    let mut all: Vec<(String, f64)> = Vec::new();
    for (at, machine) in machines.into_iter().enumerate() {
        for (number, value) in numbers(machine) {
            let name = named(at, &number);
            if number != "collectives.round_requirements" && all.iter().all(|(other, _)| *other != name) {
                all.push((name, value));
            }
        }
    }
    all
}

/// Factors on numbers, by their names. All others stay.
#[derive(Debug, Clone, PartialEq)]
pub struct Change(Vec<(String, f64)>);

impl Change {
    /// All of these numbers halved or doubled.
    pub fn each(numbers: &[(String, f64)], mut doubled: impl FnMut(usize, &str) -> bool) -> Self {
        let factor = |(i, (name, _)): (usize, &(String, f64))| (name.clone(), if doubled(i, name) { 2.0 } else { 0.5 });
        Self(numbers.iter().enumerate().map(factor).collect())
    }

    /// One number, halved and doubled.
    pub fn one(name: &str) -> [Self; 2] {
        [0.5, 2.0].map(|factor| Self(vec![(name.to_owned(), factor)]))
    }

    /// All of these numbers halved or doubled at random, the same each time for a `draw`.
    pub fn drawn(numbers: &[(String, f64)], draw: usize) -> Self {
        let mut random = fastrand::Rng::with_seed(draw as u64);
        Self::each(numbers, |_, _| random.bool())
    }

    /// The changes of most studies: none, then each number halved and doubled, then all at random, `draws` times.
    pub fn usual(numbers: &[(String, f64)], draws: usize) -> Vec<Self> {
        let one = numbers.iter().flat_map(|(name, _)| Self::one(name));
        let drawn = (0..draws).map(|draw| Self::drawn(numbers, draw));
        std::iter::once(Self::each(&[], |_, _| false)).chain(one).chain(drawn).collect()
    }

    /// All numbers changed, each so that by itself it makes a value larger. Then each so that it makes it smaller. `each` has
    /// the value with each number halved and doubled.
    pub fn extremes(numbers: &[(String, f64)], each: &[[f64; 2]]) -> [Self; 2] {
        [true, false].map(|most| Self::each(numbers, |i, _| (each[i][1] > each[i][0]) == most))
    }

    /// The factor on a number.
    pub fn factor(&self, name: &str) -> f64 {
        self.0.iter().find(|(other, _)| other == name).map_or(1.0, |(_, factor)| *factor)
    }

    /// The changed machine. `named` gives the name by which this change knows a number.
    pub fn of(&self, mut machine: VirtualMachine, named: impl Fn(&str) -> String) -> VirtualMachine {
        machine.numbers_mut().into_iter().for_each(|(name, value)| *value *= self.factor(&named(&name)));
        machine
    }
}

/// The share of a number in a result, from the results with half and with twice the number.
pub fn share(half: f64, twice: f64) -> f64 {
    (twice / half).ln() / 4_f64.ln()
}

/// A share for people; a dash if it is 0.
pub fn share_text(value: f64) -> String {
    if value.abs() < 0.0005 { "-".into() } else { format!("{value:.3}") }
}
