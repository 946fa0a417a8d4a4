//! The least and the greatest value with their places.

use bytemuck::{Pod, Zeroable};

use super::builtin::{self, Builtin, elementwise};
use super::{Laws, Number, Operator, Stateful};

/// A value and the place where it is: the elements of [`Operator::minloc`] and [`Operator::maxloc`].
///
/// It is an element of regions and collectives for values of 8 bytes: `f64`, `i64` and `u64`. Narrower numbers widen to
/// one of these without loss.
///
/// ```
/// use maniple_regions::{Located, Operator};
///
/// let least = Operator::minloc().combine(&Located { value: 2.5, at: 7 }, &Located { value: 2.5, at: 3 });
/// assert_eq!((least.value, least.at), (2.5, 3));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Located<T> {
    /// The value.
    pub value: T,
    /// Its place, for example an index into the whole vector.
    pub at: u64,
}

macro_rules! pod {
    ($($t:ty)*) => {$(
        const _: () = assert!(size_of::<Located<$t>>() == size_of::<$t>() + size_of::<u64>());

        // SAFETY: a number and a `u64`, in this order (`repr(C)`). Zero bytes are valid for both.
        #[allow(unsafe_code)]
        unsafe impl Zeroable for Located<$t> {}
        // SAFETY: both fields are `Pod`, and by the assertion there is no padding.
        #[allow(unsafe_code)]
        unsafe impl Pod for Located<$t> {}
    )*};
}

pod! { f64 i64 u64 }

/// The chosen value, at the lowest of the places that have it.
#[inline(always)]
fn choose<T: Number>(a: Located<T>, b: Located<T>, choose: impl Fn(T, T) -> T) -> Located<T> {
    let value = choose(a.value, b.value);
    let place = |x: Located<T>| if x.value.canonical().is_same(value) { x.at } else { u64::MAX };
    Located { value, at: place(a).min(place(b)) }
}

macro_rules! located {
    ($marker:ident $name:literal $choose:ident $last:ident) => {
        struct $marker;

        impl<T: Number> Builtin<Located<T>> for $marker {
            const NAME: &'static str = $name;
            const LAWS: Laws = Laws { idempotent: true, ..Laws::ORDER_IS_FREE };
            const IDENTITY: Option<Located<T>> = Some(Located { value: T::$last, at: u64::MAX });

            elementwise!(Located<T>, |a, b| choose(a, b, T::$choose));

            fn canonical(Located { value, at }: Located<T>) -> Located<T> {
                Located { value: value.canonical(), at }
            }
        }
    };
}

located!(Minloc "minloc" lesser GREATEST);
located!(Maxloc "maxloc" greater LEAST);

/// The place of the smallest value, a reduction with a state: contributions are values with their places, and the result is a
/// place. Values compare as in [`Operator::minloc`].
///
/// ```
/// use maniple_regions::{Located, argmin};
///
/// let mut place = [0];
/// argmin::<f64>().lower_into(&mut place, &[Located { value: 2.5, at: 7 }]);
/// assert_eq!(place, [7]);
/// ```
pub fn argmin<T: Number>() -> Stateful<Located<T>, Located<T>, u64>
where
    Located<T>: Pod,
{
    Stateful::new(Operator::minloc(), |x| *x, |least| least.at)
}

/// The place of the largest value, as [`argmin`] gives the place of the smallest. Values compare as in [`Operator::maxloc`].
pub fn argmax<T: Number>() -> Stateful<Located<T>, Located<T>, u64>
where
    Located<T>: Pod,
{
    Stateful::new(Operator::maxloc(), |x| *x, |greatest| greatest.at)
}

impl<T: Number> Operator<Located<T>>
where
    Located<T>: Pod,
{
    /// The smaller of two values with its place. Of equal values the one with the lowest place is taken. Values compare
    /// as in [`Operator::min`]: −0 is less than +0, and a NaN wins.
    pub fn minloc() -> Self {
        Self::builtin::<Minloc>()
    }

    /// The larger of two values with its place. Of equal values the one with the lowest place is taken. Values compare
    /// as in [`Operator::max`]: −0 is less than +0, and a NaN wins.
    pub fn maxloc() -> Self {
        Self::builtin::<Maxloc>()
    }
}
