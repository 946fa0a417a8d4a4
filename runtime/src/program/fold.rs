//! Combining the values of a map of futures by tasks.

use super::launch::Leaf;
use super::param::Input;
use super::shard::Shard;
use crate::Error;
use crate::future::{FutureMap, TaskFuture};
use crate::names::TaskName;
use maniple_schedules::fold_in_pairs;

impl<T: Clone + Send + 'static> FutureMap<T> {
    /// Combines all values: launches a leaf task for each pair, which starts when both are there. So most of the work is done when
    /// the last value comes. Local, not collective; returns at once.
    ///
    /// The brackets are those of an allreduce by recursive doubling, whatever the order in which values come, so the result has the
    /// same bits in every run. The value with the lower number is the first argument. A value is moved into its task if nobody else
    /// holds it, and otherwise cloned.
    ///
    /// ```
    /// # use maniple_runtime::*;
    /// async fn shard(shard: Shard, (): ()) -> Result<String, Error> {
    ///     let words = shard.index_launch(5, |n: Arg<usize>| format!("{}", n.0), |point| (point.into(),)).go()?;
    ///     let pair = |a: Arg<String>, b: Arg<String>| format!("({} {})", a.0, b.0);
    ///     words.fold(&shard, pair)?.await
    /// }
    /// # let (all, _) = Runtime::threads(1).run(|top| async move {
    /// #     let gang = top.gang("all", 1)?;
    /// #     let task = top.register("shard", shard);
    /// #     top.launch_gang(&gang, &task, |_| ShardLaunch::new(()))?.all().await
    /// # })?;
    /// # assert_eq!(all[0], "(((0 1) 2) (3 4))");
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Misuse`] for a map without futures, and those of [`Launch::go`](crate::Launch::go). If a value or a task fails, so
    /// does the result.
    #[track_caller]
    pub fn fold<F, M>(self, shard: &Shard, combine: F) -> Result<TaskFuture<T>, Error>
    where
        F: Leaf<M, Args = (Input<T>, Input<T>), Output = T> + Clone,
        M: 'static,
    {
        let name = TaskName::new(std::any::type_name::<F>());
        let mut values: Vec<Option<TaskFuture<T>>> = self.into_iter().map(Some).collect();
        let mut failed = None;
        let mut pair = |values: &mut [Option<TaskFuture<T>>], lower: usize, higher: usize| {
            let (Some(a), Some(b)) = (values[lower].take(), values[higher].take()) else { return };
            match shard.launch(combine.clone(), (Input::Later(a), Input::Later(b))).called(name).go() {
                Ok(future) => values[lower] = Some(future),
                Err(error) => failed = failed.take().or(Some(error)),
            }
        };
        // The first pairs combine before the others, so that a power of two is left.
        let most = (values.len() + 1).next_power_of_two() / 2;
        for at in 0..values.len() - most {
            pair(&mut values, 2 * at, 2 * at + 1);
        }
        values.retain(Option::is_some);
        fold_in_pairs(values.len() as u32, |lower, higher| pair(&mut values, lower as usize, higher as usize));
        match (failed, values.into_iter().next().flatten()) {
            (Some(error), _) => Err(error),
            (None, Some(all)) => Ok(all),
            (None, None) => Err(Error::misuse("FutureMap::fold", "at least one future", "none")),
        }
    }
}
