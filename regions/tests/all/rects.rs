//! Rectangle algebra against sets of points.

use std::collections::HashSet;

use maniple_regions::Rect;
use proptest::prelude::*;

/// The points of a rectangle, by its definition; a point of another dimension is another point.
fn set(rect: &Rect) -> HashSet<(usize, [i64; 3])> {
    let mut points = HashSet::new();
    for i in rect.lo(0)..rect.hi(0) {
        for j in rect.lo(1)..rect.hi(1) {
            for k in rect.lo(2)..rect.hi(2) {
                points.insert((rect.dim(), [i, j, k]));
            }
        }
    }
    points
}

fn rects() -> impl Strategy<Value = Rect> {
    let lo = || prop::array::uniform3(-4_i64..4);
    (1_usize..=3, lo(), prop::array::uniform3(-1_i64..5)).prop_map(|(dim, lo, size)| {
        let hi = [0, 1, 2].map(|d| lo[d] + size[d]);
        match dim {
            1 => Rect::line(lo[0], hi[0]),
            2 => Rect::new([lo[0], lo[1]], [hi[0], hi[1]]),
            _ => Rect::new(lo, hi),
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn algebra_is_that_of_point_sets(a in rects(), b in rects()) {
        let (left, right) = (set(&a), set(&b));
        prop_assert_eq!(a.volume(), left.len());
        prop_assert_eq!(a.is_empty(), left.is_empty());
        prop_assert_eq!(a.overlaps(&b), !left.is_disjoint(&right));
        prop_assert_eq!(set(&a.intersect(&b)), left.intersection(&right).copied().collect());
        prop_assert_eq!(a.intersect(&b).dim(), a.dim());
        prop_assert_eq!(a.contains_rect(&b), a.dim() == b.dim() && right.is_subset(&left));

        let pieces = a.subtract(&b);
        prop_assert!(pieces.len() <= 2 * a.dim());
        let mut rest = HashSet::new();
        for piece in &pieces {
            prop_assert!(!piece.is_empty());
            for point in set(piece) {
                prop_assert!(rest.insert(point), "{} lies in two pieces", piece);
            }
        }
        prop_assert_eq!(rest, left.difference(&right).copied().collect());
    }

    #[test]
    fn growing_and_moving_change_each_coordinate(a in rects(), by in prop::array::uniform3(-3_i64..4)) {
        let (grown, moved) = match a.dim() {
            1 => (a.grow([by[0].unsigned_abs() as usize]), a.shift([by[0]])),
            2 => (a.grow([by[0], by[1]].map(|by| by.unsigned_abs() as usize)), a.shift([by[0], by[1]])),
            _ => (a.grow(by.map(|by| by.unsigned_abs() as usize)), a.shift(by)),
        };
        let by = |d: usize| if d < a.dim() { by[d] } else { 0 };
        let expected: HashSet<_> =
            set(&a).into_iter().map(|(dim, at)| (dim, [0, 1, 2].map(|d| at[d] + by(d)))).collect();
        prop_assert_eq!(set(&moved.unwrap()), expected);
        let grown = grown.unwrap();
        for d in 0..3 {
            prop_assert_eq!((grown.lo(d), grown.hi(d)), (a.lo(d) - by(d).abs(), a.hi(d) + by(d).abs()));
        }
    }

    /// The exact number is a product of three that have 64 bits each.
    #[test]
    fn volumes_near_the_limits_are_exact_or_the_most(
        dim in 1_usize..4,
        ends in prop::array::uniform6(prop_oneof![
            Just(i64::MIN), Just(i64::MAX), Just(0), -3..3_i64, i64::MIN..i64::MIN + 3, i64::MAX - 3..i64::MAX,
            (-2_i64..2).prop_map(|off| (1 << 31) + off), (-2_i64..2).prop_map(|off| (1 << 21) + off), any::<i64>(),
        ]),
        each in prop_oneof![0_usize..9, (0_u32..64).prop_map(|bit| 1 << bit), any::<usize>()],
    ) {
        let (lo, hi) = ([ends[0], ends[1], ends[2]], [ends[3], ends[4], ends[5]]);
        let rect = match dim {
            1 => Rect::line(lo[0], hi[0]),
            2 => Rect::new([lo[0], lo[1]], [hi[0], hi[1]]),
            _ => Rect::new(lo, hi),
        };
        let extents: Vec<u128> = (0..dim).map(|d| (i128::from(hi[d]) - i128::from(lo[d])).max(0) as u128).collect();
        // None where it has more than 128 bits.
        let exact = match extents.contains(&0) {
            true => Some(0),
            false => extents.iter().try_fold(1_u128, |product, &extent| product.checked_mul(extent)),
        };
        let volume = exact.and_then(|v| usize::try_from(v).ok()).unwrap_or(usize::MAX);
        prop_assert_eq!(rect.volume(), volume);
        let bytes = exact.unwrap_or(u128::MAX >> 64).checked_mul(each as u128);
        let fits = bytes.filter(|&b| b <= isize::MAX as u128).map(|b| b as usize);
        if each > 0 {
            prop_assert_eq!(rect.bytes(each), fits, "{} of {}", rect, each);
        }
        let last: [i64; 3] = std::array::from_fn(|d| hi[d].saturating_sub(1));
        let at = match dim {
            1 => rect.position([last[0]]),
            2 => rect.position([last[0], last[1]]),
            _ => rect.position(last),
        };
        prop_assert_eq!(at, exact.filter(|&v| v > 0).and_then(|v| usize::try_from(v - 1).ok()));
    }

    #[test]
    fn points_come_row_major(a in rects()) {
        let mut expected: Vec<[i64; 3]> = set(&a).into_iter().map(|(_, point)| point).collect();
        expected.sort_unstable();
        let points: Vec<[i64; 3]> = match a.dim() {
            1 => a.points().map(|[i]| [i, 0, 0]).collect(),
            2 => a.points().map(|[i, j]| [i, j, 0]).collect(),
            _ => a.points().collect(),
        };
        prop_assert_eq!(&points, &expected);
        if a.dim() == 3 {
            for (at, point) in points.into_iter().enumerate() {
                prop_assert!(a.contains(point));
                prop_assert_eq!(a.position(point), Some(at));
            }
            prop_assert_eq!(a.points::<2>().count(), 0);
        }
    }

    #[test]
    fn contains_is_membership(a in rects(), point in prop::array::uniform3(-6_i64..10)) {
        let [i, j, k] = point;
        let points = set(&a);
        prop_assert_eq!(a.contains([i]), points.contains(&(1, [i, 0, 0])));
        prop_assert_eq!(a.contains([i, j]), points.contains(&(2, [i, j, 0])));
        prop_assert_eq!(a.contains(point), points.contains(&(3, [i, j, k])));
        prop_assert_eq!(a.position(point).is_some(), a.contains(point));
    }

    #[test]
    fn travels_unchanged(a in rects()) {
        let bytes = postcard::to_stdvec(&a).unwrap();
        prop_assert_eq!(postcard::from_bytes::<Rect>(&bytes).unwrap(), a);
        let text = serde_json::to_string(&a).unwrap();
        prop_assert_eq!(serde_json::from_str::<Rect>(&text).unwrap(), a);
    }
}

#[test]
fn an_inverted_box_is_empty_where_it_begins() {
    assert_eq!(Rect::line(5, 2), Rect::line(5, 5));
    assert_eq!(Rect::new([0, 9], [3, 1]).volume(), 0);
    // Also one that arrives from elsewhere.
    let rect: Rect = serde_json::from_str(r#"{"One":[[5],[2]]}"#).unwrap();
    assert_eq!(rect, Rect::line(5, 5));
}

#[test]
fn the_largest_boxes_do_not_overflow() {
    let all = Rect::line(i64::MIN, i64::MAX);
    assert_eq!(all.volume(), usize::MAX);
    assert_eq!(Rect::new([i64::MIN; 3], [i64::MAX; 3]).volume(), usize::MAX);
    assert_eq!(Rect::new([i64::MIN, 0, 0], [i64::MAX, i64::MAX, 0]).volume(), 0);
    assert_eq!(all.subtract(&Rect::line(-1, 1)).len(), 2);
    assert!(all.contains([i64::MIN]) && !all.contains([i64::MAX]));
}

#[test]
fn displays_as_intervals() {
    assert_eq!(Rect::line(-1, 4).to_string(), "[-1, 4)");
    assert_eq!(format!("{:?}", Rect::new([0, 1, 2], [3, 4, 5])), "[0, 3) x [1, 4) x [2, 5)");
}

#[test]
fn coordinates_end_and_dimensions_must_agree() {
    let end = Rect::line(i64::MAX - 1, i64::MAX);
    assert_eq!(
        (end.grow([1]), end.shift([1]), end.shift([-1])),
        (None, None, Some(Rect::line(i64::MAX - 2, i64::MAX - 1)))
    );
    assert_eq!((Rect::line(0, 1).grow([usize::MAX]), Rect::line(i64::MIN, 0).shift([-1])), (None, None));
    assert_eq!((end.grow([0, 0]), Rect::new([0, 0], [1, 1]).shift([1])), (None, None));
}
