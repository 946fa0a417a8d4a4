//! The drawing: ranks are horizontal lines, rounds are columns, and messages are arrows.

use super::Shown;
use super::rounds::{Message, ProvedSchedules};
use super::text::how;
use crate::Failure;
use crate::measure::page::escaped;
use crate::measure::plot::{BLUE, GREEN, GRID, INK, VERMILION, dark};
use maniple_collectives::{Combine, Step};
use maniple_stencil::plural;
use plotters::style::{RGBColor, WHITE};
use std::fmt::Write;

/// The colour of a value that is taken out again.
const PURPLE: RGBColor = RGBColor(204, 121, 167);

/// The most ranks and messages of a drawing. More would be a black square.
const MOST_RANKS: usize = 256;
const MOST_MESSAGES: u64 = 20_000;

const TITLE: f64 = 112.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 24.0;
const LEGEND: f64 = 56.0;
/// Between two messages that a rank sends or reads in one round.
const APART: f64 = 12.0;

fn hex(RGBColor(r, g, b): RGBColor) -> String {
    format!("#{r:02X}{g:02X}{b:02X}")
}

/// Where things are.
struct Layout {
    /// Between two ranks.
    row: f64,
    /// Where the first rank is.
    top: f64,
    /// Where each round begins and ends, from round 0, which only has local steps.
    columns: Vec<(f64, f64)>,
    width: f64,
    height: f64,
}

impl Layout {
    fn of(proved: &ProvedSchedules, lines: usize) -> Self {
        let ranks = proved.schedules.len() as f64;
        let row = (1000.0 / ranks).clamp(13.0, 30.0);
        let top = TITLE + 20.0 * lines.saturating_sub(3) as f64;
        let mut at = LEFT;
        let mut columns = vec![(at, at + APART)];
        at += APART;
        // Wide where a rank has many messages, and where they go far.
        let mut most = vec![0_usize; proved.columns() as usize + 1];
        let mut far = most.clone();
        for (schedule, rounds) in proved.schedules.iter().zip(&proved.rounds) {
            let mut counts = [vec![0; most.len()], vec![0; most.len()]];
            for (step, &round) in schedule.steps().iter().zip(rounds) {
                let round = round as usize;
                match step {
                    Step::Update { peer, .. } => {
                        counts[0][round] += 1;
                        far[round] = far[round].max(peer.abs_diff(schedule.rank()) as usize);
                    }
                    Step::Read { .. } => counts[1][round] += 1,
                    Step::Local { .. } => {}
                }
            }
            for (most, count) in most.iter_mut().zip(counts[0].iter().zip(&counts[1])) {
                *most = (*most).max(*count.0).max(*count.1);
            }
        }
        for (&most, &far) in most.iter().zip(&far).skip(1) {
            let slope = (far as f64 * row * 0.35).clamp(50.0, 220.0);
            let wide = slope + 2.0 * APART * most.saturating_sub(1) as f64;
            columns.push((at + APART, at + APART + wide));
            at += wide + 3.0 * APART;
        }
        let height = top + row * (ranks - 1.0) + 20.0 + LEGEND;
        Self { row, top, columns, width: (at + RIGHT).max(640.0), height }
    }

    fn y(&self, rank: u32) -> f64 {
        self.top + self.row * f64::from(rank)
    }

    /// The end of the last column, where a rank's line ends.
    fn end(&self) -> f64 {
        self.columns.last().map_or(LEFT, |column| column.1) + APART
    }
}

/// Draws it.
pub fn svg(shown: &Shown, kind: &str) -> Result<String, Failure> {
    let proved = &shown.proved;
    if proved.schedules.len() > MOST_RANKS || proved.report.messages > MOST_MESSAGES {
        let (shards, messages) =
            (plural(proved.schedules.len(), "shard"), plural(proved.report.messages as usize, "message"));
        return Err(Failure::Usage(format!(
            "--format svg: expected at most {MOST_RANKS} shards and {MOST_MESSAGES} messages, found {shards} and {messages}"
        )));
    }
    let mut lines = vec![shown.title(kind), shown.numbers(), shown.needs()];
    lines.extend(shown.instead.clone());
    let layout = Layout::of(proved, lines.len());
    let mut svg = String::new();
    draw(&mut svg, shown, &layout, &lines).map_err(|e| Failure::Run(format!("the drawing failed: {e}")))?;
    Ok(svg)
}

fn draw(svg: &mut String, shown: &Shown, layout: &Layout, lines: &[String]) -> std::fmt::Result {
    let (width, height, proved) = (layout.width, layout.height, &shown.proved);
    let (ink, grid) = (hex(INK), hex(GRID));
    writeln!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"sans-serif\">\n<style>{}</style>",
        dark()
    )?;
    writeln!(svg, "<rect width=\"100%\" height=\"100%\" fill=\"{}\"/>", hex(WHITE))?;
    for (i, line) in lines.iter().enumerate() {
        let size = if i == 0 { 20 } else { 14 };
        writeln!(
            svg,
            "<text x=\"16\" y=\"{}\" font-size=\"{size}\" fill=\"{ink}\">{}</text>",
            28 + 20 * i,
            escaped(line)
        )?;
    }
    let title = |round: usize| match round > proved.report.rounds as usize {
        true => "result".to_owned(),
        false => format!("round {round}"),
    };
    let bottom = layout.y(proved.schedules.len() as u32 - 1);
    for (round, (from, to)) in layout.columns.iter().enumerate().skip(1) {
        let (x, y) = ((from + to) / 2.0, layout.top - 18.0);
        writeln!(
            svg,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"13\" text-anchor=\"middle\" fill=\"{ink}\">{}</text>",
            title(round)
        )?;
        let x = to + 1.5 * APART;
        if round + 1 < layout.columns.len() {
            let (from, to) = (layout.top - 10.0, bottom + 10.0);
            writeln!(svg, "<line x1=\"{x:.1}\" y1=\"{from:.1}\" x2=\"{x:.1}\" y2=\"{to:.1}\" stroke=\"{grid}\"/>")?;
        }
    }
    let size = if layout.row < 14.0 { 11 } else { 13 };
    for rank in 0..proved.schedules.len() as u32 {
        let (y, end) = (layout.y(rank), layout.end());
        let only = shown.rank == Some(rank);
        let (weight, label) = (if only { "bold" } else { "normal" }, y + f64::from(size) * 0.35);
        writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{label:.1}\" font-size=\"{size}\" font-weight=\"{weight}\" text-anchor=\"end\" fill=\"{ink}\">{rank}</text>",
            LEFT - 8.0
        )?;
        writeln!(
            svg,
            "<line x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{end:.1}\" y2=\"{y:.1}\" stroke=\"{grid}\" stroke-width=\"1.5\"/>"
        )?;
    }
    draw_groups(svg, shown, layout)?;
    draw_messages(svg, shown, layout)?;
    draw_locals(svg, shown, layout)?;
    draw_legend(svg, shown, layout)?;
    svg.push_str("</svg>\n");
    Ok(())
}

/// The ranks of a processor, whose contributions the first of them combines in the first round. They take the result after
/// its last step.
fn draw_groups(svg: &mut String, shown: &Shown, layout: &Layout) -> std::fmt::Result {
    for schedule in &shown.proved.schedules {
        let (rank, group) = (schedule.rank(), schedule.group());
        if group.start == rank {
            continue;
        }
        let [first, last] = [1, shown.proved.taken(group.start)].map(|round| layout.columns[round as usize]);
        let title = |text: String| format!("<title>{text}</title>");
        let (own, to) = (layout.y(rank), layout.y(group.start));
        let opacity = faint(shown, [rank, group.start]);
        let ink = hex(INK);
        for ((x1, y1), (x2, y2), text) in [
            (
                (first.0, own),
                (first.1, to),
                format!("rank {} combines the contribution of rank {rank} in place", group.start),
            ),
            ((last.0, to), (last.1, own), format!("rank {rank} takes the result of rank {}", group.start)),
        ] {
            writeln!(
                svg,
                "<path d=\"M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}\" stroke=\"{ink}\" stroke-width=\"1\" stroke-dasharray=\"3 3\" fill=\"none\"{opacity}>{}</path>",
                title(text)
            )?;
        }
    }
    Ok(())
}

/// The opacity of what concerns two ranks, if only one rank is shown and they are others.
fn faint(shown: &Shown, ranks: [u32; 2]) -> &'static str {
    match shown.rank {
        Some(rank) if !ranks.contains(&rank) => " opacity=\"0.12\"",
        _ => "",
    }
}

/// The colour of a message, by what it does where it comes.
fn colour(combine: Combine) -> RGBColor {
    match combine {
        Combine::IncomingIsHigher => BLUE,
        Combine::IncomingIsLower => VERMILION,
        Combine::Replace => GREEN,
        Combine::Undo => PURPLE,
    }
}

/// Which of the messages of a rank in its round each update or read is, and how many there are.
fn places(proved: &ProvedSchedules, rank: usize, is: fn(&Step) -> bool) -> Vec<(usize, usize)> {
    let steps = proved.schedules[rank].steps().iter().zip(&proved.rounds[rank]).filter(|(step, _)| is(step));
    let rounds: Vec<u32> = steps.map(|(_, &round)| round).collect();
    let count = |of: &[u32], round: u32| of.iter().filter(|r| **r == round).count();
    rounds.iter().enumerate().map(|(i, &round)| (count(&rounds[..i], round), count(&rounds, round))).collect()
}

fn draw_messages(svg: &mut String, shown: &Shown, layout: &Layout) -> std::fmt::Result {
    let proved = &shown.proved;
    let all = 0..proved.schedules.len();
    let updates: Vec<_> = all.clone().map(|r| places(proved, r, |step| matches!(step, Step::Update { .. }))).collect();
    let reads: Vec<_> = all.clone().map(|r| places(proved, r, |step| matches!(step, Step::Read { .. }))).collect();
    let comes: Vec<Vec<(Combine, u16, u32)>> = all
        .map(|rank| {
            let read = |(step, &round): (&Step, &u32)| match *step {
                Step::Read { combine, part, .. } => Some((combine, part, round)),
                _ => None,
            };
            proved.schedules[rank].steps().iter().zip(&proved.rounds[rank]).filter_map(read).collect()
        })
        .collect();
    // Faint ones first, so that they hide no others.
    let mut messages: Vec<Message<'_>> = proved.messages().collect();
    messages.sort_by_key(|m| faint(shown, [m.schedule.rank(), m.to]).is_empty());
    for Message { schedule, update, to, at, part, round } in messages {
        let from = schedule.rank();
        let (combine, into, read_in) = comes[to as usize][at as usize];
        let (begin, end) = (layout.columns[round as usize].0, layout.columns[read_in as usize].1);
        let (sent, _) = updates[from as usize][update as usize];
        let (read, of) = reads[to as usize][at as usize];
        let (x1, x2) = (begin + APART * sent as f64, end - APART * (of - 1 - read) as f64);
        let (y1, y2) = (layout.y(from), layout.y(to));
        // The head: a triangle in the direction of the line.
        let length = (x2 - x1).hypot(y2 - y1);
        let (dx, dy) = ((x2 - x1) / length, (y2 - y1) / length);
        let (bx, by) = (x2 - 7.0 * dx, y2 - 7.0 * dy);
        let colour = hex(colour(combine));
        let parts = match schedule.parts().len() {
            1 => String::new(),
            _ => {
                let into = &proved.schedules[to as usize].parts()[usize::from(into)];
                format!(", {} into {into}", schedule.parts()[usize::from(part)])
            }
        };
        writeln!(
            svg,
            "<g{}><title>round {round}: rank {from} → rank {to}, {}{parts}</title>\
             <path d=\"M{x1:.1} {y1:.1}L{bx:.1} {by:.1}\" stroke=\"{colour}\" stroke-width=\"1.3\" fill=\"none\"/>\
             <circle cx=\"{x1:.1}\" cy=\"{y1:.1}\" r=\"2\" fill=\"{colour}\"/>\
             <path d=\"M{x2:.1} {y2:.1}L{:.1} {:.1}L{:.1} {:.1}Z\" fill=\"{colour}\"/></g>",
            faint(shown, [from, to]),
            how(combine),
            bx - 3.0 * dy,
            by + 3.0 * dx,
            bx + 3.0 * dy,
            by - 3.0 * dx,
        )?;
    }
    Ok(())
}

/// Small squares after the round that local steps follow.
fn draw_locals(svg: &mut String, shown: &Shown, layout: &Layout) -> std::fmt::Result {
    for (schedule, rounds) in shown.proved.schedules.iter().zip(&shown.proved.rounds) {
        let mut said: Vec<(u32, Vec<String>)> = Vec::new();
        for (step, &round) in schedule.steps().iter().zip(rounds) {
            let Step::Local { from, part, combine } = *step else { continue };
            let [from, part] = [from, part].map(|number| &schedule.parts()[usize::from(number)]);
            let text = format!("{from} {} into {part}", how(combine));
            match said.last_mut() {
                Some((last, texts)) if *last == round => texts.push(text),
                _ => said.push((round, vec![text])),
            }
        }
        for (round, texts) in said {
            let (x, y) = (layout.columns[round as usize].1 + 0.25 * APART, layout.y(schedule.rank()) - 3.0);
            writeln!(
                svg,
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"6\" height=\"6\" fill=\"{}\"{}><title>rank {}: local {}</title></rect>",
                hex(INK),
                faint(shown, [schedule.rank(); 2]),
                schedule.rank(),
                texts.join(", ")
            )?;
        }
    }
    Ok(())
}

/// What the colours stand for, as far as they occur.
fn draw_legend(svg: &mut String, shown: &Shown, layout: &Layout) -> std::fmt::Result {
    let proved = &shown.proved;
    let steps = || proved.schedules.iter().flat_map(|schedule| schedule.steps());
    let reads = |how: Combine| steps().any(|s| matches!(s, Step::Read { combine, .. } if *combine == how));
    let (mut x, y) = (16.0, layout.height - 20.0);
    let ink = hex(INK);
    let mut entry = |symbol: String, text: &str, wide: f64| -> std::fmt::Result {
        writeln!(
            svg,
            "<g transform=\"translate({x:.1} {y:.1})\">{symbol}<text x=\"34\" y=\"5\" font-size=\"13\" fill=\"{ink}\">{text}</text></g>"
        )?;
        x += wide;
        Ok(())
    };
    for (combine, text, wide) in [
        (Combine::IncomingIsHigher, "combined as higher", 180.0),
        (Combine::IncomingIsLower, "combined as lower", 175.0),
        (Combine::Replace, "replaces", 115.0),
        (Combine::Undo, "taken out", 115.0),
    ] {
        if reads(combine) {
            let colour = hex(colour(combine));
            let arrow = format!(
                "<path d=\"M0 0L22 0\" stroke=\"{colour}\" stroke-width=\"1.3\"/><path d=\"M28 0L21 3L21 -3Z\" fill=\"{colour}\"/>"
            );
            entry(arrow, text, wide)?;
        }
    }
    if proved.report.locals > 0 {
        entry(format!("<path d=\"M11 -3h6v6h-6Z\" fill=\"{ink}\"/>"), "local", 90.0)?;
    }
    if proved.schedules.iter().any(|schedule| schedule.group().len() > 1) {
        let dashes = format!("<path d=\"M0 0L28 0\" stroke=\"{ink}\" stroke-dasharray=\"3 3\"/>");
        entry(dashes, "in place", 110.0)?;
    }
    Ok(())
}
