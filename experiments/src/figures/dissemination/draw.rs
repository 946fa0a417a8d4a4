//! The plots of the figures.

use super::Results;
use super::study::{CLUSTERS, Point, WAYS};
use crate::figures::changes::Band;
use crate::figures::curves::{Curve, ORANGE, PURPLE, Texts, chart};
use maniple_command::measure::plot::{BLUE, GREEN, SHARDS, VERMILION};

/// Draws all plots. Returns the names of files with their contents.
pub fn all(results: &Results) -> Result<Vec<(String, String)>, String> {
    let study = &results.study;
    let mut pictures = Vec::new();
    for (c, cluster) in CLUSTERS.iter().enumerate() {
        let on =
            format!("on {0} and {0}-mpi, one process per node; bands: each number halved and doubled", cluster.machine);
        for (f, (_, title)) in cluster.figures.iter().enumerate() {
            let points = &study.times.0[c][f];
            let curve = |name: &str, colour, k: usize| {
                let mut curve = Curve::new(name, colour, points.iter().map(|p| (p.nodes, p.values()[k])).collect());
                let band = |(p, bands): (&Point, &[[_; 3]; 2])| {
                    let band: Band = bands[0][k];
                    (p.nodes, band.low, band.high)
                };
                curve.band = points.iter().zip(&study.bands[c][f]).map(band).collect();
                curve
            };
            let curves = [curve("n-way dissemination, best n", BLUE, 0), curve("MPI", VERMILION, 1)];
            let name = format!("{}-{f}.svg", cluster.machine);
            pictures.push((
                name,
                chart(
                    Texts { title, subtitle: &on, horizontal: SHARDS, vertical: "time (µs)" },
                    usize::MAX,
                    &curves,
                    Vec::new(),
                )?,
            ));
        }
        let ns = [(1, BLUE), (2, VERMILION), (3, GREEN), (5, PURPLE), (WAYS, ORANGE)];
        let of_n = ns.map(|(n, colour)| {
            let points = study.times.0[c][0].iter().map(|p| (p.nodes, p.ways_us[n - 1])).collect();
            Curve::new(format!("n = {n}"), colour, points)
        });
        let title = format!("A barrier with n messages a round on {}", cluster.machine);
        let subtitle = "the paper's five cases, or Bruck and Ho's dissemination where these do not exist";
        let texts = Texts { title: &title, subtitle, horizontal: SHARDS, vertical: "time (µs)" };
        pictures.push((format!("{}-n.svg", cluster.machine), chart(texts, usize::MAX, &of_n, Vec::new())?));
    }
    Ok(pictures)
}
