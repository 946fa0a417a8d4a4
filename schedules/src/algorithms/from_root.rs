//! The order in which receivers get the value of a root.

use crate::Ranks;

/// The place of a rank in the order in which receivers get a value: the root has place 0.
pub fn place_of(rank: u32, root: u32, receivers: &Ranks) -> Option<u32> {
    if rank == root {
        return Some(0);
    }
    let position = receivers.position(rank)?;
    Some(position + 1 - u32::from(receivers.position(root).is_some_and(|root| root < position)))
}

/// The rank at a place.
pub fn at(place: u32, root: u32, receivers: &Ranks) -> u32 {
    match (place, receivers.position(root)) {
        (0, _) => root,
        (place, Some(root)) if place > root => receivers.at(place),
        (place, _) => receivers.at(place - 1),
    }
}

/// The number of places: one for each receiver, and one for the root.
pub fn places(root: u32, receivers: &Ranks) -> u32 {
    receivers.len() + u32::from(!receivers.contains(root))
}
