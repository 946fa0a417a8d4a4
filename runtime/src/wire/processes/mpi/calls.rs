//! The calls of MPI that are made here, in a library that was loaded.

use super::abi::{Abi, Handle, Status};
use std::ffi::{c_char, c_int, c_void};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::time::{Duration, Instant};

/// A loaded library: its functions and constants.
pub struct Mpi {
    /// The name and version that the library says.
    pub version: String,
    /// Where it is.
    pub path: String,
    pub abi: Abi,
    functions: Either,
    /// It stays loaded: threads of its own may run.
    _library: ManuallyDrop<libloading::os::unix::Library>,
}

/// The functions with handles of either width.
enum Either {
    Numbers(Functions<c_int>),
    Pointers(Functions<*mut c_void>),
}

type In = *const c_void;
type Out = *mut c_void;

/// Defines the table of functions. The function `MPI_Comm_rank` is called `comm_rank`, and so on.
macro_rules! functions {
    ($($name:ident($($parameter:ty),*);)*) => {
        struct Functions<H> {
            $($name: unsafe extern "C" fn($($parameter),*) -> c_int,)*
        }

        impl<H> Functions<H> {
            /// The functions of a library, or the name of one that it does not have.
            fn of(library: &libloading::os::unix::Library) -> Result<Self, String> {
                Ok(Self {
                    $($name: {
                        let (first, rest) = stringify!($name).split_at(1);
                        let name = format!("MPI_{}{rest}", first.to_uppercase());
                        // SAFETY: The standard gives the functions of these names these parameters.
                        *unsafe { library.get(name.as_bytes()) }.map_err(|_| name)?
                    },)*
                })
            }
        }
    };
}

// H stands for a handle: a communicator, a datatype, an operator, a request, or a message.
functions! {
    init_thread(*mut c_int, *mut *mut *mut c_char, c_int, *mut c_int);
    initialized(*mut c_int);
    finalize();
    type_size(H, *mut c_int);
    comm_rank(H, *mut c_int);
    comm_size(H, *mut c_int);
    comm_dup(H, *mut H);
    comm_split(H, c_int, c_int, *mut H);
    comm_split_type(H, c_int, c_int, H, *mut H);
    comm_free(*mut H);
    comm_set_errhandler(H, H);
    isend(In, c_int, H, c_int, c_int, H, *mut H);
    irecv(Out, c_int, H, c_int, c_int, H, *mut H);
    send(In, c_int, H, c_int, c_int, H);
    recv(Out, c_int, H, c_int, c_int, H, *mut Status);
    test(*mut H, *mut c_int, *mut Status);
    wait(*mut H, *mut Status);
    improbe(c_int, c_int, H, *mut c_int, *mut H, *mut Status);
    get_count(*mut Status, H, *mut c_int);
    mrecv(Out, c_int, H, *mut H, *mut Status);
    barrier(H);
    bcast(Out, c_int, H, c_int, H);
    gather(In, c_int, H, Out, c_int, H, c_int, H);
    igatherv(In, c_int, H, Out, *const c_int, *const c_int, H, c_int, H, *mut H);
    allgather(In, c_int, H, Out, c_int, H, H);
    iallgatherv(In, c_int, H, Out, *const c_int, *const c_int, H, H, *mut H);
    scatter(In, c_int, H, Out, c_int, H, c_int, H);
    alltoall(In, c_int, H, Out, c_int, H, H);
    reduce(In, Out, c_int, H, H, c_int, H);
    allreduce(In, Out, c_int, H, H, H);
    reduce_scatter_block(In, Out, c_int, H, H, H);
    scan(In, Out, c_int, H, H, H);
    exscan(In, Out, c_int, H, H, H);
}

/// Calls a function of a library. Handles take the library's width by `into()`, places of handles by `place()`.
macro_rules! call {
    ($mpi:expr, $name:ident($($argument:expr),*)) => {
        match &$mpi.functions {
            Either::Numbers(functions) => (functions.$name)($($argument),*),
            Either::Pointers(functions) => (functions.$name)($($argument),*),
        }
    };
}

/// The same, where MPI gives an error to its handler: with another code than success nothing can be relied on.
macro_rules! must {
    ($mpi:expr, $name:ident($($argument:expr),*)) => {{
        let code = call!($mpi, $name($($argument),*));
        assert!(code == 0, "{} of {} gave error {code}", stringify!($name), $mpi.version);
    }};
}

/// An operation that has been started: a send or a receive.
pub struct Request(Handle);

/// A message that has come to this process.
pub struct Came {
    pub from: u32,
    pub bytes: Vec<u8>,
}

/// The code of an error of MPI.
#[derive(Debug)]
pub struct Failed(pub c_int);

fn ok(code: c_int) -> Result<(), Failed> {
    if code == 0 { Ok(()) } else { Err(Failed(code)) }
}

impl Mpi {
    /// The functions and constants of this library, or the name of what it lacks.
    pub fn new(
        library: libloading::os::unix::Library,
        abi: Abi,
        version: String,
        path: String,
    ) -> Result<Self, String> {
        let functions = match abi.pointers {
            true => Either::Pointers(Functions::of(&library)?),
            false => Either::Numbers(Functions::of(&library)?),
        };
        Ok(Self { version, path, abi, functions, _library: ManuallyDrop::new(library) })
    }

    /// Initialises MPI, for this thread alone or for one thread at a time.
    ///
    /// # Errors
    ///
    /// MPI was initialised before, or can't do this.
    pub fn initialise(&self, any_thread: bool) -> Result<(), String> {
        let (mut before, mut given) = (0, 0);
        let wanted = if any_thread { self.abi.serialized } else { self.abi.single };
        // SAFETY: MPI reads no arguments of the program that it is not given. A process can do this once.
        let code = unsafe {
            call!(self, initialized(&mut before));
            if before != 0 {
                return Err("initialised by the program before; remove that call".into());
            }
            call!(self, init_thread(std::ptr::null_mut(), std::ptr::null_mut(), wanted, &mut given))
        };
        match code {
            0 if given >= wanted => Ok(()),
            0 => Err(format!("{} can be used by one thread only", self.version)),
            _ => Err(format!("{} can't be initialised (error {code})", self.version)),
        }
    }

    /// Finalises MPI. Nobody may call it any more.
    pub fn finalise(&self) {
        // SAFETY: The caller has the right to call MPI.
        unsafe { call!(self, finalize()) };
    }

    /// All processes of the job.
    pub fn world(&'static self) -> Communicator {
        Communicator { mpi: self, handle: self.abi.world, of_a_thread: PhantomData }
    }

    /// Whether the library does what its family promises, as far as this process sees it: sizes, and a message to itself.
    /// Returns the first thing that is wrong. Local, unless the library has put several processes together wrongly.
    pub fn test_itself(&self, all: &Communicator) -> Result<(), String> {
        static SENT: [u8; 9] = *b"to itself";
        let expect = |what: &str, right: bool, came: String| match right {
            true => Ok(()),
            false => Err(format!("{what}: {came}")),
        };
        all.return_errors();
        for (name, datatype, expected) in [("MPI_BYTE", self.abi.byte, 1), ("MPI_DOUBLE", self.abi.double, 8)] {
            let mut size = -1;
            // SAFETY: The library's family has a datatype of this name.
            unsafe { call!(self, type_size(datatype.into(), &mut size)) };
            expect("the size of its datatypes", size == expected, format!("{name} has {size} bytes, not {expected}"))?;
        }
        let (rank, size) = (all.rank(), all.size());
        expect("ranks", rank < size, format!("this process is rank {rank} of {size}"))?;
        let failed = |code: c_int| format!("a message to itself: error {code}");
        // SAFETY: Nobody changes the bytes, which are there for ever.
        let request = unsafe { all.start_send(&SENT, rank, 1) }.map_err(|Failed(code)| failed(code))?;
        let deadline = Instant::now() + Duration::from_secs(10);
        let came = loop {
            match all.take(1).map_err(|(_, Failed(code))| failed(code))? {
                Some(came) => break came,
                None => expect("a message to itself", Instant::now() < deadline, "none in 10 s".into())?,
            }
        };
        self.wait(request);
        let right = came.from == rank && came.bytes == SENT;
        expect("a message to itself", right, format!("{} bytes from rank {}", came.bytes.len(), came.from))
    }

    /// Whether operators and divisions of communicators do what they should; collective. Returns the first thing that is wrong,
    /// which is the same in all processes unless only some of them see it.
    pub fn test_together(&self, all: &Communicator) -> Result<(), String> {
        let (rank, n) = (all.rank(), f64::from(all.size()));
        // So that no product is too large for a number.
        let factor = [2.0, 3.0].get(rank as usize).copied().unwrap_or(1.0);
        let own = f64::from(rank) + 1.0;
        let mut wrong = Vec::new();
        for (operation, own, right) in [
            (Operation::Sum, own, n * (n + 1.0) / 2.0),
            (Operation::Product, factor, if n < 2.0 { 2.0 } else { 6.0 }),
            (Operation::Min, own, 1.0),
            (Operation::Max, own, n),
        ] {
            let mut result = [f64::NAN];
            all.all_reduce(&[own], &mut result, operation);
            if result != [right] {
                wrong.push(format!("an allreduce: {operation:?} is {}, not {right}", result[0]));
            }
        }
        let (even, host) = (all.of_those(rank % 2 == 0), all.sharing_memory());
        let sizes = (even.as_ref().map_or(0, Communicator::size), host.size());
        let expected = if rank % 2 == 0 { all.size().div_ceil(2) } else { 0 };
        if sizes.0 != expected || sizes.1 == 0 || sizes.1 > all.size() {
            wrong
                .push(format!("divided communicators: {} and {} processes, not {expected} and some", sizes.0, sizes.1));
        }
        even.into_iter().chain([host]).for_each(Communicator::free);
        wrong.into_iter().next().map_or(Ok(()), Err)
    }

    /// Whether an operation has ended. It must not be asked again.
    pub fn has_ended(&self, Request(request): &mut Request) -> Result<bool, Failed> {
        let (mut over, mut status) = (0, Status::default());
        // SAFETY: The request has been started and has not ended.
        ok(unsafe { call!(self, test(request.place(), &mut over, &mut status)) })?;
        Ok(over != 0)
    }

    /// Waits for the end of an operation.
    pub fn wait(&self, Request(mut request): Request) {
        let mut status = Status::default();
        // SAFETY: The request has been started and has not ended.
        unsafe { must!(self, wait(request.place(), &mut status)) };
    }
}

/// What MPI can send: elements of these types.
pub trait Element: Copy + sealed::Sealed {}

mod sealed {
    /// The datatype in MPI, and how many of its elements one of these is.
    pub trait Sealed {
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
