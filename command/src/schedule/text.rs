//! The schedule as text: a line for each round of each rank.

use super::Shown;
use super::rounds::ProvedSchedules;
use crate::options::ranks::listed;
use maniple_collectives::{Combine, Ranks, Schedule, Step};

/// The text.
pub fn text(shown: &Shown, kind: &str) -> String {
    let ProvedSchedules { goal, schedules, rounds, .. } = &shown.proved;
    let mut text = format!("{}\n", shown.title(kind));
    text.extend(shown.instead.iter().map(|why| format!("{why}\n")));
    let all = Ranks::all(goal.ranks());
    for (does, ranks) in [("contribute", goal.contributors()), ("receive", goal.receivers())] {
        if *ranks != all {
            let (plural, s) = (ranks.len() > 1, if ranks.len() > 1 { "" } else { "s" });
            text += &format!("{} {} {does}{s}\n", if plural { "ranks" } else { "rank" }, listed(ranks));
        }
    }
    text += &format!("{}\n{}\n", shown.numbers(), shown.needs());
    for rank in shown.ranks() {
        text += &format!("\nrank {rank}{}\n", of_rank(&schedules[rank]));
        let steps: Vec<String> = schedules[rank].steps().iter().map(|&s| step(&schedules[rank], s)).collect();
        let together = |round: u32| format!("  round {round}: ");
        let mut last = None;
        for (said, &round) in steps.iter().zip(&rounds[rank]) {
            match last == Some(round) {
                true => text += &format!(", {said}"),
                false => text += &format!("{}{}{said}", if last.is_some() { "\n" } else { "" }, together(round)),
            }
            last = Some(round);
        }
        if last.is_some() {
            text.push('\n');
        }
    }
    text
}

/// What is special about a rank.
fn of_rank(schedule: &Schedule) -> String {
    let group = schedule.group();
    if group.len() > 1 && group.start != schedule.rank() {
        return format!(", combined in place by rank {}", group.start);
    }
    let mut said = String::new();
    if group.len() > 1 {
        said += &format!(", for ranks {}-{} of its processor", group.start, group.end - 1);
    }
    if schedule.steps().is_empty() && group.len() == 1 {
        said += ", no steps";
    }
    if schedule.result() > 0 {
        said += &format!(", result in r{}", schedule.result());
    }
    said
}

/// How incoming values change a part, in one word.
pub fn how(combine: Combine) -> &'static str {
    match combine {
        Combine::IncomingIsHigher => "higher",
        Combine::IncomingIsLower => "lower",
        Combine::Replace => "replace",
        Combine::Undo => "undo",
    }
}

/// A step. The only part of a rank goes without saying.
fn step(schedule: &Schedule, step: Step) -> String {
    let part = |number: u16| schedule.parts()[usize::from(number)].to_string();
    let with = |before: &str, number: u16| match schedule.parts().len() {
        1 => String::new(),
        _ => format!(" {before}{}", part(number)),
    };
    match step {
        Step::Update { peer, part, .. } => format!("→ {peer}{}", with("", part)),
        Step::Read { peer, part, combine, .. } => format!("← {peer} {}{}", how(combine), with("into ", part)),
        Step::Local { from, part: into, combine } => {
            format!("local {} {} into {}", part(from), how(combine), part(into))
        }
    }
}
