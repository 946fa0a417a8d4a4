//! Combining an incoming value with a running one.

use crate::{Combine, Operator};
use maniple_regions::Element;

#[inline(always)]
pub fn combine_in_place<T: Element>(operator: &Operator<T>, how: u8, running: &mut [T], incoming: &[T]) {
    if how == Combine::IncomingIsHigher as u8 {
        operator.fold_higher(running, incoming);
    } else if how == Combine::IncomingIsLower as u8 {
        operator.fold_lower(running, incoming);
    } else if how == Combine::Undo as u8 {
        operator.undo(running, incoming);
    } else {
        running.copy_from_slice(incoming);
    }
}

/// `out = running ⊕ incoming`, in some order, or `running ⊖ incoming`.
#[inline]
pub fn combine_into<T: Element>(operator: &Operator<T>, how: u8, out: &mut [T], running: &[T], incoming: &[T]) {
    if how == Combine::IncomingIsHigher as u8 {
        operator.fold_into(out, running, incoming);
    } else if how == Combine::IncomingIsLower as u8 {
        operator.fold_into(out, incoming, running);
    } else if how == Combine::Undo as u8 {
        out.copy_from_slice(running);
        operator.undo(out, incoming);
    } else {
        out.copy_from_slice(incoming);
    }
}
