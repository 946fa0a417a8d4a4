//! The columns of parts of a shard's regions that somebody uses, found by their rectangles.

use super::column::Column;
use crate::maps::HashMap;
use maniple_regions::{FieldId, Rect, Region, TreeId};
use std::rc::{Rc, Weak};

/// With no more columns than this, looking at each is quicker than a tree.
const FEW: usize = 8;

/// Columns of each field, by their rectangles.
type ByField = HashMap<(TreeId, FieldId), RectTree<Weak<Column>>>;

/// The columns of parts of one shard's regions. A column stays as long as a view or a task has it.
#[derive(Default)]
pub(crate) struct Columns {
    /// All columns, while there are few.
    few: Vec<Weak<Column>>,
    /// All columns, once there are many. Hardly any shard has that many, and there are many shards.
    many: Option<Box<Many>>,
}

/// Many columns. Columns that are gone are left out when it is built again.
#[derive(Default)]
struct Many {
    trees: ByField,
    /// How many columns there are, gone ones included, and at how many it is built again.
    columns: usize,
    rebuild_at: usize,
}

impl Columns {
    /// Adds a column.
    pub fn add(&mut self, column: &Rc<Column>) {
        if self.many.is_none() {
            if self.few.len() >= FEW {
                self.few.retain(|column| column.strong_count() > 0);
            }
            if self.few.len() < FEW {
                self.few.reserve_exact(FEW - self.few.len());
                return self.few.push(Rc::downgrade(column));
            }
        }
        if self.many.as_ref().is_none_or(|many| many.columns >= many.rebuild_at) {
            self.rebuild();
        }
        self.many.get_or_insert_default().insert(column);
    }

    fn rebuild(&mut self) {
        let mut all = Vec::new();
        self.each(|column| all.push(column.clone()));
        let mut many = Box::new(Many { rebuild_at: 2 * all.len() + FEW, ..Many::default() });
        all.iter().for_each(|column| many.insert(column));
        *self = Self { few: Vec::new(), many: Some(many) };
    }

    /// Calls `found` for each column of the field with points of the region.
    pub fn overlapping(&self, region: &Region, field: FieldId, mut found: impl FnMut(&Rc<Column>)) {
        let mut look = |column: &Weak<Column>| {
            if let Some(column) = column.upgrade()
                && column.field.id == field
                && column.region.overlaps(region)
            {
                found(&column);
            }
        };
        self.few.iter().for_each(&mut look);
        if let Some(tree) = self.many.as_ref().and_then(|many| many.trees.get(&(region.tree, field))) {
            tree.overlapping(region.rect, &mut |_, column| look(column));
        }
    }

    /// Calls `each` for each column.
    pub fn each(&self, mut each: impl FnMut(&Rc<Column>)) {
        let trees = self.many.iter().flat_map(|many| many.trees.values());
        let all = self.few.iter().chain(trees.flat_map(RectTree::values));
        all.filter_map(Weak::upgrade).for_each(|column| each(&column));
    }
}

impl Many {
    fn insert(&mut self, column: &Rc<Column>) {
        let tree = self.trees.entry((column.region.tree, column.field.id)).or_default();
        tree.insert(column.rect(), Rc::downgrade(column));
        self.columns += 1;
    }
}

/// Any rectangles of one dimension, each with a value. A search takes logarithmic time for each rectangle that it finds.
///
/// This is a treap: a search tree by rectangle, and a heap by numbers that look random, which keep it balanced. Each node
/// knows a rectangle around all of its subtree.
pub(crate) struct RectTree<T> {
    nodes: Vec<Node<T>>,
    root: u32,
}

struct Node<T> {
    rect: Rect,
    value: T,
    around: Rect,
    below: [u32; 2],
}

const NONE: u32 = u32::MAX;

impl<T> Default for RectTree<T> {
    fn default() -> Self {
        Self { nodes: Vec::new(), root: NONE }
    }
}

impl<T> RectTree<T> {
    /// Adds a rectangle. Nothing overlaps an empty one, so no search comes to it.
    pub fn insert(&mut self, rect: Rect, value: T) {
        let new = self.nodes.len() as u32;
        self.nodes.push(Node { rect, value, around: rect, below: [NONE; 2] });
        if !rect.is_empty() {
            self.root = self.insert_below(self.root, new);
        }
    }

    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.nodes.iter().map(|node| &node.value)
    }

    /// Calls `found` for each rectangle that has a point in common with `rect`.
    pub fn overlapping(&self, rect: Rect, found: &mut impl FnMut(&Rect, &T)) {
        self.search(self.root, &rect, found);
    }

    fn search(&self, at: u32, rect: &Rect, found: &mut impl FnMut(&Rect, &T)) {
        let Some(node) = self.nodes.get(at as usize).filter(|node| node.around.overlaps(rect)) else { return };
        self.search(node.below[0], rect, found);
        if node.rect.overlaps(rect) {
            found(&node.rect, &node.value);
        }
        self.search(node.below[1], rect, found);
    }

    /// Inserts a node into a subtree and returns its root.
    fn insert_below(&mut self, root: u32, new: u32) -> u32 {
        if root == NONE || rank(new) > rank(root) {
            self.nodes[new as usize].below = self.split(root, &{ self.nodes[new as usize].rect });
            return self.surround(new);
        }
        let side = self.side(root, &self.nodes[new as usize].rect);
        let below = self.insert_below(self.nodes[root as usize].below[side], new);
        self.nodes[root as usize].below[side] = below;
        self.surround(root)
    }

    /// Cuts a subtree into the rectangles before `rect` and the others.
    fn split(&mut self, root: u32, rect: &Rect) -> [u32; 2] {
        if root == NONE {
            return [NONE; 2];
        }
        let side = self.side(root, rect);
        let mut parts = self.split(self.nodes[root as usize].below[side], rect);
        self.nodes[root as usize].below[side] = parts[1 - side];
        parts[1 - side] = self.surround(root);
        parts
    }

    /// The side of a node on which `rect` belongs.
    fn side(&self, at: u32, rect: &Rect) -> usize {
        usize::from(*rect > self.nodes[at as usize].rect)
    }

    fn surround(&mut self, at: u32) -> u32 {
        let node = &self.nodes[at as usize];
        let below = node.below.iter().filter_map(|&below| self.nodes.get(below as usize));
        let around = below.fold(node.rect, |around, below| hull(&around, &below.around));
        self.nodes[at as usize].around = around;
        at
    }
}

/// The least rectangle around two of the same dimension.
fn hull(a: &Rect, b: &Rect) -> Rect {
    let lo = |d| a.lo(d).min(b.lo(d));
    let hi = |d| a.hi(d).max(b.hi(d));
    match a.dim() {
        1 => Rect::new([lo(0)], [hi(0)]),
        2 => Rect::new([lo(0), lo(1)], [hi(0), hi(1)]),
        _ => Rect::new([lo(0), lo(1), lo(2)], [hi(0), hi(1), hi(2)]),
    }
}

/// A number that looks random, by the number of a node.
fn rank(node: u32) -> u32 {
    let mixed = (node ^ (node >> 16)).wrapping_mul(0x7feb_352d);
    (mixed ^ (mixed >> 15)).wrapping_mul(0x846c_a68b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rects(dim: usize) -> impl Strategy<Value = Vec<Rect>> {
        let one = ([-20i64..20, -20i64..20, -20i64..20], [0i64..9, 0i64..9, 0i64..9]);
        let rect = one.prop_map(move |(lo, size)| match dim {
            1 => Rect::new([lo[0]], [lo[0] + size[0]]),
            2 => Rect::new([lo[0], lo[1]], [lo[0] + size[0], lo[1] + size[1]]),
            _ => Rect::new(lo, [lo[0] + size[0], lo[1] + size[1], lo[2] + size[2]]),
        });
        prop::collection::vec(rect, 0..80)
    }

    proptest! {
        /// Compared with a look at each rectangle.
        #[test]
        fn a_search_finds_all_that_overlap(all in (1usize..4).prop_flat_map(rects)) {
            let mut tree = RectTree::default();
            for (number, rect) in all.iter().enumerate() {
                let mut found = Vec::new();
                tree.overlapping(*rect, &mut |_, &n: &usize| found.push(n));
                found.sort_unstable();
                let points = |r: &Rect, s: &Rect| (0..r.dim()).all(|d| r.lo(d).max(s.lo(d)) < r.hi(d).min(s.hi(d)));
                let expected: Vec<usize> = (0..number).filter(|&n| points(&all[n], rect)).collect();
                prop_assert_eq!(found, expected);
                tree.insert(*rect, number);
            }
        }
    }

    /// The nodes that a search looks at.
    fn steps(tree: &RectTree<()>, at: u32, rect: &Rect) -> usize {
        let Some(node) = tree.nodes.get(at as usize) else { return 0 };
        match node.around.overlaps(rect) {
            true => 1 + node.below.iter().map(|&below| steps(tree, below, rect)).sum::<usize>(),
            false => 1,
        }
    }

    /// One after the other is the worst order for a tree that does not balance itself. Slices of rows and of columns.
    #[test]
    fn a_search_among_many_slices_takes_few_steps() {
        for dim in [1, 2] {
            let slice = |at: i64| if dim == 1 { Rect::line(at, at + 1) } else { Rect::new([0, at], [1000, at + 1]) };
            let mut tree = RectTree::default();
            (0..40_000).for_each(|at| tree.insert(slice(at), ()));
            for at in (0..40_000).step_by(1001) {
                let steps = steps(&tree, tree.root, &slice(at));
                assert!(steps <= 150, "{steps} steps to slice {at} in {dim} dimensions");
            }
        }
    }
}
