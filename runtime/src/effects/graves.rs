//! The objects that were destroyed: their names, and where that was. Only errors and traces ask.
//!
//! A loop makes and destroys objects with the same names in each step, so their numbers are at equal distances. What is kept
//! of them does not grow with the number of steps.

use crate::ids::ObjectId;
use crate::maps::HashMap;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

/// Where an object was destroyed.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Destroyed {
    pub at: &'static Location<'static>,
    /// The gang that took it along.
    pub with: Option<Arc<str>>,
}

impl fmt::Display for Destroyed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.at.file(), self.at.line())?;
        self.with.iter().try_for_each(|gang| write!(f, ", with {gang}"))
    }
}

/// Numbers at equal distances.
struct Numbers {
    first: ObjectId,
    distance: u32,
    count: u32,
}

impl Numbers {
    /// Whether the number now is among them.
    fn take(&mut self, number: ObjectId) -> bool {
        if self.count == 1 && number > self.first {
            self.distance = number - self.first;
        }
        let next = u64::from(self.first) + u64::from(self.distance) * u64::from(self.count);
        let takes = next == u64::from(number);
        self.count += u32::from(takes);
        takes
    }

    fn all(&self) -> impl Iterator<Item = ObjectId> {
        (0..self.count).map(|at| self.first + at * self.distance)
    }
}

/// Objects by name, and by where they were destroyed.
type Names = HashMap<(String, Destroyed), Vec<Numbers>>;

#[derive(Default)]
pub(super) struct Graves {
    new: Names,
    /// The names of earlier objects, up to [`Graves::MOST`].
    old: Names,
    /// How many lists of numbers the new names have.
    lists: usize,
}

impl Graves {
    /// This many lists of numbers are kept, and up to as many earlier ones.
    const MOST: usize = 4096;

    pub fn add(&mut self, object: ObjectId, name: String, destroyed: Destroyed) {
        if self.lists == Self::MOST {
            self.old = std::mem::take(&mut self.new);
            self.lists = 0;
        }
        let lists = self.new.entry((name, destroyed)).or_default();
        if !lists.last_mut().is_some_and(|last| last.take(object)) {
            lists.push(Numbers { first: object, distance: 0, count: 1 });
            self.lists += 1;
        }
    }

    fn each(&self) -> impl Iterator<Item = (ObjectId, &(String, Destroyed))> {
        let lists = self.old.iter().chain(&self.new);
        lists.flat_map(|(name, lists)| lists.iter().flat_map(Numbers::all).map(move |number| (number, name)))
    }

    /// An object's name, and where it was destroyed. None if that was too long ago.
    pub fn find(&self, object: ObjectId) -> Option<&(String, Destroyed)> {
        self.each().find(|(number, _)| *number == object).map(|(_, name)| name)
    }

    /// The number of each object that has a name.
    pub fn names(&self) -> impl Iterator<Item = (ObjectId, &str)> {
        self.each().map(|(number, (name, _))| (number, &**name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> Destroyed {
        Destroyed { at: Location::caller(), with: None }
    }

    #[test]
    fn each_object_is_found_by_its_number() {
        let mut graves = Graves::default();
        let at = here();
        // In an order that fits no distance for long.
        let numbers = [3, 1, 5, 7, 9, 2, 4, 40, 30, 31, 32, 8, 12, 14];
        let name = |number: u32| format!("gang `{}`", number % 2);
        for number in numbers {
            graves.add(number, name(number), at.clone());
        }
        for number in 0..50 {
            let found = graves.find(number).map(|(name, _)| name.clone());
            assert_eq!(found, numbers.contains(&number).then(|| name(number)), "object {number}");
        }
    }

    #[test]
    fn steps_of_a_loop_add_nothing() {
        let mut graves = Graves::default();
        let at = here();
        for step in 0..100_000 {
            graves.add(10 + 3 * step, "gang `g`".into(), at.clone());
            graves.add(11 + 3 * step, "edges `e`".into(), at.clone());
        }
        assert_eq!(graves.lists, 2);
        assert!(graves.find(10 + 3 * 70_000).is_some_and(|(name, _)| name == "gang `g`"));
        assert_eq!(graves.find(12), None);
    }

    #[test]
    #[ignore = "takes long; `./check full` runs it"]
    fn of_names_that_never_come_again_the_newest_are_kept() {
        let mut graves = Graves::default();
        let (at, most) = (here(), Graves::MOST as u32);
        for step in 0..3 * most {
            graves.add(step, format!("gang `{step}`"), at.clone());
            assert!(graves.new.len() + graves.old.len() <= 2 * Graves::MOST);
        }
        for kept in 2 * most..3 * most {
            assert!(graves.find(kept).is_some_and(|(name, _)| *name == format!("gang `{kept}`")), "gang {kept}");
        }
    }
}
