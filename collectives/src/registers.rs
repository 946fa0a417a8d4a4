//! The registers of a call, and the vectors that they use in turn.

use crate::fold::{combine_in_place, combine_into};
use crate::role::{Place, Role};
use maniple_regions::{Element, Lendable, Operator, Vector, vec_in_huge_pages};
use maniple_runtime::Lent;
use std::ops::Range;
use std::sync::Arc;

/// A vector of a call. If it is the only one and all steps use all of it, it is lent as a whole, or else in parts.
#[derive(Default)]
enum Register<T> {
    /// Nothing has come yet, or the vector has gone to somebody else.
    #[default]
    Empty,
    /// A whole vector. It can change while nobody else holds it.
    Whole(Arc<Vec<T>>),
    /// A whole vector of others, or a part of one. It does not change.
    Held(Vector<T>),
    /// A vector of which each part can change that is not on loan.
    Parts(Lendable<T>),
}

impl<T: Element> Register<T> {
    fn new(elements: usize, has_parts: bool) -> Self {
        let vector = vec_in_huge_pages(std::iter::repeat_n(T::zeroed(), elements));
        if has_parts { Register::Parts(vector.into()) } else { Register::Whole(Arc::new(vector)) }
    }

    fn as_slice(&self) -> &[T] {
        match self {
            Register::Empty => &[],
            Register::Whole(all) => all,
            Register::Held(all) => all,
            Register::Parts(parts) => parts.as_slice(),
        }
    }

    /// Whether it has this many elements and all of them can change.
    fn is_free(&mut self, elements: usize) -> bool {
        match self {
            Register::Empty | Register::Held(_) => false,
            Register::Whole(all) => all.len() == elements && Arc::get_mut(all).is_some(),
            Register::Parts(parts) => parts.len() == elements && parts.is_free(),
        }
    }

    /// Some elements, unless they can't change or have not come.
    fn change(&mut self, range: Range<usize>) -> Option<&mut [T]> {
        match self {
            Register::Empty | Register::Held(_) => None,
            Register::Whole(all) => Arc::get_mut(all)?.get_mut(range),
            Register::Parts(parts) => parts.change(range),
        }
    }

    /// Lends some elements to a reader.
    fn lend(&mut self, range: Range<usize>) -> Arc<dyn Lent> {
        match self {
            Register::Empty => Arc::new(Vec::<T>::new()),
            Register::Whole(all) => all.clone(),
            Register::Held(all) => all.clone().into_shared().map_or_else(|some| Arc::new(some) as _, |all| all as _),
            Register::Parts(parts) => Arc::new(parts.lend(range)),
        }
    }

    /// Lends some elements to the program, or to the call itself.
    fn hold(&mut self, range: Range<usize>) -> Vector<T> {
        match self {
            Register::Empty => Vector::default(),
            Register::Whole(all) => all.clone().into(),
            Register::Held(all) => all.clone(),
            Register::Parts(parts) => parts.lend(range).into(),
        }
    }
}

/// Vectors that were given, or have been lent to readers, or to the program as results. When nobody else holds them any more,
/// later values go into them. Somebody may hold one for as long as it likes.
pub struct Pool<T> {
    vectors: Vec<Register<T>>,
    /// How often all were on loan when one was needed.
    missed: u32,
}

impl<T> Pool<T> {
    pub const fn new() -> Self {
        Self { vectors: Vec::new(), missed: 0 }
    }
}

impl<T: Element> Pool<T> {
    /// The most vectors that are kept. For large values the steps of a call have two on loan at a time. A whole contribution
    /// puts the vector of the last result here, too, which the program may still hold.
    const fn most(has_parts: bool) -> usize {
        if has_parts { 2 } else { 3 }
    }

    /// Pieces one behind the other, as a whole vector. Its memory is used again when nobody holds it any more.
    pub fn concat(&mut self, pieces: &[Vector<T>]) -> Vector<T> {
        let elements = pieces.iter().map(|piece| piece.len()).sum();
        let mut vector = self.find(elements, false).unwrap_or_default();
        match vector.change(0..elements) {
            Some(own) => write_pieces(own, pieces, |own, piece| own.copy_from_slice(piece)),
            None => vector = Register::Whole(Arc::new(pieces.concat())),
        }
        let lent = vector.hold(0..elements);
        self.put(vector);
        lent
    }

    /// A vector that nobody else holds, with arbitrary values.
    fn take(&mut self, elements: usize, has_parts: bool) -> Register<T> {
        self.find(elements, has_parts).unwrap_or_else(|| Register::new(elements, has_parts))
    }

    /// The same if there is one. Otherwise there is room for another.
    fn find(&mut self, elements: usize, has_parts: bool) -> Option<Register<T>> {
        if let Some(at) = self.vectors.iter_mut().position(|vector| vector.is_free(elements)) {
            return Some(self.vectors.remove(at));
        }
        let most = Self::most(has_parts);
        self.vectors.reserve_exact(most.saturating_sub(self.vectors.len()));
        if self.vectors.len() >= most {
            let other = self.vectors.iter().position(|vector| vector.as_slice().len() != elements);
            self.missed += u32::from(other.is_none());
            // The oldest may be the next to come back, or it never does: then it goes after a while.
            if let Some(at) = other.or(self.missed.is_multiple_of(4).then_some(0)) {
                self.vectors.remove(at);
            }
        }
        None
    }

    /// Keeps a vector if there are not enough, but not before one has been needed, when the list gets its memory: some
    /// shards only contribute.
    fn put(&mut self, vector: Register<T>) {
        let comes_back = match &vector {
            Register::Empty | Register::Held(_) => false,
            Register::Whole(all) => !all.is_empty(),
            // A shared one can never change.
            Register::Parts(parts) => !parts.is_empty() && !parts.is_shared(),
        };
        if comes_back && self.vectors.len() < self.vectors.capacity() {
            self.vectors.push(vector);
        }
    }
}

/// Writes pieces one behind the other.
pub fn write_pieces<T, U>(mut to: &mut [T], pieces: &[Vector<U>], mut write: impl FnMut(&mut [T], &[U])) {
    for piece in pieces {
        let (first, others) = to.split_at_mut(piece.len());
        write(first, piece);
        to = others;
    }
}

/// The registers of a call, and of the calls before it whose memory it uses again.
pub struct Registers<T> {
    all: Vec<Register<T>>,
    spare: Pool<T>,
    /// Whether the contribution's memory was left to the call, so that its result may have memory of the call.
    given: bool,
    /// Whether parts are lent.
    has_parts: bool,
}

impl<T> Registers<T> {
    pub const fn new() -> Self {
        Self { all: Vec::new(), spare: Pool::new(), given: false, has_parts: false }
    }
}

impl<T: Element> Registers<T> {
    /// Begins a call, whose contribution comes next.
    fn start(&mut self, role: &Role<T>) {
        self.all.resize_with(role.registers().len(), Register::default);
        (self.given, self.has_parts) = (false, role.parts.is_some());
    }

    /// Begins a call with a contribution, if there is one.
    pub fn begin(&mut self, role: &Role<T>, contribution: Option<Vector<T>>) {
        self.start(role);
        let has_parts = self.has_parts;
        let first = match contribution {
            // The first read brings the vector, but not the number of elements that have no bytes.
            None if !has_parts && size_of::<T>() > 0 => Register::Empty,
            None => return self.make_free(role, 0),
            Some(vector) if vector.len() != role.registers()[0] => return self.copy(role, &vector),
            Some(vector) => match vector.into_shared() {
                Ok(all) if has_parts => {
                    let parts = Arc::try_unwrap(all).map_or_else(Lendable::from, Lendable::from);
                    self.given = !parts.is_shared();
                    Register::Parts(parts)
                }
                Ok(all) => {
                    self.given = Arc::strong_count(&all) == 1;
                    if self.given { Register::Whole(all) } else { Register::Held(all.into()) }
                }
                Err(some) if has_parts => return self.copy(role, &some),
                Err(some) => Register::Held(some),
            },
        };
        self.replace(0, first);
        self.make_free(role, 1);
    }

    fn copy(&mut self, role: &Role<T>, contribution: &[T]) {
        self.begin_with(role, |own| own.copy_from_slice(contribution));
    }

    /// The same with a contribution that is written where it goes.
    pub fn begin_with(&mut self, role: &Role<T>, write: impl FnOnce(&mut [T])) {
        self.start(role);
        self.make_free(role, 0);
        write(self.all[0].change(role.contribution()).expect("nobody else holds it"));
    }

    /// Makes registers free to change. What the last call left there is of no use, so another vector will do while somebody
    /// holds it. One whose content comes as a whole needs none, unless its elements have no bytes.
    fn make_free(&mut self, role: &Role<T>, from: usize) {
        let brought = role.parts.as_ref().and_then(|parts| parts.brought).filter(|_| size_of::<T>() > 0);
        for (at, &elements) in role.registers().iter().enumerate().skip(from) {
            if brought.is_none_or(|(_, register)| register != at) && !self.all[at].is_free(elements) {
                let free = self.spare.take(elements, self.has_parts);
                self.replace(at, free);
            }
        }
    }

    fn replace(&mut self, register: usize, vector: Register<T>) {
        self.spare.put(std::mem::replace(&mut self.all[register], vector));
    }

    /// Some elements of a register. There are none before they come.
    pub fn get(&self, (register, range): Place) -> &[T] {
        self.all.get(register).and_then(|register| register.as_slice().get(range)).unwrap_or_default()
    }

    /// Lends a part to a reader.
    pub fn lend(&mut self, (register, range): Place) -> Arc<dyn Lent> {
        self.all[register].lend(range)
    }

    /// Lends a part to the program, or to the call itself, so that a change of the same elements goes elsewhere.
    pub fn hold(&mut self, (register, range): Place) -> Vector<T> {
        self.all[register].hold(range)
    }

    /// Takes a whole value of others in place of its own. Nobody changes it.
    pub fn take_loan(&mut self, register: usize, vector: Vector<T>) {
        self.replace(register, Register::Held(vector));
    }

    /// The result. It is handed over where it has the place of a contribution whose memory was given. Otherwise it is lent:
    /// when nobody holds it any more, later calls use its memory again.
    pub fn take_result(&mut self, (register, range): Place) -> Vector<T> {
        let of = &mut self.all[register];
        if self.given && register == 0 && range.len() == of.as_slice().len() {
            match std::mem::take(of) {
                Register::Whole(all) => return all.into(),
                Register::Parts(parts) => match parts.into_vec() {
                    Ok(vector) => return vector.into(),
                    // A last reader still holds some of it.
                    Err(lent) => *of = Register::Parts(lent),
                },
                other => *of = other,
            }
        }
        of.hold(range)
    }

    /// Lets go of vectors of others, and of a contribution that was not copied. Any other holder then holds it alone. Blocks of
    /// one that was given and has the result stay, because later calls use its memory again.
    pub fn end(&mut self, has_result: bool) {
        for at in 0..self.all.len() {
            let goes = match &self.all[at] {
                Register::Empty => false,
                Register::Held(_) => true,
                Register::Whole(_) => self.given && at == 0,
                Register::Parts(parts) => at == 0 && (parts.is_shared() || self.given && !has_result),
            };
            if goes {
                self.replace(at, Register::Empty);
            }
        }
        self.given = false;
    }

    /// `own = f(own)` for a range of a register: in its place if nothing of it is on loan, or else in another vector, to which
    /// the rest is copied.
    fn change(
        &mut self,
        (register, range): Place,
        in_place: impl FnOnce(&mut [T]),
        elsewhere: impl FnOnce(&mut [T], &[T]),
    ) {
        let Self { all, spare, has_parts, .. } = self;
        let register = &mut all[register];
        if let Some(own) = register.change(range.clone()) {
            return in_place(own);
        }
        let before = register.as_slice();
        let mut next = spare.take(before.len().max(range.end), *has_parts);
        let own = next.change(0..before.len().max(range.end)).expect("nobody else holds it");
        if !before.is_empty() {
            own[..range.start].copy_from_slice(&before[..range.start]);
            own[range.end..].copy_from_slice(&before[range.end..]);
        }
        elsewhere(&mut own[range.clone()], before.get(range).unwrap_or_default());
        spare.put(std::mem::replace(register, next));
    }

    /// Combines an incoming value with a part.
    pub fn combine(&mut self, operator: &Operator<T>, place: Place, how: u8, incoming: &[T]) {
        let in_place = |own: &mut [T]| combine_in_place(operator, how, own, incoming);
        self.change(place, in_place, |own, before| combine_into(operator, how, own, before, incoming));
    }

    /// Replaces each element of a part.
    pub fn map(&mut self, place: Place, f: impl Fn(T) -> T) {
        let elements = place.1.len();
        let elsewhere = |own: &mut [T], before: &[T]| {
            let before = before.iter().copied().chain(std::iter::repeat(T::zeroed())).take(elements);
            own.iter_mut().zip(before).for_each(|(own, before)| *own = f(before));
        };
        self.change(place, |own| own.iter_mut().for_each(|own| *own = f(*own)), elsewhere);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Combine;
    use std::collections::VecDeque;

    /// How many of the last hundred calls make a new vector for their result, if the first `forever` results are held for ever,
    /// and the `last` latest ones for a while. The contribution has another length than the result where that has parts.
    fn made(has_parts: bool, forever: usize, last: usize) -> usize {
        let (mut spare, mut register) = (Pool::<u64>::new(), Register::Empty);
        let (mut made, mut kept, mut held) = (0, Vec::new(), VecDeque::new());
        for call in 0..200 {
            if has_parts {
                spare.put(Register::Parts(vec![1; 7].into()));
            } else {
                // A whole contribution takes the place of the last result.
                spare.put(std::mem::take(&mut register));
            }
            if !register.is_free(4) {
                let free = spare.take(4, has_parts);
                spare.put(std::mem::replace(&mut register, free));
            }
            let own = register.change(0..4).expect("nobody else holds it");
            made += usize::from(call >= 100 && own[0] == 0);
            own[0] = 1;
            let result = register.hold(1..3);
            if call < forever {
                kept.push(result)
            } else {
                held.push_back(result)
            }
            if held.len() > last {
                held.pop_front();
            }
        }
        made
    }

    #[test]
    fn results_that_are_held_for_ever_do_not_keep_others_from_being_used_again() {
        for has_parts in [false, true] {
            for forever in [0, 1, 2, 5] {
                for last in 0..=2 {
                    let made = made(has_parts, forever, last);
                    assert_eq!(made, 0, "{forever} held for ever, {last} for a while, parts: {has_parts}");
                }
                let made = made(has_parts, forever, 3);
                assert!(made < 60, "{forever} held for ever, parts: {has_parts}: {made}");
            }
        }
    }

    /// What one shard does, by itself.
    fn role(elements: usize) -> Role<u64> {
        let ends = Some(elements);
        Role {
            contributes: ends,
            receives: ends,
            whole: elements,
            parts: None,
            fixed: None,
            alone: false,
            gathered: None,
        }
    }

    /// Each call of two steps contributes the last result, which the shard holds until it has the next one.
    #[test]
    fn a_result_that_is_held_during_the_next_call_is_used_again() {
        let (role, sum, mut registers) = (role(4), Operator::sum(), Registers::<u64>::new());
        let (mut result, mut places) = (Vector::from(vec![1; 4]), Vec::new());
        for call in 1..100 {
            registers.begin(&role, Some(result.clone()));
            let first = registers.lend(role.at(0));
            registers.combine(&sum, role.at(0), Combine::IncomingIsHigher as u8, &[0; 4]);
            drop(first);
            let second = registers.lend(role.at(0));
            registers.combine(&sum, role.at(0), Combine::IncomingIsHigher as u8, &[1; 4]);
            drop(second);
            result = registers.take_result(role.result());
            registers.end(true);
            assert_eq!(result, [1 + call; 4]);
            if !places.contains(&result.as_ptr()) {
                places.push(result.as_ptr());
            }
        }
        assert!(places.len() <= 3, "{}", places.len());
    }

    #[test]
    fn memory_of_a_value_that_is_replaced_is_kept() {
        let (role, mut registers) = (role(4), Registers::<u64>::new());
        registers.begin_with(&role, |own| own.fill(2));
        let place = registers.get(role.at(0)).as_ptr();
        registers.take_loan(0, vec![1; 4].into());
        assert_eq!(registers.get(role.at(0)), [1; 4]);
        registers.begin_with(&role, |own| own.fill(3));
        assert_eq!(registers.get(role.at(0)).as_ptr(), place);
    }

    /// A contribution that somebody holds for ever goes through no pool.
    #[test]
    fn vectors_that_others_hold_make_way() {
        let (role, shared, mut registers) = (role(4), Vector::from(vec![1; 4]), Registers::<u64>::new());
        let mut own = None;
        for _ in 0..5 {
            registers.begin(&role, Some(shared.clone()));
            registers.combine(&Operator::sum(), role.at(0), Combine::IncomingIsHigher as u8, &[1; 4]);
            let result = registers.take_result(role.result());
            registers.end(true);
            assert_eq!((result.as_ptr(), &result[..]), (*own.get_or_insert(result.as_ptr()), &[2; 4][..]));
        }
        assert_eq!(shared, [1; 4]);
    }
}
