//! Temporary.
use maniple_runtime::*;
async fn shard(shard: Shard, (ring, how, rounds, len): (Edges<u64>, u32, u32, usize)) -> Result<u64, Error> {
    let (me, all) = (shard.index(), shard.shards());
    let to = ring.producer(&shard, (me + 1) % all)?;
    let from = ring.consumer(&shard, (me + all - 1) % all)?;
    let mut sum = 0;
    for round in 0..rounds {
        match how {
            0 => {
                let put = |mut out: Put<u64>, r: Arg<u64>| out.fill(*r);
                shard.launch(put, (to.put(len), u64::from(round).into())).go()?.detach();
                sum += shard.launch(|came: Get<u64>| came[0], (from.get(),)).go()?.await?;
            }
            1 => {
                let put = |mut out: PutVec<u64>, r: Arg<u64>| out.resize(len, *r);
                shard.launch(put, (to.put_vec(), u64::from(round).into())).go()?.detach();
                sum += shard.launch(|came: Get<u64>| came[0], (from.get(),)).go()?.await?;
            }
            2 => {
                shard.send(&to, vec![u64::from(round); len])?.detach();
                sum += shard.receive(&from).await?[0];
            }
            3 => {
                let put = |mut out: Put<u64>, r: Arg<Vec<u64>>| out.copy_from_slice(&r);
                shard.launch(put, (to.put(len), vec![u64::from(round); len].into())).go()?.detach();
                sum += shard.launch(|came: Get<u64>| came.to_vec(), (from.get(),)).go()?.await?[0];
            }
            _ => {
                shard.send(&to, vec![u64::from(round); len])?.detach();
                sum += shard.launch(|came: Get<u64>| came[0], (from.get(),)).go()?.await?;
            }
        }
    }
    Ok(sum)
}
fn main() {
    let a: Vec<usize> = std::env::args().filter_map(|a| a.parse().ok()).collect();
    let (how, rounds, len) = (a[0] as u32, a[1] as u32, a[2]);
    let (sums, _) = Runtime::threads(1).run(move |top| async move {
        let gang = top.gang("ring", 2)?;
        let ring = top.edges("ring", &gang, (0..2).map(|s| (s, (s + 1) % 2)), 2)?;
        top.launch_gang(&gang, &top.register("s", shard), move |_| ShardLaunch::new((ring, how, rounds, len)))?.all().await
    }).unwrap();
    println!("{sums:?}");
}
