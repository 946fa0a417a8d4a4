//! Hashes of the top-level tasks' calls, which release builds compare at each launch on several processes.

use crate::config::Compares;
use crate::ids::NodeId;
use crate::{Error, Runtime, Shard, ShardLaunch, Top};
use maniple_regions::{Field, Privilege, Rect};

const U: Field<u64> = Field::new(0, "u");
const NODES: u32 = 7;

/// What one node does differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Odd {
    Nothing,
    TreeSize,
    Requirement,
    /// What a shard is given.
    Argument,
    OneMore,
    OneLess,
}

async fn program(top: Top, odd: Odd) -> Result<(), Error> {
    let cells = if odd == Odd::TreeSize { 9 } else { 8 };
    let tree = top.region_tree("cells", Rect::line(0, cells), &[U.info()])?;
    let gang = top.gang("all", 3)?;
    let task = top.register("nothing", |_: Shard, _: Vec<u32>| async { Ok(()) });
    let launches = 3 + u32::from(odd == Odd::OneMore) - u32::from(odd == Odd::OneLess);
    for launch in 0..launches {
        let privilege = if odd == Odd::Requirement && launch == 1 { Privilege::Read } else { Privilege::ReadWrite };
        let given = |shard| if (odd, launch, shard) == (Odd::Argument, 2, 1) { vec![2, 1] } else { vec![1, 2] };
        let start = |shard| ShardLaunch::new(given(shard)).shares(tree, [U], privilege);
        top.launch_gang(&gang, &task, start)?.all().await?;
    }
    Ok(())
}

#[test]
fn nodes_that_differ_are_found_by_the_hash_of_their_calls() {
    let run = |seed, who, odd| {
        let mut runtime = Runtime::seeded(NODES, seed);
        runtime.compares = Some(Compares::Hashes);
        let outcome = runtime.run(move |top| {
            let mine = top.core().effects().id.0 == who;
            program(top, if mine { odd } else { Odd::Nothing })
        });
        outcome.map(|r| r.0)
    };
    for seed in 0..60 {
        let who = (seed % u64::from(NODES)) as u32;
        assert_eq!(run(seed, who, Odd::Nothing), Ok(()), "seed {seed}");
        // The launch or the end that is the first to differ. Hashes are compared by nodes next to each other in the tree.
        let odds =
            [(Odd::TreeSize, 0), (Odd::Requirement, 1), (Odd::Argument, 2), (Odd::OneMore, 3), (Odd::OneLess, 2)];
        for (odd, first) in odds {
            let e = run(seed, who, odd).expect_err("they differ");
            let Error::Divergence { call, reference, node, expected, came } = &e else { panic!("seed {seed}: {e}") };
            assert_eq!(*call, first, "{odd:?}, seed {seed}: {e}");
            assert!([reference, node].contains(&&NodeId(who)), "{odd:?}, seed {seed}: {e}");
            assert_eq!((node.0 - 1) / 2, reference.0, "{odd:?}, seed {seed}: {e}");
            assert!(expected != came && e.to_string().contains("`Check::ControlReplication`"), "{e}");
            if odd == Odd::Argument {
                for side in [expected, came] {
                    let of = "; the argument and the requirements of shard 1 have the hash";
                    assert!(side.starts_with("launch of task `nothing` on gang `all`") && side.contains(of), "{e}");
                }
            }
        }
    }
}
