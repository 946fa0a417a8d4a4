//! The page of the report, with its plots.

use super::USUAL;
use super::study::{BALANCED, CONCURRENT, NODES, PROGRAMS, Point, SMALL, Study, VALUES, WORKS};
use crate::figures::changes::{Band, share_text};
use crate::figures::verdicts::{self, range};
use maniple_command::measure::page::{Page, Table, escaped};
use maniple_command::measure::stats::microseconds;

/// The range of values, with two digits.
fn span(values: impl Iterator<Item = f64>) -> String {
    let Band { low, high } = Band::around(values);
    let [low, high] = [low, high].map(|value| format!("{value:.2}"));
    if low == high { low } else { format!("{low} to {high}") }
}

/// What came out, where the runs go up to the usual size. It is about `all` machines, of which the second sends empty arrivals.
fn what_came_out(all: &[Study]) -> Vec<String> {
    let [own, ethernet] = all else { return Vec::new() };
    let small = |points: &[Point], k: usize| span(points.iter().filter(|p| p.bytes <= SMALL).map(|p| p.values()[k]));
    let most = |work: usize, k: usize| all.iter().filter_map(move |study| Some(study.times[work].last()?.values()[k]));
    let (paper, reverse) = (0, 1);
    let (within, of) = ethernet.verdicts.first().map_or((0, 0), |verdict| verdict.held[1]);
    let gains = |point: &&Point| point.values()[BALANCED] < 0.995;
    let lost: Vec<usize> = ethernet.times[reverse].iter().filter(|p| !gains(p)).map(|p| p.bytes).collect();
    let mut texts = vec![
        format!(
            "<b>Concurrent reductions</b> come out as the paper reports them. One by one, five messages of its program follow each \
             other: two rounds of the first sum, its broadcast, the second sum, and the message that takes it to node 3. \
             Concurrently there are two after each other, so the ratio is near 2/5: {} on {} with vectors of all sizes. On {} it is {} \
             with small vectors, because empty arrivals cost there what small messages cost. Without them it is {}. \
             With them it is near its bound of 0.5: with all numbers changed, it is within the bound in {within} of {of} cases.",
            span(own.times[paper].iter().map(|p| p.values()[CONCURRENT])),
            escaped(&own.machine),
            escaped(&ethernet.machine),
            small(&ethernet.times[paper], CONCURRENT),
            small(&ethernet.unacknowledged[paper], CONCURRENT),
        ),
        format!(
            "The other two workloads have the ratio with small vectors only. With large ones the wire takes the time, and without \
             balance one node sends or receives more vectors than the others. With the largest vectors their ratio is {}.",
            span((1..WORKS.len()).flat_map(|work| most(work, CONCURRENT)))
        ),
        format!(
            "<b>Balance</b> differs: the paper's program gains nothing. Its gain comes from the sum of nodes 1 and 2, of which one \
             must send its vector to the other. The paper's heuristic chooses node 1 to receive, because node 2 is busy with the \
             first sum. Without the heuristic node 1 receives too: by the paper's §3.2, with nodes in their order, and here without a \
             plan. So the paper's text does not explain the gain of its program. In reverse the lower rank is the busy one. \
             There balance leaves two vectors at the busiest node instead of three, and with the largest vectors the ratio is {}. \
             In the model the line carries both directions at full speed, and the kernel's copies take no time of the processor. \
             With less than that, the gain would be smaller and nearer to the paper's 25 %.",
            span(most(reverse, BALANCED))
        ),
    ];
    if let [first, .., last] = lost[..] {
        let without = ethernet.unacknowledged[reverse].iter().filter(|p| lost.contains(&p.bytes));
        texts.push(format!(
            "On {}, balance gains nothing in reverse from {first} to {last} bytes. With it, empty arrivals delay a message that \
             they do not delay without. Without empty arrivals the ratio there is {}.",
            escaped(&ethernet.machine),
            span(without.map(|p| p.values()[BALANCED]))
        ));
    }
    texts
}

/// The page.
pub fn page(studies: &[Study], pictures: &[(String, String)]) -> String {
    let mut page = Page::new("Overlapping reductions in virtual time");
    page.paragraph(&format!(
        "“Advanced Collective Communication in Aspen” (Ali, Pai and Midkiff, 2008) lets reductions overlap that have different \
         contributors and receivers. Its Figure 12 has the times of one program, that of Figure 5, on {NODES} nodes. Here the \
         collectives of this framework run in virtual time, with one shard on each node. Every shard compares each of its sums with \
         a closed form. Nothing was fitted: times follow from the programs and from the machine's file, which gives a reason for \
         each number. The paper's text gives no times, only two ratios: concurrent reductions are more than twice as fast as MPI's, \
         and balance improves performance by up to 25 %."
    ));
    page.list(studies.iter().map(|study| format!("<b>{}</b>: {}", escaped(&study.machine), escaped(&study.about))));
    page.paragraph("Three workloads, with sums of vectors of 64-bit floats:");
    page.list(WORKS.iter().map(|work| format!("<b>{}</b>: {}", work.title, work.about)));
    page.paragraph(
        "Three programs compute the same. <b>One by one</b>: a reduction to the first receiver by a binomial tree, and a broadcast \
         to the others; then the next reduction. It stands for the paper's MPI and for its Aspen program in the style of MPI, since \
         the paper finds that both take the same time for a message. <b>Concurrent</b>: all reductions at the same time, each made \
         by itself. <b>Balanced</b>: all at the same time, made together by a plan, which chooses who sends to whom. The last \
         two reduce as in the paper's §3.2, but in the order of ranks. A time is that of a call, from the moment when all begin until the last is through.",
    );
    page.section("Comparison with the paper");
    page.paragraph(
        "The first shape holds if concurrent reductions take at most 0.5 times as long as one by one. Balance holds if it takes at \
         most 0.8 times as long as without, at the size where it gains most. The paper has only its own program. The same limits apply to \
         the other two workloads here. The bands are those of the ratio when one number of \
         the machine is halved or doubled, and when all are.",
    );
    for study in studies {
        page.paragraph(&escaped(&study.machine));
        page.table(&verdicts::table(&study.verdicts));
    }
    if studies.iter().all(|study| study.times[0].last().is_some_and(|point| point.bytes == size_of::<f64>() * USUAL)) {
        what_came_out(studies).iter().for_each(|text| page.paragraph(text));
    }
    page.section("Plots");
    page.plots(pictures.iter().map(|(_, picture)| picture.as_str()));
    page.section("Times in microseconds");
    page.paragraph(
        "In parentheses is the band when any one number of the machine is halved or doubled. The columns “in a row” have the ratios \
         of the times per call if every node goes on to the next call at once. The last two have the ratios if empty arrivals took \
         no time. By them a reader says that a cell is free again. On aspen-gigabit there are none.",
    );
    for study in studies {
        for (w, work) in WORKS.iter().enumerate() {
            page.paragraph(&format!("{} on {}", work.title, escaped(&study.machine)));
            page.table(&times(study, w));
        }
    }
    page.section("Shares of each number");
    page.paragraph(
        "The share of a number in a time is d ln(time) / d ln(number), between half and twice the number. Numbers without a share \
         are left out.",
    );
    for study in studies {
        for (w, work) in WORKS.iter().enumerate() {
            page.paragraph(&format!("{} on {}", work.title, escaped(&study.machine)));
            page.table(&shares(study, w));
        }
    }
    page.section("Files");
    let files = pictures.iter().map(|(name, _)| name.as_str()).chain(["points.csv", "shares.csv", "figures.json"]);
    let files: Vec<String> = files.map(|name| format!("<a href=\"{name}\">{name}</a>")).collect();
    page.paragraph(&files.join(", "));
    page.end()
}

fn times(study: &Study, w: usize) -> Table {
    let mut table = Table::of_figures();
    let more = ["in a row", "without empty arrivals"]
        .map(|how| [CONCURRENT, BALANCED].map(|k| format!("{}, {how}", VALUES[k])));
    table.head(["bytes"].into_iter().chain(VALUES).map(str::to_owned).chain(more.concat()));
    let points = study.times[w].iter().zip(&study.unacknowledged[w]);
    for ((point, without), bands) in points.zip(&study.bands[w]) {
        let banded = |(value, band)| format!("{} ({})", microseconds(value), range(band));
        let [one_by_one, concurrent, balanced] = point.next_us;
        let row = std::iter::once(point.bytes.to_string()).chain(point.values().into_iter().zip(bands[0]).map(banded));
        let [.., first, second] = without.values();
        table.row(row.chain([concurrent / one_by_one, balanced / concurrent, first, second].map(microseconds)));
    }
    table
}

fn shares(study: &Study, w: usize) -> Table {
    let mut table = Table::of_figures();
    let ends = [study.times[w].first(), study.times[w].last()];
    let names = ends.iter().flatten().flat_map(|point| PROGRAMS.map(|name| format!("{name}, {} bytes", point.bytes)));
    table.head(["number".to_owned(), "value".into()].into_iter().chain(names));
    for share in &study.shares {
        let values: Vec<String> = share.of[w].iter().flatten().map(|value| share_text(*value)).collect();
        if values.iter().any(|value| value != "-") {
            table.row([share.number.clone(), share.value.to_string()].into_iter().chain(values));
        }
    }
    table
}
