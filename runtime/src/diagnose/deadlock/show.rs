//! The graph of a deadlock as a text and as a drawing.

use crate::diagnose::deadlock::{Graph, Node};
use std::collections::{HashMap, HashSet};
use std::fmt::Write;

/// Most edges of a drawing from one node for one reason.
const EDGES: usize = 16;

/// Most lines of a text.
const LINES: usize = 200;

/// Most causes, and most cycles, of a text.
const CAUSES: usize = 40;

/// Most nodes of a cycle that is written out.
const AROUND: usize = 12;

/// Most nodes of a drawing: more can't be read.
const NODES: usize = 2000;

/// Lines, each once. Repetitions are counted.
#[derive(Default)]
struct Lines {
    lines: Vec<(String, usize)>,
    /// The place of each line, by its text without indentation.
    places: HashMap<String, usize>,
}

impl Lines {
    /// Adds a line; false if it is there already. `counts` says whether a repetition is counted.
    fn say(&mut self, depth: usize, text: String, counts: bool) -> bool {
        if let Some(&at) = self.places.get(&text) {
            self.lines[at].1 += usize::from(counts);
            return false;
        }
        self.lines.push(("  ".repeat(depth.min(20)) + &text, 1));
        self.places.insert(text, self.lines.len() - 1);
        true
    }

    /// The first `most` lines, and how many are left out.
    fn shown(self, most: usize) -> (impl Iterator<Item = String>, usize) {
        let more = self.lines.len().saturating_sub(most);
        let shown = |(line, n)| if n > 1 { format!("{line} ×{n}") } else { line };
        (self.lines.into_iter().take(most).map(shown), more)
    }
}

impl Graph {
    /// Failures, causes and cycles first, then the waits as a tree. A node that several others wait for is shown once,
    /// and so are nodes with the same text.
    pub fn text(&self) -> String {
        let mut all = Vec::new();
        let failed = self.failed.iter().cloned();
        let causes = self.causes.iter().cloned();
        let cycles = self.cycles.iter().map(|cycle| format!("a cycle: {}", self.around(cycle)));
        for list in [failed.collect::<Vec<_>>(), causes.collect(), cycles.collect()] {
            let mut lines = Lines::default();
            for text in list {
                lines.say(1, text, true);
            }
            let (shown, more) = lines.shown(CAUSES);
            all.extend(shown);
            if more > 0 {
                all.push(format!("  … and {more} more of these"));
            }
        }
        let awaited: HashSet<Node> = self.waits.keys().flat_map(|&node| self.next(node)).collect();
        let (mut shown, mut lines) = (HashSet::new(), Lines::default());
        // First the nodes that nobody waits for, then the remaining ones, which are in cycles.
        let roots = self.waits.keys().filter(|node| !awaited.contains(node));
        for &root in roots.chain(self.waits.keys()) {
            self.tree(root, &mut shown, &mut lines);
            if lines.lines.len() > 2 * LINES {
                // Counting the rest is not worth the time.
                break;
            }
        }
        let (shown, more) = lines.shown(LINES.saturating_sub(all.len()));
        all.extend(shown);
        if more > 0 {
            all.push("  … and more".into());
        }
        all.join("\n")
    }

    /// The nodes of a cycle, or the first ones of a long one.
    fn around(&self, cycle: &[Node]) -> String {
        let mut names: Vec<String> = cycle.iter().take(AROUND).map(|&node| self.name(node)).collect();
        if cycle.len() > AROUND {
            names.push(format!("… {} more …", cycle.len() - AROUND));
        }
        names.extend(names.first().cloned());
        names.join(" → ")
    }

    fn tree(&self, root: Node, shown: &mut HashSet<Node>, lines: &mut Lines) {
        let mut stack = vec![(root, 1)];
        while let Some((node, depth)) = stack.pop() {
            if !shown.insert(node) {
                continue;
            }
            let waits = self.waits.get(&node).map_or(&[][..], |waits| waits);
            // The missing arrivals of a barrier are listed before, among the causes.
            let said = !matches!(node, Node::Phase { .. }) && self.say(node, waits, depth, lines);
            // If a node is not shown, the nodes it waits for take its place.
            let depth = if said { depth + 1 } else { depth };
            stack.extend(waits.iter().rev().flat_map(|(_, on)| on.iter().rev().map(|&on| (on, depth))));
        }
    }

    /// Adds the lines of one node; false if all of them were there already.
    fn say(&self, node: Node, waits: &[(String, Vec<Node>)], depth: usize, lines: &mut Lines) -> bool {
        let name = self.name(node);
        // Copies of the top-level task on other nodes wait for the same, so they are not counted.
        let counts = !matches!(node, Node::Other { .. });
        let is = match node {
            _ if !waits.is_empty() => None,
            _ if self.over.contains(&node) => Some(" is over"),
            Node::Shard { .. } if !self.names.contains_key(&node) => Some(" is not running"),
            _ => Some(""),
        };
        let (mut its, mut said) = (HashSet::new(), false);
        for what in waits.iter().map(|(what, _)| &**what).chain(is).filter(|what| its.insert(*what)) {
            said |= lines.say(depth, format!("{name}{what}"), counts);
        }
        said
    }

    /// A directed graph for Graphviz, with an edge from each node to the nodes it waits for. Cycles are red.
    pub fn dot(&self) -> String {
        let mut cyclic = HashSet::new();
        for cycle in &self.cycles {
            cyclic.extend(cycle.iter().copied().zip(cycle.iter().copied().cycle().skip(1)));
        }
        let mut numbers = HashMap::new();
        let mut text = String::from("digraph deadlock {\n  rankdir = LR;\n  node [shape = box, fontname = sans];\n");
        let mut edges = String::new();
        let mut number = |node: Node, text: &mut String| {
            let next = numbers.len();
            *numbers.entry(node).or_insert_with(|| {
                let _ = writeln!(text, "  n{next} [label = {}];", quoted(&self.name(node)));
                next
            })
        };
        for (&node, waits) in self.waits.iter().take(NODES) {
            let from = number(node, &mut text);
            for (what, on) in waits {
                for &to in on.iter().take(EDGES) {
                    let colour = if cyclic.contains(&(node, to)) { ", color = red, penwidth = 2" } else { "" };
                    let to = number(to, &mut text);
                    let _ = writeln!(
                        edges,
                        "  n{from} -> n{to} [label = {}{colour}];",
                        quoted(what.trim_start_matches([':', ' ']))
                    );
                }
            }
        }
        if self.waits.len() > NODES {
            let _ = writeln!(text, "  more [label = {}];", quoted(&format!("… and {} more", self.waits.len() - NODES)));
        }
        text + &edges + "}\n"
    }
}

/// A quoted string in Graphviz's language.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}
