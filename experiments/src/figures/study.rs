//! The engine of the studies: the points of a paper's figures on machines as they are and with their numbers changed, and the bands,
//! shares and verdicts that follow from them.

use super::changes::{Band, Change, share};
use super::verdicts::Verdict;
use maniple_command::Failure;

/// A point of a figure.
pub trait Point {
    /// Its place on the horizontal axis.
    fn at(&self) -> usize;
    /// Its results. All points of a study have the same ones, in the same order.
    fn values(&self) -> Vec<f64>;
}

/// The points of each figure of a paper.
pub type Figures<P> = Vec<Vec<P>>;

/// A number that follows from the points of all figures.
pub type Ratio<P> = dyn Fn(&Figures<P>) -> f64;

/// A shape of the paper's figures: a ratio of results in some range.
pub struct Shape<P> {
    /// What the paper says.
    pub paper: String,
    /// The ratio.
    pub ratio: String,
    /// How the names of the numbers begin that may change the ratio.
    pub numbers: &'static [&'static str],
    /// The value of the ratio.
    pub of: Box<Ratio<P>>,
    /// Whether a value has the shape.
    pub holds: fn(f64) -> bool,
}

/// The shares of a number of the machines in results: d ln(result) / d ln(number), between half and twice the number. If all
/// numbers are times, their shares in a time add up to 1.
pub struct Share {
    /// The name of the number.
    pub number: String,
    /// Its value in the file.
    pub value: f64,
    /// Its shares in all results of some points.
    pub of: Vec<Vec<f64>>,
}

/// All points of a paper under all changes.
pub struct Study<P> {
    /// The numbers that are changed, with their values.
    pub numbers: Vec<(String, f64)>,
    /// The points without a change, then with each number halved and doubled, then with all numbers changed.
    all: Vec<Figures<P>>,
}

impl<P: Point + 'static> Study<P> {
    /// Changes the numbers, all of them `draws` times at random, and so that each of the ratios becomes largest and smallest.
    /// `run` gives the points under each change.
    ///
    /// # Errors
    /// The errors of `run`.
    pub fn make<'a>(
        numbers: Vec<(String, f64)>,
        draws: usize,
        ratios: impl Iterator<Item = &'a Ratio<P>>,
        mut run: impl FnMut(&[Change]) -> Result<Vec<Figures<P>>, Failure>,
    ) -> Result<Self, Failure> {
        let all = run(&Change::usual(&numbers, draws))?;
        let mut study = Self { numbers, all };
        let extremes = ratios.flat_map(|of| {
            let each: Vec<[f64; 2]> = study.each().map(|two| two.map(of)).collect();
            Change::extremes(&study.numbers, &each)
        });
        let extremes: Vec<Change> = extremes.collect();
        study.all.extend(run(&extremes)?);
        Ok(study)
    }

    /// The points without a change.
    pub fn figures(&self) -> &Figures<P> {
        &self.all[0]
    }

    /// The points with each number halved and doubled.
    fn each(&self) -> impl Iterator<Item = [&Figures<P>; 2]> {
        self.all[1..=2 * self.numbers.len()].chunks_exact(2).map(|two| [&two[0], &two[1]])
    }

    /// The band of a value when one number changes, and when all change.
    pub fn band(&self, of: impl Fn(&Figures<P>) -> f64) -> [Band; 2] {
        [&self.all[..=2 * self.numbers.len()], &self.all].map(|set| Band::around(set.iter().map(&of)))
    }

    /// Such bands of all results of a point.
    fn bands_of(&self, figure: usize, place: usize) -> [Vec<Band>; 2] {
        let values = self.figures()[figure][place].values().len();
        let bands = (0..values).map(|k| self.band(|figures| figures[figure][place].values()[k]));
        let (one, all) = bands.map(|[one, all]| (one, all)).unzip();
        [one, all]
    }

    /// Such bands of all results of all points.
    pub fn bands(&self) -> Figures<[Vec<Band>; 2]> {
        let of_figure = |(f, points): (usize, &Vec<P>)| (0..points.len()).map(|i| self.bands_of(f, i)).collect();
        self.figures().iter().enumerate().map(of_figure).collect()
    }

    /// A value with each number halved and doubled, in the order of [`numbers`](Self::numbers).
    pub fn with_each(&self, of: impl Fn(&Figures<P>) -> f64) -> Vec<[f64; 2]> {
        self.each().map(|two| two.map(&of)).collect()
    }

    /// The shares of each number in the first `results` of some points, given by figure and place.
    pub fn shares(&self, points: &[(usize, usize)], results: usize) -> Vec<Share> {
        let shares = |([half, twice], (number, value)): ([&Figures<P>; 2], &(String, f64))| {
            let at = |&(figure, place): &(usize, usize)| {
                let [half, twice] = [half, twice].map(|figures| figures[figure][place].values());
                half.iter().zip(twice).take(results).map(|(half, twice)| share(*half, twice)).collect()
            };
            Share { number: number.clone(), value: *value, of: points.iter().map(at).collect() }
        };
        self.each().zip(&self.numbers).map(shares).collect()
    }

    /// Whether a shape is there, also under the changes that may affect it.
    pub fn verdict(&self, shape: &Shape<P>) -> Verdict {
        self.verdict_on(shape, self.figures())
    }

    /// Whether a shape is there in other points, and with changes in the points of this study.
    pub fn verdict_on(&self, shape: &Shape<P>, figures: &Figures<P>) -> Verdict {
        let (one, all) = self.all[1..].split_at(2 * self.numbers.len());
        let affects = |number: &str| shape.numbers.iter().any(|start| number.starts_with(start));
        let numbers = self.numbers.iter().flat_map(|(number, _)| [number; 2]);
        let one = one.iter().zip(numbers).filter(|(_, number)| affects(number)).map(|(figures, _)| figures);
        let one: Vec<f64> = one.map(&shape.of).collect();
        let values = [vec![(shape.of)(figures)], one.clone(), all.iter().map(&shape.of).collect()].concat();
        Verdict::of(&shape.paper, &shape.ratio, &values, one.len(), shape.holds)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Checks that bands hold the values, and the wide ones also the narrow ones.
    pub fn bands_hold_the_values(points: &[impl Point], bands: &[[Vec<Band>; 2]]) {
        assert_eq!(points.len(), bands.len());
        for (point, [one, all]) in points.iter().zip(bands) {
            for ((value, one), all) in point.values().into_iter().zip(one).zip(all) {
                assert!(all.low <= one.low && one.low <= value, "{value}, {one:?}, {all:?}");
                assert!(value <= one.high && one.high <= all.high, "{value}, {one:?}, {all:?}");
            }
        }
    }
}
