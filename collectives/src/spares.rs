//! The memory of contributions, into which a shard may write later ones.

use maniple_regions::{Element, Vector, vec_in_huge_pages};
use std::cell::RefCell;
use std::sync::Arc;

/// The vectors of each shard that has asked for one.
pub struct Spares<T> {
    /// By position.
    shards: RefCell<Vec<OfShard<T>>>,
    /// How many calls can be in flight.
    slots: usize,
}

struct OfShard<T> {
    /// How many the shard has got and not contributed yet, and the most that were out at a time.
    out: usize,
    most: usize,
    /// Those that it has contributed, the oldest first. One that nobody else holds any more is spare.
    contributed: Vec<Arc<Vec<T>>>,
}

impl<T: Element> Spares<T> {
    pub fn new(slots: u32) -> Self {
        Self { shards: RefCell::default(), slots: slots as usize }
    }

    /// A vector with arbitrary values: a spare one that is large enough, or else a new one. That takes the place of a smaller
    /// one.
    pub fn take(&self, position: u32, elements: usize) -> Vec<T> {
        let (mut all, at) = (self.shards.borrow_mut(), position as usize);
        if at >= all.len() {
            all.resize_with(at + 1, || OfShard { out: 0, most: 0, contributed: Vec::new() });
        }
        let OfShard { out, most, contributed } = &mut all[at];
        *out += 1;
        *most = (*most).max(*out);
        let free = contributed.iter_mut().enumerate().filter_map(|(at, vector)| {
            let capacity = Arc::get_mut(vector)?.capacity();
            // The smallest of those that are large enough, or the largest of the others.
            Some((capacity < elements, capacity.abs_diff(elements), at))
        });
        let best = free.min().map(|(_, _, at)| contributed.remove(at)).and_then(Arc::into_inner);
        match best.filter(|vector| vector.capacity() >= elements) {
            Some(mut vector) => {
                vector.resize(elements, T::zeroed());
                vector
            }
            None => vec_in_huge_pages(std::iter::repeat_n(T::zeroed(), elements)),
        }
    }

    /// Keeps a contribution for as many as the shard has got. It may be another one: then that one's memory is used.
    pub fn keep(&self, position: u32, contribution: &Vector<T>) {
        if let Some(OfShard { out, most, contributed }) = self.shards.borrow_mut().get_mut(position as usize)
            && *out > 0
            && let Ok(vector) = contribution.clone().into_shared()
        {
            *out -= 1;
            // Besides those of the calls in flight, others have to be read. Somebody may hold one for as long as it likes.
            if contributed.len() >= (self.slots + 2) * *most {
                contributed.remove(0);
            }
            contributed.push(vector);
        }
    }

    /// The shard belongs to another launch: what it has got before does not come any more.
    pub fn new_launch(&self, position: u32) {
        if let Some(of) = self.shards.borrow_mut().get_mut(position as usize) {
            of.out = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_holds_is_used_again() {
        let spares = Spares::<u64>::new(2);
        // A contribution of a shard that has asked for nothing is not kept.
        spares.keep(3, &vec![1].into());
        let first = spares.take(3, 4);
        let place = first.as_ptr();
        let contribution = Vector::from(first);
        spares.keep(3, &contribution);
        let second = spares.take(3, 4);
        assert!(second.as_ptr() != place && second == [0; 4], "the first one is held");
        drop(contribution);
        // The other shards have vectors of their own.
        let other = spares.take(2, 4);
        assert_ne!(other.as_ptr(), place);
        let third = spares.take(3, 2);
        assert_eq!((third.as_ptr(), third.len()), (place, 2));
        // Its capacity counts, not its length.
        spares.keep(3, &third.into());
        let fourth = spares.take(3, 4);
        assert_eq!(fourth.as_ptr(), place);
    }

    #[test]
    fn the_smallest_that_is_large_enough_is_taken_and_a_smaller_one_goes() {
        let spares = Spares::<u8>::new(2);
        let sizes = [10, 30, 20];
        let all = sizes.map(|size| spares.take(0, size));
        let places = all.each_ref().map(|vector| vector.as_ptr());
        all.into_iter().for_each(|vector| spares.keep(0, &vector.into()));
        let taken = [15; 3].map(|elements| spares.take(0, elements));
        assert_eq!([taken[0].as_ptr(), taken[1].as_ptr()], [places[2], places[1]]);
        assert_eq!(taken[2].len(), 15);
        assert!(spares.shards.borrow()[0].contributed.is_empty());
    }

    #[test]
    fn what_is_held_for_ever_makes_way() {
        let (spares, mut held) = (Spares::<u64>::new(2), Vec::new());
        for _ in 0..100 {
            held.push(Vector::from(spares.take(0, 4)));
            spares.keep(0, &held[held.len() - 1]);
            assert!(spares.shards.borrow()[0].contributed.len() <= 4);
        }
        let last = held.pop().map(|last| last.as_ptr());
        let again = spares.take(0, 4);
        assert_eq!(Some(again.as_ptr()), last);
    }

    /// No more are kept than have been asked for.
    #[test]
    fn other_contributions_are_not_kept() {
        let spares = Spares::<u8>::new(2);
        drop(spares.take(0, 1));
        (0..5).for_each(|_| spares.keep(0, &vec![7].into()));
        assert_eq!(spares.shards.borrow()[0].contributed.len(), 1);
        spares.new_launch(0);
        drop(spares.take(0, 1));
        spares.new_launch(0);
        spares.keep(0, &vec![7].into());
        assert_eq!(spares.shards.borrow()[0].contributed.len(), 0);
    }
}
