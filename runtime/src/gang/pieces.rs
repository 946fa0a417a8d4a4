//! Disjoint rectangles of one field of one tree, each with a fact that holds for all its points.

use crate::message::union_of;
use maniple_regions::Rect;
use std::collections::BTreeMap;
use std::ops::Range;

/// A fact about a rectangle.
pub(crate) trait Piece: Clone {
    /// The same fact about a part of the rectangle.
    fn of_part(&self, _piece: &Rect) -> Self {
        self.clone()
    }
}

/// Disjoint rectangles with facts about them. They are ordered by their first points. So a scan has the same order
/// everywhere, and looks only where an overlap is possible.
#[derive(Clone)]
pub(crate) struct Pieces<T> {
    pub map: BTreeMap<Rect, T>,
    /// The longest piece in the first dimension.
    longest: i64,
}

impl<T> Default for Pieces<T> {
    fn default() -> Self {
        Self { map: BTreeMap::new(), longest: 0 }
    }
}

impl<T: PartialEq> PartialEq for Pieces<T> {
    fn eq(&self, other: &Self) -> bool {
        self.map == other.map
    }
}

impl<T: Piece> Pieces<T> {
    /// The range in which pieces that overlap `rect` are.
    pub fn range(&self, rect: Rect) -> Range<Rect> {
        let from = starting_at(rect, rect.lo(0));
        let first = if rect.dim() == 1 {
            // In one dimension, of the pieces that start before `rect` only the last can reach into it.
            self.map.range(..from).next_back().map_or(from, |(before, _)| *before)
        } else {
            starting_at(rect, rect.lo(0).saturating_sub(self.longest))
        };
        first..starting_at(rect, rect.hi(0)).max(first)
    }

    pub fn overlapping(&self, rect: Rect) -> impl Iterator<Item = (&Rect, &T)> {
        self.map.range(self.range(rect)).filter(move |(r, _)| r.overlaps(&rect))
    }

    fn insert(&mut self, rect: Rect, known: T) {
        self.longest = self.longest.max(rect.hi(0).saturating_sub(rect.lo(0)));
        self.map.insert(rect, known);
    }

    pub fn write(&mut self, rect: Rect, known: T) {
        if rect.is_empty() {
            return;
        }
        if let Some(of_piece) = self.map.get_mut(&rect) {
            *of_piece = known;
            return;
        }
        let cut: Vec<Rect> = self.overlapping(rect).map(|(r, _)| *r).collect();
        for old in cut {
            let Some(of_piece) = self.map.remove(&old) else { continue };
            for rest in old.subtract(&rect) {
                self.insert(rest, of_piece.of_part(&old));
            }
        }
        self.insert(rect, known);
    }

    /// Cuts pieces so that each lies within `rect` or outside, and fills gaps in `rect`. Then calls `visit` for those
    /// within.
    pub fn visit(&mut self, rect: Rect, mut visit: impl FnMut(&mut T))
    where
        T: Default,
    {
        if rect.is_empty() {
            return;
        }
        if let Some(known) = self.map.get_mut(&rect) {
            return visit(known);
        }
        let (mut covered, mut lie_within) = (0, true);
        for (piece, _) in self.overlapping(rect) {
            let within = rect.contains_rect(piece);
            lie_within &= within;
            covered += if within { piece.volume() } else { piece.intersect(&rect).volume() };
        }
        if !lie_within || covered < rect.volume() {
            self.cut_and_fill(rect);
        }
        let range = self.range(rect);
        self.map.range_mut(range).filter(|(piece, _)| rect.contains_rect(piece)).for_each(|(_, known)| visit(known));
    }

    fn cut_and_fill(&mut self, rect: Rect)
    where
        T: Default,
    {
        let overlapping: Vec<Rect> = self.overlapping(rect).map(|(r, _)| *r).collect();
        let mut gaps = vec![rect];
        for piece in overlapping {
            let within = piece.intersect(&rect);
            gaps = gaps.iter().flat_map(|gap| gap.subtract(&within)).collect();
            if within != piece
                && let Some(known) = self.map.remove(&piece)
            {
                for rest in piece.subtract(&rect) {
                    self.insert(rest, known.of_part(&piece));
                }
                self.insert(within, known.of_part(&piece));
            }
        }
        for gap in gaps {
            self.insert(gap, T::default());
        }
    }

    /// Joins neighbours with the same fact where their union is a rectangle.
    pub fn join_neighbours(&mut self)
    where
        T: PartialEq,
    {
        let mut joined: Vec<(Rect, T)> = Vec::new();
        for (mut rect, known) in std::mem::take(&mut self.map) {
            while let Some((before, _)) = joined.last().filter(|(_, last)| *last == known)
                && let Some(union) = union_of(*before, rect)
            {
                rect = union;
                joined.pop();
            }
            joined.push((rect, known));
        }
        joined.into_iter().for_each(|(rect, known)| self.insert(rect, known));
    }
}

/// The least rectangle that starts at `x` in the first dimension, in the order of rectangles of `like`'s dimension.
fn starting_at(like: Rect, x: i64) -> Rect {
    const LEAST: i64 = i64::MIN;
    match like.dim() {
        1 => Rect::new([x], [x]),
        2 => Rect::new([x, LEAST], [x, LEAST]),
        _ => Rect::new([x, LEAST, LEAST], [x, LEAST, LEAST]),
    }
}
