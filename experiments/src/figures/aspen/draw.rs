//! The plots.

use super::study::{BALANCED, CONCURRENT, NODES, PROGRAMS, Study, VALUES, WORKS};
use crate::figures::curves::{Curve, Texts, Values, chart};
use maniple_command::measure::plot::{BLUE, GREEN, VERMILION};

/// Draws all plots. Returns the names of files with their contents.
pub fn all(studies: &[Study]) -> Result<Vec<(String, String)>, String> {
    let colours = [VERMILION, BLUE, GREEN];
    let mut pictures = Vec::new();
    for study in studies {
        let machine = &study.machine;
        let on = format!("{NODES} nodes of {machine}; bands: each number of the machine halved and doubled");
        let curve = |name: &str, colour, work: usize, k: usize| {
            let points: Values = study.times[work].iter().map(|p| (p.bytes, p.values()[k])).collect();
            let band = study.times[work].iter().zip(&study.bands[work]);
            let band = band.map(|(p, bands)| (p.bytes, bands[0][k].low, bands[0][k].high)).collect();
            Curve { band, ..Curve::new(name, colour, points) }
        };
        let draw = |title: &str, vertical: &str, curves: &[Curve]| {
            let texts = Texts { title, subtitle: &on, horizontal: "bytes of a vector", vertical };
            chart(texts, usize::MAX, curves, Vec::new())
        };
        for (w, work) in WORKS.iter().enumerate() {
            let curves: Vec<Curve> =
                PROGRAMS.iter().zip(colours).enumerate().map(|(k, (name, colour))| curve(name, colour, w, k)).collect();
            let title = format!("Figure 12: {}", work.title);
            pictures.push((format!("{machine}-{}.svg", work.workload.name()), draw(&title, "time (µs)", &curves)?));
        }
        for (k, name) in [(CONCURRENT, "concurrent"), (BALANCED, "balanced")] {
            let curves: Vec<Curve> = WORKS
                .iter()
                .zip(colours)
                .enumerate()
                .map(|(w, (work, colour))| curve(work.title, colour, w, k))
                .collect();
            pictures.push((format!("{machine}-ratio-{name}.svg"), draw(VALUES[k], "ratio", &curves)?));
        }
    }
    Ok(pictures)
}
