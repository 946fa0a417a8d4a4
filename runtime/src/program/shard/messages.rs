//! Messages: values that a shard itself sends along edges and receives.

use super::Shard;
use crate::Error;
use crate::future::TaskFuture;
use crate::ids::CellAddress;
use crate::program::edges::{Consumer, Producer, Sending};
use maniple_regions::{Element, Vector};
use std::future::Future;
use std::time::Duration;

impl Shard {
    /// Sends elements along an edge: any number of them, or none. Local; never waits.
    ///
    /// The future ends when the elements have left, for which the edge needs a free buffer. Await it to keep in step with the
    /// receiver, or [`detach`](TaskFuture::detach) it. Elements that can't leave yet take memory: [`window`](Self::window) limits how
    /// many there are. Messages arrive in the order of these calls.
    ///
    /// A `Vec` is moved. Within a node nothing is copied, unless the message has 24 bytes or less in all. To send the same elements
    /// along several edges, send clones of a [`Vector`].
    ///
    /// A [`receive`](Self::receive) or a [`Get`](crate::Get) of the consuming shard takes the message. The mapper is not
    /// asked. In virtual time, a send costs an empty leaf task, and the message costs the time of its bytes.
    ///
    /// ```
    /// use maniple_runtime::{Edges, Error, Runtime, Shard, ShardLaunch};
    ///
    /// /// Each shard sends as many numbers to the next as its own number says.
    /// async fn shard(shard: Shard, ring: Edges<u32>) -> Result<usize, Error> {
    ///     let (me, all) = (shard.index(), shard.shards());
    ///     let next = ring.producer(&shard, (me + 1) % all)?;
    ///     let previous = ring.consumer(&shard, (me + all - 1) % all)?;
    ///     shard.send(&next, (0..me).collect::<Vec<_>>())?.detach();
    ///     let came = shard.receive(&previous).await?;
    ///     Ok(came.len())
    /// }
    /// # let (came, _) = Runtime::threads(2).run(|top| async move {
    /// let gang = top.gang("ring", 3)?;
    /// let ring = top.edges("ring", &gang, (0..3).map(|s| (s, (s + 1) % 3)), 1)?;
    /// let came = top.launch_gang(&gang, &top.register("send", shard), |_| ShardLaunch::new(ring))?.all().await?;
    /// # Ok(came)
    /// # })?;
    /// assert_eq!(came, [2, 0, 1]);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Misuse`] when the shard has ended. The future fails with [`Error::Poisoned`] when the consumer has failed.
    pub fn send<T: Element>(&self, to: &Producer<T>, values: impl Into<Vector<T>>) -> Result<TaskFuture<()>, Error> {
        let sending = self.launch(|_: Sending<T>| (), (Sending::along(to, values.into()),));
        sending.named("send").takes(Duration::ZERO).go_sending()
    }

    /// Waits for the next message that comes along an edge, and gives its elements. Local; may wait.
    ///
    /// It takes what a [`send`](Self::send), a [`Put`](crate::Put) or a [`PutVec`](crate::PutVec) of the producing shard has
    /// sent, and frees its buffer. Within a node the elements are not copied, unless the message has 24 bytes or less in all.
    /// [`Vector::into_vec`] does not copy a vector that came from `send`. It copies one from a `Put` or a `PutVec`, whose memory goes
    /// back to the producer.
    ///
    /// Messages are taken in the order in which the awaits begin. If a `receive` is dropped before it ends, the next one gets its
    /// message. Of several under way on one edge, drop the latest first, as with [`wait`](Self::wait). [`timeout`](Self::timeout) sets a limit.
    ///
    /// # Errors
    /// [`Error::Poisoned`] when the message will never come, as its sender has failed. [`Error::Barrier`] when the producer has
    /// arrived without a value.
    #[must_use = "a message is received where it is awaited: `shard.receive(..).await?`"]
    pub fn receive<T: Element>(&self, from: &Consumer<T>) -> impl Future<Output = Result<Vector<T>, Error>> {
        self.received(from)
    }

    async fn received<T: Element>(&self, from: &Consumer<T>) -> Result<Vector<T>, Error> {
        let (ready, empty) = (from.ready(), from.empty());
        let (CellAddress { object, cell, .. }, generation) = (ready.address(), ready.generation());
        self.wait(ready).await?;
        let core = self.core();
        core.effects().counters.edge_values.add(1);
        let came = core.tasks.barriers.take_value(core.effects(), (object, cell), generation);
        match came {
            Ok(value) => {
                self.arrive(empty);
                value.into_vector()
            }
            Err(error) => {
                // As a task that fails: whoever waits for the buffer learns of it.
                core.tasks.poison_cell(empty.address(), empty.take(), &error);
                Err(*error)
            }
        }
    }
}
