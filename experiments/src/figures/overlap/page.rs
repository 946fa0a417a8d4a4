//! The report.

use super::shapes::{crossing, most};
use super::{
    BENCHMARKS, CALLBACK, CORES, EVEN, FEW, HARDWARE, Iteration, MACHINE, ON_A_COMPUTER, POLLING, Results, THREAD,
    WAYS, WHOLE,
};
use crate::figures::curves::{Curve, ORANGE, PURPLE, Plot};
use crate::figures::report::Figure;
use crate::figures::verdicts;
use maniple_command::measure::page::{Page, Table, escaped};
use maniple_command::measure::plot::{BLUE, GREEN, VERMILION};
use maniple_command::measure::stats::microseconds;
use plotters::style::RGBColor;
use std::fmt::Write;
use std::iter::once;
use std::path::Path;

const COLOURS: [RGBColor; 5] = [VERMILION, ORANGE, BLUE, GREEN, PURPLE];

/// The heads of a benchmark's columns.
fn heads(axis: &'static str) -> impl Iterator<Item = String> {
    let gains = WAYS[1..].iter().map(|way| format!("gain, {}", way.name));
    once(axis.to_owned()).chain(WAYS.iter().map(|way| way.name.to_owned())).chain(gains)
}

/// The plots.
pub fn plots(results: &Results, figures: &[Figure]) -> Vec<Plot> {
    let mut plots = Vec::new();
    for (b, two) in BENCHMARKS.iter().zip(figures.chunks(2)) {
        // The band is that of the runs with fewer processes.
        for (figure, processes, kind) in
            [(&two[0], results.processes, ""), (&two[1], results.processes.min(FEW), "-bands")]
        {
            let gains = WAYS.iter().zip(COLOURS).enumerate().skip(1);
            let curves = gains.map(|(way, (at, colour))| figure.curve(at.name, colour, WAYS.len() + way - 1));
            let title = format!("{}: {} on {processes} processes", b.figure, b.name);
            let file = format!("{}{kind}.svg", b.name.replace([' ', '–'], "-"));
            let about = "time of the whole version by polling, divided by that of another way";
            let plot = Plot::new(&file, title, about, curves.collect()).ratios();
            plots.push(Plot { horizontal: b.axis, ..plot });
        }
    }
    let lates = results.late.iter().map(|late| ((late.factor * 64.0) as usize, late.ms));
    let lates: Vec<_> = lates.collect();
    let curve = |name: &str, colour, of: fn(&[[f64; 3]; 2]) -> f64| {
        Curve::new(name, colour, lates.iter().map(|(at, ms)| (*at, of(ms))).collect())
    };
    let curves = vec![
        curve("EV-PO, rendezvous", ORANGE, |ms| ms[0][0] / ms[0][1]),
        curve("CT-DE, rendezvous", PURPLE, |ms| ms[0][2] / ms[0][1]),
        curve("EV-PO, no rendezvous", VERMILION, |ms| ms[1][0] / ms[1][1]),
        curve("CT-DE, no rendezvous", BLUE, |ms| ms[1][2] / ms[1][1]),
    ];
    let about = "time divided by that with CB-HW";
    let plot = Plot::new("late.svg", "Conjugate gradients by the length of tasks", about, curves).ratios();
    plots.push(Plot { horizontal: "time of tasks (64: as in the file)", ..plot });
    plots
}

/// The head of the table of iterations, and its rows.
fn iterations(results: &Results) -> (Vec<String>, Vec<Vec<String>>) {
    let head = ["benchmark", "processes", "shards a core"].map(String::from).into_iter();
    let ways = WAYS.iter().map(|way| way.name.to_owned()).chain(once("TAMPI".into()));
    let gains = WAYS[1..].iter().map(|way| way.name).chain(once("TAMPI")).map(|way| format!("gain, {way}"));
    let row = |i: &Iteration| {
        let times = || i.ms.iter().copied().chain(once(i.tested_ms));
        let start = [i.name().into(), i.processes.to_string(), i.shards.to_string()].into_iter();
        let gains = times().skip(1).map(|ms| microseconds(i.ms[WHOLE] / ms));
        start.chain(times().map(microseconds)).chain(gains).collect()
    };
    (head.chain(ways).chain(gains).collect(), results.iterations.iter().map(row).collect())
}

/// The table of iterations as a file.
pub fn iterations_csv(results: &Results) -> String {
    let mut text =
        String::from("benchmark,processes,shards_per_core,whole_ms,ev_po_ms,cb_sw_ms,cb_hw_ms,ct_de_ms,tampi_ms\n");
    for i in &results.iterations {
        let times: Vec<String> = i.ms.iter().chain([&i.tested_ms]).map(|ms| format!("{ms:?}")).collect();
        let _ = writeln!(text, "{},{},{},{}", i.name(), i.processes, i.shards, times.join(","));
    }
    text
}

/// The summary for the terminal.
pub fn summary(results: &Results, figures: &[Figure], output: &Path) -> String {
    let mut text = String::from("Tasks that start on a part of a collective, in virtual time\n");
    for (b, two) in BENCHMARKS.iter().zip(figures.chunks(2)) {
        let heads: Vec<String> = heads(b.axis).chain(once("its band".into())).collect();
        two.iter().for_each(|figure| text += &figure.summary(heads.iter().map(String::as_str)));
    }
    for i in &results.iterations {
        let ms: Vec<String> = i.ms.iter().map(|ms| microseconds(*ms)).collect();
        let _ = writeln!(
            text,
            "{} on {} processes, {} shards a core: {} ms",
            i.name(),
            i.processes,
            i.shards,
            ms.join(", ")
        );
    }
    for verdict in &results.verdicts {
        let _ = writeln!(text, "{}", verdict.line());
    }
    text + &format!("report: {}\n", output.join("index.html").display())
}

/// A gain in percent.
fn percent(gain: f64) -> String {
    format!("{:.1} %", (gain - 1.0) * 100.0)
}

/// What came out, and why it differs from the paper.
fn what_came_out(results: &Results) -> Vec<String> {
    let gains = |of: usize, way: usize| -> String {
        results.all[of].iter().map(|point| percent(point.gain(way))).collect::<Vec<_>>().join(", ")
    };
    let mut texts = vec![
        format!(
            "<b>FFT.</b> Callbacks gain {} in 2D and {} in 3D; the paper reports 21.9 % and 21.2 % in the mean. What can be hidden is \
             work on parts: the transforms of what comes from each process, and the joining of groups of these. What is left when the last part has \
             come is the way of that part, and the last join.",
            gains(super::PLANE, CALLBACK),
            gains(super::CUBE, CALLBACK),
        ),
        format!(
            "<b>Polling</b> gains {} and {}. In the paper it is as good as callbacks on collectives, because any idle worker polls. Here \
             one processor of a process, its home, handles all messages, between its own tasks. A block of more than 64,000 bytes moves \
             once the homes at both ends have looked, so while one of them computes, both wait. With larger arrays tasks are longer, and more \
             is lost. Where that matters, a process should have a utility processor.",
            gains(super::PLANE, POLLING),
            gains(super::CUBE, POLLING),
        ),
        format!(
            "<b>A communication thread</b> of its own core, with the whole version, changes the time by {} and {}: the core is \
             missing while tasks run. The paper has −4 % and −9.8 %.",
            gains(super::PLANE, THREAD),
            gains(super::CUBE, THREAD),
        ),
        format!(
            "<b>MapReduce.</b> Word count gains {}; the paper has 10.7 % falling to 4.9 %. Its map tasks grow with the text, and the \
             exchange and what follows do not. The matrix–vector product gains {}; the paper has 17.4 to 31.4 %. Its blocks have few values. Most of its time \
             is the runtime’s part of {} messages and tasks, which all ways need.",
            gains(super::WORDS, CALLBACK),
            gains(super::PRODUCT, CALLBACK),
            results.processes,
        ),
    ];
    let best = |multigrid: bool, way: usize| {
        let of = results.iterations.iter().filter(|i| i.multigrid == multigrid && i.processes == FEW);
        percent(most(of.map(|i| i.ms[WHOLE] / i.ms[way])))
    };
    if !results.iterations.is_empty() {
        texts.push(format!(
            "<b>Conjugate gradients</b> on {FEW} processes gain at most {} with HPCG’s preconditioner and {} without one by CB-HW, and \
             {} and {} by EV-PO. The paper has 23.5 and 28.4 %, and 9.3 and 22.5 %. Its baseline blocks a worker in each call of MPI. \
             Here no thread is blocked: the whole version only multiplies no row before all ghosts are there, and other shards of \
             the processor go on. So little is left to gain. Of HPCG’s 11 exchanges of an iteration 4 are of zeros, and are left out; 6 belong to steps that need all \
             ghosts at their start.",
            best(true, HARDWARE),
            best(false, HARDWARE),
            best(true, POLLING),
            best(false, POLLING),
        ));
        texts.push(
            "<b>Callbacks in software</b> are behind polling where a core has many shards. One utility processor then handles the \
             messages of 8 workers one after the other, in their time. Workers that poll handle their own, side by side, while they wait."
                .into(),
        );
    }
    texts
}

/// The page, with its plots.
pub fn page(results: &Results, figures: &[Figure], pictures: &[(String, String)]) -> Page {
    let mut page = Page::new("Tasks that start on a part of a collective");
    let computers = results.processes / ON_A_COMPUTER;
    page.paragraph(&format!(
        "“Optimizing Computation-Communication Overlap in Asynchronous Task-Based Programs” (Castillo, Jain, Casas, Moreto, Schulz, Beivide, \
         Valero, Bhatele, 2019) starts tasks when their own part of a collective has come, and compares how a process learns of that. Here the same \
         programs run in virtual time, on the machine {MACHINE}, whose numbers have their reasons in its file. It has {ON_A_COMPUTER} processes of {CORES} \
         cores on a computer, so these are {} processes on {computers} computers. Programs compute on \
         small data that stand for the paper’s, and every run is verified.",
        results.processes
    ));
    page.list([
        "<b>whole</b>: all of a collective has come before a task starts on it. The other ways start on parts. TAMPI cannot see parts \
         of a collective, so there it is this version."
            .to_owned(),
        "<b>EV-PO</b>: messages are handled between tasks, and at once by who is idle.".into(),
        "<b>CB-SW</b>: a utility processor without a core of its own handles them, in time that the workers lose. <b>CB-HW</b>: in \
         nobody’s time."
            .into(),
        "<b>CT-DE</b>: a utility processor in place of one of the 8 workers; with collectives the whole version, with halos in parts."
            .into(),
        "<b>CT-SH</b>, a communication thread that shares the cores, is not here: virtual time has no scheduler of an operating system.".into(),
    ]);
    page.section("Comparison with the paper");
    page.paragraph(&format!(
        "A gain is the time of the whole version by polling divided by another time. Values are those on {} processes. Numbers of the \
         machine are halved and doubled in runs on {} processes, each with as much work as one of {}, with fewer sizes. Results \
         without such runs hold in 0 of 0.",
        results.processes,
        results.processes.min(FEW),
        super::MOST,
    ));
    page.table(&verdicts::table(&results.verdicts));
    if results.processes == super::MOST {
        what_came_out(results).iter().for_each(|text| page.paragraph(text));
    }
    page.section("Plots");
    page.plots(pictures.iter().map(|(_, picture)| picture.as_str()));
    page.section("Figures 10 and 12: times");
    page.paragraph(
        "In parentheses is the band when numbers of the machine are halved or doubled, one group at a time: bytes on the network, latency \
         and messages, tasks, the runtime.",
    );
    for (b, two) in BENCHMARKS.iter().zip(figures.chunks(2)) {
        for figure in two {
            page.paragraph(&escaped(&figure.title));
            page.table(&figure.table(heads(b.axis)));
        }
    }
    page.section("Figure 11: traces");
    page.paragraph(
        "The files <a href=\"whole.json\">whole.json</a> and <a href=\"parts.json\">parts.json</a> have every task of a 2D FFT on 8 processes, in the format of \
         Chrome’s tracing, which ui.perfetto.dev shows.",
    );
    page.section("Times that follow from the exchange");
    page.paragraph(
        "The time of a transform by CB-HW, and what nothing can hide: the first lines, the first block, the bytes of the exchange, and the last part with its path. \
         The runtime’s own time is not in it.",
    );
    let mut table = Table::of_figures();
    table.head(["benchmark", "size", "time (ms)", "predicted (ms)", "ratio"]);
    for p in &results.predicted {
        let ratio = microseconds(p.ms / p.predicted_ms);
        table.row([
            p.benchmark.to_owned(),
            p.size.to_string(),
            microseconds(p.ms),
            microseconds(p.predicted_ms),
            ratio,
        ]);
    }
    page.table(&table);
    page.section("Section 5.2.3: gains on fewer nodes");
    page.paragraph(
        "Gains by CB-SW in percent, for all sizes in turn. Each process has as much work as on the most processes.",
    );
    let mut table = Table::of_figures();
    table.head(["benchmark", "processes", "gains (%)"]);
    for g in &results.gains {
        let gains: Vec<String> = g.percent.iter().map(|gain| format!("{gain:.1}")).collect();
        table.row([g.benchmark.to_owned(), g.processes.to_string(), gains.join(", ")]);
    }
    page.table(&table);
    let (head, rows) = iterations(results);
    if !rows.is_empty() {
        page.section("Figures 9 and 13: conjugate gradients");
        page.paragraph(&format!(
            "Milliseconds of an iteration, with 1024 × 512 × 512 points on {FEW} processes and as many for each on more. Shards are HPCG’s ranks. CT-DE \
             has 7 workers for shards that are dealt evenly, so with 8 shards one worker has two: it needs many shards. TAMPI is EV-PO plus its tests of requests: between two tasks a worker tests half of the \
             requests of an exchange of its shards, and each test takes as long as a poll. With more than 1 shard a core on 512 processes a run would take minutes."
        ));
        let mut table = Table::of_figures();
        table.head(head);
        rows.into_iter().for_each(|row| table.row(row));
        page.table(&table);
    }
    page.section("Late polls");
    let crossed = crossing(&results.late).map_or_else(
        || "They do not become equal here.".to_owned(),
        |cost| format!("Where they are equal, late polls cost {:.1} % of CB-HW’s time.", cost * 100.0),
    );
    page.paragraph(&format!(
        "Iterations with HPCG’s preconditioner on {} processes of {EVEN} shards, as many for each worker with 7 as with 8, by the time of their tasks. \
         With rendezvous every message moves once both processors have looked. Then short tasks favour polling and long ones the \
         thread, as in the paper. {crossed} Without rendezvous messages are on their way while both processors compute, polling \
         is behind by less, and the paper’s order on HPCG (CT-DE before EV-PO) is not there.",
        results.processes.min(super::SOME)
    ));
    let mut table = Table::of_figures();
    table.head([
        "time of tasks ÷ the file’s",
        "EV-PO (ms)",
        "CB-HW",
        "CT-DE",
        "without rendezvous: EV-PO",
        "CB-HW",
        "CT-DE",
    ]);
    for late in &results.late {
        table.row(
            once(late.factor.to_string()).chain(late.ms.into_iter().flatten().map(microseconds)).collect::<Vec<_>>(),
        );
    }
    page.table(&table);
    page
}
