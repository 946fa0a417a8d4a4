//! The slot of a mapper that is replaced.

use maniple_mapper::{DefaultMapper, Mapper, MapperSlot, stock};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Its destructor panics.
struct Fragile;

impl Mapper for Fragile {
    fn name(&self) -> &str {
        "fragile"
    }
}

impl Drop for Fragile {
    fn drop(&mut self) {
        panic!("on purpose");
    }
}

#[test]
fn a_replaced_mapper_is_dropped_by_whoever_asks_it_last_and_its_panic_stays_there() {
    let fragile = Arc::new(Fragile);
    let left = Arc::downgrade(&fragile);
    let slot = MapperSlot::from(fragile);
    let mut reader = slot.reader();
    assert_eq!((&*reader.load().name, left.strong_count()), ("fragile", 1));
    slot.replace(Arc::new(DefaultMapper));
    assert_eq!(left.strong_count(), 1, "the reader may ask it");
    assert_eq!((&*reader.load().name, left.strong_count()), ("default", 0));
    slot.replace(Arc::new(Fragile));
    slot.replace(Arc::new(DefaultMapper));
}

#[test]
fn mappers_that_threads_put_into_a_slot_are_numbered_one_by_one() {
    let slot = MapperSlot::from(Arc::new(DefaultMapper));
    let put = &|name: &str| (0..200).map(|_| slot.replace(stock(name).unwrap()).number).collect::<Vec<_>>();
    let numbers = std::thread::scope(|scope| {
        let threads = ["first", "random", "default"].map(|name| scope.spawn(move || put(name)));
        threads.map(|thread| thread.join().unwrap())
    });
    assert!(numbers.iter().all(|of_thread| of_thread.is_sorted()));
    assert_eq!(numbers.concat().into_iter().collect::<BTreeSet<_>>(), (1..=600).collect());
    assert_eq!(slot.current().number, 600);
}
