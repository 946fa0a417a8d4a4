//! Halos of grids drawn at random, against the definition: the value of a cell is a function of its place, and beyond the ends
//! of a grid it is what the task says.

use crate::processes;
use crate::size::part;
#[cfg(feature = "ndarray")]
use maniple::halo::Around;
use maniple::halo::{Borders, Ghosts, Halo, HaloOptions, Halos};
use maniple::prelude::*;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

const U: Field<i64> = Field::new(0, "u");
const OUTSIDE: i64 = i64::MIN;

/// A grid: its first cell, its size and its cuts into blocks, and how far the halo reaches.
#[derive(Debug, Clone)]
struct Grid<const D: usize> {
    origin: [i64; D],
    size: [usize; D],
    cuts: Cuts<D>,
    width: [usize; D],
    periodic: [bool; D],
    corners: bool,
}

/// The cuts of a grid into blocks.
#[derive(Debug, Clone)]
enum Cuts<const D: usize> {
    /// This many parts of each dimension, as equal as possible.
    Tiles([usize; D]),
    /// Parts of the first dimension, of these sizes.
    Sizes(Vec<usize>),
}

fn grid<const D: usize>(most: usize) -> impl Strategy<Value = Grid<D>>
where
    [std::ops::RangeInclusive<i64>; D]: Strategy<Value = [i64; D]>,
    [std::ops::RangeInclusive<usize>; D]: Strategy<Value = [usize; D]>,
    [bool; D]: Arbitrary,
{
    let origins = std::array::from_fn::<_, D, _>(|_| -9_i64..=9);
    let sizes = std::array::from_fn::<_, D, _>(|_| 1..=most);
    let tiles = std::array::from_fn::<_, D, _>(|_| 1_usize..=3).prop_map(Cuts::Tiles);
    let uneven = proptest::collection::vec(0_usize..=3, 1..=5).prop_map(Cuts::Sizes);
    let widths = std::array::from_fn::<_, D, _>(|_| 0_usize..=3);
    let cuts = prop_oneof![tiles, uneven];
    (origins, sizes, cuts, widths, any::<[bool; D]>(), any::<bool>()).prop_map(
        |(origin, mut size, cuts, width, periodic, corners)| {
            if let Cuts::Sizes(sizes) = &cuts {
                size[0] = sizes.iter().sum();
            }
            Grid { origin, size, cuts, width, periodic, corners }
        },
    )
}

/// The value of a cell after this many rounds.
fn value<const D: usize>(point: [i64; D], round: i64) -> i64 {
    point.iter().fold(round, |sum, x| sum * 1000 + x)
}

impl<const D: usize> Grid<D> {
    /// What a block sees at a point.
    fn seen(&self, block: &Rect, point: [i64; D], round: i64) -> i64 {
        let away = (0..D).filter(|&d| !(block.lo(d)..block.hi(d)).contains(&point[d])).count();
        let mut at = point;
        for d in 0..D {
            let (origin, size) = (self.origin[d], self.size[d] as i64);
            if self.periodic[d] {
                at[d] = origin + (point[d] - origin).rem_euclid(size);
            } else if !(origin..origin + size).contains(&point[d]) {
                return OUTSIDE;
            }
        }
        if away > 1 && !self.corners { OUTSIDE } else { value(at, round) }
    }
}

fn set<const D: usize>(mut u: ReadWrite<i64, D>, round: Arg<i64>) {
    for point in u.rect().points() {
        u.set(point, value(point, *round));
    }
}

/// Whether a view of `ndarray` has the values at their places, counted from the first point around the block.
#[cfg(feature = "ndarray")]
fn is_viewed(around: &dyn std::any::Any) -> bool {
    macro_rules! seen {
        ($dimensions:literal, $around:ident) => {{
            let (rect, view) = ($around.rect(), $around.view());
            let place =
                |at: [i64; $dimensions]| std::array::from_fn::<_, $dimensions, _>(|d| (at[d] - rect.lo(d)) as usize);
            view.len() == rect.volume() && rect.points().all(|at| view[place(at)] == $around[at])
        }};
    }
    match (around.downcast_ref::<Around<i64, 1>>(), around.downcast_ref(), around.downcast_ref()) {
        (Some(line), _, _) => seen!(1, line),
        (_, Some::<&Around<i64, 2>>(plane), _) => seen!(2, plane),
        (_, _, Some::<&Around<i64, 3>>(space)) => seen!(3, space),
        _ => false,
    }
}

/// Everything that is seen, in row-major order.
fn look<const D: usize>(u: Read<i64, D>, ghosts: Ghosts<i64, D>) -> Vec<i64> {
    let around = ghosts.around(u.rows(), OUTSIDE);
    #[cfg(feature = "ndarray")]
    assert!(is_viewed(&around), "a view of {} has other values", around.rect());
    around.rect().points().map(|point| around[point]).collect()
}

/// The same, in the room around the block. Leaves other values there.
fn look_in_place<const D: usize>(mut u: ReadWrite<i64, D>, ghosts: Ghosts<i64, D>) -> Vec<i64> {
    let block = u.rect();
    let mut around = ghosts.fill(&mut u, OUTSIDE);
    let seen = around.rect().points().map(|point| around.get(point)).collect();
    for point in around.rect().points() {
        if !block.contains(point) {
            around.set(point, 12345);
        }
    }
    seen
}

const ROUNDS: i64 = 4;

async fn shard<const D: usize>(shard: Shard, (block, halo): (Region, Halo<i64, D>)) -> Result<Vec<Vec<i64>>, Error> {
    let (u, halo) = (shard.region(block)?, halo.join(&shard)?);
    let mut seen = Vec::new();
    for round in 0..ROUNDS {
        shard.launch(set::<D>, (u.read_write(U), round.into())).go()?.detach();
        halo.send(u.read(U))?;
        seen.push(match round % 2 {
            0 => shard.launch(look::<D>, (u.read(U), halo.ghosts())).go()?,
            _ => shard.launch(look_in_place::<D>, (u.read_write(U), halo.ghosts())).go()?,
        });
    }
    // The same values, all pieces at once and one by one.
    halo.send(u.read(U))?;
    let all = |ghosts: Ghosts<i64, D>| ghosts.pieces().map(|(at, values)| (at, values.to_vec())).collect::<Vec<_>>();
    let at_once = shard.launch(all, (halo.ghosts(),)).go()?;
    halo.send(u.read(U))?;
    let number = halo.pieces().len();
    let one_by_one = shard.index_launch(number, |piece: Get<i64>| piece.to_vec(), |n| (halo.ghost(n),)).go()?;
    let one_by_one: Vec<_> = halo.pieces().iter().copied().zip(one_by_one.all().await?).collect();
    assert_eq!(one_by_one, at_once.await?);
    let mut all = Vec::new();
    for seen in seen {
        all.push(seen.await?);
    }
    Ok(all)
}

fn check<const D: usize>(runtime: Runtime, grid: &Grid<D>) -> Result<(), TestCaseError> {
    let of = grid.clone();
    let (came, _) = runtime
        .run(move |top| {
            let Grid { origin, size, cuts, width, periodic, corners } = of.clone();
            async move {
                let whole = Rect::new(origin, std::array::from_fn(|d| origin[d] + size[d] as i64));
                let tree = top.region_tree("grid", whole, &[U.info().with_padding(3)])?;
                let blocks = match cuts {
                    Cuts::Tiles(tiles) => Partition::grid(tree, tiles)?,
                    Cuts::Sizes(sizes) => Partition::blocks(tree, &sizes)?,
                };
                let gang = top.gang("blocks", blocks.colors() as u32)?;
                let options = HaloOptions::new(0).widths(width).periodic(periodic);
                let options = if corners { options.corners() } else { options };
                let halos = Halos::new(&top, "halo", &gang, &blocks, options)?;
                let regions: Vec<Region> = blocks.iter().collect();
                let task = top.register("look", shard::<D>);
                let start =
                    |s: u32| ShardLaunch::new((regions[s as usize], halos.of(s))).writes(regions[s as usize], [U]);
                let seen = top.launch_gang(&gang, &task, start)?.all().await?;
                Ok(regions.iter().map(|r| r.rect).zip(seen).collect::<Vec<_>>())
            }
        })
        .map_err(|e| TestCaseError::fail(e.to_string()))?;
    for (block, rounds) in came {
        let reach = |d: usize| grid.width[d] as i64;
        let around = Rect::new::<D>(
            std::array::from_fn(|d| block.lo(d) - reach(d)),
            std::array::from_fn(|d| block.hi(d) + reach(d)),
        );
        for (round, seen) in (0..ROUNDS).zip(rounds) {
            let points = || around.points::<D>();
            // In place there is nothing around a block without cells.
            let all = if block.is_empty() && round % 2 == 1 { 0 } else { points().count() };
            prop_assert_eq!(seen.len(), all);
            // A block without cells needs none of the others'.
            for (point, seen) in points().zip(seen).filter(|_| !block.is_empty()) {
                prop_assert_eq!(
                    seen,
                    grid.seen(&block, point, round),
                    "block {}, point {:?}, round {}",
                    block,
                    point,
                    round
                );
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(part(60) as u32))]

    #[test]
    fn of_one_dimension(grid in grid::<1>(7), processors in 1u32..4, seed in any::<u64>()) {
        check(Runtime::seeded(processors, seed), &grid)?;
    }

    #[test]
    fn of_two_dimensions(grid in grid::<2>(5), processors in 1u32..4, seed in any::<u64>()) {
        check(Runtime::seeded(processors, seed), &grid)?;
    }

    #[test]
    fn of_three_dimensions(grid in grid::<3>(4), processors in 1u32..4, seed in any::<u64>()) {
        check(Runtime::seeded(processors, seed), &grid)?;
    }

    #[test]
    fn on_threads(grid in grid::<2>(5), workers in 1u32..4) {
        check(Runtime::threads(workers), &grid)?;
    }
}

#[cfg(target_os = "linux")]
#[test]
fn on_processes() {
    fn some<const D: usize>(most: usize) {
        // All processes draw the same.
        let mut runner = TestRunner::deterministic();
        for _ in 0..10 {
            let grid = grid::<D>(most).new_tree(&mut runner).expect("drawn").current();
            for (at, runtime) in processes::runtimes().expect("on processes") {
                check(runtime, &grid).unwrap_or_else(|e| panic!("{grid:?} on {at}: {e}"));
            }
        }
    }
    let bodies: [(&str, fn()); 3] = [("1", || some::<1>(7)), ("2", || some::<2>(5)), ("3", || some::<3>(4))];
    processes::bodies_on_processes("halos::on_processes", &bodies);
}

#[test]
fn blocks_that_are_no_grid_and_parts_of_others_are_refused() {
    async fn joins(shard: Shard, halo: Halo<i64>) -> Result<String, Error> {
        Ok(halo.join(&shard).err().map_or_else(String::new, |e| e.to_string()))
    }
    let (refused, _) = Runtime::threads(1)
        .run(|top| async move {
            let line = top.region_tree("line", Rect::line(0, 12), &[U.info()])?;
            let plate = top.region_tree("plate", Rect::new([0, 0], [4, 4]), &[U.info()])?;
            let gang = top.gang("three", 3)?;
            let blocks = Partition::equal(line, 3)?;
            let gap = Partition::rects(line, vec![Rect::line(0, 4), Rect::line(5, 8), Rect::line(8, 12)])?;
            let other = Partition::rects(line, vec![Rect::line(4, 8), Rect::line(0, 4), Rect::line(8, 12)])?;
            let twice =
                Partition::rects(line, vec![Rect::line(0, 6), Rect::line(6, 12), Rect::line(0, 6), Rect::line(6, 12)])?;
            let four = top.gang("four", 4)?;
            let one = HaloOptions::<1>::new(1);
            let refusals = [
                Halos::<i64>::new(&top, "few", &gang, &Partition::equal(line, 2)?, one).err(),
                Halos::<i64>::new(&top, "gap", &gang, &gap, one).err(),
                Halos::<i64>::new(&top, "order", &gang, &other, one).err(),
                Halos::<i64>::new(&top, "twice", &four, &twice, one).err(),
                Halos::<i64>::new(&top, "flat", &gang, &Partition::grid(plate, [3, 1])?, one).err(),
            ];
            let mut refusals = refusals.map(|e| e.map_or_else(String::new, |e| e.to_string())).to_vec();
            // The first has one neighbour, the second two.
            let halos = Halos::<i64>::new(&top, "line", &gang, &blocks, one)?;
            let task = top.register("joins", joins);
            refusals.extend(top.launch_gang(&gang, &task, |s| ShardLaunch::new(halos.of((s + 1) % 3)))?.all().await?);
            Ok(refusals)
        })
        .expect("refusals only");
    assert!(refused[0].contains("halos `few`: expected 3 blocks, one for each shard, got 2"), "{refused:?}");
    for (refusal, name) in refused[1..5].iter().zip(["gap", "order", "twice", "flat"]) {
        assert!(
            refusal.contains(&format!("halos `{name}`: expected a complete grid of blocks in 1 dimension")),
            "{refusal}"
        );
    }
    assert!(refused[5].contains("the part that `Halos::of` gives for this shard"), "{refused:?}");
}

#[test]
fn rows_of_another_block_are_refused() {
    async fn shard(shard: Shard, (right, wrong): (Halo<i64>, Halo<i64>)) -> Result<[String; 4], Error> {
        let (right, wrong) = (right.join(&shard)?, wrong.join(&shard)?);
        let sends = |mut borders: Borders<i64>| borders.send([&[1, 2][..]].into_iter());
        let sent = shard.launch(sends, (wrong.borders(),)).go()?.await;
        let sends = |mut borders: Borders<i64>| borders.send([&[1, 2, 3][..]; 2].into_iter());
        let sent_more = shard.launch(sends, (wrong.borders(),)).go()?.await;
        let fine = |mut borders: Borders<i64>| borders.send([&[1, 2, 3][..]].into_iter());
        shard.launch(fine, (right.borders(),)).go()?.detach();
        let around = |ghosts: Ghosts<i64>| ghosts.around([&[1, 2][..]].into_iter(), 0)[[0]];
        let seen = shard.launch(around, (right.ghosts(),)).go()?.await;
        shard.launch(fine, (right.borders(),)).go()?.detach();
        let around = |ghosts: Ghosts<i64>| ghosts.around([&[1, 2, 3][..]; 2].into_iter(), 0)[[0]];
        let seen_more = shard.launch(around, (right.ghosts(),)).go()?.await;
        let refusals = [
            sent.expect_err("two values, not three"),
            seen.expect_err("the same"),
            sent_more.expect_err("two rows, not one"),
            seen_more.expect_err("the same"),
        ];
        Ok(refusals.map(|e| e.to_string()))
    }
    let (refused, _) = Runtime::threads(1)
        .run(|top| async move {
            let line = top.region_tree("line", Rect::line(0, 6), &[U.info()])?;
            let (gang, blocks) = (top.gang("two", 2)?, Partition::equal(line, 2)?);
            let right = Halos::<i64>::new(&top, "right", &gang, &blocks, HaloOptions::new(1))?;
            let wrong = Halos::<i64>::new(&top, "wrong", &gang, &blocks, HaloOptions::new(1))?;
            let start = |s| ShardLaunch::new((right.of(s), wrong.of(s)));
            top.launch_gang(&gang, &top.register("wrong rows", shard), start)?.all().await
        })
        .expect("refusals only");
    for [sent, seen, sent_more, seen_more] in &refused {
        for refusal in [sent, seen] {
            assert!(refusal.contains("are needed, each with 3 values"), "{refused:?}");
        }
        for refusal in [sent_more, seen_more] {
            assert!(refusal.contains("there are more rows than the block"), "{refused:?}");
        }
    }
}

#[test]
fn a_region_that_is_not_the_block_is_refused() {
    async fn shard(shard: Shard, (whole, halo): (Region, Halo<i64, 2>)) -> Result<(), Error> {
        let (whole, halo) = (shard.region(whole)?, halo.join(&shard)?);
        halo.send(whole.read(U))
    }
    // Two blocks of two rows each, and three of which the last is empty.
    for (rows, shards, blocks) in [(4, 2, &["[0, 2)", "[2, 4)"][..]), (2, 3, &["[0, 1)", "[1, 2)", "[2, 2)"])] {
        let refused = Runtime::seeded(2, 1).run(move |top| async move {
            let plate = top.region_tree("plate", Rect::new([0, 0], [rows, 2]), &[U.info()])?;
            let (gang, blocks) = (top.gang("blocks", shards)?, Partition::grid(plate, [shards as usize, 1])?);
            let halos = Halos::new(&top, "halo", &gang, &blocks, HaloOptions::new(1))?;
            let start = |s| ShardLaunch::new((plate, halos.of(s))).reads(plate, [U]);
            top.launch_gang(&gang, &top.register("whole", shard), start)?.all().await
        });
        let refusal = refused.expect_err("the whole plate is not a block").to_string();
        let says = |block: &&str| {
            let text = format!("the halo is round the block {block} x [0, 2), the region is [0, {rows}) x [0, 2)");
            refusal.contains(&text)
        };
        assert!(blocks.iter().any(says), "{refusal}");
    }
}

#[test]
fn a_shard_with_an_empty_block_need_not_take_part() {
    async fn shard<const D: usize>(shard: Shard, (block, halo): (Region, Halo<i64, D>)) -> Result<(), Error> {
        if block.rect.is_empty() {
            return Ok(());
        }
        let (u, halo) = (shard.region(block)?, halo.join(&shard)?);
        for round in 0..5 {
            shard.launch(set::<D>, (u.read_write(U), round.into())).go()?.detach();
            halo.send(u.read(U))?;
            shard.launch(look::<D>, (u.read(U), halo.ghosts())).go()?.await?;
        }
        Ok(())
    }
    fn run<const D: usize>(whole: Rect, sizes: &'static [usize], options: HaloOptions<D>) {
        let run = Runtime::seeded(2, 1).run(move |top| async move {
            let tree = top.region_tree("grid", whole, &[U.info()])?;
            let (gang, blocks) = (top.gang("blocks", sizes.len() as u32)?, Partition::blocks(tree, sizes)?);
            let halos = Halos::new(&top, "halo", &gang, &blocks, options)?;
            let regions: Vec<Region> = blocks.iter().collect();
            let start = |s: u32| ShardLaunch::new((regions[s as usize], halos.of(s))).writes(regions[s as usize], [U]);
            top.launch_gang(&gang, &top.register("some", shard::<D>), start)?.all().await
        });
        run.unwrap_or_else(|e| panic!("{whole} in blocks of {sizes:?}: {e}"));
    }
    for sizes in [&[0, 2, 3][..], &[2, 0, 3], &[2, 3, 0], &[0, 5, 0], &[0, 0]] {
        let rows: usize = sizes.iter().sum();
        for periodic in [false, true] {
            run(Rect::line(0, rows as i64), sizes, HaloOptions::new(2).periodic([periodic]));
            let corners = HaloOptions::new(2).periodic([periodic; 2]).corners();
            run(Rect::new([0, 0], [rows as i64, 3]), sizes, corners);
        }
    }
}

#[test]
fn grids_without_cells_have_no_halo() {
    fn run<const D: usize>(size: [i64; D], tiles: [usize; D]) {
        let (origin, size) = ([-1; D], size.map(|n| n as usize));
        let grid = Grid { origin, size, cuts: Cuts::Tiles(tiles), width: [1; D], periodic: [true; D], corners: true };
        check(Runtime::seeded(2, 1), &grid).unwrap_or_else(|e| panic!("{size:?} in {tiles:?}: {e}"));
    }
    run([0], [1]);
    run([0], [3]);
    for size in [[4, 0], [0, 4], [0, 0]] {
        for tiles in [[1, 1], [1, 2], [2, 1], [2, 2]] {
            run(size, tiles);
        }
    }
    for size in [[2, 2, 0], [2, 0, 2], [0, 2, 2], [2, 0, 0], [0, 0, 2]] {
        run(size, [2, 1, 2]);
        run(size, [1, 3, 2]);
    }
}

#[test]
#[ignore = "takes long; `./check full` runs it"]
fn halos_that_are_too_wide_are_refused() {
    /// The refusal, or nothing if there is none.
    fn refusal<const D: usize>(whole: Rect, tiles: [usize; D], options: HaloOptions<D>) -> String {
        let shards = tiles.iter().product::<usize>() as u32;
        let (refusal, _) = Runtime::threads(1)
            .run(move |top| async move {
                let tree = top.region_tree("grid", whole, &[U.info()])?;
                let (gang, blocks) = (top.gang("blocks", shards)?, Partition::grid(tree, tiles)?);
                let halos = Halos::<i64, D>::new(&top, "wide", &gang, &blocks, options);
                Ok(halos.err().map_or_else(String::new, |e| e.to_string()))
            })
            .expect("refusals only");
        refusal
    }
    let (line, cube) = (Rect::line(0, 6), Rect::new([0; 3], [4; 3]));
    for width in [usize::MAX, i64::MAX as usize, 1 << 62, 1 << 60] {
        for periodic in [false, true] {
            let refusal = refusal(line, [2], HaloOptions::new(width).periodic([periodic]));
            let expected = format!("expected a halo with which a block has at most {} bytes", isize::MAX);
            assert!(refusal.contains(&expected), "{refusal}");
            assert!(refusal.contains(&format!("width [{width}] round block [0, 3)")), "{refusal}");
        }
    }
    for width in [1 << 20, 1 << 40] {
        let refusal = refusal(cube, [2; 3], HaloOptions::new(width));
        assert!(refusal.contains(&format!("width {:?} round block [0, 2) x [0, 2) x [0, 2)", [width; 3])), "{refusal}");
    }
    for width in [1 << 22, 1 << 50, 1 << 58] {
        let refusal = refusal(line, [2], HaloOptions::new(width).periodic([true]));
        assert!(
            refusal.contains("expected at most 1048576 pieces, with the blocks themselves and all corners"),
            "{refusal}"
        );
        assert!(refusal.contains(&format!("by width [{width}]")), "{refusal}");
    }
    let refusal_of_many = refusal(cube, [2; 3], HaloOptions::new(1 << 16).periodic([true; 3]));
    assert!(refusal_of_many.contains("expected at most 1048576 pieces"), "{refusal_of_many}");
    // Wide, but without many pieces; and at the ends of the coordinates.
    assert_eq!(refusal(line, [2], HaloOptions::new(1 << 58)), "");
    assert_eq!(refusal(line, [2], HaloOptions::new(1 << 10).periodic([true])), "");
    assert_eq!(refusal(Rect::line(0, 350_000), [350_000], HaloOptions::new(1)), "");
    for end in [Rect::line(i64::MIN + 3, i64::MIN + 9), Rect::line(i64::MAX - 9, i64::MAX - 3)] {
        assert_eq!(refusal(end, [2], HaloOptions::new(3).periodic([true])), "");
        assert!(refusal(end, [2], HaloOptions::new(4).periodic([true])).contains("width [4] round block"));
    }
}

/// A launch before goes on to exchange, a later one is refused.
#[test]
fn halos_are_destroyed_while_shards_exchange() {
    async fn shard(shard: Shard, halo: Halo<i64>) -> Result<i64, Error> {
        let (u, ends) = (shard.region(halo.block())?, halo.join(&shard)?);
        let me = i64::from(shard.index());
        shard.launch(|mut u: Write<i64>, me: Arg<i64>| u.fill_with(|_| *me), (u.write(U), me.into())).go()?.detach();
        ends.send(u.read(U))?;
        let sum = |ghosts: Ghosts<i64>| ghosts.pieces().flat_map(|(_, values)| values).sum::<i64>();
        shard.launch(sum, (ends.ghosts(),)).go()?.await
    }
    for runtime in [Runtime::threads(2), Runtime::seeded(3, 5)] {
        let outcome = runtime.run(|top| async move {
            let line = top.region_tree("line", Rect::line(0, 12), &[U.info()])?;
            let (gang, task) = (top.gang("four", 4)?, top.register("shard", shard));
            let halos = Halos::<i64>::new(&top, "halos", &gang, &Partition::equal(line, 4)?, HaloOptions::new(1))?;
            let start = |s: u32| ShardLaunch::new(halos.of(s)).writes(halos.of(s).block(), [U]);
            let before = top.launch_gang(&gang, &task, start)?;
            top.destroy(&halos)?;
            assert_eq!(before.all().await?, [1, 2, 4, 2]);
            let late = top.launch_gang(&gang, &task, start)?.all().await.expect_err("late");
            assert!(late.to_string().contains("edges `halos` is no longer there: it was destroyed at"), "{late}");
            Ok(())
        });
        assert_eq!(outcome.map(|r| r.0), Ok(()));
    }
}
