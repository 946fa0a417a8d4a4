//! The page of the report, with its plots.

use super::USUAL;
use super::study::{NODES, PROGRAMS, Study, VALUES, WORKS};
use crate::figures::changes::share_text;
use crate::figures::verdicts::{self, range};
use crate::measure::page::{Page, Table, escaped};
use crate::measure::stats::microseconds;

/// What came out, where the runs go up to the usual size.
const WHERE_THEY_DIFFER: [&str; 4] = [
    "<b>Concurrent reductions</b> come out as the paper reports them. One by one, five messages of its program follow each other: \
     two rounds of the first sum, its broadcast, the second sum, and the message that takes it to node 3. Concurrently there are \
     two after each other, so the ratio is near 2/5 at all sizes. On ethernet it is 0.44 to 0.48 with small vectors, because \
     empty arrivals cost there what small messages cost. Without them it is 0.40. \
     With them it is near its bound of 0.5: with all numbers changed, it is within the bound in about two thirds of the cases.",
    "The other two workloads have the ratio with small vectors only. With large ones the wire takes the time, and without balance \
     one node sends or receives more vectors than the others. Their ratio is then 0.58 to 0.62.",
    "<b>Balance</b> differs: the paper's program gains nothing. Its gain comes from the sum of nodes 1 and 2, of which one must \
     send its vector to the other. The paper's heuristic chooses node 1 to receive, because node 2 is busy with the first sum. \
     Here the lower rank receives even without a plan, which is node 1 too. In reverse the lower rank is the busy one. There \
     balance leaves two vectors at the busiest node instead of three, and the ratio is 0.69 on aspen-gigabit and 0.68 on ethernet. \
     In the model the line carries both directions at full speed, and the kernel's copies take no time of the processor. With \
     less than that, the gain would be smaller and nearer to the paper's 25 %.",
    "On ethernet, balance gains nothing in reverse from 32 to 2048 bytes. With it, empty arrivals delay a message that they do \
     not delay without. Without empty arrivals the ratio there is 0.83 to 0.86.",
];

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
         two use the paper's algorithm of §3.2. A time is that of a call, from the moment when all begin until the last is through.",
    );
    page.section("Comparison with the paper");
    page.paragraph(
        "The first shape holds if concurrent reductions take at most 0.5 times as long as one by one. Balance holds if it takes at \
         most 0.8 times as long as without, at the size where it gains most. The bands are those of the ratio when one number of \
         the machine is halved or doubled, and when all are.",
    );
    for study in studies {
        page.paragraph(&escaped(&study.machine));
        page.table(&verdicts::table(&study.verdicts));
    }
    if studies.iter().all(|study| study.times[0].last().is_some_and(|point| point.bytes == size_of::<f64>() * USUAL)) {
        WHERE_THEY_DIFFER.iter().for_each(|text| page.paragraph(text));
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
    let more = ["in a row", "without empty arrivals"].map(|how| [3, 4].map(|k| format!("{}, {how}", VALUES[k])));
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
