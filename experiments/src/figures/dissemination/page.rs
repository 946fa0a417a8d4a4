//! The page of the report, with its plots.

use super::call::Operation;
use super::targets::{Breakdown, MACHINE, Row, Targets, WAYS_BESIDE_RADIX};
use super::{
    Difference, FDR, FIGURES, Machines, NAMES, Point, QDR, Results, SHAPES, WAYS, by_cluster, of, on_both, ways,
};
use crate::figures::changes::{Band, share_text};
use crate::figures::report::{self, Figure};
use crate::figures::verdicts::{self, range};
use maniple::collectives::Algorithm;
use maniple_command::measure::page::{Cell, Page, Table, escaped};
use maniple_command::measure::stats::microseconds;
use maniple_stencil::plural;

/// A difference from the paper, in words.
fn different(difference: Difference, machines: &Machines, study: &Results) -> String {
    let number = |name: &str| machines.number(QDR, name);
    match difference {
        Difference::Clusters => {
            let same = on_both(&study.times).all(|[fdr, qdr]| fdr.best() == qdr.best());
            let same = if same { "With equally many nodes the best n is the same on both. " } else { "" };
            let message = number("network.send_ns") + number("costs.replayed_ns");
            let doubling = of(&study.times, QDR, Operation::Barrier).iter().find(|point| point.nodes == 32);
            let doubling = doubling.map_or(String::new(), |point| {
                format!(
                    " The paper's 8 µs for a barrier of 32 nodes are near what n = 1 takes here, {} µs.",
                    microseconds(point.ways_us[0])
                )
            });
            format!(
                "<b>FDR and QDR</b>. The paper's barrier gains much on FDR and little on QDR. Here it gains a little more on QDR. \
                 Larger n also helps more there: the latency is longer, so a saved round is worth more. {same}The paper explains \
                 the difference by FDR's higher rate of messages. In the model that rate hardly matters: a process needs \
                 {message} ns for a message on QDR, and the adapter's gap is {} ns.{doubling}",
                number("network.gap_ns")
            )
        }
        Difference::Operations => {
            let last = |operation| of(&study.times, FDR, operation).last();
            let both = last(Operation::Sum(1)).zip(last(Operation::Barrier));
            let both = both.map_or(String::new(), |(sum, barrier)| {
                let [sum_us, barrier_us] = [sum, barrier].map(|point| microseconds(point.us()));
                format!(" ({sum_us} and {barrier_us} µs on {} nodes with FDR)", sum.nodes)
            });
            format!(
                "<b>Barrier and allreduce</b>. By dissemination, an allreduce of 1 element takes hardly longer than a \
                 barrier{both}. The paper explains the difference by the time to combine, but to combine single numbers takes \
                 next to no time in the model. With some numbers of nodes the allreduce keeps a value for the last round, which \
                 a barrier need not. Still the allreduce gains a little more: if the number of nodes is no power of two, MPI's \
                 recursive doubling takes a round more than the dissemination in its barrier."
            )
        }
        Difference::Elements => format!(
            "<b>1 and 255 elements on QDR</b>. The paper finds no gain for 1 element, and a large one for 255. Here both gain, \
             and 255 gain less. Each of the n messages of 2 KiB keeps the wire busy for {:.1} µs and must be combined, while MPI \
             sends one a round. The machine files explain neither why dissemination was slow with 1 element, nor why MPI was slow \
             with 255. The paper names the work of combining, and jitter, to which more messages at a time are more exposed. \
             The model has no jitter.",
            255.0 * 8.0 * number("network.byte_ns") / 1000.0
        ),
    }
}

/// All differences from the paper, each with what happens to it under changes of one number.
fn differences(machines: &Machines, study: &Results) -> Vec<String> {
    let shapes = || SHAPES.iter().zip(&study.verdicts).filter(|(_, verdict)| !verdict.holds);
    let mut known: Vec<Difference> = Vec::new();
    for difference in shapes().filter_map(|(shape, _)| shape.difference) {
        if !known.contains(&difference) {
            known.push(difference);
        }
    }
    let text = |difference: Difference| {
        let of = shapes().filter(|(shape, _)| shape.difference == Some(difference));
        let stays = of.map(|(_, verdict)| verdict.held[0].0).max() == Some(0);
        let stays = if stays { " This stays when any single number is halved or doubled." } else { "" };
        different(difference, machines, study) + stays
    };
    known.into_iter().map(text).collect()
}

/// Bruck and Ho's algorithm beside the five cases.
fn bruck_and_ho(study: &Results) -> String {
    let times = study.times.iter().flatten().zip(study.bruck_us.iter().flatten());
    let ratios: Vec<f64> = times.map(|(point, bruck)| bruck / point.us()).collect();
    let change = |ratio: f64| format!("{:+.1} %", 100.0 * (ratio - 1.0));
    let Band { low, high } = Band::around(ratios);
    format!(
        "With Bruck and Ho's algorithm in place of the five cases, the times in these figures change by {} to {}.",
        change(low),
        change(high)
    )
}

/// The page.
pub fn page(
    machines: &Machines,
    study: &Results,
    figures: &[Figure],
    targets: &Targets,
    pictures: &[(String, String)],
) -> Page {
    let mut page = Page::new("n-way dissemination and MPI in virtual time");
    page.paragraph(
        "“Adaption of the n-way Dissemination Algorithm for GASPI Split-Phase Allreduce” (End, Yahyapour, Simmendinger and \
         Alrutz, 2015) measures barriers and allreduces by n-way dissemination on two clusters, beside MPI. Here the collectives of \
         this framework run on these clusters in virtual time, with one process on each node, which waits for a call before it makes \
         the next. Sums are verified against a loop over the processes. Barriers are verified by the clock: none may leave before \
         the last has come. Nothing was fitted: times follow from the algorithm and from the machine's file, which gives a reason \
         for each number. The paper gives no such numbers, and only two of its times in words.",
    );
    page.list(machines.about().map(escaped));
    page.paragraph(
        "Dissemination is the paper's: its five cases, without an inverse, or Bruck and Ho's algorithm for the numbers of nodes \
         for which these do not exist. Each time is the best n's, from 1 to 7, without the trial runs that choose it. MPI has the same wire, \
         longer ways through its software, and two copies of each message. Its allreduce is recursive doubling, as in MPICH, \
         MVAPICH and Open MPI up to 2 KiB. Its barrier is dissemination with n = 1, as in MPICH. Elements are 64-bit integers.",
    );
    page.section("Comparison with the paper");
    page.paragraph(
        "Each shape of the paper's figures is a ratio of times here: the geometric mean over the numbers of nodes of a figure, or \
         over those that both clusters have. It holds if the ratio is on the paper's side of 1. How far is not judged, because \
         the paper's text has no ratios. “No improvement” holds if the ratio is within 10 % of 1. The bands are the ratios \
         when one number of its machines is halved or doubled, and when all are.",
    );
    page.table(&verdicts::table(&study.verdicts));
    page.table(&absolute(study));
    if study.times[0].last().is_some_and(|point| point.nodes == 96) {
        page.paragraph("Where the results differ from the paper:");
        page.list(differences(machines, study));
        page.paragraph(&bruck_and_ho(study));
    }
    page.section("Plots");
    page.plots(pictures.iter().map(|(_, picture)| picture.as_str()));
    page.section("Times in microseconds");
    page.paragraph(
        "In parentheses is the band when any one number of a machine is halved or doubled. The last column has the best n of Bruck \
         and Ho's algorithm on all numbers of nodes.",
    );
    for figure in figures {
        page.paragraph(&escaped(&figure.title));
        page.table(&figure.table(["nodes", "best n", NAMES[0], NAMES[1], NAMES[2], "Bruck and Ho"]));
    }
    page.paragraph("With each n, on the most nodes. Times with a star are of Bruck and Ho's algorithm.");
    page.table(&by_ways(study));
    page.section("Shares of each number");
    page.paragraph(
        "The share of a number in a result is d ln(result) / d ln(number) on the most nodes: the relative change of the result for \
         a small relative change of the number. Latency, gap and bytes change on both machines of a cluster.",
    );
    for (shares, figures) in study.shares.iter().zip(by_cluster(FIGURES.to_vec())) {
        let names = figures.iter().flat_map(|(_, operation, _)| NAMES.map(|name| format!("{operation}: {name}")));
        let rows = shares.iter().map(|share| (share, share.of.concat(), Vec::new()));
        page.table(&report::shares(["number".into(), "value".into()].into_iter().chain(names), rows));
    }
    if !targets.rows.is_empty() {
        today(&mut page, targets);
    }
    page
}

/// The times that the paper gives in words.
fn absolute(study: &Results) -> Table {
    let barrier = |cluster: usize, nodes: usize| {
        let points = of(&study.times, cluster, Operation::Barrier);
        let at = points.iter().position(|p| p.nodes == nodes)?;
        let figure = if cluster == FDR { 0 } else { 2 };
        let band = study.bands[figure][at][0][0];
        Some(format!("{} µs with {nodes} nodes ({})", microseconds(points[at].us()), range(band)))
    };
    let said = |all: &[Option<String>]| {
        let known: Vec<String> = all.iter().flatten().cloned().collect();
        if known.is_empty() { "-".into() } else { known.join(", ") }
    };
    let mut table = Table::of_words();
    table.head(["", "the paper", "here, and with one number changed"]);
    table.row([
        "barrier by dissemination on QDR".to_owned(),
        "about 8 µs with 32 nodes".into(),
        said(&[barrier(QDR, 32)]),
    ]);
    table.row([
        "barrier by dissemination on FDR".to_owned(),
        "about 5 µs".into(),
        said(&[barrier(FDR, 32), barrier(FDR, 96)]),
    ]);
    table
}

fn by_ways(study: &Results) -> Table {
    let mut table = Table::of_figures();
    table.head(["".to_owned(), "nodes".into()].into_iter().chain((1..=WAYS).map(|n| format!("n = {n}"))));
    for ((_, _, title), points) in FIGURES.iter().zip(&study.times) {
        let Some(Point { nodes, ways_us, .. }) = points.last() else { continue };
        let star = |n| if ways(*nodes, n).name() == "dissemination" { "*" } else { "" };
        let each = (1..=WAYS).map(|n| format!("{}{}", microseconds(ways_us[n - 1]), star(n)));
        table.row([(*title).to_owned(), nodes.to_string()].into_iter().chain(each));
    }
    table
}

/// Adds the comparisons on a network of today.
fn today(page: &mut Page, targets: &Targets) {
    page.section(&format!("On a network of today: {MACHINE}"));
    page.paragraph(
        "Nodes have this framework's own costs, and HDR InfiniBand between them. Dissemination is Bruck and Ho's, with the best \
         n from 1 to 7; beside a radix exchange n may be up to 16. Sums are of one 64-bit integer. Floats can't use dissemination, whose ranks would end with different \
         bits; they use a radix exchange, which has recursive doubling's brackets, with the best radix. Neither sends \
         empty arrivals, because their calls use two sets of cells in turn. Recursive doubling sends one for each value: by it a \
         reader says that a cell is free again. It costs what other messages cost. The last column has the ratio if empty \
         arrivals cost no time of a processor or of the wire, and a dash where neither side sends any.",
    );
    let mut table = Table::of_figures();
    table.head(["", "nodes", "algorithm", "µs", "beside", "µs", "ratio", "ratio without empty arrivals"]);
    for row in &targets.rows {
        let ratio = Cell::from(row.met());
        let ratio = if row.is_met() { ratio } else { ratio.bad() };
        table.row([
            row.operation.to_string().into(),
            row.nodes.to_string().into(),
            row.judged.algorithm.to_string().into(),
            microseconds(row.judged.us).into(),
            row.beside.algorithm.to_string().into(),
            microseconds(row.beside.us).into(),
            ratio,
            unless_equal(row.unacknowledged, row.ratio(), |ratio| format!("{ratio:.3}")).into(),
        ]);
    }
    page.table(&table);
    for text in targets.rows.iter().filter(|row| row.operation == Operation::FloatSum).map(|row| floats(targets, row)) {
        page.paragraph(&text);
    }
    let sums = Band::around(targets.breakdowns.iter().map(Breakdown::sum_of_parts));
    page.paragraph(&format!(
        "Where the time of a call goes, in microseconds: the share of each number of the machine times the time. The sum of the \
         parts is {:.2} to {:.2} times that time. They are not equal, because the slowest way through a call changes with the \
         numbers. Messages are those that a node sends in a call, with its empty arrivals. A node sends these when it has \
         nothing else to do, so they hardly delay a call.",
        sums.low, sums.high
    ));
    page.table(&breakdowns(targets));
}

/// A radix exchange of floats beside dissemination.
fn floats(targets: &Targets, row: &Row) -> String {
    let of = |operation: Operation, algorithm: Algorithm| {
        let is = |b: &&Breakdown| (b.operation, b.nodes, b.algorithm) == (operation, row.nodes, algorithm);
        let found = targets.breakdowns.iter().find(is);
        found.map_or((String::new(), 0.0), |b| (plural(b.rounds as usize, "round"), b.messages))
    };
    let (rounds, messages) = of(Operation::FloatSum, row.judged.algorithm);
    let (beside_rounds, beside_messages) = of(Operation::Sum(1), row.beside.algorithm);
    format!(
        "On {} nodes, {} has {rounds}, and each node sends {messages:.1} messages. Beside it is {}, the best n of 1 to \
         {WAYS_BESIDE_RADIX}, with {beside_rounds} and {beside_messages:.1} messages. All nodes take part in each round of a radix \
         exchange, so it needs no more rounds if their number is no power of two.",
        row.nodes, row.judged.algorithm, row.beside.algorithm
    )
}

/// A value without empty arrivals; a dash where there are none, so that it is the value with them.
fn unless_equal(without: f64, with: f64, text: impl Fn(f64) -> String) -> String {
    if without == with { "-".into() } else { text(without) }
}

/// Where the time of each call goes. Small parts are in one column.
fn breakdowns(targets: &Targets) -> Table {
    const SMALL_US: f64 = 0.1;
    let mut names: Vec<&String> = Vec::new();
    for (name, part) in targets.breakdowns.iter().flat_map(|b| &b.parts) {
        if part.abs() >= SMALL_US && !names.contains(&name) {
            names.push(name);
        }
    }
    // Without the table and the unit.
    let plain = |name: &str| name.rsplit('.').next().unwrap_or_default().trim_end_matches("_ns").to_owned();
    let mut table = Table::of_figures();
    let head = ["", "nodes", "algorithm", "rounds", "messages", "empty", "µs", "µs without empty"].map(str::to_owned);
    table.head(head.into_iter().chain(names.iter().map(|name| plain(name))).chain(["all others".into()]));
    for b in &targets.breakdowns {
        let without = unless_equal(b.unacknowledged_us, b.us, microseconds);
        let mut row = vec![b.operation.to_string(), b.nodes.to_string(), b.algorithm.to_string(), b.rounds.to_string()];
        let empty = if b.empty < 0.05 { "-".into() } else { format!("{:.1}", b.empty) };
        row.extend([format!("{:.1}", b.messages), empty, microseconds(b.us), without]);
        let part = |name: &&String| b.parts.iter().find(|(other, _)| other == *name).map_or(0.0, |(_, part)| *part);
        row.extend(names.iter().map(|name| share_text(part(name))));
        let others = b.parts.iter().filter(|(name, _)| !names.contains(&name)).map(|(_, part)| part);
        row.push(share_text(others.sum()));
        table.row(row);
    }
    table
}
