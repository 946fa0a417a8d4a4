//! Partitions against brute force on points.

use std::collections::HashMap;

use maniple_regions::{Partition, Rect, Region, RegionError, TreeId};
use proptest::prelude::*;

fn region(rect: Rect) -> Region {
    Region { tree: TreeId(7), rect }
}

fn points(rect: &Rect) -> Vec<[i64; 3]> {
    match rect.dim() {
        1 => rect.points().map(|[i]| [i, 0, 0]).collect(),
        2 => rect.points().map(|[i, j]| [i, j, 0]).collect(),
        _ => rect.points().collect(),
    }
}

/// Checks what a partition claims of itself by counting, for every point, the subregions that contain it.
fn check(partition: &Partition) -> Result<(), TestCaseError> {
    let parent = partition.parent();
    let mut hits: HashMap<[i64; 3], usize> = points(&parent.rect).into_iter().map(|point| (point, 0)).collect();
    for color in 0..partition.colors() {
        let sub = partition.sub(color).unwrap();
        prop_assert_eq!(sub.tree, parent.tree);
        for point in points(&sub.rect) {
            let hit = hits.get_mut(&point);
            prop_assert!(hit.is_some(), "{:?} of colour {} lies outside {}", point, color, parent);
            *hit.unwrap() += 1;
        }
    }
    prop_assert_eq!(partition.is_disjoint(), hits.values().all(|&hits| hits <= 1));
    prop_assert_eq!(partition.is_complete(), hits.values().all(|&hits| hits >= 1));
    let colors = partition.colors();
    prop_assert_eq!(partition.sub(colors), Err(RegionError::NoSuchColor { colors, color: colors }));
    Ok(())
}

fn boxes(dim: usize, span: i64) -> impl Strategy<Value = Rect> {
    (prop::array::uniform3(-2..span), prop::array::uniform3(0..span)).prop_map(move |(lo, size)| {
        let hi = [0, 1, 2].map(|d| lo[d] + size[d]);
        match dim {
            1 => Rect::line(lo[0], hi[0]),
            2 => Rect::new([lo[0], lo[1]], [hi[0], hi[1]]),
            _ => Rect::new(lo, hi),
        }
    })
}

fn parents() -> impl Strategy<Value = Rect> {
    (1_usize..=3).prop_flat_map(|dim| boxes(dim, [12, 7, 5][dim - 1]))
}

/// Tiles that hold no point, and pairs of neighbouring points that are in two tiles.
fn empty_and_cut(partition: &Partition) -> (usize, usize) {
    let mut tile_of = HashMap::new();
    for (tile, sub) in partition.iter().enumerate() {
        tile_of.extend(points(&sub.rect).into_iter().map(|point| (point, tile)));
    }
    let next = |point: &[i64; 3], d: usize| std::array::from_fn(|e| point[e] + i64::from(d == e));
    let is_cut = |point: &[i64; 3], d| tile_of.get(&next(point, d)).is_some_and(|tile| *tile != tile_of[point]);
    let cut = tile_of.keys().map(|point| (0..3).filter(|&d| is_cut(point, d)).count()).sum();
    (partition.iter().filter(|sub| sub.rect.is_empty()).count(), cut)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn tiles_cut_as_little_as_any_grid(parent in parents(), n in 1_usize..13) {
        let parent = region(parent);
        let tiles = Partition::tiles(parent, n).unwrap();
        check(&tiles)?;
        prop_assert_eq!(tiles.colors(), n);
        let found = empty_and_cut(&tiles);
        for a in 1..=n {
            for b in 1..=n / a {
                let c = n / a / b;
                let grid = match parent.rect.dim() {
                    _ if a * b * c != n => continue,
                    1 if b * c == 1 => Partition::grid(parent, [a]),
                    2 if c == 1 => Partition::grid(parent, [a, b]),
                    3 => Partition::grid(parent, [a, b, c]),
                    _ => continue,
                };
                prop_assert!(found <= empty_and_cut(&grid.unwrap()), "{} in {n} tiles", parent);
            }
        }
    }

    #[test]
    fn equal_parts_differ_by_at_most_one(parent in parents(), n in 1_usize..20) {
        let partition = Partition::equal(region(parent), n).unwrap();
        prop_assert_eq!(partition.colors(), n);
        let extents: Vec<usize> = partition.iter().map(|sub| sub.rect.extent(0)).collect();
        prop_assert!(extents.iter().max().unwrap() - extents.iter().min().unwrap() <= 1);
        prop_assert!(partition.is_disjoint() && partition.is_complete());
        check(&partition)?;
    }

    #[test]
    fn grids_are_disjoint_and_complete(parent in boxes(2, 8), tiles in prop::array::uniform2(1_usize..6)) {
        let partition = Partition::grid(region(parent), tiles).unwrap();
        prop_assert!(partition.is_disjoint() && partition.is_complete());
        // Neighbouring colours are neighbours along the last dimension.
        prop_assert_eq!(partition.sub(0).unwrap().rect.lo(0), partition.sub(tiles[1] - 1).unwrap().rect.lo(0));
        check(&partition)?;
    }

    #[test]
    fn grids_in_three_dimensions(parent in boxes(3, 5), tiles in prop::array::uniform3(1_usize..4)) {
        let partition = Partition::grid(region(parent), tiles).unwrap();
        prop_assert!(partition.is_disjoint() && partition.is_complete());
        check(&partition)?;
    }

    #[test]
    fn blocks_have_their_sizes(sizes in prop::collection::vec(0_usize..5, 1..8), lo in -5_i64..5) {
        let extent = sizes.iter().sum::<usize>() as i64;
        let partition = Partition::blocks(region(Rect::new([lo, 0], [lo + extent, 2])), &sizes).unwrap();
        let extents: Vec<usize> = partition.iter().map(|sub| sub.rect.extent(0)).collect();
        prop_assert_eq!(extents, sizes);
        check(&partition)?;
    }

    #[test]
    fn listed_rectangles(
        (parent, rects) in (1_usize..=3).prop_flat_map(|dim| {
            let span = [14, 6, 4][dim - 1];
            (boxes(dim, span), prop::collection::vec(boxes(dim, span), 1..12))
        })
    ) {
        let rects: Vec<Rect> = rects.iter().map(|rect| rect.intersect(&parent)).collect();
        let partition = Partition::rects(region(parent), rects.clone()).unwrap();
        for (color, rect) in rects.iter().enumerate() {
            prop_assert_eq!(partition.sub(color).unwrap().rect, *rect);
        }
        check(&partition)?;
    }

    /// What is left after cutting rectangles out, and the rectangles: complete by construction, in random order.
    #[test]
    fn listed_rectangles_that_cover(
        (parent, cuts) in (1_usize..=3).prop_flat_map(|dim| {
            let span = [14, 6, 4][dim - 1];
            (boxes(dim, span), prop::collection::vec(boxes(dim, span), 1..5))
        }),
        overlapping in any::<bool>(),
        turn in 0_usize..100,
    ) {
        let mut rects = vec![parent];
        for cut in &cuts {
            rects = rects.iter().flat_map(|rect| {
                let mut pieces = rect.subtract(cut);
                pieces.push(rect.intersect(cut));
                pieces
            }).collect();
        }
        if overlapping {
            rects.extend(cuts.iter().map(|cut| cut.intersect(&parent)));
        }
        let turn = turn % rects.len();
        rects.rotate_left(turn);
        let partition = Partition::rects(region(parent), rects).unwrap();
        prop_assert!(partition.is_complete());
        prop_assert!(overlapping || partition.is_disjoint());
        check(&partition)?;
    }

    #[test]
    fn restrictions_are_moved_boxes_cut_to_the_region(
        (parent, extent) in (1_usize..=3).prop_flat_map(|dim| {
            let span = [12, 7, 5][dim - 1];
            (boxes(dim, span), boxes(dim, span))
        }),
        stride in prop::array::uniform3(-4_i64..5),
        colors in 1_usize..9,
    ) {
        let dim = parent.dim();
        let partition = Partition::restriction(region(parent), colors, &stride[..dim], extent).unwrap();
        for (color, sub) in partition.iter().enumerate() {
            let back = |point: [i64; 3]| {
                let mut point = point;
                for d in 0..dim {
                    point[d] -= color as i64 * stride[d];
                }
                point
            };
            let expected: Vec<_> =
                points(&parent).into_iter().filter(|&point| points(&extent).contains(&back(point))).collect();
            prop_assert_eq!(points(&sub.rect), expected);
        }
        check(&partition)?;
    }
}

#[test]
fn equal_parts_of_huge_regions_cost_nothing() {
    let all = region(Rect::line(i64::MIN, i64::MAX));
    let partition = Partition::equal(all, usize::MAX).unwrap();
    assert_eq!(partition.sub(usize::MAX - 1).unwrap().rect.hi(0), i64::MAX);
    let halves = Partition::equal(all, 2).unwrap();
    assert_eq!(halves.sub(0).unwrap().rect.hi(0), halves.sub(1).unwrap().rect.lo(0));
}

#[test]
fn restrictions_do_not_overflow() {
    let parent = region(Rect::line(0, 10));
    let far = Partition::restriction(parent, 3, &[i64::MAX], Rect::line(i64::MIN, i64::MAX)).unwrap();
    assert_eq!(far.sub(0).unwrap().rect, parent.rect);
    assert!(far.sub(2).unwrap().rect.is_empty() || far.sub(2).unwrap().rect.hi(0) == 10);
}

#[test]
fn refusals_name_the_cause() {
    let parent = region(Rect::line(0, 10));
    let plane = region(Rect::new([0, 0], [4, 4]));
    assert_eq!(Partition::equal(parent, 0), Err(RegionError::NoColors { region: parent }));
    assert_eq!(Partition::blocks(parent, &[]), Err(RegionError::NoColors { region: parent }));
    assert_eq!(Partition::rects(parent, vec![]), Err(RegionError::NoColors { region: parent }));
    assert_eq!(Partition::grid(plane, [3, 0]), Err(RegionError::NoColors { region: plane }));
    let large = Partition::grid(plane, [usize::MAX, 2]);
    assert_eq!(large, Err(RegionError::TooManyColors { region: plane }));
    let short = Partition::blocks(parent, &[4, 5]).unwrap_err();
    assert_eq!(short, RegionError::WrongBlocks { region: parent, expected: 10, came: 9 });
    assert!(Partition::blocks(parent, &[usize::MAX, 11]).is_err());
    let outside = Partition::rects(parent, vec![Rect::line(0, 3), Rect::line(8, 11)]).unwrap_err();
    assert_eq!(
        outside.to_string(),
        "rectangle [8, 11) of colour 1 must lie within tree 7 [0, 10): intersect it with the region first"
    );
    for wrong in [
        Partition::grid(parent, [2, 2]),
        Partition::rects(plane, vec![Rect::line(0, 1)]),
        Partition::restriction(plane, 2, &[1], Rect::new([0, 0], [1, 1])),
        Partition::restriction(plane, 2, &[1, 1], Rect::line(0, 1)),
    ] {
        assert!(matches!(wrong, Err(RegionError::WrongDimension { .. })), "{wrong:?}");
    }
}
