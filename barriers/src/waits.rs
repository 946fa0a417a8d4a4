//! Waiters by generation.

use std::collections::VecDeque;

/// Waiters with their generations: ordered by generation, and then as they came.
#[derive(Debug)]
pub struct Waits<W>(VecDeque<(u64, W)>);

impl<W> Default for Waits<W> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<W> Waits<W> {
    /// Adds a waiter for a generation.
    #[inline]
    pub fn add(&mut self, generation: u64, waiter: W) {
        // Mostly it waits for the last generation of all.
        match self.0.back() {
            Some((latest, _)) if *latest > generation => {
                self.0.insert(self.0.partition_point(|(g, _)| *g <= generation), (generation, waiter));
            }
            _ => self.0.push_back((generation, waiter)),
        }
    }

    /// Adds a waiter that came before all those of its generation.
    pub fn add_first(&mut self, generation: u64, waiter: W) {
        self.0.insert(self.0.partition_point(|(g, _)| *g < generation), (generation, waiter));
    }

    /// Whether nobody waits.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the generation of a waiter is one of the first `completed`.
    #[inline]
    pub fn is_due(&self, completed: u64) -> bool {
        self.0.front().is_some_and(|(g, _)| *g < completed)
    }

    /// Takes out the first waiter if its generation is one of the first `completed`, and says whether there are others.
    #[inline]
    pub fn release(&mut self, completed: u64) -> (Option<W>, bool) {
        if !self.is_due(completed) {
            return (None, false);
        }
        let first = self.0.pop_front();
        (first.map(|(_, waiter)| waiter), self.is_due(completed))
    }

    /// Takes out all waiters of the first `completed` generations, the earliest generation first.
    pub fn release_all(&mut self, completed: u64) -> Vec<W> {
        std::iter::from_fn(|| self.release(completed).0).collect()
    }

    /// Takes out the waiters for `generation` and later ones.
    pub fn take_from(&mut self, generation: u64) -> Vec<W> {
        let from = self.0.partition_point(|(g, _)| *g < generation);
        self.0.drain(from..).map(|(_, waiter)| waiter).collect()
    }

    /// The waiter for `generation` that `is` accepts, if there is one.
    pub fn find(&mut self, generation: u64, is: impl Fn(&W) -> bool) -> Option<&mut W> {
        self.0.iter_mut().find(|(g, w)| *g == generation && is(w)).map(|(_, waiter)| waiter)
    }

    /// Removes the waiter for `generation` that `is` accepts, if there is one.
    pub fn withdraw(&mut self, generation: u64, is: impl Fn(&W) -> bool) -> Option<W> {
        let at = self.0.iter().position(|(g, w)| *g == generation && is(w))?;
        self.0.remove(at).map(|(_, waiter)| waiter)
    }

    /// All waiters, each with its generation.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &W)> {
        self.0.iter().map(|(g, w)| (*g, w))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_go_in_the_order_of_generations_and_then_of_their_coming() {
        let mut waits = Waits::default();
        for (generation, waiter) in [(3, 'a'), (1, 'b'), (2, 'c'), (1, 'd'), (9, 'e'), (8, 'f')] {
            waits.add(generation, waiter);
        }
        assert_eq!((waits.release(1), waits.release(2)), ((None, false), (Some('b'), true)));
        assert_eq!(waits.release_all(4), ['d', 'c', 'a']);
        assert_eq!(waits.iter().collect::<Vec<_>>(), [(8, &'f'), (9, &'e')]);
        assert_eq!(waits.find(8, |w| *w == 'e'), None);
        assert_eq!(waits.find(9, |w| *w == 'e'), Some(&mut 'e'));
        assert_eq!((waits.withdraw(8, |w| *w == 'e'), waits.withdraw(8, |w| *w == 'f')), (None, Some('f')));
        waits.add(4, 'h');
        waits.add_first(4, 'i');
        assert_eq!((waits.take_from(9), waits.take_from(5)), (vec!['e'], vec![]));
        assert!(waits.is_due(5) && !waits.is_due(4));
        assert_eq!((waits.release(5), waits.release(5)), ((Some('i'), true), (Some('h'), false)));
        assert!(waits.is_empty() && !waits.is_due(5));
    }
}
