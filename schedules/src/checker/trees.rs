//! Symbolic values: trees over contributions, equal ones stored once.

use crate::{Goal, Laws};
use std::collections::HashMap;

/// A value: its index in [`Trees`].
pub type Value = u32;

/// Where a value was first computed: a rank and a step.
pub type Place = (u32, usize);

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Node {
    /// A block of the contribution at a position.
    Leaf {
        of: u32,
        block: u32,
    },
    Pair {
        lower: Value,
        higher: Value,
    },
    /// `from` without `what`.
    Without {
        from: Value,
        what: Value,
    },
}

/// What is in a value.
struct Content {
    /// The block that its leaves are of, unless they differ.
    block: Option<u32>,
    /// If its leaves are consecutive positions in order, each once: the first one, and that after the last.
    run: Option<(u32, u32)>,
    /// How often each position is in it, at most `MANY`: the number from one position to the next one listed.
    counts: Box<[(u32, i32)]>,
    has_inverse: bool,
    place: Place,
}

/// Stands for this number and all above.
const MANY: i32 = i32::MAX;

/// All values of an execution.
#[derive(Default)]
pub struct Trees {
    nodes: Vec<Node>,
    contents: Vec<Content>,
    known: HashMap<Node, Value>,
    /// The first value found with the same tree up to swapped operands, of those that have been compared.
    unordered: HashMap<Value, Value>,
    forms: HashMap<Node, Value>,
}

/// Why a value is not the combination that is wanted.
#[derive(Debug, PartialEq, Eq)]
pub enum Wrong {
    /// Blocks of several numbers were combined, first at this place.
    Mixed(Place),
    /// It is of another block.
    Misplaced,
    /// It lacks this position, or has one too many.
    Lacks(u32),
    Extra(u32),
}

impl Trees {
    pub fn leaf(&mut self, of: u32, block: u32) -> Value {
        let counts = if of == 0 { vec![(0, 1), (1, 0)] } else { vec![(0, 0), (of, 1), (of + 1, 0)] };
        let content = |_: &Self| Content {
            block: Some(block),
            run: Some((of, of + 1)),
            counts: counts.into(),
            has_inverse: false,
            place: (of, 0),
        };
        self.known(Node::Leaf { of, block }, content)
    }

    pub fn pair(&mut self, lower: Value, higher: Value, place: Place) -> Value {
        let content = |trees: &Self| {
            let (a, b) = (trees.content(lower), trees.content(higher));
            let run = match (a.run, b.run) {
                (Some((start, middle)), Some((next, end))) if middle == next => Some((start, end)),
                _ => None,
            };
            let counts = merged(&a.counts, &b.counts, i32::saturating_add);
            let has_inverse = a.has_inverse || b.has_inverse;
            Content { block: a.block.filter(|_| a.block == b.block), run, counts, has_inverse, place }
        };
        self.known(Node::Pair { lower, higher }, content)
    }

    /// `from` without `what`. An inverse says that (a ⊕ b) ⊖ b = a, so `what` must be in it, and something else as well.
    ///
    /// Otherwise an error: the position that `from` lacks, or none if nothing is left.
    pub fn without(&mut self, from: Value, what: Value, place: Place) -> Result<Value, Option<u32>> {
        let (a, b) = (self.content(from), self.content(what));
        let left = |held, taken| match (held, taken) {
            (MANY, MANY) => -1,
            (MANY, _) => MANY,
            _ => held - taken,
        };
        let counts = merged(&a.counts, &b.counts, left);
        if let Some(&(lacks, _)) = counts.iter().find(|(_, count)| *count < 0) {
            return Err(Some(lacks));
        }
        if counts.iter().all(|(_, count)| *count == 0) {
            return Err(None);
        }
        let block = a.block.filter(|_| a.block == b.block);
        let content = |_: &Self| Content { block, run: None, counts, has_inverse: true, place };
        Ok(self.known(Node::Without { from, what }, content))
    }

    fn known(&mut self, node: Node, content: impl FnOnce(&Self) -> Content) -> Value {
        if let Some(&value) = self.known.get(&node) {
            return value;
        }
        let content = content(self);
        self.nodes.push(node);
        self.contents.push(content);
        let value = self.nodes.len() as Value - 1;
        self.known.insert(node, value);
        value
    }

    /// The number of values.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether anything was taken out of a value.
    pub fn take_out(&self) -> bool {
        self.nodes.iter().any(|node| matches!(node, Node::Without { .. }))
    }

    /// Whether some of the first `computed` values are combinations that are in none of `results`, up to swapped operands.
    pub fn has_others(&mut self, computed: usize, results: &[Value]) -> bool {
        self.has_others_than(computed, results.to_vec(), |_, value| value)
            && self.has_others_than(computed, results.to_vec(), Self::unordered)
    }

    fn has_others_than(
        &mut self,
        computed: usize,
        mut todo: Vec<Value>,
        form: impl Fn(&mut Self, Value) -> Value,
    ) -> bool {
        let mut found = vec![false; self.nodes.len()];
        while let Some(value) = todo.pop() {
            let value = form(self, value);
            if !std::mem::replace(&mut found[value as usize], true)
                && let Node::Pair { lower: a, higher: b } | Node::Without { from: a, what: b } =
                    self.nodes[value as usize]
            {
                todo.extend([a, b]);
            }
        }
        (0..computed as Value)
            .any(|value| matches!(self.nodes[value as usize], Node::Pair { .. }) && !found[form(self, value) as usize])
    }

    fn content(&self, value: Value) -> &Content {
        &self.contents[value as usize]
    }

    /// The tree of recursive doubling over consecutive positions.
    pub fn by_doubling(&mut self, (from, to): (u32, u32), block: u32) -> Value {
        let count = to - from;
        let size = 1 << count.ilog2();
        let surplus = count - size;
        let mut values: Vec<Value> = (0..size)
            .map(|i| match i < surplus {
                true => {
                    let pair = [2 * i, 2 * i + 1].map(|position| self.leaf(from + position, block));
                    self.pair(pair[0], pair[1], (0, 0))
                }
                false => self.leaf(from + i + surplus, block),
            })
            .collect();
        while values.len() > 1 {
            values = values.as_chunks().0.iter().map(|&[lower, higher]| self.pair(lower, higher, (0, 0))).collect();
        }
        values[0]
    }

    /// The tree of a loop over consecutive positions.
    pub fn by_loop(&mut self, (from, to): (u32, u32), block: u32) -> Value {
        let first = self.leaf(from, block);
        (from + 1..to).fold(first, |value, position| {
            let next = self.leaf(position, block);
            self.pair(value, next, (0, 0))
        })
    }

    /// Whether two values are one tree up to swapped operands.
    pub fn equal_up_to_swaps(&mut self, a: Value, b: Value) -> bool {
        let in_order = |value| self.content(value).run.is_some();
        // Trees in order that differ have other brackets.
        a == b || !(in_order(a) && in_order(b)) && self.unordered(a) == self.unordered(b)
    }

    /// The same value for all trees that are one up to swapped operands. Where something is taken out they must be equal.
    fn unordered(&mut self, value: Value) -> Value {
        let mut todo = vec![value];
        while let Some(&next) = todo.last() {
            let mut node = self.nodes[next as usize];
            if let Node::Pair { lower, higher } = node {
                let below = [lower, higher].map(|value| self.unordered.get(&value).copied());
                let [Some(a), Some(b)] = below else {
                    todo.extend([lower, higher]);
                    continue;
                };
                node = Node::Pair { lower: a.min(b), higher: a.max(b) };
            }
            let first = *self.forms.entry(node).or_insert(next);
            self.unordered.insert(next, first);
            todo.pop();
        }
        self.unordered[&value]
    }

    /// The laws under which a value is the combination of these positions in order, if every receiver has the same brackets.
    pub fn laws(&self, value: Value, (from, to): (u32, u32), block: u32) -> Result<Laws, Wrong> {
        let content = self.content(value);
        match content.block {
            None => return Err(Wrong::Mixed(self.first_mixed(value))),
            Some(other) if other != block => return Err(Wrong::Misplaced),
            Some(_) => {}
        }
        if content.run == Some((from, to)) {
            return Ok(Laws::NONE);
        }
        let mut often = false;
        let ends = content.counts.iter().skip(1).map(|(end, _)| *end).chain([u32::MAX]);
        for (&(start, count), end) in content.counts.iter().zip(ends) {
            let inside = start.max(from)..end.min(to);
            if !inside.is_empty() && count < 1 {
                return Err(Wrong::Lacks(inside.start));
            }
            let outside = if start < from { Some(start) } else { (end > to).then_some(start.max(to)) };
            if let Some(extra) = outside.filter(|_| count != 0) {
                return Err(Wrong::Extra(extra));
            }
            often |= !inside.is_empty() && count > 1;
        }
        let invertible = content.has_inverse;
        Ok(Laws {
            associative: often || invertible,
            commutative: true,
            idempotent: often,
            invertible,
            infallible: false,
        })
    }

    /// Where leaves of different blocks, which are in the value, were first combined.
    fn first_mixed(&self, mut value: Value) -> Place {
        loop {
            let below = match self.nodes[value as usize] {
                Node::Pair { lower: a, higher: b } | Node::Without { from: a, what: b } => vec![a, b],
                Node::Leaf { .. } => vec![],
            };
            match below.into_iter().find(|&v| self.content(v).block.is_none()) {
                Some(mixed) => value = mixed,
                None => return self.content(value).place,
            }
        }
    }

    /// `((0 1) (2 3))`, cut after some sixty characters. A leaf is the rank at its position.
    pub fn show(&self, value: Value, goal: &Goal) -> String {
        let (rank, with_blocks) = (|of| goal.contributors().at(of), goal.blocks() > 1);
        let mut text = String::new();
        let mut todo = vec![Err(value)];
        while let Some(item) = todo.pop() {
            if text.len() > 60 {
                return text + "…";
            }
            match item {
                Ok(word) => text.push_str(word),
                Err(value) => match self.nodes[value as usize] {
                    Node::Leaf { of, block } if with_blocks => text.push_str(&format!("{}[{block}]", rank(of))),
                    Node::Leaf { of, .. } => text.push_str(&rank(of).to_string()),
                    Node::Pair { lower, higher } => {
                        todo.extend([Ok(")"), Err(higher), Ok(" "), Err(lower), Ok("(")]);
                    }
                    Node::Without { from, what } => {
                        todo.extend([Ok(")"), Err(what), Ok(" ⊖ "), Err(from), Ok("(")]);
                    }
                },
            }
        }
        text
    }
}

/// Two counts combined, position by position.
fn merged(a: &[(u32, i32)], b: &[(u32, i32)], combine: impl Fn(i32, i32) -> i32) -> Box<[(u32, i32)]> {
    let mut sums: Vec<(u32, i32)> = Vec::with_capacity(a.len() + b.len());
    let (mut i, mut j) = (0, 0);
    while i < a.len() || j < b.len() {
        let next = |list: &[(u32, i32)], at: usize| list.get(at).map_or(u32::MAX, |&(start, _)| start);
        let start = next(a, i).min(next(b, j));
        i += usize::from(next(a, i) == start);
        j += usize::from(next(b, j) == start);
        // Both lists begin at 0.
        let count = combine(a[i - 1].1, b[j - 1].1);
        if sums.last().is_none_or(|&(_, last)| last != count) {
            sums.push((start, count));
        }
    }
    sums.into()
}
