//! Files that are saved and loaded, and checkpoints. The values of a field are functions of the point.

use crate::processes;
use crate::size::part;
use maniple::output::{Checkpoint, Output};
use maniple::prelude::*;
use maniple::regions::{Coherence, FieldInfo, Privilege};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::path::{Path, PathBuf};

#[derive(Clone, Copy, PartialEq, Debug, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Particle {
    x: f64,
    id: u32,
    kind: [u16; 2],
}

const A: Field<f64> = Field::new(0, "a");
const B: Field<[i16; 3]> = Field::new(1, "with / slash");
const C: Field<Particle> = Field::new(2, "c");

fn hash(point: [i64; 3]) -> i64 {
    point.iter().fold(17, |sum: i64, x| sum.wrapping_mul(1_000_003) ^ x)
}

fn a(point: [i64; 3]) -> f64 {
    hash(point) as f64 / 3.0
}
fn b(point: [i64; 3]) -> [i16; 3] {
    [0, 1, 2].map(|i| (hash(point) >> (8 * i)) as i16)
}
fn c(point: [i64; 3]) -> Particle {
    Particle { x: a(point), id: hash(point) as u32, kind: [1, point[0] as u16] }
}

/// A program on three dimensions: the points, the blocks of those who write and of those who read.
#[derive(Debug, Clone)]
struct Case {
    rect: Rect,
    writers: [usize; 3],
    readers: [usize; 3],
    padding: usize,
}

fn cases() -> impl Strategy<Value = Case> {
    let side = || (-5i64..5, 1i64..9);
    let tiles = || [1usize..4, 1usize..3, 1usize..3];
    ([side(), side(), side()], tiles(), tiles(), 0usize..2).prop_map(|(sides, writers, readers, padding)| Case {
        rect: Rect::new(sides.map(|s| s.0), sides.map(|s| s.0 + s.1)),
        writers,
        readers,
        padding,
    })
}

/// A new directory that all nodes know.
async fn directory(top: &Top) -> Result<PathBuf, Error> {
    let make = || tempfile::tempdir().expect("a directory").keep();
    top.launch(make, ()).on(NodeId(0)).go()?.await
}

async fn remove(top: &Top, dir: PathBuf) -> Result<(), Error> {
    let remove = |dir: Arg<PathBuf>| std::fs::remove_dir_all(&*dir).expect("removed");
    top.launch(remove, (dir.into(),)).on(NodeId(0)).go()?.await
}

fn fields(padding: usize) -> [FieldInfo; 3] {
    [A.info().with_padding(padding), B.info(), C.info()]
}

async fn writes(shard: Shard, block: Region) -> Result<(), Error> {
    let view = shard.region(block)?;
    let set = |mut xs: Write<f64, 3>, mut ys: Write<[i16; 3], 3>, mut zs: Write<Particle, 3>| {
        for point in xs.rect().points::<3>() {
            xs.set(point, a(point));
            ys.set(point, b(point));
            zs.set(point, c(point));
        }
    };
    shard.launch(set, (view.write(A), view.write(B), view.write(C))).go()?.detach();
    Ok(())
}

async fn reads(shard: Shard, block: Region) -> Result<(), Error> {
    let view = shard.region(block)?;
    let compare = |xs: Read<f64, 3>, ys: Read<[i16; 3], 3>, zs: Read<Particle, 3>| {
        for point in xs.rect().points::<3>() {
            assert_eq!((xs.get(point), ys.get(point), zs.get(point)), (a(point), b(point), c(point)), "{point:?}");
        }
    };
    shard.launch(compare, (view.read(A), view.read(B), view.read(C))).go()?.await
}

/// Launches a task on the blocks of a tree.
async fn on_blocks(
    top: &Top,
    tree: Region,
    tiles: [usize; 3],
    privilege: Privilege,
    task: ShardTask<Region, ()>,
) -> Result<(), Error> {
    let blocks: Vec<Region> = Partition::grid(tree, tiles)?.iter().collect();
    let gang = top.gang("blocks", blocks.len() as u32)?;
    let start = |s: u32| {
        let (block, fields) = (blocks[s as usize], [A.id(), B.id(), C.id()]);
        ShardLaunch::new(block).require(block, fields, privilege, Coherence::Exclusive)
    };
    top.launch_gang(&gang, &task, start)?.all().await.map(drop)
}

/// Runs on threads, under the seeded driver, or on the processes of this test.
fn runtimes(seed: u64) -> Vec<(String, Runtime)> {
    processes::runtimes().unwrap_or_else(|| {
        vec![("threads".into(), Runtime::threads(2)), (format!("seed {seed}"), Runtime::seeded(3, seed))]
    })
}

fn what_was_saved_is_loaded() {
    let mut runner = TestRunner::deterministic();
    for number in 0..part(60) {
        let case = cases().new_tree(&mut runner).expect("a case").current();
        for (name, runtime) in runtimes(number) {
            let this = case.clone();
            let ran = runtime.run(move |top| {
                let Case { rect, writers, readers, padding } = this.clone();
                async move {
                    let dir = directory(&top).await?;
                    let tree = top.region_tree("first", rect, &fields(padding))?;
                    let (writes, reads) = (top.register("writes", writes), top.register("reads", reads));
                    on_blocks(&top, tree, writers, Privilege::ReadWrite, writes).await?;
                    top.save(&tree, dir.join("saved")).await?;
                    // What is there is replaced.
                    top.save(&tree, dir.join("saved")).await?;
                    let other = top.region_tree("second", rect, &fields(0))?;
                    top.load(&other, dir.join("saved")).await?;
                    on_blocks(&top, other, readers, Privilege::Read, reads).await?;
                    // Saving changed nothing.
                    on_blocks(&top, tree, readers, Privilege::Read, reads).await?;
                    remove(&top, dir).await
                }
            });
            assert!(ran.is_ok(), "{case:?}, {name}: {}", ran.expect_err("an error"));
        }
    }
}

#[test]
fn saved_values_come_back() {
    what_was_saved_is_loaded();
}

#[test]
fn on_processes() {
    processes::bodies_on_processes(
        "output::on_processes",
        &[("saved", what_was_saved_is_loaded), ("checkpoints", checkpoints_come_back)],
    );
}

const N: Field<u64> = Field::new(0, "n");

/// Takes steps from a checkpoint on, if there is one, and ends before step `until`. Returns the values at the end.
async fn steps(top: Top, dir: PathBuf, shards: u32, until: u64) -> Result<(u64, Vec<u64>), Error> {
    async fn add(shard: Shard, (block, step): (Region, u64)) -> Result<u64, Error> {
        let n = shard.region(block)?;
        let add = |mut n: ReadWrite<u64>, step: Arg<u64>| {
            for (i, n) in (n.rect().lo(0)..).zip(n.as_mut_slice()) {
                *n = n.wrapping_mul(31).wrapping_add(i as u64 ^ *step);
            }
        };
        shard.launch(add, (n.read_write(N), step.into())).go()?.await?;
        shard
            .launch(|n: Read<u64>| n.as_slice().iter().fold(0, |sum: u64, n| sum.wrapping_add(*n)), (n.read(N),))
            .go()?
            .await
    }
    let tree = top.region_tree("line", Rect::line(-7, 94), &[N.info()])?;
    let blocks: Vec<Region> = Partition::equal(tree, shards as usize)?.iter().collect();
    let (gang, task) = (top.gang("all", shards)?, top.register("add", add));
    let mut checkpoint = Checkpoint::open(&top, &dir, "steps").await?;
    let (first, mut sums) = checkpoint.restore::<Vec<u64>>(&[tree]).await?.unwrap_or_default();
    for step in first..until {
        let start = |s: u32| ShardLaunch::new((blocks[s as usize], step)).writes(blocks[s as usize], [N]);
        let each = top.launch_gang(&gang, &task, start)?.all().await?;
        sums.push(each.into_iter().fold(0, u64::wrapping_add));
        checkpoint.save(step + 1, &[tree], &sums).await?;
    }
    checkpoint.finish().await?;
    Ok((first, sums))
}

/// The sums of [`steps`], one after another.
fn sums(steps: u64) -> Vec<u64> {
    let mut values = [0u64; 101];
    let mut sums = Vec::new();
    for step in 0..steps {
        for (i, n) in values.iter_mut().enumerate() {
            *n = n.wrapping_mul(31).wrapping_add((i as u64).wrapping_sub(7) ^ step);
        }
        sums.push(values.iter().fold(0, |sum: u64, n| sum.wrapping_add(*n)));
    }
    sums
}

fn checkpoints_come_back() {
    for (name, runtime) in runtimes(1) {
        let ran = runtime.run(|top| async move {
            let dir = directory(&top).await?;
            let inside = dir.join("some").join("where");
            let mut firsts = Vec::new();
            for (shards, until) in [(3, 4), (2, 4), (7, 9), (1, 10)] {
                let (first, found) = steps(top.clone(), inside.clone(), shards, until).await?;
                assert_eq!(found, sums(until), "{shards} shards");
                firsts.push(first);
            }
            assert_eq!(firsts, [0, 4, 4, 9]);
            remove(&top, dir).await
        });
        assert!(ran.is_ok(), "{name}: {}", ran.expect_err("an error"));
    }
}

#[test]
fn a_run_goes_on_from_a_checkpoint() {
    checkpoints_come_back();
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir)
        .expect("a directory")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// The error of a run, which there must be.
fn refused(dir: &Path, until: u64) -> String {
    let dir = dir.to_owned();
    let ran = Runtime::threads(2).run(move |top| steps(top, dir.clone(), 3, until));
    ran.expect_err("an error").to_string()
}

#[test]
fn damaged_checkpoints_are_errors() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().to_owned();
    let run = |until| {
        let path = path.clone();
        Runtime::threads(2).run(move |top| steps(top, path.clone(), 3, until)).map(|ran| ran.0)
    };
    run(5).expect("five steps");
    let newest = path.join(format!("checkpoint-{:020}", 5));
    assert_eq!(names(&path), [4, 5].map(|step| format!("checkpoint-{step:020}")));
    let chunk = newest.join("line").join("n").join("c").join("1");
    let whole = std::fs::read(&chunk).expect("a chunk");
    let mut changed = whole.clone();
    changed[9] ^= 4;
    let cases: [(&str, Option<&[u8]>); 3] =
        [("checksum", Some(&changed)), ("bytes, found", Some(&whole[1..])), ("No such file", None)];
    for (expected, content) in cases {
        match content {
            Some(content) => std::fs::write(&chunk, content).expect("written"),
            None => std::fs::remove_file(&chunk).expect("removed"),
        }
        let error = refused(&path, 6);
        assert!(error.contains(expected) && error.contains(&chunk.display().to_string()), "{error}");
        assert!(newest.is_dir() && !path.join(format!("checkpoint-{:020}", 6)).exists());
    }
    std::fs::write(&chunk, &whole).expect("written");
    let values = newest.join("__values");
    let good = std::fs::read(&values).expect("values");
    let mut changed = good.clone();
    changed[1] ^= 1;
    for bad in [&good[..good.len() - 1], &changed] {
        std::fs::write(&values, bad).expect("written");
        assert!(refused(&path, 6).contains("__values"));
    }
    std::fs::write(&values, &good).expect("written");
    let about = newest.join("zarr.json");
    let text = std::fs::read_to_string(&about).expect("text");
    std::fs::write(&about, text.replace("\"steps\"", "\"stops\"")).expect("written");
    let error = refused(&path, 6);
    assert!(error.contains("expected a checkpoint of \"steps\", found one of \"stops\""), "{error}");
    std::fs::write(&about, text.replace("\"line\"", "\"lane\"")).expect("written");
    let error = refused(&path, 6);
    assert!(error.contains("expected the trees line, found lane"), "{error}");
    std::fs::write(&about, &text).expect("written");
    let later = path.join(format!("checkpoint-{:020}", 9));
    std::fs::rename(&newest, &later).expect("renamed");
    assert!(refused(&path, 10).contains("expected a checkpoint of step 9, found one of step 5"));
    std::fs::rename(&later, &newest).expect("renamed");
    // What a killed run left is in nobody's way, and goes.
    std::fs::create_dir(path.join(format!("checkpoint-{:020}.part-77-0", 5))).expect("made");
    assert_eq!(run(6).expect("one more step"), (5, sums(6)));
    assert_eq!(names(&path), [5, 6].map(|step| format!("checkpoint-{step:020}")));
}

#[test]
fn a_new_run_does_not_overwrite_checkpoints() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().to_owned();
    let run = move |top: Top| {
        let path = path.clone();
        async move {
            let tree = top.region_tree("line", Rect::line(0, 4), &[N.info()])?;
            let mut checkpoint = Checkpoint::open(&top, &path, "p").await?;
            let newest = checkpoint.newest();
            checkpoint.save(3, &[tree], &()).await?;
            checkpoint.finish().await?;
            assert_eq!(checkpoint.newest(), Some(3));
            let error = checkpoint.save(3, &[tree], &()).await.expect_err("an old step").to_string();
            assert!(error.contains("a step after 3"), "{error}");
            Ok(newest)
        }
    };
    assert_eq!(Runtime::threads(1).run(run.clone()).expect("the first run").0, None);
    let error = Runtime::threads(1).run(run).expect_err("an error").to_string();
    assert!(error.contains("`restore` before the first `save`, got checkpoints up to step 3"), "{error}");
}

/// A run goes on from a checkpoint of the same trees and values. Trees of a checkpoint and fields of a tree need names that differ.
#[test]
fn other_trees_and_values_are_refused() {
    async fn refused(top: Top, dir: PathBuf) -> Result<Vec<String>, Error> {
        const MORE: Field<f64> = Field::new(1, "more");
        const ALIKE: [Field<u64>; 2] = [Field::new(0, "a/b"), Field::new(1, "a_b")];
        let line = |lo, fields: &[FieldInfo]| top.region_tree("line", Rect::line(lo, lo + 4), fields);
        let (tree, again, moved) = (line(0, &[N.info()])?, line(0, &[N.info()])?, line(1, &[N.info()])?);
        let (wide, alike) = (line(0, &[N.info(), MORE.info()])?, line(0, &ALIKE.map(|field| field.info()))?);
        let mut checkpoint = Checkpoint::open(&top, &dir, "p").await?;
        let mut errors = Vec::new();
        errors.extend(checkpoint.save(1, &[tree, again], &()).await.err());
        errors.extend(top.save(&alike, dir.join("fields")).await.err());
        checkpoint.save(1, &[tree], &7u64).await?;
        checkpoint.finish().await?;
        errors.extend(checkpoint.restore::<u32>(&[tree]).await.err());
        errors.extend(checkpoint.restore::<u64>(&[moved]).await.err());
        errors.extend(checkpoint.restore::<u64>(&[wide]).await.err());
        assert_eq!(checkpoint.restore::<u64>(&[again]).await?, Some((1, 7)));
        Ok(errors.iter().map(Error::to_string).collect())
    }
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().to_owned();
    let (errors, _) = Runtime::threads(2).run(move |top| refused(top, path.clone())).expect("a run");
    let expected = [
        "expected trees whose names differ, got `line` twice",
        "expected names that differ, got `a_b` twice",
        "expected values of type u32, found u64",
        "expected points and elements",
        "expected the fields [\"more\", \"n\"], found [\"n\"]",
    ];
    assert_eq!(errors.len(), expected.len(), "{errors:?}");
    for (error, expected) in errors.iter().zip(expected) {
        assert!(error.contains(expected), "{error}");
    }
    assert_eq!(names(dir.path()), [format!("checkpoint-{:020}", 1)]);
}

/// An array as other programs write it: chunks of any size, without checksums. A chunk without a file has the fill value.
#[test]
fn an_array_of_another_program_is_loaded() {
    let dir = tempfile::tempdir().expect("a directory");
    let metadata = r#"{
        "zarr_format": 3, "node_type": "array", "shape": [5], "data_type": "uint64", "fill_value": 0,
        "chunk_grid": { "name": "regular", "configuration": { "chunk_shape": [2] } },
        "chunk_key_encoding": { "name": "default", "configuration": { "separator": "/" } },
        "codecs": [{ "name": "bytes", "configuration": { "endian": "little" } }], "attributes": {}
    }"#;
    std::fs::write(dir.path().join("zarr.json"), metadata).expect("written");
    std::fs::create_dir(dir.path().join("c")).expect("made");
    for (chunk, values) in [("0", [10u64, 11]), ("2", [14, 0])] {
        std::fs::write(dir.path().join("c").join(chunk), values.map(u64::to_le_bytes).concat()).expect("written");
    }
    let path = dir.path().to_owned();
    let loads = move |top: Top| {
        let path = path.clone();
        async move {
            let tree = top.region_tree("theirs", Rect::line(3, 8), &[N.info()])?;
            let view = top.region(tree)?;
            // Memory with other values, which the tasks that read get.
            for [i] in tree.rect.points().step_by(2) {
                let chunk = Rect::line(i, i + 2).intersect(&tree.rect);
                top.fill(top.region(Region { rect: chunk, ..tree })?.write(N), 7).go()?.detach();
            }
            top.load(&tree, &path).await?;
            top.launch(|n: Read<u64>| n.as_slice().to_vec(), (view.read(N),)).go()?.await
        }
    };
    assert_eq!(Runtime::threads(1).run(loads).expect("a run").0, [10, 11, 0, 0, 14]);
}

#[test]
fn other_files_are_not_replaced() {
    let dir = tempfile::tempdir().expect("a directory");
    let save = |name: &str, fields: &'static [FieldInfo]| {
        let path = dir.path().join(name);
        let ran = Runtime::threads(1).run(move |top| {
            let path = path.clone();
            async move {
                let tree = top.region_tree("t", Rect::line(0, 4), fields)?;
                top.save(&tree, &path).await
            }
        });
        ran.map(|ran| ran.0).map_err(|e| e.to_string())
    };
    std::fs::create_dir(dir.path().join("mine")).expect("made");
    std::fs::write(dir.path().join("mine/notes"), "dear").expect("written");
    let n: &'static [FieldInfo] = Box::leak(Box::new([N.info()]));
    let three: &'static [FieldInfo] = Box::leak(Box::new(fields(0)));
    assert!(save("mine", n).unwrap_err().contains("found another directory"));
    std::fs::create_dir(dir.path().join("mine.npy")).expect("made");
    assert!(save("mine.npy", n).unwrap_err().contains("found a directory"));
    assert!(save("three.npy", three).unwrap_err().contains("one field in a .npy file"));
    assert!(save("mine/notes/deep", n).unwrap_err().contains("Not a directory"));
    assert_eq!(names(&dir.path().join("mine")), ["notes"]);
    assert!(save("..", n).unwrap_err().contains("one that ends in a name"));
    for _ in 0..2 {
        assert_eq!(save("new/deep/one.npy", n), Ok(()));
        assert_eq!(save("new/deep/one/", n), Ok(()));
        assert_eq!(save("new/deep/TWO.NPY", n), Ok(()));
    }
    assert_eq!(names(&dir.path().join("new/deep")), ["TWO.NPY", "one", "one.npy"]);
    assert!(dir.path().join("new/deep/TWO.NPY").is_file());
    // What others have put into a group stays.
    std::fs::write(dir.path().join("new/deep/one/notes"), "dear").expect("written");
    assert!(save("new/deep/one", n).unwrap_err().contains("a group with something else in it, `notes`"));
    std::os::unix::fs::symlink(dir.path().join("new/deep"), dir.path().join("link")).expect("linked");
    assert!(save("link", n).unwrap_err().contains("found a symbolic link"));
    assert_eq!(names(dir.path()), ["link", "mine", "mine.npy", "new"]);
}

/// What `tests/readers.py` reads and writes.
mod python {
    use super::*;
    use num_complex::Complex64;

    const REAL: Field<f64> = Field::new(0, "real");
    const VECTOR: Field<[i16; 3]> = Field::new(1, "vector");
    const COMPLEX: Field<Complex64> = Field::new(2, "complex");
    const STRUCTURE: Field<Particle> = Field::new(3, "structure");
    const POINTS: Rect = Rect::new([-2, 5], [9, 18]);

    fn real([i, j]: [i64; 2]) -> f64 {
        i as f64 * 100.0 + j as f64 / 4.0
    }

    fn start(
        mut reals: Write<f64, 2>,
        mut vectors: Write<[i16; 3], 2>,
        mut complex: Write<Complex64, 2>,
        mut structures: Write<Particle, 2>,
    ) {
        for point @ [i, j] in reals.rect().points::<2>() {
            reals.set(point, real(point));
            vectors.set(point, [i, j, i * j].map(|n| n as i16));
            complex.set(point, Complex64::new(real(point), j as f64));
            structures.set(point, Particle { x: real(point), id: j as u32, kind: [0, j as u16 - 5] });
        }
    }

    async fn shard(shard: Shard, block: Region) -> Result<(), Error> {
        let block = shard.region(block)?;
        let all = (block.write(REAL), block.write(VECTOR), block.write(COMPLEX), block.write(STRUCTURE));
        shard.launch(start, all).go()?.await
    }

    async fn saves(top: Top, dir: PathBuf) -> Result<(), Error> {
        let fields = [REAL.info(), VECTOR.info(), COMPLEX.info(), STRUCTURE.info()];
        let tree = top.region_tree("tree", POINTS, &fields)?;
        let blocks: Vec<Region> = Partition::grid(tree, [3, 2])?.iter().collect();
        let (gang, task) = (top.gang("all", 6)?, top.register("shard", shard));
        let launch = |s: u32| {
            let block = blocks[s as usize];
            ShardLaunch::new(block).writes(block, [REAL.id(), VECTOR.id(), COMPLEX.id(), STRUCTURE.id()])
        };
        top.launch_gang(&gang, &task, launch)?.all().await?;
        top.save(&tree, dir.join("tree")).await?;
        for (name, field) in [("real", REAL.info()), ("vector", VECTOR.info())] {
            let single = top.region_tree(name, POINTS, &[field])?;
            let [from, into] = [tree, single].map(|tree| top.region(tree));
            match name {
                "real" => top.copy(from?.read(REAL), into?.write(REAL)).go()?.detach(),
                _ => top.copy(from?.read(VECTOR), into?.write(VECTOR)).go()?.detach(),
            }
            top.save(&single, dir.join(name).with_extension("npy")).await?;
        }
        Ok(())
    }

    /// Loads a file whose values are `real` from row 3 on, and zero before.
    async fn loads(top: Top, path: PathBuf) -> Result<(), Error> {
        let tree = top.region_tree("theirs", POINTS, &[REAL.info()])?;
        let view = top.region(tree)?;
        top.fill(view.write(REAL), 7.0).go()?.detach();
        top.load(&tree, path).await?;
        let compare = |reals: Read<f64, 2>| {
            for point in POINTS.points::<2>() {
                assert_eq!(reals.get(point), if point[0] < 3 { 0.0 } else { real(point) }, "{point:?}");
            }
        };
        top.launch(compare, (view.read(REAL),)).go()?.await
    }

    #[test]
    #[ignore = "needs python3 with numpy, zarr and xarray"]
    fn numpy_zarr_and_xarray_read_what_is_saved() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().to_owned();
        Runtime::threads(2).run(move |top| saves(top, path.clone())).expect("saved");
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/readers.py");
        let python = std::env::var("MANIPLE_TEST_PYTHON").unwrap_or("python3".into());
        let ran = std::process::Command::new(python).arg(script).arg(dir.path()).output().expect("python3 starts");
        assert!(
            ran.status.success(),
            "{}{}",
            String::from_utf8_lossy(&ran.stdout),
            String::from_utf8_lossy(&ran.stderr)
        );
        let load = |name: &str| {
            let path = dir.path().join(name);
            Runtime::threads(2).run(move |top| loads(top, path.clone())).map(|ran| ran.0).map_err(|e| e.to_string())
        };
        for name in ["theirs", "checked", "theirs.npy"] {
            assert_eq!(load(name), Ok(()), "{name}");
        }
        let error = load("compressed").unwrap_err();
        assert!(error.contains("expected the codecs bytes and crc32c, found bytes, zstd"), "{error}");
        let error = load("fortran.npy").unwrap_err();
        assert!(error.contains("in Fortran's order"), "{error}");
    }
}
