//! The graph of a deadlock as a text and as a drawing.

use crate::diagnose::deadlock::{Graph, Node};
use std::collections::HashSet;
use std::fmt::Write;

/// Most edges of a drawing from one node with one reason.
const EDGES: usize = 16;

/// Most lines of a text.
const LINES: usize = 200;

/// Most causes, and most cycles, of a text.
const CAUSES: usize = 40;

/// Most nodes of a cycle that is written out.
const AROUND: usize = 12;

/// Most nodes of a drawing: more can't be read.
const NODES: usize = 2000;

impl Graph {
    /// Causes and cycles first, then who waits for whom as a tree. Whoever is awaited by several is shown once.
    pub fn text(&self) -> String {
        let mut lines = Vec::new();
        let causes = self.causes.iter().map(|cause| format!("  {cause}"));
        let cycles = self.cycles.iter().map(|cycle| format!("  a cycle: {}", self.around(cycle)));
        for list in [causes.collect::<Vec<_>>(), cycles.collect()] {
            let more = list.len().saturating_sub(CAUSES);
            lines.extend(list.into_iter().take(CAUSES));
            if more > 0 {
                lines.push(format!("  … and {more} more of these"));
            }
        }
        let awaited: HashSet<Node> = self.waits.keys().flat_map(|&node| self.next(node)).collect();
        let mut shown = HashSet::new();
        // First those nobody waits for, then what is left: cycles.
        let roots = self.waits.keys().filter(|node| !awaited.contains(node));
        let mut before = HashSet::new();
        for &root in roots.chain(self.waits.keys()) {
            let at = lines.len();
            self.tree(root, &mut shown, &mut lines);
            // Copies of the top-level task on other nodes wait for the same.
            if lines[at..].iter().all(|line| before.contains(line)) {
                lines.truncate(at);
            }
            before.extend(lines[at..].iter().cloned());
            if lines.len() > 2 * LINES {
                // How many there would be in all is not worth the time.
                break;
            }
        }
        if lines.len() > LINES {
            lines.truncate(LINES);
            lines.push("  … and more".into());
        }
        lines.join("\n")
    }

    /// The nodes of a cycle; of a long one those where it begins.
    fn around(&self, cycle: &[Node]) -> String {
        let mut names: Vec<String> = cycle.iter().take(AROUND).map(|&node| self.name(node)).collect();
        if cycle.len() > AROUND {
            names.push(format!("… {} more …", cycle.len() - AROUND));
        }
        names.extend(names.first().cloned());
        names.join(" → ")
    }

    fn tree(&self, root: Node, shown: &mut HashSet<Node>, lines: &mut Vec<String>) {
        let mut stack = vec![(root, 1)];
        while let Some((node, depth)) = stack.pop() {
            if !shown.insert(node) {
                continue;
            }
            let indent = "  ".repeat(depth.min(20));
            let waits = self.waits.get(&node).map_or(&[][..], |waits| waits);
            // What a barrier lacks is said in front.
            if !matches!(node, Node::Phase { .. }) {
                let name = self.name(node);
                let mut said: Vec<String> = waits.iter().map(|(what, _)| format!("{indent}{name}{what}")).collect();
                said.dedup();
                lines.extend(said);
                match node {
                    _ if !waits.is_empty() => {}
                    _ if self.over.contains(&node) => lines.push(format!("{indent}{name} is over")),
                    Node::Shard { .. } if !self.names.contains_key(&node) => {
                        lines.push(format!("{indent}{name} is not running"));
                    }
                    _ => lines.push(format!("{indent}{name}")),
                }
            }
            let depth = if matches!(node, Node::Phase { .. }) { depth } else { depth + 1 };
            stack.extend(waits.iter().rev().flat_map(|(_, on)| on.iter().rev().map(|&on| (on, depth))));
        }
    }

    /// A directed graph for Graphviz: an edge from each who waits to whom it waits for; cycles are red.
    pub fn dot(&self) -> String {
        let mut cyclic = HashSet::new();
        for cycle in &self.cycles {
            cyclic.extend(cycle.iter().copied().zip(cycle.iter().copied().cycle().skip(1)));
        }
        let mut numbers = std::collections::HashMap::new();
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

/// A string of the language.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}
