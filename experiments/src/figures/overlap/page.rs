//! The report.

use super::runs;
use super::shapes::{best, change, crossing, most};
use super::{
    ALL, BANDED, BENCHMARKS, CALLBACK, CORES, CUBE, CURVES, DECOMPOSED, EVEN, FEW, HARDWARE, Iteration, LATE, Late,
    MACHINE, MOST, ON_A_COMPUTER, PLANE, POLLING, PRODUCT, RENDEZVOUS, Results, THREAD, Timed, WAYS, WHOLE_HARDWARE,
    WORDS,
};
use crate::figures::curves::{Curve, ORANGE, PURPLE, Plot};
use crate::figures::report::Figure;
use crate::figures::verdicts;
use maniple_apps::fft;
use maniple_command::measure::page::{Page, Table, escaped};
use maniple_command::measure::plot::{BLUE, GREEN, VERMILION};
use maniple_command::measure::stats::microseconds;
use plotters::style::RGBColor;
use std::fmt::Write;
use std::iter::once;
use std::path::Path;

/// Those of the ways, the first of which has no curve.
const COLOURS: [RGBColor; WAYS.len()] = [VERMILION, ORANGE, BLUE, GREEN, PURPLE, VERMILION];

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
            [(&two[0], results.processes, ""), (&two[1], results.processes.min(BANDED), "-bands")]
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
    let curve = |name: &str, colour, of: fn(&[[f64; 3]; RENDEZVOUS.len()]) -> f64| {
        Curve::new(name, colour, lates.iter().map(|(at, ms)| (*at, of(ms))).collect())
    };
    let curves = vec![
        curve("EV-PO, rendezvous by the file", ORANGE, |ms| ms[0][0] / ms[0][1]),
        curve("CT-DE, rendezvous by the file", PURPLE, |ms| ms[0][2] / ms[0][1]),
        curve("EV-PO, all", VERMILION, |ms| ms[ALL][0] / ms[ALL][1]),
        curve("CT-DE, all", BLUE, |ms| ms[ALL][2] / ms[ALL][1]),
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
        let times = i.ms.iter().copied().chain(once(i.tested_ms));
        let start = [i.name().into(), i.processes.to_string(), i.shards.to_string()].into_iter();
        let gains = (1..WAYS.len()).map(|way| i.gain(way)).chain(once(i.tested_gain()));
        start.chain(times.map(microseconds)).chain(gains.map(microseconds)).collect()
    };
    (head.chain(ways).chain(gains).collect(), results.iterations.iter().map(row).collect())
}

/// The table of iterations as a file.
pub fn iterations_csv(results: &Results) -> String {
    let mut text = format!("benchmark,processes,shards_per_core,{},tampi_ms\n", CURVES[..WAYS.len()].join(","));
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
    let all = |of: usize, ratio: &dyn Fn(&Timed) -> f64| -> String {
        results.all[of].iter().map(|point| percent(ratio(point))).collect::<Vec<_>>().join(", ")
    };
    let gains = |of: usize, way: usize| all(of, &|point| point.gain(way));
    let mut texts = vec![format!(
        "<b>FFT.</b> Callbacks gain {} in 2D and {} in 3D; the paper reports 21.9 % and 21.2 % in the mean. What can be hidden is \
             work on parts: the transforms of what comes from each process, and the joining of groups of these. When the last part has \
             come, two things are left: the transform of that part, and the last step that joins the partial transforms.",
        gains(PLANE, CALLBACK),
        gains(CUBE, CALLBACK),
    )];
    let alone = BENCHMARKS.iter().enumerate().map(|(at, b)| {
        let (delivery, parts) = (gains(at, WHOLE_HARDWARE), all(at, &Timed::parts));
        format!("{}: {delivery} by delivery, and then {parts} by parts", b.name)
    });
    texts.push(format!(
        "<b>Delivery and parts.</b> CB-SW and CB-HW differ from the baseline in two things: in how messages are delivered, and in \
         parts. The whole version by CB-HW shows delivery alone; parts by CB-HW are compared with that. {}.",
        alone.collect::<Vec<_>>().join("; ")
    ));
    texts.push(format!(
        "<b>Polling</b> gains {} and {}. In the paper it is as good as callbacks on collectives, because any idle worker polls. Here \
         only the worker that runs a process’s shard handles its messages: between its tasks, or at once when it is idle itself. Other \
         idle workers do not help. A long block moves by rendezvous, once these workers at both ends have looked. So while one of them \
         computes, both wait. A utility processor avoids that wait, but costs a worker.",
        gains(PLANE, POLLING),
        gains(CUBE, POLLING),
    ));
    texts.push(format!(
        "<b>A communication thread</b> on a core of its own, with the whole version, gains {} and {}: a core is missing while tasks \
         run. The paper’s gains are −4 % and −9.8 %.",
        gains(PLANE, THREAD),
        gains(CUBE, THREAD),
    ));
    texts.push(format!(
        "<b>Word count</b> gains {} by CB-SW; the paper has 10.7 % falling to 4.9 %. Its map tasks grow with the text. The exchange and \
         what follows do not: a process adds up the counts that come from the others, one block after another, of {} different words \
         in all. In parts it does so as blocks come, in the whole version after all have come. But each sum waits for the one before, and \
         the processor that starts it has {} blocks to send and to take in first. With fewer processes, whose blocks are longer, it \
         has time for both, and parts gain more. The paper does not give the number of different words, so its exchange may be \
         larger.",
        gains(WORDS, CALLBACK),
        runs::WORDS,
        results.processes - 1,
    ));
    let fewer = results.gains.iter().map(|gains| gains.processes).min().filter(|fewer| *fewer < results.processes);
    if let (Some(fewer), Some(change)) = (fewer, change(&results.gains)) {
        let among =
            |processes: u32| fft::sides([4096; 3], processes as usize).map(|side| side.to_string()).join(" and ");
        texts.push(format!(
            "<b>Number of processes.</b> From {fewer} processes to {}, gains change by up to {change:.1} points; the paper’s by at most 4. \
             Those of the 3D FFT grow: its two exchanges are among {} of {fewer} processes and among {} of {}. With fewer parts, a larger \
             share of the work is on the last one, and nothing hides that. Those of the 2D FFT and of word count shrink, as a process \
             has more messages to handle. If all axes of the 3D FFT are shorter on fewer processes, and not only one, its gains \
             change by 2 points more.",
            results.processes,
            among(fewer),
            among(results.processes),
            results.processes,
        ));
    }
    let rows = BENCHMARKS[PRODUCT].sizes.iter().map(|n| (n / results.processes as usize).to_string());
    let rows = rows.collect::<Vec<_>>().join(", ");
    let parts = most(results.all[PRODUCT].iter().map(Timed::parts));
    texts.push(format!(
        "<b>The matrix–vector product</b> gains {} by CB-SW; the paper has 17.4 to 31.4 %. A communication thread gains {} with the \
         whole version; in the paper it loses up to 10.7 %. Parts by polling gain {}. Parts by CB-HW gain at most {} over the \
         whole version by CB-HW{}. A process \
         has {rows} rows and columns for each other one, which is some nanoseconds of work. A message and a task cost the runtime about a \
         microsecond each, and all ways need {} of both. So this measures the runtime.",
        gains(PRODUCT, CALLBACK),
        gains(PRODUCT, THREAD),
        gains(PRODUCT, POLLING),
        percent(parts),
        if parts < 1.05 { ", so the rest is due to the processor that has nothing to do but handle messages and launch tasks" } else { "" },
        results.processes,
    ));
    if results.iterations.is_empty() {
        return texts;
    }
    let of = |multigrid: bool, processes: u32| best(&results.iterations, processes, multigrid);
    let two = |way: usize| [true, false].map(|multigrid| percent(of(multigrid, FEW).gain(way))).join(" and ");
    texts.push(format!(
        "<b>Conjugate gradients</b> on {FEW} processes gain {} by CB-HW with HPCG’s preconditioner and without one, {} by EV-PO, and {} \
         by the whole version with CB-HW, each with its best number of shards. The paper has 23.5 and 28.4 % by CB-HW, and 9.3 and \
         22.5 % by EV-PO. Its baseline blocks a worker in each call of MPI. Here no thread is blocked: the whole version merely \
         multiplies no row until all ghost values have come, which takes little of an iteration, and with several shards the processor \
         works for the others meanwhile. So little is left to gain. HPCG’s iteration has 11 exchanges. Four would send only zeros and \
         are left out. Six belong to steps that need all ghosts at their start. So parts can shorten one.",
        two(HARDWARE),
        two(POLLING),
        two(WHOLE_HARDWARE),
    ));
    let tested = [true, false].map(|multigrid| percent(of(multigrid, results.processes).tested_gain()));
    texts.push(format!(
        "<b>TAMPI</b> on {} processes gains {}; the paper has −1.5 % on HPCG and 18.7 % on MiniFE. Its tests are added to EV-PO’s time, \
         so it is behind that. The paper’s gain on MiniFE is due to workers that it does not block; none is blocked here.",
        results.processes,
        tested.join(" and "),
    ));
    texts
}

/// What comes out by the length of tasks.
fn by_length(late: &[Late]) -> String {
    let of = |(set, name): (usize, &str)| {
        let ahead = late.iter().filter(|late| late.ms[set][2] < late.ms[set][0]).count();
        let behind = percent(most(late.iter().map(|late| late.ms[set][0] / late.ms[set][1])));
        format!(
            "{name} by rendezvous, the thread is ahead in {ahead} of {} rows, and polling takes at most {behind} longer than CB-HW",
            late.len()
        )
    };
    let each = ["With long messages", "With all messages", "With none"].into_iter().enumerate().map(of);
    let each = each.collect::<Vec<_>>().join(". ");
    let crossed = crossing(late).map_or_else(
        || "If all messages move by rendezvous, the two are equal at no length.".to_owned(),
        |cost| {
            format!(
                "If all move so, the order changes between two lengths. There the two are equal where polling takes {:.1} % longer than with \
                 none by rendezvous.",
                cost * 100.0
            )
        },
    );
    let thread = late.iter().map(|late| percent(late.ms[ALL][2] / late.ms[ALL][1])).collect::<Vec<_>>().join(", ");
    format!(
        "{each}. {crossed} If all move so, the \
         thread takes {thread} longer than CB-HW, from the shortest tasks to the longest. For long ones that is the missing core, as 8/7 is 14.3 % more. For \
         the shortest the thread can’t keep up with the messages, so it falls behind there. What late polls cost has no trend by the \
         length: it depends on which tasks happen to be under way. The paper varies no lengths; it has the thread ahead on HPCG and \
         polling ahead on MiniFE, whose tasks are shorter."
    )
}

/// The page, with its plots.
pub fn page(results: &Results, figures: &[Figure], pictures: &[(String, String)]) -> Page {
    let mut page = Page::new("Tasks that start on a part of a collective");
    let computers = results.processes / ON_A_COMPUTER;
    page.paragraph(&format!(
        "“Optimizing Computation-Communication Overlap in Asynchronous Task-Based Programs” (Castillo, Jain, Casas, Moreto, Schulz, Beivide, \
         Valero, Bhatele, 2019) starts tasks when their own part of a collective has come, and compares how a process learns of that. Here the same \
         programs run in virtual time, on the machine {MACHINE}, whose file gives a reason for each number. It has {ON_A_COMPUTER} processes of {CORES} \
         cores on a computer, so these are {} processes on {computers} computers. Programs compute on \
         small data that stand for the paper’s, and every run is verified.",
        results.processes
    ));
    page.list([
        "<b>whole</b>: all of a collective has come before a task starts on it. The others start on parts, if their names don’t say whole. \
         TAMPI, a library that tests each open request between two tasks, cannot see parts of a collective, so there it is this version."
            .to_owned(),
        "<b>EV-PO</b> (polling between tasks): messages are handled between tasks, and at once by who is idle.".into(),
        "<b>CB-SW</b> (callbacks in software): each process has as many further processors as workers, without cores of their own. Each \
         has its share of the shards and handles their messages. The time that this takes is added to a worker. <b>CB-HW</b> (by \
         hardware): the same, but it takes no worker’s time."
            .into(),
        "<b>CT-DE</b> (dedicated communication thread): a utility processor in place of one of the 8 workers; with collectives the \
         whole version, with halos in parts."
            .into(),
        "<b>whole, CB-HW</b>, which is not in the paper: the whole version with that delivery.".into(),
        "<b>CT-SH</b> (shared communication thread), which shares the cores of the workers, is left out: virtual time has no scheduler \
         of an operating system."
            .into(),
    ]);
    page.section("Comparison with the paper");
    page.paragraph(&format!(
        "The tables give ratios: the time of the whole version by polling divided by another time. A gain of 20 % is a ratio of 1.2. \
         Values are those on {} processes. To see what depends on the numbers of the machine, each of four groups of them is halved \
         and doubled, in runs on {} processes with fewer sizes. A process then has as much work as one of {}. “Holds” counts in how many \
         of these runs a statement is true. Results without such runs have “–”.",
        results.processes,
        results.processes.min(BANDED),
        MOST,
    ));
    page.table(&verdicts::table(&results.verdicts));
    if results.processes == MOST {
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
        "The time of a transform by CB-HW, and what nothing can hide: the first lines, the first block, the bytes of the exchange, and \
         the last part with its path, which is the last step that joins transforms. It includes two costs of the runtime, which were \
         added when a trace had shown them. A shard launches all tasks before a processor gets the first. And messages that give the memory of blocks back come right behind the last \
         block, and are handled before a task starts on that. Without these two the prediction for the smallest size is 22 % lower.",
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
            "Milliseconds of an iteration, with 1024 × 512 × 512 points on {FEW} processes and as many for each on more. Shards are HPCG’s \
             ranks, and a process has a block of them. With {CORES} shards one of CT-DE’s 7 workers has two, so CT-DE is fair only with \
             many. TAMPI’s time is that of EV-PO plus its tests of requests: between two tasks a worker tests half of the requests of an exchange of its \
             shards, and each test takes as long as a poll. The paper has up to 16 shards a core. Here {} have up to {}, and {} up to {}: \
             a run with more takes minutes.",
            DECOMPOSED[0].0, DECOMPOSED[0].1, DECOMPOSED[1].0, DECOMPOSED[1].1,
        ));
        let mut table = Table::of_figures();
        table.head(head);
        rows.into_iter().for_each(|row| table.row(row));
        page.table(&table);
    }
    page.section("Late polls");
    page.paragraph(&format!(
        "A poll is late if a message waits because its worker is in a task. Here are iterations with HPCG’s preconditioner on {} \
         processes, with {EVEN} shards a process, which 7 and 8 workers share evenly, and {} points an axis of a shard. Task times are \
         scaled by the factor in the first column. By the file, values of a face of the finest grid, {} bytes, move by rendezvous, once \
         both processors have looked, and the others are shorter. So there are also runs where all values move so. {}",
        results.processes.min(super::SOME),
        LATE[0],
        LATE[0] * LATE[1] * size_of::<f64>(),
        by_length(&results.late),
    ));
    let mut table = Table::of_figures();
    let heads = RENDEZVOUS.iter().flat_map(|set| ["EV-PO", "CB-HW", "CT-DE"].map(|way| format!("{way}, {set} (ms)")));
    table.head(once("time of tasks ÷ the file’s".to_owned()).chain(heads).collect::<Vec<_>>());
    for late in &results.late {
        table.row(
            once(late.factor.to_string()).chain(late.ms.into_iter().flatten().map(microseconds)).collect::<Vec<_>>(),
        );
    }
    page.table(&table);
    page
}
