//! Processes that talk to each other.

use super::abi::{Handle, Status};
use super::functions::{Failed, In, Mpi, Out, Request, call, must, ok};
use std::ffi::c_int;
use std::marker::PhantomData;

/// What MPI can send: elements of these types.
pub trait Element: Copy + sealed::Sealed {}

mod sealed {
    pub trait Sealed {
        /// Whether it is MPI's datatype for doubles. The others travel as bytes.
        const IS_DOUBLE: bool = false;
    }
    impl Sealed for u8 {}
    impl Sealed for u32 {}
    impl Sealed for u64 {}
    impl Sealed for f64 {
        const IS_DOUBLE: bool = true;
    }
}

impl<T: Copy + sealed::Sealed> Element for T {}

/// An operator of a reduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// The sum.
    Sum,
    /// The product.
    Product,
    /// The least.
    Min,
    /// The greatest.
    Max,
}

/// Processes that talk to each other, as in MPI. Calls other than [`rank`](Self::rank), [`size`](Self::size), sends and
/// receives are collective; all calls may wait. An error in MPI ends the job. It stays on the thread that uses MPI:
///
/// ```compile_fail,E0277
/// fn sent<T: Send>() {}
/// sent::<maniple_runtime::mpi::Communicator>();
/// ```
///
/// # Panics
///
/// Calls panic where the lengths of arguments do not fit, or exceed what MPI can count (2³¹ − 1).
#[derive(Clone, Copy)]
pub struct Communicator {
    mpi: &'static Mpi,
    handle: Handle,
    of_a_thread: PhantomData<*const ()>,
}

impl std::fmt::Debug for Communicator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Communicator(rank {} of {})", self.rank(), self.size())
    }
}

impl Mpi {
    /// All processes of the job.
    pub fn world(&'static self) -> Communicator {
        Communicator { mpi: self, handle: self.abi.world, of_a_thread: PhantomData }
    }
}

/// A message that has come to this process.
pub struct Came {
    pub from: u32,
    pub bytes: Vec<u8>,
}

/// Where elements begin. MPI has other meanings for addresses that vectors without elements may have.
fn start_of<T>(elements: &[T]) -> In {
    static NOTHING: u64 = 0;
    if elements.is_empty() { (&raw const NOTHING).cast() } else { elements.as_ptr().cast() }
}

fn start_of_mut<T>(elements: &mut [T]) -> Out {
    if elements.is_empty() { start_of(elements).cast_mut() } else { elements.as_mut_ptr().cast() }
}

/// So many elements as MPI counts them.
fn count(elements: usize) -> c_int {
    c_int::try_from(elements).expect("at most 2³¹ − 1 elements of a message of MPI")
}

impl Communicator {
    /// The number of this process among the others.
    pub fn rank(&self) -> u32 {
        let mut rank = 0;
        // SAFETY: A communicator of this library, as in all calls below.
        unsafe { must!(self.mpi, comm_rank(self.handle.into(), &mut rank)) };
        rank as u32
    }

    /// How many processes there are.
    pub fn size(&self) -> u32 {
        let mut size = 0;
        // SAFETY: As in `rank`.
        unsafe { must!(self.mpi, comm_size(self.handle.into(), &mut size)) };
        size as u32
    }

    /// The datatype and number of elements that stand for these.
    fn datatype<T: Element>(&self, elements: usize) -> (Handle, c_int) {
        match T::IS_DOUBLE {
            true => (self.mpi.abi.double, count(elements)),
            false => (self.mpi.abi.byte, count(elements * size_of::<T>())),
        }
    }

    fn operation(&self, operation: Operation) -> Handle {
        let abi = &self.mpi.abi;
        match operation {
            Operation::Sum => abi.sum,
            Operation::Product => abi.product,
            Operation::Min => abi.min,
            Operation::Max => abi.max,
        }
    }

    fn made(&self, make: impl FnOnce(&mut Handle)) -> Self {
        let mut handle = Handle::NONE;
        make(&mut handle);
        Self { mpi: self.mpi, handle, of_a_thread: PhantomData }
    }

    /// The same processes, whose messages do not meet those of this communicator.
    pub(super) fn duplicate(&self) -> Self {
        // SAFETY: As in `rank`; so in the next calls.
        self.made(|made| unsafe { must!(self.mpi, comm_dup(self.handle.into(), made.place())) })
    }

    /// The processes that share memory with this one, in the order of their ranks.
    pub(super) fn sharing_memory(&self) -> Self {
        let (abi, key) = (&self.mpi.abi, self.rank() as c_int);
        self.made(|made| unsafe {
            must!(self.mpi, comm_split_type(self.handle.into(), abi.shared, key, abi.no_info.into(), made.place()))
        })
    }

    /// The processes that give true, for each of them.
    pub(super) fn of_those(&self, is_one: bool) -> Option<Self> {
        let colour = if is_one { 0 } else { self.mpi.abi.undefined };
        let made = self.made(|made| unsafe {
            must!(self.mpi, comm_split(self.handle.into(), colour, 0, made.place()));
        });
        is_one.then_some(made)
    }

    /// Gives up a communicator that was made from another one; collective.
    pub(super) fn free(mut self) {
        // SAFETY: As in `rank`. The program has copies of the world's communicator only.
        unsafe { must!(self.mpi, comm_free(self.handle.place())) };
    }

    /// Lets calls with this communicator return errors.
    pub(super) fn return_errors(&self) {
        // SAFETY: As in `rank`.
        unsafe { must!(self.mpi, comm_set_errhandler(self.handle.into(), self.mpi.abi.errors_return.into())) };
    }

    /// Starts to send bytes.
    ///
    /// # Safety
    ///
    /// The bytes stay where they are, and as they are, until the request has ended.
    pub(super) unsafe fn start_send(&self, bytes: &[u8], to: u32, tag: c_int) -> Result<Request, Failed> {
        let (mut request, byte) = (Handle::NONE, self.mpi.abi.byte);
        let (from, len, to) = (start_of(bytes), count(bytes.len()), to as c_int);
        let all = self.handle;
        // SAFETY: As in `rank`, and the caller keeps the bytes.
        ok(unsafe { call!(self.mpi, isend(from, len, byte.into(), to, tag, all.into(), request.place())) })?;
        Ok(Request(request))
    }

    /// Starts to receive as many bytes.
    ///
    /// # Safety
    ///
    /// Nobody else uses the bytes until the request has ended.
    pub(super) unsafe fn start_receive(&self, bytes: &mut [u8], from: u32, tag: c_int) -> Result<Request, Failed> {
        let (mut request, byte) = (Handle::NONE, self.mpi.abi.byte);
        let (into, len, from) = (start_of_mut(bytes), count(bytes.len()), from as c_int);
        let all = self.handle;
        // SAFETY: As in `rank`, and the caller keeps the bytes.
        ok(unsafe { call!(self.mpi, irecv(into, len, byte.into(), from, tag, all.into(), request.place())) })?;
        Ok(Request(request))
    }

    /// Takes a message with this tag, if one has come. Does not wait.
    ///
    /// # Errors
    ///
    /// With the sender of the message, if one had come.
    pub(super) fn take(&self, tag: c_int) -> Result<Option<Came>, (Option<u32>, Failed)> {
        let (mut found, mut message, mut status, mut len) = (0, Handle::NONE, Status::default(), -1);
        let (any, byte, all) = (self.mpi.abi.any_source, self.mpi.abi.byte, self.handle);
        // SAFETY: As in `rank`; the message is received once, into as many bytes as it has.
        let (from, bytes, code) = unsafe {
            ok(call!(self.mpi, improbe(any, tag, all.into(), &mut found, message.place(), &mut status)))
                .map_err(|failed| (None, failed))?;
            if found == 0 {
                return Ok(None);
            }
            let from = status.0[self.mpi.abi.source] as u32;
            let code = call!(self.mpi, get_count(&mut status, byte.into(), &mut len));
            let len = usize::try_from(len).map_err(|_| (Some(from), Failed(code)))?;
            let mut bytes = vec![0; len];
            let into = start_of_mut(&mut bytes);
            let code = call!(self.mpi, mrecv(into, count(len), byte.into(), message.place(), &mut status));
            (from, bytes, code)
        };
        ok(code).map_err(|failed| (Some(from), failed))?;
        Ok(Some(Came { from, bytes }))
    }

    /// Starts to gather bytes of each process, so many of each and to these places in `all`: at the first one, or at all.
    ///
    /// # Safety
    ///
    /// Everything stays where it is, and is used by nobody else, until the request has ended. At whoever gets them, `all` has
    /// room for all.
    pub(super) unsafe fn start_gather(
        &self,
        own: &[u8],
        all: &mut [u8],
        (counts, places): (&[c_int], &[c_int]),
        for_all: bool,
    ) -> Result<Request, Failed> {
        let (mut request, byte, of) = (Handle::NONE, self.mpi.abi.byte, self.handle);
        let (from, len, into) = (start_of(own), count(own.len()), start_of_mut(all));
        let (counts, places) = (counts.as_ptr(), places.as_ptr());
        // SAFETY: As in `rank`, and the caller keeps the bytes.
        ok(unsafe {
            match for_all {
                true => call!(
                    self.mpi,
                    iallgatherv(from, len, byte.into(), into, counts, places, byte.into(), of.into(), request.place())
                ),
                false => call!(
                    self.mpi,
                    igatherv(from, len, byte.into(), into, counts, places, byte.into(), 0, of.into(), request.place())
                ),
            }
        })?;
        Ok(Request(request))
    }

    /// Sends elements to another process.
    pub fn send<T: Element>(&self, elements: &[T], to: u32, tag: i32) {
        let (datatype, count) = self.datatype::<T>(elements.len());
        // SAFETY: As in `rank`; so in the next calls, whose memory is as long as MPI is told.
        unsafe {
            must!(self.mpi, send(start_of(elements), count, datatype.into(), to as c_int, tag, self.handle.into()))
        };
    }

    /// Receives as many elements of another process.
    pub fn receive<T: Element>(&self, elements: &mut [T], from: u32, tag: i32) {
        let ((datatype, count), mut status) = (self.datatype::<T>(elements.len()), Status::default());
        let (into, from) = (start_of_mut(elements), from as c_int);
        unsafe { must!(self.mpi, recv(into, count, datatype.into(), from, tag, self.handle.into(), &mut status)) };
    }

    /// Is ready to receive these elements, each from a process and with a tag, while it does `body`. Then waits for them.
    pub fn receive_beside<T: Element, const N: usize>(&self, receives: [(&mut [T], u32, i32); N], body: impl FnOnce()) {
        /// Waits for what is left. If `body` has panicked it ends the process: what MPI goes on to write to is given up, and what others
        /// wait for may not have been sent.
        struct All(&'static Mpi, Vec<Request>);
        impl Drop for All {
            fn drop(&mut self) {
                if std::thread::panicking() {
                    std::process::abort();
                }
                self.1.drain(..).for_each(|request| self.0.wait(request));
            }
        }
        let mut all = All(self.mpi, Vec::with_capacity(N));
        for (elements, from, tag) in receives {
            let ((datatype, count), mut request) = (self.datatype::<T>(elements.len()), Handle::NONE);
            let (into, from, of) = (start_of_mut(elements), from as c_int, self.handle);
            unsafe { must!(self.mpi, irecv(into, count, datatype.into(), from, tag, of.into(), request.place())) };
            all.1.push(Request(request));
        }
        body();
    }

    /// Returns when all processes have called it.
    pub fn barrier(&self) {
        unsafe { must!(self.mpi, barrier(self.handle.into())) };
    }

    /// Gives all processes the elements of process `root`.
    pub fn broadcast<T: Element>(&self, elements: &mut [T], root: u32) {
        let (datatype, count) = self.datatype::<T>(elements.len());
        let into = start_of_mut(elements);
        unsafe { must!(self.mpi, bcast(into, count, datatype.into(), root as c_int, self.handle.into())) };
    }

    /// At process `root`, room for as many elements as all have.
    fn expect_room<T>(&self, own: &[T], all: &[T], root: Option<u32>) {
        if root.is_none_or(|root| root == self.rank()) {
            assert_eq!(all.len(), own.len() * self.size() as usize, "room for what all processes give");
        }
    }

    /// Gives process `root` the elements of all, in the order of their ranks. The others may leave `all` empty.
    pub fn gather<T: Element>(&self, own: &[T], all: &mut [T], root: u32) {
        self.expect_room(own, all, Some(root));
        let (datatype, count) = self.datatype::<T>(own.len());
        let (from, into, root) = (start_of(own), start_of_mut(all), root as c_int);
        let (of, each) = (self.handle, datatype);
        unsafe { must!(self.mpi, gather(from, count, each.into(), into, count, each.into(), root, of.into())) };
    }

    /// Gives each process the elements of all, in the order of their ranks.
    pub fn all_gather<T: Element>(&self, own: &[T], all: &mut [T]) {
        self.expect_room(own, all, None);
        let (each, count) = self.datatype::<T>(own.len());
        let (from, into, of) = (start_of(own), start_of_mut(all), self.handle);
        unsafe { must!(self.mpi, allgather(from, count, each.into(), into, count, each.into(), of.into())) };
    }

    /// Gives each process its block of the elements at process `root`. The others may leave `all` empty.
    pub fn scatter<T: Element>(&self, all: &[T], own: &mut [T], root: u32) {
        self.expect_room(own, all, Some(root));
        let (each, count) = self.datatype::<T>(own.len());
        let (from, into, root, of) = (start_of(all), start_of_mut(own), root as c_int, self.handle);
        unsafe { must!(self.mpi, scatter(from, count, each.into(), into, count, each.into(), root, of.into())) };
    }

    /// Gives each process a block of the elements of each.
    pub fn all_to_all<T: Element>(&self, given: &[T], received: &mut [T]) {
        let fit = given.len() == received.len() && given.len().is_multiple_of(self.size() as usize);
        assert!(fit, "a block of the same length for each process, given and received");
        let (each, count) = self.datatype::<T>(given.len() / self.size() as usize);
        let (from, into, of) = (start_of(given), start_of_mut(received), self.handle);
        unsafe { must!(self.mpi, alltoall(from, count, each.into(), into, count, each.into(), of.into())) };
    }

    /// What a reduction is told: where elements are and go, how many, of which datatype, and the operator.
    fn reduction(&self, own: &[f64], result: &mut [f64], with: Operation) -> (In, Out, c_int, Handle, Handle) {
        (start_of(own), start_of_mut(result), count(own.len()), self.mpi.abi.double, self.operation(with))
    }

    /// Combines the elements of all processes at process `root`. The others may leave `result` empty.
    pub fn reduce(&self, own: &[f64], result: &mut [f64], with: Operation, root: u32) {
        assert!(own.len() == result.len() || root != self.rank(), "as many elements as are combined");
        let (from, into, count, each, with) = self.reduction(own, result, with);
        let (root, of) = (root as c_int, self.handle);
        unsafe { must!(self.mpi, reduce(from, into, count, each.into(), with.into(), root, of.into())) };
    }

    /// Combines the elements of all processes, for all.
    pub fn all_reduce(&self, own: &[f64], result: &mut [f64], with: Operation) {
        assert_eq!(own.len(), result.len(), "as many elements as are combined");
        let (from, into, count, each, with) = self.reduction(own, result, with);
        unsafe { must!(self.mpi, allreduce(from, into, count, each.into(), with.into(), self.handle.into())) };
    }

    /// Combines the elements of all processes, and gives each its block of the result.
    pub fn reduce_scatter(&self, own: &[f64], result: &mut [f64], with: Operation) {
        self.expect_room(result, own, None);
        let (from, into, _, each, with) = self.reduction(own, result, with);
        let (count, of) = (count(result.len()), self.handle);
        unsafe { must!(self.mpi, reduce_scatter_block(from, into, count, each.into(), with.into(), of.into())) };
    }

    /// Combines the elements of this process and of those before it.
    pub fn scan(&self, own: &[f64], result: &mut [f64], with: Operation) {
        assert_eq!(own.len(), result.len(), "as many elements as are combined");
        let (from, into, count, each, with) = self.reduction(own, result, with);
        unsafe { must!(self.mpi, scan(from, into, count, each.into(), with.into(), self.handle.into())) };
    }

    /// Combines the elements of the processes before this one. At process 0 the result is whatever MPI leaves there.
    pub fn exclusive_scan(&self, own: &[f64], result: &mut [f64], with: Operation) {
        assert_eq!(own.len(), result.len(), "as many elements as are combined");
        let (from, into, count, each, with) = self.reduction(own, result, with);
        unsafe { must!(self.mpi, exscan(from, into, count, each.into(), with.into(), self.handle.into())) };
    }
}
