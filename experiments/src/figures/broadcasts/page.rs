//! The report.

use super::{CLUSTERS, Factored, GAIN, GAINS, Results, TILE, WAYS, WINDOW, most};
use crate::figures::curves::{Curve, ORANGE, PURPLE, Plot};
use crate::figures::report::Figure;
use crate::figures::study::Point;
use crate::figures::verdicts;
use maniple_command::measure::page::{Page, Table, escaped};
use maniple_command::measure::plot::{BLUE, GREEN, VERMILION};
use maniple_command::measure::stats::microseconds;
use plotters::style::RGBColor;
use std::fmt::Write;
use std::iter::once;
use std::path::Path;

const COLOURS: [RGBColor; 4] = [VERMILION, BLUE, ORANGE, GREEN];
/// The curves of Figure 2.
const SENT_NAMES: [&str; 4] = ["linear", "binomial", "linear, one to each peer", "binomial, one to each peer"];

const TILES: &str = "rows of tiles";

/// The heads of the columns of a factorisation.
fn heads() -> impl Iterator<Item = &'static str> {
    once(TILES).chain(WAYS.iter().map(|way| way.name)).chain(GAINS.iter().map(|(name, _)| *name))
}

/// The plots. One point makes no curve.
pub fn plots(results: &Results, two: &Figure, figures: &[Figure]) -> Vec<Plot> {
    let bands = "bands: numbers of the machine halved and doubled";
    let sent = SENT_NAMES.iter().zip(COLOURS).enumerate();
    let sent: Vec<Curve> = sent.map(|(k, (name, colour))| two.curve(*name, colour, k)).collect();
    let mut plots = vec![Plot {
        horizontal: "nodes that get it",
        vertical: "time (ms)",
        ..Plot::new("figure-2.svg", "Figure 2: 8 MB to several nodes", bands, sent)
    }];
    let windows: Vec<(usize, f64)> = results.windows.iter().map(|w| (w.window as usize, 100.0 * w.in_time)).collect();
    let (tiles, nodes) = results.with_windows;
    plots.push(Plot {
        horizontal: "window (tasks)",
        vertical: "share (%)",
        ..Plot::new(
            "windows.svg",
            "Recipients that are found before the message leaves",
            &format!("{tiles} rows of tiles on {nodes} nodes of inti"),
            vec![Curve::new("found in time", BLUE, windows)],
        )
    });
    if results.factored[0].len() < 2 {
        return plots;
    }
    for (cluster, figure) in CLUSTERS.iter().zip(figures) {
        let name = format!("{} nodes of {}", cluster.nodes, cluster.machine);
        let at = |horizontal| move |plot: Plot| Plot { horizontal, ..plot };
        let times = WAYS.iter().zip(COLOURS).enumerate().map(|(k, (way, colour))| figure.curve(way.name, colour, k));
        let file = format!("{}-{}.svg", cluster.machine, cluster.nodes);
        let title = format!("{}: {name}", cluster.figure);
        let plot = Plot { vertical: "time (ms)", ..Plot::new(&file, title, bands, times.collect()) };
        plots.push(at(TILES)(plot));
        let gains = GAINS.iter().zip([BLUE, ORANGE, GREEN]).enumerate();
        let gains = gains.map(|(k, ((gain, _), colour))| figure.curve(*gain, colour, GAIN + k));
        let file = format!("{}-{}-gains.svg", cluster.machine, cluster.nodes);
        plots.push(at(TILES)(Plot::new(&file, format!("Gains on {name}"), bands, gains.collect()).ratios()));
    }
    let trees = CLUSTERS.iter().zip(figures).zip([PURPLE, ORANGE, BLUE]);
    let trees = trees.map(|((cluster, of), colour)| of.curve(format!("{} nodes", cluster.nodes), colour, GAIN));
    let title = "What dynamic broadcasts gain";
    plots.push(Plot { horizontal: TILES, ..Plot::new("gains.svg", title, bands, trees.collect()).ratios() });
    plots
}

/// The summary for the terminal.
pub fn summary(results: &Results, two: &Figure, figures: &[Figure], output: &Path) -> String {
    let mut text = String::from("Broadcasts that are found in a flow of tasks, in virtual time\n");
    text += &two.summary(once("recipients").chain(SENT_NAMES).chain(once("its band")));
    for figure in figures {
        text += &figure.summary(heads().chain(once("its band")));
    }
    for w in &results.windows {
        let _ = writeln!(text, "window {}: {:.2} % of the recipients found in time", w.window, 100.0 * w.in_time);
    }
    for verdict in &results.verdicts {
        let _ = writeln!(text, "{}", verdict.line());
    }
    text + &format!("report: {}\n", output.join("index.html").display())
}

/// What came out of the runs with all sizes.
fn what_came_out(results: &Results) -> [String; 3] {
    let percent = |gain: f64| format!("{:.0} %", (gain - 1.0) * 100.0);
    let largest = |k: usize| {
        let largest = |points: &Vec<Factored>| percent(most(points.iter().map(|p| p.values()[GAIN + k])));
        let all: Vec<String> = results.factored.iter().map(largest).collect();
        all.join(", ")
    };
    let last =
        |points: &Vec<Factored>| points.last().map_or(String::new(), |p| format!("{:.1} %", (p.gain() - 1.0) * 100.0));
    let last: Vec<String> = results.factored.iter().map(last).collect();
    let nodes: Vec<String> = CLUSTERS.iter().map(|cluster| cluster.nodes.to_string()).collect();
    let nodes = nodes.join(", ");
    [
        format!(
            "<b>The gain</b> of trees on {nodes} nodes is at most {}; the paper reports 25 %, 20 % and 30 %. As there, it is larger on \
             100 nodes of inti than on 64, and it is small for large matrices: {} with the largest ones here. On 16 nodes it is smaller than in the paper. Omni-Path \
             sends a tile in 66 µs while a kernel takes a millisecond, so a linear broadcast to at most 6 nodes delays little. With half the \
             speed of the network, which the band shows, the gain there is nearly twice as large. What else the paper’s software adds to a message \
             is not in the model.",
            largest(0),
            last.join(", "),
        ),
        format!(
            "<b>Pacing</b> gains as much without any tree: {}. Messages that share a line all come late, and of those that leave one by \
             one, the most urgent come early. Both together gain {}. So most of what trees gain is what sharing loses. A tree still \
             helps where one tile is urgent on many nodes.",
            largest(1),
            largest(2)
        ),
        "The ways with one message at a time differ by up to 6 %. Eight levels of priority are too few to tell all tasks apart. Within \
         a level the values for the task that was launched first leave first. For this program that order alone is about as good as the \
         priorities: without them a run takes up to 4 % less time, and up to 6 % more."
            .into(),
    ]
}

/// The page, with its plots.
pub fn page(results: &Results, two: &Figure, figures: &[Figure], pictures: &[(String, String)]) -> Page {
    let mut page = Page::new("Broadcasts that are found in a flow of tasks");
    page.paragraph(&format!(
        "“Using Dynamic Broadcasts to improve Task-Based Runtime Performances” (Denis, Jeannot, Swartvagher, Thibault, 2020) finds \
         the broadcasts in a graph of tasks and sends them along binomial trees. Its Figure 2 has the time of one broadcast, its \
         Figures 4 and 5 those of Cholesky factorisations. Here the command’s own factorisation runs in virtual time, on machines \
         whose numbers are from data sheets and have their reasons in their files. A tile is one number, which stands for a tile of \
         {TILE} × {TILE} numbers of 64 bits in messages, and the machine gives the kernels’ times. Every run compares the factor with a \
         closed form, and the number of transfers with the number of nodes that need each tile."
    ));
    page.paragraph(
        "The paper’s library, NewMadeleine, may have one large message to each other node under way, and messages that leave a node at \
         once share its line. The first two ways below stand for it. In the others one large message at a time leaves a node, the most \
         urgent one first (pacing). The last two have no priorities, neither for tasks nor for messages.",
    );
    page.paragraph(
        "Figure 2 has both. If all messages of a node share its line, a binomial broadcast to 2ᵏ − 1 nodes takes as long as k(k+1)/2 \
         messages: the root’s k messages all end late. One at a time it takes as long as k. The paper reports times in the order of the \
         logarithm and gives no numbers. Its library may send a broadcast’s own messages one after the other. Then its trees gain more \
         in Figures 4 and 5 than the ones here with one message to each peer.",
    );
    page.section("Comparison with the paper");
    page.table(&verdicts::table(&results.verdicts));
    let most = CLUSTERS.iter().zip(&results.factored).map(|(cluster, points)| {
        let most = points.iter().map(|point| point.most).max().unwrap_or(0);
        let side = cluster.nodes.isqrt();
        format!("{} nodes: at most {most} recipients of a tile; 2√P − 2 = {}", cluster.nodes, 2 * side - 2)
    });
    if results
        .factored
        .iter()
        .all(|points| points.last().is_some_and(|p| p.tiles == super::TILES[super::TILES.len() - 1]))
    {
        what_came_out(results).iter().for_each(|text| page.paragraph(text));
    }
    page.paragraph("The paper’s §5.2 expects a number of recipients in the order of √P:");
    page.list(most);
    page.section("Plots");
    page.plots(pictures.iter().map(|(_, picture)| picture.as_str()));
    page.section("Times");
    page.paragraph(
        "A gain is the time of the first way divided by another one’s: of the tree, with one message to each peer under way; of \
         pacing, with linear broadcasts; and of both together. In parentheses is the band when numbers of the machines are halved \
         or doubled, one group at a time: bytes on the network, latency and messages, kernels, the runtime. All machines \
         have the same change.",
    );
    page.paragraph(&escaped(&two.title));
    page.table(&two.table(once("recipients").chain(SENT_NAMES)));
    for figure in figures {
        page.paragraph(&escaped(&figure.title));
        page.table(&figure.table(heads()));
    }
    page.section("Windows");
    let (tiles, nodes) = results.with_windows;
    page.paragraph(&format!(
        "A node launches at most a window of tasks ahead. A recipient that is found after the message has left gets a message of \
         its own. The table has the share of recipients that joined a message in time; the first one of a tile is always in time. (The \
         paper counts otherwise: 98 % of its broadcasts have all their recipients.) With {tiles} rows of tiles on {nodes} nodes of inti; \
         in all other runs the window is {WINDOW}."
    ));
    let mut table = Table::of_figures();
    table.head(["window", "found in time", "time (ms)"]);
    for w in &results.windows {
        table.row([w.window.to_string(), format!("{:.2} %", 100.0 * w.in_time), microseconds(w.ms)]);
    }
    page.table(&table);
    page
}
